/* `tenure opensynaptic import|export|policy`: shared code. */
#include "cli/opensynaptic.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/show_json.h"
#include "kernel/option.h"
#include "protocol/text.h"
#include "protocol/walk.h"

/* ---- Files ---- */

static bool read_failed(const char *path, const char *why, FILE *in, uint8_t *bytes) {
    (void)fprintf(stderr, "tenure opensynaptic: %s: %s\n", path, why);
    if (in != NULL && in != stdin) {
        (void)fclose(in);
    }
    free(bytes);
    return false;
}

/* All of it, in memory that doubles. */
static const char *read_all(FILE *in, uint8_t **ret_bytes, size_t *ret_len) {
    size_t capacity = 0;
    size_t len = 0;
    for (;;) {
        if (len == capacity) {
            capacity = capacity == 0 ? 65536 : 2 * capacity;
            uint8_t *more = realloc(*ret_bytes, capacity);
            if (more == NULL) {
                return "out of memory";
            }
            *ret_bytes = more;
        }
        size_t got = fread(*ret_bytes + len, 1, capacity - len, in);
        len += got;
        if (len > OPENSYNAPTIC_FILE_MAX) {
            return "it has more than 2047 MiB";
        }
        if (got == 0) {
            *ret_len = len;
            return ferror(in) ? "cannot read it" : NULL;
        }
    }
}

bool opensynaptic_read(const char *path, uint8_t **ret_bytes, struct tn_bytes *ret_text) {
    FILE *in = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    uint8_t *bytes = NULL;
    size_t len = 0;
    if (in == NULL) {
        return read_failed(path, strerror(errno), NULL, NULL);
    }
    const char *fault = read_all(in, &bytes, &len);
    if (fault == NULL) {
        fault = protocol_json_fault(tn_bytes_of(bytes, len));
    }
    if (fault != NULL) {
        return read_failed(path, fault, in, bytes);
    }
    if (in != stdin) {
        (void)fclose(in);
    }
    *ret_bytes = bytes;
    *ret_text = tn_bytes_of(bytes, len);
    return true;
}

struct tn_bytes opensynaptic_member(struct tn_bytes object, const char *key) {
    struct tn_bytes found = tn_bytes_of("", 0);
    struct tn_bytes name;
    struct tn_bytes value;
    size_t len = strlen(key);
    if (object.len == 0 || protocol_json_kind(object) != PROTOCOL_JSON_OBJECT) {
        return found;
    }
    struct protocol_walk walk = protocol_walk_of(object);
    while (protocol_walk_next(&walk, &name, &value)) {
        if (name.len == len + 2 && memcmp(name.at + 1, key, len) == 0) {
            found = value;
        }
    }
    return found;
}

bool opensynaptic_number(struct tn_bytes value, uint64_t *ret_number) {
    return value.len > 0 && protocol_json_kind(value) == PROTOCOL_JSON_NUMBER &&
           cli_number_parse(value, ret_number);
}

/* ---- The server ---- */

int opensynaptic_call(struct cli_client *client, const struct cli_settings *settings,
                      const struct tn_bytes *words, uint32_t count) {
    enum cli_link link = cli_client_call(client, words, count, settings->timeout_ms);
    if (link != CLI_LINK_OK) {
        (void)fprintf(stderr, "tenure: %s\n", client->error);
        return link == CLI_LINK_LOST ? CLI_UNKNOWN : CLI_UNREACHABLE;
    }
    if (client->reader.nodes[0].type != CLI_ERROR) {
        return CLI_OK;
    }
    struct cli_refusal refusal = cli_refusal_of(cli_node_text(&client->reader, 0));
    struct cli_text line = {.at = NULL};
    cli_text_clean(&line, refusal.name);
    cli_text_put(&line, ": ");
    cli_text_clean(&line, refusal.words);
    (void)fprintf(stderr, "tenure opensynaptic: %s\n", line.failed ? "" : line.at);
    cli_text_free(&line);
    return refusal.known ? tn_result_exit(refusal.code) : CLI_FAILED;
}

