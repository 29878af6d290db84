/* The whole engine in a virtual world, seed by seed; what is checked is in world.h.
 *
 * TENURE_SEED and TENURE_SEEDS choose seeds (seeds.h), TENURE_STEPS the length of a life,
 * TENURE_WITHOUT=faults,clocks leaves troubles out: the names are in world.h. A failure prints the
 * seed, what led to it, and the command that plays it again with the troubles that it takes (which
 * are found by trying; TENURE_BRIEF=1 does without). */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/seeds.h"
#include "sim/world.h"

#define STEPS 400u

static const char *const troubles[WORLD_TROUBLES] = {
#define WORLD_TROUBLE_NAME(id, name) name,
    WORLD_TROUBLE_TABLE(WORLD_TROUBLE_NAME)
#undef WORLD_TROUBLE_NAME
};

/* What is played, in memory that survives the process that plays it. */
static struct world *current;

static uint32_t without_given(void) {
    const char *text = getenv("TENURE_WITHOUT");
    uint32_t without = 0;
    for (unsigned i = 0; text != NULL && i < WORLD_TROUBLES; i++) {
        without |= strstr(text, troubles[i]) != NULL ? 1u << i : 0;
    }
    return without;
}

/* ---- failures ---- */

_Noreturn void world_fail(struct world *w, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(w->why, sizeof w->why, format, arguments);
    va_end(arguments);
    (void)fflush(NULL);
    _exit(1);
}

/* Whether the seed fails without these. */
static bool fails_without(uint64_t seed, uint32_t without, uint64_t steps) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        int quiet = open("/dev/null", O_WRONLY | O_CLOEXEC);
        (void)dup2(quiet, STDERR_FILENO);
        (void)dup2(quiet, STDOUT_FILENO);
        (void)setrlimit(RLIMIT_CPU, &(struct rlimit){30, 30});
        struct world *w = calloc(1, sizeof *w);
        if (w != NULL) {
            world_open(w, seed, without, steps);
            world_run(w);
        }
        _exit(0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status != 0;
}

/* Leaves out what the failure can do without, and says how to see it again. */
static void tell_how(const struct world *w) {
    uint32_t without = w->without;
    bool brief = getenv("TENURE_BRIEF") != NULL;
    for (unsigned i = 0; i < WORLD_TROUBLES && !brief; i++) {
        if ((without >> i & 1) == 0 && fails_without(w->seed, without | 1u << i, w->steps)) {
            without |= 1u << i;
        }
    }
    fprintf(stderr, "TENURE_SEED=%" PRIu64 " TENURE_STEPS=%" PRIu64, w->seed, w->steps);
    const char *before = " TENURE_WITHOUT=";
    for (unsigned i = 0; i < WORLD_TROUBLES; i++) {
        if ((without >> i & 1) != 0) {
            fprintf(stderr, "%s%s", before, troubles[i]);
            before = ",";
        }
    }
    const char *build = getenv("TENURE_BUILD_DIR");
    fprintf(stderr, " %s/tests/sim/world_test\n", build != NULL ? build : "build/dev");
}

static void tell(const struct world *w) {
    fprintf(stderr, "\nseed %" PRIu64 " step %" PRIu64 " lsn %" PRIu64 ": %s\n", w->seed, w->step,
            w->ledger.count, w->why[0] != '\0' ? w->why : "an assertion does not hold");
    uint64_t first = w->trace_count > WORLD_TRACE ? w->trace_count - WORLD_TRACE : 0;
    for (uint64_t i = first; i < w->trace_count; i++) {
        fprintf(stderr, "  %s\n", w->trace[i % WORLD_TRACE]);
    }
    tell_how(w);
}

/* ---- runs ---- */

static uint64_t play(uint64_t seed, uint64_t steps) {
    world_open(current, seed, without_given(), steps);
    world_run(current);
    uint64_t transcript = current->transcript;
    world_close(current);
    return transcript;
}

