/* Any bytes as a file to import: the first byte chooses the format, the rest is read as rows, the first
 * of which may name the columns. Lines only grow, all bytes are used, and what is taken for a lease has
 * a value and a holder that a server may be asked for. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "cli/import.h"
#include "protocol/text.h"

#define NOW_MS 1800000000000u

static void row_check(const struct import_row *row) {
    TN_ASSERT(row->number >= 1 && row->number <= 16777215);
    TN_ASSERT(protocol_name_fault(tn_bytes_of(row->holder.at, row->holder.len),
                                  KERNEL_HOLDER_MAX) == NULL);
    TN_ASSERT(row->deadline_ms == 0 || row->deadline_ms > NOW_MS);
    TN_ASSERT(row->created_ms <= NOW_MS && row->seen_ms <= NOW_MS && row->offline_ms <= NOW_MS);
}

static void rows_read(struct cli_rows *rows, struct import_seen *seen) {
    struct import_columns columns = {.holder_type = NULL};
    const struct import_pool pool = {.name = "vxlan", .lo = 1, .hi = 16777215};
    struct import_row row = {.line = 0};
    bool placed = false;
    uint64_t line = 0;
    for (;;) {
        enum cli_rows_next next = cli_rows_read(rows);
        if (next == CLI_ROW_END) {
            break;
        }
        TN_ASSERT(next != CLI_ROW_FAILED && rows->line > line);
        line = rows->line;
        if (next == CLI_ROW_READY && !placed) {
            placed = import_columns_place(&columns, rows, import_columns_named(&columns, rows));
        } else if (next == CLI_ROW_READY && import_row_read(&row, &columns, &pool, rows, NOW_MS)) {
            struct tn_bytes owner;
            row_check(&row);
            TN_ASSERT(import_seen_line(seen, &row, &owner) < row.line);
        }
    }
    import_row_free(&row);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct cli_rows rows;
    struct import_seen seen = {.keep_owners = true};
    if (size < 2) {
        return 0;
    }
    FILE *in = fmemopen((void *)(uintptr_t)(data + 1), size - 1, "rb");
    if (in == NULL || !cli_rows_open(&rows, in, (enum cli_rows_format)(data[0] % 3))) {
        abort();
    }
    rows_read(&rows, &seen);
    TN_ASSERT(rows.used == size - 1);
    import_seen_free(&seen);
    cli_rows_close(&rows);
    (void)fclose(in);
    return 0;
}
