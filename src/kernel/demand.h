/* Internal: the records of rules, sensors and triggers. What holds for all records is in state.h. */
#ifndef TN_KERNEL_DEMAND_H
#define TN_KERNEL_DEMAND_H

#include <stdint.h>

struct rule {
    uint32_t id;
    uint32_t trigger;
    uint32_t in_use;
    uint32_t enabled;
    uint64_t revision; /* of the newest change that named one; 0: none did */
    uint64_t placed;   /* of the newest one that said which trigger; not above it */
    uint32_t meta1;    /* text + 1; 0: none */
    uint32_t reserved;
};

/* What is known of a rule that is not there, by the digest of its id: what is older than its end must
 * not bring it back, and who enabled or disabled it may have overtaken who makes it. */
struct grave {
    uint64_t digest[2];
    uint64_t revision; /* of its end; 0: none is known */
    uint64_t said;     /* of the word that came early; 0: none did, else not below the end */
    uint64_t enabled;  /* what that word was */
    uint64_t lsn;      /* where it was last told something new */
};

struct sensor {
    uint32_t ref;
    uint32_t trigger;
    uint32_t spec;
    uint32_t prev, next; /* of the same trigger */
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
