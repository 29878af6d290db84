/* Converts a row to a lease. Errors that can be found without the server are found here, so that
 * the reason can quote the row. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/duration.h"
#include "cli/import.h"
#include "protocol/text.h"

__attribute__((format(printf, 3, 4))) static bool refuse(struct import_row *row,
                                                         enum tn_result result, const char *format,
                                                         ...) {
    char words[300];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    row->result = result;
    row->reason.len = 0;
    cli_text_put(&row->reason, words);
    return false;
}

/* Empty if the column is missing. */
static struct tn_bytes field(const struct import_columns *columns, const struct cli_rows *rows,
                             enum import_column column) {
    uint32_t at = columns->at[column];
    return at != 0 && at <= rows->count ? rows->fields[at - 1] : tn_bytes_of("", 0);
}

static bool columns_there(struct import_row *row, const struct import_columns *columns,
                          const struct cli_rows *rows) {
    for (unsigned i = 0; i < IMPORT_COLUMNS; i++) {
        if (columns->at[i] > rows->count) {
            return refuse(row, TN_R_MALFORMED, "too few columns: %u, and the %s is in column %u",
                          rows->count, import_column_name((enum import_column)i), columns->at[i]);
        }
    }
    return true;
}

/* ---- Names ---- */

static void holder_write(struct import_row *row, const struct import_columns *columns,
                         const struct cli_rows *rows) {
    struct tn_bytes type = field(columns, rows, IMPORT_OWNER_TYPE);
    struct tn_bytes name =
        field(columns, rows, columns->at[IMPORT_HOLDER] != 0 ? IMPORT_HOLDER : IMPORT_OWNER_UUID);
    row->holder.len = 0;
    if (columns->holder_type != NULL) {
        type = tn_bytes_of(columns->holder_type, strlen(columns->holder_type));
    }
    if (type.len > 0 && name.len > 0) {
        cli_text_add(&row->holder, type.at, type.len);
        cli_text_put(&row->holder, "/");
    }
    cli_text_add(&row->holder, name.at, name.len);
}

static bool holder_check(struct import_row *row) {
    if (row->holder.len == 0) {
        return refuse(row, TN_R_BAD_NAME, "the holder is empty");
    }
    const char *fault =
        protocol_name_fault(tn_bytes_of(row->holder.at, row->holder.len), KERNEL_HOLDER_MAX);
    return fault == NULL || refuse(row, TN_R_BAD_NAME, "the holder: %s", fault);
}

/* The pool: the given one, its scope from a column, or the pool that the row names if that is one
 * of these. */
static bool pool_write(struct import_row *row, const struct import_columns *columns,
                       const struct import_pool *pool, const struct cli_rows *rows) {
    struct tn_bytes scope = field(columns, rows, IMPORT_SCOPE);
    struct tn_bytes named = field(columns, rows, IMPORT_POOL);
    size_t len = strlen(pool->name);
    row->pool.len = 0;
    cli_text_put(&row->pool, pool->name);
    if (columns->at[IMPORT_SCOPE] != 0) {
        cli_text_put(&row->pool, "@");
        cli_text_add(&row->pool, scope.at, scope.len);
    } else if (named.len > 0) {
        bool same = named.len == len && memcmp(named.at, pool->name, len) == 0;
        bool inside = pool->scoped && named.len > len && named.at[len] == '@' &&
                      memcmp(named.at, pool->name, len) == 0;
        if (!same && !inside) {
            return refuse(row, TN_R_CONFLICT, "this row belongs to another pool");
        }
        cli_text_add(&row->pool, named.at + len, named.len - len);
    }
    if (!kernel_name_pool_valid(tn_bytes_of(row->pool.at, row->pool.len), true)) {
        return refuse(row, TN_R_BAD_NAME, "the scope is empty or has invalid characters");
    }
    if (pool->scoped && row->pool.len == len) {
        return refuse(row, TN_R_MALFORMED, "the row has no scope");
    }
    return true;
}

/* ---- The value ---- */

static bool value_check(struct import_row *row, const struct import_pool *pool) {
    static const char *const kinds[] = {"a number", "a number in hex", "a MAC address",
                                        "an IPv4 address"};
    char lo[KERNEL_VALUE_TEXT_MAX], hi[KERNEL_VALUE_TEXT_MAX];
    if (row->value.len == 0) {
        return refuse(row, TN_R_BAD_VALUE, "the value is empty");
    }
    if (pool->set) {
        return kernel_name_resource_valid(row->value) ||
               refuse(row, TN_R_BAD_VALUE, "this is not a resource name");
    }
    if (!kernel_value_parse(pool->format, row->value, &row->number)) {
        return refuse(row, TN_R_BAD_VALUE, "the value is not %s", kinds[pool->format]);
    }
    if (pool->scoped) {
        return true; /* each scope may have its own range, which the server knows */
    }
    (void)kernel_value_format(pool->format, pool->lo, lo);
    (void)kernel_value_format(pool->format, pool->hi, hi);
    if (row->number < pool->lo || row->number > pool->hi) {
        return refuse(row, TN_R_BAD_VALUE, "the value is outside %s..%s", lo, hi);
    }
    return pool->range.span_count == 0 || kernel_policy_contains(&pool->range, row->number) ||
           refuse(row, TN_R_BAD_VALUE, "the value is between two spans of the range");
}

