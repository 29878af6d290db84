/* The listeners of HTTP without TLS: one over TCP, and one over a Unix-domain socket, whose clients
 * are identified by their processes. */
#define _GNU_SOURCE 1 /* accept4 */
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/count.h"
#include "server/http_listen.h"
#include "server/http_parts.h"
#include "server/listen.h"
#include "server/listen_address.h"
#include "server/log_line.h"
#include "server/memory.h"
#include "server/owners.h"
#include "server/schedule.h"
#include "server/server.h"
#include "server/transport.h"
#include "server/unix.h"

#define BACKLOG 1024

/* Refuses a client because there are too many, and disconnects it. */
static void refuse(struct http *http, int client) {
    static const char text[] = "HTTP/1.1 503 Service Unavailable\r\n"
                               "Content-Type: application/problem+json\r\n"
                               "Retry-After: 1\r\n"
                               "Connection: close\r\n\r\n"
                               "{\"type\":\"about:blank\",\"title\":\"Service Unavailable\","
                               "\"status\":503,\"detail\":\"max number of clients reached\","
                               "\"outcome\":\"rejected\"}\n";
    (void)send(client, text, sizeof text - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    http->owners->counters->rejected[SERVER_REJECT_CONNECTIONS]++;
    (void)close(client);
}

static void on_listener(uv_poll_t *poll, int status, int events) {
    struct http_listener *listener = poll->data;
    struct http *http = listener->http;
    struct server_owners *owners = http->owners;
    (void)status;
    (void)events;
    for (uint32_t i = 0; i < SERVER_ACCEPTS_MAX; i++) {
        struct sockaddr_storage from;
        socklen_t len = sizeof from;
        int client =
            accept4(listener->socket, (struct sockaddr *)&from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (client < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
                listener->paused = true;
                (void)uv_poll_stop(&listener->poll);
            }
            break;
        }
        if (server_clients(owners) >= owners->options->connections_max) {
            refuse(http, client);
        } else {
            (void)MHD_add_connection(http->daemon, client, (struct sockaddr *)&from, len);
        }
    }
    http_run(http);
}

static void listener_start(struct http *http, unsigned which, int socket) {
    struct http_listener *listener = &http->listeners[which];
    listener->http = http;
    listener->socket = socket;
    (void)uv_poll_init(http->owners->loop, &listener->poll, socket);
    listener->poll.data = listener;
    (void)uv_poll_start(&listener->poll, UV_READABLE, on_listener);
}

int server_http_listen(struct server_owners *owners, const char *host, uint16_t port,
                       uint16_t *ret_port) {
    struct sockaddr_storage address;
    int one = 1;
    int made = server_address_make(host, port, &address);
    if (made != 0) {
        return made;
    }
    socklen_t len =
        address.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    int fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return uv_translate_sys_error(errno);
    }
    transport_unsent_bound(fd, SERVER_UNSENT_BYTES);
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        bind(fd, (const struct sockaddr *)&address, len) != 0 || listen(fd, BACKLOG) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0) {
        int code = uv_translate_sys_error(errno);
        (void)close(fd);
        return code;
    }
    *ret_port = server_address_port(&address);
    listener_start(owners->http, HTTP_LISTEN_TCP, fd);
    return 0;
}

bool server_http_listen_unix(struct server_owners *owners) {
    struct http *http = owners->http;
    const char *path = owners->options->http_unix;
    char reason[256];
    if (unix_bind(owners->options->os, path, &http->unix_socket, reason, sizeof reason) !=
        UNIX_OK) {
        server_log("refused", "reason=\"--http-unix %s: %s\"", path, reason);
        return false;
    }
    if (listen(http->unix_socket.fd, BACKLOG) != 0) {
        server_log("refused", "reason=\"--http-unix %s: %s\"", path,
                   uv_strerror(uv_translate_sys_error(errno)));
        unix_remove(owners->options->os, path, &http->unix_socket);
        (void)close(http->unix_socket.fd);
        return false;
    }
    listener_start(http, HTTP_LISTEN_UNIX, http->unix_socket.fd);
    return true;
}

void http_listeners_stop(struct http *http) {
    const struct server_options *options = http->owners->options;
    for (unsigned i = 0; i < HTTP_LISTENERS; i++) {
        struct http_listener *listener = &http->listeners[i];
        if (listener->socket < 0) {
            continue;
        }
        if (!uv_is_closing((uv_handle_t *)&listener->poll)) {
            uv_close((uv_handle_t *)&listener->poll, NULL);
        }
        (void)close(listener->socket);
        listener->socket = -1;
        if (i == HTTP_LISTEN_UNIX) {
            unix_remove(options->os, options->http_unix, &http->unix_socket);
        }
    }
}

void http_listeners_retry(struct http *http) {
    for (unsigned i = 0; i < HTTP_LISTENERS; i++) {
        struct http_listener *listener = &http->listeners[i];
        if (listener->socket >= 0 && listener->paused) {
            listener->paused = false;
            (void)uv_poll_start(&listener->poll, UV_READABLE, on_listener);
        }
    }
}
