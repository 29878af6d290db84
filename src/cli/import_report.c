/* The report of an import: a line for every row that was not imported (in a dry run, for every
 * row), the same as CSV in a file or as JSON, counts at the end, and a progress bar on a terminal.
 * */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "cli/import.h"

#define BAR_COLUMNS 30u
#define DRAW_MS 100u

bool import_report_open(struct import_report *report, const char *path) {
    report->bar = isatty(STDERR_FILENO) == 1;
    report->begun_ms = report->settings->os->clock_boot_ms(report->settings->os->ctx);
    report->drawn_ms = report->begun_ms;
    if (path != NULL) {
        report->file = fopen(path, "w");
        if (report->file == NULL) {
            (void)fprintf(stderr, "tenure import: cannot write %s\n", path);
            return false;
        }
        (void)fprintf(report->file, "line,pool,value,holder,result,reason,held_by,other_line\n");
    }
    return true;
}

/* ---- A row ---- */

static void csv_put(struct cli_text *text, struct tn_bytes field) {
    cli_text_put(text, ",\"");
    for (uint32_t i = 0; i < field.len; i++) {
        cli_text_add(text, field.at[i] == '"' ? "\"\"" : (const char *)field.at + i,
                     field.at[i] == '"' ? 2 : 1);
    }
    cli_text_put(text, "\"");
}

static void csv_write(struct cli_text *text, const struct import_said *said) {
    const char *name = tn_result_name(said->result);
    cli_text_printf(text, "%" PRIu64, said->line);
    csv_put(text, said->pool);
    csv_put(text, said->value);
    csv_put(text, said->holder);
    cli_text_printf(text, ",%s", name);
    csv_put(text, said->reason);
    csv_put(text, said->held_by);
    if (said->other_line != 0) {
        cli_text_printf(text, ",%" PRIu64, said->other_line);
    } else {
        cli_text_put(text, ",");
    }
    cli_text_put(text, "\n");
}

static void json_put(struct cli_text *text, const char *key, struct tn_bytes field) {
    cli_text_printf(text, ",\"%s\":", key);
    cli_text_json(text, field);
}

static void json_write(struct cli_text *text, const struct import_said *said) {
    cli_text_printf(text, "{\"line\":\"%" PRIu64 "\",\"result\":\"%s\"", said->line,
                    tn_result_name(said->result));
    json_put(text, "pool", said->pool);
    json_put(text, "value", said->value);
    json_put(text, "holder", said->holder);
    json_put(text, "reason", said->reason);
    if (said->held_by.len > 0) {
        json_put(text, "held_by", said->held_by);
    }
    if (said->other_line != 0) {
        cli_text_printf(text, ",\"other_line\":\"%" PRIu64 "\"", said->other_line);
    }
    cli_text_put(text, "}\n");
}

/* A value or a holder in the file may have any bytes and any length. */
static void clean_put(struct cli_text *text, struct tn_bytes field) {
    cli_text_clean(text, tn_bytes_of(field.at, field.len < 140 ? field.len : 140));
    cli_text_put(text, field.len < 140 ? "" : "…");
}

static void words_write(struct cli_text *text, const struct import_said *said) {
    cli_text_printf(text, "line %" PRIu64 ": ", said->line);
    if (said->value.len > 0) {
        clean_put(text, said->pool);
        cli_text_put(text, "/");
        clean_put(text, said->value);
    }
    if (said->holder.len > 0) {
        cli_text_put(text, said->value.len > 0 ? " for " : "for ");
        clean_put(text, said->holder);
    }
    cli_text_put(text, said->value.len > 0 || said->holder.len > 0 ? ": " : "");
    if (said->result != TN_R_OK && said->result != TN_R_NOOP) {
        cli_text_printf(text, "%s: ", tn_result_name(said->result));
    }
    clean_put(text, said->reason);
    if (said->held_by.len > 0) {
        cli_text_put(text, " by ");
        clean_put(text, said->held_by);
    }
    if (said->other_line != 0) {
        cli_text_printf(text, " (also in line %" PRIu64 ")", said->other_line);
    }
    cli_text_put(text, "\n");
}

static void bar_clear(const struct import_report *report) {
    if (report->bar) {
        (void)fputs("\r\033[K", stderr);
    }
}

