/* The request parser. It makes two passes over a request: the first, which can be resumed, only
 * counts and checks; the second, on the complete request, stores the positions of the arguments. So
 * only four numbers are kept between reads. */
#include "protocol/resp.h"

#include <strings.h>

#include "base/assert.h"

static enum protocol_parse refuse(struct protocol_parser *parser, struct protocol_request *request,
                                  const char *error, uint8_t got) {
    *parser = (struct protocol_parser){0};
    *request = (struct protocol_request){.error = error, .got = (char)got};
    return PROTOCOL_BAD;
}

/* ---- Arrays of bulk strings ---- */

/* The number of a line such as "*3\r\n" or "$5\r\n" at `at`. The first byte that cannot belong to
 * it decides: nothing is waited for that could not help. */
enum line { LINE_MORE, LINE_OK, LINE_BAD };

static enum line line_number(const uint8_t *data, size_t len, size_t at, int64_t *ret_number,
                             size_t *ret_next) {
    size_t i = at + 1;
    bool negative = i < len && data[i] == '-';
    i += negative;
    size_t first = i;
    int64_t number = 0;
    /* Eighteen digits cannot overflow, and nothing that long is a length that we accept. */
    while (i < len && i - first < 18 && data[i] >= '0' && data[i] <= '9') {
        number = number * 10 + (data[i++] - '0');
    }
    if (i >= len) {
        return LINE_MORE;
    }
    if (data[i] != '\r' || i == first) {
        return LINE_BAD;
    }
    if (i + 1 >= len) {
        return LINE_MORE;
    }
    *ret_number = negative ? -number : number;
    *ret_next = i + 2;
    return data[i + 1] == '\n' ? LINE_OK : LINE_BAD;
}

static enum protocol_parse array_begin(struct protocol_parser *parser, const uint8_t *data,
                                       size_t len, struct protocol_request *request) {
    int64_t count;
    size_t next;
    enum line line = line_number(data, len, 0, &count, &next);
    if (line == LINE_MORE) {
        return PROTOCOL_MORE;
    }
    if (line == LINE_BAD || count > PROTOCOL_ELEMENTS_MAX) {
        return refuse(parser, request, "invalid multibulk length", 0);
    }
    parser->begun = true;
    parser->elements = count > 0 ? (uint32_t)count : 0;
    parser->pos = (uint32_t)next;
    return PROTOCOL_READY;
}

/* One bulk string: its length is checked before its bytes are waited for. */
static enum protocol_parse array_element(struct protocol_parser *parser, const uint8_t *data,
                                         size_t len, struct protocol_request *request) {
    int64_t bytes;
    size_t next;
    if (parser->pos >= len) {
        return PROTOCOL_MORE;
    }
    if (data[parser->pos] != '$') {
        return refuse(parser, request, "expected '$', got ", data[parser->pos]);
    }
    enum line line = line_number(data, len, parser->pos, &bytes, &next);
    if (line == LINE_MORE) {
        return PROTOCOL_MORE;
    }
    if (line == LINE_BAD || bytes < 0 || bytes > PROTOCOL_BULK_MAX) {
        return refuse(parser, request, "invalid bulk length", 0);
    }
    size_t end = next + (size_t)bytes + 2;
    if (end > PROTOCOL_REQUEST_MAX) {
        return refuse(parser, request, "too big request", 0);
    }
    size_t past = next + (size_t)bytes;
    if ((past < len && data[past] != '\r') || (end <= len && data[past + 1] != '\n')) {
        return refuse(parser, request, "expected CRLF after a bulk string", 0);
    }
    if (end > len) {
        return PROTOCOL_MORE;
    }
    parser->pos = (uint32_t)end;
    parser->elements--;
    parser->argc++;
    return PROTOCOL_READY;
}

static uint64_t digits_at(const uint8_t *data, size_t *at) {
    uint64_t number = 0;
    for (; data[*at] >= '0' && data[*at] <= '9'; (*at)++) {
        number = number * 10 + (unsigned)(data[*at] - '0');
    }
    *at += 2;
    return number;
}

/* The second pass, over what the first one has found sound. */
static void array_store(const uint8_t *data, uint32_t argc, struct tn_bytes *argv,
                        uint32_t capacity) {
    size_t at = 1;
    if (argc == 0) {
        return;
    }
    (void)digits_at(data, &at);
    for (uint32_t i = 0; i < argc && i < capacity; i++) {
        at++;
        size_t bytes = (size_t)digits_at(data, &at);
        argv[i] = tn_bytes_of(data + at, bytes);
        at += bytes + 2;
    }
}

