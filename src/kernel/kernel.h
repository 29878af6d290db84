/* The kernel: a deterministic state machine over one ordered log.
 *
 * It reads no clock, no randomness, no environment; it allocates nothing after kernel_create
 * (except at a change of limits, which happens only at start); it does no I/O. Same snapshot + same
 * log = same state, same results, same bytes. One thread at a time: the owner (the engine)
 * serialises apply, reads and image steps.
 *
 * Invariants (kernel_check recounts everything and verifies them):
 *   1  a value has at most one live lease; lease, members and value index agree both ways
 *   2  a bundle exists completely or not at all
 *   3  terminal leases never change again; ids are never used twice
 *   4  the timer index holds exactly the timed leases and the cooling members; an entry's time is
 *      never later than the true one
 *   5  between the revoke and the end of a lease, no other lease gets its values
 *   6  every counter equals a recount; every table is within its limit */
#ifndef TN_KERNEL_KERNEL_H
#define TN_KERNEL_KERNEL_H

#include "base/record_table.h"
#include "base/status.h"
#include "kernel/command.h"
#include "kernel/event.h"
#include "kernel/result.h"
#include "kernel/types.h"

struct kernel;

typedef void kernel_sink(void *ctx, const struct kernel *kernel, const struct kernel_event *event);

/* The answer to a command that got its lease in line, when the lease leaves the line: granted, or
 * refused after all. `result` is valid during the call only; its lease says which one. */
typedef void kernel_waited(void *ctx, const struct kernel *kernel,
                           const struct kernel_result *result);

/* What the kernel is given. Memory is zero-filled address space, as os.h's mem_reserve. */
struct kernel_env {
    void *ctx;
    enum tn_status (*mem_reserve)(void *ctx, size_t bytes, bool big, void **ret_memory);
    void (*mem_release)(void *ctx, void *memory, size_t bytes);
    uint64_t
        hash_seed; /* any number; prevents crafted collisions; never affects results or the state */
    kernel_sink *sink; /* may be NULL */
    void *sink_ctx;
    kernel_waited *waited; /* may be NULL */
    void *waited_ctx;
};

enum tn_status kernel_create(const struct kernel_env *env, const struct kernel_limits *limits,
                             uint64_t shard, struct kernel **ret_kernel);
void kernel_destroy(struct kernel *kernel);
/* Replaces the sink (NULL: none); the context stays. */
void kernel_sink_set(struct kernel *kernel, kernel_sink *sink);

/* One logged command. */
struct kernel_entry {
    uint64_t lsn;            /* the previous one + 1, or more where the log skipped positions */
    uint64_t now_ms;         /* not before the last one */
    struct tn_bytes encoded; /* as logged; the operation table stores its digest */
    const struct kernel_command *command; /* decoded from `encoded` */
};

/* Applies one command. Never fails: every outcome is a result. Before a LIMITS command, the
 * caller must call kernel_limits_prepare. */
void kernel_apply(struct kernel *kernel, const struct kernel_entry *entry,
                  struct kernel_result *ret_result);

/* Whether the command would surely be refused if it were applied next, at `now_ms` (not before the
 * state's time): then *ret_result is what kernel_apply would answer, but for the position, which is
 * that of the state. The state does not change; the scratch memory of kernel_apply is used. False: it
 * would not be refused, or that is not known without applying it. Its work is bounded. */
bool kernel_judge(struct kernel *kernel, const struct kernel_command *command, uint64_t now_ms,
                  struct kernel_result *ret_result);
/* Whether kernel_judge looks at commands like this one. */
bool kernel_judged(const struct kernel_command *command);

/* Gets the memory for new limits, keeping the state; TN_INVALID if the state does not fit them
 * (then and on TN_NOMEM nothing changes). */
enum tn_status kernel_limits_prepare(struct kernel *kernel, const struct kernel_limits *limits);

/* Prefetches memory for a command that will soon be applied as `lsn`. Optional, and without effect
 * on results. Each stage follows the pointers that the previous stage fetched, so call the stages
 * in order, some commands apart: stage 0 first, stage KERNEL_PREFETCH_STAGES - 1 last. */
#define KERNEL_PREFETCH_STAGES 3u
void kernel_prefetch(const struct kernel *kernel, const struct kernel_command *command,
                     uint64_t lsn, unsigned stage);

/* Whether the operation table has room for this command at `now_ms`, after `pending` other commands
 * with `pending_chunks`: TN_R_OK or TN_R_OPS_FULL. A command with a remembered id is always
 * admitted. The caller adds *ret_chunks to pending_chunks. */
enum tn_result kernel_op_admit(const struct kernel *kernel, const struct kernel_command *command,
                               uint64_t now_ms, uint64_t pending, uint64_t pending_chunks,
                               uint64_t *ret_chunks);

