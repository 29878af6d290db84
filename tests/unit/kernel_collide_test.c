/* Keys whose hashes collide are told apart.
 *
 * An index compares what it finds with what was asked for; that makes no difference until two keys agree
 * in 32 bits of their hash, which in a usual run they never do. Here they do: the seed is known, and
 * keys are looked for that collide. */
#include "unit.h"

#include "kernel/state.h"
#include "lib/kit.h"

#define TRIES 200000u

struct keyed {
    uint32_t tag;
    uint32_t number;
};

static int keyed_compare(const void *a, const void *b) {
    const struct keyed *x = a, *y = b;
    return x->tag < y->tag ? -1 : x->tag > y->tag;
}

/* Two of these with the same tag, of different sides (bit 0 of their numbers) if so asked. */
static bool collision(struct keyed *keys, uint32_t count, bool sides, struct keyed *ret_a,
                      struct keyed *ret_b) {
    qsort(keys, count, sizeof *keys, keyed_compare);
    for (uint32_t i = 1; i < count; i++) {
        if (keys[i].tag == keys[i - 1].tag &&
            (!sides || ((keys[i].number ^ keys[i - 1].number) & 1) != 0)) {
            *ret_a = keys[i - 1];
            *ret_b = keys[i];
            return true;
        }
    }
    return false;
}

static struct keyed keys[TRIES];

static uint32_t tag_of(uint64_t hash) {
    return (uint32_t)(hash >> 32);
}

static uint64_t text_hash(const struct kit *kit, const char *text, uint64_t salt) {
    return tn_hash64(text, strlen(text), kit->kernel->env.hash_seed ^ salt);
}

/* ---- values ---- */

static void numbers_that_collide_have_their_own_leases(void **state) {
    (void)state;
    struct kit kit;
    struct keyed a, b;
    char claim[64];
    kit_open(&kit, NULL);
    assert_int_equal(kit_pool(&kit, "p", "lo=0 hi=1000000"), TN_R_OK);
    for (uint32_t i = 0; i < TRIES; i++) {
        keys[i] = (struct keyed){tag_of(kernel_index_value_hash(kit.kernel, 0, i)), i};
    }
    assert_true(collision(keys, TRIES, false, &a, &b));
    snprintf(claim, sizeof claim, "p=%u", a.number);
    assert_int_equal(kit_alloc(&kit, "a", claim, 0), TN_R_OK);
    struct kit_token t = kit_token(&kit);
    assert_int_equal(kit_alloc(&kit, "b", claim, 0), TN_R_BUSY);
    snprintf(claim, sizeof claim, "p=%u", b.number);
    assert_int_equal(kit_alloc(&kit, "b", claim, 0), TN_R_OK);
    assert_int_equal(kit.result.values[0].number, b.number);
    assert_int_equal(kit_release(&kit, t, "a", true), TN_R_OK);
    assert_int_equal(kit_alloc(&kit, "c", claim, 0), TN_R_BUSY);
    snprintf(claim, sizeof claim, "p=%u", a.number);
    assert_int_equal(kit_alloc(&kit, "c", claim, 0), TN_R_OK);
    kit_close(&kit);
}

/* ---- resources ---- */

static void resources_of_two_sets_whose_names_collide_are_two(void **state) {
    (void)state;
    struct kit kit;
    struct keyed a, b;
    char names[2][16], claim[64];
    kit_open(&kit, NULL);
    assert_int_equal(kit_pool(&kit, "s0", "kind=1"), TN_R_OK);
    assert_int_equal(kit_pool(&kit, "s1", "kind=1"), TN_R_OK);
    for (uint32_t i = 0; i < TRIES; i++) {
        snprintf(names[0], sizeof names[0], "r%u", i);
        keys[i] = (struct keyed){tag_of(text_hash(&kit, names[0], i & 1)), i};
    }
    assert_true(collision(keys, TRIES, true, &a, &b));
    const struct keyed *of[] = {a.number & 1 ? &b : &a, a.number & 1 ? &a : &b};
    for (unsigned set = 0; set < 2; set++) {
        snprintf(names[set], sizeof names[set], "r%u", of[set]->number);
        assert_int_equal(kit_add(&kit, set == 0 ? "s0" : "s1", names[set]), TN_R_OK);
    }
    snprintf(claim, sizeof claim, "s0=%s", names[1]);
    assert_int_equal(kit_alloc(&kit, "h", claim, 0), TN_R_BAD_VALUE);
    snprintf(claim, sizeof claim, "s0=%s s1=%s", names[0], names[1]);
    assert_int_equal(kit_alloc(&kit, "h", claim, 0), TN_R_OK);
    assert_int_equal(kit_remove(&kit, "s0", names[1]), TN_R_NOOP); /* which the set does not have */
    assert_int_equal(kit_alloc(&kit, "i", "s1:1", 0), TN_R_EXHAUSTED);
    kit_close(&kit);
}

/* Positions in two sets, and the holders of two pools: few keys, so the search is for a seed. */
#define SETS 16u
#define EACH 128u

static uint64_t pair_hash(uint64_t seed, uint32_t first, uint64_t second) {
    return tn_mix64(second ^ tn_mix64(seed ^ first));
}

/* A seed with which two pairs collide whose first parts differ; of pools and small numbers. */
static uint64_t seed_find(struct keyed *ret_a, struct keyed *ret_b) {
    for (uint64_t seed = 59800;; seed++) { /* none before it does */
        uint32_t count = 0;
        for (uint32_t pool = 0; pool < SETS; pool++) {
            for (uint32_t i = 0; i < EACH; i++) {
                keys[count++] = (struct keyed){tag_of(pair_hash(seed, pool, i)), pool * EACH + i};
            }
        }
        if (collision(keys, count, false, ret_a, ret_b) &&
            ret_a->number / EACH != ret_b->number / EACH) {
            return seed;
        }
    }
}

