/* The log's directory: the names of its files, and errors that name them.
 *
 *   %016x.log            a segment, by sequence number
 *   snapshot-%016x.snap  a snapshot, by LSN
 *   spare-%u.log         a file ready to become a segment: full size, every block written
 *   spare-%u.tmp         a spare being filled        \  leftovers of a crash are removed
 *   snapshot.tmp         a snapshot being written    /
 *   set-aside-...        a snapshot that the operator passed over, under its old name; never read again
 *   lock                 locked by the process that writes here; not empty once there is a segment
 *
 * The log ignores files with other names. */
#ifndef TN_LOG_DIR_H
#define TN_LOG_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "log/log.h"
#include "os/os.h"

#define LOG_NAME_MAX 64
#define LOG_DIR_PATH_MAX 3900
#define LOG_PATH_MAX 4096

#define LOG_SNAPSHOT_TMP "snapshot.tmp"
#define LOG_LOCK "lock"

struct log_dir {
    const struct os *os;
    int file; /* the directory itself, open for life so that a sync needs no descriptor; or -1 */
    char path[LOG_DIR_PATH_MAX];
};

/* A growing, sorted list of numbers taken from file names. */
struct log_numbers {
    uint64_t *at;
    size_t count;
    size_t capacity;
};

/* What a directory holds; freed by log_listing_free. */
struct log_listing {
    struct log_numbers segments;
    struct log_numbers snapshots;
    struct log_numbers set_aside;
    struct log_numbers spares;
    struct log_numbers spare_tmps;
    bool snapshot_tmp;
    bool out_of_memory;
};

/* False if there is no memory. */
bool log_numbers_add(struct log_numbers *numbers, uint64_t number);

void log_segment_name(uint64_t seq, char out[LOG_NAME_MAX]);
void log_snapshot_name(uint64_t lsn, char out[LOG_NAME_MAX]);
void log_set_aside_name(uint64_t lsn, char out[LOG_NAME_MAX]);
void log_spare_name(uint64_t number, char out[LOG_NAME_MAX]);
void log_spare_tmp_name(uint64_t number, char out[LOG_NAME_MAX]);

/* The same calls as the table's, with a name inside the directory for a path. */
enum tn_status log_dir_open(const struct log_dir *dir, const char *name, unsigned flags,
                            int *ret_file);
enum tn_status log_dir_rename(const struct log_dir *dir, const char *from, const char *to);
enum tn_status log_dir_remove(const struct log_dir *dir, const char *name);
enum tn_status log_dir_sync(const struct log_dir *dir);
enum tn_status log_dir_lock(const struct log_dir *dir, int *ret_file);

/* Creates the directory if it does not exist. */
enum tn_status log_dir_make(const struct log_dir *dir, bool *ret_made);
/* Makes the directory's own entry durable. */
enum tn_status log_dir_sync_parent(const struct log_dir *dir);

/* The listing is freed by the caller also after a failure. */
enum tn_status log_dir_list(const struct log_dir *dir, struct log_listing *ret_listing);
void log_listing_free(struct log_listing *listing);

/* Writes the text and returns the status, so that a failure is one statement. */
__attribute__((format(printf, 3, 4))) enum tn_status log_fail(struct log_error *error,
                                                              enum tn_status status,
                                                              const char *format, ...);

#endif
