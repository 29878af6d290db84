/* Writes: from a request to the engine and back.
 *
 *     loop thread                                   engine's thread
 *     slot taken, queued, submitted
 *     server_submit_now, before the loop waits -->  batch, sync, apply
 *                                                   slot_done: the slot is put into the ring
 *     server_completed  <-- uv_async_send --------  the last of several wakes the loop
 *     replies written and sent in the order
 *     of the queue
 *
 * A result without values, or with one that is a number, is plain: the slot keeps it, and the loop
 * writes the reply where it is sent from. Others are written on the engine's thread, since the values
 * are valid only there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "protocol/identity.h"
#include "server/internal.h"

/* ---- Slots ---- */

struct server_slot *server_slot_take(struct server_client *client,
                                     const struct protocol_command *row) {
    struct server *server = client->server;
    struct server_slot *slot = server->free_slots;
    if (slot != NULL) {
        server->free_slots = slot->next;
    } else if (server->slots_touched < SERVER_SLOTS) {
        slot = &server->slots[server->slots_touched++];
    } else {
        schedule_wait(client);
        return NULL;
    }
    server->slots_used++;
    slot->server = server;
    slot->row = row;
    server->counters.calls[row->id]++;
    slot->client = client;
    slot->next = NULL;
    slot->answer = (struct server_answer){.code = TN_R_OK};
    slot->begun_ns = client->begun_ns;
    slot->encoding = client->encoding;
    slot->done = false;
    slot->plain = false;
    slot->len = 0;
    slot->heap = NULL;
    if (client->last != NULL) {
        client->last->next = slot;
    } else {
        client->first = slot;
    }
    client->last = slot;
    client->inflight++;
    return slot;
}

void server_slot_free(struct server_slot *slot) {
    struct server *server = slot->server;
    free(slot->heap);
    slot->heap = NULL;
    slot->next = server->free_slots;
    server->free_slots = slot;
    server->slots_used--;
}

/* Undoes the last server_slot_take of the client. */
static void slot_return(struct server_client *client) {
    struct server_slot **link = &client->first;
    struct server_slot *slot = client->last, *before = NULL;
    while (*link != slot) {
        before = *link;
        link = &before->next;
    }
    *link = NULL;
    client->last = before;
    client->inflight--;
    client->server->counters.calls[slot->row->id]--;
    server_slot_free(slot);
}

static uint8_t *slot_bytes(const struct server_slot *slot) {
    return slot->server->replies + (size_t)(slot - slot->server->slots) * SERVER_SLOT_BYTES;
}

struct protocol_writer server_slot_writer(const struct server_slot *slot) {
    return (struct protocol_writer){.out = tn_writer_of(slot_bytes(slot), SERVER_SLOT_BYTES),
                                    .encoding = slot->encoding};
}

static void slot_render(struct server_slot *slot, const struct kernel_result *result) {
    struct protocol_writer w = server_slot_writer(slot);
    protocol_render_result(&w, slot->row, result);
    if (w.out.overflow) {
        /* In JSON a byte of a name may take three. */
        size_t room =
            PROTOCOL_PROBLEM_MAX + (size_t)result->value_count * (3 * KERNEL_RESOURCE_MAX + 16);
        slot->heap = malloc(room);
        if (slot->heap == NULL) {
            /* It is done and cannot be told: for the client that is an unknown outcome. */
            w = server_slot_writer(slot);
            protocol_render_refusal(&w, TN_R_LOST, "done, but there is no memory for the reply");
        } else {
            w.out = tn_writer_of(slot->heap, room);
            protocol_render_result(&w, slot->row, result);
        }
    }
    TN_ASSERT(!w.out.overflow);
    slot->answer =
        (struct server_answer){.code = result->code,
                               .http_status = (uint16_t)protocol_http_status(slot->row, result),
                               .replayed = result->replayed,
                               .has_lease = result->has_lease,
                               .lsn = result->lsn,
                               .now_ms = result->now_ms,
                               .retry_at_ms = result->retry_at_ms,
                               .lease = result->lease};
    slot->len = (uint32_t)w.out.len;
}

