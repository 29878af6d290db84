/* `tenure rule export|import` and `tenure sensor export|import`: rules and sensors as lines of
 * JSON.
 *
 *     {"id":"r1","trigger":"core.timer","enabled":true,"meta":{"seconds":5}}
 *     {"ref":"s1","trigger":"core.timer","enabled":true,"spec":{"command":["/usr/bin/timer"]}}
 *
 * An import checks all lines before it sends the first one. Each line contains a whole rule or
 * sensor (a rule without "meta" keeps its metadata), so an interrupted import can be repeated. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/options.h"
#include "cli/scan.h"
#include "cli/show_json.h"
#include "protocol/text.h"
#include "protocol/walk.h"

#define PAGE "1000"
#define PAGE_MAX 1000u
#define INPUT_MAX (64u << 20)
#define TEXT_MAX 512u /* maximum bytes of a name and a trigger */

struct kind {
    const char *word, *name, *list;
    const char *object; /* the field that lists do not show: metadata, the description */
    bool needed;        /* each has one */
};

static const struct kind kinds[] = {{"rule", "id", "rules", "meta", false},
                                    {"sensor", "ref", "sensors", "spec", true}};

/* ---- Export ---- */

static void line_print(const struct kind *kind, const struct cli_reader *reader, uint32_t map) {
    struct cli_text line = {.at = NULL};
    cli_text_printf(&line, "{\"%s\":", kind->name);
    cli_text_json(&line, cli_field(reader, map, kind->name));
    cli_text_put(&line, ",\"trigger\":");
    cli_text_json(&line, cli_field(reader, map, "trigger"));
    cli_text_printf(&line, ",\"enabled\":%s",
                    cli_field_is(reader, map, "enabled", "t") ? "true" : "false");
    if (cli_node_find(reader, map, kind->object) != 0) {
        cli_text_printf(&line, ",\"%s\":", kind->object);
        cli_text_json_text(&line, cli_field(reader, map, kind->object));
    }
    (void)printf("%s}\n", line.failed ? "" : line.at);
    cli_text_free(&line);
}

/* Prints the items with their object, leaving out those deleted meanwhile. */
static int whole_print(const struct kind *kind, const struct cli_settings *settings,
                       struct cli_client *client, const char *names, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const char *name = names + (size_t)i * TEXT_MAX;
        const struct tn_bytes words[] = {tn_bytes_of(kind->word, strlen(kind->word)),
                                         tn_bytes_of("INFO", 4), tn_bytes_of(name, strlen(name))};
        if (cli_client_call(client, words, 3, settings->timeout_ms) != CLI_LINK_OK) {
            return cli_client_unreachable(client);
        }
        const struct cli_reader *reader = &client->reader;
        if (reader->nodes[0].type == CLI_MAP) {
            line_print(kind, reader, 0);
        } else if (cli_refusal_of(cli_node_text(reader, 0)).code != TN_R_NOTFOUND) {
            /* Asked again, because the words are needed. */
            return cli_ask(settings, client, words, 3);
        }
    }
    return CLI_OK;
}

/* Prints the items that the page shows completely, and keeps the names of the others. Returns their
 * number. */
static uint32_t page_take(const struct kind *kind, const struct cli_reader *reader, char *names) {
    uint32_t array = cli_node_find(reader, 0, kind->list);
    uint32_t count = 0;
    for (uint32_t at = array + 1; array != 0 && at < reader->nodes[array].end && count < PAGE_MAX;
         at = reader->nodes[at].end) {
        struct tn_bytes name = cli_field(reader, at, kind->name);
        if (!kind->needed && cli_node_find(reader, at, "meta_bytes") == 0) {
            line_print(kind, reader, at);
        } else if (name.len < TEXT_MAX) {
            (void)snprintf(names + (size_t)count * TEXT_MAX, TEXT_MAX, "%.*s", (int)name.len,
                           (const char *)name.at);
            count++;
        }
    }
    return count;
}

static int pages_export(const struct kind *kind, const struct cli_settings *settings,
                        struct cli_client *client, char *names) {
    uint64_t cursor = 0;
    int code;
    do {
        char place[24];
        (void)snprintf(place, sizeof place, "%" PRIu64, cursor);
        const struct tn_bytes words[] = {tn_bytes_of(kind->word, strlen(kind->word)),
                                         tn_bytes_of("LIST", 4),
                                         tn_bytes_of("CURSOR", 6),
                                         tn_bytes_of(place, strlen(place)),
                                         tn_bytes_of("COUNT", 5),
                                         tn_bytes_of(PAGE, strlen(PAGE))};
        code = cli_ask(settings, client, words, 6);
        if (code != CLI_OK) {
            return code;
        }
        cursor = cli_field_number(&client->reader, 0, "cursor");
        uint32_t count = page_take(kind, &client->reader, names);
        code = whole_print(kind, settings, client, names, count);
    } while (code == CLI_OK && cursor != 0);
    return code == CLI_OK && (fflush(stdout) != 0 || ferror(stdout)) ? CLI_FAILED : code;
}

