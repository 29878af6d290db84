/* A whole installation in one thread, and everything that can happen to it, from one seed.
 *
 *   clients --requests--> network --batches--> engine --> log, snapshots, events --> virtual disk
 *           <--replies---         <--answers--                                      (lib/fakeos.h)
 *
 * Real are the kernel, the log, recovery, snapshots, the engine and the store of events. Virtual are
 * the disk (torn, lost and reordered writes at power cuts, calls that fail, a full disk), the clocks,
 * the network (requests and replies are lost, doubled and late) and the clients. There are two kinds
 * of these: some have plans, operation ids and beliefs of what they hold (world_client.c); others are
 * the generator of the model's test, which knows every command and no manners (generate.h).
 *
 * What is checked
 * - The ledger (world_ledger.c) has every command that was ever committed, in the order of the log.
 *   A second kernel, which has never seen a disk, applies it; the reference model judges that one,
 *   command by command. The engine's answers, events, reads and state must be the same as its.
 * - After each start the log is read back (world_server.c): it holds the ledger, byte for byte and
 *   with the same times, then the batch whose outcome was unknown or not, and nothing else.
 * - Each batch carries the time that the clocks of the machine demand; if the log was ahead of the wall
 *   clock at the start, an eighth of the time does not count until that is made up.
 * - A repeated operation id is answered as the first time. Nobody who was granted a value until some
 *   time finds it another's before that, on the time of the log; and its token verifies until then.
 * - Nothing that is read says that a lease lives after its deadline, also while the disk is full and
 *   the log cannot record that time has passed (world_witness.c).
 * - Events are read back as they were told, from any place on; what is missing is said to be
 *   missing, and nothing is missing if no call failed (world_reader.c).
 * - Sensors run as the supervisor's plans say, over virtual processes (world_sensor.c): never two of
 *   one, none without its lease, and what is wanted in the end.
 * - Bits that rot and writes that go astray are found: the start is refused, or nothing was lost
 *   (world_damage.c). */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include "engine/events.h"
#include "engine/read.h"
#include "lib/fakeos.h"
#include "log/local.h"
#include "sim/generate.h"
#include "supervisor/plan.h"

#define WORLD_CLIENTS 7u
#define WORLD_GROUP 12u /* requests that are served together */
#define WORLD_MESSAGES 64u
#define WORLD_TRACE 24u
#define WORLD_VALUES 4u /* values that a client asks for, at most */
#define WORLD_READERS 2u
#define WORLD_TOKENS 12u
#define WORLD_SENSORS 3u
#define WORLD_RUNS 8u
#define WORLD_SENSOR_BASE (WORLD_CLIENTS + 1u) /* in the place of a client */
#define WORLD_DIR "data"

/* The kinds of trouble. A seed has all of them, except those that it is told to leave out. */
#define WORLD_TROUBLE_TABLE(X) \
    X(CUTS, "cuts")            \
    X(KILLS, "kills")          \
    X(FAULTS, "faults")        \
    X(FULL, "full")            \
    X(CLOCKS, "clocks")        \
    X(NETWORK, "network")      \
    X(CHAOS, "chaos")          \
    X(PLANS, "plans")          \
    X(SNAPSHOTS, "snapshots")  \
    X(OLDER, "older")          \
    X(LIMITS, "limits")        \
    X(RESTORES, "restores")    \
    X(DAMAGE, "damage")        \
    X(RULES, "rules")

enum world_trouble {
#define WORLD_TROUBLE_ENUM(id, name) WORLD_##id,
    WORLD_TROUBLE_TABLE(WORLD_TROUBLE_ENUM)
#undef WORLD_TROUBLE_ENUM
        WORLD_TROUBLES
};

/* ---- the ledger ---- */

struct world_entry {
    uint64_t lsn, now_ms;
    uint32_t len;
    uint8_t *bytes;
};

