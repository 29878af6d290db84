/* Commands to bytes and back. The layout is in command.h.
 *
 * Decoding is total: any bytes are either malformed or become a command that refers only to them.
 * It allocates nothing and trusts no count without the bytes for it, so a short request that claims
 * four billion members costs only its own length. */
#include "kernel/command.h"

#include "base/assert.h"

const struct kernel_verb_row kernel_verb_rows[KERNEL_VERB_COUNT] = {
#define VERB_ROW(id, text, must, may, operator_rights) \
    [KERNEL_VERB_##                                    \
        id] = {.name = text, .required = must, .optional = may, .operator_only = operator_rights},
    KERNEL_VERB_TABLE(VERB_ROW)
#undef VERB_ROW
};

_Static_assert(KERNEL_OPTION_COUNT <= KERNEL_OPTION_SLOTS, "a pool stores every option");
_Static_assert(KERNEL_OPTION_SLOTS <= 32, "a policy patch has one bit an option");
_Static_assert(KERNEL_VERB_COUNT <= 256, "a verb is one byte");

#define REQUESTED_BYTES_MIN 3u

/* What follows the numbers of a patch. Logs of 0.1 have PATCH_EXCLUDE or nothing here. */
#define PATCH_EXCLUDE 1u
#define PATCH_STRICT 2u
#define PATCH_SPANS 4u

void kernel_claim_write(struct tn_writer *w, struct tn_bytes pool, bool any, uint32_t count) {
    tn_write_bytes16(w, pool);
    tn_write8(w, any);
    tn_write32(w, count);
}

void kernel_requested_write_number(struct tn_writer *w, uint64_t number) {
    tn_write8(w, 0);
    tn_write64(w, number);
}

void kernel_requested_write_text(struct tn_writer *w, struct tn_bytes text) {
    tn_write8(w, 1);
    tn_write_bytes16(w, text);
}

struct kernel_requested kernel_requested_read(struct tn_reader *r) {
    struct kernel_requested requested = {0};
    uint8_t kind = tn_read8(r);
    if (kind > 1) {
        tn_reader_spoil(r);
        return requested;
    }
    requested.is_text = kind == 1;
    if (requested.is_text) {
        requested.text = tn_read_bytes16(r);
    } else {
        requested.number = tn_read64(r);
    }
    return requested;
}

/* Skips `count` values and returns the bytes they take. */
static struct tn_bytes requested_skip(struct tn_reader *r, uint32_t count) {
    if (count > tn_reader_left(r) / REQUESTED_BYTES_MIN) {
        tn_reader_spoil(r);
        return (struct tn_bytes){0};
    }
    size_t start = r->pos;
    for (uint32_t i = 0; i < count && !r->bad; i++) {
        kernel_requested_read(r);
    }
    if (r->bad) {
        return (struct tn_bytes){0};
    }
    return tn_bytes_of(r->at + start, r->pos - start);
}

void kernel_claim_next(struct tn_reader *r, struct kernel_claim *ret_claim) {
    ret_claim->pool = tn_read_bytes16(r);
    uint8_t any = tn_read8(r);
    ret_claim->any = any == 1;
    ret_claim->count = tn_read32(r);
    ret_claim->values = (struct tn_bytes){0};
    if (any > 1) {
        tn_reader_spoil(r);
    } else if (any == 0) {
        ret_claim->values = requested_skip(r, ret_claim->count);
    }
}

struct kernel_claim kernel_claim_read(struct tn_reader *r) {
    struct kernel_claim claim;
    kernel_claim_next(r, &claim);
    return claim;
}

uint64_t kernel_claims_total(const struct kernel_command *command) {
    struct tn_reader r = tn_reader_of(command->claims.at, command->claims.len);
    uint64_t total = 0;
    for (uint32_t i = 0; i < command->claim_count; i++) {
        total += kernel_claim_read(&r).count;
    }
    return total;
}

static void spans_write(struct tn_writer *w, const struct kernel_span *spans, uint64_t count) {
    tn_write8(w, (uint8_t)count);
    for (uint64_t i = 0; i < count; i++) {
        tn_write64(w, spans[i].lo);
        tn_write64(w, spans[i].hi);
    }
}

