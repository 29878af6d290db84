/* Internal: the kernel's records, its tables and the data derived from them.
 *
 * Everything durable is a record of a table (base/record_table.h): a snapshot is the tables' bytes
 * and the state hash is their hash. So records hold no pointers, no hash values and no padding that
 * could differ, and anything in `struct kernel` outside the tables can be rebuilt from them: the
 * maps, the bitmaps and the timer index (image.c).
 *
 * Records are read through NAME_at (const) and written through NAME_mut, which saves the old bytes
 * first while an image is being taken. A pointer from either is good until the end of the command.
 *
 * Snapshots outlive versions. Fields are appended to a record and tables to the list, never moved,
 * removed or given another meaning. Fields that a snapshot lacks load as zero, so zero must mean
 * the behavior before the field existed. Arrays that grow have spare slots. See
 * KERNEL_STATE_VERSION.
 *
 * A free record is zero except for its first four bytes; each record type has a later field that is
 * never zero in use. */
#ifndef TN_KERNEL_STATE_H
#define TN_KERNEL_STATE_H

#include "base/bitmap.h"
#include "base/chunks.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/prng.h"
#include "base/rate.h"
#include "base/record_table.h"
#include "base/timer.h"
#include "kernel/adaptive.h"
#include "kernel/deadline.h"
#include "kernel/demand.h"
#include "kernel/kernel.h"
#include "kernel/lists.h"
#include "kernel/user.h"
#include "kernel/verbs.h"
#include "kernel/waiter.h"

enum kernel_table_id {
    TABLE_ROOT,
    TABLE_LEASE,
    TABLE_MEMBER,
    TABLE_POOL,
    TABLE_RESOURCE,
    TABLE_NAME,
    TABLE_TEXT,
    TABLE_GRANT,
    TABLE_OP,
    TABLE_OP_TEXT,
    TABLE_JOB,
    TABLE_METER,
    TABLE_RULE,
    TABLE_SENSOR,
    TABLE_TRIGGER,
    TABLE_TOMBSTONE,
    TABLE_WAITER,
    TABLE_WANT,
    TABLE_USER,
    TABLE_COUNT
};

_Static_assert(TABLE_COUNT <= KERNEL_TABLES_MAX, "the image interface has room for every table");

#define LIMIT_SLOTS 64u
#define COUNTER_SLOTS 32u
#define KERNEL_PIECES_MAX 40u

/* The one record of TABLE_ROOT. */
struct root {
    uint64_t version;
    uint64_t lsn;
    uint64_t now_ms;
    uint64_t shard;
    uint64_t retired_lsn; /* the largest lease lsn that has left history */
    struct tn_prng prng;
    uint64_t leases_live;
    uint64_t members_live; /* held or cooling */
    uint64_t members_cooling;
    uint64_t history_count;   /* ended leases still readable */
    uint64_t history_members; /* their members */
    uint64_t cold_count;
    uint32_t history_head, history_tail; /* leases, oldest end first, by holder_next */
    uint32_t op_head, op_tail;           /* operations, oldest first */
    uint32_t job_head, job_tail;         /* disowns in progress */
    uint32_t drain_head;                 /* dropped sets whose resources are not all freed yet */
    uint32_t restored_count;
    uint64_t restored_lsn[KERNEL_RESTORES_MAX]; /* where each generation except the first began */
    uint64_t pools_live;
    union {
        struct kernel_limits limits;
        uint64_t limit_slots[LIMIT_SLOTS];
    };
    uint64_t edition; /* edition of the rules in force; see KERNEL_EDITION */
    /* Waiting (waiting.h). */
    uint64_t members_waiting;   /* values that waiting leases want: their members have room */
    uint64_t op_chunks_waiting; /* set aside for the answers to them */
    uint32_t serve_head1, serve_tail1; /* pools whose lines may move, + 1 */
    uint64_t users_lsn;                /* the last change of a user; 0: none */
};

_Static_assert(KERNEL_LIMIT_COUNT <= LIMIT_SLOTS, "a snapshot has a slot for every limit");

/* Bits of lease.bits: the reason of the last transition below, flags above. */
#define LEASE_REASON_MASK 0x0fu
#define LEASE_GRACE 0x10u         /* revoking because it expired, not by a revoke */
#define LEASE_TIMER_OFFLINE 0x20u /* its entry in the timer index is in the offline tree */
#define LEASE_LAG 0x40u           /* offline, and lag_s counts: an import whose times differ */

