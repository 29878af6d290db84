/* Finding records by key: hash functions, comparisons, and the maps they go with.
 *
 * Hashes are seeded per process, so clients cannot craft names that collide; they are never stored. */
#include "kernel/state.h"

static uint64_t hash_pair(const struct kernel *k, uint32_t a, uint64_t b) {
    return tn_mix64(b ^ tn_mix64(k->env.hash_seed ^ a));
}

static uint64_t hash_text(const struct kernel *k, struct tn_bytes text, uint64_t salt) {
    return tn_hash64(text.at, text.len, k->env.hash_seed ^ salt);
}

/* A stored text, copied out to be hashed. */
struct text_copy {
    uint8_t
        bytes[KERNEL_POOL_MAX + 1 > KERNEL_HOLDER_MAX ? KERNEL_POOL_MAX + 1 : KERNEL_HOLDER_MAX];
    uint32_t len;
};

_Static_assert(KERNEL_RULE_MAX <= KERNEL_HOLDER_MAX, "every indexed text fits a copy");
_Static_assert(KERNEL_OPID_MAX <= KERNEL_HOLDER_MAX, "every indexed text fits a copy");

static struct tn_bytes text_load(const struct tn_table *chunks, uint32_t ref,
                                 struct text_copy *copy) {
    copy->len = tn_text_get(chunks, ref, copy->bytes, sizeof copy->bytes);
    TN_ASSERT(copy->len <= sizeof copy->bytes);
    return tn_bytes_of(copy->bytes, copy->len);
}

/* ---- leases by lsn ---- */

static bool lease_equal(const void *ctx, uint32_t ref, const void *key) {
    return lease_at(ctx, ref)->lsn == *(const uint64_t *)key;
}

uint32_t kernel_index_lease(const struct kernel *k, uint64_t lsn) {
    return tn_map_find(&k->leases, kernel_index_lease_hash(k, lsn), lease_equal, k, &lsn);
}

void kernel_index_lease_add(struct kernel *k, uint32_t lease) {
    TN_ASSERT(lease_at(k, lease)->lsn > 0); /* 0 marks a free record */
    tn_map_insert(&k->leases, kernel_index_lease_hash(k, lease_at(k, lease)->lsn), lease);
}

void kernel_index_lease_remove(struct kernel *k, uint32_t lease) {
    tn_map_remove(&k->leases, kernel_index_lease_hash(k, lease_at(k, lease)->lsn), lease);
}

/* ---- numbers of ranges ---- */

uint64_t kernel_index_value_hash(const struct kernel *k, uint32_t pool, uint64_t number) {
    return hash_pair(k, pool, number);
}

struct value_key {
    uint64_t number;
    uint32_t pool;
};

static bool value_equal(const void *ctx, uint32_t ref, const void *key) {
    const struct member *m = member_at(ctx, ref);
    const struct value_key *wanted = key;
    return m->value == wanted->number && m->pool == wanted->pool;
}

uint32_t kernel_index_value(const struct kernel *k, uint32_t pool, uint64_t number) {
    struct value_key key = {.number = number, .pool = pool};
    return tn_map_find(&k->values, kernel_index_value_hash(k, pool, number), value_equal, k, &key);
}

void kernel_index_value_add(struct kernel *k, uint32_t member) {
    const struct member *m = member_at(k, member);
    tn_map_insert(&k->values, kernel_index_value_hash(k, m->pool, m->value), member);
}

void kernel_index_value_remove(struct kernel *k, uint32_t member) {
    const struct member *m = member_at(k, member);
    tn_map_remove(&k->values, kernel_index_value_hash(k, m->pool, m->value), member);
}

/* ---- resources of sets, by name and by ordinal ---- */

struct resource_key {
    struct tn_bytes name;
    uint64_t ordinal;
    uint32_t pool;
};

static bool resource_equal(const void *ctx, uint32_t ref, const void *key) {
    const struct kernel *k = ctx;
    const struct resource *r = resource_at(k, ref);
    const struct resource_key *wanted = key;
    return r->pool == wanted->pool && tn_text_equal(&k->tables[TABLE_TEXT], r->name, wanted->name);
}

static bool ordinal_equal(const void *ctx, uint32_t ref, const void *key) {
    const struct resource *r = resource_at(ctx, ref);
    const struct resource_key *wanted = key;
    return r->pool == wanted->pool && r->ordinal == wanted->ordinal;
}

uint32_t kernel_index_resource(const struct kernel *k, uint32_t pool, struct tn_bytes name) {
    struct resource_key key = {.name = name, .pool = pool};
    return tn_map_find(&k->resources, hash_text(k, name, pool), resource_equal, k, &key);
}

uint32_t kernel_index_ordinal(const struct kernel *k, uint32_t pool, uint64_t ordinal) {
    struct resource_key key = {.ordinal = ordinal, .pool = pool};
    return tn_map_find(&k->ordinals, hash_pair(k, pool, ordinal), ordinal_equal, k, &key);
}

static uint64_t resource_hash(const struct kernel *k, const struct resource *r) {
    struct text_copy copy;
    return hash_text(k, text_load(&k->tables[TABLE_TEXT], r->name, &copy), r->pool);
}

