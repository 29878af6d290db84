/* etcd, one member with its defaults, by the client of this project: a transaction for each step. A held
 * value is a key with its holder and a number for its deadline; the revision of the grant is the fencing token.
 *
 * A grant puts the key if it is absent. The client picks the value, from the part of the pool that is
 * free, which favors etcd. In a pool that is nearly full that part is not known: there each free value is a key
 * as well, and a grant is two steps, a read of the first free key from a random one on, and a
 * transaction that replaces it by the held key. A million keys take too long to load for this benchmark. */
#include "peer.h"

#include "../bench.h"
#include "etcd/etcd_client.h"
#include "etcd/wait.h"
#include "os/os.h"
#include "process.h"

#define CONNECTIONS 4u /* of 16 calls */
#define DEADLINE_MS 20000u
#define KEY_BYTES 48u

static struct process_etcd server;
static const struct os *os;

/* ---- Keys ---- */

struct text {
    char at[KEY_BYTES];
};

static struct tn_bytes bytes_of(const struct text *text) {
    return tn_bytes_of(text->at, strlen(text->at));
}

static struct text held_key(unsigned pool, uint64_t value) {
    struct text key;
    snprintf(key.at, sizeof key.at, "/held/%u/%08llu", pool, (unsigned long long)value);
    return key;
}

static struct text free_key(unsigned pool, uint64_t value) {
    struct text key;
    snprintf(key.at, sizeof key.at, "/free/%u/%08llu", pool, (unsigned long long)value);
    return key;
}

static uint64_t value_of(struct tn_bytes key) {
    char digits[9] = "";
    memcpy(digits, key.at + key.len - 8, 8);
    return strtoull(digits, NULL, 10);
}

/* A holder that returns has two keys: one for its value, one for whether it is present. */
static struct text sticky_key(uint32_t index, const char *which) {
    struct text key;
    snprintf(key.at, sizeof key.at, "/sticky/client/%u/%s", index, which);
    return key;
}

/* The content of a held key. The number stands for the deadline; it distinguishes two grants of one
 * holder. */
static struct text lease_of(const struct peer_lane *lane, uint64_t number) {
    struct text text;
    snprintf(text.at, sizeof text.at, "%s:%llu", lane->holder, (unsigned long long)number);
    return text;
}

static struct etcd_compare absent(const struct text *key) {
    return (struct etcd_compare){.kind = ETCD_ABSENT, .key = bytes_of(key)};
}

static struct etcd_compare equal(const struct text *key, const struct text *value) {
    return (struct etcd_compare){
        .kind = ETCD_VALUE_IS, .key = bytes_of(key), .value = bytes_of(value)};
}

static struct etcd_op put(const struct text *key, const struct text *value) {
    return (struct etcd_op){
        .kind = ETCD_PUT, .keys = {.key = bytes_of(key)}, .value = bytes_of(value)};
}

static struct etcd_op erase(const struct text *key) {
    return (struct etcd_op){.kind = ETCD_DELETE, .keys = {.key = bytes_of(key)}};
}

/* ---- Clients ---- */

struct clients {
    struct etcd *of[CONNECTIONS];
    bool found[64]; /* a lane of a nearly full pool has its free key */
};

static void on_answer(void *ctx, const struct etcd_answer *answer) {
    struct peer_lane *lane = ctx;
    struct clients *clients = lane->session->ctx;
    bool refused = answer->outcome == ETCD_COMPARE_FAILED;
    if (answer->outcome != ETCD_DONE && (!refused || lane->step == 1)) {
        peer_die("etcd", refused ? "a release or renewal found another token"
                                 : etcd_reason_text(answer->reason));
    }
    if (answer->verb == ETCD_RANGE) {
        clients->found[lane->index] = answer->found.count > 0;
        lane->whole = answer->found.count == 0;
        if (answer->found.count > 0) {
            lane->value = value_of(answer->found.kvs[0].key);
        }
        peer_answered(lane, PEER_AGAIN);
        return;
    }
    clients->found[lane->index] = false;
    if (lane->step == 0 && !refused) {
        lane->token = (uint64_t)answer->header.revision;
    }
    peer_answered(lane, !refused                                   ? PEER_DONE
                        : lane->session->work.work == WORK_CONTEND ? PEER_REFUSED
                                                                   : PEER_AGAIN);
}

static void send(struct peer_lane *lane, const struct etcd_request *request) {
    const struct clients *clients = lane->session->ctx;
    if (etcd_submit(clients->of[lane->index % CONNECTIONS], request,
                    os->clock_boot_ms(os->ctx) + DEADLINE_MS, on_answer, lane) != TN_OK) {
        peer_die("etcd", "a request was not taken");
    }
}

