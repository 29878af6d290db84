/* What the programs that make documents share: print a document, or compare a file with it. */
#ifndef TN_TOOLS_GENERATE_H
#define TN_TOOLS_GENERATE_H

#include <stdio.h>

enum generate_part {
    GENERATE_WHOLE,  /* the document is the whole file */
    GENERATE_SECTION /* the file contains it */
};

/* Prints what `write` writes, without blank lines at its end, if `path` is NULL. Otherwise compares it
 * with that file; if they differ, prints the remedy. Returns the program's exit code: 0, 1 if the file
 * is stale, 2 without memory or if the output cannot be written. */
int generate(void (*write)(FILE *out), const char *path, enum generate_part part,
             const char *remedy);

#endif
