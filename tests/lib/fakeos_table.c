/* The table of the operating system in memory: each call counted, faults where they were planned. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/fakeos_state.h"

static bool coin(struct fakeos *fake) {
    return fakedisk_coin(&fake->disk);
}

/* -- faults ------------------------------------------------------------------------------------- */

enum fate {
    FATE_DO,   /* do it */
    FATE_FAIL, /* fail, perhaps after doing a part */
};

/* Counts the call and decides; called with the lock held. */
static enum fate call_fate(struct fakeos *fake, const char *name, enum tn_status *ret_status) {
    fake->calls += 1;
    if (fake->cut) {
        *ret_status = TN_IO;
        return FATE_FAIL;
    }
    if (fake->calls == fake->cut_call) {
        fake->cut = true;
        fake->fault_name = name;
        *ret_status = TN_IO;
        return FATE_FAIL;
    }
    if (fake->calls == fake->fail_call) {
        fake->fault_name = name;
        *ret_status = fake->fail_status;
        return FATE_FAIL;
    }
    return FATE_DO;
}

/* Whether a failing call does (part of) its work first. Once the power is out nothing happens. */
static bool fate_partial(struct fakeos *fake) {
    bool first = fake->calls == fake->cut_call || fake->calls == fake->fail_call;
    return first && coin(fake);
}

static struct fake_handle *handle_of(struct fakeos *fake, int file) {
    TN_ASSERT(file >= 0 && file < HANDLES_MAX);
    return &fake->handles[file];
}

static int handle_new(struct fakeos *fake, int inode, bool writable) {
    int file = 0;
    while (file < HANDLES_MAX && fake->handles[file].used) {
        file += 1;
    }
    TN_ASSERT(file < HANDLES_MAX); /* or else the code under test leaks handles */
    fake->handles[file] = (struct fake_handle){.used = true, .writable = writable, .inode = inode};
    inode_at(fake, inode)->handles += 1;
    return file;
}

static void handle_free(struct fakeos *fake, int file) {
    struct fake_handle *handle = handle_of(fake, file);
    TN_ASSERT(handle->used);
    struct fake_inode *inode = inode_at(fake, handle->inode);
    inode->handles -= 1;
    if (handle->has_lock) {
        inode->locked = false;
    }
    *handle = (struct fake_handle){0};
}

/* -- the table: files --------------------------------------------------------------------------- */

static enum tn_status open_locked(struct fakeos *fake, const char *path, unsigned flags,
                                  int *ret_file) {
    char parent[FAKEDISK_PATH_BYTES];
    fakedisk_parent(path, parent);
    int inode = fakedisk_find(&fake->disk, path);
    if (inode >= 0 && inode_at(fake, inode)->is_dir != ((flags & OS_DIRECTORY) != 0)) {
        return TN_INVALID;
    }
    if (inode >= 0 && (flags & OS_EXCLUSIVE) != 0) {
        return TN_INVALID;
    }
    if (inode < 0) {
        if ((flags & OS_CREATE) == 0 || !fakedisk_dir_exists(&fake->disk, parent)) {
            return TN_NOTFOUND;
        }
        inode = fakedisk_create(&fake->disk, path, false);
    }
    if ((flags & OS_TRUNCATE) != 0) {
        fakedisk_resize(inode_at(fake, inode), 0);
    }
    *ret_file = handle_new(fake, inode, (flags & OS_WRITE) != 0);
    return TN_OK;
}

static enum tn_status fake_open(void *ctx, const char *path, unsigned flags, int *ret_file) {
    struct fakeos *fake = ctx;
    enum tn_status status = TN_OK;
    fake_lock(fake);
    if (call_fate(fake, "open", &status) == FATE_DO) {
        status = open_locked(fake, path, flags, ret_file);
    }
    fake_unlock(fake);
    return status;
}

static enum tn_status fake_close(void *ctx, int file) {
    struct fakeos *fake = ctx;
    enum tn_status status = TN_OK;
    fake_lock(fake);
    (void)call_fate(fake, "close", &status);
    /* The handle is closed either way, as on Linux. */
    handle_free(fake, file);
    fake_unlock(fake);
    return status;
}

