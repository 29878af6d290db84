/* Replies as JSON.
 *
 * Each open map or array counts its remaining items; the items of a map are its keys and values in
 * turn. Writing the last item closes the bracket, which counts as an item of the enclosing level.
 * Counting continues after the buffer has overflowed, so a reply always ends at level 0, and the
 * caller can retry with a larger buffer. */
#include "protocol/json.h"

#include "base/assert.h"
#include "protocol/text.h"

_Static_assert(PROTOCOL_NEST_MAX <= 16, "a bit a level");

static bool in_map(const struct protocol_writer *w) {
    return (w->maps >> (w->depth - 1) & 1) != 0;
}

/* Writes a comma, unless this is the first item or the value of a key, as the byte before shows. */
static void item_begin(struct protocol_writer *w) {
    if (w->depth == 0 || w->out.overflow) {
        return;
    }
    uint8_t last = w->out.at[w->out.len - 1];
    if (last != '{' && last != '[' && last != ':') {
        tn_write8(&w->out, ',');
    }
}

static void item_end(struct protocol_writer *w) {
    while (w->depth > 0) {
        uint32_t left = --w->left[w->depth - 1];
        bool map = in_map(w);
        if (left > 0) {
            if (map && left % 2 == 1) {
                tn_write8(&w->out, ':');
            }
            return;
        }
        tn_write8(&w->out, map ? '}' : ']');
        w->depth--;
    }
}

void protocol_json_open(struct protocol_writer *w, bool map, uint32_t count) {
    item_begin(w);
    tn_write8(&w->out, map ? '{' : '[');
    if (count == 0) {
        tn_write8(&w->out, map ? '}' : ']');
        item_end(w);
        return;
    }
    TN_ASSERT(w->depth < PROTOCOL_NEST_MAX && count <= UINT32_MAX / 2);
    w->left[w->depth] = map ? 2 * count : count;
    w->maps = (uint16_t)((w->maps & ~(1u << w->depth)) | (unsigned)map << w->depth);
    w->depth++;
}

void protocol_json_raw(struct protocol_writer *w, const char *text, size_t len) {
    item_begin(w);
    tn_write_raw(&w->out, text, len);
    item_end(w);
}

/* ---- Strings ---- */

static void escape_write(struct protocol_writer *w, uint8_t c) {
    static const char hex[] = "0123456789abcdef";
    static const char from[] = "\"\\\b\f\n\r\t";
    static const char to[] = "\"\\bfnrt";
    const char *known = c != 0 ? strchr(from, c) : NULL;
    char text[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
    if (known != NULL) {
        text[1] = to[known - from];
    }
    tn_write_raw(&w->out, text, known != NULL ? 2 : 6);
}

void protocol_json_string(struct protocol_writer *w, const void *bytes, size_t len) {
    const uint8_t *at = bytes;
    size_t from = 0; /* bytes that need no escape are written in runs */
    item_begin(w);
    tn_write8(&w->out, '"');
    for (size_t i = 0; i < len;) {
        uint32_t size = protocol_utf8_char(at + i, len - i);
        if (size > 0 && at[i] >= ' ' && at[i] != '"' && at[i] != '\\' && at[i] != 0x7f) {
            i += size;
            continue;
        }
        tn_write_raw(&w->out, at + from, i - from);
        if (size == 0) {
            tn_write_raw(&w->out, "\xef\xbf\xbd", 3);
        } else {
            escape_write(w, at[i]);
        }
        from = ++i;
    }
    tn_write_raw(&w->out, at + from, len - from);
    tn_write8(&w->out, '"');
    item_end(w);
}

void protocol_json_embed(struct protocol_writer *w, const void *text, size_t len) {
    const uint8_t *at = text;
    if (len > UINT32_MAX || protocol_json_fault(tn_bytes_of(text, len)) != NULL) {
        protocol_json_string(w, text, len);
        return;
    }
    /* Line ends are blanks between values, and streams of events have a line for each. */
    item_begin(w);
    for (size_t i = 0; i < len; i++) {
        tn_write8(&w->out, at[i] == '\n' || at[i] == '\r' ? ' ' : at[i]);
    }
    item_end(w);
}
