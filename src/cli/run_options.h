/* The options of `tenure run`. */
#ifndef TN_CLI_RUN_OPTIONS_H
#define TN_CLI_RUN_OPTIONS_H

#include "kernel/types.h"

#define CLI_RUN_CLAIMS_MAX 64u
#define CLI_RUN_TTL_S 30u /* the default */
#define CLI_RUN_TTL_MIN_S 2u
#define CLI_RUN_WAIT_MAX_S 86400u

/* Exit codes of `tenure run` that are not the command's own. */
#define CLI_RUN_EXIT_NOT_ACQUIRED 121 /* no lease: the command did not run */
#define CLI_RUN_EXIT_LOST 122         /* the lease was revoked or lost; the command was ended */
#define CLI_RUN_EXIT_UNPROVEN 123  /* nothing proves that all processes of the command are dead */
#define CLI_RUN_EXIT_FAILED 125    /* tenure could not do its part: the command did not run */
#define CLI_RUN_EXIT_CANNOT 126    /* the command cannot be executed */
#define CLI_RUN_EXIT_NOT_FOUND 127 /* the command was not found */
#define CLI_RUN_EXIT_SIGNAL 128    /* plus the signal that ended the command */

/* The same for people: code, text. NULL after the last. */
const char *const *cli_run_code_row(unsigned row);

/* What one --from asks for: a number of values of a pool, or one value by its name. */
struct cli_run_claim {
    char pool[KERNEL_POOL_MAX + 1];
    char count[24];    /* digits */
    const char *value; /* NULL: any */
};

enum cli_run_containment {
    CLI_RUN_CONTAIN_AUTO,
    CLI_RUN_CONTAIN_CGROUP,
    CLI_RUN_CONTAIN_PIDNS,
    CLI_RUN_CONTAIN_NONE
};

struct cli_run_options {
    struct cli_run_claim claims[CLI_RUN_CLAIMS_MAX];
    unsigned claim_count;
    const char *holder;        /* NULL: made up for this run */
    const char *meta;          /* NULL: none */
    const char *renew_command; /* NULL: none */
    const char *guardian;      /* NULL: found beside this program */
    enum cli_run_containment containment;
    bool has_ttl, has_kill_after;
    uint64_t ttl_s;
    uint64_t wait_s; /* in line for the values; 0: not at all */
    uint64_t kill_after_ms;
    char **command; /* ends with NULL */
};

#define CLI_RUN_USAGE                                                                   \
    "--from POOL[:COUNT] [--from POOL/VALUE] ... [--wait DURATION] [--holder HOLDER] "  \
    "[--ttl DURATION] [--kill-after DURATION] [--meta JSON] [--renew-command COMMAND] " \
    "[--containment auto|cgroup|pidns|none] -- COMMAND [ARGUMENT...]"

/* False: standard error has the reason. */
bool cli_run_options_parse(struct cli_run_options *options, int argc, char **argv);

#endif
