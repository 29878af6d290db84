/* What run_news.h promises. */
#include "process/run_news.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

ssize_t run_news_receive(
    int socket, uint8_t bytes[RUN_FRAME_SMALL_MAX], /* NOLINT(readability-non-const-parameter) */
    pid_t *inout_pid) {
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(struct ucred))];
    } control;
    struct iovec text = {.iov_base = bytes, .iov_len = RUN_FRAME_SMALL_MAX};
    struct msghdr message;
    struct ucred sender;
    ssize_t n;
    do {
        message = (struct msghdr){.msg_iov = &text,
                                  .msg_iovlen = 1,
                                  .msg_control = control.room,
                                  .msg_controllen = sizeof control.room};
        n = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        /* ECONNRESET comes once if the guardian ended without reading an order. Its messages
         * follow. */
    } while (n < 0 && (errno == EINTR || errno == ECONNRESET));
    const struct cmsghdr *head = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (head != NULL && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_CREDENTIALS) {
        memcpy(&sender, CMSG_DATA(head), sizeof sender);
        *inout_pid = sender.pid;
    }
    return n;
}
