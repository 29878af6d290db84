/* The datagrams of the UDP door, byte for byte, and how often a source may ask. */
#include "unit/unit.h"

#include <stdlib.h>
#include <string.h>

#include "server/udp.h"

static enum protocol_udp parse(const char *bytes, size_t len, struct protocol_udp_request *ret) {
    char detail[PROTOCOL_DETAIL];
    return protocol_udp_parse(tn_bytes_of(bytes, len), ret, detail);
}

#define PARSE(literal, ret) parse(literal, sizeof(literal) - 1, ret)

static void requests_are_read_as_they_are_written(void **state) {
    struct protocol_udp_request request;
    (void)state;
    assert_int_equal(PARSE("\x01\x12\x34 {\"mac\":1}\r\n", &request), PROTOCOL_UDP_OK);
    assert_false(request.many);
    assert_int_equal(request.sequence, 0x1234);
    assert_int_equal(request.count, 1);
    assert_int_equal(request.reply_len, 15);
    assert_memory_equal(request.meta.at, "{\"mac\":1}", 9);
    assert_int_equal(request.meta.len, 9);
    assert_int_equal(PARSE("\x03\xff\xfe\x01\x00{}", &request), PROTOCOL_UDP_OK);
    assert_true(request.many);
    assert_int_equal(request.sequence, 0xfffe);
    assert_int_equal(request.count, 256);
    assert_int_equal(request.reply_len, PROTOCOL_UDP_REPLY_MAX);
}

static void what_is_wrong_is_told_from_what_is_nothing(void **state) {
    struct protocol_udp_request request;
    (void)state;
    assert_int_equal(PARSE("", &request), PROTOCOL_UDP_NOTHING);
    assert_int_equal(PARSE("\x01\x00", &request), PROTOCOL_UDP_NOTHING);
    assert_int_equal(PARSE("\x02\x00\x01{}", &request), PROTOCOL_UDP_NOTHING);
    assert_int_equal(PARSE("\x01\x00\x01", &request), PROTOCOL_UDP_BAD);
    assert_int_equal(PARSE("\x01\x00\x01[]", &request), PROTOCOL_UDP_BAD);
    assert_int_equal(PARSE("\x03\x00\x01\x00", &request), PROTOCOL_UDP_BAD);
    assert_int_equal(PARSE("\x03\x00\x01\x00\x00{}", &request), PROTOCOL_UDP_BAD);
    assert_int_equal(PARSE("\x03\x00\x01\x01\x01{}", &request), PROTOCOL_UDP_BAD);
    assert_int_equal(request.sequence, 1);
}

static void replies_are_big_endian(void **state) {
    static const uint32_t ids[] = {1, 0xfffffffe};
    uint8_t out[PROTOCOL_UDP_REPLY_MAX];
    (void)state;
    assert_int_equal(protocol_udp_one(out, 0x1234, 0x01020304, 0x05060708090a0b0c), 15);
    assert_memory_equal(out, "\x02\x12\x34\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c", 15);
    assert_int_equal(protocol_udp_many(out, 7, ids, 2), 13);
    assert_memory_equal(out, "\x04\x00\x07\x00\x02\x00\x00\x00\x01\xff\xff\xff\xfe", 13);
    assert_int_equal(protocol_udp_failure(out, 7, "BUSY"), 7);
    assert_memory_equal(out,
                        "\x06\x00\x07"
                        "BUSY",
                        7);
}

static void an_operation_is_the_sources_and_the_datagrams(void **state) {
    char first[PROTOCOL_UDP_OPERATION];
    char second[PROTOCOL_UDP_OPERATION];
    (void)state;
    protocol_udp_operation(tn_bytes_of("ab", 2), tn_bytes_of("cd", 2), first);
    protocol_udp_operation(tn_bytes_of("ab", 2), tn_bytes_of("cd", 2), second);
    assert_string_equal(first, second);
    protocol_udp_operation(tn_bytes_of("abc", 3), tn_bytes_of("d", 1), second);
    assert_string_not_equal(first, second);
}

/* ---- Sources ---- */

static struct udp_source source_of(const char *address) {
    struct sockaddr_storage storage;
    if (uv_ip4_addr(address, 9, (struct sockaddr_in *)&storage) != 0) {
        assert_int_equal(uv_ip6_addr(address, 9, (struct sockaddr_in6 *)&storage), 0);
    }
    return udp_source_of((const struct sockaddr *)&storage);
}

