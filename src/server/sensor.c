/* What running sensors request with the tokens that they were started with, and what clients ask
 * about sensors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "engine/engine.h"
#include "process/run_output.h"
#include "protocol/render.h"
#include "protocol/text.h"
#include "server/buffers.h"
#include "server/count.h"
#include "server/listen.h"
#include "server/owners.h"
#include "server/reads.h"
#include "server/sensor.h"
#include "server/server.h"
#include "server/slots.h"
#include "server/write.h"
#include "supervisor/supervisor.h"

/* ---- By a token ---- */

/* OK and the claims of a sensor's live token. Otherwise the reason, also as text. */
static enum tn_result bearer_judge(struct server_request *request, enum engine_read_mode how,
                                   struct token_state *ret_state) {
    struct protocol_call *call = &request->call;
    enum tn_result code =
        token_introspect(request->owners->options->tokens, how, call->token, ret_state);
    if (code != TN_R_OK) {
        return code;
    }
    if (ret_state->verdict != TOKEN_LIVE) {
        (void)snprintf(call->detail, sizeof call->detail, "the token is refused: %s",
                       token_verdict_text(ret_state->verdict));
        return TN_R_BAD_TOKEN;
    }
    if (strncmp(ret_state->claims.subject, TOKEN_SENSOR_SUBJECT, sizeof TOKEN_SENSOR_SUBJECT - 1) !=
        0) {
        (void)snprintf(call->detail, sizeof call->detail, "this is not a sensor's token");
        return TN_R_DENIED;
    }
    return TN_R_OK;
}

static bool trigger_allowed(const struct token_claims *claims, struct tn_bytes trigger) {
    for (uint32_t i = 0; i < claims->trigger_count; i++) {
        const char *allowed = claims->triggers[i];
        if (tn_bytes_equal(tn_bytes_of(allowed, strlen(allowed)), trigger)) {
            return true;
        }
    }
    return false;
}

/* The state of the lease is looked up without waiting, because the kernel judges it again.
 * Operation ids are scoped to the run by its lease, because every sensor numbers its own. */
enum tn_result write_emit(struct server_request *request) {
    struct protocol_call *call = &request->call;
    struct kernel_command *command = &call->command;
    struct token_state state; /* the command refers to these until it is submitted */
    const struct token_claims *claims = &state.claims;
    char user[KERNEL_USER_MAX + 1];
    char lease[PROTOCOL_LEASE_TEXT];
    enum tn_result code = bearer_judge(request, ENGINE_READ_AS_IS, &state);
    if (code != TN_R_OK) {
        return code;
    }
    if (!trigger_allowed(claims, command->trigger)) {
        (void)snprintf(call->detail, sizeof call->detail,
                       "the token does not include this trigger type");
        return TN_R_DENIED;
    }
    (void)protocol_lease_format(claims->lease, lease);
    int len = snprintf(user, sizeof user, "lease:%s", lease);
    const char *ref = claims->subject + sizeof TOKEN_SENSOR_SUBJECT - 1;
    command->user = tn_bytes_of(user, (size_t)len);
    command->name = tn_bytes_of(ref, strlen(ref));
    command->lease = claims->lease;
    command->epoch = claims->epoch;
    command->fields |= KERNEL_F_NAME | KERNEL_F_LEASE | KERNEL_F_EPOCH;
    command->rights = KERNEL_RIGHT_OPERATOR | KERNEL_RIGHT_SUPERVISOR; /* for EMIT only */
    return server_write_submit(request);
}

void write_emit_committed(struct server_owners *owners, const struct server_slot *slot) {
    const struct kernel_result *result = &slot->request.result;
    if (!result->replayed) {
        supervisor_emitted(owners->supervisor, result->lease, result->epoch);
    }
}

