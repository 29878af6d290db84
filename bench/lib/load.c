/* The generator. It shares the machine with the server it drives, so it is kept cheap: a clock reading
 * a read and a write, no allocation, and replies parsed where they were received. */
#include "load.h"

#include <errno.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../bench.h"
#include "loopback.h"

#define IN_BYTES (64u * 1024u)
#define EVENTS 256

struct connection {
    int socket;
    SSL *ssl;          /* NULL: without TLS */
    uint32_t expected; /* replies on their way */
    uint32_t next;     /* the lane whose reply comes next: lanes are asked in order */
    struct load_lane *lanes;
    uint32_t kept; /* bytes of a reply that is not whole */
    char *keep;
};

struct load {
    int epoll;
    SSL_CTX *tls; /* NULL: without TLS */
    uint32_t connections, depth;
    const struct load_script *script;
    struct connection *of;
    struct load_lane *lanes;
    struct connection **idle; /* a ring of connections that expect no reply: only at a rate */
    uint32_t idle_first, idle_count;
    char *in, *out;
    uint64_t under_way;
    uint64_t count;
    bool sending; /* a connection that has all its replies sends again */
    bool at_rate;
    struct load_histogram *histogram;
};

static _Noreturn void die(const char *what) {
    fprintf(stderr, "bench: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* ---- Latencies ---- */

static uint32_t bucket_of(uint64_t ns) {
    uint64_t units = ns / 64; /* the clock is no finer */
    if (units < 32) {
        return (uint32_t)units;
    }
    uint32_t shift = 59u - (uint32_t)__builtin_clzll(units);
    uint32_t bucket = 16 * shift + (uint32_t)(units >> shift);
    return bucket < LOAD_BUCKETS ? bucket : LOAD_BUCKETS - 1;
}

static double bucket_us(uint32_t bucket) {
    if (bucket < 32) {
        return ((double)bucket + 0.5) * 0.064;
    }
    uint32_t shift = bucket / 16 - 1;
    return ((double)(bucket % 16 + 16) + 0.5) * (double)(1ull << shift) * 0.064;
}

double load_percentile_us(const struct load_histogram *histogram, double part) {
    uint64_t wanted = (uint64_t)(part * (double)histogram->count);
    uint64_t seen = 0;
    uint32_t i = 0;
    for (; i < LOAD_BUCKETS - 1; i++) {
        seen += histogram->of[i];
        if (seen > wanted) {
            break;
        }
    }
    return bucket_us(i);
}

void load_note(struct load_histogram *histogram, uint64_t ns) {
    histogram->of[bucket_of(ns)]++;
    histogram->count++;
    histogram->longest_ns = ns > histogram->longest_ns ? ns : histogram->longest_ns;
}

/* ---- Replies ---- */

/* The line at `at`, and its number if it is one; 0: it is not whole. Else where the next one is. */
static size_t line_parse(const char *data, size_t len, size_t at, int64_t *ret_number) {
    int64_t number = 0;
    size_t i = at + 1;
    bool negative = i < len && data[i] == '-';
    for (i += negative; i < len && data[i] >= '0' && data[i] <= '9'; i++) {
        number = number * 10 + (data[i] - '0');
    }
    while (i < len && data[i] != '\n') {
        i++;
    }
    *ret_number = negative ? -number : number;
    return i < len ? i + 1 : 0;
}

/* One reply from the start of the bytes: how many it takes, 0 if it is not whole. */
static size_t reply_parse(const char *data, size_t len, struct load_reply *reply) {
    size_t at = 0;
    uint64_t left = 1;
    reply->count = 0;
    for (; left > 0; left--) {
        int64_t number;
        size_t next = line_parse(data, len, at, &number);
        if (next == 0) {
            return 0;
        }
        char type = data[at];
        const char *text = data + at + 1;
        size_t size = next - at - 3;
        at = next;
        if (type == '$' && number >= 0) {
            text = data + at;
            size = (size_t)number;
            at += size + 2;
            if (at > len) {
                return 0;
            }
        } else if ((type == '*' || type == '%') && number > 0) {
            left += (uint64_t)number * (type == '%' ? 2 : 1);
        }
        if (reply->count == 0) {
            reply->type = type;
        }
        if (reply->count < LOAD_ELEMENTS) {
            reply->of[reply->count].at = text;
            reply->of[reply->count++].len = (uint32_t)size;
        }
    }
    return at;
}

/* ---- Requests ---- */

static void send_all(const struct connection *connection, const char *bytes, size_t len) {
    while (len > 0) {
        ssize_t sent = connection->ssl != NULL ? SSL_write(connection->ssl, bytes, (int)len)
                                               : send(connection->socket, bytes, len, MSG_NOSIGNAL);
        if (sent < 0 || (sent == 0 && connection->ssl != NULL)) {
            die("cannot send");
        }
        bytes += sent;
        len -= (size_t)sent;
    }
}

/* The next requests of the first `count` lanes, together. */
static void ask(struct load *load, struct connection *connection, uint32_t count, uint64_t due_ns) {
    size_t len = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct load_lane *lane = &connection->lanes[i];
        lane->due_ns = due_ns;
        len += load->script->request(load->script->ctx, lane, load->out + len);
    }
    connection->expected = count;
    connection->next = 0;
    load->under_way += count;
    send_all(connection, load->out, len);
}

static void answered(struct load *load, struct connection *connection, uint64_t now_ns) {
    if (load->at_rate) {
        uint32_t at = load->idle_first + load->idle_count++;
        load->idle[at < load->connections ? at : at - load->connections] = connection;
    } else if (load->sending) {
        ask(load, connection, load->depth, now_ns);
    }
}

static void take(struct load *load, struct connection *connection, const char *data, size_t len,
                 uint64_t now_ns) {
    size_t at = 0;
    while (connection->expected > 0) {
        struct load_reply reply;
        size_t used = reply_parse(data + at, len - at, &reply);
        if (used == 0) {
            break;
        }
        struct load_lane *lane = &connection->lanes[connection->next++];
        if (!load->script->reply(load->script->ctx, lane, &reply)) {
            fprintf(stderr, "bench: not the expected reply: %.*s\n", (int)used, data + at);
            exit(1);
        }
        if (load->histogram != NULL) {
            load_note(load->histogram, now_ns - lane->due_ns);
        }
        at += used;
        connection->expected--;
        load->under_way--;
        load->count++;
    }
    connection->kept = (uint32_t)(len - at);
    if (connection->kept > 0) {
        if (connection->expected == 0 || connection->kept > IN_BYTES / 2) {
            die("a reply that nobody asked for");
        }
        memmove(connection->keep, data + at, connection->kept);
    }
    if (connection->expected == 0) {
        answered(load, connection, now_ns);
    }
}

/* ---- The loop ---- */

static void receive(struct load *load, struct connection *connection) {
    memcpy(load->in, connection->keep, connection->kept);
    char *in = load->in + connection->kept;
    ssize_t got = connection->ssl != NULL ? SSL_read(connection->ssl, in, IN_BYTES)
                                          : recv(connection->socket, in, IN_BYTES, 0);
    if (got <= 0 && connection->ssl != NULL &&
        SSL_get_error(connection->ssl, (int)got) == SSL_ERROR_WANT_READ) {
        return; /* a ticket, which is no reply */
    }
    if (got <= 0) {
        die("cannot receive");
    }
    take(load, connection, load->in, connection->kept + (size_t)got, bench_now_ns());
}

/* Waits for replies, at most so long. */
static void turn_step(struct load *load, uint64_t wait_ns) {
    struct epoll_event events[EVENTS];
    struct timespec wait = {.tv_sec = (time_t)(wait_ns / 1000000000u),
                            .tv_nsec = (long)(wait_ns % 1000000000u)};
    int count = epoll_pwait2(load->epoll, events, EVENTS, &wait, NULL);
    if (count < 0 && errno != EINTR) {
        die("cannot wait");
    }
    for (int i = 0; i < count; i++) {
        receive(load, events[i].data.ptr);
    }
}

#define PATIENCE_NS 30000000000u /* a server that says nothing for so long is stuck */

/* Waits until the last reply has arrived. */
static void turn_end(struct load *load) {
    load->sending = false;
    while (load->under_way > 0) {
        uint64_t before = load->count, start = bench_now_ns();
        turn_step(load, PATIENCE_NS);
        if (load->count == before && bench_now_ns() - start >= PATIENCE_NS) {
            errno = ETIMEDOUT;
            die("no reply");
        }
    }
}

double load_turn(struct load *load, uint64_t ns, struct load_histogram *histogram) {
    uint64_t start = bench_now_ns();
    load->histogram = histogram;
    load->count = 0;
    load->at_rate = false;
    load->sending = true;
    for (uint32_t i = 0; i < load->connections; i++) {
        ask(load, &load->of[i], load->depth, bench_now_ns());
    }
    while (bench_now_ns() - start < ns) {
        turn_step(load, PATIENCE_NS);
    }
    turn_end(load);
    return (double)load->count * 1e9 / (double)(bench_now_ns() - start);
}

void load_round(struct load *load) {
    load->histogram = NULL;
    load->at_rate = false;
    for (uint32_t i = 0; i < load->connections; i++) {
        ask(load, &load->of[i], load->depth, bench_now_ns());
    }
    turn_end(load);
}

void load_turn_at_rate(struct load *load, uint64_t ns, double rate,
                       struct load_histogram *histogram) {
    uint64_t start = bench_now_ns(), sent = 0, now = start;
    load->histogram = histogram;
    load->at_rate = true;
    load->idle_first = 0;
    load->idle_count = load->connections;
    for (uint32_t i = 0; i < load->connections; i++) {
        load->idle[i] = &load->of[i];
    }
    for (; now - start < ns; now = bench_now_ns()) {
        uint64_t due = start + (uint64_t)((double)sent * 1e9 / rate);
        if (load->idle_count > 0 && due <= now) {
            struct connection *connection = load->idle[load->idle_first];
            load->idle_first++;
            load->idle_first = load->idle_first < load->connections ? load->idle_first : 0;
            load->idle_count--;
            ask(load, connection, 1, due);
            sent++;
        } else {
            turn_step(load, load->idle_count == 0 ? PATIENCE_NS : due - now);
        }
    }
    turn_end(load);
    load->at_rate = false;
}

/* ---- Opening and closing ---- */

static int connect_to(uint16_t port) {
    int made = loopback_connect(port);
    if (made < 0) {
        die("cannot connect");
    }
    return made;
}

static void *memory(size_t count, size_t size) {
    void *made = calloc(count, size);
    if (made == NULL) {
        die("no memory");
    }
    return made;
}

/* Blocking, as the sockets are: the handshake is no part of a turn. */
static SSL *tls_connect(SSL_CTX *tls, int socket) {
    SSL *ssl = SSL_new(tls);
    if (ssl == NULL || SSL_set_fd(ssl, socket) != 1 || SSL_connect(ssl) != 1) {
        die("no TLS");
    }
    return ssl;
}

/* Sends the greeting and takes its reply, whatever it is unless an error. */
static void greet(struct load *load, const struct connection *connection) {
    struct load_reply reply;
    size_t len = 0;
    send_all(connection, load->script->hello, strlen(load->script->hello));
    while (len == 0 || reply_parse(load->in, len, &reply) == 0) {
        ssize_t got = recv(connection->socket, load->in + len, IN_BYTES - len, 0);
        if (got <= 0) {
            die("no reply to the greeting");
        }
        len += (size_t)got;
    }
    if (reply.type == '-') {
        errno = EPROTO;
        die("the greeting was refused");
    }
}

static struct load *open_with(SSL_CTX *tls, uint16_t port, uint32_t connections, uint32_t depth,
                              const struct load_script *script) {
    struct load *load = memory(1, sizeof *load);
    *load = (struct load){.epoll = epoll_create1(EPOLL_CLOEXEC),
                          .tls = tls,
                          .connections = connections,
                          .depth = depth,
                          .script = script,
                          .of = memory(connections, sizeof *load->of),
                          .lanes = memory((size_t)connections * depth, sizeof *load->lanes),
                          .idle = memory(connections, sizeof(struct connection *)),
                          .in = memory(2, IN_BYTES),
                          .out = memory(depth, LOAD_REQUEST_MAX)};
    if (load->epoll < 0) {
        die("no epoll");
    }
    for (uint32_t i = 0; i < connections; i++) {
        struct connection *connection = &load->of[i];
        struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = connection}};
        connection->socket = connect_to(port);
        connection->ssl = tls != NULL ? tls_connect(tls, connection->socket) : NULL;
        connection->lanes = load->lanes + (size_t)i * depth;
        connection->keep = memory(1, IN_BYTES / 2);
        for (uint32_t k = 0; k < depth; k++) {
            connection->lanes[k].index = i * depth + k;
        }
        if (script->hello != NULL) {
            greet(load, connection);
        }
        if (epoll_ctl(load->epoll, EPOLL_CTL_ADD, connection->socket, &event) != 0) {
            die("cannot watch a connection");
        }
    }
    return load;
}

