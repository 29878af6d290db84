/* Commands about the connection and the server itself: what clients of Redis send when they
 * connect, with the replies that they expect. */
#include <sodium.h>
#include <string.h>

#include "protocol/docs.h"
#include "protocol/render.h"
#include "protocol/table.h"
#include "server/buffers.h"
#include "server/connection.h"
#include "server/login.h"
#include "server/output.h"
#include "server/owners.h"
#include "server/server.h"
#include "server/server_role.h"
#include "server/session.h"
#include "server/stream.h"

static void reply_simple(struct server_connection *connection, const char *text) {
    struct protocol_writer w = server_reply_begin(connection);
    protocol_write_simple(&w, text);
    server_reply_end(connection, &w);
}

static void reply_bulk(struct server_connection *connection, const void *bytes, size_t len) {
    struct protocol_writer w = server_reply_begin(connection);
    protocol_write_bulk(&w, bytes, len);
    server_reply_end(connection, &w);
}

static void reply_number(struct server_connection *connection, uint64_t number) {
    struct protocol_writer w = server_reply_begin(connection);
    protocol_write_u64(&w, number);
    server_reply_end(connection, &w);
}

/* ---- Names ---- */

/* Sets a name of printable characters without blanks, as CLIENT LIST needs it. It may be empty. */
static bool name_set(char out[SERVER_NAME_MAX + 1], struct tn_bytes name) {
    if (name.len > SERVER_NAME_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < name.len; i++) {
        if (name.at[i] <= ' ' || name.at[i] > '~') {
            return false;
        }
    }
    if (name.len > 0) {
        memcpy(out, name.at, name.len);
    }
    out[name.len] = '\0';
    return true;
}

static bool name_take(struct server_connection *connection, struct tn_bytes name,
                      char out[SERVER_NAME_MAX + 1]) {
    if (!name_set(out, name)) {
        server_reply_error(connection,
                           "ERR Client names cannot contain spaces, newlines or special "
                           "characters, nor be longer than 64 bytes.");
        return false;
    }
    return true;
}

enum server_step session_client_setname(struct server_connection *connection,
                                        const struct tn_bytes *argv, uint32_t argc) {
    (void)argc;
    if (name_take(connection, argv[2], connection->name)) {
        reply_simple(connection, "OK");
    }
    return SERVER_DONE;
}

enum server_step session_client_getname(struct server_connection *connection,
                                        const struct tn_bytes *argv, uint32_t argc) {
    (void)argv;
    (void)argc;
    reply_bulk(connection, connection->name, strlen(connection->name));
    return SERVER_DONE;
}

enum server_step session_client_id(struct server_connection *connection,
                                   const struct tn_bytes *argv, uint32_t argc) {
    (void)argv;
    (void)argc;
    reply_number(connection, connection->id);
    return SERVER_DONE;
}

enum server_step session_client_setinfo(struct server_connection *connection,
                                        const struct tn_bytes *argv, uint32_t argc) {
    (void)argc;
    bool lib_name = protocol_word_is(argv[2], "LIB-NAME", 8);
    if (!lib_name && !protocol_word_is(argv[2], "LIB-VER", 7)) {
        server_reply_error(connection, "ERR Unrecognized option '%.*s'",
                           (int)(argv[2].len < 64 ? argv[2].len : 64), (const char *)argv[2].at);
    } else if (!name_set(lib_name ? connection->library : connection->library_version, argv[3])) {
        server_reply_error(connection,
                           "ERR %s cannot contain spaces, newlines or special "
                           "characters.",
                           lib_name ? "LIB-NAME" : "LIB-VER");
    } else {
        reply_simple(connection, "OK");
    }
    return SERVER_DONE;
}

/* ---- User and protocol ---- */

enum auth { AUTH_GOOD, AUTH_BAD, AUTH_WAIT };

