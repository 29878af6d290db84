/* Sensors as the engine has them, turned into facts.
 *
 * A notice says only where to look: what is read may be newer than it, and reading twice does no
 * harm. The loop must not wait, so these reads take the state as it is; nothing here hangs on a
 * deadline. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "engine/read.h"
#include "supervisor/supervisor_parts.h"

#define PAGE 64u

static struct plan_terms terms_of(const struct supervisor *supervisor,
                                  const struct sensor_spec *spec) {
    const struct sensor_defaults *defaults = &supervisor->options.defaults;
    if (spec == NULL) {
        return (struct plan_terms){.settle_ms = defaults->settle_ms, .stop_ms = defaults->stop_ms};
    }
    return (struct plan_terms){.valid = true,
                               .settle_ms = spec->settle_ms,
                               .stop_ms = spec->stop_ms,
                               .backoff_ms = spec->backoff_ms,
                               .backoff_max_ms = spec->backoff_max_ms,
                               .stable_ms = spec->stable_ms,
                               .max_restarts = spec->max_restarts,
                               .exit_first = spec->exit_first};
}

/* Digest of everything that a run depends on. Its token contains the trigger. */
static uint64_t digest_of(const struct kernel_sensor_view *view, const void *spec) {
    uint64_t seed = tn_hash64(view->trigger, view->trigger_len, 1);
    return tn_hash64(spec, view->spec_len, seed);
}

/* A run keeps the description that it was started with. */
static void spec_replace(struct supervisor_sensor *sensor, struct sensor_spec *spec) {
    if (sensor->spec != sensor->run_spec) {
        sensor_spec_free(sensor->spec);
    }
    sensor->spec = spec;
}

static struct supervisor_sensor *spec_take(struct supervisor *supervisor,
                                           struct supervisor_sensor *sensor,
                                           const struct kernel_sensor_view *view) {
    char reason[SENSOR_REASON_MAX];
    struct sensor_spec *spec = NULL;
    uint64_t digest = digest_of(view, supervisor->spec);
    if (sensor != NULL && sensor->known && sensor->defaults == supervisor->defaults &&
        digest == sensor->plan.digest) {
        return sensor;
    }
    bool good = sensor_spec_parse(tn_bytes_of(supervisor->spec, view->spec_len),
                                  &supervisor->options.defaults, &spec, reason);
    struct plan_terms terms = terms_of(supervisor, good ? spec : NULL);
    if (sensor == NULL) {
        sensor = supervisor_add(supervisor, tn_bytes_of(view->ref, view->ref_len), &terms, digest);
        if (sensor == NULL) {
            sensor_spec_free(spec);
            return NULL;
        }
    }
    supervisor_index_trigger(sensor, tn_bytes_of(view->trigger, view->trigger_len));
    spec_replace(sensor, good ? spec : NULL);
    sensor->known = true;
    sensor->defaults = supervisor->defaults;
    sensor->forgotten = false;
    if (!good) {
        supervisor_error(sensor, "invalid description: %s", reason);
    }
    supervisor_tell(sensor,
                    &(struct plan_fact){.kind = PLAN_FACT_SPEC, .terms = terms, .digest = digest});
    return sensor;
}

static void wanted_take(struct supervisor_sensor *sensor, const struct kernel_sensor_view *view,
                        bool at_once) {
    bool wanted = view->wanted && !sensor->supervisor->idle;
    bool changed =
        !sensor->told || sensor->plan.wanted != wanted || sensor->plan.enabled != view->enabled;
    sensor->rules = view->active_rules;
    if (changed && !sensor->held) {
        sensor->told = true;
        supervisor_tell(sensor, &(struct plan_fact){.kind = PLAN_FACT_WANTED,
                                                    .wanted = wanted,
                                                    .enabled = view->enabled,
                                                    .at_once = at_once});
    }
}

