/* Reads of pools, rules, sensors and of the state as a whole. */
#include <stdio.h>

#include "engine/internal.h"
#include "engine/read.h"

/* A pool's counts depend on every deadline of its leases, so the state is always brought up to
 * date. */
struct pool_query {
    struct tn_bytes name;
    struct kernel_pool_view *view;
    struct engine_metrics *metrics;
    uint64_t lsn;
    enum tn_result answer;
};

static void lsn_tell(uint64_t *ret_lsn, uint64_t lsn) {
    if (ret_lsn != NULL) {
        *ret_lsn = lsn;
    }
}

static bool pool_reader(void *ctx, const struct kernel *kernel, uint64_t clock_ms) {
    struct pool_query *query = ctx;
    query->lsn = kernel_lsn(kernel);
    query->answer = kernel_pool_read(kernel, query->name, clock_ms, query->view);
    if (query->answer == TN_R_OK && query->metrics != NULL) {
        engine_metrics_of_view(query->view, clock_ms, query->metrics);
    }
    return query->answer == TN_R_OK && kernel_next_due(kernel) <= clock_ms;
}

enum tn_result engine_pool_read(struct engine *engine, enum engine_read_mode mode,
                                struct tn_bytes name, struct kernel_pool_view *ret_view,
                                uint64_t *ret_lsn) {
    struct pool_query query = {.name = name, .view = ret_view};
    enum tn_result verdict = engine_read(engine, mode, pool_reader, &query);
    *ret_lsn = query.lsn;
    return verdict == TN_R_OK ? query.answer : verdict;
}

enum tn_result engine_pool_metrics(struct engine *engine, enum engine_read_mode mode,
                                   struct tn_bytes name, struct engine_metrics *ret_metrics,
                                   uint64_t *ret_lsn) {
    struct kernel_pool_view view;
    struct pool_query query = {.name = name, .view = &view, .metrics = ret_metrics};
    enum tn_result verdict = engine_read(engine, mode, pool_reader, &query);
    lsn_tell(ret_lsn, query.lsn);
    if (verdict != TN_R_OK || query.answer != TN_R_OK) {
        return verdict != TN_R_OK ? verdict : query.answer;
    }
    return view.policy.of[KERNEL_OPTION_STICKY] != 0 ? TN_R_OK : TN_R_BAD_REQUEST;
}

static bool known_reader(void *ctx, const struct kernel *kernel, uint64_t clock_ms) {
    struct pool_query *query = ctx;
    (void)clock_ms;
    query->answer = kernel_pool_known(kernel, query->name) ? TN_R_OK : TN_R_POOL_NOTFOUND;
    return false;
}

enum tn_result engine_pool_known(struct engine *engine, enum engine_read_mode mode,
                                 struct tn_bytes name) {
    struct pool_query query = {.name = name};
    enum tn_result verdict = engine_read(engine, mode, known_reader, &query);
    return verdict == TN_R_OK ? query.answer : verdict;
}

struct identity_query {
    struct tn_bytes pool, holder;
    struct kernel_identity *identity;
    enum tn_result answer;
    bool has;
};

static bool identity_reader(void *ctx, const struct kernel *kernel, uint64_t clock_ms) {
    struct identity_query *query = ctx;
    (void)clock_ms;
    if (query->identity != NULL) {
        query->answer = kernel_identity_read(kernel, query->pool, query->identity);
    } else {
        query->has = kernel_holder_has(kernel, query->pool, query->holder);
    }
    return false;
}

enum tn_result engine_identity_read(struct engine *engine, struct tn_bytes pool,
                                    struct kernel_identity *ret_identity) {
    struct identity_query query = {.pool = pool, .identity = ret_identity};
    enum tn_result verdict = engine_read(engine, ENGINE_READ_STALE, identity_reader, &query);
    return verdict == TN_R_OK ? query.answer : verdict;
}

bool engine_holder_has(struct engine *engine, struct tn_bytes pool, struct tn_bytes holder) {
    struct identity_query query = {.pool = pool, .holder = holder};
    return engine_read(engine, ENGINE_READ_STALE, identity_reader, &query) == TN_R_OK && query.has;
}

/* One page of a table; `out` is an array of the table's views. */
struct page_query {
    uint64_t from, cursor;
    void *out;
    uint32_t capacity, count;
    uint64_t lsn;
};

static bool pools_reader(void *ctx, const struct kernel *kernel, uint64_t clock_ms) {
    struct page_query *query = ctx;
    struct kernel_pool_view *out = query->out;
    query->count = 0;
    query->cursor = query->from;
    query->lsn = kernel_lsn(kernel);
    while (query->count < query->capacity) {
        bool found = false;
        query->cursor =
            kernel_pools_scan(kernel, query->cursor, clock_ms, &out[query->count], &found);
        query->count += found;
        if (query->cursor == 0) {
            break;
        }
    }
    return query->count > 0 && kernel_next_due(kernel) <= clock_ms;
}

