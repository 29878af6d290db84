/* Events for display, parsed once from JSON, from pages and pushes alike. */
#ifndef TN_CLI_EVENT_ROW_H
#define TN_CLI_EVENT_ROW_H

#include "cli/columns.h"

struct json_t;

struct cli_event_id {
    uint64_t lsn, index;
};

bool cli_event_id_parse(struct tn_bytes text, struct cli_event_id *ret_id);
int cli_event_id_compare(struct cli_event_id a, struct cli_event_id b);
#define CLI_EVENT_ID_TEXT 48u
void cli_event_id_format(struct cli_event_id id, char out[CLI_EVENT_ID_TEXT]);

struct cli_event {
    struct json_t *json; /* owned */
    struct cli_event_id id;
    bool lost; /* not an event: some events before the next one are no longer retained */
};

/* False: not an event. */
bool cli_event_parse(struct tn_bytes text, struct cli_event *ret_event);
void cli_event_free(struct cli_event *event);
/* Whether the holder is the current or the previous holder. */
bool cli_event_concerns(const struct cli_event *event, const char *holder);

/* The columns of a table of events, and a row for each event. */
void cli_event_columns(struct cli_table *table);
void cli_event_row(struct cli_table *table, const struct cli_event *event, uint64_t now_ms);

#endif
