/* Clients of Redis that want one lock and poll for it as the Lock of redis-py does by default: SET NX, and
 * if another client has the lock, a sleep of 0.1 s before the next attempt. A client that got the lock
 * deletes it at once by the usual script, and wants it again after the same sleep. Each client is a thread
 * with a blocking connection. */
#ifndef TN_BENCH_POLLERS_H
#define TN_BENCH_POLLERS_H

#include <stdint.h>

#define POLLERS_PAUSE_NS 100000000u

struct pollers;
/* Connects. Like all functions here, exits with a message on failure. `delete_sha` names the script that
 * deletes the lock: its argument is the value that the client has set. */
struct pollers *pollers_open(uint16_t port, unsigned count, const char *delete_sha);
void pollers_close(struct pollers *pollers);

struct pollers_count {
    uint64_t grants, commands;
};
/* All clients poll for `ns` nanoseconds. Their first attempts are spread evenly over a pause. */
struct pollers_count pollers_turn(struct pollers *pollers, uint64_t ns);

#endif
