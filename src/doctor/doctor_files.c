/* Permissions of files with secrets: the configuration, which has hashes of users' secrets, and the files
 * that it names. Others may not read them, and the server's user must. */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
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

/* As the user: whether access() permits to read the file. */
static _Noreturn void read_try(const struct passwd *user, const char *path) {
    if (initgroups(user->pw_name, user->pw_gid) != 0 || setgid(user->pw_gid) != 0 ||
        setuid(user->pw_uid) != 0) {
        _exit(0); /* nothing is known */
    }
    _exit(access(path, R_OK) != 0 && errno == EACCES);
}

/* Root can read every file, so another process asks with the rights of the user. */
static bool user_is_refused(const struct passwd *user, const char *path) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        read_try(user, path);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 1;
}

static void reading_judge(struct doctor *doctor, const struct passwd *user, const char *what,
                          const char *path) {
    if (*path != '\0' && user_is_refused(user, path)) {
        const struct group *group = getgrgid(user->pw_gid);
        doctor_say(doctor, DOCTOR_PROBLEM, "secrets",
                   doctor_advice("chgrp %s '%s'; chmod g+r '%s'; and let this user enter the "
                                 "directories above",
                                 group != NULL ? group->gr_name : user->pw_name, path, path),
                   "%s %s cannot be read by %s, the user of the server", what, path, user->pw_name);
    }
}

/* The data directory belongs to the server's user. */
static void readings_judge(struct doctor *doctor) {
    static const enum config_setting settings[] = {
        CONFIG_TLS_CERT,  CONFIG_TLS_KEY,  CONFIG_TLS_CA,        CONFIG_AMQP_CA,
        CONFIG_AMQP_CERT, CONFIG_AMQP_KEY, CONFIG_AMQP_PASSWORD, CONFIG_ETCD_CA,
        CONFIG_ETCD_CERT, CONFIG_ETCD_KEY, CONFIG_ETCD_PASSWORD, CONFIG_CLUSTER_SECRET};
    const struct config *config = &doctor->config;
    struct stat st;
    if (geteuid() != 0 || stat(config_text(config, CONFIG_DATA), &st) != 0 || st.st_uid == 0) {
        return;
    }
    const struct passwd *user = getpwuid(st.st_uid);
    if (user == NULL) {
        return;
    }
    reading_judge(doctor, user, "config", config_text(config, CONFIG_CONFIG));
    for (unsigned i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        reading_judge(doctor, user, config_row(settings[i]).name, config_text(config, settings[i]));
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
