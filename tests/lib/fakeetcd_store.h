/* The store of the fake etcd: keys with revisions and history, like etcd's own. */
#ifndef TESTS_LIB_FAKEETCD_STORE_H
#define TESTS_LIB_FAKEETCD_STORE_H

#include "etcd/arena.h"
#include "etcd/etcd.h"

/* One change of one key; shared by copies of the store. */
struct fakestore_entry {
    unsigned users;
    bool deleted;
    int64_t create_revision, revision, version;
    uint32_t key_len, value_len;
    uint8_t bytes[]; /* key, value */
};

struct fakestore {
    int64_t revision;  /* 1 when empty, as in etcd */
    int64_t compacted; /* revisions below this one are compacted; 0: none */
    /* In order of revisions, and within a revision in order of operations. */
    struct fakestore_entry **history;
    size_t history_count, history_capacity;
    struct fakestore_entry **live; /* by key */
    size_t live_count, live_capacity;
};

void fakestore_init(struct fakestore *store);
void fakestore_free(struct fakestore *store);
void fakestore_copy(struct fakestore *to, const struct fakestore *from);

/* Carries a request out and fills in the answer: outcome, reason, message and the keys found, which
 * are in the arena. The store does not handle ETCD_STATUS. */
void fakestore_call(struct fakestore *store, const struct etcd_request *request,
                    struct etcd_arena *arena, struct etcd_answer *answer);

/* The history from this index on that a watch of these keys sees up to a revision: fills `changes`, at
 * most `max`, and returns how many; *at becomes the index after the last one looked at. */
uint32_t fakestore_changes(const struct fakestore *store, const struct etcd_keys *keys, size_t *at,
                           int64_t up_to, struct etcd_change *changes, uint32_t max);
/* The index of the first change of this revision or later. */
size_t fakestore_find(const struct fakestore *store, int64_t revision);

bool fakestore_holds(const struct etcd_keys *keys, struct tn_bytes key);
struct tn_bytes fakestore_key(const struct fakestore_entry *entry);
struct tn_bytes fakestore_value(const struct fakestore_entry *entry);
/* NULL if the key does not exist. */
const struct fakestore_entry *fakestore_get(const struct fakestore *store, struct tn_bytes key);
uint64_t fakestore_hash(const struct fakestore *store);

#endif
