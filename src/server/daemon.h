/* What the program around the server asks of it and hears from it: reload, sign of life.
 *
 *     SIGHUP --> reload, on a worker thread --> reloaded, on the loop
 *
 * One reload at a time; a signal that comes meanwhile is one more after it, however many came. */
#ifndef TN_SERVER_DAEMON_H
#define TN_SERVER_DAEMON_H

#include <stdbool.h>
#include <uv.h>

struct server;

struct server_daemon {
    uv_signal_t sighup;
    uv_timer_t alive;
    uv_work_t reload;
    bool reloading, reload_again;
};

void server_daemon_start(struct server *server);

#endif
