/* The unit of systemd and its drop-ins. ExecStart says with which flags the server runs on this machine; that is
 * what is examined when the user does not say otherwise. The rest says as which user and with which limits. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doctor/doctor_parts.h"

#define UNIT_NAME "tenured.service"
#define PLACES_MAX 16u
#define DROP_INS_MAX 64u

/* ---- Where units are ---- */

struct places {
    char text[DOCTOR_PATH_MAX];
    char *at[PLACES_MAX]; /* directories, in the order in which systemd searches */
    unsigned count;
};

/* SYSTEMD_UNIT_PATH is systemd's own: directories to search, followed by the usual ones if it ends with a
 * colon. */
static void places_find(struct places *places) {
    static const char usual[] = "/etc/systemd/system:/run/systemd/system:"
                                "/usr/local/lib/systemd/system:/usr/lib/systemd/system:"
                                "/lib/systemd/system";
    const char *own = getenv("SYSTEMD_UNIT_PATH");
    char *rest = NULL;
    own = own != NULL ? own : "";
    size_t len = strlen(own);
    (void)snprintf(places->text, sizeof places->text, "%s%s", own,
                   len == 0 || own[len - 1] == ':' ? usual : "");
    places->count = 0;
    for (char *at = strtok_r(places->text, ":", &rest); at != NULL && places->count < PLACES_MAX;
         at = strtok_r(NULL, ":", &rest)) {
        places->at[places->count++] = at;
    }
}

/* ---- Settings ---- */

/* The words after the program. Only systemd knows the value of a variable. */
static void start_take(struct doctor_unit *unit, char *value) {
    char *rest = NULL;
    char *word = strtok_r(value, " \t", &rest);
    unit->count = 0;
    while (word != NULL && (word = strtok_r(NULL, " \t", &rest)) != NULL &&
           unit->count < (int)DOCTOR_WORDS_MAX) {
        if (word[0] != '$') {
            unit->words[unit->count++] = word;
        }
    }
}

/* A list: each line adds to it, an empty one clears it. */
static void groups_take(struct doctor_unit *unit, char *value) {
    char *rest = NULL;
    char *word = strtok_r(value, " \t", &rest);
    unit->group_count = word == NULL ? 0 : unit->group_count;
    for (; word != NULL && unit->group_count < DOCTOR_GROUPS_MAX;
         word = strtok_r(NULL, " \t", &rest)) {
        unit->groups[unit->group_count++] = word;
    }
}

static void setting_take(struct doctor_unit *unit, const char *key, char *value) {
    if (strcmp(key, "ExecStart") == 0) {
        start_take(unit, value);
    } else if (strcmp(key, "LimitNOFILE") == 0) { /* SOFT:HARD, or one number for both */
        const char *hard = strchr(value, ':');
        unit->descriptors = strtoull(hard != NULL ? hard + 1 : value, NULL, 10);
    } else if (strcmp(key, "User") == 0) {
        unit->user = value;
    } else if (strcmp(key, "Group") == 0) {
        unit->group = value;
    } else if (strcmp(key, "SupplementaryGroups") == 0) {
        groups_take(unit, value);
    } else if (strcmp(key, "DynamicUser") == 0) {
        unit->dynamic_user = value[0] != '\0' && strchr("1yYtT", value[0]) != NULL;
    }
}

static char *trim(char *text) {
    text += strspn(text, " \t");
    size_t len = strlen(text);
    while (len > 0 && strchr(" \t", text[len - 1]) != NULL) {
        len--;
    }
    text[len] = '\0';
    return text;
}

/* A comment ends with its line, also behind a line that goes on, which goes on after it. */
static void comments_remove(char *text) {
    for (char *at = text; *at != '\0';) {
        char *first = at + strspn(at, " \t");
        char *end = strchrnul(at, '\n');
        if (*first == '#' || *first == ';') {
            memmove(at, *end == '\0' ? end : end + 1, strlen(*end == '\0' ? end : end + 1) + 1);
        } else {
            at = *end == '\0' ? end : end + 1;
        }
    }
}

