/* Writes the fields of an HTTP request as words, in the order of the form's arguments. A value that
 * the parser would interpret as a keyword is refused. */
#include <string.h>

#include "protocol/walk.h"
#include "protocol/words.h"

bool protocol_words_add(struct protocol_words *w, struct tn_bytes word) {
    if (w->argc == w->capacity) {
        return protocol_words_refuse(w, TN_R_TOO_LARGE, "more than %u words", w->capacity);
    }
    w->argv[w->argc++] = word;
    return true;
}

static bool add_text(struct protocol_words *w, const char *text) {
    return protocol_words_add(w, tn_bytes_of(text, strlen(text)));
}

static bool add_number(struct protocol_words *w, uint32_t number) {
    char text[KERNEL_VALUE_TEXT_MAX];
    size_t begin = w->scratch.len;
    tn_write_raw(&w->scratch, text, kernel_value_format(KERNEL_DEC, number, text));
    return protocol_words_add(w, tn_bytes_of(w->scratch.at + begin, w->scratch.len - begin));
}

/* ---- Single values ---- */

enum accept { ACCEPT_STRING, ACCEPT_NUMBER, ACCEPT_OPTION };

/* A JSON value as one word. Numbers are copied as written, so none is too large here; the parser of
 * the word judges it. */
static bool value_text(struct protocol_words *w, const char *name, struct tn_bytes value,
                       enum accept accept, struct tn_bytes *ret_text) {
    static const char *const needs[] = {[ACCEPT_STRING] = "a string",
                                        [ACCEPT_NUMBER] = "a number or a string",
                                        [ACCEPT_OPTION] = "a string, a number, true or false"};
    switch (protocol_json_kind(value)) {
    case PROTOCOL_JSON_STRING:
        if (protocol_json_text(value, &w->scratch, ret_text)) {
            return true;
        }
        return w->scratch.overflow
                   ? protocol_words_refuse(w, TN_R_TOO_LARGE, "the request is too large")
                   : protocol_words_refuse(w, TN_R_MALFORMED,
                                           "%s: it contains a NUL or an incomplete character",
                                           name);
    case PROTOCOL_JSON_NUMBER:
        *ret_text = value;
        if (accept != ACCEPT_STRING) {
            return true;
        }
        break;
    case PROTOCOL_JSON_TRUE:
    case PROTOCOL_JSON_FALSE:
        *ret_text = value.at[0] == 't' ? tn_bytes_of("yes", 3) : tn_bytes_of("no", 2);
        if (accept == ACCEPT_OPTION) {
            return true;
        }
        break;
    default:
        break;
    }
    return protocol_words_refuse(w, TN_R_MALFORMED, "%s: %s is needed", name, needs[accept]);
}

static bool add_value(struct protocol_words *w, const char *name, struct tn_bytes value,
                      enum accept accept) {
    struct tn_bytes text;
    return value_text(w, name, value, accept, &text) && protocol_words_add(w, text);
}

/* The name of an argument's field, for people. */
static const char *field_name(const struct protocol_argument *argument,
                              char out[PROTOCOL_KEY_MAX]) {
    const char *from = argument->token != NULL ? argument->token : argument->name;
    size_t i = 0;
    for (; i < PROTOCOL_KEY_MAX - 1 && from[i] != '\0'; i++) {
        out[i] = (char)(argument->token != NULL && from[i] != '_' ? from[i] | 0x20 : from[i]);
    }
    out[i] = '\0';
    return argument->bind == PROTOCOL_B_VALUES ? "names" : out;
}

static bool text_is(struct tn_bytes text, const char *word) {
    return tn_bytes_equal(text, tn_bytes_of(word, strlen(word)));
}

static bool flag_read(struct protocol_words *w, const char *name,
                      const struct protocol_field *field, bool *ret_flag) {
    struct tn_bytes text = field->value;
    if (field->given == PROTOCOL_GIVEN_JSON) {
        enum protocol_json_kind kind = protocol_json_kind(text);
        *ret_flag = kind == PROTOCOL_JSON_TRUE;
        return kind == PROTOCOL_JSON_TRUE || kind == PROTOCOL_JSON_FALSE ||
               protocol_words_refuse(w, TN_R_MALFORMED, "%s: true or false is needed", name);
    }
    *ret_flag = text.len == 0 || text_is(text, "true") || text_is(text, "1");
    return *ret_flag || text_is(text, "false") || text_is(text, "0") ||
           protocol_words_refuse(w, TN_R_MALFORMED, "%s: true or false is needed", name);
}

