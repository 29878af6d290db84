/* What access.h promises. */
#include "server/access.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/glob.h"
#include "base/hash.h"
#include "supervisor/supervisor.h"
#include "token/token_issuer.h"

#define BLANKS " \t,"
#define VALUES_STEP 64u

const struct access_user access_system = {.role = PROTOCOL_ADMIN, .is_fixed = true};
const struct access_user access_stranger = {.name = "nobody", .is_fixed = true};
static const struct access_user anonymous = {.role = PROTOCOL_ADMIN, .is_anonymous = true};
static const struct access_user nobody = {.role = PROTOCOL_NOBODY};

/* ---- Users ---- */

void access_init(struct access *access, uint32_t own_uid) {
    access->local_uid[1] = own_uid; /* root is the first entry */
    for (unsigned i = 0; i < 2; i++) {
        struct access_user *user = &access->local[i];
        *user = (struct access_user){.role = PROTOCOL_ADMIN, .is_fixed = true};
        user->name_len = (uint32_t)snprintf(user->name, sizeof user->name, ACCESS_LOCAL_PREFIX "%u",
                                            access->local_uid[i]);
    }
}

const struct access_user *access_peer(const struct access *access, uint32_t uid) {
    for (unsigned i = 0; i < 2; i++) {
        if (access->local_uid[i] == uid) {
            return &access->local[i];
        }
    }
    return &access_stranger;
}

static uint32_t bucket_of(struct tn_bytes name) {
    return (uint32_t)(tn_hash64(name.at, name.len, 0) % ACCESS_BUCKETS);
}

const struct access_user *access_find(const struct access *access, struct tn_bytes name) {
    const struct access_user *user = access->by_name[bucket_of(name)];
    while (user != NULL && !tn_bytes_equal(name, tn_bytes_of(user->name, user->name_len))) {
        user = user->same_hash;
    }
    return user;
}

struct access_login access_login_of(const struct access *access, struct tn_bytes name) {
    const struct access_user *user = access_find(access, name);
    return (struct access_login){.user = user, .generation = user != NULL ? user->generation : 0};
}

/* The struct of a removed user, or a new one. NULL: out of memory. */
static struct access_user *user_unused(struct access *access) {
    struct access_user *user = access->unused;
    if (user != NULL) {
        access->unused = user->same_hash;
        return user;
    }
    user = calloc(1, sizeof *user);
    if (user != NULL) {
        if (access->end == NULL) {
            access->end = &access->users;
        }
        *access->end = user;
        access->end = &user->next;
    }
    return user;
}

/* The user with this name, or a new one. */
static struct access_user *user_at(struct access *access, const char *name) {
    size_t len = strlen(name);
    TN_ASSERT(len > 0 && len <= KERNEL_USER_MAX);
    struct access_user *user =
        (struct access_user *)(uintptr_t)access_find(access, tn_bytes_of(name, len));
    if (user != NULL) {
        return user;
    }
    user = user_unused(access);
    if (user != NULL) {
        struct access_user **bucket = &access->by_name[bucket_of(tn_bytes_of(name, len))];
        memcpy(user->name, name, len + 1);
        user->name_len = (uint32_t)len;
        user->role = PROTOCOL_READER; /* marks the struct as used until the role is set */
        user->hash[0] = '\0';
        user->same_hash = *bucket;
        *bucket = user;
    }
    return user;
}

/* Makes all log-ins of the user void. */
static void user_end(struct access *access, struct access_user *user) {
    struct access_user **at = &access->by_name[bucket_of(tn_bytes_of(user->name, user->name_len))];
    while (*at != user) {
        at = &(*at)->same_hash;
    }
    *at = user->same_hash;
    user->same_hash = access->unused;
    access->unused = user;
    user->role = PROTOCOL_NOBODY;
    user->hash[0] = '\0';
    user->generation++;
}

/* A text of blanks is kept: it matches nothing, whereas an empty text matches everything. */
static bool list_set(struct access_list *list, const char *patterns) {
    char *copy = NULL;
    if (patterns != NULL && patterns[0] != '\0') {
        copy = strdup(patterns);
        if (copy == NULL) {
            return false;
        }
    }
    free(list->patterns);
    list->patterns = copy;
    return true;
}

