/* Reads all pages of a list. For events, `more` decides, because a filtered page may be empty. */
#include "cli/scan.h"

#include <inttypes.h>
#include <string.h>

#include "cli/arguments.h"
#include "cli/show_json.h"

struct tn_bytes cli_field(const struct cli_reader *reader, uint32_t map, const char *name) {
    uint32_t node = cli_node_find(reader, map, name);
    return node != 0 && reader->nodes[node].type != CLI_NULL ? cli_node_text(reader, node)
                                                             : tn_bytes_of("", 0);
}

uint64_t cli_field_number(const struct cli_reader *reader, uint32_t map, const char *name) {
    uint32_t node = cli_node_find(reader, map, name);
    uint64_t number = 0;
    return node != 0 && cli_node_number(reader, node, &number) ? number : 0;
}

bool cli_field_is(const struct cli_reader *reader, uint32_t map, const char *name,
                  const char *text) {
    return tn_bytes_equal(cli_field(reader, map, name), tn_bytes_of(text, strlen(text)));
}

int cli_reply_told(const struct cli_client *client) {
    if (client->reader.nodes[0].type != CLI_ERROR) {
        return CLI_OK;
    }
    struct tn_bytes text = cli_node_text(&client->reader, 0);
    struct cli_refusal refusal = cli_refusal_of(text);
    struct cli_text line = {.at = NULL};
    cli_text_clean(&line, text);
    (void)fprintf(stderr, "tenure: %s\n", line.failed ? "" : line.at);
    cli_text_free(&line);
    return refusal.known ? tn_result_exit(refusal.code) : CLI_FAILED;
}

int cli_ask(const struct cli_settings *settings, struct cli_client *client,
            const struct tn_bytes *words, uint32_t count) {
    if (cli_client_call(client, words, count, settings->timeout_ms) != CLI_LINK_OK) {
        return cli_client_unreachable(client);
    }
    return cli_reply_told(client);
}

/* A page that begins `where` (AFTER, CURSOR) it says. */
static int page_ask(const struct cli_scan *scan, const char *command, const char *where,
                    const char *place) {
    struct cli_words words = {.at = NULL};
    cli_words_put(&words, command);
    cli_words_put(&words, where);
    cli_words_put(&words, place);
    cli_words_put(&words, "COUNT");
    cli_words_put(&words, "1000");
    if (scan->pool != NULL) {
        cli_words_put(&words, "POOL");
        cli_words_put(&words, scan->pool);
    }
    if (scan->holder != NULL) {
        cli_words_put(&words, "HOLDER");
        cli_words_put(&words, scan->holder);
    }
    int code =
        words.failed ? CLI_FAILED : cli_ask(scan->settings, scan->client, words.at, words.count);
    cli_words_free(&words);
    return code;
}

/* False: that was all. */
static bool page_visit(struct cli_scan *scan, cli_scan_visit *visit, void *ctx) {
    const struct cli_reader *reader = &scan->client->reader;
    uint32_t array = cli_node_find(reader, 0, "events");
    for (uint32_t at = array + 1; array != 0 && at < reader->nodes[array].end;
         at = reader->nodes[at].end) {
        struct cli_event_id id = {0, 0};
        (void)cli_event_id_parse(cli_field(reader, at, "id"), &id);
        if (id.lsn > scan->until_lsn || !visit(ctx, reader, at)) {
            return false;
        }
    }
    return true;
}

int cli_scan_events(struct cli_scan *scan, cli_scan_visit *visit, void *ctx) {
    char after[CLI_EVENT_ID_TEXT];
    bool more = true;
    (void)snprintf(after, sizeof after, "%" PRIu64, scan->after_lsn);
    for (bool first = true; more; first = false) {
        const struct cli_reader *reader = &scan->client->reader;
        struct cli_event_id next = {0, 0};
        int code = page_ask(scan, "EVENTS", "AFTER", after);
        if (code != CLI_OK) {
            return code;
        }
        scan->lost = scan->lost || cli_field_is(reader, 0, "lost", "t");
        scan->lsn = cli_field_number(reader, 0, "lsn");
        if (first) {
            scan->lsn_first = scan->lsn;
            scan->kept = cli_event_id_parse(cli_field(reader, 0, "oldest"), &scan->oldest);
        }
        more = cli_field_is(reader, 0, "more", "t") &&
               cli_event_id_parse(cli_field(reader, 0, "next"), &next) &&
               next.lsn <= scan->until_lsn;
        more = page_visit(scan, visit, ctx) && more;
        cli_event_id_format(next, after);
    }
    return CLI_OK;
}

int cli_scan_leases(struct cli_scan *scan, cli_scan_visit *visit, void *ctx) {
    const struct cli_reader *reader = &scan->client->reader;
    uint64_t cursor = 0;
    scan->lsn_first = 0;
    do {
        char place[24];
        (void)snprintf(place, sizeof place, "%" PRIu64, cursor);
        int code = page_ask(scan, "LEASES", "CURSOR", place);
        if (code != CLI_OK) {
            return code;
        }
        scan->lsn = cli_field_number(reader, 0, "lsn");
        scan->lsn_first = scan->lsn_first == 0 ? scan->lsn : scan->lsn_first;
        uint32_t array = cli_node_find(reader, 0, "leases");
        for (uint32_t at = array + 1; array != 0 && at < reader->nodes[array].end;
             at = reader->nodes[at].end) {
            if (!visit(ctx, reader, at)) {
                return CLI_OK;
            }
        }
        cursor = cli_field_number(reader, 0, "cursor");
    } while (cursor != 0);
    return CLI_OK;
}
