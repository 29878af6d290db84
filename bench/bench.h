/* What the benchmark programs share: clocks, rows of results, their arguments.
 *
 * A result is one line of four fields, separated by tabs: name, value, ratio, value of the peer ("-" where
 * there is none). The unit, the peer and the goal of each name are in bench/rows.tsv, and nowhere else;
 * tools/bench.sh puts the two together. Ratios are taken within one run on one machine; absolute figures
 * mean something only beside them. */
#ifndef TN_BENCH_BENCH_H
#define TN_BENCH_BENCH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

static inline uint64_t bench_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Processor time of this thread: for work that never waits, on a machine with other load. */
static inline uint64_t bench_cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- Rows ---- */

static inline void bench_row(const char *name, double value) {
    printf("%s\t%.4g\t-\t-\n", name, value);
    fflush(stdout);
}

static inline void bench_row_ratio(const char *name, double value, double ratio) {
    printf("%s\t%.4g\t%.3g\t-\n", name, value, ratio);
    fflush(stdout);
}

static inline void bench_row_peer(const char *name, double value, double ratio, double peer) {
    printf("%s\t%.4g\t%.3g\t%.4g\n", name, value, ratio, peer);
    fflush(stdout);
}

/* ---- Arguments ---- */

/* --smoke: shows that the program works, not how fast anything is; needs no other server than Tenure.
 * --quick: fewer and shorter measurements, for `make bench-quick`. */
enum bench_length { BENCH_FULL, BENCH_QUICK, BENCH_SMOKE };

static inline enum bench_length bench_length_of(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--smoke") == 0) {
            return BENCH_SMOKE;
        }
        if (strcmp(argv[i], "--quick") == 0) {
            return BENCH_QUICK;
        }
    }
    return BENCH_FULL;
}

/* Whether `--without NAME` is among the arguments; upper and lower case are the same. */
static inline bool bench_without(int argc, char **argv, const char *name) {
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], "--without") == 0 && strcasecmp(argv[i + 1], name) == 0) {
            return true;
        }
    }
    return false;
}

/* Resident bytes of this process. */
static inline uint64_t bench_resident_bytes(void) {
    char line[128] = "";
    FILE *f = fopen("/proc/self/statm", "re");
    if (f == NULL) {
        return 0;
    }
    const char *got = fgets(line, sizeof line, f);
    fclose(f);
    const char *second = got == NULL ? NULL : strchr(got, ' '); /* the first is the address space */
    return second == NULL ? 0 : strtoull(second, NULL, 10) * 4096u;
}

#endif
