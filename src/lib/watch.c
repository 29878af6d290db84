/* Events in the form of tenure.h, for callbacks and for reads of retained events. */
#include <stdlib.h>

#include "engine/events.h"
#include "lib/library.h"

static void event_value(const struct engine_event_value *value, struct tenure_value *out) {
    out->named = value->name.len > 0;
    out->claim = 0;
    out->number = value->number;
    lib_copy(out->pool, sizeof out->pool, (const char *)value->pool.at, value->pool.len);
    if (out->named) {
        lib_copy(out->text, sizeof out->text, (const char *)value->name.at, value->name.len);
    } else {
        (void)kernel_value_format(value->format, value->number, out->text);
    }
}

void lib_event_of(const struct engine_event *event, struct tenure_value *values,
                  struct tenure_event *out) {
    const struct kernel_event *fact = &event->fact;
    for (uint32_t i = 0; i < fact->value_count; i++) {
        event_value(&event->values[i], &values[i]);
    }
    *out = (struct tenure_event){
        .lsn = fact->lsn,
        .index = fact->index,
        .replayed = event->replayed,
        .kind = kernel_event_name(fact->kind),
        .reason = kernel_reason_name(fact->reason),
        .now_ms = fact->now_ms,
        .lease = {.shard = fact->lease.shard, .lsn = fact->lease.lsn},
        .epoch = fact->epoch,
        .deadline_ms = fact->deadline_ms,
        .holder = (const char *)fact->holder.at,
        .previous_holder = (const char *)fact->previous.at,
        .user = (const char *)fact->user.at,
        .name = (const char *)fact->name.at,
        .value_count = fact->value_count,
        .values = values,
        .number = fact->number,
        .trigger = (const char *)fact->trigger.at,
        .payload = (const char *)fact->payload.at,
        .payload_len = fact->payload.len,
        .actor = (const char *)fact->actor.at,
        .reason_text = (const char *)fact->note.at,
    };
}

#define EVENT_VALUES 16u

struct visit {
    tenure_event_visit_fn *visit;
    void *ctx;
    bool out_of_memory;
};

static bool visit_one(void *ctx, const struct engine_event *event) {
    struct visit *visit = ctx;
    struct tenure_value few[EVENT_VALUES];
    struct tenure_value *values = few;
    struct tenure_event out;
    if (event->fact.value_count > EVENT_VALUES) {
        values = malloc(event->fact.value_count * sizeof *values);
        if (values == NULL) {
            visit->out_of_memory = true;
            return false;
        }
    }
    lib_event_of(event, values, &out);
    bool more = visit->visit(visit->ctx, &out);
    if (values != few) {
        free(values);
    }
    return more;
}

static struct tenure_event_id event_id(struct engine_event_id id) {
    return (struct tenure_event_id){.lsn = id.lsn, .index = id.index};
}

enum tenure_result tenure_events_read(struct tenure *tenure, struct tenure_event_id after,
                                      uint32_t max, tenure_event_visit_fn *visit, void *ctx,
                                      struct tenure_events_span *ret_span) {
    struct visit inner = {.visit = visit, .ctx = ctx};
    struct engine_events_span span;
    struct engine_event_id from = {.lsn = after.lsn, .index = after.index};
    enum tn_result code = engine_events_read(tenure->engine, from, max, visit_one, &inner, &span);
    if (code == TN_R_NOTFOUND) {
        return TENURE_NOTFOUND;
    }
    *ret_span = (struct tenure_events_span){.oldest = event_id(span.oldest),
                                            .newest = event_id(span.newest),
                                            .next = event_id(span.next),
                                            .lost = span.lost,
                                            .more = span.more};
    return inner.out_of_memory ? TENURE_OVERLOADED : (enum tenure_result)code;
}
