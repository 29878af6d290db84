/* Addresses of nodes, as clients get them. */
#include "unit/unit.h"

#include "server/server_role.h"

static void an_address_has_a_host_and_a_port(void **state) {
    static const struct {
        const char *text;
        const char *host;
        unsigned port;
    } cases[] = {{"10.0.0.1:7411", "10.0.0.1", 7411},
                 {"[::1]:1", "::1", 1},
                 {"node-1.example:65535", "node-1.example", 65535}};
    (void)state;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct server_node_address address;
        assert_true(server_node_address_split(cases[i].text, &address));
        assert_string_equal(address.host, cases[i].host);
        assert_int_equal(address.port, cases[i].port);
    }
}

static void anything_else_is_none(void **state) {
    static const char *const texts[] = {
        "", ":", ":7411", "host", "host:", "host:0", "host:65536", "host:-1", "host: 1", "host:1x"};
    char text[SERVER_ADDRESS_MAX + 16];
    struct server_node_address address;
    (void)state;
    for (unsigned i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_false(server_node_address_split(texts[i], &address));
    }
    memset(text, 'h', sizeof text);
    memcpy(text + SERVER_ADDRESS_MAX + 1, ":1", 3);
    assert_false(server_node_address_split(text, &address));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_has_a_host_and_a_port),
        cmocka_unit_test(anything_else_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
