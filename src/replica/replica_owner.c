#include "replica/replica_owner.h"

#include <string.h>

#include "base/assert.h"

#define SPAN_MS 5000u              /* over which the smallest lag is looked for, twice */
#define RETRY_MS 50u               /* after "later" */
#define MARGIN_MS 50u              /* a follower waits 1.1 T and this */
#define LAG_NONE (UINT64_MAX >> 2) /* the lag of a head of this node's own clock */

/* One step: the node, the fact's time, and the effects so far. */
struct step {
    struct replica_owner *owner;
    uint64_t now_ms, log_ms;
    const struct replica_nonce *nonce;
    struct replica_effects *effects;
};

static struct replica_effect *effect_add(struct step *s, enum replica_effect_kind kind) {
    TN_ASSERT(s->effects->count < REPLICA_EFFECTS_MAX);
    struct replica_effect *effect = &s->effects->at[s->effects->count++];
    memset(effect, 0, sizeof *effect);
    effect->kind = kind;
    return effect;
}

/* ---- Silence ---- */

/* The smallest lag of this epoch; UINT64_MAX if there is none. */
static uint64_t lag_least(const struct replica_owner *o) {
    return o->lag_ms < o->lag_before_ms ? o->lag_ms : o->lag_before_ms;
}

static void lag_forget(struct replica_owner *o, uint64_t now_ms) {
    o->lag_ms = o->lag_before_ms = UINT64_MAX;
    o->lag_since_ms = now_ms;
}

/* Clocks of other machines may be ahead of ours by any amount. The difference wraps around, and the
 * smallest lag is the smallest signed difference. */
static void lag_note(struct replica_owner *o, uint64_t now_ms) {
    uint64_t lag_ms = now_ms - o->head.stamp_ms + LAG_NONE;
    if (now_ms - o->lag_since_ms >= SPAN_MS) {
        bool recent = now_ms - o->lag_since_ms < 2 * (uint64_t)SPAN_MS;
        o->lag_before_ms = recent ? o->lag_ms : UINT64_MAX;
        o->lag_ms = UINT64_MAX;
        o->lag_since_ms = now_ms;
    }
    o->lag_ms = lag_ms < o->lag_ms ? lag_ms : o->lag_ms;
}

uint64_t replica_owner_stamp(const struct replica_owner *o) {
    return o->head.stamp_ms + lag_least(o) - LAG_NONE;
}

/* The log's time now, as far as the heads tell; never ahead of the owner's. The first head of an
 * epoch may have been delayed. If it adds nothing to the log, all deadlines are still in the time
 * of the previous epoch, and that time counts as well until the next head arrives. */
uint64_t replica_owner_log_ms(const struct replica_owner *o, uint64_t now_ms) {
    uint64_t head_ms = o->head.now_ms + (now_ms - replica_owner_stamp(o));
    uint64_t carried_ms = o->carried_ms != 0 ? o->carried_ms + (now_ms - o->carried_at_ms) : 0;
    return head_ms > carried_ms ? head_ms : carried_ms;
}

/* `live`: it was made while we were looking, not some time before. */
static void head_take(struct step *s, const struct replica_head *head, bool live) {
    struct replica_owner *o = s->owner;
    bool same = o->has_head && head->epoch == o->head.epoch &&
                replica_nonce_equal(&head->nonce, &o->head.nonce);
    bool carries = o->has_head && !same && head->lsn == o->head.lsn;
    o->live = live;
    o->carried_ms = carries ? replica_owner_log_ms(o, s->now_ms) : 0;
    o->carried_at_ms = s->now_ms;
    if (!same) {
        lag_forget(o, s->now_ms);
    }
    o->has_head = true;
    o->head = *head;
    o->heard_ms = s->now_ms;
    lag_note(o, s->now_ms);
}

/* T of the owner of the last head, if it is longer than ours: that owner counts on it. */
static uint64_t owner_ttl_ms(const struct replica_owner *o) {
    return o->head.ttl_ms > o->options.ttl_ms ? o->head.ttl_ms : o->options.ttl_ms;
}

