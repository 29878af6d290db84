/* Refusals by pool and result. Counted where the answer is, on the engine's threads, so under a lock;
 * only refusals come here.
 *
 * A count is found by a hash of the pool's name; names are not stored, because the reader of the counts
 * knows the names of all pools. Reading removes the counts of pools that do not exist, so requests for
 * made-up pools cannot fill the table. If it is full nevertheless, new pairs of pool and result are not
 * counted here, but still for the command. */
#ifndef TN_SERVER_REFUSAL_H
#define TN_SERVER_REFUSAL_H

#include <uv.h>

#include "kernel/command.h"
#include "kernel/result.h"

/* Places for pairs of pool and result; a quarter of them stay empty. */
#define SERVER_REFUSALS 65536u
#define SERVER_REFUSAL_POOLS 8u /* of one request */

struct server_refusal {
    uint64_t name_hash;
    uint64_t count; /* 0: an empty place */
    enum tn_result code;
};

struct server_refusals {
    uv_mutex_t lock;
    uint32_t used;
    struct server_refusal *of; /* SERVER_REFUSALS of them */
};

uint64_t server_refusal_name_hash(const void *name, size_t len);

bool server_refusals_init(struct server_refusals *refusals);
void server_refusals_free(struct server_refusals *refusals);
/* Counts a refusal for each pool that the command names. */
void server_refusals_count(struct server_refusals *refusals, const struct kernel_command *command,
                           enum tn_result code);
/* The same for an encoded command. */
void server_refusals_note(struct server_refusals *refusals, struct tn_bytes command,
                          enum tn_result code);
/* Copies all counts. The copy has no lock. */
void server_refusals_copy(struct server_refusals *refusals, struct server_refusals *to);
/* Removes the counts that are 0 in the copy. */
void server_refusals_prune(struct server_refusals *refusals, const struct server_refusals *copy);

#endif
