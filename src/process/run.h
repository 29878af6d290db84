/* One run of a sensor: a real process with its guardian, from the start to the proof that nothing of
 * it lives.
 *
 *     server                 guardian                  main process and its descendants
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

#include "base/bytes.h"
#include "kernel/types.h"
#include "os/os.h"
#include "process/run_frame.h"
#include "process/run_record.h"
#include "process/sensor_spec.h"

struct run;

struct run_hooks {
    void (*started)(void *ctx, int64_t pid);
    /* Nothing was started, and nothing will be. `step` names the step that failed. */
    void (*failed)(void *ctx, int error, const char *step);
    /* The main process has ended. Other processes may be alive until run_term or run_kill. Not
     * called if the status is unknown because the guardian was killed, too. */
    void (*exited)(void *ctx, int wait_status);
    /* All processes are proven dead. The last call of all; run_free is allowed from here on, also
     * inside. */
    void (*gone)(void *ctx);
};

/* Everything is the caller's and needed only during the call, except loop, os and dir. */
struct run_options {
    uv_loop_t *loop;
    const struct os *os;
    const char *dir;      /* the directory of all sensors, created if necessary */
    const char *guardian; /* the program */
    enum run_record_proof proof;
    /* For CGROUP: a directory of cgroup v2 in which runs get their own cgroups. */
    const char *cgroup;
    const char *ref;
    struct kernel_lease_id lease;
    uint64_t epoch;
    const struct sensor_spec *spec;
    const char *const *env; /* NAME=value, in addition to those of the description; NULL: none */
    uint32_t env_count;
    struct tn_bytes token; /* passed in the variable spec->token_env and in the file; empty: none */
    struct tn_bytes rules; /* the first contents of the rule file; empty: none */
    /* A check of this run's health instead of a run: the description's health command, in the same
     * surroundings, without a record, its output thrown away. NULL: a run. */
    const struct run *check_of;
    struct run_frame_times live; /* as in run_live, but set before the start; zeros: no deadline */
    uint32_t guardian_late_ms;   /* the time that a guardian may take to kill; 0: the default */
    struct run_hooks hooks;
    void *ctx;
};

/* TN_OK: exactly one of started and failed follows, and gone always, last. Else nothing was started
 * and no hook is called. Variables of the run: PATH, LANG and TZ as the server has them, HOME, USER
 * and LOGNAME of the user; then the description's, then the options', then TENURE_RUN_ID and, with a
 * token, TENURE_TOKEN_FILE, and, with rules, TENURE_RULES_FILE. The last of a name wins. */
enum tn_status run_start(const struct run_options *options, struct run **ret_run);

/* Sends SIGTERM to the main process's group. If the main process has ended: also to processes whose
 * parents have ended, and to the groups that they lead. */
void run_term(struct run *run);
/* Sends SIGKILL to all processes until none is left. */
void run_kill(struct run *run);
/* Has the guardian end the run at these times, whatever happens to this process, unless a later
 * call changes them. A time of 0 means never. False: the guardian could not be told, and the
 * earlier times stay. */
bool run_live(struct run *run, const struct run_frame_times *live);
/* The proof of its death. Called after `gone`. */
enum run_record_proof run_proof(const struct run *run);
/* After gone. */
void run_free(struct run *run);

/* Replaces the token in the file. If that fails, the old token stays. */
enum tn_status run_token_write(struct run *run, struct tn_bytes token);

/* Replaces the rule file; if that fails, the old one stays. Called after `started`. */
enum tn_status run_rules_write(struct run *run, struct tn_bytes rules);
/* Sends a signal to the main process only. The guardian sends it when the main process handles or
 * ignores it, because a process that has just begun does neither, and the signal would end it.
 * Called after `started`. */
void run_signal(struct run *run, int number);

/* Whether runs can have pid namespaces of their own. Found out by starting a guardian in one. */
bool run_can_pidns(const char *guardian);

/* The default path of the guardian: next to the server's program or, if installed, in
 * ../libexec/tenure. False: it is in neither place. */
bool run_guardian_find(char *out, size_t capacity);

/* A file name for the reference: letters, digits, _, - and dots that are not at the beginning are
 * kept; all other bytes become %XX. False: it does not fit. */
bool run_dir_name(const char *ref, char *out, size_t capacity);
/* The reverse. False: it is not such a name. */
bool run_dir_ref(const char *name, char out[KERNEL_RESOURCE_MAX + 1]);

#endif
