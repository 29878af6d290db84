/* Tables and their images, against a plain array of records and a copy made at one moment. */
#include "unit/unit.h"

#include "base/bytes.h"
#include "base/record_table.h"

/* The twin of a table: its records, and the free ones as a stack. */
struct twin {
    uint8_t *records;
    bool *live;
    uint32_t *free;
    uint32_t free_count;
    uint32_t used;
};

static void table_make(struct tn_table *table, uint32_t id, uint32_t record_bytes,
                       uint32_t capacity) {
    void *memory = unit_memory(tn_table_bytes(record_bytes, capacity));
    tn_table_init(table, id, memory, record_bytes, capacity);
}

static void twin_make(struct twin *twin, const struct tn_table *table) {
    *twin = (struct twin){0};
    twin->records = calloc(table->capacity, table->record_bytes);
    twin->live = calloc(table->capacity, sizeof twin->live[0]);
    twin->free = calloc(table->capacity, sizeof twin->free[0]);
    assert_true(twin->records != NULL && twin->live != NULL && twin->free != NULL);
}

static void twin_free(struct twin *twin) {
    free(twin->records);
    free(twin->live);
    free(twin->free);
}

static void twin_check(const struct twin *twin, const struct tn_table *table) {
    assert_int_equal(table->used, twin->used);
    assert_int_equal(table->live, twin->used - twin->free_count);
    assert_int_equal(tn_table_room(table), table->capacity - table->live);
    assert_true(tn_table_check(table));
    for (uint32_t i = 0; i < twin->used; i++) {
        if (twin->live[i]) {
            const uint8_t *record = twin->records + (size_t)i * table->record_bytes;
            assert_memory_equal(tn_table_at(table, i), record, table->record_bytes);
        }
    }
}

static void twin_take(struct twin *twin, struct tn_table *table) {
    uint32_t expected = TN_NONE;
    if (twin->free_count > 0) {
        expected = twin->free[--twin->free_count];
    } else if (twin->used < table->capacity) {
        expected = twin->used++;
    }
    assert_int_equal(tn_table_take(table), expected);
    if (expected != TN_NONE) {
        uint8_t *record = twin->records + (size_t)expected * table->record_bytes;
        memset(record, 0, table->record_bytes);
        twin->live[expected] = true;
        assert_memory_equal(tn_table_at(table, expected), record, table->record_bytes);
    }
}

static void twin_turn(struct twin *twin, struct tn_table *table, struct tn_prng *random) {
    uint32_t dice = unit_below(random, 10);
    if (twin->used == 0 || dice < 4) {
        twin_take(twin, table);
        return;
    }
    uint32_t index = unit_below(random, twin->used);
    if (!twin->live[index]) {
        return;
    }
    if (dice < 7) {
        tn_table_give(table, index);
        twin->live[index] = false;
        twin->free[twin->free_count++] = index;
    } else {
        uint32_t at = unit_below(random, table->record_bytes);
        uint8_t byte = (uint8_t)tn_prng_next(random);
        ((uint8_t *)tn_table_mut(table, index))[at] = byte;
        twin->records[(size_t)index * table->record_bytes + at] = byte;
    }
}

static void random_use_matches_the_twin(void **state) {
    (void)state;
    struct tn_prng random = unit_random();
    const uint32_t shapes[][2] = {{4, 1}, {4, 500}, {24, 300}, {1000, 200}, {70000, 5}};
    for (size_t shape = 0; shape < sizeof shapes / sizeof shapes[0]; shape++) {
        struct tn_table table;
        struct twin twin;
        table_make(&table, 9, shapes[shape][0], shapes[shape][1]);
        twin_make(&twin, &table);
        for (int turn = 0; turn < 5000; turn++) {
            twin_turn(&twin, &table, &random);
            if (turn % 250 == 0) {
                twin_check(&twin, &table);
            }
        }
        twin_check(&twin, &table);
        twin_free(&twin);
        free(table.base);
    }
}

/* --- Images ----------------------------------------------------------------------------------- */

#define TABLES 5u

/* Records of many sizes: tiny, odd, a page, larger than a chunk with more chunks than a word of the
 * saved-bitmap has bits; and a table that is never used. */
static const uint32_t shape[TABLES][2] = {
    {4, 60000}, {36, 9000}, {4096, 200}, {66000, 150}, {8, 9}};

/* What the saver has been given, per table, and how often each record. */
struct saver {
    uint8_t *bytes[TABLES];
    uint8_t *times[TABLES];
    uint64_t calls;
    uint64_t total;
};

