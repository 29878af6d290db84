/* Documents from tables: made in memory, then printed or compared. */
#include "generate.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The whole file as text; NULL: it cannot be read. */
static char *file_read(const char *path) {
    char *text = NULL;
    size_t len = 0;
    FILE *file = fopen(path, "r");
    FILE *out = file != NULL ? open_memstream(&text, &len) : NULL;
    if (out != NULL) {
        for (int c = getc(file); c != EOF; c = getc(file)) {
            (void)putc(c, out);
        }
        (void)fclose(out);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return text;
}

static bool is_stale(const char *path, const char *want, enum generate_part part) {
    char *have = file_read(path);
    bool same = have != NULL &&
                (part == GENERATE_WHOLE ? strcmp(have, want) == 0 : strstr(have, want) != NULL);
    free(have);
    return !same;
}

int generate(void (*write)(FILE *out), const char *path, enum generate_part part,
             const char *remedy) {
    char *text = NULL;
    size_t len = 0;
    int code = 0;
    FILE *out = open_memstream(&text, &len);
    if (out == NULL) {
        return 2;
    }
    write(out);
    (void)fclose(out);
    while (len > 1 && text[len - 2] == '\n') {
        text[--len] = '\0';
    }
    if (path == NULL) {
        code = fwrite(text, 1, len, stdout) == len ? 0 : 2;
    } else if (is_stale(path, text, part)) {
        (void)fprintf(stderr, "%s is stale: %s\n", path, remedy);
        code = 1;
    }
    free(text);
    return code;
}
