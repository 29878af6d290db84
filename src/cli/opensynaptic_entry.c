/* An entry of `allocated` in id_allocation.json:
 *
 *     "17": {"meta": {...}, "ts": 1700000000, "last_seen": 1700000000, "lease_expires_at":
 *     1702592000,
 *            "device_key": "mac:AA:BB:CC:DD:EE:01", "state": "active", "offline_since": 0}
 *
 * Values are used as given or refused. Missing members, nulls and times of 0 have defaults: the
 * state is active, last_seen is ts, and the server's time and the pool's lease apply. */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "cli/opensynaptic.h"
#include "protocol/detail.h"
#include "protocol/identity.h"
#include "protocol/text.h"
#include "protocol/walk.h"

__attribute__((format(printf, 3, 4))) static bool refuse(struct opensynaptic_entry *entry,
                                                         enum tn_result result, const char *format,
                                                         ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(entry->reason, sizeof entry->reason, format, arguments);
    va_end(arguments);
    entry->result = result;
    return false;
}

static bool is_given(struct tn_bytes value) {
    return value.len > 0 && protocol_json_kind(value) != PROTOCOL_JSON_NULL;
}

static bool text_is(struct tn_bytes string, const char *text) {
    size_t len = strlen(text);
    return string.len == len + 2 && memcmp(string.at + 1, text, len) == 0;
}

/* ---- Times ---- */

static bool time_read(struct opensynaptic_entry *entry, struct tn_bytes object, const char *name,
                      uint64_t *ret_ms) {
    struct tn_bytes value = opensynaptic_member(object, name);
    uint64_t seconds = 0;
    *ret_ms = 0;
    if (!is_given(value)) {
        return true;
    }
    if (!opensynaptic_number(value, &seconds) || seconds > KERNEL_TIME_MAX / 1000) {
        return refuse(entry, TN_R_MALFORMED, "%s is %.*s: not whole seconds since 1970", name,
                      (int)(value.len < 40 ? value.len : 40), (const char *)value.at);
    }
    *ret_ms = seconds * 1000;
    return true;
}

static bool times_agree(struct opensynaptic_entry *e, const struct opensynaptic_pool *pool,
                        bool offline) {
    uint64_t seen_ms = e->seen_ms != 0 ? e->seen_ms : e->created_ms;
    uint64_t now_ms = pool->now_ms + 999; /* the file and we have whole seconds */
    if (e->created_ms > now_ms || e->seen_ms > now_ms || e->offline_ms > now_ms) {
        return refuse(e, TN_R_BAD_REQUEST, "%s is in the future, by the server's clock",
                      e->created_ms > now_ms ? "ts"
                      : e->seen_ms > now_ms  ? "last_seen"
                                             : "offline_since");
    }
    if (seen_ms < e->created_ms) {
        return refuse(e, TN_R_BAD_REQUEST, "last_seen is before ts");
    }
    if (offline != (e->offline_ms != 0)) {
        return refuse(e, TN_R_BAD_REQUEST,
                      offline ? "state is offline, but offline_since contradicts it"
                              : "state is active, but offline_since contradicts it");
    }
    if (offline && e->offline_ms < seen_ms) {
        return refuse(e, TN_R_BAD_REQUEST, "offline_since is before last_seen");
    }
    if (e->deadline_ms != 0 && e->deadline_ms <= pool->now_ms) {
        return refuse(e, TN_R_BAD_TTL,
                      "its lease ended %" PRIu64 " seconds ago; the id is free for other devices",
                      (pool->now_ms - e->deadline_ms) / 1000);
    }
    return true;
}

static bool times_read(struct opensynaptic_entry *entry, const struct opensynaptic_pool *pool,
                       struct tn_bytes object) {
    struct tn_bytes state = opensynaptic_member(object, "state");
    bool offline = text_is(state, "offline");
    if (is_given(state) && !offline && !text_is(state, "active")) {
        return refuse(entry, TN_R_MALFORMED, "state is %.*s: neither \"active\" nor \"offline\"",
                      (int)(state.len < 40 ? state.len : 40), (const char *)state.at);
    }
    return time_read(entry, object, "ts", &entry->created_ms) &&
           time_read(entry, object, "last_seen", &entry->seen_ms) &&
           time_read(entry, object, "lease_expires_at", &entry->deadline_ms) &&
           time_read(entry, object, "offline_since", &entry->offline_ms) &&
           times_agree(entry, pool, offline);
}

/* ---- Metadata and holder ---- */

/* Without the blanks between its tokens, which a file for people has many of. */
static void compact(struct cli_text *out, struct tn_bytes json) {
    bool quoted = false;
    out->len = 0;
    for (uint32_t i = 0; i < json.len; i++) {
        uint8_t c = json.at[i];
        if (!quoted && (c == ' ' || c == '\n' || c == '\r' || c == '\t')) {
            continue;
        }
        cli_text_add(out, json.at + i, 1);
        if (quoted && c == '\\') {
            cli_text_add(out, json.at + ++i, 1);
        } else if (c == '"') {
            quoted = !quoted;
        }
    }
}

