/* Rows and times of an import: tables of input and result, and bytes that are nothing at all. */
#include "unit/unit.h"

#include <stdio.h>

#include "cli/import.h"

/* ---- Rows ---- */

/* Fields joined by |, NULL as ~, rows ended by /, bad ones as !line. */
static void rows_spell(struct cli_text *text, struct cli_rows *rows) {
    for (;;) {
        enum cli_rows_next next = cli_rows_read(rows);
        if (next == CLI_ROW_END) {
            break;
        }
        assert_int_not_equal(next, CLI_ROW_FAILED);
        if (next == CLI_ROW_BAD) {
            assert_non_null(rows->error);
            cli_text_printf(text, "!%llu/", (unsigned long long)rows->line);
            continue;
        }
        for (uint32_t i = 0; i < rows->count; i++) {
            cli_text_put(text, i > 0 ? "|" : "");
            cli_text_put(text, rows->null[i] ? "~" : "");
            cli_text_add(text, rows->fields[i].at, rows->fields[i].len);
        }
        cli_text_put(text, "/");
    }
}

static const struct {
    const char *input, *want;
} tables[] = {
    {"", ""},
    {"\n\r\n\n", ""},
    {"a,b\nc,d\n", "a|b/c|d/"},
    {"a,b\r\nc,d", "a|b/c|d/"},
    {"a\tb,c\n", "a|b,c/"},
    {"\xef\xbb\xbf"
     "a,b\n",
     "a|b/"},
    {",\n", "|/"},
    {"a,\n,b\n", "a|/|b/"},
    {"\"a\",\"b,c\"\n", "a|b,c/"},
    {"\"a\"\"b\",c\n", "a\"b|c/"},
    {"\"\",\"\"\n", "|/"},
    {"\"a\nb\",c\nd,e\n", "a\nb|c/d|e/"},
    {"\"a\r\nb\",c\n", "a\r\nb|c/"},
    {"a,b\"c\"\n", "a|b\"c\"/"},
    {"a,\"b\"c\nd,e\n", "!1/d|e/"},
    {"a,\"b\nc,d\ne,f\n", "!1/c|d/e|f/"},
    {"a,\"b\nc,\"d\"\ne,f\n", "!1/c|d/e|f/"},
    {"a,b\n\n\"c", "a|b/!3/"},
    {"NULL,\"NULL\",\\N,null\n", "~|NULL|~|null/"},
    {"a\tNULL\t\\N\t\\NULL\n", "a|~|~|NULL/"},
    {"a\\tb\tc\\\\d\te\\nf\tg\\\n", "a\tb|c\\d|e\nf|g\\/"},
    {"a\t\"b\"\r\n\tc\n", "a|\"b\"/|c/"},
    {"a,b\rc\n", "a|b\rc/"},
};

static void rows_are_read_as_they_are_written(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        struct cli_rows rows;
        struct cli_text text = {.at = NULL};
        size_t len = strlen(tables[i].input);
        FILE *in = fmemopen((void *)(uintptr_t)tables[i].input, len > 0 ? len : 1, "rb");
        assert_non_null(in);
        if (len == 0) {
            (void)fgetc(in);
        }
        assert_true(cli_rows_open(&rows, in, CLI_ROWS_AUTO));
        cli_text_put(&text, "");
        rows_spell(&text, &rows);
        assert_string_equal(text.at, tables[i].want);
        assert_int_equal(rows.used, len);
        cli_rows_close(&rows);
        cli_text_free(&text);
        (void)fclose(in);
    }
}

/* What is too long is left behind, whatever is in it, and the next line is read. */
static void a_row_has_a_bound(void **state) {
    static const char tail[] = {'\n', 'a', ',', 'b', '\n'};
    static char bytes[3 * 1024 * 1024];
    (void)state;
    for (int quoted = 0; quoted < 2; quoted++) {
        for (size_t len = CLI_ROW_MAX - 4; len < sizeof bytes - 8; len = len * 4 / 3 + 1) {
            struct cli_rows rows;
            memset(bytes, 'x', len);
            bytes[0] = quoted ? '"' : 'y';
            memcpy(bytes + len, tail, sizeof tail);
            FILE *in = fmemopen(bytes, len + sizeof tail, "rb");
            assert_non_null(in);
            assert_true(cli_rows_open(&rows, in, CLI_ROWS_CSV));
            enum cli_rows_next first = cli_rows_read(&rows);
            assert_int_equal(first, !quoted && len < CLI_ROW_MAX ? CLI_ROW_READY : CLI_ROW_BAD);
            assert_int_equal(cli_rows_read(&rows), CLI_ROW_READY);
            assert_int_equal(rows.line, 2);
            assert_int_equal(rows.count, 2);
            assert_int_equal(cli_rows_read(&rows), CLI_ROW_END);
            cli_rows_close(&rows);
            (void)fclose(in);
        }
    }
}

