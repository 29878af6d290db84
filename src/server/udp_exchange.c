/* One request of the UDP listener, from its writes to its reply. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "engine/engine.h"
#include "engine/read.h"
#include "server/access.h"
#include "server/client.h"
#include "server/count.h"
#include "server/handler.h"
#include "server/owners.h"
#include "server/request.h"
#include "server/slots.h"
#include "server/udp.h"
#include "server/write.h"

#define WORDS_MAX 10u

/* ---- The pool ---- */

static const char *policy_fault(const struct kernel_pool_view *view) {
    /* A scope has its template's policy with its own options in place. */
    const struct kernel_policy *policy = &view->policy;
    if (policy->of[KERNEL_OPTION_KIND] != KERNEL_RANGE) {
        return "the pool contains names, not numbers";
    }
    if (policy->of[KERNEL_OPTION_SCOPED] && !view->is_scope) {
        return "the pool is a template";
    }
    if (!policy->of[KERNEL_OPTION_STICKY]) {
        return "the pool is not sticky: a node that sends two requests would get two ids";
    }
    return policy->of[KERNEL_OPTION_HI] >= PROTOCOL_UDP_NO_ID
               ? "the pool has values above 4294967294, the largest id"
               : NULL;
}

const char *udp_pool_fault(struct server_owners *owners, struct tn_bytes pool) {
    struct kernel_pool_view view;
    uint64_t lsn;
    enum tn_result code = engine_pool_read(owners->engine, ENGINE_READ_AS_IS, pool, &view, &lsn);
    return code == TN_R_OK ? policy_fault(&view) : NULL;
}

/* ---- Replies ---- */

void udp_exchange_fail(struct udp_exchange *exchange, const char *reason, const char *detail) {
    char text[PROTOCOL_UDP_REASON_MAX + 1];
    uint8_t out[PROTOCOL_UDP_REPLY_MAX];
    uint32_t room = exchange->allowed ? UINT32_MAX : exchange->datagram_len;
    (void)snprintf(text, sizeof text, "%s%s%s", reason, *detail != '\0' ? ": " : "", detail);
    if (PROTOCOL_UDP_HEADER + strlen(text) > room) {
        (void)snprintf(text, sizeof text, "%s", reason);
    }
    if (PROTOCOL_UDP_HEADER + strlen(text) > room) {
        exchange->udp->owners->counters->datagrams[SERVER_UDP_SHORT]++;
    } else {
        size_t len = protocol_udp_failure(out, exchange->sequence, text);
        udp_send(exchange, out, len, SERVER_UDP_FAILED);
    }
    udp_exchange_end(exchange);
}

static const char *reason_of(enum tn_result code) {
    switch (code) {
    case TN_R_EXHAUSTED:
        return "ID_POOL_EXHAUSTED";
    case TN_R_MALFORMED:
        return "BAD_REQUEST";
    default:
        return tn_result_name(code);
    }
}

static void exchange_finish(struct udp_exchange *exchange) {
    struct server_owners *owners = exchange->udp->owners;
    uint8_t out[PROTOCOL_UDP_REPLY_MAX];
    enum tn_result code = exchange->code;
    if (code != TN_R_OK && tn_result_outcome(code) == TN_UNKNOWN) {
        /* The node gets no reply and sends the request again. */
        owners->counters->datagrams[SERVER_UDP_UNKNOWN]++;
        udp_exchange_end(exchange);
        return;
    }
    if (code != TN_R_OK) {
        udp_exchange_fail(exchange, reason_of(code), "");
        return;
    }
    uint64_t seconds = engine_now(owners->engine) / 1000;
    size_t len = exchange->many
                     ? protocol_udp_many(out, exchange->sequence, exchange->ids, exchange->count)
                     : protocol_udp_one(out, exchange->sequence, exchange->ids[0], seconds);
    udp_send(exchange, out, len, SERVER_UDP_ANSWERED);
    udp_exchange_end(exchange);
}

/* ---- The write ---- */

static struct tn_bytes word(const char *text) {
    return tn_bytes_of(text, strlen(text));
}

