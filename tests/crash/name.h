/* Names of states, as text and back; the grammar is in explore.h. */
#ifndef TESTS_CRASH_NAME_H
#define TESTS_CRASH_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NAME_BYTES 8192

void name_begin(char out[NAME_BYTES], const char *workload, uint64_t seed);
/* Adds where the power failed, after the start that was cut, or the workload. */
void name_add_state(char out[NAME_BYTES], size_t op, const uint8_t *picks, size_t count);
void name_add_start(char out[NAME_BYTES], char start);

/* Reads "230:1~4" up to the next / or the end; false if it is none. */
bool name_read_state(const char **at, size_t *ret_op, uint8_t *picks, size_t capacity,
                     size_t *ret_count);

#endif
