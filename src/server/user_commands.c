/* USER ADD, SET, DELETE and LIST, and WHOAMI.
 *
 * A secret is hashed on a worker thread before the command is logged. With an operation id the salt is
 * made from the name and that id, so that a repeated command has the same bytes and is known as a
 * repetition; without one it is random. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uv.h>

#include "protocol/render.h"
#include "server/answer.h"
#include "server/client.h"
#include "server/handler.h"
#include "server/owners.h"
#include "server/users.h"
#include "server/write.h"

#define SALT_TEXT 32u /* base64 of a salt, with its NUL */
#define HASH_BYTES 32u
#define HASH_TEXT 64u
#define USERS_PAGE 100u /* maximum users in a page of USER LIST: patterns can be long */

/* ---- Who may, and whose user it is ---- */

static enum tn_result refuse(struct server_request *request, const char *why) {
    (void)snprintf(request->call.detail, sizeof request->call.detail, "%s", why);
    return TN_R_NOPERM;
}

static bool is_of_file(const struct access *access, struct tn_bytes name) {
    const struct access_user *known = access_find(access, name);
    return known != NULL && known->source == ACCESS_OF_FILE;
}

static enum tn_result user_judge(struct server_request *request) {
    if (!access_programs(request->user)) {
        return refuse(request, "an anonymous client may not change users; use the Unix socket "
                               "(tenure --socket PATH) or log in as an administrator");
    }
    if (is_of_file(request->owners->access, request->call.command.name)) {
        return refuse(request, "the configuration file defines this user; change it there");
    }
    return TN_R_OK;
}

enum tn_result write_user_delete(struct server_request *request) {
    enum tn_result code = user_judge(request);
    return code == TN_R_OK ? server_write_submit(request) : code;
}

/* ---- Hashing ---- */

/* A command that waits for the hash of its secret. */
struct hashing {
    uv_work_t work;
    struct server_owners *owners;
    struct server_writes *writes;
    struct server_slot *slot;
    struct kernel_command command; /* its texts are in the fields below */
    bool done;
    uint32_t secret_len;
    char secret[ACCESS_SECRET_MAX];
    char hash[ACCESS_HASH_MAX];
    char actor[KERNEL_USER_MAX], name[KERNEL_USER_MAX], opid[KERNEL_OPID_MAX];
    char pools[KERNEL_PATTERNS_MAX], holders[KERNEL_PATTERNS_MAX], note[KERNEL_NOTE_MAX];
};

/* Hashes like crypto_pwhash_str, with a given salt. */
static bool hash_salted(struct hashing *h) {
    uint8_t salt[crypto_pwhash_SALTBYTES], hash[HASH_BYTES];
    char salt_text[SALT_TEXT], hash_text[HASH_TEXT];
    crypto_generichash_state state;
    static const char purpose[] = "tenure user salt";
    uint8_t len = (uint8_t)h->command.name.len;
    (void)crypto_generichash_init(&state, (const uint8_t *)purpose, sizeof purpose, sizeof salt);
    (void)crypto_generichash_update(&state, &len, 1);
    (void)crypto_generichash_update(&state, h->command.name.at, h->command.name.len);
    (void)crypto_generichash_update(&state, h->command.opid.at, h->command.opid.len);
    (void)crypto_generichash_final(&state, salt, sizeof salt);
    if (crypto_pwhash(hash, sizeof hash, h->secret, h->secret_len, salt, ACCESS_HASH_OPS,
                      ACCESS_HASH_MEMORY, crypto_pwhash_ALG_ARGON2ID13) != 0) {
        return false;
    }
    (void)sodium_bin2base64(salt_text, sizeof salt_text, salt, sizeof salt,
                            sodium_base64_VARIANT_ORIGINAL_NO_PADDING);
    (void)sodium_bin2base64(hash_text, sizeof hash_text, hash, sizeof hash,
                            sodium_base64_VARIANT_ORIGINAL_NO_PADDING);
    int written = snprintf(h->hash, sizeof h->hash, "$argon2id$v=19$m=%u,t=%u,p=1$%s$%s",
                           ACCESS_HASH_MEMORY / 1024, ACCESS_HASH_OPS, salt_text, hash_text);
    return written > 0 && (size_t)written < sizeof h->hash;
}

