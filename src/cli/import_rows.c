/* Rows of CSV and TSV; the contract is in the header.
 *
 * A row is parsed when all its bytes are in the buffer (or 64 KiB, when it is too long), so that
 * the parser can skip only the first line of an invalid row. */
#include "cli/import_rows.h"

#include <stdlib.h>
#include <string.h>

#define BUFFER_BYTES (1024u * 1024u)

bool cli_rows_open(struct cli_rows *rows, FILE *in, enum cli_rows_format format) {
    *rows = (struct cli_rows){.in = in, .format = format, .next = 1};
    rows->bytes = malloc(BUFFER_BYTES);
    rows->text = malloc(CLI_ROW_MAX);
    if (rows->bytes == NULL || rows->text == NULL) {
        cli_rows_close(rows);
        return false;
    }
    return true;
}

void cli_rows_close(struct cli_rows *rows) {
    free(rows->bytes);
    free(rows->text);
    rows->bytes = NULL;
    rows->text = NULL;
}

/* ---- Bytes ---- */

/* Reads until a complete row fits, or to the end. False: the stream failed. */
static bool fill(struct cli_rows *rows) {
    if (rows->ended || rows->end - rows->begin > CLI_ROW_MAX) {
        return true;
    }
    memmove(rows->bytes, rows->bytes + rows->begin, rows->end - rows->begin);
    rows->end -= rows->begin;
    rows->begin = 0;
    while (!rows->ended && rows->end <= CLI_ROW_MAX) {
        size_t len = fread(rows->bytes + rows->end, 1, BUFFER_BYTES - rows->end, rows->in);
        rows->end += len;
        rows->ended = len == 0;
    }
    if (ferror(rows->in)) {
        rows->error = "cannot read the input";
        return false;
    }
    return true;
}

static void advance(struct cli_rows *rows, size_t len, uint64_t lines) {
    rows->begin += len;
    rows->used += len;
    rows->next += lines;
}

/* Goes to the line after the one at `begin`, however long that is. */
static bool line_skip(struct cli_rows *rows) {
    for (;;) {
        const char *at = rows->bytes + rows->begin;
        const char *found = memchr(at, '\n', rows->end - rows->begin);
        if (found != NULL) {
            advance(rows, (size_t)(found - at) + 1, 1);
            return true;
        }
        advance(rows, rows->end - rows->begin, 0);
        if (rows->ended) {
            return true;
        }
        if (!fill(rows)) {
            return false;
        }
    }
}

static void start(struct cli_rows *rows) {
    if (rows->end - rows->begin >= 3 && memcmp(rows->bytes, "\xef\xbb\xbf", 3) == 0) {
        advance(rows, 3, 0);
    }
    if (rows->format == CLI_ROWS_AUTO) {
        /* A tab in the first line means TSV. */
        const char *at = rows->bytes + rows->begin;
        size_t left = rows->end - rows->begin;
        const char *end = memchr(at, '\n', left);
        size_t len = end != NULL ? (size_t)(end - at) : left;
        rows->format = memchr(at, '\t', len) != NULL ? CLI_ROWS_TSV : CLI_ROWS_CSV;
    }
    rows->started = true;
}

/* ---- Fields ---- */

struct scan {
    struct cli_rows *rows;
    const char *at, *end; /* the bytes available for the row */
    size_t out;           /* written to rows->text */
    uint64_t lines;       /* ended inside quotes */
    bool cut;             /* there are more bytes after `end` */
};

static bool field_add(struct scan *scan, size_t begin, bool null) {
    struct cli_rows *rows = scan->rows;
    if (rows->count == CLI_ROW_FIELDS) {
        rows->error = "it has more than 64 columns";
        return false;
    }
    rows->fields[rows->count] = tn_bytes_of(rows->text + begin, null ? 0 : scan->out - begin);
    rows->null[rows->count++] = null;
    return true;
}

static bool is_word(const struct scan *scan, size_t begin, const char *word) {
    return scan->out - begin == strlen(word) &&
           memcmp(scan->rows->text + begin, word, strlen(word)) == 0;
}

/* From behind the opening quote to behind the closing one. */
static bool quoted_read(struct scan *scan) {
    for (; scan->at < scan->end; scan->at++) {
        if (*scan->at == '"') {
            bool doubled = scan->at + 1 < scan->end && scan->at[1] == '"';
            if (!doubled) {
                scan->at++;
                return true;
            }
            scan->at++;
        }
        scan->lines += *scan->at == '\n';
        scan->rows->text[scan->out++] = *scan->at;
    }
    scan->rows->error = scan->cut ? "a quote is not closed within 64 KiB" : "a quote is not closed";
    return false;
}

