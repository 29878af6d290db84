/* The socket of the UDP listener: which sources are served, and which datagrams are dropped. */
#include "server/udp.h"
#include "engine/engine.h"
#include "protocol/identity.h"
#include "server/buffers.h"
#include "server/client.h"
#include "server/count.h"
#include "server/listen_address.h"
#include "server/log_line.h"
#include "server/once.h"
#include "server/owners.h"
#include "server/server.h"
#include "server/udp_listen.h"
#include "server/write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/detail.h"

/* ---- Exchanges ---- */

static struct udp_exchange *exchange_take(struct server_udp *udp) {
    struct udp_exchange *exchange = udp->free;
    if (exchange != NULL) {
        udp->free = exchange->next_free;
    }
    return exchange;
}

void udp_exchange_end(struct udp_exchange *exchange) {
    struct server_udp *udp = exchange->udp;
    if (exchange->client.owners != NULL) {
        server_client_leave(&exchange->client);
        exchange->client.owners = NULL;
    }
    exchange->next_free = udp->free;
    udp->free = exchange;
}

void udp_send(struct udp_exchange *exchange, const void *bytes, size_t len,
              enum server_udp_outcome outcome) {
    struct server_udp *udp = exchange->udp;
    uv_buf_t buffer = uv_buf_init((char *)(uintptr_t)bytes, (unsigned)len);
    int sent = uv_udp_try_send(&udp->socket, &buffer, 1, (const struct sockaddr *)&exchange->peer);
    udp->owners->counters->datagrams[sent >= 0 ? outcome : SERVER_UDP_UNSENT]++;
}

/* ---- Datagrams ---- */

/* Derives the holder. A request for n ids has a holder of its own for each n. */
static bool exchange_identify(struct udp_exchange *exchange,
                              const struct protocol_udp_request *request, char *detail) {
    struct server_udp *udp = exchange->udp;
    enum tn_result code = server_holder_derive(udp->owners->engine, udp->pool, request->meta,
                                               exchange->key, &exchange->key_len, detail);
    if (code == TN_R_OK && request->many) {
        exchange->key_len =
            protocol_identity_several(exchange->key, exchange->key_len, request->count);
    }
    return code == TN_R_OK;
}

static void exchange_serve(struct udp_exchange *exchange, struct tn_bytes datagram,
                           const struct sockaddr *peer,
                           const struct protocol_udp_request *request) {
    struct udp_exchange *e = exchange;
    char detail[PROTOCOL_DETAIL] = "";
    size_t peer_len =
        peer->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    const char *fault = udp_pool_fault(e->udp->owners, e->udp->pool);
    if (fault != NULL) {
        udp_exchange_fail(e, "BAD_POOL", fault);
        return;
    }
    if (!exchange_identify(e, request, detail)) {
        udp_exchange_fail(e, "BAD_REQUEST", detail);
        return;
    }
    e->many = request->many;
    e->count = request->count;
    e->meta_len = request->meta.len;
    memcpy(e->meta, request->meta.at, request->meta.len);
    protocol_udp_operation(tn_bytes_of(&e->peer, peer_len), datagram, e->operation);
    udp_exchange_begin(e);
}

static void datagram_take(struct server_udp *udp, struct tn_bytes datagram,
                          const struct sockaddr *peer) {
    uint64_t *counted = udp->owners->counters->datagrams;
    struct udp_source source = udp_source_of(peer);
    struct protocol_udp_request request;
    char detail[PROTOCOL_DETAIL] = "";
    bool allowed = udp_networks_have(&udp->allow, &source);
    /* Checked before it takes a bucket that other sources need. */
    if (udp->listed_only && !allowed) {
        counted[SERVER_UDP_UNLISTED]++;
        return;
    }
    if (!udp_rate_take(&udp->rate, &source, uv_now(udp->owners->loop))) {
        counted[SERVER_UDP_LIMITED]++;
        return;
    }
    enum protocol_udp parsed = protocol_udp_parse(datagram, &request, detail);
    if (parsed == PROTOCOL_UDP_NOTHING) {
        counted[SERVER_UDP_MALFORMED]++;
        return;
    }
    if (parsed == PROTOCOL_UDP_OK && datagram.len < request.reply_len && !allowed) {
        counted[SERVER_UDP_SHORT]++;
        return;
    }
    struct udp_exchange *exchange = exchange_take(udp);
    if (exchange == NULL) {
        counted[SERVER_UDP_OVERLOADED]++;
        return;
    }
    exchange->sequence = request.sequence;
    exchange->datagram_len = datagram.len;
    exchange->allowed = allowed;
    memset(&exchange->peer, 0, sizeof exchange->peer);
    memcpy(&exchange->peer, peer,
           peer->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
    if (parsed == PROTOCOL_UDP_BAD) {
        udp_exchange_fail(exchange, "BAD_REQUEST", detail);
    } else {
        exchange_serve(exchange, datagram, peer, &request);
    }
}

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buffer) {
    struct server_udp *udp = handle->data;
    (void)suggested;
    *ret_buffer = uv_buf_init((char *)udp->owners->buffers->read, SERVER_READ_BYTES);
}

