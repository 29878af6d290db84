/* Reads of the committed state, in order with the client's own writes. A read does not block the
 * loop. It waits on a list for the log position that it asks for (FENCE), or for a tick if its
 * answer depends on a passed deadline, and is then tried again. */
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "engine/engine.h"
#include "protocol/render.h"
#include "server/buffers.h"
#include "server/confirm.h"
#include "server/count.h"
#include "server/memory.h"
#include "server/owners.h"
#include "server/reads.h"
#include "server/schedule.h"
#include "server/sensor.h"
#include "server/server.h"
#include "server/server_role.h"
#include "server/stop.h"
#include "server/tick.h"

#define FENCE_MS 1000u /* how long a read waits for a log position */
#define OWNED_MS 1000u /* how long a read waits until this node surely owns the log again */

/* Steps of a list that finds nothing; then the answer is an empty page. */
#define SCAN_STEPS_MAX 1024u
#define LEASES_NS 1000000u  /* time for one step of a list of leases, about */
#define LEASES_LOOKED 4096u /* leases examined in that time, at most */

void read_lsn_write(struct server_request *request, struct protocol_writer *w, uint64_t lsn) {
    protocol_pair_number(w, "lsn", lsn);
    request->lsn = lsn;
}

/* ---- Leases ---- */

static void values_write(struct protocol_writer *w, const struct engine_value *values,
                         uint32_t count) {
    protocol_write_text(w, "values");
    protocol_write_array(w, count);
    for (uint32_t i = 0; i < count; i++) {
        protocol_render_value(w, &values[i].value);
    }
    protocol_write_text(w, "pools");
    protocol_write_array(w, count);
    for (uint32_t i = 0; i < count; i++) {
        protocol_write_text(w, values[i].pool);
    }
}

static void lease_write(struct server_request *request, struct protocol_writer *w,
                        const struct engine_lease *lease, const struct engine_lease_rest *rest) {
    protocol_render_lease(w, &lease->view, 4);
    values_write(w, rest->values, rest->value_count);
    protocol_write_text(w, "meta");
    if (rest->meta_len > 0) {
        protocol_write_json(w, rest->meta, rest->meta_len);
    } else {
        protocol_write_null(w);
    }
    read_lsn_write(request, w, lease->lsn);
}

enum tn_result read_lease(struct server_request *request) {
    struct server_owners *owners = request->owners;
    struct protocol_writer *w = request->w;
    const struct protocol_call *call = &request->call;
    uint8_t meta[KERNEL_META_MAX];
    struct engine_lease lease = {.value_count = 0};
    struct engine_lease_rest rest = {.values = owners->buffers->page, .meta = meta};
    struct kernel_requested requested = {.is_text = true, .text = call->value};
    enum tn_result code =
        call->value.len > 0
            ? engine_lease_by_value_whole(owners->engine, request->how, call->command.pool,
                                          &requested, &lease, &rest)
            : engine_lease_read_whole(owners->engine, request->how, call->command.lease, &lease,
                                      &rest);
    request->lsn = lease.lsn;
    if (code == TN_R_OK && !access_sees_lease(request->user, owners->engine, &lease)) {
        return TN_R_NOTFOUND;
    }
    if (code == TN_R_OK) {
        lease_write(request, w, &lease, &rest);
    }
    return code;
}

enum tn_result read_verify(struct server_request *request) {
    struct server_owners *owners = request->owners;
    struct protocol_writer *w = request->w;
    const struct kernel_command *command = &request->call.command;
    struct engine_lease lease = {.value_count = 0};
    enum tn_result code =
        engine_verify(owners->engine, request->how, command->lease, command->epoch, &lease);
    request->lsn = lease.lsn; /* of a refusal, too */
    if (code == TN_R_OK) {
        char text[PROTOCOL_LEASE_TEXT];
        protocol_write_map(w, 5);
        protocol_pair_text(w, "result", tn_result_name(code));
        (void)protocol_lease_format(lease.view.id, text);
        protocol_pair_text(w, "lease", text);
        protocol_pair_number(w, "epoch", lease.view.epoch);
        protocol_pair_time(w, "deadline", lease.view.deadline_ms);
        read_lsn_write(request, w, lease.lsn);
    }
    return code;
}

