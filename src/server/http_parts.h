/* Internal: HTTP in the server's loop.
 *
 * libmicrohttpd reads and writes the sockets; its epoll descriptor is one more in the loop, so all of
 * it happens on the loop's thread, when http_run is called and never inside anything else. A request
 * is an exchange:
 *
 *     receiving --whole--> working --answer--> answered --sent--> gone
 *         |                   |                               ^
 *         +--refused early----+-------------------------------+
 *
 * While it is working its connection is suspended: libmicrohttpd does not look at it. An exchange is
 * a client, as a RESP connection is, with at most one write in flight.
 *
 * Memory. A connection has its memory of libmicrohttpd and a small struct. A body has at most HTTP_BODY_MAX
 * bytes. Bodies, and answers that have not been sent except small ones, count as client memory (memory.h). */
#ifndef TN_SERVER_HTTP_PARTS_H
#define TN_SERVER_HTTP_PARTS_H

#include <microhttpd.h>

#include "protocol/framing.h"
#include "protocol/http.h"
#include "server/client.h"
#include "server/metrics.h"
#include "server/stream.h"
#include "server/unix.h"

#define HTTP_CONNECTION_BYTES \
    (16u * 1024u) /* memory of libmicrohttpd for the head of a request and the output buffer */
#define HTTP_CONNECTIONS_MAX 1000000u /* set so high that the server's own limit applies first */
#define HTTP_PATH_MAX 2048u
#define HTTP_ARGUMENTS_MAX PROTOCOL_QUERY_MAX
/* A body can hold the largest command: 4,096 names of 64 bytes. The loop reads it several times. */
#define HTTP_BODY_MAX (384u * 1024u)
#define HTTP_BODY_SMALL 4096u /* bodies up to this size are judged at once */
#define HTTP_SCRATCH_BYTES (2 * PROTOCOL_REQUEST_MAX)
#define HTTP_ANSWER_SMALL 4096u      /* answers up to this size do not count as client memory */
#define HTTP_DISCARD_MAX (16u << 20) /* bytes that are read and discarded in order to answer 413 */
#define HTTP_KEY_MAX KERNEL_OPID_MAX
#define HTTP_KEY_BUCKETS 1024u
#define HTTP_STEPS_MAX 16u  /* steps of all event streams together in one turn of the loop */
#define HTTP_GZIP_MIN 1024u /* answers from this size on are compressed */
#define HTTP_GZIP_WHOLE (32u * 1024u) /* answers up to this size are compressed in one piece */
/* Bytes of such answers that are compressed in one turn of the loop. */
#define HTTP_GZIP_TURN (256u * 1024u)
#define HTTP_GZIP_STREAMS 8u /* longer answers being compressed at the same time */

struct http_exchange;
struct http_stream;
struct http_seed;
struct https_relay;

/* A client's connection. It serves one exchange after another. */
struct http_connection {
    struct http *http;
    LIST_ENTRY(http_connection) place;
    struct http_exchange *exchange;  /* NULL: between two */
    uint64_t since_ms;               /* since when it has been waiting for a complete request */
    uint32_t failures;               /* failed log-ins on this connection */
    int socket;                      /* libmicrohttpd's */
    int client_socket;               /* the client's own socket; -1: closed */
    struct https_relay *relay;       /* NULL: without TLS, or the client has disconnected */
    bool secure;                     /* with TLS */
    struct access_login arrived;     /* the login that the connection itself proves */
    struct protocol_framing framing; /* where requests end in the bytes read so far */
    uint64_t heads;                  /* how many of those requests libmicrohttpd has seen */
    bool refused;                    /* an error was answered; further input is discarded */
    size_t discarded;
};

enum { HTTP_LISTEN_TCP, HTTP_LISTEN_UNIX, HTTP_LISTENERS };

/* A listening socket without TLS. */
struct http_listener {
    struct http *http;
    uv_poll_t poll;
    int socket; /* -1: does not listen */
    uint16_t port;
    bool paused; /* out of file descriptors: tries again every second */
};

/* The compressed form of a file; `at` is NULL if it is not compressed. */
struct http_packed {
    void *at;
    size_t len;
};

/* The bytes of an answer, and how to free them. */
struct http_source {
    const uint8_t *at;
    size_t len;
    void (*release)(void *ctx);
    void *ctx;
};

