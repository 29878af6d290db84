/* Keys: names, the file, rotation. */
#include "token/token_key.h"

#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "os/file_whole.h"

#define HEAD_BYTES 16u
#define KEY_BYTES 88u
#define FILE_BYTES_MAX TOKEN_KEYS_FILE_MAX
#define PATH_MAX_BYTES 4096u
/* The old key signs until the new one is on disk and in place. */
#define ROTATION_SECONDS 3600u

static const char magic[8] = {'T', 'N', 'K', 'E', 'Y', 'S', '1', '\n'};

_Static_assert(TOKEN_KEY_BYTES == crypto_sign_PUBLICKEYBYTES, "a public key of Ed25519");
_Static_assert(TOKEN_KEY_BYTES == crypto_sign_SEEDBYTES, "a seed of Ed25519");
_Static_assert(TOKEN_KEY_TEXT + 1 ==
                   sodium_base64_ENCODED_LEN(32, sodium_base64_VARIANT_URLSAFE_NO_PADDING),
               "32 bytes in base64url");

__attribute__((format(printf, 3, 4))) static enum tn_status fail(enum tn_status status,
                                                                 char reason[TOKEN_REASON_MAX],
                                                                 const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(reason, TOKEN_REASON_MAX, format, arguments);
    va_end(arguments);
    return status;
}

/* ---- Names ---- */

static void text_of(const uint8_t bytes[TOKEN_KEY_BYTES], char out[TOKEN_KEY_TEXT + 1]) {
    (void)sodium_bin2base64(out, TOKEN_KEY_TEXT + 1, bytes, TOKEN_KEY_BYTES,
                            sodium_base64_VARIANT_URLSAFE_NO_PADDING);
}

void token_key_name(struct token_key *key) {
    uint8_t hash[crypto_hash_sha256_BYTES];
    char canonical[128];
    text_of(key->public_key, key->text);
    /* RFC 7638: the relevant members in this order, without blanks. */
    int len = snprintf(canonical, sizeof canonical,
                       "{\"crv\":\"Ed25519\",\"kty\":\"OKP\",\"x\":\"%s\"}", key->text);
    (void)crypto_hash_sha256(hash, (const uint8_t *)canonical, (unsigned long long)len);
    text_of(hash, key->kid);
}

bool token_key_lives(const struct token_key *key, uint64_t now_s) {
    return key->until_s == 0 || now_s < key->until_s;
}

const struct token_key *token_key_find(const struct token_keys *keys, struct tn_bytes kid,
                                       uint64_t now_s) {
    for (uint32_t i = 0; i < keys->count; i++) {
        if (tn_bytes_equal(kid, tn_bytes_of(keys->of[i].kid, TOKEN_KEY_TEXT))) {
            return token_key_lives(&keys->of[i], now_s) ? &keys->of[i] : NULL;
        }
    }
    return NULL;
}

/* ---- The file ---- */

static uint32_t file_crc(const uint8_t *bytes, size_t len) {
    uint32_t crc = tn_crc32c(0, bytes, 12);
    return tn_crc32c(crc, bytes + HEAD_BYTES, len - HEAD_BYTES);
}

/* `bytes` must be memory for secrets. */
static size_t file_encode(const struct token_keys *keys, uint8_t *bytes) {
    struct tn_writer w = tn_writer_of(bytes, FILE_BYTES_MAX);
    uint8_t none[TOKEN_KEY_BYTES] = {0};
    tn_write_raw(&w, magic, sizeof magic);
    tn_write32(&w, keys->count);
    tn_write32(&w, 0);
    for (uint32_t i = 0; i < keys->count; i++) {
        const struct token_key *key = &keys->of[i];
        tn_write_raw(&w, key->public_key, TOKEN_KEY_BYTES);
        /* The secret begins with the seed. */
        tn_write_raw(&w, i == 0 ? keys->secret : none, TOKEN_KEY_BYTES);
        tn_write64(&w, key->made_s);
        tn_write64(&w, key->until_s);
        tn_write64(&w, key->ttl_max_s);
    }
    TN_ASSERT(!w.overflow);
    tn_store32(bytes + 12, file_crc(bytes, w.len));
    return w.len;
}

