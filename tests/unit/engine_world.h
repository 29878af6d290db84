/* One engine over a fake log, callers on threads of their own, asynchronous requests: the base of
 * the engine's tests. */
#ifndef TESTS_UNIT_ENGINE_WORLD_H
#define TESTS_UNIT_ENGINE_WORLD_H

#include "unit/unit.h"

#include <pthread.h>

#include "lib/enginekit.h"
#include "lib/fakelog.h"
#include "lib/fakeos.h"

/* On a machine whose clocks stand still. */
struct world {
    struct fakelog *log;
    struct fakeos *machine;
    struct engine_options options;
    struct engine *engine;
    struct ekit_command command;
    struct ekit_answer answer;
};

static inline int world_make(void **state) {
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    world->log = fakelog_new();
    world->machine = fakeos_new(1);
    world->options = (struct engine_options){.os = fakeos_table(world->machine),
                                             .log = fakelog_base(world->log),
                                             .store = fakelog_store(world->log),
                                             .manual_ticks = true};
    ekit_limits_small(&world->options);
    *state = world;
    return 0;
}

static inline void world_close(struct world *world) {
    if (world->engine != NULL) {
        (void)engine_close(world->engine);
        world->engine = NULL;
    }
}

static inline int world_free(void **state) {
    struct world *world = *state;
    fakelog_gate_open(world->log);
    world_close(world);
    fakelog_free(world->log);
    fakeos_free(world->machine);
    free(world);
    return 0;
}

/* Opens with a pool of 1000 values, whose leases last a minute. */
static inline void world_open(struct world *world) {
    world->engine = ekit_open(&world->options);
    ekit_run_ok(world->engine, ekit_pool(&world->command, "p", 1, 1000, 60), &world->answer);
}

static inline void world_reopen(struct world *world) {
    world_close(world);
    world->engine = ekit_open(&world->options);
}

static inline enum tn_result world_alloc(struct world *world, const char *holder) {
    return ekit_run(world->engine, ekit_alloc(&world->command, "p", holder, 1, NULL),
                    &world->answer);
}

static inline uint64_t world_lsn(struct world *world) {
    struct engine_stats stats;
    engine_stats_read(world->engine, &stats);
    return stats.lsn;
}

/* ---- A caller of its own thread ---- */

struct caller {
    pthread_t thread;
    struct engine *engine;
    char holder[32];
    struct ekit_answer answer;
};

static inline void *caller_main(void *arg) {
    struct caller *caller = arg;
    struct ekit_command command;
    (void)ekit_run(caller->engine, ekit_alloc(&command, "p", caller->holder, 1, NULL),
                   &caller->answer);
    return NULL;
}

static inline void callers_start(struct caller *callers, unsigned count, struct engine *engine) {
    for (unsigned i = 0; i < count; i++) {
        callers[i].engine = engine;
        (void)snprintf(callers[i].holder, sizeof callers[i].holder, "caller/%u", i);
        assert_int_equal(pthread_create(&callers[i].thread, NULL, caller_main, &callers[i]), 0);
    }
}

static inline void callers_join(struct caller *callers, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(pthread_join(callers[i].thread, NULL), 0);
    }
}

struct queue_wait {
    struct engine *engine;
    uint64_t commands;
};

static inline bool queue_has(void *ctx) {
    struct queue_wait *wait = ctx;
    struct engine_stats stats;
    engine_stats_read(wait->engine, &stats);
    return stats.queue_commands >= wait->commands;
}

static inline void wait_for_queue(struct world *world, uint64_t commands) {
    struct queue_wait wait = {.engine = world->engine, .commands = commands};
    ekit_wait(queue_has, &wait);
}

/* ---- Asynchronous requests ---- */

struct async {
    struct engine_request request;
    pthread_mutex_t *lock;
    pthread_cond_t *changed;
    unsigned *done_count;
    enum tn_result code;
    uint64_t lsn;
    uint64_t order; /* the how-many-th to be done */
};

struct asyncs {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned done_count;
    struct async of[512];
};

static inline void async_done(struct engine_request *request, struct tn_bytes command) {
    struct async *async = request->ctx;
    (void)command;
    pthread_mutex_lock(async->lock);
    async->code = request->result.code;
    async->lsn = request->result.lsn;
    async->order = ++*async->done_count;
    pthread_cond_broadcast(async->changed);
    pthread_mutex_unlock(async->lock);
}

static inline struct asyncs *asyncs_new(void) {
    struct asyncs *asyncs = calloc(1, sizeof *asyncs);
    assert_non_null(asyncs);
    pthread_mutex_init(&asyncs->lock, NULL);
    pthread_cond_init(&asyncs->changed, NULL);
    for (unsigned i = 0; i < 512; i++) {
        struct async *async = &asyncs->of[i];
        async->lock = &asyncs->lock;
        async->changed = &asyncs->changed;
        async->done_count = &asyncs->done_count;
        async->request = (struct engine_request){.done = async_done, .ctx = async};
    }
    return asyncs;
}

static inline enum tn_result async_alloc(struct world *world, struct asyncs *asyncs, unsigned i) {
    char holder[32];
    (void)snprintf(holder, sizeof holder, "async/%u", i);
    ekit_alloc(&world->command, "p", holder, 1, NULL);
    return engine_submit(world->engine, &asyncs->of[i].request, &world->command.decoded);
}

static inline void asyncs_wait(struct asyncs *asyncs, unsigned count) {
    pthread_mutex_lock(&asyncs->lock);
    while (asyncs->done_count < count) {
        pthread_cond_wait(&asyncs->changed, &asyncs->lock);
    }
    pthread_mutex_unlock(&asyncs->lock);
}

static inline void asyncs_free(struct asyncs *asyncs) {
    pthread_cond_destroy(&asyncs->changed);
    pthread_mutex_destroy(&asyncs->lock);
    free(asyncs);
}

#define WORLD_TEST(name) cmocka_unit_test_setup_teardown(name, world_make, world_free)

#endif
