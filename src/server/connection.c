/* Connections: accepting, reading, serving requests, and closing. */
#include "server/connection.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "engine/engine.h"
#include "server/access.h"
#include "server/answer.h"
#include "server/buffers.h"
#include "server/client.h"
#include "server/confirm.h"
#include "server/count.h"
#include "server/dispatch.h"
#include "server/fanout.h"
#include "server/handler.h"
#include "server/listen.h"
#include "server/log_line.h"
#include "server/memory.h"
#include "server/output.h"
#include "server/owners.h"
#include "server/parked.h"
#include "server/schedule.h"
#include "server/server.h"
#include "server/server_tls.h"
#include "server/slots.h"
#include "server/stop.h"
#include "server/subscribe.h"
#include "server/tls_login.h"
#include "server/transport.h"
#include "server/transport_tls.h"
#include "server/users.h"

#define DROP_LINES 16u /* lines in the log per second */

/* ---- Memory ---- */

bool server_connection_take(struct server_connection *connection, size_t bytes) {
    struct server_owners *owners = connection->client.owners;
    if (!server_memory_share(owners->memory, &connection->memory, bytes)) {
        owners->counters->dropped[SERVER_DROP_MEMORY]++;
        if (server_connections_tell(owners->connections)) {
            server_log("client_dropped", "id=%llu reason=memory held=%zu wanted=%zu all=%zu",
                       (unsigned long long)connection->id, connection->memory, bytes,
                       owners->memory->used);
        }
        return false;
    }
    return true;
}

void server_connection_give(struct server_connection *connection, size_t bytes) {
    server_memory_return(connection->client.owners->memory, &connection->memory, bytes);
}

/* ---- Reading ---- */

/* The buffer for a read, once in a turn: libuv would read on as long as each read fills the buffer.
 * Without a buffer, libuv calls read_some with UV_ENOBUFS. */
static uv_buf_t read_buffer(void *owner) {
    struct server_connection *connection = owner;
    struct server_owners *owners = connection->client.owners;
    unsigned share =
        server_client_is_stranger(&connection->client) ? SERVER_STRANGER_BYTES : SERVER_SHARE_BYTES;
    if (connection->read_turn == owners->schedule->turn) {
        share = 0;
    }
    connection->read_turn = owners->schedule->turn;
    return uv_buf_init((char *)owners->buffers->read, share);
}

static bool in_append(struct server_connection *connection, const uint8_t *bytes, size_t len) {
    size_t need = connection->in_len + len;
    if (need > connection->in_capacity) {
        size_t twice = 2 * (size_t)connection->in_capacity;
        size_t capacity = need < twice ? twice : need;
        if (!server_connection_take(connection, capacity - connection->in_capacity)) {
            return false;
        }
        uint8_t *bigger = realloc(connection->in, capacity);
        if (bigger == NULL) {
            server_connection_give(connection, capacity - connection->in_capacity);
            return false;
        }
        connection->in = bigger;
        connection->in_capacity = (uint32_t)capacity;
    }
    memcpy(connection->in + connection->in_len, bytes, len);
    connection->in_len += (uint32_t)len;
    return true;
}

static void in_free(struct server_connection *connection) {
    free(connection->in);
    server_connection_give(connection, connection->in_capacity);
    connection->in = NULL;
    connection->in_len = connection->in_capacity = 0;
}

/* ---- Serving ---- */

static bool may_take(const struct server_connection *connection) {
    return !connection->closing && !connection->lost && !connection->leaving &&
           connection->client.queue == NULL && !connection->client.waits &&
           connection->client.inflight < server_slots_share(connection->client.owners->slots) &&
           server_output_waiting(connection) < SERVER_OUT_SOFT;
}

/* Disconnects a client that speaks HTTP or TLS to this port, such as a browser on behalf of any web
 * page. The rest of its bytes is not examined, and no reply tells the page anything. */
static void hang_up(struct server_connection *connection) {
    char address[TRANSPORT_PEER_MAX];
    connection->client.owners->counters->dropped[SERVER_DROP_FOREIGN]++;
    connection->lost = true;
    if (server_connections_tell(connection->client.owners->connections)) {
        transport_name(&connection->transport, address);
        server_log("client_dropped", "id=%llu reason=%s addr=%s",
                   (unsigned long long)connection->id, server_drop_name(SERVER_DROP_FOREIGN),
                   address);
    }
}

