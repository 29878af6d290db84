/* Displays replies. Known lists have selected columns; everything else is shown by its own names,
 * so that new fields and lists appear too. */
#include "cli/show.h"

#include <inttypes.h>

#include "cli/show_json.h"

/* ---- Values ---- */

static bool key_is(const char *key, const char *const *names) {
    for (; *names != NULL; names++) {
        if (strcmp(key, *names) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_time(const char *key, uint64_t *ret_unit_ms) {
    static const char *const ms[] = {"deadline",      "created", "last_seen", "offline_since",
                                     "ended",         "time",    "retry_at",  "next_free",
                                     "overdue_since", "started", "retires",   "until",
                                     "last_ended",    NULL};
    static const char *const seconds[] = {"last_reclaim_at", "updated_at", "token_expires_at",
                                          NULL};
    *ret_unit_ms = key_is(key, ms) ? 1 : 1000;
    return key_is(key, ms) || key_is(key, seconds);
}

static bool is_group(const struct cli_node *node) {
    return node->type == CLI_ARRAY || node->type == CLI_MAP || node->type == CLI_PUSH;
}

static void show_scalar(struct cli_text *text, const struct cli_reader *reader, uint32_t node) {
    struct tn_bytes bytes = cli_node_text(reader, node);
    switch (reader->nodes[node].type) {
    case CLI_NULL:
        cli_text_put(text, "-");
        break;
    case CLI_BOOLEAN:
        cli_text_put(text, bytes.at[0] == 't' ? "yes" : "no");
        break;
    default:
        cli_text_clean(text, bytes);
    }
}

void cli_show_value(struct cli_text *text, const struct cli_reader *reader, uint32_t node,
                    const char *key, uint64_t now_ms) {
    uint64_t number;
    uint64_t unit;
    if (is_group(&reader->nodes[node])) {
        const char *between = reader->nodes[node].type == CLI_MAP ? " " : ", ";
        for (uint32_t at = node + 1; at < reader->nodes[node].end; at++) {
            cli_text_put(text, at == node + 1 ? "" : between);
            show_scalar(text, reader, at);
        }
    } else if (is_time(key, &unit) && cli_node_number(reader, node, &number)) {
        if (number == 0) {
            cli_text_put(text, "-");
        } else {
            cli_text_time(text, number * unit, now_ms);
        }
    } else {
        show_scalar(text, reader, node);
    }
}

/* Pools and values are two arrays of one length; a pool is named when it changes. */
void cli_show_values(struct cli_text *text, const struct cli_reader *reader, uint32_t map) {
    uint32_t values = cli_node_find(reader, map, "values");
    uint32_t pools = cli_node_find(reader, map, "pools");
    uint32_t count = cli_node_find(reader, map, "value_count");
    uint64_t all = 0;
    if (values == 0 || !is_group(&reader->nodes[values])) {
        return;
    }
    uint32_t shown = reader->nodes[values].count;
    bool named = pools != 0 && reader->nodes[pools].count == shown;
    for (uint32_t i = 0; i < shown; i++) {
        uint32_t pool = pools + 1 + i; /* scalars: node after node */
        bool same = i > 0 && (!named || tn_bytes_equal(cli_node_text(reader, pool),
                                                       cli_node_text(reader, pool - 1)));
        cli_text_put(text, i == 0 ? "" : (same ? "," : " "));
        if (named && !same) {
            cli_text_clean(text, cli_node_text(reader, pool));
            cli_text_put(text, "/");
        }
        cli_text_clean(text, cli_node_text(reader, values + 1 + i));
    }
    if (count != 0 && cli_node_number(reader, count, &all) && all > shown) {
        cli_text_printf(text, " and %" PRIu64 " more", all - shown);
    }
}

/* ---- Lists ---- */

enum column_kind { PLAIN, NUMBER, SOON, VALUES, OPTION, USED };

struct column {
    const char *name;
    const char *key;
    enum column_kind kind;
};

static const struct column lease_columns[] = {
    {"LEASE", "lease", PLAIN},   {"EPOCH", "epoch", NUMBER}, {"STATE", "state", PLAIN},
    {"HOLDER", "holder", PLAIN}, {"VALUES", "", VALUES},     {"DEADLINE", "deadline", SOON},
    {NULL, NULL, PLAIN}};
static const struct column pool_columns[] = {{"POOL", "pool", PLAIN},
                                             {"KIND", "kind", OPTION},
                                             {"SIZE", "size", NUMBER},
                                             {"FREE", "free", NUMBER},
                                             {"USED", "", USED},
                                             {"ACTIVE", "active", NUMBER},
                                             {"OFFLINE", "offline", NUMBER},
                                             {"RESERVED", "reserved", NUMBER},
                                             {"REVOKING", "revoking", NUMBER},
                                             {"COOLING", "cooling", NUMBER},
                                             {"LEASE", "lease", OPTION},
                                             {NULL, NULL, PLAIN}};
static const struct column value_columns[] = {
    {"VALUE", "value", PLAIN}, {"LAST", "last", PLAIN},     {"COUNT", "count", NUMBER},
    {"STATE", "state", PLAIN}, {"LEASE", "lease", PLAIN},   {"EPOCH", "epoch", NUMBER},
    {"UNTIL", "until", SOON},  {"HOLDER", "holder", PLAIN}, {NULL, NULL, PLAIN}};
static const struct column rule_columns[] = {{"RULE", "id", PLAIN},
                                             {"TRIGGER", "trigger", PLAIN},
                                             {"ENABLED", "enabled", PLAIN},
                                             {NULL, NULL, PLAIN}};
static const struct column sensor_columns[] = {{"SENSOR", "ref", PLAIN},
                                               {"STATE", "state", PLAIN},
                                               {"TRIGGER", "trigger", PLAIN},
                                               {"ENABLED", "enabled", PLAIN},
                                               {"WANTED", "wanted", PLAIN},
                                               {"RULES", "active_rules", NUMBER},
                                               {"PID", "pid", NUMBER},
                                               {"STARTS", "starts", NUMBER},
                                               {"CRASHES", "crashes", NUMBER},
                                               {"LAST ERROR", "last_error", PLAIN},
                                               {NULL, NULL, PLAIN}};

static const struct column user_columns[] = {
    {"USER", "name", PLAIN},         {"ROLE", "role", PLAIN},
    {"SOURCE", "source", PLAIN},     {"VALUES", "values", NUMBER},
    {"QUOTA", "max_values", NUMBER}, {"POOLS", "pools", PLAIN},
    {"HOLDERS", "holders", PLAIN},   {NULL, NULL, PLAIN}};

static const struct column node_columns[] = {
    {"NODE", "name", PLAIN}, {"ROLE", "role", PLAIN}, {"ADDRESS", "address", PLAIN},
    {"HTTP", "http", PLAIN}, {"LSN", "lsn", NUMBER},  {"SEEN MS", "age_ms", NUMBER},
    {"SELF", "self", PLAIN}, {NULL, NULL, PLAIN}};

static const struct column key_columns[] = {{"KEY", "kid", PLAIN},   {"TYPE", "kty", PLAIN},
                                            {"CURVE", "crv", PLAIN}, {"ALGORITHM", "alg", PLAIN},
                                            {"PUBLIC", "x", PLAIN},  {NULL, NULL, PLAIN}};

static const struct {
    const char *what;
    const struct column *columns;
} lists[] = {{"keys", key_columns},   {"nodes", node_columns},  {"leases", lease_columns},
             {"pools", pool_columns}, {"rules", rule_columns},  {"sensors", sensor_columns},
             {"users", user_columns}, {"values", value_columns}};

/* Of 2^64 values the size is one less than it should be, which no rounding shows. */
static void show_used(struct cli_text *text, const struct cli_reader *reader, uint32_t map) {
    uint64_t size = 0;
    uint64_t left = 0;
    (void)cli_node_number(reader, cli_node_find(reader, map, "size"), &size);
    (void)cli_node_number(reader, cli_node_find(reader, map, "free"), &left);
    double used = size > 0 ? 100.0 * (double)(size - left) / (double)size : 0.0;
    cli_text_printf(text, "%.*f%%", used > 0 && used < 10 ? 1 : 0, used);
}

static void show_cell(struct cli_text *text, const struct cli_reader *reader, uint32_t map,
                      const struct column *column, uint64_t now_ms) {
    uint32_t node = cli_node_find(reader, map, column->key);
    uint64_t number;
    switch (column->kind) {
    case VALUES:
        cli_show_values(text, reader, map);
        return;
    case USED:
        show_used(text, reader, map);
        return;
    case OPTION:
        node = cli_node_find(reader, cli_node_find(reader, map, "options"), column->key);
        break;
    case SOON:
        if (cli_node_number(reader, node, &number)) {
            cli_text_relative(text, number, now_ms);
            return;
        }
        break;
    default:
        break;
    }
    if (node == 0) {
        cli_text_put(text, "-");
    } else {
        show_scalar(text, reader, node);
    }
}

/* The list is the first array of a page; its key is right before it. */
uint32_t cli_list_find(const struct cli_reader *reader, uint32_t *ret_name) {
    if (reader->nodes[0].type != CLI_MAP) {
        return 0;
    }
    for (uint32_t at = 1; at < reader->node_count;) {
        uint32_t value = reader->nodes[at].end;
        if (reader->nodes[value].type == CLI_ARRAY) {
            *ret_name = at;
            return value;
        }
        at = reader->nodes[value].end;
    }
    return 0;
}

/* Of a list that is new to us: each part as JSON, a line each. */
static bool show_unknown(struct cli_list *list, const struct cli_reader *reader, uint32_t array,
                         uint64_t most, FILE *out) {
    struct cli_text line = {.at = NULL};
    for (uint32_t at = array + 1; at < reader->nodes[array].end && most > 0;
         at = reader->nodes[at].end, most--) {
        cli_json_node(&line, reader, at);
        cli_text_put(&line, "\n");
        list->count++;
    }
    bool good = !line.failed;
    (void)fwrite(line.at, 1, line.len, out);
    cli_text_free(&line);
    return good;
}

bool cli_list_show(struct cli_list *list, const struct cli_reader *reader, uint64_t most,
                   FILE *out) {
    uint32_t name = 0;
    uint32_t array = cli_list_find(reader, &name);
    const struct column *columns = NULL;
    struct cli_text cell = {.at = NULL};
    for (unsigned i = 0; array != 0 && i < sizeof lists / sizeof lists[0]; i++) {
        if (cli_node_is(reader, name, lists[i].what)) {
            columns = lists[i].columns;
            list->what = lists[i].what;
        }
    }
    if (columns == NULL) {
        return array == 0 || show_unknown(list, reader, array, most, out);
    }
    for (unsigned i = 0; list->table.column_count == 0 || columns[i].name != NULL; i++) {
        if (columns[i].name == NULL) {
            break;
        }
        if (i >= list->table.column_count) {
            bool right = columns[i].kind == NUMBER || columns[i].kind == USED;
            cli_table_column(&list->table, columns[i].name, right);
            list->table.columns[i].ticking =
                columns[i].kind == SOON || strcmp(columns[i].key, "age_ms") == 0;
        }
    }
    for (uint32_t at = array + 1; at < reader->nodes[array].end && most > 0;
         at = reader->nodes[at].end, most--) {
        for (unsigned i = 0; columns[i].name != NULL; i++) {
            cell.len = 0;
            show_cell(&cell, reader, at, &columns[i], list->now_ms);
            cli_table_cell(&list->table, tn_bytes_of(cell.at, cell.len));
        }
        list->count++;
    }
    bool good = !cell.failed && (list->count == 0 || cli_table_flush(&list->table, out));
    cli_text_free(&cell);
    return good;
}

/* ---- Cards ---- */

/* The fields of a map, or of a map inside it: names in one column, values in the other. */
static void show_card(struct cli_text *text, const struct cli_reader *reader, uint32_t map,
                      uint64_t now_ms, const char *indent) {
    size_t width = 0;
    for (uint32_t at = map + 1; at < reader->nodes[map].end;
         at = reader->nodes[reader->nodes[at].end].end) {
        width = reader->nodes[at].len > width ? reader->nodes[at].len : width;
    }
    for (uint32_t at = map + 1; at < reader->nodes[map].end;) {
        uint32_t value = reader->nodes[at].end;
        char key[64] = "";
        struct tn_bytes name = cli_node_text(reader, at);
        memcpy(key, name.at, name.len < sizeof key ? name.len : sizeof key - 1);
        at = reader->nodes[value].end;
        if (reader->nodes[value].type == CLI_MAP) {
            continue; /* after the rest */
        }
        cli_text_put(text, indent);
        size_t before = text->len;
        cli_text_clean(text, name);
        cli_text_printf(text, "%*s", (int)(width - (text->len - before) + 2), "");
        cli_show_value(text, reader, value, key, now_ms);
        while (!text->failed && text->len > 0 && text->at[text->len - 1] == ' ') {
            text->len--;
        }
        cli_text_put(text, "\n");
    }
}

static void show_map(struct cli_text *text, const struct cli_reader *reader, uint64_t now_ms) {
    show_card(text, reader, 0, now_ms, "");
    for (uint32_t at = 1; at < reader->node_count;) {
        uint32_t value = reader->nodes[at].end;
        if (reader->nodes[value].type == CLI_MAP) {
            cli_text_put(text, "\n");
            cli_text_clean(text, cli_node_text(reader, at));
            cli_text_put(text, "\n");
            show_card(text, reader, value, now_ms, "  ");
        }
        at = reader->nodes[value].end;
    }
}

/* ---- Other replies ---- */

/* Many lines, as the server wrote them, but clean. */
static void show_lines(struct cli_text *text, struct tn_bytes lines) {
    while (lines.len > 0) {
        const uint8_t *end = memchr(lines.at, '\n', lines.len);
        uint32_t len = end != NULL ? (uint32_t)(end - lines.at) : lines.len;
        uint32_t shown = len > 0 && lines.at[len - 1] == '\r' ? len - 1 : len;
        cli_text_clean(text, tn_bytes_of(lines.at, shown));
        cli_text_put(text, "\n");
        len += end != NULL;
        lines = tn_bytes_of(lines.at + len, lines.len - len);
    }
}

/* The value of key=value in a line, up to the next blank. */
static struct tn_bytes line_field(struct tn_bytes line, const char *key) {
    size_t key_len = strlen(key);
    for (uint32_t i = 0; i + key_len < line.len; i++) {
        if ((i == 0 || line.at[i - 1] == ' ') && memcmp(line.at + i, key, key_len) == 0 &&
            line.at[i + key_len] == '=') {
            uint32_t from = i + (uint32_t)key_len + 1;
            uint32_t to = from;
            while (to < line.len && line.at[to] != ' ') {
                to++;
            }
            return tn_bytes_of(line.at + from, to - from);
        }
    }
    return tn_bytes_of(NULL, 0);
}

static bool show_clients(struct tn_bytes lines, const struct cli_view *view, FILE *out) {
    static const char *const keys[] = {"id",  "addr", "name", "age",     "idle",
                                       "cmd", "user", "resp", "lib-name"};
    static const char *const names[] = {"ID",   "ADDRESS", "NAME", "AGE",    "IDLE",
                                        "LAST", "USER",    "RESP", "LIBRARY"};
    struct cli_table table = {.screen = view->screen, .changes = view->changes};
    for (unsigned i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        cli_table_column(&table, names[i], i == 0 || i == 3 || i == 4);
        table.columns[i].ticking = i == 3 || i == 4;
    }
    while (lines.len > 0) {
        const uint8_t *end = memchr(lines.at, '\n', lines.len);
        uint32_t len = end != NULL ? (uint32_t)(end - lines.at) : lines.len;
        for (unsigned i = 0; len > 0 && i < sizeof keys / sizeof keys[0]; i++) {
            cli_table_cell(&table, line_field(tn_bytes_of(lines.at, len), keys[i]));
        }
        len += end != NULL;
        lines = tn_bytes_of(lines.at + len, lines.len - len);
    }
    return cli_table_flush(&table, out);
}

static void show_time(struct cli_text *text, const struct cli_reader *reader, uint64_t now_ms) {
    uint64_t seconds = 0;
    uint64_t micros = 0;
    if (reader->node_count == 3 && cli_node_number(reader, 1, &seconds) &&
        cli_node_number(reader, 2, &micros)) {
        cli_text_time(text, seconds * 1000 + micros / 1000, now_ms);
        cli_text_put(text, "\n");
    }
}

bool cli_reply_show(const struct protocol_command *row, const struct cli_reader *reader,
                    const struct cli_view *view, FILE *out) {
    struct cli_text text = {.at = NULL};
    if (row->id == PROTOCOL_CLIENT_LIST) {
        return show_clients(cli_node_text(reader, 0), view, out);
    }
    if (row->id == PROTOCOL_TOKEN_KEYS || row->id == PROTOCOL_NODE_LIST) {
        struct cli_list list = {
            .table.screen = view->screen, .table.changes = view->changes, .now_ms = view->now_ms};
        return cli_list_show(&list, reader, UINT64_MAX, out);
    }
    if (row->id == PROTOCOL_TIME) {
        show_time(&text, reader, view->now_ms);
    } else if (reader->nodes[0].type == CLI_MAP) {
        show_map(&text, reader, view->now_ms);
    } else if (reader->nodes[0].type == CLI_STRING) {
        show_lines(&text, cli_node_text(reader, 0));
    } else {
        cli_show_value(&text, reader, 0, "", view->now_ms);
        cli_text_put(&text, "\n");
    }
    if (view->changes != NULL) {
        struct cli_text marked = {.at = NULL};
        cli_changes_lines(view->changes, &text, &marked);
        cli_text_free(&text);
        text = marked;
    }
    bool good = !text.failed;
    (void)fwrite(text.at, 1, text.len, out);
    cli_text_free(&text);
    return good;
}
