/* Where the owner of the log is, in the words of Redis: ROLE, SENTINEL. Every node answers them, so a client
 * of Redis Sentinel is given the addresses of the nodes as those of its sentinels, and tenure as the name of
 * the service.
 *
 * While no node owns the log, SENTINEL GET-MASTER-ADDR-BY-NAME is null, and SENTINEL MASTER shows the last
 * owner as down: clients ask again. A server without a cluster is the master, at the address where the
 * client has reached it. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/hash.h"
#include "protocol/render.h"
#include "server/connection.h"
#include "server/listen.h"
#include "server/output.h"
#include "server/owners.h"
#include "server/server_role.h"

#define RUN_ID_CHARS 40u

/* The cluster in the view of one client. */
struct sight {
    struct log_node nodes[LOG_NODES_MAX];
    uint32_t count;
    struct server_node_address owner; /* port 0: the owner is not known */
    bool owned;                       /* a node owns the log now */
    bool leads;                       /* this node owns the log */
};

/* The address to which the client has connected. False: it came over a Unix-domain socket. */
static bool address_local(const struct server_connection *connection,
                          struct server_node_address *ret_address) {
    struct sockaddr_storage at = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof at;
    const struct sockaddr_in *four = (const struct sockaddr_in *)&at;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&at;
    int socket = transport_socket(&connection->transport);
    if (socket < 0 || getsockname(socket, (struct sockaddr *)&at, &len) != 0 ||
        (at.ss_family != AF_INET && at.ss_family != AF_INET6)) {
        return false;
    }
    bool is_six = at.ss_family == AF_INET6;
    ret_address->port = ntohs(is_six ? six->sin6_port : four->sin_port);
    return inet_ntop(at.ss_family, is_six ? (const void *)&six->sin6_addr : &four->sin_addr,
                     ret_address->host, sizeof ret_address->host) != NULL;
}

static void sight_take(struct server_connection *connection, struct sight *sight) {
    struct server_owners *owners = connection->client.owners;
    struct server_role *role = owners->role;
    server_role_refresh(role, owners->engine);
    sight->count = engine_nodes(owners->engine, sight->nodes, LOG_NODES_MAX);
    sight->leads = !role->follows;
    sight->owned = sight->leads || role->leader[0] != '\0';
    sight->owner.port = 0;
    const char *owner = role->leader[0] != '\0' ? role->leader : role->owner;
    if (server_node_address_split(owner, &sight->owner) || !sight->leads) {
        return;
    }
    if (!address_local(connection, &sight->owner)) {
        (void)snprintf(sight->owner.host, sizeof sight->owner.host, "127.0.0.1");
        sight->owner.port = server_listen_port(owners, SERVER_LISTEN_TCP);
    }
}

/* Whether the node is not the owner, and has an address that the client can use. */
static bool is_replica(const struct sight *sight, const struct log_node *node,
                       struct server_node_address *ret_address) {
    return server_node_address_split(node->address, ret_address) &&
           (ret_address->port != sight->owner.port ||
            strcmp(ret_address->host, sight->owner.host) != 0);
}

/* Whether the node is not this one, and has an address that the client can use. */
static bool is_other(const struct sight *sight, const struct log_node *node,
                     struct server_node_address *ret_address) {
    (void)sight;
    return !node->self && server_node_address_split(node->address, ret_address);
}

typedef bool node_test(const struct sight *sight, const struct log_node *node,
                       struct server_node_address *ret_address);

static uint32_t nodes_count(const struct sight *sight, node_test *is) {
    struct server_node_address address;
    uint32_t count = 0;
    for (uint32_t i = 0; i < sight->count; i++) {
        count += is(sight, &sight->nodes[i], &address);
    }
    return count;
}

uint32_t server_role_replicas(struct engine *engine) {
    struct sight sight = {.count = engine_nodes(engine, sight.nodes, LOG_NODES_MAX)};
    return nodes_count(&sight, is_other);
}

/* ---- Maps of texts, as Redis Sentinel has them ---- */

static void pair_u64(struct protocol_writer *w, const char *name, uint64_t number) {
    char text[KERNEL_VALUE_TEXT_MAX];
    protocol_write_text(w, name);
    protocol_write_bulk(w, text, kernel_value_format(KERNEL_DEC, number, text));
}