void supervisor_read_sensor(struct supervisor *supervisor, struct tn_bytes ref, bool at_once) {
    struct kernel_sensor_view view;
    struct supervisor_sensor *sensor = supervisor_find(supervisor, ref);
    if (supervisor->closing) {
        return; /* nothing new is started */
    }
    enum tn_result code =
        engine_sensor_read(supervisor->options.engine, SUPERVISOR_READ, ref, &view,
                           supervisor->spec, sizeof supervisor->spec, NULL);
    if (code == TN_R_OK) {
        sensor = spec_take(supervisor, sensor, &view);
        if (sensor != NULL) {
            wanted_take(sensor, &view, at_once);
        }
    } else if (code != TN_R_NOTFOUND) {
        supervisor_halt(supervisor);
    } else if (sensor != NULL && sensor->known) {
        sensor->known = false;
        sensor->told = false;
        supervisor_tell(sensor, &(struct plan_fact){.kind = PLAN_FACT_DELETED});
    }
}

/* ---- Notices ---- */

/* Reading a sensor may remove it from the list. */
static void demand_changed(struct supervisor *supervisor, struct tn_bytes trigger) {
    struct supervisor_sensor *next;
    uint32_t count = 0;
    for (struct supervisor_sensor *s = supervisor_find_trigger(supervisor, trigger); s != NULL;
         s = next) {
        next = s->next_of_trigger;
        if (!tn_bytes_equal(trigger, tn_bytes_of(s->trigger, s->trigger_len))) {
            continue;
        }
        /* A walk reads the remaining ones, a few at a time. */
        if (count++ == SUPERVISOR_DEMAND_MAX) {
            supervisor_walk(supervisor, SUPERVISOR_WALK_READ);
            return;
        }
        supervisor_read_sensor(supervisor, tn_bytes_of(s->ref, strlen(s->ref)), false);
    }
}

static void error_clear(struct supervisor *supervisor, struct tn_bytes trigger) {
    for (struct supervisor_sensor *s = supervisor_find_trigger(supervisor, trigger); s != NULL;
         s = s->next_of_trigger) {
        if (plan_state_of(&s->plan) == PLAN_STATE_ERROR &&
            tn_bytes_equal(trigger, tn_bytes_of(s->trigger, s->trigger_len))) {
            supervisor_tell(s, &(struct plan_fact){.kind = PLAN_FACT_NEW_RULE});
        }
    }
}

/* A new rule matters only to sensors in the state error. */
static void rule_set(struct supervisor *supervisor, struct tn_bytes id) {
    struct kernel_rule_view rule;
    if (supervisor->totals.by_state[PLAN_STATE_ERROR] > 0 &&
        engine_rule_read(supervisor->options.engine, SUPERVISOR_READ, id, &rule) == TN_R_OK &&
        rule.enabled) {
        error_clear(supervisor, tn_bytes_of(rule.trigger, rule.trigger_len));
    }
}

void supervisor_read_notice(struct supervisor *supervisor, const struct supervisor_notice *notice) {
    struct tn_bytes name = tn_bytes_of(notice->name, notice->len);
    switch (notice->kind) {
    case SUPERVISOR_SENSOR_CHANGED:
        supervisor_read_sensor(supervisor, name, false);
        break;
    case SUPERVISOR_DEMAND_CHANGED:
        demand_changed(supervisor, name);
        break;
    case SUPERVISOR_RULE_SET:
        rule_set(supervisor, name);
        break;
    case SUPERVISOR_RULES_CHANGED:
        supervisor_rules_changed(supervisor, name);
        break;
    case SUPERVISOR_LEASE_REVOKED: {
        struct supervisor_sensor *sensor = supervisor_find(supervisor, name);
        if (sensor != NULL) {
            supervisor_tell(sensor, &(struct plan_fact){.kind = PLAN_FACT_LEASE_REVOKED,
                                                        .lease = notice->lease});
        }
        break;
    }
    }
}

/* ---- All of them ---- */

static bool sensors_read(struct supervisor *supervisor, bool at_once) {
    struct kernel_sensor_view *page = calloc(PAGE, sizeof *page);
    uint64_t cursor = 0;
    uint32_t count;
    bool good = page != NULL;
    while (good) {
        good = engine_sensors_list(supervisor->options.engine, SUPERVISOR_READ, &cursor, page, PAGE,
                                   &count, NULL) == TN_R_OK;
        for (uint32_t i = 0; good && i < count; i++) {
            supervisor_read_sensor(supervisor, tn_bytes_of(page[i].ref, page[i].ref_len), at_once);
        }
        if (cursor == 0) {
            break;
        }
    }
    free(page);
    return good;
}

