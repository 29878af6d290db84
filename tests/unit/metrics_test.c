/* The text of the metrics: numbers, labels, histograms, the growth of pools, refusals by pool; and that
 * the documentation has a line for each family. */
#include "unit/unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "server/metrics.h"

static bool has(const struct metrics_text *text, const char *line) {
    char *copy = strndup(text->at, text->len);
    bool found = copy != NULL && strstr(copy, line) != NULL;
    free(copy);
    return found;
}

static struct kernel_pool_view pool_view(const char *name, uint64_t size, uint64_t active) {
    struct kernel_pool_view view = {.size = size, .active = active};
    view.name_len = (uint32_t)strlen(name);
    memcpy(view.name, name, view.name_len + 1);
    return view;
}

static void look(struct metrics_pools *pools, const struct kernel_pool_view *view,
                 uint64_t now_ms) {
    struct kernel_pool_view shown = *view;
    shown.free = shown.size - shown.active;
    metrics_pools_clear(pools);
    assert_true(metrics_pools_add(pools, &shown));
    assert_true(metrics_pools_estimate(pools, now_ms));
}

static void pools_free(struct metrics_pools *pools) {
    metrics_pools_clear(pools);
    free(pools->growths.of);
}

static void numbers_are_exact(void **state) {
    const struct {
        uint64_t value;
        unsigned digits;
        const char *text;
    } rows[] = {
        {0, 0, "0\n"},
        {0, 9, "0\n"},
        {7, 0, "7\n"},
        {1000, 3, "1\n"},
        {1500, 3, "1.5\n"},
        {1, 9, "0.000000001\n"},
        {25000, 9, "0.000025\n"},
        {100, 0, "100\n"},
        {120034, 3, "120.034\n"},
        {UINT64_MAX, 0, "18446744073709551615\n"},
        {UINT64_MAX, 9, "18446744073.709551615\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct metrics_text text = {.at = NULL};
        metrics_number(&text, rows[i].value, rows[i].digits);
        assert_int_equal(text.len, strlen(rows[i].text));
        assert_memory_equal(text.at, rows[i].text, text.len);
        free(text.at);
    }
}

static void label_values_are_escaped(void **state) {
    static const char hostile[] = "a\"b\\c\nd";
    struct metrics_text text = {.at = NULL};
    (void)state;
    metrics_family(&text, SERVER_METRIC_BUILD_INFO);
    metrics_sample(&text, "", "version", tn_bytes_of(hostile, sizeof hostile - 1), "x", "\"");
    metrics_number(&text, 1, 0);
    assert_true(has(&text, "\ntenure_build_info{version=\"a\\\"b\\\\c\\nd\",x=\"\\\"\"} 1\n"));
    free(text.at);
}

static void histograms_add_up(void **state) {
    struct server_histogram histogram = {.sum_ns = 0};
    struct metrics_text text = {.family = SERVER_METRIC_LATENCY};
    (void)state;
    server_histogram_add(&histogram, 25000, 2);
    server_histogram_add(&histogram, 25001, 1);
    server_histogram_add(&histogram, UINT64_C(60000000000), 1);
    struct metrics_buckets buckets = {.bounds_ns = server_bucket_ns,
                                      .counts = histogram.counts,
                                      .count = SERVER_BUCKETS,
                                      .sum = histogram.sum_ns,
                                      .sum_digits = 9};
    metrics_histogram(&text, "command", "ping", &buckets);
    metrics_histogram(&text, NULL, NULL, &buckets);
    assert_true(has(&text, "_bucket{command=\"ping\",le=\"0.000025\"} 2\n"));
    assert_true(has(&text, "_bucket{command=\"ping\",le=\"0.00005\"} 3\n"));
    assert_true(has(&text, "_bucket{command=\"ping\",le=\"5\"} 3\n"));
    assert_true(has(&text, "_bucket{command=\"ping\",le=\"+Inf\"} 4\n"));
    assert_true(has(&text, "_sum{command=\"ping\"} 60.000075001\n"));
    assert_true(has(&text, "_count{command=\"ping\"} 4\n"));
    assert_true(has(&text, "_bucket{le=\"0.00005\"} 3\n"));
    assert_true(has(&text, "_count 4\n"));
    free(text.at);
}

static void commands_that_end_together_have_one_time(void **state) {
    struct server_counters *counters = calloc(1, sizeof *counters);
    (void)state;
    assert_non_null(counters);
    for (uint32_t i = 0; i < 100; i++) {
        server_count_served(counters, PROTOCOL_PING, 0);
        server_count_served(counters, PROTOCOL_PING, 0);
        server_count_served(counters, PROTOCOL_TIME, 0);
    }
    server_count_ended(counters);
    server_count_ended(counters);
    assert_int_equal(server_histogram_count(&counters->latency[PROTOCOL_PING]), 200);
    assert_int_equal(server_histogram_count(&counters->latency[PROTOCOL_TIME]), 100);
    free(counters);
}

static void a_pool_that_fills_steadily_has_a_time(void **state) {
    struct metrics_pools pools = {.count = 0};
    struct kernel_pool_view view = pool_view("ports", 1000, 0);
    (void)state;
    look(&pools, &view, 1000000);
    assert_true(pools.of[0].exhaustion_ms == UINT64_MAX);
    /* Two values a second, looked at every ten seconds: 980 free after one look, 960 after two. */
    for (uint64_t i = 1; i <= 20; i++) {
        view.active = 20 * i;
        look(&pools, &view, 1000000 + 10000 * i);
        uint64_t expected_ms = (1000 - 20 * i) / 2 * 1000;
        assert_in_range(pools.of[0].exhaustion_ms, expected_ms - 5, expected_ms + 5);
    }
    /* A second look at the same moment changes nothing. */
    uint64_t before = pools.of[0].exhaustion_ms;
    look(&pools, &view, 1000000 + 200000);
    assert_true(pools.of[0].exhaustion_ms == before);
    pools_free(&pools);
}

static void a_pool_that_stops_growing_recovers(void **state) {
    struct metrics_pools pools = {.count = 0};
    struct kernel_pool_view view = pool_view("ports", 1000, 0);
    (void)state;
    look(&pools, &view, 0);
    view.active = 500;
    look(&pools, &view, 60000);
    uint64_t soon = pools.of[0].exhaustion_ms;
    assert_in_range(soon, 59000, 61000);
    look(&pools, &view, 120000);
    assert_true(pools.of[0].exhaustion_ms > soon);
    view.active = 100;
    look(&pools, &view, 180000);
    assert_true(pools.of[0].exhaustion_ms == UINT64_MAX);
    view.active = 1000;
    look(&pools, &view, 180000);
    assert_true(pools.of[0].exhaustion_ms == 0);
    pools_free(&pools);
}

static void the_largest_range_does_not_overflow(void **state) {
    struct metrics_pools pools = {.count = 0};
    struct metrics_text text = {.at = NULL};
    struct server_refusals none = {.used = 0};
    struct kernel_pool_view view = pool_view("huge", UINT64_MAX, 0);
    (void)state;
    look(&pools, &view, 0);
    view.active = 1;
    look(&pools, &view, 1000);
    metrics_pools_render(&text, &pools, &none);
    assert_true(has(&text, "tenure_pool_size{pool=\"huge\"} 18446744073709551615\n"));
    assert_true(has(&text, "tenure_pool_free{pool=\"huge\"} 18446744073709551614\n"));
    assert_true(has(&text, "tenure_pool_occupancy_ratio{pool=\"huge\"} 0\n"));
    assert_true(has(&text, "tenure_pool_exhaustion_seconds{pool=\"huge\"} +Inf\n"));
    free(text.at);
    pools_free(&pools);
}

static void pools_beyond_the_bound_are_left_out_and_counted(void **state) {
    struct metrics_pools pools = {.count = 0};
    struct metrics_text text = {.at = NULL};
    struct server_refusals none = {.used = 0};
    char name[KERNEL_POOL_MAX + 1];
    (void)state;
    /* Names as long, and numbers as wide, as they may be. */
    for (uint32_t i = 0; i < 20000; i++) {
        memset(name, 'x', KERNEL_POOL_MAX);
        (void)snprintf(name + KERNEL_POOL_MAX - 8, 9, "%08u", i);
        struct kernel_pool_view view = pool_view(name, UINT64_MAX, UINT64_MAX / 2);
        view.policy.of[KERNEL_OPTION_STICKY] = 1;
        view.scopes = UINT32_MAX;
        view.next_free_ms = UINT64_MAX;
        memset(&view.counters, 0xff, sizeof view.counters);
        assert_true(metrics_pools_add(&pools, &view));
    }
    assert_true(pools.count > 5000 && pools.omitted > 0);
    assert_int_equal(pools.count + pools.omitted, 20000);
    assert_true(metrics_pools_estimate(&pools, 1));
    metrics_pools_render(&text, &pools, &none);
    assert_false(text.failed);
    assert_true(text.len <= pools.text_bytes);
    free(text.at);
    pools_free(&pools);
}

/* An allocation of one value from each of the pools. */
static struct tn_bytes alloc_from(const char *const *names, uint32_t count, uint8_t *out,
                                  size_t capacity) {
    static uint8_t claims[4096];
    struct tn_writer w = tn_writer_of(claims, sizeof claims);
    for (uint32_t i = 0; i < count; i++) {
        kernel_claim_write(&w, tn_bytes_of(names[i], strlen(names[i])), true, 1);
    }
    struct kernel_command command = {.verb = KERNEL_VERB_ALLOC,
                                     .fields = KERNEL_F_HOLDER | KERNEL_F_CLAIMS,
                                     .holder = tn_bytes_of("h", 1),
                                     .claims = tn_bytes_of(claims, w.len),
                                     .claim_count = count};
    return tn_bytes_of(out, kernel_command_encode(&command, out, capacity));
}

static void refusals_are_counted_for_the_pools_that_were_asked(void **state) {
    struct server_refusals refusals;
    struct server_refusals copy;
    struct metrics_pools pools = {.count = 0};
    struct metrics_text text = {.at = NULL};
    uint8_t bytes[4096];
    const char *const names[] = {"a", "b", "a"};
    (void)state;
    assert_true(server_refusals_init(&refusals));
    assert_true(server_refusals_init(&copy));
    server_refusals_note(&refusals, alloc_from(names, 3, bytes, sizeof bytes), TN_R_EXHAUSTED);
    server_refusals_note(&refusals, alloc_from(names, 1, bytes, sizeof bytes), TN_R_QUOTA);
    server_refusals_note(&refusals, alloc_from(names, 1, bytes, sizeof bytes), TN_R_OK);
    server_refusals_note(&refusals, alloc_from(names, 1, bytes, sizeof bytes), TN_R_POOL_NOTFOUND);
    struct kernel_pool_view view = pool_view("a", 10, 0);
    look(&pools, &view, 0);
    server_refusals_copy(&refusals, &copy);
    metrics_pools_render(&text, &pools, &copy);
    assert_true(has(&text, "tenure_pool_refusals_total{pool=\"a\",result=\"EXHAUSTED\"} 1\n"));
    assert_true(has(&text, "tenure_pool_refusals_total{pool=\"a\",result=\"QUOTA\"} 1\n"));
    assert_false(has(&text, "POOL_NOTFOUND"));
    assert_false(has(&text, "pool=\"b\""));
    free(text.at);
    pools_free(&pools);
    server_refusals_free(&refusals);
    server_refusals_free(&copy);
}

/* The pools of a user are patterns. */
static void refusals_about_users_are_not_counted_for_pools(void **state) {
    struct server_refusals refusals;
    uint8_t bytes[4096];
    struct kernel_command command = {.verb = KERNEL_VERB_USER_ADD,
                                     .fields = KERNEL_F_NAME | KERNEL_F_ROLE | KERNEL_F_SPEC |
                                               KERNEL_F_POOL,
                                     .name = tn_bytes_of("u", 1),
                                     .role = 1,
                                     .spec = tn_bytes_of("x", 1),
                                     .pool = tn_bytes_of("a", 1)};
    (void)state;
    assert_true(server_refusals_init(&refusals));
    size_t len = kernel_command_encode(&command, bytes, sizeof bytes);
    assert_true(kernel_command_decode(tn_bytes_of(bytes, len), &command));
    server_refusals_note(&refusals, tn_bytes_of(bytes, len), TN_R_EXISTS);
    assert_int_equal(refusals.used, 0);
    server_refusals_free(&refusals);
}

static void refusals_of_made_up_pools_cannot_fill_the_table(void **state) {
    struct server_refusals refusals;
    struct server_refusals copy;
    uint8_t bytes[4096];
    char name[16];
    const char *const names[] = {name};
    (void)state;
    assert_true(server_refusals_init(&refusals));
    assert_true(server_refusals_init(&copy));
    for (uint32_t i = 0; i < SERVER_REFUSALS; i++) {
        (void)snprintf(name, sizeof name, "p%u", i);
        server_refusals_note(&refusals, alloc_from(names, 1, bytes, sizeof bytes), TN_R_BUSY);
    }
    assert_int_equal(refusals.used, SERVER_REFUSALS / 4 * 3);
    /* All but the first are removed; one more arrives between the copy and the removal. */
    server_refusals_copy(&refusals, &copy);
    for (uint32_t i = 0; i < SERVER_REFUSALS; i++) {
        if (copy.of[i].name_hash != server_refusal_name_hash("p0", 2)) {
            copy.of[i].count = 0;
        }
    }
    (void)snprintf(name, sizeof name, "p0");
    server_refusals_note(&refusals, alloc_from(names, 1, bytes, sizeof bytes), TN_R_BUSY);
    server_refusals_prune(&refusals, &copy);
    assert_int_equal(refusals.used, 1);
    server_refusals_copy(&refusals, &copy);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < SERVER_REFUSALS; i++) {
        sum += copy.of[i].count;
    }
    assert_int_equal(sum, 2);
    server_refusals_free(&refusals);
    server_refusals_free(&copy);
}

