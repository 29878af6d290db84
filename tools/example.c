/* From the words of an example to the fields of a request: the way back from what protocol/http.h
 * describes. */
#include "example.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define FIELDS_MAX 16u
#define WORDS_MAX 64u

struct field {
    char name[32];
    char text[128]; /* in a path or a query */
    char json[256]; /* in a body */
};

struct example {
    char words[512]; /* each followed by a NUL */
    const char *at[WORDS_MAX];
    uint32_t count, next;
    struct field fields[FIELDS_MAX];
    uint32_t field_count;
};

static void give_up(const char *why, const char *what) {
    (void)fprintf(stderr, "gen-commands: %s: %s\n", what, why);
    exit(1);
}

static void split(struct example *e, const char *text) {
    (void)snprintf(e->words, sizeof e->words, "%s", text);
    for (char *word = strtok(e->words, " "); word != NULL; word = strtok(NULL, " ")) {
        if (e->count == WORDS_MAX) {
            give_up("too many words", text);
        }
        e->at[e->count++] = word;
    }
}

static const char *take(struct example *e) {
    if (e->next == e->count) {
        give_up("a word is missing", e->at[0]);
    }
    return e->at[e->next++];
}

static bool comes(const struct example *e, const char *word) {
    return e->next < e->count && strcasecmp(e->at[e->next], word) == 0;
}

/* ---- Fields ---- */

static struct field *field_add(struct example *e, const char *name) {
    if (e->field_count == FIELDS_MAX) {
        give_up("too many fields", e->at[0]);
    }
    struct field *field = &e->fields[e->field_count++];
    size_t i = 0;
    for (; name[i] != '\0' && i + 1 < sizeof field->name; i++) {
        field->name[i] = (char)tolower((unsigned char)name[i]);
    }
    field->name[i] = '\0';
    return field;
}

static bool is_number(const char *text) {
    return text[0] != '\0' && strspn(text, "0123456789") == strlen(text);
}

/* Appends a word as JSON. */
static void json_add(struct field *field, const char *text, bool raw) {
    size_t used = strlen(field->json);
    (void)snprintf(field->json + used, sizeof field->json - used, raw ? "%s" : "\"%s\"", text);
}

static void field_word(struct example *e, const char *name, const char *text, bool raw) {
    struct field *field = field_add(e, name);
    (void)snprintf(field->text, sizeof field->text, "%s", text);
    json_add(field, text, raw);
}

/* VALUES n v... */
static void values_read(struct example *e, struct field *field) {
    long n = strtol(take(e), NULL, 10);
    json_add(field, "[", true);
    for (long i = 0; i < n; i++) {
        json_add(field, i > 0 ? "," : "", true);
        json_add(field, take(e), false);
    }
    json_add(field, "]", true);
}

static void claims_read(struct example *e) {
    struct field *field = field_add(e, "from");
    json_add(field, "[", true);
    do {
        json_add(field, field->json[1] != '\0' ? ",{\"pool\":" : "{\"pool\":", true);
        json_add(field, take(e), false);
        if (strcmp(take(e), "COUNT") == 0) {
            json_add(field, ",\"count\":", true);
            json_add(field, take(e), true);
        } else {
            json_add(field, ",\"values\":", true);
            values_read(e, field);
        }
        json_add(field, "}", true);
    } while (comes(e, "FROM") && take(e) != NULL);
    json_add(field, "]", true);
}

static void options_read(struct example *e) {
    while (e->next < e->count) {
        const char *name = take(e);
        if (strcmp(name, "SET") == 0) {
            field_word(e, name, "true", true);
        } else if (strcmp(name, "RANGE") == 0) {
            struct field *field = field_add(e, name);
            const char *lo = take(e);
            const char *hi = take(e);
            (void)snprintf(field->json, sizeof field->json,
                           is_number(lo) ? "[%s,%s]" : "[\"%s\",\"%s\"]", lo, hi);
        } else {
            const char *value = take(e);
            field_word(e, name, value, is_number(value));
        }
    }
}

static void names_read(struct example *e) {
    struct field *field = field_add(e, "names");
    json_add(field, "[", true);
    while (e->next < e->count) {
        const char *name = take(e);
        size_t used = strlen(field->text);
        (void)snprintf(field->text + used, sizeof field->text - used, "%s%s",
                       used > 0 ? "&name=" : "", name);
        json_add(field, used > 0 ? "," : "", true);
        json_add(field, name, false);
    }
    json_add(field, "]", true);
}

/* pool/value: two fields. */
static void value_read(struct example *e) {
    const char *word = take(e);
    const char *slash = strchr(word, '/');
    if (slash == NULL) {
        give_up("its example is not of its form", e->at[0]);
    }
    struct field *pool = field_add(e, "pool");
    (void)snprintf(pool->text, sizeof pool->text, "%.*s", (int)(slash - word), word);
    field_word(e, "value", slash + 1, false);
}

