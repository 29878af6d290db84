/* The state of the replicated log, private to the files of this room.
 *
 *   replica.c         opening, closing, the verbs, requests of other threads, the thread
 *   replica_swap.c    from facts to effects: transactions on the head, appends, reads of the head
 *   replica_follow.c  first contact; reading and watching what other owners append
 *   replica_begin.c   beginning a cluster; a cluster whose etcd was put back
 *   replica_keep.c    the node's record, the table of nodes, trimming, compaction, quota
 *   replica_ask.c     requests of other threads that need etcd: notes, forgetting a node
 *   replica_seed.c    before all that: beginning with a snapshot of another node
 *   replica_trouble.c why this node does not take part
 *   replica_copy.c    the local copy, its thread, the file `replica`, the snapshot store
 *
 * Threads and what belongs to them
 *   the log's own     both clients of etcd, owner, follow, keep, position, calls. It runs replica_turn
 *                     and everything that etcd_step calls back. Tests run it by hand.
 *   the copier        writes to the local log; takes from `copy.first`
 *   the engine's      call the verbs: they touch what `lock` guards and what is atomic
 *   snapshot's        calls the store: it waits for the copier, and writes the file
 *
 * Locks, none held while another one is taken, none during I/O but file_lock, none during a callback
 *   lock              the requests of other threads, and what they may look at
 *   copy.lock         the queue to the copier and how far it is
 *   file_lock         writing the file `replica` */
#ifndef TN_REPLICA_REPLICA_STATE_H
#define TN_REPLICA_REPLICA_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "etcd/etcd.h"
#include "replica/replica.h"
#include "replica/replica_file.h"
#include "replica/replica_owner.h"

#define REPLICA_CALL_MS 500u    /* deadline of a call that changes the head */
#define REPLICA_READ_MS 2000u   /* deadline of a read of batches */
#define REPLICA_DOUBT_MS 10000u /* after which the outcome of a swap is given up */
#define REPLICA_BEAT_MS 5000u   /* between two records of this node */
#define REPLICA_ASK_MS 5000u    /* a request of another thread waits this long */
#define REPLICA_QUEUE_BYTES (64u << 20)
#define REPLICA_CALLS 8u
#define REPLICA_MARKS 512u

/* A key under the prefix. */
struct replica_key {
    uint32_t len;
    char at[REPLICA_PREFIX_MAX + 64];
};

/* A batch on its way: encoded as etcd has it. */
struct replica_item {
    struct replica_item *next;
    struct log_batch batch; /* its payload is in `value` */
    uint64_t chain;         /* after it */
    uint64_t epoch;
    uint64_t trim; /* for an append: all batches before this LSN are deleted with it; 0: none */
    uint32_t len;
    uint8_t value[];
};

/* A call to etcd in flight, for its callback. */
struct replica_call {
    struct replica *replica;
    bool used;
    bool is_read;
    uint64_t number;
    uint64_t sent_ns;
};

/* A request of another thread, on its stack. */
enum replica_ask_kind { REPLICA_ASK_GET, REPLICA_ASK_PUT, REPLICA_ASK_DELETE };

struct replica_ask {
    struct replica_ask *next;
    struct replica *replica;
    enum replica_ask_kind kind;
    struct replica_key key;
    struct tn_bytes value;
    uint8_t *out;
    size_t max, len;
    uint64_t until_ms;
    bool under_way, finished; /* PUT: it rides on a swap */
    enum tn_status status;
};

enum replica_follow_state {
    FOLLOW_IDLE,     /* nothing is in flight; `next_ms` says when to read */
    FOLLOW_READING,  /* a read is in flight */
    FOLLOW_WATCHING, /* a watch is */
};

struct replica_follow {
    enum replica_follow_state state;
    uint64_t next_ms;
    uint64_t watch;
    uint64_t floor_lsn; /* position when the read was sent: its head cannot be earlier */
    uint64_t behind_ms; /* since when another read has found more than the watch; 0: it has not */
    unsigned bad;       /* values in a row that were damaged or did not fit, at different members */
    bool stopped;       /* for good */
};

/* First contact, step by step. */
enum replica_begin_state {
    BEGIN_CONTACT,  /* the kind of the cluster must be read first */
    BEGIN_LOOKING,  /* init: is the prefix empty? restored: read the current head */
    BEGIN_WAITING,  /* restored: whether an owner renews the head */
    BEGIN_SWAPPING, /* the transaction that makes or replaces the head */
    BEGIN_DONE,
};

