/* A TLS stream against a client that cuts what it sends anywhere: byte by byte, in random pieces, with
 * replies that it does not read for a while. What comes out must be what went in, and what was changed
 * on the way must never come out. */
#include "unit/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include "server/listen_address.h"
#include "server/transport_tls.h"

#define ECHO_MAX (4u << 20)
#define SHARE_MAX 16384u

/* ---- The server: sends back what it gets ---- */

struct echo {
    uv_loop_t loop;
    struct server_tls tls;
    struct server_counters counters;
    struct transport_listener listener;
    struct transport transport;
    struct tn_prng random;
    uint8_t share[SHARE_MAX];
    uint8_t *out, *sending; /* bytes that wait, and bytes that the transport has */
    size_t out_len, got;
    uint16_t port;
    bool established, ended, closed, open;
    int failed;
};

static bool tell(void *ctx) {
    (void)ctx;
    return false;
}

static uv_buf_t echo_buffer(void *owner) {
    struct echo *echo = owner;
    uint32_t len = 1 + unit_below(&echo->random, unit_below(&echo->random, 3) == 0 ? 7 : SHARE_MAX);
    return uv_buf_init((char *)echo->share, len);
}

static void echo_send(struct echo *echo) {
    if (echo->sending != NULL || echo->out_len == 0) {
        return;
    }
    int took = transport_try_write(&echo->transport, echo->out, echo->out_len);
    assert_true(took >= 0);
    size_t rest = echo->out_len - (size_t)took;
    if (rest > 0) {
        echo->sending = malloc(rest);
        memcpy(echo->sending, echo->out + took, rest);
        assert_int_equal(transport_write(&echo->transport, echo->sending, rest), 0);
    }
    echo->out_len = 0;
}

static void echo_read(void *owner, const uint8_t *bytes, ssize_t count) {
    struct echo *echo = owner;
    if (count == UV_EOF) {
        echo->ended = true;
    } else if (count < 0) {
        echo->failed = (int)count;
    }
    if (count < 0) {
        transport_stop(&echo->transport);
    }
    if (count <= 0) {
        return;
    }
    assert_true(echo->established);
    assert_true(echo->out_len + (size_t)count <= ECHO_MAX);
    memcpy(echo->out + echo->out_len, bytes, (size_t)count);
    echo->out_len += (size_t)count;
    echo->got += (size_t)count;
    echo_send(echo);
}

static void echo_written(void *owner, int status) {
    struct echo *echo = owner;
    free(echo->sending);
    echo->sending = NULL;
    if (status == 0) {
        echo_send(echo);
    }
}

static void echo_established(void *owner) {
    ((struct echo *)owner)->established = true;
}

static void echo_closed(void *owner) {
    ((struct echo *)owner)->closed = true;
}

static const struct transport_calls echo_calls = {.buffer = echo_buffer,
                                                  .read = echo_read,
                                                  .written = echo_written,
                                                  .established = echo_established,
                                                  .closed = echo_closed};

static void echo_accept(void *owner) {
    struct echo *echo = owner;
    transport_init(&echo->transport, &echo->loop, TRANSPORT_TLS, &echo_calls, echo);
    assert_int_equal(transport_accept(&echo->transport, &echo->listener), 0);
    assert_true(transport_tls_begin(&echo->transport, &echo->tls));
    transport_start(&echo->transport);
    echo->open = true;
}

static void echo_begin(struct echo *echo, const char *dir, struct tn_prng random) {
    char certificate[256], key[256], reason[SERVER_TLS_REASON_MAX];
    struct sockaddr_storage address;
    memset(echo, 0, sizeof *echo);
    echo->random = random;
    echo->out = malloc(ECHO_MAX);
    snprintf(certificate, sizeof certificate, "%s/server.pem", dir);
    snprintf(key, sizeof key, "%s/server-key.pem", dir);
    assert_int_equal(uv_loop_init(&echo->loop), 0);
    echo->tls.loop = &echo->loop;
    echo->tls.counters = &echo->counters;
    echo->tls.tell = tell;
    const struct server_tls_files files = {.certificate = certificate, .key = key};
    assert_true(server_tls_init(&echo->tls, &files, reason));
    assert_int_equal(server_address_make("127.0.0.1", 0, &address), 0);
    transport_listener_init(&echo->listener, &echo->loop, TRANSPORT_TLS, echo_accept, echo);
    assert_int_equal(transport_listen_tcp(&echo->listener, &address, 4096), 0);
    echo->port = server_address_port(&address);
}

static void echo_end(struct echo *echo) {
    if (echo->open) {
        transport_close(&echo->transport);
    }
    transport_listener_close(&echo->listener);
    uv_close((uv_handle_t *)&echo->tls.soon, NULL);
    uv_run(&echo->loop, UV_RUN_DEFAULT);
    assert_true(!echo->open || echo->closed);
    assert_int_equal(uv_loop_close(&echo->loop), 0);
    server_tls_free(&echo->tls);
    free(echo->out);
    free(echo->sending);
}

