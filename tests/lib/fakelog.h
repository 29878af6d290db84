/* A log in memory that commits when and how the test decides.
 *
 * It is the engine's log and the test's instrument: it checks the contract (one append at a time,
 * LSNs without gaps, time that never goes back, no append after a failure), it can answer inline,
 * on a thread of its own or only when a gate is opened, and it can fail. Committed batches survive
 * the engine: the same fakelog can be opened again. */
#ifndef TESTS_LIB_FAKELOG_H
#define TESTS_LIB_FAKELOG_H

#include <pthread.h>

#include "log/snapshot_store.h"

struct fakelog;

struct fakelog *fakelog_new(void);
void fakelog_free(struct fakelog *log);

/* For the options of an engine; after the engine has closed the log, another engine may use it. */
struct log *fakelog_base(struct fakelog *log);
struct log_store *fakelog_store(struct fakelog *log);

/* Makes it the log of a single machine, before it is opened: it is always owned. */
void fakelog_set_alone(struct fakelog *log);

/* Answers from a thread of its own instead of inside append. */
void fakelog_set_threaded(struct fakelog *log, bool threaded);

/* As fakelog_set_threaded, and the log declares it: the engine need not wait for the answer before
 * it does other things. */
void fakelog_set_later(struct fakelog *log);

/* While the gate is shut, appends are accepted but not answered. */
void fakelog_gate_set(struct fakelog *log, bool shut);
static inline void fakelog_gate_shut(struct fakelog *log) {
    fakelog_gate_set(log, true);
}
static inline void fakelog_gate_open(struct fakelog *log) {
    fakelog_gate_set(log, false);
}
/* Waits until an append is at the gate. Returns its batch, which is valid until the gate is opened. */
struct log_batch fakelog_gate_wait(struct fakelog *log);

/* ---- Ownership. It is owned from the start. ---- */

/* Sets whether this engine owns the log from now on, and who leads, and tells the follower. Not
 * while an append is in flight. */
void fakelog_owner(struct fakelog *log, bool owned, const char *leader);
/* As fakelog_owner, but waits until no append is in flight. */
void fakelog_owner_soon(struct fakelog *log, bool owned, const char *leader);
/* Only tells the follower, as fakelog_owner does; also while an append is in flight. */
void fakelog_tell(struct fakelog *log, bool owned, const char *leader);
/* Tells a follower the log's time. */
void fakelog_time(struct fakelog *log, uint64_t now_ms);
/* The n-th query from now (from 1) whether the log is owned is answered with no, once. */
void fakelog_expire_at(struct fakelog *log, unsigned question);
static inline void fakelog_expire_once(struct fakelog *log) {
    fakelog_expire_at(log, 1);
}
/* Whether the log is owned at this moment, and if not, whether its time was over long ago. The follower is
 * not told. */
void fakelog_time_goes_on(struct fakelog *log, bool owned, bool lapsed);
static inline void fakelog_expire(struct fakelog *log) {
    fakelog_time_goes_on(log, false, false);
}
static inline void fakelog_lapse(struct fakelog *log) {
    fakelog_time_goes_on(log, false, true);
}
static inline void fakelog_renew(struct fakelog *log) {
    fakelog_time_goes_on(log, true, false);
}
/* Another owner commits this batch: stores the batch and hands it to the follower, whose status it
 * returns. */
enum tn_status fakelog_feed(struct fakelog *log, const struct log_batch *batch);
/* Hands over the n-th stored batch. */
enum tn_status fakelog_hand(struct fakelog *log, unsigned n);

/* What the log reports to new leaders from now on. */
void fakelog_set_succession(struct fakelog *log, const struct log_succession *succession);
/* `call` is called inside lead, once, before lead answers. */
void fakelog_on_lead(struct fakelog *log, void (*call)(void *ctx), void *ctx);
/* `call` is called inside the next append. */
void fakelog_on_append(struct fakelog *log, void (*call)(void *ctx), void *ctx);
/* The log confirms reads from now on: `call` is called, and the log says that it is ours. */
void fakelog_on_confirm(struct fakelog *log, void (*call)(void *ctx), void *ctx);
/* Makes lead report this position of the log instead of the real one. */
void fakelog_lead_at(struct fakelog *log, uint64_t lsn);
/* The nodes that the log reports, and the age of this node's state. */
void fakelog_set_nodes(struct fakelog *log, const struct log_node *nodes, uint32_t count);
void fakelog_set_stale(struct fakelog *log, uint64_t stale_ms);

/* The next append, and the `count` - 1 after it, end with this status. After TN_LOST and TN_DOUBT
 * the log is not owned any more; statuses other than TN_NOSPACE are final by contract. `stored`
 * decides whether a batch that ends in doubt was stored. */
void fakelog_fail(struct fakelog *log, enum tn_status status, unsigned count, bool stored);
/* Snapshots fail at section n (from 1), or at the end if n is larger; 0: they do not. */
void fakelog_fail_snapshot(struct fakelog *log, unsigned section);

/* While this gate is shut, sections of snapshots are not accepted. */
void fakelog_snapshot_gate_set(struct fakelog *log, bool shut);
static inline void fakelog_snapshot_gate_shut(struct fakelog *log) {
    fakelog_snapshot_gate_set(log, true);
}
static inline void fakelog_snapshot_gate_open(struct fakelog *log) {
    fakelog_snapshot_gate_set(log, false);
}
/* Waits until a section is at this gate. */
void fakelog_snapshot_gate_wait(struct fakelog *log);

/* Between two engines: sets another time in the n-th stored batch, and the shard that load
 * reports. */
void fakelog_batch_set_now(struct fakelog *log, unsigned n, uint64_t now_ms);
void fakelog_set_shard(struct fakelog *log, uint64_t shard);
/* Every load from now on passes over this many LSNs. */
void fakelog_set_skips(struct fakelog *log, uint64_t count);

/* What happened. */
unsigned fakelog_appends(struct fakelog *log); /* all appends, including failed ones */
unsigned fakelog_batches(struct fakelog *log); /* stored */
struct log_batch fakelog_batch(struct fakelog *log, unsigned n); /* valid as long as the log is */
/* Commands in the n-th stored batch. */
static inline uint32_t fakelog_batch_count(struct fakelog *log, unsigned n) {
    return fakelog_batch(log, n).count;
}
static inline uint64_t fakelog_batch_now(struct fakelog *log, unsigned n) {
    return fakelog_batch(log, n).now_ms;
}
pthread_t fakelog_batch_thread(struct fakelog *log, unsigned n); /* who called append */
unsigned fakelog_idles(struct fakelog *log);
/* The status that idle returns from now on; TN_OK at first. */
void fakelog_idle_status(struct fakelog *log, enum tn_status status);
unsigned fakelog_snapshots(struct fakelog *log);

#endif
