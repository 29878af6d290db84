/* Declared sensors and rules: set where they are missing or differ. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "config/reconcile.h"
#include "engine/read.h"
#include "server/log_line.h"

static struct tn_bytes text_of(const char *text) {
    return tn_bytes_of(text, strlen(text));
}

static bool trigger_is(const struct config_demand *demand, const char *trigger, uint32_t len) {
    return strlen(demand->trigger) == len && memcmp(demand->trigger, trigger, len) == 0;
}

/* The wanted state: as declared; otherwise unchanged; for a new one, enabled. */
static bool enabled_of(const struct config_demand *demand, bool there, bool is) {
    return demand->has_enabled ? demand->enabled : !there || is;
}

static bool set(struct config_reconcile_work *work, enum kernel_verb verb,
                const struct config_head *head, const struct config_demand *demand, bool enabled,
                const char *json, const char *meta) {
    struct kernel_command command = {.verb = verb,
                                     .fields = KERNEL_F_NAME | KERNEL_F_TRIGGER | KERNEL_F_ENABLED,
                                     .name = text_of(head->name),
                                     .trigger = text_of(demand->trigger),
                                     .enabled = enabled};
    if (json != NULL) {
        command.fields |= KERNEL_F_SPEC;
        command.spec = text_of(json);
    }
    if (meta != NULL) {
        command.fields |= KERNEL_F_META;
        command.meta = text_of(meta);
    }
    return config_reconcile_execute(work, head, &command);
}

/* ---- Sensors ---- */

/* Spaces and the order of members do not change a description, so they cause no restart of the
 * sensor. */
static bool description_is(const struct config_sensor *sensor, const char *spec, size_t len) {
    json_t *is = json_loadb(spec, len, 0, NULL);
    json_t *none = json_object();
    bool same =
        is != NULL && json_equal(is, sensor->description != NULL ? sensor->description : none);
    json_decref(is);
    json_decref(none);
    return same;
}

static void sensor_reconcile(struct config_reconcile_work *work, const struct config_sensor *sensor,
                             char *spec) {
    struct kernel_sensor_view view = {0};
    enum tn_result code =
        engine_sensor_read(work->engine, ENGINE_READ_CURRENT, text_of(sensor->head.name), &view,
                           spec, KERNEL_SENSOR_SPEC_MAX, NULL);
    bool there = code == TN_R_OK;
    if (!there && code != TN_R_NOTFOUND) {
        config_reconcile_refused(work, &sensor->head, "read", code);
        return;
    }
    bool enabled = enabled_of(&sensor->demand, there, view.enabled);
    if (there && enabled == view.enabled &&
        trigger_is(&sensor->demand, view.trigger, view.trigger_len) &&
        description_is(sensor, spec, view.spec_len)) {
        return;
    }
    char *json = config_sensor_json(sensor);
    if (json == NULL) {
        config_reconcile_refused(work, &sensor->head, "read", TN_R_OVERLOADED);
    } else if (set(work, KERNEL_VERB_SENSOR_SET, &sensor->head, &sensor->demand, enabled, json,
                   NULL)) {
        work->report.sensors_set++;
        server_log("sensor_declared", "name=%s enabled=%s", sensor->head.name,
                   enabled ? "yes" : "no");
    }
    free(json);
}

void config_reconcile_sensors(struct config_reconcile_work *work, const struct config *config) {
    char *spec = malloc(KERNEL_SENSOR_SPEC_MAX);
    for (uint32_t i = 0; i < config->declared[CONFIG_KIND_SENSOR].count; i++) {
        const struct config_sensor *sensor = config_sensor_at(config, i);
        if (spec == NULL) {
            config_reconcile_refused(work, &sensor->head, "read", TN_R_OVERLOADED);
        } else {
            sensor_reconcile(work, sensor, spec);
        }
    }
    free(spec);
}

/* ---- Rules ---- */

/* What the file does not declare is left as it is. */
static bool meta_is(const struct config_rule *rule, const char *meta, uint32_t len) {
    return rule->meta == NULL || (strlen(rule->meta) == len && memcmp(rule->meta, meta, len) == 0);
}

static void rule_reconcile(struct config_reconcile_work *work, const struct config_rule *rule) {
    struct kernel_rule_view view = {0};
    char meta[KERNEL_META_MAX];
    enum tn_result code = engine_rule_read_whole(work->engine, ENGINE_READ_CURRENT,
                                                 text_of(rule->head.name), &view, meta, NULL);
    bool there = code == TN_R_OK;
    if (!there && code != TN_R_NOTFOUND) {
        config_reconcile_refused(work, &rule->head, "read", code);
        return;
    }
    bool enabled = enabled_of(&rule->demand, there, view.enabled);
    if (there && enabled == view.enabled &&
        trigger_is(&rule->demand, view.trigger, view.trigger_len) &&
        meta_is(rule, meta, view.meta_len)) {
        return;
    }
    if (set(work, KERNEL_VERB_RULE_SET, &rule->head, &rule->demand, enabled, NULL, rule->meta)) {
        work->report.rules_set++;
        server_log("rule_declared", "name=%s enabled=%s", rule->head.name, enabled ? "yes" : "no");
    }
}

void config_reconcile_rules(struct config_reconcile_work *work, const struct config *config) {
    for (uint32_t i = 0; i < config->declared[CONFIG_KIND_RULE].count; i++) {
        rule_reconcile(work, config_rule_at(config, i));
    }
}
