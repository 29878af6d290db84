/* The files of the store: events-%016x, numbered from 1, each with a sixteenth of the bound.
 *
 * A file: a header of 64 bytes, then blocks, each at the next multiple of 512: they never share a
 * sector with what was synced before them.
 *   0  8 bytes "TNEVENTS"     8  u32 version (1)     12 u32 0
 *   16 u64 number, as in the name
 *   60 u32 CRC32C of the 60 bytes before; the rest is zero
 *
 * A block: a header of 80 bytes, then its records (record.h).
 *   0  u32 "TNEB"             4  u32 CRC32C of bytes 8 to 80
 *   8  u32 bytes of records   12 u32 CRC32C of the records
 *   16 u32 count of records   20 u32 index, 24 u64 lsn   of the first
 *   32 u64 lsn, 40 u32 index  of the last
 *   44 u32 index, 48 u64 lsn  of the one before the first; zero: there was none
 *   56 u64 covers: every event up to this LSN is in this block or before it
 *   64 u64 number of the file 72 u64 offset of this header in it
 * A block without records is a mark: it says only what is covered.
 *
 * A file is synced before the next one is begun and named durably before it gets a block, so only
 * the newest can be torn. After a sync that failed no more is written to that file. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "engine/record.h"
#include "engine/store_state.h"

#define BLOCK_MAGIC 0x42454e54u
#define FILE_VERSION 1u

static const uint8_t file_magic[8] = {'T', 'N', 'E', 'V', 'E', 'N', 'T', 'S'};

void store_path(const struct engine_store *store, uint64_t number, char out[STORE_PATH_MAX]) {
    int len = snprintf(out, STORE_PATH_MAX, "%s/" STORE_NAME_FORMAT, store->dir, number);
    TN_ASSERT(len > 0 && len < (int)STORE_PATH_MAX);
}

/* ---- Bytes ---- */

void store_file_encode(uint8_t out[STORE_FILE_HEADER], uint64_t number) {
    memset(out, 0, STORE_FILE_HEADER);
    memcpy(out, file_magic, sizeof file_magic);
    tn_store32(out + 8, FILE_VERSION);
    tn_store64(out + 16, number);
    tn_store32(out + 60, tn_crc32c(0, out, 60));
}

bool store_file_decode(const uint8_t bytes[STORE_FILE_HEADER], uint64_t number) {
    return memcmp(bytes, file_magic, sizeof file_magic) == 0 &&
           tn_load32(bytes + 60) == tn_crc32c(0, bytes, 60) &&
           tn_load32(bytes + 8) == FILE_VERSION && tn_load64(bytes + 16) == number;
}

void store_block_encode(uint8_t out[STORE_BLOCK_HEADER], const struct store_block *block,
                        const uint8_t *records) {
    tn_store32(out, BLOCK_MAGIC);
    tn_store32(out + 8, block->len);
    tn_store32(out + 12, tn_crc32c(0, records, block->len));
    tn_store32(out + 16, block->count);
    tn_store32(out + 20, block->first.index);
    tn_store64(out + 24, block->first.lsn);
    tn_store64(out + 32, block->last.lsn);
    tn_store32(out + 40, block->last.index);
    tn_store32(out + 44, block->prev.index);
    tn_store64(out + 48, block->prev.lsn);
    tn_store64(out + 56, block->covers);
    tn_store64(out + 64, block->file);
    tn_store64(out + 72, block->offset);
    tn_store32(out + 4, tn_crc32c(0, out + 8, STORE_BLOCK_HEADER - 8));
}

bool store_block_decode(const uint8_t bytes[STORE_BLOCK_HEADER], uint64_t file, uint64_t offset,
                        struct store_block *ret_block) {
    if (tn_load32(bytes) != BLOCK_MAGIC ||
        tn_load32(bytes + 4) != tn_crc32c(0, bytes + 8, STORE_BLOCK_HEADER - 8) ||
        tn_load64(bytes + 64) != file || tn_load64(bytes + 72) != offset) {
        return false;
    }
    *ret_block = (struct store_block){
        .len = tn_load32(bytes + 8),
        .count = tn_load32(bytes + 16),
        .first = {.lsn = tn_load64(bytes + 24), .index = tn_load32(bytes + 20)},
        .last = {.lsn = tn_load64(bytes + 32), .index = tn_load32(bytes + 40)},
        .prev = {.lsn = tn_load64(bytes + 48), .index = tn_load32(bytes + 44)},
        .covers = tn_load64(bytes + 56),
        .file = file,
        .offset = offset,
    };
    return true;
}

bool store_records_sound(const uint8_t header[STORE_BLOCK_HEADER], const uint8_t *records) {
    return tn_load32(header + 12) == tn_crc32c(0, records, tn_load32(header + 8));
}

/* ---- Notices ---- */

void store_notice(struct engine_store *store, const char *format, ...) {
    va_list arguments;
    if (store->notice[0] != '\0') {
        return; /* only one notice is kept, and the first one names the cause */
    }
    va_start(arguments, format);
    (void)vsnprintf(store->notice, sizeof store->notice, format, arguments);
    va_end(arguments);
}

