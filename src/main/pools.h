/* Declared pools and those that there are: the difference becomes ordinary commands. */
#ifndef TN_MAIN_POOLS_H
#define TN_MAIN_POOLS_H

#include "engine/engine.h"
#include "main/config.h"

struct pools_report {
    uint32_t created, altered, refused;
};

/* Creates the declared pools that are missing, alters those whose policy is another one, adds missing
 * names to sets. What the engine refuses is logged and left as it is; pools and names that are not
 * declared are left alone. Where nothing differs nothing is written. Blocks; from any thread but the
 * engine's own. */
struct pools_report pools_reconcile(struct engine *engine, const struct config *config);

#endif