/* A server without the option has the default. */
static uint64_t fields_take(const struct cli_reader *reader, uint32_t node) {
    struct kernel_policy_patch patch = {0};
    char text[64], detail[KERNEL_OPTION_DETAIL];
    struct tn_bytes said = node == 0 ? tn_bytes_of("", 0) : cli_node_text(reader, node);
    (void)snprintf(text, sizeof text, "%.*s", (int)(said.len < 63 ? said.len : 63),
                   (const char *)said.at);
    (void)kernel_option_set("identity_fields", text, &patch, detail);
    return patch.values.of[KERNEL_OPTION_IDENTITY];
}

static void pool_take(struct opensynaptic_pool *pool, const struct cli_reader *reader) {
    uint32_t options = cli_node_find(reader, 0, "options");
    pool->exists = options != 0;
    if (!pool->exists) {
        return;
    }
    pool->sticky = cli_node_is(reader, cli_node_find(reader, options, "sticky"), "yes") &&
                   cli_node_is(reader, cli_node_find(reader, options, "kind"), "range") &&
                   cli_node_is(reader, cli_node_find(reader, options, "format"), "dec");
    pool->identity.fallback_json =
        cli_node_is(reader, cli_node_find(reader, options, "identity_fallback"), "json");
    pool->identity.fields = fields_take(reader, cli_node_find(reader, options, "identity_fields"));
    (void)cli_node_number(reader, cli_node_find(reader, options, "lo"), &pool->lo);
    (void)cli_node_number(reader, cli_node_find(reader, options, "hi"), &pool->hi);
    (void)cli_node_number(reader, cli_node_find(reader, 0, "cooling"), &pool->cooling);
}

int opensynaptic_connect(struct cli_client *client, const struct cli_settings *settings,
                         const char *name, struct opensynaptic_pool *ret_pool) {
    const struct tn_bytes time[] = {tn_bytes_of("TIME", 4)};
    const struct tn_bytes info[] = {tn_bytes_of("POOL", 4), tn_bytes_of("INFO", 4),
                                    tn_bytes_of(name, strlen(name))};
    const struct cli_reader *reader = &client->reader;
    uint64_t seconds = 0;
    *ret_pool = (struct opensynaptic_pool){.name = name};
    if (cli_client_open(client, settings) != CLI_LINK_OK ||
        cli_client_call(client, time, 1, settings->timeout_ms) != CLI_LINK_OK) {
        return cli_client_unreachable(client);
    }
    (void)(reader->node_count > 1 && cli_node_number(reader, 1, &seconds));
    ret_pool->now_ms = seconds * 1000;
    if (cli_client_call(client, info, 3, settings->timeout_ms) != CLI_LINK_OK) {
        return cli_client_unreachable(client);
    }
    pool_take(ret_pool, reader);
    return CLI_OK;
}

bool opensynaptic_pool_serves(const struct opensynaptic_pool *pool, int *ret_code) {
    if (!pool->exists) {
        (void)fprintf(
            stderr,
            "tenure opensynaptic: the pool %s does not exist; `tenure opensynaptic policy "
            "Config.json --pool %s` creates it\n",
            pool->name, pool->name);
        *ret_code = tn_result_exit(TN_R_POOL_NOTFOUND);
    } else if (!pool->sticky) {
        (void)fprintf(stderr,
                      "tenure opensynaptic: the pool %s is not a sticky range of decimal numbers\n",
                      pool->name);
        *ret_code = CLI_FAILED;
    }
    return pool->exists && pool->sticky;
}

/* ---- Which of the three ---- */

int cli_opensynaptic(const struct cli_settings *settings, int argc, char **argv) {
    static const struct {
        const char *name;
        int (*run)(const struct cli_settings *settings, int argc, char **argv);
    } parts[] = {{"import", opensynaptic_import},
                 {"export", opensynaptic_export},
                 {"policy", opensynaptic_policy}};
    for (size_t i = 0; argc > 0 && i < sizeof parts / sizeof parts[0]; i++) {
        if (strcmp(argv[0], parts[i].name) == 0) {
            return parts[i].run(settings, argc - 1, argv + 1);
        }
    }
    (void)fprintf(stderr, "usage: tenure opensynaptic import|export|policy ...\n"
                          "`tenure help opensynaptic` shows details\n");
    return CLI_USAGE;
}
