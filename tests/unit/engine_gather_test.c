/* Requests that are submitted together: which thread commits them, when, and in how many
 * batches. */
/* tsan */
#include "unit/engine_world.h"

static enum tn_result alloc_later(struct world *world, struct asyncs *asyncs, unsigned i) {
    char holder[32];
    (void)snprintf(holder, sizeof holder, "async/%u", i);
    ekit_alloc(&world->command, "p", holder, 1, NULL);
    return engine_submit_later(world->engine, &asyncs->of[i].request, &world->command.decoded);
}

static void allocs_later(struct world *world, struct asyncs *asyncs, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(alloc_later(world, asyncs, i), TN_R_OK);
    }
}

static void asyncs_check(const struct asyncs *asyncs, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(asyncs->of[i].code, TN_R_OK);
        assert_int_equal(asyncs->of[i].order, i + 1);
    }
}

static void what_is_gathered_becomes_one_batch_at_a_word(void **state) {
    struct world *world = *state;
    struct asyncs *asyncs = asyncs_new();
    struct engine_stats stats;
    world_open(world);
    unsigned batches = fakelog_batches(world->log);
    allocs_later(world, asyncs, 3);
    engine_stats_read(world->engine, &stats);
    assert_int_equal(stats.queue_commands, 3);
    assert_int_equal(fakelog_batches(world->log), batches);
    engine_submit_now(world->engine);
    asyncs_wait(asyncs, 3);
    asyncs_check(asyncs, 3);
    assert_int_equal(fakelog_batches(world->log), batches + 1);
    engine_submit_now(world->engine); /* there is nothing, and that is all right */
    asyncs_free(asyncs);
}

static void enough_of_them_need_no_word(void **state) {
    struct world *world = *state;
    struct asyncs *asyncs = asyncs_new();
    world_open(world);
    allocs_later(world, asyncs, 64);
    asyncs_wait(asyncs, 64);
    asyncs_check(asyncs, 64);
    asyncs_free(asyncs);
}

static void others_in_a_hurry_take_them_along(void **state) {
    struct world *world = *state;
    struct asyncs *asyncs = asyncs_new();
    world_open(world);
    allocs_later(world, asyncs, 2);
    assert_int_equal(world_alloc(world, "blocking"), TN_R_OK);
    asyncs_wait(asyncs, 2);
    asyncs_check(asyncs, 2);
    asyncs_free(asyncs);
}

static void a_full_batch_needs_no_word(void **state) {
    struct world *world = *state;
    struct asyncs *asyncs = asyncs_new();
    world->options.batch_commands_max = 4;
    world_open(world);
    allocs_later(world, asyncs, 4);
    assert_int_equal(alloc_later(world, asyncs, 4), TN_R_OVERLOADED);
    asyncs_wait(asyncs, 4);
    asyncs_check(asyncs, 4);
    asyncs_free(asyncs);
}

static void what_is_gathered_during_a_sync_waits_for_the_word(void **state) {
    struct world *world = *state;
    struct asyncs *asyncs = asyncs_new();
    struct engine_stats stats;
    world_open(world);
    fakelog_gate_shut(world->log);
    assert_int_equal(async_alloc(world, asyncs, 0), TN_R_OK);
    fakelog_gate_wait(world->log);
    assert_int_equal(alloc_later(world, asyncs, 1), TN_R_OK);
    assert_int_equal(alloc_later(world, asyncs, 2), TN_R_OK);
    fakelog_gate_open(world->log);
    asyncs_wait(asyncs, 1);
    engine_stats_read(world->engine, &stats);
    assert_true(stats.queue_commands >= 2);
    engine_submit_now(world->engine);
    asyncs_wait(asyncs, 3);
    asyncs_check(asyncs, 3);
    asyncs_free(asyncs);
}

/* Requests that gather arrive after a caller that blocks, while the batch before them is synced. */
static void whoever_blocks_is_not_kept_waiting_for_the_word(void **state) {
    struct world *world = *state;
    struct asyncs *asyncs = asyncs_new();
    struct caller caller;
    world_open(world);
    fakelog_gate_shut(world->log);
    assert_int_equal(async_alloc(world, asyncs, 0), TN_R_OK);
    fakelog_gate_wait(world->log);
    callers_start(&caller, 1, world->engine);
    wait_for_queue(world, 2);
    assert_int_equal(alloc_later(world, asyncs, 1), TN_R_OK);
    fakelog_gate_open(world->log);
    callers_join(&caller, 1);
    assert_int_equal(caller.answer.result.code, TN_R_OK);
    asyncs_wait(asyncs, 2);
    asyncs_check(asyncs, 2);
    asyncs_free(asyncs);
}

static void closing_answers_what_is_gathered(void **state) {
    struct world *world = *state;
    struct asyncs *asyncs = asyncs_new();
    world_open(world);
    allocs_later(world, asyncs, 2);
    world_close(world);
    asyncs_wait(asyncs, 2);
    asyncs_check(asyncs, 2);
    asyncs_free(asyncs);
}

/* ---- A slow disk ---- */

/* Two requests have been answered after a sync that took long, and a third has come meanwhile: the
 * commit thread waits for the two to come back. */
