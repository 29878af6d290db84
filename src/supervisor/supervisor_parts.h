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

#include "engine/read.h"
#include "process/run.h"
#include "process/run_health.h"
#include "process/run_orphan.h"
#include "supervisor/supervisor.h"

#define SUPERVISOR_FACTS_MAX \
    8u /* waiting facts of one sensor: those that its effects cause at once */
#define SUPERVISOR_HASH 4096u
#define SUPERVISOR_LINE_MAX 1024u

struct supervisor_sensor {
    struct supervisor *supervisor;
    struct supervisor_sensor *previous, *next;
    struct supervisor_sensor *next_of_ref, *next_of_lease, *next_of_trigger; /* in the tables */
    char ref[KERNEL_RESOURCE_MAX + 1];
    char trigger[KERNEL_RULE_MAX + 1];
    uint32_t trigger_len; /* 0: none is known, and it is not in that table */
    uint64_t rules;       /* enabled ones on its trigger */
    uint64_t defaults; /* the number of the reload with whose defaults its description was parsed */
    bool known;        /* the engine has it */
    bool held;         /* not started before the run of an earlier server is gone */
    bool told;         /* the plan knows whether it is wanted */
    bool member;       /* the pool has its name */
    bool indexed;      /* by its lease */
    bool forgotten;
    bool waits_for_pool; /* with its allocation */

    struct plan plan;
    struct plan_fact facts[SUPERVISOR_FACTS_MAX];
    uint32_t fact_count;
    bool telling;
    enum plan_state counted; /* the state that it is counted under */
    bool counted_unproven;
    uv_timer_t timer;

    struct sensor_spec *spec;     /* NULL: it cannot be read */
    struct sensor_spec *run_spec; /* of the run; may be the same */
    struct run *run;
    struct run_health *health;
    bool health_stopping;
    uint32_t asks; /* under way */

    struct supervisor_sensor *rules_next; /* in the queue of files to be made */
    uint64_t rules_hash;                  /* of the content of its file of rules */
    uint64_t rules_due_ms;                /* its file is not made before that time of the loop */
    bool rules_queued;
    bool rules_again;  /* rules have changed since its file was begun */
    bool rules_failed; /* its file could not be written; the log says so */

    struct {
        char node[LOG_NODE_MAX + 1];
        uint8_t boot_id[LOG_BOOT_ID_BYTES];
        uint64_t epoch;
    } abroad; /* where the run is that plan.run_is calls ABROAD */

    uint64_t starts, stops, crashes, restarts, emitted;
    int exit_status; /* of the run that was the last to stop */
    uint64_t started_wall_ms, token_expires_s, revoked_lsn;
    char failed_step[64];
    char last_error[SUPERVISOR_ERROR_MAX];
};

/* Through all sensors, a few in each turn of the loop; another one that is asked for meanwhile comes
 * after it. */
struct supervisor_walk {
    unsigned what, next_what;     /* 0: none */
    struct supervisor_sensor *at; /* the next; NULL: then those of the engine, */
    uint64_t cursor;              /* from here on */
};

/* Sensors whose files of rules are to be made again: see supervisor_rules.c. */
struct supervisor_rules {
    uv_timer_t timer;
    struct supervisor_sensor *first, *last;
    struct supervisor_rules_build *build; /* of the first; NULL: not begun */
};

struct supervisor {
    struct supervisor_options options;
    uint64_t defaults; /* how often they have changed */
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
    uint32_t pulses;                 /* of it so far */
    uint64_t live_until_ms;          /* the last deadline that guardians got; 0: none */
    uint32_t asks, healths, handles; /* under way; open */
    struct supervisor_ask *answers;  /* that are there and not taken yet */
    uint64_t seeds;
    bool idle;              /* nothing is wanted of it: it only ends */
    bool off;               /* nor that: it only revokes */
    const char *off_reason; /* why no sensor is started; NULL: sensors are started */
    bool pool_is_ours, pool_asked;
    bool halted, closing, closed;
    void (*on_closed)(void *ctx);
    void *closed_ctx;
    char guardian[4096];
    char cgroup[4096]; /* empty: none can be used */
    bool can_pidns;
    uint8_t spec[KERNEL_SENSOR_SPEC_MAX]; /* of the sensor that is being read */
    struct token_issued token;            /* of the run that is being started */
    struct log_node nodes[LOG_NODES_MAX]; /* of the cluster, as last asked */
};

__attribute__((format(printf, 2, 3))) void supervisor_log(struct supervisor *supervisor,
                                                          const char *format, ...);

/* supervisor.c */
struct supervisor_sensor *supervisor_find(const struct supervisor *supervisor, struct tn_bytes ref);
/* NULL: no memory; said so. */
struct supervisor_sensor *supervisor_add(struct supervisor *supervisor, struct tn_bytes ref,
                                         const struct plan_terms *terms, uint64_t digest);
void supervisor_tell(struct supervisor_sensor *sensor, const struct plan_fact *fact);
/* Something has ended: the sensor may go, or the supervisor be closed. */
void supervisor_ended(struct supervisor_sensor *sensor);
void supervisor_index_lease(struct supervisor_sensor *sensor, bool indexed);
/* Empty: none. */
void supervisor_index_trigger(struct supervisor_sensor *sensor, struct tn_bytes trigger);
/* Those of this trigger, and perhaps others, by next_of_trigger. */
struct supervisor_sensor *supervisor_find_trigger(const struct supervisor *supervisor,
                                                  struct tn_bytes trigger);
