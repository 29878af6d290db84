/* Reads of values. */
#include "base/assert.h"
#include "engine/internal.h"
#include "engine/read.h"

#define READ_EFFORT 4096u /* values examined under one hold of the lock */
#define READ_PAGE 128u    /* rows under one hold */

/* Shows a value with the state of its lease (authority.c). The last lease is not shown after its
 * retention, even before a tick has removed it. */
static void value_mark(const struct kernel *kernel, struct kernel_value_view *view,
                       uint64_t clock_ms) {
    uint64_t kept_ms = kernel_limits_of(kernel)->of[KERNEL_LIMIT_HISTORY_SECONDS] * 1000;
    if (view->has_lease && kernel_state_terminal(view->lease.state) &&
        view->lease.ended_ms + kept_ms <= clock_ms) {
        view->has_lease = false;
    }
    if (!view->has_lease) {
        return;
    }
    if (engine_authority_mark(&view->lease, clock_ms)) {
        view->state = KERNEL_VALUE_OVERDUE;
    }
    if (clock_ms > view->lease.now_ms) {
        view->lease.now_ms = clock_ms;
    }
}

struct values_query {
    struct tn_bytes pool;
    enum kernel_value_state state;
    uint64_t from, cursor;
    struct kernel_value_view *out;
    uint32_t capacity, count;
    uint32_t looked; /* values examined under this hold of the lock */
    uint64_t lsn;
    enum tn_result answer;
};

/* As for leases, the filter selects states as they are shown. */
static bool values_reader(void *ctx, const struct kernel *kernel, uint64_t clock_ms) {
    struct values_query *query = ctx;
    enum kernel_value_state stored =
        query->state == KERNEL_VALUE_OVERDUE ? KERNEL_VALUE_ANY : query->state;
    uint32_t most = query->capacity < READ_PAGE ? query->capacity : READ_PAGE;
    uint32_t found, kept = 0;
    query->lsn = kernel_lsn(kernel);
    query->cursor = query->from;
    query->answer = kernel_values_scan(kernel, query->pool, stored, &query->cursor, READ_EFFORT,
                                       query->out, most, &found);
    query->looked = found == most ? found : READ_EFFORT;
    for (uint32_t i = 0; i < found; i++) {
        value_mark(kernel, &query->out[i], clock_ms);
        if (query->state == KERNEL_VALUE_ANY || query->out[i].state == query->state) {
            query->out[kept++] = query->out[i];
        }
    }
    query->count = kept;
    return kernel_next_due(kernel) <= clock_ms; /* what is due may belong on this page */
}

/* Whether the two rows are parts of one span of free values, or adjacent excluded spans. */
static bool is_continued(const struct kernel_value_view *a, const struct kernel_value_view *b) {
    bool free = a->state == KERNEL_VALUE_AVAILABLE || a->state == KERNEL_VALUE_EXCLUDED;
    return free && a->state == b->state && a->value.name_len == 0 && a->last + 1 == b->value.number;
}

/* Appends `more` rows that stand behind the first `count`, joining spans. Returns the new number of
 * rows. */
static uint32_t rows_join(struct kernel_value_view *rows, uint32_t count, uint32_t more) {
    for (uint32_t i = count, end = count + more; i < end; i++) {
        if (count > 0 && is_continued(&rows[count - 1], &rows[i])) {
            rows[count - 1].last = rows[i].last;
        } else {
            rows[count++] = rows[i];
        }
    }
    return count;
}

enum tn_result engine_values_list(struct engine *engine, enum engine_read_mode mode,
                                  struct tn_bytes pool, enum kernel_value_state state,
                                  uint64_t *cursor, struct kernel_value_view *out,
                                  uint32_t capacity, uint32_t *ret_count, uint64_t *ret_lsn) {
    struct values_query query = {.pool = pool, .state = state, .cursor = *cursor};
    enum tn_result verdict = TN_R_OK;
    uint32_t count = 0;
    for (uint32_t looked = 0; looked < ENGINE_VALUES_LOOKED && count < capacity;
         looked += query.looked) {
        query.from = query.cursor;
        query.out = out + count;
        query.capacity = capacity - count;
        verdict = engine_read(engine, mode, values_reader, &query);
        verdict = verdict == TN_R_OK ? query.answer : verdict;
        if (verdict != TN_R_OK) {
            break;
        }
        count = rows_join(out, count, query.count);
        if (query.cursor == 0) {
            break;
        }
    }
    TN_ASSERT(count <= capacity);
    *ret_count = verdict == TN_R_OK ? count : 0;
    *ret_lsn = query.lsn;
    if (verdict == TN_R_OK) {
        *cursor = query.cursor;
    }
    return verdict;
}

struct value_query {
    struct tn_bytes pool;
    const struct kernel_requested *requested;
    struct kernel_value_view *view;
    uint64_t lsn;
    enum tn_result answer;
};

static bool value_reader(void *ctx, const struct kernel *kernel, uint64_t clock_ms) {
    struct value_query *query = ctx;
    query->lsn = kernel_lsn(kernel);
    query->answer = kernel_value_read(kernel, query->pool, query->requested, query->view);
    if (query->answer != TN_R_OK) {
        return false;
    }
    value_mark(kernel, query->view, clock_ms);
    return kernel_next_due(kernel) <= clock_ms;
}

enum tn_result engine_value_read(struct engine *engine, enum engine_read_mode mode,
                                 struct tn_bytes pool, const struct kernel_requested *requested,
                                 struct kernel_value_view *ret_view, uint64_t *ret_lsn) {
    struct value_query query = {.pool = pool, .requested = requested, .view = ret_view};
    enum tn_result verdict = engine_read(engine, mode, value_reader, &query);
    *ret_lsn = query.lsn;
    return verdict == TN_R_OK ? query.answer : verdict;
}
