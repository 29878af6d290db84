/* Users that are added at run time, and the number of values that the leases of each user hold.
 *
 * The table of users is passive: it replicates and survives restarts, and the server reads it. What a
 * user may do is decided before a command is logged, and the command carries the decision: operator
 * rights as a bit, the user's quota as a number. So the same log has the same effect whatever the
 * configuration of a node says.
 *
 * Quotas. A user's leases in the states reserved, active, offline and revoking hold at most `quota`
 * values together, as the command says that asks for more. The count is kept for every name, whether or
 * not it has a quota, so a quota that comes later is right at once. It is derived from the leases and
 * no part of the records. */
#include "kernel/state.h"

/* ---- values of users ---- */

void kernel_user_count(struct kernel *k, uint32_t lease, int sign) {
    const struct lease *l = lease_at(k, lease);
    if (l->user == TN_NONE) {
        return;
    }
    uint32_t *values = &k->user_values[l->user];
    TN_ASSERT(sign > 0 || *values >= l->member_count);
    *values = sign > 0 ? *values + l->member_count : *values - l->member_count;
}

void kernel_user_rebuild(struct kernel *k) {
    for (uint32_t i = 0; i < k->tables[TABLE_LEASE].used; i++) {
        uint8_t state = lease_at(k, i)->state;
        if (state >= KERNEL_RESERVED && state <= KERNEL_REVOKING) {
            kernel_user_count(k, i, +1);
        }
    }
}

uint64_t kernel_user_values(const struct kernel *k, struct tn_bytes name) {
    uint32_t slot = name.len == 0 || name.len > KERNEL_USER_MAX
                        ? TN_NONE
                        : kernel_index_text(k, TEXT_NAME, name);
    return slot == TN_NONE ? 0 : k->user_values[slot];
}

/* ---- changes ---- */

/* Fields of a command that are patterns or the secret: OK, TOO_LARGE or BAD_REQUEST. */
static enum tn_result fields_check(const struct kernel_command *c, struct kernel_result *result) {
    if ((c->fields & KERNEL_F_ROLE) && (c->role == 0 || c->role > KERNEL_ROLES)) {
        return TN_R_BAD_REQUEST;
    }
    if ((c->fields & KERNEL_F_SPEC) && c->spec.len == 0) {
        return TN_R_BAD_REQUEST;
    }
    if (c->spec.len > KERNEL_SECRET_MAX) {
        result->number = KERNEL_SECRET_MAX;
        return TN_R_TOO_LARGE;
    }
    if (c->pool.len > KERNEL_PATTERNS_MAX || c->holder.len > KERNEL_PATTERNS_MAX) {
        result->number = KERNEL_PATTERNS_MAX;
        return TN_R_TOO_LARGE;
    }
    return TN_R_OK;
}

/* Whether there is room for all texts of the command. A change takes the new texts before it
 * releases the old ones. */
static bool texts_fit(const struct kernel *k, const struct kernel_command *c, bool fresh) {
    uint64_t chunks = fresh ? tn_text_chunks(c->name.len) : 0;
    chunks += c->fields & KERNEL_F_SPEC ? tn_text_chunks(c->spec.len) : 0;
    chunks += c->pool.len > 0 ? tn_text_chunks(c->pool.len) : 0;
    chunks += c->holder.len > 0 ? tn_text_chunks(c->holder.len) : 0;
    return tn_table_room(&k->tables[TABLE_TEXT]) >= chunks;
}

static bool text_is(const struct kernel *k, uint32_t text, struct tn_bytes wanted) {
    return text == TN_NONE ? wanted.len == 0 : tn_text_equal(&k->tables[TABLE_TEXT], text, wanted);
}

/* True if it was another text. An empty one is none. */
static bool text_set(struct kernel *k, uint32_t *text, struct tn_bytes wanted) {
    uint32_t old = *text;
    if (text_is(k, old, wanted)) {
        return false;
    }
    *text = wanted.len == 0 ? TN_NONE : tn_text_put(&k->tables[TABLE_TEXT], wanted);
    if (old != TN_NONE) {
        tn_text_drop(&k->tables[TABLE_TEXT], old);
    }
    return true;
}

static bool number_set(uint32_t *number, uint32_t wanted) {
    bool changes = *number != wanted;
    *number = wanted;
    return changes;
}

/* Sets what the command names; true if anything is different now. */
static bool user_fill(struct kernel *k, uint32_t slot, const struct kernel_command *c) {
    struct user *u = user_mut(k, slot);
    uint32_t f = c->fields;
    bool changes = (f & KERNEL_F_ROLE) != 0 && number_set(&u->role, c->role);
    changes |= (f & KERNEL_F_QUOTA) != 0 && number_set(&u->max_values, c->quota);
    changes |= (f & KERNEL_F_SPEC) != 0 && text_set(k, &u->secret, c->spec);
    changes |= (f & KERNEL_F_POOL) != 0 && text_set(k, &u->pools, c->pool);
    changes |= (f & KERNEL_F_HOLDER) != 0 && text_set(k, &u->holders, c->holder);
    return changes;
}

