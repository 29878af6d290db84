/* One connection to the broker and its thread: made, kept alive, lost, made again. */
#include <amqp_ssl_socket.h>
#include <amqp_tcp_socket.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "broker/broker_state.h"

#define CONNECT_S 5 /* seconds for the connection, for the handshake, and for each answer */
#define FRAME_BYTES 131072
#define STOP_GRACE_MS 2000 /* time for a thread to close the connection properly */

/* ---- Log ---- */

void broker_log(struct broker *broker, const char *format, ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    broker->options.log(broker->options.log_ctx, line);
}

const char *broker_log_text(struct tn_bytes text, char *out, size_t room) {
    size_t len = text.len < room - 1 ? text.len : room - 1;
    for (size_t i = 0; i < len; i++) {
        uint8_t c = text.at[i];
        out[i] = (char)(c < ' ' || c > '~' || c == '"' || c == '\\' ? '?' : c);
    }
    out[len] = '\0';
    return out;
}

/* ---- Failures ---- */

bool broker_link_fail(struct broker_link *link, const char *format, ...) {
    char text[BROKER_REASON_MAX];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    (void)broker_log_text(tn_bytes_of(text, strlen(text)), link->reason, sizeof link->reason);
    return false;
}

bool broker_link_status(struct broker_link *link, const char *what, int status) {
    return status == AMQP_STATUS_OK ||
           broker_link_fail(link, "%s: %s", what, amqp_error_string2(status));
}

/* Notes what the broker says when it closes a channel or the connection. */
static bool closed(struct broker_link *link, const char *what, const amqp_method_t *method) {
    if (method->id == AMQP_CONNECTION_CLOSE_METHOD) {
        const amqp_connection_close_t *close = method->decoded;
        return broker_link_fail(link, "%s: %.*s", what, (int)close->reply_text.len,
                                (const char *)close->reply_text.bytes);
    }
    if (method->id == AMQP_CHANNEL_CLOSE_METHOD) {
        const amqp_channel_close_t *close = method->decoded;
        return broker_link_fail(link, "%s: %.*s", what, (int)close->reply_text.len,
                                (const char *)close->reply_text.bytes);
    }
    return broker_link_fail(link, "%s: the broker says %s", what,
                            amqp_method_name(method->id) != NULL ? amqp_method_name(method->id)
                                                                 : "an unknown method");
}

static bool reply_good(struct broker_link *link, const char *what, amqp_rpc_reply_t reply) {
    switch (reply.reply_type) {
    case AMQP_RESPONSE_NORMAL:
        return true;
    case AMQP_RESPONSE_SERVER_EXCEPTION:
        return closed(link, what, &reply.reply);
    case AMQP_RESPONSE_LIBRARY_EXCEPTION:
        return broker_link_status(link, what, reply.library_error);
    default:
        return broker_link_fail(link, "%s: no answer", what);
    }
}

bool broker_link_good(struct broker_link *link, const char *what) {
    return reply_good(link, what, amqp_get_rpc_reply(link->connection));
}

/* ---- Opening and closing ---- */

static bool socket_make(struct broker_link *link, amqp_socket_t **ret_socket) {
    const struct broker_options *options = &link->broker->options;
    amqp_connection_state_t connection = link->connection;
    if (!options->address.tls) {
        *ret_socket = amqp_tcp_socket_new(connection);
        return *ret_socket != NULL || broker_link_fail(link, "no memory");
    }
    amqp_socket_t *made = amqp_ssl_socket_new(connection);
    *ret_socket = made;
    if (made == NULL) {
        return broker_link_fail(link, "no memory");
    }
    amqp_ssl_socket_set_verify_peer(made, 1);
    amqp_ssl_socket_set_verify_hostname(made, 1);
    if (!broker_link_status(link, "amqp_ca_file",
                            amqp_ssl_socket_set_cacert(made, options->ca_file))) {
        return false;
    }
    return *options->cert_file == '\0' ||
           broker_link_status(link, "amqp_cert_file, amqp_key_file",
                              amqp_ssl_socket_set_key(made, options->cert_file, options->key_file));
}

/* The properties that this client reports to the broker. */
struct properties {
    char name[64];
    amqp_table_entry_t capability;
    amqp_table_entry_t entries[2];
    amqp_table_t table;
};