void store_unlock(struct engine_store *store) {
    char line[STORE_NOTICE_MAX];
    memcpy(line, store->notice, sizeof line);
    store->notice[0] = '\0';
    pthread_mutex_unlock(&store->writer);
    if (line[0] != '\0') {
        store->options.notice(store->options.notice_ctx, line);
    }
}

/* Reports that the disk has failed, or works again. */
static void store_turned(struct engine_store *store, enum tn_status status) {
    const struct os *os = store->options.os;
    pthread_mutex_lock(&store->lock);
    bool turned = store->failing != (status != TN_OK);
    uint64_t lost = store->lost;
    store->failing = status != TN_OK;
    store->retry_ms = os->clock_boot_ms(os->ctx) + STORE_RETRY_MS;
    pthread_mutex_unlock(&store->lock);
    if (turned && status != TN_OK) {
        store_notice(store, "event=events_failing reason=\"%s\"", tn_status_text(status));
    } else if (turned) {
        store_notice(store, "event=events_written_again lost=%" PRIu64, lost);
    }
}

/* ---- The list of files ---- */

struct store_file *store_file_newest(const struct engine_store *store) {
    return store->file_count == 0 ? NULL : store->files[store->file_count - 1];
}

/* Makes room for one more file. With `lock` held. */
static bool files_reserve(struct engine_store *store) {
    if (store->file_count < store->file_capacity) {
        return true;
    }
    size_t capacity = store->file_capacity == 0 ? 32 : store->file_capacity * 2;
    void *files = realloc(store->files, capacity * sizeof(struct store_file *));
    if (files == NULL) {
        return false;
    }
    store->files = files;
    store->file_capacity = capacity;
    return true;
}

bool store_file_add(struct engine_store *store, const struct store_file *file) {
    struct store_file *copy = malloc(sizeof *copy);
    if (copy == NULL) {
        return false;
    }
    *copy = *file;
    pthread_mutex_lock(&store->lock);
    bool fits = files_reserve(store);
    if (fits) {
        store->files[store->file_count++] = copy;
    }
    pthread_mutex_unlock(&store->lock);
    if (!fits) {
        free(copy);
    }
    return fits;
}

/* With `lock` held. */
void store_file_release(struct engine_store *store, struct store_file *file) {
    const struct os *os = store->options.os;
    if (file->readers == 0 && file->dropped) {
        (void)os->close(os->ctx, file->file);
        free(file);
    }
}

/* Takes one file out of the list, at the front or at the end, and off the disk; for good, before the
 * next one is: if only some of several came back after a crash, they would leave a hole. */
void store_file_drop(struct engine_store *store, struct store_file *file) {
    const struct os *os = store->options.os;
    char path[STORE_PATH_MAX];
    store_path(store, file->number, path);
    pthread_mutex_lock(&store->lock);
    if (store->files[0] == file) {
        memmove(store->files, store->files + 1,
                (store->file_count - 1) * sizeof(struct store_file *));
    } else {
        TN_ASSERT(store_file_newest(store) == file);
    }
    store->file_count--;
    file->dropped = true;
    store_file_release(store, file);
    pthread_mutex_unlock(&store->lock);
    (void)os->remove(os->ctx, path);
    (void)os->sync_dir(os->ctx, store->dir);
}

/* The blocks at the front that are in files up to this one. */
static size_t file_blocks(const struct engine_store *store, uint64_t number) {
    size_t count = 0;
    while (count < store->block_count) {
        const struct store_block *block = &store->blocks[store->skip + count];
        if (block->file > number || (block->file == 0 && !block->gone)) {
            break;
        }
        count++;
    }
    return count;
}

void store_drop_old(struct engine_store *store) {
    while (store->file_count > 1) {
        struct store_file *oldest = store->files[0];
        pthread_mutex_lock(&store->lock);
        uint64_t rest = oldest->events;
        bool drop = store->events >= store->options.events_max + rest;
        if (drop) {
            store_block_pop(store, file_blocks(store, oldest->number));
        }
        pthread_mutex_unlock(&store->lock);
        if (!drop) {
            return;
        }
        store_file_drop(store, oldest);
    }
}

/* ---- Writing ---- */

static void disk_asked(struct engine_store *store, uint64_t now_ns) {
    atomic_store_explicit(&store->asked_ns, now_ns, memory_order_relaxed);
}

bool store_sync(struct engine_store *store) {
    const struct os *os = store->options.os;
    const struct store_file *file = store_file_newest(store);
    if (file == NULL || store->suspect || !store->unsynced) {
        return !store->suspect;
    }
    disk_asked(store, os->clock_boot_ns(os->ctx));
    enum tn_status status = os->sync(os->ctx, file->file);
    disk_asked(store, 0);
    store->unsynced = false;
    if (status != TN_OK) {
        store->suspect = true;
        store_notice(store, "event=events_failing file=" STORE_NAME_FORMAT " reason=\"%s\"",
                     file->number, tn_status_text(status));
    }
    return status == TN_OK;
}

