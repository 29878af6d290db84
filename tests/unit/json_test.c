/* Replies as JSON: every type, any nesting, any bytes, buffers that are too small, and problems.
 * Where it helps, a JSON library checks that the result is JSON. */
#include "unit/unit.h"

#include <jansson.h>

#include "protocol/render.h"

static struct protocol_writer writer(char *buffer, size_t capacity) {
    return (struct protocol_writer){.out = tn_writer_of(buffer, capacity),
                                    .encoding = PROTOCOL_JSON};
}

static void expect(struct protocol_writer *w, const char *want) {
    assert_false(w->out.overflow);
    assert_int_equal(w->depth, 0);
    assert_int_equal(w->out.len, strlen(want));
    assert_memory_equal(w->out.at, want, w->out.len);
}

/* ---- Types ---- */

static void write_all(struct protocol_writer *w) {
    protocol_write_map(w, 12);
    protocol_write_text(w, "array");
    protocol_write_array(w, 2);
    protocol_write_map(w, 0);
    protocol_write_array(w, 0);
    protocol_write_text(w, "deep");
    protocol_write_array(w, 1);
    protocol_write_map(w, 1);
    protocol_write_text(w, "a");
    protocol_write_array(w, 1);
    protocol_write_null(w);
    protocol_write_text(w, "set");
    protocol_write_set(w, 1);
    protocol_write_push(w, 1);
    protocol_write_boolean(w, false);
    protocol_write_text(w, "simple");
    protocol_write_simple(w, "OK");
    protocol_write_text(w, "verbatim");
    protocol_write_verbatim(w, "hi", 2);
    protocol_write_text(w, "error");
    protocol_write_error(w, "ERR no");
    protocol_write_text(w, "least");
    protocol_write_integer(w, INT64_MIN);
    protocol_write_text(w, "u64");
    protocol_write_u64(w, UINT64_MAX);
    protocol_write_text(w, "zero");
    protocol_write_u64(w, 0);
    protocol_write_text(w, "micro");
    protocol_write_micro(w, 1250000);
    protocol_write_text(w, "meta");
    protocol_write_json(w, "{\"k\":\n[1]}", 10);
    protocol_write_text(w, "text");
    protocol_write_json(w, "not json", 8);
}

static const char all[] =
    "{\"array\":[{},[]],\"deep\":[{\"a\":[null]}],\"set\":[[false]],\"simple\":\"OK\","
    "\"verbatim\":\"hi\",\"error\":\"ERR no\",\"least\":-9223372036854775808,"
    "\"u64\":\"18446744073709551615\",\"zero\":\"0\",\"micro\":1.25,\"meta\":{\"k\": [1]},"
    "\"text\":\"not json\"}";

static void each_type_has_its_form_and_brackets_close_by_themselves(void **state) {
    char buffer[512];
    struct protocol_writer w = writer(buffer, sizeof buffer);
    (void)state;
    write_all(&w);
    expect(&w, all);
}

static void too_small_a_buffer_is_noticed_and_the_writer_may_try_again(void **state) {
    (void)state;
    for (size_t room = 0; room < sizeof all - 1; room++) {
        char *exact = malloc(room + 1);
        char buffer[512];
        assert_non_null(exact);
        struct protocol_writer w = writer(exact, room);
        write_all(&w);
        assert_true(w.out.overflow);
        assert_int_equal(w.depth, 0);
        w.out = tn_writer_of(buffer, sizeof buffer);
        write_all(&w);
        expect(&w, all);
        free(exact);
    }
}

static void nest(void *ctx) {
    struct protocol_writer *w = ctx;
    protocol_write_array(w, 1);
}

static void a_reply_nests_as_deep_as_is_provided_for_and_no_deeper(void **state) {
    char buffer[64];
    struct protocol_writer w = writer(buffer, sizeof buffer);
    (void)state;
    for (unsigned i = 0; i < PROTOCOL_NEST_MAX; i++) {
        nest(&w);
    }
    assert_true(unit_aborts(nest, &w));
    protocol_write_null(&w);
    expect(&w, "[[[[[[[[[[[[null]]]]]]]]]]]]");
}

/* ---- Strings ---- */

static const struct {
    const char *bytes;
    size_t len;
    const char *want;
} strings[] = {
    {"", 0, "\"\""},
    {"plain /", 7, "\"plain /\""},
    {"\"\\\b\f\n\r\t", 7, "\"\\\"\\\\\\b\\f\\n\\r\\t\""},
    {"a\0b\x1f\x7f", 5, "\"a\\u0000b\\u001f\\u007f\""},
    {"h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", 12, "\"h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\""},
    {"a\xff"
     "b",
     3,
     "\"a\xef\xbf\xbd"
     "b\""},
    {"\xc3", 1, "\"\xef\xbf\xbd\""},
    {"\xc0\x80", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\""},
    {"\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
};

static void any_bytes_become_a_string(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++) {
        char buffer[64];
        struct protocol_writer w = writer(buffer, sizeof buffer);
        protocol_write_bulk(&w, strings[i].bytes, strings[i].len);
        expect(&w, strings[i].want);
    }
}

