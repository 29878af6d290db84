/* Events: ids, fields, rows. */
#include "cli/event_row.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

bool cli_event_id_parse(struct tn_bytes text, struct cli_event_id *ret_id) {
    const uint8_t *dot = text.len > 0 ? memchr(text.at, '.', text.len) : NULL;
    if (dot == NULL) {
        return false;
    }
    size_t len = (size_t)(dot - text.at);
    return cli_number_parse(tn_bytes_of(text.at, len), &ret_id->lsn) &&
           cli_number_parse(tn_bytes_of(dot + 1, text.len - len - 1), &ret_id->index);
}

int cli_event_id_compare(struct cli_event_id a, struct cli_event_id b) {
    if (a.lsn != b.lsn) {
        return a.lsn < b.lsn ? -1 : 1;
    }
    return a.index < b.index ? -1 : a.index > b.index;
}

void cli_event_id_format(struct cli_event_id id, char out[CLI_EVENT_ID_TEXT]) {
    (void)snprintf(out, CLI_EVENT_ID_TEXT, "%" PRIu64 ".%" PRIu64, id.lsn, id.index);
}

static const char *field(const struct cli_event *event, const char *name) {
    const char *text = json_string_value(json_object_get(event->json, name));
    return text != NULL ? text : "";
}

bool cli_event_parse(struct tn_bytes text, struct cli_event *ret_event) {
    *ret_event = (struct cli_event){
        .json = json_loadb((const char *)text.at, text.len, JSON_ALLOW_NUL, NULL)};
    const char *id = field(ret_event, "id");
    ret_event->lost = strcmp(field(ret_event, "kind"), "lost") == 0;
    if (!json_is_object(ret_event->json) ||
        (!ret_event->lost && !cli_event_id_parse(tn_bytes_of(id, strlen(id)), &ret_event->id))) {
        cli_event_free(ret_event);
        return false;
    }
    return true;
}

void cli_event_free(struct cli_event *event) {
    json_decref(event->json);
    event->json = NULL;
}

bool cli_event_concerns(const struct cli_event *event, const char *holder) {
    return strcmp(field(event, "holder"), holder) == 0 ||
           strcmp(field(event, "previous_holder"), holder) == 0;
}

/* ---- Rows ---- */

/* Widths for usual contents, because the rows of a live stream are not known in advance. */
static const struct {
    const char *name;
    size_t width;
    bool fixed;
    uint8_t spare; /* the kind of an event says more than its reason */
} columns[] = {{"TIME", 12, true, 0},  {"ID", 8, true, 3},       {"EVENT", 10, true, 0},
               {"LEASE", 6, true, 2},  {"HOLDER", 12, false, 0}, {"WHAT", 18, false, 0},
               {"REASON", 0, false, 1}};

void cli_event_columns(struct cli_table *table) {
    for (unsigned i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        cli_table_column(table, columns[i].name, false);
        table->columns[i].fixed = columns[i].fixed;
        table->columns[i].spare = columns[i].spare;
        if (table->columns[i].natural < columns[i].width) {
            table->columns[i].natural = columns[i].width;
        }
    }
}

/* Writes "ports/30000,30001", or the pool, rule or sensor of the event. */
static void what_write(struct cli_text *text, const struct cli_event *event) {
    const json_t *values = json_object_get(event->json, "values");
    const json_t *pools = json_object_get(event->json, "pools");
    const char *last = "";
    for (size_t i = 0; i < json_array_size(values); i++) {
        const char *value = json_string_value(json_array_get(values, i));
        const char *pool = json_string_value(json_array_get(pools, i));
        bool same = pool == NULL || strcmp(pool, last) == 0;
        cli_text_put(text, i == 0 ? "" : (same ? "," : " "));
        cli_text_printf(text, "%s%s%s", same ? "" : pool, same ? "" : "/",
                        value != NULL ? value : "?");
        last = pool != NULL ? pool : last;
    }
    if (json_array_size(values) == 0) {
        cli_text_put(text, field(event, field(event, "pool")[0] != '\0' ? "pool" : "name"));
    }
    if (field(event, "trigger")[0] != '\0') {
        cli_text_printf(text, "%s%s", text->len > 0 ? " " : "", field(event, "trigger"));
    }
    if (field(event, "number")[0] != '\0') {
        cli_text_printf(text, "%s(%s)", text->len > 0 ? " " : "", field(event, "number"));
    }
}

/* Writes "revoked by alice: the disk fails", with the parts that the event has. */
static void why_write(struct cli_text *text, const struct cli_event *event) {
    const char *actor = field(event, "actor");
    const char *words = field(event, "reason_text");
    cli_text_put(text, field(event, "reason"));
    if (actor[0] != '\0') {
        cli_text_printf(text, "%sby %s", text->len > 0 ? " " : "", actor);
    }
    if (words[0] != '\0') {
        cli_text_printf(text, "%s%s", text->len > 0 ? ": " : "", words);
    }
}

void cli_event_row(struct cli_table *table, const struct cli_event *event, uint64_t now_ms) {
    struct cli_text text = {.at = NULL};
    const char *time = field(event, "time");
    uint64_t ms = 0;
    if (cli_number_parse(tn_bytes_of(time, strlen(time)), &ms)) {
        cli_text_when(&text, ms, now_ms);
    }
    cli_table_cell(table, tn_bytes_of(text.at, text.len));
    cli_table_put(table, field(event, "id"));
    cli_table_put(table, field(event, "kind"));
    cli_table_put(table, field(event, "lease"));
    cli_table_put(table, field(event, "holder"));
    text.len = 0;
    what_write(&text, event);
    cli_table_cell(table, tn_bytes_of(text.at, text.len));
    text.len = 0;
    why_write(&text, event);
    cli_table_cell(table, tn_bytes_of(text.at, text.len));
    table->bytes.failed = table->bytes.failed || text.failed;
    cli_text_free(&text);
}
