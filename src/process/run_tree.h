/* Ends everything below a guardian that does not do so itself, and proves it, while the guardian lives.
 *
 * The guardian must not be killed before: it is a child subreaper, so every descendant that loses its
 * parent becomes its child, and with it goes the only place where all of them can be found.
 *
 *     1. The guardian is stopped, so that it waits for no child: its list of children only grows, and a
 *        child that has ended stays in it. That it has not run is checked by its context switches.
 *     2. A pass over the list kills every child that lives.
 *     3. A pass that finds only children that had ended before the pass began is the proof. If a
 *        descendant lived at that moment, its topmost ancestor below the guardian would live too, be in
 *        the list for all of the pass and not be one of them; a process that has ended has no children.
 *
 * A process that forks and exits, however fast, cannot escape: its children are in the list. */
#ifndef TN_PROCESS_RUN_TREE_H
#define TN_PROCESS_RUN_TREE_H

#include "process/proc.h"

struct run_tree {
    pid_t guardian;
    int descriptor;    /* of its process; the caller's */
    uint64_t switches; /* of the guardian, at the last pass */
    uint32_t ended; /* children in the last pass if none of them lived; 0 with `is_quiet` unset */
    bool is_quiet;  /* none lived in the last pass, and the guardian has not run since */
};

void run_tree_init(struct run_tree *tree, pid_t guardian, int descriptor);
/* A few passes, without waiting. True: nothing below the guardian lives, or ever will; it is stopped.
 * False: to be called again, soon. */
bool run_tree_end(struct run_tree *tree);

#endif
