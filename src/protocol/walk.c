/* Iterates over JSON and decodes its strings. */
#include "protocol/walk.h"

static bool is_space(uint8_t c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static const uint8_t *skip_space(const uint8_t *at, const uint8_t *end) {
    while (at < end && is_space(*at)) {
        at++;
    }
    return at;
}

/* From the opening quote to behind the closing one. */
static const uint8_t *skip_string(const uint8_t *at, const uint8_t *end) {
    at++;
    while (at < end && *at != '"') {
        at += *at == '\\' ? 2 : 1;
    }
    return at < end ? at + 1 : end;
}

static const uint8_t *skip_value(const uint8_t *at, const uint8_t *end) {
    uint32_t depth = 0;
    do {
        if (at < end && *at == '"') {
            at = skip_string(at, end);
        } else if (at < end && (*at == '{' || *at == '[')) {
            depth++;
            at++;
        } else if (at < end && (*at == '}' || *at == ']')) {
            depth--;
            at++;
        } else if (depth > 0) {
            at++; /* between things */
        } else {
            while (at < end && !is_space(*at) && *at != ',' && *at != '}' && *at != ']') {
                at++;
            }
        }
    } while (depth > 0 && at < end);
    return at;
}

enum protocol_json_kind protocol_json_kind(struct tn_bytes value) {
    switch (value.len > 0 ? value.at[0] : 'n') {
    case '{':
        return PROTOCOL_JSON_OBJECT;
    case '[':
        return PROTOCOL_JSON_ARRAY;
    case '"':
        return PROTOCOL_JSON_STRING;
    case 't':
        return PROTOCOL_JSON_TRUE;
    case 'f':
        return PROTOCOL_JSON_FALSE;
    case 'n':
        return PROTOCOL_JSON_NULL;
    default:
        return PROTOCOL_JSON_NUMBER;
    }
}

struct protocol_walk protocol_walk_of(struct tn_bytes container) {
    const uint8_t *end = container.at + container.len;
    const uint8_t *at = skip_space(container.at, end);
    bool object = at < end && *at == '{';
    return (struct protocol_walk){.at = at < end ? at + 1 : end, .end = end, .object = object};
}

bool protocol_walk_next(struct protocol_walk *walk, struct tn_bytes *ret_key,
                        struct tn_bytes *ret_value) {
    const uint8_t *at = skip_space(walk->at, walk->end);
    if (at < walk->end && *at == ',') {
        at = skip_space(at + 1, walk->end);
    }
    if (at == walk->end || *at == '}' || *at == ']') {
        walk->at = walk->end;
        return false;
    }
    *ret_key = tn_bytes_of(at, 0);
    if (walk->object) {
        const uint8_t *behind = skip_string(at, walk->end);
        *ret_key = tn_bytes_of(at, (size_t)(behind - at));
        at = skip_space(behind, walk->end);
        at = skip_space(at < walk->end ? at + 1 : at, walk->end); /* the colon */
    }
    walk->at = skip_value(at, walk->end);
    *ret_value = tn_bytes_of(at, (size_t)(walk->at - at));
    return true;
}

/* ---- Strings ---- */

static uint32_t hex4(const uint8_t *at) {
    uint32_t value = 0;
    for (unsigned i = 0; i < 4; i++) {
        uint8_t c = at[i];
        value = value << 4 | (uint32_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return value;
}

static void utf8_write(struct tn_writer *out, uint32_t c) {
    uint8_t bytes[4];
    size_t len = c < 0x80 ? 1 : (c < 0x800 ? 2 : (c < 0x10000 ? 3 : 4));
    for (size_t i = len; i-- > 1; c >>= 6) {
        bytes[i] = (uint8_t)(0x80 | (c & 0x3f));
    }
    static const uint8_t marks[] = {0, 0, 0xc0, 0xe0, 0xf0};
    bytes[0] = (uint8_t)(marks[len] | c);
    tn_write_raw(out, bytes, len);
}

/* Reads what follows \u: one code unit, or a pair. Returns the bytes consumed; 0: not a
 * character. */
static uint32_t unicode_read(const uint8_t *at, const uint8_t *end, struct tn_writer *out) {
    uint32_t c = hex4(at);
    if (c == 0 || (c >= 0xdc00 && c <= 0xdfff)) {
        return 0;
    }
    if (c < 0xd800 || c > 0xdbff) {
        utf8_write(out, c);
        return 4;
    }
    if (end - at < 10 || at[4] != '\\' || at[5] != 'u') {
        return 0;
    }
    uint32_t low = hex4(at + 6);
    if (low < 0xdc00 || low > 0xdfff) {
        return 0;
    }
    utf8_write(out, 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00));
    return 10;
}

static uint8_t escape_of(uint8_t c) {
    static const char from[] = "bfnrt";
    static const char to[] = "\b\f\n\r\t";
    const char *known = strchr(from, c);
    return known != NULL ? (uint8_t)to[known - from] : c;
}

bool protocol_json_text(struct tn_bytes string, struct tn_writer *out, struct tn_bytes *ret_text) {
    const uint8_t *at = string.at + 1;
    const uint8_t *end = string.at + string.len - 1;
    size_t begin = out->len;
    while (at < end) {
        if (*at != '\\') {
            tn_write8(out, *at++);
        } else if (at[1] == 'u') {
            uint32_t used = unicode_read(at + 2, end, out);
            if (used == 0) {
                return false;
            }
            at += 2 + used;
        } else {
            tn_write8(out, escape_of(at[1]));
            at += 2;
        }
    }
    *ret_text = tn_bytes_of(out->at + begin, out->overflow ? 0 : out->len - begin);
    return !out->overflow;
}
