/* The table of commands, its parser and its answers: every example parses, every refusal has a
 * reason. */
#include "unit/unit.h"

#include "protocol/docs.h"
#include "protocol/parse.h"
#include "protocol/render.h"
#include "protocol/table.h"
#include "protocol/text.h"
#include "tenure.h"

#define ARGS 64u

struct line {
    char text[1024];
    struct tn_bytes argv[ARGS];
    uint32_t argc;
};

/* Words between single spaces. */
static void line_split(struct line *line, const char *text) {
    assert_true(strlen(text) < sizeof line->text);
    strcpy(line->text, text);
    line->argc = 0;
    for (char *at = line->text; *at != '\0';) {
        size_t len = strcspn(at, " ");
        assert_true(line->argc < ARGS);
        line->argv[line->argc++] = tn_bytes_of(at, len);
        at += len + (at[len] == ' ');
    }
}

static const struct protocol_command *find(const struct line *line) {
    bool container;
    return protocol_command_find(line->argv, line->argc, &container);
}

static enum tn_result parse(struct line *line, const char *text, struct protocol_call *call,
                            uint8_t *scratch, size_t capacity) {
    line_split(line, text);
    const struct protocol_command *row = find(line);
    assert_non_null(row);
    return protocol_call_parse(row, line->argv, line->argc, scratch, capacity, call);
}

/* Commands that need no login, because they log in, log out, show public facts, or take a token
 * that grants the right. A new command of this kind needs a decision here. */
static bool is_open(const struct protocol_command *row) {
    for (uint32_t i = 0; i < row->form.count; i++) {
        if (row->form.arguments[i].bind == PROTOCOL_B_BEARER) {
            return true;
        }
    }
    return row->id == PROTOCOL_AUTH || row->id == PROTOCOL_HELLO || row->id == PROTOCOL_QUIT ||
           row->id == PROTOCOL_RESET || row->id == PROTOCOL_TOKEN_KEYS ||
           row->id == PROTOCOL_TOKEN_REFRESH;
}

static void the_table_is_in_order_and_complete(void **state) {
    (void)state;
    for (uint32_t i = 0; i < PROTOCOL_COMMANDS; i++) {
        const struct protocol_command *row = &protocol_table[i];
        char name[PROTOCOL_NAME_MAX];
        struct line line;
        assert_int_equal(row->id, i);
        assert_non_null(row->summary);
        assert_true((row->method == NULL) == (row->path == NULL));
        /* A job may be for RESP only: the bytes of a file are not JSON. */
        assert_true(row->kind != PROTOCOL_CONNECTION || row->method == NULL);
        assert_true(row->kind == PROTOCOL_CONNECTION || row->kind == PROTOCOL_JOB ||
                    row->method != NULL);
        assert_true((row->role == PROTOCOL_NOBODY) == is_open(row));
        if (i > 0) {
            int order = strcmp(row[-1].word, row->word);
            assert_true(order < 0 || (order == 0 && strcmp(row[-1].sub, row->sub) < 0));
        }
        assert_true(row->form.count <= PROTOCOL_ARGUMENTS_MAX);
        protocol_command_name(row, name);
        line_split(&line, name);
        assert_ptr_equal(find(&line), row);
        line_split(&line, row->example);
        assert_ptr_equal(find(&line), row);
        int32_t arity = protocol_command_arity(row);
        assert_true(arity > 0 ? line.argc == (uint32_t)arity : line.argc >= (uint32_t)-arity);
    }
}