static void properties_make(struct broker_link *link, struct properties *properties) {
    (void)snprintf(properties->name, sizeof properties->name, "tenured %s", link->name);
    properties->capability =
        (amqp_table_entry_t){.key = amqp_cstring_bytes("consumer_cancel_notify"),
                             .value = {.kind = AMQP_FIELD_KIND_BOOLEAN, .value.boolean = 1}};
    /* The broker's operators see this name. */
    properties->entries[0] =
        (amqp_table_entry_t){.key = amqp_cstring_bytes("connection_name"),
                             .value = {.kind = AMQP_FIELD_KIND_UTF8,
                                       .value.bytes = amqp_cstring_bytes(properties->name)}};
    /* With this capability, the broker reports a deleted queue. */
    properties->entries[1] = (amqp_table_entry_t){
        .key = amqp_cstring_bytes("capabilities"),
        .value = {.kind = AMQP_FIELD_KIND_TABLE,
                  .value.table = {.num_entries = 1, .entries = &properties->capability}}};
    properties->table = (amqp_table_t){.num_entries = 2, .entries = properties->entries};
}

static void socket_show(struct broker_link *link, int number) {
    pthread_mutex_lock(&link->lock);
    link->socket = number;
    pthread_mutex_unlock(&link->lock);
}

static bool link_open(struct broker_link *link) {
    const struct broker_options *options = &link->broker->options;
    struct timeval patience = {.tv_sec = CONNECT_S};
    amqp_socket_t *made;
    struct properties properties;
    link->connection = amqp_new_connection();
    if (link->connection == NULL) {
        return broker_link_fail(link, "no memory");
    }
    if (!socket_make(link, &made) ||
        !broker_link_status(link, "connect",
                            amqp_socket_open_noblock(made, options->address.host,
                                                     options->address.port, &patience))) {
        return false;
    }
    socket_show(link, amqp_get_sockfd(link->connection));
    (void)amqp_set_handshake_timeout(link->connection, &patience);
    (void)amqp_set_rpc_timeout(link->connection, &patience);
    properties_make(link, &properties);
    if (!reply_good(link, "login",
                    amqp_login_with_properties(link->connection, options->address.vhost, 0,
                                               FRAME_BYTES, options->heartbeat_s, &properties.table,
                                               AMQP_SASL_METHOD_PLAIN, options->address.user,
                                               options->password))) {
        return false;
    }
    (void)amqp_channel_open(link->connection, BROKER_CHANNEL);
    return broker_link_good(link, "channel");
}

/* Closes the connection. Unacknowledged messages return to the queue in any case, but at once if
 * `politely` is set. */
static void link_close(struct broker_link *link, bool politely) {
    struct timeval patience = {.tv_sec = 1};
    if (link->connection == NULL) {
        return;
    }
    if (politely) {
        (void)amqp_set_rpc_timeout(link->connection, &patience);
        (void)amqp_connection_close(link->connection, AMQP_REPLY_SUCCESS);
    }
    socket_show(link, -1);
    (void)amqp_destroy_connection(link->connection);
    link->connection = NULL;
}

/* ---- Frames ---- */

enum broker_turn broker_link_frame(struct broker_link *link, amqp_frame_t *ret_frame) {
    struct timeval at_once = {0};
    amqp_maybe_release_buffers(link->connection);
    int status = amqp_simple_wait_frame_noblock(link->connection, ret_frame, &at_once);
    if (status == AMQP_STATUS_TIMEOUT) {
        return BROKER_IDLE;
    }
    if (!broker_link_status(link, "connection", status)) {
        return BROKER_BROKEN;
    }
    if (ret_frame->frame_type == AMQP_FRAME_METHOD) {
        switch (ret_frame->payload.method.id) {
        case AMQP_CONNECTION_CLOSE_METHOD:
        case AMQP_CHANNEL_CLOSE_METHOD:
        case AMQP_BASIC_CANCEL_METHOD: /* the queue was deleted */
            (void)closed(link, "connection", &ret_frame->payload.method);
            return BROKER_BROKEN;
        default:
            break;
        }
    }
    return BROKER_AGAIN;
}

bool broker_link_beat(struct broker_link *link) {
    amqp_frame_t beat = {.channel = 0, .frame_type = AMQP_FRAME_HEARTBEAT};
    return broker_link_status(link, "connection", amqp_send_frame(link->connection, &beat));
}

/* ---- The thread ---- */

static bool is_stopping(const struct broker_link *link) {
    return atomic_load(&link->broker->stopping);
}

/* Waits until another thread wakes this one, the broker sends something, or the time is up. */
static void link_wait(struct broker_link *link, uint32_t ms, bool listens) {
    struct pollfd of[2] = {{.fd = link->wake, .events = POLLIN}, {.fd = -1, .events = POLLIN}};
    eventfd_t ignored;
    if (listens) {
        of[1].fd = amqp_get_sockfd(link->connection);
    }
    (void)poll(of, 2, (int)ms);
    (void)eventfd_read(link->wake, &ignored);
}

static void connected_set(struct broker_link *link, bool connected) {
    struct broker *broker = link->broker;
    pthread_mutex_lock(&broker->lock);
    link->connected = connected;
    broker->stats.connects += connected;
    pthread_mutex_unlock(&broker->lock);
}

