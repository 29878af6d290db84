/* Declared sensors and rules: the keys of [sensor REF] and [rule ID].
 *
 * A key of a sensor is a member of its description, which becomes the JSON that SENSOR SET takes; what
 * is inside an object has a dot: env.HOME, limits.nofile, health.http. The table below says only how a
 * key's text becomes JSON. Whether the whole makes sense is asked of the function that judges all
 * descriptions. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "protocol/text.h"

#define WORDS_BLANK " \t"

enum key_form { KEY_TEXT, KEY_WORDS, KEY_NUMBER, KEY_SECONDS, KEY_SWITCH };

static const struct {
    const char *key;
    enum key_form form;
} keys[] = {
    {"command", KEY_WORDS},
    {"cwd", KEY_TEXT},
    {"user", KEY_TEXT},
    {"group", KEY_TEXT},
    {"containment", KEY_TEXT},
    {"limits.nofile", KEY_NUMBER},
    {"limits.memory_bytes", KEY_NUMBER},
    {"limits.cpu_seconds", KEY_SECONDS},
    {"limits.processes", KEY_NUMBER},
    {"limits.file_bytes", KEY_NUMBER},
    {"limits.core_bytes", KEY_NUMBER},
    {"stop_order", KEY_TEXT},
    {"stop_seconds", KEY_SECONDS},
    {"settle_seconds", KEY_SECONDS},
    {"max_restarts", KEY_NUMBER},
    {"backoff_seconds", KEY_SECONDS},
    {"backoff_max_seconds", KEY_SECONDS},
    {"stable_seconds", KEY_SECONDS},
    {"token_env", KEY_TEXT},
    {"token_ttl_seconds", KEY_SECONDS},
    {"scope", KEY_TEXT},
    {"rules_signal", KEY_TEXT},
    {"health.command", KEY_WORDS},
    {"health.http", KEY_TEXT},
    {"health.heartbeat", KEY_SWITCH},
    {"health.interval_seconds", KEY_SECONDS},
    {"health.timeout_seconds", KEY_SECONDS},
    {"health.threshold", KEY_NUMBER},
    {"health.start_seconds", KEY_SECONDS},
    {"log_bytes", KEY_NUMBER},
    {"log_files", KEY_NUMBER},
};

/* ---- Texts to JSON; NULL: `reason` says why not ---- */

/* Reads the word at *at into `out`, without its quotes, and advances *at. */
static bool word_take(const char **at, char *out, char reason[CONFIG_REASON_MAX]) {
    bool quoted = false;
    const char *in = *at;
    while (*in != '\0' && (quoted || strchr(WORDS_BLANK, *in) == NULL)) {
        if (*in == '"') {
            quoted = !quoted;
            in++;
            continue;
        }
        if (*in == '\\') {
            in++;
            if (*in == '\0') {
                return config_refuse(reason, "nothing follows the last \\");
            }
        }
        *out++ = *in++;
    }
    *out = '\0';
    *at = in + strspn(in, WORDS_BLANK);
    return !quoted || config_refuse(reason, "a \" is missing");
}

/* Words are separated by blanks; a word with blanks is quoted. */
static json_t *words_of(const char *text, char reason[CONFIG_REASON_MAX]) {
    char *word = malloc(strlen(text) + 1);
    json_t *list = json_array();
    bool good = word != NULL && list != NULL;
    if (!good) {
        (void)config_refuse(reason, "no memory");
    }
    for (const char *at = text; good && *at != '\0';) {
        good = word_take(&at, word, reason);
        if (good && json_array_append_new(list, json_string(word)) != 0) {
            good = config_refuse(reason, "it is not UTF-8");
        }
    }
    free(word);
    if (!good) {
        json_decref(list);
        list = NULL;
    }
    return list;
}

/* Seconds as a JSON number, whole or with up to three decimals. */
static json_t *seconds_of(const char *key, const char *text, char reason[CONFIG_REASON_MAX]) {
    struct config_row row = {.name = key, .type = CONFIG_SECONDS, .high = SENSOR_TIME_MAX_MS};
    uint64_t ms;
    if (!config_parse(&row, text, &ms, reason)) {
        return NULL;
    }
    return ms % 1000 == 0 ? json_integer((json_int_t)(ms / 1000)) : json_real((double)ms / 1000.0);
}

static json_t *number_of(const char *key, const char *text, char reason[CONFIG_REASON_MAX]) {
    struct config_row row = {.name = key, .type = CONFIG_BYTES, .high = INT64_MAX};
    uint64_t number;
    return config_parse(&row, text, &number, reason) ? json_integer((json_int_t)number) : NULL;
}

static bool switch_parse(const char *text, bool *ret_on, char reason[CONFIG_REASON_MAX]) {
    *ret_on = strcmp(text, "yes") == 0;
    return *ret_on || strcmp(text, "no") == 0 ||
           config_refuse(reason, "'%.60s' is not yes or no", text);
}

