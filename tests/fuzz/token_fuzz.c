/* Any bytes as a token, as the claims of one that is signed, and as an id and a scope. What is taken
 * for a token was signed, and signing it again gives the same text; what is taken for claims is within
 * its bounds and survives being signed. */
#include <sodium.h>
#include <string.h>

#include "base/assert.h"
#include "token/token.h"

static struct token_keys keys;

static void keys_make(void) {
    static const uint8_t seed[TOKEN_KEY_BYTES] = {1, 2, 3};
    TN_ASSERT(sodium_init() >= 0);
    keys.count = 1;
    keys.secret = sodium_malloc(crypto_sign_SECRETKEYBYTES);
    TN_ASSERT(keys.secret != NULL);
    (void)crypto_sign_seed_keypair(keys.of[0].public_key, keys.secret, seed);
    token_key_name(&keys.of[0]);
}

static void check_claims(const struct token_claims *claims) {
    struct token_claims back;
    char out[TOKEN_MAX + 1];
    TN_ASSERT(claims->trigger_count <= TOKEN_TRIGGERS_MAX);
    TN_ASSERT(strlen(claims->subject) > 0 && strlen(claims->subject) <= TOKEN_SUBJECT_MAX);
    TN_ASSERT(strlen(claims->issuer) > 0 && strlen(claims->issuer) <= TOKEN_ISSUER_MAX);
    TN_ASSERT(protocol_scope_fits(tn_bytes_of(claims->scope, strlen(claims->scope))));
    uint32_t len = token_sign(&keys, claims, out);
    if (len > 0) { /* control characters may make it too long */
        enum token_verdict verdict = token_judge(&keys, tn_bytes_of(out, len), 0, &back);
        TN_ASSERT(verdict == TOKEN_LIVE || (verdict == TOKEN_EXPIRED && claims->expires_s == 0));
        TN_ASSERT(strcmp(back.subject, claims->subject) == 0 && back.epoch == claims->epoch);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct tn_bytes input = tn_bytes_of(data, size);
    struct token_claims claims;
    struct token_jws jws;
    struct kernel_lease_id lease;
    uint64_t epoch;
    if (keys.count == 0) {
        keys_make();
    }
    (void)token_judge(&keys, input, 1, &claims);
    if (token_jws_split(input, &jws)) {
        char out[TOKEN_MAX + 1];
        TN_ASSERT(jws.header.len + jws.payload.len <= sizeof jws.bytes);
        /* One spelling only: encoding it again gives the part that would be signed. */
        uint32_t len = token_jws_sign(keys.secret, jws.header, jws.payload, out);
        TN_ASSERT(len == size && memcmp(out, data, jws.signed_part.len) == 0);
    }
    if (token_claims_parse(input, &claims)) {
        check_claims(&claims);
    }
    (void)protocol_token_id_parse(input, &lease, &epoch);
    return 0;
}
