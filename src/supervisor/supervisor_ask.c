/* What the supervisor asks of the engine: commands with its own user and rights, answered by facts. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "engine/read.h"
#include "supervisor/supervisor_parts.h"

static struct tn_bytes bytes_of(const char *text) {
    return tn_bytes_of(text, strlen(text));
}

/* ---- Commands ---- */

static struct kernel_command command_of(enum kernel_verb verb, uint32_t fields) {
    return (struct kernel_command){.verb = verb,
                                   .rights = KERNEL_RIGHT_OPERATOR | KERNEL_RIGHT_SUPERVISOR,
                                   .fields = fields,
                                   .user = bytes_of(SUPERVISOR_USER)};
}

/* The sensor as a value of the pool, in memory of its own. */
struct ask_values {
    char holder[sizeof SUPERVISOR_HOLDER + KERNEL_RESOURCE_MAX];
    uint8_t bytes[256];
    char meta[SUPERVISOR_META_MAX];
};

static struct kernel_command alloc_command(const struct supervisor_sensor *sensor,
                                           struct ask_values *memory) {
    struct kernel_command command =
        command_of(KERNEL_VERB_ALLOC, KERNEL_F_HOLDER | KERNEL_F_CLAIMS);
    struct tn_writer w = tn_writer_of(memory->bytes, sizeof memory->bytes);
    kernel_claim_write(&w, bytes_of(TOKEN_SENSOR_POOL), false, 1);
    kernel_requested_write_text(&w, bytes_of(sensor->ref));
    (void)snprintf(memory->holder, sizeof memory->holder, "%s%s", SUPERVISOR_HOLDER, sensor->ref);
    command.holder = bytes_of(memory->holder);
    command.claims = tn_bytes_of(memory->bytes, w.len);
    command.claim_count = 1;
    command.meta = supervisor_abroad_meta(sensor->supervisor, memory->meta);
    command.fields |= command.meta.len > 0 ? KERNEL_F_META : 0;
    return command;
}

static struct kernel_command member_command(const struct supervisor_sensor *sensor,
                                            enum kernel_verb verb, struct ask_values *memory) {
    struct kernel_command command = command_of(verb, KERNEL_F_POOL | KERNEL_F_VALUES);
    struct tn_writer w = tn_writer_of(memory->bytes, sizeof memory->bytes);
    kernel_requested_write_text(&w, bytes_of(sensor->ref));
    command.pool = bytes_of(TOKEN_SENSOR_POOL);
    command.values = tn_bytes_of(memory->bytes, w.len);
    command.value_count = 1;
    return command;
}

/* ---- On the engine's thread ---- */

/* The result is valid only during this call. Its values are not used. */
static void ask_done(struct engine_request *request, struct tn_bytes command) {
    struct supervisor_ask *ask = request->ctx;
    struct supervisor_feed *feed = ask->feed;
    (void)command;
    pthread_mutex_lock(&feed->lock);
    bool connected = feed->supervisor != NULL;
    if (connected) {
        ask->next = feed->done;
        feed->done = ask;
        (void)uv_async_send(&feed->supervisor->news);
    }
    pthread_mutex_unlock(&feed->lock);
    if (!connected) {
        free(ask); /* the supervisor has not waited for it */
    }
}

/* ---- Submitting, and being answered ---- */

static enum plan_fact_kind fact_of(enum supervisor_ask_kind kind) {
    static const enum plan_fact_kind facts[] = {
#define SUPERVISOR_ASK_FACT(id, answer) PLAN_FACT_##answer,
        SUPERVISOR_ASK_TABLE(SUPERVISOR_ASK_FACT)
#undef SUPERVISOR_ASK_FACT
    };
    return facts[kind];
}

static bool is_end(enum tn_result code) {
    return code == TN_R_HALTED || code == TN_R_LOST || code == TN_R_CLOSED ||
           code == TN_R_READONLY || code == TN_R_MASTERDOWN;
}

static const char *ask_name(enum supervisor_ask_kind kind) {
    static const char *const names[] = {"alloc",       "revoke",        "reclaim",    "pool add",
                                        "pool remove", "sensor report", "pool create"};
    return names[kind];
}

static void pool_answered(struct supervisor *supervisor, enum tn_result code);

