/* tsan */
/* Host names of etcd's endpoints, looked up by a thread that may outlive the question. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "etcd/address.h"

static struct etcd_lookup *begin(const char *url) {
    struct etcd_endpoint endpoint;
    assert_true(etcd_endpoint_parse(url, &endpoint));
    struct etcd_lookup *lookup = etcd_lookup_begin(&endpoint);
    assert_non_null(lookup);
    return lookup;
}

static const char *finish(struct etcd_lookup *lookup, struct etcd_addresses *addresses) {
    struct pollfd ready = {.fd = etcd_lookup_fd(lookup), .events = POLLIN};
    const char *error = NULL;
    assert_int_equal(poll(&ready, 1, -1), 1);
    assert_true(etcd_lookup_done(lookup, addresses, &error));
    etcd_lookup_end(lookup);
    return error;
}

static void addresses_need_no_lookup(void **state) {
    struct etcd_endpoint endpoint;
    struct etcd_addresses addresses;
    (void)state;
    assert_true(etcd_endpoint_parse("http://127.0.0.1:2380", &endpoint));
    assert_true(etcd_address_numeric(&endpoint, &addresses));
    assert_int_equal(addresses.count, 1);
    assert_int_equal(addresses.at[0].v4.sin_port, htons(2380));
    assert_true(etcd_endpoint_parse("http://[::1]", &endpoint));
    assert_true(etcd_address_numeric(&endpoint, &addresses));
    assert_int_equal(addresses.at[0].any.sa_family, AF_INET6);
    assert_true(etcd_endpoint_parse("http://localhost", &endpoint));
    assert_false(etcd_address_numeric(&endpoint, &addresses));
}

static void a_name_has_addresses(void **state) {
    struct etcd_addresses addresses = {0};
    (void)state;
    assert_null(finish(begin("http://localhost:2379"), &addresses));
    assert_true(addresses.count >= 1 && addresses.count <= ETCD_ADDRESSES_MAX);
}

static void a_name_that_does_not_exist_says_why(void **state) {
    struct etcd_addresses addresses = {0};
    (void)state;
    assert_non_null(finish(begin("http://no-such-host.invalid"), &addresses));
    assert_int_equal(addresses.count, 0);
}

static void a_lookup_can_be_left_at_any_time(void **state) {
    (void)state;
    for (unsigned i = 0; i < 50; i++) {
        struct etcd_lookup *lookup = begin("http://localhost:2379");
        if (i % 2 == 0) {
            struct etcd_addresses addresses;
            const char *error = NULL;
            (void)etcd_lookup_done(lookup, &addresses, &error);
        }
        etcd_lookup_end(lookup); /* the thread ends by itself */
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_need_no_lookup),
        cmocka_unit_test(a_name_has_addresses),
        cmocka_unit_test(a_name_that_does_not_exist_says_why),
        cmocka_unit_test(a_lookup_can_be_left_at_any_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
