/* The command line's client and a host with several addresses, of which some lead nowhere. */
#include "unit/unit.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#include "cli/resp_client.h"

#define ADDRESSES_MAX 4u
#define TIMEOUT_MS 2000u

/* ---- The host: what its name stands for ---- */

static struct host {
    struct addrinfo found[ADDRESSES_MAX];
    struct sockaddr_in addresses[ADDRESSES_MAX];
    unsigned count;
} host;

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): the library's names are reserved

/* In place of those of the C library. "last" has the last address only. */
int getaddrinfo(const char *name, const char *port, const struct addrinfo *hints,
                struct addrinfo **ret) {
    (void)port;
    (void)hints;
    *ret = strcmp(name, "last") == 0 ? &host.found[host.count - 1] : host.found;
    return 0;
}

void freeaddrinfo(struct addrinfo *found) {
    assert_true(found >= host.found && found < host.found + host.count);
}

static void host_add(const struct sockaddr_in *address) {
    unsigned i = host.count++;
    host.addresses[i] = *address;
    host.found[i] = (struct addrinfo){.ai_family = AF_INET,
                                      .ai_socktype = SOCK_STREAM,
                                      .ai_addr = (struct sockaddr *)&host.addresses[i],
                                      .ai_addrlen = sizeof host.addresses[i]};
    if (i > 0) {
        host.found[i - 1].ai_next = &host.found[i];
    }
}

/* ---- Time: it passes only while a connection is not answered ---- */

static uint64_t now_ms;

static uint64_t clock_read(void *ctx) {
    (void)ctx;
    return now_ms;
}

static bool is_answered(int socket) {
    struct tcp_info info;
    socklen_t len = sizeof info;
    assert_int_equal(getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &len), 0);
    return info.tcpi_state != TCP_SYN_SENT;
}

/* In place of that of the C library. Without time left there is no answer, however fast the machine is. */
int poll(struct pollfd *on, nfds_t count, int timeout) {
    if (timeout > 0 && is_answered(on->fd)) {
        return ppoll(on, count, NULL, NULL);
    }
    now_ms += (uint64_t)timeout;
    return 0;
}

// NOLINTEND(readability-inconsistent-declaration-parameter-name)

/* ---- Machines ---- */

static int listener_make(struct sockaddr_in *ret_address, int backlog) {
    socklen_t len = sizeof *ret_address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *ret_address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)ret_address, len), 0);
    assert_int_equal(listen(listener, backlog), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)ret_address, &len), 0);
    return listener;
}

/* An address that answers nothing: Linux drops the requests of further connections when the queue of those that
 * were not accepted is full. */
struct hole {
    int listener, waits;
};

static struct hole hole_dig(void) {
    struct sockaddr_in address;
    struct hole hole = {.listener = listener_make(&address, 0)};
    hole.waits = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(hole.waits, (struct sockaddr *)&address, sizeof address), 0);
    host_add(&address);
    return hole;
}

static void hole_fill(const struct hole *hole) {
    close(hole->waits);
    close(hole->listener);
}

struct server {
    int listener;
    pthread_t thread;
};

static void *server_run(void *ctx) {
    static const char hello[] = "%1\r\n+server\r\n+tenure\r\n";
    const struct server *server = ctx;
    char request[4096];
    int socket = accept(server->listener, NULL, NULL);
    if (recv(socket, request, sizeof request, 0) > 0) {
        (void)!send(socket, hello, sizeof hello - 1, MSG_NOSIGNAL);
    }
    while (recv(socket, request, sizeof request, 0) > 0) {
    }
    close(socket);
    return NULL;
}

static void server_begin(struct server *server) {
    struct sockaddr_in address;
    server->listener = listener_make(&address, 1);
    host_add(&address);
    assert_int_equal(pthread_create(&server->thread, NULL, server_run, server), 0);
}

/* Also if no client came. */
static void server_end(struct server *server) {
    assert_int_equal(shutdown(server->listener, SHUT_RDWR), 0);
    assert_int_equal(pthread_join(server->thread, NULL), 0);
    close(server->listener);
}

/* ---- Tests ---- */

static int host_reset(void **state) {
    (void)state;
    host = (struct host){.count = 0};
    return 0;
}

static enum cli_link host_open(struct cli_client *client) {
    struct os os = *os_posix();
    os.clock_boot_ms = clock_read;
    struct cli_settings settings = {
        .os = &os, .host = "several", .port = "1", .timeout_ms = TIMEOUT_MS};
    return cli_client_open(client, &settings);
}

static void an_address_that_leads_nowhere_leaves_time_for_the_next(void **state) {
    (void)state;
    for (unsigned holes = 1; holes < ADDRESSES_MAX; holes++) {
        struct hole dug[ADDRESSES_MAX];
        struct server server;
        struct cli_client client;
        (void)host_reset(NULL);
        for (unsigned i = 0; i < holes; i++) {
            dug[i] = hole_dig();
        }
        server_begin(&server);
        enum cli_link link = host_open(&client);
        cli_client_close(&client);
        server_end(&server);
        for (unsigned i = 0; i < holes; i++) {
            hole_fill(&dug[i]);
        }
        assert_string_equal(client.error, "");
        assert_int_equal(link, CLI_LINK_OK);
    }
}

static void no_address_that_answers_is_told(void **state) {
    struct cli_client client;
    (void)state;
    struct hole first = hole_dig();
    struct hole second = hole_dig();
    assert_int_equal(host_open(&client), CLI_LINK_UNREACHABLE);
    assert_string_equal(client.error, "cannot connect to several:1: Connection timed out");
    hole_fill(&first);
    hole_fill(&second);
}

static void a_node_that_leads_nowhere_leaves_time_for_the_next(void **state) {
    struct os os = *os_posix();
    struct cli_settings settings = {
        .os = &os,
        .nodes = {{.host = "first", .port = "1"}, {.host = "last", .port = "1"}},
        .node_count = 2,
        .timeout_ms = TIMEOUT_MS};
    struct cli_client client;
    struct server server;
    (void)state;
    os.clock_boot_ms = clock_read;
    struct hole hole = hole_dig();
    server_begin(&server);
    host.found[0].ai_next = NULL;
    uint64_t begun_ms = now_ms;
    assert_int_equal(cli_owner_open(&client, &settings), CLI_LINK_OK);
    assert_true(now_ms - begun_ms <= TIMEOUT_MS / 2);
    cli_client_close(&client);
    server_end(&server);
    hole_fill(&hole);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_node_that_leads_nowhere_leaves_time_for_the_next, host_reset),
        cmocka_unit_test_setup(an_address_that_leads_nowhere_leaves_time_for_the_next, host_reset),
        cmocka_unit_test_setup(no_address_that_answers_is_told, host_reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
