/* Logging in: whether a name and a secret belong together.
 *
 * Secrets are kept as argon2id hashes, which take tens of milliseconds and megabytes to compare: so it
 * is done on another thread, one at a time, and whoever logs in waits for its turn in a bounded queue.
 * One at a time also bounds how fast secrets can be guessed. A name that nobody has takes as long.
 *
 * Over HTTP each request brings its secret anew. What was found to be right is remembered by a keyed
 * hash, whose key this process made for itself; never the secret. A login of an older generation of
 * the user is not what is remembered. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "server/internal.h"

struct server_login {
    struct server *server;
    struct server_asker *asker; /* NULL: it is gone */
    struct server_login *next;
    const struct access_user *user; /* NULL: there is none of that name */
    uint32_t generation;
    bool done, good;
    char hash[ACCESS_HASH_MAX];
    uint8_t mark[SERVER_LOGIN_MARK];
    uint32_t len;
    char secret[ACCESS_SECRET_MAX];
};

/* Of a secret that nobody knows: what a name that does not exist is compared with. */
static char nobodys_hash[crypto_pwhash_STRBYTES];

bool server_login_init(struct server *server) {
    char secret[32];
    if (sodium_init() < 0) {
        return false;
    }
    randombytes_buf(server->logins.key, sizeof server->logins.key);
    randombytes_buf(secret, sizeof secret);
    return crypto_pwhash_str(nobodys_hash, secret, sizeof secret, SERVER_LOGIN_OPS,
                             SERVER_LOGIN_MEMORY) == 0;
}

/* ---- What is remembered ---- */

static void mark_make(const struct server *server, struct tn_bytes name, struct tn_bytes secret,
                      uint8_t mark[SERVER_LOGIN_MARK]) {
    crypto_generichash_state state;
    uint8_t len = (uint8_t)name.len;
    (void)crypto_generichash_init(&state, server->logins.key, sizeof server->logins.key,
                                  SERVER_LOGIN_MARK);
    (void)crypto_generichash_update(&state, &len, 1);
    (void)crypto_generichash_update(&state, name.at, name.len);
    (void)crypto_generichash_update(&state, secret.at, secret.len);
    (void)crypto_generichash_final(&state, mark, SERVER_LOGIN_MARK);
    sodium_memzero(&state, sizeof state);
}

static struct server_login_known *known_at(struct server *server,
                                           const uint8_t mark[SERVER_LOGIN_MARK]) {
    return &server->logins.known[tn_load32(mark) % SERVER_LOGIN_KNOWN];
}

static bool known_find(struct server *server, const uint8_t mark[SERVER_LOGIN_MARK],
                       struct access_login *ret_login) {
    const struct server_login_known *known = known_at(server, mark);
    if (known->login.user == NULL || known->login.generation != known->login.user->generation ||
        sodium_memcmp(known->mark, mark, SERVER_LOGIN_MARK) != 0) {
        return false;
    }
    *ret_login = known->login;
    return true;
}

/* ---- The queue ---- */

static void login_free(struct server_login *login) {
    sodium_memzero(login, sizeof *login);
    free(login);
}

/* The user's secret may have changed since, or the user be gone. */
static bool is_current(const struct server_login *login) {
    return login->generation == login->user->generation;
}

/* On another thread. */
static void login_compare(uv_work_t *work) {
    struct server_login *login = ((struct server *)work->data)->logins.first;
    bool right = crypto_pwhash_str_verify(login->hash, login->secret, login->len) == 0;
    login->good = right && login->user != NULL;
}

static void login_next(struct server *server);

static void login_compared(uv_work_t *work, int status) {
    struct server *server = work->data;
    struct server_login *login = server->logins.first;
    struct server_asker *asker = login->asker;
    server->logins.first = login->next;
    server->logins.count--;
    server->logins.busy = false;
    sodium_memzero(login->secret, sizeof login->secret);
    login->done = true;
    login->good = login->good && status == 0 && is_current(login);
    if (login->good) {
        struct server_login_known *known = known_at(server, login->mark);
        memcpy(known->mark, login->mark, sizeof known->mark);
        known->login = (struct access_login){.user = login->user, .generation = login->generation};
    }
    login_next(server);
    if (asker == NULL) {
        login_free(login);
    } else {
        asker->run(asker);
    }
    server_stop_check(server);
}

