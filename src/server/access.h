/* Access: users, and what each of them may do.
 *
 * A user has a name, a role, a hashed secret, two lists of patterns (the pools it may touch and the
 * holders it may act for) and a quota of values. Users come from the configuration file, or were added
 * at run time (users.h); both can change while the server runs. A name that the file defines is the
 * file's. Without users, every client is an anonymous administrator, and the server listens on loopback
 * addresses only. An anonymous client on this machine proves little: a browser is on it too, and does as
 * web pages ask. So anonymous clients may do everything except define programs for the server to run,
 * and users.
 *
 * A client of the Unix-domain socket is known by its process: root and the server's own user are
 * administrators named unix:UID, whether there are users or not; all others must log in.
 *
 * Invariants
 *   1. A user's rights are judged here, before anything is logged. The command carries the user's name
 *      and the one bit that the kernel needs, so no change of the configuration changes a replay.
 *   2. A user's struct stays in place until the server ends, so logins may point to it. When the secret
 *      changes or the user is removed, the generation changes, and all logins of the user become void:
 *      so the struct of a removed user can become that of another one.
 *   3. A user that may not see a pool or a holder sees none of its leases and events, neither in lists
 *      nor by their ids: they seem not to exist.
 *
 * Everything runs on the loop's thread. */
#ifndef TN_SERVER_ACCESS_H
#define TN_SERVER_ACCESS_H

#include "engine/read.h"
#include "protocol/parse.h"

#define ACCESS_USERS_MAX 4096u
/* Bytes of a hashed secret as crypto_pwhash_str writes it, with its NUL. */
#define ACCESS_HASH_MAX 128u
#define ACCESS_SECRET_MAX 256u
/* The cost of hashing a secret, and of each comparison with the hash: see crypto_pwhash. */
#define ACCESS_HASH_OPS 2u
#define ACCESS_HASH_MEMORY (19u << 20)
#define ACCESS_DETAIL PROTOCOL_DETAIL
/* The prefix of the names of clients of the Unix-domain socket. */
#define ACCESS_LOCAL_PREFIX "unix:"

/* A user as the configuration defines it. The caller owns the texts. */
struct access_option {
    const char *name;
    const char *hash;
    enum protocol_role role;
    const char *pools, *holders; /* patterns separated by blanks; NULL or empty: no limit */
    uint32_t max_values;         /* 0: no quota */
};

struct access_list {
    char *patterns; /* NULL: all */
};

/* Where a user is defined. */
enum access_source { ACCESS_OF_FILE, ACCESS_OF_LOG };

struct access_user {
    struct access_user *next, *same_hash;
    uint32_t name_len;
    char name[KERNEL_USER_MAX + 1];
    char hash[ACCESS_HASH_MAX];
    enum protocol_role role; /* NOBODY: the user has been removed */
    bool is_fixed;           /* is not from the configuration and is never removed */
    bool is_anonymous;
    uint8_t source; /* enum access_source */
    uint32_t max_values;
    uint32_t generation;
    uint32_t round; /* the last round that found it in its source */
    uint64_t lsn;   /* for a user added at run time: the position of its last change */
    struct access_list pools, holders;
};

#define ACCESS_BUCKETS 1024u

struct access {
    struct access_user *users, **end; /* in the order of their definition */
    struct access_user *by_name[ACCESS_BUCKETS];
    struct access_user *unused; /* removed users, linked by same_hash; their structs are reused */
    uint32_t round;
    bool of_file, of_log;        /* the file defines users; users have been added at run time */
    struct access_user local[2]; /* root and the server's own user at the Unix-domain socket */
    uint32_t local_uid[2];
    bool on; /* users are defined: clients must log in */
};

/* The user as which a client has logged in. */
struct access_login {
    const struct access_user *user; /* NULL: the client has not logged in */
    uint32_t generation;
    bool by_certificate;
};

/* The identity of the server's own commands: ticks, the UDP listener. */
extern const struct access_user access_system;

/* The identity of other users at the Unix-domain socket: they must log in. */
extern const struct access_user access_stranger;

/* `own_uid`: the user id that the server runs as. */
void access_init(struct access *access, uint32_t own_uid);
/* The user of a client of the Unix-domain socket whose process has the user id `uid`. */
const struct access_user *access_peer(const struct access *access, uint32_t uid);

/* Replaces the users of the file by these. False: out of memory; some of them may be in effect. */
bool access_configure(struct access *access, const struct access_option *options, uint32_t count);
/* Replaces the users added at run time: call access_user_put for each of them between `begin` and
 * `end`. `end` removes the users that were not put. False: out of memory. */
void access_users_begin(struct access *access);
bool access_user_put(struct access *access, const struct access_option *option, uint64_t lsn);
void access_users_end(struct access *access);
void access_free(struct access *access);

/* NULL: no user has this name. */
const struct access_user *access_find(const struct access *access, struct tn_bytes name);

/* A login as the user of this name. Its user is NULL if no user has the name. */
struct access_login access_login_of(const struct access *access, struct tn_bytes name);

/* Never NULL. Without a login, this is the user "nobody", or an administrator if no users are
 * defined. */
const struct access_user *access_user_of(const struct access *access,
                                         const struct access_login *login);

bool access_pool(const struct access_user *user, struct tn_bytes pool);
bool access_holder(const struct access_user *user, struct tn_bytes holder);
/* Whether the user may see sensors and rules: they belong to the pool of sensors. */
bool access_sensors(const struct access_user *user);
/* Whether the user's pools or holders are limited. */
bool access_is_narrow(const struct access_user *user);
/* If the user may see only one pool or one holder, sets an empty filter of a list to it. */
void access_narrow(const struct access_user *user, struct tn_bytes *pool, struct tn_bytes *holder);
bool access_sees_event(const struct access_user *user, const struct engine_event *event);
bool access_sees_lease(const struct access_user *user, struct engine *engine,
                       const struct engine_lease *lease);

/* Whether the user may define programs for the server to run. */
bool access_programs(const struct access_user *user);

/* OK. NOAUTH: the client must log in. NOPERM: the user's role is too low. */
enum tn_result access_role(const struct access_user *user, enum protocol_role needed);

/* Whether the user may execute the parsed call with the pools, holders and lease that it names. OK,
 * or NOPERM with the reason in `detail`, or NOTFOUND for a lease that the user may not see. */
enum tn_result access_judge(const struct access_user *user, struct engine *engine,
                            const struct protocol_command *row, const struct protocol_call *call,
                            char detail[ACCESS_DETAIL]);

#endif
