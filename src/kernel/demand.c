/* Rules and sensors: demand for processes and their supply.
 *
 * Each trigger counts its enabled rules; a sensor is wanted if it is enabled and its trigger's
 * count is not zero. The count changes with the rule, in the same command: nothing scans the rules.
 * When a count becomes or leaves zero, an event notifies the supervisor. The supervisor reports its
 * actions as commands, so that the log and the events contain them. */
#include "kernel/state.h"

static uint32_t trigger_hold(struct kernel *k, struct tn_bytes text) {
    uint32_t slot = kernel_index_text(k, TEXT_TRIGGER, text);
    if (slot == TN_NONE) {
        slot = tn_table_take(&k->tables[TABLE_TRIGGER]);
        TN_ASSERT(slot != TN_NONE); /* one a rule or sensor at most */
        struct trigger *fresh = trigger_mut(k, slot);
        fresh->text = tn_text_put(&k->tables[TABLE_TEXT], text);
        fresh->first_sensor = TN_NONE;
        kernel_index_text_add(k, TEXT_TRIGGER, slot);
    }
    trigger_mut(k, slot)->refs++;
    return slot;
}

static void trigger_drop(struct kernel *k, uint32_t slot) {
    struct trigger *t = trigger_mut(k, slot);
    TN_ASSERT(t->refs > 0);
    if (--t->refs == 0) {
        TN_ASSERT(t->enabled_rules == 0 && t->first_sensor == TN_NONE);
        kernel_index_text_remove(k, TEXT_TRIGGER, slot);
        tn_text_drop(&k->tables[TABLE_TEXT], t->text);
        tn_table_give(&k->tables[TABLE_TRIGGER], slot);
    }
}

static struct tn_bytes trigger_text(const struct kernel *k, uint32_t slot,
                                    uint8_t out[KERNEL_RULE_MAX]) {
    uint32_t len =
        tn_text_get(&k->tables[TABLE_TEXT], trigger_at(k, slot)->text, out, KERNEL_RULE_MAX);
    TN_ASSERT(len <= KERNEL_RULE_MAX);
    return tn_bytes_of(out, len);
}

static void trigger_count(struct kernel *k, uint32_t slot, int sign) {
    struct trigger *t = trigger_mut(k, slot);
    TN_ASSERT(sign > 0 || t->enabled_rules > 0);
    uint32_t before = t->enabled_rules;
    t->enabled_rules = sign > 0 ? before + 1 : before - 1;
    if (before == 0 || t->enabled_rules == 0) {
        uint8_t text[KERNEL_RULE_MAX];
        kernel_event_named(k, KERNEL_EVENT_DEMAND_CHANGED, trigger_text(k, slot, text),
                           t->enabled_rules);
    }
}

static bool word_valid(struct tn_bytes word) {
    return word.len > 0 && word.len <= KERNEL_RULE_MAX;
}

/* Room for a record of `table` (if it is new), its name, its trigger and `spec` more bytes. */
static enum tn_result room_check(const struct kernel *k, enum kernel_table_id table, bool fresh,
                                 const struct kernel_command *c) {
    uint64_t chunks = 0;
    if (fresh) {
        if (tn_table_room(&k->tables[table]) == 0) {
            return TN_R_DEMAND_FULL;
        }
        chunks += tn_text_chunks(c->name.len);
    }
    if (kernel_index_text(k, TEXT_TRIGGER, c->trigger) == TN_NONE) {
        /* A change of the trigger takes the new one before it releases the old one. */
        if (tn_table_room(&k->tables[TABLE_TRIGGER]) == 0) {
            return TN_R_DEMAND_FULL;
        }
        chunks += tn_text_chunks(c->trigger.len);
    }
    if (c->fields & KERNEL_F_SPEC) {
        chunks += tn_text_chunks(c->spec.len);
    }
    if (c->meta.len > 0) {
        chunks += tn_text_chunks(c->meta.len);
    }
    return tn_table_room(&k->tables[TABLE_TEXT]) < chunks ? TN_R_NAMES_FULL : TN_R_OK;
}

/* ---- revisions ---- */

/* Changes of a rule may say which revision they make (a time, a version: a number that grows), and
 * may come late and in any order: each of them says a part of what the rule is, and for each part
 * the newest word counts, whenever it comes.
 *
 *                     there is one   its trigger   enabled
 *     set                  x              x           x      (and its metadata, if it has some)
 *     enable, disable                                 x
 *     delete               x
 *
 * That holds beyond a rule's end and before its beginning, for the last rules of which anything was
 * said while they were not there. Changes that name none are always done. */

