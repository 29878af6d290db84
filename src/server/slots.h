/* Slots: an answer that is still to come, or is there and not yet sent. A write has one from its
 * submission until its reply is written; so has a job.
 *
 *     taken, in the client's queue --> done, with a result or a reply --> collected --> free
 *
 * Two processors pass a slot back and forth, so it is small and begins a cache line. An engine's thread
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

#define SERVER_SLOTS_BUSY 16384u   /* maximum writes in flight, without those that wait in line */
#define SERVER_SLOTS_PARKED 65536u /* maximum writes that wait in line; parked.h enforces it */
#define SERVER_SLOTS (SERVER_SLOTS_BUSY + SERVER_SLOTS_PARKED)
#define SERVER_INFLIGHT_MAX 1024u /* maximum writes in flight of one client */

/* What an answer says besides its text, for the headers of HTTP. */
struct server_answer {
    enum tn_result code;
    uint16_t http_status;
    bool replayed, has_lease;
    uint64_t lsn;         /* 0: the answer has no position */
    uint64_t now_ms;      /* at that position */
    uint64_t retry_at_ms; /* EXHAUSTED: when to try again; 0: unknown */
    uint64_t cursor;      /* a page: the cursor to continue with; 0: it was the last page */
    struct kernel_lease_id lease;
};

struct server_slot {
    _Alignas(64) struct engine_request request; /* its result stays valid, except for the values */
    struct server_slots *slots;
    const struct protocol_command *row;
    struct server_client *client; /* NULL: the client has disconnected, and the answer is dropped */
    struct server_slot *next;     /* in the client's queue, or in the list of free slots */
    uint64_t begun_ns;
    uint64_t value; /* the value of a plain result that has one */
    enum protocol_encoding encoding;
    uint32_t len;   /* bytes of a reply that has been written */
    uint8_t format; /* of the value */
    bool plain;     /* the reply is not written yet: the result has no values, or only `value` */
    bool done;
    bool parked;    /* used by parked.h, as are the following fields */
    bool may_wait;  /* the request has WAIT, and the engine has not answered it yet */
    bool has_place; /* counts among the requests that wait in line */
    bool has_op;
    struct server_slot *next_parked;
    uint8_t *heap; /* a reply that was too long for its part of `replies` */
    /* For a plain result, only the code is set before the reply is written. */
    struct server_answer answer;
};

/* A plain result uses four cache lines only: a fifth would move between the processors for
 * nothing. */
_Static_assert(offsetof(struct server_slot, answer.code) < 256, "a plain slot has four lines");

_Static_assert(offsetof(struct server_slot, request) == 0, "the engine hands back the slot");

struct server_slots {
    struct server_counters *counters;
    struct server_slot *of; /* entries from `touched` on have never been used */
    uint32_t touched;
    struct server_slot *free;
    uint32_t used;
    uint32_t waiting;          /* of the slots in use, those that are parked */
    uint8_t *replies;          /* a part for each slot, for replies that are not plain */
    struct server_slot **done; /* a ring that the engine's threads fill, one at a time */
    uint32_t done_head;
    _Atomic uint32_t done_tail;
};

/* False: out of memory. Call server_slots_free in either case. */
bool server_slots_init(struct server_slots *slots, struct server_counters *counters);
void server_slots_free(struct server_slots *slots);
/* How many writes of one client may be in flight now: the more slots are used, the fewer. */
uint32_t server_slots_share(const struct server_slots *slots);

/* ---- A slot's life ---- */

/* A slot at the end of the client's queue. NULL: no slot is free. */
struct server_slot *server_slot_take(struct server_slots *slots, struct server_client *client,
                                     const struct protocol_command *row);
/* Undoes the client's last server_slot_take. */
void server_slot_return(struct server_client *client);
/* The slot at the head of the client's queue if its answer has arrived; the caller frees it. NULL:
 * it has not. */
struct server_slot *server_slot_collect(struct server_client *client);
void server_slot_free(struct server_slot *slot);
/* The client disconnects: its requests in flight no longer have a client. */
void server_slots_leave(struct server_client *client);

/* ---- Its answer ---- */

/* On the engine's thread: keeps a plain result, renders any other. */
void server_slot_keep(struct server_slot *slot, const struct kernel_result *result);
/* Writes a plain result. */
void server_slot_write(const struct server_slot *slot, struct protocol_writer *w);
/* The reply; a plain result is written now. Afterwards `answer` is complete. */
struct tn_bytes server_slot_reply(struct server_slot *slot);
/* For a reply of at most SERVER_SLOT_BYTES that is written without the engine. */
#define SERVER_SLOT_BYTES 448u
struct protocol_writer server_slot_writer(const struct server_slot *slot);
/* Answers at once, without the engine. */
void server_slot_refuse(struct server_slot *slot, enum tn_result code, const char *detail);
/* Answers at once: the committed state has refused the request, which has the result. */
void server_slot_refused(struct server_slot *slot);

/* ---- The ring of completed slots ---- */

/* On an engine's thread. `last`: the loop is woken after this slot. */
void server_slots_put(struct server_slots *slots, struct server_slot *slot, bool last);
/* On the loop: the position up to which slots are there now, and the next slot before it, or
 * NULL. */
uint32_t server_slots_tail(struct server_slots *slots);
struct server_slot *server_slots_next(struct server_slots *slots, uint32_t tail);

#endif
