/* Signing and judging. libsodium's base64 takes the same time for all contents and refuses padding,
 * blanks and bits that no byte has, so a text of ASCII has one spelling. */
#include "token/token.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "protocol/render.h"

#define VARIANT sodium_base64_VARIANT_URLSAFE_NO_PADDING
#define SIGNATURE_TEXT 86u /* characters for 64 bytes */

_Static_assert(TOKEN_SIGNATURE_BYTES == crypto_sign_BYTES, "a signature of Ed25519");

static const char head_begin[] = "{\"alg\":\"EdDSA\",\"typ\":\"JWT\",\"kid\":\"";
static const char head_end[] = "\"}";
#define HEAD_BYTES (sizeof head_begin - 1 + TOKEN_KEY_TEXT + sizeof head_end - 1)

const char *token_verdict_name(enum token_verdict verdict) {
    static const char *const names[] = {
#define TOKEN_VERDICT_NAME(id, name, text) name,
        TOKEN_VERDICT_TABLE(TOKEN_VERDICT_NAME)
#undef TOKEN_VERDICT_NAME
    };
    return names[verdict];
}

const char *token_verdict_text(enum token_verdict verdict) {
    static const char *const texts[] = {
#define TOKEN_VERDICT_WORDS(id, name, text) text,
        TOKEN_VERDICT_TABLE(TOKEN_VERDICT_WORDS)
#undef TOKEN_VERDICT_WORDS
    };
    return texts[verdict];
}

uint32_t token_id_format(struct kernel_lease_id lease, uint64_t epoch, char out[TOKEN_ID_TEXT]) {
    _Static_assert(TOKEN_ID_TEXT >= PROTOCOL_LEASE_TEXT + 21, "a lease, a dot, a number");
    uint32_t len = protocol_lease_format(lease, out);
    out[len++] = '.';
    return len + kernel_value_format(KERNEL_DEC, epoch, out + len);
}

/* ---- Signing ---- */

static size_t encoded_add(char *out, size_t at, const void *bytes, size_t len) {
    (void)sodium_bin2base64(out + at, TOKEN_MAX + 1 - at, bytes, len, VARIANT);
    return at + strlen(out + at);
}

uint32_t token_jws_sign(const uint8_t *secret, struct tn_bytes header, struct tn_bytes payload,
                        char out[TOKEN_MAX + 1]) {
    uint8_t signature[crypto_sign_BYTES];
    size_t room = sodium_base64_ENCODED_LEN(header.len, VARIANT) +
                  sodium_base64_ENCODED_LEN(payload.len, VARIANT) + SIGNATURE_TEXT;
    if (room > TOKEN_MAX) {
        return 0;
    }
    size_t len = encoded_add(out, 0, header.at, header.len);
    out[len++] = '.';
    len = encoded_add(out, len, payload.at, payload.len);
    (void)crypto_sign_detached(signature, NULL, (const uint8_t *)out, len, secret);
    out[len++] = '.';
    return (uint32_t)encoded_add(out, len, signature, sizeof signature);
}

void token_triggers_write(struct protocol_writer *w, const struct token_claims *claims) {
    if (claims->trigger_count > 0) {
        protocol_write_text(w, "trigger_types");
        protocol_write_array(w, claims->trigger_count);
        for (uint32_t i = 0; i < claims->trigger_count; i++) {
            protocol_write_text(w, claims->triggers[i]);
        }
    }
}

static void claims_write(struct protocol_writer *w, const struct token_claims *claims) {
    char id[TOKEN_ID_TEXT];
    (void)token_id_format(claims->lease, claims->epoch, id);
    protocol_write_map(w, claims->trigger_count > 0 ? 9 : 8);
    protocol_pair_text(w, "iss", claims->issuer);
    protocol_pair_text(w, "sub", claims->subject);
    protocol_pair_text(w, "jti", id);
    protocol_pair_text(w, "scope", claims->scope);
    protocol_write_text(w, "iat");
    protocol_write_integer(w, (int64_t)claims->issued_s);
    protocol_write_text(w, "exp");
    protocol_write_integer(w, (int64_t)claims->expires_s);
    protocol_write_text(w, "max_ttl");
    protocol_write_integer(w, (int64_t)claims->max_ttl_s);
    protocol_write_text(w, "max_exp");
    protocol_write_integer(w, (int64_t)claims->max_exp_s);
    token_triggers_write(w, claims);
}

