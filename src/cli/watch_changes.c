/* Rows of two rounds, and an index of the older ones by their first cell. */
#include "cli/watch_changes.h"

#include <stdlib.h>

#include "base/hash.h"

static void rows_free(struct cli_rows *rows) {
    cli_text_free(&rows->cells);
    free(rows->rows);
    free(rows->slots);
    *rows = (struct cli_rows){.rows = NULL};
}

void cli_changes_free(struct cli_changes *changes) {
    rows_free(&changes->before);
    rows_free(&changes->now);
}

static void rows_add(struct cli_rows *rows, const char *cells, size_t len) {
    if (rows->count == rows->capacity) {
        uint32_t capacity = 2 * rows->capacity + 64;
        uint32_t *at = realloc(rows->rows, capacity * sizeof at[0]);
        if (at == NULL) {
            rows->failed = true;
            return;
        }
        rows->rows = at;
        rows->capacity = capacity;
    }
    rows->rows[rows->count++] = (uint32_t)rows->cells.len;
    cli_text_add(&rows->cells, cells, len);
    rows->failed = rows->failed || rows->cells.failed || rows->cells.len > UINT32_MAX / 2;
}

static uint64_t key_hash(const char *key) {
    return tn_hash64(key, strlen(key), 0);
}

/* Of rows with the same first cell, the first is found. */
static void rows_index(struct cli_rows *rows) {
    uint32_t size = 64;
    while (size < 2 * rows->count) {
        size *= 2;
    }
    rows->slots = calloc(size, sizeof rows->slots[0]);
    rows->failed = rows->failed || rows->slots == NULL;
    rows->mask = size - 1;
    for (uint32_t i = 0; !rows->failed && i < rows->count; i++) {
        uint32_t slot = (uint32_t)key_hash(rows->cells.at + rows->rows[i]) & rows->mask;
        while (rows->slots[slot] != 0) {
            slot = (slot + 1) & rows->mask;
        }
        rows->slots[slot] = i + 1;
    }
}

/* NULL: there is none. */
static const char *rows_find(const struct cli_rows *rows, const char *key) {
    if (rows->failed || rows->slots == NULL) {
        return NULL;
    }
    uint32_t slot = (uint32_t)key_hash(key) & rows->mask;
    for (; rows->slots[slot] != 0; slot = (slot + 1) & rows->mask) {
        const char *row = rows->cells.at + rows->rows[rows->slots[slot] - 1];
        if (strcmp(row, key) == 0) {
            return row;
        }
    }
    return NULL;
}

enum cli_change cli_changes_row(struct cli_changes *changes, const char *cells, uint32_t count,
                                uint32_t ticking, uint32_t *ret_cells) {
    const char *old = rows_find(&changes->before, cells);
    const char *end = cells;
    *ret_cells = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (old != NULL) {
            *ret_cells |= strcmp(old, end) != 0 ? (uint32_t)1 << i : 0;
            old += strlen(old) + 1;
        }
        end += strlen(end) + 1;
    }
    *ret_cells &= ~ticking;
    rows_add(&changes->now, cells, (size_t)(end - cells));
    if (changes->rounds == 0 || changes->before.failed) {
        return CLI_SAME;
    }
    changes->found += old != NULL;
    changes->fresh += old == NULL;
    changes->changed += *ret_cells != 0;
    return old == NULL ? CLI_NEW : *ret_cells != 0 ? CLI_CHANGED : CLI_SAME;
}

void cli_changes_turn(struct cli_changes *changes, bool good) {
    if (good) {
        rows_free(&changes->before);
        changes->before = changes->now;
        rows_index(&changes->before);
        changes->now = (struct cli_rows){.rows = NULL};
        changes->rounds++;
    } else {
        rows_free(&changes->now);
    }
    changes->fresh = changes->changed = changes->found = 0;
}

void cli_changes_say(const struct cli_changes *changes, struct cli_text *text) {
    if (changes->rounds > 0) {
        uint32_t had = changes->before.count;
        cli_text_printf(text, "%u new, %u changed, %u gone", changes->fresh, changes->changed,
                        had > changes->found ? had - changes->found : 0);
    }
}

const char *cli_change_mark(enum cli_change change) {
    return change == CLI_NEW ? "+ " : change == CLI_CHANGED ? "* " : "  ";
}

/* "name\0value\0" of a line. */
static void line_split(const char *line, size_t len, struct cli_text *cells) {
    size_t indent = 0;
    while (indent < len && line[indent] == ' ') {
        indent++;
    }
    size_t name = indent;
    while (name < len && line[name] != ':' &&
           (line[name] != ' ' || name + 1 == len || line[name + 1] != ' ')) {
        name++;
    }
    size_t end = len;
    for (size_t i = name; i + 1 < len && end == len; i++) {
        end = line[i] == ' ' && line[i + 1] == '(' ? i : len;
    }
    cells->len = 0;
    cli_text_add(cells, line, name);
    cli_text_add(cells, "", 1);
    cli_text_add(cells, line + name, end - name);
    cli_text_add(cells, "", 1);
}

void cli_changes_lines(struct cli_changes *changes, const struct cli_text *lines,
                       struct cli_text *out) {
    struct cli_text cells = {.at = NULL};
    for (size_t at = 0; at < lines->len;) {
        const char *end = memchr(lines->at + at, '\n', lines->len - at);
        size_t len = end != NULL ? (size_t)(end - (lines->at + at)) : lines->len - at;
        uint32_t differ;
        enum cli_change change = CLI_SAME;
        if (len > 0) {
            line_split(lines->at + at, len, &cells);
            change = cells.failed ? CLI_SAME : cli_changes_row(changes, cells.at, 2, 0, &differ);
            cli_text_put(out, cli_change_mark(change));
        }
        cli_text_add(out, lines->at + at, len);
        cli_text_put(out, "\n");
        at += len + 1;
    }
    cli_text_free(&cells);
}
