/* Starting, listening, stopping.
 *
 *     serving --SIGTERM, SIGINT, engine halted--> draining --all answered and sent--> closed
 *
 * While draining nothing new is accepted or read; what was asked is answered. Connections that do not
 * take their answers, or cannot be given them, within SERVER_DRAIN_MS are closed. Meanwhile sensors are
 * stopped, which may take longer: the supervisor bounds it. */
#include "server/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "server/internal.h"

/* ---- Addresses ---- */

bool server_address_split(const char *text, char host[64], uint16_t *ret_port) {
    const char *colon = strrchr(text, ':');
    uint64_t port;
    if (colon == NULL ||
        !kernel_value_parse(KERNEL_DEC, tn_bytes_of(colon + 1, strlen(colon + 1)), &port) ||
        port > UINT16_MAX) {
        return false;
    }
    size_t len = (size_t)(colon - text);
    if (len > 2 && text[0] == '[' && text[len - 1] == ']') {
        text++;
        len -= 2;
    }
    if (len == 0 || len >= 64) {
        return false;
    }
    memcpy(host, text, len);
    host[len] = '\0';
    if (strcmp(host, "localhost") == 0) {
        (void)snprintf(host, 64, "127.0.0.1");
    }
    *ret_port = (uint16_t)port;
    return true;
}

int server_address_make(const char *host, uint16_t port, struct sockaddr_storage *ret_address) {
    int code = uv_ip4_addr(host, port, (struct sockaddr_in *)ret_address);
    return code == 0 ? 0 : uv_ip6_addr(host, port, (struct sockaddr_in6 *)ret_address);
}

uint16_t server_address_port(const struct sockaddr_storage *address) {
    return ntohs(address->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)address)->sin6_port
                                                : ((const struct sockaddr_in *)address)->sin_port);
}

bool server_address_is_loopback(const char *host) {
    struct sockaddr_in four;
    struct sockaddr_in6 six;
    if (uv_ip4_addr(host, 0, &four) == 0) {
        return ntohl(four.sin_addr.s_addr) >> 24 == 127;
    }
    return uv_ip6_addr(host, 0, &six) == 0 && IN6_IS_ADDR_LOOPBACK(&six.sin6_addr);
}

uint32_t server_clients(const struct server *server) {
    return server->connection_count + server_http_connections(server);
}

bool server_address_check(const char *text, bool anywhere, char *reason, size_t room) {
    char host[64];
    uint16_t port;
    if (!server_address_split(text, host, &port)) {
        (void)snprintf(reason, room, "'%s' is not HOST:PORT", text);
        return false;
    }
    if (!anywhere && !server_address_is_loopback(host)) {
        (void)snprintf(reason, room,
                       "%s: only loopback addresses may be listened on here: 127.0.0.1 or [::1]",
                       text);
        return false;
    }
    return true;
}

/* ---- Stopping ---- */

static void handle_close(uv_handle_t *handle, void *ctx) {
    (void)ctx;
    if (!uv_is_closing(handle)) {
        uv_close(handle, NULL);
    }
}

void server_stop_check(struct server *server) {
    if (server->draining && server->connection_count == 0 && server->slots.used == 0 &&
        server->logins.count == 0 && server_http_stopped(server) && server->supervisor_closed) {
        server_answers_stop(&server->answers);
        server_streams_stop(server);
        uv_walk(&server->loop, handle_close, NULL);
    }
}

static void supervisor_closed(void *ctx) {
    struct server *server = ctx;
    server->supervisor_closed = true;
    server_stop_check(server);
}

static void drain_over(uv_timer_t *timer) {
    struct server *server = timer->data;
    if (server_clients(server) > 0) {
        server_log("drain_over", "connections=%u", server_clients(server));
    }
    for (struct server_connection *c = LIST_FIRST(&server->live); c != NULL;
         c = LIST_NEXT(c, place)) {
        server_connection_close(c);
    }
    server_http_stop(server);
    server_stop_check(server);
}

