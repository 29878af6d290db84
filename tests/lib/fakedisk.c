/* Contents and names of the fake disk; see fakedisk.h. */
#include "lib/fakedisk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "lib/fakeos.h"

static void *must(void *memory) {
    TN_ASSERT(memory != NULL);
    return memory;
}

bool fakedisk_coin(struct fakedisk *disk) {
    return tn_prng_below(&disk->prng, 2) == 0;
}

uint64_t fakedisk_used(const struct fakedisk *disk) {
    uint64_t used = 0;
    for (size_t i = 0; i < disk->inode_count; i++) {
        used += disk->inodes[i].used ? disk->inodes[i].cached_size : 0;
    }
    return used;
}

/* -- names -------------------------------------------------------------------------------------- */

static int names_find(const struct fake_names *names, const char *path) {
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->at[i].path, path) == 0) {
            return (int)i;
        }
    }
    return -1;
}

static int names_inode(const struct fake_names *names, const char *path) {
    int at = names_find(names, path);
    return at < 0 ? -1 : names->at[at].inode;
}

static void names_set(struct fake_names *names, const char *path, int inode) {
    int at = names_find(names, path);
    if (at >= 0) {
        names->at[at].inode = inode;
        return;
    }
    if (names->count == names->capacity) {
        names->capacity = names->capacity * 2 + 16;
        names->at = must(realloc(names->at, names->capacity * sizeof *names->at));
    }
    struct fake_name *name = &names->at[names->count];
    int len = snprintf(name->path, sizeof name->path, "%s", path);
    TN_ASSERT(len >= 0 && len < FAKEDISK_PATH_BYTES);
    name->inode = inode;
    names->count += 1;
}

static void names_unset(struct fake_names *names, const char *path) {
    int at = names_find(names, path);
    if (at >= 0) {
        names->at[at] = names->at[names->count - 1];
        names->count -= 1;
    }
}

static void names_copy(struct fake_names *to, const struct fake_names *from) {
    to->count = 0;
    for (size_t i = 0; i < from->count; i++) {
        names_set(to, from->at[i].path, from->at[i].inode);
    }
}

/* The directory a path is in: "." or "/" for the top, which always exist. */
void fakedisk_parent(const char *path, char out[FAKEDISK_PATH_BYTES]) {
    const char *slash = strrchr(path, '/');
    size_t len = slash == NULL ? 0 : (size_t)(slash - path);
    TN_ASSERT(len < FAKEDISK_PATH_BYTES);
    memcpy(out, path, len);
    out[len] = '\0';
    if (len == 0) {
        snprintf(out, FAKEDISK_PATH_BYTES, "%s", slash == NULL ? "." : "/");
    }
}

static bool names_dir_exists(const struct fakedisk *disk, const struct fake_names *names,
                             const char *path) {
    if (strcmp(path, ".") == 0 || strcmp(path, "/") == 0) {
        return true;
    }
    int inode = names_inode(names, path);
    return inode >= 0 && disk->inodes[inode].is_dir;
}

static void change_add(struct fakedisk *disk, const char *from, const char *to, int inode) {
    if (disk->change_count == disk->change_capacity) {
        disk->change_capacity = disk->change_capacity * 2 + 16;
        disk->changes = must(realloc(disk->changes, disk->change_capacity * sizeof *disk->changes));
    }
    struct fake_change *change = &disk->changes[disk->change_count];
    snprintf(change->from, sizeof change->from, "%s", from);
    snprintf(change->to, sizeof change->to, "%s", to);
    change->inode = inode;
    disk->change_count += 1;
}

static void change_apply(struct fake_names *names, const struct fake_change *change) {
    if (change->from[0] != '\0' && names_inode(names, change->from) == change->inode) {
        names_unset(names, change->from);
    }
    if (change->to[0] != '\0') {
        names_set(names, change->to, change->inode);
    }
}

/* Both the cached directory, now, and the durable one, at the next sync_dir. */
static void change_make(struct fakedisk *disk, const char *from, const char *to, int inode) {
    change_add(disk, from, to, inode);
    change_apply(&disk->cached, &disk->changes[disk->change_count - 1]);
}

static bool change_is_in(const struct fake_change *change, const char *dir) {
    char parent[FAKEDISK_PATH_BYTES];
    fakedisk_parent(change->to[0] != '\0' ? change->to : change->from, parent);
    return strcmp(parent, dir) == 0;
}

/* -- contents ----------------------------------------------------------------------------------- */

static int inode_new(struct fakedisk *disk, bool is_dir) {
    size_t at = 0;
    while (at < disk->inode_count && disk->inodes[at].used) {
        at += 1;
    }
    if (at == disk->inode_count) {
        disk->inode_count += 1;
        disk->inodes = must(realloc(disk->inodes, disk->inode_count * sizeof *disk->inodes));
    }
    disk->inodes[at] = (struct fake_inode){.used = true, .is_dir = is_dir};
    return (int)at;
}