static bool has(const char *networks, const char *address) {
    struct udp_networks parsed;
    char reason[100];
    struct udp_source source = source_of(address);
    assert_true(udp_networks_parse(networks, &parsed, reason, sizeof reason));
    return udp_networks_have(&parsed, &source);
}

static void networks_are_their_first_bits(void **state) {
    (void)state;
    assert_false(has("", "127.0.0.1"));
    assert_true(has("127.0.0.1", "127.0.0.1"));
    assert_false(has("127.0.0.1", "127.0.0.2"));
    assert_true(has("10.0.0.0/8, 192.168.4.0/22", "192.168.7.255"));
    assert_false(has("10.0.0.0/8, 192.168.4.0/22", "192.168.8.0"));
    assert_true(has("0.0.0.0/0", "8.8.8.8"));
    assert_false(has("0.0.0.0/0", "::1"));
    assert_true(has("fe80::/10 ::1", "febf::1"));
    assert_true(has("fe80::/10 ::1", "::1"));
    assert_true(has("::ffff:127.0.0.0/104", "127.9.9.9"));
}

static void what_is_no_network_is_refused(void **state) {
    static const char *const wrong[] = {"localhost", "10.0.0.0/33", "::/129", "10.0.0.0/",
                                        "10.0.0/8",  "1.2.3.4/-1",  "/8"};
    struct udp_networks parsed;
    char reason[100];
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(udp_networks_parse(wrong[i], &parsed, reason, sizeof reason));
    }
}

static unsigned taken(struct udp_rate *rate, const char *address, uint64_t now_ms, unsigned tries) {
    struct udp_source source = source_of(address);
    unsigned count = 0;
    while (tries-- > 0) {
        count += udp_rate_take(rate, &source, now_ms);
    }
    return count;
}

static struct udp_rate *rate_make(uint64_t per_second, uint64_t burst) {
    struct udp_rate *rate = calloc(1, sizeof *rate);
    assert_non_null(rate);
    rate->per_second = per_second;
    rate->burst = burst;
    return rate;
}

static void a_bucket_fills_with_time_up_to_its_brim(void **state) {
    struct udp_rate *rate = rate_make(2, 5);
    (void)state;
    assert_int_equal(taken(rate, "10.0.0.1", 1000, 9), 5);
    assert_int_equal(taken(rate, "10.0.0.2", 1000, 9), 5);
    assert_int_equal(taken(rate, "10.0.0.1", 1499, 9), 0);
    assert_int_equal(taken(rate, "10.0.0.1", 1500, 9), 1);
    assert_int_equal(taken(rate, "10.0.0.1", 3000, 9), 3);
    assert_int_equal(taken(rate, "10.0.0.1", UINT64_C(1) << 52, 9), 5);
    /* All of a /64 is one source. */
    assert_int_equal(taken(rate, "2001:db8::1", 1000, 9), 5);
    assert_int_equal(taken(rate, "2001:db8::2", 1000, 9), 0);
    assert_int_equal(taken(rate, "2001:db8:0:1::2", 1000, 9), 5);
    free(rate);
    rate = rate_make(0, 1);
    assert_int_equal(taken(rate, "10.0.0.1", 1000, 1000), 1000);
    free(rate);
}

static void the_table_is_bounded_and_who_is_in_it_keeps_its_place(void **state) {
    struct udp_rate *rate = rate_make(1, 2);
    unsigned served = 0;
    char address[32];
    (void)state;
    assert_int_equal(taken(rate, "10.0.0.1", 1000, 9), 2);
    for (unsigned i = 0; i < 4 * UDP_SOURCES; i++) {
        (void)snprintf(address, sizeof address, "11.0.%u.%u", i >> 8 & 255, i & 255);
        served += taken(rate, address, 1000, 1);
    }
    assert_in_range(served, UDP_SOURCES / 2, UDP_SOURCES - 1);
    assert_int_equal(taken(rate, "10.0.0.1", 1000, 9), 0);
    /* When their buckets are full again, their places are free. */
    assert_int_equal(taken(rate, "12.0.0.1", 4000, 9), 2);
    free(rate);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_read_as_they_are_written),
        cmocka_unit_test(what_is_wrong_is_told_from_what_is_nothing),
        cmocka_unit_test(replies_are_big_endian),
        cmocka_unit_test(an_operation_is_the_sources_and_the_datagrams),
        cmocka_unit_test(networks_are_their_first_bits),
        cmocka_unit_test(what_is_no_network_is_refused),
        cmocka_unit_test(a_bucket_fills_with_time_up_to_its_brim),
        cmocka_unit_test(the_table_is_bounded_and_who_is_in_it_keeps_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
