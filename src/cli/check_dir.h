/* Detects the kind of the directory given to `tenure check` and `tenure dump`, by its file names.
 * */
#ifndef TN_CLI_CHECK_DIR_H
#define TN_CLI_CHECK_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum check_dir_kind {
    CHECK_DIR_UNREADABLE, /* cannot be listed */
    CHECK_DIR_OTHER,      /* contains no file of Tenure */
    CHECK_DIR_LOG,        /* a data directory */
    CHECK_DIR_BACKUP,     /* snapshots copied out of a data directory, and no log */
};

struct check_dir {
    enum check_dir_kind kind;
    int error; /* the errno, if it cannot be listed */
    size_t snapshots;
    uint64_t begins; /* the first LSN of the oldest segment; 0: none could be read */
};

void check_dir_look(const char *dir, struct check_dir *ret_datadir);

/* Why no server starts in `dir`, judged by its file `restored`, and what to do. NULL: it does not stop one.
 * After an interrupted `tenure restore`, what is there may be sound and a part only. */
const char *check_dir_restored(const char *dir, const char **ret_advice);

/* Prints to standard error that `dir` cannot be listed, or is neither a data directory nor a backup. */
void check_dir_refuse(const char *subcommand, const char *dir, const struct check_dir *datadir);

#endif