static void add_upto(struct kit *kit, uint32_t pool, uint32_t count) {
    char set[16], name[16];
    snprintf(set, sizeof set, "s%u", pool);
    for (uint32_t i = 0; i < count; i++) {
        snprintf(name, sizeof name, "%u", i);
        assert_int_equal(kit_add(kit, set, name), TN_R_OK);
    }
}

static void positions_of_two_sets_that_collide_are_two(void **state) {
    (void)state;
    struct kit kit;
    struct keyed a, b;
    struct kernel_limits limits = kit_limits();
    limits.of[KERNEL_LIMIT_BUNDLE] = EACH;
    kit_open(&kit, &limits);
    kit.kernel->env.hash_seed = seed_find(&a, &b); /* nothing is indexed yet */
    for (uint32_t pool = 0; pool < SETS; pool++) {
        char set[16];
        snprintf(set, sizeof set, "s%u", pool);
        assert_int_equal(kit_pool(&kit, set, "kind=1"), TN_R_OK);
    }
    uint32_t pools[] = {a.number / EACH, b.number / EACH};
    uint32_t counts[] = {a.number % EACH + 1, b.number % EACH + 1};
    add_upto(&kit, pools[0], counts[0]);
    add_upto(&kit, pools[1], counts[1]);
    for (unsigned i = 0; i < 2; i++) {
        char claim[64], last[16];
        snprintf(claim, sizeof claim, "s%u:%u", pools[i], counts[i]);
        snprintf(last, sizeof last, "%u", counts[i] - 1);
        assert_int_equal(kit_alloc(&kit, "h", claim, 0), TN_R_OK);
        const struct kernel_value *value = &kit.result.values[counts[i] - 1];
        assert_int_equal(value->name_len, strlen(last));
        assert_memory_equal(value->name, last, value->name_len);
    }
    kit_close(&kit);
}

/* ---- what a holder has ---- */

static void quotas_of_holders_that_collide_are_their_own(void **state) {
    (void)state;
    struct kit kit;
    struct keyed a, b;
    kit_open(&kit, NULL);
    kit.kernel->env.hash_seed = seed_find(&a, &b);
    for (uint32_t pool = 0; pool < SETS; pool++) {
        char name[16];
        snprintf(name, sizeof name, "p%u", pool);
        assert_int_equal(kit_pool(&kit, name, "lo=1 hi=999 max_per_holder=2"), TN_R_OK);
    }
    assert_int_equal(kit_pool(&kit, "all", "lo=1 hi=999"), TN_R_OK);
    char holder[16], claim[16];
    for (uint32_t i = 0; i < EACH; i++) { /* names get their numbers in this order */
        snprintf(holder, sizeof holder, "h%u", i);
        assert_int_equal(kit_alloc(&kit, holder, "all:1", 0), TN_R_OK);
    }
    const struct keyed *of[] = {&a, &b};
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 2; i++) {
            snprintf(holder, sizeof holder, "h%u", of[i]->number % EACH);
            snprintf(claim, sizeof claim, "p%u:1", of[i]->number / EACH);
            assert_int_equal(kit_alloc(&kit, holder, claim, 0), round < 2 ? TN_R_OK : TN_R_QUOTA);
        }
    }
    kit_close(&kit);
}

/* ---- operations ---- */

static enum tn_result tick_as(struct kit *kit, const char *user, const char *opid) {
    struct kernel_command c = kit_command(KERNEL_VERB_TICK);
    c.user = kit_text(user);
    c.opid = kit_text(opid);
    return kit_run(kit, &c);
}

static void operations_of_two_users_whose_ids_collide_are_two(void **state) {
    (void)state;
    struct kit kit;
    struct keyed a, b;
    char opid[2][16];
    static const char *const users[] = {"u0", "u1"};
    kit_open(&kit, NULL);
    for (uint32_t i = 0; i < TRIES; i++) { /* the users' names are numbers 0 and 1 */
        snprintf(opid[0], sizeof opid[0], "op-%u", i);
        keys[i] = (struct keyed){tag_of(text_hash(&kit, opid[0], i & 1)), i};
    }
    assert_true(collision(keys, TRIES, true, &a, &b));
    assert_int_equal(tick_as(&kit, "u0", "first"), TN_R_OK);
    assert_int_equal(tick_as(&kit, "u1", "first"), TN_R_OK);
    const struct keyed *of[] = {a.number & 1 ? &b : &a, a.number & 1 ? &a : &b};
    uint64_t lsns[2];
    for (unsigned i = 0; i < 2; i++) {
        snprintf(opid[i], sizeof opid[i], "op-%u", of[i]->number);
        assert_int_equal(tick_as(&kit, users[i], opid[i]), TN_R_OK);
        assert_false(kit.result.replayed);
        lsns[i] = kit.result.lsn;
    }
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(tick_as(&kit, users[i], opid[i]), TN_R_OK);
        assert_true(kit.result.replayed);
        assert_int_equal(kit.result.lsn, lsns[i]);
    }
    kit_close(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_that_collide_have_their_own_leases),
        cmocka_unit_test(resources_of_two_sets_whose_names_collide_are_two),
        cmocka_unit_test(positions_of_two_sets_that_collide_are_two),
        cmocka_unit_test(quotas_of_holders_that_collide_are_their_own),
        cmocka_unit_test(operations_of_two_users_whose_ids_collide_are_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