static bool user_set(struct access *access, struct access_user *user,
                     const struct access_option *option) {
    TN_ASSERT(option->role != PROTOCOL_NOBODY && strlen(option->hash) < sizeof user->hash);
    if (!list_set(&user->pools, option->pools) || !list_set(&user->holders, option->holders)) {
        user_end(access, user); /* no user is better than one with the limits of another */
        return false;
    }
    if (strcmp(user->hash, option->hash) != 0) {
        (void)snprintf(user->hash, sizeof user->hash, "%s", option->hash);
        user->generation++;
    }
    user->role = option->role;
    user->max_values = option->max_values;
    return true;
}

/* Those of these names are of this round. */
static void round_begin(struct access *access, const struct access_option *options,
                        uint32_t count) {
    access->round++;
    for (uint32_t i = 0; i < count; i++) {
        const char *name = options[i].name;
        const struct access_user *user = access_find(access, tn_bytes_of(name, strlen(name)));
        if (user != NULL) {
            ((struct access_user *)(uintptr_t)user)->round = access->round;
        }
    }
}

bool access_configure(struct access *access, const struct access_option *options, uint32_t count) {
    access->of_file = count > 0;
    access->on = access->of_file || access->of_log;
    round_begin(access, options, count);
    for (struct access_user *user = access->users; user != NULL; user = user->next) {
        if (user->role != PROTOCOL_NOBODY && user->source == ACCESS_OF_FILE &&
            user->round != access->round) {
            user_end(access, user);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        struct access_user *user = user_at(access, options[i].name);
        if (user == NULL || !user_set(access, user, &options[i])) {
            return false;
        }
        user->source = ACCESS_OF_FILE;
    }
    return true;
}

void access_users_begin(struct access *access) {
    access->round++;
}

bool access_user_put(struct access *access, const struct access_option *option, uint64_t lsn) {
    struct access_user *user = user_at(access, option->name);
    access->of_log = access->on = true;
    if (user == NULL) {
        return false;
    }
    if (user->source == ACCESS_OF_FILE && user->hash[0] != '\0') {
        return true; /* the file wins */
    }
    user->source = ACCESS_OF_LOG;
    user->round = access->round;
    if (user->lsn == lsn && user->hash[0] != '\0') {
        return true;
    }
    user->lsn = lsn;
    return user_set(access, user, option);
}

void access_users_end(struct access *access) {
    for (struct access_user *user = access->users; user != NULL; user = user->next) {
        if (user->role != PROTOCOL_NOBODY && user->source == ACCESS_OF_LOG &&
            user->round != access->round) {
            user_end(access, user);
        }
    }
}

void access_free(struct access *access) {
    while (access->users != NULL) {
        struct access_user *user = access->users;
        access->users = user->next;
        free(user->pools.patterns);
        free(user->holders.patterns);
        free(user);
    }
}

const struct access_user *access_user_of(const struct access *access,
                                         const struct access_login *login) {
    if (login->user != NULL && login->user->is_fixed) {
        return login->user;
    }
    if (!access->on) {
        return &anonymous;
    }
    if (login->user == NULL || login->generation != login->user->generation) {
        return &nobody;
    }
    return login->user;
}

/* ---- Patterns ---- */

static bool list_has(const struct access_list *list, struct tn_bytes name) {
    if (list->patterns == NULL) {
        return true;
    }
    for (const char *at = list->patterns; *at != '\0';) {
        size_t len = strcspn(at, BLANKS);
        if (len > 0 && tn_glob_match(tn_bytes_of(at, len), name)) {
            return true;
        }
        at += len + strspn(at + len, BLANKS);
    }
    return false;
}

bool access_pool(const struct access_user *user, struct tn_bytes pool) {
    return list_has(&user->pools, pool);
}

bool access_holder(const struct access_user *user, struct tn_bytes holder) {
    return list_has(&user->holders, holder);
}

bool access_is_narrow(const struct access_user *user) {
    return user->pools.patterns != NULL || user->holders.patterns != NULL;
}

/* Whether the list is one name without wildcards. */
static bool list_is_name(const struct access_list *list, struct tn_bytes *ret_name) {
    if (list->patterns == NULL) {
        return false;
    }
    const char *at = list->patterns + strspn(list->patterns, BLANKS);
    size_t len = strcspn(at, BLANKS "*?[\\");
    *ret_name = tn_bytes_of(at, len);
    return len > 0 && at[len + strspn(at + len, BLANKS)] == '\0';
}

void access_narrow(const struct access_user *user, struct tn_bytes *pool, struct tn_bytes *holder) {
    struct tn_bytes name;
    if (pool->len == 0 && list_is_name(&user->pools, &name)) {
        *pool = name;
    }
    if (holder->len == 0 && list_is_name(&user->holders, &name)) {
        *holder = name;
    }
}

/* ---- What it sees ---- */

static bool is_about_pool(enum kernel_event_kind kind) {
    return kind == KERNEL_EVENT_POOL_CREATED || kind == KERNEL_EVENT_POOL_ALTERED ||
           kind == KERNEL_EVENT_POOL_DROPPED || kind == KERNEL_EVENT_POOL_ADDED ||
           kind == KERNEL_EVENT_POOL_REMOVED;
}

/* Events of rules, sensors and their runs belong to the pool of sensors, as the leases of runs
 * do. */
static bool is_about_sensors(enum kernel_event_kind kind) {
    return kind >= KERNEL_EVENT_RULE_SET && kind <= KERNEL_EVENT_SENSOR_START_FAILED;
}

static bool is_about_users(enum kernel_event_kind kind) {
    return kind >= KERNEL_EVENT_USER_ADDED && kind <= KERNEL_EVENT_USER_DELETED;
}

bool access_sensors(const struct access_user *user) {
    return access_pool(user, tn_bytes_of(TOKEN_SENSOR_POOL, sizeof TOKEN_SENSOR_POOL - 1));
}

static bool is_own(const struct access_user *user, struct tn_bytes owner) {
    return tn_bytes_equal(owner, tn_bytes_of(user->name, user->name_len));
}

/* An event of a lease without values, which waits or has waited. The event names its pool, but not
 * the pools of a bundle, so a user whose pools are limited sees a bundle's event only if the lease
 * is its own. */
static bool sees_waiter(const struct access_user *user, const struct kernel_event *fact) {
    if (fact->name.len > 0) {
        return access_pool(user, fact->name);
    }
    return user->pools.patterns == NULL || is_own(user, fact->user);
}

bool access_sees_event(const struct access_user *user, const struct engine_event *event) {
    const struct kernel_event *fact = &event->fact;
    if (is_about_users(fact->kind) &&
        (user->role < PROTOCOL_ADMIN || access_is_narrow(user))) { /* as USER LIST */
        return false;
    }
    if (!access_is_narrow(user)) {
        return user->role != PROTOCOL_NOBODY;
    }
    if (is_about_pool(fact->kind) && !access_pool(user, fact->name)) {
        return false;
    }
    if (is_about_sensors(fact->kind) && !access_sensors(user)) {
        return false;
    }
    if ((fact->holder.len > 0 && !access_holder(user, fact->holder)) ||
        (fact->previous.len > 0 && !access_holder(user, fact->previous))) {
        return false;
    }
    if (fact->lease.lsn != 0 && fact->value_count == 0 && !sees_waiter(user, fact)) {
        return false;
    }
    for (uint32_t i = 0; i < fact->value_count; i++) {
        if (!access_pool(user, event->values[i].pool)) {
            return false;
        }
    }
    return true;
}

static bool sees_values(const struct access_user *user, const struct engine_value *values,
                        uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (!access_pool(user, tn_bytes_of(values[i].pool, strlen(values[i].pool)))) {
            return false;
        }
    }
    return true;
}

