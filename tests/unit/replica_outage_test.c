/* The replicated log over a fake etcd: long outages, full disks, and copies that are not complete.
 * replica_log_test.c plays everything else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lib/replicakit.h"
#include "replica/replica_file.h"
#include "replica/replica_state.h"

#define WALL_MS 1800000000000u /* the group's wall clock at its 0 */

static struct group group; /* large */

static uint64_t stale_ms(const struct group_node *node) {
    struct log_stats stats;
    memset(&stats, 0, sizeof stats);
    node->log->verbs->stats(node->log, &stats);
    return stats.stale_ms;
}

/* ---- Outages of etcd ---- */

static void a_long_loss_of_quorum_makes_nodes_stale_and_loses_no_time(void **state) {
    uint64_t before_ms[3];
    (void)state;
    struct group_node *owner = group_begin(&group, 3);
    group_appends(owner, 5);
    group_run(&group, 5000);
    fakeetcd_stop(group.fake, 0);
    fakeetcd_stop(group.fake, 1);
    group_run(&group, GROUP_TTL_MS + GROUP_TTL_MS);
    (void)group_append(owner);
    group_run(&group, 20000); /* the owner has given up */
    for (unsigned n = 0; n < 3; n++) {
        before_ms[n] = stale_ms(&group.nodes[n]);
    }
    for (unsigned i = 0; i < 400; i++) {
        group_run(&group, 100);
        for (unsigned n = 0; n < 3; n++) {
            uint64_t now_ms = stale_ms(&group.nodes[n]);
            assert_true(now_ms > before_ms[n]);
            before_ms[n] = now_ms;
            assert_string_equal(group.nodes[n].leader, "");
        }
    }
    for (unsigned n = 0; n < 3; n++) {
        assert_true(before_ms[n] >= 60000);
    }
    fakeetcd_start(group.fake, 0);
    fakeetcd_start(group.fake, 1);
    struct group_node *next = group_await_owner(&group, 20000);
    group_appends(next, 1);
    assert_true(group.early_ms <= 50);
    assert_true(next->now_ms + 1000 > group.now_ms + WALL_MS);
    assert_true(group_settle(&group, 5000));
    group_check(&group);
    group_close(&group);
}

static bool nobody_owns(struct group *k) {
    return group_owner(k) == NULL;
}

static bool head_exists(struct group *k) {
    static const char key[] = GROUP_PREFIX "head";
    struct tn_bytes value;
    return fakeetcd_value(k->fake, tn_bytes_of(key, sizeof key - 1), &value);
}

static void reach(struct group_node *node, bool cut) {
    for (unsigned member = 0; member < FAKEETCD_MEMBERS; member++) {
        fakeetcd_cut(node->writer, member, cut);
        fakeetcd_cut(node->watcher, member, cut);
    }
}

/* The transaction that begins the cluster was carried out, its answer was lost, and another node owned the
 * log before the transaction could be repeated. */
static void a_beginning_whose_answer_was_lost_is_not_called_a_second_one(void **state) {
    static const struct fakeetcd_faults slow = {.delay_ms_max = 40};
    struct group_node *first = &group.nodes[0];
    (void)state;
    group_open(&group, 4);
    group_start(&group, 1, NULL);
    group_run(&group, 1000);
    fakeetcd_set_faults(group.fake, &slow);
    group_start(&group, 0, &(struct group_start){.init = true});
    assert_true(group_run_until(&group, 10000, head_exists));
    reach(first, true);
    assert_null(strstr(first->notice, "replica_begun"));
    struct group_node *owner = group_await_owner(&group, 10000);
    assert_ptr_equal(owner, &group.nodes[1]);
    group_appends(owner, 3);
    reach(first, false);
    assert_true(group_run_until(&group, 20000, group_takes_part));
    assert_int_equal(group_trouble(first), REPLICA_TROUBLE_NONE);
    assert_non_null(strstr(first->notice, "replica_begun"));
    assert_true(group_settle(&group, 5000));
    group_check(&group);
    group_close(&group);
}