void read_page_head(struct protocol_writer *w, uint64_t cursor, const char *name, uint32_t count,
                    uint32_t more) {
    protocol_write_map(w, 2 + more);
    protocol_pair_number(w, "cursor", cursor);
    protocol_write_text(w, name);
    protocol_write_array(w, count);
}

bool read_page_room(struct server_request *request, uint32_t n) {
    if (n % SERVER_ROOM_STEP != 0 ||
        server_memory_reply(request->owners->memory, request->w->out.len)) {
        return true;
    }
    (void)snprintf(request->call.detail, sizeof request->call.detail, "%s", server_no_room);
    return false;
}

/* ---- Lists that find nothing for a while ---- */

/* A step examines a bounded number of rows. If the user may see none of them, the list continues in
 * another turn of the loop, and other clients are served in between. */
void read_scan_begin(struct server_request *request) {
    if (request->client->scan_cursor != 0) {
        request->call.cursor = request->client->scan_cursor;
    }
}

bool read_scan_ends(struct server_request *request, uint32_t count) {
    struct server_client *client = request->client;
    if (count > 0 || request->call.cursor == 0 || client->scan_steps == SCAN_STEPS_MAX) {
        return true;
    }
    client->scan_cursor = request->call.cursor;
    client->scan_steps++;
    request->more = true;
    return false;
}

/* ---- Lists of leases ---- */

/* Moves the leases that the user may see to the beginning of the page. */
static uint32_t leases_seen(const struct server_request *request, struct engine_lease *page,
                            uint32_t count) {
    uint32_t seen = 0;
    if (!access_is_narrow(request->user)) {
        return count;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (access_sees_lease(request->user, request->owners->engine, &page[i])) {
            page[seen++] = page[i];
        }
    }
    return seen;
}

/* Fills the page from several pages of the engine if the user may not see all leases. It stops when
 * the engine reaches its limit of effort, after LEASES_NS, and after LEASES_LOOKED leases: then the
 * page is short. */
static enum tn_result leases_list(struct server_request *request,
                                  const struct kernel_lease_filter *filter, uint32_t *ret_count,
                                  uint64_t *ret_lsn) {
    struct protocol_call *call = &request->call;
    struct engine_lease *page = request->owners->buffers->page;
    uint32_t total = 0, looked = 0;
    uint64_t end_ns = uv_hrtime() + LEASES_NS;
    for (;;) {
        uint32_t wanted = call->count - total;
        uint32_t count = 0;
        enum tn_result code =
            engine_leases_list(request->owners->engine, request->how, filter, &call->cursor,
                               page + total, wanted, &count, ret_lsn);
        if (code != TN_R_OK) {
            return code;
        }
        looked += count;
        total += leases_seen(request, page + total, count);
        if (call->cursor == 0 || count < wanted || total == call->count ||
            looked >= LEASES_LOOKED || uv_hrtime() >= end_ns) {
            break;
        }
    }
    *ret_count = total;
    return TN_R_OK;
}

enum tn_result read_leases(struct server_request *request) {
    struct server_owners *owners = request->owners;
    struct protocol_writer *w = request->w;
    struct protocol_call *call = &request->call;
    struct engine_lease *page = owners->buffers->page;
    struct kernel_lease_filter filter = {.pool = call->command.pool,
                                         .holder = call->command.holder,
                                         .prefix = call->select.prefix,
                                         .state = call->state};
    uint32_t count = 0;
    uint64_t lsn;
    read_scan_begin(request);
    enum tn_result code = filter.pool.len > 0
                              ? engine_pool_known(owners->engine, request->how, filter.pool)
                              : TN_R_OK;
    if (code == TN_R_OK) {
        access_narrow(request->user, &filter.pool, &filter.holder);
        code = leases_list(request, &filter, &count, &lsn);
    }
    if (code != TN_R_OK || !read_scan_ends(request, count)) {
        return code;
    }
    struct protocol_writer begin = *w;
    read_page_head(w, call->cursor, "leases", count, 1);
    for (uint32_t i = 0; i < count; i++) {
        if (!read_page_room(request, i)) {
            *w = begin;
            return TN_R_OVERLOADED;
        }
        protocol_render_lease(w, &page[i].view, 3);
        values_write(w, page[i].values, page[i].value_count);
        protocol_pair_number(w, "value_count", page[i].view.value_count);
    }
    read_lsn_write(request, w, lsn);
    return code;
}

