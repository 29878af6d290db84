/* The server as a whole: connects its owners, starts it, runs it, and frees it. */
#include "server/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "engine/engine.h"
#include "server/access.h"
#include "server/answer.h"
#include "server/backup_job.h"
#include "server/buffers.h"
#include "server/confirm.h"
#include "server/connection.h"
#include "server/count.h"
#include "server/daemon.h"
#include "server/http_listen.h"
#include "server/jobs.h"
#include "server/listen.h"
#include "server/listen_address.h"
#include "server/log_line.h"
#include "server/login.h"
#include "server/memory.h"
#include "server/metrics.h"
#include "server/once.h"
#include "server/output.h"
#include "server/owners.h"
#include "server/parked.h"
#include "server/pool_history.h"
#include "server/reads.h"
#include "server/refusal.h"
#include "server/schedule.h"
#include "server/server_role.h"
#include "server/server_tls.h"
#include "server/slots.h"
#include "server/stop.h"
#include "server/stream.h"
#include "server/tick.h"
#include "server/tls_watch.h"
#include "server/udp_allow.h"
#include "server/udp_listen.h"
#include "server/users.h"
#include "server/write.h"

struct server {
    struct server_options options;
    uv_loop_t loop;
    uv_prepare_t before_wait;
    uv_signal_t sigterm, sigint;
    uv_timer_t every_second;
    uint16_t http_port, udp_port;
    bool log_full; /* the last check found the disk full */

    /* Pointers to the following, to the engine, and to the owners that are made only if they are on. */
    struct server_owners owners;
    struct server_once once;
    struct access access;      /* users */
    struct server_users users; /* users added at run time */
    struct server_logins logins;
    struct server_role role; /* in a cluster */
    struct server_tls tls;   /* without a context: TLS is off */

    /* The way of a request through the server, in and out. */
    struct server_listeners listeners;
    struct server_connections connections;
    struct server_buffers buffers;
    struct schedule schedule;
    struct ticks ticks;
    struct server_confirms confirms;
    struct server_pages pages;
    struct server_slots slots;
    struct server_writes writes;
    struct server_jobs jobs;
    struct server_backup backup;
    struct server_answers answers;
    struct server_parked parked;
    struct server_output output;
    struct server_memory memory;
    struct server_streams streams;

    struct server_counters counters;
    struct server_refusals refusals;
    struct server_history history;

    struct server_daemon daemon;
    struct server_stopping stop;
};

/* ---- What the loop calls ---- */

static void on_before_wait(uv_prepare_t *prepare) {
    struct server *server = prepare->data;
    server_users_review(&server->owners);
    server_writes_commit(&server->writes);
    schedule_turn_end(&server->schedule);
    server->listeners.accepts = 0;
}

/* Called between the turns of the loop. */
static bool on_turn(void *ctx) {
    struct server *server = ctx;
    struct server_owners *owners = &server->owners;
    server_connections_look(owners);
    server_listen_resume(owners);
    bool parting = server_connections_part_step(owners);
    bool judging = server_connections_judge_step(owners);
    bool refusing = server_parked_step(&server->parked);
    return parting || judging || refusing || server->connections.looking != NULL;
}

/* Clients were run again, or a log-in was judged. This may have been the last thing to wait for
 * before the server ends. */
static void on_ended(void *ctx) {
    struct server *server = ctx;
    server_stop_check(&server->owners);
}

static void on_signal(uv_signal_t *signal, int number) {
    struct server *server = signal->data;
    (void)number;
    server_stop(&server->owners, 0);
}

/* Notes whether the disk has room for the log, as of the last write. */
static void space_look(struct server *server, bool full) {
    if (full != server->log_full) {
        server->log_full = full;
        server_log(full ? "disk_full" : "disk_has_space", "reason=\"%s\"",
                   full ? "writes are refused with NOSPACE until there is space"
                        : "a write succeeded");
    }
}

static void on_second(uv_timer_t *timer) {
    struct server *server = timer->data;
    struct server_owners *owners = &server->owners;
    struct engine_stats stats;
    server_connections_check(owners);
    server_logins_second(&server->logins);
    server_users_look(owners);
    server_metrics_second(owners);
    server_http_check(owners);
    server_role_look(owners);
    server_parked_check(&server->parked);
    server_tls_second(owners);
    server_once_look(owners);
    server_backup_check(&server->backup, uv_now(&server->loop));
    engine_stats_read(owners->engine, &stats);
    space_look(server, stats.log_full);
    if (stats.stopped != TN_R_OK) {
        supervisor_halt(owners->supervisor);
        server_stop(owners, 1);
    }
}

