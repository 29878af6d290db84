/* Executes a command of the command table: words, request, answer, exit code.
 *
 * Every write carries an operation id, the user's or a generated one. If the answer is lost, the
 * write can be repeated: by --retry, or by the user with the printed command line. With several
 * nodes, and when a node names the owner of the log, that is done without being asked for. */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/columns.h"
#include "cli/resp_client.h"
#include "cli/show.h"
#include "cli/show_json.h"
#include "cli/spell.h"
#include "cli/watch_rounds.h"
#include "protocol/parse.h"

#define OPID_BYTES 12u

struct call {
    const struct cli_settings *settings;
    struct cli_request request;
    struct cli_client client;
    char opid[8 + 2 * OPID_BYTES];
    char page[KERNEL_VALUE_TEXT_MAX];
    const char *used_opid;         /* NULL: the command is not a write */
    struct cli_settings elsewhere; /* becomes `settings` when a node has named the owner */
    bool moved;
    int argc;
    char **argv;
    FILE *out, *err;
    struct cli_screen screen;
    struct cli_changes *changes; /* for --watch; NULL: none */
};

/* ---- What is said ---- */

/* Where the argument has a secret of the request, whose words are parts of the arguments. -1:
 * nowhere. */
static ptrdiff_t secret_at(const struct call *call, int argument) {
    const struct cli_words *words = &call->request.words;
    uintptr_t from = (uintptr_t)call->argv[argument];
    uintptr_t end = from + strlen(call->argv[argument]);
    uint32_t fields = 3; /* the position after USER ADD name */
    for (uint32_t i = fields; cli_takes_secret(call->request.row) && i + 1 < words->count; i++) {
        uintptr_t at = (uintptr_t)words->at[i + 1].at;
        if (protocol_word_is(words->at[i], "SECRET", 6) && at >= from && at <= end) {
            return (ptrdiff_t)(at - from);
        }
    }
    return -1;
}

/* Writes the arguments with an option in place of a secret. */
static void arguments_write(const struct call *call, struct cli_text *line) {
    const char *file = call->settings->secret_file;
    for (int i = 0; i < call->argc; i++) {
        if (secret_at(call, i) >= 0) {
            cli_text_put(line, file != NULL ? " --secret-file " : " --ask-secret");
            if (file != NULL) {
                cli_text_shell(line, file);
            }
        } else if (i + 1 == call->argc || secret_at(call, i + 1) != 0) { /* not its --secret */
            cli_text_put(line, " ");
            cli_text_shell(line, call->argv[i]);
        }
    }
}

/* Prints the command with which the user can find out what happened. */
static void say_how_to_resolve(const struct call *call) {
    struct cli_text line = {.at = NULL};
    cli_text_put(&line, "tenure");
    if (call->settings->socket[0] != '\0') {
        cli_text_put(&line, " -s ");
        cli_text_shell(&line, call->settings->socket);
    }
    if (strcmp(call->settings->host, CLI_HOST) != 0) {
        cli_text_put(&line, " -h ");
        cli_text_shell(&line, call->settings->host);
    }
    if (strcmp(call->settings->port, CLI_PORT) != 0) {
        cli_text_printf(&line, " -p %s", call->settings->port);
    }
    if (call->request.opid == NULL) {
        cli_text_put(&line, " --opid ");
        cli_text_shell(&line, call->used_opid);
    }
    arguments_write(call, &line);
    (void)fprintf(
        call->err,
        "The outcome is unknown: the command may have happened. To find out, repeat it with the "
        "same operation id:\n  %s\n",
        line.failed ? "" : line.at);
    cli_text_free(&line);
}

static int say_link(const struct call *call, enum cli_link link) {
    (void)fflush(call->out);
    (void)fprintf(call->err, "tenure: %s\n", call->client.error);
    if (link == CLI_LINK_LOST && call->used_opid != NULL) {
        if (call->settings->json) {
            struct cli_text text = {.at = NULL};
            cli_text_put(&text, "{\"result\":\"UNKNOWN\",\"outcome\":\"unknown\",\"opid\":");
            cli_text_json(&text, tn_bytes_of(call->used_opid, strlen(call->used_opid)));
            (void)fprintf(call->out, "%s}\n", text.failed ? "{" : text.at);
            (void)fflush(call->out);
            cli_text_free(&text);
        }
        say_how_to_resolve(call);
        return CLI_UNKNOWN;
    }
    return cli_client_exit(&call->client);
}

static int refusal_exit(const struct cli_refusal *refusal) {
    return refusal->known ? tn_result_exit(refusal->code) : CLI_FAILED;
}