#define TOMBSTONE_SEED_A 0x72756c65u
#define TOMBSTONE_SEED_B 0x67726176u

static struct tombstone tombstone_of(struct tn_bytes id) {
    return (struct tombstone){.digest = {tn_hash64(id.at, id.len, TOMBSTONE_SEED_A),
                                         tn_hash64(id.at, id.len, TOMBSTONE_SEED_B)}};
}

static uint32_t tombstone_find(const struct kernel *k, const struct tombstone *wanted) {
    for (uint32_t i = 0; i < k->tables[TABLE_TOMBSTONE].used; i++) {
        const struct tombstone *g = tombstone_at(k, i);
        if (g->digest[0] == wanted->digest[0] && g->digest[1] == wanted->digest[1]) {
            return i;
        }
    }
    return TN_NONE;
}

/* The one whose last news is the oldest. */
static uint32_t tombstone_oldest(const struct kernel *k) {
    uint32_t oldest = 0;
    for (uint32_t i = 1; i < k->tables[TABLE_TOMBSTONE].used; i++) {
        if (tombstone_at(k, i)->lsn < tombstone_at(k, oldest)->lsn) {
            oldest = i;
        }
    }
    return oldest;
}

/* The oldest makes room. */
static void tombstone_put(struct kernel *k, const struct tombstone *tombstone) {
    uint32_t slot = tombstone_find(k, tombstone);
    TN_ASSERT(tombstone->revision > 0 || tombstone->said > 0);
    if (slot == TN_NONE) {
        slot = tn_table_room(&k->tables[TABLE_TOMBSTONE]) > 0
                   ? tn_table_take(&k->tables[TABLE_TOMBSTONE])
                   : tombstone_oldest(k);
    }
    *tombstone_mut(k, slot) = *tombstone;
    tombstone_mut(k, slot)->lsn = root_at(k)->lsn;
}

/* What is known about a rule, whether it exists or not. Revisions are 0 if none is known. */
struct known {
    uint64_t placed; /* the latest revision of its trigger, or of its deletion */
    /* The latest revision of all; if it is newer than `placed`, it has set `enabled`. */
    uint64_t revision;
    bool enabled;
};

static struct known known_of(const struct kernel *k, uint32_t slot, struct tn_bytes id) {
    if (slot != TN_NONE) {
        const struct rule *r = rule_at(k, slot);
        return (struct known){r->placed, r->revision, r->enabled};
    }
    struct tombstone wanted = tombstone_of(id);
    uint32_t found = tombstone_find(k, &wanted);
    if (found == TN_NONE) {
        return (struct known){0};
    }
    const struct tombstone *g = tombstone_at(k, found);
    return (struct known){g->revision, g->said > g->revision ? g->said : g->revision,
                          g->enabled != 0};
}

/* The revision in the command; 0: none. */
static uint64_t revision_of(const struct kernel_command *c) {
    return (c->fields & KERNEL_F_EPOCH) != 0 ? c->epoch : 0;
}

/* Whether a newer revision is known. */
static bool is_older(const struct kernel_command *c, uint64_t known) {
    uint64_t revision = revision_of(c);
    return revision > 0 && revision < known;
}

/* The newest revision after this command. */
static uint64_t revision_next(const struct kernel_command *c, uint64_t known) {
    uint64_t revision = revision_of(c);
    return revision > known ? revision : known;
}

static void revision_note(struct kernel *k, uint32_t slot, uint64_t revision, uint64_t placed) {
    if (rule_at(k, slot)->revision != revision || rule_at(k, slot)->placed != placed) {
        rule_mut(k, slot)->revision = revision;
        rule_mut(k, slot)->placed = placed;
    }
}

/* A rule that does not exist is enabled or disabled. The change takes effect if the older creation
 * arrives later. */
static void early_note(struct kernel *k, const struct kernel_command *c, uint64_t ended) {
    struct tombstone tombstone = tombstone_of(c->name);
    if (revision_of(c) == 0 || !word_valid(c->name)) {
        return;
    }
    tombstone.revision = ended;
    tombstone.said = revision_of(c);
    tombstone.enabled = c->enabled;
    tombstone_put(k, &tombstone);
}

