/* All events of a span and all leases, page by page, and small helpers to look at replies. */
#ifndef TN_CLI_SCAN_H
#define TN_CLI_SCAN_H

#include "cli/cli.h"
#include "cli/event_row.h"
#include "cli/reply_reader.h"
#include "cli/resp_client.h"

struct cli_scan {
    const struct cli_settings *settings;
    struct cli_client *client;
    const char *pool, *holder;  /* NULL: all */
    uint64_t after_lsn;         /* begin after all events of this; 0: with the oldest */
    uint64_t until_lsn;         /* the last whose events count; UINT64_MAX: all that there are */
    bool lost;                  /* out: some between are no longer kept */
    bool kept;                  /* out: there are events at all */
    struct cli_event_id oldest; /* out: of all that are kept */
    uint64_t lsn_first, lsn;    /* out: where the first page was read, and the last */
};

/* One event or lease: a map in the reader, which also has the page at 0. False ends the scan. */
typedef bool cli_scan_visit(void *ctx, const struct cli_reader *reader, uint32_t map);

/* CLI_OK, or the exit code after standard error has been told. */
int cli_scan_events(struct cli_scan *scan, cli_scan_visit *visit, void *ctx);
/* The same for the leases of a pool or a holder; each page is of a moment of its own. */
int cli_scan_leases(struct cli_scan *scan, cli_scan_visit *visit, void *ctx);

/* CLI_OK; if the reply is an error, the exit code after standard error was told. */
int cli_reply_told(const struct cli_client *client);
/* One request, whose reply is no error. CLI_OK, or the exit code after standard error was told. */
int cli_ask(const struct cli_settings *settings, struct cli_client *client,
            const struct tn_bytes *words, uint32_t count);

/* A field of a map as text or number; empty, 0: there is none. */
struct tn_bytes cli_field(const struct cli_reader *reader, uint32_t map, const char *name);
uint64_t cli_field_number(const struct cli_reader *reader, uint32_t map, const char *name);
bool cli_field_is(const struct cli_reader *reader, uint32_t map, const char *name,
                  const char *text);

#endif
