/* The processes below a guardian: see run_tree.h for the argument. */
#include "process/run_tree.h"

#include <signal.h>
#include <unistd.h>

#define PASSES_MAX 16u /* in one call */

void tree_init(struct tree *tree, pid_t guardian, int descriptor) {
    *tree = (struct tree){.guardian = guardian, .descriptor = descriptor};
}

struct pass {
    pid_t guardian;
    uint32_t ended, alive;
};

/* The guardian waits for nobody, so the pid of a child of it is nobody else's; so is the group that it
 * leads or has led. A group is killed in one stroke, which fork() cannot escape. */
static void child_seen(void *ctx, pid_t pid) {
    struct pass *pass = ctx;
    struct proc_stat stat;
    int descriptor;
    if (proc_stat_read(pid, &stat) != PROC_YES || stat.parent != pass->guardian) {
        pass->alive++; /* not known: no proof */
        return;
    }
    (void)kill(-pid, SIGKILL);
    if (stat.state == 'Z' || stat.state == 'X') {
        pass->ended++;
        return;
    }
    pass->alive++;
    if (proc_open(pid, stat.start, &descriptor) == PROC_YES) {
        proc_signal(descriptor, SIGKILL);
        (void)close(descriptor);
    }
}

/* True: it is stopped; *ret_switches is what it has run until then. */
static bool guardian_is_stopped(const struct tree *tree, uint64_t *ret_switches) {
    struct proc_stat stat;
    return proc_stat_read(tree->guardian, &stat) == PROC_YES &&
           (stat.state == 'T' || stat.state == 't') && !proc_ended(tree->descriptor) &&
           proc_switches(tree->guardian, ret_switches) == PROC_YES;
}

static bool pass_is_proof(struct tree *tree) {
    struct pass pass = {.guardian = tree->guardian};
    uint64_t before;
    uint64_t after;
    if (!guardian_is_stopped(tree, &before)) {
        proc_signal(tree->descriptor, SIGSTOP);
        tree->is_quiet = false;
        return false;
    }
    bool was_quiet = tree->is_quiet && tree->switches == before;
    bool read = proc_children_of(tree->guardian, child_seen, &pass);
    bool unchanged = guardian_is_stopped(tree, &after) && before == after;
    /* A list that only grows and is as long as before is the same. */
    bool proof = was_quiet && read && unchanged && pass.alive == 0 && pass.ended == tree->ended;
    tree->is_quiet = read && unchanged && pass.alive == 0;
    tree->ended = pass.ended;
    tree->switches = before;
    return proof;
}

bool tree_end(struct tree *tree) {
    for (unsigned i = 0; i < PASSES_MAX; i++) {
        if (pass_is_proof(tree)) {
            return true;
        }
    }
    return false;
}
