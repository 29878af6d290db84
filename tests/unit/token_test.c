/* Tokens as texts: the vectors of RFC 8037, and everything that is almost a token. */
#include "unit/unit.h"

#include <sodium.h>

#include "token/token.h"

#define NOW 1700000000u

/* RFC 8037, appendix A: the key, its thumbprint, the JWS. */
static const char rfc_seed[] = "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A";
static const char rfc_public[] = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
static const char rfc_thumbprint[] = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k";
static const char rfc_jws[] =
    "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvM"
    "g3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";

static struct tn_bytes text(const char *s) {
    return tn_bytes_of(s, strlen(s));
}

static void decode(const char *from, uint8_t out[32]) {
    size_t len;
    assert_int_equal(sodium_base642bin(out, 32, from, strlen(from), NULL, &len, NULL,
                                       sodium_base64_VARIANT_URLSAFE_NO_PADDING),
                     0);
    assert_int_equal(len, 32);
}

/* Makes a key of its own in memory; no file. */
static void keys_make(struct token_keys *keys, const char *seed_text) {
    uint8_t seed[32];
    assert_true(sodium_init() >= 0);
    *keys = (struct token_keys){.count = 1};
    keys->secret = sodium_malloc(crypto_sign_SECRETKEYBYTES);
    assert_non_null(keys->secret);
    decode(seed_text, seed);
    assert_int_equal(crypto_sign_seed_keypair(keys->of[0].public_key, keys->secret, seed), 0);
    token_key_name(&keys->of[0]);
}

static struct token_claims claims_make(void) {
    struct token_claims claims = {.lease = {.shard = 0, .lsn = 1042},
                                  .epoch = 3,
                                  .issued_s = NOW,
                                  .expires_s = NOW + 60,
                                  .max_ttl_s = 70,
                                  .max_exp_s = NOW + 80,
                                  .trigger_count = 2};
    snprintf(claims.issuer, sizeof claims.issuer, "tenure");
    snprintf(claims.subject, sizeof claims.subject, "sensor:caf\303\251 \"1\\2\"");
    snprintf(claims.scope, sizeof claims.scope, "sensor read");
    snprintf(claims.triggers[0], sizeof claims.triggers[0], "core.timer");
    snprintf(claims.triggers[1], sizeof claims.triggers[1], "core.web\"hook");
    return claims;
}

static void the_vectors_of_the_standard_are_reproduced(void **state) {
    struct token_keys keys;
    struct token_jws jws;
    char out[TOKEN_MAX + 1];
    uint8_t public_key[32];
    (void)state;
    keys_make(&keys, rfc_seed);
    decode(rfc_public, public_key);
    assert_memory_equal(keys.of[0].public_key, public_key, 32);
    assert_string_equal(keys.of[0].text, rfc_public);
    assert_string_equal(keys.of[0].kid, rfc_thumbprint);
    uint32_t len = token_jws_sign(keys.secret, text("{\"alg\":\"EdDSA\"}"),
                                  text("Example of Ed25519 signing"), out);
    assert_int_equal(len, strlen(rfc_jws));
    assert_string_equal(out, rfc_jws);
    assert_true(token_jws_split(text(rfc_jws), &jws));
    assert_true(tn_bytes_equal(jws.payload, text("Example of Ed25519 signing")));
    assert_true(token_jws_verify(&jws, public_key));
    token_keys_close(&keys);
}

