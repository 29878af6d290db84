/* Clients of a peer: the loop that all peers share. */
#include "peer.h"

#include "../bench.h"

struct work_pool peer_pools[PEER_POOLS] = {
    [PEER_EMPTY] = {"empty", 65536, 1},
    [PEER_FULL] = {"full", 65536, 100},
    [PEER_ONE] = {"one", 1, 1},
    [PEER_SMALL] = {"small", 11000, 11},
    [PEER_LARGE] = {"large", 1100000, 11},
    [PEER_PART] = {"part-0", 65536, 1},
    [PEER_PART + 1] = {"part-1", 65536, 1},
    [PEER_PART + 2] = {"part-2", 65536, 1},
};

_Noreturn void peer_die(const char *who, const char *why) {
    fprintf(stderr, "bench: %s: %s\n", who, why);
    exit(1);
}

void *peer_memory(size_t count, size_t size) {
    void *made = calloc(count, size);
    if (made == NULL) {
        peer_die("clients", "no memory");
    }
    return made;
}

uint64_t peer_due_ms(void) {
    static uint64_t due_ms = 1893456000000u;
    return due_ms++;
}

uint32_t peer_candidate(struct peer_lane *lane, enum peer_pool pool) {
    uint64_t *random = &lane->session->random; /* xorshift */
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return (uint32_t)(*random % peer_pools[pool].values);
}

struct peer_session *peer_session_make(const struct peer_verbs *verbs, void *ctx,
                                       const struct peer_case *c, uint64_t *grants) {
    struct peer_session *session = peer_memory(1, sizeof *session);
    uint32_t lane_count = c->clients * c->depth;
    struct peer_lane *lanes = peer_memory(lane_count, sizeof *lanes);
    *session = (struct peer_session){.verbs = verbs,
                                     .ctx = ctx,
                                     .work = *c,
                                     .lanes = lanes,
                                     .lane_count = lane_count,
                                     .random = 88172645463325252u};
    session->grants = grants;
    for (uint32_t i = 0; i < lane_count; i++) {
        lanes[i] = (struct peer_lane){.session = session, .index = i};
        snprintf(lanes[i].holder, sizeof lanes[i].holder, "client/%u", i);
    }
    return session;
}

static void submit(struct peer_lane *lane) {
    struct peer_session *session = lane->session;
    lane->due_ns = bench_now_ns();
    session->under_way++;
    session->verbs->submit(session->ctx, lane);
}

static void count(struct peer_lane *lane, bool granted) {
    struct peer_session *session = lane->session;
    session->count++;
    if (session->histogram != NULL) {
        load_note(session->histogram, bench_now_ns() - lane->due_ns);
    }
    if (session->grants != NULL && lane->step == 0 && granted) {
        ++*session->grants;
    }
}

void peer_answered(struct peer_lane *lane, enum peer_outcome outcome) {
    struct peer_session *session = lane->session;
    session->under_way--;
    if (outcome != PEER_AGAIN) {
        count(lane, outcome == PEER_DONE);
    }
    if (outcome == PEER_DONE) {
        lane->step = lane->step == 0 || session->work.work == WORK_RENEW ? 1 : 0;
    }
    if (session->sending) {
        submit(lane);
    }
}

static void drain(struct peer_session *session) {
    session->sending = false;
    while (session->under_way > 0) {
        session->verbs->poll(session->ctx);
    }
}

static double session_turn(void *ctx, uint64_t ns, struct load_histogram *histogram) {
    struct peer_session *session = ctx;
    uint64_t start = bench_now_ns();
    session->histogram = histogram;
    session->count = 0;
    session->sending = true;
    for (uint32_t i = 0; i < session->lane_count; i++) {
        submit(&session->lanes[i]);
    }
    while (bench_now_ns() - start < ns) {
        session->verbs->poll(session->ctx);
    }
    drain(session);
    return (double)session->count * 1e9 / (double)(bench_now_ns() - start);
}

/* Holders release what they have, all together: a pipeline is sent whole. */
static void session_close(void *ctx) {
    struct peer_session *session = ctx;
    for (uint32_t i = 0; i < session->lane_count && session->work.depth == 1; i++) {
        if (session->lanes[i].step != 0 && session->work.work != WORK_RENEW) {
            submit(&session->lanes[i]);
        }
    }
    drain(session);
    session->verbs->close(session->ctx);
    free(session->lanes);
    free(session);
}

struct side peer_side(struct peer_session *session) {
    return (struct side){
        .turn = session_turn, .close = session_close, .ctx = session, .grants = session->grants};
}
