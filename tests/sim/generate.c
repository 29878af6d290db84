/* See generate.h. */
#include "sim/generate.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static struct kernel_limits some_limits(struct generate *g) {
    struct kernel_limits limits = kernel_limits_default();
    limits.of[KERNEL_LIMIT_LEASES] = 3 + generate_below(g, generate_chance(g, 40) ? 100 : 30);
    limits.of[KERNEL_LIMIT_MEMBERS] = 4 + generate_below(g, generate_chance(g, 50) ? 200 : 60);
    limits.of[KERNEL_LIMIT_HISTORY] = 1 + generate_below(g, 48);
    limits.of[KERNEL_LIMIT_HISTORY_SECONDS] = generate_chance(g, 20) ? 0 : generate_below(g, 60);
    limits.of[KERNEL_LIMIT_POOLS] = 4 + generate_below(g, 12);
    limits.of[KERNEL_LIMIT_RESOURCES] = 1 + generate_below(g, 24);
    limits.of[KERNEL_LIMIT_NAMES] = generate_chance(g, 30) ? 3 + generate_below(g, 8) : 64;
    limits.of[KERNEL_LIMIT_TEXT_BYTES] = 65536;
    limits.of[KERNEL_LIMIT_OPS] = 1 + generate_below(g, 12);
    limits.of[KERNEL_LIMIT_OP_SECONDS] = 1 + generate_below(g, 30);
    limits.of[KERNEL_LIMIT_BUNDLE] = 2 + generate_below(g, 7);
    limits.of[KERNEL_LIMIT_SWEEP_STEP] = 1 + generate_below(g, 5);
    limits.of[KERNEL_LIMIT_TICK_STEP] = 1 + generate_below(g, 12);
    limits.of[KERNEL_LIMIT_DISOWNS] = 1 + generate_below(g, 3);
    limits.of[KERNEL_LIMIT_RATES] = 1 + generate_below(g, 8);
    limits.of[KERNEL_LIMIT_RATE_WINDOW] = 60;
    limits.of[KERNEL_LIMIT_COLD] = 2 + generate_below(g, 20);
    limits.of[KERNEL_LIMIT_COLD_PER_POOL] = 1 + generate_below(g, 8);
    limits.of[KERNEL_LIMIT_RULES] = 1 + generate_below(g, 8);
    limits.of[KERNEL_LIMIT_SENSORS] = 1 + generate_below(g, 6);
    limits.of[KERNEL_LIMIT_USERS] = 1 + limits.of[KERNEL_LIMIT_LEASES] % 5;
    limits.of[KERNEL_LIMIT_WAITERS] = 1 + generate_below(g, generate_chance(g, 30) ? 4 : 24);
    if (g->slow_drain) {
        /* No client can tell when the record of a dropped set is freed: no request may depend on
         * it. */
        limits.of[KERNEL_LIMIT_HISTORY] = 40;
    }
    return limits;
}

struct kernel_limits generate_other_limits(struct generate *g, const struct kernel_limits *old) {
    struct kernel_limits limits = some_limits(g);
    uint64_t users = limits.of[KERNEL_LIMIT_USERS], before = old->of[KERNEL_LIMIT_USERS];
    limits.of[KERNEL_LIMIT_USERS] = users < before ? before : users; /* without dice */
    for (uint32_t i = 0; i < KERNEL_LIMIT_USERS; i++) {
        bool smaller = limits.of[i] < old->of[i];
        if (generate_chance(g, 60) || (smaller && generate_chance(g, 90))) {
            limits.of[i] = old->of[i];
        }
    }
    return limits;
}