/* Without users there are no secrets: the user "default" is accepted with any. */
static enum auth auth_open(struct server_connection *connection, const struct tn_bytes *user) {
    if (user == NULL) {
        server_reply_error(connection, "ERR AUTH <password> called without any password configured "
                                       "for the default user. Are you sure your configuration is "
                                       "correct?");
        return AUTH_BAD;
    }
    if (!tn_bytes_equal(*user, tn_bytes_of("default", 7))) {
        server_reply_error(connection,
                           "WRONGPASS invalid username-password pair or user is disabled.");
        return AUTH_BAD;
    }
    return AUTH_GOOD;
}

/* A password without a name is the user default's, as in Redis. It is wiped where it was read. All
 * users may be removed while a log-in waits for its turn: then the answer is that of a server without
 * users, and the result of the comparison is dropped. */
static enum auth log_in(struct server_connection *connection, const struct tn_bytes *user,
                        struct tn_bytes secret) {
    if (!connection->client.owners->access->on) {
        server_login_leave(connection->client.owners->logins, &connection->client);
        sodium_memzero((void *)(uintptr_t)secret.at, secret.len);
        return auth_open(connection, user);
    }
    struct tn_bytes name = user != NULL ? *user : tn_bytes_of("default", 7);
    enum server_login_step step =
        server_login(connection->client.owners->logins, &connection->client, name, secret);
    if (step == SERVER_LOGIN_WAIT) {
        return AUTH_WAIT;
    }
    sodium_memzero((void *)(uintptr_t)secret.at, secret.len);
    if (step == SERVER_LOGIN_BAD) {
        server_reply_error(connection,
                           "WRONGPASS invalid username-password pair or user is disabled.");
        connection->leaving |= connection->client.failures >= SERVER_LOGIN_FAILURES;
    } else if (step == SERVER_LOGIN_BUSY) {
        server_reply_error(connection, "OVERLOADED too many log-ins at once; try again");
    }
    return step == SERVER_LOGIN_GOOD ? AUTH_GOOD : AUTH_BAD;
}

static void hello_reply(struct server_connection *connection) {
    struct protocol_writer w = server_reply_begin(connection);
    protocol_write_map(&w, 7);
    protocol_pair_text(&w, "server", "tenure");
    protocol_pair_text(&w, "version", connection->client.owners->options->version);
    protocol_pair_number(&w, "proto", connection->client.encoding == PROTOCOL_RESP3 ? 3 : 2);
    protocol_pair_number(&w, "id", connection->id);
    protocol_pair_text(&w, "mode", "standalone");
    protocol_pair_text(&w, "role", connection->client.owners->role->follows ? "replica" : "master");
    protocol_write_text(&w, "modules");
    protocol_write_array(&w, 0);
    server_reply_end(connection, &w);
}

struct hello {
    uint64_t version;
    const struct tn_bytes *user; /* followed by the secret; NULL: without AUTH */
    char name[SERVER_NAME_MAX + 1];
};

/* False: the request has been answered. */
static bool hello_parse(struct server_connection *connection, const struct tn_bytes *argv,
                        uint32_t argc, struct hello *hello) {
    if (argc > 1 && (!kernel_value_parse(KERNEL_DEC, argv[1], &hello->version) ||
                     hello->version < 2 || hello->version > 3)) {
        server_reply_error(connection, "NOPROTO unsupported protocol version");
        return false;
    }
    for (uint32_t i = 2; i < argc;) {
        if (i + 2 < argc && protocol_word_is(argv[i], "AUTH", 4)) {
            hello->user = &argv[i + 1];
            i += 3;
        } else if (i + 1 < argc && protocol_word_is(argv[i], "SETNAME", 7)) {
            if (!name_take(connection, argv[i + 1], hello->name)) {
                return false;
            }
            i += 2;
        } else {
            server_reply_error(connection, "ERR Syntax error in HELLO option '%.*s'",
                               (int)(argv[i].len < 64 ? argv[i].len : 64),
                               (const char *)argv[i].at);
            return false;
        }
    }
    return true;
}

static bool is_nobody(const struct server_connection *connection) {
    return access_user_of(connection->client.owners->access, &connection->client.login)->role ==
           PROTOCOL_NOBODY;
}

