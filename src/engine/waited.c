/* Answers to waiting leases: kept while the commands of a run are applied, told after the answers to
 * those commands. So a client hears that it waits before it hears the end of it. Nothing is kept in
 * replay or while the engine follows: no client waits here then. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "engine/internal.h"

struct engine_waited {
    struct engine_waited *next;
    struct kernel_result result;
    struct kernel_value values[];
};

static struct engine_waited *waited_copy(const struct kernel_result *result, uint32_t values) {
    struct engine_waited *waited = malloc(sizeof *waited + values * sizeof *waited->values);
    if (waited != NULL) {
        waited->next = NULL;
        waited->result = *result;
        waited->result.values = waited->values;
        waited->result.value_count = waited->result.value_capacity = values;
        if (values > 0) {
            memcpy(waited->values, result->values, values * sizeof *waited->values);
        }
    }
    return waited;
}

void engine_waited_keep(void *ctx, const struct kernel *kernel,
                        const struct kernel_result *result) {
    struct engine *engine = ctx;
    (void)kernel;
    TN_ASSERT(result->code != TN_R_WAITING); /* it has waited */
    if (engine_authority(engine) != TN_R_OK) {
        return;
    }
    struct engine_waited *waited = waited_copy(result, result->value_count);
    if (waited == NULL) {
        waited = waited_copy(result, 0);
        if (waited == NULL) {
            return; /* the client learns the outcome by its operation id */
        }
        waited->result.code = TN_R_LOST;
    }
    if (engine->waited.last != NULL) {
        engine->waited.last->next = waited;
    } else {
        engine->waited.first = waited;
    }
    engine->waited.last = waited;
}

void engine_waited_deliver(struct engine *engine) {
    struct engine_waited *waited = engine->waited.first;
    struct engine_delivery delivery;
    TN_ASSERT((waited == NULL) == (engine->waited.last == NULL));
    engine->waited.first = engine->waited.last = NULL;
    pthread_mutex_lock(&engine->waited.lock);
    engine_deliver_begin(engine, &delivery);
    while (waited != NULL) {
        struct engine_waited *next = waited->next;
        if (engine->waited.call != NULL) {
            engine->waited.call(engine->waited.ctx, &waited->result);
        }
        free(waited);
        waited = next;
    }
    engine_deliver_end(&delivery);
    pthread_mutex_unlock(&engine->waited.lock);
}

void engine_waited_set(struct engine *engine, engine_waited_sink *call, void *ctx) {
    pthread_mutex_lock(&engine->waited.lock);
    engine->waited.call = call;
    engine->waited.ctx = ctx;
    pthread_mutex_unlock(&engine->waited.lock);
}

void engine_waited_init(struct engine *engine) {
    pthread_mutex_init(&engine->waited.lock, NULL);
}

void engine_waited_free(struct engine *engine) {
    pthread_mutex_destroy(&engine->waited.lock);
}
