/* `tenure help`: lists the subcommands or describes one of them, from the command table. */
#include <limits.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/columns.h"
#include "cli/run_options.h"
#include "cli/spell.h"
#include "kernel/result.h"

static const char *const locals[][3] = {
    {"backup", "DIR [--keep N] [--no-keys]",
     "back up the running server into DIR/backup-GENERATION-POSITION: state, events and token keys; copies "
     "only what is new since the last backup there, verifies it, keeps the newest N (1)"},
    {"check", "DIR", "verify the log, snapshots and state of a data directory, offline"},
    {"cluster", "status | step-down | close | forget NODE",
     "show the nodes of a cluster; hand the log over to another node; end the cluster, so that its "
     "nodes can be started alone; remove a node that is gone"},
    {"complete", CLI_COMPLETE_USAGE,
     "print at most 200 names from the server that begin with PREFIX, one per line, for completion "
     "scripts; print nothing if there is no answer within MS milliseconds (500)"},
    {"completion", "bash|zsh",
     "print a shell script that completes subcommands, options and names"},
    {"doctor", "[--strict] [--config FILE] [--data DIR] [FLAG OF tenured...]",
     "examine the configuration, data directory, clock, disk, limits, ports and certificates of this "
     "machine, without changing anything, and say what to do; without --config and --data, those of "
     "the unit tenured.service; fails if there is a problem, with --strict also a warning"},
    {"dump", "DIR [--json]", "print every command in the log of a data directory, one per line"},
    {"events",
     "[--after ID | --last N] [--count N] [--follow] [--pool POOL] [--holder HOLDER] [--fence LSN]",
     "print retained events, oldest first; with --follow, print new events"},
    {"export", "POOL [--format csv|tsv|sql] [--state STATE]",
     "print the leases of a pool at one log position, as a table that can be imported"},
    {"help", "[SUBCOMMAND]", "print this list, or the help of one subcommand"},
    {"history", "POOL VALUE | --holder HOLDER [--pool POOL]",
     "print the holders of a value, or the values of a holder: when each lease began, and when "
     "and how it ended"},
    {"import",
     "POOL [FILE] [--format csv|tsv] [--header | --no-header] [--map COLUMN=NAME,...] "
     "[--holder-type TYPE] [--scope-column NAME] [--dry-run] [--batch N] [--report FILE]",
     "import allocations from CSV or TSV files, as databases write them; with --values, one lease"},
    {"opensynaptic",
     "import FILE --pool POOL [--dry-run] [--derive | --keep-keys] [--report FILE] | export "
     "[FILE] --pool POOL | "
     "policy FILE --pool POOL [--range LO-HI] [--dry-run]",
     "import OpenSynaptic's id_allocation.json into a pool, export it, or apply Config.json as a "
     "pool's policy"},
    {"restore", "BACKUP DIR [--sensors on|off] [--no-keys]",
     "make a data directory of a backup, offline; the server that starts there begins a new "
     "generation and leaves the sensors off until it is started with --sensors on"},
    {"rule export", "", "print all rules as lines of JSON"},
    {"rule import", "[FILE] [--dry-run]", "set rules from lines of JSON; can be repeated"},
    {"run", CLI_RUN_USAGE,
     "lease values and run a command with them; the command is ended before another could hold them"},
    {"sensor export", "", "print all sensors with their descriptions as lines of JSON"},
    {"sensor import", "[FILE] [--dry-run]", "set sensors from lines of JSON; can be repeated"},
    {"top", "[--once]",
     "show pools, the fullest first, with rates, sensors and the newest events, live; enter opens a "
     "pool"},
};

const char *const *cli_local_row(unsigned row) {
    return row < sizeof locals / sizeof locals[0] ? locals[row] : NULL;
}

bool cli_is_local(const char *word) {
    for (unsigned i = 0; i < sizeof locals / sizeof locals[0]; i++) {
        if (strcasecmp(locals[i][0], word) == 0) {
            return true;
        }
    }
    return false;
}

