/* See violate.h. */
#include "nemesis/violate.h"

#include <string.h>

#include "nemesis/nm_world.h"
#include "nemesis/order.h"

/* ---- Places ---- */

typedef bool place_fits(const struct nm_history *h, const struct nm_op *op);

/* An operation that fits, from a random one on; NULL: none. */
static struct nm_op *place(struct nm_history *h, struct tn_prng *random, place_fits *fits) {
    uint32_t start = (uint32_t)tn_prng_below(random, h->op_count);
    for (uint32_t i = 0; i < h->op_count; i++) {
        struct nm_op *op = &h->ops[(start + i) % h->op_count];
        if (fits(h, op)) {
            return op;
        }
    }
    return NULL;
}

/* Whether the operation is answered, has an effect of its own and is in a cell: both judges examine
 * it. */
static bool plain(const struct nm_op *op) {
    return op->outcome == NM_COMMITTED && op->repeats == NM_NONE && !op->clash &&
           nm_group_is_cell(op->group);
}

static bool succeeded(const struct nm_op *op, uint8_t verb) {
    return plain(op) && op->verb == verb && op->code == TN_R_OK && op->has_lease;
}

static bool ended(const struct nm_op *op) {
    return kernel_state_terminal((enum kernel_state)op->state);
}

/* Whether an answer before, or after, a moment shows that this lease lives. */
static bool lives_before(const struct nm_history *h, uint64_t lease, uint64_t ns) {
    for (uint32_t i = 0; i < h->op_count; i++) {
        const struct nm_op *op = &h->ops[i];
        if (plain(op) && op->has_lease && op->got_lease == lease && !ended(op) && op->end_ns < ns) {
            return true;
        }
    }
    return false;
}

static const struct nm_op *lives_after(const struct nm_history *h, uint64_t lease, uint64_t ns) {
    for (uint32_t i = 0; i < h->op_count; i++) {
        const struct nm_op *op = &h->ops[i];
        if (plain(op) && op->has_lease && op->got_lease == lease && !ended(op) &&
            op->start_ns > ns) {
            return op;
        }
    }
    return NULL;
}

/* An operation whose answer before a moment shows that this lease has ended. */
static const struct nm_op *ended_before(const struct nm_history *h, uint64_t lease, uint64_t ns) {
    for (uint32_t i = 0; i < h->op_count; i++) {
        const struct nm_op *op = &h->ops[i];
        if (plain(op) && op->has_lease && op->got_lease == lease && ended(op) && op->end_ns < ns) {
            return op;
        }
    }
    return NULL;
}

/* Whether an operation without an answer may have changed this lease, or created one like it. */
static bool doubtful(const struct nm_history *h, uint32_t group, uint64_t lease) {
    for (uint32_t i = 0; i < h->op_count; i++) {
        const struct nm_op *op = &h->ops[i];
        if (op->outcome == NM_UNKNOWN && op->group == group && !nm_is_read(op) &&
            (op->lease == 0 || op->lease == lease)) {
            return true;
        }
    }
    return false;
}

/* Somebody else has used its operation id. */
static bool shared(const struct nm_history *h, const struct nm_op *op) {
    for (uint32_t i = 0; i < h->op_count && op->opid > 0; i++) {
        if (h->ops[i].opid == op->opid && &h->ops[i] != op) {
            return true;
        }
    }
    return false;
}

static bool same_value(struct nm_value a, struct nm_value b) {
    return a.pool == b.pool && a.number == b.number;
}

/* A later grant of this value. */
static const struct nm_op *granted_after(const struct nm_history *h, uint32_t group,
                                         struct nm_value value, uint64_t ns) {
    for (uint32_t i = 0; i < h->op_count; i++) {
        const struct nm_op *op = &h->ops[i];
        bool grant = (succeeded(op, NM_ALLOC) || succeeded(op, NM_RESERVE)) && op->group == group &&
                     op->start_ns > ns;
        for (uint32_t v = 0; grant && v < op->value_count; v++) {
            if (same_value(op->values[v], value)) {
                return op;
            }
        }
    }
    return NULL;
}

/* ---- Answers that are wrong ---- */

static bool fits_moved(const struct nm_history *h, const struct nm_op *op) {
    (void)h;
    return succeeded(op, NM_REKEY) || succeeded(op, NM_REVOKE) || succeeded(op, NM_RELEASE);
}

