/* The judge that follows the log; see check.h. order.c has the part about time. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "nemesis/check.h"
#include "nemesis/nm_replay.h"
#include "nemesis/nm_world.h"
#include "nemesis/order.h"

struct judge {
    const struct nm_history *h;
    struct nm_report *report;
    struct nm_replay *replay;
    uint32_t *at_lsn;  /* answered operations by their positions: heads of chains */
    uint32_t *next_at; /* by operation */
    struct nm_window *windows;
    uint32_t *waiting; /* reads that report no position and for which no state has been found yet */
    uint32_t waiting_count;
};

bool nm_blame(const struct nm_history *h, struct nm_report *report, uint32_t op, const char *format,
              ...) {
    char what[1600];
    char line[1024] = "";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    if (op != NM_NONE) {
        nm_op_text(h, op, line, sizeof line);
    }
    size_t len = strlen(report->why); /* after the text of the other judge */
    snprintf(report->why + len, sizeof report->why - len, "%s%s%s%s", len > 0 ? "\n" : "", what,
             op != NM_NONE ? "\n  " : "", line);
    return false;
}

/* ---- Whose entries these are ---- */

static bool same_command(const struct nm_op *op, struct tn_bytes logged) {
    uint8_t bytes[512];
    struct kernel_command command;
    if (!kernel_command_decode(logged, &command)) {
        return false;
    }
    uint32_t len = nm_command_encode(op, command.rights, command.user, bytes, sizeof bytes);
    return len > 0 && tn_bytes_equal(logged, tn_bytes_of(bytes, len));
}

/* An answer's position is in the log that its life left, and it is that command's. */
static bool claim_check(struct judge *j, uint32_t index) {
    const struct nm_op *op = &j->h->ops[index];
    const struct nm_life *life = &j->h->lives[op->life];
    if (op->lsn > life->last_lsn) {
        return nm_blame(j->h, j->report, index,
                        "acknowledged at lsn %" PRIu64 ", but its server's log ends at %" PRIu64,
                        op->lsn, life->last_lsn);
    }
    if (!j->windows[index].look && !nm_is_logged(j->h, op)) {
        return nm_blame(j->h, j->report, index, "lsn %" PRIu64 " of the log is another command",
                        op->lsn);
    }
    return true;
}

/* Who may have an entry in the log, and how often. */
struct census {
    /* By operation id: the first operation that uses it; the others follow in next_use. */
    uint32_t *users;
    uint32_t *next_use; /* by operation */
    uint32_t *left;     /* by operation: how often it was sent without an entry found for it yet */
    uint32_t *unknown;  /* writes without id and answer */
    uint32_t unknown_count;
};

static bool entry_find_unknown(const struct nm_history *h, struct census *census, uint64_t lsn) {
    for (uint32_t i = 0; i < census->unknown_count; i++) {
        uint32_t index = census->unknown[i];
        if (census->left[index] > 0 && h->ops[index].life == h->entries[lsn - 1].life &&
            same_command(&h->ops[index], nm_history_bytes(h, lsn))) {
            census->left[index]--;
            return true;
        }
    }
    return false;
}

/* A write was answered with this position, and the entry is its own. */
static bool entry_answered(const struct judge *j, uint64_t lsn) {
    uint32_t i = j->at_lsn[lsn];
    while (i != NM_NONE && (nm_is_read(&j->h->ops[i]) || !nm_is_logged(j->h, &j->h->ops[i]))) {
        i = j->next_at[i];
    }
    return i != NM_NONE;
}

/* A command of a client. The supervisor of sensors sends the same ones. */
static bool is_ours(const struct kernel_command *command) {
    return command->verb >= KERNEL_VERB_ALLOC && command->verb <= KERNEL_VERB_SWEEP &&
           (command->rights & KERNEL_RIGHT_SUPERVISOR) == 0;
}

/* An operation id is used by the one that made it, by its repeats, and by those that clash with it. An
 * entry comes after what had been told when its operation began, and is not written by a later life
 * than the one that it was sent to last. Of several that it may belong to it is the one whose life ends
 * first: the others have more time. */
