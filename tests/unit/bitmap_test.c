/* Sparse bitmaps, against a plain list of the values that are set. */
#include "unit/unit.h"

#include "base/bitmap.h"

#define LIMIT 400u
#define SPACES 3u

/* The twin: set values in no order. */
struct twin {
    struct {
        uint32_t space;
        uint64_t value;
    } set[LIMIT];
    uint32_t count;
};

static uint32_t twin_find(const struct twin *twin, uint32_t space, uint64_t value) {
    uint32_t i = 0;
    while (i < twin->count && (twin->set[i].space != space || twin->set[i].value != value)) {
        i++;
    }
    return i;
}

static bool twin_test(const struct twin *twin, uint32_t space, uint64_t value) {
    return twin_find(twin, space, value) < twin->count;
}

static bool twin_next_clear(const struct twin *twin, uint32_t space, uint64_t from, uint64_t to,
                            uint64_t *value) {
    for (uint64_t v = from; v <= to; v++) {
        if (!twin_test(twin, space, v)) {
            *value = v;
            return true;
        }
        if (v == UINT64_MAX) {
            break;
        }
    }
    return false;
}

static bool twin_next_set(const struct twin *twin, uint32_t space, uint64_t from, uint64_t to,
                          uint64_t *value) {
    bool found = false;
    for (uint32_t i = 0; i < twin->count; i++) {
        uint64_t v = twin->set[i].value;
        if (twin->set[i].space == space && v >= from && v <= to && (!found || v < *value)) {
            *value = v;
            found = true;
        }
    }
    return found;
}

static void bitmap_make(struct tn_bitmap *bitmap, enum tn_bitmap_kind kind, uint64_t limit) {
    tn_bitmap_init(bitmap, kind, unit_memory(tn_bitmap_bytes(kind, limit)), limit, 77);
}

static void assert_nothing_left(const struct tn_bitmap *bitmap) {
    assert_int_equal(bitmap->count, 0);
    const uint8_t *bytes = (const uint8_t *)bitmap->nodes;
    for (size_t i = 0; i < tn_bitmap_bytes(bitmap->kind, bitmap->limit); i++) {
        assert_int_equal(bytes[i], 0);
    }
}

/* Values that meet: few neighbourhoods, at both ends, at borders of every level, and anywhere. */
static uint64_t random_value(struct tn_prng *random) {
    uint32_t dice = unit_below(random, 100);
    uint64_t near = unit_below(random, 140);
    if (dice < 35) {
        return near;
    }
    if (dice < 65) {
        return UINT64_MAX - near;
    }
    if (dice < 90) {
        return (UINT64_C(1) << 6 * (1 + unit_below(random, 10))) + near - 70;
    }
    return tn_prng_next(random) >> unit_below(random, 64);
}

static void toggle(struct tn_bitmap *bitmap, struct twin *twin, struct tn_prng *random) {
    uint32_t space = unit_below(random, SPACES);
    uint64_t value = random_value(random);
    if (twin->count > 0 && unit_below(random, 3) == 0) {
        /* A neighbor of a set bit, so that words fill up. */
        uint32_t i = unit_below(random, twin->count);
        space = twin->set[i].space;
        value = twin->set[i].value + unit_below(random, 3) - 1;
    }
    uint32_t at = twin_find(twin, space, value);
    assert_int_equal(tn_bitmap_test(bitmap, space, value), at < twin->count);
    if (at < twin->count) {
        tn_bitmap_clear(bitmap, space, value);
        twin->set[at] = twin->set[--twin->count];
    } else if (twin->count < LIMIT) {
        tn_bitmap_set(bitmap, space, value);
        twin->set[twin->count].space = space;
        twin->set[twin->count++].value = value;
    }
    assert_int_equal(tn_bitmap_test(bitmap, space, value), twin_test(twin, space, value));
}

static void compare(const struct tn_bitmap *bitmap, const struct twin *twin,
                    struct tn_prng *random) {
    uint32_t space = unit_below(random, SPACES);
    uint64_t from = random_value(random), to = random_value(random);
    if (unit_below(random, 3) == 0) {
        to = UINT64_MAX;
    }
    uint64_t expected = 0, got = 0;
    bool full = bitmap->kind == TN_BITMAP_FULL;
    bool there = full ? twin_next_clear(twin, space, from, to, &expected)
                      : twin_next_set(twin, space, from, to, &expected);
    assert_int_equal(tn_bitmap_next(bitmap, space, from, to, &got), there);
    assert_true(!there || got == expected);
    uint64_t word = 0;
    for (uint64_t bit = 0; bit < 64; bit++) {
        word |= (uint64_t)twin_test(twin, space, (from & ~UINT64_C(63)) | bit) << bit;
    }
    assert_int_equal(tn_bitmap_word(bitmap, space, from), word);
}

