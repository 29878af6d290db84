/* Three whole engines over the nodes of a group (lib/replicakit.h), in simulated time, and the judge of
 * what they do.
 *
 * An engine waits for its log. So each has a thread, which works only while the main thread waits for it:
 * one thread runs at a time, and who comes next follows from the seed. A thread that waits for an append
 * gives the turn back; it goes on when the log has answered.
 *
 * The judge sees every batch that an engine gets from its log: at recovery, as a follower, and as the
 * owner when the log says that it is stored. What must hold:
 *   - one history: a position has the same batch on all nodes, for ever, at times that never go back and
 *     are never ahead of the true time;
 *   - the ledger of that history (world.h), which the reference model judges command by command, gives
 *     the owner's answers, and at every position the state of each engine that is there;
 *   - a batch that the log has refused is not in the history; everything acknowledged is;
 *   - whoever is allowed to read as the owner sees everything acknowledged before. */
#ifndef TESTS_SIM_ENGINES_H
#define TESTS_SIM_ENGINES_H

#include <pthread.h>
#include <semaphore.h>

#include "lib/replicakit.h"
#include "sim/world.h"

#define ENGINES_BATCHES 65536u

enum engines_work { ENGINES_LEAD, ENGINES_SERVE, ENGINES_TICK, ENGINES_STEP_DOWN, ENGINES_QUIT };

struct engines_node {
    struct engines *all;
    struct group_node *node;
    struct engine *engine; /* NULL: it does not run */
    bool fresh;            /* the engine has applied something since it started */

    pthread_t thread;
    sem_t go, back;
    enum engines_work work;
    bool working; /* the work is not finished */
    bool dying;   /* the log no longer answers */

    /* The log's verbs, wrapped by those of the simulation. */
    struct log_verbs verbs;
    const struct log_verbs *inner;
    struct log_follower follower;
    const struct log_follower *inner_follower;
    const struct log_loader *inner_loader;

    /* The append in flight. */
    bool appending, answered;
    struct log_batch batch;
    log_committed *done;
    void *done_ctx;
    uint64_t answer_lsn; /* of the next command in the last batch that was answered */

    struct world_request group[WORLD_GROUP];
    uint32_t group_count, group_next;
    struct world_request more[WORLD_GROUP]; /* sent while an append is in flight */
    uint32_t joined;                        /* requests of `more` that have no answer yet */
};

/* What the log has at a position. */
struct engines_batch {
    uint64_t first_lsn, last_lsn, now_ms;
    uint32_t count, len;
    uint8_t *payload;
    /* Hash of the ledger's state after this batch; valid once the ledger has applied it. */
    uint64_t hash;
};

struct engines_refusal {
    uint64_t first_lsn, now_ms, digest;
};

struct engines {
    struct group group;
    struct world world; /* the simulation uses its ledger, generator and trace */
    struct engines_node nodes[GROUP_NODES];
    struct engines_batch *batches;
    uint32_t batch_count, batch_applied; /* batches, and how many of them the ledger has applied */
    struct engines_refusal *refusals;
    uint32_t refusal_count;
    uint64_t acknowledged_lsn;
    struct {
        uint64_t commands, refused, unknown, reads, reads_refused, states, leads, doubts;
    } counts;
};

void engines_open(struct engines *e, uint64_t seed);
void engines_close(struct engines *e);

/* Gives an engine that has nothing to do some work; it may take a while. */
void engines_work(struct engines_node *n, enum engines_work work);
/* Commands of the generator, answered when they are. */
void engines_serve(struct engines_node *n);
/* Adds commands that wait until the append in flight is answered, next to those that its answers
 * lead to. */
void engines_join(struct engines_node *n);
/* Looks at the engine's state and whether it may, as the owner. */
void engines_read(struct engines_node *n);
/* Its state is the ledger's at its position. */
void engines_compare(struct engines_node *n);
bool engines_leads(const struct engines_node *n);
/* All that was committed is everywhere. */
bool engines_are_equal(struct engines *e);

#endif