static bool put_other_epoch(struct nm_history *h, struct tn_prng *random) {
    struct nm_op *op = place(h, random, fits_moved);
    if (op != NULL) {
        op->got_epoch += 7;
    }
    return op != NULL;
}

static bool fits_grant(const struct nm_history *h, const struct nm_op *op) {
    (void)h;
    return succeeded(op, NM_ALLOC) && op->value_count == 1 && op->values[0].pool == 0 &&
           !op->claims[0].any;
}

static bool put_other_value(struct nm_history *h, struct tn_prng *random) {
    struct nm_op *op = place(h, random, fits_grant);
    if (op != NULL) {
        op->values[0].number = (uint8_t)(3 - op->values[0].number);
    }
    return op != NULL;
}

/* Violation: an allocation that was refused because another holder had the value is reported as
 * granted. Later grants of the value contradict it. */
static bool fits_busy(const struct nm_history *h, const struct nm_op *op) {
    return plain(op) && op->verb == NM_ALLOC && op->code == TN_R_BUSY && op->claim_count == 1 &&
           op->claims[0].count == 1 &&
           granted_after(
               h, op->group,
               (struct nm_value){.pool = op->claims[0].pool, .number = op->claims[0].numbers[0]},
               op->end_ns) != NULL;
}

static bool put_double_grant(struct nm_history *h, struct tn_prng *random) {
    struct nm_op *op = place(h, random, fits_busy);
    if (op != NULL) {
        op->code = TN_R_OK;
        op->has_lease = true;
        op->got_lease = op->lsn;
        op->got_epoch = 1;
        op->state = KERNEL_ACTIVE;
        op->number = 0;
        op->value_count = 1;
        op->values[0] =
            (struct nm_value){.pool = op->claims[0].pool, .number = op->claims[0].numbers[0]};
    }
    return op != NULL;
}

static bool fits_on_ended(const struct nm_history *h, const struct nm_op *op, uint8_t verb) {
    return plain(op) && op->verb == verb && (op->code == TN_R_STALE || op->code == TN_R_STATE) &&
           ended_before(h, op->lease, op->start_ns) != NULL;
}

static bool fits_touch_ended(const struct nm_history *h, const struct nm_op *op) {
    return fits_on_ended(h, op, NM_TOUCH);
}

static void answer_active(struct nm_op *op) {
    op->code = TN_R_OK;
    op->has_lease = true;
    op->got_lease = op->lease;
    op->got_epoch = op->epoch;
    op->state = KERNEL_ACTIVE;
}

static bool put_resurrection(struct nm_history *h, struct tn_prng *random) {
    struct nm_op *op = place(h, random, fits_touch_ended);
    if (op != NULL) {
        answer_active(op);
    }
    return op != NULL;
}

static bool fits_verify_ended(const struct nm_history *h, const struct nm_op *op) {
    return fits_on_ended(h, op, NM_VERIFY);
}

static bool put_verified_after_end(struct nm_history *h, struct tn_prng *random) {
    struct nm_op *op = place(h, random, fits_verify_ended);
    if (op != NULL) {
        answer_active(op);
    }
    return op != NULL;
}

/* Violation: a release by a client that was not the holder is reported as OK; the lease lived
 * on. */
static bool fits_stranger(const struct nm_history *h, const struct nm_op *op) {
    return plain(op) && op->verb == NM_RELEASE && op->code == TN_R_HOLDER &&
           lives_after(h, op->lease, op->end_ns) != NULL;
}

static bool put_stranger(struct nm_history *h, struct tn_prng *random) {
    struct nm_op *op = place(h, random, fits_stranger);
    if (op != NULL) {
        answer_active(op);
        op->got_epoch++;
        op->state = KERNEL_RELEASED;
    }
    return op != NULL;
}

/* ---- Effects that are lost, or should not be ---- */

static bool fits_seen(const struct nm_history *h, const struct nm_op *op) {
    return succeeded(op, NM_VALUE) && lives_before(h, op->got_lease, op->start_ns) &&
           lives_after(h, op->got_lease, op->end_ns) != NULL;
}

static void answer_nothing(struct nm_op *op) {
    op->code = TN_R_NOTFOUND;
    op->has_lease = false;
    op->value_count = 0;
    op->lsn = 0;
}

/* A value that is held looks free. */
static bool put_lost_lease(struct nm_history *h, struct tn_prng *random) {
    struct nm_op *op = place(h, random, fits_seen);
    if (op != NULL) {
        answer_nothing(op);
    }
    return op != NULL;
}

