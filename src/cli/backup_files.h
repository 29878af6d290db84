/* A backup on disk.
 *
 *   DIR/backup-%08x-%016x  one backup, by generation and log position; the newest has the highest
 *   DIR/partial            one that is being made; a leftover of an interrupted one is removed
 *   DIR/.lock              locked by the process that makes one
 *
 * A backup holds files with the names and contents they have in a data directory, and backup.json, which
 * lists them:
 *
 *   {"format":1, "lsn":"1042", "now_ms":"...", "generation":"0",
 *    "files":[{"name":"0000000000000001.log", "kind":"log", "bytes":"8192", "size":"16777216",
 *              "crc32c":"e3069283"}, ...]}
 *
 * bytes: those that count; the rest of the file, up to size, is zeros. Numbers are texts: some readers
 * of JSON keep 53 bits. backup.json is written last: a directory without it is not a backup. Files that
 * did not change are hard links to those of the backup before: no file is ever written again. */
#ifndef TN_CLI_BACKUP_FILES_H
#define TN_CLI_BACKUP_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BACKUP_PATH 4096u
#define BACKUP_NAME 64u
#define BACKUP_MANIFEST "backup.json"
#define BACKUP_PARTIAL "partial"
#define BACKUP_PREFIX "backup-"
#define BACKUP_FILES_MAX 65536u

/* What an empty file system has at its top: nobody's data. */
#define BACKUP_LOST_FOUND "lost+found"

struct backup_file {
    char name[BACKUP_NAME];
    char kind[16];
    uint64_t bytes, size;
    uint32_t crc; /* CRC32C of `bytes` */
    /* While a backup is made: */
    uint64_t known;   /* bytes at the beginning that are in the backup before, and not fetched */
    bool is_verified; /* the CRC was found right, in the backup before or of the file linked to */
};

struct backup_manifest {
    uint64_t lsn, now_ms, generation;
    struct backup_file *files;
    uint32_t count;
};

/* Prints a failure to standard error, as all functions below do. Returns false. */
__attribute__((format(printf, 1, 2))) bool backup_fail(const char *format, ...);

/* Whether the server uses such names: no directory, no dot at the beginning. */
bool backup_name_fits(const char *name);
bool backup_path(char out[BACKUP_PATH], const char *dir, const char *name);

/* Whether the directory has a manifest, or should have one because it has the name of a backup. */
bool backup_manifest_expected(const char *dir);
/* False also if there is no manifest. */
bool backup_manifest_read(const char *dir, struct backup_manifest *ret_manifest);
bool backup_manifest_write(const char *dir, const struct backup_manifest *manifest);
void backup_manifest_free(struct backup_manifest *manifest);
const struct backup_file *backup_manifest_find(const struct backup_manifest *manifest,
                                               const char *name);

/* The newest backup in a directory of backups, or the directory itself if it is a backup. False: it
 * is neither. */
bool backup_newest(const char *dir, char out[BACKUP_PATH]);

/* Generation and log position of a backup, from its name. */
void backup_position(const char *dir, struct backup_manifest *manifest);

/* Locks the directory until the process ends. False: another process makes a backup there. */
bool backup_lock(const char *dir);
/* Removes a file, if it exists. */
bool backup_remove_file(const char *path);
/* Removes a directory and the files in it. */
bool backup_remove(const char *dir);
/* Removes all but the newest `keep` backups in the directory. Returns how many were removed. */
uint32_t backup_prune(const char *dir, uint64_t keep);

/* Copies the first `bytes` of a file to another that is open, and continues the CRC. */
bool backup_copy(const char *from, uint64_t bytes, int to, uint32_t *inout_crc);
/* Creates a file that only its owner can read. -1: failed, with a message. */
int backup_create(const char *path);
/* Opens one of those to continue it. */
int backup_open(const char *path);
void backup_close(int file);
bool backup_put(int file, const char *path, const void *bytes, size_t len, uint64_t offset);
/* Creates a file with these bytes, durably. */
bool backup_write(const char *path, const void *bytes, size_t len);
/* Sets the size of the file, syncs it, and closes it. */
bool backup_finish(int file, const char *path, uint64_t size);
bool backup_sync_dir(const char *dir);
/* Whether the first `bytes` of the file have this CRC. If not, prints a message. */
bool backup_verify(const char *dir, const struct backup_file *file);

#endif