/* A request that breaks the protocol ends the connection after the requests before it are
 * answered. */
static enum server_step protocol_error(struct server_connection *connection,
                                       const struct protocol_request *request) {
    if (request->foreign) {
        hang_up(connection);
        return SERVER_DONE;
    }
    if (connection->client.inflight > 0) {
        return SERVER_WAIT;
    }
    if (request->got != '\0') {
        server_reply_error(connection, "ERR Protocol error: %s'%c'", request->error, request->got);
    } else {
        server_reply_error(connection, "ERR Protocol error: %s", request->error);
    }
    connection->client.owners->counters->rejected[SERVER_REJECT_PROTOCOL]++;
    connection->leaving = true;
    return SERVER_DONE;
}

/* Called after a request: whether the connection has used up its share of this turn. Requests that
 * take long are bounded by the clock, too, which is not read after quick ones. */
static bool share_is_over(struct server_connection *connection) {
    const struct protocol_command *row = connection->last_command;
    bool quick =
        row == NULL || row->kind == PROTOCOL_WRITE || protocol_command_has(row, PROTOCOL_QUICK);
    connection->client.share -= connection->client.share > 0;
    return connection->client.share == 0 ||
           (!quick && schedule_turn_is_over(connection->client.schedule));
}

/* Serves requests from the beginning of the bytes. Returns the number of bytes that are done;
 * *ret_blocked says whether the rest begins with a complete request that has to wait. */
static size_t serve(struct server_connection *connection, const uint8_t *data, size_t len,
                    bool *ret_blocked) {
    struct server_owners *owners = connection->client.owners;
    size_t at = 0;
    *ret_blocked = true;
    schedule_share_begin(&connection->client);
    while (may_take(connection)) {
        struct protocol_request request;
        enum protocol_parse parse =
            protocol_request_parse(&connection->parser, data + at, len - at, owners->buffers->line,
                                   owners->buffers->argv, SERVER_ARGS_MAX, &request);
        enum server_step step = SERVER_DONE;
        if (parse == PROTOCOL_MORE) {
            *ret_blocked = schedule_share_is_large(&connection->client);
            if (*ret_blocked) {
                schedule_yield(&connection->client);
            }
            return at;
        }
        if (parse == PROTOCOL_BAD) {
            step = protocol_error(connection, &request);
            if (step == SERVER_DONE) {
                return len;
            }
        } else if (request.argc > 0) {
            step =
                server_dispatch(connection, owners->buffers->argv, request.argc, request.is_line);
        }
        if (step == SERVER_WAIT) {
            return at;
        }
        at += request.used;
        if (share_is_over(connection) && at < len && may_take(connection)) {
            schedule_yield(&connection->client);
        }
    }
    return at;
}

static void set_reading(struct server_connection *connection, bool on) {
    if (on == connection->reading || connection->closing) {
        return;
    }
    connection->reading = on;
    if (on) {
        transport_start(&connection->transport);
    } else {
        transport_stop(&connection->transport);
    }
}

/* Sends the replies, then decides whether to read on, to wait or to close. */
static void after_serving(struct server_connection *connection, bool blocked) {
    server_output_flush(connection);
    if (connection->lost) {
        server_connection_close(connection);
    }
    if (connection->closing) {
        return;
    }
    if (blocked || connection->in_len == 0) {
        connection->unfinished_ms = 0;
    } else if (connection->unfinished_ms == 0) {
        connection->unfinished_ms = uv_now(connection->client.owners->loop);
    }
    if (connection->ended && !blocked) {
        connection->leaving = true;
    }
    if (connection->leaving && server_connection_quiet(connection)) {
        if (!connection->client.owners->stop->draining || !server_output_unsent(connection)) {
            server_connection_close(connection);
            return;
        }
        schedule_wait(&connection->client); /* until the replies are sent or have timed out */
    }
    /* While a client waits in line, the server reads on, to notice when it disconnects. */
    bool watched = connection->client.waits && connection->in_len < SERVER_SHARE_BYTES;
    set_reading(connection, (!blocked || watched) && !connection->leaving && !connection->ended);
    server_subscriber_drained(connection);
}

