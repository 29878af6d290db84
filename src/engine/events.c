/* Events on their way from the kernel, which tells them under the state lock, to the listener, who
 * hears them with no lock held.
 *
 * During a run the sink copies each event into a buffer; after the run the leader delivers them in
 * order and empties it. A run ends when the buffer is well filled, so what it must hold is bounded
 * by what one command can cause, which the kernel bounds. It grows for such a command and shrinks
 * again. If there is no memory to grow, the event is dropped, counted and said so: the effect has
 * happened and cannot wait for its report.
 *
 * A record: struct record, value_count values, then the bytes they all refer to. References are
 * offsets from the record's start until it is delivered. */
#include <string.h>

#include "engine/internal.h"

#define EVENTS_BYTES ((size_t)1 << 20)
#define EVENTS_BYTES_KEPT ((size_t)4 << 20)

struct record {
    size_t size; /* of the whole record, a multiple of 8 */
    struct engine_event event;
};

_Static_assert(sizeof(struct record) % 8 == 0, "values follow a record in place");

enum tn_status engine_events_init(struct engine *engine) {
    struct engine_events *events = &engine->events;
    events->sink = engine->options.event;
    events->ctx = engine->options.event_ctx;
    events->replay_wanted = engine->options.replay_events;
    if (events->sink == NULL) {
        return TN_OK;
    }
    void *memory;
    enum tn_status status =
        engine->os->mem_reserve(engine->os->ctx, 2 * EVENTS_BYTES, false, &memory);
    if (status == TN_OK) {
        events->at = memory;
        events->capacity = 2 * EVENTS_BYTES;
    }
    return status;
}

void engine_events_free(struct engine *engine) {
    struct engine_events *events = &engine->events;
    if (events->at != NULL) {
        engine->os->mem_release(engine->os->ctx, events->at, events->capacity);
        events->at = NULL;
    }
}

bool engine_events_full(const struct engine_events *events) {
    return events->used > EVENTS_BYTES;
}

/* Another buffer of at least `capacity` bytes, with what is used so far. */
static bool events_resize(struct engine *engine, size_t capacity) {
    struct engine_events *events = &engine->events;
    void *memory;
    if (engine->os->mem_reserve(engine->os->ctx, capacity, false, &memory) != TN_OK) {
        return false;
    }
    memcpy(memory, events->at, events->used);
    engine->os->mem_release(engine->os->ctx, events->at, events->capacity);
    events->at = memory;
    events->capacity = capacity;
    return true;
}

/* An upper bound: every value might be of another pool. */
static size_t record_size_max(const struct kernel_event *fact) {
    size_t size = sizeof(struct record) + fact->holder.len + fact->previous.len + fact->user.len +
                  fact->name.len + 4 + 8;
    for (uint32_t i = 0; i < fact->value_count; i++) {
        size += sizeof(struct engine_event_value) + fact->values[i].name_len + 1;
        if (i == 0 || fact->values[i].pool != fact->values[i - 1].pool) {
            size += KERNEL_POOL_MAX + 1;
        }
    }
    return size;
}

/* Copies bytes, and a NUL for the sake of C strings, behind the record; refers to them by offset. */
static struct tn_bytes record_put(uint8_t *record, size_t *used, const void *bytes, uint32_t len) {
    struct tn_bytes ref = {.at = (const uint8_t *)(uintptr_t)*used, .len = len};
    if (len > 0) {
        memcpy(record + *used, bytes, len);
    }
    record[*used + len] = '\0';
    *used += len + 1;
    return ref;
}

static void record_write(uint8_t *at, const struct kernel *kernel, const struct kernel_event *fact,
                         bool replayed) {
    struct record *record = (struct record *)(void *)at;
    struct engine_event_value *values = (struct engine_event_value *)(void *)(record + 1);
    size_t used = sizeof *record + fact->value_count * sizeof *values;
    record->event = (struct engine_event){.fact = *fact, .replayed = replayed};
    record->event.fact.values = NULL;
    record->event.fact.holder = record_put(at, &used, fact->holder.at, fact->holder.len);
    record->event.fact.previous = record_put(at, &used, fact->previous.at, fact->previous.len);
    record->event.fact.user = record_put(at, &used, fact->user.at, fact->user.len);
    record->event.fact.name = record_put(at, &used, fact->name.at, fact->name.len);
    for (uint32_t i = 0; i < fact->value_count; i++) {
        const struct kernel_value *value = &fact->values[i];
        values[i] = (struct engine_event_value){
            .number = value->number,
            .format = (enum kernel_format)value->format,
            .name = record_put(at, &used, value->name, value->name_len),
        };
        if (i > 0 && value->pool == fact->values[i - 1].pool) {
            values[i].pool = values[i - 1].pool;
        } else {
            char pool[KERNEL_POOL_MAX + 1];
            uint32_t len = kernel_pool_name(kernel, value->pool, pool);
            values[i].pool = record_put(at, &used, pool, len);
        }
    }
    record->size = (used + 7) & ~(size_t)7;
}

void engine_events_sink(void *ctx, const struct kernel *kernel, const struct kernel_event *fact) {
    struct engine *engine = ctx;
    struct engine_events *events = &engine->events;
    if (events->sink == NULL || (events->replaying && !events->replay_wanted)) {
        return;
    }
    size_t size = record_size_max(fact);
    if (size > events->capacity - events->used &&
        !events_resize(engine, 2 * (events->capacity + size))) {
        atomic_fetch_add_explicit(&events->lost, 1, memory_order_relaxed);
        return;
    }
    uint8_t *at = events->at + events->used;
    record_write(at, kernel, fact, events->replaying);
    events->used += ((struct record *)(void *)at)->size;
}

static void record_rebase(const uint8_t *at, struct tn_bytes *ref) {
    ref->at = at + (uintptr_t)ref->at;
}

static void record_deliver(const struct engine_events *events, uint8_t *at) {
    struct record *record = (struct record *)(void *)at;
    struct engine_event_value *values = (struct engine_event_value *)(void *)(record + 1);
    record_rebase(at, &record->event.fact.holder);
    record_rebase(at, &record->event.fact.previous);
    record_rebase(at, &record->event.fact.user);
    record_rebase(at, &record->event.fact.name);
    for (uint32_t i = 0; i < record->event.fact.value_count; i++) {
        record_rebase(at, &values[i].pool);
        record_rebase(at, &values[i].name);
    }
    record->event.values = values;
    events->sink(events->ctx, &record->event);
}

void engine_events_deliver(struct engine *engine) {
    struct engine_events *events = &engine->events;
    if (events->used == 0) {
        return;
    }
    struct engine_delivery delivery;
    engine_deliver_begin(engine, &delivery);
    for (size_t done = 0; done < events->used;) {
        uint8_t *at = events->at + done;
        done += ((struct record *)(void *)at)->size;
        record_deliver(events, at);
    }
    engine_deliver_end(&delivery);
    events->used = 0;
    if (events->capacity > EVENTS_BYTES_KEPT) {
        (void)events_resize(engine, 2 * EVENTS_BYTES);
    }
}
