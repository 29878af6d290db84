/* What a log should hold: every batch that was tried, in order, and how many are surely in it.
 *
 * Batches are random bytes; a snapshot says how many batches it stands for and their checksum. A load
 * is right if it gives back a first part of what was tried that has at least every acknowledged
 * batch, byte for byte, and if no LSN that was tried is given again. What it gave back counts as acknowledged from then on: the engine has served
 * it. All checks are cmocka assertions. */
#ifndef TESTS_LIB_LOGMODEL_H
#define TESTS_LIB_LOGMODEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/prng.h"
#include "log/local.h"

struct logmodel_batch {
    struct log_batch batch;
    uint8_t *payload;
    uint32_t hash; /* of this and all before it */
};

struct logmodel {
    struct tn_prng prng;
    struct logmodel_batch *batches;
    size_t count; /* tried */
    size_t acked; /* surely there: count or count - 1 */
    size_t capacity;
    uint64_t shard; /* what the last load said */
    uint64_t next_lsn;
    uint64_t lsn_high; /* the largest that was ever tried, unless it was surely not written */
    uint64_t notices;
    char notice_last[1024];
    enum tn_status done_status; /* of the last append */
    unsigned done_calls;
};

void logmodel_init(struct logmodel *model, uint64_t seed);
void logmodel_copy(struct logmodel *to, const struct logmodel *from);
void logmodel_free(struct logmodel *model);

/* The next batch to try; len is the payload's. Its LSNs follow those of the last. */
const struct log_batch *logmodel_try(struct logmodel *model, uint32_t len);

/* The test has put bytes of its own into the last batch's payload. */
void logmodel_rehash(struct logmodel *model);

/* Tries a batch on the log and enters the outcome; returns what `done` got. */
enum tn_status logmodel_append(struct logmodel *model, struct log *log, uint32_t len);
enum tn_status logmodel_append_many(struct logmodel *model, struct log *log, unsigned n,
                                    uint32_t len_max);

/* Writes a snapshot of what is acknowledged. */
enum tn_status logmodel_snapshot(struct logmodel *model, struct log *log);
/* Of a local log and its store. */
void logmodel_stats(struct log *log, struct log_stats *ret_stats);

/* Opens and loads. If it succeeds, checks what came back; on failure *ret_log is not set. */
enum tn_status logmodel_open(struct logmodel *model, const struct log_local_options *options,
                             struct log **ret_log, struct log_error *error);

/* Opens, loads and closes, and leaves the model as it is. Fewer batches than are acknowledged are no
 * failure here: *ret_loaded tells. */
enum tn_status logmodel_check(struct logmodel *model, const struct log_local_options *options,
                              size_t *ret_loaded, struct log_error *error);

/* logmodel_open, and must succeed. */
struct log *logmodel_must_open(struct logmodel *model, const struct log_local_options *options);

#endif