static bool put_flag(struct protocol_words *w, const struct protocol_argument *argument,
                     const char *name, const struct protocol_field *field) {
    bool flag;
    return flag_read(w, name, field, &flag) && (!flag || add_text(w, argument->token));
}

static bool put_scalar(struct protocol_words *w, const struct protocol_argument *argument,
                       const char *name, const struct protocol_field *field) {
    bool object = argument->bind == PROTOCOL_B_META || argument->bind == PROTOCOL_B_PAYLOAD ||
                  argument->bind == PROTOCOL_B_SPEC;
    if (argument->token != NULL && !add_text(w, argument->token)) {
        return false;
    }
    if (field->given == PROTOCOL_GIVEN_TEXT ||
        (object && protocol_json_kind(field->value) == PROTOCOL_JSON_OBJECT)) {
        return protocol_words_add(w, field->value);
    }
    bool number = argument->type == PROTOCOL_T_INTEGER || argument->type == PROTOCOL_T_DURATION;
    return add_value(w, name, field->value, number ? ACCEPT_NUMBER : ACCEPT_STRING);
}

/* ---- Lists ---- */

static bool array_check(struct protocol_words *w, const char *name, struct tn_bytes value) {
    return protocol_json_kind(value) == PROTOCOL_JSON_ARRAY ||
           protocol_words_refuse(w, TN_R_MALFORMED, "%s: an array is needed", name);
}

static uint32_t array_count(struct tn_bytes array) {
    struct protocol_walk walk = protocol_walk_of(array);
    struct tn_bytes key;
    struct tn_bytes item;
    uint32_t count = 0;
    while (protocol_walk_next(&walk, &key, &item)) {
        count++;
    }
    return count;
}

static bool array_items(struct protocol_words *w, const char *name, struct tn_bytes array) {
    struct protocol_walk walk = protocol_walk_of(array);
    struct tn_bytes key;
    struct tn_bytes item;
    while (protocol_walk_next(&walk, &key, &item)) {
        if (!add_value(w, name, item, ACCEPT_NUMBER)) {
            return false;
        }
    }
    return true;
}

/* VALUES n value... */
static bool add_values(struct protocol_words *w, struct tn_bytes array) {
    return array_check(w, "values", array) && add_text(w, "VALUES") &&
           add_number(w, array_count(array)) && array_items(w, "values", array);
}

/* The values in the query for argument `i`: their number, or all of them added as words. */
static uint32_t query_items(struct protocol_words *w, uint32_t i, bool add) {
    uint32_t count = 0;
    for (uint32_t q = 0; q < w->http->query_count; q++) {
        bool list;
        if (protocol_words_find(w, w->http->query[q].name, &list) == i) {
            count++;
            if (add && !protocol_words_add(w, w->http->query[q].value)) {
                return 0;
            }
        }
    }
    return count;
}

static bool put_amount(struct protocol_words *w, uint32_t i, const struct protocol_field *field) {
    if (!field->list) {
        return add_text(w, "COUNT") && (field->given == PROTOCOL_GIVEN_TEXT
                                            ? protocol_words_add(w, field->value)
                                            : add_value(w, "count", field->value, ACCEPT_NUMBER));
    }
    return field->given == PROTOCOL_GIVEN_TEXT
               ? add_text(w, "VALUES") && add_number(w, query_items(w, i, false)) &&
                     query_items(w, i, true) > 0
               : add_values(w, field->value);
}

/* Names of resources. The words that may follow them, REASON and OPID, cannot be names. */
static bool put_names(struct protocol_words *w, uint32_t i, const struct protocol_field *field) {
    uint32_t first = w->argc;
    bool array = protocol_json_kind(field->value) == PROTOCOL_JSON_ARRAY;
    bool done = field->given == PROTOCOL_GIVEN_TEXT ? query_items(w, i, true) > 0
                : array                             ? array_items(w, "names", field->value)
                        : add_value(w, "names", field->value, ACCEPT_STRING);
    if (!done) {
        return false;
    }
    if (w->argc == first) {
        return protocol_words_refuse(w, TN_R_MALFORMED, "names: at least 1 name is needed");
    }
    for (; first < w->argc; first++) {
        if (protocol_word_ends_list(w->argv[first])) {
            return protocol_words_refuse(w, TN_R_MALFORMED, "names: a name cannot be %s",
                                         w->argv[first].len == 4 ? "OPID" : "REASON");
        }
    }
    return true;
}

