/* Contents, names and images; see image.h. */
#include "crash/image.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"

static size_t sectors_up(size_t bytes) {
    return (bytes + SECTOR_BYTES - 1) / SECTOR_BYTES * SECTOR_BYTES;
}

struct blob *blob_new(size_t capacity) {
    struct blob *blob = malloc(sizeof *blob);
    TN_ASSERT(blob != NULL);
    *blob = (struct blob){.refs = 1, .capacity = sectors_up(capacity)};
    blob->bytes = calloc(1, blob->capacity + 1);
    TN_ASSERT(blob->bytes != NULL);
    return blob;
}

struct blob *blob_share(struct blob *blob) {
    blob->refs += 1;
    return blob;
}

void blob_drop(struct blob *blob) {
    if (blob != NULL) {
        blob->refs -= 1;
        if (blob->refs == 0) {
            free(blob->hashes);
            free(blob->bytes);
            free(blob);
        }
    }
}

struct blob *blob_own(struct blob *blob, size_t capacity) {
    size_t room = sectors_up(capacity);
    if (blob->refs == 1 && blob->capacity >= room) {
        free(blob->hashes);
        blob->hashes = NULL;
        return blob;
    }
    /* Files grow by small writes: not a copy for each. */
    if (blob->capacity < room && blob->capacity > 0) {
        room += blob->capacity;
    }
    size_t kept = blob->capacity;
    struct blob *own = malloc(sizeof *own);
    TN_ASSERT(own != NULL);
    *own = (struct blob){.refs = 1, .size = blob->size, .capacity = room > kept ? room : kept};
    own->bytes = malloc(own->capacity + 1);
    TN_ASSERT(own->bytes != NULL);
    memcpy(own->bytes, blob->bytes, kept);
    memset(own->bytes + kept, 0, own->capacity - kept);
    blob_drop(blob);
    return own;
}

void blob_resize(struct blob *blob, size_t size) {
    TN_ASSERT(blob->refs == 1 && size <= blob->capacity);
    if (size < blob->size) {
        memset(blob->bytes + size, 0, blob->size - size);
    }
    blob->size = size;
}

static int names_at(const struct image_names *names, const char *path) {
    for (int i = 0; i < names->count; i++) {
        if (strcmp(names->at[i].path, path) == 0) {
            return i;
        }
    }
    return -1;
}

int names_find(const struct image_names *names, const char *path) {
    int at = names_at(names, path);
    return at < 0 ? -1 : names->at[at].inode;
}

void names_set(struct image_names *names, const char *path, int inode) {
    int at = names_at(names, path);
    if (at < 0) {
        TN_ASSERT(names->count < NAMES_MAX && strlen(path) < PATH_BYTES);
        at = names->count;
        names->count += 1;
        memcpy(names->at[at].path, path, strlen(path) + 1);
    }
    names->at[at].inode = inode;
}

void names_unset(struct image_names *names, const char *path) {
    int at = names_at(names, path);
    if (at >= 0) {
        names->count -= 1;
        names->at[at] = names->at[names->count];
    }
}

void image_free(struct image *image) {
    for (int i = 0; i < image->inodes; i++) {
        blob_drop(image->blobs[i]);
    }
    memset(image, 0, sizeof *image);
}

uint64_t sector_hash(const uint8_t *bytes) {
    static const uint8_t zeros[SECTOR_BYTES];
    if (bytes[0] == 0 && memcmp(bytes, zeros, SECTOR_BYTES) == 0) {
        return 0;
    }
    uint64_t hash = tn_hash64(bytes, SECTOR_BYTES, 0x5ec70);
    return hash == 0 ? 1 : hash;
}
