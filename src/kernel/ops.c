/* Remembered operations: a repeat of a command with the same id gets the first answer.
 *
 * An entry holds the user, the id, a 128-bit digest of the encoded command and the encoded result,
 * and lives for op_window_seconds; entries are never dropped early. The queue is ordered by
 * time, so expired entries are at its head.
 *
 * The entry of a lease that waits is set aside: it enters the queue, and its window begins, with the
 * answer. So a repeat finds its place in line however long that takes, and then the answer. (Up to
 * edition 1 of the rules the window began with the command.)
 *
 * An encoded result:
 *   u16 code, u8 has_lease, u64 now, u64 shard, u64 lsn, u64 epoch, u8 state, u64 deadline,
 *   u64 retry_at, u64 number, u32 count, count values: u16 claim, u8 format, u8 name length,
 *   then the name or a u64 number. Of an allocation that waited, or was refused because others wait:
 *   also u64 waiting, u64 waited_ms. */
#include "kernel/ops.h"
#include "kernel/waiting.h"

#define RESULT_FIXED_BYTES 70u
#define RESULT_WAIT_BYTES 16u
#define RESULT_VALUE_BYTES (4u + KERNEL_RESOURCE_MAX)
#define DIGEST_SEED_A 0x74656e757265u
#define DIGEST_SEED_B 0x6c6561736573u

static void digest_of(struct tn_bytes encoded, uint64_t out[2]) {
    out[0] = tn_hash64(encoded.at, encoded.len, DIGEST_SEED_A);
    out[1] = tn_hash64(encoded.at, encoded.len, DIGEST_SEED_B);
}

static void value_write(struct tn_writer *w, const struct kernel_value *v) {
    tn_write16(w, v->claim);
    tn_write8(w, v->format);
    tn_write8(w, v->name_len);
    if (v->name_len > 0) {
        tn_write_raw(w, v->name, v->name_len);
    } else {
        tn_write64(w, v->number);
    }
}

static uint32_t result_write(const struct kernel_result *r, uint8_t *out, size_t capacity) {
    struct tn_writer w = tn_writer_of(out, capacity);
    tn_write16(&w, (uint16_t)r->code);
    tn_write8(&w, r->has_lease);
    tn_write64(&w, r->now_ms);
    tn_write64(&w, r->lease.shard);
    tn_write64(&w, r->lease.lsn);
    tn_write64(&w, r->epoch);
    tn_write8(&w, (uint8_t)r->state);
    tn_write64(&w, r->deadline_ms);
    tn_write64(&w, r->retry_at_ms);
    tn_write64(&w, r->number);
    tn_write32(&w, r->value_count);
    for (uint32_t i = 0; i < r->value_count; i++) {
        value_write(&w, &r->values[i]);
    }
    if (r->waiting != 0 || r->waited_ms != 0) {
        tn_write64(&w, r->waiting);
        tn_write64(&w, r->waited_ms);
    }
    TN_ASSERT(!w.overflow);
    return (uint32_t)w.len;
}

static bool value_read(struct tn_reader *in, struct kernel_value *v) {
    *v = (struct kernel_value){.pool = TN_NONE, .claim = tn_read16(in)};
    v->format = tn_read8(in);
    v->name_len = tn_read8(in);
    if (v->name_len > sizeof v->name) {
        return false;
    }
    if (v->name_len > 0) {
        tn_read_raw(in, v->name, v->name_len);
    } else {
        v->number = tn_read64(in);
    }
    return !in->bad && v->format < KERNEL_FORMAT_COUNT;
}

/* False if the bytes are not a result with room for its values. Without `values` in the result they
 * are only looked at. */
static bool result_read(struct tn_bytes bytes, struct kernel_result *r) {
    struct tn_reader in = tn_reader_of(bytes.at, bytes.len);
    struct kernel_value unused;
    r->code = (enum tn_result)tn_read16(&in);
    r->has_lease = tn_read8(&in) != 0;
    r->now_ms = tn_read64(&in);
    r->lease.shard = tn_read64(&in);
    r->lease.lsn = tn_read64(&in);
    r->epoch = tn_read64(&in);
    r->state = (enum kernel_state)tn_read8(&in);
    r->deadline_ms = tn_read64(&in);
    r->retry_at_ms = tn_read64(&in);
    r->number = tn_read64(&in);
    r->value_count = tn_read32(&in);
    if ((unsigned)r->code >= TN_R_COUNT || (unsigned)r->state >= KERNEL_STATE_COUNT ||
        r->value_count > r->value_capacity) {
        return false;
    }
    for (uint32_t i = 0; i < r->value_count; i++) {
        if (!value_read(&in, r->values == NULL ? &unused : &r->values[i])) {
            return false;
        }
    }
    if (!in.bad && in.pos < in.len) {
        r->waiting = tn_read64(&in);
        r->waited_ms = tn_read64(&in);
    }
    return !in.bad && in.pos == in.len;
}

