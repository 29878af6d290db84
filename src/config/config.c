/* Where settings come from: defaults, then the file, then the environment, then flags. */
#include "config/config.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "server/listen_address.h"
#include "server/udp_allow.h"

void config_wrong(struct config *config, const char *where, const char *format, ...) {
    char what[CONFIG_REASON_MAX];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    config->mistakes++;
    config->mistake(config->mistake_ctx, where, what);
}

void config_set(struct config *config, unsigned setting, const char *text,
                enum config_source source, uint32_t line, const char *where) {
    struct config_value *value = &config->values[setting];
    struct config_row row = config_row(setting);
    char reason[CONFIG_REASON_MAX];
    uint64_t number = 0;
    if (!config_parse(&row, text, &number, reason)) {
        config_wrong(config, where, "%s", reason);
        return;
    }
    char *copy = strdup(text);
    if (copy == NULL) {
        config_wrong(config, where, "no memory");
        return;
    }
    free(value->text);
    *value = (struct config_value){.text = copy, .number = number, .source = source, .line = line};
}

static void defaults_set(struct config *config) {
    for (unsigned i = 0; i < CONFIG_COUNT; i++) {
        struct config_row row = config_row(i);
        if (row.standard != NULL) {
            config_set(config, i, row.standard, CONFIG_FROM_DEFAULT, 0, row.name);
        }
    }
}

/* ---- The environment ---- */

/* Other programs use variables with this prefix, too, so unknown ones are ignored. */
static void environment_read(struct config *config, bool only_config) {
    for (unsigned i = 0; i < CONFIG_COUNT; i++) {
        struct config_row row = config_row(i);
        char name[CONFIG_NAME_MAX];
        if (row.type == CONFIG_FLAG || (i == CONFIG_CONFIG) != only_config) {
            continue;
        }
        config_environment_name(&row, name);
        const char *text = getenv(name);
        if (text != NULL && *text != '\0') {
            config_set(config, i, text, CONFIG_FROM_ENV, 0, name);
        }
    }
}

/* ---- Flags ---- */

static const struct config_action_row *action_find(const char *flag) {
    const struct config_action_row *row;
    for (unsigned i = 0; (row = config_action_row(i)) != NULL; i++) {
        if (strcmp(flag, row->flag) == 0 || (*row->also != '\0' && strcmp(flag, row->also) == 0)) {
            break;
        }
    }
    return row;
}

/* Whether the word is the flag of an action. If so, the value of the action is taken, too. */
static bool action_take(struct config *config, int argc, char **argv, int *at, bool only_config) {
    const struct config_action_row *row = action_find(argv[*at]);
    if (row == NULL) {
        return false;
    }
    config->action = row->action;
    if (*row->meta != '\0' && *at + 1 < argc) {
        config->action_value = argv[++*at];
    } else if (*row->meta != '\0' && only_config) {
        config_wrong(config, argv[*at], "needs a value: %s", row->meta);
    }
    return true;
}

/* The setting of a flag, which may be written --flag=value; *ret_value is NULL if it is not. */
static unsigned flag_find(const char *word, const char **ret_value) {
    size_t len = strcspn(word, "=");
    *ret_value = word[len] == '=' ? word + len + 1 : NULL;
    for (unsigned i = 0; i < CONFIG_COUNT; i++) {
        struct config_row row = config_row(i);
        char name[CONFIG_NAME_MAX];
        config_flag_name(&row, name);
        if (strlen(name) == len && strncmp(name, word, len) == 0) {
            return i;
        }
    }
    return CONFIG_COUNT;
}

