/* From a durable batch to its effects: the only caller of kernel_apply, live and in replay.
 *
 * A batch is applied in runs of at most ENGINE_RUN_MAX commands under the state lock. Between runs
 * the lock is free for readers, events go out and answers are handed over. A run also ends when the
 * buffer of values or of events is full, so neither can grow with the batch. What has been applied
 * is durable, so it does no harm that readers see half of a batch; only a snapshot waits for its
 * end, because the log can only be cut between batches. */
#include <string.h>

#include "base/assert.h"
#include "engine/internal.h"
#include "engine/payload.h"

/* Commands between two hints to the caches for the same command, and between the last hint and its
 * use: enough to cover the latency of memory, and few enough that the lines are still cached. */
#define APPLY_HINT_APART 4u

/* Each command is decoded once, as far ahead as the first stage of hints looks, into a ring that
 * stays in the cache until the command is applied. */
#define APPLY_DECODED (KERNEL_PREFETCH_STAGES * APPLY_HINT_APART)
#define APPLY_RING 16u
_Static_assert(APPLY_DECODED <= APPLY_RING && (APPLY_RING & (APPLY_RING - 1)) == 0,
               "the ring has room for the commands that are decoded ahead");

struct decoded {
    struct tn_bytes encoded;
    struct kernel_command command;
};

/* A batch that is being applied. Positions count its commands from 0. */
struct apply {
    struct engine *engine;
    uint64_t first_lsn;
    uint64_t now_ms;
    uint32_t count;
    uint32_t at; /* the next command to apply */
    struct engine_payload commands;
    uint32_t decoded;                        /* the next command to decode */
    uint32_t hinted[KERNEL_PREFETCH_STAGES]; /* for each stage, the next command to prefetch */
    bool malformed;                          /* the command at `decoded` is malformed */
    struct decoded *ring;                    /* APPLY_RING of them */
    struct engine_request *next;             /* the request of the next command; NULL in replay */
    /* A request some places later, up to which requests were prefetched. */
    struct engine_request *ahead;
};

static struct decoded *apply_slot(const struct apply *apply, uint32_t position) {
    TN_ASSERT(position <= apply->decoded && apply->decoded - position <= APPLY_RING);
    return &apply->ring[position % APPLY_RING];
}

/* Limits need memory, which the kernel must have before it applies them. They were valid when they
 * were logged. */
static enum tn_status apply_limits(struct engine *engine, const struct kernel_command *command) {
    if (TN_LIKELY(command->verb != KERNEL_VERB_LIMITS) || engine->limits_prepared ||
        memcmp(&command->limits, kernel_limits_of(engine->kernel), sizeof command->limits) == 0) {
        return TN_OK;
    }
    return engine_limits_prepare(engine, &command->limits);
}

/* Decodes commands, and keeps each stage of hints at its distance ahead. */
static void apply_look(struct apply *apply) {
    while (apply->decoded < apply->count && apply->decoded < apply->at + APPLY_DECODED &&
           !apply->malformed) {
        struct decoded *slot = apply_slot(apply, apply->decoded);
        slot->encoded = engine_payload_next(&apply->commands);
        apply->malformed = !kernel_command_decode(slot->encoded, &slot->command);
        apply->decoded += !apply->malformed;
    }
    for (unsigned stage = 0; stage < KERNEL_PREFETCH_STAGES; stage++) {
        uint32_t end = apply->at + (KERNEL_PREFETCH_STAGES - stage) * APPLY_HINT_APART;
        end = end < apply->decoded ? end : apply->decoded;
        for (; apply->hinted[stage] < end; apply->hinted[stage]++) {
            uint32_t position = apply->hinted[stage];
            kernel_prefetch(apply->engine->kernel, &apply_slot(apply, position)->command,
                            apply->first_lsn + position, stage);
        }
    }
}

#define APPLY_AHEAD 6u

/* Prefetches the line of the request, where its result will be written; another processor wrote
 * that line last. */
static void apply_fetch(struct apply *apply) {
    if (apply->ahead != NULL) {
        __builtin_prefetch(&apply->ahead->result, 1);
        __builtin_prefetch(&apply->ahead->next, 1);
        apply->ahead = apply->ahead->next;
    }
}

/* Applies some commands under the state lock; *ret_count is their number. */
static enum tn_status apply_run(struct apply *apply, uint32_t *ret_count) {
    struct engine *engine = apply->engine;
    const uint32_t capacity = ENGINE_RUN_MAX + KERNEL_BUNDLE_MAX;
    uint32_t used = 0;
    uint32_t count = 0;
    enum tn_status status = TN_OK;
    struct kernel_result unread;
    while (apply->at < apply->count && count < ENGINE_RUN_MAX &&
           capacity - used >= KERNEL_BUNDLE_MAX && !engine_events_full(&engine->events)) {
        apply_look(apply);
        if (apply->at == apply->decoded) {
            /* Malformed commands are never logged, so a newer version wrote it. */
            status = TN_VERSION;
            break;
        }
        const struct decoded *slot = apply_slot(apply, apply->at);
        struct kernel_entry entry = {.lsn = apply->first_lsn + apply->at,
                                     .now_ms = apply->now_ms,
                                     .encoded = slot->encoded,
                                     .command = &slot->command};
        struct kernel_result *result = apply->next != NULL ? &apply->next->result : &unread;
        status = apply_limits(engine, entry.command);
        if (status != TN_OK) {
            break;
        }
        apply_fetch(apply);
        result->values = engine->values + used;
        result->value_capacity = capacity - used;
        kernel_apply(engine->kernel, &entry, result);
        TN_ASSERT(result->value_count <= result->value_capacity);
        if (apply->next != NULL) {
            used += result->value_count;
            if (TN_UNLIKELY(result->code > TN_R_NOOP)) {
                engine_refuse_expect(engine, entry.command);
            }
            apply->next = apply->next->next;
        }
        TN_ASSERT(kernel_lsn(engine->kernel) == entry.lsn);
        apply->at++;
        count++;
    }
    *ret_count = count;
    return status;
}

