/* The states of a connection. Each byte of a line goes through one function of its state; bodies are
 * skipped in one step.
 *
 *     BEGIN -> METHOD -> TARGET -> VERSION -> LINE_LF -+
 *       ^        +-------------------------------------+
 *       |        v
 *       |      FIELD -> NAME -> VALUE -> VALUE_LF -> FIELD
 *       |        |
 *       |      HEAD_LF --> BODY ---------------------------------------> BEGIN
 *       |        |  +----> SIZE -> (EXTENSION) -> SIZE_LF -> DATA -> DATA_CR -> DATA_LF -> SIZE
 *       +--------+                                  +-> FIELD ... of the trailers, HEAD_LF -> BEGIN */
#include "protocol/framing.h"

#include <string.h>
#include <strings.h>

#include "base/assert.h"
#include "protocol/http.h"

enum {
    BEGIN, /* blank lines before a request are skipped */
    BEGIN_LF,
    METHOD,
    TARGET,
    VERSION,
    LINE_LF,
    FIELD,
    NAME,
    VALUE,
    VALUE_LF,
    HEAD_LF,
    BODY,
    SIZE,
    EXTENSION,
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
};

#define METHOD_MAX 32u
#define SIZE_DIGITS_MAX 15u /* hexadecimal digits of a chunk's size, so that it cannot overflow */
#define EXTENSION_MAX 256u  /* bytes behind the size of a chunk */

_Static_assert(PROTOCOL_QUERY_MAX == 64, "the text of ARGUMENTS states the number");

unsigned protocol_framing_status(enum protocol_framing_fault fault) {
    static const uint16_t of[] = {200,
#define FRAMING_STATUS(id, status, text) status,
                                  PROTOCOL_FRAMING_TABLE(FRAMING_STATUS)
#undef FRAMING_STATUS
    };
    TN_ASSERT(fault < PROTOCOL_FRAMING_FAULTS);
    return of[fault];
}

const char *protocol_framing_text(enum protocol_framing_fault fault) {
    static const char *const of[] = {"",
#define FRAMING_TEXT(id, status, text) text,
                                     PROTOCOL_FRAMING_TABLE(FRAMING_TEXT)
#undef FRAMING_TEXT
    };
    TN_ASSERT(fault < PROTOCOL_FRAMING_FAULTS);
    return of[fault];
}

/* ---- Characters ---- */

