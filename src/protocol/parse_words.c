/* Takes the next word of a request, as parse_parts.h promises. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "protocol/parse_parts.h"
#include "protocol/text.h"

bool parse_refuse(struct parse_cursor *c, enum tn_result code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(c->call->detail, sizeof c->call->detail, format, arguments);
    va_end(arguments);
    c->code = code;
    return false;
}

bool parse_usage(struct parse_cursor *c, const char *what) {
    return parse_refuse(c, TN_R_MALFORMED, "%s; see COMMAND DOCS %s", what, c->call->row->word);
}

bool parse_next(struct parse_cursor *c, const char *what, struct tn_bytes *ret_word) {
    *ret_word = tn_bytes_of(NULL, 0);
    if (c->at >= c->argc) {
        return parse_refuse(c, TN_R_MALFORMED, "%s is missing; see COMMAND DOCS %s", what,
                            c->call->row->word);
    }
    *ret_word = c->argv[c->at++];
    return true;
}

bool parse_next_number(struct parse_cursor *c, const char *what, uint64_t max,
                       uint64_t *ret_number) {
    struct tn_bytes word;
    if (!parse_next(c, what, &word)) {
        return false;
    }
    if (!kernel_value_parse(KERNEL_DEC, word, ret_number) || *ret_number > max) {
        return parse_refuse(c, TN_R_MALFORMED, "%s: '%.*s' is not a whole number from 0 to %llu",
                            what, PARSE_SHOWN(word), (unsigned long long)max);
    }
    return true;
}

bool parse_next_name(struct parse_cursor *c, const char *what, uint32_t max,
                     struct tn_bytes *ret_name) {
    if (!parse_next(c, what, ret_name)) {
        return false;
    }
    const char *why = protocol_name_fault(*ret_name, max);
    if (why != NULL) {
        return parse_refuse(c, TN_R_BAD_NAME, "%s: %s", what, why);
    }
    return true;
}

bool parse_next_seconds(struct parse_cursor *c, const char *what, uint64_t *ret_seconds) {
    struct tn_bytes word;
    if (!parse_next(c, what, &word)) {
        return false;
    }
    if (!tn_duration_parse(word, ret_seconds)) {
        return parse_refuse(c, TN_R_MALFORMED, "%s: '%.*s' is not " TN_DURATION_FORM, what,
                            PARSE_SHOWN(word));
    }
    return *ret_seconds <= UINT32_MAX ||
           parse_refuse(c, TN_R_MALFORMED, "%s: at most %u seconds", what, UINT32_MAX);
}

bool parse_lower_copy(struct tn_bytes word, char *out, size_t capacity) {
    if (word.len >= capacity || (word.len > 0 && memchr(word.at, '\0', word.len) != NULL)) {
        return false;
    }
    for (uint32_t i = 0; i < word.len; i++) {
        uint8_t b = word.at[i];
        out[i] = (char)(b >= 'A' && b <= 'Z' ? b - 'A' + 'a' : b);
    }
    out[word.len] = '\0';
    return true;
}
