/* Group commit: which thread commits which batch, and when.
 *
 * Requests gather in the filling batch. At most one thread at a time is the leader: it takes the
 * batch (the other buffer fills from then on), logs it, applies it and hands out the answers.
 *
 *   - A blocking caller leads once if no thread leads: a lone caller writes, syncs and applies on its
 *     own thread, and no thread is woken.
 *   - If others have come meanwhile, or the request is asynchronous, the commit thread leads, for
 *     as long as there is something to commit: it need not be woken between batches, and each
 *     batch is as large as what arrived during the sync before it, without any setting. On a slow
 *     disk it may wait a moment for more (commit_delay.c).
 *   - A caller that has more requests says so (engine_submit_later): then the batch is not taken
 *     before the caller has submitted the last one, or the batch is large enough.
 *   - A log that answers later than append returns (another machine has to) leaves the leader with
 *     nothing to do meanwhile. So, if enough requests wait when a batch is durable, the leader first
 *     hands the log the next batch, and then applies and answers the durable one.
 *
 * Blocking callers sleep each on a word of its own (park.h) and wake each other in a tree, so that
 * the leader goes on to the next batch at once and waits for the disk while they wake up.
 *
 * Invariants
 *   - `leading` is true from the moment a thread must commit until no request is left, or the rest is
 *     being gathered;
 *   - a blocking leader has its own request in the batch it takes, so leading once is enough;
 *   - an LSN is given out at the append, so a command that is refused before it (a full operation
 *     table) or by it (a full disk) leaves no gap;
 *   - one append is under way at a time, and a batch is appended after the one before it is durable;
 *   - batches are applied and answered in the order of the log, by the leader, and all that it has taken
 *     before it passes the lead. */
#include <string.h>

#include "base/assert.h"
#include "engine/internal.h"
#include "engine/payload.h"

#define COMMIT_TICK_BYTES (ENGINE_PAYLOAD_HEAD_BYTES + KERNEL_COMMAND_MIN)
#define COMMIT_GATHER_MAX 64u /* commands that justify a sync of their own */
#define COMMIT_CHAIN_MAX 64u  /* batches before the commit thread looks after its other duties */

/* ---- Entering ---- */

/* Judges a command without the state, and computes its size. Commands that change limits or the
 * shard are refused: they belong to the start of the engine, which prepares them. */
static enum tn_result commit_examine(const struct engine *engine,
                                     const struct kernel_command *command, uint32_t *ret_size) {
    if (!kernel_command_whole(command) || command->verb == KERNEL_VERB_LIMITS ||
        command->verb == KERNEL_VERB_RESTORED) {
        return TN_R_MALFORMED;
    }
    uint32_t size = kernel_command_size(command);
    if (size == 0 ||
        size + ENGINE_PAYLOAD_HEAD_BYTES + COMMIT_TICK_BYTES > engine->batch_bytes_max) {
        return TN_R_TOO_LARGE;
    }
    *ret_size = size;
    return TN_R_OK;
}

/* Counts the values that may become free in the filling batch before a request for values comes:
 * see refuse.c. */
static void commit_count_free(struct engine *engine, const struct kernel_command *command) {
    uint32_t freeing = atomic_load_explicit(&engine->freeing, memory_order_relaxed);
    if (command->verb == KERNEL_VERB_RELEASE || command->verb == KERNEL_VERB_ACK ||
        command->verb == KERNEL_VERB_RECLAIM) {
        atomic_store_explicit(&engine->freeing, freeing + 1, memory_order_relaxed);
    } else if (freeing > 0 && (command->fields & KERNEL_F_CLAIMS) != 0) {
        atomic_store_explicit(&engine->freeing, freeing - 1, memory_order_relaxed);
    }
}

/* Every batch keeps room for the commit thread's tick, so time advances under any load. */
static bool commit_has_room(const struct engine *engine, uint32_t size) {
    const struct engine_batch *batch = engine->filling;
    return batch->count < engine->batch_commands_max &&
           engine->batch_bytes_max - batch->len >=
               size + ENGINE_PAYLOAD_HEAD_BYTES + COMMIT_TICK_BYTES;
}