_Static_assert(KERNEL_REASON_COUNT <= 16, "a reason fits its bits");

struct lease {
    uint64_t lsn;
    uint64_t epoch;
    union {
        uint64_t deadline_ms; /* live; 0: none */
        uint64_t ended_ms;    /* ended */
    };
    union {
        uint64_t timer_ms;  /* live: its time in the timer index, at most deadline_ms; 0: none */
        uint64_t ended_lsn; /* ended: the LSN of the command; 0: unknown (edition 0) */
    };
    uint64_t created_ms;
    uint64_t last_seen_ms; /* offline: also since when, unless LEASE_LAG: a release sets both */
    union {
        uint32_t grace_s; /* as granted: seconds between the deadline and reuse */
        uint32_t lag_s;   /* with LEASE_LAG: seconds from last_seen_ms to when it became offline */
        uint32_t waiter;  /* waiting: its waiter */
    };
    uint32_t holder;                   /* name */
    uint32_t holder_prev, holder_next; /* live: the holder's leases; ended: next is history */
    uint32_t pool;                     /* the pool of all its members; TN_NONE: several pools */
    uint32_t first_member;
    uint32_t meta;  /* text or TN_NONE */
    uint32_t user;  /* name or TN_NONE */
    uint32_t ttl_s; /* requested by the client; 0: the pools' */
    uint16_t member_count;
    uint8_t state; /* enum kernel_state; 0: free record */
    uint8_t bits;
};

_Static_assert(sizeof(struct lease) == 88, "a lease is 88 bytes");

enum member_state {
    MEMBER_FREE,
    MEMBER_HELD,    /* belongs to a live lease */
    MEMBER_COOLING, /* its lease has ended, and the value is in its cooldown */
    /* Belongs to an ended lease, for reading; the value is free or has another owner. */
    MEMBER_ENDED,
    MEMBER_COLD, /* not of a lease: a freed value that a `coldest` pool remembers */
};

struct member {
    uint64_t value; /* a number; in a set, the resource's index */
    union {
        uint64_t cool_ms; /* cooling: until when */
        struct {
            uint32_t prev, next;
        } cold; /* cold: the pool's queue */
    };
    uint32_t pool;
    uint32_t lease; /* TN_NONE: cold, or cooling after its lease was retired */
    uint32_t next;  /* in its lease, in the order of the request */
    uint8_t state;  /* enum member_state */
    uint8_t marked; /* within one command */
    uint8_t reserved[2];
};

_Static_assert(sizeof(struct member) == 32, "a member is 32 bytes");

enum pool_state {
    POOL_FREE,
    POOL_LIVE,
    POOL_DROPPED /* kept while history or draining needs it */
};

struct pool {
    uint32_t name;     /* text */
    uint32_t template; /* pool whose policy a scope follows, or TN_NONE */
    uint32_t refs;     /* members of any state */
    uint32_t scopes;   /* live scopes of a template */
    uint32_t meter;    /* for a sticky pool; otherwise TN_NONE */
    uint32_t cold_head, cold_tail, cold_count;
    uint32_t first_resource; /* for a set, the latest first */
    uint32_t drain_next;
    uint8_t state;
    uint8_t tracked;      /* counts values per holder (sticky or max_per_holder) */
    uint8_t empty_listed; /* within one command: is in kernel.empty_scopes */
    uint8_t rotor_set;
    uint8_t mapped; /* its name finds it: it is live, or a dropped scope that may come back */
    uint8_t kept;   /* a scope with a policy of its own, which is not dropped when it is empty */
    uint8_t reserved[2];
    uint64_t held[KERNEL_REVOKING + 1]; /* values by lease state; index 0 counts cooling ones */
    uint64_t used;                      /* held or cooling; of a template: in all its scopes */
    uint64_t mixed;                     /* values held by leases that span pools */
    uint64_t resources;                 /* of a set */
    uint64_t next_ordinal;              /* of a set */
    uint64_t rotor;                     /* the last value given, for `next` */
    uint64_t peak;                      /* the most values that were ever used at once */
    union {
        struct kernel_pool_counters counters;
        uint64_t counter_slots[COUNTER_SLOTS];
    };
    struct kernel_policy
        policy;   /* for a kept scope: its template's with its own options in place */
    uint64_t own; /* for a kept scope: its own options, a bit each (KERNEL_OPTION_ALL) */
    /* Of a template: its kept scopes, what they can give and what they exclude. 2^64 and more is
     * UINT64_MAX. */
    uint64_t kept_scopes, kept_capacity, kept_excluded;
    uint64_t waiting; /* places in its line, attended or not; of a template: of its scopes' */
    uint32_t serve_prev1, serve_next1; /* in the list of pools to serve, + 1 */
    uint32_t serve_listed;
    uint32_t reserved2;
};