/* Writes a refusal such as "BUSY: held, cooling, ... (index 0, lsn 4)". */
static void refusal_write(struct cli_text *text, const struct cli_refusal *refusal,
                          uint64_t now_ms) {
    struct tn_bytes facts = refusal->facts;
    struct tn_bytes key;
    struct tn_bytes value;
    bool first = true;
    cli_text_clean(text, refusal->name);
    cli_text_put(text, ": ");
    cli_text_clean(text, refusal->words);
    while (cli_refusal_fact(&facts, &key, &value)) {
        uint64_t number;
        cli_text_put(text, first ? " (" : ", ");
        cli_text_clean(text, key);
        cli_text_put(text, " ");
        if ((tn_bytes_equal(key, tn_bytes_of("retry_at", 8)) ||
             tn_bytes_equal(key, tn_bytes_of("until", 5))) &&
            cli_number_parse(value, &number)) {
            cli_text_time(text, number, now_ms);
        } else {
            cli_text_clean(text, value);
        }
        first = false;
    }
    cli_text_put(text, first ? "" : ")");
}

static int say_refusal(const struct call *call) {
    const struct os *os = call->settings->os;
    struct cli_refusal refusal = cli_refusal_of(cli_node_text(&call->client.reader, 0));
    struct cli_text text = {.at = NULL};
    if (call->settings->json) {
        cli_json_refusal(&text, &refusal);
        (void)fprintf(call->out, "%s\n", text.failed ? "" : text.at);
    } else {
        refusal_write(&text, &refusal, os->clock_wall_ms(os->ctx));
        (void)fflush(call->out);
        (void)fprintf(call->err, "tenure: %s\n", text.failed ? "" : text.at);
        if (refusal.known && refusal.code == TN_R_MALFORMED) {
            struct cli_text name = {.at = NULL};
            cli_spell_name(&name, call->request.row);
            (void)fprintf(call->err, "see tenure help %s\n", name.failed ? "" : name.at);
            cli_text_free(&name);
        }
    }
    cli_text_free(&text);
    if (refusal.outcome == TN_UNKNOWN && call->used_opid != NULL) {
        (void)fflush(call->out);
        say_how_to_resolve(call);
    }
    return refusal_exit(&refusal);
}

/* ---- Lists, page by page ---- */

/* Prints all pages as one document while they arrive: {"leases":[ ... ],"cursor":"0",...}. */
static void json_page(const struct cli_reader *reader, bool begun, bool first, uint64_t most,
                      FILE *out) {
    struct cli_text text = {.at = NULL};
    uint32_t name = 0;
    uint32_t array = cli_list_find(reader, &name);
    if (array == 0) {
        return;
    }
    if (!begun) {
        cli_text_put(&text, "{");
        cli_text_json(&text, cli_node_text(reader, name));
        cli_text_put(&text, ":[");
    }
    for (uint32_t at = array + 1; at < reader->nodes[array].end && most > 0;
         at = reader->nodes[at].end, most--) {
        cli_text_put(&text, first ? "" : ",");
        cli_json_node(&text, reader, at);
        first = false;
    }
    if (text.len > 0) { /* a page may be empty */
        (void)fwrite(text.at, 1, text.len, out);
    }
    cli_text_free(&text);
}

/* Ends the document with the other fields of the last page. */
static void json_end(const struct cli_reader *reader, FILE *out) {
    struct cli_text text = {.at = NULL};
    cli_text_put(&text, "]");
    for (uint32_t at = 1; at < reader->node_count;) {
        uint32_t value = reader->nodes[at].end;
        if (reader->nodes[value].type != CLI_ARRAY) {
            cli_text_put(&text, ",");
            cli_text_json(&text, cli_node_text(reader, at));
            cli_text_put(&text, ":");
            cli_json_node(&text, reader, value);
        }
        at = reader->nodes[value].end;
    }
    (void)fprintf(out, "%s}\n", text.failed ? "" : text.at);
    cli_text_free(&text);
}

struct pages {
    struct cli_list list;
    uint64_t shown, cursor;
    bool begun;  /* the document has begun, although a page may be empty */
    bool broken; /* out of memory */
};

/* Shows the page that has arrived. True: another one follows, and the limit has not been
 * reached. */
