/* The lease of `tenure run`: acquiring it, renewing it, ending it; and until when it is surely held.
 *
 * All local times are milliseconds on CLOCK_BOOTTIME. A deadline of the server is a time of its log, so it
 * is translated with a pair of clocks read together: the server granted `server_ms` + ttl to a request
 * that was sent at `sent_ms`, so the server's time at `sent_ms` was at most `server_ms`. A local time that
 * comes out of this is never later than the true one. */
#ifndef TN_CLI_RUN_LEASE_H
#define TN_CLI_RUN_LEASE_H

#include <stdatomic.h>

#include "cli/cli.h"
#include "cli/resp_client.h"
#include "cli/run_options.h"
#include "kernel/result.h"

#define CLI_RUN_VALUES_MAX 4096u
#define CLI_RUN_TOKEN_MAX 2048u

struct cli_run_lease {
    const struct cli_settings *settings;
    char holder[KERNEL_HOLDER_MAX + 1];
    char opid[48];
    char id[64];
    char epoch[24];
    uint64_t ttl_ms;
    char ttl[24];           /* the same in seconds, as a word */
    uint64_t first_ms;      /* when the lease was first asked for; 0: not yet */
    uint64_t deadline_ms;   /* surely held until then */
    uint64_t max_hold_ms;   /* the pools limit how long the lease can live in all; 0: they do not */
    uint64_t end_server_ms; /* and so, in the server's time, until when; 0: no limit */
    struct {
        uint64_t sent_ms, server_ms, round_trip_ms;
    } clocks;
    char (*values)[KERNEL_VALUE_TEXT_MAX]; /* in the order of the claims */
    char (*pools)[KERNEL_POOL_MAX + 1];    /* the pool of each */
    uint32_t value_count;
    char token[CLI_RUN_TOKEN_MAX]; /* empty: none */
};

/* What a request came to. */
enum cli_run_answer {
    CLI_RUN_OK,
    CLI_RUN_AGAIN,   /* no server, no answer, or a state of the server that passes */
    CLI_RUN_REFUSED, /* for good */
};

/* The holder and the operation id. False: standard error has the reason. */
bool cli_run_lease_name(struct cli_run_lease *lease, const struct cli_run_options *options);
/* Requests the lease. With options->wait_s it waits in line for the values, and a lost connection is
 * replaced: the operation id keeps the place. Unless it returns CLI_RUN_OK, standard error has the
 * reason. Once *leaving is set, the outcome of the request no longer matters. */
enum cli_run_answer cli_run_lease_acquire(struct cli_run_lease *lease,
                                          const struct cli_run_options *options,
                                          struct cli_client *client, const atomic_bool *leaving);
/* Withdraws the request over a connection of its own, whatever became of it: a lease that waits leaves
 * the line, a lease that was granted is released, and a request that is still under way is refused when
 * it arrives. Uses only the names of the lease. False: the server cannot be reached. */
bool cli_run_lease_leave(const struct cli_run_lease *lease);
void cli_run_lease_free(struct cli_run_lease *lease);

/* The request that renews it. */
#define CLI_RUN_TOUCH_WORDS 5u
void cli_run_lease_touch_words(const struct cli_run_lease *lease,
                               struct tn_bytes words[CLI_RUN_TOUCH_WORDS]);

/* A token for the lease into lease->token; none if the server gives none. */
void cli_run_lease_token(struct cli_run_lease *lease, struct cli_client *client);
/* The parts of it: the request, and the token in its reply. */
#define CLI_RUN_TOKEN_WORDS 4u
void cli_run_lease_token_words(const struct cli_run_lease *lease,
                               struct tn_bytes words[CLI_RUN_TOKEN_WORDS]);
void cli_run_lease_token_take(const struct cli_client *client, char out[CLI_RUN_TOKEN_MAX]);

/* The local time at which the server's time is `server_ms`, or a little earlier. */
uint64_t cli_run_lease_local(const struct cli_run_lease *lease, uint64_t server_ms);
/* Takes in that a request sent at `sent_ms` was granted until `deadline_ms` of the server, and answered at
 * `now_ms`. Pure. */
void cli_run_lease_granted(struct cli_run_lease *lease, uint64_t sent_ms, uint64_t now_ms,
                           uint64_t deadline_ms);

/* Takes in the times of the lease as the server showed them after a renewal that was sent at `sent_ms`.
 * Unlike cli_run_lease_granted this needs no earlier pair of clocks: the last one may be as old as a
 * wait is long, and the pools may have changed since. Pure. */
struct cli_run_lease_times {
    uint64_t created_ms, seen_ms, deadline_ms; /* the server's */
};
void cli_run_lease_confirmed(struct cli_run_lease *lease, uint64_t sent_ms, uint64_t now_ms,
                             const struct cli_run_lease_times *times);

/* RELEASE of a lease whose processes are dead, or ACK if it is known or turns out to be revoked, with a few
 * attempts until `until_ms`. */
enum cli_run_answer cli_run_lease_end(const struct cli_run_lease *lease, bool acknowledge,
                                      uint64_t until_ms);

/* Whether a refusal will pass: the request may be repeated. */
bool cli_run_refusal_passes(enum tn_result code);

uint64_t cli_run_now_ms(const struct cli_settings *settings);

#endif
