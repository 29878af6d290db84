/* The requests of Tenure's clients, for each workload. */
#ifndef TN_BENCH_SCRIPT_TENURE_H
#define TN_BENCH_SCRIPT_TENURE_H

#include <stdint.h>

#include "load.h"
#include "work.h"

struct tenure_job {
    const char *pool; /* WORK_BUNDLE: the pools are POOL-0, POOL-1, POOL-2 */
    enum work work;
    bool resp3;
    uint64_t *grants; /* WORK_CONTEND: counts them */
};

/* The job must outlive the script. */
struct load_script tenure_script(const struct tenure_job *job);

/* `options` are more words of POOL CREATE, or "". */
void tenure_pool_make(uint16_t port, const char *name, uint32_t values, const char *options);
/* Allocates `held` values of the pool, each with a lease of its own. */
void tenure_pool_fill(uint16_t port, const char *name, uint32_t held);

#endif
