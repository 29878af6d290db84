/* What clients ask next: contended, mostly sensible, sometimes wrong on purpose. */
#ifndef TESTS_NEMESIS_NM_GENERATE_H
#define TESTS_NEMESIS_NM_GENERATE_H

#include "base/prng.h"
#include "nemesis/nm_history.h"
#include "nemesis/nm_world.h"

#define NM_TOKENS 6u

/* A lease as the last answer about it reported it. */
struct nm_token {
    uint64_t lease, epoch, lsn;
    uint8_t holder, state;
};

struct nm_generator {
    struct tn_prng random;
    bool cells_only;
    bool opids_always;
    struct nm_token tokens[NM_GROUPS][NM_TOKENS];
};

/* Fills the request of an operation that has just been added. */
void nm_generate(struct nm_generator *g, struct nm_history *h, uint32_t index);
/* Makes the operation a repeat of an answered one. */
void nm_generate_repeat(struct nm_history *h, uint32_t index, uint32_t answered);
/* Takes over what an answer says of a lease. */
void nm_generate_learn(struct nm_generator *g, const struct nm_op *op);

#endif
