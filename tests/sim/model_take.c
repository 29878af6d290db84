/* The kernel's events and results in the model's own form: copied, with pools by their names. */
#include "sim/model.h"

#include <string.h>

#include "base/hash.h"

static void take_value(const struct kernel *kernel, const struct kernel_value *v,
                       struct model_shown *ret) {
    memset(ret, 0, sizeof *ret);
    ret->claim = v->claim;
    ret->format = v->format;
    ret->number = v->name_len == 0 ? v->number : 0;
    memcpy(ret->name, v->name, v->name_len);
    if (v->pool != UINT32_MAX) { /* an answer from the operation table has no pool */
        kernel_pool_name(kernel, v->pool, ret->pool);
    }
}

void model_take_event(const struct kernel *kernel, const struct kernel_event *e,
                      struct model_event *ret) {
    TN_ASSERT(e->value_count <= MODEL_BUNDLE);
    memset(ret, 0, sizeof *ret);
    ret->kind = e->kind;
    ret->reason = e->reason;
    ret->lease = e->lease;
    ret->lsn = e->lsn;
    ret->now_ms = e->now_ms;
    ret->epoch = e->epoch;
    ret->deadline_ms = e->deadline_ms;
    ret->number = e->number;
    model_text(ret->holder, sizeof ret->holder, e->holder);
    model_text(ret->previous, sizeof ret->previous, e->previous);
    model_text(ret->user, sizeof ret->user, e->user);
    model_text(ret->actor, sizeof ret->actor, e->actor);
    model_text(ret->note, sizeof ret->note, e->note);
    model_text(ret->name, sizeof ret->name, e->name);
    model_text(ret->trigger, sizeof ret->trigger, e->trigger);
    ret->payload_len = e->payload.len;
    ret->payload_hash = e->payload.len > 0 ? tn_hash64(e->payload.at, e->payload.len, 0) : 0;
    ret->value_count = e->value_count;
    for (uint32_t i = 0; i < e->value_count; i++) {
        take_value(kernel, &e->values[i], &ret->values[i]);
    }
}

void model_take_result(const struct kernel *kernel, const struct kernel_result *r,
                       struct model_result *ret) {
    TN_ASSERT(r->value_count <= MODEL_BUNDLE);
    ret->head = *r;
    ret->head.values = NULL;
    for (uint32_t i = 0; i < r->value_count; i++) {
        take_value(kernel, &r->values[i], &ret->values[i]);
    }
}