static uint64_t spans_parse(struct tn_reader *r, struct kernel_span *spans, uint64_t most) {
    uint8_t count = tn_read8(r);
    if (count > most) {
        tn_reader_spoil(r);
        return 0;
    }
    for (unsigned i = 0; i < count; i++) {
        spans[i].lo = tn_read64(r);
        spans[i].hi = tn_read64(r);
    }
    return count;
}

static void policy_write(struct tn_writer *w, const struct kernel_command *c) {
    const struct kernel_policy_patch *patch = c->policy;
    if (patch == NULL) {
        tn_write_raw(w, c->policy_bytes.at, c->policy_bytes.len);
        return;
    }
    tn_write32(w, patch->mask);
    for (unsigned i = 0; i < KERNEL_OPTION_COUNT; i++) {
        if (patch->mask >> i & 1) {
            tn_write64(w, patch->values.of[i]);
        }
    }
    tn_write8(w,
              (uint8_t)((patch->has_exclude ? PATCH_EXCLUDE : 0) |
                        (patch->strict ? PATCH_STRICT : 0) | (patch->has_spans ? PATCH_SPANS : 0)));
    if (patch->has_exclude) {
        spans_write(w, patch->values.exclude, patch->values.exclude_count);
    }
    if (patch->has_spans) {
        spans_write(w, patch->values.spans, patch->values.span_count);
    }
}

static struct kernel_policy_patch policy_parse(struct tn_reader *r) {
    struct kernel_policy_patch patch = {0};
    patch.mask = tn_read32(r);
    if (KERNEL_OPTION_COUNT < 32 && patch.mask >> KERNEL_OPTION_COUNT != 0) {
        tn_reader_spoil(r);
    }
    for (unsigned i = 0; i < KERNEL_OPTION_COUNT && !r->bad; i++) {
        if (patch.mask >> i & 1) {
            patch.values.of[i] = tn_read64(r);
        }
    }
    uint8_t parts = tn_read8(r);
    patch.has_exclude = (parts & PATCH_EXCLUDE) != 0;
    patch.strict = (parts & PATCH_STRICT) != 0;
    patch.has_spans = (parts & PATCH_SPANS) != 0;
    if ((parts & ~(PATCH_EXCLUDE | PATCH_STRICT | PATCH_SPANS)) != 0) {
        tn_reader_spoil(r);
    }
    if (patch.has_exclude) {
        patch.values.exclude_count = spans_parse(r, patch.values.exclude, KERNEL_EXCLUDES_MAX);
    }
    if (patch.has_spans) {
        patch.values.span_count = spans_parse(r, patch.values.spans, KERNEL_SPANS_MAX);
        if (patch.values.span_count == 0) {
            tn_reader_spoil(r);
        }
    }
    return patch;
}

struct kernel_policy_patch kernel_policy_read(struct tn_bytes bytes) {
    struct tn_reader r = tn_reader_of(bytes.at, bytes.len);
    struct kernel_policy_patch patch = policy_parse(&r);
    TN_ASSERT(!r.bad);
    return patch;
}

/* Those from KERNEL_F_DEADLINE on. */
static void fields_write_rest(struct tn_writer *w, const struct kernel_command *c) {
    uint32_t f = c->fields;
    if (f & KERNEL_F_DEADLINE) {
        tn_write64(w, c->deadline_ms);
    }
    if (f & KERNEL_F_TIMES) {
        tn_write64(w, c->created_ms);
        tn_write64(w, c->seen_ms);
        tn_write64(w, c->offline_ms);
    }
    if (f & KERNEL_F_FIGURES) {
        tn_write64(w, c->given_values);
        tn_write64(w, c->reclaimed);
    }
    if (f & KERNEL_F_EDITION) {
        tn_write32(w, c->edition);
    }
    if (f & KERNEL_F_NOTE) {
        tn_write_bytes16(w, c->note);
    }
    if (f & KERNEL_F_WAIT) {
        tn_write32(w, c->wait_s);
    }
    if (f & KERNEL_F_ROLE) {
        tn_write8(w, c->role);
    }
    if (f & KERNEL_F_QUOTA) {
        tn_write32(w, c->quota);
    }
}

