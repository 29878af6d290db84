/* The replicated log over a fake etcd: single stories. sim/cluster plays them at random. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lib/replicakit.h"

static struct group group; /* large */

static bool is_in_trouble(struct group *k) {
    for (unsigned n = 0; n < GROUP_NODES; n++) {
        if (k->nodes[n].log != NULL && group_trouble(&k->nodes[n]) != REPLICA_TROUBLE_NONE) {
            return true;
        }
    }
    return false;
}

static const struct group_start begins = {.init = true};

static void what_the_owner_appends_reaches_the_others(void **state) {
    (void)state;
    struct group_node *owner = group_begin(&group, 3);
    group_appends(owner, 100);
    assert_true(group_settle(&group, 1000));
    for (unsigned n = 0; n < 3; n++) {
        assert_int_equal(group.nodes[n].lsn, 100);
        assert_int_equal(group_trouble(&group.nodes[n]), REPLICA_TROUBLE_NONE);
    }
    group_check(&group);
    group_close(&group);
}

static void a_follower_takes_over_when_the_owner_dies(void **state) {
    (void)state;
    struct group_node *first = group_begin(&group, 3);
    group_appends(first, 10);
    uint64_t died_ms = group.now_ms;
    group_kill(&group, first->n);
    struct group_node *second = group_await_owner(&group, 3000);
    assert_ptr_not_equal(second, first);
    assert_true(group.now_ms - died_ms >= GROUP_TTL_MS);
    group_appends(second, 10);
    group_start(&group, first->n, NULL);
    assert_true(group_settle(&group, 2000));
    assert_int_equal(first->lsn, 20);
    group_run(&group, 1000);
    assert_string_equal(first->leader, second->n == 0 ? "h1:1" : second->n == 1 ? "h2:2" : "h3:3");
    group_check(&group);
    group_close(&group);
}

static void an_owner_that_resigns_is_followed_at_once(void **state) {
    (void)state;
    struct group_node *first = group_begin(&group, 3);
    group_appends(first, 3);
    first->leads = false;
    assert_int_equal(first->log->verbs->resign(first->log), TN_OK);
    group_run(&group, 1); /* the append is in flight: another node may own the log by now */
    assert_false(first->log->verbs->owned(first->log));
    group_run(&group, 50);
    assert_false(first->log->verbs->owned(first->log));
    struct group_node *second = group_await_owner(&group, 500);
    assert_ptr_not_equal(second, first);
    group_appends(second, 3);
    group_check(&group);
    group_close(&group);
}

static void a_node_goes_on_from_its_local_copy(void **state) {
    (void)state;
    struct group_node *owner = group_begin(&group, 3);
    unsigned other = (owner->n + 1) % 3;
    group_appends(owner, 30);
    assert_true(group_settle(&group, 1000));
    group_cut(&group, other);
    group_appends(owner, 10);
    group_start(&group, other, NULL);
    assert_int_equal(group.nodes[other].lsn, 30); /* before it has heard of any owner */
    assert_true(group_settle(&group, 1000));
    assert_int_equal(group.nodes[other].lsn, 40);
    group_check(&group);
    group_close(&group);
}

static void all_nodes_stop_and_start_again(void **state) {
    (void)state;
    struct group_node *owner = group_begin(&group, 3);
    group_appends(owner, 30);
    assert_true(group_settle(&group, 1000));
    for (unsigned n = 0; n < 3; n++) {
        group_stop(&group, n);
    }
    group_run(&group, 60000);
    for (unsigned n = 0; n < 3; n++) {
        group_start(&group, n, NULL);
    }
    owner = group_await_owner(&group, 5000);
    group_appends(owner, 5);
    /* The node has heard no owner: it takes the time from the wall clock. */
    assert_true(owner->now_ms > 1800000000000u + 60000);
    assert_true(group_settle(&group, 1000));
    group_check(&group);
    group_close(&group);
}

