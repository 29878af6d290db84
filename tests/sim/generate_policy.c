/* Random policies: small ranges, short times, thresholds that a few leases reach. */
#include "sim/generate.h"

#include <stdio.h>

static void option(struct generate_draft *d, enum kernel_option o, uint64_t value) {
    d->patch.mask |= 1u << o;
    d->patch.values.of[o] = value;
}

static void some_range(struct generate *g, struct generate_draft *d) {
    uint64_t lo = generate_below(g, 5);
    option(d, KERNEL_OPTION_LO, lo);
    option(d, KERNEL_OPTION_HI, lo + generate_below(g, g->crowded ? 40 : 12));
    uint32_t odd = generate_below(g, 30);
    if (odd == 0) {
        option(d, KERNEL_OPTION_LO, 0);
        option(d, KERNEL_OPTION_HI, UINT64_MAX);
    } else if (odd == 1) {
        option(d, KERNEL_OPTION_LO, UINT64_MAX - generate_below(g, 4));
        option(d, KERNEL_OPTION_HI, UINT64_MAX);
    } else if (odd == 2) {
        option(d, KERNEL_OPTION_LO, 9);
        option(d, KERNEL_OPTION_HI, 8);
    }
}

/* One to four spans, in any order; some touch, some overlap. */
static void some_spans(struct generate *g, struct generate_draft *d) {
    uint64_t at = generate_below(g, 5);
    d->patch.has_spans = true;
    d->patch.values.span_count = 1 + generate_below(g, 4);
    for (uint64_t i = 0; i < d->patch.values.span_count; i++) {
        uint64_t far = generate_chance(g, 10) ? (uint64_t)1 << (6 + generate_below(g, 40)) : 0;
        uint64_t gap = generate_chance(g, 3) ? 0 : 1 + generate_below(g, 5) + far;
        d->patch.values.spans[i].lo = at;
        d->patch.values.spans[i].hi = at + generate_below(g, g->crowded ? 20 : 5);
        at = d->patch.values.spans[i].hi + gap;
    }
    if (generate_below(g, 40) == 0) {
        d->patch.values.spans[0].hi = UINT64_MAX - generate_below(g, 3);
        d->patch.values.span_count = 1;
    }
    uint64_t swap = generate_below(g, (uint32_t)d->patch.values.span_count);
    struct kernel_span first = d->patch.values.spans[0];
    d->patch.values.spans[0] = d->patch.values.spans[swap];
    d->patch.values.spans[swap] = first;
}

static void some_excludes(struct generate *g, struct generate_draft *d) {
    d->patch.has_exclude = true;
    d->patch.values.exclude_count = generate_below(g, 3);
    uint64_t at = generate_below(g, 6);
    for (uint64_t i = 0; i < d->patch.values.exclude_count; i++) {
        d->patch.values.exclude[i].lo = at;
        d->patch.values.exclude[i].hi = at + generate_below(g, 3);
        at += 1 + generate_below(g, 5);
    }
    if (d->patch.values.exclude_count == 2 && generate_chance(g, 30)) {
        struct kernel_span first = d->patch.values.exclude[0];
        d->patch.values.exclude[0] = d->patch.values.exclude[1];
        d->patch.values.exclude[1] = first;
    }
}

/* Thresholds that one to four leases in the window reach. */
static void some_rates(struct generate *g, struct generate_draft *d) {
    uint64_t window = 1 + generate_below(g, 40);
    uint64_t one = (uint64_t)3600 * 1000000 / window;
    uint64_t high = one * generate_below(g, 4) + generate_below(g, 2000000);
    option(d, KERNEL_OPTION_RATE_WINDOW, window);
    option(d, KERNEL_OPTION_HIGH_RATE, high);
    option(d, KERNEL_OPTION_ULTRA_RATE,
           generate_chance(g, 5) ? high / 2 : high + one * generate_below(g, 4));
    option(d, KERNEL_OPTION_ULTRA_SUSTAIN, generate_below(g, generate_chance(g, 50) ? 2 : 12));
    option(d, KERNEL_OPTION_MIN_FACTOR, generate_below(g, 5) * 250000);
    option(d, KERNEL_OPTION_MIN_LEASE, generate_chance(g, 70) ? 0 : generate_below(g, 8));
    option(d, KERNEL_OPTION_FORCE_RELEASE, generate_chance(g, 70));
    option(d, KERNEL_OPTION_ADAPTIVE, !generate_chance(g, 20));
    if (g->storm && generate_chance(g, 80)) {
        /* Offline leases first, then a rate that ends them all. */
        option(d, KERNEL_OPTION_HIGH_RATE, one * 2);
        option(d, KERNEL_OPTION_ULTRA_RATE, one * (3 + generate_below(g, 3)));
        option(d, KERNEL_OPTION_ULTRA_SUSTAIN, generate_below(g, 3));
        option(d, KERNEL_OPTION_MIN_FACTOR, 500000);
        option(d, KERNEL_OPTION_FORCE_RELEASE, 1);
        option(d, KERNEL_OPTION_ADAPTIVE, 1);
    }
}

static uint64_t zero_or(struct generate *g, uint32_t percent_zero, uint32_t n) {
    if (generate_below(g, 250) == 0) {
        return UINT32_MAX;
    }
    return generate_chance(g, percent_zero) ? 0 : 1 + generate_below(g, n);
}

