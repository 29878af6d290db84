/* Declared pools: the keys of a section [pool NAME]. They are the options of POOL CREATE, which one
 * table of the protocol reads; only what has several words is taken apart here. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"

#define WORDS_BLANK " \t"

/* Refuses a repeated option, including one under another name: lease and base_lease_seconds. */
static bool option_set(struct config_pool *pool, const char *key, const char *text,
                       char reason[CONFIG_REASON_MAX]) {
    struct kernel_policy_patch before = pool->patch;
    pool->patch.mask = 0;
    bool good = kernel_option_set(key, text, &pool->patch, reason);
    uint32_t set = pool->patch.mask;
    if (!good || (set & before.mask) != 0) {
        pool->patch = before;
        return good ? config_refuse(reason, "pool %s: %s is set twice", pool->head.name, key)
                    : false;
    }
    pool->patch.mask |= before.mask;
    return true;
}

/* Parses LO HI, or spans separated by commas or blanks. The key may be repeated. */
static bool range_add(struct config_pool *pool, const char *text, char reason[CONFIG_REASON_MAX]) {
    char span[KERNEL_OPTION_TEXT_MAX];
    size_t len = 0;
    bool whole = kernel_range_is_whole(tn_bytes_of(text, strlen(text)));
    uint32_t words = 0;
    for (const char *at = text; *at != '\0' && len < sizeof span; words++) {
        size_t word = strcspn(at, WORDS_BLANK ",");
        len += (size_t)snprintf(span + len, sizeof span - len, "%s%.*s",
                                words == 0 ? "" : (whole ? "," : "-"), (int)word, at);
        at += word + strspn(at + word, WORDS_BLANK ",");
    }
    if (!whole && words != 2) {
        return config_refuse(reason, "range = LO HI, LO-HI or ADDRESS/BITS, such as 30000 30009");
    }
    if ((pool->patch.mask >> KERNEL_OPTION_LO & 3) != 0 ||
        (!pool->patch.has_spans && (pool->patch.mask >> KERNEL_OPTION_KIND & 1) != 0)) {
        return config_refuse(reason, "pool %s: range is set twice", pool->head.name);
    }
    return kernel_range_add(span, &pool->patch, reason);
}

/* Parses spans separated by commas or blanks. The key may be repeated. */
static bool exclude_add(struct config_pool *pool, const char *text,
                        char reason[CONFIG_REASON_MAX]) {
    size_t len = strlen(pool->exclude);
    for (const char *at = text; *at != '\0';) {
        size_t word = strcspn(at, WORDS_BLANK ",");
        if (len + word + 2 > sizeof pool->exclude) {
            return config_refuse(reason, "exclude: too many spans");
        }
        if (word > 0) {
            if (len > 0) {
                pool->exclude[len++] = ',';
            }
            memcpy(pool->exclude + len, at, word);
            len += word;
            pool->exclude[len] = '\0';
        }
        at += word + strspn(at + word, WORDS_BLANK ",");
    }
    return kernel_option_set("exclude", pool->exclude, &pool->patch, reason);
}

static bool names_add(struct config_pool *pool, const char *text, char reason[CONFIG_REASON_MAX]) {
    size_t old = pool->names == NULL ? 0 : strlen(pool->names);
    char *names = realloc(pool->names, old + strlen(text) + 2);
    if (names == NULL) {
        return config_refuse(reason, "no memory");
    }
    pool->names = names;
    size_t len = old;
    names[len] = '\0';
    for (const char *at = text; *at != '\0';) {
        size_t word = strcspn(at, WORDS_BLANK);
        if (!kernel_name_resource_valid(tn_bytes_of(at, word))) {
            return config_refuse(
                reason, "'%.*s' is not a resource name: 1 to 64 printable characters, no /",
                word < 80 ? (int)word : 80, at);
        }
        memcpy(names + len, at, word);
        len += word;
        names[len++] = ' ';
        names[len] = '\0';
        at += word + strspn(at + word, WORDS_BLANK);
    }
    return true;
}

