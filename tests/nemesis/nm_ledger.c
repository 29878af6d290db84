/* See nm_ledger.h. */
#include "nemesis/nm_ledger.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "nemesis/mishap.h"

#define LINES_RECENT 40u /* the server still remembers so many leases, ended ones included */

void nm_ledger_free(struct nm_ledger *ledger) {
    free(ledger->lines);
    memset(ledger, 0, sizeof *ledger);
}

static bool lives(const struct nm_line *line) {
    return !kernel_state_terminal((enum kernel_state)line->state);
}

/* ---- Answers ---- */

static struct nm_line *line_find(struct nm_ledger *ledger, uint64_t lease) {
    for (uint32_t i = ledger->count; i-- > 0;) {
        if (ledger->lines[i].lease == lease) {
            return &ledger->lines[i];
        }
    }
    return NULL;
}

static struct nm_line *line_new(struct nm_ledger *ledger, const struct nm_op *op) {
    if (ledger->count == ledger->capacity) {
        ledger->capacity = 2 * ledger->capacity + 256;
        ledger->lines = realloc(ledger->lines, ledger->capacity * sizeof ledger->lines[0]);
        TN_ASSERT(ledger->lines != NULL);
    }
    struct nm_line *line = &ledger->lines[ledger->count++];
    *line = (struct nm_line){.lease = op->got_lease, .group = op->group};
    return line;
}

static void answer_take(struct nm_ledger *ledger, const struct nm_op *op) {
    bool says = op->outcome == NM_COMMITTED && !nm_is_read(op) && op->has_lease &&
                (op->code == TN_R_OK || op->code == TN_R_NOOP);
    if (!says || op->repeats != NM_NONE) {
        return;
    }
    struct nm_line *line = line_find(ledger, op->got_lease);
    line = line != NULL ? line : line_new(ledger, op);
    bool grant = op->verb == NM_ALLOC || op->verb == NM_RESERVE;
    if (grant) {
        line->value_count = op->value_count;
        memcpy(line->values, op->values, sizeof line->values);
    }
    /* A pipeline's answers may come in after those that other connections got later. */
    if (op->lsn > line->lsn) {
        line->epoch = op->got_epoch;
        line->state = op->state;
        line->lsn = op->lsn;
    }
}

/* Who has a lease follows from the answers in their order. */
static void holder_take(struct nm_ledger *ledger, const struct nm_history *h, uint64_t lease) {
    struct nm_line *line = line_find(ledger, lease);
    uint64_t lsn = 0;
    for (uint32_t i = 0; i < h->op_count; i++) {
        const struct nm_op *op = &h->ops[i];
        bool names = op->verb == NM_ALLOC || op->verb == NM_RESERVE || op->verb == NM_REKEY;
        if (names && op->outcome == NM_COMMITTED && op->code == TN_R_OK && op->got_lease == lease &&
            op->lsn > lsn) {
            lsn = op->lsn;
            line->holder = op->holder;
        }
    }
}

/* ---- Questions ---- */

static void repeats_ask(struct nm_ledger *ledger, struct nm_load *load, uint32_t end) {
    for (uint32_t i = ledger->read_to; i < end; i++) {
        const struct nm_op *op = &load->history.ops[i];
        if (op->outcome == NM_COMMITTED && op->opid == i + 1) {
            nm_generate_repeat(&load->history, nm_load_add(load), i);
        }
    }
}

static void leases_ask(const struct nm_ledger *ledger, struct nm_load *load) {
    for (uint32_t i = 0; i < ledger->count; i++) {
        const struct nm_line *line = &ledger->lines[i];
        if (lives(line) || i + LINES_RECENT > ledger->count) {
            uint32_t index = nm_load_add(load);
            struct nm_op *op = &load->history.ops[index];
            op->verb = NM_LEASE;
            op->group = line->group;
            op->lease = line->lease;
        }
    }
}

static void values_ask(struct nm_load *load) {
    for (uint32_t group = 0; group < NM_CELLS; group++) {
        for (uint32_t pool = 0; pool < nm_group_pools(group); pool++) {
            for (uint32_t n = 1; n <= nm_pool_of(group, pool)->size; n++) {
                uint32_t index = nm_load_add(load);
                struct nm_op *op = &load->history.ops[index];
                op->verb = NM_VALUE;
                op->group = (uint8_t)group;
                op->claims[0] =
                    (struct nm_claim){.pool = (uint8_t)pool, .numbers = {(uint8_t)n, 0, 0}};
            }
        }
    }
}

