/* The bytes that a replicated log keeps in a shared store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "replica/replica_head.h"

static struct replica_head head_of(uint64_t seed) {
    struct tn_prng prng;
    struct replica_head head;
    memset(&head, 0, sizeof head);
    tn_prng_seed(&prng, seed);
    head.flags = (uint32_t)tn_prng_below(&prng, 4);
    head.state_version = (uint32_t)tn_prng_next(&prng);
    head.ttl_ms = seed % 2 == 1 ? 1 + (uint32_t)tn_prng_below(&prng, 60000) : 0;
    head.epoch = tn_prng_next(&prng);
    head.nonce.words[0] = tn_prng_next(&prng);
    head.nonce.words[1] = tn_prng_next(&prng);
    head.seq = tn_prng_next(&prng);
    head.lsn = tn_prng_next(&prng);
    head.batch = tn_prng_next(&prng);
    head.now_ms = tn_prng_next(&prng);
    head.shard = tn_prng_next(&prng);
    head.chain = tn_prng_next(&prng);
    head.stamp_ms = tn_prng_next(&prng);
    snprintf((char *)head.node, sizeof head.node, "node-%u", (unsigned)seed);
    return head;
}

static void heads_come_back_and_encode_the_same(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct replica_head head = head_of(seed);
        struct replica_head back;
        uint8_t bytes[REPLICA_HEAD_BYTES], again[REPLICA_HEAD_BYTES];
        replica_head_encode(&head, bytes);
        assert_int_equal(replica_head_decode(tn_bytes_of(bytes, sizeof bytes), &back), TN_OK);
        assert_memory_equal(&head, &back, sizeof head);
        replica_head_encode(&back, again);
        assert_memory_equal(bytes, again, sizeof bytes);
    }
}

/* As every version since has written them: nodes of two versions share one store during an upgrade. */
static void put_all(struct tn_writer *w, const uint64_t *values, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        tn_write64(w, values[i]);
    }
}

