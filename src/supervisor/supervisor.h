/* The supervisor: runs each sensor that is wanted, stops each that is not.
 *
 * It is outside of the engine's state: it reads sensors, learns of changes through the feed, and acts by
 * commands. The plan of each sensor (plan.h) decides what to do next; the supervisor collects facts and
 * carries out effects: requests to the engine, tokens, runs (run.h), checks (run_health.h), log lines and
 * events.
 *
 * A run holds a lease on SENSOR in the internal pool `sensors`, which the first run creates and in which
 * only the supervisor may allocate. So a sensor has one run at a time, and the lease's epoch fences off
 * all earlier runs.
 *
 * All calls belong to the loop's thread, except the feed, which the engine calls. */
#ifndef TN_SUPERVISOR_SUPERVISOR_H
#define TN_SUPERVISOR_SUPERVISOR_H

#include <pthread.h>
#include <uv.h>

#include "engine/engine.h"
#include "process/sensor_spec.h"
#include "supervisor/plan.h"
#include "token/token_issuer.h"

#define SUPERVISOR_USER "tenure:supervisor" /* of its commands; no user's name has a colon */
#define SUPERVISOR_HOLDER "sensor/"         /* and the sensor's reference: of its leases */
#define SUPERVISOR_ERROR_MAX 256u
#define SUPERVISOR_BUCKETS 7u

struct supervisor;

/* ---- From the engine ---- */

/* Watches an engine, from supervisor_feed_attach until the engine is closed. */
struct supervisor_feed {
    struct engine_watcher watcher;
    pthread_mutex_t lock; /* everything below */
    struct supervisor *supervisor;
    struct supervisor_notice *notices; /* a ring */
    uint64_t *waiting;                 /* by hash: the place of a notice that may still be in it */
    uint64_t first;                    /* places are counted on, never back */
    uint32_t count;
    uint32_t missed; /* there were too many: everything is to be read anew */
    struct supervisor_ask *done;
};

void supervisor_feed_init(struct supervisor_feed *feed);
void supervisor_feed_free(struct supervisor_feed *feed);
/* Before the first command that could change a sensor. */
void supervisor_feed_attach(struct supervisor_feed *feed, struct engine *engine);
engine_watch supervisor_feed_watch;

/* ---- Opening and closing ---- */

/* A node of a cluster, during one ownership of the log. */
struct supervisor_cluster {
    const char *node;                   /* its name; NULL: there is no cluster */
    uint8_t boot_id[LOG_BOOT_ID_BYTES]; /* of this machine */
    uint64_t epoch;                     /* of the ownership */
    /* In boot time: when the runs of all other nodes are taken for dead, since they have lost the log and
     * their guardians have had time to kill them. UINT64_MAX: never by time. */
    uint64_t abroad_gone_at_ms;
};

/* Strings are the caller's and stay. */
struct supervisor_options {
    uv_loop_t *loop;
    struct engine *engine;
    struct supervisor_feed *feed;
    struct token_issuer *tokens;
    const struct os *os;
    const char *dir;      /* where runs have their records, tokens and output */
    const char *url;      /* of the HTTP listener, for sensors; NULL: off */
    const char *guardian; /* the program; NULL or empty: where run_guardian_find finds it */
    const char *cgroup;   /* for runs; NULL or empty: below our own, if that was delegated to us */
    struct sensor_defaults defaults;
    struct supervisor_cluster cluster;
    bool idle;     /* starts nothing; only ends the runs that an earlier server left */
    uint64_t seed; /* of the jitter */
    void (*log)(const char *line); /* event=... key=value */
};

/* Ends the runs that an earlier server left and starts the wanted sensors. Call it before the loop runs.
 * If it cannot do its work, a log line says why: without a guardian it is idle; with an unreadable
 * directory it only revokes the leases of earlier runs, whose death it cannot prove. NULL: no memory. */
struct supervisor *supervisor_open(const struct supervisor_options *options);

/* Stops every sensor: revoked, SIGTERM, SIGKILL after its stop_seconds, reclaimed; or, if the engine
 * has halted, without the engine. Then `closed` is called, once, also if that takes longer than it
 * may (the longest stop_seconds and SUPERVISOR_CLOSE_MS): then the guardians see to the rest. */
