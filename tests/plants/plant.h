/* What the planted copy of src/ has in addition (tools/plants.py): TN_PLANTED(NAME) is true if the
 * environment variable TENURE_PLANT names this bug. */
#ifndef TN_PLANTS_PLANT_H
#define TN_PLANTS_PLANT_H

#include <stdlib.h>
#include <string.h>

static const char *tn_plant; /* the bug that this process has, or NULL */

__attribute__((constructor)) static void tn_plant_choose(void) {
    tn_plant = getenv("TENURE_PLANT");
}

#define TN_PLANTED(name) (tn_plant != NULL && strcmp(tn_plant, #name) == 0)

#endif
