/* See nm_history.h. */
#include "nemesis/nm_history.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "log/local.h"
#include "nemesis/nm_world.h"
#include "os/os.h"

/* Makes room for one more element; the others move along. */
static void *grown(void *at, uint64_t count, size_t size, uint64_t *capacity) {
    if (count < *capacity) {
        return at;
    }
    *capacity = *capacity + *capacity / 2 + 1024;
    void *more = realloc(at, *capacity * size);
    TN_ASSERT(more != NULL);
    return more;
}

#define GROW(array, count, capacity)                            \
    do {                                                        \
        uint64_t room_ = (capacity);                            \
        (array) = grown(array, count, sizeof *(array), &room_); \
        (capacity) = (uint32_t)room_;                           \
    } while (0)

void nm_history_free(struct nm_history *h) {
    free(h->ops);
    free(h->entries);
    free(h->bytes);
    free(h->lives);
    memset(h, 0, sizeof *h);
}

struct nm_op *nm_history_op(struct nm_history *h) {
    GROW(h->ops, h->op_count, h->op_capacity);
    struct nm_op *op = &h->ops[h->op_count++];
    memset(op, 0, sizeof *op);
    op->repeats = NM_NONE;
    return op;
}

struct nm_life *nm_history_life(struct nm_history *h) {
    GROW(h->lives, h->life_count, h->life_capacity);
    struct nm_life *life = &h->lives[h->life_count++];
    memset(life, 0, sizeof *life);
    return life;
}

void nm_history_entry(struct nm_history *h, uint64_t now_ms, struct tn_bytes bytes, uint32_t life) {
    GROW(h->entries, h->entry_count, h->entry_capacity);
    while (h->byte_capacity - h->byte_count < bytes.len) {
        h->bytes = grown(h->bytes, h->byte_capacity, 1, &h->byte_capacity);
    }
    if (bytes.len > 0) {
        memcpy(h->bytes + h->byte_count, bytes.at, bytes.len);
    }
    h->entries[h->entry_count++] =
        (struct nm_entry){.now_ms = now_ms, .at = h->byte_count, .len = bytes.len, .life = life};
    h->byte_count += bytes.len;
}

struct tn_bytes nm_history_bytes(const struct nm_history *h, uint64_t lsn) {
    TN_ASSERT(lsn >= 1 && lsn <= h->entry_count);
    const struct nm_entry *entry = &h->entries[lsn - 1];
    return tn_bytes_of(h->bytes + entry->at, entry->len);
}

static void *copied(const void *from, size_t bytes) {
    void *to = malloc(bytes + 1);
    TN_ASSERT(to != NULL);
    if (bytes > 0) {
        memcpy(to, from, bytes);
    }
    return to;
}

void nm_history_copy(const struct nm_history *from, struct nm_history *ret_to) {
    *ret_to = *from;
    ret_to->ops = copied(from->ops, from->op_count * sizeof *from->ops);
    ret_to->entries = copied(from->entries, from->entry_count * sizeof *from->entries);
    ret_to->bytes = copied(from->bytes, from->byte_count);
    ret_to->lives = copied(from->lives, from->life_count * sizeof *from->lives);
    ret_to->op_capacity = from->op_count;
    ret_to->entry_capacity = from->entry_count;
    ret_to->byte_capacity = from->byte_count;
    ret_to->life_capacity = from->life_count;
}

/* ---- Files ---- */

/* For the program that wrote it: sizes are checked, nothing is converted. */
struct head {
    char magic[8];
    uint64_t op_bytes, entry_bytes, life_bytes;
    uint64_t seed, shard, ops, entries, bytes, lives;
    int64_t wall_ns;
};

static const char magic[8] = "nemesis";

static bool put(FILE *file, const void *at, size_t size, uint64_t count) {
    return count == 0 || fwrite(at, size, count, file) == count;
}

static void *get(FILE *file, size_t size, uint64_t count) {
    void *at = malloc(size * count + 1);
    if (at != NULL && count > 0 && fread(at, size, count, file) != count) {
        free(at);
        at = NULL;
    }
    return at;
}

bool nm_history_save(const struct nm_history *h, const char *path) {
    FILE *file = fopen(path, "wbe");
    if (file == NULL) {
        return false;
    }
    struct head head = {.op_bytes = sizeof *h->ops,
                        .entry_bytes = sizeof *h->entries,
                        .life_bytes = sizeof *h->lives,
                        .seed = h->seed,
                        .shard = h->shard,
                        .wall_ns = h->wall_ns,
                        .ops = h->op_count,
                        .entries = h->entry_count,
                        .bytes = h->byte_count,
                        .lives = h->life_count};
    memcpy(head.magic, magic, sizeof magic);
    bool done = put(file, &head, sizeof head, 1) &&
                put(file, h->ops, sizeof *h->ops, h->op_count) &&
                put(file, h->entries, sizeof *h->entries, h->entry_count) &&
                put(file, h->bytes, 1, h->byte_count) &&
                put(file, h->lives, sizeof *h->lives, h->life_count);
    return fclose(file) == 0 && done;
}

