/* Many threads on one engine, over the real log on a real disk: no value is granted twice, no
 * answered command is missing, whatever else happens. */
/* tsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include "lib/enginekit.h"

#define THREADS 16u
#define VALUES 4000u

struct world {
    char dir[128];
    struct engine_options options;
    struct log_local_options local;
    struct engine *engine;
};

static int world_make(void **state) {
    struct world *world = calloc(1, sizeof *world);
    struct ekit_command command;
    struct ekit_answer answer;
    assert_non_null(world);
    ekit_dir_make(world->dir);
    world->local = (struct log_local_options){.dir = world->dir, .segment_bytes = 1 << 18};
    ekit_limits_small(&world->options);
    world->engine = ekit_open_local(&world->options, &world->local);
    ekit_run_ok(world->engine, ekit_pool(&command, "p", 1, VALUES, 3600), &answer);
    *state = world;
    return 0;
}

static int world_free(void **state) {
    struct world *world = *state;
    assert_true(engine_close(world->engine));
    ekit_dir_remove(world->dir);
    free(world);
    return 0;
}

/* The same state after closing and opening. */
static void world_check(struct world *world) {
    ekit_check(world->engine);
    uint64_t hash = ekit_hash(world->engine);
    assert_true(engine_close(world->engine));
    world->engine = ekit_open_local(&world->options, &world->local);
    assert_true(ekit_hash(world->engine) == hash);
}

/* ---- Values are given once ---- */

struct taker {
    pthread_t thread;
    struct engine *engine;
    unsigned number;
    uint64_t taken[VALUES];
    unsigned count;
    enum tn_result last;
};

static void *taker_main(void *arg) {
    struct taker *taker = arg;
    struct ekit_command command;
    struct ekit_answer *answer = malloc(sizeof *answer);
    char holder[32];
    (void)snprintf(holder, sizeof holder, "taker/%u", taker->number);
    for (;;) {
        taker->last = ekit_run(taker->engine, ekit_alloc(&command, "p", holder, 1, NULL), answer);
        if (taker->last != TN_R_OK) {
            break;
        }
        taker->taken[taker->count++] = answer->values[0].number;
    }
    free(answer);
    return NULL;
}

static void threads_never_get_the_same_value(void **state) {
    struct world *world = *state;
    struct taker *takers = calloc(THREADS, sizeof *takers);
    unsigned char *given = calloc(VALUES + 1, 1);
    assert_true(takers != NULL && given != NULL);
    for (unsigned i = 0; i < THREADS; i++) {
        takers[i].engine = world->engine;
        takers[i].number = i;
        assert_int_equal(pthread_create(&takers[i].thread, NULL, taker_main, &takers[i]), 0);
    }
    unsigned total = 0;
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(takers[i].thread, NULL), 0);
        assert_int_equal(takers[i].last, TN_R_EXHAUSTED);
        for (unsigned j = 0; j < takers[i].count; j++) {
            assert_in_range(takers[i].taken[j], 1, VALUES);
            assert_int_equal(given[takers[i].taken[j]]++, 0);
        }
        total += takers[i].count;
    }
    assert_int_equal(total, VALUES);
    world_check(world);
    free(given);
    free(takers);
}

/* ---- Thousands in flight ---- */

#define JOBS 3000u
#define ROUNDS 6u

struct job {
    struct engine_request request;
    struct jobs *jobs;
    char holder[16];
    unsigned steps;
    struct kernel_result lease;
};

struct jobs {
    struct engine *engine;
    pthread_mutex_t lock;
    pthread_cond_t over;
    unsigned left;
    atomic_uint failed;
    uint64_t lsn; /* LSN of the last answer; answers come in order */
    struct ekit_command command;
    struct job of[JOBS];
};

static void job_step(struct job *job);

static void job_done(struct engine_request *request, struct tn_bytes command) {
    struct job *job = request->ctx;
    struct jobs *jobs = job->jobs;
    (void)command;
    jobs->failed += request->result.code != TN_R_OK;
    jobs->failed += request->result.lsn <= jobs->lsn;
    jobs->lsn = request->result.lsn;
    job->lease = request->result;
    job->steps++;
    if (job->steps < 2 * ROUNDS) {
        job_step(job);
        return;
    }
    pthread_mutex_lock(&jobs->lock);
    if (--jobs->left == 0) {
        pthread_cond_signal(&jobs->over);
    }
    pthread_mutex_unlock(&jobs->lock);
}

