/* Reads: the engine's views as the public structures. */
#include <stdlib.h>
#include <string.h>

#include "engine/read.h"
#include "lib/library.h"

#define READ_PAGE 16u /* how many of the engine's views are asked for at once */

static void value_of(const struct engine_value *value, struct tenure_value *out) {
    memset(out, 0, sizeof *out);
    lib_value_fill(out, &value->value);
    lib_copy(out->pool, sizeof out->pool, value->pool, strlen(value->pool));
}

/* ---- Leases ---- */

static void lease_of(const struct engine_lease *lease, struct tenure_lease *out) {
    const struct kernel_lease_view *view = &lease->view;
    const char *reason = kernel_reason_name(view->reason);
    *out = (struct tenure_lease){
        .id = {.shard = view->id.shard, .lsn = view->id.lsn},
        .epoch = view->epoch,
        .state = (enum tenure_state)view->state,
        .deadline_ms = view->deadline_ms,
        .created_ms = view->created_ms,
        .last_seen_ms = view->last_seen_ms,
        .offline_since_ms = view->offline_since_ms,
        .ended_ms = view->ended_ms,
        .ended_lsn = view->ended_lsn,
        .retires_ms = view->retires_ms,
        .now_ms = view->now_ms,
        .ttl_s = view->ttl_s,
        .holder_len = view->holder_len,
        .meta_len = view->meta_len,
        .value_count = view->value_count,
        .lsn = lease->lsn,
    };
    lib_copy(out->reason, sizeof out->reason, reason, strlen(reason));
    memcpy(out->holder, view->holder, sizeof out->holder);
    memcpy(out->user, view->user, sizeof out->user);
    for (uint32_t i = 0; i < lease->value_count; i++) {
        value_of(&lease->values[i], &out->values[i]);
    }
}

enum tenure_result tenure_lease_read(struct tenure *tenure, struct tenure_lease_id id,
                                     uint64_t fence_lsn, struct tenure_lease *ret_lease) {
    struct engine_lease lease = {0};
    enum tn_result code = engine_wait_lsn(tenure->engine, fence_lsn);
    if (code == TN_R_OK) {
        code =
            engine_lease_read(tenure->engine, ENGINE_READ_CURRENT,
                              (struct kernel_lease_id){.shard = id.shard, .lsn = id.lsn}, &lease);
    }
    lease_of(&lease, ret_lease);
    return (enum tenure_result)code;
}

enum tenure_result tenure_lease_by_value(struct tenure *tenure, const char *pool,
                                         const struct tenure_requested *value, uint64_t fence_lsn,
                                         struct tenure_lease *ret_lease) {
    struct engine_lease lease = {0};
    struct kernel_requested requested = {
        .is_text = value->text != NULL, .number = value->number, .text = lib_text(value->text)};
    enum tn_result code = engine_wait_lsn(tenure->engine, fence_lsn);
    if (code == TN_R_OK) {
        code = engine_lease_by_value(tenure->engine, ENGINE_READ_CURRENT, lib_text(pool),
                                     &requested, &lease);
    }
    lease_of(&lease, ret_lease);
    return (enum tenure_result)code;
}

enum tenure_result tenure_verify(struct tenure *tenure, struct tenure_lease_id id, uint64_t epoch,
                                 uint64_t fence_lsn, struct tenure_lease *ret_lease) {
    struct engine_lease lease = {0};
    enum tn_result code = engine_wait_lsn(tenure->engine, fence_lsn);
    if (code == TN_R_OK) {
        code = engine_verify(tenure->engine, ENGINE_READ_CURRENT,
                             (struct kernel_lease_id){.shard = id.shard, .lsn = id.lsn}, epoch,
                             &lease);
    }
    if (ret_lease != NULL) {
        lease_of(&lease, ret_lease);
    }
    return (enum tenure_result)code;
}

enum tenure_result tenure_lease_values(struct tenure *tenure, struct tenure_lease_id id,
                                       uint32_t first, struct tenure_value *out, uint32_t capacity,
                                       uint32_t *ret_count) {
    struct engine_value page[READ_PAGE];
    *ret_count = 0;
    for (;;) {
        uint32_t want = capacity - *ret_count < READ_PAGE ? capacity - *ret_count : READ_PAGE;
        uint32_t got = 0;
        enum tn_result code =
            engine_lease_values(tenure->engine, ENGINE_READ_CURRENT,
                                (struct kernel_lease_id){.shard = id.shard, .lsn = id.lsn},
                                first + *ret_count, page, want, &got);
        if (code != TN_R_OK) {
            return (enum tenure_result)code;
        }
        for (uint32_t i = 0; i < got; i++) {
            value_of(&page[i], &out[(*ret_count)++]);
        }
        if (got < READ_PAGE) {
            return TENURE_OK;
        }
    }
}