/* From retry_min_ms, doubling to retry_max_ms. Half of it is random, so that not all clients
 * reconnect at the same moment. */
static uint32_t pause_ms(struct broker_link *link) {
    const struct broker_options *options = &link->broker->options;
    uint64_t ms = options->retry_min_ms;
    for (uint32_t i = 1; i < link->failures && ms < options->retry_max_ms; i++) {
        ms *= 2;
    }
    ms = ms < options->retry_max_ms ? ms : options->retry_max_ms;
    return (uint32_t)(ms / 2 + tn_prng_below(&link->prng, ms / 2 + 1));
}

static void failed(struct broker_link *link) {
    struct broker *broker = link->broker;
    const struct os *os = broker->options.os;
    link->failures++;
    uint32_t ms = pause_ms(link);
    pthread_mutex_lock(&broker->lock);
    broker->stats.failures++;
    memcpy(broker->stats.error, link->reason, sizeof broker->stats.error);
    pthread_mutex_unlock(&broker->lock);
    broker_log(broker, "event=amqp_failed connection=%s reason=\"%s\" retry_ms=%u", link->name,
               link->reason, ms);
    uint64_t end_ms = os->clock_boot_ms(os->ctx) + ms;
    uint64_t now_ms;
    while (!is_stopping(link) && (now_ms = os->clock_boot_ms(os->ctx)) < end_ms) {
        link_wait(link, (uint32_t)(end_ms - now_ms), false);
    }
}

/* Works until the link must stop or fails. */
static enum broker_turn link_work(struct broker_link *link) {
    /* The library sends heartbeats only while it is called. */
    uint32_t beat_ms = link->broker->options.heartbeat_s * 1000u / 4;
    enum broker_turn turn = BROKER_AGAIN;
    while (!is_stopping(link) && turn != BROKER_BROKEN && turn != BROKER_OVER) {
        link->wait_ms = 0;
        turn = link->turn(link);
        if (turn == BROKER_IDLE || turn == BROKER_DEAF) {
            uint32_t ms = link->wait_ms;
            link_wait(link, ms == 0 || ms > beat_ms ? beat_ms : ms, turn == BROKER_IDLE);
        }
    }
    return turn;
}

static void *link_main(void *arg) {
    struct broker_link *link = arg;
    struct broker *broker = link->broker;
    enum broker_turn turn = BROKER_BROKEN;
    while (!is_stopping(link) && turn != BROKER_OVER) {
        turn = BROKER_BROKEN;
        if (link_open(link) && link->begin(link)) {
            link->failures = 0;
            connected_set(link, true);
            broker_log(broker, "event=amqp_connected connection=%s host=%s port=%d tls=%s",
                       link->name, broker->options.address.host, broker->options.address.port,
                       broker->options.address.tls ? "yes" : "no");
            turn = link_work(link);
            connected_set(link, false);
        }
        link_close(link, turn != BROKER_BROKEN);
        if (turn == BROKER_BROKEN && !is_stopping(link)) {
            failed(link);
        }
    }
    return NULL;
}

/* ---- Beginning and end ---- */

bool broker_link_init(struct broker_link *link) {
    const struct os *os = link->broker->options.os;
    uint64_t seed = 0;
    (void)pthread_mutex_init(&link->lock, NULL);
    link->socket = -1;
    link->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (link->wake < 0 || os->random(os->ctx, &seed, sizeof seed) != TN_OK) {
        return false;
    }
    tn_prng_seed(&link->prng, seed);
    return true;
}

void broker_link_free(struct broker_link *link) {
    if (link->wake >= 0) {
        (void)close(link->wake);
    }
    (void)pthread_mutex_destroy(&link->lock);
}

/* Signals are left to other threads. */
bool broker_link_start(struct broker_link *link) {
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    link->running = pthread_create(&link->thread, NULL, link_main, link) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return link->running;
}

void broker_link_wake(struct broker_link *link) {
    (void)eventfd_write(link->wake, 1);
}

void broker_link_stop(struct broker_link *link) {
    const struct os *os = link->broker->options.os;
    if (!link->running) {
        return;
    }
    broker_link_wake(link);
    uint64_t end_ms = os->clock_wall_ms(os->ctx) + STOP_GRACE_MS;
    struct timespec end = {.tv_sec = (time_t)(end_ms / 1000),
                           .tv_nsec = (long)(end_ms % 1000) * 1000000};
    if (pthread_timedjoin_np(link->thread, NULL, &end) != 0) {
        /* The thread may be waiting for a broker that does not respond. */
        pthread_mutex_lock(&link->lock);
        if (link->socket >= 0) {
            (void)shutdown(link->socket, SHUT_RDWR);
        }
        pthread_mutex_unlock(&link->lock);
        (void)pthread_join(link->thread, NULL);
    }
    link->running = false;
}
