/* Requests about the lease of `tenure run`. */
#include "cli/run_lease.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/arguments.h"
#include "cli/show_json.h"
#include "protocol/parse.h"

#define ATTEMPT_MS 1000u
#define PAUSE_MS 100u
#define CONFIRM_ATTEMPTS 5u
#define LEAVE_ATTEMPTS 3u

uint64_t cli_run_now_ms(const struct cli_settings *settings) {
    return settings->os->clock_boot_ms(settings->os->ctx);
}

/* ---- Time ---- */

uint64_t cli_run_lease_local(const struct cli_run_lease *lease, uint64_t server_ms) {
    uint64_t sent = lease->clocks.sent_ms;
    uint64_t base = lease->clocks.server_ms;
    if (server_ms >= base) {
        return sent + (server_ms - base);
    }
    return sent > base - server_ms ? sent - (base - server_ms) : 0;
}

void cli_run_lease_granted(struct cli_run_lease *lease, uint64_t sent_ms, uint64_t now_ms,
                           uint64_t deadline_ms) {
    uint64_t full = sent_ms + lease->ttl_ms;
    uint64_t server = deadline_ms > lease->ttl_ms ? deadline_ms - lease->ttl_ms : 0;
    bool first = lease->clocks.server_ms == 0;
    uint64_t told = first ? full : cli_run_lease_local(lease, deadline_ms);
    if (first && lease->max_hold_ms != 0) {
        lease->end_server_ms = server + lease->max_hold_ms;
    }
    /* If max_hold cut the ttl short, `server` is no time that the server's clock has shown. If a pool
     * got its max_hold only now, the deadline shows it: it is earlier than the last round trip and the
     * difference of two clocks explain. */
    uint64_t slack = lease->clocks.round_trip_ms + lease->ttl_ms / 100 + 50;
    bool is_cut =
        (lease->end_server_ms != 0 && deadline_ms >= lease->end_server_ms) || told + slack < full;
    if (is_cut && !first) {
        lease->deadline_ms = told < full ? told : full;
        return;
    }
    lease->deadline_ms = full;
    lease->clocks.sent_ms = sent_ms;
    lease->clocks.server_ms = server;
    lease->clocks.round_trip_ms = now_ms - sent_ms;
}

void cli_run_lease_confirmed(struct cli_run_lease *lease, uint64_t sent_ms, uint64_t now_ms,
                             const struct cli_run_lease_times *times) {
    uint64_t left = times->deadline_ms > times->seen_ms ? times->deadline_ms - times->seen_ms : 0;
    lease->end_server_ms = lease->max_hold_ms != 0 ? times->created_ms + lease->max_hold_ms : 0;
    if (left < lease->ttl_ms) { /* only max_hold cuts it short */
        lease->end_server_ms = times->deadline_ms;
    }
    lease->deadline_ms = sent_ms + (left < lease->ttl_ms ? left : lease->ttl_ms);
    lease->clocks.sent_ms = sent_ms;
    lease->clocks.server_ms = times->seen_ms;
    lease->clocks.round_trip_ms = now_ms - sent_ms;
}

/* ---- Refusals ---- */

bool cli_run_refusal_passes(enum tn_result code) {
    switch (code) {
    case TN_R_NOT_YET:
    case TN_R_OVERLOADED:
    case TN_R_NOSPACE:
    case TN_R_OPS_FULL:
    case TN_R_NAMES_FULL:
    case TN_R_CLOSED:
    case TN_R_NOAUTH:
    case TN_R_NOPERM:
    case TN_R_HALTED:
    case TN_R_LOST:
    case TN_R_READONLY:
    case TN_R_MASTERDOWN:
        return true;
    default:
        return false;
    }
}

static bool is_refusal(const struct cli_client *client) {
    return client->reader.nodes[0].type == CLI_ERROR;
}

