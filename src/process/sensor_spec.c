/* Descriptions of sensors. The document is parsed by jansson, judged member by member, and what is
 * kept is copied into one block, whose size is known before: no text gets longer than it is written. */
#include "process/sensor_spec.h"

#include <jansson.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/duration.h"

#define DAY_S 86400u
#define NAME_MAX_BYTES 64u /* bytes of the name of a user or a group */

/* A description that is being read. */
struct reading {
    struct sensor_spec *spec;
    struct tn_writer texts;    /* behind the pointers */
    const char **pointers;     /* the next free pointer */
    const char **pointers_end; /* the end of the pointers, where the texts begin */
    char *reason;
};

__attribute__((format(printf, 2, 3))) static bool refuse(const struct reading *r,
                                                         const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(r->reason, SENSOR_REASON_MAX, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- Parts of the block ---- */

static const char *text_keep(struct reading *r, const char *text, size_t len) {
    const char *at = (const char *)r->texts.at + r->texts.len;
    tn_write_raw(&r->texts, text, len);
    tn_write8(&r->texts, 0);
    TN_ASSERT(!r->texts.overflow);
    return at;
}

static const char **pointers_keep(struct reading *r, size_t count) {
    const char **at = r->pointers;
    TN_ASSERT((size_t)(r->pointers_end - at) > count);
    r->pointers += count + 1;
    at[count] = NULL;
    return at;
}

/* ---- Values ---- */

static bool text_take(struct reading *r, const char *name, const json_t *value, size_t max,
                      const char **ret_text) {
    if (!json_is_string(value)) {
        return refuse(r, "%s must be a string", name);
    }
    size_t len = json_string_length(value);
    if (len == 0 || len > max) {
        return refuse(r, "%s must have 1 to %zu bytes", name, max);
    }
    *ret_text = text_keep(r, json_string_value(value), len);
    return true;
}

static bool count_take(const struct reading *r, const char *name, const json_t *value, uint64_t min,
                       uint64_t max, uint64_t *ret_count) {
    json_int_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < 0 || (uint64_t)n < min || (uint64_t)n > max) {
        return refuse(r, "%s must be a whole number from %llu to %llu", name,
                      (unsigned long long)min, (unsigned long long)max);
    }
    *ret_count = (uint64_t)n;
    return true;
}

/* Reads a number of seconds, or a duration as text. */
static bool time_read(const json_t *value, uint64_t *ret_ms) {
    double seconds = json_number_value(value);
    if (json_is_string(value)) {
        return tn_duration_parse_ms(
            tn_bytes_of(json_string_value(value), json_string_length(value)), ret_ms);
    }
    if (!json_is_number(value) || !(seconds >= 0) ||
        seconds > (double)SENSOR_TIME_MAX_MS / 1000.0) {
        return false;
    }
    *ret_ms = (uint64_t)(seconds * 1000.0 + 0.5);
    return true;
}

static bool time_take(const struct reading *r, const char *name, const json_t *value,
                      uint64_t min_ms, uint64_t *ret_ms) {
    uint64_t ms = 0;
    if (!time_read(value, &ms) || ms < min_ms || ms > SENSOR_TIME_MAX_MS) {
        return refuse(r, "%s must be seconds, or a string such as 15m or 12h, from %g to %llu",
                      name, (double)min_ms / 1000.0,
                      (unsigned long long)(SENSOR_TIME_MAX_MS / 1000u));
    }
    *ret_ms = ms;
    return true;
}

static bool command_take(struct reading *r, const char *name, const json_t *value,
                         const char ***ret_argv, uint32_t *ret_argc) {
    size_t count = json_array_size(value);
    if (!json_is_array(value) || count == 0 || count > SENSOR_ARGS_MAX) {
        return refuse(r, "%s must be an array of 1 to %u strings", name, SENSOR_ARGS_MAX);
    }
    const char **argv = pointers_keep(r, count);
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(value, i);
        if (!json_is_string(item)) {
            return refuse(r, "%s must be an array of strings", name);
        }
        argv[i] = text_keep(r, json_string_value(item), json_string_length(item));
    }
    if (argv[0][0] == '\0' || (argv[0][0] != '/' && strchr(argv[0], '/') != NULL)) {
        return refuse(r, "%s must begin with an absolute path, or a name that PATH finds", name);
    }
    *ret_argv = argv;
    *ret_argc = (uint32_t)count;
    return true;
}

