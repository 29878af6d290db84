/* Messages about rules: judged whole first, then walked through in place. */
#include "broker/rule_message.h"

#include <sodium.h>
#include <string.h>

#include "protocol/text.h"
#include "protocol/walk.h"

#define TYPE_MAX 32u

/* ---- Members ---- */

enum member {
    MEMBER_EVENT_TYPE,
    MEMBER_MESSAGE_TYPE,
    MEMBER_MESSAGE_ID,
    MEMBER_TIMESTAMP,
    MEMBER_PAYLOAD,
    MEMBER_RULE_ID,
    MEMBER_RULE_REF,
    MEMBER_TRIGGER_REF,
    MEMBER_TRIGGER_TYPE,
    MEMBER_TRIGGER_ID,
    MEMBER_ENABLED,
    MEMBER_TRIGGER_PARAMS,
    MEMBERS
};

static const char *const member_keys[MEMBERS] = {
    "\"event_type\"",   "\"message_type\"", "\"message_id\"", "\"timestamp\"",
    "\"payload\"",      "\"rule_id\"",      "\"rule_ref\"",   "\"trigger_ref\"",
    "\"trigger_type\"", "\"trigger_id\"",   "\"enabled\"",    "\"trigger_params\"",
};

/* Each member as written; empty: absent or null. */
struct members {
    struct tn_bytes of[MEMBERS];
};

/* False: a member is repeated, so its value is ambiguous. */
static bool members_read(struct tn_bytes object, struct members *ret_members) {
    struct tn_bytes key;
    struct tn_bytes value;
    uint32_t seen = 0;
    *ret_members = (struct members){0};
    struct protocol_walk walk = protocol_walk_of(object);
    while (protocol_walk_next(&walk, &key, &value)) {
        for (unsigned i = 0; i < MEMBERS; i++) {
            if (!tn_bytes_equal(key, tn_bytes_of(member_keys[i], strlen(member_keys[i])))) {
                continue;
            }
            if ((seen & 1u << i) != 0) {
                return false;
            }
            seen |= 1u << i;
            if (protocol_json_kind(value) != PROTOCOL_JSON_NULL) {
                ret_members->of[i] = value;
            }
        }
    }
    return true;
}

/* Copies members that only the envelope has. */
static void members_inherit(struct members *inner, const struct members *envelope) {
    static const enum member inherited[] = {MEMBER_EVENT_TYPE, MEMBER_MESSAGE_TYPE,
                                            MEMBER_MESSAGE_ID, MEMBER_TIMESTAMP};
    for (size_t i = 0; i < sizeof inherited / sizeof inherited[0]; i++) {
        struct tn_bytes *value = &inner->of[inherited[i]];
        *value = value->len > 0 ? *value : envelope->of[inherited[i]];
    }
}

/* Reads a string, or the digits of a number. */
static bool text_take(struct tn_bytes value, char *out, size_t room, uint32_t *ret_len) {
    struct tn_writer w = tn_writer_of(out, room);
    struct tn_bytes text;
    uint64_t number;
    switch (protocol_json_kind(value)) {
    case PROTOCOL_JSON_STRING:
        if (!protocol_json_text(value, &w, &text)) {
            return false;
        }
        *ret_len = text.len;
        return true;
    case PROTOCOL_JSON_NUMBER:
        if (!kernel_value_parse(KERNEL_DEC, value, &number) || value.len > room) {
            return false;
        }
        memcpy(out, value.at, value.len);
        *ret_len = value.len;
        return true;
    default:
        return false;
    }
}

/* The first of these members that is present, as a name. *ret_len is 0 if none is. */
static bool name_take(const struct members *members, const enum member *wanted, unsigned count,
                      char out[KERNEL_RULE_MAX], uint32_t *ret_len) {
    *ret_len = 0;
    for (unsigned i = 0; i < count; i++) {
        struct tn_bytes value = members->of[wanted[i]];
        if (value.len > 0) {
            return text_take(value, out, KERNEL_RULE_MAX, ret_len) &&
                   protocol_name_fault(tn_bytes_of(out, *ret_len), KERNEL_RULE_MAX) == NULL;
        }
    }
    return true;
}

