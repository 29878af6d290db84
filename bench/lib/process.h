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

/* The directory for all files of this run, below build/: all servers use the same file system. */
void process_directory_make(void);
void process_directory_remove(void);
const char *process_directory(void);

/* Starts tenured of the build that this program belongs to, with its defaults. */
struct process process_tenure(const char *name);
/* As process_tenure, with one more setting: an option and its argument. */
struct process process_tenure_set(const char *name, const char *option, const char *value);
/* Starts redis-server, with a log that is synced before every reply, or with nothing on disk at all.
 * False: redis-server is not installed. */
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
/* Starts a node of a cluster, ready to serve or to follow. A node that is started again under the
 * same name continues with its directory. `init`: it begins the cluster. */
struct process process_node(const char *name, const struct process_etcd *members, bool init);

/* ---- For servers that are described elsewhere ---- */

/* Finds the last file that matches the pattern. False: no file does. */
bool process_find(const char *pattern, char *out, size_t capacity);
/* Path of NAME in the directory of this run. */
void process_path(const char *name, char *out, size_t capacity);
/* Makes the directory NAME for a server that refuses to run as root, owned by the server's user. */
void process_directory_give(const char *name, const char *user);
/* Runs a program to its end, or starts one, as that user if this process is root. Its output goes
 * to NAME.out. */
void process_run(const char *name, const char *user, char *const *argv);
pid_t process_begin(const char *name, const char *user, char *const *argv);
/* As process_begin, as the current user; the output goes to NAME.out in the directory of the
 * run. */
pid_t process_spawn(const char *name, char *const *argv);
/* For use in a waiting loop: exits with a message if the process has ended, else pauses briefly. */
void process_check(const struct process *process, const char *name);
/* A port that was free a moment ago. */
uint16_t process_port_free(void);

uint64_t process_resident_bytes(const struct process *process);
/* Processor time that all threads of the process have used, including time in the kernel. */
double process_cpu_us(const struct process *process);
/* The same of the threads that live, in nanoseconds and exact, where process_cpu_us counts in steps of 10 ms. */
double process_thread_ns(const struct process *process);

#endif
