/* Numbers as decimal digits. Replies are full of them, so they are written two at a time. */
#ifndef TN_BASE_DECIMAL_H
#define TN_BASE_DECIMAL_H

#include <stdint.h>

#define TN_DECIMAL_MAX 20u /* digits of the largest */

/* Writes the digits, without a NUL; returns how many there are. */
uint32_t tn_decimal(uint64_t number, char out[TN_DECIMAL_MAX]);

#endif
