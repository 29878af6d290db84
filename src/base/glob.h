/* Patterns for names, as Redis has them: * any bytes, ? one byte, [abc] [a-z] [^a] one of a class,
 * \x the byte x itself. In time of at most pattern times text, whatever the pattern. */
#ifndef TN_BASE_GLOB_H
#define TN_BASE_GLOB_H

#include "base/bytes.h"

bool tn_glob_match(struct tn_bytes pattern, struct tn_bytes text);

#endif