static void on_datagram(uv_udp_t *socket, ssize_t len, const uv_buf_t *buffer,
                        const struct sockaddr *peer, unsigned flags) {
    struct server_udp *udp = socket->data;
    if (len < 0 || peer == NULL) {
        return; /* no datagram, or an error that a later datagram will show again */
    }
    if (!udp->owners->once->owns) {
        return; /* another node of the cluster answers */
    }
    if ((flags & UV_UDP_PARTIAL) != 0) {
        udp->owners->counters->datagrams[SERVER_UDP_MALFORMED]++;
        return;
    }
    datagram_take(udp, tn_bytes_of(buffer->base, (size_t)len), peer);
    server_count_ended(udp->owners->counters);
}

/* ---- Starting and stopping ---- */

static bool pool_check(struct server_owners *owners, const char *pool, char *reason, size_t room) {
    struct kernel_pool_view view;
    uint64_t lsn;
    struct tn_bytes name = tn_bytes_of(pool, strlen(pool));
    if (name.len == 0 || name.len > KERNEL_POOL_MAX) {
        (void)snprintf(reason, room, "udp_pool must name the pool of the ids");
        return false;
    }
    if (engine_pool_read(owners->engine, ENGINE_READ_AS_IS, name, &view, &lsn) ==
        TN_R_POOL_NOTFOUND) {
        server_log("udp_pool_missing", "pool=%s reason=\"%s\"", pool,
                   "nodes are refused until it is created");
    }
    const char *fault = udp_pool_fault(owners, name);
    if (fault != NULL) {
        (void)snprintf(reason, room, "udp_pool %s: %s", pool, fault);
    }
    return fault == NULL;
}

static int socket_open(struct server_udp *udp, const char *host, uint16_t port,
                       uint16_t *ret_port) {
    struct sockaddr_storage address;
    int len = sizeof address;
    int code = server_address_make(host, port, &address);
    if (code == 0) {
        code = uv_udp_bind(&udp->socket, (const struct sockaddr *)&address, 0);
    }
    if (code == 0) {
        code = uv_udp_recv_start(&udp->socket, on_room, on_datagram);
    }
    if (code == 0) {
        code = uv_udp_getsockname(&udp->socket, (struct sockaddr *)&address, &len);
    }
    if (code == 0) {
        *ret_port = server_address_port(&address);
    }
    return code;
}

bool server_udp_start(struct server_owners *owners, const char *host, uint16_t port,
                      uint16_t *ret_port, char *reason, size_t room) {
    const struct server_options *options = owners->options;
    if (!pool_check(owners, options->udp_pool, reason, room)) {
        return false;
    }
    struct server_udp *udp = calloc(1, sizeof *udp);
    if (udp == NULL) {
        (void)snprintf(reason, room, "no memory");
        return false;
    }
    owners->udp = udp;
    udp->owners = owners;
    udp->pool = tn_bytes_of(options->udp_pool, strlen(options->udp_pool));
    udp->rate.per_second = options->udp_rate;
    udp->rate.burst = options->udp_burst;
    for (uint32_t i = UDP_EXCHANGES; i > 0; i--) {
        udp->exchanges[i - 1].udp = udp;
        udp->exchanges[i - 1].next_free = udp->free;
        udp->free = &udp->exchanges[i - 1];
    }
    if (!udp_networks_parse(options->udp_allow, &udp->allow, reason, room)) {
        return false;
    }
    udp->listed_only = !server_address_is_loopback(host);
    (void)uv_udp_init(owners->loop, &udp->socket);
    udp->socket.data = udp;
    int code = socket_open(udp, host, port, ret_port);
    if (code != 0) {
        (void)snprintf(reason, room, "%s", uv_strerror(code));
    }
    return code == 0;
}

void server_udp_drain(struct server_owners *owners) {
    if (owners->udp != NULL) {
        (void)uv_udp_recv_stop(&owners->udp->socket);
    }
}

void server_udp_free(struct server_owners *owners) {
    free(owners->udp);
}
