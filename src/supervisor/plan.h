/* The plan of one sensor: what its supervisor does next. Pure: time and facts come in, effects go
 * out; no clock, no engine, no process, no allocation. One seed and the same facts give the same
 * effects.
 *
 *              wanted, settled            answer        answer          it runs
 *     IDLE --------------------> ALLOCATING --> ISSUING --> LAUNCHING --> RUNNING
 *      ^  ^                          |             |            |            |
 *      |  |  refused                 |             |   not wanted, changed, crashed, unhealthy,
 *      |  +------------- WAITING <---+             |   lease lost, shutdown, halted
 *      |                  ^                        v            v            v
 *      +------------------+------------------------------- ENDING <----------+
 *      |  lease ended and all of it dead           |
 *      +--- reset, new rule --- FAILED <-----------+ crashed too often
 *
 * A run that an earlier server process left and that nothing proves dead stays in ENDING: its token is
 * revoked, its lease is not reclaimed, and nothing is started, until RESET, with which an operator vouches
 * that it is dead.
 *
 * IDLE shows as stopped, ALLOCATING to LAUNCHING as starting, ENDING as stopping, WAITING as backoff,
 * FAILED as error.
 *
 * ENDING has two parallel tracks. The lease is revoked (repeatedly, until that is committed) and, once
 * nothing of the run lives, reclaimed. The run gets SIGTERM after any answer to the revoke, or after
 * PLAN_PATIENCE_MS without one, and SIGKILL stop_ms later; the remains of a crashed run get SIGKILL at
 * once. So a full disk, which takes no revoke, delays no run's end; the resource stays taken until the
 * revoke and the reclaim are committed.
 *
 * With exit_first a run that is asked to stop gets SIGTERM at once and keeps its token: the lease is
 * revoked when the main process has exited, and at the latest stop_ms later, before SIGKILL, which
 * waits for the answer as SIGTERM does otherwise.
 *
 * Settling. A change of demand or description opens a window of settle_ms; at its end the plan acts on
 * the latest state. Changes during the window do not prolong it.
 *
 * Invariants, asserted
 *   1  START only with an active lease, a token for it and nothing left of any run before
 *   2  RECLAIM only when its revoke was committed and nothing of the run lives, by proof or by an
 *      operator's word
 *   3  ALLOC only when there is no lease and nothing of a run
 *   4  SIGTERM and SIGKILL only to a run that was started and is not gone
 *   5  after HALT nothing is asked of the engine any more
 *   6  SIGKILL only when the revoke was asked for, or after HALT */
#ifndef TN_SUPERVISOR_PLAN_H
#define TN_SUPERVISOR_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/prng.h"
#include "kernel/result.h"

#define PLAN_NEVER UINT64_MAX
#define PLAN_PATIENCE_MS 5000u
#define PLAN_NO_STATUS (-1) /* status of a run whose end was not seen */

/* The states that users see. */
#define PLAN_STATE_TABLE(X) \
    X(STOPPED, "stopped")   \
    X(STARTING, "starting") \
    X(RUNNING, "running")   \
    X(STOPPING, "stopping") \
    X(BACKOFF, "backoff")   \
    X(ERROR, "error")

enum plan_state {
#define PLAN_STATE_ENUM(id, name) PLAN_STATE_##id,
    PLAN_STATE_TABLE(PLAN_STATE_ENUM)
#undef PLAN_STATE_ENUM
        PLAN_STATES
};

