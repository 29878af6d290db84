/* gRPC over HTTP/2 without a connection: what a server may send, byte by byte, and what it
 * means. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "etcd/grpc_session.h"

/* Frames of HTTP/2 as a server sends them, hand-made. */
struct script {
    uint8_t bytes[4096];
    size_t len;
};

enum { DATA = 0, HEADERS = 1, RST = 3, SETTINGS = 4, PING = 6, GOAWAY = 7 };
enum { END_STREAM = 1, END_HEADERS = 4 };

static void add(struct script *script, uint8_t type, uint8_t flags, uint32_t stream,
                const char *payload, size_t len) {
    uint8_t head[9] = {0, (uint8_t)(len >> 8), (uint8_t)len, type, flags, 0, 0, 0, (uint8_t)stream};
    assert_true(script->len + sizeof head + len <= sizeof script->bytes);
    memcpy(script->bytes + script->len, head, sizeof head);
    memcpy(script->bytes + script->len + sizeof head, payload, len);
    script->len += sizeof head + len;
}

#define ADD(script, type, flags, stream, payload) \
    add(script, type, flags, stream, payload, sizeof(payload) - 1)

#define OK_200 "\x88" /* :status 200, from the static table */
#define STATUS_0              \
    "\x00\x0bgrpc-status\x01" \
    "0"
#define STATUS_14                \
    "\x00\x0bgrpc-status\x02"    \
    "14\x00\x0cgrpc-message\x09" \
    "no%20luck"

struct ended {
    struct etcd_stream stream;
    unsigned messages;
    unsigned ends;
    bool detach; /* at the first message */
    struct etcd_end end;
    char last[64];
};

static void on_message(struct etcd_stream *stream, struct tn_bytes message) {
    struct ended *ended = (struct ended *)stream;
    ended->messages++;
    snprintf(ended->last, sizeof ended->last, "%.*s", (int)message.len, (const char *)message.at);
    if (ended->detach) {
        etcd_session_detach(stream);
    }
}

static void on_end(struct etcd_stream *stream, const struct etcd_end *end) {
    struct ended *ended = (struct ended *)stream;
    ended->ends++;
    ended->end = *end;
    if (stream->frame.state == ETCD_FRAME_WHOLE) {
        struct tn_bytes message = etcd_frame_message(&stream->frame);
        snprintf(ended->last, sizeof ended->last, "%.*s", (int)message.len,
                 (const char *)message.at);
    }
}

static const struct etcd_stream_events events = {.message = on_message, .end = on_end};

static struct etcd_session *session_open(void) {
    struct etcd_session_options options = {.authority = "a:1", .answer_bytes_max = 32};
    struct etcd_session *session = etcd_session_new(&options);
    assert_non_null(session);
    return session;
}

static size_t flush(struct etcd_session *session) {
    static uint8_t out[1 << 16];
    size_t len = 0;
    assert_true(etcd_session_output(session, out, sizeof out, &len));
    return len;
}

static void call_start(struct etcd_session *session, struct ended *call, bool streaming) {
    struct etcd_arena arena;
    struct etcd_request request = {.verb = ETCD_STATUS};
    etcd_arena_init(&arena, 1 << 20);
    assert_int_equal(etcd_message_request(&call->stream.out, &arena, 100, &request), TN_OK);
    etcd_arena_free(&arena);
    call->stream.events = &events;
    call->stream.streaming = streaming;
    call->stream.path = "/x/Y";
    assert_true(etcd_session_start(session, &call->stream));
}

static void close_all(struct etcd_session *session, struct ended *call) {
    etcd_session_end(session);
    etcd_session_free(session);
    etcd_stream_free(&call->stream);
}

/* A unary call, answered with a script that is fed in pieces of every size. */
static struct ended answered(const struct script *script, size_t step) {
    struct ended call = {0};
    struct etcd_session *session = session_open();
    call_start(session, &call, false);
    (void)flush(session);
    for (size_t at = 0; at < script->len; at += step) {
        size_t len = script->len - at < step ? script->len - at : step;
        if (!etcd_session_input(session, script->bytes + at, len)) {
            break;
        }
        (void)flush(session);
    }
    close_all(session, &call);
    assert_int_equal(call.ends, 1);
    return call;
}

