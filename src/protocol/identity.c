/* Derives holders from metadata. jansson parses the document; it allocates memory, which is freed
 * before the call returns. */
#include "protocol/identity.h"

#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "kernel/option.h"
#include "protocol/detail.h"
#include "protocol/text.h"

/* ---- Canonical JSON ---- */

/* A two-byte character becomes six, a comma two, and 1e15 becomes 1000000000000000.0. */
#define CANONICAL_MAX (8u * KERNEL_META_MAX)
#define ENTRIES_MAX (KERNEL_META_MAX / 2u) /* an element and its comma */

struct entry {
    const char *key; /* NULL: of an array */
    const json_t *value;
};

/* Objects and arrays that are open. Their entries are in one array, the innermost last. */
struct canonical {
    struct tn_writer out;
    struct entry entries[ENTRIES_MAX];
    uint32_t used;
    struct {
        uint32_t next, end;
        bool object, begun;
    } levels[PROTOCOL_JSON_DEPTH + 1];
    uint32_t depth;
};

static void put(struct canonical *c, const char *text) {
    tn_write_raw(&c->out, text, strlen(text));
}

static void put_unit(struct canonical *c, uint32_t unit) {
    char text[8];
    (void)snprintf(text, sizeof text, "\\u%04x", unit & 0xffff);
    put(c, text);
}

/* One character from valid UTF-8. */
static uint32_t code_point(const uint8_t **at) {
    uint32_t c = *(*at)++;
    uint32_t more = c >= 0xf0 ? 3 : (c >= 0xe0 ? 2 : (c >= 0xc0 ? 1 : 0));
    c = more > 0 ? c & (0x3fu >> more) : c;
    for (; more > 0; more--) {
        c = c << 6 | (*(*at)++ & 0x3fu);
    }
    return c;
}

static void put_string(struct canonical *c, const char *text) {
    static const char escaped[] = "\"\\\n\r\t\f\b";
    static const char letters[] = "\"\\nrtfb";
    const uint8_t *at = (const uint8_t *)text;
    tn_write8(&c->out, '"');
    while (*at != '\0') {
        uint32_t point = code_point(&at);
        const char *known = point < 0x80 ? strchr(escaped, (int)point) : NULL;
        if (known != NULL) {
            tn_write8(&c->out, '\\');
            tn_write8(&c->out, (uint8_t)letters[known - escaped]);
        } else if (point >= ' ' && point < 0x7f) {
            tn_write8(&c->out, (uint8_t)point);
        } else if (point < 0x10000) {
            put_unit(c, point);
        } else {
            put_unit(c, 0xd800 + ((point - 0x10000) >> 10));
            put_unit(c, 0xdc00 + ((point - 0x10000) & 0x3ff));
        }
    }
    tn_write8(&c->out, '"');
}

/* The shortest digits that read back as the same number, in Python's notation: an exponent below
 * 1e-4 and from 1e16 on, and always a point or an exponent. */
static void put_real(struct canonical *c, double number) {
    char digits[40];
    int precision = 0;
    do {
        (void)snprintf(digits, sizeof digits, "%.*e", precision, number);
    } while (precision++ < 17 && strtod(digits, NULL) != number);
    char *e = strchr(digits, 'e');
    TN_ASSERT(e != NULL);
    long exponent = strtol(e + 1, NULL, 10);
    if (exponent >= -4 && exponent < 16) {
        long significant = e - digits - (digits[0] == '-');
        long decimals = (significant > 1 ? significant - 2 : 0) - exponent;
        (void)snprintf(digits, sizeof digits, "%.*f", (int)(decimals > 1 ? decimals : 1), number);
    }
    put(c, digits);
}

static int entry_order(const void *a, const void *b) {
    const struct entry *x = a;
    const struct entry *y = b;
    return strcmp(x->key, y->key);
}

static void open_level(struct canonical *c, const json_t *value) {
    uint32_t first = c->used;
    bool object = json_is_object(value);
    if (object) {
        /* jansson's iterators are not const, though they change nothing. */
        json_t *from = (json_t *)(uintptr_t)value;
        for (void *i = json_object_iter(from); i != NULL; i = json_object_iter_next(from, i)) {
            TN_ASSERT(c->used < ENTRIES_MAX);
            c->entries[c->used++] =
                (struct entry){.key = json_object_iter_key(i), .value = json_object_iter_value(i)};
        }
        qsort(&c->entries[first], c->used - first, sizeof c->entries[0], entry_order);
    } else {
        for (size_t i = 0; i < json_array_size(value); i++) {
            TN_ASSERT(c->used < ENTRIES_MAX);
            c->entries[c->used++] = (struct entry){.value = json_array_get(value, i)};
        }
    }
    TN_ASSERT(c->depth <= PROTOCOL_JSON_DEPTH);
    c->levels[c->depth].next = first;
    c->levels[c->depth].end = c->used;
    c->levels[c->depth].object = object;
    c->levels[c->depth].begun = false;
    c->depth++;
    put(c, object ? "{" : "[");
}

