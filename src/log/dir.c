/* Names, listing and calls for the log's directory; the names are in dir.h. */
#include "log/dir.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

void log_segment_name(uint64_t seq, char out[LOG_NAME_MAX]) {
    snprintf(out, LOG_NAME_MAX, "%016" PRIx64 ".log", seq);
}

void log_snapshot_name(uint64_t lsn, char out[LOG_NAME_MAX]) {
    snprintf(out, LOG_NAME_MAX, "snapshot-%016" PRIx64 ".snap", lsn);
}

void log_set_aside_name(uint64_t lsn, char out[LOG_NAME_MAX]) {
    snprintf(out, LOG_NAME_MAX, "set-aside-snapshot-%016" PRIx64 ".snap", lsn);
}

void log_spare_name(uint64_t number, char out[LOG_NAME_MAX]) {
    snprintf(out, LOG_NAME_MAX, "spare-%" PRIu64 ".log", number);
}

void log_spare_tmp_name(uint64_t number, char out[LOG_NAME_MAX]) {
    snprintf(out, LOG_NAME_MAX, "spare-%" PRIu64 ".tmp", number);
}

static void dir_join(const struct log_dir *dir, const char *name, char out[LOG_PATH_MAX]) {
    int len = snprintf(out, LOG_PATH_MAX, "%s/%s", dir->path, name);
    TN_ASSERT(len > 0 && len < LOG_PATH_MAX);
}

enum tn_status log_dir_open(const struct log_dir *dir, const char *name, unsigned flags,
                            int *ret_file) {
    char path[LOG_PATH_MAX];
    dir_join(dir, name, path);
    return dir->os->open(dir->os->ctx, path, flags, ret_file);
}

enum tn_status log_dir_rename(const struct log_dir *dir, const char *from, const char *to) {
    char path_from[LOG_PATH_MAX];
    char path_to[LOG_PATH_MAX];
    dir_join(dir, from, path_from);
    dir_join(dir, to, path_to);
    return dir->os->rename(dir->os->ctx, path_from, path_to);
}

enum tn_status log_dir_remove(const struct log_dir *dir, const char *name) {
    char path[LOG_PATH_MAX];
    dir_join(dir, name, path);
    return dir->os->remove(dir->os->ctx, path);
}

enum tn_status log_dir_sync(const struct log_dir *dir) {
    return dir->os->sync(dir->os->ctx, dir->file);
}

enum tn_status log_dir_lock(const struct log_dir *dir, int *ret_file) {
    char path[LOG_PATH_MAX];
    dir_join(dir, LOG_LOCK, path);
    return dir->os->lock(dir->os->ctx, path, ret_file);
}

static void ignore_entry(void *ctx, const char *name) {
    (void)ctx;
    (void)name;
}

enum tn_status log_dir_make(const struct log_dir *dir, bool *ret_made) {
    enum tn_status status = dir->os->list(dir->os->ctx, dir->path, ignore_entry, NULL);
    *ret_made = status == TN_NOTFOUND;
    return *ret_made ? dir->os->make_dir(dir->os->ctx, dir->path) : status;
}

enum tn_status log_dir_sync_parent(const struct log_dir *dir) {
    char parent[LOG_DIR_PATH_MAX];
    memcpy(parent, dir->path, sizeof parent);
    size_t len = strlen(parent);
    while (len > 1 && parent[len - 1] == '/') {
        len -= 1;
    }
    while (len > 0 && parent[len - 1] != '/') {
        len -= 1;
    }
    if (len == 0) {
        return dir->os->sync_dir(dir->os->ctx, ".");
    }
    while (len > 1 && parent[len - 1] == '/') {
        len -= 1;
    }
    parent[len] = '\0';
    return dir->os->sync_dir(dir->os->ctx, parent);
}

bool log_numbers_add(struct log_numbers *numbers, uint64_t number) {
    if (numbers->count == numbers->capacity) {
        size_t capacity = numbers->capacity == 0 ? 16 : numbers->capacity * 2;
        uint64_t *at = realloc(numbers->at, capacity * sizeof *at);
        if (at == NULL) {
            return false;
        }
        numbers->at = at;
        numbers->capacity = capacity;
    }
    numbers->at[numbers->count] = number;
    numbers->count += 1;
    return true;
}

/* The number between prefix and suffix, if it is written exactly as we write it. */
static bool name_parse(const char *name, const char *prefix, const char *suffix, int base,
                       void (*format)(uint64_t, char[LOG_NAME_MAX]), uint64_t *ret_number) {
    size_t prefix_len = strlen(prefix);
    if (strncmp(name, prefix, prefix_len) != 0) {
        return false;
    }
    char *end = NULL;
    uint64_t number = strtoull(name + prefix_len, &end, base);
    if (strcmp(end, suffix) != 0) {
        return false;
    }
    char again[LOG_NAME_MAX];
    format(number, again);
    if (strcmp(name, again) != 0) {
        return false;
    }
    *ret_number = number;
    return true;
}

static void listing_add(void *ctx, const char *name) {
    struct log_listing *listing = ctx;
    uint64_t number = 0;
    bool added = true;
    if (name_parse(name, "snapshot-", ".snap", 16, log_snapshot_name, &number)) {
        added = log_numbers_add(&listing->snapshots, number);
    } else if (name_parse(name, "set-aside-snapshot-", ".snap", 16, log_set_aside_name, &number)) {
        added = log_numbers_add(&listing->set_aside, number);
    } else if (name_parse(name, "spare-", ".log", 10, log_spare_name, &number)) {
        added = log_numbers_add(&listing->spares, number);
    } else if (name_parse(name, "spare-", ".tmp", 10, log_spare_tmp_name, &number)) {
        added = log_numbers_add(&listing->spare_tmps, number);
    } else if (name_parse(name, "", ".log", 16, log_segment_name, &number) && number > 0) {
        added = log_numbers_add(&listing->segments, number);
    } else if (strcmp(name, LOG_SNAPSHOT_TMP) == 0) {
        listing->snapshot_tmp = true;
    }
    if (!added) {
        listing->out_of_memory = true;
    }
}

static int number_compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void numbers_sort(struct log_numbers *numbers) {
    if (numbers->count > 1) {
        qsort(numbers->at, numbers->count, sizeof *numbers->at, number_compare);
    }
}

enum tn_status log_dir_list(const struct log_dir *dir, struct log_listing *ret_listing) {
    memset(ret_listing, 0, sizeof *ret_listing);
    enum tn_status status = dir->os->list(dir->os->ctx, dir->path, listing_add, ret_listing);
    if (status != TN_OK) {
        return status;
    }
    numbers_sort(&ret_listing->segments);
    numbers_sort(&ret_listing->snapshots);
    numbers_sort(&ret_listing->set_aside);
    numbers_sort(&ret_listing->spares);
    numbers_sort(&ret_listing->spare_tmps);
    return ret_listing->out_of_memory ? TN_NOMEM : TN_OK;
}

void log_listing_free(struct log_listing *listing) {
    free(listing->segments.at);
    free(listing->snapshots.at);
    free(listing->set_aside.at);
    free(listing->spares.at);
    free(listing->spare_tmps.at);
    memset(listing, 0, sizeof *listing);
}

enum tn_status log_fail(struct log_error *error, enum tn_status status, const char *format, ...) {
    TN_ASSERT(status != TN_OK);
    va_list args;
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    return status;
}
