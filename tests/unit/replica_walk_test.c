/* Which node owns a replicated log: every run of two nodes and one register, up to a depth
 * (TENURE_DEPTH), with swaps that are lost, late, left without an answer or refused for space. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "replica/replica_owner.h"

#define TTL_MS 1000u
#define STEP_MS 400u
#define DOUBT_MS 1500u
#define STATE_VERSION 7u

#define NODES 2u
#define TXNS 4u
#define HEADS 12u
#define APPENDS 2u
#define LOG_BASE 5000000u /* the log's time at the world's 0 */

enum append_state { APPEND_UNUSED, APPEND_PENDING, APPEND_OK, APPEND_NEVER, APPEND_UNKNOWN };

/* A swap on its way to the register. */
struct txn {
    bool used, told; /* told: its node has given it up */
    uint64_t number;
    enum replica_swap_kind kind;
    unsigned append;
    struct replica_head from, to;
};

struct node {
    struct replica_owner owner;
    struct txn txns[TXNS];
    uint64_t reading; /* the number of its READ; 0: none */
    unsigned seen;    /* heads that its watch has reported */
    unsigned append;  /* in flight, + 1; 0: none */
    uint64_t log_offset;
};

struct world {
    uint64_t now_ms;
    unsigned head_count;
    struct replica_head heads[HEADS]; /* all there have been; the last one is in the register */
    struct node nodes[NODES];
    struct append {
        enum append_state state;
        bool executed;
        uint64_t lsn;
    } appends[APPENDS];
    unsigned nonces;
    unsigned trouble; /* how many more things may go wrong */
    bool resigned;
};

/* The clocks of the nodes differ by an hour. */
static uint64_t boot_ms(const struct world *w, unsigned n) {
    return w->now_ms + (n == 0 ? 10000000u : 6400000u);
}

static const struct replica_head *current(const struct world *w) {
    return &w->heads[w->head_count - 1];
}

/* ---- Facts and effects ---- */

static void tell(struct world *w, unsigned n, const struct replica_fact *fact);

static void append_ends(struct world *w, unsigned n, enum tn_status status) {
    struct node *node = &w->nodes[n];
    assert_int_not_equal(node->append, 0);
    struct append *append = &w->appends[node->append - 1];
    assert_int_equal(append->state, APPEND_PENDING);
    append->state = status == TN_OK      ? APPEND_OK
                    : status == TN_DOUBT ? APPEND_UNKNOWN
                                         : APPEND_NEVER;
    node->append = 0;
    assert_true(status != TN_OK || append->executed);
    assert_true(append->state != APPEND_NEVER || !append->executed);
}

static void swap_starts(struct world *w, unsigned n, const struct replica_effect *effect) {
    struct node *node = &w->nodes[n];
    if (effect->swap_kind == REPLICA_SWAP_TAKE) { /* a node that leads must have everything */
        assert_int_equal(node->owner.applied_lsn, effect->from.lsn);
    }
    for (unsigned i = 0; i < TXNS; i++) {
        if (!node->txns[i].used) {
            node->txns[i] = (struct txn){.used = true,
                                         .number = effect->number,
                                         .kind = effect->swap_kind,
                                         .append = node->append,
                                         .from = effect->from,
                                         .to = effect->to};
            return;
        }
    }
    /* As many swaps as that may be lost on the way: the world ends this branch by treating the next
     * one as lost, too. */
}

static void carry_out(struct world *w, unsigned n, const struct replica_effects *effects) {
    struct node *node = &w->nodes[n];
    for (unsigned i = 0; i < effects->count; i++) {
        const struct replica_effect *effect = &effects->at[i];
        switch (effect->kind) {
        case REPLICA_DO_SWAP:
            swap_starts(w, n, effect);
            break;
        case REPLICA_DO_READ:
            node->reading = effect->number;
            break;
        case REPLICA_DO_LEAD:
            node->log_offset = effect->to.now_ms - effect->to.stamp_ms;
            break;
        case REPLICA_DO_FOLLOW:
            break;
        case REPLICA_DO_APPENDED:
            append_ends(w, n, effect->status);
            break;
        case REPLICA_DO_REFUSE:
            fail_msg("nothing was put back");
        }
    }
}

