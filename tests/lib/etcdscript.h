/* Random requests to etcd over a few keys, from a seed: two implementations can be given the same
 * requests. */
#ifndef TESTS_LIB_ETCDSCRIPT_H
#define TESTS_LIB_ETCDSCRIPT_H

#include "base/prng.h"
#include "etcd/etcd.h"

#define ETCDSCRIPT_KEYS 8u /* "/s/a" and so on */
#define ETCDSCRIPT_PREFIX "/s/"

struct etcdscript {
    struct tn_prng prng;
    struct etcd_compare compares[3];
    struct etcd_op then[4], otherwise[4];
    struct etcd_request request;
};

void etcdscript_begin(struct etcdscript *script, uint64_t seed);

/* The next request; what it borrows stays valid until the call after. `revision` is the current one
 * of the store: requests for past or future revisions use numbers near it. */
const struct etcd_request *etcdscript_next(struct etcdscript *script, int64_t revision);

#endif
