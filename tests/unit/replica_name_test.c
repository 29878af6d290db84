/* The name of a node belongs to one process: the later one of two is refused, and owns nothing meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/replicakit.h"

static struct group group; /* large */
static unsigned watched;   /* a node that must not own the log */

static bool watched_is_refused(struct group *k) {
    assert_false(k->nodes[watched].owned);
    return group_trouble(&k->nodes[watched]) == REPLICA_TROUBLE_DUPLICATE;
}

/* Node 0 begins, node 1 joins if there are two; one of them owns the log. */
static struct group_node *cluster(unsigned nodes) {
    static const struct group_start begins = {.init = true};
    group_open(&group, 1);
    group_start(&group, 0, &begins);
    if (nodes > 1) {
        group_start(&group, 1, NULL);
    }
    struct group_node *owner = group_await_owner(&group, 5000);
    group_run(&group, 1000);
    return owner;
}

static bool second_is_denied(struct group *k) {
    return group_trouble(&k->nodes[1]) == REPLICA_TROUBLE_DENIED;
}

static bool second_is_well(struct group *k) {
    return group_trouble(&k->nodes[1]) == REPLICA_TROUBLE_NONE;
}

/* It may read, but not write its record. */
static void a_node_without_permission_for_its_record_says_so(void **state) {
    (void)state;
    struct group_node *owner = cluster(1);
    fakeetcd_deny(group.fake, "node/n2");
    group_start(&group, 1, NULL);
    assert_true(group_run_until(&group, 5000, second_is_denied));
    group_appends(owner, 3);
    for (unsigned i = 0; i < 100; i++) {
        group_run(&group, 100);
        assert_true(second_is_denied(&group)); /* until the denial ends */
    }
    fakeetcd_deny(group.fake, NULL);
    assert_true(group_run_until(&group, 5000, second_is_well));
    group_kill(&group, 0);
    group_appends(group_await_owner(&group, 5000), 3);
    group_check(&group);
    group_close(&group);
}

/* The first one only follows. The second one never owns the log, even if no node does. */
static void the_second_node_of_one_name_owns_nothing(void **state) {
    (void)state;
    struct group_node *owner = cluster(2);
    struct group_start same = {.name = owner->n == 0 ? "n2" : "n1"};
    group_start(&group, 2, &same);
    group_kill(&group, owner->n); /* another node must take over */
    watched = 2;
    assert_true(group_run_until(&group, 20000, watched_is_refused));
    struct group_node *next = group_await_owner(&group, 5000);
    assert_int_equal(next->n, 1 - owner->n);
    group_appends(next, 3);
    group_run(&group, 20000);
    assert_int_equal(group_trouble(next), REPLICA_TROUBLE_NONE);
    group_check(&group);
    group_close(&group);
}

static void cut(struct group_node *node, bool is_cut) {
    for (unsigned member = 0; member < FAKEETCD_MEMBERS; member++) {
        fakeetcd_cut(node->writer, member, is_cut);
        fakeetcd_cut(node->watcher, member, is_cut);
    }
}

/* A node that is cut off for long loses its name to another one, and gets it back. */
static void a_name_goes_back_to_the_node_that_had_it_first(void **state) {
    (void)state;
    struct group_node *owner = cluster(2);
    struct group_node *other = &group.nodes[1 - owner->n];
    struct group_start same = {.name = other->n == 0 ? "n1" : "n2"};
    group_run(&group, 40000);
    cut(other, true);
    group_run(&group, 6000);
    group_start(&group, 2, &same);
    group_run(&group, 20000);
    assert_int_equal(group_trouble(&group.nodes[2]), REPLICA_TROUBLE_NONE);
    cut(other, false);
    watched = 2;
    assert_true(group_run_until(&group, 20000, watched_is_refused));
    group_run(&group, 20000);
    assert_int_equal(group_trouble(other), REPLICA_TROUBLE_NONE);
    assert_int_equal(group_trouble(owner), REPLICA_TROUBLE_NONE);
    group_close(&group);
}

/* Two nodes that start at once: one of them gets the name. */
static void of_two_that_start_at_once_one_is_refused(void **state) {
    static const struct group_start same = {.name = "n9"};
    unsigned refused = 0;
    (void)state;
    struct group_node *owner = cluster(1);
    group_start(&group, 1, &same);
    group_start(&group, 2, &same);
    group_run(&group, 30000);
    for (unsigned n = 1; n < 3; n++) {
        refused += group_trouble(&group.nodes[n]) == REPLICA_TROUBLE_DUPLICATE;
    }
    assert_int_equal(refused, 1);
    assert_int_equal(group_trouble(owner), REPLICA_TROUBLE_NONE);
    group_close(&group);
}

/* `tenure cluster status` right after a start shows the node that is asked: the table that is read first may be of
 * before the node's own record, because messages overtake each other. */
static void a_node_is_in_its_own_table_soon(void **state) {
    static const struct fakeetcd_faults faults = {.delay_ms_max = 50};
    static const char key[] = GROUP_PREFIX "node/n2";
    struct etcd_op forget = {.kind = ETCD_DELETE,
                             .keys = {.key = tn_bytes_of(key, sizeof key - 1)}};
    struct replica_node nodes[REPLICA_NODES_MAX];
    (void)state;
    (void)cluster(1);
    fakeetcd_set_faults(group.fake, &faults);
    for (unsigned i = 0; i < 8; i++) {
        group_start(&group, 1, NULL);
        group_run(&group, 2000);
        assert_int_equal(replica_nodes(group.nodes[1].log, nodes), 2);
        group_stop(&group, 1);
        fakeetcd_put(group.fake, &forget);
    }
    group_close(&group);
}

/* Its machine has booted, or its directory was moved: the old record no longer changes. */
static void a_node_at_another_place_has_its_name_after_a_while(void **state) {
    static const struct group_start moved = {.place = 99};
    (void)state;
    group_appends(cluster(1), 3);
    group_kill(&group, 0);
    group_start(&group, 0, &moved);
    group_run(&group, 5000);
    assert_null(group_owner(&group));
    group_appends(group_await_owner(&group, 10000), 3);
    assert_int_equal(group_trouble(&group.nodes[0]), REPLICA_TROUBLE_NONE);
    group_close(&group);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_without_permission_for_its_record_says_so),
        cmocka_unit_test(the_second_node_of_one_name_owns_nothing),
        cmocka_unit_test(a_name_goes_back_to_the_node_that_had_it_first),
        cmocka_unit_test(of_two_that_start_at_once_one_is_refused),
        cmocka_unit_test(a_node_is_in_its_own_table_soon),
        cmocka_unit_test(a_node_at_another_place_has_its_name_after_a_while),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
