/* Finds the command of a request, checks the number of its words, and calls its handler. */
#include "server/dispatch.h"

#include <sodium.h>
#include <string.h>

#include "server/access.h"
#include "server/buffers.h"
#include "server/connection.h"
#include "server/count.h"
#include "server/handler.h"
#include "server/jobs.h"
#include "server/memory.h"
#include "server/output.h"
#include "server/owners.h"
#include "server/reads.h"
#include "server/request.h"
#include "server/schedule.h"
#include "server/users.h"
#include "server/write.h"

/* The text of Redis, which clients parse to find out what a server supports. */
static void reply_unknown(struct server_connection *connection, const struct tn_bytes *argv,
                          uint32_t argc) {
    char text[400];
    struct tn_writer w = tn_writer_of(text, sizeof text - 1);
    uint32_t name = argv[0].len < 128 ? argv[0].len : 128;
    tn_write_raw(&w, "ERR unknown command '", 21);
    tn_write_raw(&w, argv[0].at, name);
    tn_write_raw(&w, "', with args beginning with: ", 29);
    size_t limit = w.len + 128;
    for (uint32_t i = 1; i < argc && w.len < limit; i++) {
        uint32_t len = argv[i].len < limit - w.len ? argv[i].len : (uint32_t)(limit - w.len);
        tn_write8(&w, '\'');
        tn_write_raw(&w, argv[i].at, len);
        tn_write_raw(&w, "' ", 2);
    }
    text[w.len] = '\0';
    /* Replaces NUL here; the writer replaces the other bytes that a line cannot have. */
    for (size_t i = 0; i < w.len; i++) {
        text[i] = text[i] == '\0' ? '?' : text[i];
    }
    server_reply_error(connection, "%s", text);
}

/* ---- Transactions: there are none ---- */

enum transaction { NO_TRANSACTION, MULTI, EXEC, OTHER_TRANSACTION };

static enum transaction transaction_of(struct tn_bytes word) {
    static const struct {
        const char *word;
        enum transaction is;
    } words[] = {{"MULTI", MULTI},
                 {"EXEC", EXEC},
                 {"DISCARD", OTHER_TRANSACTION},
                 {"WATCH", OTHER_TRANSACTION},
                 {"UNWATCH", OTHER_TRANSACTION}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (protocol_word_is(word, words[i].word, strlen(words[i].word))) {
            return words[i].is;
        }
    }
    return NO_TRANSACTION;
}

/* A client that sends MULTI, commands and EXEC together does not want the commands without the
 * transaction: they are refused as well. */
static bool is_in_transaction(const struct server_connection *connection,
                              const struct protocol_command *row, const struct tn_bytes *argv) {
    if (row == NULL && transaction_of(argv[0]) != NO_TRANSACTION) {
        return true;
    }
    return connection->in_multi &&
           (row == NULL || !protocol_command_has(row, PROTOCOL_AFTER_MULTI));
}

static enum server_step dispatch_transaction(struct server_connection *connection,
                                             const struct tn_bytes *argv) {
    static const char text[] =
        "Tenure has no transactions: MULTI, EXEC, DISCARD, WATCH and UNWATCH "
        "are not supported. Send the commands without them; in redis-py "
        "use pipeline(transaction=False)";
    enum transaction word = transaction_of(argv[0]);
    if (connection->client.inflight > 0) {
        return SERVER_WAIT;
    }
    if (word == NO_TRANSACTION) {
        server_reply_error(
            connection,
            "ERR not executed after MULTI, which is not supported; send DISCARD to continue");
    } else {
        bool aborts = word == EXEC && connection->in_multi;
        server_reply_error(connection, "%s %s", aborts ? "EXECABORT" : "ERR", text);
        connection->in_multi = word == MULTI;
    }
    connection->client.owners->counters->rejected[SERVER_REJECT_UNKNOWN_COMMAND]++;
    return SERVER_DONE;
}

/* ---- What is wrong ---- */

static void reply_unknown_second(struct server_connection *connection, const struct tn_bytes *argv,
                                 uint32_t argc) {
    if (argc == 1) {
        server_reply_error(connection, "ERR wrong number of arguments for '%.*s' command",
                           (int)argv[0].len, (const char *)argv[0].at);
        return;
    }
    server_reply_error(connection, "ERR unknown subcommand '%.*s'. Try COMMAND DOCS %.*s.",
                       (int)(argv[1].len < 128 ? argv[1].len : 128), (const char *)argv[1].at,
                       (int)argv[0].len, (const char *)argv[0].at);
}

/* Refuses a faulty request. The refusal is an immediate answer, so it waits for the writes before
 * it. */
