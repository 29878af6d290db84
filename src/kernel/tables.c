/* Memory: allocated only here, at creation or at a change of limits, and never moved.
 *
 * Each table and each large index has its own stretch of address space; the small maps, bitmaps,
 * timers and scratch share one more. All of them fill from their beginning, so the memory in use
 * follows the number of records, not the limits; the sizes follow from the limits so that no insertion
 * behind a checked limit can fail:
 *
 *   leases   live + ended            members  held and cooling + ended + cold
 *   values   members that own: held, cooling, cold (all may be scattered in the bitmap)
 *   timers   one a live lease, one a cooling member, one a clock
 *   words    one a value that owns, one a pool
 *   lines    one a want, one a waiter */
#include "kernel/state.h"

#define ALIGN 64u
#define STRETCH_BYTES_MIN ((size_t)4 << 20) /* minimum size of an index with a stretch of its own */

struct table_shape {
    uint64_t record_bytes;
    uint64_t capacity;
};

static uint64_t text_chunks_of(const struct kernel_limits *limits) {
    return limits->of[KERNEL_LIMIT_TEXT_BYTES] / TN_TEXT_CHUNK_BYTES;
}

/* A remembered operation takes its id and its result: four chunks cover an id of 20 bytes and a
 * lease of two numbers; larger ones use more, and room is counted in chunks. */
static uint64_t op_chunks_of(const struct kernel_limits *limits) {
    return limits->of[KERNEL_LIMIT_OPS] * 6 + 65536;
}

/* Live pools, and dropped ones that history still names. */
static uint64_t pool_records_of(const struct kernel_limits *limits) {
    return limits->of[KERNEL_LIMIT_POOLS] + limits->of[KERNEL_LIMIT_HISTORY];
}

static struct table_shape shape_of(const struct kernel_limits *limits, unsigned table) {
    const uint64_t *of = limits->of;
    /* A lease that ends may for a moment have its members in history twice its bundle over. */
    uint64_t members = of[KERNEL_LIMIT_MEMBERS] + of[KERNEL_LIMIT_HISTORY] + of[KERNEL_LIMIT_COLD] +
                       2 * of[KERNEL_LIMIT_BUNDLE];
    switch ((enum kernel_table_id)table) {
    case TABLE_ROOT:
        return (struct table_shape){sizeof(struct root), 1};
    case TABLE_LEASE:
        return (struct table_shape){sizeof(struct lease),
                                    of[KERNEL_LIMIT_LEASES] + of[KERNEL_LIMIT_HISTORY]};
    case TABLE_MEMBER:
        return (struct table_shape){sizeof(struct member), members};
    case TABLE_POOL:
        return (struct table_shape){sizeof(struct pool), pool_records_of(limits)};
    case TABLE_RESOURCE:
        return (struct table_shape){sizeof(struct resource), of[KERNEL_LIMIT_RESOURCES]};
    case TABLE_NAME:
        return (struct table_shape){sizeof(struct name), of[KERNEL_LIMIT_NAMES]};
    case TABLE_TEXT:
        return (struct table_shape){TN_TEXT_CHUNK_BYTES, text_chunks_of(limits)};
    case TABLE_GRANT:
        return (struct table_shape){sizeof(struct grant), of[KERNEL_LIMIT_MEMBERS]};
    case TABLE_OP:
        return (struct table_shape){sizeof(struct op), of[KERNEL_LIMIT_OPS]};
    case TABLE_OP_TEXT:
        return (struct table_shape){TN_TEXT_CHUNK_BYTES, op_chunks_of(limits)};
    case TABLE_JOB:
        return (struct table_shape){sizeof(struct job), of[KERNEL_LIMIT_DISOWNS]};
    case TABLE_METER:
        return (struct table_shape){offsetof(struct meter, rate) +
                                        tn_rate_bytes((uint32_t)of[KERNEL_LIMIT_RATE_WINDOW]),
                                    of[KERNEL_LIMIT_RATES]};
    case TABLE_RULE:
        return (struct table_shape){sizeof(struct rule), of[KERNEL_LIMIT_RULES]};
    case TABLE_SENSOR:
        return (struct table_shape){sizeof(struct sensor), of[KERNEL_LIMIT_SENSORS]};
    case TABLE_TRIGGER:
        /* One more, because a change of trigger takes the new one before it releases the old
         * one. */
        return (struct table_shape){sizeof(struct trigger),
                                    of[KERNEL_LIMIT_RULES] + of[KERNEL_LIMIT_SENSORS] + 1};
    case TABLE_TOMBSTONE:
        return (struct table_shape){sizeof(struct tombstone), KERNEL_TOMBSTONES_MAX};
    case TABLE_WAITER:
        return (struct table_shape){sizeof(struct waiter), of[KERNEL_LIMIT_WAITERS]};
    case TABLE_WANT:
        return (struct table_shape){sizeof(struct want), of[KERNEL_LIMIT_WAITERS]};
    case TABLE_USER:
        return (struct table_shape){sizeof(struct user), of[KERNEL_LIMIT_USERS]};
    case TABLE_COUNT:
        break;
    }
    TN_ASSERT(false);
    return (struct table_shape){0, 0};
}

