/* Processes as /proc shows them. Also part of the guardian: allocates only to list directories. */
#ifndef TN_PROCESS_PROC_H
#define TN_PROCESS_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROCESS_BOOT_TEXT 37u /* of a boot's id, with its NUL */
#define PROCESS_VALUE_MAX 64u

/* UNKNOWN: there was no descriptor or no memory to look with; nothing is proven. */
enum process_answer { PROCESS_NO, PROCESS_YES, PROCESS_UNKNOWN };

struct process_stat {
    char state; /* Z and X: dead */
    pid_t parent, group, session;
    uint64_t start; /* clock ticks since boot: unique together with the pid */
};

/* For the start of a program: opens /dev/null in place of each standard stream that is closed, so that no
 * other file gets its descriptor. False: /dev/null cannot be opened. */
bool process_streams_open(void);

/* NO: there is no such process. */
enum process_answer process_stat_read(pid_t pid, struct process_stat *ret_stat);
/* From the text of the file; the name in it may be anything. */
bool process_stat_parse(const char *text, size_t len, struct process_stat *ret_stat);

/* The value of a variable in the initial environment of a process, NUL-terminated, cut at the end of
 * `out`. NO: it has none, or may not be read. */
enum process_answer process_variable(pid_t pid, const char *name, char out[PROCESS_VALUE_MAX]);
/* The same from a run of NUL-terminated texts, a part at a time. */
struct process_variable_scan {
    const char *name;
    size_t matched; /* characters of the name and its =; SIZE_MAX: another variable */
    size_t len;
    char *out;
};
void process_variable_begin(struct process_variable_scan *scan, const char *name,
                            char out[PROCESS_VALUE_MAX]);
/* True: found, all of it. */
bool process_variable_feed(struct process_variable_scan *scan, const char *bytes, size_t count);

typedef void process_visit(void *ctx, pid_t pid);
/* Every child of the calling thread. A child that has ended stays in the list until it is waited for, so
 * the list is complete as long as only the caller waits. False: the kernel does not offer it. */
bool process_children_of_thread(process_visit *visit, void *ctx);
/* The same of all threads of this process. */
bool process_children(process_visit *visit, void *ctx);
/* The children of another process that has one thread. The list is whole as long as that process
 * waits for none of them meanwhile. */
bool process_children_of(pid_t pid, process_visit *visit, void *ctx);
/* Every process there is, by rising pid. */
bool process_all(process_visit *visit, void *ctx);

/* How often a process with one thread has given up its processor. The same number twice, with the
 * process not running both times: it has not run in between. */
enum process_answer process_switches(pid_t pid, uint64_t *ret_switches);

bool process_boot_id(char out[PROCESS_BOOT_TEXT]);
/* The number of the pid namespace that this process is in; 0: not known. */
uint64_t process_namespace(void);
/* A descriptor of the pid namespace of a process; 0: of this one. -1: errno says why not. */
int process_namespace_open(pid_t pid);

/* A descriptor for the process with this pid and start time; NO: it does not live. The start time is read
 * after the descriptor is open, because the descriptor never refers to another process. */
enum process_answer process_open(pid_t pid, uint64_t start, int *ret_descriptor);
/* Whether the process of the descriptor has ended. */
bool process_ended(int descriptor);
/* Signals it, whatever became of its pid. */
void process_signal(int descriptor, int signal);

/* Whether the process catches or ignores the signal, so that the signal does not end it. False: it does
 * neither, or that cannot be known. */
bool process_takes_signal(pid_t pid, int number);

#endif
