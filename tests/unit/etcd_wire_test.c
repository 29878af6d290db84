/* What the client of etcd makes of bytes: frames, statuses, messages, endpoints. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "etcd/address.h"
#include "etcd/etcd_client.h"
#include "etcd/grpc_frame.h"
#include "etcd/message.h"
#include "etcd/verdict.h"

static struct tn_bytes text(const char *s) {
    return tn_bytes_of(s, strlen(s));
}

/* ---- Frames ---- */

static void frames_come_whole_however_they_are_cut(void **state) {
    static const uint8_t wire[] = "\0\0\0\0\3abc"
                                  "\0\0\0\0\0"
                                  "\0\0\0\0\2de";
    size_t len = sizeof wire - 1;
    (void)state;
    for (size_t step = 1; step <= len; step++) {
        struct etcd_frame frame = {0};
        char seen[32] = "";
        etcd_frame_init(&frame, 16);
        for (size_t at = 0; at < len;) {
            size_t piece = len - at < step ? len - at : step;
            size_t taken = 0;
            while (taken < piece) {
                taken += etcd_frame_feed(&frame, wire + at + taken, piece - taken);
                if (frame.state == ETCD_FRAME_WHOLE) {
                    struct tn_bytes message = etcd_frame_message(&frame);
                    size_t have = strlen(seen);
                    snprintf(seen + have, sizeof seen - have, "<%.*s>", (int)message.len,
                             (const char *)message.at);
                    etcd_frame_next(&frame);
                }
            }
            at += piece;
        }
        assert_string_equal(seen, "<abc><><de>");
        assert_true(etcd_frame_is_between(&frame));
        etcd_frame_free(&frame);
    }
}

static void frames_that_are_too_large_or_compressed_stop(void **state) {
    struct etcd_frame frame = {0};
    (void)state;
    etcd_frame_init(&frame, 4);
    assert_int_equal(etcd_frame_feed(&frame, (const uint8_t *)"\0\0\0\0\4abcd!", 10), 9);
    assert_int_equal(frame.state, ETCD_FRAME_WHOLE);
    assert_int_equal(etcd_frame_feed(&frame, (const uint8_t *)"x", 1), 0);
    etcd_frame_next(&frame);
    (void)etcd_frame_feed(&frame, (const uint8_t *)"\0\0\0\0\5abcde", 10);
    assert_int_equal(frame.state, ETCD_FRAME_TOO_LARGE);
    etcd_frame_init(&frame, 4);
    (void)etcd_frame_feed(&frame, (const uint8_t *)"\0\xff\xff\xff\xff", 5);
    assert_int_equal(frame.state, ETCD_FRAME_TOO_LARGE);
    etcd_frame_init(&frame, 4);
    (void)etcd_frame_feed(&frame, (const uint8_t *)"\1\0\0\0\1x", 6);
    assert_int_equal(frame.state, ETCD_FRAME_COMPRESSED);
    assert_int_equal(etcd_frame_feed(&frame, (const uint8_t *)"x", 1), 0);
    etcd_frame_free(&frame);
}

static void an_announced_length_costs_no_memory(void **state) {
    struct etcd_frame frame = {0};
    (void)state;
    etcd_frame_init(&frame, UINT32_MAX);
    (void)etcd_frame_feed(&frame, (const uint8_t *)"\0\xf0\0\0\0abc", 8);
    assert_int_equal(frame.state, ETCD_FRAME_MORE);
    assert_true(frame.capacity <= 4096);
    etcd_frame_free(&frame);
}

/* ---- Verdicts ---- */