/* HELLO [version [AUTH user password] [SETNAME name]]: all of it takes effect, or nothing. */
enum server_step session_hello(struct server_connection *connection, const struct tn_bytes *argv,
                               uint32_t argc) {
    struct hello hello = {.version = connection->client.encoding == PROTOCOL_RESP3 ? 3 : 2};
    enum auth auth = AUTH_GOOD;
    memcpy(hello.name, connection->name, sizeof hello.name);
    if (!hello_parse(connection, argv, argc, &hello)) {
        return SERVER_DONE;
    }
    if (hello.user != NULL) {
        auth = log_in(connection, hello.user, hello.user[1]);
    } else if (is_nobody(connection)) {
        server_reply_error(connection,
                           "NOAUTH HELLO must be called with the client already authenticated, "
                           "otherwise the HELLO <proto> AUTH <user> <pass> option can be used to "
                           "authenticate the client and select the RESP protocol version at the "
                           "same time");
        auth = AUTH_BAD;
    }
    if (auth == AUTH_GOOD) {
        connection->client.encoding = hello.version == 3 ? PROTOCOL_RESP3 : PROTOCOL_RESP2;
        memcpy(connection->name, hello.name, sizeof hello.name);
        hello_reply(connection);
    }
    return auth == AUTH_WAIT ? SERVER_WAIT : SERVER_DONE;
}

enum server_step session_auth(struct server_connection *connection, const struct tn_bytes *argv,
                              uint32_t argc) {
    enum auth auth = log_in(connection, argc > 2 ? &argv[1] : NULL, argv[argc - 1]);
    if (auth == AUTH_GOOD) {
        reply_simple(connection, "OK");
    }
    return auth == AUTH_WAIT ? SERVER_WAIT : SERVER_DONE;
}

enum server_step session_reset(struct server_connection *connection, const struct tn_bytes *argv,
                               uint32_t argc) {
    (void)argv;
    (void)argc;
    server_unsubscribe_all(connection);
    connection->client.encoding = PROTOCOL_RESP2;
    connection->name[0] = '\0';
    connection->in_multi = false;
    connection->client.stale = false;
    connection->client.login = connection->arrived;
    reply_simple(connection, "RESET");
    return SERVER_DONE;
}

enum server_step session_select(struct server_connection *connection, const struct tn_bytes *argv,
                                uint32_t argc) {
    (void)argc;
    uint64_t number;
    if (!kernel_value_parse(KERNEL_DEC, argv[1], &number)) {
        server_reply_error(connection, "ERR value is not an integer or out of range");
    } else if (number != 0) {
        server_reply_error(connection, "ERR DB index is out of range");
    } else {
        reply_simple(connection, "OK");
    }
    return SERVER_DONE;
}

/* ---- The rest ---- */

enum server_step session_ping(struct server_connection *connection, const struct tn_bytes *argv,
                              uint32_t argc) {
    bool listens = connection->subscriber != NULL && connection->client.encoding == PROTOCOL_RESP2;
    if (argc <= 2 && listens) {
        struct protocol_writer w = server_reply_begin(connection);
        protocol_write_array(&w, 2);
        protocol_write_text(&w, "pong");
        protocol_write_bulk(&w, argc == 2 ? argv[1].at : NULL, argc == 2 ? argv[1].len : 0);
        server_reply_end(connection, &w);
    } else if (argc == 1) {
        server_reply_bytes(connection, "+PONG\r\n", 7);
    } else if (argc == 2) {
        reply_bulk(connection, argv[1].at, argv[1].len);
    } else {
        server_reply_error(connection, "ERR wrong number of arguments for 'ping' command");
    }
    return SERVER_DONE;
}

enum server_step session_echo(struct server_connection *connection, const struct tn_bytes *argv,
                              uint32_t argc) {
    (void)argc;
    reply_bulk(connection, argv[1].at, argv[1].len);
    return SERVER_DONE;
}

enum server_step session_quit(struct server_connection *connection, const struct tn_bytes *argv,
                              uint32_t argc) {
    (void)argv;
    (void)argc;
    reply_simple(connection, "OK");
    connection->leaving = true;
    return SERVER_DONE;
}

enum server_step session_readonly(struct server_connection *connection, const struct tn_bytes *argv,
                                  uint32_t argc) {
    (void)argv;
    (void)argc;
    connection->client.stale = true;
    reply_simple(connection, "OK");
    return SERVER_DONE;
}

