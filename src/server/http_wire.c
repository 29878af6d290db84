/* Judges the bytes of requests before libmicrohttpd reads them.
 *
 * libmicrohttpd 0.9 takes requests that two programs may understand differently (protocol/framing.h
 * has the list), hides what it saw, answers errors of its own in HTML or not at all, and has no hook
 * in front of its parser. But it reads with recv(), and the program's own definition of that is used
 * before the C library's, as the ELF standard has it. So recv() is defined here: while libmicrohttpd
 * runs, on the loop's thread, its input goes through the judge of its connection; all other callers get
 * the usual recv().
 *
 * A fault is answered here, once, as a problem, and libmicrohttpd never gets the end of that request:
 * it waits for it until the client hangs up, or is disconnected for being slow. Requests before the
 * faulty one are served first.
 *
 * That libmicrohttpd sees the same requests is checked with every head (http_wire_agrees): if it read
 * in another way, nothing would be served, rather than served unjudged. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/assert.h"
#include "protocol/render.h"
#include "server/count.h"
#include "server/http_parts.h"

#define DISCARDS_MAX 4u /* reads of discarded input in one call */

static _Thread_local struct http *running; /* inside of MHD_run */

/* ---- Sockets ---- */

bool http_wire_add(struct http *http, struct http_connection *connection) {
    uint32_t need = (uint32_t)connection->socket + 1;
    if (need > http->socket_capacity) {
        uint32_t capacity = 2 * http->socket_capacity > need ? 2 * http->socket_capacity : need;
        struct http_connection **bigger =
            realloc(http->sockets, (size_t)capacity * sizeof(struct http_connection *));
        if (bigger == NULL) {
            return false;
        }
        memset(bigger + http->socket_capacity, 0,
               (capacity - http->socket_capacity) * sizeof(struct http_connection *));
        http->sockets = bigger;
        http->socket_capacity = capacity;
    }
    TN_ASSERT(http->sockets[connection->socket] == NULL);
    http->sockets[connection->socket] = connection;
    return true;
}

void http_wire_remove(struct http *http, const struct http_connection *connection) {
    TN_ASSERT(http->sockets[connection->socket] == connection);
    http->sockets[connection->socket] = NULL;
}

bool http_wire_agrees(struct http_connection *connection) {
    return connection->heads++ < connection->framing.heads;
}

/* ---- Refusing ---- */

static ssize_t fail(int error) {
    errno = error;
    return -1;
}

static void answer(const struct http_connection *connection) {
    struct server_counters *counters = connection->http->counters;
    enum protocol_framing_fault fault = (enum protocol_framing_fault)connection->framing.fault;
    unsigned status = protocol_framing_status(fault);
    const char *title = MHD_get_reason_phrase_for(status);
    char body[PROTOCOL_PROBLEM_MAX];
    char text[PROTOCOL_PROBLEM_MAX + 512];
    struct protocol_writer w = {.out = tn_writer_of(body, sizeof body), .encoding = PROTOCOL_JSON};
    protocol_render_problem(&w, (int)status, TN_REJECTED, title, protocol_framing_text(fault));
    TN_ASSERT(!w.out.overflow);
    int len = snprintf(text, sizeof text,
                       "HTTP/1.1 %u %s\r\n"
                       "Content-Type: application/problem+json\r\n"
                       "Content-Length: %zu\r\n"
                       "Cache-Control: no-store\r\n"
                       "X-Content-Type-Options: nosniff\r\n"
                       "Connection: close\r\n\r\n%.*s\n",
                       status, title, (size_t)w.out.len + 1, (int)w.out.len, body);
    TN_ASSERT(len > 0 && (size_t)len < sizeof text);
    (void)send(connection->socket, text, (size_t)len, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)shutdown(connection->socket, SHUT_WR);
    counters->errors++;
    counters->http_answers[status]++;
}

/* Reads and discards the rest of the input, and tells libmicrohttpd that there is none yet. Closing
 * a socket with unread input would destroy the answer on its way. */
static ssize_t discard(struct http_connection *connection, void *buffer, size_t len, int flags) {
    for (uint32_t i = 0; i < DISCARDS_MAX; i++) {
        ssize_t got = recvfrom(connection->socket, buffer, len, flags, NULL, NULL);
        if (got < 0) {
            return got;
        }
        connection->discarded += (size_t)got;
        if (got == 0 || connection->discarded > HTTP_DISCARD_MAX) {
            return fail(ECONNRESET);
        }
    }
    return fail(EAGAIN);
}

static ssize_t refuse(struct http_connection *connection, void *buffer, size_t len, int flags) {
    const struct http_exchange *exchange = connection->exchange;
    if (exchange != NULL && exchange->state != HTTP_RECEIVING) {
        return fail(ECONNRESET); /* another answer is being sent */
    }
    answer(connection);
    connection->refused = true;
    return discard(connection, buffer, len, flags);
}

/* ---- Reading ---- */

static ssize_t judge(struct http_connection *connection, void *buffer, size_t len, int flags) {
    struct protocol_framing *framing = &connection->framing;
    uint64_t requests = framing->requests;
    if (connection->refused) {
        return discard(connection, buffer, len, flags);
    }
    if (framing->fault != PROTOCOL_FRAMING_GOOD) {
        return refuse(connection, buffer, len, flags);
    }
    ssize_t got = recvfrom(connection->socket, buffer, len, flags, NULL, NULL);
    if (got <= 0) {
        return got;
    }
    size_t good = protocol_framing_feed(framing, buffer, (size_t)got);
    if (framing->fault == PROTOCOL_FRAMING_GOOD) {
        return got;
    }
    if (framing->requests == requests) {
        return refuse(connection, buffer, len, flags);
    }
    /* The requests before it are complete and are served first. Then the socket is read again,
     * because the end is an event. */
    (void)shutdown(connection->socket, SHUT_RD);
    return (ssize_t)good;
}

ssize_t http_wire_recv(int socket, void *buffer, size_t len, int flags) __asm__("recv");

ssize_t http_wire_recv(int socket, void *buffer, size_t len, int flags) {
    if (running == NULL) {
        return recvfrom(socket, buffer, len, flags, NULL, NULL);
    }
    struct http_connection *connection =
        (uint32_t)socket < running->socket_capacity ? running->sockets[socket] : NULL;
    return connection != NULL ? judge(connection, buffer, len, flags) : fail(ECONNRESET);
}

void http_wire_run(struct http *http) {
    TN_ASSERT(running == NULL);
    running = http;
    (void)MHD_run(http->daemon);
    running = NULL;
}