bool nm_history_load(struct nm_history *ret_h, const char *path) {
    struct head head;
    FILE *file = fopen(path, "rbe");
    memset(ret_h, 0, sizeof *ret_h);
    if (file == NULL) {
        return false;
    }
    bool good = fread(&head, sizeof head, 1, file) == 1 &&
                memcmp(head.magic, magic, sizeof magic) == 0 &&
                head.op_bytes == sizeof *ret_h->ops && head.entry_bytes == sizeof *ret_h->entries &&
                head.life_bytes == sizeof *ret_h->lives;
    if (good) {
        *ret_h = (struct nm_history){.seed = head.seed,
                                     .shard = head.shard,
                                     .wall_ns = head.wall_ns,
                                     .op_count = (uint32_t)head.ops,
                                     .entry_count = (uint32_t)head.entries,
                                     .byte_count = head.bytes,
                                     .life_count = (uint32_t)head.lives};
        ret_h->ops = get(file, sizeof *ret_h->ops, head.ops);
        ret_h->entries = get(file, sizeof *ret_h->entries, head.entries);
        ret_h->bytes = get(file, 1, head.bytes);
        ret_h->lives = get(file, sizeof *ret_h->lives, head.lives);
        good = ret_h->ops != NULL && ret_h->entries != NULL && ret_h->bytes != NULL &&
               ret_h->lives != NULL;
    }
    (void)fclose(file);
    if (!good) {
        nm_history_free(ret_h);
    }
    return good;
}

void nm_history_keep(const struct nm_history *h, const char *why) {
    char path[256];
    const char *base = getenv("TMPDIR");
    snprintf(path, sizeof path, "%.100s/tenure-nemesis-%" PRIu64 ".history",
             base != NULL ? base : "/tmp", h->seed);
    bool kept = nm_history_save(h, path);
    fprintf(stderr, "\nseed %" PRIu64 ": %s\nTENURE_SEED=%" PRIu64 " plays it again\n", h->seed,
            why, h->seed);
    if (kept) {
        fprintf(stderr, "TENURE_HISTORY=%s tests/nemesis/lin_test judges it again\n", path);
    }
}

/* ---- The log ---- */

struct reading {
    struct nm_history *h;
    uint32_t life;
    uint64_t last_lsn; /* in the log */
    bool copy;         /* a node's of a cluster */
    bool gap;          /* the copy begins after the known entries */
    char *why;
    size_t capacity;
};

static enum tn_status odd(struct reading *reading, const char *what, uint64_t lsn) {
    snprintf(reading->why, reading->capacity, "lsn %" PRIu64 " of the log %s", lsn, what);
    return TN_CORRUPT;
}

static enum tn_status read_command(struct reading *reading, uint64_t lsn, uint64_t now_ms,
                                   struct tn_bytes bytes) {
    struct nm_history *h = reading->h;
    if (reading->copy && lsn > h->entry_count + 1u) {
        return odd(reading, "comes after one that is missing", lsn);
    }
    while (lsn > h->entry_count + 1u) { /* the log has seen that it may pass them over here */
        nm_history_entry(h, now_ms, tn_bytes_of(NULL, 0), reading->life);
    }
    if (lsn == h->entry_count + 1u) {
        nm_history_entry(h, now_ms, bytes, reading->life);
    } else if (h->entries[lsn - 1].now_ms != now_ms ||
               !tn_bytes_equal(nm_history_bytes(h, lsn), bytes)) {
        return odd(reading,
                   reading->copy ? "is not the same on all nodes"
                                 : "is not what it was before the restart",
                   lsn);
    }
    reading->last_lsn = lsn;
    return TN_OK;
}

static enum tn_status read_batch(void *ctx, const struct log_batch *batch) {
    struct reading *reading = ctx;
    struct tn_reader r = tn_reader_of(batch->payload, batch->len);
    enum tn_status status = TN_OK;
    reading->h->shard = batch->shard;
    for (uint32_t i = 0; i < batch->count && status == TN_OK; i++) {
        uint32_t len = tn_read32(&r);
        if (r.bad || len > tn_reader_left(&r)) {
            return odd(reading, "is not whole", batch->first_lsn + i);
        }
        status = read_command(reading, batch->first_lsn + i, batch->now_ms,
                              tn_bytes_of(r.at + r.pos, len));
        r.pos += len;
    }
    return status;
}