static void put_scalar(struct canonical *c, const json_t *value) {
    char number[32];
    switch (json_typeof(value)) {
    case JSON_STRING:
        put_string(c, json_string_value(value));
        break;
    case JSON_INTEGER:
        (void)snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        put(c, number);
        break;
    case JSON_REAL:
        put_real(c, json_real_value(value));
        break;
    default:
        put(c, json_is_true(value) ? "true" : (json_is_false(value) ? "false" : "null"));
    }
}

static struct tn_bytes canonical_write(struct canonical *c, uint8_t *buffer, const json_t *root) {
    c->out = tn_writer_of(buffer, CANONICAL_MAX);
    c->used = c->depth = 0;
    open_level(c, root);
    while (c->depth > 0) {
        uint32_t top = c->depth - 1;
        if (c->levels[top].next == c->levels[top].end) {
            put(c, c->levels[top].object ? "}" : "]");
            c->depth--;
            continue;
        }
        const struct entry *entry = &c->entries[c->levels[top].next++];
        put(c, c->levels[top].begun ? ", " : "");
        c->levels[top].begun = true;
        if (entry->key != NULL) {
            put_string(c, entry->key);
            put(c, ": ");
        }
        if (json_is_object(entry->value) || json_is_array(entry->value)) {
            open_level(c, entry->value);
        } else {
            put_scalar(c, entry->value);
        }
    }
    TN_ASSERT(!c->out.overflow);
    return tn_bytes_of(buffer, c->out.len);
}

/* ---- Keys ---- */

static uint32_t key_hash(const char *prefix, struct tn_bytes value, char out[KERNEL_HOLDER_MAX]) {
    uint8_t hash[32];
    char hex[2 * sizeof hash + 1];
    struct tn_writer w = tn_writer_of(out, KERNEL_HOLDER_MAX);
    (void)crypto_generichash(hash, sizeof hash, value.at, value.len, NULL, 0);
    (void)sodium_bin2hex(hex, sizeof hex, hash, sizeof hash);
    tn_write_raw(&w, prefix, strlen(prefix));
    tn_write_raw(&w, hex, sizeof hex - 1);
    TN_ASSERT(!w.overflow);
    return (uint32_t)w.len;
}

static uint32_t key_store(const char *prefix, bool shown, struct tn_bytes value,
                          char out[KERNEL_HOLDER_MAX]) {
    struct tn_writer w = tn_writer_of(out, KERNEL_HOLDER_MAX);
    if (shown) {
        tn_write_raw(&w, prefix, strlen(prefix));
    }
    tn_write_raw(&w, value.at, value.len);
    if (!w.overflow) {
        return (uint32_t)w.len;
    }
    return key_hash(prefix, value, out);
}

