/* A loop of writes and syncs. */
#include "disk.h"

#include <fcntl.h>
#include <unistd.h>

#include "../bench.h"

#define BLOCKS 2048u
#define BLOCK_BYTES 4096u

static _Noreturn void die(const char *what) {
    fprintf(stderr, "bench: the disk: %s\n", what);
    exit(1);
}

int disk_open(const char *dir) {
    char path[512];
    static char block[BLOCK_BYTES];
    snprintf(path, sizeof path, "%s/disk", dir);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (pwrite(file, block, sizeof block, (off_t)(i * sizeof block)) != (ssize_t)sizeof block) {
            die("cannot write");
        }
    }
    if (fsync(file) != 0) {
        die("cannot sync");
    }
    return file;
}

uint64_t disk_turn(int file, uint64_t ns, double *ret_seconds) {
    static char block[BLOCK_BYTES];
    uint64_t start = bench_now_ns(), count = 0, now = start;
    for (; now - start < ns; now = bench_now_ns()) {
        block[0]++;
        if (pwrite(file, block, sizeof block, (off_t)(count % BLOCKS * sizeof block)) < 0 ||
            fdatasync(file) != 0) {
            die("cannot sync");
        }
        count++;
    }
    *ret_seconds = (double)(now - start) / 1e9;
    return count;
}