void server_connection_run(struct server_connection *connection) {
    bool blocked = false;
    if (connection->closing) {
        return;
    }
    TN_ASSERT(connection->output->len == 0);
    server_replies_collect(connection);
    if (connection->in_len > 0) {
        size_t used = serve(connection, connection->in, connection->in_len, &blocked);
        connection->in_len -= (uint32_t)used;
        if (used > 0) {
            connection->unfinished_ms = 0;
            connection->active_ms = uv_now(connection->client.owners->loop);
        }
        if (connection->in_len == 0) {
            in_free(connection);
        } else {
            memmove(connection->in, connection->in + used, connection->in_len);
        }
    } else {
        blocked = !may_take(connection);
    }
    after_serving(connection, blocked);
}

/* Frees the connection's memory for other connections at once, not at the end of the turn.
 * Otherwise this connection would cause all others that are read in this turn to be closed. */
static void close_for_memory(struct server_connection *connection) {
    in_free(connection);
    server_connection_close(connection);
}

static void read_some(void *owner, const uint8_t *data, ssize_t count) {
    struct server_connection *connection = owner;
    bool blocked;
    if (count == UV_EOF) {
        /* The client may have closed only its side, so its earlier requests are still answered. But
         * it leaves the line, as a client of Redis leaves BLPOP. */
        connection->ended = true;
        server_parked_end(connection->client.owners->parked, &connection->client);
        server_connection_run(connection);
        return;
    }
    if (count == UV_ENOBUFS) {
        /* The connection has been read in this turn, and the socket has more bytes. */
        if (connection->client.queue == NULL) {
            schedule_yield(&connection->client);
        }
        set_reading(connection, false);
        return;
    }
    if (count <= 0) {
        if (count < 0) {
            server_connection_close(connection);
        }
        return;
    }
    if (connection->transport.tls == NULL) { /* TLS decrypts all connections into one buffer */
        server_answers_look(connection->client.owners);
        if (connection->closing) {
            return;
        }
    }
    connection->active_ms = uv_now(connection->client.owners->loop);
    connection->client.begun_ns = uv_hrtime();
    server_confirm_arrived(&connection->client);
    connection->client.owners->counters->bytes_in += (uint64_t)count;
    if (connection->in_len > 0) {
        if (!in_append(connection, data, (size_t)count)) {
            close_for_memory(connection);
            return;
        }
        server_connection_run(connection);
        return;
    }
    TN_ASSERT(connection->output->len == 0);
    size_t used = serve(connection, data, (size_t)count, &blocked);
    if (used < (size_t)count && !connection->closing &&
        !in_append(connection, data + used, (size_t)count - used)) {
        close_for_memory(connection);
    }
    after_serving(connection, blocked);
}

/* ---- Opening and closing ---- */

static void written(void *owner, int status) {
    struct server_connection *connection = owner;
    if (server_output_written(connection, status)) {
        server_connection_run(connection);
    } else {
        server_connection_close(connection);
    }
}

static void closed(void *owner) {
    struct server_connection *connection = owner;
    struct server_owners *owners = connection->client.owners;
    server_output_drop(connection);
    in_free(connection);
    TN_ASSERT(connection->memory == 0);
    if (owners->connections->looking == connection) {
        owners->connections->looking = LIST_NEXT(connection, place);
    }
    if (owners->connections->parting == connection) {
        owners->connections->parting = LIST_NEXT(connection, place);
    }
    if (owners->connections->judging == connection) {
        owners->connections->judging = LIST_NEXT(connection, place);
    }
    LIST_REMOVE(connection, place);
    memset(connection, 0, sizeof *connection);
    LIST_INSERT_HEAD(&owners->connections->free, connection, place);
    owners->connections->count--;
    server_stop_check(owners);
}

void server_connection_close(struct server_connection *connection) {
    if (transport_is_closing(&connection->transport)) {
        return;
    }
    connection->closing = true;
    server_client_leave(&connection->client);
    server_unsubscribe_all(connection);
    transport_close(&connection->transport);
}

