/* One run of a sensor: a real process with its guardian, from the start to the proof that nothing of
 * it lives.
 *
 *     server                 guardian                  main process and all that comes of it
 *       | spawn  ------------> waits
 *       | record written
 *       | START -------------> fork, set up, exec -------> lives
 *       | <------ STARTED | FAILED
 *       | TERM, KILL --------> signals -------------------> dies
 *       | <------ EXITED       main process has ended
 *       | <------ GONE         no descendant is left
 *       | record removed       exits
 *
 * The guardian is a child subreaper: whatever the main process starts is its descendant for as long
 * as it lives, daemons too. If the server goes away, the guardian sees its socket close and kills all
 * of them. If the guardian goes away, its orphans become children of the server, a subreaper too,
 * which kills them: so a process that uses this has no children but guardians, and only the thread of
 * its loop waits for them.
 *
 * The directory of a run, DIR/<ref, encoded>, is that of its sensor:
 *
 *     run              the record, while there is a run: see run_record.h
 *     token            the token, 0600, the sensor's user's; rewritten with every refresh
 *     rules            the enabled rules of its trigger, JSON, likewise; replaced with every change
 *     log.<number>     output, the highest number last: see run_output.h
 *
 * All calls and hooks are on the loop's thread; hooks are never called from inside a call. */
#ifndef TN_PROCESS_RUN_H
#define TN_PROCESS_RUN_H

#include <uv.h>

#include "kernel/types.h"
#include "os/os.h"
#include "process/run_frame.h"
#include "process/run_record.h"
#include "process/sensor_spec.h"

struct run;

struct run_hooks {
    void (*started)(void *ctx, int64_t pid);
    /* Nothing runs, and nothing will; `step` names the step that failed. */
    void (*failed)(void *ctx, int error, const char *step);
    /* The main process has ended; other processes may live until run_term or run_kill. Not called if
     * the status is unknown, because the guardian was killed too. */
    void (*exited)(void *ctx, int wait_status);
    /* Proven dead. Once, the last of all; run_free is allowed from here on, also inside. */
    void (*gone)(void *ctx);
};

/* Everything is the caller's and needed during the call only, but for loop, os and dir. */
struct run_options {
    uv_loop_t *loop;
    const struct os *os;
    const char *dir;      /* of all sensors; made if it is not there */
    const char *guardian; /* the program */
    enum run_record_proof proof;
    const char *cgroup; /* of CGROUP: a directory of cgroup v2 where runs get their own */
    const char *ref;
    struct kernel_lease_id lease;
    uint64_t epoch;
    const struct sensor_spec *spec;
    const char *const *env; /* NAME=value, on top of those of the description; NULL: none */
    uint32_t env_count;
    struct tn_bytes token; /* goes to the variable spec->token_env and to the file; empty: none */
    struct tn_bytes rules; /* the first content of the file of rules; empty: none */
    /* A check of this run's health instead of a run: the description's health command, in the same
     * surroundings, without a record, its output thrown away. NULL: a run. */
    const struct run *check_of;
    struct run_frame_times live; /* as run_live, from before the start; zeros: no deadline */
    uint32_t guardian_late_ms; /* how long a guardian may take to kill; 0: as long as is sensible */
    struct run_hooks hooks;
    void *ctx;
};

/* TN_OK: exactly one of started and failed follows, and gone always, last. Else nothing was started
 * and no hook is called. Variables of the run: PATH, LANG and TZ as the server has them, HOME, USER
 * and LOGNAME of the user; then the description's, then the options', then TENURE_RUN_ID and, with a
 * token, TENURE_TOKEN_FILE, and, with rules, TENURE_RULES_FILE. The last of a name wins. */
enum tn_status run_start(const struct run_options *options, struct run **ret_run);

/* SIGTERM to the main process's group; once the main process has ended, also to those whose parents
 * have, and to the groups that they lead. */
void run_term(struct run *run);
/* SIGKILL to all of them until none is left. */
void run_kill(struct run *run);
/* The guardian ends the run at these times, whatever becomes of this process, unless a later call moves
 * them; a time of 0 is never. False: it could not be told; the times before stay. */
bool run_live(struct run *run, const struct run_frame_times *live);
/* The proof of its death. */
enum run_record_proof run_proof(const struct run *run);
/* After gone. */
void run_free(struct run *run);

/* Writes a fresh token to the file; if that fails, the old one stays. */
enum tn_status run_token_write(struct run *run, struct tn_bytes token);

/* Replaces the file of rules; if that fails, the old one stays. After `started`. */
enum tn_status run_rules_write(struct run *run, struct tn_bytes rules);
/* A signal to the main process alone. The guardian sends it when the main process handles or ignores it:
 * one that has just begun does neither, and would be ended. After `started`. */
void run_signal(struct run *run, int number);

/* Whether runs can have pid namespaces of their own; found out by starting a guardian in one. */
bool run_can_pidns(const char *guardian);

/* The default path of the guardian: next to the server's program, or, when installed, in
 * ../libexec/tenure. False: it is in neither place. */
bool run_guardian_find(char *out, size_t capacity);

/* A name for files: all but letters, digits, _ and - and dots that are not at the front as %XX.
 * False: it does not fit. */
bool run_dir_name(const char *ref, char *out, size_t capacity);
/* And back. False: it is not such a name. */
bool run_dir_ref(const char *name, char out[KERNEL_RESOURCE_MAX + 1]);

#endif