/* ---- The client: OpenSSL over memory; what it made is sent in pieces ---- */

struct client {
    SSL_CTX *context;
    SSL *ssl;
    BIO *in, *out;
    int socket;
};

static void client_begin(struct client *client, const struct echo *echo, int version) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons(echo->port)};
    int small = 4096;
    client->context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_min_proto_version(client->context, version);
    SSL_CTX_set_max_proto_version(client->context, version);
    client->ssl = SSL_new(client->context);
    client->in = BIO_new(BIO_s_mem());
    client->out = BIO_new(BIO_s_mem());
    BIO_set_mem_eof_return(client->in, -1);
    SSL_set_bio(client->ssl, client->in, client->out);
    SSL_set_connect_state(client->ssl);
    client->socket = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(client->socket, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    assert_int_equal(connect(client->socket, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(fcntl(client->socket, F_SETFL, O_NONBLOCK), 0);
}

static void client_end(struct client *client) {
    SSL_free(client->ssl);
    SSL_CTX_free(client->context);
    close(client->socket);
}

/* Sends at most `most` of the bytes that wait; true: some left. */
static bool client_send(struct client *client, size_t most) {
    char *bytes;
    long len = BIO_get_mem_data(client->out, &bytes);
    size_t piece = (size_t)len < most ? (size_t)len : most;
    ssize_t sent = piece > 0 ? send(client->socket, bytes, piece, MSG_NOSIGNAL) : 0;
    if (sent <= 0) {
        return false;
    }
    char thrown[65536];
    for (ssize_t left = sent; left > 0;) {
        int got = BIO_read(client->out, thrown,
                           left < (ssize_t)sizeof thrown ? (int)left : (int)sizeof thrown);
        assert_true(got > 0);
        left -= got;
    }
    return true;
}

static void client_receive(struct client *client, size_t most) {
    char bytes[65536];
    ssize_t len = recv(client->socket, bytes, most < sizeof bytes ? most : sizeof bytes, 0);
    if (len > 0) {
        assert_int_equal(BIO_write(client->in, bytes, (int)len), len);
    }
}

struct shape {
    int version;
    size_t total;
    uint32_t piece_max; /* at most this much ciphertext at once */
    uint32_t pause;     /* one turn in so many reads nothing */
};

static uint8_t byte_at(size_t i) {
    return (uint8_t)(i * 31 + (i >> 8) * 7);
}

/* Sends `total` bytes and gets them back. */
static void walk(struct echo *echo, struct client *client, const struct shape *shape) {
    size_t sent = 0, got = 0;
    uint8_t bytes[20000];
    while (got < shape->total) {
        (void)SSL_do_handshake(client->ssl);
        if (SSL_is_init_finished(client->ssl) && sent < shape->total &&
            BIO_pending(client->out) < 100000) {
            size_t len = 1 + unit_below(&echo->random, sizeof bytes - 1);
            len = len < shape->total - sent ? len : shape->total - sent;
            for (size_t i = 0; i < len; i++) {
                bytes[i] = byte_at(sent + i);
            }
            assert_int_equal(SSL_write(client->ssl, bytes, (int)len), (int)len);
            sent += len;
        }
        client_send(client, 1 + unit_below(&echo->random, shape->piece_max));
        uv_run(&echo->loop, UV_RUN_NOWAIT);
        assert_int_equal(echo->failed, 0);
        if (unit_below(&echo->random, shape->pause) == 0) {
            client_receive(client, 1 + unit_below(&echo->random, 65535));
        }
        int len = SSL_read(client->ssl, bytes, sizeof bytes);
        for (int i = 0; i < len; i++) {
            assert_int_equal(bytes[i], byte_at(got + (size_t)i));
        }
        got += len > 0 ? (size_t)len : 0;
    }
    assert_int_equal(echo->got, shape->total);
}

static char dir[] = "/tmp/tenure-tls-XXXXXX";

static int certificates_make(void **state) {
    char command[512];
    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(command, sizeof command,
             "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "
             "%s/server-key.pem -out %s/server.pem -days 30 -subj /CN=localhost 2>/dev/null",
             dir, dir);
    return system(command);
}

static int certificates_remove(void **state) {
    char path[256];
    (void)state;
    snprintf(path, sizeof path, "%s/server.pem", dir);
    unlink(path);
    snprintf(path, sizeof path, "%s/server-key.pem", dir);
    unlink(path);
    return rmdir(dir);
}

static void bytes_survive_any_cut(void **state) {
    static const struct shape shapes[] = {
        {TLS1_3_VERSION, 3000, 1, 1},         {TLS1_2_VERSION, 3000, 1, 1},
        {TLS1_3_VERSION, 600000, 5000, 1},    {TLS1_2_VERSION, 600000, 5000, 4},
        {TLS1_3_VERSION, 1500000, 60000, 50}, {TLS1_3_VERSION, 200000, 100, 2}};
    struct tn_prng random = unit_random();
    (void)state;
    for (unsigned i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct echo echo;
        struct client client;
        tn_prng_next(&random);
        echo_begin(&echo, dir, random);
        client_begin(&client, &echo, shapes[i].version);
        walk(&echo, &client, &shapes[i]);
        assert_int_equal(echo.counters.handshakes, 1);
        /* The client ends TLS cleanly: the server sees an end, not a failure. */
        SSL_shutdown(client.ssl);
        while (!echo.ended) {
            client_send(&client, SIZE_MAX);
            uv_run(&echo.loop, UV_RUN_NOWAIT);
            assert_int_equal(echo.failed, 0);
        }
        client_end(&client);
        echo_end(&echo);
    }
}

/* Sends the bytes of a whole session with one of them changed. */
static void changed_once(struct tn_prng random, size_t at, uint8_t mask) {
    struct echo echo;
    struct client client;
    size_t done = 0;
    bool wrote = false;
    echo_begin(&echo, dir, random);
    client_begin(&client, &echo, TLS1_3_VERSION);
    for (unsigned turn = 0; turn < 100000 && echo.failed == 0 && echo.got < 5000; turn++) {
        char *bytes;
        int result = SSL_do_handshake(client.ssl);
        if (result == 1 && !wrote) {
            uint8_t text[5000] = {7};
            assert_int_equal(SSL_write(client.ssl, text, sizeof text), sizeof text);
            wrote = true;
        } else if (result != 1 && SSL_get_error(client.ssl, result) != SSL_ERROR_WANT_READ) {
            break; /* the server's flight was judged by the client; nothing to see here */
        }
        long len = BIO_get_mem_data(client.out, &bytes);
        if (at >= done && at < done + (size_t)len) {
            bytes[at - done] = (char)(bytes[at - done] ^ mask);
        }
        size_t before = (size_t)BIO_pending(client.out);
        client_send(&client, SIZE_MAX);
        done += before - (size_t)BIO_pending(client.out);
        uv_run(&echo.loop, UV_RUN_NOWAIT);
        client_receive(&client, SIZE_MAX);
        if (wrote && done <= at) {
            break; /* the change lies behind all that is sent */
        }
    }
    assert_true(echo.got == 0 || echo.got == 5000);
    assert_true(done <= at || echo.got == 0 || !wrote);
    client_end(&client);
    uv_run(&echo.loop, UV_RUN_NOWAIT);
    echo_end(&echo);
}

static void a_changed_byte_never_comes_through(void **state) {
    struct tn_prng random = unit_random();
    (void)state;
    for (unsigned i = 0; i < 60; i++) {
        changed_once(random, unit_below(&random, 5600), (uint8_t)(1u << unit_below(&random, 8)));
    }
}

static void other_protocols_end_at_the_first_byte(void **state) {
    static const char *const texts[] = {"GET / HTTP/1.1\r\n\r\n", "*1\r\n$4\r\nPING\r\n", "\x80",
                                        "\r\n"};
    struct tn_prng random = unit_random();
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct echo echo;
        struct client client;
        echo_begin(&echo, dir, random);
        client_begin(&client, &echo, TLS1_3_VERSION);
        assert_true(send(client.socket, texts[i], strlen(texts[i]), MSG_NOSIGNAL) > 0);
        while (echo.failed == 0) {
            uv_run(&echo.loop, UV_RUN_NOWAIT);
        }
        assert_int_equal(echo.counters.dropped[SERVER_DROP_FOREIGN], 1);
        assert_int_equal(echo.counters.handshakes_failed, 1);
        client_end(&client);
        echo_end(&echo);
    }
}

static void a_warning_comes_once_a_day(void **state) {
    struct server_tls tls = {.expires_s = 100 * 86400};
    (void)state;
    assert_false(server_tls_must_warn(&tls, 86 * 86400));
    assert_true(server_tls_must_warn(&tls, 86 * 86400 + 1));
    assert_false(server_tls_must_warn(&tls, 87 * 86400));
    assert_true(server_tls_must_warn(&tls, 87 * 86400 + 1));
    assert_true(server_tls_must_warn(&tls, 101 * 86400));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(bytes_survive_any_cut),
                                       cmocka_unit_test(a_changed_byte_never_comes_through),
                                       cmocka_unit_test(other_protocols_end_at_the_first_byte),
                                       cmocka_unit_test(a_warning_comes_once_a_day)};
    return cmocka_run_group_tests(tests, certificates_make, certificates_remove);
}
