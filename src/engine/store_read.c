/* Reading back: find the block, get its records, visit them with no lock held.
 *
 * What is in the ring is copied out under the lock, from the place on where the last reader stopped
 * if it is the same one; so following the newest events costs what is new. What is only in a file is
 * read from it whole, checked, and kept for a while: readers come in small steps. */
#include <stdlib.h>
#include <string.h>

#include "engine/store_state.h"

#define READ_VALUES 64u /* values of an event that need no memory from elsewhere */

/* Records of one block for one reader. */
struct piece {
    struct store_block block; /* as it was */
    uint64_t number;
    struct tn_bytes records;
    uint32_t offset; /* of the first of them in the block */
    uint8_t *own;    /* freed with the piece, if it is not a page's */
};

/* ---- Getting at a block ---- */

/* The first block that has something later; false if there is none. With `lock` held. */
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
static enum tn_result piece_from_ring(struct engine_store *store, struct engine_event_id after,
                                      struct piece *piece) {
    bool known =
        store->hint.number == piece->number && engine_event_id_compare(store->hint.id, after) == 0;
    piece->offset = known ? store->hint.offset : 0;
    uint32_t len = piece->block.len - piece->offset;
    piece->own = malloc(len);
    if (piece->own == NULL) {
        return TN_R_OVERLOADED;
    }
    memcpy(piece->own, store->ring + piece->block.at + STORE_BLOCK_HEADER + piece->offset, len);
    piece->records = tn_bytes_of(piece->own, len);
    return TN_R_OK;
}

/* The records after `after`, from one block. NOTFOUND: there are none. */
static enum tn_result piece_get(struct engine_store *store, struct engine_event_id after,
                                struct piece *ret_piece) {
    struct piece piece = {0};
    enum tn_result code = TN_R_NOTFOUND;
    pthread_mutex_lock(&store->lock);
    if (block_find(store, after, &piece.number)) {
        piece.block = *store_block_at(store, piece.number);
        code = piece_from_ring(store, after, &piece);
    }
    pthread_mutex_unlock(&store->lock);
    *ret_piece = piece;
    return code;
}

static void piece_put(struct engine_store *store, struct piece *piece) {
    (void)store;
    free(piece->own);
}

void store_pages_free(struct engine_store *store) {
    for (size_t i = 0; i < STORE_PAGES; i++) {
        TN_ASSERT(store->pages[i].users == 0);
        free(store->pages[i].bytes);
    }
}

/* ---- Visiting ---- */

/* One call of engine_store_read. */
struct tour {
    struct engine_store *store;
    engine_event_visit *visit;
    void *ctx;
    uint32_t left;               /* how many it may still visit */
    struct engine_event_id next; /* the last one visited, at first `after` */
    bool stopped;                /* the visitor has had enough */
    bool visited;
};

/* Shows one record to the visitor. */
static enum tn_result tour_show(struct tour *tour, struct tn_bytes record) {
    struct engine_event_value few[READ_VALUES];
    struct engine_event_value *values = few;
    uint32_t count = engine_record_values(record.at);
    struct engine_event event;
    if (count > READ_VALUES) {
        TN_ASSERT(count <= KERNEL_BUNDLE_MAX);
        values = malloc(count * sizeof *values);
        if (values == NULL) {
            return TN_R_OVERLOADED;
        }
    }
    bool whole = engine_record_read(record, values, &event);
    TN_ASSERT(whole); /* it was written by us, and its block's sum is right */
    tour->stopped = !tour->visit(tour->ctx, &event);
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
    pthread_mutex_lock(&tour->store->lock);
    tour->store->hint.id = tour->next;
    tour->store->hint.number = piece->number;
    tour->store->hint.offset = piece->offset + (piece->records.len - rest.len);
    pthread_mutex_unlock(&tour->store->lock);
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
        code = piece_get(store, tour.next, &piece);
        if (code != TN_R_OK) {
            break;
        }
        bool hole = engine_event_id_compare(piece.block.prev, tour.next) > 0;
        if (hole && tour.visited) {
            piece_put(store, &piece);
            break;
        }
        span.lost = span.lost || (hole && after.lsn != 0);
        code = tour_piece(&tour, &piece);
        piece_put(store, &piece);
    }
    pthread_mutex_lock(&store->lock);
    store_span(store, &span.oldest, &span.newest);
    pthread_mutex_unlock(&store->lock);
    span.next = only_tell ? span.newest : tour.next;
    span.more = engine_event_id_compare(span.newest, span.next) > 0;
    *ret_span = span;
    return code == TN_R_NOTFOUND ? TN_R_OK : code;
}
