/* The server's lives: starting, serving, and the many ways to end; see world.h. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "lib/enginekit.h"
#include "sim/world.h"

#define DOWNTIME_MS ((uint64_t)30 * 86400 * 1000)
#define TRIES 40u /* starts that may fail in a row, by plan */

static const struct os *table(const struct world *w) {
    return fakeos_table(w->machine);
}

uint64_t world_now(struct world *w) {
    uint64_t boot_ms = table(w)->clock_boot_ms(table(w)->ctx);
    uint64_t passed_ms = boot_ms - w->boot_ms;
    uint64_t melted_ms = passed_ms / 8 < w->lead_ms ? passed_ms / 8 : w->lead_ms;
    uint64_t now_ms = w->base_ms + passed_ms - melted_ms;
    uint64_t last_ms = kernel_now(w->ledger.kernel);
    return w->engine != NULL && now_ms > last_ms ? now_ms : last_ms;
}

unsigned world_snapshots(struct world *w) {
    return fakeos_file_count(w->machine, WORLD_DIR, "snapshot-") -
           fakeos_file_count(w->machine, WORLD_DIR, "set-aside-");
}

/* ---- the listener ---- */

static void listen(void *ctx, const struct engine_event *event) {
    struct world *w = ctx;
    if (w->listened_count == w->listened_capacity) {
        w->listened_capacity = w->listened_capacity == 0 ? 1024 : w->listened_capacity * 2;
        w->listened = realloc(w->listened, w->listened_capacity * sizeof *w->listened);
        assert_non_null(w->listened);
    }
    w->listened[w->listened_count++] =
        (struct world_fact){.id = {.lsn = event->fact.lsn, .index = event->fact.index},
                            .digest = world_event_digest(event)};
}

/* What was heard is what happened, in order and up to the end; live, also from where it was. */
static void listened_check(struct world *w, bool live) {
    const struct world_ledger *ledger = &w->ledger;
    size_t first =
        w->listened_count == 0 ? ledger->fact_count : world_fact_find(w, w->listened[0].id);
    if ((live && first != w->heard) || ledger->fact_count - first != w->listened_count) {
        world_fail(w, "of %zu events, %zu of them new, the listener heard %zu from %zu on",
                   ledger->fact_count, ledger->fact_count - w->heard, w->listened_count, first);
    }
    for (size_t i = 0; i < w->listened_count; i++) {
        const struct world_fact *fact = &ledger->facts[first + i];
        if (engine_event_id_compare(fact->id, w->listened[i].id) != 0 ||
            fact->digest != w->listened[i].digest) {
            world_fail(w, "the listener heard another event %" PRIu64 ".%" PRIu32 " than happened",
                       fact->id.lsn, fact->id.index);
        }
    }
    w->listened_count = 0;
    w->heard = ledger->fact_count;
}

/* ---- starting ---- */

struct log_local_options world_log_options(void) {
    return (struct log_local_options){
        .dir = WORLD_DIR, .segment_bytes = 64 << 10, .no_background = true};
}

void world_options(struct world *w, struct fakeos *machine, struct engine_options *ret_options) {
    *ret_options = (struct engine_options){
        .os = fakeos_table(machine),
        .limits = w->limits,
        .limits_mask = UINT32_MAX >> (32 - KERNEL_LIMIT_COUNT),
        .no_threads = true,
        .snapshot_bytes = w->snapshot_bytes,
        .no_snapshot_at_close = w->snapshot_bytes == UINT64_MAX,
        .event = listen,
        .event_ctx = w,
        .replay_events = true,
        .events_max = w->events_max,
    };
}

struct attempt {
    bool planned;
    uint64_t call; /* at which something happens */
};

/* Something may happen while it starts. */
static struct attempt attempt_plan(struct world *w) {
    struct attempt attempt = {.call = fakeos_calls(w->machine) + 1 + world_below(w, 150)};
    bool cut = world_trouble(w, WORLD_CUTS, 250);
    bool fail = world_trouble(w, WORLD_FAULTS, 100);
    static const enum tn_status statuses[] = {TN_IO, TN_NOSPACE, TN_NOMEM};
    enum tn_status status = statuses[world_below(w, 3)];
    attempt.planned = cut || fail;
    if (cut) {
        fakeos_cut_call(w->machine, attempt.call);
    } else if (fail) {
        fakeos_fail_call(w->machine, attempt.call, status);
    }
    return attempt;
}

