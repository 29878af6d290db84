/* Rules and sensors: which are wanted, counted again at each query. */
#include "sim/model.h"

#include <stdio.h>
#include <string.h>

#include "base/chunks.h"

uint64_t model_trigger_rules(const struct model *m, const char *trigger) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < MODEL_RULES; i++) {
        const struct model_demand *r = &m->rules[i];
        count += r->exists && r->enabled && strcmp(r->trigger, trigger) == 0;
    }
    return count;
}

static struct model_demand *find(struct model_demand *table, const char *name) {
    for (uint32_t i = 0; i < MODEL_RULES; i++) {
        if (table[i].exists && strcmp(table[i].name, name) == 0) {
            return &table[i];
        }
    }
    return NULL;
}

/* Triggers that a rule or sensor names, each once. */
void model_triggers(const struct model *m, uint32_t *ret_count, uint64_t *ret_chunks) {
    const char *seen[2 * MODEL_RULES];
    uint32_t count = 0;
    *ret_chunks = 0;
    for (uint32_t i = 0; i < 2 * MODEL_RULES; i++) {
        const struct model_demand *d =
            i < MODEL_RULES ? &m->rules[i] : &m->sensors[i - MODEL_RULES];
        bool fresh = d->exists;
        for (uint32_t j = 0; fresh && j < count; j++) {
            fresh = strcmp(seen[j], d->trigger) != 0;
        }
        if (fresh) {
            seen[count++] = d->trigger;
            *ret_chunks += tn_text_chunks(strlen(d->trigger));
        }
    }
    *ret_count = count;
}

static bool trigger_known(const struct model *m, const char *trigger) {
    for (uint32_t i = 0; i < MODEL_RULES; i++) {
        if ((m->rules[i].exists && strcmp(m->rules[i].trigger, trigger) == 0) ||
            (m->sensors[i].exists && strcmp(m->sensors[i].trigger, trigger) == 0)) {
            return true;
        }
    }
    return false;
}

/* The record that has this name, or a new one; NULL and the refusal if there is no room. */
static struct model_demand *claim(struct model *m, struct model_demand *table, uint64_t limit,
                                  const char *name, const char *trigger) {
    struct model_demand *d = find(table, name);
    uint64_t chunks = d == NULL ? tn_text_chunks(strlen(name)) : 0;
    chunks += trigger_known(m, trigger) ? 0 : tn_text_chunks(strlen(trigger));
    chunks += (m->c.fields & KERNEL_F_SPEC) != 0 ? tn_text_chunks(m->c.spec.len) : 0;
    chunks += m->c.meta.len > 0 ? tn_text_chunks(m->c.meta.len) : 0;
    uint64_t count = 0;
    struct model_demand *hole = NULL;
    for (uint32_t i = 0; i < MODEL_RULES; i++) {
        count += table[i].exists;
        hole = table[i].exists ? hole : &table[i];
    }
    if (d == NULL && (count >= limit || hole == NULL)) {
        m->want.head.code = TN_R_DEMAND_FULL;
        return NULL;
    }
    if (!model_text_fits(m, chunks)) {
        m->want.head.code = TN_R_NAMES_FULL;
        return NULL;
    }
    return d != NULL ? d : hole;
}

/* How many enabled rules a trigger has changed by one rule; news only if it was or becomes zero. */
static void tell(struct model *m, const char *trigger, uint64_t before) {
    uint64_t now = model_trigger_rules(m, trigger);
    if ((now == 0) != (before == 0)) {
        model_expect_name(m, KERNEL_EVENT_DEMAND_CHANGED, trigger, now);
    }
}

/* ---- Revisions: of what was said of each part of a rule the newest counts ---- */

static struct model_tombstone *tombstone(struct model *m, const char *name) {
    for (uint32_t i = 0; i < m->tombstone_count; i++) {
        if (strcmp(m->tombstones[i].name, name) == 0) {
            return &m->tombstones[i];
        }
    }
    return NULL;
}

/* The one of that name, or a new one in place of the oldest; NULL: the name is none. */
static struct model_tombstone *dig(struct model *m, const char *name) {
    struct model_tombstone *g = tombstone(m, name);
    if (m->c.name.len == 0 || m->c.name.len > KERNEL_RULE_MAX) {
        return NULL;
    }
    if (g == NULL) {
        g = &m->tombstones[0];
        for (uint32_t i = 1; i < m->tombstone_count; i++) {
            g = m->tombstones[i].word < g->word ? &m->tombstones[i] : g;
        }
        g = m->tombstone_count < KERNEL_TOMBSTONES_MAX ? &m->tombstones[m->tombstone_count++] : g;
        *g = (struct model_tombstone){0};
        snprintf(g->name, sizeof g->name, "%.7s", name);
    }
    g->word = ++m->tombstone_words;
    return g;
}

