/* Those who ask, as the pipeline sees them: waiting for something that is not their own (a log
 * position, a free slot, the time), and leaving. */
#include "base/assert.h"
#include "server/internal.h"

static void waiting_retry(uv_timer_t *timer) {
    server_waiting_run(timer->data);
    server_stop_check(timer->data); /* the last slot may have been the ticker's */
}

static void wait_begin(struct server_asker *asker) {
    struct server *server = asker->server;
    asker->waiting = true;
    asker->next_waiting = server->waiting;
    server->waiting = asker;
    if (uv_is_active((const uv_handle_t *)&server->retry) == 0) {
        server->retry.data = server;
        (void)uv_timer_start(&server->retry, waiting_retry, SERVER_RETRY_MS, SERVER_RETRY_MS);
    }
}

void server_asker_wait(struct server_asker *asker) {
    if (!asker->waiting) {
        asker->server->waiting_try = true;
        wait_begin(asker);
    }
}

void server_asker_wait_lsn(struct server_asker *asker, uint64_t lsn) {
    struct server *server = asker->server;
    TN_ASSERT(!asker->waiting);
    if (server->waiting == NULL || lsn < server->waiting_lsn) {
        server->waiting_lsn = lsn;
    }
    if (server->waiting == NULL || asker->fence_until_ms < server->waiting_until_ms) {
        server->waiting_until_ms = asker->fence_until_ms;
    }
    wait_begin(asker);
}

static bool list_remove(struct server_asker **at, const struct server_asker *asker) {
    while (*at != NULL && *at != asker) {
        at = &(*at)->next_waiting;
    }
    if (*at == NULL) {
        return false;
    }
    *at = asker->next_waiting;
    return true;
}

/* Those on a list try again, one after the other; meanwhile any of them may leave or wait anew, and
 * the server's own asker may add a second list to the first. */
static void list_run(struct server *server, struct server_asker **list, bool as_is) {
    while (*list != NULL) {
        struct server_asker *asker = *list;
        *list = asker->next_waiting;
        asker->as_is = as_is;
        asker->next_waiting = server->running;
        server->running = asker;
    }
    if (server->runs) {
        return;
    }
    server->runs = true;
    while (server->running != NULL) {
        struct server_asker *asker = server->running;
        server->running = asker->next_waiting;
        asker->waiting = false;
        asker->run(asker);
    }
    server->runs = false;
}

/* Whether some of those who wait may have what they wait for: there can be thousands of them. */
static bool waiting_is_over(const struct server *server) {
    struct engine_stats stats;
    if (server->waiting == NULL || server->waiting_try || server->draining ||
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
    list_run(server, &server->waiting, false);
    if (server->waiting == NULL) {
        (void)uv_timer_stop(&server->retry);
    }
}

/* ---- Turns ---- */

/* What takes long, that is, what may have a reply of many kilobytes, is done between the turns of the
 * loop, a slice of it at a time: SERVER_SLICE_MAX long replies at the most, and none begun after
 * SERVER_SLICE_NS; a page of events is left then, and gone on with in a later slice. So whoever asks
 * for little waits for one slice, however many ask for much. Pages of events take longest by far, so
 * they have a queue of their own, and every other slice is theirs first. While nobody waits for a
 * slice, the one of this turn is there for whoever comes: alone, nobody waits for anything. */

static void queue_add(struct server_queue *queue, struct server_asker *asker) {
    TN_ASSERT(!asker->waiting && asker->queue == NULL);
    asker->waiting = true;
    asker->queue = queue;
    asker->next_waiting = NULL;
    asker->previous_waiting = queue->last;
    if (queue->last != NULL) {
        queue->last->next_waiting = asker;
    } else {
        queue->first = asker;
    }
    queue->last = asker;
}

/* In front of all. */
static void queue_return(struct server_queue *queue, struct server_asker *asker) {
    TN_ASSERT(!asker->waiting && asker->queue == NULL);
    asker->waiting = true;
    asker->queue = queue;
    asker->previous_waiting = NULL;
    asker->next_waiting = queue->first;
    if (queue->first != NULL) {
        queue->first->previous_waiting = asker;
    } else {
        queue->last = asker;
    }
    queue->first = asker;
}

static void queue_remove(struct server_asker *asker) {
    struct server_queue *queue = asker->queue;
    if (asker->previous_waiting != NULL) {
        asker->previous_waiting->next_waiting = asker->next_waiting;
    } else {
        queue->first = asker->next_waiting;
    }
    if (asker->next_waiting != NULL) {
        asker->next_waiting->previous_waiting = asker->previous_waiting;
    } else {
        queue->last = asker->previous_waiting;
    }
    asker->queue = NULL;
    asker->waiting = false;
}

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
}