uint64_t kernel_lsn(const struct kernel *kernel);
uint64_t kernel_now(const struct kernel *kernel);
uint64_t kernel_shard(const struct kernel *kernel);
const struct kernel_limits *kernel_limits_of(const struct kernel *kernel);
uint64_t kernel_edition(const struct kernel *kernel);

/* The number of waiting leases whose clients are connected. In a log that was taken over, none is
 * (UNATTEND). */
uint64_t kernel_attended(const struct kernel *kernel);

/* The earliest time at which a tick would have an effect; UINT64_MAX: never in the current state.
 * */
uint64_t kernel_next_due(const struct kernel *kernel);

/* ---- Reads. All are pure. ---- */

/* OK, NOTFOUND or RETIRED. */
enum tn_result kernel_lease_read(const struct kernel *kernel, struct kernel_lease_id id,
                                 struct kernel_lease_view *ret_view);
/* The live lease on pool/value; NOTFOUND if it is free or cooling, POOL_NOTFOUND, BAD_VALUE. */
enum tn_result kernel_lease_by_value(const struct kernel *kernel, struct tn_bytes pool,
                                     const struct kernel_requested *requested,
                                     struct kernel_lease_view *ret_view);
/* Values from `first` on, in the order of the request; returns how many were written. */
uint32_t kernel_lease_values(const struct kernel *kernel, const struct kernel_lease_view *view,
                             uint32_t first, struct kernel_value *out, uint32_t capacity);
/* The pools that a waiting lease waits for, from `first` on: their numbers, for kernel_pool_name within
 * the same locked read; returns how many were written. */
uint32_t kernel_lease_wants(const struct kernel *kernel, const struct kernel_lease_view *view,
                            uint32_t first, uint32_t *out, uint32_t capacity);
/* Copies at most capacity bytes; returns the length. */
uint32_t kernel_lease_meta(const struct kernel *kernel, const struct kernel_lease_view *view,
                           void *out, uint32_t capacity);
/* Whether (lease, epoch) is the live authority: OK, or NOTFOUND RETIRED STALE STATE. */
enum tn_result kernel_verify(const struct kernel *kernel, struct kernel_lease_id id, uint64_t epoch,
                             struct kernel_lease_view *ret_view);

/* Leases that match. `cursor` starts at 0; the new one is returned, 0 at the end. Looks at no more than
 * `effort` records, so it may find fewer than `capacity` before the end. A lease that lives all the while
 * is found exactly once. Live leases of a holder, and of a template's scopes, come in the order of the
 * table; those of another pool in the order of their lowest values in it; in all three cases, other
 * leases are not looked at. Waiting leases have no values: a filter by pool finds them only if it also
 * asks for that state. Everything else is a scan of the table. */
uint64_t kernel_leases_scan(const struct kernel *kernel, const struct kernel_lease_filter *filter,
                            uint64_t cursor, uint32_t effort, struct kernel_lease_view *out,
                            uint32_t capacity, uint32_t *ret_count);

/* How holders are derived in the pool, or in a scope that a template would make; POOL_NOTFOUND. */
enum tn_result kernel_identity_read(const struct kernel *kernel, struct tn_bytes name,
                                    struct kernel_identity *ret_identity);
/* Whether the holder has something of the pool, as far as that is counted: in sticky pools it is.
 * */
bool kernel_holder_has(const struct kernel *kernel, struct tn_bytes pool, struct tn_bytes holder);

/* The values of a pool in order (of a set: as they were added), those of a range that are free as
 * spans. OK, POOL_NOTFOUND, or BAD_REQUEST for a template, which has none. The cursor is as above, and
 * so is the effort: a span may be cut in two where it ran out. */
enum tn_result kernel_values_scan(const struct kernel *kernel, struct tn_bytes pool,
                                  enum kernel_value_state state, uint64_t *cursor, uint32_t effort,
                                  struct kernel_value_view *out, uint32_t capacity,
                                  uint32_t *ret_count);
/* One value: OK, BAD_VALUE, or as above. For a value without a lease, its last lease is searched
 * among the latest KERNEL_LAST_LOOKED values of ended leases. */
#define KERNEL_LAST_LOOKED 16384u
enum tn_result kernel_value_read(const struct kernel *kernel, struct tn_bytes pool,
                                 const struct kernel_requested *requested,
                                 struct kernel_value_view *ret_view);

/* Whether the pool exists, or is a scope that a template would make. */
bool kernel_pool_known(const struct kernel *kernel, struct tn_bytes name);
enum tn_result kernel_pool_read(const struct kernel *kernel, struct tn_bytes name,
                                uint64_t clock_ms, struct kernel_pool_view *ret_view);
