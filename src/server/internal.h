/* Internal: what the files of the server share.
 *
 * One thread, the loop's, owns everything here. The engine's threads touch a slot between its
 * submission and its completion, and the stack of completed slots; nothing else.
 *
 * Memory. An idle connection has its struct and nothing else. Requests are parsed where they were
 * read, in the loop's one buffer, and replies written into the loop's one output buffer; only what
 * cannot be parsed or sent yet is copied into memory of the connection's own. Both are bounded: a
 * request by PROTOCOL_REQUEST_MAX, replies by not reading on while SERVER_OUT_SOFT bytes wait. */
#ifndef TN_SERVER_INTERNAL_H
#define TN_SERVER_INTERNAL_H

#include <stdatomic.h>
#include <sys/queue.h>
#include <uv.h>

#include "engine/read.h"
#include "protocol/parse.h"
#include "protocol/render.h"
#include "protocol/resp.h"
#include "server/access.h"
#include "server/answer.h"
#include "server/client.h"
#include "server/count.h"
#include "server/handler.h"
#include "server/jobs.h"
#include "server/metrics.h"
#include "server/request.h"
#include "server/schedule.h"
#include "server/server.h"
#include "server/slots.h"
#include "server/stream.h"
#include "server/tick.h"
#include "server/transport.h"
#include "server/unix.h"
#include "server/write.h"

#define SERVER_READ_BYTES (64u * 1024u)
#define SERVER_ARGS_MAX 16384u          /* of one request; a bundle has 4096 values at most */
#define SERVER_REPLY_MAX (4u << 20)     /* bytes of one reply */
#define SERVER_OUT_FLUSH (128u * 1024u) /* replies are sent when so much is together */
#define SERVER_OUT_SOFT (256u * 1024u)  /* waiting to be sent: no more requests are taken */
#define SERVER_OUT_BYTES (SERVER_OUT_FLUSH + 2 * SERVER_REPLY_MAX)
#define SERVER_NAME_MAX 64u
#define SERVER_DRAIN_MS 5000u
#define SERVER_FENCE_MS 1000u
#define SERVER_LOGINS_MAX 4096u         /* log-ins that wait to be compared */
#define SERVER_LOGINS_ADDRESS_MAX 1024u /* and of one address */
#define SERVER_LOGIN_ADDRESSES 512u     /* that are remembered: see login_address.c */
#define SERVER_LOGIN_NAMES 256u
#define SERVER_LOGIN_FAILURES 8u /* on one connection; then it is closed */
#define SERVER_LOGIN_LINES 8u    /* of the log, a second */
#define SERVER_LOGIN_KNOWN 1024u
#define SERVER_LOGIN_MARK 32u
#define SERVER_LOOKS_MAX 64u            /* at connections, in one turn: who is idle or slow? */
#define SERVER_DROPS_MAX 4u             /* and so many are hung up on */
#define SERVER_ACCEPTS_MAX 4u           /* come in, over each of RESP and HTTP */
#define SERVER_DROP_LINES 16u           /* of the log, a second */
#define SERVER_ROOM_STEP 16u            /* of a list: then it is seen whether there is room */
#define SERVER_UNSENT_BYTES (32 * 1024) /* that the kernel keeps for a client, about */

struct http;
struct server;
struct server_udp;
struct server_slot;
struct server_login;
struct server_page;

struct server_connection {
    struct server_client client;
    struct transport transport;
    struct server *server;
    LIST_ENTRY(server_connection) place; /* among those that are live, or free */
    uint64_t id;
    uint64_t created_ms, active_ms, progress_ms;
    size_t unsent; /* at the last look at progress */

    struct protocol_parser parser;
    uint8_t *in; /* read, and not parsed or not served yet */
    uint32_t in_len, in_capacity;
    uint32_t read_turn;     /* the turn of the loop in which it was last read */
    uint64_t unfinished_ms; /* since when a request is begun and not whole; 0: none is */