static bool entry_sent(struct judge *j, struct census *census, uint64_t lsn, uint32_t opid) {
    const struct nm_history *h = j->h;
    uint32_t first = opid <= h->op_count ? census->users[opid] : NM_NONE;
    uint32_t best = NM_NONE;
    for (uint32_t i = first; i != NM_NONE; i = census->next_use[i]) {
        if (census->left[i] > 0 && j->windows[i].low < lsn &&
            h->entries[lsn - 1].life <= h->ops[i].life &&
            same_command(&h->ops[i], nm_history_bytes(h, lsn)) &&
            (best == NM_NONE || h->ops[i].life < h->ops[best].life)) {
            best = i;
        }
    }
    if (best != NM_NONE) {
        census->left[best]--;
    }
    return best != NM_NONE;
}

static bool entries_check(struct judge *j, struct census *census) {
    const struct nm_history *h = j->h;
    for (uint64_t lsn = 1; lsn <= h->entry_count; lsn++) {
        struct kernel_command command;
        if (!kernel_command_decode(nm_history_bytes(h, lsn), &command) || !is_ours(&command)) {
            continue; /* ticks, pools, sensors; the replay judges the rest */
        }
        uint32_t opid = nm_opid_parse(command.opid);
        bool known = opid > 0 ? entry_sent(j, census, lsn, opid)
                              : entry_answered(j, lsn) || entry_find_unknown(h, census, lsn);
        if (!known) {
            return nm_blame(h, j->report, NM_NONE,
                            "lsn %" PRIu64 " of the log is a command (%s, o%" PRIu32
                            ") that nobody sent, or not so often",
                            lsn, kernel_verb_rows[command.verb].name, opid);
        }
    }
    return true;
}

static void census_take(struct judge *j, struct census *census) {
    const struct nm_history *h = j->h;
    for (uint32_t i = 0; i <= h->op_count; i++) {
        census->users[i] = NM_NONE;
    }
    for (uint32_t i = 0; i < h->op_count; i++) {
        const struct nm_op *op = &h->ops[i];
        if (nm_is_read(op) || op->outcome == NM_REJECTED) {
            continue;
        }
        census->left[i] = op->sends;
        census->next_use[i] = census->users[op->opid];
        census->users[op->opid] = i;
        if (op->outcome == NM_UNKNOWN && op->opid == 0) {
            census->unknown[census->unknown_count++] = i;
        }
    }
}

static bool census_check(struct judge *j) {
    const struct nm_history *h = j->h;
    uint32_t *memory = calloc(4 * (h->op_count + 1u), sizeof *memory);
    TN_ASSERT(memory != NULL);
    struct census census = {.users = memory,
                            .next_use = memory + (h->op_count + 1u),
                            .left = memory + 2 * (h->op_count + 1u),
                            .unknown = memory + 3 * (h->op_count + 1u)};
    bool good = true;
    census_take(j, &census);
    for (uint32_t i = 0; i < h->op_count && good; i++) {
        const struct nm_op *op = &h->ops[i];
        good = nm_is_read(op) || op->outcome != NM_COMMITTED || claim_check(j, i);
    }
    good = good && entries_check(j, &census);
    free(memory);
    return good;
}

/* ---- Answers to writes ---- */

static bool value_is(const struct nm_op *op, uint32_t i, const struct model_shown *shown) {
    char number[KERNEL_VALUE_TEXT_MAX];
    struct nm_value value;
    struct tn_bytes text = tn_bytes_of(shown->name, strlen(shown->name));
    if (text.len == 0) {
        text = tn_bytes_of(number, kernel_value_format(KERNEL_DEC, shown->number, number));
    }
    return nm_value_parse(op->group, tn_bytes_of(shown->pool, strlen(shown->pool)), text, &value) &&
           value.pool == op->values[i].pool && value.number == op->values[i].number;
}

