#include "etcd/etcd_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "etcd/client_parts.h"

/* What one step does at most before it lets its caller look at the clock. */
#define STEP_ROUNDS 32u

static void client_step(struct etcd *base, uint64_t now_ms) {
    struct etcd_client *client = client_of(base);
    bool more = true;
    TN_ASSERT(now_ms >= client->now_ms);
    client->now_ms = now_ms;
    client->again = false;
    for (unsigned round = 0; more && round < STEP_ROUNDS; round++) {
        more = client_lanes_step(client);
        more |= client_token_process(client);
        more |= client_calls_process(client);
        more |= client_watches_process(client);
        more |= client_watches_dispatch(client);
        more |= client_calls_dispatch(client);
        more |= client->again;
        client->again = false;
    }
    client->again = more;
}

static uint64_t client_next_ms(const struct etcd *base) {
    const struct etcd_client *client = (const struct etcd_client *)base;
    if (client->again) {
        return client->now_ms;
    }
    uint64_t next_ms = client_lanes_next_ms(client);
    next_ms = client_min(next_ms, client_token_next_ms(client));
    next_ms = client_min(next_ms, client_calls_next_ms(client));
    return client_min(next_ms, client_watches_next_ms(client));
}

static unsigned client_poll_set(const struct etcd *base, struct pollfd *out, unsigned max) {
    return client_lanes_poll((const struct etcd_client *)base, out, max);
}

static void client_leave_soon(struct etcd *base) {
    client_of(base)->leave_now = true;
    client_of(base)->again = true;
}

static void client_info(const struct etcd *base, struct etcd_info *ret_info) {
    const struct etcd_client *client = (const struct etcd_client *)base;
    const struct client_lane *lane = &client->lanes[LANE_ACTIVE];
    unsigned endpoint = lane->link != NULL ? lane->endpoint : client->endpoint_next;
    *ret_info = (struct etcd_info){
        .connection = lane->connection,
        .member_id = lane->member_id,
        .leader = lane->leader,
        .db_bytes = lane->db_bytes,
        .connects = client->connections,
        .doubts = client->doubts,
        .trouble = client->trouble,
    };
    (void)snprintf(ret_info->endpoint, sizeof ret_info->endpoint, "%.127s",
                   client->endpoints[endpoint].authority);
    memcpy(ret_info->version, lane->version, sizeof ret_info->version);
    (void)snprintf(ret_info->trouble_text, sizeof ret_info->trouble_text, "%s",
                   client->trouble_text);
}

static void client_close(struct etcd *base) {
    struct etcd_client *client = client_of(base);
    for (unsigned i = 0; i < ETCD_CALLS_MAX; i++) {
        etcd_session_detach(&client->calls[i].stream);
        etcd_stream_free(&client->calls[i].stream);
    }
    for (unsigned i = 0; i < ETCD_WATCHES_MAX; i++) {
        etcd_session_detach(&client->watches[i].stream);
        etcd_stream_free(&client->watches[i].stream);
    }
    etcd_session_detach(&client->log_in.stream);
    etcd_stream_free(&client->log_in.stream);
    client_lanes_free(client);
    etcd_arena_free(&client->arena_in);
    etcd_arena_free(&client->arena_out);
    for (size_t i = 0; i < sizeof client->texts / sizeof client->texts[0]; i++) {
        if (client->texts[i] != NULL) {
            explicit_bzero(client->texts[i], strlen(client->texts[i]));
        }
        free(client->texts[i]);
    }
    explicit_bzero(client->token, sizeof client->token);
    free(client);
}

static const struct etcd_verbs client_verbs = {
    .submit = client_submit,
    .watch = client_watch,
    .watch_progress = client_watch_progress,
    .watch_cancel = client_watch_cancel,
    .leave = client_leave_soon,
    .step = client_step,
    .next_ms = client_next_ms,
    .poll_set = client_poll_set,
    .info = client_info,
    .close = client_close,
};

/* ---- Opening ---- */

static bool endpoints_take(struct etcd_client *client, const struct etcd_options *options,
                           char error[ETCD_MESSAGE_MAX]) {
    if (options->endpoint_count == 0 || options->endpoint_count > ETCD_ENDPOINTS_MAX) {
        (void)snprintf(error, ETCD_MESSAGE_MAX, "between 1 and %u endpoints are needed",
                       ETCD_ENDPOINTS_MAX);
        return false;
    }
    for (unsigned i = 0; i < options->endpoint_count; i++) {
        if (!etcd_endpoint_parse(options->endpoints[i], &client->endpoints[i])) {
            (void)snprintf(error, ETCD_MESSAGE_MAX,
                           "not an endpoint: '%.150s'; write http://HOST:PORT or https://HOST:PORT",
                           options->endpoints[i]);
            return false;
        }
    }
    client->endpoint_count = options->endpoint_count;
    client->endpoint_next = options->endpoint_first % options->endpoint_count;
    return true;
}