/* It must not send its clients to itself until its time has ended. */
static void an_owner_that_is_denied_gives_up_and_does_not_name_itself(void **state) {
    (void)state;
    struct group_node *owner = group_begin(&group, 2);
    const struct group_node *other = &group.nodes[1 - owner->n];
    char address[sizeof other->leader];
    group_appends(owner, 5);
    (void)snprintf(address, sizeof address, "%s", other->leader);
    assert_string_not_equal(address, "");
    fakeetcd_deny(group.fake, "head");
    assert_true(group_run_until(&group, 5000, nobody_owns));
    assert_int_equal(group_trouble(owner), REPLICA_TROUBLE_DENIED);
    assert_non_null(strstr(owner->notice, "permission denied"));
    for (unsigned i = 0; i < 3000; i++) {
        assert_string_not_equal(owner->leader, address);
        group_run(&group, 1);
    }
    fakeetcd_deny(group.fake, NULL);
    group_appends(group_await_owner(&group, 20000), 5);
    assert_true(group_settle(&group, 5000));
    group_check(&group);
    group_close(&group);
}

/* A node that has only read an old head does not know its owner's time, even after a failed
 * attempt. */
static void a_head_that_was_found_is_not_heard_by_giving_up(void **state) {
    (void)state;
    struct group_node *owner = group_begin(&group, 1);
    group_appends(owner, 5);
    group_stop(&group, 0);
    group_run(&group, 600000);
    group_start(&group, 0, NULL);
    assert_true(group_run_until(&group, 5000, group_takes_part));
    fakeetcd_stop(group.fake, 0);
    fakeetcd_stop(group.fake, 1);
    group_run(&group, 30000);
    fakeetcd_start(group.fake, 0);
    fakeetcd_start(group.fake, 1);
    owner = group_await_owner(&group, 20000);
    group_appends(owner, 1);
    assert_true(owner->now_ms + 1000 > group.now_ms + WALL_MS); /* by the wall clock */
    group_close(&group);
}

static void a_follower_that_starts_is_stale_until_it_hears_an_owner(void **state) {
    (void)state;
    struct group_node *owner = group_begin(&group, 2);
    struct group_node *other = &group.nodes[1 - owner->n];
    group_appends(owner, 5);
    assert_true(group_settle(&group, 1000));
    assert_true(stale_ms(other) < GROUP_TTL_MS);
    group_stop(&group, other->n);
    group_kill(&group, owner->n);
    group_start(&group, other->n, NULL);
    assert_true(stale_ms(other) > 86400000);
    /* The head that it found may be old. */
    assert_true(group_run_until(&group, 1000, group_takes_part));
    assert_true(stale_ms(other) > 86400000);
    owner = group_await_owner(&group, 5000);
    assert_int_equal(stale_ms(owner), 0);
    group_start(&group, 1 - owner->n, NULL);
    group_run(&group, GROUP_TTL_MS);
    assert_true(stale_ms(&group.nodes[1 - owner->n]) < GROUP_TTL_MS);
    group_close(&group);
}

/* ---- Full disks ---- */

/* The local log cannot begin another segment; small files still have room. */
static void fill_disk(struct group_node *owner) {
    fakeos_space_set(owner->disk, fakeos_space_used(owner->disk) + 4096);
    for (unsigned i = 0; i < 10000 && group_trouble(owner) != REPLICA_TROUBLE_COPY_FULL; i++) {
        assert_int_equal(group_append_wait(owner), GROUP_OK);
    }
    assert_int_equal(group_trouble(owner), REPLICA_TROUBLE_COPY_FULL);
}

