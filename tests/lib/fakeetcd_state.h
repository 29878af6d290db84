/* The parts of the fake etcd, for its own files.
 *
 *   fakeetcd.c          the cluster: members, messages in flight, mishaps
 *   fakeetcd_client.c   the clients: the interface of etcd.h
 *   fakeetcd_store.c    keys and revisions
 *
 * A call is a message to a member; when it arrives it is carried out, and the answer is a message to the
 * client, which takes it at its next step. */
#ifndef TESTS_LIB_FAKEETCD_STATE_H
#define TESTS_LIB_FAKEETCD_STATE_H

#include "base/prng.h"
#include "lib/fakeetcd.h"
#include "lib/fakeetcd_store.h"

struct fake_client;

struct fake_message {
    struct fake_message *next;
    uint64_t at_ms;
    uint64_t order;
    struct fake_client *client; /* NULL: the client has been closed */
    uint64_t call;              /* id; 0: no caller waits for the answer */
    uint64_t connection;
    unsigned member;
    bool is_answer;
    uint64_t sent_ms;
    struct etcd_arena arena; /* memory that the request or answer borrows */
    struct etcd_request request;
    struct etcd_answer answer;
};

enum fake_state { FAKE_FREE, FAKE_QUEUED, FAKE_SENT };

struct fake_call {
    enum fake_state state;
    uint64_t id;
    uint64_t deadline_ms;         /* in the time of the node's clock */
    struct fake_message *request; /* QUEUED */
    struct fake_message *answer;  /* it has arrived */
    enum etcd_verb verb;
    etcd_done *done;
    void *ctx;
};

struct fake_watch {
    enum fake_state state;
    uint64_t id;
    uint64_t deadline_ms;
    uint64_t connection;     /* wanted, then the one of this watch */
    struct etcd_arena arena; /* of the keys */
    struct etcd_keys keys;
    int64_t next_revision; /* to be reported, in the store's numbers */
    uint64_t
        ready_ms; /* of the world: when the next news arrives; ETCD_NEVER: none is on its way */
    bool created, stuck, progress;
    etcd_watched *watched;
    void *ctx;
};

struct fake_client {
    struct etcd base;
    struct fakeetcd *fake;
    struct fake_client *next;
    unsigned member; /* connected to it, or the next to try */
    bool cut[FAKEETCD_MEMBERS];
    uint64_t connection; /* 0: none */
    uint64_t connect_ms; /* of the world */
    bool broken;         /* the connection is broken; noticed at the next step */
    bool leave;
    uint64_t now_ms; /* of its node */
    uint64_t ids, connects, doubts;
    struct fake_call calls[ETCD_CALLS_MAX];
    struct fake_watch watches[ETCD_WATCHES_MAX];
};

struct fake_member {
    bool running, paused;
    uint64_t paused_ms;
    int64_t applied;   /* the applied revision, in the store's numbers */
    int64_t offset;    /* added to the revisions that the member reports */
    uint64_t apply_ms; /* when the member applies again; 0: nothing to apply */
};

struct fakeetcd {
    struct tn_prng prng;
    uint64_t now_ms;
    uint64_t orders, connections;
    struct fakestore store;
    unsigned member_count, leader;
    uint64_t leaderless_until_ms;
    struct fake_member members[FAKEETCD_MEMBERS];
    struct fake_client *clients;
    struct fake_message *messages; /* in flight */
    struct fakeetcd_faults faults;
    bool full;
    const char *version;
    const char *denied; /* a part of keys that may not be written; NULL: none */
    unsigned leaks;
    uint64_t hash; /* hash of everything that has happened */
};

/* True with a probability of `chance` in a thousand. */
bool fake_happens(struct fakeetcd *fake, unsigned chance);
uint64_t fake_delay(struct fakeetcd *fake);

struct fake_message *fake_message_new(void);
void fake_message_free(struct fake_message *message);
/* Sends a message, which arrives after `delay_ms`. */
void fake_message_send(struct fakeetcd *fake, struct fake_message *message, uint64_t delay_ms);
/* Makes a deep copy in the message's arena. */
void fake_request_copy(struct fake_message *to, const struct etcd_request *from);
struct tn_bytes fake_bytes_copy(struct etcd_arena *arena, struct tn_bytes bytes);

bool fake_member_answers(const struct fakeetcd *fake, unsigned member);
/* Sends a call of a client, with all the faults that may affect it. */
void fake_call_send(struct fakeetcd *fake, struct fake_message *message);

/* When the client will leave the hanging member that it is connected to; ETCD_NEVER: it will
 * not. */
uint64_t fake_client_silent_ms(const struct fake_client *client);

#endif