/* ---- Bundles ---- */

struct claim {
    struct tn_bytes pool, count, values; /* in the body; empty: not there */
};

static bool claim_read(struct protocol_words *w, struct tn_bytes object, struct claim *ret_claim) {
    if (protocol_json_kind(object) != PROTOCOL_JSON_OBJECT) {
        return protocol_words_refuse(w, TN_R_MALFORMED, "from: an array of objects is needed");
    }
    struct protocol_walk walk = protocol_walk_of(object);
    struct tn_bytes key;
    struct tn_bytes value;
    *ret_claim = (struct claim){.pool = {.len = 0}};
    while (protocol_walk_next(&walk, &key, &value)) {
        char text[PROTOCOL_KEY_MAX];
        struct tn_bytes name;
        bool known = protocol_words_key(key, text, &name);
        struct tn_bytes *to = !known                    ? NULL
                              : text_is(name, "pool")   ? &ret_claim->pool
                              : text_is(name, "count")  ? &ret_claim->count
                              : text_is(name, "values") ? &ret_claim->values
                                                        : NULL;
        if (to == NULL) {
            return protocol_words_refuse(w, TN_R_MALFORMED, "from: unknown field '%.*s'",
                                         PROTOCOL_SHOWN(tn_bytes_of(key.at + 1, key.len - 2)));
        }
        if (to->len > 0) {
            return protocol_words_refuse(w, TN_R_MALFORMED, "from: %.*s is repeated",
                                         PROTOCOL_SHOWN(name));
        }
        if (protocol_json_kind(value) != PROTOCOL_JSON_NULL) {
            *to = value;
        }
    }
    return true;
}

static bool claim_put(struct protocol_words *w, const struct claim *claim) {
    if (claim->pool.len == 0) {
        return protocol_words_refuse(w, TN_R_MALFORMED, "from: pool is missing");
    }
    if ((claim->count.len == 0) == (claim->values.len == 0)) {
        return protocol_words_refuse(w, TN_R_MALFORMED,
                                     "from: each item needs either count or values");
    }
    if (!add_text(w, "FROM") || !add_value(w, "from: pool", claim->pool, ACCEPT_STRING)) {
        return false;
    }
    return claim->values.len > 0
               ? add_values(w, claim->values)
               : add_text(w, "COUNT") && add_value(w, "from: count", claim->count, ACCEPT_NUMBER);
}

static bool put_claims(struct protocol_words *w, const struct protocol_field *field) {
    if (field->given == PROTOCOL_GIVEN_TEXT) {
        return protocol_words_refuse(w, TN_R_MALFORMED, "from: it must be in the body");
    }
    if (!array_check(w, "from", field->value)) {
        return false;
    }
    struct protocol_walk walk = protocol_walk_of(field->value);
    struct tn_bytes key;
    struct tn_bytes item;
    uint32_t count = 0;
    while (protocol_walk_next(&walk, &key, &item)) {
        struct claim claim = {.pool = {.len = 0}};
        count++;
        if (!claim_read(w, item, &claim) || !claim_put(w, &claim)) {
            return false;
        }
    }
    return count > 0 || protocol_words_refuse(w, TN_R_MALFORMED, "from: at least 1 item is needed");
}

/* ---- Options of pools ---- */

/* [lo, hi], or {"lo": lo, "hi": hi}. */
static bool span_read(struct protocol_words *w, const char *name, struct tn_bytes value,
                      struct tn_bytes ret_ends[2]) {
    enum protocol_json_kind kind = protocol_json_kind(value);
    struct tn_bytes key;
    struct tn_bytes item;
    uint32_t seen = 0;
    bool good = kind == PROTOCOL_JSON_ARRAY || kind == PROTOCOL_JSON_OBJECT;
    struct protocol_walk walk = good ? protocol_walk_of(value) : (struct protocol_walk){0};
    for (uint32_t i = 0; good && protocol_walk_next(&walk, &key, &item); i++) {
        uint32_t end = i;
        if (kind == PROTOCOL_JSON_OBJECT) {
            end = text_is(key, "\"lo\"") ? 0 : (text_is(key, "\"hi\"") ? 1 : 2);
        }
        good = end < 2 && (seen >> end & 1) == 0;
        if (good) {
            ret_ends[end] = item;
            seen |= 1u << end;
        }
    }
    return (good && seen == 3) ||
           protocol_words_refuse(w, TN_R_MALFORMED, "%s: [lo, hi] is needed", name);
}