    uint8_t *sending; /* libuv's until written */
    uint32_t sending_len, sending_capacity;
    uint8_t *out; /* to be sent after that */
    uint32_t out_len, out_capacity;
    size_t memory; /* of the three buffers above: see memory.c */

    bool reading;
    bool served;   /* something was done for it that not everybody may ask for */
    bool in_multi; /* MULTI was refused, and so is what follows it, up to EXEC or DISCARD */
    bool leaving;  /* takes no more requests; closes when its replies are sent */
    bool ended;    /* the client sends no more */
    bool lost;     /* it cannot be sent to; closes when whatever is being served is done */
    bool closing;
    /* Whom a client of the Unix-domain socket is by its process; NULL: it came over TCP. */
    const struct access_user *peer;
    struct server_subscriber *subscriber; /* NULL: it has not subscribed to anything */
    const struct protocol_command *last_command;
    char name[SERVER_NAME_MAX + 1];
    char library[SERVER_NAME_MAX + 1];
    char library_version[SERVER_NAME_MAX + 1];
};

_Static_assert(sizeof(struct server_connection) <= 2048, "an idle connection is cheap");

/* A socket that accepts RESP connections. */
struct server_listener {
    union transport_handle handle;
    struct server *server;
    enum transport_kind kind;
    bool is_open;
    bool waiting; /* a client waits to be accepted in the next turn */
};

/* Logins under way, in order, and those that were found to be right: see login.c. */
struct server_login_known {
    uint8_t mark[SERVER_LOGIN_MARK];
    struct access_login login;
};

/* An address that clients log in from: see login_address.c. */
struct server_login_address {
    uint8_t key[16];
    uint32_t waiting;  /* its log-ins in the queue */
    uint32_t failures; /* lately: halved every second */
    uint64_t used_ms;
};

struct server_logins {
    TAILQ_HEAD(server_login_list, server_login) waiting; /* in order of arrival */
    struct server_login *compared;           /* on another thread, not in the list; NULL: none */
    uint32_t count;                          /* with that one */
    uint64_t turn;                           /* comparisons begun */
    uint64_t name_turns[SERVER_LOGIN_NAMES]; /* the last one for a user, by a hash of its name */
    struct server_login_address addresses[SERVER_LOGIN_ADDRESSES + 1];
    uint32_t told, untold; /* failures in this second: lines of the log */
    uv_work_t work;
    uint8_t key[32];
    struct server_login_known known[SERVER_LOGIN_KNOWN];
};

struct server {
    struct server_options options;
    struct engine *engine;
    uv_loop_t loop;
    struct server_listener listeners[2]; /* by enum transport_kind */
    struct unix_socket unix_socket;      /* of the second one, if it is open */
    uv_prepare_t before_wait;
    uv_signal_t sigterm, sigint, sighup;
    uv_timer_t every_second;
    uv_timer_t drain;
    struct http *http;      /* NULL: off */
    struct server_udp *udp; /* the same */
    uint16_t port, http_port, udp_port;
    uv_timer_t alive;
    uv_work_t reload; /* one at a time */
    bool reloading, reload_again;
    int exit_code;
    bool draining;
    struct supervisor *supervisor; /* NULL: sensors are off */
    bool supervisor_closed;
    char url[96]; /* ours, for sensors */
    uint64_t next_id;
    uint32_t connection_count;
    struct server_counters counters;
    struct server_refusals refusals;
    struct server_metrics *metrics;
    struct access access;
    struct server_logins logins;

    struct server_connection
        *connections; /* the pool: those from `connections_touched` on are new */
    uint32_t connections_touched;
    LIST_HEAD(server_connections, server_connection) live, free_connections;
    struct server_connection *looking; /* where the look of this second goes on; NULL: it is over */
    bool look_due;                     /* and it has not begun */
    size_t memory;                     /* kept for clients in all: see memory.c */
    uint32_t drops_told, drops_untold; /* in this second: lines of the log */
    struct schedule schedule;
    struct ticks ticks;
    uint32_t accepts;                 /* in this turn */
    struct server_page *making;       /* a page of events, some of which are there; or NULL */
    struct server_client *making_for; /* who asked for it */

