/* Reading back: find the block, get its records, visit them with no lock held.
 *
 * What is in the ring is copied out under the lock, from the place on where the last reader stopped
 * if it is the same one; so following the newest events costs what is new. What is only in a file is
 * read from it whole, checked, and kept for a while: readers come in small steps. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/record.h"
#include "engine/store_state.h"

#define READ_VALUES 64u /* values of an event that fit without an allocation */

/* Records of one block, for one reader. */
struct piece {
    struct store_block block; /* as it was */
    uint64_t number;
    struct engine_event_id oldest; /* the oldest event retained at that time */
    struct tn_bytes records;
    uint32_t offset; /* offset of the first of them in the block */
    bool from_ring;
    struct store_page *page; /* the page that has them; otherwise */
    uint8_t *own;            /* memory of their own */
};

enum got { GOT, GOT_NONE, GOT_DAMAGED, GOT_NO_MEMORY };

/* ---- Files ---- */

enum tn_status store_block_read(const struct engine_store *store, int file,
                                const struct store_block *block, uint8_t **ret_records) {
    const struct os *os = store->options.os;
    size_t size = STORE_BLOCK_HEADER + block->len;
    struct store_block read;
    size_t got = 0;
    uint8_t *bytes = malloc(size);
    if (bytes == NULL) {
        return TN_NOMEM;
    }
    enum tn_status status = os->read_at(os->ctx, file, bytes, size, block->offset, &got);
    if (status == TN_OK &&
        (got < size || !store_block_decode(bytes, block->file, block->offset, &read) ||
         read.len != block->len || !store_records_sound(bytes, bytes + STORE_BLOCK_HEADER))) {
        status = TN_CORRUPT;
    }
    if (status != TN_OK) {
        free(bytes);
        return status;
    }
    memmove(bytes, bytes + STORE_BLOCK_HEADER, block->len);
    *ret_records = bytes;
    return TN_OK;
}

/* With `lock` held. */
static struct store_page *page_find(struct engine_store *store, uint64_t number) {
    for (size_t i = 0; i < STORE_PAGES; i++) {
        if (store->pages[i].bytes != NULL && store->pages[i].number == number) {
            return &store->pages[i];
        }
    }
    return NULL;
}

/* Keeps what was read in place of the page used least recently. NULL if all are in use. With `lock`
 * held. */
static struct store_page *page_keep(struct engine_store *store, const struct store_page *fresh) {
    struct store_page *page = NULL;
    for (size_t i = 0; i < STORE_PAGES; i++) {
        struct store_page *other = &store->pages[i];
        if (other->users == 0 && (page == NULL || other->used_at < page->used_at)) {
            page = other;
        }
    }
    if (page != NULL) {
        free(page->bytes);
        *page = *fresh;
    }
    return page;
}

static void page_use(struct engine_store *store, struct store_page *page, struct piece *piece) {
    page->users++;
    page->used_at = ++store->page_clock;
    piece->page = page;
    piece->records = tn_bytes_of(page->bytes, piece->block.len);
}

void store_pages_free(struct engine_store *store) {
    for (size_t i = 0; i < STORE_PAGES; i++) {
        TN_ASSERT(store->pages[i].users == 0);
        free(store->pages[i].bytes);
    }
}

/* A block that cannot be read, or not as it was written, counts as gone. With `lock` held. */
static void block_damaged(struct engine_store *store, const struct piece *piece,
                          enum tn_status status) {
    if (piece->number < store->first || store_block_at(store, piece->number)->gone) {
        return; /* it was dropped meanwhile, or another reader has reported it */
    }
    store_block_lose(store, store_block_at(store, piece->number));
    store_block_pop(store, 0);
    pthread_mutex_unlock(&store->lock);
    char line[STORE_NOTICE_MAX];
    (void)snprintf(line, sizeof line,
                   "event=events_damaged file=" STORE_NAME_FORMAT " offset=%" PRIu64
                   " reason=\"%s\"",
                   piece->block.file, piece->block.offset, tn_status_text(status));
    store->options.notice(store->options.notice_ctx, line);
    pthread_mutex_lock(&store->lock);
}

