/* Roles: opening appends nothing, the lead is taken and lost while the engine lives, and a follower
 * has the state of the owner. */
#include "unit/engine_world.h"

#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.h"
#include "log/local.h"

static enum engine_role role_of(struct engine *engine) {
    struct engine_standing standing;
    engine_standing_read(engine, &standing);
    return standing.role;
}

static struct engine *follower_open(struct world *world) {
    struct engine *engine = NULL;
    struct log_error error;
    assert_int_equal(engine_open(&world->options, &engine, &error), TN_OK);
    return engine;
}

static void lead(struct world *world) {
    struct log_error error;
    enum tn_status status = engine_lead(world->engine, &error);
    if (status != TN_OK) {
        fail_msg("%s: %s", tn_status_name(status), error.text);
    }
    assert_int_equal(role_of(world->engine), ENGINE_LEADING);
}

static enum tn_result pool_read(struct engine *engine, enum engine_read_mode mode,
                                struct kernel_pool_view *ret_view) {
    uint64_t lsn = 0;
    return engine_pool_read(engine, mode, tn_bytes_of("p", 1), ret_view, &lsn);
}

static uint64_t active(struct engine *engine, enum engine_read_mode mode) {
    struct kernel_pool_view view;
    assert_int_equal(pool_read(engine, mode, &view), TN_R_OK);
    return view.active;
}

/* Everything but stale reads is refused, for this reason. */
static void refused(struct world *world, enum tn_result reason) {
    static const enum engine_read_mode modes[] = {ENGINE_READ_CURRENT, ENGINE_READ_NOWAIT,
                                                  ENGINE_READ_AS_IS};
    struct kernel_pool_view view;
    unsigned appends = fakelog_appends(world->log);
    assert_int_equal(world_alloc(world, "refused"), reason);
    assert_int_equal(engine_outcome(&world->answer.result), TN_REJECTED);
    assert_int_equal(world->answer.result.lsn, 0);
    assert_int_equal(engine_tick(world->engine), reason);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(pool_read(world->engine, modes[i], &view), reason);
    }
    assert_int_equal(fakelog_appends(world->log), appends);
}

/* ---- Opening ---- */

static void opening_a_new_log_appends_nothing(void **state) {
    struct world *world = *state;
    struct kernel_pool_view view;
    world->engine = follower_open(world);
    assert_int_equal(role_of(world->engine), ENGINE_FOLLOWING);
    refused(world, TN_R_MASTERDOWN);
    assert_int_equal(pool_read(world->engine, ENGINE_READ_STALE, &view), TN_R_NOT_YET);
    assert_true(engine_close(world->engine));
    assert_int_equal(fakelog_appends(world->log), 0);
    assert_int_equal(fakelog_snapshots(world->log), 0);
    world->engine = follower_open(world);
    lead(world);
    assert_int_equal(fakelog_appends(world->log), 1);
}

static void opening_serves_stale_reads_of_what_is_logged(void **state) {
    struct world *world = *state;
    struct log_error error;
    world_open(world);
    assert_int_equal(world_alloc(world, "a"), TN_R_OK);
    uint64_t hash = ekit_hash(world->engine);
    world_close(world);
    unsigned appends = fakelog_appends(world->log);
    world->options.limits.of[KERNEL_LIMIT_LEASES] += 100;
    world->engine = follower_open(world);
    assert_int_equal(active(world->engine, ENGINE_READ_STALE), 1);
    refused(world, TN_R_MASTERDOWN);
    assert_int_equal(engine_snapshot(world->engine, &error), TN_OK); /* every node takes its own */
    assert_int_equal(fakelog_appends(world->log), appends);
    lead(world);
    assert_int_equal(fakelog_appends(world->log), appends + 1); /* the limits */
    assert_int_equal(active(world->engine, ENGINE_READ_CURRENT), 1);
    assert_int_not_equal(ekit_hash(world->engine), hash);
}

static void whoever_leads_twice_leads_once(void **state) {
    struct world *world = *state;
    world_open(world);
    unsigned appends = fakelog_appends(world->log);
    lead(world);
    assert_int_equal(fakelog_appends(world->log), appends);
}

/* ---- In a directory ---- */

static uint64_t digest_file(const char *dir, const char *name) {
    char path[512];
    static uint8_t bytes[1 << 20];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t len = fread(bytes, 1, sizeof bytes, file);
    assert_int_equal(fclose(file), 0);
    return tn_hash64(bytes, len, tn_hash64(name, strlen(name), len));
}

