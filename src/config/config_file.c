/* The configuration file: INI, read by libinih.
 *
 * The library calls us for each key = value, but reports neither the line nor an empty section, cuts
 * names of sections at 50 bytes and reports only one malformed line. We hand it the lines, so we know
 * the line, read the sections' names ourselves, and see when a line came to nothing. Blanks before a
 * line are taken away: an indented key is a key, not more of the value before it.
 *
 * Its own buffer holds lines of 197 bytes; Debian's library can be told to take another one, and is told
 * one for a line as long as a file may be. */
#include <ini.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "config/config.h"

#define LINE_ROOM ((int)CONFIG_FILE_MAX + 3) /* plus the end of the line, and a NUL */

#define NO_MEMORY (-2) /* the library's code for that */

enum section_kind { SECTION_NONE, SECTION_SETTINGS, SECTION_DECLARED, SECTION_WRONG };

struct file {
    struct config *config;
    const char *path;
    const char *at, *end; /* what has not been read */
    uint32_t line;
    bool is_entry; /* the line should be a key and a value */
    bool heard;    /* and it was */
    enum section_kind kind;
    char section[CONFIG_NAME_MAX];
    enum config_kind declared; /* the kind, in a section such as [pool NAME] */
    struct config_head *head;
};

static const char *where(const struct file *file, char out[CONFIG_REASON_MAX]) {
    (void)snprintf(out, CONFIG_REASON_MAX, "%s:%u", file->path, file->line);
    return out;
}

#define WRONG(file, ...) \
    config_wrong((file)->config, where(file, (char[CONFIG_REASON_MAX]){0}), __VA_ARGS__)

/* ---- Sections ---- */

static bool section_is_known(const char *section) {
    for (unsigned i = 0; i < CONFIG_COUNT; i++) {
        if (*section != '\0' && strcmp(config_row(i).section, section) == 0) {
            return true;
        }
    }
    return false;
}

static void declared_begin(struct file *file, struct tn_bytes name) {
    char reason[CONFIG_REASON_MAX];
    while (name.len > 0 && (name.at[0] == ' ' || name.at[0] == '\t')) {
        name = tn_bytes_of(name.at + 1, name.len - 1);
    }
    while (name.len > 0 && (name.at[name.len - 1] == ' ' || name.at[name.len - 1] == '\t')) {
        name.len--;
    }
    file->head = config_declare(file->config, file->declared, name, file->line, reason);
    if (file->head != NULL) {
        file->kind = SECTION_DECLARED;
    } else {
        WRONG(file, "%s", reason);
    }
}

/* `text` is what follows the bracket. */
static void section_begin(struct file *file, const char *text) {
    size_t len = strcspn(text, "]");
    file->kind = SECTION_WRONG;
    if (text[len] != ']') {
        WRONG(file, "the ] of the section is missing");
        return;
    }
    size_t word = strcspn(text, " \t]");
    file->declared = config_kind_find(text, word);
    if (file->declared != CONFIG_KINDS) {
        declared_begin(file, tn_bytes_of(text + word, len - word));
        return;
    }
    (void)snprintf(file->section, sizeof file->section, "%.*s", (int)len, text);
    if (section_is_known(file->section)) {
        file->kind = SECTION_SETTINGS;
    } else {
        WRONG(file,
              "unknown section [%s]; known: server, udp, engine, tokens, amqp, sensors, limits, "
              "pool NAME, sensor REF, rule ID, user NAME",
              file->section);
    }
}

/* ---- Lines ---- */

/* The previous line should have been a key and a value, but was not. */
static void line_judge(struct file *file) {
    if (file->is_entry && !file->heard) {
        WRONG(file, "neither a [section] nor key = value");
    }
    file->is_entry = file->heard = false;
}

