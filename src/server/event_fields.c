/* The fields of events in every encoding, and which users may see an event. No other file knows
 * them. */
#include <string.h>

#include "protocol/render.h"
#include "server/channel.h"
#include "server/event_fields.h"

/* ---- Fields ---- */

static void pair_bytes(struct protocol_writer *w, const char *name, struct tn_bytes bytes) {
    protocol_write_text(w, name);
    protocol_write_bulk(w, bytes.at, bytes.len);
}

void server_event_id_write(struct protocol_writer *w, struct engine_event_id id) {
    char text[PROTOCOL_EVENT_ID_TEXT];
    protocol_write_bulk(w, text, protocol_event_id_format(id.lsn, id.index, text));
}

/* Whether `name` is the name of a pool, not of a rule, a sensor or a trigger. */
static bool names_pool(const struct kernel_event *fact) {
    return fact->name.len > 0 && fact->kind <= KERNEL_EVENT_POOL_REMOVED;
}

_Static_assert(KERNEL_EVENT_POOL_REMOVED + 1 == KERNEL_EVENT_HOLDER_DISOWNED,
               "what comes before is about pools, what follows is not");

static bool has_number(const struct kernel_event *fact) {
    switch (fact->kind) {
    case KERNEL_EVENT_POOL_ADDED:
    case KERNEL_EVENT_POOL_REMOVED:
    case KERNEL_EVENT_HOLDER_DISOWNED:
    case KERNEL_EVENT_RULE_SET:
    case KERNEL_EVENT_SENSOR_SET:
    case KERNEL_EVENT_DEMAND_CHANGED:
        return true;
    default:
        return false;
    }
}

static void value_write(struct protocol_writer *w, const struct engine_event_value *value) {
    char text[KERNEL_VALUE_TEXT_MAX];
    if (value->name.len > 0) {
        protocol_write_bulk(w, value->name.at, value->name.len);
    } else {
        protocol_write_bulk(w, text, kernel_value_format(value->format, value->number, text));
    }
}

static void values_write(struct protocol_writer *w, const struct engine_event *event) {
    uint32_t count = event->fact.value_count;
    protocol_write_text(w, "values");
    protocol_write_array(w, count);
    for (uint32_t i = 0; i < count; i++) {
        value_write(w, &event->values[i]);
    }
    protocol_write_text(w, "pools");
    protocol_write_array(w, count);
    for (uint32_t i = 0; i < count; i++) {
        protocol_write_bulk(w, event->values[i].pool.at, event->values[i].pool.len);
    }
}

/* Whether the event is a transition of a lease: it then has a reason and a deadline. */
static bool moves_lease(const struct kernel_event *fact) {
    return fact->kind <= KERNEL_EVENT_LEASE_REVOKED;
}

static void lease_write(struct protocol_writer *w, const struct kernel_event *fact) {
    char text[PROTOCOL_LEASE_TEXT];
    (void)protocol_lease_format(fact->lease, text);
    protocol_pair_text(w, "lease", text);
    protocol_pair_number(w, "epoch", fact->epoch);
    if (moves_lease(fact)) {
        protocol_pair_text(w, "reason", kernel_reason_name(fact->reason));
        protocol_pair_time(w, "deadline", fact->deadline_ms);
    }
}

static uint32_t pairs_of(const struct kernel_event *fact) {
    uint32_t lease = moves_lease(fact) ? 4 : 2;
    return 3u + (fact->lease.lsn > 0 ? lease : 0) + (fact->holder.len > 0) +
           (fact->previous.len > 0) + (fact->user.len > 0) + (fact->name.len > 0) +
           (fact->trigger.len > 0) + (fact->payload.len > 0) + (fact->value_count > 0 ? 2u : 0u) +
           has_number(fact) + (fact->actor.len > 0) + (fact->note.len > 0);
}

