#include "lib/fakeetcd.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "lib/fakeetcd_state.h"

#define ARENA_MAX ((size_t)64 << 20)
#define ELECTION_MS 1000u
/* How long a member holds a call that needs the others before it gives up. */
#define HELD_MS 5000u
#define MEMBER_ID(n) (0x1000u + (n))

bool fake_happens(struct fakeetcd *fake, unsigned chance) {
    return chance > 0 && tn_prng_below(&fake->prng, 1000) < chance;
}

uint64_t fake_delay(struct fakeetcd *fake) {
    uint32_t max = fake->faults.delay_ms_max;
    return max > 0 ? tn_prng_below(&fake->prng, (uint64_t)max + 1) : 0;
}

static void note(struct fakeetcd *fake, uint64_t what) {
    fake->hash = tn_mix64(fake->hash ^ what) + fake->now_ms;
}

/* ---- Messages ---- */

struct fake_message *fake_message_new(void) {
    struct fake_message *message = calloc(1, sizeof *message);
    TN_ASSERT(message != NULL);
    etcd_arena_init(&message->arena, ARENA_MAX);
    return message;
}

void fake_message_free(struct fake_message *message) {
    etcd_arena_free(&message->arena);
    free(message);
}

/* In order of arrival; equal times in order of sending. */
void fake_message_send(struct fakeetcd *fake, struct fake_message *message, uint64_t delay_ms) {
    struct fake_message **at = &fake->messages;
    message->at_ms = fake->now_ms + delay_ms;
    message->order = ++fake->orders;
    while (*at != NULL && (*at)->at_ms <= message->at_ms) {
        at = &(*at)->next;
    }
    message->next = *at;
    *at = message;
}

struct tn_bytes fake_bytes_copy(struct etcd_arena *arena, struct tn_bytes bytes) {
    uint8_t *at = etcd_arena_take(arena, bytes.len);
    TN_ASSERT(at != NULL);
    if (bytes.len > 0) {
        memcpy(at, bytes.at, bytes.len);
    }
    return tn_bytes_of(at, bytes.len);
}

static const struct etcd_op *ops_copy(struct etcd_arena *arena, const struct etcd_op *from,
                                      uint32_t count) {
    struct etcd_op *ops = etcd_arena_array(arena, count, sizeof *ops);
    TN_ASSERT(ops != NULL);
    for (uint32_t i = 0; i < count; i++) {
        ops[i] = from[i];
        ops[i].keys.key = fake_bytes_copy(arena, from[i].keys.key);
        ops[i].keys.end = fake_bytes_copy(arena, from[i].keys.end);
        ops[i].value = fake_bytes_copy(arena, from[i].value);
    }
    return ops;
}

void fake_request_copy(struct fake_message *to, const struct etcd_request *from) {
    struct etcd_arena *arena = &to->arena;
    to->request = *from;
    if (from->verb == ETCD_RANGE) {
        to->request.range.keys.key = fake_bytes_copy(arena, from->range.keys.key);
        to->request.range.keys.end = fake_bytes_copy(arena, from->range.keys.end);
    } else if (from->verb == ETCD_TXN) {
        const struct etcd_txn *txn = &from->txn;
        struct etcd_compare *compares =
            etcd_arena_array(arena, txn->compare_count, sizeof *compares);
        TN_ASSERT(compares != NULL);
        for (uint32_t i = 0; i < txn->compare_count; i++) {
            compares[i] = txn->compares[i];
            compares[i].key = fake_bytes_copy(arena, txn->compares[i].key);
            compares[i].value = fake_bytes_copy(arena, txn->compares[i].value);
        }
        to->request.txn.compares = compares;
        to->request.txn.then = ops_copy(arena, txn->then, txn->then_count);
        to->request.txn.otherwise = ops_copy(arena, txn->otherwise, txn->otherwise_count);
    }
}

/* ---- Members ---- */

bool fake_member_answers(const struct fakeetcd *fake, unsigned member) {
    return fake->members[member].running && !fake->members[member].paused;
}

static bool has_quorum(const struct fakeetcd *fake) {
    unsigned count = 0;
    for (unsigned i = 0; i < fake->member_count; i++) {
        count += fake_member_answers(fake, i);
    }
    return count > fake->member_count / 2 && fake->now_ms >= fake->leaderless_until_ms;
}

