/* The disk: the kind of file system, free space, and how long a sync takes.
 *
 * The probe overwrites one block of a file that has no name any more, and syncs it after each time, as the
 * log does: at most PROBES times and PROBE_MS milliseconds. */
#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "doctor/doctor_parts.h"

#define PROBES 32u
#define PROBE_MS 1000u
#define BLOCK_BYTES 4096u
#define FILE_BLOCKS 32u
#define FAST_NS 10000u    /* no disk stores a block in less time */
#define SLOW_NS 20000000u /* more than a rotating disk needs */
#define INODES_MIN 1000u

static const char area[] = "disk";

/* ---- The file system ---- */

static const struct system {
    uint32_t type; /* of statfs(2) */
    const char *name;
    enum doctor_level level;
    const char *trouble;
} systems[] = {
    {0x01021994, "tmpfs", DOCTOR_PROBLEM, "is memory: a reboot loses every lease"},
    {0x858458f6, "ramfs", DOCTOR_PROBLEM, "is memory: a reboot loses every lease"},
    {0x794c7630, "overlayfs", DOCTOR_WARNING, "ends with its container: use a volume"},
    {0x6969, "NFS", DOCTOR_WARNING,
     "is a network file system: locks and syncs depend on the server"},
    {0xff534d42, "CIFS", DOCTOR_WARNING,
     "is a network file system: locks and syncs depend on the server"},
    {0xfe534d42, "SMB", DOCTOR_WARNING,
     "is a network file system: locks and syncs depend on the server"},
    {0x01021997, "9p", DOCTOR_WARNING, "is a share of another machine: syncs depend on it"},
    {0x65735546, "FUSE", DOCTOR_WARNING, "is a program: locks and syncs depend on it"},
    {0xef53, "ext4", DOCTOR_OK, NULL},
    {0x58465342, "xfs", DOCTOR_OK, NULL},
    {0x9123683e, "btrfs", DOCTOR_OK, NULL},
    {0x2fc12fc1, "zfs", DOCTOR_OK, NULL},
    {0xf2f52010, "f2fs", DOCTOR_OK, NULL},
};

static void system_judge(struct doctor *doctor, const char *dir, uint32_t type) {
    for (unsigned i = 0; i < sizeof systems / sizeof systems[0]; i++) {
        if (systems[i].type == type) {
            doctor_say(doctor, systems[i].level, area,
                       systems[i].level == DOCTOR_OK ? NULL
                                                     : "put data on a local disk: ext4 or xfs",
                       "%s is on %s%s%s", dir, systems[i].name,
                       systems[i].trouble != NULL ? ", which " : "",
                       systems[i].trouble != NULL ? systems[i].trouble : "");
            return;
        }
    }
    doctor_say(doctor, DOCTOR_OK, area, NULL, "%s is on a file system of type 0x%x", dir, type);
}

/* There must be room for the next snapshot beside the existing ones, for two new segments, and for
 * the reserve. */
static void space_judge(struct doctor *doctor, const char *dir, const struct statvfs *space) {
    const struct config *config = &doctor->config;
    uint64_t has = (uint64_t)space->f_bavail * space->f_frsize;
    uint64_t needs = config_number(config, CONFIG_SPACE_RESERVE) + doctor->snapshot_bytes +
                     config_number(config, CONFIG_SNAPSHOT_BYTES) +
                     2 * config_number(config, CONFIG_SEGMENT_BYTES);
    char free_text[32], needs_text[32];
    (void)doctor_bytes(has, free_text);
    (void)doctor_bytes(needs, needs_text);
    if ((space->f_flag & ST_RDONLY) != 0) {
        doctor_say(doctor, DOCTOR_PROBLEM, area, "mount -o remount,rw, after a look at dmesg",
                   "%s is mounted read-only", dir);
    } else if (has <= config_number(config, CONFIG_SPACE_RESERVE)) {
        doctor_say(doctor, DOCTOR_PROBLEM, area,
                   "free or add space; lower space_reserve_bytes only for the moment",
                   "%s free, not more than space_reserve_bytes: writes are refused", free_text);
    } else if (has < needs) {
        doctor_say(doctor, DOCTOR_WARNING, area, "free or add space",
                   "%s free; the reserve, the next snapshot and new segments can need %s",
                   free_text, needs_text);
    } else if (space->f_files > 0 && space->f_favail < INODES_MIN) {
        doctor_say(doctor, DOCTOR_WARNING, area,
                   "remove files, or recreate the file system with more inodes",
                   "room for only %ju more files", (uintmax_t)space->f_favail);
    } else {
        doctor_say(doctor, DOCTOR_OK, area, NULL, "%s free", free_text);
    }
}