static void an_owner_with_a_full_disk_gives_the_log_up(void **state) {
    struct log_error error = {.text = ""};
    (void)state;
    struct group_node *first = group_begin(&group, 3);
    fill_disk(first);
    struct log_position at = {.lsn = first->lsn, .now_ms = first->now_ms, .shard = first->shard};
    assert_int_equal(first->store->verbs->begin(first->store, &at, &error), TN_NOSPACE);
    group_run(&group, GROUP_TTL_MS + 500);
    struct group_node *second = group_await_owner(&group, 1000);
    assert_ptr_not_equal(second, first);
    group_appends(second, 5);
    for (unsigned n = 0; n < 3; n++) { /* no other node is left: it does not take over */
        if (n != first->n) {
            group_kill(&group, n);
        }
    }
    group_run(&group, 20000);
    assert_null(group_owner(&group));
    fakeos_space_set(first->disk, UINT64_MAX);
    assert_ptr_equal(group_await_owner(&group, 5000), first);
    assert_int_equal(group_trouble(first), REPLICA_TROUBLE_NONE);
    group_appends(first, 5);
    group_check(&group);
    group_close(&group);
}

/* One standby has no room: the others serve and take over as before, and it takes part again when it has. */
static void a_follower_with_a_full_disk_holds_up_nobody(void **state) {
    (void)state;
    struct group_node *owner = group_begin(&group, 3);
    struct group_node *full = &group.nodes[(owner->n + 1) % 3];
    struct group_node *third = &group.nodes[(owner->n + 2) % 3];
    fakeos_space_set(full->disk, fakeos_space_used(full->disk) + 4096);
    for (unsigned i = 0; i < 10000 && group_trouble(full) != REPLICA_TROUBLE_COPY_FULL; i++) {
        group_appends(owner, 1);
    }
    group_run(&group, 2 * GROUP_TTL_MS);
    assert_int_equal(group_trouble(full), REPLICA_TROUBLE_COPY_FULL);
    assert_int_equal(group_trouble(owner), REPLICA_TROUBLE_NONE);
    assert_int_equal(full->lsn, owner->lsn); /* it follows in memory */
    group_kill(&group, owner->n);
    assert_ptr_equal(group_await_owner(&group, 5000), third);
    group_appends(third, 5);
    group_kill(&group, third->n);
    group_run(&group, 20000);
    assert_null(group_owner(&group));
    fakeos_space_set(full->disk, UINT64_MAX);
    assert_ptr_equal(group_await_owner(&group, 10000), full);
    group_appends(full, 5);
    group_check(&group);
    group_close(&group);
}

/* ---- A node that stood still ---- */

/* Three nodes that keep little in etcd. */
static struct group_node *begin_small(void) {
    group_open(&group, 1);
    for (unsigned n = 0; n < 3; n++) {
        group_start(&group, n, &(struct group_start){.init = n == 0, .log_bytes = 4096});
    }
    struct group_node *owner = group_await_owner(&group, 5000);
    group_appends(owner, 10);
    assert_true(group_settle(&group, 5000));
    return owner;
}

/* Longer than etcd keeps what it needs. */
static void stand_still(struct group_node *owner, struct group_node *still) {
    struct group_node *third = &group.nodes[3 - owner->n - still->n];
    uint64_t has_lsn = still->lsn;
    still->hangs_until_ms = group.now_ms + 150000;
    for (unsigned i = 0; i < 6; i++) { /* trimming rides on appends */
        group_appends(owner, 20);
        group_run(&group, 1000);
        group_snapshot(owner);
        group_snapshot(third);
        group_run(&group, 15000);
    }
    group_appends(owner, 5);
    fakeetcd_compact(group.fake, fakeetcd_revision(group.fake));
    group_run(&group, still->hangs_until_ms - group.now_ms + 20000);
    assert_int_equal(group_trouble(still), REPLICA_TROUBLE_BEHIND);
    assert_int_equal(still->lsn, has_lsn);
}

/* It ends, and begins with a snapshot of another node. What it had before is set aside, but not also what it
 * had before that. */
