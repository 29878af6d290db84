/* Those who ask, as the pipeline sees them: waiting for something that is not their own (a log
 * position, a free slot, the time), and leaving. */
#include "base/assert.h"
#include "server/internal.h"

/* ---- Queues ---- */

static void queue_add(struct server_queue *queue, struct server_asker *asker) {
    TN_ASSERT(asker->queue == NULL);
    asker->queue = queue;
    TAILQ_INSERT_TAIL(queue, asker, place);
}

static void queue_add_front(struct server_queue *queue, struct server_asker *asker) {
    TN_ASSERT(asker->queue == NULL);
    asker->queue = queue;
    TAILQ_INSERT_HEAD(queue, asker, place);
}

static void queue_remove(struct server_asker *asker) {
    TAILQ_REMOVE(asker->queue, asker, place);
    asker->queue = NULL;
}

/* ---- Waiting ---- */

static void waiting_retry(uv_timer_t *timer) {
    server_waiting_run(timer->data);
    server_stop_check(timer->data); /* the last slot may have been the ticker's */
}

static void wait_begin(struct server_asker *asker) {
    struct server *server = asker->server;
    queue_add_front(&server->waiting, asker);
    if (uv_is_active((const uv_handle_t *)&server->retry) == 0) {
        server->retry.data = server;
        (void)uv_timer_start(&server->retry, waiting_retry, SERVER_RETRY_MS, SERVER_RETRY_MS);
    }
}

void server_asker_wait(struct server_asker *asker) {
    if (asker->queue == NULL) {
        asker->server->waiting_try = true;
        wait_begin(asker);
    }
}

void server_asker_wait_lsn(struct server_asker *asker, uint64_t lsn) {
    struct server *server = asker->server;
    bool first = TAILQ_EMPTY(&server->waiting);
    if (first || lsn < server->waiting_lsn) {
        server->waiting_lsn = lsn;
    }
    if (first || asker->fence_until_ms < server->waiting_until_ms) {
        server->waiting_until_ms = asker->fence_until_ms;
    }
    wait_begin(asker);
}

/* Those in a queue try again, one after the other; meanwhile any of them may leave or wait anew, and
 * the server's own asker may add a second queue to the first. Who came last is in front: moved one by
 * one, who came first is. */
static void queue_run(struct server *server, struct server_queue *queue, bool as_is) {
    struct server_asker *asker;
    while ((asker = TAILQ_FIRST(queue)) != NULL) {
        asker->as_is = as_is;
        queue_remove(asker);
        queue_add_front(&server->running, asker);
    }
    if (server->runs) {
        return;
    }
    server->runs = true;
    while ((asker = TAILQ_FIRST(&server->running)) != NULL) {
        queue_remove(asker);
        asker->run(asker);
    }
    server->runs = false;
}

/* Whether some of those who wait may have what they wait for: there can be thousands of them. */
static bool waiting_is_over(const struct server *server) {
    struct engine_stats stats;
    if (TAILQ_EMPTY(&server->waiting) || server->waiting_try || server->draining ||
        uv_now(&server->loop) >= server->waiting_until_ms) {
        return true;
    }
    engine_stats_read(server->engine, &stats);
    return stats.lsn >= server->waiting_lsn || stats.stopped != TN_R_OK;
}

void server_waiting_run(struct server *server) {
    if (!waiting_is_over(server)) {
        return;
    }
    server->waiting_try = false;
    queue_run(server, &server->waiting, false);
    if (TAILQ_EMPTY(&server->waiting)) {
        (void)uv_timer_stop(&server->retry);
    }
}

/* ---- Turns ---- */

/* In one turn of the loop a connection is read once (SERVER_SHARE_BYTES at the most), and at most
 * SERVER_SHARE_COMMANDS of its requests are served, whatever they are. A connection that has more to
 * ask is not read until it has been served again from the queue of turns, which has SERVER_TURN_MS of
 * each turn of the loop and serves each connection once in it. So a client that asks for little waits
 * for one share of each connection that was silent before, and for SERVER_TURN_MS, however many
 * connections send requests without end.
 *
 * If users are defined, a connection that has not logged in has a smaller share, and a queue of its own:
 * the time of that queue is short, so users' connections do not wait for a round of all strangers. */

