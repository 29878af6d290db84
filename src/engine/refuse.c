/* Refusals without the log.
 *
 * A command that the committed state refuses changes nothing, so it needs no place in the log: it is
 * answered at the position of the state that refused it, without a sync. Why that is linearizable:
 *
 *   - The state under state_lock has only durable commands, and every command that was answered before
 *     this one was sent. The commands that are being committed have no answer yet; this one comes before
 *     them.
 *   - The kernel judges as if the command were the next in the log, stamped now (kernel_judge). A
 *     deadline that the clock has passed and the log has not is not judged over: then the command is
 *     logged, and takes effect after the deadline.
 *   - The log is asked whether it is ours before the look and after it, as for a read. Where its clock is not
 *     enough for reads, nothing is refused here: appending asks other nodes as well, for many commands at once.
 *   - A log that other nodes follow may show them a batch before its owner has the answer. So an
 *     owner judges only while nothing is being committed.
 *   - The caller has no write under way: it would expect this command after that write. Only the caller
 *     knows that, so it asks for this.
 *
 * Judging takes the state's lock and some time, which is wasted on a command that is granted. So it is
 * done where it pays: while nothing is being committed, when a sync would be all that the command
 * waits for; and for pools and leases that have refused commands lately. A lock that another thread
 * has is not waited for.
 *
 * An attempt that comes after a release in the filling batch would be granted in the same sync. One
 * attempt for each such release is logged, although the state refuses it. The batch is committed at once then,
 * and not when the caller has no more requests: while clients are refused, that can take long, and nothing
 * of it is for the log. */
#include "base/hash.h"
#include "engine/internal.h"

#define REFUSE_HOPE 8u /* unsuccessful judgments after which a pool or lease is no longer judged */

_Static_assert((ENGINE_REFUSED & (ENGINE_REFUSED - 1)) == 0, "a power of two");

/* The entry for the first pool that the command names, or for its lease. */
static _Atomic uint8_t *refuse_place(struct engine *engine, const struct kernel_command *command) {
    uint64_t hash = tn_mix64(command->lease.lsn);
    if ((command->fields & KERNEL_F_CLAIMS) != 0 && command->claim_count > 0) {
        struct tn_reader r = tn_reader_of(command->claims.at, command->claims.len);
        struct tn_bytes pool = kernel_claim_read(&r).pool;
        hash = tn_hash64(pool.at, pool.len, 0);
    }
    return &engine->refused[hash & (ENGINE_REFUSED - 1)];
}

void engine_refuse_expect(struct engine *engine, const struct kernel_command *command) {
    if (kernel_judged(command)) {
        atomic_store_explicit(refuse_place(engine, command), REFUSE_HOPE, memory_order_relaxed);
        atomic_store_explicit(&engine->refuses_some, true, memory_order_relaxed);
    }
}

static void refuse_learn(_Atomic uint8_t *place, bool refused) {
    uint8_t hope = atomic_load_explicit(place, memory_order_relaxed);
    uint8_t next = refused ? REFUSE_HOPE : (uint8_t)(hope - (hope > 0));
    if (next != hope) {
        atomic_store_explicit(place, next, memory_order_relaxed);
    }
}

/* Whether judging the command is worthwhile. *ret_place is the entry that remembers it. */
static bool refuse_pays(struct engine *engine, const struct kernel_command *command,
                        _Atomic uint8_t **ret_place) {
    bool idle = !atomic_load_explicit(&engine->busy, memory_order_relaxed);
    bool some = atomic_load_explicit(&engine->refuses_some, memory_order_relaxed);
    if (!idle && (engine->asks_owner || !some)) {
        return false;
    }
    *ret_place = refuse_place(engine, command);
    return idle || atomic_load_explicit(*ret_place, memory_order_relaxed) > 0;
}

static bool refuse_look(struct engine *engine, const struct kernel_command *command,
                        struct kernel_result *ret_result) {
    if (pthread_mutex_trylock(&engine->state_lock) != 0) {
        return false;
    }
    uint64_t state_ms = kernel_now(engine->kernel);
    uint64_t clock_ms = engine_now(engine);
    bool refused = kernel_judge(engine->kernel, command, clock_ms > state_ms ? clock_ms : state_ms,
                                ret_result);
    pthread_mutex_unlock(&engine->state_lock);
    return refused;
}

/* Whether a command that the state refuses may be granted because of a release in the filling
 * batch. */
static bool refuse_hopes(const struct engine *engine, const struct kernel_command *command) {
    return (command->fields & KERNEL_F_CLAIMS) != 0 &&
           atomic_load_explicit(&engine->freeing, memory_order_relaxed) > 0;
}

bool engine_refuses(struct engine *engine, const struct kernel_command *command,
                    struct kernel_result *ret_result) {
    _Atomic uint8_t *place;
    if (engine_is_to_confirm(engine) || !kernel_judged(command) ||
        !refuse_pays(engine, command, &place) || !kernel_command_whole(command) ||
        engine_delivering(engine)) {
        return false;
    }
    if (engine_authority_read(engine, ENGINE_READ_NOWAIT) != TN_R_OK) {
        return false;
    }
    bool refused = refuse_look(engine, command, ret_result);
    if (refused && engine_authority_read(engine, ENGINE_READ_NOWAIT) != TN_R_OK) {
        return false; /* the log was lost meanwhile */
    }
    refuse_learn(place, refused);
    if (refused && refuse_hopes(engine, command)) {
        atomic_store_explicit(&engine->hurry, true, memory_order_relaxed);
        return false;
    }
    if (!refused) {
        return false;
    }
    atomic_fetch_add_explicit(&engine->refusals, 1, memory_order_relaxed);
    return true;
}
