/* The subcommands of `tenure`, and what they share. Each returns the exit code. */
#ifndef TN_CLI_CLI_H
#define TN_CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "os/os.h"

/* Refusals have their own codes, in the table of results: see tn_result_exit. These are the rest. */
#define CLI_OK 0
#define CLI_FAILED 1      /* it is not as it should be, or something broke here */
#define CLI_USAGE 2       /* the command line cannot be understood; nothing was sent */
#define CLI_UNREACHABLE 3 /* no server, or it went away before a read was answered */
#define CLI_UNKNOWN 52    /* a write was sent and no answer came: it may have happened */

/* What may be said before and after any subcommand that talks to the server. */
struct cli_settings {
    const struct os *os;
    char host[256];
    char port[16];
    char socket[108]; /* the path of a Unix-domain socket, instead of both; empty: none */
    bool json;
    const char *opid; /* NULL: a write gets one made for it */
    uint64_t timeout_ms;
    uint64_t retries;
    uint64_t limit; /* of a list; 0: all */
};

#define CLI_HOST "127.0.0.1"
#define CLI_PORT "7411"
#define CLI_LIMIT 1000u /* of a list that is not told otherwise */

/* From the environment: TENURE_URL (tenure://host:port), TENURE_HOST, TENURE_PORT, and
 * TENURE_SOCKET, which goes before them. False: what is there makes no sense, and standard error says so. */
bool cli_settings_init(struct cli_settings *settings, const struct os *os);
/* Takes the option at argv[*at] and its value, if it is one of ours: 1, and *at is behind them. 0: it
 * is not. -1: it is, and makes no sense; standard error says so. -h and -p stand before the
 * subcommand only, where nothing else can begin with a dash. */
int cli_settings_take(struct cli_settings *settings, int argc, char **argv, int *at, bool leading);
/* A line of help for each option, for `tenure help` and the manual: name, value ("" if none), text.
 * NULL after the last. */
const char *const *cli_settings_row(unsigned row);

/* `tenure check DIR`: is everything in this directory as it should be? */
int cli_check(int argc, char **argv);

/* `tenure dump DIR [--json]`: every command in the log, a line each; `json`: that was said before. */
int cli_dump(bool json, int argc, char **argv);

/* Any command of the table: its words, then its arguments. */
int cli_call(const struct cli_settings *settings, int argc, char **argv);

/* `tenure help [SUBCOMMAND]`. */
int cli_help(int argc, char **argv);
void cli_help_short(FILE *out);
/* What to do with words that name nothing: guesses. */
int cli_unknown(int argc, char **argv);

/* `tenure events [--follow] ...`. */
int cli_events(const struct cli_settings *settings, int argc, char **argv);

/* `tenure sensor logs REF [--after POSITION] [--follow]`; argv has both words of it too. */
int cli_logs(const struct cli_settings *settings, int argc, char **argv);

/* `tenure import POOL [FILE] ...`: rows of CSV or TSV; with --values the command of the table. argv[-1]
 * is the subcommand's own word. */
int cli_import(const struct cli_settings *settings, int argc, char **argv);

/* `tenure export POOL [--format csv|tsv|sql] [--state STATE]`. */
int cli_export(const struct cli_settings *settings, int argc, char **argv);

/* `tenure history POOL VALUE`, or --holder HOLDER [--pool POOL]. */
int cli_history(const struct cli_settings *settings, int argc, char **argv);

/* `tenure top [--once]`: live view. */
int cli_top(const struct cli_settings *settings, int argc, char **argv);

/* `tenure opensynaptic import|export|policy ...`: the files of OpenSynaptic's id allocator. */
int cli_opensynaptic(const struct cli_settings *settings, int argc, char **argv);

/* `tenure rule|sensor export`, and `import [FILE] [--dry-run]`: lines of JSON; argv has both words. */
bool cli_is_demand(int argc, char **argv);
int cli_demand(const struct cli_settings *settings, int argc, char **argv);

/* `tenure completion bash|zsh`. */
int cli_completion(int argc, char **argv);

/* The subcommands that are not commands of the server: name, arguments, text. NULL after the last. */
const char *const *cli_local_row(unsigned row);
/* Whether a command of the table is one of them, which then does more than the table says. */
bool cli_is_local(const char *word);

#endif