struct replica_begin {
    enum replica_begin_state state;
    bool under_way;
    uint64_t next_ms;
    struct replica_head found, head; /* restored: the existing head, and the one to put */
    bool has_found;
};

/* Where in the log how many bytes of batches are: for the size of what etcd keeps. */
struct replica_mark {
    uint64_t lsn;
    uint64_t bytes;
};

struct replica_keep {
    bool beating, listing, trimming, compacting;
    uint64_t beat_ms, list_ms, trim_ms, compact_ms;
    uint64_t listed_ms;                   /* when the table of nodes was last read */
    uint64_t beat, began_ms;              /* beat of the last record; when this process began */
    uint8_t said[REPLICA_NODE_BYTES_MAX]; /* this node's record as etcd has it, as far as known */
    uint32_t said_len;
    uint8_t saying[REPLICA_NODE_BYTES_MAX]; /* the record in flight */
    uint32_t saying_len;
    bool named;  /* this instance has put its record */
    bool denied; /* etcd does not let it */
    /* The record of another instance, before this one has put its own: since when it exists. */
    struct replica_nonce rival;
    uint64_t rival_beat, rival_ms; /* 0: none was found */
    bool oldest_known;  /* since this node owns the log, etcd has named the oldest batch */
    uint64_t trimmed;   /* all batches before this LSN have been deleted, as far as known */
    uint64_t trim_goal; /* position up to which batches may be deleted */
    uint64_t trim_next; /* position up to which the next swap may delete; 0: nothing */
    int64_t revision, revision_before; /* etcd's revision now, and at the last compaction */
    uint64_t bytes, bytes_compacted;   /* bytes of batches seen; the same at the last compaction */
    struct replica_mark marks[REPLICA_MARKS];
    unsigned mark_count;
    uint64_t mark_bytes;
    bool warned, full, skewed;
    unsigned log_full_looks; /* in a row: appends were refused because of too few snapshots */
    /* the node that was named as the reason; empty: this one */
    char log_full_of[REPLICA_NODE_MAX + 1];
    uint64_t differs; /* digest of another node's configuration that was reported as different */
};

struct replica_copy {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool has_thread, stop, writable, busy;
    struct replica_item *first, *last;
    uint64_t bytes;
    enum tn_status failed;
    uint64_t lsn, chain, epoch; /* what the local log has durably */
    bool chain_known;
    bool starved;     /* the log's thread waits for room */
    bool full;        /* the disk was when the oldest item was last tried */
    uint64_t full_ms; /* since when */
    bool closed;      /* the file says so */
};

struct replica {
    struct log log; /* first: what the engine holds */
    struct log_verbs verbs;
    struct log_store store;

    /* Constant after opening. */
    struct replica_options options; /* texts are in `texts` */
    char *texts;
    const struct os *os;
    struct log *local;
    struct log_store *local_store;
    bool manual; /* no threads */
    int wake;    /* eventfd */
    pthread_t thread;
    bool has_thread;
    const struct log_follower *follower;
    struct replica_nonce instance;
    uint8_t boot_id[LOG_BOOT_ID_BYTES];

    /* The log's thread. */
    struct etcd *writer, *watcher;
    struct replica_owner owner;
    bool begun; /* owner is: the cluster is known to be ours, and the local copy can be written */
    struct replica_call calls[REPLICA_CALLS];
    bool swap_unsent, read_unsent; /* the call could not be sent: reported as LATER or UNREAD */
    uint64_t unsent_number;
    struct replica_ask *riding;    /* a note that the swap in flight puts */
    struct replica_head riding_on; /* that swap's head */
    struct replica_item *appending;
    log_committed *append_done;
    void *append_ctx;
    struct replica_follow follow;
    struct replica_begin begin;
    struct replica_keep keep;
    uint64_t nonces;
    uint64_t now_ms;
    char etcd_told[2][ETCD_VERSION_MAX + 1]; /* for each client: the version it has warned about */
    uint64_t unreachable_ms;                 /* since when etcd has not answered; 0: it answers */
    char leader_told[LOG_LEADER_MAX + 1];
    char denied[ETCD_MESSAGE_MAX]; /* etcd's words when it last refused a swap for good */
    bool owned_told, ever_told;
    bool closing;     /* the follower gets no more calls */
    bool disk_barred; /* the local copy has no room */
    bool close_waits; /* the cluster was closed by this node, whose copy is not complete yet */