/* ---- Values ---- */

/* Whether the user may see the lease of a value, by the rules for lists of leases. */
static bool value_seen(const struct server_request *request, const struct kernel_value_view *view) {
    struct engine_lease lease;
    if (!view->has_lease || !access_is_narrow(request->user)) {
        return view->has_lease;
    }
    return engine_lease_read(request->owners->engine, ENGINE_READ_STALE, view->lease.id, &lease) ==
               TN_R_OK &&
           /* A rekey changes which users may see the lease. */
           lease.view.epoch == view->lease.epoch &&
           access_sees_lease(request->user, request->owners->engine, &lease);
}

static enum tn_result values_refuse(struct server_request *request, enum tn_result code) {
    struct tn_bytes pool = request->call.command.pool;
    if (code == TN_R_BAD_REQUEST) {
        (void)snprintf(request->call.detail, sizeof request->call.detail,
                       "a template has no values of its own; name a scope, such as %.*s@node7",
                       (int)pool.len, (const char *)pool.at);
    }
    return code;
}

enum tn_result read_values(struct server_request *request) {
    struct server_owners *owners = request->owners;
    struct protocol_writer *w = request->w;
    struct protocol_call *call = &request->call;
    struct kernel_value_view *page = owners->buffers->page;
    uint32_t count = 0;
    uint64_t lsn;
    read_scan_begin(request);
    enum tn_result code =
        engine_values_list(owners->engine, request->how, call->command.pool, call->value_state,
                           &call->cursor, page, call->count, &count, &lsn);
    if (code != TN_R_OK) {
        return values_refuse(request, code);
    }
    if (!read_scan_ends(request, count)) {
        return code;
    }
    struct protocol_writer begin = *w;
    read_page_head(w, call->cursor, "values", count, 1);
    for (uint32_t i = 0; i < count; i++) {
        if (!read_page_room(request, i)) {
            *w = begin;
            return TN_R_OVERLOADED;
        }
        protocol_render_value_row(w, &page[i], value_seen(request, &page[i]));
    }
    read_lsn_write(request, w, lsn);
    return code;
}

enum tn_result read_value(struct server_request *request) {
    const struct protocol_call *call = &request->call;
    struct kernel_requested requested = {.is_text = true, .text = call->value};
    struct kernel_value_view view;
    uint64_t lsn;
    enum tn_result code = engine_value_read(request->owners->engine, request->how,
                                            call->command.pool, &requested, &view, &lsn);
    request->lsn = lsn;
    if (code != TN_R_OK) {
        return values_refuse(request, code);
    }
    protocol_render_value_card(request->w, call->command.pool, &view, value_seen(request, &view),
                               1);
    read_lsn_write(request, request->w, lsn);
    return code;
}

/* ---- Rules and sensors ---- */

enum tn_result read_rules(struct server_request *request) {
    struct server_owners *owners = request->owners;
    struct protocol_writer *w = request->w;
    struct protocol_call *call = &request->call;
    struct kernel_rule_view *page = owners->buffers->page;
    uint32_t count = 0;
    uint64_t lsn = 0;
    enum tn_result code = engine_rules_list(owners->engine, request->how, &call->cursor, page,
                                            call->count, &count, &lsn);
    if (code == TN_R_OK) {
        if (!access_sensors(request->user)) {
            call->cursor = count = 0;
        }
        read_page_head(w, call->cursor, "rules", count, 1);
        for (uint32_t i = 0; i < count; i++) {
            protocol_render_rule(w, &page[i], NULL, 0);
        }
        read_lsn_write(request, w, lsn);
    }
    return code;
}

