/* Validates names and JSON. JSON is scanned without allocation or recursion; a stack of one bit per
 * level tracks the nesting. */
#include "protocol/text.h"

uint32_t protocol_utf8_char(const uint8_t *at, size_t left) {
    uint8_t c = at[0];
    if (c < 0x80) {
        return 1;
    }
    uint32_t len = c >= 0xf0 ? 4 : (c >= 0xe0 ? 3 : 2);
    if (c < 0xc2 || c > 0xf4 || len > left) {
        return 0;
    }
    for (uint32_t i = 1; i < len; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    bool overlong = (c == 0xe0 && at[1] < 0xa0) || (c == 0xf0 && at[1] < 0x90);
    bool outside = (c == 0xed && at[1] > 0x9f) || (c == 0xf4 && at[1] > 0x8f);
    return overlong || outside ? 0 : len;
}

bool protocol_utf8_valid(struct tn_bytes text) {
    uint32_t at = 0;
    while (at < text.len) {
        uint32_t len = protocol_utf8_char(text.at + at, text.len - at);
        if (len == 0) {
            return false;
        }
        at += len;
    }
    return true;
}

size_t protocol_utf8_cut(const uint8_t *at, size_t len) {
    for (size_t back = 1; back <= 3 && back <= len; back++) {
        uint8_t c = at[len - back];
        if (c >= 0xc0) {
            size_t whole = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
            return whole > back ? back : 0;
        }
        if (c < 0x80) {
            return 0;
        }
    }
    return 0;
}

/* Whether all of eight bytes are printable ASCII: none has its high bit set, is below a blank, or is 0x7f. A
 * subtraction borrows from the next byte only behind a byte that is not printable itself. */
static bool eight_are_printable(uint64_t eight) {
    const uint64_t ones = UINT64_MAX / 255;
    uint64_t control = eight - ones * 0x20;
    uint64_t delete = eight + ones;
    return ((eight | control | delete) & ones * 0x80) == 0;
}

/* Checks eight bytes at a time; the last eight may overlap. */
static bool is_printable(struct tn_bytes name) {
    uint32_t at = 0;
    if (name.len < sizeof(uint64_t)) {
        uint64_t eight = 0x2020202020202020u;
        memcpy(&eight, name.at, name.len);
        return eight_are_printable(eight);
    }
    for (; name.len - at > sizeof(uint64_t); at += (uint32_t)sizeof(uint64_t)) {
        if (!eight_are_printable(tn_load64(name.at + at))) {
            return false;
        }
    }
    return eight_are_printable(tn_load64(name.at + name.len - sizeof(uint64_t)));
}

const char *protocol_name_fault(struct tn_bytes name, uint32_t max) {
    if (name.len == 0) {
        return "it is empty";
    }
    if (name.len > max) {
        return max == 64 ? "it is longer than 64 bytes" : "it is too long";
    }
    if (is_printable(name)) {
        return NULL;
    }
    for (uint32_t i = 0; i < name.len; i++) {
        if (name.at[i] < ' ' || name.at[i] == 0x7f) {
            return "it contains control characters";
        }
    }
    return protocol_utf8_valid(name) ? NULL : "it is not valid UTF-8";
}

/* ---- JSON ---- */

struct scan {
    const uint8_t *at;
    uint32_t len, pos;
};

static int peek(const struct scan *s) {
    return s->pos < s->len ? s->at[s->pos] : -1;
}

static void skip_space(struct scan *s) {
    while (peek(s) == ' ' || peek(s) == '\t' || peek(s) == '\n' || peek(s) == '\r') {
        s->pos++;
    }
}

static bool is_hex(int c) {
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

static bool scan_escape(struct scan *s) {
    int c = peek(s);
    s->pos++;
    if (c == 'u') {
        for (unsigned i = 0; i < 4; i++, s->pos++) {
            if (!is_hex(peek(s))) {
                return false;
            }
        }
        return true;
    }
    return c > 0 && strchr("\"\\/bfnrt", c) != NULL;
}

static bool scan_string(struct scan *s) {
    if (peek(s) != '"') {
        return false;
    }
    s->pos++;
    for (;;) {
        int c = peek(s);
        if (c < ' ') { /* also the end */
            return false;
        }
        s->pos++;
        if (c == '"') {
            return true;
        }
        if (c == '\\' && !scan_escape(s)) {
            return false;
        }
    }
}

static bool scan_digits(struct scan *s) {
    uint32_t first = s->pos;
    while (peek(s) >= '0' && peek(s) <= '9') {
        s->pos++;
    }
    return s->pos > first;
}

static bool scan_number(struct scan *s) {
    s->pos += peek(s) == '-';
    if (peek(s) == '0') {
        s->pos++;
    } else if (!scan_digits(s)) {
        return false;
    }
    if (peek(s) == '.') {
        s->pos++;
        if (!scan_digits(s)) {
            return false;
        }
    }
    if (peek(s) == 'e' || peek(s) == 'E') {
        s->pos++;
        s->pos += peek(s) == '-' || peek(s) == '+';
        return scan_digits(s);
    }
    return true;
}

static bool scan_word(struct scan *s, const char *word) {
    size_t len = strlen(word);
    if (s->len - s->pos < len || memcmp(s->at + s->pos, word, len) != 0) {
        return false;
    }
    s->pos += (uint32_t)len;
    return true;
}

static bool scan_scalar(struct scan *s) {
    switch (peek(s)) {
    case '"':
        return scan_string(s);
    case 't':
        return scan_word(s, "true");
    case 'f':
        return scan_word(s, "false");
    case 'n':
        return scan_word(s, "null");
    default:
        return scan_number(s);
    }
}

static bool scan_key(struct scan *s) {
    skip_space(s);
    if (!scan_string(s)) {
        return false;
    }
    skip_space(s);
    if (peek(s) != ':') {
        return false;
    }
    s->pos++;
    return true;
}

/* Called after a value: closes objects and arrays that end here, and continues with the next
 * value. */
enum after { AFTER_NEXT, AFTER_END, AFTER_BAD };

static enum after scan_after(struct scan *s, uint32_t *objects, uint32_t *depth) {
    for (;;) {
        skip_space(s);
        if (*depth == 0) {
            return s->pos == s->len ? AFTER_END : AFTER_BAD;
        }
        bool object = (*objects & 1) != 0;
        int c = peek(s);
        s->pos++;
        if (c == ',') {
            return !object || scan_key(s) ? AFTER_NEXT : AFTER_BAD;
        }
        if (c != (object ? '}' : ']')) {
            return AFTER_BAD;
        }
        *objects >>= 1;
        --*depth;
    }
}

/* Steps into an object or array; an empty one is a value at once. */
static bool scan_open(struct scan *s, uint32_t *objects, uint32_t *depth, bool *ret_empty) {
    bool object = peek(s) == '{';
    s->pos++;
    skip_space(s);
    *ret_empty = peek(s) == (object ? '}' : ']');
    if (*ret_empty) {
        s->pos++;
        return true;
    }
    *objects = *objects << 1 | object;
    ++*depth;
    return !object || scan_key(s);
}

const char *protocol_json_fault(struct tn_bytes text) {
    struct scan s = {.at = text.at, .len = text.len};
    uint32_t objects = 0; /* a bit a level: an object, not an array */
    uint32_t depth = 0;
    _Static_assert(PROTOCOL_JSON_DEPTH <= 32, "a bit a level");
    skip_space(&s);
    if (peek(&s) != '{') {
        return "it is not a JSON object";
    }
    if (!protocol_utf8_valid(text)) {
        return "it is not valid UTF-8";
    }
    for (;;) {
        skip_space(&s);
        bool whole = true;
        if (peek(&s) == '{' || peek(&s) == '[') {
            if (depth == PROTOCOL_JSON_DEPTH) {
                return "it is nested more than 16 levels deep";
            }
            if (!scan_open(&s, &objects, &depth, &whole)) {
                return "it is not valid JSON";
            }
        } else if (!scan_scalar(&s)) {
            return "it is not valid JSON";
        }
        if (whole) {
            enum after after = scan_after(&s, &objects, &depth);
            if (after != AFTER_NEXT) {
                return after == AFTER_END ? NULL : "it is not valid JSON";
            }
        }
    }
}