static void user_changed(struct kernel *k, uint32_t slot, const struct kernel_command *c,
                         enum kernel_event_kind kind) {
    user_mut(k, slot)->lsn = root_at(k)->lsn;
    root_mut(k)->users_lsn = root_at(k)->lsn;
    kernel_event_named(k, kind, c->name, user_at(k, slot)->role);
}

void kernel_run_user_add(struct kernel *k, const struct kernel_command *c,
                         struct kernel_result *result) {
    result->code = kernel_name_user_valid(c->name) ? fields_check(c, result) : TN_R_BAD_NAME;
    if (result->code != TN_R_OK) {
        return;
    }
    if (kernel_index_text(k, TEXT_USER, c->name) != TN_NONE) {
        result->code = TN_R_EXISTS;
    } else if (tn_table_room(&k->tables[TABLE_USER]) == 0) {
        result->code = TN_R_USERS_FULL;
        result->number = kernel_limit(k, KERNEL_LIMIT_USERS);
    } else if (!texts_fit(k, c, true)) {
        result->code = TN_R_NAMES_FULL;
    }
    if (result->code != TN_R_OK) {
        return;
    }
    uint32_t slot = tn_table_take(&k->tables[TABLE_USER]);
    TN_ASSERT(slot != TN_NONE);
    struct user *u = user_mut(k, slot);
    u->name = tn_text_put(&k->tables[TABLE_TEXT], c->name);
    u->secret = u->pools = u->holders = TN_NONE;
    (void)user_fill(k, slot, c);
    kernel_index_text_add(k, TEXT_USER, slot);
    user_changed(k, slot, c, KERNEL_EVENT_USER_ADDED);
}

void kernel_run_user_set(struct kernel *k, const struct kernel_command *c,
                         struct kernel_result *result) {
    uint32_t slot = kernel_index_text(k, TEXT_USER, c->name);
    result->code = slot == TN_NONE ? TN_R_NOTFOUND : fields_check(c, result);
    if (result->code == TN_R_OK && !texts_fit(k, c, false)) {
        result->code = TN_R_NAMES_FULL;
    }
    if (result->code != TN_R_OK) {
        return;
    }
    if (user_fill(k, slot, c)) {
        user_changed(k, slot, c, KERNEL_EVENT_USER_CHANGED);
    } else {
        result->code = TN_R_NOOP;
    }
}

void kernel_run_user_delete(struct kernel *k, const struct kernel_command *c,
                            struct kernel_result *result) {
    uint32_t slot = kernel_index_text(k, TEXT_USER, c->name);
    if (slot == TN_NONE) {
        result->code = TN_R_NOTFOUND;
        return;
    }
    user_changed(k, slot, c, KERNEL_EVENT_USER_DELETED);
    const struct user *u = user_at(k, slot);
    const uint32_t texts[] = {u->name, u->secret, u->pools, u->holders};
    kernel_index_text_remove(k, TEXT_USER, slot);
    for (unsigned i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (texts[i] != TN_NONE) {
            tn_text_drop(&k->tables[TABLE_TEXT], texts[i]);
        }
    }
    tn_table_give(&k->tables[TABLE_USER], slot);
}

/* ---- reads ---- */

static uint32_t text_show(const struct kernel *k, uint32_t text, char *out, uint32_t most) {
    uint32_t len = text == TN_NONE ? 0 : tn_text_get(&k->tables[TABLE_TEXT], text, out, most);
    TN_ASSERT(len <= most);
    out[len] = '\0';
    return len;
}

static void user_show(const struct kernel *k, uint32_t slot, struct kernel_user_view *v) {
    const struct user *u = user_at(k, slot);
    v->name_len = text_show(k, u->name, v->name, KERNEL_USER_MAX);
    (void)text_show(k, u->secret, v->secret, KERNEL_SECRET_MAX);
    (void)text_show(k, u->pools, v->pools, KERNEL_PATTERNS_MAX);
    (void)text_show(k, u->holders, v->holders, KERNEL_PATTERNS_MAX);
    v->role = u->role;
    v->max_values = u->max_values;
    v->lsn = u->lsn;
}

uint64_t kernel_users_scan(const struct kernel *k, uint64_t cursor,
                           struct kernel_user_view *ret_view, bool *ret_found) {
    uint64_t end = k->tables[TABLE_USER].used;
    *ret_found = false;
    for (; cursor < end && !*ret_found; cursor++) {
        if (user_at(k, (uint32_t)cursor)->role != 0) {
            user_show(k, (uint32_t)cursor, ret_view);
            *ret_found = true;
        }
    }
    return cursor < end ? cursor : 0;
}

uint64_t kernel_users_lsn(const struct kernel *k) {
    return root_at(k)->users_lsn;
}
