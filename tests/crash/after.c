/* Walking through a tape and building what is left; see after.h. */
#include "crash/after.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"

/* A sector or a size that is not durable; in the order of the tape. */
struct pending {
    int inode;
    bool is_size;
    bool limbo; /* a sync of the inode has failed */
    size_t sector;
    size_t size;
    struct tape_sector to;
};

enum change_state { CHANGE_OPEN, CHANGE_LIMBO, CHANGE_CERTAIN };

struct change {
    const struct tape_op *op;
    enum change_state state;
};

struct after_inode {
    bool known;
    struct blob *blob; /* durable; NULL: a directory */
    uint64_t *hashes;  /* of its sectors */
    size_t hash_count;
    uint64_t sum;          /* sum over all sectors in their places */
    uint64_t stamp, delta; /* for the picks being examined */
    size_t size;
};

struct after {
    struct image_names names; /* durable, before the changes */
    struct change *changes;
    size_t change_count, change_capacity;
    struct after_inode *inodes;
    size_t inode_count;
    struct pending *pending;
    size_t pending_count, pending_capacity;
    struct choice choices[CHOICES_MAX];
    size_t choice_count;
    uint64_t stamp;
};

static void *must(void *memory) {
    TN_ASSERT(memory != NULL);
    return memory;
}

/* ---- Contents ---- */

static uint64_t place_hash(size_t sector, uint64_t hash) {
    return hash == 0 ? 0 : tn_mix64(hash + (sector + 1) * 0x9e3779b97f4a7c15u);
}

static uint64_t durable_hash(const struct after_inode *inode, size_t sector) {
    return sector < inode->hash_count ? inode->hashes[sector] : 0;
}

static void hashes_reserve(struct after_inode *inode, size_t count) {
    if (count > inode->hash_count) {
        inode->hashes = must(realloc(inode->hashes, count * sizeof *inode->hashes));
        memset(inode->hashes + inode->hash_count, 0,
               (count - inode->hash_count) * sizeof *inode->hashes);
        inode->hash_count = count;
    }
}

static void hash_set(struct after_inode *inode, size_t sector, uint64_t hash) {
    hashes_reserve(inode, sector + 1);
    inode->sum += place_hash(sector, hash) - place_hash(sector, inode->hashes[sector]);
    inode->hashes[sector] = hash;
}

static struct after_inode *inode_at(struct after *after, int inode) {
    TN_ASSERT(inode >= 0);
    if ((size_t)inode >= after->inode_count) {
        size_t count = (size_t)inode + 16;
        after->inodes = must(realloc(after->inodes, count * sizeof *after->inodes));
        memset(after->inodes + after->inode_count, 0,
               (count - after->inode_count) * sizeof *after->inodes);
        after->inode_count = count;
    }
    return &after->inodes[inode];
}

/* A file that begins empty, at its first write or name. */
static struct after_inode *file_at(struct after *after, int inode) {
    struct after_inode *at = inode_at(after, inode);
    if (!at->known) {
        at->known = true;
        at->blob = blob_new(0);
    }
    return at;
}

static void inode_load(struct after_inode *inode, struct blob *blob) {
    inode->known = true;
    inode->blob = blob == NULL ? NULL : blob_share(blob);
    if (blob == NULL) {
        return;
    }
    size_t count = blob->capacity / SECTOR_BYTES;
    hashes_reserve(inode, count);
    for (size_t i = 0; i < count; i++) {
        uint64_t hash =
            blob->hashes != NULL ? blob->hashes[i] : sector_hash(blob->bytes + i * SECTOR_BYTES);
        hash_set(inode, i, hash);
    }
}

static void durable_write(struct after_inode *inode, size_t sector, const struct tape_sector *to) {
    inode->blob = blob_own(inode->blob, (sector + 1) * SECTOR_BYTES);
    memcpy(inode->blob->bytes + sector * SECTOR_BYTES, to->bytes, SECTOR_BYTES);
    hash_set(inode, sector, to->hash);
}

static void durable_resize(struct after_inode *inode, size_t size) {
    size_t before = inode->blob->size;
    inode->blob = blob_own(inode->blob, size);
    blob_resize(inode->blob, size);
    for (size_t i = size / SECTOR_BYTES; i * SECTOR_BYTES < before; i++) {
        hash_set(inode, i, sector_hash(inode->blob->bytes + i * SECTOR_BYTES));
    }
}

