/* Inside `tenure export`.
 *
 *   export_read.c    all leases of a pool at one log position
 *   export_write.c   CSV, TSV, SQL
 *   export.c         options */
#ifndef TN_CLI_EXPORT_H
#define TN_CLI_EXPORT_H

#include "cli/cli.h"
#include "cli/display.h"
#include "cli/resp_client.h"
#include "kernel/types.h"

struct export_lease {
    uint64_t shard, lsn; /* its id */
    uint64_t epoch;
    uint64_t read_lsn; /* the position at which it was read; 0: known only from events */
    uint64_t deadline_ms, created_ms, seen_ms, offline_ms; /* 0: none */
    uint64_t holder, values; /* offsets in `strings`; values: pool, value, pool, value, ... */
    uint32_t value_count;
    uint8_t state; /* enum kernel_state; NO_STATE: it has ended */
    bool partial;  /* some values of the lease are missing here */
};

struct export {
    const struct cli_settings *settings;
    const char *pool;
    bool scoped;
    struct cli_client client;
    struct export_lease *leases;
    uint32_t count, capacity;
    uint32_t *index; /* hash of the id to position + 1 */
    uint32_t index_capacity;
    struct cli_text strings; /* texts, each followed by a NUL */
    uint64_t lsn;            /* the log position of the export */
};

/* Reads the pool; returns the exit code. Leases are sorted by id; ended ones are removed. */
int export_read(struct export *export);
void export_free(struct export *export);

enum export_format { EXPORT_CSV, EXPORT_TSV, EXPORT_SQL };

/* False: a write failed. `state` NO_STATE: any. Prints the number of rows. */
bool export_write(const struct export *export, enum export_format format, enum kernel_state state,
                  FILE *out, uint64_t *ret_rows);

#endif