_Static_assert(KERNEL_OPTION_ALL <= 64, "a scope's own options have a bit each");
_Static_assert(sizeof(struct kernel_pool_counters) <= COUNTER_SLOTS * sizeof(uint64_t),
               "a snapshot has a slot for every counter");

#define HELD_COOLING 0u

struct resource {
    uint32_t name;
    uint32_t pool;
    uint32_t member; /* the member that owns it (held, cooling or cold), or TN_NONE */
    uint32_t prev, next;
    uint32_t refs; /* members of any state */
    uint64_t ordinal;
    uint32_t in_use;  /* 1 */
    uint32_t removed; /* no longer part of the pool; kept for history */
};

/* An interned name: a holder, a user or both. */
struct name {
    uint32_t text;
    uint32_t refs; /* leases (live and ended) as holder or user, operations, jobs */
    uint32_t first_lease;
    uint32_t job; /* a disown in progress, or TN_NONE */
};

/* The values of one holder in one tracked pool. */
struct grant {
    uint32_t pool;
    uint32_t holder;
    uint32_t values; /* never 0 in use */
    uint32_t lease;  /* in a sticky pool */
};

struct op {
    uint32_t user;   /* name or TN_NONE */
    uint32_t opid;   /* op text */
    uint32_t result; /* op text */
    uint32_t next;
    uint64_t lsn; /* never 0 in use */
    uint64_t expires_ms;
    uint64_t digest[2]; /* digest of the encoded command */
    uint32_t bits;      /* OP_*, in waiter.h */
    uint32_t waiter1;   /* + 1: the lease that it asked for is still waiting */
};

struct job {
    uint32_t holder;
    uint32_t pool;   /* or TN_NONE */
    uint32_t cursor; /* next lease to look at, or TN_NONE */
    uint32_t next;
    uint64_t lsn; /* LSN of the disown; never 0 in use */
    uint64_t released;
    /* The author, for the events of later steps. In place: no other table's room depends on it. */
    uint32_t actor_len, note_len;
    uint8_t actor[KERNEL_USER_MAX];
    uint8_t note[KERNEL_NOTE_MAX];
};

/* A claim of a request, resolved. */
struct claim_plan {
    struct tn_bytes name; /* of the pool */
    uint32_t pool;
    uint32_t asked; /* as in the command; 0: all values of a returning holder */
    uint32_t count;
    uint32_t offset; /* index of its first member in plan_members */
    bool any;
    struct tn_bytes values;
};

/* Where `lowest` need not search: every value from `from` to `next` - 1 is taken. It depends only
 * on the bitmap, not on the policy; zero: unknown. */
struct low_mark {
    uint64_t from, next;
};

/* Who caused an event and why. The bytes are those of the command or of a job. */
struct kernel_author {
    struct tn_bytes actor, note;
};

struct kernel {
    struct kernel_env env;
    struct tn_table tables[TABLE_COUNT];
    struct tn_table_image image;
    struct tn_table_header image_headers[TABLE_COUNT];
    bool image_active;

    struct tn_map leases;    /* lsn -> lease */
    struct tn_map values;    /* (pool, number) -> member that owns it */
    struct tn_map names;     /* text -> name */
    struct tn_map pools;     /* text -> pool */
    struct tn_map resources; /* (pool, text) -> resource */
    struct tn_map ordinals;  /* (pool, ordinal) -> resource */
    struct tn_map grants;    /* (pool, holder) -> grant */
    struct tn_map ops;       /* (user, opid) -> op */
    struct tn_map rules;
    struct tn_map sensors;
    struct tn_map triggers;
    struct tn_map users;

    struct tn_bitmap taken;     /* ranges: held, cooling or cold */
    struct tn_bitmap available; /* sets: free and not cold, by ordinal */

    struct low_mark *lows; /* one a pool */

