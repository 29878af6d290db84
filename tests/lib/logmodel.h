/* The expected content of a log: every batch that was tried, in order, and how many are surely in
 * the log.
 *
 * Batches are random bytes; a snapshot holds the number of batches that it stands for and their
 * checksum. A load is correct if it returns a prefix of the tried batches that contains at least
 * every acknowledged batch, byte for byte, and if no LSN that was tried is assigned again. Batches
 * that a load returned count as acknowledged from then on: the engine has served them. All checks
 * are cmocka assertions. */
#ifndef TESTS_LIB_LOGMODEL_H
#define TESTS_LIB_LOGMODEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/prng.h"
#include "log/local.h"

struct logmodel_batch {
    struct log_batch batch;
    uint8_t *payload;
    uint32_t hash; /* of this batch and all before it */
};

struct logmodel {
    struct tn_prng prng;
    struct logmodel_batch *batches;
    size_t count; /* tried */
    size_t acked; /* batches surely in the log: count or count - 1 */
    size_t capacity;
    uint64_t shard; /* the shard that the last load reported */
    uint64_t next_lsn;
    uint64_t lsn_high; /* the largest LSN ever tried, except those surely not written */
    uint64_t notices;
    char notice_last[1024];
    enum tn_status done_status; /* status of the last append */
    unsigned done_calls;
};

void logmodel_init(struct logmodel *model, uint64_t seed);
void logmodel_copy(struct logmodel *to, const struct logmodel *from);
void logmodel_free(struct logmodel *model);

/* The next batch to try, with a payload of `len` bytes. Its LSNs follow those of the last batch. */
const struct log_batch *logmodel_try(struct logmodel *model, uint32_t len);

/* For a test that has put bytes of its own into the last batch's payload. */
void logmodel_rehash(struct logmodel *model);

/* Tries a batch on the log and records the outcome; returns the status that `done` got. */
enum tn_status logmodel_append(struct logmodel *model, struct log *log, uint32_t len);
enum tn_status logmodel_append_many(struct logmodel *model, struct log *log, unsigned n,
                                    uint32_t len_max);

/* Writes a snapshot of the acknowledged batches. */
enum tn_status logmodel_snapshot(struct logmodel *model, struct log *log);
/* Statistics of a local log and its store. */
void logmodel_stats(struct log *log, struct log_stats *ret_stats);

/* Opens and loads. If it succeeds, checks the loaded batches; on failure *ret_log is not set. */
enum tn_status logmodel_open(struct logmodel *model, const struct log_local_options *options,
                             struct log **ret_log, struct log_error *error);

/* Opens, loads and closes; the model does not change. Fewer batches than are acknowledged are no
 * failure here: *ret_loaded is their number. */
enum tn_status logmodel_check(struct logmodel *model, const struct log_local_options *options,
                              size_t *ret_loaded, struct log_error *error);

/* As logmodel_open, which must succeed. */
struct log *logmodel_must_open(struct logmodel *model, const struct log_local_options *options);

#endif
