/* Tables: cells are buffered as text until a flush computes the column widths. */
#include "cli/columns.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/assert.h"

#define GAP 2u
#define NARROW 8u /* no text is cut shorter than this */
#define NAME 16u  /* nor is the first column, which says what the row is about */
#define LONG 32u  /* a longer text is cut to this before a column is left out */

struct cli_screen cli_screen_of(FILE *out) {
    struct cli_screen screen = {.width = SIZE_MAX};
    struct winsize size;
    const char *columns = getenv("COLUMNS");
    const char *no_colour = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    uint64_t number;
    screen.tty = isatty(fileno(out)) == 1;
    if (!screen.tty) {
        return screen;
    }
    screen.colour =
        (no_colour == NULL || no_colour[0] == '\0') && term != NULL && strcmp(term, "dumb") != 0;
    screen.width = 80;
    if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        screen.width = size.ws_col;
        screen.height = size.ws_row;
    } else if (columns != NULL &&
               cli_number_parse(tn_bytes_of(columns, strlen(columns)), &number) && number > 0) {
        screen.width = number;
    }
    return screen;
}

void cli_table_column(struct cli_table *table, const char *name, bool right) {
    TN_ASSERT(table->column_count < CLI_COLUMNS_MAX);
    table->columns[table->column_count].name = name;
    table->columns[table->column_count].right = right;
    table->columns[table->column_count++].natural = cli_columns(name, strlen(name));
}

void cli_table_cell(struct cli_table *table, struct tn_bytes text) {
    cli_text_clean(&table->bytes, text);
    cli_text_add(&table->bytes, "", 1);
    table->cell_count++;
}

void cli_table_put(struct cli_table *table, const char *text) {
    cli_table_cell(table, tn_bytes_of(text, strlen(text)));
}

void cli_table_free(struct cli_table *table) {
    cli_text_free(&table->bytes);
    table->cell_count = 0;
}

void cli_text_fit(struct cli_text *out, const char *text, size_t len, size_t columns, bool right) {
    size_t has = cli_columns(text, len);
    bool cut = has > columns;
    if (cut) {
        len = columns > 0 ? cli_columns_fit(text, len, columns - 1) : 0;
        has = cli_columns(text, len) + (columns > 0);
    }
    cli_text_printf(out, "%*s", right ? (int)(columns - has) : 0, "");
    cli_text_add(out, text, len);
    cli_text_put(out, cut && columns > 0 ? "…" : "");
    cli_text_printf(out, "%*s", right ? 0 : (int)(columns - has), "");
}

/* ---- Widths ---- */

static size_t total_width(const struct cli_table *table) {
    size_t total = 0;
    for (uint32_t i = 0; i < table->column_count; i++) {
        if (!table->columns[i].hidden) {
            total += table->columns[i].width + (total > 0 ? GAP : 0);
        }
    }
    return total;
}

static bool is_wide(const struct cli_table *table) {
    return total_width(table) > table->screen.width;
}

/* Takes one column from the widest text, if it keeps at least `narrow`, or NAME in the first column
 * of a table. False: no text is wider. */
static bool shrink(struct cli_table *table, size_t narrow) {
    uint32_t widest = CLI_COLUMNS_MAX;
    for (uint32_t i = 0; i < table->column_count; i++) {
        size_t least = i == 0 && narrow < NAME ? NAME : narrow;
        if (!table->columns[i].right && !table->columns[i].fixed && !table->columns[i].hidden &&
            table->columns[i].width > least &&
            (widest == CLI_COLUMNS_MAX || table->columns[i].width > table->columns[widest].width)) {
            widest = i;
        }
    }
    if (widest == CLI_COLUMNS_MAX) {
        return false;
    }
    table->columns[widest].width--;
    return true;
}

/* Hides the least important column. False: there is none left to hide. */
static bool hide_spare(struct cli_table *table) {
    uint32_t most = 0;
    for (uint32_t i = 1; i < table->column_count; i++) {
        bool better =
            table->columns[most].hidden || table->columns[i].spare > table->columns[most].spare;
        most = !table->columns[i].hidden && better ? i : most;
    }
    bool found = !table->columns[most].hidden && table->columns[most].spare > 0;
    table->columns[most].hidden = table->columns[most].hidden || found;
    return found;
}

/* Gives all shown columns the width of their widest cell. */
static void widen(struct cli_table *table) {
    for (uint32_t i = 0; i < table->column_count; i++) {
        table->columns[i].width = table->columns[i].natural;
    }
}

/* Hides the last shown column, unless it is the only one. */
static bool hide_last(struct cli_table *table) {
    uint32_t last = table->column_count - 1;
    while (last > 0 && table->columns[last].hidden) {
        last--;
    }
    table->columns[last].hidden = last > 0;
    return last > 0;
}

