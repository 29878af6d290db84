/* Receiving the messages of a guardian (run_frame.h) with the pid of their sender. */
#ifndef TN_PROCESS_RUN_NEWS_H
#define TN_PROCESS_RUN_NEWS_H

#include <sys/types.h>

#include "process/run_frame.h"

/* Receives one message without waiting: as recv(2). *inout_pid becomes the pid in its credentials, if
 * there are any. */
ssize_t run_news_receive(int socket, uint8_t bytes[RUN_FRAME_SMALL_MAX], pid_t *inout_pid);

#endif
