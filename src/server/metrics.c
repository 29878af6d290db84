/* Scrapes: gathering on the loop, collecting and rendering on a thread of libuv's, handing over on the
 * loop again.
 *
 *     request -> waiting --begin--> [view filled on the loop] -> job on a thread -> done: text shared
 *
 * One job at a time. Requests that come while it runs wait for the next. A job without a request is a
 * look at the pools: it keeps the growth of each up to date and removes refusals of pools that are
 * gone. */
#include "server/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/assert.h"
#include "engine/read.h"
#include "server/connection.h"
#include "server/http_listen.h"
#include "server/memory.h"
#include "server/owners.h"
#include "server/pool_history.h"
#include "server/refusal.h"
#include "server/server.h"
#include "server/server_role.h"
#include "server/server_tls.h"
#include "server/slots.h"
#include "server/stop.h"
#include "server/stream.h"

#define POOLS_A_HOLD 32u /* pools read under one hold of the engine's lock */

struct server_metrics {
    struct server_owners *owners;
    struct server_scrape *waiting;
    uint64_t looked_ms; /* the loop's time when a job last began */

    /* The job's. */
    uv_work_t work;
    bool running;
    bool render; /* for a request; otherwise only a sample of the pools */
    struct server_scrape *serving;
    struct metrics_view view;
    struct metrics_pools pools;
    struct server_refusals copy;
    struct kernel_pool_view page[POOLS_A_HOLD];
    struct metrics_text text;
    size_t short_len;
};

/* ---- The process ---- */

/* Reads a small file of /proc. Returns the length; 0: it cannot be read. */
static size_t proc_read(const struct os *os, const char *path, char *out, size_t capacity) {
    int file;
    size_t len = 0;
    if (os->open(os->ctx, path, OS_READ, &file) != TN_OK) {
        return 0;
    }
    if (os->read_at(os->ctx, file, out, capacity - 1, 0, &len) != TN_OK) {
        len = 0;
    }
    (void)os->close(os->ctx, file);
    out[len] = '\0';
    return len;
}

static void fd_count(void *ctx, const char *name) {
    (void)name;
    ++*(uint64_t *)ctx;
}

/* Reads fields 14, 15, 22, 23 and 24 of /proc/self/stat. The second field, the program's name, may
 * contain anything, so counting begins after its parenthesis. Fields that cannot be read stay 0. */
static void process_read(const struct os *os, struct metrics_process *process) {
    char stat[1024];
    struct rlimit limit;
    unsigned long long field[25] = {0};
    uint64_t hertz = (uint64_t)sysconf(_SC_CLK_TCK);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        process->fds_max = limit.rlim_cur;
    }
    (void)os->list(os->ctx, "/proc/self/fd", fd_count, &process->fds);
    if (proc_read(os, "/proc/self/stat", stat, sizeof stat) == 0) {
        return;
    }
    char *at = strrchr(stat, ')');
    for (unsigned i = 3; at != NULL && i < 25; i++) {
        at = strchr(at + 1, ' ');
        field[i] = at != NULL ? strtoull(at + 1, NULL, 10) : 0;
    }
    uint64_t age_ms = os->clock_boot_ms(os->ctx) - field[22] * 1000 / hertz;
    process->cpu_ms = (field[14] + field[15]) * 1000 / hertz;
    process->start_ms = os->clock_wall_ms(os->ctx) - age_ms;
    process->vsize_bytes = field[23];
    process->rss_bytes = field[24] * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* ---- On the thread ---- */

#define CURRENT_TRIES 50u
#define CURRENT_WAIT_MS 10u

/* Gives the ticker up to half a second to record what is due, and no time if the disk is full, so
 * that a stalled disk does not keep back the figures that show it. */
static void wait_current(struct engine *engine) {
    struct engine_stats stats;
    engine_stats_read(engine, &stats);
    for (unsigned i = 0; i < CURRENT_TRIES && stats.overdue_ms > 0 && !stats.log_full; i++) {
        uv_sleep(CURRENT_WAIT_MS);
        engine_stats_read(engine, &stats);
    }
}

