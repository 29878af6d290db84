/* Implements pool_history.h and POOL HISTORY. */
#include "server/pool_history.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "protocol/render.h"
#include "server/handler.h"
#include "server/owners.h"

#define RING_FIRST 16u
#define MINUTE_MS 60000u

/* ---- Samples of one pool ---- */

static uint32_t capped(uint64_t number) {
    return number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
}

static const struct history_sample *ring_at(const struct history_ring *ring, uint32_t i) {
    TN_ASSERT(i < ring->count);
    return &ring->of[(ring->first + i) % ring->capacity];
}

/* Makes room for one more sample, up to `most`. If the ring cannot grow, it drops its oldest
 * sample. */
static bool ring_grow(struct history_ring *ring, uint32_t most) {
    uint32_t capacity = ring->capacity == 0 ? RING_FIRST : 2 * ring->capacity;
    capacity = capacity < most ? capacity : most;
    struct history_sample *bigger = malloc(capacity * sizeof *bigger);
    if (bigger == NULL) {
        return ring->capacity > 0;
    }
    for (uint32_t i = 0; i < ring->count; i++) {
        bigger[i] = *ring_at(ring, i);
    }
    free(ring->of);
    *ring = (struct history_ring){.of = bigger, .capacity = capacity, .count = ring->count};
    return true;
}

static void ring_add(struct history_ring *ring, uint32_t most,
                     const struct history_sample *sample) {
    if (ring->count == ring->capacity && ring->capacity < most && !ring_grow(ring, most)) {
        return;
    }
    if (ring->count == ring->capacity) {
        ring->first = (ring->first + 1) % ring->capacity;
        ring->count--;
    }
    ring->of[(ring->first + ring->count++) % ring->capacity] = *sample;
}

/* The sample of an hour has the last figures of its minutes and the sums of their counts. */
static void hour_add(struct history_pool *pool, const struct history_sample *sample) {
    uint64_t hour = sample->time_ms / (60 * MINUTE_MS);
    if (pool->hour_begun && pool->hour.time_ms / (60 * MINUTE_MS) != hour) {
        ring_add(&pool->hours, HISTORY_HOURS, &pool->hour);
        pool->hour_begun = false;
    }
    struct history_sample sum = *sample;
    if (pool->hour_begun) {
        const struct history_sample *before = &pool->hour;
        sum.given = capped((uint64_t)before->given + sample->given);
        sum.ended = capped((uint64_t)before->ended + sample->ended);
        sum.refused = capped((uint64_t)before->refused + sample->refused);
        sum.peak = before->peak > sample->peak ? before->peak : sample->peak;
        sum.ultra = before->ultra || sample->ultra;
        sum.force_zero = before->force_zero || sample->force_zero;
    }
    pool->hour = sum;
    pool->hour_begun = true;
}

/* The counts of a pool that was dropped and created again begin at zero. */
static uint32_t since(uint64_t now, uint64_t *before) {
    uint64_t more = now >= *before ? now - *before : now;
    *before = now;
    return capped(more);
}

static uint64_t given_total(const struct metrics_pool *row) {
    return row->counters.allocated + row->counters.returned;
}

static uint64_t ended_total(const struct metrics_pool *row) {
    return row->counters.released + row->counters.expired + row->counters.revoked;
}

static void pool_sample(struct history_pool *pool, const struct metrics_pool *row,
                        uint64_t now_ms) {
    struct history_sample sample = {.time_ms = now_ms,
                                    .size = row->size,
                                    .waiting = capped(row->waiting),
                                    .peak = capped(row->used),
                                    .given = since(given_total(row), &pool->given),
                                    .ended = since(ended_total(row), &pool->ended),
                                    .refused = since(pool->refused_now, &pool->refused),
                                    .lease_s = capped(row->lease_s),
                                    .rate_milli = capped(row->rate_nano * 36 / 10000),
                                    .ultra = row->ultra,
                                    .force_zero = row->force_zero};
    for (unsigned i = 0; i < 5; i++) {
        sample.states[i] = capped(row->states[i]);
    }
    ring_add(&pool->minutes, HISTORY_MINUTES, &sample);
    hour_add(pool, &sample);
}

/* ---- The pools ---- */