static bool fits_seen_bundle(const struct nm_history *h, const struct nm_op *op) {
    return fits_seen(h, op) && op->value_count > 1;
}

static bool put_half_bundle(struct nm_history *h, struct tn_prng *random) {
    struct nm_op *op = place(h, random, fits_seen_bundle);
    if (op != NULL) {
        answer_nothing(op);
    }
    return op != NULL;
}

/* Violation: a look shows the lease as it was before a change that had been reported. */
static bool fits_changed(const struct nm_history *h, const struct nm_op *op) {
    (void)h;
    return (succeeded(op, NM_LEASE) || succeeded(op, NM_VALUE)) && op->got_epoch > 1 &&
           lives_before(h, op->got_lease, op->start_ns);
}

static bool put_stale_read(struct nm_history *h, struct tn_prng *random) {
    uint32_t start = (uint32_t)tn_prng_below(random, h->op_count);
    for (uint32_t n = 0; n < h->op_count; n++) {
        struct nm_op *op = &h->ops[(start + n) % h->op_count];
        if (!fits_changed(h, op)) {
            continue;
        }
        for (uint32_t i = 0; i < h->op_count; i++) {
            const struct nm_op *change = &h->ops[i];
            if (plain(change) && change->has_lease && change->got_lease == op->got_lease &&
                change->got_epoch == op->got_epoch && change->end_ns < op->start_ns) {
                op->got_epoch--;
                op->state = KERNEL_ACTIVE;
                op->lsn = change->lsn - 1;
                return true;
            }
        }
    }
    return false;
}

static bool fits_used_grant(const struct nm_history *h, const struct nm_op *op) {
    return (succeeded(op, NM_ALLOC) || succeeded(op, NM_RESERVE)) && op->sends == 1 &&
           lives_after(h, op->got_lease, op->end_ns) != NULL &&
           !doubtful(h, op->group, op->got_lease) && !shared(h, op);
}

/* Told that it surely did not happen, and it did. */
static bool put_rejected_effect(struct nm_history *h, struct tn_prng *random) {
    struct nm_op *op = place(h, random, fits_used_grant);
    if (op != NULL) {
        op->outcome = NM_REJECTED;
        op->code = TN_R_OVERLOADED;
        op->opid = 0;
    }
    return op != NULL;
}

static bool fits_used_grant_later(const struct nm_history *h, const struct nm_op *op) {
    return op->life > 0 && op->start_ns > h->lives[op->life - 1].end_ns && fits_used_grant(h, op);
}

/* Sent to a server that was dead before, and it took effect anyway. */
static bool put_effect_after_death(struct nm_history *h, struct tn_prng *random) {
    struct nm_op *op = place(h, random, fits_used_grant_later);
    if (op != NULL) {
        op->outcome = NM_UNKNOWN;
        op->opid = 0;
        op->life--;
        op->has_lease = false;
    }
    return op != NULL;
}

/* Nobody ended the revoke, and the value was given again. */
static bool fits_reclaim(const struct nm_history *h, const struct nm_op *op) {
    for (uint32_t i = 0; succeeded(op, NM_RECLAIM) && i < h->op_count; i++) {
        const struct nm_op *grant = &h->ops[i];
        if ((succeeded(grant, NM_ALLOC) || succeeded(grant, NM_RESERVE)) &&
            grant->got_lease == op->got_lease) {
            return granted_after(h, op->group, grant->values[0], op->end_ns) != NULL &&
                   !doubtful(h, op->group, op->got_lease);
        }
    }
    return false;
}

static bool put_reuse_while_revoking(struct nm_history *h, struct tn_prng *random) {
    struct nm_op *op = place(h, random, fits_reclaim);
    if (op != NULL) {
        op->code = TN_R_STATE;
        op->has_lease = false;
    }
    return op != NULL;
}

/* ---- Time ---- */

/* A release that ended before the grant began. */
static bool put_time_reversed(struct nm_history *h, struct tn_prng *random) {
    struct nm_op *grant = place(h, random, fits_used_grant);
    for (uint32_t i = 0; grant != NULL && i < h->op_count; i++) {
        struct nm_op *op = &h->ops[i];
        if (plain(op) && op->has_lease && op->got_lease == grant->got_lease &&
            op->start_ns > grant->end_ns) {
            uint64_t start = op->start_ns, end = op->end_ns;
            op->start_ns = grant->start_ns;
            op->end_ns = grant->end_ns;
            grant->start_ns = start;
            grant->end_ns = end;
            return true;
        }
    }
    return false;
}