/* Reads the keys. Returns what is wrong with the file, or NULL. */
static const char *file_decode(struct token_keys *keys, const uint8_t *bytes, size_t len) {
    struct tn_reader r = tn_reader_of(bytes, len);
    uint8_t seed[TOKEN_KEY_BYTES];
    if (len < HEAD_BYTES || memcmp(bytes, magic, sizeof magic) != 0) {
        return "its first bytes are wrong";
    }
    keys->count = tn_load32(bytes + 8);
    if (keys->count == 0 || keys->count > TOKEN_KEYS_MAX ||
        len != HEAD_BYTES + keys->count * KEY_BYTES) {
        return "its length is wrong";
    }
    if (tn_load32(bytes + 12) != file_crc(bytes, len)) {
        return "its checksum is wrong";
    }
    r.pos = HEAD_BYTES;
    for (uint32_t i = 0; i < keys->count; i++) {
        struct token_key *key = &keys->of[i];
        (void)tn_read_raw(&r, key->public_key, TOKEN_KEY_BYTES);
        (void)tn_read_raw(&r, seed, TOKEN_KEY_BYTES);
        key->made_s = tn_read64(&r);
        key->until_s = tn_read64(&r);
        key->ttl_max_s = tn_read64(&r);
        if (i == 0) {
            uint8_t derived[TOKEN_KEY_BYTES];
            (void)crypto_sign_seed_keypair(derived, keys->secret, seed);
            if (memcmp(derived, key->public_key, TOKEN_KEY_BYTES) != 0) {
                sodium_memzero(seed, sizeof seed);
                return "its keys do not match";
            }
        }
        if ((key->until_s == 0) != (i == 0)) {
            sodium_memzero(seed, sizeof seed);
            return "it has no signing key";
        }
        token_key_name(key);
    }
    sodium_memzero(seed, sizeof seed);
    return NULL;
}

static bool path_of(const struct token_keys *keys, char out[PATH_MAX_BYTES]) {
    return snprintf(out, PATH_MAX_BYTES, "%s/" TOKEN_KEYS_FILE, keys->dir) < (int)PATH_MAX_BYTES;
}

enum tn_status token_keys_file_write(const struct os *os, const char *dir, const uint8_t *bytes,
                                     size_t len, char reason[TOKEN_REASON_MAX]) {
    enum tn_status status = os_file_replace(os, dir, TOKEN_KEYS_FILE, bytes, len);
    return status == TN_OK ? TN_OK
                           : fail(status, reason, "cannot write the token keys to %.150s: %s", dir,
                                  tn_status_text(status));
}

static enum tn_status keys_save(const struct token_keys *keys, char reason[TOKEN_REASON_MAX]) {
    uint8_t *bytes = sodium_malloc(FILE_BYTES_MAX);
    if (bytes == NULL) {
        return fail(TN_NOMEM, reason, "no memory for keys");
    }
    size_t len = file_encode(keys, bytes);
    enum tn_status status = keys->put != NULL ? keys->put(keys->put_ctx, bytes, len) : TN_OK;
    if (status != TN_OK) {
        (void)fail(status, reason, "cannot share the token keys with the cluster: %s",
                   tn_status_text(status));
    } else {
        status = token_keys_file_write(keys->os, keys->dir, bytes, len, reason);
    }
    sodium_free(bytes);
    return status;
}

/* NOTFOUND: the file does not exist. */
static enum tn_status keys_load(struct token_keys *keys, char reason[TOKEN_REASON_MAX]) {
    char path[PATH_MAX_BYTES];
    size_t len = 0;
    if (!path_of(keys, path)) {
        return fail(TN_INVALID, reason, "the path of the data directory is too long");
    }
    uint8_t *bytes = sodium_malloc(FILE_BYTES_MAX + 1);
    enum tn_status status =
        bytes == NULL ? TN_NOMEM
                      : os_file_read(keys->os, path, OS_PRIVATE, bytes, FILE_BYTES_MAX + 1, &len);
    if (status == TN_DENIED) {
        (void)fail(status, reason,
                   "%.120s must belong to the server's user and be readable only by it: chmod 600",
                   path);
    } else if (status != TN_OK) {
        (void)fail(status, reason, "%.150s: %s", path, tn_status_text(status));
    } else {
        const char *fault = file_decode(keys, bytes, len);
        if (fault != NULL) {
            status = fail(TN_CORRUPT, reason,
                          "%.120s is damaged: %s; without it all tokens are invalid", path, fault);
        }
    }
    sodium_free(bytes);
    return status;
}

/* ---- Making keys ---- */

/* Adds a new key before the existing ones. */
static enum tn_status key_make(struct token_keys *keys, uint64_t ttl_max_s, uint64_t now_s,
                               char reason[TOKEN_REASON_MAX]) {
    uint8_t seed[TOKEN_KEY_BYTES];
    enum tn_status status = keys->os->random(keys->os->ctx, seed, sizeof seed);
    if (status != TN_OK) {
        return fail(status, reason, "no random numbers for a key: %s", tn_status_text(status));
    }
    TN_ASSERT(keys->count < TOKEN_KEYS_MAX);
    memmove(&keys->of[1], &keys->of[0], keys->count * sizeof keys->of[0]);
    keys->count++;
    keys->of[0] = (struct token_key){.made_s = now_s, .ttl_max_s = ttl_max_s};
    (void)crypto_sign_seed_keypair(keys->of[0].public_key, keys->secret, seed);
    sodium_memzero(seed, sizeof seed);
    token_key_name(&keys->of[0]);
    return keys_save(keys, reason);
}

