/* A frame of `tenure top`: statistics, pools with bars and sparklines, the newest events. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/top.h"

#define HEAD_LINES 5u /* above the pools */
#define WIDE 110u     /* columns from which on a row has a long bar, its size and long sparklines */

/* ---- Parts ---- */

void cli_top_line(struct top_frame *frame, struct cli_text *line, const char *colour) {
    size_t columns = frame->screen->width;
    bool coloured = frame->screen->colour && colour[0] != '\0';
    cli_text_put(frame->out, coloured ? colour : "");
    if (line->len > 0) {
        size_t fits =
            columns == SIZE_MAX ? line->len : cli_columns_fit(line->at, line->len, columns);
        cli_text_add(frame->out, line->at, fits);
    }
    cli_text_put(frame->out, coloured ? "\033[0m" : "");
    cli_text_put(frame->out, "\n");
    frame->out->failed = frame->out->failed || line->failed;
    frame->lines++;
    line->len = 0;
}

void cli_top_bar(struct cli_text *line, const struct top_pool *pool, unsigned columns) {
    unsigned full = (unsigned)(cli_top_used(pool) * columns + 0.5);
    for (unsigned i = 0; i < columns; i++) {
        cli_text_put(line, i < full ? "█" : "·");
    }
}

void cli_top_spark_put(struct cli_text *line, const uint8_t levels[TOP_SPARK], unsigned columns) {
    static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    unsigned each = TOP_SPARK / columns;
    for (unsigned i = 0; i < columns; i++) {
        uint8_t level = 0;
        for (unsigned j = i * each; j < (i + 1) * each; j++) {
            level = levels[j] > level ? levels[j] : level;
        }
        cli_text_put(line, blocks[level]);
    }
}

/* As the page: red if it is full or will be within ten minutes, yellow within an hour or from 90 % on. */
const char *cli_top_colour(const struct top_pool *pool) {
    double seconds = cli_top_seconds_to_full(pool);
    if (seconds < 600) {
        return TOP_RED;
    }
    return seconds < 3600 || cli_top_used(pool) >= 0.9 ? TOP_YELLOW : "";
}

void cli_top_full_in(struct cli_text *line, const struct top_pool *pool) {
    double seconds = cli_top_seconds_to_full(pool);
    if (seconds == 0) {
        cli_text_put(line, "now");
    } else if (seconds < 120) {
        cli_text_printf(line, "%.0f s", seconds);
    } else if (seconds < 7200) {
        cli_text_printf(line, "%.0f min", seconds / 60);
    } else if (seconds < 172800) {
        cli_text_printf(line, "%.0f h", seconds / 3600);
    } else if (seconds < 1e9) {
        cli_text_printf(line, "%.0f d", seconds / 86400);
    } else {
        cli_text_put(line, "-");
    }
}

/* ---- The head ---- */

static double per_second(const struct top *top, uint64_t now, uint64_t before) {
    uint64_t ms = top->now->at_ms - top->before->at_ms;
    return top->before->at_ms > 0 && ms > 0 && now >= before
               ? 1000.0 * (double)(now - before) / (double)ms
               : 0.0;
}

static double figure_rate(const struct top *top, enum top_figure figure) {
    return per_second(top, top->now->figures[figure], top->before->figures[figure]);
}

void cli_top_title(const struct top *top, struct top_frame *frame, const char *notice,
                   uint64_t now_ms) {
    struct cli_text line = {.at = NULL};
    if (notice == NULL && top->problem[0] != '\0') {
        notice = top->problem;
    }
    cli_text_printf(&line, "tenure %s at %s  ", top->version, top->where);
    cli_text_clock(&line, now_ms);
    cli_text_printf(&line, "  %s", notice != NULL ? notice : "");
    cli_top_line(frame, &line, notice != NULL ? "\033[1;31m" : TOP_BOLD);
    cli_text_free(&line);
}

