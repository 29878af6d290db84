/* Renders answers as replies. Field names are part of the protocol (docs/protocol.md): fields may
 * be added, never changed.
 *
 * A successful write is a map. Everything else is an error: the name of the result, a text for
 * people, then key=value pairs. The outcome of a write:
 *   a map, or an error with lsn=   committed: it is in the log
 *   -HALTED, -LOST                 unknown: it may have happened
 *   any other error                rejected: it did not happen
 *
 * In JSON an error is a problem (RFC 9457): type, title and status; detail, the specific text;
 * result, the name; outcome, one of the three above; and the pairs. */
#ifndef TN_PROTOCOL_RENDER_H
#define TN_PROTOCOL_RENDER_H

#include "kernel/result.h"
#include "protocol/resp.h"
#include "protocol/table.h"

#define PROTOCOL_LEASE_TEXT 44u

/* "0-1042", NUL-terminated; returns the length. */
uint32_t protocol_lease_format(struct kernel_lease_id lease, char out[PROTOCOL_LEASE_TEXT]);

#define PROTOCOL_EVENT_ID_TEXT 36u

/* "1042.0", NUL-terminated; returns the length. */
uint32_t protocol_event_id_format(uint64_t lsn, uint32_t index, char out[PROTOCOL_EVENT_ID_TEXT]);

void protocol_render_result(struct protocol_writer *w, const struct protocol_command *row,
                            const struct kernel_result *result);
/* render_quick.c, for render.c: OK or NOOP with a lease, in RESP, with one value that is a number if there are
 * `values`. False: it is another result or there is little room, and nothing was written. */
bool protocol_render_quick(struct protocol_writer *w, const struct kernel_result *result,
                           bool values);
/* BUSY with the holder of the lease on the value. Without the holder the lease is left out, too: it
 * is only for users who may see it. */
void protocol_render_busy(struct protocol_writer *w, const struct protocol_command *row,
                          const struct kernel_result *result, struct tn_bytes holder);
/* A refusal that never reached the log, or of a read. `detail` NULL: the result's own text. */
void protocol_render_refusal(struct protocol_writer *w, enum tn_result code, const char *detail);
/* The same, by the state at this log position; 0: the state was not asked. */
void protocol_render_refusal_at(struct protocol_writer *w, enum tn_result code, const char *detail,
                                uint64_t lsn);
/* READONLY with the address of the node that owns the log, and that of its HTTP interface: each is empty
 * if it is not known. With the latter the status in JSON is 307. */
void protocol_render_readonly(struct protocol_writer *w, const char *leader, const char *http);
/* JSON only: an error of HTTP itself, such as an unknown path. `title` is the text of the status.
 * */
void protocol_render_problem(struct protocol_writer *w, int status, enum tn_outcome outcome,
                             const char *title, const char *detail);
/* Bytes that any of these refusals fits in. */
#define PROTOCOL_PROBLEM_MAX 2560u

/* The status of the result. Exceptions: a reused operation id is 422, to distinguish it from other
 * conflicts; and if the lease authenticates the client, an ended lease is 401. */
int protocol_http_status(const struct protocol_command *row, const struct kernel_result *result);

/* Maps, or their parts. */
void protocol_render_value(struct protocol_writer *w, const struct kernel_value *value);
/* Without values and metadata: the caller adds `more` pairs. */
void protocol_render_lease(struct protocol_writer *w, const struct kernel_lease_view *view,
                           uint32_t more);
/* A row of POOL VALUES, and the map of VALUE. `seen`: whether its lease may be named. */
void protocol_render_value_row(struct protocol_writer *w, const struct kernel_value_view *view,
                               bool seen);
void protocol_render_value_card(struct protocol_writer *w, struct tn_bytes pool,
                                const struct kernel_value_view *view, bool seen, uint32_t more);
void protocol_render_pool(struct protocol_writer *w, const struct kernel_pool_view *view,
                          uint32_t more);
/* With `meta` (NULL: not shown) of view->meta_len bytes, and room for `more` pairs. */
void protocol_render_rule(struct protocol_writer *w, const struct kernel_rule_view *view,
                          const void *meta, uint32_t more);
void protocol_render_sensor(struct protocol_writer *w, const struct kernel_sensor_view *view,
                            uint32_t more);

/* One pair each. */
void protocol_pair_text(struct protocol_writer *w, const char *name, const char *text);
void protocol_pair_number(struct protocol_writer *w, const char *name, uint64_t number);
/* Milliseconds since 1970; 0 is null: never, or not known. */
void protocol_pair_time(struct protocol_writer *w, const char *name, uint64_t ms);
void protocol_pair_flag(struct protocol_writer *w, const char *name, bool flag);

#endif
