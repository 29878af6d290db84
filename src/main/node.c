/* What node.h promises. */
#include "main/node.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "main/wire_broker.h"
#include "process/proc.h"
#include "server/log_line.h"

#define NODE_PAUSE_NS 1000000000u /* interval at which the thread checks */
#define NODE_KEYS_AGAIN_MS 30000u /* interval at which a standby checks for new keys */
/* The delay before the process ends because of its disk: systemd gives up a unit that ends five times in
 * 10 s. */
#define NODE_DISK_MS 3000u

static uint64_t boot_ms(const struct node *node) {
    return node->os->clock_boot_ms(node->os->ctx);
}

/* ---- Opening ---- */

/* The boot id "xxxxxxxx-xxxx-...", as the kernel writes it; zeros if it cannot be read. */
static void boot_id_read(uint8_t out[LOG_BOOT_ID_BYTES]) {
    char text[PROCESS_BOOT_TEXT] = "";
    unsigned digits = 0;
    memset(out, 0, LOG_BOOT_ID_BYTES);
    if (!process_boot_id(text)) {
        return;
    }
    for (const char *at = text; *at != '\0' && digits < 2 * LOG_BOOT_ID_BYTES; at++) {
        static const char hex[] = "0123456789abcdef";
        const char *digit = strchr(hex, *at);
        if (digit != NULL) {
            out[digits / 2] = (uint8_t)(out[digits / 2] << 4 | (uint8_t)(digit - hex));
            digits++;
        }
    }
}

bool node_open(struct node *node, const struct config *config, const struct os *os) {
    *node = (struct node){.config = config, .os = os};
    if (uv_mutex_init(&node->lock) != 0) {
        server_log("refused", "reason=\"no memory\"");
        return false;
    }
    if (uv_cond_init(&node->changed) != 0) {
        server_log("refused", "reason=\"no memory\"");
        uv_mutex_destroy(&node->lock);
        return false;
    }
    boot_id_read(node->boot_id);
    if (!notes_open(&node->notes, config, os)) {
        node_close(node);
        return false;
    }
    return true;
}

void node_close(struct node *node) {
    notes_close(&node->notes);
    broker_free(node->retired);
    if (node->has_keys) {
        token_keys_close(&node->keys);
    }
    uv_cond_destroy(&node->changed);
    uv_mutex_destroy(&node->lock);
}

/* ---- From standby to owner ---- */

static void keys_offer(struct node *node, const struct token_keys *keys) {
    uv_mutex_lock(&node->lock);
    if (node->has_keys) {
        token_keys_close(&node->keys);
    }
    node->keys = *keys;
    node->has_keys = true;
    uv_mutex_unlock(&node->lock);
}

/* False: this node cannot sign tokens, so it should not own the log. */
static bool keys_prepare(struct node *node) {
    char reason[TOKEN_REASON_MAX] = "";
    struct token_keys keys;
    enum tn_status status = notes_keys_fetch(&node->notes, reason);
    if (status == TN_OK || status == TN_NOTFOUND) {
        status = token_keys_open_shared(
            &keys, node->os, config_text(node->config, CONFIG_DATA), notes_keys_put, &node->notes,
            config_number(node->config, CONFIG_TOKEN_TTL), token_now(node->tokens), reason);
    }
    if (status != TN_OK) {
        server_log("token_keys_failed", "reason=\"%s\"", reason);
        return false;
    }
    keys_offer(node, &keys);
    return true;
}

/* A standby verifies tokens with the keys that the owner has shared, if there are any. */
static void keys_follow(struct node *node) {
    char reason[TOKEN_REASON_MAX] = "";
    struct token_keys keys;
    if (boot_ms(node) < node->keys_at_ms) {
        return;
    }
    node->keys_at_ms = boot_ms(node) + NODE_KEYS_AGAIN_MS;
    enum tn_status status = notes_keys_fetch(&node->notes, reason);
    if (status == TN_OK) {
        status = token_keys_read(&keys, node->os, config_text(node->config, CONFIG_DATA), reason);
    }
    if (status == TN_OK) {
        keys_offer(node, &keys);
    } else if (status == TN_DENIED || status == TN_CORRUPT) {
        server_log("token_keys_failed", "reason=\"%s\"", reason);
    }
}