static bool env_take(struct reading *r, json_t *value) {
    size_t count = json_object_size(value);
    uint32_t at = 0;
    const char *key;
    json_t *item;
    if (!json_is_object(value) || count > SENSOR_ENV_MAX) {
        return refuse(r, "env must be an object with at most %u strings", SENSOR_ENV_MAX);
    }
    r->spec->env = pointers_keep(r, count);
    json_object_foreach(value, key, item) {
        if (key[0] == '\0' || strchr(key, '=') != NULL) {
            return refuse(r, "env has a name that is empty or contains =");
        }
        if (!json_is_string(item)) {
            return refuse(r, "env must be an object of strings");
        }
        const char *start = (const char *)r->texts.at + r->texts.len;
        tn_write_raw(&r->texts, key, strlen(key));
        tn_write8(&r->texts, '=');
        (void)text_keep(r, json_string_value(item), json_string_length(item));
        r->spec->env[at++] = start;
    }
    r->spec->envc = at;
    return true;
}

static bool limits_take(const struct reading *r, json_t *value) {
    static const char *const names[SENSOR_LIMITS] = {
#define LIMIT_NAME(id, name) name,
        SENSOR_LIMIT_TABLE(LIMIT_NAME)
#undef LIMIT_NAME
    };
    const char *key;
    json_t *item;
    if (!json_is_object(value)) {
        return refuse(r, "limits must be an object");
    }
    json_object_foreach(value, key, item) {
        uint32_t i = 0;
        while (i < SENSOR_LIMITS && strcmp(key, names[i]) != 0) {
            i++;
        }
        if (i == SENSOR_LIMITS) {
            return refuse(r, "limits has an unknown member: %.64s", key);
        }
        /* A program without descriptors, memory or time cannot even begin. */
        uint64_t min = i == SENSOR_LIMIT_FILE || i == SENSOR_LIMIT_CORE ? 0 : 1;
        if (i == SENSOR_LIMIT_CPU && json_is_string(item)) {
            uint64_t ms = 0;
            if (!time_take(r, names[i], item, 1000, &ms)) {
                return false;
            }
            r->spec->limits[i] = ms / 1000;
        } else if (!count_take(r, names[i], item, min, INT64_MAX, &r->spec->limits[i])) {
            return false;
        }
    }
    return true;
}

/* ---- Health ---- */

static bool url_take(struct reading *r, const json_t *value) {
    static const char scheme[] = "http://";
    if (!text_take(r, "health http", value, 1024, &r->spec->health_url)) {
        return false;
    }
    const char *host = r->spec->health_url + sizeof scheme - 1;
    if (strncmp(r->spec->health_url, scheme, sizeof scheme - 1) != 0 || *host == '\0' ||
        *host == '/') {
        return refuse(r, "health http must be http://host:port/path");
    }
    for (const char *at = host; *at != '\0'; at++) {
        if (*at <= ' ' || *at > '~') { /* it becomes part of an HTTP request without encoding */
            return refuse(r, "health http has an invalid character");
        }
    }
    return true;
}

static bool health_member_take(struct reading *r, const char *key, json_t *item) {
    struct sensor_spec *spec = r->spec;
    enum sensor_health kind = SENSOR_HEALTH_NONE;
    uint64_t count = 0;
    bool taken;
    if (strcmp(key, "command") == 0) {
        kind = SENSOR_HEALTH_COMMAND;
        taken = command_take(r, "health command", item, &spec->health_argv, &spec->health_argc);
    } else if (strcmp(key, "http") == 0) {
        kind = SENSOR_HEALTH_HTTP;
        taken = url_take(r, item);
    } else if (strcmp(key, "heartbeat") == 0) {
        kind = SENSOR_HEALTH_HEARTBEAT;
        taken = json_is_true(item) || refuse(r, "health heartbeat can only be true");
    } else if (strcmp(key, "interval_seconds") == 0) {
        taken = time_take(r, key, item, 10, &spec->health_interval_ms);
    } else if (strcmp(key, "timeout_seconds") == 0) {
        taken = time_take(r, key, item, 10, &spec->health_timeout_ms);
    } else if (strcmp(key, "start_seconds") == 0) {
        taken = time_take(r, key, item, 0, &spec->health_start_ms);
    } else if (strcmp(key, "threshold") == 0) {
        taken = count_take(r, key, item, 1, 1000, &count);
        spec->health_threshold = (uint32_t)count;
    } else {
        return refuse(r, "health has an unknown member: %.64s", key);
    }
    if (taken && kind != SENSOR_HEALTH_NONE) {
        if (spec->health != SENSOR_HEALTH_NONE) {
            return refuse(r, "health can be one of command, http and heartbeat");
        }
        spec->health = kind;
    }
    return taken;
}