/* A read before which its own connection has written something that it does not see. */
static bool put_own_write_unseen(struct nm_history *h, struct tn_prng *random) {
    uint32_t start = (uint32_t)tn_prng_below(random, h->op_count);
    for (uint32_t n = 0; n < h->op_count; n++) {
        uint32_t index = (start + n) % h->op_count;
        struct nm_op *op = &h->ops[index];
        bool read = nm_is_read(op) && op->outcome == NM_COMMITTED && op->lsn > 0;
        for (uint32_t i = index; read && i-- > 0;) {
            const struct nm_op *before = &h->ops[i];
            if (before->connection == op->connection && before->sends == 1 && !nm_is_read(before) &&
                before->outcome == NM_COMMITTED && before->repeats == NM_NONE &&
                !before->replayed) {
                op->lsn = before->lsn - 1;
                return true;
            }
        }
    }
    return false;
}

static bool fits_read(const struct nm_history *h, const struct nm_op *op) {
    (void)h;
    return nm_is_read(op) && op->outcome == NM_COMMITTED && op->lsn > 0;
}

static bool put_fence_unheeded(struct nm_history *h, struct tn_prng *random) {
    struct nm_op *op = place(h, random, fits_read);
    if (op != NULL) {
        op->fence = op->lsn + 1;
    }
    return op != NULL;
}

/* ---- The log ---- */

/* The last life's log ends before the last answer. */
static bool put_lost_acknowledgement(struct nm_history *h, struct tn_prng *random) {
    uint64_t last = 0;
    for (uint32_t i = 0; i < h->op_count; i++) {
        const struct nm_op *op = &h->ops[i];
        bool told = op->outcome == NM_COMMITTED && !nm_is_read(op) && !op->replayed;
        last = told && op->lsn > last ? op->lsn : last;
    }
    uint64_t keep = last - 1 - tn_prng_below(random, 3);
    h->entry_count = (uint32_t)keep;
    h->lives[h->life_count - 1].last_lsn = keep;
    return true;
}

static bool decided_at(const struct nm_history *h, uint64_t lsn) {
    struct kernel_command c;
    uint32_t opid = kernel_command_decode(nm_history_bytes(h, lsn), &c) ? nm_opid_parse(c.opid) : 0;
    return opid > 0 && h->ops[opid - 1].outcome == NM_COMMITTED && h->ops[opid - 1].lsn == lsn;
}

/* A crash took an acknowledged write, and another one has its place. */
static bool put_changed_places(struct nm_history *h, struct tn_prng *random) {
    uint64_t lsn = 2 + tn_prng_below(random, h->entry_count / 2);
    for (; lsn < h->entry_count; lsn++) {
        if (decided_at(h, lsn) &&
            !tn_bytes_equal(nm_history_bytes(h, lsn), nm_history_bytes(h, lsn + 1))) {
            struct nm_entry entry = h->entries[lsn - 1];
            h->entries[lsn - 1].at = h->entries[lsn].at;
            h->entries[lsn - 1].len = h->entries[lsn].len;
            h->entries[lsn].at = entry.at;
            h->entries[lsn].len = entry.len;
            return true;
        }
    }
    return false;
}

/* Each use of the operation id was sent once and answered. */
static bool settled(const struct nm_history *h, uint32_t opid) {
    for (uint32_t i = 0; i < h->op_count; i++) {
        const struct nm_op *op = &h->ops[i];
        if (op->opid == opid && (op->sends != 1 || op->outcome != NM_COMMITTED)) {
            return false;
        }
    }
    return true;
}

static bool fits_settled_repeat(const struct nm_history *h, const struct nm_op *op) {
    return op->repeats != NM_NONE && op->outcome == NM_COMMITTED && settled(h, op->opid);
}

/* A command is in the log once more than it was sent. */
static bool put_second_entry(struct nm_history *h, struct tn_prng *random) {
    struct nm_op *op = place(h, random, fits_settled_repeat);
    if (op != NULL) {
        op->outcome = NM_REJECTED;
    }
    return op != NULL;
}

static bool fits_repeat(const struct nm_history *h, const struct nm_op *op) {
    (void)h;
    return op->repeats != NM_NONE && op->outcome == NM_COMMITTED;
}

static bool put_other_answer_to_repeat(struct nm_history *h, struct tn_prng *random) {
    struct nm_op *op = place(h, random, fits_repeat);
    if (op != NULL) {
        op->code = op->code == TN_R_OK ? TN_R_NOOP : TN_R_OK;
    }
    return op != NULL;
}