bool kernel_op_readable(const struct kernel *k, uint32_t slot) {
    struct kernel_result result = {.value_capacity =
                                       (uint32_t)kernel_limit(k, KERNEL_LIMIT_BUNDLE)};
    uint32_t len = tn_text_get(&k->tables[TABLE_OP_TEXT], op_at(k, slot)->result, k->op_buffer,
                               k->op_buffer_bytes);
    return len <= k->op_buffer_bytes && result_read(tn_bytes_of(k->op_buffer, len), &result);
}

static uint32_t user_of(const struct kernel *k, const struct kernel_command *c, bool *ret_known) {
    bool anonymous = c->user.len == 0;
    uint32_t user = anonymous ? TN_NONE : kernel_index_text(k, TEXT_NAME, c->user);
    *ret_known = anonymous || user != TN_NONE;
    return user;
}

static bool op_lives(const struct op *o, uint64_t now_ms) {
    return o->expires_ms > now_ms || (o->bits & OP_ASIDE) != 0;
}

/* The entry for this user and id that is live at `now_ms`, or TN_NONE. */
static uint32_t op_find(const struct kernel *k, const struct kernel_command *c, uint64_t now_ms) {
    bool known;
    uint32_t user = user_of(k, c, &known);
    uint32_t slot = known ? kernel_index_op(k, user, c->opid) : TN_NONE;
    return slot != TN_NONE && op_lives(op_at(k, slot), now_ms) ? slot : TN_NONE;
}

bool kernel_op_replay(struct kernel *k, const struct kernel_command *c, struct tn_bytes encoded,
                      struct kernel_result *result) {
    uint32_t slot = op_find(k, c, root_at(k)->now_ms);
    if (slot == TN_NONE) {
        return false;
    }
    const struct op *o = op_at(k, slot);
    uint64_t digest[2];
    digest_of(encoded, digest);
    if (digest[0] != o->digest[0] || digest[1] != o->digest[1]) {
        result->code = TN_R_CONFLICT;
        result->number = o->lsn;
        return true;
    }
    if (o->waiter1 != 0) { /* the client takes its place again, if the lease still waits */
        uint32_t lease = waiter_at(k, o->waiter1 - 1)->lease;
        if (!kernel_due_lease(k, lease)) {
            kernel_wait_attend(k, lease);
        }
    }
    uint32_t len =
        tn_text_get(&k->tables[TABLE_OP_TEXT], o->result, k->op_buffer, k->op_buffer_bytes);
    TN_ASSERT(len <= k->op_buffer_bytes);
    bool read = result_read(tn_bytes_of(k->op_buffer, len), result);
    TN_ASSERT(read);
    result->lsn = o->lsn;
    result->replayed = true;
    return true;
}

/* Chunks that the result can take at most. */
static uint64_t result_chunks_most(uint64_t values, bool waits) {
    return tn_text_chunks(RESULT_FIXED_BYTES + (waits ? RESULT_WAIT_BYTES : 0) +
                          values * RESULT_VALUE_BYTES);
}

/* Chunks that remembering this command can take at most. A refusal has no values, so what it says of a
 * line fits without being counted. */
static uint64_t chunks_most(const struct kernel *k, const struct kernel_command *c) {
    uint64_t values = 0;
    if (c->fields & KERNEL_F_CLAIMS) {
        uint64_t most = kernel_limit(k, KERNEL_LIMIT_BUNDLE);
        values = kernel_claims_total(c);
        /* "Whatever it has" may be a whole bundle; more than a bundle is refused. */
        values = values == 0 || values > most ? most : values;
    }
    return tn_text_chunks(c->opid.len) +
           result_chunks_most(values, (c->fields & KERNEL_F_WAIT) != 0);
}

/* The room in the tables after removing the oldest entries that have expired at `now_ms`, as each
 * command does with a few of them. Examines a bounded number; later commands remove the others. */
