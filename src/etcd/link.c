#include "etcd/link.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINK_BYTES ((size_t)64 << 10)
/* What one step reads at most, so that a flood does not keep it from the clock. */
#define LINK_READS 64u

enum link_state { LINK_LOOKUP, LINK_CONNECT, LINK_HANDSHAKE, LINK_SETTINGS, LINK_READY, LINK_DEAD };

struct etcd_link {
    enum link_state state;
    struct etcd_link_options options;
    struct etcd_lookup *lookup;
    struct etcd_addresses addresses;
    unsigned address; /* the one being tried */
    int fd;
    struct etcd_tls *tls;
    struct etcd_session *session;
    short events; /* to wait for */
    uint8_t out[LINK_BYTES];
    size_t out_len, out_at;
    bool heard;
    uint8_t in[LINK_BYTES];
    enum etcd_reason reason;
    char error[ETCD_MESSAGE_MAX];
};

/* ---- Dying ---- */

static void link_release(struct etcd_link *link) {
    if (link->lookup != NULL) {
        etcd_lookup_end(link->lookup);
        link->lookup = NULL;
    }
    if (link->tls != NULL) {
        etcd_tls_free(link->tls);
        link->tls = NULL;
    }
    if (link->fd >= 0) {
        (void)close(link->fd);
        link->fd = -1;
    }
}

static void link_die(struct etcd_link *link, enum etcd_reason reason, const char *text) {
    link->state = LINK_DEAD;
    link->reason = reason;
    (void)snprintf(link->error, sizeof link->error, "%s", text);
    link_release(link);
    etcd_session_end(link->session);
}

static void link_die_tls(struct etcd_link *link, const struct etcd_tls_error *error) {
    link_die(link, error->untrusted ? ETCD_UNTRUSTED : ETCD_PROTOCOL, error->text);
}

static void link_refuse(struct etcd_link *link) {
    char text[ETCD_MESSAGE_MAX];
    const char *said = etcd_session_error(link->session);
    (void)snprintf(text, sizeof text, "the server does not speak HTTP/2 as etcd does%s%.200s",
                   said[0] != '\0' ? ": " : "", said);
    link_die(link, ETCD_PROTOCOL, text);
}

static void link_die_socket(struct etcd_link *link, int error) {
    char text[ETCD_MESSAGE_MAX];
    bool ready = link->state == LINK_READY;
    const char *said = etcd_session_error(link->session);
    if (said[0] != '\0' && !etcd_session_is_closing(link->session)) {
        link_refuse(link);
        return;
    }
    if (error != 0) {
        (void)snprintf(text, sizeof text, "%s", strerror(error));
    } else {
        (void)snprintf(text, sizeof text, "the server closed the connection%s%.200s",
                       said[0] != '\0' ? ": " : "", said);
    }
    link_die(link, ready ? ETCD_LOST : ETCD_UNREACHABLE, text);
}

/* ---- Connecting ---- */

