/* Tokens for leases: issue, refresh, introspect. */
#include "token/token_issuer.h"

#include <stdio.h>
#include <string.h>

/* The log's time, which never goes back: an expired token stays expired, however the clock is
 * set. */
uint64_t token_now(const struct token_issuer *issuer) {
    return engine_now(issuer->engine) / 1000;
}

static bool copy(char *out, size_t max, struct tn_bytes text) {
    if (text.len > max) {
        return false;
    }
    if (text.len > 0) {
        memcpy(out, text.at, text.len);
    }
    out[text.len] = '\0';
    return true;
}

/* ---- Issue ---- */

static uint64_t smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static enum tn_result ttl_check(const struct token_issuer *issuer, const struct token_order *order,
                                char detail[PROTOCOL_DETAIL]) {
    if (order->has_ttl && (order->ttl_s == 0 || order->ttl_s > issuer->ttl_max_s)) {
        (void)snprintf(detail, PROTOCOL_DETAIL, "the lifetime of a token is 1 to %llu seconds",
                       (unsigned long long)issuer->ttl_max_s);
        return TN_R_BAD_TTL;
    }
    return TN_R_OK;
}

/* The latest end of this token and of all its refreshes, as the issuer requested. */
static uint64_t max_exp_of(const struct token_order *order, const struct token_claims *claims) {
    uint64_t span_s = order->has_refresh ? order->refresh_s
                      : order->has_ttl   ? order->ttl_s
                                         : TOKEN_OPEN_END;
    uint64_t end_s = claims->issued_s + smaller(span_s, TOKEN_OPEN_END - claims->issued_s);
    return end_s < claims->expires_s ? claims->expires_s : end_s;
}

/* Sets an end within all bounds: ttl_s from now, max_exp_s, and the lease's deadline. Rounds down,
 * so that no offline verifier accepts the token after the lease has expired. */
static enum tn_result times_set(uint64_t now_s, uint64_t ttl_s, uint64_t deadline_ms,
                                struct token_claims *claims, char detail[PROTOCOL_DETAIL]) {
    uint64_t end_s = smaller(now_s + ttl_s, claims->max_exp_s);
    if (deadline_ms != 0) {
        end_s = smaller(end_s, deadline_ms / 1000);
    }
    if (end_s <= now_s) {
        (void)snprintf(detail, PROTOCOL_DETAIL, "the lease ends in less than a second: renew it");
        return TN_R_BAD_TTL;
    }
    claims->issued_s = now_s;
    claims->expires_s = end_s;
    return TN_R_OK;
}

/* Sets the texts of the order, or their defaults. */
static bool texts_set(const struct token_issuer *issuer, const struct token_order *order,
                      const struct engine_lease *lease, struct token_claims *claims) {
    char subject[TOKEN_SUBJECT_MAX + 1];
    struct tn_bytes scope = order->scope.len > 0 ? order->scope : tn_bytes_of("lease", 5);
    if (order->subject == NULL) {
        (void)snprintf(subject, sizeof subject, "holder:%.*s", (int)lease->view.holder_len,
                       lease->view.holder);
    } else if (!copy(subject, TOKEN_SUBJECT_MAX,
                     tn_bytes_of(order->subject, strlen(order->subject)))) {
        return false;
    }
    claims->trigger_count = 0;
    for (uint32_t i = 0; i < order->trigger_count; i++) {
        if (i == TOKEN_TRIGGERS_MAX ||
            !copy(claims->triggers[i], KERNEL_RULE_MAX, order->triggers[i])) {
            return false;
        }
        claims->trigger_count++;
    }
    return copy(claims->issuer, TOKEN_ISSUER_MAX,
                tn_bytes_of(issuer->name, strlen(issuer->name))) &&
           copy(claims->subject, TOKEN_SUBJECT_MAX, tn_bytes_of(subject, strlen(subject))) &&
           copy(claims->scope, TOKEN_SCOPE_MAX, scope);
}

static enum tn_result too_large(char detail[PROTOCOL_DETAIL]) {
    (void)snprintf(detail, PROTOCOL_DETAIL, "the token would have more than %u characters",
                   TOKEN_MAX);
    return TN_R_TOO_LARGE;
}

static enum tn_result sign(const struct token_issuer *issuer, uint64_t lsn,
                           struct token_issued *issued, char detail[PROTOCOL_DETAIL]) {
    if (issuer->keys.verify_only) {
        (void)snprintf(detail, PROTOCOL_DETAIL, "only the owner of the log signs tokens");
        return TN_R_MASTERDOWN;
    }
    issued->lsn = lsn;
    issued->len = token_sign(&issuer->keys, &issued->claims, issued->text);
    return issued->len > 0 ? TN_R_OK : too_large(detail);
}