static enum server_step dispatch_bad(struct server_connection *connection,
                                     const struct protocol_command *row, bool container,
                                     const struct tn_bytes *argv, uint32_t argc) {
    if (connection->client.inflight > 0) {
        return SERVER_WAIT;
    }
    bool unknown = row == NULL && argc <= SERVER_ARGS_MAX && !(container && argc == 1);
    connection->client.owners->counters
        ->rejected[unknown ? SERVER_REJECT_UNKNOWN_COMMAND : SERVER_REJECT_ARGUMENTS]++;
    if (argc > SERVER_ARGS_MAX) {
        server_reply_error(connection, "ERR more than %u arguments", SERVER_ARGS_MAX);
    } else if (row != NULL) {
        char name[PROTOCOL_NAME_MAX];
        protocol_command_full_name(row, name);
        server_reply_error(connection, "ERR wrong number of arguments for '%s' command", name);
    } else if (container) {
        reply_unknown_second(connection, argv, argc);
    } else {
        reply_unknown(connection, argv, argc);
    }
    return SERVER_DONE;
}

/* In RESP2 a message looks like a reply, so a client that receives messages may send only the
 * commands of a subscriber. */
static bool only_listens(const struct server_connection *connection,
                         const struct protocol_command *row) {
    return connection->subscriber != NULL && connection->client.encoding == PROTOCOL_RESP2 &&
           !protocol_command_has(row, PROTOCOL_SUBSCRIBER);
}

static enum server_step dispatch_not_now(struct server_connection *connection,
                                         const struct protocol_command *row) {
    char name[PROTOCOL_NAME_MAX];
    if (connection->client.inflight > 0) {
        return SERVER_WAIT;
    }
    protocol_command_full_name(row, name);
    server_reply_error(connection,
                       "ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / "
                       "QUIT / RESET are allowed in this context",
                       name);
    return SERVER_DONE;
}

/* The texts of Redis. */
static enum server_step dispatch_forbidden(struct server_connection *connection,
                                           const struct protocol_command *row,
                                           enum tn_result code) {
    char name[PROTOCOL_NAME_MAX];
    if (connection->client.inflight > 0) {
        return SERVER_WAIT;
    }
    protocol_command_full_name(row, name);
    if (code == TN_R_NOAUTH) {
        server_reply_error(connection, "NOAUTH Authentication required.");
    } else {
        server_reply_error(connection,
                           "NOPERM this user has no permissions to run the '%s' command", name);
    }
    /* server_reply_error has counted it as an error already. */
    connection->client.owners->counters->refusals[row->id][code]++;
    return SERVER_DONE;
}

/* A line of text can only read. A command that changes something must be an array, so that text in
 * another protocol's request which looks like a command has no effect. */
static bool may_be_line(const struct protocol_command *row) {
    return (row->kind == PROTOCOL_READ || row->kind == PROTOCOL_CONNECTION) &&
           row->role <= PROTOCOL_READER;
}

static enum server_step dispatch_not_as_line(struct server_connection *connection,
                                             const struct protocol_command *row) {
    char name[PROTOCOL_NAME_MAX];
    if (connection->client.inflight > 0) {
        return SERVER_WAIT;
    }
    protocol_command_full_name(row, name);
    connection->client.owners->counters->rejected[SERVER_REJECT_LINE]++;
    server_reply_error(
        connection,
        "ERR '%s' is not allowed as an inline command, only reads are; send it as an array, as "
        "redis-cli and tenure do",
        name);
    return SERVER_DONE;
}

static enum server_step dispatch_read(struct server_connection *connection,
                                      struct server_request *request) {
    struct server_answer answer;
    struct protocol_writer w = server_reply_begin(connection);
    request->w = &w;
    enum server_step step = server_read(request, &answer);
    request->w = NULL;
    if (step == SERVER_DONE && server_connection_answers(connection, request->row, answer.code)) {
        server_reply_end(connection, &w);
    }
    return step;
}

/* A long reply is made only after the client has read the replies before it; for a client that does
 * not read, it would be wasted work. The request is tried again when the socket has taken the
 * unsent bytes. If they are few, the new reply is sent together with them. */
static bool must_wait(struct server_connection *connection, const struct protocol_command *row) {
    if (connection->output->len > SERVER_UNSENT_BYTES) {
        server_output_flush(connection);
    }
    return server_output_waiting(connection) > 0 || connection->lost ||
           schedule_must_yield(&connection->client, protocol_command_has(row, PROTOCOL_SLICED));
}

