/* The Unix-domain socket that the server listens on: a file of mode 0600 from its first moment on,
 * removed at the end. */
#ifndef TN_SERVER_UNIX_H
#define TN_SERVER_UNIX_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/un.h>

#include "os/os.h"

/* The longest path of a socket in bytes, without its NUL. */
#define UNIX_PATH_BYTES (sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1)

enum unix_result {
    UNIX_OK,
    UNIX_LIVE,   /* another process listens at this path */
    UNIX_FAILED, /* the path is too long, names a file of another kind, or cannot be made */
};

struct unix_socket {
    int fd; /* the caller owns it after unix_bind */
    /* Identify the file. */
    dev_t device;
    ino_t inode;
};

/* Makes the socket at `path`; clients cannot connect yet. Replaces an abandoned socket, but never a
 * file of another kind. On failure, `reason` says why. */
enum unix_result unix_bind(const struct os *os, const char *path, struct unix_socket *ret_socket,
                           char *reason, size_t room);
/* Removes the file unless it has been replaced by another one. */
void unix_remove(const struct os *os, const char *path, const struct unix_socket *socket);

#endif
