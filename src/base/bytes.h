/* Little-endian integers in byte buffers, and a bounded writer and reader over them.
 *
 * Both are total: a write past the capacity sets `overflow`, a read past the end sets `bad` and
 * yields zeros, and every later call keeps the flag. The caller checks once, at the end. */
#ifndef TN_BASE_BYTES_H
#define TN_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Tenure's disk formats are read in place: only little-endian machines are supported"
#endif

/* A borrowed run of bytes; never owns, never NUL-terminated. */
struct tn_bytes {
    const uint8_t *at;
    uint32_t len;
};

static inline struct tn_bytes tn_bytes_of(const void *at, size_t len) {
    return (struct tn_bytes){.at = at, .len = (uint32_t)len};
}

static inline bool tn_bytes_equal(struct tn_bytes a, struct tn_bytes b) {
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

static inline uint16_t tn_load16(const void *p) {
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint32_t tn_load32(const void *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint64_t tn_load64(const void *p) {
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void tn_store16(void *p, uint16_t v) {
    memcpy(p, &v, sizeof v);
}

static inline void tn_store32(void *p, uint32_t v) {
    memcpy(p, &v, sizeof v);
}

static inline void tn_store64(void *p, uint64_t v) {
    memcpy(p, &v, sizeof v);
}

struct tn_writer {
    uint8_t *at;
    size_t capacity;
    size_t len;
    bool overflow;
};

static inline struct tn_writer tn_writer_of(void *at, size_t capacity) {
    return (struct tn_writer){.at = at, .capacity = capacity};
}

static inline void tn_write_raw(struct tn_writer *w, const void *bytes, size_t len) {
    if (w->overflow || len > w->capacity - w->len) {
        w->overflow = true;
        return;
    }
    if (len > 0) {
        memcpy(w->at + w->len, bytes, len);
    }
    w->len += len;
}

static inline void tn_write8(struct tn_writer *w, uint8_t v) {
    tn_write_raw(w, &v, sizeof v);
}

static inline void tn_write16(struct tn_writer *w, uint16_t v) {
    tn_write_raw(w, &v, sizeof v);
}

static inline void tn_write32(struct tn_writer *w, uint32_t v) {
    tn_write_raw(w, &v, sizeof v);
}

static inline void tn_write64(struct tn_writer *w, uint64_t v) {
    tn_write_raw(w, &v, sizeof v);
}

/* A run of at most 65535 bytes with its length in front. */
static inline void tn_write_bytes16(struct tn_writer *w, struct tn_bytes b) {
    if (b.len > UINT16_MAX) {
        w->overflow = true;
        return;
    }
    tn_write16(w, (uint16_t)b.len);
    tn_write_raw(w, b.at, b.len);
}

struct tn_reader {
    const uint8_t *at;
    size_t len;
    size_t pos;
    bool bad;
};

static inline struct tn_reader tn_reader_of(const void *at, size_t len) {
    return (struct tn_reader){.at = at, .len = len};
}

static inline size_t tn_reader_left(const struct tn_reader *r) {
    return r->len - r->pos;
}

/* A bad reader stands at its end, so that every later read is bad by itself. */
static inline void tn_reader_spoil(struct tn_reader *r) {
    r->bad = true;
    r->pos = r->len;
}

static inline bool tn_read_raw(struct tn_reader *r, void *out, size_t len) {
    if (r->bad || len > r->len - r->pos) {
        tn_reader_spoil(r);
        if (len > 0) {
            memset(out, 0, len);
        }
        return false;
    }
    if (len > 0) { /* an empty reader may have no buffer */
        memcpy(out, r->at + r->pos, len);
        r->pos += len;
    }
    return true;
}

static inline uint8_t tn_read8(struct tn_reader *r) {
    if (r->pos == r->len) {
        tn_reader_spoil(r);
        return 0;
    }
    return r->at[r->pos++];
}

static inline uint16_t tn_read16(struct tn_reader *r) {
    if (r->len - r->pos < sizeof(uint16_t)) {
        tn_reader_spoil(r);
        return 0;
    }
    r->pos += sizeof(uint16_t);
    return tn_load16(r->at + r->pos - sizeof(uint16_t));
}

static inline uint32_t tn_read32(struct tn_reader *r) {
    if (r->len - r->pos < sizeof(uint32_t)) {
        tn_reader_spoil(r);
        return 0;
    }
    r->pos += sizeof(uint32_t);
    return tn_load32(r->at + r->pos - sizeof(uint32_t));
}

static inline uint64_t tn_read64(struct tn_reader *r) {
    if (r->len - r->pos < sizeof(uint64_t)) {
        tn_reader_spoil(r);
        return 0;
    }
    r->pos += sizeof(uint64_t);
    return tn_load64(r->at + r->pos - sizeof(uint64_t));
}

/* Borrows from the reader's buffer; empty when bad. */
static inline struct tn_bytes tn_read_bytes16(struct tn_reader *r) {
    uint16_t len = tn_read16(r);
    if (len > r->len - r->pos) {
        tn_reader_spoil(r);
        return (struct tn_bytes){.at = NULL, .len = 0};
    }
    struct tn_bytes b = {.at = r->at + r->pos, .len = len};
    r->pos += len;
    return b;
}

#endif