static void play_many(const struct seeds *seeds, uint64_t last, uint64_t steps) {
    struct world total = {0};
    uint64_t hash = 0;
    uint64_t seed = seeds->first;
    for (; seed <= last && !seeds_time_is_up(seeds); seed++) {
        hash ^= play(seed, steps);
        const uint64_t *from = (const uint64_t *)(const void *)&current->counts;
        uint64_t *to = (uint64_t *)(void *)&total.counts;
        for (size_t i = 0; i < sizeof total.counts / sizeof *to; i++) {
            to[i] += from[i];
        }
    }
    fprintf(stderr,
            "seeds %" PRIu64 "..%" PRIu64 ": transcript %016" PRIx64 ", %" PRIu64
            " commands, %" PRIu64 " events, %" PRIu64 " replays, %" PRIu64 " refused, %" PRIu64
            " unknown\n",
            seeds->first, seed - 1, hash, total.counts.commands, total.counts.events,
            total.counts.replays, total.counts.refused, total.counts.unknown);
    fprintf(stderr,
            "  %" PRIu64 " starts (%" PRIu64 " from the older snapshot, %" PRIu64
            " with other limits, %" PRIu64 " of restored backups), %" PRIu64 " power cuts, %" PRIu64
            " kills, %" PRIu64 " failed calls, %" PRIu64 " full disks, %" PRIu64
            " damaged copies, %" PRIu64 " snapshots on request\n",
            total.counts.starts, total.counts.older, total.counts.limits, total.counts.restores,
            total.counts.cuts, total.counts.kills, total.counts.faults, total.counts.full,
            total.counts.damages, total.counts.snapshots);
    fprintf(stderr,
            "  %" PRIu64 " batches in doubt, %" PRIu64 " of them there; %" PRIu64
            " operations resolved, %" PRIu64 " grants believed in, %" PRIu64
            " runs of sensors, %" PRIu64 " tokens found overdue, %" PRIu64 " starts ahead, %" PRIu64
            " refusals foreseen\n",
            total.counts.doubts, total.counts.doubts_kept, total.counts.resolved,
            total.counts.beliefs, total.counts.runs, total.counts.overdue, total.counts.ahead,
            total.counts.judged);
}

/* Runs `work` in a process of its own, which may die of an assertion; a failure is reported with
 * the current seed. */
static void play_apart(void (*work)(void)) {
    int status = 0;
    (void)fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)setenv("CMOCKA_TEST_ABORT", "1", 1); /* not on to the next test in the child */
        work();
        exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status != 0) {
        tell(current);
        fail();
    }
}

static void work_many(void) {
    struct seeds seeds = seeds_given(1);
    bool one = getenv("TENURE_SEED") != NULL;
    uint64_t last = seeds.last != 0 ? seeds.last : one ? seeds.first : 60;
    play_many(&seeds, last, seeds_number("TENURE_STEPS", STEPS));
}

static void the_world_holds(void **state) {
    (void)state;
    play_apart(work_many);
}

static void work_twice(void) {
    uint64_t seed = seeds_given(7).first;
    uint64_t once = play(seed, STEPS / 2);
    if (once == play(seed + 1, STEPS / 2) || once != play(seed, STEPS / 2)) {
        world_fail(current, "the transcript is not the seed's");
    }
}

/* Seeds that once found something, as long as they mean the same: a directory was restored twice
 * before it could be started, and a snapshot came between the two; an old snapshot that could not be
 * removed was what there was beside the newest. */
static void work_found(void) {
    (void)play(30052483, STEPS);
    (void)play(55007346, STEPS);
}

static void what_was_found_once_holds(void **state) {
    (void)state;
    play_apart(work_found);
}

static void a_seed_gives_the_same_transcript_twice(void **state) {
    (void)state;
    play_apart(work_twice);
}

int main(void) {
    void *memory =
        mmap(NULL, sizeof *current, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return 1;
    }
    current = memory;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_world_holds),
        cmocka_unit_test(a_seed_gives_the_same_transcript_twice),
        cmocka_unit_test(what_was_found_once_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