bool server_asker_is_stranger(const struct server_asker *asker) {
    return asker->login.user == &access_stranger ||
           (asker->server->access.on && asker->login.user == NULL);
}

static uint32_t share_of(const struct server_asker *asker) {
    return server_asker_is_stranger(asker) ? SERVER_STRANGER_COMMANDS : SERVER_SHARE_COMMANDS;
}

void server_share_begin(struct server_asker *asker) {
    if (asker->turn != asker->server->turn) {
        asker->turn = asker->server->turn;
        asker->share = share_of(asker);
    }
}

bool server_share_is_large(const struct server_asker *asker) {
    uint32_t all = share_of(asker);
    return asker->share < all - all / 4 && server_turn_is_over(asker->server);
}

/* One round at the most: who has been served in this one is behind all who have not. */
static void turns_serve(struct server *server, struct server_queue *queue, uint64_t end_ns) {
    struct server_asker *asker;
    while ((asker = TAILQ_FIRST(queue)) != NULL && asker->round != server->round) {
        queue_remove(asker);
        asker->round = server->round;
        asker->turn = server->turn - 1; /* it has a whole share again */
        asker->run(asker);
        if (uv_hrtime() >= end_ns) {
            return;
        }
    }
}

/* What takes long, that is, what may have a reply of many kilobytes, is done between the turns of the
 * loop, a slice of it at a time: SERVER_SLICE_MAX long replies at the most, and none begun after
 * SERVER_SLICE_NS; a page of events is left then, and gone on with in a later slice. So whoever asks
 * for little waits for one slice, however many ask for much. Pages of events take longest by far, so
 * they have a queue of their own, and every other slice is theirs first. While nobody waits for a
 * slice, the one of this turn is there for whoever comes: alone, nobody waits for anything. */

#define SLICE_SPENT 1u

static void slice_begin(struct server *server) {
    server->slice_end_ns = uv_hrtime() + SERVER_SLICE_NS;
    server->slice_left = SERVER_SLICE_MAX;
}

bool server_slice_is_over(const struct server *server) {
    return uv_hrtime() >= server->slice_end_ns;
}

static bool slice_take(struct server *server) {
    bool over = server->slice_left == 0 || server_slice_is_over(server);
    server->slice_left -= !over;
    return !over;
}

/* Of short ones there are as many as the time allows. */
void server_slice_made(struct server *server, size_t bytes) {
    server->slice_left += bytes <= SERVER_REPLY_SHORT;
}

/* There is one slice between two looks at the sockets. After one that was for those who waited,
 * whoever comes next waits, too. */
void server_turn_end(struct server *server) {
    server->slice_end_ns = server->slice_waited ? SLICE_SPENT : 0;
    server->slice_waited = false;
    server->accepts = 0;
    server->turn++;
}

bool server_turn_is_over(const struct server *server) {
    return uv_hrtime() / 1000000 > uv_now(&server->loop) + SERVER_TURN_MS;
}

static void slice_run(struct server *server, struct server_queue *queue) {
    struct server_asker *asker;
    while ((asker = TAILQ_FIRST(queue)) != NULL && slice_take(server)) {
        queue_remove(asker);
        asker->has_turn = true;
        asker->run(asker);
    }
}

static bool slice_is_wanted(const struct server *server) {
    return !TAILQ_EMPTY(&server->heavy) || !TAILQ_EMPTY(&server->pages);
}

