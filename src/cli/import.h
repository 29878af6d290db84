/* Internal to `tenure import`: from a row of a table to a request and its answer.
 *
 *   import_rows.c      bytes to rows
 *   import_columns.c   the meaning of each column
 *   import_row.c       a row to a lease, or the reason of a refusal
 *   import_time.c      times as databases write them
 *   import_seen.c      which line had a value first
 *   import_item.c      a request and its report
 *   import_run.c       sends rows to the server and receives answers, pipelined
 *   import_report.c    the report and the progress bar */
#ifndef TN_CLI_IMPORT_H
#define TN_CLI_IMPORT_H

#include "cli/cli.h"
#include "cli/display.h"
#include "cli/import_rows.h"
#include "kernel/result.h"

/* ---- Columns ---- */

enum import_column {
    IMPORT_VALUE,
    IMPORT_HOLDER,
    IMPORT_OWNER_TYPE,
    IMPORT_OWNER_UUID,
    IMPORT_EXPIRES,
    IMPORT_TTL,
    IMPORT_CREATED,
    IMPORT_SEEN,
    IMPORT_OFFLINE,
    IMPORT_SCOPE,
    IMPORT_POOL,
    IMPORT_STATE,
    IMPORT_LEASE,
    IMPORT_EPOCH,
    IMPORT_COLUMNS
};

struct import_columns {
    uint32_t at[IMPORT_COLUMNS];     /* counted from 1; 0: the column is missing */
    uint32_t parts[2];               /* the parts of the holder, if it has a column too */
    const char *map[IMPORT_COLUMNS]; /* from --map, not NUL-terminated; NULL: not given */
    uint32_t map_len[IMPORT_COLUMNS];
    const char *holder_type; /* NULL: the column has complete holders */
    char error[200];
};

const char *import_column_name(enum import_column column);
/* Parses "value=vxid,holder=uuid", whose text must stay. False: see `error`. */
bool import_columns_map(struct import_columns *columns, const char *map);
/* Whether the first row contains column names. */
bool import_columns_named(const struct import_columns *columns, const struct cli_rows *first);
/* Finds all columns. `first` is the first row, column names if `named`. False: `error`. */
bool import_columns_place(struct import_columns *columns, const struct cli_rows *first, bool named);
/* Appends the names of the columns that mean nothing here. False: there are none. */
bool import_columns_ignored(const struct import_columns *columns, const struct cli_rows *first,
                            struct cli_text *text);

/* ---- One row ---- */

/* The pool on the server. */
struct import_pool {
    const char *name;
    bool set, scoped, sticky;
    enum kernel_format format;
    uint64_t lo, hi;
    struct kernel_policy range; /* only its spans count; without any: lo to hi */
    uint64_t max_lease_s, max_hold_s;
    uint64_t lsn; /* the log position of this view */
};

struct import_row {
    uint64_t line;
    struct cli_text pool, holder; /* reused for each row */
    struct tn_bytes lease;        /* the lease as written by `tenure export`; empty: none */
    struct tn_bytes value;        /* the value as the row has it */
    uint64_t number;              /* of a range: the parsed value */
    uint64_t deadline_ms, created_ms, seen_ms, offline_ms; /* 0: not given */
    enum tn_result result; /* the result of a row that is refused locally */
    struct cli_text reason;
};

/* True: the row can be sent. False: `result` and `reason` are set; pool, value and holder are set
 * as far as they could be parsed. */
bool import_row_read(struct import_row *row, const struct import_columns *columns,
                     const struct import_pool *pool, const struct cli_rows *rows, uint64_t now_ms);
void import_row_free(struct import_row *row);

/* Whole seconds or milliseconds since 1970, or a date and time in UTC or with its offset. False: it
 * is neither. */
bool import_time_parse(struct tn_bytes text, uint64_t *ret_ms);

/* ---- Values seen ---- */

#define IMPORT_SEEN_MAX (4u * 1024u * 1024u) /* values to remember; later ones are not */

struct import_seen {
    struct import_sight {
        uint64_t hash, line; /* line 0: empty */
        uint64_t owner;      /* offset + 1 in `owners`; 0: not kept */
    } * at;
    uint64_t capacity, count;
    struct cli_text owners;
    bool keep_owners;
};

/* The line that had the value first. 0: this line. */
uint64_t import_seen_line(struct import_seen *seen, const struct import_row *row,
                          struct tn_bytes *ret_owner);
/* The same for holders of a pool in which each has one lease. */
uint64_t import_seen_holder(struct import_seen *seen, const struct import_row *row);
void import_seen_free(struct import_seen *seen);

/* ---- Report ---- */

struct import_report {
    const struct cli_settings *settings;
    bool dry_run;
    FILE *file;                  /* the file of --report; NULL: none */
    uint64_t size;               /* bytes of the input; 0: unknown */
    uint64_t rows, taken, there; /* there: already */
    uint64_t refused[TN_R_COUNT];
    uint64_t last_line; /* the last line that has been answered */
    bool bar;           /* standard error is a terminal */
    uint64_t begun_ms, drawn_ms;
};

/* The report on one row. */
struct import_said {
    uint64_t line;
    uint64_t rows; /* number of rows: a lease may have several values */
    struct tn_bytes pool, value, holder;
    enum tn_result result; /* OK: imported. NOOP: the lease existed */
    struct tn_bytes reason;
    struct tn_bytes held_by; /* empty: not known */
    uint64_t other_line;     /* another line with the value; 0: none known */
};

bool import_report_open(struct import_report *report, const char *path);
void import_report_row(struct import_report *report, const struct import_said *said);
void import_report_progress(struct import_report *report, uint64_t used);
/* Prints the counts. False: a write failed. */
bool import_report_end(struct import_report *report, const char *stopped);

/* ---- The run ---- */

struct import {
    const struct cli_settings *settings;
    const char *pool_name, *path, *report_path, *map, *scope_column;
    bool dry_run, header, no_header;
    enum cli_rows_format format;
    uint64_t window;
    struct import_columns columns;
    struct import_pool pool;
    struct cli_rows rows;
    struct import_report report;
};

/* Imports all rows after the header; returns the exit code. Reads the pool from the server first.
 * */
int import_run(struct import *import);

#endif