static void slow_sync_make(struct world *world, struct asyncs *asyncs) {
    world_open(world);
    fakelog_gate_shut(world->log);
    allocs_later(world, asyncs, 2);
    engine_submit_now(world->engine);
    fakelog_gate_wait(world->log);
    assert_int_equal(async_alloc(world, asyncs, 2), TN_R_OK);
    fakeos_clock_advance(world->machine, 600000);
    fakelog_gate_open(world->log);
    asyncs_wait(asyncs, 2);
}

static void on_a_slow_disk_those_who_come_back_share_a_sync(void **state) {
    struct world *world = *state;
    struct asyncs *asyncs = asyncs_new();
    slow_sync_make(world, asyncs);
    assert_int_equal(async_alloc(world, asyncs, 3), TN_R_OK);
    assert_int_equal(async_alloc(world, asyncs, 4), TN_R_OK);
    asyncs_wait(asyncs, 5);
    asyncs_check(asyncs, 5);
    unsigned last = fakelog_batches(world->log) - 1;
    assert_int_equal(fakelog_batch_count(world->log, last), 3);
    asyncs_free(asyncs);
}

static void whoever_blocks_is_not_kept_waiting_for_others(void **state) {
    struct world *world = *state;
    struct asyncs *asyncs = asyncs_new();
    slow_sync_make(world, asyncs);
    assert_int_equal(world_alloc(world, "blocking"), TN_R_OK);
    asyncs_wait(asyncs, 3);
    asyncs_check(asyncs, 3);
    asyncs_free(asyncs);
}

/* There will never be as many as were answered and waited: a batch holds only half of that. */
static void a_full_batch_is_not_kept_waiting_for_more(void **state) {
    struct world *world = *state;
    struct asyncs *asyncs = asyncs_new();
    world->options.batch_commands_max = 4;
    world_open(world);
    fakelog_gate_shut(world->log);
    allocs_later(world, asyncs, 4);
    assert_int_equal(alloc_later(world, asyncs, 4), TN_R_OVERLOADED); /* ends the gathering, too */
    fakelog_gate_wait(world->log);
    for (unsigned i = 4; i < 8; i++) {
        assert_int_equal(async_alloc(world, asyncs, i), TN_R_OK);
    }
    fakeos_clock_advance(world->machine, 600000);
    fakelog_gate_open(world->log);
    asyncs_wait(asyncs, 8);
    asyncs_check(asyncs, 8);
    asyncs_free(asyncs);
}

static void closing_does_not_wait_for_others(void **state) {
    struct world *world = *state;
    struct asyncs *asyncs = asyncs_new();
    slow_sync_make(world, asyncs);
    world_close(world);
    asyncs_wait(asyncs, 3);
    asyncs_check(asyncs, 3);
    asyncs_free(asyncs);
}

/* ---- The last of several ---- */

struct watcher {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned count, last; /* requests in the batch, and those that said they were the last */
};

static void watcher_done(struct engine_request *request, struct tn_bytes command) {
    struct watcher *watcher = request->ctx;
    (void)command;
    pthread_mutex_lock(&watcher->lock);
    watcher->count++;
    watcher->last += !request->more;
    pthread_cond_broadcast(&watcher->changed);
    pthread_mutex_unlock(&watcher->lock);
}

static void the_last_answer_of_a_batch_says_so(void **state) {
    struct world *world = *state;
    struct watcher watcher = {.count = 0};
    struct engine_request requests[3];
    pthread_mutex_init(&watcher.lock, NULL);
    pthread_cond_init(&watcher.changed, NULL);
    world_open(world);
    for (unsigned i = 0; i < 3; i++) {
        requests[i] = (struct engine_request){.done = watcher_done, .ctx = &watcher};
        ekit_alloc(&world->command, "p", "watcher", 1, NULL);
        assert_int_equal(engine_submit_later(world->engine, &requests[i], &world->command.decoded),
                         TN_R_OK);
    }
    engine_submit_now(world->engine);
    pthread_mutex_lock(&watcher.lock);
    while (watcher.count < 3) {
        pthread_cond_wait(&watcher.changed, &watcher.lock);
    }
    assert_int_equal(watcher.last, 1);
    pthread_mutex_unlock(&watcher.lock);
    world_close(world);
    pthread_cond_destroy(&watcher.changed);
    pthread_mutex_destroy(&watcher.lock);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WORLD_TEST(what_is_gathered_becomes_one_batch_at_a_word),
        WORLD_TEST(enough_of_them_need_no_word),
        WORLD_TEST(others_in_a_hurry_take_them_along),
        WORLD_TEST(a_full_batch_needs_no_word),
        WORLD_TEST(what_is_gathered_during_a_sync_waits_for_the_word),
        WORLD_TEST(whoever_blocks_is_not_kept_waiting_for_the_word),
        WORLD_TEST(closing_answers_what_is_gathered),
        WORLD_TEST(on_a_slow_disk_those_who_come_back_share_a_sync),
        WORLD_TEST(whoever_blocks_is_not_kept_waiting_for_others),
        WORLD_TEST(a_full_batch_is_not_kept_waiting_for_more),
        WORLD_TEST(closing_does_not_wait_for_others),
        WORLD_TEST(the_last_answer_of_a_batch_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