struct http {
    struct server_owners *owners;
    struct server_counters *counters;
    struct MHD_Daemon *daemon; /* NULL: stopped */
    struct http_listener listeners[HTTP_LISTENERS];
    struct unix_socket unix_socket; /* of HTTP_LISTEN_UNIX */
    uv_poll_t epoll;
    uv_timer_t timer; /* when libmicrohttpd wants to be called even without input */
    uv_idle_t soon;   /* runs while there is work for the next turn of the loop */
    bool resumed;     /* a connection was resumed, so http_run has work */
    bool draining;
    uint32_t connection_count;
    LIST_HEAD(http_connections, http_connection) connections;
    LIST_HEAD(https_relays, https_relay) relays; /* connections with TLS: see https.c */
    struct https_relay *arriving; /* the relay whose socket is being passed to libmicrohttpd */
    TAILQ_HEAD(https_paused, https_relay) paused; /* relays to read again in the next turn */
    struct https_relay *relay_looking;            /* as `looking` */
    struct https_relay *relay_judging;            /* the next relay to judge after a reload */
    uint32_t relay_count;
    uint32_t alone_count; /* relays without a connection of libmicrohttpd */
    /* The next connection for this second's check; NULL: the check is complete. */
    struct http_connection *looking;
    struct http_connection **sockets; /* by descriptor; NULL: not a connection of ours */
    uint32_t socket_capacity;
    uint32_t stream_count;
    TAILQ_HEAD(http_streams, http_stream) queue; /* streams that wait for a step */
    uint32_t steps;                              /* steps taken in this turn */

    uint32_t seed_count; /* snapshots being sent to other nodes */
    bool seed_making;    /* a snapshot is being taken for another node */
    uv_work_t seed_work; /* that takes it */
    uint8_t *scratch;    /* the words of the request being served */
    char *openapi;       /* the OpenAPI document, made once */
    size_t openapi_len;
    struct http_packed openapi_packed;
    struct http_packed *files; /* the compressed files of the page, in their order */
    struct z_stream_s *gzip;   /* the compressor of short answers; NULL before the first one */
    size_t gzip_turn;          /* bytes compressed in one piece in this turn */
    uint32_t gzip_streams;     /* long answers being compressed */
    char path[HTTP_PATH_MAX];
    /* Writes in flight that have an idempotency key. */
    struct http_exchange *keys[HTTP_KEY_BUCKETS];
};

enum http_state { HTTP_RECEIVING, HTTP_WORKING, HTTP_ANSWERED };

struct http_exchange {
    struct server_client client;
    struct http_connection *connection;
    struct MHD_Connection *mhd;
    const char *method; /* libmicrohttpd's */
    enum http_state state;
    bool begun;
    bool broken;    /* out of memory for an answer: the connection is closed */
    bool too_large; /* the body is too large; the rest of it is discarded */
    bool no_room;   /* there is no memory for the body; the rest is discarded */
    bool enveloped; /* the answer is wrapped in "data", as in Attune's API */

    struct MHD_Response *response; /* made, but not passed to libmicrohttpd yet */
    unsigned status;
    size_t memory; /* bytes counted for the body and the answer: see memory.h */

    uint8_t *body;
    uint32_t body_len, body_capacity;
    size_t discarded;

    struct http_stream *stream;  /* a stream of events; NULL: the exchange is none */
    struct http_seed *seed;      /* a snapshot for another node; NULL: the exchange is none */
    struct server_scrape scrape; /* while `done` is set, metrics are being made */

    struct http_exchange *next_key;
    uint32_t key_len; /* 0: the exchange has no key, or is not in flight */
    char key[HTTP_KEY_MAX];

    uint32_t path_len; /* HTTP_PATH_MAX + 1: the path is longer */
    char path[HTTP_PATH_MAX + 1];
};

/* http.c */
/* Serves HTTP's sockets, and sets the timer for the next call. */
void http_run(struct http *http);
/* Has http_run called soon. */
void http_soon(struct http *http);
/* Resumes a suspended connection at the next call of http_run, which is soon. */
void http_resume(struct http *http, struct MHD_Connection *mhd);

/* http_socket.c: listening without TLS. */
void http_listeners_stop(struct http *http);
/* Called every second: opens listeners again that ran out of descriptors. */
void http_listeners_retry(struct http *http);

/* https.c: connections with TLS. */
/* If a relay gives this connection to libmicrohttpd, copies the address and login from the relay. */
void https_relay_find(struct http_connection *connection);
/* The connection ends. */
void https_relay_leave(struct http_connection *connection);
/* In the next turn: reads the clients that had used up their share of the last one. */
void https_relays_turn(struct http *http);
/* Called once a turn while http->relay_looking is not NULL. */
void https_relays_look(struct http *http);
/* Called once a turn while http->relay_judging is not NULL. */
void https_relays_judge(struct http *http);
/* Closes the relays that are in their handshake, or all relays. */
void https_relays_close(struct http *http, bool all);

/* http_wire.c: judges the bytes of requests before libmicrohttpd receives them. */
/* False: no memory. */
bool http_wire_add(struct http *http, struct http_connection *connection);
void http_wire_remove(struct http *http, const struct http_connection *connection);
/* Calls MHD_run and judges what it reads. */
void http_wire_run(struct http *http);
/* libmicrohttpd has parsed a head. False: it was not judged, or libmicrohttpd found another end. */
bool http_wire_agrees(struct http_connection *connection);