static bool broker_begin(struct node *node) {
    struct broker *broker = NULL;
    (void)notes_position_fetch(&node->notes); /* without such a note, the file counts */
    if (!wire_broker(node->config, node->os, node->engine, &broker)) {
        return false;
    }
    if (broker != NULL && broker_start(broker) != TN_OK) {
        server_log("broker_failed", "reason=\"no thread for the broker\"");
        broker_stop(broker);
        broker_free(broker);
        return false;
    }
    uv_mutex_lock(&node->lock);
    node->broker = broker;
    uv_mutex_unlock(&node->lock);
    return true;
}

/* A run of another node loses its guardian's permission to live when leader_ttl has passed since
 * that node's last renewal; killing takes time as well. */
static struct supervisor_cluster cluster_of(struct node *node) {
    struct log_succession succession;
    uint64_t ttl_ms = config_number(node->config, CONFIG_LEADER_TTL);
    engine_succession(node->engine, &succession);
    struct supervisor_cluster cluster = {
        .node = config_text(node->config, CONFIG_NODE),
        .epoch = succession.epoch,
        .abroad_gone_at_ms = config_number(node->config, CONFIG_SENSOR_FENCING) != 0
                                 ? UINT64_MAX
                                 : succession.fenced_at_boot_ms + ttl_ms + ttl_ms / 10 +
                                       config_number(node->config, CONFIG_SENSOR_FENCE)};
    memcpy(cluster.boot_id, node->boot_id, sizeof cluster.boot_id);
    return cluster;
}

/* Gives up the log, because another node may be able to do what this one cannot. */
static void step_back(struct node *node) {
    enum tn_status status = engine_follow(node->engine);
    server_log("stepped_back", "status=%s", tn_status_name(status));
}

static void lead_refused(struct node *node, const char *reason) {
    server_log("lead_refused", "reason=\"%s\"", reason);
    uv_mutex_lock(&node->lock);
    node->refused = true;
    uv_mutex_unlock(&node->lock);
    (void)kill(getpid(), SIGTERM);
}

/* Whether the process must end. A state cannot be replaced while it is served, so the next start
 * does that; a name is freed by the other node. */
static void end_check(struct node *node) {
    static const char *const events[] = {[NODE_FULL] = "copy_no_room",
                                         [NODE_COPY] = "copy_failed",
                                         [NODE_BEHIND] = "behind",
                                         [NODE_DUPLICATE] = "name_taken"};
    char reason[NODE_REASON_MAX];
    enum node_end end = node->ends ? NODE_GOES_ON : node_log_end(node, reason);
    if (end != NODE_GOES_ON) {
        server_log(events[end], "node=%s reason=\"%s\"", config_text(node->config, CONFIG_NODE),
                   reason);
        node->ends = true;
        bool disk = end == NODE_FULL || end == NODE_COPY;
        node->end_at_ms = boot_ms(node) + (disk ? NODE_DISK_MS : 0);
    }
    if (node->ends && boot_ms(node) >= node->end_at_ms) {
        node->end_at_ms = UINT64_MAX;
        (void)kill(getpid(), SIGTERM);
    }
}

static void promote(struct node *node) {
    struct log_error error;
    enum tn_status status = engine_lead(node->engine, &error);
    if (status == TN_LOST || status == TN_HALTED) {
        return; /* the log was lost again, or the server ends because of this */
    }
    if (status == TN_NOSPACE) {
        server_log("lead_waits", "reason=\"%s\"", error.text);
        return;
    }
    if (status != TN_OK) {
        lead_refused(node, error.text);
        return;
    }
    if (node_log_has_gap(node)) {
        (void)engine_tick(node->engine);
    }
    if (!keys_prepare(node) || !broker_begin(node)) {
        step_back(node);
        return;
    }
    node->declare(node->declare_ctx);
    struct supervisor_cluster cluster = cluster_of(node);
    uv_mutex_lock(&node->lock);
    node->cluster = cluster;
    node->owns = true;
    uv_mutex_unlock(&node->lock);
    server_feed_role(node->feed, node->engine);
    server_log("owner_ready", "node=%s epoch=%llu", cluster.node,
               (unsigned long long)cluster.epoch);
}

