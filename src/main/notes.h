/* What goes from owner to owner beside the log, as notes of the log (log/log.h): copies of two files of the
 * data directory.
 *
 *     token.keys     the file of that name, sealed (crypto_secretbox) with a key made from
 *                    cluster_secret_file: a nonce of 24 bytes, then the sealed bytes
 *     amqp.position  the file of that name, about once a second: a new owner may publish events of the
 *                    last second again, under the same ids */
#ifndef TN_MAIN_NOTES_H
#define TN_MAIN_NOTES_H

#include "config/config.h"
#include "engine/engine.h"
#include "server/server.h"
#include "token/token_key.h"

#define NOTES_POSITION_MAX 4096u
#define NOTES_KEY_BYTES 32u

struct notes {
    struct engine *engine;
    const struct os *os;
    const char *dir;
    uint8_t key[NOTES_KEY_BYTES];
    char snapshot_token[SERVER_SNAPSHOT_TOKEN + 1]; /* derived from the secret, too: see server.h */
    uint8_t position[NOTES_POSITION_MAX];           /* the last position stored */
    uint32_t position_len;
};

/* Reads the secret. False: the reason has been logged. */
bool notes_open(struct notes *notes, const struct config *config, const struct os *os);
void notes_close(struct notes *notes);

/* Copies the note to the key file. TN_NOTFOUND: there is no note, and the file is unchanged. */
enum tn_status notes_keys_fetch(struct notes *notes, char reason[TOKEN_REASON_MAX]);
token_keys_put notes_keys_put; /* ctx: the notes */

/* The same for the published position: fetched before the broker starts, stored while it runs. */
enum tn_status notes_position_fetch(struct notes *notes);
void notes_position_put(struct notes *notes);

#endif
