/* The table of settings: names, values, help. */
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "base/duration.h"
#include "broker/broker.h"
#include "config/config.h"
#include "process/sensor_spec.h"
#include "server/listen_address.h"
#include "server/tls_files.h"
#include "server/udp_allow.h"

static const struct config_row rows[CONFIG_OWN_COUNT] = {
#define CONFIG_ROW(id, key, where, kind, usual, least, most, reload, placeholder, words) \
    [CONFIG_##id] = {.name = (key),                                                      \
                     .section = (where),                                                 \
                     .type = CONFIG_##kind,                                              \
                     .standard = (usual),                                                \
                     .low = (least),                                                     \
                     .high = (most),                                                     \
                     .live = (reload),                                                   \
                     .meta = (placeholder),                                              \
                     .text = (words)},
    CONFIG_TABLE(CONFIG_ROW)
#undef CONFIG_ROW
};

static const char *const limit_texts[KERNEL_LIMIT_COUNT] = {
    [KERNEL_LIMIT_LEASES] = "live leases",
    [KERNEL_LIMIT_MEMBERS] = "values held or cooling",
    [KERNEL_LIMIT_HISTORY] = "ended leases in history, and their values",
    [KERNEL_LIMIT_HISTORY_SECONDS] = "the time an ended lease stays in history",
    [KERNEL_LIMIT_POOLS] = "pools, scopes included",
    [KERNEL_LIMIT_RESOURCES] = "named resources in all sets",
    [KERNEL_LIMIT_NAMES] = "distinct holders and users",
    [KERNEL_LIMIT_TEXT_BYTES] = "bytes of names and metadata",
    [KERNEL_LIMIT_OPS] = "remembered operation ids",
    [KERNEL_LIMIT_OP_SECONDS] = "the time an operation id is remembered",
    [KERNEL_LIMIT_BUNDLE] = "values of one lease",
    [KERNEL_LIMIT_SWEEP_STEP] = "due leases that one allocation may expire",
    [KERNEL_LIMIT_TICK_STEP] = "due leases that one tick or sweep may expire",
    [KERNEL_LIMIT_DISOWNS] = "disowns in progress",
    [KERNEL_LIMIT_RATES] = "sticky pools",
    [KERNEL_LIMIT_RATE_WINDOW] = "the largest rate_window_seconds of a pool",
    [KERNEL_LIMIT_COLD] = "freed values remembered for the strategy coldest",
    [KERNEL_LIMIT_COLD_PER_POOL] = "freed values remembered for one pool",
    [KERNEL_LIMIT_RULES] = "rules",
    [KERNEL_LIMIT_SENSORS] = "sensors",
    [KERNEL_LIMIT_WAITERS] = "places in lines; a waiting lease has one in each of its pools",
    [KERNEL_LIMIT_USERS] = "users added at run time",
};

static bool limit_is_duration(unsigned limit) {
    return limit == KERNEL_LIMIT_HISTORY_SECONDS || limit == KERNEL_LIMIT_OP_SECONDS ||
           limit == KERNEL_LIMIT_RATE_WINDOW;
}

struct config_row config_row(unsigned setting) {
    TN_ASSERT(setting < CONFIG_COUNT);
    if (setting < CONFIG_OWN_COUNT) {
        return rows[setting];
    }
    unsigned limit = setting - CONFIG_OWN_COUNT;
    TN_ASSERT(limit_texts[limit] != NULL);
    return (struct config_row){.name = kernel_limit_rows[limit].name,
                               .section = "limits",
                               .type = limit_is_duration(limit) ? CONFIG_DURATION : CONFIG_NUMBER,
                               .number = kernel_limit_rows[limit].standard,
                               .low = kernel_limit_rows[limit].low,
                               .high = kernel_limit_rows[limit].high,
                               .meta = limit_is_duration(limit) ? "DURATION" : "N",
                               .text = limit_texts[limit]};
}

unsigned config_find(const char *name) {
    unsigned i = 0;
    while (i < CONFIG_COUNT && strcmp(config_row(i).name, name) != 0) {
        i++;
    }
    return i;
}

void config_flag_name(const struct config_row *row, char out[CONFIG_NAME_MAX]) {
    (void)snprintf(out, CONFIG_NAME_MAX, "--%s", row->name);
    for (char *at = out; *at != '\0'; at++) {
        *at = *at == '_' ? '-' : *at;
    }
}

void config_environment_name(const struct config_row *row, char out[CONFIG_NAME_MAX]) {
    (void)snprintf(out, CONFIG_NAME_MAX, "TENURE_%s", row->name);
    for (char *at = out; *at != '\0'; at++) {
        *at = (char)toupper((unsigned char)*at);
    }
}

