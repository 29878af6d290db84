/* Results and views as replies. */
#include "protocol/render.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/decimal.h"
#include "protocol/detail.h"

uint32_t protocol_lease_format(struct kernel_lease_id lease, char out[PROTOCOL_LEASE_TEXT]) {
    uint32_t len = kernel_value_format(KERNEL_DEC, lease.shard, out);
    out[len++] = '-';
    return len + kernel_value_format(KERNEL_DEC, lease.lsn, out + len);
}

uint32_t protocol_event_id_format(uint64_t lsn, uint32_t index, char out[PROTOCOL_EVENT_ID_TEXT]) {
    uint32_t len = kernel_value_format(KERNEL_DEC, lsn, out);
    out[len++] = '.';
    return len + kernel_value_format(KERNEL_DEC, index, out + len);
}

/* ---- Pairs ---- */

void protocol_pair_text(struct protocol_writer *w, const char *name, const char *text) {
    protocol_write_text(w, name);
    protocol_write_text(w, text);
}

void protocol_pair_number(struct protocol_writer *w, const char *name, uint64_t number) {
    protocol_write_text(w, name);
    protocol_write_u64(w, number);
}

static void write_time(struct protocol_writer *w, uint64_t ms) {
    if (ms == 0) {
        protocol_write_null(w);
    } else {
        protocol_write_u64(w, ms);
    }
}

void protocol_pair_time(struct protocol_writer *w, const char *name, uint64_t ms) {
    protocol_write_text(w, name);
    write_time(w, ms);
}

void protocol_pair_flag(struct protocol_writer *w, const char *name, bool flag) {
    protocol_write_text(w, name);
    protocol_write_boolean(w, flag);
}

static void pair_bytes(struct protocol_writer *w, const char *name, const char *text,
                       uint32_t len) {
    protocol_write_text(w, name);
    protocol_write_bulk(w, text, len);
}

static void pair_lease(struct protocol_writer *w, struct kernel_lease_id lease) {
    char text[PROTOCOL_LEASE_TEXT];
    uint32_t len = protocol_lease_format(lease, text);
    pair_bytes(w, "lease", text, len);
}

void protocol_render_value(struct protocol_writer *w, const struct kernel_value *value) {
    char text[KERNEL_VALUE_TEXT_MAX];
    if (value->name_len > 0) {
        protocol_write_bulk(w, value->name, value->name_len);
    } else {
        uint32_t len = kernel_value_format((enum kernel_format)value->format, value->number, text);
        protocol_write_bulk(w, text, len);
    }
}

/* ---- Results of writes ---- */

/* The names in a result are always the same: they are written as they go out. In JSON without what
 * RESP has around them: the head of four bytes, the end of two. */
#define KEY(w, digit, name) result_key(w, "$" digit "\r\n" name "\r\n", sizeof(name) - 1)

static inline void result_key(struct protocol_writer *w, const char *resp, size_t len) {
    if (w->encoding == PROTOCOL_JSON) {
        protocol_write_bulk(w, resp + 4, len);
    } else {
        tn_write_raw(&w->out, resp, len + 6);
    }
}

static void result_done(struct protocol_writer *w, const struct protocol_command *row,
                        const struct kernel_result *result) {
    const char *number = row->number;
    bool event = protocol_command_has(row, PROTOCOL_EMITS);
    bool lease = result->has_lease && !event;
    bool values = protocol_command_has(row, PROTOCOL_GRANTS);
    bool waited = result->waited_ms != 0;
    if (lease && number == NULL && protocol_render_quick(w, result, values)) {
        return;
    }
    protocol_write_map(w, 3 + (lease ? 4u : 0u) + (number != NULL) + values + event + waited);
    KEY(w, "6", "result");
    protocol_write_text(w, tn_result_name(result->code));
    if (lease) {
        char text[PROTOCOL_LEASE_TEXT];
        KEY(w, "5", "lease");
        protocol_write_bulk(w, text, protocol_lease_format(result->lease, text));
        KEY(w, "5", "epoch");
        protocol_write_u64(w, result->epoch);
        KEY(w, "5", "state");
        protocol_write_text(w, kernel_state_name(result->state));
        KEY(w, "8", "deadline");
        write_time(w, result->deadline_ms);
    }
    if (values) {
        KEY(w, "6", "values");
        protocol_write_array(w, result->value_count);
        for (uint32_t i = 0; i < result->value_count; i++) {
            protocol_render_value(w, &result->values[i]);
        }
    }
    if (number != NULL) {
        protocol_pair_number(w, number, result->number);
    }
    if (waited) {
        protocol_pair_number(w, "waited_ms", result->waited_ms);
    }
    if (event) { /* the only one of its command */
        char text[PROTOCOL_EVENT_ID_TEXT];
        pair_bytes(w, "id", text, protocol_event_id_format(result->lsn, 0, text));
    }
    KEY(w, "3", "lsn");
    protocol_write_u64(w, result->lsn);
    KEY(w, "8", "replayed");
    protocol_write_boolean(w, result->replayed);
}