static uint64_t named(const struct model *m) {
    return (m->c.fields & KERNEL_F_EPOCH) != 0 ? m->c.epoch : 0;
}

static bool older(const struct model *m, uint64_t than) {
    return named(m) > 0 && named(m) < than;
}

static uint64_t later(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* False: the metadata is the same, or the command has none. */
static bool meta_set(struct model *m, struct model_demand *r) {
    r->spec_len = r->exists ? r->spec_len : 0;
    if ((m->c.fields & KERNEL_F_META) == 0 ||
        (r->spec_len == m->c.meta.len && memcmp(r->spec, m->c.meta.at, r->spec_len) == 0)) {
        return false;
    }
    r->spec_len = m->c.meta.len;
    memcpy(r->spec, m->c.meta.at, r->spec_len);
    return true;
}

static void rule_set(struct model *m, const char *name, const char *trigger) {
    const struct model_demand *known = find(m->rules, name);
    const struct model_tombstone *g = known == NULL ? tombstone(m, name) : NULL;
    uint64_t placed = known != NULL ? known->placed : g != NULL ? g->ended : 0;
    uint64_t said = known != NULL ? known->revision : g != NULL ? g->said : 0;
    bool enabled = m->c.enabled;
    if (m->c.meta.len > KERNEL_META_MAX) {
        m->want.head.code = TN_R_TOO_LARGE;
        m->want.head.number = KERNEL_META_MAX;
        return;
    }
    if (older(m, placed)) {
        m->want.head.code = TN_R_STALE;
        return;
    }
    if (older(m, said)) {
        enabled = known != NULL ? known->enabled : g->enabled;
    }
    struct model_demand *r = claim(m, m->rules, m->limits.of[KERNEL_LIMIT_RULES], name, trigger);
    if (r == NULL) {
        return;
    }
    r->placed = later(placed, named(m));
    r->revision = later(later(placed, said), named(m));
    bool told = meta_set(m, r);
    if (r->exists && !told && r->enabled == enabled && strcmp(r->trigger, trigger) == 0) {
        m->want.head.code = TN_R_NOOP;
        return;
    }
    char old[KERNEL_RULE_MAX + 1];
    snprintf(old, sizeof old, "%s", r->exists ? r->trigger : trigger);
    if (strcmp(old, trigger) != 0) {
        uint64_t before = model_trigger_rules(m, old);
        r->enabled = false;
        tell(m, old, before);
    }
    uint64_t before = model_trigger_rules(m, trigger);
    r->exists = true;
    snprintf(r->name, sizeof r->name, "%s", name);
    snprintf(r->trigger, sizeof r->trigger, "%s", trigger);
    r->enabled = enabled;
    tell(m, trigger, before);
    model_expect_name(m, KERNEL_EVENT_RULE_SET, name, r->enabled);
}

/* The rule does not exist: its report counts later, unless it is outdated. */
static void absent_change(struct model *m, const char *name) {
    struct model_tombstone *g = tombstone(m, name);
    uint64_t ended = g != NULL ? g->ended : 0;
    uint64_t said = g != NULL ? g->said : 0;
    bool ends = m->c.verb == KERNEL_VERB_RULE_DELETE;
    m->want.head.code = !ends && older(m, later(ended, said)) ? TN_R_STALE : TN_R_NOTFOUND;
    if (named(m) == 0 || named(m) < ended || (!ends && named(m) < said)) {
        return;
    }
    g = dig(m, name);
    if (g != NULL && ends) {
        g->ended = named(m);
        g->said = said > named(m) ? said : 0;
    } else if (g != NULL) {
        g->said = named(m);
        g->enabled = m->c.enabled;
    }
}

/* Called before a rule is deleted: reports older than its end no longer count. */
static void bury(struct model *m, const struct model_demand *r) {
    uint64_t ended = named(m) > 0 ? named(m) : r->revision;
    struct model_tombstone *g = ended > 0 ? dig(m, r->name) : NULL;
    if (g != NULL) {
        g->ended = ended;
        g->said = r->revision > ended ? r->revision : 0;
        g->enabled = r->enabled;
    }
}

static void rule_change(struct model *m, const char *name) {
    struct model_demand *r = find(m->rules, name);
    bool ends = m->c.verb == KERNEL_VERB_RULE_DELETE;
    if (r == NULL) {
        absent_change(m, name);
        return;
    }
    if (older(m, ends ? r->placed : r->revision)) {
        m->want.head.code = TN_R_STALE;
        return;
    }
    if (ends) {
        bury(m, r);
    }
    r->revision = later(r->revision, named(m));
    if (!ends && r->enabled == m->c.enabled) {
        m->want.head.code = TN_R_NOOP;
        return;
    }
    uint64_t before = model_trigger_rules(m, r->trigger);
    r->enabled = ends ? false : m->c.enabled;
    r->exists = !ends;
    tell(m, r->trigger, before);
    model_expect_name(m, ends ? KERNEL_EVENT_RULE_DELETED : KERNEL_EVENT_RULE_SET, name,
                      r->enabled);
}

static void sensor_set(struct model *m, const char *name, const char *trigger) {
    struct model_demand *s =
        claim(m, m->sensors, m->limits.of[KERNEL_LIMIT_SENSORS], name, trigger);
    if (s == NULL) {
        return;
    }
    s->exists = true;
    snprintf(s->name, sizeof s->name, "%s", name);
    snprintf(s->trigger, sizeof s->trigger, "%s", trigger);
    s->enabled = m->c.enabled;
    s->spec_len = m->c.spec.len;
    memcpy(s->spec, m->c.spec.at, s->spec_len);
    model_expect_name(m, KERNEL_EVENT_SENSOR_SET, name, s->enabled);
}

static void sensor_change(struct model *m, const char *name) {
    struct model_demand *s = find(m->sensors, name);
    if (s == NULL) {
        m->want.head.code = TN_R_NOTFOUND;
    } else if (m->c.verb == KERNEL_VERB_SENSOR_DELETE) {
        s->exists = false;
        model_expect_name(m, KERNEL_EVENT_SENSOR_DELETED, name, 0);
    } else if (s->enabled == m->c.enabled) {
        m->want.head.code = TN_R_NOOP;
    } else {
        s->enabled = m->c.enabled;
        model_expect_name(m, KERNEL_EVENT_SENSOR_SET, name, s->enabled);
    }
}

void model_demand(struct model *m) {
    const struct kernel_command *c = &m->c;
    bool rule = c->verb <= KERNEL_VERB_RULE_DELETE;
    bool sets = (c->fields & KERNEL_F_TRIGGER) != 0;
    bool name_good = rule ? c->name.len > 0 && c->name.len <= KERNEL_RULE_MAX
                          : kernel_name_resource_valid(c->name);
    bool trigger_good = !sets || (c->trigger.len > 0 && c->trigger.len <= KERNEL_RULE_MAX);
    if (sets && (!name_good || !trigger_good)) {
        m->want.head.code = TN_R_BAD_NAME;
        return;
    }
    char name[KERNEL_RULE_MAX + 1];
    char trigger[KERNEL_RULE_MAX + 1];
    model_text(name, sizeof name, c->name);
    model_text(trigger, sizeof trigger, c->trigger);
    switch (c->verb) {
    case KERNEL_VERB_RULE_SET:
        rule_set(m, name, trigger);
        break;
    case KERNEL_VERB_RULE_ENABLE:
    case KERNEL_VERB_RULE_DELETE:
        rule_change(m, name);
        break;
    case KERNEL_VERB_SENSOR_SET:
        sensor_set(m, name, trigger);
        break;
    default:
        sensor_change(m, name);
        break;
    }
}

static enum kernel_event_kind reported(struct tn_bytes word) {
    static const struct {
        const char *word;
        enum kernel_event_kind kind;
    } words[] = {
        {"started", KERNEL_EVENT_SENSOR_STARTED},
        {"stopped", KERNEL_EVENT_SENSOR_STOPPED},
        {"crashed", KERNEL_EVENT_SENSOR_CRASHED},
        {"error", KERNEL_EVENT_SENSOR_ERROR},
        {"start_failed", KERNEL_EVENT_SENSOR_START_FAILED},
    };
    for (uint32_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (tn_bytes_equal(word, tn_bytes_of(words[i].word, strlen(words[i].word)))) {
            return words[i].kind;
        }
    }
    return KERNEL_EVENT_COUNT;
}

void model_sensor_report(struct model *m) {
    enum kernel_event_kind kind = reported(m->c.trigger);
    if ((m->c.rights & KERNEL_RIGHT_SUPERVISOR) == 0) {
        m->want.head.code = TN_R_DENIED;
    } else if (!kernel_name_resource_valid(m->c.name)) {
        m->want.head.code = TN_R_BAD_NAME;
    } else if (kind == KERNEL_EVENT_COUNT) {
        m->want.head.code = TN_R_BAD_REQUEST;
    } else if (m->c.meta.len > KERNEL_META_MAX) {
        m->want.head.code = TN_R_TOO_LARGE;
        m->want.head.number = KERNEL_META_MAX;
    } else {
        model_expect_sensor(m, kind, false);
    }
}
