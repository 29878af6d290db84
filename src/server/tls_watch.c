/* What tls_watch.h promises. */
#include "server/tls_watch.h"

#include <stdio.h>
#include <time.h>

#include "server/https.h"
#include "server/log_line.h"
#include "server/parts.h"

static bool tell(void *ctx) {
    struct server *server = ctx;
    return server_connections_tell(&server->connections);
}

static const char *date_of(uint64_t seconds, char out[32]) {
    time_t time = (time_t)seconds;
    struct tm parts;
    if (gmtime_r(&time, &parts) == NULL || strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0) {
        (void)snprintf(out, 32, "unknown");
    }
    return out;
}

static uint64_t now_s(const struct server *server) {
    const struct os *os = server->options.os;
    return os->clock_wall_ms(os->ctx) / 1000;
}

static void loaded(struct server *server) {
    char date[32];
    server_log("tls_loaded", "certificate=%s expires=%s", server->options.tls_files.certificate,
               date_of(server->tls.expires_s, date));
    server_tls_second(server);
}

bool server_tls_start(struct server *server) {
    char reason[SERVER_TLS_REASON_MAX];
    server->tls.loop = &server->loop;
    server->tls.counters = &server->counters;
    server->tls.tell = tell;
    server->tls.ctx = server;
    if (!server_tls_init(&server->tls, &server->options.tls_files, reason)) {
        server_log("refused", "reason=%s", reason);
        return false;
    }
    loaded(server);
    return true;
}

void server_tls_reload(struct server *server) {
    char reason[SERVER_TLS_REASON_MAX];
    if (server->tls.context == NULL) {
        return;
    }
    if (server_tls_load(&server->tls, &server->options.tls_files, reason)) {
        loaded(server);
    } else {
        server_log("tls_reload_refused", "reason=\"%s; the old certificate stays in use\"", reason);
    }
}

void server_tls_judge(struct server *server) {
    if (server->tls.context != NULL) {
        server_connections_judge(server);
        server_https_judge(server);
    }
}

void server_tls_second(struct server *server) {
    char date[32];
    if (server->tls.context == NULL || !server_tls_must_warn(&server->tls, now_s(server))) {
        return;
    }
    bool over = server->tls.expires_s <= now_s(server);
    server_log("tls_expiry", "expires=%s reason=\"%s: replace the files and send SIGHUP\"",
               date_of(server->tls.expires_s, date),
               over ? "the certificate has expired" : "the certificate expires soon");
}
