/* The end of a process that has found a bug in itself.
 *
 * stderr is unbuffered, so the line is out before abort() raises the signal; nothing is flushed or
 * closed, because whatever is still buffered may stem from the broken state. */
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void tn_assert_fail(const char *condition, const char *file, int line) {
    fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, condition);
    abort();
}
