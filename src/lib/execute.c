/* Writes: blocking, and with a completion callback. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "lib/library.h"

_Static_assert(sizeof(((struct tenure_reply *)0)->detail) == LIB_DETAIL, "details fit");

/* ---- Blocking ---- */

#define WRITE_VALUES 16u /* on the stack */

/* Room for the answer's values, found before the command is sent: an answer that is in the log must
 * not be lost because memory is short. */
struct write_room {
    struct kernel_value stack[WRITE_VALUES];
    struct kernel_value *raw;
    struct tenure_value *values;
    uint32_t capacity;
};

static bool room_make(struct write_room *room, struct tenure_reply *reply, uint32_t capacity) {
    room->raw = room->stack;
    room->values = reply->first;
    room->capacity = capacity;
    if (room->capacity > WRITE_VALUES) {
        room->raw = malloc(room->capacity * sizeof *room->raw);
    }
    if (room->capacity > TENURE_REPLY_VALUES) {
        room->values = malloc(room->capacity * sizeof *room->values);
    }
    if (room->raw == NULL || room->values == NULL) {
        free(room->raw != room->stack ? room->raw : NULL);
        free(room->values != reply->first ? room->values : NULL);
        return false;
    }
    return true;
}

/* Keeps the reply's part if it is used. */
static void room_end(struct write_room *room, struct tenure_reply *reply) {
    if (room->raw != room->stack) {
        free(room->raw);
    }
    if (room->values != reply->first && room->values != reply->values) {
        free(room->values);
    }
}

static void write_built(struct tenure *tenure, const struct lib_command *built,
                        struct tenure_reply *reply) {
    struct write_room room;
    uint32_t most = tenure->bundle_max;
    if (!room_make(&room, reply, built->values < most ? built->values : most)) {
        lib_copy(reply->detail, sizeof reply->detail, "no memory for the answer", 24);
        lib_reply_reject(reply, TENURE_OVERLOADED);
        return;
    }
    struct kernel_result result = {.values = room.raw, .value_capacity = room.capacity};
    /* Not while asynchronous commands are in flight, because this one must follow them. */
    if (atomic_load(&tenure->under_way) > 0 ||
        !engine_refuses(tenure->engine, &built->command, &result)) {
        engine_execute(tenure->engine, &built->command, &result);
    }
    TN_ASSERT(result.value_count <= room.capacity);
    lib_reply_fill(reply, &result, &built->command,
                   result.value_count > TENURE_REPLY_VALUES ? room.values : reply->first);
    room_end(&room, reply);
}

enum tenure_result tenure_execute(struct tenure *tenure, const struct tenure_command *command,
                                  struct tenure_reply *reply) {
    struct tenure_reply unread;
    struct tenure_reply *out = reply != NULL ? reply : &unread;
    struct lib_command built;
    out->detail[0] = '\0';
    enum tenure_result code = lib_command_build(command, &built, out->detail);
    if (code != TENURE_OK) {
        lib_reply_reject(out, code);
        return code;
    }
    write_built(tenure, &built, out);
    free(built.heap);
    code = out->code;
    if (reply == NULL) {
        tenure_reply_free(out);
    }
    return code;
}

/* ---- Asynchronous ---- */

/* The free slots are a stack. Its head carries a counter, so that a slot that was taken and given
 * back between the look at the head and the exchange is noticed. */
static uint32_t slot_take(struct tenure *tenure) {
    uint64_t head = atomic_load_explicit(&tenure->free_slots, memory_order_acquire);
    for (;;) {
        uint32_t slot = (uint32_t)head;
        if (slot == LIB_NO_SLOT) {
            return LIB_NO_SLOT;
        }
        uint32_t next = atomic_load_explicit(&tenure->slots[slot].next_free, memory_order_relaxed);
        uint64_t new_head = ((head >> 32) + 1) << 32 | next;
        if (atomic_compare_exchange_weak_explicit(&tenure->free_slots, &head, new_head,
                                                  memory_order_acquire, memory_order_acquire)) {
            return slot;
        }
    }
}