    struct tn_timer_index words;      /* used.c: the words of `taken` that are not zero, in order */
    struct tn_timer_root *word_roots; /* one a pool */
    uint64_t *word_idle;              /* one a pool: a word that is in the tree and zero, + 1 */
    uint32_t *ended_before;           /* for each ended lease, the one that ended before it */
    struct lease_lists lists;
    uint32_t *user_values; /* one a name: values of live leases of the user; see user.c */

    struct tn_timer_index lines;      /* attended waiters by (lease lsn, waiter) */
    struct tn_timer_root *line_roots; /* one for each pool; the last one has all waiters */

    struct tn_timer_index timers;
    struct tn_timer_root *clocks; /* two a pool (the second: offline leases), then the mixed one */
    uint64_t *clock_before;       /* a pool's earliest entry, complemented; 0: none; last: mixed */
    struct tn_timer_root due;     /* (earliest entry, pool) of all clocks that have entries */

    uint32_t pool_found; /* by the last request; a hint */
    uint32_t event_index;
    struct kernel_author author; /* of the command, or of the disown that is being continued */
    uint32_t event_previous;     /* during a rekey: the name that loses the lease; else TN_NONE */
    uint64_t names_freed;        /* so far: a name looked up before it grew may be gone */
    uint32_t *empty_scopes;      /* scopes that may have become empty in this command */
    uint32_t empty_count;
    uint32_t *plan_members;
    struct claim_plan *plan_claims;
    struct kernel_value *event_values;
    struct kernel_value *wait_values; /* values for the answer to a waiting lease */
    uint8_t *wait_claims;             /* claims of the waiter being served */
    uint64_t wait_looked;             /* places in lines, by this command; not charged yet */
    struct kernel_result *answer;     /* answer to the command being applied */
    uint8_t *op_buffer;               /* for an encoded result */
    size_t op_buffer_bytes;
    /* Of the program that wrote the snapshot being loaded; 0: this version. */
    uint32_t load_version;
    uint32_t load_bytes[TABLE_COUNT]; /* bytes of a record in that snapshot */
    uint32_t loaded[TABLE_COUNT];     /* records that a load has brought */

    /* Memory of everything above that is neither in a table nor in a stretch of its own. */
    void *memory;
    size_t memory_bytes;
    void *pieces[KERNEL_PIECES_MAX]; /* those stretches */
    size_t piece_bytes[KERNEL_PIECES_MAX];
    size_t apart_bytes; /* bytes of all of them */
    void *table_memory[TABLE_COUNT];
    size_t table_bytes[TABLE_COUNT];
};

#define KERNEL_RECORD(type, id)                                                          \
    static inline const struct type *type##_at(const struct kernel *k, uint32_t index) { \
        TN_ASSERT(index < k->tables[id].used);                                           \
        return (const struct type *)k->tables[id].base + index;                          \
    }                                                                                    \
    static inline struct type *type##_mut(struct kernel *k, uint32_t index) {            \
        TN_ASSERT(index < k->tables[id].used);                                           \
        if (TN_UNLIKELY(k->tables[id].image != NULL)) {                                  \
            tn_table_before_write(&k->tables[id], index);                                \
        }                                                                                \
        return (struct type *)k->tables[id].base + index;                                \
    }

KERNEL_RECORD(lease, TABLE_LEASE)
KERNEL_RECORD(member, TABLE_MEMBER)
KERNEL_RECORD(pool, TABLE_POOL)
KERNEL_RECORD(resource, TABLE_RESOURCE)
KERNEL_RECORD(name, TABLE_NAME)
KERNEL_RECORD(grant, TABLE_GRANT)
KERNEL_RECORD(op, TABLE_OP)
KERNEL_RECORD(job, TABLE_JOB)
KERNEL_RECORD(rule, TABLE_RULE)
KERNEL_RECORD(sensor, TABLE_SENSOR)
KERNEL_RECORD(trigger, TABLE_TRIGGER)
KERNEL_RECORD(tombstone, TABLE_TOMBSTONE)
KERNEL_RECORD(waiter, TABLE_WAITER)
KERNEL_RECORD(want, TABLE_WANT)
KERNEL_RECORD(user, TABLE_USER)

/* A meter is as long as the largest window needs. */
static inline const struct meter *meter_at(const struct kernel *k, uint32_t index) {
    return tn_table_at(&k->tables[TABLE_METER], index);
}

static inline struct meter *meter_mut(struct kernel *k, uint32_t index) {
    return tn_table_mut(&k->tables[TABLE_METER], index);
}