/* ---- The type ---- */

static bool kind_find(struct tn_bytes text, bool of_key, enum rule_message_kind *ret_kind) {
    static const struct {
        const char *type, *key;
        enum rule_message_kind kind;
    } kinds[] = {{"RuleCreated", "rule.created", RULE_MESSAGE_CREATED},
                 {"RuleEnabled", "rule.enabled", RULE_MESSAGE_ENABLED},
                 {"RuleDisabled", "rule.disabled", RULE_MESSAGE_DISABLED},
                 {"RuleDeleted", "rule.deleted", RULE_MESSAGE_DELETED}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const char *name = of_key ? kinds[i].key : kinds[i].type;
        if (tn_bytes_equal(text, tn_bytes_of(name, strlen(name)))) {
            *ret_kind = kinds[i].kind;
            return true;
        }
    }
    return false;
}

/* The last two words of a routing key such as prefix.rule.created. */
static struct tn_bytes key_end(struct tn_bytes key) {
    unsigned points = 0;
    for (uint32_t at = key.len; at > 0; at--) {
        if (key.at[at - 1] == '.' && ++points == 2) {
            return tn_bytes_of(key.at + at, key.len - at);
        }
    }
    return key;
}

static const char *kind_take(const struct members *members, struct tn_bytes routing_key,
                             enum rule_message_kind *ret_kind) {
    struct tn_bytes value = members->of[MEMBER_EVENT_TYPE];
    value = value.len > 0 ? value : members->of[MEMBER_MESSAGE_TYPE];
    if (value.len == 0) {
        return kind_find(key_end(routing_key), true, ret_kind)
                   ? NULL
                   : "neither event_type nor the routing key names the type";
    }
    char text[TYPE_MAX];
    uint32_t len = 0;
    if (!text_take(value, text, sizeof text, &len) ||
        !kind_find(tn_bytes_of(text, len), false, ret_kind)) {
        return "event_type is not RuleCreated, RuleEnabled, RuleDisabled or RuleDeleted";
    }
    return NULL;
}

/* ---- Time ---- */

/* Reads `count` digits at *at and advances *at. */
static bool digits_take(struct tn_bytes text, uint32_t *at, unsigned count, uint32_t *ret_number) {
    uint32_t number = 0;
    for (unsigned i = 0; i < count; i++, ++*at) {
        if (*at >= text.len || text.at[*at] < '0' || text.at[*at] > '9') {
            return false;
        }
        number = number * 10 + (uint32_t)(text.at[*at] - '0');
    }
    *ret_number = number;
    return true;
}

static bool char_take(struct tn_bytes text, uint32_t *at, const char *any) {
    if (*at >= text.len || text.at[*at] == 0 || strchr(any, text.at[*at]) == NULL) {
        return false;
    }
    ++*at;
    return true;
}

/* For dates after 1970. Counts months from March, so that the leap day is the last day of a
 * year. */
static int64_t days_since_1970(uint32_t year, uint32_t month, uint32_t day) {
    uint32_t y = month <= 2 ? year - 1 : year;
    uint32_t m = month <= 2 ? month + 9 : month - 3;
    return (int64_t)365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719468;
}

static bool fraction_take(struct tn_bytes text, uint32_t *at, uint64_t *ret_us) {
    uint32_t begin = *at;
    uint64_t unit = 100000;
    while (*at < text.len && text.at[*at] >= '0' && text.at[*at] <= '9') {
        *ret_us += unit * (uint64_t)(text.at[*at] - '0');
        unit /= 10;
        ++*at;
    }
    return *at > begin;
}