void server_event_write(struct protocol_writer *w, const struct engine_event *event) {
    const struct kernel_event *fact = &event->fact;
    protocol_write_map(w, pairs_of(fact));
    protocol_write_text(w, "id");
    server_event_id_write(w, (struct engine_event_id){.lsn = fact->lsn, .index = fact->index});
    protocol_pair_number(w, "time", fact->now_ms);
    protocol_pair_text(w, "kind", kernel_event_name(fact->kind));
    if (fact->lease.lsn > 0) {
        lease_write(w, fact);
    }
    if (fact->holder.len > 0) {
        pair_bytes(w, "holder", fact->holder);
    }
    if (fact->previous.len > 0) {
        pair_bytes(w, "previous_holder", fact->previous);
    }
    if (fact->user.len > 0) {
        pair_bytes(w, "user", fact->user);
    }
    if (fact->name.len > 0) {
        pair_bytes(w, names_pool(fact) ? "pool" : "name", fact->name);
    }
    if (fact->trigger.len > 0) {
        pair_bytes(w, "trigger", fact->trigger);
    }
    if (fact->payload.len > 0) {
        protocol_write_text(w, "payload");
        protocol_write_json(w, fact->payload.at, fact->payload.len);
    }
    if (fact->value_count > 0) {
        values_write(w, event);
    }
    if (has_number(fact)) {
        protocol_pair_number(w, "number", fact->number);
    }
    if (fact->actor.len > 0) {
        pair_bytes(w, "actor", fact->actor);
    }
    if (fact->note.len > 0) {
        pair_bytes(w, "reason_text", fact->note);
    }
}

void server_event_write_lost(struct protocol_writer *w, struct engine_event_id oldest) {
    protocol_write_map(w, 2);
    protocol_pair_text(w, "kind", "lost");
    protocol_write_text(w, "oldest");
    server_event_id_write(w, oldest);
}

void server_pool_metrics_write(struct protocol_writer *w, const struct engine_metrics *metrics,
                               uint32_t more) {
    protocol_write_map(w, 12 + more);
    protocol_pair_text(w, "pool", metrics->pool);
    protocol_pair_number(w, "base_lease_seconds", metrics->base_lease_seconds);
    protocol_pair_number(w, "effective_lease_seconds", metrics->effective_lease_seconds);
    protocol_write_text(w, "new_device_rate_per_hour");
    protocol_write_micro(w, metrics->new_device_rate_per_hour_micro);
    protocol_pair_flag(w, "ultra_rate_active", metrics->ultra_rate_active);
    protocol_pair_flag(w, "force_zero_lease_active", metrics->force_zero_lease_active);
    protocol_pair_number(w, "last_reclaim_count", metrics->last_reclaim_count);
    protocol_pair_number(w, "last_reclaim_at", metrics->last_reclaim_at);
    protocol_pair_number(w, "total_reclaimed", metrics->total_reclaimed);
    protocol_pair_number(w, "allocated_count", metrics->allocated_count);
    protocol_pair_number(w, "released_count", metrics->released_count);
    protocol_pair_number(w, "updated_at", metrics->updated_at);
}

/* ---- To whom ---- */

static bool in_pool(const struct engine_event *event, struct tn_bytes pool) {
    if (names_pool(&event->fact)) {
        return tn_bytes_equal(event->fact.name, pool);
    }
    for (uint32_t i = 0; i < event->fact.value_count; i++) {
        if (tn_bytes_equal(event->values[i].pool, pool)) {
            return true;
        }
    }
    return false;
}

static struct tn_bytes value_text(const struct engine_event_value *value,
                                  char text[KERNEL_VALUE_TEXT_MAX]) {
    return value->name.len > 0
               ? value->name
               : tn_bytes_of(text, kernel_value_format(value->format, value->number, text));
}

/* Whether the event has the wanted value, in this pool if one is named. */
static bool has_value(const struct engine_event *event, struct tn_bytes wanted,
                      struct tn_bytes pool) {
    char text[KERNEL_VALUE_TEXT_MAX];
    for (uint32_t i = 0; i < event->fact.value_count; i++) {
        if ((pool.len == 0 || tn_bytes_equal(event->values[i].pool, pool)) &&
            tn_bytes_equal(value_text(&event->values[i], text), wanted)) {
            return true;
        }
    }
    return false;
}