static void random_bytes_as_keys_and_values_are_json(void **state) {
    struct tn_prng random = unit_random();
    (void)state;
    for (unsigned round = 0; round < 5000; round++) {
        char buffer[1024];
        uint8_t bytes[32];
        struct protocol_writer w = writer(buffer, sizeof buffer);
        uint32_t len = unit_below(&random, sizeof bytes);
        for (uint32_t i = 0; i < len; i++) {
            bytes[i] = (uint8_t)tn_prng_next(&random);
        }
        protocol_write_map(&w, 2);
        protocol_write_bulk(&w, bytes, len);
        protocol_write_json(&w, bytes, len);
        protocol_write_text(&w, "then");
        protocol_write_boolean(&w, true);
        assert_false(w.out.overflow);
        json_error_t error;
        json_t *root = json_loadb(buffer, w.out.len, JSON_ALLOW_NUL, &error);
        /* A library that keeps keys as C strings cannot have one with a NUL in it. */
        if (root == NULL) {
            assert_non_null(memchr(bytes, 0, len));
        } else {
            assert_true(json_is_true(json_object_get(root, "then")));
        }
        json_decref(root);
    }
}

/* ---- Answers ---- */

static void expect_result(const struct kernel_result *result, int status, const char *want) {
    char buffer[PROTOCOL_PROBLEM_MAX];
    struct protocol_writer w = writer(buffer, sizeof buffer);
    protocol_render_result(&w, &protocol_table[PROTOCOL_ALLOC], result);
    expect(&w, want);
    assert_int_equal(protocol_http_status(&protocol_table[PROTOCOL_ALLOC], result), status);
}

/* The answer has the id of its event, not the lease, which is in the token. A lease that has ended
 * proves nothing: for HTTP that is the same as no token. */
static void an_event_that_was_emitted_is_told_by_its_id(void **state) {
    const struct protocol_command *row = &protocol_table[PROTOCOL_EMIT];
    char buffer[PROTOCOL_PROBLEM_MAX];
    struct protocol_writer w = writer(buffer, sizeof buffer);
    struct kernel_result result = {.code = TN_R_OK, .lsn = 7, .has_lease = true, .epoch = 1};
    (void)state;
    protocol_render_result(&w, row, &result);
    expect(&w, "{\"result\":\"OK\",\"id\":\"7.0\",\"lsn\":\"7\",\"replayed\":false}");
    assert_int_equal(protocol_http_status(row, &result), 200);
    result = (struct kernel_result){.code = TN_R_STALE, .lsn = 8};
    assert_int_equal(protocol_http_status(row, &result), 401);
    result.code = TN_R_DENIED;
    assert_int_equal(protocol_http_status(row, &result), 403);
}

static void what_was_done_is_an_object(void **state) {
    struct kernel_value values[] = {{.number = 30000, .format = KERNEL_DEC},
                                    {.name = "gpu\"7", .name_len = 5}};
    struct kernel_result result = {.code = TN_R_OK,
                                   .has_lease = true,
                                   .lsn = 7,
                                   .lease = {.shard = 0, .lsn = 7},
                                   .epoch = 1,
                                   .state = KERNEL_ACTIVE,
                                   .deadline_ms = 1700000060000,
                                   .value_count = 2,
                                   .values = values};
    (void)state;
    expect_result(&result, 200,
                  "{\"result\":\"OK\",\"lease\":\"0-7\",\"epoch\":\"1\",\"state\":\"active\","
                  "\"deadline\":\"1700000060000\",\"values\":[\"30000\",\"gpu\\\"7\"],"
                  "\"lsn\":\"7\",\"replayed\":false}");
}

static void each_refusal_is_a_problem_with_its_outcome_and_facts(void **state) {
    (void)state;
    expect_result(&(struct kernel_result){.code = TN_R_EXHAUSTED, .lsn = 8, .retry_at_ms = 99}, 409,
                  "{\"type\":\"urn:tenure:result:EXHAUSTED\",\"title\":\"no free value in the "
                  "pool\",\"status\":409,\"result\":\"EXHAUSTED\",\"outcome\":\"committed\","
                  "\"retry_at\":\"99\",\"lsn\":\"8\"}");
    expect_result(
        &(struct kernel_result){.code = TN_R_OVERLOADED}, 503,
        "{\"type\":\"urn:tenure:result:OVERLOADED\",\"title\":\"too many requests are in flight; "
        "try again\",\"status\":503,\"result\":\"OVERLOADED\",\"outcome\":\"rejected\"}");
    expect_result(&(struct kernel_result){.code = TN_R_HALTED, .lsn = 9}, 503,
                  "{\"type\":\"urn:tenure:result:HALTED\",\"title\":\"storage failed; the outcome "
                  "is unknown until recovery\",\"status\":503,\"result\":\"HALTED\","
                  "\"outcome\":\"unknown\"}");
    struct kernel_result stale = {.code = TN_R_STALE,
                                  .lsn = 12,
                                  .replayed = true,
                                  .has_lease = true,
                                  .lease = {.shard = 0, .lsn = 3},
                                  .epoch = 2,
                                  .state = KERNEL_REVOKING};
    expect_result(&stale, 409,
                  "{\"type\":\"urn:tenure:result:STALE\",\"title\":\"the epoch is not current, or "
                  "a newer revision is known\",\"status\":409,\"result\":\"STALE\","
                  "\"outcome\":\"committed\",\"lease\":\"0-3\",\"epoch\":\"2\","
                  "\"state\":\"revoking\",\"replayed\":true,\"lsn\":\"12\"}");
    /* Not logged, so it surely did not happen. */
    expect_result(&(struct kernel_result){.code = TN_R_TOO_LARGE, .number = 256}, 413,
                  "{\"type\":\"urn:tenure:result:TOO_LARGE\",\"title\":\"it exceeds a limit\","
                  "\"status\":413,\"result\":\"TOO_LARGE\",\"outcome\":\"rejected\","
                  "\"cap\":\"256\"}");
}

