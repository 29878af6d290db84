/* The machine that writes down what is done to its disk; see image.h. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "crash/image.h"

#define HANDLES_MAX 64
#define INODES_MAX 512
#define ARENA_BYTES ((size_t)1 << 20)

struct tape_inode {
    struct blob *blob; /* NULL: a directory */
    bool locked;
};

struct tape_handle {
    bool used;
    bool writable;
    bool has_lock;
    int inode;
};

/* Memory for the tape's records: never moves, freed at once. */
struct arena {
    struct arena *next;
    size_t used;
    uint8_t bytes[];
};

struct tape {
    struct os os;
    struct image_names names;
    struct tape_inode inodes[INODES_MAX];
    int inode_count;
    struct tape_handle handles[HANDLES_MAX];
    struct tape_op *ops;
    size_t count;
    size_t capacity;
    struct arena *arena;
    struct tn_prng prng;
    uint64_t clock_ms;
    bool dead;
    uint64_t calls;
    uint64_t kill_call;
    uint64_t fail_call;
    uint64_t fail_syncs[2]; /* for files, for directories: the sync after so many more fails */
    enum tn_status fail_status;
    bool failed;
};

static void *arena_take(struct tape *tape, size_t bytes) {
    bytes = (bytes + 15) & ~(size_t)15;
    if (tape->arena == NULL || tape->arena->used + bytes > ARENA_BYTES) {
        TN_ASSERT(bytes <= ARENA_BYTES);
        struct arena *arena = malloc(sizeof *arena + ARENA_BYTES);
        TN_ASSERT(arena != NULL);
        arena->next = tape->arena;
        arena->used = 0;
        tape->arena = arena;
    }
    void *at = tape->arena->bytes + tape->arena->used;
    tape->arena->used += bytes;
    return at;
}

static struct tape_op *op_add(struct tape *tape, enum tape_kind kind, int inode) {
    if (tape->count == tape->capacity) {
        tape->capacity = tape->capacity * 2 + 64;
        tape->ops = realloc(tape->ops, tape->capacity * sizeof *tape->ops);
        TN_ASSERT(tape->ops != NULL);
    }
    struct tape_op *op = &tape->ops[tape->count];
    tape->count += 1;
    *op = (struct tape_op){.kind = kind, .inode = inode};
    return op;
}

static void op_add_name(struct tape *tape, const char *from, const char *to, int inode) {
    struct tape_op *op = op_add(tape, TAPE_NAME, inode);
    TN_ASSERT(strlen(from) < PATH_BYTES && strlen(to) < PATH_BYTES);
    memcpy(op->from, from, strlen(from) + 1);
    memcpy(op->to, to, strlen(to) + 1);
    if (from[0] != '\0') {
        names_unset(&tape->names, from);
    }
    if (to[0] != '\0') {
        names_set(&tape->names, to, inode);
    }
}

/* ---- Faults ---- */

/* False: the call fails, with *ret_status. */
static bool call_begins(struct tape *tape, enum tn_status *ret_status) {
    *ret_status = TN_OK;
    if (tape->dead) {
        *ret_status = TN_IO;
        return false;
    }
    tape->calls += 1;
    if (tape->calls == tape->kill_call) {
        tape->dead = true;
        tape->failed = true;
        *ret_status = TN_IO;
        return false;
    }
    if (tape->calls == tape->fail_call) {
        tape->failed = true;
        *ret_status = tape->fail_status;
        return false;
    }
    return true;
}

static bool coin(struct tape *tape) {
    return tn_prng_below(&tape->prng, 2) == 0;
}

/* ---- Files ---- */

static int inode_new(struct tape *tape, struct blob *blob) {
    TN_ASSERT(tape->inode_count < INODES_MAX);
    tape->inodes[tape->inode_count] = (struct tape_inode){.blob = blob};
    tape->inode_count += 1;
    return tape->inode_count - 1;
}

