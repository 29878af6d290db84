/* What unix.h promises. */
#define _GNU_SOURCE 1
#include "server/unix.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static enum unix_result fail(char *reason, size_t room, const char *what) {
    (void)snprintf(reason, room, "%s", what);
    return UNIX_FAILED;
}

static int socket_make(void) {
    return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* Whether a process accepts connections there. 0: no, the socket is stale. EADDRINUSE: yes.
 * Otherwise an errno. */
static int probe(const struct sockaddr_un *address) {
    int fd = socket_make();
    int error = 0;
    if (fd < 0) {
        return errno;
    }
    bool connected = connect(fd, (const struct sockaddr *)address, sizeof *address) == 0;
    if (connected || errno == EAGAIN) { /* EAGAIN: a process listens, but its backlog is full */
        error = EADDRINUSE;
    } else if (errno != ECONNREFUSED) {
        error = errno;
    }
    (void)close(fd);
    return error;
}

/* Makes sure that there is no file at the path, or says why one has to stay. */
static enum unix_result clear(const struct os *os, const struct sockaddr_un *address, char *reason,
                              size_t room) {
    struct stat file;
    if (lstat(address->sun_path, &file) != 0) {
        return errno == ENOENT ? UNIX_OK : fail(reason, room, strerror(errno));
    }
    if (!S_ISSOCK(file.st_mode)) {
        return fail(reason, room, "a file of that name exists and is not a socket");
    }
    int error = probe(address);
    if (error == EADDRINUSE) {
        (void)fail(reason, room, "another process listens on it");
        return UNIX_LIVE;
    }
    if (error != 0) {
        return fail(reason, room, strerror(error));
    }
    enum tn_status status = os->remove(os->ctx, address->sun_path);
    return status == TN_OK ? UNIX_OK : fail(reason, room, tn_status_text(status));
}

enum unix_result unix_bind(const struct os *os, const char *path, struct unix_socket *ret_socket,
                           char *reason, size_t room) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat file;
    if (strlen(path) > UNIX_PATH_BYTES) {
        (void)snprintf(reason, room, "the path of a socket has at most %zu bytes", UNIX_PATH_BYTES);
        return UNIX_FAILED;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    enum unix_result result = clear(os, &address, reason, room);
    if (result != UNIX_OK) {
        return result;
    }
    int fd = socket_make();
    /* On Linux the file gets the mode of the socket at bind(), so at no time can others connect. */
    if (fd < 0 || fchmod(fd, S_IRUSR | S_IWUSR) != 0 ||
        bind(fd, (const struct sockaddr *)&address, sizeof address) != 0 ||
        lstat(path, &file) != 0) {
        result = fail(reason, room, strerror(errno));
        if (fd >= 0) {
            (void)close(fd);
        }
        return result;
    }
    *ret_socket = (struct unix_socket){.fd = fd, .device = file.st_dev, .inode = file.st_ino};
    return UNIX_OK;
}

void unix_remove(const struct os *os, const char *path, const struct unix_socket *socket) {
    struct stat file;
    if (lstat(path, &file) == 0 && file.st_dev == socket->device && file.st_ino == socket->inode) {
        (void)os->remove(os->ctx, path);
    }
}
