/* Reads of pools: POOL INFO, POOL METRICS and POOL LIST.
 *
 * A sorted list looks at all pools, RANK_LOOKED of them in one turn of the loop, and keeps the first COUNT of
 * them in a heap whose root is the last in the order. So the work in a turn is bounded, and so is memory: COUNT
 * names. The order is that of the moment at which each pool was looked at; the figures in the reply are read at
 * the end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/glob.h"
#include "protocol/render.h"
#include "server/buffers.h"
#include "server/event_fields.h"
#include "server/memory.h"
#include "server/owners.h"
#include "server/reads.h"

#define RANK_LOOKED 256u /* pools examined in a turn */
/* Steps of pattern matching in a turn, about: expensive patterns mean fewer pools. */
#define MATCH_STEPS 262144u

/* ---- One pool ---- */

enum tn_result read_pool(struct server_request *request) {
    struct server_owners *owners = request->owners;
    struct protocol_writer *w = request->w;
    struct kernel_pool_view view;
    uint64_t lsn;
    enum tn_result code =
        engine_pool_read(owners->engine, request->how, request->call.command.pool, &view, &lsn);
    request->lsn = lsn;
    if (code == TN_R_OK) {
        protocol_render_pool(w, &view, 1);
        read_lsn_write(request, w, lsn);
    }
    return code;
}

enum tn_result read_pool_metrics(struct server_request *request) {
    struct engine_metrics m;
    uint64_t lsn = 0;
    enum tn_result code = engine_pool_metrics(request->owners->engine, request->how,
                                              request->call.command.pool, &m, &lsn);
    request->lsn = lsn;
    if (code == TN_R_OK) {
        server_pool_metrics_write(request->w, &m, 1);
        read_lsn_write(request, request->w, lsn);
    }
    return code;
}

/* ---- Which pools ---- */

static bool is_wanted(const struct server_request *request, const struct kernel_pool_view *view) {
    const struct protocol_selection *select = &request->call.select;
    struct tn_bytes name = tn_bytes_of(view->name, view->name_len);
    return !(select->no_scopes && view->is_scope) &&
           (select->match.len == 0 || tn_glob_match(select->match, name)) &&
           access_pool(request->user, name);
}

/* The number of pools to examine in one turn. */
static uint32_t turn_of(const struct server_request *request, uint32_t most) {
    struct tn_bytes match = request->call.select.match;
    if (match.len == 0) {
        return most;
    }
    uint32_t each = tn_glob_steps(match, KERNEL_POOL_MAX);
    uint32_t few = MATCH_STEPS / (each > 0 ? each : 1);
    few = few > 0 ? few : 1;
    return few < most ? few : most;
}

/* Examines the next pools. The *ret_count pools that match and that the user may see are at the
 * beginning of the page. */
static enum tn_result pools_look(struct server_request *request, uint32_t most, uint32_t *ret_count,
                                 uint64_t *ret_lsn) {
    struct kernel_pool_view *page = request->owners->buffers->page;
    uint32_t count = 0, wanted = 0;
    enum tn_result code =
        engine_pools_list(request->owners->engine, request->how, &request->call.cursor, page,
                          turn_of(request, most), &count, ret_lsn);
    for (uint32_t i = 0; code == TN_R_OK && i < count; i++) {
        if (is_wanted(request, &page[i])) {
            page[wanted++] = page[i];
        }
    }
    *ret_count = wanted;
    return code;
}

static enum tn_result page_write(struct server_request *request, uint32_t count, uint64_t lsn,
                                 const uint64_t *matched) {
    struct protocol_writer *w = request->w;
    const struct kernel_pool_view *page = request->owners->buffers->page;
    struct protocol_writer begin = *w;
    read_page_head(w, request->call.cursor, "pools", count, matched != NULL ? 2 : 1);
    for (uint32_t i = 0; i < count; i++) {
        if (!read_page_room(request, i)) {
            *w = begin;
            return TN_R_OVERLOADED;
        }
        protocol_render_pool(w, &page[i], 0);
    }
    if (matched != NULL) {
        protocol_pair_number(w, "matched", *matched);
    }
    read_lsn_write(request, w, lsn);
    return TN_R_OK;
}

/* ---- A sorted list ---- */

struct rank {
    double key; /* larger keys come first, then names in alphabetical order */
    uint32_t name_len;
    char name[KERNEL_POOL_MAX];
};

struct server_ranking {
    struct server_memory *memory;
    size_t held;
    uint64_t matched;
    uint32_t count, capacity;
    struct rank of[]; /* a heap in which each entry comes after its two children in the order */
};

static double key_of(const struct kernel_pool_view *view, enum protocol_sort sort) {
    switch (sort) {
    case PROTOCOL_SORT_OCCUPANCY:
        if (view->size == 0 || view->policy.of[KERNEL_OPTION_INTERNAL] != 0) {
            return -1; /* the pool has no values, so it cannot run out of them */
        }
        return (double)(view->size - view->free) / (double)view->size;
    case PROTOCOL_SORT_FREE:
        return -(double)view->free;
    case PROTOCOL_SORT_WAITING:
        return (double)view->waiting;
    default:
        return 0;
    }
}

static int name_compare(const struct rank *a, const struct rank *b) {
    uint32_t len = a->name_len < b->name_len ? a->name_len : b->name_len;
    int order = memcmp(a->name, b->name, len);
    return order != 0 ? order : (int)a->name_len - (int)b->name_len;
}

