/* Named resources of sets: adding, removing, and freeing those of a dropped set. */
#include "kernel/waiting.h"

static void resource_new(struct kernel *k, uint32_t pool, struct tn_bytes name) {
    uint32_t slot = tn_table_take(&k->tables[TABLE_RESOURCE]);
    TN_ASSERT(slot != TN_NONE); /* add_allowed has seen the room */
    struct pool *p = pool_mut(k, pool);
    struct resource *r = resource_mut(k, slot);
    r->name = tn_text_put(&k->tables[TABLE_TEXT], name);
    r->pool = pool;
    r->member = TN_NONE;
    r->prev = TN_NONE;
    r->next = p->first_resource;
    r->ordinal = p->next_ordinal++;
    r->in_use = 1;
    if (p->first_resource != TN_NONE) {
        resource_mut(k, p->first_resource)->prev = slot;
    }
    p->first_resource = slot;
    p->resources++;
    kernel_index_resource_add(k, slot);
    tn_bitmap_set(&k->available, pool, r->ordinal);
}

static void resource_free_if_unused(struct kernel *k, uint32_t resource) {
    const struct resource *r = resource_at(k, resource);
    if (r->removed && r->refs == 0) {
        tn_text_drop(&k->tables[TABLE_TEXT], r->name);
        tn_table_give(&k->tables[TABLE_RESOURCE], resource);
    }
}

void kernel_resource_unref(struct kernel *k, uint32_t resource) {
    struct resource *r = resource_mut(k, resource);
    TN_ASSERT(r->refs > 0);
    r->refs--;
    resource_free_if_unused(k, resource);
}

/* The resource is free (or cold) and leaves its pool. */
static void resource_remove(struct kernel *k, uint32_t resource) {
    const struct resource *r = resource_at(k, resource);
    TN_ASSERT(r->in_use && !r->removed);
    if (r->member != TN_NONE) {
        TN_ASSERT(member_at(k, r->member)->state == MEMBER_COLD);
        kernel_value_cold_release(k, r->member);
    }
    tn_bitmap_clear(&k->available, r->pool, r->ordinal);
    kernel_index_resource_remove(k, resource);
    struct pool *p = pool_mut(k, r->pool);
    if (r->prev == TN_NONE) {
        TN_ASSERT(p->first_resource == resource);
        p->first_resource = r->next;
    } else {
        resource_mut(k, r->prev)->next = r->next;
    }
    if (r->next != TN_NONE) {
        resource_mut(k, r->next)->prev = r->prev;
    }
    TN_ASSERT(p->resources > 0);
    p->resources--;
    struct resource *w = resource_mut(k, resource);
    w->removed = 1;
    w->prev = w->next = TN_NONE;
    resource_free_if_unused(k, resource);
}

void kernel_pool_drain(struct kernel *k, uint32_t *budget) {
    while (*budget > 0 && root_at(k)->drain_head != TN_NONE) {
        uint32_t pool = root_at(k)->drain_head;
        if (pool_at(k, pool)->resources > 0) {
            resource_remove(k, pool_at(k, pool)->first_resource);
            *budget -= 1;
        }
        if (pool_at(k, pool)->resources == 0) {
            root_mut(k)->drain_head = pool_at(k, pool)->drain_next;
            struct pool *p = pool_mut(k, pool);
            p->drain_next = TN_NONE;
            /* One reference more and less: the record goes if nothing else needs it. */
            p->refs++;
            kernel_pool_unref(k, pool);
        }
    }
}

/* The set that the command names, if its form is right. */
static enum tn_result set_find(const struct kernel *k, const struct kernel_command *c,
                               uint32_t *ret_pool) {
    uint32_t pool = kernel_pool_find(k, c->pool);
    if (pool == TN_NONE) {
        return TN_R_POOL_NOTFOUND;
    }
    if (kernel_pool_option(k, pool, KERNEL_OPTION_INTERNAL) &&
        !(c->rights & KERNEL_RIGHT_SUPERVISOR)) {
        return TN_R_DENIED;
    }
    if (kernel_pool_option(k, pool, KERNEL_OPTION_KIND) != KERNEL_SET || c->value_count == 0) {
        return TN_R_BAD_REQUEST;
    }
    *ret_pool = pool;
    return c->value_count > KERNEL_BUNDLE_MAX ? TN_R_TOO_LARGE : TN_R_OK;
}

