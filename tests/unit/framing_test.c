/* Where HTTP requests end: a table of streams and what is wrong with them, each fed whole and cut at
 * every byte. */
#include "protocol/framing.h"

#include "unit/unit.h"

#define GET "GET / HTTP/1.1\r\nHost: a\r\n"
#define POST "POST / HTTP/1.1\r\nHost: a\r\n"
#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"

struct row {
    const char *stream;
    enum protocol_framing_fault fault;
    uint64_t requests; /* that are whole */
};

static const struct row rows[] = {
    {"", PROTOCOL_FRAMING_GOOD, 0},
    {GET "\r\n", PROTOCOL_FRAMING_GOOD, 1},
    {"\r\n\r\n" GET "\r\n\r\n" GET "\r\n", PROTOCOL_FRAMING_GOOD, 2},
    {"GET / HTTP/1.0\r\n\r\n", PROTOCOL_FRAMING_GOOD, 1},
    {"OPTIONS * HTTP/1.1\r\nhost:\r\n\r\n", PROTOCOL_FRAMING_GOOD, 1},
    {POST "Content-Length: 3\r\n\r\n\r\n\n" GET "\r\n", PROTOCOL_FRAMING_GOOD, 2},
    {POST "content-length:\t 3\r\n\r\nab", PROTOCOL_FRAMING_GOOD, 0},
    {POST "Content-Length: 0\r\n\r\n" GET "\r\n", PROTOCOL_FRAMING_GOOD, 2},
    {POST "Content-Length: 18446744073709551615\r\n\r\nab", PROTOCOL_FRAMING_GOOD, 0},
    {CHUNKED "0\r\n\r\n" GET "\r\n", PROTOCOL_FRAMING_GOOD, 2},
    {CHUNKED "a;x=\"y\"\r\n0123456789\r\n1\r\n\n\r\n00\r\nX: y\r\n\r\n" GET "\r\n",
     PROTOCOL_FRAMING_GOOD, 2},
    {GET "X-A-Name-That-Is-Longer-Than-All-That-Matter: \x80\xff\t \r\n\r\n", PROTOCOL_FRAMING_GOOD,
     1},
    {GET "Content-Length-Not: 5, 5\r\nHosts: b\r\n\r\n", PROTOCOL_FRAMING_GOOD, 1},
    {"GET\r\n", PROTOCOL_FRAMING_LINE_END, 0},
    {"GET /\r\n", PROTOCOL_FRAMING_LINE_END, 0},
    {"GET  / HTTP/1.1\r\n", PROTOCOL_FRAMING_REQUEST_LINE, 0},
    {"GET / HTTP/1.1 \r\n", PROTOCOL_FRAMING_REQUEST_LINE, 0},
    {"GET / HTTQ/1.1\r\n", PROTOCOL_FRAMING_REQUEST_LINE, 0},
    {"GET / HTTP/1.x\r\n", PROTOCOL_FRAMING_REQUEST_LINE, 0},
    {"{} / HTTP/1.1\r\n", PROTOCOL_FRAMING_REQUEST_LINE, 0},
    {"ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG / HTTP/1.1\r\n", PROTOCOL_FRAMING_REQUEST_LINE, 0},
    {"GET / HTTP/2.0\r\n", PROTOCOL_FRAMING_VERSION, 0},
    {"GET / HTTP/1.2\r\n", PROTOCOL_FRAMING_VERSION, 0},
    {"GET /\x01 HTTP/1.1\r\n", PROTOCOL_FRAMING_CONTROL, 0},
    {"\x16\x03\x01", PROTOCOL_FRAMING_CONTROL, 0},
    {"\n" GET "\r\n", PROTOCOL_FRAMING_LINE_END, 0},
    {"\r" GET "\r\n", PROTOCOL_FRAMING_LINE_END, 0},
    {"GET / HTTP/1.1\nHost: a\r\n\r\n", PROTOCOL_FRAMING_LINE_END, 0},
    {GET "X: y\n\r\n", PROTOCOL_FRAMING_LINE_END, 0},
    {GET "X: y\rZ: a\r\n\r\n", PROTOCOL_FRAMING_LINE_END, 0},
    {GET "X: y\r\r\n\r\n", PROTOCOL_FRAMING_LINE_END, 0},
    {GET "X\r\n\r\n", PROTOCOL_FRAMING_LINE_END, 0},
    {GET "\n", PROTOCOL_FRAMING_LINE_END, 0},
    {GET "\rX", PROTOCOL_FRAMING_LINE_END, 0},
    {GET "X: \x0b\r\n\r\n", PROTOCOL_FRAMING_CONTROL, 0},
    {GET "X: \x7f\r\n\r\n", PROTOCOL_FRAMING_CONTROL, 0},
    {GET "X\x02: y\r\n\r\n", PROTOCOL_FRAMING_CONTROL, 0},
    {GET "X : y\r\n\r\n", PROTOCOL_FRAMING_NAME, 0},
    {GET "X\t: y\r\n\r\n", PROTOCOL_FRAMING_NAME, 0},
    {GET ": y\r\n\r\n", PROTOCOL_FRAMING_NAME, 0},
    {GET "X\x80: y\r\n\r\n", PROTOCOL_FRAMING_NAME, 0},
    {GET " X: y\r\n\r\n", PROTOCOL_FRAMING_FOLDED, 0},
    {GET "X: y\r\n\tz\r\n\r\n", PROTOCOL_FRAMING_FOLDED, 0},
    {"GET / HTTP/1.1\r\nX: y\r\n\r\n", PROTOCOL_FRAMING_NO_HOST, 0},
    {GET "HOST: a\r\n\r\n", PROTOCOL_FRAMING_HOSTS, 0},
    {POST "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx", PROTOCOL_FRAMING_LENGTHS, 0},
    {POST "Content-Length: 1, 1\r\n\r\nx", PROTOCOL_FRAMING_LENGTH, 0},
    {POST "Content-Length: +1\r\n\r\nx", PROTOCOL_FRAMING_LENGTH, 0},
    {POST "Content-Length: 1 \r\n\r\nx", PROTOCOL_FRAMING_LENGTH, 0},
    {POST "Content-Length:\r\n\r\nx", PROTOCOL_FRAMING_LENGTH, 0},
    {POST "Content-Length: 0000000000000000000000001\r\n\r\nx", PROTOCOL_FRAMING_LENGTH, 0},
    {POST "Content-Length: 18446744073709551616\r\n\r\nx", PROTOCOL_FRAMING_BODY, 0},
    {POST "Content-Length: 99999999999999999999\r\n\r\nx", PROTOCOL_FRAMING_BODY, 0},
    {POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", PROTOCOL_FRAMING_BOTH, 0},
    {POST "Transfer-Encoding: x\r\nContent-Length: 5\r\n\r\n", PROTOCOL_FRAMING_BOTH, 0},
    {POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
     PROTOCOL_FRAMING_CODINGS, 0},
    {POST "Transfer-Encoding: gzip, chunked\r\n\r\n", PROTOCOL_FRAMING_CODING, 0},
    {POST "Transfer-Encoding: chunked \r\n\r\n", PROTOCOL_FRAMING_CODING, 0},
    {POST "Transfer-Encoding:\r\n\r\n", PROTOCOL_FRAMING_CODING, 0},
    {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", PROTOCOL_FRAMING_OLD_CODING, 0},
    {CHUNKED "x\r\n", PROTOCOL_FRAMING_CHUNK, 0},
    {CHUNKED "\r\n", PROTOCOL_FRAMING_LINE_END, 0},
    {CHUNKED ";x\r\n", PROTOCOL_FRAMING_CHUNK, 0},
    {CHUNKED "5 \r\n", PROTOCOL_FRAMING_CHUNK, 0},
    {CHUNKED "1\nx\r\n0\r\n\r\n", PROTOCOL_FRAMING_LINE_END, 0},
    {CHUNKED "1;x\ny\r\n0\r\n\r\n", PROTOCOL_FRAMING_LINE_END, 0},
    {CHUNKED "1\r\nxy\r\n", PROTOCOL_FRAMING_CHUNK, 0},
    {CHUNKED "1\r\nx\ny", PROTOCOL_FRAMING_CHUNK, 0},
    {CHUNKED "1\r\nx\r0", PROTOCOL_FRAMING_CHUNK, 0},
    {CHUNKED "1000000000000000\r\n", PROTOCOL_FRAMING_CHUNK, 0},
    {CHUNKED "0\r\nContent-Length: 5\r\n\r\n", PROTOCOL_FRAMING_TRAILER, 0},
    {CHUNKED "0\r\nHost: a\r\n\r\n", PROTOCOL_FRAMING_TRAILER, 0},
    {CHUNKED "0\r\n x\r\n\r\n", PROTOCOL_FRAMING_FOLDED, 0},
    {GET "\r\n" POST "Content-Length: 1\r\n\r\nx" GET "X : y\r\n\r\n", PROTOCOL_FRAMING_NAME, 2},
};

static void each_fault_is_found_wherever_the_stream_is_cut(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *stream = rows[i].stream;
        size_t len = strlen(stream);
        struct protocol_framing whole = {0};
        size_t good = protocol_framing_feed(&whole, stream, len);
        if (whole.fault != rows[i].fault || whole.requests != rows[i].requests) {
            print_error("row %zu: %s: fault %u, %llu requests\n", i, stream, whole.fault,
                        (unsigned long long)whole.requests);
            fail();
        }
        assert_int_equal(good < len, whole.fault != PROTOCOL_FRAMING_GOOD);
        for (size_t cut = 0; cut <= len; cut++) {
            struct protocol_framing parts = {0};
            size_t first = protocol_framing_feed(&parts, stream, cut);
            size_t rest = first == cut ? protocol_framing_feed(&parts, stream + cut, len - cut) : 0;
            assert_int_equal(first + rest, good);
            assert_int_equal(parts.fault, whole.fault);
            assert_int_equal(parts.requests, whole.requests);
            assert_int_equal(parts.heads, whole.heads);
        }
    }
}

static void a_nul_is_a_fault_everywhere_but_in_a_body(void **state) {
    static const char stream[] = CHUNKED "1;x\r\ny\r\n0\r\nX: y\r\n\r\n";
    size_t body = strlen(CHUNKED "1;x\r\n");
    (void)state;
    for (size_t at = 0; at < sizeof stream - 1; at++) {
        char copy[sizeof stream];
        struct protocol_framing framing = {0};
        memcpy(copy, stream, sizeof copy);
        copy[at] = '\0';
        size_t good = protocol_framing_feed(&framing, copy, sizeof stream - 1);
        assert_int_equal(good, at == body ? sizeof stream - 1 : at);
        assert_int_equal(framing.fault == PROTOCOL_FRAMING_GOOD, at == body);
    }
}

static void heads_and_queries_are_bounded(void **state) {
    struct protocol_framing framing = {0};
    (void)state;
    assert_int_equal(protocol_framing_feed(&framing, "GET /?", 6), 6);
    for (uint32_t i = 1; i < 64; i++) {
        assert_int_equal(protocol_framing_feed(&framing, "a&", 2), 2);
    }
    struct protocol_framing full = framing;
    assert_int_equal(protocol_framing_feed(&full, "a&", 2), 1);
    assert_int_equal(full.fault, PROTOCOL_FRAMING_ARGUMENTS);
    static const char rest[] = "a HTTP/1.1\r\nHost: a\r\n";
    assert_int_equal(protocol_framing_feed(&framing, rest, strlen(rest)), strlen(rest));
    uint32_t fields = 0;
    while (protocol_framing_feed(&framing, "X: y\r\n", 6) == 6) {
        fields++;
    }
    assert_int_equal(framing.fault, PROTOCOL_FRAMING_HEAD);
    assert_true((fields + 65) * PROTOCOL_FIELD_COST + fields * 6 <= PROTOCOL_HEAD_MAX);
    assert_true((fields + 66) * PROTOCOL_FIELD_COST + (fields + 30) * 6 > PROTOCOL_HEAD_MAX);
    /* Trailers count with the head, and each request starts from zero. */
    memset(&framing, 0, sizeof framing);
    assert_int_equal(protocol_framing_feed(&framing, CHUNKED "0\r\n", strlen(CHUNKED "0\r\n")),
                     strlen(CHUNKED "0\r\n"));
    while (framing.head_cost + 80 < PROTOCOL_HEAD_MAX) {
        assert_int_equal(protocol_framing_feed(&framing, "X: y\r\n", 6), 6);
    }
    assert_int_equal(protocol_framing_feed(&framing, "\r\n" GET "\r\n", 2 + strlen(GET "\r\n")),
                     2 + strlen(GET "\r\n"));
    assert_int_equal(framing.requests, 2);
}

static void every_fault_has_a_status_and_words(void **state) {
    (void)state;
    for (unsigned i = 1; i < PROTOCOL_FRAMING_FAULTS; i++) {
        unsigned status = protocol_framing_status((enum protocol_framing_fault)i);
        assert_true(status >= 400 && status < 600);
        assert_true(strlen(protocol_framing_text((enum protocol_framing_fault)i)) > 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_fault_is_found_wherever_the_stream_is_cut),
        cmocka_unit_test(a_nul_is_a_fault_everywhere_but_in_a_body),
        cmocka_unit_test(heads_and_queries_are_bounded),
        cmocka_unit_test(every_fault_has_a_status_and_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
