/* What notes.h promises. */
#include "main/notes.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "config/secret.h"
#include "os/file_whole.h"
#include "server/log_line.h"

#define SECRET_MAX 1024u
#define SECRET_MIN 16u
#define PATH_BYTES 4096u
#define KEYS_NOTE "token.keys"
#define POSITION_NOTE "amqp.position"
#define KEY_PURPOSE "tenure: token keys in a note"
#define TOKEN_PURPOSE "tenure: snapshots for nodes"
#define SEALED_MAX (crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES + TOKEN_KEYS_FILE_MAX)

_Static_assert(NOTES_KEY_BYTES == crypto_secretbox_KEYBYTES, "a key of secretbox");
_Static_assert(2 * NOTES_KEY_BYTES == SERVER_SNAPSHOT_TOKEN, "the token is a key in hexadecimal");
_Static_assert(SEALED_MAX <= LOG_NOTE_MAX, "keys fit into a note");

/* ---- The secret ---- */

static bool refuse(const char *reason) {
    server_log("refused", "where=cluster_secret_file reason=\"%s\"", reason);
    return false;
}

/* Derives a key from which neither the secret nor other keys can be derived. */
static void key_make(uint8_t key[NOTES_KEY_BYTES], const char *secret, size_t len,
                     const char *purpose) {
    (void)crypto_generichash(key, NOTES_KEY_BYTES, (const uint8_t *)secret, len,
                             (const uint8_t *)purpose, strlen(purpose));
}

static void keys_make(struct notes *notes, const char *secret, size_t len) {
    uint8_t token[NOTES_KEY_BYTES];
    key_make(notes->key, secret, len, KEY_PURPOSE);
    key_make(token, secret, len, TOKEN_PURPOSE);
    (void)sodium_bin2hex(notes->snapshot_token, sizeof notes->snapshot_token, token, sizeof token);
    sodium_memzero(token, sizeof token);
}

bool notes_open(struct notes *notes, const struct config *config, const struct os *os) {
    char secret[SECRET_MAX];
    size_t len = 0;
    *notes = (struct notes){.os = os, .dir = config_text(config, CONFIG_DATA)};
    enum tn_status status = os_file_read(os, config_text(config, CONFIG_CLUSTER_SECRET), OS_PRIVATE,
                                         secret, sizeof secret, &len);
    if (status != TN_OK) {
        return refuse(config_secret_fault(status));
    }
    while (len > 0 && (secret[len - 1] == '\n' || secret[len - 1] == '\r')) {
        len--;
    }
    bool good = len >= SECRET_MIN || refuse("it must have at least 16 characters");
    if (good && sodium_init() < 0) {
        good = refuse("libsodium cannot be used on this machine");
    }
    if (good) {
        keys_make(notes, secret, len);
    }
    sodium_memzero(secret, sizeof secret);
    return good;
}

void notes_close(struct notes *notes) {
    sodium_memzero(notes->key, sizeof notes->key);
    sodium_memzero(notes->snapshot_token, sizeof notes->snapshot_token);
}

/* ---- The keys of tokens ---- */

enum tn_status notes_keys_put(void *ctx, const uint8_t *bytes, size_t len) {
    struct notes *notes = ctx;
    uint8_t sealed[SEALED_MAX];
    TN_ASSERT(len <= TOKEN_KEYS_FILE_MAX);
    randombytes_buf(sealed, crypto_secretbox_NONCEBYTES);
    (void)crypto_secretbox_easy(sealed + crypto_secretbox_NONCEBYTES, bytes, len, sealed,
                                notes->key);
    return engine_note_put(
        notes->engine, KEYS_NOTE,
        tn_bytes_of(sealed, crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES + len));
}

enum tn_status notes_keys_fetch(struct notes *notes, char reason[TOKEN_REASON_MAX]) {
    uint8_t sealed[SEALED_MAX];
    const size_t head = crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES;
    uint32_t len = 0;
    enum tn_status status = engine_note_get(notes->engine, KEYS_NOTE, sealed, sizeof sealed, &len);
    if (status != TN_OK) {
        (void)snprintf(reason, TOKEN_REASON_MAX, "cannot read the token keys of the cluster: %s",
                       tn_status_text(status));
        return status;
    }
    uint8_t *bytes = sodium_malloc(TOKEN_KEYS_FILE_MAX);
    if (bytes == NULL) {
        (void)snprintf(reason, TOKEN_REASON_MAX, "no memory for keys");
        return TN_NOMEM;
    }
    if (len < head || len - head > TOKEN_KEYS_FILE_MAX ||
        crypto_secretbox_open_easy(bytes, sealed + crypto_secretbox_NONCEBYTES,
                                   len - crypto_secretbox_NONCEBYTES, sealed, notes->key) != 0) {
        (void)snprintf(reason, TOKEN_REASON_MAX,
                       "the token keys of the cluster are sealed with another secret: "
                       "cluster_secret_file must be the same on all nodes");
        status = TN_DENIED;
    } else {
        status = token_keys_file_write(notes->os, notes->dir, bytes, len - head, reason);
    }
    sodium_free(bytes);
    return status;
}

/* ---- The published position ---- */

enum tn_status notes_position_fetch(struct notes *notes) {
    enum tn_status status = engine_note_get(notes->engine, POSITION_NOTE, notes->position,
                                            sizeof notes->position, &notes->position_len);
    if (status != TN_OK) {
        notes->position_len = 0;
        return status;
    }
    return os_file_replace(notes->os, notes->dir, POSITION_NOTE, notes->position,
                           notes->position_len);
}

void notes_position_put(struct notes *notes) {
    uint8_t bytes[NOTES_POSITION_MAX];
    char path[PATH_BYTES];
    size_t len = 0;
    if (snprintf(path, sizeof path, "%s/" POSITION_NOTE, notes->dir) >= (int)sizeof path) {
        return;
    }
    enum tn_status status = os_file_read(notes->os, path, 0, bytes, sizeof bytes, &len);
    if (status != TN_OK || len == 0 ||
        (len == notes->position_len && memcmp(bytes, notes->position, len) == 0)) {
        return;
    }
    status = engine_note_put(notes->engine, POSITION_NOTE, tn_bytes_of(bytes, len));
    if (status == TN_OK) {
        memcpy(notes->position, bytes, len);
        notes->position_len = (uint32_t)len;
    }
}
