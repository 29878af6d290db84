/* The workloads of the log itself, and starting; see workload.h. What the engine does is in
 * workload_engine.c, the keys in workload_keys.c. */
#include "crash/workload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "crash/workload_state.h"

static const char *const names[] = {
#define WORKLOAD_NAME(name, text, faulty) text,
    WORKLOAD_TABLE(WORKLOAD_NAME)
#undef WORKLOAD_NAME
};

static const bool faulties[] = {
#define WORKLOAD_FAULTY(name, text, faulty) faulty,
    WORKLOAD_TABLE(WORKLOAD_FAULTY)
#undef WORKLOAD_FAULTY
};

const char *workload_name(enum workload_kind kind) {
    return names[kind];
}

bool workload_faulty(enum workload_kind kind) {
    return faulties[kind];
}

struct log_local_options workload_log_options(struct tape *tape, bool older) {
    return (struct log_local_options){
        .os = tape_os(tape),
        .dir = WORKLOAD_DIR,
        .segment_bytes = WORKLOAD_SEGMENT,
        .no_background = true,
        .use_older_snapshot = older,
    };
}

/* ---- Batches and snapshots ---- */

static enum tn_status load_nothing_at(void *ctx, const struct log_position *at) {
    (void)ctx;
    (void)at;
    return TN_OK;
}

static enum tn_status load_nothing_section(void *ctx, const struct log_section *section) {
    (void)ctx;
    (void)section;
    return TN_OK;
}

static enum tn_status load_nothing_end(void *ctx) {
    (void)ctx;
    return TN_OK;
}

static enum tn_status load_nothing_batch(void *ctx, const struct log_batch *batch) {
    (void)ctx;
    (void)batch;
    return TN_OK;
}

/* The spy checks the batches; nothing else needs them. */
static const struct log_loader load_nothing = {
    .snapshot_begin = load_nothing_at,
    .snapshot_section = load_nothing_section,
    .snapshot_end = load_nothing_end,
    .batch = load_nothing_batch,
};

static void keep_status(void *ctx, enum tn_status status) {
    *(enum tn_status *)ctx = status;
}

static enum tn_status batch_append(const struct ledger *ledger, struct log *log,
                                   struct tn_prng *prng, size_t len) {
    static uint8_t payload[WORKLOAD_SEGMENT];
    for (size_t i = 0; i < len; i += 8) {
        tn_store64(payload + i, tn_prng_next(prng));
    }
    uint64_t now = ledger->acked == 0 ? 0 : ledger->batches[ledger->acked - 1]->batch.now_ms;
    struct log_batch batch = {
        .first_lsn = ledger_next(ledger),
        .now_ms = now + tn_prng_below(prng, 3),
        .payload = payload,
        .len = (uint32_t)len,
        .count = 1 + (uint32_t)tn_prng_below(prng, 5),
    };
    enum tn_status status = TN_IO;
    log->verbs->append(log, &batch, keep_status, &status);
    return status;
}

static enum tn_status snapshot_write(const struct ledger *ledger, struct log *log, uint64_t shard) {
    struct log_error error;
    struct log_position at = {.lsn = ledger_lsn(ledger, ledger->acked), .shard = shard};
    at.now_ms = ledger->acked == 0 ? 0 : ledger->batches[ledger->acked - 1]->batch.now_ms;
    struct log_store *store = ledger_spy_store(log);
    enum tn_status status = store->verbs->begin(store, &at, &error);
    if (status != TN_OK) {
        return status;
    }
    uint8_t bytes[700];
    for (unsigned i = 0; i < 3 && status == TN_OK; i++) {
        memset(bytes, (int)i + 1, sizeof bytes);
        tn_store64(bytes, ledger_hash(ledger, ledger->acked));
        struct log_section section = {.kind = i, .bytes = tn_bytes_of(bytes, 8 + i * 300)};
        status = store->verbs->section(store, &section);
    }
    if (status != TN_OK) {
        store->verbs->abandon(store);
        return status;
    }
    return store->verbs->end(store, &error);
}

/* ---- Lives of a log ---- */

static size_t batch_len(struct tn_prng *prng) {
    switch (tn_prng_below(prng, 8)) {
    case 0:
    case 1:
    case 2: /* fills a segment */
        return 20000 + (size_t)tn_prng_below(prng, 36000);
    case 3:
        return (size_t)tn_prng_below(prng, 9000);
    default: /* a few sectors */
        return (size_t)tn_prng_below(prng, 2500);
    }
}