static void commit_put(struct engine *engine, struct engine_request *request,
                       const struct kernel_command *command, uint32_t size) {
    struct engine_batch *batch = engine->filling;
    uint8_t *at = batch->payload + batch->len;
    TN_ASSERT(engine->batch_bytes_max - batch->len >= size + ENGINE_PAYLOAD_HEAD_BYTES);
    uint32_t len = kernel_command_encode(command, engine_payload_put(at, size), size);
    TN_ASSERT(len == size);
    batch->len += ENGINE_PAYLOAD_HEAD_BYTES + size;
    batch->count++;
    request->lead = engine->leads;
    request->has_op = command->opid.len > 0;
    batch->op_count += request->has_op;
    request->next = NULL;
    if (batch->last != NULL) {
        batch->last->next = request;
    } else {
        batch->first = request;
    }
    batch->last = request;
    atomic_store_explicit(&engine->busy, true, memory_order_relaxed);
    commit_count_free(engine, command);
}

static bool commit_enqueue(struct engine *engine, struct engine_request *request,
                           const struct kernel_command *command, uint32_t size) {
    if (!commit_has_room(engine, size)) {
        return false;
    }
    commit_put(engine, request, command, size);
    return true;
}

void engine_commit_tick(struct engine *engine, struct engine_request *request) {
    commit_put(engine, request, engine_tick_command(), KERNEL_COMMAND_MIN);
}

/* A thread that is woken while the caller still has the lock runs into it at once and sleeps again, which
 * costs a lone client two more changes of threads. So the commit thread is woken after the lock is let go.
 * The word changes before: a thread that is about to sleep sees it. */
void engine_commit_rouse(struct engine *engine) {
    atomic_fetch_add_explicit(&engine->thread_word, 1, memory_order_seq_cst);
    engine->rouse = true;
}

void engine_commit_unlock(struct engine *engine) {
    bool rouse = engine->rouse;
    engine->rouse = false;
    pthread_mutex_unlock(&engine->submit_lock);
    if (rouse) {
        engine_park_wake(&engine->thread_word);
    }
}

/* Releases submit_lock until the filling batch has been taken. */
static void commit_wait_room(struct engine *engine) {
    if (engine->rouse) {
        engine->rouse = false;
        engine_park_wake(&engine->thread_word);
    }
    pthread_cond_wait(&engine->room, &engine->submit_lock);
}

/* A thread must commit what was enqueued. True: the caller must do it. With submit_lock held. */
static bool commit_call_leader(struct engine *engine, bool blocking) {
    if (engine->leading) {
        return false;
    }
    engine->leading = true;
    engine->thread_leads = !blocking && !engine->options.no_threads;
    if (engine->thread_leads) {
        engine_commit_rouse(engine);
    }
    return !engine->thread_leads;
}

/* Ends gathering: no more requests will be added. With submit_lock held. Only an engine with a
 * commit thread gathers. */
static void commit_gathered(struct engine *engine) {
    if (engine->gathering) {
        engine->gathering = false;
        (void)commit_call_leader(engine, false);
    }
}

/* Called after a request was enqueued, with submit_lock held. True: the batch can wait for more. */
static bool commit_gathers(struct engine *engine, bool later) {
    bool hurry = atomic_load_explicit(&engine->hurry, memory_order_relaxed);
    atomic_store_explicit(&engine->hurry, false, memory_order_relaxed);
    engine->gathering = (later || engine->gathering) && !hurry && !engine->options.no_threads &&
                        engine->filling->waiters == 0 && engine->filling->count < COMMIT_GATHER_MAX;
    return engine->gathering;
}

static enum tn_result commit_submit(struct engine *engine, struct engine_request *request,
                                    const struct kernel_command *command, bool later) {
    uint32_t size = 0;
    bool lead = false;
    TN_ASSERT(request->done != NULL);
    enum tn_result verdict = commit_examine(engine, command, &size);
    if (verdict != TN_R_OK) {
        return verdict;
    }
    request->waiter = NULL;
    pthread_mutex_lock(&engine->submit_lock);
    verdict = engine->closing ? TN_R_CLOSED : engine_authority_write(engine);
    if (verdict == TN_R_OK && !commit_enqueue(engine, request, command, size)) {
        commit_gathered(engine);
        engine->overloads++;
        verdict = TN_R_OVERLOADED;
    }
    if (verdict == TN_R_OK && !commit_gathers(engine, later)) {
        lead = commit_call_leader(engine, false);
    }
    engine_delay_look(engine);
    engine_commit_unlock(engine);
    if (lead) {
        int cancel = engine_cancel_hold();
        engine_commit_lead(engine, NULL);
        engine_cancel_allow(cancel);
    }
    return verdict;
}

