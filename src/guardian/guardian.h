/* Inside the guardian: see guardian.c. */
#ifndef TN_GUARDIAN_GUARDIAN_H
#define TN_GUARDIAN_GUARDIAN_H

#include <sys/types.h>

#include "process/run_frame.h"

/* ---- guardian_log.c: the sensor's output, written to files ---- */

struct guardian_log {
    int dir;    /* -1: there is no log */
    int file;   /* -1: it could not be opened */
    int source; /* the read end of the output; -1: all writers are gone */
    uint32_t files;
    uint64_t number;
    uint64_t bytes_max;
    uint64_t size;
    uint64_t lost; /* bytes that could not be written */
};

/* *ret_sink is for the sensor to print to, close-on-exec. 0, or the error. */
int guardian_log_open(struct guardian_log *log, const struct run_frame_start *start, int *ret_sink);
/* Copies the available output to the files, in a bounded step: false if that may have been all of it. A
 * full disk never makes the sensor wait: output that cannot be written is counted and dropped. */
bool guardian_log_pump(struct guardian_log *log);

/* ---- guardian_world.c: in a pid namespace of its own ---- */

/* Mounts a /proc of this pid namespace, for this process and its children; other mounts stay, and later
 * mounts of the machine appear. 0, or the error. */
int guardian_world_make(void);

/* ---- guardian_deadline.c: the times at which the run ends by itself ---- */

/* Two timers on CLOCK_BOOTTIME, unset. False: there are no descriptors for them. */
bool guardian_deadline_open(void);
/* Replaces both times. A time that is over fires at once. */
void guardian_deadline_set(const struct run_frame_times *live);
/* The descriptors, which are readable once their time has come. */
int guardian_deadline_term(void);
int guardian_deadline_kill(void);
/* Whether the time of a descriptor has come; true once for each time set. */
bool guardian_deadline_is_over(int descriptor);

/* ---- guardian.c: orders that come before the program runs ---- */

/* Takes every LIVE that has come, and keeps signals for later. True: an order is next that ends the
 * run, or the server is gone; it stays in the socket. */
bool guardian_order_early(void);

/* ---- guardian_start.c: from the guardian to the sensor's program ---- */

/* The pid of the main process, which runs its own program by now; 0: nothing was started, the
 * reasons are set. A job runs `command`, which ends with NULL; a sensor prints to `sink`. */
pid_t guardian_start(const struct run_frame_start *start, char **command, int sink,
                     uint32_t *ret_error, uint32_t *ret_step);

#endif