/* The answer to a call that came back over `link`. */
static enum cli_run_answer answer_of(const struct cli_client *client, enum cli_link link) {
    if (link != CLI_LINK_OK) {
        return CLI_RUN_AGAIN;
    }
    if (!is_refusal(client)) {
        return CLI_RUN_OK;
    }
    struct cli_refusal refusal = cli_refusal_of(cli_node_text(&client->reader, 0));
    return refusal.known && !cli_run_refusal_passes(refusal.code) ? CLI_RUN_REFUSED : CLI_RUN_AGAIN;
}

static void refusal_print(const struct cli_client *client) {
    struct cli_text text = {.at = NULL};
    cli_text_clean(&text, cli_node_text(&client->reader, 0));
    (void)fprintf(stderr, "tenure run: %s\n", text.failed ? "out of memory" : text.at);
    cli_text_free(&text);
}

/* ---- Acquiring ---- */

static bool random_hex(const struct cli_settings *settings, char *out, unsigned bytes) {
    uint8_t random[16];
    if (settings->os->random(settings->os->ctx, random, bytes) != TN_OK) {
        return false;
    }
    for (unsigned i = 0; i < bytes; i++) {
        (void)snprintf(out + (size_t)2 * i, 3, "%02x", random[i]);
    }
    return true;
}

/* run/HOST/PID-RANDOM: two runs never share a holder, unless they are told to. */
static bool holder_make(struct cli_run_lease *lease, const struct cli_run_options *options) {
    char host[64] = "host";
    char suffix[9];
    if (options->holder != NULL) {
        int len = snprintf(lease->holder, sizeof lease->holder, "%s", options->holder);
        return len > 0 && (size_t)len < sizeof lease->holder;
    }
    (void)gethostname(host, sizeof host - 1);
    if (!random_hex(lease->settings, suffix, 4)) {
        return false;
    }
    (void)snprintf(lease->holder, sizeof lease->holder, "run/%s/%d-%s", host, (int)getpid(),
                   suffix);
    return true;
}

/* POOL INFO of a pool. A scope that is not live yet is described by its template. */
static enum cli_run_answer pool_ask(const struct cli_run_lease *lease, const char *pool,
                                    struct cli_client *client) {
    size_t len = strlen(pool);
    for (;;) {
        struct tn_bytes words[] = {tn_bytes_of("POOL", 4), tn_bytes_of("INFO", 4),
                                   tn_bytes_of(pool, len)};
        enum cli_run_answer answer =
            answer_of(client, cli_client_call(client, words, 3, lease->settings->timeout_ms));
        const char *at = memchr(pool, '@', len);
        if (answer != CLI_RUN_REFUSED || at == NULL ||
            cli_refusal_of(cli_node_text(&client->reader, 0)).code != TN_R_POOL_NOTFOUND) {
            return answer;
        }
        len = (size_t)(at - pool);
    }
}

/* A sticky pool gives the holder's lease at once to every request in the holder's name: two runs of one
 * holder would live together. Also learns the longest ttl that the pools allow. */
static enum cli_run_answer pool_check(struct cli_run_lease *lease,
                                      const struct cli_run_claim *claim,
                                      const struct cli_run_options *options,
                                      struct cli_client *client) {
    static const char *const caps[] = {"max_lease", "max_hold"};
    enum cli_run_answer answer = pool_ask(lease, claim->pool, client);
    if (answer != CLI_RUN_OK) { /* the allocation says why it is refused */
        return answer == CLI_RUN_REFUSED ? CLI_RUN_OK : answer;
    }
    uint32_t policy = cli_node_find(&client->reader, 0, "options");
    uint32_t sticky = policy != 0 ? cli_node_find(&client->reader, policy, "sticky") : 0;
    if (sticky != 0 && cli_node_is(&client->reader, sticky, "yes")) {
        (void)fprintf(stderr,
                      "tenure run: pool %s is sticky: another run of the same holder would get the "
                      "same values at once\n",
                      claim->pool);
        return CLI_RUN_REFUSED;
    }
    for (unsigned i = 0; i < 2 && policy != 0; i++) {
        uint64_t cap = 0;
        uint32_t node = cli_node_find(&client->reader, policy, caps[i]);
        if (node == 0 || !cli_node_number(&client->reader, node, &cap) || cap == 0) {
            continue;
        }
        if (i == 1 && (lease->max_hold_ms == 0 || cap * 1000 < lease->max_hold_ms)) {
            lease->max_hold_ms = cap * 1000;
        }
        if (cap * 1000 < lease->ttl_ms && !(options->has_ttl && i == 0)) {
            lease->ttl_ms =
                cap * 1000; /* an explicit ttl above max_lease is the server's to refuse */
        }
    }
    return CLI_RUN_OK;
}

