#include "lib/etcdscript.h"

#include <string.h>

static uint64_t below(struct etcdscript *script, uint64_t n) {
    return tn_prng_below(&script->prng, n);
}

static struct tn_bytes text(const char *s) {
    return tn_bytes_of(s, strlen(s));
}

static struct tn_bytes key(struct etcdscript *script) {
    static const char *const keys[ETCDSCRIPT_KEYS] = {"/s/a", "/s/b", "/s/c", "/s/d",
                                                      "/s/e", "/s/f", "/s/g", "/s/h"};
    return text(keys[below(script, ETCDSCRIPT_KEYS)]);
}

static struct tn_bytes value(struct etcdscript *script) {
    static const char *const values[] = {"", "one", "two", "three"};
    return text(values[below(script, 4)]);
}

/* One key, a span (perhaps empty or backwards), or all from a key on. */
static struct etcd_keys keys(struct etcdscript *script) {
    static const uint8_t endless[1] = {0};
    struct etcd_keys keys = {.key = key(script)};
    switch (below(script, 6)) {
    case 0:
        keys.end = tn_bytes_of(endless, 1);
        break;
    case 1:
    case 2:
        keys.end = key(script);
        break;
    case 3:
        keys = (struct etcd_keys){text("/s/"), text("/s0")};
        break;
    default:
        break;
    }
    return keys;
}

static uint32_t branch(struct etcdscript *script, struct etcd_op ops[4]) {
    uint32_t count = (uint32_t)below(script, 5);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t kind = below(script, 8);
        if (kind < 4) {
            ops[i] = (struct etcd_op){
                .kind = ETCD_PUT, .keys = {.key = key(script)}, .value = value(script)};
        } else if (kind < 5) {
            ops[i] = (struct etcd_op){.kind = ETCD_DELETE, .keys = keys(script)};
        } else {
            ops[i] = (struct etcd_op){
                .kind = ETCD_GET, .keys = keys(script), .limit = (uint32_t)below(script, 4)};
        }
    }
    return count;
}

static void txn(struct etcdscript *script) {
    uint32_t compares = (uint32_t)below(script, 3);
    for (uint32_t i = 0; i < compares; i++) {
        script->compares[i] = (struct etcd_compare){
            .kind = below(script, 3) == 0 ? ETCD_ABSENT : ETCD_VALUE_IS,
            .key = key(script),
            .value = value(script),
        };
    }
    script->request = (struct etcd_request){.verb = ETCD_TXN};
    script->request.txn.compares = script->compares;
    script->request.txn.compare_count = compares;
    script->request.txn.then = script->then;
    script->request.txn.then_count = branch(script, script->then);
    script->request.txn.otherwise = script->otherwise;
    script->request.txn.otherwise_count = branch(script, script->otherwise);
}

void etcdscript_begin(struct etcdscript *script, uint64_t seed) {
    *script = (struct etcdscript){0};
    tn_prng_seed(&script->prng, seed);
}

const struct etcd_request *etcdscript_next(struct etcdscript *script, int64_t revision) {
    uint64_t kind = below(script, 20);
    /* Mostly a little back, sometimes ahead. */
    int64_t near = revision + 3 - (int64_t)below(script, 30);
    near = near > 0 ? near : 1;
    if (kind < 13) {
        txn(script);
    } else if (kind < 19) {
        script->request = (struct etcd_request){
            .verb = ETCD_RANGE,
            .range = {.keys = keys(script),
                      .revision = below(script, 2) == 0 ? 0 : near,
                      .limit = (uint32_t)below(script, 4),
                      .serializable = below(script, 4) == 0,
                      .keys_only = below(script, 4) == 0},
        };
    } else {
        script->request = (struct etcd_request){.verb = ETCD_COMPACT, .revision = near};
    }
    return &script->request;
}