enum tn_result read_rule(struct server_request *request) {
    struct kernel_rule_view view;
    uint8_t meta[KERNEL_META_MAX];
    uint64_t lsn = 0;
    enum tn_result code = engine_rule_read_whole(request->owners->engine, request->how,
                                                 request->call.command.name, &view, meta, &lsn);
    request->lsn = lsn;
    if (code == TN_R_OK) {
        protocol_render_rule(request->w, &view, meta, 1);
        read_lsn_write(request, request->w, lsn);
    }
    return code;
}

/* Writes the actual state beside the wanted one. */
static void sensor_state(struct supervisor *supervisor, struct protocol_writer *w,
                         const struct kernel_sensor_view *view) {
    struct supervisor_status status = {.state = PLAN_STATE_STOPPED};
    (void)supervisor_status(supervisor, tn_bytes_of(view->ref, view->ref_len), &status);
    protocol_pair_text(w, "state", plan_state_name(status.state));
}

enum tn_result read_sensors(struct server_request *request) {
    struct server_owners *owners = request->owners;
    struct protocol_writer *w = request->w;
    struct protocol_call *call = &request->call;
    struct kernel_sensor_view *page = owners->buffers->page;
    uint32_t count = 0;
    uint64_t lsn = 0;
    enum tn_result code = engine_sensors_list(owners->engine, request->how, &call->cursor, page,
                                              call->count, &count, &lsn);
    if (code == TN_R_OK) {
        if (!access_sensors(request->user)) {
            call->cursor = count = 0;
        }
        struct protocol_writer begin = *w;
        read_page_head(w, call->cursor, "sensors", count, 1);
        for (uint32_t i = 0; i < count; i++) {
            if (!read_page_room(request, i)) {
                *w = begin;
                return TN_R_OVERLOADED;
            }
            server_sensor_status_write(owners->supervisor, w, &page[i], 0);
        }
        read_lsn_write(request, w, lsn);
    }
    return code;
}

enum tn_result read_sensor(struct server_request *request) {
    struct server_owners *owners = request->owners;
    struct protocol_writer *w = request->w;
    struct kernel_sensor_view view;
    uint8_t spec[KERNEL_SENSOR_SPEC_MAX];
    uint64_t lsn = 0;
    enum tn_result code = engine_sensor_read(
        owners->engine, request->how, request->call.command.name, &view, spec, sizeof spec, &lsn);
    request->lsn = lsn;
    if (code == TN_R_OK) {
        protocol_render_sensor(w, &view, 3);
        sensor_state(owners->supervisor, w, &view);
        protocol_write_text(w, "spec");
        protocol_write_json(w, spec, view.spec_len < sizeof spec ? view.spec_len : sizeof spec);
        read_lsn_write(request, w, lsn);
    }
    return code;
}

/* ---- All ---- */

/* The mode of the read. After the state has been brought up to the moment of the first try, the
 * read uses it as it is: deadlines that pass meanwhile are for later reads. */
static enum engine_read_mode read_how(const struct server_client *client) {
    bool current =
        client->tick_since_ms > 0 &&
        (client->as_is || engine_is_current(client->owners->engine, client->tick_since_ms));
    return current ? ENGINE_READ_AS_IS : ENGINE_READ_NOWAIT;
}

/* OK: the position has been reached. NOT_YET: the time is up. Otherwise the read must wait, and
 * *ret_wait is set. */
static enum tn_result fence_check(struct server_client *client, uint64_t fence_lsn,
                                  bool *ret_wait) {
    struct server_owners *owners = client->owners;
    struct engine_stats stats;
    uint64_t now = uv_now(owners->loop);
    *ret_wait = false;
    if (fence_lsn == 0) {
        return TN_R_OK;
    }
    engine_stats_read(owners->engine, &stats);
    if (stats.lsn >= fence_lsn || stats.stopped != TN_R_OK) {
        client->fence_until_ms = 0;
        return TN_R_OK; /* if the engine has halted, the read says so */
    }
    if (client->fence_until_ms == 0) {
        client->fence_until_ms = now + FENCE_MS;
    }
    *ret_wait = now < client->fence_until_ms;
    if (!*ret_wait) {
        client->fence_until_ms = 0;
    }
    return TN_R_NOT_YET;
}

/* Whether this node owns the log and only its renewal is late. The read waits for the renewal, up
 * to OWNED_MS. */
