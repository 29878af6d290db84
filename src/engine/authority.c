/* Authority: the one place that decides whether this engine may say that a lease lives.
 *
 * A lease lives, to a reader, only if both hold:
 *   1. The engine may speak for the log at all. engine_authority gives the reason why not: HALTED
 *      or LOST today; "this node does not own the log" becomes one more reason there.
 *   2. The engine's clock has not reached the lease's deadline. The state only knows the time that
 *      the log has recorded, and a tick can be impossible (a full disk, a read inside a callback) or
 *      can leave work behind (it is a bounded step). So a lease is judged by the clock as well.
 *
 * What fails 2 is shown as OVERDUE instead of its stored state, so a caller that compares with
 * ACTIVE fails closed without knowing about this page. `revoking` stays: its holder has lost its
 * authority already, and nobody else may have the values yet. */
#include "engine/internal.h"

enum tn_result engine_authority(const struct engine *engine) {
    return (enum tn_result)atomic_load_explicit(&engine->stopped, memory_order_acquire);
}

bool engine_authority_mark(struct kernel_lease_view *view, uint64_t clock_ms) {
    bool claims = view->state == KERNEL_RESERVED || view->state == KERNEL_ACTIVE ||
                  view->state == KERNEL_OFFLINE;
    bool passed = view->deadline_ms != 0 && view->deadline_ms <= clock_ms;
    if (claims && passed) {
        view->state = KERNEL_OVERDUE;
    }
    return claims && passed;
}
