/* A second kernel, written to be obviously right: arrays, linear scans, no index of any kind.
 *
 * It is given each command after the real kernel has applied it, with the events and the result that
 * came out, and works out for itself what had to happen. Everything is predicted, but for what the
 * contract leaves open, and there the model checks that the kernel's choice was one of the allowed
 * ones and takes it over:
 *
 *   - when a due lease or cooling value is settled. Nothing may be settled before it is due, and what
 *     a command names must be settled before it is judged; anything else may be settled in bounded
 *     steps in any order. The model follows the kernel's events here;
 *   - which free value the random strategy picks;
 *   - how soon the resources of a dropped set are let go;
 *   - which lease of a disowned holder is released first.
 *
 * Limits on table sizes below are only the model's own arrays; a test keeps its limits smaller. */
#ifndef TESTS_SIM_MODEL_H
#define TESTS_SIM_MODEL_H

#include "kernel/kernel.h"

#define MODEL_BUNDLE 16u
#define MODEL_CLAIMS 2048u
#define MODEL_TEXT (KERNEL_POOL_MAX + 1u)
#define MODEL_EVENTS 1024u
#define MODEL_POOLS 64u
#define MODEL_LEASES 128u
#define MODEL_HISTORY 128u
#define MODEL_COOLING 256u
#define MODEL_RESOURCES 64u
#define MODEL_OPS 64u
#define MODEL_DISOWNS 16u
#define MODEL_RULES 32u
#define MODEL_USERS 16u
#define MODEL_SPEC 64u
#define MODEL_USED 256u
#define MODEL_COLD 64u
#define MODEL_WINDOW 128u /* seconds of rates: the largest rate window + 1 must fit */

/* A value of a pool. Of a set the number is the resource's place, and the name is shown. */
struct model_value {
    uint32_t pool; /* index in model.pools */
    uint16_t claim;
    uint64_t number;
    char name[KERNEL_RESOURCE_MAX + 1];
};

/* A value as the kernel reported it, with the name of its pool. */
struct model_shown {
    uint64_t number;
    uint16_t claim;
    uint8_t format;
    char name[KERNEL_RESOURCE_MAX + 1];
    char pool[KERNEL_POOL_MAX + 1];
};

struct model_event {
    enum kernel_event_kind kind;
    enum kernel_reason reason;
    struct kernel_lease_id lease;
    uint64_t lsn, now_ms, epoch, deadline_ms, number;
    char holder[KERNEL_HOLDER_MAX + 1];
    char previous[KERNEL_HOLDER_MAX + 1];
    char user[KERNEL_USER_MAX + 1];
    char actor[KERNEL_USER_MAX + 1];
    char note[KERNEL_NOTE_MAX + 1];
    char name[MODEL_TEXT];
    char trigger[KERNEL_RULE_MAX + 1];
    uint32_t payload_len;
    uint64_t payload_hash;
    uint32_t value_count;
    struct model_shown values[MODEL_BUNDLE];
};

struct model_result {
    struct kernel_result head; /* the values pointer is not used */
    struct model_shown values[MODEL_BUNDLE];
};

/* What a waiting lease asked for, and how it stands in line. */
struct model_wait {
    bool attended, reserve;
    uint8_t rights;
    uint32_t quota;
    uint64_t since_ms, until_ms;
    uint32_t total; /* values */
    uint32_t pools[MODEL_BUNDLE];
    uint32_t pool_count;
    uint32_t claim_count, claims_len;
    uint8_t claims[MODEL_CLAIMS];
    enum tn_result code; /* code of a refusal that ends the waiting; OK: none */
    uint64_t number;
};

struct model_lease {
    struct kernel_lease_id id;
    enum kernel_state state;
    enum kernel_reason reason;
    bool renewed;  /* the timer may still have the former deadline */
    bool in_grace; /* revoking because it lapsed, not because of a revoke */
    bool passed;   /* a disown may have come by when its pool was internal, which it is no longer */
    uint64_t epoch, deadline_ms;
    uint64_t created_ms, last_seen_ms, offline_since_ms, ended_ms, ended_lsn;
    uint32_t ttl_s;
    uint64_t grace_s; /* as granted */
    char holder[KERNEL_HOLDER_MAX + 1];
    char user[KERNEL_USER_MAX + 1];
    uint32_t meta_len;
    uint64_t meta_hash;
    uint32_t value_count;
    struct model_value values[MODEL_BUNDLE];
    struct model_wait wait; /* while it waits */
};

