/* The requests of Redis' clients, for each workload: Lua scripts and single commands that keep the
 * minimum that a lease needs. They do not look for expired leases, remember no operations and
 * publish no events, as Tenure does, and the client supplies the time.
 *
 * Two layouts. The full one can find the holder of a value: a free list, `owner` (value to
 * TOKEN:HOLDER), `due` (value to its end). The lean one cannot, and writes less: a free list, and
 * `leases` (VALUE:TOKEN:HOLDER to its end). A pool is a database of its own, so that no key has to
 * be composed. */
#ifndef TN_BENCH_SCRIPT_REDIS_H
#define TN_BENCH_SCRIPT_REDIS_H

#include <stdbool.h>
#include <stdint.h>

#include "load.h"
#include "work.h"

struct redis_job {
    enum work work;
    bool lean;        /* WORK_CYCLE, WORK_RENEW; the others have one layout */
    unsigned pool;    /* the database, 0 to 15 */
    uint64_t *grants; /* WORK_CONTEND: counts them */
};

/* The job must outlive the script. */
struct load_script redis_script(const struct redis_job *job);

/* Loads the scripts into the server. */
void redis_prepare(uint16_t port);
/* Makes a free list of `values` values; `held` of them are held by others, in the full layout. */
void redis_pool_make(uint16_t port, unsigned pool, uint32_t values, uint32_t held);
/* Makes three free lists, for WORK_BUNDLE. */
void redis_bundle_make(uint16_t port, unsigned pool, uint32_t values);

#endif
