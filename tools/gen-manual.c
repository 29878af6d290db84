/* Makes the pages of the manual: tenure(1) from the table of commands and the table of results,
 * tenured(8) from the table of settings.
 *
 *   gen-manual tenure.1|tenured.8          prints it
 *   gen-manual tenure.1|tenured.8 FILE     exits 1 if the file is not what would be printed */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/spell.h"
#include "config/config.h"
#include "kernel/result.h"
#include "stale.h"

/* ---- troff ---- */

/* Text for troff: a hyphen that can be copied, a backslash that is one, no line that begins with a
 * request. */
static void put(FILE *out, const char *text) {
    bool begins = true;
    for (; *text != '\0'; text++) {
        if (begins && (*text == '.' || *text == '\'')) {
            (void)fputs("\\&", out);
        }
        begins = *text == '\n';
        if (*text == '\\') {
            (void)fputs("\\e", out);
        } else if (*text == '-') {
            (void)fputs("\\-", out);
        } else if (*text == '\'') {
            (void)fputs("\\(aq", out);
        } else if (*text == '`') {
            (void)fputs("\\(ga", out);
        } else {
            (void)fputc(*text, out);
        }
    }
}

static void section(FILE *out, const char *name) {
    (void)fprintf(out, ".SH \"%s\"\n", name);
}

static void paragraph(FILE *out, const char *text) {
    (void)fputs(".PP\n", out);
    put(out, text);
    (void)fputs("\n", out);
}

/* A tagged paragraph: `tag` in bold, `value` as what stands for something. */
static void item(FILE *out, const char *tag, const char *value, const char *text) {
    (void)fputs(".TP\n.B ", out);
    put(out, tag);
    (void)fputs(value[0] != '\0' ? " \\fI" : "", out);
    put(out, value);
    (void)fputs(value[0] != '\0' ? "\\fR\n" : "\n", out);
    put(out, text);
    (void)fputs("\n", out);
}

static void example(FILE *out, const char *text) {
    (void)fputs(".PP\n.nf\n.RS 4\n", out);
    put(out, text);
    (void)fputs("\n.RE\n.fi\n", out);
}

/* ---- tenure(1) ---- */

static void command_write(FILE *out, const struct protocol_command *row) {
    struct cli_text text = {.at = NULL};
    (void)fputs(".SS \"", out);
    cli_spell_name(&text, row);
    put(out, text.at);
    (void)fputs("\"\n.nh\n", out);
    for (unsigned f = 0; f < 2; f++) {
        const struct protocol_form *form = f == 0 ? &row->form : &row->other;
        if (f == 0 || form->count > 0) {
            text.len = 0;
            cli_spell_usage(&text, row, form);
            (void)fputs(f == 0 ? ".B " : ".br\n.B ", out);
            put(out, text.at);
            (void)fputs("\n", out);
        }
    }
    (void)fputs(".hy\n.PP\n", out);
    put(out, row->summary);
    (void)fputs(".\n.PP\nExample:\n.B ", out);
    text.len = 0;
    cli_spell_example(&text, row);
    put(out, text.at);
    (void)fputs("\n", out);
    cli_text_free(&text);
}

static void pool_option_write(void *ctx, const char *name, const char *value) {
    if (strcmp(name, "--opid") != 0) {
        (void)fputs(".br\n.B ", ctx);
        put(ctx, name);
        (void)fputs(" \\fI", ctx);
        put(ctx, value);
        (void)fputs("\\fR\n", ctx);
    }
}

static void commands_write(FILE *out) {
    section(out, "COMMANDS");
    paragraph(out,
              "Options of a command may stand anywhere among its arguments. The spelling of the "
              "protocol works too: TTL 60 is --ttl 60. After -- nothing is an option.");
    for (unsigned i = 0; i < PROTOCOL_COMMANDS; i++) {
        if (cli_offers(&protocol_table[i]) && !cli_is_local(protocol_table[i].word)) {
            command_write(out, &protocol_table[i]);
        }
    }
    section(out, "OPTIONS OF POOLS");
    paragraph(out, "Of pool create and pool alter:");
    cli_spell_options(&protocol_table[PROTOCOL_POOL_CREATE], pool_option_write, out);
    section(out, "OTHER SUBCOMMANDS");
    for (unsigned i = 0; cli_local_row(i) != NULL; i++) {
        item(out, cli_local_row(i)[0], cli_local_row(i)[1], cli_local_row(i)[2]);
    }
}