/* ---- Import ---- */

struct item {
    struct tn_bytes name, trigger, object;
    bool enabled, has_enabled;
    uint8_t text[2 * TEXT_MAX]; /* memory for name and trigger */
};

static const char *member_take(const struct kind *kind, struct item *item, struct tn_writer *out,
                               struct tn_bytes key, struct tn_bytes value) {
    struct tn_bytes name = tn_bytes_of(key.at + 1, key.len - 2);
    enum protocol_json_kind is = protocol_json_kind(value);
    bool named = tn_bytes_equal(name, tn_bytes_of(kind->name, strlen(kind->name)));
    if (named || tn_bytes_equal(name, tn_bytes_of("trigger", 7))) {
        struct tn_bytes *text = named ? &item->name : &item->trigger;
        return text->len == 0 && is == PROTOCOL_JSON_STRING && protocol_json_text(value, out, text)
                   ? NULL
                   : "the name or the trigger is repeated, too long or not a string";
    }
    if (tn_bytes_equal(name, tn_bytes_of("enabled", 7))) {
        if (item->has_enabled) {
            return "enabled is repeated";
        }
        item->has_enabled = true;
        item->enabled = is == PROTOCOL_JSON_TRUE;
        return is == PROTOCOL_JSON_TRUE || is == PROTOCOL_JSON_FALSE
                   ? NULL
                   : "enabled must be true or false";
    }
    if (tn_bytes_equal(name, tn_bytes_of(kind->object, strlen(kind->object)))) {
        if (item->object.len > 0) {
            return "spec or meta is repeated";
        }
        item->object = value;
        return is != PROTOCOL_JSON_OBJECT ? "spec and meta must be objects"
               : value.len > (kind->needed ? KERNEL_SENSOR_SPEC_MAX : KERNEL_META_MAX)
                   ? "spec has more than 16384 bytes, or meta more than 4096"
                   : NULL;
    }
    return "it has an unknown field";
}

/* NULL, or why the line is not valid. */
static const char *line_parse(const struct kind *kind, struct tn_bytes line, struct item *item) {
    struct tn_writer out = tn_writer_of(item->text, sizeof item->text);
    struct tn_bytes key;
    struct tn_bytes value;
    const char *fault = protocol_json_fault(line);
    item->name = item->trigger = item->object = tn_bytes_of("", 0);
    item->enabled = true;
    item->has_enabled = false;
    if (fault != NULL) {
        return fault;
    }
    struct protocol_walk walk = protocol_walk_of(line);
    while (fault == NULL && protocol_walk_next(&walk, &key, &value)) {
        fault = member_take(kind, item, &out, key, value);
    }
    if (fault == NULL && (item->name.len == 0 || item->trigger.len == 0)) {
        fault = "its name or its trigger is missing";
    }
    return fault == NULL && kind->needed && item->object.len == 0 ? "its spec is missing" : fault;
}

static bool line_next(struct tn_bytes *rest, struct tn_bytes *ret_line) {
    if (rest->len == 0) {
        return false;
    }
    const uint8_t *end = memchr(rest->at, '\n', rest->len);
    uint32_t len = end != NULL ? (uint32_t)(end - rest->at) : rest->len;
    *ret_line = tn_bytes_of(rest->at, len);
    len += end != NULL;
    *rest = tn_bytes_of(rest->at + len, rest->len - len);
    return true;
}

static bool is_blank(struct tn_bytes line) {
    for (uint32_t i = 0; i < line.len; i++) {
        if (line.at[i] != ' ' && line.at[i] != '\t' && line.at[i] != '\r') {
            return false;
        }
    }
    return true;
}

static int item_send(const struct kind *kind, const struct cli_settings *settings,
                     struct cli_client *client, const struct item *item) {
    struct tn_bytes words[8] = {tn_bytes_of(kind->word, strlen(kind->word)), tn_bytes_of("SET", 3),
                                item->name, item->trigger};
    uint32_t count = 4;
    if (kind->needed) {
        words[count++] = item->object;
    } else if (item->object.len > 0) {
        words[count++] = tn_bytes_of("META", 4);
        words[count++] = item->object;
    }
    if (!item->enabled) {
        words[count++] = tn_bytes_of("DISABLED", 8);
    }
    return cli_ask(settings, client, words, count);
}