static void tell(struct world *w, unsigned n, const struct replica_fact *fact) {
    struct replica_effects effects;
    struct node *node = &w->nodes[n];
    struct replica_nonce nonce = {{++w->nonces, n + 1}};
    uint64_t now_ms = boot_ms(w, n);
    replica_owner_step(&node->owner, fact, now_ms, now_ms + node->log_offset, &nonce, &effects);
    carry_out(w, n, &effects);
}

static void tell_kind(struct world *w, unsigned n, enum replica_fact_kind kind) {
    struct replica_fact fact = {.kind = kind};
    tell(w, n, &fact);
}

/* A follower applies all batches up to the head that it knows. */
static bool applies(struct world *w, unsigned n) {
    struct node *node = &w->nodes[n];
    const struct replica_head *head = &node->owner.head;
    if (node->owner.role != REPLICA_FOLLOWING || node->owner.applied_lsn == head->lsn) {
        return false;
    }
    struct replica_fact fact = {
        .kind = REPLICA_FACT_APPLIED, .lsn = head->lsn, .chain = head->chain};
    tell(w, n, &fact);
    return true;
}

/* ---- What can happen ---- */

/* The register: true if the swap took place. */
static bool execute(struct world *w, const struct txn *txn) {
    if (!replica_head_equal(current(w), &txn->from)) {
        return false;
    }
    assert_true(w->head_count < HEADS);
    if (txn->kind == REPLICA_SWAP_APPEND) {
        struct append *append = &w->appends[txn->append - 1];
        assert_int_not_equal(append->state, APPEND_NEVER); /* it was promised */
        assert_false(append->executed);
        assert_int_equal(txn->to.batch, current(w)->lsn + 1);
        append->executed = true;
        append->lsn = txn->to.batch;
    }
    /* Time advances, and is never ahead of the true time. */
    assert_true(txn->to.now_ms >= current(w)->now_ms && txn->to.now_ms <= w->now_ms + LOG_BASE);
    w->heads[w->head_count++] = txn->to;
    return true;
}

static void answer(struct world *w, unsigned n, struct txn *txn, bool done) {
    struct replica_fact fact = {
        .kind = done ? REPLICA_FACT_DONE : REPLICA_FACT_FAILED,
        .number = txn->number,
        .has_head = true,
        .head = *current(w),
        .has_batch = true,
        .batch_is_mine = txn->append > 0 && w->appends[txn->append - 1].executed,
    };
    txn->used = false;
    tell(w, n, &fact);
}

enum end {
    END_ANSWERED,
    END_LATE,      /* executed long after its node has given up */
    END_UNTOLD,    /* executed, the answer is lost */
    END_OVERDUE,   /* not executed yet, the deadline has passed */
    END_LOST,      /* never executed, the deadline has passed */
    END_LATER,     /* surely not executed */
    END_FULL_DONE, /* "no space", executed anyway */
    END_FULL,      /* "no space" */
    END_COUNT
};

/* Carries out one end of a swap; false if it cannot end like that. */
static bool end_swap(struct world *w, unsigned n, unsigned i, enum end end) {
    struct txn *txn = &w->nodes[n].txns[i];
    struct txn copy = *txn;
    if (!txn->used || (end == END_LATE) != txn->told || (end > END_LATE && w->trouble == 0)) {
        return false;
    }
    if (end > END_LATE) {
        w->trouble--;
    }
    if (end == END_ANSWERED) {
        answer(w, n, txn, execute(w, &copy));
        return true;
    }
    if (end == END_LATE || end == END_UNTOLD || end == END_FULL_DONE) {
        (void)execute(w, &copy);
    }
    txn->used = end == END_OVERDUE;
    txn->told = true;
    if (end != END_LATE) {
        struct replica_fact fact = {.kind = end == END_LATER       ? REPLICA_FACT_LATER
                                            : end >= END_FULL_DONE ? REPLICA_FACT_NOSPACE
                                                                   : REPLICA_FACT_DOUBT,
                                    .number = copy.number};
        tell(w, n, &fact);
    }
    return true;
}

