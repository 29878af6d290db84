/* The replicated log over a fake etcd: wall clocks that are wrong, and which clocks count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lib/replicakit.h"

#define HOURS_MS ((int64_t)5 * 3600 * 1000)

static struct group group;

static bool is_told(const struct group_node *node) {
    return strstr(node->notice, "event=replica_clock_skew") != NULL;
}

/* The records of the other nodes are an hour old: that says nothing about this node's clock. */
static void after_an_outage_of_all_nodes_no_clock_is_called_wrong(void **state) {
    (void)state;
    group_appends(group_begin(&group, 3), 5);
    group_run(&group, 20000); /* long enough for records that count */
    for (unsigned n = 0; n < 3; n++) {
        group_kill(&group, n);
    }
    group_run(&group, 3600000);
    group_start(&group, 0, NULL);
    struct group_node *owner = group_await_owner(&group, GROUP_TTL_MS + GROUP_TTL_MS / 2);
    group_run(&group, 20000);
    assert_false(is_told(owner));
    group_appends(owner, 5);
    assert_true(owner->now_ms > GROUP_WALL_MS + 3600000);
    group_close(&group);
}

/* The records that the nodes find when etcd is back are as old as its outage. */
static void etcd_is_away(uint64_t after_ms) {
    group_appends(group_begin(&group, 3), 5);
    group_run(&group, after_ms);
    for (unsigned member = 0; member < 3; member++) {
        fakeetcd_stop(group.fake, member);
    }
    group_run(&group, 60000);
    for (unsigned member = 0; member < 3; member++) {
        fakeetcd_start(group.fake, member);
    }
    group_appends(group_await_owner(&group, 30000), 5);
    group_run(&group, 20000);
    for (unsigned n = 0; n < 3; n++) {
        assert_false(is_told(&group.nodes[n]));
    }
    group_close(&group);
}

/* At any moment between two records of a node. */
static void after_an_outage_of_etcd_no_clock_is_called_wrong(void **state) {
    (void)state;
    for (uint64_t after_ms = 20000; after_ms < 25000; after_ms += 1000) {
        etcd_is_away(after_ms);
    }
}

static void a_node_with_another_clock_than_the_others_is_told(void **state) {
    static const int64_t offs[] = {HOURS_MS, -HOURS_MS};
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct group_node *owner = group_begin(&group, 2);
        struct group_node *third = &group.nodes[2];
        third->wall_off_ms = offs[i];
        group_start(&group, 2, NULL);
        group_run(&group, 20000);
        assert_true(is_told(third));
        assert_false(is_told(owner)); /* most others have the same as it */
        group_close(&group);
    }
}

/* The disk of a follower is full: it does not take over. */
static void bar(struct group_node *node) {
    struct group_node *owner = group_owner(&group);
    fakeos_space_set(node->disk, fakeos_space_used(node->disk) + 4096);
    for (unsigned i = 0; i < 10000 && group_trouble(node) != REPLICA_TROUBLE_COPY_FULL; i++) {
        group_appends(owner, 1);
    }
    group_run(&group, 2 * GROUP_TTL_MS);
    assert_int_equal(group_trouble(node), REPLICA_TROUBLE_COPY_FULL);
}

/* A node that has heard no owner since it started takes over, and its wall clock is hours ahead of
 * that of a running node: the log's time continues, and no lease ends early. */
static void a_cold_node_with_a_wrong_clock_goes_by_the_time_of_the_log(void **state) {
    static const struct group_start moved = {.place = 99}; /* it waits for its name for a while */
    (void)state;
    struct group_node *owner = group_begin(&group, 3);
    struct group_node *cold = &group.nodes[(owner->n + 1) % 3];
    bar(&group.nodes[(owner->n + 2) % 3]);
    group_kill(&group, cold->n);
    group_appends(owner, 3);
    group_kill(&group, owner->n);
    group_run(&group, 2 * GROUP_TTL_MS);
    cold->wall_off_ms = HOURS_MS;
    group_start(&group, cold->n, &moved);
    assert_ptr_equal(group_await_owner(&group, 30000), cold);
    assert_true(is_told(cold));
    group_appends(cold, 3);
    assert_true(group.early_ms < 1000);
    group_check(&group);
    group_close(&group);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(after_an_outage_of_all_nodes_no_clock_is_called_wrong),
        cmocka_unit_test(after_an_outage_of_etcd_no_clock_is_called_wrong),
        cmocka_unit_test(a_node_with_another_clock_than_the_others_is_told),
        cmocka_unit_test(a_cold_node_with_a_wrong_clock_goes_by_the_time_of_the_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