static void every_example_of_a_read_or_write_parses_and_encodes(void **state) {
    static uint8_t scratch[4096];
    static uint8_t encoded[8192];
    (void)state;
    for (uint32_t i = 0; i < PROTOCOL_COMMANDS; i++) {
        const struct protocol_command *row = &protocol_table[i];
        struct protocol_call call;
        struct line line;
        if (row->kind == PROTOCOL_CONNECTION) {
            continue;
        }
        assert_int_equal(parse(&line, row->example, &call, scratch, sizeof scratch), TN_R_OK);
        if (row->kind == PROTOCOL_WRITE) {
            struct kernel_command decoded;
            if (row->id == PROTOCOL_EMIT) { /* the rest is in its token */
                call.command.fields |= KERNEL_F_LEASE | KERNEL_F_EPOCH | KERNEL_F_NAME;
            }
            uint32_t len = kernel_command_encode(&call.command, encoded, sizeof encoded);
            assert_true(len > 0);
            assert_true(kernel_command_decode(tn_bytes_of(encoded, len), &decoded));
        }
    }
}

static void events_have_ids_of_two_numbers(void **state) {
    static const struct {
        const char *text;
        bool good;
        uint64_t lsn;
        uint32_t index;
    } rows[] = {
        {"1042.0", true, 1042, 0},
        {"1042.7", true, 1042, 7},
        {"1042", true, 1042, UINT32_MAX},
        {"0", true, 0, 0},
        {"0.0", true, 0, 0},
        {"0.5", true, 0, 0},
        {"18446744073709551615.4294967295", true, UINT64_MAX, UINT32_MAX},
        {"18446744073709551616.0", false, 0, 0},
        {"1.4294967296", false, 0, 0},
        {"", false, 0, 0},
        {".", false, 0, 0},
        {"1.", false, 0, 0},
        {".1", false, 0, 0},
        {"1.2.3", false, 0, 0},
        {"-1.0", false, 0, 0},
        {"1.0 ", false, 0, 0},
        {"x", false, 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct protocol_event_id id = {.lsn = 0};
        char text[PROTOCOL_EVENT_ID_TEXT];
        struct tn_bytes in = tn_bytes_of(rows[i].text, strlen(rows[i].text));
        assert_int_equal(protocol_event_id_parse(in, &id), rows[i].good);
        if (rows[i].good) {
            assert_true(id.lsn == rows[i].lsn && id.index == rows[i].index);
            struct protocol_event_id again;
            uint32_t len = protocol_event_id_format(id.lsn, id.index, text);
            assert_int_equal(strlen(text), len);
            assert_true(protocol_event_id_parse(tn_bytes_of(text, len), &again));
            assert_true(again.lsn == id.lsn && again.index == id.index);
        }
    }
}

static void arity_is_as_redis_counts(void **state) {
    static const struct {
        enum protocol_id id;
        int32_t arity;
    } rows[] = {
        {PROTOCOL_PING, -1},         {PROTOCOL_ECHO, 2},          {PROTOCOL_CLIENT_SETNAME, 3},
        {PROTOCOL_SELECT, 2},        {PROTOCOL_ALLOC, -3},        {PROTOCOL_RESERVE, -8},
        {PROTOCOL_RELEASE, -4},      {PROTOCOL_POOL_CREATE, -3},  {PROTOCOL_POOL_ADD, -4},
        {PROTOCOL_COMMAND_COUNT, 2}, {PROTOCOL_COMMAND_DOCS, -2}, {PROTOCOL_HELLO, -1},
        {PROTOCOL_SUBSCRIBE, -2},    {PROTOCOL_UNSUBSCRIBE, -1},  {PROTOCOL_EVENTS, -1},
        {PROTOCOL_AUTH, -2},         {PROTOCOL_TIME, 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(protocol_command_arity(&protocol_table[rows[i].id]), rows[i].arity);
    }
}

static void usage_is_written_as_people_read_it(void **state) {
    char text[512];
    const struct protocol_command *alloc = &protocol_table[PROTOCOL_ALLOC];
    const struct protocol_command *create = &protocol_table[PROTOCOL_POOL_CREATE];
    (void)state;
    assert_true(protocol_usage_write(alloc, &alloc->form, text, sizeof text));
    assert_string_equal(text, "ALLOC pool holder [COUNT n | VALUES n value...] [TTL duration] "
                              "[WAIT duration] [META json] [OPID id]");
    assert_true(protocol_usage_write(alloc, &alloc->other, text, sizeof text));
    assert_string_equal(text, "ALLOC holder FROM pool (COUNT n | VALUES n value...) ... "
                              "[TTL duration] [WAIT duration] [META json] [OPID id]");
    assert_true(protocol_usage_write(create, &create->form, text, sizeof text));
    assert_string_equal(text, "POOL CREATE pool [[RANGE lo hi ... | SET] [option value ...]] "
                              "[REASON text] [OPID id]");
    assert_false(protocol_usage_write(create, &create->form, text, 20));
}

static void an_unknown_second_word_is_told_from_an_unknown_command(void **state) {
    struct line line;
    bool container;
    (void)state;
    line_split(&line, "POOL FLOOD x");
    assert_null(protocol_command_find(line.argv, line.argc, &container));
    assert_true(container);
    line_split(&line, "FLOOD x");
    assert_null(protocol_command_find(line.argv, line.argc, &container));
    assert_false(container);
    line_split(&line, "pOnG");
    assert_null(protocol_command_find(line.argv, line.argc, &container));
    line_split(&line, "pool");
    assert_null(protocol_command_find(line.argv, line.argc, &container));
    assert_true(container);
}

static const struct {
    const char *text;
    enum tn_result code;
    const char *detail; /* the beginning of the detail */
} refusals[] = {
    {"ALLOC ports job/1 COUNT x", TN_R_MALFORMED, "COUNT: 'x' is not a whole number"},
    {"ALLOC ports job/1 COUNT -1", TN_R_MALFORMED, "COUNT: '-1' is not a whole number"},
    {"ALLOC ports job/1 COUNT 4294967296", TN_R_MALFORMED, "COUNT: '4294967296'"},
    {"ALLOC ports job/1 COUNT 0", TN_R_MALFORMED, "COUNT must be at least 1"},
    {"ALLOC ports job/1 COUNT", TN_R_MALFORMED, "COUNT is missing"},
    {"ALLOC ports job/1 VALUES 2 a", TN_R_MALFORMED, "a value is missing"},
    {"ALLOC ports job/1 VALUES 4097 a", TN_R_MALFORMED, "VALUES: '4097'"},
    {"ALLOC ports job/1 TTL 1.5", TN_R_MALFORMED, "TTL: '1.5'"},
    {"ALLOC ports job/1 TTL 1.5h", TN_R_MALFORMED,
     "TTL: '1.5h' is not a whole number of seconds, or one with a unit: 90s, 15m, 12h, 30d"},
    {"ALLOC ports job/1 TTL h", TN_R_MALFORMED, "TTL: 'h' is not"},
    {"ALLOC ports job/1 TTL 99999d", TN_R_MALFORMED, "TTL: at most 4294967295 seconds"},
    {"REVOKE 0-1 AFTER -5m", TN_R_MALFORMED, "AFTER: '-5m' is not"},
    {"POOL CREATE p LEASE 1.5h", TN_R_BAD_POLICY, "lease: '1.5h' is not a whole number of seconds"},
    {"POOL CREATE p LEASE 99999d", TN_R_BAD_POLICY, "lease: at most 4294967295 seconds"},
    {"POOL CREATE p OFFLINE_HOLD_DAYS 60000", TN_R_BAD_POLICY,
     "offline_hold_days: '60000' is not a whole number of days, at most 49710"},
    {"POOL CREATE p HIGH_RATE_MIN_FACTOR 1.5", TN_R_BAD_POLICY,
     "high_rate_min_factor: '1.5' is not a number from 0 to 1, with up to six decimals"},
    {"POOL CREATE p STICKY maybe", TN_R_BAD_POLICY, "sticky: 'maybe' is not no or yes"},
    {"ALLOC ports job/1 TTL 5 TTL 6", TN_R_MALFORMED, "TTL is repeated"},
    {"ALLOC ports job/1 NOW", TN_R_MALFORMED, "unexpected 'NOW'"},
    {"ALLOC ports job/1 META [1]", TN_R_MALFORMED, "META: it is not a JSON object"},
    {"ALLOC ports job/1 META {\"a\":}", TN_R_MALFORMED, "META: it is not valid JSON"},
    {"ALLOC ports j\xff", TN_R_BAD_NAME, "the holder: it is not valid UTF-8"},
    {"ALLOC ports job/1 OPID \xc0\x80", TN_R_BAD_NAME, "OPID: it is not valid UTF-8"},
    {"ALLOC job/1 FROM ports", TN_R_MALFORMED, "FROM a pool needs COUNT n"},
    {"ALLOC job/1 FROM ports TTL 5", TN_R_MALFORMED, "FROM a pool needs COUNT n"},
    {"RESERVE job/1 TTL 5 COUNT 1 FROM ports COUNT 1", TN_R_MALFORMED, "unexpected 'COUNT'"},
    {"RESERVE job/1 FROM ports COUNT 1 FROM gpus COUNT 1", TN_R_MALFORMED, "TTL is missing"},
    {"TOUCH 1042 1", TN_R_MALFORMED, "'1042' is not a lease"},
    {"TOUCH 0- 1", TN_R_MALFORMED, "'0-' is not a lease"},
    {"TOUCH 0-1 -1", TN_R_MALFORMED, "the epoch: '-1'"},
    {"TOUCH 0-1 18446744073709551616", TN_R_MALFORMED, "the epoch: '18446744073709551616'"},
    {"LEASE ports/", TN_R_MALFORMED, "the value after"},
    {"LEASES STATE sleeping", TN_R_MALFORMED, "unknown state 'sleeping'"},
    {"LEASES COUNT 1001", TN_R_MALFORMED, "COUNT: '1001'"},
    {"LEASES FENCE x", TN_R_MALFORMED, "FENCE: 'x'"},
    {"POOL CREATE p COLOUR blue", TN_R_BAD_POLICY, "unknown option 'colour'"},
    {"POOL CREATE p STRATEGY best", TN_R_BAD_POLICY,
     "strategy: 'best' is not lowest, random, next or coldest"},
    {"POOL CREATE p RANGE 1", TN_R_MALFORMED, "the range's last value is missing"},
    {"POOL CREATE p LEASE", TN_R_MALFORMED, "lease is missing"},
    {"POOL ADD gpus OPID x", TN_R_MALFORMED, "a name is missing"},
    {"RULE SET r1 t ENABLED", TN_R_MALFORMED, "unexpected 'ENABLED'"},
    {"SENSOR SET s1 t nothing", TN_R_MALFORMED, "the description: it is not a JSON object"},
};

static void each_refusal_says_why(void **state) {
    static uint8_t scratch[4096];
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        struct protocol_call call;
        struct line line;
        assert_int_equal(parse(&line, refusals[i].text, &call, scratch, sizeof scratch),
                         refusals[i].code);
        if (strncmp(call.detail, refusals[i].detail, strlen(refusals[i].detail)) != 0) {
            fail_msg("%s: %s", refusals[i].text, call.detail);
        }
    }
}

static void long_names_and_values_are_refused(void **state) {
    static uint8_t scratch[200000];
    static char big[70001];
    struct protocol_call call;
    struct tn_bytes argv[] = {tn_bytes_of("ALLOC", 5), tn_bytes_of("p", 1),
                              tn_bytes_of(big, 129),   tn_bytes_of("VALUES", 6),
                              tn_bytes_of("1", 1),     tn_bytes_of(big, 70000)};
    (void)state;
    memset(big, 'x', sizeof big);
    const struct protocol_command *row = &protocol_table[PROTOCOL_ALLOC];
    assert_int_equal(protocol_call_parse(row, argv, 3, scratch, sizeof scratch, &call),
                     TN_R_BAD_NAME);
    argv[2].len = 128;
    assert_int_equal(protocol_call_parse(row, argv, 3, scratch, sizeof scratch, &call), TN_R_OK);
    assert_int_equal(protocol_call_parse(row, argv, 6, scratch, sizeof scratch, &call),
                     TN_R_TOO_LARGE);
    argv[3] = tn_bytes_of("META", 4);
    argv[4] = tn_bytes_of(big, KERNEL_META_MAX + 1);
    assert_int_equal(protocol_call_parse(row, argv, 5, scratch, sizeof scratch, &call),
                     TN_R_TOO_LARGE);
}

static void options_of_pools_are_read(void **state) {
    static uint8_t scratch[4096];
    struct protocol_call call;
    struct line line;
    (void)state;
    assert_int_equal(parse(&line,
                           "pool create mac range 52:54:00:00:00:00 52:54:FF:FF:FF:FF strategy "
                           "RANDOM format mac sticky yes high_rate_min_factor 0.25 exclude "
                           "0x10-0x20,5 opid a",
                           &call, scratch, sizeof scratch),
                     TN_R_OK);
    const struct kernel_policy *policy = &call.policy.values;
    assert_true(call.policy.has_spans && policy->span_count == 1);
    assert_true(policy->spans[0].lo == 0x525400000000);
    assert_true(policy->spans[0].hi == 0x5254ffffffff);
    assert_int_equal(policy->of[KERNEL_OPTION_STRATEGY], KERNEL_RANDOM);
    assert_int_equal(policy->of[KERNEL_OPTION_FORMAT], KERNEL_MAC);
    assert_int_equal(policy->of[KERNEL_OPTION_STICKY], 1);
    assert_int_equal(policy->of[KERNEL_OPTION_MIN_FACTOR], 250000);
    assert_int_equal(policy->exclude_count, 2);
    assert_int_equal(call.command.opid.len, 1);
}

static void a_range_may_have_several_spans_and_prefixes(void **state) {
    static uint8_t scratch[4096];
    struct protocol_call call;
    struct line line;
    char text[KERNEL_OPTION_TEXT_MAX];
    (void)state;
    assert_int_equal(parse(&line,
                           "pool create p range 10.0.1.0/24 range 10.0.0.9 10.0.0.10 range "
                           "10.0.3.1-10.0.3.2 format ipv4 exclude 10.0.1.0,10.0.1.240/28",
                           &call, scratch, sizeof scratch),
                     TN_R_OK);
    struct kernel_policy policy = kernel_policy_new(&call.policy);
    assert_int_equal(kernel_policy_patch_fault(&call.policy, &policy, 7200), KERNEL_FAULT_NONE);
    assert_true(kernel_option_format(&policy, "range", text, sizeof text));
    assert_string_equal(text, "10.0.0.9-10.0.0.10,10.0.1.0-10.0.1.255,10.0.3.1-10.0.3.2");
    for (size_t room = 1; room < 8; room++) { /* text that does not fit is cut off */
        memset(text, 'x', sizeof text);
        assert_true(kernel_option_format(&policy, "range", text, room));
        assert_int_equal(strlen(text), room - 1);
        assert_true(kernel_option_format(&policy, "cooldown", text, room));
        assert_true(strlen(text) < room);
    }
    assert_true(kernel_option_format(&policy, "exclude", text, sizeof text));
    assert_string_equal(text, "10.0.1.0-10.0.1.0,10.0.1.240-10.0.1.255");
    assert_int_equal(kernel_policy_size(&policy), 2 + 256 + 2);
    static const char *const bad[] = {"10.0.0.7/24", "10.0.0.0/33",   "10.0.0/24",   "1/24", "1-",
                                      "-",           "10.0.0.256/32", "010.0.0.0/8", "1,,2"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char words[64];
        (void)snprintf(words, sizeof words, "pool create p range %s", bad[i]);
        assert_int_equal(parse(&line, words, &call, scratch, sizeof scratch), TN_R_BAD_POLICY);
    }
}

static void a_star_asks_for_a_derived_holder_in_alloc_only(void **state) {
    static uint8_t scratch[4096];
    struct protocol_call call;
    struct line line;
    (void)state;
    assert_int_equal(parse(&line, "ALLOC d *", &call, scratch, sizeof scratch), TN_R_OK);
    assert_true(call.derive);
    assert_memory_equal(call.from.at, "d", 1);
    assert_int_equal(parse(&line, "ALLOC * FROM d COUNT 1", &call, scratch, sizeof scratch),
                     TN_R_OK);
    assert_true(call.derive);
    assert_int_equal(parse(&line, "DISOWN *", &call, scratch, sizeof scratch), TN_R_OK);
    assert_false(call.derive);
}

static void json_is_judged_without_building_it(void **state) {
    static const char *const good[] = {"{}",
                                       " { } ",
                                       "{\"a\":1}",
                                       "{\"a\":[1,-2.5e+7,true,false,null,\"\\u00e9\\n\",{}]}",
                                       "{\"a\":[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]}",
                                       "{\"a\":0,\"b\":0.0}"};
    static const char *const bad[] = {"",
                                      "1",
                                      "[]",
                                      "{",
                                      "{\"a\"}",
                                      "{\"a\":01}",
                                      "{\"a\":1,}",
                                      "{\"a\":[1,]}",
                                      "{\"a\":1]",
                                      "{\"a\":\"\n\"}",
                                      "{\"a\":\"\\x\"}",
                                      "{\"a\":\"\\u12\"}",
                                      "{a:1}",
                                      "{\"a\":1} x",
                                      "{\"a\":.5}",
                                      "{\"a\":1.}",
                                      "{\"a\":1e}",
                                      "{\"a\":nul}",
                                      "{\"a\":\"\xff\"}",
                                      "{\"a\":\"",
                                      "{\"a\":[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]}"};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_null(protocol_json_fault(tn_bytes_of(good[i], strlen(good[i]))));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_non_null(protocol_json_fault(tn_bytes_of(bad[i], strlen(bad[i]))));
    }
}

