/* The bounded writer and reader, against plain shifting of bytes. */
#include "unit/unit.h"

#include "base/bytes.h"

#define BUFFER 64u

/* The twin: little-endian by arithmetic, into a buffer that is surely large enough. */
static size_t naive_put(uint8_t *at, uint64_t v, size_t width) {
    for (size_t i = 0; i < width; i++) {
        at[i] = (uint8_t)(v >> (8 * i));
    }
    return width;
}

static void written_numbers_are_little_endian(void **state) {
    (void)state;
    uint8_t buffer[15];
    struct tn_writer w = tn_writer_of(buffer, sizeof buffer);
    tn_write8(&w, 0x01);
    tn_write16(&w, 0x0302);
    tn_write32(&w, 0x07060504);
    tn_write64(&w, 0x0f0e0d0c0b0a0908);
    assert_false(w.overflow);
    assert_int_equal(w.len, 15);
    for (uint8_t i = 0; i < 15; i++) {
        assert_int_equal(buffer[i], i + 1);
    }
}

static void random_writes_match_the_twin_until_they_overflow(void **state) {
    (void)state;
    struct tn_prng random = unit_random();
    for (int round = 0; round < 2000; round++) {
        uint8_t buffer[BUFFER], twin[BUFFER * 2];
        size_t capacity = unit_below(&random, BUFFER + 1), len = 0;
        memset(buffer, 0xaa, sizeof buffer);
        struct tn_writer w = tn_writer_of(buffer, capacity);
        while (len <= capacity) {
            uint64_t v = tn_prng_next(&random);
            size_t before = len;
            switch (unit_below(&random, 4)) {
            case 0:
                tn_write8(&w, (uint8_t)v);
                len += naive_put(twin + len, v, 1);
                break;
            case 1:
                tn_write16(&w, (uint16_t)v);
                len += naive_put(twin + len, v, 2);
                break;
            case 2:
                tn_write32(&w, (uint32_t)v);
                len += naive_put(twin + len, v, 4);
                break;
            default:
                tn_write64(&w, v);
                len += naive_put(twin + len, v, 8);
                break;
            }
            assert_int_equal(w.overflow, len > capacity);
            assert_int_equal(w.len, len > capacity ? before : len);
            assert_memory_equal(buffer, twin, w.len);
        }
        for (size_t i = capacity; i < sizeof buffer; i++) {
            assert_int_equal(buffer[i], 0xaa);
        }
    }
}

static void an_overflow_stays_although_there_is_room(void **state) {
    (void)state;
    uint8_t buffer[4];
    struct tn_writer w = tn_writer_of(buffer, sizeof buffer);
    tn_write64(&w, 1);
    tn_write8(&w, 1);
    assert_true(w.overflow);
    assert_int_equal(w.len, 0);
}

static void runs_of_bytes_come_back_as_they_went(void **state) {
    (void)state;
    struct tn_prng random = unit_random();
    uint8_t *buffer = unit_memory(200000), *source = unit_memory(UINT16_MAX);
    for (size_t i = 0; i < UINT16_MAX; i++) {
        source[i] = (uint8_t)tn_prng_next(&random);
    }
    const uint32_t lens[] = {0, 1, 65535, 300, 0, 7};
    struct tn_writer w = tn_writer_of(buffer, 200000);
    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        tn_write_bytes16(&w, tn_bytes_of(source, lens[i]));
    }
    assert_false(w.overflow);
    struct tn_reader r = tn_reader_of(buffer, w.len);
    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        assert_true(tn_bytes_equal(tn_read_bytes16(&r), tn_bytes_of(source, lens[i])));
    }
    assert_false(r.bad);
    assert_int_equal(tn_reader_left(&r), 0);
    free(source);
    free(buffer);
}

static void a_run_that_is_too_long_overflows(void **state) {
    (void)state;
    uint8_t *buffer = unit_memory(100000);
    struct tn_writer w = tn_writer_of(buffer, 100000);
    tn_write_bytes16(&w, tn_bytes_of(buffer, 65536));
    assert_true(w.overflow);
    assert_int_equal(w.len, 0);
    free(buffer);
}

static void a_run_cut_short_is_bad_and_empty(void **state) {
    (void)state;
    const uint8_t cut[] = {4, 0, 'a', 'b', 'c'};
    for (size_t len = 0; len <= sizeof cut; len++) {
        struct tn_reader r = tn_reader_of(cut, len);
        struct tn_bytes b = tn_read_bytes16(&r);
        assert_true(r.bad);
        assert_int_equal(b.len, 0);
    }
}

static void random_reads_match_the_twin_until_they_go_bad(void **state) {
    (void)state;
    struct tn_prng random = unit_random();
    for (int round = 0; round < 2000; round++) {
        uint8_t buffer[BUFFER];
        for (size_t i = 0; i < sizeof buffer; i++) {
            buffer[i] = (uint8_t)tn_prng_next(&random);
        }
        size_t len = unit_below(&random, BUFFER + 1), pos = 0;
        struct tn_reader r = tn_reader_of(buffer, len);
        for (int i = 0; i < 40; i++) {
            size_t width = (size_t)1 << unit_below(&random, 4);
            bool good = !r.bad && pos + width <= len;
            uint64_t expected = 0;
            for (size_t b = 0; good && b < width; b++) {
                expected |= (uint64_t)buffer[pos + b] << (8 * b);
            }
            uint64_t got = width == 1   ? tn_read8(&r)
                           : width == 2 ? tn_read16(&r)
                           : width == 4 ? tn_read32(&r)
                                        : tn_read64(&r);
            pos += good ? width : 0;
            assert_int_equal(got, expected);
            assert_int_equal(r.bad, !good);
            assert_int_equal(tn_reader_left(&r), good ? len - pos : 0);
        }
    }
}

static void reading_nothing_from_nothing_is_good(void **state) {
    (void)state;
    struct tn_reader r = tn_reader_of(NULL, 0);
    assert_true(tn_read_raw(&r, NULL, 0));
    assert_false(r.bad);
    assert_int_equal(tn_read8(&r), 0);
    assert_true(r.bad);
    assert_false(tn_read_raw(&r, NULL, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_numbers_are_little_endian),
        cmocka_unit_test(random_writes_match_the_twin_until_they_overflow),
        cmocka_unit_test(an_overflow_stays_although_there_is_room),
        cmocka_unit_test(runs_of_bytes_come_back_as_they_went),
        cmocka_unit_test(a_run_that_is_too_long_overflows),
        cmocka_unit_test(a_run_cut_short_is_bad_and_empty),
        cmocka_unit_test(random_reads_match_the_twin_until_they_go_bad),
        cmocka_unit_test(reading_nothing_from_nothing_is_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