static void expect(const struct script *script, enum etcd_end_kind kind, int grpc_status,
                   const char *last) {
    for (size_t step = 1; step <= script->len; step++) {
        struct ended call = answered(script, step);
        assert_int_equal(call.end.kind, kind);
        assert_int_equal(call.end.grpc_status, grpc_status);
        assert_string_equal(call.last, last);
    }
}

static void an_answer_with_trailers_is_whole(void **state) {
    struct script script = {0};
    (void)state;
    ADD(&script, SETTINGS, 0, 0, "");
    ADD(&script, HEADERS, END_HEADERS, 1, OK_200);
    ADD(&script, DATA, 0, 1, "\0\0\0\0\5he");
    ADD(&script, DATA, 0, 1, "llo");
    ADD(&script, HEADERS, END_HEADERS | END_STREAM, 1, STATUS_0);
    expect(&script, ETCD_END_TRAILERS, 0, "hello");
}

static void an_error_comes_in_the_headers_alone(void **state) {
    struct script script = {0};
    (void)state;
    ADD(&script, SETTINGS, 0, 0, "");
    ADD(&script, HEADERS, END_HEADERS | END_STREAM, 1, OK_200 STATUS_14);
    expect(&script, ETCD_END_TRAILERS, 14, "");
    struct ended call = answered(&script, script.len);
    assert_string_equal(call.end.message, "no luck");
    assert_int_equal(call.end.http_status, 200);
}

static void an_answer_that_is_cut_off_is_not_whole(void **state) {
    struct script script = {0};
    (void)state;
    ADD(&script, SETTINGS, 0, 0, "");
    ADD(&script, HEADERS, END_HEADERS, 1, OK_200);
    ADD(&script, DATA, 0, 1, "\0\0\0\0\5hel");
    expect(&script, ETCD_END_LOST, -1, "");
    ADD(&script, RST, 0, 1, "\0\0\0\2");
    expect(&script, ETCD_END_RESET, -1, "");
}

static void a_page_of_a_web_server_is_no_answer(void **state) {
    struct script script = {0};
    (void)state;
    ADD(&script, SETTINGS, 0, 0, "");
    ADD(&script, HEADERS, END_HEADERS, 1, "\x8d"); /* :status 404 */
    ADD(&script, DATA, END_STREAM, 1, "<html>not found");
    expect(&script, ETCD_END_TRAILERS, -1, "");
    struct ended call = answered(&script, script.len);
    assert_int_equal(call.end.http_status, 404);
}

static void two_messages_in_a_unary_call_are_a_fault(void **state) {
    struct script script = {0};
    (void)state;
    ADD(&script, SETTINGS, 0, 0, "");
    ADD(&script, HEADERS, END_HEADERS, 1, OK_200);
    ADD(&script, DATA, 0, 1, "\0\0\0\0\1a\0\0\0\0\1b");
    ADD(&script, HEADERS, END_HEADERS | END_STREAM, 1, STATUS_0);
    for (size_t step = 1; step <= script.len; step++) {
        assert_int_equal(answered(&script, step).end.kind, ETCD_END_PROTOCOL);
    }
}

static void an_answer_beyond_the_limit_is_stopped(void **state) {
    struct script script = {0};
    (void)state;
    ADD(&script, SETTINGS, 0, 0, "");
    ADD(&script, HEADERS, END_HEADERS, 1, OK_200);
    ADD(&script, DATA, 0, 1, "\0\0\0\0\x21xxx");
    expect(&script, ETCD_END_TOO_LARGE, -1, "");
}

static void what_the_server_did_not_look_at_was_not_sent(void **state) {
    struct script script = {0};
    (void)state;
    ADD(&script, SETTINGS, 0, 0, "");
    ADD(&script, RST, 0, 1, "\0\0\0\7"); /* refused */
    expect(&script, ETCD_END_UNSENT, -1, "");
    struct script away = {0};
    ADD(&away, SETTINGS, 0, 0, "");
    ADD(&away, GOAWAY, 0, 0, "\0\0\0\0\0\0\0\0bye"); /* the last stream it looked at: 0 */
    expect(&away, ETCD_END_UNSENT, -1, "");
}

