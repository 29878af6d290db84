/* The reply writer: RESP2 and RESP3 types; for JSON see json.c. Most replies are RESP, so the
 * processor predicts the check for JSON correctly. */
#include <string.h>

#include "base/decimal.h"
#include "protocol/json.h"

static inline bool is_json(const struct protocol_writer *w) {
    return __builtin_expect(w->encoding == PROTOCOL_JSON, 0);
}

static inline bool is_resp3(const struct protocol_writer *w) {
    return w->encoding == PROTOCOL_RESP3;
}

/* '*' or '$' or ':' and such, a number, the end of the line. */
#define HEAD_MAX (2 + TN_DECIMAL_MAX + 2)

static size_t head_format(char out[HEAD_MAX], char type, uint64_t number, bool negative) {
    size_t len = 0;
    out[len++] = type;
    if (negative) {
        out[len++] = '-';
    }
    if (number < 10) { /* most are lengths of short words */
        out[len++] = (char)('0' + number);
    } else {
        len += tn_decimal(number, out + len);
    }
    out[len++] = '\r';
    out[len++] = '\n';
    return len;
}

static bool has_room(const struct tn_writer *out, size_t len) {
    return !out->overflow && out->capacity - out->len >= len;
}

static void write_head(struct protocol_writer *w, char type, uint64_t number, bool negative) {
    char line[HEAD_MAX];
    if (has_room(&w->out, HEAD_MAX)) {
        w->out.len += head_format((char *)w->out.at + w->out.len, type, number, negative);
    } else {
        tn_write_raw(&w->out, line, head_format(line, type, number, negative));
    }
}

static void write_end(struct protocol_writer *w) {
    tn_write_raw(&w->out, "\r\n", 2);
}

void protocol_write_map(struct protocol_writer *w, uint32_t pairs) {
    if (is_json(w)) {
        protocol_json_open(w, true, pairs);
        return;
    }
    if (is_resp3(w)) {
        write_head(w, '%', pairs, false);
    } else {
        write_head(w, '*', 2 * (uint64_t)pairs, false);
    }
}

void protocol_write_array(struct protocol_writer *w, uint32_t count) {
    if (is_json(w)) {
        protocol_json_open(w, false, count);
        return;
    }
    write_head(w, '*', count, false);
}

void protocol_write_set(struct protocol_writer *w, uint32_t count) {
    if (is_json(w)) {
        protocol_json_open(w, false, count);
        return;
    }
    write_head(w, is_resp3(w) ? '~' : '*', count, false);
}

void protocol_write_push(struct protocol_writer *w, uint32_t count) {
    if (is_json(w)) {
        protocol_json_open(w, false, count);
        return;
    }
    write_head(w, is_resp3(w) ? '>' : '*', count, false);
}

void protocol_write_bulk(struct protocol_writer *w, const void *bytes, size_t len) {
    if (is_json(w)) {
        protocol_json_string(w, bytes, len);
        return;
    }
    if (has_room(&w->out, HEAD_MAX + len + 2)) {
        uint8_t *at = w->out.at + w->out.len;
        at += head_format((char *)at, '$', len, false);
        if (len > 0) {
            memcpy(at, bytes, len);
        }
        at[len] = '\r';
        at[len + 1] = '\n';
        w->out.len = (size_t)(at + len + 2 - w->out.at);
        return;
    }
    write_head(w, '$', len, false);
    tn_write_raw(&w->out, bytes, len);
    write_end(w);
}

void protocol_write_text(struct protocol_writer *w, const char *text) {
    protocol_write_bulk(w, text, strlen(text));
}

void protocol_write_verbatim(struct protocol_writer *w, const char *text, size_t len) {
    if (!is_resp3(w)) {
        protocol_write_bulk(w, text, len);
        return;
    }
    write_head(w, '=', len + 4, false);
    tn_write_raw(&w->out, "txt:", 4);
    tn_write_raw(&w->out, text, len);
    write_end(w);
}

void protocol_write_rendered(struct protocol_writer *w, const void *bytes, size_t len) {
    if (is_json(w)) {
        protocol_json_raw(w, bytes, len);
    } else {
        tn_write_raw(&w->out, bytes, len);
    }
}