/* Tries addresses from link->address on; dies when none is left. */
static void link_connect(struct etcd_link *link, int error) {
    link->state = LINK_CONNECT;
    for (; link->address < link->addresses.count; link->address++) {
        const union etcd_socket_address *to = &link->addresses.at[link->address];
        socklen_t len = to->any.sa_family == AF_INET6 ? sizeof to->v6 : sizeof to->v4;
        int one = 1;
        link->fd = socket(to->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (link->fd < 0) {
            error = errno;
            continue;
        }
        (void)setsockopt(link->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (connect(link->fd, &to->any, len) == 0 || errno == EINPROGRESS) {
            link->events = POLLOUT;
            return;
        }
        error = errno;
        (void)close(link->fd);
        link->fd = -1;
    }
    link_die_socket(link, error);
}

static bool step_lookup(struct etcd_link *link) {
    const char *error = NULL;
    if (!etcd_lookup_done(link->lookup, &link->addresses, &error)) {
        return false;
    }
    if (error != NULL) {
        link_die(link, ETCD_UNREACHABLE, error);
        return false;
    }
    etcd_lookup_end(link->lookup);
    link->lookup = NULL;
    link_connect(link, 0);
    return true;
}

static bool step_connect(struct etcd_link *link) {
    struct pollfd ready = {.fd = link->fd, .events = POLLOUT};
    int error = 0;
    socklen_t len = sizeof error;
    if (poll(&ready, 1, 0) <= 0) {
        return false;
    }
    if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0 || error != 0) {
        (void)close(link->fd);
        link->fd = -1;
        link->address++;
        link_connect(link, error);
        return true;
    }
    if (!link->options.endpoint->tls) {
        link->state = LINK_SETTINGS;
        return true;
    }
    struct etcd_tls_error tls_error;
    link->tls =
        etcd_tls_new(&link->options.files, link->options.endpoint->host, link->fd, &tls_error);
    if (link->tls == NULL) {
        link_die_tls(link, &tls_error);
        return false;
    }
    link->state = LINK_HANDSHAKE;
    return true;
}

static bool step_handshake(struct etcd_link *link) {
    struct etcd_tls_error error;
    switch (etcd_tls_handshake(link->tls, &error)) {
    case ETCD_TLS_OK:
        link->state = LINK_SETTINGS;
        return true;
    case ETCD_TLS_READ:
        link->events = POLLIN;
        return false;
    case ETCD_TLS_WRITE:
        link->events = POLLOUT;
        return false;
    case ETCD_TLS_CLOSED:
        link_die_socket(link, errno);
        return false;
    case ETCD_TLS_FAILED:
        link_die_tls(link, &error);
        return false;
    }
    return false;
}

/* ---- Bytes ---- */

enum io { IO_DONE, IO_WAIT, IO_DEAD };

static enum io io_of_tls(struct etcd_link *link, enum etcd_tls_result result,
                         const struct etcd_tls_error *error) {
    switch (result) {
    case ETCD_TLS_OK:
        return IO_DONE;
    case ETCD_TLS_READ:
        return IO_WAIT; /* POLLIN is always waited for */
    case ETCD_TLS_WRITE:
        link->events |= POLLOUT;
        return IO_WAIT;
    case ETCD_TLS_CLOSED:
        link_die_socket(link, errno);
        return IO_DEAD;
    case ETCD_TLS_FAILED:
        link_die_tls(link, error);
        return IO_DEAD;
    }
    return IO_DEAD;
}

static enum io link_read(struct etcd_link *link, size_t *ret_len) {
    if (link->tls != NULL) {
        struct etcd_tls_error error;
        enum etcd_tls_result result =
            etcd_tls_read(link->tls, link->in, sizeof link->in, ret_len, &error);
        return io_of_tls(link, result, &error);
    }
    ssize_t got = recv(link->fd, link->in, sizeof link->in, 0);
    if (got > 0) {
        *ret_len = (size_t)got;
        return IO_DONE;
    }
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return IO_WAIT;
    }
    link_die_socket(link, got == 0 ? 0 : errno);
    return IO_DEAD;
}

static enum io link_write(struct etcd_link *link) {
    const uint8_t *bytes = link->out + link->out_at;
    size_t len = link->out_len - link->out_at;
    size_t sent = 0;
    if (link->tls != NULL) {
        struct etcd_tls_error error;
        enum etcd_tls_result result = etcd_tls_write(link->tls, bytes, len, &sent, &error);
        enum io io = io_of_tls(link, result, &error);
        link->out_at += io == IO_DONE ? sent : 0;
        return io;
    }
    ssize_t result = send(link->fd, bytes, len, MSG_NOSIGNAL);
    if (result >= 0) {
        link->out_at += (size_t)result;
        return IO_DONE;
    }
    if (errno == EAGAIN || errno == EINTR) {
        link->events |= POLLOUT;
        return IO_WAIT;
    }
    link_die_socket(link, errno);
    return IO_DEAD;
}

/* Sends what the session has to say until the socket is full. */
static void link_flush(struct etcd_link *link) {
    for (;;) {
        if (link->out_at == link->out_len) {
            link->out_at = link->out_len = 0;
            if (!etcd_session_output(link->session, link->out, sizeof link->out, &link->out_len)) {
                link_die(link, ETCD_PROTOCOL, "out of memory");
                return;
            }
            if (link->out_len == 0) {
                return;
            }
        }
        if (link_write(link) != IO_DONE) {
            return;
        }
    }
}

/* True if there may be more to read at once. */
static bool step_bytes(struct etcd_link *link) {
    bool more = true;
    link->events = POLLIN;
    link_flush(link);
    for (unsigned i = 0; i < LINK_READS && more && link->state != LINK_DEAD; i++) {
        size_t len = 0;
        more = link_read(link, &len) == IO_DONE;
        link->heard |= more;
        if (more && !etcd_session_input(link->session, link->in, len)) {
            link_flush(link); /* its last words */
            if (link->state != LINK_DEAD) {
                link_refuse(link);
            }
        }
    }
    if (link->state == LINK_SETTINGS && etcd_session_is_ready(link->session)) {
        link->state = LINK_READY;
    }
    if (link->state != LINK_DEAD) {
        link_flush(link);
    }
    if (link->state != LINK_DEAD && etcd_session_is_over(link->session)) {
        if (etcd_session_is_closing(link->session)) {
            link_die_socket(link, 0);
        } else {
            link_refuse(link);
        }
    }
    return more && link->state != LINK_DEAD;
}

