/* Stopping.
 *
 *     serving --SIGTERM, SIGINT, engine halted--> draining --all answered and sent--> closed
 *
 * While draining nothing new is accepted or read; requests that were read are answered. Connections whose
 * answers cannot be delivered within SERVER_DRAIN_MS are closed. Meanwhile sensors are
 * stopped, which may take longer: the supervisor bounds it. */
#ifndef TN_SERVER_STOP_H
#define TN_SERVER_STOP_H

#include <stdbool.h>
#include <uv.h>

#define SERVER_DRAIN_MS 5000u

struct server_owners;

struct server_stopping {
    uv_timer_t timer;
    int exit_code;
    bool draining;
};

/* Begins to stop, if that has not begun; the highest exit code counts. */
void server_stop(struct server_owners *owners, int exit_code);
/* Something has come to its end: closes the loop's handles if it was the last. */
void server_stop_check(struct server_owners *owners);
/* Closes all handles of the loop, which then ends. */
void server_stop_now(struct server_owners *owners);

#endif
