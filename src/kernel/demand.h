/* Internal: the records of rules, sensors and triggers. state.h has the rules for all records. */
#ifndef TN_KERNEL_DEMAND_H
#define TN_KERNEL_DEMAND_H

#include <stdint.h>

struct rule {
    uint32_t id;
    uint32_t trigger;
    uint32_t in_use;
    uint32_t enabled;
    uint64_t revision; /* the largest revision of any change; 0: no change had one */
    uint64_t placed;   /* the largest revision of a change of the trigger; at most `revision` */
    uint32_t meta1;    /* text + 1; 0: none */
    uint32_t reserved;
};

/* The tombstone of a rule that does not exist, by the digest of its id. A change that is older than
 * the deletion must not recreate the rule. A change of `enabled` can arrive before the creation. */
struct tombstone {
    uint64_t digest[2];
    uint64_t revision; /* revision of the deletion; 0: unknown */
    /* Revision of the early change of `enabled`; 0: none, otherwise at least `revision`. */
    uint64_t said;
    uint64_t enabled; /* the value of that change */
    uint64_t lsn;     /* LSN of the last update of this record */
};

struct sensor {
    uint32_t ref;
    uint32_t trigger;
    uint32_t spec;
    uint32_t prev, next; /* rules of the same trigger */
    uint32_t in_use;
    uint32_t enabled;
    uint32_t reserved;
};

struct trigger {
    uint32_t text;
    uint32_t refs; /* rules and sensors */
    uint32_t enabled_rules;
    uint32_t first_sensor;
};

#endif
