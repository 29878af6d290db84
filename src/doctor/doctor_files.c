/* Permissions of files with secrets: the configuration, which has hashes of users' secrets, and the files
 * that it names. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

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
}