enum tn_result read_sensor_heartbeat(struct server_request *request) {
    struct protocol_writer *w = request->w;
    struct token_state state;
    enum tn_result code = bearer_judge(request, request->how, &state);
    if (code != TN_R_OK) {
        return code;
    }
    if (!supervisor_heartbeat(request->owners->supervisor, state.claims.lease,
                              state.claims.epoch)) {
        (void)snprintf(request->call.detail, sizeof request->call.detail,
                       "the token is refused: this server does not supervise its run");
        return TN_R_BAD_TOKEN;
    }
    protocol_write_map(w, 3);
    protocol_pair_text(w, "result", tn_result_name(TN_R_OK));
    protocol_write_text(w, "expires_at");
    protocol_write_integer(w, (int64_t)state.claims.expires_s);
    protocol_pair_number(w, "lsn", state.lsn);
    request->lsn = state.lsn;
    return TN_R_OK;
}

/* Pages are short, because a rule has up to 4 KiB of metadata. */
#define RULES_PAGE 8u

static enum tn_result rules_page(struct server_request *request, struct tn_bytes ref,
                                 struct engine_rule *page, uint32_t capacity) {
    struct protocol_writer *w = request->w;
    uint32_t count = 0;
    enum tn_result code =
        engine_sensor_rules(request->owners->engine, request->how, ref, &request->call.cursor, page,
                            capacity, &count, &request->lsn);
    if (code != TN_R_OK) {
        return code;
    }
    protocol_write_map(w, 4);
    protocol_write_text(w, "ref");
    protocol_write_bulk(w, ref.at, ref.len);
    protocol_pair_number(w, "cursor", request->call.cursor);
    protocol_write_text(w, "rules");
    protocol_write_array(w, count);
    for (uint32_t i = 0; i < count; i++) {
        protocol_render_rule(w, &page[i].view, page[i].meta, 0);
    }
    protocol_pair_number(w, "lsn", request->lsn);
    return TN_R_OK;
}

/* A run may read only the rules of its own sensor. */
enum tn_result read_sensor_rules(struct server_request *request) {
    struct protocol_call *call = &request->call;
    struct token_state state;
    enum tn_result code = bearer_judge(request, request->how, &state);
    if (code != TN_R_OK) {
        return code;
    }
    const char *own = state.claims.subject + sizeof TOKEN_SENSOR_SUBJECT - 1;
    if (!tn_bytes_equal(call->command.name, tn_bytes_of(own, strlen(own)))) {
        (void)snprintf(call->detail, sizeof call->detail, "the token is that of another sensor");
        return TN_R_DENIED;
    }
    uint32_t capacity = call->count < RULES_PAGE ? call->count : RULES_PAGE;
    struct engine_rule *page = malloc(capacity * sizeof *page);
    if (page == NULL) {
        return TN_R_OVERLOADED;
    }
    code = rules_page(request, call->command.name, page, capacity);
    free(page);
    return code;
}

/* ---- Status ---- */

static void pair_integer_or_null(struct protocol_writer *w, const char *name, bool there,
                                 int64_t number) {
    protocol_write_text(w, name);
    if (there) {
        protocol_write_integer(w, number);
    } else {
        protocol_write_null(w);
    }
}

static void pair_text_or_null(struct protocol_writer *w, const char *name, bool there,
                              const char *text) {
    protocol_write_text(w, name);
    if (there) {
        protocol_write_text(w, text);
    } else {
        protocol_write_null(w);
    }
}

#define STATUS_PAIRS 20u

static void status_write(struct protocol_writer *w, const struct supervisor_status *status) {
    char lease[PROTOCOL_LEASE_TEXT];
    (void)protocol_lease_format(status->lease, lease);
    protocol_pair_text(w, "state", plan_state_name(status->state));
    pair_integer_or_null(w, "pid", status->pid > 0, status->pid);
    pair_text_or_null(w, "proof", status->proof != NULL, status->proof);
    pair_text_or_null(w, "lease", status->has_lease, lease);
    protocol_write_text(w, "epoch");
    if (status->has_lease) {
        protocol_write_u64(w, status->epoch);
    } else {
        protocol_write_null(w);
    }
    protocol_pair_number(w, "starts", status->starts);
    protocol_pair_number(w, "stops", status->stops);
    protocol_pair_number(w, "crashes", status->crashes);
    protocol_pair_number(w, "restarts", status->restarts);
    protocol_pair_number(w, "failures", status->failures);
    protocol_pair_number(w, "emitted", status->emitted);
    protocol_pair_time(w, "started", status->started_ms);
    protocol_pair_number(w, "uptime_ms", status->uptime_ms);
    pair_integer_or_null(w, "token_expires_at", status->token_expires_s > 0,
                         (int64_t)status->token_expires_s);
    pair_integer_or_null(w, "next_in_ms", status->has_next, (int64_t)status->next_in_ms);
    bool exited = status->has_exit && status->exit_code >= 0;
    bool signalled = status->has_exit && status->exit_code < 0;
    pair_integer_or_null(w, "last_exit_code", exited, status->exit_code);
    pair_integer_or_null(w, "last_exit_signal", signalled, status->exit_signal);
    pair_text_or_null(w, "last_reason", status->last_reason != PLAN_REASON_NONE,
                      plan_reason_name(status->last_reason));
    pair_text_or_null(w, "last_error", status->last_error[0] != '\0', status->last_error);
}