struct world {
    struct tn_table tables[TABLES];
    struct twin twins[TABLES];
    struct tn_table_header headers[TABLES];
    struct tn_table_image image;
    struct saver saver;
    uint8_t *then[TABLES]; /* the records as they were when the image began */
    struct tn_table_header headers_then[TABLES];
    uint64_t hash_then[TABLES];
};

static size_t shape_bytes(uint32_t i) {
    return (size_t)shape[i][0] * shape[i][1];
}

static void world_make(struct world *world) {
    memset(world, 0, sizeof *world);
    for (uint32_t i = 0; i < TABLES; i++) {
        table_make(&world->tables[i], 100 + i, shape[i][0], shape[i][1]);
        twin_make(&world->twins[i], &world->tables[i]);
        world->saver.bytes[i] = unit_memory(shape_bytes(i));
        world->saver.times[i] = unit_memory(shape[i][1]);
        world->then[i] = unit_memory(shape_bytes(i));
    }
}

static void world_free(struct world *world) {
    for (uint32_t i = 0; i < TABLES; i++) {
        twin_free(&world->twins[i]);
        free(world->tables[i].base);
        free(world->saver.bytes[i]);
        free(world->saver.times[i]);
        free(world->then[i]);
    }
}

static void save(void *ctx, const struct tn_table_chunk *chunk) {
    struct saver *saver = ctx;
    uint32_t i = chunk->table_id - 100;
    assert_true(i < TABLES);
    assert_true(chunk->count > 0 && chunk->first + chunk->count <= shape[i][1]);
    memcpy(saver->bytes[i] + (size_t)chunk->first * shape[i][0], chunk->bytes,
           (size_t)chunk->count * shape[i][0]);
    for (uint32_t r = 0; r < chunk->count; r++) {
        saver->times[i][chunk->first + r]++;
    }
    saver->calls++;
    saver->total += (uint64_t)chunk->count * shape[i][0];
}

static void world_turn(struct world *world, struct tn_prng *random) {
    uint32_t i = unit_below(random, TABLES - 1);
    twin_turn(&world->twins[i], &world->tables[i], random);
}

static void world_begin(struct world *world) {
    for (uint32_t i = 0; i < TABLES; i++) {
        const struct tn_table *table = &world->tables[i];
        memset(world->saver.times[i], 0, shape[i][1]);
        memcpy(world->then[i], table->base, (size_t)table->used * table->record_bytes);
        world->headers_then[i] = (struct tn_table_header){
            table->id, table->record_bytes, table->used, table->live, table->free_head};
        world->hash_then[i] = tn_table_hash(table, 77);
    }
    tn_image_begin(&world->image, world->tables, TABLES, world->headers, save, &world->saver);
}

static void world_check_image(const struct world *world) {
    for (uint32_t i = 0; i < TABLES; i++) {
        assert_null(world->tables[i].image);
        assert_memory_equal(&world->headers[i], &world->headers_then[i], sizeof world->headers[i]);
        uint32_t used = world->headers[i].used;
        for (uint32_t r = 0; r < shape[i][1]; r++) {
            assert_int_equal(world->saver.times[i][r], r < used);
        }
        assert_memory_equal(world->saver.bytes[i], world->then[i], (size_t)used * shape[i][0]);
    }
}

/* Loads the image in pieces of random size and random order of tables. */
static void world_check_load(const struct world *world, struct tn_prng *random) {
    for (uint32_t i = 0; i < TABLES; i++) {
        struct tn_table table;
        table_make(&table, 100 + i, shape[i][0], shape[i][1] + unit_below(random, 3));
        assert_true(tn_table_load_header(&table, &world->headers[i]));
        uint32_t end = table.used;
        while (end > 0) {
            uint32_t count = 1 + unit_below(random, end);
            end -= count;
            struct tn_table_chunk chunk = {
                .table_id = table.id,
                .first = end,
                .count = count,
                .bytes = world->saver.bytes[i] + (size_t)end * shape[i][0],
            };
            assert_true(tn_table_load_chunk(&table, &chunk, (size_t)count * shape[i][0]));
        }
        assert_true(tn_table_check(&table));
        assert_int_equal(tn_table_hash(&table, 77), world->hash_then[i]);
        free(table.base);
    }
}