/* ---- Applying ---- */

static struct pending *pending_add(struct after *after, int inode) {
    if (after->pending_count == after->pending_capacity) {
        after->pending_capacity = after->pending_capacity * 2 + 256;
        after->pending =
            must(realloc(after->pending, after->pending_capacity * sizeof *after->pending));
    }
    struct pending *pending = &after->pending[after->pending_count];
    after->pending_count += 1;
    *pending = (struct pending){.inode = inode};
    return pending;
}

static void apply_write(struct after *after, const struct tape_op *op) {
    (void)file_at(after, op->inode);
    for (size_t i = 0; i < op->count; i++) {
        struct pending *pending = pending_add(after, op->inode);
        pending->sector = op->first + i;
        pending->to = op->sectors[i];
    }
    if (op->grows) {
        struct pending *pending = pending_add(after, op->inode);
        pending->is_size = true;
        pending->size = op->size;
    }
}

/* Whether a later write that the sync does cover writes the same place again. */
static bool limbo_superseded(const struct after *after, size_t at) {
    const struct pending *old = &after->pending[at];
    for (size_t i = at + 1; i < after->pending_count; i++) {
        const struct pending *new = &after->pending[i];
        if (new->inode == old->inode &&new->is_size == old->is_size && !new->limbo &&
            (old->is_size || new->sector == old->sector)) {
            return true;
        }
    }
    return false;
}

static void apply_sync(struct after *after, int number) {
    struct after_inode *inode = file_at(after, number);
    size_t kept = 0;
    /* Superseded ones first, while those that supersede them are still in the list. */
    for (size_t i = 0; i < after->pending_count; i++) {
        const struct pending *pending = &after->pending[i];
        if (!(pending->inode == number && pending->limbo && limbo_superseded(after, i))) {
            after->pending[kept++] = *pending;
        }
    }
    after->pending_count = kept;
    kept = 0;
    for (size_t i = 0; i < after->pending_count; i++) {
        const struct pending *pending = &after->pending[i];
        if (pending->inode != number || pending->limbo) {
            after->pending[kept++] = *pending;
        } else if (pending->is_size) {
            durable_resize(inode, pending->size);
        } else {
            durable_write(inode, pending->sector, &pending->to);
        }
    }
    after->pending_count = kept;
}

static void apply_sync_failed(struct after *after, int inode) {
    for (size_t i = 0; i < after->pending_count; i++) {
        if (after->pending[i].inode == inode) {
            after->pending[i].limbo = true;
        }
    }
}

static bool change_in(const struct change *change, const char *dir) {
    const char *path = change->op->to[0] != '\0' ? change->op->to : change->op->from;
    const char *slash = strrchr(path, '/');
    size_t len = slash == path ? 1 : (size_t)(slash - path);
    return strlen(dir) == len && memcmp(dir, path, len) == 0;
}

static void change_make(struct image_names *names, const struct tape_op *op) {
    if (op->from[0] != '\0' && names_find(names, op->from) == op->inode) {
        names_unset(names, op->from);
    }
    if (op->to[0] != '\0') {
        names_set(names, op->to, op->inode);
    }
}

static void apply_sync_dir(struct after *after, const char *dir, bool failed) {
    for (size_t i = 0; i < after->change_count; i++) {
        struct change *change = &after->changes[i];
        if (change->state != CHANGE_OPEN || !change_in(change, dir)) {
            continue;
        }
        /* An existing directory cannot be made again, so a failed sync does not make its name
         * uncertain. */
        bool is_dir = inode_at(after, change->op->inode)->blob == NULL;
        if (!failed) {
            change->state = CHANGE_CERTAIN;
        } else if (!is_dir) {
            change->state = CHANGE_LIMBO;
        }
    }
    size_t first = 0;
    while (first < after->change_count && after->changes[first].state == CHANGE_CERTAIN) {
        change_make(&after->names, after->changes[first].op);
        first += 1;
    }
    after->change_count -= first;
    if (first > 0) {
        memmove(after->changes, after->changes + first,
                after->change_count * sizeof *after->changes);
    }
}

