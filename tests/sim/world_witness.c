/* A witness remembers tokens that were granted, long after their holders have forgotten them, and
 * asks about them at any time: on a full disk, after ticks that left work behind, without a tick.
 *
 * It judges by two clocks that are the world's own: the engine's time as the machine's clocks demand
 * it, and the true time since the server is up, of which the engine may lose at most an eighth.
 * When either has passed a deadline, nothing that is read may say that the lease lives. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "sim/world.h"

void world_witness_take(struct world *w, const char *pool, const struct kernel_result *head) {
    w->tokens[w->token_count++ % WORLD_TOKENS] =
        (struct world_token){.pool = pool, .lease = head->lease, .epoch = head->epoch};
}

static bool passed(struct world *w, uint64_t deadline_ms) {
    uint64_t up_ms = w->true_ms - w->up_true_ms;
    return deadline_ms != 0 &&
           (deadline_ms <= world_now(w) || deadline_ms <= w->base_ms + up_ms / 8 * 7);
}

static void shown_check(struct world *w, const struct kernel_lease_view *view) {
    bool lives = view->state == KERNEL_RESERVED || view->state == KERNEL_ACTIVE ||
                 view->state == KERNEL_OFFLINE;
    if (lives && passed(w, view->deadline_ms)) {
        world_fail(w,
                   "at %" PRIu64 " lease %" PRIu64 " is shown as %s, but its deadline was %" PRIu64,
                   world_now(w), view->id.lsn, kernel_state_name(view->state), view->deadline_ms);
    }
}

/* What the answer must be: the ledger's, but for a deadline that the ledger has not seen pass. */
static enum tn_result wanted(struct world *w, const struct world_token *token) {
    struct kernel_lease_view view = {.deadline_ms = 0};
    enum tn_result want = kernel_verify(w->ledger.kernel, token->lease, token->epoch, &view);
    return want == TN_R_OK && passed(w, view.deadline_ms) ? TN_R_OVERDUE : want;
}

static void pool_check(struct world *w, const struct world_token *token) {
    struct kernel_pool_view pool;
    uint64_t lsn;
    enum tn_result code = engine_pool_read(
        w->engine, ENGINE_READ_AS_IS, tn_bytes_of(token->pool, strlen(token->pool)), &pool, &lsn);
    if (code == TN_R_OK && pool.active > 0 && pool.overdue_since_ms == 0) {
        world_fail(w, "%s has an overdue lease and says nothing of it", token->pool);
    }
}

static void token_check(struct world *w, const struct world_token *token) {
    struct engine_lease lease;
    bool as_is = world_chance(w, 50);
    enum engine_read_mode how = as_is ? ENGINE_READ_AS_IS : ENGINE_READ_CURRENT;
    enum tn_result code = engine_verify(w->engine, how, token->lease, token->epoch, &lease);
    world_server_settle(w);
    if (w->halted) {
        return;
    }
    enum tn_result want = wanted(w, token);
    if (code != want) {
        world_fail(w, "at %" PRIu64 " lease %" PRIu64 " epoch %" PRIu64 " is %s, and should be %s",
                   world_now(w), token->lease.lsn, token->epoch, tn_result_name(code),
                   tn_result_name(want));
    }
    if (code == TN_R_OVERDUE) {
        w->counts.overdue++;
        pool_check(w, token);
    }
    bool full = w->full_until_ms != 0 || w->planned; /* then a read cannot move time */
    if (code == TN_R_OVERDUE && !as_is && !full) {
        world_fail(w, "the end of lease %" PRIu64 " could have been recorded", token->lease.lsn);
    }
    shown_check(w, &lease.view);
}

static void page_check(struct world *w) {
    struct engine_lease page[16];
    struct kernel_lease_filter filter = {.state = KERNEL_NO_STATE};
    enum engine_read_mode how = world_chance(w, 50) ? ENGINE_READ_AS_IS : ENGINE_READ_CURRENT;
    uint64_t cursor = 0;
    uint64_t lsn;
    do {
        uint32_t count = 0;
        enum tn_result code =
            engine_leases_list(w->engine, how, &filter, &cursor, page, 16, &count, &lsn);
        world_server_settle(w);
        if (code != TN_R_OK || w->halted) {
            return;
        }
        for (uint32_t i = 0; i < count; i++) {
            shown_check(w, &page[i].view);
        }
    } while (cursor != 0);
}

void world_witness_ask(struct world *w) {
    uint64_t known = w->token_count < WORLD_TOKENS ? w->token_count : WORLD_TOKENS;
    for (uint64_t i = 0; i < known && !w->halted; i++) {
        token_check(w, &w->tokens[i]);
    }
    if (!w->halted) {
        page_check(w);
    }
}