static bool grants(const struct nm_op *op) {
    return (op->verb == NM_ALLOC || op->verb == NM_RESERVE) &&
           (op->code == TN_R_OK || op->code == TN_R_NOOP);
}

static bool numbers_agree(const struct nm_op *op, const struct kernel_result *want) {
    switch (op->code) {
    case TN_R_OK:
    case TN_R_NOOP:
        return (op->verb != NM_SWEEP && op->verb != NM_DISOWN) || op->number == want->number;
    case TN_R_BAD_TTL:
    case TN_R_QUOTA:
    case TN_R_TOO_LARGE:
    case TN_R_BAD_VALUE:
    case TN_R_BUSY:
    case TN_R_CONFLICT:
        return op->number == want->number;
    default:
        return true;
    }
}

/* Whether the operation was answered with this result; `values` are the result's values. */
static bool answer_agrees(const struct nm_op *op, const struct kernel_result *head,
                          const struct model_shown *values) {
    /* BUSY names the lease in the way only while it is as it was; clients do not keep it. */
    bool has_lease = head->has_lease && head->code != TN_R_BUSY;
    bool good = op->code == (uint8_t)head->code && head->lsn == op->lsn && !head->replayed &&
                op->has_lease == has_lease && op->retry_at_ms == head->retry_at_ms &&
                numbers_agree(op, head);
    if (good && has_lease) {
        /* A refusal reports no deadline. */
        bool told = op->code == TN_R_OK || op->code == TN_R_NOOP;
        good = op->got_lease == head->lease.lsn && op->got_epoch == head->epoch &&
               op->state == (uint8_t)head->state && (!told || op->deadline_ms == head->deadline_ms);
    }
    if (good && grants(op)) {
        good = op->value_count == head->value_count;
        for (uint32_t i = 0; good && i < op->value_count; i++) {
            good = value_is(op, i, &values[i]);
        }
    }
    return good;
}

static bool answer_check(struct judge *j, uint32_t index) {
    const struct model_result *want = nm_replay_result(j->replay);
    const struct kernel_result *head = &want->head;
    if (!answer_agrees(&j->h->ops[index], head, want->values)) {
        return nm_blame(j->h, j->report, index,
                        "the log says %s%s at lsn %" PRIu64 ", lease 0-%" PRIu64 " epoch %" PRIu64
                        " %s until %" PRIu64 ", number %" PRIu64,
                        tn_result_name(head->code), head->replayed ? " (replayed)" : "", head->lsn,
                        head->lease.lsn, head->epoch, kernel_state_name(head->state),
                        head->deadline_ms, head->number);
    }
    j->report->answers++;
    return true;
}

/* Whether the entry at the operation's position, which is the same command, may be another client's. */
static bool entry_of_another(const struct judge *j, uint32_t index) {
    const struct nm_history *h = j->h;
    uint64_t lsn = h->ops[index].lsn;
    for (uint32_t i = 0; i < h->op_count; i++) {
        const struct nm_op *op = &h->ops[i];
        bool may = op->outcome == NM_UNKNOWN || (op->outcome == NM_COMMITTED && op->lsn == lsn);
        if (i != index && may && !nm_is_read(op) && op->opid == 0 &&
            same_command(op, nm_history_bytes(h, lsn))) {
            return true;
        }
    }
    return false;
}

/* A refusal that need not be logged: either the write is in the log and was refused there, or the
 * state at that position refuses it, at the time when it began. */
static bool refusal_check(struct judge *j, uint32_t index) {
    const struct nm_op *op = &j->h->ops[index];
    const struct model_result *want = nm_replay_result(j->replay);
    struct kernel_result head;
    bool logged = nm_is_logged(j->h, op);
    bool refuses = nm_replay_refuses(j->replay, op, j->windows[index].begun_ms, &head);
    bool agrees = logged && answer_agrees(op, &want->head, want->values);
    if (!agrees && (!logged || entry_of_another(j, index))) {
        agrees = refuses && answer_agrees(op, &head, NULL);
    }
    if (!agrees) {
        return nm_blame(
            j->h, j->report, index, "the state at lsn %" PRIu64 " says %s to it, at %" PRIu64,
            op->lsn, refuses ? tn_result_name(head.code) : "nothing", j->windows[index].begun_ms);
    }
    j->report->refusals += !logged;
    return true;
}

