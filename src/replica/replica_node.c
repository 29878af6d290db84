#include "replica/replica_node.h"

#include <string.h>

#include "base/assert.h"
#include "base/hash.h"

#define FORMAT 1u

static const char magic[8] = {'T', 'E', 'N', 'U', 'R', 'E', 'N', 'D'};

static void text_write(struct tn_writer *w, const char *text) {
    tn_write_bytes16(w, tn_bytes_of(text, strlen(text)));
}

uint32_t replica_node_encode(const struct replica_node *node, uint8_t out[REPLICA_NODE_BYTES_MAX]) {
    struct tn_writer w = tn_writer_of(out, REPLICA_NODE_BYTES_MAX);
    tn_write_raw(&w, magic, sizeof magic);
    tn_write32(&w, FORMAT);
    tn_write32(&w, node->state_version);
    tn_write64(&w, node->instance.words[0]);
    tn_write64(&w, node->instance.words[1]);
    tn_write64(&w, node->beat);
    tn_write64(&w, node->wall_ms);
    tn_write64(&w, node->epoch);
    tn_write64(&w, node->applied_lsn);
    tn_write64(&w, node->copied_lsn);
    tn_write64(&w, node->snapshot_lsn);
    tn_write64(&w, node->clean_epoch);
    tn_write64(&w, node->config_digest);
    tn_write_raw(&w, node->boot_id, sizeof node->boot_id);
    text_write(&w, node->name);
    text_write(&w, node->address);
    text_write(&w, node->http);
    text_write(&w, node->version);
    tn_write32(&w, tn_crc32c(0, out, w.len));
    TN_ASSERT(!w.overflow);
    return (uint32_t)w.len;
}

/* A text of at most `max` bytes, none of which is zero. */
static bool text_read(struct tn_reader *r, char *out, size_t max) {
    size_t len = tn_read16(r);
    if (r->bad || len > max || !tn_read_raw(r, out, len)) {
        return false;
    }
    out[len] = '\0';
    return strlen(out) == len;
}

enum tn_status replica_node_decode(struct tn_bytes bytes, struct replica_node *ret_node) {
    char found[8];
    struct replica_node node;
    struct tn_reader r = tn_reader_of(bytes.at, bytes.len < 4 ? 0 : bytes.len - 4);
    if (!tn_read_raw(&r, found, sizeof found) || memcmp(found, magic, sizeof found) != 0) {
        return TN_CORRUPT;
    }
    uint32_t format = tn_read32(&r);
    if (r.bad || tn_load32(bytes.at + r.len) != tn_crc32c(0, bytes.at, r.len)) {
        return TN_CORRUPT;
    }
    if (format != FORMAT) {
        return TN_VERSION;
    }
    memset(&node, 0, sizeof node);
    node.state_version = tn_read32(&r);
    node.instance.words[0] = tn_read64(&r);
    node.instance.words[1] = tn_read64(&r);
    node.beat = tn_read64(&r);
    node.wall_ms = tn_read64(&r);
    node.epoch = tn_read64(&r);
    node.applied_lsn = tn_read64(&r);
    node.copied_lsn = tn_read64(&r);
    node.snapshot_lsn = tn_read64(&r);
    node.clean_epoch = tn_read64(&r);
    node.config_digest = tn_read64(&r);
    (void)tn_read_raw(&r, node.boot_id, sizeof node.boot_id);
    if (!text_read(&r, node.name, REPLICA_NODE_MAX) ||
        !text_read(&r, node.address, REPLICA_ADDRESS_MAX) ||
        !text_read(&r, node.http, REPLICA_ADDRESS_MAX) ||
        !text_read(&r, node.version, REPLICA_LABEL_MAX) || tn_reader_left(&r) != 0) {
        return TN_CORRUPT;
    }
    *ret_node = node;
    return TN_OK;
}