static void inode_free(struct fake_inode *inode) {
    free(inode->cached);
    free(inode->durable);
    free(inode->dirty);
    *inode = (struct fake_inode){0};
}

static bool names_have_inode(const struct fake_names *names, int inode) {
    for (size_t i = 0; i < names->count; i++) {
        if (names->at[i].inode == inode) {
            return true;
        }
    }
    return false;
}

static bool inode_referenced(const struct fakedisk *disk, int inode) {
    if (disk->inodes[inode].handles > 0) {
        return true;
    }
    for (size_t i = 0; i < disk->change_count; i++) {
        if (disk->changes[i].inode == inode) {
            return true;
        }
    }
    return names_have_inode(&disk->cached, inode) || names_have_inode(&disk->durable, inode);
}

static void inodes_collect(struct fakedisk *disk) {
    for (size_t i = 0; i < disk->inode_count; i++) {
        if (disk->inodes[i].used && !inode_referenced(disk, (int)i)) {
            inode_free(&disk->inodes[i]);
        }
    }
}

static void inode_reserve(struct fake_inode *inode, uint64_t bytes) {
    uint64_t capacity = (bytes + FAKEOS_SECTOR - 1) / FAKEOS_SECTOR * FAKEOS_SECTOR;
    if (capacity <= inode->capacity) {
        return;
    }
    size_t old = (size_t)inode->capacity;
    size_t new = (size_t)capacity;
    inode->cached = must(realloc(inode->cached, new));
    inode->durable = must(realloc(inode->durable, new));
    inode->dirty = must(realloc(inode->dirty, new / FAKEOS_SECTOR));
    memset(inode->cached + old, 0, new - old);
    memset(inode->durable + old, 0, new - old);
    memset(inode->dirty + old / FAKEOS_SECTOR, 0, (new - old) / FAKEOS_SECTOR);
    inode->capacity = capacity;
}

void fakedisk_write(struct fake_inode *inode, const uint8_t *bytes, uint64_t len, uint64_t offset) {
    if (len == 0) {
        return;
    }
    inode_reserve(inode, offset + len);
    memcpy(inode->cached + offset, bytes, (size_t)len);
    uint64_t last = (offset + len - 1) / FAKEOS_SECTOR;
    for (uint64_t sector = offset / FAKEOS_SECTOR; sector <= last; sector++) {
        inode->dirty[sector] = 1;
    }
    if (offset + len > inode->cached_size) {
        inode->cached_size = offset + len;
    }
}

void fakedisk_resize(struct fake_inode *inode, uint64_t bytes) {
    inode_reserve(inode, bytes);
    if (bytes < inode->cached_size) {
        memset(inode->cached + bytes, 0, (size_t)(inode->cached_size - bytes));
    }
    inode->cached_size = bytes;
}

static void sector_copy(uint8_t *to, const uint8_t *from, uint64_t sector) {
    memcpy(to + sector * FAKEOS_SECTOR, from + sector * FAKEOS_SECTOR, FAKEOS_SECTOR);
}

void fakedisk_sync(struct fake_inode *inode) {
    for (uint64_t sector = 0; sector < inode->capacity / FAKEOS_SECTOR; sector++) {
        if (inode->dirty[sector] != 0) {
            sector_copy(inode->durable, inode->cached, sector);
            inode->dirty[sector] = 0;
        }
    }
    inode->durable_size = inode->cached_size;
    if (inode->capacity > 0) { /* something was written once */
        memset(inode->durable + inode->durable_size, 0,
               (size_t)(inode->capacity - inode->durable_size));
    }
}

/* Some sectors become durable, all are marked clean: a later sync will not write the others. */
void fakedisk_sync_failed(struct fakedisk *disk, struct fake_inode *inode) {
    for (uint64_t sector = 0; sector < inode->capacity / FAKEOS_SECTOR; sector++) {
        if (inode->dirty[sector] != 0 && fakedisk_coin(disk)) {
            sector_copy(inode->durable, inode->cached, sector);
        }
        inode->dirty[sector] = 0;
    }
    if (fakedisk_coin(disk)) {
        inode->durable_size = inode->cached_size;
    }
}