static enum cli_run_answer pools_check(struct cli_run_lease *lease,
                                       const struct cli_run_options *options,
                                       struct cli_client *client) {
    enum cli_run_answer answer = CLI_RUN_OK;
    for (unsigned i = 0; i < options->claim_count && answer == CLI_RUN_OK; i++) {
        answer = pool_check(lease, &options->claims[i], options, client);
    }
    (void)snprintf(lease->ttl, sizeof lease->ttl, "%llu", (unsigned long long)lease->ttl_ms / 1000);
    return answer;
}

static void alloc_words(struct cli_words *words, const struct cli_run_lease *lease,
                        const struct cli_run_options *options, const char *wait) {
    cli_words_put(words, "ALLOC");
    cli_words_put(words, lease->holder);
    for (unsigned i = 0; i < options->claim_count; i++) {
        const struct cli_run_claim *claim = &options->claims[i];
        cli_words_put(words, "FROM");
        cli_words_put(words, claim->pool);
        cli_words_put(words, claim->value != NULL ? "VALUES" : "COUNT");
        cli_words_put(words, claim->value != NULL ? "1" : claim->count);
        if (claim->value != NULL) {
            cli_words_put(words, claim->value);
        }
    }
    cli_words_put(words, "TTL");
    cli_words_put(words, lease->ttl);
    if (options->meta != NULL) {
        cli_words_put(words, "META");
        cli_words_put(words, options->meta);
    }
    if (options->wait_s > 0) {
        cli_words_put(words, "WAIT");
        cli_words_put(words, wait);
    }
    cli_words_put(words, "OPID");
    cli_words_put(words, lease->opid);
}

static bool text_take(const struct cli_reader *reader, uint32_t node, char *out, size_t capacity) {
    struct tn_bytes text = node != 0 ? cli_node_text(reader, node) : tn_bytes_of(NULL, 0);
    if (text.len == 0 || text.len >= capacity) {
        return false;
    }
    memcpy(out, text.at, text.len);
    out[text.len] = '\0';
    return true;
}

/* The values of the reply are in the order of the claims. */
static bool values_take(struct cli_run_lease *lease, const struct cli_run_options *options,
                        const struct cli_reader *reader) {
    uint32_t array = cli_node_find(reader, 0, "values");
    uint32_t count = array != 0 ? reader->nodes[array].count : 0;
    unsigned claim = 0;
    uint64_t left = 0;
    free(lease->values); /* of an earlier attempt */
    free(lease->pools);
    lease->values = calloc(count + 1, sizeof *lease->values);
    lease->pools = calloc(count + 1, sizeof *lease->pools);
    if (lease->values == NULL || lease->pools == NULL || count > CLI_RUN_VALUES_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        while (left == 0) {
            if (claim == options->claim_count) {
                return false;
            }
            left = strtoull(options->claims[claim++].count, NULL, 10);
        }
        left--;
        memcpy(lease->pools[i], options->claims[claim - 1].pool, sizeof lease->pools[i]);
        if (!text_take(reader, array + 1 + i, lease->values[i], sizeof lease->values[i])) {
            return false;
        }
    }
    lease->value_count = count;
    return count > 0;
}