static enum tn_status fake_read_at(void *ctx, int file, void *out, size_t len, uint64_t offset,
                                   size_t *ret_len) {
    struct fakeos *fake = ctx;
    enum tn_status status = TN_OK;
    fake_lock(fake);
    if (call_fate(fake, "read_at", &status) == FATE_DO) {
        const struct fake_handle *handle = handle_of(fake, file);
        TN_ASSERT(handle->used);
        const struct fake_inode *inode = inode_at(fake, handle->inode);
        uint64_t left = offset < inode->cached_size ? inode->cached_size - offset : 0;
        size_t got = len < left ? len : (size_t)left;
        if (got > 0) {
            memcpy(out, inode->cached + offset, got);
        }
        *ret_len = got;
        status = TN_OK;
    }
    fake_unlock(fake);
    return status;
}

static enum tn_status fake_write_at(void *ctx, int file, const void *bytes, size_t len,
                                    uint64_t offset) {
    struct fakeos *fake = ctx;
    enum tn_status status = TN_OK;
    fake_lock(fake);
    enum fate fate = call_fate(fake, "write_at", &status);
    const struct fake_handle *handle = handle_of(fake, file);
    TN_ASSERT(handle->used && handle->writable);
    struct fake_inode *inode = inode_at(fake, handle->inode);
    uint64_t end = offset + len;
    uint64_t more = end > inode->cached_size ? end - inode->cached_size : 0;
    if (fate == FATE_FAIL) {
        if (fate_partial(fake)) {
            fakedisk_write_partly(&fake->disk, inode, bytes, len, offset);
        }
    } else if (more > 0 && fake->space != UINT64_MAX &&
               fakedisk_used(&fake->disk) + more > fake->space) {
        status = TN_NOSPACE;
    } else {
        fakedisk_write(inode, bytes, len, offset);
        status = TN_OK;
    }
    fake_unlock(fake);
    return status;
}

static enum tn_status sync_dir_locked(struct fakeos *fake, const char *path) {
    enum tn_status status = TN_OK;
    if (call_fate(fake, "sync_dir", &status) == FATE_DO) {
        status = fakedisk_dir_exists(&fake->disk, path) ? TN_OK : TN_NOTFOUND;
        fakedisk_sync_dir(&fake->disk, path);
    } else if (fake->calls == fake->fail_call) {
        fakedisk_sync_dir_failed(&fake->disk, path);
    }
    return status;
}

static enum tn_status sync_locked(struct fakeos *fake, const struct fake_handle *handle) {
    enum tn_status status = TN_OK;
    enum fate fate = call_fate(fake, "sync", &status);
    struct fake_inode *inode = inode_at(fake, handle->inode);
    if (fate == FATE_DO) {
        fakedisk_sync(inode);
        status = TN_OK;
    } else if (fake->calls == fake->fail_call) {
        fakedisk_sync_failed(&fake->disk, inode);
    }
    return status;
}

static enum tn_status fake_sync(void *ctx, int file) {
    struct fakeos *fake = ctx;
    fake_lock(fake);
    const struct fake_handle *handle = handle_of(fake, file);
    TN_ASSERT(handle->used);
    enum tn_status status = TN_OK;
    if (inode_at(fake, handle->inode)->is_dir) {
        status = sync_dir_locked(fake, fakedisk_path_of(&fake->disk, handle->inode));
    } else {
        status = sync_locked(fake, handle);
    }
    fake_unlock(fake);
    return status;
}

static enum tn_status fake_size(void *ctx, int file, uint64_t *ret_bytes) {
    struct fakeos *fake = ctx;
    enum tn_status status = TN_OK;
    fake_lock(fake);
    if (call_fate(fake, "size", &status) == FATE_DO) {
        const struct fake_handle *handle = handle_of(fake, file);
        TN_ASSERT(handle->used);
        *ret_bytes = inode_at(fake, handle->inode)->cached_size;
        status = TN_OK;
    }
    fake_unlock(fake);
    return status;
}

static enum tn_status fake_truncate(void *ctx, int file, uint64_t bytes) {
    struct fakeos *fake = ctx;
    enum tn_status status = TN_OK;
    fake_lock(fake);
    if (call_fate(fake, "truncate", &status) == FATE_DO || fate_partial(fake)) {
        const struct fake_handle *handle = handle_of(fake, file);
        TN_ASSERT(handle->used && handle->writable);
        fakedisk_resize(inode_at(fake, handle->inode), bytes);
        status = fake->calls == fake->fail_call || fake->cut ? status : TN_OK;
    }
    fake_unlock(fake);
    return status;
}

