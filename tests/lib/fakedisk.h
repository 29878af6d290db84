/* The disk behind fakeos: contents and names, each in two versions, cached and durable.
 *
 * The model of disks is described in fakeos.h, the interface for tests; this file is its other
 * half. The caller locks. */
#ifndef TESTS_LIB_FAKEDISK_H
#define TESTS_LIB_FAKEDISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/prng.h"

#define FAKEDISK_PATH_BYTES 512

/* A file's contents, independent of its names. */
struct fake_inode {
    bool used;
    bool is_dir;
    bool locked;
    unsigned handles;
    uint8_t *cached;
    uint64_t cached_size;
    uint8_t *durable;
    uint64_t durable_size;
    uint64_t capacity; /* of both buffers, in bytes: whole sectors, zero beyond the size */
    uint8_t *dirty;    /* one byte for each sector */
};

struct fake_name {
    char path[FAKEDISK_PATH_BYTES];
    int inode;
};

struct fake_names {
    struct fake_name *at;
    size_t count;
    size_t capacity;
};

/* A change of a directory that is not durable yet. `from` is empty for a create, `to` for a
 * remove. */
struct fake_change {
    char from[FAKEDISK_PATH_BYTES];
    char to[FAKEDISK_PATH_BYTES];
    int inode;
};

struct fakedisk {
    struct tn_prng prng;
    uint64_t physical_bytes; /* unit that it rewrites, and can lose, as a whole; 0: one sector */
    struct fake_inode *inodes;
    size_t inode_count;
    struct fake_names cached;
    struct fake_names durable;
    struct fake_change *changes; /* in order */
    size_t change_count;
    size_t change_capacity;
};

void fakedisk_copy(struct fakedisk *to, const struct fakedisk *from);
/* Copies only the current names, so that the caller can walk over them without the lock. */
void fakedisk_copy_names(struct fakedisk *to, const struct fakedisk *from);
void fakedisk_free(struct fakedisk *disk);

bool fakedisk_coin(struct fakedisk *disk);
uint64_t fakedisk_used(const struct fakedisk *disk);

/* Names, as cached. A path's directory is "." or "/" at the top; those always exist. */
void fakedisk_parent(const char *path, char out[FAKEDISK_PATH_BYTES]);
int fakedisk_find(const struct fakedisk *disk, const char *path); /* inode, or -1 */
bool fakedisk_dir_exists(const struct fakedisk *disk, const char *path);
int fakedisk_create(struct fakedisk *disk, const char *path, bool is_dir);
void fakedisk_rename(struct fakedisk *disk, const char *from, const char *to);
void fakedisk_remove(struct fakedisk *disk, const char *path);
void fakedisk_sync_dir(struct fakedisk *disk, const char *path);
void fakedisk_sync_dir_failed(struct fakedisk *disk, const char *path);
/* A name of the inode, or NULL if it has none. */
const char *fakedisk_path_of(const struct fakedisk *disk, int inode);
/* Removes a name at once, from the cached and the durable names. */
void fakedisk_forget(struct fakedisk *disk, const char *path);

/* Contents. */
void fakedisk_write(struct fake_inode *inode, const uint8_t *bytes, uint64_t len, uint64_t offset);
/* Writes some of the sectors, the first ones or random ones; never beyond the end. */
void fakedisk_write_partly(struct fakedisk *disk, struct fake_inode *inode, const uint8_t *bytes,
                           uint64_t len, uint64_t offset);
void fakedisk_resize(struct fake_inode *inode, uint64_t bytes);
void fakedisk_sync(struct fake_inode *inode);
void fakedisk_sync_failed(struct fakedisk *disk, struct fake_inode *inode);

/* Loses, keeps or garbles whatever is not durable; the result is both cached and durable. */
void fakedisk_lose(struct fakedisk *disk);

#endif
