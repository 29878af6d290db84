/* Connections to servers on this machine. */
#include "loopback.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

int loopback_connect(uint16_t port) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    int one = 1;
    int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (made < 0) {
        return -1;
    }
    if (connect(made, (const struct sockaddr *)&address, sizeof address) != 0 ||
        setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0) {
        int error = errno;
        close(made);
        errno = error;
        return -1;
    }
    return made;
}
