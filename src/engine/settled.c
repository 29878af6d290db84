/* Answers to waiting leases: kept while the commands of a run are applied, told after the answers to
 * those commands. So a client hears that it waits before it hears the end of it. Nothing is kept in
 * replay or while the engine follows: no client waits here then. */
#include <stdlib.h>
#include <string.h>

#include "engine/internal.h"

struct engine_settled {
    struct engine_settled *next;
    struct kernel_result result;
    struct kernel_value values[];
};

static struct engine_settled *settled_copy(const struct kernel_result *result, uint32_t values) {
    struct engine_settled *settled = malloc(sizeof *settled + values * sizeof *settled->values);
    if (settled != NULL) {
        settled->next = NULL;
        settled->result = *result;
        settled->result.values = settled->values;
        settled->result.value_count = settled->result.value_capacity = values;
        if (values > 0) {
            memcpy(settled->values, result->values, values * sizeof *settled->values);
        }
    }
    return settled;
}

void engine_settled_keep(void *ctx, const struct kernel *kernel,
                         const struct kernel_result *result) {
    struct engine *engine = ctx;
    (void)kernel;
    if (engine_authority(engine) != TN_R_OK) {
        return;
    }
    struct engine_settled *settled = settled_copy(result, result->value_count);
    if (settled == NULL) {
        settled = settled_copy(result, 0);
        if (settled == NULL) {
            return; /* the client finds out by its operation id */
        }
        settled->result.code = TN_R_LOST;
    }
    if (engine->settled.last != NULL) {
        engine->settled.last->next = settled;
    } else {
        engine->settled.first = settled;
    }
    engine->settled.last = settled;
}

void engine_settled_deliver(struct engine *engine) {
    struct engine_settled *settled = engine->settled.first;
    struct engine_delivery delivery;
    engine->settled.first = engine->settled.last = NULL;
    pthread_mutex_lock(&engine->settled.lock);
    engine_deliver_begin(engine, &delivery);
    while (settled != NULL) {
        struct engine_settled *next = settled->next;
        if (engine->settled.call != NULL) {
            engine->settled.call(engine->settled.ctx, &settled->result);
        }
        free(settled);
        settled = next;
    }
    engine_deliver_end(&delivery);
    pthread_mutex_unlock(&engine->settled.lock);
}

void engine_waited_set(struct engine *engine, engine_waited_sink *call, void *ctx) {
    pthread_mutex_lock(&engine->settled.lock);
    engine->settled.call = call;
    engine->settled.ctx = ctx;
    pthread_mutex_unlock(&engine->settled.lock);
}

void engine_settled_init(struct engine *engine) {
    pthread_mutex_init(&engine->settled.lock, NULL);
}

void engine_settled_free(struct engine *engine) {
    pthread_mutex_destroy(&engine->settled.lock);
}
