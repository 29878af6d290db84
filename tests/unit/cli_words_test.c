/* From the command line to the words of a request, and the table in the spelling of the command line. */
#include "unit/unit.h"

#include <locale.h>

#include "cli/arguments.h"
#include "cli/columns.h"
#include "cli/spell.h"

#define ARGUMENTS 24

/* Splits a line at blanks; '_' alone stands for an empty argument. */
static int split(char *line, char **argv) {
    int argc = 0;
    for (char *word = strtok(line, " "); word != NULL; word = strtok(NULL, " ")) {
        assert_true(argc < ARGUMENTS);
        argv[argc++] = word;
    }
    return argc;
}

static void join(const struct cli_words *words, struct cli_text *out) {
    for (uint32_t i = 0; i < words->count; i++) {
        cli_text_put(out, i > 0 ? " " : "");
        cli_text_add(out, words->at[i].at, words->at[i].len);
    }
}

static const struct {
    const char *line, *words; /* NULL: refused */
} lines[] = {
    {"ping", "PING"},
    {"alloc ports job/42", "ALLOC ports job/42"},
    {"ALLOC ports job/42 TTL 60", "ALLOC ports job/42 TTL 60"},
    {"alloc ports job/42 --count 2 --ttl 60", "ALLOC ports job/42 COUNT 2 TTL 60"},
    {"alloc --ttl 60 --count=2 ports job/42", "ALLOC ports job/42 COUNT 2 TTL 60"},
    {"alloc ports job/42 TTL 60 --count 2", "ALLOC ports job/42 COUNT 2 TTL 60"},
    {"alloc ports h --values 1,2 --values 3", "ALLOC ports h VALUES 3 1 2 3"},
    {"alloc h --from a --count 2 --ttl 5 --from b --values x,y --from c",
     "ALLOC h FROM a COUNT 2 FROM b VALUES 2 x y FROM c COUNT 1 TTL 5"},
    {"alloc h --from a --ttl 5 --values x", "ALLOC h FROM a VALUES 1 x TTL 5"},
    {"reserve h --ttl 5 --from a", "RESERVE h FROM a COUNT 1 TTL 5"},
    {"pool create p --range 1 9 --lease 60", "POOL CREATE p RANGE 1 9 lease 60"},
    {"pool create p --set --max-per-holder 3", "POOL CREATE p SET max_per_holder 3"},
    {"pool create --sticky p", "POOL CREATE p sticky yes"},
    {"pool create p --sticky no", "POOL CREATE p sticky no"},
    {"pool create p --sticky=off --exclude 1-2,5", "POOL CREATE p sticky off exclude 1-2,5"},
    {"pool create p --offline-hold-days 3", "POOL CREATE p offline_hold_days 3"},
    {"pool add p a b c", "POOL ADD p a b c"},
    {"release 0-1 h 1 --now", "RELEASE 0-1 h 1 NOW"},
    {"leases --pool p --state active", "LEASES POOL p STATE active"},
    {"rule set r t --disabled", "RULE SET r t DISABLED"},
    {"client kill ID 7", "CLIENT KILL ID 7"},
    {"alloc -- --ttl -5", "ALLOC --ttl -5"},
    {"echo -1", "ECHO -1"},
    {"alloc ports", NULL},
    {"alloc", NULL},
    {"alloc p h --ttl", NULL},
    {"alloc p h --tll 5", NULL},
    {"pool create p --range 1", NULL},
    {"release 0-1 h 1 --now=1", NULL},
    {"time now", NULL},
    {"hello 3", NULL},
    {"pool", NULL},
    {"nonsense", NULL},
};

static void options_become_tokens(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct cli_request request;
        char line[256];
        char *argv[ARGUMENTS];
        (void)snprintf(line, sizeof line, "%s", lines[i].line);
        bool good = cli_request_make(split(line, argv), argv, &request);
        if (good != (lines[i].words != NULL)) {
            fail_msg("'%s' is %s", lines[i].line, good ? "taken" : "refused");
        }
        if (good) {
            struct cli_text words = {.at = NULL};
            join(&request.words, &words);
            assert_string_equal(words.at, lines[i].words);
            cli_text_free(&words);
        }
        cli_request_free(&request);
    }
}

static bool same_word(struct tn_bytes a, const char *b) {
    char upper[256];
    size_t len = strlen(b);
    assert_true(len < sizeof upper);
    for (size_t i = 0; i <= len; i++) {
        upper[i] = (char)(b[i] >= 'a' && b[i] <= 'z' ? b[i] - 'a' + 'A' : b[i]);
    }
    return protocol_word_is(a, upper, len);
}

