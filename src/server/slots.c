/* What slots.h promises. */
#include "server/slots.h"

#include <stdlib.h>

#include "base/assert.h"
#include "protocol/render.h"
#include "server/server_role.h"

bool server_slots_init(struct server_slots *slots, struct server_counters *counters) {
    slots->counters = counters;
    slots->of = aligned_alloc(64, SERVER_SLOTS * sizeof *slots->of);
    slots->replies = malloc((size_t)SERVER_SLOTS * SERVER_SLOT_BYTES);
    slots->done = calloc(SERVER_SLOTS, sizeof(struct server_slot *));
    return slots->of != NULL && slots->replies != NULL && slots->done != NULL;
}

void server_slots_free(struct server_slots *slots) {
    free(slots->of);
    free(slots->replies);
    free((void *)slots->done);
}

/* Without this limit, a few clients could take all slots, and other writes would wait behind
 * thousands of theirs. */
uint32_t server_slots_share(const struct server_slots *slots) {
    uint32_t quarters = (slots->used - slots->waiting) / (SERVER_SLOTS_BUSY / 4);
    quarters = quarters < 4 ? quarters : 4;
    return SERVER_INFLIGHT_MAX >> 3 * quarters;
}

/* ---- A slot's life ---- */

struct server_slot *server_slot_take(struct server_slots *slots, struct server_client *client,
                                     const struct protocol_command *row) {
    struct server_slot *slot = slots->free;
    if (slots->used - slots->waiting >= SERVER_SLOTS_BUSY) {
        return NULL;
    }
    if (slot != NULL) {
        slots->free = slot->next;
    } else if (slots->touched < SERVER_SLOTS) {
        slot = &slots->of[slots->touched++];
    } else {
        return NULL;
    }
    slots->used++;
    slot->slots = slots;
    slot->row = row;
    slots->counters->calls[row->id]++;
    slot->client = client;
    slot->next = NULL;
    slot->answer.code = TN_R_OK;
    if (client->encoding == PROTOCOL_JSON) { /* HTTP sends the other facts in headers */
        slot->answer = (struct server_answer){.code = TN_R_OK};
    }
    slot->begun_ns = client->begun_ns;
    slot->encoding = client->encoding;
    slot->done = false;
    slot->plain = false;
    slot->len = 0;
    slot->heap = NULL;
    slot->next_parked = NULL;
    slot->parked = slot->may_wait = slot->has_place = slot->has_op = false;
    if (client->last != NULL) {
        client->last->next = slot;
    } else {
        client->first = slot;
    }
    client->last = slot;
    client->inflight++;
    return slot;
}

void server_slot_free(struct server_slot *slot) {
    struct server_slots *slots = slot->slots;
    TN_ASSERT(slots->used > 0 && !slot->parked);
    free(slot->heap);
    slot->heap = NULL;
    slot->next = slots->free;
    slots->free = slot;
    slots->used--;
}

void server_slot_return(struct server_client *client) {
    struct server_slot **link = &client->first;
    struct server_slot *slot = client->last, *before = NULL;
    TN_ASSERT(slot != NULL && client->inflight > 0 && !slot->done);
    while (*link != slot) {
        before = *link;
        link = &before->next;
    }
    *link = NULL;
    client->last = before;
    client->inflight--;
    slot->slots->counters->calls[slot->row->id]--;
    server_slot_free(slot);
}

struct server_slot *server_slot_collect(struct server_client *client) {
    struct server_slot *slot = client->first;
    if (slot == NULL || !slot->done) {
        return NULL;
    }
    client->first = slot->next;
    if (client->first == NULL) {
        client->last = NULL;
        client->waits = false; /* a waiting request is the client's last */
    }
    TN_ASSERT(client->inflight > 0);
    client->inflight--;
    return slot;
}

void server_slots_leave(struct server_client *client) {
    struct server_slot *slot = client->first;
    client->first = client->last = NULL;
    client->inflight = 0;
    while (slot != NULL) {
        struct server_slot *next = slot->next;
        slot->client = NULL;
        if (slot->done) {
            server_slot_free(slot);
        }
        slot = next;
    }
}

/* ---- Its answer ---- */

static uint8_t *slot_bytes(const struct server_slot *slot) {
    return slot->slots->replies + (size_t)(slot - slot->slots->of) * SERVER_SLOT_BYTES;
}

struct protocol_writer server_slot_writer(const struct server_slot *slot) {
    return (struct protocol_writer){.out = tn_writer_of(slot_bytes(slot), SERVER_SLOT_BYTES),
                                    .encoding = slot->encoding};
}

/* BUSY names the lease on the value to clients that may see it. The result has no values, so this
 * runs on the loop only. */
static void result_write(const struct server_slot *slot, struct protocol_writer *w,
                         const struct kernel_result *result) {
    struct engine_lease lease;
    if (result->code == TN_R_BUSY && result->has_lease && slot->client != NULL &&
        server_client_sees(slot->client, result->lease, result->epoch, &lease)) {
        struct tn_bytes holder = tn_bytes_of(lease.view.holder, lease.view.holder_len);
        protocol_render_busy(w, slot->row, result, holder);
    } else if (result->code == TN_R_READONLY && slot->client != NULL) {
        server_refusal_render(slot->client, w, result->code, NULL, 0);
    } else {
        protocol_render_result(w, slot->row, result);
    }
}