/* ---- Reads ---- */

static const struct model_lease *lease_wanted(struct model *m, const struct nm_op *op,
                                              enum tn_result *ret_code) {
    struct model_lease *l = NULL;
    *ret_code = TN_R_OK;
    if (op->verb == NM_VALUE) {
        const struct nm_claim *claim = &op->claims[0];
        uint32_t pool = model_pool_find(m, nm_pool_of(op->group, claim->pool)->name);
        /* Resources of a set have places from 0. */
        uint64_t number = claim->numbers[0] - (nm_pool_of(op->group, claim->pool)->set ? 1u : 0u);
        l = pool == MODEL_NONE ? NULL : model_value_lease(m, pool, number);
        *ret_code = pool == MODEL_NONE ? TN_R_POOL_NOTFOUND : l == NULL ? TN_R_NOTFOUND : TN_R_OK;
        return l;
    }
    struct kernel_lease_id id = {.shard = m->shard, .lsn = op->lease};
    l = model_lease_find(m, id);
    if (l == NULL) {
        *ret_code = model_ended(m, id, &l);
    }
    if (*ret_code == TN_R_OK && op->verb == NM_VERIFY) {
        *ret_code = l->epoch != op->epoch       ? TN_R_STALE
                    : l->state != KERNEL_ACTIVE ? TN_R_STATE
                                                : TN_R_OK;
    }
    return l;
}

static bool values_agree(const struct model *m, const struct nm_op *op,
                         const struct model_lease *l) {
    bool good = op->value_count == l->value_count;
    for (uint32_t i = 0; good && i < l->value_count; i++) {
        struct model_shown shown = {.number = l->values[i].number};
        memcpy(shown.name, l->values[i].name, sizeof shown.name);
        memcpy(shown.pool, m->pools[l->values[i].pool].name, sizeof shown.pool);
        good = value_is(op, i, &shown);
    }
    return good;
}

/* Whether the current state of the model gives this answer. */
static bool read_agrees(struct judge *j, const struct nm_op *op) {
    struct model *m = nm_replay_model(j->replay);
    enum tn_result code;
    const struct model_lease *l = lease_wanted(m, op, &code);
    if (op->code != (uint8_t)code || op->code != TN_R_OK) {
        return op->code == (uint8_t)code;
    }
    bool good = l->id.lsn == op->got_lease && l->epoch == op->got_epoch &&
                l->deadline_ms == op->deadline_ms && (uint8_t)l->state == op->state;
    if (op->verb == NM_VERIFY) {
        return good;
    }
    char holder[NM_HOLDER_TEXT];
    nm_holder_text(op->group, op->got_holder, holder);
    return good && strcmp(holder, l->holder) == 0 && values_agree(m, op, l);
}

/* Reads without a position must agree with some state between what had been reported when they
 * began and what was asked after they had ended. */
static bool waiting_check(struct judge *j, uint64_t lsn) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < j->waiting_count; i++) {
        uint32_t index = j->waiting[i];
        bool begun = j->windows[index].low <= lsn;
        if (begun && read_agrees(j, &j->h->ops[index])) {
            j->report->reads++;
            continue;
        }
        if (j->windows[index].high <= lsn) {
            return nm_blame(j->h, j->report, index,
                            "nothing between lsn %" PRIu64 " and %" PRIu64 " gives this answer",
                            j->windows[index].low, j->windows[index].high);
        }
        j->waiting[kept++] = index;
    }
    j->waiting_count = kept;
    return true;
}

/* ---- All of it ---- */