/* The fields in the order of their bits, as the decoder below takes them. */
static void fields_write(struct tn_writer *w, const struct kernel_command *c) {
    uint32_t f = c->fields;
    if (f & KERNEL_F_LEASE) {
        tn_write64(w, c->lease.shard);
        tn_write64(w, c->lease.lsn);
    }
    if (f & KERNEL_F_EPOCH) {
        tn_write64(w, c->epoch);
    }
    if (f & KERNEL_F_HOLDER) {
        tn_write_bytes16(w, c->holder);
    }
    if (f & KERNEL_F_TTL) {
        tn_write32(w, c->ttl_s);
    }
    if (f & KERNEL_F_AFTER) {
        tn_write32(w, c->after_s);
    }
    if (f & KERNEL_F_META) {
        tn_write_bytes16(w, c->meta);
    }
    if (f & KERNEL_F_POOL) {
        tn_write_bytes16(w, c->pool);
    }
    if (f & KERNEL_F_CLAIMS) {
        tn_write16(w, (uint16_t)c->claim_count);
        tn_write_raw(w, c->claims.at, c->claims.len);
    }
    if (f & KERNEL_F_VALUES) {
        tn_write32(w, c->value_count);
        tn_write_raw(w, c->values.at, c->values.len);
    }
    if (f & KERNEL_F_POLICY) {
        policy_write(w, c);
    }
    if (f & KERNEL_F_LIMITS) {
        tn_write16(w, KERNEL_LIMIT_COUNT);
        tn_write_raw(w, c->limits.of, sizeof c->limits.of);
    }
    if (f & KERNEL_F_NAME) {
        tn_write_bytes16(w, c->name);
    }
    if (f & KERNEL_F_TRIGGER) {
        tn_write_bytes16(w, c->trigger);
    }
    if (f & KERNEL_F_ENABLED) {
        tn_write8(w, c->enabled);
    }
    if (f & KERNEL_F_SPEC) {
        tn_write_bytes16(w, c->spec);
    }
    fields_write_rest(w, c);
}

/* ---- Before encoding ---- */

static uint32_t policy_size(const struct kernel_command *c) {
    const struct kernel_policy_patch *patch = c->policy;
    if (patch == NULL) {
        return c->policy_bytes.len;
    }
    uint32_t size = 4u + 8u * (uint32_t)__builtin_popcount(patch->mask) + 1u;
    size += patch->has_exclude ? 1u + 16u * (uint32_t)patch->values.exclude_count : 0u;
    size += patch->has_spans ? 1u + 16u * (uint32_t)patch->values.span_count : 0u;
    return size;
}

/* Adds a run of bytes and its length. Runs that are too long spoil the sum, which stays too large. */
static void size_add(uint64_t *size, struct tn_bytes run) {
    *size += 2u + (run.len > UINT16_MAX ? (uint64_t)KERNEL_COMMAND_MAX + 1u : run.len);
}

