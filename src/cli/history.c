/* `tenure history`: the holders of a value, or the values of a holder, from the retained events.
 *
 * A stint is one holder's time with one lease: it begins when the lease is created or rekeyed to
 * the holder, and ends with the lease or a rekey to another holder. A stint that began before the
 * oldest retained event has no known beginning, unless its lease is live and shows its creation. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "cli/columns.h"
#include "cli/options.h"
#include "cli/scan.h"
#include "kernel/result.h"

struct author {
    char *actor, *text; /* owned; NULL: none */
};

struct stint {
    char *lease, *holder, *what; /* owned; `what` has the values */
    char *end;                   /* how it ended; NULL: it has not */
    struct author ended;         /* the user that ended it, and the given reason */
    struct author revoked;       /* the user that revoked it, if it ended later */
    uint64_t epoch;
    uint64_t from_ms, to_ms; /* 0: not known, or not over */
    uint32_t before;         /* position + 1 of the previous one in the same chain; 0: none */
};

#define CHAINS 65536u

struct history {
    const struct cli_settings *settings;
    const char *pool, *holder; /* NULL: not given */
    const char *value;
    char canonical[KERNEL_VALUE_TEXT_MAX];
    struct cli_client client;
    struct cli_scan scan;
    struct stint *stints;
    uint32_t count, capacity;
    /* By hash of the lease: position + 1 of the newest; `before` links the others. */
    uint32_t *newest;
    bool failed; /* no memory */
};

static char *copy(struct history *history, struct tn_bytes text) {
    char *out = malloc((size_t)text.len + 1);
    if (out == NULL) {
        history->failed = true;
        return NULL;
    }
    if (text.len > 0) {
        memcpy(out, text.at, text.len);
    }
    out[text.len] = '\0';
    return out;
}

/* ---- Stints ---- */

static bool text_is(const char *known, struct tn_bytes text) {
    return known != NULL && tn_bytes_equal(text, tn_bytes_of(known, strlen(known)));
}

static uint32_t chain_of(struct tn_bytes lease) {
    return (uint32_t)tn_hash64(lease.at, lease.len, 1) % CHAINS;
}

/* The one that has not ended; NULL: there is none. */
static struct stint *open_find(const struct history *history, struct tn_bytes lease) {
    uint32_t at = history->newest[chain_of(lease)];
    while (at != 0) {
        struct stint *stint = &history->stints[at - 1];
        if (stint->end == NULL && text_is(stint->lease, lease)) {
            return stint;
        }
        at = stint->before;
    }
    return NULL;
}

/* "ports/30000,30001 gpus/gpu-1" */
static void what_write(struct cli_text *text, const struct cli_reader *reader, uint32_t map) {
    uint32_t values = cli_node_find(reader, map, "values");
    uint32_t pools = cli_node_find(reader, map, "pools");
    struct tn_bytes last = tn_bytes_of("", 0);
    for (uint32_t value = values + 1, pool = pools + 1;
         values != 0 && pools != 0 && value < reader->nodes[values].end &&
         pool < reader->nodes[pools].end;
         value = reader->nodes[value].end, pool = reader->nodes[pool].end) {
        struct tn_bytes name = cli_node_text(reader, pool);
        struct tn_bytes number = cli_node_text(reader, value);
        bool same = tn_bytes_equal(name, last);
        cli_text_put(text, last.len == 0 ? "" : (same ? "," : " "));
        cli_text_add(text, name.at, same ? 0 : name.len);
        cli_text_put(text, same ? "" : "/");
        cli_text_add(text, number.at, number.len);
        last = name;
    }
}

