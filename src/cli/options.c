/* Options: --name value, --name=value, --flag; after -- everything is an argument. */
#include "cli/options.h"

#include <stdio.h>
#include <string.h>

#include "cli/spell.h"

bool cli_options_wrong(const struct cli_options *options, const char *what, const char *which) {
    (void)fprintf(stderr, "tenure %s: %s%s\nusage: tenure %s %s\n", options->subcommand, what,
                  which, options->subcommand, options->usage);
    return false;
}

static bool unknown(const struct cli_options *options, const char *argument) {
    struct cli_guess guess = cli_guess_for(argument);
    for (unsigned i = 0; i < options->count; i++) {
        cli_guess_try(&guess, options->rows[i].name);
    }
    return cli_options_wrong(options, cli_guess_found(&guess) ? "did you mean " : "unknown option ",
                             cli_guess_found(&guess) ? guess.best : argument);
}

/* The option at argv[*inout_at] and its value. */
static bool option_take(const struct cli_options *options, int argc, char **argv, int *inout_at) {
    const char *argument = argv[(*inout_at)++];
    size_t len = strcspn(argument, "=");
    const char *value = argument[len] == '=' ? argument + len + 1 : NULL;
    unsigned i = 0;
    while (i < options->count && !cli_option_is(argument, len, options->rows[i].name + 2)) {
        i++;
    }
    if (i == options->count) {
        return unknown(options, argument);
    }
    const struct cli_option *row = &options->rows[i];
    if (row->flag != NULL) {
        *row->flag = true;
        return value == NULL || cli_options_wrong(options, "unexpected value: ", row->name);
    }
    value = value == NULL && *inout_at < argc ? argv[(*inout_at)++] : value;
    *row->value = value;
    return value != NULL || cli_options_wrong(options, "a value is missing after ", row->name);
}

bool cli_options_parse(const struct cli_options *options, int argc, char **argv) {
    unsigned place = 0;
    bool plain = false;
    for (int at = 0; at < argc;) {
        const char *argument = argv[at];
        if (!plain && strcmp(argument, "--") == 0) {
            plain = true;
            at++;
        } else if (!plain && strncmp(argument, "--", 2) == 0) {
            if (!option_take(options, argc, argv, &at)) {
                return false;
            }
        } else if (place == options->place_count) {
            return cli_options_wrong(options, "unexpected argument ", argument);
        } else {
            options->places[place++] = argument;
            at++;
        }
    }
    return true;
}
