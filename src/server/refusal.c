/* An open-addressed table; see refusal.h. Entries move only in prune, and only one thread prunes. */
#include "server/refusal.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define MASK (SERVER_REFUSALS - 1u)
_Static_assert((SERVER_REFUSALS & MASK) == 0, "a power of two");

uint64_t server_refusal_name_hash(const void *name, size_t len) {
    return tn_hash64(name, len, 0) | 1;
}

bool server_refusals_init(struct server_refusals *refusals) {
    refusals->used = 0;
    refusals->of = calloc(SERVER_REFUSALS, sizeof refusals->of[0]);
    if (refusals->of == NULL) {
        return false;
    }
    if (uv_mutex_init(&refusals->lock) != 0) {
        free(refusals->of);
        refusals->of = NULL;
        return false;
    }
    return true;
}

void server_refusals_free(struct server_refusals *refusals) {
    if (refusals->of != NULL) {
        uv_mutex_destroy(&refusals->lock);
        free(refusals->of);
        refusals->of = NULL;
    }
}

/* The entry, or the empty place for it. */
static struct server_refusal *refusal_at(struct server_refusals *refusals, uint64_t name_hash,
                                         enum tn_result code) {
    uint32_t i = (uint32_t)tn_mix64(name_hash + (uint64_t)code) & MASK;
    while (refusals->of[i].count != 0 &&
           (refusals->of[i].name_hash != name_hash || refusals->of[i].code != code)) {
        i = (i + 1) & MASK;
    }
    return &refusals->of[i];
}

static void refusal_add(struct server_refusals *refusals, uint64_t name_hash, enum tn_result code,
                        uint64_t count) {
    struct server_refusal *entry = refusal_at(refusals, name_hash, code);
    if (entry->count == 0) {
        if (refusals->used >= SERVER_REFUSALS / 4 * 3) {
            return;
        }
        refusals->used++;
        entry->name_hash = name_hash;
        entry->code = code;
    }
    entry->count += count;
}

/* For the name of a scope, adds its template, too: a template counts the refusals of all its
 * scopes. */
static uint32_t names_add(uint64_t *names, uint32_t count, struct tn_bytes name) {
    bool scoped;
    struct tn_bytes base = kernel_name_pool_base(name, &scoped);
    struct tn_bytes both[2] = {name, base};
    for (unsigned i = 0; i < 1u + scoped && count < SERVER_REFUSAL_POOLS; i++) {
        uint64_t hash = server_refusal_name_hash(both[i].at, both[i].len);
        uint32_t same = 0;
        while (same < count && names[same] != hash) {
            same++;
        }
        names[count] = hash;
        count += same == count;
    }
    return count;
}

/* The field `pool` of a command about a user contains patterns. */
static bool is_about_user(const struct kernel_command *command) {
    return command->verb == KERNEL_VERB_USER_ADD || command->verb == KERNEL_VERB_USER_SET;
}

void server_refusals_count(struct server_refusals *refusals, const struct kernel_command *command,
                           enum tn_result code) {
    uint64_t names[SERVER_REFUSAL_POOLS];
    uint32_t count = 0;
    if (code <= TN_R_NOOP || code == TN_R_POOL_NOTFOUND || is_about_user(command)) {
        return;
    }
    if ((command->fields & KERNEL_F_POOL) != 0) {
        count = names_add(names, count, command->pool);
    }
    if ((command->fields & KERNEL_F_CLAIMS) != 0) {
        struct tn_reader r = tn_reader_of(command->claims.at, command->claims.len);
        for (uint32_t i = 0; i < command->claim_count && count < SERVER_REFUSAL_POOLS; i++) {
            struct kernel_claim claim = kernel_claim_read(&r);
            count = names_add(names, count, claim.pool);
        }
    }
    if (count == 0) {
        return;
    }
    uv_mutex_lock(&refusals->lock);
    for (uint32_t i = 0; i < count; i++) {
        refusal_add(refusals, names[i], code, 1);
    }
    uv_mutex_unlock(&refusals->lock);
}

void server_refusals_note(struct server_refusals *refusals, struct tn_bytes command,
                          enum tn_result code) {
    struct kernel_command decoded;
    if (kernel_command_decode(command, &decoded)) {
        server_refusals_count(refusals, &decoded, code);
    }
}

void server_refusals_copy(struct server_refusals *refusals, struct server_refusals *to) {
    uv_mutex_lock(&refusals->lock);
    if (refusals->used > 0 || to->used > 0) {
        memcpy(to->of, refusals->of, SERVER_REFUSALS * sizeof to->of[0]);
    }
    to->used = refusals->used;
    uv_mutex_unlock(&refusals->lock);
}

/* Builds a new table from what the copy still counts and what was counted since. */
void server_refusals_prune(struct server_refusals *refusals, const struct server_refusals *copy) {
    struct server_refusal *old = calloc(SERVER_REFUSALS, sizeof *old);
    if (old == NULL) {
        return; /* the next call will do it */
    }
    uv_mutex_lock(&refusals->lock);
    struct server_refusal *fresh = old;
    old = refusals->of;
    refusals->of = fresh;
    refusals->used = 0;
    for (uint32_t i = 0; i < SERVER_REFUSALS; i++) {
        bool was_there = copy->of[i].name_hash != 0;
        if (old[i].count > 0 && (!was_there || copy->of[i].count > 0)) {
            refusal_add(refusals, old[i].name_hash, old[i].code, old[i].count);
        }
    }
    uv_mutex_unlock(&refusals->lock);
    free(old);
}
