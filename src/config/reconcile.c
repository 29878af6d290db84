/* Reconciling: a read for each thing that is declared, and a command where something differs. */
#include "config/reconcile.h"

#include "server/log_line.h"

void config_reconcile_refused(struct config_reconcile_work *work, const struct config_head *head,
                              const char *what, enum tn_result code) {
    static const char *const events[CONFIG_KINDS] = {[CONFIG_KIND_POOL] = "pool_refused",
                                                     [CONFIG_KIND_SENSOR] = "sensor_refused",
                                                     [CONFIG_KIND_RULE] = "rule_refused"};
    work->report.refused[work->kind]++;
    server_log(events[work->kind], "name=%s command=%s result=%s reason=%s", head->name, what,
               tn_result_name(code), tn_result_text(code));
}

bool config_reconcile_execute(struct config_reconcile_work *work, const struct config_head *head,
                              struct kernel_command *command) {
    struct kernel_result result = {0};
    command->rights = KERNEL_RIGHT_OPERATOR;
    engine_execute(work->engine, command, &result);
    if (result.code != TN_R_OK && result.code != TN_R_NOOP) {
        config_reconcile_refused(work, head, kernel_verb_rows[command->verb].name, result.code);
        return false;
    }
    return true;
}

struct config_reconcile_report config_reconcile(struct engine *engine,
                                                const struct config *config) {
    static void (*const each[CONFIG_KINDS])(struct config_reconcile_work *,
                                            const struct config *) = {
        [CONFIG_KIND_POOL] = config_reconcile_pools,
        [CONFIG_KIND_SENSOR] = config_reconcile_sensors,
        [CONFIG_KIND_RULE] = config_reconcile_rules};
    struct config_reconcile_work work = {.engine = engine};
    for (unsigned kind = 0; kind < CONFIG_KINDS; kind++) {
        work.kind = (enum config_kind)kind;
        if (each[kind] != NULL) { /* the engine does not store users of the file */
            each[kind](&work, config);
        }
    }
    return work.report;
}
