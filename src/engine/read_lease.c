/* Reads of leases. */
#include <string.h>

#include "engine/internal.h"
#include "engine/read.h"

#define READ_EFFORT 4096u /* records examined under one hold of the lock */
#define READ_PAGE 128u    /* leases under one hold, enough for the usual page */
#define READ_VALUES 64u   /* values of a bundle in one call; each call walks from the first value */

static bool something_is_due(const struct kernel *kernel, uint64_t clock_ms) {
    return kernel_next_due(kernel) <= clock_ms;
}

/* Whether a tick would change what is said about this lease. Offline leases can become due by the
 * pool's rate, whatever their deadline; ended ones are forgotten without becoming due. */
static bool lease_is_stale(const struct kernel *kernel, const struct kernel_lease_view *view,
                           uint64_t clock_ms) {
    if (kernel_state_terminal(view->state)) {
        uint64_t kept_ms = kernel_limits_of(kernel)->of[KERNEL_LIMIT_HISTORY_SECONDS] * 1000;
        return view->ended_ms + kept_ms <= clock_ms;
    }
    return something_is_due(kernel, clock_ms) &&
           (view->state == KERNEL_OFFLINE ||
            (view->deadline_ms != 0 && view->deadline_ms <= clock_ms));
}

static uint32_t lease_values(const struct kernel *kernel, const struct kernel_lease_view *view,
                             uint32_t first, struct engine_value *out, uint32_t capacity) {
    uint32_t total = 0;
    while (total < capacity) {
        struct kernel_value values[READ_VALUES];
        uint32_t want = capacity - total;
        uint32_t got = kernel_lease_values(kernel, view, first + total, values,
                                           want < READ_VALUES ? want : READ_VALUES);
        for (uint32_t i = 0; i < got; i++) {
            out[total].value = values[i];
            (void)kernel_pool_name(kernel, values[i].pool, out[total].pool);
            total++;
        }
        if (got < READ_VALUES) {
            break;
        }
    }
    return total;
}

static void lease_fill(const struct kernel *kernel, struct engine_lease *lease, uint64_t clock_ms) {
    lease->lsn = kernel_lsn(kernel);
    if (clock_ms > lease->view.now_ms) {
        lease->view.now_ms = clock_ms;
    }
    lease->value_count = lease_values(kernel, &lease->view, 0, lease->values, ENGINE_LEASE_VALUES);
}

struct lease_query {
    enum { BY_ID, BY_VALUE, BY_TOKEN } by;
    struct kernel_lease_id id;
    uint64_t epoch;
    struct tn_bytes pool;
    const struct kernel_requested *requested;
    struct engine_lease *lease;
    struct engine_lease_rest *rest; /* NULL: not wanted */
    enum tn_result answer;
};

static void rest_fill(const struct kernel *kernel, const struct kernel_lease_view *view,
                      struct engine_lease_rest *rest) {
    rest->value_count = lease_values(kernel, view, 0, rest->values, KERNEL_BUNDLE_MAX);
    rest->meta_len = kernel_lease_meta(kernel, view, rest->meta, KERNEL_META_MAX);
}

static bool lease_reader(void *ctx, const struct kernel *kernel, uint64_t clock_ms) {
    struct lease_query *query = ctx;
    struct kernel_lease_view *view = &query->lease->view;
    memset(query->lease, 0, sizeof *query->lease);
    if (query->by == BY_ID) {
        query->answer = kernel_lease_read(kernel, query->id, view);
    } else if (query->by == BY_VALUE) {
        query->answer = kernel_lease_by_value(kernel, query->pool, query->requested, view);
    } else {
        query->answer = kernel_verify(kernel, query->id, query->epoch, view);
    }
    query->lease->lsn = kernel_lsn(kernel);
    if (view->state == KERNEL_NO_STATE) {
        return false;
    }
    lease_fill(kernel, query->lease, clock_ms);
    if (query->rest != NULL) {
        rest_fill(kernel, view, query->rest);
    }
    bool stale = lease_is_stale(kernel, view, clock_ms);
    if (engine_authority_mark(view, clock_ms) && query->by == BY_TOKEN &&
        query->answer == TN_R_OK) {
        query->answer = TN_R_OVERDUE;
    }
    return stale;
}

