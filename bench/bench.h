/* What the benchmark programs share: a clock, a report line, memory in use.
 *
 * A measurement is one line of five fields, separated by tabs: name, value, unit, ratio, reference.
 * Ratios are taken within one run on one machine; absolute figures only mean something beside them. */
#ifndef TN_BENCH_BENCH_H
#define TN_BENCH_BENCH_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline uint64_t bench_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Processor time of this thread: what is measured when nothing waits, on a machine with company. */
static inline uint64_t bench_cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline void bench_report(const char *name, double value, const char *unit) {
    printf("%s\t%.4g\t%s\t-\t-\n", name, value, unit);
    fflush(stdout);
}

static inline void bench_report_ratio(const char *name, double value, const char *unit,
                                      double ratio, const char *reference) {
    printf("%s\t%.4g\t%s\t%.3g\t%s\n", name, value, unit, ratio, reference);
    fflush(stdout);
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
