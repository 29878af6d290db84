/* Options of the subcommands that are not commands of the server, from a table. */
#ifndef TN_CLI_OPTIONS_H
#define TN_CLI_OPTIONS_H

#include <stdbool.h>

/* Either takes a value or is a flag. */
struct cli_option {
    const char *name; /* "--format" */
    const char **value;
    bool *flag;
};

struct cli_options {
    const char *subcommand; /* "import" */
    const char *usage;      /* what stands after it */
    const struct cli_option *rows;
    unsigned count;
    const char **places; /* arguments that are no options, in order; NULL where there is none */
    unsigned place_count;
};

/* False: standard error says what is wrong. */
bool cli_options_parse(const struct cli_options *options, int argc, char **argv);
bool cli_options_wrong(const struct cli_options *options, const char *what, const char *which);

#endif
