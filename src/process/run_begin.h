/* Internal to run.c and run_begin.c. */
#ifndef TN_PROCESS_RUN_BEGIN_H
#define TN_PROCESS_RUN_BEGIN_H

#include "process/run.h"
#include "process/run_frame.h"
#include "process/run_record.h"
#include "process/run_tree.h"

struct run {
    struct run *next; /* in the list of runs that are not gone */
    uv_loop_t *loop;
    const struct os *os;
    struct run_hooks hooks;
    void *ctx;
    char path[RUN_RECORD_PATH_MAX]; /* its directory, absolute */
    struct run_record record;
    bool has_user;  /* runs as another user or group than the server */
    pid_t guardian; /* 0: there is no guardian */
    int socket;
    int descriptor; /* a descriptor for the guardian's process */
    uint8_t *frame; /* the START frame, which has the token in it; NULL after it was sent */
    size_t frame_len;
    int early_error; /* an error in this process, and its step */
    enum run_frame_step early_step;
    uint32_t late_ms; /* the time after which a guardian that should kill is given up */
    bool is_check;
    /* The guardian is the first process of the run's pid namespace, so its end is the end of
     * all. */
    bool is_first;
    bool start_sent;
    bool told; /* started or failed */
    bool has_exited;
    bool gone_said;
    bool killing;
    bool is_gone;
    bool is_guarded;      /* the guardian has not been waited for */
    struct run_tree tree; /* the processes below a guardian that was given up */
    unsigned polls;       /* how many of the two are open */
    unsigned handles;     /* handles being closed */
    uv_poll_t socket_poll, descriptor_poll;
    uv_timer_t timer; /* for an early failure, for a guardian that is late, and for sweeping */
};

/* Does everything up to a guardian that waits for START. TN_OK: it waits, or early_error says why
 * not. Otherwise nothing was done. */
enum tn_status run_begin(struct run *run, const struct run_options *options);
/* Writes the record, then sends START. If one of them fails, early_error says so, and the guardian
 * ends by itself. */
void run_begin_send(struct run *run);
/* Kills a guardian that has no orders yet, and waits for it. */
void run_begin_undo(struct run *run);

#endif