/* ---- Times ---- */

static bool time_read(struct import_row *row, const struct import_columns *columns,
                      const struct cli_rows *rows, enum import_column column, uint64_t *ret_ms) {
    struct tn_bytes text = field(columns, rows, column);
    *ret_ms = 0;
    if (text.len == 0 ||
        (text.len == 8 && strncasecmp((const char *)text.at, "infinity", 8) == 0)) {
        return true;
    }
    if (import_time_parse(text, ret_ms)) {
        *ret_ms += *ret_ms == 0; /* 0 would mean that there is no time */
        return true;
    }
    return refuse(row, column == IMPORT_EXPIRES ? TN_R_BAD_TTL : TN_R_BAD_REQUEST,
                  "%s is neither a date and time nor seconds or milliseconds since 1970",
                  import_column_name(column));
}

static bool ttl_read(struct import_row *row, const struct import_columns *columns,
                     const struct cli_rows *rows, uint64_t now_ms) {
    struct tn_bytes text = field(columns, rows, IMPORT_TTL);
    uint64_t seconds;
    if (text.len == 0) {
        return true;
    }
    if (!tn_duration_parse(text, &seconds) || seconds == 0 || seconds > UINT32_MAX) {
        return refuse(row, TN_R_BAD_TTL, "the ttl is not above 0, or not " TN_DURATION_FORM);
    }
    row->deadline_ms = now_ms + seconds * 1000;
    return true;
}

static bool times_check(struct import_row *row, const struct import_pool *pool, uint64_t now_ms) {
    uint64_t created = row->created_ms != 0 ? row->created_ms : now_ms;
    uint64_t hold_ms = pool->max_hold_s * 1000;
    if (row->created_ms > now_ms || row->seen_ms > now_ms || row->offline_ms > now_ms) {
        return refuse(row, TN_R_BAD_REQUEST, "created or seen is in the future");
    }
    if (hold_ms != 0 && (created + hold_ms <= now_ms || row->deadline_ms > created + hold_ms)) {
        return refuse(row, TN_R_BAD_TTL, "the expiry exceeds the pool's max_hold, %" PRIu64 " s",
                      pool->max_hold_s);
    }
    if (row->deadline_ms == 0) {
        return true;
    }
    if (row->deadline_ms <= now_ms) {
        return refuse(row, TN_R_BAD_TTL, "the expiry has passed");
    }
    if (pool->max_lease_s != 0 && row->deadline_ms - now_ms > pool->max_lease_s * 1000) {
        return refuse(row, TN_R_BAD_TTL, "the expiry exceeds the pool's max_lease, %" PRIu64 " s",
                      pool->max_lease_s);
    }
    return true;
}

static bool state_check(struct import_row *row, const struct import_columns *columns,
                        const struct cli_rows *rows) {
    struct tn_bytes state = field(columns, rows, IMPORT_STATE);
    if (state.len == 0 || tn_bytes_equal(state, tn_bytes_of("active", 6)) ||
        tn_bytes_equal(state, tn_bytes_of("offline", 7))) {
        return true;
    }
    return refuse(row, TN_R_STATE, "only active and offline leases can be imported");
}

bool import_row_read(struct import_row *row, const struct import_columns *columns,
                     const struct import_pool *pool, const struct cli_rows *rows, uint64_t now_ms) {
    row->line = rows->line;
    row->value = field(columns, rows, IMPORT_VALUE);
    row->lease = field(columns, rows, IMPORT_LEASE);
    row->number = 0;
    holder_write(row, columns, rows);
    /* First, so that a refusal can name the pool. */
    bool named = pool_write(row, columns, pool, rows);
    return columns_there(row, columns, rows) && named && value_check(row, pool) &&
           holder_check(row) && state_check(row, columns, rows) &&
           time_read(row, columns, rows, IMPORT_EXPIRES, &row->deadline_ms) &&
           ttl_read(row, columns, rows, now_ms) &&
           time_read(row, columns, rows, IMPORT_CREATED, &row->created_ms) &&
           time_read(row, columns, rows, IMPORT_SEEN, &row->seen_ms) &&
           time_read(row, columns, rows, IMPORT_OFFLINE, &row->offline_ms) &&
           times_check(row, pool, now_ms);
}

void import_row_free(struct import_row *row) {
    cli_text_free(&row->pool);
    cli_text_free(&row->holder);
    cli_text_free(&row->reason);
}