static json_t *value_of(const char *key, enum key_form form, const char *text,
                        char reason[CONFIG_REASON_MAX]) {
    bool on;
    (void)snprintf(reason, CONFIG_REASON_MAX, "it is not UTF-8");
    switch (form) {
    case KEY_WORDS:
        return words_of(text, reason);
    case KEY_NUMBER:
        return number_of(key, text, reason);
    case KEY_SECONDS:
        return seconds_of(key, text, reason);
    case KEY_SWITCH:
        return switch_parse(text, &on, reason) ? json_boolean(on) : NULL;
    default:
        return json_string(text);
    }
}

/* ---- The description ---- */

/* Further words of the same key are appended. Takes ownership of `value`. */
static bool member_put(json_t *object, const char *name, json_t *value, const char *key,
                       char reason[CONFIG_REASON_MAX]) {
    json_t *there = json_object_get(object, name);
    if (there == NULL) {
        return json_object_set_new(object, name, value) == 0 || config_refuse(reason, "no memory");
    }
    bool more = json_is_array(there) && json_is_array(value);
    bool good = more ? json_array_extend(there, value) == 0 || config_refuse(reason, "no memory")
                     : config_refuse(reason, "%s is set twice", key);
    json_decref(value);
    return good;
}

static bool description_set(json_t *description, const char *key, enum key_form form,
                            const char *text, char reason[CONFIG_REASON_MAX]) {
    char why[CONFIG_REASON_MAX];
    json_t *value = value_of(key, form, text, why);
    if (value == NULL) {
        return config_refuse(reason, "%.60s: %.150s", key, why);
    }
    const char *dot = strchr(key, '.');
    if (dot == NULL) {
        return member_put(description, key, value, key, reason);
    }
    char group[CONFIG_NAME_MAX];
    (void)snprintf(group, sizeof group, "%.*s", (int)(dot - key), key);
    json_t *inner = json_object_get(description, group);
    if (inner == NULL) {
        inner = json_object();
        if (json_object_set_new(description, group, inner) != 0) {
            json_decref(value);
            return config_refuse(reason, "no memory");
        }
    }
    return member_put(inner, dot + 1, value, key, reason);
}

/* Keeps the line as written, for the printout. A value that begins like a comment must not become
 * one. */
static bool line_keep(struct config_sensor *sensor, const char *key, const char *text,
                      char reason[CONFIG_REASON_MAX]) {
    size_t old = sensor->lines == NULL ? 0 : strlen(sensor->lines);
    size_t room = strlen(key) + strlen(text) + 8;
    char *lines = realloc(sensor->lines, old + room);
    if (lines == NULL) {
        return config_refuse(reason, "no memory");
    }
    sensor->lines = lines;
    (void)snprintf(lines + old, room, "%s =%s%s\n", key, *text == ';' ? "" : " ", text);
    return true;
}

/* ---- What sensors and rules have in common ---- */

static bool demand_knows(const char *key) {
    return strcmp(key, "trigger") == 0 || strcmp(key, "enabled") == 0;
}

static bool demand_set(struct config_demand *demand, const char *key, const char *text,
                       char reason[CONFIG_REASON_MAX]) {
    bool trigger = strcmp(key, "trigger") == 0;
    if (trigger ? demand->trigger[0] != '\0' : demand->has_enabled) {
        return config_refuse(reason, "%s is set twice", key);
    }
    if (!trigger) {
        demand->has_enabled = true;
        return switch_parse(text, &demand->enabled, reason);
    }
    const char *fault = protocol_name_fault(tn_bytes_of(text, strlen(text)), KERNEL_RULE_MAX);
    if (fault != NULL) {
        return config_refuse(reason, "trigger: %s", fault);
    }
    (void)snprintf(demand->trigger, sizeof demand->trigger, "%s", text);
    return true;
}

static bool demand_check(const struct config_demand *demand, char reason[CONFIG_REASON_MAX]) {
    return demand->trigger[0] != '\0' || config_refuse(reason, "its trigger is missing");
}

static void demand_print(const char *word, const struct config_head *head,
                         const struct config_demand *demand, FILE *out) {
    (void)fprintf(out, "\n[%s %s]\ntrigger =%s%s\n", word, head->name,
                  demand->trigger[0] == ';' ? "" : " ", demand->trigger);
    if (demand->has_enabled) {
        (void)fprintf(out, "enabled = %s\n", demand->enabled ? "yes" : "no");
    }
}

/* ---- Sensors ---- */

bool config_sensor_set(struct config_sensor *sensor, const char *key, const char *text,
                       char reason[CONFIG_REASON_MAX]) {
    if (demand_knows(key)) {
        return demand_set(&sensor->demand, key, text, reason);
    }
    enum key_form form = KEY_TEXT;
    if (strncmp(key, "env.", 4) != 0 || key[4] == '\0') {
        size_t i = 0;
        while (i < sizeof keys / sizeof keys[0] && strcmp(keys[i].key, key) != 0) {
            i++;
        }
        if (i == sizeof keys / sizeof keys[0]) {
            return config_refuse(reason, "unknown sensor key '%.60s'", key);
        }
        form = keys[i].form;
    }
    if (sensor->description == NULL) {
        sensor->description = json_object();
    }
    return description_set(sensor->description, key, form, text, reason) &&
           line_keep(sensor, key, text, reason);
}

