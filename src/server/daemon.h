/* The connection to the program around the server: reload, sign of life.
 *
 *     SIGHUP --> reload, on a worker thread --> reloaded, on the loop
 *
 * One reload at a time; all signals that arrive meanwhile cause one more reload after it. */
#ifndef TN_SERVER_DAEMON_H
#define TN_SERVER_DAEMON_H

#include <stdbool.h>
#include <uv.h>

struct server_options;
struct server_owners;

struct server_daemon {
    struct server_options *options; /* a reload changes them */
    uv_signal_t sighup;
    uv_timer_t alive;
    uv_work_t reload;
    bool reloading, reload_again;
};

void server_daemon_start(struct server_owners *owners, struct server_options *options);

#endif