void generate_open(struct generate *g, uint64_t seed) {
    memset(g, 0, sizeof *g);
    tn_prng_seed(&g->random, seed);
    g->users = seed % 5 == 3;
    g->slow_drain = generate_chance(g, 30);
    g->limits = some_limits(g);
    g->now_ms = 1000000 + generate_below(g, 2000);
    if (generate_chance(g, 5)) {
        g->now_ms = generate_chance(g, 50) ? 1 : KERNEL_TIME_MAX - (uint64_t)1000 * UINT32_MAX;
    }
    g->holders = 2 + generate_below(g, 8);
    g->pools = 2 + generate_below(g, 6);
    g->calm = generate_chance(g, 50);
    g->sticky_percent = generate_chance(g, 40) ? 90 : 25;
    g->many_ops = generate_chance(g, 10);
    g->crowded = generate_chance(g, 50);
    g->storm = g->sticky_percent > 50 && generate_chance(g, 60);
    if (g->storm) {
        g->calm = true;
        g->holders = 9;
    }
    g->big_meta = generate_chance(g, 30);
    g->patient = generate_chance(g, 40);
    g->many_ops = g->many_ops || (g->patient && generate_chance(g, 40));
}

/* ---- time ---- */

/* Close to something that becomes due: just before, on the millisecond, just after. */
static uint64_t near_deadline(struct generate *g, const struct model *m) {
    uint64_t at = 0;
    if (m->cooling_count > 0 && generate_chance(g, 25)) {
        at = m->cooling[generate_below(g, m->cooling_count)].until_ms;
    } else if (m->op_count > 0 && generate_chance(g, g->many_ops ? 40 : 10)) {
        at = m->ops[0].until_ms;
    } else if (m->history_count > 0 && generate_chance(g, 10)) {
        at = m->history[0].ended_ms + m->limits.of[KERNEL_LIMIT_HISTORY_SECONDS] * 1000;
    } else if (m->lease_count > 0) {
        at = m->leases[generate_below(g, m->lease_count)].deadline_ms;
    }
    if (at == 0) {
        return g->now_ms;
    }
    at = at + generate_below(g, 3) - 1;
    /* Far deadlines are met too, but seldom. */
    uint64_t ahead = at > g->now_ms ? at - g->now_ms : 0;
    bool far =
        (ahead > 30000 && !generate_chance(g, 10)) || (ahead > 86400000 && !generate_chance(g, 3));
    return at < g->now_ms || far ? g->now_ms : at;
}

static void move_time(struct generate *g, const struct model *m) {
    uint32_t dice = generate_below(g, 1000);
    if (g->calm && generate_below(g, 4) != 0) {
        dice = dice % 850; /* mostly little steps */
    }
    if (dice < 550) {
        return;
    }
    if (dice < 830) {
        g->now_ms += generate_below(g, 50);
    } else if (dice < 930) {
        g->now_ms = near_deadline(g, m);
    } else if (dice < 990) {
        g->now_ms += generate_below(g, 2000);
    } else if (dice < 998) {
        g->now_ms += generate_below(g, 60000);
    } else {
        g->now_ms += generate_below(g, 5 * 3600 * 1000);
    }
}

/* ---- pieces ---- */

static void some_holder(struct generate *g, struct generate_draft *d) {
    snprintf(d->holder, sizeof d->holder, "h%u", generate_below(g, g->holders));
    uint32_t odd = generate_below(g, 400);
    if (odd == 0) {
        d->holder[0] = '\0';
    } else if (odd == 1) {
        memset(d->holder, 'x', KERNEL_HOLDER_MAX + 1);
        d->holder[KERNEL_HOLDER_MAX + 1] = '\0';
    }
    d->c.holder = generate_text(d->holder);
}

static const char *some_scope(struct generate *g) {
    const char *scopes[] = {"@a", "@b", "@c", "@d"};
    return scopes[generate_below(g, 4)];
}

void generate_pool(struct generate *g, const struct model *m, char *out, size_t capacity) {
    uint32_t live[MODEL_POOLS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < MODEL_POOLS; i++) {
        if (m->pools[i].state == MODEL_POOL_LIVE) {
            live[count++] = i;
        }
    }
    if (count == 0 || generate_chance(g, 4)) {
        snprintf(out, capacity, "p%u%s", generate_below(g, g->pools),
                 generate_chance(g, 20) ? some_scope(g) : "");
        return;
    }
    const struct model_pool *p = &m->pools[live[generate_below(g, count)]];
    bool template = !p->is_scope && p->own.of[KERNEL_OPTION_SCOPED] != 0;
    snprintf(out, capacity, "%s%s", p->name,
             template && generate_chance(g, 92) ? some_scope(g) : "");
}

