/* tn_hash64 (held still by golden vectors and a slow twin), CRC-32C, the mixer, the generator and
 * the names of statuses. */
#include "unit/unit.h"

#include "base/hash.h"
#include "base/status.h"

/* --- tn_hash64 -------------------------------------------------------------------------------- */

/* The twin multiplies in 32-bit limbs and loads byte by byte. */
static uint64_t naive_fold(uint64_t a, uint64_t b) {
    uint64_t a0 = a & 0xffffffff, a1 = a >> 32, b0 = b & 0xffffffff, b1 = b >> 32;
    uint64_t middle = a1 * b0 + (a0 * b0 >> 32);
    uint64_t middle2 = a0 * b1 + (middle & 0xffffffff);
    uint64_t high = a1 * b1 + (middle >> 32) + (middle2 >> 32);
    return a ^ b ^ (a * b) ^ high;
}

static uint64_t naive_load(const uint8_t *at, size_t width) {
    uint64_t v = 0;
    for (size_t i = width; i > 0; i--) {
        v = v << 8 | at[i - 1];
    }
    return v;
}

static uint64_t naive_hash(const uint8_t *at, size_t len, uint64_t seed) {
    const uint64_t k[] = {0x9a6b3c5d17e2f48b, 0xc3d2a59e6b1c4e87, 0x5ce4b8936a3d72c5,
                          0xe14d5a6793ac2bd1};
    uint64_t lane[3];
    size_t pos = 0;
    lane[0] = naive_fold(seed ^ k[0], k[1]);
    lane[1] = lane[0] ^ k[2];
    lane[2] = lane[0] ^ k[3];
    for (; len - pos > 48; pos += 48) {
        for (size_t i = 0; i < 3; i++) {
            const uint8_t *word = at + pos + 16 * i;
            lane[i] = naive_fold(naive_load(word, 8) ^ k[i + 1], naive_load(word + 8, 8) ^ lane[i]);
        }
    }
    if (pos > 0) {
        lane[0] = naive_fold(lane[0] ^ k[0], lane[1]) ^ lane[2];
    }
    for (; len - pos > 16; pos += 16) {
        lane[0] = naive_fold(naive_load(at + pos, 8) ^ k[1], naive_load(at + pos + 8, 8) ^ lane[0]);
    }
    size_t left = len - pos;
    uint64_t a = 0, b = 0;
    if (left >= 4) {
        size_t width = left >= 8 ? 8 : 4;
        a = naive_load(at + pos, width);
        b = naive_load(at + len - width, width);
    } else if (left > 0) {
        a = (uint64_t)at[pos] << 16 | (uint64_t)at[pos + left / 2] << 8 | at[len - 1];
    }
    return naive_fold(naive_fold(a ^ k[2], b ^ lane[0]) ^ len, k[3]);
}

static void hashes_are_what_they_always_were(void **state) {
    (void)state;
    static const struct {
        size_t len;
        uint64_t seed, hash;
    } golden[] = {
        {0, 0x0, 0x177b298530e72a93},          {0, 0x1, 0x2ea49cfebb269bd7},
        {1, 0x0, 0x861b641b6c54c924},          {3, 0x0, 0x1e2f977a6cc73009},
        {4, 0x0, 0x2c35fe8dc688341f},          {7, 0x0, 0x48aaed978853dd70},
        {8, 0x0, 0x69241a8e34c8192a},          {8, 0xffffffffffffffff, 0xcc3e6776c8034e73},
        {15, 0x0, 0xf804f5c8d559121b},         {16, 0x0, 0xdb95674d2e833081},
        {17, 0x0, 0x9302fa114013ba84},         {32, 0x0, 0x9d473349d365bac7},
        {33, 0x0, 0x7541328d91ba8f98},         {48, 0x0, 0xa6f093d127f1da98},
        {49, 0x0, 0x366e3a672cbb0bd1},         {64, 0x0, 0x154246fdebddbfee},
        {96, 0x0, 0x04c1eaf2adc10032},         {97, 0x0, 0x1cd1122c3097c54b},
        {255, 0xdeadbeef, 0x0f5e941be9fc17ae}, {1024, 0x0, 0x2c3c68e2ae8ba19d},
        {1024, 0x1, 0xce796f8c48bfb5da},
    };
    uint8_t bytes[1024];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(i * 7 + 3);
    }
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        assert_int_equal(tn_hash64(bytes, golden[i].len, golden[i].seed), golden[i].hash);
    }
}