static void client_run(struct server_client *client) {
    server_connection_run((struct server_connection *)client);
}

/* Disconnects a client that the changed settings of TLS do not admit. */
static void turn_out(struct server_connection *connection) {
    if (server_connections_tell(connection->client.owners->connections)) {
        server_log("client_dropped", "id=%llu reason=certificate",
                   (unsigned long long)connection->id);
    }
    server_connection_close(connection);
}

/* The TLS handshake is complete: a client certificate may name a user. */
static void established(void *owner) {
    struct server_connection *connection = owner;
    struct server_owners *owners = connection->client.owners;
    server_users_look(owners);
    connection->arrived = server_tls_login(&connection->transport, owners->access);
    connection->client.login = connection->arrived;
    if (!server_tls_admits_new(owners->tls, &connection->transport, owners->access,
                               &connection->arrived)) {
        turn_out(connection);
    }
}

static const struct transport_calls transport_calls = {.buffer = read_buffer,
                                                       .read = read_some,
                                                       .written = written,
                                                       .established = established,
                                                       .closed = closed};

static struct server_connection *connection_new(struct server_owners *owners,
                                                enum transport_kind kind) {
    struct server_connection *connection = LIST_FIRST(&owners->connections->free);
    if (server_clients(owners) >= owners->options->connections_max) {
        return NULL;
    }
    if (connection != NULL) {
        LIST_REMOVE(connection, place);
    } else {
        connection = &owners->connections->of[owners->connections->touched++];
    }
    memset(connection, 0, sizeof *connection);
    server_client_init(&connection->client, owners, client_run);
    connection->output = owners->output;
    connection->streams = owners->streams;
    connection->id = ++owners->connections->next_id;
    connection->created_ms = connection->active_ms = uv_now(owners->loop);
    LIST_INSERT_HEAD(&owners->connections->live, connection, place);
    owners->connections->count++;
    transport_init(&connection->transport, owners->loop, kind, &transport_calls, connection);
    return connection;
}

static void refused(void *owner) {
    free(owner);
}

/* Refuses a client because there are too many, and disconnects it. */
static void refuse(struct server_owners *owners, struct server_listener *listener) {
    static const char text[] = "-ERR max number of clients reached\r\n";
    static const struct transport_calls calls = {.closed = refused};
    struct transport *transport = malloc(sizeof *transport);
    if (transport == NULL) {
        /* Libuv reports the next client only after this one has been accepted. */
        listener->waiting = true;
        return;
    }
    transport_init(transport, owners->loop, listener->socket.kind, &calls, transport);
    if (transport_accept(transport, &listener->socket) == 0 &&
        listener->socket.kind != TRANSPORT_TLS) {
        (void)transport_try_write(transport, text, sizeof text - 1);
    }
    owners->counters->rejected[SERVER_REJECT_CONNECTIONS]++;
    transport_close(transport);
}

/* Identifies a client of the Unix-domain socket by its process. */
static void peer_find(struct server_connection *connection) {
    struct transport_peer peer;
    if (connection->transport.kind == TRANSPORT_UNIX) {
        bool known = transport_peer(&connection->transport, &peer);
        connection->arrived.user =
            known ? access_peer(connection->client.owners->access, peer.uid) : &access_stranger;
        connection->client.login = connection->arrived;
    }
}

void server_connection_accept(struct server_owners *owners, struct server_listener *listener) {
    struct server_connection *connection = connection_new(owners, listener->socket.kind);
    if (connection == NULL) {
        refuse(owners, listener);
        return;
    }
    owners->counters->connections++;
    if (transport_accept(&connection->transport, &listener->socket) != 0 ||
        (listener->socket.kind == TRANSPORT_TLS &&
         !transport_tls_begin(&connection->transport, owners->tls))) {
        server_connection_close(connection);
        return;
    }
    connection->client.socket = transport_socket(&connection->transport);
    connection->client.secure = listener->socket.kind == TRANSPORT_TLS;
    peer_find(connection);
    set_reading(connection, true);
}

/* ---- Policy ---- */