static uint64_t take_at(const struct replica_owner *o) {
    uint64_t ttl_ms = owner_ttl_ms(o);
    uint64_t silence_ms = ttl_ms + ttl_ms / 10 + MARGIN_MS + o->options.wait_ms;
    uint64_t at_ms =
        (o->head.flags & REPLICA_RESIGNED) != 0 ? 0 : replica_owner_stamp(o) + silence_ms;
    return at_ms > o->take_after_ms ? at_ms : o->take_after_ms;
}

static bool may_take(const struct replica_owner *o) {
    return o->has_head && !o->barred && (o->head.flags & REPLICA_CLOSED) == 0 &&
           o->head.state_version <= o->options.state_version && o->applied_lsn == o->head.lsn &&
           o->applied_chain == o->head.chain;
}

/* ---- Roles ---- */

static void append_end(struct step *s, enum tn_status status) {
    effect_add(s, REPLICA_DO_APPENDED)->status = status;
}

/* No longer owner, or not after all. What waits was never sent. An owner's last head has a stamp of
 * this node's own clock. A head of another node stays as old as it was: giving up a try to take over
 * is no news of its owner. */
static void follow(struct step *s) {
    struct replica_owner *o = s->owner;
    bool led = o->role == REPLICA_OWNING;
    o->role = REPLICA_FOLLOWING;
    o->valid_until_ms = 0;
    memset(&o->swap, 0, sizeof o->swap);
    if (o->has_waiting) {
        o->has_waiting = false;
        append_end(s, TN_LOST);
    }
    o->resigning = o->closing = false;
    o->reading = 0;
    if (led) {
        lag_forget(o, s->now_ms);
        o->lag_ms = LAG_NONE;
        o->carried_ms = 0;
        o->heard_ms = s->now_ms;
        o->live = true;
        effect_add(s, REPLICA_DO_FOLLOW);
    }
}

/* The log has this head now, which another node has made. */
static void follow_head(struct step *s, const struct replica_head *head) {
    follow(s);
    head_take(s, head, true);
}

static void refuse(struct step *s, enum replica_refusal refusal) {
    follow(s);
    effect_add(s, REPLICA_DO_REFUSE)->refusal = refusal;
    if (refusal != REPLICA_DENIED) {
        s->owner->role = REPLICA_HALTED;
    }
}

/* ---- Swaps ---- */

/* Remembers what is known when a request is sent. Its answer cannot be older than that. */
static uint64_t floor_set(struct replica_owner *o) {
    o->floor.has_head = o->has_head;
    o->floor.head = o->head;
    o->floor.applied_lsn = o->applied_lsn;
    o->floor.applied_chain = o->applied_chain;
    return ++o->numbers;
}

static void read_send(struct step *s) {
    struct replica_effect *effect = effect_add(s, REPLICA_DO_READ);
    effect->number = s->owner->reading = floor_set(s->owner);
}

static void swap_send(struct step *s) {
    struct replica_owner *o = s->owner;
    struct replica_effect *effect = effect_add(s, REPLICA_DO_SWAP);
    o->swap.under_way = true;
    o->swap.number = floor_set(o);
    effect->number = o->swap.number;
    effect->swap_kind = o->swap.kind;
    effect->repeated = o->swap.sent;
    o->swap.sent = true;
    effect->from = o->head;
    effect->to = o->swap.to;
}

/* The next head, stamped now. */
static struct replica_head *swap_prepare(struct step *s, enum replica_swap_kind kind) {
    struct replica_owner *o = s->owner;
    TN_ASSERT(o->swap.kind == REPLICA_SWAP_NONE);
    o->swap.kind = kind;
    o->swap.to = o->head;
    /* A number is not used again, even if its swap was refused: heads must differ. */
    o->seq = (o->head.seq > o->seq ? o->head.seq : o->seq) + 1;
    o->swap.to.seq = o->seq;
    o->swap.to.stamp_ms = s->now_ms;
    o->swap.to.ttl_ms = o->options.ttl_ms;
    /* If the owner does not know the time yet, the new stamp must not hide the time since the last
     * one. */
    uint64_t log_ms = s->log_ms != 0 ? s->log_ms : o->head.now_ms + (s->now_ms - o->head.stamp_ms);
    o->swap.to.now_ms = log_ms > o->head.now_ms ? log_ms : o->head.now_ms;
    o->swap.stamp_ms = o->swap.began_ms = s->now_ms;
    return &o->swap.to;
}

