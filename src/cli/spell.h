/* The table of commands in the spelling of the command line: `ALLOC ports job/42 TTL 60` is
 * `tenure alloc ports job/42 --ttl 60`. */
#ifndef TN_CLI_SPELL_H
#define TN_CLI_SPELL_H

#include "cli/display.h"
#include "protocol/table.h"

/* Whether a command has a subcommand: those that only make sense to the one connection they are sent
 * on have none. */
bool cli_offers(const struct protocol_command *row);
/* The command whose subcommand these words begin with; NULL: there is none. */
const struct protocol_command *cli_command_find(int argc, char **argv);

/* "pool create". */
void cli_spell_name(struct cli_text *text, const struct protocol_command *row);
/* "tenure alloc POOL HOLDER [--count N | --values VALUE,...] ..." */
void cli_spell_usage(struct cli_text *text, const struct protocol_command *row,
                     const struct protocol_form *form);
/* The table's example. */
void cli_spell_example(struct cli_text *text, const struct protocol_command *row);

/* Every option of a command (both forms), "--ttl", with the name of its value ("" if it takes none). */
typedef void cli_option_fn(void *ctx, const char *name, const char *value);
void cli_spell_options(const struct protocol_command *row, cli_option_fn *each, void *ctx);
/* "max_lease" becomes "--max-lease". */
#define CLI_OPTION_MAX 48u
void cli_spell_option(const char *word, char out[CLI_OPTION_MAX]);
/* And whether `given`, such as "--max-lease", is that word, in any case. */
bool cli_option_is(const char *given, size_t len, const char *word);

/* The nearest of several words, if any is near. */
struct cli_guess {
    const char *word;
    unsigned distance;
    char best[64];
};

struct cli_guess cli_guess_for(const char *word);
void cli_guess_try(struct cli_guess *guess, const char *candidate);
bool cli_guess_found(const struct cli_guess *guess);

#endif