/* -- the table: directories --------------------------------------------------------------------- */

static enum tn_status fake_rename(void *ctx, const char *from, const char *to) {
    struct fakeos *fake = ctx;
    enum tn_status status = TN_OK;
    fake_lock(fake);
    enum fate fate = call_fate(fake, "rename", &status);
    int inode = fakedisk_find(&fake->disk, from);
    if (fate == FATE_DO) {
        status = inode < 0 ? TN_NOTFOUND : TN_OK;
    }
    /* A rename is atomic; only a power cut can leave open whether it happened. */
    bool happens = fate == FATE_DO || (fake->calls == fake->cut_call && coin(fake));
    if (happens && inode >= 0) {
        fakedisk_rename(&fake->disk, from, to);
    }
    fake_unlock(fake);
    return status;
}

static enum tn_status fake_remove(void *ctx, const char *path) {
    struct fakeos *fake = ctx;
    enum tn_status status = TN_OK;
    fake_lock(fake);
    enum fate fate = call_fate(fake, "remove", &status);
    int inode = fakedisk_find(&fake->disk, path);
    if (fate == FATE_DO) {
        status = inode < 0 ? TN_NOTFOUND : TN_OK;
    }
    bool happens = fate == FATE_DO || (fake->calls == fake->cut_call && coin(fake));
    if (happens && inode >= 0) {
        fakedisk_remove(&fake->disk, path);
    }
    fake_unlock(fake);
    return status;
}

static enum tn_status fake_make_dir(void *ctx, const char *path) {
    struct fakeos *fake = ctx;
    enum tn_status status = TN_OK;
    fake_lock(fake);
    if (call_fate(fake, "make_dir", &status) == FATE_DO) {
        char parent[FAKEDISK_PATH_BYTES];
        fakedisk_parent(path, parent);
        int inode = fakedisk_find(&fake->disk, path);
        if (!fakedisk_dir_exists(&fake->disk, parent)) {
            status = TN_NOTFOUND;
        } else if (inode >= 0) {
            status = inode_at(fake, inode)->is_dir ? TN_OK : TN_INVALID;
        } else {
            (void)fakedisk_create(&fake->disk, path, true);
            status = TN_OK;
        }
    }
    fake_unlock(fake);
    return status;
}

static enum tn_status fake_sync_dir(void *ctx, const char *path) {
    struct fakeos *fake = ctx;
    fake_lock(fake);
    enum tn_status status = sync_dir_locked(fake, path);
    fake_unlock(fake);
    return status;
}

/* The entries are called without the lock: they may use the table themselves. */
static enum tn_status fake_list(void *ctx, const char *path, os_list_entry *entry,
                                void *entry_ctx) {
    struct fakeos *fake = ctx;
    struct fakedisk found = {0};
    enum tn_status status = TN_OK;
    fake_lock(fake);
    if (call_fate(fake, "list", &status) == FATE_DO) {
        status = fakedisk_dir_exists(&fake->disk, path) ? TN_OK : TN_NOTFOUND;
        fakedisk_copy_names(&found, &fake->disk);
    }
    fake_unlock(fake);
    for (size_t i = 0; i < found.cached.count && status == TN_OK; i++) {
        const char *name = found.cached.at[i].path;
        char parent[FAKEDISK_PATH_BYTES];
        fakedisk_parent(name, parent);
        if (strcmp(parent, path) == 0) {
            const char *slash = strrchr(name, '/');
            entry(entry_ctx, slash == NULL ? name : slash + 1);
        }
    }
    fakedisk_free(&found);
    return status;
}

static enum tn_status fake_space_free(void *ctx, const char *path, uint64_t *ret_bytes) {
    struct fakeos *fake = ctx;
    enum tn_status status = TN_OK;
    fake_lock(fake);
    if (call_fate(fake, "space_free", &status) == FATE_DO) {
        uint64_t used = fakedisk_used(&fake->disk);
        status = fakedisk_dir_exists(&fake->disk, path) ? TN_OK : TN_NOTFOUND;
        *ret_bytes = used < fake->space ? fake->space - used : 0;
    }
    fake_unlock(fake);
    return status;
}

