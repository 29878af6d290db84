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
 * Memory. A connection has its memory of libmicrohttpd and a small struct. Bodies are bounded one by one
 * (HTTP_BODY_MAX) and all together (HTTP_BODIES_MAX). Answers that have not been sent count as client
 * memory (memory.h), except small ones. */
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
    (16u * 1024u) /* of libmicrohttpd: the head of a request, and the output buffer */
#define HTTP_CONNECTIONS_MAX 1000000u /* libmicrohttpd's limit; it is ours that counts */
#define HTTP_PATH_MAX 2048u
#define HTTP_ARGUMENTS_MAX PROTOCOL_QUERY_MAX
/* A body: 4,096 names of 64 bytes, the largest command, fit. The loop reads through it several times. */
#define HTTP_BODY_MAX (384u * 1024u)
#define HTTP_SCRATCH_BYTES (2 * PROTOCOL_REQUEST_MAX)
#define HTTP_BODIES_MAX (64u << 20)  /* bytes of all bodies that are being received or served */
#define HTTP_ANSWER_SMALL 4096u      /* bytes of an answer that do not count as client memory */
#define HTTP_DISCARD_MAX (16u << 20) /* bytes that are read only to be able to say 413 */
#define HTTP_KEY_MAX KERNEL_OPID_MAX
#define HTTP_KEY_BUCKETS 1024u
#define HTTP_STEPS_MAX 16u            /* of all streams of events, in one turn of the loop */
#define HTTP_GZIP_MIN 1024u           /* bytes of an answer that is worth compressing */
#define HTTP_GZIP_WHOLE (32u * 1024u) /* bytes of one that is compressed at once */
#define HTTP_GZIP_TURN (256u * 1024u) /* bytes of all those in one turn of the loop */
#define HTTP_GZIP_STREAMS 8u          /* longer answers that are being compressed at a time */

struct http_exchange;
struct http_stream;
struct http_seed;
struct https_relay;

/* A client's connection. Exchanges come and go on it, one at a time. */
struct http_connection {
    struct http *http;
    LIST_ENTRY(http_connection) place;
    struct http_exchange *exchange;  /* NULL: between two */
    uint64_t since_ms;               /* that it has been waiting for a whole request */
    uint32_t failures;               /* log-ins that failed on it */
    int socket;                      /* libmicrohttpd's */
    int client_socket;               /* the client's own; -1: it is gone */
    struct https_relay *relay;       /* NULL: without TLS, or the client is gone */
    bool secure;                     /* with TLS */
    struct access_login arrived;     /* the login that the connection itself proves */
    struct protocol_framing framing; /* of what has been read from it */
    uint64_t heads;                  /* of those, that libmicrohttpd has made requests of */
    bool refused;                    /* the client got the reason; its further input is discarded */
    size_t discarded;
};

enum { HTTP_LISTEN_TCP, HTTP_LISTEN_UNIX, HTTP_LISTENERS };

/* A listening socket without TLS. */
struct http_listener {
    struct http *http;
    uv_poll_t poll;
    int socket; /* -1: it does not listen */
    uint16_t port;
    bool paused; /* no descriptors were left: tries again every second */
};

/* Something that was compressed once; at is NULL: it was not. */
struct http_packed {
    void *at;
    size_t len;
};

/* The bytes of an answer, and how they are given back. */
struct http_source {
    const uint8_t *at;
    size_t len;
    void (*release)(void *ctx);
    void *ctx;
};