static void a_follower_that_stood_still_beyond_all_retention_is_seeded(void **state) {
    static const struct group_start seeds = {.seed = true};
    (void)state;
    struct group_node *owner = begin_small();
    struct group_node *still = &group.nodes[(owner->n + 1) % 3];
    for (unsigned turn = 0; turn < 3; turn++) {
        stand_still(owner, still);
        uint64_t has_lsn = still->lsn;
        group_stop(&group, still->n);
        group_start(&group, still->n, &seeds);
        assert_true(still->seeded_lsn > has_lsn);
        assert_true(group_settle(&group, 10000));
        assert_int_equal(still->lsn, owner->lsn);
        assert_true(fakeos_file_count(still->disk, "/data/set-aside", NULL) > 0);
        assert_true(fakeos_file_count(still->disk, "/data/set-aside", "snapshot-") <= 1);
    }
    group_check(&group);
    group_close(&group);
}

/* The local log cannot be opened for writing: the node reports that, and the next start
 * continues. */
static void a_node_that_starts_on_a_full_disk_says_so(void **state) {
    (void)state;
    struct group_node *owner = group_begin(&group, 2);
    struct group_node *other = &group.nodes[1 - owner->n];
    group_appends(owner, 10);
    assert_true(group_settle(&group, 5000));
    group_kill(&group, other->n);
    fakeos_space_set(other->disk, fakeos_space_used(other->disk));
    group_start(&group, other->n, NULL);
    group_run(&group, 10000);
    assert_int_equal(group_trouble(other), REPLICA_TROUBLE_NO_ROOM);
    assert_non_null(strstr(other->notice, "start the node again"));
    group_appends(owner, 10);
    group_stop(&group, other->n);
    fakeos_space_set(other->disk, UINT64_MAX);
    group_start(&group, other->n, NULL);
    assert_true(group_settle(&group, 10000));
    assert_int_equal(other->lsn, owner->lsn);
    group_check(&group);
    group_close(&group);
}

/* No other node can take over: requests to the node are refused, and do not wait forever. */
static void a_lone_node_with_a_full_disk_refuses_and_recovers(void **state) {
    (void)state;
    struct group_node *owner = group_begin(&group, 1);
    fill_disk(owner);
    for (unsigned i = 0; i < 10000 && owner->leads; i++) {
        (void)group_append_wait(owner);
    }
    assert_false(owner->leads);
    fakeos_space_set(owner->disk, UINT64_MAX);
    owner = group_await_owner(&group, 10000);
    group_appends(owner, 5);
    group_check(&group);
    group_close(&group);
}

/* ---- Copies of a closed cluster ---- */

static bool is_closed(const struct group_node *node) {
    struct replica_file file;
    return replica_file_read(&node->os, "/data", &file) == TN_OK &&
           (file.flags & REPLICA_FILE_CLOSED) != 0;
}

static void a_closing_owner_with_an_incomplete_copy_stays_a_member(void **state) {
    (void)state;
    struct group_node *owner = group_begin(&group, 1);
    fill_disk(owner);
    owner->leads = false;
    assert_int_equal(replica_close_cluster(owner->log), TN_OK);
    group_run(&group, 10000);
    assert_false(owner->owned);
    assert_false(is_closed(owner));
    fakeos_space_set(owner->disk, UINT64_MAX);
    group_run(&group, 10000);
    assert_true(is_closed(owner));
    group_close(&group);
}

/* The owner resigns because its disk is full, and the operator closes the cluster before that is done: the
 * head does not say so, and neither must the answer. */
static void closing_while_the_owner_resigns_is_refused(void **state) {
    (void)state;
    struct group_node *owner = group_begin(&group, 2);
    struct replica *r = replica_of(owner->log);
    fill_disk(owner);
    for (unsigned ms = 0; ms < 10000 && r->owner.swap.kind != REPLICA_SWAP_RESIGN; ms++) {
        group_run(&group, 1);
    }
    assert_int_equal(r->owner.swap.kind, REPLICA_SWAP_RESIGN);
    owner->leads = false;
    assert_int_equal(replica_close_cluster(owner->log),
                     TN_OK); /* it is only asked for: no threads */
    assert_false(r->resign_over);
    group_run(&group, 10000);
    assert_true(r->resign_over);
    assert_int_equal(r->resign_status, TN_LOST);
    assert_false(is_closed(owner));
    assert_ptr_equal(group_await_owner(&group, 5000), &group.nodes[1 - owner->n]);
    group_close(&group);
}

