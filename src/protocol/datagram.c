/* Parses datagrams to requests and encodes answers. */
#include "protocol/datagram.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "kernel/types.h"
#include "protocol/detail.h"
#include "protocol/text.h"

enum { ASK_ONE = 1, GIVE_ONE = 2, ASK_MANY = 3, GIVE_MANY = 4, FAILURE = 6 };

#define ONE_LEN 15u
#define MANY_LEN 5u

/* ---- Requests ---- */

static uint16_t load16(const uint8_t *at) {
    return (uint16_t)(at[0] << 8 | at[1]);
}

static bool is_blank(uint8_t c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static struct tn_bytes trimmed(struct tn_bytes text) {
    while (text.len > 0 && is_blank(text.at[0])) {
        text.at++;
        text.len--;
    }
    while (text.len > 0 && is_blank(text.at[text.len - 1])) {
        text.len--;
    }
    return text;
}

static enum protocol_udp bad(char *detail, const char *why) {
    (void)snprintf(detail, PROTOCOL_DETAIL, "%s", why);
    return PROTOCOL_UDP_BAD;
}

enum protocol_udp protocol_udp_parse(struct tn_bytes datagram, struct protocol_udp_request *ret,
                                     char *detail) {
    uint32_t head = PROTOCOL_UDP_HEADER;
    if (datagram.len < head || (datagram.at[0] != ASK_ONE && datagram.at[0] != ASK_MANY)) {
        return PROTOCOL_UDP_NOTHING;
    }
    *ret = (struct protocol_udp_request){.many = datagram.at[0] == ASK_MANY,
                                         .sequence = load16(datagram.at + 1),
                                         .count = 1,
                                         .reply_len = ONE_LEN};
    if (ret->many) {
        head = MANY_LEN;
        if (datagram.len < head) {
            return bad(detail, "the count is missing");
        }
        ret->count = load16(datagram.at + PROTOCOL_UDP_HEADER);
        ret->reply_len = MANY_LEN + 4 * ret->count;
        if (ret->count == 0 || ret->count > PROTOCOL_UDP_COUNT_MAX) {
            return bad(detail, "the count is outside 1 to 256");
        }
    }
    ret->meta = trimmed(tn_bytes_of(datagram.at + head, datagram.len - head));
    if (ret->meta.len > KERNEL_META_MAX) {
        return bad(detail, "metadata has more than 4096 bytes");
    }
    const char *fault = protocol_json_fault(ret->meta);
    return fault != NULL ? bad(detail, fault) : PROTOCOL_UDP_OK;
}

/* ---- Replies ---- */

static void put(struct tn_writer *w, uint64_t number, unsigned bytes) {
    while (bytes-- > 0) {
        tn_write8(w, (uint8_t)(number >> (8 * bytes)));
    }
}

static struct tn_writer begin(uint8_t *out, uint8_t type, uint16_t sequence) {
    struct tn_writer w = tn_writer_of(out, PROTOCOL_UDP_REPLY_MAX);
    put(&w, type, 1);
    put(&w, sequence, 2);
    return w;
}

size_t protocol_udp_one(uint8_t *out, uint16_t sequence, uint32_t id, uint64_t seconds) {
    struct tn_writer w = begin(out, GIVE_ONE, sequence);
    put(&w, id, 4);
    put(&w, seconds, 8);
    TN_ASSERT(w.len == ONE_LEN);
    return w.len;
}

size_t protocol_udp_many(uint8_t *out, uint16_t sequence, const uint32_t *ids, uint32_t count) {
    struct tn_writer w = begin(out, GIVE_MANY, sequence);
    TN_ASSERT(count <= PROTOCOL_UDP_COUNT_MAX);
    put(&w, count, 2);
    for (uint32_t i = 0; i < count; i++) {
        put(&w, ids[i], 4);
    }
    TN_ASSERT(!w.overflow);
    return w.len;
}

size_t protocol_udp_failure(uint8_t *out, uint16_t sequence, const char *reason) {
    struct tn_writer w = begin(out, FAILURE, sequence);
    tn_write_raw(&w, reason, strnlen(reason, PROTOCOL_UDP_REASON_MAX));
    return w.len;
}

/* ---- Operations ---- */

void protocol_udp_operation(struct tn_bytes source, struct tn_bytes datagram,
                            char out[PROTOCOL_UDP_OPERATION]) {
    uint8_t hash[16];
    crypto_generichash_state state;
    (void)crypto_generichash_init(&state, NULL, 0, sizeof hash);
    (void)crypto_generichash_update(&state, (const uint8_t *)&source.len, sizeof source.len);
    (void)crypto_generichash_update(&state, source.at, source.len);
    (void)crypto_generichash_update(&state, datagram.at, datagram.len);
    (void)crypto_generichash_final(&state, hash, sizeof hash);
    (void)snprintf(out, PROTOCOL_UDP_OPERATION, "udp:");
    (void)sodium_bin2hex(out + 4, PROTOCOL_UDP_OPERATION - 4, hash, sizeof hash);
}
