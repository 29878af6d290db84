/* Linearizability of a cluster: clients contend on three real nodes over three real members of etcd,
 * any of which is killed, stopped or cut off, and two judges look at what the clients were told (check.h).
 * A sensor of the cluster must never run twice at the same time.
 * Each node's state at the end is held against the log, too.
 *
 * TENURE_SEED is the first seed. TENURE_MISHAPS makes rounds with new seeds until so many things have
 * happened; each round is judged by a process of its own while the next one is being played.
 * TENURE_HISTORY judges a history that a failed run has kept. A seed decides what happens; when it
 * happens among the operations is up to the machine. */
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>
#include <stdio.h>

#include "nemesis/mishap.h"
#include "nemesis/nm_cluster.h"
#include "nemesis/nm_judge.h"
#include "sim/seeds.h"

#define CLIENTS 12u
#define MISHAPS_SHORT 6u
#define ROUND_MISHAPS 12u
#define HEAL_EVERY 4u /* mishaps, then everything comes back and must serve */
#define SERVE_NS 60000000000u
#define MS_NS 1000000u

#define MISHAP_TABLE(X)                         \
    X(NODE_KILL, 20, "nodes killed")            \
    X(NODE_STOP, 16, "nodes stopped")           \
    X(NODE_TERM, 6, "nodes ended")              \
    X(NODE_CUT, 14, "nodes cut off")            \
    X(STEP_DOWN, 6, "step-downs")               \
    X(MEMBER_KILL, 14, "members killed")        \
    X(MEMBER_STOP, 10, "members stopped")       \
    X(LINK_CUT, 8, "links cut")                 \
    X(PAIR_KILL, 4, "nodes and members killed") \
    X(QUORUM_LOST, 2, "majorities of members lost")

enum mishap {
#define MISHAP_ENUM(name, weight, text) name,
    MISHAP_TABLE(MISHAP_ENUM)
#undef MISHAP_ENUM
        MISHAPS
};

static const struct {
    unsigned weight;
    const char *text;
} mishaps[MISHAPS] = {
#define MISHAP_ROW(name, weight, text) [name] = {weight, text},
    MISHAP_TABLE(MISHAP_ROW)
#undef MISHAP_ROW
};

static struct {
    uint64_t rounds, ops, entries, unknown, rejected, happened, runs;
    uint64_t kinds[MISHAPS];
} total;

static uint64_t below(struct nm_load *load, uint64_t n) {
    return tn_prng_below(&load->random, n);
}

/* ---- Mishaps ---- */

/* Mostly short, sometimes longer than an ownership lasts. */
static uint64_t back_at(struct nm_load *load) {
    static const uint64_t most_ms[] = {300, 300, 300, 2500, 2500, 5000};
    return nm_now_ns() + (1 + below(load, most_ms[below(load, 6)])) * MS_NS;
}

/* Picks a running node, the owner more often than not; NM_NONE: the node picked is down. */
static uint32_t node_pick(struct nm_load *load, enum mishap kind) {
    const struct nm_cluster *cluster = load->cluster;
    uint32_t n = (uint32_t)below(load, 2 * NM_NODES);
    n = n < NM_NODES && kind != STEP_DOWN ? n : cluster->owner;
    return cluster->nodes[n].back_at_ns == 0 ? n : NM_NONE;
}

static uint32_t member_pick(struct nm_load *load) {
    uint32_t i = (uint32_t)below(load, NM_MEMBERS);
    return load->cluster->member_back_ns[i] == 0 ? i : NM_NONE;
}

static enum nm_link link_pick(struct nm_load *load) {
    return (enum nm_link)(NM_LINK_HELD + below(load, 3));
}

static bool node_ends(struct nm_load *load, uint32_t n, int signal) {
    bool dropped = load->cluster->nodes[n].snapshot_taken; /* a second one lets the beginning go */
    return nm_cluster_node_end(load, n, dropped ? SIGKILL : signal, back_at(load));
}