static bool pool_is(const struct model *m, const char *pool, enum kernel_option option) {
    char base[MODEL_TEXT];
    snprintf(base, sizeof base, "%s", pool);
    base[strcspn(base, "@")] = '\0';
    uint32_t known = model_pool_find(m, base);
    return known != MODEL_NONE && m->pools[known].own.of[option] != 0;
}

static void some_meta(struct generate *g, struct generate_draft *d) {
    uint32_t len = generate_below(g, 100);
    if (g->big_meta && generate_chance(g, 50)) {
        len = generate_below(g, 300) == 0 ? KERNEL_META_MAX + 1
                                          : generate_below(g, KERNEL_META_MAX + 1);
    }
    memset(d->meta, (int)generate_below(g, 256), sizeof d->meta);
    d->c.fields |= KERNEL_F_META;
    d->c.meta = tn_bytes_of(d->meta, len);
}

static void some_payload(struct generate *g, struct generate_draft *d) {
    if (generate_chance(g, 70)) {
        some_meta(g, d);
    }
}

static void some_ttl(struct generate *g, struct generate_draft *d) {
    d->c.fields |= KERNEL_F_TTL;
    d->c.ttl_s = generate_chance(g, 2) ? 0 : 1 + generate_below(g, generate_chance(g, 10) ? 99 : 9);
    if (generate_below(g, 200) == 0) {
        d->c.ttl_s = UINT32_MAX;
    }
}

static void requested(struct generate *g, struct generate_draft *d, const struct model *m,
                      const char *pool) {
    uint32_t known = model_pool_find(m, pool);
    const uint64_t *of = known == MODEL_NONE ? NULL : model_policy(m, known)->of;
    char word[32];
    uint64_t number = generate_below(g, 14);
    if (of != NULL && !generate_chance(g, 4)) {
        const struct kernel_policy *policy = model_policy(m, known);
        uint64_t count = model_span_count(policy);
        struct kernel_span span = model_span(policy, generate_below(g, (uint32_t)count));
        uint64_t size = span.hi - span.lo;
        number = span.lo + generate_below(g, size < 12 ? (uint32_t)size + 1 : 12);
    }
    if (of != NULL && of[KERNEL_OPTION_KIND] == KERNEL_SET && !generate_chance(g, 2)) {
        const struct model_pool *p = &m->pools[known];
        snprintf(word, sizeof word, "r%u", generate_below(g, 9));
        if (p->resource_count > 0 && generate_chance(g, 90)) {
            snprintf(word, sizeof word, "%.30s",
                     p->resources[generate_below(g, p->resource_count)].name);
        }
        kernel_requested_write_text(&d->w, generate_text(word));
    } else if (generate_chance(g, 20)) {
        snprintf(word, sizeof word, generate_chance(g, 50) ? "%" PRIu64 : "0x%" PRIx64, number);
        kernel_requested_write_text(&d->w, generate_text(word));
    } else {
        kernel_requested_write_number(&d->w, number);
    }
}

static void one_claim(struct generate *g, struct generate_draft *d, const struct model *m,
                      const char *pool) {
    bool alone = d->c.claim_count == 1;
    bool sticky = pool_is(m, pool, KERNEL_OPTION_STICKY);
    bool import = d->c.verb == KERNEL_VERB_IMPORT;
    if (generate_chance(g, import ? 2 : sticky ? 85 : 65)) {
        bool zero = generate_chance(g, sticky ? 75 : alone ? 30 : 1);
        kernel_claim_write(&d->w, generate_text(pool), true,
                           zero ? 0 : 1 + generate_below(g, alone ? 3 : 2));
        return;
    }
    uint32_t count =
        generate_chance(g, 1) ? 0 : 1 + generate_below(g, generate_chance(g, 5) ? 6 : 2);
    kernel_claim_write(&d->w, generate_text(pool), false, count);
    for (uint32_t n = 0; n < count; n++) {
        requested(g, d, m, pool);
    }
}

