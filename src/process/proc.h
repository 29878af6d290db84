/* Processes as /proc shows them. Also part of the guardian: allocates only to list directories. */
#ifndef TN_PROCESS_PROC_H
#define TN_PROCESS_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROCESS_BOOT_TEXT 37u /* bytes of the id of a boot, with its NUL */
#define PROCESS_VALUE_MAX 64u

/* UNKNOWN: there was no descriptor or no memory for looking, so nothing is proven. */
enum process_answer { PROCESS_NO, PROCESS_YES, PROCESS_UNKNOWN };

struct process_stat {
    char state; /* Z and X mean dead */
    pid_t parent, group, session;
    uint64_t start; /* in clock ticks since boot; unique together with the pid */
};

/* For the start of a program: opens /dev/null in place of standard streams that are closed, so that
 * no other file gets their descriptors. False: /dev/null cannot be opened. */
bool process_streams_open(void);

/* NO: the process does not exist. */
enum process_answer process_stat_read(pid_t pid, struct process_stat *ret_stat);
/* Parses the contents of the file. The program's name in it may be anything. */
bool process_stat_parse(const char *text, size_t len, struct process_stat *ret_stat);

/* The value of a variable in the initial environment of a process, NUL-terminated and cut to the
 * size of `out`. NO: the variable is not set, or may not be read. */
enum process_answer process_variable(pid_t pid, const char *name, char out[PROCESS_VALUE_MAX]);
/* The same for a sequence of NUL-terminated texts that is read in parts. */
struct process_variable_scan {
    const char *name;
    size_t matched; /* matched characters of the name and its '='; SIZE_MAX: another variable */
    size_t len;
    char *out;
};
void process_variable_begin(struct process_variable_scan *scan, const char *name,
                            char out[PROCESS_VALUE_MAX]);
/* True: the complete value has been found. */
bool process_variable_feed(struct process_variable_scan *scan, const char *bytes, size_t count);

typedef void process_visit(void *ctx, pid_t pid);
/* Whether the kernel lists the children of a process: it does not if /proc is not mounted, or if it
 * was built without these lists. Without them, nothing proves that a tree of processes is dead. */
bool process_children_known(void);
/* Visits every child of the calling thread. A child that has ended stays in the list until it is
 * waited for, so the list is complete as long as only the caller waits. False: the kernel does not
 * offer the list. */
bool process_children_of_thread(process_visit *visit, void *ctx);
/* The same for all threads of this process. */
bool process_children(process_visit *visit, void *ctx);
/* The children of another process with one thread. The list is complete as long as that process
 * waits for none of them. */
bool process_children_of(pid_t pid, process_visit *visit, void *ctx);
/* Visits all processes in ascending order of their pids. */
bool process_all(process_visit *visit, void *ctx);

/* How often a process with one thread has been taken off its processor. The same number twice, with
 * the process not running at both times, means that it has not run in between. */
enum process_answer process_switches(pid_t pid, uint64_t *ret_switches);

bool process_boot_id(char out[PROCESS_BOOT_TEXT]);
/* The number of this process's pid namespace; 0: not known. */
uint64_t process_namespace(void);
/* A descriptor for the pid namespace of a process; 0: of this process. -1: see errno. */
int process_namespace_open(pid_t pid);

/* A descriptor for the process with this pid and start time. NO: the process has ended. The start
 * time is read after the descriptor is open, because the descriptor never refers to another
 * process. */
enum process_answer process_open(pid_t pid, uint64_t start, int *ret_descriptor);
/* Whether the process of the descriptor has ended. */
bool process_ended(int descriptor);
/* Sends it a signal, whatever process has its pid now. */
void process_signal(int descriptor, int signal);

/* Whether the process catches or ignores the signal, so that the signal does not end it. False: it
 * does not, or that cannot be known. */
bool process_takes_signal(pid_t pid, int number);

#endif