static bool health_take(struct reading *r, json_t *value) {
    const char *key;
    json_t *item;
    if (!json_is_object(value)) {
        return refuse(r, "health must be an object");
    }
    json_object_foreach(value, key, item) {
        if (!health_member_take(r, key, item)) {
            return false;
        }
    }
    if (r->spec->health == SENSOR_HEALTH_NONE) {
        return refuse(r, "health must have one of command, http and heartbeat");
    }
    return true;
}

/* ---- Members ---- */

/* The supervisor sets these variables, or they control how programs are found and loaded, so they
 * cannot be used for a token. */
static bool variable_is_taken(const char *name) {
    static const char *const taken[] = {
        "PATH", "HOME",     "USER",       "LOGNAME",        "SHELL",    "LANG",    "LANGUAGE",
        "TZ",   "IFS",      "GCONV_PATH", "GLIBC_TUNABLES", "LOCPATH",  "NLSPATH", "ENV",
        "PWD",  "BASH_ENV", "PYTHONPATH", "PYTHONHOME",     "PERL5LIB", "TMPDIR"};
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        if (strcmp(name, taken[i]) == 0) {
            return true;
        }
    }
    return strncmp(name, "LD_", 3) == 0 || strncmp(name, "LC_", 3) == 0 ||
           strncmp(name, "MALLOC_", 7) == 0 ||
           (strncmp(name, "TENURE_", 7) == 0 && strcmp(name, "TENURE_TOKEN") != 0);
}

/* The name of a variable as shells accept it, because a shell may read it. */
const char *sensor_variable_fault(const char *name) {
    for (const char *at = name; *at != '\0'; at++) {
        bool letter = (*at >= 'A' && *at <= 'Z') || (*at >= 'a' && *at <= 'z') || *at == '_';
        bool digit = *at >= '0' && *at <= '9' && at != name;
        if (!letter && !digit) {
            return "must be a name of letters, digits and _";
        }
    }
    return variable_is_taken(name)
               ? "must not be a variable that the server sets or that changes how programs run"
               : NULL;
}

static bool variable_take(struct reading *r, const json_t *value) {
    if (!text_take(r, "token_env", value, SENSOR_ENV_NAME_MAX, &r->spec->token_env)) {
        return false;
    }
    const char *fault = sensor_variable_fault(r->spec->token_env);
    return fault == NULL || refuse(r, "token_env %s", fault);
}

static bool cwd_take(struct reading *r, const json_t *value) {
    if (!text_take(r, "cwd", value, 4095, &r->spec->cwd)) {
        return false;
    }
    return r->spec->cwd[0] == '/' || refuse(r, "cwd must be an absolute path");
}

static bool ttl_take(const struct reading *r, const char *key, const json_t *item) {
    uint64_t ms = 0;
    if (!time_take(r, key, item, 1000, &ms)) {
        return false;
    }
    r->spec->token_ttl_s = ms / 1000;
    return true;
}