enum tn_result engine_submit(struct engine *engine, struct engine_request *request,
                             const struct kernel_command *command) {
    return commit_submit(engine, request, command, false);
}

enum tn_result engine_submit_later(struct engine *engine, struct engine_request *request,
                                   const struct kernel_command *command) {
    return commit_submit(engine, request, command, true);
}

void engine_submit_now(struct engine *engine) {
    pthread_mutex_lock(&engine->submit_lock);
    commit_gathered(engine);
    engine_delay_look(engine);
    engine_commit_unlock(engine);
}

/* Waits for room in the filling batch and adds the request. *ret_lead: no thread leads yet, so the
 * caller must. */
static enum tn_result commit_enter(struct engine *engine, struct engine_request *request,
                                   const struct kernel_command *command, uint32_t size,
                                   bool *ret_lead) {
    enum tn_result verdict = TN_R_OK;
    pthread_mutex_lock(&engine->submit_lock);
    for (;;) {
        verdict = engine->closing ? TN_R_CLOSED : engine_authority_write(engine);
        if (verdict != TN_R_OK || commit_enqueue(engine, request, command, size)) {
            break;
        }
        commit_gathered(engine);
        TN_ASSERT(engine->leading);
        commit_wait_room(engine);
    }
    if (verdict == TN_R_OK) {
        engine->gathering = false; /* the caller may be the one that gathers, and it waits now */
        engine->filling->waiters++;
    } else {
        commit_gathered(engine); /* requests that others have gathered still need answers */
    }
    engine_delay_look(engine);
    *ret_lead = verdict == TN_R_OK && commit_call_leader(engine, true);
    engine_commit_unlock(engine);
    return verdict;
}

static void commit_wake(const struct engine_waiter *waiter) {
    for (unsigned i = 0; i < 2 && waiter->wakes[i] != NULL; i++) {
        engine_park_wake(&waiter->wakes[i]->word);
    }
}

static void commit_wait(struct engine_waiter *waiter) {
    while (atomic_load_explicit(&waiter->word, memory_order_acquire) == WAITER_WAITING) {
        engine_park_wait(&waiter->word, WAITER_WAITING);
    }
    commit_wake(waiter);
}

void engine_execute(struct engine *engine, const struct kernel_command *command,
                    struct kernel_result *ret_result) {
    struct engine_waiter waiter = {.values = ret_result->values,
                                   .value_capacity = ret_result->value_capacity};
    struct engine_request request = {.waiter = &waiter};
    uint32_t size = 0;
    bool lead = false;
    enum tn_result verdict = commit_examine(engine, command, &size);
    if (verdict == TN_R_OK && engine_delivering(engine)) {
        verdict = TN_R_OVERLOADED;
    }
    int cancel = engine_cancel_hold();
    if (verdict == TN_R_OK) {
        verdict = commit_enter(engine, &request, command, size, &lead);
    }
    if (verdict != TN_R_OK) {
        request.result = (struct kernel_result){
            .code = verdict, .values = waiter.values, .value_capacity = waiter.value_capacity};
    } else if (lead) {
        engine_commit_lead(engine, &waiter);
    } else {
        commit_wait(&waiter);
    }
    engine_cancel_allow(cancel);
    *ret_result = request.result;
}

enum tn_outcome engine_outcome(const struct kernel_result *result) {
    enum tn_outcome outcome = tn_result_outcome(result->code);
    return outcome == TN_COMMITTED && result->lsn == 0 ? TN_REJECTED : outcome;
}

/* ---- Leading ---- */

/* A batch from its taking to its answers. */
struct commit {
    struct engine_batch *batch; /* NULL: none */
    uint32_t taken;             /* commands in it when it was taken */
    /* What it may put into the operation table when it is applied. */
    uint64_t ops, op_chunks;
    enum tn_result verdict;
    struct log_batch logged;
    struct engine_list sleepers;
};

/* With submit_lock held. */
static void commit_take_locked(struct engine *engine, struct commit *commit) {
    struct engine_batch *batch = engine->filling;
    struct engine_batch *next = engine->batches;
    TN_ASSERT(engine->leading);
    while (next == batch || next->taken) {
        next++;
        TN_ASSERT(next < engine->batches + ENGINE_BATCHES);
    }
    TN_ASSERT(next->count == 0);
    batch->taken = true;
    engine->filling = next;
    engine->committing += batch->count;
    *commit = (struct commit){.batch = batch, .taken = batch->count, .verdict = TN_R_OK};
    atomic_store_explicit(&engine->freeing, 0, memory_order_relaxed);
    pthread_cond_broadcast(&engine->room);
}

