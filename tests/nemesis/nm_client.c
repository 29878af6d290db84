/* See nm_client.h. */
#include "nemesis/nm_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "nemesis/nm_process.h"
#include "nemesis/nm_world.h"
#include "protocol/parse.h"

/* ---- The connection ---- */

static bool connect_to(struct nm_client *client, uint16_t port) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    int one = 1;
    TN_ASSERT(client->socket < 0);
    client->socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return client->socket >= 0 &&
           connect(client->socket, (const struct sockaddr *)&address, sizeof address) == 0 &&
           setsockopt(client->socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0;
}

bool nm_client_open(struct nm_client *client, uint16_t port) {
    return connect_to(client, port) && nm_client_call(client, "HELLO 3");
}

void nm_client_close(struct nm_client *client, bool abruptly) {
    struct linger reset = {.l_onoff = 1, .l_linger = 0};
    if (client->socket >= 0) {
        if (abruptly) {
            (void)setsockopt(client->socket, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        }
        (void)close(client->socket);
    }
    client->socket = -1;
    client->first = client->count = 0;
    client->out_len = 0;
    client->deaf_until_ns = 0;
    client->greets = client->refused = false;
    client->leader_port = 0;
    cli_reader_free(&client->reader);
    memset(&client->reader, 0, sizeof client->reader);
}

static bool send_all(int socket, const char *bytes, size_t len) {
    while (len > 0) {
        ssize_t sent = send(socket, bytes, len, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent <= 0) {
            return false;
        }
        bytes += sent;
        len -= (size_t)sent;
    }
    return true;
}

bool nm_client_open_soon(struct nm_client *client, uint16_t port) {
    char request[NM_REQUEST_MAX];
    size_t len = nm_line_write("HELLO 3", request);
    client->greets = true;
    return connect_to(client, port) && send_all(client->socket, request, len);
}

bool nm_client_send(struct nm_client *client, size_t len) {
    size_t most = len < client->out_len ? len : client->out_len;
    client->out_len = 0;
    return send_all(client->socket, client->out, most);
}

/* Receives more bytes. False: none have arrived (*ret_gone: the connection is lost). */
static bool receive_more(struct nm_client *client, int flags, bool *ret_gone) {
    size_t capacity;
    uint8_t *room = cli_reader_room(&client->reader, &capacity);
    TN_ASSERT(room != NULL);
    ssize_t got = recv(client->socket, room, capacity, flags);
    *ret_gone = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
    if (got > 0) {
        cli_reader_fill(&client->reader, (size_t)got);
    }
    return got > 0;
}

bool nm_client_call(struct nm_client *client, const char *line) {
    char request[NM_REQUEST_MAX];
    size_t len = nm_line_write(line, request);
    bool gone = false;
    TN_ASSERT(client->count == 0);
    if (!send_all(client->socket, request, len)) {
        return false;
    }
    enum cli_parse parse = cli_reader_next(&client->reader);
    while (parse == CLI_MORE && !gone) {
        (void)receive_more(client, 0, &gone);
        parse = cli_reader_next(&client->reader);
    }
    return parse == CLI_READY;
}

/* ---- Requests ---- */

void nm_client_ask(struct nm_client *client, const struct nm_op *op, uint32_t index) {
    TN_ASSERT(client->count < NM_DEPTH);
    TN_ASSERT(sizeof client->out - client->out_len >= NM_REQUEST_MAX);
    client->out_len += nm_request_write(op, client->out + client->out_len);
    client->under_way[(client->first + client->count++) % NM_DEPTH] = index;
}

/* ---- Answers ---- */

static bool code_parse(struct tn_bytes name, uint8_t *ret_code) {
    for (uint32_t i = 0; i < TN_R_COUNT; i++) {
        const char *text = tn_result_name((enum tn_result)i);
        if (tn_bytes_equal(name, tn_bytes_of(text, strlen(text)))) {
            *ret_code = (uint8_t)i;
            return true;
        }
    }
    return false;
}

static uint8_t state_parse(struct tn_bytes name) {
    for (uint32_t i = KERNEL_RESERVED; i < KERNEL_STATE_COUNT; i++) {
        const char *text = kernel_state_name((enum kernel_state)i);
        if (tn_bytes_equal(name, tn_bytes_of(text, strlen(text)))) {
            return (uint8_t)i;
        }
    }
    return KERNEL_NO_STATE;
}

static bool lease_parse(struct tn_bytes text, uint64_t *ret_lsn) {
    struct kernel_lease_id id;
    if (!protocol_lease_parse(text, &id) || id.shard != 0) {
        return false;
    }
    *ret_lsn = id.lsn;
    return true;
}

/* Values are numbers or names; their pools come with them, or are those of the request. */
static bool values_take(const struct cli_reader *r, struct nm_op *op, uint32_t values,
                        uint32_t pools) {
    if (r->nodes[values].type != CLI_ARRAY || r->nodes[values].count > NM_VALUES) {
        return false;
    }
    uint32_t claim = 0, left = op->claims[0].count;
    op->value_count = 0;
    for (uint32_t i = 0; i < r->nodes[values].count; i++) {
        while (pools == 0 && left == 0 && claim + 1 < op->claim_count) {
            left = op->claims[++claim].count;
        }
        const char *name = nm_pool_of(op->group, op->claims[claim].pool)->name;
        struct tn_bytes pool =
            pools != 0 ? cli_node_text(r, pools + 1 + i) : tn_bytes_of(name, strlen(name));
        left -= left > 0;
        if (!nm_value_parse(op->group, pool, cli_node_text(r, values + 1 + i),
                            &op->values[op->value_count++])) {
            return false;
        }
    }
    return true;
}

static bool map_take(const struct cli_reader *r, struct nm_op *op) {
    uint32_t at = cli_node_find(r, 0, "result");
    op->code = TN_R_OK;
    if (at != 0 && !code_parse(cli_node_text(r, at), &op->code)) {
        return false;
    }
    op->outcome = NM_COMMITTED;
    if (!cli_node_number(r, cli_node_find(r, 0, "lsn"), &op->lsn)) {
        return false;
    }
    at = cli_node_find(r, 0, "replayed");
    op->replayed = at != 0 && cli_node_is(r, at, "t");
    at = cli_node_find(r, 0, "lease");
    op->has_lease = at != 0;
    if (at != 0 && (!lease_parse(cli_node_text(r, at), &op->got_lease) ||
                    !cli_node_number(r, cli_node_find(r, 0, "epoch"), &op->got_epoch))) {
        return false;
    }
    at = cli_node_find(r, 0, "state");
    op->state = at != 0                 ? state_parse(cli_node_text(r, at))
                : op->verb == NM_VERIFY ? (uint8_t)KERNEL_ACTIVE
                                        : (uint8_t)KERNEL_NO_STATE;
    (void)cli_node_number(r, cli_node_find(r, 0, "deadline"), &op->deadline_ms);
    at = cli_node_find(r, 0, "holder");
    op->got_holder = at != 0 ? (uint8_t)nm_holder_parse(op->group, cli_node_text(r, at)) : 0;
    (void)cli_node_number(r, cli_node_find(r, 0, "freed"), &op->number);
    (void)cli_node_number(r, cli_node_find(r, 0, "released"), &op->number);
    at = cli_node_find(r, 0, "values");
    return at == 0 || values_take(r, op, at, cli_node_find(r, 0, "pools"));
}

static bool fact_is(struct tn_bytes word, const char *name, struct tn_bytes *ret_value) {
    size_t len = strlen(name);
    if (word.len <= len || memcmp(word.at, name, len) != 0 || word.at[len] != '=') {
        return false;
    }
    *ret_value = tn_bytes_of(word.at + len + 1, word.len - len - 1);
    return true;
}

static void fact_take(struct tn_bytes word, struct nm_op *op) {
    struct tn_bytes value;
    if (fact_is(word, "lsn", &value)) {
        (void)kernel_value_parse(KERNEL_DEC, value, &op->lsn);
    } else if (fact_is(word, "retry_at", &value)) {
        (void)kernel_value_parse(KERNEL_DEC, value, &op->retry_at_ms);
    } else if (fact_is(word, "replayed", &value)) {
        op->replayed = true;
    } else if (fact_is(word, "lease", &value)) {
        op->has_lease = lease_parse(value, &op->got_lease);
    } else if (fact_is(word, "epoch", &value)) {
        (void)kernel_value_parse(KERNEL_DEC, value, &op->got_epoch);
    } else if (fact_is(word, "state", &value)) {
        op->state = state_parse(value);
    } else if (fact_is(word, "cap", &value) || fact_is(word, "index", &value) ||
               fact_is(word, "opid_lsn", &value)) {
        (void)kernel_value_parse(KERNEL_DEC, value, &op->number);
    }
}

/* Refused by a node that does not own the log. */
static bool is_elsewhere(const struct nm_op *op) {
    return op->code == TN_R_READONLY || op->code == TN_R_MASTERDOWN;
}

/* NAME words key=value ...: a refusal of a write is committed if it has a place in the log. */
static bool error_take(struct tn_bytes line, struct nm_op *op) {
    uint32_t at = 0;
    for (bool first = true; at < line.len; first = false) {
        const uint8_t *blank = memchr(line.at + at, ' ', line.len - at);
        uint32_t len = blank != NULL ? (uint32_t)(blank - line.at) - at : line.len - at;
        struct tn_bytes word = tn_bytes_of(line.at + at, len);
        at += len + 1;
        if (first && !code_parse(word, &op->code)) {
            return false;
        }
        if (!first) {
            fact_take(word, op);
        }
    }
    if (op->code ==
        /* The lease is another client's, and is reported only while it does not change. */
        TN_R_BUSY) {
        op->has_lease = false;
        op->got_lease = op->got_epoch = 0;
        op->state = KERNEL_NO_STATE;
    }
    enum tn_outcome class = tn_result_outcome((enum tn_result)op->code);
    if (class == TN_UNKNOWN) {
        op->outcome = NM_UNKNOWN;
    } else if (class == TN_COMMITTED && (op->lsn > 0 || nm_is_read(op))) {
        op->outcome = NM_COMMITTED;
    } else {
        /* All requests are valid: any other code would be an error of the test. */
        op->outcome = NM_REJECTED;
        return op->code == TN_R_OVERLOADED || op->code == TN_R_CLOSED || op->code == TN_R_NOT_YET ||
               is_elsewhere(op);
    }
    return true;
}

/* Reads the owner's port from a refusal, if the node knows it. */
static uint16_t leader_read(struct tn_bytes line) {
    static const char word[] = "leader=127.0.0.1:";
    const char *at = memmem(line.at, line.len, word, sizeof word - 1);
    return at != NULL ? (uint16_t)strtoul(at + sizeof word - 1, NULL, 10) : 0;
}

static bool answer_take(const struct cli_reader *r, struct nm_op *op) {
    return r->nodes[0].type == CLI_ERROR ? error_take(cli_node_text(r, 0), op)
                                         : r->nodes[0].type == CLI_MAP && map_take(r, op);
}

enum nm_receive nm_client_receive(struct nm_client *client, struct nm_history *h,
                                  uint32_t *ret_index, char *why, size_t capacity) {
    bool gone = false;
    enum cli_parse parse = cli_reader_next(&client->reader);
    while ((parse == CLI_MORE && receive_more(client, MSG_DONTWAIT, &gone)) ||
           (parse == CLI_READY && client->greets)) {
        client->greets = client->greets && parse != CLI_READY;
        client->progress_ns = nm_now_ns();
        parse = cli_reader_next(&client->reader);
    }
    if (parse == CLI_MORE) {
        return gone ? NM_GONE : NM_NOTHING;
    }
    struct tn_bytes text =
        parse == CLI_READY ? cli_node_text(&client->reader, 0) : tn_bytes_of("", 0);
    if (parse == CLI_BAD || client->count == 0) {
        snprintf(why, capacity, "a reply that nobody asked for: %.*s", (int)text.len, text.at);
        return NM_GONE;
    }
    *ret_index = client->under_way[client->first];
    client->first = (client->first + 1) % NM_DEPTH;
    client->count--;
    struct nm_op *op = &h->ops[*ret_index];
    if (!answer_take(&client->reader, op)) {
        char line[512];
        nm_op_text(h, *ret_index, line, sizeof line);
        snprintf(why, capacity, "a reply that makes no sense: %s: %.*s", line, (int)text.len,
                 text.at);
        return NM_GONE;
    }
    if (op->outcome == NM_REJECTED && is_elsewhere(op)) {
        client->refused = true;
        client->leader_port = leader_read(text);
    }
    op->end_ns = nm_now_ns();
    return NM_REPLY;
}
