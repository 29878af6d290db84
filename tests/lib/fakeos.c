/* The life of the operating system in memory and what tests do to it; see fakeos.h, fakeos_table.c for
 * its table, and fakedisk.h for what is behind both. */
#include "lib/fakeos.h"

#include <stdlib.h>
#include <string.h>

#include "lib/fakeos_state.h"

/* -- life --------------------------------------------------------------------------------------- */

struct fakeos *fakeos_new(uint64_t seed) {
    struct fakeos *fake = calloc(1, sizeof *fake);
    TN_ASSERT(fake != NULL);
    int rc = pthread_mutex_init(&fake->mutex, NULL);
    TN_ASSERT(rc == 0);
    tn_prng_seed(&fake->disk.prng, seed);
    fake->fault_name = "";
    fake->space = UINT64_MAX;
    fake->boot_ms = 1000000;
    fake->wall_ms = 1700000000000;
    fake->os = fakeos_verbs(fake);
    return fake;
}

struct fakeos *fakeos_copy(struct fakeos *fake, uint64_t seed) {
    struct fakeos *copy = fakeos_new(seed);
    fake_lock(fake);
    fakedisk_copy(&copy->disk, &fake->disk);
    copy->space = fake->space;
    copy->sector_bytes = fake->sector_bytes;
    copy->boot_ms = fake->boot_ms;
    copy->wall_ms = fake->wall_ms;
    fake_unlock(fake);
    return copy;
}

void fakeos_free(struct fakeos *fake) {
    fakedisk_free(&fake->disk);
    pthread_mutex_destroy(&fake->mutex);
    free(fake);
}

const struct os *fakeos_table(struct fakeos *fake) {
    return &fake->os;
}

uint64_t fakeos_calls(struct fakeos *fake) {
    fake_lock(fake);
    uint64_t calls = fake->calls;
    fake_unlock(fake);
    return calls;
}

void fakeos_fail_call(struct fakeos *fake, uint64_t call, enum tn_status status) {
    fake_lock(fake);
    fake->fail_call = call;
    fake->fail_status = status;
    fake->fault_name = "";
    fake_unlock(fake);
}

void fakeos_fail_memory(struct fakeos *fake, uint64_t n) {
    fake_lock(fake);
    fake->fail_memory = n == 0 ? 0 : fake->reservations + n;
    fake_unlock(fake);
}

uint64_t fakeos_reservations(struct fakeos *fake) {
    fake_lock(fake);
    uint64_t reservations = fake->reservations;
    fake_unlock(fake);
    return reservations;
}

void fakeos_cut_call(struct fakeos *fake, uint64_t call) {
    fake_lock(fake);
    fake->cut_call = call;
    fake->fault_name = "";
    fake_unlock(fake);
}

bool fakeos_is_cut(struct fakeos *fake) {
    fake_lock(fake);
    bool cut = fake->cut;
    fake_unlock(fake);
    return cut;
}

const char *fakeos_fault_name(struct fakeos *fake) {
    fake_lock(fake);
    const char *name = fake->fault_name;
    fake_unlock(fake);
    return name;
}

static void handles_forget(struct fakeos *fake) {
    memset(fake->handles, 0, sizeof fake->handles);
    for (size_t i = 0; i < fake->disk.inode_count; i++) {
        fake->disk.inodes[i].locked = false;
        fake->disk.inodes[i].handles = 0;
    }
    fake->cut = false;
    fake->cut_call = 0;
    fake->fail_call = 0;
}

void fakeos_restart(struct fakeos *fake) {
    fake_lock(fake);
    handles_forget(fake);
    fake_unlock(fake);
}

void fakeos_reboot(struct fakeos *fake) {
    fake_lock(fake);
    handles_forget(fake);
    fakedisk_lose(&fake->disk);
    fake_unlock(fake);
}

