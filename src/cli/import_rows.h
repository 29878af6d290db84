/* Reads rows of a table from a stream: CSV (RFC 4180), and TSV as written by `mariadb --batch` and
 * PostgreSQL's COPY.
 *
 * Memory is bounded: one row has at most 64 KiB, and at most one read is buffered. Any bytes are
 * accepted. An invalid row is reported, and reading continues with the next line: an unclosed quote
 * costs only its own line, not the rest of the file. */
#ifndef TN_CLI_IMPORT_ROWS_H
#define TN_CLI_IMPORT_ROWS_H

#include <stdio.h>

#include "base/bytes.h"

#define CLI_ROW_MAX 65536u
#define CLI_ROW_FIELDS 64u

enum cli_rows_format { CLI_ROWS_AUTO, CLI_ROWS_CSV, CLI_ROWS_TSV };

enum cli_rows_next {
    CLI_ROW_READY,  /* fields that are valid until the next call */
    CLI_ROW_BAD,    /* see `error` for the reason */
    CLI_ROW_END,    /* there are no more rows */
    CLI_ROW_FAILED, /* the stream failed, or memory is short: see `error` */
};

struct cli_rows {
    FILE *in;
    enum cli_rows_format format; /* AUTO until the first row */
    char *bytes;                 /* bytes read and not yet used are from `begin` to `end` */
    size_t begin, end;
    bool ended;     /* nothing follows after `end` */
    bool started;   /* the mark of UTF-8 at the beginning has been looked for */
    uint64_t next;  /* number of the line at `begin`, from 1 */
    uint64_t used;  /* bytes before `begin` */
    char *text;     /* the fields without quotes and escapes */
    uint64_t line;  /* number of the line where the row began */
    uint32_t count; /* of fields */
    struct tn_bytes fields[CLI_ROW_FIELDS];
    bool null[CLI_ROW_FIELDS]; /* the field was NULL, and is empty here */
    const char *error;
};

/* False: out of memory. The stream remains the caller's. */
bool cli_rows_open(struct cli_rows *rows, FILE *in, enum cli_rows_format format);
void cli_rows_close(struct cli_rows *rows);
/* Skips empty lines. */
enum cli_rows_next cli_rows_read(struct cli_rows *rows);

#endif
