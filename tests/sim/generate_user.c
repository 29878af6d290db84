/* Commands about users, and quotas: in some runs only, and by dice of their own, so that all other
 * commands of a seed stay what they were (see generate_sensor.c). */
#include "sim/generate.h"

#include <stdio.h>

static uint32_t below(struct tn_prng *aside, uint32_t n) {
    return (uint32_t)tn_prng_below(aside, n);
}

static struct tn_bytes some_text(struct tn_prng *aside, uint8_t *out, uint32_t most) {
    uint32_t dice = below(aside, 50);
    uint32_t len = dice == 0 ? most + 1 : dice < 5 ? 0 : 1 + below(aside, dice < 8 ? most : 40);
    memset(out, 'a' + (int)below(aside, 3), len);
    return tn_bytes_of(out, len);
}

static void user_fields(struct tn_prng *aside, struct generate_draft *d) {
    static const uint32_t optional[] = {KERNEL_F_ROLE, KERNEL_F_SPEC, KERNEL_F_POOL,
                                        KERNEL_F_HOLDER, KERNEL_F_QUOTA};
    snprintf(d->name, sizeof d->name, "u%u", below(aside, 6));
    uint32_t dice = below(aside, 60);
    if (dice == 0) { /* too long */
        memset(d->name, 'n', KERNEL_USER_MAX + 1);
        d->name[KERNEL_USER_MAX + 1] = '\0';
    } else if (dice < 4) { /* empty, or with a byte that no name has */
        d->name[0] = dice == 1 ? '\0' : dice == 2 ? ':' : ' ';
    }
    d->c.name = generate_text(d->name);
    d->c.role = (uint8_t)(below(aside, 40) == 0 ? below(aside, 8) : 1 + below(aside, KERNEL_ROLES));
    d->c.quota = below(aside, 3) == 0 ? 0 : below(aside, 9);
    d->c.spec = some_text(aside, d->secret, KERNEL_SECRET_MAX);
    d->c.pool = some_text(aside, d->patterns[0], KERNEL_PATTERNS_MAX);
    d->c.holder = some_text(aside, d->patterns[1], KERNEL_PATTERNS_MAX);
    const struct kernel_verb_row *row = &kernel_verb_rows[d->c.verb];
    d->c.fields = row->required;
    for (uint32_t i = 0; i < sizeof optional / sizeof optional[0]; i++) {
        d->c.fields |= below(aside, 2) == 0 ? optional[i] & row->optional : 0;
    }
}

void generate_user(const struct generate *g, struct generate_draft *d) {
    struct tn_prng aside = g->random;
    if (!g->users) {
        return;
    }
    tn_prng_seed(&aside, ~tn_prng_next(&aside) + 2);
    bool demand = d->c.verb >= KERNEL_VERB_RULE_SET && d->c.verb <= KERNEL_VERB_SENSOR_DELETE;
    if (demand && below(&aside, 2) == 0) {
        uint32_t dice = below(&aside, 8);
        d->c.verb = dice < 4   ? KERNEL_VERB_USER_ADD
                    : dice < 7 ? KERNEL_VERB_USER_SET
                               : KERNEL_VERB_USER_DELETE;
        user_fields(&aside, d);
    }
    if ((d->c.fields & KERNEL_F_CLAIMS) != 0 && below(&aside, 2) == 0) {
        d->c.fields |= KERNEL_F_QUOTA;
        d->c.quota = below(&aside, 10);
    }
}