/* As many as the time allows; the others have the next turn. */
static void turns_run(uv_idle_t *soon) {
    struct server *server = soon->data;
    server->round++;
    turns_serve(server, &server->turns, uv_hrtime() + SERVER_TURN_MS * UINT64_C(1000000));
    turns_serve(server, &server->strangers, uv_hrtime() + SERVER_STRANGERS_NS);
    if (server->slice_end_ns <= SLICE_SPENT) {
        slice_begin(server);
    }
    server->slice_waited = slice_is_wanted(server);
    server->slice_pages = !server->slice_pages;
    slice_run(server, server->slice_pages ? &server->pages : &server->heavy);
    slice_run(server, server->slice_pages ? &server->heavy : &server->pages);
    server_connections_look(server);
    server_listen_resume(server);
    if (TAILQ_EMPTY(&server->turns) && TAILQ_EMPTY(&server->strangers) &&
        !slice_is_wanted(server) && server->looking == NULL) {
        (void)uv_idle_stop(soon);
    }
}

void server_soon(struct server *server) {
    server->soon.data = server;
    (void)uv_idle_start(&server->soon, turns_run);
}

void server_asker_yield(struct server_asker *asker) {
    struct server *server = asker->server;
    queue_add(server_asker_is_stranger(asker) ? &server->strangers : &server->turns, asker);
    server_soon(server);
}

void server_asker_go_on(struct server_asker *asker) {
    queue_add_front(&asker->server->pages, asker);
    server_soon(asker->server);
}

bool server_asker_must_yield(struct server_asker *asker, bool page) {
    struct server *server = asker->server;
    bool now = asker->has_turn;
    asker->has_turn = false;
    if (!now && !slice_is_wanted(server)) {
        if (server->slice_end_ns == 0) {
            slice_begin(server);
        }
        now = slice_take(server);
    }
    if (!now) {
        queue_add(page ? &server->pages : &server->heavy, asker);
        server_soon(server);
    }
    return !now;
}

/* ---- Ticks ---- */

/* A refusal, or no free slot, is dealt with from the list of waiting ones: whoever asked for this
 * is in the middle of being served. */
static void tick_submit(struct server *server) {
    static const struct tn_bytes word = {.at = (const uint8_t *)"TICK", .len = 4};
    struct server_asker *ticker = &server->ticker;
    struct server_request request;
    ticker->begun_ns = uv_hrtime();
    server_request_begin(&request, ticker, &protocol_table[PROTOCOL_TICK], &word, 1);
    if (server_write(&request) == SERVER_DONE && ticker->first->done) {
        server_asker_wait(ticker);
    }
}

static void tick_run(struct server_asker *ticker) {
    struct server *server = ticker->server;
    struct server_slot *slot = server_slot_collect(ticker);
    if (slot == NULL) {
        if (ticker->inflight == 0 && !TAILQ_EMPTY(&server->ticking)) {
            tick_submit(server);
        }
        return;
    }
    bool full = slot->answer.code == TN_R_NOSPACE;
    server_slot_free(slot);
    queue_run(server, &server->ticking, full);
}

void server_asker_tick(struct server_asker *asker) {
    struct server *server = asker->server;
    if (asker->tick_since_ms == 0) {
        asker->tick_since_ms = engine_now(server->engine);
    }
    queue_add_front(&server->ticking, asker);
    if (server->ticker.inflight == 0 && server->ticker.queue == NULL) {
        tick_submit(server);
    }
}

void server_askers_init(struct server *server) {
    TAILQ_INIT(&server->waiting);
    TAILQ_INIT(&server->ticking);
    TAILQ_INIT(&server->running);
    server->turn = server->round = 1; /* 0: a connection that has not been read or served */
    TAILQ_INIT(&server->turns);
    TAILQ_INIT(&server->strangers);
    TAILQ_INIT(&server->heavy);
    TAILQ_INIT(&server->pages);
    server->ticker =
        (struct server_asker){.server = server, .run = tick_run, .login = {.user = &access_system}};
}

/* ---- Leaving ---- */

void server_asker_leave(struct server_asker *asker) {
    struct server_slot *slot = asker->first;
    if (asker->queue != NULL) {
        queue_remove(asker);
    }
    server_page_end(asker);
    server_login_leave(asker);
    asker->first = asker->last = NULL;
    asker->inflight = 0;
    while (slot != NULL) {
        struct server_slot *next = slot->next;
        slot->asker = NULL;
        if (slot->done) {
            server_slot_free(slot);
        }
        slot = next;
    }
}