/* As fields_write writes them. */
static void field_measure(const struct kernel_command *c, uint32_t field, uint64_t *size) {
    switch (field) {
    case KERNEL_F_LEASE:
    case KERNEL_F_FIGURES:
        *size += 16;
        break;
    case KERNEL_F_EPOCH:
    case KERNEL_F_DEADLINE:
        *size += 8;
        break;
    case KERNEL_F_TTL:
    case KERNEL_F_AFTER:
    case KERNEL_F_EDITION:
    case KERNEL_F_WAIT:
    case KERNEL_F_QUOTA:
        *size += 4;
        break;
    case KERNEL_F_HOLDER:
        size_add(size, c->holder);
        break;
    case KERNEL_F_META:
        size_add(size, c->meta);
        break;
    case KERNEL_F_POOL:
        size_add(size, c->pool);
        break;
    case KERNEL_F_NAME:
        size_add(size, c->name);
        break;
    case KERNEL_F_TRIGGER:
        size_add(size, c->trigger);
        break;
    case KERNEL_F_SPEC:
        size_add(size, c->spec);
        break;
    case KERNEL_F_NOTE:
        size_add(size, c->note);
        break;
    case KERNEL_F_CLAIMS:
        *size += 2u + (uint64_t)c->claims.len;
        break;
    case KERNEL_F_VALUES:
        *size += 4u + (uint64_t)c->values.len;
        break;
    case KERNEL_F_POLICY:
        *size += policy_size(c);
        break;
    case KERNEL_F_LIMITS:
        *size += 2u + sizeof c->limits.of;
        break;
    case KERNEL_F_ENABLED:
    case KERNEL_F_ROLE:
        *size += 1;
        break;
    case KERNEL_F_TIMES:
        *size += 24;
        break;
    default: /* KERNEL_F_IMMEDIATE has no bytes */
        break;
    }
}

uint32_t kernel_command_size(const struct kernel_command *command) {
    uint64_t size = KERNEL_COMMAND_MIN - 4u;
    size_add(&size, command->user);
    size_add(&size, command->opid);
    for (uint32_t left = command->fields; left != 0; left &= left - 1) {
        field_measure(command, left & (0u - left), &size);
    }
    return size > KERNEL_COMMAND_MAX ? 0 : (uint32_t)size;
}

static void claims_skip(struct tn_reader *r, uint32_t count) {
    struct kernel_claim unused;
    for (uint32_t i = 0; i < count && !r->bad; i++) {
        kernel_claim_next(r, &unused);
    }
}

static bool claims_whole(const struct kernel_command *c) {
    struct tn_reader r = tn_reader_of(c->claims.at, c->claims.len);
    claims_skip(&r, c->claim_count);
    return !r.bad && r.pos == r.len && c->claim_count <= UINT16_MAX;
}

static bool values_whole(const struct kernel_command *c) {
    struct tn_reader r = tn_reader_of(c->values.at, c->values.len);
    (void)requested_skip(&r, c->value_count);
    return !r.bad && r.pos == r.len;
}

static bool policy_whole(const struct kernel_command *c) {
    const struct kernel_policy_patch *patch = c->policy;
    if (patch == NULL) {
        struct tn_reader r = tn_reader_of(c->policy_bytes.at, c->policy_bytes.len);
        (void)policy_parse(&r);
        return !r.bad && r.pos == r.len;
    }
    return (KERNEL_OPTION_COUNT == 32 || patch->mask >> KERNEL_OPTION_COUNT == 0) &&
           (!patch->has_exclude || patch->values.exclude_count <= KERNEL_EXCLUDES_MAX) &&
           (!patch->has_spans ||
            (patch->values.span_count > 0 && patch->values.span_count <= KERNEL_SPANS_MAX));
}

bool kernel_command_whole(const struct kernel_command *command) {
    if ((unsigned)command->verb >= KERNEL_VERB_COUNT) {
        return false;
    }
    uint32_t fields = command->fields;
    const struct kernel_verb_row *row = &kernel_verb_rows[command->verb];
    return (fields & row->required) == row->required &&
           (fields & ~(row->required | row->optional)) == 0 &&
           (!(fields & KERNEL_F_CLAIMS) || claims_whole(command)) &&
           (!(fields & KERNEL_F_VALUES) || values_whole(command)) &&
           (!(fields & KERNEL_F_POLICY) || policy_whole(command)) &&
           (!(fields & KERNEL_F_EDITION) || command->edition <= KERNEL_EDITION);
}

/* ---- Encoding and decoding ---- */

uint32_t kernel_command_encode(const struct kernel_command *command, void *out, size_t capacity) {
    if (command->claim_count > UINT16_MAX) {
        return 0;
    }
    struct tn_writer w = tn_writer_of(out, capacity);
    tn_write8(&w, (uint8_t)command->verb);
    tn_write8(&w, command->rights);
    tn_write32(&w, command->fields);
    tn_write_bytes16(&w, command->user);
    tn_write_bytes16(&w, command->opid);
    fields_write(&w, command);
    return w.overflow || w.len > KERNEL_COMMAND_MAX ? 0 : (uint32_t)w.len;
}

