/* Replies for people: a card for one thing, a table for many. */
#ifndef TN_CLI_SHOW_H
#define TN_CLI_SHOW_H

#include "cli/columns.h"
#include "cli/reply_reader.h"
#include "protocol/table.h"

/* Where and when something is shown. */
struct cli_view {
    struct cli_screen screen;
    struct cli_changes *changes; /* NULL: nothing is compared */
    uint64_t now_ms;
};

/* A list in pages; zero but for `screen` and `changes` before the first. */
struct cli_list {
    struct cli_table table;
    const char *what; /* "leases", ... */
    uint64_t count;   /* shown so far */
    uint64_t now_ms;
};

/* Adds what the page has, but not more than `most`, and prints it. False: out of memory. */
bool cli_list_show(struct cli_list *list, const struct cli_reader *reader, uint64_t most,
                   FILE *out);
/* The list in a page; 0: there is none. */
uint32_t cli_list_find(const struct cli_reader *reader, uint32_t *ret_name);

/* Any other reply. False: out of memory. */
bool cli_reply_show(const struct protocol_command *row, const struct cli_reader *reader,
                    const struct cli_view *view, FILE *out);

/* One scalar or list of scalars; `key` decides whether a number is a time. */
void cli_show_value(struct cli_text *text, const struct cli_reader *reader, uint32_t node,
                    const char *key, uint64_t now_ms);
/* "ports/30000,30001 gpus/gpu-1", of a lease or an event. */
void cli_show_values(struct cli_text *text, const struct cli_reader *reader, uint32_t map);

#endif
