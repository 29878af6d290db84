/* What an administrator asks of a node of a cluster. On a worker thread of the server. */
#include <stdio.h>

#include "main/node.h"
#include "replica/replica.h"

static enum tn_status said(enum tn_status status, struct log_error *error) {
    if (status != TN_OK) {
        (void)snprintf(error->text, sizeof error->text, "%s",
                       status == TN_IO ? "etcd does not answer" : tn_status_text(status));
    }
    return status;
}

/* Another node takes over the log at once. What runs only on the owner ends as if the log had been
 * lost. */
static enum tn_status admin_step_down(void *ctx, const char *name, struct log_error *error) {
    struct node *node = ctx;
    (void)name;
    return said(engine_follow(node->engine), error);
}

static enum tn_status admin_close(void *ctx, const char *name, struct log_error *error) {
    struct node *node = ctx;
    (void)name;
    replica_close_with_resign(node->log);
    enum tn_status status = engine_follow(node->engine);
    if (replica_close_withdraw(node->log) && status == TN_OK) {
        (void)snprintf(error->text, sizeof error->text,
                       "this node does not own the log: nothing was closed");
        return TN_LOST;
    }
    return said(status, error);
}

static enum tn_status admin_forget(void *ctx, const char *name, struct log_error *error) {
    struct node *node = ctx;
    enum tn_status status = replica_forget(node->log, name);
    if (status == TN_NOTFOUND) {
        (void)snprintf(error->text, sizeof error->text, "there is no node '%s'", name);
        return status;
    }
    return said(status, error);
}

struct server_cluster node_admin(struct node *node) {
    const struct config *config = node->config;
    bool has_http = strcmp(config_text(config, CONFIG_HTTP), "off") != 0;
    return (struct server_cluster){
        .ctx = node,
        .node = config_text(config, CONFIG_NODE),
        .address = config_advertised(config, CONFIG_ADVERTISE, CONFIG_LISTEN),
        .http = has_http ? config_advertised(config, CONFIG_ADVERTISE_HTTP, CONFIG_HTTP) : "",
        .step_down = admin_step_down,
        .close = admin_close,
        .forget = admin_forget,
        .snapshot_token = node->notes.snapshot_token};
}
