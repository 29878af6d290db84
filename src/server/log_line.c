/* The program's log: lines of key=value pairs, or of JSON, on standard error.
 *
 *     ts=2026-11-15T12:00:00.123Z event=refused reason="--listen: 'x' is not HOST:PORT"
 *     {"ts":"2026-11-15T12:00:00.123Z","event":"refused","reason":"--listen: 'x' is not HOST:PORT"}
 *
 * A value that is not plain is quoted and escaped, so one event is one line whatever a name, a path
 * or a message of the operating system holds. A line leaves in one piece: threads do not mix. */
#include "server/log_line.h"

#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "protocol/text.h"

#define LOG_VALUE_MAX 1024u
#define LOG_LINE_MAX 4096u
#define LOG_EXACT_DIGITS 15u /* numbers with more digits are not exact in every JSON reader */

/* Set before there are other threads, except for the format, which a reload may change. */
static const struct os *log_clock;
static _Atomic bool log_json;

struct log_line {
    bool json;
    size_t len;
    char text[LOG_LINE_MAX];
};

void server_log_setup(const struct os *clock, bool json) {
    log_clock = clock;
    server_log_json(json);
}

void server_log_json(bool json) {
    atomic_store_explicit(&log_json, json, memory_order_relaxed);
}

/* ---- Writing a line ---- */

static size_t room(const struct log_line *line) {
    return sizeof line->text - line->len;
}

/* Callers of long text make sure that the text and the end of the line fit. */
static void put(struct log_line *line, const char *text) {
    size_t len = strlen(text);
    TN_ASSERT(len <= room(line));
    memcpy(line->text + line->len, text, len);
    line->len += len;
}

/* The control character beyond ASCII at this place of a text of valid UTF-8: one that a terminal obeys
 * (U+009B is another form of ESC [), that ends a line, or that turns the direction of the text. 0: it
 * is another character. */
static uint32_t wide_control(const char *value) {
    const uint8_t *at = (const uint8_t *)value;
    if (at[0] == 0xc2 && at[1] < 0xa0) {
        return at[1];
    }
    bool turns = at[0] == 0xe2 && at[1] == 0x80 && at[2] >= 0xa8 && at[2] <= 0xae;
    bool isolates = at[0] == 0xe2 && at[1] == 0x81 && at[2] >= 0xa6 && at[2] <= 0xa9;
    return turns || isolates ? 0x2000u | (at[1] & 0x3fu) << 6 | (at[2] & 0x3fu) : 0;
}

#define ESCAPED_MAX 12u

/* The character at this place as it is written. Returns how many bytes of the value it has. */
static size_t char_escape(const char *at, bool utf8, char out[ESCAPED_MAX]) {
    unsigned char c = (unsigned char)*at;
    uint32_t control = utf8 ? wide_control(at) : 0;
    if (control != 0) {
        (void)snprintf(out, ESCAPED_MAX, "\\u%04x", control);
        return control < 0x800 ? 2 : 3;
    }
    if (c == '"' || c == '\\') {
        (void)snprintf(out, ESCAPED_MAX, "\\%c", c);
    } else if (c == '\n') {
        (void)snprintf(out, ESCAPED_MAX, "\\n");
    } else if (c < ' ' || c == 0x7f || (c >= 0x80 && !utf8)) {
        (void)snprintf(out, ESCAPED_MAX, "\\u%04x", c);
    } else {
        out[0] = (char)c;
        out[1] = '\0';
    }
    return 1;
}

static void put_escaped(struct log_line *line, const char *value) {
    bool utf8 = protocol_utf8_valid(tn_bytes_of(value, strlen(value)));
    put(line, "\"");
    for (const char *at = value; *at != '\0' && room(line) > 16;) {
        char text[ESCAPED_MAX];
        at += char_escape(at, utf8, text);
        put(line, text);
    }
    put(line, "\"");
}

static bool is_plain(const char *value) {
    if (*value == '\0') {
        return false;
    }
    for (; *value != '\0'; value++) {
        if (*value <= ' ' || *value >= 0x7f || *value == '"' || *value == '\\' || *value == '=') {
            return false;
        }
    }
    return true;
}

/* A pair that does not fit is shortened or left out, so that the line stays well-formed. */
static void put_pair(struct log_line *line, const char *key, const char *value, bool number) {
    if (room(line) < strlen(key) + 32) {
        return;
    }
    if (line->json) {
        put(line, line->len > 1 ? ",\"" : "\"");
        put(line, key);
        put(line, "\":");
    } else {
        put(line, line->len > 0 ? " " : "");
        put(line, key);
        put(line, "=");
    }
    if (line->json ? number && strlen(value) <= LOG_EXACT_DIGITS
                   : is_plain(value) && strlen(value) + 16 < room(line)) {
        put(line, value);
    } else {
        put_escaped(line, value);
    }
}

