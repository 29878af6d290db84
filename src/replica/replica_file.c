#include "replica/replica_file.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "log/dir.h"
#include "os/file_whole.h"
#include "replica/replica.h"

#define FORMAT 1u
#define FILE_BYTES 60u

static const char magic[8] = {'T', 'E', 'N', 'U', 'R', 'E', 'R', 'P'};

static enum tn_status file_decode(const uint8_t bytes[FILE_BYTES], struct replica_file *ret_file) {
    struct tn_reader r = tn_reader_of(bytes, FILE_BYTES);
    char found[sizeof magic];
    (void)tn_read_raw(&r, found, sizeof found);
    uint32_t format = tn_read32(&r);
    if (memcmp(found, magic, sizeof magic) != 0 ||
        tn_load32(bytes + FILE_BYTES - 4) != tn_crc32c(0, bytes, FILE_BYTES - 4)) {
        return TN_CORRUPT;
    }
    if (format != FORMAT) {
        return TN_VERSION;
    }
    ret_file->flags = tn_read32(&r);
    (void)tn_read_raw(&r, ret_file->cluster, sizeof ret_file->cluster);
    ret_file->lsn = tn_read64(&r);
    ret_file->chain = tn_read64(&r);
    ret_file->epoch = tn_read64(&r);
    return TN_OK;
}

enum tn_status replica_file_read(const struct os *os, const char *dir,
                                 struct replica_file *ret_file) {
    char path[LOG_PATH_MAX];
    uint8_t bytes[FILE_BYTES + 1];
    size_t len = 0;
    if (snprintf(path, sizeof path, "%s/" REPLICA_FILE, dir) >= (int)sizeof path) {
        return TN_INVALID;
    }
    enum tn_status status = os_file_read(os, path, 0, bytes, sizeof bytes, &len);
    if (status != TN_OK) {
        return status;
    }
    return len == FILE_BYTES ? file_decode(bytes, ret_file) : TN_CORRUPT;
}

static void file_encode(const struct replica_file *file, uint8_t out[FILE_BYTES]) {
    struct tn_writer w = tn_writer_of(out, FILE_BYTES);
    tn_write_raw(&w, magic, sizeof magic);
    tn_write32(&w, FORMAT);
    tn_write32(&w, file->flags);
    tn_write_raw(&w, file->cluster, sizeof file->cluster);
    tn_write64(&w, file->lsn);
    tn_write64(&w, file->chain);
    tn_write64(&w, file->epoch);
    tn_write32(&w, tn_crc32c(0, out, w.len));
    TN_ASSERT(!w.overflow && w.len == FILE_BYTES);
}

enum tn_status replica_file_write(const struct os *os, const char *dir,
                                  const struct replica_file *file) {
    uint8_t bytes[FILE_BYTES];
    file_encode(file, bytes);
    return os_file_replace(os, dir, REPLICA_FILE, bytes, sizeof bytes);
}

enum tn_status replica_dir_is_member(const struct os *os, const char *dir, bool *ret_is) {
    struct replica_file file;
    enum tn_status status = replica_file_read(os, dir, &file);
    if (status == TN_NOTFOUND) {
        *ret_is = false;
        return TN_OK;
    }
    if (status == TN_OK) {
        *ret_is = (file.flags & REPLICA_FILE_CLOSED) == 0;
    }
    return status;
}
