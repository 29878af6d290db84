/* The bare disk: repeated 4 KiB overwrite + fdatasync of a file that was written before. */
#ifndef TN_BENCH_DISK_H
#define TN_BENCH_DISK_H

#include <stdint.h>

#include "load.h"

/* Opens a file in this directory. Exits with a message if that fails. */
int disk_open(const char *dir);
/* Syncs for `ns` nanoseconds; returns how many syncs were done, and the time in *ret_seconds. */
uint64_t disk_turn(int file, uint64_t ns, double *ret_seconds);
/* As disk_turn, at `rate` syncs a second, whether the disk keeps up or not: a late sync counts from the
 * moment at which it was due. */
void disk_turn_at_rate(int file, uint64_t ns, double rate, struct load_histogram *histogram);

#endif