static void begin_append(struct step *s, const struct replica_append *append) {
    struct replica_head *to = swap_prepare(s, REPLICA_SWAP_APPEND);
    TN_ASSERT(append->first_lsn == s->owner->head.lsn + 1 && append->last_lsn >= append->first_lsn);
    to->lsn = append->last_lsn;
    to->batch = append->first_lsn;
    /* The batch may have waited. The head has the time at its stamp, which may be later. */
    to->now_ms = append->now_ms > to->now_ms ? append->now_ms : to->now_ms;
    to->shard = append->shard;
    to->chain = append->chain;
    swap_send(s);
}

static void begin_take(struct step *s) {
    struct replica_owner *o = s->owner;
    uint64_t log_ms = replica_owner_log_ms(o, s->now_ms);
    struct replica_head *to = swap_prepare(s, REPLICA_SWAP_TAKE);
    to->epoch++;
    to->nonce = *s->nonce;
    to->flags = 0;
    to->state_version = o->options.state_version; /* from here on, older nodes do not follow */
    to->now_ms = log_ms;
    memcpy(to->node, o->options.node, sizeof to->node);
    o->role = REPLICA_TAKING;
    swap_send(s);
}

/* What has been waiting for the swap before it. */
static void begin_next(struct step *s) {
    struct replica_owner *o = s->owner;
    if (o->has_waiting) {
        o->has_waiting = false;
        begin_append(s, &o->waiting);
    } else if (o->resigning) {
        o->resigning = false;
        uint32_t flags = o->closing ? REPLICA_RESIGNED | REPLICA_CLOSED : REPLICA_RESIGNED;
        swap_prepare(s, REPLICA_SWAP_RESIGN)->flags |= flags;
        swap_send(s);
    } else if (s->now_ms >= o->swap.stamp_ms + o->options.ttl_ms / 3) {
        (void)swap_prepare(s, REPLICA_SWAP_RENEW);
        swap_send(s);
    }
}

static void swap_done(struct step *s) {
    struct replica_owner *o = s->owner;
    enum replica_swap_kind kind = o->swap.kind;
    uint64_t stamp_ms = o->swap.stamp_ms;
    struct replica_head from = o->head;
    o->head = o->swap.to;
    memset(&o->swap, 0, sizeof o->swap);
    o->swap.stamp_ms = stamp_ms; /* for the next renewal */
    if (kind == REPLICA_SWAP_RESIGN) {
        follow(s);
        o->take_after_ms = s->now_ms + 2 * (uint64_t)o->options.ttl_ms;
        return;
    }
    o->valid_until_ms = stamp_ms + o->options.ttl_ms;
    if (kind == REPLICA_SWAP_TAKE) {
        o->role = REPLICA_OWNING;
        struct replica_effect *effect = effect_add(s, REPLICA_DO_LEAD);
        effect->from = from;
        effect->to = o->head;
        effect->heard = o->live;
    } else if (kind == REPLICA_SWAP_APPEND) {
        o->applied_lsn = o->head.lsn;
        o->applied_chain = o->head.chain;
        append_end(s, TN_OK);
    }
    begin_next(s);
}

/* Whether this head, which the store has returned, is not a successor of the head that was known
 * when the request was sent. Heads received since then may be newer. */
static bool is_put_back(const struct replica_owner *o, const struct replica_head *head) {
    int order = o->floor.has_head ? replica_head_order(head, &o->floor.head) : 1;
    return order < 0 || (order == 0 && !replica_head_equal(head, &o->floor.head)) ||
           head->lsn < o->floor.applied_lsn ||
           (head->lsn == o->floor.applied_lsn && head->chain != o->floor.applied_chain);
}

/* The fate of the append in flight when the store has another head, or none. TN_LOST ("surely not")
 * is returned only if the store shows that the batch is not in the log. */
static enum tn_status append_fate(const struct replica_owner *o, const struct replica_fact *fact,
                                  bool sound) {
    if (fact->batch_is_mine) {
        return TN_OK; /* committed, and deposed since */
    }
    bool trimmed = sound && !fact->has_batch && fact->head.lsn >= o->swap.to.batch;
    return trimmed || (!sound && o->swap.doubt) ? TN_DOUBT : TN_LOST;
}