/* Of all names and bytes, in any order. */
static uint64_t digest_dir(const char *dir) {
    uint64_t sum = 0;
    DIR *entries = opendir(dir);
    assert_non_null(entries);
    struct dirent *entry;
    while ((entry = readdir(entries)) != NULL) {
        if (entry->d_name[0] != '.') {
            sum += digest_file(dir, entry->d_name);
        }
    }
    (void)closedir(entries);
    return sum;
}

static void open_and_close(const struct engine_options *given,
                           const struct log_local_options *local) {
    struct engine_options options = *given;
    struct engine *engine = NULL;
    struct log_error error;
    assert_int_equal(log_local_open(local, NULL, NULL, &options.log, &error), TN_OK);
    options.store = log_local_store(options.log);
    assert_int_equal(engine_open(&options, &engine, &error), TN_OK);
    assert_int_equal(active(engine, ENGINE_READ_STALE), 1);
    assert_int_equal(engine_snapshot(engine, &error), TN_DENIED); /* not ours to write yet */
    assert_true(engine_close(engine));
}

static void opening_a_directory_without_leading_changes_none_of_its_bytes(void **state) {
    (void)state;
    char dir[128];
    ekit_dir_make(dir);
    struct log_local_options local = {.os = os_posix(), .dir = dir, .segment_bytes = 64 << 10};
    struct engine_options options = {.events_max = 100, .events_dir = dir, .manual_ticks = true};
    ekit_limits_small(&options);
    for (unsigned killed = 0; killed < 2; killed++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            struct ekit_command command;
            static struct ekit_answer answer;
            struct engine *engine = ekit_open_local(&options, &local);
            if (killed == 0) {
                ekit_run_ok(engine, ekit_pool(&command, "p", 1, 100, 0), &answer);
                ekit_run_ok(engine, ekit_alloc(&command, "p", "a", 1, NULL), &answer);
                (void)engine_close(engine);
            } else {
                ekit_run_ok(engine, ekit_pool(&command, "q", 1, 100, 0), &answer);
            }
            _exit(0);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        uint64_t before = digest_dir(dir);
        open_and_close(&options, &local);
        assert_true(digest_dir(dir) == before);
    }
    struct engine *engine = ekit_open_local(&options, &local);
    assert_int_equal(active(engine, ENGINE_READ_CURRENT), 1);
    assert_true(engine_close(engine));
    ekit_dir_remove(dir);
}

/* ---- Losing and following ---- */

/* Another owner: a world of its own with the same clock. */
static struct world *other_make(void) {
    void *state = NULL;
    assert_int_equal(world_make(&state), 0);
    return state;
}

static void other_free(struct world *other) {
    void *state = other;
    assert_int_equal(world_free(&state), 0);
}

/* Hands the batches of one log, from the n-th on, to the follower of another. */
static void feed_from(struct world *world, struct world *other, unsigned first) {
    for (unsigned i = first; i < fakelog_batches(other->log); i++) {
        struct log_batch batch = fakelog_batch(other->log, i);
        assert_int_equal(fakelog_feed(world->log, &batch), TN_OK);
    }
}

static void a_follower_of_every_batch_has_the_state_of_the_owner(void **state) {
    struct world *world = *state;
    struct world *other = other_make();
    fakelog_owner(world->log, false, "");
    world->engine = follower_open(world);
    fakelog_owner(world->log, false, "b:7000");
    refused(world, TN_R_READONLY);
    world_open(other);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(world_alloc(other, "a"), TN_R_OK);
        fakeos_clock_advance(other->machine, 7000);
        assert_int_equal(engine_tick(other->engine), TN_R_OK);
        feed_from(world, other, fakelog_batches(world->log));
        assert_int_equal(world_lsn(world), world_lsn(other));
        assert_int_equal(active(world->engine, ENGINE_READ_STALE),
                         active(other->engine, ENGINE_READ_CURRENT));
    }
    refused(world, TN_R_READONLY);
    uint64_t hash = ekit_hash(other->engine);
    world_close(other);
    fakelog_owner(world->log, true, "");
    refused(world, TN_R_MASTERDOWN); /* the log is ours, but no engine serves it yet */
    lead(world);
    assert_int_equal(ekit_hash(world->engine), hash);
    ekit_check(world->engine);
    other_free(other);
}