/* Publishes the position. With the state lock held. */
static void apply_publish(struct engine *engine, bool more) {
    engine->mid_batch = more;
    if (!more) {
        pthread_cond_broadcast(&engine->boundary);
    }
    atomic_store(&engine->users_lsn, kernel_users_lsn(engine->kernel));
    atomic_store(&engine->lsn, kernel_lsn(engine->kernel));
    atomic_store(&engine->next_due, kernel_next_due(engine->kernel));
    atomic_store(&engine->logged_ms, kernel_now(engine->kernel));
}

/* Copies the values of a blocking caller's result, because the caller may use them after the next
 * run. Other requests are called. */
static void complete_one(struct engine_request *request, struct tn_bytes command,
                         struct engine_list *sleepers) {
    struct kernel_result *result = &request->result;
    struct engine_waiter *waiter = request->waiter;
    if (waiter == NULL) {
        request->done(request, command);
        return;
    }
    uint32_t count = result->value_count;
    if (count > waiter->value_capacity) {
        count = waiter->value_capacity;
    }
    if (count > 0) {
        memcpy(waiter->values, result->values, count * sizeof *waiter->values);
    }
    result->values = waiter->values;
    result->value_capacity = waiter->value_capacity;
    engine_list_push(sleepers, request);
}

void engine_refuse(struct engine *engine, struct engine_request *requests, enum tn_result code,
                   struct engine_list *sleepers) {
    struct engine_delivery delivery;
    engine_deliver_begin(engine, &delivery);
    while (requests != NULL) {
        struct engine_request *next = requests->next;
        requests->result = (struct kernel_result){.code = code};
        requests->more = false;
        complete_one(requests, tn_bytes_of(NULL, 0), sleepers);
        requests = next;
    }
    engine_deliver_end(&delivery);
}

static struct engine_request *complete_run(struct engine *engine, struct engine_request *requests,
                                           struct engine_payload *commands, uint32_t count,
                                           struct engine_list *sleepers) {
    struct engine_delivery delivery;
    engine_deliver_begin(engine, &delivery);
    for (uint32_t i = 0; i < count; i++) {
        TN_ASSERT(requests != NULL);
        struct engine_request *next = requests->next;
        requests->more = i + 1 < count && next->waiter == NULL && next->done == requests->done;
        complete_one(requests, engine_payload_next(commands), sleepers);
        requests = next;
    }
    engine_deliver_end(&delivery);
    return requests;
}

static void apply_count(struct engine *engine, uint32_t count) {
    atomic_fetch_add_explicit(&engine->batches_done, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&engine->commands_done, count, memory_order_relaxed);
    unsigned bucket = 0;
    while (bucket < ENGINE_BATCH_BUCKETS && count > engine_batch_bound(bucket)) {
        bucket++;
    }
    atomic_fetch_add_explicit(&engine->batch_histogram[bucket], 1, memory_order_relaxed);
    if (count > atomic_load_explicit(&engine->batch_largest, memory_order_relaxed)) {
        atomic_store_explicit(&engine->batch_largest, count, memory_order_relaxed);
    }
}

enum tn_status engine_apply_batch(struct engine *engine, const struct log_batch *batch,
                                  struct engine_request *requests, struct engine_list *sleepers) {
    TN_ASSERT(batch->count > 0 && batch->first_lsn > 0);
    struct engine_payload commands = engine_payload_of(batch->payload, batch->len);
    struct decoded ring[APPLY_RING];
    struct apply apply = {
        .engine = engine,
        .first_lsn = batch->first_lsn,
        .now_ms = batch->now_ms,
        .count = batch->count,
        .commands = commands,
        .ring = ring,
        .next = requests,
        .ahead = requests,
    };
    for (unsigned i = 0; i < APPLY_AHEAD; i++) {
        apply_fetch(&apply);
    }
    enum tn_status status = TN_OK;
    while (apply.at < apply.count && status == TN_OK) {
        uint32_t count = 0;
        pthread_mutex_lock(&engine->state_lock);
        status = apply_run(&apply, &count);
        apply_publish(engine, apply.at < apply.count);
        pthread_mutex_unlock(&engine->state_lock);
        if (atomic_load(&engine->fence_waiters) > 0) {
            engine_park_bump(&engine->applied);
        }
        engine_events_deliver(engine);
        if (requests != NULL) {
            requests = complete_run(engine, requests, &commands, count, sleepers);
        }
        if (TN_UNLIKELY(engine->waited.first != NULL)) {
            engine_waited_deliver(engine); /* after the answers that say that the leases wait */
        }
    }
    engine->limits_prepared = false;
    apply_count(engine, batch->count);
    return status;
}
