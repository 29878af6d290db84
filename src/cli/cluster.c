/* `tenure cluster`: the nodes of a cluster. Each subcommand is a command of the server under a name of its own;
 * NODE rather than CLUSTER there, which clients of Redis take for Redis Cluster. */
#include <string.h>

#include "cli/cli.h"

static const struct {
    const char *name;
    const char *sub; /* of NODE */
    int arguments;
    bool any_node; /* every node answers this subcommand */
} verbs[] = {{"status", "list", 0, true},
             {"step-down", "step-down", 0, false},
             {"close", "close", 0, false},
             {"forget", "forget", 1, false}};

int cli_cluster(const struct cli_settings *settings, int argc, char **argv) {
    struct cli_settings own = *settings;
    char word[] = "node";
    for (size_t i = 0; argc > 0 && i < sizeof verbs / sizeof verbs[0]; i++) {
        if (strcmp(argv[0], verbs[i].name) == 0 && argc == 1 + verbs[i].arguments) {
            char sub[16];
            char *words[3] = {word, sub, argc > 1 ? argv[1] : NULL};
            (void)snprintf(sub, sizeof sub, "%s", verbs[i].sub);
            own.any_node = verbs[i].any_node;
            return cli_call(&own, argc + 1, words);
        }
    }
    (void)fprintf(stderr, "usage: tenure cluster status | step-down | close | forget NODE\n");
    return CLI_USAGE;
}
