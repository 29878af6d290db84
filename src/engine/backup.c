/* What backup.h promises. */
#include "engine/backup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "engine/internal.h"
#include "engine/store.h"

#define BACKUP_PATH_MAX 4096u

/* False: the path is too long. */
static bool path_make(const struct engine *engine, const char *name, char out[BACKUP_PATH_MAX]) {
    int len = snprintf(out, BACKUP_PATH_MAX, "%s/%s", engine->options.events_dir, name);
    return len > 0 && len < (int)BACKUP_PATH_MAX;
}

static enum tn_status size_of(const struct engine *engine, const char *name, uint64_t *ret_bytes) {
    const struct os *os = engine->os;
    char path[BACKUP_PATH_MAX];
    int file;
    if (!path_make(engine, name, path)) {
        return TN_INVALID;
    }
    enum tn_status status = os->open(os->ctx, path, OS_READ, &file);
    if (status == TN_OK) {
        status = os->size(os->ctx, file, ret_bytes);
        (void)os->close(os->ctx, file);
    }
    return status;
}

static void file_add(struct engine_backup *backup, const struct log_file *file,
                     enum engine_backup_kind kind) {
    backup->files[backup->count++] = (struct engine_backup_file){.file = *file, .kind = kind};
}

static void other_add(struct engine_backup *backup, const char *name) {
    struct log_file file = {0};
    if (name != NULL && size_of(backup->engine, name, &file.bytes) == TN_OK) {
        (void)snprintf(file.name, sizeof file.name, "%s", name);
        file.size = file.bytes;
        file_add(backup, &file, ENGINE_BACKUP_OTHER);
    }
}

/* Collects the snapshot, the log, the events and the other file. */
static enum tn_status files_collect(struct engine_backup *backup, const struct log_held *held,
                                    const char *other) {
    struct log_file *events = NULL;
    uint32_t event_count = 0;
    if (backup->engine->events.store != NULL &&
        !engine_store_files(backup->engine->events.store, &events, &event_count)) {
        return TN_NOMEM;
    }
    backup->files = calloc((size_t)held->count + event_count + 1, sizeof *backup->files);
    if (backup->files == NULL) {
        free(events);
        return TN_NOMEM;
    }
    for (uint32_t i = 0; i < held->count; i++) {
        file_add(backup, &held->files[i],
                 i < held->snapshots ? ENGINE_BACKUP_SNAPSHOT : ENGINE_BACKUP_LOG);
    }
    for (uint32_t i = 0; i < event_count; i++) {
        file_add(backup, &events[i], ENGINE_BACKUP_EVENTS);
    }
    other_add(backup, other);
    free(events);
    return TN_OK;
}

enum tn_status engine_backup_begin(struct engine *engine, const char *other,
                                   struct engine_backup *ret_backup) {
    struct log *log = engine->log;
    if (log->verbs->hold == NULL || engine->options.events_dir == NULL) {
        return TN_INVALID;
    }
    struct log_held held;
    enum tn_status status = log->verbs->hold(log, &held);
    if (status != TN_OK) {
        return status;
    }
    struct engine_backup backup = {.engine = engine, .position = held.position};
    status = files_collect(&backup, &held, other);
    free(held.files);
    if (status != TN_OK) {
        log->verbs->release(log);
        return status;
    }
    *ret_backup = backup;
    return TN_OK;
}

void engine_backup_end(struct engine_backup *backup) {
    struct log *log = backup->engine->log;
    TN_ASSERT(backup->files != NULL);
    log->verbs->release(log);
    free(backup->files);
    *backup = (struct engine_backup){0};
}

static const struct log_file *file_find(const struct engine_backup *backup, struct tn_bytes name) {
    for (uint32_t i = 0; i < backup->count; i++) {
        const struct log_file *file = &backup->files[i].file;
        if (strlen(file->name) == name.len && memcmp(file->name, name.at, name.len) == 0) {
            return file;
        }
    }
    return NULL;
}

enum tn_status engine_backup_read(const struct engine_backup *backup, struct tn_bytes name,
                                  uint64_t offset, uint8_t *out, size_t room, size_t *ret_len) {
    const struct os *os = backup->engine->os;
    const struct log_file *found = file_find(backup, name);
    char path[BACKUP_PATH_MAX];
    int file;
    if (found == NULL || !path_make(backup->engine, found->name, path)) {
        return TN_NOTFOUND;
    }
    uint64_t left = offset < found->bytes ? found->bytes - offset : 0;
    size_t len = left < room ? (size_t)left : room;
    if (len == 0) {
        *ret_len = 0;
        return TN_OK;
    }
    enum tn_status status = os->open(os->ctx, path, OS_READ, &file);
    if (status != TN_OK) {
        return status;
    }
    status = os->read_at(os->ctx, file, out, len, offset, ret_len);
    (void)os->close(os->ctx, file);
    return status;
}

const char *engine_backup_kind_name(enum engine_backup_kind kind) {
    static const char *const names[] = {
        [ENGINE_BACKUP_SNAPSHOT] = "snapshot",
        [ENGINE_BACKUP_LOG] = "log",
        [ENGINE_BACKUP_EVENTS] = "events",
        [ENGINE_BACKUP_OTHER] = "other",
    };
    TN_ASSERT((size_t)kind < sizeof names / sizeof names[0]);
    return names[kind];
}
