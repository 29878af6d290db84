/* Three whole engines over a replicated log in a fake etcd, while calls are lost, late and doubled,
 * members and nodes hang and die, links are cut, disks lose what was not synced or are full, etcd is full or
 * compacted, clocks run differently and are set. What must hold is in engines.h; and when all is well again, an engine
 * leads, and all have the same state.
 *
 * TENURE_SEED, TENURE_SEEDS and TENURE_SECONDS choose seeds (seeds.h), TENURE_STEPS the milliseconds of
 * trouble in a seed. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>
#include <unistd.h>

#include "seeds.h"
#include "sim/engines.h"

#define TROUBLE_MS 40000u
#define SHORT_MS 8000u
#define SEEDS 4u

static struct engines engines;

_Noreturn void world_fail(struct world *w, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(w->why, sizeof w->why, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\nseed %" PRIu64 " at %" PRIu64 " ms: %s\n", w->seed, engines.group.now_ms,
            w->why);
    uint64_t first = w->trace_count > WORLD_TRACE ? w->trace_count - WORLD_TRACE : 0;
    for (uint64_t i = first; i < w->trace_count; i++) {
        fprintf(stderr, "  %s\n", w->trace[i % WORLD_TRACE]);
    }
    fprintf(stderr, "TENURE_SEEDS=%" PRIu64 " plays it again\n", w->seed);
    (void)fflush(NULL);
    _exit(1);
}

static uint64_t below(uint64_t n) {
    return tn_prng_below(&engines.group.prng, n);
}

static bool disk_is_full[GROUP_NODES];

static void disk_set(struct group_node *node, bool full) {
    disk_is_full[node->n] = full;
    fakeos_space_set(node->disk, full ? fakeos_space_used(node->disk) + below(20000) : UINT64_MAX);
}

/* ---- Mishaps ---- */

static void node_starts(unsigned n) {
    disk_set(&engines.group.nodes[n], false);
    engines.group.nodes[n].wall_off_ms = -(int64_t)below(3600000); /* never ahead: see wall_set */
    (void)group_try_start(&engines.group, n, &(struct group_start){.seed = true});
}

static void heal(void) {
    struct group *group = &engines.group;
    fakeetcd_set_full(group->fake, false, 0);
    for (unsigned i = 0; i < GROUP_NODES; i++) {
        struct group_node *node = &group->nodes[i];
        fakeetcd_start(group->fake, i);
        fakeetcd_resume(group->fake, i);
        disk_set(node, false);
        node->hangs_until_ms = 0;
        if (node->log == NULL) {
            node_starts(i);
        }
        for (unsigned member = 0; node->log != NULL && member < FAKEETCD_MEMBERS; member++) {
            fakeetcd_cut(node->writer, member, false);
            fakeetcd_cut(node->watcher, member, false);
        }
    }
}

/* A wall clock that is ahead counts only where a node begins without having heard of another one. */
static void wall_set(struct engines_node *n) {
    bool ahead = engines_leads(n) && below(2) == 0;
    n->node->wall_off_ms = ahead ? (int64_t)below(36000000) : -(int64_t)below(36000000);
}

/* Half of the time, something happens to an owner while it waits for its log. */
static void append_await(const struct engines_node *n) {
    bool waits = below(2) == 0;
    for (unsigned i = 0; waits && i < 200 && engines_leads(n) && !n->working; i++) {
        group_run(&engines.group, 1);
    }
}

/* Ends in one way or another; another time it starts. */
static void node_mishap(struct engines_node *n) {
    struct group_node *node = n->node;
    if (node->log == NULL) {
        node_starts(node->n);
        return;
    }
    append_await(n);
    switch (below(8)) {
    case 0:
        if (!n->working) {
            engines_work(n, ENGINES_STEP_DOWN);
            group_run(&engines.group, below(20));
        }
        group_stop(&engines.group, node->n);
        break;
    case 1:
        group_kill(&engines.group, node->n);
        break;
    case 2:
        group_cut(&engines.group, node->n);
        break;
    case 3:
        group_kill(&engines.group, node->n);
        group_wipe(&engines.group, node->n);
        break;
    case 4:
        disk_set(node, true);
        break;
    case 5:
        wall_set(n);
        break;
    default:
        node->hangs_until_ms = engines.group.now_ms + below(5000);
        break;
    }
}

static void links_cut(struct group_node *node, unsigned member) {
    bool all = below(2) == 0;
    for (unsigned i = 0; node->log != NULL && i < FAKEETCD_MEMBERS; i++) {
        if (all || i == member) {
            fakeetcd_cut(node->writer, i, true);
            fakeetcd_cut(node->watcher, i, true);
        }
    }
}