/* ---- Refusals ---- */

/* The fields of a refusal besides its text, in their order. */
struct fact {
    const char *name;
    const char *text; /* NULL: it is the number */
    uint64_t number;
};

struct facts {
    struct fact of[10];
    uint32_t count;
    char lease[PROTOCOL_LEASE_TEXT];
    char holder[3 * KERNEL_HOLDER_MAX + 1];
};

static void fact_add(struct facts *facts, const char *name, const char *text, uint64_t number) {
    TN_ASSERT(facts->count < sizeof facts->of / sizeof facts->of[0]);
    facts->of[facts->count++] = (struct fact){.name = name, .text = text, .number = number};
}

static bool result_committed(const struct kernel_result *result) {
    return result->lsn > 0 && tn_result_outcome(result->code) == TN_COMMITTED;
}

/* A holder as one word of a line: what could end the word, or be taken for a pair, as %XX. In JSON it
 * is what it is. */
static void holder_word(struct tn_bytes holder, bool json, char *out) {
    static const char digits[] = "0123456789ABCDEF";
    size_t len = 0;
    for (size_t i = 0; i < holder.len; i++) {
        uint8_t c = holder.at[i];
        if (json || (c > 0x20 && c < 0x7f && c != '%' && c != '=')) {
            out[len++] = (char)c;
        } else {
            out[len++] = '%';
            out[len++] = digits[c >> 4];
            out[len++] = digits[c & 15];
        }
    }
    out[len] = '\0';
}

static void facts_of(const struct kernel_result *result, struct tn_bytes holder, bool json,
                     struct facts *facts) {
    bool hidden = result->code == TN_R_BUSY && holder.len == 0;
    facts->count = 0;
    switch (result->code) {
    case TN_R_EXHAUSTED:
        if (result->retry_at_ms != 0) {
            fact_add(facts, "retry_at", NULL, result->retry_at_ms);
        }
        break;
    case TN_R_BAD_TTL:
    case TN_R_QUOTA:
        if (result->number != 0) { /* 0: not set, as by REKEY */
            fact_add(facts, "cap", NULL, result->number);
        }
        break;
    case TN_R_TOO_LARGE:
        fact_add(facts, "cap", NULL, result->number);
        break;
    case TN_R_EXISTS:
        if (result->number > 0) {
            fact_add(facts, "option", kernel_option_name((unsigned)result->number - 1), 0);
        }
        break;
    case TN_R_BAD_VALUE:
        fact_add(facts, "index", NULL, result->number);
        break;
    case TN_R_BUSY:
        fact_add(facts, "index", NULL, result->number);
        if (result->retry_at_ms != 0) {
            fact_add(facts, "retry_at", NULL, result->retry_at_ms);
        }
        break;
    case TN_R_CONFLICT:
        if (result->number != 0) {
            fact_add(facts, "opid_lsn", NULL, result->number);
        }
        break;
    default:
        break;
    }
    if (result->waiting != 0 || result->waited_ms != 0) {
        fact_add(facts, "waiting", NULL, result->waiting);
    }
    if (result->waited_ms != 0) {
        fact_add(facts, "waited_ms", NULL, result->waited_ms);
    }
    if (result->has_lease && !hidden) {
        (void)protocol_lease_format(result->lease, facts->lease);
        fact_add(facts, "lease", facts->lease, 0);
        fact_add(facts, "epoch", NULL, result->epoch);
        fact_add(facts, "state", kernel_state_name(result->state), 0);
    }
    if (result->has_lease && holder.len > 0) {
        holder_word(holder, json, facts->holder);
        fact_add(facts, "holder", facts->holder, 0);
        if (result->deadline_ms != 0) {
            fact_add(facts, "until", NULL, result->deadline_ms);
        }
    }
    if (result_committed(result)) {
        if (result->replayed) {
            fact_add(facts, "replayed", "1", 0);
        }
        fact_add(facts, "lsn", NULL, result->lsn);
    }
}

