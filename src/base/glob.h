/* Patterns for names, as Redis has them: * any bytes, ? one byte, [abc] [a-z] [^a] one of a class,
 * \x the byte x itself. In time of at most pattern times text, whatever the pattern. */
#ifndef TN_BASE_GLOB_H
#define TN_BASE_GLOB_H

#include "base/bytes.h"

bool tn_glob_match(struct tn_bytes pattern, struct tn_bytes text);

/* An approximate upper bound of the steps of a match with a text of that length: the part before
 * the first * is tried once, the part after it may be tried at each byte. */
uint32_t tn_glob_steps(struct tn_bytes pattern, uint32_t text_len);

#endif
