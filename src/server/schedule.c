/* What schedule.h promises. */
#include "server/schedule.h"

#include "base/assert.h"

#define RETRY_MS 5u
#define TURN_MS 2u
#define STRANGERS_NS UINT64_C(250000) /* of a turn, for all connections that have not logged in */
#define SLICE_NS UINT64_C(100000)
#define SLICE_MAX 4u
#define REPLY_SHORT 4096u /* a reply that turned out this short does not count as a long one */

/* ---- Queues ---- */

static void queue_add(struct server_queue *queue, struct server_client *client) {
    TN_ASSERT(client->queue == NULL);
    client->queue = queue;
    TAILQ_INSERT_TAIL(queue, client, place);
}

static void queue_add_front(struct server_queue *queue, struct server_client *client) {
    TN_ASSERT(client->queue == NULL);
    client->queue = queue;
    TAILQ_INSERT_HEAD(queue, client, place);
}

static void queue_remove(struct server_client *client) {
    TAILQ_REMOVE(client->queue, client, place);
    client->queue = NULL;
}

void schedule_wait_in(struct server_queue *queue, struct server_client *client) {
    queue_add_front(queue, client);
}

void schedule_leave(struct server_client *client) {
    if (client->queue != NULL) {
        queue_remove(client);
    }
}

void schedule_init(struct schedule *schedule, uv_loop_t *loop, struct engine *engine,
                   const struct schedule_hooks *hooks) {
    *schedule = (struct schedule){.loop = loop, .engine = engine, .hooks = *hooks};
    /* 0 marks a connection that has not been read or served. */
    schedule->turn = schedule->round = 1;
    TAILQ_INIT(&schedule->waiting);
    TAILQ_INIT(&schedule->running);
    TAILQ_INIT(&schedule->turns);
    TAILQ_INIT(&schedule->strangers);
    TAILQ_INIT(&schedule->heavy);
    TAILQ_INIT(&schedule->heavy_strangers);
    TAILQ_INIT(&schedule->pages);
    (void)uv_timer_init(loop, &schedule->retry);
    (void)uv_idle_init(loop, &schedule->soon);
    schedule->retry.data = schedule->soon.data = schedule;
}

/* ---- Waiting ---- */

static void waiting_retry(uv_timer_t *timer) {
    struct schedule *schedule = timer->data;
    schedule_run_waiting(schedule);
    schedule->hooks.tried(schedule->hooks.ctx);
}

static void wait_begin(struct server_client *client) {
    struct schedule *schedule = client->schedule;
    queue_add_front(&schedule->waiting, client);
    if (uv_is_active((const uv_handle_t *)&schedule->retry) == 0) {
        (void)uv_timer_start(&schedule->retry, waiting_retry, RETRY_MS, RETRY_MS);
    }
}

void schedule_wait(struct server_client *client) {
    if (client->queue == NULL) {
        client->schedule->waiting_try = true;
        wait_begin(client);
    }
}

void schedule_wait_lsn(struct server_client *client, uint64_t lsn) {
    struct schedule *schedule = client->schedule;
    bool first = TAILQ_EMPTY(&schedule->waiting);
    if (first || lsn < schedule->waiting_lsn) {
        schedule->waiting_lsn = lsn;
    }
    if (first || client->fence_until_ms < schedule->waiting_until_ms) {
        schedule->waiting_until_ms = client->fence_until_ms;
    }
    wait_begin(client);
}

/* Runs clients one after the other, as many as the time of a turn allows; the others have the next turn.
 * Meanwhile any of them may leave or wait again. */
static void running_serve(struct schedule *schedule) {
    uint64_t end_ns = uv_hrtime() + TURN_MS * UINT64_C(1000000);
    struct server_client *client;
    bool in_time = true;
    schedule->runs = true;
    while (in_time && (client = TAILQ_FIRST(&schedule->running)) != NULL) {
        queue_remove(client);
        client->run(client);
        in_time = uv_hrtime() < end_ns;
    }
    schedule->runs = false;
    if (!TAILQ_EMPTY(&schedule->running)) {
        schedule_soon(schedule);
    }
}

