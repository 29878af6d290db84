/* Random requests to etcd over a few keys, from a seed: to be given to two implementations. */
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

/* The next request; what it points to stays until the next one. The revision is that of the store now:
 * revisions that are asked for lie around it. */
const struct etcd_request *etcdscript_next(struct etcdscript *script, int64_t revision);

#endif
