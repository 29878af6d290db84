/* Finds the fields of an HTTP request in its path, query, header and body, each for one argument of
 * the form. Unknown and repeated fields are refused by name. */
#include "protocol/words.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "protocol/text.h"
#include "protocol/walk.h"

bool protocol_words_refuse(struct protocol_words *w, enum tn_result code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(w->detail, PROTOCOL_DETAIL, format, arguments);
    va_end(arguments);
    w->code = code;
    return false;
}

/* ---- Names ---- */

static bool name_is(struct tn_bytes name, const char *text) {
    return tn_bytes_equal(name, tn_bytes_of(text, strlen(text)));
}

static bool name_is_lower(struct tn_bytes name, const char *upper) {
    for (uint32_t i = 0; i < name.len; i++) {
        if (upper[i] == '\0' || name.at[i] != (upper[i] == '_' ? '_' : upper[i] | 0x20)) {
            return false;
        }
    }
    return upper[name.len] == '\0';
}

static bool argument_is(const struct protocol_argument *argument, struct tn_bytes name,
                        bool *ret_list) {
    switch (argument->bind) {
    case PROTOCOL_B_AMOUNT:
        *ret_list = name_is(name, "values");
        return *ret_list || (argument->type == PROTOCOL_T_ONEOF && name_is(name, "count"));
    case PROTOCOL_B_VALUES:
        *ret_list = true;
        return name_is(name, "names") || name_is(name, "name");
    case PROTOCOL_B_TARGET:
        return name_is(name, "lease");
    case PROTOCOL_B_OPTIONS:
        return false;
    default:
        return argument->token != NULL ? name_is_lower(name, argument->token)
                                       : name_is(name, argument->name);
    }
}

uint32_t protocol_words_find(const struct protocol_words *w, struct tn_bytes name, bool *ret_list) {
    const struct protocol_form *form = w->route->form;
    uint32_t i = 0;
    *ret_list = false;
    while (i < form->count && !argument_is(&form->arguments[i], name, ret_list)) {
        i++;
    }
    return i;
}

/* A form with options takes any other name for one. */
static bool has_options(const struct protocol_words *w) {
    const struct protocol_form *form = w->route->form;
    for (uint32_t i = 0; i < form->count; i++) {
        if (form->arguments[i].bind == PROTOCOL_B_OPTIONS) {
            return true;
        }
    }
    return false;
}

bool protocol_words_key(struct tn_bytes key, char out[PROTOCOL_KEY_MAX], struct tn_bytes *ret_key) {
    struct tn_writer w = tn_writer_of(out, PROTOCOL_KEY_MAX);
    return protocol_json_text(key, &w, ret_key);
}

/* ---- Fields ---- */

static bool field_twice(struct protocol_words *w, struct tn_bytes name) {
    return protocol_words_refuse(w, TN_R_MALFORMED, "%.*s is repeated", PROTOCOL_SHOWN(name));
}

static bool field_unknown(struct protocol_words *w, struct tn_bytes name) {
    return protocol_words_refuse(w, TN_R_MALFORMED, "unknown field '%.*s'", PROTOCOL_SHOWN(name));
}

static bool field_set(struct protocol_words *w, uint32_t i, struct tn_bytes name,
                      struct protocol_field field) {
    struct protocol_field *had = &w->fields[i];
    if (had->given == PROTOCOL_GIVEN_NOT) {
        *had = field;
        return true;
    }
    if (had->list != field.list) {
        return protocol_words_refuse(w, TN_R_MALFORMED, "count and values exclude each other");
    }
    return field.list && field.query && had->query ? true : field_twice(w, name);
}

/* Those of the path. A value's pool comes before it: together they are one argument. */
static bool collect_path(struct protocol_words *w) {
    const struct protocol_route *route = w->route;
    const struct protocol_param *params = route->params;
    uint8_t bind = route->form->count > 0 ? route->form->arguments[0].bind : PROTOCOL_B_NONE;
    if (route->param_count == 2 && (bind == PROTOCOL_B_TARGET || bind == PROTOCOL_B_VALUE)) {
        if (memchr(params[0].value.at, '/', params[0].value.len) != NULL) {
            return protocol_words_refuse(w, TN_R_MALFORMED, "pool: it contains a slash");
        }
        size_t begin = w->scratch.len;
        tn_write_raw(&w->scratch, params[0].value.at, params[0].value.len);
        tn_write8(&w->scratch, '/');
        tn_write_raw(&w->scratch, params[1].value.at, params[1].value.len);
        struct tn_bytes target = tn_bytes_of(w->scratch.at + begin, w->scratch.len - begin);
        return field_set(w, 0, params[0].name,
                         (struct protocol_field){.given = PROTOCOL_GIVEN_TEXT, .value = target});
    }
    for (uint32_t p = 0; p < route->param_count; p++) {
        bool list;
        uint32_t i = protocol_words_find(w, params[p].name, &list);
        TN_ASSERT(i < route->form->count); /* the table says so */
        if (!field_set(
                w, i, params[p].name,
                (struct protocol_field){.given = PROTOCOL_GIVEN_TEXT, .value = params[p].value})) {
            return false;
        }
    }
    return true;
}

/* Whether one of the first `count` arguments of the query has this name. */
static bool query_has(const struct protocol_words *w, struct tn_bytes name, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (tn_bytes_equal(w->http->query[i].name, name)) {
            return true;
        }
    }
    return false;
}