#define ADMIT_LOOK 64u

struct op_room {
    uint64_t entries, chunks;
};

/* Chunks that are neither used nor set aside. */
static uint64_t chunks_free(const struct kernel *k) {
    uint64_t room = tn_table_room(&k->tables[TABLE_OP_TEXT]);
    TN_ASSERT(room >= root_at(k)->op_chunks_waiting);
    return room - root_at(k)->op_chunks_waiting;
}

static struct op_room room_at(const struct kernel *k, uint64_t now_ms) {
    const struct tn_table *text = &k->tables[TABLE_OP_TEXT];
    struct op_room room = {.entries = tn_table_room(&k->tables[TABLE_OP]),
                           .chunks = chunks_free(k)};
    uint32_t slot = root_at(k)->op_head;
    for (unsigned i = 0; i < ADMIT_LOOK && slot != TN_NONE && op_at(k, slot)->expires_ms <= now_ms;
         i++) {
        room.entries++;
        room.chunks += tn_text_chunks(tn_text_len(text, op_at(k, slot)->opid)) +
                       tn_text_chunks(tn_text_len(text, op_at(k, slot)->result));
        slot = op_at(k, slot)->next;
    }
    return room;
}

enum tn_result kernel_op_admit(const struct kernel *k, const struct kernel_command *c,
                               uint64_t now_ms, uint64_t pending, uint64_t pending_chunks,
                               uint64_t *ret_chunks) {
    uint64_t now = now_ms > root_at(k)->now_ms ? now_ms : root_at(k)->now_ms;
    *ret_chunks = 0;
    if (c->opid.len == 0 || op_find(k, c, now) != TN_NONE) {
        return TN_R_OK;
    }
    uint64_t chunks = chunks_most(k, c);
    bool plenty =
        tn_table_room(&k->tables[TABLE_OP]) > pending && chunks_free(k) >= pending_chunks + chunks;
    if (!plenty) {
        struct op_room room = room_at(k, now);
        if (room.entries <= pending || room.chunks < pending_chunks + chunks) {
            return TN_R_OPS_FULL;
        }
    }
    *ret_chunks = chunks;
    return TN_R_OK;
}

enum tn_result kernel_op_begin(struct kernel *k, const struct kernel_command *c,
                               uint32_t *ret_user) {
    uint32_t names = 0;
    TN_ASSERT(c->opid.len > 0 && c->opid.len <= KERNEL_OPID_MAX);
    uint32_t chunks = c->user.len == 0 ? 0 : kernel_name_cost(k, c->user, &names);
    if (tn_table_room(&k->tables[TABLE_OP]) == 0 || chunks_free(k) < chunks_most(k, c)) {
        return TN_R_OPS_FULL;
    }
    if (tn_table_room(&k->tables[TABLE_NAME]) < names ||
        tn_table_room(&k->tables[TABLE_TEXT]) < chunks) {
        return TN_R_NAMES_FULL;
    }
    bool anonymous = c->user.len == 0;
    *ret_user = anonymous ? TN_NONE : kernel_name_hold(k, c->user);
    return TN_R_OK;
}

/* Not before the entry in front of it, which may be of a time with a longer window: the queue stays
 * in order, and an id that was admitted because it is remembered finds room if it no longer is. */
static uint64_t expires_at(const struct kernel *k) {
    const struct root *root = root_at(k);
    uint64_t at = root->now_ms + kernel_seconds_ms(kernel_limit(k, KERNEL_LIMIT_OP_SECONDS));
    uint64_t last = root->op_tail == TN_NONE ? 0 : op_at(k, root->op_tail)->expires_ms;
    return at < last ? last : at;
}

static void queue_add(struct kernel *k, uint32_t slot) {
    struct root *root = root_mut(k);
    struct op *o = op_mut(k, slot);
    o->expires_ms = expires_at(k);
    o->next = TN_NONE;
    if (root->op_tail == TN_NONE) {
        TN_ASSERT(root->op_head == TN_NONE);
        root->op_head = slot;
    } else {
        op_mut(k, root->op_tail)->next = slot;
    }
    root->op_tail = slot;
}