static void log_live(struct workload *work, struct log *log, struct tn_prng *prng, uint64_t shard) {
    enum tn_status status = TN_OK;
    unsigned steps = 6 + (unsigned)tn_prng_below(prng, 14);
    for (unsigned i = 0; i < steps && status == TN_OK; i++) {
        switch (tn_prng_below(prng, 6)) {
        case 0:
            status = log->verbs->idle(log);
            break;
        case 1:
            (void)snapshot_write(&work->ledger, log, shard);
            break;
        default:
            status = batch_append(&work->ledger, log, prng, batch_len(prng));
            break;
        }
    }
}

/* Whether opening from the older snapshot may be refused: the log does not reach back to an older
 * one. */
bool workload_older_may_fail(const char *text) {
    return strstr(text, "start without --use-older-snapshot") != NULL;
}

static enum tn_status log_open(struct ledger *ledger, struct tape *tape, bool older,
                               struct log **ret_log, struct log_position *ret_position,
                               struct log_error *error) {
    struct log_local_options options = workload_log_options(tape, older);
    struct log *log = NULL;
    enum tn_status status = ledger_spy(ledger, tape, &options, &log, error);
    if (status != TN_OK) {
        return status;
    }
    status = log_load(ledger_spy_store(log), log, &load_nothing, ret_position, error);
    if (status == TN_OK) {
        status = log->verbs->lead(log, ret_position, error);
    }
    if (status != TN_OK) {
        log->verbs->close(log);
        return status;
    }
    *ret_log = log;
    return TN_OK;
}

void workload_wrong(struct workload *work, const char *text) {
    if (work->wrong[0] == '\0') {
        snprintf(work->wrong, sizeof work->wrong, "%.600s", text);
    }
}

void workload_plan_failure(struct tape *tape, struct tn_prng *prng) {
    enum tn_status status = tn_prng_below(prng, 3) == 0 ? TN_NOSPACE : TN_IO;
    switch (tn_prng_below(prng, 5)) {
    case 0:
        tape_fail_sync(tape, 1 + tn_prng_below(prng, 20), false, status);
        break;
    case 1:
    case 2:
        tape_fail_sync(tape, 1 + tn_prng_below(prng, 8), true, status);
        break;
    default:
        tape_fail_call(tape, tape_calls(tape) + 1 + tn_prng_below(prng, 160), status);
        break;
    }
}

void workload_plan_death(struct tape *tape, struct tn_prng *prng) {
    if (tn_prng_below(prng, 2) == 0) {
        tape_kill_call(tape, tape_calls(tape) + 1 + tn_prng_below(prng, 120));
    }
}

static void log_run(struct workload *work, struct tn_prng *prng) {
    unsigned lives = 3 + (unsigned)tn_prng_below(prng, 2);
    unsigned faulty =
        workload_faulty(work->kind) ? (unsigned)tn_prng_below(prng, lives - 1) : lives;
    for (unsigned life = 0; life < lives; life++) {
        if (life == faulty) {
            workload_plan_failure(work->tape, prng);
        } else {
            workload_plan_death(work->tape, prng);
        }
        bool older = life > 0 && tn_prng_below(prng, 4) == 0;
        struct log *log = NULL;
        struct log_position position;
        struct log_error error = {{0}};
        enum tn_status status = log_open(&work->ledger, work->tape, older, &log, &position, &error);
        if (status != TN_OK && older && workload_older_may_fail(error.text)) {
            status = log_open(&work->ledger, work->tape, false, &log, &position, &error);
        }
        if (status == TN_OK) {
            log_live(work, log, prng, position.shard);
            if (tn_prng_below(prng, 3) > 0) {
                tape_kill(work->tape);
            }
            log->verbs->close(log);
        } else if (!tape_failed(work->tape)) {
            workload_wrong(work, error.text);
        }
        tape_restart(work->tape);
    }
}

/* ---- Starting ---- */

static bool start_failed(struct workload_result *result, const char *what, const char *text) {
    snprintf(result->text, sizeof result->text, "%s%.500s", what, text);
    return false;
}

static bool older_must_work(const struct workload *work, struct tape *tape) {
    return !workload_faulty(work->kind) && tape_count_names(tape, "/set-aside-") == 0;
}

static bool log_start_once(const struct workload *work, struct tape *tape, struct ledger *ledger,
                           enum workload_start start, struct workload_result *ret_result) {
    struct log *log = NULL;
    struct log_position position;
    struct log_error error = {{0}};
    bool older = start == START_OLDER;
    bool older_must = older && older_must_work(work, tape);
    enum tn_status status = log_open(ledger, tape, older, &log, &position, &error);
    if (status != TN_OK && older && !older_must && workload_older_may_fail(error.text)) {
        status = log_open(ledger, tape, false, &log, &position, &error);
    }
    if (status != TN_OK) {
        return start_failed(ret_result, "", error.text);
    }
    ret_result->loaded = ledger->acked;
    ret_result->hash = ledger_hash(ledger, ledger->acked);
    struct tn_prng prng;
    tn_prng_seed(&prng, ret_result->hash);
    for (unsigned i = 0; i < 2 && start == START_APPEND; i++) {
        status = batch_append(ledger, log, &prng, (size_t)tn_prng_below(&prng, 1500));
        if (status != TN_OK) {
            start_failed(ret_result, "cannot append: ", tn_status_text(status));
        }
    }
    tape_kill(tape);
    log->verbs->close(log);
    tape_restart(tape);
    return status == TN_OK;
}

