/* The keys that tokens are signed with: Ed25519, one that signs and those before it, which only verify.
 *
 * They live in one file of the data directory, mode 0600, which is written whole under another name,
 * synced and renamed. All numbers are little-endian:
 *
 *     0   8   "TNKEYS1\n"
 *     8   4   number of keys, 1 to TOKEN_KEYS_MAX
 *     12  4   CRC32C of everything before and after this field
 *     16  88  for each key, the one that signs first, then from the newest to the oldest:
 *             0   32  public key
 *             32  32  seed; zero if the key does not sign any more
 *             64  8   when it was made, seconds since 1970
 *             72  8   until when it verifies; 0: it signs
 *             80  8   seconds that its longest token may live
 *
 * A key verifies for as long as the longest token that it may have signed: so the greatest life that
 * was ever allowed while it signed is written down before the first token that may have it.
 *
 * The secret lies in memory that is locked, guarded and wiped; nothing else ever holds it for longer
 * than a call. */
#ifndef TN_TOKEN_TOKEN_KEY_H
#define TN_TOKEN_TOKEN_KEY_H

#include "base/bytes.h"
#include "os/os.h"

#define TOKEN_KEYS_MAX 32u
#define TOKEN_KEY_BYTES 32u
#define TOKEN_KEY_TEXT 43u /* characters for 32 bytes in base64url without padding */
#define TOKEN_KEYS_FILE "token.keys"
#define TOKEN_REASON_MAX 256u

struct token_key {
    uint8_t public_key[TOKEN_KEY_BYTES];
    char text[TOKEN_KEY_TEXT + 1]; /* the same in base64url */
    char kid[TOKEN_KEY_TEXT + 1];  /* its thumbprint (RFC 7638) */
    uint64_t made_s;
    uint64_t until_s; /* the key verifies until then; 0: it signs */
    uint64_t ttl_max_s;
};

/* Stores the contents of the file elsewhere before the file is written. If that fails, the file is
 * not written. */
typedef enum tn_status token_keys_put(void *ctx, const uint8_t *bytes, size_t len);

struct token_keys {
    const struct os *os;
    const char *dir;     /* the caller's */
    token_keys_put *put; /* NULL: the keys are only in the file */
    void *put_ctx;
    struct token_key of[TOKEN_KEYS_MAX];
    uint32_t count;
    uint8_t *secret;  /* of the first */
    bool verify_only; /* another node signs */
};

/* Reads the keys of the directory, or makes the first one. Tokens may live for up to ttl_max_s from now
 * on. DENIED, CORRUPT and the like, with `reason` for people; then there is nothing to close. */
enum tn_status token_keys_open(struct token_keys *keys, const struct os *os, const char *dir,
                               uint64_t ttl_max_s, uint64_t now_s, char reason[TOKEN_REASON_MAX]);
/* The same with `put`: the file is a copy, which the caller has just updated. */
enum tn_status token_keys_open_shared(struct token_keys *keys, const struct os *os, const char *dir,
                                      token_keys_put *put, void *put_ctx, uint64_t ttl_max_s,
                                      uint64_t now_s, char reason[TOKEN_REASON_MAX]);
/* Only reads the keys, to verify tokens. Without a file there are none. */
enum tn_status token_keys_read(struct token_keys *keys, const struct os *os, const char *dir,
                               char reason[TOKEN_REASON_MAX]);
void token_keys_close(struct token_keys *keys);
/* Writes the bytes of a key file, as `put` received them, completely or not at all. */
enum tn_status token_keys_file_write(const struct os *os, const char *dir, const uint8_t *bytes,
                                     size_t len, char reason[TOKEN_REASON_MAX]);
#define TOKEN_KEYS_FILE_MAX (16u + TOKEN_KEYS_MAX * 88u) /* bytes: see above */

/* A new key that signs, in *ret_next and on disk; `keys` only verify from the moment that the caller
 * puts *ret_next in their place, and stay as they are. `drop`: they do not even verify. OVERLOAD: there
 * are as many keys as there may be. */
enum tn_status token_keys_rotate(const struct token_keys *keys, uint64_t now_s, bool drop,
                                 struct token_keys *ret_next, char reason[TOKEN_REASON_MAX]);

/* The key with this thumbprint; NULL: unknown or no longer valid. */
const struct token_key *token_key_find(const struct token_keys *keys, struct tn_bytes kid,
                                       uint64_t now_s);
/* Whether the key still verifies tokens. */
bool token_key_lives(const struct token_key *key, uint64_t now_s);

/* Computes the texts from the public key. */
void token_key_name(struct token_key *key);

#endif