static void what_is_signed_comes_back(void **state) {
    struct token_keys keys;
    struct token_claims claims = claims_make();
    struct token_claims back = {.epoch = 0};
    char out[TOKEN_MAX + 1];
    (void)state;
    keys_make(&keys, rfc_seed);
    uint32_t len = token_sign(&keys, &claims, out);
    assert_int_equal(len, strlen(out));
    assert_int_equal(token_judge(&keys, text(out), NOW + 59, &back), TOKEN_LIVE);
    assert_int_equal(back.lease.lsn, 1042);
    assert_int_equal(back.epoch, 3);
    assert_int_equal(back.issued_s, NOW);
    assert_int_equal(back.expires_s, NOW + 60);
    assert_int_equal(back.max_ttl_s, 70);
    assert_int_equal(back.max_exp_s, NOW + 80);
    assert_int_equal(back.trigger_count, 2);
    assert_string_equal(back.issuer, claims.issuer);
    assert_string_equal(back.subject, claims.subject);
    assert_string_equal(back.scope, claims.scope);
    assert_string_equal(back.triggers[1], claims.triggers[1]);
    assert_int_equal(token_judge(&keys, text(out), NOW + 60, &back), TOKEN_EXPIRED);
    claims.trigger_count = 0;
    assert_true(token_sign(&keys, &claims, out) > 0);
    assert_int_equal(token_judge(&keys, text(out), NOW, &back), TOKEN_LIVE);
    assert_int_equal(back.trigger_count, 0);
    token_keys_close(&keys);
}

static void the_largest_claims_fit_and_larger_ones_are_refused(void **state) {
    struct token_keys keys;
    struct token_claims claims = claims_make();
    struct token_claims back;
    char out[TOKEN_MAX + 1];
    (void)state;
    keys_make(&keys, rfc_seed);
    memset(claims.issuer, '"', TOKEN_ISSUER_MAX);
    memset(claims.subject, '\\', TOKEN_SUBJECT_MAX);
    memset(claims.scope, 'x', TOKEN_SCOPE_MAX);
    claims.issuer[TOKEN_ISSUER_MAX] = claims.subject[TOKEN_SUBJECT_MAX] = '\0';
    claims.scope[TOKEN_SCOPE_MAX] = '\0';
    claims.lease = (struct kernel_lease_id){.shard = UINT64_MAX, .lsn = UINT64_MAX};
    claims.epoch = UINT64_MAX;
    claims.trigger_count = TOKEN_TRIGGERS_MAX;
    for (uint32_t i = 0; i < TOKEN_TRIGGERS_MAX; i++) {
        memset(claims.triggers[i], '"', KERNEL_RULE_MAX);
        claims.triggers[i][KERNEL_RULE_MAX] = '\0';
    }
    assert_true(token_sign(&keys, &claims, out) > 0);
    assert_int_equal(token_judge(&keys, text(out), NOW, &back), TOKEN_LIVE);
    assert_int_equal(back.lease.shard, UINT64_MAX);
    /* Control characters take six bytes each; no name has them, so they need not fit. */
    for (uint32_t i = 0; i < TOKEN_TRIGGERS_MAX; i++) {
        memset(claims.triggers[i], '\1', KERNEL_RULE_MAX);
    }
    assert_int_equal(token_sign(&keys, &claims, out), 0);
    token_keys_close(&keys);
}

/* Every bit of every character; so also every change that leaves the alphabet. */
static void a_bit_changed_anywhere_kills_the_token(void **state) {
    struct token_keys keys;
    struct token_claims claims = claims_make();
    struct token_claims back;
    char out[TOKEN_MAX + 1];
    (void)state;
    keys_make(&keys, rfc_seed);
    uint32_t len = token_sign(&keys, &claims, out);
    for (uint32_t i = 0; i < len * 8; i++) {
        out[i / 8] = (char)(out[i / 8] ^ 1 << i % 8);
        assert_int_not_equal(token_judge(&keys, tn_bytes_of(out, len), NOW, &back), TOKEN_LIVE);
        out[i / 8] = (char)(out[i / 8] ^ 1 << i % 8);
    }
    for (uint32_t cut = 0; cut < len; cut++) {
        assert_int_not_equal(token_judge(&keys, tn_bytes_of(out, cut), NOW, &back), TOKEN_LIVE);
    }
    assert_int_equal(token_judge(&keys, tn_bytes_of(out, len), NOW, &back), TOKEN_LIVE);
    token_keys_close(&keys);
}

/* Signed by the right key, with a header and claims that are not ours. */
static enum token_verdict judge_signed(const struct token_keys *keys, const char *header,
                                       const char *payload) {
    struct token_claims back;
    char out[TOKEN_MAX + 1];
    uint32_t len = token_jws_sign(keys->secret, text(header), text(payload), out);
    assert_true(len > 0);
    return token_judge(keys, tn_bytes_of(out, len), NOW, &back);
}