static void send_txn(struct peer_lane *lane, const struct etcd_compare *compares, uint32_t count,
                     const struct etcd_op *ops, uint32_t op_count) {
    struct etcd_request request = {
        .verb = ETCD_TXN,
        .txn = {.compares = compares, .compare_count = count, .then = ops, .then_count = op_count}};
    send(lane, &request);
}

/* Eight keys of three pools, absent, or with the lease of this holder. */
static void send_bundle(struct peer_lane *lane) {
    lane->value = lane->step == 0 ? peer_due_ms() : lane->value;
    struct text keys[WORK_BUNDLE_VALUES], lease = lease_of(lane, lane->value);
    struct etcd_compare compares[WORK_BUNDLE_VALUES];
    struct etcd_op ops[WORK_BUNDLE_VALUES];
    uint32_t from = lane->step == 0 ? peer_candidate(lane, PEER_PART) : lane->values[0], n = 0;
    lane->values[0] = from;
    for (unsigned pool = 0; pool < WORK_BUNDLE_POOLS; pool++) {
        for (unsigned i = 0; i < work_bundle_counts[pool]; i++, n++) {
            keys[n] = held_key(PEER_PART + pool, from + i);
            compares[n] = lane->step == 0 ? absent(&keys[n]) : equal(&keys[n], &lease);
            ops[n] = lane->step == 0 ? put(&keys[n], &lease) : erase(&keys[n]);
        }
    }
    send_txn(lane, compares, n, ops, n);
}

static const struct text there = {"there"}, away = {"away"};

static void send_sticky(struct peer_lane *lane) {
    struct text key = sticky_key(lane->index, "state"), value = sticky_key(lane->index, "value");
    struct etcd_compare compare = equal(&key, lane->step == 0 ? &away : &there);
    struct etcd_op ops[2] = {put(&key, lane->step == 0 ? &there : &away),
                             {.kind = ETCD_GET, .keys = {.key = bytes_of(&value)}}};
    send_txn(lane, &compare, 1, ops, lane->step == 0 ? 2 : 1);
}

/* A pool that is nearly full: looks for a free key, then takes it; a release puts it back. */
static void send_full(struct peer_lane *lane) {
    const struct clients *clients = lane->session->ctx;
    enum peer_pool pool = lane->session->work.pool;
    static const struct text one = {"1"};
    if (lane->step == 0 && !clients->found[lane->index]) {
        struct text first = free_key(pool, lane->whole ? 0 : peer_candidate(lane, pool));
        struct text end = free_key(pool, 99999999);
        struct etcd_request request = {.verb = ETCD_RANGE,
                                       .range = {.keys = {bytes_of(&first), bytes_of(&end)},
                                                 .limit = 1,
                                                 .keys_only = true,
                                                 .serializable = true}};
        send(lane, &request);
        return;
    }
    struct text vacant = free_key(pool, lane->value), held = held_key(pool, lane->value);
    lane->values[0] += lane->step == 0;
    struct text lease = lease_of(lane, lane->values[0]);
    struct etcd_compare compare = lane->step == 0 ? equal(&vacant, &one) : equal(&held, &lease);
    struct etcd_op ops[2] = {lane->step == 0 ? erase(&vacant) : erase(&held),
                             lane->step == 0 ? put(&held, &lease) : put(&vacant, &one)};
    send_txn(lane, &compare, 1, ops, 2);
}

/* Absent: put it. Held with this lease: delete it, or put it again with a later deadline. */
static void send_value(struct peer_lane *lane) {
    const struct peer_case *work = &lane->session->work;
    const struct work_pool *pool = &peer_pools[work->pool];
    if (lane->step == 0) {
        uint32_t vacant = peer_candidate(lane, work->pool) % work_pool_free_count(pool);
        lane->value = (uint64_t)vacant * pool->stride;
    }
    uint64_t before = lane->values[0]++; /* counts grants and renewals */
    struct text key = held_key(work->pool, lane->value);
    struct text lease = lease_of(lane, before), next = lease_of(lane, lane->values[0]);
    struct etcd_compare compare = lane->step == 0 ? absent(&key) : equal(&key, &lease);
    struct etcd_op op =
        lane->step == 1 && work->work != WORK_RENEW ? erase(&key) : put(&key, &next);
    send_txn(lane, &compare, 1, &op, 1);
}

static void submit(void *ctx, struct peer_lane *lane) {
    const struct peer_case *work = &lane->session->work;
    (void)ctx;
    if (work->work == WORK_BUNDLE) {
        send_bundle(lane);
    } else if (work->work == WORK_STICKY) {
        send_sticky(lane);
    } else if (work->pool == PEER_FULL) {
        send_full(lane);
    } else {
        send_value(lane);
    }
}

static void poll_answers(void *ctx) {
    struct clients *clients = ctx;
    etcd_wait(clients->of, CONNECTIONS, os, -1, os->clock_boot_ms(os->ctx) + 10);
}