static bool grant_take(struct cli_run_lease *lease, const struct cli_run_options *options,
                       const struct cli_client *client, uint64_t sent_ms) {
    const struct cli_reader *reader = &client->reader;
    uint64_t deadline = 0;
    if (!text_take(reader, cli_node_find(reader, 0, "lease"), lease->id, sizeof lease->id) ||
        !text_take(reader, cli_node_find(reader, 0, "epoch"), lease->epoch, sizeof lease->epoch) ||
        !cli_node_number(reader, cli_node_find(reader, 0, "deadline"), &deadline) ||
        deadline == 0 || !values_take(lease, options, reader)) {
        (void)fprintf(stderr, "tenure run: cannot read the server's answer\n");
        return false;
    }
    cli_run_lease_granted(lease, sent_ms, cli_run_now_ms(lease->settings), deadline);
    return true;
}

/* The ttl that the server granted: max_hold cuts it short without a refusal, and a pool may have got its
 * max_hold after it was asked about it. Nothing is started with a lease whose ttl is not known. */
static enum cli_run_answer ttl_check(struct cli_run_lease *lease, struct cli_client *client,
                                     uint64_t sent_ms) {
    const struct cli_reader *reader = &client->reader;
    uint64_t created = 0;
    uint64_t deadline = 0;
    struct tn_bytes words[] = {tn_bytes_of("LEASE", 5), tn_bytes_of(lease->id, strlen(lease->id))};
    enum cli_run_answer answer =
        answer_of(client, cli_client_call(client, words, 2, lease->settings->timeout_ms));
    if (answer != CLI_RUN_OK) {
        return answer;
    }
    if (!cli_node_number(reader, cli_node_find(reader, 0, "created"), &created) ||
        !cli_node_number(reader, cli_node_find(reader, 0, "deadline"), &deadline) ||
        deadline <= created) {
        (void)fprintf(stderr, "tenure run: lease %s has ended already\n", lease->id);
        return CLI_RUN_REFUSED;
    }
    if (deadline - created < lease->ttl_ms) {
        lease->ttl_ms = lease->max_hold_ms = deadline - created;
        (void)snprintf(lease->ttl, sizeof lease->ttl, "%llu",
                       (unsigned long long)lease->ttl_ms / 1000);
        lease->clocks.server_ms = 0; /* the deadline was computed with the wrong ttl */
        cli_run_lease_granted(lease, sent_ms, cli_run_now_ms(lease->settings), deadline);
    }
    return CLI_RUN_OK;
}

/* The time for the reply to a request that waits. */
static uint64_t patience_ms(const struct cli_run_lease *lease,
                            const struct cli_run_options *options) {
    uint64_t timeout = lease->settings->timeout_ms;
    return timeout == CLI_NO_TIMEOUT ? CLI_NO_TIMEOUT : timeout + options->wait_s * 1000;
}

static enum cli_run_answer alloc_ask(struct cli_run_lease *lease,
                                     const struct cli_run_options *options,
                                     struct cli_client *client) {
    struct cli_words words = {.at = NULL};
    char wait[24];
    enum cli_run_answer answer = CLI_RUN_REFUSED;
    (void)snprintf(wait, sizeof wait, "%llu", (unsigned long long)options->wait_s);
    alloc_words(&words, lease, options, wait);
    if (words.failed) {
        (void)fprintf(stderr, "tenure run: out of memory\n");
    } else {
        lease->first_ms = lease->first_ms == 0 ? cli_run_now_ms(lease->settings) : lease->first_ms;
        answer = answer_of(
            client, cli_client_call(client, words.at, words.count, patience_ms(lease, options)));
    }
    if (answer == CLI_RUN_OK) {
        answer = grant_take(lease, options, client, lease->first_ms)
                     ? ttl_check(lease, client, lease->first_ms)
                     : CLI_RUN_REFUSED;
    }
    cli_words_free(&words);
    return answer;
}

/* A repeated request must have the same words, and may get the answer to the first: the pools are looked
 * at once, and the ttl counts from the first request. */
