/* Signals through a descriptor, and the foreground of the terminal. */
#include "cli/run_terminal.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process/proc.h"

static const int passed[] = {SIGINT,  SIGTERM,  SIGHUP,  SIGQUIT, SIGUSR1,
                             SIGUSR2, SIGWINCH, SIGTSTP, SIGCONT};

/* In a pipeline with another program behind it, such as a pager, that program needs the terminal. */
static bool has_foreground(void) {
    struct stat out;
    return isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp() &&
           !(fstat(STDOUT_FILENO, &out) == 0 && S_ISFIFO(out.st_mode));
}

static uint64_t ignored_find(void) {
    uint64_t ignored = 0;
    struct sigaction action;
    for (int number = 1; number <= 64; number++) {
        if (sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN) {
            ignored |= 1ull << (number - 1);
        }
    }
    return ignored;
}

bool cli_run_terminal_take(struct cli_run_terminal *terminal) {
    sigset_t set;
    terminal->foreground = has_foreground();
    terminal->ignored = ignored_find();
    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof passed / sizeof passed[0]; i++) {
        (void)sigaddset(&set, passed[i]);
    }
    terminal->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    (void)sigaddset(&set, SIGTTOU); /* while the command has the terminal, it is not ours to take */
    (void)sigaddset(&set, SIGPIPE);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    return terminal->signals >= 0;
}

void cli_run_terminal_look(struct cli_run_terminal *terminal) {
    terminal->foreground = has_foreground();
}

bool cli_run_terminal_ends(const struct cli_run_terminal *terminal, int signal) {
    bool is_ignored = (terminal->ignored >> (signal - 1) & 1) != 0;
    return !is_ignored && signal != SIGWINCH && signal != SIGTSTP && signal != SIGCONT;
}

int cli_run_terminal_signal(const struct cli_run_terminal *terminal) {
    struct signalfd_siginfo info;
    return read(terminal->signals, &info, sizeof info) == (ssize_t)sizeof info ? (int)info.ssi_signo
                                                                               : 0;
}

void cli_run_terminal_give_back(struct cli_run_terminal *terminal) {
    if (terminal->foreground) {
        (void)tcsetpgrp(STDIN_FILENO, getpgrp());
    }
    terminal->foreground = false;
}

/* Whether a shell can continue us: an ancestor in our session that is in another group, as the shell of a
 * job is. Ancestors in our own group are scripts, which stop with us. */
static bool has_shell(void) {
    struct process_stat stat;
    pid_t group = getpgrp();
    pid_t session = getsid(0);
    pid_t pid = getppid();
    while (pid > 0 && process_stat_read(pid, &stat) == PROCESS_YES && stat.session == session) {
        if (stat.group != group) {
            return true;
        }
        pid = stat.parent;
    }
    return false;
}

/* `tenure` runs in the background and was put into the foreground: a shell that finds it running sends no
 * SIGCONT, so the sign is that the command wants the terminal. */
static bool wants_foreground(struct cli_run_terminal *terminal, int signal, pid_t group) {
    if ((signal != SIGTTIN && signal != SIGTTOU) || group <= 0 || !has_foreground()) {
        return false;
    }
    terminal->foreground = tcsetpgrp(STDIN_FILENO, group) == 0;
    return terminal->foreground;
}

/* The rest of our group stops as it would have if the terminal had sent the signal to us: a script that
 * waits for us, for one. */
bool cli_run_terminal_stop(struct cli_run_terminal *terminal, int signal, pid_t group) {
    if ((signal != SIGTSTP && signal != SIGTTIN && signal != SIGTTOU) || !isatty(STDIN_FILENO)) {
        return true;
    }
    if (wants_foreground(terminal, signal, group)) {
        return false;
    }
    if (!has_shell()) { /* the others would only stop it again */
        return signal != SIGTSTP;
    }
    cli_run_terminal_give_back(terminal);
    (void)kill(0, SIGTSTP); /* the one for us is gone with SIGCONT */
    (void)raise(SIGSTOP);   /* returns when we are continued; SIGCONT waits in the descriptor */
    return true;
}

/* Put into the background by the shell, `tenure` does not have the terminal to give, nor to take back at
 * the end. */
void cli_run_terminal_continue(struct cli_run_terminal *terminal, pid_t group) {
    if (group > 0 && has_foreground()) {
        terminal->foreground = tcsetpgrp(STDIN_FILENO, group) == 0;
    } else {
        terminal->foreground = terminal->foreground && tcgetpgrp(STDIN_FILENO) == group;
    }
}
