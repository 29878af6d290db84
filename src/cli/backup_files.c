/* What backup_files.h promises. */
#include "cli/backup_files.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/hash.h"
#include "os/os.h"

#define COPY_BYTES ((size_t)256 << 10)

bool backup_fail(const char *format, ...) {
    char text[BACKUP_PATH + 512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)fprintf(stderr, "tenure: %s\n", text);
    return false;
}

bool backup_name_fits(const char *name) {
    size_t len = strlen(name);
    return len > 0 && len < BACKUP_NAME && name[0] != '.' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789.-_") == len &&
           strcmp(name, BACKUP_MANIFEST) != 0;
}

bool backup_path(char out[BACKUP_PATH], const char *dir, const char *name) {
    int len = snprintf(out, BACKUP_PATH, "%s/%s", dir, name);
    return (len > 0 && len < (int)BACKUP_PATH) || backup_fail("%s: the path is too long", dir);
}

/* ---- The manifest ---- */

static bool number_get(const json_t *object, const char *key, uint64_t *ret_number) {
    const char *text = json_string_value(json_object_get(object, key));
    char *end = NULL;
    if (text == NULL || text[0] < '0' || text[0] > '9') {
        return false;
    }
    errno = 0;
    *ret_number = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0';
}

static bool file_get(const json_t *object, struct backup_file *file) {
    const char *name = json_string_value(json_object_get(object, "name"));
    const char *kind = json_string_value(json_object_get(object, "kind"));
    const char *crc = json_string_value(json_object_get(object, "crc32c"));
    if (name == NULL || kind == NULL || crc == NULL || strlen(crc) != 8 ||
        strspn(crc, "0123456789abcdef") != 8 || !backup_name_fits(name) ||
        strlen(kind) >= sizeof file->kind || !number_get(object, "bytes", &file->bytes) ||
        !number_get(object, "size", &file->size) || file->bytes > file->size) {
        return false;
    }
    (void)snprintf(file->name, sizeof file->name, "%s", name);
    (void)snprintf(file->kind, sizeof file->kind, "%s", kind);
    file->crc = (uint32_t)strtoul(crc, NULL, 16);
    return true;
}

static bool manifest_get(const json_t *root, struct backup_manifest *manifest) {
    const json_t *files = json_object_get(root, "files");
    size_t count = json_array_size(files);
    if (json_integer_value(json_object_get(root, "format")) != 1 ||
        !number_get(root, "lsn", &manifest->lsn) ||
        !number_get(root, "now_ms", &manifest->now_ms) ||
        !number_get(root, "generation", &manifest->generation) || count > BACKUP_FILES_MAX) {
        return false;
    }
    manifest->files = calloc(count + 1, sizeof *manifest->files);
    for (size_t i = 0; manifest->files != NULL && i < count; i++) {
        if (!file_get(json_array_get(files, i), &manifest->files[i])) {
            return false;
        }
        manifest->count += 1;
    }
    return manifest->files != NULL;
}

static bool is_backup_name(const char *name) {
    size_t prefix = strlen(BACKUP_PREFIX);
    return strncmp(name, BACKUP_PREFIX, prefix) == 0 && strlen(name) == prefix + 25 &&
           strspn(name + prefix, "0123456789abcdef") == 8 && name[prefix + 8] == '-' &&
           strspn(name + prefix + 9, "0123456789abcdef") == 16;
}

static const char *last_part(const char *dir) {
    const char *at = strrchr(dir, '/');
    return at == NULL ? dir : at + 1;
}

bool backup_manifest_expected(const char *dir) {
    char path[BACKUP_PATH];
    char *real = realpath(dir, NULL); /* the argument may end in a slash, or be a link */
    bool named = is_backup_name(last_part(real != NULL ? real : dir));
    free(real);
    return named || (backup_path(path, dir, BACKUP_MANIFEST) && access(path, F_OK) == 0);
}

bool backup_manifest_read(const char *dir, struct backup_manifest *ret_manifest) {
    struct backup_manifest manifest = {0};
    char path[BACKUP_PATH];
    json_error_t error;
    if (!backup_path(path, dir, BACKUP_MANIFEST)) {
        return false;
    }
    if (access(path, F_OK) != 0) {
        return backup_fail("%s: not a backup: it has no " BACKUP_MANIFEST, dir);
    }
    const struct os *os = os_posix();
    int file; /* opened here, since json_load_file would wait for the writer of a pipe */
    enum tn_status status = os->open(os->ctx, path, OS_READ, &file);
    if (status != TN_OK) {
        return backup_fail("%s: %s", path, tn_status_text(status));
    }
    json_t *root = json_loadfd(file, 0, &error);
    (void)os->close(os->ctx, file);
    bool good = root != NULL && manifest_get(root, &manifest);
    json_decref(root);
    if (!good) {
        backup_manifest_free(&manifest);
        return backup_fail("%s: not the list of files of a backup%s%s", path,
                           root == NULL ? ": " : "", root == NULL ? error.text : "");
    }
    *ret_manifest = manifest;
    return true;
}