/* True: the result is plain, and what the loop needs of it is in the slot. */
static bool slot_keep(struct server_slot *slot, const struct kernel_result *result) {
    if (result->value_count > 1 || (result->value_count == 1 && result->values[0].name_len > 0)) {
        return false;
    }
    if (result->value_count == 1) {
        slot->value = result->values[0].number;
        slot->format = result->values[0].format;
    }
    slot->plain = true;
    return true;
}

void server_slot_write(const struct server_slot *slot, struct protocol_writer *w) {
    struct kernel_result result = slot->request.result;
    struct kernel_value value;
    value.number = slot->value;
    value.format = slot->format;
    value.name_len = 0;
    result.values = &value;
    TN_ASSERT(slot->plain);
    protocol_render_result(w, slot->row, &result);
}

/* On an engine's thread, or inside a call of ours that commits. */
static void slot_done(struct engine_request *request, struct tn_bytes command) {
    struct server_slot *slot = request->ctx;
    struct server *server = slot->server;
    bool more = request->more;
    if (!slot_keep(slot, &request->result)) {
        slot_render(slot, &request->result);
    }
    if (request->result.code > TN_R_NOOP) {
        server_refusals_note(&server->refusals, command, request->result.code);
    }
    if (!more) {
        atomic_store(&server->waking, true); /* before the loop can see that this was the last */
    }
    /* There are as many places as slots. */
    uint32_t tail = atomic_load_explicit(&server->done_tail, memory_order_relaxed);
    server->done[tail % SERVER_SLOTS] = slot;
    /* In one order with libuv's look at whether the loop has been told already. */
    atomic_store_explicit(&server->done_tail, tail + 1,
                          more ? memory_order_release : memory_order_seq_cst);
    if (!more) {
        (void)uv_async_send(&server->completed);
        atomic_store(&server->waking, false);
    }
}

void server_slot_refuse(struct server_slot *slot, enum tn_result code, const char *detail) {
    struct protocol_writer w = server_slot_writer(slot);
    protocol_render_refusal(&w, code, detail);
    if (w.out.overflow) { /* long words, and much to escape in them */
        w = server_slot_writer(slot);
        protocol_render_refusal(&w, code, NULL);
    }
    TN_ASSERT(!w.out.overflow);
    slot->answer.code = code;
    slot->answer.http_status = (uint16_t)tn_result_http(code);
    slot->len = (uint32_t)w.out.len;
    slot->done = true;
    server_count_refusal(&slot->server->counters, slot->row->id, code);
    server_count_served(&slot->server->counters, slot->row->id, slot->begun_ns);
}

struct server_slot *server_slot_collect(struct server_client *client) {
    struct server_slot *slot = client->first;
    if (slot == NULL || !slot->done) {
        return NULL;
    }
    client->first = slot->next;
    if (client->first == NULL) {
        client->last = NULL;
    }
    client->inflight--;
    return slot;
}

struct tn_bytes server_slot_reply(struct server_slot *slot) {
    if (slot->plain) {
        struct kernel_value value = {.number = slot->value, .format = slot->format};
        slot->request.result.values = &value;
        slot_render(slot, &slot->request.result);
        slot->plain = false;
    }
    return tn_bytes_of(slot->heap != NULL ? slot->heap : slot_bytes(slot), slot->len);
}

/* ---- Completion ---- */

static void slot_count(const struct server_slot *slot, uint64_t now_ns) {
    struct server_counters *counters = &slot->server->counters;
    server_histogram_add(&counters->latency[slot->row->id], now_ns - slot->begun_ns, 1);
    void (*committed)(const struct server_slot *) = server_handlers[slot->row->id].committed;
    if (committed != NULL && slot->answer.code == TN_R_OK) {
        committed(slot);
    }
    server_count_refusal(counters, slot->row->id, slot->answer.code);
}

#define COMPLETED_AHEAD 8u

static void slot_fetch(const struct server_slot *slot) {
    __builtin_prefetch(&slot->request.result);
    __builtin_prefetch((const uint8_t *)&slot->request.result + 64);
    __builtin_prefetch(&slot->server, 1);
}

/* The next of those that are done, or NULL. */
static struct server_slot *completed_next(struct server *server, uint32_t tail) {
    uint32_t head = server->done_head;
    if (head == tail) {
        return NULL;
    }
    if (tail - head > COMPLETED_AHEAD) {
        slot_fetch(server->done[(head + COMPLETED_AHEAD) % SERVER_SLOTS]);
    }
    server->done_head++;
    return server->done[head % SERVER_SLOTS];
}