static bool happen_to_node(struct nm_load *load, enum mishap kind, uint32_t n) {
    struct nm_cluster *cluster = load->cluster;
    uint64_t until = back_at(load);
    enum nm_link link = link_pick(load);
    switch (kind) {
    case NODE_KILL:
        return node_ends(load, n, SIGKILL);
    case NODE_TERM:
        return node_ends(load, n, SIGTERM);
    case NODE_STOP:
        nm_cluster_node_stop(cluster, n, until);
        return true;
    case STEP_DOWN:
        nm_cluster_command(cluster, n, "NODE STEP-DOWN");
        return true;
    case LINK_CUT:
        nm_cluster_link(cluster, n, (uint32_t)below(load, NM_MEMBERS), link, until);
        return true;
    default:
        for (uint32_t i = 0; i < NM_MEMBERS; i++) {
            nm_cluster_link(cluster, n, i, link, until);
        }
        return true;
    }
}

static void happen_to_member(struct nm_load *load, enum mishap kind, uint32_t member) {
    if (kind == MEMBER_STOP) {
        nm_cluster_member_stop(load->cluster, member, back_at(load));
    } else {
        nm_cluster_member_kill(load->cluster, member, back_at(load));
    }
}

static enum mishap kind_pick(struct nm_load *load) {
    unsigned sum = 0;
    for (unsigned i = 0; i < MISHAPS; i++) {
        sum += mishaps[i].weight;
    }
    unsigned dice = (unsigned)below(load, sum);
    enum mishap kind = NODE_KILL;
    while (dice >= mishaps[kind].weight) {
        dice -= mishaps[kind].weight;
        kind++;
    }
    return kind;
}

/* *ret_kind: what has happened; MISHAPS: nothing, since the victim is away already. */
static bool happen(struct nm_load *load, enum mishap *ret_kind) {
    enum mishap kind = kind_pick(load);
    uint32_t node = node_pick(load, kind);
    uint32_t member = member_pick(load);
    bool wants_node = kind <= STEP_DOWN || kind == LINK_CUT || kind == PAIR_KILL;
    bool wants_member =
        kind == MEMBER_KILL || kind == MEMBER_STOP || kind == PAIR_KILL || kind == QUORUM_LOST;
    *ret_kind = MISHAPS;
    if ((wants_node && node == NM_NONE) || (wants_member && member == NM_NONE)) {
        return true;
    }
    *ret_kind = kind;
    if (wants_member) {
        happen_to_member(load, kind, member);
    }
    uint32_t other = (member + 1) % NM_MEMBERS;
    if (kind == QUORUM_LOST && load->cluster->member_back_ns[other] == 0) {
        happen_to_member(load, below(load, 2) == 0 ? MEMBER_STOP : MEMBER_KILL, other);
    }
    return !wants_node || happen_to_node(load, kind == PAIR_KILL ? NODE_KILL : kind, node);
}

/* The third node takes none: its copy has all of the log since its last death. */
static void snapshot(struct nm_load *load) {
    uint32_t n = (uint32_t)below(load, NM_NODES - 1);
    struct nm_node *node = &load->cluster->nodes[n];
    if (node->back_at_ns == 0 && !node->snapshot_taken) {
        node->snapshot_taken = true;
        nm_cluster_command(load->cluster, n, "SNAPSHOT");
    }
}

/* ---- Rounds ---- */

static bool run_for(struct nm_load *load, uint64_t ns) {
    bool good = true;
    for (uint64_t end_ns = nm_now_ns() + ns; good && nm_now_ns() < end_ns;) {
        good = nm_load_turn(load) && nm_cluster_tend(load, nm_now_ns());
    }
    return good;
}

/* Ends all faults: within a minute, some node must own the log and answer a new write. */
static bool heal(struct nm_load *load) {
    bool good = nm_cluster_tend(load, UINT64_MAX - 1);
    uint64_t before = load->acknowledged_lsn;
    uint64_t end_ns = nm_now_ns() + SERVE_NS;
    while (good && load->acknowledged_lsn <= before) {
        good = run_for(load, 20 * MS_NS);
        if (nm_now_ns() > end_ns) {
            return nm_load_fail(load, "all is well, and nobody serves");
        }
    }
    return good;
}

