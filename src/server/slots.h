/* Slots: an answer that is still to come, or is there and not yet sent. A write has one from its
 * submission until its reply is written; so has a job.
 *
 *     taken, in the client's queue --> done, with a result or a reply --> collected --> free
 *
 * Two processors pass a slot to and fro, so it is small and begins a cache line. An engine's thread
 * touches a slot between its submission and slots_done_put, and the ring of completed slots; all else
 * here belongs to the loop's thread.
 *
 * A result without values, or with one value that is a number, is plain: the slot keeps it, and the
 * loop writes the reply to where it is sent from. Other replies are written on the engine's thread,
 * since their values are valid only there. */
#ifndef TN_SERVER_SLOTS_H
#define TN_SERVER_SLOTS_H

#include <stdatomic.h>
#include <stddef.h>

#include "engine/engine.h"
#include "protocol/resp.h"
#include "server/client.h"
#include "server/count.h"

#define SERVER_SLOTS_BUSY 16384u   /* writes in flight in all, without those that wait in line */
#define SERVER_SLOTS_PARKED 65536u /* and those: parked.h keeps to it */
#define SERVER_SLOTS (SERVER_SLOTS_BUSY + SERVER_SLOTS_PARKED)
#define SERVER_INFLIGHT_MAX 1024u /* and of one client */

/* The facts of an answer besides its text: HTTP puts them into headers. */
struct server_answer {
    enum tn_result code;
    uint16_t http_status;
    bool replayed, has_lease;
    uint64_t lsn;         /* 0: it has none */
    uint64_t now_ms;      /* at that position */
    uint64_t retry_at_ms; /* EXHAUSTED: when to try again; 0: unknown */
    uint64_t cursor;      /* of a page: where the next one begins; 0: nowhere */
    struct kernel_lease_id lease;
};

struct server_slot {
    _Alignas(64) struct engine_request request; /* its result stays, but for the values */
    struct server_slots *slots;
    const struct protocol_command *row;
    struct server_client *client; /* NULL: it is gone, the answer is dropped */
    struct server_slot *next;     /* in the client's queue, or free */
    uint64_t begun_ns;
    uint64_t value; /* the value of a plain result, if it has one */
    enum protocol_encoding encoding;
    uint32_t len;   /* of a reply that was written already */
    uint8_t format; /* of the value */
    bool plain;     /* the reply is not written yet: the result has no values, or `value` */
    bool done;
    bool parked;    /* parked.h, as are the following */
    bool may_wait;  /* the request has WAIT, and the engine has not answered it yet */
    bool has_place; /* among those that wait */
    bool has_op;
    struct server_slot *next_parked;
    uint8_t *heap;               /* a reply that did not fit */
    struct server_answer answer; /* but for the code, of a plain one only with its reply */
};

/* A plain result touches four cache lines: the fifth would be passed to and fro for nothing. */
_Static_assert(offsetof(struct server_slot, answer.code) < 256, "a plain slot has four lines");

_Static_assert(offsetof(struct server_slot, request) == 0, "the engine hands back the slot");

struct server_slots {
    struct server_counters *counters;
    struct server_slot *of; /* those from `touched` on have never been used */
    uint32_t touched;
    struct server_slot *free;
    uint32_t used;
    uint32_t waiting;          /* of them, those that are parked */
    uint8_t *replies;          /* a part for each slot, for replies that are not plain */
    struct server_slot **done; /* a ring: put in by the engine's threads, one at a time */
    uint32_t done_head;
    _Atomic uint32_t done_tail;
};

/* False: no memory; free it all the same. */
bool server_slots_init(struct server_slots *slots, struct server_counters *counters);
void server_slots_free(struct server_slots *slots);
/* Writes of one client that may be in flight: the more slots are used, the fewer. */
uint32_t server_slots_share(const struct server_slots *slots);

/* ---- A slot's life ---- */

/* At the end of the client's queue. NULL: there is none free. */
struct server_slot *server_slot_take(struct server_slots *slots, struct server_client *client,
                                     const struct protocol_command *row);
/* Undoes the client's last server_slot_take. */
void server_slot_return(struct server_client *client);
/* The slot at the head of the queue if its answer is there; the caller frees it. NULL: it is not. */
struct server_slot *server_slot_collect(struct server_client *client);
void server_slot_free(struct server_slot *slot);
/* The client leaves: its requests in flight have no client any more. */
void server_slots_leave(struct server_client *client);

/* ---- Its answer ---- */

/* On the engine's thread: keeps a plain result, renders any other. */
void server_slot_keep(struct server_slot *slot, const struct kernel_result *result);
/* Writes a plain result. */
void server_slot_write(const struct server_slot *slot, struct protocol_writer *w);
/* The reply, written now if that has not been done; `answer` is whole then. */
struct tn_bytes server_slot_reply(struct server_slot *slot);
/* For a reply that is written without the engine: at most SERVER_SLOT_BYTES. */
#define SERVER_SLOT_BYTES 448u
struct protocol_writer server_slot_writer(const struct server_slot *slot);
/* Answered without the engine, at once. */
void server_slot_refuse(struct server_slot *slot, enum tn_result code, const char *detail);
/* Refused by the committed state, at once: its request has the result. */
void server_slot_refused(struct server_slot *slot);

/* ---- The ring of completed slots ---- */

/* On an engine's thread. `last`: the loop is woken after this one. */
void server_slots_put(struct server_slots *slots, struct server_slot *slot, bool last);
/* On the loop: up to where there are slots now, and the next one before that, or NULL. */
uint32_t server_slots_tail(struct server_slots *slots);
struct server_slot *server_slots_next(struct server_slots *slots, uint32_t tail);

#endif