static void claims(struct generate *g, struct generate_draft *d, const struct model *m) {
    d->c.claim_count = generate_chance(g, 70) ? 1 : 1 + generate_below(g, 3);
    d->c.claim_count = generate_chance(g, 1) ? 0 : d->c.claim_count;
    for (uint32_t i = 0; i < d->c.claim_count; i++) {
        char pool[MODEL_TEXT];
        bool fits = false;
        for (uint32_t tries = 0; tries < 4 && !fits; tries++) {
            generate_pool(g, m, pool, sizeof pool);
            bool bundle = d->c.claim_count > 1 || d->c.verb == KERNEL_VERB_RESERVE;
            fits = !bundle || !pool_is(m, pool, KERNEL_OPTION_STICKY);
        }
        if (!fits && i == 0 && generate_chance(g, 90)) {
            /* All that sticky pools allow. */
            d->c.verb = d->c.verb == KERNEL_VERB_RESERVE ? KERNEL_VERB_ALLOC : d->c.verb;
            d->c.claim_count = 1;
        }
        if (pool_is(m, pool, KERNEL_OPTION_INTERNAL) && generate_chance(g, 80)) {
            d->c.rights |= KERNEL_RIGHT_SUPERVISOR;
        }
        one_claim(g, d, m, pool);
    }
    d->c.claims = tn_bytes_of(d->lists, d->w.len);
}

static void token_of(struct generate *g, struct generate_draft *d, const struct model_lease *l) {
    d->c.lease = l->id;
    d->c.epoch = l->epoch - (d->c.verb == KERNEL_VERB_ACK && l->epoch > 1);
    snprintf(d->holder, sizeof d->holder, "%s", l->holder);
    if (generate_chance(g, 70)) {
        snprintf(d->user, sizeof d->user, "%.15s", l->user);
    }
}

/* A lease on which this command means something, if one is found soon. */
static const struct model_lease *fitting(struct generate *g, const struct model *m,
                                         enum kernel_verb verb) {
    const struct model_lease *l = NULL;
    for (uint32_t tries = 0; tries < 6; tries++) {
        l = &m->leases[generate_below(g, m->lease_count)];
        bool revoking = l->state == KERNEL_REVOKING;
        bool wanted = verb == KERNEL_VERB_ACK || verb == KERNEL_VERB_RECLAIM;
        bool reserved = l->state == KERNEL_RESERVED;
        if (revoking == wanted && (verb != KERNEL_VERB_ACTIVATE || reserved)) {
            break;
        }
    }
    return l;
}

/* Mostly of a live lease, else of one that was, or a little wrong. */
static void token(struct generate *g, struct generate_draft *d, const struct model *m) {
    uint32_t dice = generate_below(g, 100);
    d->c.lease.lsn = m->lsn + 1 - generate_below(g, 3);
    some_holder(g, d);
    if (dice < 80 && m->lease_count > 0) {
        token_of(g, d, fitting(g, m, d->c.verb));
    } else if (dice < 88 && m->history_count > 0) {
        token_of(g, d, &m->history[generate_below(g, m->history_count)]);
    } else if (g->token_count > 0) {
        const struct generate_token *t = &g->tokens[generate_below(g, g->token_count)];
        d->c.lease = t->lease;
        d->c.epoch = t->epoch;
        snprintf(d->holder, sizeof d->holder, "%s", t->holder);
        snprintf(d->user, sizeof d->user, "%s", t->user);
    }
    uint32_t wrong = generate_below(g, 100);
    if (wrong < 3) {
        some_holder(g, d);
    } else if (wrong < 6) {
        d->c.epoch += generate_below(g, 2) == 0 ? 1 : (uint64_t)-1;
    } else if (wrong < 7) {
        d->c.lease.lsn += generate_below(g, 3);
    } else if (wrong < 8) {
        d->c.lease.shard ^= (uint64_t)1 << 32;
    }
    d->c.holder = generate_text(d->holder);
    d->c.user = generate_text(d->user);
}

