/* Writing and reading of event records; the bytes are in record.h. */
#include "engine/record.h"

#include "base/assert.h"
#include "kernel/kernel.h"

enum present {
    HAS_SHARD = 1,
    HAS_LEASE = 2,
    HAS_EPOCH = 4,
    HAS_DEADLINE = 8,
    HAS_NUMBER = 16,
    HAS_HOLDER = 32,
    HAS_PREVIOUS = 64,
    HAS_USER = 128,
    HAS_NAME = 256,
    HAS_TRIGGER = 512,
    HAS_PAYLOAD = 1024,
    HAS_ACTOR = 2048,
    HAS_NOTE = 4096,
    HAS_ALL = 8191,
};

#define RUN_EXTRA 2u      /* bytes for its length and its NUL */
#define LONG_RUN_EXTRA 3u /* the same for a length of two bytes */

_Static_assert(KERNEL_EVENT_COUNT < RECORD_LOST, "a kind is a byte, and one is taken");
_Static_assert(KERNEL_HOLDER_MAX <= UINT8_MAX, "a run's length is a byte");
_Static_assert(KERNEL_POOL_MAX <= UINT8_MAX, "a run's length is a byte");
_Static_assert(KERNEL_RULE_MAX <= UINT8_MAX, "a run's length is a byte");
_Static_assert(KERNEL_USER_MAX <= UINT8_MAX, "a run's length is a byte");
_Static_assert(KERNEL_META_MAX <= UINT16_MAX, "a long run's length is two bytes");
_Static_assert(KERNEL_NOTE_MAX <= UINT16_MAX, "a long run's length is two bytes");
_Static_assert(KERNEL_FORMAT_COUNT - 1 <= RECORD_FORMAT_MASK, "a format fits its bits");

/* ---- Writing ---- */

/* An upper bound: each value might be of another pool. */
size_t engine_record_size_max(const struct kernel_event *fact) {
    size_t size = RECORD_HEAD + 5 * sizeof(uint64_t) + 6 * (size_t)RUN_EXTRA +
                  2 * (size_t)LONG_RUN_EXTRA + fact->holder.len + fact->previous.len +
                  fact->user.len + fact->name.len + fact->trigger.len + fact->payload.len +
                  fact->actor.len + fact->note.len;
    return size + fact->value_count *
                      (size_t)(1 + RUN_EXTRA + KERNEL_POOL_MAX + RUN_EXTRA + KERNEL_RESOURCE_MAX);
}

static uint8_t *put64(uint8_t *at, uint64_t value, unsigned bit, unsigned *present) {
    if (value == 0) {
        return at;
    }
    *present |= bit;
    tn_store64(at, value);
    return at + sizeof value;
}

static uint8_t *put_run(uint8_t *at, const void *bytes, uint32_t len) {
    TN_ASSERT(len <= UINT8_MAX);
    *at = (uint8_t)len;
    memcpy(at + 1, bytes, len);
    at[1 + len] = '\0';
    return at + RUN_EXTRA + len;
}

static uint8_t *put_text(uint8_t *at, struct tn_bytes text, unsigned bit, unsigned *present) {
    if (text.len == 0) {
        return at;
    }
    *present |= bit;
    return put_run(at, text.at, text.len);
}

static uint8_t *put_long(uint8_t *at, struct tn_bytes text, unsigned bit, unsigned *present) {
    if (text.len == 0) {
        return at;
    }
    TN_ASSERT(text.len <= UINT16_MAX);
    *present |= bit;
    tn_store16(at, (uint16_t)text.len);
    memcpy(at + 2, text.at, text.len);
    at[2 + text.len] = '\0';
    return at + LONG_RUN_EXTRA + text.len;
}

static uint8_t *put_values(uint8_t *at, const struct kernel *kernel,
                           const struct kernel_event *fact) {
    for (uint32_t i = 0; i < fact->value_count; i++) {
        const struct kernel_value *value = &fact->values[i];
        uint8_t *tag = at++;
        *tag = value->format & RECORD_FORMAT_MASK;
        if (i == 0 || value->pool != fact->values[i - 1].pool) {
            char pool[KERNEL_POOL_MAX + 1];
            uint32_t len = kernel_pool_name(kernel, value->pool, pool);
            if (tn_bytes_equal(tn_bytes_of(pool, len), fact->name)) {
                *tag |= RECORD_POOL_NAME;
            } else {
                *tag |= RECORD_POOL;
                at = put_run(at, pool, len);
            }
        }
        if (value->name_len > 0) {
            *tag |= RECORD_NAMED;
            at = put_run(at, value->name, value->name_len);
        } else {
            tn_store64(at, value->number);
            at += sizeof value->number;
        }
    }
    return at;
}

static void put_head(uint8_t *out, struct engine_event_id id, uint64_t now_ms, size_t size) {
    tn_store32(out, (uint32_t)size);
    tn_store32(out + 4, id.index);
    tn_store64(out + 8, id.lsn);
    tn_store64(out + 16, now_ms);
}

