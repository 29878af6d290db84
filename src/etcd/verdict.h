/* What the end of a call means: from the status of gRPC and its message, or from the way the
 * connection ended, to an outcome and a reason. Pure.
 *
 *   the call                                          outcome       reason
 *   0, and the message can be read                    done, or compare failed
 *   3 (invalid argument), 5, 6, 9, 12                 surely not    INVALID, or by the text:
 *       "too large"                                                 TOO_LARGE
 *       "authentication failed", "user name is empty"               DENIED
 *   7 (permission denied), 16 (unauthenticated)       surely not    DENIED
 *   8 (resource exhausted) "space exceeded"           doubt         NOSPACE
 *       "larger than max"                             surely not    TOO_LARGE
 *       else                                          surely not    BUSY
 *   11 (out of range) "compacted"                     surely not    COMPACTED
 *       else                                                        FUTURE
 *   1, 2, 4, 10, 13, 14, 15, no status, HTTP's own    doubt         SERVER
 *   0, but the message cannot be read                 doubt         PROTOCOL, TOO_LARGE
 *   the stream was refused, or nothing was sent       surely not    UNREACHABLE
 *   reset, connection lost                            doubt         LOST
 *   own deadline                                      doubt         TIMEOUT
 *
 * "Surely not" is said only where etcd answers before it proposes the change to the other members,
 * or where applying it was refused on all of them alike. "Space exceeded" is not such an answer: when
 * the quota runs out while the change is on its way, etcd applies it and still reports the
 * error. It is final, though: the call is not under way any more, so that a read shows the outcome. */
#ifndef TN_ETCD_VERDICT_H
#define TN_ETCD_VERDICT_H

#include <stdbool.h>

#include "etcd/etcd.h"

/* How a stream ended. */
enum etcd_end_kind {
    ETCD_END_TRAILERS,  /* the server ended it, with or without a status */
    ETCD_END_UNSENT,    /* nothing was sent, or the server has not looked at it */
    ETCD_END_RESET,     /* by the server */
    ETCD_END_LOST,      /* with its connection */
    ETCD_END_TIMEOUT,   /* we gave up */
    ETCD_END_TOO_LARGE, /* the answer */
    ETCD_END_PROTOCOL,  /* the answer is not gRPC */
};

struct etcd_end {
    enum etcd_end_kind kind;
    int http_status; /* 0: there was none */
    int grpc_status; /* -1: there was none */
    char message[ETCD_MESSAGE_MAX];
};

struct etcd_verdict {
    enum etcd_outcome outcome;
    enum etcd_reason reason;
    bool leave; /* the next call should go to another endpoint */
    bool
        log_in; /* the token is missing or no longer good: authenticate, then send the call again */
};

/* Of a call that ended thus; ETCD_DONE says only that there is a message to be read. */
struct etcd_verdict etcd_verdict_of(const struct etcd_end *end);

/* Of a watch that etcd canceled with this text. */
enum etcd_reason etcd_verdict_cancel(const char *text, bool compacted);

/* Decodes grpc-message: %XX becomes a byte, other unprintable characters become '?'. Cuts at the
 * end of `out`. */
void etcd_verdict_message(char out[ETCD_MESSAGE_MAX], const uint8_t *text, size_t len);

/* grpc-status: 0 to 16 in decimal; 2 (unknown) for anything else. */
int etcd_verdict_status(const uint8_t *text, size_t len);

#endif
