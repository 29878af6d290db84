/* Records of runs, and the other small files next to them. */
#include "process/run_record.h"

#include <stdio.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "os/file_whole.h"
#include "process/run_files.h"

#define RUN_RECORD_BYTES_MAX \
    (73u + 4u * 2u + PROCESS_BOOT_TEXT + RUN_RECORD_ID_TEXT + RUN_RECORD_PATH_MAX + 256u)

static const char magic[8] = {'T', 'N', 'R', 'U', 'N', '0', '2', '\n'};
static const char magic_1[8] = {'T', 'N', 'R', 'U', 'N', '0', '1', '\n'};

static bool path_of(const char *dir, const char *name, const char *suffix,
                    char out[RUN_RECORD_PATH_MAX]) {
    return snprintf(out, RUN_RECORD_PATH_MAX, "%s/%s%s", dir, name, suffix) <
           (int)RUN_RECORD_PATH_MAX;
}

/* ---- Files ---- */

static enum tn_status bytes_write(const struct os *os, const char *path, const void *bytes,
                                  size_t len) {
    int file;
    (void)os->remove(os->ctx, path); /* left by an interrupted attempt */
    enum tn_status status = os->open(os->ctx, path, OS_WRITE | OS_CREATE | OS_EXCLUSIVE, &file);
    if (status != TN_OK) {
        return status;
    }
    status = os->write_at(os->ctx, file, bytes, len, 0);
    enum tn_status closed = os->close(os->ctx, file);
    return status != TN_OK ? status : closed;
}

enum tn_status run_record_file_replace(const struct os *os, const char *dir, const char *name,
                                       const void *bytes, size_t len, uid_t uid, gid_t gid) {
    char path[RUN_RECORD_PATH_MAX];
    char temporary[RUN_RECORD_PATH_MAX];
    if (!path_of(dir, name, "", path) || !path_of(dir, name, RUN_FILES_NEW, temporary)) {
        return TN_INVALID;
    }
    enum tn_status status = bytes_write(os, temporary, bytes, len);
    if (status == TN_OK && uid != (uid_t)-1 && lchown(temporary, uid, gid) != 0) {
        status = TN_DENIED;
    }
    if (status == TN_OK) {
        status = os->rename(os->ctx, temporary, path);
    }
    if (status != TN_OK) {
        (void)os->remove(os->ctx, temporary);
    }
    return status;
}

/* ---- The record ---- */

static void text_write(struct tn_writer *w, const char *text) {
    tn_write_bytes16(w, tn_bytes_of(text, strlen(text)));
}

static bool text_read(struct tn_reader *r, char *out, size_t capacity) {
    struct tn_bytes text = tn_read_bytes16(r);
    if (r->bad || text.len >= capacity || memchr(text.at, 0, text.len) != NULL) {
        return false;
    }
    memcpy(out, text.at, text.len);
    out[text.len] = '\0';
    return true;
}

const char *run_record_proof_name(enum run_record_proof proof) {
    static const char *const names[RUN_RECORD_PROOFS] = {
#define PROOF_NAME(id, name) name,
        RUN_RECORD_PROOF_TABLE(PROOF_NAME)
#undef PROOF_NAME
    };
    TN_ASSERT((unsigned)proof < RUN_RECORD_PROOFS);
    return names[proof];
}

static size_t record_encode(const struct run_record *record, uint8_t bytes[RUN_RECORD_BYTES_MAX]) {
    struct tn_writer w = tn_writer_of(bytes, RUN_RECORD_BYTES_MAX);
    tn_write_raw(&w, magic, sizeof magic);
    tn_write32(&w, 0);
    tn_write64(&w, record->lease.shard);
    tn_write64(&w, record->lease.lsn);
    tn_write64(&w, record->epoch);
    tn_write32(&w, (uint32_t)record->guardian);
    tn_write64(&w, record->guardian_start);
    tn_write32(&w, (uint32_t)record->main);
    tn_write64(&w, record->main_start);
    tn_write32(&w, (uint32_t)record->server);
    tn_write64(&w, record->server_namespace);
    tn_write8(&w, (uint8_t)record->proof);
    text_write(&w, record->boot);
    text_write(&w, record->id);
    text_write(&w, record->cgroup);
    text_write(&w, record->ref);
    TN_ASSERT(!w.overflow);
    tn_store32(bytes + 8, tn_crc32c(0, bytes + 12, w.len - 12));
    return w.len;
}