static const struct {
    int http, grpc;
    const char *message;
    enum etcd_outcome outcome;
    enum etcd_reason reason;
    bool leave, log_in;
} verdicts[] = {
    {200, 0, "", ETCD_DONE, ETCD_NONE, false, false},
    {200, 1, "", ETCD_DOUBT, ETCD_SERVER, true, false},
    {200, 2, "", ETCD_DOUBT, ETCD_SERVER, true, false},
    {200, 3, "etcdserver: duplicate key given in txn request", ETCD_SURELY_NOT, ETCD_INVALID, false,
     false},
    {200, 3, "etcdserver: request is too large", ETCD_SURELY_NOT, ETCD_TOO_LARGE, false, false},
    {200, 3, "etcdserver: authentication failed, invalid user ID or password", ETCD_SURELY_NOT,
     ETCD_DENIED, false, false},
    {200, 3, "etcdserver: user name is empty", ETCD_SURELY_NOT, ETCD_DENIED, false, true},
    {200, 4, "context deadline exceeded", ETCD_DOUBT, ETCD_SERVER, true, false},
    {200, 7, "etcdserver: permission denied", ETCD_SURELY_NOT, ETCD_DENIED, false, false},
    {200, 8, "etcdserver: mvcc: database space exceeded", ETCD_DOUBT, ETCD_NOSPACE, false, false},
    {200, 8, "etcdserver: too many requests", ETCD_SURELY_NOT, ETCD_BUSY, false, false},
    {200, 8, "grpc: received message larger than max (3 vs. 2)", ETCD_SURELY_NOT, ETCD_TOO_LARGE,
     false, false},
    {200, 9, "etcdserver: authentication is not enabled", ETCD_SURELY_NOT, ETCD_INVALID, false,
     false},
    {200, 10, "", ETCD_DOUBT, ETCD_SERVER, true, false},
    {200, 11, "etcdserver: mvcc: required revision has been compacted", ETCD_SURELY_NOT,
     ETCD_COMPACTED, false, false},
    {200, 11, "etcdserver: mvcc: required revision is a future revision", ETCD_SURELY_NOT,
     ETCD_FUTURE, false, false},
    {200, 12, "unknown service etcdserverpb.KV", ETCD_SURELY_NOT, ETCD_INVALID, false, false},
    {200, 13, "", ETCD_DOUBT, ETCD_SERVER, true, false},
    {200, 14, "etcdserver: request timed out", ETCD_DOUBT, ETCD_SERVER, true, false},
    {200, 14, "etcdserver: no leader", ETCD_DOUBT, ETCD_SERVER, true, false},
    {200, 15, "", ETCD_DOUBT, ETCD_SERVER, true, false},
    {200, 16, "etcdserver: invalid auth token", ETCD_SURELY_NOT, ETCD_DENIED, false, true},
    {200, -1, "", ETCD_DOUBT, ETCD_SERVER, true, false},
    {404, -1, "", ETCD_DOUBT, ETCD_SERVER, true, false},
    {503, 7, "", ETCD_DOUBT, ETCD_SERVER, true, false},
    {0, -1, "", ETCD_DOUBT, ETCD_SERVER, true, false},
};

static void statuses_mean_what_the_table_says(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof verdicts / sizeof verdicts[0]; i++) {
        struct etcd_end end = {.http_status = verdicts[i].http, .grpc_status = verdicts[i].grpc};
        snprintf(end.message, sizeof end.message, "%s", verdicts[i].message);
        struct etcd_verdict verdict = etcd_verdict_of(&end);
        assert_int_equal(verdict.outcome, verdicts[i].outcome);
        assert_int_equal(verdict.reason, verdicts[i].reason);
        assert_int_equal(verdict.leave, verdicts[i].leave);
        assert_int_equal(verdict.log_in, verdicts[i].log_in);
    }
}

