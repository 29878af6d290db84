/* Maps HTTP paths to rows of the command table. */
#include <string.h>

#include "protocol/http.h"

#define SEGMENTS_MAX 8u

struct path {
    struct tn_bytes segments[SEGMENTS_MAX]; /* percent-decoded */
    uint32_t count;
};

static int hex_digit(uint8_t c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool segment_decode(struct tn_bytes raw, struct tn_writer *out, struct tn_bytes *ret_text) {
    size_t begin = out->len;
    for (uint32_t i = 0; i < raw.len; i++) {
        if (raw.at[i] != '%') {
            tn_write8(out, raw.at[i]);
            continue;
        }
        int high = i + 2 < raw.len ? hex_digit(raw.at[i + 1]) : -1;
        int low = i + 2 < raw.len ? hex_digit(raw.at[i + 2]) : -1;
        if (high < 0 || low < 0) {
            return false;
        }
        tn_write8(out, (uint8_t)(high << 4 | low));
        i += 2;
    }
    *ret_text = tn_bytes_of(out->at + begin, out->overflow ? 0 : out->len - begin);
    return !out->overflow;
}

/* Splits a path such as "/a/b%2Fc" into its two segments. Empty segments are refused. */
static enum protocol_route_code path_split(struct tn_bytes raw, struct tn_writer *out,
                                           struct path *ret_path) {
    uint32_t at = 0;
    ret_path->count = 0;
    while (at < raw.len) {
        if (raw.at[at] != '/' || ret_path->count == SEGMENTS_MAX) {
            return PROTOCOL_ROUTE_NO_PATH;
        }
        uint32_t end = ++at;
        while (end < raw.len && raw.at[end] != '/') {
            end++;
        }
        if (end == at) {
            return PROTOCOL_ROUTE_NO_PATH;
        }
        struct tn_bytes *segment = &ret_path->segments[ret_path->count++];
        if (!segment_decode(tn_bytes_of(raw.at + at, end - at), out, segment)) {
            return PROTOCOL_ROUTE_BAD_PATH;
        }
        at = end;
    }
    return PROTOCOL_ROUTE_OK;
}

/* Whether the path is one of `pattern`, "/v1/pools/{pool}"; then the route has its parameters. */
static bool path_matches(const struct path *path, const char *pattern,
                         struct protocol_route *route) {
    uint32_t i = 0;
    route->param_count = 0;
    for (; *pattern == '/'; i++) {
        size_t len = strcspn(++pattern, "/");
        if (i == path->count) {
            return false;
        }
        if (pattern[0] == '{') {
            struct protocol_param *param = &route->params[route->param_count++];
            param->name = tn_bytes_of(pattern + 1, len - 2);
            param->value = path->segments[i];
        } else if (!tn_bytes_equal(path->segments[i], tn_bytes_of(pattern, len))) {
            return false;
        }
        pattern += len;
    }
    return i == path->count;
}

/* ---- Methods ---- */

static bool method_is(struct tn_bytes method, const char *name) {
    return tn_bytes_equal(method, tn_bytes_of(name, strlen(name)));
}

static void allow_add(char allow[PROTOCOL_ALLOW_MAX], const char *method) {
    if (strstr(allow, method) != NULL) {
        return;
    }
    size_t used = strlen(allow);
    struct tn_writer w = tn_writer_of(allow + used, PROTOCOL_ALLOW_MAX - 1 - used);
    if (used > 0) {
        tn_write_raw(&w, ", ", 2);
    }
    tn_write_raw(&w, method, strlen(method));
    if (strcmp(method, "GET") == 0) {
        tn_write_raw(&w, ", HEAD", 6);
    }
    allow[used + w.len] = '\0';
}

enum protocol_route_code protocol_route_find(struct tn_bytes method, struct tn_bytes path,
                                             void *scratch, size_t capacity,
                                             struct protocol_route *ret_route,
                                             char ret_allow[PROTOCOL_ALLOW_MAX]) {
    struct tn_writer out = tn_writer_of(scratch, capacity);
    struct path parts;
    enum protocol_route_code code = path_split(path, &out, &parts);
    if (code != PROTOCOL_ROUTE_OK) {
        return code;
    }
    struct tn_bytes wanted = method_is(method, "HEAD") ? tn_bytes_of("GET", 3) : method;
    ret_allow[0] = '\0';
    for (unsigned i = 0; i < 2 * PROTOCOL_COMMANDS; i++) {
        const struct protocol_command *row = &protocol_table[i / 2];
        bool also = i % 2 == 1;
        const char *name = also ? row->also_method : row->method;
        if (name == NULL || !path_matches(&parts, also ? row->also_path : row->path, ret_route)) {
            continue;
        }
        if (method_is(wanted, name)) {
            ret_route->row = row;
            ret_route->form = protocol_command_form(row, also);
            return PROTOCOL_ROUTE_OK;
        }
        allow_add(ret_allow, name);
    }
    return ret_allow[0] == '\0' ? PROTOCOL_ROUTE_NO_PATH : PROTOCOL_ROUTE_NO_METHOD;
}
