/* Signals and the terminal of a command under `tenure run`.
 *
 * The command has a process group of its own. If `tenure` is in the foreground of the terminal on its
 * standard input, the command's group becomes the foreground, so Ctrl-C and Ctrl-Z reach the command and
 * not `tenure`; when the command stops, `tenure` takes the terminal back and stops too, so that the shell
 * sees its job stop. Signals that `tenure` gets are passed on. */
#ifndef TN_CLI_RUN_TERMINAL_H
#define TN_CLI_RUN_TERMINAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cli_run_terminal {
    int signals; /* a descriptor to poll */
    bool foreground;
    uint64_t ignored; /* signals that were ignored from the start: bit N - 1 for signal N */
};

/* Blocks the signals that are passed on; they come from the descriptor. False: there is none. */
bool cli_run_terminal_take(struct cli_run_terminal *terminal);
/* Whether the command is to get the terminal: the shell may have changed it since. */
void cli_run_terminal_look(struct cli_run_terminal *terminal);
/* Whether this signal asks `tenure` to end while there is no command to pass it on to. */
bool cli_run_terminal_ends(const struct cli_run_terminal *terminal, int signal);
/* The next signal to pass on; 0: none is there. */
int cli_run_terminal_signal(const struct cli_run_terminal *terminal);
/* The command, whose process group is `group` (0: there is none yet), was stopped by `signal`: stops this
 * process too, if a shell watches it. False: no shell will continue the command, or it has got the
 * terminal that it wanted, so it has to be continued now. */
bool cli_run_terminal_stop(struct cli_run_terminal *terminal, int signal, pid_t group);
/* This process was continued: the command gets the terminal if `tenure` has it. */
void cli_run_terminal_continue(struct cli_run_terminal *terminal, pid_t group);
/* The command has ended. */
void cli_run_terminal_give_back(struct cli_run_terminal *terminal);

#endif