void fakeos_space_set(struct fakeos *fake, uint64_t bytes) {
    fake_lock(fake);
    fake->space = bytes;
    fake_unlock(fake);
}

void fakeos_physical_set(struct fakeos *fake, uint64_t bytes) {
    fake_lock(fake);
    fake->sector_bytes = bytes;
    fake->disk.physical_bytes = bytes;
    fake_unlock(fake);
}

uint64_t fakeos_space_used(struct fakeos *fake) {
    fake_lock(fake);
    uint64_t used = fakedisk_used(&fake->disk);
    fake_unlock(fake);
    return used;
}

void fakeos_clock_advance(struct fakeos *fake, uint64_t ms) {
    fake_lock(fake);
    fake->boot_ms += ms;
    fake->wall_ms += ms;
    fake_unlock(fake);
}

void fakeos_clock_wall_set(struct fakeos *fake, uint64_t ms) {
    fake_lock(fake);
    fake->wall_ms = ms;
    fake_unlock(fake);
}

/* -- looking at and damaging files -------------------------------------------------------------- */

static struct fake_inode *file_of(struct fakeos *fake, const char *path) {
    int inode = fakedisk_find(&fake->disk, path);
    TN_ASSERT(inode >= 0 && !inode_at(fake, inode)->is_dir);
    return inode_at(fake, inode);
}

bool fakeos_file_exists(struct fakeos *fake, const char *path) {
    fake_lock(fake);
    bool exists = fakedisk_find(&fake->disk, path) >= 0;
    fake_unlock(fake);
    return exists;
}

uint64_t fakeos_file_size(struct fakeos *fake, const char *path) {
    fake_lock(fake);
    uint64_t bytes = file_of(fake, path)->cached_size;
    fake_unlock(fake);
    return bytes;
}

unsigned fakeos_file_count(struct fakeos *fake, const char *dir, const char *part) {
    unsigned count = 0;
    fake_lock(fake);
    for (size_t i = 0; i < fake->disk.cached.count; i++) {
        const char *path = fake->disk.cached.at[i].path;
        char parent[FAKEDISK_PATH_BYTES];
        fakedisk_parent(path, parent);
        if (strcmp(parent, dir) == 0 &&
            (part == NULL || strstr(path + strlen(dir), part) != NULL)) {
            count += 1;
        }
    }
    fake_unlock(fake);
    return count;
}

void fakeos_file_read(struct fakeos *fake, const char *path, uint64_t offset, void *out,
                      size_t len) {
    fake_lock(fake);
    const struct fake_inode *inode = file_of(fake, path);
    TN_ASSERT(offset + len <= inode->cached_size);
    memcpy(out, inode->cached + offset, len);
    fake_unlock(fake);
}

void fakeos_file_write(struct fakeos *fake, const char *path, uint64_t offset, const void *bytes,
                       size_t len) {
    fake_lock(fake);
    struct fake_inode *inode = file_of(fake, path);
    TN_ASSERT(offset + len <= inode->cached_size && offset + len <= inode->durable_size);
    memcpy(inode->cached + offset, bytes, len);
    memcpy(inode->durable + offset, bytes, len);
    fake_unlock(fake);
}

void fakeos_file_flip(struct fakeos *fake, const char *path, uint64_t offset, unsigned bit) {
    uint8_t byte;
    fakeos_file_read(fake, path, offset, &byte, 1);
    byte ^= (uint8_t)(1u << bit);
    fakeos_file_write(fake, path, offset, &byte, 1);
}

void fakeos_file_resize(struct fakeos *fake, const char *path, uint64_t bytes) {
    fake_lock(fake);
    struct fake_inode *inode = file_of(fake, path);
    fakedisk_resize(inode, bytes);
    fakedisk_sync(inode);
    fake_unlock(fake);
}

void fakeos_file_remove(struct fakeos *fake, const char *path) {
    fake_lock(fake);
    fakedisk_forget(&fake->disk, path);
    fake_unlock(fake);
}
