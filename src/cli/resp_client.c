/* Sockets. The socket is non-blocking, and poll provides the timeout for connecting, sending and
 * receiving. */
#include "cli/resp_client.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "cli/display.h"
#include "kernel/result.h"

#define SECRET_MAX 256u
#define SHARE_MIN_MS 1000u /* for an address of several, if the whole time is long enough */

__attribute__((format(printf, 3, 4))) static enum cli_link fail(struct cli_client *client,
                                                                enum cli_link link,
                                                                const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(client->error, sizeof client->error, format, arguments);
    va_end(arguments);
    return link;
}

static uint64_t deadline_of(const struct cli_client *client, uint64_t timeout_ms) {
    return timeout_ms == CLI_NO_TIMEOUT ? UINT64_MAX
                                        : client->os->clock_boot_ms(client->os->ctx) + timeout_ms;
}

/* Waits for the socket; false: the deadline passed. Errors show in what is done next. */
static bool wait_for(const struct cli_client *client, short events, uint64_t deadline) {
    for (;;) {
        uint64_t now = client->os->clock_boot_ms(client->os->ctx);
        uint64_t left =
            deadline == UINT64_MAX ? UINT64_MAX : deadline - (now < deadline ? now : deadline);
        short more = client->tls != NULL ? cli_tls_events(client->tls) : 0;
        struct pollfd one = {.fd = client->socket, .events = (short)(events | more)};
        int wait = deadline == UINT64_MAX ? -1 : (left > 3600000 ? 3600000 : (int)left);
        int ready = poll(&one, 1, wait);
        if (ready != 0 && !(ready < 0 && errno == EINTR)) {
            return true;
        }
        if (ready == 0 && left <= 3600000) {
            return false;
        }
    }
}

void cli_client_close(struct cli_client *client) {
    cli_tls_free(client->tls);
    client->tls = NULL;
    if (client->socket >= 0) {
        (void)close(client->socket);
    }
    client->socket = -1;
    cli_reader_free(&client->reader);
}

/* ---- Connecting ---- */

