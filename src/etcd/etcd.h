/* A client of etcd, as its callers see it: calls, watches, and what is known about their outcome.
 *
 * `struct etcd` is an interface with two implementations: etcd_open (etcd/etcd_client.h) speaks gRPC over
 * HTTP/2 to real members; the tests have one in memory that loses, delays and repeats messages. A
 * client is one connection at a time to one of its endpoints. A program that both writes and watches
 * opens two clients, because a shared connection lets large answers delay watch events.
 *
 * Driving
 * - The caller drives the client: it passes the time (milliseconds of any monotonic clock) to
 *   etcd_step, which does everything that is possible without waiting. It calls etcd_step again when
 *   a descriptor of etcd_poll_set is ready or the time etcd_next_ms has come, whichever is first.
 *   etcd_wait (etcd/wait.h) does exactly that with poll(2).
 * - `done` and `watched` run inside etcd_step and nowhere else. They may call etcd_submit, etcd_watch,
 *   etcd_watch_cancel, etcd_watch_progress and etcd_leave, but neither etcd_step nor etcd_close.
 * - One thread at a time. The client starts no thread but a short one for the name of a host.
 *
 * Ownership
 * - Whatever a request points to is borrowed during etcd_submit or etcd_watch only.
 * - Whatever an answer or news points to is borrowed during the callback only.
 *
 * Promises
 * - An accepted call ends exactly once, at the latest in the first etcd_step at or after its
 *   deadline, unless the client is closed before: etcd_close ends everything without a callback.
 * - The client never repeats a call that a member may have carried out. It sends a call again only
 *   if the member said that it did not look at it (an expired token; a refused stream).
 * - After a doubt the client leaves the endpoint, so that the next call goes to the next one.
 * - A watch is not resumed after a lost connection: it ends, and the caller reads again.
 * - Memory is bounded: ETCD_CALLS_MAX calls, ETCD_WATCHES_MAX watches, the sizes in etcd_options. */
#ifndef TN_ETCD_ETCD_H
#define TN_ETCD_ETCD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"

#define ETCD_CALLS_MAX 16u
#define ETCD_WATCHES_MAX 8u
#define ETCD_COMPARES_MAX 16u /* of one transaction */
#define ETCD_OPS_MAX 32u      /* maximum operations of one branch of a transaction */
#define ETCD_MESSAGE_MAX 256u /* bytes of a message for people, with its NUL */
#define ETCD_NEVER UINT64_MAX

/* What is known about a call. */
enum etcd_outcome {
    ETCD_DONE,           /* carried out; a transaction: the compares held */
    ETCD_COMPARE_FAILED, /* a transaction only: a compare failed, `otherwise` was carried out */
    ETCD_SURELY_NOT,     /* not carried out, and it never will be */
    /* The call may have been carried out, or may be carried out later; a read has no answer. With
     * ETCD_NOSPACE: it may have been carried out, but will not be later, so a linearizable read
     * resolves the doubt. */
    ETCD_DOUBT,
};

/* Why a call was not done, or why a watch ended. */
#define ETCD_REASON_TABLE(X)                                                 \
    X(NONE, "none")                                                          \
    X(UNREACHABLE, "no endpoint could be reached in time")                   \
    X(UNTRUSTED, "the TLS certificates were not accepted")                   \
    X(NOSPACE, "etcd has no space left (its quota is used up)")              \
    X(BUSY, "etcd has too many requests; try again later")                   \
    X(TOO_LARGE, "the message is larger than allowed")                       \
    X(DENIED, "etcd denies access")                                          \
    X(INVALID, "etcd does not accept the request")                           \
    X(COMPACTED, "the requested revision has been compacted")                \
    X(FUTURE, "the requested revision is in the future")                     \
    X(TIMEOUT, "no answer before the deadline")                              \
    X(LOST, "the connection was lost")                                       \
    X(SERVER, "etcd could not tell the outcome (no leader, timeout, error)") \
    X(PROTOCOL, "the answer is not one that etcd gives")                     \
    X(CANCELED, "canceled by etcd")

enum etcd_reason {
#define ETCD_REASON_ENUM(name, text) ETCD_##name,
    ETCD_REASON_TABLE(ETCD_REASON_ENUM)
#undef ETCD_REASON_ENUM
        ETCD_REASON_COUNT
};

const char *etcd_outcome_name(enum etcd_outcome outcome);
const char *etcd_reason_name(enum etcd_reason reason);
const char *etcd_reason_text(enum etcd_reason reason);

/* ---- Requests ---- */

/* One key if `end` is empty, else the keys key <= k < end; an `end` of one zero byte: no end. */
struct etcd_keys {
    struct tn_bytes key;
    struct tn_bytes end;
};

/* The end of the range of all keys that begin with `prefix`, written to `out` (prefix.len bytes):
 * {prefix, etcd_prefix_end(prefix, out)}. The prefix is neither empty nor all 0xff. */
