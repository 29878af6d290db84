/* Events as bytes: what is written is what is read, for every kind and every combination of fields;
 * and bytes that are no record are refused. */
#include "unit/unit.h"

#include "engine/record.h"
#include "lib/kit.h"

#define VALUES 200u

struct sample {
    struct kit kit;
    struct tn_prng random;
    struct kernel_value pools[3]; /* one value each of a range, a set and a scope */
    struct kernel_event fact;
    struct kernel_value values[VALUES];
    char texts[6][KERNEL_POOL_MAX];
    char note[KERNEL_NOTE_MAX];
    char payload[KERNEL_META_MAX];
    uint8_t bytes[VALUES * 300];
};

static int sample_make(void **state) {
    struct sample *sample = calloc(1, sizeof *sample);
    assert_non_null(sample);
    kit_open(&sample->kit, NULL);
    sample->random = unit_random();
    assert_int_equal(kit_pool(&sample->kit, "ports", "lo=1 hi=100"), TN_R_OK);
    assert_int_equal(kit_pool(&sample->kit, "gpus", "kind=1"), TN_R_OK);
    assert_int_equal(kit_add(&sample->kit, "gpus", "alpha beta"), TN_R_OK);
    assert_int_equal(kit_pool(&sample->kit, "macs", "lo=1 hi=100 format=2 scoped=1"), TN_R_OK);
    assert_int_equal(kit_alloc(&sample->kit, "h", "ports:1 gpus:1 macs@lab:1", 0), TN_R_OK);
    assert_int_equal(sample->kit.result.value_count, 3);
    memcpy(sample->pools, sample->kit.values, sizeof sample->pools);
    *state = sample;
    return 0;
}

static int sample_free(void **state) {
    struct sample *sample = *state;
    kit_close(&sample->kit);
    free(sample);
    return 0;
}

static uint64_t any_number(struct sample *sample) {
    uint64_t number = tn_prng_next(&sample->random);
    return unit_below(&sample->random, 3) == 0 ? 0 : number >> unit_below(&sample->random, 64);
}

static struct tn_bytes any_text(struct sample *sample, char *out) {
    uint32_t len = unit_below(&sample->random, 2) == 0 ? 0 : 1 + unit_below(&sample->random, 128);
    for (uint32_t i = 0; i < len; i++) {
        out[i] = (char)tn_prng_next(&sample->random);
    }
    return tn_bytes_of(out, len);
}

/* Short, or of any length that a payload may have. */
static struct tn_bytes any_payload(struct sample *sample) {
    uint32_t most = unit_below(&sample->random, 4) == 0 ? KERNEL_META_MAX : 40;
    uint32_t len = unit_below(&sample->random, 2) == 0 ? 0 : 1 + unit_below(&sample->random, most);
    memset(sample->payload, (int)unit_below(&sample->random, 256), len);
    return tn_bytes_of(sample->payload, len);
}

static void any_event(struct sample *sample, enum kernel_event_kind kind) {
    struct kernel_event *fact = &sample->fact;
    *fact = (struct kernel_event){
        .lsn = any_number(sample),
        .index = (uint32_t)any_number(sample),
        .now_ms = any_number(sample),
        .kind = kind,
        .reason = (enum kernel_reason)unit_below(&sample->random, KERNEL_REASON_COUNT),
        .lease = {.shard = any_number(sample), .lsn = any_number(sample)},
        .epoch = any_number(sample),
        .deadline_ms = any_number(sample),
        .number = any_number(sample),
        .holder = any_text(sample, sample->texts[0]),
        .previous = any_text(sample, sample->texts[1]),
        .user = any_text(sample, sample->texts[2]),
        .actor = any_text(sample, sample->texts[5]),
        .note = tn_bytes_of(sample->note, unit_below(&sample->random, KERNEL_NOTE_MAX + 1)),
        .name = any_text(sample, sample->texts[3]),
        .trigger = any_text(sample, sample->texts[4]),
        .payload = any_payload(sample),
        .values = sample->values,
        .value_count = unit_below(&sample->random, 4) == 0 ? unit_below(&sample->random, VALUES)
                                                           : unit_below(&sample->random, 4),
    };
    if (unit_below(&sample->random, 2) == 0) { /* as for a lease of one pool */
        fact->name = kit_text("ports");
    }
    for (uint32_t i = 0; i < fact->value_count; i++) {
        sample->values[i] = sample->pools[unit_below(&sample->random, 3)];
        sample->values[i].number = any_number(sample);
    }
}

