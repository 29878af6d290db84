/* Disk images and a disk in memory that writes down what is done to it.
 *
 * An image is what a disk holds: names and contents, nothing pending. Contents are shared and counted,
 * so that many images of nearly the same disk cost little.
 *
 * A tape is a machine that runs on an image: a `struct os` for the code under test, and the list of
 * everything that changed the disk, in order, sector by sector. From the tape after.h tells what a
 * crash at any point of it may leave. It fails calls on demand, like fakeos, but decides nothing
 * about crashes itself. For one thread. */
#ifndef TESTS_CRASH_IMAGE_H
#define TESTS_CRASH_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/prng.h"
#include "os/os.h"

#define SECTOR_BYTES ((size_t)512)
#define PHYSICAL_BYTES ((size_t)4096) /* the disk's unit of writing: the disk can lose all of it */
#define PATH_BYTES 56
#define NAMES_MAX 48

/* Contents: whole sectors, zero behind the size. */
struct blob {
    unsigned refs;
    size_t size;
    size_t capacity;
    uint8_t *bytes;
    uint64_t *hashes; /* hashes of the sectors, if computed; dropped when the content changes */
};

struct blob *blob_new(size_t capacity);
struct blob *blob_share(struct blob *blob);
void blob_drop(struct blob *blob);
/* The same contents with this much room, the caller's alone; takes over the caller's share. */
struct blob *blob_own(struct blob *blob, size_t capacity);
/* What is behind the new size is zero. */
void blob_resize(struct blob *blob, size_t size);

struct image_name {
    char path[PATH_BYTES];
    int inode;
};

struct image_names {
    struct image_name at[NAMES_MAX];
    int count;
};

int names_find(const struct image_names *names, const char *path); /* inode, or -1 */
void names_set(struct image_names *names, const char *path, int inode);
void names_unset(struct image_names *names, const char *path);

struct image {
    struct image_names names;
    struct blob *blobs[NAMES_MAX]; /* by inode; NULL: a directory */
    int inodes;
    uint64_t hash; /* hash of the whole image; set by the code that makes the image */
};

void image_free(struct image *image);

/* ---- The tape ---- */

enum tape_kind {
    TAPE_WRITE,  /* sectors of an inode; `size` if that made it larger */
    TAPE_RESIZE, /* of an inode */
    TAPE_SYNC,   /* of an inode, or of the directory `to` */
    TAPE_SYNC_FAILED,
    TAPE_NAME, /* `to` now is the inode, `from` is not any more; either may be empty */
    TAPE_NOTE, /* no call: how many batches are acknowledged, and the last one that was tried */
};

struct tape_sector {
    const uint8_t *bytes;
    uint64_t hash; /* 0: zeros */
};

struct tape_op {
    enum tape_kind kind;
    int inode;
    bool grows;
    size_t size;
    size_t first; /* sector */
    size_t count;
    struct tape_sector *sectors;
    char from[PATH_BYTES];
    char to[PATH_BYTES];
    size_t acked;
    const void *tip; /* see ledger.h */
};

struct tape;

/* `image` may be NULL: an empty disk. Random numbers come from the seed. */
struct tape *tape_new(const struct image *image, uint64_t seed);
void tape_free(struct tape *tape);
const struct os *tape_os(struct tape *tape);
const struct tape_op *tape_ops(const struct tape *tape, size_t *ret_count);

/* Returns the place of the note, for changing its tip when that is known. */
size_t tape_note(struct tape *tape, size_t acked, const void *tip);
void tape_note_tip(struct tape *tape, size_t note, const void *tip);
void tape_clock_advance(struct tape *tape, uint64_t ms);

/* The process dies: every call fails from now on, and nothing is changed or written down. */
void tape_kill(struct tape *tape);
/* The same, when it makes the call with this number. */
void tape_kill_call(struct tape *tape, uint64_t call);
/* Another process begins on the same machine: cached contents are still there. */
void tape_restart(struct tape *tape);

/* Calls that can fail are counted from 1; the one with this number does. 0: none. */
uint64_t tape_calls(const struct tape *tape);
void tape_fail_call(struct tape *tape, uint64_t call, enum tn_status status);
/* The n-th sync from now on does, of a file or of a directory. */
void tape_fail_sync(struct tape *tape, uint64_t n, bool of_directory, enum tn_status status);
/* Whether one has failed, or the process has died, since it began. */
bool tape_failed(const struct tape *tape);

/* How many names have this in them. */
unsigned tape_count_names(const struct tape *tape, const char *part);

uint64_t sector_hash(const uint8_t *bytes);

#endif