/* Reads the records from the file. With `lock` held, which is released while reading. */
static enum got piece_from_file(struct engine_store *store, struct piece *piece) {
    struct store_page *page = page_find(store, piece->number);
    struct store_file *file = NULL;
    uint8_t *records = NULL;
    if (page != NULL) {
        page_use(store, page, piece);
        return GOT;
    }
    for (size_t i = 0; i < store->file_count && file == NULL; i++) {
        file = store->files[i]->number == piece->block.file ? store->files[i] : NULL;
    }
    TN_ASSERT(file != NULL);
    file->readers++;
    pthread_mutex_unlock(&store->lock);
    enum tn_status status = store_block_read(store, file->file, &piece->block, &records);
    pthread_mutex_lock(&store->lock);
    file->readers--;
    store_file_release(store, file);
    if (status == TN_NOMEM) {
        return GOT_NO_MEMORY;
    }
    if (status != TN_OK) {
        block_damaged(store, piece, status);
        return GOT_DAMAGED;
    }
    page = page_keep(store, &(struct store_page){.number = piece->number, .bytes = records});
    if (page != NULL) {
        page_use(store, page, piece);
    } else {
        piece->own = records;
        piece->records = tn_bytes_of(records, piece->block.len);
    }
    return GOT;
}

/* ---- Getting at a block ---- */

