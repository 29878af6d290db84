/* The messages of wire.proto: requests to bytes, bytes to answers.
 *
 * Decoding is total: any bytes give an answer or are refused. What an answer points to is in the
 * arena. */
#ifndef TN_ETCD_MESSAGE_H
#define TN_ETCD_MESSAGE_H

#include "etcd/arena.h"
#include "etcd/etcd.h"

/* A message with its gRPC prefix. The memory is kept from one use to the next. */
struct etcd_buffer {
    uint8_t *at;
    size_t len;
    size_t capacity;
};

void etcd_buffer_free(struct etcd_buffer *buffer);

/* TN_OK; TN_INVALID if the message is larger than `max`; TN_NOMEM. The arena is reset. */
enum tn_status etcd_message_request(struct etcd_buffer *out, struct etcd_arena *arena, size_t max,
                                    const struct etcd_request *request);
enum tn_status etcd_message_watch(struct etcd_buffer *out, size_t max,
                                  const struct etcd_watch_options *options);
enum tn_status etcd_message_progress(struct etcd_buffer *out);
enum tn_status etcd_message_log_in(struct etcd_buffer *out, const char *user, const char *password);

/* The path of a request's method. */
const char *etcd_message_path(enum etcd_verb verb);
#define ETCD_PATH_WATCH "/etcdserverpb.Watch/Watch"
#define ETCD_PATH_LOG_IN "/etcdserverpb.Auth/Authenticate"

/* Sets outcome (ETCD_DONE or ETCD_COMPARE_FAILED) and the members that follow `connection`. False if
 * the bytes are no such answer, or need more memory than the arena has; the arena is reset. */
bool etcd_message_answer(struct etcd_answer *answer, struct etcd_arena *arena, enum etcd_verb verb,
                         struct tn_bytes bytes);

/* Sets everything in news; a response that is none of its kinds is refused. */
bool etcd_message_news(struct etcd_news *news, struct etcd_arena *arena, struct tn_bytes bytes);

/* The token in the answer to a log-in, NUL-terminated, in the arena's memory. NULL: there is
 * none. */
const char *etcd_message_token(struct etcd_arena *arena, struct tn_bytes bytes);

#endif