static void login_next(struct server *server) {
    if (server->logins.first != NULL && !server->logins.busy) {
        server->logins.busy = true;
        server->logins.work.data = server;
        (void)uv_queue_work(&server->loop, &server->logins.work, login_compare, login_compared);
    }
}

static bool login_begin(struct server_asker *asker, struct tn_bytes name, struct tn_bytes secret,
                        const uint8_t mark[SERVER_LOGIN_MARK]) {
    struct server *server = asker->server;
    struct server_login *login = calloc(1, sizeof *login);
    if (login == NULL) {
        return false;
    }
    login->server = server;
    login->asker = asker;
    login->user = access_find(&server->access, name);
    login->generation = login->user != NULL ? login->user->generation : 0;
    memcpy(login->hash, login->user != NULL ? login->user->hash : nobodys_hash, sizeof login->hash);
    memcpy(login->mark, mark, sizeof login->mark);
    memcpy(login->secret, secret.at, secret.len);
    login->len = secret.len;
    asker->pending = login;
    if (server->logins.first == NULL) {
        server->logins.first = login;
    } else {
        server->logins.last->next = login;
    }
    server->logins.last = login;
    server->logins.count++;
    login_next(server);
    return true;
}

/* ---- For those who log in ---- */

static enum server_login_step login_end(struct server_asker *asker, struct tn_bytes name) {
    struct server *server = asker->server;
    struct server_login *login = asker->pending;
    bool good = login->good && is_current(login);
    asker->pending = NULL;
    if (good) {
        asker->login = (struct access_login){.user = login->user, .generation = login->generation};
    } else {
        server_log("login_failed", "user=\"%.*s\"", (int)(name.len < 64 ? name.len : 64),
                   (const char *)name.at);
    }
    login_free(login);
    server->counters.logins[good ? SERVER_LOGIN_ACCEPTED : SERVER_LOGIN_REFUSED]++;
    return good ? SERVER_LOGIN_GOOD : SERVER_LOGIN_BAD;
}

enum server_login_step server_login(struct server_asker *asker, struct tn_bytes name,
                                    struct tn_bytes secret) {
    struct server *server = asker->server;
    uint8_t mark[SERVER_LOGIN_MARK];
    if (asker->pending != NULL) {
        return asker->pending->done ? login_end(asker, name) : SERVER_LOGIN_WAIT;
    }
    if (name.len == 0 || name.len > KERNEL_USER_MAX || secret.len == 0 ||
        secret.len > ACCESS_SECRET_MAX) {
        server->counters.logins[SERVER_LOGIN_REFUSED]++;
        return SERVER_LOGIN_BAD;
    }
    mark_make(server, name, secret, mark);
    if (known_find(server, mark, &asker->login)) {
        return SERVER_LOGIN_GOOD;
    }
    if (server->logins.count >= SERVER_LOGINS_MAX || !login_begin(asker, name, secret, mark)) {
        server->counters.logins[SERVER_LOGIN_CROWDED]++;
        return SERVER_LOGIN_BUSY;
    }
    return SERVER_LOGIN_WAIT;
}

void server_login_leave(struct server_asker *asker) {
    struct server_login *login = asker->pending;
    asker->pending = NULL;
    if (login != NULL && login->done) {
        login_free(login);
    } else if (login != NULL) {
        login->asker = NULL;
    }
}

void server_users_take(struct server *server) {
    if (!access_configure(&server->access, server->options.users, server->options.user_count)) {
        server_log("users_failed", "reason=\"no memory; who could not be taken is refused\"");
    }
    for (struct server_connection *c = LIST_FIRST(&server->live); c != NULL;
         c = LIST_NEXT(c, place)) {
        const struct access_user *user = c->asker.login.user;
        if (user != NULL &&
            access_user_of(&server->access, &c->asker.login)->role == PROTOCOL_NOBODY) {
            server_connection_close(c);
        }
    }
}