/* The phases: name, the state shown for it, and the phases that may follow. */
/* clang-format off */
#define PLAN_PHASE_TABLE(X) \
    X(IDLE,       "idle",       STOPPED,  PLAN_TO(ALLOCATING) | PLAN_TO(ENDING) | PLAN_TO(FAILED)) \
    X(ALLOCATING, "allocating", STARTING, PLAN_TO(ISSUING) | PLAN_TO(ENDING) | PLAN_TO(WAITING) | PLAN_TO(IDLE)) \
    X(ISSUING,    "issuing",    STARTING, PLAN_TO(LAUNCHING) | PLAN_TO(ENDING)) \
    X(LAUNCHING,  "launching",  STARTING, PLAN_TO(RUNNING) | PLAN_TO(ENDING)) \
    X(RUNNING,    "running",    RUNNING,  PLAN_TO(ENDING)) \
    X(ENDING,     "ending",     STOPPING, PLAN_TO(IDLE) | PLAN_TO(WAITING) | PLAN_TO(FAILED)) \
    X(WAITING,    "waiting",    BACKOFF,  PLAN_TO(IDLE)) \
    X(FAILED,     "failed",     ERROR,    PLAN_TO(IDLE))
/* clang-format on */

enum plan_phase {
#define PLAN_PHASE_ENUM(id, name, state, next) PLAN_##id,
    PLAN_PHASE_TABLE(PLAN_PHASE_ENUM)
#undef PLAN_PHASE_ENUM
        PLAN_PHASES
};

/* Why a run ends. The words are those of the event sensor.stopped. */
#define PLAN_REASON_TABLE(X)                                                      \
    X(NONE, "none")                                                               \
    X(NO_RULES, "no_rules")                                                       \
    X(DISABLED, "disabled")                                                       \
    X(DELETED, "deleted")                                                         \
    X(CHANGED, "changed")                                                         \
    X(RESTART, "restart")                                                         \
    X(CRASHED, "crashed")                                                         \
    X(UNHEALTHY, "unhealthy")                                                     \
    X(START_FAILED, "start_failed")                                               \
    X(TOKEN_REFUSED, "token_refused")                                             \
    X(TOKEN_REVOKED, "token_revoked")                                             \
    X(ORPHANED, "orphaned") /* the server that started the run ended before it */ \
    X(SHUTDOWN, "shutdown")                                                       \
    X(HALTED, "halted")                                                           \
    X(BAD_DESCRIPTION, "bad_description")                                         \
    X(UNPROVEN, "unproven") /* in the state error: nothing proves that the run is dead */

enum plan_reason {
#define PLAN_REASON_ENUM(id, name) PLAN_REASON_##id,
    PLAN_REASON_TABLE(PLAN_REASON_ENUM)
#undef PLAN_REASON_ENUM
        PLAN_REASONS
};

enum plan_lease {
    PLAN_LEASE_NONE,
    PLAN_LEASE_ASKED, /* the allocation has been submitted */
    PLAN_LEASE_ACTIVE,
    PLAN_LEASE_REVOKE,         /* asked for */
    PLAN_LEASE_REVOKE_REFUSED, /* the revoke must be submitted again */
    PLAN_LEASE_REVOKED,        /* the revoke is committed: the token is dead */
    PLAN_LEASE_RECLAIM,
    PLAN_LEASE_RECLAIM_REFUSED,
};

enum plan_run {
    PLAN_RUN_NONE,
    PLAN_RUN_ORPHAN,   /* left by an earlier server: run_orphan.h ends it and reports its death */
    PLAN_RUN_UNPROVEN, /* the same, but its death cannot be proven */
    /* On another node of the cluster: gone when that node says so, or after a time. */
    PLAN_RUN_ABROAD,
    PLAN_RUN_ALIVE, /* from START until it is gone; also a run that failed to start */
    PLAN_RUN_TERMED,
    PLAN_RUN_KILLED,
};

/* The times and limits in the sensor's description. */
struct plan_terms {
    bool valid; /* the description is readable; otherwise nothing is started */
    uint64_t settle_ms;
    uint64_t stop_ms;        /* from SIGTERM to SIGKILL */
    uint64_t backoff_ms;     /* before the first restart; doubled for each further one */
    uint64_t backoff_max_ms; /* maximum of backoff_ms; each delay varies by up to a fifth */
    uint64_t stable_ms;      /* a run that lasts this long resets the count of crashes */
    uint32_t max_restarts;   /* the crash in a row after this many is an error */
    bool exit_first;         /* the token stays valid until the process has ended */
};

