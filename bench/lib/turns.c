/* Taking turns, and medians of them. */
#include "turns.h"

#include "../bench.h"

struct turns_plan turns_plan = {.count = 12, .ns = 250000000u};

static double load_side_turn(void *ctx, uint64_t ns, struct load_histogram *histogram) {
    return load_turn(ctx, ns, histogram);
}

static void load_side_close(void *ctx) {
    load_close(ctx);
}

struct side side_of(struct load *load) {
    return (struct side){.turn = load_side_turn, .close = load_side_close, .ctx = load};
}

void side_close(struct side *side) {
    if (side->ctx != NULL) {
        side->close(side->ctx);
        side->ctx = NULL;
    }
}

static void turn(struct side *side, unsigned index) {
    uint64_t before = side->grants != NULL ? *side->grants : 0, start = bench_now_ns();
    side->rate[index] = side->turn(side->ctx, turns_plan.ns, &side->histogram);
    uint64_t grants = side->grants != NULL ? *side->grants - before : 0;
    side->granted[index] = (double)grants * 1e9 / (double)(bench_now_ns() - start);
}

void turns_take(struct side *side, struct side *other) {
    (void)side->turn(side->ctx, turns_plan.ns / 2, NULL);
    if (other->ctx != NULL) {
        (void)other->turn(other->ctx, turns_plan.ns / 2, NULL);
    }
    for (unsigned i = 0; i < turns_plan.count; i++) {
        turn(side, i);
        if (other->ctx != NULL) {
            turn(other, i);
        }
    }
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double turns_median(const double *of) {
    unsigned count = turns_plan.count;
    double sorted[TURNS_MAX];
    memcpy(sorted, of, count * sizeof *of);
    qsort(sorted, count, sizeof *sorted, compare);
    return (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
}

double turns_median_ratio(const double *over, const double *under) {
    double ratio[TURNS_MAX] = {0};
    for (unsigned i = 0; i < turns_plan.count; i++) {
        ratio[i] = over[i] / under[i];
    }
    return turns_median(ratio);
}

static void remark(const char *name, const char *whose, const struct side *side) {
    fprintf(stderr, "   %-44s %-6s %10.0f answers/s", name, whose, turns_median(side->rate));
    if (side->histogram.count > 0) {
        fprintf(stderr, "   p50 %8.0f us   p99 %8.0f us", load_percentile_us(&side->histogram, 0.5),
                load_percentile_us(&side->histogram, 0.99));
    }
    fputc('\n', stderr);
}

void turns_report(const char *name, double a_unit, const struct side *side,
                  const struct side *other) {
    double rate = turns_median(side->rate) / a_unit;
    remark(name, "tenure", side);
    if (other->ctx == NULL) {
        bench_row(name, rate);
        return;
    }
    remark(name, "peer", other);
    bench_row_peer(name, rate, turns_median_ratio(side->rate, other->rate),
                   turns_median(other->rate) / a_unit);
}

void turns_report_contention(const char *attempts, const char *grants, struct side *side,
                             struct side *other) {
    for (unsigned i = 0; i < turns_plan.count; i++) {
        side->rate[i] -= side->granted[i];
        other->rate[i] -= other->granted[i];
    }
    turns_report(attempts, 1, side, other);
    if (other->ctx == NULL) {
        bench_row(grants, turns_median(side->granted));
        return;
    }
    bench_row_peer(grants, turns_median(side->granted),
                   turns_median_ratio(side->granted, other->granted), turns_median(other->granted));
}
