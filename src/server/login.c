/* Logging in: whether a name and a secret belong together.
 *
 * Secrets are kept as argon2id hashes, which take tens of milliseconds and megabytes to compare: so it
 * is done on another thread, one at a time, and clients wait for their turns in a bounded queue. One at a
 * time also bounds how fast secrets can be guessed. An unknown name takes as long.
 *
 * Clients that guess cannot keep users out. The next log-in to be compared is the best of those that
 * wait, by these rules in their order:
 *
 *   1. its address has fewer failures lately (in powers of two);
 *   2. no log-in has failed on its connection before;
 *   3. its user has waited longest for a comparison; all unknown names count as one user;
 *   4. every other time the one that came last, else the one that came first. Each guessing connection
 *      waits for the answer to its guess, so a user that comes while hundreds wait is soon the last one.
 *
 * An address may have a part of the queue only, and a connection on which too many log-ins failed is
 * closed.
 *
 * Over HTTP each request brings its secret again. A verified secret is remembered by a keyed
 * hash, whose key this process made for itself; never the secret. A login of an older generation of
 * the user is not what is remembered. */
#include "server/login.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "server/log_line.h"

struct server_login {
    struct server_client *client; /* NULL: the client has disconnected */
    TAILQ_ENTRY(server_login) place;
    struct server_login_address *address;
    uint32_t failures;              /* failed log-ins on its connection before this one */
    uint32_t name;                  /* its entry in name_turns */
    const struct access_user *user; /* NULL: no user has this name */
    uint32_t generation;
    bool done, good;
    char hash[ACCESS_HASH_MAX];
    uint8_t mark[SERVER_LOGIN_MARK];
    uint32_t len;
    char secret[ACCESS_SECRET_MAX];
};

bool server_login_init(struct server_logins *logins) {
    char secret[32];
    if (sodium_init() < 0) {
        return false;
    }
    TAILQ_INIT(&logins->waiting);
    randombytes_buf(logins->key, sizeof logins->key);
    randombytes_buf(secret, sizeof secret);
    return crypto_pwhash_str(logins->nobodys_hash, secret, sizeof secret, ACCESS_HASH_OPS,
                             ACCESS_HASH_MEMORY) == 0;
}

/* ---- What is remembered ---- */

static void mark_make(const struct server_logins *logins, struct tn_bytes name,
                      struct tn_bytes secret, uint8_t mark[SERVER_LOGIN_MARK]) {
    crypto_generichash_state state;
    uint8_t len = (uint8_t)name.len;
    (void)crypto_generichash_init(&state, logins->key, sizeof logins->key, SERVER_LOGIN_MARK);
    (void)crypto_generichash_update(&state, &len, 1);
    (void)crypto_generichash_update(&state, name.at, name.len);
    (void)crypto_generichash_update(&state, secret.at, secret.len);
    (void)crypto_generichash_final(&state, mark, SERVER_LOGIN_MARK);
    sodium_memzero(&state, sizeof state);
}

static struct server_login_known *known_at(struct server_logins *logins,
                                           const uint8_t mark[SERVER_LOGIN_MARK]) {
    return &logins->known[tn_load32(mark) % SERVER_LOGIN_KNOWN];
}

