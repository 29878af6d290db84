/* Roles: what this engine is to its log, and how that changes.
 *
 *                         engine_lead
 *   LOADING ──► FOLLOWING ───────────► LEADING
 *                │  │  ▲                │   │
 *                │  │  └────────────────┘   │     the log was lost or resigned
 *                │  └─────► HALTED ◄────────┘     the log failed, or a batch cannot be applied
 *                │            │
 *                └──────────► CLOSING ◄── LEADING, HALTED
 *
 *   LOADING    engine_open replays the log
 *   FOLLOWING  the log's thread hands in the batches of whoever owns the log; nothing is appended
 *   LEADING    the log is ours: requests are committed, time goes on
 *   HALTED     what is durable is not known, or the state is not what the log says
 *   CLOSING    nothing is submitted or applied any more
 *
 * Invariants, checked at every move
 *   - an engine leads only a log that it was told it owns, with all of it applied, and only the ownership
 *     that it has prepared for: a log that was lost and owned again meanwhile is led from the start;
 *   - whoever applies batches while the engine follows holds role_lock, and nobody commits then: requests are
 *     refused from the moment of the move, and those that were accepted before are answered by the commit
 *     leader before the first batch of another owner is applied;
 *   - nothing uncommitted is ever applied, so following again needs no undoing. */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "engine/internal.h"

#define ROLE(role) (1u << ENGINE_##role)

static const char another_owner[] = "the log has another owner";

static const struct {
    const char *name;
    unsigned next;
} role_rows[] = {
    [ENGINE_LOADING] = {"loading", ROLE(FOLLOWING)},
    [ENGINE_FOLLOWING] = {"following", ROLE(LEADING) | ROLE(HALTED) | ROLE(CLOSING)},
    [ENGINE_LEADING] = {"leading", ROLE(FOLLOWING) | ROLE(HALTED) | ROLE(CLOSING)},
    [ENGINE_HALTED] = {"halted", ROLE(CLOSING)},
    [ENGINE_CLOSING] = {"closing", 0},
};

const char *engine_role_name(enum engine_role role) {
    return role_rows[role].name;
}

/* The refusal of a request that only the owner may serve. */
static enum tn_result role_refusal(const struct engine *engine) {
    switch (engine->role) {
    case ENGINE_LEADING:
        return TN_R_OK;
    case ENGINE_FOLLOWING:
        return engine->leader[0] != '\0' ? TN_R_READONLY : TN_R_MASTERDOWN;
    case ENGINE_HALTED:
        return TN_R_HALTED;
    default:
        return TN_R_CLOSED;
    }
}

static bool role_is_drained(const struct engine *engine) {
    return !engine->leading && engine->filling->count == 0;
}

void engine_role_move(struct engine *engine, enum engine_role to) {
    TN_ASSERT((role_rows[engine->role].next >> to & 1) != 0);
    if (to == ENGINE_LEADING) {
        TN_ASSERT(engine->owned && engine->kernel != NULL);
    }
    if (to == ENGINE_LEADING || to == ENGINE_CLOSING) {
        TN_ASSERT(role_is_drained(engine) && engine->committing == 0);
    }
    engine->role = to;
    engine->leads += to == ENGINE_LEADING;
    atomic_store(&engine->refusal, (uint32_t)role_refusal(engine));
    pthread_cond_broadcast(&engine->room); /* waiting for room may have become pointless */
}

void engine_role_drain(struct engine *engine) {
    TN_ASSERT(engine->role != ENGINE_LEADING);
    while (!role_is_drained(engine)) {
        pthread_cond_wait(&engine->drained, &engine->submit_lock);
    }
}

static void role_told(struct engine *engine) {
    struct engine_delivery delivery;
    if (engine->options.role != NULL) {
        engine_deliver_begin(engine, &delivery);
        engine->options.role(engine->options.role_ctx, engine);
        engine_deliver_end(&delivery);
    }
}

void engine_role_lost(struct engine *engine, const char *reason) {
    pthread_mutex_lock(&engine->submit_lock);
    bool led = engine->role == ENGINE_LEADING;
    if (led) {
        engine_role_move(engine, ENGINE_FOLLOWING);
    }
    pthread_mutex_unlock(&engine->submit_lock);
    if (led) {
        engine_submit_now(engine); /* requests that were gathered are refused, too */
        engine_notice(engine, "event=following lsn=%llu reason=\"%s\"",
                      (unsigned long long)atomic_load(&engine->lsn), reason);
        role_told(engine);
    }
}