/* ---- Refusals ---- */

static void expect_trouble(unsigned n, enum replica_trouble trouble) {
    (void)group_run_until(&group, 30000, is_in_trouble);
    if (group_trouble(&group.nodes[n]) != trouble) {
        fail_msg("wanted %s, the node says:\n%s", replica_trouble_name(trouble),
                 group.nodes[n].notice);
    }
    assert_non_null(strstr(group.nodes[n].notice, replica_trouble_name(trouble)));
    assert_false(group.nodes[n].owned);
}

static void without_a_cluster_a_node_waits_and_says_so(void **state) {
    (void)state;
    group_open(&group, 2);
    group_start(&group, 0, NULL);
    expect_trouble(0, REPLICA_TROUBLE_UNINITIALIZED);
    group_start(&group, 1, &begins);
    group_appends(group_await_owner(&group, 5000), 5);
    assert_true(group_settle(&group, 3000));
    assert_int_equal(group_trouble(&group.nodes[0]), REPLICA_TROUBLE_NONE);
    group_close(&group);
}

static void a_cluster_begins_under_an_empty_prefix_only(void **state) {
    (void)state;
    struct group_node *owner = group_begin(&group, 1);
    group_appends(owner, 3);
    group_start(&group, 1, &begins);
    expect_trouble(1, REPLICA_TROUBLE_NOT_EMPTY);
    group_stop(&group, 1);
    group_stop(&group, 0);
    group_start(&group, 0, &begins); /* this directory began the cluster: nothing to do */
    group_appends(group_await_owner(&group, 5000), 3);
    group_close(&group);
}

/* --cluster-init that was left in a unit file, after a crash: the log positions are the cluster's. */
static void a_node_that_begins_again_after_a_crash_passes_over_no_positions(void **state) {
    (void)state;
    struct group_node *owner = group_begin(&group, 2);
    group_appends(owner, 5);
    assert_true(group_settle(&group, 1000));
    group_kill(&group, 0);
    group_appends(group_await_owner(&group, 5000), 5);
    group_start(&group, 0, &begins);
    assert_true(group_run_until(&group, 3000, group_takes_part));
    assert_true(group_settle(&group, 3000));
    assert_int_equal(group_trouble(&group.nodes[0]), REPLICA_TROUBLE_NONE);
    assert_int_equal(group.nodes[0].lsn, 10);
    group_kill(&group, 1);
    group_appends(group_await_owner(&group, 5000), 1);
    assert_int_equal(group.nodes[0].lsn, 11);
    group_check(&group);
    group_close(&group);
}

/* Both words were left in a unit file: the copy stays in the generation of the cluster. */
static void a_node_that_begins_again_as_restored_stays_in_its_generation(void **state) {
    static const struct group_start both = {.init = true, .restored = true};
    (void)state;
    group_appends(group_begin(&group, 2), 5);
    assert_true(group_settle(&group, 1000));
    for (unsigned i = 0; i < 2; i++) {
        group_kill(&group, 0);
        group_appends(group_await_owner(&group, 5000), 5);
        group_start(&group, 0, i == 0 ? &both : NULL);
        assert_true(group_run_until(&group, 3000, group_takes_part));
        assert_true(group_settle(&group, 3000));
        assert_int_equal(group_trouble(&group.nodes[0]), REPLICA_TROUBLE_NONE);
    }
    assert_true(group.nodes[0].lsn == 15 && group.nodes[0].shard >> 32 == 0);
    group_check(&group);
    group_close(&group);
}

static void a_directory_of_another_cluster_is_refused(void **state) {
    struct group_start other = {.init = true, .prefix = "/other/"};
    (void)state;
    group_appends(group_begin(&group, 1), 3);
    group_stop(&group, 0);
    group_start(&group, 1, &other);
    (void)group_await_owner(&group, 5000);
    group_stop(&group, 1);
    group_start(&group, 0, NULL);
    group_start(&group, 1, NULL);
    expect_trouble(1, REPLICA_TROUBLE_OTHER_CLUSTER);
    group_close(&group);
}