static bool collect_query(struct protocol_words *w) {
    bool options = has_options(w);
    if (w->http->query_count > PROTOCOL_QUERY_MAX) {
        return protocol_words_refuse(w, TN_R_TOO_LARGE, "at most %u arguments in the query",
                                     PROTOCOL_QUERY_MAX);
    }
    for (uint32_t q = 0; q < w->http->query_count; q++) {
        struct protocol_query query = w->http->query[q];
        struct protocol_field field = {
            .given = PROTOCOL_GIVEN_TEXT, .query = true, .value = query.value};
        uint32_t i = protocol_words_find(w, query.name, &field.list);
        if (i < w->route->form->count) {
            /* URLs get into logs and histories, and the redirect of a follower repeats them. */
            if (w->route->form->arguments[i].bind == PROTOCOL_B_SECRET) {
                return protocol_words_refuse(w, TN_R_MALFORMED,
                                             "secret: send it in the body, not in the URL");
            }
            if (!field_set(w, i, query.name, field)) {
                return false;
            }
        } else if (!options) {
            return field_unknown(w, query.name);
        } else if (query_has(w, query.name, q)) {
            return field_twice(w, query.name);
        }
    }
    return true;
}

static bool collect_header(struct protocol_words *w) {
    bool list;
    struct tn_bytes name = tn_bytes_of("opid", 4);
    uint32_t i = protocol_words_find(w, name, &list);
    if (w->http->opid.len == 0 || i == w->route->form->count) {
        return true;
    }
    return field_set(w, i, name,
                     (struct protocol_field){.given = PROTOCOL_GIVEN_TEXT, .value = w->http->opid});
}

/* Whether the body had an option of this name before. */
static bool option_twice(const struct protocol_words *w, struct tn_bytes name) {
    for (uint32_t i = 0; i < w->option_count; i++) {
        char text[PROTOCOL_KEY_MAX];
        struct tn_bytes key;
        if (protocol_words_key(w->options[i], text, &key) && tn_bytes_equal(key, name)) {
            return true;
        }
    }
    return false;
}

static bool collect_member(struct protocol_words *w, struct tn_bytes key, struct tn_bytes value,
                           bool options) {
    char text[PROTOCOL_KEY_MAX];
    struct tn_bytes name;
    if (!protocol_words_key(key, text, &name)) {
        return field_unknown(w, tn_bytes_of(key.at + 1, key.len - 2));
    }
    struct protocol_field field = {.given = PROTOCOL_GIVEN_JSON, .value = value};
    uint32_t i = protocol_words_find(w, name, &field.list);
    if (i < w->route->form->count) {
        return protocol_json_kind(value) == PROTOCOL_JSON_NULL || field_set(w, i, name, field);
    }
    if (!options) {
        return field_unknown(w, name);
    }
    if (query_has(w, name, w->http->query_count) || option_twice(w, name)) {
        return field_twice(w, name);
    }
    if (w->option_count == PROTOCOL_OPTIONS_MAX) {
        return protocol_words_refuse(w, TN_R_TOO_LARGE, "more than %u options",
                                     PROTOCOL_OPTIONS_MAX);
    }
    w->options[w->option_count++] = key;
    return true;
}

static bool collect_body(struct protocol_words *w) {
    bool options = has_options(w);
    struct tn_bytes key;
    struct tn_bytes value;
    if (w->http->body.len == 0) {
        return true;
    }
    const char *fault = protocol_json_fault(w->http->body);
    if (fault != NULL) {
        return protocol_words_refuse(w, TN_R_MALFORMED, "the body: %s", fault);
    }
    struct protocol_walk walk = protocol_walk_of(w->http->body);
    while (protocol_walk_next(&walk, &key, &value)) {
        if (!collect_member(w, key, value, options)) {
            return false;
        }
    }
    return true;
}

/* ---- All ---- */

static bool words_write(struct protocol_words *w) {
    const struct protocol_command *row = w->route->row;
    if (!protocol_words_add(w, tn_bytes_of(row->word, row->word_len)) ||
        (row->sub_len > 0 && !protocol_words_add(w, tn_bytes_of(row->sub, row->sub_len)))) {
        return false;
    }
    for (uint32_t i = 0; i < w->route->form->count; i++) {
        if (!protocol_words_put(w, i)) {
            return false;
        }
    }
    return true;
}

enum tn_result protocol_http_words(const struct protocol_route *route,
                                   const struct protocol_http *http, void *scratch, size_t capacity,
                                   struct tn_bytes *argv, uint32_t argv_capacity,
                                   uint32_t *ret_argc, char detail[PROTOCOL_DETAIL]) {
    struct protocol_words w = {.route = route,
                               .http = http,
                               .scratch = tn_writer_of(scratch, capacity),
                               .argv = argv,
                               .capacity = argv_capacity,
                               .detail = detail,
                               .code = TN_R_MALFORMED};
    detail[0] = '\0';
    if (!collect_path(&w) || !collect_query(&w) || !collect_header(&w) || !collect_body(&w) ||
        !words_write(&w)) {
        return w.code;
    }
    if (w.scratch.overflow) {
        (void)protocol_words_refuse(&w, TN_R_TOO_LARGE, "the request is too large");
        return w.code;
    }
    *ret_argc = w.argc;
    return TN_R_OK;
}
