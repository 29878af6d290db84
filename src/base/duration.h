/* Durations as people write them: a whole number of seconds, or one with a unit. Every part of the
 * program that reads a duration reads it here. */
#ifndef TN_BASE_DURATION_H
#define TN_BASE_DURATION_H

#include "base/bytes.h"

/* Completes "'x' is not ..." in a refusal. */
#define TN_DURATION_FORM "a whole number of seconds, or one with a unit: 90s, 15m, 12h, 30d"

/* "90", "90s", "15m", "12h", "30d"; the unit may be a capital letter. False if it is anything else,
 * or more milliseconds than 64 bits hold. */
bool tn_duration_parse(struct tn_bytes text, uint64_t *ret_seconds);

/* The same in milliseconds; a number without a unit may have up to three decimals: "0.25". */
bool tn_duration_parse_ms(struct tn_bytes text, uint64_t *ret_ms);

#endif