static bool log_start(const struct workload *work, struct tape *tape, struct ledger *ledger,
                      enum workload_start start, struct workload_result *ret_result) {
    if (!log_start_once(work, tape, ledger, start, ret_result)) {
        return false;
    }
    struct workload_result again = {0};
    if (start == START_AGAIN && !log_start_once(work, tape, ledger, START_NORMAL, &again)) {
        return start_failed(ret_result, "the second start: ", again.text);
    }
    return true;
}

bool workload_peek(const struct ledger *ledger, struct tape *tape,
                   struct ledger_result *ret_result) {
    struct log_local_options options = workload_log_options(tape, false);
    struct log_error error = {{0}};
    struct log *log = NULL;
    options.read_only = true;
    *ret_result =
        (struct ledger_result){.status = log_local_open(&options, NULL, NULL, &log, &error)};
    if (ret_result->status == TN_OK) {
        ledger_load(ledger, log, ret_result);
        log->verbs->close(log);
    } else {
        snprintf(ret_result->text, sizeof ret_result->text, "%s", error.text);
    }
    return ret_result->status == TN_OK;
}

/* A crash is no damage. */
static bool log_check(struct tape *tape, const struct ledger *ledger,
                      struct workload_result *ret_result) {
    struct ledger_result peek;
    size_t before;
    size_t after;
    (void)tape_ops(tape, &before);
    bool readable = workload_peek(ledger, tape, &peek);
    (void)tape_ops(tape, &after);
    if (!readable && !(peek.status == TN_NOTFOUND && ledger->acked == 0)) {
        return start_failed(ret_result, "", peek.text);
    }
    if (before != after) {
        return start_failed(ret_result, "a check has changed the disk", "");
    }
    ret_result->loaded = peek.loaded;
    ret_result->hash = peek.hash;
    return peek.loaded >= ledger->acked ||
           start_failed(ret_result, "acknowledged batches are missing", "");
}

bool workload_start(const struct workload *work, struct tape *tape, struct ledger *ledger,
                    enum workload_start start, struct workload_result *ret_result) {
    *ret_result = (struct workload_result){0};
    if (work->kind == WORKLOAD_KEYS || work->kind == WORKLOAD_BADKEYS) {
        return workload_keys_start(tape, ledger, ret_result);
    }
    if (start == START_ENGINE) {
        return workload_engine_start(work, tape, ledger, ret_result);
    }
    if (start == START_CHECK) {
        return log_check(tape, ledger, ret_result);
    }
    return log_start(work, tape, ledger, start, ret_result);
}

/* ---- Life ---- */

void workload_run(struct workload *work, enum workload_kind kind, uint64_t seed) {
    *work = (struct workload){.kind = kind, .seed = seed, .tape = tape_new(NULL, seed)};
    struct tn_prng prng;
    tn_prng_seed(&prng, seed * WORKLOAD_COUNT + kind);
    switch (kind) {
    case WORKLOAD_LOG:
    case WORKLOAD_FAULT:
        log_run(work, &prng);
        break;
    case WORKLOAD_ENGINE:
    case WORKLOAD_BROKEN:
        workload_engine_run(work, &prng);
        break;
    case WORKLOAD_KEYS:
    case WORKLOAD_BADKEYS:
        workload_keys_run(work, &prng);
        break;
    case WORKLOAD_COUNT:
        break;
    }
}

void workload_close_cleanly(struct workload *work) {
    struct log *log = NULL;
    struct log_position position;
    struct log_error error = {{0}};
    struct tn_prng prng;
    tn_prng_seed(&prng, work->seed);
    enum tn_status status = log_open(&work->ledger, work->tape, false, &log, &position, &error);
    TN_ASSERT(status == TN_OK);
    for (unsigned i = 0; i < 3 && status == TN_OK; i++) {
        status = batch_append(&work->ledger, log, &prng, 1 + (size_t)tn_prng_below(&prng, 3000));
    }
    bool closed = log->verbs->close(log);
    TN_ASSERT(status == TN_OK && closed);
    tape_restart(work->tape);
}

void workload_free(struct workload *work) {
    tape_free(work->tape);
    ledger_free(&work->ledger);
    free(work->states);
    free(work->facts);
}
