#include "base/plant.h"

#ifdef TN_PLANT_ON

#include <stdlib.h>

const char *tn_plant;

__attribute__((constructor)) static void plant_choose(void) {
    tn_plant = getenv("TENURE_PLANT");
}

#endif