struct tn_bytes etcd_prefix_end(struct tn_bytes prefix, uint8_t *out);

/* Guards are about values and existence, never about revisions: those can differ between members. */
enum etcd_compare_kind {
    ETCD_VALUE_IS, /* the key exists and has this value */
    ETCD_ABSENT,   /* the key does not exist */
};

struct etcd_compare {
    enum etcd_compare_kind kind;
    struct tn_bytes key;
    struct tn_bytes value;
};

enum etcd_op_kind { ETCD_PUT, ETCD_GET, ETCD_DELETE };

struct etcd_op {
    enum etcd_op_kind kind;
    struct etcd_keys keys; /* ETCD_PUT: one key */
    struct tn_bytes value; /* ETCD_PUT */
    uint32_t limit;        /* ETCD_GET: at most this many keys; 0: all */
};

struct etcd_txn {
    const struct etcd_compare *compares; /* all must hold */
    const struct etcd_op *then;
    const struct etcd_op *otherwise;
    uint32_t compare_count;
    uint32_t then_count;
    uint32_t otherwise_count;
};

struct etcd_range {
    struct etcd_keys keys;
    int64_t revision;  /* 0: the newest */
    uint32_t limit;    /* 0: all */
    bool serializable; /* the state of this member, which may be old; otherwise linearizable */
    bool keys_only;
};

enum etcd_verb {
    ETCD_TXN,
    ETCD_RANGE,
    ETCD_COMPACT, /* drops what is older than `revision` */
    ETCD_STATUS,  /* the status of the member to which this client is connected */
};

struct etcd_request {
    enum etcd_verb verb;
    union {
        struct etcd_txn txn;
        struct etcd_range range;
        int64_t revision; /* ETCD_COMPACT */
    };
};

/* ---- Answers ---- */

struct etcd_header {
    uint64_t cluster_id;
    uint64_t member_id;
    int64_t revision; /* revision of the store when the member answered */
    uint64_t raft_term;
};

struct etcd_kv {
    struct tn_bytes key;
    struct tn_bytes value;
    int64_t create_revision;
    int64_t mod_revision;
    int64_t version;
};

/* What a range or an ETCD_GET found, by key. */
struct etcd_found {
    const struct etcd_kv *kvs;
    uint32_t count;
    bool more;     /* the limit cut it off */
    int64_t total; /* keys in the range, beyond the limit too */
};

/* What one operation of a transaction's branch did. */
struct etcd_op_answer {
    enum etcd_op_kind kind;
    struct etcd_found found; /* ETCD_GET */
    int64_t deleted;         /* ETCD_DELETE: how many keys */
};

struct etcd_status {
    struct tn_bytes version; /* version of the server, such as "3.4.23" */
    int64_t db_bytes;        /* the size of its file, which the quota limits */
    int64_t db_bytes_used;   /* the size after a defragmentation */
    uint64_t leader;         /* member id; 0: the member knows no leader */
    uint64_t raft_index;
    bool learner;
};

struct etcd_answer {
    enum etcd_verb verb;
    enum etcd_outcome outcome;
    enum etcd_reason reason; /* ETCD_NONE if done or compare failed */
    int grpc_status;         /* as sent by the member; -1: none was sent */
    const char *message;     /* one line for people; "" if there is none */
    uint64_t connection;     /* the connection that answered, for etcd_watch_options; 0: none did */

    /* If done or compare failed: */
    struct etcd_header header;
    struct etcd_found found;          /* ETCD_RANGE */
    const struct etcd_op_answer *ops; /* ETCD_TXN: one for each operation of the branch */
    uint32_t op_count;
    struct etcd_status status; /* ETCD_STATUS */
};

typedef void etcd_done(void *ctx, const struct etcd_answer *answer);

/* ---- Watches ---- */

struct etcd_watch_options {
    struct etcd_keys keys;
    int64_t start_revision; /* the first one wanted; 0: from now on */
    /* The connection whose answer had start_revision - 1: if the client has another by now, the
     * watch ends at once, because revisions can differ between members. 0: any connection. */
    uint64_t connection;
    uint64_t deadline_ms; /* for being created */
};

struct etcd_change {
    bool deleted;
    struct etcd_kv kv; /* for a deleted key, only the key and mod_revision */
};

enum etcd_news_kind {
    ETCD_WATCH_CREATED,
    ETCD_WATCH_CHANGES,
    /* Nothing new up to header.revision. Members before 3.4.25 may say so too early while the watch
     * catches up, so it is a sign of life, not a position to continue from. */
    ETCD_WATCH_PROGRESS,
    ETCD_WATCH_ENDED, /* the last message; the watch has ended */
};