/* The sensor of this name, added if necessary: a run or a directory of an earlier server may belong
 * to a deleted sensor. NULL: out of memory. */
static struct supervisor_sensor *find_or_add(struct supervisor *supervisor, struct tn_bytes ref) {
    struct supervisor_sensor *sensor = supervisor_find(supervisor, ref);
    struct plan_terms terms = terms_of(supervisor, NULL);
    return sensor != NULL ? sensor : supervisor_add(supervisor, ref, &terms, 0);
}

/* A lease that this supervisor did not take belongs to an earlier server. */
static void lease_found(struct supervisor *supervisor, const struct engine_lease *lease) {
    const struct kernel_value *value = &lease->values[0].value;
    struct supervisor_sensor *sensor =
        find_or_add(supervisor, tn_bytes_of(value->name, value->name_len));
    if (sensor == NULL) {
        return;
    }
    bool revoked = lease->view.state == KERNEL_REVOKING;
    sensor->member = true;
    supervisor_tell(sensor,
                    &(struct plan_fact){.kind = PLAN_FACT_FOUND,
                                        .lease = lease->view.id,
                                        .epoch = lease->view.epoch - revoked, /* the run's */
                                        .abroad = supervisor_abroad_is(sensor, lease->view.id),
                                        .revoked = revoked});
}

bool supervisor_read_leases(struct supervisor *supervisor) {
    if (supervisor_pool(supervisor) != SUPERVISOR_POOL_OURS) {
        return true;
    }
    struct engine_lease *page = calloc(PAGE, sizeof *page);
    struct kernel_lease_filter filter = {
        .pool = tn_bytes_of(TOKEN_SENSOR_POOL, strlen(TOKEN_SENSOR_POOL))};
    uint64_t cursor = 0;
    uint64_t lsn;
    uint32_t count;
    bool good = page != NULL;
    while (good) {
        good = engine_leases_list(supervisor->options.engine, SUPERVISOR_READ, &filter, &cursor,
                                  page, PAGE, &count, &lsn) == TN_R_OK;
        for (uint32_t i = 0; good && i < count; i++) {
            lease_found(supervisor, &page[i]);
        }
        if (cursor == 0) {
            break;
        }
    }
    free(page);
    return good;
}

/* The directory of a sensor that was deleted while no server could remove it. */
static void directory_seen(void *ctx, const char *name) {
    struct supervisor *supervisor = ctx;
    char text[KERNEL_RESOURCE_MAX + 1];
    if (run_dir_ref(name, text)) {
        (void)find_or_add(supervisor, tn_bytes_of(text, strlen(text)));
    }
}

/* Reads the leases before the sensors: nothing starts before earlier runs have ended. */
bool supervisor_read_first(struct supervisor *supervisor) {
    const struct os *os = supervisor->options.os;
    if (!supervisor_read_leases(supervisor) || !sensors_read(supervisor, true)) {
        return false;
    }
    (void)os->list(os->ctx, supervisor->options.dir, directory_seen, supervisor);
    for (struct supervisor_sensor *s = supervisor->sensors; s != NULL; s = s->next) {
        if (!s->known) {
            supervisor_tell(s, &(struct plan_fact){.kind = PLAN_FACT_DELETED});
        }
    }
    return true;
}

static void lease_check(struct supervisor_sensor *sensor) {
    struct engine_lease lease;
    if (sensor->plan.lease_is != PLAN_LEASE_ACTIVE) {
        return;
    }
    enum tn_result code = engine_verify(sensor->supervisor->options.engine, SUPERVISOR_READ,
                                        sensor->plan.lease, sensor->plan.epoch, &lease);
    if (code == TN_R_STALE || code == TN_R_STATE || code == TN_R_OVERDUE) {
        supervisor_tell(sensor, &(struct plan_fact){.kind = PLAN_FACT_LEASE_REVOKED,
                                                    .lease = sensor->plan.lease});
    }
}