static int handle_new(struct tape *tape, int inode, bool writable) {
    int file = 0;
    while (tape->handles[file].used) {
        file += 1;
        TN_ASSERT(file < HANDLES_MAX); /* or else the code under test leaks handles */
    }
    tape->handles[file] = (struct tape_handle){.used = true, .writable = writable, .inode = inode};
    return file;
}

static struct tape_handle *handle_of(struct tape *tape, int file) {
    TN_ASSERT(file >= 0 && file < HANDLES_MAX && tape->handles[file].used);
    return &tape->handles[file];
}

static struct blob *blob_of(struct tape *tape, int file) {
    return tape->inodes[handle_of(tape, file)->inode].blob;
}

static void inode_resize(struct tape *tape, int inode, size_t size) {
    struct tape_inode *at = &tape->inodes[inode];
    at->blob = blob_own(at->blob, size);
    blob_resize(at->blob, size);
    op_add(tape, TAPE_RESIZE, inode)->size = size;
}

static void parent_of(const char *path, char out[PATH_BYTES]) {
    const char *slash = strrchr(path, '/');
    size_t len = slash == NULL ? 0 : (size_t)(slash - path);
    TN_ASSERT(len < PATH_BYTES);
    memcpy(out, path, len);
    out[len] = '\0';
    if (len == 0) {
        memcpy(out, "/", 2);
    }
}

static bool dir_exists(const struct tape *tape, const char *path) {
    int inode = names_find(&tape->names, path);
    return strcmp(path, "/") == 0 || (inode >= 0 && tape->inodes[inode].blob == NULL);
}

static enum tn_status open_now(struct tape *tape, const char *path, unsigned flags, int *ret_file) {
    char parent[PATH_BYTES];
    int inode = names_find(&tape->names, path);
    if (inode >= 0 && (tape->inodes[inode].blob == NULL) != ((flags & OS_DIRECTORY) != 0)) {
        return TN_INVALID;
    }
    if (inode >= 0 && (flags & OS_EXCLUSIVE) != 0) {
        return TN_INVALID;
    }
    parent_of(path, parent);
    if (inode < 0 && ((flags & OS_CREATE) == 0 || !dir_exists(tape, parent))) {
        return TN_NOTFOUND;
    }
    if (inode < 0) {
        inode = inode_new(tape, blob_new(0));
        op_add_name(tape, "", path, inode);
    } else if ((flags & OS_TRUNCATE) != 0) {
        inode_resize(tape, inode, 0);
    }
    *ret_file = handle_new(tape, inode, (flags & OS_WRITE) != 0);
    return TN_OK;
}

static enum tn_status tape_open(void *ctx, const char *path, unsigned flags, int *ret_file) {
    enum tn_status status;
    return call_begins(ctx, &status) ? open_now(ctx, path, flags, ret_file) : status;
}

static enum tn_status tape_close(void *ctx, int file) {
    struct tape *tape = ctx;
    enum tn_status status;
    (void)call_begins(tape, &status);
    struct tape_handle *handle = handle_of(tape, file);
    if (handle->has_lock) {
        tape->inodes[handle->inode].locked = false;
    }
    *handle = (struct tape_handle){0};
    return status;
}

static enum tn_status tape_read_at(void *ctx, int file, void *out, size_t len, uint64_t offset,
                                   size_t *ret_len) {
    enum tn_status status;
    if (call_begins(ctx, &status)) {
        const struct blob *blob = blob_of(ctx, file);
        size_t left = offset < blob->size ? blob->size - (size_t)offset : 0;
        *ret_len = len < left ? len : left;
        memcpy(out, blob->bytes + (*ret_len > 0 ? offset : 0), *ret_len);
    }
    return status;
}