struct model_resting {
    struct model_value value;
    uint64_t until_ms;
};

struct model_resource {
    uint64_t place;
    char name[KERNEL_RESOURCE_MAX + 1];
};

enum model_pool_state {
    MODEL_POOL_FREE,
    MODEL_POOL_LIVE,
    MODEL_POOL_DROPPED, /* gone, but its record is kept while history names it */
};

struct model_pool {
    enum model_pool_state state;
    bool is_scope;
    bool tracked;    /* values are counted per holder */
    uint32_t parent; /* of a scope */
    char name[KERNEL_POOL_MAX + 1];
    struct kernel_policy own; /* a scope's is its template's unless it is kept: model_policy */
    bool kept;                /* a scope that was created or altered by its name */
    uint64_t own_options;     /* options that the scope was given itself, one bit each */
    bool rotor_set;
    uint64_t rotor;    /* the last value that `next` gave for "any" */
    bool not_lowest;   /* `lowest` has not chosen all values, or not of the same ones */
    bool by_value;     /* named values have been allocated, or the range has changed */
    uint32_t draining; /* resources that a dropped set had: they go in bounded steps */
    struct kernel_pool_counters counters;
    /* Named resources in the order they were added; places are never used again. */
    struct model_resource resources[MODEL_RESOURCES];
    uint32_t resource_count;
    uint64_t next_place;
    /* Values ever given. */
    uint64_t used[MODEL_USED];
    uint32_t used_count;
    /* Freed values in the order of freeing, the oldest first. */
    uint64_t cold[MODEL_COLD];
    uint32_t cold_count;
    /* New leases by second; rates[0] is the second `rate_second`, rates[1] the one before. */
    uint32_t rates[MODEL_WINDOW];
    uint64_t rate_second;
    uint64_t rate_window;
    uint64_t rate_floor;     /* leases in the window that make the rate ultra, as last judged */
    uint64_t ultra_since_ms; /* 0: the rate is below */
};

struct model_op {
    uint64_t until_ms;
    uint32_t len; /* length and hash of the encoded command */
    uint64_t hash;
    char user[KERNEL_USER_MAX + 1];
    char id[KERNEL_OPID_MAX + 1];
    struct model_result result;
    bool waits; /* the lease still waits: the operation ends one window after the final answer */
};

/* Who caused an event, and why; empty: no user did, but time. */
struct model_author {
    char actor[KERNEL_USER_MAX + 1];
    char note[KERNEL_NOTE_MAX + 1];
};

struct model_disown {
    struct model_author author;
    char holder[KERNEL_HOLDER_MAX + 1];
    uint32_t pool; /* MODEL_NONE: all */
    uint64_t released;
};

struct model_demand {
    bool exists, enabled;
    uint64_t revision, placed; /* of a rule: revisions of `enabled` and of the trigger */
    char name[KERNEL_RULE_MAX + 1];
    char trigger[KERNEL_RULE_MAX + 1];
    uint32_t spec_len; /* of a rule: length of its metadata */
    uint8_t spec[MODEL_SPEC];
};

/* A rule that does not exist, but of which a revision is known: that of its end, or of reports that
 * came before the rule. */
struct model_tombstone {
    char name[8];
    uint64_t ended, said;
    uint64_t word; /* the number of the last one that was news */
    bool enabled;
};

struct model_user {
    uint32_t role; /* 0: the user does not exist */
    uint32_t max_values;
    uint64_t lsn;
    char name[KERNEL_USER_MAX + 1];
    char secret[KERNEL_SECRET_MAX + 1];
    char pools[KERNEL_PATTERNS_MAX + 1], holders[KERNEL_PATTERNS_MAX + 1];
};