static void an_etcd_that_was_put_back_is_refused(void **state) {
    (void)state;
    struct group_node *owner = group_begin(&group, 3);
    group_appends(owner, 10);
    assert_true(group_settle(&group, 1000));
    struct fakeetcd_copy *copy = fakeetcd_save(group.fake);
    group_appends(owner, 10);
    assert_true(group_settle(&group, 1000));
    fakeetcd_put_back(group.fake, copy);
    group_run(&group, 10000);
    for (unsigned n = 0; n < 3; n++) {
        assert_int_equal(group_trouble(&group.nodes[n]), REPLICA_TROUBLE_PUT_BACK);
        assert_false(group.nodes[n].owned);
    }
    for (unsigned n = 0; n < 3; n++) { /* a restart remembers */
        group_cut(&group, n);
        group_start(&group, n, NULL);
    }
    group_run(&group, 10000);
    for (unsigned n = 0; n < 3; n++) {
        assert_int_equal(group_trouble(&group.nodes[n]), REPLICA_TROUBLE_PUT_BACK);
        group_stop(&group, n);
    }
    /* The remedy: what a node has counts, one generation later. */
    struct group_start restored = {.restored = true};
    group_start(&group, 1, &restored);
    group_start(&group, 0, NULL);
    group_start(&group, 2, NULL);
    group_run(&group, 6000);
    group_stop(&group, 0); /* started too early */
    group_stop(&group, 2);
    group_start(&group, 0, NULL);
    group_start(&group, 2, NULL);
    owner = group_await_owner(&group, 10000);
    group_appends(owner, 5);
    assert_true(group_settle(&group, 1000));
    assert_int_equal(owner->lsn, 25);
    for (unsigned n = 0; n < 3; n++) {
        assert_int_equal(group.nodes[n].shard >> 32, 1);
    }
    group_check(&group);
    fakeetcd_copy_free(copy);
    group_close(&group);
}

static void restored_gives_way_to_a_log_that_lives_or_is_newer(void **state) {
    struct group_start restored = {.restored = true};
    (void)state;
    struct group_node *owner = group_begin(&group, 3);
    unsigned other = (owner->n + 1) % 3;
    group_appends(owner, 10);
    assert_true(group_settle(&group, 1000));
    group_stop(&group, other);
    group_start(&group, other, &restored);
    expect_trouble(other, REPLICA_TROUBLE_NEWER);
    group_appends(owner, 10);
    group_stop(&group, other);
    group_start(&group, other, &restored);
    expect_trouble(other, REPLICA_TROUBLE_NEWER);
    group_close(&group);
}

static void key_damage(uint64_t lsn, unsigned at) {
    char key[64];
    uint8_t value[256];
    struct tn_bytes found;
    (void)snprintf(key, sizeof key, GROUP_PREFIX "log/%016llx", (unsigned long long)lsn);
    assert_true(fakeetcd_value(group.fake, tn_bytes_of(key, strlen(key)), &found));
    memcpy(value, found.at, found.len);
    value[at] ^= 1;
    struct etcd_op put = {.kind = ETCD_PUT,
                          .keys = {.key = tn_bytes_of(key, strlen(key))},
                          .value = tn_bytes_of(value, found.len)};
    fakeetcd_put(group.fake, &put);
}

static void a_damaged_batch_is_refused(void **state) {
    (void)state;
    struct group_node *owner = group_begin(&group, 1);
    group_appends(owner, 10);
    key_damage(6, 85);
    group_start(&group, 1, NULL);
    expect_trouble(1, REPLICA_TROUBLE_DAMAGED);
    assert_int_equal(group.nodes[1].lsn, 5);
    group_close(&group);
}

