/* See nm_world.h. */
#include "nemesis/nm_world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

struct group {
    uint32_t pool_count;
    struct nm_pool pools[NM_POOLS];
    bool sticky;
};

#define CELL(n)                                                                           \
    {                                                                                     \
        .pool_count = 2,                                                                  \
        .pools = {{.name = "a" #n, .size = 2}, {.name = "b" #n, .size = 1, .set = true}}, \
    }

static const struct group groups[NM_GROUPS] = {
    CELL(0),
    CELL(1),
    CELL(2),
    CELL(3),
    CELL(4),
    CELL(5),
    {.pool_count = 1, .pools = {{.name = "t", .size = 3}}},
    {.pool_count = 2, .pools = {{.name = "u", .size = 2}, {.name = "k", .size = 3}}},
    {.pool_count = 1, .pools = {{.name = "s", .size = 4}}, .sticky = true},
    {.pool_count = 2, .pools = {{.name = "r", .size = 6}, {.name = "n", .size = 4}}},
    {.pool_count = 2, .pools = {{.name = "q@x", .size = 2}, {.name = "q@y", .size = 2}}},
    {.pool_count = 1, .pools = {{.name = "v", .size = 3}}, .sticky = true},
};

#define SETUP_CELL(n) \
    "POOL CREATE a" #n " RANGE 1 2", "POOL CREATE b" #n " SET", "POOL ADD b" #n " x1"

static const char *const setup[] = {
    SETUP_CELL(0),
    SETUP_CELL(1),
    SETUP_CELL(2),
    SETUP_CELL(3),
    SETUP_CELL(4),
    SETUP_CELL(5),
    "POOL CREATE t RANGE 1 3 LEASE 1 MAX_LEASE 3",
    "POOL CREATE u RANGE 1 2 LEASE 1 GRACE 1",
    "POOL CREATE k RANGE 1 3 STRATEGY coldest COOLDOWN 1 LEASE 2",
    "POOL CREATE s RANGE 1 4 STICKY yes LEASE 2 RATE_WINDOW_SECONDS 10 "
    "HIGH_RATE_THRESHOLD_PER_HOUR 720 ULTRA_RATE_THRESHOLD_PER_HOUR 7200 "
    "ULTRA_RATE_SUSTAIN_SECONDS 1",
    "POOL CREATE r RANGE 1 6 STRATEGY random MAX_PER_HOLDER 2 EXCLUDE 6-6 LEASE 1",
    "POOL CREATE n RANGE 1 4 STRATEGY next COOLDOWN 1 LEASE 2 MAX_HOLD 3",
    "POOL CREATE q RANGE 1 2 SCOPED yes LEASE 1",
    "POOL CREATE v RANGE 1 3 STICKY yes LEASE 1 GRACE 1 ADAPTIVE_ENABLED no "
    "RATE_WINDOW_SECONDS 10",
    NULL,
};

bool nm_group_is_cell(uint32_t group) {
    return group < NM_CELLS;
}

bool nm_group_is_sticky(uint32_t group) {
    return groups[group].sticky;
}

uint32_t nm_group_pools(uint32_t group) {
    return groups[group].pool_count;
}

const struct nm_pool *nm_pool_of(uint32_t group, uint32_t pool) {
    TN_ASSERT(group < NM_GROUPS && pool < groups[group].pool_count);
    return &groups[group].pools[pool];
}

const char *nm_setup(uint32_t index) {
    TN_ASSERT(index < sizeof setup / sizeof setup[0]);
    return setup[index];
}

void nm_holder_text(uint32_t group, uint32_t holder, char out[NM_HOLDER_TEXT]) {
    snprintf(out, NM_HOLDER_TEXT, "g%u/h%u", (unsigned)group % 100, (unsigned)holder % 100);
}

static void value_text(uint32_t group, uint32_t pool, uint32_t number, char out[NM_HOLDER_TEXT]) {
    snprintf(out, NM_HOLDER_TEXT, "%s%u", nm_pool_of(group, pool)->set ? "x" : "",
             (unsigned)number);
}

/* ---- Words ---- */

struct words {
    uint32_t count;
    char of[32][40];
};

__attribute__((format(printf, 2, 3))) static void add(struct words *words, const char *format,
                                                      ...) {
    TN_ASSERT(words->count < sizeof words->of / sizeof words->of[0]);
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(words->of[words->count], sizeof words->of[0], format, arguments);
    va_end(arguments);
    TN_ASSERT(len >= 0 && (size_t)len < sizeof words->of[0]);
    words->count++;
}

static const char *const verbs[NM_VERB_COUNT] = {
    [NM_ALLOC] = "ALLOC", [NM_RESERVE] = "RESERVE", [NM_ACTIVATE] = "ACTIVATE",
    [NM_TOUCH] = "TOUCH", [NM_RELEASE] = "RELEASE", [NM_REVOKE] = "REVOKE",
    [NM_ACK] = "ACK",     [NM_RECLAIM] = "RECLAIM", [NM_REKEY] = "REKEY",
    [NM_SWEEP] = "SWEEP", [NM_DISOWN] = "DISOWN",   [NM_VERIFY] = "VERIFY",
    [NM_LEASE] = "LEASE", [NM_VALUE] = "LEASE",
};

static void add_claim(struct words *words, const struct nm_op *op, const struct nm_claim *claim) {
    if (claim->any) {
        if (claim->count > 0) {
            add(words, "COUNT");
            add(words, "%u", claim->count);
        }
        return;
    }
    add(words, "VALUES");
    add(words, "%u", claim->count);
    for (uint32_t i = 0; i < claim->count; i++) {
        char text[NM_HOLDER_TEXT];
        value_text(op->group, claim->pool, claim->numbers[i], text);
        add(words, "%s", text);
    }
}

static uint32_t ttl_of(const struct nm_op *op) {
    bool cell = op->verb == NM_RESERVE && nm_group_is_cell(op->group);
    return cell ? NM_RESERVE_CELL_S : op->ttl_s;
}

static void add_grant(struct words *words, const struct nm_op *op, const char *holder) {
    bool alone = op->verb == NM_ALLOC && op->claim_count == 1;
    if (alone) {
        add(words, "%s", nm_pool_of(op->group, op->claims[0].pool)->name);
    }
    add(words, "%s", holder);
    for (uint32_t i = 0; i < op->claim_count; i++) {
        if (!alone) {
            add(words, "FROM");
            add(words, "%s", nm_pool_of(op->group, op->claims[i].pool)->name);
        }
        add_claim(words, op, &op->claims[i]);
    }
}

static void add_arguments(struct words *words, const struct nm_op *op) {
    char holder[NM_HOLDER_TEXT];
    nm_holder_text(op->group, op->holder, holder);
    switch (op->verb) {
    case NM_ALLOC:
    case NM_RESERVE:
        add_grant(words, op, holder);
        return;
    case NM_SWEEP:
        add(words, "POOL");
        add(words, "%s", nm_pool_of(op->group, op->claims[0].pool)->name);
        return;
    case NM_DISOWN:
        add(words, "%s", holder);
        return;
    case NM_VALUE: {
        char text[NM_HOLDER_TEXT];
        value_text(op->group, op->claims[0].pool, op->claims[0].numbers[0], text);
        add(words, "%s/%s", nm_pool_of(op->group, op->claims[0].pool)->name, text);
        return;
    }
    default:
        break;
    }
    add(words, "0-%" PRIu64, op->lease);
    if (op->verb == NM_ACTIVATE || op->verb == NM_RELEASE || op->verb == NM_ACK) {
        add(words, "%s", holder);
    }
    if (op->verb != NM_REVOKE && op->verb != NM_RECLAIM && op->verb != NM_LEASE) {
        add(words, "%" PRIu64, op->epoch);
    }
    if (op->verb == NM_REKEY) {
        add(words, "%s", holder);
    }
}

static void words_of(const struct nm_op *op, struct words *words) {
    words->count = 0;
    add(words, "%s", verbs[op->verb]);
    add_arguments(words, op);
    if (ttl_of(op) > 0) {
        add(words, "TTL");
        add(words, "%u", (unsigned)ttl_of(op));
    }
    if (op->after_s > 0) {
        add(words, "AFTER");
        add(words, "%u", op->after_s);
    }
    if (op->now) {
        add(words, "NOW");
    }
    if (op->fence > 0) {
        add(words, "FENCE");
        add(words, "%" PRIu64, op->fence);
    }
    if (op->opid > 0) {
        add(words, "OPID");
        add(words, "o%u", (unsigned)op->opid);
    }
}

static size_t words_write(const struct words *words, char out[NM_REQUEST_MAX]) {
    int len = snprintf(out, NM_REQUEST_MAX, "*%u\r\n", (unsigned)words->count);
    for (uint32_t i = 0; i < words->count; i++) {
        len += snprintf(out + len, NM_REQUEST_MAX - (size_t)len, "$%zu\r\n%s\r\n",
                        strlen(words->of[i]), words->of[i]);
        TN_ASSERT(len < (int)NM_REQUEST_MAX);
    }
    return (size_t)len;
}

size_t nm_request_write(const struct nm_op *op, char out[NM_REQUEST_MAX]) {
    struct words words;
    words_of(op, &words);
    return words_write(&words, out);
}

void nm_request_text(const struct nm_op *op, char *out, size_t capacity) {
    struct words words;
    size_t len = 0;
    words_of(op, &words);
    out[0] = '\0';
    for (uint32_t i = 0; i < words.count && len < capacity; i++) {
        int n = snprintf(out + len, capacity - len, "%s%s", i > 0 ? " " : "", words.of[i]);
        len += n > 0 ? (size_t)n : 0;
    }
}

size_t nm_line_write(const char *line, char out[NM_REQUEST_MAX]) {
    struct words words = {.count = 0};
    while (*line != '\0') {
        size_t len = strcspn(line, " ");
        add(&words, "%.*s", (int)len, line);
        line += len;
        line += *line == ' ';
    }
    return words_write(&words, out);
}

/* ---- Commands ---- */

static const enum kernel_verb kernel_verbs[NM_VERB_COUNT] = {
    [NM_ALLOC] = KERNEL_VERB_ALLOC,       [NM_RESERVE] = KERNEL_VERB_RESERVE,
    [NM_ACTIVATE] = KERNEL_VERB_ACTIVATE, [NM_TOUCH] = KERNEL_VERB_TOUCH,
    [NM_RELEASE] = KERNEL_VERB_RELEASE,   [NM_REVOKE] = KERNEL_VERB_REVOKE,
    [NM_ACK] = KERNEL_VERB_ACK,           [NM_RECLAIM] = KERNEL_VERB_RECLAIM,
    [NM_REKEY] = KERNEL_VERB_REKEY,       [NM_SWEEP] = KERNEL_VERB_SWEEP,
    [NM_DISOWN] = KERNEL_VERB_DISOWN,
};

static struct tn_bytes text_bytes(const char *text) {
    return tn_bytes_of(text, strlen(text));
}

static void claims_encode(const struct nm_op *op, struct tn_writer *w) {
    for (uint32_t i = 0; i < op->claim_count; i++) {
        const struct nm_claim *claim = &op->claims[i];
        kernel_claim_write(w, text_bytes(nm_pool_of(op->group, claim->pool)->name), claim->any,
                           claim->count);
        for (uint32_t n = 0; !claim->any && n < claim->count; n++) {
            char text[NM_HOLDER_TEXT];
            value_text(op->group, claim->pool, claim->numbers[n], text);
            kernel_requested_write_text(w, text_bytes(text));
        }
    }
}

static uint32_t fields_of(const struct nm_op *op) {
    uint32_t fields = kernel_verb_rows[kernel_verbs[op->verb]].required;
    fields |= ttl_of(op) > 0 ? KERNEL_F_TTL : 0;
    fields |= op->after_s > 0 ? KERNEL_F_AFTER : 0;
    fields |= op->now ? KERNEL_F_IMMEDIATE : 0;
    fields |= op->verb == NM_SWEEP ? KERNEL_F_POOL : 0;
    return fields;
}

uint32_t nm_command_encode(const struct nm_op *op, uint8_t rights, struct tn_bytes user, void *out,
                           size_t capacity) {
    uint8_t claims[256];
    char holder[NM_HOLDER_TEXT];
    char opid[16];
    struct tn_writer w = tn_writer_of(claims, sizeof claims);
    TN_ASSERT(!nm_is_read(op));
    if (op->verb == NM_ALLOC || op->verb == NM_RESERVE) {
        claims_encode(op, &w);
    }
    nm_holder_text(op->group, op->holder, holder);
    snprintf(opid, sizeof opid, "o%u", (unsigned)op->opid);
    struct kernel_command command = {.verb = kernel_verbs[op->verb],
                                     .rights = rights,
                                     .fields = fields_of(op),
                                     .user = user,
                                     .lease = {.lsn = op->lease},
                                     .epoch = op->epoch,
                                     .holder = text_bytes(holder),
                                     .ttl_s = ttl_of(op),
                                     .after_s = op->after_s,
                                     .claims = tn_bytes_of(claims, w.len),
                                     .claim_count = op->claim_count};
    if (op->verb == NM_SWEEP) {
        command.pool = text_bytes(nm_pool_of(op->group, op->claims[0].pool)->name);
    }
    if (op->opid > 0) {
        command.opid = text_bytes(opid);
    }
    return w.overflow ? 0 : kernel_command_encode(&command, out, capacity);
}

/* ---- Back ---- */

uint32_t nm_opid_parse(struct tn_bytes opid) {
    uint64_t number = 0;
    bool ours = opid.len > 1 && opid.at[0] == 'o' &&
                kernel_value_parse(KERNEL_DEC, tn_bytes_of(opid.at + 1, opid.len - 1), &number);
    return ours && number < NM_NONE ? (uint32_t)number : 0;
}

uint32_t nm_holder_parse(uint32_t group, struct tn_bytes text) {
    for (uint32_t i = 0; i < NM_HOLDERS; i++) {
        char holder[NM_HOLDER_TEXT];
        nm_holder_text(group, i, holder);
        if (tn_bytes_equal(text, text_bytes(holder))) {
            return i;
        }
    }
    return NM_NONE;
}

bool nm_value_parse(uint32_t group, struct tn_bytes pool, struct tn_bytes text,
                    struct nm_value *ret_value) {
    for (uint32_t p = 0; p < groups[group].pool_count; p++) {
        if (!tn_bytes_equal(pool, text_bytes(groups[group].pools[p].name))) {
            continue;
        }
        for (uint32_t n = 1; n <= groups[group].pools[p].size; n++) {
            char value[NM_HOLDER_TEXT];
            value_text(group, p, n, value);
            if (tn_bytes_equal(text, text_bytes(value))) {
                *ret_value = (struct nm_value){.pool = (uint8_t)p, .number = (uint8_t)n};
                return true;
            }
        }
    }
    return false;
}
