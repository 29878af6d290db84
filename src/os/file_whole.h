/* Small files that are read and replaced whole. */
#ifndef TN_OS_FILE_WHOLE_H
#define TN_OS_FILE_WHOLE_H

#include "os/os.h"

#define OS_FILE_PATH_MAX 4096u

/* Reads the file's first bytes, at most `capacity`. A caller that must notice a longer file passes one
 * byte more than it accepts. `flags`: OS_PRIVATE or 0. */
enum tn_status os_file_read(const struct os *os, const char *path, unsigned flags, void *out,
                            size_t capacity, size_t *ret_len);

/* Gives the file DIR/NAME these bytes, with mode 0600. A crash leaves the old file or the new one, whole
 * and durable; after TN_OK it is the new one. The bytes are first in DIR/NAME.new. */
enum tn_status os_file_replace(const struct os *os, const char *dir, const char *name,
                               const void *bytes, size_t len);

#endif