/* Hands out aligned pieces of one stretch, and stretches of their own; without a kernel it only adds up. */
struct carve {
    struct kernel *k;
    size_t at;       /* in the common stretch */
    size_t apart;    /* bytes in stretches of their own */
    unsigned pieces; /* stretches of their own */
    enum tn_status status;
};

static void *carve_apart(struct carve *c, size_t bytes) {
    void *piece = NULL;
    unsigned i = c->pieces++;
    c->apart += bytes;
    TN_ASSERT(c->pieces <= KERNEL_PIECES_MAX);
    if (c->k == NULL || c->status != TN_OK) {
        return NULL;
    }
    c->status = c->k->env.mem_reserve(c->k->env.ctx, bytes, true, &piece);
    if (c->status != TN_OK) {
        return NULL;
    }
    c->k->pieces[i] = piece;
    c->k->piece_bytes[i] = bytes;
    return piece;
}

static void *carve_take(struct carve *c, size_t bytes) {
    if (bytes >= STRETCH_BYTES_MIN) {
        return carve_apart(c, bytes);
    }
    void *piece = c->k == NULL ? NULL : (uint8_t *)c->k->memory + c->at;
    c->at += (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    return piece;
}

static void carve_map(struct carve *c, struct tn_map *map, uint64_t limit) {
    void *piece = carve_take(c, tn_map_bytes((uint32_t)limit));
    if (piece != NULL) {
        tn_map_init(map, piece, (uint32_t)limit);
    }
}

static void carve_maps(struct carve *c, struct kernel *k, const struct kernel_limits *limits) {
    const uint64_t *of = limits->of;
    carve_map(c, &k->leases, of[KERNEL_LIMIT_LEASES] + of[KERNEL_LIMIT_HISTORY]);
    carve_map(c, &k->values, of[KERNEL_LIMIT_MEMBERS] + of[KERNEL_LIMIT_COLD]);
    carve_map(c, &k->names, of[KERNEL_LIMIT_NAMES]);
    carve_map(c, &k->pools, pool_records_of(limits));
    carve_map(c, &k->resources, of[KERNEL_LIMIT_RESOURCES]);
    carve_map(c, &k->ordinals, of[KERNEL_LIMIT_RESOURCES]);
    carve_map(c, &k->grants, of[KERNEL_LIMIT_MEMBERS]);
    carve_map(c, &k->ops, of[KERNEL_LIMIT_OPS]);
    carve_map(c, &k->rules, of[KERNEL_LIMIT_RULES]);
    carve_map(c, &k->sensors, of[KERNEL_LIMIT_SENSORS]);
    carve_map(c, &k->triggers, of[KERNEL_LIMIT_RULES] + of[KERNEL_LIMIT_SENSORS] + 1);
    carve_map(c, &k->users, of[KERNEL_LIMIT_USERS]);
}

/* A holder's index has LISTS_MIN / 2 entries at least, which bounds how many there can be. */
static void carve_lists(struct carve *c, struct kernel *k, const struct kernel_limits *limits) {
    const uint64_t *of = limits->of;
    uint64_t pools = pool_records_of(limits);
    uint32_t entries = (uint32_t)(of[KERNEL_LIMIT_LEASES] + of[KERNEL_LIMIT_MEMBERS]);
    uint32_t roots = (uint32_t)(of[KERNEL_LIMIT_LEASES] / (LISTS_MIN / 2) + pools + 1);
    void *memory = carve_take(c, tn_timer_bytes(entries, roots));
    k->lists.holder_live = carve_take(c, of[KERNEL_LIMIT_NAMES] * sizeof *k->lists.holder_live);
    k->lists.holder_roots = carve_take(c, of[KERNEL_LIMIT_NAMES] * sizeof *k->lists.holder_roots);
    k->lists.template_roots = carve_take(c, pools * sizeof *k->lists.template_roots);
    k->user_values = carve_take(c, of[KERNEL_LIMIT_NAMES] * sizeof *k->user_values);
    if (c->k != NULL) {
        tn_timer_init(&k->lists.trees, memory, entries, roots);
    }
}

static void carve_indices(struct carve *c, struct kernel *k, const struct kernel_limits *limits) {
    const uint64_t *of = limits->of;
    uint64_t taken = of[KERNEL_LIMIT_MEMBERS] + of[KERNEL_LIMIT_COLD];
    uint64_t resources = of[KERNEL_LIMIT_RESOURCES];
    uint64_t pools = pool_records_of(limits);
    uint32_t entries = (uint32_t)(of[KERNEL_LIMIT_LEASES] + of[KERNEL_LIMIT_MEMBERS] + pools + 1);
    uint32_t roots = (uint32_t)(2 * pools + 2);
    void *taken_memory = carve_take(c, tn_bitmap_bytes(TN_BITMAP_FULL, taken));
    void *available_memory = carve_take(c, tn_bitmap_bytes(TN_BITMAP_ANY, resources));
    void *timer_memory = carve_take(c, tn_timer_bytes(entries, roots));
    k->clocks = carve_take(c, roots * sizeof *k->clocks);
    k->clock_before = carve_take(c, (pools + 1) * sizeof *k->clock_before);
    k->lows = carve_take(c, pools * sizeof *k->lows);
    uint32_t words = (uint32_t)(taken + pools); /* each pool may have an idle one */
    void *words_memory = carve_take(c, tn_timer_bytes(words, (uint32_t)pools));
    k->word_roots = carve_take(c, pools * sizeof *k->word_roots);
    k->word_idle = carve_take(c, pools * sizeof *k->word_idle);
    carve_lists(c, k, limits);
    k->ended_before = carve_take(c, (of[KERNEL_LIMIT_LEASES] + of[KERNEL_LIMIT_HISTORY]) *
                                        sizeof *k->ended_before);
    uint32_t places = (uint32_t)(2 * of[KERNEL_LIMIT_WAITERS]);
    void *lines_memory = carve_take(c, tn_timer_bytes(places, (uint32_t)pools + 1));
    k->line_roots = carve_take(c, (pools + 1) * sizeof *k->line_roots);
    if (c->k == NULL) {
        return;
    }
    tn_timer_init(&k->lines, lines_memory, places, (uint32_t)pools + 1);
    tn_bitmap_init(&k->taken, TN_BITMAP_FULL, taken_memory, taken, k->env.hash_seed);
    tn_bitmap_init(&k->available, TN_BITMAP_ANY, available_memory, resources, k->env.hash_seed);
    tn_timer_init(&k->timers, timer_memory, entries, roots);
    tn_timer_init(&k->words, words_memory, words, (uint32_t)pools);
    k->due = (struct tn_timer_root){0};
}

/* An operation's result in full: fixed part and one value a member. */
static size_t op_buffer_bytes(const struct kernel_limits *limits) {
    return 128 + limits->of[KERNEL_LIMIT_BUNDLE] * (KERNEL_RESOURCE_MAX + 16);
}

static void carve_all(struct carve *c, struct kernel *k, const struct kernel_limits *limits) {
    uint64_t bundle = limits->of[KERNEL_LIMIT_BUNDLE];
    carve_maps(c, k, limits);
    carve_indices(c, k, limits);
    k->empty_scopes = carve_take(c, pool_records_of(limits) * sizeof *k->empty_scopes);
    k->plan_members = carve_take(c, bundle * sizeof *k->plan_members);
    k->plan_claims = carve_take(c, bundle * sizeof *k->plan_claims);
    k->event_values = carve_take(c, bundle * sizeof *k->event_values);
    k->wait_values = carve_take(c, bundle * sizeof *k->wait_values);
    k->wait_claims = carve_take(c, KERNEL_WAIT_CLAIMS_MAX);
    k->op_buffer_bytes = op_buffer_bytes(limits);
    k->op_buffer = carve_take(c, k->op_buffer_bytes);
}

static enum tn_status table_take(struct kernel *k, unsigned i, const struct kernel_limits *limits) {
    struct table_shape shape = shape_of(limits, i);
    /* By the largest value that each limit can have. */
    TN_ASSERT(shape.capacity < CLOCK_MEMBER || i == TABLE_TEXT || i == TABLE_OP_TEXT);
    TN_ASSERT(shape.capacity < TN_NONE);
    size_t bytes = tn_table_bytes((uint32_t)shape.record_bytes, (uint32_t)shape.capacity);
    enum tn_status status =
        k->env.mem_reserve(k->env.ctx, bytes, bytes >= STRETCH_BYTES_MIN, &k->table_memory[i]);
    if (status != TN_OK) {
        return status;
    }
    k->table_bytes[i] = bytes;
    tn_table_init(&k->tables[i], i, k->table_memory[i], (uint32_t)shape.record_bytes,
                  (uint32_t)shape.capacity);
    return TN_OK;
}

enum tn_status kernel_memory_take(struct kernel *k, const struct kernel_limits *limits) {
    struct carve measure = {.status = TN_OK};
    carve_all(&measure, k, limits);
    enum tn_status status = k->env.mem_reserve(k->env.ctx, measure.at, false, &k->memory);
    if (status != TN_OK) {
        k->memory = NULL;
        return status;
    }
    k->memory_bytes = measure.at;
    k->apart_bytes = measure.apart;
    struct carve c = {.k = k, .status = TN_OK};
    carve_all(&c, k, limits);
    status = c.status;
    for (unsigned i = 0; i < TABLE_COUNT && status == TN_OK; i++) {
        status = table_take(k, i, limits);
    }
    if (status != TN_OK) {
        kernel_memory_drop(k);
    }
    return status;
}

bool kernel_memory_fits(const struct kernel *k, const struct kernel_limits *limits) {
    struct kernel measured = {.memory = NULL};
    struct carve measure = {.status = TN_OK};
    carve_all(&measure, &measured, limits);
    for (unsigned i = 0; i < TABLE_COUNT; i++) {
        struct table_shape shape = shape_of(limits, i);
        if (shape.record_bytes != k->tables[i].record_bytes ||
            shape.capacity != k->tables[i].capacity) {
            return false;
        }
    }
    return measure.at == k->memory_bytes && measure.apart == k->apart_bytes;
}

void kernel_memory_drop(struct kernel *k) {
    for (unsigned i = 0; i < TABLE_COUNT; i++) {
        if (k->table_memory[i] != NULL) {
            k->env.mem_release(k->env.ctx, k->table_memory[i], k->table_bytes[i]);
            k->table_memory[i] = NULL;
        }
    }
    for (unsigned i = 0; i < KERNEL_PIECES_MAX; i++) {
        if (k->pieces[i] != NULL) {
            k->env.mem_release(k->env.ctx, k->pieces[i], k->piece_bytes[i]);
            k->pieces[i] = NULL;
        }
    }
    if (k->memory != NULL) {
        k->env.mem_release(k->env.ctx, k->memory, k->memory_bytes);
        k->memory = NULL;
    }
}