static bool put_spans(struct protocol_words *w, struct tn_bytes array) {
    struct protocol_walk walk = protocol_walk_of(array);
    struct tn_bytes key;
    struct tn_bytes item;
    while (protocol_walk_next(&walk, &key, &item)) {
        struct tn_bytes ends[2] = {{.len = 0}, {.len = 0}};
        if (!span_read(w, "range", item, ends) || !add_text(w, "RANGE") ||
            !add_value(w, "range", ends[0], ACCEPT_NUMBER) ||
            !add_value(w, "range", ends[1], ACCEPT_NUMBER)) {
            return false;
        }
    }
    return true;
}

/* [lo, hi], [[lo, hi], ...], or the text of spans. */
static bool put_range(struct protocol_words *w, struct tn_bytes value) {
    struct tn_bytes ends[2] = {{.len = 0}, {.len = 0}};
    struct tn_bytes key;
    struct tn_bytes item;
    if (protocol_json_kind(value) == PROTOCOL_JSON_STRING) {
        return add_text(w, "RANGE") && add_value(w, "range", value, ACCEPT_STRING) &&
               (kernel_range_is_whole(w->argv[w->argc - 1]) ||
                protocol_words_refuse(w, TN_R_MALFORMED, "range: [lo, hi] is needed"));
    }
    if (protocol_json_kind(value) == PROTOCOL_JSON_ARRAY) {
        struct protocol_walk walk = protocol_walk_of(value);
        bool first = protocol_walk_next(&walk, &key, &item);
        enum protocol_json_kind kind = first ? protocol_json_kind(item) : PROTOCOL_JSON_NULL;
        if (kind == PROTOCOL_JSON_ARRAY || kind == PROTOCOL_JSON_OBJECT) {
            return put_spans(w, value);
        }
    }
    return span_read(w, "range", value, ends) && add_text(w, "RANGE") &&
           add_value(w, "range", ends[0], ACCEPT_NUMBER) &&
           add_value(w, "range", ends[1], ACCEPT_NUMBER);
}

static bool span_write(struct protocol_words *w, struct tn_bytes value) {
    struct tn_bytes ends[2] = {{.len = 0}, {.len = 0}};
    if (!span_read(w, "exclude", value, ends)) {
        return false;
    }
    for (unsigned i = 0; i < 2; i++) {
        struct tn_bytes text;
        if (i == 1) {
            tn_write8(&w->scratch, '-');
        }
        if (!value_text(w, "exclude", ends[i], ACCEPT_NUMBER, &text)) {
            return false;
        }
        if (protocol_json_kind(ends[i]) == PROTOCOL_JSON_NUMBER) {
            tn_write_raw(&w->scratch, text.at, text.len); /* a string has been written there */
        }
    }
    return true;
}

/* [[lo, hi], ...] as the one word lo-hi,lo-hi. */
static bool put_exclude(struct protocol_words *w, struct tn_bytes array) {
    struct protocol_walk walk = protocol_walk_of(array);
    struct tn_bytes key;
    struct tn_bytes item;
    size_t begin = w->scratch.len;
    while (protocol_walk_next(&walk, &key, &item)) {
        if (w->scratch.len > begin) {
            tn_write8(&w->scratch, ',');
        }
        if (!span_write(w, item)) {
            return false;
        }
    }
    return add_text(w, "exclude") &&
           protocol_words_add(w, tn_bytes_of(w->scratch.at + begin, w->scratch.len - begin));
}

