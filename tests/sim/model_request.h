/* The current request, shared by the code that judges it and the code that picks its values. */
#ifndef TESTS_SIM_MODEL_REQUEST_H
#define TESTS_SIM_MODEL_REQUEST_H

#include "sim/model.h"

struct model_part {
    bool any;
    uint32_t count;
    struct tn_bytes values;
    uint32_t pool;
};

struct model_request {
    bool reserve;
    bool import;
    char holder[KERNEL_HOLDER_MAX + 1];
    uint32_t part_count;
    struct model_part parts[MODEL_BUNDLE];
    uint32_t value_count;
    struct model_value values[MODEL_BUNDLE];
    bool chosen[MODEL_BUNDLE];
    struct model_terms terms;
    const struct model_shown *picks; /* the kernel's choices, if it made any */
    uint32_t pick_count;
};

enum tn_result model_refuse(struct model *m, enum tn_result code, uint64_t number);
/* model_alloc.c, for waiting leases: the request of m->c as far as its values, without a trace; and
 * the lease that gets them. */
enum tn_result model_request_try(struct model *m, struct model_request *q);
void model_request_grant(struct model *m, const struct model_request *q, struct model_lease *l);

/* model_wait.c */
enum tn_result model_wait_check(struct model *m, const struct model_request *q);
enum tn_result model_wait_turn(struct model *m, const struct model_request *q);
void model_wait_join(struct model *m, const struct model_request *q);

/* Whether the request itself has the value already. */
bool model_taken_here(const struct model_request *q, uint32_t pool, uint64_t number);

/* model_alloc.c: does the one part name what the lease has? */
bool model_asks_for_same(const struct model *m, const struct model_request *q,
                         const struct model_lease *l);

/* model_import.c */
enum tn_result model_import_check(struct model *m, const struct model_request *q);
bool model_import_known(struct model *m, const struct model_request *q, struct model_lease *own);
void model_import_fill(const struct model *m, const struct model_request *q, struct model_lease *l);

/* Fills in value `at` by its pool's strategy. False: no value is free. */
bool model_pick(struct model *m, struct model_request *q, uint32_t at);

#endif