/* From the loop itself: whoever asked to stop may be in the middle of serving a connection. */
static void drain_begin(uv_timer_t *timer) {
    struct server *server = timer->data;
    for (struct server_connection *c = LIST_FIRST(&server->live); c != NULL;
         c = LIST_NEXT(c, place)) {
        c->ended = true; /* what was read is answered, also if it waits for its turn */
        server_connection_run(c);
    }
    server_http_drain(server);
    server_udp_drain(server);
    (void)uv_timer_start(&server->drain, drain_over, SERVER_DRAIN_MS, 0);
    if (server->supervisor != NULL) {
        supervisor_close(server->supervisor, supervisor_closed, server);
    } else {
        server->supervisor_closed = true;
    }
    server_stop_check(server);
}

void server_stop(struct server *server, int exit_code) {
    server->exit_code = exit_code > server->exit_code ? exit_code : server->exit_code;
    if (server->draining) {
        return;
    }
    server->draining = server->schedule.hurry = true;
    server_log("stopping", "connections=%u writes_in_flight=%u reason=%s", server_clients(server),
               server->slots.used, exit_code == 0 ? "signal" : "engine_halted");
    if (server->options.hooks.stopping != NULL) {
        server->options.hooks.stopping(server->options.hooks.ctx);
    }
    server_listen_stop(server);
    server->drain.data = server;
    (void)uv_timer_start(&server->drain, drain_begin, 0, 0);
}

/* ---- What the loop calls ---- */

static void on_before_wait(uv_prepare_t *prepare) {
    struct server *server = prepare->data;
    server_writes_commit(&server->writes, server->engine);
    schedule_turn_end(&server->schedule);
    server->accepts = 0;
}

/* Between the turns of the loop. */
static bool on_turn(void *ctx) {
    struct server *server = ctx;
    server_connections_look(server);
    server_listen_resume(server);
    return server->looking != NULL;
}

/* The last slot may have been that of a tick. */
static void on_tried(void *ctx) {
    server_stop_check(ctx);
}

static void on_signal(uv_signal_t *signal, int number) {
    (void)number;
    server_stop(signal->data, 0);
}

static void on_second(uv_timer_t *timer) {
    struct server *server = timer->data;
    struct engine_stats stats;
    server_connections_check(server);
    server_logins_second(server);
    server_metrics_second(server);
    server_http_check(server);
    engine_stats_read(server->engine, &stats);
    if (stats.stopped != TN_R_OK) {
        supervisor_halt(server->supervisor);
        server_stop(server, 1);
    }
}

/* ---- Starting ---- */

static size_t page_bytes(void) {
    size_t leases = PROTOCOL_PAGE_MAX * sizeof(struct engine_lease);
    size_t pools = PROTOCOL_PAGE_MAX * sizeof(struct kernel_pool_view);
    size_t values = KERNEL_BUNDLE_MAX * sizeof(struct engine_value);
    size_t most = leases > pools ? leases : pools;
    _Static_assert(sizeof(struct kernel_rule_view) <= sizeof(struct engine_lease), "a page fits");
    _Static_assert(sizeof(struct kernel_sensor_view) <= sizeof(struct engine_lease), "a page fits");
    return most > values ? most : values;
}

