#include "lib/fakeetcd_store.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"

/* ---- Bytes and entries ---- */

static int compare(struct tn_bytes a, struct tn_bytes b) {
    uint32_t len = a.len < b.len ? a.len : b.len;
    int order = len > 0 ? memcmp(a.at, b.at, len) : 0;
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

bool fakestore_holds(const struct etcd_keys *keys, struct tn_bytes key) {
    if (keys->end.len == 0) {
        return tn_bytes_equal(keys->key, key);
    }
    bool endless = keys->end.len == 1 && keys->end.at[0] == 0;
    return compare(key, keys->key) >= 0 && (endless || compare(key, keys->end) < 0);
}

struct tn_bytes fakestore_key(const struct fakestore_entry *entry) {
    return tn_bytes_of(entry->bytes, entry->key_len);
}

struct tn_bytes fakestore_value(const struct fakestore_entry *entry) {
    return tn_bytes_of(entry->bytes + entry->key_len, entry->value_len);
}

static struct fakestore_entry *entry_new(struct tn_bytes key, struct tn_bytes value) {
    struct fakestore_entry *entry = malloc(sizeof *entry + key.len + value.len);
    TN_ASSERT(entry != NULL);
    *entry = (struct fakestore_entry){.key_len = key.len, .value_len = value.len};
    memcpy(entry->bytes, key.at, key.len);
    if (value.len > 0) {
        memcpy(entry->bytes + key.len, value.at, value.len);
    }
    return entry;
}

static struct fakestore_entry *entry_use(struct fakestore_entry *entry) {
    entry->users++;
    return entry;
}

static void entry_drop(struct fakestore_entry *entry) {
    if (--entry->users == 0) {
        free(entry);
    }
}

static void *grown(void *at, size_t count, size_t *capacity) {
    if (count < *capacity) {
        return at;
    }
    *capacity = *capacity == 0 ? 64 : *capacity * 2;
    at = realloc(at, *capacity * sizeof(struct fakestore_entry *));
    TN_ASSERT(at != NULL);
    return at;
}

/* ---- The store ---- */

void fakestore_init(struct fakestore *store) {
    *store = (struct fakestore){.revision = 1};
}

void fakestore_free(struct fakestore *store) {
    for (size_t i = 0; i < store->history_count; i++) {
        entry_drop(store->history[i]);
    }
    for (size_t i = 0; i < store->live_count; i++) {
        entry_drop(store->live[i]);
    }
    free(store->history);
    free(store->live);
    fakestore_init(store);
}

void fakestore_copy(struct fakestore *to, const struct fakestore *from) {
    *to = (struct fakestore){.revision = from->revision, .compacted = from->compacted};
    for (size_t i = 0; i < from->history_count; i++) {
        to->history = grown(to->history, i, &to->history_capacity);
        to->history[to->history_count++] = entry_use(from->history[i]);
    }
    for (size_t i = 0; i < from->live_count; i++) {
        to->live = grown(to->live, i, &to->live_capacity);
        to->live[to->live_count++] = entry_use(from->live[i]);
    }
}

/* The index of the key, or where it belongs. */
static size_t live_find(const struct fakestore *store, struct tn_bytes key) {
    size_t low = 0;
    size_t high = store->live_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (compare(fakestore_key(store->live[middle]), key) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool live_is(const struct fakestore *store, size_t at, struct tn_bytes key) {
    return at < store->live_count && compare(fakestore_key(store->live[at]), key) == 0;
}

const struct fakestore_entry *fakestore_get(const struct fakestore *store, struct tn_bytes key) {
    size_t at = live_find(store, key);
    return live_is(store, at, key) ? store->live[at] : NULL;
}

static void history_add(struct fakestore *store, struct fakestore_entry *entry) {
    store->history = grown(store->history, store->history_count, &store->history_capacity);
    store->history[store->history_count++] = entry_use(entry);
}

static void put(struct fakestore *store, struct tn_bytes key, struct tn_bytes value,
                int64_t revision) {
    size_t at = live_find(store, key);
    struct fakestore_entry *entry = entry_new(key, value);
    entry->revision = entry->create_revision = revision;
    entry->version = 1;
    if (live_is(store, at, key)) {
        entry->create_revision = store->live[at]->create_revision;
        entry->version = store->live[at]->version + 1;
        entry_drop(store->live[at]);
    } else {
        store->live = grown(store->live, store->live_count, &store->live_capacity);
        memmove(&store->live[at + 1], &store->live[at],
                (store->live_count - at) * sizeof(struct fakestore_entry *));
        store->live_count++;
    }
    store->live[at] = entry_use(entry);
    history_add(store, entry);
}

static int64_t delete_range(struct fakestore *store, const struct etcd_keys *keys,
                            int64_t revision) {
    int64_t deleted = 0;
    size_t at = live_find(store, keys->key);
    while (at < store->live_count && fakestore_holds(keys, fakestore_key(store->live[at]))) {
        struct fakestore_entry *entry =
            entry_new(fakestore_key(store->live[at]), (struct tn_bytes){0});
        entry->revision = revision;
        entry->deleted = true;
        history_add(store, entry);
        entry_drop(store->live[at]);
        memmove(&store->live[at], &store->live[at + 1],
                (store->live_count - at - 1) * sizeof(struct fakestore_entry *));
        store->live_count--;
        deleted++;
    }
    return deleted;
}

/* ---- Reading ---- */

static struct tn_bytes bytes_copy(struct etcd_arena *arena, struct tn_bytes bytes) {
    uint8_t *at = etcd_arena_take(arena, bytes.len);
    TN_ASSERT(at != NULL);
    if (bytes.len > 0) {
        memcpy(at, bytes.at, bytes.len);
    }
    return tn_bytes_of(at, bytes.len);
}

static struct etcd_kv kv_copy(struct etcd_arena *arena, const struct fakestore_entry *entry,
                              bool keys_only) {
    struct tn_bytes value = keys_only ? tn_bytes_of(NULL, 0) : fakestore_value(entry);
    return (struct etcd_kv){
        .key = bytes_copy(arena, fakestore_key(entry)),
        .value = bytes_copy(arena, value),
        .create_revision = entry->create_revision,
        .mod_revision = entry->revision,
        .version = entry->version,
    };
}

static void found_fill(struct etcd_found *found, struct etcd_arena *arena,
                       struct fakestore_entry *const *entries, size_t count,
                       const struct etcd_range *range) {
    uint32_t shown = range->limit > 0 && range->limit < count ? range->limit : (uint32_t)count;
    struct etcd_kv *kvs = etcd_arena_array(arena, shown, sizeof *kvs);
    TN_ASSERT(kvs != NULL);
    for (uint32_t i = 0; i < shown; i++) {
        kvs[i] = kv_copy(arena, entries[i], range->keys_only);
    }
    *found = (struct etcd_found){
        .kvs = kvs, .count = shown, .more = shown < count, .total = (int64_t)count};
}

/* As of now. */
static void range_now(const struct fakestore *store, const struct etcd_range *range,
                      struct etcd_arena *arena, struct etcd_found *found) {
    size_t first = live_find(store, range->keys.key);
    size_t end = first;
    while (end < store->live_count &&
           fakestore_holds(&range->keys, fakestore_key(store->live[end]))) {
        end++;
    }
    found_fill(found, arena, store->live + first, end - first, range);
}

/* As of an earlier revision: the history up to it, played again. */
static void range_then(const struct fakestore *store, const struct etcd_range *range,
                       struct etcd_arena *arena, struct etcd_found *found) {
    struct fakestore then = {0};
    for (size_t i = 0; i < store->history_count; i++) {
        struct fakestore_entry *entry = store->history[i];
        struct tn_bytes key = fakestore_key(entry);
        if (entry->revision > range->revision || !fakestore_holds(&range->keys, key)) {
            continue;
        }
        size_t at = live_find(&then, key);
        bool there = live_is(&then, at, key);
        if (there && !entry->deleted) {
            then.live[at] = entry;
        } else if (there) {
            memmove(&then.live[at], &then.live[at + 1],
                    (--then.live_count - at) * sizeof(struct fakestore_entry *));
        } else if (!entry->deleted) {
            then.live = grown(then.live, then.live_count, &then.live_capacity);
            memmove(&then.live[at + 1], &then.live[at],
                    (then.live_count++ - at) * sizeof(struct fakestore_entry *));
            then.live[at] = entry;
        }
    }
    found_fill(found, arena, then.live, then.live_count, range);
    free(then.live);
}

static void refuse(struct etcd_answer *answer, enum etcd_reason reason, int grpc_status,
                   const char *message) {
    answer->outcome = ETCD_SURELY_NOT;
    answer->reason = reason;
    answer->grpc_status = grpc_status;
    answer->message = message;
}

static void call_range(const struct fakestore *store, const struct etcd_range *range,
                       struct etcd_arena *arena, struct etcd_answer *answer) {
    if (range->revision > store->revision) {
        refuse(answer, ETCD_FUTURE, 11, "etcdserver: mvcc: required revision is a future revision");
    } else if (range->revision > 0 && range->revision < store->compacted) {
        refuse(answer, ETCD_COMPACTED, 11,
               "etcdserver: mvcc: required revision has been compacted");
    } else if (range->revision > 0 && range->revision < store->revision) {
        range_then(store, range, arena, &answer->found);
    } else {
        range_now(store, range, arena, &answer->found);
    }
}

/* ---- Transactions ---- */

/* What etcd takes for the keys of a deletion when it looks for clashes: it forgets that an end of one
 * zero byte is no end. */
static bool clash_holds(const struct etcd_keys *keys, struct tn_bytes key) {
    if (keys->end.len == 0) {
        return tn_bytes_equal(keys->key, key);
    }
    return compare(key, keys->key) >= 0 && compare(key, keys->end) < 0;
}

/* A branch may not put a key twice, nor put one that it also deletes. */
static bool branch_is_good(const struct etcd_op *ops, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < count && ops[i].kind == ETCD_PUT; k++) {
            bool clash = ops[k].kind == ETCD_DELETE || (ops[k].kind == ETCD_PUT && k != i);
            if (clash && clash_holds(&ops[k].keys, ops[i].keys.key)) {
                return false;
            }
        }
    }
    return true;
}

static bool compare_holds(const struct fakestore *store, const struct etcd_compare *compare_) {
    const struct fakestore_entry *entry = fakestore_get(store, compare_->key);
    if (compare_->kind == ETCD_ABSENT) {
        return entry == NULL;
    }
    return entry != NULL && tn_bytes_equal(fakestore_value(entry), compare_->value);
}

static void call_txn(struct fakestore *store, const struct etcd_txn *txn, struct etcd_arena *arena,
                     struct etcd_answer *answer) {
    bool holds = true;
    if (!branch_is_good(txn->then, txn->then_count) ||
        !branch_is_good(txn->otherwise, txn->otherwise_count)) {
        refuse(answer, ETCD_INVALID, 3, "etcdserver: duplicate key given in txn request");
        return;
    }
    for (uint32_t i = 0; i < txn->compare_count; i++) {
        holds &= compare_holds(store, &txn->compares[i]);
    }
    const struct etcd_op *ops = holds ? txn->then : txn->otherwise;
    uint32_t count = holds ? txn->then_count : txn->otherwise_count;
    struct etcd_op_answer *answers = etcd_arena_array(arena, count, sizeof *answers);
    int64_t revision = store->revision + 1;
    size_t before = store->history_count;
    TN_ASSERT(answers != NULL);
    for (uint32_t i = 0; i < count; i++) {
        struct etcd_range range = {.keys = ops[i].keys, .limit = ops[i].limit};
        answers[i].kind = ops[i].kind;
        if (ops[i].kind == ETCD_PUT) {
            put(store, ops[i].keys.key, ops[i].value, revision);
        } else if (ops[i].kind == ETCD_DELETE) {
            answers[i].deleted = delete_range(store, &ops[i].keys, revision);
        } else {
            range_now(store, &range, arena, &answers[i].found);
        }
    }
    store->revision = store->history_count > before ? revision : store->revision;
    answer->outcome = holds ? ETCD_DONE : ETCD_COMPARE_FAILED;
    answer->ops = answers;
    answer->op_count = count;
}

/* ---- Compaction ---- */

/* Is there a later change of the same key that the compaction keeps? */
static bool is_superseded(const struct fakestore *store, size_t at, int64_t revision) {
    for (size_t i = at + 1; i < store->history_count && store->history[i]->revision <= revision;
         i++) {
        if (compare(fakestore_key(store->history[i]), fakestore_key(store->history[at])) == 0) {
            return true;
        }
    }
    return false;
}

static void call_compact(struct fakestore *store, int64_t revision, struct etcd_answer *answer) {
    if (revision > store->revision) {
        refuse(answer, ETCD_FUTURE, 11, "etcdserver: mvcc: required revision is a future revision");
        return;
    }
    if (revision <= store->compacted) {
        refuse(answer, ETCD_COMPACTED, 11,
               "etcdserver: mvcc: required revision has been compacted");
        return;
    }
    store->compacted = revision;
    size_t kept = 0;
    for (size_t i = 0; i < store->history_count; i++) {
        struct fakestore_entry *entry = store->history[i];
        bool gone =
            entry->revision <= revision && (entry->deleted || is_superseded(store, i, revision));
        if (gone) {
            entry_drop(entry);
        } else {
            store->history[kept++] = entry;
        }
    }
    store->history_count = kept;
}

void fakestore_call(struct fakestore *store, const struct etcd_request *request,
                    struct etcd_arena *arena, struct etcd_answer *answer) {
    answer->outcome = ETCD_DONE;
    switch (request->verb) {
    case ETCD_TXN:
        call_txn(store, &request->txn, arena, answer);
        break;
    case ETCD_RANGE:
        call_range(store, &request->range, arena, answer);
        break;
    case ETCD_COMPACT:
        call_compact(store, request->revision, answer);
        break;
    case ETCD_STATUS:
        TN_ASSERT(false);
    }
    answer->header.revision = store->revision;
}

/* ---- Watches ---- */

size_t fakestore_find(const struct fakestore *store, int64_t revision) {
    size_t at = store->history_count;
    while (at > 0 && store->history[at - 1]->revision >= revision) {
        at--;
    }
    return at;
}

uint32_t fakestore_changes(const struct fakestore *store, const struct etcd_keys *keys, size_t *at,
                           int64_t up_to, struct etcd_change *changes, uint32_t max) {
    uint32_t count = 0;
    for (; *at < store->history_count && count < max; ++*at) {
        const struct fakestore_entry *entry = store->history[*at];
        if (entry->revision > up_to) {
            break;
        }
        if (fakestore_holds(keys, fakestore_key(entry))) {
            changes[count++] = (struct etcd_change){
                .deleted = entry->deleted,
                .kv = {.key = fakestore_key(entry),
                       .value = fakestore_value(entry),
                       .create_revision = entry->create_revision,
                       .mod_revision = entry->revision,
                       .version = entry->version},
            };
        }
    }
    return count;
}

uint64_t fakestore_hash(const struct fakestore *store) {
    uint64_t hash = (uint64_t)store->revision * 31 + (uint64_t)store->compacted;
    for (size_t i = 0; i < store->live_count; i++) {
        const struct fakestore_entry *entry = store->live[i];
        hash = tn_hash64(entry->bytes, entry->key_len + entry->value_len, hash);
        hash = hash * 31 + (uint64_t)entry->revision;
    }
    return hash;
}
