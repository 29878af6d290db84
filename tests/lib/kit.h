/* A kernel in a test: creates one, builds commands, applies them, and can repeat them all.
 *
 * Every command that goes through kit_run is also recorded, so that a test can replay the whole log
 * into a second kernel, or a snapshot and the rest of the log, and compare hashes. Invariants are
 * checked after each command while `check_every` is not zero. */
#ifndef TN_TESTS_KIT_H
#define TN_TESTS_KIT_H

#include "kernel/kernel.h"

struct kit_entry {
    uint64_t now_ms;
    uint32_t len;
    uint8_t *bytes;
};

struct kit {
    struct kernel *kernel;
    struct kernel_limits limits;
    uint64_t now_ms;
    uint32_t check_every; /* interval in commands; 0 = never */
    bool record;
    uint8_t rights; /* rights added to those of each command that goes through kit_run */
    struct kit_entry *entries;
    uint32_t entry_count, entry_capacity;
    struct kernel_result result;
    struct kernel_value *values;
    /* Events of the last command, by kind. */
    uint32_t events[KERNEL_EVENT_COUNT];
    uint32_t event_count;
    uint64_t event_hash; /* of all events so far */
    /* Results of waiting clients so far, without the values. */
#define KIT_WAITED 64u
    struct kernel_result waited[KIT_WAITED];
    uint32_t waited_count;
};

/* Small limits, so that tests reach them. */
struct kernel_limits kit_limits(void);

void kit_open(struct kit *kit, const struct kernel_limits *limits);
void kit_close(struct kit *kit);

/* A mem_reserve for a kernel_env that has no memory. */
enum tn_status kit_memory_none(void *ctx, size_t bytes, bool big, void **ret_memory);

/* Applies the command at kit->now_ms; the result is also in kit->result. */
enum tn_result kit_run(struct kit *kit, const struct kernel_command *command);
enum tn_result kit_run_bytes(struct kit *kit, struct tn_bytes bytes);

/* Fails the test with the reason if an invariant is broken. */
void kit_check(const struct kit *kit);

/* Applies the recorded entries from..to-1 to another kit, at their recorded times. */
void kit_replay(const struct kit *from, struct kit *to, uint32_t first, uint32_t end);

/* Copies the kernel by image and load, into a kit that has not been opened. */
void kit_clone(struct kit *kit, struct kit *ret_clone);

/* Builders. Strings are NUL-terminated. Rights default to operator. */
struct tn_bytes kit_text(const char *text);
struct kernel_command kit_command(enum kernel_verb verb);

/* "option=value" words: kind=set lo=1 hi=10 strategy=2 lease=30 ... by their table names; values are
 * plain numbers. exclude=lo-hi may be repeated. */
enum tn_result kit_pool(struct kit *kit, const char *name, const char *options);
enum tn_result kit_alter(struct kit *kit, const char *name, const char *options);
enum tn_result kit_drop(struct kit *kit, const char *name);
enum tn_result kit_add(struct kit *kit, const char *pool, const char *names); /* "a b c" */
enum tn_result kit_remove(struct kit *kit, const char *pool, const char *names);

/* claims: "ports:2 mac:1 gpu=a,b range=5,6": name:count for any, name=v,v for values. */
enum tn_result kit_alloc(struct kit *kit, const char *holder, const char *claims, uint32_t ttl_s);
enum tn_result kit_reserve(struct kit *kit, const char *holder, const char *claims, uint32_t ttl_s);

/* An allocation that waits; opid NULL: none. */
enum tn_result kit_wait(struct kit *kit, const char *holder, const char *claims, uint32_t wait_s,
                        const char *opid);

struct kit_token {
    struct kernel_lease_id lease;
    uint64_t epoch;
};
/* The token of the last result. */
struct kit_token kit_token(const struct kit *kit);
enum tn_result kit_activate(struct kit *kit, struct kit_token t, const char *holder);
enum tn_result kit_touch(struct kit *kit, struct kit_token t, uint32_t ttl_s);
enum tn_result kit_release(struct kit *kit, struct kit_token t, const char *holder, bool immediate);
enum tn_result kit_revoke(struct kit *kit, struct kit_token t, int64_t after_s); /* < 0: none */
enum tn_result kit_ack(struct kit *kit, struct kit_token t, const char *holder);
enum tn_result kit_reclaim(struct kit *kit, struct kit_token t);
enum tn_result kit_rekey(struct kit *kit, struct kit_token t, const char *holder);
enum tn_result kit_disown(struct kit *kit, const char *holder, const char *pool);
enum tn_result kit_sweep(struct kit *kit, const char *pool);
enum tn_result kit_tick(struct kit *kit);
/* Reports that the client of a waiting lease has disconnected. */
enum tn_result kit_unattend(struct kit *kit, struct kit_token t);

/* The state of a lease now; KERNEL_NO_STATE: the lease cannot be read. */
enum kernel_state kit_state(const struct kit *kit, struct kit_token t);

#endif