struct http {
    struct server *server;
    struct server_counters *counters;
    struct MHD_Daemon *daemon; /* NULL: stopped */
    struct http_listener listeners[HTTP_LISTENERS];
    struct unix_socket unix_socket; /* of HTTP_LISTEN_UNIX */
    uv_poll_t epoll;
    uv_timer_t timer; /* when libmicrohttpd wants to be called though nothing came */
    uv_idle_t soon;   /* while there is something left to do, in the next turn of the loop */
    bool resumed;     /* some connection was: http_run has something to do */
    bool draining;
    uint32_t connection_count;
    LIST_HEAD(http_connections, http_connection) connections;
    LIST_HEAD(https_relays, https_relay) relays;  /* of connections with TLS: see https.c */
    struct https_relay *arriving;                 /* whose socket libmicrohttpd is being given */
    TAILQ_HEAD(https_paused, https_relay) paused; /* relays that are read again in the next turn */
    struct https_relay *relay_looking;            /* as `looking` */
    struct https_relay *relay_judging;            /* where judging goes on after a reload */
    uint32_t relay_count;
    uint32_t alone_count;             /* relays that no connection of libmicrohttpd stands for */
    struct http_connection *looking;  /* where the look of this second goes on; NULL: it is over */
    struct http_connection **sockets; /* by descriptor; NULL: none of ours */
    uint32_t socket_capacity;
    uint32_t stream_count;
    TAILQ_HEAD(http_streams, http_stream) queue; /* wait for a turn */
    uint32_t steps;                              /* taken in this one */
    size_t body_bytes;
    uint32_t seed_count; /* snapshots being sent to other nodes */
    bool seed_making;    /* a snapshot is being taken for one */
    uv_work_t seed_work; /* that takes it */
    uint8_t *scratch;    /* words of a request */
    char *openapi;       /* the document, made once */
    size_t openapi_len;
    struct http_packed openapi_packed;
    struct http_packed *files; /* of the page, in their order */
    struct z_stream_s *gzip;   /* the compressor of short answers; NULL until the first */
    size_t gzip_turn;          /* bytes that it took in this turn */
    uint32_t gzip_streams;     /* long answers that are being compressed */
    char path[HTTP_PATH_MAX];
    struct http_exchange *keys[HTTP_KEY_BUCKETS]; /* writes under way that have a key */
};

enum http_state { HTTP_RECEIVING, HTTP_WORKING, HTTP_ANSWERED };

struct http_exchange {
    struct server_client client;
    struct http_connection *connection;
    struct MHD_Connection *mhd;
    const char *method; /* libmicrohttpd's */
    enum http_state state;
    bool begun;
    bool broken;    /* no memory for an answer: the connection is closed */
    bool too_large; /* the body; the rest of it is thrown away */
    bool no_room;   /* for it, beside those of the others; the same */
    bool enveloped; /* the answer has "data", as that of Attune's API */

    struct MHD_Response *response; /* made, not given to libmicrohttpd yet */
    unsigned status;
    size_t memory; /* of the answer, as long as it is being sent: see memory.c */

    uint8_t *body;
    uint32_t body_len, body_capacity;
    size_t discarded;

    struct http_stream *stream;  /* of events; NULL: it is none */
    struct http_seed *seed;      /* a snapshot for another node; NULL: it is none */
    struct server_scrape scrape; /* with `done` set: metrics are being made */

    struct http_exchange *next_key;
    uint32_t key_len; /* 0: none, or not under way */
    char key[HTTP_KEY_MAX];

    uint32_t path_len; /* HTTP_PATH_MAX + 1: longer */
    char path[HTTP_PATH_MAX + 1];
};

/* http.c */
/* Serves HTTP's sockets, and sets the timer for the next call. */
void http_run(struct http *http);
/* http_run is called soon. */
void http_soon(struct http *http);
/* A suspended connection goes on, when http_run is next called: soon. */
void http_resume(struct http *http, struct MHD_Connection *mhd);

/* http_socket.c: listening without TLS. */
void http_listeners_stop(struct http *http);
/* Every second: listeners that ran out of descriptors try again. */
void http_listeners_retry(struct http *http);

/* https.c: connections with TLS. */
/* If a relay gives this connection to libmicrohttpd, copies the address and login from the relay. */
void https_relay_find(struct http_connection *connection);
/* The connection ends. */
void https_relay_leave(struct http_connection *connection);
/* In the next turn: reads the clients that had their share of the last one. */
void https_relays_turn(struct http *http);
/* Once in a turn, while http->relay_looking is not NULL. */
void https_relays_look(struct http *http);
/* Once in a turn, while http->relay_judging is not NULL. */
void https_relays_judge(struct http *http);
/* Closes the relays that are in their handshake, or all. */
void https_relays_close(struct http *http, bool all);

/* http_wire.c: judges the bytes of requests before libmicrohttpd gets them. */
/* False: no memory. */
bool http_wire_add(struct http *http, struct http_connection *connection);
void http_wire_remove(struct http *http, const struct http_connection *connection);
/* MHD_run, with its reads judged. */
void http_wire_run(struct http *http);
/* A head is there. False: libmicrohttpd has seen one that was not judged, or ended differently. */
bool http_wire_agrees(struct http_connection *connection);

