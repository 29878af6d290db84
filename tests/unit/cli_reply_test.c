/* The command line's reader of replies, and replies as JSON: tables of input and result, every way to
 * cut the input, and input that lies. */
#include "unit/unit.h"

#include "cli/reply_reader.h"
#include "cli/show_json.h"

static void feed(struct cli_reader *reader, const char *bytes, size_t len) {
    size_t capacity;
    uint8_t *room = cli_reader_room(reader, &capacity);
    assert_non_null(room);
    assert_true(capacity >= len);
    memcpy(room, bytes, len);
    cli_reader_fill(reader, len);
}

static void expect_json(const struct cli_reader *reader, const char *want) {
    struct cli_text text = {.at = NULL};
    cli_json_node(&text, reader, 0);
    assert_false(text.failed);
    assert_string_equal(text.at, want);
    cli_text_free(&text);
}

static const struct {
    const char *input, *json;
} replies[] = {
    {"+PONG\r\n", "\"PONG\""},
    {":42\r\n", "\"42\""},
    {":-1\r\n", "\"-1\""},
    {",0.25\r\n", "0.25"},
    {"#t\r\n", "true"},
    {"_\r\n", "null"},
    {"$-1\r\n", "null"},
    {"*-1\r\n", "null"},
    {"$0\r\n\r\n", "\"\""},
    {"$5\r\na\"\\\r\n\r\n", "\"a\\\"\\\\\\u000d\\n\""},
    {"=8\r\ntxt:a: b\r\n", "\"a: b\""},
    {"*0\r\n", "[]"},
    {"%0\r\n", "{}"},
    {"*2\r\n*1\r\n:1\r\n%1\r\n$1\r\na\r\n*0\r\n", "[[\"1\"],{\"a\":[]}]"},
    {"~2\r\n+a\r\n+b\r\n", "[\"a\",\"b\"]"},
    {">2\r\n+a\r\n+b\r\n", "[\"a\",\"b\"]"},
    {"%3\r\n+a\r\n%1\r\n+b\r\n#f\r\n+c\r\n*2\r\n_\r\n,1\r\n+d\r\n:1\r\n",
     "{\"a\":{\"b\":false},\"c\":[null,1],\"d\":\"1\"}"},
    {"%2\r\n+meta\r\n$9\r\n{\"a\":\n 1}\r\n+spec\r\n+no\r\n",
     "{\"meta\":{\"a\":  1},\"spec\":\"no\"}"},
    {"$3\r\na\xff"
     "b\r\n",
     "\"a\xef\xbf\xbd"
     "b\""},
    {"!5\r\nERR x\r\n", "\"ERR x\""},
};

static void replies_are_read_however_they_are_cut(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof replies / sizeof replies[0]; i++) {
        size_t len = strlen(replies[i].input);
        for (size_t step = 1; step <= len; step++) {
            struct cli_reader reader = {.bytes = NULL};
            enum cli_parse parse = CLI_MORE;
            for (size_t at = 0; at < len; at += step) {
                assert_int_equal(cli_reader_next(&reader), CLI_MORE);
                feed(&reader, replies[i].input + at, step < len - at ? step : len - at);
                if (at + step >= len) {
                    parse = cli_reader_next(&reader);
                }
            }
            assert_int_equal(parse, CLI_READY);
            expect_json(&reader, replies[i].json);
            assert_int_equal(cli_reader_next(&reader), CLI_MORE);
            cli_reader_free(&reader);
        }
    }
}

static void replies_come_one_after_the_other(void **state) {
    (void)state;
    struct cli_reader reader = {.bytes = NULL};
    feed(&reader, "+one\r\n*1\r\n$3\r\ntwo\r\n:3\r\n+fo", 26);
    assert_int_equal(cli_reader_next(&reader), CLI_READY);
    expect_json(&reader, "\"one\"");
    assert_int_equal(cli_reader_next(&reader), CLI_READY);
    expect_json(&reader, "[\"two\"]");
    assert_int_equal(cli_reader_next(&reader), CLI_READY);
    expect_json(&reader, "\"3\"");
    assert_int_equal(cli_reader_next(&reader), CLI_MORE);
    feed(&reader, "ur\r\n", 4);
    assert_int_equal(cli_reader_next(&reader), CLI_READY);
    expect_json(&reader, "\"four\"");
    cli_reader_free(&reader);
}