static void a_batch_that_does_not_continue_the_log_is_refused(void **state) {
    (void)state;
    struct group_node *owner = group_begin(&group, 1);
    group_appends(owner, 10);
    char key[64];
    struct tn_bytes found;
    struct log_batch batch;
    struct replica_stamp stamp;
    uint8_t value[256];
    (void)snprintf(key, sizeof key, GROUP_PREFIX "log/%016x", 6u);
    assert_true(fakeetcd_value(group.fake, tn_bytes_of(key, strlen(key)), &found));
    assert_int_equal(replica_batch_decode(found, 6, &batch, &stamp), TN_OK);
    stamp.chain++;
    replica_batch_encode(&batch, &stamp, value);
    struct etcd_op put = {.kind = ETCD_PUT,
                          .keys = {.key = tn_bytes_of(key, strlen(key))},
                          .value = tn_bytes_of(value, found.len)};
    fakeetcd_put(group.fake, &put);
    group_start(&group, 1, NULL);
    expect_trouble(1, REPLICA_TROUBLE_DIVERGED);
    assert_int_equal(group.nodes[1].lsn, 5);
    group_close(&group);
}

static void two_nodes_of_one_name_the_second_is_refused(void **state) {
    struct group_start same = {.name = "n1"};
    (void)state;
    struct group_node *owner = group_begin(&group, 1);
    group_run(&group, 30000);
    group_start(&group, 1, &same);
    expect_trouble(1, REPLICA_TROUBLE_DUPLICATE);
    group_run(&group, 30000);
    assert_int_equal(group_trouble(&group.nodes[0]), REPLICA_TROUBLE_NONE);
    group_appends(owner, 3);
    group_kill(&group, 0); /* the same name after a crash is no second node */
    group_start(&group, 0, NULL);
    group_appends(group_await_owner(&group, 5000), 3);
    group_run(&group, 30000);
    assert_int_equal(group_trouble(&group.nodes[0]), REPLICA_TROUBLE_NONE);
    group_close(&group);
}

static void a_closed_cluster_is_left_alone(void **state) {
    bool is_member = false;
    (void)state;
    struct group_node *owner = group_begin(&group, 3);
    group_appends(owner, 10);
    assert_true(group_settle(&group, 1000));
    assert_int_equal(replica_dir_is_member(&owner->os, "/data", &is_member), TN_OK);
    assert_true(is_member);
    owner->leads = false;
    assert_int_equal(replica_close_cluster(owner->log), TN_OK);
    group_run(&group, 20000);
    assert_null(group_owner(&group));
    for (unsigned n = 0; n < 3; n++) {
        assert_int_equal(group_trouble(&group.nodes[n]), REPLICA_TROUBLE_CLOSED);
        assert_int_equal(replica_dir_is_member(&group.nodes[n].os, "/data", &is_member), TN_OK);
        assert_false(is_member);
    }
    group_close(&group);
}

/* ---- Trimming ---- */

static unsigned batches_in_etcd(uint64_t up_to) {
    unsigned count = 0;
    for (uint64_t lsn = 1; lsn <= up_to; lsn++) {
        char key[64];
        struct tn_bytes found;
        (void)snprintf(key, sizeof key, GROUP_PREFIX "log/%016llx", (unsigned long long)lsn);
        count += fakeetcd_value(group.fake, tn_bytes_of(key, strlen(key)), &found);
    }
    return count;
}

