/* What file_whole.h promises. */
#include "os/file_whole.h"

#include <stdio.h>

#include "base/assert.h"

enum tn_status os_file_read(const struct os *os, const char *path, unsigned flags, void *out,
                            size_t capacity, size_t *ret_len) {
    int file;
    size_t len = 0;
    TN_ASSERT((flags & ~(unsigned)OS_PRIVATE) == 0 && capacity > 0);
    enum tn_status status = os->open(os->ctx, path, OS_READ | flags, &file);
    if (status != TN_OK) {
        return status;
    }
    status = os->read_at(os->ctx, file, out, capacity, 0, &len);
    (void)os->close(os->ctx, file);
    if (status == TN_OK) {
        TN_ASSERT(len <= capacity);
        *ret_len = len;
    }
    return status;
}

/* Removes the remains of an interrupted attempt first, so that the file is new and ours. */
static enum tn_status new_file_write(const struct os *os, const char *path, const void *bytes,
                                     size_t len) {
    int file;
    (void)os->remove(os->ctx, path);
    enum tn_status status = os->open(os->ctx, path, OS_WRITE | OS_CREATE | OS_EXCLUSIVE, &file);
    if (status != TN_OK) {
        return status;
    }
    status = os->write_at(os->ctx, file, bytes, len, 0);
    if (status == TN_OK) {
        status = os->sync(os->ctx, file);
    }
    enum tn_status closed = os->close(os->ctx, file);
    return status != TN_OK ? status : closed;
}

enum tn_status os_file_replace(const struct os *os, const char *dir, const char *name,
                               const void *bytes, size_t len) {
    char path[OS_FILE_PATH_MAX], temporary[OS_FILE_PATH_MAX];
    int end = snprintf(temporary, sizeof temporary, "%s/%s.new", dir, name);
    if (end < 0 || end >= (int)sizeof temporary) {
        return TN_INVALID;
    }
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    enum tn_status status = new_file_write(os, temporary, bytes, len);
    if (status == TN_OK) {
        status = os->rename(os->ctx, temporary, path);
    }
    return status == TN_OK ? os->sync_dir(os->ctx, dir) : status;
}
