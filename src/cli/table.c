/* Tables: cells are kept as text until a flush knows how wide they are. */
#include "cli/table.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/assert.h"

#define GAP 2u
#define NARROW 8u /* no text is cut shorter */
#define NAME \
    16u /* and in the first column, which says what the row is about, not shorter than this */

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
    table->columns[table->column_count++].width = cli_columns(name, strlen(name));
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
    for (uint32_t i = 0; i < table->column_shown; i++) {
        total += table->columns[i].width + (i > 0 ? GAP : 0);
    }
    return total;
}

/* The widest text column loses one; false if none can. */
static bool shrink(struct cli_table *table) {
    uint32_t widest = CLI_COLUMNS_MAX;
    for (uint32_t i = 0; i < table->column_shown; i++) {
        if (!table->columns[i].right && !table->columns[i].fixed &&
            table->columns[i].width > (i == 0 ? NAME : NARROW) &&
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

static void measure(struct cli_table *table) {
    const char *cell = table->bytes.at;
    for (uint64_t i = 0; i < table->cell_count; i++) {
        size_t len = strlen(cell);
        size_t columns = cli_columns(cell, len);
        size_t *width = &table->columns[i % table->column_count].width;
        *width = columns > *width ? columns : *width;
        cell += len + 1;
    }
    size_t natural[CLI_COLUMNS_MAX] = {0};
    for (uint32_t i = 0; i < table->column_count; i++) {
        natural[i] = table->columns[i].width;
    }
    table->column_shown = table->column_count;
    while (total_width(table) > table->screen.width && table->column_shown > 1) {
        if (!shrink(table)) { /* one less, and the others may be as wide as they like again */
            table->column_shown--;
            for (uint32_t i = 0; i < table->column_shown; i++) {
                table->columns[i].width = natural[i];
            }
        }
    }
}

/* ---- Printing ---- */

static void put_cell(const struct cli_table *table, struct cli_text *line, uint32_t column,
                     const char *cell) {
    size_t len = strlen(cell);
    size_t width = table->columns[column].width;
    if (table->screen.width == SIZE_MAX && cli_columns(cell, len) > width) {
        width = cli_columns(cell, len); /* of a later page; nothing is cut */
    }
    cli_text_put(line, column > 0 ? "  " : "");
    cli_text_fit(line, cell, len, width, table->columns[column].right);
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
    for (uint32_t i = 0; i < table->column_shown; i++) {
        put_cell(table, line, i, table->columns[i].name);
    }
    (void)fputs(table->screen.colour ? "\033[1m" : "", out);
    put_line(line, out);
    (void)fputs(table->screen.colour ? "\033[0m" : "", out);
}

bool cli_table_flush(struct cli_table *table, FILE *out) {
    struct cli_text line = {.at = NULL};
    const char *cell = table->bytes.at;
    bool good = !table->bytes.failed;
    if (good && !table->begun) {
        measure(table);
        put_head(table, &line, out);
        table->begun = true;
    }
    for (uint64_t i = 0; good && i < table->cell_count; i++) {
        uint32_t column = (uint32_t)(i % table->column_count);
        if (column < table->column_shown) {
            put_cell(table, &line, column, cell);
        }
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