/* Engine b follows a, takes over, is followed by a, and gives the log back. */
static void the_lead_goes_to_and_fro_and_nothing_acknowledged_is_lost(void **state) {
    struct world *a = *state;
    struct world *b = other_make();
    fakelog_owner(b->log, false, "a");
    b->engine = follower_open(b);
    world_open(a);
    unsigned acknowledged = 0;
    for (unsigned round = 0; round < 6; round++) {
        struct world *owner = round % 2 == 0 ? a : b;
        struct world *other = round % 2 == 0 ? b : a;
        for (unsigned i = 0; i < 3; i++) {
            acknowledged += world_alloc(owner, "h") == TN_R_OK;
        }
        fakelog_fail(owner->log, TN_LOST, 1, false);
        assert_int_equal(world_alloc(owner, "lost"), TN_R_MASTERDOWN);
        assert_int_equal(engine_outcome(&owner->answer.result), TN_REJECTED);
        assert_int_equal(role_of(owner->engine), ENGINE_FOLLOWING);
        refused(owner, TN_R_MASTERDOWN);
        feed_from(other, owner, fakelog_batches(other->log));
        fakelog_owner(owner->log, false, "other");
        refused(owner, TN_R_READONLY);
        fakelog_owner(other->log, true, "");
        lead(other);
        assert_int_equal(active(other->engine, ENGINE_READ_CURRENT), acknowledged);
    }
    assert_int_equal(acknowledged, 18);
    world_close(b);
    other_free(b);
}

static void a_batch_in_doubt_is_unknown_and_comes_back_by_following(void **state) {
    struct world *world = *state;
    world_open(world);
    for (unsigned stored = 0; stored < 2; stored++) {
        uint64_t before = active(world->engine, ENGINE_READ_CURRENT);
        unsigned batches = fakelog_batches(world->log);
        fakelog_fail(world->log, TN_DOUBT, 1, stored == 1);
        assert_int_equal(world_alloc(world, "a"), TN_R_LOST);
        assert_int_equal(engine_outcome(&world->answer.result), TN_UNKNOWN);
        refused(world, TN_R_MASTERDOWN);
        assert_int_equal(active(world->engine, ENGINE_READ_STALE), before);
        assert_int_equal(fakelog_batches(world->log), batches + stored);
        if (stored == 1) {
            assert_int_equal(fakelog_hand(world->log, batches), TN_OK);
        }
        fakelog_owner(world->log, true, "");
        lead(world);
        assert_int_equal(active(world->engine, ENGINE_READ_CURRENT), before + stored);
        assert_int_equal(world_alloc(world, "b"), TN_R_OK);
    }
}

static void on_notice(void *ctx, const char *line) {
    (void)snprintf(ctx, 256, "%s", line);
}

/* Another owner is named as the reason only if there is one: the log may just not answer. */
static void the_reason_for_following_is_told_as_it_is(void **state) {
    static const char another[] = "reason=\"the log has another owner\"";
    struct world *world = *state;
    char told[256] = "";
    world->options.notice = on_notice;
    world->options.notice_ctx = told;
    world_open(world);
    for (unsigned i = 0; i < 4; i++) {
        told[0] = '\0';
        if (i < 2) {
            fakelog_fail(world->log, i == 0 ? TN_LOST : TN_DOUBT, 1, false);
            (void)world_alloc(world, "a");
        } else {
            fakelog_owner(world->log, false, i == 2 ? "" : "b:7000");
        }
        assert_int_equal(role_of(world->engine), ENGINE_FOLLOWING);
        assert_non_null(strstr(told, "event=following "));
        assert_int_equal(strstr(told, another) != NULL, i == 3);
        fakelog_owner(world->log, true, "");
        lead(world);
    }
    world_close(world);
}