struct world_fact {
    struct engine_event_id id;
    uint64_t digest;
};

/* Commands that were given to the log, which did not say whether it has them. */
struct world_doubt {
    uint32_t count;
    uint64_t now_ms;
    struct {
        uint32_t len;
        uint8_t bytes[GENERATE_BYTES];
    } commands[WORLD_GROUP];
    bool tick;             /* or a tick, by closing or by a read */
    bool limits, restored; /* or what a start logs */
};

struct world_ledger {
    struct kernel *kernel; /* the one without a disk */
    struct model model;
    struct kernel_result result; /* result of the last command */
    struct kernel_value *values;
    struct model_result shown; /* the same, as the model and the generator take it */
    struct model_event events[MODEL_EVENTS];
    struct model_result waited[MODEL_LEASES];
    uint32_t waited_count;
    uint32_t event_count;
    struct world_entry *entries; /* in the order of the log */
    uint64_t count, capacity;
    uint64_t lsn, next_lsn; /* LSN of the last entry and of the next one: the log skips some LSNs */
    struct world_fact *facts; /* every event, in order */
    size_t fact_count, fact_capacity;
    struct world_doubt doubt;
};

/* ---- clients and the network ---- */

/* A lease that a client believes to have. */
struct world_belief {
    bool held;
    unsigned pool; /* index of one of the clients' pools */
    uint32_t count;
    uint64_t values[WORLD_VALUES];
    struct kernel_lease_id lease;
    uint64_t epoch, granted_ms, deadline_ms;
    bool reserved;
};

/* An operation in flight. */
struct world_op {
    bool open;
    uint32_t number;
    enum kernel_verb verb;
    unsigned pool;
    uint32_t len;
    uint8_t bytes[512];
    uint64_t first_log_ms; /* the log's time when it was sent first */
    uint64_t retry_ms;     /* when to send it again if no answer has arrived */
    bool answered;         /* some answer has been seen, with this result */
    uint64_t answer, answer_ms;
};

struct world_client {
    uint64_t down_until_ms; /* it has crashed */
    uint32_t ops;           /* numbered so far */
    struct world_op op;
    struct world_op last; /* the one before, whose late answers must still be the same */
    struct world_belief belief;
};

struct world_message {
    bool used, reply;
    unsigned client;
    uint64_t at_ms;
    uint32_t number; /* of the operation */
    uint32_t len;
    uint8_t bytes[512];
    struct model_result result;
};

/* One request on its way through the engine. */
struct world_request {
    struct engine_request request;
    struct world *world;
    unsigned client; /* WORLD_CLIENTS: one of the generator's */
    uint32_t number;
    uint32_t len;
    bool judged; /* the state refused it with `verdict` before it was logged */
    struct kernel_result verdict;
    uint8_t bytes[GENERATE_BYTES];
};

struct world_reader {
    struct engine_event_id after;
    size_t position; /* how many facts are behind it */
    bool skipped;
    size_t resumed; /* the position at which it continued then */
};

/* A token that was granted once. */
struct world_token {
    const char *pool;
    struct kernel_lease_id lease;
    uint64_t epoch;
};

/* ---- sensors ---- */

/* A run of a sensor: a process and perhaps a child. */
struct world_run {
    bool used;
    bool orphan; /* its server has ended */
    bool fails;  /* to start */
    bool said;   /* it has reported that it has started, or failed to start */
    bool main_is_stubborn, child_is_stubborn;
    unsigned sensor;
    struct kernel_lease_id lease;
    uint64_t epoch;
    uint64_t starts_ms;
    uint64_t main_dies_ms, child_dies_ms; /* 0: it is dead */
};