/* The seconds by which the clock of that zone is ahead. */
static bool zone_take(struct tn_bytes text, uint32_t *at, int64_t *ret_ahead_s) {
    *ret_ahead_s = 0;
    if (char_take(text, at, "Zz")) {
        return true;
    }
    uint32_t hours;
    uint32_t minutes;
    bool east = *at < text.len && text.at[*at] == '+';
    if (!char_take(text, at, "+-") || !digits_take(text, at, 2, &hours)) {
        return false;
    }
    (void)char_take(text, at, ":");
    if (!digits_take(text, at, 2, &minutes) || hours > 23 || minutes > 59) {
        return false;
    }
    *ret_ahead_s = (int64_t)(hours * 60 + minutes) * (east ? 60 : -60);
    return true;
}

bool rule_message_time(struct tn_bytes text, uint64_t *ret_us) {
    uint32_t at = 0;
    uint32_t year;
    uint32_t month;
    uint32_t day;
    uint32_t hour;
    uint32_t minute;
    uint32_t second;
    uint64_t us = 0;
    int64_t ahead_s;
    if (!digits_take(text, &at, 4, &year) || !char_take(text, &at, "-") ||
        !digits_take(text, &at, 2, &month) || !char_take(text, &at, "-") ||
        !digits_take(text, &at, 2, &day) || !char_take(text, &at, "Tt ") ||
        !digits_take(text, &at, 2, &hour) || !char_take(text, &at, ":") ||
        !digits_take(text, &at, 2, &minute) || !char_take(text, &at, ":") ||
        !digits_take(text, &at, 2, &second)) {
        return false;
    }
    if (char_take(text, &at, ".") && !fraction_take(text, &at, &us)) {
        return false;
    }
    if (!zone_take(text, &at, &ahead_s) || at != text.len || year < 1970 || month < 1 ||
        month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 || second > 60) {
        return false;
    }
    int64_t seconds = days_since_1970(year, month, day) * 86400 +
                      (int64_t)(hour * 3600 + minute * 60 + second) - ahead_s;
    *ret_us = (uint64_t)seconds * 1000000 + us;
    return seconds >= 0;
}

/* A number means seconds or, from 1973 on in their own scale, milliseconds or microseconds. An
 * unreadable time counts as absent; the message is still valid. */
static uint64_t time_take(struct tn_bytes value) {
    char text[64];
    uint32_t len = 0;
    uint64_t number = 0;
    if (value.len == 0 || !text_take(value, text, sizeof text, &len)) {
        return 0;
    }
    if (protocol_json_kind(value) == PROTOCOL_JSON_STRING) {
        return rule_message_time(tn_bytes_of(text, len), &number) ? number : 0;
    }
    (void)kernel_value_parse(KERNEL_DEC, tn_bytes_of(text, len), &number);
    return number < 100000000000         ? number * 1000000
           : number < 100000000000000    ? number * 1000
           : number < 100000000000000000 ? number
                                         : 0;
}

/* ---- The message ---- */

static const char *fields_take(const struct members *members, struct rule_message *message) {
    static const enum member rules[] = {MEMBER_RULE_ID, MEMBER_RULE_REF};
    static const enum member triggers[] = {MEMBER_TRIGGER_REF, MEMBER_TRIGGER_TYPE,
                                           MEMBER_TRIGGER_ID};
    if (!name_take(members, rules, 2, message->rule, &message->rule_len)) {
        return "rule_id or rule_ref is not a name or a number";
    }
    if (message->rule_len == 0) {
        return "rule_id and rule_ref are missing";
    }
    if (!name_take(members, triggers, 3, message->trigger, &message->trigger_len)) {
        return "the trigger is not a name or a number";
    }
    message->meta = members->of[MEMBER_TRIGGER_PARAMS];
    if (message->meta.len > 0 && protocol_json_kind(message->meta) != PROTOCOL_JSON_OBJECT) {
        return "trigger_params is not an object";
    }
    if (message->meta.len > KERNEL_META_MAX) {
        return "trigger_params is too long";
    }
    struct tn_bytes enabled = members->of[MEMBER_ENABLED];
    message->enabled = message->kind != RULE_MESSAGE_DISABLED;
    if (message->kind == RULE_MESSAGE_CREATED) {
        if (message->trigger_len == 0) {
            return "the trigger of a created rule is missing";
        }
        if (enabled.len > 0) {
            enum protocol_json_kind kind = protocol_json_kind(enabled);
            if (kind != PROTOCOL_JSON_TRUE && kind != PROTOCOL_JSON_FALSE) {
                return "enabled is neither true nor false";
            }
            message->enabled = kind == PROTOCOL_JSON_TRUE;
        }
    }
    return NULL;
}