/* The store has another head, or none, and will never accept ours. */
static void swap_lost(struct step *s, const struct replica_fact *fact) {
    struct replica_owner *o = s->owner;
    bool put_back = fact->has_head && is_put_back(o, &fact->head);
    if (o->swap.kind == REPLICA_SWAP_APPEND) {
        enum tn_status fate = append_fate(o, fact, fact->has_head && !put_back);
        append_end(s, fate);
        if (fate == TN_OK) {
            o->applied_lsn = o->swap.to.lsn;
            o->applied_chain = o->swap.to.chain;
        }
    }
    if (!fact->has_head) {
        refuse(s, REPLICA_GONE);
    } else if (put_back) {
        refuse(s, REPLICA_PUT_BACK);
    } else {
        follow_head(s, &fact->head);
    }
}

/* Judges what the store has returned: FAILED, or READ while a swap is in doubt. True: that decides
 * the swap. */
static bool swap_judge(struct step *s, const struct replica_fact *fact) {
    struct replica_owner *o = s->owner;
    if (fact->has_head && replica_head_equal(&fact->head, &o->swap.to)) {
        swap_done(s);
        return true;
    }
    if (fact->has_head && replica_head_equal(&fact->head, &o->head)) {
        return false; /* nothing has happened yet */
    }
    swap_lost(s, fact);
    return true;
}

static void swap_give_up(struct step *s) {
    struct replica_owner *o = s->owner;
    if (o->swap.kind == REPLICA_SWAP_APPEND) {
        append_end(s, o->swap.doubt ? TN_DOUBT : TN_LOST);
    }
    follow(s);
    o->take_after_ms = s->now_ms + o->options.ttl_ms;
}

/* When the swap in flight is given up. A renewal leaves no batch in doubt: when its node's time is over
 * and others may take over, there is nothing to wait for. */
static uint64_t give_up_at(const struct replica_owner *o) {
    uint64_t doubt_ms = o->swap.began_ms + o->options.doubt_ms;
    uint64_t lapse_ms = o->valid_until_ms + o->options.ttl_ms / 10 + MARGIN_MS;
    return o->swap.kind == REPLICA_SWAP_RENEW && lapse_ms < doubt_ms ? lapse_ms : doubt_ms;
}

/* Undecided: again at this time, unless we have tried for too long. */
static void swap_again(struct step *s, uint64_t at_ms) {
    struct replica_owner *o = s->owner;
    o->swap.under_way = o->swap.asking = false;
    o->swap.retry_at_ms = at_ms;
    if (s->now_ms >= give_up_at(o)) {
        swap_give_up(s);
    } else if (s->now_ms >= at_ms) {
        swap_send(s);
    }
}

/* A READ has shown that the swap, which was refused for space, was not done. */
static void swap_no_space(struct step *s) {
    struct replica_owner *o = s->owner;
    if (o->swap.doubt) { /* an earlier try may still be */
        swap_again(s, s->now_ms + RETRY_MS);
        return;
    }
    enum replica_swap_kind kind = o->swap.kind;
    if (kind == REPLICA_SWAP_APPEND) {
        uint64_t stamp_ms = o->valid_until_ms - o->options.ttl_ms;
        memset(&o->swap, 0, sizeof o->swap);
        o->swap.stamp_ms = stamp_ms;
        append_end(s, TN_NOSPACE);
        begin_next(s);
    } else if (kind == REPLICA_SWAP_RENEW) {
        swap_again(s, s->now_ms + RETRY_MS);
    } else {
        follow(s);
        o->take_after_ms = s->now_ms + o->options.ttl_ms;
    }
}

