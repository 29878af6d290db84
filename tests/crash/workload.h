/* Workloads whose every file operation is on a tape, and the ways to start from a disk that a crash
 * left. All follow from the seed. */
#ifndef TESTS_CRASH_WORKLOAD_H
#define TESTS_CRASH_WORKLOAD_H

#include "crash/image.h"
#include "crash/ledger.h"
#include "engine/events.h"

/* The name on a command line, and whether one of the calls fails. */
#define WORKLOAD_TABLE(X)      \
    X(LOG, "log", false)       \
    X(FAULT, "fault", true)    \
    X(ENGINE, "engine", false) \
    X(BROKEN, "broken", true)  \
    X(KEYS, "keys", false)     \
    X(BADKEYS, "badkeys", true)

enum workload_kind {
#define WORKLOAD_ENUM(name, text, faulty) WORKLOAD_##name,
    WORKLOAD_TABLE(WORKLOAD_ENUM)
#undef WORKLOAD_ENUM
        WORKLOAD_COUNT
};

const char *workload_name(enum workload_kind kind);
bool workload_faulty(enum workload_kind kind);

struct workload_fact {
    struct engine_event_id id;
    uint64_t digest;
};

struct workload_state {
    uint64_t batches; /* hash of all batches */
    uint64_t state;
};

struct workload {
    enum workload_kind kind;
    uint64_t seed;
    struct tape *tape;
    struct ledger ledger;
    /* Of the engine: the state after what the log held, and everything that happened. */
    struct workload_state *states;
    size_t state_count, state_capacity;
    struct workload_fact *facts;
    size_t fact_count, fact_capacity;
    char wrong[700]; /* not empty: something was wrong before any crash */
};

/* Runs it to its end. */
void workload_run(struct workload *work, enum workload_kind kind, uint64_t seed);
/* Another life, of a log: a few batches, and a clean close. */
void workload_close_cleanly(struct workload *work);
void workload_free(struct workload *work);

/* How to start. */
enum workload_start {
    START_NORMAL = 'n',
    START_OLDER = 'o',  /* with use_older_snapshot */
    START_APPEND = 'a', /* START_NORMAL, then more writes */
    START_ENGINE = 'e', /* with the engine: the state and the events must be right, too */
    START_CHECK = 'c',  /* no start: what `tenure check` reads, and it changes nothing */
    START_AGAIN = 'g',  /* twice, the first process having died right after its start */
};

/* One start on a tape whose disk is a state after a crash. The ledger is a fork for this start,
 * which extends it. False: something is wrong, and *ret_text says what. */
struct workload_result {
    size_t loaded;
    uint64_t hash; /* of the batches loaded */
    char text[700];
};
bool workload_start(const struct workload *work, struct tape *tape, struct ledger *ledger,
                    enum workload_start start, struct workload_result *ret_result);

#endif