/* Every family has its HELP and TYPE once, in the order of the table. */
static void all_families_are_written_in_order(void **state) {
    struct metrics_text text = {.at = NULL};
    struct metrics_view *view = calloc(1, sizeof *view);
    struct metrics_pools pools = {.count = 0};
    struct server_refusals none = {.used = 0};
    (void)state;
    assert_non_null(view);
    view->version = "1";
    view->has_pools = true;
    metrics_render(&text, view);
    metrics_pools_render(&text, &pools, &none);
    assert_false(text.failed);
    char *copy = strndup(text.at, text.len);
    const char *at = copy;
    for (unsigned i = 0; i < SERVER_METRIC_COUNT; i++) {
        char head[256];
        (void)snprintf(head, sizeof head, "# TYPE %s %s\n", server_metric_rows[i].name,
                       server_metric_rows[i].type);
        at = strstr(at, head);
        assert_non_null(at);
        assert_null(strstr(at + 1, head));
    }
    free(copy);
    free(view);
    free(text.at);
}

static void the_documentation_has_every_family(void **state) {
    const char *root = getenv("TENURE_SOURCE_DIR");
    char path[4096];
    static char document[1 << 17];
    (void)state;
    if (root == NULL) {
        skip();
    }
    (void)snprintf(path, sizeof path, "%s/docs/metrics.md", root);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t len = fread(document, 1, sizeof document - 1, file);
    (void)fclose(file);
    document[len] = '\0';
    unsigned lines = 0;
    for (const char *at = document; (at = strstr(at, "\n| `")) != NULL; at++) {
        lines++;
    }
    for (unsigned i = 0; i < SERVER_METRIC_COUNT; i++) {
        char line[512];
        const struct server_metric_row *row = &server_metric_rows[i];
        (void)snprintf(line, sizeof line, "\n| `%s` | %s | %s | %s |\n", row->name, row->type,
                       row->labels, row->help);
        if (strstr(document, line) == NULL) {
            fail_msg("docs/metrics.md has no line %s", line + 1);
        }
    }
    assert_int_equal(lines, SERVER_METRIC_COUNT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_exact),
        cmocka_unit_test(label_values_are_escaped),
        cmocka_unit_test(histograms_add_up),
        cmocka_unit_test(commands_that_end_together_have_one_time),
        cmocka_unit_test(a_pool_that_fills_steadily_has_a_time),
        cmocka_unit_test(a_pool_that_stops_growing_recovers),
        cmocka_unit_test(the_largest_range_does_not_overflow),
        cmocka_unit_test(pools_beyond_the_bound_are_left_out_and_counted),
        cmocka_unit_test(refusals_are_counted_for_the_pools_that_were_asked),
        cmocka_unit_test(refusals_about_users_are_not_counted_for_pools),
        cmocka_unit_test(refusals_of_made_up_pools_cannot_fill_the_table),
        cmocka_unit_test(all_families_are_written_in_order),
        cmocka_unit_test(the_documentation_has_every_family),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