static void codes_write(FILE *out) {
    static const char *const outcomes[] = {"committed", "rejected", "unknown"};
    char code[16];
    char text[256];
    section(out, "EXIT STATUS");
    item(out, "0", "", "Done, or nothing to do: it already is so.");
    item(out, "1", "", "Something failed here, or the server answered an error without a name.");
    item(out, "2", "", "The command line cannot be understood; nothing was sent.");
    item(out, "3", "", "There is no server, or it went away before it answered a read.");
    for (unsigned i = 0; i < TN_R_COUNT; i++) {
        enum tn_result result = (enum tn_result)i;
        if (tn_result_exit(result) != 0) {
            (void)snprintf(code, sizeof code, "%d", tn_result_exit(result));
            (void)snprintf(text, sizeof text, "(%s) %s.", outcomes[tn_result_outcome(result)],
                           tn_result_text(result));
            item(out, code, tn_result_name(result), text);
        }
    }
    (void)snprintf(code, sizeof code, "%d", CLI_UNKNOWN);
    item(out, code, "", "(unknown) A write was sent and no answer came: it may have happened.");
    paragraph(out, "A refusal marked committed has its place in the log when its text says lsn; "
                   "without that it was refused before, and surely did not happen.");
}

static void tenure_write(FILE *out) {
    (void)fputs(".\\\" Made by build/gen-manual; do not edit.\n", out);
    (void)fputs(".TH TENURE 1 \"\" \"Tenure\" \"User Commands\"\n", out);
    section(out, "NAME");
    (void)fputs("tenure \\- leases on scarce values, from the command line\n", out);
    section(out, "SYNOPSIS");
    (void)fputs(".B tenure\n[\\fIoption\\fR...] \\fIsubcommand\\fR [\\fIargument\\fR...]\n", out);
    section(out, "DESCRIPTION");
    paragraph(out,
              "tenure talks to the lease server tenured: it has a subcommand for every command "
              "of the server, and some of its own. For people it prints tables and cards; on a "
              "terminal they fit its width.");
    section(out, "OPTIONS");
    for (unsigned i = 0; cli_settings_row(i) != NULL; i++) {
        const char *const *row = cli_settings_row(i);
        item(out, row[0], row[1], row[2]);
    }
    paragraph(out,
              "They may stand before the subcommand or after it, but -h and -p before it only.");
    commands_write(out);
    section(out, "OPERATION IDS");
    paragraph(out,
              "Every write carries an operation id: that of --opid, or one that is made for it. "
              "The server remembers it for a while (op_window_seconds), and answers a repetition "
              "with the first answer, without doing it again. If the answer to a write is lost, "
              "tenure prints the line that asks for it again and exits with 52; --retry does so "
              "by itself.");
    section(out, "EVENTS");
    paragraph(
        out,
        "tenure events prints what happened after --after, an event's id or a position in "
        "the log, or the newest --last, or everything that is kept. With --follow it begins with "
        "now, or as --after and --last say, and goes on until it is interrupted; if the connection "
        "is lost it comes back and goes on after the last event it has shown. With --json each "
        "event is a line.");
    section(out, "OUTPUT OF SENSORS");
    paragraph(out,
              "tenure sensor logs prints all that is kept of what a sensor has printed, or what "
              "comes after --after, a position that an earlier answer named. With --follow it "
              "goes on until it is interrupted, across restarts of the sensor and of the "
              "server.");
    section(out, "JSON");
    paragraph(out, "With --json a reply is one line on standard output. Whole numbers are strings, "
                   "because they have 64 bits; times are milliseconds since 1970. A refusal is an "
                   "object with result, outcome, detail and what else it says.");
    codes_write(out);
    section(out, "ENVIRONMENT");
    item(out, "TENURE_URL", "", "The server as tenure://HOST:PORT.");
    item(out, "TENURE_HOST, TENURE_PORT", "", "Its host and port; they go before TENURE_URL.");
    item(out, "TENURE_SOCKET", "",
         "The path of its Unix-domain socket; it goes before host and port of the environment.");
    item(out, "TENURE_USER, TENURE_SECRET, TENURE_SECRET_FILE", "",
         "Who to log in as (default), and the secret or a file whose first line it is; without a "
         "secret nobody logs in.");
    item(out, "NO_COLOR", "", "If it is set and not empty, nothing is coloured.");
    item(out, "COLUMNS", "", "The width of a terminal that does not tell its own.");
    section(out, "EXAMPLES");
    example(out, "tenure pool create ports --range 30000 30009 --lease 60\n"
                 "tenure alloc ports job/42 --count 2\n"
                 "tenure lease ports/30000\n"
                 "tenure leases --pool ports --json\n"
                 "tenure events --follow --pool ports\n"
                 "source <(tenure completion bash)");
    section(out, "SEE ALSO");
    (void)fputs(".BR tenured (8)\n", out);
}

/* ---- tenured(8) ---- */

