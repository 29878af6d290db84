/* EVENTS: a page of retained events. How many events a page has is known only after they have
 * been examined, so they are rendered into a buffer first. A page may take milliseconds: it is
 * interrupted when the slice ends, and continued in the next one. Only one page is made at a
 * time. */
#include <stdio.h>
#include <stdlib.h>

#include "protocol/render.h"
#include "server/access.h"
#include "server/client.h"
#include "server/event_fields.h"
#include "server/memory.h"
#include "server/output.h"
#include "server/owners.h"
#include "server/reads.h"
#include "server/schedule.h"
#include "server/stream.h"
#include "server/users.h"

#define PAGE_BYTES (SERVER_REPLY_MAX - 4096u)

struct server_page {
    struct server_owners *owners;
    struct server_event_filter filter; /* the following three are for the current step */
    const struct server_client *client;
    struct server_search text;
    struct protocol_writer w; /* the rendered events, one after the other */
    uint32_t count, most, looked;
    struct engine_events_span span;   /* of all steps */
    uint64_t lsn;                     /* all events up to this position are visible */
    uint32_t ends[PROTOCOL_PAGE_MAX]; /* where each ends */
    uint8_t bytes[PAGE_BYTES];
};

_Static_assert(SERVER_EVENT_BYTES <= PAGE_BYTES, "the largest event makes a page");

/* One step of a page. */
struct step {
    struct server_page *page;
    struct engine_events_span span;
    uint32_t looked;
    bool left;    /* the slice ended before the page was complete */
    bool no_room; /* no room for more in the page */
    bool gap;     /* events are missing between the last step and this one */
};

/* A user that was deleted before an event does not get it: also one that is committed while the page is
 * made. */
static bool is_seen(const struct server_page *page, const struct engine_event *event) {
    server_users_look(page->owners);
    return access_sees_event(access_user_of(page->owners->access, &page->client->login), event);
}

static bool page_visit(void *ctx, const struct engine_event *event) {
    struct step *step = ctx;
    struct server_page *page = step->page;
    step->gap = page->looked > 0 && step->looked == 0 && step->span.lost;
    if (step->looked > 0 && step->looked % SERVER_ROOM_STEP == 0) {
        step->no_room = !server_memory_reply(page->owners->memory, page->w.out.len);
        step->left = !step->no_room && schedule_slice_is_over(page->owners->schedule);
    }
    if (step->gap || step->no_room || step->left) {
        return false;
    }
    if (server_event_passes(event, &page->filter) && is_seen(page, event)) {
        if (page->count == page->most || page->w.out.len > PAGE_BYTES - SERVER_EVENT_BYTES) {
            return false;
        }
        server_event_write(&page->w, event);
        page->ends[page->count++] = (uint32_t)page->w.out.len;
    }
    step->looked++;
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

static void page_write(struct protocol_writer *w, const struct server_page *page) {
    const struct engine_events_span *span = &page->span;
    uint32_t begin = 0;
    protocol_write_map(w, 7);
    protocol_write_text(w, "events");
    protocol_write_array(w, page->count);
    for (uint32_t i = 0; i < page->count; i++) {
        protocol_write_rendered(w, page->bytes + begin, page->ends[i] - begin);
        begin = page->ends[i];
    }
    protocol_write_text(w, "next");
    server_event_id_write(w, span->next);
    pair_id(w, "oldest", span->oldest);
    pair_id(w, "newest", span->newest);
    protocol_pair_flag(w, "more", span->more);
    protocol_pair_flag(w, "lost", span->lost);
    protocol_pair_number(w, "lsn", page->lsn);
}

/* The page being made for this client, or a new one. */
static struct server_page *page_of(struct server_request *request) {
    struct server_pages *pages = request->owners->pages;
    struct server_client *client = request->client;
    const struct protocol_call *call = &request->call;
    if (pages->making_for == client) {
        return pages->making;
    }
    if (pages->making == NULL) {
        pages->making = malloc(sizeof *pages->making);
    }
    struct server_page *page = pages->making;
    if (page != NULL) {
        pages->making_for = client;
        page->owners = request->owners;
        page->count = page->looked = 0;
        page->most = call->count;
        page->span = (struct engine_events_span){
            .next = {.lsn = call->after.lsn, .index = call->after.index}};
        page->w = (struct protocol_writer){.out = tn_writer_of(page->bytes, PAGE_BYTES),
                                           .encoding = client->encoding};
    }
    return page;
}

void server_page_end(struct server_pages *pages, const struct server_client *client) {
    if (pages->making_for == client) {
        free(pages->making);
        pages->making = NULL;
        pages->making_for = NULL;
    }
}

/* Adds the events of a step to the page. A gap is left for the next page. */
static void page_add(struct server_page *page, const struct step *step, uint64_t lsn) {
    struct engine_events_span before = page->span;
    page->span = step->span;
    page->span.lost = before.lost || (step->span.lost && !step->gap);
    if (page->looked > 0) {
        /* As of the first step, so it is not after the first event. */
        page->span.oldest = before.oldest;
    }
    page->looked += step->looked;
    page->lsn = lsn;
    if (step->gap) {
        page->span.next = before.next;
        page->span.more = true;
    }
}

enum tn_result read_events(struct server_request *request) {
    struct server_owners *owners = request->owners;
    struct protocol_call *call = &request->call;
    struct engine_stats stats;
    struct server_page *page = page_of(request);
    if (page == NULL) {
        return TN_R_OVERLOADED;
    }
    struct step step = {.page = page};
    page->filter = (struct server_event_filter){.pool = call->command.pool,
                                                .holder = call->command.holder,
                                                .kind = call->select.kind,
                                                .lease = call->command.lease,
                                                .value = call->value,
                                                .actor = call->select.actor,
                                                .text = &page->text};
    server_search_set(&page->text, call->select.text);
    page->client = request->client;
    /* Before the step: all events up to here are visible. */
    engine_stats_read(owners->engine, &stats);
    /* An empty page would hide all events until the log reaches that id. The largest id requests none. */
    if (page->span.next.lsn != UINT64_MAX && server_event_is_foreign(owners, page->span.next)) {
        page->span = (struct engine_events_span){.next = ENGINE_EVENTS_OLDEST, .lost = true};
    }
    enum tn_result code =
        engine_events_read(owners->engine, page->span.next, SERVER_EVENTS_LOOK - page->looked,
                           page_visit, &step, &step.span);
    if (code == TN_R_NOTFOUND) {
        (void)snprintf(call->detail, sizeof call->detail, "no events are retained");
    }
    if (step.no_room) {
        (void)snprintf(call->detail, sizeof call->detail, "%s", server_no_room);
        return TN_R_OVERLOADED;
    }
    if (code == TN_R_OK) {
        page_add(page, &step, stats.lsn);
        request->more = step.left;
    }
    if (code == TN_R_OK && !step.left) {
        page_write(request->w, page);
        request->lsn = page->lsn;
    }
    return code;
}
