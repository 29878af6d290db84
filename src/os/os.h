/* The table of everything Tenure asks of the operating system: files, clocks, randomness, memory.
 *
 * os_posix() is the real one and the only place that calls write, fsync or clock_gettime. Tests put
 * their own in its place to record, fail, tear, reorder and lose what would have reached the disk.
 *
 * All calls return TN_OK or say what went wrong; `ret_` outputs are untouched on failure. Paths are
 * NUL-terminated. File handles are small integers owned by the caller from open to close. Calls are
 * safe from any thread on different handles; on one handle read_at and write_at may overlap. */
#ifndef TN_OS_OS_H
#define TN_OS_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum os_open_flags {
    OS_READ = 1,       /* open an existing file for reading */
    OS_WRITE = 2,      /* for reading and writing */
    OS_CREATE = 4,     /* creates the file if it does not exist (with OS_WRITE), with mode 0600 */
    OS_EXCLUSIVE = 8,  /* with OS_CREATE: fails with TN_INVALID if the file exists */
    OS_TRUNCATE = 16,  /* empty it */
    OS_DIRECTORY = 32, /* with OS_READ: a directory, only for sync, which then is sync_dir */
    OS_PRIVATE = 64,   /* TN_DENIED if others own it or may use it; but root's group may read */
};

typedef void os_list_entry(void *ctx, const char *name);

struct os {
    void *ctx; /* first argument of every call */

    /* TN_INVALID if it is no regular file (or no directory); a pipe of that name does not block. */
    enum tn_status (*open)(void *ctx, const char *path, unsigned flags, int *ret_file);
    /* A lock ends here, even if a child process has inherited the handle. */
    enum tn_status (*close)(void *ctx, int file);
    /* Reads up to len bytes; fewer only at the end of the file. Interrupts are retried inside. */
    enum tn_status (*read_at)(void *ctx, int file, void *out, size_t len, uint64_t offset,
                              size_t *ret_len);
    /* Writes all bytes or fails. Repeats short and interrupted writes. */
    enum tn_status (*write_at)(void *ctx, int file, const void *bytes, size_t len, uint64_t offset);
    /* fdatasync. A failure is final: unsynced data may be lost; never call it again. */
    enum tn_status (*sync)(void *ctx, int file);
    enum tn_status (*size)(void *ctx, int file, uint64_t *ret_bytes);
    enum tn_status (*truncate)(void *ctx, int file, uint64_t bytes);

    enum tn_status (*rename)(void *ctx, const char *from, const char *to);
    enum tn_status (*remove)(void *ctx, const char *path);
    enum tn_status (*make_dir)(void *ctx, const char *path); /* TN_OK if it exists */
    enum tn_status (*sync_dir)(void *ctx, const char *path);
    /* Every entry but . and .., in no order. */
    enum tn_status (*list)(void *ctx, const char *path, os_list_entry *entry, void *entry_ctx);
    enum tn_status (*space_free)(void *ctx, const char *path, uint64_t *ret_bytes);
    /* The physical sector size of the device below this path; TN_NOTFOUND if unknown. */
    enum tn_status (*sector_bytes)(void *ctx, const char *path, uint64_t *ret_bytes);
    /* An exclusive lock that ends with the handle or the process; TN_LOCKED if another has it
     * (another handle of this process too). Creates the file, which can be read and written. */
    enum tn_status (*lock)(void *ctx, const char *path, int *ret_file);

    uint64_t (*clock_boot_ms)(void *ctx); /* monotonic, counts suspended time */
    uint64_t (*clock_boot_ns)(void *ctx); /* the same clock, for measuring how long a call took */
    uint64_t (*clock_wall_ms)(void *ctx); /* since 1970 */
    enum tn_status (*random)(void *ctx, void *out, size_t len);

    /* Zero-filled address space whose pages cost nothing until touched; page aligned.
     * `big` hints that huge pages pay once the memory is filled beyond its beginning. */
    enum tn_status (*mem_reserve)(void *ctx, size_t bytes, bool big, void **ret_memory);
    void (*mem_release)(void *ctx, void *memory, size_t bytes);
};

const struct os *os_posix(void);

#endif
