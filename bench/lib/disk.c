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

static void sync_block(int file, uint64_t index) {
    static char block[BLOCK_BYTES];
    block[0]++;
    if (pwrite(file, block, sizeof block, (off_t)(index % BLOCKS * sizeof block)) < 0 ||
        fdatasync(file) != 0) {
        die("cannot sync");
    }
}

uint64_t disk_turn(int file, uint64_t ns, double *ret_seconds) {
    uint64_t start = bench_now_ns(), count = 0, now = start;
    for (; now - start < ns; now = bench_now_ns()) {
        sync_block(file, count++);
    }
    *ret_seconds = (double)(now - start) / 1e9;
    return count;
}

void disk_turn_at_rate(int file, uint64_t ns, double rate, struct load_histogram *histogram) {
    uint64_t start = bench_now_ns();
    for (uint64_t count = 0;; count++) {
        uint64_t due = start + (uint64_t)((double)count * 1e9 / rate);
        struct timespec until = {.tv_sec = (time_t)(due / 1000000000u),
                                 .tv_nsec = (long)(due % 1000000000u)};
        if (due - start >= ns) {
            return;
        }
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0) {
        }
        sync_block(file, count);
        load_note(histogram, bench_now_ns() - due);
    }
}
