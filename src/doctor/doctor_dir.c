/* The data directory: whether it is there, whose it is, whether a server has its lock, and whether the log
 * and the snapshots in it can be read, by the same check as `tenure check`. */
#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "cli/backup_files.h"
#include "cli/check_dir.h"
#include "cli/check_pass.h"
#include "doctor/doctor_parts.h"

#define READ_MAX (256u << 20) /* maximum bytes of log and snapshots to read */

static const char area[] = "data";
static const char another[] = "choose another path for data";
static const char as_root[] = "run this as root, or as the user of the server: sudo tenure doctor";

static const char *user_name(uid_t uid, char out[64]) {
    const struct passwd *user = getpwuid(uid);
    if (user != NULL) {
        (void)snprintf(out, 64, "%s", user->pw_name);
    } else {
        (void)snprintf(out, 64, "%u", (unsigned)uid);
    }
    return out;
}

/* ---- The directory ---- */

static void missing(struct doctor *doctor, const char *dir) {
    char copy[DOCTOR_PATH_MAX];
    (void)snprintf(copy, sizeof copy, "%s", dir);
    const char *parent = dirname(copy);
    if (access(parent, F_OK) != 0) {
        doctor_say(doctor, DOCTOR_PROBLEM, area, doctor_advice("mkdir -p '%s'", parent),
                   "%s does not exist, and neither does %s: tenured makes one directory only", dir,
                   parent);
    } else {
        doctor_say(doctor, DOCTOR_OK, area, NULL, "%s does not exist: tenured makes it", dir);
    }
}

