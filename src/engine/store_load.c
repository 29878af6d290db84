/* Finding what the files have, and bringing it in line with the log.
 *
 * At the start only headers are read. What they say of a block is believed until it is read. What is
 * later than the snapshot that replay begins with is cut: replay regenerates it. Missing events that
 * are older than the snapshot cannot be regenerated: the gap stays, and readers learn of it. */
#include "engine/record.h"
#include "engine/store_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log/dir.h"

/* ---- Headers ---- */

struct numbers {
    uint64_t *at;
    size_t count, capacity;
    bool out_of_memory;
};

static void numbers_add(void *ctx, const char *name) {
    struct numbers *numbers = ctx;
    char again[sizeof STORE_NAME_PREFIX + 16];
    size_t prefix = sizeof STORE_NAME_PREFIX - 1;
    if (strncmp(name, STORE_NAME_PREFIX, prefix) != 0) {
        return;
    }
    uint64_t number = strtoull(name + prefix, NULL, 16);
    (void)snprintf(again, sizeof again, STORE_NAME_FORMAT, number);
    if (number == 0 || strcmp(name, again) != 0) {
        return;
    }
    if (numbers->count == numbers->capacity) {
        size_t capacity = numbers->capacity == 0 ? 32 : numbers->capacity * 2;
        uint64_t *at = realloc(numbers->at, capacity * sizeof *at);
        if (at == NULL) {
            numbers->out_of_memory = true;
            return;
        }
        numbers->at = at;
        numbers->capacity = capacity;
    }
    numbers->at[numbers->count++] = number;
}

static int number_compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void load_tell(struct engine_store *store) {
    pthread_mutex_lock(&store->writer);
    store_unlock(store);
}

/* Reads the header at `offset`. False if there is none, or its records are incomplete. */
static bool load_header(const struct engine_store *store, const struct store_file *file,
                        uint64_t size, struct store_block *ret_block) {
    const struct os *os = store->options.os;
    uint8_t header[STORE_BLOCK_HEADER];
    size_t got = 0;
    return size > file->bytes && size - file->bytes >= sizeof header &&
           os->read_at(os->ctx, file->file, header, sizeof header, file->bytes, &got) == TN_OK &&
           got == sizeof header &&
           store_block_decode(header, file->number, file->bytes, ret_block) &&
           ret_block->len <= size - file->bytes - sizeof header;
}

/* Adds a block, or the mark of a block to the block before it. If files disagree, the later one
 * counts: the earlier one could not be cut. */
static bool load_block(struct engine_store *store, const struct store_block *block) {
    store->covered = block->covers;
    store->newest = block->last;
    if (block->count == 0) {
        uint64_t *covers = store->block_count == 0
                               ? &store->covers_before
                               : &store_block_at(store, store_block_end(store) - 1)->covers;
        *covers = block->covers;
        return true;
    }
    while (store->block_count > 0) {
        uint64_t last = store_block_end(store) - 1;
        if (engine_event_id_compare(store_block_at(store, last)->last, block->first) < 0) {
            break;
        }
        store_block_cut(store, last);
    }
    bool pushed = store_block_push(store, block);
    store->ring_first = store->write_next = store_block_end(store);
    return pushed;
}

/* Reads one file. Everything behind its last valid header is ignored. */
static enum tn_status load_file(struct engine_store *store, uint64_t number, bool newest) {
    const struct os *os = store->options.os;
    struct store_file file = {.number = number, .bytes = STORE_SECTOR};
    struct store_block block;
    uint8_t header[STORE_FILE_HEADER];
    char path[STORE_PATH_MAX];
    uint64_t size = 0;
    size_t got = 0;
    store_path(store, number, path);
    if (os->open(os->ctx, path, OS_WRITE, &file.file) != TN_OK) {
        store_notice(
            store, "event=events_damaged file=" STORE_NAME_FORMAT " reason=\"it cannot be opened\"",
            number);
        return TN_OK;
    }
    if (os->size(os->ctx, file.file, &size) != TN_OK || size < sizeof header ||
        os->read_at(os->ctx, file.file, header, sizeof header, 0, &got) != TN_OK ||
        got < sizeof header || !store_file_decode(header, number)) {
        (void)os->close(os->ctx, file.file);
        (void)os->remove(os->ctx, path);
        if (!newest) { /* the newest file may never have received its header */
            store_notice(store,
                         "event=events_damaged file=" STORE_NAME_FORMAT
                         " reason=\"its header is not ours\"",
                         number);
        }
        return TN_OK;
    }
    while (load_header(store, &file, size, &block)) {
        if (!load_block(store, &block)) {
            (void)os->close(os->ctx, file.file);
            return TN_NOMEM;
        }
        file.bytes = store_block_after(&block);
        file.events += block.count;
    }
    if (!newest && file.bytes < size) {
        store_notice(store, "event=events_damaged file=" STORE_NAME_FORMAT " offset=%" PRIu64,
                     number, file.bytes);
    }
    if (!store_file_add(store, &file)) {
        (void)os->close(os->ctx, file.file);
        return TN_NOMEM;
    }
    return TN_OK;
}

