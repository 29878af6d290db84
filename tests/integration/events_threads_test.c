/* Events read while they happen: readers that follow, readers that come from anywhere, snapshots, all
 * at once, on real files. */
/* tsan */
#include <pthread.h>
#include <stdatomic.h>

#include "unit/unit.h"

#include "engine/events.h"
#include "lib/enginekit.h"

#define WRITERS 4u
#define FOLLOWERS 3u
#define ROUNDS 1500u
#define EVENTS_MAX 2000u

struct crowd {
    struct engine *engine;
    pthread_mutex_t lock;
    pthread_cond_t ready;
    bool called; /* called since it was last armed; under the lock */
    atomic_uint writing;
};

struct follower {
    struct crowd *crowd;
    struct engine_event_id last;
    uint64_t seen;
    unsigned losses;
};

static void call(void *ctx) {
    struct crowd *crowd = ctx;
    pthread_mutex_lock(&crowd->lock);
    crowd->called = true;
    pthread_cond_broadcast(&crowd->ready);
    pthread_mutex_unlock(&crowd->lock);
}

static void *write_main(void *arg) {
    struct crowd *crowd = arg;
    struct ekit_command command;
    struct ekit_answer *answer = malloc(sizeof *answer);
    assert_non_null(answer);
    for (unsigned i = 0; i < ROUNDS; i++) {
        ekit_run_ok(crowd->engine, ekit_alloc(&command, "p", "writer", 1, NULL), answer);
        struct kernel_result lease = answer->result;
        ekit_run_ok(crowd->engine, ekit_release(&command, &lease, "writer"), answer);
    }
    free(answer);
    atomic_fetch_sub(&crowd->writing, 1);
    call(crowd);
    return NULL;
}

/* Each command here has one event, but for those that had none. */
static bool follow(void *ctx, const struct engine_event *event) {
    struct follower *follower = ctx;
    assert_int_equal(event->fact.index, 0);
    assert_true(event->fact.lsn > follower->last.lsn);
    follower->last = (struct engine_event_id){event->fact.lsn, 0};
    follower->seen++;
    return true;
}

static void follow_to_the_end(struct follower *follower) {
    struct engine_events_span span;
    do {
        assert_int_equal(engine_events_read(follower->crowd->engine, follower->last, 100, follow,
                                            follower, &span),
                         TN_R_OK);
        follower->losses += span.lost;
        assert_true(engine_event_id_compare(span.next, follower->last) == 0);
    } while (span.more);
}

static void *follow_main(void *arg) {
    struct follower *follower = arg;
    struct crowd *crowd = follower->crowd;
    for (;;) {
        bool over = atomic_load(&crowd->writing) == 0;
        follow_to_the_end(follower);
        if (over) {
            return NULL;
        }
        pthread_mutex_lock(&crowd->lock);
        crowd->called = false;
        pthread_mutex_unlock(&crowd->lock);
        if (!engine_events_arm(crowd->engine, follower->last)) {
            continue;
        }
        pthread_mutex_lock(&crowd->lock);
        while (!crowd->called && atomic_load(&crowd->writing) > 0) {
            pthread_cond_wait(&crowd->ready, &crowd->lock);
        }
        pthread_mutex_unlock(&crowd->lock);
    }
}

/* From the oldest, again and again, while the oldest goes; snapshots between. */
static void *wander_main(void *arg) {
    struct crowd *crowd = arg;
    while (atomic_load(&crowd->writing) > 0) {
        struct follower wanderer = {.crowd = crowd};
        struct engine_events_span span;
        struct log_error error;
        for (unsigned i = 0; i < 30; i++) {
            assert_int_equal(
                engine_events_read(crowd->engine, wanderer.last, 50, follow, &wanderer, &span),
                TN_R_OK);
        }
        assert_int_equal(engine_snapshot(crowd->engine, &error), TN_OK);
    }
    return NULL;
}

static void followers_see_everything_once_and_in_order(void **state) {
    static struct crowd crowd;
    struct follower followers[FOLLOWERS];
    pthread_t threads[WRITERS + FOLLOWERS + 1];
    struct ekit_command command;
    static struct ekit_answer answer;
    char dir[128];
    (void)state;
    ekit_dir_make(dir);
    struct log_local_options local = {.dir = dir, .segment_bytes = 1 << 20};
    struct engine_options options = {
        .events_max = EVENTS_MAX, .events_ready = call, .events_ready_ctx = &crowd};
    ekit_limits_small(&options);
    pthread_mutex_init(&crowd.lock, NULL);
    pthread_cond_init(&crowd.ready, NULL);
    crowd.engine = ekit_open_local(&options, &local);
    ekit_run_ok(crowd.engine, ekit_pool(&command, "p", 1, 1000, 3600), &answer);
    atomic_store(&crowd.writing, WRITERS);
    unsigned count = 0;
    for (unsigned i = 0; i < FOLLOWERS; i++) {
        followers[i] = (struct follower){.crowd = &crowd};
        /* A reader that has seen no event cannot be told what it missed. */
        follow_to_the_end(&followers[i]);
        assert_int_equal(pthread_create(&threads[count++], NULL, follow_main, &followers[i]), 0);
    }
    for (unsigned i = 0; i < WRITERS; i++) {
        assert_int_equal(pthread_create(&threads[count++], NULL, write_main, &crowd), 0);
    }
    assert_int_equal(pthread_create(&threads[count++], NULL, wander_main, &crowd), 0);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    for (unsigned i = 0; i < FOLLOWERS; i++) {
        /* A reader that fell behind the bound has been told so. */
        uint64_t all = (uint64_t)WRITERS * ROUNDS * 2 + 1;
        assert_true(followers[i].seen == all || followers[i].losses > 0);
        assert_true(followers[i].seen >= EVENTS_MAX);
    }
    struct engine_stats stats;
    engine_stats_read(crowd.engine, &stats);
    assert_int_equal(stats.events_lost, 0);
    assert_true(engine_close(crowd.engine));
    ekit_dir_remove(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(followers_see_everything_once_and_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