/* Facts. Answers carry the result that the engine returned. */
/* clang-format off */
#define PLAN_FACT_TABLE(X) \
    X(TICK,            "tick")            /* time has passed */ \
    X(WANTED,          "wanted")          /* wanted, enabled, at_once */ \
    X(SPEC,            "spec")            /* terms, digest: the sensor exists and has this description */ \
    X(DELETED,         "deleted") \
    X(NEW_RULE,        "new_rule")        /* an enabled rule on its trigger was set */ \
    X(RESET,           "reset")           /* ends error and backoff; confirms an unproven run as dead */ \
    X(RESTART,         "restart") \
    X(FOUND,           "found")           /* lease, epoch, revoked, abroad: an earlier run; GONE follows */ \
    X(ALLOC_ANSWER,    "alloc_answer")    /* code, lease, epoch */ \
    X(TOKEN_ANSWER,    "token_answer")    /* code, lease, issued_ms, expires_ms */ \
    X(TOKEN_VOID,      "token_void")      /* the signing key of the token is no longer trusted */ \
    X(REVOKE_ANSWER,   "revoke_answer")   /* code */ \
    X(RECLAIM_ANSWER,  "reclaim_answer")  /* code */ \
    X(LEASE_REVOKED,   "lease_revoked")   /* lease: the log shows the revoke, by whatever client */ \
    X(STARTED,         "started")         /* pid */ \
    X(START_FAILED,    "start_failed")    /* GONE follows */ \
    X(EXITED,          "exited")          /* wait status of the main process; other processes may be alive */ \
    X(GONE,            "gone")            /* all processes of the run are proven dead */ \
    X(UNPROVEN,        "unproven")        /* a run of an earlier process cannot be proven dead */ \
    X(UNHEALTHY,       "unhealthy") \
    X(SHUTDOWN,        "shutdown")        /* for good */ \
    X(HALT,            "halt")            /* nothing can be committed any more, for good */
/* clang-format on */

enum plan_fact_kind {
#define PLAN_FACT_ENUM(id, name) PLAN_FACT_##id,
    PLAN_FACT_TABLE(PLAN_FACT_ENUM)
#undef PLAN_FACT_ENUM
        PLAN_FACTS
};

struct plan_fact {
    enum plan_fact_kind kind;
    enum tn_result code;
    bool wanted, enabled;
    /* Without a settle window, because nothing has changed recently, as at the start. */
    bool at_once;
    bool revoked;
    bool abroad;
    uint64_t digest; /* digest of everything in the description that a running process depends on */
    struct plan_terms terms;
    struct kernel_lease_id lease;
    uint64_t epoch;
    uint64_t issued_ms, expires_ms; /* of the token, on the plan's clock */
    int64_t pid;
    int status; /* wait status */
};

#define PLAN_EFFECT_TABLE(X)    \
    X(ALLOC, "alloc")           \
    X(ISSUE, "issue")           \
    X(START, "start")           \
    X(TERM, "term")             \
    X(KILL, "kill")             \
    X(REVOKE, "revoke")         \
    X(RECLAIM, "reclaim")       \
    X(REFRESH_TOKEN, "refresh") \
    X(REPORT, "report")         \
    X(FORGET, "forget") /* the sensor was deleted and nothing is left of it: the last effect */

enum plan_effect_kind {
#define PLAN_EFFECT_ENUM(id, name) PLAN_EFFECT_##id,
    PLAN_EFFECT_TABLE(PLAN_EFFECT_ENUM)
#undef PLAN_EFFECT_ENUM
        PLAN_EFFECT_KINDS
};

#define PLAN_REPORT_TABLE(X)     \
    X(STARTED, "sensor_started") \
    X(STOPPED, "sensor_stopped") \
    X(CRASHED, "sensor_crashed") \
    X(ERROR, "sensor_error")     \
    X(START_FAILED, "sensor_start_failed")