/* Nothing was resigned: the next resign is an ordinary one. */
static void closing_that_was_not_done_is_withdrawn(void **state) {
    (void)state;
    struct group_node *owner = group_begin(&group, 2);
    group_appends(owner, 5);
    replica_close_with_resign(owner->log);
    assert_true(replica_close_withdraw(owner->log));
    owner->leads = false;
    assert_int_equal(owner->log->verbs->resign(owner->log), TN_OK);
    assert_false(replica_close_withdraw(owner->log));
    group_run(&group, 100);
    owner = group_await_owner(&group, 5000);
    group_appends(owner, 5);
    replica_close_with_resign(owner->log);
    owner->leads = false;
    assert_int_equal(owner->log->verbs->resign(owner->log), TN_OK);
    assert_false(replica_close_withdraw(owner->log));
    group_run(&group, 10000);
    assert_null(group_owner(&group));
    assert_true(is_closed(owner));
    group_close(&group);
}

/* The power goes during any call of a node that joins a closed cluster. */
static void a_copy_of_a_closed_cluster_stands_alone_when_it_is_complete(void **state) {
    (void)state;
    struct group_node *owner = group_begin(&group, 2);
    struct group_node *third = &group.nodes[2];
    group_appends(owner, 10);
    assert_true(group_settle(&group, 1000));
    owner->leads = false;
    assert_int_equal(replica_close_cluster(owner->log), TN_OK);
    group_run(&group, 10000);
    assert_true(is_closed(owner));
    bool cut = true;
    for (unsigned call = 1; cut; call++) {
        group_wipe(&group, 2);
        struct fakeos *disk = third->disk;
        fakeos_cut_call(disk, call);
        bool started = group_try_start(&group, 2, NULL);
        group_run(&group, started ? 10000 : 0);
        cut = fakeos_is_cut(disk);
        if (started) {
            group_cut(&group, 2);
        } else {
            fakeos_reboot(disk);
        }
        bool closed = is_closed(third);
        group_start(&group, 2, NULL);
        if (closed) {
            assert_int_equal(third->lsn, 10);
        }
        assert_true(closed || cut);
        group_stop(&group, 2);
    }
    group_close(&group);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_loss_of_quorum_makes_nodes_stale_and_loses_no_time),
        cmocka_unit_test(a_beginning_whose_answer_was_lost_is_not_called_a_second_one),
        cmocka_unit_test(an_owner_that_is_denied_gives_up_and_does_not_name_itself),
        cmocka_unit_test(a_head_that_was_found_is_not_heard_by_giving_up),
        cmocka_unit_test(a_follower_that_starts_is_stale_until_it_hears_an_owner),
        cmocka_unit_test(an_owner_with_a_full_disk_gives_the_log_up),
        cmocka_unit_test(a_follower_with_a_full_disk_holds_up_nobody),
        cmocka_unit_test(a_follower_that_stood_still_beyond_all_retention_is_seeded),
        cmocka_unit_test(a_node_that_starts_on_a_full_disk_says_so),
        cmocka_unit_test(a_lone_node_with_a_full_disk_refuses_and_recovers),
        cmocka_unit_test(a_closing_owner_with_an_incomplete_copy_stays_a_member),
        cmocka_unit_test(closing_while_the_owner_resigns_is_refused),
        cmocka_unit_test(closing_that_was_not_done_is_withdrawn),
        cmocka_unit_test(a_copy_of_a_closed_cluster_stands_alone_when_it_is_complete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