static enum cli_run_answer alloc_once(struct cli_run_lease *lease,
                                      const struct cli_run_options *options,
                                      struct cli_client *client, const atomic_bool *leaving) {
    enum cli_run_answer answer = CLI_RUN_OK;
    if (lease->first_ms == 0) {
        answer = pools_check(lease, options, client);
    }
    if (answer == CLI_RUN_OK) {
        answer = alloc_ask(lease, options, client);
    }
    if (answer != CLI_RUN_OK && client->reader.node_count > 0 && is_refusal(client) &&
        !atomic_load(leaving)) {
        refusal_print(client);
    }
    return answer;
}

static bool times_take(const struct cli_reader *reader, struct cli_run_lease_times *ret_times) {
    return cli_node_is(reader, cli_node_find(reader, 0, "state"), "active") &&
           cli_node_number(reader, cli_node_find(reader, 0, "created"), &ret_times->created_ms) &&
           cli_node_number(reader, cli_node_find(reader, 0, "last_seen"), &ret_times->seen_ms) &&
           cli_node_number(reader, cli_node_find(reader, 0, "deadline"), &ret_times->deadline_ms);
}

/* The limits of the pools as they are now, a renewal, and the times that it made. */
static enum cli_run_answer confirm_once(struct cli_run_lease *lease,
                                        const struct cli_run_options *options,
                                        struct cli_client *client) {
    const struct cli_settings *settings = lease->settings;
    struct tn_bytes words[CLI_RUN_TOUCH_WORDS];
    struct tn_bytes look[] = {tn_bytes_of("LEASE", 5), tn_bytes_of(lease->id, strlen(lease->id))};
    struct cli_run_lease_times times = {0};
    enum cli_run_answer answer = pools_check(lease, options, client);
    if (answer != CLI_RUN_OK) {
        return answer;
    }
    uint64_t sent = cli_run_now_ms(settings);
    cli_run_lease_touch_words(lease, words);
    answer = answer_of(client,
                       cli_client_call(client, words, CLI_RUN_TOUCH_WORDS, settings->timeout_ms));
    if (answer == CLI_RUN_OK) {
        answer = answer_of(client, cli_client_call(client, look, 2, settings->timeout_ms));
    }
    if (answer == CLI_RUN_OK && !times_take(&client->reader, &times)) {
        answer = CLI_RUN_REFUSED;
    }
    if (answer == CLI_RUN_OK) {
        cli_run_lease_confirmed(lease, sent, cli_run_now_ms(settings), &times);
    }
    return answer;
}

/* The ttl counts from the first request, so after a wait, or several attempts, it may be over. */
static enum cli_run_answer confirm(struct cli_run_lease *lease,
                                   const struct cli_run_options *options,
                                   struct cli_client *client) {
    const struct cli_settings *settings = lease->settings;
    enum cli_run_answer answer = confirm_once(lease, options, client);
    for (unsigned i = 0; answer == CLI_RUN_AGAIN && i < CONFIRM_ATTEMPTS; i++) {
        cli_client_close(client);
        cli_wait_ms(PAUSE_MS);
        if (cli_client_open(client, settings) == CLI_LINK_OK) {
            answer = confirm_once(lease, options, client);
        }
    }
    if (answer != CLI_RUN_OK) {
        (void)fprintf(stderr, "tenure run: lease %s could not be renewed after it was granted\n",
                      lease->id);
        (void)cli_run_lease_end(lease, false, cli_run_now_ms(settings) + ATTEMPT_MS);
    }
    return answer;
}

bool cli_run_lease_name(struct cli_run_lease *lease, const struct cli_run_options *options) {
    (void)snprintf(lease->opid, sizeof lease->opid, "run-");
    if (!random_hex(lease->settings, lease->opid + 4, 16) || !holder_make(lease, options)) {
        (void)fprintf(stderr, "tenure run: the holder's name is too long\n");
        return false;
    }
    return true;
}

/* Whether the request may have a place in line, which is worth another connection. */
static bool is_in_line(const struct cli_run_lease *lease, const struct cli_run_options *options) {
    return options->wait_s > 0 && lease->first_ms != 0 &&
           cli_run_now_ms(lease->settings) < lease->first_ms + options->wait_s * 1000;
}

