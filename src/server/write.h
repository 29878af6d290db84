/* Writes: from a request to the engine. */
#ifndef TN_SERVER_WRITE_H
#define TN_SERVER_WRITE_H

#include "server/handler.h"

struct server_parked;
struct server_refusals;

struct server_writes {
    struct engine *engine;
    struct server_slots *slots;
    struct server_parked *parked;
    struct server_refusals *refusals;
    bool submitted; /* something, since the last commit */
};

void server_writes_init(struct server_writes *writes, struct engine *engine,
                        struct server_slots *slots, struct server_parked *parked,
                        struct server_refusals *refusals);

/* DONE: a slot at the end of the client's queue has the answer or will have it; a refusal is there at
 * once. */
enum server_step server_write(struct server_request *request);
/* The writes submitted in this turn of the loop are committed together, from now on. */
void server_writes_commit(struct server_writes *writes);
/* The holder that metadata stands for in this pool; `detail` has PROTOCOL_DETAIL bytes. */
enum tn_result server_holder_derive(struct engine *engine, struct tn_bytes pool,
                                    struct tn_bytes meta, char holder[KERNEL_HOLDER_MAX],
                                    uint32_t *ret_len, char *detail);

#endif
