/* From the configuration to the log of a cluster. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/hash.h"
#include "config/secret.h"
#include "kernel/kernel.h"
#include "log/local.h"
#include "main/node.h"
#include "replica/replica.h"
#include "server/log_line.h"
#include "tenure.h"

#define PASSWORD_MAX 1024u
#define ENDPOINTS_MAX 16u
#define SEED_PAUSE_S 1

static const char *text_or_null(const struct config *config, enum config_setting setting) {
    const char *text = config_text(config, setting);
    return *text != '\0' ? text : NULL;
}

/* Reads the first line of a file that other users cannot read. */
static enum tn_status password_read(const struct node *node, char out[PASSWORD_MAX],
                                    struct log_error *error) {
    const char *path = config_text(node->config, CONFIG_ETCD_PASSWORD);
    out[0] = '\0';
    if (*path == '\0') {
        return TN_OK;
    }
    enum tn_status status = config_secret_read(node->os, path, out, PASSWORD_MAX);
    if (status != TN_OK) {
        (void)snprintf(error->text, sizeof error->text, "etcd_password_file: %s",
                       config_secret_fault(status));
    }
    return status;
}

static unsigned endpoints_split(char *text, const char *out[ENDPOINTS_MAX]) {
    unsigned count = 0;
    char *rest = NULL;
    for (char *word = strtok_r(text, " \t,", &rest); word != NULL && count < ENDPOINTS_MAX;
         word = strtok_r(NULL, " \t,", &rest)) {
        out[count++] = word;
    }
    return count;
}

static void on_notice(void *ctx, const char *line) {
    (void)ctx;
    server_log_line(line);
}

/* Identifies the directory as the kernel does: no other process on this machine has it while this
 * one does. */
static uint64_t place_of(const char *dir) {
    struct stat at;
    uint64_t parts[2];
    if (stat(dir, &at) != 0) {
        return 0;
    }
    parts[0] = (uint64_t)at.st_dev;
    parts[1] = (uint64_t)at.st_ino;
    return tn_hash64(parts, sizeof parts, 0);
}

static struct replica_options options_of(const struct node *node) {
    const struct config *config = node->config;
    bool http = strcmp(config_text(config, CONFIG_HTTP), "off") != 0;
    return (struct replica_options){
        .os = node->os,
        .dir = config_text(config, CONFIG_DATA),
        .ca_file = text_or_null(config, CONFIG_ETCD_CA),
        .certificate_file = text_or_null(config, CONFIG_ETCD_CERT),
        .key_file = text_or_null(config, CONFIG_ETCD_KEY),
        .user = text_or_null(config, CONFIG_ETCD_USER),
        .prefix = config_text(config, CONFIG_ETCD_PREFIX),
        .node = config_text(config, CONFIG_NODE),
        .advertise = config_advertised(config, CONFIG_ADVERTISE, CONFIG_LISTEN),
        .advertise_http =
            http ? config_advertised(config, CONFIG_ADVERTISE_HTTP, CONFIG_HTTP) : NULL,
        .version = tenure_version(),
        .boot_id = node->boot_id,
        .place = place_of(config_text(config, CONFIG_DATA)),
        .config_digest = config_cluster_digest(config),
        .state_version = KERNEL_STATE_VERSION,
        .leader_ttl_ms = (uint32_t)config_number(config, CONFIG_LEADER_TTL),
        .confirm_reads = config_number(config, CONFIG_READS) != 0,
        .etcd_log_bytes = config_number(config, CONFIG_ETCD_LOG_BYTES),
        .etcd_quota_bytes = config_number(config, CONFIG_ETCD_QUOTA),
        .no_compact = config_number(config, CONFIG_ETCD_COMPACT) == 0,
        .init = config_number(config, CONFIG_CLUSTER_INIT) != 0,
        .restored = config_number(config, CONFIG_RESTORED) != 0,
        .notice = on_notice};
}

/* The options with everything that they refer to. */
struct setup {
    struct replica_options options;
    const char *endpoints[ENDPOINTS_MAX];
    char *endpoint_text;
    char password[PASSWORD_MAX];
};