static void ends_without_a_status_are_doubts_unless_nothing_was_sent(void **state) {
    static const struct {
        enum etcd_end_kind kind;
        enum etcd_outcome outcome;
        enum etcd_reason reason;
    } ends[] = {
        {ETCD_END_UNSENT, ETCD_SURELY_NOT, ETCD_UNREACHABLE},
        {ETCD_END_RESET, ETCD_DOUBT, ETCD_LOST},
        {ETCD_END_LOST, ETCD_DOUBT, ETCD_LOST},
        {ETCD_END_TIMEOUT, ETCD_DOUBT, ETCD_TIMEOUT},
        {ETCD_END_TOO_LARGE, ETCD_DOUBT, ETCD_TOO_LARGE},
        {ETCD_END_PROTOCOL, ETCD_DOUBT, ETCD_PROTOCOL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        /* Even if a status had come before. */
        struct etcd_end end = {.kind = ends[i].kind, .http_status = 200, .grpc_status = 0};
        struct etcd_verdict verdict = etcd_verdict_of(&end);
        assert_int_equal(verdict.outcome, ends[i].outcome);
        assert_int_equal(verdict.reason, ends[i].reason);
        assert_true(verdict.leave);
    }
}

static void messages_are_decoded_and_cleaned(void **state) {
    char out[ETCD_MESSAGE_MAX];
    uint8_t longest[1000];
    (void)state;
    etcd_verdict_message(out, (const uint8_t *)"a%20b%2", 7);
    assert_string_equal(out, "a b%2");
    etcd_verdict_message(out, (const uint8_t *)"%zz%e2%80%a6\x1b[1m\n", 17);
    assert_string_equal(out, "%zz????[1m?");
    etcd_verdict_message(out, (const uint8_t *)"%41%6a%", 7);
    assert_string_equal(out, "Aj%");
    memset(longest, 'x', sizeof longest);
    etcd_verdict_message(out, longest, sizeof longest);
    assert_int_equal(strlen(out), ETCD_MESSAGE_MAX - 1);
    assert_int_equal(etcd_verdict_status((const uint8_t *)"0", 1), 0);
    assert_int_equal(etcd_verdict_status((const uint8_t *)"16", 2), 16);
    assert_int_equal(etcd_verdict_status((const uint8_t *)"17", 2), 2);
    assert_int_equal(etcd_verdict_status((const uint8_t *)"", 0), 2);
    assert_int_equal(etcd_verdict_status((const uint8_t *)"0x", 2), 2);
    assert_int_equal(etcd_verdict_status((const uint8_t *)"000", 3), 2);
}

/* ---- Messages ---- */

static void expect_bytes(const struct etcd_buffer *buffer, const char *wire, size_t len) {
    assert_int_equal(buffer->len, len);
    assert_memory_equal(buffer->at, wire, len);
}

#define EXPECT(buffer, wire) expect_bytes(buffer, wire, sizeof(wire) - 1)

/* Written down by hand from the field numbers: tag = number << 3 | type, 2 for bytes and messages. */
static void requests_are_the_bytes_of_the_interface(void **state) {
    struct etcd_buffer out = {0};
    struct etcd_arena arena;
    (void)state;
    etcd_arena_init(&arena, 1 << 20);
    struct etcd_compare compares[] = {
        {.kind = ETCD_VALUE_IS, .key = text("k"), .value = text("v")},
        {.kind = ETCD_ABSENT, .key = text("n")},
    };
    struct etcd_op then[] = {
        {.kind = ETCD_PUT, .keys = {.key = text("k")}, .value = text("w")},
        {.kind = ETCD_DELETE, .keys = {text("a"), text("c")}},
    };
    struct etcd_op otherwise = {.kind = ETCD_GET, .keys = {.key = text("k")}, .limit = 7};
    struct etcd_request request = {.verb = ETCD_TXN,
                                   .txn = {.compares = compares,
                                           .compare_count = 2,
                                           .then = then,
                                           .then_count = 2,
                                           .otherwise = &otherwise,
                                           .otherwise_count = 1}};
    assert_int_equal(etcd_message_request(&out, &arena, 1000, &request), TN_OK);
    EXPECT(&out, "\0\0\0\0\x2e"
                 "\x0a\x08\x10\x03\x1a\x01k\x3a\x01v"
                 "\x0a\x05\x1a\x01n\x20\x00"
                 "\x12\x08\x12\x06\x0a\x01k\x12\x01w"
                 "\x12\x08\x1a\x06\x0a\x01"
                 "a\x12\x01"
                 "c"
                 "\x1a\x07\x0a\x05\x0a\x01k\x18\x07");
    request = (struct etcd_request){
        .verb = ETCD_RANGE,
        .range = {.keys = {text("a"), text("b")}, .revision = 300, .serializable = true}};
    assert_int_equal(etcd_message_request(&out, &arena, 1000, &request), TN_OK);
    EXPECT(&out, "\0\0\0\0\x0b"
                 "\x0a\x01"
                 "a\x12\x01"
                 "b\x20\xac\x02\x38\x01");
    request = (struct etcd_request){.verb = ETCD_COMPACT, .revision = 5};
    assert_int_equal(etcd_message_request(&out, &arena, 1000, &request), TN_OK);
    EXPECT(&out, "\0\0\0\0\x02\x08\x05");
    request = (struct etcd_request){.verb = ETCD_STATUS};
    assert_int_equal(etcd_message_request(&out, &arena, 1000, &request), TN_OK);
    EXPECT(&out, "\0\0\0\0\0");
    struct etcd_watch_options watch = {.keys = {.key = text("w")}, .start_revision = 9};
    assert_int_equal(etcd_message_watch(&out, 1000, &watch), TN_OK);
    EXPECT(&out, "\0\0\0\0\x09\x0a\x07\x0a\x01w\x18\x09\x40\x01");
    assert_int_equal(etcd_message_progress(&out), TN_OK);
    EXPECT(&out, "\0\0\0\0\x02\x1a\x00");
    assert_int_equal(etcd_message_log_in(&out, "u", "p"), TN_OK);
    EXPECT(&out, "\0\0\0\0\x06\x0a\x01u\x12\x01p");
    etcd_buffer_free(&out);
    etcd_arena_free(&arena);
}

static void requests_that_are_too_large_are_refused(void **state) {
    struct etcd_buffer out = {0};
    struct etcd_arena arena;
    (void)state;
    etcd_arena_init(&arena, 1 << 20);
    struct etcd_request request = {.verb = ETCD_RANGE, .range = {.keys = {.key = text("abc")}}};
    assert_int_equal(etcd_message_request(&out, &arena, 5, &request), TN_OK);
    assert_int_equal(etcd_message_request(&out, &arena, 4, &request), TN_INVALID);
    etcd_buffer_free(&out);
    etcd_arena_free(&arena);
}

#define BYTES(wire) tn_bytes_of(wire, sizeof(wire) - 1)
/* A header: cluster 1, member 2, revision 3, term 4. */
#define HEADER "\x0a\x08\x08\x01\x10\x02\x18\x03\x20\x04"

static void answers_are_read(void **state) {
    struct etcd_arena arena;
    struct etcd_answer answer = {0};
    (void)state;
    etcd_arena_init(&arena, 1 << 20);
    /* succeeded, a get of one key (with an unknown field), a put, a delete of 2 */
    assert_true(
        etcd_message_answer(&answer, &arena, ETCD_TXN,
                            BYTES(HEADER "\x10\x01"
                                         "\x1a\x10\x0a\x0e\x12\x0a\x0a\x01k\x18\x05\x2a\x01v"
                                         "\x30\x63\x20\x01"
                                         "\x1a\x02\x12\x00"
                                         "\x1a\x04\x1a\x02\x10\x02")));
    assert_int_equal(answer.outcome, ETCD_DONE);
    assert_int_equal(answer.header.cluster_id, 1);
    assert_int_equal(answer.header.member_id, 2);
    assert_int_equal(answer.header.revision, 3);
    assert_int_equal(answer.header.raft_term, 4);
    assert_int_equal(answer.op_count, 3);
    assert_int_equal(answer.ops[0].kind, ETCD_GET);
    assert_int_equal(answer.ops[0].found.count, 1);
    assert_int_equal(answer.ops[0].found.total, 1);
    assert_true(tn_bytes_equal(answer.ops[0].found.kvs[0].value, text("v")));
    assert_int_equal(answer.ops[0].found.kvs[0].mod_revision, 5);
    assert_int_equal(answer.ops[1].kind, ETCD_PUT);
    assert_int_equal(answer.ops[2].kind, ETCD_DELETE);
    assert_int_equal(answer.ops[2].deleted, 2);
    assert_true(etcd_message_answer(&answer, &arena, ETCD_TXN, BYTES(HEADER)));
    assert_int_equal(answer.outcome, ETCD_COMPARE_FAILED);
    assert_true(etcd_message_answer(&answer, &arena, ETCD_STATUS,
                                    BYTES(HEADER "\x12\x03"
                                                 "3.4\x18\x64\x20\x02\x48\x32")));
    assert_true(tn_bytes_equal(answer.status.version, text("3.4")));
    assert_int_equal(answer.status.db_bytes, 100);
    assert_int_equal(answer.status.db_bytes_used, 50);
    assert_int_equal(answer.status.leader, 2);
    assert_string_equal(etcd_message_token(&arena, BYTES("\x12\x03tok")), "tok");
    assert_null(etcd_message_token(&arena, BYTES("")));
    etcd_arena_free(&arena);
}

static void answers_that_are_none_are_refused(void **state) {
    struct etcd_arena arena;
    struct etcd_answer answer = {0};
    struct etcd_news news;
    (void)state;
    etcd_arena_init(&arena, 1 << 20);
    assert_false(etcd_message_answer(&answer, &arena, ETCD_TXN, BYTES(""))); /* no header */
    assert_false(etcd_message_answer(&answer, &arena, ETCD_TXN, BYTES("\x0a")));
    assert_false(etcd_message_answer(&answer, &arena, ETCD_TXN, BYTES("<html>")));
    assert_false(etcd_message_answer(&answer, &arena, ETCD_TXN, BYTES(HEADER "\x1a\x00")));
    assert_false(etcd_message_answer(&answer, &arena, ETCD_RANGE, BYTES("\x10\x01")));
    assert_false(etcd_message_news(&news, &arena, BYTES("")));
    assert_false(etcd_message_news(&news, &arena, BYTES(HEADER "\x5a\x00"))); /* without a key */
    assert_false(etcd_message_news(&news, &arena, BYTES(HEADER "\x5a\x04\x08\x02\x12\x00")));
    etcd_arena_free(&arena);
}

static void news_are_read(void **state) {
    struct etcd_arena arena;
    struct etcd_news news;
    (void)state;
    etcd_arena_init(&arena, 1 << 20);
    assert_true(etcd_message_news(&news, &arena, BYTES(HEADER "\x18\x01")));
    assert_int_equal(news.kind, ETCD_WATCH_CREATED);
    assert_true(etcd_message_news(&news, &arena, BYTES(HEADER)));
    assert_int_equal(news.kind, ETCD_WATCH_PROGRESS);
    assert_true(etcd_message_news(&news, &arena,
                                  BYTES(HEADER "\x38\x01"
                                               "\x5a\x05\x12\x03\x0a\x01p"
                                               "\x5a\x07\x08\x01\x12\x03\x0a\x01q")));
    assert_int_equal(news.kind, ETCD_WATCH_CHANGES);
    assert_true(news.partial);
    assert_int_equal(news.change_count, 2);
    assert_false(news.changes[0].deleted);
    assert_true(news.changes[1].deleted);
    assert_true(tn_bytes_equal(news.changes[1].kv.key, text("q")));
    assert_true(
        etcd_message_news(&news, &arena, BYTES(HEADER "\x18\x01\x20\x01\x28\x07\x32\x02no")));
    assert_int_equal(news.kind, ETCD_WATCH_ENDED);
    assert_int_equal(news.compact_revision, 7);
    assert_string_equal(news.message, "no");
    etcd_arena_free(&arena);
}

static void a_small_message_cannot_take_much_memory(void **state) {
    struct etcd_arena arena;
    struct etcd_answer answer = {0};
    size_t len = 200000; /* empty keys, two bytes each */
    uint8_t *wire = malloc(len);
    (void)state;
    assert_non_null(wire);
    memcpy(wire, HEADER, sizeof HEADER - 1);
    for (size_t i = sizeof HEADER - 1; i + 1 < len; i += 2) {
        wire[i] = 0x12;
        wire[i + 1] = 0;
    }
    etcd_arena_init(&arena, 1 << 20);
    assert_false(etcd_message_answer(&answer, &arena, ETCD_RANGE, tn_bytes_of(wire, len)));
    etcd_arena_free(&arena);
    etcd_arena_init(&arena, 100 << 20);
    assert_true(etcd_message_answer(&answer, &arena, ETCD_RANGE, tn_bytes_of(wire, len)));
    assert_int_equal(answer.found.count, (len - (sizeof HEADER - 1)) / 2);
    etcd_arena_free(&arena);
    free(wire);
}

/* ---- Endpoints and ranges ---- */

static void endpoints_are_read_or_refused(void **state) {
    static const char *const bad[] = {
        "",
        "http://",
        "localhost:2379",
        "ftp://a:1",
        "http://a:0",
        "http://a:65536",
        "http://a:",
        "http://a:1x",
        "http://a b:1",
        "http://[::1:2379",
        "http://a:1/v3",
        "http://u@a:1",
        "https://::1:2379",
        "http://[]:1",
    };
    static const struct {
        const char *text;
        bool tls;
        const char *host, *authority;
    } good[] = {
        {"http://127.0.0.1:2379", false, "127.0.0.1", "127.0.0.1:2379"},
        {"https://etcd-1.example:443/", true, "etcd-1.example", "etcd-1.example:443"},
        {"http://a", false, "a", "a:2379"},
        {"http://[fe80::1]:12", false, "fe80::1", "[fe80::1]:12"},
    };
    struct etcd_endpoint endpoint;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(etcd_endpoint_parse(bad[i], &endpoint));
    }
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(etcd_endpoint_parse(good[i].text, &endpoint));
        assert_int_equal(endpoint.tls, good[i].tls);
        assert_string_equal(endpoint.host, good[i].host);
        assert_string_equal(endpoint.authority, good[i].authority);
    }
}