struct model {
    struct kernel_limits limits;
    uint64_t shard, lsn, now_ms;
    uint32_t restores;
    /* The holder that lost a lease by the current rekey. */
    char rekeyed_from[KERNEL_HOLDER_MAX + 1];
    struct model_pool pools[MODEL_POOLS];
    struct model_lease leases[MODEL_LEASES];
    uint32_t lease_count;
    struct model_lease history[MODEL_HISTORY]; /* the oldest end first */
    uint32_t history_count;
    uint64_t retired_lsn; /* the largest that was retired */
    struct model_resting cooling[MODEL_COOLING];
    uint32_t cooling_count;
    struct model_op ops[MODEL_OPS]; /* the oldest first; some may be over */
    uint32_t op_count;
    struct model_disown disowns[MODEL_DISOWNS];
    uint32_t disown_count;
    struct model_demand rules[MODEL_RULES], sensors[MODEL_RULES];
    struct model_tombstone tombstones[KERNEL_TOMBSTONES_MAX];
    uint32_t tombstone_count;
    uint64_t tombstone_words;
    struct model_user users[MODEL_USERS];
    uint64_t users_lsn;

    /* The current command. */
    struct kernel_command c;
    const struct model_event *events;
    uint32_t event_count, event_next;
    struct model_author author; /* author of the next event */
    const struct model_result *got;
    struct model_result want;
    uint64_t retry_low, retry_high; /* range of the number that EXHAUSTED may report */
    uint32_t steps;                 /* transitions that no command names */
    uint32_t freed;
    bool serving;                      /* the command is done: the lines may move */
    uint32_t served;                   /* values and waiters */
    const struct model_result *waited; /* results that waiting clients got */
    uint32_t waited_count, waited_next;
    bool op_user; /* the command's user is held by its operation */
    char want_user[KERNEL_USER_MAX + 1];
    bool failed;
    char why[1200];
};

void model_open(struct model *m, const struct kernel_limits *limits, uint64_t shard);

/* Converts events and results of a kernel, for the functions below. */
void model_take_event(const struct kernel *kernel, const struct kernel_event *event,
                      struct model_event *ret);
void model_take_result(const struct kernel *kernel, const struct kernel_result *result,
                       struct model_result *ret);

/* The log has passed over LSNs: the next command is at `lsn`. */
void model_skip(struct model *m, uint64_t lsn);

/* The results that waiting clients got from the command that is judged next. */
void model_waited(struct model *m, const struct model_result *results, uint32_t count);

/* Judges one command that the kernel has applied at lsn + 1; false and `why` if they disagree. */
bool model_run(struct model *m, uint64_t now_ms, struct tn_bytes bytes,
               const struct model_event *events, uint32_t event_count,
               const struct model_result *got);

/* Whether the operation table takes this command at the model's own time. */
bool model_admits(const struct model *m, const struct kernel_command *c);

/* Sees how far the kernel has come with what it does in steps; to be called after each command. */
bool model_watch(struct model *m, const struct kernel *kernel);

/* Compares everything that can be read; false and `why` if something differs. */
bool model_compare(struct model *m, const struct kernel *kernel);

/* Whether nothing is due any more and no disown is in progress. */
bool model_quiet(const struct model *m);

/* ---- between the model's own files ---- */

#define MODEL_NONE UINT32_MAX