/* The text for the number of a result. NULL: the result's own text is enough. */
static const char *detail_of(const struct kernel_result *result, char out[PROTOCOL_DETAIL]) {
    if (result->code == TN_R_EXISTS && result->number > 0) {
        (void)snprintf(out, PROTOCOL_DETAIL, "the pool exists with other options; %s differs",
                       kernel_option_name((unsigned)result->number - 1));
        return out;
    }
    if (result->code == TN_R_BAD_POLICY && result->number > 0) {
        kernel_fault_format(result->number, out, PROTOCOL_DETAIL);
        return out;
    }
    if (result->waited_ms != 0) {
        return result->code == TN_R_EXHAUSTED || result->code == TN_R_BUSY
                   ? "the wait is over and nothing was granted"
                   : NULL;
    }
    if (result->waiting != 0 && (result->code == TN_R_EXHAUSTED || result->code == TN_R_BUSY)) {
        return "others wait for values of the pool; WAIT waits behind them";
    }
    if (result->code == TN_R_BUSY && result->retry_at_ms != 0) {
        return "the value is cooling down";
    }
    return result->code == TN_R_BAD_TTL && result->number == 0
               ? "the ttl must be above 0; without a ttl the pool's lease applies"
               : NULL;
}

/* A line: NAME words for people key=value ... What does not fit is cut off. */
struct line {
    char text[1024];
    size_t len;
};

static void line_add(struct line *line, const char *text, size_t len) {
    size_t room = sizeof line->text - 1 - line->len;
    len = len < room ? len : room;
    memcpy(line->text + line->len, text, len);
    line->len += len;
}

static void line_word(struct line *line, const char *before, const char *text) {
    line_add(line, before, strlen(before));
    line_add(line, text, strlen(text));
}

/* Clients that compete for a value get thousands of these a second: no printf. */
static void error_write(struct protocol_writer *w, enum tn_result code, const char *detail,
                        const struct facts *facts) {
    struct line line;
    char digits[TN_DECIMAL_MAX];
    line.len = 0;
    line_word(&line, "", tn_result_name(code));
    line_word(&line, " ", detail != NULL ? detail : tn_result_text(code));
    for (uint32_t i = 0; i < facts->count; i++) {
        const struct fact *fact = &facts->of[i];
        line_word(&line, " ", fact->name);
        if (fact->text != NULL) {
            line_word(&line, "=", fact->text);
        } else {
            line_add(&line, "=", 1);
            line_add(&line, digits, tn_decimal(fact->number, digits));
        }
    }
    line.text[line.len] = '\0';
    protocol_write_error(w, line.text);
}

/* A problem of RFC 9457, with the result's name, what may be concluded, and the same facts. */
struct problem {
    enum tn_result code;
    int status;
    enum tn_outcome outcome;
    const char *detail; /* NULL: there is nothing to add */
};

static const char *const outcomes[] = {
    [TN_COMMITTED] = "committed", [TN_REJECTED] = "rejected", [TN_UNKNOWN] = "unknown"};

static void problem_write(struct protocol_writer *w, const struct problem *problem,
                          const struct facts *facts) {
    char type[64];
    (void)snprintf(type, sizeof type, "urn:tenure:result:%s", tn_result_name(problem->code));
    protocol_write_map(w, (problem->detail != NULL ? 6u : 5u) + facts->count);
    protocol_pair_text(w, "type", type);
    protocol_pair_text(w, "title", tn_result_text(problem->code));
    protocol_write_text(w, "status");
    protocol_write_integer(w, problem->status);
    if (problem->detail != NULL) {
        protocol_pair_text(w, "detail", problem->detail);
    }
    protocol_pair_text(w, "result", tn_result_name(problem->code));
    protocol_pair_text(w, "outcome", outcomes[problem->outcome]);
    for (uint32_t i = 0; i < facts->count; i++) {
        const struct fact *fact = &facts->of[i];
        if (strcmp(fact->name, "replayed") == 0) {
            protocol_pair_flag(w, fact->name, true);
        } else if (fact->text != NULL) {
            protocol_pair_text(w, fact->name, fact->text);
        } else {
            protocol_pair_number(w, fact->name, fact->number);
        }
    }
}