/* At most this many values are searched. The values of a large bundle are mostly adjacent. */
#define TEXT_VALUES 64u

static bool says(const struct engine_event *event, struct server_search *part) {
    const struct kernel_event *fact = &event->fact;
    char text[KERNEL_VALUE_TEXT_MAX];
    if (server_search_in(part, fact->name) || server_search_in(part, fact->holder) ||
        server_search_in(part, fact->previous) || server_search_in(part, fact->note) ||
        server_search_in(part, fact->trigger)) {
        return true;
    }
    for (uint32_t i = 0; i < fact->value_count && i < TEXT_VALUES; i++) {
        if (server_search_in(part, value_text(&event->values[i], text))) {
            return true;
        }
    }
    return false;
}

static bool is_kind(const struct kernel_event *fact, struct tn_bytes kind) {
    const char *name = kernel_event_name(fact->kind);
    size_t len = strlen(name);
    return kind.len <= len && memcmp(name, kind.at, kind.len) == 0 &&
           (kind.len == len || kind.at[kind.len - 1] == '.');
}

bool server_event_passes(const struct engine_event *event,
                         const struct server_event_filter *filter) {
    const struct kernel_event *fact = &event->fact;
    return (filter->kind.len == 0 || is_kind(fact, filter->kind)) &&
           (filter->lease.lsn == 0 || kernel_lease_id_compare(fact->lease, filter->lease) == 0) &&
           (filter->actor.len == 0 || tn_bytes_equal(fact->actor, filter->actor)) &&
           (filter->value.len == 0 || has_value(event, filter->value, filter->pool)) &&
           (filter->text == NULL || filter->text->len == 0 || says(event, filter->text)) &&
           (filter->pool.len == 0 || in_pool(event, filter->pool)) &&
           (filter->holder.len == 0 || tn_bytes_equal(fact->holder, filter->holder) ||
            tn_bytes_equal(fact->previous, filter->holder));
}

static void channel_tell(const char *prefix, struct tn_bytes subject, server_channel_visit *visit,
                         void *ctx) {
    uint8_t name[SERVER_CHANNEL_MAX];
    struct tn_writer w = tn_writer_of(name, sizeof name);
    tn_write_raw(&w, prefix, strlen(prefix));
    tn_write_raw(&w, subject.at, subject.len);
    visit(ctx, tn_bytes_of(name, w.len));
}

/* Calls for each pool of a bundle, at the first value of that pool. */
static void channels_of_values(const struct engine_event *event, server_channel_visit *visit,
                               void *ctx) {
    for (uint32_t i = 0; i < event->fact.value_count; i++) {
        struct tn_bytes pool = event->values[i].pool;
        bool seen = i > 0 && tn_bytes_equal(event->values[i - 1].pool, pool);
        for (uint32_t j = 0; j < i && !seen; j++) {
            seen = tn_bytes_equal(event->values[j].pool, pool);
        }
        if (!seen) {
            channel_tell("pool:", pool, visit, ctx);
        }
    }
}

void server_event_channels(const struct engine_event *event, server_channel_visit *visit,
                           void *ctx) {
    const struct kernel_event *fact = &event->fact;
    _Static_assert(sizeof "holder:" + KERNEL_HOLDER_MAX <= SERVER_CHANNEL_MAX, "names fit");
    _Static_assert(sizeof "pool:" + KERNEL_POOL_MAX <= SERVER_CHANNEL_MAX, "names fit");
    visit(ctx, tn_bytes_of("events", 6));
    if (names_pool(fact)) {
        channel_tell("pool:", fact->name, visit, ctx);
    } else {
        channels_of_values(event, visit, ctx);
    }
    if (fact->holder.len > 0) {
        channel_tell("holder:", fact->holder, visit, ctx);
    }
    if (fact->previous.len > 0 && !tn_bytes_equal(fact->previous, fact->holder)) {
        channel_tell("holder:", fact->previous, visit, ctx);
    }
}
