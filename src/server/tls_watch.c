/* What tls_watch.h promises. */
#include "server/tls_watch.h"

#include <stdio.h>
#include <time.h>

#include "server/connection.h"
#include "server/https.h"
#include "server/log_line.h"
#include "server/owners.h"
#include "server/server.h"
#include "server/server_tls.h"
#include "server/tls_files.h"

static bool tell(void *ctx) {
    struct server_owners *owners = ctx;
    return server_connections_tell(owners->connections);
}

static const char *date_of(uint64_t seconds, char out[32]) {
    time_t time = (time_t)seconds;
    struct tm parts;
    if (gmtime_r(&time, &parts) == NULL || strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0) {
        (void)snprintf(out, 32, "unknown");
    }
    return out;
}

static uint64_t now_s(const struct server_owners *owners) {
    const struct os *os = owners->options->os;
    return os->clock_wall_ms(os->ctx) / 1000;
}

static void loaded(struct server_owners *owners) {
    char date[32];
    server_log("tls_loaded", "certificate=%s expires=%s", owners->options->tls_files.certificate,
               date_of(owners->tls->expires_s, date));
    server_tls_second(owners);
}

bool server_tls_start(struct server_owners *owners) {
    char reason[SERVER_TLS_REASON_MAX];
    owners->tls->loop = owners->loop;
    owners->tls->counters = owners->counters;
    owners->tls->tell = tell;
    owners->tls->ctx = owners;
    if (!server_tls_init(owners->tls, &owners->options->tls_files, reason)) {
        server_log("refused", "reason=%s", reason);
        return false;
    }
    loaded(owners);
    return true;
}

void server_tls_reload(struct server_owners *owners) {
    char reason[SERVER_TLS_REASON_MAX];
    if (owners->tls->context == NULL) {
        return;
    }
    if (server_tls_load(owners->tls, &owners->options->tls_files, reason)) {
        loaded(owners);
    } else {
        server_log("tls_reload_refused", "reason=\"%s; the old certificate stays in use\"", reason);
    }
}

void server_tls_judge(struct server_owners *owners) {
    if (owners->tls->context != NULL) {
        server_connections_judge(owners);
        server_https_judge(owners);
    }
}

void server_tls_second(struct server_owners *owners) {
    char date[32];
    if (owners->tls->context == NULL || !server_tls_must_warn(owners->tls, now_s(owners))) {
        return;
    }
    bool over = owners->tls->expires_s <= now_s(owners);
    server_log("tls_expiry", "expires=%s reason=\"%s: replace the files and send SIGHUP\"",
               date_of(owners->tls->expires_s, date),
               over ? "the certificate has expired" : "the certificate expires soon");
}