enum server_step session_readwrite(struct server_connection *connection,
                                   const struct tn_bytes *argv, uint32_t argc) {
    (void)argv;
    (void)argc;
    connection->client.stale = false;
    reply_simple(connection, "OK");
    return SERVER_DONE;
}

/* The clock by which deadlines pass. It equals the wall clock, unless that was set since the
 * start. */
enum server_step session_time(struct server_connection *connection, const struct tn_bytes *argv,
                              uint32_t argc) {
    uint64_t now_ms = engine_now(connection->client.owners->engine);
    char text[KERNEL_VALUE_TEXT_MAX];
    (void)argv;
    (void)argc;
    struct protocol_writer w = server_reply_begin(connection);
    protocol_write_array(&w, 2);
    protocol_write_bulk(&w, text, kernel_value_format(KERNEL_DEC, now_ms / 1000, text));
    protocol_write_bulk(&w, text, kernel_value_format(KERNEL_DEC, now_ms % 1000 * 1000, text));
    server_reply_end(connection, &w);
    return SERVER_DONE;
}

/* ---- What commands there are ---- */

/* COMMAND DOCS without names. The reply never changes, so it is made once. */
static bool docs_all(struct server_connection *connection) {
    struct server_owners *owners = connection->client.owners;
    enum protocol_encoding encoding = connection->client.encoding;
    struct tn_bytes *docs = &owners->buffers->docs[encoding == PROTOCOL_RESP3];
    if (docs->at == NULL) {
        struct protocol_writer w = server_reply_begin(connection);
        protocol_docs_docs(&w, NULL, 0);
        uint8_t *copy = w.out.overflow ? NULL : malloc(w.out.len);
        if (copy == NULL) {
            return false;
        }
        memcpy(copy, w.out.at, w.out.len);
        *docs = tn_bytes_of(copy, w.out.len);
    }
    server_reply_bytes(connection, docs->at, docs->len);
    return true;
}

/* The reply is made in one step, and each word costs up to a few microseconds. */
#define WORDS_MAX 64u

bool session_words_fit(struct server_connection *connection, uint32_t argc) {
    if (argc > WORDS_MAX + 2) {
        server_reply_error(connection, "ERR at most %u names or patterns at once", WORDS_MAX);
        return false;
    }
    return true;
}

enum server_step session_command_docs(struct server_connection *connection,
                                      const struct tn_bytes *argv, uint32_t argc) {
    if (!session_words_fit(connection, argc) || (argc == 2 && docs_all(connection))) {
        return SERVER_DONE;
    }
    struct protocol_writer w = server_reply_begin(connection);
    protocol_docs_docs(&w, argv + 2, argc - 2);
    server_reply_end(connection, &w);
    return SERVER_DONE;
}

enum server_step session_command_info(struct server_connection *connection,
                                      const struct tn_bytes *argv, uint32_t argc) {
    if (session_words_fit(connection, argc)) {
        struct protocol_writer w = server_reply_begin(connection);
        protocol_docs_info(&w, argv + 2, argc - 2);
        server_reply_end(connection, &w);
    }
    return SERVER_DONE;
}

enum server_step session_command(struct server_connection *connection, const struct tn_bytes *argv,
                                 uint32_t argc) {
    struct protocol_writer w = server_reply_begin(connection);
    (void)argv;
    (void)argc;
    protocol_docs_info(&w, NULL, 0);
    server_reply_end(connection, &w);
    return SERVER_DONE;
}

enum server_step session_command_list(struct server_connection *connection,
                                      const struct tn_bytes *argv, uint32_t argc) {
    struct protocol_writer w = server_reply_begin(connection);
    (void)argv;
    (void)argc;
    protocol_docs_list(&w);
    server_reply_end(connection, &w);
    return SERVER_DONE;
}

enum server_step session_command_count(struct server_connection *connection,
                                       const struct tn_bytes *argv, uint32_t argc) {
    (void)argv;
    (void)argc;
    reply_number(connection, protocol_docs_count());
    return SERVER_DONE;
}