static void another_algorithm_or_header_is_refused_though_it_is_signed(void **state) {
    static const char good[] = "{\"iss\":\"t\",\"sub\":\"s\",\"jti\":\"0-1.1\",\"scope\":\"x\","
                               "\"iat\":1,\"exp\":9999999999}";
    static const struct {
        const char *header; /* K stands for the key */
        enum token_verdict verdict;
    } rows[] = {
        {"{\"alg\":\"EdDSA\",\"typ\":\"JWT\",\"kid\":\"K\"}", TOKEN_LIVE},
        {"{\"alg\":\"none\",\"typ\":\"JWT\",\"kid\":\"K\"}", TOKEN_HEADER},
        {"{\"alg\":\"None\"}", TOKEN_HEADER},
        {"{\"alg\":\"HS256\",\"typ\":\"JWT\",\"kid\":\"K\"}", TOKEN_HEADER},
        {"{\"alg\":\"Ed448\",\"typ\":\"JWT\",\"kid\":\"K\"}", TOKEN_HEADER},
        {"{\"alg\":\"EdDSA\",\"typ\":\"JWT\"}", TOKEN_HEADER},
        {"{\"alg\":\"EdDSA\"}", TOKEN_HEADER},
        {"{\"typ\":\"JWT\",\"alg\":\"EdDSA\",\"kid\":\"K\"}", TOKEN_HEADER},
        {"{\"alg\":\"EdDSA\",\"typ\":\"JWT\",\"kid\":\"K\",\"alg\":\"none\"}", TOKEN_HEADER},
        {"{\"alg\":\"EdDSA\",\"typ\":\"JWT\",\"kid\":\"K\",\"crit\":[]}", TOKEN_HEADER},
        {"{\"alg\":\"EdDSA\", \"typ\":\"JWT\",\"kid\":\"K\"}", TOKEN_HEADER},
        {"{}", TOKEN_HEADER},
        {"null", TOKEN_HEADER},
        {"{\"alg\":\"EdDSA\",\"typ\":\"JWT\",\"kid\":\"kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4j\"}",
         TOKEN_KEY},
        {"{\"alg\":\"EdDSA\",\"typ\":\"JWT\",\"kid\":\"\\\"\\\"\\\"mxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4j\"}",
         TOKEN_KEY},
    };
    struct token_keys keys;
    (void)state;
    keys_make(&keys, rfc_seed);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char header[256];
        const char *k = strstr(rows[i].header, "\"K\"");
        int before = k != NULL ? (int)(k - rows[i].header) + 1 : (int)strlen(rows[i].header);
        snprintf(header, sizeof header, "%.*s%s%s", before, rows[i].header,
                 k != NULL ? keys.of[0].kid : "", k != NULL ? k + 2 : "");
        assert_int_equal(judge_signed(&keys, header, good), rows[i].verdict);
    }
    token_keys_close(&keys);
}

