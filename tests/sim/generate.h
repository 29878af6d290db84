/* Random commands that make something happen: few names, few values, tokens that were real once. */
#ifndef TESTS_SIM_GENERATE_H
#define TESTS_SIM_GENERATE_H

#include <string.h>

#include "base/prng.h"
#include "sim/model.h"

#define GENERATE_TOKENS 24u
#define GENERATE_REPEATS 16u
#define GENERATE_BYTES 6144u

struct generate_token {
    struct kernel_lease_id lease;
    uint64_t epoch;
    char holder[16];
    char user[16];
};

struct generate {
    struct tn_prng random;
    struct kernel_limits limits;
    uint64_t now_ms;
    uint32_t holders; /* how many different ones */
    uint32_t pools;
    bool calm;               /* time passes slowly, so that leases live */
    uint32_t sticky_percent; /* of new pools */
    bool crowded;            /* few leases are given back: tables and pools fill up */
    bool many_ops;           /* most commands carry operation ids */
    bool storm;              /* sticky pools meet rates that force leases to end */
    bool slow_drain;         /* dropped sets let their resources go while other things happen */
    bool patient;            /* most requests wait, and their clients come and go */
    bool big_meta;           /* so that the memory for texts fills up */
    bool users;              /* users come and go, and have quotas */
    /* Tokens that results have shown, the latest ones. */
    struct generate_token tokens[GENERATE_TOKENS];
    uint32_t token_count;
    /* Encoded commands with operation ids, to be sent again. */
    uint8_t repeats[GENERATE_REPEATS][GENERATE_BYTES];
    uint32_t repeat_len[GENERATE_REPEATS];
    uint32_t repeat_next;
};

void generate_open(struct generate *g, uint64_t seed);
/* Some others than these, mostly larger: tables do not shrink below what they have held. */
struct kernel_limits generate_other_limits(struct generate *g, const struct kernel_limits *old);

/* The next command, encoded; it also moves g->now_ms. */
struct tn_bytes generate_next(struct generate *g, const struct model *m);

/* What the kernel answered to it. */
void generate_learn(struct generate *g, struct tn_bytes bytes, const struct model_result *result);

/* One line that a person can read. */
void generate_describe(struct tn_bytes bytes, char *out, size_t capacity);

/* ---- between the generator's own files ---- */

/* A command in the making, with the bytes it borrows. */
struct generate_draft {
    struct kernel_command c;
    struct kernel_policy_patch patch;
    struct tn_writer w;
    uint8_t lists[2048];
    char holder[KERNEL_HOLDER_MAX + 2];
    char user[16];
    char pool[MODEL_TEXT];
    char opid[16];
    char name[KERNEL_RULE_MAX + 2];
    char note[KERNEL_NOTE_MAX + 2];
    char trigger[16];
    uint8_t meta[KERNEL_META_MAX + 1];
    uint8_t spec[MODEL_SPEC];
    uint8_t secret[KERNEL_SECRET_MAX + 1];
    uint8_t patterns[2][KERNEL_PATTERNS_MAX + 1];
};

static inline uint32_t generate_below(struct generate *g, uint32_t n) {
    return (uint32_t)tn_prng_below(&g->random, n);
}

static inline bool generate_chance(struct generate *g, uint32_t percent) {
    return generate_below(g, 100) < percent;
}

static inline struct tn_bytes generate_text(const char *s) {
    return tn_bytes_of(s, strlen(s));
}

/* Usually an existing pool; for a template usually a scope. */
void generate_pool(struct generate *g, const struct model *m, char *out, size_t capacity);

void generate_demand(struct generate *g, struct generate_draft *d);
/* Makes some commands about rules and sensors ones about users, and gives requests a quota. */
void generate_user(const struct generate *g, struct generate_draft *d);
/* With a token already drawn: mostly that of a sensor's run. */
void generate_emit(struct generate *g, struct generate_draft *d, const struct model *m);
void generate_report(struct generate *g, struct generate_draft *d, const struct model *m);

void generate_pool_create(struct generate *g, struct generate_draft *d, const struct model *m);
void generate_pool_alter(struct generate *g, struct generate_draft *d, const struct model *m);

#endif
