/* Any bytes as the configuration file. A file without mistakes is printed, and the printout is read
 * again: it has no mistakes either, and the same meaning. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "config/config.h"

struct content {
    const uint8_t *at;
    size_t len;
};

static enum tn_status file_open(void *ctx, const char *path, unsigned flags, int *ret_file) {
    (void)ctx, (void)path, (void)flags;
    *ret_file = 3;
    return TN_OK;
}

static enum tn_status file_close(void *ctx, int file) {
    (void)ctx, (void)file;
    return TN_OK;
}

static enum tn_status file_read(void *ctx, int file, void *out, size_t len, uint64_t offset,
                                size_t *ret_len) {
    const struct content *content = ctx;
    (void)file;
    TN_ASSERT(offset == 0);
    *ret_len = content->len < len ? content->len : len;
    memcpy(out, content->at, *ret_len);
    return TN_OK;
}

static void mistake(void *ctx, const char *where, const char *what) {
    (void)ctx;
    TN_ASSERT(strlen(where) > 0 && strlen(what) > 0);
}

static bool load(struct config *config, const uint8_t *at, size_t len) {
    char *argv[] = {"tenured", "--config", "f", NULL};
    struct content content = {at, len};
    struct os os = {.ctx = &content, .open = file_open, .close = file_close, .read_at = file_read};
    return config_load(config, &os, 3, argv, mistake, NULL);
}

/* A value that begins like a comment becomes one. */
static bool survives_printing(const struct config *config) {
    for (unsigned i = 0; i < CONFIG_COUNT; i++) {
        const char *text = config->values[i].text;
        if (text != NULL && text[0] == ';') {
            return false;
        }
    }
    return true;
}

static void demand_same(const struct config_demand *a, const struct config_demand *b) {
    TN_ASSERT(strcmp(a->trigger, b->trigger) == 0);
    TN_ASSERT(a->has_enabled == b->has_enabled && a->enabled == b->enabled);
}

static void declared_same(const struct config *a, const struct config *b) {
    for (unsigned kind = 0; kind < CONFIG_KINDS; kind++) {
        TN_ASSERT(a->declared[kind].count == b->declared[kind].count);
    }
    for (uint32_t i = 0; i < a->declared[CONFIG_KIND_SENSOR].count; i++) {
        const struct config_sensor *s = config_sensor_at(a, i), *t = config_sensor_at(b, i);
        char *x = config_sensor_json(s), *y = config_sensor_json(t);
        TN_ASSERT(strcmp(s->head.name, t->head.name) == 0 && strcmp(x, y) == 0);
        demand_same(&s->demand, &t->demand);
        free(x);
        free(y);
    }
    for (uint32_t i = 0; i < a->declared[CONFIG_KIND_RULE].count; i++) {
        const struct config_rule *r = config_rule_at(a, i), *t = config_rule_at(b, i);
        TN_ASSERT(strcmp(r->head.name, t->head.name) == 0);
        demand_same(&r->demand, &t->demand);
    }
}

static void same(const struct config *a, const struct config *b) {
    for (unsigned i = CONFIG_CONFIG + 1; i < CONFIG_COUNT; i++) {
        TN_ASSERT((a->values[i].text == NULL) == (b->values[i].text == NULL));
        TN_ASSERT(a->values[i].text == NULL || strcmp(a->values[i].text, b->values[i].text) == 0);
    }
    declared_same(a, b);
    for (uint32_t i = 0; i < a->declared[CONFIG_KIND_POOL].count; i++) {
        const struct config_pool *p = config_pool_at(a, i), *q = config_pool_at(b, i);
        struct kernel_policy x = kernel_policy_new(&p->patch), y = kernel_policy_new(&q->patch);
        TN_ASSERT(strcmp(p->head.name, q->head.name) == 0);
        TN_ASSERT(memcmp(x.of, y.of, sizeof x.of) == 0 && x.exclude_count == y.exclude_count);
        TN_ASSERT(memcmp(x.exclude, y.exclude, x.exclude_count * sizeof x.exclude[0]) == 0);
        TN_ASSERT((p->names == NULL) == (q->names == NULL));
        TN_ASSERT(p->names == NULL || strcmp(p->names, q->names) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct config config, again;
    if (load(&config, data, size) && survives_printing(&config)) {
        char *text = NULL;
        size_t len = 0;
        FILE *out = open_memstream(&text, &len);
        TN_ASSERT(out != NULL);
        config_print(&config, out);
        (void)fclose(out);
        TN_ASSERT(load(&again, (const uint8_t *)text, len));
        same(&config, &again);
        config_free(&again);
        free(text);
    }
    config_free(&config);
    return 0;
}
