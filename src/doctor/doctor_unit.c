/* The unit of systemd. Its ExecStart says with which flags the server runs on this machine; that is what
 * is examined when the user does not say otherwise. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doctor/doctor_parts.h"

/* In the order in which systemd searches. */
static const char *const places[] = {
    "/etc/systemd/system/tenured.service", "/run/systemd/system/tenured.service",
    "/usr/local/lib/systemd/system/tenured.service", "/usr/lib/systemd/system/tenured.service",
    "/lib/systemd/system/tenured.service"};

/* The value of KEY= at the beginning of a line, up to its end. NULL: none. */
static char *value_find(char *text, const char *key) {
    size_t len = strlen(key);
    for (char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, len) == 0 && line[len] == '=') {
            return line + len + 1;
        }
    }
    return NULL;
}

/* The words after the program. Only systemd knows the value of a variable. */
static void words_take(struct doctor_unit *unit, char *line) {
    char *rest = NULL;
    char *word = strtok_r(line, " \t", &rest);
    while (word != NULL && (word = strtok_r(NULL, " \t", &rest)) != NULL &&
           unit->count < (int)DOCTOR_WORDS_MAX) {
        if (word[0] != '$') {
            unit->words[unit->count++] = word;
        }
    }
}

static void unit_parse(struct doctor_unit *unit) {
    char *descriptors = value_find(unit->text, "LimitNOFILE");
    char *start = value_find(unit->text, "ExecStart");
    if (descriptors != NULL) { /* SOFT:HARD, or one number for both */
        char *hard = descriptors + strcspn(descriptors, ":\n");
        unit->descriptors = strtoull(*hard == ':' ? hard + 1 : descriptors, NULL, 10);
    }
    if (start != NULL) {
        start[strcspn(start, "\n\\")] = '\0';
        words_take(unit, start);
    }
}

void doctor_unit_find(struct doctor_unit *unit) {
    for (unsigned i = 0; i < sizeof places / sizeof places[0]; i++) {
        FILE *file = fopen(places[i], "re");
        if (file != NULL) {
            size_t len = fread(unit->text, 1, sizeof unit->text - 1, file);
            unit->text[len] = '\0';
            (void)snprintf(unit->path, sizeof unit->path, "%s", places[i]);
            (void)fclose(file);
            unit_parse(unit);
            return;
        }
    }
}

void doctor_unit(struct doctor *doctor) {
    bool systemd = access("/run/systemd/system", F_OK) == 0;
    if (doctor->unit.path[0] != '\0') {
        doctor_say(doctor, DOCTOR_OK, "unit", NULL, "%s", doctor->unit.path);
    } else if (systemd) {
        doctor_say(
            doctor, DOCTOR_WARNING, "unit",
            "install the package, or packaging/tenured.service, then: systemctl enable --now "
            "tenured",
            "there is no tenured.service: nothing starts the server after a reboot");
    } else {
        doctor_say(doctor, DOCTOR_OK, "unit", NULL,
                   "systemd does not run here: something else must start the server");
    }
}