    /* From load on used by the log's thread, before it by the loading thread. */
    struct replica_file file; /* as it was found at the start */
    bool has_file;
    uint64_t load_chain;
    bool load_chain_known;
    const struct log_loader *loader; /* during load */

    _Atomic uint64_t valid_until_ms;
    _Atomic uint64_t clean_epoch;
    _Atomic uint64_t config_digest;
    _Atomic bool beat_now;    /* the record has changed */
    _Atomic bool closes_next; /* the next resign closes the cluster */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Guarded by lock. */
    struct log_position position; /* applied; written by the log's thread only */
    uint64_t chain;
    bool chain_known;
    /* Appends are accepted: this node owns the log, and its engine has not been told otherwise. */
    bool takes;
    bool stop;
    struct {
        bool pending;
        struct log_batch batch;
        log_committed *done;
        void *ctx;
    } asked;
    bool resign_asked, resign_closes, resign_over;
    enum tn_status resign_status;
    struct replica_ask *asks;
    uint64_t lead_now_ms, lead_stamp_ms; /* of the takeover */
    uint64_t lead_fenced_ms;             /* see log_succession */
    uint64_t lead_epoch;
    bool lead_heard;
    struct replica_standing standing;
    uint64_t fresh_ms; /* when this node last had everything that a live owner had committed */
    bool was_fresh;    /* that has happened since the start */
    uint64_t call_ns_sum, call_histogram[LOG_CALL_BUCKETS + 1];
    struct replica_node nodes[REPLICA_NODES_MAX];
    unsigned node_count;

    struct replica_copy copy;
    pthread_mutex_t file_lock;
};

static inline struct replica *replica_of(struct log *log) {
    return (struct replica *)log;
}

static inline struct replica *replica_of_store(struct log_store *store) {
    return (struct replica *)(void *)((char *)store - offsetof(struct replica, store));
}

/* What is applied, as an LSN of the head: LSNs that were passed over count. */
static inline uint64_t replica_applied(const struct replica *r) {
    return r->position.next_lsn - 1;
}

/* replica.c, replica_trouble.c */
void replica_lock(struct replica *r);
void replica_unlock(struct replica *r);
void replica_wake(struct replica *r);
__attribute__((format(printf, 2, 3))) void replica_notice(struct replica *r, const char *format,
                                                          ...);
/* Notes why this node does not take part, and logs it once. A final one ends following. */
__attribute__((format(printf, 3, 4))) void replica_in_trouble(struct replica *r,
                                                              enum replica_trouble trouble,
                                                              const char *format, ...);
/* The same trouble is told again if it comes with other details. False: this node is not in that trouble. */
bool replica_trouble_anew(struct replica *r, enum replica_trouble trouble);
/* Ends this trouble if it is the current one. */
void replica_trouble_over(struct replica *r, enum replica_trouble trouble);
bool replica_is_stopped(struct replica *r); /* Whether a final trouble has stopped this node. */
void replica_nonce_next(struct replica *r, struct replica_nonce *ret_nonce);
struct replica_key replica_key_of(const struct replica *r, const char *name);
struct replica_key replica_key_log(const struct replica *r, uint64_t first_lsn);
static inline struct tn_bytes replica_key_bytes(const struct replica_key *key) {
    return tn_bytes_of(key->at, key->len);
}

/* The time now, at the beginning of a callback: what follows counts from it. */
void replica_clock(struct replica *r);
void replica_answered(struct replica *r); /* etcd has answered */
void replica_unanswered(struct replica *r, const struct etcd_answer *answer);
/* Whether the versions of the members behind both connections, as far as known, can be used. */
bool replica_etcd_suits(struct replica *r);
/* A newer program owns the log. */
void replica_version_refuse(struct replica *r, const struct replica_head *head);

