/* The disk behind fakeos: contents and names, each twice, as cached and as durable.
 *
 * What it believes about disks is in fakeos.h, which is what tests use; this is its other half. The
 * caller locks. */
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
    uint64_t capacity; /* of both, in bytes: whole sectors, zero behind the size */
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

/* A change of a directory that is not durable yet. from is empty for a create, to for a remove. */
struct fake_change {
    char from[FAKEDISK_PATH_BYTES];
    char to[FAKEDISK_PATH_BYTES];
    int inode;
};

struct fakedisk {
    struct tn_prng prng;
    uint64_t physical_bytes; /* what it rewrites at once, and can lose at once; 0: one sector */
    struct fake_inode *inodes;
    size_t inode_count;
    struct fake_names cached;
    struct fake_names durable;
    struct fake_change *changes; /* in order */
    size_t change_count;
    size_t change_capacity;
};

void fakedisk_copy(struct fakedisk *to, const struct fakedisk *from);
/* Only what is there by name now, to walk through at leisure. */
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
/* A name that the inode has, or NULL. */
const char *fakedisk_path_of(const struct fakedisk *disk, int inode);
/* Takes a name away at once, cached and durable. */
void fakedisk_forget(struct fakedisk *disk, const char *path);

/* Contents. */
void fakedisk_write(struct fake_inode *inode, const uint8_t *bytes, uint64_t len, uint64_t offset);
/* Some of its sectors, from the front or here and there; never beyond the end. */
void fakedisk_write_partly(struct fakedisk *disk, struct fake_inode *inode, const uint8_t *bytes,
                           uint64_t len, uint64_t offset);
void fakedisk_resize(struct fake_inode *inode, uint64_t bytes);
void fakedisk_sync(struct fake_inode *inode);
void fakedisk_sync_failed(struct fakedisk *disk, struct fake_inode *inode);

/* What was not durable is lost, kept or garbled; what is left is both cached and durable. */
void fakedisk_lose(struct fakedisk *disk);

#endif