/* Whether the plan came true; the machine runs normally from here on. */
static bool attempt_over(struct world *w, const struct attempt *attempt) {
    bool hit = attempt->planned && fakeos_calls(w->machine) >= attempt->call;
    bool failed = hit && !fakeos_is_cut(w->machine);
    w->failed_call = w->failed_call || failed;
    w->start_failed = failed;
    fakeos_fail_call(w->machine, 0, TN_OK);
    return hit;
}

static bool clock_refused(struct world *w) {
    uint64_t wall_ms = table(w)->clock_wall_ms(table(w)->ctx);
    return wall_ms > kernel_now(w->ledger.kernel) + DOWNTIME_MS;
}

static bool limits_refused(const struct world *w, enum tn_status status,
                           const struct engine_options *options) {
    bool smaller = false;
    for (unsigned i = 0; i < KERNEL_LIMIT_COUNT; i++) {
        smaller = smaller || options->limits.of[i] < w->limits.of[i];
    }
    return status == TN_INVALID && smaller;
}

/* If the file of an old snapshot could not be removed, it may be all there is beside the newest. */
static bool older_refused(const struct world *w, bool older, const char *why) {
    return older && w->failed_call &&
           strstr(why, "is needed; start without --use-older-snapshot") != NULL;
}

/* Why a start failed is known: the machine is put right for the next one. */
static void start_failed(struct world *w, enum tn_status status, bool hit,
                         const struct engine_options *options, bool older, const char *why) {
    bool full = status == TN_NOSPACE && w->full_until_ms != 0;
    if (!hit && !full && !limits_refused(w, status, options) && !older_refused(w, older, why) &&
        !(status == TN_TIME_JUMP && clock_refused(w))) {
        world_fail(w, "the server does not start: %s%s: %s", tn_status_name(status),
                   older ? " (from the older snapshot)" : "", why);
    }
    world_trace(w, "a start fails: %s: %.200s", tn_status_name(status), why);
    w->counts.faults++;
    if (full) {
        w->full_until_ms = 0;
        fakeos_space_set(w->machine, UINT64_MAX);
    }
    bool power = fakeos_is_cut(w->machine) && world_chance(w, 60);
    fakeos_cut_call(w->machine, 0);
    if (power) {
        fakeos_reboot(w->machine);
    } else {
        fakeos_restart(w->machine);
    }
    w->ledger.doubt.tick = true;
    w->listened_count = 0;
}

/* The log's clock continues from the last logged time or from the wall clock. */
static void clock_begin(struct world *w) {
    uint64_t wall_ms = table(w)->clock_wall_ms(table(w)->ctx);
    uint64_t last_ms = kernel_now(w->ledger.kernel);
    w->base_ms = wall_ms > last_ms ? wall_ms : last_ms;
    w->boot_ms = table(w)->clock_boot_ms(table(w)->ctx);
    w->up_true_ms = w->true_ms;
    w->lead_ms = w->base_ms - wall_ms;
    w->counts.ahead += w->lead_ms >= 1000;
}

/* Others than it has; clients count on the window of operations. */
static struct kernel_limits other_limits(struct world *w) {
    struct kernel_limits limits = generate_other_limits(&w->generate, &w->limits);
    static const enum kernel_limit fixed[] = {
        KERNEL_LIMIT_OP_SECONDS, KERNEL_LIMIT_OPS,    KERNEL_LIMIT_HISTORY, KERNEL_LIMIT_NAMES,
        KERNEL_LIMIT_POOLS,      KERNEL_LIMIT_BUNDLE, KERNEL_LIMIT_RULES,   KERNEL_LIMIT_SENSORS,
    };
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
        limits.of[fixed[i]] = w->limits.of[fixed[i]];
    }
    return limits;
}

/* How it is started this time. */
static void start_options(struct world *w, bool last_try, struct engine_options *options,
                          struct log_local_options *local) {
    struct world_doubt *doubt = &w->ledger.doubt;
    world_options(w, w->machine, options);
    *local = world_log_options();
    local->use_older_snapshot =
        world_trouble(w, WORLD_OLDER, 150) && world_snapshots(w) >= 2 && !last_try;
    if (world_trouble(w, WORLD_LIMITS, 100) && !last_try) {
        options->limits = other_limits(w);
        doubt->limits = true;
    }
    if (world_trouble(w, WORLD_RESTORES, 15) && w->ledger.model.restores < 8) {
        local->restored = true;
        doubt->restored = true;
    }
}

