/* `tenure complete KIND [PREFIX]`: names from the server, for the completion scripts of shells.
 *
 * It is asked while a user waits for a key, so it is quick and silent: it gives up after a deadline, reads a
 * bounded number of pages, prints at most NAMES_MAX names, and prints nothing if there is no server. A name is
 * printed as it is, one per line; a name that contains a control character or is not UTF-8 is left out, since a
 * shell could not tell where it ends. The scripts quote the others. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "cli/options.h"
#include "cli/resp_client.h"
#include "cli/show.h"

#define NAMES_MAX 200u
#define PAGES_MAX 20u
#define DEADLINE_MS 500u
#define DEADLINE_MS_MAX 600000u

struct names {
    struct cli_client client;
    uint64_t until_ms;
    const char *prefix;
    struct cli_text bytes; /* all names, each followed by a NUL */
    size_t at[NAMES_MAX];
    uint32_t count;
};

/* ---- Names ---- */

static bool is_clean(struct tn_bytes name) {
    for (uint32_t at = 0; at < name.len;) {
        uint32_t character;
        uint32_t len = cli_char_next(name.at + at, name.len - at, &character);
        if (len == 0 || cli_char_is_control(character)) {
            return false;
        }
        at += len;
    }
    return name.len > 0;
}

/* Adds `before` and the name, if they begin with the prefix and are new. */
static void name_add(struct names *names, struct tn_bytes before, struct tn_bytes name,
                     const char *after) {
    struct cli_text text = {.at = NULL};
    cli_text_add(&text, before.at, before.len);
    cli_text_put(&text, before.len > 0 ? "/" : "");
    cli_text_add(&text, name.at, name.len);
    cli_text_put(&text, after);
    bool fits = !text.failed && is_clean(tn_bytes_of(text.at, text.len)) &&
                strncmp(text.at, names->prefix, strlen(names->prefix)) == 0;
    for (uint32_t i = 0; fits && i < names->count; i++) {
        fits = strcmp(names->bytes.at + names->at[i], text.at) != 0;
    }
    if (fits && names->count < NAMES_MAX) {
        names->at[names->count++] = names->bytes.len;
        cli_text_add(&names->bytes, text.at, text.len + 1);
    }
    cli_text_free(&text);
}

static void names_print(const struct names *names) {
    for (uint32_t i = 0; !names->bytes.failed && i < names->count; i++) {
        (void)printf("%s\n", names->bytes.at + names->at[i]);
    }
}

/* ---- Lists of the server ---- */

typedef void item_take(struct names *names, const struct cli_reader *reader, uint32_t item);

static uint64_t time_left(const struct names *names) {
    uint64_t now = names->client.os->clock_boot_ms(names->client.os->ctx);
    return now < names->until_ms ? names->until_ms - now : 0;
}

/* Reads the items of a list page by page, until there are enough names or the time is up. */
static void list_read(struct names *names, const char *const *request, item_take *take) {
    const struct cli_reader *reader = &names->client.reader;
    struct tn_bytes words[12];
    char cursor[32] = "0";
    uint32_t count = 0, array, name;
    for (; request[count] != NULL; count++) {
        TN_ASSERT(count + 4 < sizeof words / sizeof words[0]);
        words[count] = tn_bytes_of(request[count], strlen(request[count]));
    }
    words[count++] = tn_bytes_of("COUNT", 5);
    words[count++] = tn_bytes_of("1000", 4);
    words[count++] = tn_bytes_of("CURSOR", 6);
    for (unsigned page = 0; page < PAGES_MAX && time_left(names) > 0; page++) {
        uint64_t next = 0;
        words[count] = tn_bytes_of(cursor, strlen(cursor));
        if (cli_client_call(&names->client, words, count + 1, time_left(names)) != CLI_LINK_OK ||
            (array = cli_list_find(reader, &name)) == 0) {
            return;
        }
        for (uint32_t at = array + 1; at < reader->nodes[array].end; at = reader->nodes[at].end) {
            take(names, reader, at);
        }
        (void)cli_node_number(reader, cli_node_find(reader, 0, "cursor"), &next);
        if (next == 0 || names->count == NAMES_MAX) {
            return;
        }
        (void)snprintf(cursor, sizeof cursor, "%llu", (unsigned long long)next);
    }
}

static void field_take(struct names *names, const struct cli_reader *reader, uint32_t item,
                       const char *key, const char *after) {
    uint32_t node = cli_node_find(reader, item, key);
    if (node != 0) {
        name_add(names, tn_bytes_of(NULL, 0), cli_node_text(reader, node), after);
    }
}

static void pool_take(struct names *names, const struct cli_reader *reader, uint32_t item) {
    field_take(names, reader, item, "pool", "");
}

/* Adds "ports/" as the beginning of a value. */
static void pool_begin_take(struct names *names, const struct cli_reader *reader, uint32_t item) {
    field_take(names, reader, item, "pool", "/");
}

static void lease_take(struct names *names, const struct cli_reader *reader, uint32_t item) {
    field_take(names, reader, item, "lease", "");
}

static void holder_take(struct names *names, const struct cli_reader *reader, uint32_t item) {
    field_take(names, reader, item, "holder", "");
}

static void rule_take(struct names *names, const struct cli_reader *reader, uint32_t item) {
    field_take(names, reader, item, "id", "");
}

static void sensor_take(struct names *names, const struct cli_reader *reader, uint32_t item) {
    field_take(names, reader, item, "ref", "");
}