void protocol_write_simple(struct protocol_writer *w, const char *text) {
    if (is_json(w)) {
        protocol_json_string(w, text, strlen(text));
        return;
    }
    tn_write8(&w->out, '+');
    tn_write_raw(&w->out, text, strlen(text));
    write_end(w);
}

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/* Whether eight bytes are all printable ASCII, ' ' to '~'. */
static inline bool all_printable(uint64_t word) {
    return ((word | (word + EACH(1))) & EACH(0x80)) == 0 &&
           ((word + EACH(0x80 - ' ')) & EACH(0x80)) == EACH(0x80);
}

/* Replaces what would end the line or move a terminal's cursor. */
static void line_clean(uint8_t *at, size_t len) {
    size_t i = 0;
    while (len - i >= 8 && all_printable(tn_load64(at + i))) {
        i += 8;
    }
    for (; i < len; i++) {
        at[i] = at[i] >= ' ' && at[i] != 0x7f ? at[i] : '?';
    }
}

void protocol_write_error(struct protocol_writer *w, const char *text) {
    if (is_json(w)) {
        protocol_json_string(w, text, strlen(text));
        return;
    }
    tn_write8(&w->out, '-');
    size_t start = w->out.len;
    tn_write_raw(&w->out, text, strlen(text));
    line_clean(w->out.at + start, w->out.len - start);
    write_end(w);
}

void protocol_write_json(struct protocol_writer *w, const void *text, size_t len) {
    if (is_json(w)) {
        protocol_json_embed(w, text, len);
    } else {
        protocol_write_bulk(w, text, len);
    }
}

void protocol_write_integer(struct protocol_writer *w, int64_t number) {
    bool negative = number < 0;
    uint64_t size = negative ? 0 - (uint64_t)number : (uint64_t)number;
    if (is_json(w)) {
        char text[TN_DECIMAL_MAX + 1] = "-";
        size_t len = tn_decimal(size, text + negative);
        protocol_json_raw(w, text, len + negative);
        return;
    }
    write_head(w, ':', size, negative);
}

void protocol_write_u64(struct protocol_writer *w, uint64_t number) {
    if (number <= INT64_MAX && !is_json(w)) {
        write_head(w, ':', number, false);
        return;
    }
    char digits[TN_DECIMAL_MAX];
    protocol_write_bulk(w, digits, tn_decimal(number, digits));
}

void protocol_write_micro(struct protocol_writer *w, uint64_t micro) {
    char text[32];
    size_t at = sizeof text;
    uint64_t part = micro % 1000000;
    if (part > 0) {
        unsigned digits = 6;
        for (; part % 10 == 0; digits--) {
            part /= 10;
        }
        for (; digits > 0; digits--) {
            text[--at] = (char)('0' + part % 10);
            part /= 10;
        }
        text[--at] = '.';
    }
    micro /= 1000000;
    do {
        text[--at] = (char)('0' + micro % 10);
        micro /= 10;
    } while (micro > 0);
    if (is_json(w)) {
        protocol_json_raw(w, text + at, sizeof text - at);
        return;
    }
    if (!is_resp3(w)) {
        protocol_write_bulk(w, text + at, sizeof text - at);
        return;
    }
    tn_write8(&w->out, ',');
    tn_write_raw(&w->out, text + at, sizeof text - at);
    write_end(w);
}

void protocol_write_boolean(struct protocol_writer *w, bool value) {
    if (is_json(w)) {
        protocol_json_raw(w, value ? "true" : "false", value ? 4 : 5);
        return;
    }
    if (is_resp3(w)) {
        tn_write_raw(&w->out, value ? "#t\r\n" : "#f\r\n", 4);
    } else {
        write_head(w, ':', value, false);
    }
}

void protocol_write_null(struct protocol_writer *w) {
    if (is_json(w)) {
        protocol_json_raw(w, "null", 4);
        return;
    }
    if (is_resp3(w)) {
        tn_write_raw(&w->out, "_\r\n", 3);
    } else {
        tn_write_raw(&w->out, "$-1\r\n", 5);
    }
}