static void slot_give(struct tenure *tenure, uint32_t slot) {
    uint64_t head = atomic_load_explicit(&tenure->free_slots, memory_order_relaxed);
    uint64_t new_head;
    do {
        atomic_store_explicit(&tenure->slots[slot].next_free, (uint32_t)head, memory_order_relaxed);
        new_head = ((head >> 32) + 1) << 32 | slot;
    } while (!atomic_compare_exchange_weak_explicit(&tenure->free_slots, &head, new_head,
                                                    memory_order_release, memory_order_relaxed));
}

/* The slot is given back first, so that the callback can submit again. */
static void write_done(struct engine_request *request, struct tn_bytes command) {
    struct lib_slot *slot = request->ctx;
    struct tenure *tenure = slot->tenure;
    tenure_done_fn *done = slot->done;
    void *ctx = slot->ctx;
    struct tenure_reply reply;
    struct kernel_command decoded;
    bool has_values = request->result.value_count > 0; /* they need the names of their pools */
    bool whole = has_values && kernel_command_decode(command, &decoded);
    TN_ASSERT(whole == has_values);
    lib_reply_fill(&reply, &request->result, whole ? &decoded : NULL,
                   request->result.value_count > TENURE_REPLY_VALUES ? tenure->values
                                                                     : reply.first);
    slot_give(tenure, (uint32_t)(slot - tenure->slots));
    atomic_fetch_sub(&tenure->under_way, 1);
    if (done != NULL) {
        done(ctx, &reply);
    }
}

enum tenure_result tenure_submit(struct tenure *tenure, const struct tenure_command *command,
                                 tenure_done_fn *done, void *ctx) {
    struct lib_command built;
    char detail[LIB_DETAIL];
    enum tenure_result code = lib_command_build(command, &built, detail);
    if (code != TENURE_OK) {
        return code;
    }
    uint32_t index = slot_take(tenure);
    if (index == LIB_NO_SLOT) {
        free(built.heap);
        return TENURE_OVERLOADED;
    }
    struct lib_slot *slot = &tenure->slots[index];
    slot->done = done;
    slot->ctx = ctx;
    slot->tenure = tenure;
    slot->request.done = write_done;
    slot->request.ctx = slot;
    atomic_fetch_add(&tenure->under_way, 1);
    code = (enum tenure_result)engine_submit(tenure->engine, &slot->request, &built.command);
    if (code != TENURE_OK) {
        atomic_fetch_sub(&tenure->under_way, 1);
        slot_give(tenure, index);
    }
    free(built.heap);
    return code;
}

enum tn_status lib_slots_make(struct tenure *tenure) {
    const struct os *os = &tenure->os;
    void *memory;
    enum tn_status status =
        os->mem_reserve(os->ctx, LIB_INFLIGHT_MAX * sizeof *tenure->slots, false, &memory);
    if (status != TN_OK) {
        return status;
    }
    tenure->slots = memory;
    atomic_store(&tenure->free_slots, LIB_NO_SLOT);
    for (uint32_t i = LIB_INFLIGHT_MAX; i > 0; i--) {
        slot_give(tenure, i - 1);
    }
    status = os->mem_reserve(os->ctx, KERNEL_BUNDLE_MAX * sizeof *tenure->values, false, &memory);
    if (status == TN_OK) {
        tenure->values = memory;
    }
    return status;
}

void lib_slots_free(struct tenure *tenure) {
    const struct os *os = &tenure->os;
    if (tenure->values != NULL) {
        os->mem_release(os->ctx, tenure->values, KERNEL_BUNDLE_MAX * sizeof *tenure->values);
    }
    if (tenure->slots != NULL) {
        os->mem_release(os->ctx, tenure->slots, LIB_INFLIGHT_MAX * sizeof *tenure->slots);
    }
}
