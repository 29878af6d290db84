/* Runs both judges (check.h) on a history: in this process, or in one of its own while the next round
 * is played. */
#ifndef TESTS_NEMESIS_NM_JUDGE_H
#define TESTS_NEMESIS_NM_JUDGE_H

#include <sys/types.h>

#include "nemesis/nm_history.h"

/* Prints the figures. Keeps the history in a file if a judge rejects it. */
bool nm_judge(const struct nm_history *h);
/* Judges the history file that TENURE_HISTORY names. */
bool nm_judge_kept(void);

/* The id of a process that judges the history; nm_judge_wait takes it. */
pid_t nm_judge_begin(const struct nm_history *h);
/* Waits for that process; true if no judge rejected the history. With the id 0, true at once. Sets the
 * id to 0. */
bool nm_judge_wait(pid_t *id);

#endif