static bool texts_take(struct etcd_client *client) {
    struct etcd_options *options = &client->options;
    const char **texts[] = {&options->ca_file, &options->certificate_file, &options->key_file,
                            &options->user, &options->password};
    _Static_assert(sizeof texts / sizeof texts[0] == sizeof client->texts / sizeof(char *),
                   "one copy for each");
    options->endpoints = NULL;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (*texts[i] != NULL && (*texts[i] = client->texts[i] = strdup(*texts[i])) == NULL) {
            return false;
        }
    }
    return true;
}

static void defaults_set(struct etcd_options *options) {
    struct {
        uint32_t *at, standard, max;
    } numbers[] = {
        {&options->connect_ms, 1000, UINT32_MAX},
        {&options->probe_ms, 500, UINT32_MAX},
        {&options->silence_ms, 1500, UINT32_MAX},
        {&options->backoff_ms_max, 250, UINT32_MAX},
        {&options->request_bytes_max, 2u << 20, ETCD_REQUEST_BYTES_MAX},
        {&options->answer_bytes_max, 64u << 20, ETCD_ANSWER_BYTES_MAX},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        uint32_t value = *numbers[i].at != 0 ? *numbers[i].at : numbers[i].standard;
        *numbers[i].at = value < numbers[i].max ? value : numbers[i].max;
    }
}

/* What would fail at every connection fails now. */
static bool files_check(const struct etcd_client *client, char error[ETCD_MESSAGE_MAX]) {
    const struct etcd_options *options = &client->options;
    struct etcd_tls_files files = {
        .ca = options->ca_file, .certificate = options->certificate_file, .key = options->key_file};
    struct etcd_tls_error tls_error;
    if ((options->certificate_file == NULL) != (options->key_file == NULL)) {
        (void)snprintf(error, ETCD_MESSAGE_MAX, "a certificate and its key belong together");
        return false;
    }
    for (unsigned i = 0; i < client->endpoint_count; i++) {
        if (client->endpoints[i].tls) {
            struct etcd_tls *tls = etcd_tls_new(&files, client->endpoints[i].host, -1, &tls_error);
            if (tls == NULL) {
                (void)snprintf(error, ETCD_MESSAGE_MAX, "%s", tls_error.text);
                return false;
            }
            etcd_tls_free(tls);
            return true;
        }
    }
    return true;
}

enum tn_status etcd_open(const struct etcd_options *options, struct etcd **ret_etcd,
                         char ret_error[ETCD_MESSAGE_MAX]) {
    struct etcd_client *client = calloc(1, sizeof *client);
    enum tn_status status = TN_NOMEM;
    (void)snprintf(ret_error, ETCD_MESSAGE_MAX, "out of memory");
    if (client == NULL) {
        return TN_NOMEM;
    }
    client->base.verbs = &client_verbs;
    client->options = *options;
    defaults_set(&client->options);
    etcd_arena_init(&client->arena_out, (size_t)1 << 20);
    etcd_arena_init(&client->arena_in, (size_t)client->options.answer_bytes_max * 4);
    if (!texts_take(client)) {
        goto failed;
    }
    status = TN_INVALID;
    if (!endpoints_take(client, options, ret_error) || !files_check(client, ret_error)) {
        goto failed;
    }
    if ((options->user == NULL) != (options->password == NULL)) {
        (void)snprintf(ret_error, ETCD_MESSAGE_MAX, "a user and a password belong together");
        goto failed;
    }
    ret_error[0] = '\0';
    *ret_etcd = &client->base;
    return TN_OK;
failed:
    client_close(&client->base);
    return status;
}

struct tn_bytes etcd_prefix_end(struct tn_bytes prefix, uint8_t *out) {
    uint32_t len = prefix.len;
    while (len > 0 && prefix.at[len - 1] == 0xff) {
        len--;
    }
    TN_ASSERT(len > 0);
    memcpy(out, prefix.at, len);
    out[len - 1]++;
    return tn_bytes_of(out, len);
}
