/* The file `restored` in a data directory that `tenure restore` has made. Two lines:
 *
 *     generation=incomplete|pending|done    incomplete: the restore was interrupted
 *     sensors=on|off
 *
 * Pending: the next start begins a new generation, as --restored does, and then writes `done`; if it dies
 * in between, the next one begins another, which does no harm. The file stays while sensors are off, and
 * is removed by a start with --sensors on. */
#ifndef TN_MAIN_RESTORED_H
#define TN_MAIN_RESTORED_H

#include "log/log_types.h"
#include "os/os.h"

struct restored {
    bool marked;      /* the file is there */
    bool pending;     /* a new generation must be logged */
    bool sensors_off; /* sensors stay off until the flag --sensors on */
};

/* Reads the file. Without it, nothing here applies. False: *error says why the directory must not
 * be used. */
bool restored_read(const struct os *os, const char *dir, struct restored *ret_restored,
                   struct log_error *error);
/* The new generation is in the log: the file says so, or is removed. `sensors`: they may run from now on.
 * If they may not, or the file cannot be changed, a log line says so. */
void restored_finish(const struct os *os, const char *dir, struct restored *restored, bool sensors);

#endif
