/* See cell.h. */
#include "nemesis/cell.h"

#include <string.h>

/* ---- State ---- */

static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

static void hash_toggle(struct nm_cell *cell, uint32_t slot) {
    const struct nm_cell_lease *l = &cell->leases[slot];
    if (l->state != KERNEL_NO_STATE) {
        uint64_t facts =
            (uint64_t)slot << 32 | (uint32_t)l->state << 16 | (uint32_t)l->holder << 8 | l->values;
        cell->hash[0] ^= mix(facts * 0x9e3779b97f4a7c15 + l->epoch);
        cell->hash[1] ^= mix(facts + l->epoch * 0xd1342543de82ef95);
    }
}

/* Puts a lease into a slot; ended ones own nothing. */
static void lease_put(struct nm_cell *cell, uint32_t slot, struct nm_cell_lease lease) {
    hash_toggle(cell, slot);
    cell->leases[slot] = lease;
    hash_toggle(cell, slot);
    bool holds =
        lease.state != KERNEL_NO_STATE && !kernel_state_terminal((enum kernel_state)lease.state);
    for (uint32_t i = 0; i < NM_CELL_VALUES; i++) {
        if (holds && (lease.values >> i & 1) != 0) {
            cell->owner[i] = slot;
        } else if (cell->owner[i] == slot) {
            cell->owner[i] = 0;
        }
    }
}

static void undo_begin(const struct nm_cell *cell, struct nm_undo *undo, uint32_t slot,
                       uint32_t other) {
    undo->slots[0] = slot;
    undo->slots[1] = other;
    undo->leases[0] = cell->leases[slot];
    undo->leases[1] = cell->leases[other];
    memcpy(undo->owner, cell->owner, sizeof undo->owner);
}

void nm_cell_undo(struct nm_cell *cell, const struct nm_undo *undo) {
    for (uint32_t i = 0; i < 2; i++) {
        if (undo->slots[i] != 0) {
            hash_toggle(cell, undo->slots[i]);
            cell->leases[undo->slots[i]] = undo->leases[i];
            hash_toggle(cell, undo->slots[i]);
        }
    }
    memcpy(cell->owner, undo->owner, sizeof cell->owner);
}

/* ---- Grants ---- */

static uint32_t value_bit(uint32_t pool, uint32_t number) {
    return pool == 0 ? number - 1 : 2;
}

/* The lowest free value of a pool that is not in `taken`; NM_CELL_VALUES: none. */
static uint32_t value_lowest(const struct nm_cell *cell, uint32_t pool, uint32_t taken) {
    uint32_t first = pool == 0 ? 0 : 2, end = pool == 0 ? 2 : 3;
    for (uint32_t i = first; i < end; i++) {
        if (cell->owner[i] == 0 && (taken >> i & 1) == 0) {
            return i;
        }
    }
    return NM_CELL_VALUES;
}

/* Whether it asks for more of any values than a pool has: two numbers, or one name. */
static bool grant_too_large(const struct nm_op *op) {
    uint32_t demand[2] = {0};
    for (uint32_t i = 0; i < op->claim_count; i++) {
        const struct nm_claim *claim = &op->claims[i];
        if (claim->any) {
            demand[claim->pool == 0 ? 0 : 1] += claim->count == 0 ? 1 : claim->count;
        }
    }
    return demand[0] > 2 || demand[1] > 1;
}

/* Listed values first, then any; all or none. Values in the order of the request. */
static enum tn_result grant_choose(const struct nm_cell *cell, const struct nm_op *op,
                                   uint32_t *ret_mask, uint8_t values[NM_VALUES],
                                   uint32_t *ret_count) {
    uint32_t taken = 0, count = 0;
    if (grant_too_large(op)) {
        return TN_R_TOO_LARGE;
    }
    for (uint32_t pass = 0; pass < 2; pass++) {
        count = 0;
        for (uint32_t i = 0; i < op->claim_count; i++) {
            const struct nm_claim *claim = &op->claims[i];
            uint32_t wanted = claim->any && claim->count == 0 ? 1 : claim->count;
            for (uint32_t n = 0; n < wanted; n++, count++) {
                if (claim->any != (pass == 1)) {
                    continue;
                }
                uint32_t bit = claim->any ? value_lowest(cell, claim->pool, taken)
                                          : value_bit(claim->pool, claim->numbers[n]);
                if (bit == NM_CELL_VALUES) {
                    return TN_R_EXHAUSTED;
                }
                if (cell->owner[bit] != 0) {
                    return TN_R_BUSY;
                }
                taken |= 1u << bit;
                values[count] = (uint8_t)bit;
            }
        }
    }
    *ret_mask = taken;
    *ret_count = count;
    return TN_R_OK;
}