/* Called twice: first only for the name of the file, which must be known before everything else. */
static void flags_read(struct config *config, int argc, char **argv, bool only_config) {
    for (int i = 1; i < argc; i++) {
        const char *value;
        if (action_take(config, argc, argv, &i, only_config)) {
            continue;
        }
        unsigned setting = flag_find(argv[i], &value);
        bool wanted = (setting == CONFIG_CONFIG) == only_config;
        if (setting == CONFIG_COUNT) {
            if (wanted) {
                config_wrong(config, argv[i], "unknown flag; see tenured --help");
            }
            continue;
        }
        bool lone = config_row(setting).type == CONFIG_FLAG;
        if (lone && value == NULL) {
            value = "yes";
        } else if (value == NULL && i + 1 < argc) {
            value = argv[++i];
        }
        if (!wanted) {
            continue;
        }
        if (value == NULL) {
            config_wrong(config, argv[i], "needs a value: %s", config_row(setting).meta);
        } else {
            char name[CONFIG_NAME_MAX];
            struct config_row row = config_row(setting);
            config_flag_name(&row, name);
            config_set(config, setting, value, CONFIG_FROM_FLAG, 0, name);
        }
    }
}

void config_source_name(const struct config *config, unsigned setting,
                        char out[CONFIG_REASON_MAX]) {
    const struct config_value *value = &config->values[setting];
    struct config_row row = config_row(setting);
    (void)snprintf(out, CONFIG_REASON_MAX, "default");
    if (value->source == CONFIG_FROM_FILE) {
        (void)snprintf(out, CONFIG_REASON_MAX, "%s:%u", config_text(config, CONFIG_CONFIG),
                       value->line);
    } else if (value->source == CONFIG_FROM_ENV) {
        config_environment_name(&row, out);
    } else if (value->source == CONFIG_FROM_FLAG) {
        config_flag_name(&row, out);
    }
}

static bool is_elsewhere(const struct config *config, unsigned setting) {
    char reason[CONFIG_REASON_MAX];
    const char *text = config_text(config, (enum config_setting)setting);
    return config_row(setting).type == CONFIG_ADDRESS && config_row(setting).low > 0 &&
           strcmp(text, "off") != 0 && server_address_check(text, true, reason, sizeof reason) &&
           !server_address_check(text, false, reason, sizeof reason);
}

bool config_is_local(const struct config *config) {
    return !is_elsewhere(config, CONFIG_LISTEN) && !is_elsewhere(config, CONFIG_HTTP) &&
           !is_elsewhere(config, CONFIG_TLS_LISTEN) && !is_elsewhere(config, CONFIG_HTTPS);
}

/* A client from another machine must log in, and its traffic must be encrypted unless the
 * configuration allows plain text. */
static void address_check(struct config *config, unsigned setting) {
    const char *text = config_text(config, (enum config_setting)setting);
    char where[CONFIG_REASON_MAX];
    config_source_name(config, setting, where);
    if (config->declared[CONFIG_KIND_USER].count == 0) {
        config_wrong(config, where,
                     "%s: without users, the server may listen only on loopback addresses: "
                     "127.0.0.1 or [::1]",
                     text);
    } else if (config_row(setting).low == 1 && config_number(config, CONFIG_ALLOW_PLAINTEXT) == 0) {
        config_wrong(config, where,
                     "%s: beyond loopback, secrets and replies would be readable on the network: "
                     "use %s, or set allow_plaintext = yes",
                     text, setting == CONFIG_HTTP ? "https" : "tls_listen");
    }
}

static void addresses_check(struct config *config) {
    for (unsigned i = 0; i < CONFIG_OWN_COUNT; i++) {
        if (config_row(i).low != 2 && is_elsewhere(config, i)) {
            address_check(config, i);
        }
    }
}

struct server_tls_files config_tls_files(const struct config *config) {
    return (struct server_tls_files){
        .certificate = config_text(config, CONFIG_TLS_CERT),
        .key = config_text(config, CONFIG_TLS_KEY),
        .ca = config_text(config, CONFIG_TLS_CA),
        .clients = (enum server_tls_clients)config_number(config, CONFIG_TLS_CLIENTS)};
}

/* Checks that certificate and key are given together, and the authorities if clients need
 * certificates. --check-config also reports whether the files can be used; a start or a reload does
 * so when it reads them. */
