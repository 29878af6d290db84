/* A log directory as an engine left it, changed in a few places and made to fit again: a start
 * refuses it with a text, or has a sound state and can write; it neither crashes nor hangs.
 *
 *   byte 0   which checksums are right again afterwards (enum repair)
 *   changes  of 6 bytes: which file, three of the offset, how, what */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "engine/engine.h"
#include "kernel/kernel.h"
#include "lib/enginekit.h"
#include "lib/fakeos.h"
#include "log/frame.h"
#include "log/local.h"
#include "log/segment.h"

#define DIR "data"
#define FILES_MAX 16u
#define CHANGE_BYTES 6u
#define CHANGES_MAX 8u
#define MEMORY_MAX ((size_t)64 << 20)

enum repair {
    REPAIR_SEGMENT = 1,  /* a segment's header */
    REPAIR_FRAMES = 2,   /* each frame */
    REPAIR_CHAIN = 4,    /* the links of frames and segments to the ones before them */
    REPAIR_SECTIONS = 8, /* a snapshot's header, sections and footer */
    REPAIR_EVENTS = 16,  /* headers and blocks of the files of events */
};

struct disk {
    struct fakeos *fake;
    char paths[FILES_MAX][64];
    unsigned count;
};

static void file_note(void *ctx, const char *name) {
    struct disk *disk = ctx;
    if (strstr(name, ".log") != NULL || strstr(name, ".snap") != NULL ||
        strncmp(name, "events-", 7) == 0) {
        TN_ASSERT(disk->count < FILES_MAX);
        (void)snprintf(disk->paths[disk->count++], sizeof disk->paths[0], DIR "/%s", name);
    }
}

static int path_compare(const void *a, const void *b) {
    return strcmp(a, b);
}

/* ---- the directory ---- */

/* Limits that a change made huge are refused as a small machine would. */
static enum tn_status reserve_little(void *ctx, size_t bytes, bool big, void **ret_memory) {
    (void)big;
    const struct os *os = fakeos_table(ctx);
    return bytes > MEMORY_MAX ? TN_NOMEM : os->mem_reserve(os->ctx, bytes, false, ret_memory);
}

static struct os os_of(const struct disk *disk) {
    struct os os = *fakeos_table(disk->fake);
    os.mem_reserve = reserve_little;
    return os;
}

static const struct log_local_options LOCAL = {.dir = DIR, .segment_bytes = LOG_SEGMENT_BYTES_MIN};

static struct engine_options options_of(const struct os *os) {
    struct engine_options options = {.os = os, .no_threads = true, .events_max = 1000};
    options.snapshot_bytes = UINT64_MAX;
    options.no_snapshot_at_close = true;
    ekit_limits_small(&options);
    return options;
}

static void work(struct engine *engine, const char *holder, uint32_t meta_len) {
    static struct ekit_answer answer, other;
    struct ekit_command c;
    char opid[32];
    for (unsigned i = 0; i < 8; i++) {
        (void)snprintf(opid, sizeof opid, "%s-%u", holder, i);
        ekit_run_ok(engine, ekit_alloc_large(&c, "range", holder, 1 + i % 3, opid, meta_len),
                    &answer);
        ekit_run_ok(engine, ekit_alloc(&c, "sticky", opid, 1, NULL), &other);
        if (i % 2 == 0) {
            ekit_run_ok(engine, ekit_release(&c, &answer.result, holder), &answer);
        }
    }
}

/* Makes two snapshots and the batches that led to each, a segment that continues in the next one,
 * events. */
static void disk_make(struct disk *disk) {
    struct engine *engine;
    struct log_error error = {.text = ""};
    struct ekit_command c;
    static struct ekit_answer answer;
    disk->fake = fakeos_new(1);
    struct os os = os_of(disk);
    struct engine_options options = options_of(&os);
    enum tn_status status = ekit_try_local(&options, &LOCAL, &engine, &error);
    TN_ASSERT(status == TN_OK);
    ekit_run_ok(engine, ekit_pool(&c, "range", 1, 1000, 600), &answer);
    ekit_run_ok(engine, ekit_pool_sticky(&c, "sticky", 1, 100, 600), &answer);
    work(engine, "h/one", 100);
    status = engine_snapshot(engine, &error);
    TN_ASSERT(status == TN_OK);
    work(engine, "h/two", 4000);
    work(engine, "h/three", 4000);
    status = engine_snapshot(engine, &error);
    TN_ASSERT(status == TN_OK);
    work(engine, "h/four", 50);
    (void)engine_close(engine);
    fakeos_restart(disk->fake);
    status = os.list(os.ctx, DIR, file_note, disk);
    TN_ASSERT(status == TN_OK && disk->count >= 4);
    qsort(disk->paths, disk->count, sizeof disk->paths[0], path_compare);
}

