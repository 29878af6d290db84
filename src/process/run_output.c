/* Reading output back. Which files there are is asked before one is read: so a file that was not the
 * last then does not grow any more, and its end is final. */
#include "process/run_output.h"

#include <stdio.h>
#include <unistd.h>

#include "kernel/types.h"
#include "process/run.h"
#include "process/run_files.h"

#define PATH_BYTES 4096u

struct files {
    uint64_t first, last; /* 0: there are none */
};

/* ---- Names ---- */

static bool number_of(const char *name, uint64_t *ret_number) {
    size_t prefix = sizeof RUN_FILES_LOG_PREFIX - 1;
    if (strncmp(name, RUN_FILES_LOG_PREFIX, prefix) != 0) {
        return false;
    }
    name += prefix;
    return kernel_value_parse(KERNEL_DEC, tn_bytes_of(name, strlen(name)), ret_number) &&
           *ret_number > 0;
}

static void file_seen(void *ctx, const char *name) {
    struct files *files = ctx;
    uint64_t number;
    if (number_of(name, &number)) {
        files->first = files->first == 0 || number < files->first ? number : files->first;
        files->last = number > files->last ? number : files->last;
    }
}

static enum tn_status files_find(const struct os *os, const char *dir, const char *ref,
                                 char base[PATH_BYTES], struct files *ret_files) {
    char name[PATH_BYTES];
    if (!run_dir_name(ref, name, sizeof name) ||
        snprintf(base, PATH_BYTES, "%s/%s", dir, name) >= (int)PATH_BYTES) {
        return TN_INVALID;
    }
    *ret_files = (struct files){0};
    enum tn_status status = os->list(os->ctx, base, file_seen, ret_files);
    return status == TN_OK && ret_files->last == 0 ? TN_NOTFOUND : status;
}

/* ---- One file ---- */

static enum tn_status file_open(const struct os *os, const char *base, uint64_t number,
                                int *ret_file) {
    char path[PATH_BYTES];
    if (snprintf(path, sizeof path, "%s/" RUN_FILES_LOG_PREFIX "%llu", base,
                 (unsigned long long)number) >= (int)sizeof path) {
        return TN_INVALID;
    }
    return os->open(os->ctx, path, OS_READ, ret_file);
}

static enum tn_status file_read(const struct os *os, const char *base,
                                struct run_output_position position, void *out, size_t capacity,
                                size_t *ret_len) {
    int file;
    enum tn_status status = file_open(os, base, position.file, &file);
    if (status != TN_OK) {
        return status;
    }
    status = os->read_at(os->ctx, file, out, capacity, position.offset, ret_len);
    (void)os->close(os->ctx, file);
    return status;
}

static enum tn_status file_size(const struct os *os, const char *base, uint64_t number,
                                uint64_t *ret_bytes) {
    int file;
    enum tn_status status = file_open(os, base, number, &file);
    if (status != TN_OK) {
        return status;
    }
    status = os->size(os->ctx, file, ret_bytes);
    (void)os->close(os->ctx, file);
    return status;
}

/* ---- Reading ---- */

/* Whether the current files never had this position: it was rotated away, or belongs to a deleted
 * sensor of the same name. */
static bool is_elsewhere(const struct os *os, const char *base, const struct files *files,
                         struct run_output_position at) {
    uint64_t size;
    return at.file < files->first || at.file > files->last ||
           (at.offset > 0 && file_size(os, base, at.file, &size) == TN_OK && at.offset > size);
}

enum tn_status run_output_read(const struct os *os, const char *dir, const char *ref,
                               struct run_output_position *position, void *out, size_t capacity,
                               size_t *ret_len, bool *ret_lost) {
    char base[PATH_BYTES];
    struct files files;
    struct run_output_position at = *position;
    size_t done = 0;
    bool lost = false;
    enum tn_status status = files_find(os, dir, ref, base, &files);
    if (status != TN_OK) {
        return status;
    }
    if (is_elsewhere(os, base, &files, at)) {
        lost = at.file != 0;
        at = (struct run_output_position){.file = files.first};
    }
    while (done < capacity) {
        size_t n = 0;
        status = file_read(os, base, at, (uint8_t *)out + done, capacity - done, &n);
        bool went = status == TN_NOTFOUND; /* meanwhile, unread */
        if (status != TN_OK && !went) {
            return status;
        }
        lost = lost || went;
        done += n;
        at.offset += n;
        if (done < capacity) { /* this file has no more */
            bool is_last = at.file == files.last;
            if (!is_last || went) { /* a file is removed only after a later one exists */
                at = (struct run_output_position){.file = at.file + 1};
            }
            if (is_last) {
                break;
            }
        }
    }
    *position = at;
    *ret_len = done;
    *ret_lost = lost;
    return TN_OK;
}