static void random_life(enum tn_bitmap_kind kind) {
    struct tn_prng random = unit_random();
    struct tn_bitmap bitmap;
    bitmap_make(&bitmap, kind, LIMIT);
    static struct twin twin;
    twin.count = 0;
    for (int turn = 0; turn < 60000; turn++) {
        toggle(&bitmap, &twin, &random);
        if (turn % 3 == 0) {
            compare(&bitmap, &twin, &random);
        }
        if (turn % 15000 == 14999) {
            while (twin.count > 0) {
                twin.count--;
                tn_bitmap_clear(&bitmap, twin.set[twin.count].space, twin.set[twin.count].value);
            }
            assert_nothing_left(&bitmap);
        }
    }
    free(bitmap.nodes);
}

static void clear_bits_match_the_twin(void **state) {
    (void)state;
    random_life(TN_BITMAP_FULL);
}

static void set_bits_match_the_twin(void **state) {
    (void)state;
    random_life(TN_BITMAP_ANY);
}

/* --- Dense: whole upper words, with a flat array as the twin ---------------------------------- */

#define DENSE (UINT64_C(1) << 18) /* one full word of level 2 */

static uint64_t next_in_flat(const bool *taken, uint64_t from, bool wanted) {
    while (from < DENSE && taken[from] != wanted) {
        from++;
    }
    return from;
}

static void clear_bits_are_found_in_order(void **state) {
    (void)state;
    struct tn_prng random = unit_random();
    struct tn_bitmap bitmap;
    bitmap_make(&bitmap, TN_BITMAP_FULL, DENSE);
    /* The same picture at the very bottom and the very top of the values. */
    const uint64_t bases[] = {0, UINT64_MAX - (DENSE - 1)};
    for (size_t b = 0; b < 2; b++) {
        uint64_t base = bases[b], last = base + (DENSE - 1), got = 0;
        for (uint64_t v = 0; v < DENSE; v++) {
            assert_true(tn_bitmap_next(&bitmap, 5, base, UINT64_MAX, &got));
            assert_int_equal(got, base + v);
            tn_bitmap_set(&bitmap, 5, got);
        }
        assert_false(tn_bitmap_next(&bitmap, 5, base, last, &got));
        assert_int_equal(tn_bitmap_next(&bitmap, 5, base, UINT64_MAX, &got), b == 0);
        assert_int_equal(tn_bitmap_word(&bitmap, 5, base + 70), UINT64_MAX);

        bool *taken = malloc(DENSE);
        assert_non_null(taken);
        memset(taken, true, DENSE);
        for (int i = 0; i < 40; i++) {
            uint64_t v = tn_prng_below(&random, DENSE);
            if (taken[v]) {
                tn_bitmap_clear(&bitmap, 5, base + v);
                taken[v] = false;
            }
        }
        uint64_t from = 0;
        while (tn_bitmap_next(&bitmap, 5, base + from, last, &got)) {
            assert_int_equal(got - base, next_in_flat(taken, from, false));
            from = got - base + 1;
            if (from == DENSE) {
                break;
            }
        }
        assert_int_equal(next_in_flat(taken, from, false), DENSE);
        for (uint64_t v = 0; v < DENSE; v++) {
            if (taken[v]) {
                tn_bitmap_clear(&bitmap, 5, base + v);
            }
        }
        free(taken);
    }
    assert_nothing_left(&bitmap);
    free(bitmap.nodes);
}

static void searches_end_at_the_bound(void **state) {
    (void)state;
    struct tn_bitmap full, any;
    bitmap_make(&full, TN_BITMAP_FULL, 200);
    bitmap_make(&any, TN_BITMAP_ANY, 2);
    for (uint64_t v = 0; v < 130; v++) {
        tn_bitmap_set(&full, 0, v);
    }
    tn_bitmap_set(&any, 0, 130);
    tn_bitmap_set(&any, 0, UINT64_MAX);
    const struct tn_bitmap *both[] = {&full, &any};
    for (size_t i = 0; i < 2; i++) {
        for (uint64_t to = 0; to < 130; to++) {
            uint64_t got;
            assert_false(tn_bitmap_next(both[i], 0, 0, to, &got));
            assert_false(tn_bitmap_next(both[i], 0, to, 129, &got));
            assert_true(tn_bitmap_next(both[i], 0, to, 130, &got));
            assert_int_equal(got, 130);
        }
        uint64_t got;
        assert_true(tn_bitmap_next(both[i], 0, UINT64_MAX, UINT64_MAX, &got));
        assert_int_equal(got, UINT64_MAX);
        assert_false(tn_bitmap_next(both[i], 0, 131, 130, &got));
    }
    uint64_t got;
    assert_false(tn_bitmap_next(&any, 0, 131, UINT64_MAX - 1, &got));
    assert_false(tn_bitmap_next(&any, 1, 0, UINT64_MAX, &got));
    assert_true(tn_bitmap_next(&full, 1, 0, 0, &got));
    free(full.nodes);
    free(any.nodes);
}

/* --- Bounds ----------------------------------------------------------------------------------- */

