/* Environment failures: the one table of I/O and resource errors.
 *
 * A status is not a refusal (those are `enum tn_result`, decided by the kernel and the same on
 * replay) and not a bug (TN_ASSERT). 0 is success. */
#ifndef TN_BASE_STATUS_H
#define TN_BASE_STATUS_H

#define TN_STATUS_TABLE(X)                                                  \
    X(OK, "ok")                                                             \
    X(NOMEM, "out of memory or address space")                              \
    X(IO, "input/output error")                                             \
    X(NOSPACE, "no space left on the device")                               \
    X(CORRUPT, "stored data is damaged")                                    \
    X(VERSION, "stored data was written by another version")                \
    X(LOCKED, "the data directory is in use by another process")            \
    X(NOTFOUND, "no such file or directory")                                \
    X(INVALID, "invalid argument or configuration")                         \
    X(TIME_JUMP, "the clock is further ahead of the log than max_downtime") \
    X(HALTED, "the engine has halted after a storage failure")              \
    X(CLOSED, "the engine is closed")                                       \
    X(LOST, "this node has lost the log; nothing was written")              \
    X(OVERLOAD, "too many requests are in flight; try again")               \
    X(DENIED, "permission denied")                                          \
    X(INTERRUPTED, "canceled")                                              \
    X(DOUBT, "this node has lost the log; the last write may be in it or not")

enum tn_status {
#define TN_STATUS_ENUM(name, text) TN_##name,
    TN_STATUS_TABLE(TN_STATUS_ENUM)
#undef TN_STATUS_ENUM
        TN_STATUS_COUNT
};

const char *tn_status_name(enum tn_status status);
const char *tn_status_text(enum tn_status status);

#endif
