/* Three nodes with the whole replicated log (replica/replica.h) over a fake etcd, while calls are lost,
 * late and doubled, members and nodes hang and die, disks lose what was not synced, etcd is full or
 * compacted, and clocks run differently. What must hold: never two owners, nothing acknowledged is
 * missing, nothing refused is there, all nodes have the same, time is never early, no node refuses to
 * take part, and when all is well again somebody owns the log. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lib/replicakit.h"
#include "seeds.h"

static struct group group;

static void heal(void) {
    fakeetcd_set_full(group.fake, false, 0);
    for (unsigned i = 0; i < GROUP_NODES; i++) {
        struct group_node *node = &group.nodes[i];
        fakeetcd_start(group.fake, i);
        fakeetcd_resume(group.fake, i);
        node->hangs_until_ms = 0;
        if (node->log == NULL) {
            group_start(&group, i, NULL);
        }
        for (unsigned member = 0; member < FAKEETCD_MEMBERS; member++) {
            fakeetcd_cut(node->writer, member, false);
            fakeetcd_cut(node->watcher, member, false);
        }
    }
}

/* Ends in one way or another; another time it starts. */
static void node_mishap(unsigned n) {
    struct group_node *node = &group.nodes[n];
    if (node->log == NULL) {
        group_start(&group, n, NULL);
        return;
    }
    switch (tn_prng_below(&group.prng, 4)) {
    case 0:
        group_stop(&group, n);
        break;
    case 1:
        group_kill(&group, n);
        break;
    case 2:
        group_cut(&group, n);
        break;
    default:
        node->hangs_until_ms = group.now_ms + tn_prng_below(&group.prng, 5000);
        break;
    }
}

static void mishap(void) {
    unsigned n = (unsigned)tn_prng_below(&group.prng, GROUP_NODES);
    unsigned member = (unsigned)tn_prng_below(&group.prng, FAKEETCD_MEMBERS);
    struct group_node *node = &group.nodes[n];
    switch (tn_prng_below(&group.prng, 12)) {
    case 0:
        fakeetcd_stop(group.fake, member);
        break;
    case 1:
        fakeetcd_pause(group.fake, member);
        break;
    case 2:
        if (node->log != NULL) {
            fakeetcd_cut(node->writer, member, true);
        }
        break;
    case 3:
        if (node->log != NULL) {
            fakeetcd_cut(node->watcher, member, true);
        }
        break;
    case 4:
        fakeetcd_set_full(group.fake, true, (unsigned)tn_prng_below(&group.prng, 3));
        break;
    case 5:
        fakeetcd_compact(group.fake, fakeetcd_revision(group.fake));
        break;
    case 6:
    case 7:
    case 8:
        node_mishap(n);
        break;
    default:
        heal();
        break;
    }
}

static void node_works(struct group_node *node) {
    struct replica_standing standing;
    if (node->log == NULL || group.now_ms < node->hangs_until_ms) {
        return;
    }
    replica_standing_read(node->log, &standing);
    if (replica_trouble_is_final(standing.trouble)) {
        fail_msg("node %u is in trouble: %s", node->n, node->notice);
    }
    if (node->leads && tn_prng_below(&group.prng, 10) == 0) {
        (void)group_append(node);
    }
    if (standing.copied_lsn == node->lsn && node->lsn > 0 && !node->appending &&
        tn_prng_below(&group.prng, 5000) == 0) {
        group_snapshot(node);
    }
    if (node->leads && !node->appending && tn_prng_below(&group.prng, 20000) == 0) {
        node->leads = false;
        assert_int_equal(node->log->verbs->resign(node->log), TN_OK);
    }
}

static void play_for(uint64_t ms, bool mishaps) {
    uint64_t next_ms = group.now_ms + 3000;
    for (uint64_t end_ms = group.now_ms + ms; group.now_ms < end_ms;) {
        group_run(&group, 1);
        if (mishaps && group.now_ms >= next_ms) {
            next_ms += 300 + tn_prng_below(&group.prng, 3000);
            mishap();
        }
        for (unsigned n = 0; n < GROUP_NODES; n++) {
            node_works(&group.nodes[n]);
        }
    }
}

static void play(uint64_t seed, unsigned totals[4]) {
    struct fakeetcd_faults none = {.delay_ms_max = 2};
    struct group_start begins = {.init = true};
    group_open(&group, seed);
    group_start(&group, 0, &begins);
    group_start(&group, 1, NULL);
    group_start(&group, 2, NULL);
    (void)group_await_owner(&group, 10000);
    fakeetcd_set_faults(group.fake, &fakeetcd_every_fault);
    play_for(120000, true);
    heal();
    fakeetcd_set_faults(group.fake, &none);
    play_for(25000, false);
    unsigned before = group.done;
    play_for(1000, false);
    if (group.done == before) {
        fail_msg("seed %" PRIu64 ": all is well, and nobody owns the log:\n%s%s%s", seed,
                 group.nodes[0].notice, group.nodes[1].notice, group.nodes[2].notice);
    }
    assert_true(group_settle(&group, 5000));
    group_check(&group);
    totals[0] += group.done;
    totals[1] += group.never;
    totals[2] += group.unknown;
    totals[3] += group.leads;
    group_close(&group);
}

static void nothing_is_lost_whatever_goes_wrong(void **state) {
    unsigned totals[4] = {0};
    struct seeds seeds = seeds_given(1);
    uint64_t last = seeds_last(&seeds, 6);
    (void)state;
    for (uint64_t seed = seeds.first; seed <= last && !seeds_time_is_up(&seeds); seed++) {
        printf("seed %" PRIu64 "\n", seed);
        play(seed, totals);
    }
    printf("%u acknowledged, %u refused, %u unknown, %u owners\n", totals[0], totals[1], totals[2],
           totals[3]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_lost_whatever_goes_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