static inline const struct root *root_at(const struct kernel *k) {
    return (const struct root *)k->tables[TABLE_ROOT].base;
}

static inline struct root *root_mut(struct kernel *k) {
    if (TN_UNLIKELY(k->tables[TABLE_ROOT].image != NULL)) {
        tn_table_before_write(&k->tables[TABLE_ROOT], 0);
    }
    return (struct root *)k->tables[TABLE_ROOT].base;
}

static inline uint64_t kernel_limit(const struct kernel *k, enum kernel_limit limit) {
    return root_at(k)->limits.of[limit];
}

/* Whether commands follow the rules of this edition; see KERNEL_EDITION. */
static inline bool kernel_edition_has(const struct kernel *k, uint64_t edition) {
    return root_at(k)->edition >= edition;
}

static inline uint64_t kernel_seconds_ms(uint64_t seconds) {
    return seconds * 1000;
}

/* 0 for an ended lease, whose field holds the time of its end. */
static inline uint64_t kernel_lease_deadline(const struct lease *l) {
    return kernel_state_terminal((enum kernel_state)l->state) ? 0 : l->deadline_ms;
}

/* A scope follows its template's policy, unless it has its own. */
static inline const struct kernel_policy *kernel_pool_policy(const struct kernel *k,
                                                             uint32_t pool) {
    const struct pool *p = pool_at(k, pool);
    return p->template == TN_NONE || p->kept ? &p->policy : &pool_at(k, p->template)->policy;
}

static inline bool kernel_pool_is_template(const struct kernel *k, uint32_t pool) {
    const struct pool *p = pool_at(k, pool);
    return p->template == TN_NONE && p->policy.of[KERNEL_OPTION_SCOPED] != 0;
}

static inline uint64_t kernel_pool_option(const struct kernel *k, uint32_t pool,
                                          enum kernel_option option) {
    return kernel_pool_policy(k, pool)->of[option];
}

/* The template whose sums include the scope, or TN_NONE. Edition 0 had no sums. */
static inline uint32_t kernel_pool_summed(const struct kernel *k, uint32_t pool) {
    return kernel_edition_has(k, 1) ? pool_at(k, pool)->template : TN_NONE;
}

/* ---- tables.c: tables, maps and scratch; sizes follow the limits ---- */
enum tn_status kernel_memory_take(struct kernel *k, const struct kernel_limits *limits);
void kernel_memory_drop(struct kernel *k);
/* True if the kernel's memory has the size for these limits. */
bool kernel_memory_fits(const struct kernel *k, const struct kernel_limits *limits);

/* ---- links.c ---- */
/* True if every reference of a loaded image leads to a record in use and every list ends. */
bool kernel_links_good(const struct kernel *k);

/* ---- image.c ---- */
/* Builds every map, bitmap and timer from the tables, which are those of a loaded image: false if
 * they contradict each other. */
bool kernel_rebuild(struct kernel *k);

/* ---- index.c: finding records by their keys ---- */
uint32_t kernel_index_lease(const struct kernel *k, uint64_t lsn);
void kernel_index_lease_add(struct kernel *k, uint32_t lease);
void kernel_index_lease_remove(struct kernel *k, uint32_t lease);
uint32_t kernel_index_value(const struct kernel *k, uint32_t pool, uint64_t number);
void kernel_index_value_add(struct kernel *k, uint32_t member);
void kernel_index_value_remove(struct kernel *k, uint32_t member);
uint32_t kernel_index_resource(const struct kernel *k, uint32_t pool, struct tn_bytes name);
uint32_t kernel_index_ordinal(const struct kernel *k, uint32_t pool, uint64_t ordinal);
void kernel_index_resource_add(struct kernel *k, uint32_t resource);
void kernel_index_resource_remove(struct kernel *k, uint32_t resource);
uint32_t kernel_index_grant(const struct kernel *k, uint32_t pool, uint32_t holder);
void kernel_index_grant_add(struct kernel *k, uint32_t grant);
void kernel_index_grant_remove(struct kernel *k, uint32_t grant);
uint32_t kernel_index_op(const struct kernel *k, uint32_t user, struct tn_bytes opid);
void kernel_index_op_add(struct kernel *k, uint32_t op);
void kernel_index_op_remove(struct kernel *k, uint32_t op);