/* Changes the cached content and records the sectors as they are now. */
static void write_now(struct tape *tape, int inode, const void *bytes, size_t len, size_t offset) {
    struct tape_inode *at = &tape->inodes[inode];
    size_t end = offset + len;
    at->blob = blob_own(at->blob, end);
    memcpy(at->blob->bytes + offset, bytes, len);
    struct tape_op *op = op_add(tape, TAPE_WRITE, inode);
    op->grows = end > at->blob->size;
    at->blob->size = op->grows ? end : at->blob->size;
    op->size = at->blob->size;
    op->first = offset / SECTOR_BYTES;
    op->count = (end - 1) / SECTOR_BYTES - op->first + 1;
    op->sectors = arena_take(tape, op->count * sizeof *op->sectors);
    static const uint8_t zeros[SECTOR_BYTES];
    for (size_t i = 0; i < op->count; i++) {
        const uint8_t *sector = at->blob->bytes + (op->first + i) * SECTOR_BYTES;
        op->sectors[i] = (struct tape_sector){.bytes = zeros, .hash = sector_hash(sector)};
        if (op->sectors[i].hash != 0) {
            uint8_t *kept = arena_take(tape, SECTOR_BYTES);
            memcpy(kept, sector, SECTOR_BYTES);
            op->sectors[i].bytes = kept;
        }
    }
}

static enum tn_status tape_write_at(void *ctx, int file, const void *bytes, size_t len,
                                    uint64_t offset) {
    struct tape *tape = ctx;
    enum tn_status status;
    bool begins = call_begins(tape, &status);
    const struct tape_handle *handle = handle_of(tape, file);
    TN_ASSERT(handle->writable && len > 0);
    if (begins) {
        write_now(tape, handle->inode, bytes, len, (size_t)offset);
    } else if (!tape->dead && len > SECTOR_BYTES && coin(tape)) {
        /* A write that fails may have done a first part. */
        size_t part = SECTOR_BYTES * (1 + (size_t)tn_prng_below(&tape->prng, len / SECTOR_BYTES));
        write_now(tape, handle->inode, bytes, part < len ? part : len, (size_t)offset);
    }
    return status;
}

static enum tn_status sync_now(struct tape *tape, int inode, const char *dir) {
    uint64_t *syncs = &tape->fail_syncs[dir[0] != '\0'];
    enum tn_status status;
    if (*syncs == 1 && !tape->dead) {
        tape->fail_call = tape->calls + 1;
    }
    *syncs -= *syncs > 0;
    bool begins = call_begins(tape, &status);
    if (!tape->dead) {
        struct tape_op *op = op_add(tape, begins ? TAPE_SYNC : TAPE_SYNC_FAILED, inode);
        memcpy(op->to, dir, strlen(dir) + 1);
    }
    return status;
}

static enum tn_status tape_sync(void *ctx, int file) {
    struct tape *tape = ctx;
    int inode = handle_of(tape, file)->inode;
    if (tape->inodes[inode].blob != NULL) {
        return sync_now(tape, inode, "");
    }
    for (int i = 0; i < tape->names.count; i++) {
        if (tape->names.at[i].inode == inode) {
            return sync_now(tape, inode, tape->names.at[i].path);
        }
    }
    return TN_NOTFOUND;
}

static enum tn_status tape_size(void *ctx, int file, uint64_t *ret_bytes) {
    enum tn_status status;
    if (call_begins(ctx, &status)) {
        *ret_bytes = blob_of(ctx, file)->size;
    }
    return status;
}

static enum tn_status tape_truncate(void *ctx, int file, uint64_t bytes) {
    enum tn_status status;
    if (call_begins(ctx, &status)) {
        inode_resize(ctx, handle_of(ctx, file)->inode, (size_t)bytes);
    }
    return status;
}

/* ---- Directories ---- */

static enum tn_status tape_rename(void *ctx, const char *from, const char *to) {
    struct tape *tape = ctx;
    enum tn_status status;
    if (call_begins(tape, &status)) {
        int inode = names_find(&tape->names, from);
        if (inode < 0) {
            return TN_NOTFOUND;
        }
        op_add_name(tape, from, to, inode);
    }
    return status;
}

static enum tn_status tape_remove(void *ctx, const char *path) {
    struct tape *tape = ctx;
    enum tn_status status;
    if (call_begins(tape, &status)) {
        int inode = names_find(&tape->names, path);
        if (inode < 0) {
            return TN_NOTFOUND;
        }
        op_add_name(tape, path, "", inode);
    }
    return status;
}

