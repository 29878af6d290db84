/* The timer index, against sorted arrays.
 *
 * The index gets memory for exactly as many entries as it will hold at most, and its node count is
 * compared with the bound for the entries it holds at the moment, so that the argument about fill
 * is tested where it is tightest. */
#include "unit/unit.h"

#include "base/timer.h"

#define NODE_BYTES 512u
#define ROOTS_MAX 40u

struct entry {
    uint64_t when;
    uint32_t ref;
};

/* One tree and its twin. */
struct tree {
    struct tn_timer_root root;
    struct entry *sorted;
    uint32_t count;
};

struct world {
    struct tn_timer_index index;
    struct tree trees[ROOTS_MAX];
    uint32_t roots;
    uint32_t limit; /* entries over all trees */
    uint32_t count;
};

static bool entry_before(struct entry a, struct entry b) {
    return a.when < b.when || (a.when == b.when && a.ref < b.ref);
}

static void world_make(struct world *world, uint32_t limit, uint32_t roots) {
    assert_true(roots <= ROOTS_MAX);
    *world = (struct world){.roots = roots, .limit = limit};
    void *memory = unit_memory(tn_timer_bytes(limit, roots));
    memset(memory, 0xcc, tn_timer_bytes(limit, roots));
    tn_timer_init(&world->index, memory, limit, roots);
    for (uint32_t i = 0; i < roots; i++) {
        world->trees[i].sorted = calloc(limit + 1, sizeof(struct entry));
        assert_non_null(world->trees[i].sorted);
    }
}

static void world_free(struct world *world) {
    for (uint32_t i = 0; i < world->roots; i++) {
        free(world->trees[i].sorted);
    }
    free(world->index.nodes);
}