static struct stint *stint_add(struct history *history, const struct cli_reader *reader,
                               uint32_t map, struct tn_bytes holder, uint64_t from_ms) {
    struct cli_text what = {.at = NULL};
    if (history->count == history->capacity) {
        uint32_t capacity = history->capacity == 0 ? 64 : 2 * history->capacity;
        struct stint *stints = realloc(history->stints, capacity * sizeof *stints);
        if (stints == NULL) {
            history->failed = true;
            return NULL;
        }
        history->stints = stints;
        history->capacity = capacity;
    }
    what_write(&what, reader, map);
    struct stint *stint = &history->stints[history->count];
    *stint = (struct stint){.lease = copy(history, cli_field(reader, map, "lease")),
                            .holder = copy(history, holder),
                            .what = copy(history, tn_bytes_of(what.at, what.len)),
                            .epoch = cli_field_number(reader, map, "epoch"),
                            .from_ms = from_ms};
    uint32_t *newest = &history->newest[chain_of(cli_field(reader, map, "lease"))];
    stint->before = *newest;
    *newest = ++history->count;
    cli_text_free(&what);
    return stint;
}

static void author_free(struct author *author) {
    free(author->actor);
    free(author->text);
}

static void author_take(struct history *history, struct author *author,
                        const struct cli_reader *reader, uint32_t event) {
    struct tn_bytes actor = cli_field(reader, event, "actor");
    struct tn_bytes text = cli_field(reader, event, "reason_text");
    author_free(author);
    author->actor = actor.len > 0 ? copy(history, actor) : NULL;
    author->text = text.len > 0 ? copy(history, text) : NULL;
}

/* Ends it with this event. */
static void stint_end(struct history *history, struct stint *stint, struct tn_bytes how,
                      const struct cli_reader *reader, uint32_t event) {
    if (stint != NULL && stint->end == NULL) {
        stint->end = copy(history, how);
        stint->to_ms = cli_field_number(reader, event, "time");
        author_take(history, &stint->ended, reader, event);
    }
}

/* ---- Events ---- */

static bool concerns(const struct history *history, const struct cli_reader *reader,
                     uint32_t event) {
    uint32_t values = cli_node_find(reader, event, "values");
    uint32_t pools = cli_node_find(reader, event, "pools");
    if (history->value == NULL) {
        return values != 0;
    }
    for (uint32_t value = values + 1, pool = pools + 1;
         values != 0 && pools != 0 && value < reader->nodes[values].end &&
         pool < reader->nodes[pools].end;
         value = reader->nodes[value].end, pool = reader->nodes[pool].end) {
        if (cli_node_is(reader, value, history->value) &&
            cli_node_is(reader, pool, history->pool)) {
            return true;
        }
    }
    return false;
}

static bool is_end(struct tn_bytes kind) {
    return text_is("lease.released", kind) || text_is("lease.expired", kind) ||
           text_is("lease.revoked", kind);
}

static bool event_take(void *ctx, const struct cli_reader *reader, uint32_t event) {
    struct history *history = ctx;
    struct tn_bytes kind = cli_field(reader, event, "kind");
    struct tn_bytes lease = cli_field(reader, event, "lease");
    struct tn_bytes holder = cli_field(reader, event, "holder");
    struct tn_bytes before = cli_field(reader, event, "previous_holder");
    uint64_t time = cli_field_number(reader, event, "time");
    if (lease.len == 0 || !concerns(history, reader, event)) {
        return true;
    }
    struct stint *stint = open_find(history, lease);
    bool rekeyed = text_is("lease.rekeyed", kind) && before.len > 0;
    bool born = text_is("lease.reserved", kind) || text_is("lease.active", kind);
    if (stint == NULL) {
        stint = stint_add(history, reader, event, rekeyed ? before : holder, born ? time : 0);
    }
    if (rekeyed) {
        stint_end(history, stint, tn_bytes_of("rekeyed", 7), reader, event);
        stint = stint_add(history, reader, event, holder, time);
    }
    if (stint != NULL && is_end(kind)) {
        stint_end(history, stint, cli_field(reader, event, "reason"), reader, event);
    } else if (stint != NULL && text_is("lease.revoking", kind)) {
        author_take(history, &stint->revoked, reader, event);
        stint->epoch = cli_field_number(reader, event, "epoch");
    } else if (stint != NULL && stint->end == NULL) {
        stint->epoch = cli_field_number(reader, event, "epoch");
    }
    return !history->failed;
}

