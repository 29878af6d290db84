/* Compares the log on the disk with the ledger: no acknowledged batch is missing, no batch is there
 * that was not sent, and a batch is there as a whole or not at all. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "engine/payload.h"
#include "sim/world.h"

struct reading {
    struct world *w;
    bool own;
    uint64_t lsn;    /* the last one seen */
    uint64_t index;  /* index of the ledger's next entry */
    uint32_t doubts; /* commands in doubt that are in the log */
};

static enum tn_status snapshot_begin(void *ctx, const struct log_position *at) {
    struct reading *reading = ctx;
    const struct world_ledger *ledger = &reading->w->ledger;
    reading->lsn = at->lsn;
    while (reading->index < ledger->count && ledger->entries[reading->index].lsn <= at->lsn) {
        reading->index++;
    }
    if (at->lsn > 0 &&
        (reading->index == 0 || ledger->entries[reading->index - 1].lsn != at->lsn)) {
        world_fail(reading->w,
                   "there is a snapshot of LSN %" PRIu64
                   ", which no command has; the last is %" PRIu64,
                   at->lsn, ledger->lsn);
    }
    return TN_OK;
}

static enum tn_status snapshot_section(void *ctx, const struct log_section *section) {
    (void)ctx;
    (void)section;
    return TN_OK;
}

static enum tn_status snapshot_end(void *ctx) {
    (void)ctx;
    return TN_OK;
}

static bool is_verb(struct tn_bytes bytes, enum kernel_verb verb) {
    struct kernel_command c;
    return kernel_command_decode(bytes, &c) && c.verb == verb;
}

/* Whether this may follow the ledger's end: what was in doubt, or what the engine logs by itself. */
static bool expected(struct reading *reading, uint64_t now_ms, struct tn_bytes bytes) {
    struct world_doubt *doubt = &reading->w->ledger.doubt;
    if (!reading->own) {
        return false;
    }
    if (reading->doubts < doubt->count && now_ms == doubt->now_ms &&
        tn_bytes_equal(bytes, tn_bytes_of(doubt->commands[reading->doubts].bytes,
                                          doubt->commands[reading->doubts].len))) {
        reading->doubts++;
        return true;
    }
    if (reading->index == 0) {
        return is_verb(bytes, KERNEL_VERB_LIMITS);
    }
    if ((doubt->limits && is_verb(bytes, KERNEL_VERB_LIMITS)) ||
        (doubt->restored && is_verb(bytes, KERNEL_VERB_RESTORED)) ||
        is_verb(bytes, KERNEL_VERB_UNATTEND)) {
        return true;
    }
    bool tick = doubt->tick && is_verb(bytes, KERNEL_VERB_TICK);
    doubt->tick = doubt->tick && !tick;
    return tick;
}

static void command(struct reading *reading, uint64_t now_ms, struct tn_bytes bytes) {
    struct world *w = reading->w;
    if (reading->index < w->ledger.count) {
        const struct world_entry *entry = &w->ledger.entries[reading->index++];
        if (reading->lsn != entry->lsn) {
            world_fail(w, "the command of LSN %" PRIu64 " is in the log as LSN %" PRIu64,
                       entry->lsn, reading->lsn);
        }
        if (!tn_bytes_equal(bytes, tn_bytes_of(entry->bytes, entry->len))) {
            world_fail(w, "another command than was committed is in the log as LSN %" PRIu64,
                       reading->lsn);
        }
        if (now_ms != entry->now_ms) {
            world_fail(w, "LSN %" PRIu64 " has the time %" PRIu64 " in the log, it was %" PRIu64,
                       reading->lsn, now_ms, entry->now_ms);
        }
        return;
    }
    if (!expected(reading, now_ms, bytes)) {
        char text[200];
        generate_describe(bytes, text, sizeof text);
        world_fail(w, "LSN %" PRIu64 " of the log is nobody's: %s, time %" PRIu64, reading->lsn,
                   text, now_ms);
    }
    if (reading->lsn < w->ledger.next_lsn) {
        world_fail(w, "LSN %" PRIu64 " is given again", reading->lsn);
    }
    reading->index++;
    w->ledger.next_lsn = reading->lsn;
    world_ledger_commit(w, now_ms, bytes);
}

static enum tn_status batch(void *ctx, const struct log_batch *b) {
    struct reading *reading = ctx;
    struct engine_payload payload = engine_payload_of(b->payload, b->len);
    assert_true(b->first_lsn > reading->lsn);
    for (uint32_t i = 0; i < b->count; i++) {
        reading->lsn = b->first_lsn + i;
        command(reading, b->now_ms, engine_payload_next(&payload));
    }
    return TN_OK;
}

static void newest_snapshot(void *ctx, const char *name) {
    uint64_t *newest = ctx;
    static const char prefix[] = "snapshot-";
    if (strncmp(name, prefix, sizeof prefix - 1) == 0) {
        uint64_t lsn = strtoull(name + sizeof prefix - 1, NULL, 16);
        *newest = lsn > *newest ? lsn : *newest;
    }
}

/* Whether this start has taken a snapshot beyond the ledger's end: the entries to compare are then
 * read from the snapshot before it, which does not cover them. */
static bool is_covered(const struct world *w, struct fakeos *machine) {
    const struct os *os = fakeos_table(machine);
    uint64_t newest = 0;
    assert_int_equal(os->list(os->ctx, WORLD_DIR, newest_snapshot, &newest), TN_OK);
    return newest > w->ledger.lsn;
}

void world_log_compare(struct world *w, struct fakeos *machine, bool own) {
    struct reading reading = {.w = w, .own = own};
    struct log_local_options options = {.os = fakeos_table(machine),
                                        .dir = WORLD_DIR,
                                        .read_only = true,
                                        .use_older_snapshot = is_covered(w, machine)};
    struct log_loader loader = {.ctx = &reading,
                                .snapshot_begin = snapshot_begin,
                                .snapshot_section = snapshot_section,
                                .snapshot_end = snapshot_end,
                                .batch = batch};
    struct log_position position;
    struct log_error error = {.text = ""};
    struct log *log = NULL;
    uint64_t known = w->ledger.lsn;
    uint64_t tried = w->ledger.next_lsn + w->ledger.doubt.count; /* no LSN from here on was */
    enum tn_status status = log_local_open(&options, NULL, NULL, &log, &error);
    if (status == TN_OK) {
        status = log_load(log_local_store(log), log, &loader, &position, &error);
        (void)log_close(log_local_store(log), log);
    }
    if (status != TN_OK) {
        world_fail(w, "the log that has just been opened cannot be read: %s", error.text);
    }
    if (reading.lsn < known) {
        world_fail(w, "the log ends at LSN %" PRIu64 ", but %" PRIu64 " was committed", reading.lsn,
                   known);
    }
    if (own) {
        struct world_doubt *doubt = &w->ledger.doubt;
        if (reading.doubts != 0 && reading.doubts != doubt->count) {
            world_fail(w, "of a batch of %u, %u commands are in the log", doubt->count,
                       reading.doubts);
        }
        if (position.next_lsn < tried) {
            world_fail(w, "LSN %" PRIu64 " will be given again", position.next_lsn);
        }
        w->ledger.next_lsn = position.next_lsn;
        w->counts.doubts += doubt->count > 0;
        w->counts.doubts_kept += reading.doubts > 0;
        doubt->count = 0;
        doubt->tick = doubt->limits = doubt->restored = false;
    }
}