bool server_connection_quiet(const struct server_connection *connection) {
    return connection->client.inflight == 0 && server_output_waiting(connection) == 0;
}

bool server_connections_tell(struct server_connections *connections) {
    bool told = connections->drops_told < DROP_LINES;
    connections->drops_told += told;
    connections->drops_untold += !told;
    return told;
}

static void drop(struct server_connection *connection, enum server_drop reason) {
    connection->client.owners->counters->dropped[reason]++;
    if (reason != SERVER_DROP_IDLE &&
        server_connections_tell(connection->client.owners->connections)) {
        server_log("client_dropped", "id=%llu reason=%s unsent=%zu unfinished=%u",
                   (unsigned long long)connection->id, server_drop_name(reason),
                   server_output_waiting(connection), connection->in_len);
    }
    server_connection_close(connection);
}

void server_connection_overflow(struct server_connection *connection) {
    connection->client.owners->counters->dropped[SERVER_DROP_SLOW]++;
    if (server_connections_tell(connection->client.owners->connections)) {
        server_log("client_dropped", "id=%llu reason=output unsent=%zu",
                   (unsigned long long)connection->id, server_output_waiting(connection));
    }
    server_connection_close(connection);
}

/* Closes a client that reads none of its replies, does not complete its first request, or sends
 * none. A client that was served before may pause in the middle of a request while it reads
 * replies. False: the client stays. */
static bool look(struct server_connection *c) {
    const struct server_options *options = c->client.owners->options;
    uint64_t now = uv_now(c->client.owners->loop);
    uint64_t slow = (uint64_t)options->slow_seconds * 1000;
    uint64_t idle = (uint64_t)options->idle_seconds * 1000;
    /* Waits for the answer to an earlier request. */
    bool waits = c->in_len > 0 && c->unfinished_ms == 0;
    size_t unsent = transport_queued(&c->transport);
    if (unsent == 0 || unsent != c->unsent) {
        c->progress_ms = now;
    }
    c->unsent = unsent;
    if (c->closing) {
        return false;
    }
    if (c->client.waits && !c->reading && !c->ended &&
        transport_ended(transport_socket(&c->transport))) {
        read_some(c, NULL, UV_EOF); /* its end is behind requests that have not been read */
    } else if (unsent > 0 && now - c->progress_ms >= slow) {
        drop(c, SERVER_DROP_SLOW);
    } else if (c->unfinished_ms > 0 && !c->served && now - c->unfinished_ms >= slow) {
        drop(c, SERVER_DROP_UNFINISHED);
    } else if (!transport_tls_is_established(&c->transport) && now - c->created_ms >= slow) {
        drop(c, SERVER_DROP_HANDSHAKE);
    } else if (idle > 0 && c->subscriber == NULL && !waits && server_connection_quiet(c) &&
               now - c->active_ms >= idle) {
        drop(c, SERVER_DROP_IDLE);
    }
    return c->closing;
}

/* Whether the client's last request waits in line, or may do so. */
static bool is_in_line(const struct server_client *client) {
    return client->last != NULL && (client->last->parked || client->last->may_wait);
}

/* Whether the client must be disconnected. One that has not logged in may stay to log in, unless it
 * waited or listened as an anonymous client. */
static bool has_lost_access(const struct server_connection *c) {
    const struct access_user *user = c->client.login.user;
    return user != &access_stranger &&
           access_user_of(c->client.owners->access, &c->client.login)->role == PROTOCOL_NOBODY &&
           (user != NULL || c->subscriber != NULL || is_in_line(&c->client));
}

/* Answers writes in flight first, such as the one by which an administrator deletes itself. */
static void access_lost(struct server_connection *c) {
    if (c->client.inflight == 0 || is_in_line(&c->client)) {
        server_connection_close(c);
    } else {
        c->leaving = true;
        server_unsubscribe_all(c);
    }
}

void server_connections_review(struct server_owners *owners) {
    for (struct server_connection *c = LIST_FIRST(&owners->connections->live); c != NULL;
         c = LIST_NEXT(c, place)) {
        if (!c->closing && has_lost_access(c)) {
            access_lost(c);
        }
    }
}

