/* See relay.h. */
#include "nemesis/relay.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"

#define LINKS (NM_NODES * NM_MEMBERS)
#define CONNECTIONS 128u
#define BUFFER 65536u

/* One direction of a connection. */
struct flow {
    int from, to;
    size_t at, len; /* bytes not written yet */
    uint8_t bytes[BUFFER];
};

struct connection {
    bool used;
    unsigned link;
    struct flow there, back;
};

struct nm_relay {
    pthread_t thread;
    int wake;
    atomic_bool stop;
    int listeners[LINKS];
    uint16_t ports[LINKS];
    unsigned targets[NM_MEMBERS];
    _Atomic unsigned links[LINKS];
    unsigned carried[LINKS]; /* the states of the links that the thread saw last */
    struct connection connections[CONNECTIONS];
};

static struct sockaddr_in address_of(unsigned port) {
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
}

static void connection_end(struct connection *c) {
    struct linger reset = {.l_onoff = 1, .l_linger = 0};
    for (unsigned i = 0; i < 2; i++) {
        int fd = i == 0 ? c->there.from : c->there.to;
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        (void)close(fd);
    }
    c->used = false;
}

static void accept_one(struct nm_relay *r, unsigned link) {
    int one = 1;
    struct sockaddr_in to = address_of(r->targets[link % NM_MEMBERS]);
    int client = accept4(r->listeners[link], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (client < 0) {
        return;
    }
    struct connection *c = NULL;
    for (unsigned i = 0; i < CONNECTIONS && c == NULL; i++) {
        c = r->connections[i].used ? NULL : &r->connections[i];
    }
    int server = c == NULL ? -1 : socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool reached = server >= 0 && (connect(server, (struct sockaddr *)&to, sizeof to) == 0 ||
                                   errno == EINPROGRESS);
    if (!reached) {
        (void)close(client);
        if (server >= 0) {
            (void)close(server);
        }
        return;
    }
    (void)setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    (void)setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->used = true;
    c->link = link;
    c->there.from = c->back.to = client;
    c->there.to = c->back.from = server;
    c->there.at = c->there.len = c->back.at = c->back.len = 0;
}

/* False: the connection has ended. */
static bool flow_carry(struct flow *flow, bool drop) {
    if (flow->len == 0) {
        ssize_t got = recv(flow->from, flow->bytes, sizeof flow->bytes, 0);
        if (got <= 0) {
            return got < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOTCONN);
        }
        flow->at = 0;
        flow->len = drop ? 0 : (size_t)got;
    }
    while (flow->len > 0) {
        ssize_t sent = send(flow->to, flow->bytes + flow->at, flow->len, MSG_NOSIGNAL);
        if (sent < 0) {
            return errno == EAGAIN || errno == EINTR || errno == ENOTCONN;
        }
        flow->at += (size_t)sent;
        flow->len -= (size_t)sent;
    }
    return true;
}

/* A link that was cut and is open again. */
static void links_look(struct nm_relay *r) {
    for (unsigned link = 0; link < LINKS; link++) {
        unsigned now = atomic_load(&r->links[link]);
        bool resets = r->carried[link] == NM_LINK_LOST || r->carried[link] == NM_LINK_MUTE;
        if (now == NM_LINK_OPEN && resets) {
            for (unsigned i = 0; i < CONNECTIONS; i++) {
                if (r->connections[i].used && r->connections[i].link == link) {
                    connection_end(&r->connections[i]);
                }
            }
        }
        r->carried[link] = now;
    }
}

static struct pollfd flow_poll(const struct flow *flow, bool carries) {
    if (!carries) {
        return (struct pollfd){.fd = -1};
    }
    return flow->len > 0 ? (struct pollfd){.fd = flow->to, .events = POLLOUT}
                         : (struct pollfd){.fd = flow->from, .events = POLLIN};
}