/* Reads a member that is a number. *ret_known is false if it is not one of these. */
static bool number_take(const struct reading *r, const char *key, const json_t *item,
                        bool *ret_known) {
    struct sensor_spec *spec = r->spec;
    const struct {
        const char *name;
        uint64_t *ms;
        uint64_t min_ms;
    } times[] = {
        {"stop_seconds", &spec->stop_ms, 0},
        {"settle_seconds", &spec->settle_ms, 0},
        {"backoff_seconds", &spec->backoff_ms, 10},
        {"stable_seconds", &spec->stable_ms, 0},
        {"backoff_max_seconds", &spec->backoff_max_ms, 10},
    };
    uint64_t count = 0;
    *ret_known = true;
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        if (strcmp(key, times[i].name) == 0) {
            return time_take(r, key, item, times[i].min_ms, times[i].ms);
        }
    }
    if (strcmp(key, "max_restarts") == 0) {
        bool taken = count_take(r, key, item, 0, SENSOR_RESTARTS_MAX, &count);
        spec->max_restarts = (uint32_t)count;
        return taken;
    }
    if (strcmp(key, "log_files") == 0) {
        bool taken = count_take(r, key, item, 1, SENSOR_LOG_FILES_MAX, &count);
        spec->log_files = (uint32_t)count;
        return taken;
    }
    if (strcmp(key, "log_bytes") == 0) {
        return count_take(r, key, item, SENSOR_LOG_BYTES_MIN, (uint64_t)1 << 40, &spec->log_bytes);
    }
    if (strcmp(key, "token_ttl_seconds") == 0) {
        return ttl_take(r, key, item);
    }
    *ret_known = false;
    return true;
}

static bool stop_order_take(const struct reading *r, const json_t *item, struct sensor_spec *spec) {
    const char *word = json_is_string(item) ? json_string_value(item) : "";
    spec->exit_first = strcmp(word, "exit_first") == 0;
    return spec->exit_first || strcmp(word, "revoke_first") == 0 ||
           refuse(r, "stop_order must be revoke_first or exit_first");
}

static bool rules_signal_take(const struct reading *r, const json_t *item,
                              struct sensor_spec *spec) {
    static const struct {
        const char *name;
        int number;
    } signals[] = {{"none", 0}, {"HUP", SIGHUP}, {"USR1", SIGUSR1}, {"USR2", SIGUSR2}};
    const char *word = json_is_string(item) ? json_string_value(item) : "";
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        if (strcmp(word, signals[i].name) == 0) {
            spec->rules_signal = signals[i].number;
            return true;
        }
    }
    return refuse(r, "rules_signal must be none, HUP, USR1 or USR2");
}

static bool member_take(struct reading *r, const char *key, json_t *item) {
    struct sensor_spec *spec = r->spec;
    bool known;
    if (strcmp(key, "command") == 0) {
        return command_take(r, key, item, &spec->argv, &spec->argc);
    }
    if (strcmp(key, "env") == 0) {
        return env_take(r, item);
    }
    if (strcmp(key, "cwd") == 0) {
        return cwd_take(r, item);
    }
    if (strcmp(key, "user") == 0) {
        return text_take(r, key, item, NAME_MAX_BYTES, &spec->user);
    }
    if (strcmp(key, "group") == 0) {
        return text_take(r, key, item, NAME_MAX_BYTES, &spec->group);
    }
    if (strcmp(key, "limits") == 0) {
        return limits_take(r, item);
    }
    if (strcmp(key, "health") == 0) {
        return health_take(r, item);
    }
    if (strcmp(key, "token_env") == 0) {
        return variable_take(r, item);
    }
    if (strcmp(key, "scope") == 0) {
        return text_take(r, key, item, 512, &spec->scope);
    }
    if (strcmp(key, "rules_signal") == 0) {
        return rules_signal_take(r, item, spec);
    }
    if (strcmp(key, "stop_order") == 0) {
        return stop_order_take(r, item, spec);
    }
    if (strcmp(key, "containment") == 0) {
        return (json_is_string(item) &&
                sensor_containment_parse(json_string_value(item), &spec->containment)) ||
               refuse(r, "containment must be auto, pidns, cgroup or none");
    }
    bool taken = number_take(r, key, item, &known);
    return known ? taken : refuse(r, "unknown member: %.64s", key);
}

/* ---- The whole ---- */

bool sensor_containment_parse(const char *word, enum sensor_containment *ret_containment) {
    static const char *const names[SENSOR_CONTAINMENTS] = {
#define CONTAINMENT_NAME(id, name) name,
        SENSOR_CONTAINMENT_TABLE(CONTAINMENT_NAME)
#undef CONTAINMENT_NAME
    };
    for (unsigned i = 0; i < SENSOR_CONTAINMENTS; i++) {
        if (strcmp(word, names[i]) == 0) {
            *ret_containment = (enum sensor_containment)i;
            return true;
        }
    }
    return false;
}

