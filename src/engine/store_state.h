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
#include "engine/record.h"
#include "engine/store.h"

#define STORE_BLOCK_BYTES ((size_t)64 << 10) /* records of a block; a larger record has its own */
#define STORE_BLOCK_HEADER ((size_t)80)
#define STORE_RING_BYTES ((size_t)8 << 20)
#define STORE_PAGES 8u
#define STORE_PARTS 16u       /* of the bound, in files of their own */
#define STORE_PART_EVENTS 64u /* no file holds fewer on purpose */
#define STORE_RETRY_MS 1000u  /* between attempts at a disk that fails */
#define STORE_DIR_MAX 3900u   /* as the log's */
#define STORE_PATH_MAX (STORE_DIR_MAX + 64u)
#define STORE_NOTICE_MAX 512u

struct store_block {
    struct engine_event_id prev, first, last;
    uint64_t covers; /* every event up to this LSN is in this block or before it */
    uint32_t count;
    uint32_t len;    /* of its records */
    size_t at;       /* in the ring: its header, the records after it */
    uint64_t file;   /* the file's number; 0: in none */
    uint64_t offset; /* in the file: its header, the records after it */
    bool gone;       /* its events are lost; the place in the row remains */
};

struct store_file {
    uint64_t number;
    int file;
    uint64_t bytes; /* valid ones: where the next block goes */
    uint64_t events;
    uint32_t readers; /* threads that use `file` without a lock */
    bool dropped;     /* the last reader closes it */
};

/* The records of a block that were read from its file. */
struct store_page {
    uint64_t number; /* of the block */
    uint32_t users;
    uint64_t used_at; /* the larger, the later */
    uint8_t *bytes;   /* NULL: a free place */
};

struct engine_store {
    struct engine_store_options options;
    char dir[STORE_DIR_MAX];
    uint64_t part_events; /* of a file, and the most of a block */

    pthread_mutex_t writer;
    uint64_t file_next;            /* number of the next file */
    _Atomic uint64_t asked_ns;     /* since when the disk owes an answer; 0: it does not */
    bool suspect;                  /* a sync of the newest file failed: it takes no more blocks */
    bool unsynced;                 /* it has blocks that no sync has seen */
    uint64_t covers_written;       /* of the last block in the files */
    uint64_t covers_before;        /* of the marks that the files begin with */
    char notice[STORE_NOTICE_MAX]; /* to be told when `writer` is free; "": none */

    pthread_mutex_t lock; /* everything below */
    pthread_cond_t work;  /* a block was sealed, or the thread must stop */
    pthread_cond_t came;  /* `covered` has grown, and a thread waits for it */
    uint32_t waiting;     /* for that */
    bool stop;
    bool has_thread;
    pthread_t thread;

    struct store_file **files; /* oldest first; changed with `writer` as well */
    size_t file_count, file_capacity;

    struct store_block *blocks; /* a window of an array: from `skip`, block_count of them */
    size_t skip, block_count, block_capacity;
    uint64_t first; /* number of the first block in it */
    uint64_t ring_first, write_next;
    bool open; /* the last block grows */

    uint8_t *ring;
    size_t tail; /* where the next block goes */
    size_t room; /* of the open block, for records */

    struct engine_event_id newest; /* the last that came, kept or not */
    uint64_t covered;              /* commands up to this LSN have been appended */
    uint64_t events;               /* in blocks that are not gone */
    uint64_t lost;
    bool failing;
    uint64_t retry_ms; /* with `failing`: not before */
    bool armed;

    struct {
        struct engine_event_id id; /* the last that was read, */
        uint64_t number;           /* in this block, */
        uint32_t offset;           /* where the next record is */
    } hint;
    struct store_page pages[STORE_PAGES];
    uint64_t page_clock;
};

/* ---- store.c; with `lock` held ---- */

static inline struct store_block *store_block_at(struct engine_store *store, uint64_t number) {
    TN_ASSERT(number >= store->first && number - store->first < store->block_count);
    return &store->blocks[store->skip + (size_t)(number - store->first)];
}