static bool manifest_print(FILE *out, const struct backup_manifest *manifest) {
    (void)fprintf(out,
                  "{\"format\": 1, \"lsn\": \"%" PRIu64 "\", \"now_ms\": \"%" PRIu64
                  "\", \"generation\": \"%" PRIu64 "\", \"files\": [",
                  manifest->lsn, manifest->now_ms, manifest->generation);
    for (uint32_t i = 0; i < manifest->count; i++) {
        const struct backup_file *file = &manifest->files[i];
        (void)fprintf(out,
                      "%s\n {\"name\": \"%s\", \"kind\": \"%s\", \"bytes\": \"%" PRIu64
                      "\", \"size\": \"%" PRIu64 "\", \"crc32c\": \"%08" PRIx32 "\"}",
                      i > 0 ? "," : "", file->name, file->kind, file->bytes, file->size, file->crc);
    }
    (void)fputs("\n]}\n", out);
    return fflush(out) == 0 && ferror(out) == 0;
}

bool backup_manifest_write(const char *dir, const struct backup_manifest *manifest) {
    char path[BACKUP_PATH];
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    bool printed = out != NULL && manifest_print(out, manifest);
    if (out != NULL) {
        printed = fclose(out) == 0 && printed;
    }
    bool written = (printed || backup_fail("no memory for the list of files")) &&
                   backup_path(path, dir, BACKUP_MANIFEST) && backup_write(path, text, len);
    free(text);
    return written;
}

void backup_manifest_free(struct backup_manifest *manifest) {
    free(manifest->files);
    *manifest = (struct backup_manifest){0};
}

const struct backup_file *backup_manifest_find(const struct backup_manifest *manifest,
                                               const char *name) {
    for (uint32_t i = 0; i < manifest->count; i++) {
        if (strcmp(manifest->files[i].name, name) == 0) {
            return &manifest->files[i];
        }
    }
    return NULL;
}

/* ---- Directories ---- */

/* The newest backup whose name comes before `before` ("": any). False: there is none. */
static bool backup_before(const char *dir, const char *before, char out[BACKUP_NAME]) {
    DIR *entries = opendir(dir);
    const struct dirent *entry;
    out[0] = '\0';
    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        const char *name = entry->d_name;
        if (is_backup_name(name) && strcmp(name, out) > 0 &&
            (before[0] == '\0' || strcmp(name, before) < 0)) {
            (void)snprintf(out, BACKUP_NAME, "%.40s", name);
        }
    }
    if (entries != NULL) {
        (void)closedir(entries);
    }
    return out[0] != '\0';
}

bool backup_newest(const char *dir, char out[BACKUP_PATH]) {
    char name[BACKUP_NAME];
    if (!backup_path(out, dir, BACKUP_MANIFEST)) {
        return false;
    }
    if (access(out, F_OK) == 0) {
        (void)snprintf(out, BACKUP_PATH, "%s", dir);
        return true;
    }
    return backup_before(dir, "", name) && backup_path(out, dir, name);
}

void backup_position(const char *dir, struct backup_manifest *manifest) {
    const char *at = last_part(dir);
    TN_ASSERT(is_backup_name(at));
    char *end = NULL;
    manifest->generation = strtoull(at + strlen(BACKUP_PREFIX), &end, 16);
    manifest->lsn = strtoull(end + 1, NULL, 16);
}

bool backup_lock(const char *dir) {
    const struct os *os = os_posix();
    char path[BACKUP_PATH];
    int file;
    if (!backup_path(path, dir, ".lock")) {
        return false;
    }
    enum tn_status status = os->lock(os->ctx, path, &file);
    if (status == TN_LOCKED) {
        return backup_fail("%s: another backup is being made there", dir);
    }
    return status == TN_OK || backup_fail("%s: %s", path, tn_status_text(status));
}

bool backup_remove_file(const char *path) {
    const struct os *os = os_posix();
    enum tn_status status = os->remove(os->ctx, path);
    return status == TN_OK || status == TN_NOTFOUND ||
           backup_fail("%s: cannot remove it: %s", path, tn_status_text(status));
}