bool server_turn_is_over(const struct server *server) {
    return uv_hrtime() / 1000000 > uv_now(&server->loop) + SERVER_TURN_MS;
}

static void slice_run(struct server *server, struct server_queue *queue) {
    struct server_asker *asker;
    while ((asker = queue->first) != NULL && slice_take(server)) {
        queue_remove(asker);
        asker->has_turn = true;
        asker->run(asker);
    }
}

static bool slice_is_wanted(const struct server *server) {
    return server->heavy.first != NULL || server->pages.first != NULL;
}

/* As many as the time allows; the others have the next turn. */
static void turns_run(uv_idle_t *soon) {
    struct server *server = soon->data;
    struct server_asker *asker;
    uint64_t end_ns = uv_hrtime() + SERVER_TURN_MS * UINT64_C(1000000);
    while ((asker = server->turns.first) != NULL && uv_hrtime() < end_ns) {
        queue_remove(asker);
        asker->run(asker);
    }
    if (server->slice_end_ns <= SLICE_SPENT) {
        slice_begin(server);
    }
    server->slice_waited = slice_is_wanted(server);
    server->slice_pages = !server->slice_pages;
    slice_run(server, server->slice_pages ? &server->pages : &server->heavy);
    slice_run(server, server->slice_pages ? &server->heavy : &server->pages);
    server_connections_look(server);
    if (server->door) {
        server->accepts = 0;
        server_connection_arrives(server);
    }
    if (server->turns.first == NULL && !slice_is_wanted(server) && server->looking == NULL) {
        (void)uv_idle_stop(soon);
    }
}

void server_soon(struct server *server) {
    server->soon.data = server;
    (void)uv_idle_start(&server->soon, turns_run);
}

void server_asker_yield(struct server_asker *asker) {
    queue_add(&asker->server->turns, asker);
    server_soon(asker->server);
}

void server_asker_go_on(struct server_asker *asker) {
    queue_return(&asker->server->pages, asker);
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
    ticker->begun_ns = uv_hrtime();
    if (server_write(ticker, &protocol_table[PROTOCOL_TICK], &word, 1) == SERVER_DONE &&
        ticker->first->done) {
        server_asker_wait(ticker);
    }
}

static void tick_run(struct server_asker *ticker) {
    struct server *server = ticker->server;
    struct server_slot *slot = server_slot_collect(ticker);
    if (slot == NULL) {
        if (ticker->inflight == 0 && server->ticking != NULL) {
            tick_submit(server);
        }
        return;
    }
    bool full = slot->answer.code == TN_R_NOSPACE;
    server_slot_free(slot);
    list_run(server, &server->ticking, full);
}

void server_asker_tick(struct server_asker *asker) {
    struct server *server = asker->server;
    TN_ASSERT(!asker->waiting);
    if (asker->tick_since_ms == 0) {
        asker->tick_since_ms = engine_now(server->engine);
    }
    asker->waiting = true;
    asker->next_waiting = server->ticking;
    server->ticking = asker;
    if (server->ticker.inflight == 0 && !server->ticker.waiting) {
        tick_submit(server);
    }
}

void server_ticker_init(struct server *server) {
    server->ticker =
        (struct server_asker){.server = server, .run = tick_run, .login = {.user = &access_system}};
}

/* ---- Leaving ---- */

static void wait_end(struct server_asker *asker) {
    struct server *server = asker->server;
    if (asker->queue != NULL) {
        queue_remove(asker);
    } else if (asker->waiting) {
        (void)(list_remove(&server->waiting, asker) || list_remove(&server->ticking, asker) ||
               list_remove(&server->running, asker));
        asker->waiting = false;
    }
}

void server_asker_leave(struct server_asker *asker) {
    struct server_slot *slot = asker->first;
    wait_end(asker);
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
