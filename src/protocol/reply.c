/* The reply writer: RESP2 and RESP3 types; for JSON see json.c. Most replies are RESP, so the question
 * whether it is JSON is one that the processor guesses right. */
#include "protocol/json.h"

static inline bool is_json(const struct protocol_writer *w) {
    return __builtin_expect(w->encoding == PROTOCOL_JSON, 0);
}

static inline bool is_resp3(const struct protocol_writer *w) {
    return w->encoding == PROTOCOL_RESP3;
}

/* '*' or '$' or ':' and such, a number, the end of the line. */
static void write_head(struct protocol_writer *w, char type, uint64_t number, bool negative) {
    uint8_t line[32];
    size_t at = sizeof line;
    line[--at] = '\n';
    line[--at] = '\r';
    do {
        line[--at] = (uint8_t)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    if (negative) {
        line[--at] = '-';
    }
    line[--at] = (uint8_t)type;
    tn_write_raw(&w->out, line + at, sizeof line - at);
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

void protocol_write_simple(struct protocol_writer *w, const char *text) {
    if (is_json(w)) {
        protocol_json_string(w, text, strlen(text));
        return;
    }
    tn_write8(&w->out, '+');
    tn_write_raw(&w->out, text, strlen(text));
    write_end(w);
}

void protocol_write_error(struct protocol_writer *w, const char *text) {
    if (is_json(w)) {
        protocol_json_string(w, text, strlen(text));
        return;
    }
    tn_write8(&w->out, '-');
    for (; *text != '\0'; text++) {
        uint8_t c = (uint8_t)*text;
        tn_write8(&w->out, c >= ' ' && c != 0x7f ? c : '?');
    }
    write_end(w);
}

void protocol_write_json(struct protocol_writer *w, const void *text, size_t len) {
    if (is_json(w)) {
        protocol_json_embed(w, text, len);
    } else {
        protocol_write_bulk(w, text, len);
    }
}

/* Digits at the end of `text`; returns where they begin. */
#define DIGITS_MAX 20u
static size_t digits_of(uint64_t number, char text[DIGITS_MAX]) {
    size_t at = DIGITS_MAX;
    do {
        text[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    return at;
}

void protocol_write_integer(struct protocol_writer *w, int64_t number) {
    bool negative = number < 0;
    uint64_t size = negative ? 0 - (uint64_t)number : (uint64_t)number;
    if (is_json(w)) {
        char text[DIGITS_MAX + 1];
        size_t at = digits_of(size, text + 1) + 1;
        if (negative) {
            text[--at] = '-';
        }
        protocol_json_raw(w, text + at, sizeof text - at);
        return;
    }
    write_head(w, ':', size, negative);
}

void protocol_write_u64(struct protocol_writer *w, uint64_t number) {
    if (number <= INT64_MAX && !is_json(w)) {
        write_head(w, ':', number, false);
        return;
    }
    char digits[DIGITS_MAX];
    size_t at = digits_of(number, digits);
    protocol_write_bulk(w, digits + at, sizeof digits - at);
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
