/* What the file declares and what there is: the difference becomes ordinary commands. */
#ifndef TN_CONFIG_RECONCILE_H
#define TN_CONFIG_RECONCILE_H

#include "config/config.h"
#include "engine/engine.h"

struct declared_report {
    uint32_t pools_created, pools_altered, sensors_set, rules_set;
    uint32_t refused[CONFIG_KINDS];
};

/* Creates the declared pools that are missing, alters those whose policy is another one, adds missing
 * names to sets; sets sensors and rules that are missing or differ. What the engine refuses is logged
 * and left as it is; what is not declared is left alone. Where nothing differs nothing is written.
 * Blocks; from any thread but the engine's own. */
struct declared_report declared_reconcile(struct engine *engine, const struct config *config);

/* ---- Among the files that do it ---- */

struct declared_work {
    struct engine *engine;
    enum config_kind kind; /* what is being worked on */
    uint8_t *encoded;      /* KERNEL_COMMAND_MAX bytes */
    struct declared_report report;
};

void declared_refused(struct declared_work *work, const struct config_head *head, const char *what,
                      enum tn_result code);
/* As an operator. False: it was refused, and that is logged. */
bool declared_execute(struct declared_work *work, const struct config_head *head,
                      struct kernel_command *command);

void declared_pools(struct declared_work *work, const struct config *config);
void declared_sensors(struct declared_work *work, const struct config *config);
void declared_rules(struct declared_work *work, const struct config *config);

#endif
