/* Which client is served when: the queues of clients that wait, and the time of the loop that each kind
 * of request gets. One owner, on the loop's thread.
 *
 * Waiting. A client waits for a log position, a free slot or another thing that is not its own; it is
 * tried again when something has changed, or a little later.
 *
 * Turns. In one turn of the loop a connection is read once (at most SERVER_SHARE_BYTES), and at most
 * SERVER_SHARE_COMMANDS of its requests are served. A connection that has more to ask is not read until
 * it has been served again from the queue of turns, which has SERVER_TURN_MS of each turn of the loop
 * and serves each connection once in it. So a client that asks for little waits for one share of each
 * connection that was silent before, and for SERVER_TURN_MS, however many connections send requests
 * without end. If users are defined, a connection that has not logged in has a smaller share, and a
 * queue of its own: the time of that queue is short, so users' connections do not wait for a round of
 * all strangers.
 *
 * Slices. A reply that may have many kilobytes is made between the turns of the loop, a slice at a time:
 * at most SERVER_SLICE_MAX long replies, and none begun after SERVER_SLICE_NS; a page of events is
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

#define SERVER_SHARE_BYTES (16u * 1024u) /* maximum bytes read from one connection in one turn */
#define SERVER_SHARE_COMMANDS 256u       /* maximum requests of one connection served in one turn */
#define SERVER_STRANGER_BYTES 2048u      /* the same before the log-in, if users are defined */
#define SERVER_STRANGER_COMMANDS 32u
/* Limits for one turn, for RESP and for HTTP each: */
#define SERVER_ACCEPTS_MAX 4u /* clients accepted */
#define SERVER_LOOKS_MAX 64u  /* connections checked for being idle or slow */
#define SERVER_DROPS_MAX 4u   /* connections closed because of that check */

struct engine;

/* The callbacks of the schedule. `ctx` is their first argument. */
struct schedule_hooks {
    void *ctx;
    /* Called in a turn requested by schedule_soon. True: there is more to do in the next turn. */
    bool (*turn)(void *ctx);
    /* Called after waiting clients have been run. */
    void (*tried)(void *ctx);
};

struct schedule {
    uv_loop_t *loop;
    struct engine *engine;
    struct schedule_hooks hooks;
    uv_timer_t retry; /* runs while a client waits */
    uv_idle_t soon;   /* runs while there is work for the next turn */
    bool hurry;       /* the server stops: clients no longer wait for log positions */

    struct server_queue waiting;
    /* One of them waits for something that can be available at any time, such as a slot. */
    bool waiting_try;
    uint64_t waiting_lsn;        /* the others wait for this log position or later ones, */
    uint64_t waiting_until_ms;   /* and at least until this time */
    struct server_queue running; /* clients that are run again, some of them in later turns */
    bool runs;                   /* the clients in `running` are being run */

    uint32_t turn, round; /* of the loop; of the two queues below */
    /* Connections that have used up their share of a turn and have more requests. */
    struct server_queue turns;
    struct server_queue strangers; /* the same, before the log-in */

    struct server_queue heavy;           /* clients that wait for a slice */
    struct server_queue heavy_strangers; /* the same, before the log-in */
    struct server_queue pages;           /* clients that wait for a slice for a page of events */
    uint64_t slice_end_ns;               /* 0: the slice of this turn has not begun */
    uint32_t slice_left;
    bool slice_pages;  /* pages came first */
    bool slice_waited; /* this slice was for clients in the queues */
};

void schedule_init(struct schedule *schedule, uv_loop_t *loop, struct engine *engine,
                   const struct schedule_hooks *hooks);

/* ---- Waiting ---- */

/* Runs the client again when something has changed, or a little later. */
void schedule_wait(struct server_client *client);
/* The same when the log has reached this position, or when fence_until_ms has passed. */
void schedule_wait_lsn(struct server_client *client, uint64_t lsn);
/* Runs the clients that may have what they wait for. */
void schedule_run_waiting(struct schedule *schedule);
/* For the queue of another owner: the first adds the client, the second runs all clients in it, soon. */
void schedule_wait_in(struct server_queue *queue, struct server_client *client);
void schedule_run_queue(struct schedule *schedule, struct server_queue *queue, bool as_is);
/* Removes the client from the queue in which it waits. */
void schedule_leave(struct server_client *client);

/* ---- Turns ---- */

/* Requests a call of the hook `turn` in the next turn of the loop. */
void schedule_soon(struct schedule *schedule);
/* Runs the client again in the next turn of the loop, after others. */
void schedule_yield(struct server_client *client);
/* Called before the client is served: a client that is served for the first time in this turn gets
 * a new share. */
void schedule_share_begin(struct server_client *client);
/* Whether the client has used a large part of its share in a turn that has taken long. */
bool schedule_share_is_large(const struct server_client *client);
/* Whether this turn of the loop has used up its time. */
bool schedule_turn_is_over(const struct schedule *schedule);
/* Called before the loop waits: the turn has ended. */
void schedule_turn_end(struct schedule *schedule);

/* ---- Slices ---- */

/* Called before a long reply (`page`: a page of events, which takes longest) is made. True: other
 * clients come first, and this client is run again in a later turn. */
bool schedule_must_yield(struct server_client *client, bool page);
/* Runs the client before all other clients that wait for a page, because its own is half made. */
void schedule_go_on(struct server_client *client);
/* Runs the client after all other clients that wait for a page. */
void schedule_go_on_later(struct server_client *client);
bool schedule_slice_is_over(const struct schedule *schedule);
/* Reports the bytes of a reply that could have been long. */
void schedule_slice_made(struct schedule *schedule, size_t bytes);

#endif
