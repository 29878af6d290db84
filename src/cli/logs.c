/* `tenure sensor logs REF`: prints the retained output of a sensor; with --follow, new output until
 * interrupted. With --json, prints one page as the server replies it.
 *
 * The server returns bytes from a position and the position after them, so following repeats the
 * request; a lost connection or a restart of the sensor loses nothing. */
#include <string.h>
#include <unistd.h>

#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/scan.h"
#include "cli/show_json.h"
#include "protocol/text.h"

#define POLL_MS 200u
#define BACKOFF_MAX_MS 5000u
#define POSITION_MAX 64u
#define POSITION_FIRST "0.0"  /* the oldest retained output */
#define LINE_MAX_BYTES 65536u /* a longer line is shown in parts */

struct logs {
    const struct cli_settings *settings;
    const char *ref;
    char after[POSITION_MAX];
    bool follow, clean;   /* `clean`: for a terminal */
    struct cli_text line; /* for a terminal: the line that has not ended */
    struct cli_client client;
};

/* ---- Options ---- */

/* False: the words are those of the plain command, which parses or refuses them. */
static bool options_parse(struct logs *logs, int argc, char **argv) {
    const char *after = POSITION_FIRST;
    for (int at = 0; at < argc; at++) {
        const char *argument = argv[at];
        if (strcmp(argument, "--follow") == 0) {
            logs->follow = true;
        } else if (strncmp(argument, "--after=", 8) == 0) {
            after = argument + 8;
        } else if (strcmp(argument, "--after") == 0 && at + 1 < argc) {
            after = argv[++at];
        } else if (argument[0] == '-' || logs->ref != NULL) {
            return false;
        } else {
            logs->ref = argument;
        }
    }
    (void)snprintf(logs->after, sizeof logs->after, "%s", after);
    return logs->ref != NULL && strlen(after) < sizeof logs->after;
}

/* ---- Showing ---- */

/* Shows the current line. `whole`: it has ended; otherwise the last character may be incomplete. */
static void line_show(struct logs *logs, bool whole) {
    struct cli_text *line = &logs->line;
    struct cli_text text = {.at = NULL};
    size_t kept = whole ? 0 : protocol_utf8_cut((const uint8_t *)line->at, line->len);
    line->len -= kept;
    cli_text_clean(&text, tn_bytes_of(line->at, line->len));
    (void)printf("%s%s", text.failed ? "" : text.at, whole ? "\n" : "");
    cli_text_free(&text);
    if (kept > 0) {
        memmove(line->at, line->at + line->len, kept);
    }
    line->len = kept;
}

/* A terminal gets complete lines without anything that could move its cursor. */
static void show_clean(struct logs *logs, struct tn_bytes output) {
    while (output.len > 0) {
        const uint8_t *end = memchr(output.at, '\n', output.len);
        uint32_t len = end != NULL ? (uint32_t)(end - output.at) : output.len;
        cli_text_add(&logs->line, output.at, len);
        if (end != NULL) {
            line_show(logs, true);
            len++;
        } else if (logs->line.len >= LINE_MAX_BYTES) {
            line_show(logs, false);
        }
        output = tn_bytes_of(output.at + len, output.len - len);
    }
}

/* Shows the last page. False: it cannot be written. */
static bool page_show(struct logs *logs, uint32_t *ret_len) {
    const struct cli_reader *reader = &logs->client.reader;
    struct tn_bytes output = cli_field(reader, 0, "output");
    struct tn_bytes position = cli_field(reader, 0, "next");
    *ret_len = output.len;
    if (cli_field_is(reader, 0, "lost", "t")) {
        (void)fflush(stdout);
        (void)fprintf(stderr, "tenure: some earlier output is no longer retained\n");
    }
    if (position.len < sizeof logs->after) {
        memcpy(logs->after, position.at, position.len);
        logs->after[position.len] = '\0';
    }
    if (output.len == 0) {
        return true;
    }
    if (logs->settings->json) {
        struct cli_text text = {.at = NULL};
        cli_json_node(&text, reader, 0);
        (void)printf("%s\n", text.failed ? "" : text.at);
        cli_text_free(&text);
    } else if (logs->clean) {
        show_clean(logs, output);
    } else {
        (void)fwrite(output.at, 1, output.len, stdout);
    }
    return fflush(stdout) == 0 && !ferror(stdout);
}

/* ---- Reading ---- */

static void words_make(const struct logs *logs, struct cli_words *words) {
    cli_words_put(words, "SENSOR");
    cli_words_put(words, "LOGS");
    cli_words_put(words, logs->ref);
    cli_words_put(words, "AFTER");
    cli_words_put(words, logs->after);
}

/* Shows all output so far. */
static int pages_all(struct logs *logs) {
    uint32_t len;
    int code;
    do {
        struct cli_words words = {.at = NULL};
        len = 0;
        words_make(logs, &words);
        code = words.failed ? CLI_FAILED
                            : cli_ask(logs->settings, &logs->client, words.at, words.count);
        cli_words_free(&words);
        if (code == CLI_OK && !page_show(logs, &len)) {
            code = CLI_FAILED;
        }
    } while (code == CLI_OK && len > 0);
    return code;
}

/* After the first connection this continues forever, because a restarted server comes back. */
static int follow(struct logs *logs) {
    uint64_t backoff_ms = POLL_MS;
    for (;;) {
        int code = pages_all(logs);
        if (code != CLI_OK && code != CLI_UNREACHABLE) {
            return code;
        }
        if (code == CLI_OK) {
            backoff_ms = POLL_MS;
        }
        cli_wait_ms(backoff_ms);
        while (code != CLI_OK) {
            cli_client_close(&logs->client);
            if (cli_client_open(&logs->client, logs->settings) == CLI_LINK_OK) {
                break;
            }
            backoff_ms = 2 * backoff_ms < BACKOFF_MAX_MS ? 2 * backoff_ms : BACKOFF_MAX_MS;
            cli_wait_ms(backoff_ms);
        }
    }
}

int cli_logs(const struct cli_settings *settings, int argc, char **argv) {
    struct logs logs = {
        .settings = settings, .clean = isatty(STDOUT_FILENO) == 1, .client = {.socket = -1}};
    bool parsed = options_parse(&logs, argc - 2, argv + 2);
    if (!logs.follow && (!parsed || settings->json)) {
        return cli_call(settings, argc, argv);
    }
    if (!parsed) {
        (void)fprintf(stderr, "usage: tenure sensor logs REF [--after POSITION] [--follow]\n");
        return CLI_USAGE;
    }
    int code = cli_client_open(&logs.client, settings) != CLI_LINK_OK
                   ? cli_client_unreachable(&logs.client)
               : logs.follow ? follow(&logs)
                             : pages_all(&logs);
    if (logs.line.len > 0) {
        show_clean(&logs, tn_bytes_of("\n", 1));
    }
    cli_client_close(&logs.client);
    cli_text_free(&logs.line);
    return code;
}