static bool trouble(struct nm_load *load, uint64_t count) {
    bool good = true;
    for (uint64_t n = 0; n < count && good;) {
        enum mishap kind = MISHAPS;
        good = run_for(load, (100 + below(load, 1900)) * MS_NS) && happen(load, &kind);
        if (kind == MISHAPS) {
            continue;
        }
        total.kinds[kind]++;
        total.happened++;
        n++;
        if (n % HEAL_EVERY == 0) {
            good = good && heal(load);
            snapshot(load);
        }
    }
    return good && heal(load);
}

static bool settle(struct nm_load *load) {
    load->generating = false;
    uint64_t end_ns = nm_now_ns() + SERVE_NS;
    while (!nm_load_is_quiet(load)) {
        if (!nm_load_turn(load) || !nm_cluster_tend(load, nm_now_ns())) {
            return false;
        }
        if (nm_now_ns() > end_ns) {
            return nm_load_fail(load, "some operations get no answer");
        }
    }
    return true;
}

static void totals_add(const struct nm_load *load) {
    total.rounds++;
    total.ops += load->history.op_count;
    total.entries += load->history.entry_count;
    total.unknown += load->done.unknown;
    for (uint32_t i = 0; i < load->history.op_count; i++) {
        total.rejected += load->history.ops[i].outcome == NM_REJECTED;
    }
}

static bool play(struct nm_load *load, uint64_t seed, uint64_t count) {
    struct nm_options options = {
        .seed = seed, .clients = CLIENTS, .opids_always = true, .calm = true};
    struct nm_cluster *cluster = calloc(1, sizeof *cluster);
    assert_non_null(cluster);
    bool good = nm_load_open_cluster(load, &options, cluster) && nm_cluster_open(cluster, load);
    load->generating = true;
    good = good && trouble(load, count) && settle(load) && nm_cluster_finish(load);
    if (!good) {
        nm_history_keep(&load->history, load->why);
    }
    total.runs += cluster->runs;
    nm_cluster_close(cluster, load);
    load->cluster = NULL;
    free(cluster);
    totals_add(load);
    return good;
}

static void totals_tell(uint64_t ns) {
    fprintf(stderr,
            "%" PRIu64 " rounds, %" PRIu64 " mishaps, %" PRIu64 " operations (%" PRIu64
            " answers lost, %" PRIu64 " operations refused), %" PRIu64 " in the logs, %" PRIu64
            " runs of a sensor, %.1f s\n ",
            total.rounds, total.happened, total.ops, total.unknown, total.rejected, total.entries,
            total.runs, (double)ns / 1e9);
    for (unsigned i = 0; i < MISHAPS; i++) {
        fprintf(stderr, " %" PRIu64 " %s%s", total.kinds[i], mishaps[i].text,
                i + 1 < MISHAPS ? "," : "\n");
    }
}

static void a_cluster_is_linearizable_by_both_judges(void **state) {
    (void)state;
    struct nm_load *load = malloc(sizeof *load);
    assert_non_null(load);
    uint64_t seed = seeds_number("TENURE_SEED", 1);
    uint64_t start = nm_now_ns();
    uint64_t wanted = seeds_number("TENURE_MISHAPS", MISHAPS_SHORT);
    pid_t judge_id = 0;
    bool good = true;
    while (good && total.happened < wanted) {
        uint64_t left = wanted - total.happened;
        good = play(load, seed++, left < ROUND_MISHAPS ? left : ROUND_MISHAPS);
        good = nm_judge_wait(&judge_id) && good;
        if (good) {
            judge_id = nm_judge_begin(&load->history);
        }
        nm_load_close(load);
    }
    good = nm_judge_wait(&judge_id) && good;
    free(load);
    totals_tell(nm_now_ns() - start);
    assert_true(good);
}

static void a_kept_history_is_linearizable(void **state) {
    (void)state;
    assert_true(nm_judge_kept());
}

int main(void) {
    const struct CMUnitTest many[] = {cmocka_unit_test(a_cluster_is_linearizable_by_both_judges)};
    const struct CMUnitTest again[] = {cmocka_unit_test(a_kept_history_is_linearizable)};
    return getenv("TENURE_HISTORY") != NULL ? cmocka_run_group_tests(again, NULL, NULL)
                                            : cmocka_run_group_tests(many, NULL, NULL);
}