uint32_t token_sign(const struct token_keys *keys, const struct token_claims *claims,
                    char out[TOKEN_MAX + 1]) {
    char header[HEAD_BYTES + 1];
    uint8_t json[TOKEN_CLAIMS_MAX];
    struct protocol_writer w = {.out = tn_writer_of(json, sizeof json), .encoding = PROTOCOL_JSON};
    TN_ASSERT(keys->count > 0 && keys->of[0].until_s == 0 && !keys->verify_only);
    (void)snprintf(header, sizeof header, "%s%s%s", head_begin, keys->of[0].kid, head_end);
    claims_write(&w, claims);
    if (w.out.overflow) {
        return 0;
    }
    return token_jws_sign(keys->secret, tn_bytes_of(header, HEAD_BYTES),
                          tn_bytes_of(json, w.out.len), out);
}

/* ---- Judging ---- */

/* Splits off the part before a dot, or the rest if it must be the last. False: there is none. */
static bool part_take(struct tn_bytes *left, bool last, struct tn_bytes *ret_part) {
    const uint8_t *dot = left->len > 0 ? memchr(left->at, '.', left->len) : NULL;
    if ((dot == NULL) != last) {
        return false;
    }
    size_t len = last ? left->len : (size_t)(dot - left->at);
    *ret_part = tn_bytes_of(left->at, len);
    *left = tn_bytes_of(left->at + len + !last, left->len - len - !last);
    return len > 0;
}

static bool part_decode(struct tn_bytes text, uint8_t *out, size_t capacity, size_t *ret_len) {
    uint8_t all = 0;
    for (uint32_t i = 0; i < text.len; i++) {
        all |= text.at[i];
    }
    /* libsodium 1.0.18 would take bytes that are not ASCII for underscores. */
    return all < 0x80 && sodium_base642bin(out, capacity, (const char *)text.at, text.len, NULL,
                                           ret_len, NULL, VARIANT) == 0;
}

bool token_jws_split(struct tn_bytes token, struct token_jws *ret_jws) {
    struct tn_bytes left = token;
    struct tn_bytes header;
    struct tn_bytes payload;
    struct tn_bytes signature;
    size_t header_len;
    size_t payload_len;
    size_t signature_len;
    if (token.len > TOKEN_MAX || !part_take(&left, false, &header) ||
        !part_take(&left, false, &payload) || !part_take(&left, true, &signature)) {
        return false;
    }
    ret_jws->signed_part = tn_bytes_of(token.at, header.len + 1u + payload.len);
    if (!part_decode(header, ret_jws->bytes, sizeof ret_jws->bytes, &header_len) ||
        !part_decode(payload, ret_jws->bytes + header_len, sizeof ret_jws->bytes - header_len,
                     &payload_len) ||
        !part_decode(signature, ret_jws->signature, TOKEN_SIGNATURE_BYTES, &signature_len)) {
        return false;
    }
    ret_jws->header = tn_bytes_of(ret_jws->bytes, header_len);
    ret_jws->payload = tn_bytes_of(ret_jws->bytes + header_len, payload_len);
    return signature_len == TOKEN_SIGNATURE_BYTES;
}

bool token_jws_verify(const struct token_jws *jws, const uint8_t public_key[TOKEN_KEY_BYTES]) {
    return crypto_sign_verify_detached(jws->signature, jws->signed_part.at, jws->signed_part.len,
                                       public_key) == 0;
}

/* The key's thumbprint in a header of our own form; empty: it is not one. */
static struct tn_bytes header_kid(struct tn_bytes header) {
    size_t begin = sizeof head_begin - 1;
    if (header.len != HEAD_BYTES || memcmp(header.at, head_begin, begin) != 0 ||
        memcmp(header.at + begin + TOKEN_KEY_TEXT, head_end, sizeof head_end - 1) != 0) {
        return tn_bytes_of(NULL, 0);
    }
    return tn_bytes_of(header.at + begin, TOKEN_KEY_TEXT);
}

enum token_verdict token_judge(const struct token_keys *keys, struct tn_bytes token, uint64_t now_s,
                               struct token_claims *ret_claims) {
    struct token_jws jws;
    if (!token_jws_split(token, &jws)) {
        return TOKEN_MALFORMED;
    }
    struct tn_bytes kid = header_kid(jws.header);
    if (kid.len == 0) {
        return TOKEN_HEADER;
    }
    const struct token_key *key = token_key_find(keys, kid, now_s);
    if (key == NULL) {
        return TOKEN_KEY;
    }
    if (!token_jws_verify(&jws, key->public_key)) {
        return TOKEN_SIGNATURE;
    }
    if (!token_claims_parse(jws.payload, ret_claims)) {
        return TOKEN_CLAIMS;
    }
    return now_s < ret_claims->expires_s ? TOKEN_LIVE : TOKEN_EXPIRED;
}
