/* Tokens for leases. A token is live while its signature is good, its time is not over and (lease,
 * epoch) is the live authority: so it dies with the lease, at the log position of the revoke, and the
 * table of leases is the list of what was revoked.
 *
 * Calls are for the loop's thread. They read the engine as `how` says (engine.h), so with
 * ENGINE_READ_NOWAIT the answer may be NOT_YET: then a tick is to be committed, and the call to be made
 * again. */
#ifndef TN_TOKEN_TOKEN_ISSUER_H
#define TN_TOKEN_TOKEN_ISSUER_H

#include "engine/read.h"
#include "protocol/detail.h"
#include "token/token.h"

#define TOKEN_SENSOR_POOL "sensors"    /* has one value for each sensor, its reference */
#define TOKEN_SENSOR_SUBJECT "sensor:" /* followed by the reference: `sub` of a sensor's token */

struct token_issuer {
    struct engine *engine;
    const char *name;   /* iss */
    uint64_t ttl_max_s; /* also the ttl of tokens requested without one */
    struct token_keys keys;
};

/* What a token is to say. Defaults for what is empty or absent: the holder as the subject, "lease" as
 * the scope, ttl_max_s as the ttl. refresh_s: for how long from now refreshes may extend the token; the
 * default is the ttl if there is one, else as long as the lease lives. */
struct token_order {
    struct kernel_lease_id lease;
    uint64_t epoch;
    uint64_t ttl_s, refresh_s;
    bool has_ttl, has_refresh;
    const char *subject;
    struct tn_bytes scope;
    const struct tn_bytes *triggers;
    uint32_t trigger_count;
};

struct token_issued {
    struct token_claims claims;
    uint64_t lsn; /* the position at which the lease was live */
    uint32_t len;
    char text[TOKEN_MAX + 1];
};

/* The token ends at the lease's deadline at the latest. OK, the result of VERIFY, BAD_TTL or
 * TOO_LARGE. `detail` explains, or is empty. */
enum tn_result token_issue(struct token_issuer *issuer, enum engine_read_mode how,
                           const struct token_order *order, struct token_issued *ret_issued,
                           char detail[PROTOCOL_DETAIL]);

/* For the sensor's own lease, with its trigger: sub sensor:REF, scope "sensor" unless another is
 * given. NOTFOUND: there is no such sensor, or it has no lease. */
enum tn_result token_issue_sensor(struct token_issuer *issuer, enum engine_read_mode how,
                                  struct tn_bytes ref, const struct token_order *terms,
                                  struct token_issued *ret_issued, char detail[PROTOCOL_DETAIL]);

/* The same claims with another end: max_ttl_s from now, or the ttl of `terms` if that is less, but
 * neither after max_exp_s nor after the lease's deadline. The old token is left alone. BAD_TOKEN: it is
 * not live. */
enum tn_result token_refresh(struct token_issuer *issuer, enum engine_read_mode how,
                             struct tn_bytes token, const struct token_order *terms,
                             struct token_issued *ret_issued, char detail[PROTOCOL_DETAIL]);

struct token_state {
    enum token_verdict verdict;
    bool has_claims; /* it is signed, whether live or not */
    struct token_claims claims;
    uint64_t lsn;         /* the position at which the lease was read; 0: it was not */
    uint64_t deadline_ms; /* deadline of the lease at that position; 0: none */
};

/* OK: see *ret_state. Otherwise the engine does not answer. */
enum tn_result token_introspect(struct token_issuer *issuer, enum engine_read_mode how,
                                struct tn_bytes token, struct token_state *ret_state);

/* Seconds since 1970, in the time by which tokens expire. */
uint64_t token_now(const struct token_issuer *issuer);

#endif
