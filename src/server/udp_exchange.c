/* One request of the UDP door, from its writes to its reply. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "protocol/render.h"
#include "server/parts.h"
#include "server/udp.h"

#define WORDS_MAX 8u

/* ---- The pool ---- */

static const char *policy_fault(const struct kernel_policy *policy) {
    if (policy->of[KERNEL_OPTION_KIND] != KERNEL_RANGE) {
        return "the pool contains names, not numbers";
    }
    if (policy->of[KERNEL_OPTION_SCOPED]) {
        return "the pool is a template";
    }
    if (!policy->of[KERNEL_OPTION_STICKY]) {
        return "the pool is not sticky: a node that sends two requests would get two ids";
    }
    return policy->of[KERNEL_OPTION_HI] >= PROTOCOL_UDP_NO_ID
               ? "the pool has values above 4294967294, the largest id"
               : NULL;
}

const char *udp_pool_fault(struct server *server, struct tn_bytes pool) {
    struct kernel_pool_view view;
    uint64_t lsn;
    enum tn_result code = engine_pool_read(server->engine, ENGINE_READ_AS_IS, pool, &view, &lsn);
    return code == TN_R_OK ? policy_fault(&view.policy) : NULL;
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
        exchange->udp->server->counters.datagrams[SERVER_UDP_SHORT]++;
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

/* The first thing that went wrong; OK: nothing. */
static enum tn_result exchange_code(const struct udp_exchange *exchange) {
    for (uint32_t i = 0; i < exchange->count; i++) {
        if (exchange->items[i].code != TN_R_OK) {
            return exchange->items[i].code;
        }
    }
    return TN_R_OK;
}

static void exchange_finish(struct udp_exchange *exchange) {
    struct server *server = exchange->udp->server;
    uint8_t out[PROTOCOL_UDP_REPLY_MAX];
    uint32_t ids[PROTOCOL_UDP_COUNT_MAX] = {0};
    enum tn_result code = exchange_code(exchange);
    if (code != TN_R_OK && tn_result_outcome(code) == TN_UNKNOWN) {
        /* The node hears nothing, asks again, and is told then. */
        server->counters.datagrams[SERVER_UDP_UNKNOWN]++;
        udp_exchange_end(exchange);
        return;
    }
    if (code != TN_R_OK) {
        udp_exchange_fail(exchange, reason_of(code), "");
        return;
    }
    for (uint32_t i = 0; i < exchange->count; i++) {
        ids[i] = exchange->items[i].id;
    }
    uint64_t seconds = engine_now(server->engine) / 1000;
    size_t len = exchange->many ? protocol_udp_many(out, exchange->sequence, ids, exchange->count)
                                : protocol_udp_one(out, exchange->sequence, ids[0], seconds);
    udp_send(exchange, out, len, SERVER_UDP_ANSWERED);
    udp_exchange_end(exchange);
}

/* ---- Writes ---- */

/* Whether a phase has something to do with it. */
static bool item_concerned(const struct udp_exchange *exchange, const struct udp_item *item) {
    return exchange->phase == UDP_ASK || (exchange->phase == UDP_AGAIN ? item->again : item->fresh);
}

static struct tn_bytes word(const char *text) {
    return tn_bytes_of(text, strlen(text));
}

static uint32_t item_holder(const struct udp_exchange *exchange, uint32_t i,
                            char holder[KERNEL_HOLDER_MAX + 1]) {
    int len = snprintf(holder, KERNEL_HOLDER_MAX + 1, "%.*s#%u", (int)exchange->key_len,
                       exchange->key, i);
    return (uint32_t)len;
}

static enum server_step item_ask(struct udp_exchange *exchange, uint32_t i) {
    char holder[KERNEL_HOLDER_MAX + 1];
    char operation[PROTOCOL_UDP_OPERATION + 8];
    char lease[PROTOCOL_LEASE_TEXT];
    char epoch[24];
    struct tn_bytes words[WORDS_MAX];
    struct server_request request;
    const struct udp_item *item = &exchange->items[i];
    uint32_t len = exchange->key_len;
    if (exchange->many) {
        len = item_holder(exchange, i, holder);
    } else {
        memcpy(holder, exchange->key, exchange->key_len);
    }
    if (exchange->phase == UDP_UNDO) {
        (void)protocol_lease_format(item->lease, lease);
        (void)snprintf(epoch, sizeof epoch, "%" PRIu64, item->epoch);
        words[0] = word("RELEASE");
        words[1] = word(lease);
        words[2] = tn_bytes_of(holder, len);
        words[3] = word(epoch);
        words[4] = word("NOW");
        server_request_begin(&request, &exchange->client, &access_system,
                             &protocol_table[PROTOCOL_RELEASE], words, 5);
        return server_write(&request);
    }
    (void)snprintf(operation, sizeof operation, "%s#%u", exchange->operation, i);
    words[0] = word("ALLOC");
    words[1] = exchange->udp->pool;
    words[2] = tn_bytes_of(holder, len);
    words[3] = word("META");
    words[4] = tn_bytes_of(exchange->meta, exchange->meta_len);
    words[5] = word("OPID");
    words[6] = word(operation);
    server_request_begin(&request, &exchange->client, &access_system,
                         &protocol_table[PROTOCOL_ALLOC], words,
                         exchange->phase == UDP_ASK ? 7 : 5);
    return server_write(&request);
}

/* ---- Answers ---- */

/* Whether what was given once, under this token, is still so. */
static bool item_live(struct udp_exchange *exchange, const struct udp_item *item) {
    struct engine *engine = exchange->udp->server->engine;
    struct engine_lease lease;
    return engine_verify(engine, ENGINE_READ_AS_IS, item->lease, item->epoch, &lease) == TN_R_OK;
}

static void item_answered(struct udp_exchange *exchange, struct udp_item *item,
                          const struct server_slot *slot) {
    const struct kernel_result *result = &slot->request.result;
    if (exchange->phase == UDP_UNDO) {
        item->fresh = slot->answer.code == TN_R_OVERLOADED; /* then once more, a little later */
        return;
    }
    item->code = slot->answer.code;
    item->again = false;
    item->fresh = false;
    bool asked = tn_result_outcome(item->code) == TN_COMMITTED && slot->plain;
    if (item->code == TN_R_OK) {
        item->lease = result->lease;
        item->epoch = result->epoch;
        item->fresh = !result->replayed && result->lease.lsn == result->lsn;
        item->id = (uint32_t)slot->value;
        if (!slot->plain || result->value_count != 1 || slot->value >= PROTOCOL_UDP_NO_ID) {
            item->code = TN_R_BAD_VALUE; /* the pool is not what it was at the start */
        }
    }
    if (asked && exchange->phase == UDP_ASK && result->replayed) {
        item->again = item->code != TN_R_OK || !item_live(exchange, item);
    }
}

static void exchange_collect(struct udp_exchange *exchange) {
    struct server_slot *slot;
    while ((slot = server_slot_collect(&exchange->client)) != NULL) {
        while (!item_concerned(exchange, &exchange->items[exchange->answered])) {
            exchange->answered++;
        }
        TN_ASSERT(exchange->answered < exchange->asked);
        item_answered(exchange, &exchange->items[exchange->answered++], slot);
        server_slot_free(slot);
    }
}

/* True: there is more to be asked. */
static bool phase_next(struct udp_exchange *exchange) {
    bool again = false;
    bool fresh = false;
    for (uint32_t i = 0; i < exchange->count; i++) {
        again = again || exchange->items[i].again;
        fresh = fresh || exchange->items[i].fresh;
    }
    if (exchange->phase == UDP_ASK && again) {
        exchange->phase = UDP_AGAIN;
    } else if (exchange->phase != UDP_UNDO && fresh && exchange_code(exchange) != TN_R_OK) {
        exchange->phase = UDP_UNDO;
    } else {
        return false;
    }
    exchange->asked = exchange->answered = 0;
    return true;
}

/* Some could not be given back: the engine had too much to do. True: it is tried again. */
static bool undo_again(struct udp_exchange *exchange) {
    bool left = false;
    for (uint32_t i = 0; i < exchange->count; i++) {
        left = left || exchange->items[i].fresh;
    }
    if (exchange->phase != UDP_UNDO || !left || exchange->undone++ == UDP_UNDO_TRIES) {
        return false;
    }
    exchange->asked = exchange->answered = 0;
    schedule_wait(&exchange->client);
    return true;
}

static void exchange_run(struct server_client *client) {
    struct udp_exchange *exchange =
        (struct udp_exchange *)((char *)client - offsetof(struct udp_exchange, client));
    for (;;) {
        exchange_collect(exchange);
        for (; exchange->asked < exchange->count; exchange->asked++) {
            if (item_concerned(exchange, &exchange->items[exchange->asked]) &&
                item_ask(exchange, exchange->asked) == SERVER_WAIT) {
                return; /* and runs again */
            }
        }
        exchange_collect(exchange); /* what was refused at once */
        if (client->inflight > 0 || undo_again(exchange)) {
            return;
        }
        if (!phase_next(exchange)) {
            exchange_finish(exchange);
            return;
        }
    }
}

/* ---- Beginning ---- */

/* How many of the ids that it asks for the node has already. */
static uint32_t items_held(const struct udp_exchange *exchange) {
    uint32_t held = 0;
    for (uint32_t i = 0; i < exchange->count; i++) {
        char holder[KERNEL_HOLDER_MAX + 1];
        struct kernel_lease_filter filter = {.pool = exchange->udp->pool};
        struct engine_lease lease;
        uint64_t cursor = 0;
        uint64_t lsn;
        uint32_t found = 0;
        filter.holder = tn_bytes_of(holder, item_holder(exchange, i, holder));
        (void)engine_leases_list(exchange->udp->server->engine, ENGINE_READ_AS_IS, &filter, &cursor,
                                 &lease, 1, &found, &lsn);
        held += found > 0;
    }
    return held;
}

/* Whether the pool surely cannot give all of them. Each id is a lease of its own, and a new lease counts
 * in the pool's rate even if it is given back at once: a node that repeats a request which cannot be
 * met must not drive the pool to force-zero. If values may come free by a sweep, it is tried. */
static bool pool_lacks_room(const struct udp_exchange *exchange) {
    struct kernel_pool_view view;
    uint64_t lsn;
    enum tn_result code = engine_pool_read(exchange->udp->server->engine, ENGINE_READ_AS_IS,
                                           exchange->udp->pool, &view, &lsn);
    return exchange->many && code == TN_R_OK && view.free < exchange->count && !view.force_zero &&
           view.overdue_since_ms == 0 && view.free + items_held(exchange) < exchange->count;
}

void udp_exchange_begin(struct udp_exchange *exchange) {
    struct server *server = exchange->udp->server;
    if (pool_lacks_room(exchange)) {
        udp_exchange_fail(exchange, reason_of(TN_R_EXHAUSTED), "");
        return;
    }
    server_client_init(&exchange->client, server, exchange_run);
    exchange->client.begun_ns = uv_hrtime();
    exchange->client.login.user = &access_system;
    exchange->client.encoding = PROTOCOL_RESP3;
    exchange->phase = UDP_ASK;
    exchange->asked = exchange->answered = exchange->undone = 0;
    memset(exchange->items, 0, exchange->count * sizeof exchange->items[0]);
    exchange_run(&exchange->client);
}
