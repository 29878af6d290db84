/* Tokens: their claims, how they are signed, and how a presented token is judged.
 *
 * A token is a JWT in compact form, header.claims.signature, each in base64url without padding. The
 * header is always {"alg":"EdDSA","typ":"JWT","kid":...}, byte for byte, so a token that names another
 * algorithm, or none, is none of ours and its signature is not even looked at. Claims:
 *
 *     iss            the issuer: a setting
 *     sub            sensor:REF, or holder:NAME
 *     jti            lease and epoch, 0-1042.3
 *     scope          words with a blank between them
 *     iat, exp       seconds since 1970
 *     max_ttl        seconds: the longest life that a refresh may give
 *     max_exp        seconds since 1970: the latest end that a refresh may give;
 *                    TOKEN_OPEN_END: no limit but the lease
 *     trigger_types  of a sensor: for which triggers it may emit events
 *
 * This file judges the text: form, signature, time. token_issuer.h asks the engine whether the lease
 * lives. Nothing here keeps or allocates anything. */
#ifndef TN_TOKEN_TOKEN_H
#define TN_TOKEN_TOKEN_H

#include "protocol/parse.h"
#include "protocol/resp.h"
#include "token/token_key.h"

#define TOKEN_ISSUER_MAX 128u
#define TOKEN_SUBJECT_MAX (8u + KERNEL_HOLDER_MAX)
#define TOKEN_SCOPE_MAX PROTOCOL_SCOPE_MAX
#define TOKEN_TRIGGERS_MAX 8u
#define TOKEN_CLAIMS_MAX 4096u /* bytes of JSON */
#define TOKEN_MAX 6144u        /* maximum characters of a token */
#define TOKEN_ID_TEXT 72u      /* characters of a jti, with its NUL */
#define TOKEN_SIGNATURE_BYTES 64u
/* 9999-12-31T23:59:59Z, which RFC 5280 uses for "no end" too. */
#define TOKEN_OPEN_END UINT64_C(253402300799)

struct token_claims {
    struct kernel_lease_id lease;
    uint64_t epoch;
    uint64_t issued_s, expires_s;
    uint64_t max_ttl_s, max_exp_s; /* expires_s <= max_exp_s */
    uint32_t trigger_count;
    char issuer[TOKEN_ISSUER_MAX + 1];
    char subject[TOKEN_SUBJECT_MAX + 1];
    char scope[TOKEN_SCOPE_MAX + 1];
    char triggers[TOKEN_TRIGGERS_MAX][KERNEL_RULE_MAX + 1];
};

/* The verdicts on a token, with their texts. The last three are about its lease. */
#define TOKEN_VERDICT_TABLE(X)                                                  \
    X(LIVE, "live", "it is valid")                                              \
    X(MALFORMED, "malformed", "it is not header.claims.signature in base64url") \
    X(HEADER, "bad_header", "its header is not one that Tenure writes")         \
    X(KEY, "unknown_key", "its key does not exist or has expired")              \
    X(SIGNATURE, "bad_signature", "its signature is wrong")                     \
    X(CLAIMS, "bad_claims", "its claims are not those that Tenure writes")      \
    X(EXPIRED, "expired", "it has expired")                                     \
    X(STALE, "stale", "the lease was revoked or rekeyed or has ended")          \
    X(INACTIVE, "inactive", "the lease is not active")                          \
    X(GONE, "gone", "the lease does not exist or is no longer in history")      \
    X(OVERDUE, "overdue", "the lease's deadline has passed, and the log has not recorded it")

enum token_verdict {
#define TOKEN_VERDICT_ENUM(id, name, text) TOKEN_##id,
    TOKEN_VERDICT_TABLE(TOKEN_VERDICT_ENUM)
#undef TOKEN_VERDICT_ENUM
        TOKEN_VERDICTS
};

const char *token_verdict_name(enum token_verdict verdict);
const char *token_verdict_text(enum token_verdict verdict);

/* Returns the length of the token in `out`, which is NUL-terminated; 0: it would be too long. */
uint32_t token_sign(const struct token_keys *keys, const struct token_claims *claims,
                    char out[TOKEN_MAX + 1]);

/* LIVE as far as the token's text is concerned. *ret_claims is set only with LIVE and EXPIRED:
 * nothing unsigned is ever parsed. */
enum token_verdict token_judge(const struct token_keys *keys, struct tn_bytes token, uint64_t now_s,
                               struct token_claims *ret_claims);

/* Writes "0-1042.3", NUL-terminated. Returns the length. */
uint32_t token_id_format(struct kernel_lease_id lease, uint64_t epoch, char out[TOKEN_ID_TEXT]);
/* Writes the pair "trigger_types", if the token has any. */
void token_triggers_write(struct protocol_writer *w, const struct token_claims *claims);

/* ---- The parts, for tests ---- */

/* Signs `header` and `payload` as they are. 0: they do not fit. */
uint32_t token_jws_sign(const uint8_t *secret, struct tn_bytes header, struct tn_bytes payload,
                        char out[TOKEN_MAX + 1]);

struct token_jws {
    struct tn_bytes signed_part; /* header.payload as written */
    struct tn_bytes header, payload;
    uint8_t signature[TOKEN_SIGNATURE_BYTES];
    uint8_t bytes[TOKEN_MAX]; /* memory for the two above */
};

/* False: malformed. Each text has only one valid spelling. */
bool token_jws_split(struct tn_bytes token, struct token_jws *ret_jws);
bool token_jws_verify(const struct token_jws *jws, const uint8_t public_key[TOKEN_KEY_BYTES]);

/* Requires each mandatory claim exactly once, and no unknown ones. A token of an earlier version
 * without max_ttl and max_exp cannot be extended: they become its own duration and end. */
bool token_claims_parse(struct tn_bytes json, struct token_claims *ret_claims);

#endif
