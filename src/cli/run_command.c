/* `tenure run`: a command that runs only while its lease is surely held.
 *
 *     acquire --> start under a guardian --> keep (renew, pass signals on) --> proven dead --> RELEASE
 *                                              | revoked: SIGTERM, then SIGKILL --> dead --> ACK
 *                                              | not renewed in time: the guardian does the same
 *                                              v
 *                                            exit code
 *
 * The deadline is the guardian's: every renewal tells it until when the command may live, so it ends the
 * command also while this process is stopped, hangs or is dead. Times, back from the deadline until which
 * the lease is surely held:
 *
 *     term_at --kill_after--> kill_at --margin--> deadline
 *
 * The margin is for killing. If the guardian has not finished at a third of it, this process ends the tree
 * without the guardian. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/run_environment.h"
#include "cli/run_keep.h"
#include "cli/run_lease.h"
#include "cli/run_terminal.h"
#include "cli/run_times.h"
#include "cli/run_wait.h"
#include "process/cgroup.h"
#include "process/proc.h"
#include "process/run.h"
#include "process/run_job.h"

#define END_MS 5000u        /* for RELEASE or ACK */
#define END_LOST_MS 1500u   /* the same if the server could not be reached before */
#define END_STUCK_MS 15000u /* the same for an ACK without which the values stay away for good */

struct keeping {
    struct cli_run_options options;
    const struct cli_settings *settings;
    struct cli_run_lease lease;
    struct cli_run_terminal terminal;
    struct run_job job, renew;
    char guardian[RUN_RECORD_PATH_MAX];
    char cgroup[RUN_RECORD_PATH_MAX];
    enum run_record_proof proof;
    int notes;
    struct cli_run_times times;
    struct run_frame_times live; /* what the guardian was told last */
    char **env;
    bool renew_runs;
    bool started, exited, over, unproven;
    bool revoked; /* the server has said so: acknowledged at the end */
    bool endless; /* and its notice has no end */
    bool lost;
    bool troubled; /* the last renewal failed, and it was said */
    int code;
};

static uint64_t now_ms(const struct keeping *keeping) {
    return cli_run_now_ms(keeping->settings);
}

