/* See order.h. */
#include "nemesis/order.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/assert.h"
#include "nemesis/nm_world.h"

/* A repeat of what was answered says nothing new about time: its position is the first one's. */
static bool has_position(const struct nm_op *op) {
    return op->outcome == NM_COMMITTED && op->lsn > 0 && op->repeats == NM_NONE;
}

/* ---- Looks ---- */

bool nm_is_logged(const struct nm_history *h, const struct nm_op *op) {
    uint8_t bytes[512];
    struct kernel_command command;
    struct tn_bytes logged = op->lsn >= 1 && op->lsn <= h->entry_count
                                 ? nm_history_bytes(h, op->lsn)
                                 : tn_bytes_of(NULL, 0);
    if (!kernel_command_decode(logged, &command)) {
        return false;
    }
    uint32_t len = nm_command_encode(op, command.rights, command.user, bytes, sizeof bytes);
    return len > 0 && tn_bytes_equal(logged, tn_bytes_of(bytes, len));
}

/* A write without an operation id may be refused at the position of the state that refuses it,
 * which is the position of another command. If that is the same command, of another client whose
 * answer may be lost, the log does not show whose it is. So all such refusals count as looks. */
static bool is_look(const struct nm_op *op) {
    bool refused = op->outcome == NM_COMMITTED && op->opid == 0 && op->code > TN_R_NOOP;
    return nm_is_read(op) || refused;
}

/* ---- Windows ---- */

struct moment {
    uint64_t ns, lsn;
};

static int moment_compare(const void *a, const void *b) {
    uint64_t x = ((const struct moment *)a)->ns;
    uint64_t y = ((const struct moment *)b)->ns;
    return (x > y) - (x < y);
}

/* The number of moments before `ns`. */
static uint32_t moments_before(const struct moment *of, uint32_t count, uint64_t ns) {
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (of[middle].ns < ns) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct nm_window *nm_windows(const struct nm_history *h) {
    struct nm_window *windows = calloc(h->op_count + 1u, sizeof *windows);
    struct moment *ends = calloc(h->op_count + 1u, sizeof *ends);
    struct moment *starts = calloc(h->op_count + 1u, sizeof *starts);
    uint32_t end_count = 0, start_count = 0;
    TN_ASSERT(windows != NULL && ends != NULL && starts != NULL);
    for (uint32_t i = 0; i < h->op_count; i++) {
        const struct nm_op *op = &h->ops[i];
        windows[i].look = is_look(op);
        if (has_position(op)) {
            ends[end_count++] = (struct moment){.ns = op->end_ns, .lsn = op->lsn};
            /* What was asked later may have been read at the same position, not written there. */
            starts[start_count++] =
                (struct moment){.ns = op->start_ns, .lsn = op->lsn + windows[i].look};
        }
    }
    qsort(ends, end_count, sizeof *ends, moment_compare);
    qsort(starts, start_count, sizeof *starts, moment_compare);
    for (uint32_t i = 1; i < end_count; i++) { /* the largest so far */
        ends[i].lsn = ends[i].lsn > ends[i - 1].lsn ? ends[i].lsn : ends[i - 1].lsn;
    }
    for (uint32_t i = start_count; i-- > 1;) { /* the smallest from here on */
        starts[i - 1].lsn = starts[i].lsn < starts[i - 1].lsn ? starts[i].lsn : starts[i - 1].lsn;
    }
    for (uint32_t i = 0; i < h->op_count; i++) {
        const struct nm_op *op = &h->ops[i];
        uint32_t before = moments_before(ends, end_count, op->start_ns);
        uint32_t after = moments_before(starts, start_count, op->end_ns + 1);
        windows[i].low = before > 0 ? ends[before - 1].lsn : 1;
        windows[i].low = op->fence > windows[i].low ? op->fence : windows[i].low;
        windows[i].high = after < start_count ? starts[after].lsn - 1 : h->entry_count;
    }
    free(ends);
    free(starts);
    return windows;
}

static const struct nm_window *sorted_windows; /* qsort takes no context; tests have one thread */

static int low_compare(const void *a, const void *b) {
    uint64_t x = sorted_windows[*(const uint32_t *)a].low;
    uint64_t y = sorted_windows[*(const uint32_t *)b].low;
    return (x > y) - (x < y);
}

void nm_windows_sort(const struct nm_window *windows, uint32_t *ops, uint32_t count) {
    sorted_windows = windows;
    qsort(ops, count, sizeof *ops, low_compare);
}

/* ---- Time ---- */

/* A write has a position after everything that had been reported before it was asked, and before
 * everything that was asked after its answer. A read may have the position of the last command that
 * had been reported before it was asked. */
static bool time_check(const struct nm_history *h, const struct nm_window *windows,
                       struct nm_report *report) {
    for (uint32_t i = 0; i < h->op_count; i++) {
        const struct nm_op *op = &h->ops[i];
        uint64_t low = windows[i].low, high = windows[i].high;
        if (!has_position(op)) {
            continue;
        }
        bool late = low > 1 && (windows[i].look ? op->lsn < low : op->lsn <= low);
        if (late) {
            return nm_blame(h, report, i,
                            "lsn %" PRIu64 " had been told before it began, or was its fence; it "
                            "has %" PRIu64,
                            low, op->lsn);
        }
        if (op->lsn > high) {
            return nm_blame(h, report, i,
                            "what began after it had ended had lsn %" PRIu64 ", it has %" PRIu64,
                            high + 1, op->lsn);
        }
    }
    return true;
}

/* ---- The server's clock ---- */

/* How far it is ahead of the clients': between these, in nanoseconds. */
struct offset {
    int64_t low, high;
};

#define MS_NS 1000000

/* In a cluster each owner has its own offset, and a connection ends when its node loses the log. */
static uint32_t clock_of(const struct nm_history *h, const struct nm_op *op) {
    return h->wall_ns != 0 ? op->connection : op->life;
}

/* Each owner continues from the time of the one before, a little late. No owner is ahead of the
 * true time. */
#define EARLY_NS (20 * MS_NS)

/* A write's time is stamped between its beginning and its end, rounded down to milliseconds; in one
 * life, or under one owner, the clock goes as fast as the clients' own. */
static bool clock_narrow(const struct nm_history *h, struct offset *offsets, uint32_t index,
                         struct nm_report *report) {
    const struct nm_op *op = &h->ops[index];
    struct offset *at = &offsets[clock_of(h, op)];
    int64_t now_ns = (int64_t)h->entries[op->lsn - 1].now_ms * MS_NS;
    int64_t low = now_ns - (int64_t)op->end_ns;
    int64_t high = now_ns + MS_NS - (int64_t)op->start_ns;
    at->low = low > at->low ? low : at->low;
    at->high = high < at->high ? high : at->high;
    if (h->wall_ns != 0 && low > h->wall_ns + EARLY_NS) {
        return nm_blame(h, report, index, "the log's time is ahead of the clock");
    }
    return at->low <= at->high ||
           nm_blame(h, report, index, "the log's time does not go as the clock does");
}

/* A lease whose deadline had passed when a look began must not look alive. */
static bool look_check(const struct nm_history *h, const struct offset *offsets, uint32_t index,
                       struct nm_report *report) {
    const struct nm_op *op = &h->ops[index];
    int64_t begun_ms = ((int64_t)op->start_ns + offsets[clock_of(h, op)].low) / MS_NS;
    bool live = op->has_lease && !kernel_state_terminal((enum kernel_state)op->state);
    if (live && op->deadline_ms > 0 && (int64_t)op->deadline_ms <= begun_ms) {
        return nm_blame(h, report, index,
                        "when it began it was %" PRId64 " or later, the deadline was %" PRIu64,
                        begun_ms, op->deadline_ms);
    }
    return true;
}

static uint32_t clock_count(const struct nm_history *h) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < h->op_count; i++) {
        uint32_t clock = clock_of(h, &h->ops[i]);
        count = clock >= count ? clock + 1 : count;
    }
    return count;
}