/* ---- The link ---- */

struct etcd_link *etcd_link_open(const struct etcd_link_options *options) {
    struct etcd_link *link = calloc(1, sizeof *link);
    if (link == NULL) {
        return NULL;
    }
    struct etcd_session_options session = {
        .authority = options->endpoint->authority,
        .tls = options->endpoint->tls,
        .answer_bytes_max = options->answer_bytes_max,
    };
    link->options = *options;
    link->fd = -1;
    link->session = etcd_session_new(&session);
    if (link->session == NULL) {
        free(link);
        return NULL;
    }
    if (etcd_address_numeric(options->endpoint, &link->addresses)) {
        link_connect(link, 0);
        return link;
    }
    link->state = LINK_LOOKUP;
    link->lookup = etcd_lookup_begin(options->endpoint);
    if (link->lookup == NULL) {
        link_die(link, ETCD_UNREACHABLE, "the lookup of the name cannot be started");
    }
    return link;
}

void etcd_link_close(struct etcd_link *link) {
    if (link->state == LINK_READY) {
        link_flush(link); /* resets that are on their way */
    }
    link_release(link);
    etcd_session_end(link->session);
    etcd_session_free(link->session);
    free(link);
}

static bool step_once(struct etcd_link *link) {
    switch (link->state) {
    case LINK_LOOKUP:
        return step_lookup(link);
    case LINK_CONNECT:
        return step_connect(link);
    case LINK_HANDSHAKE:
        return step_handshake(link);
    case LINK_SETTINGS:
    case LINK_READY:
        return step_bytes(link);
    case LINK_DEAD:
        return false;
    }
    return false;
}

bool etcd_link_step(struct etcd_link *link, uint64_t now_ms) {
    enum link_state before;
    bool more;
    do { /* at most once for each state and address */
        before = link->state;
        more = step_once(link);
    } while (more && link->state != before);
    if (link->state < LINK_READY && now_ms >= link->options.ready_by_ms) {
        static const char *const waited[] = {
            [LINK_LOOKUP] = "the lookup of the name took too long",
            [LINK_CONNECT] = "the connection took too long",
            [LINK_HANDSHAKE] = "the TLS handshake took too long",
            [LINK_SETTINGS] = "the server did not begin to speak HTTP/2",
        };
        link_die(link, ETCD_UNREACHABLE, waited[link->state]);
    }
    return more && link->state != LINK_DEAD;
}

uint64_t etcd_link_next_ms(const struct etcd_link *link) {
    return link->state < LINK_READY ? link->options.ready_by_ms : ETCD_NEVER;
}

bool etcd_link_poll(const struct etcd_link *link, struct pollfd *out) {
    if (link->state == LINK_DEAD) {
        return false;
    }
    if (link->state == LINK_LOOKUP) {
        *out = (struct pollfd){.fd = etcd_lookup_fd(link->lookup), .events = POLLIN};
        return true;
    }
    short events = link->events;
    if (link->state >= LINK_SETTINGS && etcd_session_wants_output(link->session)) {
        events |= POLLOUT;
    }
    *out = (struct pollfd){.fd = link->fd, .events = events};
    return true;
}

bool etcd_link_heard(struct etcd_link *link) {
    bool heard = link->heard;
    link->heard = false;
    return heard;
}

bool etcd_link_is_dead(const struct etcd_link *link) {
    return link->state == LINK_DEAD;
}

bool etcd_link_is_ready(const struct etcd_link *link) {
    return link->state == LINK_READY && etcd_session_is_ready(link->session);
}

bool etcd_link_is_closing(const struct etcd_link *link) {
    return link->state == LINK_READY && etcd_session_is_closing(link->session);
}

enum etcd_reason etcd_link_reason(const struct etcd_link *link) {
    return link->reason;
}

const char *etcd_link_error(const struct etcd_link *link) {
    return link->error;
}

struct etcd_session *etcd_link_session(struct etcd_link *link) {
    return link->session;
}
