/* What output.h promises. */
#include "server/output.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "server/connection.h"
#include "server/count.h"
#include "server/slots.h"

bool server_output_init(struct server_output *output, uv_loop_t *loop,
                        struct server_counters *counters) {
    output->loop = loop;
    output->counters = counters;
    output->bytes = malloc(SERVER_OUT_BYTES);
    return output->bytes != NULL;
}

void server_output_free(struct server_output *output) {
    free(output->bytes);
}

size_t server_output_waiting(const struct server_connection *connection) {
    return (size_t)connection->sending_len + connection->out_len;
}

struct protocol_writer server_reply_begin(struct server_connection *connection) {
    struct server_output *output = connection->output;
    if (output->len > SERVER_OUT_FLUSH) {
        server_output_flush(connection);
    }
    return (struct protocol_writer){.out =
                                        tn_writer_of(output->bytes + output->len, SERVER_REPLY_MAX),
                                    .encoding = connection->client.encoding};
}

void server_reply_end(struct server_connection *connection, const struct protocol_writer *w) {
    static const char too_large[] = "-TOO_LARGE the reply is too large\r\n";
    struct server_output *output = connection->output;
    if (w->out.overflow) {
        memcpy(output->bytes + output->len, too_large, sizeof too_large - 1);
        output->len += sizeof too_large - 1;
        return;
    }
    output->len += w->out.len;
}

void server_reply_bytes(struct server_connection *connection, const void *bytes, size_t len) {
    struct protocol_writer w = server_reply_begin(connection);
    tn_write_raw(&w.out, bytes, len);
    server_reply_end(connection, &w);
}

void server_replies_collect(struct server_connection *connection) {
    struct server_slot *slot;
    while ((slot = server_slot_collect(&connection->client)) != NULL) {
        if (!server_connection_answers(connection, slot->row, slot->answer.code)) {
            server_slot_free(slot);
            continue;
        }
        if (slot->plain) {
            struct protocol_writer w = server_reply_begin(connection);
            server_slot_write(slot, &w);
            server_reply_end(connection, &w);
        } else {
            struct tn_bytes reply = server_slot_reply(slot);
            server_reply_bytes(connection, reply.at, reply.len);
        }
        server_slot_free(slot);
    }
}

void server_reply_error(struct server_connection *connection, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    struct protocol_writer w = server_reply_begin(connection);
    protocol_write_error(&w, text);
    server_reply_end(connection, &w);
    connection->output->counters->errors++;
}

/* ---- Sending ---- */

bool server_output_unsent(const struct server_connection *connection) {
    return transport_unsent(&connection->transport);
}

/* Gives a buffer to the transport, which must have none of this connection. */
static bool send_buffer(struct server_connection *connection, uint8_t *bytes, uint32_t len,
                        uint32_t capacity) {
    TN_ASSERT(connection->sending == NULL);
    connection->sending = bytes;
    connection->sending_len = len;
    connection->sending_capacity = capacity;
    return transport_write(&connection->transport, bytes, len) == 0;
}

static void sending_free(struct server_connection *connection) {
    free(connection->sending);
    server_connection_give(connection, connection->sending_capacity);
    connection->sending = NULL;
    connection->sending_len = connection->sending_capacity = 0;
}

void server_output_drop(struct server_connection *connection) {
    sending_free(connection);
    free(connection->out);
    server_connection_give(connection, connection->out_capacity);
    connection->out = NULL;
    connection->out_len = connection->out_capacity = 0;
}

bool server_output_written(struct server_connection *connection, int status) {
    sending_free(connection);
    if (status < 0 || connection->closing) {
        return false;
    }
    connection->progress_ms = uv_now(connection->output->loop);
    if (connection->out_len == 0) {
        return true;
    }
    uint8_t *bytes = connection->out;
    uint32_t len = connection->out_len, capacity = connection->out_capacity;
    connection->out = NULL;
    connection->out_len = connection->out_capacity = 0;
    return send_buffer(connection, bytes, len, capacity);
}

