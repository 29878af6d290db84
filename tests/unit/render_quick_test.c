/* Replies in long pieces are the bytes of the general writer, which is used when there is little room. */
#include "unit/unit.h"

#include <inttypes.h>

#include "protocol/render.h"

static const uint64_t numbers[] = {
    0,      1,       9,         10,        99999,          1763312345678,
    100000, 1000000, INT64_MAX, 1u << 31u, UINT64_MAX / 2, UINT64_MAX};
#define NUMBERS (sizeof numbers / sizeof numbers[0])

struct reply {
    uint8_t bytes[4096];
    size_t len;
};

static void render(struct reply *reply, enum protocol_encoding encoding, size_t room,
                   enum protocol_id id, const struct kernel_result *result) {
    struct protocol_writer w = {.out = tn_writer_of(reply->bytes, room), .encoding = encoding};
    protocol_render_result(&w, &protocol_table[id], result);
    assert_false(w.out.overflow);
    reply->len = w.out.len;
}

static void compare(enum protocol_id id, const struct kernel_result *result) {
    for (int encoding = PROTOCOL_RESP2; encoding <= PROTOCOL_RESP3; encoding++) {
        struct reply quick, general;
        render(&quick, (enum protocol_encoding)encoding, sizeof quick.bytes, id, result);
        render(&general, (enum protocol_encoding)encoding, quick.len, id, result);
        assert_int_equal(quick.len, general.len);
        assert_memory_equal(quick.bytes, general.bytes, quick.len);
    }
}

static uint64_t number_of(struct tn_prng *random) {
    uint64_t pick = tn_prng_next(random);
    return (pick & 1) != 0 ? numbers[pick / 2 % NUMBERS] : tn_prng_next(random) >> (pick / 2 % 64);
}

static struct kernel_result result_of(struct tn_prng *random, struct kernel_value *value) {
    *value = (struct kernel_value){.number = number_of(random),
                                   .format = (uint8_t)(tn_prng_next(random) % KERNEL_FORMAT_COUNT)};
    return (struct kernel_result){
        .code = (tn_prng_next(random) & 1) != 0 ? TN_R_OK : TN_R_NOOP,
        .replayed = (tn_prng_next(random) & 1) != 0,
        .has_lease = tn_prng_next(random) % 8 != 0,
        .lsn = number_of(random),
        .lease = {.shard = number_of(random), .lsn = number_of(random)},
        .epoch = number_of(random),
        .state = (enum kernel_state)(1 + tn_prng_next(random) % (KERNEL_STATE_COUNT - 1)),
        .deadline_ms = number_of(random),
        .waited_ms = tn_prng_next(random) % 8 == 0,
        .values = value,
        .value_count = tn_prng_next(random) % 8 != 0,
        .value_capacity = 1,
    };
}

static void long_pieces_are_the_bytes_of_the_general_writer(void **state) {
    static const enum protocol_id ids[] = {PROTOCOL_ALLOC,   PROTOCOL_RESERVE, PROTOCOL_TOUCH,
                                           PROTOCOL_RELEASE, PROTOCOL_IMPORT,  PROTOCOL_EMIT,
                                           PROTOCOL_REVOKE,  PROTOCOL_SWEEP};
    (void)state;
    struct tn_prng random = unit_random();
    for (unsigned i = 0; i < 20000; i++) {
        struct kernel_value value;
        struct kernel_result result = result_of(&random, &value);
        compare(ids[i % (sizeof ids / sizeof ids[0])], &result);
    }
}

static void a_result_with_a_lease_takes_the_quick_way(void **state) {
    uint8_t bytes[1024];
    (void)state;
    struct kernel_value value = {.number = 7};
    struct kernel_result result = {.code = TN_R_OK,
                                   .has_lease = true,
                                   .lsn = 12,
                                   .lease = {.lsn = 12},
                                   .epoch = 1,
                                   .state = KERNEL_ACTIVE,
                                   .values = &value,
                                   .value_count = 1};
    struct protocol_writer w = {.out = tn_writer_of(bytes, sizeof bytes)};
    assert_true(protocol_render_quick(&w, &result, true));
    static const char expected[] =
        "*16\r\n$6\r\nresult\r\n$2\r\nOK\r\n$5\r\nlease\r\n$4\r\n0-12\r\n"
        "$5\r\nepoch\r\n:1\r\n$5\r\nstate\r\n$6\r\nactive\r\n"
        "$8\r\ndeadline\r\n$-1\r\n$6\r\nvalues\r\n*1\r\n$1\r\n7\r\n"
        "$3\r\nlsn\r\n:12\r\n$8\r\nreplayed\r\n:0\r\n";
    assert_int_equal(w.out.len, sizeof expected - 1);
    assert_memory_equal(bytes, expected, sizeof expected - 1);
    w.out = tn_writer_of(bytes, 300);
    assert_false(protocol_render_quick(&w, &result, true));
    assert_int_equal(w.out.len, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_pieces_are_the_bytes_of_the_general_writer),
        cmocka_unit_test(a_result_with_a_lease_takes_the_quick_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