typedef enum tn_result parts_read(struct engine *, enum engine_read_mode, struct kernel_lease_id,
                                  uint32_t first, struct engine_value *, uint32_t capacity,
                                  uint32_t *ret_count);

/* Whether the user may see the pools of all values, or of all that a waiting lease waits for. A
 * lease that has just ended can no longer be seen; one that has just been granted is judged by its
 * values. */
static bool sees_all(const struct access_user *user, struct engine *engine,
                     struct kernel_lease_id id, parts_read *read) {
    struct engine_value values[VALUES_STEP];
    uint32_t first = 0;
    for (;;) {
        uint32_t count = 0;
        enum tn_result code =
            read(engine, ENGINE_READ_STALE, id, first, values, VALUES_STEP, &count);
        if (code == TN_R_STATE && read == engine_lease_wants) {
            read = engine_lease_values;
            first = 0;
            continue;
        }
        if (code != TN_R_OK || !sees_values(user, values, count)) {
            return false;
        }
        if (count == 0) {
            return first > 0;
        }
        first += count;
    }
}

bool access_sees_lease(const struct access_user *user, struct engine *engine,
                       const struct engine_lease *lease) {
    const struct kernel_lease_view *view = &lease->view;
    if (!access_holder(user, tn_bytes_of(view->holder, view->holder_len))) {
        return false;
    }
    if (user->pools.patterns == NULL) {
        return true;
    }
    if (view->state == KERNEL_WAITING) {
        return sees_all(user, engine, view->id, engine_lease_wants);
    }
    /* Its wait ended without a grant, so its pools are no longer known. */
    if (view->value_count == 0) {
        return is_own(user, tn_bytes_of(view->user, view->user_len));
    }
    return view->value_count <= lease->value_count
               ? sees_values(user, lease->values, lease->value_count)
               : sees_all(user, engine, view->id, engine_lease_values);
}

