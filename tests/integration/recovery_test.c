/* What a restart finds: everything that was answered, and nothing that was not asked for.
 * Real files, real processes, kill -9. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

#include "lib/enginekit.h"
#include "os/os.h"

struct world {
    char dir[128];
    struct engine_options options;
    struct log_local_options local;
    struct engine *engine;
    struct ekit_command command;
    struct ekit_answer answer;
};

static int world_make(void **state) {
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    ekit_dir_make(world->dir);
    world->local = (struct log_local_options){.dir = world->dir, .segment_bytes = 1 << 18};
    ekit_limits_small(&world->options);
    *state = world;
    return 0;
}

static void world_open(struct world *world) {
    world->engine = ekit_open_local(&world->options, &world->local);
}

static void world_close(struct world *world) {
    assert_true(engine_close(world->engine));
    world->engine = NULL;
}

static int world_free(void **state) {
    struct world *world = *state;
    if (world->engine != NULL) {
        world_close(world);
    }
    ekit_dir_remove(world->dir);
    free(world);
    return 0;
}

static void make_pool(struct world *world) {
    ekit_run_ok(world->engine, ekit_pool(&world->command, "p", 1, 100000, 3600), &world->answer);
}

/* Some history: allocations, touches with metadata, releases. */
static void do_things(struct world *world, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        char holder[32];
        (void)snprintf(holder, sizeof holder, "holder/%u", i % 17);
        ekit_run_ok(world->engine, ekit_alloc(&world->command, "p", holder, 1 + i % 3, NULL),
                    &world->answer);
        struct kernel_result lease = world->answer.result;
        if (i % 2 == 0) {
            ekit_run_ok(world->engine, ekit_touch(&world->command, &lease, "{\"some\":\"words\"}"),
                        &world->answer);
        }
        if (i % 3 == 0) {
            ekit_run_ok(world->engine, ekit_release(&world->command, &lease, holder),
                        &world->answer);
        }
    }
}

static struct engine_stats stats_of(struct world *world) {
    struct engine_stats stats;
    engine_stats_read(world->engine, &stats);
    return stats;
}

/* ---- Ways to the same state ---- */

static void replay_snapshot_and_both_give_the_same_state(void **state) {
    struct world *world = *state;
    struct log_error error;
    world->options.no_snapshot_at_close = true;
    world_open(world);
    make_pool(world);
    do_things(world, 300);
    uint64_t hash = ekit_hash(world->engine);
    world_close(world);

    world_open(world); /* from the log alone */
    assert_true(ekit_hash(world->engine) == hash);
    assert_int_equal(stats_of(world).recovery_commands, stats_of(world).lsn);
    assert_int_equal(engine_snapshot(world->engine, &error), TN_OK);
    world_close(world);

    world_open(world); /* from the snapshot alone */
    assert_true(ekit_hash(world->engine) == hash);
    assert_int_equal(stats_of(world).recovery_commands, 0);
    ekit_check(world->engine);
    do_things(world, 100);
    assert_int_equal(engine_snapshot(world->engine, &error), TN_OK);
    do_things(world, 50);
    hash = ekit_hash(world->engine);
    uint64_t lsn = stats_of(world).lsn;
    world_close(world);

    world_open(world); /* from the newest snapshot and what follows */
    assert_true(ekit_hash(world->engine) == hash);
    uint64_t newest = stats_of(world).recovery_commands;
    world_close(world);
    world->local.use_older_snapshot = true;
    world_open(world); /* from the one before */
    assert_true(ekit_hash(world->engine) == hash);
    assert_int_equal(stats_of(world).lsn, lsn);
    assert_true(stats_of(world).recovery_commands > newest);
    ekit_check(world->engine);
}

struct load {
    struct world *world;
    pthread_t thread;
    unsigned seed;
};

static void *load_main(void *arg) {
    struct load *load = arg;
    struct ekit_command command;
    struct ekit_answer *answer = malloc(sizeof *answer);
    char holder[32];
    (void)snprintf(holder, sizeof holder, "load/%u", load->seed);
    for (unsigned i = 0; i < 150; i++) {
        (void)ekit_run(load->world->engine, ekit_alloc(&command, "p", holder, 1, NULL), answer);
        struct kernel_result lease = answer->result;
        (void)ekit_run(load->world->engine, ekit_touch(&command, &lease, "{}"), answer);
    }
    free(answer);
    return NULL;
}

/* An image is of one moment, although the state moves on while it is taken. */
static void a_snapshot_under_load_and_what_follows_give_the_same_state(void **state) {
    struct world *world = *state;
    struct load loads[4];
    struct log_error error;
    world->options.no_snapshot_at_close = true;
    world_open(world);
    make_pool(world);
    do_things(world, 300);
    for (unsigned i = 0; i < 4; i++) {
        loads[i] = (struct load){.world = world, .seed = i};
        assert_int_equal(pthread_create(&loads[i].thread, NULL, load_main, &loads[i]), 0);
    }
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(engine_snapshot(world->engine, &error), TN_OK);
    }
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(loads[i].thread, NULL), 0);
    }
    uint64_t hash = ekit_hash(world->engine);
    world_close(world);
    world_open(world);
    assert_true(ekit_hash(world->engine) == hash);
    world_close(world);
    world->local.use_older_snapshot = true;
    world_open(world);
    assert_true(ekit_hash(world->engine) == hash);
    ekit_check(world->engine);
}