/* The text of a value that counts; false if it does not. `number` is 24 bytes for digits. */
static bool value_text(const json_t *value, char *number, struct tn_bytes *ret_text) {
    if (json_is_string(value) && json_string_length(value) > 0) {
        *ret_text = tn_bytes_of(json_string_value(value), json_string_length(value));
        return true;
    }
    if (json_is_integer(value) && json_integer_value(value) != 0) {
        int len = snprintf(number, 24, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        *ret_text = tn_bytes_of(number, (size_t)len);
        return true;
    }
    return false;
}

static struct tn_bytes trim(struct tn_bytes text) {
    while (text.len > 0 && text.at[text.len - 1] <= ' ') {
        text.len--;
    }
    while (text.len > 0 && text.at[0] <= ' ') {
        text.at++;
        text.len--;
    }
    return text;
}

/* ---- MAC addresses ---- */

#define MAC_OCTETS_MAX 8u
#define MAC_TEXT_MAX (3u * MAC_OCTETS_MAX)

static int hex_digit(uint8_t c) {
    uint8_t lower = c | 0x20;
    return c >= '0' && c <= '9' ? c - '0' : (lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1);
}

/* Writes 48 or 64 bits as aa:bb:cc:dd:ee:ff. 0: it is not such an address, and is used
 * unchanged. */
static uint32_t mac_normalize(struct tn_bytes text, char out[MAC_TEXT_MAX]) {
    uint32_t digits = 0, len = 0;
    for (uint32_t i = 0; i < text.len; i++) {
        uint8_t c = text.at[i];
        if (c == ':' || c == '-' || c == '.') {
            continue;
        }
        if (hex_digit(c) < 0 || digits == 2 * MAC_OCTETS_MAX) {
            return 0;
        }
        if (digits > 0 && digits % 2 == 0) {
            out[len++] = ':';
        }
        out[len++] = "0123456789abcdef"[hex_digit(c)];
        digits++;
    }
    return digits == 12 || digits == 16 ? len : 0;
}

/* ---- Keys from fields ---- */

static bool key_by_device_key(const json_t *root, struct protocol_identity_key *key) {
    char number[24];
    struct tn_bytes text;
    if (!value_text(json_object_get(root, "device_key"), number, &text)) {
        return false;
    }
    text = trim(text);
    if (text.len > 0) {
        key->len = key_store("device_key:", false, text, key->text);
    }
    return text.len > 0;
}

static bool key_by_name(const json_t *root, enum kernel_identity_field field,
                        struct protocol_identity_key *key) {
    const char *name = kernel_identity_name(field);
    const json_t *value = json_object_get(root, name);
    char number[24];
    char prefix[16];
    char mac[MAC_TEXT_MAX];
    struct tn_bytes text;
    if (!value_text(value, number, &text)) {
        value = json_object_get(json_object_get(root, "device_meta"), name);
        if (!value_text(value, number, &text)) {
            return false;
        }
    }
    (void)snprintf(prefix, sizeof prefix, "%s:", name);
    key->len = key_store(prefix, true, text, key->text);
    uint32_t len =
        field == KERNEL_IDENTITY_MAC && json_is_string(value) ? mac_normalize(text, mac) : 0;
    if (len > 0 && !tn_bytes_equal(text, tn_bytes_of(mac, len))) {
        key->raw_len = key->len;
        memcpy(key->raw, key->text, key->len);
        key->len = key_store(prefix, true, tn_bytes_of(mac, len), key->text);
    }
    return true;
}

/* False: there is no field to go by. */
static bool key_by_field(const json_t *root, uint64_t fields, struct protocol_identity_key *key) {
    for (unsigned i = 0; i < KERNEL_IDENTITY_LAST; i++) {
        enum kernel_identity_field field = kernel_identity_field_at(fields, i);
        if (field == 0) {
            return false;
        }
        if (field == KERNEL_IDENTITY_DEVICE_KEY ? key_by_device_key(root, key)
                                                : key_by_name(root, field, key)) {
            return true;
        }
    }
    return false;
}

static uint32_t key_by_content(const json_t *root, char out[KERNEL_HOLDER_MAX]) {
    struct canonical canonical;
    uint8_t buffer[CANONICAL_MAX];
    const json_t *inner = json_object_get(root, "device_meta");
    bool meta = json_is_object(inner) && json_object_size(inner) > 0;
    struct tn_bytes text = canonical_write(&canonical, buffer, meta ? inner : root);
    return key_store(meta ? "meta:" : "request:", true, text, out);
}

static enum tn_result nothing_found(const struct kernel_identity *identity, char *detail) {
    char fields[64] = "";
    struct kernel_policy policy = {.of[KERNEL_OPTION_IDENTITY] = identity->fields};
    (void)kernel_option_format(&policy, "identity_fields", fields, sizeof fields);
    if (identity->fallback_json) {
        (void)snprintf(detail, PROTOCOL_DETAIL, "holder *: META is empty, so it names no device");
    } else {
        (void)snprintf(detail, PROTOCOL_DETAIL,
                       "holder *: META has none of %s, and the pool has no identity_fallback",
                       fields);
    }
    return TN_R_BAD_REQUEST;
}

enum tn_result protocol_identity_derive(struct tn_bytes meta,
                                        const struct kernel_identity *identity,
                                        struct protocol_identity_key *ret_key, char *detail) {
    json_error_t error;
    json_t *root = json_loadb((const char *)meta.at, meta.len, 0, &error);
    if (root == NULL) {
        (void)snprintf(detail, PROTOCOL_DETAIL, "cannot derive a holder from META: %.80s",
                       error.text);
        return TN_R_MALFORMED;
    }
    ret_key->len = ret_key->raw_len = 0;
    if (!key_by_field(root, identity->fields, ret_key) && identity->fallback_json &&
        json_object_size(root) > 0) {
        ret_key->len = key_by_content(root, ret_key->text);
    }
    json_decref(root);
    if (ret_key->len == 0) {
        return nothing_found(identity, detail);
    }
    const char *why =
        protocol_name_fault(tn_bytes_of(ret_key->text, ret_key->len), KERNEL_HOLDER_MAX);
    if (why != NULL) {
        (void)snprintf(detail, PROTOCOL_DETAIL, "the derived holder: %s", why);
        return TN_R_BAD_NAME;
    }
    return TN_R_OK;
}

uint32_t protocol_identity_several(char key[KERNEL_HOLDER_MAX], uint32_t len, uint32_t count) {
    char suffix[16];
    uint32_t more = (uint32_t)snprintf(suffix, sizeof suffix, "#x%u", count);
    if (len + more > KERNEL_HOLDER_MAX) {
        len = key_hash("device_key:", tn_bytes_of(key, len), key);
    }
    memcpy(key + len, suffix, more);
    return len + more;
}
