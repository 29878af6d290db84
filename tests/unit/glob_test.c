/* Patterns: how Redis matches each, and patterns that would take forever in a naive
 * implementation. */
#include <string.h>

#include "base/glob.h"
#include "unit/unit.h"

static uint32_t steps(const char *pattern) {
    return tn_glob_steps(tn_bytes_of(pattern, strlen(pattern)), 100);
}

static void steps_grow_behind_the_first_star(void **state) {
    (void)state;
    assert_int_equal(steps(""), 1);
    assert_int_equal(steps("pool:ports"), 11);
    assert_int_equal(steps("pool:*"), 6);
    assert_int_equal(steps("*"), 1);
    assert_int_equal(steps("*ab"), 201);
    assert_int_equal(steps("a*b*c"), 302);
}

static void patterns_match_as_in_redis(void **state) {
    static const struct {
        const char *pattern;
        const char *text;
        bool match;
    } rows[] = {
        {"", "", true},
        {"", "a", false},
        {"*", "", true},
        {"*", "pool:ports", true},
        {"pool:*", "pool:ports", true},
        {"pool:*", "pool:", true},
        {"pool:*", "holder:x", false},
        {"pool:*s", "pool:ports", true},
        {"pool:*t", "pool:ports", false},
        {"*:*", "holder:a:b", true},
        {"a*b*c", "aXbYbZc", true},
        {"a*b*c", "aXbYbZ", false},
        {"p??l", "pool", true},
        {"p??l", "pol", false},
        {"?", "", false},
        {"[pq]ool", "pool", true},
        {"[pq]ool", "qool", true},
        {"[pq]ool", "rool", false},
        {"[^p]ool", "pool", false},
        {"[^p]ool", "tool", true},
        {"[a-f]1", "c1", true},
        {"[f-a]1", "c1", true},
        {"[a-f]1", "g1", false},
        {"[a-]", "-", true},
        {"[\\]]", "]", true},
        {"[]", "]", false},
        {"[a", "a", true},
        {"[a", "b", false},
        {"\\*", "*", true},
        {"\\*", "x", false},
        {"a\\", "a\\", true},
        {"**a**", "bab", true},
        {"pool", "Pool", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool match = tn_glob_match(tn_bytes_of(rows[i].pattern, strlen(rows[i].pattern)),
                                   tn_bytes_of(rows[i].text, strlen(rows[i].text)));
        if (match != rows[i].match) {
            fail_msg("'%s' and '%s'", rows[i].pattern, rows[i].text);
        }
    }
}

static void a_pattern_of_many_stars_is_not_tried_in_every_way(void **state) {
    char pattern[257];
    char text[2049];
    (void)state;
    for (unsigned i = 0; i < 256; i++) {
        pattern[i] = "*a"[i % 2];
    }
    pattern[255] = 'b';
    memset(text, 'a', 2048);
    assert_false(tn_glob_match(tn_bytes_of(pattern, 256), tn_bytes_of(text, 2048)));
    text[2047] = 'b';
    assert_true(tn_glob_match(tn_bytes_of(pattern, 256), tn_bytes_of(text, 2048)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_grow_behind_the_first_star),
        cmocka_unit_test(patterns_match_as_in_redis),
        cmocka_unit_test(a_pattern_of_many_stars_is_not_tried_in_every_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