/* 0, or the errno of what went wrong. */
static int connect_one(struct cli_client *client, const struct addrinfo *address,
                       uint64_t deadline) {
    int one = 1;
    int error = 0;
    socklen_t len = sizeof error;
    client->socket =
        socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (client->socket < 0) {
        return errno;
    }
    if (address->ai_family != AF_UNIX) {
        (void)setsockopt(client->socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
    if (connect(client->socket, address->ai_addr, address->ai_addrlen) != 0) {
        error = errno;
    }
    if (error == EINPROGRESS) {
        error = wait_for(client, POLLOUT, deadline) ? 0 : ETIMEDOUT;
        if (error == 0) {
            (void)getsockopt(client->socket, SOL_SOCKET, SO_ERROR, &error, &len);
        }
    }
    if (error != 0) {
        (void)close(client->socket);
        client->socket = -1;
    }
    return error;
}

/* The part of the time for the first of `count` addresses, which may lead to a machine that is switched off:
 * the others need some too. */
static uint64_t share_until(const struct cli_client *client, uint64_t deadline, unsigned count) {
    uint64_t now = client->os->clock_boot_ms(client->os->ctx);
    uint64_t left = deadline > now ? deadline - now : 0;
    uint64_t least = left / 2 < SHARE_MIN_MS ? left / 2 : SHARE_MIN_MS;
    if (deadline == UINT64_MAX || count <= 1) {
        return deadline;
    }
    return now + (left / count > least ? left / count : least);
}

static enum cli_link connect_any(struct cli_client *client, const char *host, const char *port,
                                 uint64_t deadline) {
    struct addrinfo *found;
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    int code = getaddrinfo(host, port, &hints, &found);
    int error = 0;
    unsigned count = 0;
    if (code != 0) {
        return fail(client, CLI_LINK_UNREACHABLE, "cannot find %.100s port %.20s: %s", host, port,
                    gai_strerror(code));
    }
    for (const struct addrinfo *at = found; at != NULL; at = at->ai_next) {
        count++;
    }
    for (const struct addrinfo *at = found; at != NULL; at = at->ai_next) {
        error = connect_one(client, at, share_until(client, deadline, count--));
        if (error == 0) {
            break;
        }
    }
    freeaddrinfo(found);
    return error == 0 ? CLI_LINK_OK
                      : fail(client, CLI_LINK_UNREACHABLE, "cannot connect to %.100s:%.20s: %s",
                             host, port, strerror(error));
}

static enum cli_link connect_unix(struct cli_client *client, const char *path, uint64_t deadline) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const struct addrinfo at = {.ai_family = AF_UNIX,
                                .ai_socktype = SOCK_STREAM,
                                .ai_addr = (struct sockaddr *)&address,
                                .ai_addrlen = sizeof address};
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int error = connect_one(client, &at, deadline);
    return error == 0 ? CLI_LINK_OK
                      : fail(client, CLI_LINK_UNREACHABLE, "cannot connect to %.107s: %s", path,
                             strerror(error));
}

/* ---- With or without TLS ---- */

/* The handshake. */
static enum cli_link secure(struct cli_client *client, const struct cli_tls_settings *settings,
                            const char *host, uint64_t deadline) {
    char error[256] = "";
    client->tls = cli_tls_new(settings, host, client->socket, error, sizeof error);
    if (client->tls == NULL) {
        return fail(client, CLI_LINK_UNREACHABLE, "%s", error);
    }
    for (;;) {
        enum cli_tls_step step = cli_tls_handshake(client->tls, error, sizeof error);
        if (step == CLI_TLS_DONE) {
            return CLI_LINK_OK;
        }
        if (step == CLI_TLS_FAILED) {
            return fail(client, CLI_LINK_UNREACHABLE, "%s", error);
        }
        if (!wait_for(client, step == CLI_TLS_READ ? POLLIN : POLLOUT, deadline)) {
            return fail(client, CLI_LINK_UNREACHABLE, "the TLS handshake took too long");
        }
    }
}

static ssize_t wire_send(struct cli_client *client, const void *bytes, size_t len) {
    return client->tls != NULL ? cli_tls_send(client->tls, bytes, len)
                               : send(client->socket, bytes, len, MSG_NOSIGNAL);
}

static ssize_t wire_recv(struct cli_client *client, void *out, size_t len) {
    return client->tls != NULL ? cli_tls_recv(client->tls, out, len)
                               : recv(client->socket, out, len, 0);
}

/* The secret is in the environment or in a file, never on the command line, which others may see. Empty:
 * there is none. Not 0: the error of a file that cannot be read; a server may still need no log-in. */
static int secret_find(char out[SECRET_MAX + 1]) {
    const char *secret = getenv("TENURE_SECRET");
    const char *path = getenv("TENURE_SECRET_FILE");
    int error = 0;
    out[0] = '\0';
    if (secret != NULL) {
        (void)snprintf(out, SECRET_MAX + 1, "%s", secret);
    } else if (path != NULL && path[0] != '\0') {
        FILE *file = fopen(path, "re");
        if (file == NULL || (fgets(out, SECRET_MAX + 1, file) == NULL && ferror(file) != 0)) {
            error = errno;
        }
        out[strcspn(out, "\r\n")] = '\0';
        if (file != NULL) {
            (void)fclose(file);
        }
    }
    return error;
}

static bool begins(struct tn_bytes text, const char *word) {
    size_t len = strlen(word);
    return text.len >= len && memcmp(text.at, word, len) == 0;
}

/* What a server says that wants a log-in is for programs. `error`: of the file with the secret. */
static enum cli_link login_fail(struct cli_client *client, struct tn_bytes reply, int error) {
    char file[320] = "";
    client->login = true;
    if (error != 0) {
        (void)snprintf(file, sizeof file, "TENURE_SECRET_FILE %.200s: %s\n",
                       getenv("TENURE_SECRET_FILE"), strerror(error));
    }
    return fail(client, CLI_LINK_UNREACHABLE,
                "the server refuses: %s\n%s"
                "set TENURE_USER, and TENURE_SECRET or TENURE_SECRET_FILE, to the name and "
                "secret of a user of this server",
                begins(reply, "NOAUTH")
                    ? "NOAUTH it has users, and this client has not logged in"
                    : "WRONGPASS there is no such user, or its secret is another",
                file);
}

/* HELLO 3; the peer must be a Tenure server: a write must not go to some other server that happens
 * to know the word. */
static enum cli_link greet(struct cli_client *client, const struct cli_settings *settings,
                           uint64_t timeout_ms) {
    char secret[SECRET_MAX + 1] = "";
    const char *user = getenv("TENURE_USER");
    int error = settings->no_login ? 0 : secret_find(secret);
    bool login = secret[0] != '\0';
    user = user != NULL && user[0] != '\0' ? user : "default";
    const struct tn_bytes words[] = {tn_bytes_of("HELLO", 5),
                                     tn_bytes_of("3", 1),
                                     tn_bytes_of("SETNAME", 7),
                                     tn_bytes_of("tenure-cli", 10),
                                     tn_bytes_of("AUTH", 4),
                                     tn_bytes_of(user, strlen(user)),
                                     tn_bytes_of(secret, strlen(secret))};
    enum cli_link asked = cli_client_call(client, words, login ? 7 : 4, timeout_ms);
    explicit_bzero(secret, sizeof secret);
    if (asked == CLI_LINK_LOST && client->tls == NULL &&
        strstr(client->error, "connection") != NULL) {
        size_t len = strlen(client->error);
        (void)snprintf(client->error + len, sizeof client->error - len,
                       "; if this is a TLS port, use --tls or --ca");
    }
    if (asked != CLI_LINK_OK) {
        return CLI_LINK_UNREACHABLE; /* nothing that matters was asked */
    }
    uint32_t server = cli_node_find(&client->reader, 0, "server");
    if (client->reader.nodes[0].type == CLI_ERROR) {
        struct tn_bytes reply = cli_node_text(&client->reader, 0);
        struct cli_text text = {.at = NULL};
        if (begins(reply, "NOAUTH") || begins(reply, "WRONGPASS")) {
            return login_fail(client, reply, error);
        }
        cli_text_clean(&text, reply);
        (void)fail(client, CLI_LINK_UNREACHABLE, "the server refuses: %.150s",
                   text.failed ? "" : text.at);
        cli_text_free(&text);
        return CLI_LINK_UNREACHABLE;
    }
    if (server == 0 || !cli_node_is(&client->reader, server, "tenure")) {
        return fail(client, CLI_LINK_UNREACHABLE, "this is not a Tenure server");
    }
    client->follows =
        cli_node_is(&client->reader, cli_node_find(&client->reader, 0, "role"), "replica");
    return CLI_LINK_OK;
}

enum cli_link cli_client_open_at(struct cli_client *client, const struct cli_settings *settings,
                                 const char *host, const char *port, uint64_t timeout_ms) {
    *client = (struct cli_client){.os = settings->os, .socket = -1};
    uint64_t deadline = deadline_of(client, timeout_ms);
    enum cli_link link = settings->socket[0] != '\0'
                             ? connect_unix(client, settings->socket, deadline)
                             : connect_any(client, host, port, deadline);
    if (link == CLI_LINK_OK && settings->tls.on && settings->socket[0] == '\0') {
        link = secure(client, &settings->tls, host, deadline);
    }
    if (link == CLI_LINK_OK) {
        link = greet(client, settings, timeout_ms);
    }
    if (link != CLI_LINK_OK) {
        char error[sizeof client->error];
        bool login = client->login;
        memcpy(error, client->error, sizeof error);
        cli_client_close(client);
        memcpy(client->error, error, sizeof error);
        client->login = login;
    }
    return link;
}

enum cli_link cli_client_open(struct cli_client *client, const struct cli_settings *settings) {
    if (settings->node_count > 1 && settings->socket[0] == '\0') {
        return cli_owner_open(client, settings);
    }
    return cli_client_open_at(client, settings, settings->host, settings->port,
                              settings->timeout_ms);
}

int cli_client_exit(const struct cli_client *client) {
    if (client->ownerless) {
        return tn_result_exit(TN_R_MASTERDOWN);
    }
    return client->login ? tn_result_exit(TN_R_NOAUTH) : CLI_UNREACHABLE;
}

int cli_client_unreachable(const struct cli_client *client) {
    (void)fprintf(stderr, "tenure: %s\n", client->error);
    return cli_client_exit(client);
}

void cli_wait_ms(uint64_t ms) {
    struct timespec time = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)nanosleep(&time, NULL);
}

