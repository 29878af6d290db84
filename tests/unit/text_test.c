/* Strings in chunks, against strings on the heap. */
#include "unit/unit.h"

#include "base/chunks.h"

#define TEXTS 64u

struct twin {
    uint8_t *at;
    uint32_t len;
    uint32_t ref;
};

static void chunks_make(struct tn_table *chunks, uint32_t capacity) {
    void *memory = unit_memory(tn_table_bytes(TN_TEXT_CHUNK_BYTES, capacity));
    tn_table_init(chunks, 1, memory, TN_TEXT_CHUNK_BYTES, capacity);
}

/* Mostly short, often near the borders of chunks, seldom huge. */
static uint32_t random_len(struct tn_prng *random) {
    uint32_t dice = unit_below(random, 100);
    if (dice < 60) {
        return unit_below(random, 100);
    }
    if (dice < 95) {
        return 24 + 28 * unit_below(random, 20) + unit_below(random, 3) - 1;
    }
    return dice < 99 ? unit_below(random, 3000) : TN_TEXT_MAX - unit_below(random, 30);
}

static void twin_put(struct twin *twin, struct tn_table *chunks, struct tn_prng *random) {
    twin->len = random_len(random);
    twin->at = malloc(twin->len + 1);
    assert_non_null(twin->at);
    for (uint32_t i = 0; i < twin->len; i++) {
        twin->at[i] = (uint8_t)tn_prng_next(random);
    }
    uint32_t live = chunks->live;
    twin->ref = tn_text_put(chunks, tn_bytes_of(twin->at, twin->len));
    assert_int_equal(chunks->live - live, tn_text_chunks(twin->len));
}

static void twin_drop(struct twin *twin, struct tn_table *chunks) {
    uint32_t live = chunks->live;
    tn_text_drop(chunks, twin->ref);
    assert_int_equal(live - chunks->live, tn_text_chunks(twin->len));
    free(twin->at);
    twin->at = NULL;
}

static void twin_check(const struct twin *twin, const struct tn_table *chunks,
                       struct tn_prng *random) {
    static uint8_t out[TN_TEXT_MAX + 2];
    assert_int_equal(tn_text_len(chunks, twin->ref), twin->len);
    memset(out, 0x55, twin->len + 1);
    assert_int_equal(tn_text_get(chunks, twin->ref, out, sizeof out), twin->len);
    assert_memory_equal(out, twin->at, twin->len);
    assert_int_equal(out[twin->len], 0x55);
    assert_true(tn_text_equal(chunks, twin->ref, tn_bytes_of(twin->at, twin->len)));

    uint32_t capacity = unit_below(random, twin->len + 1);
    memset(out, 0x55, twin->len + 1);
    assert_int_equal(tn_text_get(chunks, twin->ref, out, capacity), twin->len);
    assert_memory_equal(out, twin->at, capacity);
    assert_int_equal(out[capacity], 0x55);

    if (twin->len > 0) {
        uint32_t at = unit_below(random, twin->len);
        assert_false(tn_text_equal(chunks, twin->ref, tn_bytes_of(twin->at, twin->len - 1)));
        twin->at[at] ^= 1;
        assert_false(tn_text_equal(chunks, twin->ref, tn_bytes_of(twin->at, twin->len)));
        twin->at[at] ^= 1;
    }
}

static void texts_come_back_whatever_came_and_went_between(void **state) {
    (void)state;
    struct tn_prng random = unit_random();
    struct tn_table chunks;
    chunks_make(&chunks, 30000);
    struct twin twins[TEXTS] = {0};
    for (int turn = 0; turn < 20000; turn++) {
        struct twin *twin = &twins[unit_below(&random, TEXTS)];
        if (twin->at == NULL) {
            if (tn_table_room(&chunks) >= tn_text_chunks(TN_TEXT_MAX)) {
                twin_put(twin, &chunks, &random);
            }
        } else if (unit_below(&random, 2) == 0) {
            twin_check(twin, &chunks, &random);
        } else {
            twin_drop(twin, &chunks);
        }
    }
    assert_true(tn_table_check(&chunks));
    for (uint32_t i = 0; i < TEXTS; i++) {
        if (twins[i].at != NULL) {
            twin_check(&twins[i], &chunks, &random);
            twin_drop(&twins[i], &chunks);
        }
    }
    assert_int_equal(chunks.live, 0);
    assert_true(tn_table_check(&chunks));
    free(chunks.base);
}