static uint64_t earlier(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* ---- Deadlines ---- */

static uint64_t before(uint64_t at_ms, uint64_t by_ms) {
    return at_ms > by_ms ? at_ms - by_ms : 1;
}

static struct run_frame_times times_of(const struct keeping *keeping, uint64_t deadline_ms) {
    uint64_t kill_at = before(deadline_ms, keeping->times.margin_ms);
    return (struct run_frame_times){.term_at_ms = before(kill_at, keeping->times.kill_after_ms),
                                    .kill_at_ms = kill_at};
}

static void live_set(struct keeping *keeping, struct run_frame_times live) {
    keeping->live = live;
    (void)run_job_live(&keeping->job, &live);
    if (keeping->renew_runs) {
        (void)run_job_live(&keeping->renew, &live);
    }
}

/* SIGTERM now, SIGKILL after the time for it, or earlier if there is less. */
static void wind_up(struct keeping *keeping, uint64_t kill_at_ms) {
    uint64_t kill_at = earlier(now_ms(keeping) + keeping->times.kill_after_ms, kill_at_ms);
    live_set(keeping, (struct run_frame_times){.kill_at_ms = kill_at});
    run_job_term(&keeping->job);
    if (keeping->renew_runs) {
        run_job_term(&keeping->renew);
    }
}

static void lose(struct keeping *keeping, const char *what, const char *why) {
    if (!keeping->lost) {
        (void)fprintf(stderr, "tenure run: lease %s %s%s%s; ending the command\n",
                      keeping->lease.id, what, why[0] != '\0' ? ": " : "", why);
    }
    keeping->lost = true;
}

/* ---- The renew command ---- */

static void renew_start(struct keeping *keeping, const char *token) {
    char *argv[] = {"/bin/sh", "-c", (char *)(uintptr_t)keeping->options.renew_command, NULL};
    if (keeping->options.renew_command == NULL || keeping->renew_runs || keeping->exited) {
        return;
    }
    char **env = cli_run_environment_make(&keeping->lease, token, environ);
    struct run_job_options options = {
        .guardian = keeping->guardian,
        .name = "renew",
        .proof = keeping->proof == RUN_RECORD_CGROUP ? RUN_RECORD_REAPED : keeping->proof,
        .argv = argv,
        .env = env,
        .live = keeping->live,
        .ignored = keeping->terminal.ignored,
        .no_input = true};
    keeping->renew_runs = env != NULL && run_job_start(&keeping->renew, &options) == 0;
    if (!keeping->renew_runs) {
        (void)fprintf(stderr, "tenure run: cannot start the renew command\n");
    }
    free(env);
}

static void renew_look(struct keeping *keeping) {
    enum run_job_event event;
    while (keeping->renew_runs && (event = run_job_next(&keeping->renew)) != RUN_JOB_NOTHING) {
        if (event == RUN_JOB_EXITED) {
            if (keeping->renew.status != 0 && !keeping->lost) {
                (void)fprintf(stderr, "tenure run: the renew command failed\n");
            }
            run_job_kill(&keeping->renew); /* nothing of it stays */
        } else if (event == RUN_JOB_GONE || event == RUN_JOB_UNPROVEN) {
            keeping->renew_runs = false;
            keeping->unproven = keeping->unproven || event == RUN_JOB_UNPROVEN;
        }
    }
}

/* ---- What happens ---- */

static void note_take(struct keeping *keeping, const struct cli_run_note *note) {
    switch (note->kind) {
    case CLI_RUN_NOTE_RENEWED:
        if (!keeping->lost && !keeping->exited) {
            live_set(keeping, times_of(keeping, note->until_ms));
            keeping->troubled = false;
        }
        break;
    case CLI_RUN_NOTE_TOKEN:
        if (!keeping->lost) {
            renew_start(keeping, note->token);
        }
        break;
    case CLI_RUN_NOTE_REVOKED:
        lose(keeping, "was revoked", "");
        keeping->revoked = true;
        keeping->endless = note->until_ms == 0;
        wind_up(keeping, note->until_ms != 0 ? before(note->until_ms, keeping->times.margin_ms)
                                             : UINT64_MAX);
        break;
    case CLI_RUN_NOTE_LOST:
        lose(keeping, "was lost", note->words);
        wind_up(keeping, 1);
        break;
    default:
        if (!keeping->troubled && !keeping->lost) {
            (void)fprintf(stderr, "tenure run: cannot renew lease %s, trying again: %s\n",
                          keeping->lease.id, note->words);
        }
        keeping->troubled = true;
        break;
    }
}

static void notes_take(struct keeping *keeping) {
    struct cli_run_note note;
    while (cli_run_keep_next(keeping->notes, &note)) {
        note_take(keeping, &note);
        explicit_bzero(note.token, sizeof note.token);
    }
}

static void signals_take(struct keeping *keeping) {
    int signal;
    while ((signal = cli_run_terminal_signal(&keeping->terminal)) != 0) {
        if (signal == SIGCONT) {
            cli_run_terminal_continue(&keeping->terminal, keeping->job.main);
        }
        run_job_signal(&keeping->job, signal);
    }
}

static int code_of_start(const struct run_job *job) {
    if (job->step != RUN_FRAME_STEP_EXEC) {
        return CLI_RUN_EXIT_FAILED;
    }
    return job->error == ENOENT ? CLI_RUN_EXIT_NOT_FOUND : CLI_RUN_EXIT_CANNOT;
}

static void tell_guardian_ended(void) {
    (void)fprintf(stderr, "tenure run: tenure-guardian ended before it started the command\n");
}

static void start_failed(struct keeping *keeping) {
    const struct run_job *job = &keeping->job;
    keeping->code = code_of_start(job);
    if (job->step == RUN_FRAME_STEP_GUARDIAN && job->error == EPIPE) {
        tell_guardian_ended(); /* it had ended when it was to be told the command */
        return;
    }
    (void)fprintf(stderr, "tenure run: cannot run %s: %s (%s)\n", keeping->options.command[0],
                  strerror(job->error), run_frame_step_name(job->step));
}

/* The main process decides how the command ends. What it leaves is asked to end, then killed. */
static void main_ended(struct keeping *keeping) {
    int status = keeping->job.status;
    keeping->exited = true;
    keeping->code =
        WIFSIGNALED(status) ? CLI_RUN_EXIT_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
    cli_run_terminal_give_back(&keeping->terminal);
    if (keeping->live.term_at_ms != 0 && now_ms(keeping) >= keeping->live.term_at_ms) {
        lose(keeping, "could not be renewed in time", "");
    }
    wind_up(keeping, keeping->live.kill_at_ms);
}

/* If the guardian was killed, the status of the main process is unknown; it died with it. After a loss it
 * is this process that may have killed it. */
static void over(struct keeping *keeping, bool unproven) {
    keeping->over = true;
    keeping->unproven = keeping->unproven || unproven;
    if (keeping->started && !keeping->exited) {
        if (!keeping->lost) {
            (void)fprintf(stderr,
                          "tenure run: tenure-guardian was killed, and with it the command\n");
        }
        keeping->code = CLI_RUN_EXIT_SIGNAL + SIGKILL;
    } else if (!keeping->started && keeping->job.error == 0) {
        tell_guardian_ended();
    }
}

static void job_look(struct keeping *keeping) {
    enum run_job_event event;
    while ((event = run_job_next(&keeping->job)) != RUN_JOB_NOTHING) {
        switch (event) {
        case RUN_JOB_STARTED:
            keeping->started = true;
            break;
        case RUN_JOB_FAILED:
            start_failed(keeping);
            break;
        case RUN_JOB_STOPPED:
            if (!cli_run_terminal_stop(&keeping->terminal, keeping->job.status,
                                       keeping->job.main)) {
                run_job_signal(&keeping->job, SIGCONT);
            }
            break;
        case RUN_JOB_EXITED:
            main_ended(keeping);
            break;
        default:
            over(keeping, event == RUN_JOB_UNPROVEN);
            break;
        }
    }
}

/* What the guardian does at these times by itself is only noted; a guardian that is late is not waited
 * for. */
static void times_look(struct keeping *keeping) {
    uint64_t now = now_ms(keeping);
    if (keeping->live.term_at_ms != 0 && now >= keeping->live.term_at_ms) {
        lose(keeping, "could not be renewed in time", "");
    }
    if (now >= keeping->live.kill_at_ms) {
        run_job_kill(&keeping->job);
    }
    if (now >= keeping->live.kill_at_ms + keeping->times.margin_ms / 3) {
        run_job_force(&keeping->job);
        if (keeping->renew_runs) {
            run_job_force(&keeping->renew);
        }
    }
}

static int wait_ms(const struct keeping *keeping) {
    uint64_t now = now_ms(keeping);
    uint64_t at = keeping->live.kill_at_ms;
    if (keeping->job.forcing || keeping->renew.forcing) {
        return RUN_JOB_AGAIN_MS;
    }
    if (!keeping->lost && keeping->live.term_at_ms != 0) {
        at = keeping->live.term_at_ms;
    } else if (now >= at) {
        at += keeping->times.margin_ms / 3;
    }
    return now >= at ? RUN_JOB_AGAIN_MS : (int)earlier(at - now, 60000);
}

static void keep(struct keeping *keeping) {
    while (!keeping->over || keeping->renew_runs) {
        struct pollfd on[] = {
            {.fd = keeping->job.socket, .events = POLLIN},
            {.fd = keeping->job.descriptor, .events = POLLIN},
            {.fd = keeping->terminal.signals, .events = POLLIN},
            {.fd = keeping->notes, .events = POLLIN},
            {.fd = keeping->renew_runs ? keeping->renew.socket : -1, .events = POLLIN},
            {.fd = keeping->renew_runs ? keeping->renew.descriptor : -1, .events = POLLIN},
        };
        (void)poll(on, sizeof on / sizeof on[0], wait_ms(keeping));
        signals_take(keeping);
        job_look(keeping); /* before the notes: the guardian acts by the times that it was told */
        renew_look(keeping);
        notes_take(keeping); /* before the times: a renewal that is there counts */
        times_look(keeping);
        if (keeping->over && keeping->renew_runs) {
            run_job_kill(&keeping->renew);
        }
    }
    cli_run_terminal_give_back(&keeping->terminal);
}

/* ---- The start ---- */

static bool contain(struct keeping *keeping) {
    enum cli_run_containment wanted = keeping->options.containment;
    char parent[RUN_RECORD_PATH_MAX - 128];
    bool automatic = wanted == CLI_RUN_CONTAIN_AUTO;
    keeping->proof = RUN_RECORD_REAPED;
    if ((automatic || wanted == CLI_RUN_CONTAIN_CGROUP) &&
        process_cgroup_delegated(parent, sizeof parent)) {
        (void)snprintf(keeping->cgroup, sizeof keeping->cgroup, "%s/tenure-run-%d-%s", parent,
                       (int)getpid(), keeping->lease.id);
        keeping->proof = RUN_RECORD_CGROUP;
    } else if ((automatic || wanted == CLI_RUN_CONTAIN_PIDNS) && run_can_pidns(keeping->guardian)) {
        keeping->proof = RUN_RECORD_PIDNS;
    } else if (!automatic && wanted != CLI_RUN_CONTAIN_NONE) {
        (void)fprintf(stderr, "tenure run: this containment is not permitted here\n");
        return false;
    }
    return true;
}

static bool prepare(struct keeping *keeping) {
    const char *guardian = keeping->options.guardian;
    if (!process_children_known()) {
        (void)fprintf(stderr, "tenure run: without /proc/thread-self/children, nothing would prove "
                              "that the command has ended: is /proc mounted?\n");
        return false;
    }
    if (guardian != NULL) {
        (void)snprintf(keeping->guardian, sizeof keeping->guardian, "%s", guardian);
    } else if (!run_guardian_find(keeping->guardian, sizeof keeping->guardian)) {
        (void)fprintf(stderr, "tenure run: tenure-guardian is neither next to tenure nor in "
                              "../libexec/tenure\n");
        return false;
    }
    if (!cli_run_terminal_take(&keeping->terminal)) {
        (void)fprintf(stderr, "tenure run: no descriptor for signals\n");
        return false;
    }
    (void)run_job_prepare();
    return true;
}

/* A pool may have made the ttl shorter than the one that --kill-after was checked with. */
static void times_init(struct keeping *keeping) {
    const struct cli_run_options *options = &keeping->options;
    uint64_t ttl = keeping->lease.ttl_ms;
    keeping->times = cli_run_times_of(ttl, options->has_kill_after ? options->kill_after_ms
                                                                   : CLI_RUN_KILL_AFTER_DEFAULT);
    if (options->has_kill_after && keeping->times.kill_after_ms < options->kill_after_ms) {
        (void)fprintf(stderr,
                      "tenure run: the pools limit the ttl to %gs, and so --kill-after to %gs\n",
                      (double)ttl / 1000, (double)keeping->times.kill_after_ms / 1000);
    }
    keeping->live = times_of(keeping, keeping->lease.deadline_ms);
}

/* True: the guardian has its orders. */
static bool start(struct keeping *keeping, const struct cli_client *client) {
    keeping->env = cli_run_environment_make(&keeping->lease, keeping->lease.token, environ);
    if (keeping->env == NULL ||
        !cli_run_keep_start(&keeping->lease, &keeping->times, client,
                            keeping->options.renew_command != NULL, &keeping->notes)) {
        (void)fprintf(stderr, "tenure run: out of memory\n");
        return false;
    }
    struct run_job_options options = {.guardian = keeping->guardian,
                                      .name = keeping->lease.id,
                                      .proof = keeping->proof,
                                      .cgroup = keeping->cgroup,
                                      .argv = keeping->options.command,
                                      .env = keeping->env,
                                      .live = keeping->live,
                                      .ignored = keeping->terminal.ignored,
                                      .foreground = keeping->terminal.foreground};
    if (run_job_start(&keeping->job, &options) != 0) {
        start_failed(keeping);
        return false;
    }
    return true;
}

/* ---- The end ---- */

/* The values go back only if nothing of the command can use them any more. */
static void finish(struct keeping *keeping) {
    uint64_t now = now_ms(keeping);
    const char *id = keeping->lease.id;
    if (keeping->unproven) {
        (void)fprintf(stderr,
                      "tenure run: tenure-guardian was killed, and nothing proves that all "
                      "processes of the command are dead; lease %s is left to expire\n",
                      id);
        keeping->code = CLI_RUN_EXIT_UNPROVEN;
        return;
    }
    bool quick = keeping->lost && !keeping->revoked;
    uint64_t time = quick ? END_LOST_MS : keeping->endless ? END_STUCK_MS : END_MS;
    enum cli_run_answer answer = cli_run_lease_end(&keeping->lease, keeping->revoked, now + time);
    if (answer == CLI_RUN_AGAIN && keeping->revoked) {
        (void)fprintf(
            stderr, "tenure run: the revocation of lease %s could not be acknowledged; %s\n", id,
            keeping->endless ? "an operator has to RECLAIM it" : "it ends with its notice");
    } else if (answer == CLI_RUN_AGAIN && !keeping->lost) {
        (void)fprintf(stderr, "tenure run: lease %s could not be released; it is left to expire\n",
                      id);
    }
    if (keeping->lost) {
        keeping->code = CLI_RUN_EXIT_LOST;
    }
}

static void run(struct keeping *keeping, struct cli_client *client) {
    times_init(keeping);
    if (!contain(keeping)) {
        keeping->code = CLI_RUN_EXIT_FAILED;
        cli_client_close(client);
    } else if (start(keeping, client)) {
        keep(keeping);
    }
    finish(keeping);
}

int cli_run(const struct cli_settings *settings, int argc, char **argv) {
    struct cli_client client = {.socket = -1};
    int code = CLI_USAGE;
    struct keeping *keeping = calloc(1, sizeof *keeping);
    if (keeping == NULL) {
        return CLI_RUN_EXIT_FAILED;
    }
    keeping->settings = keeping->lease.settings = settings;
    keeping->code = CLI_RUN_EXIT_FAILED;
    if (!cli_run_options_parse(&keeping->options, argc, argv)) {
        free(keeping);
        return CLI_USAGE;
    }
    if (!cli_run_lease_name(&keeping->lease, &keeping->options)) {
        code = CLI_USAGE;
    } else if (!prepare(keeping)) {
        code = CLI_RUN_EXIT_FAILED;
    } else if (cli_run_wait(&keeping->lease, &keeping->options, &client, &keeping->terminal) !=
               CLI_RUN_OK) {
        cli_client_close(&client);
        code = CLI_RUN_EXIT_NOT_ACQUIRED;
    } else {
        cli_run_lease_token(&keeping->lease, &client);
        run(keeping, &client);
        code = keeping->code;
    }
    cli_run_lease_free(&keeping->lease);
    free(keeping->env);
    free(keeping);
    return code;
}
