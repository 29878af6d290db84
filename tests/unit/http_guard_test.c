/* Who may be answered over HTTP: hosts, origins and types, as tables. */
#include "server/http_parts.h"
#include "unit/unit.h"

static void only_names_of_this_machine_are_ours(void **state) {
    (void)state;
    static const struct {
        const char *host;
        bool ours;
    } rows[] = {
        {"localhost", true},
        {"LocalHost:7412", true},
        {"127.0.0.1", true},
        {"127.0.0.1:80", true},
        {"127.255.255.254:7412", true},
        {"[::1]", true},
        {"[::1]:7412", true},
        {"", false},
        {":7412", false},
        {"[]", false},
        {"[::1", false},
        {"[::1]x", false},
        {"[::1]:", true}, /* an empty port is a port left out */
        {"::1", false},
        {"[::2]", false},
        {"0.0.0.0", false},
        {"10.0.0.1", false},
        {"128.0.0.1", false},
        {"127.0.0.1:7412:7412", false},
        {"127.0.0.1:x", false},
        {"127.0.0.1 ", false},
        {"localhost.", false},
        {"localhost.example.com", false},
        {"example.com", false},
        {"xlocalhost", false},
        {"127.0.0.1.example.com", false},
        {"a-name-that-is-longer-than-any-address-of-this-machine-could-ever-be.example.com", false},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(http_host_is_ours(rows[i].host), rows[i].ours);
    }
}

static void a_page_may_write_only_where_it_came_from(void **state) {
    (void)state;
    assert_true(http_origin_is_host("http://localhost:7412", "localhost:7412", false));
    assert_true(http_origin_is_host("HTTP://LOCALHOST", "localhost", false));
    assert_false(http_origin_is_host("http://localhost:7413", "localhost:7412", false));
    assert_false(http_origin_is_host("http://localhost", "localhost:7412", false));
    assert_false(http_origin_is_host("https://localhost:7412", "localhost:7412", false));
    assert_false(http_origin_is_host("http://127.0.0.1:7412", "localhost:7412", false));
    assert_false(http_origin_is_host("http://example.com", "localhost:7412", false));
    assert_false(http_origin_is_host("null", "localhost:7412", false));
    assert_false(http_origin_is_host("", "localhost:7412", false));
    assert_false(http_origin_is_host("http://localhost", NULL, false));
    assert_true(http_origin_is_host("https://localhost:7412", "localhost:7412", true));
    assert_false(http_origin_is_host("http://localhost:7412", "localhost:7412", true));
}

static void types_that_are_json(void **state) {
    (void)state;
    assert_true(http_type_is_json("application/json"));
    assert_true(http_type_is_json("Application/JSON; charset=utf-8"));
    assert_true(http_type_is_json("application/merge-patch+json"));
    assert_false(http_type_is_json(""));
    assert_false(http_type_is_json("application/jsonx"));
    assert_false(http_type_is_json("application/+json"));
    assert_false(http_type_is_json("text/json+json"));
    assert_false(http_type_is_json("text/plain"));
    assert_true(http_type_is_json("application/x-www-form-urlencoded")); /* curl -d */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_names_of_this_machine_are_ours),
        cmocka_unit_test(a_page_may_write_only_where_it_came_from),
        cmocka_unit_test(types_that_are_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