static bool page_show(struct call *call, struct pages *pages) {
    const struct cli_reader *reader = &call->client.reader;
    uint64_t limit = call->settings->limit;
    uint64_t most = limit == 0 ? UINT64_MAX : limit - pages->shown;
    uint32_t name = 0;
    uint32_t array = cli_list_find(reader, &name);
    uint64_t has = array != 0 ? reader->nodes[array].count : 0;
    if (call->settings->json) {
        json_page(reader, pages->begun, pages->shown == 0, most, call->out);
        pages->begun = true;
    } else {
        pages->broken = !cli_list_show(&pages->list, reader, most, call->out);
    }
    pages->shown += has < most ? has : most;
    pages->cursor = 0;
    (void)cli_node_number(reader, cli_node_find(reader, 0, "cursor"), &pages->cursor);
    return !pages->broken && !call->request.one_page && pages->cursor != 0 &&
           (limit == 0 || pages->shown < limit);
}

/* How long to wait for the reply. A request with WAIT may take that much longer. */
static uint64_t patience(const struct cli_words *words, const struct cli_settings *settings) {
    uint64_t seconds = 0;
    for (uint32_t i = 0; i + 1 < words->count; i++) {
        if (protocol_word_is(words->at[i], "WAIT", 4) &&
            !tn_duration_parse(words->at[i + 1], &seconds)) {
            seconds = 0;
        }
    }
    return settings->timeout_ms == CLI_NO_TIMEOUT ? CLI_NO_TIMEOUT
                                                  : settings->timeout_ms + seconds * 1000;
}

static enum cli_link page_next(struct call *call, const struct pages *pages) {
    char cursor[KERNEL_VALUE_TEXT_MAX];
    struct cli_words *words = &call->request.words;
    uint32_t len = kernel_value_format(KERNEL_DEC, pages->cursor, cursor);
    cli_words_put(words, "CURSOR");
    cli_words_add(words, tn_bytes_of(cursor, len));
    enum cli_link link =
        cli_client_call(&call->client, words->at, words->count, patience(words, call->settings));
    words->count -= words->failed ? 0 : 2;
    return link;
}

static int pages_all(struct call *call) {
    const struct os *os = call->settings->os;
    struct pages pages = {.list = {.now_ms = os->clock_wall_ms(os->ctx)}};
    pages.list.table.screen = call->screen;
    pages.list.table.changes = call->changes;
    while (page_show(call, &pages)) {
        enum cli_link link = page_next(call, &pages);
        if (link != CLI_LINK_OK) {
            cli_table_free(&pages.list.table);
            return say_link(call, link);
        }
        if (call->client.reader.nodes[0].type == CLI_ERROR) {
            cli_table_free(&pages.list.table);
            return say_refusal(call);
        }
    }
    if (call->settings->json) {
        json_end(&call->client.reader, call->out);
    } else if (pages.shown == 0 && pages.list.what != NULL) {
        (void)fprintf(call->changes != NULL ? call->out : call->err, "no %s\n", pages.list.what);
    }
    if (pages.cursor != 0 && !call->request.one_page) {
        (void)fflush(call->out);
        (void)fprintf(call->err,
                      "tenure: there is more; --limit 0 shows all, --cursor %" PRIu64
                      " continues after this page\n",
                      pages.cursor);
    }
    cli_table_free(&pages.list.table);
    return pages.broken ? CLI_FAILED : CLI_OK;
}

/* ---- The call ---- */

static int show(struct call *call) {
    const struct cli_settings *settings = call->settings;
    const struct cli_reader *reader = &call->client.reader;
    if (reader->nodes[0].type == CLI_ERROR) {
        return say_refusal(call);
    }
    if (call->request.is_list && !call->request.one_page) {
        return pages_all(call);
    }
    if (settings->json) {
        struct cli_text text = {.at = NULL};
        cli_json_node(&text, reader, 0);
        (void)fprintf(call->out, "%s\n", text.failed ? "" : text.at);
        int code = text.failed ? CLI_FAILED : CLI_OK;
        cli_text_free(&text);
        return code;
    }
    if (call->request.is_list) {
        return pages_all(call);
    }
    const struct os *os = settings->os;
    struct cli_view view = {
        .screen = call->screen, .changes = call->changes, .now_ms = os->clock_wall_ms(os->ctx)};
    return cli_reply_show(call->request.row, reader, &view, call->out) ? CLI_OK : CLI_FAILED;
}

/* What the last attempt says about the outcome of a write. */
static enum tn_outcome attempt_outcome(const struct call *call, enum cli_link link) {
    if (link != CLI_LINK_OK) {
        return link == CLI_LINK_LOST ? TN_UNKNOWN : TN_REJECTED;
    }
    return call->client.reader.nodes[0].type == CLI_ERROR
               ? cli_refusal_of(cli_node_text(&call->client.reader, 0)).outcome
               : TN_COMMITTED;
}

