/* Compares the declarations in the file with the state: the differences become ordinary commands. */
#ifndef TN_CONFIG_RECONCILE_H
#define TN_CONFIG_RECONCILE_H

#include "config/config.h"
#include "engine/engine.h"

struct config_reconcile_report {
    uint32_t pools_created, pools_altered, sensors_set, rules_set;
    uint32_t refused[CONFIG_KINDS];
};

/* Creates the declared pools that are missing, alters those whose policy differs, adds missing names
 * to sets; sets sensors and rules that are missing or differ. A refusal of the engine is logged. Pools,
 * sensors and rules that are not declared do not change. Without differences nothing is written.
 * Blocks; from any thread but the engine's own. */
struct config_reconcile_report config_reconcile(struct engine *engine, const struct config *config);

/* ---- Among the files that do it ---- */

struct config_reconcile_work {
    struct engine *engine;
    enum config_kind kind; /* the kind being processed */
    struct config_reconcile_report report;
};

void config_reconcile_refused(struct config_reconcile_work *work, const struct config_head *head,
                              const char *what, enum tn_result code);
/* Executes the command as an operator. False: it was refused, which has been logged. */
bool config_reconcile_execute(struct config_reconcile_work *work, const struct config_head *head,
                              struct kernel_command *command);

void config_reconcile_pools(struct config_reconcile_work *work, const struct config *config);
void config_reconcile_sensors(struct config_reconcile_work *work, const struct config *config);
void config_reconcile_rules(struct config_reconcile_work *work, const struct config *config);

#endif
