/* Internal to the files of the supervisor.
 *
 *     engine's threads --feed--> notices, answers --+
 *     run.h, run_health.h, timers -----------------+--> facts --> plan --> effects --> ask, run, report
 *     calls of the server --------------------------+
 *
 * A fact that arrives while the effects of another one are carried out waits until they are done. A
 * sensor's memory is freed when the sensor is deleted, nothing of it runs, and none of its requests is in
 * flight. */
#ifndef TN_SUPERVISOR_SUPERVISOR_PARTS_H
#define TN_SUPERVISOR_SUPERVISOR_PARTS_H

#include "process/run.h"
#include "process/run_health.h"
#include "process/run_orphan.h"
#include "supervisor/supervisor.h"

#define SUPERVISOR_FACTS_MAX \
    8u /* pending facts of one sensor: those that its effects cause at once */
#define SUPERVISOR_HASH 4096u
#define SUPERVISOR_LINE_MAX 1024u

struct supervisor_sensor {
    struct supervisor *supervisor;
    struct supervisor_sensor *previous, *next;
    struct supervisor_sensor *next_of_ref, *next_of_lease, *next_of_trigger; /* in the tables */
    char ref[KERNEL_RESOURCE_MAX + 1];
    char trigger[KERNEL_RULE_MAX + 1];
    uint32_t trigger_len; /* 0: the trigger is unknown, and the sensor is not in that table */
    uint64_t rules;       /* enabled rules on its trigger */
    uint64_t defaults; /* number of the reload whose defaults were used to parse its description */
    bool known;        /* the engine has the sensor */
    bool held;         /* not started before the run of an earlier server is gone */
    bool told;         /* the plan knows whether the sensor is wanted */
    bool member;       /* the pool has a value of its name */
    bool indexed;      /* by its lease */
    bool forgotten;
    bool waits_for_pool; /* with its allocation */

    struct plan plan;
    struct plan_fact facts[SUPERVISOR_FACTS_MAX];
    uint32_t fact_count;
    bool telling;
    enum plan_state counted; /* the state under which it is counted */
    bool counted_unproven;
    uv_timer_t timer;

    struct sensor_spec *spec;     /* NULL: the description is unreadable */
    struct sensor_spec *run_spec; /* the description of the run; may be the same one */
    struct run *run;
    struct run_health *health;
    bool health_stopping;
    uint32_t asks; /* under way */

    struct supervisor_sensor *rules_next; /* in the queue of rule files to make */
    uint64_t rules_hash;                  /* hash of the contents of its rule file */
    uint64_t rules_due_ms;                /* the loop's time before which its file is not made */
    bool rules_queued;
    bool rules_again;  /* rules have changed since its file was begun */
    bool rules_failed; /* its file could not be written, which has been logged */

    struct {
        char node[LOG_NODE_MAX + 1];
        uint8_t boot_id[LOG_BOOT_ID_BYTES];
        uint64_t epoch;
    } abroad; /* the node of the run if plan.run_is is ABROAD */

    uint64_t starts, stops, crashes, restarts, emitted;
    int exit_status; /* wait status of the run that stopped last */
    uint64_t started_wall_ms, token_expires_s, revoked_lsn;
    char failed_step[64];
    char last_error[SUPERVISOR_ERROR_MAX];
};

/* A walk through all sensors, a few in each turn of the loop. A walk requested meanwhile follows
 * it. */
struct supervisor_walk {
    unsigned what, next_what;     /* 0: none */
    struct supervisor_sensor *at; /* the next sensor; NULL: continue with the engine's sensors, */
    uint64_t cursor;              /* from here on */
};

/* The sensors whose rule files must be made again: see supervisor_rules.c. */
struct supervisor_rules {
    uv_timer_t timer;
    struct supervisor_sensor *first, *last;
    struct supervisor_rules_build *build; /* the file of the first sensor; NULL: not begun */
};

struct supervisor {
    struct supervisor_options options;
    uint64_t defaults; /* how often the defaults have changed */
    struct supervisor_sensor *sensors;
    struct supervisor_sensor *by_ref[SUPERVISOR_HASH], *by_lease[SUPERVISOR_HASH];
    struct supervisor_sensor *by_trigger[SUPERVISOR_HASH];
    uint32_t sensor_count;
    struct supervisor_walk walk;
    struct supervisor_rules rules;
    struct run_orphans *orphans;
    struct supervisor_totals totals;
    uv_async_t news;
    uv_timer_t deadline;             /* of closing */
    uv_timer_t pulse;                /* in a cluster */
    uint32_t pulses;                 /* turns of the timer so far */
    uint64_t live_until_ms;          /* the last deadline sent to guardians; 0: none */
    uint32_t asks, healths, handles; /* under way; open */
    struct supervisor_ask *answers;  /* answers that have arrived and were not processed */
    uint64_t seeds;
    bool idle;              /* starts nothing; it only ends runs */
    bool off;               /* does not even end runs; it only revokes leases */
    const char *off_reason; /* why no sensors are started; NULL: they are */
    bool pool_is_ours, pool_asked;
    bool halted, closing, closed;
    void (*on_closed)(void *ctx);
    void *closed_ctx;
    char guardian[4096];
    char cgroup[4096]; /* empty: no cgroup can be used */
    bool can_pidns;
    uint8_t spec[KERNEL_SENSOR_SPEC_MAX]; /* of the sensor being read */
    struct token_issued token;            /* for the run being started */
    struct log_node nodes[LOG_NODES_MAX]; /* the nodes of the cluster at the last look */
};