    struct server_slots slots;
    struct server_writes writes;
    struct server_answers answers;
    struct server_jobs jobs;
    struct server_streams streams;

    /* The loop's own buffers, for one connection at a time. */
    uint8_t *read_buffer;
    uint8_t *line;
    struct tn_bytes *argv;
    int32_t arity[PROTOCOL_COMMANDS]; /* of each command, worked out once */
    uint8_t *scratch;                 /* lists of values */
    struct tn_bytes docs[2];          /* COMMAND DOCS in RESP2 and 3, made once; or NULL */
    void *page;                       /* views of a list */
    uint8_t *out;
    size_t out_len;
};

/* connection.c */
/* A client waits to be accepted. */
void server_connection_arrives(struct server_listener *listener);
/* Serves what has been read, then sends what has been answered. */
void server_connection_run(struct server_connection *connection);
void server_connection_close(struct server_connection *connection);
/* Every second; and in each turn, until all have been looked at. */
void server_connections_check(struct server *server);
void server_connections_look(struct server *server);
/* Whether the log has a line for one more client that is hung up on: a crowd is counted instead. */
bool server_drop_is_told(struct server *server);
bool server_connection_quiet(const struct server_connection *connection);

/* memory.c */
/* For `bytes` more of what a client is kept, beside the `held` ones. False: it has its share, and
 * there is no more. */
bool server_memory_share(struct server *server, size_t *held, size_t bytes);
void server_memory_return(struct server *server, size_t *held, size_t bytes);
/* Whether a reply of so many bytes could be kept, if it is not read at once. Asked while what is long
 * is made: to make it whole and then have no place for it would be in vain. */
bool server_memory_reply(struct server *server, size_t bytes);
/* What is said then. */
extern const char server_no_room[];
/* The same for a connection's buffers; who is refused is counted as dropped. */
bool server_memory_take(struct server_connection *connection, size_t bytes);
void server_memory_give(struct server_connection *connection, size_t bytes);

/* output.c */
struct protocol_writer server_reply_begin(struct server_connection *connection);
void server_reply_end(struct server_connection *connection, const struct protocol_writer *w);
void server_reply_bytes(struct server_connection *connection, const void *bytes, size_t len);
/* Adds the replies to writes that are there, as far as those before them are. */
void server_replies_collect(struct server_connection *connection);
__attribute__((format(printf, 2, 3))) void server_reply_error(struct server_connection *connection,
                                                              const char *format, ...);
/* Never closes the connection: it may be in the middle of being served. */
void server_output_flush(struct server_connection *connection);
/* Messages, which nobody asked for at that moment: between replies, gathered in the connection's own
 * memory, and sent by a flush. `room` is what the message needs at the most; false: no memory. */
struct protocol_writer server_message_begin(struct server_connection *connection, size_t room);
bool server_message_end(struct server_connection *connection, const struct protocol_writer *w);
void server_messages_flush(struct server_connection *connection);
size_t server_output_waiting(const struct server_connection *connection);
/* Whether the kernel has some of its replies that it could not send yet: who closes then loses them, if
 * the client goes on asking. */
bool server_output_unsent(const struct server_connection *connection);
/* The buffer that was with the transport has been sent, or cannot be. */
void server_output_written(struct server_connection *connection, int status);
void server_output_free(struct server_connection *connection);

/* dispatch.c */
/* `is_line`: typed as a line of text. Then only reads are served, and any other line ends the
 * connection. */
enum server_step server_dispatch(struct server_connection *connection, const struct tn_bytes *argv,
                                 uint32_t argc, bool is_line);