static void setting_write(FILE *out, const struct config_row *row) {
    char flag[CONFIG_NAME_MAX];
    char text[512];
    char standard[32] = "";
    config_flag_name(row, flag);
    if (row->standard == NULL) {
        (void)snprintf(standard, sizeof standard, " (%" PRIu64 ")", row->number);
    } else if (row->standard[0] != '\0' && row->type != CONFIG_FLAG) {
        (void)snprintf(standard, sizeof standard, " (%s)", row->standard);
    }
    (void)snprintf(text, sizeof text, "%s%s.", row->text, standard);
    item(out, flag, row->meta, text);
}

static void action_write(FILE *out, const struct config_action_row *row) {
    char flag[CONFIG_NAME_MAX];
    char text[256];
    (void)snprintf(flag, sizeof flag, "%s%s%s", row->flag, row->also[0] != '\0' ? ", " : "",
                   row->also);
    (void)snprintf(text, sizeof text, "%c%s.", row->text[0] - 'a' + 'A', row->text + 1);
    item(out, flag, "", text);
}

static void tenured_write(FILE *out) {
    (void)fputs(".\\\" Made by build/gen-manual; do not edit.\n", out);
    (void)fputs(".TH TENURED 8 \"\" \"Tenure\" \"System Administration\"\n", out);
    section(out, "NAME");
    (void)fputs("tenured \\- the lease server\n", out);
    section(out, "SYNOPSIS");
    (void)fputs(".B tenured\n[\\fIoption\\fR...]\n", out);
    section(out, "DESCRIPTION");
    paragraph(out,
              "tenured hands out values from finite pools and knows, durably, who holds what, "
              "under which fencing token, until when. It keeps everything in one directory and "
              "serves it over RESP, the protocol of Redis, and over HTTP. A write is answered "
              "after it is on disk.");
    paragraph(out, "It is ready when it prints event=ready on standard error; the port file, if "
                   "asked for, is there by then, and a service manager is told.");
    section(out, "OPTIONS");
    paragraph(out, "Each but --config and those without a value can be given in the file "
                   "(slow_seconds = 30), in the environment (TENURE_SLOW_SECONDS=30) or as a flag "
                   "(--slow-seconds 30); the later of these goes before the earlier.");
    for (unsigned i = 0; i < CONFIG_OWN_COUNT; i++) {
        struct config_row row = config_row(i);
        setting_write(out, &row);
    }
    for (unsigned i = 0; config_action_row(i) != NULL; i++) {
        action_write(out, config_action_row(i));
    }
    section(out, "LIMITS");
    paragraph(out, "Logged at the start if they are given; else those of the log stay.");
    for (unsigned i = CONFIG_OWN_COUNT; i < CONFIG_COUNT; i++) {
        struct config_row row = config_row(i);
        setting_write(out, &row);
    }
    section(out, "THE FILE");
    paragraph(
        out,
        "An INI file with the sections server, udp, engine, tokens, amqp, sensors and limits, and a "
        "section for each user, and each pool, sensor and rule that is to exist:");
    example(out, "[server]\nslow_seconds = 30\n\n[pool ports]\nrange = 30000 30009\nlease = 60");
    section(out, "SIGNALS");
    item(out, "SIGTERM, SIGINT", "", "Answer what is under way, take a snapshot, exit with 0.");
    item(out, "SIGHUP", "", "Read the file again; what cannot change while running is named.");
    section(out, "EXIT STATUS");
    item(out, "0", "", "Stopped by a signal.");
    item(out, "1", "", "The engine halted because storage failed, or the last snapshot failed.");
    item(out, "2", "", "It could not start.");
    section(out, "SEE ALSO");
    (void)fputs(".BR tenure (1)\n", out);
}

/* ---- Files ---- */

static int compare(const char *page, const char *path, const char *want, size_t len) {
    bool code = stale(path, want, len);
    if (code) {
        (void)fprintf(stderr, "%s is stale: build/gen-manual %s > docs/man/%s\n", path, page, page);
    }
    return code;
}

int main(int argc, char **argv) {
    char *text = NULL;
    size_t len = 0;
    bool first = argc > 1 && strcmp(argv[1], "tenure.1") == 0;
    if (argc < 2 || (!first && strcmp(argv[1], "tenured.8") != 0)) {
        (void)fprintf(stderr, "usage: gen-manual tenure.1|tenured.8 [FILE]\n");
        return 2;
    }
    FILE *out = open_memstream(&text, &len);
    if (out == NULL) {
        return 2;
    }
    if (first) {
        tenure_write(out);
    } else {
        tenured_write(out);
    }
    (void)fclose(out);
    int code = argc > 2 ? compare(argv[1], argv[2], text, len)
                        : (fwrite(text, 1, len, stdout) == len ? 0 : 2);
    free(text);
    return code;
}