/* The server's own client may run a second queue inside the first one. Clients are added at the head of a
 * queue: the one that has waited longest is last, and the first to be run. */
void schedule_run_queue(struct schedule *schedule, struct server_queue *queue, bool as_is) {
    struct server_client *client;
    while ((client = TAILQ_LAST(queue, server_queue)) != NULL) {
        client->as_is = as_is;
        queue_remove(client);
        queue_add(&schedule->running, client);
    }
    if (!schedule->runs) {
        running_serve(schedule);
    }
}

/* Whether the wait of some clients may be over. There can be thousands of them, so they are not run
 * for nothing. */
static bool waiting_is_over(const struct schedule *schedule) {
    struct engine_stats stats;
    if (TAILQ_EMPTY(&schedule->waiting) || schedule->waiting_try || schedule->hurry ||
        uv_now(schedule->loop) >= schedule->waiting_until_ms) {
        return true;
    }
    engine_stats_read(schedule->engine, &stats);
    return stats.lsn >= schedule->waiting_lsn || stats.stopped != TN_R_OK;
}

void schedule_run_waiting(struct schedule *schedule) {
    if (!waiting_is_over(schedule)) {
        return;
    }
    schedule->waiting_try = false;
    schedule_run_queue(schedule, &schedule->waiting, false);
    if (TAILQ_EMPTY(&schedule->waiting)) {
        (void)uv_timer_stop(&schedule->retry);
    }
}

/* ---- Turns ---- */

static uint32_t share_of(const struct server_client *client) {
    return server_client_is_stranger(client) ? SERVER_STRANGER_COMMANDS : SERVER_SHARE_COMMANDS;
}

void schedule_share_begin(struct server_client *client) {
    if (client->turn != client->schedule->turn) {
        client->turn = client->schedule->turn;
        client->share = share_of(client);
    }
}

bool schedule_share_is_large(const struct server_client *client) {
    uint32_t all = share_of(client);
    return client->share < all - all / 4 && schedule_turn_is_over(client->schedule);
}

/* Runs each client at most once: a client that was served in this round is behind all that were
 * not. */
static void turns_serve(struct schedule *schedule, struct server_queue *queue, uint64_t end_ns) {
    struct server_client *client;
    while ((client = TAILQ_FIRST(queue)) != NULL && client->round != schedule->round) {
        queue_remove(client);
        client->round = schedule->round;
        client->turn = schedule->turn - 1; /* the client gets a complete share again */
        client->run(client);
        if (uv_hrtime() >= end_ns) {
            return;
        }
    }
}

/* ---- Slices ---- */

#define SLICE_SPENT 1u

static void slice_begin(struct schedule *schedule) {
    schedule->slice_end_ns = uv_hrtime() + SLICE_NS;
    schedule->slice_left = SLICE_MAX;
}

bool schedule_slice_is_over(const struct schedule *schedule) {
    return uv_hrtime() >= schedule->slice_end_ns;
}

static bool slice_take(struct schedule *schedule) {
    bool over = schedule->slice_left == 0 || schedule_slice_is_over(schedule);
    schedule->slice_left -= !over;
    return !over;
}

/* The number of short replies in a slice is limited only by time. */
void schedule_slice_made(struct schedule *schedule, size_t bytes) {
    schedule->slice_left += bytes <= REPLY_SHORT;
}

/* There is one slice between two polls of the sockets. After a slice for waiting clients, the next
 * client waits, too. */
void schedule_turn_end(struct schedule *schedule) {
    schedule->slice_end_ns = schedule->slice_waited ? SLICE_SPENT : 0;
    schedule->slice_waited = false;
    schedule->turn++;
}

