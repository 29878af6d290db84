/* `--watch`: rounds of a command, and how they are shown. */
#ifndef TN_CLI_WATCH_ROUNDS_H
#define TN_CLI_WATCH_ROUNDS_H

#include "cli/watch_changes.h"

#define CLI_WATCH_MS 2000u
#define CLI_WATCH_MS_MIN 200u
#define CLI_WATCH_MS_MAX 86400000u

/* One execution of the command. */
struct cli_round {
    int code;              /* the exit code it would have had */
    struct cli_text out;   /* standard output */
    struct cli_text error; /* standard error */
};

struct cli_watch {
    const struct cli_settings *settings;
    int argc; /* the command line, for the head */
    char **argv;
    void (*round)(void *ctx, struct cli_round *round);
    void *ctx;
    struct cli_changes changes;
    struct cli_text shown; /* by the last round that succeeded */
    struct cli_text news;  /* of the last round */
    char told[256];        /* the last reason of a failure */
};

/* Until the user ends it; the exit code. */
int cli_watch_run(struct cli_watch *watch);

#endif