/* Called by one thread at a time: by the test before the first answer, then by the thread that
 * answers. */
static void job_step(struct job *job) {
    struct jobs *jobs = job->jobs;
    struct ekit_command command;
    if (job->steps % 2 == 0) {
        ekit_alloc(&command, "p", job->holder, 1, NULL);
    } else {
        ekit_release(&command, &job->lease, job->holder);
    }
    jobs->failed += engine_submit(jobs->engine, &job->request, &command.decoded) != TN_R_OK;
}

static void thousands_in_flight_are_answered_in_order(void **state) {
    struct world *world = *state;
    struct jobs *jobs = calloc(1, sizeof *jobs);
    assert_non_null(jobs);
    jobs->engine = world->engine;
    jobs->left = JOBS;
    pthread_mutex_init(&jobs->lock, NULL);
    pthread_cond_init(&jobs->over, NULL);
    for (unsigned i = 0; i < JOBS; i++) {
        struct job *job = &jobs->of[i];
        job->jobs = jobs;
        job->request = (struct engine_request){.done = job_done, .ctx = job};
        (void)snprintf(job->holder, sizeof job->holder, "job/%u", i);
        job_step(job);
    }
    pthread_mutex_lock(&jobs->lock);
    while (jobs->left > 0) {
        pthread_cond_wait(&jobs->over, &jobs->lock);
    }
    pthread_mutex_unlock(&jobs->lock);
    assert_int_equal(jobs->failed, 0);
    struct engine_stats stats;
    engine_stats_read(world->engine, &stats);
    assert_int_equal(stats.lsn, 2 + JOBS * 2 * ROUNDS);
    assert_true(stats.batch_commands_max > 1);
    world_check(world);
    pthread_cond_destroy(&jobs->over);
    pthread_mutex_destroy(&jobs->lock);
    free(jobs);
}

/* ---- Everything at once ---- */

#define WRITES 300u

struct crowd {
    struct engine *engine;
    atomic_bool over;
    atomic_uint failed;
    unsigned number;
};

struct member {
    pthread_t thread;
    struct crowd *crowd;
    unsigned number;
};

/* Allocates, reads its own write, touches, releases. */
static void *crowd_write(void *arg) {
    struct member *self = arg;
    struct crowd *crowd = self->crowd;
    struct ekit_command command;
    struct ekit_answer *answer = malloc(sizeof *answer);
    struct engine_lease lease;
    char holder[32];
    (void)snprintf(holder, sizeof holder, "writer/%u", self->number);
    for (unsigned i = 0; i < WRITES; i++) {
        crowd->failed +=
            ekit_run(crowd->engine, ekit_alloc(&command, "p", holder, 2, NULL), answer) != TN_R_OK;
        struct kernel_result granted = answer->result;
        crowd->failed += engine_wait_lsn(crowd->engine, granted.lsn) != TN_R_OK;
        crowd->failed +=
            engine_lease_read(crowd->engine, ENGINE_READ_CURRENT, granted.lease, &lease) != TN_R_OK;
        crowd->failed += lease.view.epoch != granted.epoch || lease.value_count != 2;
        crowd->failed +=
            ekit_run(crowd->engine, ekit_touch(&command, &granted, "{}"), answer) != TN_R_OK;
        crowd->failed +=
            ekit_run(crowd->engine, ekit_release(&command, &granted, holder), answer) != TN_R_OK;
        crowd->failed += engine_verify(crowd->engine, ENGINE_READ_CURRENT, granted.lease,
                                       granted.epoch, &lease) == TN_R_OK;
    }
    free(answer);
    return NULL;
}

static void *crowd_read(void *arg) {
    struct member *self = arg;
    struct crowd *crowd = self->crowd;
    struct kernel_pool_view pool;
    struct engine_lease page[8];
    struct engine_stats stats;
    while (!crowd->over) {
        uint64_t lsn;
        uint64_t cursor = 0;
        uint32_t count = 0;
        const struct kernel_lease_filter filter = {.state = KERNEL_NO_STATE};
        crowd->failed += engine_pool_read(crowd->engine, ENGINE_READ_CURRENT, tn_bytes_of("p", 1),
                                          &pool, &lsn) != TN_R_OK;
        crowd->failed += pool.active % 2; /* bundles are granted as a whole */
        crowd->failed += engine_leases_list(crowd->engine, ENGINE_READ_CURRENT, &filter, &cursor,
                                            page, 8, &count, &lsn) != TN_R_OK;
        engine_stats_read(crowd->engine, &stats);
    }
    return NULL;
}

