/* A node of a cluster: its log, and what it does when it begins and when it ceases to own that log.
 *
 * A thread of its own waits for the engine to say that the log is ours, takes the lead, and prepares what
 * runs on the owner: the keys of tokens, the broker, what the configuration declares. Then the server may run
 * the rest (server/once.h). When the log is lost, it is all undone, and the process goes on as a standby.
 *
 *     standby --log is ours, engine leads, keys loaded--> owner --log is lost--> standby
 */
#ifndef TN_MAIN_NODE_H
#define TN_MAIN_NODE_H

#include <pthread.h>
#include <uv.h>

#include "config/config.h"
#include "log/snapshot_store.h"
#include "main/notes.h"
#include "server/server.h"
#include "token/token_issuer.h"

struct replica_node;

struct node {
    const struct config *config;
    const struct os *os;
    struct engine *engine;
    struct log *log; /* the engine's */
    struct token_issuer *tokens;
    struct server_feed *feed; /* makes the server call node_owns at once */
    /* Applies the declarations of the current configuration. Called on the node's thread. */
    void (*declare)(void *ctx);
    void *declare_ctx;
    struct notes notes;
    uint8_t boot_id[LOG_BOOT_ID_BYTES];
    pthread_t thread;
    bool ends; /* set by the thread: the node cannot follow, and the process ends */
    uint64_t end_at_ms;
    uv_mutex_t lock; /* everything below */
    uv_cond_t changed;
    bool news; /* the role may have changed */
    bool stop;
    bool owns;
    bool refused; /* the node cannot take the lead: the process ends */
    struct supervisor_cluster cluster;
    bool has_keys; /* new keys for the server's thread */
    struct token_keys keys;
    struct broker *broker;  /* runs while this node owns the log */
    struct broker *retired; /* the previous broker, which the server's thread may still read */
    uint64_t keys_at_ms;    /* when a standby checks for keys again */
};

/* Reads the files named by the configuration. False: the reason has been logged. */
bool node_open(struct node *node, const struct config *config, const struct os *os);
void node_close(struct node *node);

/* Before the local log is opened: if etcd no longer has what the directory needs next, begins it with a
 * snapshot of another node. Waits while none is available. */
enum tn_status node_seed(struct node *node, struct log_error *error);
/* The configuration was read again: tells other nodes its digest. Does nothing without a
 * cluster. */
void node_config_read(struct node *node, const struct config *config);
/* Whether log positions were skipped at the end of the log: no snapshot covers them before the next
 * command. */
bool node_log_has_gap(const struct node *node);
/* Why this node cannot take part until it is restarted. */
#define NODE_REASON_MAX 512u
enum node_end {
    NODE_GOES_ON,
    NODE_FULL,      /* its disk has no room for the copy, and it has not begun to follow */
    NODE_COPY,      /* its copy of the log cannot be written */
    NODE_BEHIND,    /* etcd no longer has the batches that it needs next */
    NODE_DUPLICATE, /* another node has the same name */
};
enum node_end node_log_end(const struct node *node, char reason[NODE_REASON_MAX]);
/* For replica_options.fetch; `ctx` is the node. */
enum tn_status node_fetch(void *ctx, const struct replica_node *from, uint64_t from_lsn,
                          const char *path, struct log_error *error);

/* Makes the log of the cluster over an opened local log (log/local.h), which it owns from now
 * on. */
enum tn_status node_log_open(struct node *node, struct log *local, struct log **ret_log,
                             struct log_store **ret_store, struct log_error *error);

/* False: no thread could be started. */
bool node_start(struct node *node, struct engine *engine, struct token_issuer *tokens,
                struct server_feed *feed);
/* Stops the broker and gives up the log. Called after the server has ended. False: the node could
 * not take the lead, so the process was told to end. */
bool node_stop(struct node *node);
/* Called after node_stop: this node could not continue (enum node_end), so the process was told to
 * end. */
bool node_has_ended(const struct node *node);

/* node_admin.c: commands of administrators, for the server. `ctx` is the node. */
struct server_cluster node_admin(struct node *node);

/* The engine's role may have changed. From any thread. */
void node_told(struct node *node);
/* Events are ready to be published. From any thread. */
void node_wake(struct node *node);
/* For server_hooks.owns. On the server's thread. */
bool node_owns(struct node *node, struct server_options *options,
               struct supervisor_options *sensors);

#endif