struct load *load_open(uint16_t port, uint32_t connections, uint32_t depth,
                       const struct load_script *script) {
    return open_with(NULL, port, connections, depth, script);
}

struct load *load_open_tls(uint16_t port, uint32_t connections, uint32_t depth,
                           const struct load_script *script) {
    SSL_CTX *tls = SSL_CTX_new(TLS_client_method());
    if (tls == NULL) {
        die("no TLS");
    }
    (void)SSL_CTX_clear_mode(tls, SSL_MODE_AUTO_RETRY);
    return open_with(tls, port, connections, depth, script);
}

/* Lanes that are not at their first step ask once more, so that they hold nothing afterwards. */
static void conversations_end(struct load *load) {
    load->histogram = NULL;
    for (uint32_t k = 0; k < load->depth; k++) {
        for (uint32_t i = 0; i < load->connections; i++) {
            struct connection *connection = &load->of[i];
            connection->lanes = load->lanes + (size_t)i * load->depth + k;
            if (connection->lanes->step != 0) {
                ask(load, connection, 1, bench_now_ns());
            }
        }
        turn_end(load);
    }
}

void load_close(struct load *load) {
    conversations_end(load);
    for (uint32_t i = 0; i < load->connections; i++) {
        SSL_free(load->of[i].ssl);
        close(load->of[i].socket);
        free(load->of[i].keep);
    }
    SSL_CTX_free(load->tls);
    close(load->epoll);
    free(load->of);
    free(load->lanes);
    free(load->idle);
    free(load->in);
    free(load->out);
    free(load);
}

void load_ask(uint16_t port, const char *request, char *reply, size_t capacity) {
    struct connection connection = {.socket = connect_to(port)};
    char in[4096];
    size_t len = 0;
    struct load_reply parsed;
    send_all(&connection, request, strlen(request));
    while (len == 0 || reply_parse(in, len, &parsed) == 0) {
        ssize_t got = recv(connection.socket, in + len, sizeof in - len, 0);
        if (got <= 0) {
            die("no reply");
        }
        len += (size_t)got;
    }
    close(connection.socket);
    (void)snprintf(reply, capacity, "%.*s", (int)parsed.of[0].len, parsed.of[0].at);
}
