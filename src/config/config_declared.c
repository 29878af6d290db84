/* What the file declares in sections of their own: one list a kind, names once each. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "config/config.h"
#include "protocol/text.h"

#define WORDS_BLANK " \t"

static bool pool_name_valid(struct tn_bytes name) {
    return name.len <= KERNEL_RULE_MAX && kernel_name_pool_valid(name, true);
}

static bool rule_name_valid(struct tn_bytes name) {
    return protocol_name_fault(name, KERNEL_RULE_MAX) == NULL;
}

static bool user_name_valid(struct tn_bytes name) {
    return name.len <= KERNEL_USER_MAX && protocol_name_fault(name, KERNEL_USER_MAX) == NULL &&
           memchr(name.at, ':', name.len) == NULL;
}

static const struct {
    const char *word;
    size_t size;
    bool (*valid)(struct tn_bytes name);
    const char *form;
} kinds[CONFIG_KINDS] = {
    [CONFIG_KIND_POOL] = {"pool", sizeof(struct config_pool), pool_name_valid,
                          "1 to 64 of A-Z a-z 0-9 . _ : -, then @ and the same for a scope"},
    [CONFIG_KIND_SENSOR] = {"sensor", sizeof(struct config_sensor), kernel_name_resource_valid,
                            "1 to 64 printable characters, no /"},
    [CONFIG_KIND_RULE] = {"rule", sizeof(struct config_rule), rule_name_valid,
                          "1 to 128 bytes of text"},
    [CONFIG_KIND_USER] = {"user", sizeof(struct config_user), user_name_valid,
                          "1 to 64 bytes of text, no :"},
};

bool config_refuse(char reason[CONFIG_REASON_MAX], const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(reason, CONFIG_REASON_MAX, format, arguments);
    va_end(arguments);
    return false;
}

void config_words_print(const char *key, const char *words, FILE *out) {
    bool first = true;
    for (const char *at = words + strspn(words, WORDS_BLANK); *at != '\0';) {
        size_t len = strcspn(at, WORDS_BLANK);
        bool like_comment = *at == ';';
        if (first || like_comment) {
            (void)fprintf(out, "%s%s =%s", first ? "" : "\n", key, like_comment ? "" : " ");
        } else {
            (void)fputc(' ', out);
        }
        (void)fprintf(out, "%.*s", (int)len, at);
        first = false;
        at += len + strspn(at + len, WORDS_BLANK);
    }
    (void)fputs(first ? "" : "\n", out);
}

enum config_kind config_kind_find(const char *word, size_t len) {
    unsigned kind = 0;
    while (kind < CONFIG_KINDS &&
           (strlen(kinds[kind].word) != len || strncmp(kinds[kind].word, word, len) != 0)) {
        kind++;
    }
    return (enum config_kind)kind;
}

static struct config_head *head_at(const struct config *config, enum config_kind kind, uint32_t i) {
    return (struct config_head *)((char *)config->declared[kind].items + i * kinds[kind].size);
}

/* Makes room for one more. The list doubles when it is full. */
static bool list_grow(struct config_list *list, size_t size) {
    bool full = list->count == 0 || (list->count >= 16 && (list->count & (list->count - 1)) == 0);
    if (full) {
        void *more = realloc(list->items, (list->count == 0 ? 16 : 2 * list->count) * size);
        if (more == NULL) {
            return false;
        }
        list->items = more;
    }
    return true;
}

struct config_head *config_declare(struct config *config, enum config_kind kind,
                                   struct tn_bytes name, uint32_t line,
                                   char reason[CONFIG_REASON_MAX]) {
    struct config_list *list = &config->declared[kind];
    const char *word = kinds[kind].word;
    if (!kinds[kind].valid(name)) {
        (void)config_refuse(reason, "'%.*s' is not a %s name: %s",
                            name.len < 80 ? (int)name.len : 80, (const char *)name.at, word,
                            kinds[kind].form);
        return NULL;
    }
    for (uint32_t i = 0; i < list->count; i++) {
        const struct config_head *other = head_at(config, kind, i);
        if (strlen(other->name) == name.len && memcmp(other->name, name.at, name.len) == 0) {
            (void)config_refuse(reason, "%s %s is already in line %u", word, other->name,
                                other->line);
            return NULL;
        }
    }
    if (list->count == CONFIG_DECLARED_MAX) {
        (void)config_refuse(reason, "more than %u %ss", CONFIG_DECLARED_MAX, word);
        return NULL;
    }
    if (!list_grow(list, kinds[kind].size)) {
        (void)config_refuse(reason, "no memory");
        return NULL;
    }
    struct config_head *head = head_at(config, kind, list->count++);
    memset(head, 0, kinds[kind].size);
    TN_ASSERT(name.len < sizeof head->name);
    memcpy(head->name, name.at, name.len);
    head->line = line;
    return head;
}

