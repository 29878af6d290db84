/* Two sides that take turns. The machine is shared and its disk changes from one second to the
 * next, so a turn is short, and a ratio is the median of the ratios of adjacent turns. */
#ifndef TN_BENCH_TURNS_H
#define TN_BENCH_TURNS_H

#include <stdint.h>

#include "load.h"

#define TURNS_MAX 24u

/* How many turns each side takes, and how long one is. Set once, before the first measurement. */
struct turns_plan {
    unsigned count;
    uint64_t ns;
};
extern struct turns_plan turns_plan;

struct side {
    /* Works for `ns` nanoseconds; returns answers a second. */
    double (*turn)(void *ctx, uint64_t ns, struct load_histogram *histogram);
    void (*close)(void *ctx);
    void *ctx;                 /* NULL: no such side */
    const uint64_t *grants;    /* number of grants among those answers; NULL: not counted */
    double rate[TURNS_MAX];    /* answers a second, for each turn */
    double granted[TURNS_MAX]; /* grants a second, for each turn */
    struct load_histogram histogram;
};

/* A side that a load generator drives. */
struct side side_of(struct load *load);
void side_close(struct side *side);

/* `other` may be a missing side. Before the first turn each side warms up: connections, pages and
 * scripts do not count in a rate. */
void turns_take(struct side *side, struct side *other);

double turns_median(const double *of);
double turns_median_ratio(const double *over, const double *under);

/* Prints a row: the rates divided by `a_unit`, the number of answers that make one of the unit. */
void turns_report(const char *name, double a_unit, const struct side *side,
                  const struct side *other);
/* For clients that contend: attempts and grants. The release of a grant is no attempt. */
void turns_report_contention(const char *attempts, const char *grants, struct side *side,
                             struct side *other);

#endif
