#include "etcd/verdict.h"

#include <string.h>

#include "base/assert.h"

const char *etcd_outcome_name(enum etcd_outcome outcome) {
    static const char *const names[] = {"done", "compare_failed", "surely_not", "doubt"};
    TN_ASSERT((size_t)outcome < sizeof names / sizeof names[0]);
    return names[outcome];
}

const char *etcd_reason_name(enum etcd_reason reason) {
    static const char *const names[] = {
#define REASON_NAME(name, text) #name,
        ETCD_REASON_TABLE(REASON_NAME)
#undef REASON_NAME
    };
    TN_ASSERT((unsigned)reason < ETCD_REASON_COUNT);
    return names[reason];
}

const char *etcd_reason_text(enum etcd_reason reason) {
    static const char *const texts[] = {
#define REASON_TEXT(name, text) text,
        ETCD_REASON_TABLE(REASON_TEXT)
#undef REASON_TEXT
    };
    TN_ASSERT((unsigned)reason < ETCD_REASON_COUNT);
    return texts[reason];
}

static struct etcd_verdict surely_not(enum etcd_reason reason) {
    return (struct etcd_verdict){.outcome = ETCD_SURELY_NOT, .reason = reason};
}

static struct etcd_verdict doubt(enum etcd_reason reason) {
    return (struct etcd_verdict){.outcome = ETCD_DOUBT, .reason = reason, .leave = true};
}

static bool says(const struct etcd_end *end, const char *words) {
    return strstr(end->message, words) != NULL;
}

/* etcd checks tokens before it proposes a change, and again before it applies one, so that a call
 * with a bad one has no effect. It reports them under several codes. */
static bool token_is_bad(const struct etcd_end *end) {
    return says(end, "invalid auth token") || says(end, "user name is empty") ||
           says(end, "revision of auth store is old");
}

static struct etcd_verdict exhausted(const struct etcd_end *end) {
    /* It may have been applied; every endpoint would answer the same. */
    if (says(end, "space exceeded")) {
        return (struct etcd_verdict){.outcome = ETCD_DOUBT, .reason = ETCD_NOSPACE};
    }
    return surely_not(says(end, "larger than max") ? ETCD_TOO_LARGE : ETCD_BUSY);
}

static struct etcd_verdict invalid(const struct etcd_end *end) {
    if (says(end, "too large")) {
        return surely_not(ETCD_TOO_LARGE);
    }
    return surely_not(says(end, "authentication failed") ? ETCD_DENIED : ETCD_INVALID);
}

static struct etcd_verdict by_status(const struct etcd_end *end) {
    switch (end->grpc_status) {
    case 0:
        return (struct etcd_verdict){.outcome = ETCD_DONE};
    case 3:
    case 5:
    case 6:
    case 9:
    case 12:
        return invalid(end);
    case 7:
    case 16:
        return surely_not(ETCD_DENIED);
    case 8:
        return exhausted(end);
    case 11:
        return surely_not(says(end, "compacted") ? ETCD_COMPACTED : ETCD_FUTURE);
    default:
        return doubt(ETCD_SERVER);
    }
}

struct etcd_verdict etcd_verdict_of(const struct etcd_end *end) {
    switch (end->kind) {
    case ETCD_END_TRAILERS:
        break;
    case ETCD_END_UNSENT: {
        struct etcd_verdict verdict = surely_not(ETCD_UNREACHABLE);
        verdict.leave = true;
        return verdict;
    }
    case ETCD_END_RESET:
    case ETCD_END_LOST:
        return doubt(ETCD_LOST);
    case ETCD_END_TIMEOUT:
        return doubt(ETCD_TIMEOUT);
    case ETCD_END_TOO_LARGE:
        return doubt(ETCD_TOO_LARGE);
    case ETCD_END_PROTOCOL:
        return doubt(ETCD_PROTOCOL);
    }
    /* A status without the 200 of HTTP did not come from etcd. */
    if (end->http_status != 200) {
        return doubt(ETCD_SERVER);
    }
    if (end->grpc_status > 0 && token_is_bad(end)) {
        struct etcd_verdict verdict = surely_not(ETCD_DENIED);
        verdict.log_in = true;
        return verdict;
    }
    return by_status(end);
}

enum etcd_reason etcd_verdict_cancel(const char *text, bool compacted) {
    if (compacted) {
        return ETCD_COMPACTED;
    }
    if (strstr(text, "permission denied") != NULL || strstr(text, "auth token") != NULL) {
        return ETCD_DENIED;
    }
    return strstr(text, "no leader") != NULL ? ETCD_SERVER : ETCD_CANCELED;
}

static int hex_digit(uint8_t c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

void etcd_verdict_message(char out[ETCD_MESSAGE_MAX], const uint8_t *text, size_t len) {
    size_t n = 0;
    for (size_t i = 0; i < len && n + 1 < ETCD_MESSAGE_MAX; i++) {
        uint8_t c = text[i];
        if (c == '%' && len - i > 2 && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0) {
            c = (uint8_t)(hex_digit(text[i + 1]) << 4 | hex_digit(text[i + 2]));
            i += 2;
        }
        out[n++] = c >= 0x20 && c < 0x7f ? (char)c : '?';
    }
    out[n] = '\0';
}

int etcd_verdict_status(const uint8_t *text, size_t len) {
    int value = 0;
    if (len == 0 || len > 2) {
        return 2;
    }
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return 2;
        }
        value = value * 10 + (text[i] - '0');
    }
    return value <= 16 ? value : 2;
}
