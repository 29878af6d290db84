/* Makes docs/commands.md from the table of commands.
 *
 *   gen-commands             prints it
 *   gen-commands FILE        exits 1 if the file is not what would be printed */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/spell.h"
#include "example.h"
#include "generate.h"
#include "protocol/table.h"

static void print_usage(FILE *out, const struct protocol_command *row,
                        const struct protocol_form *form) {
    char text[1024];
    if (!protocol_usage_write(row, form, text, sizeof text)) {
        (void)fprintf(stderr, "gen-commands: the usage of %s is too long\n", row->word);
        exit(1);
    }
    (void)fprintf(out, "    %s\n", text);
}

/* As each kind of client would send it. The words are quoted where a shell would see something. */
static void print_example(FILE *out, const struct protocol_command *row) {
    struct cli_text text = {.at = NULL};
    char words[512];
    char *rest = NULL;
    (void)snprintf(words, sizeof words, "%s", row->example);
    for (char *word = strtok_r(words, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        cli_text_put(&text, " ");
        cli_text_shell(&text, word);
    }
    (void)fprintf(out, "\nExample:\n\n    redis-cli %s%s\n",
                  protocol_command_has(row, PROTOCOL_PROGRAMS) ? "-s data/tenure.sock" : "-p 7411",
                  text.at);
    if (row->method != NULL) {
        (void)fputs("    ", out);
        example_curl(out, row);
        (void)fputs("\n", out);
    }
    cli_text_free(&text);
    if (cli_offers(row)) {
        cli_text_put(&text, "");
        cli_spell_example(&text, row);
        (void)fprintf(out, "    %s\n", text.at);
        cli_text_free(&text);
    }
    (void)fputs("\n", out);
}

static void print_command(FILE *out, const struct protocol_command *row) {
    static const char *const kinds[] = {"connection", "read", "write", "job"};
    char name[PROTOCOL_NAME_MAX];
    protocol_command_name(row, name);
    (void)fprintf(out, "### %s\n\n%s.\n\n", name, row->summary);
    print_usage(out, row, &row->form);
    if (row->other.count > 0) {
        print_usage(out, row, &row->other);
    }
    if (row->method != NULL) {
        (void)fprintf(out, "    %s %s\n", row->method, row->path);
    }
    if (row->also_method != NULL) {
        (void)fprintf(out, "    %s %s\n", row->also_method, row->also_path);
    }
    print_example(out, row);
    (void)fprintf(out, "%s, ", kinds[row->kind]);
    if (row->role != PROTOCOL_NOBODY) {
        (void)fprintf(out, "role %s, ", protocol_role_name((enum protocol_role)row->role));
    }
    (void)fprintf(out, "arity %d, since %s\n\n", protocol_command_arity(row), row->since);
}

static void print_all(FILE *out) {
    (void)fputs(
        "# Commands\n\n"
        "Made from the table in `src/protocol/table.c` by `build/gen-commands`; do not edit. "
        "How requests and\nreplies look, and what may be concluded from them, is in "
        "[protocol.md](protocol.md); what commands mean is in\n"
        "[semantics.md](semantics.md).\n\n"
        "The same commands are served over HTTP, under the paths that stand below the usage; how "
        "arguments become\nfields of a JSON body or of the query is in "
        "[protocol.md](protocol.md#http).\n\n"
        "Words in capitals are written as they are, in any case; `[ ]` may be left out, "
        "`|` separates choices, `...`\nmay be repeated. Every write takes `OPID id`, every "
        "read `FENCE lsn`.\n\n",
        out);
    for (int connection = 0; connection < 2; connection++) {
        (void)fputs(connection == 0 ? "## Pools and leases\n\n" : "## The connection\n\n", out);
        for (unsigned i = 0; i < PROTOCOL_COMMANDS; i++) {
            if ((protocol_table[i].kind == PROTOCOL_CONNECTION) == (connection == 1)) {
                print_command(out, &protocol_table[i]);
            }
        }
    }
}

int main(int argc, char **argv) {
    return generate(print_all, argc > 1 ? argv[1] : NULL, GENERATE_WHOLE,
                    "build/gen-commands > docs/commands.md");
}
