/* A cluster in one thread: nodes with the real replicated log over a fake etcd, each with a disk,
 * clocks and a recorder in place of the engine, which keeps the ids of all commands in order of
 * their LSNs.
 *
 * Every append carries a new id, and the group remembers the outcome that the node got for it.
 * group_check compares these outcomes with the contents of the nodes. Everything follows from the
 * seed. */
#ifndef TESTS_LIB_REPLICAKIT_H
#define TESTS_LIB_REPLICAKIT_H

#include "base/prng.h"
#include "lib/fakeetcd.h"
#include "lib/fakeos.h"
#include "replica/replica.h"

#define GROUP_NODES 3u
#define GROUP_IDS 65536u
#define GROUP_TTL_MS 2000u
#define GROUP_PREFIX "/group/"
#define GROUP_STATE_VERSION 5u
#define GROUP_WALL_MS 1800000000000u /* the world's wall clock at world time 0 */

enum group_fate { GROUP_NONE, GROUP_PENDING, GROUP_OK, GROUP_NEVER, GROUP_UNKNOWN };

struct group_node {
    struct group *group;
    unsigned n;
    int64_t ppm; /* rate of its boot clock against the world's clock */
    struct fakeos *disk;
    struct os os; /* the os of `disk`, with this node's clocks */
    int64_t wall_off_ms;
    struct log *log; /* NULL: the node does not run */
    struct log_store *store;
    struct etcd *writer, *watcher;
    struct log_follower follower;
    uint64_t hangs_until_ms;
    uint64_t seeded_lsn; /* at its last start */
    bool seeding, fetch_fails;
    uint8_t fetch_damages; /* bits to flip in a byte in the middle of a fetched snapshot */

    /* The recorder: ids[lsn]; 0 where an LSN was passed over. */
    uint32_t *ids;
    uint64_t lsn, now_ms, shard;
    enum tn_status refuses; /* the status with which the next batch is answered */

    /* The engine's part. */
    bool owned, leads;
    char leader[LOG_LEADER_MAX + 1];
    uint64_t next_lsn, base_ms, base_boot_ms;
    bool appending;
    uint32_t append_id;
    uint64_t append_lsn, append_ms;
    uint8_t payload[16];
    char notice[1024]; /* all last lines of the log, newest first, truncated */
};

/* A user of the logs in place of the recorder. */
struct group_part {
    /* Loads and follows node->log. False: it has failed and closed the log, and the notice has the
     * reason. */
    bool (*open)(struct group_node *node);
    void (*close)(struct group_node *node);  /* stops, and closes the log */
    void (*before)(struct group_node *node); /* called before each turn of its log */
    void (*after)(struct group_node *node);
};

struct group {
    const struct group_part *part; /* set before the first start; NULL: the recorder */
    struct fakeetcd *fake;
    struct tn_prng prng;
    uint64_t now_ms;
    struct group_node nodes[GROUP_NODES];
    uint8_t *fates; /* by id */
    uint32_t id_last;
    unsigned done, never, unknown, leads;
    uint64_t early_ms; /* how far a batch was ahead of the true time, at most */
};

struct group_start {
    bool init, restored;
    bool seed;        /* fetch a snapshot if one is needed; if that fails, the node does not run */
    const char *name; /* NULL: "n1", "n2", "n3" */
    const char *prefix; /* NULL: GROUP_PREFIX */
    uint64_t place;     /* 0: n + 1 */
    uint32_t state_version;
    uint64_t log_bytes, quota_bytes;
};

void group_open(struct group *group, uint64_t seed);
void group_close(struct group *group);

/* Starts a node on its disk: opens, loads, follows. */
void group_start(struct group *group, unsigned n, const struct group_start *start);
/* As group_start. False: the start failed, and the node's notice has the reason. */
bool group_try_start(struct group *group, unsigned n, const struct group_start *start);
/* Ends a node: in good order, as if its machine lost power, or as if the process was killed. */
void group_stop(struct group *group, unsigned n);
void group_cut(struct group *group, unsigned n);
void group_kill(struct group *group, unsigned n);
/* An empty disk. */
void group_wipe(struct group *group, unsigned n);

/* Lets time pass, millisecond by millisecond. */
void group_run(struct group *group, uint64_t ms);
/* Lets time pass until `met` is true, for at most `ms`; returns whether it became true. */
typedef bool group_condition(struct group *group);
bool group_run_until(struct group *group, uint64_t ms, group_condition *met);

/* The node that owns the log now; NULL if no node does; fails if two nodes do. */
struct group_node *group_owner(struct group *group);
/* Runs until a node owns the log and leads it. */
struct group_node *group_await_owner(struct group *group, uint64_t ms);
/* Begins an append by a node that leads, with a new id; its end is reported later. 0: the append
 * could not begin. */
uint32_t group_append(struct group_node *node);
/* As group_append, and waits for the end of the append: its outcome. */
enum group_fate group_append_wait(struct group_node *node);
/* Repeats group_append_wait `count` times; each append must be acknowledged. */
void group_appends(struct group_node *owner, unsigned count);

/* Opens the group with seed 1; node 0 begins, the others join. Returns the owner when all nodes
 * take part. */
struct group_node *group_begin(struct group *group, unsigned nodes);
/* Whether every running node follows or owns the log and has caught up. */
bool group_takes_part(struct group *group);
enum replica_trouble group_trouble(const struct group_node *node);
/* Waits until all running nodes have everything, for at most `ms`; returns whether they do. */
bool group_settle(struct group *group, uint64_t ms);
void group_snapshot(struct group_node *node);
uint64_t group_boot_ms(const struct group_node *node);

/* Checks that acknowledged ids are on every running node that has caught up, refused ids on no
 * node, and that the contents of any two nodes are equal. */
void group_check(struct group *group);

#endif
