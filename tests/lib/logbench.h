/* A log on a fake disk, as most tests of the log want it: small segments, no threads. */
#ifndef TESTS_LIB_LOGBENCH_H
#define TESTS_LIB_LOGBENCH_H

#include "lib/fakeos.h"
#include "lib/logmodel.h"

#define LOGBENCH_SEGMENT_BYTES (64u << 10)
#define LOGBENCH_SHARD 3
#define LOGBENCH_FIRST "/data/0000000000000001.log"
#define LOGBENCH_SECOND "/data/0000000000000002.log"

struct logbench {
    struct fakeos *fake;
    struct logmodel model;
    struct log_local_options options;
    struct log *log; /* NULL: closed */
};

/* For cmocka_unit_test_setup_teardown; the bench is *state. */
int logbench_setup(void **state);
int logbench_teardown(void **state);

void logbench_start(struct logbench *bench);
void logbench_stop(struct logbench *bench); /* a clean close */
void logbench_die(struct logbench *bench);  /* the process dies; the cache stays */

/* n batches of this size, all of which must succeed. */
void logbench_append(struct logbench *bench, unsigned n, uint32_t len);
void logbench_snapshot(struct logbench *bench);

/* The same disk once more, to be damaged; its model has the same batches. Freed by scrap. */
struct logbench logbench_copy(struct logbench *bench, uint64_t seed);
void logbench_scrap(struct logbench *copy);

/* Opening fails with this status, and the text has both words in it. */
void logbench_assert_refused(struct logbench *bench, enum tn_status status, const char *file,
                             const char *word);

#endif