static void leader_lost(struct fakeetcd *fake, unsigned member) {
    if (member == fake->leader) {
        fake->leaderless_until_ms =
            fake->now_ms + ELECTION_MS + tn_prng_below(&fake->prng, ELECTION_MS / 2);
        for (unsigned i = 0; i < fake->member_count; i++) {
            unsigned next = (member + 1 + i) % fake->member_count;
            if (fake_member_answers(fake, next)) {
                fake->leader = next;
                return;
            }
        }
    }
}

static void connections_break(struct fakeetcd *fake, unsigned member) {
    for (struct fake_client *client = fake->clients; client != NULL; client = client->next) {
        if (client->connection != 0 && client->member == member) {
            client->broken = true;
        }
    }
}

void fakeetcd_stop(struct fakeetcd *fake, unsigned member) {
    fake->members[member].running = fake->members[member].paused = false;
    connections_break(fake, member);
    leader_lost(fake, member);
}

void fakeetcd_start(struct fakeetcd *fake, unsigned member) {
    fake->members[member].running = true;
    if (!fake_member_answers(fake, fake->leader)) {
        leader_lost(fake, fake->leader);
    }
}

void fakeetcd_pause(struct fakeetcd *fake, unsigned member) {
    fake->members[member].paused = true;
    fake->members[member].paused_ms = fake->now_ms;
    leader_lost(fake, member);
}

void fakeetcd_resume(struct fakeetcd *fake, unsigned member) {
    fake->members[member].paused = false;
}

void fakeetcd_cut(struct etcd *client, unsigned member, bool cut) {
    struct fake_client *fake = (struct fake_client *)client;
    fake->cut[member] = cut;
    fake->broken |= cut && fake->connection != 0 && fake->member == member;
}

unsigned fakeetcd_leader(const struct fakeetcd *fake) {
    return fake->leader;
}

/* Members other than the leader apply new changes a little later. */
static void members_apply(struct fakeetcd *fake) {
    for (unsigned i = 0; i < fake->member_count; i++) {
        struct fake_member *member = &fake->members[i];
        if (member->applied >= fake->store.revision || !fake_member_answers(fake, i)) {
            member->apply_ms = 0;
            continue;
        }
        if (member->apply_ms == 0) {
            uint32_t max = fake->faults.lag_ms_max;
            uint64_t lag_ms =
                max > 0 && i != fake->leader ? tn_prng_below(&fake->prng, (uint64_t)max + 1) : 0;
            member->apply_ms = fake->now_ms + lag_ms;
        }
        if (fake->now_ms >= member->apply_ms) {
            member->applied = fake->store.revision;
            member->apply_ms = 0;
        }
    }
}

/* ---- Calls ---- */

/* The answer as this member gives it: with its revisions. */
static void answer_shift(struct etcd_answer *answer, int64_t by) {
    answer->header.revision += by;
    for (uint32_t i = 0; i < answer->found.count; i++) {
        struct etcd_kv *kv = (struct etcd_kv *)(uintptr_t)&answer->found.kvs[i];
        kv->mod_revision += by;
        kv->create_revision += by;
    }
    for (uint32_t i = 0; i < answer->op_count; i++) {
        const struct etcd_found *found = &answer->ops[i].found;
        for (uint32_t k = 0; k < found->count; k++) {
            struct etcd_kv *kv = (struct etcd_kv *)(uintptr_t)&found->kvs[k];
            kv->mod_revision += by;
            kv->create_revision += by;
        }
    }
}

static void answer_fail(struct etcd_answer *answer, enum etcd_outcome outcome,
                        enum etcd_reason reason, int grpc_status, const char *message) {
    answer->outcome = outcome;
    answer->reason = reason;
    answer->grpc_status = grpc_status;
    answer->message = message;
    answer->op_count = 0;
    answer->found = (struct etcd_found){0};
}

static bool writes(const struct etcd_request *request) {
    if (request->verb != ETCD_TXN) {
        return false;
    }
    const struct etcd_txn *txn = &request->txn;
    for (uint32_t i = 0; i < txn->then_count + txn->otherwise_count; i++) {
        const struct etcd_op *op =
            i < txn->then_count ? &txn->then[i] : &txn->otherwise[i - txn->then_count];
        if (op->kind == ETCD_PUT) {
            return true;
        }
    }
    return false;
}

static void status_fill(const struct fakeetcd *fake, struct etcd_answer *answer) {
    answer->outcome = ETCD_DONE;
    answer->status = (struct etcd_status){
        .version = tn_bytes_of(fake->version, strlen(fake->version)),
        .db_bytes = (int64_t)(20480 + fake->store.history_count * 512),
        .db_bytes_used = (int64_t)(20480 + fake->store.live_count * 512),
        .leader = fake->now_ms >= fake->leaderless_until_ms ? MEMBER_ID(fake->leader) : 0,
    };
    answer->header.revision = fake->store.revision;
}

