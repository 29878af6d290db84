/* Makes the pages of the manual: tenure(1) from the table of commands and the table of results,
 * tenured(8) from the table of settings.
 *
 *   gen-manual tenure.1|tenured.8          prints it
 *   gen-manual tenure.1|tenured.8 FILE     exits 1 if the file is not what would be printed */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "cli/cli.h"
#include "cli/run_options.h"
#include "cli/spell.h"
#include "config/config.h"
#include "generate.h"
#include "kernel/result.h"

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

/* snprintf for text that must fit: a page that loses text without an error would look complete. */
__attribute__((format(printf, 3, 4))) static void print(char *text, size_t size, const char *format,
                                                        ...) {
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(text, size, format, arguments);
    va_end(arguments);
    TN_ASSERT(length >= 0 && (size_t)length < size);
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
    paragraph(
        out,
        "Options of a command may appear anywhere among its arguments. The protocol's spelling also works: TTL 60 is --ttl 60. Arguments after -- are not options.");
    for (unsigned i = 0; i < PROTOCOL_COMMANDS; i++) {
        if (cli_offers(&protocol_table[i]) && !cli_is_local(protocol_table[i].word)) {
            command_write(out, &protocol_table[i]);
        }
    }
    section(out, "POOL OPTIONS");
    paragraph(out, "For pool create and pool alter:");
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
    item(out, "0", "", "Success, or nothing to do.");
    item(out, "1", "", "A local failure, or an error without a result name.");
    item(out, "2", "", "Usage error; nothing was sent.");
    item(out, "3", "", "No server, or the connection was lost before the answer to a read.");
    for (unsigned i = 0; i < TN_R_COUNT; i++) {
        enum tn_result result = (enum tn_result)i;
        if (tn_result_exit(result) != 0) {
            print(code, sizeof code, "%d", tn_result_exit(result));
            print(text, sizeof text, "(%s) %s.", outcomes[tn_result_outcome(result)],
                  tn_result_text(result));
            item(out, code, tn_result_name(result), text);
        }
    }
    print(code, sizeof code, "%d", CLI_UNKNOWN);
    item(out, code, "", "(unknown) A write was sent and no answer arrived: it may have happened.");
    for (unsigned i = 0; cli_run_code_row(i) != NULL; i++) {
        print(text, sizeof text, "%s.", cli_run_code_row(i)[1]);
        item(out, cli_run_code_row(i)[0], "", text);
    }
    paragraph(
        out,
        "A refusal marked committed is in the log if its text contains lsn; otherwise the command was rejected and did not happen.");
}

static void about_write(FILE *out) {
    (void)fputs(".\\\" Generated by build/gen-manual; do not edit.\n", out);
    (void)fputs(".TH TENURE 1 \"\" \"Tenure\" \"User Commands\"\n", out);
    section(out, "NAME");
    (void)fputs("tenure \\- lease values from finite pools\n", out);
    section(out, "SYNOPSIS");
    (void)fputs(".B tenure\n[\\fIoption\\fR...] \\fIsubcommand\\fR [\\fIargument\\fR...]\n", out);
    section(out, "DESCRIPTION");
    paragraph(
        out,
        "tenure is the client of the lease server tenured. It has a subcommand for every command of the server, and some of its own. Without --json it prints tables that fit the width of the terminal.");
    section(out, "OPTIONS");
    for (unsigned i = 0; cli_settings_row(i) != NULL; i++) {
        const char *const *row = cli_settings_row(i);
        item(out, row[0], row[1], row[2]);
    }
    paragraph(out,
              "Options may appear before or after the subcommand, but -h and -p only before it.");
}