enum plan_report {
#define PLAN_REPORT_ENUM(id, name) PLAN_REPORT_##id,
    PLAN_REPORT_TABLE(PLAN_REPORT_ENUM)
#undef PLAN_REPORT_ENUM
        PLAN_REPORTS
};

struct plan_effect {
    enum plan_effect_kind kind;
    /* Of a report. */
    enum plan_report report;
    enum plan_reason reason;
    uint32_t attempt; /* crashes in a row, including this one */
    bool again;       /* the sensor will be started again next_in_ms after the end */
    uint64_t next_in_ms;
    uint64_t uptime_ms;
    bool token_revoked;
};

#define PLAN_EFFECTS_MAX 8u

struct plan_effects {
    uint32_t count;
    struct plan_effect of[PLAN_EFFECTS_MAX]; /* to be carried out in this order */
    uint64_t wake_ms; /* the latest time for the next TICK; PLAN_NEVER: none is needed */
};

/* In the caller's memory, which must only read it. */
struct plan {
    enum plan_phase phase;
    enum plan_lease lease_is;
    enum plan_run run_is;
    struct plan_terms terms;
    struct tn_prng random;
    uint64_t now_ms;

    bool wanted, enabled, deleted, shutdown, halted;
    uint64_t digest, run_digest; /* digests of the current description, and of the run's */
    uint64_t settle_at_ms;       /* the end of the settle window; PLAN_NEVER: none is open */

    struct kernel_lease_id lease; /* the lease of this run or of the last one */
    uint64_t epoch;
    int64_t pid;         /* 0: none */
    uint64_t started_ms; /* 0: the run has not started */
    bool token_asked;
    uint64_t refresh_at_ms, token_expires_ms;

    /* Of ENDING. */
    enum plan_reason reason;
    enum plan_phase after;   /* the next phase: IDLE, WAITING or FAILED */
    bool gentle;             /* SIGTERM first */
    bool resume;             /* the sensor is to run again afterwards */
    bool exit_first;         /* this run ends with SIGTERM before the revoke */
    bool keeps_token;        /* with exit_first: the process has not ended yet */
    bool launched;           /* START was among the effects, so the end must be reported */
    uint64_t patience_at_ms; /* until when a signal waits for the revoke */
    uint64_t kill_at_ms;
    uint64_t again_at_ms; /* when a refused request is submitted again */
    uint64_t again_in_ms;

    uint32_t failures;   /* crashes in a row */
    uint32_t refusals;   /* refusals by the engine in a row */
    uint64_t delay_ms;   /* delay before the next start */
    uint64_t next_at_ms; /* the end of the phase WAITING */
    uint64_t ended_ms;   /* when the last run was gone; 0: there was none */
    uint64_t last_uptime_ms;
    int last_status; /* wait status of the last run, or PLAN_NO_STATUS */
    enum plan_reason last_reason;
};

/* A new plan, for a sensor that is not wanted so far. */
void plan_init(struct plan *plan, const struct plan_terms *terms, uint64_t digest, uint64_t seed);

/* `now_ms` never decreases. Each effect is answered by a fact, after all effects have been carried
 * out. */
void plan_step(struct plan *plan, uint64_t now_ms, const struct plan_fact *fact,
               struct plan_effects *ret_effects);

enum plan_state plan_state_of(const struct plan *plan);
/* Whether the plan is over, after SHUTDOWN or HALT: nothing of the run is alive, and everything
 * that can be committed has been. */
bool plan_is_over(const struct plan *plan);

const char *plan_state_name(enum plan_state state);
const char *plan_phase_name(enum plan_phase phase);
const char *plan_reason_name(enum plan_reason reason);
const char *plan_fact_name(enum plan_fact_kind fact);
const char *plan_effect_name(enum plan_effect_kind effect);
const char *plan_report_name(enum plan_report report);

#endif
