/* EVENTS: a page of what is kept. How many there are is known only when they have been looked at, so
 * they are rendered on the side first. */
#include <stdio.h>
#include <stdlib.h>

#include "server/internal.h"

#define PAGE_BYTES (SERVER_REPLY_MAX - 4096u)

struct page {
    struct server_event_filter filter;
    const struct access_user *user;
    struct protocol_writer w; /* the events, one after the other */
    uint32_t count, most;
    uint32_t ends[PROTOCOL_PAGE_MAX]; /* where each ends */
};

_Static_assert(SERVER_EVENT_BYTES <= PAGE_BYTES, "the largest event makes a page");

static bool page_visit(void *ctx, const struct engine_event *event) {
    struct page *page = ctx;
    if (!server_event_passes(event, &page->filter) || !access_sees_event(page->user, event)) {
        return true;
    }
    if (page->count == page->most || page->w.out.len > PAGE_BYTES - SERVER_EVENT_BYTES) {
        return false;
    }
    server_event_write(&page->w, event);
    page->ends[page->count++] = (uint32_t)page->w.out.len;
    return true;
}

static void pair_id(struct protocol_writer *w, const char *name, struct engine_event_id id) {
    protocol_write_text(w, name);
    if (id.lsn > 0) {
        server_event_id_write(w, id);
    } else {
        protocol_write_null(w);
    }
}

static void page_write(struct protocol_writer *w, const struct page *page,
                       const struct engine_events_span *span, uint64_t lsn) {
    uint32_t begin = 0;
    protocol_write_map(w, 7);
    protocol_write_text(w, "events");
    protocol_write_array(w, page->count);
    for (uint32_t i = 0; i < page->count; i++) {
        protocol_write_rendered(w, page->w.out.at + begin, page->ends[i] - begin);
        begin = page->ends[i];
    }
    protocol_write_text(w, "next");
    server_event_id_write(w, span->next);
    pair_id(w, "oldest", span->oldest);
    pair_id(w, "newest", span->newest);
    protocol_pair_flag(w, "more", span->more);
    protocol_pair_flag(w, "lost", span->lost);
    protocol_pair_number(w, "lsn", lsn);
}

enum tn_result server_read_events(struct server *server, struct protocol_writer *w) {
    struct protocol_call *call = &server->call;
    struct engine_event_id after = {.lsn = call->after.lsn, .index = call->after.index};
    struct engine_events_span span;
    struct engine_stats stats;
    uint8_t *bytes = malloc(PAGE_BYTES);
    struct page page = {.filter = {.pool = call->command.pool, .holder = call->command.holder},
                        .user = server->read_user,
                        .w = {.out = tn_writer_of(bytes, PAGE_BYTES), .encoding = w->encoding},
                        .most = call->count};
    if (bytes == NULL) {
        return TN_R_OVERLOADED;
    }
    engine_stats_read(server->engine, &stats); /* before: all up to there can be seen */
    enum tn_result code =
        engine_events_read(server->engine, after, SERVER_EVENTS_LOOK, page_visit, &page, &span);
    if (code == TN_R_OK) {
        page_write(w, &page, &span, stats.lsn);
        server->read_lsn = stats.lsn;
    } else if (code == TN_R_NOTFOUND) {
        (void)snprintf(call->detail, sizeof call->detail, "no events are kept");
    }
    free(bytes);
    return code;
}
