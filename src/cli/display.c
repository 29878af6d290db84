/* Growing text, columns, times. */
#include "cli/display.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <wchar.h>

#include "kernel/types.h"
#include "protocol/text.h"

#define REPLACEMENT "\xef\xbf\xbd"

void cli_text_free(struct cli_text *text) {
    free(text->at);
    *text = (struct cli_text){.at = NULL};
}

/* Makes room for `len` more bytes and the NUL. */
static bool text_room(struct cli_text *text, size_t len) {
    if (text->failed) {
        return false;
    }
    if (text->capacity - text->len > len) {
        return true;
    }
    size_t capacity = text->capacity < 128 ? 256 : 2 * text->capacity;
    while (capacity - text->len <= len) {
        capacity *= 2;
    }
    char *at = realloc(text->at, capacity);
    if (at == NULL) {
        text->failed = true;
        return false;
    }
    text->at = at;
    text->capacity = capacity;
    return true;
}

void cli_text_add(struct cli_text *text, const void *bytes, size_t len) {
    if (text_room(text, len)) {
        if (len > 0) {
            memcpy(text->at + text->len, bytes, len);
        }
        text->len += len;
        text->at[text->len] = '\0';
    }
}

void cli_text_put(struct cli_text *text, const char *words) {
    cli_text_add(text, words, strlen(words));
}

void cli_text_printf(struct cli_text *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (len < 0 || !text_room(text, (size_t)len)) {
        return;
    }
    va_start(arguments, format);
    (void)vsnprintf(text->at + text->len, (size_t)len + 1, format, arguments);
    va_end(arguments);
    text->len += (size_t)len;
}

/* ---- Characters ---- */

uint32_t cli_char_next(const uint8_t *at, size_t left, uint32_t *ret_char) {
    uint32_t len = protocol_utf8_char(at, left);
    uint32_t character = len > 1 ? at[0] & (0x7fu >> len) : at[0];
    for (uint32_t i = 1; i < len; i++) {
        character = character << 6 | (at[i] & 0x3fu);
    }
    *ret_char = character;
    return len;
}

bool cli_char_is_control(uint32_t character) {
    return character < ' ' || (character >= 0x7f && character < 0xa0) || character == 0x2028 ||
           character == 0x2029 || (character >= 0x202a && character <= 0x202e) ||
           (character >= 0x2066 && character <= 0x2069);
}

void cli_text_clean(struct cli_text *text, struct tn_bytes bytes) {
    cli_text_put(text, ""); /* an empty text, too, must exist */
    for (uint32_t i = 0; i < bytes.len;) {
        uint32_t character = 0;
        uint32_t len = cli_char_next(bytes.at + i, bytes.len - i, &character);
        if (len == 0 || cli_char_is_control(character)) {
            cli_text_put(text, REPLACEMENT);
        } else {
            cli_text_add(text, bytes.at + i, len);
        }
        i += len > 0 ? len : 1;
    }
}

void cli_text_shell(struct cli_text *text, const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-./:@%+=,";
    size_t len = strlen(word);
    if (len > 0 && strspn(word, plain) == len) {
        cli_text_add(text, word, len);
        return;
    }
    cli_text_put(text, "'");
    for (; *word != '\0'; word++) {
        if (*word == '\'') {
            cli_text_put(text, "'\\''");
        } else {
            cli_text_add(text, word, 1);
        }
    }
    cli_text_put(text, "'");
}

void cli_text_json(struct cli_text *text, struct tn_bytes bytes) {
    cli_text_put(text, "\"");
    for (uint32_t i = 0; i < bytes.len;) {
        uint32_t character = 0;
        uint32_t len = cli_char_next(bytes.at + i, bytes.len - i, &character);
        if (len == 0) {
            cli_text_put(text, REPLACEMENT);
        } else if (character == '"' || character == '\\') {
            cli_text_printf(text, "\\%c", (int)character);
        } else if (character == '\n') {
            cli_text_put(text, "\\n");
        } else if (cli_char_is_control(character)) {
            cli_text_printf(text, "\\u%04x", character);
        } else {
            cli_text_add(text, bytes.at + i, len);
        }
        i += len > 0 ? len : 1;
    }
    cli_text_put(text, "\"");
}

void cli_text_json_text(struct cli_text *text, struct tn_bytes json) {
    for (uint32_t i = 0; i < json.len;) {
        uint32_t character = 0;
        uint32_t len = cli_char_next(json.at + i, json.len - i, &character);
        if (len == 0) {
            cli_text_put(text, REPLACEMENT);
        } else if (character < ' ') {
            cli_text_put(text, " ");
        } else if (cli_char_is_control(character)) {
            cli_text_printf(text, "\\u%04x", character);
        } else {
            cli_text_add(text, json.at + i, len);
        }
        i += len > 0 ? len : 1;
    }
}