/* read.c */
/* DONE: the reply has been written to request->w, and what it is stands in *ret_answer. */
enum server_step server_read(struct server_request *request, struct server_answer *ret_answer);

/* sensor.c */
/* Whether the user may say which programs run: NOPERM, and what to do instead. */
enum tn_result server_program_judge(struct server_request *request);

/* read_events.c */
/* The client does not want its page of events any more. */
void server_page_end(struct server_client *client);

/* login.c */
enum server_login_step {
    SERVER_LOGIN_GOOD, /* client->login says who it is */
    SERVER_LOGIN_BAD,
    SERVER_LOGIN_WAIT, /* it will be run; then the same is to be asked again */
    SERVER_LOGIN_BUSY, /* too many wait */
};
bool server_login_init(struct server *server);
/* From the options. Whoever had logged in as somebody who is gone, or has another secret now, goes. */
void server_users_take(struct server *server);
enum server_login_step server_login(struct server_client *client, struct tn_bytes name,
                                    struct tn_bytes secret);
void server_login_leave(struct server_client *client);
/* Every second. */
void server_logins_second(struct server *server);

/* login_address.c */
#define SERVER_LOGIN_ADDRESS_TEXT 64u
/* Where the client at the other end of the socket comes from; in the text without its port. */
struct server_login_address *server_login_address(struct server *server, int socket);
void server_login_address_text(int socket, char out[SERVER_LOGIN_ADDRESS_TEXT]);
void server_login_addresses_second(struct server *server);

/* session.c */
/* Whether the command has no more words than can be answered in one step; false: it has been refused. */
bool session_words_fit(struct server_connection *connection, uint32_t argc);

/* http.c */
/* 0, or libuv's reason. */
int server_http_start(struct server *server, const char *host, uint16_t port, uint16_t *ret_port);
uint32_t server_http_connections(const struct server *server);
/* Those of events, under way. */
uint32_t server_http_streams(const struct server *server);
/* Every second. */
void server_http_check(struct server *server);
/* Sends the answers that have been made since. */
void server_http_wake(struct server *server);
/* Takes no more; stops when what was asked is answered. */
void server_http_drain(struct server *server);
void server_http_stop(struct server *server);
bool server_http_stopped(const struct server *server);
void server_http_free(struct server *server);

/* udp.c */
/* The same as for HTTP, but for the reason, which is told in words; false: it does not listen. */
bool server_udp_start(struct server *server, const char *host, uint16_t port, uint16_t *ret_port,
                      char *reason, size_t room);
/* Takes no more; what was asked is still answered. */
void server_udp_drain(struct server *server);
void server_udp_free(struct server *server);

/* daemon.c */
void server_daemon_start(struct server *server);

/* listen.c */
/* For a socket that listens: how much of what those who connect do not read the kernel keeps. */
void server_unsent_bound(int socket);
/* 0, or a code of libuv's. */
int server_listen_tcp(struct server *server, const char *host, uint16_t port);
/* At options.unix_path. False: the reason has been logged. */
bool server_listen_unix(struct server *server);
/* Accepts no more, and removes the Unix-domain socket. */
void server_listen_stop(struct server *server);
/* Once a turn: clients that were left waiting in the turn before. */
void server_listen_resume(struct server *server);

/* server.c */
/* "HOST:PORT" or "[HOST]:PORT", and "localhost" for 127.0.0.1. False: it is none of them. */
bool server_address_split(const char *text, char host[64], uint16_t *ret_port);
/* 0, or a code of libuv's: the host is an address, not a name. */
int server_address_make(const char *host, uint16_t port, struct sockaddr_storage *ret_address);
uint16_t server_address_port(const struct sockaddr_storage *address);
/* Where the Unix-domain socket is, or "off". */
const char *server_unix_path(const struct server *server);
/* Connections of both protocols. */
uint32_t server_clients(const struct server *server);
void server_stop(struct server *server, int exit_code);
void server_stop_check(struct server *server);

#endif