static void connection_carry(const struct nm_relay *r, struct connection *c,
                             const struct pollfd polls[2]) {
    bool mute = r->carried[c->link] == NM_LINK_MUTE;
    bool good = true;
    if (polls[0].fd >= 0 && polls[0].revents != 0) {
        good = flow_carry(&c->there, false);
    }
    if (good && polls[1].fd >= 0 && polls[1].revents != 0) {
        good = flow_carry(&c->back, mute);
    }
    if (!good) {
        connection_end(c);
    }
}

static void *run(void *arg) {
    struct nm_relay *r = arg;
    static struct pollfd polls[1 + LINKS + 2 * CONNECTIONS];
    while (!atomic_load(&r->stop)) {
        links_look(r);
        polls[0] = (struct pollfd){.fd = r->wake, .events = POLLIN};
        for (unsigned i = 0; i < LINKS; i++) {
            bool open = r->carried[i] == NM_LINK_OPEN || r->carried[i] == NM_LINK_MUTE;
            polls[1 + i] = (struct pollfd){.fd = open ? r->listeners[i] : -1, .events = POLLIN};
        }
        for (unsigned i = 0; i < CONNECTIONS; i++) {
            const struct connection *c = &r->connections[i];
            bool carries = c->used && (r->carried[c->link] == NM_LINK_OPEN ||
                                       r->carried[c->link] == NM_LINK_MUTE);
            polls[1 + LINKS + 2 * i] = flow_poll(&c->there, carries);
            polls[2 + LINKS + 2 * i] = flow_poll(&c->back, carries);
        }
        (void)poll(polls, sizeof polls / sizeof polls[0], -1);
        uint64_t count;
        if (polls[0].revents != 0 && read(r->wake, &count, sizeof count) < 0) {
            continue;
        }
        for (unsigned i = 0; i < CONNECTIONS; i++) {
            if (r->connections[i].used) {
                connection_carry(r, &r->connections[i], &polls[1 + LINKS + 2 * i]);
            }
        }
        for (unsigned i = 0; i < LINKS; i++) {
            if (polls[1 + i].revents != 0) {
                accept_one(r, i);
            }
        }
    }
    return NULL;
}

static void wake(struct nm_relay *r) {
    uint64_t one = 1;
    ssize_t written = write(r->wake, &one, sizeof one);
    TN_ASSERT(written == sizeof one);
}

static bool listen_on(struct nm_relay *r, unsigned link) {
    struct sockaddr_in address = address_of(0);
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool good = fd >= 0 && bind(fd, (struct sockaddr *)&address, len) == 0 && listen(fd, 64) == 0 &&
                getsockname(fd, (struct sockaddr *)&address, &len) == 0;
    r->listeners[link] = fd;
    r->ports[link] = ntohs(address.sin_port);
    return good;
}

struct nm_relay *nm_relay_open(const unsigned targets[NM_MEMBERS]) {
    struct nm_relay *r = calloc(1, sizeof *r);
    bool good = r != NULL;
    for (unsigned i = 0; i < LINKS && good; i++) {
        good = listen_on(r, i);
    }
    if (good) {
        memcpy(r->targets, targets, sizeof r->targets);
        r->wake = eventfd(0, EFD_CLOEXEC);
        good = r->wake >= 0 && pthread_create(&r->thread, NULL, run, r) == 0;
    }
    return good ? r : NULL;
}

void nm_relay_close(struct nm_relay *r) {
    atomic_store(&r->stop, true);
    wake(r);
    pthread_join(r->thread, NULL);
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        if (r->connections[i].used) {
            connection_end(&r->connections[i]);
        }
    }
    for (unsigned i = 0; i < LINKS; i++) {
        (void)close(r->listeners[i]);
    }
    (void)close(r->wake);
    free(r);
}

uint16_t nm_relay_port(const struct nm_relay *r, unsigned node, unsigned member) {
    return r->ports[node * NM_MEMBERS + member];
}

void nm_relay_set(struct nm_relay *r, unsigned node, unsigned member, enum nm_link link) {
    atomic_store(&r->links[node * NM_MEMBERS + member], (unsigned)link);
    wake(r);
}