static void *crowd_snapshot(void *arg) {
    struct member *self = arg;
    struct crowd *crowd = self->crowd;
    struct log_error error;
    do { /* one at least, however late this thread is */
        crowd->failed += engine_snapshot(crowd->engine, &error) != TN_OK;
    } while (!crowd->over);
    return NULL;
}

static void writers_readers_and_snapshots_share_an_engine(void **state) {
    struct world *world = *state;
    struct crowd crowd = {.engine = world->engine};
    void *(*const roles[])(void *) = {crowd_write, crowd_write, crowd_write,   crowd_write,
                                      crowd_write, crowd_read,  crowd_snapshot};
    const unsigned writers = 5;
    const unsigned count = sizeof roles / sizeof roles[0];
    struct member members[sizeof roles / sizeof roles[0]];
    for (unsigned i = 0; i < count; i++) {
        members[i] = (struct member){.crowd = &crowd, .number = i};
        assert_int_equal(pthread_create(&members[i].thread, NULL, roles[i], &members[i]), 0);
    }
    for (unsigned i = 0; i < count; i++) {
        if (i == writers) {
            crowd.over = true;
        }
        assert_int_equal(pthread_join(members[i].thread, NULL), 0);
    }
    assert_int_equal(crowd.failed, 0);
    struct engine_stats stats;
    engine_stats_read(world->engine, &stats);
    assert_true(stats.snapshots > 0);
    world_check(world);
}

/* ---- One position ---- */

#define TOUCHES 2000u

struct toucher {
    pthread_t thread;
    struct engine *engine;
    struct kernel_result lease;
    atomic_bool over;
};

/* The length of the metadata changes with every touch. */
static void *toucher_main(void *arg) {
    struct toucher *toucher = arg;
    struct ekit_command command;
    struct ekit_answer *answer = malloc(sizeof *answer);
    char meta[128];
    for (unsigned i = 0; i < TOUCHES; i++) {
        (void)snprintf(meta, sizeof meta, "{\"n\":\"%*u\"}", (int)(1 + i % 100), 1u);
        (void)ekit_run(toucher->engine, ekit_touch(&command, &toucher->lease, meta), answer);
    }
    free(answer);
    toucher->over = true;
    return NULL;
}

static void a_lease_is_read_whole_at_one_position(void **state) {
    struct world *world = *state;
    static struct engine_value values[KERNEL_BUNDLE_MAX];
    char meta[KERNEL_META_MAX];
    struct ekit_command command;
    struct ekit_answer *answer = malloc(sizeof *answer);
    assert_non_null(answer);
    ekit_run_ok(world->engine, ekit_alloc(&command, "p", "h", 100, NULL), answer);
    struct toucher toucher = {.engine = world->engine, .lease = answer->result};
    assert_int_equal(pthread_create(&toucher.thread, NULL, toucher_main, &toucher), 0);
    while (!toucher.over) {
        struct engine_lease lease;
        struct engine_lease_rest rest = {.values = values, .meta = meta};
        assert_int_equal(engine_lease_read_whole(world->engine, ENGINE_READ_AS_IS,
                                                 toucher.lease.lease, &lease, &rest),
                         TN_R_OK);
        assert_int_equal(rest.meta_len, lease.view.meta_len);
        assert_int_equal(rest.value_count, 100);
        assert_int_equal(rest.values[99].value.number, answer->values[99].number);
    }
    assert_int_equal(pthread_join(toucher.thread, NULL), 0);
    free(answer);
}

#define WORLD_TEST(name) cmocka_unit_test_setup_teardown(name, world_make, world_free)

int main(void) {
    const struct CMUnitTest tests[] = {
        WORLD_TEST(threads_never_get_the_same_value),
        WORLD_TEST(thousands_in_flight_are_answered_in_order),
        WORLD_TEST(writers_readers_and_snapshots_share_an_engine),
        WORLD_TEST(a_lease_is_read_whole_at_one_position),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
