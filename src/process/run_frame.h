/* The messages between the server and a guardian, over a SOCK_SEQPACKET socket. The first byte of each is
 * its kind; numbers are little-endian.
 *
 *     to the guardian
 *     START    u8 whether /proc is to be that of our own pid namespace, u8 whether it is a job, u8
 *              whether the job gets the terminal, u64 the signals that the job ignores (bit N - 1 for
 *              signal N), u64 for each limit, u64 bytes of a log file, u32 how many are kept, u64
 *              number of the first, u64 term_at and u64 kill_at as in LIVE, u16 counts of arguments
 *              and of variables, then texts, each ended by NUL: cwd, log directory (empty: no log),
 *              cgroup directory (empty: none), user and group to become (empty: those of the server),
 *              files to be given to that user: its token and its rules (empty: none), arguments,
 *              variables
 *     LIVE     u64 term_at, u64 kill_at: milliseconds on CLOCK_BOOTTIME at which the guardian does what
 *              TERM and KILL say, by itself; 0: never. Each LIVE replaces both times, so a sender that
 *              stops, hangs or dies loses the run at the times it gave last
 *     TERM     SIGTERM to the main process's group
 *     KILL     SIGKILL to all descendants, until there are none
 *     SIGNAL   u8 number: that signal to the main process alone, once it handles or ignores it
 *     PASS     u8 number: that signal to the main process's group, at once; only of a job
 *
 *     from the guardian
 *     STARTED  u32 pid, u64 start time (clock ticks since boot); with the credentials of the main process
 *              if the guardian is in another pid namespace, since they have its pid as the server sees it
 *     FAILED   u32 errno, u8 step: nothing was started
 *     EXITED   u32 wait status of the main process
 *     STOPPED  u32 signal that has stopped the main process; only of a job
 *     GONE     no descendant lives; the last there is
 *
 * A job is a command that `tenure run` keeps. Its guardian has the command behind the name on its own
 * command line and the command's environment as its own, so START has no arguments and no variables;
 * the command has the guardian's directory, standard streams and session, and a process group of its
 * own, which may be the terminal's foreground.
 *
 * Both ends are ours; still, whatever is not exactly this is refused. */
#ifndef TN_PROCESS_RUN_FRAME_H
#define TN_PROCESS_RUN_FRAME_H

#include "process/sensor_spec.h"

#define RUN_FRAME_SOCKET 3 /* the guardian's descriptor */
#define RUN_FRAME_DIR 4    /* the directory of the run's record; health checks have none */
#define RUN_FRAME_MAX (96u * 1024u)
#define RUN_FRAME_SMALL_MAX 24u /* maximum size of all frames except START */
#define RUN_FRAME_VARIABLES_MAX 320u

enum run_frame_kind {
    RUN_FRAME_START = 1,
    RUN_FRAME_TERM,
    RUN_FRAME_KILL,
    RUN_FRAME_STARTED,
    RUN_FRAME_FAILED,
    RUN_FRAME_EXITED,
    RUN_FRAME_GONE,
    RUN_FRAME_LIVE,
    RUN_FRAME_SIGNAL,
    RUN_FRAME_PASS,
    RUN_FRAME_STOPPED,
};

/* The steps that may fail before a sensor runs. */
#define RUN_FRAME_STEP_TABLE(X) \
    X(RECORD, "record")         \
    X(GUARDIAN, "guardian")     \
    X(USER, "user")             \
    X(GROUP, "group")           \
    X(TOKEN, "token")           \
    X(RULES, "rules")           \
    X(CGROUP, "cgroup")         \
    X(FORK, "fork")             \
    X(SESSION, "session")       \
    X(STDIO, "stdio")           \
    X(LIMITS, "limits")         \
    X(CWD, "cwd")               \
    X(EXEC, "exec")             \
    X(CONTAINMENT, "containment")

enum run_frame_step {
#define RUN_FRAME_STEP_ENUM(id, name) RUN_FRAME_STEP_##id,
    RUN_FRAME_STEP_TABLE(RUN_FRAME_STEP_ENUM)
#undef RUN_FRAME_STEP_ENUM
        RUN_FRAME_STEPS
};

const char *run_frame_step_name(enum run_frame_step step);

/* When the guardian ends the run by itself, in milliseconds of CLOCK_BOOTTIME; 0: never. */
struct run_frame_times {
    uint64_t term_at_ms; /* SIGTERM */
    uint64_t
        /* When SIGKILL to the whole tree begins. The sender has subtracted the time that killing
         * takes. */
        kill_at_ms;
};

struct run_frame_start {
    uint32_t argc, envc;
    bool own_proc; /* it runs in a pid namespace for which the server's /proc is wrong */
    bool is_job;   /* a job: all texts are empty, and there are no arguments or variables */
    bool foreground;
    uint64_t ignored;
    uint64_t limits[SENSOR_LIMITS];
    uint64_t log_bytes;
    uint32_t log_files;
    uint64_t log_number; /* number of the log file to continue with */
    struct run_frame_times live;
    const char *cwd, *log_dir, *cgroup, *user, *group, *token_file, *rules_file;
    const char *argv[SENSOR_ARGS_MAX + 1]; /* both are terminated by NULL */
    const char *env[RUN_FRAME_VARIABLES_MAX + 1];
};

/* An order to a guardian that has received START. */
struct run_frame_order {
    enum run_frame_kind kind; /* LIVE, TERM, KILL, SIGNAL or PASS */
    struct run_frame_times live;
    int signal; /* SIGNAL, PASS */
};

struct run_frame_news {
    enum run_frame_kind kind;
    uint32_t pid;   /* STARTED */
    uint64_t start; /* STARTED */
    uint32_t error; /* FAILED */
    uint32_t step;  /* FAILED */
    int status;     /* EXITED: wait status; STOPPED: signal */
};

/* Returns the length; 0: it does not fit. */
size_t run_frame_start_encode(const struct run_frame_start *start, uint8_t *out, size_t capacity);
/* The texts point into `bytes`. */
bool run_frame_start_decode(const uint8_t *bytes, size_t len, struct run_frame_start *ret_start);

size_t run_frame_order_encode(const struct run_frame_order *order,
                              uint8_t out[RUN_FRAME_SMALL_MAX]);
bool run_frame_order_decode(const uint8_t *bytes, size_t len, struct run_frame_order *ret_order);

size_t run_frame_news_encode(const struct run_frame_news *news, uint8_t out[RUN_FRAME_SMALL_MAX]);
bool run_frame_news_decode(const uint8_t *bytes, size_t len, struct run_frame_news *ret_news);

#endif
