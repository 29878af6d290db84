/* The replicated log over a fake etcd: nodes of two versions, and versions of etcd. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lib/replicakit.h"

static struct group group;

static bool is_in_trouble(struct group *k) {
    for (unsigned n = 0; n < GROUP_NODES; n++) {
        if (k->nodes[n].log != NULL && group_trouble(&k->nodes[n]) != REPLICA_TROUBLE_NONE) {
            return true;
        }
    }
    return false;
}

static void expect_trouble(unsigned n, enum replica_trouble trouble) {
    (void)group_run_until(&group, 30000, is_in_trouble);
    if (group_trouble(&group.nodes[n]) != trouble) {
        fail_msg("wanted %s, the node says:\n%s", replica_trouble_name(trouble),
                 group.nodes[n].notice);
    }
    assert_non_null(strstr(group.nodes[n].notice, replica_trouble_name(trouble)));
    assert_false(group.nodes[n].owned);
}

/* Standbys are upgraded first. From the first owner of the newer version on, nodes of the older version have
 * no part in the log, whether they ran all the time or start again. */
static void a_newer_version_follows_an_older_owner_and_is_followed_by_none(void **state) {
    struct group_start newer = {.state_version = GROUP_STATE_VERSION + 1};
    (void)state;
    struct group_node *old = group_begin(&group, 2);
    unsigned other = 1 - old->n;
    group_appends(old, 5);
    group_start(&group, 2, &newer);
    assert_true(group_settle(&group, 5000));
    assert_int_equal(group.nodes[2].lsn, 5);
    group_cut(&group, other);
    group_kill(&group, old->n);
    assert_ptr_equal(group_await_owner(&group, 10000), &group.nodes[2]);
    group_start(&group, other, NULL);
    expect_trouble(other, REPLICA_TROUBLE_VERSION);
    assert_non_null(
        strstr(group.nodes[other].notice, "the log has state version 6, this node knows 5"));
    group_appends(&group.nodes[2], 5);
    group_kill(&group, 2);
    group_run(&group, 20000);
    assert_false(group.nodes[other].owned);
    assert_int_equal(group.nodes[other].lsn, 5);
    group_stop(&group, other);
    group_start(&group, other, &newer); /* upgraded, too */
    struct group_node *owner = group_await_owner(&group, 20000);
    assert_int_equal(owner->lsn, 10);
    group_appends(owner, 5);
    group_check(&group);
    group_close(&group);
}

static void a_running_node_stops_at_the_first_batch_of_a_newer_version(void **state) {
    struct group_start newer = {.state_version = GROUP_STATE_VERSION + 1};
    (void)state;
    struct group_node *old = group_begin(&group, 2);
    struct group_node *other = &group.nodes[1 - old->n];
    group_start(&group, 2, &newer);
    assert_true(group_settle(&group, 5000));
    other->hangs_until_ms = group.now_ms + 6000;
    group_kill(&group, old->n);
    assert_ptr_equal(group_await_owner(&group, 5000), &group.nodes[2]);
    group_appends(&group.nodes[2], 3);
    group_run(&group, 10000);
    expect_trouble(other->n, REPLICA_TROUBLE_VERSION);
    assert_int_equal(other->lsn, 0);
    group_check(&group);
    group_close(&group);
}

static void a_running_node_stops_at_the_first_head_of_a_newer_version(void **state) {
    struct group_start newer = {.state_version = GROUP_STATE_VERSION + 1};
    (void)state;
    struct group_node *old = group_begin(&group, 2);
    struct group_node *other = &group.nodes[1 - old->n];
    group_start(&group, 2, &newer);
    assert_true(group_settle(&group, 5000));
    other->hangs_until_ms = group.now_ms + 6000;
    group_kill(&group, old->n);
    assert_ptr_equal(group_await_owner(&group, 5000), &group.nodes[2]);
    group_run(&group, 7000);
    expect_trouble(other->n, REPLICA_TROUBLE_VERSION);
    group_close(&group);
}

