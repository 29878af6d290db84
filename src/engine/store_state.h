/* Internal: the store of events, shared by the files that make it up.
 *
 *   store.c       blocks in memory: append, the ring, the index
 *   store_file.c  the files: their bytes, writing, syncing, dropping the oldest
 *   store_load.c  finding what the files have, and cutting it to what the log says
 *   store_read.c  reading back
 *
 * A block is a run of records that is written, checked and found as a whole: of about 64 KiB, or one
 * record that is larger. Blocks have numbers, one after the other. The last one may be open, that is,
 * growing; all others are sealed.
 *
 *   first            ring_first           write_next         open
 *   |-- in files only --|-- in both places --|-- in memory only --|
 *
 * A block says which event came before it (`prev`). If that is not the last one of the block before,
 * events are missing between: a hole.
 *
 * Locks, in this order: writer (the files; held while writing), lock (everything else). Neither is
 * held while a notice is told or an event visited. */
#ifndef TN_ENGINE_STORE_STATE_H
#define TN_ENGINE_STORE_STATE_H

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/assert.h"
#include "engine/store.h"

/* Bytes of records in a block; a larger record has a block of its own. */
#define STORE_BLOCK_BYTES ((size_t)64 << 10)
#define STORE_BLOCK_HEADER ((size_t)80)
#define STORE_RING_BYTES ((size_t)8 << 20)
#define STORE_PAGES 8u
#define STORE_PARTS 16u       /* the bound is divided into this many files */
#define STORE_PART_EVENTS 64u /* a file has at least this many events */
#define STORE_RETRY_MS 1000u  /* milliseconds between attempts after the disk failed */
#define STORE_DIR_MAX 3900u   /* as the log's */
#define STORE_PATH_MAX (STORE_DIR_MAX + 64u)
#define STORE_NOTICE_MAX 512u

struct store_block {
    struct engine_event_id prev, first, last;
    uint64_t covers; /* all events up to this LSN are in this block or earlier ones */
    uint32_t count;
    uint32_t len;    /* of its records */
    size_t at;       /* offset in the ring: its header, followed by the records */
    uint64_t file;   /* number of the file; 0: not in a file */
    uint64_t offset; /* offset in the file: its header, followed by the records */
    bool gone;       /* its events are lost; its entry remains */
};

struct store_file {
    uint64_t number;
    int file;
    uint64_t bytes; /* valid bytes: where the next block goes */
    uint64_t events;
    uint32_t readers; /* threads that use `file` without holding a lock */
    bool dropped;     /* the last reader closes it */
};

/* The records of a block, read from its file. */
struct store_page {
    uint64_t number; /* of the block */
    uint32_t users;
    uint64_t used_at; /* larger means used more recently */
    uint8_t *bytes;   /* NULL: an unused entry */
};

struct engine_store {
    struct engine_store_options options;
    char dir[STORE_DIR_MAX];
    uint64_t part_events; /* maximum events of a file, and of a block */

    pthread_mutex_t writer;
    uint64_t file_next;            /* number of the next file */
    _Atomic uint64_t asked_ns;     /* since when a disk call has not returned; 0: none is pending */
    bool suspect;                  /* a sync of the newest file failed: it gets no more blocks */
    bool unsynced;                 /* the newest file has blocks that were not synced */
    uint64_t covers_written;       /* `covers` of the last block in the files */
    uint64_t covers_before;        /* `covers` of the marks at the beginning of the files */
    char notice[STORE_NOTICE_MAX]; /* a notice to deliver when `writer` is released; "": none */

    pthread_mutex_t lock; /* everything below */
    pthread_cond_t work;  /* a block was sealed, or the thread must stop */
    pthread_cond_t came;  /* `covered` has grown while a thread waited for it */
    uint32_t waiting;     /* for that */
    bool stop;
    bool has_thread;
    pthread_t thread;

    struct store_file **files; /* oldest first; changed with `writer` held, too */
    size_t file_count, file_capacity;

    struct store_block *blocks; /* a window of an array: from `skip`, block_count entries */
    size_t skip, block_count, block_capacity;
    uint64_t first; /* number of the first block in the window */
    uint64_t ring_first, write_next;
    bool open; /* the last block accepts records */

    uint8_t *ring;
    size_t tail; /* where the next block goes */
    size_t room; /* room for records in the open block */

    struct engine_event_id newest; /* the last event appended, retained or not */
    uint64_t covered;              /* all commands up to this LSN have been appended */
    uint64_t events;               /* events in blocks that are not gone */
    uint64_t lost;
    bool failing;
    uint64_t retry_ms; /* with `failing`: not before this time */
    bool armed;