static enum tn_result lease_query(struct engine *engine, enum engine_read_mode mode,
                                  struct lease_query *query) {
    enum tn_result verdict = engine_read(engine, mode, lease_reader, query);
    if (verdict != TN_R_OK) { /* what the reader saw does not count */
        memset(query->lease, 0, sizeof *query->lease);
        return verdict;
    }
    return query->answer;
}

enum tn_result engine_lease_read(struct engine *engine, enum engine_read_mode mode,
                                 struct kernel_lease_id id, struct engine_lease *ret_lease) {
    struct lease_query query = {.by = BY_ID, .id = id, .lease = ret_lease};
    return lease_query(engine, mode, &query);
}

enum tn_result engine_lease_by_value(struct engine *engine, enum engine_read_mode mode,
                                     struct tn_bytes pool, const struct kernel_requested *requested,
                                     struct engine_lease *ret_lease) {
    struct lease_query query = {
        .by = BY_VALUE, .pool = pool, .requested = requested, .lease = ret_lease};
    return lease_query(engine, mode, &query);
}

enum tn_result engine_lease_read_whole(struct engine *engine, enum engine_read_mode mode,
                                       struct kernel_lease_id id, struct engine_lease *ret_lease,
                                       struct engine_lease_rest *rest) {
    struct lease_query query = {.by = BY_ID, .id = id, .lease = ret_lease, .rest = rest};
    return lease_query(engine, mode, &query);
}

enum tn_result engine_lease_by_value_whole(struct engine *engine, enum engine_read_mode mode,
                                           struct tn_bytes pool,
                                           const struct kernel_requested *requested,
                                           struct engine_lease *ret_lease,
                                           struct engine_lease_rest *rest) {
    struct lease_query query = {
        .by = BY_VALUE, .pool = pool, .requested = requested, .lease = ret_lease, .rest = rest};
    return lease_query(engine, mode, &query);
}

enum tn_result engine_verify(struct engine *engine, enum engine_read_mode mode,
                             struct kernel_lease_id id, uint64_t epoch,
                             struct engine_lease *ret_lease) {
    struct lease_query query = {.by = BY_TOKEN, .id = id, .epoch = epoch, .lease = ret_lease};
    return lease_query(engine, mode, &query);
}

/* A query for parts of a lease that do not fit into the answer. */
struct part_query {
    struct kernel_lease_id id;
    uint32_t first;
    void *out;
    uint32_t capacity;
    uint32_t got;
    enum tn_result answer;
};

/* True: the lease exists and is in *ret_view. */
static bool part_begin(struct part_query *query, const struct kernel *kernel,
                       struct kernel_lease_view *ret_view) {
    query->got = 0;
    query->answer = kernel_lease_read(kernel, query->id, ret_view);
    return query->answer == TN_R_OK;
}

static bool values_reader(void *ctx, const struct kernel *kernel, uint64_t clock_ms) {
    struct part_query *query = ctx;
    struct kernel_lease_view view;
    if (!part_begin(query, kernel, &view)) {
        return false;
    }
    query->got = lease_values(kernel, &view, query->first, query->out, query->capacity);
    return lease_is_stale(kernel, &view, clock_ms);
}

static bool wants_reader(void *ctx, const struct kernel *kernel, uint64_t clock_ms) {
    struct part_query *query = ctx;
    struct kernel_lease_view view;
    struct engine_value *out = query->out;
    uint32_t pools[READ_VALUES];
    uint32_t capacity = query->capacity < READ_VALUES ? query->capacity : READ_VALUES;
    if (!part_begin(query, kernel, &view)) {
        return false;
    }
    if (view.state != KERNEL_WAITING) {
        query->answer = TN_R_STATE;
        return false;
    }
    query->got = kernel_lease_wants(kernel, &view, query->first, pools, capacity);
    for (uint32_t i = 0; i < query->got; i++) {
        (void)kernel_pool_name(kernel, pools[i], out[i].pool);
    }
    return lease_is_stale(kernel, &view, clock_ms);
}

static bool meta_reader(void *ctx, const struct kernel *kernel, uint64_t clock_ms) {
    struct part_query *query = ctx;
    struct kernel_lease_view view;
    if (!part_begin(query, kernel, &view)) {
        return false;
    }
    query->got = kernel_lease_meta(kernel, &view, query->out, query->capacity);
    return lease_is_stale(kernel, &view, clock_ms);
}