static void the_log_is_trimmed_when_a_majority_has_snapshots(void **state) {
    (void)state;
    struct group_node *owner = group_begin(&group, 3);
    unsigned other = (owner->n + 1) % 3;
    group_appends(owner, 20);
    assert_true(group_settle(&group, 1000));
    group_snapshot(owner);
    group_run(&group, 20000);
    group_appends(owner, 1);
    group_run(&group, 20000);
    group_appends(owner, 1);
    assert_int_equal(batches_in_etcd(22), 22); /* one is no majority */
    group_snapshot(&group.nodes[other]);
    group_run(&group, 20000);
    group_appends(owner, 2);
    assert_int_equal(batches_in_etcd(20), 0);
    assert_true(batches_in_etcd(24) >= 2);
    /* Nodes that have everything up to there continue; a node that begins now cannot. */
    unsigned third = (owner->n + 2) % 3;
    group_cut(&group, other);
    group_start(&group, other, NULL);
    assert_true(group_settle(&group, 2000));
    group_stop(&group, third);
    group_wipe(&group, third);
    group_start(&group, third, NULL);
    expect_trouble(third, REPLICA_TROUBLE_BEHIND);
    group_close(&group);
}

static void a_node_begins_with_a_snapshot_of_another_one(void **state) {
    static const struct group_start seeds = {.seed = true};
    (void)state;
    struct group_node *owner = group_begin(&group, 3);
    struct group_node *other = &group.nodes[(owner->n + 1) % 3];
    struct group_node *third = &group.nodes[(owner->n + 2) % 3];
    group_appends(owner, 20);
    assert_true(group_settle(&group, 1000));
    group_snapshot(owner);
    group_snapshot(other);
    group_run(&group, 20000);
    group_appends(owner, 2);
    group_run(&group, 20000);
    group_stop(&group, third->n);
    group_start(&group, third->n, &seeds); /* it has everything */
    assert_int_equal(third->seeded_lsn, 0);
    group_stop(&group, third->n);
    group_wipe(&group, third->n);
    third->fetch_fails = true;
    group_start(&group, third->n, &seeds);
    assert_null(third->log);
    assert_string_equal(third->notice, "it does not answer");
    third->fetch_fails = false;
    third->fetch_damages = 1;
    group_start(&group, third->n, &seeds);
    assert_null(third->log);
    third->fetch_damages = 0;
    group_start(&group, third->n, &seeds);
    assert_int_equal(third->seeded_lsn, 20);
    assert_true(group_settle(&group, 3000));
    assert_int_equal(third->lsn, 22);
    group_appends(owner, 3);
    assert_true(group_settle(&group, 3000));
    group_cut(&group, third->n); /* the node is now like any other */
    group_start(&group, third->n, &seeds);
    assert_int_equal(third->seeded_lsn, 0);
    group_kill(&group, owner->n);
    group_kill(&group, other->n);
    group_appends(group_await_owner(&group, 5000), 3);
    group_check(&group);
    group_close(&group);
}

/* A crash at any point of the seeding: the next start continues, or begins again. */
static void seeding_survives_a_crash_anywhere(void **state) {
    static const struct group_start seeds = {.seed = true};
    (void)state;
    struct group_node *owner = group_begin(&group, 2);
    struct group_node *third = &group.nodes[2];
    group_appends(owner, 20);
    assert_true(group_settle(&group, 1000));
    group_snapshot(owner);
    group_snapshot(&group.nodes[1 - owner->n]);
    group_run(&group, 20000);
    group_appends(owner, 2);
    assert_true(group_settle(&group, 1000));
    for (unsigned call = 1;; call++) {
        group_wipe(&group, 2);
        third->seeded_lsn = 0;
        struct fakeos *disk = third->disk;
        fakeos_cut_call(disk, call);
        if (!group_try_start(&group, 2, &seeds)) {
            fakeos_reboot(disk);
            third->seeded_lsn = 0;
            group_start(&group, 2, &seeds);
            assert_non_null(third->log);
        } else if (!fakeos_is_cut(disk)) {
            break; /* every crash point was tried */
        } else {
            group_cut(&group, 2);
            group_start(&group, 2, &seeds);
            assert_non_null(third->log);
        }
        assert_true(group_settle(&group, 3000));
        assert_int_equal(third->lsn, 22);
        group_stop(&group, 2);
    }
    group_check(&group);
    group_close(&group);
}

