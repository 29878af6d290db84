/* What the server is made of: its owners, tied together. Each has a header of its own, which says what
 * it owns and what it promises; include that one, and this only to get from one owner to another. One
 * thread, the loop's, owns everything here, but for what slots.h says of the engine's threads. */
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
#include "server/parked.h"
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
#include "server/write.h"

struct server {
    struct server_options options;
    struct engine *engine;
    uv_loop_t loop;
    struct supervisor *supervisor; /* NULL: sensors are off, or run on another node */
    struct server_once once;
    struct access access; /* users */
    struct server_logins logins;
    struct server_role role; /* in a cluster */

    struct server_tls tls; /* without a context: TLS is off */

    /* The way of a request, in and out. */
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

    struct server_daemon daemon;
    struct server_stopping stop;
};

/* Clients of RESP and HTTP. */
uint32_t server_clients(const struct server *server);

#endif
