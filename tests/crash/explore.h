/* Every state that a crash may leave, at every point of a workload, and a start from each.
 *
 * At each operation of the tape: if what the crash decides has few outcomes, all of them; else a sample
 * that the seed gives, with nothing kept, everything kept, one thing kept or lost, a first part,
 * any selection, garbage. States with the same contents are started from once, but judged by what
 * was acknowledged at each point where they can be left. Starts write, too: of some of them the tape
 * is explored in turn, and of some of those again.
 *
 * A state has a name from which it can be made again:
 *
 *     log/17/w230:1~4/n12:01/o
 *
 * the workload and its seed; the operation where the power went, and the picks (after.h), `1~4` being
 * 1111; a start (workload.h) from what that left, cut at its operation 12; and the start that went
 * wrong. */
#ifndef TESTS_CRASH_EXPLORE_H
#define TESTS_CRASH_EXPLORE_H

#include "crash/workload.h"

struct explore_options {
    size_t combinations_max; /* up to this number all combinations are tried; above it: */
    size_t samples;
    unsigned depth;     /* starts that are themselves cut, one inside the other */
    unsigned nested_in; /* one in so many distinct states */
    unsigned older_in;  /* the same for other ways to start */
    unsigned check_in;
    unsigned again_in;
    unsigned engine_in;
    uint64_t deadline_ms; /* by the real clock; 0: none */
};

struct explore_stats {
    uint64_t states;   /* with repetitions */
    uint64_t distinct; /* started from */
    uint64_t nested;   /* distinct states that a crash of a start has left */
    uint64_t starts;   /* in all ways */
    uint64_t engines;
    uint64_t operations;
    uint64_t workloads;
};

/* False: something is wrong; a message with the state's name is on standard error. */
bool explore_workload(enum workload_kind kind, uint64_t seed, const struct explore_options *options,
                      struct explore_stats *stats);

/* Starts from one state and says what happens. */
bool explore_replay(const char *name);

#endif