static bool rules_reader(void *ctx, const struct kernel *kernel, uint64_t clock_ms) {
    struct page_query *query = ctx;
    struct kernel_rule_view *out = query->out;
    (void)clock_ms;
    query->lsn = kernel_lsn(kernel);
    query->cursor = query->from;
    while (query->count < query->capacity) {
        bool found = false;
        query->cursor = kernel_rules_scan(kernel, query->cursor, &out[query->count], &found);
        query->count += found;
        if (query->cursor == 0) {
            break;
        }
    }
    return false;
}

static bool sensors_reader(void *ctx, const struct kernel *kernel, uint64_t clock_ms) {
    struct page_query *query = ctx;
    struct kernel_sensor_view *out = query->out;
    (void)clock_ms;
    query->lsn = kernel_lsn(kernel);
    query->cursor = query->from;
    while (query->count < query->capacity) {
        bool found = false;
        query->cursor = kernel_sensors_scan(kernel, query->cursor, &out[query->count], &found);
        query->count += found;
        if (query->cursor == 0) {
            break;
        }
    }
    return false;
}

static enum tn_result page_read(struct engine *engine, enum engine_read_mode mode,
                                engine_reader *reader, struct page_query *query, uint64_t *cursor,
                                uint32_t *ret_count) {
    enum tn_result verdict = engine_read(engine, mode, reader, query);
    *ret_count = verdict == TN_R_OK ? query->count : 0;
    if (verdict == TN_R_OK) {
        *cursor = query->cursor;
    }
    return verdict;
}

enum tn_result engine_pools_list(struct engine *engine, enum engine_read_mode mode,
                                 uint64_t *cursor, struct kernel_pool_view *out, uint32_t capacity,
                                 uint32_t *ret_count, uint64_t *ret_lsn) {
    struct page_query query = {.from = *cursor, .out = out, .capacity = capacity};
    enum tn_result verdict = page_read(engine, mode, pools_reader, &query, cursor, ret_count);
    *ret_lsn = query.lsn;
    return verdict;
}

enum tn_result engine_rules_list(struct engine *engine, enum engine_read_mode mode,
                                 uint64_t *cursor, struct kernel_rule_view *out, uint32_t capacity,
                                 uint32_t *ret_count, uint64_t *ret_lsn) {
    struct page_query query = {.from = *cursor, .out = out, .capacity = capacity};
    enum tn_result verdict = page_read(engine, mode, rules_reader, &query, cursor, ret_count);
    lsn_tell(ret_lsn, query.lsn);
    return verdict;
}

enum tn_result engine_sensors_list(struct engine *engine, enum engine_read_mode mode,
                                   uint64_t *cursor, struct kernel_sensor_view *out,
                                   uint32_t capacity, uint32_t *ret_count, uint64_t *ret_lsn) {
    struct page_query query = {.from = *cursor, .out = out, .capacity = capacity};
    enum tn_result verdict = page_read(engine, mode, sensors_reader, &query, cursor, ret_count);
    lsn_tell(ret_lsn, query.lsn);
    return verdict;
}

/* A rule or a sensor. */
struct demand_query {
    struct tn_bytes name;
    struct kernel_rule_view *rule;
    void *meta; /* memory for the rule's metadata, KERNEL_META_MAX bytes; or NULL */
    struct kernel_sensor_view *sensor;
    void *spec;
    uint32_t capacity;
    uint64_t lsn;
    enum tn_result answer;
};

static bool demand_reader(void *ctx, const struct kernel *kernel, uint64_t clock_ms) {
    struct demand_query *query = ctx;
    (void)clock_ms;
    query->lsn = kernel_lsn(kernel);
    if (query->rule != NULL) {
        query->answer = kernel_rule_read(kernel, query->name, query->rule);
        if (query->answer == TN_R_OK && query->meta != NULL) {
            (void)kernel_rule_meta(kernel, query->rule, query->meta, KERNEL_META_MAX);
        }
        return false;
    }
    query->answer = kernel_sensor_read(kernel, query->name, query->sensor);
    if (query->answer == TN_R_OK && query->capacity > 0) {
        (void)kernel_sensor_spec(kernel, query->sensor, query->spec, query->capacity);
    }
    return false;
}

enum tn_result engine_rule_read(struct engine *engine, enum engine_read_mode mode,
                                struct tn_bytes id, struct kernel_rule_view *ret_view) {
    struct demand_query query = {.name = id, .rule = ret_view};
    enum tn_result verdict = engine_read(engine, mode, demand_reader, &query);
    return verdict == TN_R_OK ? query.answer : verdict;
}

enum tn_result engine_rule_read_whole(struct engine *engine, enum engine_read_mode mode,
                                      struct tn_bytes id, struct kernel_rule_view *ret_view,
                                      void *meta, uint64_t *ret_lsn) {
    struct demand_query query = {.name = id, .rule = ret_view, .meta = meta};
    enum tn_result verdict = engine_read(engine, mode, demand_reader, &query);
    lsn_tell(ret_lsn, query.lsn);
    return verdict == TN_R_OK ? query.answer : verdict;
}