/* http_exchange.c */
/* The callbacks of libmicrohttpd. */
void *http_exchange_new(void *ctx, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result http_exchange_request(void *ctx, struct MHD_Connection *mhd, const char *url,
                                      const char *method, const char *version, const char *data,
                                      size_t *data_len, void **exchange);
void http_exchange_end(void *ctx, struct MHD_Connection *mhd, void **exchange,
                       enum MHD_RequestTerminationCode why);
/* The value of a header; NULL: it is not there. */
const char *http_header_in(struct http_exchange *exchange, const char *name);
/* Whether the query has an argument of that name. */
bool http_argument_in(struct http_exchange *exchange, const char *name);
/* The answer: once for each exchange. `text` is copied. */
void http_answer(struct http_exchange *exchange, unsigned status, const char *type,
                 const void *text, size_t len);
void http_answer_response(struct http_exchange *exchange, unsigned status,
                          struct MHD_Response *response);
/* One that is not a command's: RFC 9457, with words for people. */
__attribute__((format(printf, 3, 4))) void http_answer_problem(struct http_exchange *exchange,
                                                               unsigned status, const char *format,
                                                               ...);
/* The same, if the outcome of the request is unknown. */
void http_answer_unknown(struct http_exchange *exchange, unsigned status, const char *detail);
/* For the answer that has just been made. */
void http_header_out(struct http_exchange *exchange, const char *name, const char *value);
/* The answer is there, on an exchange that was left working. */
void http_exchange_wake(struct http_exchange *exchange);
/* Once a second, of one that waits in line. */
void http_exchange_look(struct http_exchange *exchange);

/* http_gzip.c: compressed answers. */
/* False: no memory. */
bool http_gzip_start(struct http *http);
void http_gzip_stop(struct http *http);
/* Whether the value of Accept-Encoding, which may be NULL, asks for gzip. */
bool http_gzip_accepted(const char *header);
bool http_gzip_wanted(struct http_exchange *exchange);
/* Whether an answer of this kind and size is compressed for those that want it. */
bool http_gzip_may(const struct http_exchange *exchange, const char *type, size_t len);
/* A compressed answer, which has taken the source over; NULL: the client does not want it, or not now: the source is
 * still the caller's. */
struct MHD_Response *http_gzip_make(struct http_exchange *exchange,
                                    const struct http_source *source);
/* For the answer that has just been made, and that may be compressed. */
void http_gzip_headers(struct http_exchange *exchange, bool packed);

/* http_login.c */
/* Whether the client's user has this role. False: the exchange has been answered, or it waits for the
 * login and is served again after it. */
bool http_access(struct http_exchange *exchange, enum protocol_role role);
/* Whether the login that the connection itself proves, by a client certificate, has become void. A new
 * connection with the same certificate may have a valid one. */
bool http_arrived_is_void(const struct http_connection *connection);
void http_answer_refusal(struct http_exchange *exchange, enum tn_result code, const char *detail);

/* http_guard.c: whether this origin may be answered at all. */
/* "localhost", "127.0.0.1:7412", "[::1]". */
bool http_host_is_ours(const char *host);
/* Whether a page of that origin is one of ours, that is, of this host, over the same protocol. */
bool http_origin_is_host(const char *origin, const char *host, bool secure);
bool http_type_is_json(const char *type);

/* http_page.c: paths that are no commands. False: there is no such path; else it is answered or in work. */
bool http_page(struct http_exchange *exchange);
void http_page_leave(struct http_exchange *exchange);

/* http_web.c: the page with its files. */
bool http_file_find(const char *path);
/* True: it was one of them, wanted by a browser, and has been answered. */
bool http_page_file(struct http_exchange *exchange);

/* http_call.c: commands. Answers, or leaves the exchange working. */
void http_call(struct http_exchange *exchange);
/* Makes the answer of the write under way, if that is done. */
void http_call_done(struct http_exchange *exchange);
void http_key_forget(struct http_exchange *exchange);

/* http_seed.c: the newest snapshot, for another node of the cluster. */
/* False: the path is another one, or there is no cluster; else it is answered. */
bool http_seed(struct http_exchange *exchange);
/* It is to end, unfinished. */
void http_seed_end(struct http_exchange *exchange);
/* The exchange is over. */
void http_seed_leave(struct http_exchange *exchange);

/* http_stream.c: events as they happen. Answers. */
void http_stream_begin(struct http_exchange *exchange, const struct protocol_http *request);
/* A turn begins: as many as may take a step in it are woken. */
void http_streams_turn(struct http *http);
/* Every second, of a stream. */
void http_stream_second(struct http_exchange *exchange);
/* It is to end, in order. */
void http_stream_end(struct http_exchange *exchange);
/* The exchange is over. */
void http_stream_leave(struct http_exchange *exchange);

#endif