static bool meta_read(struct opensynaptic_entry *entry, struct tn_bytes meta) {
    entry->meta.len = 0;
    if (!is_given(meta)) {
        return true;
    }
    if (protocol_json_kind(meta) != PROTOCOL_JSON_OBJECT) {
        return refuse(entry, TN_R_MALFORMED, "meta is not an object");
    }
    compact(&entry->meta, meta);
    if (entry->meta.failed) {
        return refuse(entry, TN_R_OVERLOADED, "out of memory");
    }
    return entry->meta.len <= KERNEL_META_MAX ||
           refuse(entry, TN_R_TOO_LARGE, "meta has %zu bytes; the limit is %u", entry->meta.len,
                  KERNEL_META_MAX);
}

static void holder_set(struct opensynaptic_entry *entry, const char *holder, uint32_t len) {
    memcpy(entry->holder, holder, len);
    entry->holder_len = len;
}

static bool holder_is(const struct opensynaptic_entry *entry, const char *holder, uint32_t len) {
    return len == entry->holder_len && memcmp(holder, entry->holder, len) == 0;
}

/* device_key by the rules for metadata: without blanks around it, hashed if it is too long. */
static bool key_read(struct opensynaptic_entry *entry, struct tn_bytes key, char *detail) {
    struct cli_text object = {.at = NULL};
    struct protocol_identity_key derived;
    cli_text_put(&object, "{\"device_key\":");
    cli_text_add(&object, key.at, key.len);
    cli_text_put(&object, "}");
    bool good = !object.failed &&
                protocol_identity_derive(tn_bytes_of(object.at, object.len),
                                         &(struct kernel_identity){0}, &derived, detail) == TN_R_OK;
    cli_text_free(&object);
    if (good) {
        holder_set(entry, derived.text, derived.len);
    }
    return good;
}

/* OpenSynaptic gives ids to devices that send neither a key nor metadata that names them. Such a
 * device cannot be told apart when it returns, but its id is in use: it gets a holder of its own,
 * made from the id, so that the import can be repeated. */
static void holder_nameless(struct opensynaptic_entry *entry) {
    int len = snprintf(entry->holder, sizeof entry->holder, OPENSYNAPTIC_NAMELESS "%.*s",
                       (int)(entry->id.len < 20 ? entry->id.len : 20), (const char *)entry->id.at);
    entry->holder_len = (uint32_t)len;
    entry->nameless = true;
}

static bool holder_read(struct opensynaptic_entry *entry, const struct opensynaptic_pool *pool,
                        bool derive, struct tn_bytes key) {
    char detail[PROTOCOL_DETAIL];
    struct protocol_identity_key derived;
    bool from_meta = entry->meta.len > 0 &&
                     protocol_identity_derive(tn_bytes_of(entry->meta.at, entry->meta.len),
                                              &pool->identity, &derived, detail) == TN_R_OK;
    bool has_key = is_given(key) && !text_is(key, "");
    if (has_key && protocol_json_kind(key) != PROTOCOL_JSON_STRING) {
        return refuse(entry, TN_R_MALFORMED, "device_key is not a string");
    }
    if (has_key && !(derive && from_meta)) {
        if (!key_read(entry, key, detail)) {
            return refuse(entry, TN_R_BAD_NAME, "device_key: %s", detail);
        }
        /* The server also finds a lease under a MAC address as it is written there. */
        entry->other_key = from_meta && !holder_is(entry, derived.text, derived.len) &&
                           !holder_is(entry, derived.raw, derived.raw_len);
    } else if (!from_meta) {
        holder_nameless(entry);
    } else {
        holder_set(entry, derived.text, derived.len);
    }
    const char *fault =
        protocol_name_fault(tn_bytes_of(entry->holder, entry->holder_len), KERNEL_HOLDER_MAX);
    return fault == NULL || refuse(entry, TN_R_BAD_NAME, "the device's key: %s", fault);
}

/* ---- All of it ---- */

static bool id_read(struct opensynaptic_entry *entry, const struct opensynaptic_pool *pool) {
    uint64_t number;
    if (!cli_number_parse(entry->id, &number)) {
        return refuse(entry, TN_R_BAD_VALUE, "the id is not a whole number");
    }
    return (number >= pool->lo && number <= pool->hi) ||
           refuse(entry, TN_R_BAD_VALUE, "the id is outside the pool, %" PRIu64 " to %" PRIu64,
                  pool->lo, pool->hi);
}

bool opensynaptic_entry_read(struct opensynaptic_entry *entry, const struct opensynaptic_pool *pool,
                             bool derive, struct tn_bytes key, struct tn_bytes value) {
    entry->id = tn_bytes_of(key.at + 1, key.len - 2);
    entry->holder_len = 0;
    entry->other_key = entry->nameless = false;
    entry->created_ms = entry->seen_ms = entry->deadline_ms = entry->offline_ms = 0;
    if (protocol_json_kind(value) != PROTOCOL_JSON_OBJECT) {
        return refuse(entry, TN_R_MALFORMED, "the entry is not an object");
    }
    return meta_read(entry, opensynaptic_member(value, "meta")) && id_read(entry, pool) &&
           holder_read(entry, pool, derive, opensynaptic_member(value, "device_key")) &&
           times_read(entry, pool, value);
}