/* ---- Starting ---- */

static uint32_t clients_count(const void *ctx) {
    const struct server *server = ctx;
    return server_clients(&server->owners);
}

static void owners_connect(struct server *server) {
    server->owners = (struct server_owners){
        .options = &server->options,
        .loop = &server->loop,
        .engine = server->owners.engine,
        .once = &server->once,
        .access = &server->access,
        .users = &server->users,
        .logins = &server->logins,
        .role = &server->role,
        .tls = &server->tls,
        .listeners = &server->listeners,
        .connections = &server->connections,
        .buffers = &server->buffers,
        .schedule = &server->schedule,
        .ticks = &server->ticks,
        .confirms = &server->confirms,
        .pages = &server->pages,
        .slots = &server->slots,
        .writes = &server->writes,
        .jobs = &server->jobs,
        .backup = &server->backup,
        .answers = &server->answers,
        .parked = &server->parked,
        .output = &server->output,
        .memory = &server->memory,
        .streams = &server->streams,
        .counters = &server->counters,
        .refusals = &server->refusals,
        .history = &server->history,
        .daemon = &server->daemon,
        .stop = &server->stop,
    };
}

/* Reserves all memory once. Pages that are never touched cost nothing. */
static bool memory_make(struct server *server) {
    struct server_owners *owners = &server->owners;
    owners_connect(server);
    server->memory = (struct server_memory){
        .options = &server->options, .clients = clients_count, .ctx = server};
    server->logins.loop = &server->loop;
    server->logins.access = &server->access;
    server->logins.counters = &server->counters;
    server->logins.ended = on_ended;
    server->logins.ctx = server;
    server->connections.of =
        calloc(server->options.connections_max, sizeof *server->connections.of);
    owners->metrics = server_metrics_make(owners);
    server_writes_init(&server->writes, owners->engine, &server->slots, &server->parked,
                       &server->refusals);
    return server->connections.of != NULL && owners->metrics != NULL &&
           server_buffers_init(&server->buffers) &&
           server_output_init(&server->output, &server->loop, &server->counters) &&
           server_slots_init(&server->slots, &server->counters) &&
           server_parked_init(&server->parked, owners, owners->engine) &&
           server_history_init(&server->history) && server_refusals_init(&server->refusals) &&
           server_login_init(&server->logins) &&
           access_configure(&server->access, server->options.users, server->options.user_count);
}

static void memory_free(struct server *server) {
    struct server_owners *owners = &server->owners;
    engine_waited_set(owners->engine, NULL, NULL);
    server_backup_free(&server->backup);
    server_streams_free(&server->streams);
    free(server->connections.of);
    server_buffers_free(&server->buffers);
    server_output_free(&server->output);
    server_slots_free(&server->slots);
    server_parked_free(&server->parked);
    server_metrics_free(owners->metrics);
    server_history_free(&server->history);
    server_refusals_free(&server->refusals);
    access_free(&server->access);
    server_http_free(owners);
    server_udp_free(owners);
    server_tls_free(&server->tls);
}

static bool loop_make(struct server *server) {
    struct server_owners *owners = &server->owners;
    uv_loop_t *loop = &server->loop;
    if (uv_loop_init(loop) != 0) {
        return false;
    }
    server_answers_init(&server->answers, loop, owners);
    engine_waited_set(owners->engine, server_parked_answer, &server->parked);
    schedule_init(&server->schedule, loop, owners->engine,
                  &(struct schedule_hooks){.ctx = server, .turn = on_turn, .tried = on_ended});
    ticks_init(&server->ticks, owners, owners->engine);
    server_confirms_init(&server->confirms, owners);
    (void)uv_prepare_init(loop, &server->before_wait);
    (void)uv_signal_init(loop, &server->sigterm);
    (void)uv_signal_init(loop, &server->sigint);
    (void)uv_timer_init(loop, &server->every_second);
    (void)uv_timer_init(loop, &server->stop.timer);
    server->sigterm.data = server->sigint.data = server->every_second.data = server;
    server->before_wait.data = server;
    (void)uv_signal_start(&server->sigterm, on_signal, SIGTERM);
    (void)uv_signal_start(&server->sigint, on_signal, SIGINT);
    (void)uv_prepare_start(&server->before_wait, on_before_wait);
    (void)uv_timer_start(&server->every_second, on_second, 1000, 1000);
    server_daemon_start(owners, &server->options);
    return true;
}