/* All of it once; pages that are never touched cost nothing. */
static bool memory_make(struct server *server) {
    server->connections = calloc(server->options.connections_max, sizeof *server->connections);
    for (uint32_t i = 0; i < PROTOCOL_COMMANDS; i++) {
        server->arity[i] = protocol_command_arity(&protocol_table[i]);
    }
    server->read_buffer = malloc(SERVER_READ_BYTES);
    server->line = malloc(PROTOCOL_LINE_MAX);
    server->argv = malloc(SERVER_ARGS_MAX * sizeof *server->argv);
    server->scratch = malloc(2 * PROTOCOL_REQUEST_MAX);
    server->page = malloc(page_bytes());
    server->out = malloc(SERVER_OUT_BYTES);
    server->metrics = server_metrics_make(server);
    return server->connections != NULL && server_slots_init(&server->slots, &server->counters) &&
           server_writes_init(&server->writes) && server->read_buffer != NULL &&
           server->line != NULL && server->argv != NULL && server->scratch != NULL &&
           server->page != NULL && server->out != NULL && server->metrics != NULL &&
           server_refusals_init(&server->refusals) && server_login_init(server) &&
           access_configure(&server->access, server->options.users, server->options.user_count);
}

static void memory_free(struct server *server) {
    server_streams_free(server);
    free(server->connections);
    server_slots_free(&server->slots);
    free(server->read_buffer);
    free(server->line);
    free(server->argv);
    free(server->scratch);
    server_writes_free(&server->writes);
    for (unsigned i = 0; i < 2; i++) {
        free((void *)(uintptr_t)server->docs[i].at);
    }
    free(server->page);
    free(server->out);
    server_metrics_free(server->metrics);
    server_refusals_free(&server->refusals);
    access_free(&server->access);
    server_http_free(server);
    server_udp_free(server);
    free(server);
}

static bool loop_make(struct server *server) {
    if (uv_loop_init(&server->loop) != 0) {
        return false;
    }
    server_answers_init(&server->answers, &server->loop, server);
    (void)uv_prepare_init(&server->loop, &server->before_wait);
    (void)uv_signal_init(&server->loop, &server->sigterm);
    (void)uv_signal_init(&server->loop, &server->sigint);
    (void)uv_timer_init(&server->loop, &server->every_second);
    (void)uv_timer_init(&server->loop, &server->drain);
    schedule_init(&server->schedule, &server->loop, server->engine,
                  &(struct schedule_hooks){.ctx = server, .turn = on_turn, .tried = on_tried});
    ticks_init(&server->ticks, server);
    server->sigterm.data = server->sigint.data = server->every_second.data = server;
    (void)uv_signal_start(&server->sigterm, on_signal, SIGTERM);
    (void)uv_signal_start(&server->sigint, on_signal, SIGINT);
    server->before_wait.data = server;
    (void)uv_prepare_start(&server->before_wait, on_before_wait);
    (void)uv_timer_start(&server->every_second, on_second, 1000, 1000);
    server_daemon_start(server);
    return true;
}

