/* The output of sensors, read back while their guardians write it.
 *
 * A guardian appends what its sensor prints to DIR/<ref>/log.<number>, and begins the next number when
 * a file is full; the oldest is removed then. A file never gets shorter and no number is used twice, so
 * a position, number and offset, is good for as long as its file is kept. */
#ifndef TN_PROCESS_RUN_OUTPUT_H
#define TN_PROCESS_RUN_OUTPUT_H

#include "base/bytes.h"
#include "os/os.h"

#define RUN_OUTPUT_POSITION_TEXT 44u /* with its NUL */

struct run_output_position {
    uint64_t file; /* 0: the oldest there is */
    uint64_t offset;
};

/* Reads up to `capacity` bytes from *position on and moves it behind them, over the ends of files
 * too. *ret_len is 0 at the end of what there is: ask again later. *ret_lost: the position was rotated
 * away, or is none of these files', and this starts with the oldest that is kept. NOTFOUND: there was
 * never any output. */
enum tn_status run_output_read(const struct os *os, const char *dir, const char *ref,
                               struct run_output_position *position, void *out, size_t capacity,
                               size_t *ret_len, bool *ret_lost);

/* The position that has about `bytes` bytes behind it, fewer if fewer are kept. */
enum tn_status run_output_tail(const struct os *os, const char *dir, const char *ref,
                               uint64_t bytes, struct run_output_position *ret_position);

/* The number of the file to go on with in the directory of a sensor; what is more than `keep` files
 * before it is removed. */
enum tn_status run_output_begin(const struct os *os, const char *path, uint32_t keep,
                                uint64_t *ret_number);

/* All of it, and the directory if nothing else is in there: the sensor is deleted. */
void run_output_remove(const struct os *os, const char *dir, const char *ref);

/* "3.4096". */
void run_output_position_format(struct run_output_position position,
                                char out[RUN_OUTPUT_POSITION_TEXT]);
bool run_output_position_parse(struct tn_bytes text, struct run_output_position *ret_position);

#endif