struct supervisor_sensor *supervisor_find_lease(const struct supervisor *supervisor,
                                                struct kernel_lease_id lease);

/* supervisor_abroad.c */
#define SUPERVISOR_META_MAX 256u
/* For the metadata of a run's lease; empty: there is no cluster. */
struct tn_bytes supervisor_abroad_meta(const struct supervisor *supervisor,
                                       char out[SUPERVISOR_META_MAX]);
/* Whether the lease is of a run on another node; then `sensor` knows which. */
bool supervisor_abroad_is(struct supervisor_sensor *sensor, struct kernel_lease_id lease);
/* Until when a guardian lets its run live by itself. */
struct run_frame_times supervisor_abroad_live(const struct supervisor *supervisor);
/* From opening to closing, if there is a cluster. */
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
/* Says once how many messages were suppressed. */
enum supervisor_missed {
    SUPERVISOR_MISSED_NONE,
    SUPERVISOR_MISSED_SOME,
    SUPERVISOR_MISSED_RULES, /* among them rules that were set */
};
enum supervisor_missed supervisor_feed_overflowed(struct supervisor_feed *feed);
struct supervisor_ask *supervisor_feed_answers(struct supervisor_feed *feed);

/* supervisor_ask.c */
/* The kind, and the fact that its answer becomes; TICK: none. */
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
/* The lease's revoke, or its reclaim. */
void supervisor_ask_end(struct supervisor_sensor *sensor, bool reclaim);
/* The sensor's name out of the pool, if that is ours. */
void supervisor_ask_remove(struct supervisor_sensor *sensor);
/* An event about the sensor, with this payload (JSON). */
void supervisor_ask_report(struct supervisor_sensor *sensor, const char *word, const char *payload);
void supervisor_answered(struct supervisor *supervisor, struct supervisor_ask *ask);
/* The pool `sensors`, created with the first run. A pool of that name that is not internal is not used. */
enum supervisor_pool { SUPERVISOR_POOL_NONE, SUPERVISOR_POOL_OURS, SUPERVISOR_POOL_FOREIGN };
enum supervisor_pool supervisor_pool(struct supervisor *supervisor);

/* supervisor_read.c */
/* The leases of runs of an earlier life. False: they cannot be read. */
bool supervisor_read_leases(struct supervisor *supervisor);
/* Reads these, all sensors, and the leases of deleted sensors. False: they cannot be read. */
bool supervisor_read_first(struct supervisor *supervisor);
/* One sensor as the engine has it now; `at_once`: without settling. */
void supervisor_read_sensor(struct supervisor *supervisor, struct tn_bytes ref, bool at_once);
void supervisor_read_notice(struct supervisor *supervisor, const struct supervisor_notice *notice);
/* Nothing proves the sensor's run of an earlier life dead. It may be deleted, and not known at all. */
void supervisor_read_unproven(struct supervisor *supervisor, struct tn_bytes ref,
                              struct kernel_lease_id lease, uint64_t epoch);
/* Begins a walk through all sensors, now or when the one under way has ended. */
#define SUPERVISOR_WALK_READ 1u   /* each as the engine has it */
#define SUPERVISOR_WALK_MISSED 2u /* and its lease, and those that were set: something was missed */
#define SUPERVISOR_WALK_RULES 4u  /* also rules that were set */
#define SUPERVISOR_WALK_TOKENS 8u /* those that run get new tokens */
void supervisor_walk(struct supervisor *supervisor, unsigned what);
#define SUPERVISOR_WALK_MAX 64u /* of them in a turn: their descriptions may be read anew */
void supervisor_walk_on(struct supervisor *supervisor, uint64_t end_ns);
/* Sensors of one trigger that are looked at directly; if there are more, a walk over all finds them. */
#define SUPERVISOR_DEMAND_MAX 512u

/* supervisor_run.c */
/* Finds out how runs can be contained, and logs it. */
void supervisor_run_judge(struct supervisor *supervisor);
void supervisor_run_issue(struct supervisor_sensor *sensor, bool refresh);
void supervisor_run_start(struct supervisor_sensor *sensor);
/* Checks go on as long as it runs. */
void supervisor_run_health(struct supervisor_sensor *sensor);
/* After the run is gone. */
void supervisor_run_drop(struct supervisor_sensor *sensor);

/* supervisor_rules.c */
void supervisor_rules_open(struct supervisor *supervisor);
/* The file of rules of a run that begins; the caller frees what is returned after using the text. NULL:
 * there is no memory, and the text is empty. */
struct supervisor_rules_build *supervisor_rules_first(struct supervisor_sensor *sensor,
                                                      struct tn_bytes *ret_text);
/* The sensor's rules may have changed: if it runs, its file is made again. */
void supervisor_rules_mark(struct supervisor_sensor *sensor);
void supervisor_rules_changed(struct supervisor *supervisor, struct tn_bytes trigger);
/* The run is gone. */
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
