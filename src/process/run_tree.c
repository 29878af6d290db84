/* The processes below a guardian: see run_tree.h for the argument. */
#include "process/run_tree.h"

#include <signal.h>
#include <unistd.h>

#define PASSES_MAX 16u /* in one call */

void run_tree_init(struct run_tree *tree, pid_t guardian, int descriptor) {
    *tree = (struct run_tree){.guardian = guardian, .descriptor = descriptor};
}

struct pass {
    pid_t guardian;
    uint32_t ended, alive;
};

/* The guardian does not wait for its children, so no other process can get the pid of one, nor the
 * id of a group that it leads or has led. A group is killed in one step, which fork() cannot
 * outrun. */
static void child_seen(void *ctx, pid_t pid) {
    struct pass *pass = ctx;
    struct process_stat stat;
    int descriptor;
    if (process_stat_read(pid, &stat) != PROCESS_YES || stat.parent != pass->guardian) {
        pass->alive++; /* unknown, so it is not a proof */
        return;
    }
    (void)kill(-pid, SIGKILL);
    if (stat.state == 'Z' || stat.state == 'X') {
        pass->ended++;
        return;
    }
    pass->alive++;
    if (process_open(pid, stat.start, &descriptor) == PROCESS_YES) {
        process_signal(descriptor, SIGKILL);
        (void)close(descriptor);
    }
}

/* True: it is stopped, and *ret_switches says how often it had run until then. */
static bool guardian_is_stopped(const struct run_tree *tree, uint64_t *ret_switches) {
    struct process_stat stat;
    return process_stat_read(tree->guardian, &stat) == PROCESS_YES &&
           (stat.state == 'T' || stat.state == 't') && !process_ended(tree->descriptor) &&
           process_switches(tree->guardian, ret_switches) == PROCESS_YES;
}

static bool pass_is_proof(struct run_tree *tree) {
    struct pass pass = {.guardian = tree->guardian};
    uint64_t before;
    uint64_t after;
    if (!guardian_is_stopped(tree, &before)) {
        process_signal(tree->descriptor, SIGSTOP);
        tree->is_quiet = false;
        return false;
    }
    bool was_quiet = tree->is_quiet && tree->switches == before;
    bool read = process_children_of(tree->guardian, child_seen, &pass);
    bool unchanged = guardian_is_stopped(tree, &after) && before == after;
    /* A list that only grows and has the same length has not changed. */
    bool proof = was_quiet && read && unchanged && pass.alive == 0 && pass.ended == tree->ended;
    tree->is_quiet = read && unchanged && pass.alive == 0;
    tree->ended = pass.ended;
    tree->switches = before;
    return proof;
}

bool run_tree_end(struct run_tree *tree) {
    for (unsigned i = 0; i < PASSES_MAX; i++) {
        if (pass_is_proof(tree)) {
            return true;
        }
    }
    return false;
}