enum tn_result token_issue(struct token_issuer *issuer, enum engine_read_mode how,
                           const struct token_order *order, struct token_issued *ret_issued,
                           char detail[PROTOCOL_DETAIL]) {
    struct engine_lease lease = {.value_count = 0};
    struct token_claims *claims = &ret_issued->claims;
    enum tn_result code = engine_verify(issuer->engine, how, order->lease, order->epoch, &lease);
    if (code != TN_R_OK) {
        return code;
    }
    claims->lease = order->lease;
    claims->epoch = order->epoch;
    uint64_t now_s = token_now(issuer);
    code = ttl_check(issuer, order, detail);
    if (code == TN_R_OK) {
        claims->max_ttl_s = order->has_ttl ? order->ttl_s : issuer->ttl_max_s;
        claims->max_exp_s = TOKEN_OPEN_END;
        code = times_set(now_s, claims->max_ttl_s, lease.view.deadline_ms, claims, detail);
    }
    if (code != TN_R_OK) {
        return code;
    }
    claims->max_exp_s = max_exp_of(order, claims);
    if (!texts_set(issuer, order, &lease, claims)) {
        return too_large(detail);
    }
    return sign(issuer, lease.lsn, ret_issued, detail);
}

enum tn_result token_issue_sensor(struct token_issuer *issuer, enum engine_read_mode how,
                                  struct tn_bytes ref, const struct token_order *terms,
                                  struct token_issued *ret_issued, char detail[PROTOCOL_DETAIL]) {
    struct kernel_sensor_view sensor;
    struct engine_lease lease = {.value_count = 0};
    struct kernel_requested requested = {.is_text = true, .text = ref};
    struct tn_bytes pool = tn_bytes_of(TOKEN_SENSOR_POOL, strlen(TOKEN_SENSOR_POOL));
    char subject[TOKEN_SUBJECT_MAX + 1];
    enum tn_result code = engine_sensor_read(issuer->engine, how, ref, &sensor, NULL, 0, NULL);
    if (code == TN_R_OK) {
        code = engine_lease_by_value(issuer->engine, how, pool, &requested, &lease);
        if (code == TN_R_POOL_NOTFOUND || code == TN_R_BAD_VALUE || code == TN_R_NOTFOUND) {
            (void)snprintf(detail, PROTOCOL_DETAIL, "the sensor is not running");
            return TN_R_NOTFOUND;
        }
    }
    if (code != TN_R_OK) {
        return code;
    }
    struct tn_bytes trigger = tn_bytes_of(sensor.trigger, sensor.trigger_len);
    struct token_order order = *terms;
    (void)snprintf(subject, sizeof subject, TOKEN_SENSOR_SUBJECT "%.*s", (int)sensor.ref_len,
                   sensor.ref);
    order.lease = lease.view.id;
    order.epoch = lease.view.epoch;
    order.subject = subject;
    order.scope = terms->scope.len > 0 ? terms->scope : tn_bytes_of("sensor", 6);
    order.triggers = &trigger;
    order.trigger_count = 1;
    return token_issue(issuer, how, &order, ret_issued, detail);
}

/* ---- Introspect, refresh ---- */

enum tn_result token_introspect(struct token_issuer *issuer, enum engine_read_mode how,
                                struct tn_bytes token, struct token_state *ret_state) {
    struct engine_lease lease = {.value_count = 0};
    ret_state->lsn = 0;
    ret_state->deadline_ms = 0;
    ret_state->verdict = token_judge(&issuer->keys, token, token_now(issuer), &ret_state->claims);
    ret_state->has_claims = ret_state->verdict == TOKEN_LIVE || ret_state->verdict == TOKEN_EXPIRED;
    if (ret_state->verdict != TOKEN_LIVE) {
        return TN_R_OK;
    }
    enum tn_result code = engine_verify(issuer->engine, how, ret_state->claims.lease,
                                        ret_state->claims.epoch, &lease);
    ret_state->lsn = lease.lsn;
    ret_state->deadline_ms = lease.view.deadline_ms;
    switch (code) {
    case TN_R_OK:
        return TN_R_OK;
    case TN_R_STALE:
        ret_state->verdict = TOKEN_STALE;
        return TN_R_OK;
    case TN_R_STATE:
        ret_state->verdict = TOKEN_INACTIVE;
        return TN_R_OK;
    case TN_R_OVERDUE:
        ret_state->verdict = TOKEN_OVERDUE;
        return TN_R_OK;
    case TN_R_NOTFOUND:
    case TN_R_RETIRED:
        ret_state->verdict = TOKEN_GONE;
        return TN_R_OK;
    default:
        return code;
    }
}

enum tn_result token_refresh(struct token_issuer *issuer, enum engine_read_mode how,
                             struct tn_bytes token, const struct token_order *terms,
                             struct token_issued *ret_issued, char detail[PROTOCOL_DETAIL]) {
    struct token_state state;
    enum tn_result code = ttl_check(issuer, terms, detail);
    if (code == TN_R_OK) {
        code = token_introspect(issuer, how, token, &state);
    }
    if (code != TN_R_OK) {
        return code;
    }
    if (state.verdict != TOKEN_LIVE) {
        (void)snprintf(detail, PROTOCOL_DETAIL, "the token is refused: %s",
                       token_verdict_text(state.verdict));
        return TN_R_BAD_TOKEN;
    }
    uint64_t ttl_s = smaller(state.claims.max_ttl_s, issuer->ttl_max_s);
    if (terms->has_ttl) {
        ttl_s = smaller(ttl_s, terms->ttl_s);
    }
    ret_issued->claims = state.claims;
    code = times_set(token_now(issuer), ttl_s, state.deadline_ms, &ret_issued->claims, detail);
    return code == TN_R_OK ? sign(issuer, state.lsn, ret_issued, detail) : code;
}