static bool is_denied(const struct fakeetcd *fake, const struct etcd_request *request) {
    if (fake->denied == NULL || request->verb != ETCD_TXN || request->txn.then_count == 0) {
        return false;
    }
    struct tn_bytes key = request->txn.then[0].keys.key;
    return memmem(key.at, key.len, fake->denied, strlen(fake->denied)) != NULL;
}

/* Carries it out at a member, which adds its own view. */
static void execute(struct fakeetcd *fake, const struct fake_message *message,
                    struct fake_message *answer) {
    struct etcd_request request = message->request;
    struct fake_member *member = &fake->members[message->member];
    bool full = fake->full && writes(&request);
    answer->answer = (struct etcd_answer){.verb = request.verb, .message = ""};
    if (request.verb == ETCD_RANGE && request.range.revision > 0) {
        request.range.revision -= member->offset;
    } else if (request.verb == ETCD_RANGE && request.range.serializable) {
        request.range.revision = member->applied; /* the newest revision that the member knows */
    } else if (request.verb == ETCD_COMPACT) {
        request.revision -= member->offset;
    }
    if (request.verb == ETCD_STATUS) {
        status_fill(fake, &answer->answer);
    } else if (is_denied(fake, &request)) {
        answer_fail(&answer->answer, ETCD_SURELY_NOT, ETCD_DENIED, 7,
                    "etcdserver: permission denied");
    } else if (full && fake->leaks == 0) {
        answer->answer.header.revision = fake->store.revision;
    } else {
        fakestore_call(&fake->store, &request, &answer->arena, &answer->answer);
        if (request.verb != ETCD_RANGE || !request.range.serializable) {
            member->applied = fake->store.revision; /* it answers from what it has applied */
        } else {
            answer->answer.header.revision = member->applied;
        }
    }
    if (full && !is_denied(fake, &request)) {
        fake->leaks -= fake->leaks > 0;
        answer_fail(&answer->answer, ETCD_DOUBT, ETCD_NOSPACE, 8,
                    "etcdserver: mvcc: database space exceeded");
    }
    answer->answer.header.cluster_id = 1;
    answer->answer.header.member_id = MEMBER_ID(message->member);
    answer->answer.header.raft_term = 2;
    answer->answer.connection = message->connection;
    answer_shift(&answer->answer, member->offset);
    note(fake, answer->answer.outcome * 7u + (uint64_t)fake->store.revision);
}

static void answer_send(struct fakeetcd *fake, const struct fake_message *message,
                        struct fake_message *answer) {
    if (message->call == 0 || message->client == NULL ||
        fake_happens(fake, fake->faults.lost_reply)) {
        fake_message_free(answer);
        return;
    }
    answer->client = message->client;
    answer->call = message->call;
    answer->connection = message->connection;
    answer->is_answer = true;
    uint64_t late_ms = fake_happens(fake, fake->faults.late_reply)
                           ? tn_prng_below(&fake->prng, (uint64_t)fake->faults.late_ms_max + 1)
                           : 0;
    fake_message_send(fake, answer, fake_delay(fake) + late_ms);
}

static void client_break(const struct fake_message *message) {
    if (message->client != NULL && message->client->connection == message->connection) {
        message->client->broken = true;
    }
}

/* True if the member cannot look at it yet; then it is on its way again. */
static bool is_held(struct fakeetcd *fake, struct fake_message *message) {
    const struct etcd_request *request = &message->request;
    bool alone = request->verb == ETCD_STATUS ||
                 (request->verb == ETCD_RANGE && request->range.serializable);
    if (fake->members[message->member].paused ||
        (!alone && !has_quorum(fake) && fake->now_ms < message->sent_ms + HELD_MS)) {
        fake_message_send(fake, message, 10);
        return true;
    }
    return false;
}

/* What was carried out is carried out once more, later. What was refused never is. */
static void call_double(struct fakeetcd *fake, const struct fake_message *message,
                        const struct etcd_answer *answer) {
    bool carried_out = answer->outcome == ETCD_DONE || answer->outcome == ETCD_COMPARE_FAILED;
    if (message->call == 0 || !carried_out || !fake_happens(fake, fake->faults.doubled)) {
        return;
    }
    struct fake_message *again = fake_message_new();
    fake_request_copy(again, &message->request);
    again->member = message->member;
    again->sent_ms = fake->now_ms;
    fake_message_send(fake, again,
                      tn_prng_below(&fake->prng, (uint64_t)fake->faults.late_ms_max + 1));
}