void server_sensor_status_write(struct supervisor *supervisor, struct protocol_writer *w,
                                const struct kernel_sensor_view *view, uint32_t more) {
    struct supervisor_status status = {.state = PLAN_STATE_STOPPED};
    bool supervised = supervisor_status(supervisor, tn_bytes_of(view->ref, view->ref_len), &status);
    protocol_render_sensor(w, view, STATUS_PAIRS + more);
    protocol_pair_flag(w, "supervised", supervised);
    status_write(w, &status);
}

enum tn_result read_sensor_status(struct server_request *request) {
    struct server_owners *owners = request->owners;
    struct kernel_sensor_view view;
    uint64_t lsn = 0;
    enum tn_result code = engine_sensor_read(owners->engine, request->how,
                                             request->call.command.name, &view, NULL, 0, &lsn);
    request->lsn = lsn;
    if (code == TN_R_OK) {
        server_sensor_status_write(owners->supervisor, request->w, &view, 1);
        read_lsn_write(request, request->w, lsn);
    }
    return code;
}

/* ---- Output ---- */

static enum tn_result logs_refuse(struct protocol_call *call, enum tn_status status) {
    if (status == TN_NOTFOUND) {
        (void)snprintf(call->detail, sizeof call->detail, "there is no output of this sensor");
        return TN_R_NOTFOUND;
    }
    (void)snprintf(call->detail, sizeof call->detail, "cannot read the output: %s",
                   tn_status_text(status));
    return status == TN_INVALID ? TN_R_BAD_NAME : TN_R_OVERLOADED;
}

/* In JSON the output is text, so a character is never split between two replies. */
static void logs_write(const struct protocol_call *call, struct protocol_writer *w,
                       struct run_output_position next, const uint8_t *bytes, size_t len,
                       bool lost) {
    char text[RUN_OUTPUT_POSITION_TEXT];
    bool more = len == call->bytes;
    size_t cut = w->encoding == PROTOCOL_JSON ? protocol_utf8_cut(bytes, len) : 0;
    /* A request for less than one character gets a part of it. */
    if (cut <= next.offset && !(more && cut == len)) {
        next.offset -= cut;
        len -= cut;
    }
    run_output_position_format(next, text);
    protocol_write_map(w, 4);
    protocol_write_text(w, "output");
    protocol_write_bulk(w, bytes, len);
    protocol_pair_text(w, "next", text);
    protocol_pair_flag(w, "more", more);
    protocol_pair_flag(w, "lost", lost);
}