/* The first entry that is not before e. */
static uint32_t tree_position(const struct tree *tree, struct entry e) {
    uint32_t low = 0, high = tree->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (entry_before(tree->sorted[middle], e)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool tree_has(const struct tree *tree, struct entry e) {
    uint32_t at = tree_position(tree, e);
    return at < tree->count && tree->sorted[at].when == e.when && tree->sorted[at].ref == e.ref;
}

static void check_bound(const struct world *world) {
    uint32_t used_roots = 0;
    for (uint32_t i = 0; i < world->roots; i++) {
        used_roots += world->trees[i].count > 0;
    }
    assert_true(world->index.live <= world->index.capacity);
    assert_true((size_t)world->index.live * NODE_BYTES <= tn_timer_bytes(world->count, used_roots));
}

static void insert(struct world *world, struct tree *tree, struct entry e) {
    uint32_t at = tree_position(tree, e);
    memmove(tree->sorted + at + 1, tree->sorted + at, (tree->count - at) * sizeof e);
    tree->sorted[at] = e;
    tree->count++;
    world->count++;
    tn_timer_insert(&world->index, &tree->root, e.when, e.ref);
    check_bound(world);
}

static void remove_at(struct world *world, struct tree *tree, uint32_t at) {
    struct entry e = tree->sorted[at];
    tree->count--;
    world->count--;
    memmove(tree->sorted + at, tree->sorted + at + 1, (tree->count - at) * sizeof e);
    tn_timer_remove(&world->index, &tree->root, e.when, e.ref);
    check_bound(world);
}

static void check_after(const struct world *world, const struct tree *tree, struct entry e) {
    uint32_t at = tree_position(tree, e);
    bool has = tree_has(tree, e);
    assert_int_equal(tn_timer_has(&world->index, &tree->root, e.when, e.ref), has);
    at += has;
    uint64_t when = 0;
    uint32_t ref = 0;
    bool found = tn_timer_after(&world->index, &tree->root, e.when, e.ref, &when, &ref);
    assert_int_equal(found, at < tree->count);
    assert_true(!found || (when == tree->sorted[at].when && ref == tree->sorted[at].ref));
}

/* The whole tree: its shape, and every entry in order by first and after. */
static void check_tree(const struct world *world, const struct tree *tree) {
    assert_true(tn_timer_check(&world->index, &tree->root));
    assert_int_equal(tree->root.count, tree->count);
    uint64_t when = 0;
    uint32_t ref = 0;
    bool found = tn_timer_first(&world->index, &tree->root, &when, &ref);
    for (uint32_t i = 0; i < tree->count; i++) {
        assert_true(found);
        assert_int_equal(when, tree->sorted[i].when);
        assert_int_equal(ref, tree->sorted[i].ref);
        assert_true(tn_timer_has(&world->index, &tree->root, when, ref));
        found = tn_timer_after(&world->index, &tree->root, when, ref, &when, &ref);
    }
    assert_false(found);
}

static void check_world(const struct world *world) {
    for (uint32_t i = 0; i < world->roots; i++) {
        check_tree(world, &world->trees[i]);
    }
}

/* Where new entries fall and which old ones go. */
enum habit { ANYWHERE, FRONT, BACK, MIDDLE, HABITS };

static struct entry fresh_entry(struct tn_prng *random, const struct tree *tree, enum habit habit) {
    struct entry e = {.when = unit_below(random, 100000), .ref = unit_below(random, 50)};
    if (tree->count > 0 && habit == FRONT) {
        e.when = tree->sorted[0].when - (unit_below(random, 3) == 0);
    } else if (tree->count > 0 && habit == BACK) {
        e.when = tree->sorted[tree->count - 1].when + (unit_below(random, 3) == 0);
    } else if (habit == MIDDLE) {
        e.when = 50000 + unit_below(random, 20);
        e.ref = (uint32_t)tn_prng_next(random);
    }
    return e;
}

static uint32_t doomed_entry(struct tn_prng *random, const struct tree *tree, enum habit habit) {
    switch (habit) {
    case FRONT:
        return 0;
    case BACK:
        return tree->count - 1;
    case MIDDLE:
        return tree->count / 2;
    default:
        return unit_below(random, tree->count);
    }
}

/* Random runs of inserting and removing, each with its own habit, up to the limit and down to
 * nothing. */
static void churn(struct tn_prng *random, uint32_t limit, uint32_t roots, uint32_t turns) {
    static struct world world;
    world_make(&world, limit, roots);
    enum habit in = ANYWHERE, out = ANYWHERE;
    bool rising = true;
    for (uint32_t turn = 0; turn < turns; turn++) {
        if (unit_below(random, limit) == 0) {
            in = (enum habit)unit_below(random, HABITS);
            out = (enum habit)unit_below(random, HABITS);
            rising = unit_below(random, 2) == 0;
            check_world(&world);
        }
        struct tree *tree = &world.trees[unit_below(random, roots)];
        bool up = rising ? unit_below(random, 8) != 0 : unit_below(random, 8) == 0;
        if (up && world.count < limit) {
            struct entry e = fresh_entry(random, tree, in);
            if (!tree_has(tree, e)) {
                insert(&world, tree, e);
            }
        } else if (!up && tree->count > 0) {
            remove_at(&world, tree, doomed_entry(random, tree, out));
        }
        check_after(&world, tree, fresh_entry(random, tree, ANYWHERE));
    }
    check_world(&world);
    for (uint32_t i = 0; i < roots; i++) {
        while (world.trees[i].count > 0) {
            remove_at(&world, &world.trees[i], unit_below(random, world.trees[i].count));
        }
        assert_int_equal(world.trees[i].root.node1, 0);
    }
    assert_int_equal(world.index.live, 0);
    world_free(&world);
}

static void churn_in_one_tree_matches_the_twin(void **state) {
    (void)state;
    struct tn_prng random = unit_random();
    const uint32_t limits[] = {1, 14, 42, 43, 100, 1000};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        churn(&random, limits[i], 1, 30000);
    }
    churn(&random, 8000, 1, 150000);
}

static void churn_in_many_trees_matches_the_twin(void **state) {
    (void)state;
    struct tn_prng random = unit_random();
    churn(&random, 20, ROOTS_MAX, 20000);
    churn(&random, 300, ROOTS_MAX, 30000);
    churn(&random, 4000, ROOTS_MAX, 60000);
    churn(&random, 2000, 3, 60000);
}

/* Grows by one habit, checks, then shrinks by another. */
static void grow_and_shrink(uint32_t n, bool rising, enum habit out, struct tn_prng *random) {
    static struct world world;
    world_make(&world, n, 1);
    struct tree *tree = &world.trees[0];
    for (uint32_t i = 0; i < n; i++) {
        insert(&world, tree, (struct entry){.when = rising ? i : n - i, .ref = i});
    }
    check_world(&world);
    if (rising) {
        /* Appending fills nodes up: close to 42 entries a leaf and 31 children above. */
        assert_true(world.index.live <= n / 42 + n / 42 / 30 + 8);
    }
    while (tree->count > 0) {
        remove_at(&world, tree, doomed_entry(random, tree, out));
        if (tree->count % 1000 == 0) {
            check_world(&world);
        }
    }
    assert_int_equal(world.index.live, 0);
    world_free(&world);
}

static void trees_built_in_order_are_dense_and_shrink_from_any_side(void **state) {
    (void)state;
    struct tn_prng random = unit_random();
    for (int out = 0; out < HABITS; out++) {
        grow_and_shrink(20000, true, (enum habit)out, &random);
        grow_and_shrink(5000, false, (enum habit)out, &random);
    }
}

static void a_queue_moving_through_time_stays_small(void **state) {
    (void)state;
    static struct world world;
    world_make(&world, 3000, 1);
    struct tree *tree = &world.trees[0];
    for (uint32_t i = 0; i < 60000; i++) {
        if (tree->count == 3000) {
            remove_at(&world, tree, 0);
        }
        insert(&world, tree, (struct entry){.when = i / 7, .ref = i});
    }
    check_world(&world);
    assert_true(world.index.live <= 3000 / 42 + 3000 / 42 / 11 + 8);
    world_free(&world);
}

static void the_order_does_not_depend_on_history(void **state) {
    (void)state;
    struct tn_prng random = unit_random();
    static struct world one, other;
    enum { N = 3000 };
    world_make(&one, N, 1);
    world_make(&other, N, 1);
    for (uint32_t i = 0; i < N; i++) {
        struct entry e = {.when = unit_below(&random, 200), .ref = i};
        insert(&one, &one.trees[0], e);
    }
    uint32_t left = N;
    while (left > 0) { /* the same entries, last first */
        insert(&other, &other.trees[0], one.trees[0].sorted[--left]);
    }
    check_world(&one);
    check_world(&other);
    assert_memory_equal(one.trees[0].sorted, other.trees[0].sorted, N * sizeof(struct entry));
    world_free(&one);
    world_free(&other);
}

static void extreme_times_and_references_are_ordinary(void **state) {
    (void)state;
    static struct world world;
    world_make(&world, 300, 1);
    struct tree *tree = &world.trees[0];
    for (uint32_t i = 0; i < 75; i++) {
        insert(&world, tree, (struct entry){.when = 0, .ref = i});
        insert(&world, tree, (struct entry){.when = 0, .ref = UINT32_MAX - i});
        insert(&world, tree, (struct entry){.when = UINT64_MAX, .ref = i});
        insert(&world, tree, (struct entry){.when = UINT64_MAX, .ref = UINT32_MAX - i});
    }
    check_world(&world);
    check_after(&world, tree, (struct entry){.when = 0, .ref = UINT32_MAX});
    check_after(&world, tree, (struct entry){.when = UINT64_MAX, .ref = UINT32_MAX});
    world_free(&world);
}

static void an_empty_tree_has_nothing(void **state) {
    (void)state;
    struct tn_timer_index index;
    tn_timer_init(&index, NULL, 0, 0);
    assert_int_equal(tn_timer_bytes(0, 0), 0);
    struct tn_timer_root root = {0};
    uint64_t when;
    uint32_t ref;
    assert_false(tn_timer_has(&index, &root, 0, 0));
    assert_false(tn_timer_first(&index, &root, &when, &ref));
    assert_false(tn_timer_after(&index, &root, 0, 0, &when, &ref));
    assert_true(tn_timer_check(&index, &root));
}

static void insert_known(void *ctx) {
    struct world *world = ctx;
    tn_timer_insert(&world->index, &world->trees[0].root, 5, 5);
}

static void remove_unknown(void *ctx) {
    struct world *world = ctx;
    tn_timer_remove(&world->index, &world->trees[0].root, 5, 6);
}

static void inserting_twice_and_removing_strangers_are_bugs(void **state) {
    (void)state;
    static struct world world;
    world_make(&world, 2, 1);
    assert_false(unit_aborts(insert_known, &world));
    insert(&world, &world.trees[0], (struct entry){.when = 5, .ref = 5});
    assert_true(unit_aborts(insert_known, &world));
    assert_true(unit_aborts(remove_unknown, &world));
    world_free(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(churn_in_one_tree_matches_the_twin),
        cmocka_unit_test(churn_in_many_trees_matches_the_twin),
        cmocka_unit_test(trees_built_in_order_are_dense_and_shrink_from_any_side),
        cmocka_unit_test(a_queue_moving_through_time_stays_small),
        cmocka_unit_test(the_order_does_not_depend_on_history),
        cmocka_unit_test(extreme_times_and_references_are_ordinary),
        cmocka_unit_test(an_empty_tree_has_nothing),
        cmocka_unit_test(inserting_twice_and_removing_strangers_are_bugs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