static bool known_find(struct server_logins *logins, const uint8_t mark[SERVER_LOGIN_MARK],
                       struct access_login *ret_login) {
    const struct server_login_known *known = known_at(logins, mark);
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

/* Whether the user still exists and has the same secret. */
static bool is_current(const struct server_login *login) {
    return login->generation == login->user->generation;
}

/* On another thread. */
static void login_compare(uv_work_t *work) {
    struct server_login *login = ((struct server_logins *)work->data)->compared;
    bool right = crypto_pwhash_str_verify(login->hash, login->secret, login->len) == 0;
    login->good = right && login->user != NULL;
}

static void login_next(struct server_logins *logins);

static void login_compared(uv_work_t *work, int status) {
    struct server_logins *logins = work->data;
    struct server_login *login = logins->compared;
    struct server_client *client = login->client;
    logins->compared = NULL;
    logins->count--;
    login->address->waiting--;
    sodium_memzero(login->secret, sizeof login->secret);
    login->done = true;
    login->good = login->good && status == 0 && is_current(login);
    login->address->failures += !login->good;
    if (login->good) {
        struct server_login_known *known = known_at(logins, login->mark);
        memcpy(known->mark, login->mark, sizeof known->mark);
        known->login = (struct access_login){.user = login->user, .generation = login->generation};
    }
    login_next(logins);
    if (client == NULL) {
        login_free(login);
    } else {
        client->run(client);
    }
    logins->ended(logins->ctx);
}

static uint32_t magnitude(uint32_t failures) {
    return failures == 0 ? 0 : 32u - (uint32_t)__builtin_clz(failures);
}

/* Whether this log-in comes before the best one found so far. */
static bool is_better(const struct server_logins *logins, const struct server_login *login,
                      const struct server_login *best) {
    uint32_t mine = magnitude(login->address->failures), its = magnitude(best->address->failures);
    if (mine != its) {
        return mine < its;
    }
    if ((login->failures == 0) != (best->failures == 0)) {
        return login->failures == 0;
    }
    if (login->name != best->name) {
        return logins->name_turns[login->name] < logins->name_turns[best->name];
    }
    return logins->turn % 2 == 0;
}

/* Removes the log-in that is compared next from the list. The search takes little time beside a
 * comparison, even among thousands. */
static struct server_login *login_choose(struct server_logins *logins) {
    struct server_login *best = TAILQ_FIRST(&logins->waiting), *login;
    TAILQ_FOREACH(login, &logins->waiting, place) {
        if (login != best && is_better(logins, login, best)) {
            best = login;
        }
    }
    TAILQ_REMOVE(&logins->waiting, best, place);
    logins->turn++;
    logins->name_turns[best->name] = logins->turn;
    return best;
}

static void login_next(struct server_logins *logins) {
    if (!TAILQ_EMPTY(&logins->waiting) && logins->compared == NULL) {
        logins->compared = login_choose(logins);
        logins->work.data = logins;
        (void)uv_queue_work(logins->loop, &logins->work, login_compare, login_compared);
    }
}

/* False: too many log-ins wait, or memory is short. */
static bool login_begin(struct server_logins *logins, struct server_client *client,
                        struct tn_bytes name, struct tn_bytes secret,
                        const uint8_t mark[SERVER_LOGIN_MARK]) {
    struct server_login_address *address =
        server_login_address(logins, client->socket, uv_now(logins->loop));
    if (logins->count >= SERVER_LOGINS_MAX || address->waiting >= SERVER_LOGINS_ADDRESS_MAX) {
        return false;
    }
    struct server_login *login = calloc(1, sizeof *login);
    if (login == NULL) {
        return false;
    }
    login->address = address;
    address->waiting++;
    login->failures = client->failures;
    login->client = client;
    login->user = access_find(logins->access, name);
    login->generation = login->user != NULL ? login->user->generation : 0;
    login->name = login->user == NULL
                      ? 0
                      : 1 + (uint32_t)(tn_hash64(name.at, name.len, 0) % (SERVER_LOGIN_NAMES - 1));
    memcpy(login->hash, login->user != NULL ? login->user->hash : logins->nobodys_hash,
           sizeof login->hash);
    memcpy(login->mark, mark, sizeof login->mark);
    memcpy(login->secret, secret.at, secret.len);
    login->len = secret.len;
    client->pending = login;
    TAILQ_INSERT_TAIL(&logins->waiting, login, place);
    logins->count++;
    login_next(logins);
    return true;
}

/* ---- For clients ---- */

static enum server_login_step login_failed(struct server_logins *logins,
                                           struct server_client *client, struct tn_bytes name) {
    char address[SERVER_LOGIN_ADDRESS_TEXT];
    client->failures++;
    logins->counters->logins[SERVER_LOGIN_REFUSED]++;
    if (logins->told == SERVER_LOGIN_LINES) {
        logins->untold++;
        return SERVER_LOGIN_BAD;
    }
    logins->told++;
    server_login_address_text(client->socket, address);
    server_log("login_failed", "user=\"%.*s\" addr=%s", (int)(name.len < 64 ? name.len : 64),
               (const char *)name.at, address);
    return SERVER_LOGIN_BAD;
}

void server_logins_second(struct server_logins *logins) {
    if (logins->untold > 0) {
        server_log("logins_failed", "more=%u", logins->untold);
    }
    logins->told = logins->untold = 0;
    for (uint32_t i = 0; i <= SERVER_LOGIN_ADDRESSES; i++) {
        logins->addresses[i].failures /= 2;
    }
}

static enum server_login_step login_end(struct server_logins *logins, struct server_client *client,
                                        struct tn_bytes name) {
    struct server_login *login = client->pending;
    bool good = login->good && is_current(login);
    client->pending = NULL;
    if (good) {
        client->login = (struct access_login){.user = login->user, .generation = login->generation};
    }
    login_free(login);
    if (!good) {
        return login_failed(logins, client, name);
    }
    logins->counters->logins[SERVER_LOGIN_ACCEPTED]++;
    return SERVER_LOGIN_GOOD;
}

enum server_login_step server_login(struct server_logins *logins, struct server_client *client,
                                    struct tn_bytes name, struct tn_bytes secret) {
    uint8_t mark[SERVER_LOGIN_MARK];
    if (client->pending != NULL) {
        return client->pending->done ? login_end(logins, client, name) : SERVER_LOGIN_WAIT;
    }
    if (name.len == 0 || name.len > KERNEL_USER_MAX || secret.len == 0 ||
        secret.len > ACCESS_SECRET_MAX) {
        return login_failed(logins, client, name);
    }
    mark_make(logins, name, secret, mark);
    if (known_find(logins, mark, &client->login)) {
        return SERVER_LOGIN_GOOD;
    }
    if (!login_begin(logins, client, name, secret, mark)) {
        logins->counters->logins[SERVER_LOGIN_CROWDED]++;
        return SERVER_LOGIN_BUSY;
    }
    return SERVER_LOGIN_WAIT;
}

/* A comparison that has begun cannot be stopped. Waiting log-ins of the client are removed. */
void server_login_leave(struct server_logins *logins, struct server_client *client) {
    struct server_login *login = client->pending;
    client->pending = NULL;
    if (login == NULL) {
        return;
    }
    if (login == logins->compared) {
        login->client = NULL;
        return;
    }
    if (!login->done) {
        TAILQ_REMOVE(&logins->waiting, login, place);
        login->address->waiting--;
        logins->count--;
    }
    login_free(login);
}
