/* Events, passed to the sink while the command is applied. Free without a sink. */
#include "kernel/state.h"

static const char *const event_names[KERNEL_EVENT_COUNT] = {
#define EVENT_NAME(id, text) [KERNEL_EVENT_##id] = text,
    KERNEL_EVENT_TABLE(EVENT_NAME)
#undef EVENT_NAME
};

const char *kernel_event_name(enum kernel_event_kind kind) {
    TN_ASSERT((unsigned)kind < KERNEL_EVENT_COUNT);
    return event_names[kind];
}

static const struct kernel_author nobody;

static void event_send(struct kernel *k, struct kernel_event *event,
                       const struct kernel_author *author) {
    TN_ASSERT((unsigned)event->kind < KERNEL_EVENT_COUNT && root_at(k)->lsn > 0);
    event->actor = author->actor;
    event->note = author->note;
    event->lsn = root_at(k)->lsn;
    event->now_ms = root_at(k)->now_ms;
    event->index = k->event_index++;
    k->env.sink(k->env.sink_ctx, k, event);
}

static struct tn_bytes name_text(const struct kernel *k, uint32_t name, uint8_t *out, size_t cap) {
    if (name == TN_NONE) {
        return (struct tn_bytes){0};
    }
    uint32_t len = tn_text_get(&k->tables[TABLE_TEXT], name_at(k, name)->text, out, cap);
    TN_ASSERT(len <= cap);
    return tn_bytes_of(out, len);
}

void kernel_event_lease(struct kernel *k, enum kernel_event_kind kind, uint32_t lease, bool timed) {
    if (k->env.sink == NULL) {
        return;
    }
    const struct lease *l = lease_at(k, lease);
    uint8_t holder[KERNEL_HOLDER_MAX], previous[KERNEL_HOLDER_MAX], user[KERNEL_HOLDER_MAX];
    uint8_t pool[KERNEL_POOL_MAX + 1];
    struct kernel_event event = {
        .kind = kind,
        .reason = (enum kernel_reason)(l->bits & LEASE_REASON_MASK),
        .lease = kernel_lease_id_of(k, l),
        .epoch = l->epoch,
        .deadline_ms = kernel_lease_deadline(l),
        .holder = name_text(k, l->holder, holder, sizeof holder),
        .previous = name_text(k, k->event_previous, previous, sizeof previous),
        .user = name_text(k, l->user, user, sizeof user),
        .values = k->event_values,
    };
    for (uint32_t m = l->first_member; m != TN_NONE; m = member_at(k, m)->next) {
        TN_ASSERT(event.value_count < l->member_count);
        kernel_value_show(k, member_at(k, m), &k->event_values[event.value_count++]);
    }
    if (l->pool != TN_NONE) {
        event.name = tn_bytes_of(pool, kernel_pool_name(k, l->pool, (char *)pool));
    }
    event_send(k, &event, timed ? &nobody : &k->author);
}

void kernel_event_value(struct kernel *k, enum kernel_event_kind kind, uint32_t member) {
    if (k->env.sink == NULL) {
        return;
    }
    const struct member *m = member_at(k, member);
    char pool[KERNEL_POOL_MAX + 1];
    kernel_value_show(k, m, &k->event_values[0]);
    struct kernel_event event = {
        .kind = kind,
        .name = tn_bytes_of(pool, kernel_pool_name(k, m->pool, pool)),
        .values = k->event_values,
        .value_count = 1,
    };
    event_send(k, &event, &nobody);
}

void kernel_event_named(struct kernel *k, enum kernel_event_kind kind, struct tn_bytes name,
                        uint64_t number) {
    if (k->env.sink == NULL) {
        return;
    }
    struct kernel_event event = {.kind = kind, .name = name, .number = number};
    event_send(k, &event, &k->author);
}

void kernel_event_rule(struct kernel *k, enum kernel_event_kind kind, struct tn_bytes id,
                       uint64_t number, struct tn_bytes trigger, struct tn_bytes before) {
    if (k->env.sink == NULL) {
        return;
    }
    struct kernel_event event = {
        .kind = kind, .name = id, .number = number, .demand = trigger, .demand_before = before};
    event_send(k, &event, &k->author);
}

void kernel_event_sensor(struct kernel *k, enum kernel_event_kind kind,
                         const struct kernel_command *c, struct tn_bytes trigger) {
    if (k->env.sink == NULL) {
        return;
    }
    struct kernel_event event = {.kind = kind,
                                 .lease = c->lease,
                                 .epoch = c->epoch,
                                 .name = c->name,
                                 .trigger = trigger,
                                 .payload = c->meta};
    event_send(k, &event, &k->author);
}

void kernel_event_pool(struct kernel *k, enum kernel_event_kind kind, uint32_t pool, uint64_t n) {
    char name[KERNEL_POOL_MAX + 1];
    if (k->env.sink != NULL) {
        kernel_event_named(k, kind, tn_bytes_of(name, kernel_pool_name(k, pool, name)), n);
    }
}

void kernel_event_holder(struct kernel *k, enum kernel_event_kind kind, uint32_t holder,
                         uint64_t number) {
    if (k->env.sink == NULL) {
        return;
    }
    uint8_t text[KERNEL_HOLDER_MAX];
    struct kernel_event event = {
        .kind = kind, .holder = name_text(k, holder, text, sizeof text), .number = number};
    event_send(k, &event, &k->author);
}

void kernel_sink_set(struct kernel *kernel, kernel_sink *sink) {
    kernel->env.sink = sink;
}