struct rules_query {
    struct tn_bytes ref;
    struct engine_rule *out;
    uint64_t from, cursor, lsn;
    uint32_t capacity, count;
    enum tn_result answer;
};

static bool sensor_rules_reader(void *ctx, const struct kernel *kernel, uint64_t clock_ms) {
    struct rules_query *query = ctx;
    struct kernel_sensor_view sensor;
    uint64_t looked_from = query->from;
    (void)clock_ms;
    query->count = 0;
    query->cursor = query->from;
    query->lsn = kernel_lsn(kernel);
    query->answer = kernel_sensor_read(kernel, query->ref, &sensor);
    while (query->answer == TN_R_OK && query->count < query->capacity) {
        struct engine_rule *rule = &query->out[query->count];
        uint64_t looked = query->cursor - looked_from;
        bool found = false;
        query->cursor = kernel_trigger_rules_scan(
            kernel, tn_bytes_of(sensor.trigger, sensor.trigger_len), query->cursor,
            ENGINE_RULES_LOOKED - (uint32_t)looked, &rule->view, &found);
        if (found) {
            (void)kernel_rule_meta(kernel, &rule->view, rule->meta, sizeof rule->meta);
            query->count++;
        }
        if (query->cursor == 0 || query->cursor - looked_from >= ENGINE_RULES_LOOKED) {
            break;
        }
    }
    return false;
}

enum tn_result engine_sensor_rules(struct engine *engine, enum engine_read_mode mode,
                                   struct tn_bytes ref, uint64_t *cursor, struct engine_rule *out,
                                   uint32_t capacity, uint32_t *ret_count, uint64_t *ret_lsn) {
    struct rules_query query = {.ref = ref, .out = out, .from = *cursor, .capacity = capacity};
    enum tn_result verdict = engine_read(engine, mode, sensor_rules_reader, &query);
    if (verdict == TN_R_OK && query.answer == TN_R_OK) {
        *cursor = query.cursor;
        *ret_count = query.count;
        *ret_lsn = query.lsn;
    }
    return verdict == TN_R_OK ? query.answer : verdict;
}

enum tn_result engine_sensor_read(struct engine *engine, enum engine_read_mode mode,
                                  struct tn_bytes ref, struct kernel_sensor_view *ret_view,
                                  void *spec, uint32_t capacity, uint64_t *ret_lsn) {
    struct demand_query query = {
        .name = ref, .sensor = ret_view, .spec = spec, .capacity = capacity};
    enum tn_result verdict = engine_read(engine, mode, demand_reader, &query);
    lsn_tell(ret_lsn, query.lsn);
    return verdict == TN_R_OK ? query.answer : verdict;
}

/* ---- The state as a whole ---- */

struct whole_query {
    struct kernel_usage *usage;
    struct kernel_limits *limits;
    uint64_t hash, lsn;
    bool sound;
    char why[256];
};

static bool usage_reader(void *ctx, const struct kernel *kernel, uint64_t clock_ms) {
    struct whole_query *query = ctx;
    (void)clock_ms;
    kernel_usage_read(kernel, query->usage);
    *query->limits = *kernel_limits_of(kernel);
    return false;
}

static bool hash_reader(void *ctx, const struct kernel *kernel, uint64_t clock_ms) {
    struct whole_query *query = ctx;
    (void)clock_ms;
    query->hash = kernel_hash(kernel);
    query->lsn = kernel_lsn(kernel);
    return false;
}

static bool check_reader(void *ctx, const struct kernel *kernel, uint64_t clock_ms) {
    struct whole_query *query = ctx;
    (void)clock_ms;
    query->sound = kernel_check(kernel, query->why, sizeof query->why);
    return false;
}

enum tn_result engine_usage(struct engine *engine, struct kernel_usage *ret_usage,
                            struct kernel_limits *ret_limits) {
    struct whole_query query = {.usage = ret_usage, .limits = ret_limits};
    return engine_read(engine, ENGINE_READ_CURRENT, usage_reader, &query);
}

enum tn_result engine_hash(struct engine *engine, uint64_t *ret_hash, uint64_t *ret_lsn) {
    struct whole_query query = {0};
    enum tn_result verdict = engine_read(engine, ENGINE_READ_CURRENT, hash_reader, &query);
    *ret_hash = query.hash;
    *ret_lsn = query.lsn;
    return verdict;
}

enum tn_result engine_check(struct engine *engine, bool *ret_sound, char *why, size_t capacity) {
    struct whole_query query = {.sound = false};
    enum tn_result verdict = engine_read(engine, ENGINE_READ_CURRENT, check_reader, &query);
    *ret_sound = query.sound;
    (void)snprintf(why, capacity, "%s", query.why);
    return verdict;
}