void import_report_row(struct import_report *report, const struct import_said *said) {
    bool good = said->result == TN_R_OK || said->result == TN_R_NOOP;
    struct cli_text text = {.at = NULL};
    report->rows += said->rows;
    report->taken += said->result == TN_R_OK ? said->rows : 0;
    report->there += said->result == TN_R_NOOP ? said->rows : 0;
    report->refused[said->result] += good ? 0 : said->rows;
    report->last_line = said->line > report->last_line ? said->line : report->last_line;
    if (good && !report->dry_run) {
        return;
    }
    if (report->file != NULL) {
        csv_write(&text, said);
        (void)fwrite(text.at, 1, text.len, report->file);
        text.len = 0;
    }
    if (report->settings->json) {
        json_write(&text, said);
    } else {
        words_write(&text, said);
    }
    bar_clear(report);
    (void)fwrite(text.at, 1, text.len, stdout);
    cli_text_free(&text);
}

/* ---- Progress ---- */

void import_report_progress(struct import_report *report, uint64_t used) {
    const struct os *os = report->settings->os;
    char bar[BAR_COLUMNS + 1];
    if (!report->bar || report->rows % 64 != 0) {
        return;
    }
    uint64_t now = os->clock_boot_ms(os->ctx);
    uint64_t passed = now - report->begun_ms;
    if (now - report->drawn_ms < DRAW_MS) {
        return;
    }
    report->drawn_ms = now;
    (void)fprintf(stderr, "\r\033[K%" PRIu64 " rows  %" PRIu64 " rows/s", report->rows,
                  report->rows * 1000 / passed);
    if (report->size > 0 && used > 0) {
        uint64_t done = used < report->size ? used : report->size;
        uint64_t full = done * BAR_COLUMNS / report->size;
        memset(bar, '-', BAR_COLUMNS);
        memset(bar, '#', full);
        bar[BAR_COLUMNS] = '\0';
        (void)fprintf(stderr, "  [%s] %" PRIu64 " %%  eta %" PRIu64 " s", bar,
                      done * 100 / report->size, passed * (report->size - done) / done / 1000);
    }
    (void)fflush(stderr);
}

/* ---- The end ---- */

static void json_end(const struct import_report *report, const char *stopped) {
    const char *comma = "";
    (void)printf(
        "{\"rows\":\"%" PRIu64 "\",\"%s\":\"%" PRIu64 "\",\"there\":\"%" PRIu64 "\",\"refused\":{",
        report->rows, report->dry_run ? "would_take" : "taken", report->taken, report->there);
    for (unsigned i = 0; i < TN_R_COUNT; i++) {
        if (report->refused[i] > 0) {
            (void)printf("%s\"%s\":\"%" PRIu64 "\"", comma, tn_result_name((enum tn_result)i),
                         report->refused[i]);
            comma = ",";
        }
    }
    (void)printf("},\"complete\":%s}\n", stopped == NULL ? "true" : "false");
}

static void words_end(const struct import_report *report) {
    (void)printf("%" PRIu64 " rows: %" PRIu64 " %s, %" PRIu64 " already present", report->rows,
                 report->taken, report->dry_run ? "would be imported" : "imported", report->there);
    for (unsigned i = 0; i < TN_R_COUNT; i++) {
        if (report->refused[i] > 0) {
            (void)printf(", %" PRIu64 " %s", report->refused[i], tn_result_name((enum tn_result)i));
        }
    }
    (void)printf("\n");
}

bool import_report_end(struct import_report *report, const char *stopped) {
    bool good = true;
    bar_clear(report);
    if (report->settings->json) {
        json_end(report, stopped);
    } else {
        words_end(report);
    }
    if (stopped != NULL) {
        (void)fflush(stdout);
        (void)fprintf(stderr, "tenure import: %s\nIt stopped after line %" PRIu64 ". %s\n", stopped,
                      report->last_line,
                      report->dry_run
                          ? "Nothing was changed."
                          : "Repeat the import to continue; existing leases are left unchanged.");
    }
    if (report->file != NULL) {
        good = !ferror(report->file);
        good = fclose(report->file) == 0 && good;
        report->file = NULL;
    }
    if (!good) {
        (void)fprintf(stderr, "tenure import: cannot write the report\n");
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        (void)fprintf(stderr, "tenure: cannot write to standard output\n");
        good = false;
    }
    return good;
}