/* Checks all lines or, with a client, sends them. Returns the exit code. */
static int lines_go(const struct kind *kind, const struct cli_settings *settings,
                    struct cli_client *client, struct tn_bytes rest, uint64_t *ret_count) {
    struct tn_bytes line;
    struct item item;
    uint64_t number = 0;
    *ret_count = 0;
    while (line_next(&rest, &line)) {
        number++;
        if (is_blank(line)) {
            continue;
        }
        const char *fault = line_parse(kind, line, &item);
        int code = fault != NULL    ? CLI_FAILED
                   : client != NULL ? item_send(kind, settings, client, &item)
                                    : CLI_OK;
        if (code != CLI_OK) {
            (void)fprintf(stderr, "tenure %s import: line %" PRIu64 "%s%s; %" PRIu64 " %s\n",
                          kind->word, number, fault != NULL ? ": " : "", fault != NULL ? fault : "",
                          *ret_count,
                          client != NULL ? "before it were set" : "before it are valid");
            return code;
        }
        (*ret_count)++;
    }
    return CLI_OK;
}

/* False: the reason has been printed. */
static bool input_read(const struct kind *kind, const char *path, struct cli_text *all) {
    char piece[16384];
    size_t got = 1;
    bool named = path != NULL && strcmp(path, "-") != 0;
    FILE *in = named ? fopen(path, "rb") : stdin;
    const char *why = in == NULL ? strerror(errno) : NULL;
    while (why == NULL && got > 0) {
        got = fread(piece, 1, sizeof piece, in);
        cli_text_add(all, piece, got);
        why = ferror(in)             ? "cannot read it"
              : all->failed          ? "no memory"
              : all->len > INPUT_MAX ? "it has more than 64 MiB"
                                     : NULL;
    }
    if (in != NULL && named) {
        (void)fclose(in);
    }
    if (why != NULL) {
        (void)fprintf(stderr, "tenure %s import: %s: %s\n", kind->word, named ? path : "-", why);
    }
    return why == NULL;
}

static int import_all(const struct kind *kind, const struct cli_settings *settings,
                      const char *path, bool dry_run) {
    struct cli_client client = {.socket = -1};
    struct cli_text all = {.at = NULL};
    uint64_t count = 0;
    int code = CLI_FAILED;
    if (input_read(kind, path, &all)) {
        struct tn_bytes text = tn_bytes_of(all.at, all.len);
        code = lines_go(kind, settings, NULL, text, &count);
        if (code == CLI_OK && !dry_run) {
            code = cli_client_open(&client, settings) != CLI_LINK_OK
                       ? cli_client_unreachable(&client)
                       : lines_go(kind, settings, &client, text, &count);
        }
    }
    if (code == CLI_OK) {
        (void)printf("%" PRIu64 " %s %s\n", count, kind->list,
                     dry_run ? "can be set; nothing was sent" : "set");
    }
    cli_client_close(&client);
    cli_text_free(&all);
    return code;
}

/* ---- Both ---- */

static int export_all(const struct kind *kind, const struct cli_settings *settings) {
    struct cli_client client = {.socket = -1};
    char *names = calloc(PAGE_MAX, TEXT_MAX);
    int code = CLI_FAILED;
    if (names != NULL) {
        code = cli_client_open(&client, settings) != CLI_LINK_OK
                   ? cli_client_unreachable(&client)
                   : pages_export(kind, settings, &client, names);
    }
    cli_client_close(&client);
    free(names);
    return code;
}

bool cli_is_demand(int argc, char **argv) {
    return argc >= 2 &&
           (strcmp(argv[0], kinds[0].word) == 0 || strcmp(argv[0], kinds[1].word) == 0) &&
           (strcmp(argv[1], "export") == 0 || strcmp(argv[1], "import") == 0);
}

int cli_demand(const struct cli_settings *settings, int argc, char **argv) {
    const struct kind *kind = &kinds[strcmp(argv[0], kinds[0].word) != 0];
    bool export = strcmp(argv[1], "export") == 0;
    const char *path = NULL;
    bool dry_run = false;
    char name[32];
    const struct cli_option rows[] = {{"--dry-run", NULL, &dry_run}};
    (void)snprintf(name, sizeof name, "%s %s", kind->word, argv[1]);
    const struct cli_options options = {
        name, export ? "" : "[FILE] [--dry-run]", rows, export ? 0 : 1, &path, export ? 0 : 1};
    if (!cli_options_parse(&options, argc - 2, argv + 2)) {
        return CLI_USAGE;
    }
    return export ? export_all(kind, settings) : import_all(kind, settings, path, dry_run);
}