enum tn_status run_output_tail(const struct os *os, const char *dir, const char *ref,
                               uint64_t bytes, struct run_output_position *ret_position) {
    char base[PATH_BYTES];
    struct files files;
    enum tn_status status = files_find(os, dir, ref, base, &files);
    if (status != TN_OK) {
        return status;
    }
    struct run_output_position at = {.file = files.last};
    for (;;) {
        uint64_t size = 0;
        status = file_size(os, base, at.file, &size);
        if (status != TN_OK && status != TN_NOTFOUND) {
            return status;
        }
        if (size >= bytes) {
            at.offset = size - bytes;
            break;
        }
        bytes -= size;
        if (at.file == files.first) {
            break;
        }
        at.file--;
    }
    *ret_position = at;
    return TN_OK;
}

/* ---- Writing: the guardian's, but for where it begins ---- */

enum tn_status run_output_begin(const struct os *os, const char *path, uint32_t keep,
                                uint64_t *ret_number) {
    char old[PATH_BYTES];
    struct files files = {0};
    enum tn_status status = os->list(os->ctx, path, file_seen, &files);
    if (status != TN_OK) {
        return status;
    }
    for (uint64_t n = files.first; files.last > keep && n <= files.last - keep; n++) {
        if (snprintf(old, sizeof old, "%s/" RUN_FILES_LOG_PREFIX "%llu", path,
                     (unsigned long long)n) < (int)sizeof old) {
            (void)os->remove(os->ctx, old);
        }
    }
    *ret_number = files.last == 0 ? 1 : files.last;
    return TN_OK;
}

/* ---- The end ---- */

struct removal {
    const struct os *os;
    const char *base;
};

/* The files of an interrupted write. */
static bool is_unfinished(const char *name) {
    return strcmp(name, RUN_FILES_RECORD RUN_FILES_NEW) == 0 ||
           strcmp(name, RUN_FILES_TOKEN RUN_FILES_NEW) == 0;
}

static void file_remove(void *ctx, const char *name) {
    const struct removal *removal = ctx;
    char path[PATH_BYTES];
    uint64_t number;
    if ((number_of(name, &number) || is_unfinished(name)) &&
        snprintf(path, sizeof path, "%s/%s", removal->base, name) < (int)sizeof path) {
        (void)removal->os->remove(removal->os->ctx, path);
    }
}

void run_output_remove(const struct os *os, const char *dir, const char *ref) {
    char base[PATH_BYTES];
    struct files files;
    struct removal removal = {.os = os, .base = base};
    if (files_find(os, dir, ref, base, &files) != TN_INVALID) {
        (void)os->list(os->ctx, base, file_remove, &removal);
        (void)rmdir(base);
    }
}

/* ---- Positions as text ---- */

void run_output_position_format(struct run_output_position position,
                                char out[RUN_OUTPUT_POSITION_TEXT]) {
    (void)snprintf(out, RUN_OUTPUT_POSITION_TEXT, "%llu.%llu", (unsigned long long)position.file,
                   (unsigned long long)position.offset);
}

bool run_output_position_parse(struct tn_bytes text, struct run_output_position *ret_position) {
    const uint8_t *dot = text.len > 0 ? memchr(text.at, '.', text.len) : NULL;
    struct run_output_position position;
    if (dot == NULL ||
        !kernel_value_parse(KERNEL_DEC, tn_bytes_of(text.at, (size_t)(dot - text.at)),
                            &position.file) ||
        !kernel_value_parse(KERNEL_DEC,
                            tn_bytes_of(dot + 1, (size_t)(text.at + text.len - dot - 1)),
                            &position.offset)) {
        return false;
    }
    *ret_position = position;
    return true;
}