static void name_take(struct names *names, const struct cli_reader *reader, uint32_t item) {
    field_take(names, reader, item, "name", "");
}

/* Adds the values of a lease as POOL/VALUE. */
static void values_take(struct names *names, const struct cli_reader *reader, uint32_t item) {
    uint32_t pools = cli_node_find(reader, item, "pools");
    uint32_t values = cli_node_find(reader, item, "values");
    if (pools == 0 || values == 0 || reader->nodes[pools].count != reader->nodes[values].count) {
        return;
    }
    for (uint32_t i = 1; i <= reader->nodes[values].count; i++) {
        name_add(names, cli_node_text(reader, pools + i), cli_node_text(reader, values + i), "");
    }
}

/* Adds what a request can name of a pool's free values, as POOL/VALUE: of a span, its ends. */
static void free_take(struct names *names, const struct cli_reader *reader, uint32_t item) {
    static const char *const keys[] = {"value", "last"};
    size_t pool = (size_t)(strrchr(names->prefix, '/') - names->prefix);
    for (unsigned i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        uint32_t node = cli_node_find(reader, item, keys[i]);
        struct tn_bytes value = node != 0 ? cli_node_text(reader, node) : tn_bytes_of("", 0);
        if (value.len > 0) {
            name_add(names, tn_bytes_of(names->prefix, (uint32_t)pool), value, "");
        }
    }
}

/* ---- Kinds ---- */

static void pools_read(struct names *names) {
    list_read(names, (const char *const[]){"POOL", "LIST", NULL}, pool_take);
}

static void holders_read(struct names *names) {
    bool some = names->prefix[0] != '\0';
    list_read(names, (const char *const[]){"LEASES", some ? "PREFIX" : NULL, names->prefix, NULL},
              holder_take);
}

static void leases_read(struct names *names) {
    list_read(names, (const char *const[]){"LEASES", NULL}, lease_take);
}

/* If the prefix names a pool: `after`, the pool, and `more` as a request; otherwise the pools. */
static void in_pool_read(struct names *names, const char *const after[2], const char *const more[2],
                         item_take *take) {
    const char *slash = strrchr(names->prefix, '/');
    if (slash == NULL) {
        list_read(names, (const char *const[]){"POOL", "LIST", NULL}, pool_begin_take);
        return;
    }
    char *pool = strndup(names->prefix, (size_t)(slash - names->prefix));
    if (pool != NULL) {
        list_read(names, (const char *const[]){after[0], after[1], pool, more[0], more[1], NULL},
                  take);
    }
    free(pool);
}

static void values_read(struct names *names) {
    in_pool_read(names, (const char *const[]){"LEASES", "POOL"}, (const char *const[]){NULL, NULL},
                 values_take);
}

static void free_read(struct names *names) {
    in_pool_read(names, (const char *const[]){"POOL", "VALUES"},
                 (const char *const[]){"STATE", "available"}, free_take);
}

static void either_read(struct names *names) {
    if (strchr(names->prefix, '/') == NULL) {
        leases_read(names);
    }
    values_read(names);
}

static void rules_read(struct names *names) {
    list_read(names, (const char *const[]){"RULE", "LIST", NULL}, rule_take);
}

static void sensors_read(struct names *names) {
    list_read(names, (const char *const[]){"SENSOR", "LIST", NULL}, sensor_take);
}

static void users_read(struct names *names) {
    list_read(names, (const char *const[]){"USER", "LIST", NULL}, name_take);
}

static const struct {
    const char *name;
    void (*read)(struct names *names);
} kinds[] = {{"pool", pools_read},   {"holder", holders_read},  {"lease", leases_read},
             {"value", values_read}, {"free-value", free_read}, {"lease-or-value", either_read},
             {"rule", rules_read},   {"sensor", sensors_read},  {"user", users_read}};

int cli_complete(const struct cli_settings *settings, int argc, char **argv) {
    const char *places[2] = {NULL, NULL};
    const char *deadline = NULL;
    const struct cli_option rows[] = {{"--deadline", &deadline, NULL}};
    const struct cli_options options = {.subcommand = "complete",
                                        .usage = CLI_COMPLETE_USAGE,
                                        .rows = rows,
                                        .count = 1,
                                        .places = places,
                                        .place_count = 2};
    uint64_t deadline_ms = DEADLINE_MS;
    if (!cli_options_parse(&options, argc, argv)) {
        return CLI_USAGE;
    }
    if (deadline != NULL &&
        (!cli_number_parse(tn_bytes_of(deadline, strlen(deadline)), &deadline_ms) ||
         deadline_ms == 0 || deadline_ms > DEADLINE_MS_MAX)) {
        (void)cli_options_wrong(&options, "not a number of milliseconds: ", deadline);
        return CLI_USAGE;
    }
    struct cli_settings own = *settings;
    struct names names = {.prefix = places[1] != NULL ? places[1] : ""};
    own.timeout_ms = deadline_ms;
    names.until_ms = own.os->clock_boot_ms(own.os->ctx) + deadline_ms;
    for (unsigned i = 0; places[0] != NULL && i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].name, places[0]) == 0) {
            if (cli_client_open(&names.client, &own) == CLI_LINK_OK) {
                kinds[i].read(&names);
                names_print(&names);
                cli_client_close(&names.client);
            }
            cli_text_free(&names.bytes);
            return CLI_OK;
        }
    }
    (void)cli_options_wrong(&options, "unknown kind ", places[0] != NULL ? places[0] : "");
    return CLI_USAGE;
}