static void draw_engine(const struct top *top, struct top_frame *frame) {
    struct cli_text line = {.at = NULL};
    const uint64_t *figures = top->now->figures;
    cli_text_printf(&line, "engine  lsn %" PRIu64, figures[TOP_LSN]);
    if (top->before->at_ms > 0) {
        cli_text_printf(&line, "  %.0f commands/s  %.0f batches/s", figure_rate(top, TOP_COMMANDS),
                        figure_rate(top, TOP_BATCHES));
    }
    cli_text_printf(&line, "  last sync %.2f ms  queue %" PRIu64 "  log %.1f MiB  clients %" PRIu64,
                    (double)figures[TOP_SYNC_US] / 1000.0, figures[TOP_QUEUE],
                    (double)figures[TOP_LOG_BYTES] / 1048576.0, figures[TOP_CLIENTS]);
    cli_top_line(frame, &line, "");
    cli_text_free(&line);
}

static void draw_sums(const struct top *top, struct top_frame *frame) {
    struct cli_text line = {.at = NULL};
    const struct top_sample *now = top->now;
    struct top_pool sum = {.size = 0};
    for (uint32_t i = 0; i < now->pool_count; i++) {
        const struct top_pool *pool = &now->pools[i];
        if (!top->scopes || strchr(pool->name, '@') == NULL) {
            sum.active += pool->active;
            sum.reserved += pool->reserved;
            sum.offline += pool->offline;
            sum.revoking += pool->revoking;
            sum.cooling += pool->cooling;
            sum.waiting += pool->waiting;
        }
    }
    cli_text_printf(&line,
                    "leases  %" PRIu64 "  values: active %" PRIu64 "  reserved %" PRIu64
                    "  offline %" PRIu64 "  revoking %" PRIu64 "  cooling %" PRIu64,
                    now->figures[TOP_LEASES], sum.active, sum.reserved, sum.offline, sum.revoking,
                    sum.cooling);
    cli_top_line(frame, &line, "");
    if (top->before->at_ms > 0) {
        cli_text_printf(&line, "rates   %.1f allocated/s  %.1f freed/s  %.1f refused/s",
                        per_second(top, now->allocated, top->before->allocated),
                        per_second(top, now->freed, top->before->freed),
                        figure_rate(top, TOP_REFUSED));
    } else { /* one look makes no rate */
        cli_text_printf(&line,
                        "totals  %" PRIu64 " allocated  %" PRIu64 " freed  %" PRIu64 " refused",
                        now->allocated, now->freed, now->figures[TOP_REFUSED]);
    }
    cli_text_printf(&line, "  waiting %" PRIu64, sum.waiting);
    cli_top_line(frame, &line, "");
    cli_text_free(&line);
}

static void draw_sensors_line(const struct top *top, struct top_frame *frame) {
    struct cli_text line = {.at = NULL};
    const struct top_sensors *sensors = &top->sensors;
    if (sensors->count > 0) {
        cli_text_printf(&line, "sensors %" PRIu32 " running of %" PRIu32, sensors->running,
                        sensors->count);
    }
    if (sensors->bad > 0) {
        cli_text_printf(&line, "  %" PRIu32 " in trouble: %s %s", sensors->bad, sensors->first_bad,
                        sensors->why);
    }
    cli_top_line(frame, &line, sensors->bad > 0 ? TOP_RED : "");
    cli_text_free(&line);
}

/* ---- Pools ---- */

/* At most seven columns. */
static void short_number(struct cli_text *line, uint64_t number) {
    static const char units[] = "MGTPE"; /* 2^64 is 18 E */
    double part = (double)number / 1e6;
    unsigned unit = 0;
    if (number < 1000000) {
        cli_text_printf(line, "%7" PRIu64, number);
        return;
    }
    for (; part >= 1000 && unit < sizeof units - 2; unit++) {
        part /= 1000;
    }
    cli_text_printf(line, "%6.1f%c", part, units[unit]);
}