/* On another thread. */
static void hash_run(uv_work_t *work) {
    struct hashing *h = work->data;
    h->done = h->command.opid.len > 0 ? hash_salted(h)
                                      : crypto_pwhash_str(h->hash, h->secret, h->secret_len,
                                                          ACCESS_HASH_OPS, ACCESS_HASH_MEMORY) == 0;
    sodium_memzero(h->secret, sizeof h->secret);
}

static void hash_refuse(struct hashing *h, enum tn_result code, const char *detail) {
    struct protocol_writer w = server_slot_writer(h->slot);
    protocol_render_refusal(&w, code, detail);
    h->slot->answer.code = code;
    h->slot->answer.http_status = (uint16_t)tn_result_http(code);
    server_answer_job(h->owners, h->slot, &w);
}

/* Users may have changed while the secret was hashed: the client still needs the same rights. */
static bool is_allowed_still(const struct hashing *h) {
    const struct access *access = h->owners->access;
    const struct server_client *client = h->slot->client;
    server_users_look(h->owners);
    if (client == NULL) {
        return false;
    }
    const struct access_user *user = access_user_of(access, &client->login);
    return access_programs(user) && !access_is_narrow(user) && !is_of_file(access, h->command.name);
}

static const char *hash_refusal(enum tn_result code) {
    if (code == TN_R_NOPERM) {
        return "users changed while the secret was hashed: this change is no longer permitted";
    }
    return code == TN_R_OVERLOADED ? "try again" : NULL;
}

static void hash_done(uv_work_t *work, int status) {
    struct hashing *h = work->data;
    enum tn_result code = TN_R_OVERLOADED;
    h->owners->users->hashing--;
    if (!is_allowed_still(h)) {
        code = TN_R_NOPERM;
    } else if (status == 0 && h->done) {
        h->command.spec = tn_bytes_of(h->hash, strlen(h->hash));
        h->slot->request.done = server_answer_done;
        h->slot->request.ctx = h->owners;
        h->slot->has_op = h->command.opid.len > 0;
        code = engine_submit_later(h->owners->engine, &h->slot->request, &h->command);
        h->writes->submitted = true;
    }
    if (code != TN_R_OK) {
        hash_refuse(h, code, hash_refusal(code));
    }
    free(h);
}

static struct tn_bytes keep(char *to, struct tn_bytes text) {
    if (text.len > 0) {
        memcpy(to, text.at, text.len);
    }
    return tn_bytes_of(to, text.len);
}

/* The parser has checked the lengths. */
static struct hashing *hashing_of(struct server_request *request) {
    const struct kernel_command *command = &request->call.command;
    struct hashing *h = calloc(1, sizeof *h);
    if (h == NULL) {
        return NULL;
    }
    h->work.data = h;
    h->owners = request->owners;
    h->writes = request->client->writes;
    h->slot = request->slot;
    h->command = *command;
    h->command.user = keep(h->actor, command->user);
    h->command.name = keep(h->name, command->name);
    h->command.opid = keep(h->opid, command->opid);
    h->command.pool = keep(h->pools, command->pool);
    h->command.holder = keep(h->holders, command->holder);
    h->command.note = keep(h->note, command->note);
    h->secret_len = request->call.secret.len;
    (void)keep(h->secret, request->call.secret);
    return h;
}

