/* A log that answers later: the next batch goes to it when the last one is durable, before that one is
 * applied and answered. */
/* tsan */
#include "unit/engine_world.h"

#include <stdatomic.h>

#define EARLY_MAX 64u

/* What the log had been given when each request was answered. */
struct early {
    struct engine_request request;
    struct story *story;
    enum tn_result code;
    uint64_t lsn;
    unsigned appends;
    uint64_t order; /* the how-many-th to be done, from 1 */
};

struct story {
    struct world *world;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned done_count;
    struct early of[EARLY_MAX];
};

static void early_done(struct engine_request *request, struct tn_bytes command) {
    struct early *early = request->ctx;
    struct story *story = early->story;
    unsigned appends = fakelog_appends(story->world->log);
    (void)command;
    pthread_mutex_lock(&story->lock);
    early->code = request->result.code;
    early->lsn = request->result.lsn;
    early->appends = appends;
    early->order = ++story->done_count;
    pthread_cond_broadcast(&story->changed);
    pthread_mutex_unlock(&story->lock);
}

static struct story *story_new(struct world *world) {
    struct story *story = calloc(1, sizeof *story);
    assert_non_null(story);
    story->world = world;
    pthread_mutex_init(&story->lock, NULL);
    pthread_cond_init(&story->changed, NULL);
    for (unsigned i = 0; i < EARLY_MAX; i++) {
        story->of[i] =
            (struct early){.request = {.done = early_done, .ctx = &story->of[i]}, .story = story};
    }
    fakelog_set_later(world->log);
    world->options.early_commands_min = 3;
    world_open(world);
    return story;
}

/* After the engine was closed, so that nothing is answered any more. */
static void story_free(struct story *story) {
    pthread_cond_destroy(&story->changed);
    pthread_mutex_destroy(&story->lock);
    free(story);
}

static void story_wait(struct story *story, unsigned count) {
    pthread_mutex_lock(&story->lock);
    while (story->done_count < count) {
        pthread_cond_wait(&story->changed, &story->lock);
    }
    pthread_mutex_unlock(&story->lock);
}

static void submit(struct story *story, unsigned from, unsigned count, bool with_ids) {
    struct world *world = story->world;
    for (unsigned i = from; i < from + count; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "early/%u", i);
        ekit_alloc(&world->command, "p", name, 1, with_ids ? name : NULL);
        assert_int_equal(
            engine_submit(world->engine, &story->of[i].request, &world->command.decoded), TN_R_OK);
    }
}

/* A batch of one stands at the gate, and `count` requests wait behind it. */
static struct story *story_begin(struct world *world, unsigned count, bool with_ids) {
    struct story *story = story_new(world);
    fakelog_gate_shut(world->log);
    submit(story, 0, 1, with_ids);
    fakelog_gate_wait(world->log);
    submit(story, 1, count, with_ids);
    return story;
}

static void the_log_has_the_next_batch_before_the_last_one_is_answered(void **state) {
    struct world *world = *state;
    struct story *story = story_begin(world, 3, false);
    unsigned appends = fakelog_appends(world->log);
    fakelog_gate_open(world->log);
    story_wait(story, 4);
    assert_int_equal(story->of[0].appends, appends + 1);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(story->of[i].code, TN_R_OK);
        assert_int_equal(story->of[i].order, i + 1);
        assert_int_equal(story->of[i].lsn, story->of[0].lsn + i);
    }
    assert_int_equal(fakelog_batch_count(world->log, fakelog_batches(world->log) - 1), 3);
    ekit_check(world->engine);
    world_close(world);
    story_free(story);
}

/* For a few it is not worth the smaller batch: clients that are answered first may join them. */
static void a_few_wait_until_the_last_batch_is_answered(void **state) {
    struct world *world = *state;
    struct story *story = story_begin(world, 2, false);
    unsigned appends = fakelog_appends(world->log);
    fakelog_gate_open(world->log);
    story_wait(story, 3);
    assert_int_equal(story->of[0].appends, appends);
    assert_int_equal(story->of[2].code, TN_R_OK);
    world_close(world);
    story_free(story);
}

struct failing {
    struct fakelog *log;
    enum tn_status status;
};

/* Inside the append that will fail: its answer waits until the test has looked. */
static void fail_this(void *ctx) {
    const struct failing *failing = ctx;
    fakelog_gate_shut(failing->log);
    fakelog_fail(failing->log, failing->status, 1, false);
}

