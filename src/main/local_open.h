/* Opening the local log in the data directory, by the settings. */
#ifndef TN_MAIN_LOCAL_OPEN_H
#define TN_MAIN_LOCAL_OPEN_H

#include "config/config.h"
#include "log/log.h"

/* `clustered`: the log is a node's copy of the cluster's. `restored`: a new generation must begin, as
 * with the setting `restored`. On failure, *error has the reason. */
enum tn_status local_open(const struct os *os, const struct config *config, bool clustered,
                          bool restored, struct log **ret_log, struct log_error *error);

#endif