static bool streams_make(struct server *server) {
    return server_streams_init(&server->streams, &server->owners, &server->loop,
                               server->owners.engine, server->options.feed, &server->access,
                               server->options.os);
}

/* Writes under a temporary name first, so that a reader never sees an incomplete file. */
static enum tn_status port_file_write(const struct server *server) {
    const struct server_owners *owners = &server->owners;
    const struct os *os = server->options.os;
    const char *path = server->options.port_file;
    char text[40];
    char temporary[4096];
    int file;
    const uint16_t ports[] = {server_listen_port(owners, SERVER_LISTEN_TCP), server->http_port,
                              server->udp_port, server_listen_port(owners, SERVER_LISTEN_TLS),
                              server_listen_port(owners, SERVER_LISTEN_HTTPS)};
    unsigned count = server->tls.context != NULL ? 5 : 3;
    int len = 0;
    while (count > 1 && ports[count - 1] == 0) {
        count--;
    }
    for (unsigned i = 0; i < count; i++) {
        len += snprintf(text + len, sizeof text - (size_t)len, "%u\n", ports[i]);
    }
    if (snprintf(temporary, sizeof temporary, "%s.tmp", path) >= (int)sizeof temporary) {
        return TN_INVALID;
    }
    enum tn_status status = os->open(os->ctx, temporary, OS_WRITE | OS_CREATE | OS_TRUNCATE, &file);
    if (status != TN_OK) {
        return status;
    }
    status = os->write_at(os->ctx, file, text, (size_t)len, 0);
    (void)os->close(os->ctx, file);
    return status == TN_OK ? os->rename(os->ctx, temporary, path) : status;
}

enum listener { LISTENER_RESP, LISTENER_TLS, LISTENER_HTTP, LISTENER_HTTPS, LISTENER_UDP };

static const enum server_listen listening[] = {[LISTENER_RESP] = SERVER_LISTEN_TCP,
                                               [LISTENER_TLS] = SERVER_LISTEN_TLS,
                                               [LISTENER_HTTPS] = SERVER_LISTEN_HTTPS};

/* Opens the listener for one address. */
static bool start_listening(struct server *server, const char *flag, const char *address,
                            enum listener listener) {
    struct server_owners *owners = &server->owners;
    char host[64];
    uint16_t port;
    char reason[256];
    int code = 0;
    bool secret = listener == LISTENER_TLS || listener == LISTENER_HTTPS;
    bool anywhere = listener == LISTENER_UDP
                        ? server_udp_allow_any(server->options.udp_allow)
                        : server->access.of_file && (secret || server->options.allow_plaintext);
    if (!server_address_check(address, anywhere, reason, sizeof reason) ||
        !server_address_split(address, host, &port)) {
        server_log("refused", "reason=\"%s: %s\"", flag, reason);
        return false;
    }
    if (listener == LISTENER_UDP) {
        if (!server_udp_start(owners, host, port, &server->udp_port, reason, sizeof reason)) {
            server_log("refused", "reason=\"%s %s: %s\"", flag, address, reason);
            return false;
        }
        return true;
    }
    code = listener == LISTENER_HTTP ? server_http_listen(owners, host, port, &server->http_port)
                                     : server_listen_tcp(owners, listening[listener], host, port);
    if (code != 0) {
        server_log("refused", "reason=\"%s %s: %s\"", flag, address, uv_strerror(code));
    }
    return code == 0;
}

static bool is_on(const char *address) {
    return address != NULL && address[0] != '\0' && strcmp(address, "off") != 0;
}

