/* Which client is served when: the queues of clients that wait, and the time of the loop that each kind
 * of request gets. One owner, on the loop's thread.
 *
 * Waiting. A client waits for a log position, a free slot or another thing that is not its own; it is
 * tried again when something has changed, or a little later.
 *
 * Turns. In one turn of the loop a connection is read once (SERVER_SHARE_BYTES at the most), and at most
 * SERVER_SHARE_COMMANDS of its requests are served. A connection that has more to ask is not read until
 * it has been served again from the queue of turns, which has SERVER_TURN_MS of each turn of the loop
 * and serves each connection once in it. So a client that asks for little waits for one share of each
 * connection that was silent before, and for SERVER_TURN_MS, however many connections send requests
 * without end. If users are defined, a connection that has not logged in has a smaller share, and a
 * queue of its own: the time of that queue is short, so users' connections do not wait for a round of
 * all strangers.
 *
 * Slices. A reply that may have many kilobytes is made between the turns of the loop, a slice at a time:
 * SERVER_SLICE_MAX long replies at the most, and none begun after SERVER_SLICE_NS; a page of events is
 * left then, and gone on with in a later slice. So a client that asks for little waits for one slice,
 * however many ask for much. Pages of events take longest by far, so they have a queue of their own, and
 * every other slice is theirs first. If users are defined, connections that have not logged in have a
 * queue of their own for long replies: one of them is served in a turn, after all others. While no client
 * waits for a slice, the next client gets the slice of this turn at once: a single client never waits.
 * Beside 100 clients that ask for long replies, the median PING takes 0.2 ms; without slices, 5 to 40 ms. */
#ifndef TN_SERVER_SCHEDULE_H
#define TN_SERVER_SCHEDULE_H

#include <uv.h>

#include "server/client.h"

#define SERVER_SHARE_BYTES (16u * 1024u) /* read from one connection in one turn, */
#define SERVER_SHARE_COMMANDS 256u       /* and requests of it that are served */
#define SERVER_STRANGER_BYTES 2048u      /* the same before it has logged in, if there are users */
#define SERVER_STRANGER_COMMANDS 32u
/* In one turn, of each of RESP and HTTP: */
#define SERVER_ACCEPTS_MAX 4u /* clients that come in */
#define SERVER_LOOKS_MAX 64u  /* connections looked at: is one idle or slow? */
#define SERVER_DROPS_MAX 4u   /* and closed for that */

struct engine;

/* The callbacks of the schedule; `ctx` is their first argument. */
struct schedule_hooks {
    void *ctx;
    /* In a turn that was asked for by schedule_soon. True: there is more to do in the next one. */
    bool (*turn)(void *ctx);
    /* Clients that waited have been tried again. */
    void (*tried)(void *ctx);
};

struct schedule {
    uv_loop_t *loop;
    struct engine *engine;
    struct schedule_hooks hooks;
    uv_timer_t retry; /* runs while a client waits */
    uv_idle_t soon;   /* runs while something is to be done in the next turn */
    bool hurry;       /* the server stops: no client waits for a log position */

    struct server_queue waiting;
    bool waiting_try;            /* one of them waits for a slot or the like, free at any time */
    uint64_t waiting_lsn;        /* the others wait for this log position at the least, */
    uint64_t waiting_until_ms;   /* and not beyond this time */
    struct server_queue running; /* they try again now */
    bool runs;                   /* they are being gone through */

    uint32_t turn, round;          /* of the loop; of the two queues below */
    struct server_queue turns;     /* connections that had their share of a turn and want more */
    struct server_queue strangers; /* the same, before they have logged in */

    struct server_queue heavy;           /* wait for a slice */
    struct server_queue heavy_strangers; /* the same, before they have logged in */
    struct server_queue pages;           /* the same, for a page of events */
    uint64_t slice_end_ns;               /* 0: the slice of this turn is not begun */
    uint32_t slice_left;
    bool slice_pages;  /* pages came first */
    bool slice_waited; /* it was for clients in the queues */
};

void schedule_init(struct schedule *schedule, uv_loop_t *loop, struct engine *engine,
                   const struct schedule_hooks *hooks);

/* ---- Waiting ---- */

/* Runs again when something has changed or a little later. */
void schedule_wait(struct server_client *client);
/* The same, when the log has got to that position, or when its fence_until_ms is over. */
void schedule_wait_lsn(struct server_client *client, uint64_t lsn);
/* Runs the clients whose wait may be over. */
void schedule_run_waiting(struct schedule *schedule);
/* A queue of another owner: lets the client wait in it; runs all clients in it. */
void schedule_wait_in(struct server_queue *queue, struct server_client *client);
void schedule_run_queue(struct schedule *schedule, struct server_queue *queue, bool as_is);
/* It waits no more. */
void schedule_leave(struct server_client *client);

/* ---- Turns ---- */

/* Something is to be done in the next turn. */
void schedule_soon(struct schedule *schedule);
/* The client runs again in the next turn of the loop: others come first. */
void schedule_yield(struct server_client *client);
/* The client is about to be served: in a new turn it has a new share. */
void schedule_share_begin(struct server_client *client);
/* Whether it has had a good part of its share while this turn has taken long. */
bool schedule_share_is_large(const struct server_client *client);
/* Whether this turn of the loop has used up its time. */
bool schedule_turn_is_over(const struct schedule *schedule);
/* The loop is about to wait: a turn is over. */
void schedule_turn_end(struct schedule *schedule);

/* ---- Slices ---- */

/* Before a long reply, or a page of events, the longest. True: others come first, and the client runs
 * again in a later turn. */
bool schedule_must_yield(struct server_client *client, bool page);
/* The client runs again before all other clients that want a page: its own is half made. */
void schedule_go_on(struct server_client *client);
/* The same, behind all others who wait for one. */
void schedule_go_on_later(struct server_client *client);
bool schedule_slice_is_over(const struct schedule *schedule);
/* A reply that could have been long has this many bytes. */
void schedule_slice_made(struct schedule *schedule, size_t bytes);

#endif