bool backup_remove(const char *dir) {
    char path[BACKUP_PATH];
    struct stat st;
    if (lstat(dir, &st) != 0) {
        return errno == ENOENT || backup_fail("%s: %s", dir, strerror(errno));
    }
    if (!S_ISDIR(st.st_mode)) { /* a link could lead to files outside of the backup */
        return backup_fail("%s: not a directory", dir);
    }
    DIR *entries = opendir(dir);
    const struct dirent *entry;
    if (entries == NULL) {
        return backup_fail("%s: %s", dir, strerror(errno));
    }
    while ((entry = readdir(entries)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            backup_path(path, dir, entry->d_name)) {
            (void)backup_remove_file(path);
        }
    }
    (void)closedir(entries);
    return rmdir(dir) == 0 || backup_fail("%s: cannot remove it: %s", dir, strerror(errno));
}

uint32_t backup_prune(const char *dir, uint64_t keep) {
    char name[BACKUP_NAME];
    char before[BACKUP_NAME] = "";
    char path[BACKUP_PATH];
    uint32_t removed = 0;
    for (uint64_t i = 0; backup_before(dir, before, name); i++) {
        (void)snprintf(before, sizeof before, "%s", name);
        if (i >= keep && backup_path(path, dir, name) && backup_remove(path)) {
            removed += 1;
        }
    }
    return removed;
}

bool backup_sync_dir(const char *dir) {
    const struct os *os = os_posix();
    enum tn_status status = os->sync_dir(os->ctx, dir);
    return status == TN_OK ||
           backup_fail("%s: cannot make it durable: %s", dir, tn_status_text(status));
}

/* ---- Files ---- */

static int file_open(const char *path, unsigned flags) {
    const struct os *os = os_posix();
    int file;
    enum tn_status status = os->open(os->ctx, path, flags, &file);
    if (status != TN_OK) {
        (void)backup_fail("%s: %s", path, tn_status_text(status));
        return -1;
    }
    return file;
}

int backup_create(const char *path) {
    return file_open(path, OS_WRITE | OS_CREATE | OS_EXCLUSIVE);
}

int backup_open(const char *path) {
    return file_open(path, OS_WRITE);
}

void backup_close(int file) {
    const struct os *os = os_posix();
    (void)os->close(os->ctx, file);
}

bool backup_finish(int file, const char *path, uint64_t size) {
    const struct os *os = os_posix();
    enum tn_status status = os->truncate(os->ctx, file, size);
    status = status == TN_OK ? os->sync(os->ctx, file) : status;
    (void)os->close(os->ctx, file);
    return status == TN_OK || backup_fail("%s: %s", path, tn_status_text(status));
}

bool backup_put(int file, const char *path, const void *bytes, size_t len, uint64_t offset) {
    const struct os *os = os_posix();
    enum tn_status status = os->write_at(os->ctx, file, bytes, len, offset);
    return status == TN_OK || backup_fail("%s: %s", path, tn_status_text(status));
}

bool backup_write(const char *path, const void *bytes, size_t len) {
    int file = backup_create(path);
    if (file < 0) {
        return false;
    }
    bool put = backup_put(file, path, bytes, len, 0);
    return backup_finish(file, path, len) && put;
}

/* Reads the first `bytes` of a file. Each piece continues the CRC and, if `to` is a file, is
 * written to it. */
static enum tn_status file_read(const char *from, uint64_t bytes, int to, uint32_t *inout_crc) {
    static uint8_t piece[COPY_BYTES];
    const struct os *os = os_posix();
    int file;
    enum tn_status status = os->open(os->ctx, from, OS_READ, &file);
    if (status != TN_OK) {
        return status;
    }
    for (uint64_t at = 0; status == TN_OK && at < bytes;) {
        size_t want = bytes - at < COPY_BYTES ? (size_t)(bytes - at) : COPY_BYTES;
        size_t got = 0;
        status = os->read_at(os->ctx, file, piece, want, at, &got);
        /* The file is shorter than before. */
        status = status == TN_OK && got < want ? TN_CORRUPT : status;
        status = status == TN_OK && to >= 0 ? os->write_at(os->ctx, to, piece, got, at) : status;
        *inout_crc = tn_crc32c(*inout_crc, piece, got);
        at += got;
    }
    (void)os->close(os->ctx, file);
    return status;
}

bool backup_copy(const char *from, uint64_t bytes, int to, uint32_t *inout_crc) {
    enum tn_status status = file_read(from, bytes, to, inout_crc);
    return status == TN_OK || backup_fail("%s: cannot copy it: %s", from, tn_status_text(status));
}

bool backup_verify(const char *dir, const struct backup_file *file) {
    char path[BACKUP_PATH];
    uint32_t crc = 0;
    if (!backup_path(path, dir, file->name)) {
        return false;
    }
    enum tn_status status = file_read(path, file->bytes, -1, &crc);
    if (status != TN_OK) {
        return backup_fail("%s: cannot read it: %s", path, tn_status_text(status));
    }
    return crc == file->crc || backup_fail("%s: damaged: its checksum is wrong", path);
}
