/* Readers of events: they continue from their positions, whatever happens in between, and are told
 * what they miss. If no call has failed, they miss nothing but events older than the bound. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "sim/world.h"

struct visit {
    struct world *w;
    struct world_reader *reader;
};

static bool visit(void *ctx, const struct engine_event *event) {
    const struct visit *v = ctx;
    struct world *w = v->w;
    struct world_reader *reader = v->reader;
    struct engine_event_id id = {.lsn = event->fact.lsn, .index = event->fact.index};
    size_t at = world_fact_find(w, id);
    if (at == w->ledger.fact_count || at < reader->position ||
        w->ledger.facts[at].digest != world_event_digest(event)) {
        world_fail(w, "the event %" PRIu64 ".%" PRIu32 " that was read back did not happen so",
                   id.lsn, id.index);
    }
    if (at > reader->position) {
        reader->skipped = true;
        reader->resumed = at;
    }
    reader->position = at + 1;
    return true;
}

/* One piece; returns whether there is more. */
static bool read_piece(struct world *w, struct world_reader *reader) {
    struct visit v = {.w = w, .reader = reader};
    struct engine_events_span span = {0};
    bool from_oldest = reader->after.lsn == 0 && reader->after.index == 0;
    reader->skipped = false;
    enum tn_result code =
        engine_events_read(w->engine, reader->after, 1 + world_below(w, 60), visit, &v, &span);
    if (code != TN_R_OK && !(code == TN_R_OVERLOADED && world_call_failed(w))) {
        world_fail(w, "events cannot be read: %s", tn_result_name(code));
    }
    if (reader->skipped && !span.lost && !from_oldest) {
        world_fail(w, "a reader was not told of events that are missing before %" PRIu64,
                   span.next.lsn);
    }
    bool kept = reader->skipped && w->ledger.fact_count - reader->resumed < w->events_max;
    if (kept && !w->failed_call) {
        world_fail(w, "events before %" PRIu64 " are missing, and no call had failed",
                   span.next.lsn);
    }
    if (code == TN_R_OK && span.more && engine_event_id_compare(span.next, reader->after) <= 0) {
        world_fail(w, "a reader does not get on at %" PRIu64, span.next.lsn);
    }
    reader->after = span.next;
    return span.more || code != TN_R_OK;
}

void world_reader_read(struct world *w, unsigned reader) {
    (void)read_piece(w, &w->readers[reader]);
}

void world_reader_read_all(struct world *w) {
    struct world_reader reader = {.after = ENGINE_EVENTS_OLDEST};
    while (read_piece(w, &reader)) {
    }
    if (!w->failed_call && reader.position != w->ledger.fact_count) {
        world_fail(w, "of %zu events those after %zu cannot be read back, and no call had failed",
                   w->ledger.fact_count, reader.position);
    }
    struct engine_stats stats;
    engine_stats_read(w->engine, &stats);
    size_t least = w->ledger.fact_count < w->events_max ? w->ledger.fact_count : w->events_max;
    if (!w->failed_call && stats.events_kept < least) {
        world_fail(w, "%" PRIu64 " events are kept, and no call had failed", stats.events_kept);
    }
}