/* The log has created its own directory. If events have another one, it is created here, and synced
 * before it contains anything. */
static enum tn_status load_dir(const struct engine_store *store) {
    struct log_dir dir = {.os = store->options.os, .file = -1};
    bool made = false;
    memcpy(dir.path, store->dir, sizeof store->dir);
    enum tn_status status = log_dir_make(&dir, &made);
    return status == TN_OK && made ? log_dir_sync_parent(&dir) : status;
}

enum tn_status store_load(struct engine_store *store) {
    const struct os *os = store->options.os;
    struct numbers numbers = {0};
    enum tn_status status = load_dir(store);
    if (status == TN_OK) {
        status = os->list(os->ctx, store->dir, numbers_add, &numbers);
    }
    if (status != TN_OK) {
        store_notice(store, "event=events_damaged dir=\"%.300s\" reason=\"%s\"", store->dir,
                     tn_status_text(status));
    }
    status = numbers.out_of_memory ? TN_NOMEM : TN_OK;
    if (numbers.count > 0) {
        qsort(numbers.at, numbers.count, sizeof *numbers.at, number_compare);
        store->file_next = numbers.at[numbers.count - 1] + 1;
    }
    for (size_t i = 0; i < numbers.count && status == TN_OK; i++) {
        status = load_file(store, numbers.at[i], i + 1 == numbers.count);
        load_tell(store);
    }
    free(numbers.at);
    return status;
}

/* ---- Cutting ---- */

static struct store_file *file_of(const struct engine_store *store, uint64_t number) {
    for (size_t i = 0; i < store->file_count; i++) {
        if (store->files[i]->number == number) {
            return store->files[i];
        }
    }
    return NULL;
}

/* Ends the newest file where its valid part ends. What was behind must not come back after a crash,
 * so this is synced. A file that cannot be synced takes no more blocks. */
static void cut_newest(struct engine_store *store) {
    const struct os *os = store->options.os;
    const struct store_file *file = store_file_newest(store);
    uint64_t size = 0;
    if (file == NULL) {
        return;
    }
    bool short_enough = os->size(os->ctx, file->file, &size) == TN_OK && size <= file->bytes;
    if (short_enough && !store->unsynced) {
        return;
    }
    store->suspect = (!short_enough && os->truncate(os->ctx, file->file, file->bytes) != TN_OK) ||
                     os->sync(os->ctx, file->file) != TN_OK;
    store->unsynced = false;
}

/* Puts a mark in the place of what was cut, so that at any moment one of the two says what is
 * covered. */
static void cut_mark(struct engine_store *store) {
    const struct os *os = store->options.os;
    struct store_file *file = store_file_newest(store);
    uint8_t header[STORE_BLOCK_HEADER];
    struct store_block mark = {.prev = store->newest,
                               .first = store->newest,
                               .last = store->newest,
                               .covers = store->covered,
                               .file = file->number,
                               .offset = file->bytes};
    store_block_encode(header, &mark, header);
    if (os->write_at(os->ctx, file->file, header, sizeof header, file->bytes) == TN_OK) {
        file->bytes = store_block_after(&mark);
        store->unsynced = true;
    }
}

/* Removes the blocks from `number` on from memory and from the disk. */
static void store_cut(struct engine_store *store, uint64_t number) {
    struct store_block block = *store_block_at(store, number);
    store_block_cut(store, number);
    struct store_file *file = store_file_newest(store);
    while (file != NULL && file->number > block.file) {
        store_file_drop(store, file);
        file = store_file_newest(store);
    }
    if (file != NULL && file->number == block.file) {
        file->bytes = block.offset;
        file->events = 0;
        for (uint64_t n = store->first; n < number; n++) {
            const struct store_block *kept = store_block_at(store, n);
            file->events += kept->file == file->number ? kept->count : 0;
        }
    }
    store->newest = block.prev;
    store->covered =
        store->block_count > 0 ? store_block_at(store, number - 1)->covers : store->covers_before;
}

