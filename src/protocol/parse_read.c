/* The arguments that only reads have. */
#include <string.h>

#include "base/assert.h"
#include "protocol/parse_parts.h"

/* pool/value, or with `lease` also a lease. Pool names have no slash, values may. */
static bool bind_target(struct parse_cursor *c, bool lease) {
    struct tn_bytes word = c->at < c->argc ? c->argv[c->at] : tn_bytes_of(NULL, 0);
    const uint8_t *slash = word.len > 0 ? memchr(word.at, '/', word.len) : NULL;
    if (slash == NULL) {
        return lease
                   ? parse_bind_lease(c)
                   : parse_refuse(c, TN_R_MALFORMED, "'%.*s' is not pool/value", PARSE_SHOWN(word));
    }
    size_t pool = (size_t)(slash - word.at);
    c->at++;
    c->call->command.pool = tn_bytes_of(word.at, pool);
    c->call->value = tn_bytes_of(slash + 1, word.len - pool - 1);
    if (c->call->value.len == 0) {
        return parse_refuse(c, TN_R_MALFORMED, "the value after the pool and '/' is missing");
    }
    return true;
}

static bool bind_state(struct parse_cursor *c) {
    struct tn_bytes word;
    char name[16];
    if (!parse_next(c, "STATE", &word)) {
        return false;
    }
    if (parse_lower_copy(word, name, sizeof name)) {
        for (unsigned i = KERNEL_RESERVED; i < KERNEL_SHOWN_COUNT; i++) {
            if (strcmp(name, kernel_state_name((enum kernel_state)i)) == 0) {
                c->call->state = (enum kernel_state)i;
                return true;
            }
        }
    }
    return parse_refuse(c, TN_R_MALFORMED, "unknown state '%.*s'", PARSE_SHOWN(word));
}

static bool bind_value_state(struct parse_cursor *c) {
    struct tn_bytes word;
    char name[16];
    if (!parse_next(c, "STATE", &word)) {
        return false;
    }
    for (unsigned i = KERNEL_VALUE_ANY + 1;
         i < KERNEL_VALUE_STATE_COUNT && parse_lower_copy(word, name, sizeof name); i++) {
        if (strcmp(name, kernel_value_state_name((enum kernel_value_state)i)) == 0) {
            c->call->value_state = (enum kernel_value_state)i;
            return true;
        }
    }
    return parse_refuse(c, TN_R_MALFORMED, "a value has no state '%.*s'", PARSE_SHOWN(word));
}

static bool bind_count(struct parse_cursor *c, uint32_t max, uint32_t *ret_count) {
    uint64_t count;
    if (!parse_next_number(c, "COUNT", max, &count)) {
        return false;
    }
    if (count == 0) {
        return parse_refuse(c, TN_R_MALFORMED, "COUNT must be at least 1");
    }
    *ret_count = (uint32_t)count;
    return true;
}

static bool bind_step(struct parse_cursor *c) {
    struct tn_bytes word;
    if (!parse_next(c, "STEP", &word)) {
        return false;
    }
    c->call->select.hours = protocol_word_is(word, "HOUR", 4);
    return c->call->select.hours || protocol_word_is(word, "MINUTE", 6) ||
           parse_refuse(c, TN_R_MALFORMED, "STEP must be minute or hour");
}

static bool bind_sort(struct parse_cursor *c) {
    static const char *const words[] = {[PROTOCOL_SORT_OCCUPANCY] = "OCCUPANCY",
                                        [PROTOCOL_SORT_FREE] = "FREE",
                                        [PROTOCOL_SORT_WAITING] = "WAITING",
                                        [PROTOCOL_SORT_NAME] = "NAME"};
    struct tn_bytes word;
    if (!parse_next(c, "SORT", &word)) {
        return false;
    }
    for (unsigned i = PROTOCOL_SORT_OCCUPANCY; i <= PROTOCOL_SORT_NAME; i++) {
        if (protocol_word_is(word, words[i], strlen(words[i]))) {
            c->call->select.sort = (enum protocol_sort)i;
            return true;
        }
    }
    return parse_refuse(c, TN_R_MALFORMED, "SORT must be occupancy, free, waiting or name");
}