bool config_is_variable(const char *name) {
    char known[CONFIG_NAME_MAX];
    for (unsigned i = 0; i < CONFIG_COUNT; i++) {
        struct config_row row = config_row(i);
        config_environment_name(&row, known);
        if (row.type != CONFIG_FLAG && strcmp(name, known) == 0) {
            return true;
        }
    }
    return strcmp(name, CONFIG_AMQP_PASSWORD_VARIABLE) == 0;
}

/* ---- Values ---- */

/* Parses a number such as "64M", or a plain one. */
static bool number_parse(const char *text, bool units, uint64_t *ret_number) {
    size_t len = strlen(text);
    unsigned shift = 0;
    uint64_t number;
    if (units && len > 1) {
        const char *unit = strchr("KMG", toupper((unsigned char)text[len - 1]));
        if (unit != NULL && *unit != '\0') {
            shift = *unit == 'K' ? 10 : *unit == 'M' ? 20 : 30;
            len--;
        }
    }
    if (!kernel_value_parse(KERNEL_DEC, tn_bytes_of(text, len), &number) ||
        number > UINT64_MAX >> shift) {
        return false;
    }
    *ret_number = number << shift;
    return true;
}

static bool broker_check(const char *text, char reason[CONFIG_REASON_MAX]) {
    struct broker_address address;
    _Static_assert(BROKER_REASON_MAX <= CONFIG_REASON_MAX, "reasons fit");
    return *text == '\0' || broker_address_parse(text, &address, reason);
}

static bool variable_check(const char *text, char reason[CONFIG_REASON_MAX]) {
    const char *fault = *text == '\0' ? "is empty" : sensor_variable_fault(text);
    if (fault == NULL && strlen(text) > SENSOR_ENV_NAME_MAX) {
        fault = "is too long";
    }
    if (fault != NULL) {
        (void)snprintf(reason, CONFIG_REASON_MAX, "'%.60s' %s", text, fault);
    }
    return fault == NULL;
}

/* Parses CONFIG_DURATION into seconds, CONFIG_SECONDS into milliseconds. */
static bool duration_parse(const struct config_row *row, const char *text, uint64_t *ret_number,
                           char reason[CONFIG_REASON_MAX]) {
    struct tn_bytes bytes = tn_bytes_of(text, strlen(text));
    bool fine = row->type == CONFIG_SECONDS;
    uint64_t unit = fine ? 1000 : 1;
    if (!(fine ? tn_duration_parse_ms(bytes, ret_number) : tn_duration_parse(bytes, ret_number))) {
        (void)snprintf(reason, CONFIG_REASON_MAX, "'%.60s' is not %s%s", text, TN_DURATION_FORM,
                       fine ? " (without a unit up to three decimals: 0.25)" : "");
        return false;
    }
    if (*ret_number < row->low || *ret_number > row->high) {
        (void)snprintf(reason, CONFIG_REASON_MAX,
                       "'%.60s' is not from %" PRIu64 " to %" PRIu64 " seconds", text,
                       row->low / unit, row->high / unit);
        return false;
    }
    return true;
}

static bool clients_parse(const char *text, uint64_t *ret_number, char reason[CONFIG_REASON_MAX]) {
    static const char *const words[] = {[SERVER_TLS_CLIENTS_NO] = "no",
                                        [SERVER_TLS_CLIENTS_OPTIONAL] = "optional",
                                        [SERVER_TLS_CLIENTS_REQUIRED] = "required"};
    for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(text, words[i]) == 0) {
            *ret_number = i;
            return true;
        }
    }
    (void)snprintf(reason, CONFIG_REASON_MAX, "'%.60s' is not no, optional or required", text);
    return false;
}

static bool containment_parse(const char *text, uint64_t *ret_number,
                              char reason[CONFIG_REASON_MAX]) {
    enum sensor_containment containment;
    if (!sensor_containment_parse(text, &containment)) {
        (void)snprintf(reason, CONFIG_REASON_MAX, "'%.60s' is not auto, pidns, cgroup or none",
                       text);
        return false;
    }
    *ret_number = containment;
    return true;
}

/* Parses one of two words; the first one means 0. */
static bool word_parse(const char *text, const char *first, const char *second,
                       uint64_t *ret_number, char reason[CONFIG_REASON_MAX]) {
    *ret_number = strcmp(text, second) == 0;
    if (*ret_number == 0 && strcmp(text, first) != 0) {
        (void)snprintf(reason, CONFIG_REASON_MAX, "'%.60s' is not %s or %s", text, first, second);
        return false;
    }
    return true;
}

