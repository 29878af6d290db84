/* The ownership of a replicated log: the decisions of one node, as a pure function. Facts and boot time go in,
 * effects come out; there is no clock, no I/O, no randomness and no memory besides the struct.
 *
 * The log has one register, the head (replica/replica_head.h). It is changed only by swaps: "if the head is
 * H, it becomes H'". Four of them:
 *
 *   append   by the owner: H' has a new batch           renew    by the owner, after T/3 without append
 *   take     by a follower, after silence: epoch + 1    resign   by the owner: others take over at once
 *
 *                  silence, all applied                    done
 *   FOLLOWING --------------------------> TAKING --------------------> OWNING
 *       ^   ^                                |                            |
 *       |   +---- another head, gave up -----+                            |
 *       +------- another head, resigned, no outcome for too long ---------+
 *
 *   any --- the register went back, or is gone ---> HALTED
 *
 * Time. T is ttl_ms. The owner may act as such until T after the stamp of its last swap, and takes the
 * stamp before it sends the swap. A follower takes over when 1.1 T + 50 ms have passed since the stamp
 * of the last head it knows. It cannot see the owner's clock, so it puts the stamp at
 *
 *     head.stamp_ms + the smallest (arrival - stamp_ms) of this epoch in the last 5 to 10 s
 *
 * in its own clock, which is never earlier than the true stamp and, unlike the time of arrival, does not
 * suffer when heads arrive late. Two owners at once would need clocks whose rates differ by a tenth.
 *
 * Doubt. A swap without an outcome is repeated unchanged until the store shows the outcome. If the new
 * head or the batch itself is there, it was done. If another head is there without it, it never will be
 * done, because the head that it compares with does not come back. If the log has grown past the batch's
 * key and the batch is not there, it may have been done and trimmed since: the outcome stays unknown.
 * After doubt_ms the node gives up and follows; the batch may or may not be there. A renewal is given up
 * as soon as other nodes may take over, because it has no batch. */
#ifndef TN_REPLICA_REPLICA_OWNER_H
#define TN_REPLICA_REPLICA_OWNER_H

#include "replica/replica_head.h"

enum replica_role { REPLICA_FOLLOWING, REPLICA_TAKING, REPLICA_OWNING, REPLICA_HALTED };

enum replica_swap_kind {
    REPLICA_SWAP_NONE,
    REPLICA_SWAP_APPEND,
    REPLICA_SWAP_RENEW,
    REPLICA_SWAP_TAKE,
    REPLICA_SWAP_RESIGN,
};

/* ---- Facts ---- */

enum replica_fact_kind {
    REPLICA_FACT_TICK, /* time has passed */
    REPLICA_FACT_SEEN, /* a watch or a read of this member has returned `head`, which may be old */
    REPLICA_FACT_READ, /* the answer to the effect READ: the current content of the store (linearizable) */
    REPLICA_FACT_UNREAD, /* the READ failed */
    REPLICA_FACT_APPLIED, /* this node has applied everything up to `lsn`, where the chain is `chain` */
    REPLICA_FACT_APPEND, /* the engine wants `append` in the log; one at a time */
    REPLICA_FACT_RENEW,  /* a swap is wanted now, not only when it is time to renew */
    REPLICA_FACT_RESIGN, /* the engine stops leading at once, and appends nothing more */
    /* How a swap ended. */
    REPLICA_FACT_DONE,
    REPLICA_FACT_FAILED,  /* the compare has failed: see `head`, or `has_head` is false */
    REPLICA_FACT_LATER,   /* surely not done, for now: no member reachable, too many requests */
    REPLICA_FACT_DENIED,  /* surely not done, nor would it be: denied, invalid */
    REPLICA_FACT_DOUBT,   /* unknown; it may still be done later */
    REPLICA_FACT_NOSPACE, /* done or not, but not later */
};

/* A batch to append: the fields of the head after it. */
struct replica_append {
    uint64_t first_lsn, last_lsn;
    uint64_t now_ms, shard;
    uint64_t chain;
};

struct replica_fact {
    enum replica_fact_kind kind;
    uint64_t
        number; /* number of the READ or swap that has ended; all but the latest one are ignored */
    bool has_head;
    /* FAILED, READ: the store has a batch under the key of the append in flight; it is that
     * append's. */
    bool has_batch, batch_is_mine;
    bool closes; /* RESIGN: for good, no node may take over */
    struct replica_head head;
    uint64_t lsn, chain;
    struct replica_append append;
};

/* ---- Effects ---- */