/* ---- changes ---- */

static void change(const struct disk *disk, const uint8_t *how) {
    const char *path = disk->paths[how[0] % disk->count];
    uint64_t size = fakeos_file_size(disk->fake, path);
    uint64_t offset = how[1] | (uint64_t)how[2] << 8 | (uint64_t)how[3] << 16;
    uint8_t bytes[4];
    if (how[4] == 255) { /* the file ends early */
        fakeos_file_resize(disk->fake, path, offset % (size + 1));
        return;
    }
    if (size < sizeof bytes) {
        return;
    }
    if (how[4] % 2 == 1) {
        fakeos_file_write(disk->fake, path, offset % size, &how[5], 1);
        return;
    }
    static const uint32_t values[] = {0, 1, UINT32_MAX, 0x7fffffff, 0x10000, 64};
    offset = offset * 4 % (size - 3);
    fakeos_file_read(disk->fake, path, offset, bytes, sizeof bytes);
    uint32_t old = tn_load32(bytes);
    unsigned pick = how[5] % 10u;
    tn_store32(bytes, pick < 6    ? values[pick]
                      : pick == 6 ? old + 1
                      : pick == 7 ? old - 1
                      : pick == 8 ? old ^ 0x100
                                  : how[5]);
    fakeos_file_write(disk->fake, path, offset, bytes, sizeof bytes);
}

/* ---- repairs ---- */

static void repair_segment(uint8_t *at, uint64_t size, unsigned repair, uint64_t *chain) {
    if (size < LOG_SEGMENT_HEADER) {
        return;
    }
    if ((repair & REPAIR_CHAIN) && *chain != 0) {
        tn_store64(at + 56, *chain);
    }
    if (repair & REPAIR_SEGMENT) {
        tn_store32(at + 4092, tn_crc32c(0, at, 4092));
    }
    uint64_t salt = tn_load64(at + 64);
    *chain = tn_load64(at + 56);
    uint32_t sector = tn_load32(at + 80);
    if (sector < LOG_SECTOR_OLD || sector > LOG_SECTOR_MOST || (sector & (sector - 1)) != 0) {
        sector = LOG_SECTOR_OLD;
    }
    for (uint64_t pos = LOG_SEGMENT_HEADER; pos + sector <= size;) {
        uint8_t *frame = at + pos;
        uint64_t bytes = log_frame_size(tn_load32(frame + 4), sector);
        if (bytes > size - pos || tn_load64(frame + 16) != salt) {
            return;
        }
        if (repair & REPAIR_CHAIN) {
            tn_store64(frame + 48, *chain);
        }
        if (repair & REPAIR_FRAMES) {
            tn_store32(frame, tn_crc32c(0, frame + 4, bytes - 4));
        }
        if (tn_load32(frame + 60) == LOG_FRAME_BATCH) {
            *chain = log_frame_chain(frame);
        }
        pos += bytes;
    }
}

static void repair_snapshot(uint8_t *at, uint64_t size) {
    uint32_t chain = 0;
    if (size < 64 + 32) {
        return;
    }
    tn_store32(at + 60, tn_crc32c(0, at, 60));
    uint8_t *footer = at + size - 32;
    for (uint8_t *section = at + 64; section + 12 <= footer;) {
        uint32_t len = tn_load32(section + 4);
        if (len > (uint64_t)(footer - section) - 12) {
            break;
        }
        tn_store32(section + 8, tn_crc32c(tn_crc32c(0, section, 8), section + 12, len));
        chain = tn_crc32c(chain, section + 8, 4);
        section += 12 + len;
    }
    tn_store32(footer + 24, chain);
    tn_store32(footer + 28, tn_crc32c(0, footer, 28));
}