/* A request that is all there, of a few short words, as almost all are: one pass. False: anything
 * else, nothing is done. */
static bool array_short(const uint8_t *data, size_t len, struct tn_bytes *argv, uint32_t capacity,
                        struct protocol_request *request) {
    size_t at = 4;
    if (len < 4 || data[1] < '1' || data[1] > '9' || data[2] != '\r' || data[3] != '\n') {
        return false;
    }
    uint32_t argc = (uint32_t)(data[1] - '0');
    if (argc > capacity) {
        return false;
    }
    for (uint32_t i = 0; i < argc; i++) {
        if (len - at < 6 || data[at] != '$' || data[at + 1] < '0' || data[at + 1] > '9') {
            return false;
        }
        size_t bytes = (size_t)(data[at + 1] - '0');
        at += 2;
        if (data[at] >= '0' && data[at] <= '9') {
            bytes = bytes * 10 + (size_t)(data[at++] - '0');
        }
        if (data[at] != '\r' || data[at + 1] != '\n' || len - at < bytes + 4) {
            return false;
        }
        argv[i] = tn_bytes_of(data + at + 2, bytes);
        at += bytes + 4;
        if (data[at - 2] != '\r' || data[at - 1] != '\n') {
            return false; /* the other way says why */
        }
    }
    *request = (struct protocol_request){.used = (uint32_t)at, .argc = argc};
    return true;
}

static enum protocol_parse array_parse(struct protocol_parser *parser, const uint8_t *data,
                                       size_t len, struct tn_bytes *argv, uint32_t capacity,
                                       struct protocol_request *request) {
    enum protocol_parse step = PROTOCOL_READY;
    if (!parser->begun && array_short(data, len, argv, capacity, request)) {
        return PROTOCOL_READY;
    }
    if (!parser->begun) {
        step = array_begin(parser, data, len, request);
    }
    while (step == PROTOCOL_READY && parser->elements > 0) {
        step = array_element(parser, data, len, request);
    }
    if (step != PROTOCOL_READY) {
        return step;
    }
    *request = (struct protocol_request){.used = parser->pos, .argc = parser->argc};
    array_store(data, parser->argc, argv, capacity);
    *parser = (struct protocol_parser){0};
    return PROTOCOL_READY;
}

/* ---- Lines of words ---- */

