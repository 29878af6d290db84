/* `tenure restore BACKUP DIR`: a new data directory from a backup, offline.
 *
 * Every file is checked while it is copied. The new directory has a file `restored`: the server that
 * starts there begins a new generation, so that its leases can never be confused with leases that the
 * lost server granted after the backup, and leaves the sensors off, since those of the lost server may
 * still run. Until everything is copied and checked, the file says that it is not: a server refuses such
 * a directory. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/backup_files.h"
#include "cli/check_dir.h"
#include "cli/cli.h"
#include "cli/options.h"

#define RESTORED_FILE "restored"

struct restore {
    const char *from, *dir;
    char backup[BACKUP_PATH];
    struct backup_manifest manifest;
    struct stat owner; /* of the directory: new files get the same one */
    bool keys, sensors;
};

/* Whether nothing of anyone is in the directory. What an interrupted restore has left there is not removed: it
 * is the user who knows that nothing else is there. */
static bool dir_is_empty(DIR *entries, const char *dir) {
    const struct dirent *entry;
    while ((entry = readdir(entries)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            strcmp(entry->d_name, BACKUP_LOST_FOUND) != 0) {
            const char *advice = NULL;
            const char *restored = check_dir_restored(dir, &advice);
            return restored != NULL
                       ? backup_fail("%s: %s; %s", dir, restored, advice)
                       : backup_fail("%s: not an empty directory; a restore never writes over data",
                                     dir);
        }
    }
    return true;
}

/* Makes the directory, or takes an empty one that is there. */
static bool dir_make(struct restore *restore) {
    if (mkdir(restore->dir, 0700) != 0 && errno != EEXIST) {
        return backup_fail("%s: %s", restore->dir, strerror(errno));
    }
    DIR *entries = opendir(restore->dir);
    if (entries == NULL || stat(restore->dir, &restore->owner) != 0) {
        (void)backup_fail("%s: %s", restore->dir, strerror(errno));
        if (entries != NULL) {
            (void)closedir(entries);
        }
        return false;
    }
    bool empty = dir_is_empty(entries, restore->dir);
    (void)closedir(entries);
    return empty;
}

/* Root restores for the user that the directory belongs to. */
static bool own(const struct restore *restore, int file) {
    return geteuid() != 0 || fchown(file, restore->owner.st_uid, restore->owner.st_gid) == 0;
}

static bool file_restore(const struct restore *restore, const struct backup_file *file) {
    char from[BACKUP_PATH], to[BACKUP_PATH];
    uint32_t crc = 0;
    if (!backup_path(from, restore->backup, file->name) ||
        !backup_path(to, restore->dir, file->name)) {
        return false;
    }
    int out = backup_create(to);
    if (out < 0) {
        return false;
    }
    bool good = own(restore, out) || backup_fail("%s: %s", to, strerror(errno));
    good = good && backup_copy(from, file->bytes, out, &crc);
    good = backup_finish(out, to, file->size) && good;
    return good && (crc == file->crc || backup_fail("%s: damaged: its checksum is wrong", from));
}

/* Durable, under its name at once. */
static bool marker_write(const struct restore *restore, const char *generation) {
    const struct os *os = os_posix();
    char path[BACKUP_PATH], temporary[BACKUP_PATH], text[128];
    if (!backup_path(path, restore->dir, RESTORED_FILE) ||
        !backup_path(temporary, restore->dir, RESTORED_FILE ".tmp")) {
        return false;
    }
    int len = snprintf(text, sizeof text, "generation=%s\nsensors=%s\n", generation,
                       restore->sensors ? "on" : "off");
    int out = backup_create(temporary);
    if (out < 0) {
        return false;
    }
    bool good = (own(restore, out) || backup_fail("%s: %s", temporary, strerror(errno))) &&
                backup_put(out, temporary, text, (size_t)len, 0);
    good = backup_finish(out, temporary, (uint64_t)len) && good;
    enum tn_status status = good ? os->rename(os->ctx, temporary, path) : TN_IO;
    if (status != TN_OK) {
        (void)os->remove(os->ctx, temporary);
    }
    return good && (status == TN_OK || backup_fail("%s: %s", path, tn_status_text(status))) &&
           backup_sync_dir(restore->dir);
}