/* The newest event may be in no block because it is lost. It counts only up to this LSN: later
 * events are regenerated, or never happened. */
static void newest_limit(struct engine_store *store, uint64_t lsn) {
    if (store->newest.lsn > lsn) {
        store->newest = (struct engine_event_id){.lsn = lsn, .index = UINT32_MAX};
    }
    if (store->block_count > 0) {
        struct engine_event_id last = store_block_at(store, store_block_end(store) - 1)->last;
        store->newest = engine_event_id_compare(store->newest, last) > 0 ? store->newest : last;
    }
}

/* ---- Before and after replay ---- */

/* Blocks that begin after the newest snapshot were sealed after its flush. They may be whole, but
 * nothing shows that they are durable: what is read here may never have left the memory of an
 * operating system whose disk failed. The next snapshot would vouch for them, so they go. */
void engine_store_replay(struct engine_store *store, uint64_t snapshot_lsn) {
    uint64_t flushed = store->options.flushed_lsn;
    uint64_t number = store->first;
    flushed = flushed > snapshot_lsn ? flushed : snapshot_lsn;
    while (number < store_block_end(store) && store_block_at(store, number)->first.lsn <= flushed) {
        number++;
    }
    bool cut = number < store_block_end(store);
    if (cut) {
        store_cut(store, number);
    }
    newest_limit(store, snapshot_lsn);
    /* The blocks that were cut said that nothing is missing here. */
    if (cut && store->covered < snapshot_lsn) {
        store->covered = snapshot_lsn;
        cut_mark(store);
    }
    cut_newest(store);
    store_drop_old(store);
    store->covers_written = store->covered;
    if (store->covered < snapshot_lsn) {
        if (store->block_count > 0) {
            store_notice(store, "event=events_missing after=%" PRIu64 ".%" PRIu32 " up_to=%" PRIu64,
                         store->newest.lsn, store->newest.index, snapshot_lsn);
        }
        store->newest = (struct engine_event_id){.lsn = snapshot_lsn, .index = UINT32_MAX};
        store->covered = snapshot_lsn;
    }
    load_tell(store);
}

/* The records of this block up to `lsn`. */
static struct tn_bytes block_until(const uint8_t *records, uint32_t len, uint64_t lsn) {
    uint32_t kept = 0;
    while (kept < len && engine_record_id(records + kept).lsn <= lsn) {
        kept += engine_record_size(records + kept);
    }
    return tn_bytes_of(records, kept);
}

/* Cuts the block in which the log ends. Returns what is left of it, in memory of the caller. */
static struct tn_bytes cut_at_end(struct engine_store *store, uint64_t number, uint64_t end_lsn,
                                  uint8_t **ret_records) {
    struct store_block block = *store_block_at(store, number);
    bool whole =
        store_block_read(store, file_of(store, block.file)->file, &block, ret_records) == TN_OK;
    store_cut(store, number);
    cut_newest(store);
    if (!whole) {
        store->newest = (struct engine_event_id){.lsn = end_lsn, .index = UINT32_MAX};
        return tn_bytes_of(NULL, 0);
    }
    return block_until(*ret_records, block.len, end_lsn);
}

void engine_store_replayed(struct engine_store *store, uint64_t end_lsn) {
    uint64_t number = store->first;
    bool beyond = store->covers_written > end_lsn || store->newest.lsn > end_lsn;
    struct tn_bytes left = tn_bytes_of(NULL, 0);
    uint8_t *records = NULL;
    if (!beyond) {
        return;
    }
    while (number < store_block_end(store) && store_block_at(store, number)->last.lsn <= end_lsn) {
        number++;
    }
    if (number < store_block_end(store)) {
        left = cut_at_end(store, number, end_lsn, &records);
    }
    newest_limit(store, end_lsn);
    (void)engine_store_append(store, left, end_lsn);
    free(records);
    pthread_mutex_lock(&store->writer);
    store->covers_written = 0; /* the files claim too much; a mark corrects that */
    store_notice(store, "event=events_cut up_to=%" PRIu64, end_lsn);
    (void)store_flush(store);
    store_unlock(store);
}