/* Makes room in the buffer that is sent after the one at the transport. */
static bool out_reserve(struct server_connection *connection, size_t len) {
    size_t need = connection->out_len + len;
    if (need > connection->out_capacity) {
        size_t twice = 2 * (size_t)connection->out_capacity;
        size_t capacity = need < twice ? twice : need;
        size_t more = capacity - connection->out_capacity;
        if (capacity > UINT32_MAX || !server_connection_take(connection, more)) {
            return false;
        }
        uint8_t *bigger = realloc(connection->out, capacity);
        if (bigger == NULL) {
            server_connection_give(connection, more);
            return false;
        }
        connection->out = bigger;
        connection->out_capacity = (uint32_t)capacity;
    }
    return true;
}

static bool keep(struct server_connection *connection, const uint8_t *bytes, size_t len) {
    if (!out_reserve(connection, len)) {
        return false;
    }
    memcpy(connection->out + connection->out_len, bytes, len);
    connection->out_len += (uint32_t)len;
    return true;
}

static bool send_rest(struct server_connection *connection, const uint8_t *bytes, size_t len) {
    if (connection->sending != NULL) {
        return keep(connection, bytes, len);
    }
    if (!server_connection_take(connection, len)) {
        return false;
    }
    uint8_t *copy = malloc(len);
    if (copy == NULL) {
        server_connection_give(connection, len);
        return false;
    }
    memcpy(copy, bytes, len);
    connection->progress_ms = uv_now(connection->output->loop);
    return send_buffer(connection, copy, (uint32_t)len, (uint32_t)len);
}

void server_output_flush(struct server_connection *connection) {
    struct server_output *output = connection->output;
    size_t len = output->len;
    size_t sent = 0;
    output->len = 0;
    output->counters->bytes_out += len;
    server_count_ended(output->counters);
    if (len == 0 || connection->closing || connection->lost) {
        return;
    }
    TN_ASSERT(connection->sending != NULL || connection->out_len == 0);
    if (connection->sending == NULL) {
        int took = transport_try_write(&connection->transport, output->bytes, len);
        connection->lost = took < 0;
        sent = took > 0 ? (size_t)took : 0;
    }
    if (sent < len && !connection->lost) {
        connection->lost = !send_rest(connection, output->bytes + sent, len - sent);
    }
}

/* ---- Messages ---- */

struct protocol_writer server_message_begin(struct server_connection *connection, size_t room) {
    bool reserved = out_reserve(connection, room);
    return (struct protocol_writer){
        .out = tn_writer_of(reserved ? connection->out + connection->out_len : NULL,
                            reserved ? room : 0),
        .encoding = connection->client.encoding};
}

bool server_message_end(struct server_connection *connection, const struct protocol_writer *w) {
    if (w->out.overflow) {
        return false;
    }
    connection->out_len += (uint32_t)w->out.len;
    connection->output->counters->bytes_out += w->out.len;
    return true;
}

void server_messages_flush(struct server_connection *connection) {
    if (connection->out_len == 0 || connection->sending != NULL || connection->closing) {
        return;
    }
    uint8_t *bytes = connection->out;
    uint32_t len = connection->out_len;
    int took = transport_try_write(&connection->transport, bytes, len);
    uint32_t sent = took > 0 ? (uint32_t)took : 0, capacity = connection->out_capacity;
    if (took < 0) {
        server_connection_close(connection);
        return;
    }
    connection->out = NULL;
    connection->out_len = connection->out_capacity = 0;
    if (sent == len) {
        free(bytes);
        server_connection_give(connection, capacity);
        return;
    }
    memmove(bytes, bytes + sent, len - sent);
    connection->progress_ms = uv_now(connection->output->loop);
    if (!send_buffer(connection, bytes, len - sent, capacity)) {
        server_connection_close(connection);
    }
}
