/* Tables for people. On a terminal a table fits its width: very long texts are cut with an ellipsis
 * first, then spare columns are left out, then the other texts are cut, and before a text becomes
 * unreadable the last columns are left out. Numbers are never cut. Elsewhere nothing is cut. */
#ifndef TN_CLI_COLUMNS_H
#define TN_CLI_COLUMNS_H

#include <stdio.h>

#include "cli/watch_changes.h"

#define CLI_COLUMNS_MAX 24u

/* Where things are shown. */
struct cli_screen {
    size_t width;  /* SIZE_MAX: unlimited */
    size_t height; /* 0: not known */
    bool tty;
    bool colour;
};

struct cli_screen cli_screen_of(FILE *out);

struct cli_table {
    struct {
        const char *name;
        bool right; /* a number */
        bool fixed; /* never cut, like numbers */
        bool hidden;
        bool ticking;   /* changes by itself: --watch does not mark it */
        uint8_t spare;  /* not 0: may be left out; the largest goes first */
        size_t natural; /* width of its widest cell so far */
        size_t width;
    } columns[CLI_COLUMNS_MAX];
    uint32_t column_count;
    struct cli_screen screen;
    bool begun;            /* the head has been printed */
    struct cli_text bytes; /* all cells, each followed by a NUL */
    uint64_t cell_count;
    struct cli_changes *changes; /* NULL: rows are not compared and get no marks */
};

void cli_table_column(struct cli_table *table, const char *name, bool right);
/* Adds the next cell, row by row. */
void cli_table_cell(struct cli_table *table, struct tn_bytes text);
void cli_table_put(struct cli_table *table, const char *text);
/* Prints the rows so far, after a head if there was none or if other columns are shown. False: out
 * of memory. */
bool cli_table_flush(struct cli_table *table, FILE *out);
void cli_table_free(struct cli_table *table);

/* Fits a text into a number of columns: cuts it, or pads it with blanks on the left or the
 * right. */
void cli_text_fit(struct cli_text *out, const char *text, size_t len, size_t columns, bool right);

#endif