static void apply_name(struct after *after, const struct tape_op *op) {
    struct after_inode *inode = inode_at(after, op->inode);
    if (!inode->known) {
        inode->known = true;
        /* The only directory is the one that contains the files. */
        inode->blob = strchr(op->to + 1, '/') != NULL ? blob_new(0) : NULL;
    }
    if (after->change_count == after->change_capacity) {
        after->change_capacity = after->change_capacity * 2 + 32;
        after->changes =
            must(realloc(after->changes, after->change_capacity * sizeof *after->changes));
    }
    after->changes[after->change_count] = (struct change){.op = op};
    after->change_count += 1;
}

void after_apply(struct after *after, const struct tape_op *op) {
    switch (op->kind) {
    case TAPE_WRITE:
        apply_write(after, op);
        break;
    case TAPE_RESIZE: {
        struct pending *pending = pending_add(after, op->inode);
        pending->is_size = true;
        pending->size = op->size;
        break;
    }
    case TAPE_SYNC:
    case TAPE_SYNC_FAILED:
        if (op->to[0] != '\0') {
            apply_sync_dir(after, op->to, op->kind == TAPE_SYNC_FAILED);
        } else if (op->kind == TAPE_SYNC) {
            apply_sync(after, op->inode);
        } else {
            apply_sync_failed(after, op->inode);
        }
        break;
    case TAPE_NAME:
        apply_name(after, op);
        break;
    case TAPE_NOTE:
        break;
    }
}

/* ---- Choices ---- */

static struct choice *choice_find(struct after *after, const struct pending *pending) {
    enum choice_kind kind = pending->is_size ? CHOICE_SIZE : CHOICE_SECTOR;
    for (size_t i = 0; i < after->choice_count; i++) {
        struct choice *choice = &after->choices[i];
        if (choice->kind == kind && choice->inode == pending->inode &&
            choice->sector == pending->sector) {
            return choice;
        }
    }
    if (after->choice_count == CHOICES_MAX) {
        return NULL;
    }
    struct choice *choice = &after->choices[after->choice_count];
    after->choice_count += 1;
    *choice = (struct choice){
        .kind = kind, .inode = pending->inode, .sector = pending->sector, .options = 1};
    return choice;
}

static bool version_known(const struct after *after, const struct choice *choice,
                          const struct pending *pending) {
    const struct after_inode *inode = &after->inodes[choice->inode];
    if (pending->is_size ? inode->blob->size == pending->size
                         : durable_hash(inode, pending->sector) == pending->to.hash) {
        return true;
    }
    for (unsigned i = 1; i < choice->options; i++) {
        const struct pending *other = &after->pending[choice->versions[i - 1]];
        if (pending->is_size ? other->size == pending->size : other->to.hash == pending->to.hash) {
            return true;
        }
    }
    return false;
}

static void choices_of_contents(struct after *after) {
    for (size_t i = 0; i < after->pending_count; i++) {
        const struct pending *pending = &after->pending[i];
        const struct after_inode *inode = file_at(after, pending->inode);
        /* A write of the content that is already durable is no choice, unless there are other
         * writes to that place. */
        if (!pending->is_size && pending->to.hash == 0 &&
            durable_hash(inode, pending->sector) == 0) {
            continue;
        }
        struct choice *choice = choice_find(after, pending);
        if (choice != NULL && choice->options <= VERSIONS_MAX &&
            !version_known(after, choice, pending)) {
            choice->versions[choice->options - 1] = i;
            choice->options += 1;
        }
    }
    size_t kept = 0;
    for (size_t i = 0; i < after->choice_count; i++) {
        if (after->choices[i].options > 1) {
            after->choices[kept++] = after->choices[i];
        }
    }
    after->choice_count = kept;
}

const struct choice *after_choices(struct after *after, size_t *ret_count) {
    after->choice_count = 0;
    choices_of_contents(after);
    for (size_t i = 0; i < after->change_count; i++) {
        if (after->changes[i].state != CHANGE_CERTAIN && after->choice_count < CHOICES_MAX) {
            after->choices[after->choice_count] =
                (struct choice){.kind = CHOICE_NAME, .change = i, .options = 2};
            after->choice_count += 1;
        }
    }
    *ret_count = after->choice_count;
    return after->choices;
}

/* ---- States ---- */