bool config_parse(const struct config_row *row, const char *text, uint64_t *ret_number,
                  char reason[CONFIG_REASON_MAX]) {
    switch (row->type) {
    case CONFIG_TEXT:
        if (strlen(text) < row->low) {
            (void)snprintf(reason, CONFIG_REASON_MAX, "%s is empty", row->name);
            return false;
        }
        if (row->high > 0 && strlen(text) > row->high) {
            (void)snprintf(reason, CONFIG_REASON_MAX, "%s: at most %" PRIu64 " bytes", row->name,
                           row->high);
            return false;
        }
        return true;
    case CONFIG_ADDRESS:
        return (row->high == 1 && strcmp(text, "off") == 0) ||
               server_address_check(text, row->low > 0, reason, CONFIG_REASON_MAX);
    case CONFIG_BROKER:
        return broker_check(text, reason);
    case CONFIG_VARIABLE:
        return variable_check(text, reason);
    case CONFIG_NETWORKS:
        return server_udp_allow_check(text, reason, CONFIG_REASON_MAX);
    case CONFIG_FORM:
        return word_parse(text, "logfmt", "json", ret_number, reason);
    case CONFIG_CONTAINMENT:
        return containment_parse(text, ret_number, reason);
    case CONFIG_SWITCH:
        return word_parse(text, "off", "on", ret_number, reason);
    case CONFIG_CONSENT:
        return word_parse(text, "no", "yes", ret_number, reason);
    case CONFIG_CLIENTS:
        return clients_parse(text, ret_number, reason);
    case CONFIG_DEFINER:
        return word_parse(text, "file", "admin", ret_number, reason);
    case CONFIG_FENCING:
        return word_parse(text, "timed", "proven", ret_number, reason);
    case CONFIG_CURRENCY:
        return word_parse(text, "local", "quorum", ret_number, reason);
    case CONFIG_FLAG:
        return word_parse(text, "no", "yes", ret_number, reason);
    case CONFIG_DURATION:
    case CONFIG_SECONDS:
        return duration_parse(row, text, ret_number, reason);
    default:
        break;
    }
    if (!number_parse(text, row->type == CONFIG_BYTES, ret_number) || *ret_number < row->low ||
        *ret_number > row->high) {
        (void)snprintf(reason, CONFIG_REASON_MAX,
                       "'%.60s' is not a number from %" PRIu64 " to %" PRIu64 "%s", text, row->low,
                       row->high, row->type == CONFIG_BYTES ? " (K, M and G may follow it)" : "");
        return false;
    }
    return true;
}

/* ---- Help ---- */

const struct config_action_row *config_action_row(unsigned row) {
    static const struct config_action_row actions[] = {
        {"--check-config", "", CONFIG_CHECK, "",
         "read everything, print all errors or the effective settings, and exit"},
        {"--make-certificate", "", CONFIG_CERTIFICATE, "DIR",
         "write a set of certificates for trying TLS into the directory (an authority, the server's "
         "for localhost and the host's name, a client's), and exit"},
        {"--hash-secret", "", CONFIG_HASH, "",
         "read a secret, one line, from standard input, print its hash for a section [user NAME], "
         "and exit"},
        {"--version", "", CONFIG_VERSION, "", "print the version and exit"},
        {"--help", "-h", CONFIG_HELP, "", "print this list of options and exit"}};
    return row < sizeof actions / sizeof actions[0] ? &actions[row] : NULL;
}

static void help_action(FILE *out, const struct config_action_row *row) {
    char left[2 * CONFIG_NAME_MAX];
    (void)snprintf(left, sizeof left, "%s%s%s%s%s", row->flag, *row->also != '\0' ? ", " : "",
                   row->also, *row->meta != '\0' ? " " : "", row->meta);
    (void)fprintf(out, "  %-28s %s\n", left, row->text);
}

static void help_row(FILE *out, const struct config_row *row) {
    char flag[CONFIG_NAME_MAX];
    char left[2 * CONFIG_NAME_MAX];
    config_flag_name(row, flag);
    (void)snprintf(left, sizeof left, "%s%s%s", flag, *row->meta != '\0' ? " " : "", row->meta);
    (void)fprintf(out, "  %-36s %s", left, row->text);
    if (row->standard == NULL) {
        (void)fprintf(out, " (%" PRIu64 ")", row->number);
    } else if (row->type != CONFIG_FLAG && *row->standard != '\0') {
        (void)fprintf(out, " (%s)", row->standard);
    }
    (void)fprintf(out, "\n");
}

void config_help(FILE *out) {
    (void)fputs("usage: tenured [--config FILE] [--data DIR] [--listen HOST:PORT] ...\n\n", out);
    for (unsigned i = 0; i < CONFIG_COUNT; i++) {
        struct config_row row = config_row(i);
        if (i == CONFIG_OWN_COUNT) {
            (void)fputs(
                "\nLimits, written to the log at start if they are set; otherwise the logged ones "
                "apply:\n\n",
                out);
        }
        help_row(out, &row);
    }
    (void)fputs("\n", out);
    for (unsigned i = 0; config_action_row(i) != NULL; i++) {
        help_action(out, config_action_row(i));
    }
    (void)fputs(
        "\nEach can be set by a flag (--slow-seconds 30), in the environment "
        "(TENURE_SLOW_SECONDS=30)\nor in the file (slow_seconds = 30), in this order of priority.\n",
        out);
}