static void claims_parse(struct tn_reader *r, struct kernel_command *c) {
    c->claim_count = tn_read16(r);
    size_t start = r->pos;
    claims_skip(r, c->claim_count);
    if (!r->bad) {
        c->claims = tn_bytes_of(r->at + start, r->pos - start);
    }
}

bool kernel_claims_valid(struct tn_bytes claims, uint32_t count) {
    struct tn_reader r = tn_reader_of(claims.at, claims.len);
    struct kernel_claim unused;
    for (uint32_t i = 0; i < count && !r.bad; i++) {
        kernel_claim_next(&r, &unused);
    }
    return !r.bad && r.pos == r.len;
}

static void limits_parse(struct tn_reader *r, struct kernel_command *c) {
    /* A log written before a limit existed means that limit's default. */
    uint16_t count = tn_read16(r);
    c->limits = kernel_limits_default();
    if (count > KERNEL_LIMIT_COUNT) {
        tn_reader_spoil(r);
        return;
    }
    for (uint16_t i = 0; i < count; i++) {
        c->limits.of[i] = tn_read64(r);
    }
}

static void policy_skip(struct tn_reader *r, struct kernel_command *c) {
    size_t start = r->pos;
    policy_parse(r);
    if (!r->bad) {
        c->policy_bytes = tn_bytes_of(r->at + start, r->pos - start);
    }
}

static bool bool_parse(struct tn_reader *r) {
    uint8_t byte = tn_read8(r);
    if (byte > 1) {
        tn_reader_spoil(r);
    }
    return byte == 1;
}

#define PARTS_BAD SIZE_MAX

/* Fields with parts of their own. Where the reader stands goes in and out as plain numbers: a
 * struct that is written in halves and copied whole stalls the processor. */
static size_t parts_parse(const uint8_t *at, size_t len, size_t pos, struct kernel_command *c,
                          uint32_t field) {
    struct tn_reader r = {.at = at, .len = len, .pos = pos};
    switch (field) {
    case KERNEL_F_CLAIMS:
        claims_parse(&r, c);
        break;
    case KERNEL_F_VALUES:
        c->value_count = tn_read32(&r);
        c->values = requested_skip(&r, c->value_count);
        break;
    case KERNEL_F_POLICY:
        policy_skip(&r, c);
        break;
    case KERNEL_F_LIMITS:
        limits_parse(&r, c);
        break;
    case KERNEL_F_ENABLED:
        c->enabled = bool_parse(&r);
        break;
    case KERNEL_F_ROLE:
        c->role = tn_read8(&r);
        break;
    case KERNEL_F_TIMES:
        c->created_ms = tn_read64(&r);
        c->seen_ms = tn_read64(&r);
        c->offline_ms = tn_read64(&r);
        break;
    case KERNEL_F_FIGURES:
        c->given_values = tn_read64(&r);
        c->reclaimed = tn_read64(&r);
        break;
    default: /* KERNEL_F_IMMEDIATE has no bytes */
        break;
    }
    return r.bad ? PARTS_BAD : r.pos;
}