static bool position_check(struct judge *j, uint64_t lsn) {
    uint32_t firsts = 0;
    for (uint32_t i = j->at_lsn[lsn]; i != NM_NONE; i = j->next_at[i]) {
        const struct nm_op *op = &j->h->ops[i];
        if (j->windows[i].look && !nm_is_read(op)) {
            if (!refusal_check(j, i)) {
                return false;
            }
        } else if (!nm_is_read(op)) {
            firsts += !op->replayed;
            if (firsts > 1) {
                return nm_blame(j->h, j->report, i, "this position was told to somebody else, too");
            }
            if (!answer_check(j, i)) {
                return false;
            }
        } else if (!read_agrees(j, op)) {
            return nm_blame(j->h, j->report, i, "the model has something else at lsn %" PRIu64,
                            lsn);
        } else {
            j->report->reads++;
        }
    }
    return true;
}

/* A node of a cluster that had applied this much had the same state. */
static bool digests_check(struct judge *j, uint64_t lsn) {
    for (uint32_t i = 0; i < j->h->digest_count; i++) {
        const struct nm_digest *digest = &j->h->digests[i];
        if (digest->lsn == lsn && digest->hash != nm_replay_hash(j->replay)) {
            return nm_blame(j->h, j->report, NM_NONE,
                            "the state of node %" PRIu32 " at lsn %" PRIu64
                            " is not that of the log",
                            digest->node, lsn);
        }
        j->report->digests += digest->lsn == lsn;
    }
    return true;
}

/* Reads that wait are added as their windows open: they are sorted by that. */
static bool replay_all(struct judge *j, const uint32_t *by_low, uint32_t count) {
    uint32_t next = 0;
    char why[2048];
    for (uint64_t lsn = 1; lsn <= j->h->entry_count; lsn++) {
        if (!nm_replay_step(j->replay, why, sizeof why)) {
            return nm_blame(j->h, j->report, NM_NONE, "%s", why);
        }
        while (next < count && j->windows[by_low[next]].low <= lsn) {
            j->waiting[j->waiting_count++] = by_low[next++];
        }
        if (!position_check(j, lsn) || !waiting_check(j, lsn) || !digests_check(j, lsn)) {
            return false;
        }
    }
    return true;
}

static void positions_collect(struct judge *j) {
    const struct nm_history *h = j->h;
    for (uint64_t lsn = 0; lsn <= h->entry_count; lsn++) {
        j->at_lsn[lsn] = NM_NONE;
    }
    for (uint32_t i = 0; i < h->op_count; i++) {
        const struct nm_op *op = &h->ops[i];
        if (op->outcome == NM_COMMITTED && op->lsn >= 1 && op->lsn <= h->entry_count) {
            j->next_at[i] = j->at_lsn[op->lsn];
            j->at_lsn[op->lsn] = i;
        }
    }
}

bool nm_check_log(const struct nm_history *h, struct nm_report *report) {
    struct judge j = {.h = h,
                      .report = report,
                      .replay = nm_replay_open(h),
                      .at_lsn = calloc(h->entry_count + 1u, sizeof(uint32_t)),
                      .next_at = calloc(h->op_count + 1u, sizeof(uint32_t)),
                      .waiting = calloc(h->op_count + 1u, sizeof(uint32_t))};
    uint32_t *by_low = calloc(h->op_count + 1u, sizeof(uint32_t));
    uint32_t count = 0;
    TN_ASSERT(j.at_lsn != NULL && j.next_at != NULL && j.waiting != NULL && by_low != NULL);
    positions_collect(&j);
    j.windows = nm_windows(h);
    for (uint32_t i = 0; i < h->op_count; i++) {
        if (nm_is_read(&h->ops[i]) && h->ops[i].outcome == NM_COMMITTED && h->ops[i].lsn == 0) {
            by_low[count++] = i;
        }
    }
    nm_windows_sort(j.windows, by_low, count);
    bool good =
        census_check(&j) && nm_order_check(h, j.windows, report) && replay_all(&j, by_low, count);
    nm_replay_close(j.replay);
    free(j.windows);
    free(j.at_lsn);
    free(j.next_at);
    free(j.waiting);
    free(by_low);
    return good;
}