/* Ends a line that already has `indent` columns, and continues below if necessary. */
static void put_wrapped(FILE *out, size_t indent, const char *words) {
    struct cli_text text = {.at = NULL};
    cli_text_wrap(&text, words, indent, cli_screen_of(out).width);
    cli_text_put(&text, "\n");
    (void)fputs(text.failed ? "" : text.at, out);
    cli_text_free(&text);
}

/* Prints a name, and its explanation in a column of its own. */
static void put_item(FILE *out, int name_width, const char *name, const char *words) {
    (void)fprintf(out, "  %-*s ", name_width, name);
    put_wrapped(out, (size_t)name_width + 3, words);
}

/* ---- The list ---- */

void cli_help_short(FILE *out) {
    (void)fprintf(out, "usage: tenure [OPTION...] SUBCOMMAND [ARGUMENT...]\n\n");
    for (unsigned i = 0; cli_settings_row(i) != NULL; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "%s %s", cli_settings_row(i)[0], cli_settings_row(i)[1]);
        put_item(out, 20, name, cli_settings_row(i)[2]);
    }
    (void)fprintf(out, "  --version, --help\n");
}

static void list_command(FILE *out, const struct protocol_command *row) {
    struct cli_text name = {.at = NULL};
    cli_spell_name(&name, row);
    put_item(out, 16, name.failed ? "" : name.at, row->summary);
    cli_text_free(&name);
}

/* The lowest and the highest exit code of results with an unknown, or with a known, outcome. */
static void exit_range(bool unknown, int *ret_low, int *ret_high) {
    *ret_low = unknown ? CLI_UNKNOWN : INT_MAX;
    *ret_high = unknown ? CLI_UNKNOWN : 0;
    for (unsigned i = 0; i < TN_R_COUNT; i++) {
        enum tn_result code = (enum tn_result)i;
        int number = tn_result_exit(code);
        if (number != 0 && (tn_result_outcome(code) == TN_UNKNOWN) == unknown) {
            *ret_low = number < *ret_low ? number : *ret_low;
            *ret_high = number > *ret_high ? number : *ret_high;
        }
    }
}

static void list_all(FILE *out) {
    int low;
    int high;
    int unknown_low;
    int unknown_high;
    exit_range(false, &low, &high);
    exit_range(true, &unknown_low, &unknown_high);
    cli_help_short(out);
    (void)fprintf(out, "\nCommands of the server:\n\n");
    for (unsigned i = 0; i < PROTOCOL_COMMANDS; i++) {
        if (cli_offers(&protocol_table[i]) && !cli_is_local(protocol_table[i].word)) {
            list_command(out, &protocol_table[i]);
        }
    }
    (void)fprintf(out, "\nAnd:\n\n");
    for (unsigned i = 0; cli_local_row(i) != NULL; i++) {
        put_item(out, 16, cli_local_row(i)[0], cli_local_row(i)[2]);
    }
    (void)fprintf(out,
                  "\n`tenure help SUBCOMMAND` shows details. Exit codes: 0 success; 1 failure;\n"
                  "2 usage error; 3 no server; %d to %d refused, %d to %d outcome unknown.\n"
                  "`tenure help exit-codes` lists them.\n",
                  low, high, unknown_low, unknown_high);
}