char *config_sensor_json(const struct config_sensor *sensor) {
    return sensor->description == NULL
               ? strdup("{}")
               : json_dumps(sensor->description, JSON_COMPACT | JSON_REAL_PRECISION(12));
}

struct sensor_defaults config_sensor_defaults(const struct config *config) {
    struct sensor_defaults defaults = sensor_defaults_make();
    defaults.stop_ms = config_number(config, CONFIG_SENSOR_STOP);
    defaults.settle_ms = config_number(config, CONFIG_SENSOR_SETTLE);
    defaults.backoff_ms = config_number(config, CONFIG_SENSOR_BACKOFF);
    defaults.backoff_max_ms = config_number(config, CONFIG_SENSOR_BACKOFF_MAX);
    defaults.stable_ms = config_number(config, CONFIG_SENSOR_STABLE);
    defaults.max_restarts = (uint32_t)config_number(config, CONFIG_SENSOR_RESTARTS);
    defaults.log_bytes = config_number(config, CONFIG_SENSOR_LOG_BYTES);
    defaults.log_files = (uint32_t)config_number(config, CONFIG_SENSOR_LOG_FILES);
    defaults.containment =
        (enum sensor_containment)config_number(config, CONFIG_SENSOR_CONTAINMENT);
    defaults.token_env = config_text(config, CONFIG_SENSOR_TOKEN_ENV);
    defaults.token_ttl_s = config_number(config, CONFIG_TOKEN_TTL);
    return defaults;
}

/* Judges the description like SENSOR SET. */
static bool description_check(const struct config *config, const char *json,
                              char reason[CONFIG_REASON_MAX]) {
    struct sensor_defaults defaults = config_sensor_defaults(config);
    struct sensor_spec *spec = NULL;
    char why[SENSOR_REASON_MAX];
    if (strlen(json) > KERNEL_SENSOR_SPEC_MAX) {
        return config_refuse(reason, "its description is longer than %u bytes",
                             KERNEL_SENSOR_SPEC_MAX);
    }
    bool good = sensor_spec_parse(tn_bytes_of(json, strlen(json)), &defaults, &spec, why) ||
                config_refuse(reason, "%s", why);
    sensor_spec_free(spec);
    return good;
}

bool config_sensor_check(const struct config *config, const struct config_sensor *sensor,
                         char reason[CONFIG_REASON_MAX]) {
    char *json = config_sensor_json(sensor);
    bool good = false;
    if (json == NULL) {
        (void)config_refuse(reason, "no memory");
    } else {
        good = demand_check(&sensor->demand, reason) && description_check(config, json, reason);
    }
    free(json);
    return good;
}

void config_sensor_print(const struct config_sensor *sensor, FILE *out) {
    demand_print("sensor", &sensor->head, &sensor->demand, out);
    (void)fputs(sensor->lines != NULL ? sensor->lines : "", out);
}

void config_sensor_free(struct config_sensor *sensor) {
    json_decref(sensor->description);
    free(sensor->lines);
}

/* ---- Rules ---- */

/* Judges the metadata like RULE SET. */
static bool meta_set(struct config_rule *rule, const char *text, char reason[CONFIG_REASON_MAX]) {
    if (rule->meta != NULL) {
        return config_refuse(reason, "meta is set twice");
    }
    if (strlen(text) > KERNEL_META_MAX) {
        return config_refuse(reason, "meta: at most %u bytes", KERNEL_META_MAX);
    }
    const char *fault = protocol_json_fault(tn_bytes_of(text, strlen(text)));
    if (fault != NULL) {
        return config_refuse(reason, "meta: %s", fault);
    }
    rule->meta = strdup(text);
    return rule->meta != NULL || config_refuse(reason, "no memory");
}

bool config_rule_set(struct config_rule *rule, const char *key, const char *text,
                     char reason[CONFIG_REASON_MAX]) {
    if (strcmp(key, "meta") == 0) {
        return meta_set(rule, text, reason);
    }
    return demand_knows(key) ? demand_set(&rule->demand, key, text, reason)
                             : config_refuse(reason, "unknown rule key '%.60s'", key);
}

bool config_rule_check(const struct config_rule *rule, char reason[CONFIG_REASON_MAX]) {
    return demand_check(&rule->demand, reason);
}

void config_rule_print(const struct config_rule *rule, FILE *out) {
    demand_print("rule", &rule->head, &rule->demand, out);
    if (rule->meta != NULL) {
        (void)fprintf(out, "meta = %s\n", rule->meta);
    }
}

void config_rule_free(struct config_rule *rule) {
    free(rule->meta);
}