static void mishap(void) {
    struct engines_node *n = &engines.nodes[below(GROUP_NODES)];
    struct fakeetcd *fake = engines.group.fake;
    unsigned member = (unsigned)below(FAKEETCD_MEMBERS);
    switch (below(12)) {
    case 0:
        fakeetcd_stop(fake, member);
        break;
    case 1:
        fakeetcd_pause(fake, member);
        break;
    case 2:
    case 3:
        links_cut(n->node, member);
        break;
    case 4:
        fakeetcd_set_full(fake, true, (unsigned)below(3));
        break;
    case 5:
        fakeetcd_compact(fake, fakeetcd_revision(fake));
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

/* ---- Playing ---- */

static void node_works(struct engines_node *n) {
    struct replica_standing standing;
    struct log_error error;
    if (n->engine == NULL || engines.group.now_ms < n->node->hangs_until_ms) {
        return;
    }
    replica_standing_read(n->node->log, &standing);
    /* It began while etcd did not answer; or its disk was full when it first opened its copy. */
    if (standing.trouble == REPLICA_TROUBLE_BEHIND ||
        (standing.trouble == REPLICA_TROUBLE_COPY && disk_is_full[n->node->n])) {
        group_stop(&engines.group, n->node->n);
        return;
    }
    if (replica_trouble_is_final(standing.trouble)) {
        world_fail(&engines.world, "node %u is in trouble: %s", n->node->n, n->node->notice);
    }
    if (below(200) == 0) {
        engines_compare(n);
    }
    if (n->working) {
        return;
    }
    if (below(8000) == 0) {
        (void)engine_snapshot(n->engine, &error);
    }
    if (engines_leads(n) && below(500) == 0) {
        engines_work(n, below(20) == 0 ? ENGINES_STEP_DOWN : ENGINES_TICK);
    }
}

static void play_for(uint64_t ms, bool mishaps) {
    uint64_t next_ms = engines.group.now_ms + 1000;
    for (uint64_t end_ms = engines.group.now_ms + ms; engines.group.now_ms < end_ms;) {
        group_run(&engines.group, 1);
        if (mishaps && engines.group.now_ms >= next_ms) {
            next_ms = engines.group.now_ms + 300 + below(3000);
            mishap();
        }
        for (unsigned n = 0; n < GROUP_NODES; n++) {
            node_works(&engines.nodes[n]);
        }
    }
}

static void all_is_well(void) {
    struct fakeetcd_faults none = {.delay_ms_max = 2};
    fakeetcd_set_faults(engines.group.fake, &none);
    heal();
    play_for(15000, false);
    heal(); /* a node whose snapshot was not available before */
    play_for(10000, false);
    uint64_t before = engines.counts.commands;
    play_for(2000, false);
    if (engines.counts.commands == before) {
        world_fail(&engines.world, "all is well, and nobody serves:\n%s\n%s\n%s",
                   engines.group.nodes[0].notice, engines.group.nodes[1].notice,
                   engines.group.nodes[2].notice);
    }
    for (unsigned i = 0; i < 20000 && !engines_are_equal(&engines); i++) {
        play_for(1, false);
    }
    if (!engines_are_equal(&engines)) {
        world_fail(&engines.world, "all is well, and the nodes do not have the same");
    }
    for (unsigned n = 0; n < GROUP_NODES; n++) {
        engines_compare(&engines.nodes[n]);
    }
}

static void play(uint64_t seed, uint64_t trouble_ms) {
    struct group_start begins = {.init = true};
    engines_open(&engines, seed);
    group_start(&engines.group, 0, &begins);
    play_for(5000, false);
    group_start(&engines.group, 1, NULL);
    group_start(&engines.group, 2, NULL);
    play_for(1000, false);
    fakeetcd_set_faults(engines.group.fake, &fakeetcd_every_fault);
    play_for(trouble_ms, true);
    all_is_well();
}

/* Everything that has happened. */
static uint64_t transcript(uint64_t seed) {
    play(seed, SHORT_MS);
    uint64_t all = engines.world.transcript ^ fakeetcd_hash(engines.group.fake);
    engines_close(&engines);
    return all;
}

static void a_seed_gives_the_same_transcript_twice(void **state) {
    (void)state;
    uint64_t once = transcript(7);
    assert_int_equal(transcript(7), once);
    assert_int_not_equal(transcript(8), once);
}

static void one_history_and_one_state_whatever_goes_wrong(void **state) {
    struct seeds seeds = seeds_given(1);
    uint64_t last = seeds_last(&seeds, SEEDS);
    uint64_t totals[sizeof engines.counts / sizeof(uint64_t)] = {0};
    (void)state;
    for (uint64_t seed = seeds.first; seed <= last && !seeds_time_is_up(&seeds); seed++) {
        play(seed, seeds_number("TENURE_STEPS", TROUBLE_MS));
        for (size_t i = 0; i < sizeof totals / sizeof totals[0]; i++) {
            totals[i] += ((const uint64_t *)(const void *)&engines.counts)[i];
        }
        engines_close(&engines);
    }
    fprintf(stderr,
            "seeds %" PRIu64 "..%" PRIu64 ": %" PRIu64 " commands answered, %" PRIu64
            " refused, %" PRIu64 " unknown; %" PRIu64 " reads, %" PRIu64 " refused; %" PRIu64
            " states compared; %" PRIu64 " owners, %" PRIu64 " batches in doubt\n",
            seeds.first, last, totals[0], totals[1], totals[2], totals[3], totals[4], totals[5],
            totals[6], totals[7]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_history_and_one_state_whatever_goes_wrong),
        cmocka_unit_test(a_seed_gives_the_same_transcript_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
