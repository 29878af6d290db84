/* What the programs that make documents share: is a file what would be made now? */
#ifndef TN_TOOLS_STALE_H
#define TN_TOOLS_STALE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline bool stale(const char *path, const char *want, size_t len) {
    FILE *file = fopen(path, "r");
    char *have = malloc(len + 2);
    size_t got = file != NULL && have != NULL ? fread(have, 1, len + 1, file) : 0;
    bool same = have != NULL && got == len && memcmp(have, want, len) == 0;
    if (file != NULL) {
        (void)fclose(file);
    }
    free(have);
    return !same;
}

#endif
