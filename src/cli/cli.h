/* The subcommands of `tenure`. Each gets the arguments after its name and returns the exit code:
 * 0 all is well, 1 it is not, 2 the command line cannot be understood. */
#ifndef TN_CLI_CLI_H
#define TN_CLI_CLI_H

#define CLI_OK 0
#define CLI_FAILED 1
#define CLI_USAGE 2

/* `tenure check DIR`: is everything in this directory as it should be? */
int cli_check(int argc, char **argv);

/* `tenure dump DIR [--json]`: every command in the log, a line each. */
int cli_dump(int argc, char **argv);

#endif