static void draw_sparks(const struct top *top, const struct top_pool *pool, struct cli_text *line,
                        unsigned columns) {
    static const struct top_spark none;
    const struct top_spark *spark = cli_top_spark(top, pool->name);
    spark = spark != NULL ? spark : &none;
    cli_text_put(line, "  ");
    cli_top_spark_put(line, spark->used, columns);
    cli_text_put(line, " ");
    cli_top_spark_put(line, spark->given, columns);
}

static void draw_pool(const struct top *top, uint32_t i, struct top_frame *frame,
                      size_t name_width) {
    const struct top_pool *pool = &top->now->pools[i];
    bool wide = frame->screen->width >= WIDE;
    bool live = frame->screen->height > 0;
    bool chosen = live && i == top->at;
    struct cli_text line = {.at = NULL};
    struct cli_text full = {.at = NULL};
    cli_text_put(&line, !live ? "" : chosen ? "> " : "  ");
    cli_text_fit(&line, pool->name, strlen(pool->name), name_width, false);
    cli_text_put(&line, wide ? "  " : " ");
    cli_top_bar(&line, pool, wide ? 20 : 8);
    cli_text_printf(&line, " %5.1f%%", 100.0 * cli_top_used(pool));
    if (wide) {
        cli_text_printf(&line, "  %12" PRIu64 "  %12" PRIu64, pool->size, pool->left);
    } else {
        cli_text_put(&line, " ");
        short_number(&line, pool->left);
    }
    cli_top_full_in(&full, pool);
    cli_text_printf(&line, " %5" PRIu64 " %7.1f %7s", pool->waiting, pool->rate,
                    full.failed ? "" : full.at);
    draw_sparks(top, pool, &line, wide ? TOP_SPARK : TOP_SPARK / 2);
    cli_top_line(frame, &line, chosen ? TOP_CHOSEN : cli_top_colour(pool));
    cli_text_free(&full);
    cli_text_free(&line);
}

static void draw_pools_head(struct top_frame *frame, size_t name_width) {
    struct cli_text line = {.at = NULL};
    bool wide = frame->screen->width >= WIDE;
    cli_text_put(&line, frame->screen->height > 0 ? "  " : "");
    cli_text_fit(&line, "POOL", 4, name_width, false);
    if (wide) {
        cli_text_printf(&line, "  %-20s %6s  %12s  %12s", "", "USED", "SIZE", "FREE");
    } else {
        cli_text_printf(&line, " %-8s %6s %7s", "", "USED", "FREE");
    }
    cli_text_printf(&line, " %5s %7s %7s  %s", "WAIT", "ALLOC/s", "FULL IN",
                    wide ? "LAST HOUR  NEW LEASES" : "HOUR  NEW");
    cli_top_line(frame, &line, TOP_BOLD);
    cli_text_free(&line);
}

/* The selected pool is on the screen. */
static void scroll(struct top *top, uint32_t room) {
    uint32_t count = top->now->pool_count;
    if (top->at < top->first) {
        top->first = top->at;
    } else if (top->at >= top->first + room) {
        top->first = top->at - room + 1;
    }
    if (top->first + 1 > count) {
        top->first = count > 0 ? count - 1 : 0;
    }
}

static void draw_pools(struct top *top, struct top_frame *frame, uint32_t room) {
    struct cli_text line = {.at = NULL};
    struct top_sample *now = top->now;
    bool wide = frame->screen->width >= WIDE;
    size_t most = wide ? 32 : frame->screen->width > 64 ? frame->screen->width - 60 : 8;
    size_t width = 4;
    scroll(top, room);
    uint32_t end = now->pool_count - top->first < room ? now->pool_count : top->first + room;
    for (uint32_t i = top->first; i < end; i++) {
        size_t len = cli_columns(now->pools[i].name, strlen(now->pools[i].name));
        width = len > width ? len : width;
    }
    width = width > most ? most : width;
    draw_pools_head(frame, width);
    for (uint32_t i = top->first; i < end; i++) {
        draw_pool(top, i, frame, width);
    }
    top->shown = end - top->first;
    if (now->pool_count == 0) {
        cli_text_put(&line,
                     "no pools yet: tenure pool create ports --range 30000 30009 --lease 60");
        cli_top_line(frame, &line, "");
    } else if (end < now->pool_count || now->matched > now->pool_count) {
        uint64_t all = now->matched > now->pool_count ? now->matched : now->pool_count;
        cli_text_printf(&line, "%" PRIu64 " more", all - end);
        cli_top_line(frame, &line, "");
    }
    cli_text_free(&line);
}