enum tn_status run_record_write(const struct os *os, const char *dir,
                                const struct run_record *record) {
    uint8_t bytes[RUN_RECORD_BYTES_MAX];
    size_t len = record_encode(record, bytes);
    return run_record_file_replace(os, dir, RUN_FILES_RECORD, bytes, len, (uid_t)-1, (gid_t)-1);
}

/* One write of the same length, so a server that is killed has written all of it or nothing. */
enum tn_status run_record_update(const struct os *os, const char *dir,
                                 const struct run_record *record) {
    uint8_t bytes[RUN_RECORD_BYTES_MAX];
    char path[RUN_RECORD_PATH_MAX];
    int file;
    size_t len = record_encode(record, bytes);
    if (!path_of(dir, RUN_FILES_RECORD, "", path)) {
        return TN_INVALID;
    }
    enum tn_status status = os->open(os->ctx, path, OS_WRITE, &file);
    if (status != TN_OK) {
        return status;
    }
    status = os->write_at(os->ctx, file, bytes, len, 0);
    enum tn_status closed = os->close(os->ctx, file);
    return status != TN_OK ? status : closed;
}

static bool is_of_version(const uint8_t *bytes, size_t len, const char of[8]) {
    return len >= 12 && memcmp(bytes, of, sizeof magic) == 0;
}

static bool record_decode(const uint8_t *bytes, size_t len, struct run_record *out) {
    struct tn_reader r = tn_reader_of(bytes, len);
    bool is_first = is_of_version(bytes, len, magic_1);
    if ((!is_first && !is_of_version(bytes, len, magic)) ||
        tn_load32(bytes + 8) != tn_crc32c(0, bytes + 12, len - 12)) {
        return false;
    }
    r.pos = 12;
    out->lease.shard = tn_read64(&r);
    out->lease.lsn = tn_read64(&r);
    out->epoch = tn_read64(&r);
    out->guardian = (pid_t)tn_read32(&r);
    out->guardian_start = tn_read64(&r);
    out->main = (pid_t)tn_read32(&r);
    out->main_start = tn_read64(&r);
    out->server = is_first ? 0 : (pid_t)tn_read32(&r);
    out->server_namespace = is_first ? 0 : tn_read64(&r);
    out->proof = is_first ? RUN_RECORD_REAPED : (enum run_record_proof)tn_read8(&r);
    bool whole =
        (unsigned)out->proof < RUN_RECORD_PROOFS && text_read(&r, out->boot, sizeof out->boot) &&
        text_read(&r, out->id, sizeof out->id) && text_read(&r, out->cgroup, sizeof out->cgroup) &&
        text_read(&r, out->ref, sizeof out->ref) && tn_reader_left(&r) == 0;
    if (whole && is_first && out->cgroup[0] != '\0') {
        out->proof = RUN_RECORD_CGROUP;
    }
    return whole;
}

enum tn_status run_record_read(const struct os *os, const char *dir,
                               struct run_record *ret_record) {
    char path[RUN_RECORD_PATH_MAX];
    uint8_t bytes[RUN_RECORD_BYTES_MAX];
    size_t len = 0;
    if (!path_of(dir, RUN_FILES_RECORD, "", path)) {
        return TN_INVALID;
    }
    enum tn_status status = os_file_read(os, path, 0, bytes, sizeof bytes, &len);
    if (status == TN_OK && !record_decode(bytes, len, ret_record)) {
        status = TN_CORRUPT;
    }
    return status;
}

void run_record_remove(const struct os *os, const char *dir) {
    /* Includes what an interrupted write has left. */
    static const char *const names[] = {RUN_FILES_TOKEN RUN_FILES_NEW,
                                        RUN_FILES_RULES RUN_FILES_NEW,
                                        RUN_FILES_RECORD RUN_FILES_NEW,
                                        RUN_FILES_TOKEN,
                                        RUN_FILES_RULES,
                                        RUN_FILES_RECORD};
    char path[RUN_RECORD_PATH_MAX];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (path_of(dir, names[i], "", path)) {
            (void)os->remove(os->ctx, path);
        }
    }
}