void model_fail(struct model *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
void model_ops_purge(struct model *m, uint32_t most);
void model_op_answered(struct model *m, struct model_op *op);
void model_text(char *out, size_t capacity, struct tn_bytes text);

/* model_event.c */
void model_show(const struct model *m, const struct model_value *v, struct model_shown *ret);
void model_expect(struct model *m, enum kernel_event_kind kind, enum kernel_reason reason,
                  const struct model_lease *l);
void model_expect_name(struct model *m, enum kernel_event_kind kind, const char *name,
                       uint64_t number);
void model_expect_values(struct model *m, enum kernel_event_kind kind, const char *pool,
                         const struct model_value *values, uint32_t count);
void model_expect_disowned(struct model *m, const struct model_disown *d);
/* What the command says of a sensor. */
void model_expect_sensor(struct model *m, enum kernel_event_kind kind, bool trigger);
/* Takes over what the kernel settled next, as long as it was due. */
void model_follow(struct model *m);

/* model_lease.c */
struct model_lease *model_lease_find(struct model *m, struct kernel_lease_id id);
struct model_lease *model_lease_history(struct model *m, struct kernel_lease_id id);
enum tn_result model_ended(struct model *m, struct kernel_lease_id id, struct model_lease **ret);
/* Whether a value of the lease belongs to an internal pool. */
bool model_lease_internal(const struct model *m, const struct model_lease *l);
bool model_lease_due(const struct model *m, const struct model_lease *l);
bool model_lease_forced(const struct model *m, const struct model_lease *l);
/* Brings one lease up to now; NULL if it has ended by that. */
struct model_lease *model_lease_settle(struct model *m, struct model_lease *l);
/* One transition that is due. */
void model_lease_step(struct model *m, struct model_lease *l);
/* Counts how long the holder was away, if the lease is offline. */
void model_lease_away(struct model *m, const struct model_lease *l);
void model_lease_end(struct model *m, struct model_lease *l, enum kernel_state state,
                     enum kernel_reason reason);
void model_lease_result(struct model *m, const struct model_lease *l, bool values);
void model_value_cool(struct model *m, uint32_t index);
bool model_history_over(const struct model *m, const struct model_lease *l);
/* What a lowered limit has no room for. */
void model_history_shrink(struct model *m);
void model_history_retire(struct model *m, uint32_t most);
void model_lease_meta(struct model *m, struct model_lease *l);

/* The policy that counts for a lease or a request of several pools. */
struct model_terms {
    bool sticky;
    uint64_t lease_s, max_lease_s, max_hold_s, reserve_ttl_max_s, grace_s;
};
struct model_terms model_terms(const struct model *m, const struct model_value *values,
                               uint32_t count);
struct model_next {
    uint64_t first_ms; /* 0: not foreseen */
    uint32_t entries;
    bool mixed; /* some lease spans pools */
    bool due;   /* something is due already */
};
struct model_next model_next_free(const struct model *m, uint32_t pool);
void model_exhausted(struct model *m, uint32_t pool);
uint64_t model_deadline(const struct model *m, const struct model_lease *l, uint64_t seconds,
                        uint64_t given_ms);
uint64_t model_period(const struct model_terms *terms, uint64_t ttl_s);
bool model_next_agrees(const struct model_next *next, uint64_t got);

/* model_values.c */
void model_values_check(struct model *m, const struct kernel *kernel, uint32_t pool);

/* model_pool.c */
uint32_t model_pool_find(const struct model *m, const char *name);
const struct kernel_policy *model_policy(const struct model *m, uint32_t pool);
uint64_t model_pool_size(const struct model *m, uint32_t pool);
uint32_t model_pool_new(struct model *m, const char *name, bool is_scope, uint32_t parent);
void model_scopes_drop(struct model *m);
uint64_t model_span_count(const struct kernel_policy *policy);
struct kernel_span model_span(const struct kernel_policy *policy, uint64_t i);
bool model_in_range(const struct kernel_policy *policy, uint64_t number);
bool model_excluded(const struct kernel_policy *policy, uint64_t number);
/* Excluded values of the range; the values that "any" can get. */
/* Above it, excluded values in use are not counted separately. */
#define MODEL_EXCLUDED_COUNTED 16384u
uint64_t model_pool_excluded(const struct model *m, uint32_t pool);
uint64_t model_pool_capacity(const struct model *m, uint32_t pool);
/* Whether a lease has a value of the pool or of one of its scopes, or such a value is cooling. */
bool model_pool_used(const struct model *m, uint32_t pool);
/* The scope of a template, made now; or why not. */
enum tn_result model_scope_made(struct model *m, const char *name, uint32_t *ret_pool);
bool model_pool_has(const struct model *m, uint32_t pool, uint64_t number);
bool model_resolve(const struct model *m, uint32_t pool, const struct kernel_requested *requested,
                   uint64_t *ret_number);
struct model_lease *model_value_lease(struct model *m, uint32_t pool, uint64_t number);
uint32_t model_value_cooling(const struct model *m, uint32_t pool, uint64_t number);
void model_value_settle(struct model *m, uint32_t pool, uint64_t number);
bool model_scope_remembered(const struct model *m, const char *name, uint32_t parent);
bool model_value_free(struct model *m, uint32_t pool, uint64_t number);
void model_value_given(struct model *m, uint32_t pool, uint64_t number);
void model_value_freed(struct model *m, uint32_t pool, uint64_t number);
uint64_t model_pool_held(const struct model *m, uint32_t pool, enum kernel_state state,
                         const char *holder);
uint32_t model_cold(const struct model *m);
uint32_t model_members(const struct model *m);
uint64_t model_resources(const struct model *m);
bool model_pool_in_use(const struct model *m, uint32_t pool);
void model_value_name(const struct model *m, struct model_value *v);
void model_value_cooled(struct model *m, uint32_t pool, uint64_t number);
void model_pool_add(struct model *m);
void model_pool_remove(struct model *m);

/* model_policy.c */
uint32_t model_pool_records(const struct model *m);
uint32_t model_pools_live(const struct model *m);
uint32_t model_meters(const struct model *m);
bool model_pools_full(const struct model *m);
void model_pools_free(struct model *m);
bool model_counts_holders(const struct kernel_policy *policy);
void model_pool_create(struct model *m);
void model_pool_alter(struct model *m);
void model_pool_drop(struct model *m);

/* model_rate.c */
void model_rate_begin(struct model *m, uint32_t pool);
/* What the kernel does at each alloc, release, tick and sweep. */
void model_rate_evaluate(struct model *m, uint32_t pool);
void model_rate_count(struct model *m, uint32_t pool);
bool model_metered(const struct model *m, uint32_t pool);
struct model_rate {
    uint64_t sum, rate_micro, effective_s;
    bool ultra, force_zero;
};
struct model_rate model_rate(const struct model *m, uint32_t pool, uint64_t now_ms);

/* model_alloc.c: imports too */
void model_alloc(struct model *m);

/* model_wait.c */
uint64_t model_wait_before(const struct model *m, const struct model_lease *l);
uint64_t model_waiting_in(const struct model *m, uint32_t pool);
uint64_t model_waiting_since(const struct model *m, uint32_t pool);
/* The values that waiting leases want, and their places in lines. */
void model_wait_count(const struct model *m, uint64_t *ret_values, uint64_t *ret_places);
void model_unattend(struct model *m);
/* The policy of the pool, or of what its scopes follow, has changed. */
void model_wait_altered(struct model *m, uint32_t pool);
/* The operation of this lease was repeated. */
void model_wait_take_up(struct model *m, struct kernel_lease_id id);
/* A lease has left its lines: its client gets a result. EXHAUSTED with the number UINT64_MAX stands
 * for the last refusal, whichever it was. */
void model_wait_tell(struct model *m, const struct model_lease *l, enum tn_result code,
                     uint64_t number, uint64_t before);
/* Nobody could be served. */
bool model_wait_quiet(const struct model *m);
/* Takes over a grant, or a refusal, of a waiter whose turn it is. */
bool model_wait_granted(struct model *m, const struct model_event *e);
bool model_wait_refused(struct model *m, const struct model_event *e);
bool model_values_equal(const struct model_result *a, const struct model_result *b);

/* model_import.c */
void model_pool_seed(struct model *m);

/* model_verbs.c */
void model_verb(struct model *m);
struct model_disown *model_disowned(struct model *m, const char *holder, uint32_t pool);
void model_disown_done(struct model *m);
/* Before a pool may become or cease to be internal. */
void model_disown_pass(struct model *m);
/* A lease of an internal pool, and no such pool was named. */
bool model_disown_spares(const struct model *m, const struct model_disown *d,
                         const struct model_lease *l);

/* model_demand.c */
void model_demand(struct model *m);
void model_sensor_report(struct model *m);
void model_triggers(const struct model *m, uint32_t *ret_count, uint64_t *ret_chunks);
uint64_t model_trigger_rules(const struct model *m, const char *trigger);

/* model_user.c */
void model_user(struct model *m);
uint32_t model_users(const struct model *m);
uint64_t model_user_chunks(const struct model *m);
/* That the leases of the user hold. */
uint64_t model_user_values(const struct model *m, struct tn_bytes name);
void model_users_check(struct model *m, const struct kernel *kernel);

/* model_room.c */
uint32_t model_names(const struct model *m);
uint32_t model_names_missing(const struct model *m, const char *holder, const char *user);
uint64_t model_chunks(const struct model *m);
uint32_t model_draining(const struct model *m);
/* Whether text and names fit; while a dropped set drains the kernel's answer is taken. */
bool model_text_fits(const struct model *m, uint64_t chunks);

#endif