static void commit_take(struct engine *engine, struct commit *commit) {
    pthread_mutex_lock(&engine->submit_lock);
    TN_ASSERT(engine->committing == 0);
    commit_take_locked(engine, commit);
    pthread_mutex_unlock(&engine->submit_lock);
}

/* The same while another batch is durable and not applied yet, if so many requests wait that applying
 * that one takes time. */
static void commit_take_early(struct engine *engine, struct commit *commit) {
    *commit = (struct commit){.batch = NULL};
    pthread_mutex_lock(&engine->submit_lock);
    const struct engine_batch *batch = engine->filling;
    if (batch->count >= engine->early_commands_min && !engine->gathering) {
        commit_take_locked(engine, commit);
    }
    pthread_mutex_unlock(&engine->submit_lock);
}

static bool commit_admit_one(const struct engine *engine, struct tn_bytes encoded, uint64_t pending,
                             uint64_t pending_chunks, uint64_t *ret_chunks) {
    struct kernel_command command;
    bool whole = kernel_command_decode(encoded, &command);
    TN_ASSERT(whole && command.opid.len > 0);
    return kernel_op_admit(engine->kernel, &command, engine_now(engine), pending, pending_chunks,
                           ret_chunks) == TN_R_OK;
}

/* Takes the commands that the operation table has no room for out of the batch. What is pending is what
 * stands before each in the same batch, and the batch before it if that has not been applied. A repeat that
 * comes before its first occurrence is applied is counted like a new operation: it may be refused
 * although it would have been a replay, and is one when it is tried again. */
static void commit_admit(struct engine *engine, struct commit *commit, const struct commit *before,
                         struct engine_list *refused) {
    struct engine_batch *batch = commit->batch;
    struct engine_request *request = batch->first;
    struct engine_list kept = {0};
    uint64_t ops = before != NULL ? before->ops : 0;
    uint64_t op_chunks = before != NULL ? before->op_chunks : 0;
    struct engine_payload from = engine_payload_of(batch->payload, batch->len);
    uint32_t to = 0;
    pthread_mutex_lock(&engine->state_lock);
    while (request != NULL) {
        struct engine_request *next = request->next;
        const uint8_t *begin = from.at;
        struct tn_bytes encoded = engine_payload_next(&from);
        uint32_t size = (uint32_t)(from.at - begin);
        uint64_t chunks = 0;
        if (request->has_op && !commit_admit_one(engine, encoded, ops + commit->ops,
                                                 op_chunks + commit->op_chunks, &chunks)) {
            engine_list_push(refused, request);
            batch->count--;
        } else {
            commit->ops += request->has_op;
            commit->op_chunks += chunks;
            if (batch->payload + to < begin) {
                memmove(batch->payload + to, begin, size);
            }
            to += size;
            engine_list_push(&kept, request);
        }
        request = next;
    }
    pthread_mutex_unlock(&engine->state_lock);
    TN_ASSERT(from.at == from.end);
    batch->len = to;
    batch->first = kept.first;
    batch->last = kept.last;
}

/* As far as the log has the batch, and perhaps its answer. `before`: durable, and not applied yet. */
static void commit_begin(struct engine *engine, struct commit *commit,
                         const struct commit *before) {
    struct engine_batch *batch = commit->batch;
    commit->verdict = engine_authority(engine);
    if (commit->verdict == TN_R_OK && batch->op_count > 0) {
        struct engine_list refused = {0};
        commit_admit(engine, commit, before, &refused);
        engine_refuse(engine, refused.first, TN_R_OPS_FULL, &commit->sleepers);
    }
    if (commit->verdict == TN_R_OK && batch->count > 0) {
        engine_append_begin(engine, batch, &commit->logged);
    }
}

static void commit_await(struct engine *engine, struct commit *commit) {
    if (commit->verdict == TN_R_OK && commit->batch->count > 0) {
        commit->verdict = engine_append_end(engine, &commit->logged);
    }
}

/* Application and answers; only the sleepers remain to be woken. */
static void commit_end(struct engine *engine, struct commit *commit) {
    struct engine_batch *batch = commit->batch;
    if (batch->count == 0) {
        return;
    }
    if (commit->verdict != TN_R_OK) {
        engine_refuse(engine, batch->first, commit->verdict, &commit->sleepers);
        return;
    }
    enum tn_status status =
        engine_apply_batch(engine, &commit->logged, batch->first, &commit->sleepers);
    TN_ASSERT(status == TN_OK); /* fails only over limits that were not prepared */
    engine_snapshot_appended(engine, batch->len);
}

