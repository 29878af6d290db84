/* Internal: the request that alloc.c, claim.c and import.c process: an alloc, a reserve or an
 * import. */
#ifndef TN_KERNEL_CLAIM_H
#define TN_KERNEL_CLAIM_H

#include "kernel/state.h"

#define JUDGED_VALUES 16u /* values of the largest request that kernel_judge judges */

struct request {
    const struct kernel_command *c;
    struct kernel_result *result;
    bool reserve;
    bool import;
    bool judged; /* called by kernel_judge: nothing may change */
    uint32_t claim_count;
    uint32_t total;
    uint32_t lease;
    uint32_t holder;      /* known name or TN_NONE */
    uint32_t user;        /* the same; of a waiting lease, and for the quota */
    uint64_t names_freed; /* names freed by the kernel when the holder was looked up */
    struct kernel_terms terms;
};

static inline enum tn_result refuse(struct kernel_result *result, enum tn_result code,
                                    uint64_t number) {
    result->number = number;
    return code;
}

/* A refusal because of this lease names it; edition 0 did not. */
static inline void kernel_result_holder(struct kernel *k, uint32_t lease,
                                        struct kernel_result *result) {
    if (kernel_edition_has(k, 1)) {
        kernel_result_lease(k, lease, result);
    }
}

/* claim.c: claims all values for the lease, those that were named first; on a refusal none. */
enum tn_result kernel_request_claim(struct kernel *k, struct request *q);
/* The refusal of kernel_request_claim, found without a change; OK: it would claim them, or that is not
 * known. Nothing is due in the pools of the request. */
enum tn_result kernel_request_claim_judge(struct kernel *k, struct request *q);
/* True if the request wants exactly the values that the lease has in the first claim's pool. */
bool kernel_request_matches(struct kernel *k, uint32_t lease);

/* alloc.c, for judge.c: the refusal of an alloc or a reserve at `now_ms`; OK: it is not surely refused. */
enum tn_result kernel_request_judge(struct kernel *k, struct request *q, uint64_t now_ms);
/* For waiting.c: a new lease as the command describes it, in a free record. */
void kernel_request_fill(struct kernel *k, const struct request *q);
/* The pool of all claims, or TN_NONE if they differ. */
uint32_t kernel_request_pool(const struct kernel *k, const struct request *q);
/* For serve.c: the claims of a waiting lease in the plan: OK, or why they cannot be claimed. */
enum tn_result kernel_request_plan(struct kernel *k, struct request *q);
/* The claimed members become the lease's. */
void kernel_request_keep(struct kernel *k, const struct request *q);
/* The deadline of a lease that is granted now. */
uint64_t kernel_request_deadline(const struct kernel *k, const struct request *q);

/* import.c: form and times, after the pools are known. */
enum tn_result kernel_import_check(const struct kernel *k, const struct request *q);
/* OK to proceed, or the answer: NOOP (the lease exists), BUSY or CONFLICT. `own` is the holder's
 * lease in a sticky pool, or TN_NONE. */
enum tn_result kernel_import_known(struct kernel *k, const struct request *q, uint32_t own);
/* Sets the fields in which an imported lease differs from a new one. */
void kernel_import_fill(struct kernel *k, const struct request *q);

#endif