/* False: there is no directory to examine. */
static bool directory_find(struct doctor *doctor, const char *dir, struct stat *ret_st) {
    char owner[64];
    if (stat(dir, ret_st) != 0) {
        if (errno == ENOENT) {
            doctor->lock_known = true;
            missing(doctor, dir);
        } else if (errno == EACCES) {
            doctor_say(doctor, DOCTOR_UNKNOWN, area, as_root, "cannot look: %s: %s", dir,
                       strerror(errno));
        } else {
            doctor_say(doctor, DOCTOR_PROBLEM, area, another, "%s: %s", dir, strerror(errno));
        }
        return false;
    }
    if (!S_ISDIR(ret_st->st_mode)) {
        doctor_say(doctor, DOCTOR_PROBLEM, area, another, "%s is not a directory", dir);
        return false;
    }
    doctor->dir_exists = true;
    (void)user_name(ret_st->st_uid, owner);
    if ((ret_st->st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        doctor_say(doctor, (ret_st->st_mode & S_IWOTH) != 0 ? DOCTOR_PROBLEM : DOCTOR_WARNING, area,
                   doctor_advice("chmod 700 '%s'", dir),
                   "%s belongs to %s and is open to others "
                   "(mode %04o); it has token keys and clients' data",
                   dir, owner, (unsigned)(ret_st->st_mode & 07777));
    } else {
        doctor_say(doctor, DOCTOR_OK, area, NULL, "%s belongs to %s (mode %04o)", dir, owner,
                   (unsigned)(ret_st->st_mode & 07777));
    }
    return true;
}

/* ---- What is in it ---- */

struct contents {
    const char *dir;
    uid_t owner;
    uint64_t read_bytes; /* of logs and snapshots */
    char newest[64];     /* snapshot */
    uint64_t newest_bytes;
    char other[256];   /* a file that is not hidden, of whatever program */
    char foreign[256]; /* a file that belongs to another user */
    uid_t foreign_owner;
};

static bool ends(const char *name, const char *end) {
    size_t len = strlen(name), end_len = strlen(end);
    return len >= end_len && strcmp(name + len - end_len, end) == 0;
}

static void entry_look(void *ctx, const char *name) {
    struct contents *contents = ctx;
    char path[DOCTOR_PATH_MAX];
    struct stat st;
    int len = snprintf(path, sizeof path, "%s/%s", contents->dir, name);
    if (len >= (int)sizeof path || lstat(path, &st) != 0 || strcmp(name, BACKUP_LOST_FOUND) == 0) {
        return;
    }
    bool is_snapshot = strncmp(name, "snapshot-", 9) == 0 && ends(name, ".snap");
    if ((ends(name, ".log") && strncmp(name, "spare-", 6) != 0) || is_snapshot) {
        contents->read_bytes += (uint64_t)st.st_size;
    }
    if (is_snapshot && strcmp(name, contents->newest) > 0) {
        (void)snprintf(contents->newest, sizeof contents->newest, "%.60s", name);
        contents->newest_bytes = (uint64_t)st.st_size;
    }
    if (name[0] != '.') {
        (void)snprintf(contents->other, sizeof contents->other, "%s", name);
    }
    if (st.st_uid != contents->owner) {
        (void)snprintf(contents->foreign, sizeof contents->foreign, "%s", name);
        contents->foreign_owner = st.st_uid;
    }
}

static void owners_judge(struct doctor *doctor, const struct contents *contents) {
    char owner[64], other[64];
    if (contents->foreign[0] != '\0') {
        (void)user_name(contents->owner, owner);
        doctor_say(doctor, DOCTOR_PROBLEM, area,
                   doctor_advice("stop the server, then: chown -R %s: '%s'", owner, contents->dir),
                   "%s in %s belongs to %s: perhaps tenured was started once as that user",
                   contents->foreign, contents->dir, user_name(contents->foreign_owner, other));
    }
}

/* ---- The lock ---- */

/* The process that has locked the file; 0: unknown. */
static pid_t holder_find(const struct stat *st) {
    char wanted[64], line[256];
    long pid = 0;
    FILE *file = fopen("/proc/locks", "re");
    (void)snprintf(wanted, sizeof wanted, " %02x:%02x:%ju ", major(st->st_dev), minor(st->st_dev),
                   (uintmax_t)st->st_ino);
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const char *at = strstr(line, "WRITE");
        if (at != NULL && strstr(line, "FLOCK") != NULL && strstr(line, wanted) != NULL) {
            pid = strtol(at + 5, NULL, 10);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return pid > 0 ? (pid_t)pid : 0;
}

/* Takes a shared lock and releases it at once. A server that starts at this moment tries again. */
static void lock_look(struct doctor *doctor, const char *dir) {
    char path[DOCTOR_PATH_MAX];
    struct stat st;
    int file;
    (void)snprintf(path, sizeof path, "%s/lock", dir);
    if (stat(path, &st) != 0 && errno == ENOENT) {
        doctor->lock_known = true;
        doctor_say(doctor, DOCTOR_OK, area, NULL, "no server has used %s", dir);
        return;
    }
    if (doctor->os->open(doctor->os->ctx, path, OS_READ, &file) != TN_OK) {
        doctor_say(doctor, DOCTOR_UNKNOWN, area, as_root, "cannot look: %s: %s", path,
                   strerror(errno));
        return;
    }
    doctor->lock_known = true;
    doctor->dir_locked = flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    (void)doctor->os->close(doctor->os->ctx, file);
    doctor->server = doctor->dir_locked ? holder_find(&st) : 0;
    if (doctor->server > 0) {
        doctor_say(doctor, DOCTOR_OK, area, NULL, "a server runs in %s: process %ld", dir,
                   (long)doctor->server);
    } else {
        doctor_say(doctor, DOCTOR_OK, area, NULL, "%s in %s",
                   doctor->dir_locked ? "a server runs" : "no server runs", dir);
    }
}

/* ---- The log ---- */

static void log_read(struct doctor *doctor, const struct contents *contents) {
    struct check_dir kind;
    struct engine_report report;
    struct log_error error;
    char bytes[32];
    const char *advice = NULL;
    const char *restored = check_dir_restored(contents->dir, &advice);
    check_dir_look(contents->dir, &kind);
    if (restored != NULL) {
        doctor_say(doctor, DOCTOR_PROBLEM, area, advice, "%s: %s: no server starts with it",
                   contents->dir, restored);
        return;
    }
    if (kind.kind == CHECK_DIR_OTHER && contents->other[0] != '\0') {
        doctor_say(doctor, DOCTOR_WARNING, area,
                   "choose an empty directory, or a path for a new one",
                   "%s has no data of Tenure, but %s: perhaps it is another program's directory",
                   contents->dir, contents->other);
    }
    if (kind.kind == CHECK_DIR_OTHER) {
        return; /* a new directory */
    }
    if (contents->read_bytes > READ_MAX) {
        doctor_say(doctor, DOCTOR_UNKNOWN, area, doctor_advice("tenure check '%s'", contents->dir),
                   "the log was not read: it has %s", doctor_bytes(contents->read_bytes, bytes));
        return;
    }
    struct check_way way = {.backup = kind.kind == CHECK_DIR_BACKUP};
    enum tn_status status = check_pass(contents->dir, way, NULL, &report, &error);
    if (status == TN_DENIED) {
        doctor_say(doctor, DOCTOR_UNKNOWN, area, as_root, "cannot look at the log: %s", error.text);
    } else if (status != TN_OK || (!report.empty && !report.sound)) {
        doctor_say(
            doctor, DOCTOR_PROBLEM, area,
            doctor_advice("keep a copy of the directory, then: tenure check '%s'", contents->dir),
            "the log: %s", status != TN_OK ? error.text : report.why);
    } else if (report.empty) {
        doctor_say(doctor, DOCTOR_OK, area, NULL, "the log is empty");
    } else {
        doctor->log_ms = report.position.now_ms;
        doctor_say(doctor, DOCTOR_OK, area, NULL,
                   "the log is sound: %" PRIu64 " leases, %" PRIu64 " pools at lsn %" PRIu64,
                   report.usage.leases, report.usage.pools, report.position.lsn);
    }
    if (status == TN_OK && kind.kind == CHECK_DIR_BACKUP) {
        doctor_say(doctor, DOCTOR_PROBLEM, area,
                   doctor_advice("tenure restore '%s' NEW_DIRECTORY", contents->dir),
                   "%s is a backup: it has snapshots and no log", contents->dir);
    }
}

void doctor_dir(struct doctor *doctor) {
    const char *dir = config_text(&doctor->config, CONFIG_DATA);
    struct stat st;
    if (!directory_find(doctor, dir, &st)) {
        return;
    }
    struct contents contents = {.dir = dir, .owner = st.st_uid};
    if (doctor->os->list(doctor->os->ctx, dir, entry_look, &contents) != TN_OK) {
        doctor_say(doctor, DOCTOR_UNKNOWN, area, as_root, "cannot look into %s: %s", dir,
                   strerror(errno));
        return;
    }
    doctor->snapshot_bytes = contents.newest_bytes;
    owners_judge(doctor, &contents);
    lock_look(doctor, dir);
    log_read(doctor, &contents);
}
