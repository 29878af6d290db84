/* The server's log lines: pairs, quoting, JSON, and lines that others have made. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "unit/unit.h"

#include "server/log_line.h"

static int saved_stderr;
static int reader;

static uint64_t wall(void *ctx) {
    (void)ctx;
    return 1794744224043;
}

static const struct os clock_at = {.clock_wall_ms = wall};

/* Standard error goes into a pipe, which holds far more than a line. */
static int capture(void **state) {
    int ends[2];
    (void)state;
    assert_int_equal(pipe(ends), 0);
    saved_stderr = dup(STDERR_FILENO);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    (void)close(ends[1]);
    reader = ends[0];
    server_log_setup(NULL, false);
    return 0;
}

static int restore(void **state) {
    (void)state;
    (void)dup2(saved_stderr, STDERR_FILENO);
    (void)close(saved_stderr);
    (void)close(reader);
    return 0;
}

static const char *line(void) {
    static char text[8192];
    ssize_t len = read(reader, text, sizeof text - 1);
    assert_true(len > 0);
    text[len] = '\0';
    return text;
}

static void a_line_is_pairs_and_quotes_where_it_must(void **state) {
    (void)state;
    server_log("ready", "port=%u data=%s", 7411u, "/var/lib/a b");
    assert_string_equal(line(), "event=ready port=7411 data=\"/var/lib/a b\"\n");
    server_log("x", "a=%s b=%s c=%s", "", "say \"hi\"\n\\", "k=v");
    assert_string_equal(line(), "event=x a=\"\" b=\"say \\\"hi\\\"\\n\\\\\" c=\"k=v\"\n");
    server_log("x", "reason=\"%s: %s\" n=%llu", "a", "b c", 18446744073709551615ULL);
    assert_string_equal(line(), "event=x reason=\"a: b c\" n=18446744073709551615\n");
    server_log("x", "p=\"%.*s\" z=%zu d=%d l=%lld", 2, "abc", (size_t)3, -1, -5000000000LL);
    assert_string_equal(line(), "event=x p=ab z=3 d=-1 l=-5000000000\n");
    server_log("plain", " ");
    assert_memory_equal(line(), "event=plain", 11);
}

static void json_has_numbers_and_strings(void **state) {
    (void)state;
    server_log_json(true);
    server_log("ready", "port=%u data=%s big=%llu", 7411u, "7411", 9007199254740993ULL);
    assert_string_equal(
        line(),
        "{\"event\":\"ready\",\"port\":7411,\"data\":\"7411\",\"big\":\"9007199254740993\"}\n");
    server_log("x", "bad=%s good=%s tab=%s", "\xff", "\xc3\xa9", "\t\"");
    assert_string_equal(line(), "{\"event\":\"x\",\"bad\":\"\\u00ff\",\"good\":\"\xc3\xa9\","
                                "\"tab\":\"\\u0009\\\"\"}\n");
}

/* A client without a user chooses names that failed log-ins have in the log. */
static void what_a_terminal_obeys_is_escaped(void **state) {
    (void)state;
    /* U+2065 to U+206A: the four in the middle turn the direction of the text. */
    static const char turns[] = {'\xe2', '\x81', '\xa5', '\xe2', '\x81', '\xa6', '\xe2',
                                 '\x81', '\xa9', '\xe2', '\x81', '\xaa', '\0'};
    /* U+2027, U+2028, U+202E, U+202F */
    static const char ends[] = {'\xe2', '\x80', '\xa7', '\xe2', '\x80', '\xa8', '\xe2',
                                '\x80', '\xae', '\xe2', '\x80', '\xaf', '\0'};
    server_log("x", "esc=%s csi=%s", "\x1b[2J", "\xc2\x9b[2J");
    assert_string_equal(line(), "event=x esc=\"\\u001b[2J\" csi=\"\\u009b[2J\"\n");
    server_log("x", "a=%s", "\xc2\x80\xc2\x9f\xc2\xa0\xc3\x80");
    assert_string_equal(line(), "event=x a=\"\\u0080\\u009f\xc2\xa0\xc3\x80\"\n");
    server_log("x", "a=%s b=%s", ends, turns);
    assert_string_equal(line(), "event=x a=\"\xe2\x80\xa7\\u2028\\u202e\xe2\x80\xaf\" "
                                "b=\"\xe2\x81\xa5\\u2066\\u2069\xe2\x81\xaa\"\n");
}

static void the_time_comes_first(void **state) {
    (void)state;
    server_log_setup(&clock_at, false);
    server_log("x", "a=%d", 1);
    assert_string_equal(line(), "ts=2026-11-15T12:03:44.043Z event=x a=1\n");
    server_log_json(true);
    server_log("x", "a=%d", 1);
    assert_string_equal(line(), "{\"ts\":\"2026-11-15T12:03:44.043Z\",\"event\":\"x\",\"a\":1}\n");
}

static void the_lines_of_others_are_read_and_written_again(void **state) {
    (void)state;
    server_log_line("event=halted lsn=12 reason=\"no \"room\" left\"");
    assert_string_equal(line(), "event=halted lsn=12 reason=\"no \\\"room\\\" left\"\n");
    server_log_json(true);
    server_log_line("event=halted lsn=12 file=007 reason=\"no \"room\" left\" next=\"a b\"");
    assert_string_equal(line(), "{\"event\":\"halted\",\"lsn\":12,\"file\":\"007\","
                                "\"reason\":\"no \\\"room\\\" left\",\"next\":\"a b\"}\n");
}

static void what_is_too_long_is_cut_and_still_a_line(void **state) {
    char quotes[3000];
    (void)state;
    memset(quotes, '"', sizeof quotes - 1);
    quotes[sizeof quotes - 1] = '\0';
    for (int json = 0; json < 2; json++) {
        server_log_json(json == 1);
        server_log("x", "a=%s b=%s c=%s d=%s", quotes, quotes, quotes, quotes);
        const char *text = line();
        size_t len = strlen(text);
        assert_true(len <= 4096);
        assert_string_equal(text + len - (json ? 3 : 2), json ? "\"}\n" : "\"\n");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_line_is_pairs_and_quotes_where_it_must, capture, restore),
        cmocka_unit_test_setup_teardown(json_has_numbers_and_strings, capture, restore),
        cmocka_unit_test_setup_teardown(what_a_terminal_obeys_is_escaped, capture, restore),
        cmocka_unit_test_setup_teardown(the_time_comes_first, capture, restore),
        cmocka_unit_test_setup_teardown(the_lines_of_others_are_read_and_written_again, capture,
                                        restore),
        cmocka_unit_test_setup_teardown(what_is_too_long_is_cut_and_still_a_line, capture, restore),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