static void line_begin(struct log_line *line) {
    line->json = atomic_load_explicit(&log_json, memory_order_relaxed);
    line->len = 0;
    if (line->json) {
        put(line, "{");
    }
    if (log_clock != NULL) {
        uint64_t ms = log_clock->clock_wall_ms(log_clock->ctx);
        time_t seconds = (time_t)(ms / 1000);
        struct tm tm;
        char day[32];
        char stamp[48];
        (void)gmtime_r(&seconds, &tm);
        (void)strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &tm);
        (void)snprintf(stamp, sizeof stamp, "%s.%03uZ", day, (unsigned)(ms % 1000));
        put_pair(line, "ts", stamp, false);
    }
}

static void line_end(struct log_line *line) {
    put(line, line->json ? "}\n" : "\n");
    (void)fwrite(line->text, 1, line->len, stderr);
}

/* ---- Pairs from a format ---- */

struct log_arguments {
    va_list of;
};

/* %d or %u, with the length l, ll or z. */
static void convert_number(char kind, bool is_long, struct log_arguments *arguments, char *value,
                           size_t room_left) {
    _Static_assert(sizeof(long long) == sizeof(long) && sizeof(size_t) == sizeof(long),
                   "they are read alike");
    if (kind == 'd') {
        long long number = is_long ? va_arg(arguments->of, long long) : va_arg(arguments->of, int);
        (void)snprintf(value, room_left, "%lld", number);
    } else {
        unsigned long long number =
            is_long ? va_arg(arguments->of, unsigned long long) : va_arg(arguments->of, unsigned);
        (void)snprintf(value, room_left, "%llu", number);
    }
}

/* One conversion, with *format just after its %. Appends to `value`. True: it was a number. */
static bool convert(const char **format, struct log_arguments *arguments, char *value) {
    size_t len = strlen(value);
    size_t before = strspn(*format, ".*lz");
    char kind = (*format)[before];
    bool counted = **format == '.';
    bool is_long = before > 0 && !counted;
    *format += before + 1;
    if (kind == 's') {
        int most = counted ? va_arg(arguments->of, int) : INT_MAX;
        (void)snprintf(value + len, LOG_VALUE_MAX - len, "%.*s", most,
                       va_arg(arguments->of, const char *));
        return false;
    }
    TN_ASSERT((kind == 'd' || kind == 'u') && !counted); /* log_line.h lists the conversions */
    convert_number(kind, is_long, arguments, value + len, LOG_VALUE_MAX - len);
    return true;
}

/* One key="... %s ..." or key=%u of the format. Returns the beginning of the next one. */
static const char *pair_format(struct log_line *line, const char *format,
                               struct log_arguments *arguments) {
    char key[64];
    char value[LOG_VALUE_MAX] = "";
    size_t key_len = strcspn(format, "= ");
    bool number = false;
    unsigned parts = 0;
    (void)snprintf(key, sizeof key, "%.*s", (int)key_len, format);
    format += key_len + (format[key_len] == '=');
    char end = *format == '"' ? '"' : ' ';
    format += end == '"';
    for (; *format != '\0' && *format != end; parts++) {
        if (*format == '%') {
            format++;
            number = convert(&format, arguments, value) && parts == 0;
            continue;
        }
        size_t len = strlen(value);
        (void)snprintf(value + len, sizeof value - len, "%c", *format++);
    }
    format += *format == '"';
    put_pair(line, key, value, number && parts == 1 && end == ' ');
    return format + strspn(format, " ");
}

void server_log(const char *event, const char *format, ...) {
    struct log_line line;
    struct log_arguments arguments;
    line_begin(&line);
    put_pair(&line, "event", event, false);
    va_start(arguments.of, format);
    while (*format != '\0') {
        format = pair_format(&line, format, &arguments);
    }
    va_end(arguments.of);
    line_end(&line);
}

/* ---- Pairs from a line ---- */

static bool is_number(const char *value) {
    size_t len = strlen(value);
    return len > 0 && strspn(value, "0123456789") == len && (value[0] != '0' || len == 1);
}

/* A quoted value ends at a quote that is followed by the end or the next key. Quotes inside of it
 * are not escaped. */
static size_t quoted_len(const char *text) {
    for (size_t len = 0;; len++) {
        if (text[len] == '\0') {
            return len;
        }
        if (text[len] == '"') {
            size_t key =
                text[len + 1] == ' ' ? strspn(text + len + 2, "abcdefghijklmnopqrstuvwxyz_") : 0;
            if (text[len + 1] == '\0' || (key > 0 && text[len + 2 + key] == '=')) {
                return len;
            }
        }
    }
}

void server_log_line(const char *text) {
    struct log_line line;
    line_begin(&line);
    while (*text != '\0') {
        char key[64];
        char value[LOG_VALUE_MAX];
        size_t len = strcspn(text, "= ");
        (void)snprintf(key, sizeof key, "%.*s", (int)len, text);
        text += len + (text[len] == '=');
        bool quoted = *text == '"';
        text += quoted;
        len = quoted ? quoted_len(text) : strcspn(text, " ");
        (void)snprintf(value, sizeof value, "%.*s", (int)len, text);
        text += len + (quoted && text[len] == '"');
        put_pair(&line, key, value, !quoted && is_number(value));
        text += strspn(text, " ");
    }
    line_end(&line);
}
