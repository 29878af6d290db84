/* Internal: leases that wait in line for their values.
 *
 * An ALLOC or RESERVE with WAIT that would be refused with EXHAUSTED or BUSY creates its lease in the
 * state `waiting`: with its claims and without members. The lease gets its members later, when their
 * values are free and its turn has come, or it ends.
 *
 *     waiting --grant--> active | reserved
 *     waiting --its time is over--> expired (waited)
 *     waiting --a refusal for which waiting is no help--> expired (refused)
 *     waiting --its client is gone--> released (abandoned)
 *     waiting --release, disown, revoke--> released | revoked
 *
 * Each pool has a line: the attended waiters that want values of it, in the order of their leases'
 * LSNs. A waiter is served only while it is the first in the lines of all its pools. The earliest
 * attended waiter is the first everywhere, so a line always moves when the values for its first
 * waiter are free: nobody is starved and there is no deadlock. An allocation without WAIT is refused
 * while one of its pools has a line; the return of a sticky holder and an import are not.
 *
 * A waiter whose client is gone but may come back (its operation is remembered) is unattended: it is
 * in no line and keeps its LSN. If the operation is repeated within KERNEL_UNATTENDED_MS, it is in its
 * old place again.
 *
 * Serving is done in bounded steps at the end of each command. Whatever may let the first waiter of
 * a line go on puts the pool into the list of pools to serve: a value that becomes free, a pool that
 * grows or changes, a waiter that leaves the line or comes back to it. A pool leaves the list when
 * its line is empty or its first waiter cannot be served; the event that changes this puts it back.
 * While the list is not empty, ticks are due.
 *
 * Invariants, beyond those of kernel.h (kernel_check counts all of them):
 *   1  a waiting lease has a waiter and no members; a waiter has a waiting lease
 *   2  a waiter has one want for each pool of its claims; pool.waiting counts them, and a pool with
 *      wants is live
 *   3  the lines hold exactly the attended waiters, each in the line of each pool that it wants
 *   4  a waiter that is the first in all its lines and whose values are free has a pool in the list
 *      of pools to serve: no wake-up is lost
 *   5  no grant to a waiter fails for lack of room: its lease record, names, metadata, members
 *      (root.members_waiting, at most half of all) and the text of its remembered answer
 *      (root.op_chunks_waiting) are counted when it joins */
#ifndef TN_KERNEL_WAITING_H
#define TN_KERNEL_WAITING_H

#include "kernel/claim.h"

/* ---- line.c: lines, and the list of pools to serve ---- */

/* The first waiter in the pool's line, or TN_NONE. */
uint32_t kernel_line_first(const struct kernel *k, uint32_t pool);
/* The attended waiters in the pool's line. */
uint64_t kernel_line_length(const struct kernel *k, uint32_t pool);
/* Puts an attended waiter into its lines, or takes it out of them. */
void kernel_line_enter(struct kernel *k, uint32_t waiter);
void kernel_line_exit(struct kernel *k, uint32_t waiter);
/* The largest number of waiters before this lsn in one of the waiter's lines, up to
 * KERNEL_PLACE_LOOKED; and that pool, or its first pool if there are none before it. */
uint64_t kernel_line_before(const struct kernel *k, uint32_t waiter, uint32_t *ret_pool);
/* Puts the pool into the list of pools to serve, if its line is not empty. */
void kernel_line_stir(struct kernel *k, uint32_t pool);
void kernel_line_stir_all(struct kernel *k, uint32_t waiter);
/* The same for a pool whose policy has changed, and for the scopes that follow it. They forget cold
 * values if they must, so that an attempt to serve changes nothing when it fails. */
void kernel_line_stir_policy(struct kernel *k, uint32_t pool);
void kernel_line_unlist(struct kernel *k, uint32_t pool);
/* Puts the attended waiters into their lines, in a new index. */
void kernel_line_rebuild(struct kernel *k);

/* ---- waiting.c: joining and leaving ---- */

/* OK; or the refusal of a WAIT that no state could allow. The pools of the request are known. */
enum tn_result kernel_wait_check(const struct kernel *k, struct request *q);
/* OK, or EXHAUSTED or BUSY if a pool of the request has a line. */
enum tn_result kernel_wait_turn(const struct kernel *k, struct request *q);
/* Whether this refusal may end by itself. */
static inline bool kernel_wait_helps(enum tn_result refusal) {
    return refusal == TN_R_EXHAUSTED || refusal == TN_R_BUSY;
}
/* Creates the lease of a request that was refused, in line: WAITING; or WAITERS_FULL. The caller has
 * checked the room for the lease. */
enum tn_result kernel_wait_join(struct kernel *k, struct request *q, enum tn_result refusal);
/* The lease's client has disconnected. */
void kernel_wait_unattend(struct kernel *k, uint32_t lease);
/* The lease's client is back. */
void kernel_wait_attend(struct kernel *k, uint32_t lease);

/* The operation that is remembered as `op` made this waiter; or is forgotten (TN_NONE). */
void kernel_wait_op_set(struct kernel *k, uint32_t waiter, uint32_t op);

/* Around the one transition out of `waiting`: lease.c calls both. */
struct kernel_wait_end {
    struct waiter waiter;
    uint64_t before;
};
void kernel_wait_leave(struct kernel *k, uint32_t lease, struct kernel_wait_end *ret_end);
void kernel_wait_answer(struct kernel *k, uint32_t lease, const struct kernel_wait_end *end);

/* Subtracts from the budget of a command what the ends of its waiters have cost beyond a transition
 * each, because each end searches the lines for the waiters before it. */
void kernel_wait_charge(struct kernel *k, uint32_t *budget);

/* ---- serve.c ---- */

/* Serves the lines; `budget` bounds the values and lines looked at. */
void kernel_wait_serve(struct kernel *k, uint32_t budget);

/* ---- check_waiting.c: part of kernel_check ---- */

/* The first broken invariant, or NULL; *ret_where is the record. `wants` (one a pool) is scratch. */
const char *kernel_wait_broken(const struct kernel *k, uint64_t *wants, uint64_t *ret_where);

/* ---- links_waiting.c: part of kernel_links_good ---- */
bool kernel_wait_links_good(const struct kernel *k);

#endif
