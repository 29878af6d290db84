/* A cell as a sequential object: three values, and every lease there ever was on them.
 *
 *   none --alloc--> active --revoke--> revoking --ack, reclaim--> revoked
 *   none --reserve--> reserved --activate--> active
 *   reserved, active --release--> released        reserved --revoke--> revoked
 *
 * Written from the documentation, apart from both the kernel and the model. Leases are known by slots,
 * which stand for their ids. An allocation that nobody has an answer to makes a lease whose id is not
 * known; the first look at its value that finds it gives it one. */
#ifndef TESTS_NEMESIS_CELL_H
#define TESTS_NEMESIS_CELL_H

#include "nemesis/nm_world.h"

struct nm_cell_lease {
    uint8_t state; /* enum kernel_state; none: it does not exist */
    uint8_t holder;
    uint8_t values; /* a bit each: two of the range, then the set's */
    uint64_t epoch;
};

/* An operation of the cell. */
struct nm_item {
    const struct nm_op *op;
    uint64_t start_ns, end_ns; /* UINT64_MAX: never */
    uint32_t slot;             /* slot of the lease that the operation names; 0: none */
    /* Slot of the lease in the answer, or of the one that the operation would create. */
    uint32_t got;
    bool optional; /* its outcome is unknown */
};

struct nm_cell {
    struct nm_cell_lease *leases; /* by slot; slot 0 stands for no lease */
    uint32_t slots;
    uint32_t named;                 /* slots above this one stand for leases without a known id */
    uint32_t owner[NM_CELL_VALUES]; /* slots; 0: free */
    uint64_t hash[2];               /* of all leases */
};

enum nm_fit {
    NM_MISFIT,  /* the answer is not the one that the cell would give now */
    NM_SAME,    /* the answer fits, and the cell did not change */
    NM_CHANGED, /* the answer fits, and the cell changed: nm_cell_undo reverts it */
};

struct nm_undo {
    uint32_t slots[2];
    struct nm_cell_lease leases[2];
    uint32_t owner[NM_CELL_VALUES];
};

/* The operation takes effect now, if its answer allows it. */
enum nm_fit nm_cell_step(struct nm_cell *cell, const struct nm_item *item, struct nm_undo *undo);
void nm_cell_undo(struct nm_cell *cell, const struct nm_undo *undo);

#endif
