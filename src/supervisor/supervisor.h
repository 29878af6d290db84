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

/* The user of its commands; names of other users have no colon. */
#define SUPERVISOR_USER "tenure:supervisor"
/* The holder of its leases, with the sensor's reference appended. */
#define SUPERVISOR_HOLDER "sensor/"
#define SUPERVISOR_ERROR_MAX 256u
#define SUPERVISOR_BUCKETS 7u

struct supervisor;

/* ---- From the engine ---- */

/* Watches an engine from supervisor_feed_attach until the engine is closed. */
struct supervisor_feed {
    struct engine_watcher watcher;
    pthread_mutex_t lock; /* everything below */
    struct supervisor *supervisor;
    struct supervisor_notice *notices; /* a ring */
    uint64_t *waiting; /* by hash: the place of a notice that may still be in the ring */
    uint64_t first;    /* places are numbered and never reused */
    uint32_t count;
    uint32_t missed; /* notices were dropped: everything must be read again */
    struct supervisor_ask *done;
};

void supervisor_feed_init(struct supervisor_feed *feed);
void supervisor_feed_free(struct supervisor_feed *feed);
/* Must be called before the first command that could change a sensor. */
void supervisor_feed_attach(struct supervisor_feed *feed, struct engine *engine);
engine_watch supervisor_feed_watch;

/* ---- Opening and closing ---- */

/* A node of a cluster during one ownership of the log. */
struct supervisor_cluster {
    const char *node;                   /* name of the node; NULL: no cluster */
    uint8_t boot_id[LOG_BOOT_ID_BYTES]; /* of this machine */
    uint64_t epoch;                     /* of the ownership */
    /* In boot time: when the runs of all other nodes count as dead, because those nodes have lost
     * the log and their guardians have had the time to end them. UINT64_MAX: never by time. */
    uint64_t abroad_gone_at_ms;
};

/* The caller owns the strings, which must stay valid. */
struct supervisor_options {
    uv_loop_t *loop;
    struct engine *engine;
    struct supervisor_feed *feed;
    struct token_issuer *tokens;
    const struct os *os;
    const char *dir; /* the directory of the runs' records, tokens and output */
    const char *url; /* of the HTTP listener, for sensors; NULL: there is none */
    /* The guardian program; NULL or empty: where run_guardian_find finds it. */
    const char *guardian;
    /* For runs; NULL or empty: below this process's own, if that was delegated to it. */
    const char *cgroup;
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
/* Called after `closed`: whether nothing of it is alive. Runs that did not stop in time still refer
 * to it. */
bool supervisor_is_done(const struct supervisor *supervisor);
/* Called after `closed`, when it is done or the loop has ended. NULL is allowed. */
void supervisor_free(struct supervisor *supervisor);

/* The engine has halted, so nothing can be committed any more: stops the sensors without it. */
void supervisor_halt(struct supervisor *supervisor);
/* It was, or a command of its own was answered so. */
bool supervisor_is_halted(const struct supervisor *supervisor);

/* ---- Status; all functions accept NULL for a supervisor that is off ---- */

struct supervisor_status {
    enum plan_state state;
    int64_t pid; /* 0: none */
    bool has_lease;
    struct kernel_lease_id lease; /* of this run, or of the one being ended */
    uint64_t epoch;
    uint64_t starts, stops, crashes, restarts, emitted;
    uint64_t started_ms; /* in ms since 1970, in the log's time; 0: the sensor does not run */
    uint64_t uptime_ms;
    uint64_t token_expires_s; /* in seconds since 1970; 0: there is no token */
    bool has_exit;            /* of the last run: the exit code, or the signal if that is -1 */
    int exit_code, exit_signal;
    enum plan_reason last_reason; /* why the last run ended; NONE: there was no run */
    /* The name of the proof of death that the run will have (run_record.h); "none" if there is none. NULL:
     * there is no run, or it is unknown. */
    const char *proof;
    uint32_t failures; /* crashes in a row */
    bool has_next;     /* in the state backoff: when the next attempt is */
    uint64_t next_in_ms;
    char last_error[SUPERVISOR_ERROR_MAX]; /* as text; empty: none */
};

/* False: the supervisor has no such sensor. If it has never heard of it, it has no run of it
 * either, and *ret_status is unchanged. */
bool supervisor_status(struct supervisor *supervisor, struct tn_bytes ref,
                       struct supervisor_status *ret_status);

/* OK; NOTFOUND: there is no such sensor; STATE: its state does not allow it (reset of a sensor that is
 * neither in error nor in backoff nor unproven, restart of one that is not wanted). By the reset of an
 * unproven run the operator vouches that nothing of it lives. */
enum tn_result supervisor_reset(struct supervisor *supervisor, struct tn_bytes ref);
enum tn_result supervisor_restart(struct supervisor *supervisor, struct tn_bytes ref);

/* All earlier tokens are void: gives every running sensor a new one. */
void supervisor_tokens_void(struct supervisor *supervisor);

/* A heartbeat of the run whose token the caller has judged. False: that run is not the live one. */
bool supervisor_heartbeat(struct supervisor *supervisor, struct kernel_lease_id lease,
                          uint64_t epoch);
void supervisor_emitted(struct supervisor *supervisor, struct kernel_lease_id lease,
                        uint64_t epoch);

struct supervisor_totals {
    bool on;           /* it supervises */
    bool orphans_gone; /* no run of an earlier server on this node is alive, except unproven ones */
    uint64_t starts, stops, crashes, restarts;
    uint64_t tokens_issued, tokens_revoked, emitted;
    uint64_t by_state[PLAN_STATES];
    uint64_t unproven; /* sensors in the state stopping whose runs nothing proves dead */
    /* Restarts by their number in a row, up to supervisor_bucket(i); the last bucket has the
     * rest. */
    uint64_t attempts[SUPERVISOR_BUCKETS + 1];
    uint64_t attempts_sum;
};

void supervisor_totals(const struct supervisor *supervisor, struct supervisor_totals *ret_totals);
/* 1, 2, 3, 5, 8, 13, 21. */
uint32_t supervisor_bucket(unsigned bucket);

/* The directory with the output of sensors, for run_output.h. */
const char *supervisor_dir(const struct supervisor *supervisor);
/* The defaults for descriptions. */
const struct sensor_defaults *supervisor_defaults(const struct supervisor *supervisor);
/* Replaces the defaults. Running sensors keep their programs; new times for stopping, settling and
 * restarting apply at once. The caller owns the texts, which must stay valid. */
void supervisor_defaults_set(struct supervisor *supervisor, const struct sensor_defaults *defaults);

#endif
