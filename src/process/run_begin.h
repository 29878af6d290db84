/* Internal to run.c and run_begin.c. */
#ifndef TN_PROCESS_RUN_BEGIN_H
#define TN_PROCESS_RUN_BEGIN_H

#include "process/run.h"
#include "process/run_frame.h"
#include "process/run_record.h"
#include "process/run_tree.h"

struct run {
    struct run *next; /* of those that are not gone */
    uv_loop_t *loop;
    const struct os *os;
    struct run_hooks hooks;
    void *ctx;
    char path[RUN_RECORD_PATH_MAX]; /* its directory, absolute */
    struct run_record record;
    bool has_user;  /* another one than the server's, or another group */
    pid_t guardian; /* 0: there is none */
    int socket;
    int descriptor; /* of the guardian's process */
    uint8_t *frame; /* START, with the token in it; NULL once it is sent */
    size_t frame_len;
    int early_error; /* the error on our side, and its step */
    enum run_frame_step early_step;
    uint32_t late_ms; /* after which a guardian that is to kill is given up */
    bool is_check;
    bool is_first; /* the guardian, in the run's pid namespace: its end is the end of all */
    bool start_sent;
    bool told; /* started or failed */
    bool has_exited;
    bool gone_said;
    bool killing;
    bool is_gone;
    bool is_guarded;      /* the guardian was not waited for */
    struct run_tree tree; /* below a guardian that is given up */
    unsigned polls;       /* how many of the two there are */
    unsigned handles;     /* that are being closed */
    uv_poll_t socket_poll, descriptor_poll;
    uv_timer_t timer; /* an early failure; a guardian that is late; sweeping */
};

/* Everything up to a guardian that waits for START. TN_OK: it is there, or early_error says why not.
 * Else nothing was done. */
enum tn_status run_begin(struct run *run, const struct run_options *options);
/* The record, then START. If one of them fails, early_error says so, and the guardian ends by itself. */
void run_begin_send(struct run *run);
/* Kills a guardian that was not told anything yet, and waits for it. */
void run_begin_undo(struct run *run);

#endif