static void resources(struct generate *g, struct generate_draft *d, const struct model *m) {
    for (uint32_t tries = 0; tries < 6; tries++) {
        generate_pool(g, m, d->pool, sizeof d->pool);
        if (pool_is(m, d->pool, KERNEL_OPTION_KIND)) {
            break;
        }
    }
    d->c.pool = generate_text(d->pool);
    if (pool_is(m, d->pool, KERNEL_OPTION_INTERNAL) && generate_chance(g, 80)) {
        d->c.rights |= KERNEL_RIGHT_SUPERVISOR;
    }
    d->c.value_count = generate_below(g, 40) == 0 ? 0 : 1 + generate_below(g, 4);
    for (uint32_t i = 0; i < d->c.value_count; i++) {
        char name[16];
        snprintf(name, sizeof name, generate_below(g, 60) == 0 ? "r %u" : "r%u",
                 generate_below(g, 9));
        if (generate_below(g, 60) == 0) {
            kernel_requested_write_number(&d->w, 3);
        } else {
            kernel_requested_write_text(&d->w, generate_text(name));
        }
    }
    d->c.values = tn_bytes_of(d->lists, d->w.len);
}

/* ---- the mix ---- */

static enum kernel_verb some_verb(struct generate *g, const struct model *m) {
    static const struct {
        enum kernel_verb verb;
        uint32_t weight;
    } mix[] = {
        {KERNEL_VERB_TICK, 60},         {KERNEL_VERB_RESTORED, 1},
        {KERNEL_VERB_POOL_CREATE, 20},  {KERNEL_VERB_POOL_ALTER, 25},
        {KERNEL_VERB_POOL_DROP, 14},    {KERNEL_VERB_POOL_ADD, 30},
        {KERNEL_VERB_POOL_REMOVE, 15},  {KERNEL_VERB_ALLOC, 260},
        {KERNEL_VERB_RESERVE, 80},      {KERNEL_VERB_ACTIVATE, 50},
        {KERNEL_VERB_TOUCH, 90},        {KERNEL_VERB_RELEASE, 110},
        {KERNEL_VERB_REVOKE, 50},       {KERNEL_VERB_ACK, 40},
        {KERNEL_VERB_RECLAIM, 30},      {KERNEL_VERB_REKEY, 40},
        {KERNEL_VERB_DISOWN, 20},       {KERNEL_VERB_SWEEP, 20},
        {KERNEL_VERB_RULE_SET, 15},     {KERNEL_VERB_RULE_ENABLE, 8},
        {KERNEL_VERB_RULE_DELETE, 8},   {KERNEL_VERB_SENSOR_SET, 10},
        {KERNEL_VERB_SENSOR_ENABLE, 5}, {KERNEL_VERB_SENSOR_DELETE, 5},
        {KERNEL_VERB_IMPORT, 60},       {KERNEL_VERB_POOL_SEED, 8},
        {KERNEL_VERB_EMIT, 12},         {KERNEL_VERB_SENSOR_REPORT, 6},
        {KERNEL_VERB_UNATTEND, 30},
    };
    if (m->lsn < 30) {
        return m->lsn % 3 == 0 ? KERNEL_VERB_POOL_ADD : KERNEL_VERB_POOL_CREATE;
    }
    uint32_t total = 0;
    for (uint32_t i = 0; i < sizeof mix / sizeof mix[0]; i++) {
        total += mix[i].weight;
    }
    uint32_t dice = generate_below(g, total);
    uint32_t i = 0;
    while (dice >= mix[i].weight) {
        dice -= mix[i++].weight;
    }
    bool ends = mix[i].verb == KERNEL_VERB_RELEASE || mix[i].verb == KERNEL_VERB_REVOKE ||
                mix[i].verb == KERNEL_VERB_DISOWN;
    return ends && g->crowded && generate_chance(g, 75) ? KERNEL_VERB_ALLOC : mix[i].verb;
}

static void some_wait(struct generate *g, struct generate_draft *d) {
    if (generate_chance(g, g->patient ? 70 : 15)) {
        d->c.fields |= KERNEL_F_WAIT;
        d->c.wait_s = 1 + generate_below(g, generate_chance(g, 20) ? 200 : 20);
        if (generate_chance(g, 2)) {
            d->c.wait_s = generate_chance(g, 50) ? 0 : KERNEL_WAIT_MAX_S + generate_below(g, 2);
        }
    }
}