static enum tn_status setup_make(const struct node *node, struct setup *setup,
                                 struct log_error *error) {
    setup->options = options_of(node);
    setup->endpoint_text = strdup(config_text(node->config, CONFIG_ETCD_ENDPOINTS));
    if (setup->endpoint_text == NULL) {
        (void)snprintf(error->text, sizeof error->text, "no memory");
        return TN_NOMEM;
    }
    setup->options.endpoints = setup->endpoints;
    setup->options.endpoint_count = endpoints_split(setup->endpoint_text, setup->endpoints);
    enum tn_status status = password_read(node, setup->password, error);
    setup->options.password = setup->password[0] != '\0' ? setup->password : NULL;
    return status;
}

static void setup_free(struct setup *setup) {
    sodium_memzero(setup->password, sizeof setup->password);
    free(setup->endpoint_text);
}

/* Whether another node may be about to start or to take a snapshot. */
static bool may_try_again(enum tn_status status) {
    return status == TN_NOTFOUND || status == TN_IO || status == TN_LOCKED;
}

static enum tn_status seed_patiently(const struct setup *setup, struct log_error *error) {
    struct timespec pause = {.tv_sec = SEED_PAUSE_S};
    struct log_error said = {.text = ""};
    uint64_t lsn = 0;
    for (;;) {
        enum tn_status status = replica_seed(&setup->options, &lsn, error);
        if (status == TN_OK && lsn > 0) {
            server_log("seeded", "lsn=%llu", (unsigned long long)lsn);
        }
        if (!may_try_again(status)) {
            return status;
        }
        if (strcmp(said.text, error->text) != 0) {
            server_log("seed_waits", "reason=\"%s\"", error->text);
            said = *error;
        }
        (void)nanosleep(&pause, NULL);
    }
}

enum tn_status node_seed(struct node *node, struct log_error *error) {
    struct setup setup;
    enum tn_status status = setup_make(node, &setup, error);
    setup.options.fetch = node_fetch;
    setup.options.fetch_ctx = node;
    if (status == TN_OK && !setup.options.init && !setup.options.restored) {
        status = seed_patiently(&setup, error);
    }
    setup_free(&setup);
    return status;
}

void node_config_read(struct node *node, const struct config *config) {
    if (node->log != NULL) {
        replica_config_set(node->log, config_cluster_digest(config));
    }
}

bool node_log_has_gap(const struct node *node) {
    struct replica_standing standing;
    replica_standing_read(node->log, &standing);
    return standing.head_lsn > standing.applied_lsn;
}

enum node_end node_log_end(const struct node *node, char reason[NODE_REASON_MAX]) {
    struct replica_standing standing;
    replica_standing_read(node->log, &standing);
    (void)snprintf(reason, NODE_REASON_MAX, "%s (%s)", replica_trouble_text(standing.trouble),
                   standing.trouble_text);
    switch (standing.trouble) {
    case REPLICA_TROUBLE_BEHIND:
        return NODE_BEHIND;
    case REPLICA_TROUBLE_DUPLICATE:
        return NODE_DUPLICATE;
    case REPLICA_TROUBLE_NO_ROOM:
        return NODE_FULL;
    case REPLICA_TROUBLE_COPY:
        return NODE_COPY;
    default:
        return NODE_GOES_ON;
    }
}

enum tn_status node_log_open(struct node *node, struct log *local, struct log **ret_log,
                             struct log_store **ret_store, struct log_error *error) {
    struct setup setup;
    enum tn_status status = setup_make(node, &setup, error);
    setup.options.local = local;
    setup.options.local_store = log_local_store(local);
    if (status != TN_OK) {
        (void)log_close(setup.options.local_store, local);
    } else {
        status = replica_open(&setup.options, ret_log, error);
    }
    if (status == TN_OK) {
        *ret_store = replica_store(*ret_log);
        node->log = *ret_log;
    }
    setup_free(&setup);
    return status;
}