static uint16_t *slot_of(struct server_history *history, uint64_t name_hash) {
    uint32_t mask = 2 * HISTORY_POOLS - 1;
    uint32_t i = (uint32_t)(name_hash >> 32) & mask;
    while (history->slots[i] != 0 && history->of[history->slots[i] - 1]->name_hash != name_hash) {
        i = (i + 1) & mask;
    }
    return &history->slots[i];
}

static struct history_pool *pool_find(struct server_history *history, uint64_t name_hash) {
    uint16_t slot = *slot_of(history, name_hash);
    return slot != 0 ? history->of[slot - 1] : NULL;
}

static void pool_free(struct history_pool *pool) {
    free(pool->minutes.of);
    free(pool->hours.of);
    free(pool);
}

static void pools_remove_dropped(struct server_history *history,
                                 const struct metrics_pools *pools) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < history->count; i++) {
        if (metrics_pools_find(pools, history->of[i]->name_hash) != NULL) {
            history->of[kept++] = history->of[i];
        } else {
            pool_free(history->of[i]);
        }
    }
    if (kept < history->count) {
        memset(history->slots, 0, sizeof history->slots);
        history->count = 0;
        while (history->count < kept) {
            uint16_t *slot = slot_of(history, history->of[history->count]->name_hash);
            *slot = (uint16_t)++history->count;
        }
    }
}

static void pool_add(struct server_history *history, const struct metrics_pool *row) {
    struct history_pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL) {
        return; /* tried again at the next sample */
    }
    pool->name_hash = row->name_hash;
    memcpy(pool->name, row->name, row->name_len + 1u);
    pool->given = given_total(row);
    pool->ended = ended_total(row);
    history->of[history->count] = pool;
    *slot_of(history, row->name_hash) = (uint16_t)(history->count + 1);
    history->count++;
}

static void pools_add_new(struct server_history *history, const struct metrics_pools *pools,
                          bool scopes) {
    for (uint32_t i = 0; i < pools->count && history->count < HISTORY_POOLS; i++) {
        const struct metrics_pool *row = &pools->of[i];
        bool scope = memchr(row->name, '@', row->name_len) != NULL;
        if (scope == scopes && pool_find(history, row->name_hash) == NULL) {
            pool_add(history, row);
        }
    }
}

static void refusals_sum(struct server_history *history, const struct server_refusals *refusals) {
    for (uint32_t i = 0; i < history->count; i++) {
        history->of[i]->refused_now = 0;
    }
    for (uint32_t i = 0; refusals->used > 0 && i < SERVER_REFUSALS; i++) {
        const struct server_refusal *refusal = &refusals->of[i];
        struct history_pool *pool =
            refusal->count > 0 ? pool_find(history, refusal->name_hash) : NULL;
        if (pool != NULL) {
            pool->refused_now += refusal->count;
        }
    }
}

/* The refusals of a new pool are counted from its first sample on, like its other totals. Those
 * before it may belong to many minutes. */
static void refusals_begin(struct server_history *history, uint32_t first) {
    for (uint32_t i = first; i < history->count; i++) {
        history->of[i]->refused = history->of[i]->refused_now;
    }
}

/* Only this thread changes the history, so it may release the lock between two pools. A reader
 * waits while the rings of one pool grow, not those of all pools. */
void server_history_sample(struct server_history *history, const struct metrics_pools *pools,
                           const struct server_refusals *refusals, uint64_t now_ms) {
    if (now_ms / MINUTE_MS <= history->minute) {
        return;
    }
    history->minute = now_ms / MINUTE_MS;
    uv_mutex_lock(&history->lock);
    pools_remove_dropped(history, pools);
    uint32_t known = history->count;
    pools_add_new(history, pools, false);
    pools_add_new(history, pools, true);
    uv_mutex_unlock(&history->lock);
    refusals_sum(history, refusals);
    refusals_begin(history, known);
    for (uint32_t i = 0; i < history->count; i++) {
        struct history_pool *pool = history->of[i];
        uv_mutex_lock(&history->lock);
        pool_sample(pool, metrics_pools_find(pools, pool->name_hash), now_ms);
        uv_mutex_unlock(&history->lock);
    }
}

