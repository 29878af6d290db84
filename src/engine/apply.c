/* From a durable batch to its effects: the only caller of kernel_apply, live and in replay.
 *
 * A batch is applied in runs of at most ENGINE_RUN_MAX commands under the state lock. Between runs
 * the lock is free for readers, events go out and answers are handed over. A run also ends when the
 * buffer of values or of events is full, so neither can grow with the batch. What has been applied
 * is durable, so it does no harm that readers see half of a batch; only a snapshot waits for its
 * end, because the log can only be cut between batches. */
#include <string.h>

#include "engine/internal.h"

/* Commands between one hint to the caches and the next, and between the last hint and the use: enough
 * to cover the latency of memory, few enough that the lines are still cached. */
#define APPLY_HINT_APART 4u

/* Walks the commands of a payload. */
struct walk {
    const uint8_t *at;
    const uint8_t *end;
};

static struct tn_bytes walk_next(struct walk *walk) {
    TN_ASSERT((size_t)(walk->end - walk->at) >= sizeof(uint32_t));
    struct tn_bytes command = {.at = walk->at + sizeof(uint32_t), .len = tn_load32(walk->at)};
    TN_ASSERT((size_t)(walk->end - command.at) >= command.len);
    walk->at = command.at + command.len;
    return command;
}

/* Each command is decoded once, as far ahead as the first stage of hints looks, into a ring that stays
 * in the cache until the command is applied. */
#define APPLY_DECODED (KERNEL_PREFETCH_STAGES * APPLY_HINT_APART)
#define APPLY_RING 16u
_Static_assert(APPLY_DECODED <= APPLY_RING && (APPLY_RING & (APPLY_RING - 1)) == 0,
               "the ring has room for the commands that are decoded ahead");

struct decoded {
    struct tn_bytes encoded;
    struct kernel_command command;
};

/* One batch on its way through the kernel. Positions count its commands from 0. */
struct apply {
    struct engine *engine;
    uint64_t first_lsn;
    uint64_t now_ms;
    uint32_t count;
    uint32_t at; /* the next one to apply */
    struct walk commands;
    uint32_t decoded;                        /* the next one to decode */
    uint32_t hinted[KERNEL_PREFETCH_STAGES]; /* the next one that a stage has not seen */
    bool malformed;                          /* the one at `decoded` is */
    struct decoded *ring;                    /* APPLY_RING of them */
    struct engine_request *next;             /* whose the next command is; NULL in replay */
    struct engine_request *ahead;            /* some places after it: those were fetched */
};

static struct decoded *apply_slot(const struct apply *apply, uint32_t position) {
    TN_ASSERT(position <= apply->decoded && apply->decoded - position <= APPLY_RING);
    return &apply->ring[position % APPLY_RING];
}

/* Limits need memory, which the kernel gets beforehand. They were right when they were logged. */
static enum tn_status apply_limits(struct engine *engine, const struct kernel_command *command) {
    if (TN_LIKELY(command->verb != KERNEL_VERB_LIMITS) || engine->limits_prepared ||
        memcmp(&command->limits, kernel_limits_of(engine->kernel), sizeof command->limits) == 0) {
        return TN_OK;
    }
    return engine_limits_prepare(engine, &command->limits);
}

/* Decodes commands, and keeps every stage of hints its distance ahead. */
static void apply_look(struct apply *apply) {
    while (apply->decoded < apply->count && apply->decoded < apply->at + APPLY_DECODED &&
           !apply->malformed) {
        struct decoded *slot = apply_slot(apply, apply->decoded);
        slot->encoded = walk_next(&apply->commands);
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

/* A result is written where its caller waits, on a line that another processor wrote last. */
static void apply_fetch(struct apply *apply) {
    if (apply->ahead != NULL) {
        __builtin_prefetch(&apply->ahead->result, 1);
        __builtin_prefetch(&apply->ahead->next, 1);
        apply->ahead = apply->ahead->next;
    }
}

/* Applies some commands under the state lock; *ret_count says how many. */
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
            status = TN_VERSION; /* nothing malformed is ever logged: a newer version knew it */
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

/* Shows the others how far it is. With the state lock held. */
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

/* A blocking caller gets its values copied, since it may look at them after the next run; others
 * are called. */
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
                                           struct walk *commands, uint32_t count,
                                           struct engine_list *sleepers) {
    struct engine_delivery delivery;
    engine_deliver_begin(engine, &delivery);
    for (uint32_t i = 0; i < count; i++) {
        TN_ASSERT(requests != NULL);
        struct engine_request *next = requests->next;
        requests->more = i + 1 < count && next->waiter == NULL && next->done == requests->done;
        complete_one(requests, walk_next(commands), sleepers);
        requests = next;
    }
    engine_deliver_end(&delivery);
    return requests;
}

static void apply_count(struct engine *engine, uint32_t count) {
    atomic_fetch_add_explicit(&engine->batches_done, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&engine->commands_done, count, memory_order_relaxed);
    if (count > atomic_load_explicit(&engine->batch_largest, memory_order_relaxed)) {
        atomic_store_explicit(&engine->batch_largest, count, memory_order_relaxed);
    }
}

enum tn_status engine_apply_batch(struct engine *engine, const struct log_batch *batch,
                                  struct engine_request *requests, struct engine_list *sleepers) {
    TN_ASSERT(batch->count > 0 && batch->first_lsn > 0);
    struct walk walk = {.at = batch->payload, .end = batch->payload + batch->len};
    struct decoded ring[APPLY_RING];
    struct apply apply = {
        .engine = engine,
        .first_lsn = batch->first_lsn,
        .now_ms = batch->now_ms,
        .count = batch->count,
        .commands = walk,
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
            requests = complete_run(engine, requests, &walk, count, sleepers);
        }
        if (TN_UNLIKELY(engine->waited.first != NULL)) {
            engine_waited_deliver(engine); /* after the answers that they wait */
        }
    }
    engine->limits_prepared = false;
    apply_count(engine, batch->count);
    return status;
}