/* A rule is deleted, whether or not it exists: its creation may still arrive. Newer changes apply
 * to the next rule with this id. */
static void end_note(struct kernel *k, const struct kernel_command *c, const struct known *known,
                     uint64_t ended) {
    struct tombstone tombstone = tombstone_of(c->name);
    if (ended == 0 || ended < known->placed || !word_valid(c->name)) {
        return;
    }
    tombstone.revision = ended;
    tombstone.said = known->revision > ended ? known->revision : 0;
    tombstone.enabled = tombstone.said > 0 && known->enabled;
    tombstone_put(k, &tombstone);
}

/* ---- rules ---- */

static void rule_enable(struct kernel *k, uint32_t slot, bool enabled) {
    struct rule *r = rule_mut(k, slot);
    if (r->enabled != enabled) {
        r->enabled = enabled;
        trigger_count(k, r->trigger, enabled ? +1 : -1);
    }
}

static void rule_meta_drop(struct kernel *k, uint32_t slot) {
    uint32_t meta1 = rule_at(k, slot)->meta1;
    if (meta1 != 0) {
        tn_text_drop(&k->tables[TABLE_TEXT], meta1 - 1);
        rule_mut(k, slot)->meta1 = 0;
    }
}

/* A command without metadata leaves the existing metadata; an empty one removes it. False: nothing
 * changes. */
static bool rule_meta_set(struct kernel *k, uint32_t slot, const struct kernel_command *c) {
    uint32_t meta1 = rule_at(k, slot)->meta1;
    if (!(c->fields & KERNEL_F_META) ||
        (meta1 != 0 ? tn_text_equal(&k->tables[TABLE_TEXT], meta1 - 1, c->meta)
                    : c->meta.len == 0)) {
        return false;
    }
    rule_meta_drop(k, slot);
    if (c->meta.len > 0) {
        rule_mut(k, slot)->meta1 = tn_text_put(&k->tables[TABLE_TEXT], c->meta) + 1;
    }
    return true;
}

/* What a rule is after a change that sets it. */
struct rule_next {
    uint32_t trigger; /* held */
    bool enabled;
    uint64_t revision, placed;
};

static void rule_make(struct kernel *k, const struct kernel_command *c,
                      const struct rule_next *next) {
    uint32_t slot = tn_table_take(&k->tables[TABLE_RULE]);
    TN_ASSERT(slot != TN_NONE); /* room_check has seen it */
    struct rule *r = rule_mut(k, slot);
    r->id = tn_text_put(&k->tables[TABLE_TEXT], c->name);
    r->trigger = next->trigger;
    r->in_use = 1;
    kernel_index_text_add(k, TEXT_RULE, slot);
    revision_note(k, slot, next->revision, next->placed);
    (void)rule_meta_set(k, slot, c);
    rule_enable(k, slot, next->enabled);
}

/* False: it was so already. */
static bool rule_change(struct kernel *k, uint32_t slot, const struct kernel_command *c,
                        const struct rule_next *next) {
    uint32_t old = rule_at(k, slot)->trigger;
    bool moves = old != next->trigger;
    bool told = rule_meta_set(k, slot, c);
    bool changes = moves || told || rule_at(k, slot)->enabled != next->enabled;
    revision_note(k, slot, next->revision, next->placed);
    if (moves) {
        rule_enable(k, slot, false);
        rule_mut(k, slot)->trigger = next->trigger;
    }
    rule_enable(k, slot, next->enabled);
    trigger_drop(k, old);
    return changes;
}

void kernel_run_rule_set(struct kernel *k, const struct kernel_command *c,
                         struct kernel_result *result) {
    if (!word_valid(c->name) || !word_valid(c->trigger)) {
        result->code = TN_R_BAD_NAME;
        return;
    }
    if (c->meta.len > KERNEL_META_MAX) {
        result->code = TN_R_TOO_LARGE;
        result->number = KERNEL_META_MAX;
        return;
    }
    uint32_t slot = kernel_index_text(k, TEXT_RULE, c->name);
    struct known known = known_of(k, slot, c->name);
    result->code =
        is_older(c, known.placed) ? TN_R_STALE : room_check(k, TABLE_RULE, slot == TN_NONE, c);
    if (result->code != TN_R_OK) {
        return;
    }
    struct rule_next next = {.trigger = trigger_hold(k, c->trigger),
                             .enabled = is_older(c, known.revision) ? known.enabled : c->enabled,
                             .revision = revision_next(c, known.revision),
                             .placed = revision_next(c, known.placed)};
    uint8_t text[KERNEL_RULE_MAX];
    struct tn_bytes before = tn_bytes_of(NULL, 0);
    if (slot == TN_NONE) {
        rule_make(k, c, &next);
    } else {
        before = trigger_text(k, rule_at(k, slot)->trigger, text);
        if (!rule_change(k, slot, c, &next)) {
            result->code = TN_R_NOOP;
            return;
        }
    }
    kernel_event_rule(k, KERNEL_EVENT_RULE_SET, c->name, next.enabled, c->trigger, before);
}