static void an_image_shows_one_moment_while_the_owner_writes_on(void **state) {
    (void)state;
    struct tn_prng random = unit_random();
    static struct world world;
    world_make(&world);
    for (int round = 0; round < 30; round++) {
        for (uint32_t turn = unit_below(&random, 4000); turn > 0; turn--) {
            world_turn(&world, &random);
        }
        world_begin(&world);
        bool abandoned = false;
        do {
            for (uint32_t turn = unit_below(&random, 60); turn > 0; turn--) {
                world_turn(&world, &random);
            }
            if (round % 5 == 4 && unit_below(&random, 4) == 0) {
                tn_image_abandon(&world.image);
                abandoned = true;
                break;
            }
        } while (tn_image_step(&world.image, unit_below(&random, 200000)));
        if (!abandoned) {
            world_check_image(&world);
            world_check_load(&world, &random);
        }
        for (uint32_t i = 0; i < TABLES; i++) {
            assert_null(world.tables[i].image);
            twin_check(&world.twins[i], &world.tables[i]);
        }
    }
    world_free(&world);
}

static void a_step_saves_at_least_one_chunk_and_about_what_it_may(void **state) {
    (void)state;
    struct tn_prng random = unit_random();
    static struct world world;
    world_make(&world);
    for (int turn = 0; turn < 60000; turn++) {
        world_turn(&world, &random);
    }
    const size_t max_bytes[] = {0, 1, 100000, 1000000, SIZE_MAX};
    for (size_t i = 0; i < sizeof max_bytes / sizeof max_bytes[0]; i++) {
        world_begin(&world);
        bool more = true;
        while (more) {
            uint64_t calls = world.saver.calls, total = world.saver.total;
            more = tn_image_step(&world.image, max_bytes[i]);
            assert_true(world.saver.calls > calls);
            /* At most one chunk beyond what was asked for; the largest is one record of 66000. */
            assert_true(max_bytes[i] == SIZE_MAX ||
                        world.saver.total - total < max_bytes[i] + 66001);
        }
        world_check_image(&world);
    }
    world_free(&world);
}

static void an_image_of_empty_tables_ends_at_once(void **state) {
    (void)state;
    static struct world world;
    world_make(&world);
    world_begin(&world);
    assert_false(tn_image_step(&world.image, 1));
    assert_int_equal(world.saver.calls, 0);
    world_check_image(&world);
    world_free(&world);
}

static void records_younger_than_the_image_cost_no_copy(void **state) {
    (void)state;
    static struct world world;
    world_make(&world);
    assert_int_equal(tn_table_take(&world.tables[0]), 0);
    world_begin(&world);
    uint32_t young = tn_table_take(&world.tables[0]);
    tn_store32(tn_table_mut(&world.tables[0], young), 5);
    assert_int_equal(world.saver.calls, 0);
    tn_store32(tn_table_mut(&world.tables[0], 0), 6);
    assert_int_equal(world.saver.calls, 1);
    assert_int_equal(world.saver.total, 4);
    tn_table_give(&world.tables[0], young);
    assert_false(tn_image_step(&world.image, 1));
    world_check_image(&world);
    world_free(&world);
}

/* --- Loading, checking, hashing --------------------------------------------------------------- */

static void headers_that_do_not_fit_are_refused(void **state) {
    (void)state;
    struct tn_table table;
    table_make(&table, 3, 16, 10);
    const struct tn_table_header bad[] = {
        {4, 16, 5, 5, 0}, {3, 24, 5, 5, 0}, {3, 16, 11, 11, 0}, {3, 16, 5, 6, 0},  {3, 16, 5, 4, 6},
        {3, 16, 5, 4, 0}, {3, 16, 5, 5, 1}, {3, 16, 0, 0, 1},   {3, 16, 5, 0, 99},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(tn_table_load_header(&table, &bad[i]));
        assert_int_equal(table.used, 0);
    }
    assert_true(tn_table_load_header(&table, &(struct tn_table_header){3, 16, 10, 9, 10}));
    assert_int_equal(table.used, 10);
    free(table.base);
}