static void list_exit_codes(FILE *out) {
    (void)fprintf(out, "%5d  %s\n", CLI_OK, "success, or nothing to do");
    (void)fprintf(out, "%5d  %s\n", CLI_FAILED,
                  "a local failure, or an error without a result name");
    (void)fprintf(out, "%5d  %s\n", CLI_USAGE, "usage error: nothing was sent");
    (void)fprintf(out, "%5d  %s\n", CLI_UNREACHABLE,
                  "no server, or the connection was lost before the answer to a read");
    for (unsigned i = 0; i < TN_R_COUNT; i++) {
        enum tn_result code = (enum tn_result)i;
        if (tn_result_exit(code) != 0) {
            (void)fprintf(out, "%5d  %-14s ", tn_result_exit(code), tn_result_name(code));
            put_wrapped(out, 22, tn_result_text(code));
        }
    }
    (void)fprintf(out, "%5d  %s\n", CLI_UNKNOWN,
                  "a write was sent and no answer arrived: outcome unknown");
    for (unsigned i = 0; cli_run_code_row(i) != NULL; i++) {
        (void)fprintf(out, "%5s  ", cli_run_code_row(i)[0]);
        put_wrapped(out, 7, cli_run_code_row(i)[1]);
    }
    (void)fprintf(out, "tenure run exits with the code of its command otherwise.\n");
}

/* ---- One ---- */

static void print_option(void *ctx, const char *name, const char *value) {
    (void)fprintf(ctx, "  %s%s%s\n", name, value[0] != '\0' ? " " : "", value);
}

static void put_usage(FILE *out, const char *before, const struct protocol_command *row,
                      const struct protocol_form *form) {
    struct cli_text text = {.at = NULL};
    cli_spell_usage(&text, row, form);
    (void)fputs(before, out);
    put_wrapped(out, strlen(before), text.failed ? "" : text.at);
    cli_text_free(&text);
}

static void about_command(FILE *out, const struct protocol_command *row) {
    struct cli_text text = {.at = NULL};
    put_usage(out, "usage: ", row, &row->form);
    if (row->other.count > 0) {
        put_usage(out, "       ", row, &row->other);
    }
    cli_text_printf(&text, "%s.", row->summary);
    (void)fprintf(out, "\n");
    put_wrapped(out, 0, text.failed ? "" : text.at);
    text.len = 0;
    cli_text_put(&text, "\nExample: ");
    cli_spell_example(&text, row);
    cli_text_put(&text, "\n");
    (void)fputs(text.failed ? "" : text.at, out);
    cli_text_free(&text);
    if (cli_takes_secret(row)) {
        (void)fputs("\nThe secret need not be in the command line, where others can see it: "
                    "--secret-file FILE\nreads it from a file (- is standard input), "
                    "--new-secret-file FILE writes a random one to a\nnew file, --ask-secret asks "
                    "for it. Without these and --secret, user add asks for it.\n",
                    out);
    }
    if (row->form.count > 1 && row->form.arguments[1].bind == PROTOCOL_B_OPTIONS) {
        (void)fprintf(out, "\nOptions:\n");
        cli_spell_options(row, print_option, out);
    }
    (void)fprintf(out, "\n`%s` is the same request.\nExit codes: tenure help exit-codes\n",
                  row->example);
}

static bool about_local(FILE *out, const char *name) {
    for (unsigned i = 0; cli_local_row(i) != NULL; i++) {
        const char *const *row = cli_local_row(i);
        if (strcmp(row[0], name) == 0) {
            struct cli_text text = {.at = NULL};
            cli_text_printf(&text, "tenure %s %s", row[0], row[1]);
            (void)fputs("usage: ", out);
            put_wrapped(out, strlen("usage: "), text.failed ? "" : text.at);
            text.len = 0;
            cli_text_printf(&text, "%s.\n", row[2]);
            (void)fputs("\n", out);
            put_wrapped(out, 0, text.failed ? "" : text.at);
            cli_text_free(&text);
            return true;
        }
    }
    return false;
}