static bool renewal_is_late(struct server_request *request, enum tn_result code) {
    struct server_client *client = request->client;
    struct engine_standing standing;
    uint64_t now = uv_now(request->owners->loop);
    if (code != TN_R_MASTERDOWN) {
        return false;
    }
    engine_standing_read(request->owners->engine, &standing);
    if (standing.role != ENGINE_LEADING || standing.lapsed) {
        return false;
    }
    if (client->owned_until_ms == 0) {
        client->owned_until_ms = now + OWNED_MS;
    }
    return now < client->owned_until_ms;
}

/* Makes a read that has not been answered wait for what it needs. False: it has been answered. */
static bool read_waits(struct server_request *request, enum tn_result code) {
    if (renewal_is_late(request, code)) {
        schedule_wait(request->client);
    } else if (code == TN_R_NOT_YET && !request->stale) {
        ticks_wait(request->owners->ticks, request->client);
    } else if (request->more && request->client->scan_cursor != 0) {
        schedule_go_on_later(request->client);
    } else if (request->more) {
        schedule_go_on(request->client);
    } else {
        return false;
    }
    return true;
}

/* A lease that the user may not see is refused exactly as one that does not exist. */
static struct server_answer access_look(struct server_request *request) {
    struct server_answer answer = {.code = server_request_judge(request)};
    answer.lsn = answer.code == TN_R_NOTFOUND ? engine_lsn(request->owners->engine) : 0;
    return answer;
}

/* Whether the log is surely ours, for a read that says so. NOT_YET: the client waits. */
static enum tn_result read_confirm(const struct server_request *request) {
    bool asks = !request->stale && !protocol_command_has(request->row, PROTOCOL_ANYWHERE);
    return asks ? server_confirm(request->client) : TN_R_OK;
}

/* Looks at the state for the answer. True: the client waits, and the request is tried again. */
static bool read_look(struct server_request *request, struct server_answer *answer) {
    answer->code = read_confirm(request);
    if (answer->code != TN_R_OK) {
        return answer->code == TN_R_NOT_YET || read_waits(request, answer->code);
    }
    *answer = access_look(request); /* it looks at the state, too: after the waits */
    if (answer->code != TN_R_OK) {
        return false;
    }
    request->how = request->stale ? ENGINE_READ_STALE : read_how(request->client);
    answer->code = server_handlers[request->row->id].read(request);
    if (read_waits(request, answer->code)) {
        return true;
    }
    answer->lsn = tn_result_outcome(answer->code) == TN_COMMITTED ? request->lsn : 0;
    answer->cursor = request->call.cursor;
    return false;
}

void server_scan_end(struct server_client *client) {
    client->scan_cursor = 0;
    client->scan_steps = 0;
    read_ranking_end(client);
}

enum server_step server_read(struct server_request *request, struct server_answer *ret_answer) {
    struct server_owners *owners = request->owners;
    struct server_client *client = request->client;
    const struct protocol_command *row = request->row;
    bool wait = false;
    struct server_answer answer = {.code = server_role_judge(request)};
    if (answer.code == TN_R_OK) {
        answer.code = server_request_parse(request);
    }
    if (answer.code == TN_R_OK) {
        answer.code = fence_check(client, request->call.fence_lsn, &wait);
    }
    if (wait) {
        schedule_wait_lsn(client, request->call.fence_lsn);
        return SERVER_WAIT;
    }
    if (answer.code == TN_R_OK && read_look(request, &answer)) {
        return SERVER_WAIT;
    }
    server_page_end(owners->pages, client);
    server_scan_end(client);
    client->tick_since_ms = client->owned_until_ms = 0;
    client->as_is = false;
    if (answer.code != TN_R_OK) {
        server_refusal_render(client, request->w, answer.code, request->call.detail, answer.lsn);
        server_count_refusal(owners->counters, row->id, answer.code);
    }
    owners->counters->calls[row->id]++;
    server_count_served(owners->counters, row->id, client->begun_ns);
    if (answer.code == TN_R_HALTED) {
        server_stop(owners, 1);
    }
    answer.http_status = (uint16_t)tn_result_http(answer.code);
    *ret_answer = answer;
    return SERVER_DONE;
}
