/* One command under a guardian, for `tenure run`, which has no event loop.
 *
 * The calls never wait. The caller polls run_job's two descriptors and calls run_job_next until there is
 * nothing new; while `forcing`, it also calls it every RUN_JOB_AGAIN_MS.
 *
 *     run_job_start --> STARTED --> (STOPPED)* --> EXITED --> GONE or UNPROVEN
 *          \----------> FAILED ------------------------------^
 *
 * The guardian proves the death of the whole tree; if it cannot, because it hangs or was killed, this side
 * does. In a pid namespace the guardian's end is the end of all. Else the cgroup, if there is one, is
 * killed until it is empty; the processes below a living guardian are ended by run_tree.h; and those that a
 * dead one leaves come to this process, a subreaper. That last proof needs a process that had no children
 * of its own when the job began: else the answer is UNPROVEN. */
#ifndef TN_PROCESS_RUN_JOB_H
#define TN_PROCESS_RUN_JOB_H

#include "process/run_frame.h"
#include "process/run_record.h"
#include "process/run_tree.h"

#define RUN_JOB_AGAIN_MS 10

enum run_job_event {
    RUN_JOB_NOTHING, /* new */
    RUN_JOB_STARTED,
    RUN_JOB_FAILED,  /* nothing was started: see `error` and `step`; GONE follows */
    RUN_JOB_STOPPED, /* the main process was stopped by the signal `status` */
    /* The main process has ended with the wait status `status`; others may be alive. */
    RUN_JOB_EXITED,
    RUN_JOB_GONE, /* all processes are proven dead; the last event */
    RUN_JOB_UNPROVEN /* the guardian was killed, and nothing proves the death of the rest; the last event */
};

struct run_job_options {
    const char *guardian; /* the program */
    const char *name;     /* for people */
    enum run_record_proof proof;
    const char *cgroup; /* for CGROUP: the path of a cgroup that does not exist yet */
    char *const *argv;  /* terminated by NULL, like `env` */
    char *const *env;
    struct run_frame_times live;
    uint64_t ignored; /* signals that the command ignores: bit N - 1 means signal N */
    bool no_input;    /* its standard input is empty; otherwise it is that of this process */
    /* Its process group becomes the foreground group of the terminal at descriptor 0. */
    bool foreground;
};

struct run_job {
    int socket, descriptor; /* to poll; -1: nothing more comes from it */
    /* Pid of the main process, and of its group, as seen by this process; 0: not known. */
    pid_t main;
    int status;
    int error;
    enum run_frame_step step;
    bool forcing;
    /* Private to run_job.c. */
    struct run_job *next;
    enum run_record_proof proof;
    pid_t guardian; /* 0: it has been waited for */
    bool gone_said, finished;
    struct run_tree tree;
    char cgroup[RUN_RECORD_PATH_MAX];
};

/* Called before the first job: makes this process the parent of all processes that a killed
 * guardian leaves. False: it has children already, which could not be told apart; jobs can still be
 * started. */
bool run_job_prepare(void);

/* 0: the guardian has its orders, and events follow. Otherwise an errno, with `step`, and nothing
 * is left. */
int run_job_start(struct run_job *job, const struct run_job_options *options);
/* The next event, with the fields that belong to it. */
enum run_job_event run_job_next(struct run_job *job);

/* False: the order could not be sent to the guardian. */
bool run_job_live(struct run_job *job, const struct run_frame_times *live);
void run_job_signal(struct run_job *job, int signal);
void run_job_term(struct run_job *job);
void run_job_kill(struct run_job *job);
/* For a guardian that does not kill in time: ends the tree without it. */
void run_job_force(struct run_job *job);

#endif
