/* Crash states: the short run of `make test`, the campaign and the replay of one state.
 *
 *     states_test                               a few workloads of each kind
 *     TENURE_SEEDS=7 states_test                one workload of each kind with this seed
 *     states_test --seconds N --seed S --jobs J   until the time is over, on so many processors
 *     states_test --replay NAME                 one state, by the name that a failure printed
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"
#include "crash/explore.h"

#define JOBS_MAX 64u

static const struct explore_options campaign_options = {
    .combinations_max = 512,
    .samples = 48,
    .depth = 2,
    .nested_in = 24,
    .older_in = 8,
    .check_in = 8,
    .again_in = 8,
    .engine_in = 24,
};

static const struct explore_options short_options = {
    .combinations_max = 16,
    .samples = 8,
    .depth = 2,
    .nested_in = 40,
    .older_in = 8,
    .check_in = 8,
    .again_in = 8,
    .engine_in = 24,
};

static uint64_t clock_ms(void) {
    const struct os *os = os_posix();
    return os->clock_boot_ms(os->ctx);
}

static void report(const struct explore_stats *stats, uint64_t ms) {
    double s = (double)(ms == 0 ? 1 : ms) / 1000;
    printf("%llu workloads, %llu operations, %llu states, %llu distinct (%llu left by a crash of a "
           "start), %llu starts (%llu of the engine), %.1f s, %.0f distinct states/s\n",
           (unsigned long long)stats->workloads, (unsigned long long)stats->operations,
           (unsigned long long)stats->states, (unsigned long long)stats->distinct,
           (unsigned long long)stats->nested, (unsigned long long)stats->starts,
           (unsigned long long)stats->engines, s, (double)stats->distinct / s);
    fflush(stdout);
}

static void stats_add(struct explore_stats *sum, const struct explore_stats *stats) {
    sum->states += stats->states;
    sum->distinct += stats->distinct;
    sum->nested += stats->nested;
    sum->starts += stats->starts;
    sum->engines += stats->engines;
    sum->operations += stats->operations;
    sum->workloads += stats->workloads;
}

/* Keys have few states; the others take turns. */
static enum workload_kind kind_of(uint64_t number) {
    static const enum workload_kind turns[] = {WORKLOAD_LOG,    WORKLOAD_FAULT, WORKLOAD_ENGINE,
                                               WORKLOAD_LOG,    WORKLOAD_FAULT, WORKLOAD_BROKEN,
                                               WORKLOAD_ENGINE, WORKLOAD_KEYS,  WORKLOAD_BADKEYS};
    return turns[number % (sizeof turns / sizeof turns[0])];
}

static bool run_short(void) {
    struct explore_stats stats = {0};
    uint64_t begin = clock_ms();
    bool right = true;
    for (uint64_t number = 0; number < 16 && right; number++) {
        right = explore_workload(kind_of(number), 1 + number, &short_options, &stats);
    }
    report(&stats, clock_ms() - begin);
    return right && stats.distinct > 1000;
}

static bool run_seed(uint64_t seed) {
    struct explore_stats stats = {0};
    uint64_t begin = clock_ms();
    bool right = true;
    for (int kind = 0; kind < WORKLOAD_COUNT && right; kind++) {
        right = explore_workload((enum workload_kind)kind, seed, &short_options, &stats);
    }
    report(&stats, clock_ms() - begin);
    return right;
}

/* ---- The campaign ---- */

static void run_job(unsigned job, unsigned jobs, uint64_t seed, uint64_t deadline_ms,
                    volatile struct explore_stats *shared) {
    struct explore_options options = campaign_options;
    struct explore_stats stats = {0};
    options.deadline_ms = deadline_ms;
    for (uint64_t number = job; clock_ms() < deadline_ms; number += jobs) {
        if (!explore_workload(kind_of(number), seed + number, &options, &stats)) {
            _exit(1);
        }
        *shared = stats;
    }
    _exit(0);
}

static bool run_campaign(uint64_t seconds, uint64_t seed, unsigned jobs) {
    struct explore_stats *shared = mmap(NULL, JOBS_MAX * sizeof *shared, PROT_READ | PROT_WRITE,
                                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    TN_ASSERT(shared != MAP_FAILED);
    uint64_t begin = clock_ms();
    pid_t children[JOBS_MAX];
    fflush(NULL);
    for (unsigned job = 0; job < jobs; job++) {
        children[job] = fork();
        TN_ASSERT(children[job] >= 0);
        if (children[job] == 0) {
            run_job(job, jobs, seed, begin + seconds * 1000, &shared[job]);
        }
    }
    bool right = true;
    for (unsigned job = 0; job < jobs; job++) {
        int status = 0;
        right = waitpid(children[job], &status, 0) == children[job] && status == 0 && right;
    }
    struct explore_stats sum = {0};
    for (unsigned job = 0; job < jobs; job++) {
        stats_add(&sum, &shared[job]);
    }
    report(&sum, clock_ms() - begin);
    return right;
}

static uint64_t option_of(int argc, char **argv, const char *name, uint64_t otherwise) {
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], name) == 0) {
            return strtoull(argv[i + 1], NULL, 10);
        }
    }
    return otherwise;
}

int main(int argc, char **argv) {
    /* Nothing goes back to the system between a million small machines. */
    (void)mallopt(M_MMAP_THRESHOLD, 64 << 20);
    (void)mallopt(M_TRIM_THRESHOLD, 512 << 20);
    if (argc == 3 && strcmp(argv[1], "--replay") == 0) {
        return explore_replay(argv[2]) ? 0 : 1;
    }
    const char *seeds = getenv("TENURE_SEEDS");
    if (argc == 1) {
        return (seeds != NULL ? run_seed(strtoull(seeds, NULL, 10)) : run_short()) ? 0 : 1;
    }
    uint64_t seconds = option_of(argc, argv, "--seconds", 60);
    uint64_t seed = option_of(argc, argv, "--seed", 1);
    uint64_t jobs = option_of(argc, argv, "--jobs", (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
    if (jobs == 0 || jobs > JOBS_MAX) {
        fprintf(stderr, "--jobs: 1 to %u\n", JOBS_MAX);
        return 2;
    }
    printf("seed %llu, %llu jobs\n", (unsigned long long)seed, (unsigned long long)jobs);
    return run_campaign(seconds, seed, (unsigned)jobs) ? 0 : 1;
}
