/* The reply to a command on one lease in RESP: nearly all replies are of this form. The bytes between the
 * numbers are always the same, so they are copied in long pieces, and the room is checked once. The writer
 * of any reply (render.c) makes the same bytes with ten times the instructions; a test compares them. */
#include <string.h>

#include "base/decimal.h"
#include "protocol/render.h"

/* The pieces below, six numbers, and a lease. */
#define QUICK_ROOM 384u

struct word {
    const char *bulk; /* with the length before it and the CRLF after it */
    uint32_t len;
};

#define WORD(digit, text) \
    { .bulk = "$" digit "\r\n" text "\r\n", .len = sizeof(text) - 1 + 6 }

/* Those that a lease has after a command that succeeded. */
static const struct word states[KERNEL_STATE_COUNT] = {
    [KERNEL_RESERVED] = WORD("8", "reserved"), [KERNEL_ACTIVE] = WORD("6", "active"),
    [KERNEL_OFFLINE] = WORD("7", "offline"),   [KERNEL_REVOKING] = WORD("8", "revoking"),
    [KERNEL_RELEASED] = WORD("8", "released"), [KERNEL_EXPIRED] = WORD("7", "expired"),
    [KERNEL_REVOKED] = WORD("7", "revoked"),   [KERNEL_WAITING] = WORD("7", "waiting"),
};

#define PUT(at, literal) put(at, literal, sizeof(literal) - 1)

static inline char *put(char *at, const char *bytes, size_t len) {
    memcpy(at, bytes, len);
    return at + len;
}

/* Shards, epochs and lengths are often one digit. */
static inline char *put_number(char *at, uint64_t number) {
    if (number < 10) {
        *at = (char)('0' + number);
        return at + 1;
    }
    return at + tn_decimal(number, at);
}

/* "$", the length, which is below 100, the end of the line. */
static inline char *put_bulk_head(char *at, uint32_t len) {
    *at++ = '$';
    if (len >= 10) {
        *at++ = (char)('0' + len / 10);
    }
    *at++ = (char)('0' + len % 10);
    return PUT(at, "\r\n");
}

static inline char *put_lease(char *at, struct kernel_lease_id lease) {
    at = put_bulk_head(at, tn_decimal_count(lease.shard) + 1 + tn_decimal_count(lease.lsn));
    at = put_number(at, lease.shard);
    *at++ = '-';
    return put_number(at, lease.lsn);
}

static inline char *put_value(char *at, const struct kernel_value *value) {
    char text[KERNEL_VALUE_TEXT_MAX];
    if (value->format == KERNEL_DEC) {
        at = put_bulk_head(at, tn_decimal_count(value->number));
        return put_number(at, value->number);
    }
    uint32_t len = kernel_value_format((enum kernel_format)value->format, value->number, text);
    at = put_bulk_head(at, len);
    return put(at, text, len);
}

static inline char *put_head(char *at, const struct kernel_result *result, bool three,
                             bool values) {
    if (three) {
        at = values ? PUT(at, "%8\r\n$6\r\nresult\r\n") : PUT(at, "%7\r\n$6\r\nresult\r\n");
    } else {
        at = values ? PUT(at, "*16\r\n$6\r\nresult\r\n") : PUT(at, "*14\r\n$6\r\nresult\r\n");
    }
    return result->code == TN_R_OK ? PUT(at, "$2\r\nOK\r\n$5\r\nlease\r\n")
                                   : PUT(at, "$4\r\nNOOP\r\n$5\r\nlease\r\n");
}

static inline char *put_deadline(char *at, uint64_t deadline_ms, bool three) {
    if (deadline_ms != 0) {
        *at++ = ':';
        at = put_number(at, deadline_ms);
        return PUT(at, "\r\n");
    }
    return three ? PUT(at, "_\r\n") : PUT(at, "$-1\r\n");
}

static inline char *put_end(char *at, bool replayed, bool three) {
    at = PUT(at, "\r\n$8\r\nreplayed\r\n");
    if (three) {
        return replayed ? PUT(at, "#t\r\n") : PUT(at, "#f\r\n");
    }
    return replayed ? PUT(at, ":1\r\n") : PUT(at, ":0\r\n");
}

/* Numbers beyond INT64_MAX are written as text. */
static bool result_fits(const struct kernel_result *result, bool values) {
    bool value = !values || (result->value_count == 1 && result->values[0].name_len == 0);
    return value && result->has_lease && result->waited_ms == 0 &&
           (result->lsn | result->epoch | result->deadline_ms) <= INT64_MAX &&
           (unsigned)result->state < KERNEL_STATE_COUNT && states[result->state].len > 0;
}

bool protocol_render_quick(struct protocol_writer *w, const struct kernel_result *result,
                           bool values) {
    if (w->encoding == PROTOCOL_JSON || w->out.overflow ||
        w->out.capacity - w->out.len < QUICK_ROOM || !result_fits(result, values)) {
        return false;
    }
    bool three = w->encoding == PROTOCOL_RESP3;
    const struct word *state = &states[result->state];
    char *begin = (char *)w->out.at + w->out.len;
    char *at = put_head(begin, result, three, values);
    at = put_lease(at, result->lease);
    at = PUT(at, "\r\n$5\r\nepoch\r\n:");
    at = put_number(at, result->epoch);
    at = PUT(at, "\r\n$5\r\nstate\r\n");
    at = put(at, state->bulk, state->len);
    at = PUT(at, "$8\r\ndeadline\r\n");
    at = put_deadline(at, result->deadline_ms, three);
    if (values) {
        at = PUT(at, "$6\r\nvalues\r\n*1\r\n");
        at = put_value(at, &result->values[0]);
        at = PUT(at, "\r\n");
    }
    at = PUT(at, "$3\r\nlsn\r\n:");
    at = put_number(at, result->lsn);
    at = put_end(at, result->replayed, three);
    w->out.len += (size_t)(at - begin);
    return true;
}