/* Prints the command that the words name, or a list of those with that first word. */
static unsigned about_commands(FILE *out, int argc, char **argv) {
    unsigned found = 0;
    for (unsigned i = 0; i < PROTOCOL_COMMANDS; i++) {
        const struct protocol_command *row = &protocol_table[i];
        struct tn_bytes sub =
            argc > 1 ? tn_bytes_of(argv[1], strlen(argv[1])) : tn_bytes_of(NULL, 0);
        if (cli_offers(row) &&
            protocol_word_is(tn_bytes_of(argv[0], strlen(argv[0])), row->word, row->word_len)) {
            if (row->sub_len > 0 && argc < 2) {
                list_command(out, row);
                found++;
            } else if (row->sub_len == 0 || protocol_word_is(sub, row->sub, row->sub_len)) {
                about_command(out, row);
                found++;
            }
        }
    }
    return found;
}

int cli_help(int argc, char **argv) {
    if (argc == 0) {
        list_all(stdout);
        return CLI_OK;
    }
    if (strcmp(argv[0], "exit-codes") == 0) {
        list_exit_codes(stdout);
        return CLI_OK;
    }
    char both[64]; /* two words such as rule import */
    (void)snprintf(both, sizeof both, "%s %s", argv[0], argc > 1 ? argv[1] : "");
    bool local = about_local(stdout, argv[0]) || about_local(stdout, both);
    return about_commands(stdout, argc, argv) > 0 || local ? CLI_OK : cli_unknown(argc, argv);
}

/* ---- Guesses ---- */

static void guess_first(struct cli_guess *guess) {
    for (unsigned i = 0; i < PROTOCOL_COMMANDS; i++) {
        if (cli_offers(&protocol_table[i])) {
            struct cli_text name = {.at = NULL};
            cli_spell_name(&name, &protocol_table[i]);
            if (!name.failed) {
                name.at[protocol_table[i].word_len] = '\0';
                cli_guess_try(guess, name.at);
            }
            cli_text_free(&name);
        }
    }
    for (unsigned i = 0; cli_local_row(i) != NULL; i++) {
        cli_guess_try(guess, cli_local_row(i)[0]);
    }
}

/* Lists the second words for a first one. Returns their number. */
static unsigned list_seconds(struct cli_text *text, const char *word, struct cli_guess *guess) {
    unsigned count = 0;
    for (unsigned i = 0; i < PROTOCOL_COMMANDS; i++) {
        const struct protocol_command *row = &protocol_table[i];
        if (cli_offers(row) && row->sub_len > 0 &&
            protocol_word_is(tn_bytes_of(word, strlen(word)), row->word, row->word_len)) {
            struct cli_text name = {.at = NULL};
            cli_spell_name(&name, row);
            if (!name.failed) {
                const char *second = name.at + row->word_len + 1;
                cli_text_printf(text, "%s%s", count++ > 0 ? ", " : "", second);
                cli_guess_try(guess, second);
            }
            cli_text_free(&name);
        }
    }
    return count;
}

int cli_unknown(int argc, char **argv) {
    struct cli_guess first = cli_guess_for(argv[0]);
    struct cli_guess second = cli_guess_for(argc > 1 ? argv[1] : "");
    struct cli_text seconds = {.at = NULL};
    unsigned count = list_seconds(&seconds, argv[0], &second);
    if (count > 0 && !seconds.failed) {
        if (argc > 1) {
            (void)fprintf(stderr, "tenure: '%s' has no subcommand '%s'", argv[0], argv[1]);
            if (cli_guess_found(&second)) {
                (void)fprintf(stderr, "; did you mean '%s'?", second.best);
            }
        } else {
            (void)fprintf(stderr, "tenure: '%s' needs a subcommand", argv[0]);
        }
        (void)fprintf(stderr, "\nthere are: %s\n", seconds.at);
    } else {
        guess_first(&first);
        (void)fprintf(stderr, "tenure: unknown subcommand '%s'", argv[0]);
        if (cli_guess_found(&first)) {
            (void)fprintf(stderr, "; did you mean '%s'?", first.best);
        }
        (void)fprintf(stderr, "\n`tenure help` lists them\n");
    }
    cli_text_free(&seconds);
    return CLI_USAGE;
}