/* Whether the row ends here. Does not consume the end of the line. */
static bool at_end(const struct scan *scan) {
    const char *at = scan->at;
    if (at < scan->end && *at == '\r') {
        at++;
    }
    return at == scan->end || *at == '\n';
}

static bool csv_field(struct scan *scan) {
    size_t begin = scan->out;
    if (scan->at < scan->end && *scan->at == '"') {
        scan->at++;
        if (!quoted_read(scan)) {
            return false;
        }
        if (!at_end(scan) && *scan->at != ',') {
            scan->rows->error = "unexpected text between a closing quote and the next comma";
            return false;
        }
        return field_add(scan, begin, false);
    }
    while (scan->at < scan->end && *scan->at != ',' && !at_end(scan)) {
        scan->rows->text[scan->out++] = *scan->at++;
    }
    return field_add(scan, begin, is_word(scan, begin, "NULL") || is_word(scan, begin, "\\N"));
}

/* Decodes \t \n \r \0 \b \Z. Any other character after a backslash stands for itself. */
static char unescaped(char c) {
    static const char from[] = "tnr0bZ";
    static const char to[] = "\t\n\r\0\b\x1a";
    const char *found = c != '\0' ? strchr(from, c) : NULL;
    return found != NULL ? to[found - from] : c;
}

static bool tsv_field(struct scan *scan) {
    size_t begin = scan->out;
    const char *first = scan->at;
    while (scan->at < scan->end && *scan->at != '\t' && !at_end(scan)) {
        char c = *scan->at++;
        if (c == '\\' && scan->at < scan->end && !at_end(scan)) {
            c = unescaped(*scan->at++);
        }
        scan->rows->text[scan->out++] = c;
    }
    size_t len = (size_t)(scan->at - first); /* compared as written: an escaped NULL is a text */
    return field_add(scan, begin,
                     (len == 2 && memcmp(first, "\\N", 2) == 0) ||
                         (len == 4 && memcmp(first, "NULL", 4) == 0));
}

/* Reads all fields. Returns the position behind the last one. */
static bool fields_read(struct scan *scan) {
    bool csv = scan->rows->format == CLI_ROWS_CSV;
    char separator = csv ? ',' : '\t';
    for (;;) {
        if (!(csv ? csv_field(scan) : tsv_field(scan))) {
            return false;
        }
        if (scan->at == scan->end || *scan->at != separator) {
            return true;
        }
        scan->at++;
    }
}

static enum cli_rows_next row_bad(struct cli_rows *rows) {
    const char *why = rows->error;
    if (!line_skip(rows)) {
        return CLI_ROW_FAILED;
    }
    rows->error = why;
    return CLI_ROW_BAD;
}

static enum cli_rows_next row_read(struct cli_rows *rows) {
    const char *first = rows->bytes + rows->begin;
    size_t left = rows->end - rows->begin;
    struct scan scan = {.rows = rows,
                        .at = first,
                        .end = first + (left < CLI_ROW_MAX ? left : CLI_ROW_MAX),
                        .cut = left > CLI_ROW_MAX};
    rows->line = rows->next;
    rows->count = 0;
    if (!fields_read(&scan)) {
        return row_bad(rows);
    }
    if (scan.at == scan.end && scan.cut) {
        rows->error = "the line has more than 64 KiB";
        return row_bad(rows);
    }
    if (scan.at < scan.end && *scan.at == '\r') {
        scan.at++;
    }
    bool ended_line = scan.at < scan.end && *scan.at == '\n';
    advance(rows, (size_t)(scan.at - first) + ended_line, scan.lines + ended_line);
    return CLI_ROW_READY;
}

enum cli_rows_next cli_rows_read(struct cli_rows *rows) {
    for (;;) {
        if (!fill(rows)) {
            return CLI_ROW_FAILED;
        }
        if (!rows->started) {
            start(rows);
        }
        if (rows->begin == rows->end) {
            return CLI_ROW_END;
        }
        enum cli_rows_next next = row_read(rows);
        bool blank = next == CLI_ROW_READY && rows->count == 1 && rows->fields[0].len == 0;
        if (!blank) {
            return next;
        }
    }
}