/* ---- kill -9 ---- */

/* What the child reports about each answer, after it got the answer. */
struct acknowledged {
    uint64_t number; /* number of the operation: its id is made from this */
    uint64_t lsn;
    uint64_t value;
};

#define KILL_THREADS 4u

struct child_thread {
    struct engine *engine;
    int pipe;
    uint64_t first;
};

static const struct ekit_command *operation(struct ekit_command *command, uint64_t number) {
    char opid[32];
    char holder[32];
    (void)snprintf(opid, sizeof opid, "operation-%llu", (unsigned long long)number);
    (void)snprintf(holder, sizeof holder, "holder/%llu", (unsigned long long)number % 50);
    return ekit_alloc(command, "p", holder, 1, opid);
}

static void *child_thread(void *arg) {
    struct child_thread *self = arg;
    struct ekit_command command;
    struct ekit_answer answer;
    for (uint64_t number = self->first;; number += KILL_THREADS) {
        if (ekit_run(self->engine, operation(&command, number), &answer) != TN_R_OK) {
            _exit(3);
        }
        struct acknowledged told = {
            .number = number, .lsn = answer.result.lsn, .value = answer.values[0].number};
        if (write(self->pipe, &told, sizeof told) != (ssize_t)sizeof told) {
            _exit(4);
        }
    }
}

static void child_main(const struct world *world, int pipe_end, uint64_t first) {
    struct engine *engine;
    struct log_error error;
    pthread_t threads[KILL_THREADS];
    struct child_thread work[KILL_THREADS];
    if (ekit_try_local(&world->options, &world->local, &engine, &error) != TN_OK) {
        _exit(2);
    }
    for (unsigned i = 0; i < KILL_THREADS; i++) {
        work[i] = (struct child_thread){.engine = engine, .pipe = pipe_end, .first = first + i};
        if (pthread_create(&threads[i], NULL, child_thread, &work[i]) != 0) {
            _exit(5);
        }
    }
    pause();
}

/* Reads the child's reports until there are `wanted`, kills the child, and reads the remaining
 * reports. */
static unsigned gather(pid_t child, int from, unsigned wanted, struct acknowledged *out,
                       unsigned capacity) {
    unsigned count = 0;
    while (count < capacity) {
        ssize_t got = read(from, &out[count], sizeof out[count]);
        if (got == 0) {
            break;
        }
        assert_int_equal(got, (ssize_t)sizeof out[count]);
        count++;
        if (count == wanted) {
            assert_int_equal(kill(child, SIGKILL), 0);
        }
    }
    return count;
}

#define KILL_CAPACITY 4000u

static void a_killed_process_loses_nothing_it_answered(void **state) {
    struct world *world = *state;
    struct acknowledged *told = calloc(KILL_CAPACITY, sizeof *told);
    assert_non_null(told);
    world->options.snapshot_bytes = 1 << 14; /* so that kills hit snapshots, too */
    world_open(world);
    make_pool(world);
    world_close(world);
    uint64_t next = 0;
    for (unsigned round = 0; round < 6; round++) {
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        (void)fflush(NULL);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            (void)close(ends[0]);
            child_main(world, ends[1], next);
        }
        (void)close(ends[1]);
        unsigned count = gather(child, ends[0], 40 + 37 * round, told, KILL_CAPACITY);
        (void)close(ends[0]);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));

        /* Every answer that was heard of is still the answer. */
        world_open(world);
        ekit_check(world->engine);
        for (unsigned i = 0; i < count; i++) {
            ekit_run_ok(world->engine, operation(&world->command, told[i].number), &world->answer);
            assert_true(world->answer.result.replayed);
            assert_int_equal(world->answer.result.lsn, told[i].lsn);
            assert_int_equal(world->answer.values[0].number, told[i].value);
            next = told[i].number >= next ? told[i].number + 1 : next;
        }
        world_close(world);
        next += 100; /* past the operations in flight */
    }
    free(told);
}

/* ---- One directory, one process ---- */