static bool start(struct world *w, bool last_try) {
    struct engine_options options;
    struct log_local_options local;
    struct log_error error = {.text = ""};
    struct attempt attempt = {0};
    start_options(w, last_try, &options, &local);
    options.confirm_time_jump = clock_refused(w) && world_chance(w, 50);
    if (!last_try) {
        attempt = attempt_plan(w);
    }
    w->listened_count = 0;
    enum tn_status status = ekit_try_local(&options, &local, &w->engine, &error);
    bool hit = attempt_over(w, &attempt);
    if (status == TN_OK && fakeos_is_cut(w->machine)) {
        (void)engine_close(w->engine); /* the server died at that moment */
        w->engine = NULL;
        status = TN_IO;
    }
    if (status != TN_OK) {
        w->engine = NULL;
        start_failed(w, status, hit, &options, local.use_older_snapshot, error.text);
        return false;
    }
    fakeos_cut_call(w->machine, 0);
    w->counts.older += local.use_older_snapshot;
    w->counts.restores += local.restored;
    w->counts.limits += memcmp(&w->limits, &options.limits, sizeof w->limits) != 0;
    w->limits = options.limits;
    world_trace(w, "the server starts%s",
                local.use_older_snapshot ? " from the older snapshot" : "");
    return true;
}

void world_server_up(struct world *w) {
    unsigned tries = 0;
    while (!start(w, tries >= TRIES)) {
        tries++;
    }
    w->counts.starts++;
    w->halted = false;
    w->life_failed = w->start_failed;
    world_log_compare(w, w->machine, true);
    clock_begin(w);
    listened_check(w, false);
    world_server_check(w);
    world_reader_read_all(w);
    world_note(w, w->ledger.count);
    world_sensors_begin(w);
}

/* ---- ending ---- */

static void over(struct world *w, bool power) {
    fakeos_cut_call(w->machine, 0);
    fakeos_fail_call(w->machine, 0, TN_OK);
    if (power) {
        fakeos_reboot(w->machine);
    } else {
        fakeos_restart(w->machine);
    }
    w->engine = NULL;
    world_sensors_lose(w, power);
    w->listened_count = 0; /* events during the close are not checked */
    w->ledger.doubt.tick = true;
    w->up_at_ms = w->true_ms + world_below(w, 4000);
    world_note(w, power);
}

void world_server_kill(struct world *w, bool power) {
    world_trace(w, power ? "the power goes" : "the server is killed");
    w->counts.cuts += power;
    w->counts.kills += !power;
    if (!fakeos_is_cut(w->machine)) {
        fakeos_cut_call(w->machine, fakeos_calls(w->machine) + 1);
    }
    (void)engine_close(w->engine);
    over(w, power);
}

bool world_server_close(struct world *w) {
    struct engine_stats stats;
    bool quiet = !w->halted && w->full_until_ms == 0;
    engine_stats_read(w->engine, &stats);
    bool closed = engine_close(w->engine);
    world_trace(w, "the server ends%s", closed ? "" : ", not well");
    if (!closed && quiet && !fakeos_is_cut(w->machine) && fakeos_fault_name(w->machine)[0] == 0) {
        world_fail(w, "a quiet server did not close well");
    }
    over(w, fakeos_is_cut(w->machine));
    return closed;
}

/* ---- serving ---- */

static void serve_one(struct world_request *q) {
    struct world *w = q->world;
    struct kernel_command command;
    q->request.ctx = q;
    bool whole = kernel_command_decode(tn_bytes_of(q->bytes, q->len), &command);
    q->judged = whole && engine_refuses(w->engine, &command, &q->verdict);
    enum tn_result verdict =
        whole ? engine_submit(w->engine, &q->request, &command) : TN_R_MALFORMED;
    if (verdict != TN_R_OK) {
        struct model_result refused = {.head = {.code = verdict}};
        w->counts.refused++;
        world_note(w, verdict);
        world_clients_answer(w, q, &refused);
    }
}