static void hashes_match_the_twin_at_every_length_and_alignment(void **state) {
    (void)state;
    struct tn_prng random = unit_random();
    for (size_t len = 0; len <= 300; len++) {
        /* An exact allocation, so that the sanitizer sees a load past either end. */
        uint8_t *exact = malloc(len + 1);
        assert_non_null(exact);
        size_t skew = len % 2;
        uint8_t *bytes = exact + skew;
        size_t n = len + 1 - skew;
        for (size_t i = 0; i < n; i++) {
            bytes[i] = (uint8_t)tn_prng_next(&random);
        }
        uint64_t seed = tn_prng_next(&random);
        assert_int_equal(tn_hash64(bytes, n, seed), naive_hash(bytes, n, seed));
        free(exact);
    }
    assert_int_equal(tn_hash64(NULL, 0, 5), naive_hash(NULL, 0, 5));
}

static void every_bit_of_input_and_seed_counts(void **state) {
    (void)state;
    struct tn_prng random = unit_random();
    uint8_t bytes[120];
    for (size_t len = 1; len <= sizeof bytes; len++) {
        for (size_t i = 0; i < len; i++) {
            bytes[i] = (uint8_t)tn_prng_next(&random);
        }
        uint64_t hash = tn_hash64(bytes, len, 1);
        for (size_t bit = 0; bit < len * 8; bit++) {
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
            uint64_t change = hash ^ tn_hash64(bytes, len, 1);
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_in_range(__builtin_popcountll(change), 8, 56);
        }
        for (unsigned bit = 0; bit < 64; bit++) {
            uint64_t change = hash ^ tn_hash64(bytes, len, 1 ^ UINT64_C(1) << bit);
            assert_in_range(__builtin_popcountll(change), 8, 56);
        }
        assert_int_not_equal(tn_hash64(bytes, len - 1, 1), hash);
    }
}

static void zeros_of_every_length_differ(void **state) {
    (void)state;
    static const uint8_t zeros[256];
    uint64_t seen[257];
    for (size_t len = 0; len <= 256; len++) {
        seen[len] = tn_hash64(zeros, len, 0);
        for (size_t i = 0; i < len; i++) {
            assert_int_not_equal(seen[i], seen[len]);
        }
    }
}

static void both_halves_of_the_hash_spread_numbers_evenly(void **state) {
    (void)state;
    enum { BUCKETS = 1024, EACH = 64 };
    static uint32_t low[BUCKETS], high[BUCKETS];
    for (uint64_t i = 0; i < BUCKETS * EACH; i++) {
        uint64_t hash = tn_hash64(&i, sizeof i, 0);
        low[hash % BUCKETS]++;
        high[hash >> 54]++;
    }
    /* Binomial with mean 64 and deviation 8: six deviations either way. */
    for (size_t i = 0; i < BUCKETS; i++) {
        assert_in_range(low[i], 16, 112);
        assert_in_range(high[i], 16, 112);
    }
}

/* --- tn_mix64 --------------------------------------------------------------------------------- */

/* The inverse: 32-bit xor-shifts undo themselves, the odd factor has an inverse modulo 2^64. */
static uint64_t unmix(uint64_t x) {
    uint64_t inverse = 0xd6e8feb86659fd93;
    for (int i = 0; i < 6; i++) {
        inverse *= 2 - 0xd6e8feb86659fd93 * inverse;
    }
    x ^= x >> 32;
    x *= inverse;
    x ^= x >> 32;
    x *= inverse;
    return x ^ x >> 32;
}

static void mixing_can_be_undone(void **state) {
    (void)state;
    struct tn_prng random = unit_random();
    for (int i = 0; i < 10000; i++) {
        uint64_t x = tn_prng_next(&random) >> unit_below(&random, 64);
        assert_int_equal(unmix(tn_mix64(x)), x);
    }
}

/* --- tn_crc32c -------------------------------------------------------------------------------- */

static uint32_t naive_crc(uint32_t crc, const uint8_t *at, size_t len) {
    crc = ~crc;
    for (size_t i = 0; i < len; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
        }
    }
    return ~crc;
}

