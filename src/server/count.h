/* Counters of the server's own work, for INFO and for the metrics.
 *
 * Everything here belongs to the loop's thread, so counting is an addition and nothing else; a scrape
 * copies the whole struct there before another thread renders it. The one exception, refusals by
 * pool, comes from the engine's threads and has a lock: see refusal.h.
 *
 * Latency. A request begins when the last bytes of its connection were read and ends when its reply
 * is handed to the socket. The clock is read once for each of those events, never for each command:
 * requests that are served together have the same times. */
#ifndef TN_SERVER_COUNT_H
#define TN_SERVER_COUNT_H

#include "protocol/table.h"
#include "token/token.h"

#define SERVER_BUCKETS 16u /* buckets with an upper bound; there is one more without */
#define SERVER_RUNS 16u
#define SERVER_HTTP_STATUSES 600u

/* Requests rejected before they were parsed as a command, by reason. */
#define SERVER_REJECT_TABLE(X)            \
    X(UNKNOWN_COMMAND, "unknown_command") \
    X(ARGUMENTS, "wrong_arguments")       \
    X(PROTOCOL, "protocol_error")         \
    X(LINE, "not_as_line")                \
    X(CONNECTIONS, "too_many_connections")

enum server_reject {
#define SERVER_REJECT_ENUM(id, name) SERVER_REJECT_##id,
    SERVER_REJECT_TABLE(SERVER_REJECT_ENUM)
#undef SERVER_REJECT_ENUM
        SERVER_REJECT_COUNT
};

/* Clients that the server disconnected, by reason. */
#define SERVER_DROP_TABLE(X)    \
    X(SLOW, "slow")             \
    X(IDLE, "idle")             \
    X(UNFINISHED, "unfinished") \
    X(MEMORY, "memory")         \
    X(FOREIGN, "foreign")       \
    X(HANDSHAKE, "handshake")

enum server_drop {
#define SERVER_DROP_ENUM(id, name) SERVER_DROP_##id,
    SERVER_DROP_TABLE(SERVER_DROP_ENUM)
#undef SERVER_DROP_ENUM
        SERVER_DROP_COUNT
};

/* Outcomes of log-ins. Log-ins answered from the cache are not counted. */
#define SERVER_LOGIN_TABLE(X) \
    X(ACCEPTED, "accepted")   \
    X(REFUSED, "refused")     \
    X(CROWDED, "overloaded")

enum server_login_outcome {
#define SERVER_LOGIN_ENUM(id, name) SERVER_LOGIN_##id,
    SERVER_LOGIN_TABLE(SERVER_LOGIN_ENUM)
#undef SERVER_LOGIN_ENUM
        SERVER_LOGIN_COUNT
};

/* Outcomes of datagrams at the UDP listener. */
#define SERVER_UDP_TABLE(X)     \
    X(ANSWERED, "answered")     \
    X(FAILED, "failed")         \
    X(MALFORMED, "malformed")   \
    X(SHORT, "short")           \
    X(UNLISTED, "unlisted")     \
    X(LIMITED, "limited")       \
    X(OVERLOADED, "overloaded") \
    X(UNKNOWN, "unknown")       \
    X(UNSENT, "unsent")

enum server_udp_outcome {
#define SERVER_UDP_ENUM(id, name) SERVER_UDP_##id,
    SERVER_UDP_TABLE(SERVER_UDP_ENUM)
#undef SERVER_UDP_ENUM
        SERVER_UDP_COUNT
};

/* The buckets' upper bounds in nanoseconds, in ascending order. */
extern const uint64_t server_bucket_ns[SERVER_BUCKETS];

struct server_histogram {
    uint64_t counts[SERVER_BUCKETS + 1]; /* the number in each bucket alone, not cumulative */
    uint64_t sum_ns;
};

/* Consecutive commands of one kind whose replies are handed over together. */
struct server_run {
    uint64_t begun_ns;
    uint32_t count;
    uint8_t command; /* enum protocol_id */
};

struct server_counters {
    uint64_t connections, http_connections;
    uint64_t handshakes, handshakes_failed; /* of TLS */
    uint64_t dropped[SERVER_DROP_COUNT];
    uint64_t logins[SERVER_LOGIN_COUNT];
    uint64_t bytes_in, bytes_out;
    uint64_t rejected[SERVER_REJECT_COUNT];
    uint64_t datagrams[SERVER_UDP_COUNT];
    uint64_t http_answers[SERVER_HTTP_STATUSES]; /* by status */
    uint64_t errors;                             /* all error replies */
    uint64_t tokens_issued, tokens_revoked;
    uint64_t introspections[TOKEN_VERDICTS];
    uint64_t calls[PROTOCOL_COMMANDS];
    uint64_t refusals[PROTOCOL_COMMANDS][TN_R_COUNT];
    struct server_histogram latency[PROTOCOL_COMMANDS];

    /* Commands served whose replies are not handed to the socket yet. */
    struct server_run runs[SERVER_RUNS];
    uint32_t run_count;
};

void server_histogram_add(struct server_histogram *histogram, uint64_t ns, uint64_t count);
uint64_t server_histogram_count(const struct server_histogram *histogram);

/* The replies of all runs have been handed to the socket. */
void server_count_ended(struct server_counters *counters);

/* A command was answered at once. Its latency is known when the reply is handed over. */
static inline void server_count_served(struct server_counters *counters, uint8_t command,
                                       uint64_t begun_ns) {
    struct server_run *end = &counters->runs[counters->run_count];
    if (counters->run_count > 0 && end[-1].command == command && end[-1].begun_ns == begun_ns) {
        end[-1].count++;
        return;
    }
    if (counters->run_count == SERVER_RUNS) {
        server_count_ended(counters);
    }
    counters->runs[counters->run_count++] =
        (struct server_run){.begun_ns = begun_ns, .count = 1, .command = command};
}

/* An error reply to a Tenure command. OK and NOOP are not refusals. */
static inline void server_count_refusal(struct server_counters *counters, uint8_t command,
                                        enum tn_result code) {
    if (code > TN_R_NOOP && code < TN_R_COUNT) {
        counters->refusals[command][code]++;
        counters->errors++;
    }
}

uint64_t server_count_commands(const struct server_counters *counters);
const char *server_reject_name(enum server_reject reject);
const char *server_drop_name(enum server_drop drop);
const char *server_login_outcome_name(enum server_login_outcome outcome);
const char *server_udp_outcome_name(enum server_udp_outcome outcome);

#endif