/* Mostly one that waits. */
static void unattend_fields(struct generate *g, struct generate_draft *d, const struct model *m) {
    uint32_t at = 0;
    for (uint32_t tries = 0; tries < 20 && m->lease_count > 0; tries++) {
        at = generate_below(g, m->lease_count);
        if (m->leases[at].state == KERNEL_WAITING) {
            break;
        }
    }
    if (m->lease_count > 0 && generate_chance(g, 92)) {
        d->c.fields |= KERNEL_F_LEASE;
        d->c.lease = m->leases[at].id;
    } else if (m->history_count > 0 && generate_chance(g, 50)) {
        d->c.fields |= KERNEL_F_LEASE;
        d->c.lease = m->history[generate_below(g, m->history_count)].id;
    }
}

static void grant_fields(struct generate *g, struct generate_draft *d, const struct model *m) {
    some_holder(g, d);
    claims(g, d, m);
    if (d->c.verb == KERNEL_VERB_RESERVE || generate_chance(g, 30)) {
        some_ttl(g, d);
    }
    if (generate_chance(g, 20)) {
        some_meta(g, d);
    }
    some_wait(g, d);
    if (d->c.verb == KERNEL_VERB_ALLOC && generate_chance(g, g->patient ? 1 : 5)) {
        d->c.fields |= KERNEL_F_DEADLINE;
        d->c.deadline_ms = g->now_ms + generate_below(g, 10000);
        d->c.deadline_ms -= generate_chance(g, 20) ? generate_below(g, 10000) : 0;
        if (generate_below(g, 20) == 0) {
            d->c.deadline_ms = KERNEL_TIME_MAX + generate_below(g, 2);
        }
    }
}

static void revoke_fields(struct generate *g, struct generate_draft *d) {
    d->c.fields |= generate_chance(g, 60) ? KERNEL_F_AFTER : 0;
    d->c.fields |= generate_chance(g, 30) ? KERNEL_F_EPOCH : 0;
    d->c.after_s = generate_below(g, 6);
}

/* Up to 20 s ago, and mostly in order. */
static void some_times(struct generate *g, struct generate_draft *d) {
    uint64_t ago = generate_below(g, 20000);
    d->c.fields |= KERNEL_F_TIMES;
    d->c.created_ms = generate_chance(g, 85) ? g->now_ms - ago : 0;
    ago = generate_chance(g, 3) ? ago + 1 : ago - generate_below(g, (uint32_t)ago + 1);
    d->c.seen_ms = generate_chance(g, 80) ? g->now_ms - ago : 0;
    ago = generate_chance(g, 3) ? ago + 1 : ago - generate_below(g, (uint32_t)ago + 1);
    d->c.offline_ms = generate_chance(g, 40) ? g->now_ms - ago : 0;
}

static void import_fields(struct generate *g, struct generate_draft *d, const struct model *m) {
    const struct model_lease *l =
        m->lease_count > 0 && generate_chance(g, 20) ? fitting(g, m, KERNEL_VERB_TOUCH) : NULL;
    some_holder(g, d);
    if (l != NULL && l->value_count > 0) { /* names the values of an existing lease again */
        struct model_shown shown;
        d->c.claim_count = 1;
        kernel_claim_write(&d->w, generate_text(m->pools[l->values[0].pool].name), false,
                           l->value_count);
        for (uint32_t i = 0; i < l->value_count; i++) {
            model_show(m, &l->values[i], &shown);
            if (shown.name[0] != '\0') {
                kernel_requested_write_text(&d->w, generate_text(shown.name));
            } else {
                kernel_requested_write_number(&d->w, shown.number);
            }
        }
        d->c.claims = tn_bytes_of(d->lists, d->w.len);
        snprintf(d->holder, sizeof d->holder, "%s", l->holder);
    } else {
        claims(g, d, m);
    }
    if (generate_chance(g, 60)) {
        d->c.fields |= KERNEL_F_DEADLINE;
        d->c.deadline_ms = g->now_ms + generate_below(g, 20000);
        d->c.deadline_ms = generate_below(g, 30) == 0 ? KERNEL_TIME_MAX + 1 : d->c.deadline_ms;
    }
    if (generate_chance(g, 60)) {
        some_times(g, d);
    }
    if (generate_chance(g, 20)) {
        some_meta(g, d);
    }
}