/* ---- What it may do ---- */

bool access_programs(const struct access_user *user) {
    return user->role == PROTOCOL_ADMIN && !user->is_anonymous;
}

enum tn_result access_role(const struct access_user *user, enum protocol_role needed) {
    if (needed <= user->role) {
        return TN_R_OK;
    }
    return user->role == PROTOCOL_NOBODY ? TN_R_NOAUTH : TN_R_NOPERM;
}

static enum tn_result refuse(char detail[ACCESS_DETAIL], const char *what, struct tn_bytes name) {
    (void)snprintf(detail, ACCESS_DETAIL, "this user has no access to %s '%.*s'", what,
                   (int)(name.len < 80 ? name.len : 80), (const char *)name.at);
    return TN_R_NOPERM;
}

static enum tn_result judge_claims(const struct access_user *user,
                                   const struct kernel_command *command,
                                   char detail[ACCESS_DETAIL]) {
    struct tn_reader r = tn_reader_of(command->claims.at, command->claims.len);
    for (uint32_t i = 0; i < command->claim_count; i++) {
        struct kernel_claim claim = kernel_claim_read(&r);
        if (!access_pool(user, claim.pool)) {
            return refuse(detail, "pool", claim.pool);
        }
    }
    return TN_R_OK;
}

/* Whether the lease belongs to another user: tokens are issued to the lease's own user only. */
static bool is_foreign(const struct access_user *user, const struct protocol_command *row,
                       const struct engine_lease *lease) {
    return protocol_command_has(row, PROTOCOL_OWN_LEASE) && user->role < PROTOCOL_OPERATOR &&
           strcmp(lease->view.user, user->name) != 0;
}

/* Whether the lease ended without ever being granted. An operator may have seen it while it waited,
 * and may repeat the command that ended it, because the kernel remembers the operation. No command
 * can change such a lease. */
static bool waited_in_vain(const struct access_user *user, const struct engine_lease *lease) {
    const struct kernel_lease_view *view = &lease->view;
    return kernel_state_terminal(view->state) && view->value_count == 0 &&
           access_holder(user, tn_bytes_of(view->holder, view->holder_len));
}

/* The values of a lease never change, so their pools can be judged before the command is logged. If
 * the lease is rekeyed to another holder meanwhile, the order of the two commands could have been
 * the other one. */
static enum tn_result judge_lease(const struct access_user *user, struct engine *engine,
                                  const struct protocol_command *row,
                                  const struct kernel_command *command,
                                  char detail[ACCESS_DETAIL]) {
    struct engine_lease lease;
    if (command->lease.lsn == 0) {
        /* The request names the lease by pool/value: the pool has been judged here, and the handler
         * judges the lease. */
        return command->pool.len > 0 ? TN_R_OK : TN_R_NOTFOUND;
    }
    uint64_t lsn = engine_lsn(engine); /* read before looking for the lease */
    if (engine_lease_read(engine, ENGINE_READ_STALE, command->lease, &lease) != TN_R_OK) {
        /* If the lease has ended, the kernel answers, because it may remember the operation. A
         * lease that may be created before this command is applied cannot be judged now. */
        return command->lease.lsn <= lsn ? TN_R_OK : TN_R_NOTFOUND;
    }
    if (!access_sees_lease(user, engine, &lease) && !waited_in_vain(user, &lease)) {
        return TN_R_NOTFOUND;
    }
    if (is_foreign(user, row, &lease)) {
        (void)snprintf(detail, ACCESS_DETAIL, "the lease belongs to another user");
        return TN_R_NOPERM;
    }
    return TN_R_OK;
}

