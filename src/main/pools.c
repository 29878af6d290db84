/* Reconciling: a read for each declared pool, and a command where something differs. */
#include "main/pools.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/read.h"
#include "server/server.h"

struct reconciler {
    struct engine *engine;
    const struct config_pool *pool;
    uint8_t *encoded; /* KERNEL_COMMAND_MAX bytes each */
    uint8_t *values;
    struct pools_report report;
};

static struct tn_bytes name_of(const struct config_pool *pool) {
    return tn_bytes_of(pool->name, strlen(pool->name));
}

static void refused(struct reconciler *r, const char *what, enum tn_result code) {
    r->report.refused++;
    server_log("pool_refused", "name=%s command=%s result=%s reason=%s", r->pool->name, what,
               tn_result_name(code), tn_result_text(code));
}

static bool execute(struct reconciler *r, struct kernel_command *command) {
    struct kernel_result result = {0};
    command->rights = KERNEL_RIGHT_OPERATOR;
    command->pool = name_of(r->pool);
    command->fields |= KERNEL_F_POOL;
    uint32_t len = kernel_command_encode(command, r->encoded, KERNEL_COMMAND_MAX);
    if (len == 0) {
        result.code = TN_R_TOO_LARGE;
    } else {
        engine_execute(r->engine, tn_bytes_of(r->encoded, len), &result);
    }
    if (result.code != TN_R_OK && result.code != TN_R_NOOP) {
        refused(r, kernel_verb_rows[command->verb].name, result.code);
        return false;
    }
    return true;
}

static bool excludes_differ(const struct kernel_policy *a, const struct kernel_policy *b) {
    bool differ = a->exclude_count != b->exclude_count;
    for (uint64_t i = 0; !differ && i < a->exclude_count; i++) {
        differ = a->exclude[i].lo != b->exclude[i].lo || a->exclude[i].hi != b->exclude[i].hi;
    }
    return differ;
}

/* What has to change, and its names. Bounds mean nothing in a set. */
static struct kernel_policy_patch difference(const struct kernel_policy *is,
                                             const struct kernel_policy *wanted, char *names,
                                             size_t room) {
    struct kernel_policy_patch patch = {.values = *wanted,
                                        .has_exclude = excludes_differ(is, wanted)};
    bool set = is->of[KERNEL_OPTION_KIND] == KERNEL_SET;
    size_t len = 0;
    names[0] = '\0';
    for (unsigned i = 0; i < KERNEL_OPTION_COUNT; i++) {
        bool bound = i == KERNEL_OPTION_LO || i == KERNEL_OPTION_HI;
        if (is->of[i] != wanted->of[i] && !(set && bound)) {
            patch.mask |= (uint32_t)1 << i;
            (void)snprintf(names + len, room - len, "%s%s", len > 0 ? "," : "",
                           kernel_option_rows[i].name);
            len = strlen(names);
        }
    }
    if (patch.has_exclude) {
        (void)snprintf(names + len, room - len, "%sexclude", len > 0 ? "," : "");
    }
    return patch;
}

static bool create(struct reconciler *r) {
    struct kernel_command command = {
        .verb = KERNEL_VERB_POOL_CREATE, .fields = KERNEL_F_POLICY, .policy = &r->pool->patch};
    if (!execute(r, &command)) {
        return false;
    }
    r->report.created++;
    server_log("pool_created", "name=%s", r->pool->name);
    return true;
}

static bool alter(struct reconciler *r, const struct kernel_policy *is) {
    char names[CONFIG_REASON_MAX * 4];
    struct kernel_policy wanted = kernel_policy_new(&r->pool->patch);
    (void)kernel_policy_fault(&wanted, UINT64_MAX); /* puts exclusions in order */
    struct kernel_policy_patch patch = difference(is, &wanted, names, sizeof names);
    if (patch.mask == 0 && !patch.has_exclude) {
        return true;
    }
    struct kernel_command command = {
        .verb = KERNEL_VERB_POOL_ALTER, .fields = KERNEL_F_POLICY, .policy = &patch};
    if (!execute(r, &command)) {
        return false;
    }
    r->report.altered++;
    server_log("pool_altered", "name=%s options=%s", r->pool->name, names);
    return true;
}

/* ---- Names of a set ---- */

static bool name_is_missing(struct reconciler *r, struct tn_bytes name) {
    struct engine_lease lease;
    struct kernel_wish wish = {.is_text = true, .text = name};
    return engine_lease_by_value(r->engine, 0, name_of(r->pool), &wish, &lease) == TN_R_BAD_VALUE;
}

static void names_flush(struct reconciler *r, struct tn_writer *values, uint32_t *count) {
    struct kernel_command command = {.verb = KERNEL_VERB_POOL_ADD,
                                     .fields = KERNEL_F_VALUES,
                                     .values = tn_bytes_of(r->values, values->len),
                                     .value_count = *count};
    if (*count > 0 && execute(r, &command)) {
        server_log("pool_names_added", "name=%s count=%u", r->pool->name, *count);
    }
    *values = tn_writer_of(r->values, KERNEL_COMMAND_MAX);
    *count = 0;
}

static void names_add(struct reconciler *r) {
    uint32_t count = 0;
    struct tn_writer values = tn_writer_of(r->values, KERNEL_COMMAND_MAX);
    for (const char *at = r->pool->names; at != NULL && *at != '\0';) {
        size_t len = strcspn(at, " ");
        if (name_is_missing(r, tn_bytes_of(at, len))) {
            kernel_wish_write_text(&values, tn_bytes_of(at, len));
            count++;
        }
        if (count == KERNEL_BUNDLE_MAX) {
            names_flush(r, &values, &count);
        }
        at += len + 1;
    }
    names_flush(r, &values, &count);
}

/* ---- All of them ---- */

static void pool_reconcile(struct reconciler *r) {
    struct kernel_pool_view view;
    uint64_t lsn;
    enum tn_result code = engine_pool_read(r->engine, 0, name_of(r->pool), &view, &lsn);
    bool there;
    if (code == TN_R_POOL_NOTFOUND) {
        there = create(r);
    } else if (code == TN_R_OK) {
        there = alter(r, &view.policy);
    } else {
        refused(r, "read", code);
        return;
    }
    if (there) {
        names_add(r);
    }
}

struct pools_report pools_reconcile(struct engine *engine, const struct config *config) {
    struct reconciler r = {.engine = engine,
                           .encoded = malloc(KERNEL_COMMAND_MAX),
                           .values = malloc(KERNEL_COMMAND_MAX)};
    for (uint32_t i = 0; i < config->pool_count; i++) {
        r.pool = &config->pools[i];
        if (r.encoded == NULL || r.values == NULL) {
            refused(&r, "read", TN_R_OVERLOADED);
        } else {
            pool_reconcile(&r);
        }
    }
    free(r.encoded);
    free(r.values);
    return r.report;
}
