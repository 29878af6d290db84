/* Permissions of files with secrets: the configuration, which has hashes of users' secrets, and the files
 * that it names. Others may not read them, and the server's user must. */
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor/doctor_parts.h"

static void file_judge(struct doctor *doctor, const char *what, const char *path) {
    struct stat st;
    if (stat(path, &st) != 0) {
        doctor_say(doctor, errno == EACCES ? DOCTOR_UNKNOWN : DOCTOR_PROBLEM, "secrets",
                   errno == EACCES ? "run this as root, or as the user of the server"
                                   : "correct the path in the configuration, or make the file",
                   "%s%s %s: %s", errno == EACCES ? "cannot look: " : "", what, path,
                   strerror(errno));
    } else if (!S_ISREG(st.st_mode)) {
        doctor_say(doctor, DOCTOR_PROBLEM, "secrets", "correct the path in the configuration",
                   "%s %s is not a regular file", what, path);
    } else if ((st.st_mode & S_IWOTH) != 0) {
        doctor_say(doctor, DOCTOR_PROBLEM, "secrets", doctor_advice("chmod o-rwx '%s'", path),
                   "%s %s can be written by every user of this machine", what, path);
    } else if ((st.st_mode & S_IROTH) != 0) {
        doctor_say(doctor, DOCTOR_WARNING, "secrets", doctor_advice("chmod o-rwx '%s'", path),
                   "%s %s can be read by every user of this machine", what, path);
    } else {
        doctor_say(doctor, DOCTOR_OK, "secrets", NULL, "%s %s is not open to others (mode %04o)",
                   what, path, (unsigned)(st.st_mode & 07777));
    }
}

/* ---- The server's user ---- */

struct user {
    const char *name;
    uid_t uid;
    gid_t gid;
    gid_t groups[DOCTOR_GROUPS_MAX]; /* besides those of the user's entry */
    unsigned group_count;
    bool groups_known;
};

/* The groups of the file and of the directories above it. */
static unsigned path_groups(const char *path, gid_t out[DOCTOR_GROUPS_MAX]) {
    char *at = realpath(path, NULL);
    unsigned count = 0;
    struct stat st;
    while (at != NULL && count < DOCTOR_GROUPS_MAX && stat(at, &st) == 0) {
        out[count++] = st.st_gid;
        char *slash = strrchr(at, '/');
        if (slash == NULL || slash == at) {
            break;
        }
        *slash = '\0';
    }
    free(at);
    return count;
}

/* Becomes the user. */
static bool user_become(const struct user *user, const gid_t *more, unsigned more_count) {
    gid_t all[1024];
    int count = (int)(sizeof all / sizeof all[0] - 2 * DOCTOR_GROUPS_MAX);
    if (getgrouplist(user->name, user->gid, all, &count) < 0) {
        return false;
    }
    for (unsigned i = 0; i < user->group_count; i++) {
        all[count++] = user->groups[i];
    }
    for (unsigned i = 0; i < more_count; i++) {
        all[count++] = more[i];
    }
    return setgroups((size_t)count, all) == 0 && setgid(user->gid) == 0 && setuid(user->uid) == 0;
}

/* Root can read every file, so another process asks with the rights of the user, and of these groups. True: it is
 * certain that the user may not. */
static bool is_refused(const struct user *user, const gid_t *more, unsigned more_count,
                       const char *path) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        _exit(user_become(user, more, more_count) && access(path, R_OK) != 0 && errno == EACCES);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 1;
}

static void reading_judge(struct doctor *doctor, const struct user *user, const char *what,
                          const char *path) {
    gid_t groups[DOCTOR_GROUPS_MAX];
    if (*path == '\0' || !is_refused(user, NULL, 0, path)) {
        return;
    }
    const struct group *group = getgrgid(user->gid);
    bool certain = user->groups_known || is_refused(user, groups, path_groups(path, groups), path);
    doctor_say(doctor, certain ? DOCTOR_PROBLEM : DOCTOR_UNKNOWN, "secrets",
               certain ? doctor_advice("chgrp %s '%s'; chmod g+r '%s'; and let this user enter the "
                                       "directories above",
                                       group != NULL ? group->gr_name : user->name, path, path)
                       : "look with which groups the server is started (SupplementaryGroups)",
               certain ? "%s %s cannot be read by %s, the user of the server"
                       : "%s %s can be read by %s, the user of the server, only with another group",
               what, path, user->name);
}

static bool number_of(const char *text, unsigned *ret_number) {
    char *end = NULL;
    unsigned long number = strtoul(text, &end, 10);
    *ret_number = (unsigned)number;
    return *text >= '0' && *text <= '9' && *end == '\0' && number < UINT_MAX;
}

