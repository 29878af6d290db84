/* Typed reads: what the library and the servers ask the engine instead of the kernel.
 *
 * All see committed state only, and the caller's own completed writes. A read whose answer hangs on
 * a deadline that has passed commits a tick first, but not inside a callback and not on a full disk:
 * there it shows the state at its LSN, with leases past their deadlines as OVERDUE and the counts of
 * pools marked by overdue_since_ms. `mode` chooses among these (engine.h). To read what a certain
 * command did, call engine_wait_lsn first. Each answer carries the position that it was read at. */
#ifndef TN_ENGINE_READ_H
#define TN_ENGINE_READ_H

#include "engine/engine.h"

#define ENGINE_LEASE_VALUES 4u

struct engine_value {
    struct kernel_value value;
    char pool[KERNEL_POOL_MAX + 1];
};

struct engine_lease {
    struct kernel_lease_view view;
    uint64_t lsn;         /* the position of the read */
    uint32_t value_count; /* in `values`: the first ones of view.value_count */
    struct engine_value values[ENGINE_LEASE_VALUES];
};

enum tn_result engine_lease_read(struct engine *engine, enum engine_read_mode mode,
                                 struct kernel_lease_id id, struct engine_lease *ret_lease);
enum tn_result engine_lease_by_value(struct engine *engine, enum engine_read_mode mode,
                                     struct tn_bytes pool, const struct kernel_requested *requested,
                                     struct engine_lease *ret_lease);
/* The parts of a lease that do not fit into a struct engine_lease, as of the same position. */
struct engine_lease_rest {
    struct engine_value *values; /* all of them; room for KERNEL_BUNDLE_MAX */
    uint32_t value_count;
    void *meta; /* room for KERNEL_META_MAX */
    uint32_t meta_len;
};

/* The same with `rest`, which says where the parts go and returns their sizes. */
enum tn_result engine_lease_read_whole(struct engine *engine, enum engine_read_mode mode,
                                       struct kernel_lease_id id, struct engine_lease *ret_lease,
                                       struct engine_lease_rest *rest);
enum tn_result engine_lease_by_value_whole(struct engine *engine, enum engine_read_mode mode,
                                           struct tn_bytes pool,
                                           const struct kernel_requested *requested,
                                           struct engine_lease *ret_lease,
                                           struct engine_lease_rest *rest);
/* OK if (id, epoch) is the live authority. OVERDUE if it was, and the clock has passed its
 * deadline, which the log has not recorded. *ret_lease is set if the lease exists. */
enum tn_result engine_verify(struct engine *engine, enum engine_read_mode mode,
                             struct kernel_lease_id id, uint64_t epoch,
                             struct engine_lease *ret_lease);
/* Values from `first` on, at most `capacity`; *ret_count of them. */
enum tn_result engine_lease_values(struct engine *engine, enum engine_read_mode mode,
                                   struct kernel_lease_id id, uint32_t first,
                                   struct engine_value *out, uint32_t capacity,
                                   uint32_t *ret_count);
/* The pools that a waiting lease waits for, from `first` on: values of which only `pool` is set.
 * STATE: the lease no longer waits. */
enum tn_result engine_lease_wants(struct engine *engine, enum engine_read_mode mode,
                                  struct kernel_lease_id id, uint32_t first,
                                  struct engine_value *out, uint32_t capacity, uint32_t *ret_count);
/* At most `capacity` bytes; *ret_len is the full length. */
enum tn_result engine_lease_meta(struct engine *engine, enum engine_read_mode mode,
                                 struct kernel_lease_id id, void *out, uint32_t capacity,
                                 uint32_t *ret_len);

/* OK if a pool of this name exists or a template would make it; else POOL_NOTFOUND. */
enum tn_result engine_pool_known(struct engine *engine, enum engine_read_mode mode,
                                 struct tn_bytes name);

/* How holders are derived in a pool, and whether a holder has something of it; as things are, and on any
 * node: the command that is made from it is judged when it is committed. */
enum tn_result engine_identity_read(struct engine *engine, struct tn_bytes pool,
                                    struct kernel_identity *ret_identity);
bool engine_holder_has(struct engine *engine, struct tn_bytes pool, struct tn_bytes holder);

/* A page of leases that match. *cursor starts at 0 and is 0 again when there are no more. A page is
 * short only at the end, or after ENGINE_LEASES_LOOKED rows that do not match; which rows are looked at
 * is said at kernel_leases_scan. */
#define ENGINE_LEASES_LOOKED 8192u /* a few milliseconds: the loop of the server waits for them */
enum tn_result engine_leases_list(struct engine *engine, enum engine_read_mode mode,
                                  const struct kernel_lease_filter *filter, uint64_t *cursor,
                                  struct engine_lease *out, uint32_t capacity, uint32_t *ret_count,
                                  uint64_t *ret_lsn);