    struct {
        struct engine_event_id id; /* the last event read, */
        uint64_t number;           /* in this block, */
        uint32_t offset;           /* and the offset of the next record */
    } hint;
    struct store_page pages[STORE_PAGES];
    uint64_t page_clock;
};

/* ---- store.c; with `lock` held ---- */

static inline struct store_block *store_block_at(struct engine_store *store, uint64_t number) {
    TN_ASSERT(number >= store->first && number - store->first < store->block_count);
    return &store->blocks[store->skip + (size_t)(number - store->first)];
}

/* The number of the next block: one more than the last one's. */
static inline uint64_t store_block_end(const struct engine_store *store) {
    return store->first + store->block_count;
}

/* The blocks before this number are sealed. */
static inline uint64_t store_sealed_end(const struct engine_store *store) {
    return store_block_end(store) - store->open;
}

/* Adds a block at the end. False: out of memory. */
bool store_block_push(struct engine_store *store, const struct store_block *block);
/* Removes `count` blocks at the front, and blocks after them that are gone. */
void store_block_pop(struct engine_store *store, size_t count);
/* Removes the blocks from this number on. They must not be in the ring. */
void store_block_cut(struct engine_store *store, uint64_t number);
void store_block_lose(struct engine_store *store, struct store_block *block);
void store_seal(struct engine_store *store);
/* The oldest and the newest retained event; zero if there are none. */
struct engine_event_id store_oldest(struct engine_store *store);
struct engine_event_id store_newest(struct engine_store *store);

/* ---- store_file.c ---- */

#define STORE_NAME_PREFIX "events-"
#define STORE_NAME_FORMAT STORE_NAME_PREFIX "%016" PRIx64
#define STORE_FILE_HEADER 64u
#define STORE_SECTOR 512u

/* The offset of the block after this one. */
static inline uint64_t store_block_after(const struct store_block *block) {
    uint64_t end = block->offset + STORE_BLOCK_HEADER + block->len;
    return (end + STORE_SECTOR - 1) / STORE_SECTOR * STORE_SECTOR;
}

void store_path(const struct engine_store *store, uint64_t number, char out[STORE_PATH_MAX]);

/* The bytes of the header of a file and of a block. Decoding judges the header only. */
void store_file_encode(uint8_t out[STORE_FILE_HEADER], uint64_t number);
bool store_file_decode(const uint8_t bytes[STORE_FILE_HEADER], uint64_t number);
void store_block_encode(uint8_t out[STORE_BLOCK_HEADER], const struct store_block *block,
                        const uint8_t *records);
bool store_block_decode(const uint8_t bytes[STORE_BLOCK_HEADER], uint64_t file, uint64_t offset,
                        struct store_block *ret_block);
bool store_records_sound(const uint8_t header[STORE_BLOCK_HEADER], const uint8_t *records);

/* All below with `writer` held, or before there is a second thread. */

/* Formats a notice for the owner, which store_unlock delivers. */
__attribute__((format(printf, 2, 3))) void store_notice(struct engine_store *store,
                                                        const char *format, ...);
/* Releases `writer` and delivers the pending notice. */
void store_unlock(struct engine_store *store);

struct store_file *store_file_newest(const struct engine_store *store); /* NULL: there is none */
bool store_file_add(struct engine_store *store, const struct store_file *file);
/* Removes the oldest or the newest file, whose blocks have no entries any more. */
void store_file_drop(struct engine_store *store, struct store_file *file);
/* Closes the dropped files that have no readers. With `lock` held; `writer` is not needed. */
void store_file_release(struct engine_store *store, struct store_file *file);
/* Removes the oldest files as long as the remaining ones have enough events. */
void store_drop_old(struct engine_store *store);

enum store_wrote { STORE_WROTE, STORE_NOTHING_TO_WRITE, STORE_FAILED };
/* Writes the oldest block that is only in memory. `now`: even if the disk failed recently. */
enum store_wrote store_write_one(struct engine_store *store, bool now);
bool store_sync(struct engine_store *store);
/* Seals and writes all blocks, writes the mark, and syncs. */
bool store_flush(struct engine_store *store);

/* ---- store_load.c ---- */

enum tn_status store_load(struct engine_store *store);

/* ---- store_read.c ---- */

/* Reads and checks a block's records from its file, into memory of the caller. */
enum tn_status store_block_read(const struct engine_store *store, int file,
                                const struct store_block *block, uint8_t **ret_records);
void store_pages_free(struct engine_store *store);

#endif
