/* Servers as real processes, each with a directory of its own and a free port on loopback. */
#ifndef TN_BENCH_PROCESS_H
#define TN_BENCH_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
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
const char *process_directory(void);

/* tenured of the build that this program belongs to, with its defaults. */
struct process process_tenure(const char *name);
/* With one more setting: an option and its argument. */
struct process process_tenure_set(const char *name, const char *option, const char *value);
/* redis-server, with a log that is synced before every reply, or with nothing on disk at all. False:
 * it is not installed. */
bool process_redis(const char *name, bool durable, struct process *ret_process);
void process_stop(const struct process *process);
/* With SIGKILL. */
void process_kill(const struct process *process);

/* One or three members of etcd on loopback. False: it is not installed. */
struct process_etcd {
    unsigned count;
    pid_t id[3];
    char endpoint[3][32]; /* http://127.0.0.1:PORT */
};
bool process_etcd(unsigned count, struct process_etcd *ret_members);
void process_etcd_stop(const struct process_etcd *members);
/* A node of a cluster, ready to serve or to follow. Started again under the same name, it goes on with its
 * directory. `init`: it begins the cluster. */
struct process process_node(const char *name, const struct process_etcd *members, bool init);

/* ---- For servers that are described elsewhere ---- */

/* The last file that matches the pattern. False: there is none. */
bool process_find(const char *pattern, char *out, size_t capacity);
/* NAME in the directory of this run. */
void process_path(const char *name, char *out, size_t capacity);
/* Makes the directory NAME for a server that refuses to run as root, and its user. */
void process_directory_give(const char *name, const char *user);
/* Runs a program to its end, or begins one, as that user if this one is root. Its output goes to NAME.out. */
void process_run(const char *name, const char *user, char *const *argv);
pid_t process_begin(const char *name, const char *user, char *const *argv);
/* The same as this user; what it prints goes to NAME.out in the directory of the run. */
pid_t process_spawn(const char *name, char *const *argv);
/* While waiting for it: exits with a message if the process has ended, else pauses a little. */
void process_check(const struct process *process, const char *name);
/* A port that was free a moment ago. */
uint16_t process_port_free(void);

uint64_t process_resident_bytes(const struct process *process);
/* Processor time that it has used, of all its threads, in the kernel too. */
double process_cpu_us(const struct process *process);

#endif