void server_completed(struct server *server) {
    struct server_client *first = NULL;
    struct server_client **end = &first;
    bool halted = false;
    uint64_t now_ns = uv_hrtime();
    uint32_t tail = atomic_load_explicit(&server->done_tail, memory_order_acquire);
    struct server_slot *slot;
    while ((slot = completed_next(server, tail)) != NULL) {
        struct server_client *client = slot->client;
        enum tn_result code = slot->request.result.code;
        slot->answer.code = code;
        slot->done = true;
        slot_count(slot, now_ns);
        halted = halted || code == TN_R_HALTED || code == TN_R_LOST;
        if (client == NULL) {
            server_slot_free(slot);
        } else if (!client->ready) {
            client->ready = true;
            client->next_ready = NULL;
            *end = client;
            end = &client->next_ready;
        }
    }
    while (first != NULL) {
        struct server_client *client = first;
        first = client->next_ready;
        client->ready = false;
        client->run(client);
    }
    schedule_run_waiting(&server->schedule);
    server_http_wake(server);
    if (halted) {
        server_stop(server, 1);
    } else {
        server_stop_check(server);
    }
}

/* ---- Submission ---- */

/* Whether the pool, or the template of a scope that does not exist yet, falls back on the content of
 * metadata. A pool that is not there is the kernel's to refuse. */
static bool pool_falls_back(struct server *server, struct tn_bytes pool) {
    struct kernel_pool_view view;
    uint64_t lsn;
    bool scoped;
    enum tn_result code = engine_pool_read(server->engine, ENGINE_READ_AS_IS, pool, &view, &lsn);
    if (code != TN_R_OK) {
        struct tn_bytes base = kernel_name_pool_base(pool, &scoped);
        code =
            scoped ? engine_pool_read(server->engine, ENGINE_READ_AS_IS, base, &view, &lsn) : code;
    }
    return code == TN_R_OK && view.policy.of[KERNEL_OPTION_FALLBACK] == KERNEL_FALLBACK_JSON;
}

enum tn_result server_holder_derive(struct server *server, struct tn_bytes pool,
                                    struct tn_bytes meta, char holder[KERNEL_HOLDER_MAX],
                                    uint32_t *ret_len, char *detail) {
    enum tn_result code = protocol_identity_derive(meta, false, holder, ret_len, detail);
    if (code == TN_R_BAD_REQUEST && pool_falls_back(server, pool)) {
        code = protocol_identity_derive(meta, true, holder, ret_len, detail);
    }
    return code;
}

static enum tn_result holder_derive(struct server_request *request,
                                    char holder[KERNEL_HOLDER_MAX]) {
    struct protocol_call *call = &request->call;
    uint32_t len = 0;
    if ((call->command.fields & KERNEL_F_META) == 0) {
        (void)snprintf(call->detail, sizeof call->detail, "holder *: META is missing");
        return TN_R_MALFORMED;
    }
    enum tn_result code = server_holder_derive(request->server, call->from, call->command.meta,
                                               holder, &len, call->detail);
    call->command.holder = tn_bytes_of(holder, len);
    return code;
}

enum tn_result server_write_submit(struct server_request *request) {
    struct server *server = request->server;
    struct server_slot *slot = request->slot;
    uint32_t len =
        kernel_command_encode(&request->call.command, server->encoded, KERNEL_COMMAND_MAX);
    if (len == 0) {
        return TN_R_TOO_LARGE;
    }
    slot->request.done = slot_done;
    slot->request.ctx = slot;
    enum tn_result code =
        engine_submit_later(server->engine, &slot->request, tn_bytes_of(server->encoded, len));
    server->submitted = true;
    request->full = code == TN_R_OVERLOADED;
    return code;
}

/* Whether the user may do it, and in whose name it is logged. */
static enum tn_result write_judge(struct server_request *request) {
    const struct access_user *user = request->user;
    struct kernel_command *command = &request->call.command;
    enum tn_result code = server_request_judge(request);
    command->user = tn_bytes_of(user->name, user->name_len);
    command->rights = user->role >= PROTOCOL_OPERATOR ? KERNEL_RIGHT_OPERATOR : 0;
    if (code == TN_R_OK && protocol_command_has(request->row, PROTOCOL_PROGRAMS)) {
        code = server_program_judge(request);
    }
    return code;
}