/* For prefetching. */
static inline uint64_t kernel_index_lease_hash(const struct kernel *k, uint64_t lsn) {
    return tn_mix64(lsn ^ k->env.hash_seed);
}
uint64_t kernel_index_value_hash(const struct kernel *k, uint32_t pool, uint64_t number);
uint64_t kernel_index_text_hash(const struct kernel *k, struct tn_bytes text);

/* Records found by one text of TABLE_TEXT. The kind says which map, and where the text is. */
enum kernel_text_kind { TEXT_NAME, TEXT_POOL, TEXT_RULE, TEXT_SENSOR, TEXT_TRIGGER, TEXT_USER };
uint32_t kernel_index_text(const struct kernel *k, enum kernel_text_kind kind,
                           struct tn_bytes text);
void kernel_index_text_add(struct kernel *k, enum kernel_text_kind kind, uint32_t ref);
void kernel_index_text_remove(struct kernel *k, enum kernel_text_kind kind, uint32_t ref);

/* ---- name.c: interned holders and users ---- */
/* Chunks that interning this name would take; 0 if it is known. Adds 1 to *names if it is new. */
uint32_t kernel_name_cost(const struct kernel *k, struct tn_bytes text, uint32_t *names);
/* The name with one more reference. The caller has checked the cost. */
uint32_t kernel_name_hold(struct kernel *k, struct tn_bytes text);
void kernel_name_drop(struct kernel *k, uint32_t name);

/* ---- event.c ---- */
/* `timed`: no command did it, so the event has no author. */
void kernel_event_lease(struct kernel *k, enum kernel_event_kind kind, uint32_t lease, bool timed);
/* The event of a value whose cooldown has ended. */
void kernel_event_value(struct kernel *k, enum kernel_event_kind kind, uint32_t member);
void kernel_event_rule(struct kernel *k, enum kernel_event_kind kind, struct tn_bytes id,
                       uint64_t number, struct tn_bytes trigger, struct tn_bytes before);
void kernel_event_named(struct kernel *k, enum kernel_event_kind kind, struct tn_bytes name,
                        uint64_t number);
/* An event of a sensor, from the command; `trigger` may be empty. */
void kernel_event_sensor(struct kernel *k, enum kernel_event_kind kind,
                         const struct kernel_command *c, struct tn_bytes trigger);
void kernel_event_pool(struct kernel *k, enum kernel_event_kind kind, uint32_t pool, uint64_t n);
void kernel_event_holder(struct kernel *k, enum kernel_event_kind kind, uint32_t holder,
                         uint64_t number);

/* ---- deadline.c: the timer index; deadline.h ---- */
/* The clock of pools_max is that of leases that span pools. */
static inline uint32_t kernel_clock_mixed(const struct kernel *k) {
    return k->tables[TABLE_POOL].capacity;
}
/* The time of a clock's earliest entry; UINT64_MAX: it has none. */
static inline uint64_t kernel_clock_min(const struct kernel *k, uint32_t clock) {
    return ~k->clock_before[clock];
}

/* ---- due.c: transitions by time ---- */
/* Brings one lease up to now; true if that changed it. */
bool kernel_due_lease(struct kernel *k, uint32_t lease);
/* Brings one value up to now: the lease on it, or its cooldown. */
void kernel_due_value(struct kernel *k, uint32_t pool, uint64_t value);
/* Handles due entries of one clock, at most *budget of them, including stale ones. */
void kernel_due_clock(struct kernel *k, uint32_t clock, uint32_t *budget, uint64_t *freed);
/* All clocks, earliest first; then disowns and drains. */
void kernel_due_all(struct kernel *k, uint32_t budget, uint64_t *freed);
/* True if something of this pool is still due. */
bool kernel_due_remains(const struct kernel *k, uint32_t pool);
/* When a value of the pool becomes free by itself; 0: unknown. */
uint64_t kernel_due_next_free(const struct kernel *k, uint32_t pool);
/* The earliest time at which a tick may have an effect in this pool; UINT64_MAX: never. */
uint64_t kernel_due_pool(const struct kernel *k, uint32_t pool);

/* ---- value.c: a pool's values ---- */
/* Resolves a requested value to a number or a resource index. OK or BAD_VALUE. */
enum tn_result kernel_value_resolve(const struct kernel *k, uint32_t pool,
                                    const struct kernel_requested *requested, uint64_t *ret_value);