static void a_log_that_cannot_be_trimmed_ends_in_nospace(void **state) {
    struct group_start small = {.init = true, .log_bytes = 4096};
    (void)state;
    group_open(&group, 3);
    group_start(&group, 0, &small);
    struct group_node *owner = group_await_owner(&group, 5000);
    unsigned refused = 0;
    for (unsigned i = 0; i < 200 && refused == 0; i++) {
        refused += group_append_wait(owner) == GROUP_NEVER;
        group_run(&group, 500);
    }
    assert_int_equal(refused, 1);
    group_run(&group, 6000);
    assert_int_equal(group_trouble(owner), REPLICA_TROUBLE_LOG_FULL);
    assert_true(owner->log->verbs->owned(owner->log));
    group_snapshot(owner);
    group_run(&group, 20000);
    group_appends(owner, 3);
    group_run(&group, 20000);
    group_appends(owner, 3);
    assert_int_equal(group_trouble(owner), REPLICA_TROUBLE_NONE);
    group_close(&group);
}

/* ---- Faults of etcd ---- */

static void a_compacted_revision_and_a_cut_connection_are_survived(void **state) {
    (void)state;
    struct group_node *owner = group_begin(&group, 3);
    struct group_node *other = &group.nodes[(owner->n + 1) % 3];
    group_appends(owner, 5);
    for (unsigned member = 0; member < 3; member++) {
        fakeetcd_cut(other->watcher, member, true);
    }
    group_appends(owner, 50);
    fakeetcd_compact(group.fake, fakeetcd_revision(group.fake));
    for (unsigned member = 0; member < 3; member++) {
        fakeetcd_cut(other->watcher, member, false);
    }
    assert_true(group_settle(&group, 5000));
    group_check(&group);
    group_close(&group);
}

static void a_stuck_watch_is_left(void **state) {
    struct fakeetcd_faults stuck = {.stuck_watch = 1000};
    struct fakeetcd_faults none = {.stuck_watch = 0};
    (void)state;
    group_open(&group, 5);
    fakeetcd_set_faults(group.fake, &stuck);
    group_start(&group, 0, &begins);
    group_start(&group, 1, NULL);
    struct group_node *owner = group_await_owner(&group, 8000);
    group_appends(owner, 5);
    group_run(&group, 5000);
    fakeetcd_set_faults(group.fake, &none);
    assert_true(group_settle(&group, 10000));
    group_check(&group);
    group_close(&group);
}

static void members_with_other_revisions_are_followed(void **state) {
    (void)state;
    group_open(&group, 6);
    fakeetcd_diverge(group.fake, 1, 1000);
    group_start(&group, 0, &begins);
    group_start(&group, 1, NULL);
    group_start(&group, 2, NULL);
    struct group_node *owner = group_await_owner(&group, 5000);
    group_appends(owner, 20);
    fakeetcd_stop(group.fake, 1);
    group_run(&group, 3000);
    group_appends(group_await_owner(&group, 5000), 20);
    assert_true(group_settle(&group, 5000));
    group_check(&group);
    group_close(&group);
}

static void an_owner_without_a_quorum_is_none_after_its_time(void **state) {
    (void)state;
    struct group_node *owner = group_begin(&group, 3);
    group_appends(owner, 5);
    uint32_t id = 0;
    fakeetcd_stop(group.fake, 0);
    fakeetcd_stop(group.fake, 1);
    id = group_append(owner);
    assert_int_not_equal(id, 0);
    group_run(&group, GROUP_TTL_MS + 10);
    assert_null(group_owner(&group));
    group_run(&group, 12000);
    assert_int_equal(group.fates[id], GROUP_UNKNOWN);
    fakeetcd_start(group.fake, 0);
    fakeetcd_start(group.fake, 1);
    group_appends(group_await_owner(&group, 20000), 5);
    assert_true(group_settle(&group, 5000));
    group_check(&group);
    group_close(&group);
}