bool config_declared_set(struct config_head *head, enum config_kind kind, const char *key,
                         const char *text, char reason[CONFIG_REASON_MAX]) {
    switch (kind) {
    case CONFIG_KIND_POOL:
        return config_pool_set((struct config_pool *)head, key, text, reason);
    case CONFIG_KIND_SENSOR:
        return config_sensor_set((struct config_sensor *)head, key, text, reason);
    case CONFIG_KIND_USER:
        return config_user_set((struct config_user *)head, key, text, reason);
    default:
        TN_ASSERT(kind == CONFIG_KIND_RULE);
        return config_rule_set((struct config_rule *)head, key, text, reason);
    }
}

static bool one_check(const struct config *config, const struct config_head *head,
                      enum config_kind kind, char reason[CONFIG_REASON_MAX]) {
    switch (kind) {
    case CONFIG_KIND_POOL:
        return config_pool_check(config, (const struct config_pool *)head, reason);
    case CONFIG_KIND_SENSOR:
        return config_sensor_check(config, (const struct config_sensor *)head, reason);
    case CONFIG_KIND_USER:
        return config_user_check((const struct config_user *)head, reason);
    default:
        TN_ASSERT(kind == CONFIG_KIND_RULE);
        return config_rule_check((const struct config_rule *)head, reason);
    }
}

void config_declared_check(struct config *config) {
    for (unsigned kind = 0; kind < CONFIG_KINDS; kind++) {
        for (uint32_t i = 0; i < config->declared[kind].count; i++) {
            const struct config_head *head = head_at(config, (enum config_kind)kind, i);
            char reason[CONFIG_REASON_MAX];
            char where[CONFIG_REASON_MAX];
            if (!one_check(config, head, (enum config_kind)kind, reason)) {
                (void)snprintf(where, sizeof where, "%s:%u", config_text(config, CONFIG_CONFIG),
                               head->line);
                config_wrong(config, where, "%s %s: %s", kinds[kind].word, head->name, reason);
            }
        }
    }
}

void config_declared_print(const struct config *config, FILE *out) {
    for (uint32_t i = 0; i < config->declared[CONFIG_KIND_POOL].count; i++) {
        config_pool_print(config_pool_at(config, i), out);
    }
    for (uint32_t i = 0; i < config->declared[CONFIG_KIND_SENSOR].count; i++) {
        config_sensor_print(config_sensor_at(config, i), out);
    }
    for (uint32_t i = 0; i < config->declared[CONFIG_KIND_RULE].count; i++) {
        config_rule_print(config_rule_at(config, i), out);
    }
    for (uint32_t i = 0; i < config->declared[CONFIG_KIND_USER].count; i++) {
        config_user_print(config_user_at(config, i), out);
    }
}

void config_declared_free(struct config *config) {
    for (uint32_t i = 0; i < config->declared[CONFIG_KIND_POOL].count; i++) {
        free(config_pool_at(config, i)->names);
    }
    for (uint32_t i = 0; i < config->declared[CONFIG_KIND_SENSOR].count; i++) {
        config_sensor_free(config_sensor_at(config, i));
    }
    for (uint32_t i = 0; i < config->declared[CONFIG_KIND_RULE].count; i++) {
        config_rule_free(config_rule_at(config, i));
    }
    for (uint32_t i = 0; i < config->declared[CONFIG_KIND_USER].count; i++) {
        config_user_free(config_user_at(config, i));
    }
    for (unsigned kind = 0; kind < CONFIG_KINDS; kind++) {
        free(config->declared[kind].items);
    }
}