static void repair_events(uint8_t *at, uint64_t size) {
    if (size < 64) {
        return;
    }
    tn_store32(at + 60, tn_crc32c(0, at, 60));
    for (uint64_t pos = 512; pos + 80 <= size;) {
        uint8_t *block = at + pos;
        uint32_t len = tn_load32(block + 8);
        if (len > size - pos - 80) {
            return;
        }
        tn_store32(block + 12, tn_crc32c(0, block + 80, len));
        tn_store32(block + 4, tn_crc32c(0, block + 8, 72));
        pos = (pos + 80 + len + 511) / 512 * 512;
    }
}

static void repair_all(const struct disk *disk, unsigned repair) {
    uint64_t chain = 0;
    for (unsigned i = 0; i < disk->count; i++) {
        uint64_t size = fakeos_file_size(disk->fake, disk->paths[i]);
        uint8_t *bytes = malloc(size + 1);
        TN_ASSERT(bytes != NULL);
        fakeos_file_read(disk->fake, disk->paths[i], 0, bytes, size);
        if (strstr(disk->paths[i], ".log") != NULL) {
            repair_segment(bytes, size, repair, &chain);
        } else if (strstr(disk->paths[i], ".snap") != NULL && (repair & REPAIR_SECTIONS)) {
            repair_snapshot(bytes, size);
        } else if (strstr(disk->paths[i], "events-") != NULL && (repair & REPAIR_EVENTS)) {
            repair_events(bytes, size);
        }
        fakeos_file_write(disk->fake, disk->paths[i], 0, bytes, size);
        free(bytes);
    }
}

/* ---- starts ---- */

/* Read only; true if there is a sound state. */
static bool look(const struct os *os) {
    struct log *log;
    struct engine_report report;
    struct log_error error = {.text = ""};
    struct log_local_options options = {.os = os, .dir = DIR, .read_only = true};
    enum tn_status status = log_local_open(&options, NULL, NULL, &log, &error);
    if (status == TN_OK) {
        status = engine_replay(os, log_local_store(log), log, &report, &error);
    }
    if (status != TN_OK) {
        TN_ASSERT(strstr(error.text, DIR "/") != NULL); /* the error names the file */
        return false;
    }
    TN_ASSERT(report.empty || report.sound || report.why[0] != '\0');
    return report.sound && !report.empty;
}

static bool reads_sound(void *ctx, const struct kernel *kernel, uint64_t clock_ms) {
    char why[256];
    (void)clock_ms;
    *(bool *)ctx = kernel_check(kernel, why, sizeof why);
    return false;
}

static void start(const struct os *os) {
    static struct ekit_answer answer;
    struct engine *engine;
    struct ekit_command c;
    struct log_error error = {.text = ""};
    struct engine_options options = options_of(os);
    bool sound = false;
    if (ekit_try_local(&options, &LOCAL, &engine, &error) != TN_OK) {
        TN_ASSERT(error.text[0] != '\0');
        return;
    }
    enum tn_result result = ekit_run(engine, ekit_pool(&c, "new", 1, 5, 60), &answer);
    TN_ASSERT(engine_outcome(&answer.result) == TN_COMMITTED || result != TN_R_OK);
    TN_ASSERT(result != TN_R_HALTED && result != TN_R_LOST);
    result = engine_read(engine, ENGINE_READ_CURRENT, reads_sound, &sound);
    TN_ASSERT(result == TN_R_OK && sound);
    (void)engine_close(engine);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct disk made;
    if (made.fake == NULL) {
        disk_make(&made);
    }
    size_t changes = size == 0 ? 0 : (size - 1) / CHANGE_BYTES;
    if (size == 0 || changes > CHANGES_MAX) {
        return 0;
    }
    struct disk disk = made;
    disk.fake = fakeos_copy(made.fake, 1);
    for (size_t i = 0; i < changes; i++) {
        change(&disk, data + 1 + i * CHANGE_BYTES);
    }
    repair_all(&disk, data[0]);
    struct os os = os_of(&disk);
    bool sound = look(&os);
    TN_ASSERT(sound || changes > 0);
    if (sound) {
        start(&os);
    }
    fakeos_free(disk.fake);
    return 0;
}