/* A newer standby has the newest snapshot, but the older program could not load it. */
static void a_node_takes_no_snapshot_of_a_newer_version(void **state) {
    struct group_start newer = {.state_version = GROUP_STATE_VERSION + 1};
    struct group_start seeds = {.seed = true};
    (void)state;
    struct group_node *owner = group_begin(&group, 2);
    struct group_node *other = &group.nodes[1 - owner->n];
    group_stop(&group, other->n);
    group_start(&group, other->n, &newer);
    group_appends(owner, 20);
    assert_true(group_settle(&group, 5000));
    group_snapshot(owner);
    group_snapshot(other);
    group_run(&group, 20000);
    group_appends(owner, 2);
    assert_true(group_settle(&group, 5000));
    group_snapshot(other);
    group_run(&group, 20000);
    group_start(&group, 2, &seeds);
    assert_int_equal(group.nodes[2].seeded_lsn, 20);
    assert_true(group_settle(&group, 5000));
    group_stop(&group, 2);
    group_wipe(&group, 2);
    group_kill(&group, owner->n);
    group_start(&group, 2, &seeds);
    assert_null(group.nodes[2].log);
    assert_string_equal(group.nodes[2].notice, "it does not answer");
    group_close(&group);
}

static void a_newer_head_is_not_replaced_by_the_directory_of_an_older_program(void **state) {
    struct group_start newer = {.state_version = GROUP_STATE_VERSION + 1};
    struct group_start restored = {.restored = true};
    (void)state;
    struct group_node *old = group_begin(&group, 1);
    group_appends(old, 5);
    group_start(&group, 2, &newer);
    assert_true(group_settle(&group, 5000));
    group_stop(&group, old->n);
    assert_ptr_equal(group_await_owner(&group, 10000), &group.nodes[2]);
    group_stop(&group, 2);
    group_start(&group, old->n, &restored);
    expect_trouble(old->n, REPLICA_TROUBLE_VERSION);
    group_close(&group);
}

static void no_cluster_begins_in_an_etcd_that_is_too_old(void **state) {
    static const char key[] = GROUP_PREFIX "head";
    struct group_start init = {.init = true};
    struct tn_bytes found;
    (void)state;
    group_open(&group, 1);
    fakeetcd_set_version(group.fake, "3.3.27");
    group_start(&group, 0, &init);
    expect_trouble(0, REPLICA_TROUBLE_ETCD_VERSION);
    assert_false(fakeetcd_value(group.fake, tn_bytes_of(key, sizeof key - 1), &found));
    fakeetcd_set_version(group.fake, "3.4.0");
    group_appends(group_await_owner(&group, 10000), 3);
    group_close(&group);
}

static void an_etcd_that_is_too_old_is_refused_and_an_unknown_one_told(void **state) {
    (void)state;
    struct group_node *owner = group_begin(&group, 1);
    group_appends(owner, 5);
    fakeetcd_set_version(group.fake, "3.3.27");
    group_start(&group, 1, NULL);
    expect_trouble(1, REPLICA_TROUBLE_ETCD_VERSION);
    assert_non_null(strstr(group.nodes[1].notice, "has version 3.3.27"));
    group_run(&group, 10000);
    assert_int_equal(group.nodes[1].lsn, 0);
    fakeetcd_set_version(group.fake, "3.5.1"); /* etcd is upgraded: the node continues by itself */
    assert_true(group_settle(&group, 5000));
    assert_int_equal(group.nodes[1].lsn, 5);
    assert_int_equal(group_trouble(&group.nodes[1]), REPLICA_TROUBLE_NONE);
    assert_non_null(strstr(group.nodes[1].notice, "event=etcd_version version=3.5.1"));
    fakeetcd_set_version(group.fake, "9.0.0");
    group_start(&group, 2, NULL);
    assert_true(group_settle(&group, 5000));
    assert_non_null(strstr(group.nodes[2].notice, "event=etcd_version version=9.0.0"));
    group_close(&group);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_newer_version_follows_an_older_owner_and_is_followed_by_none),
        cmocka_unit_test(a_running_node_stops_at_the_first_batch_of_a_newer_version),
        cmocka_unit_test(a_running_node_stops_at_the_first_head_of_a_newer_version),
        cmocka_unit_test(a_node_takes_no_snapshot_of_a_newer_version),
        cmocka_unit_test(a_newer_head_is_not_replaced_by_the_directory_of_an_older_program),
        cmocka_unit_test(no_cluster_begins_in_an_etcd_that_is_too_old),
        cmocka_unit_test(an_etcd_that_is_too_old_is_refused_and_an_unknown_one_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