static void assert_text(struct tn_bytes read, struct tn_bytes written) {
    assert_true(tn_bytes_equal(read, written));
    assert_int_equal(read.at[read.len], 0);
}

static void assert_read(struct sample *sample, const struct engine_event *event) {
    const struct kernel_event *read = &event->fact;
    const struct kernel_event *fact = &sample->fact;
    assert_int_equal(read->lsn, fact->lsn);
    assert_int_equal(read->index, fact->index);
    assert_int_equal(read->now_ms, fact->now_ms);
    assert_int_equal(read->kind, fact->kind);
    assert_int_equal(read->reason, fact->reason);
    assert_int_equal(read->lease.shard, fact->lease.shard);
    assert_int_equal(read->lease.lsn, fact->lease.lsn);
    assert_int_equal(read->epoch, fact->epoch);
    assert_int_equal(read->deadline_ms, fact->deadline_ms);
    assert_int_equal(read->number, fact->number);
    assert_text(read->holder, fact->holder);
    assert_text(read->actor, fact->actor);
    assert_text(read->note, fact->note);
    assert_text(read->previous, fact->previous);
    assert_text(read->user, fact->user);
    assert_text(read->name, fact->name);
    assert_text(read->trigger, fact->trigger);
    assert_text(read->payload, fact->payload);
    assert_int_equal(read->value_count, fact->value_count);
    for (uint32_t i = 0; i < fact->value_count; i++) {
        const struct kernel_value *value = &fact->values[i];
        char pool[KERNEL_POOL_MAX + 1];
        uint32_t len = kernel_pool_name(sample->kit.kernel, value->pool, pool);
        assert_text(event->values[i].pool, tn_bytes_of(pool, len));
        assert_text(event->values[i].name, tn_bytes_of(value->name, value->name_len));
        assert_int_equal(event->values[i].number, value->name_len > 0 ? 0 : value->number);
        assert_int_equal(event->values[i].format, value->format);
    }
}

static void every_kind_is_read_as_it_was_written(void **state) {
    struct sample *sample = *state;
    static struct engine_event_value values[VALUES];
    for (unsigned round = 0; round < 200; round++) {
        for (int kind = 0; kind < KERNEL_EVENT_COUNT; kind++) {
            struct engine_event event;
            any_event(sample, (enum kernel_event_kind)kind);
            assert_true(engine_record_size_max(&sample->fact) <= sizeof sample->bytes);
            size_t size = engine_record_write(sample->bytes, sample->kit.kernel, &sample->fact);
            assert_true(size <= engine_record_size_max(&sample->fact));
            struct tn_bytes record =
                engine_record_first(tn_bytes_of(sample->bytes, sizeof sample->bytes));
            assert_int_equal(record.len, size);
            assert_false(engine_record_is_lost(record.at));
            assert_int_equal(engine_record_values(record.at), sample->fact.value_count);
            assert_true(engine_record_read(record, values, &event));
            assert_read(sample, &event);
        }
    }
}