enum replica_effect_kind {
    REPLICA_DO_SWAP, /* if the head is `from`, put `to` (and the batch of an append) */
    REPLICA_DO_READ, /* read the head, and the batch of the append in flight, linearizably */
    REPLICA_DO_LEAD, /* the role is OWNING now, after `from`; `heard`: `to.now_ms` follows from the last owner's time */
    REPLICA_DO_FOLLOW,   /* the role is FOLLOWING now */
    REPLICA_DO_APPENDED, /* the append has ended: TN_OK, TN_NOSPACE, TN_LOST (surely not), TN_DOUBT */
    REPLICA_DO_REFUSE,   /* see the reason; a refusal that halts does so for good */
};

enum replica_refusal {
    REPLICA_PUT_BACK, /* the register is older than this node's knowledge; halts */
    REPLICA_GONE,     /* the register no longer exists; halts */
    REPLICA_DENIED,   /* the store does not let us write; we follow */
};

struct replica_effect {
    enum replica_effect_kind kind;
    uint64_t number; /* number of a READ or swap, repeated with its end */
    enum replica_swap_kind swap_kind;
    bool repeated; /* SWAP: it has been sent before */
    struct replica_head from, to;
    enum tn_status status;
    enum replica_refusal refusal;
    bool heard;
};

#define REPLICA_EFFECTS_MAX 6u

struct replica_effects {
    unsigned count;
    struct replica_effect at[REPLICA_EFFECTS_MAX];
};

/* ---- The node ---- */

struct replica_owner_options {
    uint32_t ttl_ms;
    uint32_t doubt_ms; /* after which an outcome is given up */
    uint32_t wait_ms;  /* how much longer than others this node waits before it takes over */
    uint32_t state_version;
    uint8_t node[REPLICA_NODE_MAX];
};

struct replica_owner {
    struct replica_owner_options options;
    enum replica_role role;
    bool has_head;
    struct replica_head head; /* the newest one known; OWNING: our last one */
    uint64_t applied_lsn, applied_chain;

    /* How far the owner's clock is behind ours at least, and since when that is being looked at. */
    uint64_t lag_ms, lag_before_ms; /* in this span of 5 s, in the one before; UINT64_MAX: none */
    uint64_t lag_since_ms;
    uint64_t carried_ms, carried_at_ms; /* the log's time when this epoch was first seen; 0: none */
    uint64_t heard_ms;                  /* of any head */
    bool live;                          /* `head` was made while this node was looking */
    uint64_t take_after_ms;
    bool barred;         /* this node must not take over */
    uint64_t reading;    /* number of the READ in flight; 0: none */
    uint64_t read_at_ms; /* not before */
    /* The knowledge when the last READ or swap was sent: its answer cannot be older. */
    struct {
        bool has_head;
        struct replica_head head;
        uint64_t applied_lsn, applied_chain;
    } floor;

    uint64_t valid_until_ms;

    struct {
        enum replica_swap_kind kind;
        uint64_t number;
        struct replica_head to;
        uint64_t stamp_ms, began_ms, retry_at_ms;
        bool sent;      /* at least once */
        bool under_way; /* an answer will come */
        bool doubt;     /* an earlier try may still be done */
        bool asking;    /* a READ will resolve the doubt */
    } swap;
    uint64_t numbers;            /* READs and swaps so far */
    uint64_t seq;                /* seq of the last swap that this node has tried */
    bool has_waiting, resigning; /* the swap after the one in flight */
    bool closing;                /* with `resigning`: for good */
    struct replica_append waiting;
};

void replica_owner_begin(struct replica_owner *owner, const struct replica_owner_options *options,
                         uint64_t boot_ms);

/* One fact at one time (which never goes back). log_ms is the time of the log now, as an owner stamps
 * it; a new owner's follows from the last head, and so does that of an owner that says 0.
 * `nonce` must be new for every call. */
void replica_owner_step(struct replica_owner *owner, const struct replica_fact *fact,
                        uint64_t boot_ms, uint64_t log_ms, const struct replica_nonce *nonce,
                        struct replica_effects *ret_effects);

/* A follower stops taking part. */
void replica_owner_halt(struct replica_owner *owner);

/* From now on this node does not take over, or may do so again. */
void replica_owner_bar(struct replica_owner *owner, bool barred);

/* May this node act as the owner at this moment? */
bool replica_owner_owns(const struct replica_owner *owner, uint64_t boot_ms);

/* When the last head was stamped, in this node's clock, as estimated: never earlier than the truth. */
uint64_t replica_owner_stamp(const struct replica_owner *owner);
/* The log's time now, estimated from the heads: never ahead of the owner's. Needs a head. */
uint64_t replica_owner_log_ms(const struct replica_owner *owner, uint64_t now_ms);
/* Whether the owner of the last head has been silent long enough to be deposed. */
bool replica_owner_is_silent(const struct replica_owner *owner, uint64_t boot_ms);

/* When a TICK is wanted at the latest; UINT64_MAX. */
uint64_t replica_owner_next_ms(const struct replica_owner *owner);

#endif