static void the_check_values_of_crc32c_hold(void **state) {
    (void)state;
    uint8_t zeros[32] = {0}, ones[32], rising[32];
    memset(ones, 0xff, sizeof ones);
    for (uint8_t i = 0; i < 32; i++) {
        rising[i] = i;
    }
    uint32_t (*const versions[])(uint32_t, const void *, size_t) = {tn_crc32c, tn_crc32c_portable};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(versions[i](0, "123456789", 9), 0xe3069283);
        /* From the iSCSI specification, RFC 3720, B.4. */
        assert_int_equal(versions[i](0, zeros, 32), 0x8a9136aa);
        assert_int_equal(versions[i](0, ones, 32), 0x62a8ab43);
        assert_int_equal(versions[i](0, rising, 32), 0x46dd794e);
        assert_int_equal(versions[i](0, NULL, 0), 0);
    }
}

static void both_crcs_match_the_twin_and_continue(void **state) {
    (void)state;
    struct tn_prng random = unit_random();
    for (int round = 0; round < 2000; round++) {
        uint8_t bytes[200];
        size_t first = unit_below(&random, 8), len = unit_below(&random, 192);
        for (size_t i = 0; i < sizeof bytes; i++) {
            bytes[i] = (uint8_t)tn_prng_next(&random);
        }
        size_t cut = unit_below(&random, (uint32_t)len + 1);
        uint32_t expected = naive_crc(0, bytes + first, len);
        assert_int_equal(tn_crc32c(0, bytes + first, len), expected);
        assert_int_equal(tn_crc32c_portable(0, bytes + first, len), expected);
        uint32_t part = tn_crc32c(0, bytes + first, cut);
        assert_int_equal(tn_crc32c(part, bytes + first + cut, len - cut), expected);
        part = tn_crc32c_portable(0, bytes + first, cut);
        assert_int_equal(tn_crc32c_portable(part, bytes + first + cut, len - cut), expected);
    }
}

/* --- The generator ---------------------------------------------------------------------------- */

static void the_generator_repeats_itself(void **state) {
    (void)state;
    static const uint64_t golden[] = {0x99ec5f36cb75f2b4, 0xbf6e1f784956452a, 0x1a5f849d4933e6e0,
                                      0x6aa594f1262d2d2c};
    struct tn_prng prng;
    tn_prng_seed(&prng, 0);
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        assert_int_equal(tn_prng_next(&prng), golden[i]);
    }
}

static void draws_stay_below_their_bound_and_reach_everything(void **state) {
    (void)state;
    struct tn_prng random = unit_random();
    for (uint64_t n = 1; n <= 20; n++) {
        uint64_t seen = 0;
        for (int i = 0; i < 1000; i++) {
            uint64_t draw = tn_prng_below(&random, n);
            assert_true(draw < n);
            seen |= UINT64_C(1) << draw;
        }
        assert_int_equal(seen, (UINT64_C(1) << n) - 1);
    }
    struct tn_prng twin = random;
    assert_int_equal(tn_prng_below(&random, 0), tn_prng_next(&twin));
    assert_true(tn_prng_below(&random, UINT64_MAX) < UINT64_MAX);
}

/* --- Statuses --------------------------------------------------------------------------------- */

static void every_status_has_a_name_and_a_text(void **state) {
    (void)state;
    assert_string_equal(tn_status_name(TN_OK), "OK");
    assert_string_equal(tn_status_text(TN_OK), "ok");
    assert_string_equal(tn_status_name(TN_INTERRUPTED), "INTERRUPTED");
    for (int i = 0; i < TN_STATUS_COUNT; i++) {
        assert_true(strlen(tn_status_name((enum tn_status)i)) > 0);
        assert_true(strlen(tn_status_text((enum tn_status)i)) > 0);
    }
    assert_string_equal(tn_status_name(TN_STATUS_COUNT), "UNKNOWN");
    assert_string_equal(tn_status_text(TN_STATUS_COUNT), "unknown status");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes_are_what_they_always_were),
        cmocka_unit_test(hashes_match_the_twin_at_every_length_and_alignment),
        cmocka_unit_test(every_bit_of_input_and_seed_counts),
        cmocka_unit_test(zeros_of_every_length_differ),
        cmocka_unit_test(both_halves_of_the_hash_spread_numbers_evenly),
        cmocka_unit_test(mixing_can_be_undone),
        cmocka_unit_test(the_check_values_of_crc32c_hold),
        cmocka_unit_test(both_crcs_match_the_twin_and_continue),
        cmocka_unit_test(the_generator_repeats_itself),
        cmocka_unit_test(draws_stay_below_their_bound_and_reach_everything),
        cmocka_unit_test(every_status_has_a_name_and_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