/* The last attempt did nothing, but an earlier one may have, so the outcome is unknown. */
static int say_doubt(struct call *call, enum cli_link link) {
    struct cli_text text = {.at = NULL};
    if (link == CLI_LINK_OK) {
        cli_text_clean(&text, cli_node_text(&call->client.reader, 0));
        (void)snprintf(call->client.error, sizeof call->client.error,
                       "the retry was refused: %.200s", text.failed ? "" : text.at);
        cli_text_free(&text);
    }
    return say_link(call, CLI_LINK_LOST);
}

#define FAIL_OVER_MS 15000u /* time for trying several nodes */

/* Whether the node does not own the log, so nothing has happened. */
static bool is_elsewhere(const struct call *call, enum cli_link link) {
    if (link != CLI_LINK_OK || call->client.reader.nodes[0].type != CLI_ERROR) {
        return false;
    }
    struct cli_refusal refusal = cli_refusal_of(cli_node_text(&call->client.reader, 0));
    return refusal.known && (refusal.code == TN_R_READONLY || refusal.code == TN_R_MASTERDOWN);
}

/* Goes to the owner that a follower has named. Only once. */
static bool move(struct call *call) {
    struct cli_refusal refusal = cli_refusal_of(cli_node_text(&call->client.reader, 0));
    struct tn_bytes facts = refusal.facts;
    struct tn_bytes key, value;
    while (!call->moved && call->settings->node_count == 0 &&
           cli_refusal_fact(&facts, &key, &value)) {
        if (tn_bytes_equal(key, tn_bytes_of("leader", 6))) {
            call->elsewhere = *call->settings;
            call->elsewhere.socket[0] = '\0';
            call->moved = cli_settings_address(&call->elsewhere, value);
        }
    }
    if (call->moved && call->settings != &call->elsewhere) {
        call->settings = &call->elsewhere;
        return true;
    }
    return false;
}

/* Whether another attempt is harmless and may help. */
static bool may_repeat(const struct call *call, enum cli_link link, bool elsewhere,
                       uint64_t until_ms) {
    const struct os *os = call->settings->os;
    bool harmless = call->used_opid != NULL || call->request.row->kind == PROTOCOL_READ ||
                    link == CLI_LINK_UNREACHABLE || elsewhere;
    return call->settings->node_count > 1 && harmless && !call->client.login &&
           !call->client.ownerless && os->clock_boot_ms(os->ctx) < until_ms;
}

static int run(struct call *call) {
    const struct os *os = call->settings->os;
    const struct cli_words *words = &call->request.words;
    uint64_t until_ms = os->clock_boot_ms(os->ctx) + FAIL_OVER_MS;
    bool doubt = false; /* an earlier attempt may have been executed */
    for (uint64_t attempt = 0;; attempt++) {
        const struct cli_settings *settings = call->settings;
        enum cli_link link = cli_client_open(&call->client, settings);
        if (link == CLI_LINK_OK) {
            link =
                cli_client_call(&call->client, words->at, words->count, patience(words, settings));
        }
        enum tn_outcome outcome = attempt_outcome(call, link);
        /* Retrying can help: no server answered, the answer was lost, or the outcome is unknown. */
        bool elsewhere = is_elsewhere(call, link);
        bool transient = link != CLI_LINK_OK || outcome == TN_UNKNOWN || elsewhere;
        if (elsewhere && move(call)) {
            cli_client_close(&call->client);
            continue;
        }
        if (!transient ||
            (attempt >= settings->retries && !may_repeat(call, link, elsewhere, until_ms))) {
            bool doubtful = doubt && outcome == TN_REJECTED && call->used_opid != NULL;
            int code = doubtful              ? say_doubt(call, link)
                       : link == CLI_LINK_OK ? show(call)
                                             : say_link(call, link);
            cli_client_close(&call->client);
            return code;
        }
        doubt = doubt || outcome == TN_UNKNOWN;
        cli_client_close(&call->client);
        cli_wait_ms(attempt < 5 ? (uint64_t)100 << attempt : 3000);
    }
}