static void two_processes_cannot_have_one_directory(void **state) {
    struct world *world = *state;
    world_open(world);
    (void)fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct engine *engine;
        struct log_error error;
        enum tn_status status = ekit_try_local(&world->options, &world->local, &engine, &error);
        _exit(status == TN_LOCKED ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    make_pool(world);
}

/* ---- Operations, time, limits ---- */

static void operations_are_remembered_across_a_crash(void **state) {
    struct world *world = *state;
    world->options.no_snapshot_at_close = true; /* as after a crash: only the log is there */
    world_open(world);
    make_pool(world);
    ekit_run_ok(world->engine, ekit_alloc(&world->command, "p", "h", 2, "op"), &world->answer);
    struct kernel_result first = world->answer.result;
    uint64_t value = world->answer.values[1].number;
    world_close(world);
    world_open(world);
    ekit_run_ok(world->engine, ekit_alloc(&world->command, "p", "h", 2, "op"), &world->answer);
    assert_true(world->answer.result.replayed);
    assert_int_equal(world->answer.result.lsn, first.lsn);
    assert_int_equal(world->answer.result.lease.lsn, first.lease.lsn);
    assert_int_equal(world->answer.values[1].number, value);
    assert_int_equal(
        ekit_run(world->engine, ekit_alloc(&world->command, "p", "h", 3, "op"), &world->answer),
        TN_R_CONFLICT);
}

/* A wall clock of the test's own. */
static uint64_t wall_ms;

static uint64_t wall_read(void *ctx) {
    (void)ctx;
    return wall_ms;
}

static void a_clock_set_back_does_not_set_leases_back(void **state) {
    struct world *world = *state;
    struct os os = *os_posix();
    struct log_error error;
    os.clock_wall_ms = wall_read;
    wall_ms = 1700000000000;
    world->options.os = &os;
    world->options.manual_ticks = true;
    world_open(world);
    make_pool(world);
    ekit_run_ok(world->engine, ekit_alloc(&world->command, "p", "h", 1, NULL), &world->answer);
    uint64_t deadline = world->answer.result.deadline_ms;
    world_close(world);

    wall_ms -= 86400000;
    world_open(world);
    assert_true(engine_now(world->engine) >= 1700000000000);
    ekit_run_ok(world->engine, ekit_alloc(&world->command, "p", "h", 1, NULL), &world->answer);
    assert_true(world->answer.result.deadline_ms >= deadline);
    world_close(world);

    wall_ms = 1700000000000 + 31ull * 86400 * 1000;
    assert_int_equal(ekit_try_local(&world->options, &world->local, &world->engine, &error),
                     TN_TIME_JUMP);
    world->engine = NULL;
    world->options.confirm_time_jump = true;
    world_open(world);
    struct kernel_pool_view pool;
    uint64_t lsn;
    assert_int_equal(
        engine_pool_read(world->engine, ENGINE_READ_CURRENT, tn_bytes_of("p", 1), &pool, &lsn),
        TN_R_OK);
    assert_int_equal(pool.active, 0);
    world_close(world); /* with the clock still available */
}

static void changed_limits_are_part_of_the_log(void **state) {
    struct world *world = *state;
    struct log_error error;
    world->options.no_snapshot_at_close = true;
    world_open(world);
    make_pool(world);
    do_things(world, 40);
    world_close(world);
    world->options.limits.of[KERNEL_LIMIT_LEASES] = 9000;
    world->options.limits.of[KERNEL_LIMIT_HISTORY] = 5000;
    world_open(world);
    do_things(world, 40);
    uint64_t hash = ekit_hash(world->engine);
    world_close(world);
    world_open(world); /* replays the change in its place */
    assert_true(ekit_hash(world->engine) == hash);
    ekit_check(world->engine);
    assert_int_equal(engine_snapshot(world->engine, &error), TN_OK);
    world_close(world);
    world_open(world);
    assert_true(ekit_hash(world->engine) == hash);
}

/* A restored backup must never give out an id that the lost future has used. */
static void a_restored_backup_is_another_generation(void **state) {
    struct world *world = *state;
    world->options.no_snapshot_at_close = true;
    world_open(world);
    make_pool(world);
    ekit_run_ok(world->engine, ekit_alloc(&world->command, "p", "h", 1, NULL), &world->answer);
    struct kernel_lease_id before = world->answer.result.lease;
    world_close(world);
    world->local.restored = true;
    world_open(world);
    world->local.restored = false;
    for (unsigned i = 0; i < 2; i++) {
        ekit_run_ok(world->engine, ekit_alloc(&world->command, "p", "h", 1, NULL), &world->answer);
        assert_true(world->answer.result.lease.shard >> 32 == 1);
        assert_true(kernel_lease_id_compare(before, world->answer.result.lease) < 0);
        uint64_t hash = ekit_hash(world->engine);
        world_close(world);
        world_open(world);
        assert_true(ekit_hash(world->engine) == hash);
    }
    struct engine_lease lease;
    assert_int_equal(engine_lease_read(world->engine, ENGINE_READ_CURRENT, before, &lease),
                     TN_R_OK);
    ekit_check(world->engine);
}

#define WORLD_TEST(name) cmocka_unit_test_setup_teardown(name, world_make, world_free)

int main(void) {
    const struct CMUnitTest tests[] = {
        WORLD_TEST(replay_snapshot_and_both_give_the_same_state),
        WORLD_TEST(a_snapshot_under_load_and_what_follows_give_the_same_state),
        WORLD_TEST(a_killed_process_loses_nothing_it_answered),
        WORLD_TEST(two_processes_cannot_have_one_directory),
        WORLD_TEST(operations_are_remembered_across_a_crash),
        WORLD_TEST(a_clock_set_back_does_not_set_leases_back),
        WORLD_TEST(changed_limits_are_part_of_the_log),
        WORLD_TEST(a_restored_backup_is_another_generation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