/* ---- What lives ---- */

/* A lease without events began before the oldest retained event. */
static bool live_take(void *ctx, const struct cli_reader *reader, uint32_t map) {
    struct history *history = ctx;
    struct tn_bytes lease = cli_field(reader, map, "lease");
    uint64_t ended = cli_field_number(reader, map, "ended");
    struct stint *stint = open_find(history, lease);
    if (ended != 0) {
        return true;
    }
    if (stint == NULL) {
        stint = stint_add(history, reader, map, cli_field(reader, map, "holder"),
                          cli_field_number(reader, map, "created"));
    }
    if (stint != NULL && stint->from_ms == 0) {
        stint->from_ms = cli_field_number(reader, map, "created");
    }
    return !history->failed;
}

static int live_of_value(struct history *history) {
    struct cli_text name = {.at = NULL};
    struct tn_bytes words[2] = {tn_bytes_of("LEASE", 5)};
    cli_text_printf(&name, "%s/%s", history->pool, history->value);
    words[1] = tn_bytes_of(name.at, name.len);
    enum cli_link link = cli_client_call(&history->client, words, 2, history->settings->timeout_ms);
    cli_text_free(&name);
    if (link != CLI_LINK_OK) {
        return cli_client_unreachable(&history->client);
    }
    if (history->client.reader.nodes[0].type != CLI_ERROR) { /* otherwise the value is free */
        (void)live_take(history, &history->client.reader, 0);
    }
    return CLI_OK;
}

/* ---- Showing ---- */

static int by_start(const void *a, const void *b) {
    const struct stint *x = a;
    const struct stint *y = b;
    return x->from_ms < y->from_ms ? -1 : x->from_ms > y->from_ms;
}

static bool is_shown(const struct history *history, const struct stint *stint) {
    return history->holder == NULL || strcmp(stint->holder, history->holder) == 0;
}

static void time_cell(struct cli_table *table, uint64_t ms, const char *none, uint64_t now_ms) {
    struct cli_text text = {.at = NULL};
    if (ms == 0) {
        cli_table_put(table, none);
        return;
    }
    if (table->screen.tty) {
        cli_text_moment(&text, ms, now_ms);
    } else {
        cli_text_time(&text, ms, now_ms);
    }
    cli_table_cell(table, tn_bytes_of(text.at, text.len));
    cli_text_free(&text);
}

static void author_put(struct cli_text *text, const struct author *author) {
    if (author->actor != NULL) {
        cli_text_printf(text, " by %s", author->actor);
    }
    if (author->text != NULL) {
        cli_text_printf(text, ": %s", author->text);
    }
}

/* Writes how it ended, such as "reclaimed by bob (revoked by alice: the disk fails)". */
static void end_cell(struct cli_table *table, const struct stint *stint) {
    struct cli_text text = {.at = NULL};
    cli_text_put(&text, stint->end != NULL ? stint->end : "has it");
    author_put(&text, &stint->ended);
    if (stint->revoked.actor != NULL || stint->revoked.text != NULL) {
        cli_text_put(&text, " (revoked");
        author_put(&text, &stint->revoked);
        cli_text_put(&text, ")");
    }
    cli_table_cell(table, tn_bytes_of(text.at, text.len));
    table->bytes.failed = table->bytes.failed || text.failed;
    cli_text_free(&text);
}

static void columns_make(struct cli_table *table) {
    static const struct {
        const char *name;
        bool fixed;
        uint8_t spare;
    } columns[] = {{"FROM", true, 0},  {"TO", true, 0},     {"HOLDER", false, 0},
                   {"WHAT", false, 0}, {"ENDED", false, 0}, {"LEASE", true, 1},
                   {"EPOCH", true, 2}};
    for (unsigned i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        cli_table_column(table, columns[i].name, columns[i].spare == 2);
        table->columns[i].fixed = columns[i].fixed;
        table->columns[i].spare = columns[i].spare;
    }
}