static void topics_write(FILE *out) {
    section(out, "OPERATION IDS");
    paragraph(
        out,
        "Every write carries an operation id: the one of --opid, or a generated one. The server remembers it for op_window_seconds and answers a repeat with the first answer, without executing it again. If the answer to a write is lost, tenure prints a command line that repeats the write and exits with 52; with --retry it repeats the write itself.");
    section(out, "RUN");
    paragraph(
        out,
        "tenure run leases the values of every --from as one lease, runs the command, renews the lease at a third of --ttl (30s), and releases it when all processes of the command are dead. POOL:COUNT takes any values (COUNT is 1 by default), POOL/VALUE one value. With --wait it waits in line for values that are not free; a signal leaves the line at once. If the lease is revoked, or cannot be renewed, the command gets SIGTERM, and --kill-after later (a quarter of the ttl, at most 10s, by default) all its processes get SIGKILL: before another client can get the values, even if tenure is stopped or killed or the server is gone.");
    paragraph(
        out,
        "The command finds the lease in TENURE_LEASE and TENURE_EPOCH, pool/value pairs in TENURE_VALUES, the values of each pool in TENURE_ and the pool's name in capital letters, and a signed token in TENURE_TOKEN. tenure passes signals on. --renew-command runs a shell command after each renewal, with a fresh TENURE_TOKEN. --containment selects what proves that the processes are dead.");
    section(out, "TOP");
    paragraph(
        out,
        "tenure top asks the server once a second and shows its figures, the pools (the fullest first) and the newest events. A pool is red if it is full or will be within ten minutes, and yellow if it will be within an hour or is used to 90 %. The last two columns are the last hour: its occupancy, and its new leases. Scopes are summed up by their template. Up and down select a pool, enter opens it: its leases, values, line of waiters, scopes and policy, with left and right; escape goes back. s is the next order, u f w r n are orders: use, free values, waiters, rate, name. @ lists the scopes, 2 shows the sensors, ? lists the keys, q quits. Colors are left out if NO_COLOR is set or the terminal is dumb. Without a terminal, or with --once, it prints one frame and ends.");
    section(out, "EVENTS");
    paragraph(
        out,
        "tenure events prints the events after --after, an event id or a log position, or the newest --last events, or all retained events. With --follow it starts now, or at --after or --last, and continues until it is interrupted; after a lost connection it reconnects and continues after the last event shown. With --json each event is one line.");
    section(out, "SENSOR OUTPUT");
    paragraph(
        out,
        "tenure sensor logs prints the retained output of a sensor, or the output after --after, a position from an earlier answer. With --follow it continues until it is interrupted, across restarts of the sensor and of the server.");
    section(out, "JSON");
    paragraph(
        out,
        "With --json a reply is one line on standard output. Integers are strings, because they have 64 bits; times are milliseconds since 1970. A refusal is an object with result, outcome, detail and further facts.");
}

static void environment_write(FILE *out) {
    section(out, "ENVIRONMENT");
    item(
        out, "TENURE_URL", "",
        "The server as tenure://HOST:PORT; with TLS as tenures://HOST:PORT or rediss://HOST:PORT.");
    item(out, "TENURE_HOST, TENURE_PORT", "",
         "The server's host and port; they override TENURE_URL.");
    item(
        out, "TENURE_SOCKET", "",
        "The path of the server's Unix-domain socket; it overrides the host and port of the environment.");
    item(
        out, "TENURE_USER, TENURE_SECRET, TENURE_SECRET_FILE", "",
        "The user to log in as (default), and the secret or a file whose first line is the secret; without a secret, tenure does not log in.");
    item(
        out, "TENURE_TLS, TENURE_CA_FILE, TENURE_CERT_FILE, TENURE_KEY_FILE", "",
        "TLS: yes or no; the authorities of the server's certificate; the client's certificate and its key.");
    item(out, "NO_COLOR", "", "If it is set and not empty, the output has no colors.");
    item(out, "COLUMNS", "", "The width of a terminal that does not report it.");
}

static void tenure_write(FILE *out) {
    about_write(out);
    commands_write(out);
    topics_write(out);
    codes_write(out);
    environment_write(out);
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
    char standard[256] = "";
    config_flag_name(row, flag);
    if (row->standard == NULL) {
        print(standard, sizeof standard, " (%" PRIu64 ")", row->number);
    } else if (row->standard[0] != '\0' && row->type != CONFIG_FLAG) {
        print(standard, sizeof standard, " (%s)", row->standard);
    }
    print(text, sizeof text, "%s%s.", row->text, standard);
    item(out, flag, row->meta, text);
}