/* A page of the values of a pool (kernel_values_scan), or one of them. Spans that touch are one. A page
 * is short only at the end, or after ENGINE_VALUES_LOOKED values that do not match. BAD_REQUEST: the
 * pool is a template. */
#define ENGINE_VALUES_LOOKED 8192u /* likewise */
enum tn_result engine_values_list(struct engine *engine, enum engine_read_mode mode,
                                  struct tn_bytes pool, enum kernel_value_state state,
                                  uint64_t *cursor, struct kernel_value_view *out,
                                  uint32_t capacity, uint32_t *ret_count, uint64_t *ret_lsn);
enum tn_result engine_value_read(struct engine *engine, enum engine_read_mode mode,
                                 struct tn_bytes pool, const struct kernel_requested *requested,
                                 struct kernel_value_view *ret_view, uint64_t *ret_lsn);

enum tn_result engine_pool_read(struct engine *engine, enum engine_read_mode mode,
                                struct tn_bytes name, struct kernel_pool_view *ret_view,
                                uint64_t *ret_lsn);
enum tn_result engine_pools_list(struct engine *engine, enum engine_read_mode mode,
                                 uint64_t *cursor, struct kernel_pool_view *out, uint32_t capacity,
                                 uint32_t *ret_count, uint64_t *ret_lsn);
/* From here on, `ret_lsn` may be NULL. BAD_REQUEST if the pool is not sticky. */
enum tn_result engine_pool_metrics(struct engine *engine, enum engine_read_mode mode,
                                   struct tn_bytes name, struct engine_metrics *ret_metrics,
                                   uint64_t *ret_lsn);

enum tn_result engine_rule_read(struct engine *engine, enum engine_read_mode mode,
                                struct tn_bytes id, struct kernel_rule_view *ret_view);
/* The same, with up to KERNEL_META_MAX bytes of its metadata. */
enum tn_result engine_rule_read_whole(struct engine *engine, enum engine_read_mode mode,
                                      struct tn_bytes id, struct kernel_rule_view *ret_view,
                                      void *meta, uint64_t *ret_lsn);

/* A page of the enabled rules of a sensor's trigger; NOTFOUND if there is no such sensor. It is short
 * at the end, or after ENGINE_RULES_LOOKED rules; *cursor as always. */
#define ENGINE_RULES_LOOKED 65536u
struct engine_rule {
    struct kernel_rule_view view;
    uint8_t meta[KERNEL_META_MAX];
};
enum tn_result engine_sensor_rules(struct engine *engine, enum engine_read_mode mode,
                                   struct tn_bytes ref, uint64_t *cursor, struct engine_rule *out,
                                   uint32_t capacity, uint32_t *ret_count, uint64_t *ret_lsn);
enum tn_result engine_rules_list(struct engine *engine, enum engine_read_mode mode,
                                 uint64_t *cursor, struct kernel_rule_view *out, uint32_t capacity,
                                 uint32_t *ret_count, uint64_t *ret_lsn);
/* Up to `capacity` bytes of the sensor's specification; *ret_view has its full length. */
enum tn_result engine_sensor_read(struct engine *engine, enum engine_read_mode mode,
                                  struct tn_bytes ref, struct kernel_sensor_view *ret_view,
                                  void *spec, uint32_t capacity, uint64_t *ret_lsn);
enum tn_result engine_sensors_list(struct engine *engine, enum engine_read_mode mode,
                                   uint64_t *cursor, struct kernel_sensor_view *out,
                                   uint32_t capacity, uint32_t *ret_count, uint64_t *ret_lsn);

/* Users that were added at run time. The LSN of the last change of one: an atomic read, for a caller
 * that keeps what it has read until this number changes. */
uint64_t engine_users_lsn(const struct engine *engine);
/* In the state that this node has applied. */
enum tn_result engine_users_list(struct engine *engine, uint64_t *cursor,
                                 struct kernel_user_view *out, uint32_t capacity,
                                 uint32_t *ret_count);
/* The values that the leases of this user hold. */
enum tn_result engine_user_values(struct engine *engine, struct tn_bytes name,
                                  uint64_t *ret_values);

/* Whether the state has reached the time `ms` and has nothing left that was due by then. If so, it
 * is right for that moment, and AS_IS is enough. */
bool engine_is_current(struct engine *engine, uint64_t ms);

enum tn_result engine_usage(struct engine *engine, struct kernel_usage *ret_usage,
                            struct kernel_limits *ret_limits);
/* The hash of the whole state, and its position. Takes as long as reading all of it. */
enum tn_result engine_hash(struct engine *engine, uint64_t *ret_hash, uint64_t *ret_lsn);
/* Recounts everything. *ret_sound is the outcome, and `why` names a broken invariant. For tests. */
enum tn_result engine_check(struct engine *engine, bool *ret_sound, char *why, size_t capacity);

#endif