/* replica_swap.c */
void replica_swap_begin(struct replica *r); /* the owner's decisions, from first contact on */
void replica_tell(struct replica *r, const struct replica_fact *fact);
void replica_tell_kind(struct replica *r, enum replica_fact_kind kind);
void replica_tell_applied(struct replica *r);
void replica_swap_turn(struct replica *r);
uint64_t replica_swap_next_ms(const struct replica *r);
void replica_leader_tell(struct replica *r);
/* Whether this node may take over: its copy has room, and its name is its own. */
void replica_bar_update(struct replica *r);
/* Ends the append that waits, if there is one. */
void replica_append_refuse(struct replica *r, enum tn_status status);

/* replica_follow.c */
void replica_follow_turn(struct replica *r);
uint64_t replica_follow_next_ms(const struct replica *r);
void replica_follow_restart(struct replica *r, uint64_t in_ms);
/* A value cannot be what a sound store has: asks another member, or gives up. */
void replica_follow_distrust(struct replica *r, enum replica_trouble trouble, const char *what);

/* replica_begin.c */
/* Judges what the cluster's keys are; from BEGIN_DONE on this node takes part. */
void replica_begin_contact(struct replica *r, const struct replica_head *head,
                           const uint8_t cluster[REPLICA_CLUSTER_BYTES]);
void replica_begin_turn(struct replica *r);
uint64_t replica_begin_next_ms(const struct replica *r);

/* replica_keep.c */
void replica_keep_turn(struct replica *r);
uint64_t replica_keep_next_ms(const struct replica *r);
void replica_keep_lead(struct replica *r); /* this node owns the log from now on */
/* A batch of this size was seen or appended. */
void replica_keep_count(struct replica *r, uint64_t last_lsn, uint64_t bytes);
/* What an append may delete. */
uint64_t replica_keep_trim(struct replica *r);
void replica_keep_trimmed(struct replica *r, uint64_t lsn);
/* Whether an append must be refused for space. */
bool replica_keep_is_full(struct replica *r);

/* replica_ask.c */
/* The note to put with the next swap; NULL if there is none. */
struct replica_ask *replica_ask_next_put(struct replica *r);
void replica_ask_finish(struct replica_ask *ask, enum tn_status status);
enum tn_status replica_note_get(struct log *log, const char *name, uint8_t *out, uint32_t room,
                                uint32_t *ret_len);
enum tn_status replica_note_put(struct log *log, const char *name, struct tn_bytes value);
bool replica_confirm(struct log *log);
void replica_ask_turn(struct replica *r);
void replica_ask_end(struct replica *r); /* Ends all of them, when the log is closed. */

/* replica_copy.c */
void replica_copy_init(struct replica *r);
enum tn_status replica_copy_start(struct replica *r);
/* Lets the local log be written from now on: TN_OK, or its error. */
enum tn_status replica_copy_lead(struct replica *r, struct log_error *error);
/* False: the queue is full; the log's thread is woken when it is not. */
bool replica_copy_room(struct replica *r);
void replica_copy_push(struct replica *r, struct replica_item *item);
enum tn_status replica_copy_status(struct replica *r);
/* The disk of the local copy: nothing waits for it; busy; full; full for longer than T, or until the queue
 * was full too. */
enum replica_disk {
    REPLICA_DISK_DRAINED,
    REPLICA_DISK_BUSY,
    REPLICA_DISK_FULL,
    REPLICA_DISK_STUCK
};
enum replica_disk replica_copy_disk(struct replica *r);
/* Called before anything is pushed: the chain at the end of the local log, if it is known, and the flag. */
void replica_copy_set(struct replica *r, uint64_t chain, bool closed);
/* The position of the local log, and the bytes that wait for it. */
void replica_copy_figures(struct replica *r, uint64_t *ret_lsn, uint64_t *ret_queue_bytes);
uint64_t replica_copy_lsn(struct replica *r);
/* Whether the local log has this position; if not, the log's thread is woken when that changes. */
bool replica_copy_has(struct replica *r, uint64_t lsn);
/* Writes the file: what the local log has. */
enum tn_status replica_copy_save(struct replica *r, bool closed);
void replica_copy_drain(struct replica *r); /* without a thread: by hand */
/* Verbs of the log: the files of the local copy. */
enum tn_status replica_hold(struct log *log, struct log_held *ret_held);
void replica_release(struct log *log);
bool replica_copy_close(struct replica *r); /* waits for the queue, closes the local log */
struct replica_item *replica_item_new(uint32_t value_len);
extern const struct log_store_verbs replica_store_verbs;

#endif
