/* Users that are added at run time, and how many values each user's leases hold. */
#include "sim/model.h"

#include <string.h>

#include "base/chunks.h"

static struct model_user *user_find(struct model *m, struct tn_bytes name) {
    for (uint32_t i = 0; i < MODEL_USERS; i++) {
        struct model_user *u = &m->users[i];
        if (u->role != 0 && tn_bytes_equal(tn_bytes_of(u->name, strlen(u->name)), name)) {
            return u;
        }
    }
    return NULL;
}

uint32_t model_users(const struct model *m) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < MODEL_USERS; i++) {
        count += m->users[i].role != 0;
    }
    return count;
}

static uint64_t chunks_of(const char *text) {
    return text[0] == '\0' ? 0 : tn_text_chunks(strlen(text));
}

uint64_t model_user_chunks(const struct model *m) {
    uint64_t chunks = 0;
    for (uint32_t i = 0; i < MODEL_USERS; i++) {
        const struct model_user *u = &m->users[i];
        chunks += u->role == 0 ? 0
                               : chunks_of(u->name) + chunks_of(u->secret) + chunks_of(u->pools) +
                                     chunks_of(u->holders);
    }
    return chunks;
}

uint64_t model_user_values(const struct model *m, struct tn_bytes name) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < m->lease_count; i++) {
        const struct model_lease *l = &m->leases[i];
        bool is_its = tn_bytes_equal(tn_bytes_of(l->user, strlen(l->user)), name);
        count += is_its && l->state != KERNEL_WAITING ? l->value_count : 0;
    }
    return name.len == 0 ? 0 : count;
}

/* ---- the verbs ---- */

static bool name_good(struct tn_bytes name) {
    for (uint32_t i = 0; i < name.len; i++) {
        if (name.at[i] <= ' ' || name.at[i] > '~' || name.at[i] == ':') {
            return false;
        }
    }
    return name.len > 0 && name.len <= KERNEL_USER_MAX;
}

static bool fields_good(struct model *m) {
    const struct kernel_command *c = &m->c;
    bool has_role = (c->fields & KERNEL_F_ROLE) != 0;
    if ((has_role && (c->role < 1 || c->role > KERNEL_ROLES)) ||
        ((c->fields & KERNEL_F_SPEC) != 0 && c->spec.len == 0)) {
        m->want.head.code = TN_R_BAD_REQUEST;
    } else if (c->spec.len > KERNEL_SECRET_MAX) {
        m->want.head.code = TN_R_TOO_LARGE;
        m->want.head.number = KERNEL_SECRET_MAX;
    } else if (c->pool.len > KERNEL_PATTERNS_MAX || c->holder.len > KERNEL_PATTERNS_MAX) {
        m->want.head.code = TN_R_TOO_LARGE;
        m->want.head.number = KERNEL_PATTERNS_MAX;
    }
    return m->want.head.code == TN_R_OK;
}

static bool texts_fit(const struct model *m, bool fresh) {
    const struct kernel_command *c = &m->c;
    uint64_t chunks = fresh ? tn_text_chunks(c->name.len) : 0;
    chunks += c->spec.len > 0 ? tn_text_chunks(c->spec.len) : 0;
    chunks += c->pool.len > 0 ? tn_text_chunks(c->pool.len) : 0;
    chunks += c->holder.len > 0 ? tn_text_chunks(c->holder.len) : 0;
    return model_text_fits(m, chunks);
}

/* The user after the command. */
static struct model_user changed(const struct model *m, const struct model_user *old) {
    const struct kernel_command *c = &m->c;
    struct model_user u = *old;
    if ((c->fields & KERNEL_F_ROLE) != 0) {
        u.role = c->role;
    }
    if ((c->fields & KERNEL_F_QUOTA) != 0) {
        u.max_values = c->quota;
    }
    if ((c->fields & KERNEL_F_SPEC) != 0) {
        model_text(u.secret, sizeof u.secret, c->spec);
    }
    if ((c->fields & KERNEL_F_POOL) != 0) {
        model_text(u.pools, sizeof u.pools, c->pool);
    }
    if ((c->fields & KERNEL_F_HOLDER) != 0) {
        model_text(u.holders, sizeof u.holders, c->holder);
    }
    return u;
}