#define SUPERVISOR_CLOSE_MS 10000u
void supervisor_close(struct supervisor *supervisor, void (*closed)(void *ctx), void *ctx);
/* After `closed`: whether nothing of it lives. Runs that did not stop in time still refer to it. */
bool supervisor_is_done(const struct supervisor *supervisor);
/* After `closed`, when it is done or the loop does not run any more. NULL is fine. */
void supervisor_free(struct supervisor *supervisor);

/* The engine has halted: nothing can be committed any more. Sensors are stopped without it. */
void supervisor_halt(struct supervisor *supervisor);

/* ---- Status; all functions accept NULL for a supervisor that is off ---- */

struct supervisor_status {
    enum plan_state state;
    int64_t pid; /* 0: none */
    bool has_lease;
    struct kernel_lease_id lease; /* of this run, or the one that is being ended */
    uint64_t epoch;
    uint64_t starts, stops, crashes, restarts, emitted;
    uint64_t started_ms; /* since 1970, as the log counts it; 0: it does not run */
    uint64_t uptime_ms;
    uint64_t token_expires_s; /* since 1970; 0: there is none */
    bool has_exit;            /* of the last run: code, or if that is -1 the signal */
    int exit_code, exit_signal;
    enum plan_reason last_reason; /* why the last run ended; NONE: there was none */
    /* The name of the proof of death that the run will have (run_record.h); "none" if there is none. NULL:
     * there is no run, or it is unknown. */
    const char *proof;
    uint32_t failures; /* crashes in a row */
    bool has_next;     /* of backoff: when it is tried again */
    uint64_t next_in_ms;
    char last_error[SUPERVISOR_ERROR_MAX]; /* in words; empty: none */
};

/* False: it does not supervise such a sensor. If it does not even know it, there is no run of it
 * either, and *ret_status is left alone. */
bool supervisor_status(struct supervisor *supervisor, struct tn_bytes ref,
                       struct supervisor_status *ret_status);

/* OK; NOTFOUND: there is no such sensor; STATE: its state does not allow it (reset of a sensor that is
 * neither in error nor in backoff nor unproven, restart of one that is not wanted). By the reset of an
 * unproven run the operator vouches that nothing of it lives. */
enum tn_result supervisor_reset(struct supervisor *supervisor, struct tn_bytes ref);
enum tn_result supervisor_restart(struct supervisor *supervisor, struct tn_bytes ref);

/* All earlier tokens are void: every running sensor gets a new one. */
void supervisor_tokens_void(struct supervisor *supervisor);

/* By the token of the run, which the caller has judged: false if this is not the run that lives. */
bool supervisor_heartbeat(struct supervisor *supervisor, struct kernel_lease_id lease,
                          uint64_t epoch);
void supervisor_emitted(struct supervisor *supervisor, struct kernel_lease_id lease,
                        uint64_t epoch);

struct supervisor_totals {
    bool on;           /* it supervises */
    bool orphans_gone; /* no run of an earlier server on this node lives, except unproven ones */
    uint64_t starts, stops, crashes, restarts;
    uint64_t tokens_issued, tokens_revoked, emitted;
    uint64_t by_state[PLAN_STATES];
    uint64_t unproven; /* stopping, and nothing proves their runs dead */
    /* Restarts by their number in a row: up to supervisor_bucket(i); the last bucket: more. */
    uint64_t attempts[SUPERVISOR_BUCKETS + 1];
    uint64_t attempts_sum;
};

void supervisor_totals(const struct supervisor *supervisor, struct supervisor_totals *ret_totals);
/* 1, 2, 3, 5, 8, 13, 21. */
uint32_t supervisor_bucket(unsigned bucket);

/* Where the output of sensors is: for run_output.h. */
const char *supervisor_dir(const struct supervisor *supervisor);
/* The defaults for descriptions. */
const struct sensor_defaults *supervisor_defaults(const struct supervisor *supervisor);
/* Replaces the defaults. Running sensors keep their programs; the new times for stopping, settling and
 * restarting apply at once. The texts belong to the caller and must stay. */
void supervisor_defaults_set(struct supervisor *supervisor, const struct sensor_defaults *defaults);

#endif
