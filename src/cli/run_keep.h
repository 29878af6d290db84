/* Keeps the lease of `tenure run` alive, in a thread of its own: requests to a server that hangs must not
 * keep signals and the command waiting.
 *
 * The thread renews at the time that run_times.h says, counted from the last renewal that was sent,
 * reconnects when the connection fails, and follows the lease's events, so that a revocation is
 * noticed at once. What it finds goes through a socket, one note each. */
#ifndef TN_CLI_RUN_KEEP_H
#define TN_CLI_RUN_KEEP_H

#include "cli/run_lease.h"
#include "cli/run_times.h"

enum cli_run_note_kind {
    CLI_RUN_NOTE_RENEWED, /* surely held until `until_ms` */
    CLI_RUN_NOTE_TOKEN, /* after RENEWED, if tokens are wanted: a fresh one, or none if that failed */
    CLI_RUN_NOTE_REVOKED, /* the authority has ended; no other holder gets the values before `until_ms`; 0:
                         before it is acknowledged */
    CLI_RUN_NOTE_LOST,    /* others may get the values now */
    CLI_RUN_NOTE_TROUBLE, /* a renewal failed, and is tried again */
};

struct cli_run_note {
    enum cli_run_note_kind kind;
    uint64_t until_ms;
    char words[320];
    char token[CLI_RUN_TOKEN_MAX]; /* with TOKEN; empty: none */
};

/* `lease` is copied; its first deadline stands. The client is taken over. The thread runs until the
 * process ends. *ret_notes is where notes are read from. False: there is no thread. */
bool cli_run_keep_start(const struct cli_run_lease *lease, const struct cli_run_times *times,
                        const struct cli_client *client, bool wants_tokens, int *ret_notes);
/* False: none is there. */
bool cli_run_keep_next(int notes, struct cli_run_note *ret_note);

#endif