static void claims_that_are_not_ours_are_refused(void **state) {
#define BEGIN "{\"iss\":\"t\",\"sub\":\"s\",\"jti\":\"0-1.1\",\"scope\":\"x\","
    static const struct {
        const char *json;
        bool good;
    } rows[] = {
        {BEGIN "\"iat\":1,\"exp\":2}", true},
        {BEGIN "\"iat\":1,\"exp\":2,\"trigger_types\":[\"a\"]}", true},
        {" " BEGIN "\"exp\":2 ,\"iat\":1}\n", true},
        {BEGIN "\"iat\":1}", false},
        {BEGIN "\"exp\":1}", false},
        {BEGIN "\"iat\":2,\"exp\":1}", false},
        {BEGIN "\"iat\":1,\"exp\":2,\"exp\":3}", false},
        {BEGIN "\"iat\":1,\"exp\":2,\"sub\":\"admin\"}", false},
        {BEGIN "\"iat\":1,\"exp\":2,\"\\u0073ub\":\"admin\"}", false},
        {BEGIN "\"iat\":1,\"exp\":2,\"admin\":true}", false},
        {BEGIN "\"iat\":1,\"exp\":\"2\"}", false},
        {BEGIN "\"iat\":1,\"exp\":2.5}", false},
        {BEGIN "\"iat\":1,\"exp\":2e3}", false},
        {BEGIN "\"iat\":-1,\"exp\":2}", false},
        {BEGIN "\"iat\":1,\"exp\":99999999999999999999}", false},
        {BEGIN "\"iat\":1,\"exp\":18446744073709551615}", false},
        {BEGIN "\"iat\":1,\"exp\":null}", false},
        {BEGIN "\"iat\":1,\"exp\":2,\"max_ttl\":9,\"max_exp\":2}", true},
        {BEGIN "\"iat\":1,\"exp\":2,\"max_exp\":1}", false},
        {BEGIN "\"iat\":1,\"exp\":2,\"max_exp\":\"9\"}", false},
        {BEGIN "\"iat\":1,\"exp\":2,\"max_ttl\":9,\"max_ttl\":9}", false},
        {BEGIN "\"iat\":1,\"exp\":2,\"trigger_types\":[]}", false},
        {BEGIN "\"iat\":1,\"exp\":2,\"trigger_types\":\"a\"}", false},
        {BEGIN "\"iat\":1,\"exp\":2,\"trigger_types\":[1]}", false},
        {BEGIN "\"iat\":1,\"exp\":2,\"trigger_types\":[\"a\",[\"b\"]]}", false},
        {BEGIN "\"iat\":1,\"exp\":2,\"trigger_types\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\","
               "\"8\",\"9\"]}",
         false},
        {"{\"iss\":\"t\",\"sub\":\"s\",\"jti\":\"0-1\",\"scope\":\"x\",\"iat\":1,\"exp\":2}",
         false},
        {"{\"iss\":\"t\",\"sub\":\"s\",\"jti\":\"0-1.\",\"scope\":\"x\",\"iat\":1,\"exp\":2}",
         false},
        {"{\"iss\":\"t\",\"sub\":\"s\",\"jti\":\"0-1.1.1\",\"scope\":\"x\",\"iat\":1,\"exp\":2}",
         false},
        {"{\"iss\":\"t\",\"sub\":\"s\",\"jti\":1,\"scope\":\"x\",\"iat\":1,\"exp\":2}", false},
        {"{\"iss\":\"t\",\"sub\":\"\",\"jti\":\"0-1.1\",\"scope\":\"x\",\"iat\":1,\"exp\":2}",
         false},
        {"{\"iss\":\"t\",\"sub\":\"s\",\"jti\":\"0-1.1\",\"scope\":\" x\",\"iat\":1,\"exp\":2}",
         false},
        {"{\"iss\":\"t\",\"sub\":\"a\\u0000b\",\"jti\":\"0-1.1\",\"scope\":\"x\",\"iat\":1,\"exp\":2}",
         false},
        {"[" BEGIN "\"iat\":1,\"exp\":2}]", false},
        {BEGIN "\"iat\":1,\"exp\":2}{}", false},
        {"{}", false},
        {"", false},
    };
#undef BEGIN
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct token_claims claims;
        assert_int_equal(token_claims_parse(text(rows[i].json), &claims), rows[i].good);
    }
}

static void a_token_without_bounds_cannot_be_extended(void **state) {
    struct token_claims claims;
    (void)state;
    assert_true(token_claims_parse(text("{\"iss\":\"t\",\"sub\":\"s\",\"jti\":\"0-1.1\","
                                        "\"scope\":\"x\",\"iat\":10,\"exp\":25}"),
                                   &claims));
    assert_int_equal(claims.max_ttl_s, 15);
    assert_int_equal(claims.max_exp_s, 25);
}

