/* The subcommands of `tenure` and shared declarations. Each subcommand returns the exit code. */
#ifndef TN_CLI_CLI_H
#define TN_CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/bytes.h"
#include "cli/tls_client.h"
#include "os/os.h"

/* Refusals have their own codes in the result table: see tn_result_exit. These are the others. */
#define CLI_OK 0
#define CLI_FAILED 1      /* a check failed, or a local failure */
#define CLI_USAGE 2       /* usage error; nothing was sent */
#define CLI_UNREACHABLE 3 /* no server, or the connection was lost before the answer to a read */
#define CLI_UNKNOWN 52    /* a write was sent and no answer arrived: it may have happened */

#define CLI_ADDRESSES_MAX 16u

struct cli_address {
    char host[256];
    char port[16];
};

/* The options of every subcommand that connects to the server. */
struct cli_settings {
    const struct os *os;
    char host[256];
    char port[16];
    struct cli_address
        nodes[CLI_ADDRESSES_MAX]; /* of a cluster, by --url; the first is host and port */
    uint32_t node_count;          /* 0: there is one server */
    bool any_node;                /* the subcommand does not need the owner of the log */
    /* The path of a Unix-domain socket, used instead of host and port; empty: none. */
    char socket[108];
    struct cli_tls_settings tls;
    bool json;
    const char *opid; /* NULL: generated for each write */
    uint64_t timeout_ms;
    uint64_t retries;
    uint64_t limit;    /* of a list; 0: all */
    uint64_t watch_ms; /* the interval of --watch; 0: no repetition */
    /* The file that has the secret in the request; NULL: the secret is an argument. */
    const char *secret_file;
    bool no_login; /* does not send the secret of the environment */
    /* Whether `tenured` reads the variable; NULL: unknown. */
    bool (*is_server_variable)(const char *name);
};

#define CLI_HOST "127.0.0.1"
#define CLI_PORT "7411"
#define CLI_LIMIT 1000u /* the default limit of a list */

/* From the environment: TENURE_URL (tenure://host:port, or tenure://a:7411,b:7411 for the nodes of a
 * cluster), TENURE_HOST, TENURE_PORT, and TENURE_SOCKET, which overrides them. False: a variable is
 * invalid; standard error has the reason. */
bool cli_settings_init(struct cli_settings *settings, const struct os *os);
/* Whether a client of Tenure reads this environment variable. */
bool cli_settings_variable(const char *name);
/* Another server: HOST:PORT. False: it is not one. */
bool cli_settings_address(struct cli_settings *settings, struct tn_bytes address);
/* Parses the option at argv[*at] with its value: 1, and *at is after them. 0: not one of these
 * options.
 * -1: invalid; standard error has the reason. -h and -p are accepted only before the subcommand. */
int cli_settings_take(struct cli_settings *settings, int argc, char **argv, int *at, bool leading);
/* A line of help for each option, for `tenure help` and the manual: name, value ("" if none), text.
 * NULL after the last. */
const char *const *cli_settings_row(unsigned row);

/* `tenure check DIR`: verifies a data directory. */
int cli_check(int argc, char **argv);
/* The same for a directory that is being made: whether the restore is complete is not asked. */
int cli_check_content(const char *dir);

/* `tenure backup DIR [--keep N] [--no-keys]`: backs a running server up into a local directory. */
int cli_backup(const struct cli_settings *settings, int argc, char **argv);

/* `tenure restore BACKUP DIR [--sensors on|off] [--no-keys]`: makes a data directory of a backup. */
int cli_restore(int argc, char **argv);

/* `tenure dump DIR [--json]`: prints every command in the log, one per line; `json`: --json came
 * before the subcommand. */
int cli_dump(bool json, int argc, char **argv);

/* Any command of the command table: its words, then its arguments. */
int cli_call(const struct cli_settings *settings, int argc, char **argv);

/* `tenure help [SUBCOMMAND]`. */
int cli_help(int argc, char **argv);
void cli_help_short(FILE *out);
/* Reports an unknown subcommand, with a suggestion. */
int cli_unknown(int argc, char **argv);

/* `tenure events [--follow] ...`. */
int cli_events(const struct cli_settings *settings, int argc, char **argv);

/* `tenure sensor logs REF [--after POSITION] [--follow]`; argv includes both words. */
int cli_logs(const struct cli_settings *settings, int argc, char **argv);

/* `tenure import POOL [FILE] ...`: rows of CSV or TSV; with --values, the command IMPORT. argv[-1]
 * is the subcommand. */
int cli_import(const struct cli_settings *settings, int argc, char **argv);

/* `tenure export POOL [--format csv|tsv|sql] [--state STATE]`. */
int cli_export(const struct cli_settings *settings, int argc, char **argv);

/* `tenure history POOL VALUE`, or --holder HOLDER [--pool POOL]. */
int cli_history(const struct cli_settings *settings, int argc, char **argv);

/* `tenure top [--once]`: live view. */
int cli_top(const struct cli_settings *settings, int argc, char **argv);

/* `tenure opensynaptic import|export|policy ...`: files of OpenSynaptic's id allocator. */
int cli_opensynaptic(const struct cli_settings *settings, int argc, char **argv);

/* `tenure rule|sensor export`, and `import [FILE] [--dry-run]`: lines of JSON; argv has both words.
 * */
bool cli_is_demand(int argc, char **argv);
int cli_demand(const struct cli_settings *settings, int argc, char **argv);

/* `tenure user add|set NAME ...`, with --secret-file FILE, --new-secret-file FILE, or --ask-secret: a
 * prompt; argv has both words. */
bool cli_is_user(int argc, char **argv);
int cli_user(const struct cli_settings *settings, int argc, char **argv);
struct protocol_command;
/* Whether the command has a secret among its arguments. */
bool cli_takes_secret(const struct protocol_command *row);

/* `tenure run --from POOL[:COUNT] ... -- COMMAND ...`: a command that runs only while its lease is
 * held; argv has the --. */
int cli_run(const struct cli_settings *settings, int argc, char **argv);

/* `tenure cluster status|step-down|close|forget NAME`. */
int cli_cluster(const struct cli_settings *settings, int argc, char **argv);

/* `tenure completion bash|zsh`. */
int cli_completion(int argc, char **argv);

/* `tenure complete KIND [PREFIX]`: names from the server, for those scripts. */
#define CLI_COMPLETE_USAGE \
    "[--deadline MS] pool|holder|lease|value|free-value|lease-or-value|rule|sensor|user [PREFIX]"
int cli_complete(const struct cli_settings *settings, int argc, char **argv);

/* The subcommands that are not commands of the server: name, arguments, text. NULL after the last
 * one. */
const char *const *cli_local_row(unsigned row);
/* Whether a command of the table is also a local subcommand, which does more than the command. */
bool cli_is_local(const char *word);

#endif