void supervisor_read_unproven(struct supervisor *supervisor, struct tn_bytes ref,
                              struct kernel_lease_id lease, uint64_t epoch) {
    struct supervisor_sensor *sensor = find_or_add(supervisor, ref);
    if (sensor == NULL) {
        return;
    }
    char run[TOKEN_ID_TEXT];
    (void)token_id_format(lease, epoch, run);
    sensor->held = true;
    supervisor_error(
        sensor,
        "nothing proves that run %s of an earlier server is dead: its guardian was killed. Kill "
        "its remaining processes, then reset the sensor",
        run);
    supervisor_tell(sensor, &(struct plan_fact){.kind = PLAN_FACT_UNPROVEN});
}

/* ---- Walks ---- */

/* Adds sensors that are not in the table. The feed reports later changes. */
static void walk_page(struct supervisor *supervisor) {
    struct supervisor_walk *walk = &supervisor->walk;
    struct kernel_sensor_view *page = calloc(PAGE, sizeof *page);
    uint32_t count = 0;
    bool good =
        page != NULL && engine_sensors_list(supervisor->options.engine, SUPERVISOR_READ,
                                            &walk->cursor, page, PAGE, &count, NULL) == TN_R_OK;
    for (uint32_t i = 0; good && i < count; i++) {
        supervisor_read_sensor(supervisor, tn_bytes_of(page[i].ref, page[i].ref_len), false);
    }
    free(page);
    if (!good) {
        supervisor_log(supervisor, "event=supervisor_behind reason=\"cannot read sensors\"");
    }
    if (!good || walk->cursor == 0) {
        walk->what = 0;
    }
}

/* It is not known which rules were set, so any wanted sensor may be concerned. */
static void walk_sensor(struct supervisor *supervisor, struct supervisor_sensor *sensor) {
    unsigned what = supervisor->walk.what;
    supervisor_read_sensor(supervisor, tn_bytes_of(sensor->ref, strlen(sensor->ref)), false);
    if (what & SUPERVISOR_WALK_MISSED) {
        lease_check(sensor);
        supervisor_rules_mark(sensor);
    }
    if ((what & SUPERVISOR_WALK_RULES) && sensor->known && sensor->rules > 0) {
        supervisor_tell(sensor, &(struct plan_fact){.kind = PLAN_FACT_NEW_RULE});
    }
    if (what & SUPERVISOR_WALK_TOKENS) {
        supervisor_tell(sensor, &(struct plan_fact){.kind = PLAN_FACT_TOKEN_VOID});
    }
}

/* Sensors added meanwhile are put before the start of the walk, because they are up to date. */
void supervisor_walk(struct supervisor *supervisor, unsigned what) {
    struct supervisor_walk *walk = &supervisor->walk;
    if (supervisor->off || supervisor->closing) {
        return;
    }
    if (walk->what != 0) {
        walk->next_what |= what;
    } else {
        *walk = (struct supervisor_walk){.what = what, .at = supervisor->sensors};
    }
    (void)uv_async_send(&supervisor->news);
}

void supervisor_walk_on(struct supervisor *supervisor, uint64_t end_ns) {
    struct supervisor_walk *walk = &supervisor->walk;
    for (unsigned i = 0; walk->what != 0; i++) {
        if (i >= SUPERVISOR_WALK_MAX || uv_hrtime() >= end_ns) {
            (void)uv_async_send(&supervisor->news);
            return;
        }
        struct supervisor_sensor *sensor = walk->at;
        if (sensor != NULL) {
            walk->at = sensor->next;
            walk_sensor(supervisor, sensor);
        } else if (walk->what & SUPERVISOR_WALK_MISSED) {
            walk_page(supervisor);
            i += PAGE - 1;
        } else {
            walk->what = 0;
        }
        if (walk->what == 0 && walk->next_what != 0) {
            *walk = (struct supervisor_walk){.what = walk->next_what, .at = supervisor->sensors};
        }
    }
}

void supervisor_tokens_void(struct supervisor *supervisor) {
    if (supervisor != NULL) {
        supervisor_walk(supervisor, SUPERVISOR_WALK_TOKENS);
    }
}

void supervisor_defaults_set(struct supervisor *supervisor,
                             const struct sensor_defaults *defaults) {
    supervisor->options.defaults = *defaults;
    supervisor->defaults++;
    supervisor_walk(supervisor, SUPERVISOR_WALK_READ);
}
