/* From the engine's results to replies. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "lib/library.h"

/* All but the pool's name. */
void lib_value_fill(struct tenure_value *out, const struct kernel_value *value) {
    out->named = value->name_len > 0;
    out->claim = value->claim;
    out->number = value->number;
    if (out->named) {
        lib_copy(out->text, sizeof out->text, value->name, value->name_len);
    } else {
        (void)kernel_value_format((enum kernel_format)value->format, value->number, out->text);
    }
}

/* The answer to a claim is of the claim's pool: the names are in the request. */
static void reply_values(struct tenure_value *out, const struct kernel_result *result,
                         const struct kernel_command *command) {
    TN_ASSERT((command->fields & KERNEL_F_CLAIMS) != 0);
    struct tn_reader r = tn_reader_of(command->claims.at, command->claims.len);
    struct kernel_claim claim = kernel_claim_read(&r);
    uint32_t at = 0;
    for (uint32_t i = 0; i < result->value_count; i++) {
        for (; at < result->values[i].claim; at++) {
            claim = kernel_claim_read(&r);
        }
        lib_value_fill(&out[i], &result->values[i]);
        lib_copy(out[i].pool, sizeof out[i].pool, (const char *)claim.pool.at, claim.pool.len);
    }
}

void lib_reply_fill(struct tenure_reply *reply, const struct kernel_result *result,
                    const struct kernel_command *command, struct tenure_value *values) {
    reply->code = (enum tenure_result)result->code;
    reply->outcome = (enum tenure_outcome)engine_outcome(result);
    reply->replayed = result->replayed;
    reply->has_lease = result->has_lease;
    reply->lsn = result->lsn;
    reply->now_ms = result->now_ms;
    reply->lease = (struct tenure_lease_id){.shard = result->lease.shard, .lsn = result->lease.lsn};
    reply->epoch = result->epoch;
    reply->state = (enum tenure_state)result->state;
    reply->deadline_ms = result->deadline_ms;
    reply->retry_at_ms = result->retry_at_ms;
    reply->number = result->number;
    reply->value_count = result->value_count;
    reply->values = values;
    reply->detail[0] = '\0';
    memset(reply->reserved, 0, sizeof reply->reserved);
    if (result->value_count > 0) {
        reply_values(values, result, command);
    }
}

/* Leaves `detail` as it is. */
void lib_reply_reject(struct tenure_reply *reply, enum tenure_result code) {
    struct kernel_result result = {.code = (enum tn_result)code};
    char detail[LIB_DETAIL];
    memcpy(detail, reply->detail, sizeof detail);
    lib_reply_fill(reply, &result, NULL, reply->first);
    memcpy(reply->detail, detail, sizeof detail);
}

void tenure_reply_free(struct tenure_reply *reply) {
    if (reply->values != reply->first) {
        free(reply->values);
    }
    reply->values = reply->first;
    reply->value_count = 0;
}