/* What is shown in the new spelling is the request that the table gives as its example. */
static void every_example_means_what_the_table_says(void **state) {
    (void)state;
    for (unsigned i = 0; i < PROTOCOL_COMMANDS; i++) {
        const struct protocol_command *row = &protocol_table[i];
        if (!cli_offers(row)) {
            continue;
        }
        struct cli_text example = {.at = NULL};
        struct cli_request request;
        char *argv[ARGUMENTS];
        char *want[ARGUMENTS];
        char table[512];
        cli_spell_example(&example, row);
        assert_memory_equal(example.at, "tenure ", 7);
        /* Which server it is for is a setting, which stands before the words. */
        const char *setting =
            protocol_command_has(row, PROTOCOL_PROGRAMS) ? "-s data/tenure.sock " : "";
        assert_memory_equal(example.at + 7, setting, strlen(setting));
        int argc = split(example.at + 7 + strlen(setting), argv);
        for (int a = 0; a < argc; a++) { /* the shell's quotes */
            size_t len = strlen(argv[a]);
            if (argv[a][0] == '\'' && argv[a][len - 1] == '\'') {
                argv[a][len - 1] = '\0';
                argv[a]++;
            }
        }
        assert_true(cli_request_make(argc, argv, &request));
        (void)snprintf(table, sizeof table, "%s", row->example);
        uint32_t count = (uint32_t)split(table, want);
        assert_int_equal(request.words.count, count);
        /* Options may have another order; each word must occur. */
        for (uint32_t w = 0; w < count; w++) {
            bool found = false;
            for (uint32_t h = 0; h < count; h++) {
                found = found || same_word(request.words.at[h], want[w]);
            }
            assert_true(found);
        }
        cli_request_free(&request);
        cli_text_free(&example);
    }
}

static void a_list_knows_whether_a_page_was_asked_for(void **state) {
    (void)state;
    static const struct {
        const char *line;
        bool list, page;
    } calls[] = {{"leases", true, false},
                 {"leases --count 5", true, true},
                 {"pool list CURSOR 3", true, true},
                 {"leases --pool p", true, false},
                 {"ping", false, false}};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        struct cli_request request;
        char line[64];
        char *argv[ARGUMENTS];
        (void)snprintf(line, sizeof line, "%s", calls[i].line);
        assert_true(cli_request_make(split(line, argv), argv, &request));
        assert_int_equal(request.is_list, calls[i].list);
        assert_int_equal(request.one_page, calls[i].page);
        cli_request_free(&request);
    }
}

static void guesses_are_near(void **state) {
    (void)state;
    static const struct {
        const char *word, *best;
    } guesses[] = {{"aloc", "alloc"},  {"allco", "alloc"},  {"rel", "release"},
                   {"LEASE", "lease"}, {"leasse", "lease"}, {"xyzzy", ""}};
    for (size_t i = 0; i < sizeof guesses / sizeof guesses[0]; i++) {
        struct cli_guess guess = cli_guess_for(guesses[i].word);
        cli_guess_try(&guess, "alloc");
        cli_guess_try(&guess, "release");
        cli_guess_try(&guess, "lease");
        assert_string_equal(guess.best, guesses[i].best);
    }
}

static void text_for_a_terminal_is_clean(void **state) {
    (void)state;
    static const struct {
        const char *in, *clean, *shell;
    } texts[] = {{"job/42", "job/42", "job/42"},
                 {"a b", "a b", "'a b'"},
                 {"it's", "it's", "'it'\\''s'"},
                 {"", "", "''"},
                 {"\033[2J", "\xef\xbf\xbd[2J", "'\033[2J'"},
                 {"\xc2\x9b"
                  "x",
                  "\xef\xbf\xbdx",
                  "'\xc2\x9b"
                  "x'"},
                 {"\xff\xfe", "\xef\xbf\xbd\xef\xbf\xbd", "'\xff\xfe'"},
                 {"größe", "größe", "'größe'"}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct cli_text text = {.at = NULL};
        cli_text_put(&text, "");
        cli_text_clean(&text, tn_bytes_of(texts[i].in, strlen(texts[i].in)));
        assert_string_equal(text.at, texts[i].clean);
        text.len = 0;
        cli_text_shell(&text, texts[i].in);
        assert_string_equal(text.at, texts[i].shell);
        cli_text_free(&text);
    }
}

static void times_are_told_from_now(void **state) {
    (void)state;
    static const struct {
        uint64_t ms;
        const char *text;
    } times[] = {{1000000, "now"},
                 {1000999, "now"},
                 {1059999, "in 59 s"},
                 {1119000, "in 119 s"},
                 {1120000, "in 2 min"},
                 {940000, "60 s ago"},
                 {1000000 + 7200000, "in 2 h"},
                 {1000000 + 172800000ull, "in 2 d"}};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        struct cli_text text = {.at = NULL};
        cli_text_relative(&text, times[i].ms, 1000000);
        assert_string_equal(text.at, times[i].text);
        cli_text_free(&text);
    }
}

