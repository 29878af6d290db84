/* `tenure export`: prints the leases of a pool at one log position as a table. */
#include "cli/export.h"

#include <inttypes.h>
#include <string.h>

#include "cli/options.h"
#include "cli/scan.h"

static bool format_parse(const char *text, enum export_format *ret_format) {
    static const char *const formats[] = {"csv", "tsv", "sql"};
    for (unsigned i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        if (strcmp(text, formats[i]) == 0) {
            *ret_format = (enum export_format)i;
            return true;
        }
    }
    return false;
}

/* Only states of leases that have values: a waiting lease has none. */
static bool state_parse(const char *text, enum kernel_state *ret_state) {
    for (unsigned i = KERNEL_RESERVED; i < KERNEL_SHOWN_COUNT; i++) {
        if (!kernel_state_terminal((enum kernel_state)i) && i != KERNEL_WAITING &&
            strcmp(text, kernel_state_name((enum kernel_state)i)) == 0) {
            *ret_state = (enum kernel_state)i;
            return true;
        }
    }
    return false;
}

/* Finds out whether the pool exists and whether it has scopes. */
static int pool_ask(struct export *export) {
    const struct tn_bytes words[] = {tn_bytes_of("POOL", 4), tn_bytes_of("INFO", 4),
                                     tn_bytes_of(export->pool, strlen(export->pool))};
    int code = cli_ask(export->settings, &export->client, words, 3);
    if (code == CLI_OK) {
        const struct cli_reader *reader = &export->client.reader;
        uint32_t options = cli_node_find(reader, 0, "options");
        export->scoped = options != 0 && cli_field_is(reader, options, "scoped", "yes");
    }
    return code;
}

static int run(struct export *export, enum export_format format, enum kernel_state state) {
    const struct cli_settings *settings = export->settings;
    uint64_t rows = 0;
    if (cli_client_open(&export->client, settings) != CLI_LINK_OK) {
        return cli_client_unreachable(&export->client);
    }
    int code = pool_ask(export);
    code = code == CLI_OK ? export_read(export) : code;
    if (code != CLI_OK) {
        return code;
    }
    if (!export_write(export, format, state, stdout, &rows)) {
        (void)fprintf(stderr, "tenure: cannot write to standard output\n");
        return CLI_FAILED;
    }
    (void)fprintf(stderr, "%" PRIu64 " rows of %s, as of LSN %" PRIu64 "\n", rows, export->pool,
                  export->lsn);
    return CLI_OK;
}

int cli_export(const struct cli_settings *settings, int argc, char **argv) {
    const char *pool = NULL;
    const char *format_text = NULL;
    const char *state_text = NULL;
    enum export_format format = EXPORT_CSV;
    enum kernel_state state = KERNEL_NO_STATE;
    const struct cli_option rows[] = {{"--format", &format_text, NULL},
                                      {"--state", &state_text, NULL}};
    const struct cli_options options = {
        "export", "POOL [--format csv|tsv|sql] [--state STATE]", rows, 2, &pool, 1};
    if (!cli_options_parse(&options, argc, argv)) {
        return CLI_USAGE;
    }
    if (pool == NULL || (format_text != NULL && !format_parse(format_text, &format)) ||
        (state_text != NULL && !state_parse(state_text, &state))) {
        (void)cli_options_wrong(&options, pool == NULL ? "which pool?" : "unknown format or state",
                                "");
        return CLI_USAGE;
    }
    struct export export = {.settings = settings, .pool = pool, .client = {.socket = -1}};
    int code = run(&export, format, state);
    export_free(&export);
    return code;
}
