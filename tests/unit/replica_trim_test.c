/* The replicated log over a fake etcd: what a new owner trims. replica_log_test.c has the rules of trimming. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lib/replicakit.h"

#define LOG_BYTES 8192u /* about 80 batches */

static struct group group; /* large */

static unsigned batches_in_etcd(uint64_t first, uint64_t last) {
    unsigned count = 0;
    for (uint64_t lsn = first; lsn <= last; lsn++) {
        char key[64];
        struct tn_bytes found;
        (void)snprintf(key, sizeof key, GROUP_PREFIX "log/%016llx", (unsigned long long)lsn);
        count += fakeetcd_value(group.fake, tn_bytes_of(key, strlen(key)), &found);
    }
    return count;
}

static bool nobody_owns(struct group *k) {
    return group_owner(k) == NULL;
}

/* Snapshots of these nodes, and enough time and appends for trimming what they cover. */
static void cover_and_trim(struct group_node *owner, struct group_node *other) {
    assert_true(group_settle(&group, 5000));
    group_snapshot(owner);
    group_snapshot(other);
    group_run(&group, 20000);
    group_appends(owner, 1);
    group_run(&group, 20000);
    group_appends(owner, 1);
    assert_true(group_settle(&group, 5000));
}

/* Far more than LOG_BYTES has gone through the log by now, but little of it is still in etcd. */
static struct group_node *begin_long(void) {
    group_open(&group, 7);
    for (unsigned n = 0; n < 3; n++) {
        group_start(&group, n, &(struct group_start){.init = n == 0, .log_bytes = LOG_BYTES});
    }
    struct group_node *owner = group_await_owner(&group, 5000);
    assert_true(group_run_until(&group, 10000, group_takes_part));
    for (unsigned i = 0; i < 4; i++) {
        group_appends(owner, 60);
        cover_and_trim(owner, &group.nodes[(owner->n + 1) % 3]);
    }
    return owner;
}

/* A node was away for a minute; the owner died; the next one has followed for long. */
static void a_new_owner_keeps_what_an_absent_node_needs(void **state) {
    static const struct group_start seeds = {.seed = true, .log_bytes = LOG_BYTES};
    (void)state;
    struct group_node *first = begin_long();
    struct group_node *second = &group.nodes[(first->n + 1) % 3];
    struct group_node *away = &group.nodes[(first->n + 2) % 3];
    group_run(&group, 10000);
    group_stop(&group, away->n);
    uint64_t has_lsn = away->lsn;
    group_appends(first, 20);
    cover_and_trim(first, second);
    uint64_t last_lsn = first->lsn;
    assert_int_equal(batches_in_etcd(has_lsn + 1, last_lsn), last_lsn - has_lsn);
    group_kill(&group, first->n);
    assert_ptr_equal(group_await_owner(&group, 5000), second);
    group_run(&group, 20000);
    group_appends(second, 1);
    group_run(&group, 20000);
    group_appends(second, 1);
    assert_int_equal(batches_in_etcd(has_lsn + 1, last_lsn), last_lsn - has_lsn);
    group_start(&group, away->n, &seeds);
    assert_int_equal(away->seeded_lsn, 0);
    assert_true(group_settle(&group, 5000));
    group_check(&group);
    group_close(&group);
}

/* The same node owns the log, then another one, then it again. */
static void an_owner_that_comes_back_keeps_what_an_absent_node_needs(void **state) {
    (void)state;
    struct group_node *first = begin_long();
    struct group_node *second = &group.nodes[(first->n + 1) % 3];
    struct group_node *away = &group.nodes[(first->n + 2) % 3];
    group_run(&group, 10000);
    assert_int_equal(first->log->verbs->resign(first->log), TN_OK);
    assert_true(group_run_until(&group, 5000, nobody_owns));
    struct group_node *next = group_await_owner(&group, 5000);
    assert_ptr_not_equal(next, first);
    for (unsigned i = 0; i < 4; i++) {
        group_appends(next, 60);
        cover_and_trim(next, first);
    }
    away = next == away ? second : away;
    group_run(&group, 10000);
    group_stop(&group, away->n);
    uint64_t has_lsn = away->lsn;
    group_appends(next, 20);
    cover_and_trim(next, first);
    uint64_t last_lsn = next->lsn;
    group_kill(&group, next->n);
    assert_ptr_equal(group_await_owner(&group, 5000), first);
    group_run(&group, 20000);
    group_appends(first, 1);
    group_run(&group, 20000);
    group_appends(first, 1);
    assert_int_equal(batches_in_etcd(has_lsn + 1, last_lsn), last_lsn - has_lsn);
    group_check(&group);
    group_close(&group);
}

/* A node that begins with a snapshot is not registered before it has loaded that: what comes after the
 * snapshot stays meanwhile, even if newer snapshots cover it. */
static void half_of_the_limit_stays_for_a_node_that_is_being_seeded(void **state) {
    (void)state;
    struct group_node *owner = begin_long();
    struct group_node *other = &group.nodes[(owner->n + 1) % 3];
    group_appends(owner, 60);
    for (unsigned i = 0; i < 6; i++) {
        uint64_t snapshot_lsn = owner->lsn;
        group_appends(owner, 15);
        cover_and_trim(owner, other);
        group_appends(owner, 15);
        cover_and_trim(owner, other);
        assert_int_equal(batches_in_etcd(snapshot_lsn + 1, owner->lsn), owner->lsn - snapshot_lsn);
    }
    assert_true(batches_in_etcd(1, owner->lsn) < 100); /* the rest is trimmed */
    group_check(&group);
    group_close(&group);
}

/* What is kept for an absent node has an end: LOG_BYTES, also for a new owner. */
static void a_new_owner_keeps_no_more_than_the_limit(void **state) {
    (void)state;
    struct group_node *first = begin_long();
    struct group_node *second = &group.nodes[(first->n + 1) % 3];
    struct group_node *away = &group.nodes[(first->n + 2) % 3];
    group_run(&group, 10000);
    group_stop(&group, away->n);
    uint64_t has_lsn = away->lsn;
    group_appends(first, 20);
    cover_and_trim(first, second);
    group_kill(&group, first->n);
    assert_ptr_equal(group_await_owner(&group, 5000), second);
    group_start(&group, first->n, &(struct group_start){.log_bytes = LOG_BYTES});
    for (unsigned i = 0; i < 3; i++) {
        group_appends(second, 60);
        cover_and_trim(second, first);
    }
    assert_int_equal(batches_in_etcd(has_lsn + 1, has_lsn + 20), 0);
    assert_int_equal(group_trouble(second), REPLICA_TROUBLE_NONE);
    group_check(&group);
    group_close(&group);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_owner_keeps_what_an_absent_node_needs),
        cmocka_unit_test(an_owner_that_comes_back_keeps_what_an_absent_node_needs),
        cmocka_unit_test(half_of_the_limit_stays_for_a_node_that_is_being_seeded),
        cmocka_unit_test(a_new_owner_keeps_no_more_than_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