static void role_halt(struct engine *engine, enum tn_status status) {
    atomic_store(&engine->stopped_by, (uint32_t)status);
    pthread_mutex_lock(&engine->submit_lock);
    engine_role_move(engine, ENGINE_HALTED);
    pthread_mutex_unlock(&engine->submit_lock);
    pthread_mutex_lock(&engine->state_lock);
    pthread_cond_broadcast(&engine->boundary); /* a batch that was applied in part stays so */
    pthread_mutex_unlock(&engine->state_lock);
    engine_park_bump(&engine->applied);
    engine_notice(engine, "event=halted lsn=%llu reason=\"%s\"",
                  (unsigned long long)atomic_load(&engine->lsn), tn_status_text(status));
    role_told(engine);
}

enum tn_result engine_role_failed(struct engine *engine, enum tn_status status) {
    if (status != TN_LOST && status != TN_DOUBT) {
        role_halt(engine, status);
        return TN_R_HALTED;
    }
    engine_role_lost(engine, tn_status_text(status));
    return status == TN_DOUBT ? TN_R_LOST : engine_authority(engine);
}

/* ---- What the log says ---- */

static void follow_owner(void *ctx, bool owned, const char *leader) {
    struct engine *engine = ctx;
    pthread_mutex_lock(&engine->submit_lock);
    engine->owned = owned;
    engine->owner_turn++;
    (void)snprintf(engine->leader, sizeof engine->leader, "%s", owned ? "" : leader);
    atomic_store(&engine->refusal, (uint32_t)role_refusal(engine));
    pthread_mutex_unlock(&engine->submit_lock);
    if (!owned) {
        engine_role_lost(engine, leader[0] != '\0'
                                     ? another_owner
                                     : "this node no longer owns the log, and no owner is known");
    }
    role_told(engine);
}

/* With role_lock held: no other thread applies anything from here on. */
static enum tn_status follow_ready(struct engine *engine) {
    /* A batch of another owner also shows that the log was lost. */
    engine_role_lost(engine, another_owner);
    pthread_mutex_lock(&engine->submit_lock);
    if (engine->role == ENGINE_FOLLOWING) {
        engine_role_drain(engine);
    }
    enum tn_status status = engine->role == ENGINE_FOLLOWING ? TN_OK
                            : engine->role == ENGINE_HALTED  ? TN_HALTED
                                                             : TN_CLOSED;
    pthread_mutex_unlock(&engine->submit_lock);
    return status;
}

static enum tn_status follow_batch(void *ctx, const struct log_batch *batch) {
    struct engine *engine = ctx;
    struct log_error error = {.text = ""};
    pthread_mutex_lock(&engine->role_lock);
    enum tn_status status = follow_ready(engine);
    if (status == TN_OK) {
        status = engine_batch_check(engine, batch, &error);
        if (status == TN_OK) {
            status = engine_batch_apply(engine, batch, &error);
        }
        if (status == TN_OK) {
            engine_clock_follow(engine, batch->now_ms);
            atomic_store(&engine->keeps, true);
            engine_snapshot_appended(engine, batch->len);
        } else {
            engine_notice(engine, "event=batch_refused lsn=%llu reason=\"%s\"",
                          (unsigned long long)batch->first_lsn, error.text);
            role_halt(engine, status);
        }
    }
    pthread_mutex_unlock(&engine->role_lock);
    return status;
}

/* The engine's clock is the log's only while it leads. */
static uint64_t follow_now(void *ctx) {
    const struct engine *engine = ctx;
    return engine_authority(engine) == TN_R_OK ? engine_now(engine) : 0;
}

/* If role_lock is held, its holder sets the clock itself, or applies a batch. The next head repeats
 * the time. */
static void follow_time(void *ctx, uint64_t now_ms) {
    struct engine *engine = ctx;
    if (pthread_mutex_trylock(&engine->role_lock) != 0) {
        return;
    }
    if (engine_authority(engine) != TN_R_OK) {
        engine_clock_told(engine, now_ms);
    }
    pthread_mutex_unlock(&engine->role_lock);
}

enum tn_status engine_role_follow(struct engine *engine) {
    engine->follower = (struct log_follower){.ctx = engine,
                                             .owner = follow_owner,
                                             .batch = follow_batch,
                                             .now = follow_now,
                                             .time = follow_time};
    pthread_mutex_lock(&engine->submit_lock);
    engine_role_move(engine, ENGINE_FOLLOWING);
    pthread_mutex_unlock(&engine->submit_lock);
    return engine->log->verbs->start(engine->log, &engine->follower);
}

