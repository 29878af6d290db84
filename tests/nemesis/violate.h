/* Violations, put into a good history one at a time: each must be seen by the judges that could see it.
 *
 * Each looks for a place where the change cannot be explained by anything else in the history: what
 * concurrency would allow is no violation. */
#ifndef TESTS_NEMESIS_VIOLATE_H
#define TESTS_NEMESIS_VIOLATE_H

#include "base/prng.h"
#include "nemesis/nm_history.h"

struct nm_violation {
    const char *name;
    bool by_log, by_search; /* which judges must detect it */
    /* False: there is no place for it in this history. */
    bool (*put)(struct nm_history *h, struct tn_prng *random);
};

extern const struct nm_violation nm_violations[];
extern const uint32_t nm_violation_count;

#endif