static size_t char_columns(uint32_t character) {
    int columns = wcwidth((wchar_t)character);
    return columns < 0 ? 1 : (size_t)columns;
}

size_t cli_columns(const char *text, size_t len) {
    size_t columns = 0;
    for (size_t i = 0; i < len;) {
        uint32_t character = 0;
        uint32_t bytes = cli_char_next((const uint8_t *)text + i, len - i, &character);
        columns += bytes > 0 ? char_columns(character) : 1;
        i += bytes > 0 ? bytes : 1;
    }
    return columns;
}

size_t cli_columns_fit(const char *text, size_t len, size_t columns) {
    size_t i = 0;
    while (i < len) {
        uint32_t character = 0;
        uint32_t bytes = cli_char_next((const uint8_t *)text + i, len - i, &character);
        size_t needs = bytes > 0 ? char_columns(character) : 1;
        if (needs > columns) {
            break;
        }
        columns -= needs;
        i += bytes > 0 ? bytes : 1;
    }
    return i;
}

/* ---- Lines ---- */

/* The length of the text up to the next blank outside of brackets. */
static size_t word_len(const char *text) {
    int depth = 0;
    size_t len = 0;
    while (text[len] != '\0' && (text[len] != ' ' || depth > 0)) {
        depth += (text[len] == '[') - (text[len] == ']');
        len++;
    }
    return len;
}

void cli_text_wrap(struct cli_text *out, const char *text, size_t indent, size_t width) {
    size_t at = indent;
    for (size_t len; text[0] != '\0'; text += len) {
        text += strspn(text, " ");
        len = word_len(text);
        size_t columns = cli_columns(text, len);
        if (at > indent && at + 1 + columns > width) {
            cli_text_printf(out, "\n%*s", (int)indent, "");
            at = indent;
        } else if (at > indent) {
            cli_text_put(out, " ");
            at++;
        }
        cli_text_add(out, text, len);
        at += columns;
    }
}

/* ---- Times ---- */

static void text_local(struct cli_text *text, uint64_t ms, const char *format) {
    struct tm parts;
    char out[64] = "?";
    time_t seconds = (time_t)(ms / 1000);
    if (localtime_r(&seconds, &parts) != NULL) {
        (void)strftime(out, sizeof out, format, &parts);
    }
    cli_text_put(text, out);
}

void cli_text_clock(struct cli_text *text, uint64_t ms) {
    text_local(text, ms, "%H:%M:%S");
    cli_text_printf(text, ".%03u", (unsigned)(ms % 1000));
}

void cli_text_when(struct cli_text *text, uint64_t ms, uint64_t now_ms) {
    if (ms <= now_ms && now_ms - ms >= 86400000) {
        text_local(text, ms, "%Y-%m-%d %H:%M:%S");
    } else {
        cli_text_clock(text, ms);
    }
}

void cli_text_moment(struct cli_text *text, uint64_t ms, uint64_t now_ms) {
    const uint64_t day = 86400000;
    uint64_t away = ms > now_ms ? ms - now_ms : now_ms - ms;
    text_local(text, ms,
               away < day         ? "%H:%M:%S"
               : away < 300 * day ? "%m-%d %H:%M:%S"
                                  : "%Y-%m-%d %H:%M:%S");
}

void cli_text_relative(struct cli_text *text, uint64_t ms, uint64_t now_ms) {
    static const struct {
        uint64_t seconds;
        const char *name;
    } units[] = {{86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}};
    uint64_t away = (ms > now_ms ? ms - now_ms : now_ms - ms) / 1000;
    unsigned unit = 0;
    /* A unit is used from two of it on: "90 s" says more than "1 min". */
    while (unit < 3 && away < 2 * units[unit].seconds) {
        unit++;
    }
    if (away == 0) {
        cli_text_put(text, "now");
    } else {
        cli_text_printf(text, "%s%" PRIu64 " %s%s", ms > now_ms ? "in " : "",
                        away / units[unit].seconds, units[unit].name, ms > now_ms ? "" : " ago");
    }
}

void cli_text_time(struct cli_text *text, uint64_t ms, uint64_t now_ms) {
    text_local(text, ms, "%Y-%m-%d %H:%M:%S");
    cli_text_put(text, " (");
    cli_text_relative(text, ms, now_ms);
    cli_text_put(text, ")");
}

bool cli_number_parse(struct tn_bytes text, uint64_t *ret_number) {
    return kernel_value_parse(KERNEL_DEC, text, ret_number);
}