/* Makes the operation id tenure-<random>, which is unique. */
static bool opid_make(struct call *call) {
    uint8_t random[OPID_BYTES];
    const struct os *os = call->settings->os;
    if (call->settings->opid != NULL) {
        call->used_opid = call->settings->opid;
    } else {
        if (os->random(os->ctx, random, sizeof random) != TN_OK) {
            (void)fprintf(call->err, "tenure: no random numbers for an operation id\n");
            return false;
        }
        int len = snprintf(call->opid, sizeof call->opid, "tenure-");
        for (unsigned i = 0; i < OPID_BYTES; i++) {
            len += snprintf(call->opid + len, sizeof call->opid - (size_t)len, "%02x", random[i]);
        }
        call->used_opid = call->opid;
    }
    cli_words_put(&call->request.words, "OPID");
    cli_words_put(&call->request.words, call->used_opid);
    return true;
}

static int prepare(struct call *call) {
    struct cli_request *request = &call->request;
    if (call->settings->opid != NULL && (!request->takes_opid || request->opid != NULL)) {
        (void)fprintf(stderr, request->opid != NULL ? "tenure: OPID is repeated\n"
                                                    : "tenure: --opid is only for writes\n");
        return CLI_USAGE;
    }
    call->used_opid = request->opid;
    if (request->takes_opid && request->opid == NULL && !opid_make(call)) {
        return CLI_FAILED;
    }
    if (request->is_list && !request->one_page) {
        uint64_t limit = call->settings->limit;
        uint64_t page = limit == 0 || limit > PROTOCOL_PAGE_MAX ? PROTOCOL_PAGE_MAX : limit;
        uint32_t len = kernel_value_format(KERNEL_DEC, page, call->page);
        cli_words_put(&request->words, "COUNT");
        cli_words_add(&request->words, tn_bytes_of(call->page, len));
    }
    return request->words.failed ? CLI_FAILED : CLI_OK;
}

/* ---- Again and again ---- */

#define ROUND_MS 5000u /* limits the wait for an answer, so that a key is handled soon */

/* Whether the command only reads. Some commands that log nothing issue tokens or end
 * connections. */
static bool may_watch(const struct protocol_command *row) {
    return (row->kind == PROTOCOL_READ && row->method != NULL && strcmp(row->method, "GET") == 0) ||
           protocol_command_has(row, PROTOCOL_WATCH);
}

struct watched {
    struct call *call;
    struct cli_settings settings;
    struct cli_watch watch;
};

static void round_run(void *ctx, struct cli_round *round) {
    struct watched *watched = ctx;
    struct call *call = watched->call;
    struct cli_text *texts[2] = {&round->out, &round->error};
    FILE **files[2] = {&call->out, &call->err};
    bool good = true;
    for (unsigned i = 0; i < 2; i++) {
        *files[i] = open_memstream(&texts[i]->at, &texts[i]->len);
        good = good && *files[i] != NULL;
    }
    call->settings = &watched->settings; /* another node may own the log by now */
    call->moved = false;
    call->screen = cli_screen_of(stdout);
    call->screen.width -= call->screen.tty ? strlen(cli_change_mark(CLI_SAME)) : 0;
    round->code = good ? run(call) : CLI_FAILED;
    for (unsigned i = 0; i < 2; i++) {
        if (*files[i] != NULL) {
            round->code = fclose(*files[i]) == 0 ? round->code : CLI_FAILED;
            texts[i]->capacity = texts[i]->len + 1;
        }
    }
}

static int watch(struct call *call) {
    struct watched watched = {.call = call, .settings = *call->settings};
    struct cli_settings *own = &watched.settings;
    if (!may_watch(call->request.row)) {
        (void)fprintf(stderr, "tenure: --watch is only for commands that read\n");
        return CLI_USAGE;
    }
    own->timeout_ms =
        own->timeout_ms == 0 || own->timeout_ms > ROUND_MS ? ROUND_MS : own->timeout_ms;
    watched.watch = (struct cli_watch){.settings = own,
                                       .argc = call->argc,
                                       .argv = call->argv,
                                       .round = round_run,
                                       .ctx = &watched};
    call->changes = own->json ? NULL : &watched.watch.changes;
    return cli_watch_run(&watched.watch);
}

int cli_call(const struct cli_settings *settings, int argc, char **argv) {
    struct call call = {.settings = settings,
                        .argc = argc,
                        .argv = argv,
                        .out = stdout,
                        .err = stderr,
                        .screen = cli_screen_of(stdout)};
    int code = CLI_USAGE;
    if (cli_request_make(argc, argv, &call.request)) {
        code = prepare(&call);
        if (code == CLI_OK) {
            code = settings->watch_ms > 0 ? watch(&call) : run(&call);
        }
    }
    cli_request_free(&call.request);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        (void)fprintf(stderr, "tenure: cannot write to standard output\n");
        return code == CLI_OK ? CLI_FAILED : code;
    }
    return code;
}
