/* The control files of cgroups. */
#include "process/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define PATH_BYTES 4096u
#define DEPTH_MAX 8u /* of cgroups inside one of ours */

/* ---- Files ---- */

/* 0, or the error. */
static int control_write(const char *path, const char *file, const char *text) {
    char full[PATH_BYTES];
    if (snprintf(full, sizeof full, "%s/%s", path, file) >= (int)sizeof full) {
        return ENAMETOOLONG;
    }
    int fd = open(full, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno;
    }
    int error = write(fd, text, strlen(text)) < 0 ? errno : 0;
    (void)close(fd);
    return error;
}

/* The error; or 0, with the start of the file as a text. */
static int text_read(const char *full, char *out, size_t capacity) {
    size_t len = 0;
    ssize_t n = 0;
    int fd = open(full, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno;
    }
    while (len < capacity - 1 && (n = read(fd, out + len, capacity - 1 - len)) > 0) {
        len += (size_t)n;
    }
    int error = n < 0 ? errno : 0;
    (void)close(fd);
    out[len] = '\0';
    return error;
}

/* ---- Where ---- */

/* The mount point of version 2: the fifth word of the line whose file system is cgroup2. */
static bool mount_point(const char *mounts, const char **ret_at, size_t *ret_len) {
    for (const char *line = mounts; *line != '\0';) {
        const char *end = strchrnul(line, '\n');
        const char *kind = memmem(line, (size_t)(end - line), " - cgroup2 ", 11);
        if (kind != NULL) {
            const char *at = line;
            for (int word = 1; word < 5 && at != NULL; word++) {
                at = memchr(at, ' ', (size_t)(kind - at));
                at = at == NULL ? NULL : at + 1;
            }
            const char *stop = at == NULL ? NULL : memchr(at, ' ', (size_t)(end - at));
            if (stop != NULL) {
                *ret_at = at;
                *ret_len = (size_t)(stop - at);
                return true;
            }
        }
        line = *end == '\0' ? end : end + 1;
    }
    return false;
}

bool process_cgroup_find_in(const char *mounts, const char *cgroups, char *out, size_t capacity) {
    const char *mount;
    size_t mount_len;
    const char *line = strncmp(cgroups, "0::", 3) == 0 ? cgroups : strstr(cgroups, "\n0::");
    if (line == NULL || !mount_point(mounts, &mount, &mount_len)) {
        return false;
    }
    const char *path = strchr(line, '/');
    if (path == NULL) {
        return false;
    }
    int path_len = (int)(strchrnul(path, '\n') - path);
    if (path_len == 1) {
        path_len = 0; /* the root: its path is the mount point's */
    }
    int len = snprintf(out, capacity, "%.*s%.*s", (int)mount_len, mount, path_len, path);
    return len > 0 && (size_t)len < capacity;
}

bool process_cgroup_find(char *out, size_t capacity) {
    char mounts[32768];
    char cgroups[PATH_BYTES];
    return text_read("/proc/self/mountinfo", mounts, sizeof mounts) == 0 &&
           text_read("/proc/self/cgroup", cgroups, sizeof cgroups) == 0 &&
           process_cgroup_find_in(mounts, cgroups, out, capacity) && access(out, W_OK | X_OK) == 0;
}

bool process_cgroup_delegated(char *out, size_t capacity) {
    static const char *const marks[] = {"trusted.delegate", "user.delegate"};
    char kill[PATH_BYTES];
    char value = '0';
    if (!process_cgroup_find(out, capacity) ||
        snprintf(kill, sizeof kill, "%s/cgroup.kill", out) >= (int)sizeof kill ||
        access(kill, W_OK) != 0) {
        return false;
    }
    bool marked = geteuid() != 0; /* without delegation no other process may write there */
    for (size_t i = 0; i < 2 && !marked; i++) {
        marked = getxattr(out, marks[i], &value, 1) == 1 && value == '1';
    }
    return marked;
}

/* ---- One cgroup ---- */

int process_cgroup_make(const char *path) {
    return mkdir(path, 0755) == 0 ? 0 : errno;
}

int process_cgroup_enter(const char *path) {
    return control_write(path, "cgroup.procs", "0");
}

bool process_cgroup_kill(const char *path) {
    return control_write(path, "cgroup.kill", "1") == 0;
}

bool process_cgroup_empty(const char *path) {
    char full[PATH_BYTES];
    char text[256];
    if (snprintf(full, sizeof full, "%s/cgroup.events", path) >= (int)sizeof full) {
        return false;
    }
    int error = text_read(full, text, sizeof text);
    return error == ENOENT || error == ENODEV ||
           (error == 0 && strstr(text, "populated 0") != NULL);
}

/* Those inside first; a directory that is still in use stays. */
// NOLINTNEXTLINE(misc-no-recursion): as deep as DEPTH_MAX
static void remove_below(char *path, size_t len, unsigned depth) {
    const struct dirent *entry;
    DIR *dir = depth < DEPTH_MAX ? opendir(path) : NULL;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.') {
            int more = snprintf(path + len, PATH_BYTES - len, "/%s", entry->d_name);
            if (more > 0 && len + (size_t)more < PATH_BYTES) {
                remove_below(path, len + (size_t)more, depth + 1);
            }
            path[len] = '\0';
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    (void)rmdir(path);
}

void process_cgroup_remove(const char *path) {
    char full[PATH_BYTES];
    int len = snprintf(full, sizeof full, "%s", path);
    if (len > 0 && (size_t)len < sizeof full) {
        remove_below(full, (size_t)len, 0);
    }
}
