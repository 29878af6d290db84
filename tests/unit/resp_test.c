/* Requests and replies as bytes: tables of input and result, every way to cut the input, and input
 * that lies. */
#include "unit/unit.h"

#include "protocol/resp.h"

#define ARGS 8u

static uint8_t inline_words[PROTOCOL_LINE_MAX];

struct seen {
    char text[256]; /* arguments with bars between them, or the error */
    uint32_t argc;
};

/* Shows the first `shown` bytes of the input, in memory of exactly that size. */
static enum protocol_parse show(struct protocol_parser *parser, const char *input, size_t shown,
                                struct seen *seen, uint32_t *ret_used) {
    struct tn_bytes argv[ARGS];
    struct protocol_request request = {0};
    uint8_t *data = malloc(shown + 1);
    assert_non_null(data);
    memcpy(data, input, shown);
    enum protocol_parse step =
        protocol_request_parse(parser, data, shown, inline_words, argv, ARGS, &request);
    seen->text[0] = '\0';
    if (step == PROTOCOL_BAD) {
        (void)snprintf(seen->text, sizeof seen->text, "%s%.1s", request.error, &request.got);
    } else if (step == PROTOCOL_READY) {
        size_t at = 0;
        for (uint32_t i = 0; i < request.argc && i < ARGS; i++) {
            at += (size_t)snprintf(seen->text + at, sizeof seen->text - at, "%s%.*s",
                                   i > 0 ? "|" : "", (int)argv[i].len, (const char *)argv[i].at);
        }
        seen->argc = request.argc;
        *ret_used = request.used;
    }
    free(data);
    return step;
}

static const struct {
    const char *input;
    enum protocol_parse step;
    const char *text;
    uint32_t argc;
} requests[] = {
    {"*1\r\n$4\r\nPING\r\n", PROTOCOL_READY, "PING", 1},
    {"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", PROTOCOL_READY, "ECHO|", 2},
    {"*2\r\n$4\r\nECHO\r\n$2\r\n\r\n\r\n", PROTOCOL_READY, "ECHO|\r\n", 2},
    {"*0\r\n", PROTOCOL_READY, "", 0},
    {"*-1\r\n", PROTOCOL_READY, "", 0},
    {"*10\r\n$1\r\n0\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n$1\r\n4\r\n$1\r\n5\r\n$1\r\n6\r\n$1\r\n7\r\n"
     "$1\r\n8\r\n$1\r\n9\r\n",
     PROTOCOL_READY, "0|1|2|3|4|5|6|7", 10},
    {"PING\r\n", PROTOCOL_READY, "PING", 1},
    {"PING\n", PROTOCOL_READY, "PING", 1},
    {"\r\n", PROTOCOL_READY, "", 0},
    {"  set  'a b'\t\"c\\x41\\n\\\"\" \r\n", PROTOCOL_READY, "set|a b|cA\n\"", 3},
    {"echo 'it\\'s' \"\"\r\n", PROTOCOL_READY, "echo|it's|", 3},
    {"*2147483648\r\n", PROTOCOL_BAD, "invalid multibulk length", 0},
    {"*1048577\r\n", PROTOCOL_BAD, "invalid multibulk length", 0},
    {"*99999999999999999999999\r\n", PROTOCOL_BAD, "invalid multibulk length", 0},
    {"*x\r\n", PROTOCOL_BAD, "invalid multibulk length", 0},
    {"*\r\n", PROTOCOL_BAD, "invalid multibulk length", 0},
    {"*1\r\n:5\r\n", PROTOCOL_BAD, "expected '$', got :", 0},
    {"*1\r\n$524289\r\n", PROTOCOL_BAD, "invalid bulk length", 0},
    {"*1\r\n$-1\r\n", PROTOCOL_BAD, "invalid bulk length", 0},
    {"*1\r\n$4x\r\n", PROTOCOL_BAD, "invalid bulk length", 0},
    {"*1\r\n$4\rxPING\r\n", PROTOCOL_BAD, "invalid bulk length", 0},
    {"*1\r\n$4\r\nPINGxx", PROTOCOL_BAD, "expected CRLF after a bulk string", 0},
    {"*1\r\n$4\r\nPING\rx", PROTOCOL_BAD, "expected CRLF after a bulk string", 0},
    {"*1\r\n$4\r\nPING\n\r", PROTOCOL_BAD, "expected CRLF after a bulk string", 0},
    {"*2\r\n$4\r\nECHO$1\r\nx\r\n", PROTOCOL_BAD, "expected CRLF after a bulk string", 0},
    {"*1\r\n$3\r\nPING\r\n", PROTOCOL_BAD, "expected CRLF after a bulk string", 0},
    {"GET / HTTP/1.1\r\n", PROTOCOL_BAD, "not the RESP protocol", 0},
    {"post /", PROTOCOL_BAD, "not the RESP protocol", 0},
    {"  Put\t/", PROTOCOL_BAD, "not the RESP protocol", 0},
    {"HEAD\r\n", PROTOCOL_BAD, "not the RESP protocol", 0},
    {"PRI * HTTP/2.0\r\n", PROTOCOL_BAD, "not the RESP protocol", 0},
    {"Host: localhost\r\n", PROTOCOL_BAD, "not the RESP protocol", 0},
    {"X-Any: PING\r\n", PROTOCOL_BAD, "not the RESP protocol", 0},
    {"\x16\x03\x01", PROTOCOL_BAD, "not the RESP protocol", 0},
    {"SSH-2.0-x\r\n", PROTOCOL_BAD, "not the RESP protocol", 0},
    {"{\"a\":1}", PROTOCOL_BAD, "not the RESP protocol", 0},
    {"PING \x01\r\n", PROTOCOL_BAD, "not the RESP protocol", 0},
    {"PING\rPING\r\n", PROTOCOL_BAD, "not the RESP protocol", 0},
    {"GETTING\r\n", PROTOCOL_READY, "GETTING", 1},
    {"posts x\n", PROTOCOL_READY, "posts|x", 2},
    {"echo 'open\r\n", PROTOCOL_BAD, "unbalanced quotes in request", 0},
    {"echo \"a\"b\r\n", PROTOCOL_BAD, "unbalanced quotes in request", 0},
};

