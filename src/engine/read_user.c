/* Reads of users. */
#include "engine/internal.h"
#include "engine/read.h"

uint64_t engine_users_lsn(const struct engine *engine) {
    return atomic_load_explicit(&engine->users_lsn, memory_order_acquire);
}

struct users_query {
    uint64_t from, cursor;
    struct kernel_user_view *out;
    uint32_t capacity, count;
};

static bool users_reader(void *ctx, const struct kernel *kernel, uint64_t clock_ms) {
    struct users_query *query = ctx;
    (void)clock_ms;
    query->count = 0;
    query->cursor = query->from;
    while (query->count < query->capacity) {
        bool found = false;
        query->cursor = kernel_users_scan(kernel, query->cursor, &query->out[query->count], &found);
        query->count += found;
        if (query->cursor == 0) {
            break;
        }
    }
    return false;
}

enum tn_result engine_users_list(struct engine *engine, uint64_t *cursor,
                                 struct kernel_user_view *out, uint32_t capacity,
                                 uint32_t *ret_count) {
    struct users_query query = {.from = *cursor, .out = out, .capacity = capacity};
    enum tn_result verdict = engine_read(engine, ENGINE_READ_STALE, users_reader, &query);
    *ret_count = verdict == TN_R_OK ? query.count : 0;
    *cursor = verdict == TN_R_OK ? query.cursor : 0;
    return verdict;
}

struct values_query {
    struct tn_bytes name;
    uint64_t values;
};

static bool values_reader(void *ctx, const struct kernel *kernel, uint64_t clock_ms) {
    struct values_query *query = ctx;
    (void)clock_ms;
    query->values = kernel_user_values(kernel, query->name);
    return false;
}

enum tn_result engine_user_values(struct engine *engine, struct tn_bytes name,
                                  uint64_t *ret_values) {
    struct values_query query = {.name = name};
    enum tn_result verdict = engine_read(engine, ENGINE_READ_STALE, values_reader, &query);
    *ret_values = query.values;
    return verdict;
}