static enum server_step dispatch_session(struct server_connection *connection,
                                         const struct protocol_command *row,
                                         const struct tn_bytes *argv, uint32_t argc) {
    struct server_counters *counters = connection->client.owners->counters;
    enum server_step step = server_handlers[row->id].session(connection, argv, argc);
    if (step == SERVER_DONE) {
        counters->calls[row->id]++;
        server_count_served(counters, row->id, connection->client.begun_ns);
    }
    return step;
}

static enum server_step dispatch_write(struct server_connection *connection,
                                       struct server_request *request) {
    enum server_step step =
        request->row->kind == PROTOCOL_WRITE ? server_write(request) : server_job_begin(request);
    server_replies_collect(connection);
    return step;
}

/* Serves a valid command according to its row's kind, in its turn and after the writes before
 * it. */
static enum server_step dispatch_good(struct server_connection *connection,
                                      const struct access_user *user,
                                      const struct protocol_command *row,
                                      const struct tn_bytes *argv, uint32_t argc) {
    struct server_request request;
    if (row->kind != PROTOCOL_CONNECTION) {
        server_connection_asks(connection, row);
    }
    if (row->kind == PROTOCOL_WRITE) {
        server_request_begin(&request, &connection->client, user, row, argv, argc);
        return dispatch_write(connection, &request);
    }
    bool is_long = protocol_command_has(row, PROTOCOL_LONG);
    size_t before = connection->output->len;
    enum server_step step;
    if (connection->client.inflight > 0 || (is_long && must_wait(connection, row))) {
        return SERVER_WAIT;
    }
    if (row->kind == PROTOCOL_CONNECTION) {
        step = dispatch_session(connection, row, argv, argc);
    } else {
        server_request_begin(&request, &connection->client, user, row, argv, argc);
        step = row->kind == PROTOCOL_READ ? dispatch_read(connection, &request)
                                          : dispatch_write(connection, &request);
    }
    if (step == SERVER_DONE && is_long) {
        schedule_slice_made(connection->client.schedule, connection->output->len - before);
    }
    return step;
}

/* Wipes the secrets of commands in the buffer into which they were read, even if the command was
 * refused before it was parsed, or its second word is wrong. */
static void secrets_wipe(const struct protocol_command *row, const struct tn_bytes *argv,
                         uint32_t argc) {
    bool has_secret = row != NULL ? protocol_command_has(row, PROTOCOL_SECRETS)
                                  : argc > 0 && protocol_family_has(argv[0], PROTOCOL_SECRETS);
    for (uint32_t i = 1; has_secret && i < argc; i++) {
        if (argv[i].len > 0) {
            sodium_memzero((void *)(uintptr_t)argv[i].at, argv[i].len);
        }
    }
}

enum server_step server_dispatch(struct server_connection *connection, const struct tn_bytes *argv,
                                 uint32_t argc, bool is_line) {
    bool container;
    uint32_t stored = argc < SERVER_ARGS_MAX ? argc : SERVER_ARGS_MAX;
    const struct protocol_command *row = protocol_command_find(argv, stored, &container);
    struct server_owners *owners = connection->client.owners;
    enum server_step step;
    enum tn_result access = TN_R_OK;
    int32_t arity = row != NULL ? owners->buffers->arity[row->id] : 0;
    bool bad = row == NULL || argc > SERVER_ARGS_MAX ||
               (arity > 0 ? argc != (uint32_t)arity : argc < (uint32_t)-arity);
    bool not_as_line = is_line && row != NULL && !may_be_line(row);
    server_users_look(owners);
    const struct access_user *user = access_user_of(owners->access, &connection->client.login);
    if (row != NULL) {
        access = access_role(user, (enum protocol_role)row->role);
    }
    if (is_in_transaction(connection, row, argv)) {
        step = dispatch_transaction(connection, argv);
    } else if (access != TN_R_OK) {
        step = dispatch_forbidden(connection, row, access);
    } else if (not_as_line) {
        step = dispatch_not_as_line(connection, row);
    } else if (bad) {
        step = dispatch_bad(connection, row, container, argv, argc);
    } else if (only_listens(connection, row)) {
        step = dispatch_not_now(connection, row);
    } else {
        step = dispatch_good(connection, user, row, argv, argc);
    }
    if (step == SERVER_DONE) {
        connection->leaving |= is_line && (bad || not_as_line);
        connection->last_command = row;
        connection->served |= access == TN_R_OK && row != NULL && row->role > PROTOCOL_NOBODY;
        /* A multi-step request that is refused in the middle has ended. */
        server_page_end(owners->pages, &connection->client);
        server_scan_end(&connection->client);
        secrets_wipe(row, argv, stored);
    }
    return step;
}
