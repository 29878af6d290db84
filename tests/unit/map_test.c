/* The bounded hash index, against a plain array that shows which records are in it. */
#include "unit/unit.h"

#include "base/hash.h"
#include "base/map.h"

/* Record i has key keys[i]; the twin is in[i]. */
struct world {
    struct tn_map map;
    uint32_t limit;
    uint32_t records;
    uint64_t *keys;
    bool *in;
    uint64_t (*hash)(uint64_t key);
};

static bool has_key(const void *ctx, uint32_t ref, const void *key) {
    const struct world *world = ctx;
    assert_true(ref < world->records);
    return world->keys[ref] == *(const uint64_t *)key;
}

static uint64_t hash_good(uint64_t key) {
    return tn_hash64(&key, sizeof key, 0);
}

/* Four tags for all keys, each at a different home: long runs of equal tags. */
static uint64_t hash_few(uint64_t key) {
    return (key & 3) << 62;
}

/* Every home is the last place: all entries but one wrap around. */
static uint64_t hash_last(uint64_t key) {
    (void)key;
    return UINT64_MAX;
}

/* Homes in the last few places, tags all different: wrapped runs that get shifted back. */
static uint64_t hash_near_end(uint64_t key) {
    return ~((key % 1000) << 44) & ~UINT64_C(0xffffffff);
}

static void world_make(struct world *world, uint32_t limit, uint32_t records,
                       uint64_t (*hash)(uint64_t)) {
    *world = (struct world){.limit = limit, .records = records, .hash = hash};
    world->keys = calloc(records, sizeof world->keys[0]);
    world->in = calloc(records, sizeof world->in[0]);
    assert_true(world->keys != NULL && world->in != NULL);
    for (uint32_t i = 0; i < records; i++) {
        world->keys[i] = UINT64_C(1000003) * i;
    }
    tn_map_init(&world->map, unit_memory(tn_map_bytes(limit)), limit);
}

static void world_free(struct world *world) {
    free(world->map.entries);
    free(world->keys);
    free(world->in);
}

static uint32_t world_find(const struct world *world, uint64_t key) {
    return tn_map_find(&world->map, world->hash(key), has_key, world, &key);
}

static void world_toggle(struct world *world, uint32_t ref) {
    uint64_t hash = world->hash(world->keys[ref]);
    if (world->in[ref]) {
        tn_map_remove(&world->map, hash, ref);
    } else {
        tn_map_insert(&world->map, hash, ref);
    }
    world->in[ref] = !world->in[ref];
}

static void world_check(const struct world *world) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < world->records; i++) {
        assert_int_equal(world_find(world, world->keys[i]), world->in[i] ? i : TN_NONE);
        count += world->in[i];
    }
    assert_int_equal(world->map.count, count);
    assert_int_equal(world_find(world, 1), TN_NONE);
}

/* Fills up to the limit, then keeps it there: one out, one in, with an occasional check. */
static void churn(struct tn_prng *random, uint32_t limit, uint64_t (*hash)(uint64_t), int turns) {
    struct world world;
    world_make(&world, limit, limit * 2, hash);
    for (uint32_t i = 0; i < limit; i++) {
        world_toggle(&world, i * 2);
    }
    world_check(&world);
    for (int turn = 0; turn < turns; turn++) {
        uint32_t out = unit_below(random, world.records), in = unit_below(random, world.records);
        while (!world.in[out]) {
            out = (out + 1) % world.records;
        }
        while (world.in[in]) {
            in = (in + 1) % world.records;
        }
        world_toggle(&world, out);
        assert_int_equal(world_find(&world, world.keys[out]), TN_NONE);
        world_toggle(&world, in);
        assert_int_equal(world_find(&world, world.keys[in]), in);
        if (turn % (turns / 20) == 0) {
            world_check(&world);
        }
    }
    while (world.map.count > 0) {
        uint32_t out = unit_below(random, world.records);
        if (world.in[out]) {
            world_toggle(&world, out);
        }
    }
    world_check(&world);
    for (uint32_t i = 0; i < world.map.capacity; i++) {
        assert_int_equal(world.map.entries[i].ref1, 0);
    }
    world_free(&world);
}

static void churn_at_the_limit_matches_the_twin(void **state) {
    (void)state;
    struct tn_prng random = unit_random();
    churn(&random, 1, hash_good, 100);
    churn(&random, 7, hash_good, 1000);
    churn(&random, 1000, hash_good, 40000);
}

static void equal_tags_are_told_apart_by_their_records(void **state) {
    (void)state;
    struct tn_prng random = unit_random();
    churn(&random, 100, hash_few, 4000);
}

static void runs_that_wrap_around_the_end_stay_whole(void **state) {
    (void)state;
    struct tn_prng random = unit_random();
    churn(&random, 100, hash_last, 2000);
    churn(&random, 150, hash_near_end, 4000);
}

static void random_growing_and_shrinking_matches_the_twin(void **state) {
    (void)state;
    struct tn_prng random = unit_random();
    struct world world;
    world_make(&world, 300, 600, hash_good);
    for (int turn = 0; turn < 60000; turn++) {
        /* The tide: more likely in than out for a while, then the other way. */
        bool rising = turn / 3000 % 2 == 0;
        uint32_t ref = unit_below(&random, world.records);
        bool wanted = world.in[ref] ? !rising || unit_below(&random, 4) == 0
                                    : rising || unit_below(&random, 4) == 0;
        if (wanted && (world.in[ref] || world.map.count < world.limit)) {
            world_toggle(&world, ref);
        }
        if (turn % 1000 == 0) {
            world_check(&world);
        }
    }
    world_free(&world);
}