static void a_text_takes_the_promised_chunks(void **state) {
    (void)state;
    assert_int_equal(tn_text_chunks(0), 1);
    assert_int_equal(tn_text_chunks(24), 1);
    assert_int_equal(tn_text_chunks(25), 2);
    assert_int_equal(tn_text_chunks(52), 2);
    assert_int_equal(tn_text_chunks(53), 3);
    assert_int_equal(tn_text_chunks(TN_TEXT_MAX), 37450);
}

static void the_empty_text_needs_no_bytes(void **state) {
    (void)state;
    struct tn_table chunks;
    chunks_make(&chunks, 1);
    uint32_t ref = tn_text_put(&chunks, tn_bytes_of(NULL, 0));
    assert_int_equal(tn_table_room(&chunks), 0);
    assert_int_equal(tn_text_len(&chunks, ref), 0);
    assert_int_equal(tn_text_get(&chunks, ref, NULL, 0), 0);
    assert_true(tn_text_equal(&chunks, ref, tn_bytes_of(NULL, 0)));
    assert_false(tn_text_equal(&chunks, ref, tn_bytes_of("", 1)));
    tn_text_drop(&chunks, ref);
    assert_int_equal(tn_table_room(&chunks), 1);
    free(chunks.base);
}

static void the_longest_text_fills_a_table_to_the_last_chunk(void **state) {
    (void)state;
    struct tn_prng random = unit_random();
    struct tn_table chunks;
    chunks_make(&chunks, tn_text_chunks(TN_TEXT_MAX));
    uint8_t *text = unit_memory(TN_TEXT_MAX), *out = unit_memory(TN_TEXT_MAX);
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < TN_TEXT_MAX; i++) {
            text[i] = (uint8_t)tn_prng_next(&random);
        }
        uint32_t ref = tn_text_put(&chunks, tn_bytes_of(text, TN_TEXT_MAX));
        assert_int_equal(tn_table_room(&chunks), 0);
        assert_int_equal(tn_text_get(&chunks, ref, out, TN_TEXT_MAX), TN_TEXT_MAX);
        assert_memory_equal(out, text, TN_TEXT_MAX);
        tn_text_drop(&chunks, ref);
    }
    free(out);
    free(text);
    free(chunks.base);
}

static void put_two_chunks(void *chunks) {
    tn_text_put(chunks, tn_bytes_of("0123456789012345678901234567890123456789", 40));
}

static void putting_without_room_is_a_bug(void **state) {
    (void)state;
    struct tn_table chunks;
    chunks_make(&chunks, 1);
    assert_true(unit_aborts(put_two_chunks, &chunks));
    free(chunks.base);
}

static void a_chain_that_is_not_its_texts_is_noticed(void **state) {
    (void)state;
    struct tn_table chunks;
    chunks_make(&chunks, 8);
    uint32_t ref =
        tn_text_put(&chunks, tn_bytes_of("0123456789012345678901234567890123456789", 40));
    uint32_t *first = tn_table_mut(&chunks, ref); /* next, length, ... */
    uint32_t next = first[0];
    assert_int_equal(tn_text_next(&chunks, ref), next - 1);
    assert_int_equal(tn_text_next(&chunks, next - 1), TN_NONE);
    assert_true(tn_text_check(&chunks, ref, 40));
    assert_false(tn_text_check(&chunks, ref, 39));
    assert_false(tn_text_check(&chunks, chunks.used, 40));
    assert_false(tn_text_check(&chunks, TN_NONE, 40));
    uint32_t forged[] = {0, ref + 1, chunks.used + 1, UINT32_MAX};
    for (unsigned i = 0; i < 4; i++) {
        first[0] = forged[i];
        assert_false(tn_text_check(&chunks, ref, 40));
    }
    first[0] = next;
    first[1] = 24; /* would fit the first chunk */
    assert_false(tn_text_check(&chunks, ref, 40));
    first[1] = 53; /* would take a third one */
    assert_false(tn_text_check(&chunks, ref, 60));
    free(chunks.base);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_come_back_whatever_came_and_went_between),
        cmocka_unit_test(a_text_takes_the_promised_chunks),
        cmocka_unit_test(the_empty_text_needs_no_bytes),
        cmocka_unit_test(the_longest_text_fills_a_table_to_the_last_chunk),
        cmocka_unit_test(putting_without_room_is_a_bug),
        cmocka_unit_test(a_chain_that_is_not_its_texts_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