/* Lines only grow, every byte is used, and it ends. */
static void any_bytes_are_rows_or_none(void **state) {
    static const char letters[] = "a1,,\"\"\t\n\n\r\\N";
    struct tn_prng prng = unit_random();
    (void)state;
    for (unsigned round = 0; round < 3000; round++) {
        char bytes[200];
        struct cli_rows rows;
        size_t len = 1 + tn_prng_below(&prng, sizeof bytes);
        for (size_t i = 0; i < len; i++) {
            bytes[i] = letters[tn_prng_below(&prng, sizeof letters)];
        }
        FILE *in = fmemopen(bytes, len, "rb");
        assert_non_null(in);
        assert_true(cli_rows_open(&rows, in, (enum cli_rows_format)(round % 3)));
        uint64_t line = 0;
        for (;;) {
            enum cli_rows_next next = cli_rows_read(&rows);
            if (next == CLI_ROW_END) {
                break;
            }
            assert_true(rows.line > line);
            line = rows.line;
        }
        assert_int_equal(rows.used, len);
        cli_rows_close(&rows);
        (void)fclose(in);
    }
}

/* ---- Times ---- */

static const struct {
    const char *text;
    uint64_t ms; /* UINT64_MAX: none */
} times[] = {
    {"0", 0},
    {"1700000000", 1700000000000},
    {"1700000000.25", 1700000000250},
    {"1700000000123", 1700000000123},
    {"99999999999", 99999999999000},
    {"100000000000", 100000000000},
    {"1970-01-01", 0},
    {"1970-01-01 00:00:01", 1000},
    {"2000-02-29", 951782400000},
    {"2024-02-29 12:00", 1709208000000},
    {"2026-11-15 13:04:05", 1794747845000},
    {"2026-11-15T13:04:05Z", 1794747845000},
    {"2026-11-15T13:04:05.123456Z", 1794747845123},
    {"2026-11-15 13:04:05.1+00", 1794747845100},
    {"2026-11-15 15:04:05+02:00", 1794747845000},
    {"2026-11-15 08:04:05-0500", 1794747845000},
    {"2026-11-15 13:04:05 +00", 1794747845000},
    {"9999-12-31 23:59:59", 253402300799000},
    {"", UINT64_MAX},
    {"soon", UINT64_MAX},
    {"-1", UINT64_MAX},
    {"1e9", UINT64_MAX},
    {"12 ", UINT64_MAX},
    {"1700000000.", UINT64_MAX},
    {"18446744073709551616", UINT64_MAX},
    {"9007199254740993", UINT64_MAX},
    {"1969-12-31", UINT64_MAX},
    {"1970-01-01 00:00:00+01:00", UINT64_MAX},
    {"0000-00-00 00:00:00", UINT64_MAX},
    {"2026-02-29", UINT64_MAX},
    {"2100-02-29", UINT64_MAX},
    {"2026-13-01", UINT64_MAX},
    {"2026-11-15 24:00:00", UINT64_MAX},
    {"2026-11-15 23:60:00", UINT64_MAX},
    {"2026-11-15 23:59:60", UINT64_MAX},
    {"2026-11-15 13:04:05.", UINT64_MAX},
    {"2026-11-15 13:04:05 CET", UINT64_MAX},
    {"2026-11-15 13:04:05+2", UINT64_MAX},
    {"15.11.2026", UINT64_MAX},
    {"2026-11-15x", UINT64_MAX},
};

static void times_are_those_of_databases(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        uint64_t ms = UINT64_MAX;
        bool good = import_time_parse(tn_bytes_of(times[i].text, strlen(times[i].text)), &ms);
        if (good != (times[i].ms != UINT64_MAX) || (good && ms != times[i].ms)) {
            fail_msg("%s: %d %llu", times[i].text, good, (unsigned long long)ms);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_read_as_they_are_written),
        cmocka_unit_test(a_row_has_a_bound),
        cmocka_unit_test(any_bytes_are_rows_or_none),
        cmocka_unit_test(times_are_those_of_databases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
