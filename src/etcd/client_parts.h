/* The parts of the real client, for its own files only.
 *
 *   etcd_client.c    opening, the interface, one step
 *   client_lane.c    which endpoint, which connection: connecting, leaving, following the leader
 *   client_call.c    calls: sent, answered, late
 *   client_watch.c   watches
 *   client_token.c   user and password
 *
 * A call:   QUEUED --> SENT --> ENDED --> FREE       A watch is the same, and reports its events while
 *             ^__________________|                   it is SENT.
 *             nothing was done: sent again
 *
 * Streams end inside the session (ENDED is all that is noted there); `done` runs later in the step,
 * when no code of the session is on the stack. */
#ifndef TN_ETCD_CLIENT_PARTS_H
#define TN_ETCD_CLIENT_PARTS_H

#include "etcd/arena.h"
#include "etcd/etcd_client.h"
#include "etcd/link.h"

#define CLIENT_TOKEN_MAX 1024u

enum client_state { CLIENT_FREE, CLIENT_QUEUED, CLIENT_SENT, CLIENT_ENDED };

struct client_call {
    struct etcd_stream stream; /* first: stream events find the call by it */
    enum client_state state;
    enum etcd_verb verb;
    uint64_t order; /* of submission */
    uint64_t deadline_ms;
    uint64_t connection;  /* number of the connection on which it was sent */
    uint64_t token_count; /* number of the token with which it was sent */
    bool again;           /* sent a second time, with a new token */
    etcd_done *done;
    void *ctx;
};

struct client_watch {
    struct etcd_stream stream; /* first */
    struct etcd_client *client;
    enum client_state state;
    uint64_t id;
    uint64_t order;
    uint64_t deadline_ms; /* ETCD_NEVER once created */
    uint64_t connection;  /* wanted (0: any), then the one it is on */
    uint64_t token_count;
    etcd_watched *watched;
    void *ctx;
};

/* A connection and the member behind it. */
struct client_lane {
    struct etcd_link *link; /* NULL: there is no connection */
    unsigned endpoint;
    uint64_t connection; /* 0: not ready yet */
    uint64_t member_id, leader;
    int64_t db_bytes;
    char version[ETCD_VERSION_MAX + 1];
    struct client_call probe; /* the call for the member's status */
    uint64_t probe_next_ms;
    uint64_t heard_ms; /* when bytes last arrived, or when the client began to expect them */
    uint64_t drain_by_ms;
};

enum client_lane_kind {
    LANE_ACTIVE, /* takes calls and watches */
    LANE_BETTER, /* connecting to the leader; becomes ACTIVE */
    LANE_OLD,    /* was ACTIVE; its last calls end there */
    LANE_COUNT
};

struct etcd_client {
    struct etcd base;
    struct etcd_endpoint endpoints[ETCD_ENDPOINTS_MAX];
    uint64_t member_ids[ETCD_ENDPOINTS_MAX]; /* behind the endpoints; 0: not known */
    unsigned endpoint_count;
    struct etcd_options options; /* without the pointers to endpoints */
    char *texts[5];              /* copies that `options` points to */

    uint64_t now_ms;
    bool again;     /* the last step left something to do */
    bool leave_now; /* etcd_leave */
    uint64_t orders, connections, watch_ids, doubts;

    struct client_lane lanes[LANE_COUNT];
    unsigned endpoint_next;
    uint64_t connect_at_ms, better_at_ms;
    unsigned failures; /* endpoints left since the last answer */
    enum etcd_reason trouble;
    char trouble_text[ETCD_MESSAGE_MAX];

    struct client_call calls[ETCD_CALLS_MAX];
    struct client_watch watches[ETCD_WATCHES_MAX];

    struct client_call log_in;
    char token[CLIENT_TOKEN_MAX]; /* "" with token_good: etcd wants none */
    bool token_good;
    uint64_t token_count;
    uint64_t log_in_at_ms;

    struct etcd_arena arena_out, arena_in;
};

/* client_lane.c */
bool client_lanes_step(struct etcd_client *client); /* true: look again */
void client_lanes_free(struct etcd_client *client);
uint64_t client_lanes_next_ms(const struct etcd_client *client);
unsigned client_lanes_poll(const struct etcd_client *client, struct pollfd *out, unsigned max);
/* Leaves the active endpoint if its connection is this one. */
void client_leave(struct etcd_client *client, uint64_t connection, enum etcd_reason reason,
                  const char *text);
void client_answered(struct etcd_client *client); /* an endpoint has proven good */
void client_trouble(struct etcd_client *client, enum etcd_reason reason, const char *text);

/* client_call.c */
enum tn_status client_submit(struct etcd *base, const struct etcd_request *request,
                             uint64_t deadline_ms, etcd_done *done, void *ctx);
bool client_calls_process(struct etcd_client *client);                /* ended and late ones */
bool client_calls_dispatch(struct etcd_client *client);               /* queued ones */
void client_calls_deny(struct etcd_client *client, const char *text); /* all queued ones */
uint64_t client_calls_next_ms(const struct etcd_client *client);
/* For calls of the client itself: sends a stream that is set up; the state becomes SENT. */
bool client_call_send(struct etcd_client *client, struct client_lane *lane,
                      struct client_call *call);
/* The message of a call that ended well; false if it is not whole. */
bool client_call_message(const struct client_call *call, struct tn_bytes *ret_message);
extern const struct etcd_stream_events client_call_events;

/* client_watch.c */
enum tn_status client_watch(struct etcd *base, const struct etcd_watch_options *options,
                            etcd_watched *watched, void *ctx, uint64_t *ret_watch);
void client_watch_progress(struct etcd *base, uint64_t id);
void client_watch_cancel(struct etcd *base, uint64_t id);
bool client_watches_process(struct etcd_client *client);
bool client_watches_dispatch(struct etcd_client *client);
void client_watches_deny(struct etcd_client *client, const char *text);
uint64_t client_watches_next_ms(const struct etcd_client *client);
bool client_has_watches(const struct etcd_client *client);

/* client_token.c */
/* True if calls may be sent; otherwise logs in. */
bool client_token_ready(struct etcd_client *client);
bool client_token_process(struct etcd_client *client);
/* A call that was sent with this token was refused for it. */
void client_token_bad(struct etcd_client *client, uint64_t token_count);
uint64_t client_token_next_ms(const struct etcd_client *client);

static inline struct etcd_client *client_of(struct etcd *base) {
    return (struct etcd_client *)base;
}

static inline uint64_t client_min(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

#endif
