/* `tenure`: the command line. One table of subcommands; each lives in src/cli. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "tenure.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *arguments;
    const char *summary;
} subcommands[] = {
    {"check", cli_check, "DIR", "verify a data directory: log, snapshots, state"},
    {"dump", cli_dump, "DIR [--json]", "print every command in the log, a line each"},
};

#define SUBCOMMANDS (sizeof subcommands / sizeof subcommands[0])

static void usage(FILE *out) {
    (void)fprintf(out, "usage: tenure SUBCOMMAND ...\n\n");
    for (size_t i = 0; i < SUBCOMMANDS; i++) {
        (void)fprintf(out, "  %-6s %-14s %s\n", subcommands[i].name, subcommands[i].arguments,
                      subcommands[i].summary);
    }
    (void)fprintf(out, "  %-6s %-14s %s\n", "help", "", "this text");
    (void)fprintf(out, "\n  --version            print the version\n");
}

int main(int argc, char **argv) {
    if (argc < 2) {
        usage(stderr);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 ||
        strcmp(argv[1], "-h") == 0) {
        usage(stdout);
        return CLI_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        (void)printf("tenure %s\n", tenure_version());
        return CLI_OK;
    }
    for (size_t i = 0; i < SUBCOMMANDS; i++) {
        if (strcmp(argv[1], subcommands[i].name) == 0) {
            return subcommands[i].run(argc - 2, argv + 2);
        }
    }
    (void)fprintf(stderr, "tenure: there is no subcommand '%s'\n\n", argv[1]);
    usage(stderr);
    return CLI_USAGE;
}