static bool collect(struct server_metrics *metrics) {
    struct engine *engine = metrics->owners->engine;
    struct metrics_pools *pools = &metrics->pools;
    uint64_t cursor = 0;
    wait_current(engine);
    do {
        uint32_t count = 0;
        uint64_t lsn;
        if (engine_pools_list(engine, ENGINE_READ_STALE, &cursor, metrics->page, POOLS_A_HOLD,
                              &count, &lsn) != TN_R_OK) {
            return false;
        }
        for (uint32_t i = 0; i < count; i++) {
            if (!metrics_pools_add(pools, &metrics->page[i])) {
                return false;
            }
        }
    } while (cursor != 0);
    return metrics_pools_estimate(pools, engine_now(engine));
}

/* Removes the refusals of pools that no longer exist. */
static void prune(struct server_metrics *metrics) {
    uint32_t gone = 0;
    struct server_refusals *copy = &metrics->copy;
    for (uint32_t i = 0; copy->used > 0 && i < SERVER_REFUSALS; i++) {
        if (copy->of[i].count > 0 &&
            metrics_pools_find(&metrics->pools, copy->of[i].name_hash) == NULL) {
            copy->of[i].count = 0;
            gone++;
        }
    }
    if (gone > 0) {
        server_refusals_prune(metrics->owners->refusals, copy);
    }
}

static void job_run(uv_work_t *work) {
    struct server_metrics *metrics = work->data;
    struct metrics_view *view = &metrics->view;
    const struct os *os = metrics->owners->options->os;
    if (view->has_pools) {
        uint64_t begun_ns = os->clock_boot_ns(os->ctx);
        /* Before the pools, so that a pool created meanwhile is not taken for a dropped one. */
        server_refusals_copy(metrics->owners->refusals, &metrics->copy);
        view->has_pools = collect(metrics);
        view->collection_ns = os->clock_boot_ns(os->ctx) - begun_ns;
        view->pools_omitted = metrics->pools.omitted;
        if (view->has_pools && metrics->pools.omitted == 0) {
            prune(metrics);
        }
        if (view->has_pools) {
            server_history_sample(metrics->owners->history, &metrics->pools, &metrics->copy,
                                  engine_now(metrics->owners->engine));
        }
    }
    if (!metrics->render) {
        return;
    }
    engine_stats_read(metrics->owners->engine, &view->stats);
    view->has_usage = engine_usage(metrics->owners->engine, &view->usage, &view->limits) == TN_R_OK;
    if (metrics->owners->options->amqp != NULL) {
        broker_stats_read(metrics->owners->options->amqp, &view->amqp);
    }
    process_read(os, &view->process);
    view->has_disk_free =
        os->space_free(os->ctx, metrics->owners->options->data, &view->disk_free) == TN_OK;
    metrics_render(&metrics->text, view);
    metrics->short_len = metrics->text.len;
    if (view->has_pools) {
        metrics_pools_render(&metrics->text, &metrics->pools, &metrics->copy);
    }
}

/* ---- On the loop ---- */

static void job_begin(struct server_metrics *metrics);

static struct server_text *text_make(struct server_metrics *metrics) {
    struct server_text *text = metrics->text.failed ? NULL : malloc(sizeof *text);
    if (text != NULL) {
        *text = (struct server_text){.owners = metrics->owners,
                                     .references = 1,
                                     .len = metrics->text.len,
                                     .short_len = metrics->short_len,
                                     .at = metrics->text.at};
    } else {
        free(metrics->text.at);
    }
    if (text != NULL &&
        !server_memory_share(metrics->owners->memory, &text->memory, metrics->text.capacity)) {
        server_text_release(text);
        text = NULL;
    }
    metrics->text = (struct metrics_text){.at = NULL};
    return text;
}

