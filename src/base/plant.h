/* Bugs planted on purpose, to see whether the tests find them.
 *
 * TN_PLANT(NAME) is 0 in every build that anybody uses: no branch, no byte. Only in the library that
 * is compiled once more with TN_PLANT_ON, for `make plants`, it is true if the environment variable
 * TENURE_PLANT names this bug; so one build has all of them, and a run has one at the most. What each
 * does, and who must find it how soon, is in tests/sim/plants.def. */
#ifndef TN_BASE_PLANT_H
#define TN_BASE_PLANT_H

#ifdef TN_PLANT_ON

#include <string.h>

extern const char *tn_plant; /* the one that is there, or NULL */

#define TN_PLANT(name) (tn_plant != NULL && strcmp(tn_plant, #name) == 0)

#else

#define TN_PLANT(name) 0

#endif

#endif