static enum tn_status tape_make_dir(void *ctx, const char *path) {
    struct tape *tape = ctx;
    enum tn_status status;
    if (call_begins(tape, &status) && !dir_exists(tape, path)) {
        op_add_name(tape, "", path, inode_new(tape, NULL));
    }
    return status;
}

static enum tn_status tape_sync_dir(void *ctx, const char *path) {
    struct tape *tape = ctx;
    return sync_now(tape, names_find(&tape->names, path), path);
}

static enum tn_status tape_list(void *ctx, const char *path, os_list_entry *entry,
                                void *entry_ctx) {
    struct tape *tape = ctx;
    enum tn_status status;
    if (!call_begins(tape, &status)) {
        return status;
    }
    if (!dir_exists(tape, path)) {
        return TN_NOTFOUND;
    }
    struct image_names names = tape->names;
    size_t len = strlen(path);
    for (int i = 0; i < names.count; i++) {
        const char *name = names.at[i].path;
        if (strncmp(name, path, len) == 0 && name[len] == '/' &&
            strchr(name + len + 1, '/') == NULL) {
            entry(entry_ctx, name + len + 1);
        }
    }
    return TN_OK;
}

static enum tn_status tape_space_free(void *ctx, const char *path, uint64_t *ret_bytes) {
    enum tn_status status;
    (void)path;
    if (call_begins(ctx, &status)) {
        *ret_bytes = (uint64_t)1 << 40;
    }
    return status;
}

static enum tn_status tape_sector_bytes(void *ctx, const char *path, uint64_t *ret_bytes) {
    (void)ctx;
    (void)path;
    *ret_bytes = PHYSICAL_BYTES;
    return TN_OK;
}

static enum tn_status tape_lock(void *ctx, const char *path, int *ret_file) {
    struct tape *tape = ctx;
    enum tn_status status;
    int file;
    if (!call_begins(tape, &status)) {
        return status;
    }
    status = open_now(tape, path, OS_WRITE | OS_CREATE, &file);
    if (status != TN_OK) {
        return status;
    }
    struct tape_handle *handle = handle_of(tape, file);
    if (tape->inodes[handle->inode].locked) {
        *handle = (struct tape_handle){0};
        return TN_LOCKED;
    }
    tape->inodes[handle->inode].locked = true;
    handle->has_lock = true;
    *ret_file = file;
    return TN_OK;
}

/* ---- The rest ---- */

static uint64_t tape_clock_ms(void *ctx) {
    return ((struct tape *)ctx)->clock_ms;
}

static uint64_t tape_clock_ns(void *ctx) {
    return tape_clock_ms(ctx) * 1000000u;
}

static uint64_t tape_clock_wall(void *ctx) {
    return 1700000000000u + tape_clock_ms(ctx);
}

static enum tn_status tape_random(void *ctx, void *out, size_t len) {
    struct tape *tape = ctx;
    enum tn_status status;
    if (call_begins(tape, &status)) {
        for (size_t i = 0; i < len; i++) {
            ((uint8_t *)out)[i] = (uint8_t)tn_prng_next(&tape->prng);
        }
    }
    return status;
}

/* From the heap, whose pages stay: a mapping for each of a million recoveries would cost more than
 * they do. Tables of a kernel are large and mostly untouched, and are mapped. */
#define HEAP_BYTES_MAX ((size_t)128 << 10)

static enum tn_status tape_mem_reserve(void *ctx, size_t bytes, bool big, void **ret_memory) {
    (void)ctx;
    if (bytes > HEAP_BYTES_MAX) {
        return os_posix()->mem_reserve(os_posix()->ctx, bytes, big, ret_memory);
    }
    *ret_memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    TN_ASSERT(*ret_memory != NULL);
    memset(*ret_memory, 0, bytes);
    return TN_OK;
}

static void tape_mem_release(void *ctx, void *memory, size_t bytes) {
    (void)ctx;
    if (bytes > HEAP_BYTES_MAX) {
        os_posix()->mem_release(os_posix()->ctx, memory, bytes);
    } else {
        free(memory);
    }
}

