/* What clients have been told, held against what a server says after it was killed.
 *
 * The ledger follows the answers only: of each lease in the cells, what the answer with the largest
 * position said. When everything is answered and nobody asks for anything new,
 *   - each acknowledged write since the last audit, repeated with its operation id, gets the same
 *     answer from the same position, as a repeat;
 *   - each lease is as its last answer said;
 *   - each value has the holder that the ledger has for it, or none; no value has two. */
#ifndef TESTS_NEMESIS_NM_LEDGER_H
#define TESTS_NEMESIS_NM_LEDGER_H

#include "nemesis/nm_load.h"

struct nm_line {
    uint64_t lease, epoch, lsn;
    uint8_t group, holder, state;
    uint8_t value_count;
    struct nm_value values[NM_VALUES];
};

struct nm_ledger {
    struct nm_line *lines;
    uint32_t count, capacity;
    uint32_t read_to;                 /* operations of the history that are in it */
    uint64_t repeats, leases, values; /* held against the server so far */
};

void nm_ledger_free(struct nm_ledger *ledger);
/* Takes the answers of the history that it has not seen and audits the server: the load must be of
 * cells only, with an operation id for every write, and is settled by it. False: load->why. */
bool nm_ledger_audit(struct nm_ledger *ledger, struct nm_load *load);

#endif