static void the_worst_scatter_fits_the_memory(void **state) {
    (void)state;
    enum { MANY = 300 };
    for (int kind = TN_BITMAP_FULL; kind <= TN_BITMAP_ANY; kind++) {
        struct tn_bitmap bitmap;
        bitmap_make(&bitmap, (enum tn_bitmap_kind)kind, MANY);
        /* A space each: no word is shared, not even at the top. */
        for (uint32_t i = 0; i < MANY; i++) {
            tn_bitmap_set(&bitmap, i, i * UINT64_C(0x0123456789abcdef));
        }
        assert_int_equal(bitmap.count, kind == TN_BITMAP_FULL ? MANY : MANY * 11);
        assert_true(bitmap.count * 6 <= bitmap.capacity * 5);
        for (uint32_t i = 0; i < MANY; i++) {
            tn_bitmap_clear(&bitmap, i, i * UINT64_C(0x0123456789abcdef));
        }
        assert_nothing_left(&bitmap);
        free(bitmap.nodes);
    }
}

/* --- Growth ----------------------------------------------------------------------------------- */

static uint64_t scattered(uint32_t i) {
    return i * UINT64_C(0x9e3779b97f4a7c15);
}

/* One word a value, in a table for many more. */
static void words_stay_where_they_are_found_while_the_table_grows(void **state) {
    (void)state;
    enum { MANY = 5000 };
    for (int kind = TN_BITMAP_FULL; kind <= TN_BITMAP_ANY; kind++) {
        struct tn_bitmap bitmap;
        bitmap_make(&bitmap, (enum tn_bitmap_kind)kind, MANY);
        assert_true(bitmap.spread < bitmap.capacity / 4);
        for (uint32_t i = 0; i < MANY; i++) {
            assert_false(tn_bitmap_test(&bitmap, 3, scattered(i)));
            tn_bitmap_set(&bitmap, 3, scattered(i));
            if (i % 3 == 0) { /* a removal in the middle of a move */
                tn_bitmap_clear(&bitmap, 3, scattered(i / 2));
                assert_false(tn_bitmap_test(&bitmap, 3, scattered(i / 2)));
                tn_bitmap_set(&bitmap, 3, scattered(i / 2));
            }
            for (uint32_t j = 0; i % 50 == 0 && j <= i; j++) {
                assert_true(tn_bitmap_test(&bitmap, 3, scattered(j)));
            }
        }
        for (uint32_t i = 0; i < MANY; i++) {
            assert_true(tn_bitmap_test(&bitmap, 3, scattered(i)));
            tn_bitmap_clear(&bitmap, 3, scattered(i));
        }
        assert_nothing_left(&bitmap);
        free(bitmap.nodes);
    }
}

static void few_words_touch_little_memory(void **state) {
    (void)state;
    struct tn_bitmap bitmap;
    bitmap_make(&bitmap, TN_BITMAP_FULL, 1000000);
    for (uint32_t i = 0; i < 1000; i++) {
        tn_bitmap_set(&bitmap, 0, scattered(i));
    }
    for (uint64_t i = 4096; i < bitmap.capacity; i++) {
        assert_int_equal(bitmap.nodes[i].space1, 0);
    }
    free(bitmap.nodes);
}

static void spaces_do_not_see_each_other(void **state) {
    (void)state;
    struct tn_bitmap bitmap;
    bitmap_make(&bitmap, TN_BITMAP_FULL, 10);
    tn_bitmap_set(&bitmap, 0, 7);
    tn_bitmap_set(&bitmap, UINT32_MAX - 1, 8);
    assert_true(tn_bitmap_test(&bitmap, 0, 7));
    assert_false(tn_bitmap_test(&bitmap, 0, 8));
    assert_false(tn_bitmap_test(&bitmap, UINT32_MAX - 1, 7));
    assert_true(tn_bitmap_test(&bitmap, UINT32_MAX - 1, 8));
    free(bitmap.nodes);
}

static void set_seven(void *bitmap) {
    tn_bitmap_set(bitmap, 0, 7);
}

static void clear_seven(void *bitmap) {
    tn_bitmap_clear(bitmap, 0, 7);
}

static void set_far_away(void *bitmap) {
    tn_bitmap_set(bitmap, 0, 7000);
}

static void changes_that_change_nothing_and_overflow_are_bugs(void **state) {
    (void)state;
    struct tn_bitmap bitmap;
    bitmap_make(&bitmap, TN_BITMAP_FULL, 1);
    assert_true(unit_aborts(clear_seven, &bitmap));
    assert_false(unit_aborts(set_seven, &bitmap));
    tn_bitmap_set(&bitmap, 0, 7);
    assert_true(unit_aborts(set_seven, &bitmap));
    assert_true(unit_aborts(set_far_away, &bitmap));
    assert_false(unit_aborts(clear_seven, &bitmap));
    free(bitmap.nodes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clear_bits_match_the_twin),
        cmocka_unit_test(set_bits_match_the_twin),
        cmocka_unit_test(clear_bits_are_found_in_order),
        cmocka_unit_test(searches_end_at_the_bound),
        cmocka_unit_test(the_worst_scatter_fits_the_memory),
        cmocka_unit_test(words_stay_where_they_are_found_while_the_table_grows),
        cmocka_unit_test(few_words_touch_little_memory),
        cmocka_unit_test(spaces_do_not_see_each_other),
        cmocka_unit_test(changes_that_change_nothing_and_overflow_are_bugs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