static void some_option(struct generate *g, struct generate_draft *d, uint32_t which) {
    switch (which) {
    case 0:
        if (generate_chance(g, 40)) {
            some_spans(g, d);
        } else {
            some_range(g, d);
        }
        break;
    case 1:
        option(d, KERNEL_OPTION_STRATEGY, generate_below(g, 4));
        break;
    case 2:
        option(d, KERNEL_OPTION_LEASE, zero_or(g, 30, generate_chance(g, 40) ? 120 : 12));
        break;
    case 3:
        option(d, KERNEL_OPTION_MAX_LEASE, zero_or(g, 75, 120));
        break;
    case 4:
        option(d, KERNEL_OPTION_MAX_HOLD, zero_or(g, 70, 60));
        break;
    case 5:
        option(d, KERNEL_OPTION_RESERVE_TTL_MAX, zero_or(g, 10, 12));
        break;
    case 6:
        option(d, KERNEL_OPTION_GRACE, zero_or(g, 50, 5));
        break;
    case 7:
        option(d, KERNEL_OPTION_COOLDOWN, zero_or(g, 50, 6));
        break;
    case 8:
        option(d, KERNEL_OPTION_MAX_PER_HOLDER, zero_or(g, 50, 4));
        break;
    case 9:
        some_excludes(g, d);
        break;
    case 10:
        option(d, KERNEL_OPTION_FORMAT, generate_below(g, 4));
        option(d, KERNEL_OPTION_IDENTITY, generate_below(g, KERNEL_IDENTITY_MAX + 2));
        break;
    default:
        some_rates(g, d);
        break;
    }
}

/* Creates an existing pool again, with the options that it has. */
static bool some_create_again(struct generate *g, struct generate_draft *d, const struct model *m) {
    uint32_t pool;
    generate_pool(g, m, d->pool, sizeof d->pool);
    pool = model_pool_find(m, d->pool);
    if (pool == MODEL_NONE || m->pools[pool].is_scope) {
        return false;
    }
    d->c.pool = generate_text(d->pool);
    d->patch.values = m->pools[pool].own;
    d->patch.mask = (1u << KERNEL_OPTION_COUNT) - 1;
    d->patch.has_exclude = true;
    d->patch.has_spans = d->patch.values.span_count > 0;
    d->c.rights |= d->patch.values.of[KERNEL_OPTION_INTERNAL] ? KERNEL_RIGHT_SUPERVISOR : 0;
    return true;
}

/* Creates a scope by its name, with some options of its own. */
static void scope_create(struct generate *g, struct generate_draft *d, const struct model *m) {
    for (uint32_t tries = 0; tries < 6 && strchr(d->pool, '@') == NULL; tries++) {
        generate_pool(g, m, d->pool, sizeof d->pool);
    }
    d->c.pool = generate_text(d->pool);
    d->patch.strict = generate_chance(g, 50);
    for (uint32_t i = generate_below(g, 3); i > 0; i--) {
        some_option(g, d, generate_below(g, 12));
    }
    if (generate_chance(g, 3)) {
        option(d, KERNEL_OPTION_STICKY, generate_below(g, 2));
    }
}

void generate_pool_create(struct generate *g, struct generate_draft *d, const struct model *m) {
    if (generate_chance(g, 8) && some_create_again(g, d, m)) {
        return;
    }
    for (uint32_t tries = 0; tries < 3; tries++) {
        snprintf(d->pool, sizeof d->pool, "p%u", generate_below(g, g->pools));
        if (model_pool_find(m, d->pool) == MODEL_NONE) {
            break;
        }
    }
    if (generate_chance(g, 1)) {
        strcat(d->pool, "@a");
    }
    if (generate_chance(g, 15)) {
        scope_create(g, d, m);
        return;
    }
    d->patch.strict = generate_chance(g, 50);
    d->c.pool = generate_text(d->pool);
    bool set = generate_chance(g, 25);
    some_option(g, d, 0);
    for (uint32_t i = 1; i < 11; i++) {
        if (generate_chance(g, 45) && !(set && i == 9)) {
            some_option(g, d, i);
        }
    }
    if (set) {
        option(d, KERNEL_OPTION_KIND, KERNEL_SET);
    }
    if (!set && generate_chance(g, 25)) {
        option(d, KERNEL_OPTION_SCOPED, 1);
    }
    if (generate_chance(g, g->sticky_percent)) {
        option(d, KERNEL_OPTION_STICKY, 1);
        option(d, KERNEL_OPTION_LEASE, 1 + generate_below(g, generate_chance(g, 50) ? 60 : 12));
        option(d, KERNEL_OPTION_MAX_LEASE, zero_or(g, 70, 20));
        some_rates(g, d);
    }
    if (generate_chance(g, 5)) {
        d->patch.mask &= ~(1u << KERNEL_OPTION_LEASE); /* the default */
    }
    if (generate_chance(g, set ? 25 : 4)) {
        option(d, KERNEL_OPTION_INTERNAL, 1);
        d->c.rights |= generate_chance(g, 60) ? KERNEL_RIGHT_SUPERVISOR : 0;
    }
}

void generate_pool_alter(struct generate *g, struct generate_draft *d, const struct model *m) {
    generate_pool(g, m, d->pool, sizeof d->pool);
    if (generate_chance(g, 70)) {
        d->pool[strcspn(d->pool, "@")] = '\0';
    }
    d->c.pool = generate_text(d->pool);
    d->patch.strict = generate_chance(g, 50);
    uint32_t count = 1 + generate_below(g, 2);
    for (uint32_t i = 0; i < count; i++) {
        some_option(g, d, generate_below(g, 12));
    }
    if (generate_chance(g, 5)) {
        option(d, KERNEL_OPTION_STICKY, generate_below(g, 2));
    } else if (generate_chance(g, 2)) {
        option(d, KERNEL_OPTION_KIND, generate_below(g, 2));
    } else if (generate_chance(g, 2)) {
        option(d, KERNEL_OPTION_INTERNAL, generate_below(g, 2));
    }
}
