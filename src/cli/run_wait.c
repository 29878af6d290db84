/* The thread that acquires, and the signals meanwhile. */
#include "cli/run_wait.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

struct wait {
    struct cli_run_lease *lease;
    const struct cli_run_options *options;
    struct cli_client *client;
    enum cli_run_answer answer;
    int done; /* closed when there is an answer */
    atomic_bool leaving;
};

static void *acquire(void *ctx) {
    struct wait *wait = ctx;
    wait->answer = cli_run_lease_acquire(wait->lease, wait->options, wait->client, &wait->leaving);
    (void)close(wait->done);
    return NULL;
}

/* The thread may be inside any call, so nothing is freed and no exit handler runs. */
static _Noreturn void leave(struct wait *wait, int signal) {
    atomic_store(&wait->leaving, true);
    (void)fprintf(stderr, "tenure run: no lease yet: %s\n", strsignal(signal));
    if (!cli_run_lease_leave(wait->lease)) {
        (void)fprintf(stderr, "tenure run: the server cannot be reached, so the request could not "
                              "be withdrawn; it ends by itself\n");
    }
    _exit(CLI_RUN_EXIT_NOT_ACQUIRED);
}

static void signals_take(struct wait *wait, struct cli_run_terminal *terminal) {
    int signal;
    while ((signal = cli_run_terminal_signal(terminal)) != 0) {
        cli_run_terminal_look(terminal);
        if (cli_run_terminal_ends(terminal, signal)) {
            leave(wait, signal);
        } else if (signal == SIGTSTP) {
            (void)cli_run_terminal_stop(terminal, signal, 0);
        }
    }
}

enum cli_run_answer cli_run_wait(struct cli_run_lease *lease, const struct cli_run_options *options,
                                 struct cli_client *client, struct cli_run_terminal *terminal) {
    struct wait wait = {.lease = lease, .options = options, .client = client};
    int ends[2];
    pthread_t thread;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        (void)fprintf(stderr, "tenure run: no pipe\n");
        return CLI_RUN_REFUSED;
    }
    wait.done = ends[1];
    if (pthread_create(&thread, NULL, acquire, &wait) != 0) {
        (void)fprintf(stderr, "tenure run: no thread\n");
        (void)close(ends[0]);
        (void)close(ends[1]);
        return CLI_RUN_REFUSED;
    }
    struct pollfd on[] = {{.fd = terminal->signals, .events = POLLIN}, {.fd = ends[0]}};
    do {
        (void)poll(on, 2, -1);
        signals_take(&wait, terminal);
    } while (on[1].revents == 0);
    (void)pthread_join(thread, NULL);
    (void)close(ends[0]);
    cli_run_terminal_look(terminal);
    return wait.answer;
}