static void seed_fields(struct generate *g, struct generate_draft *d, const struct model *m) {
    generate_pool(g, m, d->pool, sizeof d->pool);
    d->c.pool = generate_text(d->pool);
    d->c.fields |= KERNEL_F_FIGURES;
    d->c.given_values = generate_below(g, 30);
    d->c.reclaimed = generate_below(g, 200);
}

/* What a command with a token says besides. */
static void token_fields(struct generate *g, struct generate_draft *d, const struct model *m) {
    if (d->c.verb == KERNEL_VERB_TOUCH) {
        if (generate_chance(g, 30)) {
            some_ttl(g, d);
        }
        if (generate_chance(g, 20)) {
            some_meta(g, d);
        }
    } else if (d->c.verb == KERNEL_VERB_RELEASE) {
        d->c.fields |= generate_chance(g, 30) ? KERNEL_F_IMMEDIATE : 0;
    } else if (d->c.verb == KERNEL_VERB_REVOKE) {
        revoke_fields(g, d);
    } else if (d->c.verb == KERNEL_VERB_REKEY) {
        some_holder(g, d);
    } else {
        generate_emit(g, d, m);
        some_payload(g, d);
    }
}

static void fill(struct generate *g, struct generate_draft *d, const struct model *m) {
    switch (d->c.verb) {
    case KERNEL_VERB_POOL_CREATE:
        generate_pool_create(g, d, m);
        break;
    case KERNEL_VERB_POOL_ALTER:
        generate_pool_alter(g, d, m);
        break;
    case KERNEL_VERB_POOL_ADD:
    case KERNEL_VERB_POOL_REMOVE:
        resources(g, d, m);
        break;
    case KERNEL_VERB_ALLOC:
    case KERNEL_VERB_RESERVE:
        grant_fields(g, d, m);
        break;
    case KERNEL_VERB_IMPORT:
        import_fields(g, d, m);
        break;
    case KERNEL_VERB_POOL_SEED:
        seed_fields(g, d, m);
        break;
    case KERNEL_VERB_TOUCH:
    case KERNEL_VERB_RELEASE:
    case KERNEL_VERB_REVOKE:
    case KERNEL_VERB_REKEY:
    case KERNEL_VERB_EMIT:
        token(g, d, m);
        token_fields(g, d, m);
        break;
    case KERNEL_VERB_UNATTEND:
        unattend_fields(g, d, m);
        break;
    case KERNEL_VERB_SENSOR_REPORT:
        generate_report(g, d, m);
        some_payload(g, d);
        break;
    case KERNEL_VERB_DISOWN:
        some_holder(g, d);
        /* fall through */
    case KERNEL_VERB_SWEEP:
    case KERNEL_VERB_POOL_DROP:
        generate_pool(g, m, d->pool, sizeof d->pool);
        for (uint32_t tries = 0; tries < 6 && d->c.verb == KERNEL_VERB_POOL_DROP; tries++) {
            uint32_t pool = model_pool_find(m, d->pool);
            if (pool != MODEL_NONE && !model_pool_in_use(m, pool)) {
                break;
            }
            generate_pool(g, m, d->pool, sizeof d->pool);
            d->pool[strcspn(d->pool, "@")] = '\0';
        }
        d->c.pool = generate_text(d->pool);
        d->c.fields |= generate_chance(g, 40) ? KERNEL_F_POOL : 0;
        break;
    default:
        if (d->c.verb >= KERNEL_VERB_RULE_SET) {
            generate_demand(g, d);
        } else if (d->c.verb >= KERNEL_VERB_ACTIVATE) {
            token(g, d, m);
        }
        break;
    }
}