static void each_request_gives_what_the_table_says_however_it_is_cut(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        const char *input = requests[i].input;
        size_t len = strlen(input);
        struct seen seen = {.argc = 0};
        uint32_t used = 0;
        struct protocol_parser whole = {0};
        assert_int_equal(show(&whole, input, len, &seen, &used), requests[i].step);
        assert_string_equal(seen.text, requests[i].text);
        assert_int_equal(seen.argc, requests[i].argc);
        if (requests[i].step == PROTOCOL_READY) {
            assert_int_equal(used, len);
        }
        /* Byte by byte with the same parser: nothing before the end, then the same result. */
        struct protocol_parser parser = {0};
        enum protocol_parse step = PROTOCOL_MORE;
        size_t shown = 0;
        while (step == PROTOCOL_MORE && shown <= len) {
            step = show(&parser, input, shown++, &seen, &used);
        }
        assert_int_equal(step, requests[i].step);
        assert_string_equal(seen.text, requests[i].text);
        assert_true(step == PROTOCOL_BAD || shown - 1 == len);
    }
}

static void what_follows_a_request_is_left_alone(void **state) {
    struct protocol_parser parser = {0};
    struct seen seen = {.argc = 0};
    uint32_t used = 0;
    (void)state;
    assert_int_equal(show(&parser, "*1\r\n$4\r\nPING\r\n*1\r\n$", 20, &seen, &used),
                     PROTOCOL_READY);
    assert_int_equal(used, 14);
}

static void a_line_without_an_end_and_a_request_without_measure_are_refused(void **state) {
    struct protocol_parser parser = {0};
    struct protocol_request request;
    struct tn_bytes argv[ARGS];
    size_t len = PROTOCOL_REQUEST_MAX + 64;
    uint8_t *data = malloc(len);
    (void)state;
    assert_non_null(data);
    memset(data, 'a', len);
    assert_int_equal(
        protocol_request_parse(&parser, data, 1000, inline_words, argv, ARGS, &request),
        PROTOCOL_MORE);
    assert_int_equal(protocol_request_parse(&parser, data, PROTOCOL_LINE_MAX, inline_words, argv,
                                            ARGS, &request),
                     PROTOCOL_BAD);
    assert_string_equal(request.error, "too big inline request");
    /* Three bulks of 512 KiB: the third is refused at its length. */
    size_t at = (size_t)sprintf((char *)data, "*3\r\n$524288\r\n");
    at += 524288;
    at += (size_t)sprintf((char *)data + at, "\r\n$524288\r\n");
    assert_int_equal(protocol_request_parse(&parser, data, at, inline_words, argv, ARGS, &request),
                     PROTOCOL_BAD);
    assert_string_equal(request.error, "too big request");
    free(data);
}