static bool clock_check(const struct nm_history *h, struct nm_window *windows,
                        struct nm_report *report) {
    uint32_t count = clock_count(h);
    struct offset *offsets = calloc(count + 1u, sizeof *offsets);
    bool good = true;
    TN_ASSERT(offsets != NULL);
    for (uint32_t i = 0; i < count; i++) {
        offsets[i] = (struct offset){.low = INT64_MIN / 2, .high = INT64_MAX};
    }
    for (uint32_t i = 0; i < h->op_count && good; i++) {
        const struct nm_op *op = &h->ops[i];
        bool stamped = has_position(op) && !windows[i].look && op->sends == 1 && !op->replayed;
        good = !stamped || clock_narrow(h, offsets, i, report);
    }
    for (uint32_t i = 0; i < h->op_count && good; i++) {
        const struct nm_op *op = &h->ops[i];
        bool look = nm_is_read(op) && op->outcome == NM_COMMITTED && op->code == TN_R_OK;
        good = !look || look_check(h, offsets, i, report);
        int64_t begun_ms = ((int64_t)op->start_ns + offsets[clock_of(h, op)].low) / MS_NS;
        windows[i].begun_ms = begun_ms > 0 ? (uint64_t)begun_ms : 0;
    }
    free(offsets);
    return good;
}

/* ---- Connections ---- */

struct seen {
    uint64_t write_lsn, read_lsn;
};

/* Requests of a connection take effect in the order in which they were sent. */
static bool connection_check(const struct nm_history *h, struct seen *seen, uint32_t index,
                             bool look, struct nm_report *report) {
    const struct nm_op *op = &h->ops[index];
    struct seen *at = &seen[op->connection];
    if (look) {
        if (op->lsn < at->write_lsn || op->lsn < at->read_lsn) {
            return nm_blame(h, report, index, "a read does not see what its connection wrote");
        }
        at->read_lsn = op->lsn;
    } else if (!op->replayed) {
        if (op->lsn <= at->write_lsn || op->lsn <= at->read_lsn) {
            return nm_blame(h, report, index, "out of the order of its connection");
        }
        at->write_lsn = op->lsn;
    }
    return true;
}

bool nm_order_check(const struct nm_history *h, struct nm_window *windows,
                    struct nm_report *report) {
    uint32_t connections = 0;
    for (uint32_t i = 0; i < h->op_count; i++) {
        connections = h->ops[i].connection > connections ? h->ops[i].connection : connections;
    }
    struct seen *seen = calloc(connections + 1u, sizeof *seen);
    TN_ASSERT(seen != NULL);
    bool good = time_check(h, windows, report) && clock_check(h, windows, report);
    for (uint32_t i = 0; i < h->op_count && good; i++) {
        if (has_position(&h->ops[i]) && h->ops[i].sends == 1) {
            good = connection_check(h, seen, i, windows[i].look, report);
        }
    }
    free(seen);
    return good;
}