static void picked_names(const struct after *after, const uint8_t *picks,
                         struct image_names *ret_names) {
    *ret_names = after->names;
    size_t next = 0; /* choice of a name */
    while (next < after->choice_count && after->choices[next].kind != CHOICE_NAME) {
        next += 1;
    }
    for (size_t i = 0; i < after->change_count; i++) {
        bool kept = after->changes[i].state == CHANGE_CERTAIN;
        if (next < after->choice_count && after->choices[next].change == i) {
            kept = picks[next] != 0;
            next += 1;
        }
        if (kept) {
            change_make(ret_names, after->changes[i].op);
        }
    }
    for (int i = 0; i < ret_names->count;) {
        const char *path = ret_names->at[i].path;
        const char *slash = strrchr(path, '/');
        char parent[PATH_BYTES] = {0};
        memcpy(parent, path, (size_t)(slash - path));
        if (slash != path && names_find(ret_names, parent) < 0) {
            ret_names->count -= 1;
            ret_names->at[i] = ret_names->at[ret_names->count];
        } else {
            i += 1;
        }
    }
}

static uint64_t picked_hash(const struct after *after, const struct choice *choice, uint8_t pick) {
    if (pick == 0) {
        return durable_hash(&after->inodes[choice->inode], choice->sector);
    }
    uint64_t newest = after->pending[choice->versions[choice->options - 2]].to.hash;
    if (pick == PICK_GARBAGE || pick == PICK_HALF || pick == PICK_PHYSICAL) {
        return tn_mix64(newest + pick + choice->sector);
    }
    return after->pending[choice->versions[pick - 1]].to.hash;
}

/* Sizes first: a sector counts only below the end. */
static void inodes_pick(struct after *after, const uint8_t *picks) {
    after->stamp += 1;
    for (size_t i = 0; i < after->choice_count; i++) {
        const struct choice *choice = &after->choices[i];
        if (choice->kind == CHOICE_NAME) {
            break;
        }
        struct after_inode *inode = &after->inodes[choice->inode];
        if (inode->stamp != after->stamp) {
            inode->stamp = after->stamp;
            inode->delta = 0;
            inode->size = inode->blob->size;
        }
        if (choice->kind == CHOICE_SIZE && picks[i] > 0) {
            inode->size = after->pending[choice->versions[picks[i] - 1]].size;
        }
    }
    for (size_t i = 0; i < after->choice_count; i++) {
        const struct choice *choice = &after->choices[i];
        if (choice->kind == CHOICE_SECTOR && picks[i] != 0) {
            struct after_inode *inode = &after->inodes[choice->inode];
            if (choice->sector * SECTOR_BYTES < inode->size) {
                inode->delta += place_hash(choice->sector, picked_hash(after, choice, picks[i])) -
                                place_hash(choice->sector, durable_hash(inode, choice->sector));
            }
        }
    }
}

static uint64_t inode_hash(const struct after *after, const struct after_inode *inode) {
    if (inode->blob == NULL) {
        return 7;
    }
    bool touched = inode->stamp == after->stamp;
    size_t size = touched ? inode->size : inode->blob->size;
    uint64_t sum = inode->sum + (touched ? inode->delta : 0);
    for (size_t i = (size + SECTOR_BYTES - 1) / SECTOR_BYTES; i < inode->hash_count; i++) {
        sum -= place_hash(i, inode->hashes[i]);
    }
    return tn_mix64(sum + size * 0xa0761d6478bd642fu);
}

uint64_t after_hash(struct after *after, const uint8_t *picks) {
    struct image_names names;
    picked_names(after, picks, &names);
    inodes_pick(after, picks);
    uint64_t hash = 0;
    for (int i = 0; i < names.count; i++) {
        const char *path = names.at[i].path;
        uint64_t content = inode_hash(after, &after->inodes[names.at[i].inode]);
        hash += tn_mix64(tn_hash64(path, strlen(path), content));
    }
    return hash;
}

static void sector_garble(uint64_t seed, uint8_t *at) {
    struct tn_prng prng;
    tn_prng_seed(&prng, seed);
    for (size_t i = 0; i < SECTOR_BYTES; i++) {
        at[i] = (uint8_t)tn_prng_next(&prng);
    }
}