static void call_arrives(struct fakeetcd *fake, struct fake_message *message) {
    const struct etcd_request *request = &message->request;
    bool alone = request->verb == ETCD_STATUS ||
                 (request->verb == ETCD_RANGE && request->range.serializable);
    if (!fake->members[message->member].running) {
        client_break(message);
        fake_message_free(message);
        return;
    }
    if (is_held(fake, message)) {
        return;
    }
    struct fake_message *answer = fake_message_new();
    bool breaks = message->call != 0 && fake_happens(fake, fake->faults.broken);
    bool unavailable = message->call != 0 && fake_happens(fake, fake->faults.unavailable);
    bool before = (breaks || unavailable) && fake_happens(fake, 500);
    if (message->call != 0 && fake_happens(fake, fake->faults.busy)) {
        answer_fail(&answer->answer, ETCD_SURELY_NOT, ETCD_BUSY, 8,
                    "etcdserver: too many requests");
    } else if (before || (!alone && !has_quorum(fake))) {
        answer_fail(&answer->answer, ETCD_DOUBT, ETCD_SERVER, 14, "etcdserver: request timed out");
    } else {
        execute(fake, message, answer);
        call_double(fake, message, &answer->answer);
    }
    if (unavailable) {
        answer_fail(&answer->answer, ETCD_DOUBT, ETCD_SERVER, 14, "etcdserver: request timed out");
    }
    answer->answer.verb = request->verb;
    answer->answer.message = answer->answer.message != NULL ? answer->answer.message : "";
    answer->answer.connection = message->connection;
    if (breaks) {
        client_break(message);
        fake_message_free(answer);
    } else {
        answer_send(fake, message, answer);
    }
    fake_message_free(message);
}

void fake_call_send(struct fakeetcd *fake, struct fake_message *message) {
    message->sent_ms = fake->now_ms;
    if (fake_happens(fake, fake->faults.lost_call)) {
        fake_message_free(message);
        return;
    }
    uint64_t late_ms = fake_happens(fake, fake->faults.late_call)
                           ? tn_prng_below(&fake->prng, (uint64_t)fake->faults.late_ms_max + 1)
                           : 0;
    fake_message_send(fake, message, fake_delay(fake) + late_ms);
}

static void answer_arrives(struct fake_message *message) {
    struct fake_client *client = message->client;
    for (unsigned i = 0; client != NULL && i < ETCD_CALLS_MAX; i++) {
        struct fake_call *call = &client->calls[i];
        if (call->state == FAKE_SENT && call->id == message->call && call->answer == NULL &&
            client->connection == message->connection) {
            call->answer = message;
            return;
        }
    }
    fake_message_free(message);
}

/* ---- Time ---- */

void fakeetcd_advance(struct fakeetcd *fake, uint64_t world_ms) {
    TN_ASSERT(world_ms >= fake->now_ms);
    while (fake->messages != NULL && fake->messages->at_ms <= world_ms) {
        struct fake_message *message = fake->messages;
        fake->messages = message->next;
        fake->now_ms = message->at_ms > fake->now_ms ? message->at_ms : fake->now_ms;
        if (message->is_answer) {
            answer_arrives(message);
        } else {
            call_arrives(fake, message);
        }
        members_apply(fake);
    }
    fake->now_ms = world_ms;
    members_apply(fake);
}