static void inode_copy(struct fake_inode *to, const struct fake_inode *from) {
    *to = (struct fake_inode){.used = from->used, .is_dir = from->is_dir};
    if (!from->used) {
        return;
    }
    inode_reserve(to, from->capacity);
    TN_ASSERT(to->capacity == from->capacity);
    if (to->capacity > 0) {
        memcpy(to->cached, from->cached, (size_t)from->capacity);
        memcpy(to->durable, from->durable, (size_t)from->capacity);
        memcpy(to->dirty, from->dirty, (size_t)from->capacity / FAKEOS_SECTOR);
    }
    to->cached_size = from->cached_size;
    to->durable_size = from->durable_size;
}

/* How much unsynced data survives: each kind of luck gets its turn. */
enum luck {
    LUCK_NONE,
    LUCK_ALL,
    LUCK_MIXED,
    LUCK_GARBLED, /* mixed for directories: any selection, not in order */
    LUCK_KINDS,
};

static void sector_garble(struct fakedisk *disk, uint8_t *durable, const uint8_t *cached,
                          uint64_t sector) {
    uint8_t *at = durable + sector * FAKEOS_SECTOR;
    switch (tn_prng_below(&disk->prng, 3)) {
    case 0:
        for (size_t i = 0; i < FAKEOS_SECTOR; i++) {
            at[i] = (uint8_t)tn_prng_next(&disk->prng);
        }
        break;
    case 1:
        sector_copy(durable, cached, sector);
        at[tn_prng_below(&disk->prng, FAKEOS_SECTOR)] ^=
            (uint8_t)(1u << tn_prng_below(&disk->prng, 8));
        break;
    default:
        memcpy(at, cached + sector * FAKEOS_SECTOR,
               (size_t)tn_prng_below(&disk->prng, FAKEOS_SECTOR));
        break;
    }
}

/* The disk was rewriting physical sectors when the power went: some are garbage, or zeros, with all
 * that was synced to them before. */
static void inode_lose_physical(struct fakedisk *disk, struct fake_inode *inode) {
    uint64_t sectors = disk->physical_bytes / FAKEOS_SECTOR;
    uint64_t count = inode->capacity / FAKEOS_SECTOR;
    for (uint64_t first = 0; first < count; first += sectors) {
        uint64_t end = first + sectors < count ? first + sectors : count;
        bool dirty = false;
        for (uint64_t sector = first; sector < end; sector++) {
            dirty = dirty || inode->dirty[sector] != 0;
        }
        if (!dirty || tn_prng_below(&disk->prng, 3) != 0) {
            continue;
        }
        uint8_t mask = fakedisk_coin(disk) ? 0xff : 0;
        for (uint64_t at = first * FAKEOS_SECTOR; at < end * FAKEOS_SECTOR; at++) {
            inode->durable[at] = (uint8_t)tn_prng_next(&disk->prng) & mask;
        }
        memset(inode->dirty + first, 0, (size_t)(end - first));
    }
}

static void inode_lose(struct fakedisk *disk, struct fake_inode *inode, enum luck luck) {
    if (luck == LUCK_GARBLED && disk->physical_bytes > FAKEOS_SECTOR) {
        inode_lose_physical(disk, inode);
    }
    for (uint64_t sector = 0; sector < inode->capacity / FAKEOS_SECTOR; sector++) {
        bool dirty = inode->dirty[sector] != 0;
        if (dirty && luck == LUCK_GARBLED && tn_prng_below(&disk->prng, 3) == 0) {
            sector_garble(disk, inode->durable, inode->cached, sector);
        } else if (dirty && (luck == LUCK_ALL || (luck != LUCK_NONE && fakedisk_coin(disk)))) {
            sector_copy(inode->durable, inode->cached, sector);
        }
        inode->dirty[sector] = 0;
    }
    if (luck == LUCK_ALL || (luck != LUCK_NONE && fakedisk_coin(disk))) {
        inode->durable_size = inode->cached_size;
    }
    if (inode->capacity > 0) {
        memset(inode->durable + inode->durable_size, 0,
               (size_t)(inode->capacity - inode->durable_size));
        memcpy(inode->cached, inode->durable, (size_t)inode->capacity);
    }
    inode->cached_size = inode->durable_size;
}

static void names_lose(struct fakedisk *disk, enum luck luck) {
    size_t first_part = (size_t)tn_prng_below(&disk->prng, disk->change_count + 1);
    for (size_t i = 0; i < disk->change_count; i++) {
        bool kept = luck == LUCK_ALL || (luck == LUCK_MIXED && i < first_part) ||
                    (luck == LUCK_GARBLED && fakedisk_coin(disk));
        if (kept) {
            change_apply(&disk->durable, &disk->changes[i]);
        }
    }
    disk->change_count = 0;
    disk->cached.count = 0;
    for (size_t i = 0; i < disk->durable.count; i++) {
        char parent[FAKEDISK_PATH_BYTES];
        fakedisk_parent(disk->durable.at[i].path, parent);
        if (names_dir_exists(disk, &disk->durable, parent)) {
            names_set(&disk->cached, disk->durable.at[i].path, disk->durable.at[i].inode);
        }
    }
    names_copy(&disk->durable, &disk->cached);
}

