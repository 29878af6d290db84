/* Images of the whole state, the state hash, and loading: rebuilding the derived data. */
#include "kernel/prefetch.h"
#include "kernel/state.h"
#include "kernel/used.h"
#include "kernel/waiting.h"

/* Sizes in version 0.1.0. */
#define BASE_LIMIT_BYTES (20u * sizeof(uint64_t))
#define BASE_COUNTER_BYTES (8u * sizeof(uint64_t))
#define BASE_OPTION_BYTES (25u * sizeof(uint64_t))
#define BASE_EXCLUDE_BYTES (16u * sizeof(struct kernel_span) + sizeof(uint64_t))
#define BASE_POOL_BYTES \
    (offsetof(struct pool, counters) + BASE_COUNTER_BYTES + BASE_OPTION_BYTES + BASE_EXCLUDE_BYTES)
#define RECORD_WORDS_MAX 512u
#define WAITERS_SINCE 8u /* the version with the limit waiters_max */
#define USERS_SINCE 9u   /* and with users_max */

_Static_assert(offsetof(struct root, limits) == 416 && offsetof(struct pool, counters) == 136,
               "fields are appended only");
_Static_assert(offsetof(struct kernel_policy, exclude_count) + sizeof(uint64_t) ==
                   KERNEL_OPTION_SLOTS * sizeof(uint64_t) + BASE_EXCLUDE_BYTES,
               "fields are appended only");

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

/* ---- loading ---- */

/* Records of 0.1.0, which every image has at least. */
static const uint32_t base_bytes[TABLE_COUNT] = {
    [TABLE_ROOT] = offsetof(struct root, limits) + BASE_LIMIT_BYTES,
    [TABLE_LEASE] = 88,
    [TABLE_MEMBER] = 32,
    [TABLE_POOL] = BASE_POOL_BYTES,
    [TABLE_RESOURCE] = 40,
    [TABLE_NAME] = 16,
    [TABLE_TEXT] = TN_TEXT_CHUNK_BYTES,
    [TABLE_GRANT] = 16,
    [TABLE_OP] = 56,
    [TABLE_OP_TEXT] = TN_TEXT_CHUNK_BYTES,
    [TABLE_JOB] = 32,
    [TABLE_RULE] = 32,
    [TABLE_SENSOR] = 32,
    [TABLE_TRIGGER] = 16,
    [TABLE_TOMBSTONE] = 48,
    [TABLE_WAITER] = 56,
    [TABLE_WANT] = sizeof(struct want),
    [TABLE_USER] = sizeof(struct user),
};

static bool newer_writer(const struct kernel *k) {
    return k->load_version > KERNEL_STATE_VERSION;
}

/* The size of a text chunk is fixed, and that of a meter follows from the limits. */
static bool record_bytes_good(const struct kernel *k, const struct tn_table_header *header) {
    uint32_t ours = k->tables[header->id].record_bytes;
    if (header->id == TABLE_TEXT || header->id == TABLE_OP_TEXT || header->id == TABLE_METER) {
        return header->record_bytes == ours;
    }
    return header->record_bytes >= base_bytes[header->id] &&
           (header->record_bytes <= ours || newer_writer(k));
}

/* One record of an image as ours. */
static void record_load(const struct kernel *k, uint32_t table, const uint8_t *from, uint8_t *to) {
    uint32_t bytes = k->load_bytes[table];
    uint32_t ours = k->tables[table].record_bytes;
    memset(to, 0, ours);
    if (table == TABLE_POOL && bytes == BASE_POOL_BYTES) { /* this version had no reserved slots */
        memcpy(to, from, offsetof(struct pool, counters) + BASE_COUNTER_BYTES);
        from += offsetof(struct pool, counters) + BASE_COUNTER_BYTES;
        memcpy(to + offsetof(struct pool, policy.of), from, BASE_OPTION_BYTES);
        from += BASE_OPTION_BYTES;
        memcpy(to + offsetof(struct pool, policy.exclude), from, BASE_EXCLUDE_BYTES);
        return;
    }
    memcpy(to, from, bytes < ours ? bytes : ours);
}

void kernel_load_version(struct kernel *k, uint32_t version) {
    k->load_version = version;
}

bool kernel_load_header(struct kernel *k, const struct tn_table_header *header) {
    if (header->id >= TABLE_COUNT) {
        return newer_writer(k);
    }
    struct tn_table *table = &k->tables[header->id];
    struct tn_table_header as_ours = *header;
    if (!record_bytes_good(k, header)) {
        return false;
    }
    as_ours.record_bytes = table->record_bytes;
    if (header->id == TABLE_ROOT && table->used == 1 && root_at(k)->lsn == 0) {
        tn_table_give(table, 0); /* the fresh kernel's own */
        table->used = 0;
        table->free_head = 0;
    }
    k->load_bytes[header->id] = header->record_bytes;
    return table->used == 0 && tn_table_load_header(table, &as_ours);
}

/* Record by record, because their size or layout differs from ours. */
static bool chunk_convert(struct kernel *k, const struct tn_table_chunk *chunk, size_t len) {
    struct tn_table *table = &k->tables[chunk->table_id];
    uint32_t bytes = k->load_bytes[chunk->table_id];
    uint64_t record[RECORD_WORDS_MAX];
    if ((uint64_t)chunk->first + chunk->count > table->used ||
        (uint64_t)chunk->count * bytes != len) {
        return false;
    }
    TN_ASSERT(table->record_bytes <= sizeof record);
    for (uint32_t i = 0; i < chunk->count; i++) {
        struct tn_table_chunk one = {
            .table_id = chunk->table_id, .first = chunk->first + i, .count = 1, .bytes = record};
        record_load(k, chunk->table_id, (const uint8_t *)chunk->bytes + (size_t)i * bytes,
                    (uint8_t *)record);
        if (!tn_table_load_chunk(table, &one, table->record_bytes)) {
            return false;
        }
    }
    return true;
}