/* Planned faults do not affect this call: no caller may depend on its answer. */
static enum tn_status fake_sector_bytes(void *ctx, const char *path, uint64_t *ret_bytes) {
    struct fakeos *fake = ctx;
    (void)path;
    *ret_bytes = fake->sector_bytes;
    return fake->sector_bytes > 0 ? TN_OK : TN_NOTFOUND;
}

static enum tn_status fake_lock_file(void *ctx, const char *path, int *ret_file) {
    struct fakeos *fake = ctx;
    enum tn_status status = TN_OK;
    fake_lock(fake);
    if (call_fate(fake, "lock", &status) == FATE_DO) {
        int file = -1;
        status = open_locked(fake, path, OS_WRITE | OS_CREATE, &file);
        if (status == TN_OK) {
            struct fake_handle *handle = handle_of(fake, file);
            struct fake_inode *inode = inode_at(fake, handle->inode);
            if (inode->locked) {
                handle_free(fake, file);
                status = TN_LOCKED;
            } else {
                inode->locked = true;
                handle->has_lock = true;
                *ret_file = file;
            }
        }
    }
    fake_unlock(fake);
    return status;
}

/* -- the table: the rest ------------------------------------------------------------------------ */

static uint64_t fake_clock_boot_ms(void *ctx) {
    struct fakeos *fake = ctx;
    fake_lock(fake);
    uint64_t ms = fake->boot_ms;
    fake_unlock(fake);
    return ms;
}

static uint64_t fake_clock_boot_ns(void *ctx) {
    return fake_clock_boot_ms(ctx) * 1000000u;
}

static uint64_t fake_clock_wall_ms(void *ctx) {
    struct fakeos *fake = ctx;
    fake_lock(fake);
    uint64_t ms = fake->wall_ms;
    fake_unlock(fake);
    return ms;
}

static enum tn_status fake_random(void *ctx, void *out, size_t len) {
    struct fakeos *fake = ctx;
    enum tn_status status = TN_OK;
    fake_lock(fake);
    if (call_fate(fake, "random", &status) == FATE_DO) {
        uint8_t *at = out;
        for (size_t i = 0; i < len; i++) {
            at[i] = (uint8_t)tn_prng_next(&fake->disk.prng);
        }
        status = TN_OK;
    }
    fake_unlock(fake);
    return status;
}

/* With a page behind it that nobody may touch. */
static size_t guarded_bytes(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return ((bytes + page - 1) & ~(page - 1)) + page;
}

static enum tn_status fake_mem_reserve(void *ctx, size_t bytes, bool big, void **ret_memory) {
    struct fakeos *fake = ctx;
    fake_lock(fake);
    fake->reservations += 1;
    bool refused = fake->reservations == fake->fail_memory;
    fake_unlock(fake);
    if (refused) {
        return TN_NOMEM;
    }
    void *memory;
    size_t size = guarded_bytes(bytes);
    enum tn_status status = os_posix()->mem_reserve(os_posix()->ctx, size, big, &memory);
    if (status == TN_OK) {
        size_t page = (size_t)sysconf(_SC_PAGESIZE);
        int rc = mprotect((uint8_t *)memory + size - page, page, PROT_NONE);
        TN_ASSERT(rc == 0);
        *ret_memory = memory;
    }
    return status;
}

static void fake_mem_release(void *ctx, void *memory, size_t bytes) {
    (void)ctx;
    os_posix()->mem_release(os_posix()->ctx, memory, guarded_bytes(bytes));
}

struct os fakeos_verbs(struct fakeos *fake) {
    return (struct os){
        .ctx = fake,
        .open = fake_open,
        .close = fake_close,
        .read_at = fake_read_at,
        .write_at = fake_write_at,
        .sync = fake_sync,
        .size = fake_size,
        .truncate = fake_truncate,
        .rename = fake_rename,
        .remove = fake_remove,
        .make_dir = fake_make_dir,
        .sync_dir = fake_sync_dir,
        .list = fake_list,
        .space_free = fake_space_free,
        .sector_bytes = fake_sector_bytes,
        .lock = fake_lock_file,
        .clock_boot_ms = fake_clock_boot_ms,
        .clock_boot_ns = fake_clock_boot_ns,
        .clock_wall_ms = fake_clock_wall_ms,
        .random = fake_random,
        .mem_reserve = fake_mem_reserve,
        .mem_release = fake_mem_release,
    };
}