/* One attempt. `again`: the one before it has failed too, and was reported. */
static enum cli_run_answer attempt_make(struct cli_run_lease *lease,
                                        const struct cli_run_options *options,
                                        struct cli_client *client, const atomic_bool *leaving,
                                        bool again) {
    enum cli_run_answer answer = CLI_RUN_AGAIN;
    if (cli_client_open(client, lease->settings) == CLI_LINK_OK) {
        answer = alloc_once(lease, options, client, leaving);
        again = false;
    }
    if (answer == CLI_RUN_AGAIN && client->error[0] != '\0' && !again && !atomic_load(leaving)) {
        (void)fprintf(stderr, "tenure run: %s%s\n", client->error,
                      is_in_line(lease, options) ? "; trying again" : "");
    }
    return answer;
}

enum cli_run_answer cli_run_lease_acquire(struct cli_run_lease *lease,
                                          const struct cli_run_options *options,
                                          struct cli_client *client, const atomic_bool *leaving) {
    const struct cli_settings *settings = lease->settings;
    enum cli_run_answer answer = CLI_RUN_AGAIN;
    uint64_t attempt = 0;
    lease->ttl_ms = options->ttl_s * 1000;
    for (;; attempt++) {
        bool waits = is_in_line(lease, options);
        answer = attempt_make(lease, options, client, leaving, waits && attempt > 1);
        waits = is_in_line(lease, options);
        if (answer != CLI_RUN_AGAIN || (!waits && attempt >= settings->retries) ||
            atomic_load(leaving)) {
            break;
        }
        cli_client_close(client);
        uint64_t doublings = waits ? 2 : 5; /* a place in line is kept for seconds only */
        cli_wait_ms(PAUSE_MS << (attempt < doublings ? attempt + 1 : doublings));
    }
    if (answer == CLI_RUN_AGAIN && lease->first_ms != 0 && !atomic_load(leaving)) {
        (void)cli_run_lease_leave(lease); /* it may have been granted anyway */
    }
    if (answer != CLI_RUN_OK && lease->id[0] != '\0') { /* granted, but not usable */
        (void)cli_run_lease_end(lease, false, cli_run_now_ms(settings) + ATTEMPT_MS);
    }
    if (answer == CLI_RUN_OK && cli_run_now_ms(settings) > lease->first_ms + lease->ttl_ms / 6) {
        answer = confirm(lease, options, client);
    }
    return answer;
}

void cli_run_lease_free(struct cli_run_lease *lease) {
    free(lease->values);
    free(lease->pools);
    explicit_bzero(lease->token, sizeof lease->token);
}

void cli_run_lease_touch_words(const struct cli_run_lease *lease,
                               struct tn_bytes words[CLI_RUN_TOUCH_WORDS]) {
    words[0] = tn_bytes_of("TOUCH", 5);
    words[1] = tn_bytes_of(lease->id, strlen(lease->id));
    words[2] = tn_bytes_of(lease->epoch, strlen(lease->epoch));
    words[3] = tn_bytes_of("TTL", 3);
    words[4] = tn_bytes_of(lease->ttl, strlen(lease->ttl));
}

void cli_run_lease_token_words(const struct cli_run_lease *lease,
                               struct tn_bytes words[CLI_RUN_TOKEN_WORDS]) {
    words[0] = tn_bytes_of("TOKEN", 5);
    words[1] = tn_bytes_of("ISSUE", 5);
    words[2] = tn_bytes_of(lease->id, strlen(lease->id));
    words[3] = tn_bytes_of(lease->epoch, strlen(lease->epoch));
}

void cli_run_lease_token_take(const struct cli_client *client, char out[CLI_RUN_TOKEN_MAX]) {
    const struct cli_reader *reader = &client->reader;
    if (is_refusal(client) ||
        !text_take(reader, cli_node_find(reader, 0, "token"), out, CLI_RUN_TOKEN_MAX)) {
        out[0] = '\0';
    }
}