static void what_lies_is_refused_when_it_is_seen(void **state) {
    (void)state;
    static const char *const inputs[] = {
        "HTTP/1.1 400\r\n",
        "\r\n",
        "$x\r\n",
        "$-2\r\n",
        "*2147483648\r\n",
        "$99999999999\r\n",
        "%9999999999\r\n",
        ":x\r\n",
        ":\r\n",
        "#x\r\n",
        "_x\r\n",
        ",\r\n",
        "*1\r\n*x\r\n",
        "*4294967295\r\n",
    };
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
        struct cli_reader reader = {.bytes = NULL};
        feed(&reader, inputs[i], strlen(inputs[i]));
        assert_int_equal(cli_reader_next(&reader), CLI_BAD);
        assert_non_null(reader.error);
        assert_int_equal(cli_reader_next(&reader), CLI_BAD);
        cli_reader_free(&reader);
    }
    struct cli_reader deep = {.bytes = NULL};
    for (unsigned i = 0; i <= CLI_DEPTH_MAX; i++) {
        feed(&deep, "*1\r\n", 4);
    }
    assert_int_equal(cli_reader_next(&deep), CLI_BAD);
    cli_reader_free(&deep);
}

static void any_bytes_are_read_or_refused(void **state) {
    (void)state;
    static const char letters[] = "+-:$*%>~_#,!=\r\n0123456789ab-";
    struct tn_prng random = unit_random();
    for (unsigned run = 0; run < 20000; run++) {
        struct cli_reader reader = {.bytes = NULL};
        for (unsigned i = 0; i < 40; i++) {
            char c = letters[unit_below(&random, sizeof letters - 1)];
            feed(&reader, &c, 1);
            if (cli_reader_next(&reader) == CLI_READY) {
                struct cli_text text = {.at = NULL};
                cli_json_node(&text, &reader, 0);
                assert_true(text.len > 0);
                cli_text_free(&text);
            }
        }
        cli_reader_free(&reader);
    }
}

static void fields_are_found_by_name(void **state) {
    (void)state;
    static const char input[] = "%3\r\n+a\r\n*2\r\n+b\r\n:1\r\n+b\r\n:7\r\n+c\r\n$1\r\n8\r\n";
    struct cli_reader reader = {.bytes = NULL};
    uint64_t number;
    feed(&reader, input, sizeof input - 1);
    assert_int_equal(cli_reader_next(&reader), CLI_READY);
    assert_true(cli_node_number(&reader, cli_node_find(&reader, 0, "b"), &number));
    assert_int_equal(number, 7);
    assert_true(cli_node_number(&reader, cli_node_find(&reader, 0, "c"), &number));
    assert_int_equal(number, 8);
    assert_int_equal(cli_node_find(&reader, 0, "d"), 0);
    assert_false(cli_node_number(&reader, 0, &number));
    cli_reader_free(&reader);
}

static void a_refusal_is_taken_apart(void **state) {
    (void)state;
    static const struct {
        const char *error, *json;
        enum tn_outcome outcome;
    } refusals[] = {
        {"EXHAUSTED no free value in the pool retry_at=17 lsn=4",
         "{\"result\":\"EXHAUSTED\",\"outcome\":\"committed\",\"detail\":\"no free value in the pool\","
         "\"retry_at\":\"17\",\"lsn\":\"4\"}",
         TN_COMMITTED},
        {"HALTED storage failed",
         "{\"result\":\"HALTED\",\"outcome\":\"unknown\",\"detail\":\"storage failed\"}",
         TN_UNKNOWN},
        {"ERR unknown command 'x=1'",
         "{\"result\":\"ERR\",\"outcome\":\"rejected\",\"detail\":\"unknown command 'x=1'\"}",
         TN_REJECTED},
        {"BAD_NAME a=b",
         "{\"result\":\"BAD_NAME\",\"outcome\":\"rejected\",\"detail\":\"\",\"a\":\"b\"}",
         TN_REJECTED},
        {"", "{\"result\":\"\",\"outcome\":\"rejected\",\"detail\":\"\"}", TN_REJECTED},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        struct cli_text text = {.at = NULL};
        struct cli_refusal refusal =
            cli_refusal_of(tn_bytes_of(refusals[i].error, strlen(refusals[i].error)));
        assert_int_equal(refusal.outcome, refusals[i].outcome);
        cli_json_refusal(&text, &refusal);
        assert_string_equal(text.at, refusals[i].json);
        cli_text_free(&text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replies_are_read_however_they_are_cut),
        cmocka_unit_test(replies_come_one_after_the_other),
        cmocka_unit_test(what_lies_is_refused_when_it_is_seen),
        cmocka_unit_test(any_bytes_are_read_or_refused),
        cmocka_unit_test(fields_are_found_by_name),
        cmocka_unit_test(a_refusal_is_taken_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
