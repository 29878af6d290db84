/* Derives the holder from the metadata of a device when the client names none.
 *
 * The first that exists, in this order or that of the pool's identity_fields:
 *   device_key                              as it is, without blanks around it; top level only
 *   device_id, serial, mac, uuid            each at the top level, then inside device_meta;
 *                                           written name:value
 *   with identity_fallback = json:          meta: and the canonical JSON of device_meta; if that is
 *                                           missing or empty, request: and that of the whole object
 * A value must be a nonempty string or a nonzero integer. A mac of 12 or 16
 * hexadecimal digits, whatever its case and whether it is separated by : - or . or not at all, is
 * written 52:54:00:00:00:01.
 *
 * Canonical JSON is what Python's json.dumps(x, sort_keys=True, ensure_ascii=True) writes: keys in
 * the order of their code points, ", " and ": " between things, everything outside printable ASCII
 * as \uXXXX, numbers with a fraction in their shortest form.
 *
 * A key over 128 bytes is replaced by its prefix and the BLAKE2b-256 hash, in hex, of the rest (the
 * prefix of a device_key is device_key:). */
#ifndef TN_PROTOCOL_IDENTITY_H
#define TN_PROTOCOL_IDENTITY_H

#include "kernel/result.h"
#include "kernel/types.h"

struct protocol_identity_key {
    char text[KERNEL_HOLDER_MAX];
    uint32_t len;
    /* With the address as the client wrote it, which is the key of 0.1.0. */
    char raw[KERNEL_HOLDER_MAX];
    uint32_t raw_len; /* 0: the same */
};

/* `meta` is a JSON object that protocol_json_fault has passed. OK; or a refusal, with
 * the reason in `detail` (PROTOCOL_DETAIL bytes). */
enum tn_result protocol_identity_derive(struct tn_bytes meta,
                                        const struct kernel_identity *identity,
                                        struct protocol_identity_key *ret_key, char *detail);

/* The holder of the `count` ids that a device has in one lease: key#xCOUNT, in place, with the hash of
 * a key that leaves no room. Returns its length. */
uint32_t protocol_identity_several(char key[KERNEL_HOLDER_MAX], uint32_t len, uint32_t count);

#endif