static void action_write(FILE *out, const struct config_action_row *row) {
    char flag[CONFIG_NAME_MAX];
    char text[256];
    print(flag, sizeof flag, "%s%s%s", row->flag, row->also[0] != '\0' ? ", " : "", row->also);
    print(text, sizeof text, "%c%s.", row->text[0] - 'a' + 'A', row->text + 1);
    item(out, flag, row->meta, text);
}

static void tenured_write(FILE *out) {
    (void)fputs(".\\\" Generated by build/gen-manual; do not edit.\n", out);
    (void)fputs(".TH TENURED 8 \"\" \"Tenure\" \"System Administration\"\n", out);
    section(out, "NAME");
    (void)fputs("tenured \\- the lease server\n", out);
    section(out, "SYNOPSIS");
    (void)fputs(".B tenured\n[\\fIoption\\fR...]\n", out);
    section(out, "DESCRIPTION");
    paragraph(
        out,
        "tenured leases values from finite pools. It durably records each value's holder, fencing token and deadline. It stores all data in one directory and serves RESP, the protocol of Redis, and HTTP. It answers a write after the write is on disk.");
    paragraph(
        out,
        "The server is ready when it prints event=ready on standard error; by then it has written the port file, if configured, and notified the service manager.");
    section(out, "OPTIONS");
    paragraph(
        out,
        "All options except --config and those without a value can be set by a flag (--slow-seconds 30), in the environment (TENURE_SLOW_SECONDS=30) or in the file (slow_seconds = 30), in this order of priority.");
    for (unsigned i = 0; i < CONFIG_OWN_COUNT; i++) {
        struct config_row row = config_row(i);
        setting_write(out, &row);
    }
    for (unsigned i = 0; config_action_row(i) != NULL; i++) {
        action_write(out, config_action_row(i));
    }
    section(out, "LIMITS");
    paragraph(out,
              "Written to the log at start if they are set; otherwise the logged limits apply.");
    for (unsigned i = CONFIG_OWN_COUNT; i < CONFIG_COUNT; i++) {
        struct config_row row = config_row(i);
        setting_write(out, &row);
    }
    section(out, "THE FILE");
    paragraph(
        out,
        "An INI file with the sections server, tls, udp, engine, tokens, amqp, sensors and limits, and a section for each user and each declared pool, sensor and rule:");
    example(out, "[server]\nslow_seconds = 30\n\n[pool ports]\nrange = 30000 30009\nlease = 60");
    section(out, "SIGNALS");
    item(out, "SIGTERM, SIGINT", "", "Answer pending requests, take a snapshot, exit with 0.");
    item(out, "SIGHUP", "", "Read the file again; the log names the settings that need a restart.");
    section(out, "EXIT STATUS");
    item(out, "0", "", "Stopped by a signal.");
    item(
        out, "1", "",
        "The engine halted because storage failed, or the last snapshot failed; or a node of a cluster could not go on (event=behind, name_taken or copy_no_room).");
    item(
        out, "2", "",
        "The server could not start, or a running node could not take over the log (event=lead_refused).");
    section(out, "SEE ALSO");
    (void)fputs(".BR tenure (1)\n", out);
}

/* ---- Files ---- */

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*write)(FILE *out);
        const char *remedy;
    } pages[] = {{"tenure.1", tenure_write, "build/gen-manual tenure.1 > docs/man/tenure.1"},
                 {"tenured.8", tenured_write, "build/gen-manual tenured.8 > docs/man/tenured.8"}};
    for (size_t i = 0; argc > 1 && i < sizeof pages / sizeof pages[0]; i++) {
        if (strcmp(argv[1], pages[i].name) == 0) {
            return generate(pages[i].write, argc > 2 ? argv[2] : NULL, GENERATE_WHOLE,
                            pages[i].remedy);
        }
    }
    (void)fprintf(stderr, "usage: gen-manual tenure.1|tenured.8 [FILE]\n");
    return 2;
}
