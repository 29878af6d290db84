/* Variables. */
#include "cli/run_environment.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "cli/display.h"

#define NAME_BYTES (sizeof "TENURE_" + KERNEL_POOL_MAX)

/* Here, for a client that the command starts, or for a server. */
static bool name_is_taken(const struct cli_settings *settings, const char *name) {
    static const char *const taken[] = {"TENURE_LEASE", "TENURE_EPOCH",  "TENURE_VALUES",
                                        "TENURE_TOKEN", "TENURE_RUN_ID", "TENURE_INSECURE"};
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        if (strcmp(name, taken[i]) == 0) {
            return true;
        }
    }
    return cli_settings_variable(name) ||
           (settings->is_server_variable != NULL && settings->is_server_variable(name));
}

static void pool_name(const char *pool, char out[NAME_BYTES]) {
    size_t len = sizeof "TENURE_" - 1;
    memcpy(out, "TENURE_", len);
    for (const char *at = pool; *at != '\0'; at++) {
        unsigned char c = (unsigned char)*at;
        out[len++] = (char)(isalnum(c) ? toupper(c) : '_');
    }
    out[len] = '\0';
}

/* A growing block of texts and how many there are. */
struct texts {
    struct cli_text text;
    uint32_t count;
};

static void text_end(struct texts *texts) {
    cli_text_add(&texts->text, "", 1);
    texts->count++;
}

static void text_put(struct texts *texts, const char *name, const char *value) {
    cli_text_printf(&texts->text, "%s=%s", name, value);
    text_end(texts);
}

static void values_put(struct texts *texts, const struct cli_run_lease *lease) {
    cli_text_put(&texts->text, "TENURE_VALUES=");
    for (uint32_t i = 0; i < lease->value_count; i++) {
        cli_text_printf(&texts->text, "%s%s/%s", i > 0 ? " " : "", lease->pools[i],
                        lease->values[i]);
    }
    text_end(texts);
}

/* The variable of the pool of value `first`, unless an earlier value has the same. */
static void pool_put(struct texts *texts, const struct cli_run_lease *lease, uint32_t first) {
    char name[NAME_BYTES];
    char other[NAME_BYTES];
    pool_name(lease->pools[first], name);
    for (uint32_t i = 0; i < first; i++) {
        pool_name(lease->pools[i], other);
        if (strcmp(name, other) == 0) {
            return;
        }
    }
    if (name_is_taken(lease->settings, name)) {
        return;
    }
    cli_text_printf(&texts->text, "%s=%s", name, lease->values[first]);
    for (uint32_t i = first + 1; i < lease->value_count; i++) {
        pool_name(lease->pools[i], other);
        if (strcmp(name, other) == 0) {
            cli_text_printf(&texts->text, " %s", lease->values[i]);
        }
    }
    text_end(texts);
}

/* The secret with which `tenure` logs in, and another lease's token, are not the command's. */
static bool is_withheld(const char *variable, size_t len) {
    static const char *const names[] = {"TENURE_SECRET=", "TENURE_SECRET_FILE=", "TENURE_TOKEN="};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strncmp(variable, names[i], len) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether one of the new texts has the name of this variable, or the command must not get it. */
static bool is_replaced(const struct texts *texts, const char *variable) {
    size_t len = strcspn(variable, "=") + 1;
    const char *at = texts->text.at;
    for (uint32_t i = 0; i < texts->count; i++) {
        if (strncmp(at, variable, len) == 0) {
            return true;
        }
        at += strlen(at) + 1;
    }
    return is_withheld(variable, len);
}

char **cli_run_environment_make(const struct cli_run_lease *lease, const char *token, char **from) {
    struct texts texts = {.text = {.at = NULL}};
    uint32_t inherited = 0;
    text_put(&texts, "TENURE_LEASE", lease->id);
    text_put(&texts, "TENURE_EPOCH", lease->epoch);
    values_put(&texts, lease);
    for (uint32_t i = 0; i < lease->value_count; i++) {
        pool_put(&texts, lease, i);
    }
    if (token[0] != '\0') {
        text_put(&texts, "TENURE_TOKEN", token);
    }
    while (from[inherited] != NULL) {
        inherited++;
    }
    size_t table = (inherited + texts.count + 1) * sizeof(char *);
    char **out = texts.text.failed ? NULL : malloc(table + texts.text.len);
    if (out != NULL) {
        char *at = (char *)out + table;
        uint32_t count = 0;
        memcpy(at, texts.text.at, texts.text.len);
        for (uint32_t i = 0; i < texts.count; i++) {
            out[count++] = at;
            at += strlen(at) + 1;
        }
        for (uint32_t i = 0; i < inherited; i++) {
            if (!is_replaced(&texts, from[i])) {
                out[count++] = from[i];
            }
        }
        out[count] = NULL;
    }
    cli_text_free(&texts.text);
    return out;
}
