/* How full the shared tables are, counted from what is there. */
#include "sim/model.h"

#include <string.h>

#include "base/chunks.h"

#define NAMES_MAX 512u

struct names {
    const char *at[NAMES_MAX];
    uint32_t count;
};

static void add(struct names *n, const char *name) {
    for (uint32_t i = 0; i < n->count; i++) {
        if (strcmp(n->at[i], name) == 0) {
            return;
        }
    }
    if (name[0] != '\0' && n->count < NAMES_MAX) {
        n->at[n->count++] = name;
    }
}

/* Holders and users, each once: of leases, of what history keeps, of operations and disowns. */
static void gather(const struct model *m, struct names *n) {
    n->count = 0;
    for (uint32_t i = 0; i < m->lease_count; i++) {
        add(n, m->leases[i].holder);
        add(n, m->leases[i].user);
    }
    for (uint32_t i = 0; i < m->history_count; i++) {
        add(n, m->history[i].holder);
        add(n, m->history[i].user);
    }
    for (uint32_t i = 0; i < m->op_count; i++) {
        add(n, m->ops[i].user);
    }
    for (uint32_t i = 0; i < m->disown_count; i++) {
        add(n, m->disowns[i].holder);
    }
    if (m->op_user) {
        add(n, m->want_user);
    }
}

uint32_t model_names(const struct model *m) {
    struct names n;
    gather(m, &n);
    return n.count;
}

uint32_t model_names_missing(const struct model *m, const char *holder, const char *user) {
    struct names n;
    gather(m, &n);
    uint32_t before = n.count;
    add(&n, holder);
    add(&n, user);
    return n.count - before;
}

static uint64_t chunks_of(const char *text) {
    return tn_text_chunks(strlen(text));
}

static uint64_t lease_chunks(const struct model_lease *l) {
    uint64_t claims = l->state == KERNEL_WAITING ? tn_text_chunks(l->wait.claims_len) : 0;
    return claims + (l->meta_len > 0 ? tn_text_chunks(l->meta_len) : 0);
}

/* A removed resource's name stays while history shows it; counted at its last mention. */
static bool last_mention(const struct model *m, uint32_t lease, uint32_t value) {
    const struct model_value *v = &m->history[lease].values[value];
    if (v->name[0] == '\0' || model_pool_has(m, v->pool, v->number)) {
        return false;
    }
    for (uint32_t i = lease; i < m->history_count; i++) {
        for (uint32_t j = 0; j < m->history[i].value_count; j++) {
            const struct model_value *w = &m->history[i].values[j];
            bool later = i > lease || j > value;
            if (later && w->pool == v->pool && w->number == v->number) {
                return false;
            }
        }
    }
    return true;
}

static void count_resources(const struct model *m, uint64_t *ret_count, uint64_t *ret_chunks) {
    *ret_count = *ret_chunks = 0;
    for (uint32_t i = 0; i < MODEL_POOLS; i++) {
        const struct model_pool *p = &m->pools[i];
        *ret_count += p->resource_count;
        for (uint32_t r = 0; r < p->resource_count; r++) {
            *ret_chunks += chunks_of(p->resources[r].name);
        }
    }
    for (uint32_t i = 0; i < m->history_count; i++) {
        for (uint32_t v = 0; v < m->history[i].value_count; v++) {
            if (last_mention(m, i, v)) {
                *ret_count += 1;
                *ret_chunks += chunks_of(m->history[i].values[v].name);
            }
        }
    }
}

uint64_t model_resources(const struct model *m) {
    uint64_t count;
    uint64_t chunks;
    count_resources(m, &count, &chunks);
    return count;
}

uint64_t model_chunks(const struct model *m) {
    struct names n;
    uint64_t unused;
    uint64_t chunks;
    uint32_t triggers;
    uint64_t trigger_chunks;
    gather(m, &n);
    count_resources(m, &unused, &chunks);
    model_triggers(m, &triggers, &trigger_chunks);
    chunks += trigger_chunks;
    for (uint32_t i = 0; i < n.count; i++) {
        chunks += chunks_of(n.at[i]);
    }
    for (uint32_t i = 0; i < m->lease_count; i++) {
        chunks += lease_chunks(&m->leases[i]);
    }
    for (uint32_t i = 0; i < m->history_count; i++) {
        chunks += lease_chunks(&m->history[i]);
    }
    for (uint32_t i = 0; i < MODEL_POOLS; i++) {
        chunks += m->pools[i].state != MODEL_POOL_FREE ? chunks_of(m->pools[i].name) : 0;
    }
    for (uint32_t i = 0; i < MODEL_RULES; i++) {
        if (m->rules[i].exists) {
            chunks += chunks_of(m->rules[i].name);
            chunks += m->rules[i].spec_len > 0 ? tn_text_chunks(m->rules[i].spec_len) : 0;
        }
        if (m->sensors[i].exists) {
            chunks += chunks_of(m->sensors[i].name) + tn_text_chunks(m->sensors[i].spec_len);
        }
    }
    return chunks + model_user_chunks(m);
}

uint32_t model_draining(const struct model *m) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < MODEL_POOLS; i++) {
        count += m->pools[i].draining;
    }
    return count;
}

bool model_text_fits(const struct model *m, uint64_t chunks) {
    uint64_t most = m->limits.of[KERNEL_LIMIT_TEXT_BYTES] / TN_TEXT_CHUNK_BYTES;
    uint64_t wanted = model_chunks(m) + chunks;
    uint64_t draining = model_draining(m) * tn_text_chunks(KERNEL_RESOURCE_MAX);
    if (wanted <= most && wanted + draining > most) {
        return m->got->head.code != TN_R_NAMES_FULL;
    }
    return wanted <= most;
}