struct world_sensor {
    bool known;    /* a running supervisor knows the sensor */
    bool told;     /* whether it is wanted */
    bool orphaned; /* something of an earlier life is still there */
    bool asks;     /* the engine for `ask`, as soon as there is room */
    bool answered, token_asked;
    bool stops; /* its run has received a signal */
    char ref[8];
    uint64_t digest;
    struct plan plan;
    enum plan_effect_kind ask;
    struct plan_fact answer;
    struct kernel_lease_id last_lease; /* lease of the last run, in any life */
    uint64_t last_epoch;
};

struct world {
    uint64_t seed;
    uint64_t step, steps;
    uint32_t without; /* troubles that do not happen, a bit each */
    struct tn_prng random;
    uint64_t transcript;
    struct fakeos *machine;
    uint64_t true_ms; /* real time that has passed, whatever the machine's clocks show */

    struct engine *engine;     /* NULL: down */
    uint64_t up_at_ms;         /* when to start the engine again */
    uint64_t base_ms, boot_ms; /* the log's time, and the boot clock, at the last start */
    uint64_t up_true_ms;       /* the true time then */
    uint64_t lead_ms;          /* how far the log was ahead of the wall clock then */
    struct kernel_limits limits;
    uint64_t events_max;
    uint64_t snapshot_bytes;
    uint64_t full_until_ms; /* the disk is full */
    bool halted;
    bool failed_call;               /* some call has failed by plan: events may be missing */
    bool start_failed, life_failed; /* while it started; since then */
    bool planned; /* something happens at this call: it fails, or the server ends there */
    bool planned_power;
    uint64_t planned_call;
    size_t heard; /* facts that the listener has heard of, live */

    struct world_ledger ledger;
    struct generate generate;
    uint32_t chaos; /* percent of the group */
    struct world_client clients[WORLD_CLIENTS];
    struct world_message messages[WORLD_MESSAGES];
    struct world_request group[WORLD_GROUP];
    uint32_t group_count, group_next;
    struct world_fact *listened; /* events that the listener received since the last check */
    size_t listened_count, listened_capacity;
    struct world_reader readers[WORLD_READERS];
    struct world_token tokens[WORLD_TOKENS]; /* the last ones */
    uint64_t token_count;
    struct world_sensor sensors[WORLD_SENSORS];
    struct world_run runs[WORLD_RUNS];
    bool quiet; /* nothing new begins; only what was begun continues */

    char why[1600]; /* it failed */
    char trace[WORLD_TRACE][400];
    uint64_t trace_count;
    struct {
        uint64_t commands, events, starts, cuts, kills, faults, full, snapshots, older, damages,
            limits, restores, refused, unknown, replays, beliefs, resolved, doubts, doubts_kept,
            runs, overdue, ahead, judged;
    } counts;
};

void world_open(struct world *w, uint64_t seed, uint32_t without, uint64_t steps);
void world_run(struct world *w);
void world_close(struct world *w);

/* ---- between the world's own files ---- */