static bool same(const struct model_user *a, const struct model_user *b) {
    return a->role == b->role && a->max_values == b->max_values &&
           strcmp(a->secret, b->secret) == 0 && strcmp(a->pools, b->pools) == 0 &&
           strcmp(a->holders, b->holders) == 0;
}

static void add(struct model *m) {
    struct model_user fresh = {0};
    if (!name_good(m->c.name)) {
        m->want.head.code = TN_R_BAD_NAME;
        return;
    }
    if (!fields_good(m)) {
        return;
    }
    if (user_find(m, m->c.name) != NULL) {
        m->want.head.code = TN_R_EXISTS;
    } else if (model_users(m) >= m->limits.of[KERNEL_LIMIT_USERS]) {
        m->want.head.code = TN_R_USERS_FULL;
        m->want.head.number = m->limits.of[KERNEL_LIMIT_USERS];
    } else if (!texts_fit(m, true)) {
        m->want.head.code = TN_R_NAMES_FULL;
    } else {
        uint32_t at = 0;
        while (m->users[at].role != 0) {
            at++;
        }
        fresh = changed(m, &fresh);
        model_text(fresh.name, sizeof fresh.name, m->c.name);
        fresh.lsn = m->users_lsn = m->lsn;
        m->users[at] = fresh;
        model_expect_name(m, KERNEL_EVENT_USER_ADDED, fresh.name, fresh.role);
    }
}

static void set(struct model *m) {
    struct model_user *u = user_find(m, m->c.name);
    if (u == NULL) {
        m->want.head.code = TN_R_NOTFOUND;
        return;
    }
    if (!fields_good(m)) {
        return;
    }
    struct model_user next = changed(m, u);
    if (!texts_fit(m, false)) {
        m->want.head.code = TN_R_NAMES_FULL;
    } else if (same(u, &next)) {
        m->want.head.code = TN_R_NOOP;
    } else {
        next.lsn = m->users_lsn = m->lsn;
        *u = next;
        model_expect_name(m, KERNEL_EVENT_USER_CHANGED, u->name, u->role);
    }
}

static void delete (struct model *m) {
    struct model_user *u = user_find(m, m->c.name);
    if (u == NULL) {
        m->want.head.code = TN_R_NOTFOUND;
        return;
    }
    model_expect_name(m, KERNEL_EVENT_USER_DELETED, u->name, u->role);
    m->users_lsn = m->lsn;
    u->role = 0;
}

void model_user(struct model *m) {
    switch (m->c.verb) {
    case KERNEL_VERB_USER_ADD:
        add(m);
        break;
    case KERNEL_VERB_USER_SET:
        set(m);
        break;
    default:
        delete (m);
        break;
    }
}

/* ---- comparison ---- */

void model_users_check(struct model *m, const struct kernel *kernel) {
    uint32_t count = 0;
    uint64_t cursor = 0;
    do {
        struct kernel_user_view v;
        bool found = false;
        cursor = kernel_users_scan(kernel, cursor, &v, &found);
        if (!found) {
            break;
        }
        count++;
        const struct model_user *u = user_find(m, tn_bytes_of(v.name, v.name_len));
        if (u == NULL || u->role != v.role || u->max_values != v.max_values || u->lsn != v.lsn ||
            strcmp(u->secret, v.secret) != 0 || strcmp(u->pools, v.pools) != 0 ||
            strcmp(u->holders, v.holders) != 0) {
            model_fail(m, "user %s differs", v.name);
        }
    } while (cursor != 0);
    if (count != model_users(m) || kernel_users_lsn(kernel) != m->users_lsn) {
        model_fail(m, "%u users, should be %u; or their last change differs", count,
                   model_users(m));
    }
    for (uint32_t i = 0; i < m->lease_count; i++) {
        struct tn_bytes user = tn_bytes_of(m->leases[i].user, strlen(m->leases[i].user));
        if (kernel_user_values(kernel, user) != model_user_values(m, user)) {
            model_fail(m, "the values of user %s are miscounted", m->leases[i].user);
        }
    }
}
