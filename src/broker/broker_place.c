/* What broker_place.h promises. */
#include "broker/broker_place.h"

static bool place_visit(void *ctx, const struct engine_event *event) {
    struct broker_place *place = ctx;
    place->id = (struct engine_event_id){.lsn = event->fact.lsn, .index = event->fact.index};
    place->time_ms = event->fact.now_ms;
    return true;
}

/* An id before this one and after all earlier events. The first command of a log makes no event. */
static struct engine_event_id id_before(struct engine_event_id id) {
    return id.index > 0 ? (struct engine_event_id){.lsn = id.lsn, .index = id.index - 1}
                        : (struct engine_event_id){.lsn = id.lsn - 1, .index = UINT32_MAX};
}

/* The place of the first event after `after`. time_ms 0: there is none. */
static enum tn_status place_read(struct engine *engine, struct engine_event_id after,
                                 struct broker_place *ret_place,
                                 struct engine_events_span *ret_span) {
    *ret_place = (struct broker_place){0};
    switch (engine_events_read(engine, after, 1, place_visit, ret_place, ret_span)) {
    case TN_R_OK:
        return TN_OK;
    case TN_R_NOTFOUND:
        return TN_NOTFOUND;
    default:
        return TN_NOMEM;
    }
}

/* The place behind everything committed, whether or not there was an event. */
static struct broker_place place_end(struct engine *engine) {
    struct engine_stats stats;
    engine_stats_read(engine, &stats);
    return (struct broker_place){.id = {.lsn = stats.lsn, .index = UINT32_MAX}};
}

enum tn_status broker_place_newest(struct engine *engine, struct broker_place *ret_place) {
    struct engine_events_span span;
    struct broker_place found;
    *ret_place = place_end(engine);
    enum tn_status status = place_read(engine, ENGINE_EVENTS_NEWEST, &found, &span);
    if (status == TN_OK && span.newest.lsn > 0) {
        status = place_read(engine, id_before(span.newest), &found, &span);
    }
    if (status == TN_OK && found.time_ms > 0) {
        *ret_place = found;
    }
    return status;
}

enum tn_status broker_place_oldest(struct engine *engine, struct broker_place *ret_place) {
    struct engine_events_span span;
    struct broker_place none;
    *ret_place = place_end(engine);
    enum tn_status status = place_read(engine, ENGINE_EVENTS_NEWEST, &none, &span);
    if (status == TN_OK && span.oldest.lsn > 0) {
        ret_place->id = id_before(span.oldest);
    }
    return status;
}

enum tn_status broker_place_known(struct engine *engine, struct broker_place place,
                                  bool *ret_known) {
    struct engine_events_span span;
    struct broker_place found;
    *ret_known = place.id.lsn <= place_end(engine).id.lsn;
    if (!*ret_known || place.time_ms == 0) {
        return TN_OK;
    }
    enum tn_status status = place_read(engine, id_before(place.id), &found, &span);
    if (status == TN_OK && span.newest.lsn > 0 && !span.lost) {
        *ret_known =
            engine_event_id_compare(found.id, place.id) == 0 && found.time_ms == place.time_ms;
    }
    return status;
}