/* ---- Answers to them ---- */

static bool blame(struct nm_load *load, uint32_t index, const char *what) {
    char line[1024];
    nm_op_text(&load->history, index, line, sizeof line);
    return nm_load_fail(load, "after kill %" PRIu32 ": %s\n  %s", load->done.kills, what, line);
}

static bool repeat_good(const struct nm_op *op, const struct nm_op *first) {
    return op->outcome == NM_COMMITTED && op->replayed && op->code == first->code &&
           op->lsn == first->lsn && op->has_lease == first->has_lease &&
           op->got_lease == first->got_lease && op->got_epoch == first->got_epoch &&
           op->state == first->state && op->deadline_ms == first->deadline_ms &&
           op->number == first->number && op->value_count == first->value_count &&
           memcmp(op->values, first->values, sizeof op->values) == 0;
}

static bool lease_good(struct nm_ledger *ledger, const struct nm_history *h,
                       const struct nm_op *op) {
    struct nm_line *line = line_find(ledger, op->verb == NM_LEASE ? op->lease : op->got_lease);
    if (op->code == TN_R_RETIRED) {
        return line != NULL && !lives(line);
    }
    if (op->code != TN_R_OK || line == NULL) {
        return false;
    }
    holder_take(ledger, h, line->lease);
    return op->got_lease == line->lease && op->got_epoch == line->epoch &&
           op->state == line->state && op->got_holder == line->holder &&
           op->value_count == line->value_count &&
           memcmp(op->values, line->values, sizeof op->values) == 0;
}

/* The lease that the ledger has for a value; *ret_count: how many it has. */
static const struct nm_line *value_owner(const struct nm_ledger *ledger, const struct nm_op *op,
                                         uint32_t *ret_count) {
    const struct nm_line *owner = NULL;
    *ret_count = 0;
    for (uint32_t i = 0; i < ledger->count; i++) {
        const struct nm_line *line = &ledger->lines[i];
        for (uint32_t v = 0; v < line->value_count && lives(line); v++) {
            if (line->group == op->group && line->values[v].pool == op->claims[0].pool &&
                line->values[v].number == op->claims[0].numbers[0]) {
                owner = line;
                ++*ret_count;
            }
        }
    }
    return owner;
}

static bool value_check(struct nm_ledger *ledger, struct nm_load *load, uint32_t index) {
    const struct nm_op *op = &load->history.ops[index];
    uint32_t count;
    const struct nm_line *owner = value_owner(ledger, op, &count);
    ledger->values++;
    if (count > 1) {
        return blame(load, index, "clients were told of two holders of one value");
    }
    if (owner == NULL) {
        return op->code == TN_R_NOTFOUND || blame(load, index, "the value should be free");
    }
    return (op->got_lease == owner->lease && lease_good(ledger, &load->history, op)) ||
           blame(load, index, "the value is not held as it was told");
}

static bool audit_check(struct nm_ledger *ledger, struct nm_load *load, uint32_t index) {
    const struct nm_history *h = &load->history;
    const struct nm_op *op = &h->ops[index];
    if (op->verb == NM_VALUE) {
        return value_check(ledger, load, index);
    }
    if (op->verb == NM_LEASE) {
        ledger->leases++;
        return lease_good(ledger, h, op) ||
               blame(load, index, "the lease is not as its last answer said");
    }
    ledger->repeats++;
    return repeat_good(op, &h->ops[op->repeats]) ||
           blame(load, index, "a repeated operation is not answered as the first time");
}

bool nm_ledger_audit(struct nm_ledger *ledger, struct nm_load *load) {
    if (!nm_load_settle(load)) {
        return false;
    }
    uint32_t end = load->history.op_count;
    for (uint32_t i = ledger->read_to; i < end; i++) {
        answer_take(ledger, &load->history.ops[i]);
    }
    repeats_ask(ledger, load, end);
    leases_ask(ledger, load);
    values_ask(load);
    if (!nm_load_settle(load)) {
        return false;
    }
    for (uint32_t i = end; i < load->history.op_count; i++) {
        if (!audit_check(ledger, load, i)) {
            return false;
        }
    }
    ledger->read_to = load->history.op_count;
    return true;
}
