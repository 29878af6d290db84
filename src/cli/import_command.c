/* `tenure import`: imports allocations from CSV or TSV into a pool. `tenure import POOL HOLDER
 * --values ...` is the server's command IMPORT, for one lease. */
#include "cli/import.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "cli/options.h"

#define WINDOW 2000u
#define WINDOW_MAX 10000u

static const char usage[] =
    "POOL [FILE] [--format csv|tsv] [--header | --no-header] [--map COLUMN=NAME,...] "
    "[--holder-type TYPE] [--scope-column NAME] [--dry-run] [--batch N] [--report FILE]";

/* Whether the words are the command IMPORT, recognized by its mandatory arguments. */
static bool is_command(int argc, char **argv) {
    for (int i = 0; i < argc; i++) {
        if (strcasecmp(argv[i], "values") == 0 || strcmp(argv[i], "--values") == 0 ||
            strncmp(argv[i], "--values=", 9) == 0) {
            return true;
        }
    }
    return false;
}

static bool format_set(struct import *import, const char *text) {
    static const char *const formats[] = {"auto", "csv", "tsv"};
    for (unsigned i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        if (text == NULL || strcmp(text, formats[i]) == 0) {
            import->format = (enum cli_rows_format)i;
            return true;
        }
    }
    return false;
}

static bool options_check(struct import *import, const struct cli_options *options,
                          const char *format, const char *batch) {
    struct import_columns *columns = &import->columns;
    if (import->pool_name == NULL) {
        return cli_options_wrong(options, "specify a pool", "");
    }
    if (import->header && import->no_header) {
        return cli_options_wrong(options, "--header and --no-header exclude each other", "");
    }
    if (!format_set(import, format)) {
        return cli_options_wrong(options, "unknown format ", format);
    }
    import->window = WINDOW;
    if (batch != NULL && (!cli_number_parse(tn_bytes_of(batch, strlen(batch)), &import->window) ||
                          import->window == 0 || import->window > WINDOW_MAX)) {
        return cli_options_wrong(options, "--batch is 1 to 10000, not ", batch);
    }
    if (import->map != NULL && !import_columns_map(columns, import->map)) {
        return cli_options_wrong(options, columns->error, "");
    }
    if (import->scope_column != NULL) {
        columns->map[IMPORT_SCOPE] = import->scope_column;
        columns->map_len[IMPORT_SCOPE] = (uint32_t)strlen(import->scope_column);
    }
    import->window++; /* one item may be waiting for the next row */
    return true;
}

static bool options_parse(struct import *import, int argc, char **argv) {
    const char *format = NULL;
    const char *batch = NULL;
    const char *places[2] = {NULL, NULL};
    const struct cli_option rows[] = {
        {"--format", &format, NULL},
        {"--header", NULL, &import->header},
        {"--no-header", NULL, &import->no_header},
        {"--map", &import->map, NULL},
        {"--holder-type", &import->columns.holder_type, NULL},
        {"--scope-column", &import->scope_column, NULL},
        {"--dry-run", NULL, &import->dry_run},
        {"--batch", &batch, NULL},
        {"--report", &import->report_path, NULL},
    };
    const struct cli_options options = {"import", usage, rows, sizeof rows / sizeof rows[0],
                                        places,   2};
    if (!cli_options_parse(&options, argc, argv)) {
        return false;
    }
    import->pool_name = places[0];
    import->path = places[1];
    return options_check(import, &options, format, batch);
}

/* Opens standard input, or the file. */
static FILE *input_open(struct import *import) {
    struct stat status;
    bool named = import->path != NULL && strcmp(import->path, "-") != 0;
    FILE *in = named ? fopen(import->path, "rb") : stdin;
    if (in == NULL) {
        (void)fprintf(stderr, "tenure import: cannot open %s: %s\n", import->path, strerror(errno));
        return NULL;
    }
    if (fstat(fileno(in), &status) == 0 && S_ISREG(status.st_mode)) {
        import->report.size = (uint64_t)status.st_size;
    }
    return in;
}

int cli_import(const struct cli_settings *settings, int argc, char **argv) {
    struct import import = {.settings = settings};
    int code = CLI_FAILED;
    if (is_command(argc, argv)) {
        return cli_call(settings, argc + 1, argv - 1);
    }
    if (settings->opid != NULL) { /* an import makes many writes, each of which can be repeated */
        (void)fprintf(stderr, "tenure import: --opid is not allowed for rows\n");
        return CLI_USAGE;
    }
    if (!options_parse(&import, argc, argv)) {
        return CLI_USAGE;
    }
    FILE *in = input_open(&import);
    if (in == NULL) {
        return CLI_FAILED;
    }
    import.report.settings = settings;
    import.report.dry_run = import.dry_run;
    if (cli_rows_open(&import.rows, in, import.format) &&
        import_report_open(&import.report, import.report_path)) {
        code = import_run(&import);
    }
    cli_rows_close(&import.rows);
    if (import.report.file != NULL) {
        (void)fclose(import.report.file);
    }
    if (in != stdin) {
        (void)fclose(in);
    }
    return code;
}
