/* Reads a data directory or a backup as recovery would, and changes nothing in it. */
#ifndef TN_CLI_CHECK_PASS_H
#define TN_CLI_CHECK_PASS_H

#include "engine/engine.h"
#include "log/log.h"

struct check_way {
    bool older;  /* begin with the snapshot before the newest */
    bool backup; /* there is no log after the snapshot */
};

/* `note` receives what is odd but not wrong; NULL: ignored. */
enum tn_status check_pass(const char *dir, struct check_way way, log_notice *note,
                          struct engine_report *ret_report, struct log_error *error);

#endif
