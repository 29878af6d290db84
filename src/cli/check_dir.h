/* What kind of directory `tenure check` and `tenure dump` were given, by the names of its files. */
#ifndef TN_CLI_CHECK_DIR_H
#define TN_CLI_CHECK_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum check_dir_kind {
    CHECK_DIR_UNREADABLE, /* it cannot be listed: opening it as a log says why */
    CHECK_DIR_OTHER,      /* it holds no file of Tenure's */
    CHECK_DIR_LOG,        /* a data directory */
    CHECK_DIR_BACKUP,     /* snapshots copied out of a data directory, and no log */
};

struct check_dir {
    enum check_dir_kind kind;
    size_t snapshots;
    uint64_t begins; /* the first LSN of the oldest segment; 0: none could be read */
};

void check_dir_look(const char *dir, struct check_dir *ret_datadir);

/* Says on standard error that `dir` is neither a data directory nor a backup. */
void check_dir_refuse(const char *subcommand, const char *dir);

#endif