static void expect_reply(enum protocol_id id, const struct kernel_result *result,
                         const char *want) {
    char buffer[1024];
    struct protocol_writer w = {.out = tn_writer_of(buffer, sizeof buffer - 1)};
    protocol_render_result(&w, &protocol_table[id], result);
    buffer[w.out.len] = '\0';
    assert_string_equal(buffer, want);
}

static void the_three_outcomes_are_told_apart(void **state) {
    struct kernel_value value = {.number = 30000, .format = KERNEL_DEC};
    struct kernel_result result = {.code = TN_R_OK,
                                   .has_lease = true,
                                   .lsn = 7,
                                   .lease = {.shard = 0, .lsn = 7},
                                   .epoch = 1,
                                   .state = KERNEL_ACTIVE,
                                   .value_count = 1,
                                   .values = &value};
    (void)state;
    expect_reply(
        PROTOCOL_ALLOC, &result,
        "*16\r\n$6\r\nresult\r\n$2\r\nOK\r\n$5\r\nlease\r\n$3\r\n0-7\r\n$5\r\nepoch\r\n:1\r\n"
        "$5\r\nstate\r\n$6\r\nactive\r\n$8\r\ndeadline\r\n$-1\r\n"
        "$6\r\nvalues\r\n*1\r\n$5\r\n30000\r\n$3\r\nlsn\r\n:7\r\n$8\r\nreplayed\r\n:0\r\n");
    result = (struct kernel_result){.code = TN_R_EXHAUSTED, .lsn = 8, .retry_at_ms = 99};
    expect_reply(PROTOCOL_ALLOC, &result,
                 "-EXHAUSTED no free value in the pool retry_at=99 lsn=8\r\n");
    result = (struct kernel_result){.code = TN_R_OVERLOADED};
    expect_reply(PROTOCOL_ALLOC, &result,
                 "-OVERLOADED too many requests are in flight; try again\r\n");
    result = (struct kernel_result){.code = TN_R_HALTED, .lsn = 9};
    expect_reply(PROTOCOL_ALLOC, &result,
                 "-HALTED storage failed; the outcome is unknown until recovery\r\n");
}