bool schedule_turn_is_over(const struct schedule *schedule) {
    return uv_hrtime() / 1000000 > uv_now(schedule->loop) + TURN_MS;
}

static void slice_run(struct schedule *schedule, struct server_queue *queue) {
    struct server_client *client;
    while ((client = TAILQ_FIRST(queue)) != NULL && slice_take(schedule)) {
        queue_remove(client);
        client->has_turn = true;
        client->run(client);
    }
}

static bool slice_is_wanted(const struct schedule *schedule) {
    return !TAILQ_EMPTY(&schedule->heavy) || !TAILQ_EMPTY(&schedule->pages);
}

/* Runs one client that has not logged in, if logged-in clients have left time for it, and sometimes
 * even if not. */
static void slice_run_stranger(struct schedule *schedule) {
    struct server_client *client = TAILQ_FIRST(&schedule->heavy_strangers);
    if (client != NULL && (!schedule_slice_is_over(schedule) || schedule->turn % 8 == 0)) {
        queue_remove(client);
        client->has_turn = true;
        client->run(client);
    }
}

/* Serves as many clients as the time allows. The others wait for the next turn. */
static void turns_run(uv_idle_t *soon) {
    struct schedule *schedule = soon->data;
    bool tried = !TAILQ_EMPTY(&schedule->running);
    if (tried) {
        running_serve(schedule);
    }
    schedule->round++;
    turns_serve(schedule, &schedule->turns, uv_hrtime() + TURN_MS * UINT64_C(1000000));
    turns_serve(schedule, &schedule->strangers, uv_hrtime() + STRANGERS_NS);
    if (schedule->slice_end_ns <= SLICE_SPENT) {
        slice_begin(schedule);
    }
    schedule->slice_waited = slice_is_wanted(schedule);
    schedule->slice_pages = !schedule->slice_pages;
    slice_run(schedule, schedule->slice_pages ? &schedule->pages : &schedule->heavy);
    slice_run(schedule, schedule->slice_pages ? &schedule->heavy : &schedule->pages);
    slice_run_stranger(schedule);
    bool more = schedule->hooks.turn(schedule->hooks.ctx);
    if (TAILQ_EMPTY(&schedule->turns) && TAILQ_EMPTY(&schedule->strangers) &&
        TAILQ_EMPTY(&schedule->heavy_strangers) && TAILQ_EMPTY(&schedule->running) &&
        !slice_is_wanted(schedule) && !more) {
        (void)uv_idle_stop(soon);
    }
    if (tried) {
        schedule->hooks.tried(schedule->hooks.ctx);
    }
}

void schedule_soon(struct schedule *schedule) {
    (void)uv_idle_start(&schedule->soon, turns_run);
}

void schedule_yield(struct server_client *client) {
    struct schedule *schedule = client->schedule;
    queue_add(server_client_is_stranger(client) ? &schedule->strangers : &schedule->turns, client);
    schedule_soon(schedule);
}

void schedule_go_on(struct server_client *client) {
    queue_add_front(&client->schedule->pages, client);
    schedule_soon(client->schedule);
}

void schedule_go_on_later(struct server_client *client) {
    queue_add(&client->schedule->pages, client);
    schedule_soon(client->schedule);
}

bool schedule_must_yield(struct server_client *client, bool page) {
    struct schedule *schedule = client->schedule;
    bool now = client->has_turn;
    bool stranger = server_client_is_stranger(client);
    client->has_turn = false;
    if (!now && !slice_is_wanted(schedule) &&
        (!stranger || TAILQ_EMPTY(&schedule->heavy_strangers))) {
        if (schedule->slice_end_ns == 0) {
            slice_begin(schedule);
        }
        now = slice_take(schedule);
    }
    if (!now) {
        queue_add(stranger ? &schedule->heavy_strangers
                  : page   ? &schedule->pages
                           : &schedule->heavy,
                  client);
        schedule_soon(schedule);
    }
    return !now;
}