static void options_that_make_no_sense_are_refused(void **state) {
    struct etcd *etcd = NULL;
    char error[ETCD_MESSAGE_MAX];
    const char *endpoints[] = {"http://a", "b:1"};
    struct etcd_options options = {.endpoints = endpoints};
    (void)state;
    assert_int_equal(etcd_open(&options, &etcd, error), TN_INVALID);
    options.endpoint_count = 2;
    assert_int_equal(etcd_open(&options, &etcd, error), TN_INVALID);
    assert_non_null(strstr(error, "'b:1'"));
    options.endpoint_count = 1;
    options.user = "u";
    assert_int_equal(etcd_open(&options, &etcd, error), TN_INVALID);
    assert_non_null(strstr(error, "password"));
    options.password = "p";
    assert_int_equal(etcd_open(&options, &etcd, error), TN_OK);
    etcd_close(etcd);
}

static void prefixes_end_before_the_next_one(void **state) {
    uint8_t out[8];
    (void)state;
    assert_true(tn_bytes_equal(etcd_prefix_end(text("/a/"), out), text("/a0")));
    assert_true(tn_bytes_equal(etcd_prefix_end(text("a\xff\xff"), out), text("b")));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_come_whole_however_they_are_cut),
        cmocka_unit_test(frames_that_are_too_large_or_compressed_stop),
        cmocka_unit_test(an_announced_length_costs_no_memory),
        cmocka_unit_test(statuses_mean_what_the_table_says),
        cmocka_unit_test(ends_without_a_status_are_doubts_unless_nothing_was_sent),
        cmocka_unit_test(messages_are_decoded_and_cleaned),
        cmocka_unit_test(requests_are_the_bytes_of_the_interface),
        cmocka_unit_test(requests_that_are_too_large_are_refused),
        cmocka_unit_test(answers_are_read),
        cmocka_unit_test(answers_that_are_none_are_refused),
        cmocka_unit_test(news_are_read),
        cmocka_unit_test(a_small_message_cannot_take_much_memory),
        cmocka_unit_test(endpoints_are_read_or_refused),
        cmocka_unit_test(options_that_make_no_sense_are_refused),
        cmocka_unit_test(prefixes_end_before_the_next_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