static int rank_compare(const void *left, const void *right) {
    const struct rank *a = left;
    const struct rank *b = right;
    return a->key != b->key ? (a->key > b->key ? -1 : 1) : name_compare(a, b);
}

/* Moves the entry at `i` down until it comes after its children. */
static void heap_down(struct server_ranking *ranking, uint32_t i) {
    for (uint32_t child = 2 * i + 1; child < ranking->count; child = 2 * i + 1) {
        child += child + 1 < ranking->count &&
                 rank_compare(&ranking->of[child], &ranking->of[child + 1]) < 0;
        if (rank_compare(&ranking->of[i], &ranking->of[child]) >= 0) {
            return;
        }
        struct rank moved = ranking->of[i];
        ranking->of[i] = ranking->of[child];
        ranking->of[child] = moved;
        i = child;
    }
}

static void ranking_add(struct server_ranking *ranking, const struct kernel_pool_view *view,
                        enum protocol_sort sort) {
    struct rank rank = {.key = key_of(view, sort), .name_len = view->name_len};
    memcpy(rank.name, view->name, view->name_len);
    ranking->matched++;
    if (ranking->count < ranking->capacity) {
        ranking->of[ranking->count++] = rank;
        if (ranking->count == ranking->capacity) { /* the array becomes a heap now */
            for (uint32_t i = ranking->count / 2; i > 0; i--) {
                heap_down(ranking, i - 1);
            }
        }
    } else if (rank_compare(&rank, &ranking->of[0]) < 0) {
        ranking->of[0] = rank;
        heap_down(ranking, 0);
    }
}

void read_ranking_end(struct server_client *client) {
    struct server_ranking *ranking = client->ranking;
    if (ranking != NULL) {
        client->ranking = NULL;
        server_memory_return(ranking->memory, &ranking->held, ranking->held);
        free(ranking);
    }
}

/* NULL: out of memory. */
static struct server_ranking *ranking_of(struct server_request *request) {
    struct server_client *client = request->client;
    struct server_memory *memory = request->owners->memory;
    uint32_t capacity = request->call.count;
    size_t bytes = sizeof(struct server_ranking) + capacity * sizeof(struct rank);
    size_t held = 0;
    if (client->ranking != NULL) {
        return client->ranking;
    }
    if (server_memory_share(memory, &held, bytes)) {
        client->ranking = malloc(bytes);
        if (client->ranking == NULL) {
            server_memory_return(memory, &held, held);
            return NULL;
        }
        *client->ranking =
            (struct server_ranking){.memory = memory, .held = held, .capacity = capacity};
    }
    return client->ranking;
}

/* All pools have been examined. Pools that were dropped or hidden from the user meanwhile are left
 * out. */
static enum tn_result ranking_write(struct server_request *request,
                                    struct server_ranking *ranking) {
    struct kernel_pool_view *page = request->owners->buffers->page;
    uint32_t count = 0;
    uint64_t lsn = 0;
    qsort(ranking->of, ranking->count, sizeof ranking->of[0], rank_compare);
    for (uint32_t i = 0; i < ranking->count; i++) {
        struct tn_bytes name = tn_bytes_of(ranking->of[i].name, ranking->of[i].name_len);
        uint64_t seen_lsn;
        if (!access_pool(request->user, name)) {
            continue;
        }
        enum tn_result code = engine_pool_read(request->owners->engine, ENGINE_READ_STALE, name,
                                               &page[count], &seen_lsn);
        if (code == TN_R_OK) {
            lsn = count == 0 ? seen_lsn : lsn;
            count++;
        } else if (code != TN_R_POOL_NOTFOUND) {
            return code;
        }
    }
    if (count == 0) {
        struct engine_stats stats;
        engine_stats_read(request->owners->engine, &stats);
        lsn = stats.lsn;
    }
    return page_write(request, count, lsn, &ranking->matched);
}

static enum tn_result read_sorted(struct server_request *request) {
    struct protocol_call *call = &request->call;
    const struct kernel_pool_view *page = request->owners->buffers->page;
    uint32_t count;
    uint64_t lsn;
    if (call->cursor != 0) {
        (void)snprintf(call->detail, sizeof call->detail,
                       "SORT returns one page and takes no CURSOR; COUNT is %u at most",
                       PROTOCOL_PAGE_MAX);
        return TN_R_MALFORMED;
    }
    struct server_ranking *ranking = ranking_of(request);
    if (ranking == NULL) {
        (void)snprintf(call->detail, sizeof call->detail, "%s", server_no_room);
        return TN_R_OVERLOADED;
    }
    read_scan_begin(request);
    enum tn_result code = pools_look(request, RANK_LOOKED, &count, &lsn);
    if (code != TN_R_OK) {
        return code;
    }
    for (uint32_t i = 0; i < count; i++) {
        ranking_add(ranking, &page[i], call->select.sort);
    }
    if (call->cursor != 0) { /* more pools are left for another turn */
        request->client->scan_cursor = call->cursor;
        request->more = true;
        return TN_R_OK;
    }
    return ranking_write(request, ranking);
}

enum tn_result read_pools(struct server_request *request) {
    uint32_t count;
    uint64_t lsn;
    if (request->call.select.sort != PROTOCOL_SORT_NONE) {
        return read_sorted(request);
    }
    read_scan_begin(request);
    enum tn_result code = pools_look(request, request->call.count, &count, &lsn);
    if (code != TN_R_OK || !read_scan_ends(request, count)) {
        return code;
    }
    return page_write(request, count, lsn, NULL);
}