/* Checked in memory of exactly the record's size, where reading too far would be seen. */
static void a_record_cut_short_or_changed_is_never_read_too_far(void **state) {
    struct sample *sample = *state;
    for (unsigned round = 0; round < 300; round++) {
        struct engine_event event;
        any_event(sample, (enum kernel_event_kind)unit_below(&sample->random, KERNEL_EVENT_COUNT));
        sample->fact.value_count %= 4;
        size_t size = engine_record_write(sample->bytes, sample->kit.kernel, &sample->fact);
        size_t len = unit_below(&sample->random, (uint32_t)size);
        uint8_t *copy = malloc(size);
        struct engine_event_value values[4];
        assert_non_null(copy);
        memcpy(copy, sample->bytes, size);
        assert_int_equal(engine_record_first(tn_bytes_of(copy, len)).len, 0);
        if (len >= RECORD_HEAD) {
            assert_false(engine_record_read(tn_bytes_of(copy, len), values, &event));
        }
        copy[32 + unit_below(&sample->random, (uint32_t)size - 31) - 1] ^=
            (uint8_t)(1u << unit_below(&sample->random, 8));
        if (engine_record_values(copy) <= 4) {
            (void)engine_record_read(tn_bytes_of(copy, size), values, &event);
        }
        free(copy);
    }
}

static void a_text_without_its_end_is_refused(void **state) {
    struct sample *sample = *state;
    struct engine_event event;
    sample->fact = (struct kernel_event){.lsn = 1, .holder = kit_text("job")};
    size_t size = engine_record_write(sample->bytes, NULL, &sample->fact);
    assert_true(engine_record_read(tn_bytes_of(sample->bytes, size), NULL, &event));
    sample->bytes[size - 1] = 'x';
    assert_false(engine_record_read(tn_bytes_of(sample->bytes, size), NULL, &event));
}

static void a_payload_is_read_whole_up_to_its_limit(void **state) {
    struct sample *sample = *state;
    struct engine_event event;
    memset(sample->payload, 'p', sizeof sample->payload);
    sample->fact =
        (struct kernel_event){.lsn = 1,
                              .kind = KERNEL_EVENT_SENSOR_EMITTED,
                              .trigger = kit_text("timer"),
                              .payload = tn_bytes_of(sample->payload, sizeof sample->payload)};
    size_t size = engine_record_write(sample->bytes, NULL, &sample->fact);
    assert_true(engine_record_read(tn_bytes_of(sample->bytes, size), NULL, &event));
    assert_text(event.fact.payload, sample->fact.payload);
    sample->bytes[size - 1] = 'x';
    assert_false(engine_record_read(tn_bytes_of(sample->bytes, size), NULL, &event));
}

/* The fields a record has, as a byte of its head: one that no version has yet. */
static void an_unknown_field_is_refused(void **state) {
    struct sample *sample = *state;
    struct engine_event event;
    sample->fact = (struct kernel_event){.lsn = 1, .holder = kit_text("job")};
    size_t size = engine_record_write(sample->bytes, NULL, &sample->fact);
    sample->bytes[27] |= 0x80;
    assert_false(engine_record_read(tn_bytes_of(sample->bytes, size), NULL, &event));
}

static void an_unknown_kind_is_refused(void **state) {
    struct sample *sample = *state;
    struct engine_event_value values[VALUES];
    struct engine_event event;
    any_event(sample, KERNEL_EVENT_LEASE_ACTIVE);
    size_t size = engine_record_write(sample->bytes, sample->kit.kernel, &sample->fact);
    sample->bytes[24] = KERNEL_EVENT_COUNT;
    assert_false(engine_record_read(tn_bytes_of(sample->bytes, size), values, &event));
    engine_record_write_lost(sample->bytes, (struct engine_event_id){7, 8});
    assert_true(engine_record_is_lost(sample->bytes));
    assert_int_equal(engine_record_size(sample->bytes), RECORD_HEAD);
    assert_int_equal(engine_record_id(sample->bytes).lsn, 7);
    assert_int_equal(engine_record_id(sample->bytes).index, 8);
}

#define SAMPLE_TEST(name) cmocka_unit_test_setup_teardown(name, sample_make, sample_free)

int main(void) {
    const struct CMUnitTest tests[] = {
        SAMPLE_TEST(every_kind_is_read_as_it_was_written),
        SAMPLE_TEST(a_record_cut_short_or_changed_is_never_read_too_far),
        SAMPLE_TEST(a_text_without_its_end_is_refused),
        SAMPLE_TEST(a_payload_is_read_whole_up_to_its_limit),
        SAMPLE_TEST(an_unknown_field_is_refused),
        SAMPLE_TEST(an_unknown_kind_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