/* http_exchange.c */
/* The callbacks of libmicrohttpd. */
void *http_exchange_new(void *ctx, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result http_exchange_request(void *ctx, struct MHD_Connection *mhd, const char *url,
                                      const char *method, const char *version, const char *data,
                                      size_t *data_len, void **exchange);
void http_exchange_end(void *ctx, struct MHD_Connection *mhd, void **exchange,
                       enum MHD_RequestTerminationCode why);
/* The value of a header; NULL: the request does not have it. */
const char *http_header_in(struct http_exchange *exchange, const char *name);
/* Whether the query has an argument of that name. */
bool http_argument_in(struct http_exchange *exchange, const char *name);
/* Answers; called once for each exchange. `text` is copied. */
void http_answer(struct http_exchange *exchange, unsigned status, const char *type,
                 const void *text, size_t len);
void http_answer_response(struct http_exchange *exchange, unsigned status,
                          struct MHD_Response *response);
/* Answers with a problem (RFC 9457) that is not the result of a command. The text is for people. */
__attribute__((format(printf, 3, 4))) void http_answer_problem(struct http_exchange *exchange,
                                                               unsigned status, const char *format,
                                                               ...);
/* The same, for a request with an unknown outcome. */
void http_answer_unknown(struct http_exchange *exchange, unsigned status, const char *detail);
/* Adds a header to the answer that has just been made. */
void http_header_out(struct http_exchange *exchange, const char *name, const char *value);
/* The answer of an exchange that was left working has arrived. */
void http_exchange_wake(struct http_exchange *exchange);
/* Called once a second for an exchange that waits in line. */
void http_exchange_look(struct http_exchange *exchange);

/* http_gzip.c: compressed answers. */
/* False: no memory. */
bool http_gzip_start(struct http *http);
void http_gzip_stop(struct http *http);
/* Whether the value of the header Accept-Encoding asks for gzip. It may be NULL. */
bool http_gzip_accepted(const char *header);
bool http_gzip_wanted(struct http_exchange *exchange);
/* Whether answers of this type and size are compressed for clients that accept it. */
bool http_gzip_may(const struct http_exchange *exchange, const char *type, size_t len);
/* A compressed answer, which owns the source. NULL: the client does not accept gzip, or there is no
 * room for one more compression now; the caller still owns the source. */
struct MHD_Response *http_gzip_make(struct http_exchange *exchange,
                                    const struct http_source *source);
/* Sets the headers of an answer that was just made and might have been compressed. */
void http_gzip_headers(struct http_exchange *exchange, bool packed);

/* http_login.c */
/* Whether the client's user has this role. False: the exchange has been answered, or it waits for
 * the log-in and is served again after it. */
bool http_access(struct http_exchange *exchange, enum protocol_role role);
/* Whether the login that the connection itself proves, by a client certificate, has become void. A new
 * connection with the same certificate may have a valid one. */
bool http_arrived_is_void(const struct http_connection *connection);
void http_answer_refusal(struct http_exchange *exchange, enum tn_result code, const char *detail);

/* http_guard.c: whether requests of this origin are answered at all. */
/* "localhost", "127.0.0.1:7412", "[::1]". */
bool http_host_is_ours(const char *host);
/* Whether a page of that origin came from this host over the same protocol. */
bool http_origin_is_host(const char *origin, const char *host, bool secure);
bool http_type_is_json(const char *type);

/* http_page.c: paths that are not commands. False: there is no such path. Otherwise the exchange is
 * answered or being worked on. */
bool http_page(struct http_exchange *exchange);
void http_page_leave(struct http_exchange *exchange);

/* http_web.c: the files of the page. */
bool http_file_find(const char *path);
/* True: the path is one of the files, a browser requested it, and it has been answered. */
bool http_page_file(struct http_exchange *exchange);

/* http_call.c: commands. Answers, or leaves the exchange working. */
void http_call(struct http_exchange *exchange);
/* Answers the exchange if its write is done. */
void http_call_done(struct http_exchange *exchange);
void http_key_forget(struct http_exchange *exchange);

/* http_seed.c: the newest snapshot, for another node of the cluster. */
/* False: the path is another one, or this is no cluster. Otherwise the exchange is answered. */
bool http_seed(struct http_exchange *exchange);
/* Ends the transfer before it is complete. */
void http_seed_end(struct http_exchange *exchange);
/* The exchange is over. */
void http_seed_leave(struct http_exchange *exchange);

/* http_stream.c: live events. Answers. */
void http_stream_begin(struct http_exchange *exchange, const struct protocol_http *request);
/* Called at the beginning of a turn: wakes as many streams as may take a step in it. */
void http_streams_turn(struct http *http);
/* Called every second for each stream. */
void http_stream_second(struct http_exchange *exchange);
/* Ends the stream in an orderly way. */
void http_stream_end(struct http_exchange *exchange);
/* The exchange is over. */
void http_stream_leave(struct http_exchange *exchange);

#endif