const char *rule_message_parse(struct tn_bytes body, struct tn_bytes routing_key,
                               struct rule_message *ret_message) {
    struct members envelope;
    struct members members;
    *ret_message = (struct rule_message){.kind = RULE_MESSAGE_CREATED};
    if (body.len > RULE_MESSAGE_MAX) {
        return "it is too long";
    }
    const char *fault = protocol_json_fault(body);
    if (fault != NULL) {
        return fault;
    }
    if (!members_read(body, &envelope)) {
        return "a member is repeated";
    }
    members = envelope;
    struct tn_bytes payload = envelope.of[MEMBER_PAYLOAD];
    if (payload.len > 0 && protocol_json_kind(payload) == PROTOCOL_JSON_OBJECT) {
        if (!members_read(payload, &members)) {
            return "a member is repeated";
        }
        members_inherit(&members, &envelope);
    }
    fault = kind_take(&members, routing_key, &ret_message->kind);
    if (fault == NULL) {
        fault = fields_take(&members, ret_message);
    }
    char id[256];
    uint32_t len = 0;
    if (members.of[MEMBER_MESSAGE_ID].len > 0 &&
        text_take(members.of[MEMBER_MESSAGE_ID], id, sizeof id, &len)) {
        ret_message->id_len = rule_message_opid(tn_bytes_of(id, len), ret_message->id);
    }
    ret_message->time_us = time_take(members.of[MEMBER_TIMESTAMP]);
    return fault;
}

uint32_t rule_message_opid(struct tn_bytes id, char out[KERNEL_OPID_MAX]) {
    uint8_t hash[KERNEL_OPID_MAX / 2];
    char hex[KERNEL_OPID_MAX + 1];
    if (id.len <= KERNEL_OPID_MAX) {
        memcpy(out, id.at, id.len);
        return id.len;
    }
    (void)crypto_generichash(hash, sizeof hash, id.at, id.len, NULL, 0);
    (void)sodium_bin2hex(hex, sizeof hex, hash, sizeof hash);
    memcpy(out, hex, KERNEL_OPID_MAX);
    return KERNEL_OPID_MAX;
}

struct kernel_command rule_message_command(const struct rule_message *message) {
    struct kernel_command command = {.rights = KERNEL_RIGHT_OPERATOR,
                                     .fields = KERNEL_F_NAME,
                                     .name = tn_bytes_of(message->rule, message->rule_len),
                                     .enabled = message->enabled};
    if (message->time_us > 0) { /* an older message must not undo a newer one */
        command.fields |= KERNEL_F_EPOCH;
        command.epoch = message->time_us;
    }
    if (message->kind == RULE_MESSAGE_DELETED) {
        command.verb = KERNEL_VERB_RULE_DELETE;
    } else if (message->trigger_len > 0) {
        /* Also for messages that enable or disable: the rule may be unknown because its creation
         * was missed or comes later. */
        command.verb = KERNEL_VERB_RULE_SET;
        command.fields |= KERNEL_F_TRIGGER | KERNEL_F_ENABLED;
        command.trigger = tn_bytes_of(message->trigger, message->trigger_len);
        if (message->meta.len > 0) {
            command.fields |= KERNEL_F_META;
            command.meta = message->meta;
        }
    } else {
        command.verb = KERNEL_VERB_RULE_ENABLE;
        command.fields |= KERNEL_F_ENABLED;
    }
    return command;
}