/* ---- Life ---- */

static const struct os tape_table = {
    .open = tape_open,
    .close = tape_close,
    .read_at = tape_read_at,
    .write_at = tape_write_at,
    .sync = tape_sync,
    .size = tape_size,
    .truncate = tape_truncate,
    .rename = tape_rename,
    .remove = tape_remove,
    .make_dir = tape_make_dir,
    .sync_dir = tape_sync_dir,
    .list = tape_list,
    .space_free = tape_space_free,
    .sector_bytes = tape_sector_bytes,
    .lock = tape_lock,
    .clock_boot_ms = tape_clock_ms,
    .clock_boot_ns = tape_clock_ns,
    .clock_wall_ms = tape_clock_wall,
    .random = tape_random,
    .mem_reserve = tape_mem_reserve,
    .mem_release = tape_mem_release,
};

struct tape *tape_new(const struct image *image, uint64_t seed) {
    struct tape *tape = calloc(1, sizeof *tape);
    TN_ASSERT(tape != NULL);
    tape->os = tape_table;
    tape->os.ctx = tape;
    tape->clock_ms = 1000000;
    tn_prng_seed(&tape->prng, seed);
    if (image != NULL) {
        tape->names = image->names;
        for (int i = 0; i < image->inodes; i++) {
            struct blob *blob = image->blobs[i];
            (void)inode_new(tape, blob == NULL ? NULL : blob_share(blob));
        }
    }
    return tape;
}

void tape_free(struct tape *tape) {
    for (int i = 0; i < tape->inode_count; i++) {
        blob_drop(tape->inodes[i].blob);
    }
    while (tape->arena != NULL) {
        struct arena *next = tape->arena->next;
        free(tape->arena);
        tape->arena = next;
    }
    free(tape->ops);
    free(tape);
}

const struct os *tape_os(struct tape *tape) {
    return &tape->os;
}

const struct tape_op *tape_ops(const struct tape *tape, size_t *ret_count) {
    *ret_count = tape->count;
    return tape->ops;
}

size_t tape_note(struct tape *tape, size_t acked, const void *tip) {
    struct tape_op *op = op_add(tape, TAPE_NOTE, -1);
    op->acked = acked;
    op->tip = tip;
    return tape->count - 1;
}

void tape_note_tip(struct tape *tape, size_t note, const void *tip) {
    TN_ASSERT(tape->ops[note].kind == TAPE_NOTE);
    tape->ops[note].tip = tip;
}

void tape_clock_advance(struct tape *tape, uint64_t ms) {
    tape->clock_ms += ms;
}

void tape_kill(struct tape *tape) {
    tape->dead = true;
}

void tape_kill_call(struct tape *tape, uint64_t call) {
    tape->kill_call = call;
}

void tape_restart(struct tape *tape) {
    tape->dead = false;
    tape->failed = false;
    tape->kill_call = 0;
    tape->fail_call = 0;
    memset(tape->fail_syncs, 0, sizeof tape->fail_syncs);
    memset(tape->handles, 0, sizeof tape->handles);
    for (int i = 0; i < tape->inode_count; i++) {
        tape->inodes[i].locked = false;
    }
}

uint64_t tape_calls(const struct tape *tape) {
    return tape->calls;
}

void tape_fail_call(struct tape *tape, uint64_t call, enum tn_status status) {
    tape->fail_call = call;
    tape->fail_status = status;
}

void tape_fail_sync(struct tape *tape, uint64_t n, bool of_directory, enum tn_status status) {
    tape->fail_syncs[of_directory] = n;
    tape->fail_status = status;
}

bool tape_failed(const struct tape *tape) {
    return tape->failed;
}

unsigned tape_count_names(const struct tape *tape, const char *part) {
    unsigned count = 0;
    for (int i = 0; i < tape->names.count; i++) {
        count += strstr(tape->names.at[i].path, part) != NULL;
    }
    return count;
}