static void argument_read(struct example *e, const struct protocol_argument *argument) {
    bool target = argument->bind == PROTOCOL_B_TARGET;
    const char *name = argument->token != NULL ? argument->token
                       : target                ? "lease"
                                               : argument->name;
    switch (argument->bind) {
    case PROTOCOL_B_AMOUNT:
        if (comes(e, "COUNT")) {
            (void)take(e);
            field_word(e, "count", take(e), true);
        } else if (comes(e, "VALUES")) {
            (void)take(e);
            values_read(e, field_add(e, "values"));
        }
        return;
    case PROTOCOL_B_CLAIM:
        claims_read(e);
        return;
    case PROTOCOL_B_VALUE:
        value_read(e);
        return;
    case PROTOCOL_B_OPTIONS:
        options_read(e);
        return;
    case PROTOCOL_B_VALUES:
        names_read(e);
        return;
    default:
        break;
    }
    if (argument->type == PROTOCOL_T_TOKEN) {
        field_word(e, name, "true", true);
    } else {
        field_word(e, name, take(e),
                   argument->type == PROTOCOL_T_INTEGER || argument->bind == PROTOCOL_B_SPEC ||
                       argument->bind == PROTOCOL_B_META || argument->bind == PROTOCOL_B_PAYLOAD);
    }
}

static void fields_read(struct example *e, const struct protocol_command *row) {
    e->next = row->sub_len > 0 ? 2 : 1;
    for (uint32_t i = 0; i < row->form.count; i++) {
        if (row->form.arguments[i].token == NULL) {
            argument_read(e, &row->form.arguments[i]);
        }
    }
    while (e->next < e->count) {
        const char *word = take(e);
        uint32_t i = 0;
        while (i < row->form.count && (row->form.arguments[i].token == NULL ||
                                       strcasecmp(row->form.arguments[i].token, word) != 0)) {
            i++;
        }
        if (i == row->form.count) {
            give_up("its example is not of its form", row->word);
        }
        argument_read(e, &row->form.arguments[i]);
    }
}

/* ---- Writing ---- */

static void encoded_write(FILE *out, const char *text, const char *plain) {
    for (; *text != '\0'; text++) {
        if (isalnum((unsigned char)*text) || strchr(plain, *text) != NULL) {
            (void)fputc(*text, out);
        } else {
            (void)fprintf(out, "%%%02X", (unsigned char)*text);
        }
    }
}

/* The path with its fields in it; they are used up then. */
static void path_write(FILE *out, struct example *e, const char *path) {
    while (*path != '\0') {
        if (*path != '{') {
            (void)fputc(*path++, out);
            continue;
        }
        size_t len = strcspn(path, "}");
        uint32_t i = 0;
        while (i < e->field_count && (strlen(e->fields[i].name) != len - 1 ||
                                      memcmp(e->fields[i].name, path + 1, len - 1) != 0)) {
            i++;
        }
        if (i == e->field_count) {
            give_up("its example lacks something of its path", e->at[0]);
        }
        encoded_write(out, e->fields[i].text, "-_.:@");
        e->fields[i].name[0] = '\0';
        path += len + 1;
    }
}

static void query_write(FILE *out, const struct example *e) {
    char mark = '?';
    for (uint32_t i = 0; i < e->field_count; i++) {
        const struct field *field = &e->fields[i];
        if (field->name[0] != '\0') {
            bool names = strcmp(field->name, "names") == 0;
            (void)fprintf(out, "%c%s=", mark, names ? "name" : field->name);
            encoded_write(out, field->text, "-_.:@/&=");
            mark = '&';
        }
    }
}

/* Nothing if there are no fields left. */
static void body_write(FILE *out, const struct example *e) {
    bool any = false;
    for (uint32_t i = 0; i < e->field_count; i++) {
        if (e->fields[i].name[0] != '\0') {
            (void)fprintf(out, "%s\"%s\":%s", any ? "," : " --json '{", e->fields[i].name,
                          e->fields[i].json);
            any = true;
        }
    }
    (void)fputs(any ? "}'" : "", out);
}

void example_curl(FILE *out, const struct protocol_command *row) {
    struct example e = {.count = 0};
    char *url = NULL;
    size_t len = 0;
    FILE *memory = open_memstream(&url, &len);
    if (memory == NULL) {
        give_up("no memory", row->word);
    }
    bool body = strcmp(row->method, "GET") != 0 && strcmp(row->method, "DELETE") != 0;
    split(&e, row->example);
    fields_read(&e, row);
    path_write(memory, &e, row->path);
    if (!body) {
        query_write(memory, &e);
    }
    (void)fclose(memory);
    (void)fputs(protocol_command_has(row, PROTOCOL_PROGRAMS) ? "curl -u admin:SECRET" : "curl",
                out);
    if (strcmp(row->path, "/v1/events") == 0) {
        /* Else the answer is an endless stream. */
        (void)fputs(" -H 'Accept: application/json'", out);
    }
    if (strcmp(row->method, "GET") != 0) {
        (void)fprintf(out, " -X %s", row->method);
    }
    const char *quote = strchr(url, '&') != NULL || strchr(url, '?') != NULL ? "'" : "";
    (void)fprintf(out, " %slocalhost:7412%s%s", quote, url, quote);
    if (body) {
        body_write(out, &e);
    }
    free(url);
}