/* The number that the next block gets; one more than the last one's. */
static inline uint64_t store_block_end(const struct engine_store *store) {
    return store->first + store->block_count;
}

/* Those before it are sealed. */
static inline uint64_t store_sealed_end(const struct engine_store *store) {
    return store_block_end(store) - store->open;
}

/* Adds a block to the row; false if there is no memory. */
bool store_block_push(struct engine_store *store, const struct store_block *block);
/* Takes blocks off the front: `count` of them, and what is gone after them. */
void store_block_pop(struct engine_store *store, size_t count);
/* Takes the blocks from this number on off the end. They must not be in the ring. */
void store_block_cut(struct engine_store *store, uint64_t number);
void store_block_lose(struct engine_store *store, struct store_block *block);
void store_seal(struct engine_store *store);
/* The oldest and the newest that are kept; zero if there are none. */
struct engine_event_id store_oldest(struct engine_store *store);
struct engine_event_id store_newest(struct engine_store *store);

/* ---- store_file.c ---- */

#define STORE_NAME_PREFIX "events-"
#define STORE_NAME_FORMAT STORE_NAME_PREFIX "%016" PRIx64
#define STORE_FILE_HEADER 64u
#define STORE_SECTOR 512u

/* Where the block after this one goes. */
static inline uint64_t store_block_after(const struct store_block *block) {
    uint64_t end = block->offset + STORE_BLOCK_HEADER + block->len;
    return (end + STORE_SECTOR - 1) / STORE_SECTOR * STORE_SECTOR;
}

void store_path(const struct engine_store *store, uint64_t number, char out[STORE_PATH_MAX]);

/* The bytes of a file's head and of a block's. Decoding judges the header only. */
void store_file_encode(uint8_t out[STORE_FILE_HEADER], uint64_t number);
bool store_file_decode(const uint8_t bytes[STORE_FILE_HEADER], uint64_t number);
void store_block_encode(uint8_t out[STORE_BLOCK_HEADER], const struct store_block *block,
                        const uint8_t *records);
bool store_block_decode(const uint8_t bytes[STORE_BLOCK_HEADER], uint64_t file, uint64_t offset,
                        struct store_block *ret_block);
bool store_records_sound(const uint8_t header[STORE_BLOCK_HEADER], const uint8_t *records);

/* All below with `writer` held, or before there is a second thread. */

/* A line for the owner, told by store_unlock. */
__attribute__((format(printf, 2, 3))) void store_notice(struct engine_store *store,
                                                        const char *format, ...);
/* Lets `writer` go and tells what there is to tell. */
void store_unlock(struct engine_store *store);

struct store_file *store_file_newest(const struct engine_store *store); /* NULL: there is none */
bool store_file_add(struct engine_store *store, const struct store_file *file);
/* The oldest or the newest, whose blocks are no longer in the row. */
void store_file_drop(struct engine_store *store, struct store_file *file);
/* Closes the dropped files that have no readers. With `lock` held; `writer` is not needed. */
void store_file_release(struct engine_store *store, struct store_file *file);
/* Drops the oldest files as long as the others have enough. */
void store_drop_old(struct engine_store *store);

enum store_wrote { STORE_WROTE, STORE_NOTHING_TO_WRITE, STORE_FAILED };
/* Writes the oldest block that is only in memory. `now`: even if the disk failed a moment ago. */
enum store_wrote store_write_one(struct engine_store *store, bool now);
bool store_sync(struct engine_store *store);
/* Seals and writes everything, says what is covered, syncs. */
bool store_flush(struct engine_store *store);

/* ---- store_load.c ---- */

enum tn_status store_load(struct engine_store *store);

/* ---- store_read.c ---- */

/* A block's records from its file, checked, in memory of the caller's own. */
enum tn_status store_block_read(const struct engine_store *store, int file,
                                const struct store_block *block, uint8_t **ret_records);
void store_pages_free(struct engine_store *store);

#endif