static void slot_render(struct server_slot *slot, const struct kernel_result *result) {
    struct protocol_writer w = server_slot_writer(slot);
    result_write(slot, &w, result);
    if (w.out.overflow) {
        /* In JSON, a byte of a name may become three. */
        size_t room =
            PROTOCOL_PROBLEM_MAX + (size_t)result->value_count * (3 * KERNEL_RESOURCE_MAX + 16);
        slot->heap = malloc(room);
        if (slot->heap == NULL) {
            /* The write is committed, but its reply does not fit: for the client, the outcome is
             * unknown. */
            w = server_slot_writer(slot);
            protocol_render_refusal(&w, TN_R_LOST,
                                    "committed, but there is no memory for the reply");
        } else {
            w.out = tn_writer_of(slot->heap, room);
            result_write(slot, &w, result);
        }
    }
    TN_ASSERT(!w.out.overflow);
    slot->answer =
        (struct server_answer){.code = result->code,
                               .http_status = (uint16_t)protocol_http_status(slot->row, result),
                               .replayed = result->replayed,
                               .has_lease = result->has_lease,
                               .lsn = result->lsn,
                               .now_ms = result->now_ms,
                               .retry_at_ms = result->retry_at_ms,
                               .lease = result->lease};
    slot->len = (uint32_t)w.out.len;
}

/* True: the result is plain, and the slot has all that the loop needs. */
static bool slot_is_plain(struct server_slot *slot, const struct kernel_result *result) {
    if (result->value_count > 1 || (result->value_count == 1 && result->values[0].name_len > 0)) {
        return false;
    }
    if (result->value_count == 1) {
        slot->value = result->values[0].number;
        slot->format = result->values[0].format;
    }
    slot->plain = true;
    return true;
}

/* The slot may hold an earlier result, which said that the lease waits. */
static void slot_forget(struct server_slot *slot) {
    free(slot->heap);
    slot->heap = NULL;
    slot->plain = false;
}

void server_slot_keep(struct server_slot *slot, const struct kernel_result *result) {
    slot_forget(slot);
    if (!slot_is_plain(slot, result)) {
        slot_render(slot, result);
    }
}

void server_slot_write(const struct server_slot *slot, struct protocol_writer *w) {
    struct kernel_result result = slot->request.result;
    struct kernel_value value;
    TN_ASSERT(result.value_count <= 1);
    value.number = slot->value;
    value.format = slot->format;
    value.name_len = 0;
    result.values = &value;
    TN_ASSERT(slot->plain);
    result_write(slot, w, &result);
}

struct tn_bytes server_slot_reply(struct server_slot *slot) {
    if (slot->plain) {
        struct kernel_value value = {.number = slot->value, .format = slot->format};
        slot->request.result.values = &value;
        slot_render(slot, &slot->request.result);
        slot->plain = false;
    }
    return tn_bytes_of(slot->heap != NULL ? slot->heap : slot_bytes(slot), slot->len);
}

void server_slot_refuse(struct server_slot *slot, enum tn_result code, const char *detail) {
    slot_forget(slot);
    struct protocol_writer w = server_slot_writer(slot);
    server_refusal_render(slot->client, &w, code, detail, 0);
    if (w.out.overflow) { /* long words with many escapes */
        w = server_slot_writer(slot);
        protocol_render_refusal(&w, code, NULL);
    }
    TN_ASSERT(!w.out.overflow);
    slot->answer =
        (struct server_answer){.code = code, .http_status = (uint16_t)tn_result_http(code)};
    slot->len = (uint32_t)w.out.len;
    slot->done = true;
    server_count_refusal(slot->slots->counters, slot->row->id, code);
    server_count_served(slot->slots->counters, slot->row->id, slot->begun_ns);
}

void server_slot_refused(struct server_slot *slot) {
    TN_ASSERT(slot->request.result.value_count == 0);
    slot_forget(slot);
    slot->plain = true;
    slot->answer.code = slot->request.result.code;
    slot->done = true;
    server_count_refusal(slot->slots->counters, slot->row->id, slot->answer.code);
    server_count_served(slot->slots->counters, slot->row->id, slot->begun_ns);
}

/* ---- The ring ---- */

void server_slots_put(struct server_slots *slots, struct server_slot *slot, bool last) {
    /* The ring has as many places as there are slots. */
    uint32_t tail = atomic_load_explicit(&slots->done_tail, memory_order_relaxed);
    slots->done[tail % SERVER_SLOTS] = slot;
    /* Sequentially consistent with libuv's check whether the loop has been woken already. */
    atomic_store_explicit(&slots->done_tail, tail + 1,
                          last ? memory_order_seq_cst : memory_order_release);
}

uint32_t server_slots_tail(struct server_slots *slots) {
    return atomic_load_explicit(&slots->done_tail, memory_order_acquire);
}

#define AHEAD 8u

static void slot_fetch(const struct server_slot *slot) {
    __builtin_prefetch(&slot->request.result);
    __builtin_prefetch((const uint8_t *)&slot->request.result + 64);
    __builtin_prefetch(&slot->slots, 1);
    __builtin_prefetch(&slot->value, 1);
}

struct server_slot *server_slots_next(struct server_slots *slots, uint32_t tail) {
    uint32_t head = slots->done_head;
    if (head == tail) {
        return NULL;
    }
    if (tail - head > AHEAD) {
        slot_fetch(slots->done[(head + AHEAD) % SERVER_SLOTS]);
    }
    slots->done_head++;
    return slots->done[head % SERVER_SLOTS];
}