void server_text_release(struct server_text *text) {
    TN_ASSERT(text->references > 0);
    if (--text->references == 0) {
        server_memory_return(text->owners->memory, &text->memory, text->memory);
        free(text->at);
        free(text);
    }
}

static void job_done(uv_work_t *work, int status) {
    struct server_metrics *metrics = work->data;
    (void)status;
    metrics->running = false;
    metrics_pools_clear(&metrics->pools);
    struct server_text *text = metrics->render ? text_make(metrics) : NULL;
    while (metrics->serving != NULL) {
        struct server_scrape *scrape = metrics->serving;
        metrics->serving = scrape->next;
        if (text != NULL) {
            text->references++;
        }
        scrape->done(scrape, text);
    }
    if (text != NULL) {
        server_text_release(text);
    }
    if (metrics->waiting != NULL) {
        job_begin(metrics);
    }
}

static void job_begin(struct server_metrics *metrics) {
    struct server_owners *owners = metrics->owners;
    metrics->running = true;
    metrics->serving = metrics->waiting;
    metrics->waiting = NULL;
    metrics->render = metrics->serving != NULL;
    metrics->view = (struct metrics_view){.version = owners->options->version,
                                          .counters = *owners->counters,
                                          .tls_expires_s = owners->tls->expires_s,
                                          .connections = owners->connections->count,
                                          .http_connections = server_http_connections(owners),
                                          .connections_max = owners->options->connections_max,
                                          .client_memory = owners->memory->used,
                                          .client_memory_max = owners->options->client_memory,
                                          .writes_in_flight = owners->slots->used,
                                          .subscriptions = owners->streams->subscriptions,
                                          .streams = server_http_streams(owners),
                                          .takeovers = owners->role->promotions,
                                          .owns = !owners->role->follows,
                                          .has_pools = !metrics->render};
    supervisor_totals(owners->supervisor, &metrics->view.sensors);
    for (const struct server_scrape *s = metrics->serving; s != NULL; s = s->next) {
        metrics->view.has_pools = metrics->view.has_pools || s->pools;
    }
    if (metrics->view.has_pools) {
        metrics->looked_ms = uv_now(owners->loop);
    }
    metrics->work.data = metrics;
    (void)uv_queue_work(owners->loop, &metrics->work, job_run, job_done);
}

void server_metrics_request(struct server_owners *owners, struct server_scrape *scrape) {
    struct server_metrics *metrics = owners->metrics;
    scrape->next = metrics->waiting;
    metrics->waiting = scrape;
    if (!metrics->running) {
        job_begin(metrics);
    }
}

static void scrape_remove(struct server_scrape **list, const struct server_scrape *scrape) {
    while (*list != NULL && *list != scrape) {
        list = &(*list)->next;
    }
    if (*list != NULL) {
        *list = scrape->next;
    }
}

void server_metrics_cancel(struct server_owners *owners, struct server_scrape *scrape) {
    scrape_remove(&owners->metrics->waiting, scrape);
    scrape_remove(&owners->metrics->serving, scrape);
}

void server_metrics_second(struct server_owners *owners) {
    struct server_metrics *metrics = owners->metrics;
    if (!metrics->running && !owners->stop->draining &&
        uv_now(owners->loop) - metrics->looked_ms >= SERVER_METRICS_SAMPLE_SECONDS * 1000) {
        job_begin(metrics);
    }
}

/* ---- Making and freeing ---- */

struct server_metrics *server_metrics_make(struct server_owners *owners) {
    struct server_metrics *metrics = calloc(1, sizeof *metrics);
    if (metrics == NULL || !server_refusals_init(&metrics->copy)) {
        free(metrics);
        return NULL;
    }
    metrics->owners = owners;
    return metrics;
}

void server_metrics_free(struct server_metrics *metrics) {
    if (metrics == NULL) {
        return;
    }
    TN_ASSERT(!metrics->running);
    metrics_pools_clear(&metrics->pools);
    free(metrics->pools.growths.of);
    server_refusals_free(&metrics->copy);
    free(metrics);
}