size_t engine_record_write(uint8_t *out, const struct kernel *kernel,
                           const struct kernel_event *fact) {
    unsigned present = 0;
    uint8_t *at = out + RECORD_HEAD;
    at = put64(at, fact->lease.shard, HAS_SHARD, &present);
    at = put64(at, fact->lease.lsn, HAS_LEASE, &present);
    at = put64(at, fact->epoch, HAS_EPOCH, &present);
    at = put64(at, fact->deadline_ms, HAS_DEADLINE, &present);
    at = put64(at, fact->number, HAS_NUMBER, &present);
    at = put_text(at, fact->holder, HAS_HOLDER, &present);
    at = put_text(at, fact->previous, HAS_PREVIOUS, &present);
    at = put_text(at, fact->user, HAS_USER, &present);
    at = put_text(at, fact->name, HAS_NAME, &present);
    at = put_text(at, fact->trigger, HAS_TRIGGER, &present);
    at = put_long(at, fact->payload, HAS_PAYLOAD, &present);
    at = put_text(at, fact->actor, HAS_ACTOR, &present);
    at = put_long(at, fact->note, HAS_NOTE, &present);
    at = put_values(at, kernel, fact);
    put_head(out, (struct engine_event_id){fact->lsn, fact->index}, fact->now_ms,
             (size_t)(at - out));
    out[24] = (uint8_t)fact->kind;
    out[25] = (uint8_t)fact->reason;
    tn_store16(out + 26, (uint16_t)present);
    tn_store32(out + 28, fact->value_count);
    return (size_t)(at - out);
}

void engine_record_write_lost(uint8_t *out, struct engine_event_id id) {
    memset(out, 0, RECORD_HEAD);
    put_head(out, id, 0, RECORD_HEAD);
    out[24] = RECORD_LOST;
}

/* ---- Reading ---- */

struct tn_bytes engine_record_first(struct tn_bytes bytes) {
    if (bytes.len < RECORD_HEAD || engine_record_size(bytes.at) < RECORD_HEAD ||
        engine_record_size(bytes.at) > bytes.len) {
        return tn_bytes_of(NULL, 0);
    }
    return tn_bytes_of(bytes.at, engine_record_size(bytes.at));
}

static uint64_t get64(struct tn_reader *r, unsigned present, unsigned bit) {
    return (present & bit) != 0 ? tn_read64(r) : 0;
}

static const uint8_t empty_run[1]; /* its NUL */

/* Reads the bytes after a length. */
static struct tn_bytes get_rest(struct tn_reader *r, uint32_t len) {
    if (r->bad || tn_reader_left(r) < len + 1u || r->at[r->pos + len] != '\0') {
        tn_reader_spoil(r);
        return tn_bytes_of(empty_run, 0);
    }
    struct tn_bytes run = tn_bytes_of(r->at + r->pos, len);
    r->pos += len + 1u;
    return run;
}

static struct tn_bytes get_run(struct tn_reader *r) {
    uint8_t len = tn_read8(r);
    return get_rest(r, len);
}

static struct tn_bytes get_long(struct tn_reader *r, unsigned present, unsigned bit) {
    if ((present & bit) == 0) {
        return tn_bytes_of(empty_run, 0);
    }
    uint16_t len = tn_read16(r);
    return get_rest(r, len);
}

static struct tn_bytes get_text(struct tn_reader *r, unsigned present, unsigned bit) {
    return (present & bit) != 0 ? get_run(r) : tn_bytes_of(empty_run, 0);
}

static void get_values(struct tn_reader *r, const struct kernel_event *fact,
                       struct engine_event_value *values) {
    struct tn_bytes pool = tn_bytes_of(empty_run, 0);
    for (uint32_t i = 0; i < fact->value_count && !r->bad; i++) {
        uint8_t tag = tn_read8(r);
        if ((tag & RECORD_POOL) != 0) {
            pool = get_run(r);
        } else if ((tag & RECORD_POOL_NAME) != 0) {
            pool = fact->name;
        }
        bool named = (tag & RECORD_NAMED) != 0;
        values[i] = (struct engine_event_value){
            .pool = pool,
            .name = named ? get_run(r) : tn_bytes_of(empty_run, 0),
            .format = (enum kernel_format)(tag & RECORD_FORMAT_MASK),
        };
        values[i].number = named ? 0 : tn_read64(r);
        if (values[i].format >= KERNEL_FORMAT_COUNT) {
            tn_reader_spoil(r);
        }
    }
}

bool engine_record_read(struct tn_bytes record, struct engine_event_value *values,
                        struct engine_event *ret_event) {
    struct tn_reader r = tn_reader_of(record.at, record.len);
    struct kernel_event fact = {0};
    r.pos = sizeof(uint32_t);
    fact.index = tn_read32(&r);
    fact.lsn = tn_read64(&r);
    fact.now_ms = tn_read64(&r);
    unsigned kind = tn_read8(&r);
    unsigned reason = tn_read8(&r);
    unsigned present = tn_read16(&r);
    fact.value_count = tn_read32(&r);
    if (r.bad || kind >= KERNEL_EVENT_COUNT || reason >= KERNEL_REASON_COUNT || present > HAS_ALL) {
        return false;
    }
    fact.kind = (enum kernel_event_kind)kind;
    fact.reason = (enum kernel_reason)reason;
    fact.lease.shard = get64(&r, present, HAS_SHARD);
    fact.lease.lsn = get64(&r, present, HAS_LEASE);
    fact.epoch = get64(&r, present, HAS_EPOCH);
    fact.deadline_ms = get64(&r, present, HAS_DEADLINE);
    fact.number = get64(&r, present, HAS_NUMBER);
    fact.holder = get_text(&r, present, HAS_HOLDER);
    fact.previous = get_text(&r, present, HAS_PREVIOUS);
    fact.user = get_text(&r, present, HAS_USER);
    fact.name = get_text(&r, present, HAS_NAME);
    fact.trigger = get_text(&r, present, HAS_TRIGGER);
    fact.payload = get_long(&r, present, HAS_PAYLOAD);
    fact.actor = get_text(&r, present, HAS_ACTOR);
    fact.note = get_long(&r, present, HAS_NOTE);
    get_values(&r, &fact, values);
    if (r.bad || tn_reader_left(&r) != 0) {
        return false;
    }
    *ret_event = (struct engine_event){.fact = fact, .values = values};
    return true;
}