int protocol_http_status(const struct protocol_command *row, const struct kernel_result *result) {
    bool over = result->code == TN_R_NOTFOUND || result->code == TN_R_RETIRED ||
                result->code == TN_R_STALE || result->code == TN_R_STATE;
    if (protocol_command_has(row, PROTOCOL_EMITS) && over) {
        return 401;
    }
    return result->code == TN_R_CONFLICT && result->number != 0 ? 422
                                                                : tn_result_http(result->code);
}

static void result_refused(struct protocol_writer *w, const struct protocol_command *row,
                           const struct kernel_result *result, struct tn_bytes holder) {
    struct facts facts;
    char text[PROTOCOL_DETAIL];
    const char *detail = holder.len > 0 ? "another lease is in the way" : detail_of(result, text);
    facts_of(result, holder, w->encoding == PROTOCOL_JSON, &facts);
    if (w->encoding != PROTOCOL_JSON) {
        error_write(w, result->code, detail, &facts);
        return;
    }
    enum tn_outcome outcome = tn_result_outcome(result->code);
    struct problem problem = {
        .code = result->code,
        .status = protocol_http_status(row, result),
        .detail = detail,
        .outcome = outcome != TN_COMMITTED || result_committed(result) ? outcome : TN_REJECTED};
    problem_write(w, &problem, &facts);
}

void protocol_render_result(struct protocol_writer *w, const struct protocol_command *row,
                            const struct kernel_result *result) {
    if (result->code == TN_R_OK || result->code == TN_R_NOOP) {
        result_done(w, row, result);
    } else {
        result_refused(w, row, result, tn_bytes_of(NULL, 0));
    }
}

void protocol_render_busy(struct protocol_writer *w, const struct protocol_command *row,
                          const struct kernel_result *result, struct tn_bytes holder) {
    TN_ASSERT(result->code == TN_R_BUSY && result->has_lease);
    result_refused(w, row, result, holder);
}

/* `at_position`: the facts have the log position of the state that refuses. */
static void refusal_write(struct protocol_writer *w, enum tn_result code, int status,
                          const char *detail, const struct facts *facts, bool at_position) {
    const char *words = detail != NULL && detail[0] != '\0' ? detail : NULL;
    if (w->encoding != PROTOCOL_JSON) {
        error_write(w, code, words, facts);
        return;
    }
    enum tn_outcome outcome = tn_result_outcome(code);
    bool told = outcome != TN_COMMITTED || at_position;
    struct problem problem = {
        .code = code, .status = status, .outcome = told ? outcome : TN_REJECTED, .detail = words};
    problem_write(w, &problem, facts);
}

void protocol_render_refusal(struct protocol_writer *w, enum tn_result code, const char *detail) {
    protocol_render_refusal_at(w, code, detail, 0);
}

void protocol_render_refusal_at(struct protocol_writer *w, enum tn_result code, const char *detail,
                                uint64_t lsn) {
    struct facts facts = {.count = 0};
    if (lsn > 0) {
        fact_add(&facts, "lsn", NULL, lsn);
    }
    refusal_write(w, code, tn_result_http(code), detail, &facts, lsn > 0);
}

void protocol_render_readonly(struct protocol_writer *w, const char *leader, const char *http) {
    struct facts facts = {.count = 0};
    bool elsewhere = http[0] != '\0';
    if (leader[0] != '\0') {
        fact_add(&facts, "leader", leader, 0);
    }
    if (elsewhere) {
        fact_add(&facts, "leader_http", http, 0);
    }
    refusal_write(w, TN_R_READONLY, elsewhere ? 307 : tn_result_http(TN_R_READONLY), NULL, &facts,
                  false);
}

void protocol_render_problem(struct protocol_writer *w, int status, enum tn_outcome outcome,
                             const char *title, const char *detail) {
    protocol_write_map(w, detail != NULL ? 5 : 4);
    protocol_pair_text(w, "type", "about:blank");
    protocol_pair_text(w, "title", title);
    protocol_write_text(w, "status");
    protocol_write_integer(w, status);
    if (detail != NULL) {
        protocol_pair_text(w, "detail", detail);
    }
    protocol_pair_text(w, "outcome", outcomes[outcome]);
}

