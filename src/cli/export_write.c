/* Leases as tables. CSV and TSV are what `tenure import` reads; MariaDB and PostgreSQL accept the
 * same SQL: statements only for MariaDB are in comments that only MariaDB executes. */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "cli/export.h"

#define ROWS_PER_INSERT 500u

/* A row: one value of a lease. */
struct row {
    const struct export_lease *lease;
    const char *pool, *value, *holder;
    const char *type, *uuid; /* of the holder */
    size_t type_len;
};

/* type/id; a holder without a type is all id. */
static void holder_split(struct row *row) {
    const char *slash = strchr(row->holder, '/');
    bool typed = slash != NULL && slash != row->holder && slash[1] != '\0';
    row->type = row->holder;
    row->type_len = typed ? (size_t)(slash - row->holder) : 0;
    row->uuid = typed ? slash + 1 : row->holder;
}

static void time_put(struct cli_text *text, uint64_t ms, const char *format) {
    struct tm parts;
    char out[40] = "";
    time_t seconds = (time_t)(ms / 1000);
    if (gmtime_r(&seconds, &parts) != NULL) {
        (void)strftime(out, sizeof out, format, &parts);
    }
    cli_text_printf(text, "%s.%03u", out, (unsigned)(ms % 1000));
}

/* ---- CSV and TSV ---- */

static const char columns[] = "pool value holder owner_type owner_uuid state created_at expires_at "
                              "lease epoch seen_at offline_at";

static void head_put(struct cli_text *text, char separator) {
    for (const char *at = columns; *at != '\0'; at++) {
        cli_text_add(text, *at == ' ' ? &separator : at, 1);
    }
    cli_text_put(text, "\n");
}

static void csv_put(struct cli_text *text, const char *field, size_t len) {
    bool quote = memchr(field, ',', len) != NULL || memchr(field, '"', len) != NULL ||
                 (len == 4 && memcmp(field, "NULL", 4) == 0) ||
                 (len == 2 && memcmp(field, "\\N", 2) == 0);
    cli_text_put(text, quote ? "\"" : "");
    for (size_t i = 0; i < len; i++) {
        cli_text_add(text, field[i] == '"' ? "\"\"" : field + i, field[i] == '"' ? 2 : 1);
    }
    cli_text_put(text, quote ? "\"" : "");
}

/* Names have no control characters, so only the escape character and NULL need escaping. */
static void tsv_put(struct cli_text *text, const char *field, size_t len) {
    cli_text_put(text, len == 4 && memcmp(field, "NULL", 4) == 0 ? "\\" : "");
    for (size_t i = 0; i < len; i++) {
        cli_text_put(text, field[i] == '\\' ? "\\" : "");
        cli_text_add(text, field + i, 1);
    }
}

struct line {
    struct cli_text *text;
    bool tsv, begun;
};

static void cell(struct line *line, const char *field, size_t len) {
    cli_text_put(line->text, line->begun ? (line->tsv ? "\t" : ",") : "");
    line->begun = true;
    if (line->tsv) {
        tsv_put(line->text, field, len);
    } else {
        csv_put(line->text, field, len);
    }
}

static void cell_text(struct line *line, const char *field) {
    cell(line, field, strlen(field));
}

static void cell_time(struct line *line, uint64_t ms) {
    struct cli_text text = {.at = NULL};
    if (ms == 0) {
        cell(line, "", 0);
        cli_text_put(line->text, line->tsv ? "NULL" : "");
        return;
    }
    time_put(&text, ms, "%Y-%m-%dT%H:%M:%S");
    cli_text_put(&text, "Z");
    cell(line, text.failed ? "" : text.at, text.len);
    cli_text_free(&text);
}

static void row_line(struct cli_text *text, const struct row *row, bool tsv) {
    const struct export_lease *lease = row->lease;
    struct line line = {.text = text, .tsv = tsv};
    char id[64], epoch[24];
    (void)snprintf(id, sizeof id, "%" PRIu64 "-%" PRIu64, lease->shard, lease->lsn);
    (void)snprintf(epoch, sizeof epoch, "%" PRIu64, lease->epoch);
    cell_text(&line, row->pool);
    cell_text(&line, row->value);
    cell_text(&line, row->holder);
    cell(&line, row->type, row->type_len);
    cell_text(&line, row->uuid);
    cell_text(&line, kernel_state_name((enum kernel_state)lease->state));
    cell_time(&line, lease->created_ms);
    cell_time(&line, lease->deadline_ms);
    cell_text(&line, id);
    cell_text(&line, epoch);
    cell_time(&line, lease->seen_ms);
    cell_time(&line, lease->state == KERNEL_OFFLINE ? lease->offline_ms : 0);
    cli_text_put(text, "\n");
}

/* ---- SQL ---- */

