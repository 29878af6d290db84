/* `tenure top`: a sample of the server's state, and its display.
 *
 *     top.c          the loop: a sample a second, keys at once
 *     top_look.c     the requests: INFO, pools, sensors, events, histories, one pool
 *     top_draw.c     a frame: figures, the table of pools, the newest events
 *     top_pool.c     a frame of one pool, of the sensors, and of the help
 *
 * All names and texts come from outside: they are cleaned when they are taken, so that nothing in them can
 * reach the terminal as a control sequence. */
#ifndef TN_CLI_TOP_H
#define TN_CLI_TOP_H

#include "cli/columns.h"
#include "cli/event_row.h"
#include "cli/resp_client.h"
#include "kernel/types.h"

#define TOP_POOLS_MAX 1000u /* read: the first ones in the order; more are counted but not shown */
#define TOP_EVENTS 100u     /* the newest ones */
#define TOP_SPARK 10u       /* columns of a sparkline: the last hour */
#define TOP_SPARKS 64u      /* pools whose sparklines are kept */
#define TOP_ROWS "200"      /* of a list of one pool */

struct top_pool {
    char name[KERNEL_POOL_MAX + 1];
    uint64_t size, left, reserved, active, offline, revoking, cooling, excluded, waiting;
    uint64_t allocated, freed; /* totals */
    double rate;               /* allocations a second, since the last look */
    double growth,
        weight; /* used values a second: an average, and how much of the past it has seen */
    bool internal;
};

/* Levels of 1 to 8; 0: no sample. The newest is the last. */
struct top_spark {
    char name[KERNEL_POOL_MAX + 1];
    uint64_t asked_ms; /* 0: an empty place */
    uint8_t used[TOP_SPARK], given[TOP_SPARK];
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

enum top_sort { TOP_BY_USE, TOP_BY_FREE, TOP_BY_WAITING, TOP_BY_RATE, TOP_BY_NAME, TOP_SORTS };
enum top_view { TOP_VIEW_POOLS, TOP_VIEW_POOL, TOP_VIEW_SENSORS, TOP_VIEW_HELP };
/* What the view of a pool shows below its figures. */
enum top_tab {
    TOP_TAB_LEASES,
    TOP_TAB_VALUES,
    TOP_TAB_LINE,
    TOP_TAB_SCOPES,
    TOP_TAB_POLICY,
    TOP_TABS
};

struct top_sample {
    uint64_t at_ms; /* boot time */
    uint64_t figures[TOP_FIGURES];
    struct top_pool pools[TOP_POOLS_MAX];
    uint32_t pool_count;
    uint64_t matched;          /* all pools that the list could show */
    uint64_t allocated, freed; /* of all pools read */
};

/* The sensors, in short. */
struct top_sensors {
    uint32_t count, running, bad;
    char first_bad[KERNEL_RESOURCE_MAX + 1];
    char why[160];
};

struct top {
    struct cli_client client;
    char where[300]; /* host:port */
    char version[32];
    char problem[200];               /* the server's refusal, if it refuses to be looked at */
    struct top_sample *now, *before; /* before->at_ms 0: there is none */
    struct top_sensors sensors;
    struct top_spark sparks[TOP_SPARKS];
    struct cli_event events[TOP_EVENTS]; /* a ring */
    uint32_t event_count, event_next;
    struct cli_event_id after;
    bool placed;
    bool has_events; /* the server knows the command */

    enum top_view view, back; /* back: the view before the help */
    enum top_sort sort;
    bool scopes;    /* are listed beside their templates */
    uint32_t first; /* the first pool shown */
    uint32_t shown; /* pools shown in the last frame */
    uint32_t at;    /* the selected pool */
    bool moved;     /* by the user: then the selection stays with its pool */
    char chosen[KERNEL_POOL_MAX + 1];

    struct top_pool pool; /* of the view of one pool; its name is what is asked for */
    bool pool_gone;
    enum top_tab tab;
    struct cli_text body; /* lines of the view of a pool or of the sensors */
    uint32_t body_first;
};

/* ---- top_look.c ---- */

/* Reads a sample from the server. Not OK: top->client.error has the reason. */
enum cli_link cli_top_look(struct top *top, size_t width, uint64_t now_ms, uint64_t timeout_ms);
void cli_top_forget(struct top *top);
/* Sorts the pools and finds the selected one. */
void cli_top_arrange(struct top *top);
const char *cli_top_sort_name(enum top_sort sort);
/* Seconds until nothing is free, at the growth of the last minutes; a very large number: never. */
double cli_top_seconds_to_full(const struct top_pool *pool);
double cli_top_used(const struct top_pool *pool);
/* NULL: not known yet. */
const struct top_spark *cli_top_spark(const struct top *top, const char *name);

/* ---- top_draw.c ---- */

struct top_frame {
    struct cli_text *out;
    const struct cli_screen *screen;
    size_t lines;
};

#define TOP_RED "\033[31m"
#define TOP_YELLOW "\033[33m"
#define TOP_BOLD "\033[1m"
#define TOP_DIM "\033[2m"
#define TOP_CHOSEN "\033[7m"

/* One line, cut to the screen; `line` is empty again. `colour` is "" or a sequence. */
void cli_top_line(struct top_frame *frame, struct cli_text *line, const char *colour);
void cli_top_title(const struct top *top, struct top_frame *frame, const char *notice,
                   uint64_t now_ms);
void cli_top_bar(struct cli_text *line, const struct top_pool *pool, unsigned columns);
void cli_top_spark_put(struct cli_text *line, const uint8_t levels[TOP_SPARK], unsigned columns);
const char *cli_top_colour(const struct top_pool *pool);
/* The time until the pool is full: "now", "12 min", "-". */
void cli_top_full_in(struct cli_text *line, const struct top_pool *pool);

/* Formats a screen as lines; `height` 0: any number of lines. `notice` NULL: no message. */
void cli_top_draw(struct top *top, const struct cli_screen *screen, const char *notice,
                  uint64_t now_ms, struct cli_text *out);

/* ---- top_pool.c ---- */

void cli_top_draw_pool(struct top *top, struct top_frame *frame, uint32_t room);
void cli_top_draw_sensors(struct top *top, struct top_frame *frame, uint32_t room);
void cli_top_draw_help(struct top_frame *frame);
const char *cli_top_tab_name(enum top_tab tab);

#endif