static void sector_make(const struct after *after, const struct choice *choice, uint8_t pick,
                        uint8_t *at) {
    bool odd = pick >= PICK_GARBAGE;
    size_t version = choice->versions[odd ? choice->options - 2 : pick - 1u];
    const struct tape_sector *to = &after->pending[version].to;
    if (pick == PICK_GARBAGE || pick == PICK_PHYSICAL) {
        sector_garble(to->hash + choice->sector, at);
    } else {
        memcpy(at, to->bytes, pick == PICK_HALF ? SECTOR_BYTES / 2 : SECTOR_BYTES);
    }
}

/* Garbles the physical sectors that were picked, as far as the file goes. The blob is the caller's. */
static void physical_garble(const struct after *after, const uint8_t *picks, int number,
                            struct blob *blob, size_t size) {
    for (size_t i = 0; i < after->choice_count; i++) {
        const struct choice *choice = &after->choices[i];
        if (choice->kind != CHOICE_SECTOR || choice->inode != number || picks[i] != PICK_PHYSICAL) {
            continue;
        }
        size_t begin = choice->sector * SECTOR_BYTES / PHYSICAL_BYTES * PHYSICAL_BYTES;
        for (size_t at = begin; at < begin + PHYSICAL_BYTES && at + SECTOR_BYTES <= size;
             at += SECTOR_BYTES) {
            sector_garble(at + choice->sector, blob->bytes + at);
        }
    }
}

bool after_is_log(const struct after *after, int inode) {
    for (int i = 0; i < after->names.count; i++) {
        const char *path = after->names.at[i].path;
        size_t len = strlen(path);
        if (after->names.at[i].inode == inode) {
            return len > 4 && strcmp(path + len - 4, ".log") == 0;
        }
    }
    return false;
}

/* The contents of one inode, shared if the picks do not change them. */
static struct blob *blob_make(const struct after *after, const uint8_t *picks, int number) {
    const struct after_inode *inode = &after->inodes[number];
    if (inode->blob == NULL) {
        return NULL;
    }
    struct blob *blob = blob_share(inode->blob);
    if (inode->stamp == after->stamp) {
        size_t size = inode->size;
        bool same = size == blob->size;
        for (size_t i = 0; i < after->choice_count; i++) {
            const struct choice *choice = &after->choices[i];
            size_t offset = choice->sector * SECTOR_BYTES;
            if (choice->kind == CHOICE_SECTOR && choice->inode == number && picks[i] != 0 &&
                offset < size) {
                blob = blob_own(blob, offset + SECTOR_BYTES > size ? offset + SECTOR_BYTES : size);
                sector_make(after, choice, picks[i], blob->bytes + offset);
                same = false;
            }
        }
        if (!same) {
            blob = blob_own(blob, size);
            physical_garble(after, picks, number, blob, size);
            memset(blob->bytes + size, 0, blob->capacity - size);
            blob->size = size;
        }
    }
    return blob;
}

void after_image(struct after *after, const uint8_t *picks, struct image *ret_image) {
    memset(ret_image, 0, sizeof *ret_image);
    ret_image->hash = after_hash(after, picks);
    picked_names(after, picks, &ret_image->names);
    int numbers[NAMES_MAX] = {0};
    for (int i = 0; i < ret_image->names.count; i++) {
        int *inode = &ret_image->names.at[i].inode;
        int known = 0;
        while (known < ret_image->inodes && numbers[known] != *inode) {
            known += 1;
        }
        if (known == ret_image->inodes) {
            numbers[known] = *inode;
            ret_image->blobs[known] = blob_make(after, picks, *inode);
            ret_image->inodes += 1;
        }
        *inode = known;
    }
}

/* ---- Life ---- */

struct after *after_new(const struct image *image) {
    struct after *after = must(calloc(1, sizeof *after));
    if (image != NULL) {
        after->names = image->names;
        for (int i = 0; i < image->inodes; i++) {
            inode_load(inode_at(after, i), image->blobs[i]);
        }
    }
    return after;
}

void after_free(struct after *after) {
    for (size_t i = 0; i < after->inode_count; i++) {
        blob_drop(after->inodes[i].blob);
        free(after->inodes[i].hashes);
    }
    free(after->inodes);
    free(after->pending);
    free(after->changes);
    free(after);
}