static void a_full_etcd_refuses_appends_and_recovers(void **state) {
    (void)state;
    struct group_node *owner = group_begin(&group, 3);
    group_appends(owner, 5);
    fakeetcd_set_full(group.fake, true, 1);
    for (unsigned i = 0; i < 5 && owner->leads; i++) {
        (void)group_append_wait(owner);
    }
    fakeetcd_set_full(group.fake, false, 0);
    group_appends(group_await_owner(&group, 20000), 5);
    assert_true(group_settle(&group, 5000));
    group_check(&group);
    group_close(&group);
}

/* The engine of a follower halts: the node does not take over what it has not applied. */
static void a_node_whose_engine_refuses_a_batch_stops(void **state) {
    (void)state;
    struct group_node *owner = group_begin(&group, 2);
    struct group_node *other = &group.nodes[1 - owner->n];
    other->refuses = TN_CORRUPT;
    group_appends(owner, 1);
    expect_trouble(other->n, REPLICA_TROUBLE_ENGINE);
    group_kill(&group, owner->n);
    group_run(&group, 10000);
    assert_false(other->owned);
    group_close(&group);
}

static void time_goes_on_from_the_last_owners_clock(void **state) {
    (void)state;
    struct group_node *first = group_begin(&group, 3);
    for (unsigned n = 0; n < 3; n++) { /* wall clocks that differ */
        group.nodes[n].wall_off_ms = n == first->n ? 0 : 3600000;
    }
    group_appends(first, 5);
    group_run(&group, 5000);
    group_kill(&group, first->n);
    struct group_node *second = group_await_owner(&group, 5000);
    group_appends(second, 5);
    assert_true(group.early_ms <= 50);
    assert_true(second->now_ms + 3000 > group.now_ms + 1800000000000u); /* nor much behind it */
    group_close(&group);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_owner_appends_reaches_the_others),
        cmocka_unit_test(a_follower_takes_over_when_the_owner_dies),
        cmocka_unit_test(an_owner_that_resigns_is_followed_at_once),
        cmocka_unit_test(a_node_goes_on_from_its_local_copy),
        cmocka_unit_test(all_nodes_stop_and_start_again),
        cmocka_unit_test(without_a_cluster_a_node_waits_and_says_so),
        cmocka_unit_test(a_cluster_begins_under_an_empty_prefix_only),
        cmocka_unit_test(a_node_that_begins_again_after_a_crash_passes_over_no_positions),
        cmocka_unit_test(a_node_that_begins_again_as_restored_stays_in_its_generation),
        cmocka_unit_test(a_directory_of_another_cluster_is_refused),
        cmocka_unit_test(an_etcd_that_was_put_back_is_refused),
        cmocka_unit_test(restored_gives_way_to_a_log_that_lives_or_is_newer),
        cmocka_unit_test(a_damaged_batch_is_refused),
        cmocka_unit_test(a_batch_that_does_not_continue_the_log_is_refused),
        cmocka_unit_test(two_nodes_of_one_name_the_second_is_refused),
        cmocka_unit_test(a_closed_cluster_is_left_alone),
        cmocka_unit_test(the_log_is_trimmed_when_a_majority_has_snapshots),
        cmocka_unit_test(a_node_begins_with_a_snapshot_of_another_one),
        cmocka_unit_test(seeding_survives_a_crash_anywhere),
        cmocka_unit_test(a_log_that_cannot_be_trimmed_ends_in_nospace),
        cmocka_unit_test(a_compacted_revision_and_a_cut_connection_are_survived),
        cmocka_unit_test(a_stuck_watch_is_left),
        cmocka_unit_test(members_with_other_revisions_are_followed),
        cmocka_unit_test(an_owner_without_a_quorum_is_none_after_its_time),
        cmocka_unit_test(a_full_etcd_refuses_appends_and_recovers),
        cmocka_unit_test(a_node_whose_engine_refuses_a_batch_stops),
        cmocka_unit_test(time_goes_on_from_the_last_owners_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