static void clients_connect(struct clients *clients) {
    char error[ETCD_MESSAGE_MAX];
    const char *endpoints[1] = {server.endpoint[0]};
    struct etcd_options options = {.endpoints = endpoints, .endpoint_count = 1};
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        if (etcd_open(&options, &clients->of[i], error) != TN_OK) {
            peer_die("etcd", error);
        }
    }
}

static void close_clients(void *ctx) {
    struct clients *clients = ctx;
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        etcd_close(clients->of[i]);
    }
    free(clients);
}

static struct side open_clients(const struct peer_case *c, uint64_t *grants) {
    static const struct peer_verbs verbs = {submit, poll_answers, close_clients};
    struct clients *clients = peer_memory(1, sizeof *clients);
    clients_connect(clients);
    return peer_side(peer_session_make(&verbs, clients, c, grants));
}

/* ---- The server ---- */

/* Transactions of 32 puts, as many at a time as one connection takes. */
struct filling {
    enum peer_pool pool;
    uint32_t next, end; /* keys */
    uint32_t under_way;
};

static void on_filled(void *ctx, const struct etcd_answer *answer) {
    struct filling *filling = ctx;
    if (answer->outcome != ETCD_DONE) {
        peer_die("etcd", etcd_reason_text(answer->reason));
    }
    filling->under_way--;
}

/* The keys of held values, in PEER_FULL those of free ones too; in PEER_EMPTY two for each client that
 * returns. */
static bool filling_wants(const struct filling *filling) {
    return filling->pool == PEER_FULL || filling->pool == PEER_EMPTY ||
           !work_pool_free(&peer_pools[filling->pool], filling->next);
}

static struct etcd_op filling_op(const struct filling *filling, struct text *key) {
    static const struct text other = {"other/1:0"}, one = {"1"};
    uint32_t next = filling->next;
    if (filling->pool == PEER_EMPTY) {
        *key = sticky_key(next / 2, next % 2 == 0 ? "state" : "value");
        return put(key, next % 2 == 0 ? &away : &one);
    }
    bool held = !work_pool_free(&peer_pools[filling->pool], next);
    *key = held ? held_key(filling->pool, next) : free_key(filling->pool, next);
    return put(key, held ? &other : &one);
}

static void fill_some(struct filling *filling, struct etcd *etcd) {
    struct text keys[ETCD_OPS_MAX];
    struct etcd_op ops[ETCD_OPS_MAX];
    uint32_t count = 0;
    for (; count < ETCD_OPS_MAX && filling->next < filling->end; filling->next++) {
        if (filling_wants(filling)) {
            ops[count] = filling_op(filling, &keys[count]);
            count++;
        }
    }
    struct etcd_request request = {.verb = ETCD_TXN, .txn = {.then = ops, .then_count = count}};
    filling->under_way++;
    if (etcd_submit(etcd, &request, os->clock_boot_ms(os->ctx) + DEADLINE_MS, on_filled, filling) !=
        TN_OK) {
        peer_die("etcd", "a request was not taken");
    }
}

static void fill(enum peer_pool pool) {
    const struct work_pool *p = &peer_pools[pool];
    struct clients clients = {.of = {NULL}};
    struct filling filling = {.pool = pool,
                              .end = pool == PEER_EMPTY ? 2 * 64
                                     : p->stride > 1    ? p->values
                                                        : 0};
    clients_connect(&clients);
    for (unsigned i = 0; filling.next < filling.end || filling.under_way > 0;) {
        while (filling.under_way < ETCD_CALLS_MAX && filling.next < filling.end) {
            fill_some(&filling, clients.of[i++ % CONNECTIONS]);
        }
        poll_answers(&clients);
    }
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        etcd_close(clients.of[i]);
    }
}

static bool start(void) {
    os = os_posix();
    return process_etcd(1, &server);
}

static void stop(void) {
    process_etcd_stop(&server);
}

static const struct peer_case cases[] = {
    {"cycles, 64 x 1", WORK_CYCLE, PEER_EMPTY, 64, 1, false},
    {"cycles at 99 %, 64 x 1", WORK_CYCLE, PEER_FULL, 64, 1, false},
    {"contention, 32 x 1", WORK_CONTEND, PEER_ONE, 32, 1, false},
    {"renewals, 64 x 1", WORK_RENEW, PEER_EMPTY, 64, 1, false},
    {"bundles, 64 x 1", WORK_BUNDLE, PEER_PART, 64, 1, false},
    {"sticky returns, 64 x 1", WORK_STICKY, PEER_EMPTY, 64, 1, false},
    {"cycles among 10 thousand leases, 64 x 1", WORK_CYCLE, PEER_SMALL, 64, 1, false},
    {.name = NULL},
};

const struct peer peer_etcd = {.name = "etcd",
                               .package = "etcd-server",
                               .start = start,
                               .stop = stop,
                               .fill = fill,
                               .open = open_clients,
                               .cases = cases};
