/* Any bytes as what a server sends to the client of etcd: as a message, as frames of gRPC, or as a
 * whole connection of HTTP/2 with two calls and a watch on it. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "etcd/grpc_session.h"
#include "etcd/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ANSWER_MAX 4096u

/* Everything an answer points to can be read. */
static size_t touch(struct tn_bytes bytes) {
    size_t sum = 0;
    for (uint32_t i = 0; i < bytes.len; i++) {
        sum += bytes.at[i];
    }
    return sum;
}

static size_t touch_found(const struct etcd_found *found) {
    size_t sum = 0;
    for (uint32_t i = 0; i < found->count; i++) {
        sum += touch(found->kvs[i].key) + touch(found->kvs[i].value);
    }
    return sum;
}

static size_t messages(const uint8_t *data, size_t size) {
    struct etcd_arena arena;
    struct tn_bytes bytes = tn_bytes_of(data, size);
    size_t sum = 0;
    etcd_arena_init(&arena, 1 << 20);
    for (unsigned verb = ETCD_TXN; verb <= ETCD_STATUS; verb++) {
        struct etcd_answer answer = {0};
        if (etcd_message_answer(&answer, &arena, (enum etcd_verb)verb, bytes)) {
            sum += touch_found(&answer.found) + touch(answer.status.version);
            for (uint32_t i = 0; i < answer.op_count; i++) {
                sum += touch_found(&answer.ops[i].found);
            }
            TN_ASSERT(answer.outcome == ETCD_DONE || answer.outcome == ETCD_COMPARE_FAILED);
        }
    }
    struct etcd_news news;
    if (etcd_message_news(&news, &arena, bytes)) {
        for (uint32_t i = 0; i < news.change_count; i++) {
            sum += touch(news.changes[i].kv.key) + touch(news.changes[i].kv.value);
        }
        sum += strlen(news.message);
    }
    const char *token = etcd_message_token(&arena, bytes);
    sum += token != NULL ? strlen(token) : 0;
    TN_ASSERT(arena.taken <= arena.max);
    etcd_arena_free(&arena);
    return sum;
}

struct call {
    struct etcd_stream stream;
    unsigned ends;
};

static void on_message(struct etcd_stream *stream, struct tn_bytes message) {
    TN_ASSERT(stream->streaming && message.len <= ANSWER_MAX);
    (void)messages(message.at, message.len);
    if (message.len % 7 == 3) {
        etcd_session_detach(stream);
        ((struct call *)stream)->ends++;
    } else {
        etcd_session_ask_progress(stream);
    }
}

static void on_end(struct etcd_stream *stream, const struct etcd_end *end) {
    struct etcd_verdict verdict = etcd_verdict_of(end);
    ((struct call *)stream)->ends++;
    if (stream->frame.state == ETCD_FRAME_WHOLE && verdict.outcome == ETCD_DONE) {
        struct tn_bytes message = etcd_frame_message(&stream->frame);
        (void)messages(message.at, message.len);
    }
    TN_ASSERT(strlen(end->message) < ETCD_MESSAGE_MAX);
    TN_ASSERT(end->grpc_status >= -1 && end->grpc_status <= 16);
}

static const struct etcd_stream_events events = {.message = on_message, .end = on_end};

static void connection(const uint8_t *data, size_t size, size_t step) {
    static uint8_t out[1 << 16];
    struct etcd_session_options options = {.authority = "a:1", .answer_bytes_max = ANSWER_MAX};
    struct etcd_session *session = etcd_session_new(&options);
    struct call calls[3] = {{.ends = 0}};
    size_t len = 0;
    TN_ASSERT(session != NULL);
    for (unsigned i = 0; i < 3; i++) {
        TN_ASSERT(etcd_message_progress(&calls[i].stream.out) == TN_OK);
        calls[i].stream.events = &events;
        calls[i].stream.streaming = i == 2;
        calls[i].stream.path = "/a/B";
        TN_ASSERT(etcd_session_start(session, &calls[i].stream));
    }
    (void)etcd_session_output(session, out, sizeof out, &len);
    for (size_t at = 0; at < size && !etcd_session_is_over(session); at += step) {
        size_t piece = size - at < step ? size - at : step;
        if (!etcd_session_input(session, data + at, piece) ||
            !etcd_session_output(session, out, sizeof out, &len)) {
            break;
        }
    }
    etcd_session_end(session);
    TN_ASSERT(etcd_session_streams(session) == 0);
    etcd_session_free(session);
    for (unsigned i = 0; i < 3; i++) {
        TN_ASSERT(calls[i].ends == 1);
        etcd_stream_free(&calls[i].stream);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) {
        return 0;
    }
    if (data[0] % 3 == 0) {
        (void)messages(data + 1, size - 1);
    } else {
        connection(data + 2, size - 2, 1 + data[1]);
    }
    return 0;
}
