/* Servers as real processes, each with a directory of its own and a free port on loopback. */
#ifndef TN_BENCH_PROCESS_H
#define TN_BENCH_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct process {
    pid_t id;
    uint16_t port;
    uint16_t tls_port; /* of tenured */
};

/* Where everything of this run is kept, below build/: the same file system for all of them. */
void process_directory_make(void);
void process_directory_remove(void);

/* tenured of the build that this program belongs to, with its defaults. */
struct process process_tenure(const char *name);
/* redis-server, with a log that is synced before every reply, or with nothing on disk at all. False:
 * it is not installed. */
bool process_redis(const char *name, bool durable, struct process *ret_process);
void process_stop(const struct process *process);

uint64_t process_resident_bytes(const struct process *process);

#endif