static void requests_that_wait_when_the_log_is_lost_are_refused_unlogged(void **state) {
    struct world *world = *state;
    struct asyncs *asyncs = asyncs_new();
    world_open(world);
    fakelog_gate_shut(world->log);
    assert_int_equal(async_alloc(world, asyncs, 0), TN_R_OK);
    fakelog_gate_wait(world->log);
    for (unsigned i = 1; i < 20; i++) {
        assert_int_equal(async_alloc(world, asyncs, i), TN_R_OK);
    }
    unsigned appends = fakelog_appends(world->log);
    fakelog_fail(world->log, TN_DOUBT, 1, false);
    fakelog_gate_open(world->log);
    asyncs_wait(asyncs, 20);
    assert_int_equal(asyncs->of[0].code, TN_R_LOST);
    for (unsigned i = 1; i < 20; i++) {
        assert_int_equal(asyncs->of[i].code, TN_R_MASTERDOWN);
    }
    assert_int_equal(fakelog_appends(world->log), appends);
    fakelog_owner(world->log, true, "");
    lead(world);
    assert_int_equal(async_alloc(world, asyncs, 20), TN_R_OK);
    asyncs_wait(asyncs, 21);
    assert_int_equal(asyncs->of[20].code, TN_R_OK);
    world_close(world);
    asyncs_free(asyncs);
}

/* The first write of all fails, once surely and once in doubt; then another owner begins the
 * log. */
static void a_log_lost_while_the_lead_is_taken_is_followed_from_its_beginning(void **state) {
    struct world *world = *state;
    struct world *other = other_make();
    struct log_error error;
    world->engine = follower_open(world);
    for (unsigned i = 0; i < 2; i++) {
        fakelog_fail(world->log, i == 0 ? TN_LOST : TN_DOUBT, 1, false);
        assert_int_equal(engine_lead(world->engine, &error), TN_LOST);
        refused(world, TN_R_MASTERDOWN);
        fakelog_owner(world->log, true, "");
    }
    fakelog_owner(world->log, false, "b");
    assert_int_equal(fakelog_batches(world->log), 0);
    world_open(other);
    feed_from(world, other, 0);
    fakelog_owner(world->log, true, "");
    lead(world);
    assert_int_equal(ekit_hash(world->engine), ekit_hash(other->engine));
    assert_int_equal(world_alloc(world, "a"), TN_R_OK);
    other_free(other);
}

/* ---- Reads and the owner ---- */

static bool expire_meanwhile(void *ctx, const struct kernel *kernel, uint64_t clock_ms) {
    struct world *world = ctx;
    (void)kernel;
    (void)clock_ms;
    fakelog_expire(world->log);
    return false;
}

static void a_read_is_refused_if_the_log_is_lost_while_it_looks(void **state) {
    struct world *world = *state;
    static const enum engine_read_mode modes[] = {ENGINE_READ_CURRENT, ENGINE_READ_NOWAIT,
                                                  ENGINE_READ_AS_IS};
    struct kernel_pool_view view;
    world_open(world);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(engine_read(world->engine, modes[i], expire_meanwhile, world),
                         TN_R_MASTERDOWN);
        assert_int_equal(pool_read(world->engine, modes[i], &view), TN_R_MASTERDOWN);
        assert_int_equal(pool_read(world->engine, ENGINE_READ_STALE, &view), TN_R_OK);
        fakelog_owner(world->log, true, "");
        assert_int_equal(pool_read(world->engine, modes[i], &view), TN_R_OK);
    }
}

/* At once, although the engine leads and an append is not answered. */
static void a_write_is_refused_when_the_ownership_ended_a_while_ago(void **state) {
    struct world *world = *state;
    struct engine_standing standing;
    struct caller caller;
    world_open(world);
    fakelog_gate_shut(world->log);
    callers_start(&caller, 1, world->engine);
    (void)fakelog_gate_wait(world->log);
    fakelog_lapse(world->log);
    engine_standing_read(world->engine, &standing);
    assert_int_equal(standing.role, ENGINE_LEADING);
    assert_true(standing.lapsed);
    refused(world, TN_R_MASTERDOWN);
    fakelog_renew(world->log);
    engine_standing_read(world->engine, &standing);
    assert_false(standing.lapsed);
    fakelog_gate_open(world->log);
    callers_join(&caller, 1);
    assert_int_equal(caller.answer.result.code, TN_R_OK);
    assert_int_equal(world_alloc(world, "again"), TN_R_OK);
}

static void a_follower_waits_for_a_log_position(void **state) {
    struct world *world = *state;
    world_open(world);
    uint64_t lsn = world_lsn(world);
    fakelog_owner(world->log, false, "b");
    assert_int_equal(engine_wait_lsn(world->engine, lsn), TN_R_OK);
}

/* ---- The rest ---- */