void kernel_index_resource_add(struct kernel *k, uint32_t resource) {
    const struct resource *r = resource_at(k, resource);
    tn_map_insert(&k->resources, resource_hash(k, r), resource);
    tn_map_insert(&k->ordinals, hash_pair(k, r->pool, r->ordinal), resource);
}

void kernel_index_resource_remove(struct kernel *k, uint32_t resource) {
    const struct resource *r = resource_at(k, resource);
    tn_map_remove(&k->resources, resource_hash(k, r), resource);
    tn_map_remove(&k->ordinals, hash_pair(k, r->pool, r->ordinal), resource);
}

/* ---- grants by pool and holder ---- */

static bool grant_equal(const void *ctx, uint32_t ref, const void *key) {
    const struct grant *g = grant_at(ctx, ref);
    const struct grant *wanted = key;
    return g->pool == wanted->pool && g->holder == wanted->holder;
}

uint32_t kernel_index_grant(const struct kernel *k, uint32_t pool, uint32_t holder) {
    struct grant key = {.pool = pool, .holder = holder};
    return tn_map_find(&k->grants, hash_pair(k, pool, holder), grant_equal, k, &key);
}

void kernel_index_grant_add(struct kernel *k, uint32_t grant) {
    const struct grant *g = grant_at(k, grant);
    tn_map_insert(&k->grants, hash_pair(k, g->pool, g->holder), grant);
}

void kernel_index_grant_remove(struct kernel *k, uint32_t grant) {
    const struct grant *g = grant_at(k, grant);
    tn_map_remove(&k->grants, hash_pair(k, g->pool, g->holder), grant);
}

/* ---- operations by user and id ---- */

struct op_key {
    struct tn_bytes opid;
    uint32_t user;
};

static bool op_equal(const void *ctx, uint32_t ref, const void *key) {
    const struct kernel *k = ctx;
    const struct op *o = op_at(k, ref);
    const struct op_key *wanted = key;
    return o->user == wanted->user &&
           tn_text_equal(&k->tables[TABLE_OP_TEXT], o->opid, wanted->opid);
}

uint32_t kernel_index_op(const struct kernel *k, uint32_t user, struct tn_bytes opid) {
    struct op_key key = {.opid = opid, .user = user};
    return tn_map_find(&k->ops, hash_text(k, opid, user), op_equal, k, &key);
}

static uint64_t op_hash(const struct kernel *k, const struct op *o) {
    struct text_copy copy;
    return hash_text(k, text_load(&k->tables[TABLE_OP_TEXT], o->opid, &copy), o->user);
}

void kernel_index_op_add(struct kernel *k, uint32_t op) {
    tn_map_insert(&k->ops, op_hash(k, op_at(k, op)), op);
}

void kernel_index_op_remove(struct kernel *k, uint32_t op) {
    tn_map_remove(&k->ops, op_hash(k, op_at(k, op)), op);
}

/* ---- records with one text ---- */

static struct tn_map *text_map(struct kernel *k, enum kernel_text_kind kind) {
    switch (kind) {
    case TEXT_NAME:
        return &k->names;
    case TEXT_POOL:
        return &k->pools;
    case TEXT_RULE:
        return &k->rules;
    case TEXT_SENSOR:
        return &k->sensors;
    case TEXT_TRIGGER:
        return &k->triggers;
    case TEXT_USER:
        break;
    }
    return &k->users;
}

static uint32_t text_of(const struct kernel *k, enum kernel_text_kind kind, uint32_t ref) {
    switch (kind) {
    case TEXT_NAME:
        return name_at(k, ref)->text;
    case TEXT_POOL:
        return pool_at(k, ref)->name;
    case TEXT_RULE:
        return rule_at(k, ref)->id;
    case TEXT_SENSOR:
        return sensor_at(k, ref)->ref;
    case TEXT_TRIGGER:
        return trigger_at(k, ref)->text;
    case TEXT_USER:
        break;
    }
    return user_at(k, ref)->name;
}

uint64_t kernel_index_text_hash(const struct kernel *k, struct tn_bytes text) {
    return hash_text(k, text, 0);
}

struct text_key {
    struct tn_bytes text;
    enum kernel_text_kind kind;
};

static bool text_equal(const void *ctx, uint32_t ref, const void *key) {
    const struct kernel *k = ctx;
    const struct text_key *wanted = key;
    return tn_text_equal(&k->tables[TABLE_TEXT], text_of(k, wanted->kind, ref), wanted->text);
}

uint32_t kernel_index_text(const struct kernel *k, enum kernel_text_kind kind,
                           struct tn_bytes text) {
    struct text_key key = {.text = text, .kind = kind};
    const struct tn_map *map = text_map((struct kernel *)(uintptr_t)k, kind);
    return tn_map_find(map, hash_text(k, text, 0), text_equal, k, &key);
}

static uint64_t text_hash(const struct kernel *k, enum kernel_text_kind kind, uint32_t ref) {
    struct text_copy copy;
    return hash_text(k, text_load(&k->tables[TABLE_TEXT], text_of(k, kind, ref), &copy), 0);
}

void kernel_index_text_add(struct kernel *k, enum kernel_text_kind kind, uint32_t ref) {
    tn_map_insert(text_map(k, kind), text_hash(k, kind, ref), ref);
}

void kernel_index_text_remove(struct kernel *k, enum kernel_text_kind kind, uint32_t ref) {
    tn_map_remove(text_map(k, kind), text_hash(k, kind, ref), ref);
}