/* Turns the answer into a fact of the sensor. */
static void answer_take(struct supervisor_sensor *sensor, enum supervisor_ask_kind kind,
                        const struct kernel_result *result) {
    struct supervisor *supervisor = sensor->supervisor;
    bool good = result->code == TN_R_OK || result->code == TN_R_NOOP;
    if (is_end(result->code)) {
        supervisor_halt(supervisor);
    } else if (!good) {
        supervisor_error(sensor, "%s was refused: %s", ask_name(kind),
                         tn_result_text(result->code));
        supervisor_log(supervisor, "event=sensor_waits sensor=%s command=\"%s\" result=%s",
                       sensor->ref, ask_name(kind), tn_result_name(result->code));
    }
    if (kind == SUPERVISOR_ASK_ADD) {
        sensor->member = good;
    } else if (kind == SUPERVISOR_ASK_CREATE) {
        pool_answered(supervisor, result->code);
    }
    if (kind == SUPERVISOR_ASK_REVOKE && good) {
        sensor->revoked_lsn = result->lsn;
    }
    if (fact_of(kind) != PLAN_FACT_TICK) {
        supervisor_tell(sensor, &(struct plan_fact){.kind = fact_of(kind),
                                                    .code = result->code,
                                                    .lease = result->lease,
                                                    .epoch = result->epoch});
    }
}

void supervisor_answered(struct supervisor *supervisor, struct supervisor_ask *ask) {
    struct supervisor_sensor *sensor = ask->sensor;
    struct kernel_result result = ask->request.result;
    enum supervisor_ask_kind kind = ask->kind;
    free(ask);
    TN_ASSERT(sensor->asks > 0 && supervisor->asks > 0);
    sensor->asks--;
    supervisor->asks--;
    answer_take(sensor, kind, &result);
    supervisor_ended(sensor);
}

/* A rejection is an answer like others and arrives like them, never during the call. False: out of
 * memory; there will be no answer. */
static bool ask_submit(struct supervisor_sensor *sensor, enum supervisor_ask_kind kind,
                       const struct kernel_command *command) {
    struct supervisor *supervisor = sensor->supervisor;
    struct supervisor_ask *ask = calloc(1, sizeof *ask);
    if (ask == NULL) {
        return false;
    }
    *ask = (struct supervisor_ask){.request = {.done = ask_done, .ctx = ask},
                                   .feed = supervisor->options.feed,
                                   .sensor = sensor,
                                   .kind = kind};
    sensor->asks++;
    supervisor->asks++;
    enum tn_result code = engine_submit(supervisor->options.engine, &ask->request, command);
    if (code != TN_R_OK) {
        ask->request.result = (struct kernel_result){.code = code};
        ask_done(&ask->request, tn_bytes_of(NULL, 0));
    }
    return true;
}

static void refused(struct supervisor_sensor *sensor, enum supervisor_ask_kind kind,
                    enum tn_result code) {
    supervisor_tell(sensor, &(struct plan_fact){.kind = fact_of(kind), .code = code});
}

/* ---- The pool ---- */

enum supervisor_pool supervisor_pool(struct supervisor *supervisor) {
    struct kernel_pool_view pool;
    uint64_t lsn;
    if (supervisor->pool_is_ours) {
        return SUPERVISOR_POOL_OURS; /* no client can change or drop it */
    }
    enum tn_result code = engine_pool_read(supervisor->options.engine, SUPERVISOR_READ,
                                           bytes_of(TOKEN_SENSOR_POOL), &pool, &lsn);
    if (code != TN_R_OK) {
        return SUPERVISOR_POOL_NONE;
    }
    supervisor->pool_is_ours = pool.policy.of[KERNEL_OPTION_KIND] == KERNEL_SET &&
                               pool.policy.of[KERNEL_OPTION_INTERNAL] != 0;
    return supervisor->pool_is_ours ? SUPERVISOR_POOL_OURS : SUPERVISOR_POOL_FOREIGN;
}

static bool pool_create(struct supervisor_sensor *sensor) {
    struct kernel_policy_patch patch = {.mask = (uint32_t)1 << KERNEL_OPTION_KIND |
                                                (uint32_t)1 << KERNEL_OPTION_INTERNAL};
    struct kernel_command command =
        command_of(KERNEL_VERB_POOL_CREATE, KERNEL_F_POOL | KERNEL_F_POLICY);
    patch.values.of[KERNEL_OPTION_KIND] = KERNEL_SET;
    patch.values.of[KERNEL_OPTION_INTERNAL] = 1;
    command.pool = bytes_of(TOKEN_SENSOR_POOL);
    command.policy = &patch;
    return ask_submit(sensor, SUPERVISOR_ASK_CREATE, &command);
}