struct sensor_defaults sensor_defaults_make(void) {
    return (struct sensor_defaults){.stop_ms = 30000,
                                    .settle_ms = 5000,
                                    .backoff_ms = 1000,
                                    .backoff_max_ms = 60000,
                                    .stable_ms = 60000,
                                    .token_ttl_s = 90u * DAY_S,
                                    .log_bytes = 1048576,
                                    .log_files = 5,
                                    .max_restarts = 10,
                                    .token_env = "TENURE_TOKEN",
                                    .scope = "sensor"};
}

/* The block with the defaults in it. NULL: out of memory. */
static struct sensor_spec *spec_make(const json_t *document, size_t json_len,
                                     const struct sensor_defaults *d, struct reading *r) {
    const json_t *health = json_object_get(document, "health");
    size_t pointers = json_array_size(json_object_get(document, "command")) +
                      json_object_size(json_object_get(document, "env")) +
                      json_array_size(json_object_get(health, "command")) + 4;
    /* No text is longer than its JSON with the quotes, including its NUL. The texts of the defaults
     * are counted as well. */
    size_t texts = json_len + strlen(d->token_env) + strlen(d->scope) + sizeof "/" + 2;
    struct sensor_spec *spec = calloc(1, sizeof *spec + pointers * sizeof(const char *) + texts);
    if (spec == NULL) {
        return NULL;
    }
    r->spec = spec;
    r->pointers = (const char **)(spec + 1);
    r->pointers_end = r->pointers + pointers;
    r->texts = tn_writer_of(r->pointers_end, texts);
    *spec = (struct sensor_spec){.stop_ms = d->stop_ms,
                                 .settle_ms = d->settle_ms,
                                 .backoff_ms = d->backoff_ms,
                                 .backoff_max_ms = d->backoff_max_ms,
                                 .stable_ms = d->stable_ms,
                                 .max_restarts = d->max_restarts,
                                 .log_files = d->log_files,
                                 .log_bytes = d->log_bytes,
                                 .containment = d->containment,
                                 .token_ttl_s = d->token_ttl_s,
                                 .health_interval_ms = 10000,
                                 .health_timeout_ms = 5000,
                                 .health_threshold = 3};
    for (uint32_t i = 0; i < SENSOR_LIMITS; i++) {
        spec->limits[i] = SENSOR_UNLIMITED;
    }
    spec->cwd = text_keep(r, "/", 1);
    spec->token_env = text_keep(r, d->token_env, strlen(d->token_env));
    spec->scope = text_keep(r, d->scope, strlen(d->scope));
    spec->env = pointers_keep(r, 0);
    return spec;
}

static bool document_take(struct reading *r, json_t *document) {
    const char *key;
    json_t *item;
    json_object_foreach(document, key, item) {
        if (!member_take(r, key, item)) {
            return false;
        }
    }
    if (r->spec->argc == 0) {
        return refuse(r, "command is missing");
    }
    if (r->spec->backoff_max_ms < r->spec->backoff_ms) {
        return refuse(r, "backoff_max_seconds is less than backoff_seconds");
    }
    return true;
}

bool sensor_spec_parse(struct tn_bytes json, const struct sensor_defaults *defaults,
                       struct sensor_spec **ret_spec, char reason[SENSOR_REASON_MAX]) {
    json_error_t error;
    struct reading r = {.reason = reason};
    reason[0] = '\0';
    json_t *document = json_loadb((const char *)json.at, json.len, JSON_REJECT_DUPLICATES, &error);
    if (document == NULL) {
        return refuse(&r, "it is not JSON: %.100s", error.text);
    }
    bool good = false;
    if (!json_is_object(document)) {
        (void)refuse(&r, "it must be a JSON object");
    } else if (spec_make(document, json.len, defaults, &r) == NULL) {
        (void)refuse(&r, "no memory");
    } else {
        good = document_take(&r, document);
    }
    json_decref(document);
    if (!good) {
        sensor_spec_free(r.spec);
        return false;
    }
    *ret_spec = r.spec;
    return true;
}

void sensor_spec_free(struct sensor_spec *spec) {
    free(spec);
}