/* Under another name first, so that whoever finds the file finds a whole number in it. */
static enum tn_status port_file_write(const struct server *server) {
    const struct os *os = server->options.os;
    const char *path = server->options.port_file;
    char text[24];
    char temporary[4096];
    int file;
    int len = snprintf(text, sizeof text, "%u\n", server->port);
    if (server->http != NULL || server->udp != NULL) {
        len += snprintf(text + len, sizeof text - (size_t)len, "%u\n", server->http_port);
    }
    if (server->udp != NULL) {
        len += snprintf(text + len, sizeof text - (size_t)len, "%u\n", server->udp_port);
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

enum door { DOOR_RESP, DOOR_HTTP, DOOR_UDP };

/* One address to listen on. */
static bool start_listening(struct server *server, const char *flag, const char *address,
                            enum door door) {
    char host[64];
    uint16_t port;
    char reason[256];
    int code = 0;
    bool anywhere =
        door == DOOR_UDP ? server_udp_allow_any(server->options.udp_allow) : server->access.on;
    if (!server_address_check(address, anywhere, reason, sizeof reason) ||
        !server_address_split(address, host, &port)) {
        server_log("refused", "reason=\"%s: %s\"", flag, reason);
        return false;
    }
    if (door == DOOR_UDP) {
        if (!server_udp_start(server, host, port, &server->udp_port, reason, sizeof reason)) {
            server_log("refused", "reason=\"%s %s: %s\"", flag, address, reason);
            return false;
        }
        return true;
    }
    code = door == DOOR_HTTP ? server_http_start(server, host, port, &server->http_port)
                             : server_listen_tcp(server, host, port);
    if (code != 0) {
        server_log("refused", "reason=\"%s %s: %s\"", flag, address, uv_strerror(code));
    }
    return code == 0;
}

static bool is_on(const char *address) {
    return address != NULL && address[0] != '\0' && strcmp(address, "off") != 0;
}

/* Where sensors, which are on this machine, find our HTTP door. */
static const char *url_make(struct server *server) {
    const char *http = server->options.http;
    char host[64];
    uint16_t port;
    if (!is_on(http) || !server_address_split(http, host, &port)) {
        return NULL;
    }
    bool six = strchr(host, ':') != NULL;
    if (strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0) {
        (void)snprintf(host, sizeof host, "%s", six ? "::1" : "127.0.0.1"); /* one of all of them */
    }
    (void)snprintf(server->url, sizeof server->url, "http://%s%s%s:%u", six ? "[" : "", host,
                   six ? "]" : "", server->http_port);
    return server->url;
}

static bool supervisor_start(struct server *server) {
    if (server->options.sensors == NULL) {
        return true;
    }
    struct supervisor_options options = *server->options.sensors;
    options.loop = &server->loop;
    options.engine = server->engine;
    options.tokens = server->options.tokens;
    options.os = server->options.os;
    options.url = url_make(server);
    options.log = server_log_line;
    server->supervisor = supervisor_open(&options);
    if (server->supervisor == NULL) {
        server_log("refused", "reason=\"no memory for the supervisor of sensors\"");
    }
    return server->supervisor != NULL;
}

const char *server_unix_path(const struct server *server) {
    return server->listeners[TRANSPORT_UNIX].is_open ? server->options.unix_path : "off";
}

/* True: it listens, and says so. */
static bool start(struct server *server) {
    const struct server_options *options = &server->options;
    if (!start_listening(server, "--listen", options->listen, DOOR_RESP) ||
        (options->unix_path != NULL && !server_listen_unix(server)) ||
        (is_on(options->http) && !start_listening(server, "--http", options->http, DOOR_HTTP)) ||
        (is_on(options->udp) && !start_listening(server, "--udp-listen", options->udp, DOOR_UDP))) {
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
    if (!supervisor_start(server)) {
        return false;
    }
    /* A first look at the pools: libuv makes its threads for it, and they block what we still do. */
    server_metrics_second(server);
    server_log("ready", "port=%u http_port=%u udp_port=%u unix=%s data=%s", server->port,
               server->http_port, server->udp_port, server_unix_path(server), options->data);
    if (options->hooks.ready != NULL) {
        options->hooks.ready(options->hooks.ctx);
    }
    return true;
}

int server_run(const struct server_options *options) {
    struct server *server = calloc(1, sizeof *server);
    if (server == NULL) {
        server_log("refused", "reason=\"no memory\"");
        return 2;
    }
    server->options = *options;
    server->engine = options->engine;
    access_init(&server->access, geteuid());
    if (!memory_make(server) || !loop_make(server) || !server_streams_init(server)) {
        server_log("refused", "reason=\"no memory or no descriptors for the server\"");
        memory_free(server);
        return 2;
    }
    if (!start(server)) {
        server->exit_code = 2;
        server_listen_stop(server);
        server_http_stop(server);
        server_streams_stop(server);
        uv_walk(&server->loop, handle_close, NULL);
    }
    (void)uv_run(&server->loop, UV_RUN_DEFAULT);
    int code = uv_loop_close(&server->loop);
    TN_ASSERT(code == 0);
    code = server->exit_code;
    supervisor_free(server->supervisor);
    server_log("stopped", "exit=%d", code);
    memory_free(server);
    return code;
}