static bool table_show(const struct history *history) {
    const struct os *os = history->settings->os;
    uint64_t now = os->clock_wall_ms(os->ctx);
    struct cli_table table = {.screen = cli_screen_of(stdout)};
    char epoch[24];
    columns_make(&table);
    for (uint32_t i = 0; i < history->count; i++) {
        const struct stint *stint = &history->stints[i];
        if (is_shown(history, stint)) {
            (void)snprintf(epoch, sizeof epoch, "%" PRIu64, stint->epoch);
            time_cell(&table, stint->from_ms, "before that", now);
            time_cell(&table, stint->to_ms, "now", now);
            cli_table_put(&table, stint->holder);
            cli_table_put(&table, stint->what);
            end_cell(&table, stint);
            cli_table_put(&table, stint->lease);
            cli_table_put(&table, epoch);
        }
    }
    bool good = table.cell_count == 0 || cli_table_flush(&table, stdout);
    if (table.cell_count == 0 && history->count == 0) {
        (void)fprintf(stderr, "no holder is known\n");
    }
    cli_table_free(&table);
    return good;
}

static void json_time(struct cli_text *text, const char *name, uint64_t ms) {
    if (ms != 0) {
        cli_text_printf(text, ",\"%s\":\"%" PRIu64 "\"", name, ms);
    } else {
        cli_text_printf(text, ",\"%s\":null", name);
    }
}

static void json_string(struct cli_text *text, const char *name, const char *value) {
    cli_text_printf(text, "%s:", name);
    cli_text_json(text, tn_bytes_of(value, strlen(value)));
}

static void json_author(struct cli_text *text, const struct author *author, const char *actor_name,
                        const char *text_name) {
    if (author->actor != NULL) {
        json_string(text, actor_name, author->actor);
    }
    if (author->text != NULL) {
        json_string(text, text_name, author->text);
    }
}

static bool json_show(const struct history *history) {
    struct cli_text text = {.at = NULL};
    char oldest[CLI_EVENT_ID_TEXT];
    bool first = true;
    cli_text_put(&text, "{\"history\":[");
    for (uint32_t i = 0; i < history->count; i++) {
        const struct stint *stint = &history->stints[i];
        if (is_shown(history, stint)) {
            json_string(&text, first ? "{\"holder\"" : ",{\"holder\"", stint->holder);
            json_string(&text, ",\"what\"", stint->what);
            json_string(&text, ",\"lease\"", stint->lease);
            cli_text_printf(&text, ",\"epoch\":\"%" PRIu64 "\"", stint->epoch);
            json_time(&text, "from", stint->from_ms);
            json_time(&text, "to", stint->to_ms);
            if (stint->end != NULL) {
                json_string(&text, ",\"end\"", stint->end);
            }
            json_author(&text, &stint->ended, ",\"ended_by\"", ",\"ended_text\"");
            json_author(&text, &stint->revoked, ",\"revoked_by\"", ",\"revoked_text\"");
            cli_text_printf(&text, ",\"current\":%s}", stint->end == NULL ? "true" : "false");
            first = false;
        }
    }
    cli_event_id_format(history->scan.oldest, oldest);
    cli_text_printf(&text, "],\"oldest_event\":%s%s%s}\n", history->scan.kept ? "\"" : "",
                    history->scan.kept ? oldest : "null", history->scan.kept ? "\"" : "");
    (void)fputs(text.failed ? "" : text.at, stdout);
    bool good = !text.failed;
    cli_text_free(&text);
    return good;
}

static int show(struct history *history) {
    char oldest[CLI_EVENT_ID_TEXT];
    if (history->failed) {
        (void)fprintf(stderr, "tenure history: out of memory\n");
        return CLI_FAILED;
    }
    if (history->count > 0) {
        qsort(history->stints, history->count, sizeof *history->stints, by_start);
    }
    bool good = history->settings->json ? json_show(history) : table_show(history);
    (void)fflush(stdout);
    if (!history->settings->json && history->scan.kept) {
        cli_event_id_format(history->scan.oldest, oldest);
        (void)fprintf(stderr, "events are retained since %s\n", oldest);
    }
    return good && !ferror(stdout) ? CLI_OK : CLI_FAILED;
}

