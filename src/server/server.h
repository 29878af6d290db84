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
#define SERVER_STALE_MAX_MS 10000u /* if the option is 0 */

/* Callbacks to the program around the server, on the loop's thread except `reload`. Each may be NULL;
 * reload and reloaded are set together. */
struct server_hooks {
    void *ctx;
    void (*ready)(void *ctx);    /* it listens */
    void (*stopping)(void *ctx); /* it accepts no more requests; those it has are still answered */
    void (*alive)(void *ctx); /* every alive_ms, as long as the loop turns and the engine serves */
    uint32_t alive_ms;
    /* SIGHUP. On a worker thread, where it may take its time; */
    void (*reload)(void *ctx);
    /* then this, which may change the options marked as live. */
    void (*reloaded)(void *ctx, struct server_options *options);
    /* Whether this node runs the parts that run once in a cluster; asked at the start and every second.
     * It may change the options that depend on that: `amqp`, the keys of `tokens`, `sensors->cluster`.
     * NULL: always. */
    bool (*owns)(void *ctx, struct server_options *options);
};

/* Commands of an administrator about the cluster. They run on a worker thread, where they may block; one at
 * a time. TN_OK, or the reason is in *error. NULL: there is no cluster. */
struct server_cluster {
    void *ctx;
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
    pthread_mutex_t lock;           /* everything below */
    struct server_streams *streams; /* NULL: there is no server yet, or no more; so is `role` */
    uv_async_t *role;
    bool metrics_wanted;
    struct server_feed_item *first, **end; /* metrics on their way */
    uint32_t count;
};

void server_feed_init(struct server_feed *feed);
void server_feed_events(void *feed);
engine_metrics_sink server_feed_metrics;
/* For the engine's option `role`, with the feed as its context; or called by that option's function. */
engine_role_sink server_feed_role;

struct server_options {
    struct engine *engine;
    struct server_feed *feed;
    struct token_issuer *tokens; /* the caller's; used on the loop's thread until it is over */
    struct broker *amqp;         /* the caller's, for its figures; NULL: none */
    const struct os *os;
    const char *version;   /* ours, for clients that ask */
    const char *data;      /* for the log line: where the engine's directory is */
    const char *listen;    /* HOST:PORT; loopback only. Port 0: any that is free */
    const char *unix_path; /* of a Unix-domain socket for RESP; NULL: none */
    bool unix_chosen; /* the path was configured: without the socket the server does not start */
    const char *http; /* the same for HTTP; empty, "off" or NULL: none */
    const char *http_unix;        /* of a Unix-domain socket for HTTP; NULL: none */
    const char *tls, *https;      /* addresses of RESP and HTTP with TLS; as `http` */
    bool allow_plaintext;         /* `listen` and `http` may be beyond loopback */
    const char *udp;              /* the same for the UDP listener */
    const char *udp_pool;         /* that it gives ids from */
    const char *udp_allow;        /* addresses that may get replies longer than their requests;
                                     beyond loopback, that may use the UDP listener */
    uint32_t udp_rate, udp_burst; /* requests a second of one address, and at once; 0: no limit */
    bool sensors_by_file;         /* no command defines a sensor: sensor_commands = file */
    const char *port_file;        /* gets the ports' numbers, a line each; NULL: none */
    /* Sensors; NULL: they are not run. The server fills in the options about the loop, the log and its
     * own address. */
    const struct supervisor_options *sensors;
    /* Live, that is, a reload may change them. */
    uint32_t connections_max; /* up to what it was at the start */
    uint32_t stale_max_ms; /* a follower's state may be this old for clients that said READONLY */
    uint32_t slow_seconds; /* disconnect a client that reads none of its replies within this time */
    size_t client_memory;  /* of unfinished requests and unread replies: see memory.c */
    uint32_t idle_seconds; /* disconnect a client that sends no request for this time; 0: never */
    const struct access_option
        *users; /* the caller's: taken over at the start and after a reload */
    uint32_t user_count;
    struct server_tls_files tls_files; /* read again at each reload */
    bool sensors_changed;              /* the defaults in `sensors`, by this reload */
    bool keys_in_use;                  /* for `owns`: another thread reads the keys of `tokens` */
    struct server_hooks hooks;
    struct server_cluster cluster;
};

/* Serves until SIGTERM or SIGINT (then the exit code is 0) or until the engine halts (1). The engine
 * stays the caller's. 2: it could not start; the reason has been logged. */
int server_run(const struct server_options *options);

#endif