/* ---- Events ---- */

static void draw_events(const struct top *top, struct top_frame *frame, uint32_t room,
                        uint64_t now_ms) {
    struct cli_text line = {.at = NULL};
    struct cli_table table = {.screen = *frame->screen};
    uint32_t count = top->event_count < room ? top->event_count : room;
    char *text = NULL;
    size_t len = 0;
    FILE *file = count > 0 ? open_memstream(&text, &len) : NULL;
    if (file == NULL) {
        return;
    }
    cli_top_line(frame, &line, "");
    cli_event_columns(&table);
    for (uint32_t i = 0; i < count; i++) { /* the newest first */
        cli_event_row(&table, &top->events[(top->event_next + TOP_EVENTS - 1 - i) % TOP_EVENTS],
                      now_ms);
    }
    bool good = cli_table_flush(&table, file);
    good = fclose(file) == 0 && good;
    if (good) {
        cli_text_add(frame->out, text, len);
        frame->lines += count + 1;
    }
    free(text);
    cli_table_free(&table);
    cli_text_free(&line);
}

/* ---- The frame ---- */

static void draw_pools_view(struct top *top, struct top_frame *frame, uint32_t height,
                            uint64_t now_ms) {
    uint32_t below = height > HEAD_LINES + 4 ? height - HEAD_LINES - 4 : 1;
    uint32_t events = top->event_count == 0 ? 0 : (below > 30 ? 10 : below / 3);
    uint32_t room = below > events + 2 ? below - events - (events > 0 ? 2 : 0) : 1;
    draw_engine(top, frame);
    draw_sums(top, frame);
    draw_sensors_line(top, frame);
    draw_pools(top, frame, room);
    if (events > 0) {
        draw_events(top, frame, events, now_ms);
    }
}

static void draw_keys(const struct top *top, struct top_frame *frame) {
    struct cli_text line = {.at = NULL};
    switch (top->view) {
    case TOP_VIEW_POOLS:
        cli_text_printf(
            &line, "q quit  ↑↓ select  enter open  s sort (by %s)  @ scopes %s  2 sensors  ? keys",
            cli_top_sort_name(top->sort), top->scopes ? "off" : "on");
        break;
    case TOP_VIEW_POOL:
        cli_text_put(
            &line, "q quit  esc back  ←→ leases, values, line, scopes, policy  ↑↓ scroll  ? keys");
        break;
    default:
        cli_text_put(&line, "q quit  esc back  ↑↓ scroll  ? keys");
    }
    cli_top_line(frame, &line, TOP_DIM);
    cli_text_free(&line);
}

void cli_top_draw(struct top *top, const struct cli_screen *screen, const char *notice,
                  uint64_t now_ms, struct cli_text *out) {
    struct top_frame frame = {.out = out, .screen = screen};
    uint32_t height = screen->height > 0 ? (uint32_t)screen->height : UINT32_MAX;
    cli_top_title(top, &frame, notice, now_ms);
    switch (top->view) {
    case TOP_VIEW_POOLS:
        draw_pools_view(top, &frame, height, now_ms);
        break;
    case TOP_VIEW_POOL:
        cli_top_draw_pool(top, &frame, height > 8 ? height - 7 : 1);
        break;
    case TOP_VIEW_SENSORS:
        cli_top_draw_sensors(top, &frame, height > 4 ? height - 3 : 1);
        break;
    case TOP_VIEW_HELP:
        cli_top_draw_help(&frame);
        break;
    }
    if (screen->tty && screen->height > 0) {
        draw_keys(top, &frame);
    }
}