/* A refusal that is not logged must equal the one that the log gives at the position before it. */
static void judged_check(struct world *w, const struct world_request *q) {
    const struct kernel_result *got = &q->request.result, *want = &q->verdict;
    bool same = got->code == want->code && got->lsn > want->lsn && got->now_ms == want->now_ms &&
                got->number == want->number && got->retry_at_ms == want->retry_at_ms &&
                got->waiting == want->waiting;
    w->counts.judged++;
    if (!same) {
        world_fail(w, "the state at lsn %" PRIu64 " refused with %s what the log answers with %s",
                   want->lsn, tn_result_name(want->code), tn_result_name(got->code));
    }
}

static void serve_done(struct engine_request *request, struct tn_bytes command) {
    struct world_request *q = request->ctx;
    struct world *w = q->world;
    struct tn_bytes bytes = tn_bytes_of(q->bytes, q->len);
    struct model_result answer = {.head = request->result};
    enum tn_outcome outcome = engine_outcome(&request->result);
    if (outcome == TN_COMMITTED) {
        assert_true(tn_bytes_equal(command, bytes));
        if (q->judged) {
            judged_check(w, q);
        }
        world_ledger_commit(w, world_now(w), bytes);
        world_ledger_answer(w, &request->result);
        answer = w->ledger.shown;
        if (q->client == WORLD_CLIENTS) {
            generate_learn(&w->generate, bytes, &answer);
        }
    } else if (outcome == TN_UNKNOWN) {
        w->halted = true;
        w->counts.unknown++;
        world_ledger_doubt(w, world_now(w), bytes);
    } else {
        w->counts.refused++;
    }
    if (!fakeos_is_cut(w->machine)) { /* else no server is left that could answer */
        world_clients_answer(w, q, &answer);
    }
    while (w->group_next < w->group_count) {
        serve_one(&w->group[w->group_next++]); /* together: the batch after this one */
    }
}

void world_server_serve(struct world *w) {
    for (uint32_t i = 0; i < w->group_count; i++) {
        w->group[i].world = w;
        w->group[i].request.done = serve_done;
    }
    w->group_next = 0;
    while (w->group_next < w->group_count) {
        serve_one(&w->group[w->group_next++]);
    }
    w->group_count = 0;
    world_server_settle(w);
}

void world_server_settle(struct world *w) {
    struct engine_stats stats;
    engine_stats_read(w->engine, &stats);
    while (w->ledger.lsn < stats.lsn) {
        world_ledger_commit(w, world_now(w), world_tick_bytes());
    }
    if (stats.lsn != w->ledger.lsn) {
        world_fail(w, "the engine is at LSN %" PRIu64 ", the ledger at %" PRIu64, stats.lsn,
                   w->ledger.lsn);
    }
    if (stats.stopped != TN_R_OK) {
        w->halted = true;
        w->ledger.doubt.tick = true;
    }
    uint64_t wall_ms = table(w)->clock_wall_ms(table(w)->ctx);
    uint64_t ahead_ms = world_now(w) > wall_ms ? world_now(w) - wall_ms : 0;
    if (stats.log_ahead_ms != ahead_ms) {
        world_fail(w, "the log is %" PRIu64 " ms ahead, and told as %" PRIu64, ahead_ms,
                   stats.log_ahead_ms);
    }
    if (stats.now_ms != world_now(w)) {
        world_fail(w, "the engine's time is %" PRIu64 ", the clocks say %" PRIu64, stats.now_ms,
                   world_now(w));
    }
    listened_check(w, true);
}

void world_server_check(struct world *w) {
    uint64_t hash = 0;
    uint64_t lsn = 0;
    char why[256] = "";
    bool sound = false;
    if (engine_hash(w->engine, &hash, &lsn) != TN_R_OK) {
        return;
    }
    if (lsn != w->ledger.lsn || hash != kernel_hash(w->ledger.kernel)) {
        world_fail(w, "the engine's state at LSN %" PRIu64 " is not that of its log up to %" PRIu64,
                   lsn, w->ledger.lsn);
    }
    if (engine_check(w->engine, &sound, why, sizeof why) == TN_R_OK && !sound) {
        world_fail(w, "an invariant of the engine's state is broken: %s", why);
    }
}