static bool put_other_position_of_repeat(struct nm_history *h, struct tn_prng *random) {
    struct nm_op *op = place(h, random, fits_repeat);
    if (op != NULL) {
        op->lsn += op->lsn < h->entry_count ? 1 : UINT64_MAX;
    }
    return op != NULL;
}

/* Not marked as a repeat: one position for two effects. */
static bool fits_unmarked(const struct nm_history *h, const struct nm_op *op) {
    return fits_repeat(h, op) && !h->ops[op->repeats].replayed;
}

static bool put_unmarked_repeat(struct nm_history *h, struct tn_prng *random) {
    struct nm_op *op = place(h, random, fits_unmarked);
    if (op != NULL) {
        op->replayed = false;
    }
    return op != NULL;
}

static bool fits_deadline(const struct nm_history *h, const struct nm_op *op) {
    (void)h;
    return op->outcome == NM_COMMITTED && op->has_lease && op->deadline_ms > 0;
}

static bool put_other_deadline(struct nm_history *h, struct tn_prng *random) {
    struct nm_op *op = place(h, random, fits_deadline);
    if (op != NULL) {
        op->deadline_ms++;
    }
    return op != NULL;
}

static bool fits_retry(const struct nm_history *h, const struct nm_op *op) {
    (void)h;
    return op->outcome == NM_COMMITTED && op->code == TN_R_EXHAUSTED && op->retry_at_ms > 0;
}

static bool put_other_retry(struct nm_history *h, struct tn_prng *random) {
    struct nm_op *op = place(h, random, fits_retry);
    if (op != NULL) {
        op->retry_at_ms--;
    }
    return op != NULL;
}

/* ---- Refusals without the log ---- */

static bool fits_unlogged(const struct nm_history *h, const struct nm_op *op) {
    return plain(op) && !nm_is_read(op) && op->opid == 0 && op->code > TN_R_NOOP &&
           op->code != TN_R_RETIRED && op->lsn > h->entry_count / 2 && !nm_is_logged(h, op);
}

static bool put_stale_refusal(struct nm_history *h, struct tn_prng *random) {
    struct nm_op *op = place(h, random, fits_unlogged);
    if (op != NULL) {
        op->lsn /= 2;
    }
    return op != NULL;
}

/* Cells have no quotas. */
static bool put_other_refusal(struct nm_history *h, struct tn_prng *random) {
    struct nm_op *op = place(h, random, fits_unlogged);
    if (op != NULL) {
        op->code = TN_R_QUOTA;
    }
    return op != NULL;
}

const struct nm_violation nm_violations[] = {
    {"another epoch is told", true, true, put_other_epoch},
    {"another value is told", true, true, put_other_value},
    {"a value has two holders", true, true, put_double_grant},
    {"an ended lease lives again", true, true, put_resurrection},
    {"a token is good after its end", true, true, put_verified_after_end},
    {"a stranger releases a lease", true, true, put_stranger},
    {"a held value looks free", true, true, put_lost_lease},
    {"half of a bundle is visible", true, true, put_half_bundle},
    {"a read shows the past", true, true, put_stale_read},
    {"what was rejected has an effect", true, true, put_rejected_effect},
    {"what a dead server was asked has an effect", true, true, put_effect_after_death},
    {"a value is given again while it is being revoked", true, true, put_reuse_while_revoking},
    {"an effect comes before its cause", true, true, put_time_reversed},
    {"another refusal without the log is told", true, true, put_other_refusal},
    {"a refusal without the log is of the past", true, false, put_stale_refusal},
    {"a connection does not see its own write", true, false, put_own_write_unseen},
    {"a read does not wait for its fence", true, false, put_fence_unheeded},
    {"the log ends before what was acknowledged", true, false, put_lost_acknowledgement},
    {"two entries of the log changed places", true, false, put_changed_places},
    {"a repeated operation is in the log once too often", true, false, put_second_entry},
    {"a repeated operation gets another answer", true, false, put_other_answer_to_repeat},
    {"a repeated operation gets another position", true, false, put_other_position_of_repeat},
    {"a repeated operation is told as a new one", true, false, put_unmarked_repeat},
    {"another deadline is told", true, false, put_other_deadline},
    {"another time to retry is told", true, false, put_other_retry},
};

const uint32_t nm_violation_count = sizeof nm_violations / sizeof nm_violations[0];