static void resigning_answers_what_is_in_flight_and_follows(void **state) {
    struct world *world = *state;
    world_open(world);
    assert_int_equal(world_alloc(world, "a"), TN_R_OK);
    assert_int_equal(engine_follow(world->engine), TN_OK);
    assert_int_equal(role_of(world->engine), ENGINE_FOLLOWING);
    refused(world, TN_R_MASTERDOWN);
    struct log_error error;
    assert_int_equal(engine_lead(world->engine, &error), TN_LOST);
    fakelog_owner(world->log, true, "");
    lead(world);
    assert_int_equal(world_alloc(world, "b"), TN_R_OK);
}

static void a_local_log_cannot_be_given_up(void **state) {
    (void)state;
    char dir[128];
    ekit_dir_make(dir);
    struct log_local_options local = {.dir = dir, .segment_bytes = 64 << 10};
    struct engine_options options = {.manual_ticks = true};
    ekit_limits_small(&options);
    struct engine *engine = ekit_open_local(&options, &local);
    assert_int_equal(engine_follow(engine), TN_INVALID);
    assert_int_equal(role_of(engine), ENGINE_LEADING);
    assert_true(engine_close(engine));
    ekit_dir_remove(dir);
}

static void a_follower_halts_at_a_batch_that_it_cannot_apply(void **state) {
    struct world *world = *state;
    struct kernel_pool_view view;
    struct log_error error;
    world_open(world);
    fakelog_owner(world->log, false, "b");
    struct log_batch batch = fakelog_batch(world->log, 0); /* an LSN that was */
    assert_int_equal(fakelog_feed(world->log, &batch), TN_CORRUPT);
    assert_int_equal(role_of(world->engine), ENGINE_HALTED);
    assert_int_equal(world_alloc(world, "a"), TN_R_HALTED);
    assert_int_equal(pool_read(world->engine, ENGINE_READ_STALE, &view), TN_R_HALTED);
    assert_int_equal(engine_lead(world->engine, &error), TN_HALTED);
    assert_int_equal(fakelog_hand(world->log, 0), TN_HALTED);
}

struct told {
    enum engine_role role;
    char leader[LOG_LEADER_MAX + 1];
};

static void tell(void *ctx, struct engine *engine) {
    struct told *told = ctx;
    struct engine_standing standing;
    engine_standing_read(engine, &standing);
    told->role = standing.role;
    memcpy(told->leader, standing.leader, sizeof told->leader);
}

static void the_program_is_told_of_roles_and_leaders(void **state) {
    struct world *world = *state;
    struct told told = {.role = ENGINE_LOADING};
    world->options.role = tell;
    world->options.role_ctx = &told;
    world->engine = follower_open(world);
    assert_int_equal(told.role, ENGINE_FOLLOWING);
    lead(world);
    assert_int_equal(told.role, ENGINE_LEADING);
    fakelog_owner(world->log, false, "b:7000");
    assert_int_equal(told.role, ENGINE_FOLLOWING);
    assert_string_equal(told.leader, "b:7000");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WORLD_TEST(opening_a_new_log_appends_nothing),
        WORLD_TEST(opening_serves_stale_reads_of_what_is_logged),
        WORLD_TEST(whoever_leads_twice_leads_once),
        cmocka_unit_test(opening_a_directory_without_leading_changes_none_of_its_bytes),
        WORLD_TEST(a_follower_of_every_batch_has_the_state_of_the_owner),
        WORLD_TEST(the_lead_goes_to_and_fro_and_nothing_acknowledged_is_lost),
        WORLD_TEST(a_batch_in_doubt_is_unknown_and_comes_back_by_following),
        WORLD_TEST(the_reason_for_following_is_told_as_it_is),
        WORLD_TEST(requests_that_wait_when_the_log_is_lost_are_refused_unlogged),
        WORLD_TEST(a_log_lost_while_the_lead_is_taken_is_followed_from_its_beginning),
        WORLD_TEST(a_read_is_refused_if_the_log_is_lost_while_it_looks),
        WORLD_TEST(a_write_is_refused_when_the_ownership_ended_a_while_ago),
        WORLD_TEST(a_follower_waits_for_a_log_position),
        WORLD_TEST(resigning_answers_what_is_in_flight_and_follows),
        cmocka_unit_test(a_local_log_cannot_be_given_up),
        WORLD_TEST(a_follower_halts_at_a_batch_that_it_cannot_apply),
        WORLD_TEST(the_program_is_told_of_roles_and_leaders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