static bool put_option(struct protocol_words *w, struct tn_bytes name,
                       const struct protocol_field *field) {
    bool json = field->given == PROTOCOL_GIVEN_JSON;
    for (uint32_t i = 0; i < name.len; i++) {
        uint8_t c = name.at[i];
        if ((c < 'a' || c > 'z') && c != '_') {
            return protocol_words_refuse(w, TN_R_MALFORMED, "unknown option '%.*s'",
                                         PROTOCOL_SHOWN(name));
        }
    }
    if (text_is(name, "set")) {
        bool flag;
        return flag_read(w, "set", field, &flag) && (!flag || add_text(w, "SET"));
    }
    if (text_is(name, "range")) {
        return json ? put_range(w, field->value)
               : kernel_range_is_whole(field->value)
                   ? add_text(w, "RANGE") && protocol_words_add(w, field->value)
                   : protocol_words_refuse(w, TN_R_MALFORMED,
                                           "range: LO-HI or ADDRESS/BITS is needed");
    }
    if (json && text_is(name, "exclude") &&
        protocol_json_kind(field->value) == PROTOCOL_JSON_ARRAY) {
        return put_exclude(w, field->value);
    }
    char shown[PROTOCOL_KEY_MAX] = "";
    memcpy(shown, name.at, name.len < sizeof shown ? name.len : sizeof shown - 1);
    size_t begin = w->scratch.len; /* the name may be in memory of our caller's */
    tn_write_raw(&w->scratch, name.at, name.len);
    return protocol_words_add(w, tn_bytes_of(w->scratch.at + begin, w->scratch.len - begin)) &&
           (json ? add_value(w, shown, field->value, ACCEPT_OPTION)
                 : protocol_words_add(w, field->value));
}

static bool put_options(struct protocol_words *w) {
    uint32_t none = w->route->form->count;
    bool list;
    for (uint32_t q = 0; q < w->http->query_count; q++) {
        struct protocol_query query = w->http->query[q];
        struct protocol_field field = {.given = PROTOCOL_GIVEN_TEXT, .value = query.value};
        if (protocol_words_find(w, query.name, &list) == none &&
            !put_option(w, query.name, &field)) {
            return false;
        }
    }
    struct protocol_field field = {.given = PROTOCOL_GIVEN_JSON};
    struct protocol_walk walk = {0};
    struct tn_bytes key;
    if (w->http->body.len > 0) {
        walk = protocol_walk_of(w->http->body);
    }
    while (walk.at < walk.end && protocol_walk_next(&walk, &key, &field.value)) {
        char text[PROTOCOL_KEY_MAX];
        if (protocol_words_key(key, text, &key) && protocol_words_find(w, key, &list) == none &&
            protocol_json_kind(field.value) != PROTOCOL_JSON_NULL && !put_option(w, key, &field)) {
            return false;
        }
    }
    return true;
}

/* ---- All ---- */

bool protocol_words_put(struct protocol_words *w, uint32_t i) {
    const struct protocol_route *route = w->route;
    const struct protocol_argument *argument = &route->form->arguments[i];
    const struct protocol_field *field = &w->fields[i];
    char name[PROTOCOL_KEY_MAX];
    if (argument->bind == PROTOCOL_B_OPTIONS) {
        return put_options(w);
    }
    if (field->given == PROTOCOL_GIVEN_NOT && argument->bind == PROTOCOL_B_BEARER) {
        return protocol_words_refuse(w, TN_R_BAD_TOKEN,
                                     "no token: the header Authorization: Bearer is missing");
    }
    if (field->given == PROTOCOL_GIVEN_NOT) {
        return argument->optional || protocol_words_refuse(w, TN_R_MALFORMED, "%s is missing",
                                                           field_name(argument, name));
    }
    switch (argument->bind) {
    case PROTOCOL_B_UNUSED:
        return true;
    case PROTOCOL_B_AMOUNT:
        return put_amount(w, i, field);
    case PROTOCOL_B_VALUES:
        return put_names(w, i, field);
    case PROTOCOL_B_CLAIM:
        return put_claims(w, field);
    default:
        break;
    }
    (void)field_name(argument, name);
    if (argument->type == PROTOCOL_T_TOKEN) {
        return put_flag(w, argument, name, field);
    }
    if (!put_scalar(w, argument, name, field)) {
        return false;
    }
    /* Behind the pool this word would begin a bundle. */
    if (route->form == &route->row->form && route->row->other.count > 0 && w->argc == 3 &&
        protocol_word_is(w->argv[2], "FROM", 4)) {
        return protocol_words_refuse(w, TN_R_MALFORMED, "%s: it cannot be FROM here", name);
    }
    return true;
}