/* New connections are put at the head of the list, and are judged when their handshake ends. */
void server_connections_judge(struct server_owners *owners) {
    owners->connections->judging = LIST_FIRST(&owners->connections->live);
    schedule_soon(owners->schedule);
}

bool server_connections_judge_step(struct server_owners *owners) {
    for (uint32_t i = 0; i < SERVER_TLS_JUDGED && owners->connections->judging != NULL; i++) {
        struct server_connection *c = owners->connections->judging;
        owners->connections->judging = LIST_NEXT(c, place);
        if (!c->closing && transport_tls_is_established(&c->transport) &&
            !server_tls_admits(owners->tls, &c->transport, owners->access, &c->arrived)) {
            turn_out(c);
        }
    }
    return owners->connections->judging != NULL;
}

static bool log_is_lost(const struct server_connection *connection) {
    struct engine_standing standing;
    engine_standing_read(connection->client.owners->engine, &standing);
    return standing.role == ENGINE_FOLLOWING || standing.lapsed;
}

static bool is_for_owner(const struct server_connection *connection,
                         const struct protocol_command *row) {
    return !connection->client.stale && !protocol_command_has(row, PROTOCOL_ANYWHERE);
}

void server_connection_asks(struct server_connection *connection,
                            const struct protocol_command *row) {
    if (TN_UNLIKELY(!connection->for_owner) && is_for_owner(connection, row)) {
        connection->for_owner = !log_is_lost(connection);
    }
}

bool server_connection_answers(struct server_connection *connection,
                               const struct protocol_command *row, enum tn_result code) {
    bool as_owner = is_for_owner(connection, row);
    if (TN_LIKELY(code != TN_R_READONLY && code != TN_R_MASTERDOWN)) {
        connection->for_owner |= as_owner;
    } else if (as_owner && connection->for_owner && log_is_lost(connection)) {
        connection->parted = connection->leaving = true;
    }
    return !connection->parted;
}

/* New connections are put at the head of the list, so the step never closes them. */
void server_connections_part(struct server_owners *owners) {
    owners->connections->parting = LIST_FIRST(&owners->connections->live);
    schedule_soon(owners->schedule);
}

bool server_connections_part_step(struct server_owners *owners) {
    struct engine_standing standing;
    engine_standing_read(owners->engine, &standing);
    bool lapsed = standing.role == ENGINE_LEADING; /* the lead may go on, and then the line does */
    for (uint32_t i = 0; i < SERVER_LOOKS_MAX && owners->connections->parting != NULL; i++) {
        struct server_connection *c = owners->connections->parting;
        owners->connections->parting = LIST_NEXT(c, place);
        if (!c->closing && !c->client.stale && (c->subscriber == NULL || c->for_owner)) {
            /* Requests that were read are answered, also those that wait for a turn. */
            c->ended = true;
            if (lapsed) {
                server_parked_end(owners->parked, &c->client); /* nothing would notice its end */
            }
            server_connection_run(c);
        }
    }
    return owners->connections->parting != NULL;
}

/* One bounded step, because checking and disconnecting thousands of clients takes milliseconds. The
 * first step only begins: after a standstill of the loop, pending input is read before any client
 * counts as idle. */
void server_connections_look(struct server_owners *owners) {
    uint32_t drops = 0;
    if (owners->connections->look_due) {
        owners->connections->look_due = false;
        owners->connections->looking = LIST_FIRST(&owners->connections->live);
        return;
    }
    for (uint32_t i = 0; i < SERVER_LOOKS_MAX && drops < SERVER_DROPS_MAX; i++) {
        struct server_connection *c = owners->connections->looking;
        if (c == NULL) {
            return;
        }
        owners->connections->looking = LIST_NEXT(c, place);
        drops += look(c);
    }
}

void server_connections_check(struct server_owners *owners) {
    if (owners->connections->drops_untold > 0) {
        server_log("clients_dropped", "more=%u", owners->connections->drops_untold);
    }
    owners->connections->drops_told = owners->connections->drops_untold = 0;
    if (owners->connections->looking == NULL) {
        owners->connections->look_due = true;
        schedule_soon(owners->schedule);
    }
}