/* The member that owns it (held, cooling or cold), or TN_NONE. */
uint32_t kernel_value_owner(const struct kernel *k, uint32_t pool, uint64_t value);
bool kernel_value_excluded(const struct kernel_policy *policy, uint64_t value);
/* Called before the first claim in the pool: a pool that is no longer `coldest` forgets its cold
 * values (so an alter of a template takes effect in its scopes). */
void kernel_value_prepare(struct kernel *k, uint32_t pool);
/* Picks a free value by the pool's strategy. False: there is none. Changes nothing but the
 * generator. `cursor` is TN_NONE for the first pick of a claim and is passed on to the next
 * ones. */
bool kernel_value_pick(struct kernel *k, uint32_t pool, uint32_t *cursor, uint64_t *ret_value);
/* Whether kernel_value_pick would find one; changes nothing. */
bool kernel_value_any(const struct kernel *k, uint32_t pool);
/* A request is built in two steps, so that a refusal changes nothing: claim assigns the value to
 * the member (no other pick finds it), then either keep makes it final, or unclaim undoes it. */
void kernel_value_claim(struct kernel *k, uint32_t member);
void kernel_value_keep(struct kernel *k, uint32_t member);
void kernel_value_unclaim(struct kernel *k, uint32_t member);
/* Member records; each holds a reference to its pool and resource. */
uint32_t kernel_member_new(struct kernel *k, uint32_t pool, uint64_t value);
void kernel_member_delete(struct kernel *k, uint32_t member);
/* Frees the value (a `coldest` pool remembers it). */
void kernel_value_free(struct kernel *k, uint32_t member);
/* Forgets a cold value: it counts as never used. */
void kernel_value_cold_release(struct kernel *k, uint32_t member);
/* Forgets all cold values of the pool (at most cold_per_pool_max). */
void kernel_value_cold_forget(struct kernel *k, uint32_t pool);
void kernel_value_show(const struct kernel *k, const struct member *m, struct kernel_value *out);

/* ---- lease.c: the lifecycle of a lease ---- */
enum kernel_cause {
    CAUSE_ACTIVATE,
    CAUSE_TOUCH,
    CAUSE_RETURN,
    CAUSE_REKEY,
    CAUSE_HOLD,
    CAUSE_RELEASE,
    CAUSE_DISOWN,
    CAUSE_REVOKE,
    CAUSE_REVOKE_RESERVED,
    CAUSE_CONVERT,
    CAUSE_ACK,
    CAUSE_RECLAIM,
    CAUSE_EXPIRE,
    CAUSE_FORCE,
    CAUSE_LAPSE,
    CAUSE_GRACE_OVER,
    CAUSE_AFTER_OVER,
    CAUSE_GRANT,
    CAUSE_GRANT_RESERVED,
    CAUSE_WAITED,
    CAUSE_ABANDON,
    CAUSE_REFUSE,
    CAUSE_COUNT
};

/* Moves the lease by the lifecycle table, which must allow the cause; sets the new deadline. */
void kernel_lease_move(struct kernel *k, uint32_t lease, enum kernel_cause cause,
                       uint64_t deadline_ms);
/* OK and the lease, or NOTFOUND or RETIRED. */
enum tn_result kernel_lease_find(const struct kernel *k, struct kernel_lease_id id,
                                 uint32_t *ret_lease);
struct kernel_lease_id kernel_lease_id_of(const struct kernel *k, const struct lease *l);
/* When an offline lease went offline; 0 for any other. */
uint64_t kernel_lease_offline_since(const struct lease *l);
/* The holder is active now. If the lease was offline, counts the time it was away. */
void kernel_lease_seen(struct kernel *k, uint32_t lease);
void kernel_lease_show(const struct kernel *k, uint32_t lease, struct kernel_lease_view *v);
void kernel_lease_link(struct kernel *k, uint32_t lease);
void kernel_lease_unlink(struct kernel *k, uint32_t lease);
/* Counts the lease's values as held in its state (sign +1) or no longer (-1). */
void kernel_lease_count(struct kernel *k, uint32_t lease, int sign);
/* Adds (or takes) the lease's values to its holder's grants, where the pools are tracked. */
void kernel_lease_grants_add(struct kernel *k, uint32_t lease);
void kernel_lease_grants_remove(struct kernel *k, uint32_t lease);
/* Replaces the metadata; the caller has checked that it fits, counting the space of the old one. */
void kernel_lease_meta_set(struct kernel *k, uint32_t lease, struct tn_bytes meta);
bool kernel_lease_meta_fits(const struct kernel *k, const struct kernel_command *command,
                            uint32_t lease);