static bool bind_scopes(struct parse_cursor *c) {
    struct tn_bytes word;
    if (!parse_next(c, "SCOPES", &word)) {
        return false;
    }
    c->call->select.no_scopes = protocol_word_is(word, "NO", 2);
    return c->call->select.no_scopes || protocol_word_is(word, "YES", 3) ||
           parse_refuse(c, TN_R_MALFORMED, "SCOPES must be yes or no");
}

static bool bind_event(struct parse_cursor *c) {
    struct tn_bytes word;
    if (!parse_next(c, "AFTER", &word)) {
        return false;
    }
    if (!protocol_event_id_parse(word, &c->call->after)) {
        return parse_refuse(c, TN_R_MALFORMED, "'%.*s' is not an event id such as 1042.0",
                            PARSE_SHOWN(word));
    }
    return true;
}

static bool bind_scope(struct parse_cursor *c) {
    if (!parse_next(c, "SCOPE", &c->call->scope)) {
        return false;
    }
    if (!protocol_scope_fits(c->call->scope)) {
        return parse_refuse(c, TN_R_MALFORMED,
                            "SCOPE: up to %u bytes of ASCII words separated by single blanks",
                            PROTOCOL_SCOPE_MAX);
    }
    return true;
}

bool parse_bind_read(struct parse_cursor *c, enum protocol_bind to) {
    switch (to) {
    case PROTOCOL_B_TARGET:
        return bind_target(c, true);
    case PROTOCOL_B_VALUE:
        return bind_target(c, false);
    case PROTOCOL_B_STATE:
        return bind_state(c);
    case PROTOCOL_B_VALUE_STATE:
        return bind_value_state(c);
    case PROTOCOL_B_CURSOR:
        return parse_next_number(c, "CURSOR", UINT64_MAX, &c->call->cursor);
    case PROTOCOL_B_COUNT:
        return bind_count(c, PROTOCOL_PAGE_MAX, &c->call->count);
    case PROTOCOL_B_BYTES:
        return bind_count(c, PROTOCOL_LOGS_MAX, &c->call->bytes);
    case PROTOCOL_B_POSITION:
        return parse_next(c, "AFTER", &c->call->position);
    case PROTOCOL_B_FILE:
        return parse_next(c, "the file", &c->call->file);
    case PROTOCOL_B_OFFSET:
        return parse_next_number(c, "the offset", UINT64_MAX, &c->call->offset);
    case PROTOCOL_B_EVENT:
        return bind_event(c);
    case PROTOCOL_B_KIND:
        return parse_next_name(c, "KIND", KERNEL_RULE_MAX, &c->call->select.kind);
    case PROTOCOL_B_OF_VALUE:
        return parse_next_name(c, "VALUE", KERNEL_RESOURCE_MAX, &c->call->value);
    case PROTOCOL_B_ACTOR:
        return parse_next_name(c, "ACTOR", KERNEL_HOLDER_MAX, &c->call->select.actor);
    case PROTOCOL_B_TEXT:
        return parse_next_name(c, "TEXT", KERNEL_NOTE_MAX, &c->call->select.text);
    case PROTOCOL_B_PREFIX:
        return parse_next_name(c, "PREFIX", KERNEL_HOLDER_MAX, &c->call->select.prefix);
    case PROTOCOL_B_SAMPLES:
        return bind_count(c, PROTOCOL_SAMPLES_MAX, &c->call->select.samples);
    case PROTOCOL_B_STEP:
        return bind_step(c);
    case PROTOCOL_B_MATCH:
        return parse_next_name(c, "MATCH", PROTOCOL_MATCH_MAX, &c->call->select.match);
    case PROTOCOL_B_SORT:
        return bind_sort(c);
    case PROTOCOL_B_SCOPES:
        return bind_scopes(c);
    case PROTOCOL_B_TOKEN:
    case PROTOCOL_B_BEARER:
        return parse_next(c, "the token", &c->call->token);
    case PROTOCOL_B_SCOPE:
        return bind_scope(c);
    case PROTOCOL_B_REFRESH:
        c->call->has_refresh = true;
        return parse_next_seconds(c, "REFRESH", &c->call->refresh_s);
    case PROTOCOL_B_FENCE:
        return parse_next_number(c, "FENCE", UINT64_MAX, &c->call->fence_lsn);
    default:
        TN_ASSERT(false);
        return false;
    }
}