static void pool_refuse(struct supervisor_sensor *sensor) {
    supervisor_error(sensor, "the pool %s does not belong to the supervisor", TOKEN_SENSOR_POOL);
    supervisor_log(sensor->supervisor, "event=sensor_waits sensor=%s pool=%s reason=\"%s\"",
                   sensor->ref, TOKEN_SENSOR_POOL,
                   "the pool does not belong to the supervisor: drop it");
    refused(sensor, SUPERVISOR_ASK_ALLOC, TN_R_DENIED);
}

static void member_ask(struct supervisor_sensor *sensor, enum kernel_verb verb,
                       enum supervisor_ask_kind kind) {
    struct ask_values memory;
    struct kernel_command command = member_command(sensor, verb, &memory);
    (void)ask_submit(sensor, kind, &command);
}

static void alloc_ask(struct supervisor_sensor *sensor) {
    struct ask_values memory;
    if (!sensor->member) { /* the creation of the pool is committed before this */
        member_ask(sensor, KERNEL_VERB_POOL_ADD, SUPERVISOR_ASK_ADD);
    }
    struct kernel_command command = alloc_command(sensor, &memory);
    if (!ask_submit(sensor, SUPERVISOR_ASK_ALLOC, &command)) {
        refused(sensor, SUPERVISOR_ASK_ALLOC, TN_R_OVERLOADED);
    }
}

/* Passes the outcome of the pool's creation to all sensors that wait for it. */
static void pool_answered(struct supervisor *supervisor, enum tn_result code) {
    enum supervisor_pool pool = supervisor_pool(supervisor);
    supervisor->pool_asked = false;
    for (struct supervisor_sensor *s = supervisor->sensors; s != NULL; s = s->next) {
        if (!s->waits_for_pool) {
            continue;
        }
        s->waits_for_pool = false;
        switch (pool) {
        case SUPERVISOR_POOL_OURS:
            alloc_ask(s);
            break;
        case SUPERVISOR_POOL_FOREIGN:
            pool_refuse(s);
            break;
        default:
            refused(s, SUPERVISOR_ASK_ALLOC, code);
            break;
        }
    }
}

/* ---- Asking ---- */

/* The first allocation creates the pool. All allocations wait until that is committed, because only
 * then is it known who owns the pool. */
void supervisor_ask_alloc(struct supervisor_sensor *sensor) {
    struct supervisor *supervisor = sensor->supervisor;
    switch (supervisor_pool(supervisor)) {
    case SUPERVISOR_POOL_OURS:
        alloc_ask(sensor);
        break;
    case SUPERVISOR_POOL_FOREIGN:
        pool_refuse(sensor);
        break;
    default:
        sensor->waits_for_pool = true;
        if (!supervisor->pool_asked) {
            supervisor->pool_asked = pool_create(sensor);
        }
        if (!supervisor->pool_asked) {
            sensor->waits_for_pool = false;
            refused(sensor, SUPERVISOR_ASK_ALLOC, TN_R_OVERLOADED);
        }
        break;
    }
}

void supervisor_ask_end(struct supervisor_sensor *sensor, bool reclaim) {
    struct kernel_command command =
        command_of(reclaim ? KERNEL_VERB_RECLAIM : KERNEL_VERB_REVOKE, KERNEL_F_LEASE);
    command.lease = sensor->plan.lease;
    enum supervisor_ask_kind kind = reclaim ? SUPERVISOR_ASK_RECLAIM : SUPERVISOR_ASK_REVOKE;
    if (!ask_submit(sensor, kind, &command)) {
        refused(sensor, kind, TN_R_OVERLOADED);
    }
}

void supervisor_ask_remove(struct supervisor_sensor *sensor) {
    sensor->member = false;
    if (supervisor_pool(sensor->supervisor) == SUPERVISOR_POOL_OURS) {
        member_ask(sensor, KERNEL_VERB_POOL_REMOVE, SUPERVISOR_ASK_REMOVE);
    }
}

void supervisor_ask_report(struct supervisor_sensor *sensor, const char *word,
                           const char *payload) {
    struct kernel_command command =
        command_of(KERNEL_VERB_SENSOR_REPORT, KERNEL_F_NAME | KERNEL_F_TRIGGER | KERNEL_F_LEASE |
                                                  KERNEL_F_EPOCH | KERNEL_F_META);
    if (sensor->supervisor->halted) {
        return;
    }
    command.name = bytes_of(sensor->ref);
    command.trigger = bytes_of(word);
    command.lease = sensor->plan.lease;
    command.epoch = sensor->plan.epoch;
    command.meta = bytes_of(payload);
    (void)ask_submit(sensor, SUPERVISOR_ASK_REPORT, &command);
}