/* Finds the first block with an event after `after`. False if there is none. With `lock` held. */
static bool block_find(struct engine_store *store, struct engine_event_id after,
                       uint64_t *ret_number) {
    uint64_t low = store->first;
    uint64_t high = store_block_end(store);
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (engine_event_id_compare(store_block_at(store, middle)->last, after) > 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    while (low < store_block_end(store) && store_block_at(store, low)->gone) {
        low++;
    }
    *ret_number = low;
    return low < store_block_end(store);
}

/* With `lock` held. */
static enum got piece_from_ring(struct engine_store *store, struct engine_event_id after,
                                struct piece *piece) {
    bool known =
        store->hint.number == piece->number && engine_event_id_compare(store->hint.id, after) == 0;
    piece->offset = known ? store->hint.offset : 0;
    uint32_t len = piece->block.len - piece->offset;
    piece->from_ring = true;
    piece->own = malloc(len);
    if (piece->own == NULL) {
        return GOT_NO_MEMORY;
    }
    memcpy(piece->own, store->ring + piece->block.at + STORE_BLOCK_HEADER + piece->offset, len);
    piece->records = tn_bytes_of(piece->own, len);
    return GOT;
}

/* The records of the block with the first event after `after`. Damaged blocks are passed over. */
static enum got piece_get(struct engine_store *store, struct engine_event_id after,
                          struct piece *ret_piece) {
    enum got got = GOT_DAMAGED;
    pthread_mutex_lock(&store->lock);
    while (got == GOT_DAMAGED) {
        struct piece piece = {0};
        got = GOT_NONE;
        if (block_find(store, after, &piece.number)) {
            piece.block = *store_block_at(store, piece.number);
            piece.oldest = store_oldest(store);
            got = piece.number >= store->ring_first ? piece_from_ring(store, after, &piece)
                                                    : piece_from_file(store, &piece);
        }
        *ret_piece = piece;
    }
    pthread_mutex_unlock(&store->lock);
    return got;
}

static void piece_put(struct engine_store *store, struct piece *piece) {
    if (piece->page != NULL) {
        pthread_mutex_lock(&store->lock);
        piece->page->users--;
        pthread_mutex_unlock(&store->lock);
    }
    free(piece->own);
}

/* ---- Visiting ---- */

/* One call of engine_store_read. */
struct tour {
    struct engine_store *store;
    engine_event_visit *visit;
    void *ctx;
    uint32_t left;               /* how many more events it may visit */
    struct engine_event_id next; /* the last event visited; initially `after` */
    bool stopped;                /* the visitor has stopped */
    bool visited;
    bool unread; /* an event was passed over that only a newer version can read */
};

/* Passes one record to the visitor. */
static enum tn_result tour_show(struct tour *tour, struct tn_bytes record) {
    struct engine_event_value few[READ_VALUES];
    struct engine_event_value *values = few;
    uint32_t count = engine_record_values(record.at);
    struct engine_event event;
    if (count > READ_VALUES && count <= KERNEL_BUNDLE_MAX) {
        values = malloc(count * sizeof *values);
        if (values == NULL) {
            return TN_R_OVERLOADED;
        }
    }
    if (count <= KERNEL_BUNDLE_MAX && engine_record_read(record, values, &event)) {
        tour->stopped = !tour->visit(tour->ctx, &event);
    } else { /* the checksum of its block is right, so a newer version wrote it */
        tour->unread = true;
    }
    if (values != few) {
        free(values);
    }
    return TN_R_OK;
}

static enum tn_result tour_piece(struct tour *tour, const struct piece *piece) {
    struct tn_bytes rest = piece->records;
    enum tn_result code = TN_R_OK;
    while (rest.len > 0 && tour->left > 0) {
        struct tn_bytes record = engine_record_first(rest);
        TN_ASSERT(record.len > 0);
        if (engine_event_id_compare(engine_record_id(record.at), tour->next) > 0) {
            code = tour_show(tour, record);
            if (code != TN_R_OK || tour->stopped) {
                break;
            }
            tour->next = engine_record_id(record.at);
            tour->visited = true;
            tour->left--;
        }
        rest = tn_bytes_of(rest.at + record.len, rest.len - record.len);
    }
    if (piece->from_ring) {
        pthread_mutex_lock(&tour->store->lock);
        tour->store->hint.id = tour->next;
        tour->store->hint.number = piece->number;
        tour->store->hint.offset = piece->offset + (piece->records.len - rest.len);
        pthread_mutex_unlock(&tour->store->lock);
    }
    return code;
}

enum tn_result engine_store_read(struct engine_store *store, struct engine_event_id after,
                                 uint32_t max, engine_event_visit *visit, void *ctx,
                                 struct engine_events_span *ret_span) {
    struct tour tour = {.store = store, .visit = visit, .ctx = ctx, .left = max, .next = after};
    struct engine_events_span span = {0};
    enum tn_result code = TN_R_OK;
    bool only_tell = after.lsn == UINT64_MAX;
    while (code == TN_R_OK && tour.left > 0 && !tour.stopped && !only_tell) {
        struct piece piece;
        enum got got = piece_get(store, tour.next, &piece);
        if (got != GOT) {
            code = got == GOT_NO_MEMORY ? TN_R_OVERLOADED : TN_R_OK;
            break;
        }
        bool hole = engine_event_id_compare(piece.block.prev, tour.next) > 0;
        if (hole && tour.visited) {
            piece_put(store, &piece);
            break;
        }
        span.lost = span.lost || (hole && after.lsn != 0);
        if (!tour.visited) {
            span.oldest = piece.oldest; /* it may be dropped by the time the visitor has seen it */
        }
        *ret_span = span; /* the visitor may read it */
        code = tour_piece(&tour, &piece);
        piece_put(store, &piece);
    }
    pthread_mutex_lock(&store->lock);
    span.newest = store_newest(store);
    if (span.oldest.lsn == 0) {
        span.oldest = store_oldest(store);
    }
    pthread_mutex_unlock(&store->lock);
    span.lost = span.lost || tour.unread;
    span.next = only_tell ? span.newest : tour.next;
    span.more = engine_event_id_compare(span.newest, span.next) > 0;
    *ret_span = span;
    return code;
}