static void one_key_may_stand_for_two_references(void **state) {
    (void)state;
    struct world world;
    world_make(&world, 4, 4, hash_good);
    world.keys[1] = world.keys[0];
    world_toggle(&world, 0);
    world_toggle(&world, 1);
    world_toggle(&world, 0);
    assert_int_equal(world_find(&world, world.keys[0]), 1);
    world_free(&world);
}

/* ---- growth ---- */

/* Tags from the smallest to the largest, the extremes included. */
static uint64_t hash_ends(uint64_t key) {
    uint64_t n = key / 1000003;
    return n % 2 == 0 ? n << 32 : ~(n << 32);
}

static void growing_in_steps_matches_the_twin(void **state) {
    (void)state;
    static uint64_t (*const hashes[])(uint64_t) = {hash_good, hash_few, hash_last, hash_near_end,
                                                   hash_ends};
    struct tn_prng random = unit_random();
    for (size_t i = 0; i < sizeof hashes / sizeof hashes[0]; i++) {
        struct world world;
        world_make(&world, 3000, 3000, hashes[i]);
        assert_true(world.map.spread < world.map.capacity / 4);
        uint32_t checked = 0;
        for (uint32_t n = 0; n < world.records; n++) {
            world_toggle(&world, n);
            uint32_t other = unit_below(&random, n + 1);
            if (unit_below(&random, 4) == 0 && world.in[other]) {
                world_toggle(&world, other); /* a removal in the middle of a move */
                assert_int_equal(world_find(&world, world.keys[other]), TN_NONE);
                world_toggle(&world, other);
            }
            assert_int_equal(world_find(&world, world.keys[other]), other);
            if (world.map.moved != 0 && n >= checked) {
                world_check(&world);
                checked = n + 20;
            }
        }
        assert_int_equal(world.map.spread, world.map.capacity);
        assert_int_equal(world.map.moved, 0);
        world_check(&world);
        world_free(&world);
    }
}

static void good_hashes_move_few_entries_at_a_time(void **state) {
    (void)state;
    struct world world;
    world_make(&world, 100000, 100000, hash_good);
    enum { LOOKED = 8192 };
    static struct tn_map_entry before[LOOKED];
    for (uint32_t n = 0; n < 2000; n++) {
        memcpy(before, world.map.entries, sizeof before);
        world_toggle(&world, n);
        uint32_t changed = 0;
        for (uint32_t i = 0; i < LOOKED; i++) {
            changed += memcmp(&before[i], &world.map.entries[i], sizeof before[i]) != 0;
        }
        assert_true(changed < 200);
    }
    world_free(&world);
}

static void few_entries_touch_little_memory(void **state) {
    (void)state;
    struct world world;
    world_make(&world, 1000000, 1000, hash_good);
    for (uint32_t n = 0; n < 1000; n++) {
        world_toggle(&world, n);
    }
    for (uint32_t i = 4096; i < world.map.capacity; i++) {
        assert_int_equal(world.map.entries[i].ref1, 0);
    }
    world_free(&world);
}

static void a_reserved_map_need_not_grow(void **state) {
    (void)state;
    struct world world;
    world_make(&world, 100000, 20000, hash_good);
    tn_map_reserve(&world.map, 20000);
    uint32_t spread = world.map.spread;
    assert_in_range(spread, 30000, 60016);
    for (uint32_t n = 0; n < world.records; n++) {
        world_toggle(&world, n);
    }
    assert_int_equal(world.map.spread, spread);
    world_check(&world);
    world_free(&world);
}

static void at_its_limit_a_quarter_is_empty(void **state) {
    (void)state;
    for (uint64_t limit = 0; limit <= UINT32_MAX / 2; limit = limit * 3 + 1) {
        uint64_t capacity = tn_map_capacity((uint32_t)limit);
        assert_true(limit * 4 <= capacity * 3);
        assert_int_equal(tn_map_bytes((uint32_t)limit), capacity * 8);
    }
}

static void insert_one(void *map) {
    tn_map_insert(map, 5, 5);
}

static void remove_stranger(void *map) {
    tn_map_remove(map, 7, 7);
}

static void overfilling_and_removing_strangers_are_bugs(void **state) {
    (void)state;
    struct world world;
    world_make(&world, 1, 1, hash_good);
    assert_false(unit_aborts(insert_one, &world.map));
    assert_true(unit_aborts(remove_stranger, &world.map));
    world_toggle(&world, 0);
    assert_true(unit_aborts(insert_one, &world.map));
    world_free(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(churn_at_the_limit_matches_the_twin),
        cmocka_unit_test(equal_tags_are_told_apart_by_their_records),
        cmocka_unit_test(runs_that_wrap_around_the_end_stay_whole),
        cmocka_unit_test(random_growing_and_shrinking_matches_the_twin),
        cmocka_unit_test(one_key_may_stand_for_two_references),
        cmocka_unit_test(growing_in_steps_matches_the_twin),
        cmocka_unit_test(good_hashes_move_few_entries_at_a_time),
        cmocka_unit_test(few_entries_touch_little_memory),
        cmocka_unit_test(a_reserved_map_need_not_grow),
        cmocka_unit_test(at_its_limit_a_quarter_is_empty),
        cmocka_unit_test(overfilling_and_removing_strangers_are_bugs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