/* How the swap ended. */
static void on_swap(struct step *s, const struct replica_fact *fact) {
    struct replica_owner *o = s->owner;
    if (o->swap.kind == REPLICA_SWAP_NONE || !o->swap.under_way || fact->number != o->swap.number) {
        return;
    }
    o->swap.under_way = false;
    switch (fact->kind) {
    case REPLICA_FACT_DONE:
        swap_done(s);
        break;
    case REPLICA_FACT_FAILED:
        if (!swap_judge(s, fact)) { /* a compare that fails on its own head: the answer was old */
            swap_again(s, s->now_ms + RETRY_MS);
        }
        break;
    case REPLICA_FACT_LATER:
        swap_again(s, s->now_ms + RETRY_MS);
        break;
    case REPLICA_FACT_DENIED:
        if (o->swap.kind == REPLICA_SWAP_APPEND) {
            append_end(s, o->swap.doubt ? TN_DOUBT : TN_LOST);
        }
        refuse(s, REPLICA_DENIED);
        o->take_after_ms = s->now_ms + o->options.ttl_ms;
        break;
    case REPLICA_FACT_NOSPACE:
        o->swap.asking = true;
        read_send(s);
        break;
    default:
        o->swap.doubt = true;
        swap_again(s, s->now_ms);
        break;
    }
}

/* ---- Heads ---- */

static void on_seen(struct step *s, const struct replica_fact *fact) {
    struct replica_owner *o = s->owner;
    int order = o->has_head ? replica_head_order(&fact->head, &o->head) : 1;
    if (o->role == REPLICA_FOLLOWING) {
        if (order > 0) {
            head_take(s, &fact->head, true);
        }
        return;
    }
    /* While a swap is in flight, its own end says more. */
    if (o->role == REPLICA_OWNING && order > 0 && o->swap.kind == REPLICA_SWAP_NONE) {
        follow_head(s, &fact->head);
    }
}

/* The current content of the register. A follower notices if it is older than before. */
static void on_read(struct step *s, const struct replica_fact *fact) {
    struct replica_owner *o = s->owner;
    if (fact->number != o->reading) {
        return;
    }
    o->reading = 0;
    if (o->swap.asking) {
        if (!swap_judge(s, fact)) {
            o->swap.asking = false;
            swap_no_space(s);
        }
        return;
    }
    if (o->role != REPLICA_FOLLOWING) {
        return;
    }
    o->heard_ms = s->now_ms;
    if (!fact->has_head) {
        if (o->has_head) {
            refuse(s, REPLICA_GONE);
        }
        return;
    }
    if (is_put_back(o, &fact->head)) {
        refuse(s, REPLICA_PUT_BACK);
    } else if (!o->has_head || replica_head_order(&fact->head, &o->head) > 0) {
        head_take(s, &fact->head, o->has_head);
    }
}

/* ---- Time ---- */

static void tick_following(struct step *s) {
    struct replica_owner *o = s->owner;
    if (may_take(o) && s->now_ms >= take_at(o)) {
        begin_take(s);
        return;
    }
    bool quiet = !o->has_head || s->now_ms - o->heard_ms >= o->options.ttl_ms / 2;
    if (quiet && o->reading == 0 && s->now_ms >= o->read_at_ms) {
        o->read_at_ms = s->now_ms + o->options.ttl_ms / 4;
        read_send(s);
    }
}

static void tick(struct step *s) {
    struct replica_owner *o = s->owner;
    if (o->role == REPLICA_FOLLOWING) {
        tick_following(s);
        return;
    }
    bool idle = !o->swap.under_way && !o->swap.asking;
    if (o->swap.kind != REPLICA_SWAP_NONE && idle) {
        swap_again(s, o->swap.retry_at_ms);
    } else if (o->role == REPLICA_OWNING && o->swap.kind == REPLICA_SWAP_NONE) {
        begin_next(s);
    }
}

static void on_append(struct step *s, const struct replica_fact *fact) {
    struct replica_owner *o = s->owner;
    if (o->role != REPLICA_OWNING) {
        append_end(s, TN_LOST);
        return;
    }
    TN_ASSERT(!o->has_waiting && o->swap.kind != REPLICA_SWAP_APPEND);
    o->has_waiting = true;
    o->waiting = fact->append;
    if (o->swap.kind == REPLICA_SWAP_NONE) {
        begin_next(s);
    }
}