static void tls_check(struct config *config) {
    struct server_tls_files files = config_tls_files(config);
    char where[CONFIG_REASON_MAX];
    char reason[SERVER_TLS_REASON_MAX];
    bool tls = strcmp(config_text(config, CONFIG_TLS_LISTEN), "off") != 0;
    if (!tls && strcmp(config_text(config, CONFIG_HTTPS), "off") == 0) {
        return;
    }
    config_source_name(config, tls ? CONFIG_TLS_LISTEN : CONFIG_HTTPS, where);
    if (*files.certificate == '\0' || *files.key == '\0') {
        config_wrong(config, where, "TLS needs tls_cert_file and tls_key_file");
    } else if (files.clients != SERVER_TLS_CLIENTS_NO && *files.ca == '\0') {
        config_wrong(config, where, "tls_client_certificates needs tls_ca_file");
    } else if (config->action == CONFIG_CHECK && !server_tls_check(&files, reason)) {
        config_wrong(config, where, "%s", reason);
    }
}

/* Datagrams carry no user, so only the list of sources protects the UDP listener. */
static void udp_check(struct config *config) {
    if (is_elsewhere(config, CONFIG_UDP_LISTEN) &&
        !server_udp_allow_any(config_text(config, CONFIG_UDP_ALLOW))) {
        char where[CONFIG_REASON_MAX];
        config_source_name(config, CONFIG_UDP_LISTEN, where);
        config_wrong(
            config, where,
            "%s: beyond loopback, the UDP listener needs udp_allow with the addresses that may "
            "use it",
            config_text(config, CONFIG_UDP_LISTEN));
    }
}

bool config_load(struct config *config, const struct os *os, int argc, char **argv,
                 config_mistake *mistake, void *ctx) {
    *config = (struct config){.mistake = mistake, .mistake_ctx = ctx};
    defaults_set(config);
    environment_read(config, true);
    flags_read(config, argc, argv, true);
    if (config->action != CONFIG_SERVE && config->action != CONFIG_CHECK) {
        return config->mistakes == 0;
    }
    if (*config_text(config, CONFIG_CONFIG) != '\0') {
        config_file_read(config, os, config_text(config, CONFIG_CONFIG));
    }
    environment_read(config, false);
    flags_read(config, argc, argv, false);
    config_declared_check(config);
    addresses_check(config);
    udp_check(config);
    tls_check(config);
    config_cluster_check(config);
    return config->mistakes == 0;
}

void config_free(struct config *config) {
    for (unsigned i = 0; i < CONFIG_COUNT; i++) {
        free(config->values[i].text);
    }
    config_declared_free(config);
    *config = (struct config){0};
}

/* ---- The printout ---- */

static void value_print(const struct config *config, unsigned setting, FILE *out) {
    const struct config_value *value = &config->values[setting];
    struct config_row row = config_row(setting);
    char from[CONFIG_REASON_MAX];
    config_source_name(config, setting, from);
    /* What no file can say, or is not said, is a comment in the file that this is. */
    const char *comment = *row.section == '\0' || value->text == NULL ? "; " : "";
    if (value->text != NULL) {
        (void)fprintf(out, "%s%s = %s ; %s\n", comment, row.name, value->text, from);
    } else {
        (void)fprintf(out, "%s%s = %" PRIu64 " ; default of a new log\n", comment, row.name,
                      row.number);
    }
}

/* Prints the settings from this one to the end of its section. */
static void section_print(const struct config *config, unsigned first, FILE *out) {
    const char *section = config_row(first).section;
    if (*section != '\0') {
        (void)fprintf(out, "\n[%s]\n", section);
    }
    for (unsigned i = first; i < CONFIG_COUNT; i++) {
        if (strcmp(config_row(i).section, section) == 0) {
            value_print(config, i, out);
        }
    }
}

static bool is_first_of_section(unsigned setting) {
    for (unsigned i = 0; i < setting; i++) {
        if (strcmp(config_row(i).section, config_row(setting).section) == 0) {
            return false;
        }
    }
    return true;
}

void config_print(const struct config *config, FILE *out) {
    _Static_assert(CONFIG_CONFIG == 0, "what no file can say comes first, before any section");
    for (unsigned i = 0; i < CONFIG_COUNT; i++) {
        if (is_first_of_section(i)) {
            section_print(config, i, out);
        }
    }
    config_declared_print(config, out);
}
