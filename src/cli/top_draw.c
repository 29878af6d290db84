/* A frame of `tenure top`: statistics, pools with bars, the newest events. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/top.h"

#define BAR 20u
#define HEAD_LINES 5u /* above the pools */

static double used_of(const struct top_pool *pool) {
    return pool->size > 0 ? (double)(pool->size - pool->left) / (double)pool->size : 0.0;
}

static int by_use(const void *a, const void *b) {
    double left = used_of(a);
    double right = used_of(b);
    return left != right
               ? (left < right ? 1 : -1)
               : strcmp(((const struct top_pool *)a)->name, ((const struct top_pool *)b)->name);
}

static int by_rate(const void *a, const void *b) {
    double left = ((const struct top_pool *)a)->rate;
    double right = ((const struct top_pool *)b)->rate;
    return left != right ? (left < right ? 1 : -1) : by_use(a, b);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct top_pool *)a)->name, ((const struct top_pool *)b)->name);
}

static const struct {
    int (*compare)(const void *a, const void *b);
    const char *name;
} sorts[TOP_SORTS] = {[TOP_BY_USE] = {by_use, "use"},
                      [TOP_BY_RATE] = {by_rate, "rate"},
                      [TOP_BY_NAME] = {by_name, "name"}};

/* ---- Lines ---- */

struct frame {
    struct cli_text *out;
    const struct cli_screen *screen;
    size_t lines;
};

