/* Commands about rules and sensors, and reports of sensors and their supervisor. */
#include "sim/generate.h"

#include <stdio.h>

#define LATE_MS 2000000u /* how old a revision of a rule may be: some hundred commands */

/* A revision, which is not always the latest. Drawn from a generator of its own, so that all other
 * commands of a seed stay the same: planted bugs are known by the seeds that find them. */
static void some_revision(const struct generate *g, struct generate_draft *d) {
    struct tn_prng aside = g->random;
    tn_prng_seed(&aside, ~tn_prng_next(&aside));
    if (tn_prng_below(&aside, 100) < 40) {
        d->c.fields |= KERNEL_F_EPOCH;
        d->c.epoch = g->now_ms - tn_prng_below(&aside, g->now_ms < LATE_MS ? g->now_ms : LATE_MS);
    }
}

/* The same for metadata: often what it was, sometimes none, rarely too much. */
static void some_meta(const struct generate *g, struct generate_draft *d) {
    struct tn_prng aside = g->random;
    tn_prng_seed(&aside, ~tn_prng_next(&aside) + 1);
    uint64_t dice = tn_prng_below(&aside, 100);
    if (dice < 50) {
        uint32_t len = dice < 2 ? KERNEL_META_MAX + 1 : dice < 10 ? 0 : 1 + (uint32_t)dice;
        memset(d->meta, 'm', sizeof d->meta);
        d->c.meta = tn_bytes_of(d->meta, len);
        d->c.fields |= KERNEL_F_META;
    }
}

void generate_demand(struct generate *g, struct generate_draft *d) {
    snprintf(d->name, sizeof d->name, "d%u", generate_below(g, 10));
    if (generate_below(g, 60) == 0) {
        memset(d->name, 'n', KERNEL_RULE_MAX + 1);
        d->name[generate_chance(g, 50) ? 0 : KERNEL_RULE_MAX + 1] = '\0';
    }
    snprintf(d->trigger, sizeof d->trigger, "t%u", generate_below(g, 3));
    if (generate_below(g, 60) == 0) {
        d->trigger[0] = '\0';
    }
    d->c.name = generate_text(d->name);
    d->c.trigger = generate_text(d->trigger);
    d->c.enabled = generate_chance(g, 60);
    if (d->c.verb >= KERNEL_VERB_RULE_SET && d->c.verb <= KERNEL_VERB_RULE_DELETE) {
        some_revision(g, d);
    }
    if (d->c.verb == KERNEL_VERB_RULE_SET) {
        some_meta(g, d);
    }
    uint32_t len = generate_below(g, 3) == 0 ? generate_below(g, MODEL_SPEC) : 4;
    memset(d->spec, 's', sizeof d->spec);
    d->c.spec = tn_bytes_of(d->spec, len);
}

/* A run's lease: it is active and has a named value of an internal pool, which *ret_value is. */
static const struct model_lease *some_run(struct generate *g, const struct model *m,
                                          const struct model_value **ret_value) {
    uint32_t first = m->lease_count > 0 ? generate_below(g, m->lease_count) : 0;
    for (uint32_t i = 0; i < m->lease_count; i++) {
        const struct model_lease *l = &m->leases[(first + i) % m->lease_count];
        for (uint32_t v = 0; v < l->value_count && l->state == KERNEL_ACTIVE; v++) {
            const struct model_value *value = &l->values[v];
            if (value->name[0] != '\0' &&
                model_policy(m, value->pool)->of[KERNEL_OPTION_INTERNAL] != 0) {
                *ret_value = value;
                return l;
            }
        }
    }
    return NULL;
}

void generate_emit(struct generate *g, struct generate_draft *d, const struct model *m) {
    const struct model_value *value = NULL;
    const struct model_lease *l = generate_chance(g, 80) ? some_run(g, m, &value) : NULL;
    generate_demand(g, d);
    if (l != NULL) {
        d->c.lease = l->id;
        d->c.epoch = l->epoch - generate_chance(g, 5);
        snprintf(d->user, sizeof d->user, "%.15s", l->user);
        d->c.user = generate_text(d->user);
        snprintf(d->name, sizeof d->name, "%s", generate_chance(g, 95) ? value->name : "other");
        d->c.name = generate_text(d->name);
    }
    if (generate_chance(g, 85)) {
        d->c.rights |= KERNEL_RIGHT_SUPERVISOR;
    }
}

void generate_report(struct generate *g, struct generate_draft *d, const struct model *m) {
    static const char *const words[] = {"started", "stopped",      "crashed",
                                        "error",   "start_failed", "emitted"};
    const struct model_value *value = NULL;
    const struct model_lease *l = generate_chance(g, 50) ? some_run(g, m, &value) : NULL;
    generate_demand(g, d);
    snprintf(d->trigger, sizeof d->trigger, "%s", words[generate_below(g, 6)]);
    d->c.trigger = generate_text(d->trigger);
    if (l != NULL) {
        d->c.fields |= KERNEL_F_LEASE | KERNEL_F_EPOCH;
        d->c.lease = l->id;
        d->c.epoch = l->epoch;
    }
    if (generate_chance(g, 85)) {
        d->c.rights |= KERNEL_RIGHT_SUPERVISOR;
    }
}
