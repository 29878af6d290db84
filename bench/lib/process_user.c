/* Servers that refuse to run as root, and have a user of their own in Debian. */
#include <glob.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process.h"

#define ARGUMENTS_MAX 48u

static _Noreturn void die(const char *what, const char *why) {
    fprintf(stderr, "bench: %s: %s\n", what, why);
    exit(1);
}

bool process_find(const char *pattern, char *out, size_t capacity) {
    glob_t found;
    bool any = glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc > 0;
    if (any) {
        snprintf(out, capacity, "%s", found.gl_pathv[found.gl_pathc - 1]);
    }
    globfree(&found);
    return any;
}

void process_path(const char *name, char *out, size_t capacity) {
    snprintf(out, capacity, "%s/%s", process_directory(), name);
}

static const struct passwd *user_find(const char *user) {
    const struct passwd *found = getpwnam(user);
    if (found == NULL) {
        die(user, "there is no such user");
    }
    return found;
}

void process_directory_give(const char *name, const char *user) {
    char path[512];
    process_path(name, path, sizeof path);
    if (mkdir(path, 0700) != 0) {
        die(path, "cannot be made");
    }
    if (geteuid() == 0) {
        const struct passwd *owner = user_find(user);
        if (chown(path, owner->pw_uid, owner->pw_gid) != 0) {
            die(path, "cannot be given away");
        }
    }
}

/* With setpriv, which also has the process end with this one: changing the user undoes what is set before. */
pid_t process_begin(const char *name, const char *user, char *const *argv) {
    char *words[ARGUMENTS_MAX], uid[64], gid[64];
    size_t count = 0;
    if (geteuid() == 0) {
        const struct passwd *owner = user_find(user);
        snprintf(uid, sizeof uid, "--reuid=%u", (unsigned)owner->pw_uid);
        snprintf(gid, sizeof gid, "--regid=%u", (unsigned)owner->pw_gid);
        char *as_user[] = {"setpriv", uid, gid, "--clear-groups", "--pdeathsig", "KILL"};
        count = sizeof as_user / sizeof as_user[0];
        memcpy(words, as_user, sizeof as_user);
    }
    for (size_t i = 0;; i++, count++) {
        if (count == ARGUMENTS_MAX) {
            die(name, "too many arguments");
        }
        words[count] = argv[i];
        if (argv[i] == NULL) {
            break;
        }
    }
    return process_spawn(name, words);
}

void process_run(const char *name, const char *user, char *const *argv) {
    int status;
    pid_t id = process_begin(name, user, argv);
    if (waitpid(id, &status, 0) != id || status != 0) {
        die(name, "failed; its output is in the directory of the run");
    }
}
