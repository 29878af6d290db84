/* Commands in one line, for the trace of a failure. */
#include "sim/generate.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct line {
    char *out;
    size_t capacity;
    size_t len;
};

static void put(struct line *l, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct line *l, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(l->out + l->len, l->capacity - l->len, format, args);
    va_end(args);
    l->len += n > 0 ? (size_t)n : 0;
    l->len = l->len < l->capacity ? l->len : l->capacity - 1;
}

static void put_text(struct line *l, const char *name, struct tn_bytes text) {
    put(l, " %s%.*s%s", name, text.len < 20 ? (int)text.len : 20, (const char *)text.at,
        text.len < 20 ? "" : "...");
}

static void put_requested(struct line *l, struct tn_bytes values, uint32_t count) {
    struct tn_reader r = tn_reader_of(values.at, values.len);
    for (uint32_t i = 0; i < count; i++) {
        struct kernel_requested w = kernel_requested_read(&r);
        if (w.is_text) {
            put_text(l, "'", w.text);
        } else {
            put(l, " %" PRIu64, w.number);
        }
    }
}

static void put_claims(struct line *l, const struct kernel_command *c) {
    struct tn_reader r = tn_reader_of(c->claims.at, c->claims.len);
    for (uint32_t i = 0; i < c->claim_count; i++) {
        struct kernel_claim claim = kernel_claim_read(&r);
        put_text(l, "from ", claim.pool);
        put(l, "%s%u", claim.any ? ":" : "=", claim.count);
        put_requested(l, claim.values, claim.any ? 0 : claim.count);
    }
}

static void put_policy(struct line *l, const struct kernel_command *c) {
    struct kernel_policy_patch p = kernel_policy_read(c->policy_bytes);
    for (uint32_t i = 0; i < KERNEL_OPTION_COUNT; i++) {
        if ((p.mask & 1u << i) != 0) {
            put(l, " %s=%" PRIu64, kernel_option_rows[i].name, p.values.of[i]);
        }
    }
    for (uint64_t i = 0; p.has_spans && i < p.values.span_count; i++) {
        put(l, " range=%" PRIu64 "-%" PRIu64, p.values.spans[i].lo, p.values.spans[i].hi);
    }
    for (uint64_t i = 0; p.has_exclude && i < p.values.exclude_count; i++) {
        put(l, " exclude=%" PRIu64 "-%" PRIu64, p.values.exclude[i].lo, p.values.exclude[i].hi);
    }
}

static void put_user(struct line *l, const struct kernel_command *c) {
    if (c->fields & KERNEL_F_ROLE) {
        put(l, " role %u", c->role);
    }
    if (c->fields & KERNEL_F_QUOTA) {
        put(l, " quota %u", c->quota);
    }
    if (c->user.len > 0) {
        put_text(l, "user ", c->user);
    }
}

void generate_describe(struct tn_bytes bytes, char *out, size_t capacity) {
    struct line line = {.out = out, .capacity = capacity};
    struct line *l = &line;
    struct kernel_command c;
    out[0] = '\0';
    if (!kernel_command_decode(bytes, &c)) {
        put(l, "(malformed)");
        return;
    }
    put(l, "%s", kernel_verb_rows[c.verb].name);
    if (c.fields & KERNEL_F_LEASE) {
        put(l, " %" PRIu64 "-%" PRIu64, c.lease.shard, c.lease.lsn);
    }
    if (c.fields & KERNEL_F_EPOCH) {
        put(l, " epoch %" PRIu64, c.epoch);
    }
    if (c.fields & KERNEL_F_HOLDER) {
        put_text(l, "holder ", c.holder);
    }
    if (c.fields & KERNEL_F_POOL) {
        put_text(l, "pool ", c.pool);
    }
    put_claims(l, &c);
    put_requested(l, c.values, c.value_count);
    if (c.fields & KERNEL_F_TTL) {
        put(l, " ttl %u", c.ttl_s);
    }
    if (c.fields & KERNEL_F_AFTER) {
        put(l, " after %u", c.after_s);
    }
    if (c.fields & KERNEL_F_DEADLINE) {
        put(l, " deadline %" PRIu64, c.deadline_ms);
    }
    if (c.fields & KERNEL_F_TIMES) {
        put(l, " created %" PRIu64 " seen %" PRIu64 " offline %" PRIu64, c.created_ms, c.seen_ms,
            c.offline_ms);
    }
    if (c.fields & KERNEL_F_FIGURES) {
        put(l, " given %" PRIu64 " reclaimed %" PRIu64, c.given_values, c.reclaimed);
    }
    if (c.fields & KERNEL_F_META) {
        put(l, " meta(%u)", c.meta.len);
    }
    if (c.fields & KERNEL_F_IMMEDIATE) {
        put(l, " now");
    }
    if (c.fields & KERNEL_F_NAME) {
        put_text(l, "name ", c.name);
    }
    if (c.fields & KERNEL_F_TRIGGER) {
        put_text(l, "trigger ", c.trigger);
    }
    if (c.fields & KERNEL_F_ENABLED) {
        put(l, " enabled %d", c.enabled);
    }
    put_user(l, &c);
    if (c.fields & KERNEL_F_POLICY) {
        put_policy(l, &c);
    }
    if (c.note.len > 0) {
        put_text(l, "note ", c.note);
    }
    if (c.opid.len > 0) {
        put_text(l, "op ", c.opid);
    }
    put(l, "%s%s", c.rights & KERNEL_RIGHT_OPERATOR ? "" : " (no operator)",
        c.rights & KERNEL_RIGHT_SUPERVISOR ? " (supervisor)" : "");
}