/* All names are good and there is room for those that are not there yet. */
static enum tn_result add_allowed(const struct kernel *k, uint32_t pool,
                                  const struct kernel_command *c, struct kernel_result *result) {
    struct tn_reader r = tn_reader_of(c->values.at, c->values.len);
    uint64_t chunks = 0;
    uint32_t fresh = 0;
    for (uint32_t i = 0; i < c->value_count; i++) {
        struct kernel_requested requested = kernel_requested_read(&r);
        if (!requested.is_text || !kernel_name_resource_valid(requested.text)) {
            result->number = i;
            return TN_R_BAD_NAME;
        }
        if (kernel_index_resource(k, pool, requested.text) == TN_NONE) {
            chunks += tn_text_chunks(requested.text.len);
            fresh++;
        }
    }
    if (tn_table_room(&k->tables[TABLE_RESOURCE]) < fresh) {
        return TN_R_RESOURCES_FULL;
    }
    return tn_table_room(&k->tables[TABLE_TEXT]) < chunks ? TN_R_NAMES_FULL : TN_R_OK;
}

void kernel_run_pool_add(struct kernel *k, const struct kernel_command *c,
                         struct kernel_result *result) {
    uint32_t pool;
    result->code = set_find(k, c, &pool);
    if (result->code == TN_R_OK) {
        result->code = add_allowed(k, pool, c, result);
    }
    if (result->code != TN_R_OK) {
        return;
    }
    struct tn_reader r = tn_reader_of(c->values.at, c->values.len);
    for (uint32_t i = 0; i < c->value_count; i++) {
        struct kernel_requested requested = kernel_requested_read(&r);
        if (kernel_index_resource(k, pool, requested.text) == TN_NONE) {
            resource_new(k, pool, requested.text);
            result->number++;
        }
    }
    if (result->number == 0) {
        result->code = TN_R_NOOP;
        return;
    }
    kernel_line_stir(k, pool);
    kernel_event_pool(k, KERNEL_EVENT_POOL_ADDED, pool, result->number);
}

/* None of the named resources is held or cooling, once they are brought up to now. */
static bool remove_allowed(struct kernel *k, uint32_t pool, const struct kernel_command *c,
                           struct kernel_result *result) {
    struct tn_reader r = tn_reader_of(c->values.at, c->values.len);
    for (uint32_t i = 0; i < c->value_count; i++) {
        struct kernel_requested requested = kernel_requested_read(&r);
        uint32_t resource =
            requested.is_text ? kernel_index_resource(k, pool, requested.text) : TN_NONE;
        if (resource != TN_NONE) {
            kernel_due_value(k, pool, resource);
        }
        uint32_t owner = resource == TN_NONE ? TN_NONE : resource_at(k, resource)->member;
        if (owner != TN_NONE && member_at(k, owner)->state != MEMBER_COLD) {
            result->number = i;
            return false;
        }
    }
    return true;
}

void kernel_run_pool_remove(struct kernel *k, const struct kernel_command *c,
                            struct kernel_result *result) {
    uint32_t pool;
    result->code = set_find(k, c, &pool);
    if (result->code == TN_R_OK && !remove_allowed(k, pool, c, result)) {
        result->code = TN_R_POOL_IN_USE;
    }
    if (result->code != TN_R_OK) {
        return;
    }
    struct tn_reader r = tn_reader_of(c->values.at, c->values.len);
    for (uint32_t i = 0; i < c->value_count; i++) {
        struct kernel_requested requested = kernel_requested_read(&r);
        uint32_t resource =
            requested.is_text ? kernel_index_resource(k, pool, requested.text) : TN_NONE;
        if (resource != TN_NONE) {
            resource_remove(k, resource);
            result->number++;
        }
    }
    if (result->number == 0) {
        result->code = TN_R_NOOP;
        return;
    }
    kernel_line_stir(k, pool); /* its first waiter may want more than there is now */
    kernel_event_pool(k, KERNEL_EVENT_POOL_REMOVED, pool, result->number);
}