/* ---- Calling ---- */

/* Once a byte may have left, only the server knows what became of it. */
enum cli_link cli_client_send(struct cli_client *client, const struct tn_bytes *words,
                              uint32_t count, uint64_t timeout_ms) {
    struct cli_text out = {.at = NULL};
    uint64_t deadline = deadline_of(client, timeout_ms);
    size_t sent = 0;
    enum cli_link link = CLI_LINK_OK;
    cli_text_printf(&out, "*%u\r\n", count);
    for (uint32_t i = 0; i < count; i++) {
        cli_text_printf(&out, "$%u\r\n", words[i].len);
        cli_text_add(&out, words[i].at, words[i].len);
        cli_text_put(&out, "\r\n");
    }
    if (out.failed) {
        link = fail(client, CLI_LINK_UNREACHABLE, "out of memory");
    }
    while (link == CLI_LINK_OK && sent < out.len) {
        ssize_t len = wire_send(client, out.at + sent, out.len - sent);
        if (len >= 0) {
            sent += (size_t)len;
        } else if (errno != EAGAIN && errno != EINTR) {
            link = fail(client, CLI_LINK_LOST, "the connection broke while sending: %s",
                        strerror(errno));
        } else if (!wait_for(client, POLLOUT, deadline)) {
            link = fail(client, CLI_LINK_LOST, "the server did not accept the request in time");
        }
    }
    cli_text_free(&out);
    return link;
}