enum server_step server_write(struct server_request *request) {
    struct server_client *client = request->client;
    char holder[KERNEL_HOLDER_MAX];
    struct server_slot *slot = server_slot_take(client, request->row);
    if (slot == NULL) {
        return SERVER_WAIT;
    }
    request->slot = slot;
    enum tn_result code = server_request_parse(request);
    if (code == TN_R_OK && request->call.derive) {
        code = holder_derive(request, holder);
    }
    if (code == TN_R_OK) {
        code = write_judge(request);
    }
    if (code == TN_R_OK) {
        code = server_handlers[request->row->id].write(request);
    }
    /* The batch that is being filled is full. Refusing would punish the client that asked last
     * for what others have sent: it waits for the next batch instead. */
    if (request->full) {
        slot_return(client);
        schedule_wait(client);
        return SERVER_WAIT;
    }
    if (code != TN_R_OK) {
        server_slot_refuse(slot, code, request->call.detail);
    }
    return SERVER_DONE;
}

void server_submit_now(struct server *server) {
    if (server->submitted) {
        server->submitted = false;
        engine_submit_now(server->engine);
    }
}

/* ---- Jobs ---- */

void server_slot_answered(struct server_slot *slot, const struct protocol_writer *w) {
    struct server *server = slot->server;
    struct server_client *client = slot->client;
    slot->len = w->out.overflow ? 0 : (uint32_t)w->out.len;
    slot->done = true;
    slot_count(slot, uv_hrtime());
    if (client == NULL) {
        server_slot_free(slot);
    } else {
        client->run(client);
    }
    server_stop_check(server);
}

/* ---- Snapshots: on a thread of libuv's, for they take long ---- */

static void snapshot_take(uv_work_t *work) {
    struct server *server = work->data;
    server->snapshot_status = engine_snapshot(server->engine, &server->snapshot_error);
}

static void snapshot_render(struct server_slot *slot, bool taken, const char *why) {
    char text[400];
    struct protocol_writer w = server_slot_writer(slot);
    bool json = slot->encoding == PROTOCOL_JSON;
    slot->answer.http_status = taken ? 200 : 500;
    (void)snprintf(text, sizeof text, "%sno snapshot: %.*s", json ? "" : "ERR ", json ? 100 : 300,
                   why);
    if (taken && json) {
        protocol_write_map(&w, 1);
        protocol_pair_text(&w, "result", "OK");
    } else if (taken) {
        protocol_write_simple(&w, "OK");
    } else if (json) {
        protocol_render_problem(&w, 500, TN_REJECTED, "Internal Server Error", text);
    } else {
        protocol_write_error(&w, text);
    }
    server_slot_answered(slot, &w);
}

static void snapshot_taken(uv_work_t *work, int status) {
    struct server *server = work->data;
    struct server_slot *slot = server->snapshot_slot;
    bool taken = status == 0 && server->snapshot_status == TN_OK;
    server->snapshot_slot = NULL;
    server->counters.errors += !taken;
    snapshot_render(slot, taken, server->snapshot_error.text);
}

void job_snapshot(struct server_request *request) {
    struct server *server = request->server;
    if (server->snapshot_slot != NULL) {
        server_slot_refuse(request->slot, TN_R_OVERLOADED, "a snapshot is being taken; try again");
        return;
    }
    server->snapshot_slot = request->slot;
    server->snapshot.data = server;
    (void)uv_queue_work(&server->loop, &server->snapshot, snapshot_take, snapshot_taken);
}

enum server_step server_job_begin(struct server_request *request) {
    request->slot = server_slot_take(request->client, request->row);
    if (request->slot == NULL) {
        return SERVER_WAIT;
    }
    enum tn_result code = server_request_parse(request);
    if (code == TN_R_OK) {
        code = server_request_judge(request);
    }
    if (code != TN_R_OK) {
        server_slot_refuse(request->slot, code, request->call.detail);
    } else {
        server_handlers[request->row->id].job(request);
    }
    return SERVER_DONE;
}
