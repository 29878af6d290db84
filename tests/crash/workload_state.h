/* Shared by the files of the workloads only. */
#ifndef TESTS_CRASH_WORKLOAD_STATE_H
#define TESTS_CRASH_WORKLOAD_STATE_H

#include "crash/workload.h"

#define WORKLOAD_DIR "/data"
#define WORKLOAD_SEGMENT (64u << 10)

struct log_local_options workload_log_options(struct tape *tape, bool older);
bool workload_older_may_fail(const char *text);
/* What is in the log, read only; false if it cannot be read. */
bool workload_peek(const struct ledger *ledger, struct tape *tape,
                   struct ledger_result *ret_result);
void workload_wrong(struct workload *work, const char *text); /* the first counts */

/* One call of the next 160 or so fails; syncs more often than the others. */
void workload_plan_failure(struct tape *tape, struct tn_prng *prng);

/* With a probability of one half the process dies at one of its calls, not at its planned end. */
void workload_plan_death(struct tape *tape, struct tn_prng *prng);

void workload_engine_run(struct workload *work, struct tn_prng *prng);
bool workload_engine_start(const struct workload *work, struct tape *tape, struct ledger *ledger,
                           struct workload_result *ret_result);

void workload_keys_run(struct workload *work, struct tn_prng *prng);
bool workload_keys_start(struct tape *tape, struct ledger *ledger,
                         struct workload_result *ret_result);

#endif
