/* The server: all its owners, in one place. Each owner has a header that says what it owns and
 * promises. Include this header only to start, stop or connect owners; handlers of commands get the
 * owners by pointer (owners.h). One thread, the loop's, uses everything here; slots.h and parked.h say
 * what the engine's threads use. */
#ifndef TN_SERVER_PARTS_H
#define TN_SERVER_PARTS_H

#include "server/access.h"
#include "server/answer.h"
#include "server/backup_job.h"
#include "server/buffers.h"
#include "server/connection.h"
#include "server/count.h"
#include "server/daemon.h"
#include "server/jobs.h"
#include "server/listen.h"
#include "server/login.h"
#include "server/memory.h"
#include "server/once.h"
#include "server/output.h"
#include "server/owners.h"
#include "server/parked.h"
#include "server/pool_history.h"
#include "server/reads.h"
#include "server/refusal.h"
#include "server/schedule.h"
#include "server/server.h"
#include "server/server_role.h"
#include "server/server_tls.h"
#include "server/slots.h"
#include "server/stop.h"
#include "server/stream.h"
#include "server/tick.h"
#include "server/users.h"
#include "server/write.h"

struct server {
    struct server_options options;
    struct engine *engine;
    uv_loop_t loop;
    struct server_owners owners; /* pointers to the owners below, and the supervisor */
    struct server_once once;
    struct access access;      /* users */
    struct server_users users; /* users added at run time */
    struct server_logins logins;
    struct server_role role; /* in a cluster */

    struct server_tls tls; /* without a context: TLS is off */

    /* The way of a request through the server, in and out. */
    struct server_listeners listeners;
    struct server_connections connections;
    struct server_buffers buffers;
    struct schedule schedule;
    struct ticks ticks;
    struct server_pages pages;
    struct server_slots slots;
    struct server_writes writes;
    struct server_jobs jobs;
    struct server_backup backup;
    struct server_answers answers;
    struct server_parked parked;
    struct server_output output;
    struct server_memory memory;
    struct server_streams streams;

    struct http *http;      /* NULL: off */
    struct server_udp *udp; /* the same */

    struct server_counters counters;
    struct server_refusals refusals;
    struct server_metrics *metrics;
    struct server_history history;

    bool log_full; /* the last check found the disk full */
    struct server_daemon daemon;
    struct server_stopping stop;
};

/* The number of clients of RESP and HTTP. */
uint32_t server_clients(const struct server *server);

#endif