/* A user that may see the pool of sensors may see rules and the state of sensors. A sensor's
 * description and output need the right to act for its holder, sensor/REF, because the description
 * is a program. */
static enum tn_result judge_sensor(const struct access_user *user,
                                   const struct protocol_command *row, struct tn_bytes ref,
                                   char detail[ACCESS_DETAIL]) {
    char holder[sizeof SUPERVISOR_HOLDER + KERNEL_RESOURCE_MAX];
    bool state_only =
        row->subject == PROTOCOL_OF_RULE || protocol_command_has(row, PROTOCOL_STATE_ONLY);
    if (!access_sensors(user)) {
        return refuse(detail, "pool", tn_bytes_of(TOKEN_SENSOR_POOL, sizeof TOKEN_SENSOR_POOL - 1));
    }
    int len = snprintf(holder, sizeof holder, "%s%.*s", SUPERVISOR_HOLDER,
                       (int)(ref.len < KERNEL_RESOURCE_MAX ? ref.len : KERNEL_RESOURCE_MAX),
                       (const char *)ref.at);
    if (!state_only && !access_holder(user, tn_bytes_of(holder, (size_t)len))) {
        return refuse(detail, "holder", tn_bytes_of(holder, (size_t)len));
    }
    return TN_R_OK;
}

static enum tn_result deny(char detail[ACCESS_DETAIL], const char *why) {
    (void)snprintf(detail, ACCESS_DETAIL, "%s", why);
    return TN_R_NOPERM;
}

/* Judges the command of a limited user by its subject. The pools, the holder and the claims that
 * the command names have been judged already. A subject without a case here is refused. */
static enum tn_result judge_subject(const struct access_user *user, struct engine *engine,
                                    const struct protocol_command *row,
                                    const struct kernel_command *command,
                                    char detail[ACCESS_DETAIL]) {
    switch (row->subject) {
    case PROTOCOL_OF_NONE:
    case PROTOCOL_OF_LIST:
        return TN_R_OK;
    case PROTOCOL_OF_POOL:
        return command->pool.len > 0 || command->claim_count > 0
                   ? TN_R_OK
                   : deny(detail, "name a pool: this user does not have access to all pools");
    case PROTOCOL_OF_LEASE:
        return judge_lease(user, engine, row, command, detail);
    case PROTOCOL_OF_RULE:
    case PROTOCOL_OF_SENSOR:
        return judge_sensor(user, row, command->name, detail);
    case PROTOCOL_OF_MANY:
        return user->pools.patterns == NULL
                   ? TN_R_OK
                   : deny(detail,
                          "DISOWN could end bundles in pools that this user has no access to; "
                          "revoke leases by id");
    case PROTOCOL_OF_ALL:
        return deny(detail, "this command is about all pools and holders, and this user is "
                            "limited to some of them");
    default:
        return deny(detail, "the subject of this command is unknown, so no user may use it");
    }
}

enum tn_result access_judge(const struct access_user *user, struct engine *engine,
                            const struct protocol_command *row, const struct protocol_call *call,
                            char detail[ACCESS_DETAIL]) {
    const struct kernel_command *command = &call->command;
    bool known = row->subject > PROTOCOL_OF_UNKNOWN && row->subject <= PROTOCOL_OF_LIST;
    if (known && !access_is_narrow(user) && !protocol_command_has(row, PROTOCOL_OWN_LEASE)) {
        return TN_R_OK;
    }
    if (command->pool.len > 0 && !access_pool(user, command->pool)) {
        return refuse(detail, "pool", command->pool);
    }
    if (command->holder.len > 0 && !access_holder(user, command->holder)) {
        return refuse(detail, "holder", command->holder);
    }
    enum tn_result code = judge_claims(user, command, detail);
    return code == TN_R_OK ? judge_subject(user, engine, row, command, detail) : code;
}