static void words_wrap(void **state) {
    (void)state;
    struct cli_text text = {.at = NULL};
    cli_text_wrap(&text, "alloc POOL [--count N | --values V] [--ttl S]", 7, 32);
    assert_string_equal(text.at, "alloc POOL\n"
                                 "       [--count N | --values V]\n"
                                 "       [--ttl S]");
    text.len = 0;
    cli_text_wrap(&text, "a word-that-is-too-long b", 2, 8);
    assert_string_equal(text.at, "a\n  word-that-is-too-long\n  b");
    text.len = 0;
    cli_text_wrap(&text, "as wide as it gets", 2, SIZE_MAX);
    assert_string_equal(text.at, "as wide as it gets");
    cli_text_free(&text);
}

/* The least important columns go first, and the head is printed again when that changes. */
static void spare_columns_go_first(void **state) {
    (void)state;
    char out[512];
    struct cli_table table = {.screen = {.width = 30}};
    FILE *file = fmemopen(out, sizeof out, "w");
    assert_non_null(file);
    cli_table_column(&table, "TIME", false);
    cli_table_column(&table, "ID", false);
    cli_table_column(&table, "HOLDER", false);
    cli_table_column(&table, "WHY", false);
    table.columns[1].spare = 2;
    table.columns[3].spare = 1;
    static const char *const rows[][4] = {{"12:00", "1.0", "job/1", "asked"},
                                          {"12:01", "2.0", "job/with-a-name", "asked"},
                                          {"12:02", "3.0", "job/with-a-longer-name", "asked"},
                                          {"12:03", "4.0", "job/4", "asked"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (size_t j = 0; j < 4; j++) {
            cli_table_put(&table, rows[i][j]);
        }
        assert_true(cli_table_flush(&table, file));
    }
    assert_int_equal(fclose(file), 0);
    assert_string_equal(out, "TIME   ID   HOLDER  WHY\n"
                             "12:00  1.0  job/1   asked\n"
                             "TIME   HOLDER           WHY\n"
                             "12:01  job/with-a-name  asked\n"
                             "TIME   HOLDER\n"
                             "12:02  job/with-a-longer-name\n"
                             "12:03  job/4\n");
}

/* Prints the same small table into so many columns. */
static void print(size_t width, char *out, size_t capacity) {
    struct cli_table table = {.screen = {.width = width}};
    FILE *file = fmemopen(out, capacity, "w");
    assert_non_null(file);
    cli_table_column(&table, "NAME", false);
    cli_table_column(&table, "SIZE", true);
    cli_table_column(&table, "HOLDER", false);
    cli_table_put(&table, "a");
    cli_table_put(&table, "10");
    cli_table_put(&table, "somebody with a long name");
    cli_table_put(&table, "größe");
    cli_table_put(&table, "123456");
    cli_table_put(&table, "日本語");
    assert_true(cli_table_flush(&table, file));
    assert_int_equal(fclose(file), 0);
}

static void tables_fit(void **state) {
    (void)state;
    char out[512];
    if (setlocale(LC_CTYPE, "C.UTF-8") == NULL) {
        skip();
    }
    print(SIZE_MAX, out, sizeof out);
    assert_string_equal(out, "NAME     SIZE  HOLDER\n"
                             "a          10  somebody with a long name\n"
                             "größe  123456  日本語\n");
    print(24, out, sizeof out);
    assert_string_equal(out, "NAME     SIZE  HOLDER\n"
                             "a          10  somebody…\n"
                             "größe  123456  日本語\n");
    print(23, out, sizeof out);
    assert_string_equal(out, "NAME     SIZE  HOLDER\n"
                             "a          10  somebod…\n"
                             "größe  123456  日本語\n");
    print(14, out, sizeof out); /* before a text is too short to be read, its column is left out */
    assert_string_equal(out, "NAME     SIZE\n"
                             "a          10\n"
                             "größe  123456\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_become_tokens),
        cmocka_unit_test(every_example_means_what_the_table_says),
        cmocka_unit_test(a_list_knows_whether_a_page_was_asked_for),
        cmocka_unit_test(guesses_are_near),
        cmocka_unit_test(text_for_a_terminal_is_clean),
        cmocka_unit_test(times_are_told_from_now),
        cmocka_unit_test(words_wrap),
        cmocka_unit_test(spare_columns_go_first),
        cmocka_unit_test(tables_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
