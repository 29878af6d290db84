/* What server_role.h promises. */
#include "server/server_role.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "protocol/render.h"
#include "server/connection.h"
#include "server/fanout.h"
#include "server/listen.h"
#include "server/log_line.h"
#include "server/once.h"
#include "server/owners.h"
#include "server/server.h"

bool server_node_address_split(const char *text, struct server_node_address *ret_address) {
    const char *colon = strrchr(text, ':');
    uint64_t port;
    if (colon == NULL || colon == text || (size_t)(colon - text) > SERVER_ADDRESS_MAX ||
        !kernel_value_parse(KERNEL_DEC, tn_bytes_of(colon + 1, strlen(colon + 1)), &port) ||
        port == 0 || port > 65535) {
        return false;
    }
    size_t len = (size_t)(colon - text);
    bool six = text[0] == '[' && text[len - 1] == ']' && len > 2;
    (void)snprintf(ret_address->host, sizeof ret_address->host, "%.*s", (int)(six ? len - 2 : len),
                   text + six);
    ret_address->port = (uint16_t)port;
    return true;
}

/* ---- Which node owns the log ---- */

/* There are few nodes, and they are examined only after a change or a refusal. */
void server_role_refresh(struct server_role *role, struct engine *engine) {
    struct engine_standing standing;
    struct log_node nodes[LOG_NODES_MAX];
    engine_standing_read(engine, &standing);
    bool leads = standing.role == ENGINE_LEADING && !standing.lapsed;
    uint32_t count = engine_nodes(engine, nodes, LOG_NODES_MAX);
    (void)snprintf(role->leader, sizeof role->leader, "%s", leads ? "" : standing.leader);
    role->leader_http[0] = '\0';
    for (uint32_t i = 0; i < count; i++) {
        if (leads ? nodes[i].self : strcmp(nodes[i].address, standing.leader) == 0) {
            (void)snprintf(role->leader, sizeof role->leader, "%s", nodes[i].address);
            (void)snprintf(role->leader_http, sizeof role->leader_http, "%s", nodes[i].http);
        }
    }
    role->follows = !leads;
}

static void say_switch(struct server_owners *owners, const char *from, const char *to) {
    struct server_node_address old, new;
    char text[4 * SERVER_ADDRESS_MAX];
    if (!server_node_address_split(from, &old) || !server_node_address_split(to, &new)) {
        return;
    }
    (void)snprintf(text, sizeof text, SERVER_SERVICE " %s %u %s %u", old.host, old.port, new.host,
                   new.port);
    server_fanout_say(owners->streams, "+switch-master", text);
    (void)snprintf(text, sizeof text, "slave %s:%u %s %u @ " SERVER_SERVICE " %s %u", old.host,
                   old.port, old.host, old.port, new.host, new.port);
    server_fanout_say(owners->streams, "+slave", text);
}

void server_role_look(struct server_owners *owners) {
    struct server_role *role = owners->role;
    server_role_refresh(role, owners->engine);
    bool leads = !role->follows;
    if (leads && !role->led) {
        role->promotions++;
    }
    if (!leads && role->led) {
        server_connections_part(owners);
    }
    if (leads != role->led) {
        server_log(leads ? "promoted" : "demoted", "leader=%s connections=%u", role->leader,
                   owners->connections->count);
    }
    role->led = leads;
    if (role->leader[0] != '\0' && strcmp(role->leader, role->owner) != 0) {
        if (role->owner[0] != '\0') {
            say_switch(owners, role->owner, role->leader);
        }
        (void)snprintf(role->owner, sizeof role->owner, "%s", role->leader);
    }
}

/* ---- What may be served ---- */

bool server_role_fresh(const struct server_owners *owners) {
    struct engine_stats stats;
    engine_stats_read(owners->engine, &stats);
    return stats.log.stale_ms <= owners->options->stale_max_ms;
}

static enum tn_result stale_judge(struct server_request *request) {
    const struct server_owners *owners = request->owners;
    if (!server_role_fresh(owners)) {
        (void)snprintf(request->call.detail, sizeof request->call.detail,
                       "this node has heard nothing of the owner of the log for more than %u ms",
                       owners->options->stale_max_ms);
        return TN_R_MASTERDOWN;
    }
    request->stale = true;
    return TN_R_OK;
}

/* The loop may not know yet that the engine leads. */
enum tn_result server_role_judge(struct server_request *request) {
    const struct server_owners *owners = request->owners;
    struct engine_standing standing;
    if (TN_LIKELY(!owners->role->follows) ||
        protocol_command_has(request->row, PROTOCOL_ANYWHERE)) {
        return TN_R_OK;
    }
    engine_standing_read(owners->engine, &standing);
    if (standing.role != ENGINE_FOLLOWING && !standing.lapsed) {
        return TN_R_OK; /* the engine judges */
    }
    request->call.detail[0] = '\0';
    if (request->client->stale && protocol_command_has(request->row, PROTOCOL_STALE)) {
        return stale_judge(request);
    }
    return standing.leader[0] != '\0' ? TN_R_READONLY : TN_R_MASTERDOWN;
}

const char *server_role_leader(const struct server_client *client) {
    const char *leader = client->owners->role->leader;
    struct server_node_address address;
    bool usable =
        !client->secure || (server_node_address_split(leader, &address) &&
                            address.port == server_listen_port(client->owners, SERVER_LISTEN_TLS));
    return usable ? leader : "";
}

const char *server_role_leader_http(const struct server_client *client) {
    const char *http = client->owners->role->leader_http;
    return !client->secure || strncmp(http, "https://", 8) == 0 ? http : "";
}

void server_refusal_render(const struct server_client *client, struct protocol_writer *w,
                           enum tn_result code, const char *detail, uint64_t lsn) {
    if (code == TN_R_READONLY) {
        server_role_refresh(client->owners->role, client->owners->engine);
        protocol_render_readonly(w, server_role_leader(client), server_role_leader_http(client));
    } else {
        protocol_render_refusal_at(w, code, detail, lsn);
    }
}

/* ---- Beginning and end ---- */

void server_feed_role(void *feed_ctx, struct engine *engine) {
    struct server_feed *feed = feed_ctx;
    (void)engine;
    pthread_mutex_lock(&feed->lock);
    if (feed->role != NULL) {
        (void)uv_async_send(feed->role);
    }
    pthread_mutex_unlock(&feed->lock);
}

static void feed_connect(struct server_feed *feed, uv_async_t *changed) {
    pthread_mutex_lock(&feed->lock);
    feed->role = changed;
    pthread_mutex_unlock(&feed->lock);
}

static void on_changed(uv_async_t *changed) {
    server_role_look(changed->data);
    server_once_look(changed->data);
}

void server_role_start(struct server_owners *owners) {
    struct server_role *role = owners->role;
    (void)uv_async_init(owners->loop, &role->changed, on_changed);
    role->changed.data = owners;
    role->open = true;
    feed_connect(owners->options->feed, &role->changed);
    server_role_refresh(role, owners->engine);
    role->led = !role->follows;
    role->promotions = role->led;
    (void)snprintf(role->owner, sizeof role->owner, "%s", role->leader);
}

void server_role_stop(struct server_owners *owners) {
    if (owners->role->open) {
        owners->role->open = false;
        feed_connect(owners->options->feed, NULL);
    }
}
