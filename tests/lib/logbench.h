/* A log on a fake disk, with the defaults of most tests of the log: small segments, no threads. */
#ifndef TESTS_LIB_LOGBENCH_H
#define TESTS_LIB_LOGBENCH_H

#include "lib/fakeos.h"
#include "lib/logmodel.h"
#include "log/frame.h"
#include "log/segment.h"

#define LOGBENCH_SEGMENT_BYTES (64u << 10)
#define LOGBENCH_SECTOR 512u /* small, so that a small segment has many sectors */
#define LOGBENCH_SHARD 3
#define LOGBENCH_FIRST "/data/0000000000000001.log"
#define LOGBENCH_SECOND "/data/0000000000000002.log"
#define LOGBENCH_SNAPSHOT_HEADER 64u

struct logbench {
    struct fakeos *fake;
    struct logmodel model;
    struct log_local_options options;
    struct log *log; /* NULL: closed */
    char snapshot[64];
};

/* For cmocka_unit_test_setup_teardown; the bench is *state. */
int logbench_setup(void **state);
int logbench_teardown(void **state);

void logbench_start(struct logbench *bench);
void logbench_stop(struct logbench *bench); /* a clean close */
void logbench_die(struct logbench *bench);  /* the process dies; the cache stays */

/* Appends n batches of this size; each must succeed. */
void logbench_append(struct logbench *bench, unsigned n, uint32_t len);
/* Writes a snapshot of the whole log; returns its path, valid until the next one. */
const char *logbench_snapshot(struct logbench *bench);

/* Copies the disk, for a test that damages it; the copy's model has the same batches. Freed by
 * logbench_scrap. */
struct logbench logbench_copy(struct logbench *bench, uint64_t seed);
void logbench_scrap(struct logbench *copy);

/* The header of a segment, read and written as by the log. */
struct log_segment_header logbench_header(struct logbench *bench, const char *path);
void logbench_header_write(struct logbench *bench, const char *path,
                           const struct log_segment_header *header);

/* Changes a number of `len` bytes in the first `header` bytes of a file, which end in their
 * checksum, and corrects the checksum. */
void logbench_forge(struct logbench *bench, const char *path, size_t header, size_t at,
                    uint64_t number, size_t len);

/* A mark of the first segment that follows what is there, to be changed; its last frame begins at
 * last_at. */
struct log_frame logbench_frame_next(struct logbench *bench, uint64_t last_at);

/* Opening must fail with this status, and the text must contain both words. */
void logbench_assert_refused(struct logbench *bench, enum tn_status status, const char *file,
                             const char *word);

#endif
