/* Metrics of sticky pools, pushed to the embedding program: each pool at its own interval, when
 * something changed since the last time.
 *
 * One look walks all pools, a few per hold of the state lock, and calls the listener with no lock
 * held. What was last told is remembered as a digest, in a small table that is simply emptied when
 * pools that came and went have filled it: then everything is told once more. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "engine/internal.h"

#define METRICS_POOLS_PER_HOLD 16u

/* The metrics of a few pools, read under one hold of the lock. */
struct metrics_page {
    struct engine_metrics of[METRICS_POOLS_PER_HOLD];
    uint64_t interval_ms[METRICS_POOLS_PER_HOLD];
    uint32_t count;
    uint64_t cursor;
    uint64_t lsn;
};

void engine_metrics_of_view(const struct kernel_pool_view *view, uint64_t clock_ms,
                            struct engine_metrics *out) {
    memset(out, 0, sizeof *out); /* clears the padding, too, because the struct is hashed */
    memcpy(out->pool, view->name, view->name_len);
    out->base_lease_seconds = view->policy.of[KERNEL_OPTION_LEASE];
    out->effective_lease_seconds = view->effective_lease_s;
    out->new_device_rate_per_hour_micro = view->rate_micro;
    out->ultra_rate_active = view->ultra_active;
    out->force_zero_lease_active = view->force_zero;
    out->last_reclaim_count = view->counters.last_reclaim_count;
    out->last_reclaim_at = view->counters.last_reclaim_ms / 1000;
    out->total_reclaimed = view->counters.reclaimed;
    out->allocated_count = view->reserved + view->active + view->offline + view->revoking;
    out->released_count = view->ever_used_free;
    out->updated_at = clock_ms / 1000;
}

static bool metrics_read_page(void *ctx, const struct kernel *kernel, uint64_t clock_ms) {
    struct metrics_page *page = ctx;
    struct kernel_pool_view view;
    page->count = 0;
    page->lsn = kernel_lsn(kernel);
    for (uint32_t i = 0; i < METRICS_POOLS_PER_HOLD; i++) {
        bool found = false;
        page->cursor = kernel_pools_scan(kernel, page->cursor, clock_ms, &view, &found);
        if (found && view.policy.of[KERNEL_OPTION_STICKY] != 0) {
            engine_metrics_of_view(&view, clock_ms, &page->of[page->count]);
            page->interval_ms[page->count++] = view.policy.of[KERNEL_OPTION_METRICS_SECONDS] * 1000;
        }
        if (page->cursor == 0) {
            break;
        }
    }
    return false;
}

static struct engine_meter *metrics_find(struct engine_meters *meters, uint64_t name_hash) {
    if (meters->count > meters->capacity / 2) {
        memset(meters->of, 0, meters->capacity * sizeof *meters->of);
        meters->count = 0;
    }
    uint32_t mask = meters->capacity - 1;
    uint32_t i = (uint32_t)name_hash & mask;
    while (meters->of[i].name_hash != 0 && meters->of[i].name_hash != name_hash) {
        i = (i + 1) & mask;
    }
    if (meters->of[i].name_hash == 0) {
        meters->of[i] = (struct engine_meter){.name_hash = name_hash};
        meters->count++;
    }
    return &meters->of[i];
}

static void metrics_tell(struct engine *engine, struct engine_metrics *metrics,
                         uint64_t interval_ms) {
    uint64_t now_ms = engine_now(engine);
    uint64_t name_hash = tn_hash64(metrics->pool, strlen(metrics->pool), 0) | 1;
    struct engine_meter *meter = metrics_find(&engine->meters, name_hash);
    uint64_t updated_at = metrics->updated_at;
    metrics->updated_at = 0;
    uint64_t digest = tn_hash64(metrics, sizeof *metrics, 1);
    metrics->updated_at = updated_at;
    if (now_ms < meter->next_ms || digest == meter->digest) {
        return;
    }
    meter->digest = digest;
    meter->next_ms = now_ms + interval_ms;
    struct engine_delivery delivery;
    engine_deliver_begin(engine, &delivery);
    engine->options.metrics(engine->options.metrics_ctx, metrics);
    engine_deliver_end(&delivery);
}

/* A pool can change without a command, because its rate falls with time. */
static bool metrics_worth_a_look(const struct engine *engine) {
    return engine->meters.sticky_seen > 0 || engine->meters.lsn_seen != atomic_load(&engine->lsn);
}

void engine_metrics_run(struct engine *engine) {
    struct engine_meters *meters = &engine->meters;
    if (atomic_exchange(&meters->busy, true)) {
        return;
    }
    struct metrics_page page = {0};
    if (metrics_worth_a_look(engine)) {
        uint32_t sticky = 0;
        do {
            /* This is the commit thread, which must not wait for the log: the log's thread may be waiting
             * for this one. So the read asks nobody. */
            if (engine_authority(engine) != TN_R_OK ||
                engine_read(engine, ENGINE_READ_STALE, metrics_read_page, &page) != TN_R_OK) {
                break;
            }
            for (uint32_t i = 0; i < page.count; i++) {
                metrics_tell(engine, &page.of[i], page.interval_ms[i]);
            }
            sticky += page.count;
        } while (page.cursor != 0);
        meters->sticky_seen = sticky;
        meters->lsn_seen = page.lsn;
    }
    atomic_store(&meters->busy, false);
}

enum tn_status engine_metrics_init(struct engine *engine) {
    struct engine_meters *meters = &engine->meters;
    if (engine->options.metrics == NULL || meters->of != NULL) {
        return TN_OK;
    }
    uint64_t pools = kernel_limits_of(engine->kernel)->of[KERNEL_LIMIT_RATES];
    meters->capacity = 16;
    while (meters->capacity < 4 * pools) {
        meters->capacity *= 2;
    }
    meters->of = calloc(meters->capacity, sizeof *meters->of);
    return meters->of != NULL ? TN_OK : TN_NOMEM;
}

void engine_metrics_free(struct engine *engine) {
    free(engine->meters.of);
}
