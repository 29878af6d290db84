/* Results and views as replies. */
#include "protocol/render.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "protocol/option.h"

uint32_t protocol_lease_format(struct kernel_lease_id lease, char out[PROTOCOL_LEASE_TEXT]) {
    uint32_t len = kernel_value_format(KERNEL_DEC, lease.shard, out);
    out[len++] = '-';
    return len + kernel_value_format(KERNEL_DEC, lease.lsn, out + len);
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

void protocol_pair_time(struct protocol_writer *w, const char *name, uint64_t ms) {
    protocol_write_text(w, name);
    if (ms == 0) {
        protocol_write_null(w);
    } else {
        protocol_write_u64(w, ms);
    }
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

/* What `number` means for a command that succeeded; NULL: nothing. */
static const char *number_name(const struct protocol_command *row) {
    switch (row->verb) {
    case KERNEL_VERB_SWEEP:
        return "freed";
    case KERNEL_VERB_DISOWN:
        return "released";
    case KERNEL_VERB_POOL_ADD:
        return "added";
    case KERNEL_VERB_POOL_REMOVE:
        return "removed";
    default:
        return NULL;
    }
}

static void result_done(struct protocol_writer *w, const struct protocol_command *row,
                        const struct kernel_result *result) {
    const char *number = number_name(row);
    bool values = row->verb == KERNEL_VERB_ALLOC || row->verb == KERNEL_VERB_RESERVE;
    protocol_write_map(w, 3 + (result->has_lease ? 4u : 0u) + (number != NULL) + values);
    protocol_pair_text(w, "result", tn_result_name(result->code));
    if (result->has_lease) {
        pair_lease(w, result->lease);
        protocol_pair_number(w, "epoch", result->epoch);
        protocol_pair_text(w, "state", kernel_state_name(result->state));
        protocol_pair_time(w, "deadline", result->deadline_ms);
    }
    if (values) {
        protocol_write_text(w, "values");
        protocol_write_array(w, result->value_count);
        for (uint32_t i = 0; i < result->value_count; i++) {
            protocol_render_value(w, &result->values[i]);
        }
    }
    if (number != NULL) {
        protocol_pair_number(w, number, result->number);
    }
    protocol_pair_number(w, "lsn", result->lsn);
    protocol_pair_flag(w, "replayed", result->replayed);
}

struct line {
    char text[512];
    size_t len;
};

__attribute__((format(printf, 2, 3))) static void line_add(struct line *line, const char *format,
                                                           ...) {
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(line->text + line->len, sizeof line->text - line->len, format, arguments);
    va_end(arguments);
    line->len += len > 0 ? (size_t)len : 0;
    if (line->len >= sizeof line->text) {
        line->len = sizeof line->text - 1;
    }
}

/* The facts that a refusal carries. */
static void line_facts(struct line *line, const struct kernel_result *result) {
    switch (result->code) {
    case TN_R_EXHAUSTED:
        if (result->retry_at_ms != 0) {
            line_add(line, " retry_at=%" PRIu64, result->retry_at_ms);
        }
        break;
    case TN_R_BAD_TTL:
    case TN_R_QUOTA:
    case TN_R_TOO_LARGE:
        line_add(line, " cap=%" PRIu64, result->number);
        break;
    case TN_R_BAD_VALUE:
    case TN_R_BUSY:
        line_add(line, " index=%" PRIu64, result->number);
        break;
    default:
        break;
    }
    if (result->has_lease) {
        char lease[PROTOCOL_LEASE_TEXT];
        (void)protocol_lease_format(result->lease, lease);
        line_add(line, " lease=%s epoch=%" PRIu64 " state=%s", lease, result->epoch,
                 kernel_state_name(result->state));
    }
}

void protocol_render_result(struct protocol_writer *w, const struct protocol_command *row,
                            const struct kernel_result *result) {
    if (result->code == TN_R_OK || result->code == TN_R_NOOP) {
        result_done(w, row, result);
        return;
    }
    struct line line = {.len = 0};
    line_add(&line, "%s %s", tn_result_name(result->code), tn_result_text(result->code));
    line_facts(&line, result);
    if (result->lsn > 0 && tn_result_outcome(result->code) == TN_COMMITTED) {
        line_add(&line, "%s lsn=%" PRIu64, result->replayed ? " replayed=1" : "", result->lsn);
    }
    protocol_write_error(w, line.text);
}

void protocol_render_refusal(struct protocol_writer *w, enum tn_result code, const char *detail) {
    struct line line = {.len = 0};
    line_add(&line, "%s %s", tn_result_name(code),
             detail != NULL && detail[0] != '\0' ? detail : tn_result_text(code));
    protocol_write_error(w, line.text);
}

/* ---- Views ---- */

void protocol_render_lease(struct protocol_writer *w, const struct kernel_lease_view *view,
                           uint32_t more) {
    protocol_write_map(w, 12 + more);
    pair_lease(w, view->id);
    protocol_pair_number(w, "epoch", view->epoch);
    protocol_pair_text(w, "state", kernel_state_name(view->state));
    protocol_pair_text(w, "reason", kernel_reason_name(view->reason));
    pair_bytes(w, "holder", view->holder, view->holder_len);
    pair_bytes(w, "user", view->user, view->user_len);
    protocol_pair_time(w, "deadline", view->deadline_ms);
    protocol_pair_number(w, "ttl", view->ttl_s);
    protocol_pair_time(w, "created", view->created_ms);
    protocol_pair_time(w, "last_seen", view->last_seen_ms);
    protocol_pair_time(w, "offline_since", view->offline_since_ms);
    protocol_pair_time(w, "ended", view->ended_ms);
}

static void pool_figures(struct protocol_writer *w, const struct kernel_pool_view *view) {
    uint64_t taken = view->reserved + view->active + view->offline + view->revoking + view->cooling;
    protocol_pair_number(w, "size", view->size);
    protocol_pair_number(w, "free", view->size - taken);
    protocol_pair_number(w, "reserved", view->reserved);
    protocol_pair_number(w, "active", view->active);
    protocol_pair_number(w, "offline", view->offline);
    protocol_pair_number(w, "revoking", view->revoking);
    protocol_pair_number(w, "cooling", view->cooling);
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
}

void protocol_render_pool(struct protocol_writer *w, const struct kernel_pool_view *view,
                          uint32_t more) {
    char text[PROTOCOL_OPTION_TEXT];
    protocol_write_map(w, 18 + more);
    pair_bytes(w, "pool", view->name, view->name_len);
    pool_figures(w, view);
    protocol_write_text(w, "options");
    protocol_write_map(w, KERNEL_OPTION_COUNT + 1);
    for (unsigned i = 0; i < KERNEL_OPTION_COUNT; i++) {
        (void)protocol_option_format(&view->policy, kernel_option_rows[i].name, text, sizeof text);
        protocol_pair_text(w, kernel_option_rows[i].name, text);
    }
    (void)protocol_option_format(&view->policy, "exclude", text, sizeof text);
    protocol_pair_text(w, "exclude", text);
}

void protocol_render_rule(struct protocol_writer *w, const struct kernel_rule_view *view) {
    protocol_write_map(w, 3);
    pair_bytes(w, "id", view->id, view->id_len);
    pair_bytes(w, "trigger", view->trigger, view->trigger_len);
    protocol_pair_flag(w, "enabled", view->enabled);
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
