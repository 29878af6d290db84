/* Fetching a snapshot from another node: one GET over HTTP/1.1, by a thread that has nothing else to do.
 *
 * The answer must be 200 with Content-Length; nothing else is understood, since our own server sends it. Every
 * wait has a limit, so a node that hangs only costs time. A file that is cut short is refused. */
#define _GNU_SOURCE 1 /* strcasestr */
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "etcd/address.h"
#include "main/node.h"
#include "replica/replica.h"

#define CONNECT_MS 5000
#define SILENCE_MS 20000 /* maximum silence of the other node in the middle of its answer */
#define BUFFER_BYTES (256u * 1024u)
#define HEAD_MAX 8192u /* maximum bytes of the answer's head */

struct fetch {
    const struct os *os;
    const struct replica_node *from;
    struct log_error *error;
    int socket, file;
    uint64_t bytes, done; /* of the snapshot */
    size_t len;           /* in the buffer */
    uint8_t buffer[BUFFER_BYTES];
};

static enum tn_status fail(const struct fetch *fetch, enum tn_status status, const char *why) {
    (void)snprintf(fetch->error->text, sizeof fetch->error->text,
                   "node %s: cannot fetch a snapshot from %s: %s", fetch->from->name,
                   fetch->from->http, why);
    return status;
}

/* ---- The connection ---- */

static bool wait_for(int fd, short events, int ms) {
    struct pollfd one = {.fd = fd, .events = events};
    int count;
    do {
        count = poll(&one, 1, ms);
    } while (count < 0 && errno == EINTR);
    if (count == 0) {
        errno = ETIMEDOUT;
    }
    return count > 0;
}

/* -1: see errno. */
static int connect_to(const struct addrinfo *address) {
    int code = 0;
    socklen_t len = sizeof code;
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    if (connect(fd, address->ai_addr, address->ai_addrlen) != 0) {
        code = errno;
        if (code == EINPROGRESS) {
            bool done = wait_for(fd, POLLOUT, CONNECT_MS) &&
                        getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &len) == 0;
            code = done ? code : errno;
        }
    }
    if (code != 0) {
        (void)close(fd);
        errno = code;
        return -1;
    }
    return fd;
}

static enum tn_status fetch_connect(struct fetch *fetch) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    struct etcd_endpoint endpoint;
    char url[sizeof "http://" + REPLICA_ADDRESS_MAX];
    (void)snprintf(url, sizeof url, "http://%s", fetch->from->http);
    if (strstr(fetch->from->http, "://") != NULL || !etcd_endpoint_parse(url, &endpoint)) {
        return fail(fetch, TN_IO, "its advertise_http is not HOST:PORT of HTTP without TLS");
    }
    int code = getaddrinfo(endpoint.host, endpoint.port, &hints, &found);
    if (code != 0) {
        return fail(fetch, TN_IO, gai_strerror(code));
    }
    for (const struct addrinfo *at = found; at != NULL && fetch->socket < 0; at = at->ai_next) {
        fetch->socket = connect_to(at);
    }
    freeaddrinfo(found);
    return fetch->socket >= 0 ? TN_OK : fail(fetch, TN_IO, strerror(errno));
}

static enum tn_status request_send(struct fetch *fetch, const char *token, uint64_t from_lsn) {
    char text[512];
    int len = snprintf(text, sizeof text,
                       "GET /v1/cluster/snapshot?from=%" PRIu64 " HTTP/1.1\r\nHost: %s\r\n"
                       "Authorization: Bearer %s\r\nConnection: close\r\n\r\n",
                       from_lsn, fetch->from->http, token);
    ssize_t sent = send(fetch->socket, text, (size_t)len, MSG_NOSIGNAL);
    return sent == len ? TN_OK : fail(fetch, TN_IO, "the connection takes no request");
}

/* Receives at least one more byte of the answer, behind what the buffer has. */
static enum tn_status receive(struct fetch *fetch) {
    for (;;) {
        ssize_t got =
            recv(fetch->socket, fetch->buffer + fetch->len, sizeof fetch->buffer - fetch->len, 0);
        if (got > 0) {
            fetch->len += (size_t)got;
            return TN_OK;
        }
        if (got == 0) {
            return fail(fetch, TN_IO, "it ended its answer too early");
        }
        if (errno != EINTR && errno != EAGAIN) {
            return fail(fetch, TN_IO, strerror(errno));
        }
        if (errno == EAGAIN && !wait_for(fetch->socket, POLLIN, SILENCE_MS)) {
            return fail(fetch, TN_IO, strerror(errno));
        }
    }
}