enum tn_result engine_lease_values(struct engine *engine, enum engine_read_mode mode,
                                   struct kernel_lease_id id, uint32_t first,
                                   struct engine_value *out, uint32_t capacity,
                                   uint32_t *ret_count) {
    struct part_query query = {.id = id, .first = first, .out = out, .capacity = capacity};
    enum tn_result verdict = engine_read(engine, mode, values_reader, &query);
    *ret_count = query.got;
    return verdict == TN_R_OK ? query.answer : verdict;
}

enum tn_result engine_lease_wants(struct engine *engine, enum engine_read_mode mode,
                                  struct kernel_lease_id id, uint32_t first,
                                  struct engine_value *out, uint32_t capacity,
                                  uint32_t *ret_count) {
    struct part_query query = {.id = id, .first = first, .out = out, .capacity = capacity};
    enum tn_result verdict = engine_read(engine, mode, wants_reader, &query);
    *ret_count = query.got;
    return verdict == TN_R_OK ? query.answer : verdict;
}

enum tn_result engine_lease_meta(struct engine *engine, enum engine_read_mode mode,
                                 struct kernel_lease_id id, void *out, uint32_t capacity,
                                 uint32_t *ret_len) {
    struct part_query query = {.id = id, .out = out, .capacity = capacity};
    enum tn_result verdict = engine_read(engine, mode, meta_reader, &query);
    *ret_len = query.got;
    return verdict == TN_R_OK ? query.answer : verdict;
}

struct leases_query {
    const struct kernel_lease_filter *filter;
    uint64_t from, cursor;
    struct engine_lease *out;
    uint32_t capacity, count;
    uint32_t looked; /* rows examined under this hold of the lock */
    uint64_t lsn;
};

/* The filter selects states as they are shown: an overdue lease is not an active one. */
static bool leases_reader(void *ctx, const struct kernel *kernel, uint64_t clock_ms) {
    struct leases_query *query = ctx;
    struct kernel_lease_view views[READ_PAGE];
    struct kernel_lease_filter stored = *query->filter;
    enum kernel_state shown = stored.state;
    uint32_t most = query->capacity < READ_PAGE ? query->capacity : READ_PAGE;
    uint32_t found;
    bool stale = something_is_due(kernel, clock_ms); /* a tick may put it on this page */
    if (shown == KERNEL_OVERDUE) {
        stored.state = KERNEL_NO_STATE;
    }
    query->lsn = kernel_lsn(kernel);
    query->count = 0;
    query->cursor =
        kernel_leases_scan(kernel, &stored, query->from, READ_EFFORT, views, most, &found);
    query->looked = found == most ? found : READ_EFFORT;
    for (uint32_t i = 0; i < found; i++) {
        stale = stale || lease_is_stale(kernel, &views[i], clock_ms);
        (void)engine_authority_mark(&views[i], clock_ms);
        if (shown == KERNEL_NO_STATE || views[i].state == shown) {
            query->out[query->count].view = views[i];
            lease_fill(kernel, &query->out[query->count++], clock_ms);
        }
    }
    return stale;
}

enum tn_result engine_leases_list(struct engine *engine, enum engine_read_mode mode,
                                  const struct kernel_lease_filter *filter, uint64_t *cursor,
                                  struct engine_lease *out, uint32_t capacity, uint32_t *ret_count,
                                  uint64_t *ret_lsn) {
    struct leases_query query = {.filter = filter, .cursor = *cursor};
    enum tn_result verdict = TN_R_OK;
    uint32_t count = 0;
    for (uint32_t looked = 0; looked < ENGINE_LEASES_LOOKED && count < capacity;
         looked += query.looked) {
        query.from = query.cursor;
        query.out = out + count;
        query.capacity = capacity - count;
        verdict = engine_read(engine, mode, leases_reader, &query);
        if (verdict != TN_R_OK) {
            break;
        }
        count += query.count;
        if (query.cursor == 0) {
            break;
        }
    }
    *ret_count = verdict == TN_R_OK ? count : 0;
    *ret_lsn = query.lsn;
    if (verdict == TN_R_OK) {
        *cursor = query.cursor;
    }
    return verdict;
}
