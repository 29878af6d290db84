/* A supervisor on a fake log and a fake machine, for tests that start no process. */
#ifndef TESTS_UNIT_SUPERVISOR_DESK_H
#define TESTS_UNIT_SUPERVISOR_DESK_H

#include "unit/unit.h"

#include "lib/enginekit.h"
#include "lib/fakelog.h"
#include "lib/fakeos.h"
#include "supervisor/supervisor_parts.h"

struct desk {
    struct fakelog *log;
    struct fakeos *machine;
    struct engine_options options;
    struct engine *engine;
    struct supervisor_feed feed;
    struct token_issuer tokens;
    struct sensor_defaults defaults;
    uv_loop_t loop;
    struct supervisor *supervisor;
    struct log_node other; /* another node of the cluster, if the test uses one */
    bool closed;
};

static void no_line(const char *line) {
    (void)line;
}

static struct tn_bytes bytes_of(const char *text) {
    return tn_bytes_of(text, strlen(text));
}

/* Commits one command, which must succeed. */
static void run(struct desk *d, struct kernel_command command) {
    static struct ekit_command encoded;
    static struct ekit_answer answer;
    command.rights = KERNEL_RIGHT_OPERATOR | KERNEL_RIGHT_SUPERVISOR;
    command.user = bytes_of(SUPERVISOR_USER);
    ekit_command_copy(&encoded, &command);
    assert_int_equal(ekit_run(d->engine, &encoded, &answer), TN_R_OK);
}

/* An engine with room for `sensors` sensors, and its feed. */
static struct desk *desk_new(unsigned sensors) {
    struct desk *d = calloc(1, sizeof *d);
    assert_non_null(d);
    d->log = fakelog_new();
    d->machine = fakeos_new(1);
    d->defaults = sensor_defaults_make();
    ekit_limits_small(&d->options);
    d->options.limits.of[KERNEL_LIMIT_SENSORS] = sensors;
    d->options.log = fakelog_base(d->log);
    d->options.store = fakelog_store(d->log);
    d->options.manual_ticks = true;
    supervisor_feed_init(&d->feed);
    d->engine = ekit_open(&d->options);
    supervisor_feed_attach(&d->feed, d->engine);
    assert_int_equal(uv_loop_init(&d->loop), 0);
    return d;
}

/* Opens the supervisor. It first searches for orphans; there are none. */
static void desk_open(struct desk *d, struct supervisor_cluster cluster) {
    struct supervisor_options options = {.loop = &d->loop,
                                         .engine = d->engine,
                                         .feed = &d->feed,
                                         .tokens = &d->tokens,
                                         .os = fakeos_table(d->machine),
                                         .dir = "/sensors",
                                         .guardian = "/bin/true",
                                         .defaults = d->defaults,
                                         .cluster = cluster,
                                         .seed = 1,
                                         .log = no_line};
    d->supervisor = supervisor_open(&options);
    assert_non_null(d->supervisor);
    assert_false(d->supervisor->off);
    while (d->supervisor->orphans != NULL) {
        (void)uv_run(&d->loop, UV_RUN_ONCE);
    }
}

static void on_closed(void *ctx) {
    ((struct desk *)ctx)->closed = true;
}

static int desk_drop(void **state) {
    struct desk *d = *state;
    supervisor_close(d->supervisor, on_closed, d);
    while (!d->closed) {
        (void)uv_run(&d->loop, UV_RUN_ONCE);
    }
    supervisor_free(d->supervisor);
    assert_int_equal(uv_loop_close(&d->loop), 0);
    (void)engine_close(d->engine);
    supervisor_feed_free(&d->feed);
    fakelog_free(d->log);
    fakeos_free(d->machine);
    free(d);
    return 0;
}

#endif