static void pass_time(struct world *w) {
    w->now_ms += STEP_MS;
    for (unsigned n = 0; n < NODES; n++) {
        tell_kind(w, n, REPLICA_FACT_TICK);
    }
}

static bool watch_tells(struct world *w, unsigned n) {
    struct node *node = &w->nodes[n];
    if (node->seen == w->head_count) {
        return false;
    }
    struct replica_fact fact = {
        .kind = REPLICA_FACT_SEEN, .has_head = true, .head = w->heads[node->seen++]};
    tell(w, n, &fact);
    return true;
}

static bool read_ends(struct world *w, unsigned n, bool good) {
    struct node *node = &w->nodes[n];
    if (node->reading == 0 || (!good && w->trouble == 0)) {
        return false;
    }
    w->trouble -= !good;
    struct replica_fact fact = {
        .kind = good ? REPLICA_FACT_READ : REPLICA_FACT_UNREAD,
        .number = node->reading,
        .has_head = true,
        .head = *current(w),
        .has_batch = true,
        .batch_is_mine = node->append > 0 && w->appends[node->append - 1].executed,
    };
    node->reading = 0;
    tell(w, n, &fact);
    return true;
}

static bool append_starts(struct world *w, unsigned n) {
    struct node *node = &w->nodes[n];
    unsigned i = 0;
    while (i < APPENDS && w->appends[i].state != APPEND_UNUSED) {
        i++;
    }
    if (i == APPENDS || node->append != 0 || !replica_owner_owns(&node->owner, boot_ms(w, n))) {
        return false;
    }
    uint64_t lsn = node->owner.head.lsn + 1;
    uint64_t now_ms = boot_ms(w, n) + node->log_offset;
    w->appends[i].state = APPEND_PENDING;
    node->append = i + 1;
    struct replica_fact fact = {
        .kind = REPLICA_FACT_APPEND,
        .append = {
            .first_lsn = lsn, .last_lsn = lsn, .now_ms = now_ms, .chain = tn_mix64(lsn * 100 + i)}};
    tell(w, n, &fact);
    return true;
}

static bool resigns(struct world *w, unsigned n) {
    struct node *node = &w->nodes[n];
    if (w->resigned || node->append != 0 || node->owner.role != REPLICA_OWNING) {
        return false;
    }
    w->resigned = true;
    tell_kind(w, n, REPLICA_FACT_RESIGN);
    return true;
}

/* Move `m` of all there are; false if it is not possible now. */
#define MOVES (1 + NODES * (6 + TXNS * END_COUNT))

static bool move(struct world *w, unsigned m) {
    if (m == 0) {
        pass_time(w);
        return w->now_ms < 100000;
    }
    unsigned n = (m - 1) / (6 + TXNS * END_COUNT);
    unsigned what = (m - 1) % (6 + TXNS * END_COUNT);
    switch (what) {
    case 0:
        return watch_tells(w, n);
    case 1:
        return read_ends(w, n, true);
    case 2:
        return read_ends(w, n, false);
    case 3:
        return append_starts(w, n);
    case 4:
        return resigns(w, n);
    case 5:
        return applies(w, n);
    default:
        return end_swap(w, n, (what - 6) / END_COUNT, (enum end)((what - 6) % END_COUNT));
    }
}

/* ---- The walk ---- */

#define VISITED_MAX (1u << 22)

struct walk {
    uint64_t *visited; /* hashes of worlds, with the depth that was left */
    uint64_t worlds;
    uint64_t takeovers, acknowledged, never, unknown;
};

static uint64_t world_hash(const struct world *w) {
    struct world copy = *w;
    copy.nonces = 0;
    return tn_hash64(&copy, sizeof copy, 1) | 1;
}

/* True if it is new, or was met with less depth left. */
static bool is_new(struct walk *walk, uint64_t hash, unsigned depth) {
    uint64_t key = (hash & ~(uint64_t)63) | depth;
    uint64_t at = hash >> 20;
    for (unsigned probe = 0; probe < 64; probe++, at++) {
        uint64_t *slot = &walk->visited[at % VISITED_MAX];
        if (*slot == 0) {
            *slot = key;
            return true;
        }
        if ((*slot & ~(uint64_t)63) == (hash & ~(uint64_t)63)) {
            bool deeper = (*slot & 63) < depth;
            *slot = deeper ? key : *slot;
            return deeper;
        }
    }
    return true; /* the table is full here: walk it again */
}