static bool values_told(const struct nm_op *op, const uint8_t values[NM_VALUES], uint32_t count) {
    bool same = op->value_count == count;
    for (uint32_t i = 0; same && i < count; i++) {
        same = value_bit(op->values[i].pool, op->values[i].number) == values[i];
    }
    return same;
}

static enum nm_fit grant_step(struct nm_cell *cell, const struct nm_item *item,
                              struct nm_undo *undo) {
    const struct nm_op *op = item->op;
    uint32_t mask = 0, count = 0;
    uint8_t values[NM_VALUES];
    enum tn_result code = grant_choose(cell, op, &mask, values, &count);
    if (item->optional) {
        if (code != TN_R_OK) {
            return NM_MISFIT; /* the operation would change nothing, as if it had not happened */
        }
    } else if (op->code != (uint8_t)code) {
        return NM_MISFIT;
    } else if (code != TN_R_OK) {
        return NM_SAME;
    }
    uint8_t state = op->verb == NM_ALLOC ? KERNEL_ACTIVE : KERNEL_RESERVED;
    bool told = item->optional || (op->has_lease && op->got_epoch == 1 && op->state == state &&
                                   values_told(op, values, count));
    if (!told || cell->leases[item->got].state != KERNEL_NO_STATE) {
        return NM_MISFIT;
    }
    undo_begin(cell, undo, item->got, 0);
    lease_put(cell, item->got,
              (struct nm_cell_lease){
                  .state = state, .holder = op->holder, .values = (uint8_t)mask, .epoch = 1});
    return NM_CHANGED;
}

/* ---- Writes about a lease ---- */

static bool names_holder(const struct nm_op *op) {
    return op->verb == NM_ACTIVATE || op->verb == NM_RELEASE || op->verb == NM_ACK;
}

static bool names_epoch(const struct nm_op *op) {
    return op->verb != NM_REVOKE && op->verb != NM_RECLAIM && op->verb != NM_LEASE;
}

/* What becomes of an existing lease by this operation, whose checks it has passed but for the state. */
static enum tn_result lease_move(const struct nm_op *op, struct nm_cell_lease *l) {
    bool reserved = l->state == KERNEL_RESERVED, active = l->state == KERNEL_ACTIVE;
    bool revoking = l->state == KERNEL_REVOKING;
    bool allowed = true;
    switch (op->verb) {
    case NM_ACTIVATE:
        allowed = reserved;
        l->state = KERNEL_ACTIVE;
        break;
    case NM_TOUCH:
        allowed = active;
        break;
    case NM_RELEASE:
        allowed = reserved || active;
        l->state = KERNEL_RELEASED;
        l->epoch++;
        break;
    case NM_REVOKE:
        if (revoking) {
            return TN_R_NOOP;
        }
        allowed = reserved || active;
        l->state = reserved ? KERNEL_REVOKED : KERNEL_REVOKING;
        l->epoch++;
        break;
    case NM_ACK:
    case NM_RECLAIM:
        allowed = revoking;
        l->state = KERNEL_REVOKED;
        break;
    case NM_REKEY:
        allowed = active;
        l->holder = op->holder;
        l->epoch++;
        break;
    default: /* VERIFY */
        allowed = active;
        break;
    }
    return allowed ? TN_R_OK : TN_R_STATE;
}

/* Order of checks: exists, holder, epoch, state. */
static enum tn_result lease_judge(const struct nm_op *op, struct nm_cell_lease *l) {
    if (l->state == KERNEL_NO_STATE) {
        return TN_R_NOTFOUND;
    }
    if (names_holder(op) && op->holder != l->holder) {
        return TN_R_HOLDER;
    }
    if (names_epoch(op) && op->epoch + (op->verb == NM_ACK) != l->epoch) {
        return TN_R_STALE;
    }
    struct nm_cell_lease after = *l;
    enum tn_result code = lease_move(op, &after);
    *l = code == TN_R_OK ? after : *l;
    return code;
}