static uint64_t min(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

uint64_t fakeetcd_next_ms(const struct fakeetcd *fake) {
    uint64_t next_ms = fake->messages != NULL ? fake->messages->at_ms : ETCD_NEVER;
    for (unsigned i = 0; i < fake->member_count; i++) {
        if (fake->members[i].apply_ms != 0) {
            next_ms = min(next_ms, fake->members[i].apply_ms);
        }
    }
    for (const struct fake_client *client = fake->clients; client != NULL; client = client->next) {
        next_ms = min(next_ms,
                      client->connection == 0 ? client->connect_ms : fake_client_silent_ms(client));
        for (unsigned i = 0; i < ETCD_WATCHES_MAX; i++) {
            if (client->watches[i].state == FAKE_SENT) {
                next_ms = min(next_ms, client->watches[i].ready_ms);
            }
        }
    }
    return next_ms < fake->now_ms ? fake->now_ms : next_ms;
}

/* ---- The cluster ---- */

const struct fakeetcd_faults fakeetcd_every_fault = {
    .lost_call = 5,
    .lost_reply = 5,
    .late_call = 10,
    .late_reply = 10,
    .doubled = 10,
    .broken = 5,
    .busy = 5,
    .unavailable = 5,
    .stuck_watch = 50,
    .split = 100,
    .delay_ms_max = 4,
    .late_ms_max = 3000,
    .lag_ms_max = 20,
};

struct fakeetcd *fakeetcd_new(uint64_t seed, unsigned members) {
    struct fakeetcd *fake = calloc(1, sizeof *fake);
    TN_ASSERT(fake != NULL && members >= 1 && members <= FAKEETCD_MEMBERS);
    tn_prng_seed(&fake->prng, seed);
    fakestore_init(&fake->store);
    fake->member_count = members;
    fake->version = "3.4.0-fake";
    for (unsigned i = 0; i < members; i++) {
        fake->members[i] = (struct fake_member){.running = true, .applied = 1};
    }
    return fake;
}

void fakeetcd_free(struct fakeetcd *fake) {
    TN_ASSERT(fake->clients == NULL);
    while (fake->messages != NULL) {
        struct fake_message *message = fake->messages;
        fake->messages = message->next;
        fake_message_free(message);
    }
    fakestore_free(&fake->store);
    free(fake);
}

void fakeetcd_set_faults(struct fakeetcd *fake, const struct fakeetcd_faults *faults) {
    fake->faults = *faults;
}

void fakeetcd_set_full(struct fakeetcd *fake, bool full, unsigned leaks) {
    fake->full = full;
    fake->leaks = leaks;
}

void fakeetcd_set_version(struct fakeetcd *fake, const char *version) {
    fake->version = version;
}

void fakeetcd_deny(struct fakeetcd *fake, const char *part) {
    fake->denied = part;
}

void fakeetcd_put(struct fakeetcd *fake, const struct etcd_op *put) {
    struct etcd_request request = {.verb = ETCD_TXN, .txn = {.then = put, .then_count = 1}};
    struct etcd_answer answer = {0};
    struct etcd_arena arena;
    etcd_arena_init(&arena, ARENA_MAX);
    fakestore_call(&fake->store, &request, &arena, &answer);
    etcd_arena_free(&arena);
}

void fakeetcd_compact(struct fakeetcd *fake, int64_t revision) {
    struct etcd_request request = {.verb = ETCD_COMPACT, .revision = revision};
    struct etcd_answer answer = {0};
    fakestore_call(&fake->store, &request, NULL, &answer);
}

void fakeetcd_diverge(struct fakeetcd *fake, unsigned member, int64_t by) {
    fake->members[member].offset = by;
}

struct fakeetcd_copy {
    struct fakestore store;
};

struct fakeetcd_copy *fakeetcd_save(const struct fakeetcd *fake) {
    struct fakeetcd_copy *copy = malloc(sizeof *copy);
    TN_ASSERT(copy != NULL);
    fakestore_copy(&copy->store, &fake->store);
    return copy;
}

void fakeetcd_put_back(struct fakeetcd *fake, const struct fakeetcd_copy *copy) {
    fakestore_free(&fake->store);
    fakestore_copy(&fake->store, &copy->store);
    for (unsigned i = 0; i < fake->member_count; i++) {
        fake->members[i].applied = fake->store.revision;
        connections_break(fake, i);
    }
    /* Calls in flight went to the etcd that no longer exists. */
    struct fake_message **at = &fake->messages;
    while (*at != NULL) {
        struct fake_message *message = *at;
        if (message->is_answer) {
            at = &message->next;
        } else {
            *at = message->next;
            fake_message_free(message);
        }
    }
}

void fakeetcd_copy_free(struct fakeetcd_copy *copy) {
    fakestore_free(&copy->store);
    free(copy);
}

int64_t fakeetcd_revision(const struct fakeetcd *fake) {
    return fake->store.revision;
}

bool fakeetcd_value(const struct fakeetcd *fake, struct tn_bytes key, struct tn_bytes *ret_value) {
    const struct fakestore_entry *entry = fakestore_get(&fake->store, key);
    if (entry == NULL) {
        return false;
    }
    *ret_value = fakestore_value(entry);
    return true;
}

uint64_t fakeetcd_hash(const struct fakeetcd *fake) {
    return tn_mix64(fakestore_hash(&fake->store) ^ fake->hash);
}