struct etcd_news {
    enum etcd_news_kind kind;
    struct etcd_header header;
    const struct etcd_change *changes; /* in order of revision */
    uint32_t change_count;
    bool partial;             /* more changes of the last revision follow in the next news */
    enum etcd_reason reason;  /* ETCD_WATCH_ENDED */
    int64_t compact_revision; /* with ETCD_COMPACTED: the oldest revision that can be watched */
    const char *message;      /* for people; "" if there is none */
};

typedef void etcd_watched(void *ctx, const struct etcd_news *news);

/* ---- The client ---- */

#define ETCD_VERSION_MAX 31u /* bytes of a member's version that are kept */

struct etcd_info {
    uint64_t connection;                /* 0: none is ready */
    char endpoint[128];                 /* the current one, or the one being tried */
    uint64_t member_id;                 /* id of the member; 0: not known yet */
    uint64_t leader;                    /* according to that member; 0: none, or not known */
    int64_t db_bytes;                   /* according to that member */
    char version[ETCD_VERSION_MAX + 1]; /* version of that member; "": not known yet */
    uint64_t connects;                  /* connections that became ready */
    uint64_t doubts;                    /* calls that ended in doubt */
    enum etcd_reason trouble; /* why the last attempt to connect failed; ETCD_NONE: connected */
    char trouble_text[ETCD_MESSAGE_MAX];
};

struct pollfd;
struct etcd;

struct etcd_verbs {
    enum tn_status (*submit)(struct etcd *etcd, const struct etcd_request *request,
                             uint64_t deadline_ms, etcd_done *done, void *ctx);
    enum tn_status (*watch)(struct etcd *etcd, const struct etcd_watch_options *options,
                            etcd_watched *watched, void *ctx, uint64_t *ret_watch);
    void (*watch_progress)(struct etcd *etcd, uint64_t watch);
    void (*watch_cancel)(struct etcd *etcd, uint64_t watch);
    void (*leave)(struct etcd *etcd);
    void (*step)(struct etcd *etcd, uint64_t now_ms);
    uint64_t (*next_ms)(const struct etcd *etcd);
    unsigned (*poll_set)(const struct etcd *etcd, struct pollfd *out, unsigned max);
    void (*info)(const struct etcd *etcd, struct etcd_info *ret_info);
    void (*close)(struct etcd *etcd);
};

/* The first member of every implementation. */
struct etcd {
    const struct etcd_verbs *verbs;
};

/* Submits a call. TN_OK: `done` will be called. TN_OVERLOAD: ETCD_CALLS_MAX calls are in flight.
 * TN_INVALID: larger than the client's request_bytes_max. TN_NOMEM. */
static inline enum tn_status etcd_submit(struct etcd *etcd, const struct etcd_request *request,
                                         uint64_t deadline_ms, etcd_done *done, void *ctx) {
    return etcd->verbs->submit(etcd, request, deadline_ms, done, ctx);
}

/* Begins a watch; `watched` receives the rest. Results as for etcd_submit. */
static inline enum tn_status etcd_watch(struct etcd *etcd, const struct etcd_watch_options *options,
                                        etcd_watched *watched, void *ctx, uint64_t *ret_watch) {
    return etcd->verbs->watch(etcd, options, watched, ctx, ret_watch);
}

/* Asks for ETCD_WATCH_PROGRESS. Of no effect on a watch that has ended or is not created yet. */
static inline void etcd_watch_progress(struct etcd *etcd, uint64_t watch) {
    etcd->verbs->watch_progress(etcd, watch);
}

/* Ends a watch without further news. Of no effect on one that has ended. */
static inline void etcd_watch_cancel(struct etcd *etcd, uint64_t watch) {
    etcd->verbs->watch_cancel(etcd, watch);
}

/* Leaves this member for the next endpoint at the next step, for a caller that distrusts it. Calls
 * in flight end in doubt, watches end. */
static inline void etcd_leave(struct etcd *etcd) {
    etcd->verbs->leave(etcd);
}

/* Does all that can be done at now_ms without waiting. The time never goes back. */
static inline void etcd_step(struct etcd *etcd, uint64_t now_ms) {
    etcd->verbs->step(etcd, now_ms);
}

/* When to step even if no descriptor is ready; ETCD_NEVER. Not later than the next deadline. */
static inline uint64_t etcd_next_ms(const struct etcd *etcd) {
    return etcd->verbs->next_ms(etcd);
}

/* The descriptors and events to poll for; how many there are (at most ETCD_POLL_MAX). */
#define ETCD_POLL_MAX 8u
static inline unsigned etcd_poll_set(const struct etcd *etcd, struct pollfd *out, unsigned max) {
    return etcd->verbs->poll_set(etcd, out, max);
}

static inline void etcd_info(const struct etcd *etcd, struct etcd_info *ret_info) {
    etcd->verbs->info(etcd, ret_info);
}

static inline void etcd_close(struct etcd *etcd) {
    etcd->verbs->close(etcd);
}

#endif