enum tenure_result tenure_lease_meta(struct tenure *tenure, struct tenure_lease_id id, void *out,
                                     size_t capacity, size_t *ret_len) {
    uint32_t len = 0;
    uint32_t room = capacity < KERNEL_META_MAX ? (uint32_t)capacity : KERNEL_META_MAX;
    enum tn_result code = engine_lease_meta(
        tenure->engine, ENGINE_READ_CURRENT,
        (struct kernel_lease_id){.shard = id.shard, .lsn = id.lsn}, out, room, &len);
    *ret_len = len;
    return (enum tenure_result)code;
}

enum tenure_result tenure_leases(struct tenure *tenure, const struct tenure_filter *filter,
                                 uint64_t *cursor, struct tenure_lease *out, uint32_t capacity,
                                 uint32_t *ret_count) {
    struct engine_lease page[READ_PAGE];
    struct kernel_lease_filter inner = {.state = KERNEL_NO_STATE};
    uint32_t got = 0;
    uint64_t lsn;
    if (filter != NULL) {
        inner.pool = lib_text(filter->pool);
        inner.holder = lib_text(filter->holder);
        inner.state = (enum kernel_state)filter->state;
    }
    enum tn_result code = inner.pool.len > 0
                              ? engine_pool_known(tenure->engine, ENGINE_READ_AS_IS, inner.pool)
                              : TN_R_OK;
    if (code == TN_R_OK) {
        code = engine_leases_list(tenure->engine, ENGINE_READ_CURRENT, &inner, cursor, page,
                                  capacity < READ_PAGE ? capacity : READ_PAGE, &got, &lsn);
    }
    for (uint32_t i = 0; i < got; i++) {
        lease_of(&page[i], &out[i]);
    }
    *ret_count = got;
    return (enum tenure_result)code;
}

/* ---- Pools ---- */

static void pool_of(const struct kernel_pool_view *view, uint64_t lsn, struct tenure_pool *out) {
    const uint64_t *of = view->policy.of;
    *out = (struct tenure_pool){
        .is_set = of[KERNEL_OPTION_KIND] == KERNEL_SET,
        .is_scope = view->is_scope,
        .is_template = of[KERNEL_OPTION_SCOPED] != 0 && !view->is_scope,
        .sticky = of[KERNEL_OPTION_STICKY] != 0,
        .lo = of[KERNEL_OPTION_LO],
        .hi = of[KERNEL_OPTION_HI],
        .lease_s = of[KERNEL_OPTION_LEASE],
        .scopes = view->scopes,
        .size = view->size,
        .reserved_count = view->reserved,
        .active_count = view->active,
        .offline_count = view->offline,
        .revoking_count = view->revoking,
        .cooling_count = view->cooling,
        .free_count = view->free,
        .excluded_count = view->excluded,
        .allocated_total = view->counters.allocated,
        .returned_total = view->counters.returned,
        .released_total = view->counters.released,
        .expired_total = view->counters.expired,
        .revoked_total = view->counters.revoked,
        .reclaimed_total = view->counters.reclaimed,
        .rate_micro = view->rate_micro,
        .effective_lease_s = view->effective_lease_s,
        .ultra_rate = view->ultra_active,
        .force_zero = view->force_zero,
        .next_free_ms = view->next_free_ms,
        .overdue_since_ms = view->overdue_since_ms,
        .lsn = lsn,
    };
    lib_copy(out->name, sizeof out->name, view->name, view->name_len);
}

enum tenure_result tenure_pool_info(struct tenure *tenure, const char *pool, uint64_t fence_lsn,
                                    struct tenure_pool *ret_pool) {
    struct kernel_pool_view view;
    uint64_t lsn;
    enum tn_result code = engine_wait_lsn(tenure->engine, fence_lsn);
    if (code == TN_R_OK) {
        code = engine_pool_read(tenure->engine, ENGINE_READ_CURRENT, lib_text(pool), &view, &lsn);
    }
    if (code == TN_R_OK) {
        pool_of(&view, lsn, ret_pool);
    }
    return (enum tenure_result)code;
}

enum tenure_result tenure_pool_option(struct tenure *tenure, const char *pool, const char *name,
                                      char *out, size_t capacity) {
    struct kernel_pool_view view;
    uint64_t lsn;
    enum tn_result code =
        engine_pool_read(tenure->engine, ENGINE_READ_CURRENT, lib_text(pool), &view, &lsn);
    if (code != TN_R_OK) {
        return (enum tenure_result)code;
    }
    bool known = capacity > 0 && kernel_option_format(&view.policy, name, out, capacity);
    return known ? TENURE_OK : TENURE_BAD_REQUEST;
}

enum tenure_result tenure_pool_list(struct tenure *tenure, uint64_t *cursor,
                                    struct tenure_pool *out, uint32_t capacity,
                                    uint32_t *ret_count) {
    struct kernel_pool_view page[READ_PAGE];
    uint32_t got = 0;
    uint64_t lsn;
    enum tn_result code =
        engine_pools_list(tenure->engine, ENGINE_READ_CURRENT, cursor, page,
                          capacity < READ_PAGE ? capacity : READ_PAGE, &got, &lsn);
    for (uint32_t i = 0; i < got; i++) {
        pool_of(&page[i], lsn, &out[i]);
    }
    *ret_count = got;
    return (enum tenure_result)code;
}

