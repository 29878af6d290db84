/* The values of pools as reads show them, compared with the model. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/model.h"

#define ROWS_MAX 4096u
#define EFFORT 5u

/* What the model has of one value. */
struct truth {
    enum kernel_value_state state;
    /* The lease that holds the value, or the last one that did; NULL: unknown. */
    const struct model_lease *lease;
    uint64_t until_ms;
};

static enum kernel_value_state lease_state(const struct model_lease *l) {
    return l->state == KERNEL_RESERVED  ? KERNEL_VALUE_RESERVED
           : l->state == KERNEL_ACTIVE  ? KERNEL_VALUE_ACTIVE
           : l->state == KERNEL_OFFLINE ? KERNEL_VALUE_OFFLINE
                                        : KERNEL_VALUE_REVOKING;
}

/* The latest ended lease of the value that history still has. */
static const struct model_lease *last_of(const struct model *m, uint32_t pool, uint64_t number) {
    for (uint32_t i = m->history_count; i-- > 0;) {
        const struct model_lease *l = &m->history[i];
        for (uint32_t v = 0; v < l->value_count && !model_history_over(m, l); v++) {
            if (l->values[v].pool == pool && l->values[v].number == number) {
                return l;
            }
        }
    }
    return NULL;
}

static struct truth truth_of(struct model *m, uint32_t pool, uint64_t number) {
    const struct kernel_policy *policy = model_policy(m, pool);
    const struct model_lease *l = model_value_lease(m, pool, number);
    uint32_t cooling = model_value_cooling(m, pool, number);
    bool range = policy->of[KERNEL_OPTION_KIND] == KERNEL_RANGE;
    if (l != NULL) {
        return (struct truth){lease_state(l), l, l->deadline_ms};
    }
    if (cooling != MODEL_NONE) {
        return (struct truth){KERNEL_VALUE_COOLING, last_of(m, pool, number),
                              m->cooling[cooling].until_ms};
    }
    return (struct truth){range && model_excluded(policy, number) ? KERNEL_VALUE_EXCLUDED
                                                                  : KERNEL_VALUE_AVAILABLE,
                          last_of(m, pool, number), 0};
}

static void check_view(struct model *m, const char *what, const struct truth *truth,
                       const struct kernel_value_view *view, bool last) {
    uint64_t number = view->value.number;
    bool known = truth->lease != NULL && (last || truth->state != KERNEL_VALUE_AVAILABLE) &&
                 (last || truth->state != KERNEL_VALUE_EXCLUDED);
    if (view->state != truth->state || view->until_ms != truth->until_ms) {
        model_fail(m, "%s %" PRIu64 ": %s until %" PRIu64 ", should be %s until %" PRIu64, what,
                   number, kernel_value_state_name(view->state), view->until_ms,
                   kernel_value_state_name(truth->state), truth->until_ms);
        return;
    }
    if (view->has_lease != known) {
        model_fail(m, "%s %" PRIu64 ": a lease is%s shown", what, number, known ? " not" : "");
        return;
    }
    if (view->has_lease && known &&
        kernel_lease_id_compare(view->lease.id, truth->lease->id) != 0) {
        model_fail(m, "%s %" PRIu64 ": lease %" PRIu64 ", should be %" PRIu64, what, number,
                   view->lease.id.lsn, truth->lease->id.lsn);
    }
}

static uint32_t rows_read(struct model *m, const struct kernel *k, const char *pool,
                          enum kernel_value_state state, struct kernel_value_view *rows) {
    uint32_t total = 0, count = 0;
    uint64_t cursor = 0;
    do {
        uint32_t room = ROWS_MAX - total < 3 ? ROWS_MAX - total : 3;
        enum tn_result code = kernel_values_scan(k, tn_bytes_of(pool, strlen(pool)), state, &cursor,
                                                 EFFORT, rows + total, room, &count);
        if (code != TN_R_OK) {
            model_fail(m, "values of %s: %s", pool, tn_result_name(code));
            return 0;
        }
        total += count;
    } while (cursor != 0 && total < ROWS_MAX);
    return total;
}

static uint64_t used_in(const struct model *m, uint32_t pool) {
    uint64_t count = 0;
    for (unsigned s = KERNEL_RESERVED; s <= KERNEL_REVOKING; s++) {
        count += model_pool_held(m, pool, (enum kernel_state)s, NULL);
    }
    for (uint32_t i = 0; i < m->cooling_count; i++) {
        count += m->cooling[i].value.pool == pool;
    }
    return count;
}