/* ---- Views ---- */

/* Whole seconds to the deadline, rounded up; null without one. */
static void pair_left(struct protocol_writer *w, const struct kernel_lease_view *view) {
    uint64_t left_ms = view->deadline_ms > view->now_ms ? view->deadline_ms - view->now_ms : 0;
    if (view->deadline_ms == 0) {
        protocol_write_text(w, "seconds_left");
        protocol_write_null(w);
    } else {
        protocol_pair_number(w, "seconds_left", left_ms / 1000 + (left_ms % 1000 != 0));
    }
}

void protocol_render_lease(struct protocol_writer *w, const struct kernel_lease_view *view,
                           uint32_t more) {
    bool waiting = view->state == KERNEL_WAITING;
    bool placed = waiting && view->waiting_before != KERNEL_BEFORE_UNKNOWN;
    protocol_write_map(w, 15 + (waiting ? 3u : 0u) + placed + more);
    pair_lease(w, view->id);
    protocol_pair_number(w, "epoch", view->epoch);
    protocol_pair_text(w, "state", kernel_state_name(view->state));
    protocol_pair_text(w, "reason", kernel_reason_name(view->reason));
    pair_bytes(w, "holder", view->holder, view->holder_len);
    pair_bytes(w, "user", view->user, view->user_len);
    protocol_pair_time(w, "deadline", view->deadline_ms);
    pair_left(w, view);
    protocol_pair_number(w, "ttl", view->ttl_s);
    protocol_pair_time(w, "created", view->created_ms);
    protocol_pair_time(w, "last_seen", view->last_seen_ms);
    protocol_pair_time(w, "offline_since", view->offline_since_ms);
    protocol_pair_time(w, "ended", view->ended_ms);
    protocol_pair_time(w, "ended_lsn", view->ended_lsn);
    protocol_pair_time(w, "retires", view->retires_ms);
    if (waiting) {
        protocol_pair_text(w, "waiting_for", tn_result_name(view->waiting_for));
        protocol_pair_text(w, "waiting_pool", view->waiting_pool);
        protocol_pair_flag(w, "attended", view->attended);
    }
    if (placed) {
        protocol_pair_number(w, "waiting_before", view->waiting_before);
    }
}

/* Its lease, or nulls. */
static void value_lease(struct protocol_writer *w, const struct kernel_lease_view *lease,
                        uint64_t until_ms) {
    if (lease != NULL) {
        pair_lease(w, lease->id);
        protocol_pair_number(w, "epoch", lease->epoch);
        pair_bytes(w, "holder", lease->holder, lease->holder_len);
    } else {
        protocol_pair_time(w, "lease", 0);
        protocol_pair_time(w, "epoch", 0);
        protocol_pair_time(w, "holder", 0);
    }
    protocol_pair_time(w, "until", until_ms);
}

/* The deadline of a lease is only for users who may see the lease; the end of a cooldown belongs to
 * the value. */
static uint64_t value_until(const struct kernel_value_view *view, bool seen) {
    bool held = view->has_lease && !kernel_state_terminal(view->lease.state);
    return held && !seen ? 0 : view->until_ms;
}

void protocol_render_value_row(struct protocol_writer *w, const struct kernel_value_view *view,
                               bool seen) {
    uint64_t more = view->last - view->value.number; /* both are 0 in a set */
    protocol_write_map(w, 8);
    protocol_write_text(w, "value");
    protocol_render_value(w, &view->value);
    protocol_write_text(w, "last");
    if (view->value.name_len > 0) {
        protocol_write_null(w);
    } else {
        struct kernel_value last = view->value;
        last.number = view->last;
        protocol_render_value(w, &last);
    }
    protocol_pair_number(w, "count", view->value.name_len > 0 ? 1 : more + (more != UINT64_MAX));
    protocol_pair_text(w, "state", kernel_value_state_name(view->state));
    value_lease(w, view->has_lease && seen ? &view->lease : NULL, value_until(view, seen));
}

