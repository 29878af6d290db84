/* The output of sensors, read back while their guardians write it.
 *
 * A guardian appends the output of its sensor to DIR/<ref>/log.<number>. When a file is full, it begins
 * the next number and removes the oldest file. Files never get shorter and no number is used twice, so a
 * position (number and offset) is valid as long as its file is kept. */
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
 * too. *ret_len is 0 at the end of the output: ask again later. *ret_lost: the file of the position was
 * removed, or never existed, and this starts with the oldest file. NOTFOUND: there was
 * never any output. */
enum tn_status run_output_read(const struct os *os, const char *dir, const char *ref,
                               struct run_output_position *position, void *out, size_t capacity,
                               size_t *ret_len, bool *ret_lost);

/* The position that has about `bytes` bytes behind it, fewer if fewer are kept. */
enum tn_status run_output_tail(const struct os *os, const char *dir, const char *ref,
                               uint64_t bytes, struct run_output_position *ret_position);

/* The number of the next file in the directory of a sensor. Removes all but the last `keep` files before
 * it. */
enum tn_status run_output_begin(const struct os *os, const char *path, uint32_t keep,
                                uint64_t *ret_number);

/* All of it, and the directory if nothing else is in there: the sensor is deleted. */
void run_output_remove(const struct os *os, const char *dir, const char *ref);

/* "3.4096". */
void run_output_position_format(struct run_output_position position,
                                char out[RUN_OUTPUT_POSITION_TEXT]);
bool run_output_position_parse(struct tn_bytes text, struct run_output_position *ret_position);

#endif