/* False: there is no such group. */
static bool group_find(const char *name, gid_t *ret_gid) {
    const struct group *group = getgrnam(name);
    if (group != NULL) {
        *ret_gid = group->gr_gid;
    }
    return group != NULL || number_of(name, ret_gid);
}

static void groups_of_unit(const struct doctor_unit *unit, struct user *user) {
    user->groups_known =
        unit->group == NULL || *unit->group == '\0' || group_find(unit->group, &user->gid);
    for (unsigned i = 0; i < unit->group_count; i++) {
        if (group_find(unit->groups[i], &user->groups[user->group_count])) {
            user->group_count++;
        } else {
            user->groups_known = false;
        }
    }
}

/* False: it is root, or unknown. */
static bool user_of_unit(struct doctor *doctor, struct user *user) {
    const struct doctor_unit *unit = &doctor->unit;
    unsigned uid = 0;
    if (unit->user == NULL || *unit->user == '\0') {
        return false;
    }
    const struct passwd *entry = getpwnam(unit->user);
    if (entry == NULL && number_of(unit->user, &uid)) {
        entry = getpwuid(uid);
    }
    if (entry == NULL) {
        doctor_say(doctor, unit->dynamic_user ? DOCTOR_UNKNOWN : DOCTOR_PROBLEM, "unit",
                   unit->dynamic_user ? NULL
                                      : doctor_advice("adduser --system --group %s", unit->user),
                   "%s: User=%s: there is no such user%s", unit->path, unit->user,
                   unit->dynamic_user ? " while the server does not run" : "");
        return false;
    }
    *user = (struct user){.name = entry->pw_name, .uid = entry->pw_uid, .gid = entry->pw_gid};
    groups_of_unit(unit, user);
    return entry->pw_uid != 0;
}

/* Without a unit, the data directory belongs to the server's user. */
static bool user_of_dir(const struct doctor *doctor, struct user *user) {
    struct stat st;
    if (stat(config_text(&doctor->config, CONFIG_DATA), &st) != 0 || st.st_uid == 0) {
        return false;
    }
    const struct passwd *entry = getpwuid(st.st_uid);
    if (entry != NULL) {
        *user = (struct user){.name = entry->pw_name, .uid = entry->pw_uid, .gid = entry->pw_gid};
    }
    return entry != NULL;
}

static void readings_judge(struct doctor *doctor) {
    static const enum config_setting settings[] = {
        CONFIG_TLS_CERT,  CONFIG_TLS_KEY,  CONFIG_TLS_CA,        CONFIG_AMQP_CA,
        CONFIG_AMQP_CERT, CONFIG_AMQP_KEY, CONFIG_AMQP_PASSWORD, CONFIG_ETCD_CA,
        CONFIG_ETCD_CERT, CONFIG_ETCD_KEY, CONFIG_ETCD_PASSWORD, CONFIG_CLUSTER_SECRET};
    const struct config *config = &doctor->config;
    struct user user;
    if (geteuid() != 0 || !(doctor_unit_is_meant(doctor) ? user_of_unit(doctor, &user)
                                                         : user_of_dir(doctor, &user))) {
        return;
    }
    reading_judge(doctor, &user, "config", config_text(config, CONFIG_CONFIG));
    for (unsigned i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        reading_judge(doctor, &user, config_row(settings[i]).name,
                      config_text(config, settings[i]));
    }
}

void doctor_files(struct doctor *doctor) {
    static const enum config_setting settings[] = {CONFIG_TLS_KEY,       CONFIG_AMQP_PASSWORD,
                                                   CONFIG_AMQP_KEY,      CONFIG_ETCD_KEY,
                                                   CONFIG_ETCD_PASSWORD, CONFIG_CLUSTER_SECRET};
    const struct config *config = &doctor->config;
    const char *file = config_text(config, CONFIG_CONFIG);
    struct stat st;
    if (*file != '\0' && config->declared[CONFIG_KIND_USER].count > 0) {
        file_judge(doctor, "config", file);
    } else if (*file != '\0' && stat(file, &st) == 0 && (st.st_mode & S_IWOTH) != 0) {
        doctor_say(doctor, DOCTOR_PROBLEM, "secrets", doctor_advice("chmod o-w '%s'", file),
                   "config %s can be written by every user of this machine", file);
    }
    for (unsigned i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        const char *path = config_text(config, settings[i]);
        if (*path != '\0') {
            file_judge(doctor, config_row(settings[i]).name, path);
        }
    }
    readings_judge(doctor);
}
