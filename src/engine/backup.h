/* A backup of what the engine keeps, made while it serves: the files of a copy, and their bytes.
 *
 * The copy is consistent at one position of the log: the newest snapshot, the log after it up to that
 * position, and the files of events. Events later than the snapshot are told again by replay, so it does
 * not matter where the copy of an event file ends. From begin to end, the log lets nothing of it go; an
 * event file can disappear, if it is old enough: its read is NOTFOUND then. */
#ifndef TN_ENGINE_BACKUP_H
#define TN_ENGINE_BACKUP_H

#include "engine/engine.h"

enum engine_backup_kind {
    ENGINE_BACKUP_SNAPSHOT,
    ENGINE_BACKUP_LOG,
    ENGINE_BACKUP_EVENTS,
    ENGINE_BACKUP_OTHER, /* a file of the engine's user, in the same directory */
};

struct engine_backup_file {
    struct log_file file;
    enum engine_backup_kind kind;
};

struct engine_backup {
    struct engine *engine;
    struct log_position position;
    struct engine_backup_file *files; /* in the order in which a start reads them */
    uint32_t count;
};

/* `other`: the name of one more file of the directory, or NULL; it is left out if it is not there.
 * TN_INVALID: nothing is kept in files. TN_DENIED: the engine does not lead. From any thread; end comes
 * before engine_close. */
enum tn_status engine_backup_begin(struct engine *engine, const char *other,
                                   struct engine_backup *ret_backup);
void engine_backup_end(struct engine_backup *backup);

/* Reads up to `room` bytes of a file from `offset` on; 0 bytes at its end. TN_NOTFOUND: it is not
 * one of the backup's files, or has disappeared. From any thread. */
enum tn_status engine_backup_read(const struct engine_backup *backup, struct tn_bytes name,
                                  uint64_t offset, uint8_t *out, size_t room, size_t *ret_len);

const char *engine_backup_kind_name(enum engine_backup_kind kind);

#endif