void kernel_run_rule_enable(struct kernel *k, const struct kernel_command *c,
                            struct kernel_result *result) {
    uint32_t slot = kernel_index_text(k, TEXT_RULE, c->name);
    struct known known = known_of(k, slot, c->name);
    if (is_older(c, known.revision)) {
        result->code = TN_R_STALE;
        return;
    }
    if (slot == TN_NONE) {
        early_note(k, c, known.placed);
        result->code = TN_R_NOTFOUND;
        return;
    }
    revision_note(k, slot, revision_next(c, known.revision), known.placed);
    if (rule_at(k, slot)->enabled == c->enabled) {
        result->code = TN_R_NOOP;
        return;
    }
    rule_enable(k, slot, c->enabled);
    uint8_t text[KERNEL_RULE_MAX];
    kernel_event_rule(k, KERNEL_EVENT_RULE_SET, c->name, c->enabled,
                      trigger_text(k, rule_at(k, slot)->trigger, text), tn_bytes_of(NULL, 0));
}

void kernel_run_rule_delete(struct kernel *k, const struct kernel_command *c,
                            struct kernel_result *result) {
    uint32_t slot = kernel_index_text(k, TEXT_RULE, c->name);
    struct known known = known_of(k, slot, c->name);
    if (slot == TN_NONE) {
        end_note(k, c, &known, revision_of(c));
        result->code = TN_R_NOTFOUND;
        return;
    }
    if (is_older(c, known.placed)) {
        result->code = TN_R_STALE;
        return;
    }
    /* Without a revision, the command ends every known one. */
    end_note(k, c, &known, revision_of(c) > 0 ? revision_of(c) : known.revision);
    rule_enable(k, slot, false);
    uint32_t trigger = rule_at(k, slot)->trigger;
    uint8_t text[KERNEL_RULE_MAX];
    kernel_event_rule(k, KERNEL_EVENT_RULE_DELETED, c->name, 0, trigger_text(k, trigger, text),
                      tn_bytes_of(NULL, 0));
    kernel_index_text_remove(k, TEXT_RULE, slot);
    rule_meta_drop(k, slot);
    tn_text_drop(&k->tables[TABLE_TEXT], rule_at(k, slot)->id);
    tn_table_give(&k->tables[TABLE_RULE], slot);
    trigger_drop(k, trigger);
}

/* ---- sensors ---- */

static void sensor_link(struct kernel *k, uint32_t slot, uint32_t trigger) {
    struct trigger *t = trigger_mut(k, trigger);
    struct sensor *s = sensor_mut(k, slot);
    s->trigger = trigger;
    s->prev = TN_NONE;
    s->next = t->first_sensor;
    if (t->first_sensor != TN_NONE) {
        sensor_mut(k, t->first_sensor)->prev = slot;
    }
    t->first_sensor = slot;
}

static void sensor_unlink(struct kernel *k, uint32_t slot) {
    struct sensor s = *sensor_at(k, slot);
    TN_ASSERT(s.in_use);
    if (s.prev == TN_NONE) {
        TN_ASSERT(trigger_at(k, s.trigger)->first_sensor == slot);
        trigger_mut(k, s.trigger)->first_sensor = s.next;
    } else {
        sensor_mut(k, s.prev)->next = s.next;
    }
    if (s.next != TN_NONE) {
        sensor_mut(k, s.next)->prev = s.prev;
    }
    trigger_drop(k, s.trigger);
}

