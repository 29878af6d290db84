/* The disk by itself: 4 KiB overwrite + fdatasync of a file that was written before, again and again. */
#ifndef TN_BENCH_DISK_H
#define TN_BENCH_DISK_H

#include <stdint.h>

#include "load.h"

/* In this directory. Exits with a message if that does not work. */
int disk_open(const char *dir);
/* For so long; returns how many syncs were done, and the time in *ret_seconds. */
uint64_t disk_turn(int file, uint64_t ns, double *ret_seconds);
/* The same at so many syncs a second, whether the disk keeps up or not: a sync that is late counts from the
 * moment at which it was due. */
void disk_turn_at_rate(int file, uint64_t ns, double rate, struct load_histogram *histogram);

#endif