/* ---- Asking ---- */

/* Gets the value as the server writes it: 52:54:00:AA:BB:CC is the same address in either case. */
static int value_normalize(struct history *history) {
    size_t base = strcspn(history->pool, "@");
    const struct tn_bytes words[] = {tn_bytes_of("POOL", 4), tn_bytes_of("INFO", 4),
                                     tn_bytes_of(history->pool, base)};
    int code = cli_ask(history->settings, &history->client, words, 3);
    const struct cli_reader *reader = &history->client.reader;
    if (code != CLI_OK) {
        return code;
    }
    uint32_t options = cli_node_find(reader, 0, "options");
    if (options == 0 || cli_field_is(reader, options, "kind", "set")) {
        return CLI_OK;
    }
    uint64_t number;
    enum kernel_format format = cli_field_is(reader, options, "format", "mac")    ? KERNEL_MAC
                                : cli_field_is(reader, options, "format", "hex")  ? KERNEL_HEX
                                : cli_field_is(reader, options, "format", "ipv4") ? KERNEL_IPV4
                                                                                  : KERNEL_DEC;
    if (!kernel_value_parse(format, tn_bytes_of(history->value, strlen(history->value)), &number)) {
        (void)fprintf(stderr, "tenure history: %s is not a value of %s\n", history->value,
                      history->pool);
        return tn_result_exit(TN_R_BAD_VALUE);
    }
    (void)kernel_value_format(format, number, history->canonical);
    history->value = history->canonical;
    return CLI_OK;
}

static int run(struct history *history) {
    const struct cli_settings *settings = history->settings;
    if (cli_client_open(&history->client, settings) != CLI_LINK_OK) {
        return cli_client_unreachable(&history->client);
    }
    history->scan = (struct cli_scan){.settings = settings,
                                      .client = &history->client,
                                      .pool = history->pool,
                                      .holder = history->holder,
                                      .until_lsn = UINT64_MAX};
    int code = history->value != NULL ? value_normalize(history) : CLI_OK;
    code = code == CLI_OK ? cli_scan_events(&history->scan, event_take, history) : code;
    if (code == CLI_OK) {
        code = history->value != NULL ? live_of_value(history)
                                      : cli_scan_leases(&history->scan, live_take, history);
    }
    return code == CLI_OK ? show(history) : code;
}

int cli_history(const struct cli_settings *settings, int argc, char **argv) {
    struct history history = {.settings = settings, .client = {.socket = -1}};
    int code = CLI_FAILED;
    const char *places[2] = {NULL, NULL};
    const char *pool = NULL;
    const struct cli_option rows[] = {{"--holder", &history.holder, NULL}, {"--pool", &pool, NULL}};
    const struct cli_options options = {
        "history", "POOL VALUE | --holder HOLDER [--pool POOL]", rows, 2, places, 2};
    if (!cli_options_parse(&options, argc, argv)) {
        return CLI_USAGE;
    }
    bool of_value = history.holder == NULL && pool == NULL && places[1] != NULL;
    if (!of_value && (history.holder == NULL || places[0] != NULL)) {
        (void)cli_options_wrong(&options, "specify POOL VALUE or --holder", "");
        return CLI_USAGE;
    }
    history.pool = of_value ? places[0] : pool;
    history.value = of_value ? places[1] : NULL;
    history.newest = calloc(CHAINS, sizeof *history.newest);
    if (history.newest != NULL) {
        code = run(&history);
    }
    cli_client_close(&history.client);
    for (uint32_t i = 0; i < history.count; i++) {
        free(history.stints[i].lease);
        free(history.stints[i].holder);
        free(history.stints[i].what);
        free(history.stints[i].end);
        author_free(&history.stints[i].ended);
        author_free(&history.stints[i].revoked);
    }
    free(history.stints);
    free(history.newest);
    return code;
}