static void an_operation_id_used_for_something_else_differs_from_other_conflicts(void **state) {
    static const char title[] =
        "it conflicts with the holder's lease or with an earlier use of the operation id";
    char want[512];
    (void)state;
    for (unsigned reused = 0; reused < 2; reused++) {
        (void)snprintf(want, sizeof want,
                       "{\"type\":\"urn:tenure:result:CONFLICT\",\"title\":\"%s\",\"status\":%d,"
                       "\"result\":\"CONFLICT\",\"outcome\":\"committed\",%s\"lsn\":\"9\"}",
                       title, reused ? 422 : 409, reused ? "\"opid_lsn\":\"5\"," : "");
        expect_result(
            &(struct kernel_result){.code = TN_R_CONFLICT, .lsn = 9, .number = reused ? 5 : 0},
            reused ? 422 : 409, want);
    }
}

static void a_refusal_outside_the_log_says_so(void **state) {
    char buffer[PROTOCOL_PROBLEM_MAX];
    struct protocol_writer w = writer(buffer, sizeof buffer);
    (void)state;
    protocol_render_refusal(&w, TN_R_NOTFOUND, "no \"x\"");
    expect(&w,
           "{\"type\":\"urn:tenure:result:NOTFOUND\",\"title\":\"no such lease, resource, rule, "
           "sensor or user\",\"status\":404,\"detail\":\"no \\\"x\\\"\",\"result\":\"NOTFOUND\","
           "\"outcome\":\"rejected\"}");
    w = writer(buffer, sizeof buffer);
    protocol_render_problem(&w, 404, TN_REJECTED, "Not Found", NULL);
    expect(&w, "{\"type\":\"about:blank\",\"title\":\"Not Found\",\"status\":404,"
               "\"outcome\":\"rejected\"}");
    w = writer(buffer, sizeof buffer);
    protocol_render_problem(&w, 409, TN_UNKNOWN, "Conflict", "wait");
    expect(&w, "{\"type\":\"about:blank\",\"title\":\"Conflict\",\"status\":409,"
               "\"detail\":\"wait\",\"outcome\":\"unknown\"}");
}

/* Words of any bytes, facts of any size. */
static void every_refusal_fits(void **state) {
    char detail[128];
    char buffer[PROTOCOL_PROBLEM_MAX];
    (void)state;
    memset(detail, 1, sizeof detail - 1);
    detail[sizeof detail - 1] = '\0';
    for (unsigned code = TN_R_EXISTS; code < TN_R_COUNT; code++) {
        struct protocol_writer w = writer(buffer, sizeof buffer);
        protocol_render_refusal(&w, (enum tn_result)code, detail);
        assert_false(w.out.overflow);
        struct kernel_result result = {.code = (enum tn_result)code,
                                       .replayed = true,
                                       .has_lease = true,
                                       .lsn = UINT64_MAX,
                                       .lease = {.shard = UINT64_MAX, .lsn = UINT64_MAX},
                                       .epoch = UINT64_MAX,
                                       .state = KERNEL_RESERVED,
                                       .retry_at_ms = UINT64_MAX,
                                       .number = UINT64_MAX};
        w = writer(buffer, 448); /* the size that a server reserves for an answer */
        protocol_render_result(&w, &protocol_table[PROTOCOL_ALLOC], &result);
        assert_false(w.out.overflow);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_type_has_its_form_and_brackets_close_by_themselves),
        cmocka_unit_test(too_small_a_buffer_is_noticed_and_the_writer_may_try_again),
        cmocka_unit_test(a_reply_nests_as_deep_as_is_provided_for_and_no_deeper),
        cmocka_unit_test(any_bytes_become_a_string),
        cmocka_unit_test(random_bytes_as_keys_and_values_are_json),
        cmocka_unit_test(what_was_done_is_an_object),
        cmocka_unit_test(an_event_that_was_emitted_is_told_by_its_id),
        cmocka_unit_test(each_refusal_is_a_problem_with_its_outcome_and_facts),
        cmocka_unit_test(an_operation_id_used_for_something_else_differs_from_other_conflicts),
        cmocka_unit_test(a_refusal_outside_the_log_says_so),
        cmocka_unit_test(every_refusal_fits),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