static bool is_token(uint8_t c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool is_control(uint8_t c) {
    return c < ' ' || c == 0x7f;
}

static bool fail(struct protocol_framing *f, enum protocol_framing_fault fault) {
    f->fault = (uint8_t)fault;
    return false;
}

static bool go(struct protocol_framing *f, uint8_t state) {
    f->state = state;
    return true;
}

/* A character that may not be where it is. */
static bool misplaced(struct protocol_framing *f, uint8_t c, enum protocol_framing_fault fault) {
    if (c == '\n' || c == '\r') {
        return fail(f, PROTOCOL_FRAMING_LINE_END);
    }
    return fail(f, is_control(c) ? PROTOCOL_FRAMING_CONTROL : fault);
}

static bool line_feed(struct protocol_framing *f, uint8_t c, uint8_t next) {
    return c == '\n' ? go(f, next) : fail(f, PROTOCOL_FRAMING_LINE_END);
}

/* ---- The request line ---- */

static bool begin(struct protocol_framing *f, uint8_t c) {
    uint64_t heads = f->heads;
    uint64_t requests = f->requests;
    if (c == '\r') {
        return go(f, BEGIN_LF);
    }
    if (!is_token(c)) {
        return misplaced(f, c, PROTOCOL_FRAMING_REQUEST_LINE);
    }
    uint32_t cost = f->head_cost;
    *f = (struct protocol_framing){.state = METHOD, .word_len = 1, .head_cost = cost};
    f->heads = heads;
    f->requests = requests;
    return true;
}

static bool method(struct protocol_framing *f, uint8_t c) {
    if (c == ' ') {
        f->word_len = 0;
        return go(f, TARGET);
    }
    if (!is_token(c)) {
        return misplaced(f, c, PROTOCOL_FRAMING_REQUEST_LINE);
    }
    return ++f->word_len <= METHOD_MAX || fail(f, PROTOCOL_FRAMING_REQUEST_LINE);
}

static bool argument_add(struct protocol_framing *f) {
    f->head_cost += PROTOCOL_FIELD_COST;
    return ++f->arguments <= PROTOCOL_QUERY_MAX || fail(f, PROTOCOL_FRAMING_ARGUMENTS);
}

static bool target(struct protocol_framing *f, uint8_t c) {
    if (c == ' ' && f->word_len > 0) {
        f->word_len = 0;
        return go(f, VERSION);
    }
    if (c == ' ' || is_control(c)) {
        return misplaced(f, c, PROTOCOL_FRAMING_REQUEST_LINE);
    }
    f->word_len++;
    if (f->in_query ? c == '&' : c == '?') {
        f->in_query = true;
        return argument_add(f);
    }
    return true;
}

/* Another version of HTTP gets its own error; anything else is a bad line. */
static bool version(struct protocol_framing *f, uint8_t c) {
    static const char text[] = "HTTP/1.1";
    uint32_t at = f->word_len;
    if (at == sizeof text - 1) {
        return c == '\r' ? go(f, LINE_LF) : misplaced(f, c, PROTOCOL_FRAMING_REQUEST_LINE);
    }
    f->word_len++;
    if (at == sizeof text - 2 && c == '0') {
        f->http_1_0 = true;
        return true;
    }
    if (c == (uint8_t)text[at]) {
        return true;
    }
    bool digit = c >= '0' && c <= '9';
    return misplaced(f, c,
                     at >= 5 && digit ? PROTOCOL_FRAMING_VERSION : PROTOCOL_FRAMING_REQUEST_LINE);
}

/* ---- Headers and trailers ---- */

static bool field(struct protocol_framing *f, uint8_t c) {
    if (c == '\r') {
        return go(f, HEAD_LF);
    }
    if (c == ' ' || c == '\t') {
        return fail(f, PROTOCOL_FRAMING_FOLDED);
    }
    if (!is_token(c)) {
        return misplaced(f, c, PROTOCOL_FRAMING_NAME);
    }
    f->head_cost += PROTOCOL_FIELD_COST;
    f->name[0] = (char)c;
    f->name_len = 1;
    f->value_len = 0;
    return go(f, NAME);
}

static bool name(struct protocol_framing *f, uint8_t c) {
    if (c == ':') {
        return go(f, VALUE);
    }
    if (!is_token(c)) {
        return c == '\t' ? fail(f, PROTOCOL_FRAMING_NAME) : misplaced(f, c, PROTOCOL_FRAMING_NAME);
    }
    if (f->name_len < PROTOCOL_FRAMING_NAME_MAX) {
        f->name[f->name_len] = (char)c;
    }
    f->name_len += f->name_len <= PROTOCOL_FRAMING_NAME_MAX;
    return true;
}

static bool name_is(const struct protocol_framing *f, const char *name) {
    return f->name_len == strlen(name) && strncasecmp(f->name, name, f->name_len) == 0;
}

/* libmicrohttpd stores cookies twice: the header, and each cookie in it. */
static void cookie_count(struct protocol_framing *f, uint8_t c) {
    if (name_is(f, "Cookie")) {
        f->head_cost += c == ';' || c == ',' ? PROTOCOL_FIELD_COST : 1;
    }
}

/* Blanks before a value are not part of it. Blanks behind it are kept: libmicrohttpd does not take
 * "chunked " for chunked, so the server must not either. */
static bool value(struct protocol_framing *f, uint8_t c) {
    if (c == '\r') {
        return go(f, VALUE_LF);
    }
    if (is_control(c) && c != '\t') {
        return misplaced(f, c, PROTOCOL_FRAMING_CONTROL);
    }
    if (f->value_len == 0 && (c == ' ' || c == '\t')) {
        return true;
    }
    cookie_count(f, c);
    if (f->value_len < PROTOCOL_FRAMING_VALUE_MAX) {
        f->value[f->value_len] = (char)c;
    }
    f->value_len += f->value_len <= PROTOCOL_FRAMING_VALUE_MAX;
    return true;
}

static bool length_take(struct protocol_framing *f) {
    if (f->has_length) {
        return fail(f, PROTOCOL_FRAMING_LENGTHS);
    }
    if (f->value_len == 0 || f->value_len > PROTOCOL_FRAMING_VALUE_MAX) {
        return fail(f, PROTOCOL_FRAMING_LENGTH);
    }
    f->has_length = true;
    f->left = 0;
    for (uint32_t i = 0; i < f->value_len; i++) {
        uint8_t digit = (uint8_t)(f->value[i] - '0');
        if (digit > 9) {
            return fail(f, PROTOCOL_FRAMING_LENGTH);
        }
        if (f->left > (UINT64_MAX - digit) / 10) {
            return fail(f, PROTOCOL_FRAMING_BODY);
        }
        f->left = f->left * 10 + digit;
    }
    return true;
}

static bool field_take(struct protocol_framing *f) {
    bool host = name_is(f, "Host");
    bool length = name_is(f, "Content-Length");
    bool coding = name_is(f, "Transfer-Encoding");
    if (f->in_trailers && (host || length || coding)) {
        return fail(f, PROTOCOL_FRAMING_TRAILER);
    }
    if (host && f->has_host) {
        return fail(f, PROTOCOL_FRAMING_HOSTS);
    }
    if (coding && f->has_coding) {
        return fail(f, PROTOCOL_FRAMING_CODINGS);
    }
    if (coding) {
        f->coding_is_chunked = f->value_len == 7 && strncasecmp(f->value, "chunked", 7) == 0;
    }
    f->has_host = f->has_host || host;
    f->has_coding = f->has_coding || coding;
    return !length || length_take(f);
}

static bool request_end(struct protocol_framing *f) {
    f->requests++;
    f->head_cost = 0;
    return go(f, BEGIN);
}

static bool head_end(struct protocol_framing *f) {
    if (f->in_trailers) {
        return request_end(f);
    }
    if (!f->has_host && !f->http_1_0) {
        return fail(f, PROTOCOL_FRAMING_NO_HOST);
    }
    if (f->has_coding && f->has_length) {
        return fail(f, PROTOCOL_FRAMING_BOTH);
    }
    if (f->has_coding && f->http_1_0) {
        return fail(f, PROTOCOL_FRAMING_OLD_CODING);
    }
    if (f->has_coding && !f->coding_is_chunked) {
        return fail(f, PROTOCOL_FRAMING_CODING);
    }
    f->heads++;
    if (f->has_coding) {
        f->word_len = 0;
        f->left = 0;
        return go(f, SIZE);
    }
    return f->has_length && f->left > 0 ? go(f, BODY) : request_end(f);
}

/* ---- Chunks ---- */

static bool size(struct protocol_framing *f, uint8_t c) {
    uint8_t digit = c >= '0' && c <= '9'   ? (uint8_t)(c - '0')
                    : c >= 'a' && c <= 'f' ? (uint8_t)(c - 'a' + 10)
                    : c >= 'A' && c <= 'F' ? (uint8_t)(c - 'A' + 10)
                                           : 16;
    if (digit < 16) {
        f->left = f->left * 16 + digit;
        return ++f->word_len <= SIZE_DIGITS_MAX || fail(f, PROTOCOL_FRAMING_CHUNK);
    }
    if (f->word_len > 0 && (c == '\r' || c == ';')) {
        f->word_len = 0;
        return go(f, c == '\r' ? SIZE_LF : EXTENSION);
    }
    return misplaced(f, c, PROTOCOL_FRAMING_CHUNK);
}

static bool extension(struct protocol_framing *f, uint8_t c) {
    if (c == '\r') {
        return go(f, SIZE_LF);
    }
    if (is_control(c) && c != '\t') {
        return misplaced(f, c, PROTOCOL_FRAMING_CHUNK);
    }
    return ++f->word_len <= EXTENSION_MAX || fail(f, PROTOCOL_FRAMING_CHUNK);
}

static bool size_end(struct protocol_framing *f, uint8_t c) {
    if (c != '\n') {
        return fail(f, PROTOCOL_FRAMING_LINE_END);
    }
    f->word_len = 0;
    f->in_trailers = f->left == 0;
    return go(f, f->in_trailers ? FIELD : DATA);
}

static bool data_end(struct protocol_framing *f, uint8_t c) {
    if (c != (f->state == DATA_CR ? '\r' : '\n')) {
        return fail(f, PROTOCOL_FRAMING_CHUNK);
    }
    return go(f, f->state == DATA_CR ? DATA_LF : SIZE);
}

/* ---- All of it ---- */

static bool step(struct protocol_framing *f, uint8_t c) {
    switch (f->state) {
    case BEGIN:
        return begin(f, c);
    case BEGIN_LF:
        return line_feed(f, c, BEGIN);
    case METHOD:
        return method(f, c);
    case TARGET:
        return target(f, c);
    case VERSION:
        return version(f, c);
    case LINE_LF:
        return line_feed(f, c, FIELD);
    case FIELD:
        return field(f, c);
    case NAME:
        return name(f, c);
    case VALUE:
        return value(f, c);
    case VALUE_LF:
        return line_feed(f, c, FIELD) && field_take(f);
    case HEAD_LF:
        return line_feed(f, c, BEGIN) && head_end(f);
    case SIZE:
        return size(f, c);
    case EXTENSION:
        return extension(f, c);
    case SIZE_LF:
        return size_end(f, c);
    default:
        TN_ASSERT(f->state == DATA_CR || f->state == DATA_LF);
        return data_end(f, c);
    }
}

static bool is_in_head(const struct protocol_framing *f) {
    return f->state < BODY;
}

/* Skips the part of the body that has arrived. */
static size_t skip(struct protocol_framing *f, size_t len) {
    size_t part = f->left < len ? (size_t)f->left : len;
    f->left -= part;
    if (f->left == 0) {
        (void)(f->state == BODY ? request_end(f) : go(f, DATA_CR));
    }
    return part;
}

size_t protocol_framing_feed(struct protocol_framing *f, const void *bytes, size_t len) {
    const uint8_t *at = bytes;
    size_t i = 0;
    while (i < len && f->fault == PROTOCOL_FRAMING_GOOD) {
        if (f->state == BODY || f->state == DATA) {
            i += skip(f, len - i);
            continue;
        }
        f->head_cost += is_in_head(f);
        if (f->head_cost > PROTOCOL_HEAD_MAX) {
            (void)fail(f, PROTOCOL_FRAMING_HEAD);
        } else {
            i += step(f, at[i]);
        }
    }
    return i;
}