void cli_run_lease_token(struct cli_run_lease *lease, struct cli_client *client) {
    struct tn_bytes words[CLI_RUN_TOKEN_WORDS];
    cli_run_lease_token_words(lease, words);
    if (cli_client_call(client, words, CLI_RUN_TOKEN_WORDS, lease->settings->timeout_ms) ==
        CLI_LINK_OK) {
        cli_run_lease_token_take(client, lease->token);
    }
}

/* ---- The end ---- */

static bool is_stale(const struct cli_client *client) {
    return is_refusal(client) &&
           cli_refusal_of(cli_node_text(&client->reader, 0)).code == TN_R_STALE;
}

/* A lease that was revoked a moment ago refuses RELEASE as stale, and takes ACK. */
static enum cli_run_answer end_once(const struct cli_run_lease *lease, bool acknowledge,
                                    uint64_t timeout_ms) {
    struct cli_settings settings = *lease->settings;
    struct cli_client client;
    const char *name = acknowledge ? "ACK" : "RELEASE";
    struct tn_bytes words[] = {tn_bytes_of(name, strlen(name)),
                               tn_bytes_of(lease->id, strlen(lease->id)),
                               tn_bytes_of(lease->holder, strlen(lease->holder)),
                               tn_bytes_of(lease->epoch, strlen(lease->epoch))};
    settings.timeout_ms = timeout_ms;
    enum cli_run_answer answer = CLI_RUN_AGAIN;
    if (cli_client_open(&client, &settings) == CLI_LINK_OK) {
        answer = answer_of(&client, cli_client_call(&client, words, 4, timeout_ms));
        if (!acknowledge && answer == CLI_RUN_REFUSED && is_stale(&client)) {
            words[0] = tn_bytes_of("ACK", 3);
            answer = answer_of(&client, cli_client_call(&client, words, 4, timeout_ms));
        }
    }
    cli_client_close(&client);
    return answer;
}

enum cli_run_answer cli_run_lease_end(const struct cli_run_lease *lease, bool acknowledge,
                                      uint64_t until_ms) {
    enum cli_run_answer answer = CLI_RUN_AGAIN;
    do {
        uint64_t now = cli_run_now_ms(lease->settings);
        uint64_t left = until_ms > now ? until_ms - now : 1;
        answer = end_once(lease, acknowledge, left < ATTEMPT_MS ? left : ATTEMPT_MS);
        if (answer == CLI_RUN_AGAIN) {
            cli_wait_ms(PAUSE_MS);
        }
    } while (answer == CLI_RUN_AGAIN && cli_run_now_ms(lease->settings) < until_ms);
    return answer;
}

/* ---- Leaving the line ---- */

/* Where the log has the request, by a command that cannot succeed with the same operation id: its
 * refusal names the position. 0: the log does not have the request, and from now on cannot. */
static enum cli_run_answer request_find(const struct cli_run_lease *lease,
                                        struct cli_client *client, uint64_t *ret_lsn) {
    struct tn_bytes words[] = {tn_bytes_of("RELEASE", 7),
                               tn_bytes_of("0-1", 3), /* the log begins with the pools */
                               tn_bytes_of(lease->holder, strlen(lease->holder)),
                               tn_bytes_of("18446744073709551615", 20),
                               tn_bytes_of("OPID", 4),
                               tn_bytes_of(lease->opid, strlen(lease->opid))};
    *ret_lsn = 0;
    enum cli_run_answer answer =
        answer_of(client, cli_client_call(client, words, 6, lease->settings->timeout_ms));
    if (answer != CLI_RUN_REFUSED) {
        return answer;
    }
    struct cli_refusal refusal = cli_refusal_of(cli_node_text(&client->reader, 0));
    struct tn_bytes facts = refusal.facts;
    struct tn_bytes key, value;
    while (refusal.code == TN_R_CONFLICT && cli_refusal_fact(&facts, &key, &value)) {
        if (tn_bytes_equal(key, tn_bytes_of("opid_lsn", 8))) {
            (void)cli_number_parse(value, ret_lsn);
        }
    }
    return CLI_RUN_OK;
}

