/* One GET of a check: whom it reaches, and what it says.
 *
 * wrap: uv_getaddrinfo */
#include "unit/unit.h"

#include <netdb.h>

#include "process/run_health_http.h"

/* The names are those that the linker gives. NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c) */
int __real_uv_getaddrinfo(uv_loop_t *loop, uv_getaddrinfo_t *request, uv_getaddrinfo_cb callback,
                          const char *node, const char *service, const struct addrinfo *hints);

int __wrap_uv_getaddrinfo(uv_loop_t *loop, uv_getaddrinfo_t *request, uv_getaddrinfo_cb callback,
                          const char *node, const char *service, const struct addrinfo *hints);
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c) */

/* A loop with a server that answers, at one address of the machine. */
struct desk {
    uv_loop_t loop;
    uv_tcp_t listener, visitor;
    uv_write_t write;
    bool visited;
    char heard[2048];
    size_t heard_len;
    int port;
    struct run_health_http http;
    unsigned answers, overs;
    bool good;
    char why[160];
};

/* ---- The host ---- */

/* The number of addresses of the host, before its own, at which no server listens. */
static unsigned deaf;
static uv_getaddrinfo_cb resolved;

/* Nobody listens at that port. */
static struct addrinfo *deaf_make(void) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    struct addrinfo *made = NULL;
    assert_int_equal(getaddrinfo("127.0.0.1", "1", &hints, &made), 0);
    return made;
}

static void deaf_first(uv_getaddrinfo_t *request, int status, struct addrinfo *found) {
    for (unsigned i = 0; i < deaf && status == 0; i++) {
        struct addrinfo *first = deaf_make();
        first->ai_next = found;
        found = first;
    }
    resolved(request, status, found);
}

/* NOLINTNEXTLINE(bugprone-reserved-identifier,cert-dcl37-c) */
int __wrap_uv_getaddrinfo(uv_loop_t *loop, uv_getaddrinfo_t *request, uv_getaddrinfo_cb callback,
                          const char *node, const char *service, const struct addrinfo *hints) {
    resolved = callback;
    return __real_uv_getaddrinfo(loop, request, deaf_first, node, service, hints);
}

/* ---- Who answers ---- */

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buffer) {
    struct desk *d = handle->data;
    (void)size;
    *buffer = uv_buf_init(d->heard + d->heard_len, (unsigned)(sizeof d->heard - 1 - d->heard_len));
}

static void on_heard(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer) {
    struct desk *d = stream->data;
    static char text[] = "HTTP/1.1 204 No Content\r\n\r\n";
    uv_buf_t answer = uv_buf_init(text, sizeof text - 1);
    (void)buffer;
    if (n <= 0) {
        return;
    }
    d->heard_len += (size_t)n;
    d->heard[d->heard_len] = '\0';
    if (strstr(d->heard, "\r\n\r\n") != NULL) {
        assert_int_equal(uv_write(&d->write, stream, &answer, 1, NULL), 0);
    }
}

static void on_visitor(uv_stream_t *listener, int status) {
    struct desk *d = listener->data;
    assert_int_equal(status, 0);
    assert_int_equal(uv_tcp_init(&d->loop, &d->visitor), 0);
    d->visitor.data = d;
    d->visited = true;
    assert_int_equal(uv_accept(listener, (uv_stream_t *)&d->visitor), 0);
    assert_int_equal(uv_read_start((uv_stream_t *)&d->visitor, on_alloc, on_heard), 0);
}

static int desk_make(void **state) {
    struct desk *d = calloc(1, sizeof *d);
    struct sockaddr_storage at;
    int len = sizeof at;
    assert_non_null(d);
    deaf = 0;
    assert_int_equal(uv_loop_init(&d->loop), 0);
    assert_int_equal(uv_tcp_init(&d->loop, &d->listener), 0);
    assert_int_equal(uv_ip4_addr("127.0.0.1", 0, (struct sockaddr_in *)&at), 0);
    assert_int_equal(uv_tcp_bind(&d->listener, (struct sockaddr *)&at, 0), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&d->listener, 8, on_visitor), 0);
    assert_int_equal(uv_tcp_getsockname(&d->listener, (struct sockaddr *)&at, &len), 0);
    d->listener.data = d;
    d->port = ntohs(((struct sockaddr_in *)&at)->sin_port);
    *state = d;
    return 0;
}

