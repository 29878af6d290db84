/* Detects the kind of a directory by names, sizes and the header of the oldest segment. Reading the
 * log finds damage.
 *
 * A directory with snapshots and no segment is a backup, unless its lock file has text: the text is
 * written with the first segment, so the log is missing. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/check_dir.h"
#include "log/segment.h"
#include "os/os.h"

#define NAME_BYTES 256u

struct look {
    size_t segments, snapshots;
    bool lock;
    char oldest[NAME_BYTES]; /* name of the segment with the lowest number */
};

static bool is_numbered(const char *name, const char *prefix, const char *suffix) {
    size_t before = strlen(prefix);
    if (strncmp(name, prefix, before) != 0) {
        return false;
    }
    size_t digits = strspn(name + before, "0123456789abcdef");
    return digits == 16 && strcmp(name + before + digits, suffix) == 0;
}

static void look_at(struct look *look, const char *name) {
    if (is_numbered(name, "", ".log")) {
        look->segments++;
        if (look->oldest[0] == '\0' || strcmp(name, look->oldest) < 0) {
            (void)snprintf(look->oldest, sizeof look->oldest, "%s", name);
        }
    }
    look->snapshots += is_numbered(name, "snapshot-", ".snap");
    look->lock |= strcmp(name, "lock") == 0;
}

/* Reads the beginning of a file. Opening one that is not regular does not wait. */
static enum tn_status head_read(const char *dir, const char *name, void *out, size_t room,
                                size_t *ret_len) {
    const struct os *os = os_posix();
    char path[4096];
    int file;
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    enum tn_status status = os->open(os->ctx, path, OS_READ, &file);
    if (status == TN_OK) {
        status = os->read_at(os->ctx, file, out, room, 0, ret_len);
        (void)os->close(os->ctx, file);
    }
    return status;
}

static uint64_t first_lsn(const char *dir, const char *segment) {
    uint8_t bytes[LOG_SEGMENT_HEADER];
    struct log_segment_header header = {.first_lsn = 0};
    size_t len = 0;
    bool whole = segment[0] != '\0' &&
                 head_read(dir, segment, bytes, sizeof bytes, &len) == TN_OK &&
                 len == sizeof bytes && log_segment_header_decode(bytes, &header) == TN_OK;
    return whole ? header.first_lsn : 0;
}

static bool lock_has_text(const char *dir) {
    char path[4096];
    struct stat status;
    (void)snprintf(path, sizeof path, "%s/lock", dir);
    return stat(path, &status) == 0 && status.st_size > 0;
}

void check_dir_look(const char *dir, struct check_dir *ret_datadir) {
    struct look look = {.segments = 0};
    *ret_datadir = (struct check_dir){.kind = CHECK_DIR_UNREADABLE};
    DIR *entries = opendir(dir);
    if (entries == NULL) {
        ret_datadir->error = errno;
        return;
    }
    const struct dirent *entry;
    while ((entry = readdir(entries)) != NULL) {
        look_at(&look, entry->d_name);
    }
    (void)closedir(entries);
    ret_datadir->snapshots = look.snapshots;
    ret_datadir->begins = first_lsn(dir, look.oldest);
    if (look.segments == 0 && look.snapshots > 0 && !lock_has_text(dir)) {
        ret_datadir->kind = CHECK_DIR_BACKUP;
    } else if (look.segments > 0 || look.snapshots > 0 || look.lock) {
        ret_datadir->kind = CHECK_DIR_LOG;
    } else {
        ret_datadir->kind = CHECK_DIR_OTHER;
    }
}

const char *check_dir_restored(const char *dir, const char **ret_advice) {
    char text[64] = "";
    size_t len = 0;
    struct stat st;
    if (stat(dir, &st) != 0 || !S_ISDIR(st.st_mode)) {
        return NULL;
    }
    enum tn_status status = head_read(dir, "restored", text, sizeof text - 1, &len);
    if (status == TN_NOTFOUND || status == TN_DENIED) {
        return NULL; /* if the server may not read it either, the rest says so, too */
    }
    if (status != TN_OK || strstr(text, "generation=") == NULL) {
        *ret_advice = "keep the directory and restore a backup into another one";
        return "its file `restored` is not of `tenure restore`";
    }
    *ret_advice = "remove the directory and restore again";
    return strstr(text, "generation=incomplete") != NULL ? "`tenure restore` was interrupted here"
                                                         : NULL;
}

void check_dir_refuse(const char *subcommand, const char *dir, const struct check_dir *datadir) {
    if (datadir->kind == CHECK_DIR_UNREADABLE) {
        (void)fprintf(stderr, "tenure %s: %s: %s\n", subcommand, dir, strerror(datadir->error));
        return;
    }
    (void)fprintf(stderr,
                  "tenure %s: %s: neither a data directory nor a backup: it holds no segment "
                  "(*.log), no snapshot (snapshot-*.snap) and no lock file\n",
                  subcommand, dir);
}