static enum tn_status read_snapshot_begin(void *ctx, const struct log_position *at) {
    struct reading *reading = ctx;
    reading->last_lsn = at->lsn;
    reading->gap = reading->copy && at->lsn > reading->h->entry_count;
    return at->lsn <= reading->h->entry_count ? TN_OK : odd(reading, "is in a snapshot", at->lsn);
}

static enum tn_status read_section(void *ctx, const struct log_section *section) {
    (void)ctx;
    (void)section;
    return TN_OK;
}

static enum tn_status read_snapshot_end(void *ctx) {
    (void)ctx;
    return TN_OK;
}

static enum tn_status log_read(struct reading *reading, const char *dir) {
    struct log *log;
    struct log_position position;
    struct log_error error = {.text = ""};
    struct log_local_options options = {
        .os = os_posix(), .dir = dir, .read_only = true, .use_older_snapshot = true};
    const struct log_loader loader = {.ctx = reading,
                                      .snapshot_begin = read_snapshot_begin,
                                      .snapshot_section = read_section,
                                      .snapshot_end = read_snapshot_end,
                                      .batch = read_batch};
    reading->why[0] = '\0';
    enum tn_status status = log_local_open(&options, NULL, NULL, &log, &error);
    if (status == TN_OK) {
        status = log_load(log_local_store(log), log, &loader, &position, &error);
        (void)log_close(log_local_store(log), log);
    }
    if (status != TN_OK && reading->why[0] == '\0') {
        snprintf(reading->why, reading->capacity, "the log cannot be read: %s", error.text);
    }
    return status;
}

bool nm_history_read_copy(struct nm_history *h, const char *dir, bool *ret_gap, char *why,
                          size_t capacity) {
    struct reading reading = {.h = h, .copy = true, .why = why, .capacity = capacity};
    why[0] = '\0';
    enum tn_status status = log_read(&reading, dir);
    *ret_gap = reading.gap;
    return status == TN_OK || reading.gap;
}

bool nm_history_read_log(struct nm_history *h, const char *dir, uint32_t life, char *why,
                         size_t capacity) {
    struct reading reading = {.h = h, .life = life, .why = why, .capacity = capacity};
    uint64_t known = h->entry_count;
    enum tn_status status = log_read(&reading, dir);
    if (status == TN_OK && reading.last_lsn < known) {
        snprintf(why, capacity,
                 "the log ends at lsn %" PRIu64 ", before the restart it had %" PRIu64,
                 reading.last_lsn, known);
        status = TN_CORRUPT;
    }
    return status == TN_OK;
}

/* ---- For people ---- */

static const char *outcome_name(const struct nm_op *op) {
    return op->outcome == NM_UNKNOWN    ? "unknown"
           : op->outcome == NM_REJECTED ? "rejected"
                                        : tn_result_name((enum tn_result)op->code);
}

void nm_op_text(const struct nm_history *h, uint32_t index, char *out, size_t capacity) {
    const struct nm_op *op = &h->ops[index];
    char request[256];
    nm_request_text(op, request, sizeof request);
    int n = snprintf(out, capacity,
                     "op %" PRIu32 " client %" PRIu32 " life %" PRIu32 " [%" PRIu64 ", %" PRIu64
                     "] us: %s -> %s%s",
                     index, op->client, op->life, (op->start_ns - h->ops[0].start_ns) / 1000,
                     op->end_ns == 0 ? 0 : (op->end_ns - h->ops[0].start_ns) / 1000, request,
                     outcome_name(op), op->replayed ? " (replayed)" : "");
    if (n > 0 && (size_t)n < capacity && op->outcome == NM_COMMITTED) {
        n += snprintf(out + n, capacity - (size_t)n, " lsn %" PRIu64, op->lsn);
    }
    if (n > 0 && (size_t)n < capacity && op->has_lease) {
        n +=
            snprintf(out + n, capacity - (size_t)n, " lease 0-%" PRIu64 " epoch %" PRIu64 " %s",
                     op->got_lease, op->got_epoch, kernel_state_name((enum kernel_state)op->state));
    }
    for (uint32_t i = 0; i < op->value_count && n > 0 && (size_t)n < capacity; i++) {
        n += snprintf(out + n, capacity - (size_t)n, " %s/%u",
                      nm_pool_of(op->group, op->values[i].pool)->name, op->values[i].number);
    }
}