/* Makes the URL of the HTTP listener for sensors, which run on this machine. */
static void url_make(struct server *server) {
    const char *http = server->options.http;
    char host[64];
    uint16_t port;
    if (!is_on(http) || !server_address_split(http, host, &port)) {
        return;
    }
    bool six = strchr(host, ':') != NULL;
    if (strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0) {
        /* The listener has all addresses: use loopback. */
        (void)snprintf(host, sizeof host, "%s", six ? "::1" : "127.0.0.1");
    }
    (void)snprintf(server->once.url, sizeof server->once.url, "http://%s%s%s:%u", six ? "[" : "",
                   host, six ? "]" : "", server->http_port);
}

/* Opens the listeners of HTTP that are configured. */
static bool start_http(struct server *server) {
    const struct server_options *options = &server->options;
    if (!is_on(options->http) && !is_on(options->https) && options->http_unix == NULL) {
        return true;
    }
    int code = server_http_start(&server->owners);
    if (code != 0) {
        server_log("refused", "reason=\"HTTP: %s\"", uv_strerror(code));
        return false;
    }
    return (!is_on(options->http) ||
            start_listening(server, "--http", options->http, LISTENER_HTTP)) &&
           (!is_on(options->https) ||
            start_listening(server, "--https", options->https, LISTENER_HTTPS)) &&
           (options->http_unix == NULL || server_http_listen_unix(&server->owners));
}

/* True: the server listens and has said so. */
static bool start(struct server *server) {
    struct server_owners *owners = &server->owners;
    const struct server_options *options = &server->options;
    server_users_look(owners);
    if (((is_on(options->tls) || is_on(options->https)) && !server_tls_start(owners)) ||
        !start_listening(server, "--listen", options->listen, LISTENER_RESP) ||
        (options->unix_path != NULL && !server_listen_unix(owners)) ||
        (is_on(options->tls) &&
         !start_listening(server, "--tls-listen", options->tls, LISTENER_TLS)) ||
        !start_http(server) ||
        (is_on(options->udp) &&
         !start_listening(server, "--udp-listen", options->udp, LISTENER_UDP))) {
        return false;
    }
    if (options->port_file != NULL) {
        enum tn_status status = port_file_write(server);
        if (status != TN_OK) {
            server_log("refused", "reason=\"--port-file %s: %s\"", options->port_file,
                       tn_status_text(status));
            return false;
        }
    }
    url_make(server);
    if (!server_once_start(owners, &server->options)) {
        return false;
    }
    /* Takes the first sample of the pools now: libuv creates its threads for it, and they inherit
     * the signal mask that is still in place. */
    server_metrics_second(owners);
    server_log("ready",
               "port=%u http_port=%u udp_port=%u tls_port=%u https_port=%u unix=%s http_unix=%s "
               "data=%s",
               server_listen_port(owners, SERVER_LISTEN_TCP), server->http_port, server->udp_port,
               server_listen_port(owners, SERVER_LISTEN_TLS),
               server_listen_port(owners, SERVER_LISTEN_HTTPS), server_unix_path(owners),
               options->http_unix != NULL ? options->http_unix : "off", options->data);
    if (options->hooks.ready != NULL) {
        options->hooks.ready(options->hooks.ctx);
    }
    return true;
}

static int run(struct server *server) {
    struct server_owners *owners = &server->owners;
    if (!memory_make(server) || !loop_make(server) || !streams_make(server)) {
        server_log("refused", "reason=\"no memory or no descriptors for the server\"");
        return 2;
    }
    server_role_start(owners);
    if (!start(server)) {
        server->stop.exit_code = 2;
        server_listen_stop(owners);
        server_http_stop(owners);
        server_role_stop(owners);
        server_streams_stop(&server->streams);
        server_stop_now(owners);
    }
    (void)uv_run(&server->loop, UV_RUN_DEFAULT);
    int code = uv_loop_close(&server->loop);
    TN_ASSERT(code == 0);
    server_once_free(owners);
    server_log("stopped", "exit=%d", server->stop.exit_code);
    return server->stop.exit_code;
}

int server_run(const struct server_options *options) {
    struct server *server = calloc(1, sizeof *server);
    if (server == NULL) {
        server_log("refused", "reason=\"no memory\"");
        return 2;
    }
    server->options = *options;
    if (options->stale_max_ms == 0) {
        server->options.stale_max_ms = SERVER_STALE_MAX_MS;
    }
    server->owners.engine = options->engine;
    access_init(&server->access, geteuid());
    int code = run(server);
    memory_free(server);
    free(server);
    return code;
}