/* -- the calls ---------------------------------------------------------------------------------- */

void fakedisk_copy(struct fakedisk *to, const struct fakedisk *from) {
    to->physical_bytes = from->physical_bytes;
    to->inode_count = from->inode_count;
    to->inodes = must(calloc(from->inode_count + 1, sizeof *to->inodes));
    for (size_t i = 0; i < from->inode_count; i++) {
        inode_copy(&to->inodes[i], &from->inodes[i]);
    }
    names_copy(&to->cached, &from->cached);
    names_copy(&to->durable, &from->durable);
    for (size_t i = 0; i < from->change_count; i++) {
        change_add(to, from->changes[i].from, from->changes[i].to, from->changes[i].inode);
    }
}

void fakedisk_copy_names(struct fakedisk *to, const struct fakedisk *from) {
    names_copy(&to->cached, &from->cached);
}

void fakedisk_free(struct fakedisk *disk) {
    for (size_t i = 0; i < disk->inode_count; i++) {
        inode_free(&disk->inodes[i]);
    }
    free(disk->inodes);
    free(disk->cached.at);
    free(disk->durable.at);
    free(disk->changes);
}

int fakedisk_find(const struct fakedisk *disk, const char *path) {
    return names_inode(&disk->cached, path);
}

bool fakedisk_dir_exists(const struct fakedisk *disk, const char *path) {
    return names_dir_exists(disk, &disk->cached, path);
}

int fakedisk_create(struct fakedisk *disk, const char *path, bool is_dir) {
    int inode = inode_new(disk, is_dir);
    change_make(disk, "", path, inode);
    return inode;
}

void fakedisk_rename(struct fakedisk *disk, const char *from, const char *to) {
    change_make(disk, from, to, fakedisk_find(disk, from));
}

void fakedisk_remove(struct fakedisk *disk, const char *path) {
    change_make(disk, path, "", fakedisk_find(disk, path));
}

void fakedisk_sync_dir(struct fakedisk *disk, const char *path) {
    size_t kept = 0;
    for (size_t i = 0; i < disk->change_count; i++) {
        if (change_is_in(&disk->changes[i], path)) {
            change_apply(&disk->durable, &disk->changes[i]);
        } else {
            disk->changes[kept] = disk->changes[i];
            kept += 1;
        }
    }
    disk->change_count = kept;
    inodes_collect(disk);
}

void fakedisk_sync_dir_failed(struct fakedisk *disk, const char *path) {
    size_t kept = 0;
    for (size_t i = 0; i < disk->change_count; i++) {
        const struct fake_change *change = &disk->changes[i];
        bool stays = !change_is_in(change, path) || disk->inodes[change->inode].is_dir;
        if (stays) {
            disk->changes[kept] = *change;
            kept += 1;
        } else if (fakedisk_coin(disk)) {
            change_apply(&disk->durable, change);
        }
    }
    disk->change_count = kept;
    inodes_collect(disk);
}

const char *fakedisk_path_of(const struct fakedisk *disk, int inode) {
    for (size_t i = 0; i < disk->cached.count; i++) {
        if (disk->cached.at[i].inode == inode) {
            return disk->cached.at[i].path;
        }
    }
    return NULL;
}

void fakedisk_forget(struct fakedisk *disk, const char *path) {
    names_unset(&disk->cached, path);
    names_unset(&disk->durable, path);
}

void fakedisk_write_partly(struct fakedisk *disk, struct fake_inode *inode, const uint8_t *bytes,
                           uint64_t len, uint64_t offset) {
    bool front = fakedisk_coin(disk);
    uint64_t done = 0;
    while (done < len) {
        uint64_t step = FAKEOS_SECTOR - (offset + done) % FAKEOS_SECTOR;
        step = step < len - done ? step : len - done;
        bool kept = fakedisk_coin(disk);
        if (front && !kept) {
            return;
        }
        if (kept && offset + done + step <= inode->cached_size) {
            fakedisk_write(inode, bytes + done, step, offset + done);
        }
        done += step;
    }
}

void fakedisk_lose(struct fakedisk *disk) {
    enum luck luck = (enum luck)tn_prng_below(&disk->prng, LUCK_KINDS);
    for (size_t i = 0; i < disk->inode_count; i++) {
        if (disk->inodes[i].used) {
            inode_lose(disk, &disk->inodes[i], luck);
        }
    }
    names_lose(disk, (enum luck)tn_prng_below(&disk->prng, LUCK_KINDS));
    inodes_collect(disk);
}