static void a_call_outlives_the_announcement_of_a_close(void **state) {
    struct script script = {0};
    struct ended call = {0};
    struct ended late = {0};
    struct etcd_session *session = session_open();
    (void)state;
    call_start(session, &call, false);
    (void)flush(session);
    ADD(&script, SETTINGS, 0, 0, "");
    ADD(&script, GOAWAY, 0, 0, "\0\0\0\1\0\0\0\0");
    assert_true(etcd_session_input(session, script.bytes, script.len));
    assert_true(etcd_session_is_closing(session));
    assert_false(etcd_session_is_ready(session));
    assert_int_equal(call.ends, 0);
    script.len = 0;
    ADD(&script, HEADERS, END_HEADERS | END_STREAM, 1, OK_200 STATUS_0);
    assert_true(etcd_session_input(session, script.bytes, script.len));
    assert_int_equal(call.ends, 1);
    assert_int_equal(call.end.kind, ETCD_END_TRAILERS);
    etcd_stream_free(&late.stream);
    close_all(session, &call);
}

static void a_watch_gets_every_message_until_it_is_detached(void **state) {
    struct script script = {0};
    (void)state;
    ADD(&script, SETTINGS, 0, 0, "");
    ADD(&script, HEADERS, END_HEADERS, 1, OK_200);
    ADD(&script, DATA, 0, 1, "\0\0\0\0\1a\0\0\0\0\2bc\0\0\0\0\1d");
    for (unsigned detach = 0; detach < 2; detach++) {
        struct ended call = {.detach = detach != 0};
        struct etcd_session *session = session_open();
        call_start(session, &call, true);
        (void)flush(session);
        assert_true(etcd_session_input(session, script.bytes, script.len));
        assert_int_equal(call.messages, detach ? 1 : 3);
        assert_string_equal(call.last, detach ? "a" : "d");
        assert_int_equal(etcd_session_streams(session), detach ? 0 : 1);
        if (!detach) {
            etcd_session_ask_progress(&call.stream);
            assert_true(flush(session) > 0);
            etcd_session_ask_progress(&call.stream);
        }
        close_all(session, &call);
        assert_int_equal(call.ends, detach ? 0 : 1);
    }
}

static void bytes_that_are_no_http2_end_the_session(void **state) {
    static const char *const strangers[] = {
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "SSH-2.0-OpenSSH_9.2p1 Debian\r\n",
        "\x15\x03\x03\x01\x02\x02\x46 like an alert of TLS",
    };
    (void)state;
    for (size_t i = 0; i < sizeof strangers / sizeof strangers[0]; i++) {
        struct ended call = {0};
        struct etcd_session *session = session_open();
        call_start(session, &call, false);
        (void)flush(session);
        bool good =
            etcd_session_input(session, (const uint8_t *)strangers[i], strlen(strangers[i]));
        (void)flush(session);
        assert_true(!good || etcd_session_is_over(session));
        assert_false(etcd_session_is_ready(session));
        close_all(session, &call);
        assert_int_equal(call.ends, 1);
    }
}

static void a_flood_of_pings_is_answered_or_ends(void **state) {
    struct ended call = {0};
    struct etcd_session *session = session_open();
    struct script script = {0};
    bool good = true;
    (void)state;
    call_start(session, &call, false);
    ADD(&script, SETTINGS, 0, 0, "");
    for (unsigned i = 0; i < 10000 && good; i++) { /* so that the client has no chance to answer */
        good = etcd_session_input(session, script.bytes, script.len);
        script.len = 0;
        ADD(&script, PING, 0, 0, "12345678");
    }
    assert_false(good);
    close_all(session, &call);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_with_trailers_is_whole),
        cmocka_unit_test(an_error_comes_in_the_headers_alone),
        cmocka_unit_test(an_answer_that_is_cut_off_is_not_whole),
        cmocka_unit_test(a_page_of_a_web_server_is_no_answer),
        cmocka_unit_test(two_messages_in_a_unary_call_are_a_fault),
        cmocka_unit_test(an_answer_beyond_the_limit_is_stopped),
        cmocka_unit_test(what_the_server_did_not_look_at_was_not_sent),
        cmocka_unit_test(a_call_outlives_the_announcement_of_a_close),
        cmocka_unit_test(a_watch_gets_every_message_until_it_is_detached),
        cmocka_unit_test(bytes_that_are_no_http2_end_the_session),
        cmocka_unit_test(a_flood_of_pings_is_answered_or_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
