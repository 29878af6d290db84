/* Finds the meaning of columns: by --map, by the names in the first row, or by position. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "cli/import.h"

/* The names of the columns. The first name of each is its own; if a table has several, the upper
 * ones are preferred. */
static const struct {
    const char *name;
    enum import_column column;
    bool own; /* has a meaning only in the output of `tenure export` */
} names[] = {
    {"value", IMPORT_VALUE, false},
    {"vxid", IMPORT_VALUE, false},
    {"vni", IMPORT_VALUE, false},
    {"port", IMPORT_VALUE, false},
    {"cid", IMPORT_VALUE, false},
    {"vsock_cid", IMPORT_VALUE, false},
    {"mac", IMPORT_VALUE, false},
    {"macaddr", IMPORT_VALUE, false},
    {"mac_address", IMPORT_VALUE, false},
    {"id", IMPORT_VALUE, false},
    {"holder", IMPORT_HOLDER, false},
    {"owner", IMPORT_HOLDER, false},
    {"owner_type", IMPORT_OWNER_TYPE, false},
    {"owner_uuid", IMPORT_OWNER_UUID, false},
    {"expires_at", IMPORT_EXPIRES, false},
    {"expires", IMPORT_EXPIRES, false},
    {"deadline", IMPORT_EXPIRES, false},
    {"expiry", IMPORT_EXPIRES, false},
    {"expiration", IMPORT_EXPIRES, false},
    {"expires_on", IMPORT_EXPIRES, false},
    {"expire_at", IMPORT_EXPIRES, false},
    {"lease_expires_at", IMPORT_EXPIRES, false},
    {"valid_until", IMPORT_EXPIRES, false},
    {"ttl", IMPORT_TTL, false},
    {"created_at", IMPORT_CREATED, false},
    {"allocated_at", IMPORT_CREATED, false},
    {"created", IMPORT_CREATED, false},
    {"seen_at", IMPORT_SEEN, true},
    {"offline_at", IMPORT_OFFLINE, true},
    {"scope", IMPORT_SCOPE, true},
    {"pool", IMPORT_POOL, true},
    {"pool_name", IMPORT_POOL, false},
    {"state", IMPORT_STATE, true},
    {"lease", IMPORT_LEASE, true},
    {"epoch", IMPORT_EPOCH, true},
};
#define NAMES (sizeof names / sizeof names[0])

const char *import_column_name(enum import_column column) {
    unsigned i = 0;
    while (names[i].column != column) {
        i++;
    }
    return names[i].name;
}

static bool text_is(struct tn_bytes text, const char *name) {
    return text.len == strlen(name) && strncasecmp((const char *)text.at, name, text.len) == 0;
}

/* ---- --map ---- */

bool import_columns_map(struct import_columns *columns, const char *map) {
    while (*map != '\0') {
        size_t len = strcspn(map, ",");
        size_t key = strcspn(map, "=");
        unsigned i = 0;
        while (i < NAMES && !(key < len && text_is(tn_bytes_of(map, key), names[i].name))) {
            i++;
        }
        if (i == NAMES || key + 1 >= len) {
            (void)snprintf(columns->error, sizeof columns->error,
                           "--map: '%.*s' is not COLUMN=NAME; columns are value, holder, "
                           "owner_type, owner_uuid, expires_at, ttl, created_at, scope",
                           (int)(len < 60 ? len : 60), map);
            return false;
        }
        if (columns->map[names[i].column] != NULL) {
            (void)snprintf(columns->error, sizeof columns->error, "--map: '%s' is repeated",
                           import_column_name(names[i].column));
            return false;
        }
        columns->map[names[i].column] = map + key + 1;
        columns->map_len[names[i].column] = (uint32_t)(len - key - 1);
        map += len + (map[len] == ',');
    }
    return true;
}

static bool find_name(const struct cli_rows *row, const char *name, size_t len,
                      uint32_t *ret_column) {
    for (uint32_t i = 0; i < row->count; i++) {
        if (row->fields[i].len == len &&
            strncasecmp((const char *)row->fields[i].at, name, len) == 0) {
            *ret_column = i + 1;
            return true;
        }
    }
    return false;
}

bool import_columns_named(const struct import_columns *columns, const struct cli_rows *first) {
    uint32_t found;
    for (unsigned i = 0; i < IMPORT_COLUMNS; i++) {
        if (columns->map[i] != NULL &&
            find_name(first, columns->map[i], columns->map_len[i], &found)) {
            return true;
        }
    }
    for (unsigned i = 0; i < NAMES; i++) {
        if (find_name(first, names[i].name, strlen(names[i].name), &found)) {
            return true;
        }
    }
    return false;
}