/* Mutated requests: the parser may say anything, but it ends, and its arguments lie inside. */
static void garbage_never_leads_outside(void **state) {
    struct tn_prng random = unit_random();
    (void)state;
    for (unsigned round = 0; round < 20000; round++) {
        const char *seed =
            requests[unit_below(&random, sizeof requests / sizeof requests[0])].input;
        size_t len = strlen(seed);
        uint8_t *data = malloc(len);
        assert_non_null(data);
        for (size_t i = 0; i < len; i++) {
            data[i] = (uint8_t)seed[i];
        }
        for (unsigned i = 0; i < 3 && len > 0; i++) {
            data[unit_below(&random, (uint32_t)len)] = (uint8_t)tn_prng_next(&random);
        }
        struct protocol_parser parser = {0};
        struct protocol_request request;
        struct tn_bytes argv[ARGS];
        if (protocol_request_parse(&parser, data, len, inline_words, argv, ARGS, &request) ==
            PROTOCOL_READY) {
            assert_true(request.used <= len);
            for (uint32_t i = 0; i < request.argc && i < ARGS; i++) {
                const uint8_t *from = data[0] == '*' ? data : inline_words;
                assert_true(argv[i].at >= from && argv[i].at + argv[i].len <= from + len);
            }
        }
        free(data);
    }
}

/* ---- Replies ---- */

static void write_all(struct protocol_writer *w) {
    protocol_write_map(w, 1);
    protocol_write_array(w, 2);
    protocol_write_set(w, 0);
    protocol_write_push(w, 1);
    protocol_write_bulk(w, "a\r\n", 3);
    protocol_write_verbatim(w, "hi", 2);
    protocol_write_simple(w, "OK");
    protocol_write_error(w, "ERR a\r\nb");
    protocol_write_integer(w, INT64_MIN);
    protocol_write_u64(w, INT64_MAX);
    protocol_write_u64(w, UINT64_MAX);
    protocol_write_micro(w, 1250000);
    protocol_write_micro(w, 7000000);
    protocol_write_boolean(w, true);
    protocol_write_null(w);
}

/* Every byte in every place of a line. */
static void an_error_has_no_byte_that_ends_its_line(void **state) {
    enum { LEN = 19 };
    (void)state;
    for (unsigned place = 0; place < LEN; place++) {
        for (unsigned byte = 1; byte < 256; byte++) {
            char text[LEN + 1] = "abcdefghi ~!Zjklmno";
            uint8_t out[64];
            struct protocol_writer w = {.encoding = PROTOCOL_RESP2};
            w.out = tn_writer_of(out, sizeof out);
            text[place] = (char)byte;
            protocol_write_error(&w, text);
            text[place] = (char)(byte < ' ' || byte == 0x7f ? '?' : byte);
            assert_int_equal(w.out.len, 1 + LEN + 2);
            assert_memory_equal(out + 1, text, LEN);
        }
    }
}

static void each_type_is_written_as_its_protocol_has_it(void **state) {
    static const char two[] =
        "*2\r\n*2\r\n*0\r\n*1\r\n$3\r\na\r\n\r\n$2\r\nhi\r\n+OK\r\n-ERR a??b\r\n"
        ":-9223372036854775808\r\n:9223372036854775807\r\n"
        "$20\r\n18446744073709551615\r\n$4\r\n1.25\r\n$1\r\n7\r\n:1\r\n$-1\r\n";
    static const char three[] =
        "%1\r\n*2\r\n~0\r\n>1\r\n$3\r\na\r\n\r\n=6\r\ntxt:hi\r\n+OK\r\n-ERR a??b\r\n"
        ":-9223372036854775808\r\n:9223372036854775807\r\n"
        "$20\r\n18446744073709551615\r\n,1.25\r\n,7\r\n#t\r\n_\r\n";
    (void)state;
    for (unsigned version = 2; version <= 3; version++) {
        char buffer[512];
        const char *want = version == 3 ? three : two;
        struct protocol_writer w = {.out = tn_writer_of(buffer, sizeof buffer),
                                    .encoding = version == 3 ? PROTOCOL_RESP3 : PROTOCOL_RESP2};
        write_all(&w);
        assert_false(w.out.overflow);
        assert_int_equal(w.out.len, strlen(want));
        assert_memory_equal(buffer, want, w.out.len);
        /* Too small a buffer is noticed and not written past. */
        struct protocol_writer small = {.out = tn_writer_of(buffer, w.out.len - 1),
                                        .encoding = version == 3 ? PROTOCOL_RESP3 : PROTOCOL_RESP2};
        write_all(&small);
        assert_true(small.out.overflow);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_request_gives_what_the_table_says_however_it_is_cut),
        cmocka_unit_test(what_follows_a_request_is_left_alone),
        cmocka_unit_test(a_line_without_an_end_and_a_request_without_measure_are_refused),
        cmocka_unit_test(garbage_never_leads_outside),
        cmocka_unit_test(each_type_is_written_as_its_protocol_has_it),
        cmocka_unit_test(an_error_has_no_byte_that_ends_its_line),
    };
    return cmocka_run_group_tests_name("resp", tests, NULL, NULL);
}
