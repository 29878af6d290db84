/* Declared pools: what is missing is created, what differs is altered, missing names are added. */
#include <stdlib.h>
#include <string.h>

#include "config/reconcile.h"
#include "engine/read.h"
#include "server/log_line.h"

struct pool_work {
    struct config_reconcile_work *work;
    const struct config_pool *pool;
    uint8_t *values; /* KERNEL_COMMAND_MAX bytes */
};

static struct tn_bytes name_of(const struct config_pool *pool) {
    return tn_bytes_of(pool->head.name, strlen(pool->head.name));
}

static bool is_scope(const struct config_pool *pool) {
    return strchr(pool->head.name, '@') != NULL;
}

static bool execute(struct pool_work *p, struct kernel_command *command) {
    command->pool = name_of(p->pool);
    command->fields |= KERNEL_F_POOL;
    return config_reconcile_execute(p->work, &p->pool->head, command);
}

static bool excludes_differ(const struct kernel_policy *a, const struct kernel_policy *b) {
    bool differ = a->exclude_count != b->exclude_count;
    for (uint64_t i = 0; !differ && i < a->exclude_count; i++) {
        differ = a->exclude[i].lo != b->exclude[i].lo || a->exclude[i].hi != b->exclude[i].hi;
    }
    return differ;
}

static bool spans_equal(const struct kernel_policy *a, const struct kernel_policy *b) {
    struct kernel_span x;
    struct kernel_span y;
    bool same = (a->span_count == 0 && b->span_count == 0) || a->span_count == b->span_count;
    for (uint64_t i = 0; same && a->span_count > 0 && kernel_policy_span_at(a, i, &x); i++) {
        same = kernel_policy_span_at(b, i, &y) && x.lo == y.lo && x.hi == y.hi;
    }
    return same;
}

/* What must change, and the names of the options. */
static struct kernel_policy_patch difference(const struct kernel_policy *is,
                                             const struct kernel_policy *wanted, char *names,
                                             size_t room) {
    struct kernel_policy_patch patch = {.values = *wanted,
                                        .has_exclude = excludes_differ(is, wanted)};
    size_t len = 0;
    names[0] = '\0';
    for (unsigned i = 0; i < KERNEL_OPTION_COUNT; i++) {
        if (is->of[i] != wanted->of[i] && kernel_option_applies(wanted, i)) {
            patch.mask |= (uint32_t)1 << i;
            (void)snprintf(names + len, room - len, "%s%s", len > 0 ? "," : "",
                           kernel_option_rows[i].name);
            len = strlen(names);
        }
    }
    if (!spans_equal(is, wanted)) { /* a range is always given completely */
        patch.mask &= ~((uint32_t)1 << KERNEL_OPTION_LO | (uint32_t)1 << KERNEL_OPTION_HI);
        patch.has_spans = true;
        patch.values.span_count = 0;
        while (kernel_policy_span_at(wanted, patch.values.span_count,
                                     &patch.values.spans[patch.values.span_count])) {
            if (++patch.values.span_count == KERNEL_SPANS_MAX) {
                break;
            }
        }
        (void)snprintf(names + len, room - len, "%srange", len > 0 ? "," : "");
        len = strlen(names);
    }
    if (patch.has_exclude) {
        (void)snprintf(names + len, room - len, "%sexclude", len > 0 ? "," : "");
    }
    return patch;
}

static bool create(struct pool_work *p) {
    struct kernel_command command = {
        .verb = KERNEL_VERB_POOL_CREATE, .fields = KERNEL_F_POLICY, .policy = &p->pool->patch};
    if (!execute(p, &command)) {
        return false;
    }
    p->work->report.pools_created++;
    server_log("pool_created", "name=%s", p->pool->head.name);
    return true;
}

static bool alter(struct pool_work *p, const struct kernel_policy *is) {
    char names[CONFIG_REASON_MAX * 4];
    struct kernel_policy wanted = kernel_policy_new(&p->pool->patch);
    (void)kernel_policy_fault(&wanted, UINT64_MAX); /* puts exclusions into order */
    struct kernel_policy_patch patch = difference(is, &wanted, names, sizeof names);
    if (patch.mask == 0 && !patch.has_exclude && !patch.has_spans) {
        return true;
    }
    struct kernel_command command = {
        .verb = KERNEL_VERB_POOL_ALTER, .fields = KERNEL_F_POLICY, .policy = &patch};
    if (!execute(p, &command)) {
        return false;
    }
    p->work->report.pools_altered++;
    server_log("pool_altered", "name=%s options=%s", p->pool->head.name, names);
    return true;
}