bool config_pool_set(struct config_pool *pool, const char *key, const char *text,
                     char reason[CONFIG_REASON_MAX]) {
    char value[KERNEL_OPTION_TEXT_MAX];
    if (strcmp(key, "names") == 0) {
        return names_add(pool, text, reason);
    }
    if (strlen(text) >= sizeof value) {
        return config_refuse(reason, "%.60s: it is longer than %zu bytes", key, sizeof value - 1);
    }
    (void)snprintf(value, sizeof value, "%s", text);
    for (char *at = value; *at != '\0'; at++) {
        *at = (char)tolower((unsigned char)*at);
    }
    if (strcmp(key, "range") == 0) {
        return range_add(pool, value, reason);
    }
    if (strcmp(key, "exclude") == 0) {
        return exclude_add(pool, value, reason);
    }
    if (strcmp(key, "set") == 0) {
        return strcmp(value, "yes") == 0 ? option_set(pool, "kind", "set", reason)
                                         : config_refuse(reason, "set = yes, or range = LO HI");
    }
    if (strcmp(key, "internal") == 0) {
        return config_refuse(reason, "unknown option 'internal'");
    }
    return option_set(pool, key, value, reason);
}

/* The policy that the file gives the pool. False: it is a scope of a template that the file does
 * not declare, so only the kernel knows. */
static bool policy_of(const struct config *config, const struct config_pool *pool,
                      struct kernel_policy *ret_policy) {
    size_t base = strcspn(pool->head.name, "@");
    if (pool->head.name[base] == '\0') {
        *ret_policy = kernel_policy_new(&pool->patch);
        return true;
    }
    for (uint32_t i = 0; i < config->declared[CONFIG_KIND_POOL].count; i++) {
        const struct config_pool *template = config_pool_at(config, i);
        if (strlen(template->head.name) == base &&
            memcmp(template->head.name, pool->head.name, base) == 0) {
            *ret_policy = kernel_policy_new(&template->patch);
            kernel_policy_apply(ret_policy, &pool->patch);
            return true;
        }
    }
    return false;
}

bool config_pool_check(const struct config *config, const struct config_pool *pool,
                       char reason[CONFIG_REASON_MAX]) {
    struct kernel_policy policy;
    if (!policy_of(config, pool, &policy)) {
        return pool->names == NULL || config_refuse(reason, "names are for a set (set = yes)");
    }
    const struct config_value *window =
        &config->values[CONFIG_OWN_COUNT + (unsigned)KERNEL_LIMIT_RATE_WINDOW];
    /* Without the setting, the logged limit applies, which only the kernel knows. */
    uint64_t rate_window_max = window->text != NULL ? window->number : UINT64_MAX;
    struct kernel_policy_patch patch = pool->patch;
    patch.strict = true;
    uint64_t fault = kernel_policy_patch_fault(&patch, &policy, rate_window_max);
    if (fault != KERNEL_FAULT_NONE) {
        kernel_fault_format(fault, reason, CONFIG_REASON_MAX);
        return false;
    }
    return pool->names == NULL || policy.of[KERNEL_OPTION_KIND] == KERNEL_SET ||
           config_refuse(reason, "names are for a set (set = yes)");
}

void config_pool_print(const struct config_pool *pool, FILE *out) {
    struct kernel_policy policy = kernel_policy_new(&pool->patch);
    char text[KERNEL_OPTION_TEXT_MAX];
    (void)fprintf(out, "\n[pool %s]\n", pool->head.name);
    for (unsigned i = 0; i < KERNEL_OPTION_COUNT; i++) {
        const char *name = kernel_option_rows[i].name;
        bool told = i == KERNEL_OPTION_KIND && pool->patch.has_spans; /* by the range */
        if (!told && pool->patch.mask >> i & 1) {
            kernel_option_show(&policy, i, text, sizeof text);
            (void)fprintf(out, "%s = %s\n", name, text);
        }
    }
    if (pool->patch.has_spans) {
        kernel_option_show(&policy, KERNEL_OPTION_SPANS, text, sizeof text);
        (void)fprintf(out, "range = %s\n", text);
    }
    if (pool->patch.has_exclude) {
        kernel_option_show(&policy, KERNEL_OPTION_EXCLUDE, text, sizeof text);
        (void)fprintf(out, "exclude = %s\n", text);
    }
    if (pool->names != NULL) {
        config_words_print("names", pool->names, out);
    }
}