static void on_unread(struct step *s, const struct replica_fact *fact) {
    struct replica_owner *o = s->owner;
    if (fact->number != o->reading) {
        return;
    }
    o->reading = 0;
    if (!o->swap.asking) {
        return;
    }
    if (s->now_ms < give_up_at(o)) {
        read_send(s);
    } else { /* its outcome can no longer be found out */
        o->swap.doubt = true;
        swap_give_up(s);
    }
}

void replica_owner_begin(struct replica_owner *owner, const struct replica_owner_options *options,
                         uint64_t boot_ms) {
    memset(owner, 0, sizeof *owner);
    owner->options = *options;
    lag_forget(owner, boot_ms);
    owner->heard_ms = boot_ms;
}

void replica_owner_step(struct replica_owner *owner, const struct replica_fact *fact,
                        uint64_t boot_ms, uint64_t log_ms, const struct replica_nonce *nonce,
                        struct replica_effects *ret_effects) {
    struct step s = {owner, boot_ms, log_ms, nonce, ret_effects};
    ret_effects->count = 0;
    if (owner->role == REPLICA_HALTED) {
        if (fact->kind == REPLICA_FACT_APPEND) {
            append_end(&s, TN_LOST);
        }
        return;
    }
    switch (fact->kind) {
    case REPLICA_FACT_TICK:
        tick(&s);
        break;
    case REPLICA_FACT_SEEN:
        on_seen(&s, fact);
        break;
    case REPLICA_FACT_READ:
        on_read(&s, fact);
        break;
    case REPLICA_FACT_UNREAD:
        on_unread(&s, fact);
        break;
    case REPLICA_FACT_APPLIED:
        if (fact->lsn >= owner->applied_lsn) {
            owner->applied_lsn = fact->lsn;
            owner->applied_chain = fact->chain;
        }
        break;
    case REPLICA_FACT_APPEND:
        on_append(&s, fact);
        break;
    case REPLICA_FACT_RENEW:
        if (owner->role == REPLICA_OWNING && owner->swap.kind == REPLICA_SWAP_NONE) {
            (void)swap_prepare(&s, REPLICA_SWAP_RENEW);
            swap_send(&s);
        }
        break;
    case REPLICA_FACT_RESIGN:
        if (owner->role == REPLICA_OWNING) {
            owner->resigning = true;
            owner->closing = fact->closes;
            if (owner->swap.kind == REPLICA_SWAP_NONE) {
                begin_next(&s);
            }
        }
        break;
    default:
        on_swap(&s, fact);
        break;
    }
}

void replica_owner_halt(struct replica_owner *owner) {
    TN_ASSERT(owner->role == REPLICA_FOLLOWING);
    owner->role = REPLICA_HALTED;
}

void replica_owner_bar(struct replica_owner *owner, bool barred) {
    owner->barred = barred;
}

bool replica_owner_owns(const struct replica_owner *owner, uint64_t boot_ms) {
    /* Other nodes take over as soon as they see the resignation, perhaps before this node knows of
     * it. */
    bool resigns = owner->resigning || owner->swap.kind == REPLICA_SWAP_RESIGN;
    return owner->role == REPLICA_OWNING && !resigns && boot_ms < owner->valid_until_ms;
}

bool replica_owner_is_silent(const struct replica_owner *owner, uint64_t boot_ms) {
    return owner->role != REPLICA_OWNING && owner->has_head &&
           boot_ms >= replica_owner_stamp(owner) + owner_ttl_ms(owner);
}

uint64_t replica_owner_next_ms(const struct replica_owner *o) {
    if (o->role == REPLICA_HALTED || o->swap.under_way || o->swap.asking) {
        return UINT64_MAX;
    }
    if (o->swap.kind != REPLICA_SWAP_NONE) {
        return o->swap.retry_at_ms;
    }
    if (o->role == REPLICA_OWNING) {
        return o->swap.stamp_ms + o->options.ttl_ms / 3;
    }
    uint64_t read_ms = o->has_head ? o->heard_ms + o->options.ttl_ms / 2 : 0;
    read_ms = read_ms > o->read_at_ms ? read_ms : o->read_at_ms;
    read_ms = o->reading != 0 ? UINT64_MAX : read_ms;
    uint64_t take_ms = may_take(o) ? take_at(o) : UINT64_MAX;
    return read_ms < take_ms ? read_ms : take_ms;
}
