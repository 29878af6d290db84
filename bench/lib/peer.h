/* A server or library that Tenure is compared with, and the clients that drive it.
 *
 * A peer is one file, peer_NAME.c, that keeps leases in the way that suits it best: one round trip
 * a step, prepared or precompiled statements, indexes, every step on disk before its answer. Like
 * the scripts of Redis, peers keep a value's holder, fencing token and deadline, and nothing else
 * that Tenure keeps. */
#ifndef TN_BENCH_PEER_H
#define TN_BENCH_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "turns.h"
#include "work.h"

/* The pools, the same for every peer and for Tenure. */
enum peer_pool {
    PEER_EMPTY,
    PEER_FULL,  /* 99 % held */
    PEER_ONE,   /* a single value */
    PEER_SMALL, /* 10 thousand held */
    PEER_LARGE, /* 1 million held */
    PEER_PART,  /* the first of the three of WORK_BUNDLE */
    PEER_POOLS = PEER_PART + WORK_BUNDLE_POOLS,
};
extern struct work_pool peer_pools[PEER_POOLS];

struct peer_case {
    const char *name;
    enum work work;
    enum peer_pool pool;
    uint32_t clients, depth;
    bool insert; /* SQL: a conditional insert instead of SKIP LOCKED */
};

struct peer {
    const char *name;    /* as in bench/rows.tsv */
    const char *package; /* Debian's */
    bool (*start)(void); /* false: the package is not installed */
    void (*stop)(void);
    void (*fill)(enum peer_pool pool);
    struct side (*open)(const struct peer_case *c, uint64_t *grants);
    const struct peer_case *cases; /* the last one has no name */
};

extern const struct peer peer_redis, peer_postgresql, peer_mariadb, peer_etcd, peer_sqlite;

/* Tenure's side: its server, and the library in this process. */
void peer_tenure_start(void);
void peer_tenure_stop(void);
void peer_tenure_fill(enum peer_pool pool);
struct side peer_tenure_open(const struct peer_case *c, uint64_t *grants);
void peer_library_start(void);
void peer_library_stop(void);
void peer_library_fill(enum peer_pool pool);
struct side peer_library_open(const struct peer_case *c, uint64_t *grants);

/* ---- Clients ---- */

enum peer_outcome {
    PEER_DONE,
    PEER_REFUSED, /* the value is taken, which is an answer; step 0 only */
    PEER_AGAIN,   /* the lane must try another value, which is none */
};

/* One client. It goes from step 0 (a grant) to step 1 (a release, or a renewal) and back. */
struct peer_lane {
    struct peer_session *session;
    uint32_t index, step;
    enum peer_outcome outcome; /* the peer's, until it calls peer_answered */
    bool whole;                /* looks for a free value from the beginning of the pool */
    char holder[24];
    uint64_t value, token;
    uint32_t values[WORK_BUNDLE_VALUES]; /* values of a bundle, by pool */
    uint64_t due_ns;
};

struct peer_session;
struct peer_verbs {
    /* Sends the lane's next step. */
    void (*submit)(void *ctx, struct peer_lane *lane);
    /* Waits for answers, and calls peer_answered for each. */
    void (*poll)(void *ctx);
    void (*close)(void *ctx);
};

struct peer_session {
    const struct peer_verbs *verbs;
    void *ctx;
    struct peer_case work;
    struct peer_lane *lanes;
    uint32_t lane_count;
    uint64_t under_way, count;
    uint64_t *grants;
    bool sending;
    struct load_histogram *histogram;
    uint64_t random;
};

/* The session belongs to the side; closing it closes ctx. */
struct peer_session *peer_session_make(const struct peer_verbs *verbs, void *ctx,
                                       const struct peer_case *c, uint64_t *grants);
struct side peer_side(struct peer_session *session);

/* The lane has its answer and continues, with the next step if this one is done. */
void peer_answered(struct peer_lane *lane, enum peer_outcome outcome);

/* Numbers for requests: a value of the pool to try or to begin with; a deadline, always a later one. */
uint32_t peer_candidate(struct peer_lane *lane, enum peer_pool pool);
uint64_t peer_due_ms(void);

_Noreturn void peer_die(const char *who, const char *why);
/* Zeroed. */
void *peer_memory(size_t count, size_t size);

#endif