static void check(const struct world *w) {
    bool both = true;
    for (unsigned n = 0; n < NODES; n++) {
        both &= replica_owner_owns(&w->nodes[n].owner, boot_ms(w, n));
        assert_int_not_equal(w->nodes[n].owner.role, REPLICA_HALTED);
    }
    assert_false(both);
    for (unsigned i = 0; i < APPENDS; i++) {
        assert_true(w->appends[i].state != APPEND_OK || w->appends[i].executed);
        assert_true(w->appends[i].state != APPEND_NEVER || !w->appends[i].executed);
    }
}

static void count(struct walk *walk, const struct world *w) {
    walk->worlds++;
    walk->takeovers += current(w)->epoch > 1;
    for (unsigned i = 0; i < APPENDS; i++) {
        walk->acknowledged += w->appends[i].state == APPEND_OK;
        walk->never += w->appends[i].state == APPEND_NEVER;
        walk->unknown += w->appends[i].state == APPEND_UNKNOWN;
    }
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as the walk
static void walk_from(struct walk *walk, const struct world *w, unsigned depth) {
    check(w);
    if (depth == 0 || w->head_count + TXNS >= HEADS || !is_new(walk, world_hash(w), depth)) {
        return;
    }
    count(walk, w);
    for (unsigned m = 0; m < MOVES; m++) {
        struct world next = *w;
        if (move(&next, m)) {
            walk_from(walk, &next, depth - 1);
        }
    }
}

/* Node 0 owns the log; node 1 follows and knows the head. */
static void world_begin(struct world *w) {
    memset(w, 0, sizeof *w);
    struct replica_head head;
    memset(&head, 0, sizeof head);
    head.state_version = STATE_VERSION;
    head.flags = REPLICA_RESIGNED;
    head.now_ms = LOG_BASE;
    w->heads[w->head_count++] = head;
    for (unsigned n = 0; n < NODES; n++) {
        struct replica_owner_options options = {
            .ttl_ms = TTL_MS, .doubt_ms = DOUBT_MS, .state_version = STATE_VERSION};
        options.node[0] = (uint8_t)('a' + n);
        replica_owner_begin(&w->nodes[n].owner, &options, boot_ms(w, n));
        w->nodes[n].log_offset = LOG_BASE - boot_ms(w, n);
    }
    (void)watch_tells(w, 0);
    tell_kind(w, 0, REPLICA_FACT_TICK); /* resigned: it takes over at once */
    assert_int_equal(w->nodes[0].owner.role, REPLICA_TAKING);
    assert_true(end_swap(w, 0, 0, END_ANSWERED));
    assert_true(replica_owner_owns(&w->nodes[0].owner, boot_ms(w, 0)));
    (void)watch_tells(w, 1);
    (void)watch_tells(w, 1);
    (void)watch_tells(w, 0);
}

static void no_run_has_two_owners_or_a_false_answer(void **state) {
    struct world w;
    struct walk walk = {.visited = calloc(VISITED_MAX, sizeof(uint64_t))};
    (void)state;
    assert_non_null(walk.visited);
    const char *depth = getenv("TENURE_DEPTH");
    world_begin(&w);
    w.trouble = 3;
    walk_from(&walk, &w, depth != NULL ? (unsigned)strtoul(depth, NULL, 10) : 9);
    printf("%llu worlds: %llu after a takeover, acknowledged %llu, never %llu, unknown %llu\n",
           (unsigned long long)walk.worlds, (unsigned long long)walk.takeovers,
           (unsigned long long)walk.acknowledged, (unsigned long long)walk.never,
           (unsigned long long)walk.unknown);
    assert_true(walk.takeovers > 0 && walk.acknowledged > 0 && walk.never > 0);
    free(walk.visited);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_run_has_two_owners_or_a_false_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