/* Whether this live lease has a value of an internal pool and so belongs to the supervisor. */
bool kernel_lease_internal(const struct kernel *k, uint32_t lease);
/* Whether the command comes from the lease's own user or an operator. */
bool kernel_lease_user_may(const struct kernel *k, const struct kernel_command *command,
                           const struct lease *lease);
/* For judge.c: the refusal of a command about a lease that is up to date; or OK. */
enum tn_result kernel_lease_check(const struct kernel *k, const struct kernel_command *command,
                                  uint32_t lease);
/* Removes at most `budget` ended leases that have left history. */
void kernel_history_retire(struct kernel *k, uint32_t budget);
/* Removes ended leases that exceed a lowered limit. */
void kernel_history_trim(struct kernel *k);
/* Whether an ended lease has left history. */
bool kernel_history_over(const struct kernel *k, const struct lease *l);
/* Ends the cooldown of a member. */
void kernel_member_cooled(struct kernel *k, uint32_t member);

/* The combined bounds of the pools of a lease. Zero: no bound. */
struct kernel_terms {
    uint64_t lease_s, max_lease_s, max_hold_s, reserve_ttl_max_s, grace_s;
};
void kernel_terms_add(struct kernel_terms *terms, const struct kernel_policy *policy);
struct kernel_terms kernel_lease_terms(const struct kernel *k, uint32_t lease);
/* now + (ttl or the pools' lease), never past created + max_hold; 0: none. A deadline
 * that was granted before (`given_ms`, 0: none) stays valid even if the policy is stricter now. */
uint64_t kernel_terms_deadline(const struct kernel *k, const struct kernel_terms *terms,
                               uint32_t ttl_s, uint64_t created_ms, uint64_t given_ms);

/* ---- pool.c ---- */
uint32_t kernel_pool_find(const struct kernel *k, struct tn_bytes name);
uint32_t kernel_pool_find_again(struct kernel *k, struct tn_bytes name); /* and remembers it */
/* A scope of a template, made now. OK, POOLS_FULL or NAMES_FULL. */
enum tn_result kernel_pool_scope(struct kernel *k, uint32_t template, struct tn_bytes name,
                                 uint32_t *ret_pool);
/* Notes that a scope may be empty; the end of the command deletes it if it is. */
void kernel_pool_maybe_empty(struct kernel *k, uint32_t pool);
void kernel_pool_drop_empty(struct kernel *k);
/* Removes one reference to the pool; the last one frees the record of a dropped pool. */
void kernel_pool_unref(struct kernel *k, uint32_t pool);
/* Frees resources of dropped sets. */
void kernel_pool_drain(struct kernel *k, uint32_t *budget);
void kernel_resource_unref(struct kernel *k, uint32_t resource);
uint64_t kernel_pool_size(const struct kernel *k, uint32_t pool);
/* The number of values that "any" can give: all except excluded ones. UINT64_MAX: also 2^64. */
uint64_t kernel_pool_capacity(const struct kernel *k, uint32_t pool);
/* The number of excluded values of a range, and how many of them are in use. Above
 * EXCLUDED_COUNTED_MAX, these are not counted, and the second number is 0. */
#define EXCLUDED_COUNTED_MAX 16384u
void kernel_pool_excluded(const struct kernel *k, uint32_t pool, uint64_t *ret_count,
                          uint64_t *ret_used);
/* Computes the sums of templates from their scopes, for a state that did not have them. */
void kernel_pool_sum_scopes(struct kernel *k);

/* ---- disown.c ---- */
/* Runs steps of disowns in progress. */
void kernel_job_run(struct kernel *k, uint32_t *budget);
/* Advances the cursors that point to a lease that leaves its holder's list. */
void kernel_job_skip(struct kernel *k, uint32_t lease);
/* True if allocations by this holder in this pool must wait for a disown. */
bool kernel_job_blocks(const struct kernel *k, uint32_t holder, uint32_t pool);
bool kernel_lease_in_pool(const struct kernel *k, uint32_t lease, uint32_t pool);

/* Fills in the lease's id, epoch, state and deadline. */
void kernel_result_lease(struct kernel *k, uint32_t lease, struct kernel_result *result);
/* Adds its values, which answer `claim_count` claims in plan_claims. */
void kernel_result_values(struct kernel *k, uint32_t lease, uint32_t claim_count,
                          struct kernel_result *result);

#endif