static int hex_of(uint8_t c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* What stands for the byte after a backslash; consumes it. */
static uint8_t unescape(const uint8_t *data, size_t end, size_t *at) {
    static const char from[] = "nrtba";
    static const char to[] = "\n\r\t\b\a";
    uint8_t c = data[(*at)++];
    if (c == 'x' && *at + 1 < end && hex_of(data[*at]) >= 0 && hex_of(data[*at + 1]) >= 0) {
        uint8_t byte = (uint8_t)(hex_of(data[*at]) << 4 | hex_of(data[*at + 1]));
        *at += 2;
        return byte;
    }
    const char *known = c != 0 ? strchr(from, c) : NULL;
    return known != NULL ? (uint8_t)to[known - from] : c;
}

/* A quoted part from its opening quote on. False: it does not end, or something sticks to its end.
 * */
static bool word_quoted(const uint8_t *data, size_t end, size_t *at, uint8_t *line, size_t *out) {
    uint8_t quote = data[(*at)++];
    for (;;) {
        if (*at >= end) {
            return false;
        }
        uint8_t c = data[*at];
        if (c == quote) {
            (*at)++;
            return *at >= end || data[*at] == ' ' || data[*at] == '\t';
        }
        bool escaped = c == '\\' && *at + 1 < end;
        if (escaped && quote == '"') {
            (*at)++;
            c = unescape(data, end, at);
        } else if (escaped && data[*at + 1] == '\'') {
            *at += 2;
            c = '\'';
        } else {
            (*at)++;
        }
        line[(*out)++] = c;
    }
}

static bool is_blank(uint8_t c) {
    return c == ' ' || c == '\t';
}

/* The words without their quotes go into `line`, where they are never longer than they were. */
static bool line_split(const uint8_t *data, size_t end, uint8_t *line, struct tn_bytes *argv,
                       uint32_t capacity, uint32_t *ret_argc) {
    size_t at = 0;
    size_t out = 0;
    *ret_argc = 0;
    for (;;) {
        while (at < end && is_blank(data[at])) {
            at++;
        }
        if (at == end) {
            return true;
        }
        size_t first = out;
        while (at < end && !is_blank(data[at])) {
            if (data[at] == '"' || data[at] == '\'') {
                if (!word_quoted(data, end, &at, line, &out)) {
                    return false;
                }
            } else {
                line[out++] = data[at++];
            }
        }
        if (*ret_argc < capacity) {
            argv[*ret_argc] = tn_bytes_of(line + first, out - first);
        }
        (*ret_argc)++;
    }
}

static bool is_letter(uint8_t c) {
    c |= 0x20;
    return c >= 'a' && c <= 'z';
}

/* The words that begin the first line of HTTP. No command has one of these names. */
static bool is_method(const uint8_t *word, size_t len) {
    static const char *const methods[] = {"GET",     "POST",  "PUT",   "HEAD", "OPTIONS", "DELETE",
                                          "CONNECT", "TRACE", "PATCH", "PRI",  "HTTP",    "HOST"};
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        if (strlen(methods[i]) == len && strncasecmp(methods[i], (const char *)word, len) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether the line's first word shows that the client does not speak RESP: a byte that no command
 * has in its name (the colon of a header, the first byte of TLS), or a method of HTTP. A word that
 * is not whole yet shows nothing; neither does an empty line. */
static bool line_is_foreign(const uint8_t *data, size_t len) {
    size_t first = 0;
    while (first < len && (data[first] == ' ' || data[first] == '\t')) {
        first++;
    }
    size_t end = first;
    while (end < len && is_letter(data[end])) {
        end++;
    }
    if (end == len) {
        return false;
    }
    bool ends = data[end] == ' ' || data[end] == '\t' || data[end] == '\r' || data[end] == '\n';
    return !ends || is_method(data + first, end - first);
}

/* A person types printable characters and tabs; UTF-8 has no other bytes below 0x20. */
static bool line_is_text(const uint8_t *data, size_t end) {
    for (size_t i = 0; i < end; i++) {
        if ((data[i] < ' ' && data[i] != '\t') || data[i] == 0x7f) {
            return false;
        }
    }
    return true;
}

static enum protocol_parse line_refuse_foreign(struct protocol_parser *parser,
                                               struct protocol_request *request) {
    (void)refuse(parser, request, "not the RESP protocol", 0);
    request->foreign = true;
    return PROTOCOL_BAD;
}

static enum protocol_parse line_parse(struct protocol_parser *parser, const uint8_t *data,
                                      size_t len, uint8_t *line, struct tn_bytes *argv,
                                      uint32_t capacity, struct protocol_request *request) {
    size_t rest = len < PROTOCOL_LINE_MAX ? len : PROTOCOL_LINE_MAX;
    if (line_is_foreign(data, rest)) {
        return line_refuse_foreign(parser, request);
    }
    const uint8_t *newline = memchr(data + parser->pos, '\n', rest - parser->pos);
    if (newline == NULL) {
        parser->pos = (uint32_t)rest;
        if (rest == PROTOCOL_LINE_MAX) {
            return refuse(parser, request, "too big inline request", 0);
        }
        return PROTOCOL_MORE;
    }
    size_t end = (size_t)(newline - data);
    *request = (struct protocol_request){.used = (uint32_t)end + 1, .is_line = true};
    if (end > 0 && data[end - 1] == '\r') {
        end--;
    }
    if (!line_is_text(data, end)) {
        return line_refuse_foreign(parser, request);
    }
    if (!line_split(data, end, line, argv, capacity, &request->argc)) {
        return refuse(parser, request, "unbalanced quotes in request", 0);
    }
    *parser = (struct protocol_parser){0};
    return PROTOCOL_READY;
}

enum protocol_parse protocol_request_parse(struct protocol_parser *parser, const uint8_t *data,
                                           size_t len, uint8_t line[PROTOCOL_LINE_MAX],
                                           struct tn_bytes *argv, uint32_t capacity,
                                           struct protocol_request *ret_request) {
    TN_ASSERT(parser->pos <= len);
    if (len == 0) {
        return PROTOCOL_MORE;
    }
    if (data[0] == '*') {
        return array_parse(parser, data, len, argv, capacity, ret_request);
    }
    return line_parse(parser, data, len, line, argv, capacity, ret_request);
}
