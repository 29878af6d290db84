/* `tenure top`: a sample of the server's state, and its display. */
#ifndef TN_CLI_TOP_H
#define TN_CLI_TOP_H

#include "cli/columns.h"
#include "cli/event_row.h"
#include "cli/resp_client.h"
#include "kernel/types.h"

#define TOP_POOLS_MAX 1000u /* read; more pools are counted but not shown */
#define TOP_EVENTS 100u     /* the newest ones */

struct top_pool {
    char name[KERNEL_POOL_MAX + 1];
    uint64_t size, left, reserved, active, offline, revoking, cooling;
    uint64_t allocated, freed; /* totals */
    double rate;               /* allocations a second, since the last look */
};

enum top_figure {
    TOP_LSN,
    TOP_BATCHES,
    TOP_COMMANDS,
    TOP_SYNC_US,
    TOP_CLIENTS,
    TOP_LEASES,
    TOP_POOLS,
    TOP_REFUSED,
    TOP_QUEUE,
    TOP_LOG_BYTES,
    TOP_FIGURES,
};

enum top_sort { TOP_BY_USE, TOP_BY_RATE, TOP_BY_NAME, TOP_SORTS };

struct top_sample {
    uint64_t at_ms; /* boot time */
    uint64_t figures[TOP_FIGURES];
    struct top_pool pools[TOP_POOLS_MAX];
    uint32_t pool_count;
    uint64_t allocated, freed; /* of all pools */
};

struct top {
    struct cli_client client;
    char where[300]; /* host:port */
    char version[32];
    struct top_sample *now, *before;     /* before->at_ms 0: there is none */
    struct cli_event events[TOP_EVENTS]; /* a ring */
    uint32_t event_count, event_next;
    struct cli_event_id after;
    bool placed;
    bool has_events; /* the server knows the command */
    enum top_sort sort;
    uint32_t first; /* the first pool shown */
};

/* Reads a sample from the server. Not OK: top->client.error has the reason. */
enum cli_link cli_top_look(struct top *top, uint64_t timeout_ms);
void cli_top_forget(struct top *top);

/* Formats a screen as lines; `height` 0: any number of lines. `notice` NULL: no message. */
void cli_top_draw(struct top *top, const struct cli_screen *screen, const char *notice,
                  uint64_t now_ms, struct cli_text *out);

#endif