/* Called by libinih for a line, in place of fgets. */
static char *line_next(char *out, int room, void *stream) {
    struct file *file = stream;
    line_judge(file);
    if (file->at == file->end) {
        return NULL;
    }
    const char *newline = memchr(file->at, '\n', (size_t)(file->end - file->at));
    const char *stop = newline != NULL ? newline : file->end;
    const char *at = file->at;
    file->at = newline != NULL ? newline + 1 : file->end;
    file->line++;
    if (file->line == 1 && stop - at >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0) {
        at += 3; /* a byte order mark */
    }
    while (at < stop && (*at == ' ' || *at == '\t')) {
        at++;
    }
    size_t len = (size_t)(stop - at);
    TN_ASSERT(room == LINE_ROOM && len < LINE_ROOM);
    out[0] = '\0';
    if (memchr(at, '\0', len) != NULL) {
        WRONG(file, "the line contains a NUL byte");
        return out;
    }
    memcpy(out, at, len);
    out[len] = '\0';
    if (out[0] == '[') {
        section_begin(file, out + 1);
    } else {
        file->is_entry = strchr(";#\r", out[0]) == NULL; /* the end of the text counts as one */
    }
    return out;
}

static void setting_take(struct file *file, const char *name, const char *value) {
    unsigned setting = config_find(name);
    struct config *config = file->config;
    if (setting == CONFIG_COUNT || *config_row(setting).section == '\0') {
        WRONG(file, "unknown setting '%.60s'", name);
    } else if (strcmp(config_row(setting).section, file->section) != 0) {
        WRONG(file, "%s belongs in section [%s]", name, config_row(setting).section);
    } else if (config->values[setting].source == CONFIG_FROM_FILE) {
        WRONG(file, "%s is already in line %u", name, config->values[setting].line);
    } else {
        char place[CONFIG_REASON_MAX + CONFIG_NAME_MAX];
        (void)snprintf(place, sizeof place, "%s:%u: %s", file->path, file->line, name);
        config_set(config, setting, value, CONFIG_FROM_FILE, file->line, place);
    }
}

/* Called by libinih for a key and its value. It always reports success, because errors are
 * collected here. */
static int entry_take(void *user, const char *section, const char *name, const char *value) {
    struct file *file = user;
    char reason[CONFIG_REASON_MAX];
    (void)section;
    file->heard = true;
    switch (file->kind) {
    case SECTION_NONE:
        WRONG(file, "'%.60s' comes before any [section]", name);
        break;
    case SECTION_SETTINGS:
        setting_take(file, name, value);
        break;
    case SECTION_DECLARED:
        if (!config_declared_set(file->head, file->declared, name, value, reason)) {
            WRONG(file, "%s", reason);
        }
        break;
    case SECTION_WRONG:
        break; /* already reported */
    }
    return 1;
}

/* ---- The file ---- */

static enum tn_status whole_read(const struct os *os, const char *path, char *out, size_t room,
                                 size_t *ret_len) {
    int handle;
    enum tn_status status = os->open(os->ctx, path, OS_READ, &handle);
    if (status == TN_OK) {
        status = os->read_at(os->ctx, handle, out, room, 0, ret_len);
        (void)os->close(os->ctx, handle);
    }
    return status;
}

void config_file_read(struct config *config, const struct os *os, const char *path) {
    size_t len = 0;
    char *text = malloc(CONFIG_FILE_MAX + 1);
    enum tn_status status =
        text == NULL ? TN_NOMEM : whole_read(os, path, text, CONFIG_FILE_MAX + 1, &len);
    if (status != TN_OK) {
        config_wrong(config, path, "%s",
                     status == TN_INVALID ? "not a readable file" : tn_status_text(status));
    } else if (len > CONFIG_FILE_MAX) {
        config_wrong(config, path, "larger than %u bytes", CONFIG_FILE_MAX);
    } else {
        struct file file = {.config = config, .path = path, .at = text, .end = text + len};
        ini_use_stack = false;
        ini_initial_alloc = ini_max_line = LINE_ROOM;
        if (ini_parse_stream(line_next, &file, entry_take, &file) == NO_MEMORY) {
            config_wrong(config, path, "%s", tn_status_text(TN_NOMEM));
        }
    }
    free(text);
}