/* The id in this page of the holder's leases that ends in the position. Empty: the page has none. */
static void page_search(const struct cli_reader *reader, uint64_t lsn, char *out, size_t capacity) {
    uint32_t array = cli_node_find(reader, 0, "leases");
    struct kernel_lease_id id;
    out[0] = '\0';
    for (uint32_t at = array + 1; array != 0 && at < reader->nodes[array].end;
         at = reader->nodes[at].end) {
        uint32_t node = cli_node_find(reader, at, "lease");
        if (node != 0 && protocol_lease_parse(cli_node_text(reader, node), &id) && id.lsn == lsn) {
            (void)text_take(reader, node, out, capacity);
        }
    }
}

/* The id of the lease that the log has at this position, if it has not ended. Its shard is known to the
 * server only: a server whose data was restored from a backup has another. */
static enum cli_run_answer lease_find(struct cli_run_lease *lease, struct cli_client *client,
                                      uint64_t lsn) {
    char cursor[24] = "0";
    uint64_t next = 0;
    do {
        struct tn_bytes words[] = {tn_bytes_of("LEASES", 6),
                                   tn_bytes_of("HOLDER", 6),
                                   tn_bytes_of(lease->holder, strlen(lease->holder)),
                                   tn_bytes_of("CURSOR", 6),
                                   tn_bytes_of(cursor, strlen(cursor)),
                                   tn_bytes_of("COUNT", 5),
                                   tn_bytes_of("1000", 4)};
        enum cli_run_answer answer =
            answer_of(client, cli_client_call(client, words, 7, lease->settings->timeout_ms));
        if (answer != CLI_RUN_OK) {
            return answer;
        }
        const struct cli_reader *reader = &client->reader;
        page_search(reader, lsn, lease->id, sizeof lease->id);
        next = 0;
        (void)cli_node_number(reader, cli_node_find(reader, 0, "cursor"), &next);
        (void)snprintf(cursor, sizeof cursor, "%llu", (unsigned long long)next);
    } while (lease->id[0] == '\0' && next != 0);
    return CLI_RUN_OK;
}

/* A lease is born with the epoch 1, also in line. */
static enum cli_run_answer leave_once(struct cli_run_lease *lease) {
    struct cli_client client;
    uint64_t lsn = 0;
    enum cli_run_answer answer = CLI_RUN_AGAIN;
    if (cli_client_open(&client, lease->settings) == CLI_LINK_OK) {
        answer = request_find(lease, &client, &lsn);
    }
    if (answer == CLI_RUN_OK && lsn != 0) {
        answer = lease_find(lease, &client, lsn);
    }
    if (answer == CLI_RUN_OK && lease->id[0] != '\0') {
        struct tn_bytes words[] = {
            tn_bytes_of("RELEASE", 7), tn_bytes_of(lease->id, strlen(lease->id)),
            tn_bytes_of(lease->holder, strlen(lease->holder)), tn_bytes_of("1", 1)};
        answer =
            answer_of(&client, cli_client_call(&client, words, 4, lease->settings->timeout_ms));
    }
    cli_client_close(&client);
    return answer;
}

bool cli_run_lease_leave(const struct cli_run_lease *lease) {
    struct cli_settings settings = *lease->settings;
    struct cli_run_lease named = {.settings = &settings};
    enum cli_run_answer answer = CLI_RUN_AGAIN;
    settings.timeout_ms = ATTEMPT_MS;
    memcpy(named.holder, lease->holder, sizeof named.holder);
    memcpy(named.opid, lease->opid, sizeof named.opid);
    for (unsigned i = 0; answer == CLI_RUN_AGAIN && i < LEAVE_ATTEMPTS; i++) {
        if (i > 0) {
            cli_wait_ms(PAUSE_MS);
        }
        answer = leave_once(&named);
    }
    return answer != CLI_RUN_AGAIN;
}