static enum server_step exchange_ask(struct udp_exchange *exchange) {
    char count[16];
    struct tn_bytes words[WORDS_MAX];
    struct server_request request;
    uint32_t used = 0;
    words[used++] = word("ALLOC");
    words[used++] = exchange->udp->pool;
    words[used++] = tn_bytes_of(exchange->key, exchange->key_len);
    if (exchange->many) {
        (void)snprintf(count, sizeof count, "%u", exchange->count);
        words[used++] = word("COUNT");
        words[used++] = word(count);
    }
    words[used++] = word("META");
    words[used++] = tn_bytes_of(exchange->meta, exchange->meta_len);
    if (exchange->phase == UDP_ASK) {
        words[used++] = word("OPID");
        words[used++] = word(exchange->operation);
    }
    server_request_begin(&request, &exchange->client, &access_system,
                         &protocol_table[PROTOCOL_ALLOC], words, used);
    return server_write(&request);
}

/* ---- Its answer ---- */

/* Takes the ids of the lease as they are in the state: they were committed, also if this node is not sure now
 * that it owns the log. False: their number is another one than requested, or the lease has ended. */
static bool ids_take(struct udp_exchange *exchange, const struct server_slot *slot) {
    struct server_udp *udp = exchange->udp;
    uint32_t found = 0;
    if (slot->plain) {
        exchange->ids[0] = (uint32_t)slot->value;
        return exchange->count == 1 && slot->request.result.value_count == 1 &&
               slot->value < PROTOCOL_UDP_NO_ID;
    }
    enum tn_result code =
        engine_lease_values(udp->owners->engine, ENGINE_READ_STALE, slot->request.result.lease, 0,
                            udp->values, PROTOCOL_UDP_COUNT_MAX, &found);
    if (code != TN_R_OK || found != exchange->count) {
        return false;
    }
    for (uint32_t i = 0; i < found; i++) {
        const struct kernel_value *value = &udp->values[i].value;
        if (value->name_len > 0 || value->number >= PROTOCOL_UDP_NO_ID) {
            return false; /* the pool has changed since the start */
        }
        exchange->ids[i] = (uint32_t)value->number;
    }
    return true;
}

/* The result remembered for an operation id counts only if it still holds: the lease is live under
 * this epoch. */
static bool replay_holds(struct udp_exchange *exchange, const struct kernel_result *result) {
    struct engine *engine = exchange->udp->owners->engine;
    struct engine_lease lease;
    return exchange->code == TN_R_OK && engine_verify(engine, ENGINE_READ_AS_IS, result->lease,
                                                      result->epoch, &lease) == TN_R_OK;
}

static void exchange_answered(struct udp_exchange *exchange, const struct server_slot *slot) {
    const struct kernel_result *result = &slot->request.result;
    bool committed = slot->plain || slot->answer.has_lease;
    exchange->code = slot->answer.code;
    if (exchange->code == TN_R_OK && !(committed && ids_take(exchange, slot))) {
        exchange->code = TN_R_BAD_VALUE;
    }
    exchange->again = exchange->phase == UDP_ASK && committed && result->replayed &&
                      !replay_holds(exchange, result);
}

static void exchange_collect(struct udp_exchange *exchange) {
    struct server_slot *slot = server_slot_collect(&exchange->client);
    if (slot != NULL) {
        TN_ASSERT(exchange->asked);
        exchange_answered(exchange, slot);
        server_slot_free(slot);
    }
}

static void exchange_run(struct server_client *client) {
    struct udp_exchange *exchange =
        (struct udp_exchange *)((char *)client - offsetof(struct udp_exchange, client));
    for (;;) {
        exchange_collect(exchange);
        if (!exchange->asked) {
            if (exchange_ask(exchange) == SERVER_WAIT) {
                return; /* and runs again */
            }
            exchange->asked = true;
            exchange_collect(exchange); /* the write may have been refused at once */
        }
        if (client->inflight > 0) {
            return;
        }
        if (!exchange->again) {
            exchange_finish(exchange);
            return;
        }
        exchange->phase = UDP_AGAIN;
        exchange->asked = exchange->again = false;
    }
}

/* ---- Beginning ---- */

void udp_exchange_begin(struct udp_exchange *exchange) {
    server_client_init(&exchange->client, exchange->udp->owners, exchange_run);
    exchange->client.begun_ns = uv_hrtime();
    exchange->client.login.user = &access_system;
    exchange->client.encoding = PROTOCOL_RESP3;
    exchange->phase = UDP_ASK;
    exchange->asked = exchange->again = false;
    exchange_run(&exchange->client);
}
