/* What changed between two rounds of `--watch`: rows are compared with those of the round before,
 * by their first cell. */
#ifndef TN_CLI_WATCH_CHANGES_H
#define TN_CLI_WATCH_CHANGES_H

#include "cli/display.h"

enum cli_change { CLI_SAME, CLI_CHANGED, CLI_NEW };

/* The rows of one round. */
struct cli_rows {
    struct cli_text cells; /* a NUL after each */
    uint32_t *rows;        /* where each begins */
    uint32_t count, capacity;
    uint32_t *slots; /* by the hash of the first cell: a row and 1; 0: none */
    uint32_t mask;
    bool failed; /* out of memory: everything counts as the same */
};

struct cli_changes {
    struct cli_rows before, now;
    uint32_t rounds; /* that have ended */
    uint32_t fresh, changed, found;
};

void cli_changes_free(struct cli_changes *changes);
/* The next row of this round: `count` cells, a NUL after each. Bit n of *ret_cells: cell n differs. Cells
 * whose bits are in `ticking` are not compared. */
enum cli_change cli_changes_row(struct cli_changes *changes, const char *cells, uint32_t count,
                                uint32_t ticking, uint32_t *ret_cells);
/* The round has ended. If it was `good`, its rows are what the next one is compared with. */
void cli_changes_turn(struct cli_changes *changes, bool good);
/* "2 new, 1 changed, 0 gone"; nothing in the first round. Before the turn. */
void cli_changes_say(const struct cli_changes *changes, struct cli_text *text);
/* The mark before a row: two columns. */
const char *cli_change_mark(enum cli_change change);
/* Lines of "name  value", each with its mark before it. A part in parentheses is not compared: times that pass. */
void cli_changes_lines(struct cli_changes *changes, const struct cli_text *lines,
                       struct cli_text *out);

#endif
