/* The section [cluster]: whether its settings make sense together. */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "config/config.h"
#include "etcd/address.h"

#define ENDPOINTS_MAX 16u

static bool is_set(const struct config *config, enum config_setting setting) {
    return *config_text(config, setting) != '\0';
}

static void wrong(struct config *config, enum config_setting setting, const char *what) {
    char where[CONFIG_REASON_MAX];
    config_source_name(config, setting, where);
    config_wrong(config, where, "%s: %s", config_row(setting).name, what);
}

/* Without a node name there is no cluster, so the other settings of the section would have no
 * effect. */
static void unused_check(struct config *config) {
    for (unsigned i = 0; i < CONFIG_OWN_COUNT; i++) {
        struct config_row row = config_row(i);
        bool names = strcmp(row.section, "cluster") == 0 && row.type == CONFIG_TEXT;
        if ((names || i == CONFIG_CLUSTER_INIT) &&
            strcmp(config->values[i].text, row.standard) != 0) {
            wrong(config, (enum config_setting)i, "a cluster needs node, the name of this node");
        }
    }
}

static void node_check(struct config *config) {
    for (const char *at = config_text(config, CONFIG_NODE); *at != '\0'; at++) {
        if (!isalnum((unsigned char)*at) && strchr("._-", *at) == NULL) {
            wrong(config, CONFIG_NODE, "only letters, digits, '.', '_' and '-'");
            return;
        }
    }
}

static void endpoints_check(struct config *config) {
    const char *text = config_text(config, CONFIG_ETCD_ENDPOINTS);
    char *rest = NULL;
    unsigned count = 0;
    if (strchr(text, '@') != NULL) { /* no word is shown: the password may have commas and spaces */
        wrong(config, CONFIG_ETCD_ENDPOINTS,
              "an address must not contain a user; use etcd_user and etcd_password_file");
        return;
    }
    char *copy = strdup(text);
    if (copy == NULL) {
        wrong(config, CONFIG_ETCD_ENDPOINTS, "no memory");
        return;
    }
    for (char *word = strtok_r(copy, " \t,", &rest); word != NULL;
         word = strtok_r(NULL, " \t,", &rest)) {
        struct etcd_endpoint endpoint;
        char what[CONFIG_REASON_MAX];
        count++;
        if (!etcd_endpoint_parse(word, &endpoint)) {
            (void)snprintf(what, sizeof what,
                           "'%.100s' is not http://HOST:PORT or https://HOST:PORT", word);
            wrong(config, CONFIG_ETCD_ENDPOINTS, what);
        }
    }
    free(copy);
    if (count == 0 || count > ENDPOINTS_MAX) {
        wrong(config, CONFIG_ETCD_ENDPOINTS,
              count == 0 ? "a cluster needs the members of etcd" : "more than 16 members");
    }
}

/* Other nodes must be able to connect, so the port must be known and the address must be a single
 * one. */
static void address_check(struct config *config, enum config_setting setting,
                          enum config_setting listened) {
    const char *text = config_advertised(config, setting, listened);
    const char *colon = strrchr(text, ':');
    char *end = NULL;
    unsigned long port = colon != NULL ? strtoul(colon + 1, &end, 10) : 0;
    if (colon == NULL || colon == text || end == colon + 1 || *end != '\0' || port == 0 ||
        port > 65535 || strchr(text, ' ') != NULL || strlen(text) > config_row(setting).high) {
        wrong(
            config, setting,
            is_set(config, setting)
                ? "it must be HOST:PORT"
                : "it must be set, since the address that this node listens on has no fixed port");
    } else if (strncmp(text, "0.0.0.0:", 8) == 0 || strncmp(text, "[::]:", 5) == 0) {
        wrong(config, setting, "it must be an address that others can connect to");
    }
}

static void together_check(struct config *config, enum config_setting one,
                           enum config_setting other) {
    if (is_set(config, one) != is_set(config, other)) {
        char what[CONFIG_REASON_MAX];
        (void)snprintf(what, sizeof what, "%s and %s must be set together", config_row(one).name,
                       config_row(other).name);
        wrong(config, is_set(config, one) ? one : other, what);
    }
}

void config_cluster_check(struct config *config) {
    if (!config_is_clustered(config)) {
        unused_check(config);
        return;
    }
    node_check(config);
    endpoints_check(config);
    address_check(config, CONFIG_ADVERTISE, CONFIG_LISTEN);
    if (is_set(config, CONFIG_ADVERTISE_HTTP) ||
        strcmp(config_text(config, CONFIG_HTTP), "off") != 0) {
        address_check(config, CONFIG_ADVERTISE_HTTP, CONFIG_HTTP);
    }
    together_check(config, CONFIG_ETCD_CERT, CONFIG_ETCD_KEY);
    together_check(config, CONFIG_ETCD_USER, CONFIG_ETCD_PASSWORD);
    const char *prefix = config_text(config, CONFIG_ETCD_PREFIX);
    if (prefix[0] != '/' || prefix[strlen(prefix) - 1] != '/') {
        wrong(config, CONFIG_ETCD_PREFIX, "it must begin and end with a slash");
    }
    if (!is_set(config, CONFIG_CLUSTER_SECRET)) {
        wrong(config, CONFIG_CLUSTER_SECRET, "a cluster needs the secret that its nodes share");
    }
}

uint64_t config_snapshot_bytes(const struct config *config) {
    uint64_t bytes = config_number(config, CONFIG_SNAPSHOT_BYTES);
    uint64_t most = config_number(config, CONFIG_ETCD_LOG_BYTES) / 4;
    return config_is_clustered(config) && bytes > most ? most : bytes;
}

/* ---- The digest ---- */

/* A hash of the text that was added to the stream since the last call. */
static uint64_t piece_hash(FILE *out, char *const *text, const size_t *len) {
    (void)fflush(out);
    uint64_t hash = tn_hash64(*text, *len, 0);
    rewind(out);
    return hash;
}

static void setting_put(const struct config *config, unsigned setting, FILE *out) {
    const struct config_value *value = &config->values[setting];
    if (value->text != NULL) {
        (void)fprintf(out, "%s %" PRIu64 "\n", config_row(setting).name, value->number);
    }
}

/* The pieces are added up, because the order of declarations does not matter. */
uint64_t config_cluster_digest(const struct config *config) {
    char *text = NULL;
    size_t len = 0;
    uint64_t digest = 0;
    FILE *out = open_memstream(&text, &len);
    if (out == NULL) {
        return 0; /* not known */
    }
    for (uint32_t i = 0; i < config->declared[CONFIG_KIND_POOL].count; i++) {
        config_pool_print(config_pool_at(config, i), out);
        digest += piece_hash(out, &text, &len);
    }
    for (uint32_t i = 0; i < config->declared[CONFIG_KIND_SENSOR].count; i++) {
        config_sensor_print(config_sensor_at(config, i), out);
        digest += piece_hash(out, &text, &len);
    }
    for (uint32_t i = 0; i < config->declared[CONFIG_KIND_RULE].count; i++) {
        config_rule_print(config_rule_at(config, i), out);
        digest += piece_hash(out, &text, &len);
    }
    for (unsigned i = CONFIG_OWN_COUNT; i < CONFIG_COUNT; i++) {
        setting_put(config, i, out);
    }
    setting_put(config, CONFIG_LEADER_TTL, out);
    setting_put(config, CONFIG_SENSOR_FENCING, out);
    setting_put(config, CONFIG_SENSOR_FENCE, out);
    digest += piece_hash(out, &text, &len);
    (void)fclose(out);
    free(text);
    return digest != 0 ? digest : 1;
}