/* One line, cut to the screen; `line` is empty again. */
static void put(struct frame *frame, struct cli_text *line, const char *colour) {
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

static double per_second(const struct top *top, uint64_t now, uint64_t before) {
    uint64_t ms = top->now->at_ms - top->before->at_ms;
    return top->before->at_ms > 0 && ms > 0 && now >= before
               ? 1000.0 * (double)(now - before) / (double)ms
               : 0.0;
}

static double figure_rate(const struct top *top, enum top_figure figure) {
    return per_second(top, top->now->figures[figure], top->before->figures[figure]);
}

static void draw_head(const struct top *top, struct frame *frame, const char *notice,
                      uint64_t now_ms) {
    struct cli_text line = {.at = NULL};
    const struct top_sample *now = top->now;
    const uint64_t *figures = now->figures;
    uint64_t states[5] = {0};
    for (uint32_t i = 0; i < now->pool_count; i++) {
        const struct top_pool *pool = &now->pools[i];
        states[0] += pool->active;
        states[1] += pool->reserved;
        states[2] += pool->offline;
        states[3] += pool->revoking;
        states[4] += pool->cooling;
    }
    cli_text_printf(&line, "tenure %s at %s  ", top->version, top->where);
    cli_text_clock(&line, now_ms);
    cli_text_printf(&line, "  %s", notice != NULL ? notice : "");
    put(frame, &line, notice != NULL ? "\033[1;31m" : "\033[1m");
    cli_text_printf(&line, "engine  lsn %" PRIu64, figures[TOP_LSN]);
    if (top->before->at_ms > 0) {
        cli_text_printf(&line, "  %.0f commands/s  %.0f batches/s", figure_rate(top, TOP_COMMANDS),
                        figure_rate(top, TOP_BATCHES));
    }
    cli_text_printf(&line, "  last sync %.2f ms  queue %" PRIu64 "  log %.1f MiB  clients %" PRIu64,
                    (double)figures[TOP_SYNC_US] / 1000.0, figures[TOP_QUEUE],
                    (double)figures[TOP_LOG_BYTES] / 1048576.0, figures[TOP_CLIENTS]);
    put(frame, &line, "");
    cli_text_printf(&line,
                    "leases  %" PRIu64 "  values: active %" PRIu64 "  reserved %" PRIu64
                    "  offline %" PRIu64 "  revoking %" PRIu64 "  cooling %" PRIu64,
                    figures[TOP_LEASES], states[0], states[1], states[2], states[3], states[4]);
    put(frame, &line, "");
    if (top->before->at_ms > 0) {
        cli_text_printf(&line, "rates   %.1f allocated/s  %.1f freed/s  %.1f refused/s",
                        per_second(top, now->allocated, top->before->allocated),
                        per_second(top, now->freed, top->before->freed),
                        figure_rate(top, TOP_REFUSED));
    } else { /* one look makes no rate */
        cli_text_printf(&line,
                        "totals  %" PRIu64 " allocated  %" PRIu64 " freed  %" PRIu64 " refused",
                        now->allocated, now->freed, figures[TOP_REFUSED]);
    }
    put(frame, &line, "");
    put(frame, &line, "");
    cli_text_free(&line);
}

/* ---- Pools ---- */

static void draw_pool(const struct top_pool *pool, struct frame *frame, size_t name_width) {
    struct cli_text line = {.at = NULL};
    double used = used_of(pool);
    unsigned full = (unsigned)(used * BAR + 0.5);
    cli_text_fit(&line, pool->name, strlen(pool->name), name_width, false);
    cli_text_put(&line, "  ");
    for (unsigned i = 0; i < BAR; i++) {
        cli_text_put(&line, i < full ? "█" : "·");
    }
    cli_text_printf(&line, " %5.1f%%  %12" PRIu64 "  %12" PRIu64 "  %8.1f", 100.0 * used,
                    pool->size, pool->left, pool->rate);
    put(frame, &line, used >= 0.9 ? "\033[31m" : (used >= 0.7 ? "\033[33m" : ""));
    cli_text_free(&line);
}

static void draw_pools(struct top *top, struct frame *frame, uint32_t room) {
    struct cli_text line = {.at = NULL};
    struct top_sample *now = top->now;
    size_t width = 4;
    qsort(now->pools, now->pool_count, sizeof now->pools[0], sorts[top->sort].compare);
    if (top->first + 1 > now->pool_count) {
        top->first = now->pool_count > 0 ? now->pool_count - 1 : 0;
    }
    uint32_t end = now->pool_count - top->first < room ? now->pool_count : top->first + room;
    for (uint32_t i = top->first; i < end; i++) {
        size_t len = strlen(now->pools[i].name);
        width = len > width ? len : width;
    }
    width = width > 24 ? 24 : width;
    cli_text_fit(&line, "POOL", 4, width, false);
    cli_text_printf(&line, "  %-*s %6s  %12s  %12s  %8s", (int)BAR, "", "USED", "SIZE", "FREE",
                    "ALLOC/s");
    put(frame, &line, "\033[1m");
    for (uint32_t i = top->first; i < end; i++) {
        draw_pool(&now->pools[i], frame, width);
    }
    if (now->pool_count == 0) {
        cli_text_put(&line,
                     "no pools yet: tenure pool create ports --range 30000 30009 --lease 60");
        put(frame, &line, "");
    } else if (end < now->pool_count || now->figures[TOP_POOLS] > now->pool_count) {
        cli_text_printf(&line, "%" PRIu64 " more", now->figures[TOP_POOLS] - end);
        put(frame, &line, "");
    }
    cli_text_free(&line);
}

/* ---- Events ---- */

static void draw_events(const struct top *top, struct frame *frame, uint32_t room,
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
    put(frame, &line, "");
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

void cli_top_draw(struct top *top, const struct cli_screen *screen, const char *notice,
                  uint64_t now_ms, struct cli_text *out) {
    struct frame frame = {.out = out, .screen = screen};
    uint32_t height = screen->height > 0 ? (uint32_t)screen->height : UINT32_MAX;
    uint32_t below = height > HEAD_LINES + 4 ? height - HEAD_LINES - 4 : 1;
    uint32_t events = top->event_count == 0 ? 0 : (below > 30 ? 10 : below / 3);
    uint32_t room = below > events + 2 ? below - events - (events > 0 ? 2 : 0) : 1;
    struct cli_text line = {.at = NULL};
    draw_head(top, &frame, notice, now_ms);
    draw_pools(top, &frame, room);
    if (events > 0) {
        draw_events(top, &frame, events, now_ms);
    }
    if (screen->tty && screen->height > 0) {
        cli_text_printf(&line, "q quit   up/down scroll   s sort (by %s)", sorts[top->sort].name);
        put(&frame, &line, "\033[2m");
    }
    cli_text_free(&line);
}