/* ---- The answer ---- */

static enum tn_status head_judge(struct fetch *fetch, const char *head) {
    static const char version[] = "HTTP/1.1 ";
    static const char length[] = "\r\nContent-Length:";
    const char *field = strcasestr(head, length);
    char why[64];
    if (strncmp(head, version, sizeof version - 1) != 0) {
        return fail(fetch, TN_IO, "it does not speak HTTP/1.1");
    }
    long code = strtol(head + sizeof version - 1, NULL, 10);
    (void)snprintf(why, sizeof why, "it answers with HTTP status %ld", code);
    switch (code) {
    case 200:
        break;
    case 401:
        return fail(fetch, TN_DENIED,
                    "it has another secret: cluster_secret_file must be the same on all nodes");
    case 503:
        return fail(fetch, TN_NOTFOUND, "it has no snapshot ready yet");
    default:
        return fail(fetch, TN_IO, why);
    }
    if (field == NULL) {
        return fail(fetch, TN_IO, "it does not say how large the snapshot is");
    }
    fetch->bytes = strtoull(field + sizeof length - 1, NULL, 10);
    return TN_OK;
}

/* Afterwards, the buffer has the beginning of the snapshot. */
static enum tn_status head_read(struct fetch *fetch) {
    static const char end[] = "\r\n\r\n";
    char head[HEAD_MAX + 1];
    const uint8_t *found = NULL;
    while (found == NULL) {
        enum tn_status status = fetch->len < HEAD_MAX
                                    ? receive(fetch)
                                    : fail(fetch, TN_IO, "the head of its answer is too long");
        if (status != TN_OK) {
            return status;
        }
        found = memmem(fetch->buffer, fetch->len < HEAD_MAX ? fetch->len : HEAD_MAX, end, 4);
    }
    size_t len = (size_t)(found - fetch->buffer) + 2;
    memcpy(head, fetch->buffer, len);
    head[len] = '\0';
    enum tn_status status = head_judge(fetch, head);
    fetch->len -= len + 2;
    memmove(fetch->buffer, fetch->buffer + len + 2, fetch->len);
    return status;
}

static enum tn_status body_read(struct fetch *fetch) {
    const struct os *os = fetch->os;
    while (fetch->done < fetch->bytes) {
        enum tn_status status = fetch->len > 0 ? TN_OK : receive(fetch);
        if (status != TN_OK) {
            return status;
        }
        uint64_t left = fetch->bytes - fetch->done;
        size_t len = fetch->len < left ? fetch->len : (size_t)left;
        status = os->write_at(os->ctx, fetch->file, fetch->buffer, len, fetch->done);
        if (status != TN_OK) {
            return fail(fetch, status, tn_status_text(status));
        }
        fetch->done += len;
        fetch->len = 0;
    }
    return TN_OK;
}

static enum tn_status fetch_into(struct fetch *fetch, const char *path) {
    const struct os *os = fetch->os;
    enum tn_status status =
        os->open(os->ctx, path, OS_WRITE | OS_CREATE | OS_TRUNCATE, &fetch->file);
    if (status != TN_OK) {
        return fail(fetch, status, tn_status_text(status));
    }
    status = body_read(fetch);
    (void)os->close(os->ctx, fetch->file);
    return status;
}

enum tn_status node_fetch(void *ctx, const struct replica_node *from, uint64_t from_lsn,
                          const char *path, struct log_error *error) {
    const struct node *node = ctx;
    struct fetch *fetch = malloc(sizeof *fetch);
    if (fetch == NULL) {
        (void)snprintf(error->text, sizeof error->text, "no memory to fetch a snapshot");
        return TN_NOMEM;
    }
    memset(fetch, 0, offsetof(struct fetch, buffer));
    fetch->os = node->os;
    fetch->from = from;
    fetch->error = error;
    fetch->socket = -1;
    enum tn_status status = fetch_connect(fetch);
    if (status == TN_OK) {
        status = request_send(fetch, node->notes.snapshot_token, from_lsn);
    }
    if (status == TN_OK) {
        status = head_read(fetch);
    }
    if (status == TN_OK) {
        status = fetch_into(fetch, path);
    }
    if (fetch->socket >= 0) {
        (void)close(fetch->socket);
    }
    free(fetch);
    return status;
}