/* Writes five pairs. A run id has 40 hexadecimal digits; ours is made from the address. */
static void instance_write(struct protocol_writer *w, const char *name,
                           const struct server_node_address *address, const char *flags) {
    static const char digits[] = "0123456789abcdef";
    char id[RUN_ID_CHARS + 1] = "";
    char text[SERVER_ADDRESS_MAX + 8];
    (void)snprintf(text, sizeof text, "%s:%u", address->host, address->port);
    for (uint32_t i = 0; i < RUN_ID_CHARS; i += 16) {
        uint64_t hash = tn_hash64(text, strlen(text), i);
        for (uint32_t at = i; at < i + 16 && at < RUN_ID_CHARS; at++, hash >>= 4) {
            id[at] = digits[hash & 15];
        }
    }
    protocol_pair_text(w, "name", name != NULL ? name : text);
    protocol_pair_text(w, "ip", address->host);
    pair_u64(w, "port", address->port);
    protocol_pair_text(w, "runid", id);
    protocol_pair_text(w, "flags", flags);
}

static void master_write(struct protocol_writer *w, const struct sight *sight) {
    uint32_t others = nodes_count(sight, is_other);
    protocol_write_map(w, 9);
    instance_write(w, SERVER_SERVICE, &sight->owner,
                   sight->owned ? "master" : "master,s_down,o_down");
    protocol_pair_text(w, "role-reported", "master");
    pair_u64(w, "num-slaves", nodes_count(sight, is_replica));
    pair_u64(w, "num-other-sentinels", others);
    pair_u64(w, "quorum", (others + 1) / 2 + 1);
}

static void replica_write(struct protocol_writer *w, const struct sight *sight,
                          const struct log_node *node, const struct server_node_address *address) {
    protocol_write_map(w, 10);
    instance_write(w, NULL, address, node->age_ms > SERVER_NODE_DOWN_MS ? "slave,s_down" : "slave");
    protocol_pair_text(w, "role-reported", "slave");
    protocol_pair_text(w, "master-link-status", sight->owned ? "ok" : "err");
    protocol_pair_text(w, "master-host", sight->owner.host);
    pair_u64(w, "master-port", sight->owner.port);
    pair_u64(w, "slave-repl-offset", node->applied_lsn);
}

/* ---- SENTINEL ---- */

/* False: the request has been answered. */
static bool service_known(struct server_connection *connection, struct tn_bytes name,
                          const struct sight *sight) {
    bool known = tn_bytes_equal(name, tn_bytes_of(SERVER_SERVICE, sizeof SERVER_SERVICE - 1));
    if (!known || sight->owner.port == 0) {
        server_reply_error(connection, known ? "ERR No such master with that name: no node has "
                                               "owned the log since this one started"
                                             : "ERR No such master with that name: the only one is "
                                               "'" SERVER_SERVICE "'");
        return false;
    }
    return true;
}

enum server_step session_sentinel_get_master_addr(struct server_connection *connection,
                                                  const struct tn_bytes *argv, uint32_t argc) {
    struct sight sight;
    char port[KERNEL_VALUE_TEXT_MAX];
    (void)argc;
    sight_take(connection, &sight);
    bool known = sight.owned && sight.owner.port != 0 &&
                 tn_bytes_equal(argv[2], tn_bytes_of(SERVER_SERVICE, sizeof SERVER_SERVICE - 1));
    struct protocol_writer w = server_reply_begin(connection);
    if (known) {
        protocol_write_array(&w, 2);
        protocol_write_text(&w, sight.owner.host);
        protocol_write_bulk(&w, port, kernel_value_format(KERNEL_DEC, sight.owner.port, port));
    } else {
        protocol_write_null(&w);
    }
    server_reply_end(connection, &w);
    return SERVER_DONE;
}

enum server_step session_sentinel_master(struct server_connection *connection,
                                         const struct tn_bytes *argv, uint32_t argc) {
    struct sight sight;
    (void)argc;
    sight_take(connection, &sight);
    if (service_known(connection, argv[2], &sight)) {
        struct protocol_writer w = server_reply_begin(connection);
        master_write(&w, &sight);
        server_reply_end(connection, &w);
    }
    return SERVER_DONE;
}

enum server_step session_sentinel_masters(struct server_connection *connection,
                                          const struct tn_bytes *argv, uint32_t argc) {
    struct sight sight;
    (void)argv;
    (void)argc;
    sight_take(connection, &sight);
    struct protocol_writer w = server_reply_begin(connection);
    protocol_write_array(&w, sight.owner.port != 0);
    if (sight.owner.port != 0) {
        master_write(&w, &sight);
    }
    server_reply_end(connection, &w);
    return SERVER_DONE;
}