static bool lease_same(const struct nm_cell_lease *a, const struct nm_cell_lease *b) {
    return a->state == b->state && a->epoch == b->epoch && a->holder == b->holder &&
           a->values == b->values;
}

static enum nm_fit lease_step(struct nm_cell *cell, const struct nm_item *item,
                              struct nm_undo *undo) {
    const struct nm_op *op = item->op;
    struct nm_cell_lease before = cell->leases[item->slot];
    struct nm_cell_lease after = before;
    enum tn_result code = lease_judge(op, &after);
    bool changes = !lease_same(&before, &after);
    if (item->optional) {
        if (!changes) {
            return NM_MISFIT;
        }
    } else if (op->code == TN_R_RETIRED) {
        /* How long ended leases are remembered is not the cell's business. */
        return kernel_state_terminal((enum kernel_state)before.state) ? NM_SAME : NM_MISFIT;
    } else if (op->code != (uint8_t)code) {
        return NM_MISFIT;
    } else if (code == TN_R_OK || code == TN_R_NOOP) {
        if (!op->has_lease || item->got != item->slot || op->got_epoch != after.epoch ||
            op->state != after.state) {
            return NM_MISFIT;
        }
    }
    if (!changes) {
        return NM_SAME;
    }
    undo_begin(cell, undo, item->slot, 0);
    lease_put(cell, item->slot, after);
    return NM_CHANGED;
}

/* ---- Looks ---- */

static bool lease_told(const struct nm_op *op, const struct nm_cell_lease *l) {
    uint32_t mask = 0;
    for (uint32_t i = 0; i < op->value_count; i++) {
        mask |= 1u << value_bit(op->values[i].pool, op->values[i].number);
    }
    return op->has_lease && op->got_epoch == l->epoch && op->state == l->state &&
           op->got_holder == l->holder && mask == l->values;
}

static enum nm_fit value_step(struct nm_cell *cell, const struct nm_item *item,
                              struct nm_undo *undo) {
    const struct nm_op *op = item->op;
    uint32_t slot = cell->owner[value_bit(op->claims[0].pool, op->claims[0].numbers[0])];
    if (op->code != TN_R_OK || slot == 0) {
        return op->code == TN_R_NOTFOUND && slot == 0 ? NM_SAME : NM_MISFIT;
    }
    if (!lease_told(op, &cell->leases[slot])) {
        return NM_MISFIT;
    }
    if (slot <= cell->named) {
        return slot == item->got ? NM_SAME : NM_MISFIT;
    }
    if (cell->leases[item->got].state != KERNEL_NO_STATE) {
        return NM_MISFIT;
    }
    struct nm_cell_lease lease = cell->leases[slot];
    undo_begin(cell, undo, slot, item->got);
    lease_put(cell, slot, (struct nm_cell_lease){.state = KERNEL_NO_STATE});
    lease_put(cell, item->got, lease);
    return NM_CHANGED;
}

static enum nm_fit look_step(const struct nm_cell *cell, const struct nm_item *item) {
    const struct nm_op *op = item->op;
    const struct nm_cell_lease *l = &cell->leases[item->slot];
    bool fits = false;
    switch (op->code) {
    case TN_R_OK:
        fits = l->state != KERNEL_NO_STATE && item->got == item->slot && lease_told(op, l);
        break;
    case TN_R_NOTFOUND:
        fits = l->state == KERNEL_NO_STATE;
        break;
    case TN_R_RETIRED:
        fits = kernel_state_terminal((enum kernel_state)l->state);
        break;
    default:
        break;
    }
    return fits ? NM_SAME : NM_MISFIT;
}

enum nm_fit nm_cell_step(struct nm_cell *cell, const struct nm_item *item, struct nm_undo *undo) {
    switch (item->op->verb) {
    case NM_ALLOC:
    case NM_RESERVE:
        return grant_step(cell, item, undo);
    case NM_VALUE:
        return value_step(cell, item, undo);
    case NM_LEASE:
        return look_step(cell, item);
    default:
        return lease_step(cell, item, undo);
    }
}
