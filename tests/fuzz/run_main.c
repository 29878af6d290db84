/* Runs a fuzz target over files, or all files of directories, once each: what the fuzzer has found
 * or kept stays tried, with any compiler and in every run of the tests. Also tries no bytes. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The bytes of the file, in memory that is exactly as long, so that the sanitizer sees a byte too far;
 * NULL if it cannot be read. */
static uint8_t *read_file(FILE *file, size_t *ret_size) {
    if (fseek(file, 0, SEEK_END) != 0) {
        return NULL;
    }
    long size = ftell(file);
    rewind(file);
    if (size < 0) {
        return NULL;
    }
    uint8_t *bytes = malloc(size > 0 ? (size_t)size : 1);
    if (bytes != NULL && fread(bytes, 1, (size_t)size, file) != (size_t)size) {
        free(bytes);
        return NULL;
    }
    *ret_size = (size_t)size;
    return bytes;
}

static int run_file(const char *path) {
    size_t size = 0;
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = file != NULL ? read_file(file, &size) : NULL;
    if (file != NULL) {
        (void)fclose(file);
    }
    if (bytes == NULL) {
        (void)fprintf(stderr, "cannot read %s\n", path);
        return 1;
    }
    (void)fprintf(stderr, "%s\n", path); /* the last path printed is the one that failed */
    (void)LLVMFuzzerTestOneInput(bytes, size);
    free(bytes);
    return 0;
}

static int run_directory(const char *path, DIR *directory, unsigned *count) {
    int failed = 0;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        char file[4096];
        if (entry->d_name[0] == '.') {
            continue;
        }
        (void)snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        failed |= run_file(file);
        *count += 1;
    }
    (void)closedir(directory);
    return failed;
}

int main(int argc, char **argv) {
    static const uint8_t nothing[1];
    unsigned count = 1;
    int failed = 0;
    (void)LLVMFuzzerTestOneInput(nothing, 0);
    for (int i = 1; i < argc; i++) {
        DIR *directory = opendir(argv[i]);
        if (directory != NULL) {
            failed |= run_directory(argv[i], directory, &count);
        } else {
            failed |= run_file(argv[i]);
            count++;
        }
    }
    (void)printf("%u inputs\n", count);
    return failed;
}
