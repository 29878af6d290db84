/* Every planted bug is found: the simulation is tested by what it must not overlook.
 *
 * The bugs are in tests/plants; tools/plants.py plants them and writes plants.def, the table of them.
 * Each bug runs alone, with one seed after the other from 1, until the program that must find it fails.
 * A run that does not end counts as a failure, too. By default, only bugs that the first seeds find are
 * tried; TENURE_PLANTS=all tries all of them and prints a table, TENURE_PLANTS=NAME tries one.
 *
 *   MODEL   model_test: one kernel against the reference model, 4,000 commands a seed
 *   WORLD   world_test: the whole engine in a virtual world, 400 steps a seed
 *   CRASH   states_test: a workload of each kind and the disks that a crash may leave of it
 *   CLUSTER cluster_test: three replicated logs over a fake etcd, two minutes of mishaps a seed
 *   STORIES replica_log_test: single stories of the same; they have no seeds
 *   NAMES   replica_name_test: the same, of nodes that have one name
 *   ENGINES engines_test: three whole engines over those, forty seconds of mishaps a seed
 *   ABROAD, DEADLINE  supervisor_abroad_test, guardian_deadline_test: sensors of a cluster; no seeds
 *   REFUSALS engine_refuse_test: refusals without the log; no seeds
 *   EARLY   engine_early_test: batches that go to the log before the last one is applied; no seeds */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the headers above first */
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define SEEDS_QUICK 5u  /* bugs that are found this soon are tried by default */
#define SECONDS_MAX 20u /* of processor time: a seed that takes longer counts as endless */

enum finder {
    MODEL,
    WORLD,
    CRASH,
    CLUSTER,
    STORIES,
    NAMES,
    ENGINES,
    ABROAD,
    DEADLINE,
    REFUSALS,
    EARLY,
    FINDERS
};

static const char *const finders[FINDERS] = {
    [MODEL] = "model_test",
    [WORLD] = "world_test",
    [CRASH] = "states_test",
    [CLUSTER] = "cluster_test",
    [STORIES] = "replica_log_test",
    [NAMES] = "replica_name_test",
    [ENGINES] = "engines_test",
    [ABROAD] = "supervisor_abroad_test",
    [DEADLINE] = "guardian_deadline_test",
    [REFUSALS] = "engine_refuse_test",
    [EARLY] = "engine_early_test",
};

struct plant {
    const char *name;
    const char *file;
    const char *what;
    enum finder finder;
    unsigned seeds;
};

static const struct plant plants[] = {
#define PLANT(name, file, what, finder, seeds) {#name, file, what, finder, seeds},
#include "plants.def"
#undef PLANT
};

#define PLANT_COUNT (sizeof plants / sizeof plants[0])

static const char *needed(const char *name) {
    const char *value = getenv(name);
    if (value == NULL) {
        fail_msg("%s is not set; ctest sets it", name);
    }
    return value;
}

/* In the child: becomes the program, which shall be silent and find no other plan than this. */
static void play(enum finder finder, const char *plant, unsigned seed) {
    char path[4096];
    char of_plant[128];
    char of_seeds[64];
    snprintf(path, sizeof path, "%s/tests/sim/planted/%s", needed("TENURE_BUILD_DIR"),
             finders[finder]);
    snprintf(of_plant, sizeof of_plant, "TENURE_PLANT=%s", plant);
    snprintf(of_seeds, sizeof of_seeds, "TENURE_SEEDS=%u", seed);
    char *arguments[] = {path, NULL};
    char *environment[] = {of_plant, of_seeds, "TENURE_BRIEF=1", NULL};
    int quiet = open("/dev/null", O_WRONLY | O_CLOEXEC);
    (void)dup2(quiet, STDOUT_FILENO);
    (void)dup2(quiet, STDERR_FILENO);
    (void)setrlimit(RLIMIT_CPU, &(struct rlimit){SECONDS_MAX, SECONDS_MAX});
    (void)execve(path, arguments, environment);
    _exit(126);
}

/* Whether the run failed. */
static int run_fails(enum finder finder, const char *plant, unsigned seed) {
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        play(finder, plant, seed);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 126) {
        fail_msg("%s cannot be run", finders[finder]);
    }
    return status != 0;
}

/* The number of seeds it took, or 0. */
static unsigned found_after(const struct plant *plant) {
    for (unsigned seed = 1; seed <= plant->seeds; seed++) {
        if (run_fails(plant->finder, plant->name, seed)) {
            return seed;
        }
    }
    return 0;
}

static int wanted(const struct plant *plant) {
    const char *which = getenv("TENURE_PLANTS");
    if (which == NULL || which[0] == '\0') {
        return plant->seeds <= SEEDS_QUICK;
    }
    return strcmp(which, "all") == 0 || strcmp(which, plant->name) == 0;
}

static void every_planted_bug_is_found(void **state) {
    (void)state;
    unsigned missed = 0;
    unsigned tried = 0;
    for (size_t i = 0; i < PLANT_COUNT; i++) {
        const struct plant *plant = &plants[i];
        if (!wanted(plant)) {
            continue;
        }
        unsigned after = found_after(plant);
        tried++;
        missed += after == 0;
        fprintf(stderr, "  %-26s %-24s %-11s %s %4u of %4u seeds   %s\n", plant->name, plant->file,
                finders[plant->finder], after != 0 ? "after" : "NOT in", after, plant->seeds,
                plant->what);
    }
    fprintf(stderr, "%u of %u planted bugs found (%zu are known)\n", tried - missed, tried,
            PLANT_COUNT);
    assert_true(tried > 0);
    assert_int_equal(missed, 0);
}

static void without_a_bug_nothing_is_found(void **state) {
    (void)state;
    for (int finder = 0; finder < FINDERS; finder++) {
        assert_false(run_fails((enum finder)finder, "NONE", 1));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_bug_nothing_is_found),
        cmocka_unit_test(every_planted_bug_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
