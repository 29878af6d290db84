/* What local_open.h promises: checks that the directory is not a node's, and waits a moment for its
 * lock. */
#include "main/local_open.h"

#include <stdio.h>
#include <time.h>

#include "log/local.h"
#include "replica/replica.h"
#include "server/log_line.h"

#define LOCK_PATIENCE_MS 3000u
#define LOCK_PAUSE_NS 20000000

static struct log_local_options options_of(const struct os *os, const struct config *config,
                                           bool clustered, bool restored) {
    return (struct log_local_options){
        .os = os,
        .dir = config_text(config, CONFIG_DATA),
        .segment_bytes = config_number(config, CONFIG_SEGMENT_BYTES),
        .space_reserve_bytes = config_number(config, CONFIG_SPACE_RESERVE),
        .use_older_snapshot = config_number(config, CONFIG_OLDER_SNAPSHOT) != 0,
        .copy = clustered,
        .copy_begins = clustered && config_number(config, CONFIG_CLUSTER_INIT) != 0,
        .restored = config_number(config, CONFIG_RESTORED) != 0 || restored};
}

/* If a server is killed while it starts a process, that process keeps the directory's lock until it has
 * become another program: a moment, even on a busy machine. The next server waits for it. */
static enum tn_status open_patiently(const struct log_local_options *options, struct log **ret_log,
                                     struct log_error *error) {
    const struct os *os = options->os;
    struct timespec pause = {.tv_nsec = LOCK_PAUSE_NS};
    uint64_t until_ms = os->clock_boot_ms(os->ctx) + LOCK_PATIENCE_MS;
    bool said = false;
    for (;;) {
        enum tn_status status = log_local_open(options, NULL, NULL, ret_log, error);
        if (status != TN_LOCKED || os->clock_boot_ms(os->ctx) >= until_ms) {
            return status;
        }
        if (!said) {
            server_log("locked", "data=%s reason=\"%s\"", options->dir,
                       "another process uses the directory, perhaps only for a moment");
            said = true;
        }
        (void)nanosleep(&pause, NULL);
    }
}

/* A standby's directory is a copy of the cluster's log: alone, it could acknowledge commands that
 * the cluster does not have. */
static enum tn_status directory_check(const struct os *os, const struct config *config,
                                      struct log_error *error) {
    bool member = false;
    enum tn_status status = replica_dir_is_member(os, config_text(config, CONFIG_DATA), &member);
    if (status == TN_OK && member && config_number(config, CONFIG_RESTORED) == 0) {
        (void)snprintf(
            error->text, sizeof error->text,
            "this directory belongs to a node of a cluster that was not closed: start it "
            "with the section [cluster], or with --restored if the cluster is gone");
        return TN_INVALID;
    }
    if (status != TN_OK) {
        (void)snprintf(error->text, sizeof error->text, "the file %s: %s", REPLICA_FILE,
                       tn_status_text(status));
    }
    return status;
}

enum tn_status local_open(const struct os *os, const struct config *config, bool clustered,
                          bool restored, struct log **ret_log, struct log_error *error) {
    struct log_local_options options = options_of(os, config, clustered, restored);
    enum tn_status status = clustered ? TN_OK : directory_check(os, config, error);
    return status == TN_OK ? open_patiently(&options, ret_log, error) : status;
}