/* Inlined into the loop, and the reader never by address: it stays in registers. */
__attribute__((always_inline)) static inline void field_parse(struct tn_reader *r,
                                                              struct kernel_command *c,
                                                              uint32_t field) {
    switch (field) {
    case KERNEL_F_LEASE:
        c->lease.shard = tn_read64(r);
        c->lease.lsn = tn_read64(r);
        break;
    case KERNEL_F_EPOCH:
        c->epoch = tn_read64(r);
        break;
    case KERNEL_F_HOLDER:
        c->holder = tn_read_bytes16(r);
        break;
    case KERNEL_F_TTL:
        c->ttl_s = tn_read32(r);
        break;
    case KERNEL_F_AFTER:
        c->after_s = tn_read32(r);
        break;
    case KERNEL_F_META:
        c->meta = tn_read_bytes16(r);
        break;
    case KERNEL_F_POOL:
        c->pool = tn_read_bytes16(r);
        break;
    case KERNEL_F_NAME:
        c->name = tn_read_bytes16(r);
        break;
    case KERNEL_F_TRIGGER:
        c->trigger = tn_read_bytes16(r);
        break;
    case KERNEL_F_SPEC:
        c->spec = tn_read_bytes16(r);
        break;
    case KERNEL_F_NOTE:
        c->note = tn_read_bytes16(r);
        break;
    case KERNEL_F_DEADLINE:
        c->deadline_ms = tn_read64(r);
        break;
    case KERNEL_F_WAIT:
        c->wait_s = tn_read32(r);
        break;
    case KERNEL_F_QUOTA:
        c->quota = tn_read32(r);
        break;
    case KERNEL_F_EDITION:
        c->edition = tn_read32(r);
        if (c->edition > KERNEL_EDITION) {
            tn_reader_spoil(r);
        }
        break;
    default: {
        size_t pos = parts_parse(r->at, r->len, r->pos, c, field);
        if (pos == PARTS_BAD) {
            tn_reader_spoil(r);
        } else {
            r->pos = pos;
        }
    }
    }
}

/* What a verb's fields do not fill in must not hold old bytes. Field by field: compilers turn a
 * large memset into an instruction that takes longer to start than all of this. Limits have a field
 * bit of their own that says whether they mean anything. */
static void command_clear(struct kernel_command *c) {
    const struct tn_bytes none = {0};
    c->lease = (struct kernel_lease_id){0};
    c->epoch = 0;
    c->holder = none;
    c->ttl_s = 0;
    c->after_s = 0;
    c->quota = 0;
    c->role = 0;
    c->deadline_ms = 0;
    c->edition = 0;
    c->wait_s = 0;
    c->created_ms = c->seen_ms = c->offline_ms = 0;
    c->given_values = c->reclaimed = 0;
    c->meta = none;
    c->pool = none;
    c->claims = none;
    c->claim_count = 0;
    c->values = none;
    c->value_count = 0;
    c->name = none;
    c->trigger = none;
    c->enabled = false;
    c->spec = none;
    c->note = none;
    c->policy = NULL;
    c->policy_bytes = none;
}

bool kernel_command_decode(struct tn_bytes bytes, struct kernel_command *ret_command) {
    struct tn_reader r = tn_reader_of(bytes.at, bytes.len);
    uint8_t verb = tn_read8(&r);
    if (r.bad || verb >= KERNEL_VERB_COUNT || bytes.len > KERNEL_COMMAND_MAX) {
        return false;
    }
    struct kernel_command *c = ret_command;
    command_clear(c);
    c->verb = (enum kernel_verb)verb;
    c->rights = tn_read8(&r);
    c->fields = tn_read32(&r);
    const struct kernel_verb_row *row = &kernel_verb_rows[verb];
    if ((c->fields & row->required) != row->required ||
        (c->fields & ~(row->required | row->optional)) != 0) {
        return false;
    }
    c->user = tn_read_bytes16(&r);
    c->opid = tn_read_bytes16(&r);
    uint32_t left = c->fields;
    if (left & KERNEL_F_LEASE) { /* the first fields are in most commands */
        field_parse(&r, c, KERNEL_F_LEASE);
    }
    if (left & KERNEL_F_EPOCH) {
        field_parse(&r, c, KERNEL_F_EPOCH);
    }
    if (left & KERNEL_F_HOLDER) {
        field_parse(&r, c, KERNEL_F_HOLDER);
    }
    if (left & KERNEL_F_TTL) {
        field_parse(&r, c, KERNEL_F_TTL);
    }
    left &= ~(uint32_t)(KERNEL_F_LEASE | KERNEL_F_EPOCH | KERNEL_F_HOLDER | KERNEL_F_TTL);
    for (; left != 0; left &= left - 1) {
        field_parse(&r, c, left & (0u - left));
    }
    return !r.bad && r.pos == r.len;
}