static void a_text_that_is_no_token_is_malformed(void **state) {
    static const char *const rows[] = {
        "",
        ".",
        "..",
        "...",
        "a",
        "a.b",
        "a.b.c.d",
        "eyJ9.e30.",
        "eyJ9..x",
        ".e30.x",
        "eyJhbGciOiJFZERTQSJ9.e30.AAAA",
        /* the JWS above with padding, blanks, the other alphabet, bits that no byte has */
        "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc=.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGc"
        "vMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg",
        "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcv"
        "Mg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg==",
        "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il/MGCjP0JzlnLWG1PPOt7+09PGcv"
        "Mg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr/MuM0KAg",
        "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcv"
        "Mg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAh",
        " eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGc"
        "vMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg",
        "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcv"
        "Mg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg\n",
        /* no signature at all */
        "eyJhbGciOiJub25lIn0.e30.",
    };
    struct token_keys keys;
    struct token_claims back;
    (void)state;
    keys_make(&keys, rfc_seed);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(token_judge(&keys, text(rows[i]), NOW, &back), TOKEN_MALFORMED);
    }
    size_t large = (size_t)10 << 20;
    char *huge = malloc(large);
    assert_non_null(huge);
    memset(huge, 'A', large);
    huge[100] = huge[large - 100] = '.';
    assert_int_equal(token_judge(&keys, tn_bytes_of(huge, large), NOW, &back), TOKEN_MALFORMED);
    assert_int_equal(token_judge(&keys, tn_bytes_of(huge, TOKEN_MAX), NOW, &back), TOKEN_MALFORMED);
    free(huge);
    token_keys_close(&keys);
}

static void only_the_key_that_signed_verifies_and_only_while_it_lives(void **state) {
    struct token_keys keys;
    struct token_keys other;
    struct token_claims claims = claims_make();
    struct token_claims back;
    char out[TOKEN_MAX + 1];
    (void)state;
    keys_make(&keys, rfc_seed);
    keys_make(&other, rfc_thumbprint); /* any 32 bytes */
    assert_true(token_sign(&other, &claims, out) > 0);
    assert_int_equal(token_judge(&keys, text(out), NOW, &back), TOKEN_KEY);
    /* The other's key under our name: it is found, but did not sign the token. */
    memcpy(other.of[0].kid, keys.of[0].kid, sizeof other.of[0].kid);
    assert_true(token_sign(&other, &claims, out) > 0);
    assert_int_equal(token_judge(&keys, text(out), NOW, &back), TOKEN_SIGNATURE);
    assert_true(token_sign(&keys, &claims, out) > 0);
    keys.of[0].until_s = NOW + 10;
    assert_int_equal(token_judge(&keys, text(out), NOW + 9, &back), TOKEN_LIVE);
    assert_int_equal(token_judge(&keys, text(out), NOW + 10, &back), TOKEN_KEY);
    token_keys_close(&keys);
    token_keys_close(&other);
}

static void a_scope_is_words_of_ascii(void **state) {
    static const struct {
        const char *scope;
        bool good;
    } rows[] = {{"a", true},     {"a b", true},   {"read:x/y", true},  {"", false},
                {" a", false},   {"a ", false},   {"a  b", false},     {"a\"b", false},
                {"a\\b", false}, {"a\tb", false}, {"\303\251", false}, {"a\x7f", false}};
    char longest[PROTOCOL_SCOPE_MAX + 2];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(protocol_scope_fits(text(rows[i].scope)), rows[i].good);
    }
    memset(longest, 'x', sizeof longest);
    assert_true(protocol_scope_fits(tn_bytes_of(longest, PROTOCOL_SCOPE_MAX)));
    assert_false(protocol_scope_fits(tn_bytes_of(longest, PROTOCOL_SCOPE_MAX + 1)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_vectors_of_the_standard_are_reproduced),
        cmocka_unit_test(what_is_signed_comes_back),
        cmocka_unit_test(the_largest_claims_fit_and_larger_ones_are_refused),
        cmocka_unit_test(a_bit_changed_anywhere_kills_the_token),
        cmocka_unit_test(another_algorithm_or_header_is_refused_though_it_is_signed),
        cmocka_unit_test(claims_that_are_not_ours_are_refused),
        cmocka_unit_test(a_token_without_bounds_cannot_be_extended),
        cmocka_unit_test(a_text_that_is_no_token_is_malformed),
        cmocka_unit_test(only_the_key_that_signed_verifies_and_only_while_it_lives),
        cmocka_unit_test(a_scope_is_words_of_ascii),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