static int desk_drop(void **state) {
    struct desk *d = *state;
    uv_close((uv_handle_t *)&d->listener, NULL);
    if (d->visited) {
        uv_close((uv_handle_t *)&d->visitor, NULL);
    }
    assert_int_equal(uv_run(&d->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&d->loop), 0);
    free(d);
    return 0;
}

/* ---- The check ---- */

static void on_answered(void *ctx, bool good, const char *why) {
    struct desk *d = ctx;
    d->answers++;
    d->good = good;
    (void)snprintf(d->why, sizeof d->why, "%s", why);
}

static void on_over(void *ctx) {
    ((struct desk *)ctx)->overs++;
}

static void begin(struct desk *d, const char *host, int port) {
    char url[256];
    struct run_health_http_hooks hooks = {.answered = on_answered, .over = on_over};
    (void)snprintf(url, sizeof url, "http://%s:%d/healthz?all", host, port);
    run_health_http_begin(&d->http, &d->loop, url, hooks, d);
}

static void wait_over(struct desk *d) {
    while (d->overs == 0) {
        (void)uv_run(&d->loop, UV_RUN_ONCE);
    }
    assert_int_equal(d->overs, 1);
}

static void who_answers_well_is_well(void **state) {
    struct desk *d = *state;
    char line[64];
    begin(d, "127.0.0.1", d->port);
    wait_over(d);
    assert_int_equal(d->answers, 1);
    assert_true(d->good);
    (void)snprintf(line, sizeof line, "\r\nHost: 127.0.0.1:%d\r\n", d->port);
    assert_non_null(strstr(d->heard, "GET /healthz?all HTTP/1.1\r\n"));
    assert_non_null(strstr(d->heard, line));
}

/* As with localhost, whose first address may be that of the other version of the protocol. */
static void every_address_of_a_host_is_tried(void **state) {
    struct desk *d = *state;
    deaf = 3;
    begin(d, "127.0.0.1", d->port);
    wait_over(d);
    assert_int_equal(d->answers, 1);
    assert_true(d->good);
}

static void who_is_nowhere_is_not_well(void **state) {
    struct desk *d = *state;
    deaf = 2;
    begin(d, "127.0.0.1", 1);
    wait_over(d);
    assert_int_equal(d->answers, 1);
    assert_false(d->good);
    assert_string_equal(d->why, "cannot connect: connection refused");
}

static void it_can_be_given_up_at_any_moment(void **state) {
    struct desk *d = *state;
    deaf = 2;
    for (unsigned turns = 0; d->answers == 0; turns++) {
        d->overs = 0;
        begin(d, "127.0.0.1", 1);
        for (unsigned i = 0; i < turns && d->answers == 0; i++) {
            (void)uv_run(&d->loop, UV_RUN_ONCE);
        }
        if (d->answers == 0) {
            run_health_http_end(&d->http);
        }
        wait_over(d);
    }
}

static void handle_close(uv_handle_t *handle, void *ctx) {
    struct desk *d = ctx;
    if (!uv_is_closing(handle) && handle != (uv_handle_t *)&d->listener) {
        uv_close(handle, NULL);
    }
}

/* A server that has waited long enough closes all handles on its loop; the resolution of the host's
 * name may end only then. */
static void a_loop_that_ends_meanwhile_is_no_harm(void **state) {
    struct desk *d = *state;
    begin(d, "127.0.0.1", d->port);
    run_health_http_end(&d->http);
    uv_walk(&d->loop, handle_close, d);
    uv_unref((uv_handle_t *)&d->listener);
    assert_int_equal(uv_run(&d->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(d->answers, 0);
}

static void an_address_of_version_six_is_in_brackets(void **state) {
    struct desk *d = *state;
    begin(d, "[::1]", d->port);
    run_health_http_end(&d->http);
    wait_over(d);
    assert_string_equal(d->http.host, "::1");
    assert_non_null(strstr(d->http.request, "\r\nHost: [::1]:"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, desk_make, desk_drop)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(who_answers_well_is_well),
        TEST(every_address_of_a_host_is_tried),
        TEST(who_is_nowhere_is_not_well),
        TEST(it_can_be_given_up_at_any_moment),
        TEST(a_loop_that_ends_meanwhile_is_no_harm),
        TEST(an_address_of_version_six_is_in_brackets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