static void sentinel_write(struct protocol_writer *w, const struct sight *sight,
                           const struct log_node *node, const struct server_node_address *address) {
    (void)sight;
    protocol_write_map(w, 5);
    instance_write(w, NULL, address,
                   node->age_ms > SERVER_NODE_DOWN_MS ? "sentinel,s_down" : "sentinel");
}

/* One kind of node in a reply: which nodes belong to it, and how one is written. */
struct node_kind {
    node_test *is;
    void (*write)(struct protocol_writer *w, const struct sight *sight, const struct log_node *node,
                  const struct server_node_address *address);
};

static enum server_step nodes_reply(struct server_connection *connection, struct tn_bytes service,
                                    const struct node_kind *kind) {
    struct sight sight;
    struct server_node_address address;
    sight_take(connection, &sight);
    if (!service_known(connection, service, &sight)) {
        return SERVER_DONE;
    }
    struct protocol_writer w = server_reply_begin(connection);
    protocol_write_array(&w, nodes_count(&sight, kind->is));
    for (uint32_t i = 0; i < sight.count; i++) {
        if (kind->is(&sight, &sight.nodes[i], &address)) {
            kind->write(&w, &sight, &sight.nodes[i], &address);
        }
    }
    server_reply_end(connection, &w);
    return SERVER_DONE;
}

enum server_step session_sentinel_replicas(struct server_connection *connection,
                                           const struct tn_bytes *argv, uint32_t argc) {
    static const struct node_kind replicas = {is_replica, replica_write};
    (void)argc;
    return nodes_reply(connection, argv[2], &replicas);
}

enum server_step session_sentinel_sentinels(struct server_connection *connection,
                                            const struct tn_bytes *argv, uint32_t argc) {
    static const struct node_kind others = {is_other, sentinel_write};
    (void)argc;
    return nodes_reply(connection, argv[2], &others);
}

enum server_step session_sentinel_ckquorum(struct server_connection *connection,
                                           const struct tn_bytes *argv, uint32_t argc) {
    struct sight sight;
    (void)argc;
    sight_take(connection, &sight);
    if (!service_known(connection, argv[2], &sight)) {
        return SERVER_DONE;
    }
    if (!sight.owned) {
        server_reply_error(connection, "NOQUORUM no node owns the log now");
        return SERVER_DONE;
    }
    char text[2 * SERVER_ADDRESS_MAX];
    (void)snprintf(text, sizeof text, "OK %u nodes known. %s:%u owns the log", sight.count,
                   sight.owner.host, sight.owner.port);
    struct protocol_writer w = server_reply_begin(connection);
    protocol_write_simple(&w, text);
    server_reply_end(connection, &w);
    return SERVER_DONE;
}

/* ---- ROLE ---- */

static void role_master(struct protocol_writer *w, const struct sight *sight, uint64_t lsn) {
    struct server_node_address address;
    char text[KERNEL_VALUE_TEXT_MAX];
    protocol_write_array(w, 3);
    protocol_write_text(w, "master");
    protocol_write_u64(w, lsn);
    protocol_write_array(w, nodes_count(sight, is_replica));
    for (uint32_t i = 0; i < sight->count; i++) {
        if (is_replica(sight, &sight->nodes[i], &address)) {
            uint64_t applied = sight->nodes[i].applied_lsn;
            protocol_write_array(w, 3);
            protocol_write_text(w, address.host);
            protocol_write_bulk(w, text, kernel_value_format(KERNEL_DEC, address.port, text));
            protocol_write_bulk(w, text, kernel_value_format(KERNEL_DEC, applied, text));
        }
    }
}

enum server_step session_role(struct server_connection *connection, const struct tn_bytes *argv,
                              uint32_t argc) {
    struct sight sight;
    struct engine_stats stats;
    (void)argv;
    (void)argc;
    sight_take(connection, &sight);
    engine_stats_read(connection->client.owners->engine, &stats);
    struct protocol_writer w = server_reply_begin(connection);
    if (sight.leads) {
        role_master(&w, &sight, stats.lsn);
    } else {
        protocol_write_array(&w, 5);
        protocol_write_text(&w, "slave");
        protocol_write_text(&w, sight.owner.port != 0 ? sight.owner.host : "");
        protocol_write_u64(&w, sight.owner.port);
        protocol_write_text(&w, sight.owned ? "connected" : "connect");
        protocol_write_u64(&w, stats.lsn);
    }
    server_reply_end(connection, &w);
    return SERVER_DONE;
}