__attribute__((format(printf, 2, 3))) void supervisor_log(struct supervisor *supervisor,
                                                          const char *format, ...);

/* supervisor.c */
struct supervisor_sensor *supervisor_find(const struct supervisor *supervisor, struct tn_bytes ref);
/* NULL: out of memory, which has been logged. */
struct supervisor_sensor *supervisor_add(struct supervisor *supervisor, struct tn_bytes ref,
                                         const struct plan_terms *terms, uint64_t digest);
void supervisor_tell(struct supervisor_sensor *sensor, const struct plan_fact *fact);
/* An activity has ended: the sensor may be freed, or the supervisor be closed. */
void supervisor_ended(struct supervisor_sensor *sensor);
void supervisor_index_lease(struct supervisor_sensor *sensor, bool indexed);
/* Empty: none. */
void supervisor_index_trigger(struct supervisor_sensor *sensor, struct tn_bytes trigger);
/* The first of a list, linked by next_of_trigger, with all sensors of this trigger and perhaps
 * others. */
struct supervisor_sensor *supervisor_find_trigger(const struct supervisor *supervisor,
                                                  struct tn_bytes trigger);
struct supervisor_sensor *supervisor_find_lease(const struct supervisor *supervisor,
                                                struct kernel_lease_id lease);

/* supervisor_abroad.c */
#define SUPERVISOR_META_MAX 256u
/* The metadata for the lease of a run. Empty: there is no cluster. */
struct tn_bytes supervisor_abroad_meta(const struct supervisor *supervisor,
                                       char out[SUPERVISOR_META_MAX]);
/* Whether the lease belongs to a run on another node; `sensor` then knows which node. */
bool supervisor_abroad_is(struct supervisor_sensor *sensor, struct kernel_lease_id lease);
/* The times until which a guardian lets its run live by itself. */
struct run_frame_times supervisor_abroad_live(const struct supervisor *supervisor);
/* Called at the opening if there is a cluster; runs until the closing. */
void supervisor_abroad_begin(struct supervisor *supervisor);

/* supervisor_feed.c */
enum supervisor_notice_kind {
    SUPERVISOR_SENSOR_CHANGED, /* set or deleted; name */
    SUPERVISOR_DEMAND_CHANGED, /* trigger */
    SUPERVISOR_RULE_SET,       /* and enabled; its id */
    SUPERVISOR_LEASE_REVOKED,  /* of the sensor; its name and the lease */
    SUPERVISOR_RULES_CHANGED,  /* trigger: one of its rules was set or deleted */
};

struct supervisor_notice {
    enum supervisor_notice_kind kind;
    struct kernel_lease_id lease;
    uint32_t len;
    char name[KERNEL_RULE_MAX];
};

void supervisor_feed_connect(struct supervisor_feed *feed, struct supervisor *supervisor);
/* False: there is none. */
bool supervisor_feed_take(struct supervisor_feed *feed, struct supervisor_notice *ret_notice);
/* Logs once how many messages were suppressed. */
enum supervisor_missed {
    SUPERVISOR_MISSED_NONE,
    SUPERVISOR_MISSED_SOME,
    SUPERVISOR_MISSED_RULES, /* including rules that were set */
};
enum supervisor_missed supervisor_feed_overflowed(struct supervisor_feed *feed);
struct supervisor_ask *supervisor_feed_answers(struct supervisor_feed *feed);

/* supervisor_ask.c */
/* The kinds of requests, with the fact that each answer becomes; TICK: none. */
#define SUPERVISOR_ASK_TABLE(X) \
    X(ALLOC, ALLOC_ANSWER)      \
    X(REVOKE, REVOKE_ANSWER)    \
    X(RECLAIM, RECLAIM_ANSWER)  \
    X(ADD, TICK)                \
    X(REMOVE, TICK)             \
    X(REPORT, TICK)             \
    X(CREATE, TICK)

enum supervisor_ask_kind {
#define SUPERVISOR_ASK_ENUM(id, answer) SUPERVISOR_ASK_##id,
    SUPERVISOR_ASK_TABLE(SUPERVISOR_ASK_ENUM)
#undef SUPERVISOR_ASK_ENUM
};