enum tn_result read_sensor_logs(struct server_request *request) {
    struct server_owners *owners = request->owners;
    struct protocol_call *call = &request->call;
    struct tn_bytes name = call->command.name;
    const struct os *os = owners->options->os;
    struct run_output_position position = {.file = 0};
    char ref[KERNEL_RESOURCE_MAX + 1];
    uint8_t *bytes = owners->buffers->page;
    size_t len = 0;
    bool lost = false;
    if (!kernel_name_resource_valid(name)) {
        return TN_R_BAD_NAME;
    }
    (void)snprintf(ref, sizeof ref, "%.*s", (int)name.len, (const char *)name.at);
    if (owners->supervisor == NULL) {
        return logs_refuse(call, TN_NOTFOUND);
    }
    if (call->position.len > 0 && !run_output_position_parse(call->position, &position)) {
        (void)snprintf(call->detail, sizeof call->detail, "AFTER: not a position such as 3.4096");
        return TN_R_MALFORMED;
    }
    const char *dir = supervisor_dir(owners->supervisor);
    enum tn_status status =
        call->position.len > 0 ? TN_OK : run_output_tail(os, dir, ref, call->bytes, &position);
    if (status == TN_OK) {
        status = run_output_read(os, dir, ref, &position, bytes, call->bytes, &len, &lost);
    }
    if (status != TN_OK) {
        return logs_refuse(call, status);
    }
    logs_write(call, request->w, position, bytes, len, lost);
    return TN_R_OK;
}

/* ---- What operators do ---- */

/* A description is a program that the server will run as its own user. */
enum tn_result server_program_judge(struct server_request *request) {
    struct server_owners *owners = request->owners;
    char *detail = request->call.detail;
    if (owners->options->sensors_by_file) {
        (void)snprintf(
            detail, sizeof request->call.detail,
            "sensors can be defined only in the configuration file: sensor_commands = file");
        return TN_R_NOPERM;
    }
    if (!access_programs(request->user)) {
        (void)snprintf(
            detail, sizeof request->call.detail,
            "an anonymous client may not define programs to run; define the sensor over "
            "the Unix socket %s (tenure --socket PATH, redis-cli -s PATH), as a user with "
            "the role admin, or in the configuration file",
            server_unix_path(owners));
        return TN_R_NOPERM;
    }
    return TN_R_OK;
}

enum tn_result write_sensor_set(struct server_request *request) {
    struct protocol_call *call = &request->call;
    struct supervisor *supervisor = request->owners->supervisor;
    struct sensor_defaults standard = sensor_defaults_make();
    const struct sensor_defaults *defaults =
        supervisor != NULL ? supervisor_defaults(supervisor) : &standard;
    struct sensor_spec *spec = NULL;
    char reason[SENSOR_REASON_MAX];
    if (!sensor_spec_parse(call->command.spec, defaults, &spec, reason)) {
        (void)snprintf(call->detail, sizeof call->detail, "%.*s", (int)sizeof call->detail - 1,
                       reason);
        return TN_R_BAD_REQUEST;
    }
    sensor_spec_free(spec);
    return server_write_submit(request);
}

static void job_answer(struct server_owners *owners, struct server_slot *slot,
                       struct tn_bytes ref) {
    struct protocol_writer w = server_slot_writer(slot);
    struct supervisor_status status = {.state = PLAN_STATE_STOPPED};
    (void)supervisor_status(owners->supervisor, ref, &status);
    protocol_write_map(&w, 3);
    protocol_pair_text(&w, "result", tn_result_name(TN_R_OK));
    protocol_write_text(&w, "ref");
    protocol_write_bulk(&w, ref.at, ref.len);
    protocol_pair_text(&w, "state", plan_state_name(status.state));
    TN_ASSERT(!w.out.overflow);
    slot->answer.http_status = (uint16_t)tn_result_http(TN_R_OK);
    slot->len = (uint32_t)w.out.len;
    slot->done = true;
    server_count_served(owners->counters, slot->row->id, slot->begun_ns);
}

static void job_finish(struct server_request *request, enum tn_result code, const char *state) {
    struct protocol_call *call = &request->call;
    if (code == TN_R_STATE) {
        (void)snprintf(call->detail, sizeof call->detail, "%s", state);
    }
    if (code != TN_R_OK) {
        server_slot_refuse(request->slot, code, call->detail);
    } else {
        job_answer(request->owners, request->slot, call->command.name);
    }
}

void job_sensor_reset(struct server_request *request) {
    job_finish(request, supervisor_reset(request->owners->supervisor, request->call.command.name),
               "the sensor is not in error or backoff and has no unproven run");
}

void job_sensor_restart(struct server_request *request) {
    job_finish(request, supervisor_restart(request->owners->supervisor, request->call.command.name),
               "the sensor is not wanted and does not run");
}