static void heads_have_the_bytes_of_their_formats(void **state) {
    static const uint64_t values[] = {3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    static const uint32_t sums[] = {0x925ee695u, 0xe82caa2bu};
    (void)state;
    for (uint32_t format = 1; format <= 2; format++) {
        struct replica_head head = {.flags = REPLICA_RESIGNED,
                                    .state_version = 9,
                                    .ttl_ms = format == 2 ? 2000 : 0,
                                    .epoch = 3,
                                    .nonce = {{4, 5}},
                                    .seq = 6,
                                    .lsn = 7,
                                    .batch = 8,
                                    .now_ms = 9,
                                    .shard = 10,
                                    .chain = 11,
                                    .stamp_ms = 12,
                                    .node = "a"};
        uint8_t wanted[REPLICA_HEAD_BYTES] = {0}, bytes[REPLICA_HEAD_BYTES];
        struct tn_writer w = tn_writer_of(wanted, sizeof wanted);
        tn_write_raw(&w, "TENUREHD", 8);
        tn_write32(&w, format);
        tn_write32(&w, 1);
        tn_write32(&w, 9);
        tn_write32(&w, head.ttl_ms);
        put_all(&w, values, 10);
        wanted[104] = 'a';
        tn_store32(wanted + 156, sums[format - 1]);
        replica_head_encode(&head, bytes);
        assert_memory_equal(bytes, wanted, sizeof wanted);
        assert_int_equal(replica_head_decode(tn_bytes_of(wanted, sizeof wanted), &head), TN_OK);
    }
}

static void a_batch_has_the_bytes_of_its_format(void **state) {
    static const uint64_t values[] = {3, 4, 5, 6, 7, 8, 9};
    struct log_batch given = {.shard = 8,
                              .first_lsn = 6,
                              .now_ms = 7,
                              .payload = (const uint8_t *)"payload",
                              .len = 7,
                              .count = 2};
    struct replica_stamp by = {.state_version = 9, .epoch = 3, .nonce = {{4, 5}}, .chain = 9};
    uint8_t wanted[REPLICA_BATCH_BYTES + 7], bytes[REPLICA_BATCH_BYTES + 7];
    struct tn_writer w = tn_writer_of(wanted, sizeof wanted);
    (void)state;
    tn_write_raw(&w, "TENUREBT", 8);
    tn_write32(&w, 1);
    tn_write32(&w, 9);
    put_all(&w, values, 7);
    tn_write32(&w, 2);
    tn_write32(&w, 0xd1ee0795u);
    tn_write_raw(&w, "payload", 7);
    replica_batch_encode(&given, &by, bytes);
    assert_memory_equal(bytes, wanted, sizeof wanted);
}

static void a_damaged_head_is_refused(void **state) {
    struct replica_head head = head_of(1);
    struct replica_head back;
    uint8_t bytes[REPLICA_HEAD_BYTES + 1] = {0};
    (void)state;
    replica_head_encode(&head, bytes);
    for (uint32_t bit = 0; bit < REPLICA_HEAD_BYTES * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        enum tn_status status = replica_head_decode(tn_bytes_of(bytes, REPLICA_HEAD_BYTES), &back);
        assert_int_equal(status, bit >= 64 && bit < 96 ? TN_VERSION : TN_CORRUPT);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (uint32_t len = 0; len <= sizeof bytes; len++) {
        enum tn_status status = replica_head_decode(tn_bytes_of(bytes, len), &back);
        assert_int_equal(status, len == REPLICA_HEAD_BYTES ? TN_OK : TN_CORRUPT);
    }
}

static void heads_are_ordered_by_epoch_and_swap(void **state) {
    struct replica_head a = {.epoch = 1, .seq = 9};
    struct replica_head b = {.epoch = 2, .seq = 3};
    (void)state;
    assert_true(replica_head_order(&a, &b) < 0);
    assert_true(replica_head_order(&b, &a) > 0);
    b.epoch = 1;
    assert_true(replica_head_order(&a, &b) > 0);
    b.seq = 9;
    assert_int_equal(replica_head_order(&a, &b), 0);
    assert_true(replica_head_equal(&a, &b));
    b.nonce.words[1] = 1;
    assert_false(replica_head_equal(&a, &b));
}

static void heads_are_equal_if_all_their_fields_are(void **state) {
    struct replica_head a = {.epoch = 1, .seq = 9, .node = "n"};
    (void)state;
    for (size_t i = 0; i < sizeof a; i++) {
        struct replica_head b = a;
        ((uint8_t *)&b)[i] ^= 1;
        bool pads = i >= offsetof(struct replica_head, ttl_ms) + sizeof a.ttl_ms &&
                    i < offsetof(struct replica_head, epoch);
        pads = pads || i >= offsetof(struct replica_head, node) + sizeof a.node;
        assert_int_equal(replica_head_equal(&a, &b), pads);
    }
}

static const struct log_batch batch = {.shard = 7,
                                       .first_lsn = 42,
                                       .now_ms = 1000,
                                       .payload = (const uint8_t *)"payload",
                                       .len = 7,
                                       .count = 2};
static const struct replica_stamp stamp = {
    .state_version = 3, .epoch = 5, .nonce = {{11, 12}}, .chain = 99};

static void batches_come_back(void **state) {
    uint8_t bytes[REPLICA_BATCH_BYTES + 7];
    struct log_batch back;
    struct replica_stamp back_stamp;
    (void)state;
    replica_batch_encode(&batch, &stamp, bytes);
    assert_int_equal(replica_batch_decode(tn_bytes_of(bytes, sizeof bytes), 42, &back, &back_stamp),
                     TN_OK);
    assert_int_equal(back.first_lsn, 42);
    assert_int_equal(back.now_ms, 1000);
    assert_int_equal(back.shard, 7);
    assert_int_equal(back.count, 2);
    assert_int_equal(back.len, 7);
    assert_memory_equal(back.payload, "payload", 7);
    assert_memory_equal(&back_stamp, &stamp, sizeof stamp);
}

static void a_damaged_or_misplaced_batch_is_refused(void **state) {
    uint8_t bytes[REPLICA_BATCH_BYTES + 7];
    struct log_batch back;
    struct replica_stamp back_stamp;
    (void)state;
    replica_batch_encode(&batch, &stamp, bytes);
    struct tn_bytes whole = tn_bytes_of(bytes, sizeof bytes);
    assert_int_equal(replica_batch_decode(whole, 43, &back, &back_stamp), TN_CORRUPT);
    for (uint32_t bit = 0; bit < sizeof bytes * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(replica_batch_decode(whole, 42, &back, &back_stamp),
                         bit >= 64 && bit < 96 ? TN_VERSION : TN_CORRUPT);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (uint32_t len = 0; len < sizeof bytes; len++) {
        assert_int_equal(replica_batch_decode(tn_bytes_of(bytes, len), 42, &back, &back_stamp),
                         TN_CORRUPT);
    }
}

static void the_chain_depends_on_everything_in_a_batch(void **state) {
    uint64_t chain = replica_chain(5, &batch);
    struct log_batch other = batch;
    (void)state;
    assert_int_equal(replica_chain(5, &batch), chain);
    assert_int_not_equal(replica_chain(6, &batch), chain);
    other.first_lsn++;
    assert_int_not_equal(replica_chain(5, &other), chain);
    other = batch;
    other.now_ms++;
    assert_int_not_equal(replica_chain(5, &other), chain);
    other = batch;
    other.shard++;
    assert_int_not_equal(replica_chain(5, &other), chain);
    other = batch;
    other.count++;
    assert_int_not_equal(replica_chain(5, &other), chain);
    other = batch;
    other.payload = (const uint8_t *)"Payload";
    assert_int_not_equal(replica_chain(5, &other), chain);
    other.len--;
    assert_int_not_equal(replica_chain(5, &other), chain);
}

static void keys_sort_as_lsns(void **state) {
    static const uint64_t lsns[] = {0, 1, 15, 16, 255, 1u << 20, UINT32_MAX, UINT64_MAX};
    char before[REPLICA_KEY_DIGITS], key[REPLICA_KEY_DIGITS];
    uint64_t back;
    (void)state;
    for (size_t i = 0; i < sizeof lsns / sizeof lsns[0]; i++) {
        replica_key_write(lsns[i], key);
        assert_true(replica_key_read(tn_bytes_of(key, sizeof key), &back));
        assert_int_equal(back, lsns[i]);
        assert_true(i == 0 || memcmp(before, key, sizeof key) < 0);
        memcpy(before, key, sizeof key);
    }
    assert_false(replica_key_read(tn_bytes_of("000000000000000A", 16), &back));
    assert_false(replica_key_read(tn_bytes_of("000000000000000", 15), &back));
    assert_false(replica_key_read(tn_bytes_of("00000000000000000", 17), &back));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_come_back_and_encode_the_same),
        cmocka_unit_test(heads_have_the_bytes_of_their_formats),
        cmocka_unit_test(a_batch_has_the_bytes_of_its_format),
        cmocka_unit_test(a_damaged_head_is_refused),
        cmocka_unit_test(heads_are_ordered_by_epoch_and_swap),
        cmocka_unit_test(heads_are_equal_if_all_their_fields_are),
        cmocka_unit_test(batches_come_back),
        cmocka_unit_test(a_damaged_or_misplaced_batch_is_refused),
        cmocka_unit_test(the_chain_depends_on_everything_in_a_batch),
        cmocka_unit_test(keys_sort_as_lsns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
