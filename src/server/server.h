/* The server: RESP on one libuv loop, in front of an engine. It has no rules about leases. */
#ifndef TN_SERVER_SERVER_H
#define TN_SERVER_SERVER_H

#include <pthread.h>
#include <uv.h>

#include "broker/broker.h"
#include "engine/engine.h"
#include "server/access.h"
#include "server/tls_files.h"
#include "supervisor/supervisor.h"

struct server_options;

#define SERVER_SNAPSHOT_TOKEN 64u  /* characters */
#define SERVER_STALE_MAX_MS 10000u /* the default of the option stale_max_ms */

/* Callbacks to the program around the server, on the loop's thread except `reload`. Each may be NULL;
 * reload and reloaded are set together. */
struct server_hooks {
    void *ctx;
    void (*ready)(void *ctx); /* it listens */
    /* The server accepts no more requests; those that it has are still answered. */
    void (*stopping)(void *ctx);
    void (*alive)(void *ctx); /* called every alive_ms while the loop turns and the engine serves */
    uint32_t alive_ms;
    /* Called at SIGHUP on a worker thread, where it may block. */
    void (*reload)(void *ctx);
    /* Then this, which may change the options marked as live. */
    void (*reloaded)(void *ctx, struct server_options *options);
    /* Whether this node runs the parts that only one node of a cluster runs; called at the start
     * and every second. It may change the options that depend on the answer: `amqp`, the keys of
     * `tokens`, `sensors->cluster`. NULL: always. */
    bool (*owns)(void *ctx, struct server_options *options);
};

/* An administrator's commands about the cluster. They run on a worker thread, one at a time, and
 * may block. TN_OK, or the reason is in *error. NULL: this is no cluster. */
struct server_cluster {
    void *ctx;
    /* This node, for lists that etcd has no part in yet. NULL: it is not a node of a cluster. */
    const char *node, *address, *http; /* http: "" if there is none */
    enum tn_status (*step_down)(void *ctx, const char *node, struct log_error *error);
    enum tn_status (*close)(void *ctx, const char *node, struct log_error *error);
    enum tn_status (*forget)(void *ctx, const char *node, struct log_error *error);
    /* The token with which other nodes may fetch a snapshot: SERVER_SNAPSHOT_TOKEN characters. */
    const char *snapshot_token;
};

/* Passes news from the engine to the server. It exists before the engine, whose options refer to it, and
 * outlives it: events_ready = server_feed_events, metrics = server_feed_metrics,
 * role = server_feed_role. */
struct server_feed {
    pthread_mutex_t lock; /* everything below */
    /* NULL before the server exists and after it has ended; so is `role`. */
    struct server_streams *streams;
    uv_async_t *role;
    bool metrics_wanted;
    struct server_feed_item *first, **end; /* metrics not delivered yet */
    uint32_t count;
};

void server_feed_init(struct server_feed *feed);
void server_feed_events(void *feed);
engine_metrics_sink server_feed_metrics;
/* For the engine's option `role`, with the feed as its context; or the function of that option
 * calls it. */
engine_role_sink server_feed_role;

struct server_options {
    struct engine *engine;
    struct server_feed *feed;
    struct token_issuer *tokens; /* the caller's; used on the loop's thread while server_run runs */
    struct broker *amqp;         /* the caller's, for its figures; NULL: none */
    const struct os *os;
    const char *version;   /* our version, for clients that ask */
    const char *data;      /* for the log line: the engine's directory */
    const char *listen;    /* HOST:PORT; loopback only. Port 0: any free port */
    const char *unix_path; /* of a Unix-domain socket for RESP; NULL: none */
    bool unix_chosen; /* the path was configured: the server does not start without the socket */
    const char *http; /* the same for HTTP; empty, "off" or NULL: none */
    const char *http_unix;   /* of a Unix-domain socket for HTTP; NULL: none */
    const char *tls, *https; /* addresses of RESP and HTTP with TLS; as `http` */
    bool allow_plaintext;    /* `listen` and `http` may be beyond loopback */
    const char *udp;         /* the same for the UDP listener */
    const char *udp_pool;    /* the pool from which it gives ids */
    /* Addresses that may get replies longer than their requests. Beyond loopback: addresses that
     * may use the UDP listener. */
    const char *udp_allow;
    uint32_t udp_rate, udp_burst; /* requests a second of one address, and the burst; 0: no limit */
    bool sensors_by_file;         /* sensor_commands = file: commands cannot define sensors */
    const char *port_file;        /* receives the ports, one in a line; NULL: none */
    /* NULL: sensors are not run. The server fills in the options about the loop, the log and its
     * own address. */
    const struct supervisor_options *sensors;
    /* Live options: a reload may change them. */
    uint32_t connections_max; /* at most its value at the start */
    uint32_t stale_max_ms;    /* maximum age of a follower's state for clients that sent READONLY */
    /* A client that reads none of its replies within this time is disconnected. */
    uint32_t slow_seconds;
    size_t client_memory; /* for unfinished requests and unread replies: see memory.c */
    /* A client that sends no request for this time is disconnected; 0: never. */
    uint32_t idle_seconds;
    const struct access_option *users; /* the caller's; used at the start and after a reload */
    uint32_t user_count;
    struct server_tls_files tls_files; /* read again at each reload */
    bool sensors_changed;              /* this reload has changed the defaults in `sensors` */
    bool keys_in_use; /* for `owns`: another thread is reading the keys of `tokens` */
    struct server_hooks hooks;
    struct server_cluster cluster;
};

/* Serves until SIGTERM or SIGINT (exit code 0), or until the engine halts (1). 2: could not start;
 * the reason has been logged. The caller still owns the engine. */
int server_run(const struct server_options *options);

#endif