void engine_role_close(struct engine *engine) {
    pthread_mutex_lock(&engine->role_lock);
    pthread_mutex_lock(&engine->submit_lock);
    engine_role_move(engine, ENGINE_CLOSING);
    pthread_mutex_unlock(&engine->submit_lock);
    pthread_mutex_unlock(&engine->role_lock);
}

/* ---- Taking the lead and giving it up ---- */

/* An engine that has lost the log may still be answering requests. Waits for that first, then
 * judges, because the wait takes time. *ret_turn: the ownership that may be led. */
static enum tn_status lead_may(struct engine *engine, uint64_t *ret_turn, struct log_error *error) {
    pthread_mutex_lock(&engine->submit_lock);
    enum tn_status status = TN_OK;
    if (engine->role == ENGINE_FOLLOWING) {
        engine_role_drain(engine);
    }
    if (engine->role == ENGINE_HALTED) {
        status = TN_HALTED;
    } else if (!engine->owned) {
        status = TN_LOST;
    }
    *ret_turn = engine->owner_turn;
    pthread_mutex_unlock(&engine->submit_lock);
    if (status != TN_OK) {
        (void)snprintf(error->text, sizeof error->text, "%s", tn_status_text(status));
    }
    return status;
}

/* The log may have been lost since, and may even be owned again: then the preparations were for an
 * ownership that has ended. */
static enum tn_status lead_begin(struct engine *engine, uint64_t turn, struct log_error *error) {
    pthread_mutex_lock(&engine->submit_lock);
    enum tn_status status = engine->owned && engine->owner_turn == turn ? TN_OK : TN_LOST;
    if (status == TN_OK) {
        engine_role_move(engine, ENGINE_LEADING);
    }
    pthread_mutex_unlock(&engine->submit_lock);
    if (status != TN_OK) {
        (void)snprintf(error->text, sizeof error->text, "%s", tn_status_text(status));
        return status;
    }
    atomic_store(&engine->keeps, true);
    engine_park_bump(&engine->thread_word); /* ticks are due from now on */
    return TN_OK;
}

enum tn_status engine_lead(struct engine *engine, struct log_error *error) {
    TN_ASSERT(!engine_delivering(engine));
    int cancel = engine_cancel_hold();
    uint64_t turn = 0;
    error->text[0] = '\0';
    pthread_mutex_lock(&engine->lead_lock);
    pthread_mutex_lock(&engine->role_lock);
    enum tn_status status = lead_may(engine, &turn, error);
    bool begins = status == TN_OK && engine_authority(engine) != TN_R_OK;
    if (begins) {
        status = engine_lead_prepare(engine, error);
        if (status == TN_OK) {
            status = lead_begin(engine, turn, error);
        }
    }
    pthread_mutex_unlock(&engine->role_lock);
    pthread_mutex_unlock(&engine->lead_lock);
    if (begins && status == TN_OK) {
        role_told(engine);
    }
    engine_cancel_allow(cancel);
    return status;
}

enum tn_status engine_follow(struct engine *engine) {
    TN_ASSERT(!engine_delivering(engine));
    if (engine->log->verbs->resign == NULL) {
        return TN_INVALID;
    }
    int cancel = engine_cancel_hold();
    pthread_mutex_lock(&engine->lead_lock);
    pthread_mutex_lock(&engine->submit_lock);
    bool led = engine->role == ENGINE_LEADING;
    if (led) {
        engine_role_move(engine, ENGINE_FOLLOWING);
        pthread_mutex_unlock(&engine->submit_lock);
        engine_submit_now(engine);
        pthread_mutex_lock(&engine->submit_lock);
        engine_role_drain(engine);
    }
    enum tn_status status = engine->role == ENGINE_HALTED ? TN_HALTED : TN_OK;
    pthread_mutex_unlock(&engine->submit_lock);
    if (led) {
        role_told(engine);
    }
    if (status == TN_OK &&
        led) { /* without role_lock: the log's thread may be delivering a batch */
        status = engine->log->verbs->resign(engine->log);
    }
    pthread_mutex_unlock(&engine->lead_lock);
    engine_cancel_allow(cancel);
    return status;
}

void engine_standing_read(struct engine *engine, struct engine_standing *ret_standing) {
    pthread_mutex_lock(&engine->submit_lock);
    ret_standing->role = engine->role;
    ret_standing->lead = engine->leads;
    ret_standing->owned = engine->owned;
    ret_standing->lapsed = engine->role == ENGINE_LEADING && engine_authority_lapsed(engine);
    memcpy(ret_standing->leader, engine->leader, sizeof ret_standing->leader);
    pthread_mutex_unlock(&engine->submit_lock);
}