/* Fails the test, with the seed, what led to it, and how to see it again. */
_Noreturn void world_fail(struct world *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void world_trace(struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Into the transcript. */
void world_note(struct world *w, uint64_t what);

static inline uint32_t world_below(struct world *w, uint32_t n) {
    return (uint32_t)tn_prng_below(&w->random, n);
}

static inline bool world_chance(struct world *w, uint32_t percent) {
    return world_below(w, 100) < percent;
}

/* A trouble that is left out still draws its random number: everything else stays the same. */
static inline bool world_trouble(struct world *w, enum world_trouble trouble, uint32_t per_mille) {
    bool hit = world_below(w, 1000) < per_mille;
    return hit && (w->without >> trouble & 1) == 0;
}

/* world_ledger.c */
void world_ledger_open(struct world *w);
void world_ledger_close(struct world *w);
/* The next command of the log; checked by the model. The result is in ledger.result. */
void world_ledger_commit(struct world *w, uint64_t now_ms, struct tn_bytes bytes);
/* The engine's answer to the command that was committed last. */
void world_ledger_answer(struct world *w, const struct kernel_result *got);
void world_ledger_doubt(struct world *w, uint64_t now_ms, struct tn_bytes bytes);
/* A tick, encoded. */
struct tn_bytes world_tick_bytes(void);
uint64_t world_event_digest(const struct engine_event *event);
/* The index of the fact with this id, or fact_count. */
size_t world_fact_find(const struct world *w, struct engine_event_id id);
/* Compares what can be read of the model with the second kernel. */
void world_ledger_compare(struct world *w);

/* world_server.c */
void world_server_up(struct world *w);
bool world_server_close(struct world *w); /* false: not all was written that is at a good end */
void world_server_kill(struct world *w, bool power);
/* The engine's time as the machine's clocks demand it; while it is down, what was logged last. */
uint64_t world_now(struct world *w);
/* Commits w->group. */
void world_server_serve(struct world *w);
/* Everything that a call of the engine may have logged by itself, and what its listener heard. */
void world_server_settle(struct world *w);
void world_server_check(struct world *w);
/* The number of snapshots in the directory. */
unsigned world_snapshots(struct world *w);
void world_options(struct world *w, struct fakeos *machine, struct engine_options *ret_options);
struct log_local_options world_log_options(void);

/* world_log.c: compares the log on the disk with the ledger. On a disk that is not the world's own,
 * nothing is committed: the log must end where the ledger does. */
void world_log_compare(struct world *w, struct fakeos *machine, bool own);

/* world_client.c */
void world_clients_act(struct world *w);
void world_clients_answer(struct world *w, const struct world_request *request,
                          const struct model_result *result);
void world_clients_verify(struct world *w);
/* The pools that clients use, if they are not there. */
void world_clients_pools(struct world *w);
/* Whether a command of the generator would meddle with them. */
bool world_clients_own(const struct world *w, struct tn_bytes bytes);

/* world_network.c */
void world_network_send(struct world *w, unsigned client, uint32_t number, struct tn_bytes bytes);
void world_network_reply(struct world *w, unsigned client, uint32_t number,
                         const struct model_result *result);
/* What has arrived: requests go into the group, replies to their clients. */
void world_network_deliver(struct world *w);
void world_client_hear(struct world *w, unsigned client, uint32_t number,
                       const struct model_result *result);
struct world_request *world_group_add(struct world *w, unsigned client, uint32_t number,
                                      struct tn_bytes bytes);

/* world_reader.c */
void world_reader_read(struct world *w, unsigned reader);
void world_reader_read_all(struct world *w);

/* world_witness.c */
void world_witness_take(struct world *w, const char *pool, const struct kernel_result *head);
void world_witness_ask(struct world *w);

/* world_sensor.c */
void world_sensors_begin(struct world *w);
void world_sensors_lose(struct world *w, bool power);
void world_sensors_halt(struct world *w);
void world_sensors_shutdown(struct world *w);
void world_sensors_demand(struct world *w);
void world_sensors_ask(struct world *w);
void world_sensors_answer(struct world *w, unsigned index, const struct model_result *result);
void world_sensors_step(struct world *w, bool at_once);
void world_sensors_check(struct world *w);
void world_sensors_rest(struct world *w);
void world_sensor_fact(struct world *w, const struct world_run *run, enum plan_fact_kind kind);

/* world_run.c */
bool world_run_lives(const struct world_run *run);
struct world_run *world_run_start(struct world *w, unsigned sensor, struct kernel_lease_id lease,
                                  uint64_t epoch);
void world_run_signal(struct world *w, struct world_run *run, bool kill);
void world_runs_abandon(struct world *w, bool power);
void world_runs_pass(struct world *w);

/* world.c */
void world_pass(struct world *w, uint64_t ms);
/* Whether the call that was planned to fail, or to be the last, has been made. */
bool world_call_failed(struct world *w);

/* world_damage.c: on a copy of the disk, after a clean close. */
void world_damage(struct world *w);

#endif