/* The chunks that the answer to a waiting lease may need in addition to those in use. */
static uint64_t chunks_aside(const struct kernel *k, const struct waiter *w, uint32_t op) {
    uint64_t most = result_chunks_most(w->total, true);
    uint64_t now = tn_text_chunks(tn_text_len(&k->tables[TABLE_OP_TEXT], op_at(k, op)->result));
    TN_ASSERT(most >= now);
    return most - now;
}

static void op_wait(struct kernel *k, uint32_t op, const struct kernel_result *result) {
    uint32_t lease = kernel_index_lease(k, result->lease.lsn);
    uint32_t waiter = lease_at(k, lease)->waiter;
    op_mut(k, op)->waiter1 = waiter + 1;
    kernel_wait_op_set(k, waiter, op);
    root_mut(k)->op_chunks_waiting += chunks_aside(k, waiter_at(k, waiter), op);
}

void kernel_op_answer(struct kernel *k, const struct waiter *w,
                      const struct kernel_result *result) {
    struct tn_table *chunks = &k->tables[TABLE_OP_TEXT];
    struct op *o = op_mut(k, w->op);
    uint64_t aside = chunks_aside(k, w, w->op);
    TN_ASSERT(o->waiter1 != 0 && root_at(k)->op_chunks_waiting >= aside);
    root_mut(k)->op_chunks_waiting -= aside;
    uint32_t len = result_write(result, k->op_buffer, k->op_buffer_bytes);
    tn_text_drop(chunks, o->result);
    o->result = tn_text_put(chunks, tn_bytes_of(k->op_buffer, len));
    o->lsn = root_at(k)->lsn;
    o->waiter1 = 0;
    if ((o->bits & OP_ASIDE) != 0) {
        o->bits &= ~OP_ASIDE;
        queue_add(k, w->op);
    }
}

void kernel_op_end(struct kernel *k, const struct kernel_command *c, struct tn_bytes encoded,
                   uint32_t user, const struct kernel_result *result) {
    uint32_t expired = kernel_index_op(k, user, c->opid);
    if (expired != TN_NONE) { /* over, but still in the queue */
        kernel_index_op_remove(k, expired);
        op_mut(k, expired)->bits |= OP_UNMAPPED;
    }
    uint32_t len = result_write(result, k->op_buffer, k->op_buffer_bytes);
    struct tn_table *chunks = &k->tables[TABLE_OP_TEXT];
    uint32_t slot = tn_table_take(&k->tables[TABLE_OP]);
    TN_ASSERT(slot != TN_NONE); /* kernel_op_begin has seen the room */
    struct op *o = op_mut(k, slot);
    o->user = user;
    o->opid = tn_text_put(chunks, c->opid);
    o->result = tn_text_put(chunks, tn_bytes_of(k->op_buffer, len));
    o->lsn = root_at(k)->lsn;
    digest_of(encoded, o->digest);
    if (result->code == TN_R_WAITING && kernel_edition_has(k, 2)) {
        o->bits |= OP_ASIDE;
        o->next = TN_NONE;
    } else {
        queue_add(k, slot);
    }
    kernel_index_op_add(k, slot);
    if (result->code == TN_R_WAITING) {
        op_wait(k, slot, result);
    }
}

void kernel_op_purge(struct kernel *k, uint32_t budget) {
    for (uint32_t i = 0; i < budget && root_at(k)->op_head != TN_NONE; i++) {
        uint32_t slot = root_at(k)->op_head;
        struct op o = *op_at(k, slot);
        TN_ASSERT(o.lsn > 0 && o.lsn <= root_at(k)->lsn);
        if (o.expires_ms > root_at(k)->now_ms) {
            return;
        }
        if ((o.bits & OP_UNMAPPED) == 0) {
            kernel_index_op_remove(k, slot);
        }
        if (o.waiter1 != 0) { /* of edition 1 */
            root_mut(k)->op_chunks_waiting -= chunks_aside(k, waiter_at(k, o.waiter1 - 1), slot);
            kernel_wait_op_set(k, o.waiter1 - 1, TN_NONE);
        }
        struct root *root = root_mut(k);
        root->op_head = o.next;
        root->op_tail = o.next == TN_NONE ? TN_NONE : root->op_tail;
        tn_text_drop(&k->tables[TABLE_OP_TEXT], o.opid);
        tn_text_drop(&k->tables[TABLE_OP_TEXT], o.result);
        tn_table_give(&k->tables[TABLE_OP], slot);
        if (o.user != TN_NONE) {
            kernel_name_drop(k, o.user);
        }
    }
}