/* ---- Syncs ---- */

static int shorter_first(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* Returns how many syncs were measured; 0: none could be. */
static unsigned probe(const struct os *os, int file, uint64_t times[PROBES]) {
    static const uint8_t zeros[BLOCK_BYTES * FILE_BLOCKS];
    uint8_t block[BLOCK_BYTES];
    uint64_t begun = os->clock_boot_ms(os->ctx);
    unsigned count = 0;
    bool good = os->write_at(os->ctx, file, zeros, sizeof zeros, 0) == TN_OK &&
                os->sync(os->ctx, file) == TN_OK;
    while (good && count < PROBES &&
           (count == 0 || os->clock_boot_ms(os->ctx) - begun < PROBE_MS)) {
        memset(block, (int)count + 1, sizeof block);
        uint64_t from = os->clock_boot_ns(os->ctx);
        good = os->write_at(os->ctx, file, block, sizeof block,
                            (uint64_t)(count % FILE_BLOCKS) * BLOCK_BYTES) == TN_OK &&
               os->sync(os->ctx, file) == TN_OK;
        times[count] = os->clock_boot_ns(os->ctx) - from;
        count += good;
    }
    return count;
}

static void sync_judge(struct doctor *doctor, uint64_t times[PROBES], unsigned count) {
    qsort(times, count, sizeof times[0], shorter_first);
    uint64_t median = times[count / 2];
    double ms = (double)median / 1e6, worst = (double)times[count - 1] / 1e6;
    double rate = median > 0 ? 1e9 / (double)median : 0;
    if (median < FAST_NS) {
        doctor_say(
            doctor, DOCTOR_WARNING, area,
            "make sure that writes are not cached without power-loss protection (a virtual disk's "
            "cache mode, nobarrier, eatmydata)",
            "a sync takes %.3f ms (median of %u): faster than a disk can be, so it may "
            "acknowledge what is not stored",
            ms, count);
    } else if (median > SLOW_NS) {
        doctor_say(
            doctor, DOCTOR_WARNING, area,
            "use a local SSD; look for other programs that write (iostat -x 1)",
            "a sync takes %.1f ms (median of %u, longest %.1f): one client alone gets at most "
            "%.0f writes a second",
            ms, count, worst, rate);
    } else {
        doctor_say(doctor, DOCTOR_OK, area, NULL,
                   "a sync takes %.3f ms (median of %u, longest %.3f): about %.0f a second", ms,
                   count, worst, rate);
    }
}

static void sync_measure(struct doctor *doctor, const char *dir) {
    const struct os *os = doctor->os;
    char path[DOCTOR_PATH_MAX + 64];
    uint64_t times[PROBES];
    uint64_t random = 0;
    int file;
    (void)os->random(os->ctx, &random, sizeof random);
    (void)snprintf(path, sizeof path, "%s/doctor-%016" PRIx64 ".tmp", dir, random);
    enum tn_status status = os->open(os->ctx, path, OS_WRITE | OS_CREATE | OS_EXCLUSIVE, &file);
    if (status != TN_OK) {
        doctor_say(doctor, DOCTOR_UNKNOWN, area,
                   "run this as root, or as the user of the server: sudo tenure doctor",
                   "cannot measure syncs in %s: %s", dir, tn_status_text(status));
        return;
    }
    (void)os->remove(os->ctx, path);
    unsigned count = probe(os, file, times);
    (void)os->close(os->ctx, file);
    if (count == 0) {
        doctor_say(doctor, DOCTOR_PROBLEM, area, "look at dmesg, and at free space and quotas",
                   "%s cannot be written and synced", dir);
    } else {
        sync_judge(doctor, times, count);
    }
}

void doctor_disk(struct doctor *doctor) {
    const char *data = config_text(&doctor->config, CONFIG_DATA);
    char copy[DOCTOR_PATH_MAX];
    struct statfs system;
    struct statvfs space;
    (void)snprintf(copy, sizeof copy, "%s", data);
    const char *dir = doctor->dir_exists ? data : dirname(copy); /* where it will be created */
    if (statfs(dir, &system) != 0 || statvfs(dir, &space) != 0) {
        doctor_say(doctor, DOCTOR_UNKNOWN, area, NULL, "cannot look: %s: %s", dir, strerror(errno));
        return;
    }
    system_judge(doctor, dir, (uint32_t)system.f_type);
    space_judge(doctor, dir, &space);
    if ((space.f_flag & ST_RDONLY) == 0) {
        sync_measure(doctor, dir);
    }
}