/* A server that root starts by mistake would leave files that its own user cannot read. */
static void tell_next(const struct restore *restore) {
    const struct passwd *user = getpwuid(restore->owner.st_uid);
    (void)printf("next        tenured --data %s", restore->dir);
    if (restore->owner.st_uid == geteuid()) {
        (void)printf("\n");
    } else if (user != NULL) {
        (void)printf(", as the user %s\n", user->pw_name);
    } else {
        (void)printf(", as the user %u\n", (unsigned)restore->owner.st_uid);
    }
}

static void tell(const struct restore *restore, bool keys) {
    time_t seconds = (time_t)(restore->manifest.now_ms / 1000);
    struct tm when;
    char text[32] = "";
    if (gmtime_r(&seconds, &when) != NULL) {
        (void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &when);
    }
    (void)printf("restored    %s\n", restore->dir);
    (void)printf("from        %s: state up to lsn %" PRIu64 ", %s\n", restore->backup,
                 restore->manifest.lsn, text);
    (void)printf("holds       state, events, %s\n",
                 keys            ? "token keys"
                 : restore->keys ? "no token keys: the backup has none; tokens of the lost server "
                                   "are not accepted"
                                 : "no token keys (--no-keys): tokens of the lost server are not "
                                   "accepted");
    tell_next(restore);
    if (restore->sensors) {
        (void)printf("sensors     on (--sensors on)\n");
    } else {
        (void)printf("sensors     off, until the server is started once with --sensors on: do that "
                     "when no sensor of the lost server runs any more\n");
    }
}

/* Copies and checks everything. */
static bool files_restore(const struct restore *restore, bool *ret_keys) {
    for (uint32_t i = 0; i < restore->manifest.count; i++) {
        const struct backup_file *file = &restore->manifest.files[i];
        bool other = strcmp(file->kind, "other") == 0;
        if (other && !restore->keys) {
            continue;
        }
        *ret_keys |= other;
        if (!file_restore(restore, file)) {
            return false;
        }
    }
    return cli_check_content(restore->dir) == CLI_OK && marker_write(restore, "pending");
}

static int run(struct restore *restore) {
    bool keys = false;
    DIR *entries = opendir(restore->from);
    if (entries == NULL) {
        (void)backup_fail("%s: %s", restore->from, strerror(errno));
        return CLI_FAILED;
    }
    (void)closedir(entries);
    if (!backup_newest(restore->from, restore->backup)) {
        (void)backup_fail("%s: no backup: no " BACKUP_MANIFEST " and no " BACKUP_PREFIX "*",
                          restore->from);
        return CLI_FAILED;
    }
    if (!backup_manifest_read(restore->backup, &restore->manifest) || !dir_make(restore) ||
        !marker_write(restore, "incomplete")) {
        return CLI_FAILED;
    }
    if (!files_restore(restore, &keys)) {
        (void)backup_fail("%s is incomplete; remove the directory and restore again", restore->dir);
        return CLI_FAILED;
    }
    tell(restore, keys);
    return CLI_OK;
}

int cli_restore(int argc, char **argv) {
    struct restore restore = {.keys = true};
    const char *places[2] = {NULL, NULL};
    const char *sensors = "off";
    bool no_keys = false;
    const struct cli_option rows[] = {{"--sensors", &sensors, NULL}, {"--no-keys", NULL, &no_keys}};
    const struct cli_options options = {
        "restore", "BACKUP DIR [--sensors on|off] [--no-keys]", rows, 2, places, 2};
    if (!cli_options_parse(&options, argc, argv)) {
        return CLI_USAGE;
    }
    if (places[1] == NULL) {
        (void)cli_options_wrong(&options, "specify a backup and a new directory", "");
        return CLI_USAGE;
    }
    if (strcmp(sensors, "on") != 0 && strcmp(sensors, "off") != 0) {
        (void)cli_options_wrong(&options, "--sensors takes on or off, not ", sensors);
        return CLI_USAGE;
    }
    restore.from = places[0];
    restore.dir = places[1];
    restore.keys = !no_keys;
    restore.sensors = strcmp(sensors, "on") == 0;
    int code = run(&restore);
    backup_manifest_free(&restore.manifest);
    return code;
}