/* Follows a reply's counts and lengths to its end. */
static size_t reply_skip(const char *at, size_t len) {
    size_t left = 1;
    size_t pos = 0;
    while (left > 0) {
        assert_true(pos < len);
        char type = at[pos];
        long number = strtol(at + pos + 1, NULL, 10);
        const char *end = memchr(at + pos, '\n', len - pos);
        assert_non_null(end);
        pos = (size_t)(end - at) + 1;
        left--;
        if (type == '$' && number >= 0) {
            pos += (size_t)number + 2;
        } else if (type == '*' || type == '~') {
            left += (size_t)number;
        } else if (type == '%') {
            left += 2 * (size_t)number;
        }
    }
    return pos;
}

static void the_descriptions_of_commands_are_whole_replies(void **state) {
    static char buffer[1 << 18];
    struct tn_bytes names[] = {tn_bytes_of("alloc", 5), tn_bytes_of("nothing", 7),
                               tn_bytes_of("pool|create", 11), tn_bytes_of("POOL", 4)};
    (void)state;
    for (unsigned kind = 0; kind < 10; kind++) {
        struct protocol_writer w = {.out = tn_writer_of(buffer, sizeof buffer),
                                    .encoding = kind % 2 == 1 ? PROTOCOL_RESP3 : PROTOCOL_RESP2};
        if (kind < 4) {
            protocol_docs_info(&w, names, kind < 2 ? 0 : 4);
        } else if (kind < 8) {
            protocol_docs_docs(&w, names, kind < 6 ? 0 : 4);
        } else {
            protocol_docs_list(&w);
        }
        assert_false(w.out.overflow);
        assert_int_equal(reply_skip(buffer, w.out.len), w.out.len);
    }
}

