/* Internal: the verbs. Each decides and acts; result->code says how it went. */
#ifndef TN_KERNEL_VERBS_H
#define TN_KERNEL_VERBS_H

#include "kernel/kernel.h"

typedef void kernel_verb_run(struct kernel *k, const struct kernel_command *command,
                             struct kernel_result *result);
kernel_verb_run kernel_run_tick, kernel_run_limits, kernel_run_restored, kernel_run_pool_create,
    kernel_run_pool_alter, kernel_run_pool_drop, kernel_run_pool_add, kernel_run_pool_remove,
    kernel_run_alloc, kernel_run_reserve, kernel_run_activate, kernel_run_touch, kernel_run_release,
    kernel_run_revoke, kernel_run_ack, kernel_run_reclaim, kernel_run_rekey, kernel_run_disown,
    kernel_run_sweep, kernel_run_rule_set, kernel_run_rule_enable, kernel_run_rule_delete,
    kernel_run_sensor_set, kernel_run_sensor_enable, kernel_run_sensor_delete, kernel_run_import,
    kernel_run_pool_seed, kernel_run_emit, kernel_run_sensor_report, kernel_run_unattend,
    kernel_run_user_add, kernel_run_user_set, kernel_run_user_delete;

/* The checks that all verbs share, before their own: OK, or the refusal. */
enum tn_result kernel_verb_check(const struct kernel_command *command,
                                 struct kernel_result *result);

#endif