static enum tn_status keys_begin(struct token_keys *keys, char reason[TOKEN_REASON_MAX]) {
    if (sodium_init() < 0) {
        return fail(TN_INVALID, reason, "libsodium cannot be used on this machine");
    }
    keys->secret = sodium_malloc(crypto_sign_SECRETKEYBYTES);
    if (keys->secret == NULL) {
        return fail(TN_NOMEM, reason, "cannot lock memory for keys");
    }
    return TN_OK;
}

enum tn_status token_keys_read(struct token_keys *keys, const struct os *os, const char *dir,
                               char reason[TOKEN_REASON_MAX]) {
    *keys = (struct token_keys){.os = os, .dir = dir, .verify_only = true};
    enum tn_status status = keys_begin(keys, reason);
    if (status != TN_OK) {
        return status;
    }
    status = keys_load(keys, reason);
    if (status == TN_NOTFOUND) {
        keys->count = 0;
        return TN_OK;
    }
    if (status != TN_OK) {
        token_keys_close(keys);
    }
    return status;
}

enum tn_status token_keys_open(struct token_keys *keys, const struct os *os, const char *dir,
                               uint64_t ttl_max_s, uint64_t now_s, char reason[TOKEN_REASON_MAX]) {
    return token_keys_open_shared(keys, os, dir, NULL, NULL, ttl_max_s, now_s, reason);
}

enum tn_status token_keys_open_shared(struct token_keys *keys, const struct os *os, const char *dir,
                                      token_keys_put *put, void *put_ctx, uint64_t ttl_max_s,
                                      uint64_t now_s, char reason[TOKEN_REASON_MAX]) {
    *keys = (struct token_keys){.os = os, .dir = dir, .put = put, .put_ctx = put_ctx};
    enum tn_status status = keys_begin(keys, reason);
    if (status != TN_OK) {
        return status;
    }
    status = keys_load(keys, reason);
    if (status == TN_NOTFOUND) {
        keys->count = 0;
        status = key_make(keys, ttl_max_s, now_s, reason);
    } else if (status == TN_OK) {
        /* If a sync failed in an earlier life, what was just read may be in this machine's memory
         * only, and another sync would not find it out: so it is rewritten before a token is
         * signed with a key that the next power cut would take. */
        keys->of[0].ttl_max_s =
            keys->of[0].ttl_max_s < ttl_max_s ? ttl_max_s : keys->of[0].ttl_max_s;
        status = keys_save(keys, reason);
    }
    if (status != TN_OK) {
        token_keys_close(keys);
    }
    return status;
}

void token_keys_close(struct token_keys *keys) {
    sodium_free(keys->secret);
    keys->secret = NULL;
    keys->count = 0;
}

enum tn_status token_keys_rotate(const struct token_keys *keys, uint64_t now_s, bool drop,
                                 struct token_keys *ret_next, char reason[TOKEN_REASON_MAX]) {
    struct token_keys next = {
        .os = keys->os, .dir = keys->dir, .put = keys->put, .put_ctx = keys->put_ctx};
    uint64_t ttl_max_s = keys->of[0].ttl_max_s;
    for (uint32_t i = 0; i < keys->count && !drop; i++) {
        if (token_key_lives(&keys->of[i], now_s)) {
            next.of[next.count++] = keys->of[i];
        }
    }
    if (next.count == TOKEN_KEYS_MAX) {
        return fail(TN_OVERLOAD, reason,
                    "there are %u keys whose tokens may still be valid; the oldest expires at %llu",
                    TOKEN_KEYS_MAX, (unsigned long long)next.of[next.count - 1].until_s);
    }
    if (next.count > 0) {
        next.of[0].until_s = now_s + ttl_max_s + ROTATION_SECONDS;
    }
    next.secret = sodium_malloc(crypto_sign_SECRETKEYBYTES);
    if (next.secret == NULL) {
        return fail(TN_NOMEM, reason, "cannot lock memory for keys");
    }
    enum tn_status status = key_make(&next, ttl_max_s, now_s, reason);
    if (status != TN_OK) {
        token_keys_close(&next);
        return status;
    }
    *ret_next = next;
    return TN_OK;
}