/* USER ADD and USER SET. Later commands of the client wait for the answer. */
enum tn_result write_user(struct server_request *request) {
    struct server_owners *owners = request->owners;
    struct tn_bytes secret = request->call.secret;
    enum tn_result code = user_judge(request);
    if (code == TN_R_OK && !kernel_name_user_valid(request->call.command.name)) {
        (void)snprintf(request->call.detail, sizeof request->call.detail,
                       "a user's name is 1 to %u printable characters without blanks and colons",
                       KERNEL_USER_MAX);
        code = TN_R_BAD_NAME;
    }
    if (code != TN_R_OK || secret.len == 0) {
        return code == TN_R_OK ? server_write_submit(request) : code;
    }
    struct hashing *h =
        owners->users->hashing < SERVER_USERS_HASHING_MAX ? hashing_of(request) : NULL;
    if (h == NULL) {
        (void)snprintf(request->call.detail, sizeof request->call.detail,
                       "too many secrets are being hashed; try again");
        return TN_R_OVERLOADED;
    }
    sodium_memzero((void *)(uintptr_t)secret.at, secret.len);
    owners->users->hashing++;
    request->client->waits = true;
    (void)uv_queue_work(owners->loop, &h->work, hash_run, hash_done);
    return TN_R_OK;
}

/* ---- Reads ---- */

static void text_pair(struct protocol_writer *w, const char *name, const char *text) {
    protocol_write_text(w, name);
    if (text == NULL || text[0] == '\0') {
        protocol_write_null(w);
    } else {
        protocol_write_text(w, text);
    }
}

static const char *source_of(const struct access_user *user, const struct access_login *login) {
    if (user->is_anonymous) {
        return "anonymous";
    }
    if (user->is_fixed) {
        return "socket";
    }
    if (login != NULL && login->by_certificate) {
        return "certificate";
    }
    return user->source == ACCESS_OF_LOG ? "logged" : "file";
}

static enum tn_result user_write(struct engine *engine, struct protocol_writer *w,
                                 const struct access_user *user, const struct access_login *login) {
    uint64_t values = 0;
    enum tn_result code =
        engine_user_values(engine, tn_bytes_of(user->name, user->name_len), &values);
    if (code != TN_R_OK) {
        return code;
    }
    protocol_write_map(w, 7);
    text_pair(w, "name", user->name);
    protocol_pair_text(w, "role", protocol_role_name(user->role));
    protocol_pair_text(w, "source", source_of(user, login));
    text_pair(w, "pools", user->pools.patterns);
    text_pair(w, "holders", user->holders.patterns);
    protocol_pair_number(w, "max_values", user->max_values);
    protocol_pair_number(w, "values", values);
    return TN_R_OK;
}

enum tn_result read_whoami(struct server_request *request) {
    return user_write(request->owners->engine, request->w, request->user, &request->client->login);
}

/* The first user at this struct or behind it that exists; *place counts the structs. NULL: there is
 * none. */
static const struct access_user *user_live(const struct access_user *user, uint64_t *place) {
    for (; user != NULL && user->role == PROTOCOL_NOBODY; user = user->next) {
        *place += 1;
    }
    return user;
}

/* The cursor counts structs, which never move. */
enum tn_result read_users(struct server_request *request) {
    struct engine *engine = request->owners->engine;
    struct protocol_writer *w = request->w;
    uint64_t place = 0;
    const struct access_user *page[USERS_PAGE];
    uint32_t count = 0, most = request->call.count < USERS_PAGE ? request->call.count : USERS_PAGE;
    const struct access_user *user = request->owners->access->users;
    for (; user != NULL && place < request->call.cursor; user = user->next) {
        place++;
    }
    for (user = user_live(user, &place); user != NULL && count < most;
         user = user_live(user->next, &place)) {
        page[count++] = user;
        place++;
    }
    request->call.cursor = user != NULL ? place : 0;
    protocol_write_map(w, 2);
    protocol_pair_number(w, "cursor", request->call.cursor);
    protocol_write_text(w, "users");
    protocol_write_array(w, count);
    enum tn_result code = TN_R_OK;
    for (uint32_t i = 0; i < count && code == TN_R_OK; i++) {
        code = user_write(engine, w, page[i], NULL);
    }
    request->lsn = engine_lsn(engine);
    return code;
}