/* Backslashes are themselves, as the standard has it; times have no zone, because all are UTC. */
static const char sql_head[] =
    "/*!50503 SET sql_mode = CONCAT(@@sql_mode, ',NO_BACKSLASH_ESCAPES') */;\n"
    "CREATE TABLE IF NOT EXISTS resource_pool_allocations (\n"
    "    pool_name VARCHAR(129) NOT NULL,\n"
    "    value VARCHAR(64) NOT NULL,\n"
    "    owner_type VARCHAR(128) NOT NULL,\n"
    "    owner_uuid VARCHAR(128) NOT NULL,\n"
    "    allocated_at TIMESTAMP(3) NOT NULL,\n"
    "    expires_at TIMESTAMP(3) NULL,\n"
    "    UNIQUE (pool_name, value)\n"
    ");\n"
    "/*!50503 ALTER TABLE resource_pool_allocations MODIFY allocated_at DATETIME(3) NOT NULL, "
    "MODIFY expires_at DATETIME(3) NULL */;\n"
    "START TRANSACTION;\n";

static void sql_put(struct cli_text *text, const char *field, size_t len) {
    cli_text_put(text, "'");
    for (size_t i = 0; i < len; i++) {
        cli_text_add(text, field[i] == '\'' ? "''" : field + i, field[i] == '\'' ? 2 : 1);
    }
    cli_text_put(text, "'");
}

static void sql_time(struct cli_text *text, uint64_t ms) {
    if (ms == 0) {
        cli_text_put(text, "NULL");
        return;
    }
    cli_text_put(text, "'");
    time_put(text, ms, "%Y-%m-%d %H:%M:%S");
    cli_text_put(text, "'");
}

static void row_sql(struct cli_text *text, const struct row *row, uint64_t number) {
    cli_text_put(text, number % ROWS_PER_INSERT == 0
                           ? "INSERT INTO resource_pool_allocations (pool_name, value, owner_type, "
                             "owner_uuid, allocated_at, expires_at) VALUES\n("
                           : ",\n(");
    sql_put(text, row->pool, strlen(row->pool));
    cli_text_put(text, ", ");
    sql_put(text, row->value, strlen(row->value));
    cli_text_put(text, ", ");
    sql_put(text, row->type, row->type_len);
    cli_text_put(text, ", ");
    sql_put(text, row->uuid, strlen(row->uuid));
    cli_text_put(text, ", ");
    sql_time(text, row->lease->created_ms);
    cli_text_put(text, ", ");
    sql_time(text, row->lease->deadline_ms);
    cli_text_put(text, ")");
    cli_text_put(text, number % ROWS_PER_INSERT == ROWS_PER_INSERT - 1 ? ";\n" : "");
}

/* ---- All rows ---- */

struct output {
    enum export_format format;
    struct cli_text text;
    FILE *out;
    uint64_t rows;
};

static void lease_put(struct output *output, const struct export *export,
                      const struct export_lease *lease) {
    const char *at = export->strings.at + lease->values;
    struct row row = {.lease = lease, .holder = export->strings.at + lease->holder};
    holder_split(&row);
    for (uint32_t i = 0; i < lease->value_count; i++) {
        row.pool = at;
        row.value = at + strlen(at) + 1;
        at = row.value + strlen(row.value) + 1;
        if (output->format == EXPORT_SQL) {
            row_sql(&output->text, &row, output->rows);
        } else {
            row_line(&output->text, &row, output->format == EXPORT_TSV);
        }
        output->rows++;
    }
}

static void flush(struct output *output) {
    (void)fwrite(output->text.at, 1, output->text.len, output->out);
    output->text.len = 0;
}

bool export_write(const struct export *export, enum export_format format, enum kernel_state state,
                  FILE *out, uint64_t *ret_rows) {
    struct output output = {.format = format, .out = out};
    if (format == EXPORT_SQL) {
        cli_text_printf(&output.text, "-- %s at LSN %" PRIu64 ", times in UTC\n", export->pool,
                        export->lsn);
        cli_text_put(&output.text, sql_head);
    } else {
        head_put(&output.text, format == EXPORT_TSV ? '\t' : ',');
    }
    for (uint32_t i = 0; i < export->count && !output.text.failed; i++) {
        if (state == KERNEL_NO_STATE || export->leases[i].state == state) {
            lease_put(&output, export, &export->leases[i]);
            flush(&output);
        }
    }
    if (format == EXPORT_SQL) {
        cli_text_put(&output.text, output.rows % ROWS_PER_INSERT != 0 ? ";\n" : "");
        cli_text_put(&output.text, "COMMIT;\n");
    }
    flush(&output);
    *ret_rows = output.rows;
    bool good = !output.text.failed && fflush(out) == 0 && !ferror(out);
    cli_text_free(&output.text);
    return good;
}