bool kernel_load_chunk(struct kernel *k, const struct tn_table_chunk *chunk, size_t len) {
    if (chunk->table_id >= TABLE_COUNT) {
        return newer_writer(k);
    }
    struct tn_table *table = &k->tables[chunk->table_id];
    uint32_t bytes = k->load_bytes[chunk->table_id];
    bool same = bytes == 0 || bytes == table->record_bytes; /* without a header it is refused */
    if (!(same ? tn_table_load_chunk(table, chunk, len) : chunk_convert(k, chunk, len))) {
        return false;
    }
    k->loaded[chunk->table_id] += chunk->count;
    return true;
}

static bool root_version_good(const struct kernel *k) {
    uint32_t writer = k->load_version != 0 ? k->load_version : KERNEL_STATE_VERSION;
    return root_at(k)->version == writer && root_at(k)->edition <= KERNEL_EDITION;
}

/* A limit that the image lacks is the default, as of a log without it. */
static void limit_begins(struct kernel *k, enum kernel_limit limit, uint64_t since) {
    if (root_at(k)->version < since) {
        root_mut(k)->limits.of[limit] = kernel_limit_rows[limit].standard;
    }
}

bool kernel_load_end(struct kernel *k) {
    for (unsigned i = 0; i < TABLE_COUNT; i++) {
        if (k->loaded[i] != k->tables[i].used || !tn_table_check(&k->tables[i])) {
            return false;
        }
    }
    if (k->tables[TABLE_ROOT].used == 1) {
        limit_begins(k, KERNEL_LIMIT_WAITERS, WAITERS_SINCE);
        limit_begins(k, KERNEL_LIMIT_USERS, USERS_SINCE);
    }
    if (k->tables[TABLE_ROOT].used != 1 || !root_version_good(k) ||
        kernel_limits_bad(&root_at(k)->limits) != KERNEL_LIMIT_COUNT) {
        return false;
    }
    root_mut(k)->version = KERNEL_STATE_VERSION;
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

/* What the records say of each other has been judged (links.c); and maps have room for every
 * record. */
static void rebuild_leases(struct kernel *k) {
    for (uint32_t i = 0; i < k->tables[TABLE_LEASE].used; i++) {
        const struct lease *l = lease_at(k, i);
        kernel_prefetch_pass_lease(k, i);
        if (l->state == KERNEL_NO_STATE) {
            continue;
        }
        kernel_index_lease_add(k, i);
        kernel_clock_lease_restore(k, i);
    }
}

static bool rebuild_members(struct kernel *k) {
    for (uint32_t i = 0; i < k->tables[TABLE_MEMBER].used; i++) {
        const struct member *m = member_at(k, i);
        kernel_prefetch_pass_member(k, i);
        if (m->state == MEMBER_FREE || m->state == MEMBER_ENDED) {
            continue;
        }
        if (kernel_pool_option(k, m->pool, KERNEL_OPTION_KIND) == KERNEL_RANGE) {
            if (tn_bitmap_test(&k->taken, m->pool, m->value)) {
                return false;
            }
            kernel_used_set(k, m->pool, m->value);
            kernel_index_value_add(k, i);
        }
        if (m->state == MEMBER_COOLING) {
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
    for (uint32_t i = 0; i < k->tables[TABLE_USER].used; i++) {
        if (user_at(k, i)->role != 0) {
            kernel_index_text_add(k, TEXT_USER, i);
        }
    }
}

static void rebuild_history(struct kernel *k) {
    uint32_t before = TN_NONE;
    for (uint32_t i = root_at(k)->history_head; i != TN_NONE; i = lease_at(k, i)->holder_next) {
        k->ended_before[i] = before;
        before = i;
    }
}

/* Saves the maps from growing in steps. */
static void rebuild_sizes(struct kernel *k) {
    tn_map_reserve(&k->leases, k->tables[TABLE_LEASE].live);
    tn_map_reserve(&k->values, k->tables[TABLE_MEMBER].live);
    tn_map_reserve(&k->names, k->tables[TABLE_NAME].live);
    tn_map_reserve(&k->grants, k->tables[TABLE_GRANT].live);
    tn_map_reserve(&k->ops, k->tables[TABLE_OP].live);
}

bool kernel_rebuild(struct kernel *k) {
    rebuild_sizes(k);
    rebuild_texts(k);
    if (!rebuild_resources(k) || !rebuild_members(k)) {
        return false;
    }
    rebuild_leases(k);
    kernel_user_rebuild(k);
    kernel_lists_rebuild(k);
    rebuild_history(k);
    kernel_line_rebuild(k);
    for (uint32_t i = 0; i < k->tables[TABLE_GRANT].used; i++) {
        if (grant_at(k, i)->values > 0) {
            kernel_index_grant_add(k, i);
        }
    }
    for (uint32_t i = 0; i < k->tables[TABLE_OP].used; i++) {
        if (op_at(k, i)->lsn > 0 && (op_at(k, i)->bits & OP_UNMAPPED) == 0) {
            kernel_index_op_add(k, i);
        }
    }
    return true;
}
