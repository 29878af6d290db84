/* Internal: operations remembered (ops.c). */
#ifndef TN_KERNEL_OPS_H
#define TN_KERNEL_OPS_H

#include "kernel/state.h"

/* Answers from the table if the id is known: true and the result. */
bool kernel_op_replay(struct kernel *k, const struct kernel_command *command,
                      struct tn_bytes encoded, struct kernel_result *ret_result);
/* Before the command runs: OK and everything kernel_op_end will need is set aside, or OPS_FULL or
 * NAMES_FULL. */
enum tn_result kernel_op_begin(struct kernel *k, const struct kernel_command *command,
                               uint32_t *ret_user);
/* After it: remembers the result. */
void kernel_op_end(struct kernel *k, const struct kernel_command *command, struct tn_bytes encoded,
                   uint32_t user, const struct kernel_result *result);
/* Replaces the remembered answer WAITING of a waiting lease by its final answer. */
void kernel_op_answer(struct kernel *k, const struct waiter *waiter,
                      const struct kernel_result *result);
/* True if the entry's result can be given again; of one that was loaded. */
bool kernel_op_readable(const struct kernel *k, uint32_t slot);
/* Removes at most `budget` expired operations. */
void kernel_op_purge(struct kernel *k, uint32_t budget);

#endif