/* In order of creation slots; cursor as above. */
uint64_t kernel_pools_scan(const struct kernel *kernel, uint64_t cursor, uint64_t clock_ms,
                           struct kernel_pool_view *ret_view, bool *ret_found);
/* NUL-terminated; returns the length. */
uint32_t kernel_pool_name(const struct kernel *kernel, uint32_t pool,
                          char out[KERNEL_POOL_MAX + 1]);

enum tn_result kernel_sensor_read(const struct kernel *kernel, struct tn_bytes ref,
                                  struct kernel_sensor_view *ret_view);
uint32_t kernel_sensor_spec(const struct kernel *kernel, const struct kernel_sensor_view *view,
                            void *out, uint32_t capacity);
enum tn_result kernel_rule_read(const struct kernel *kernel, struct tn_bytes id,
                                struct kernel_rule_view *ret_view);
uint64_t kernel_sensors_scan(const struct kernel *kernel, uint64_t cursor,
                             struct kernel_sensor_view *ret_view, bool *ret_found);
uint64_t kernel_rules_scan(const struct kernel *kernel, uint64_t cursor,
                           struct kernel_rule_view *ret_view, bool *ret_found);
/* The next enabled rule of the trigger, examining at most `effort` rules. */
uint64_t kernel_trigger_rules_scan(const struct kernel *kernel, struct tn_bytes trigger,
                                   uint64_t cursor, uint32_t effort,
                                   struct kernel_rule_view *ret_view, bool *ret_found);
/* Copies at most capacity bytes; returns the length. */
uint32_t kernel_rule_meta(const struct kernel *kernel, const struct kernel_rule_view *view,
                          void *out, uint32_t capacity);
uint64_t kernel_trigger_rules(const struct kernel *kernel, struct tn_bytes trigger);

/* Users in order of slots; cursor as above. */
uint64_t kernel_users_scan(const struct kernel *kernel, uint64_t cursor,
                           struct kernel_user_view *ret_view, bool *ret_found);
/* The LSN of the last change of a user; 0: there was none. */
uint64_t kernel_users_lsn(const struct kernel *kernel);
/* The values that the leases of this user hold, whether or not it is in the table. */
uint64_t kernel_user_values(const struct kernel *kernel, struct tn_bytes name);

/* How full the tables are. */
void kernel_usage_read(const struct kernel *kernel, struct kernel_usage *ret_usage);

/* ---- Images: snapshots without stopping. ---- */

#define KERNEL_TABLES_MAX 32u

/* The tables' headers at the image's moment are in ret_headers (ret_count of them). */
void kernel_image_begin(struct kernel *kernel, tn_table_save *save, void *ctx,
                        struct tn_table_header ret_headers[KERNEL_TABLES_MAX], uint32_t *ret_count);
/* Saves about max_bytes more; false when the image is complete. */
bool kernel_image_step(struct kernel *kernel, size_t max_bytes);
void kernel_image_abandon(struct kernel *kernel);

/* Versions of the records in an image. Raise KERNEL_STATE_VERSION with every appended field or
 * table. Raise KERNEL_STATE_READER to the same number if an older program must not drop the
 * appended data: it is the oldest version that can read these images, and each image contains it.
 * Raise both with KERNEL_EDITION, too: a program without the edition can read neither the images nor the log. In a
 * cluster it stops following at the first head of a newer state version, and says why; with the same
 * version it would halt at the command that raises the edition. Version 4 is that of 0.1.0. */
#define KERNEL_STATE_VERSION 10u
#define KERNEL_STATE_READER 10u
#define KERNEL_STATE_OLDEST 4u

/* Loads an image into a new kernel: first the version of its writer, unless it is the current one;
 * then the headers, the chunks in any order, and the end, which rebuilds the indices and checks the
 * references. Shorter records are extended with zeros, and a table without a header is empty.
 * Unknown fields and tables of a newer writer are dropped. False: the image is invalid or does not
 * fit the limits. */
void kernel_load_version(struct kernel *kernel, uint32_t version);
bool kernel_load_header(struct kernel *kernel, const struct tn_table_header *header);
bool kernel_load_chunk(struct kernel *kernel, const struct tn_table_chunk *chunk, size_t len);
bool kernel_load_end(struct kernel *kernel);

/* A hash of the whole durable state. */
uint64_t kernel_hash(const struct kernel *kernel);

/* Recounts everything and compares. True if all invariants hold; else `why` names a broken one. */
bool kernel_check(const struct kernel *kernel, char *why, size_t capacity);
/* The same: TN_OK, TN_CORRUPT, or that there is no memory to count with. */
enum tn_status kernel_check_status(const struct kernel *kernel, char *why, size_t capacity);

#endif