bool server_history_init(struct server_history *history) {
    *history = (struct server_history){.count = 0};
    return uv_mutex_init(&history->lock) == 0;
}

void server_history_free(struct server_history *history) {
    for (uint32_t i = 0; i < history->count; i++) {
        pool_free(history->of[i]);
    }
    uv_mutex_destroy(&history->lock);
}

/* ---- POOL HISTORY: a column for each figure ---- */

enum column {
    COLUMN_TIME,
    COLUMN_SIZE,
    COLUMN_RESERVED, /* from here on, the five states in the order of history_sample.states */
    COLUMN_ACTIVE,
    COLUMN_OFFLINE,
    COLUMN_REVOKING,
    COLUMN_COOLING,
    COLUMN_WAITING,
    COLUMN_PEAK,
    COLUMN_GIVEN,
    COLUMN_ENDED,
    COLUMN_REFUSED,
    COLUMN_LEASE,
    COLUMN_RATE,
    COLUMN_ULTRA,
    COLUMN_FORCE_ZERO,
    COLUMN_COUNT,
};

static const char *const column_names[COLUMN_COUNT] = {
    "time", "size",  "reserved", "active",  "offline", "revoking",      "cooling", "waiting",
    "peak", "given", "ended",    "refused", "lease",   "rate_per_hour", "ultra",   "force_zero"};

static void column_value(struct protocol_writer *w, const struct history_sample *sample,
                         enum column column) {
    const uint64_t numbers[COLUMN_COUNT] = {
        sample->time_ms,   sample->size,       sample->states[0], sample->states[1],
        sample->states[2], sample->states[3],  sample->states[4], sample->waiting,
        sample->peak,      sample->given,      sample->ended,     sample->refused,
        sample->lease_s,   sample->rate_milli, sample->ultra,     sample->force_zero};
    if (column == COLUMN_RATE) {
        protocol_write_micro(w, (uint64_t)sample->rate_milli * 1000);
    } else if (column == COLUMN_SIZE || column == COLUMN_TIME) {
        protocol_write_u64(w, numbers[column]);
    } else {
        protocol_write_integer(w, (int64_t)numbers[column]);
    }
}

/* Writes the samples as columns. In a list of hours, the last sample is the hour being
 * accumulated. */
static void columns_write(struct protocol_writer *w, const struct history_pool *pool,
                          const struct protocol_call *call) {
    static const struct history_ring none;
    bool hours = call->select.hours;
    const struct history_ring *ring = pool == NULL ? &none : hours ? &pool->hours : &pool->minutes;
    uint32_t extra = pool != NULL && hours && pool->hour_begun ? 1 : 0;
    uint32_t all = ring->count + extra;
    uint32_t count =
        call->select.samples > 0 && call->select.samples < all ? call->select.samples : all;
    for (enum column column = 0; column < COLUMN_COUNT; column++) {
        protocol_write_text(w, column_names[column]);
        protocol_write_array(w, count);
        for (uint32_t i = all - count; i < all; i++) {
            column_value(w, i < ring->count ? ring_at(ring, i) : &pool->hour, column);
        }
    }
}

enum tn_result read_pool_history(struct server_request *request) {
    struct server_history *history = request->owners->history;
    struct protocol_writer *w = request->w;
    struct tn_bytes name = request->call.command.pool;
    enum tn_result code = engine_pool_known(request->owners->engine, request->how, name);
    if (code != TN_R_OK) {
        return code;
    }
    uv_mutex_lock(&history->lock);
    const struct history_pool *pool =
        pool_find(history, server_refusal_name_hash(name.at, name.len));
    if (pool != NULL &&
        (strlen(pool->name) != name.len || memcmp(pool->name, name.at, name.len) != 0)) {
        pool = NULL; /* another pool whose name has the same hash */
    }
    protocol_write_map(w, COLUMN_COUNT + 3);
    protocol_write_text(w, "pool");
    protocol_write_bulk(w, name.at, name.len);
    protocol_pair_text(w, "step", request->call.select.hours ? "hour" : "minute");
    protocol_pair_flag(w, "kept", pool != NULL);
    columns_write(w, pool, &request->call);
    uv_mutex_unlock(&history->lock);
    return TN_R_OK;
}
