/* What kind of directory `tenure check` and `tenure dump` were given, by the names of its files. */
#ifndef TN_CLI_DATADIR_H
#define TN_CLI_DATADIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cli_datadir_kind {
    CLI_DATADIR_UNREADABLE, /* it cannot be listed: opening it as a log says why */
    CLI_DATADIR_OTHER,      /* it holds no file of Tenure's */
    CLI_DATADIR_LOG,        /* a data directory */
    CLI_DATADIR_BACKUP,     /* snapshots copied out of a data directory, and no log */
};

struct cli_datadir {
    enum cli_datadir_kind kind;
    size_t snapshots;
    uint64_t begins; /* the first LSN of the oldest segment; 0: none could be read */
};

void cli_datadir_look(const char *dir, struct cli_datadir *ret_datadir);

/* Says on standard error that `dir` is neither a data directory nor a backup. */
void cli_datadir_refuse(const char *subcommand, const char *dir);

#endif
