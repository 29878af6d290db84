/* Damage on a copy of the disk, after a clean close: bits that rot, sectors that were written to the
 * wrong place. A start is refused, or nothing that counts was hit and everything is there. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "lib/enginekit.h"
#include "log/dir.h"
#include "sim/world.h"

#define FILES_MAX 64u

/* Segments and snapshots: what the state hangs on. */
struct files {
    unsigned count;
    char paths[FILES_MAX][LOG_NAME_MAX + 8];
};

static void files_add(void *ctx, const char *name) {
    struct files *files = ctx;
    size_t len = strlen(name);
    bool segment = len == 20 && strcmp(name + 16, ".log") == 0;
    bool snapshot = strncmp(name, "snapshot-", 9) == 0;
    if ((segment || snapshot) && files->count < FILES_MAX) {
        snprintf(files->paths[files->count++], sizeof files->paths[0], WORLD_DIR "/%.60s", name);
    }
}

static const char *some_file(struct world *w, const struct files *files) {
    return files->paths[world_below(w, files->count)];
}

static void rot(struct world *w, struct fakeos *machine, const struct files *files) {
    const char *path = some_file(w, files);
    uint64_t size = fakeos_file_size(machine, path);
    if (size > 0) {
        uint64_t offset =
            tn_prng_below(&w->random, world_chance(w, 50) && size > 8192 ? 8192 : size);
        fakeos_file_flip(machine, path, offset, world_below(w, 8));
        world_trace(w, "a bit of %s rots at %" PRIu64, path, offset);
    }
}

/* A sector of one file lands somewhere in another, or in the same. */
static void misdirect(struct world *w, struct fakeos *machine, const struct files *files) {
    const char *from = some_file(w, files);
    const char *to = some_file(w, files);
    uint64_t from_sectors = fakeos_file_size(machine, from) / FAKEOS_SECTOR;
    uint64_t to_sectors = fakeos_file_size(machine, to) / FAKEOS_SECTOR;
    uint8_t sector[FAKEOS_SECTOR];
    if (from_sectors == 0 || to_sectors == 0) {
        return;
    }
    uint64_t source = tn_prng_below(&w->random, from_sectors < 16 ? from_sectors : 16);
    uint64_t target = tn_prng_below(&w->random, to_sectors < 24 ? to_sectors : 24);
    fakeos_file_read(machine, from, source * FAKEOS_SECTOR, sector, sizeof sector);
    fakeos_file_write(machine, to, target * FAKEOS_SECTOR, sector, sizeof sector);
    world_trace(w, "sector %" PRIu64 " of %s lands in sector %" PRIu64 " of %s", source, from,
                target, to);
}

static void unheard(void *ctx, const struct engine_event *event) {
    (void)ctx;
    (void)event;
}

/* The log may also end with the tick of a close. */
static void judge(struct world *w, struct fakeos *machine) {
    struct engine_options options;
    struct log_error error = {.text = ""};
    struct engine *engine = NULL;
    world_options(w, machine, &options);
    options.event = unheard;
    options.confirm_time_jump = true;
    options.no_snapshot_at_close = true;
    const struct log_local_options local = world_log_options();
    enum tn_status status = ekit_try_local(&options, &local, &engine, &error);
    w->counts.damages++;
    if (status != TN_OK) {
        bool told = status == TN_CORRUPT || status == TN_VERSION;
        if (!told || strstr(error.text, WORLD_DIR) == NULL) {
            world_fail(w, "damage was refused as %s: %s", tn_status_name(status), error.text);
        }
        return;
    }
    uint64_t hash = 0;
    uint64_t lsn = 0;
    assert_int_equal(engine_hash(engine, &hash, &lsn), TN_R_OK);
    if (lsn < w->ledger.lsn || (lsn == w->ledger.lsn && hash != kernel_hash(w->ledger.kernel))) {
        world_fail(w, "damage went unseen: the log ends at LSN %" PRIu64 " of %" PRIu64, lsn,
                   w->ledger.lsn);
    }
    (void)engine_close(engine);
}

void world_damage(struct world *w) {
    struct fakeos *copy = fakeos_copy(w->machine, w->seed + w->step);
    struct files files = {0};
    fakeos_space_set(copy, UINT64_MAX);
    const struct os *os = fakeos_table(copy);
    assert_int_equal(os->list(os->ctx, WORLD_DIR, files_add, &files), TN_OK);
    if (files.count > 0) {
        if (world_chance(w, 60)) {
            rot(w, copy, &files);
        } else {
            misdirect(w, copy, &files);
        }
        judge(w, copy);
    }
    fakeos_free(copy);
}
