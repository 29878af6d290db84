/* The two judges of a history. They share nothing but the history.
 *
 * By the log: the log's order is the claim, and everything is held against it.
 *   - every entry is a command that a client sent, as often as it was sent at most; every answer's
 *     entry is that client's command, unless it is a refusal without the log;
 *   - each answer is what kernel and model say at that position, each read what the model holds there;
 *     each refusal without the log is what the kernel says to it in that state, at that time;
 *   - the order respects time: what ended before something else began stands before it, reads too;
 *     and the order of a connection;
 *   - what was acknowledged in a life of the server is in the log that this life left.
 *
 * By search: each cell is a small sequential object (cell.h). Is there any order of its operations
 * that respects time and explains every answer? Log positions are not looked at; lease ids are names
 * without order. Unknown operations may have happened, once, before the death of the server that they
 * were sent to, or not at all. */
#ifndef TESTS_NEMESIS_CHECK_H
#define TESTS_NEMESIS_CHECK_H

#include "nemesis/nm_history.h"

struct nm_report {
    char why[4096];   /* empty: nothing is wrong */
    uint64_t answers; /* held against the model */
    uint64_t reads;
    uint64_t refusals; /* without the log */
    uint64_t digests;  /* states of nodes held against the log's */
    uint64_t searched; /* operations of cells */
    uint64_t steps;    /* number of steps of the search */
};

bool nm_check_log(const struct nm_history *h, struct nm_report *report);
bool nm_check_search(const struct nm_history *h, struct nm_report *report);

#endif