void kernel_run_sensor_set(struct kernel *k, const struct kernel_command *c,
                           struct kernel_result *result) {
    if (!kernel_name_resource_valid(c->name) || !word_valid(c->trigger)) {
        result->code = TN_R_BAD_NAME;
        return;
    }
    if (c->spec.len > KERNEL_SENSOR_SPEC_MAX) {
        result->code = TN_R_TOO_LARGE;
        result->number = KERNEL_SENSOR_SPEC_MAX;
        return;
    }
    uint32_t slot = kernel_index_text(k, TEXT_SENSOR, c->name);
    bool fresh = slot == TN_NONE;
    result->code = room_check(k, TABLE_SENSOR, fresh, c);
    if (result->code != TN_R_OK) {
        return;
    }
    uint32_t trigger = trigger_hold(k, c->trigger);
    if (fresh) {
        slot = tn_table_take(&k->tables[TABLE_SENSOR]);
        TN_ASSERT(slot != TN_NONE);
        struct sensor *s = sensor_mut(k, slot);
        s->ref = tn_text_put(&k->tables[TABLE_TEXT], c->name);
        s->in_use = 1;
        kernel_index_text_add(k, TEXT_SENSOR, slot);
    } else {
        sensor_unlink(k, slot);
        tn_text_drop(&k->tables[TABLE_TEXT], sensor_at(k, slot)->spec);
    }
    sensor_link(k, slot, trigger);
    struct sensor *s = sensor_mut(k, slot);
    s->spec = tn_text_put(&k->tables[TABLE_TEXT], c->spec);
    s->enabled = c->enabled;
    kernel_event_named(k, KERNEL_EVENT_SENSOR_SET, c->name, c->enabled);
}

void kernel_run_sensor_enable(struct kernel *k, const struct kernel_command *c,
                              struct kernel_result *result) {
    uint32_t slot = kernel_index_text(k, TEXT_SENSOR, c->name);
    if (slot == TN_NONE) {
        result->code = TN_R_NOTFOUND;
    } else if (sensor_at(k, slot)->enabled == c->enabled) {
        result->code = TN_R_NOOP;
    } else {
        sensor_mut(k, slot)->enabled = c->enabled;
        kernel_event_named(k, KERNEL_EVENT_SENSOR_SET, c->name, c->enabled);
    }
}

void kernel_run_sensor_delete(struct kernel *k, const struct kernel_command *c,
                              struct kernel_result *result) {
    uint32_t slot = kernel_index_text(k, TEXT_SENSOR, c->name);
    if (slot == TN_NONE) {
        result->code = TN_R_NOTFOUND;
        return;
    }
    kernel_event_named(k, KERNEL_EVENT_SENSOR_DELETED, c->name, 0);
    sensor_unlink(k, slot);
    kernel_index_text_remove(k, TEXT_SENSOR, slot);
    tn_text_drop(&k->tables[TABLE_TEXT], sensor_at(k, slot)->ref);
    tn_text_drop(&k->tables[TABLE_TEXT], sensor_at(k, slot)->spec);
    tn_table_give(&k->tables[TABLE_SENSOR], slot);
}

/* ---- what the supervisor reports ---- */

/* The kind of the event that is called "sensor." and this word; KERNEL_EVENT_COUNT: none is. */
static enum kernel_event_kind report_kind(struct tn_bytes word) {
    for (unsigned i = KERNEL_EVENT_SENSOR_STARTED; i <= KERNEL_EVENT_SENSOR_START_FAILED; i++) {
        const char *name = kernel_event_name((enum kernel_event_kind)i) + sizeof "sensor." - 1;
        if (tn_bytes_equal(tn_bytes_of(name, strlen(name)), word)) {
            return (enum kernel_event_kind)i;
        }
    }
    return KERNEL_EVENT_COUNT;
}

/* Changes nothing. The sensor need not be there any more: its run may outlive it by a little. */
void kernel_run_sensor_report(struct kernel *k, const struct kernel_command *c,
                              struct kernel_result *result) {
    enum kernel_event_kind kind = report_kind(c->trigger);
    if (!(c->rights & KERNEL_RIGHT_SUPERVISOR)) {
        result->code = TN_R_DENIED;
    } else if (!kernel_name_resource_valid(c->name)) {
        result->code = TN_R_BAD_NAME;
    } else if (kind == KERNEL_EVENT_COUNT) {
        result->code = TN_R_BAD_REQUEST;
    } else if (c->meta.len > KERNEL_META_MAX) {
        result->code = TN_R_TOO_LARGE;
        result->number = KERNEL_META_MAX;
    } else {
        kernel_event_sensor(k, kind, c, (struct tn_bytes){0});
    }
}
