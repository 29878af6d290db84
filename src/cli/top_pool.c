/* Frames of `tenure top` beside the list of pools: one pool, the sensors, the keys. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/top.h"

static const char *const tab_names[TOP_TABS] = {[TOP_TAB_LEASES] = "leases",
                                                [TOP_TAB_VALUES] = "values",
                                                [TOP_TAB_LINE] = "line",
                                                [TOP_TAB_SCOPES] = "scopes",
                                                [TOP_TAB_POLICY] = "policy"};

const char *cli_top_tab_name(enum top_tab tab) {
    return tab_names[tab];
}

/* ---- Lines that were made when the server was asked ---- */

static uint32_t body_lines(const struct cli_text *body) {
    uint32_t count = 0;
    for (size_t i = 0; i < body->len; i++) {
        count += body->at[i] == '\n';
    }
    return count;
}

static void draw_body(struct top *top, struct top_frame *frame, uint32_t room) {
    struct cli_text line = {.at = NULL};
    uint32_t lines = body_lines(&top->body);
    uint32_t last = lines > room ? lines - room : 0;
    top->body_first = top->body_first < last ? top->body_first : last;
    size_t at = 0;
    for (uint32_t i = 0; i < lines && i < top->body_first + room; i++) {
        const char *end = memchr(top->body.at + at, '\n', top->body.len - at);
        size_t len = (size_t)(end - (top->body.at + at));
        if (i >= top->body_first) {
            cli_text_add(&line, top->body.at + at, len);
            cli_top_line(frame, &line, "");
        }
        at += len + 1;
    }
    cli_text_free(&line);
}

/* ---- One pool ---- */

static void draw_figures(const struct top_pool *pool, struct top_frame *frame) {
    struct cli_text line = {.at = NULL};
    const struct {
        const char *name;
        uint64_t count;
    } parts[] = {{"active", pool->active},   {"reserved", pool->reserved},
                 {"offline", pool->offline}, {"revoking", pool->revoking},
                 {"cooling", pool->cooling}, {"excluded", pool->excluded},
                 {"waiting", pool->waiting}};
    cli_text_put(&line, pool->name);
    cli_text_put(&line, "  ");
    cli_top_bar(&line, pool, 20);
    cli_text_printf(&line, " %.1f%% of %" PRIu64, 100.0 * cli_top_used(pool), pool->size);
    for (unsigned i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (parts[i].count > 0) {
            cli_text_printf(&line, "  %" PRIu64 " %s", parts[i].count, parts[i].name);
        }
    }
    cli_top_line(frame, &line, TOP_BOLD);
    cli_text_free(&line);
}

static void draw_why(const struct top_pool *pool, struct top_frame *frame) {
    struct cli_text line = {.at = NULL};
    double seconds = cli_top_seconds_to_full(pool);
    if (seconds == 0) {
        cli_text_put(&line, "Nothing is free");
        if (pool->waiting > 0) {
            cli_text_printf(&line, ", and %" PRIu64 " %s", pool->waiting,
                            pool->waiting == 1 ? "waits" : "wait");
        }
        cli_text_put(&line, ".");
    } else if (seconds < 3600) {
        cli_text_put(&line, "Full in ");
        cli_top_full_in(&line, pool);
        cli_text_put(&line, " at the rate of the last minutes.");
    } else {
        cli_text_printf(&line, "%" PRIu64 " free.", pool->left);
    }
    cli_text_printf(&line, "  %.1f allocated/s  %" PRIu64 " allocated and %" PRIu64 " ended in all",
                    pool->rate, pool->allocated, pool->freed);
    cli_top_line(frame, &line, cli_top_colour(pool));
    cli_text_free(&line);
}

static void draw_hour(const struct top *top, struct top_frame *frame) {
    struct cli_text line = {.at = NULL};
    const struct top_spark *spark = cli_top_spark(top, top->pool.name);
    if (spark != NULL) {
        cli_text_put(&line, "last hour: occupancy [");
        cli_top_spark_put(&line, spark->used, TOP_SPARK);
        cli_text_put(&line, "]  new leases [");
        cli_top_spark_put(&line, spark->given, TOP_SPARK);
        cli_text_put(&line, "]");
    }
    cli_top_line(frame, &line, "");
    cli_text_free(&line);
}

static void draw_tabs(const struct top *top, struct top_frame *frame) {
    struct cli_text line = {.at = NULL};
    for (unsigned i = 0; i < TOP_TABS; i++) {
        bool here = i == (unsigned)top->tab;
        cli_text_printf(&line, here ? "[%s] " : " %s  ", tab_names[i]);
    }
    cli_top_line(frame, &line, TOP_BOLD);
    cli_text_free(&line);
}

void cli_top_draw_pool(struct top *top, struct top_frame *frame, uint32_t room) {
    draw_figures(&top->pool, frame);
    if (!top->pool_gone) {
        draw_why(&top->pool, frame);
        draw_hour(top, frame);
    }
    draw_tabs(top, frame);
    if (top->body.len == 0) {
        struct cli_text line = {.at = NULL};
        cli_text_put(&line, "none");
        cli_top_line(frame, &line, "");
        cli_text_free(&line);
    }
    draw_body(top, frame, room);
}

/* ---- Sensors ---- */

void cli_top_draw_sensors(struct top *top, struct top_frame *frame, uint32_t room) {
    struct cli_text line = {.at = NULL};
    if (top->sensors.count == 0) {
        cli_text_put(&line, "no sensors yet: tenure help sensor set");
        cli_top_line(frame, &line, "");
    } else if (top->sensors.bad > 0) {
        cli_text_printf(&line, "%s: %s", top->sensors.first_bad, top->sensors.why);
        cli_top_line(frame, &line, TOP_RED);
    }
    draw_body(top, frame, room);
    cli_text_free(&line);
}

/* ---- Keys ---- */

void cli_top_draw_help(struct top_frame *frame) {
    static const char *const keys[] = {
        "↑ ↓ j k      select a pool, or scroll",
        "PgUp PgDn    the same, by a page",
        "enter        open the selected pool",
        "← → tab      its leases, values, line of waiters, scopes, policy",
        "esc          back",
        "s            the next order: use, free, waiting, rate, name",
        "u f w r n    that order",
        "@            list scopes, or fold them into their templates",
        "1 2          pools, sensors",
        "?            this",
        "q            quit",
    };
    struct cli_text line = {.at = NULL};
    for (unsigned i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (frame->screen->height == 0 || frame->lines + 1 < frame->screen->height) {
            cli_text_put(&line, keys[i]);
            cli_top_line(frame, &line, "");
        }
    }
    cli_text_free(&line);
}