static void check_failure(struct world *world, enum tn_status status, enum tn_result refusal) {
    struct failing failing = {.log = world->log, .status = status};
    struct story *story = story_begin(world, 3, false);
    fakelog_on_append(world->log, fail_this, &failing);
    fakelog_gate_open(world->log);
    story_wait(story, 1); /* while the batch after it is at the log */
    assert_int_equal(story->of[0].code, TN_R_OK);
    assert_int_equal(world_lsn(world), story->of[0].lsn);
    fakelog_gate_wait(world->log);
    fakelog_gate_open(world->log);
    story_wait(story, 4);
    for (unsigned i = 1; i < 4; i++) {
        assert_int_equal(story->of[i].code, refusal);
        assert_int_equal(story->of[i].lsn, 0);
    }
    assert_int_equal(world_lsn(world), story->of[0].lsn);
    if (status == TN_NOSPACE) { /* the positions are given to the next ones */
        submit(story, 4, 1, false);
        story_wait(story, 5);
        assert_int_equal(story->of[4].lsn, story->of[0].lsn + 1);
        ekit_check(world->engine);
    }
    world_close(world);
    story_free(story);
}

static void a_batch_that_the_log_refuses_leaves_the_one_before_it_acknowledged(void **state) {
    check_failure(*state, TN_NOSPACE, TN_R_NOSPACE);
}

static void a_log_that_is_lost_leaves_the_batch_before_it_acknowledged(void **state) {
    check_failure(*state, TN_LOST, TN_R_MASTERDOWN);
}

static void a_batch_in_doubt_leaves_the_one_before_it_acknowledged(void **state) {
    check_failure(*state, TN_DOUBT, TN_R_LOST);
}

/* The table is judged as it will be when the batch before it has been applied. */
static void operations_of_a_batch_that_is_not_applied_count(void **state) {
    struct world *world = *state;
    world->options.limits.of[KERNEL_LIMIT_OPS] = 4;
    struct story *story = story_begin(world, 2, true);
    unsigned batches = fakelog_batches(world->log);
    submit(story, 3, 2, true);
    submit(story, 5, 1, false);
    fakelog_gate_open(world->log);
    story_wait(story, 6);
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(story->of[i].code, i == 4 ? TN_R_OPS_FULL : TN_R_OK);
    }
    assert_int_equal(fakelog_batch_count(world->log, batches + 1), 4);
    ekit_check(world->engine);
    world_close(world);
    story_free(story);
}

/* Requests that come from answers, without end: each batch is taken before the last one is applied. */
struct flood {
    struct engine_request request;
    struct world *world;
    struct ekit_command command;
    atomic_bool *stop;
    _Atomic unsigned *running;
};

static void flood_submit(struct flood *flood) {
    if (atomic_load(flood->stop) ||
        engine_submit(flood->world->engine, &flood->request, &flood->command.decoded) != TN_R_OK) {
        atomic_fetch_sub(flood->running, 1);
    }
}

static void flood_done(struct engine_request *request, struct tn_bytes command) {
    (void)command;
    flood_submit(request->ctx);
}

static bool expired(void *ctx) {
    struct world *world = ctx;
    struct engine_stats stats;
    engine_stats_read(world->engine, &stats);
    return stats.overdue_ms == 0;
}

static bool stopped(void *ctx) {
    return atomic_load((_Atomic unsigned *)ctx) == 0;
}

static void time_goes_on_under_a_load_without_end(void **state) {
    struct world *world = *state;
    static struct flood floods[8];
    atomic_bool stop = false;
    _Atomic unsigned running = 8;
    world->options.manual_ticks = false;
    world->options.early_commands_min = 1;
    fakelog_set_later(world->log);
    world_open(world);
    assert_int_equal(world_alloc(world, "h"), TN_R_OK); /* for a minute */
    for (unsigned i = 0; i < 8; i++) {
        floods[i] = (struct flood){.request = {.done = flood_done, .ctx = &floods[i]},
                                   .world = world,
                                   .stop = &stop,
                                   .running = &running};
        ekit_alloc(&floods[i].command, "nowhere", "h", 1, NULL);
        flood_submit(&floods[i]);
    }
    fakeos_clock_advance(world->machine, 120000);
    ekit_wait(expired, world);
    atomic_store(&stop, true);
    ekit_wait(stopped, (void *)&running);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WORLD_TEST(the_log_has_the_next_batch_before_the_last_one_is_answered),
        WORLD_TEST(a_few_wait_until_the_last_batch_is_answered),
        WORLD_TEST(a_batch_that_the_log_refuses_leaves_the_one_before_it_acknowledged),
        WORLD_TEST(a_log_that_is_lost_leaves_the_batch_before_it_acknowledged),
        WORLD_TEST(a_batch_in_doubt_leaves_the_one_before_it_acknowledged),
        WORLD_TEST(operations_of_a_batch_that_is_not_applied_count),
        WORLD_TEST(time_goes_on_under_a_load_without_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