/* Only the options in the file are the scope's own; the others are its template's. */
static bool scope_declare(struct pool_work *p, const struct kernel_pool_view *view) {
    struct kernel_policy wanted = view->policy;
    kernel_policy_apply(&wanted, &p->pool->patch);
    (void)kernel_policy_fault(&wanted, UINT64_MAX);
    bool same = kernel_policy_differs(&wanted, &view->policy) == KERNEL_OPTION_ALL;
    uint64_t own = kernel_policy_patch_options(&p->pool->patch);
    if (same && view->kept && (own & ~view->own) == 0) {
        return true;
    }
    /* Creating the scope makes it stay when it is empty, unless it already does. */
    struct kernel_command command = {.verb = same && !view->kept ? KERNEL_VERB_POOL_CREATE
                                                                 : KERNEL_VERB_POOL_ALTER,
                                     .fields = KERNEL_F_POLICY,
                                     .policy = &p->pool->patch};
    if (!execute(p, &command) || same) {
        return same;
    }
    p->work->report.pools_altered++;
    server_log("pool_altered", "name=%s", p->pool->head.name);
    return true;
}

/* ---- Names of a set ---- */

static bool name_is_missing(struct pool_work *p, struct tn_bytes name) {
    struct engine_lease lease;
    struct kernel_requested requested = {.is_text = true, .text = name};
    return engine_lease_by_value(p->work->engine, ENGINE_READ_CURRENT, name_of(p->pool), &requested,
                                 &lease) == TN_R_BAD_VALUE;
}

static void names_flush(struct pool_work *p, struct tn_writer *values, uint32_t *count) {
    struct kernel_command command = {.verb = KERNEL_VERB_POOL_ADD,
                                     .fields = KERNEL_F_VALUES,
                                     .values = tn_bytes_of(p->values, values->len),
                                     .value_count = *count};
    if (*count > 0 && execute(p, &command)) {
        server_log("pool_names_added", "name=%s count=%u", p->pool->head.name, *count);
    }
    *values = tn_writer_of(p->values, KERNEL_COMMAND_MAX);
    *count = 0;
}

static void names_add(struct pool_work *p) {
    uint32_t count = 0;
    struct tn_writer values = tn_writer_of(p->values, KERNEL_COMMAND_MAX);
    for (const char *at = p->pool->names; at != NULL && *at != '\0';) {
        size_t len = strcspn(at, " ");
        if (name_is_missing(p, tn_bytes_of(at, len))) {
            kernel_requested_write_text(&values, tn_bytes_of(at, len));
            count++;
        }
        if (count == KERNEL_BUNDLE_MAX) {
            names_flush(p, &values, &count);
        }
        at += len + 1;
    }
    names_flush(p, &values, &count);
}

/* ---- All of them ---- */

static void pool_reconcile(struct pool_work *p) {
    struct kernel_pool_view view;
    uint64_t lsn;
    enum tn_result code =
        engine_pool_read(p->work->engine, ENGINE_READ_CURRENT, name_of(p->pool), &view, &lsn);
    bool there;
    if (code == TN_R_POOL_NOTFOUND) {
        there = create(p);
    } else if (code == TN_R_OK && is_scope(p->pool)) {
        there = scope_declare(p, &view);
    } else if (code == TN_R_OK) {
        there = alter(p, &view.policy);
    } else {
        config_reconcile_refused(p->work, &p->pool->head, "read", code);
        return;
    }
    if (there) {
        names_add(p);
    }
}

static void pools_reconcile(struct pool_work *p, const struct config *config, bool scopes) {
    for (uint32_t i = 0; i < config->declared[CONFIG_KIND_POOL].count; i++) {
        p->pool = config_pool_at(config, i);
        if (is_scope(p->pool) != scopes) {
            continue;
        }
        if (p->values == NULL) {
            config_reconcile_refused(p->work, &p->pool->head, "read", TN_R_OVERLOADED);
        } else {
            pool_reconcile(p);
        }
    }
}

void config_reconcile_pools(struct config_reconcile_work *work, const struct config *config) {
    struct pool_work p = {.work = work, .values = malloc(KERNEL_COMMAND_MAX)};
    pools_reconcile(&p, config, false); /* templates come before their scopes */
    pools_reconcile(&p, config, true);
    free(p.values);
}