void lib_metrics_of(const struct engine_metrics *metrics, struct tenure_metrics *out) {
    *out = (struct tenure_metrics){
        .base_lease_seconds = metrics->base_lease_seconds,
        .effective_lease_seconds = metrics->effective_lease_seconds,
        .new_device_rate_per_hour_micro = metrics->new_device_rate_per_hour_micro,
        .ultra_rate_active = metrics->ultra_rate_active,
        .force_zero_lease_active = metrics->force_zero_lease_active,
        .last_reclaim_count = metrics->last_reclaim_count,
        .last_reclaim_at = metrics->last_reclaim_at,
        .total_reclaimed = metrics->total_reclaimed,
        .allocated_count = metrics->allocated_count,
        .released_count = metrics->released_count,
        .updated_at = metrics->updated_at,
    };
    memcpy(out->pool, metrics->pool, sizeof out->pool);
}

enum tenure_result tenure_pool_metrics(struct tenure *tenure, const char *pool, uint64_t fence_lsn,
                                       struct tenure_metrics *ret_metrics) {
    struct engine_metrics metrics;
    enum tn_result code = engine_wait_lsn(tenure->engine, fence_lsn);
    if (code == TN_R_OK) {
        code = engine_pool_metrics(tenure->engine, ENGINE_READ_CURRENT, lib_text(pool), &metrics,
                                   NULL);
    }
    if (code == TN_R_OK) {
        lib_metrics_of(&metrics, ret_metrics);
    }
    return (enum tenure_result)code;
}

/* ---- Rules and sensors ---- */

static void rule_of(const struct kernel_rule_view *view, struct tenure_rule *out) {
    *out = (struct tenure_rule){.enabled = view->enabled};
    lib_copy(out->id, sizeof out->id, view->id, view->id_len);
    lib_copy(out->trigger, sizeof out->trigger, view->trigger, view->trigger_len);
}

static void sensor_of(const struct kernel_sensor_view *view, struct tenure_sensor *out) {
    *out = (struct tenure_sensor){.enabled = view->enabled,
                                  .wanted = view->wanted,
                                  .active_rules = view->active_rules,
                                  .spec_len = view->spec_len};
    lib_copy(out->ref, sizeof out->ref, view->ref, view->ref_len);
    lib_copy(out->trigger, sizeof out->trigger, view->trigger, view->trigger_len);
}

enum tenure_result tenure_rule_read(struct tenure *tenure, const char *id,
                                    struct tenure_rule *ret_rule) {
    struct kernel_rule_view view;
    enum tn_result code =
        engine_rule_read(tenure->engine, ENGINE_READ_CURRENT, lib_text(id), &view);
    if (code == TN_R_OK) {
        rule_of(&view, ret_rule);
    }
    return (enum tenure_result)code;
}

enum tenure_result tenure_rule_list(struct tenure *tenure, uint64_t *cursor,
                                    struct tenure_rule *out, uint32_t capacity,
                                    uint32_t *ret_count) {
    struct kernel_rule_view page[READ_PAGE];
    uint32_t got = 0;
    enum tn_result code =
        engine_rules_list(tenure->engine, ENGINE_READ_CURRENT, cursor, page,
                          capacity < READ_PAGE ? capacity : READ_PAGE, &got, NULL);
    for (uint32_t i = 0; i < got; i++) {
        rule_of(&page[i], &out[i]);
    }
    *ret_count = got;
    return (enum tenure_result)code;
}

enum tenure_result tenure_sensor_read(struct tenure *tenure, const char *ref,
                                      struct tenure_sensor *ret_sensor, void *spec,
                                      size_t spec_capacity) {
    struct kernel_sensor_view view;
    uint32_t room =
        spec_capacity < KERNEL_SENSOR_SPEC_MAX ? (uint32_t)spec_capacity : KERNEL_SENSOR_SPEC_MAX;
    enum tn_result code = engine_sensor_read(tenure->engine, ENGINE_READ_CURRENT, lib_text(ref),
                                             &view, spec, room, NULL);
    if (code == TN_R_OK) {
        sensor_of(&view, ret_sensor);
    }
    return (enum tenure_result)code;
}

enum tenure_result tenure_sensor_list(struct tenure *tenure, uint64_t *cursor,
                                      struct tenure_sensor *out, uint32_t capacity,
                                      uint32_t *ret_count) {
    struct kernel_sensor_view page[READ_PAGE];
    uint32_t got = 0;
    enum tn_result code =
        engine_sensors_list(tenure->engine, ENGINE_READ_CURRENT, cursor, page,
                            capacity < READ_PAGE ? capacity : READ_PAGE, &got, NULL);
    for (uint32_t i = 0; i < got; i++) {
        sensor_of(&page[i], &out[i]);
    }
    *ret_count = got;
    return (enum tenure_result)code;
}