/* Ends the lead: the commit thread leads if requests wait, otherwise the next caller. With
 * submit_lock held and no batch taken. */
void engine_commit_pass(struct engine *engine, bool is_thread) {
    TN_ASSERT(engine->leading);
    if (engine->filling->count == 0 || engine->gathering) {
        engine->leading = false;
        engine->thread_leads = false;
        atomic_store_explicit(&engine->busy, engine->gathering, memory_order_relaxed);
        pthread_cond_broadcast(&engine->drained);
    } else if (!engine->options.no_threads && !is_thread) {
        engine->thread_leads = true;
        engine_commit_rouse(engine);
    }
}

/* Gives the buffer back. `passes`: it was the last one, so the lead goes on. True: without a commit
 * thread, this one must go on. */
static bool commit_give(struct engine *engine, const struct commit *commit, bool passes,
                        bool is_thread) {
    struct engine_batch *batch = commit->batch;
    pthread_mutex_lock(&engine->submit_lock);
    *batch = (struct engine_batch){.payload = batch->payload};
    TN_ASSERT(engine->committing >= commit->taken);
    engine->committing -= commit->taken;
    if (passes) {
        TN_ASSERT(engine->committing == 0);
        engine_commit_pass(engine, is_thread);
    }
    bool more = engine->leading && engine->options.no_threads;
    engine_commit_unlock(engine);
    return more;
}

/* A tree: the leader wakes two, each of them two more, and so on, so that the leader can go on at
 * once. First everyone's part is written down, then all words are set; from there on a waiter's
 * memory is its own again, and only the address of its word may be used. */
static void commit_finish(struct engine_request *sleepers, struct engine_waiter *self) {
    struct engine_waiter leader = {.wakes = {NULL, NULL}};
    struct engine_waiter *parent = &leader;
    struct engine_request *next_parent = sleepers;
    for (struct engine_request *at = sleepers; at != NULL; at = at->next) {
        if (at->waiter == self) {
            continue;
        }
        if (parent->wakes[1] != NULL) {
            next_parent = next_parent->waiter == self ? next_parent->next : next_parent;
            parent = next_parent->waiter;
            next_parent = next_parent->next;
            TN_ASSERT(parent != NULL);
        }
        parent->wakes[parent->wakes[0] != NULL] = at->waiter;
    }
    while (sleepers != NULL) {
        struct engine_request *next = sleepers->next;
        atomic_store_explicit(&sleepers->waiter->word, WAITER_DONE, memory_order_release);
        sleepers = next;
    }
    commit_wake(&leader);
}

/* Whether the log should have the next batch before this one is applied. A blocking caller wants its own
 * answer; the commit thread has other duties from time to time. */
static bool commit_may_hurry(const struct engine *engine, const struct commit *commit,
                             const struct engine_waiter *self, unsigned chain) {
    return engine->log->verbs->answers_later && self == NULL && commit->verdict == TN_R_OK &&
           commit->batch->count > 0 && chain < COMMIT_CHAIN_MAX && !engine_ticker_is_due(engine);
}

/* One batch, and those that are taken early. True: there is more to commit. */
static bool commit_chain(struct engine *engine, struct engine_waiter *self) {
    struct commit now;
    struct commit next = {.batch = NULL};
    bool more = false;
    commit_take(engine, &now);
    commit_begin(engine, &now, NULL);
    for (unsigned chain = 0; now.batch != NULL; chain++, now = next) {
        commit_await(engine, &now);
        next.batch = NULL;
        if (commit_may_hurry(engine, &now, self, chain)) {
            commit_take_early(engine, &next);
        }
        if (next.batch != NULL) {
            commit_begin(engine, &next, &now);
        } else if (now.verdict == TN_R_OK && now.batch->count > 0) {
            engine_delay_expect(engine, now.batch->count);
        }
        commit_end(engine, &now);
        engine_ticker_nudge(engine);
        more = commit_give(engine, &now, next.batch == NULL, self == NULL);
        commit_finish(now.sleepers.first, self);
    }
    return more;
}

void engine_commit_lead(struct engine *engine, struct engine_waiter *self) {
    if (self == NULL && !engine->options.no_threads) {
        engine_delay_wait(engine);
    }
    while (commit_chain(engine, self)) {
    }
}