/* ---- And back ---- */

static void demote(struct node *node) {
    uv_mutex_lock(&node->lock);
    bool owned = node->owns;
    struct broker *broker = node->broker;
    node->owns = false;
    node->broker = NULL;
    uv_mutex_unlock(&node->lock);
    if (broker != NULL) {
        broker_stop(broker);
        broker_free(node->retired);
        node->retired = broker;
    }
    if (owned) {
        node->keys_at_ms = 0;
        server_feed_role(node->feed, node->engine);
        server_log("owner_ended", "node=%s", config_text(node->config, CONFIG_NODE));
    }
}

/* ---- The thread ---- */

static bool wait_for_news(struct node *node) {
    uv_mutex_lock(&node->lock);
    if (!node->news && !node->stop) {
        (void)uv_cond_timedwait(&node->changed, &node->lock, NODE_PAUSE_NS);
    }
    node->news = false;
    bool goes_on = !node->stop;
    uv_mutex_unlock(&node->lock);
    return goes_on;
}

static void look(struct node *node) {
    struct engine_standing standing;
    engine_standing_read(node->engine, &standing);
    if (standing.role != ENGINE_LEADING) {
        demote(node);
    }
    if (standing.owned && standing.role == ENGINE_FOLLOWING && !node->refused) {
        promote(node);
    } else if (standing.role == ENGINE_LEADING) {
        notes_position_put(&node->notes);
    } else if (standing.role == ENGINE_FOLLOWING && standing.leader[0] != '\0') {
        keys_follow(node);
    }
    if (standing.role == ENGINE_FOLLOWING) {
        end_check(node);
    }
}

static void *node_main(void *arg) {
    struct node *node = arg;
    do {
        look(node);
    } while (wait_for_news(node));
    return NULL;
}

bool node_start(struct node *node, struct engine *engine, struct token_issuer *tokens,
                struct server_feed *feed) {
    sigset_t all;
    sigset_t before;
    node->engine = node->notes.engine = engine;
    node->tokens = tokens;
    node->feed = feed;
    (void)sigfillset(&all); /* signals are left to the server's thread */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(&node->thread, NULL, node_main, node);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code != 0) {
        server_log("refused", "reason=\"no thread for the cluster\"");
    }
    return code == 0;
}

bool node_stop(struct node *node) {
    uv_mutex_lock(&node->lock);
    node->stop = true;
    uv_cond_signal(&node->changed);
    uv_mutex_unlock(&node->lock);
    (void)pthread_join(node->thread, NULL);
    demote(node);
    notes_position_put(&node->notes); /* while this node still owns the log, if it does */
    (void)engine_follow(node->engine);
    return !node->refused;
}

bool node_has_ended(const struct node *node) {
    return node->ends;
}

/* ---- Other threads ---- */

void node_told(struct node *node) {
    uv_mutex_lock(&node->lock);
    node->news = true;
    uv_cond_signal(&node->changed);
    uv_mutex_unlock(&node->lock);
}

void node_wake(struct node *node) {
    uv_mutex_lock(&node->lock);
    if (node->broker != NULL) {
        broker_wake(node->broker);
    }
    uv_mutex_unlock(&node->lock);
}

bool node_owns(struct node *node, struct server_options *options,
               struct supervisor_options *sensors) {
    struct engine_standing standing;
    uv_mutex_lock(&node->lock);
    if (node->has_keys && !options->keys_in_use) {
        token_keys_close(&node->tokens->keys);
        node->tokens->keys = node->keys;
        node->has_keys = false;
    }
    bool owns = node->owns && !node->has_keys;
    options->amqp = node->broker;
    sensors->cluster = node->cluster;
    uv_mutex_unlock(&node->lock);
    /* After reading the keys, which a promotion may have left. */
    engine_standing_read(node->engine, &standing);
    bool leads = standing.role == ENGINE_LEADING;
    if (!leads && !options->keys_in_use) {
        node->tokens->keys.verify_only = true; /* until a promotion brings a new set */
    }
    return owns && leads;
}