/* The free space reserved for the log is not available for events. */
static enum tn_status file_has_space(const struct engine_store *store) {
    const struct os *os = store->options.os;
    uint64_t bytes = 0;
    if (store->options.space_reserve_bytes == 0) {
        return TN_OK;
    }
    enum tn_status status = os->space_free(os->ctx, store->dir, &bytes);
    if (status == TN_OK && bytes < store->options.space_reserve_bytes) {
        status = TN_NOSPACE;
    }
    return status;
}

static enum tn_status file_begin(struct engine_store *store, uint64_t number) {
    const struct os *os = store->options.os;
    struct store_file file = {.number = number, .bytes = STORE_SECTOR};
    uint8_t header[STORE_FILE_HEADER];
    char path[STORE_PATH_MAX];
    store_path(store, number, path);
    store_file_encode(header, number);
    enum tn_status status = os->open(os->ctx, path, OS_WRITE | OS_CREATE | OS_TRUNCATE, &file.file);
    if (status != TN_OK) {
        return status;
    }
    status = os->write_at(os->ctx, file.file, header, sizeof header, 0);
    if (status == TN_OK) {
        status = os->sync_dir(os->ctx, store->dir);
    }
    if (status == TN_OK && !store_file_add(store, &file)) {
        status = TN_NOMEM;
    }
    if (status != TN_OK) {
        (void)os->close(os->ctx, file.file);
        (void)os->remove(os->ctx, path);
        return status;
    }
    store->suspect = false;
    store->file_next = number + 1;
    return TN_OK;
}

/* Makes sure that there is a file that can take a block of this many events. */
static enum tn_status file_ready(struct engine_store *store, uint32_t count) {
    const struct store_file *newest = store_file_newest(store);
    if (newest != NULL && !store->suspect && newest->events + count <= store->part_events) {
        return TN_OK;
    }
    (void)store_sync(store);
    enum tn_status status = file_has_space(store);
    return status == TN_OK ? file_begin(store, store->file_next) : status;
}

/* Header and records must be adjacent at `bytes`. */
static enum tn_status block_write(struct engine_store *store, struct store_block *block,
                                  uint8_t *bytes) {
    const struct os *os = store->options.os;
    enum tn_status status = file_ready(store, block->count);
    if (status != TN_OK) {
        return status;
    }
    struct store_file *file = store_file_newest(store);
    block->file = file->number;
    block->offset = file->bytes;
    store_block_encode(bytes, block, bytes + STORE_BLOCK_HEADER);
    disk_asked(store, os->clock_boot_ns(os->ctx));
    status = os->write_at(os->ctx, file->file, bytes, STORE_BLOCK_HEADER + block->len, file->bytes);
    disk_asked(store, 0);
    if (status != TN_OK) {
        return status;
    }
    pthread_mutex_lock(&store->lock);
    file->bytes = store_block_after(block);
    file->events += block->count;
    pthread_mutex_unlock(&store->lock);
    store->covers_written = block->covers;
    store->unsynced = true;
    return TN_OK;
}

enum store_wrote store_write_one(struct engine_store *store, bool now) {
    const struct os *os = store->options.os;
    pthread_mutex_lock(&store->lock);
    uint64_t number = store->write_next;
    bool nothing = number == store_sealed_end(store);
    bool wait = store->failing && !now && os->clock_boot_ms(os->ctx) < store->retry_ms;
    struct store_block block = {0};
    if (!nothing) {
        block = *store_block_at(store, number);
    }
    pthread_mutex_unlock(&store->lock);
    if (nothing || wait) {
        return nothing ? STORE_NOTHING_TO_WRITE : STORE_FAILED;
    }
    enum tn_status status = block_write(store, &block, store->ring + block.at);
    store_turned(store, status);
    if (status != TN_OK) {
        return STORE_FAILED;
    }
    pthread_mutex_lock(&store->lock);
    *store_block_at(store, number) = block;
    store->write_next = number + 1;
    pthread_mutex_unlock(&store->lock);
    store_drop_old(store);
    return STORE_WROTE;
}

/* Writes how far the files go, if their last block does not say it. */
static bool mark_write(struct engine_store *store, struct engine_event_id newest, uint64_t covers) {
    uint8_t header[STORE_BLOCK_HEADER];
    struct store_block mark = {.prev = newest, .first = newest, .last = newest, .covers = covers};
    if (store->covers_written >= covers) {
        return true;
    }
    enum tn_status status = block_write(store, &mark, header);
    store_turned(store, status);
    return status == TN_OK;
}

bool store_flush(struct engine_store *store) {
    enum store_wrote wrote = STORE_WROTE;
    pthread_mutex_lock(&store->lock);
    store_seal(store);
    struct engine_event_id newest = store->newest;
    uint64_t covers = store->covered;
    uint64_t end = store_block_end(store);
    uint64_t next = store->write_next;
    pthread_mutex_unlock(&store->lock);
    while (next < end && wrote == STORE_WROTE) {
        wrote = store_write_one(store, true);
        next++;
    }
    return wrote != STORE_FAILED && mark_write(store, newest, covers) && store_sync(store);
}