/* The same with one bit wrong or a piece missing, if that cannot be read any more. */
static struct tn_bytes spoiled(struct generate *g, uint8_t *bytes, uint32_t len) {
    struct kernel_command unused;
    uint32_t at = generate_below(g, len);
    uint8_t bit = (uint8_t)(1u << generate_below(g, 8));
    bytes[at] ^= bit;
    if (!kernel_command_decode(tn_bytes_of(bytes, len), &unused)) {
        return tn_bytes_of(bytes, len);
    }
    bytes[at] ^= bit;
    return tn_bytes_of(bytes, kernel_command_decode(tn_bytes_of(bytes, at), &unused) ? len : at);
}

/* Adds a reason as text; sometimes one byte too long. */
static void some_note(struct generate *g, struct generate_draft *d) {
    if ((kernel_verb_rows[d->c.verb].optional & KERNEL_F_NOTE) == 0 || !generate_chance(g, 25)) {
        return;
    }
    uint32_t len =
        generate_chance(g, 4) ? KERNEL_NOTE_MAX + generate_below(g, 2) : 1 + generate_below(g, 12);
    memset(d->note, 'a' + (int)generate_below(g, 26), len);
    d->c.note = tn_bytes_of(d->note, len);
    d->c.fields |= KERNEL_F_NOTE;
}

struct tn_bytes generate_next(struct generate *g, const struct model *m) {
    static uint8_t bytes[GENERATE_BYTES];
    move_time(g, m);
    g->now_ms = g->now_ms > KERNEL_TIME_MAX ? KERNEL_TIME_MAX : g->now_ms;
    uint32_t repeat = generate_below(g, GENERATE_REPEATS);
    if (generate_chance(g, g->many_ops ? 25 : 3) && g->repeat_len[repeat] > 0) {
        return tn_bytes_of(g->repeats[repeat], g->repeat_len[repeat]);
    }
    struct generate_draft d;
    memset(&d, 0, sizeof d);
    d.w = tn_writer_of(d.lists, sizeof d.lists);
    d.c.verb = some_verb(g, m);
    d.c.fields = kernel_verb_rows[d.c.verb].required;
    d.c.rights = generate_chance(g, kernel_verb_rows[d.c.verb].operator_only ? 96 : 60)
                     ? KERNEL_RIGHT_OPERATOR
                     : 0;
    d.c.rights |= generate_chance(g, 15) ? KERNEL_RIGHT_SUPERVISOR : 0;
    d.c.policy = &d.patch;
    if (generate_chance(g, 30)) {
        snprintf(d.user, sizeof d.user, "u%u", generate_below(g, 3));
        d.c.user = generate_text(d.user);
    }
    if (generate_chance(g, g->many_ops ? 60 : 12)) {
        snprintf(d.opid, sizeof d.opid, "o%u", generate_below(g, 20));
        d.c.opid = generate_text(d.opid);
    }
    fill(g, &d, m);
    some_note(g, &d);
    generate_user(g, &d);
    uint32_t len = kernel_command_encode(&d.c, bytes, sizeof bytes);
    if (generate_below(g, 1000) == 0) {
        return spoiled(g, bytes, len);
    }
    if (d.c.opid.len > 0 && len > 0) {
        memcpy(g->repeats[g->repeat_next], bytes, len);
        g->repeat_len[g->repeat_next] = len;
        g->repeat_next = (g->repeat_next + 1) % GENERATE_REPEATS;
    }
    return tn_bytes_of(bytes, len);
}

void generate_learn(struct generate *g, struct tn_bytes bytes, const struct model_result *result) {
    struct kernel_command c;
    if (!result->head.has_lease || result->head.code != TN_R_OK ||
        !kernel_command_decode(bytes, &c) || c.holder.len == 0 || c.holder.len > 15) {
        return;
    }
    uint32_t slot =
        g->token_count < GENERATE_TOKENS ? g->token_count++ : generate_below(g, GENERATE_TOKENS);
    struct generate_token *t = &g->tokens[slot];
    t->lease = result->head.lease;
    t->epoch = result->head.epoch;
    model_text(t->holder, sizeof t->holder, c.holder);
    model_text(t->user, sizeof t->user, c.user);
}
