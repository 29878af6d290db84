/* One pass over a log: opened read-only, then replayed. */
#include "cli/check_pass.h"

#include "log/local.h"
#include "os/os.h"

enum tn_status check_pass(const char *dir, struct check_way way, log_notice *note,
                          struct engine_report *ret_report, struct log_error *error) {
    struct log *log;
    struct log_local_options options = {.os = os_posix(),
                                        .dir = dir,
                                        .read_only = true,
                                        .use_older_snapshot = way.older,
                                        .restored = way.backup};
    error->text[0] = '\0';
    enum tn_status status = log_local_open(&options, note, NULL, &log, error);
    if (status != TN_OK) {
        return status;
    }
    return engine_replay(options.os, log_local_store(log), log, ret_report, error);
}
