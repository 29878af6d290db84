/* Numbers as decimal digits. Replies are full of them, so they are written four at a time. */
#ifndef TN_BASE_DECIMAL_H
#define TN_BASE_DECIMAL_H

#include <stdint.h>

#define TN_DECIMAL_MAX 20u /* digits of the largest */

/* How many digits the number has: 1 to TN_DECIMAL_MAX. */
uint32_t tn_decimal_count(uint64_t number);
/* Writes the digits, without a NUL; returns their number. */
uint32_t tn_decimal(uint64_t number, char out[TN_DECIMAL_MAX]);

#endif
