/* Images of the whole state, the state hash, and the way back: rebuilding what is derived. */
#include "base/plant.h"
#include "kernel/state.h"

void kernel_image_begin(struct kernel *k, tn_table_save *save, void *ctx,
                        struct tn_table_header ret_headers[KERNEL_TABLES_MAX],
                        uint32_t *ret_count) {
    TN_ASSERT(!k->image_active);
    tn_image_begin(&k->image, k->tables, TABLE_COUNT, k->image_headers, save, ctx);
    k->image_active = true;
    memcpy(ret_headers, k->image_headers, sizeof k->image_headers);
    *ret_count = TABLE_COUNT;
}

bool kernel_image_step(struct kernel *k, size_t max_bytes) {
    TN_ASSERT(k->image_active);
    k->image_active = tn_image_step(&k->image, max_bytes);
    return k->image_active;
}

void kernel_image_abandon(struct kernel *k) {
    if (k->image_active) {
        tn_image_abandon(&k->image);
        k->image_active = false;
    }
}

bool kernel_load_header(struct kernel *k, const struct tn_table_header *header) {
    if (header->id >= TABLE_COUNT) {
        return false;
    }
    struct tn_table *table = &k->tables[header->id];
    if (header->id == TABLE_ROOT && table->used == 1 && root_at(k)->lsn == 0) {
        tn_table_give(table, 0); /* the fresh kernel's own */
        table->used = 0;
        table->free_head = 0;
    }
    return table->used == 0 && tn_table_load_header(table, header);
}

bool kernel_load_chunk(struct kernel *k, const struct tn_table_chunk *chunk, size_t len) {
    if (chunk->table_id >= TABLE_COUNT ||
        !tn_table_load_chunk(&k->tables[chunk->table_id], chunk, len)) {
        return false;
    }
    k->loaded[chunk->table_id] += chunk->count;
    return true;
}

bool kernel_load_end(struct kernel *k) {
    for (unsigned i = 0; i < TABLE_COUNT; i++) {
        if (k->loaded[i] != k->tables[i].used || !tn_table_check(&k->tables[i])) {
            return false;
        }
    }
    if (k->tables[TABLE_ROOT].used != 1 || root_at(k)->version != KERNEL_STATE_VERSION ||
        kernel_limits_bad(&root_at(k)->limits) != KERNEL_LIMIT_COUNT) {
        return false;
    }
    if (TN_PLANT(SNAPSHOT_LOSES_RANDOM)) {
        tn_prng_seed(&root_mut(k)->prng, 1);
    }
    return kernel_memory_fits(k, &root_at(k)->limits) && kernel_links_good(k) && kernel_rebuild(k);
}

uint64_t kernel_hash(const struct kernel *k) {
    uint64_t hash = KERNEL_STATE_VERSION;
    for (unsigned i = 0; i < TABLE_COUNT; i++) {
        hash = tn_table_hash(&k->tables[i], hash);
    }
    return hash;
}

/* ---- rebuilding ---- */

/* What the records say of each other has been judged (links.c); and maps have room for every record. */
static void rebuild_leases(struct kernel *k) {
    for (uint32_t i = 0; i < k->tables[TABLE_LEASE].used; i++) {
        const struct lease *l = lease_at(k, i);
        if (l->state == KERNEL_NO_STATE) {
            continue;
        }
        if (!TN_PLANT(SNAPSHOT_LOSES_HISTORY) ||
            !kernel_state_terminal((enum kernel_state)l->state)) {
            kernel_index_lease_add(k, i);
        }
        kernel_clock_lease_restore(k, i);
    }
}

static bool rebuild_members(struct kernel *k) {
    for (uint32_t i = 0; i < k->tables[TABLE_MEMBER].used; i++) {
        const struct member *m = member_at(k, i);
        if (m->state == MEMBER_FREE || m->state == MEMBER_ENDED) {
            continue;
        }
        if (kernel_pool_option(k, m->pool, KERNEL_OPTION_KIND) == KERNEL_RANGE) {
            if (tn_bitmap_test(&k->taken, m->pool, m->value)) {
                return false;
            }
            tn_bitmap_set(&k->taken, m->pool, m->value);
            kernel_index_value_add(k, i);
        }
        if (m->state == MEMBER_COOLING && !TN_PLANT(SNAPSHOT_LOSES_COOLING)) {
            kernel_clock_cooling_add(k, i);
        }
    }
    return true;
}

static bool rebuild_resources(struct kernel *k) {
    for (uint32_t i = 0; i < k->tables[TABLE_RESOURCE].used; i++) {
        const struct resource *r = resource_at(k, i);
        if (!r->in_use || r->removed) {
            continue;
        }
        kernel_index_resource_add(k, i);
        if (r->member == TN_NONE) {
            if (tn_bitmap_test(&k->available, r->pool, r->ordinal)) {
                return false;
            }
            tn_bitmap_set(&k->available, r->pool, r->ordinal);
        }
    }
    return true;
}

static void rebuild_texts(struct kernel *k) {
    for (uint32_t i = 0; i < k->tables[TABLE_NAME].used; i++) {
        if (name_at(k, i)->refs > 0) {
            kernel_index_text_add(k, TEXT_NAME, i);
        }
    }
    for (uint32_t i = 0; i < k->tables[TABLE_POOL].used; i++) {
        if (pool_at(k, i)->mapped) {
            kernel_index_text_add(k, TEXT_POOL, i);
        }
    }
    for (uint32_t i = 0; i < k->tables[TABLE_RULE].used; i++) {
        if (rule_at(k, i)->in_use) {
            kernel_index_text_add(k, TEXT_RULE, i);
        }
    }
    for (uint32_t i = 0; i < k->tables[TABLE_SENSOR].used; i++) {
        if (sensor_at(k, i)->in_use) {
            kernel_index_text_add(k, TEXT_SENSOR, i);
        }
    }
    for (uint32_t i = 0; i < k->tables[TABLE_TRIGGER].used; i++) {
        if (trigger_at(k, i)->refs > 0) {
            kernel_index_text_add(k, TEXT_TRIGGER, i);
        }
    }
}

bool kernel_rebuild(struct kernel *k) {
    rebuild_texts(k);
    if (!rebuild_resources(k) || !rebuild_members(k)) {
        return false;
    }
    rebuild_leases(k);
    for (uint32_t i = 0; i < k->tables[TABLE_GRANT].used; i++) {
        if (grant_at(k, i)->values > 0) {
            kernel_index_grant_add(k, i);
        }
    }
    for (uint32_t i = 0; i < k->tables[TABLE_OP].used; i++) {
        if (op_at(k, i)->lsn > 0 && !op_at(k, i)->unmapped && !TN_PLANT(SNAPSHOT_LOSES_OPS)) {
            kernel_index_op_add(k, i);
        }
    }
    return true;
}