/* True: some bytes came. */
static enum cli_link receive_some(struct cli_client *client, bool *ret_some) {
    size_t capacity;
    uint8_t *room = cli_reader_room(&client->reader, &capacity);
    *ret_some = false;
    if (room == NULL) {
        return fail(client, CLI_LINK_LOST, "out of memory");
    }
    ssize_t len = wire_recv(client, room, capacity);
    if (len == 0) {
        return fail(client, CLI_LINK_LOST, "the server closed the connection");
    }
    if (len < 0 && errno != EAGAIN && errno != EINTR) {
        return fail(client, CLI_LINK_LOST, "the connection broke: %s", strerror(errno));
    }
    if (len > 0) {
        cli_reader_fill(&client->reader, (size_t)len);
        *ret_some = true;
    }
    return CLI_LINK_OK;
}

/* Whether a reply is there, or something that is none. */
static bool has_reply(struct cli_client *client, enum cli_link *ret_link) {
    enum cli_parse parse = cli_reader_next(&client->reader);
    *ret_link = parse == CLI_BAD ? fail(client, CLI_LINK_LOST, "cannot read the answer: %s",
                                        client->reader.error)
                                 : CLI_LINK_OK;
    return parse == CLI_READY || parse == CLI_BAD;
}

enum cli_link cli_client_receive(struct cli_client *client, uint64_t timeout_ms,
                                 bool *ret_timeout) {
    uint64_t deadline = deadline_of(client, timeout_ms);
    for (;;) {
        bool some;
        enum cli_link link;
        if (has_reply(client, &link)) {
            return link;
        }
        link = receive_some(client, &some);
        if (link != CLI_LINK_OK) {
            return link;
        }
        if (!some && !wait_for(client, POLLIN, deadline)) {
            if (ret_timeout != NULL) {
                *ret_timeout = true;
                return CLI_LINK_OK;
            }
            return fail(client, CLI_LINK_LOST, "no answer within %llu ms",
                        (unsigned long long)timeout_ms);
        }
    }
}

enum cli_link cli_client_exchange(struct cli_client *client, struct tn_bytes out,
                                  uint32_t *inout_sent, uint64_t timeout_ms) {
    for (;;) {
        bool some;
        ssize_t len = 0;
        enum cli_link link;
        if (has_reply(client, &link)) {
            return link;
        }
        if (*inout_sent < out.len) {
            len = wire_send(client, out.at + *inout_sent, out.len - *inout_sent);
            if (len < 0 && errno != EAGAIN && errno != EINTR) {
                return fail(client, CLI_LINK_LOST, "the connection broke while sending: %s",
                            strerror(errno));
            }
            *inout_sent += len > 0 ? (uint32_t)len : 0;
        }
        link = receive_some(client, &some);
        if (link != CLI_LINK_OK) {
            return link;
        }
        short events = (short)(POLLIN | (*inout_sent < out.len ? POLLOUT : 0));
        if (!some && len <= 0 && !wait_for(client, events, deadline_of(client, timeout_ms))) {
            return fail(client, CLI_LINK_LOST, "no answer within %llu ms",
                        (unsigned long long)timeout_ms);
        }
    }
}

enum cli_link cli_client_call(struct cli_client *client, const struct tn_bytes *words,
                              uint32_t count, uint64_t timeout_ms) {
    enum cli_link link = cli_client_send(client, words, count, timeout_ms);
    while (link == CLI_LINK_OK) {
        link = cli_client_receive(client, timeout_ms, NULL);
        if (link == CLI_LINK_OK && client->reader.nodes[0].type != CLI_PUSH) {
            break;
        }
    }
    return link;
}