/* All settings that are looked for are in the section [Service]; no other one has their names. */
static void lines_take(struct doctor_unit *unit, char *text) {
    char *rest = NULL;
    comments_remove(text);
    for (char *at = text; (at = strstr(at, "\\\n")) != NULL;) { /* the line goes on */
        memset(at, ' ', 2);
    }
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        line = trim(line);
        char *equal = strchr(line, '=');
        if (equal != NULL) {
            *equal = '\0';
            setting_take(unit, trim(line), trim(equal + 1));
        }
    }
}

/* False: there is no such file, or no room for it. */
static bool file_take(struct doctor_unit *unit, const char *dir, const char *name) {
    char path[DOCTOR_PATH_MAX];
    FILE *file = snprintf(path, sizeof path, "%s/%s", dir, name) < (int)sizeof path
                     ? fopen(path, "re")
                     : NULL;
    if (file == NULL) {
        return false;
    }
    size_t room = sizeof unit->text - unit->len - 1;
    char *text = unit->text + unit->len;
    size_t len = fread(text, 1, room, file);
    text[len] = '\0';
    unit->len += len < room ? len + 1 : len;
    (void)fclose(file);
    lines_take(unit, text);
    return true;
}

/* ---- Drop-ins ---- */

struct drop_ins {
    struct drop_in {
        char name[256];
        const char *place;
    } at[DROP_INS_MAX];
    unsigned count;
    const char *place;
};

static void drop_in_add(void *ctx, const char *name) {
    struct drop_ins *found = ctx;
    size_t len = strlen(name);
    if (len < 6 || len >= sizeof found->at[0].name || strcmp(name + len - 5, ".conf") != 0 ||
        found->count == DROP_INS_MAX) {
        return;
    }
    for (unsigned i = 0; i < found->count; i++) {
        if (strcmp(found->at[i].name, name) == 0) {
            return; /* one of an earlier place replaces it */
        }
    }
    memcpy(found->at[found->count].name, name, len + 1);
    found->at[found->count++].place = found->place;
}

static int name_compare(const void *a, const void *b) {
    return strcmp(((const struct drop_in *)a)->name, ((const struct drop_in *)b)->name);
}

static void drop_ins_take(struct doctor_unit *unit, const struct os *os,
                          const struct places *places) {
    static struct drop_ins found;
    char dir[DOCTOR_PATH_MAX];
    found.count = 0;
    for (unsigned i = 0; i < places->count; i++) {
        found.place = places->at[i];
        if (snprintf(dir, sizeof dir, "%s/" UNIT_NAME ".d", found.place) < (int)sizeof dir) {
            (void)os->list(os->ctx, dir, drop_in_add, &found);
        }
    }
    qsort(found.at, found.count, sizeof found.at[0], name_compare);
    for (unsigned i = 0; i < found.count; i++) {
        (void)snprintf(dir, sizeof dir, "%s/" UNIT_NAME ".d", found.at[i].place);
        (void)file_take(unit, dir, found.at[i].name);
    }
}

void doctor_unit_find(struct doctor_unit *unit, const struct os *os) {
    static struct places places;
    places_find(&places);
    for (unsigned i = 0; i < places.count; i++) {
        if (file_take(unit, places.at[i], UNIT_NAME)) {
            (void)snprintf(unit->path, sizeof unit->path, "%s/" UNIT_NAME, places.at[i]);
            drop_ins_take(unit, os, &places);
            return;
        }
    }
}

/* ---- What it says ---- */

/* Whether the unit has this option, followed by this value. */
static bool unit_has(const struct doctor_unit *unit, const char *option, const char *value) {
    for (int i = 0; i + 1 < unit->count; i++) {
        if (strcmp(unit->words[i], option) == 0 && strcmp(unit->words[i + 1], value) == 0) {
            return *value != '\0';
        }
    }
    return false;
}

bool doctor_unit_is_meant(const struct doctor *doctor) {
    const struct doctor_unit *unit = &doctor->unit;
    return unit->path[0] != '\0' &&
           (!doctor->named || unit_has(unit, "--data", config_text(&doctor->config, CONFIG_DATA)) ||
            unit_has(unit, "--config", config_text(&doctor->config, CONFIG_CONFIG)));
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
