/* An etcd in memory behind the interface of the real client, for simulations: one store, several
 * members, any number of clients, and everything that can go wrong on the way, from a seed.
 *
 * The fake has a clock of its own, the world's: fakeetcd_advance moves it, and messages arrive by it.
 * Clients are stepped with the clock of their node, which may run differently; only deadlines and
 * etcd_next_ms are in that clock. A client that has something to do now says 0 in etcd_next_ms.
 *
 *   do { fakeetcd_advance(fake, min(fakeetcd_next_ms(fake), ...)); etcd_step(client, node's time); }
 *
 * What is kept to even with all faults on: the store is linearizable; a call is carried out at most
 * once (twice if `doubled`), perhaps long after its caller gave up; DONE, COMPARE_FAILED and
 * SURELY_NOT are always true. Without faults it answers as etcd does (integration/fakeetcd compares
 * them). Everything follows from the seed and from the order of calls. */
#ifndef TESTS_LIB_FAKEETCD_H
#define TESTS_LIB_FAKEETCD_H

#include "etcd/etcd.h"

#define FAKEETCD_MEMBERS 3u

/* How often, in a thousand calls or messages. */
struct fakeetcd_faults {
    unsigned lost_call;  /* never arrives */
    unsigned lost_reply; /* carried out, but the caller gets no answer */
    unsigned late_call;  /* arrives up to late_ms_max later: other calls overtake it */
    unsigned late_reply;
    unsigned doubled; /* carried out once more later; the second answer goes nowhere */
    /* The connection is lost when the call arrives, before or after the call is carried out. */
    unsigned broken;
    unsigned busy;         /* refused: too many requests */
    unsigned unavailable;  /* answered "unavailable", carried out or not */
    unsigned stuck_watch;  /* a watch is created and then reports nothing */
    unsigned split;        /* changes of one revision arrive in two parts */
    uint32_t delay_ms_max; /* delay of every message, at most; 0: messages arrive at once */
    uint32_t late_ms_max;
    uint32_t lag_ms_max; /* a member applies a change this much later than the others, at most */
};

/* Every fault, as often as the simulations want it. */
extern const struct fakeetcd_faults fakeetcd_every_fault;

struct fakeetcd;
struct fakeetcd_copy;

struct fakeetcd *fakeetcd_new(uint64_t seed, unsigned members);
/* All clients must be closed. */
void fakeetcd_free(struct fakeetcd *fake);

/* A client that begins with this member. etcd_close frees it. */
struct etcd *fakeetcd_client(struct fakeetcd *fake, unsigned member);

/* Moves the world's clock, which never goes back. */
void fakeetcd_advance(struct fakeetcd *fake, uint64_t world_ms);
/* The time at which the world has something to do next; ETCD_NEVER: nothing. */
uint64_t fakeetcd_next_ms(const struct fakeetcd *fake);

void fakeetcd_set_faults(struct fakeetcd *fake, const struct fakeetcd_faults *faults);

/* ---- Mishaps ---- */

/* Stops or starts a member. Without a majority, writes and linearizable reads wait. After the
 * leader has stopped, they wait for 1 to 1.5 s. */
void fakeetcd_stop(struct fakeetcd *fake, unsigned member);
void fakeetcd_start(struct fakeetcd *fake, unsigned member);
/* A member hangs: calls that arrive wait until the member resumes. */
void fakeetcd_pause(struct fakeetcd *fake, unsigned member);
void fakeetcd_resume(struct fakeetcd *fake, unsigned member);
/* Cuts or restores a client's connection to a member. */
void fakeetcd_cut(struct etcd *client, unsigned member, bool cut);
unsigned fakeetcd_leader(const struct fakeetcd *fake);

/* The quota is used up: writes are answered "space exceeded". The next `leaks` of these writes are
 * carried out anyway, as etcd does when the quota runs out while writes are in flight. */
void fakeetcd_set_full(struct fakeetcd *fake, bool full, unsigned leaks);
/* The version that all members report; "3.4.0-fake" at first. Borrowed. */
void fakeetcd_set_version(struct fakeetcd *fake, const char *version);
/* Refuses writes whose first key contains this text: permission denied. NULL: no writes.
 * Borrowed. */
void fakeetcd_deny(struct fakeetcd *fake, const char *part);
/* Another client writes: one ETCD_PUT. */
void fakeetcd_put(struct fakeetcd *fake, const struct etcd_op *put);
/* Somebody else compacts. */
void fakeetcd_compact(struct fakeetcd *fake, int64_t revision);
/* Makes the revisions of this member larger than those of the other members by `by`. */
void fakeetcd_diverge(struct fakeetcd *fake, unsigned member, int64_t by);
/* Saves the store, and puts a saved store back, as a restore from a backup does. All connections
 * break. */
struct fakeetcd_copy *fakeetcd_save(const struct fakeetcd *fake);
void fakeetcd_put_back(struct fakeetcd *fake, const struct fakeetcd_copy *copy);
void fakeetcd_copy_free(struct fakeetcd_copy *copy);

/* ---- Looking ---- */

int64_t fakeetcd_revision(const struct fakeetcd *fake);
/* The value of a key now, borrowed until the next call; false if it does not exist. */
bool fakeetcd_value(const struct fakeetcd *fake, struct tn_bytes key, struct tn_bytes *ret_value);
/* A hash of everything in the store and of everything that has happened: equal for equal runs. */
uint64_t fakeetcd_hash(const struct fakeetcd *fake);

#endif