/* Gives the remaining room to texts that are cut. */
static void spread(struct cli_table *table) {
    size_t total = total_width(table);
    for (uint32_t i = 0; i < table->column_count && total < table->screen.width; i++) {
        size_t room = table->screen.width - total;
        size_t lacks = table->columns[i].natural - table->columns[i].width;
        if (!table->columns[i].hidden) {
            table->columns[i].width += lacks < room ? lacks : room;
            total += lacks < room ? lacks : room;
        }
    }
}

static void fit(struct cli_table *table) {
    for (uint32_t i = 0; i < table->column_count; i++) {
        table->columns[i].hidden = false;
    }
    widen(table);
    while (is_wide(table) && shrink(table, LONG)) {
    }
    while (is_wide(table) && hide_spare(table)) {
    }
    while (is_wide(table)) {
        if (!shrink(table, NARROW)) {
            if (!hide_last(table)) {
                break;
            }
            widen(table);
        }
    }
    spread(table);
}

/* Returns whether the shown columns have changed. */
static bool measure(struct cli_table *table) {
    const char *cell = table->bytes.at;
    bool before[CLI_COLUMNS_MAX] = {false};
    bool changed = false;
    for (uint64_t i = 0; i < table->cell_count; i++) {
        size_t len = strlen(cell);
        size_t columns = cli_columns(cell, len);
        size_t *natural = &table->columns[i % table->column_count].natural;
        *natural = columns > *natural ? columns : *natural;
        cell += len + 1;
    }
    for (uint32_t i = 0; i < table->column_count; i++) {
        before[i] = table->columns[i].hidden;
    }
    fit(table);
    for (uint32_t i = 0; i < table->column_count; i++) {
        changed = changed || table->columns[i].hidden != before[i];
    }
    return changed;
}

/* ---- Printing ---- */

static void put_cell(const struct cli_table *table, struct cli_text *line, uint32_t column,
                     const char *cell, bool marked) {
    size_t len = strlen(cell);
    size_t width = table->columns[column].width;
    if (table->columns[column].hidden) {
        return;
    }
    if (table->screen.width == SIZE_MAX && cli_columns(cell, len) > width) {
        width = cli_columns(cell, len); /* for later pages; nothing is cut */
    }
    cli_text_put(line, line->len > 0 ? "  " : "");
    cli_text_put(line, marked ? "\033[7m" : "");
    cli_text_fit(line, cell, len, width, table->columns[column].right);
    cli_text_put(line, marked ? "\033[0m" : "");
}

static void put_line(struct cli_text *line, FILE *out) {
    while (line->len > 0 && line->at[line->len - 1] == ' ') {
        line->len--;
    }
    cli_text_put(line, "\n");
    (void)fwrite(line->at, 1, line->len, out);
    line->len = 0;
}

static void put_head(const struct cli_table *table, struct cli_text *line, FILE *out) {
    for (uint32_t i = 0; i < table->column_count; i++) {
        put_cell(table, line, i, table->columns[i].name, false);
    }
    (void)fputs(table->changes != NULL ? cli_change_mark(CLI_SAME) : "", out);
    (void)fputs(table->screen.colour ? "\033[1m" : "", out);
    put_line(line, out);
    (void)fputs(table->screen.colour ? "\033[0m" : "", out);
}

/* Compares a row with the last round's and prints its mark. Bit n of the result: cell n is to be
 * marked. */
static uint32_t row_mark(const struct cli_table *table, const char *cells, FILE *out) {
    uint32_t ticking = 0, differ = 0;
    if (table->changes == NULL) {
        return 0;
    }
    for (uint32_t i = 0; i < table->column_count; i++) {
        ticking |= table->columns[i].ticking ? (uint32_t)1 << i : 0;
    }
    enum cli_change change =
        cli_changes_row(table->changes, cells, table->column_count, ticking, &differ);
    (void)fputs(cli_change_mark(change), out);
    return !table->screen.colour ? 0 : change == CLI_NEW ? UINT32_MAX : differ;
}

bool cli_table_flush(struct cli_table *table, FILE *out) {
    struct cli_text line = {.at = NULL};
    const char *cell = table->bytes.at;
    bool good = !table->bytes.failed;
    bool fitted = !table->begun || table->screen.width != SIZE_MAX;
    bool changed = good && fitted && measure(table);
    if (good && (changed || !table->begun)) {
        put_head(table, &line, out);
        table->begun = true;
    }
    uint32_t marked = 0;
    for (uint64_t i = 0; good && i < table->cell_count; i++) {
        uint32_t column = (uint32_t)(i % table->column_count);
        marked = column == 0 ? row_mark(table, cell, out) : marked;
        put_cell(table, &line, column, cell, (marked >> column & 1) != 0);
        if (column + 1 == table->column_count) {
            good = !line.failed;
            put_line(&line, out);
        }
        cell += strlen(cell) + 1;
    }
    cli_text_free(&line);
    cli_table_free(table);
    return good;
}
