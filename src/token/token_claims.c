/* Claims as JSON: judged whole first, then walked through in place. */
#include <string.h>

#include "protocol/text.h"
#include "protocol/walk.h"
#include "token/token.h"

/* A bit for each claim that was found; the first six are mandatory. */
enum { SEEN_ISS = 1, SEEN_SUB = 2, SEEN_JTI = 4, SEEN_SCOPE = 8, SEEN_IAT = 16, SEEN_EXP = 32 };
#define SEEN_NEEDED 63u
#define SEEN_TRIGGERS 64u
#define SEEN_MAX_TTL 128u
#define SEEN_MAX_EXP 256u

/* Reads a string into `out`, which has room for `max` bytes and a NUL. */
static bool text_take(struct tn_bytes value, char *out, size_t max) {
    struct tn_writer w = tn_writer_of(out, max);
    struct tn_bytes text;
    if (protocol_json_kind(value) != PROTOCOL_JSON_STRING ||
        !protocol_json_text(value, &w, &text)) {
        return false;
    }
    out[text.len] = '\0';
    return text.len > 0;
}

static bool seconds_take(struct tn_bytes value, uint64_t *ret_seconds) {
    return protocol_json_kind(value) == PROTOCOL_JSON_NUMBER &&
           kernel_value_parse(KERNEL_DEC, value, ret_seconds) && *ret_seconds <= KERNEL_TIME_MAX;
}

static bool id_take(struct tn_bytes value, struct token_claims *claims) {
    char text[TOKEN_ID_TEXT];
    return text_take(value, text, sizeof text - 1) &&
           protocol_token_id_parse(tn_bytes_of(text, strlen(text)), &claims->lease, &claims->epoch);
}

static bool triggers_take(struct tn_bytes value, struct token_claims *claims) {
    struct tn_bytes key;
    struct tn_bytes item;
    if (protocol_json_kind(value) != PROTOCOL_JSON_ARRAY) {
        return false;
    }
    struct protocol_walk walk = protocol_walk_of(value);
    while (protocol_walk_next(&walk, &key, &item)) {
        if (claims->trigger_count == TOKEN_TRIGGERS_MAX ||
            !text_take(item, claims->triggers[claims->trigger_count], KERNEL_RULE_MAX)) {
            return false;
        }
        claims->trigger_count++;
    }
    return claims->trigger_count > 0;
}

static bool key_is(struct tn_bytes key, const char *quoted) {
    return tn_bytes_equal(key, tn_bytes_of(quoted, strlen(quoted)));
}

/* Returns the bit of the claim; 0: the claim is invalid or unknown. */
static unsigned claim_take(struct tn_bytes key, struct tn_bytes value,
                           struct token_claims *claims) {
    if (key_is(key, "\"iss\"")) {
        return text_take(value, claims->issuer, TOKEN_ISSUER_MAX) ? SEEN_ISS : 0;
    }
    if (key_is(key, "\"sub\"")) {
        return text_take(value, claims->subject, TOKEN_SUBJECT_MAX) ? SEEN_SUB : 0;
    }
    if (key_is(key, "\"jti\"")) {
        return id_take(value, claims) ? SEEN_JTI : 0;
    }
    if (key_is(key, "\"scope\"")) {
        bool taken = text_take(value, claims->scope, TOKEN_SCOPE_MAX) &&
                     protocol_scope_fits(tn_bytes_of(claims->scope, strlen(claims->scope)));
        return taken ? SEEN_SCOPE : 0;
    }
    if (key_is(key, "\"iat\"")) {
        return seconds_take(value, &claims->issued_s) ? SEEN_IAT : 0;
    }
    if (key_is(key, "\"exp\"")) {
        return seconds_take(value, &claims->expires_s) ? SEEN_EXP : 0;
    }
    if (key_is(key, "\"max_ttl\"")) {
        return seconds_take(value, &claims->max_ttl_s) ? SEEN_MAX_TTL : 0;
    }
    if (key_is(key, "\"max_exp\"")) {
        return seconds_take(value, &claims->max_exp_s) ? SEEN_MAX_EXP : 0;
    }
    if (key_is(key, "\"trigger_types\"")) {
        return triggers_take(value, claims) ? SEEN_TRIGGERS : 0;
    }
    return 0;
}

bool token_claims_parse(struct tn_bytes json, struct token_claims *ret_claims) {
    struct tn_bytes key;
    struct tn_bytes value;
    unsigned seen = 0;
    if (protocol_json_fault(json) != NULL) {
        return false;
    }
    ret_claims->trigger_count = 0;
    struct protocol_walk walk = protocol_walk_of(json);
    while (protocol_walk_next(&walk, &key, &value)) {
        unsigned bit = claim_take(key, value, ret_claims);
        if (bit == 0 || (seen & bit) != 0) {
            return false;
        }
        seen |= bit;
    }
    if ((seen & SEEN_NEEDED) != SEEN_NEEDED || ret_claims->issued_s > ret_claims->expires_s) {
        return false;
    }
    if ((seen & SEEN_MAX_TTL) == 0) {
        ret_claims->max_ttl_s = ret_claims->expires_s - ret_claims->issued_s;
    }
    if ((seen & SEEN_MAX_EXP) == 0) {
        ret_claims->max_exp_s = ret_claims->expires_s;
    }
    return ret_claims->expires_s <= ret_claims->max_exp_s;
}