void protocol_render_value_card(struct protocol_writer *w, struct tn_bytes pool,
                                const struct kernel_value_view *view, bool seen, uint32_t more) {
    const struct kernel_lease_view *lease = view->has_lease && seen ? &view->lease : NULL;
    bool last = lease != NULL && kernel_state_terminal(lease->state);
    char text[PROTOCOL_LEASE_TEXT];
    protocol_write_map(w, 10 + more);
    pair_bytes(w, "pool", (const char *)pool.at, (uint32_t)pool.len);
    protocol_write_text(w, "value");
    protocol_render_value(w, &view->value);
    protocol_pair_text(w, "state", kernel_value_state_name(view->state));
    value_lease(w, last ? NULL : lease, value_until(view, seen));
    if (last) {
        pair_bytes(w, "last_lease", text, protocol_lease_format(lease->id, text));
        pair_bytes(w, "last_holder", lease->holder, lease->holder_len);
    } else {
        protocol_pair_time(w, "last_lease", 0);
        protocol_pair_time(w, "last_holder", 0);
    }
    protocol_pair_time(w, "last_ended", last ? lease->ended_ms : 0);
}

static void pool_figures(struct protocol_writer *w, const struct kernel_pool_view *view) {
    protocol_pair_number(w, "size", view->size);
    protocol_pair_number(w, "free", view->free);
    protocol_pair_number(w, "excluded", view->excluded);
    protocol_pair_number(w, "reserved", view->reserved);
    protocol_pair_number(w, "active", view->active);
    protocol_pair_number(w, "offline", view->offline);
    protocol_pair_number(w, "revoking", view->revoking);
    protocol_pair_number(w, "cooling", view->cooling);
    protocol_pair_number(w, "waiting", view->waiting);
    protocol_pair_time(w, "waiting_since", view->waiting_since_ms);
    protocol_pair_number(w, "scopes", view->scopes);
    protocol_pair_number(w, "allocated_total", view->counters.allocated);
    protocol_pair_number(w, "returned_total", view->counters.returned);
    protocol_pair_number(w, "released_total", view->counters.released);
    protocol_pair_number(w, "expired_total", view->counters.expired);
    protocol_pair_number(w, "revoked_total", view->counters.revoked);
    protocol_write_text(w, "rate_per_hour");
    protocol_write_micro(w, view->rate_micro);
    protocol_pair_number(w, "effective_lease", view->effective_lease_s);
    protocol_pair_time(w, "next_free", view->next_free_ms);
    protocol_pair_time(w, "overdue_since", view->overdue_since_ms);
}

void protocol_render_pool(struct protocol_writer *w, const struct kernel_pool_view *view,
                          uint32_t more) {
    char text[KERNEL_OPTION_TEXT_MAX];
    protocol_write_map(w, 22 + more);
    pair_bytes(w, "pool", view->name, view->name_len);
    pool_figures(w, view);
    protocol_write_text(w, "options");
    uint32_t count = 0;
    for (unsigned i = 0; i < KERNEL_OPTION_ALL; i++) {
        count += kernel_option_applies(&view->policy, i);
    }
    protocol_write_map(w, count);
    for (unsigned i = 0; i < KERNEL_OPTION_ALL; i++) {
        const char *name = kernel_option_name(i);
        if (kernel_option_applies(&view->policy, i)) {
            kernel_option_show(&view->policy, i, text, sizeof text);
            protocol_pair_text(w, name, text);
        }
    }
}

void protocol_render_rule(struct protocol_writer *w, const struct kernel_rule_view *view,
                          const void *meta, uint32_t more) {
    bool shown = meta != NULL && view->meta_len > 0;
    bool counted = meta == NULL && view->meta_len > 0;
    protocol_write_map(w, (shown || counted ? 4 : 3) + more);
    pair_bytes(w, "id", view->id, view->id_len);
    pair_bytes(w, "trigger", view->trigger, view->trigger_len);
    protocol_pair_flag(w, "enabled", view->enabled);
    if (shown) {
        protocol_write_text(w, "meta");
        protocol_write_json(w, meta, view->meta_len);
    } else if (counted) {
        protocol_pair_number(w, "meta_bytes", view->meta_len);
    }
}

void protocol_render_sensor(struct protocol_writer *w, const struct kernel_sensor_view *view,
                            uint32_t more) {
    protocol_write_map(w, 5 + more);
    pair_bytes(w, "ref", view->ref, view->ref_len);
    pair_bytes(w, "trigger", view->trigger, view->trigger_len);
    protocol_pair_flag(w, "enabled", view->enabled);
    protocol_pair_flag(w, "wanted", view->wanted);
    protocol_pair_number(w, "active_rules", view->active_rules);
}