/* The rows cover the range, in order, each number once, and are right at their ends. */
static void check_range(struct model *m, uint32_t pool, const struct kernel_value_view *rows,
                        uint32_t count) {
    const struct kernel_policy *policy = model_policy(m, pool);
    const char *name = m->pools[pool].name;
    uint64_t span = 0, used = 0;
    uint64_t next = model_span(policy, 0).lo;
    bool over = false;
    for (uint32_t i = 0; i < count && !m->failed; i++) {
        uint64_t first = rows[i].value.number;
        struct truth begin = truth_of(m, pool, first), end = truth_of(m, pool, rows[i].last);
        if (over || first != next || rows[i].last < first || begin.state != end.state) {
            model_fail(m, "values of %s: a row from %" PRIu64 " to %" PRIu64, name, first,
                       rows[i].last);
            return;
        }
        check_view(m, name, &begin, &rows[i], false);
        used += rows[i].state != KERNEL_VALUE_AVAILABLE && rows[i].state != KERNEL_VALUE_EXCLUDED;
        next = rows[i].last + 1;
        if (rows[i].last == model_span(policy, span).hi) {
            over = ++span == model_span_count(policy);
            next = over ? 0 : model_span(policy, span).lo;
        }
    }
    if (!over || used != used_in(m, pool)) {
        model_fail(m, "values of %s: %" PRIu64 " used ones, should be %" PRIu64 "%s", name, used,
                   used_in(m, pool), over ? "" : "; not all of the range");
    }
}

static void check_set(struct model *m, uint32_t pool, const struct kernel_value_view *rows,
                      uint32_t count) {
    const struct model_pool *p = &m->pools[pool];
    if (count != p->resource_count) {
        model_fail(m, "values of %s: %u, should be %u", p->name, count, p->resource_count);
    }
    for (uint32_t i = 0; i < count && !m->failed; i++) {
        struct truth truth = truth_of(m, pool, p->resources[i].place);
        if (strncmp(p->resources[i].name, rows[i].value.name, rows[i].value.name_len) != 0) {
            model_fail(m, "values of %s: %s is not where it was added", p->name,
                       p->resources[i].name);
        }
        check_view(m, p->name, &truth, &rows[i], false);
    }
}

/* Only those in one state are the same as those of all that are in it. */
static void check_filter(struct model *m, const struct kernel *k, uint32_t pool,
                         const struct kernel_value_view *rows, uint32_t count) {
    static struct kernel_value_view some[ROWS_MAX];
    enum kernel_value_state state =
        (enum kernel_value_state)(1 + m->lsn % (KERNEL_VALUE_STATE_COUNT - 1));
    uint64_t all = 0, found = 0;
    uint32_t some_count = rows_read(m, k, m->pools[pool].name, state, some);
    for (uint32_t i = 0; i < count; i++) {
        all += rows[i].state == state ? rows[i].last - rows[i].value.number + 1 : 0;
    }
    for (uint32_t i = 0; i < some_count; i++) {
        found += some[i].last - some[i].value.number + 1;
        found += some[i].state != state;
    }
    if (all != found) {
        model_fail(m, "values of %s that are %s: %" PRIu64 ", should be %" PRIu64,
                   m->pools[pool].name, kernel_value_state_name(state), found, all);
    }
}

/* Reads one value by its name or number: it must be equal to its row in the list. */
static void check_one(struct model *m, const struct kernel *k, uint32_t pool,
                      const struct kernel_value_view *row) {
    const struct model_pool *p = &m->pools[pool];
    bool named = row->value.name_len > 0;
    struct kernel_requested requested = {.is_text = named,
                                         .number = row->last,
                                         .text = tn_bytes_of(row->value.name, row->value.name_len)};
    struct kernel_value_view view;
    uint64_t number;
    enum tn_result code =
        kernel_value_read(k, tn_bytes_of(p->name, strlen(p->name)), &requested, &view);
    if (code != TN_R_OK || !model_resolve(m, pool, &requested, &number)) {
        model_fail(m, "value %" PRIu64 " of %s: %s", row->last, p->name, tn_result_name(code));
        return;
    }
    struct truth truth = truth_of(m, pool, number);
    check_view(m, p->name, &truth, &view, true);
}

void model_values_check(struct model *m, const struct kernel *k, uint32_t pool) {
    static struct kernel_value_view rows[ROWS_MAX];
    bool set = model_policy(m, pool)->of[KERNEL_OPTION_KIND] == KERNEL_SET;
    uint32_t count = rows_read(m, k, m->pools[pool].name, KERNEL_VALUE_ANY, rows);
    if (m->failed) {
        return;
    }
    if (set) {
        check_set(m, pool, rows, count);
    } else {
        check_range(m, pool, rows, count);
    }
    check_filter(m, k, pool, rows, count);
    if (count > 0 && !m->failed) {
        check_one(m, k, pool, &rows[m->lsn % count]);
    }
}