static void chunks_that_do_not_fit_are_refused(void **state) {
    (void)state;
    static const uint8_t bytes[256];
    struct tn_table table;
    table_make(&table, 3, 16, 10);
    assert_true(tn_table_load_header(&table, &(struct tn_table_header){3, 16, 5, 5, 0}));
    const struct {
        struct tn_table_chunk chunk;
        size_t len;
        bool good;
    } cases[] = {
        {{3, 0, 5, bytes}, 80, true},
        {{3, 4, 1, bytes}, 16, true},
        {{3, 5, 0, NULL}, 0, true},
        {{4, 0, 5, bytes}, 80, false},
        {{3, 0, 5, bytes}, 79, false},
        {{3, 0, 5, bytes}, 81, false},
        {{3, 0, 6, bytes}, 96, false},
        {{3, 5, 1, bytes}, 16, false},
        {{3, UINT32_MAX, 1, bytes}, 16, false},
        {{3, 1, UINT32_MAX, bytes}, 16, false},
        {{3, 0, 0x10000001, bytes}, 16, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(tn_table_load_chunk(&table, &cases[i].chunk, cases[i].len), cases[i].good);
    }
    free(table.base);
}

static void damage_to_the_free_chain_is_found(void **state) {
    (void)state;
    struct tn_table table;
    table_make(&table, 3, 16, 10);
    for (uint32_t i = 0; i < 6; i++) {
        tn_table_take(&table);
    }
    tn_table_give(&table, 1);
    tn_table_give(&table, 4);
    tn_table_give(&table, 2);
    assert_true(tn_table_check(&table));
    uint8_t *end = table.base + 16; /* record 1 is the last of the chain 2, 4, 1 */
    const uint32_t bad_links[] = {2, 3, 5, 6, 7, UINT32_MAX};
    for (size_t i = 0; i < sizeof bad_links / sizeof bad_links[0]; i++) {
        tn_store32(end, bad_links[i]);
        assert_false(tn_table_check(&table));
    }
    tn_store32(end, 0);
    assert_true(tn_table_check(&table));
    table.live++;
    assert_false(tn_table_check(&table));
    table.live -= 2;
    assert_false(tn_table_check(&table));
    table.live++;
    end[15] = 1;
    assert_false(tn_table_check(&table));
    free(table.base);
}

static void the_hash_sees_header_and_records(void **state) {
    (void)state;
    struct tn_table table;
    table_make(&table, 3, 16, 10);
    for (uint32_t i = 0; i < 4; i++) {
        tn_store64(tn_table_mut(&table, tn_table_take(&table)), i);
    }
    uint64_t hash = tn_table_hash(&table, 1);
    assert_int_equal(tn_table_hash(&table, 1), hash);
    assert_int_not_equal(tn_table_hash(&table, 2), hash);
    struct tn_table other = table;
    other.id = 4;
    assert_int_not_equal(tn_table_hash(&other, 1), hash);
    table.base[63] ^= 1;
    assert_int_not_equal(tn_table_hash(&table, 1), hash);
    table.base[63] ^= 1;
    table.base[64] ^= 1; /* beyond `used` */
    assert_int_equal(tn_table_hash(&table, 1), hash);
    table.base[64] ^= 1;
    /* The order in which records were freed is state: it decides what comes next. */
    tn_table_give(&table, 0);
    tn_table_give(&table, 1);
    hash = tn_table_hash(&table, 1);
    tn_table_take(&table);
    tn_table_take(&table);
    tn_table_give(&table, 1);
    tn_table_give(&table, 0);
    assert_int_not_equal(tn_table_hash(&table, 1), hash);
    free(table.base);
}

static void give_beyond(void *table) {
    tn_table_give(table, 1);
}

static void touching_records_never_taken_is_a_bug(void **state) {
    (void)state;
    struct tn_table table;
    table_make(&table, 3, 16, 10);
    tn_table_take(&table);
    assert_true(unit_aborts(give_beyond, &table));
    tn_table_take(&table);
    assert_false(unit_aborts(give_beyond, &table));
    tn_table_give(&table, 1);
    assert_true(unit_aborts(give_beyond, &table));
    free(table.base);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_use_matches_the_twin),
        cmocka_unit_test(an_image_shows_one_moment_while_the_owner_writes_on),
        cmocka_unit_test(a_step_saves_at_least_one_chunk_and_about_what_it_may),
        cmocka_unit_test(an_image_of_empty_tables_ends_at_once),
        cmocka_unit_test(records_younger_than_the_image_cost_no_copy),
        cmocka_unit_test(headers_that_do_not_fit_are_refused),
        cmocka_unit_test(chunks_that_do_not_fit_are_refused),
        cmocka_unit_test(damage_to_the_free_chain_is_found),
        cmocka_unit_test(the_hash_sees_header_and_records),
        cmocka_unit_test(touching_records_never_taken_is_a_bug),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