/* ---- Places ---- */

static bool place_mapped(struct import_columns *columns, const struct cli_rows *first, bool named) {
    for (unsigned i = 0; i < IMPORT_COLUMNS; i++) {
        uint64_t number;
        struct tn_bytes text = tn_bytes_of(columns->map[i], columns->map_len[i]);
        if (columns->map[i] == NULL ||
            (named && find_name(first, columns->map[i], columns->map_len[i], &columns->at[i]))) {
            continue;
        }
        if (!cli_number_parse(text, &number) || number == 0 || number > CLI_ROW_FIELDS) {
            (void)snprintf(columns->error, sizeof columns->error,
                           "--map: cannot take %s from the column '%.*s': %s",
                           import_column_name((enum import_column)i), (int)text.len,
                           (const char *)text.at,
                           named ? "the first line has no such name"
                                 : "without a header line, columns are numbers from 1");
            return false;
        }
        columns->at[i] = (uint32_t)number;
    }
    return true;
}

/* Whether --map has decided the column. */
static bool is_decided(const struct import_columns *columns, enum import_column column) {
    switch (column) {
    case IMPORT_HOLDER:
        return columns->map[IMPORT_HOLDER] != NULL || columns->map[IMPORT_OWNER_UUID] != NULL;
    case IMPORT_OWNER_TYPE:
    case IMPORT_OWNER_UUID:
        return columns->map[IMPORT_HOLDER] != NULL || columns->map[column] != NULL;
    case IMPORT_EXPIRES:
    case IMPORT_TTL:
        return columns->map[IMPORT_EXPIRES] != NULL || columns->map[IMPORT_TTL] != NULL;
    default:
        return columns->map[column] != NULL;
    }
}

static void place_named(struct import_columns *columns, const struct cli_rows *first) {
    uint32_t lease = 0, epoch = 0;
    bool own = find_name(first, "lease", 5, &lease) && find_name(first, "epoch", 5, &epoch);
    for (unsigned i = 0; i < NAMES; i++) {
        enum import_column column = names[i].column;
        if (columns->at[column] == 0 && !is_decided(columns, column) && (own || !names[i].own)) {
            (void)find_name(first, names[i].name, strlen(names[i].name), &columns->at[column]);
        }
    }
}

bool import_columns_place(struct import_columns *columns, const struct cli_rows *first,
                          bool named) {
    bool mapped = false;
    for (unsigned i = 0; i < IMPORT_COLUMNS; i++) {
        mapped = mapped || columns->map[i] != NULL;
    }
    if (!place_mapped(columns, first, named)) {
        return false;
    }
    if (named) {
        place_named(columns, first);
    } else if (!mapped) {
        columns->at[IMPORT_VALUE] = 1;
        columns->at[IMPORT_HOLDER] = 2;
        columns->at[IMPORT_EXPIRES] = first->count >= 3 ? 3 : 0;
    }
    if (columns->at[IMPORT_HOLDER] != 0) {
        columns->parts[0] = columns->at[IMPORT_OWNER_TYPE];
        columns->parts[1] = columns->at[IMPORT_OWNER_UUID];
        columns->at[IMPORT_OWNER_TYPE] = columns->at[IMPORT_OWNER_UUID] = 0;
    }
    const char *missing = columns->at[IMPORT_VALUE] == 0 ? "value" : "holder";
    if (columns->at[IMPORT_VALUE] == 0 ||
        (columns->at[IMPORT_HOLDER] == 0 && columns->at[IMPORT_OWNER_UUID] == 0)) {
        (void)snprintf(columns->error, sizeof columns->error,
                       "cannot find the column of the %s; use --map %s=NAME, or a number", missing,
                       missing);
        return false;
    }
    return true;
}

bool import_columns_ignored(const struct import_columns *columns, const struct cli_rows *first,
                            struct cli_text *text) {
    bool some = false;
    for (uint32_t i = 0; i < first->count; i++) {
        bool used = columns->parts[0] == i + 1 || columns->parts[1] == i + 1;
        for (unsigned column = 0; column < IMPORT_COLUMNS; column++) {
            used = used || columns->at[column] == i + 1;
        }
        if (!used) {
            cli_text_put(text, some ? ", " : "");
            cli_text_clean(text, first->fields[i]);
            some = true;
        }
    }
    return some;
}