/* 1002003 of "1.2.3". */
static unsigned long version_number(const char *text) {
    unsigned long number = 0;
    for (unsigned part = 0; part < 3; part++) {
        char *end;
        number = number * 1000 + strtoul(text, &end, 10);
        assert_true(end > text && *end == (part < 2 ? '.' : '\0'));
        text = end + 1;
    }
    return number;
}

/* "since" is never later than the version that has the table. */
static void commands_are_not_from_the_future(void **state) {
    unsigned long version = version_number(tenure_version());
    (void)state;
    for (unsigned i = 0; i < PROTOCOL_COMMANDS; i++) {
        assert_true(version_number(protocol_table[i].since) <= version);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_are_not_from_the_future),
        cmocka_unit_test(the_table_is_in_order_and_complete),
        cmocka_unit_test(events_have_ids_of_two_numbers),
        cmocka_unit_test(every_example_of_a_read_or_write_parses_and_encodes),
        cmocka_unit_test(arity_is_as_redis_counts),
        cmocka_unit_test(usage_is_written_as_people_read_it),
        cmocka_unit_test(an_unknown_second_word_is_told_from_an_unknown_command),
        cmocka_unit_test(each_refusal_says_why),
        cmocka_unit_test(long_names_and_values_are_refused),
        cmocka_unit_test(options_of_pools_are_read),
        cmocka_unit_test(a_range_may_have_several_spans_and_prefixes),
        cmocka_unit_test(a_star_asks_for_a_derived_holder_in_alloc_only),
        cmocka_unit_test(json_is_judged_without_building_it),
        cmocka_unit_test(the_three_outcomes_are_told_apart),
        cmocka_unit_test(the_descriptions_of_commands_are_whole_replies),
    };
    return cmocka_run_group_tests_name("protocol", tests, NULL, NULL);
}