struct supervisor_ask {
    struct engine_request request;
    struct supervisor_feed *feed;
    struct supervisor_sensor *sensor;
    enum supervisor_ask_kind kind;
    struct supervisor_ask *next;
};

void supervisor_ask_alloc(struct supervisor_sensor *sensor);
/* Submits the revoke of the lease, or its reclaim. */
void supervisor_ask_end(struct supervisor_sensor *sensor, bool reclaim);
/* Submits the removal of the sensor's name from the pool, if the pool is ours. */
void supervisor_ask_remove(struct supervisor_sensor *sensor);
/* Submits an event about the sensor with this payload (JSON). */
void supervisor_ask_report(struct supervisor_sensor *sensor, const char *word, const char *payload);
void supervisor_answered(struct supervisor *supervisor, struct supervisor_ask *ask);
/* The pool `sensors` is created with the first run. An existing pool of that name that is not
 * internal is not used. */
enum supervisor_pool { SUPERVISOR_POOL_NONE, SUPERVISOR_POOL_OURS, SUPERVISOR_POOL_FOREIGN };
enum supervisor_pool supervisor_pool(struct supervisor *supervisor);

/* supervisor_read.c */
/* Reads never ask whether the log is still ours. If it is renewed late, such a question is answered with no for a
 * moment: a run on another node would count as dead, and nothing would ever read what was missed. Whatever
 * starts a run or frees its lease is a command, which only the owner can commit. */
#define SUPERVISOR_READ ENGINE_READ_STALE

/* Reads the leases of earlier runs. False: they cannot be read. */
bool supervisor_read_leases(struct supervisor *supervisor);
/* Reads these, all sensors, and the directories of deleted sensors. False: they cannot be read. */
bool supervisor_read_first(struct supervisor *supervisor);
/* Reads one sensor from the engine. `at_once`: without a settle window. */
void supervisor_read_sensor(struct supervisor *supervisor, struct tn_bytes ref, bool at_once);
void supervisor_read_notice(struct supervisor *supervisor, const struct supervisor_notice *notice);
/* Nothing proves that the sensor's earlier run is dead. The sensor may have been deleted, or be
 * unknown. */
void supervisor_read_unproven(struct supervisor *supervisor, struct tn_bytes ref,
                              struct kernel_lease_id lease, uint64_t epoch);
/* Begins a walk through all sensors, now or after the current one. */
#define SUPERVISOR_WALK_READ 1u /* read each sensor from the engine */
/* Notices were dropped: also read its lease, and find new sensors. */
#define SUPERVISOR_WALK_MISSED 2u
#define SUPERVISOR_WALK_RULES 4u  /* rules may have been set, too */
#define SUPERVISOR_WALK_TOKENS 8u /* running sensors get new tokens */
void supervisor_walk(struct supervisor *supervisor, unsigned what);
#define SUPERVISOR_WALK_MAX 64u /* sensors in a turn; their descriptions may have to be parsed */
void supervisor_walk_on(struct supervisor *supervisor, uint64_t end_ns);
/* If a trigger has more sensors than this, a walk through all sensors finds them. */
#define SUPERVISOR_DEMAND_MAX 512u

/* supervisor_run.c */
/* Finds out how runs can be contained, and logs it. */
void supervisor_run_judge(struct supervisor *supervisor);
void supervisor_run_issue(struct supervisor_sensor *sensor, bool refresh);
void supervisor_run_start(struct supervisor_sensor *sensor);
/* Starts the health checks of the run, which continue as long as it runs. */
void supervisor_run_health(struct supervisor_sensor *sensor);
/* Called after the run is gone. */
void supervisor_run_drop(struct supervisor_sensor *sensor);

/* supervisor_rules.c */
void supervisor_rules_open(struct supervisor *supervisor);
/* Makes the rule file of a run that is about to start. The caller frees what is returned after
 * using the text. NULL: out of memory; the text is empty. */
struct supervisor_rules_build *supervisor_rules_first(struct supervisor_sensor *sensor,
                                                      struct tn_bytes *ret_text);
/* The sensor's rules may have changed: if it runs, its file is made again. */
void supervisor_rules_mark(struct supervisor_sensor *sensor);
void supervisor_rules_changed(struct supervisor *supervisor, struct tn_bytes trigger);
/* Called after the run is gone. */
void supervisor_rules_drop(struct supervisor_sensor *sensor);

/* supervisor_report.c */
void supervisor_report(struct supervisor_sensor *sensor, const struct plan_effect *effect);
/* At the start of the server: logs which sensors are not started, and why. Counts them all, by reason,
 * and names the first few of each reason. */
#define SUPERVISOR_NOT_STARTED_NAMED 16u
void supervisor_report_not_started(struct supervisor *supervisor);
__attribute__((format(printf, 2, 3))) void supervisor_error(struct supervisor_sensor *sensor,
                                                            const char *format, ...);

#endif
