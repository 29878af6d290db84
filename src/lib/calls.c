/* The typed calls: each fills in a tenure_command and executes it. */
#include <stdlib.h>
#include <string.h>

#include "lib/library.h"

static struct tenure_command call_of(enum tenure_verb verb, const struct tenure_caller *caller) {
    struct tenure_command command = {.verb = verb, .caller = {.rights = TENURE_RIGHT_OPERATOR}};
    if (caller != NULL) {
        command.caller = *caller;
    }
    return command;
}

/* ---- Pools ---- */

enum tenure_result tenure_pool_create(struct tenure *tenure, const char *pool,
                                      const struct tenure_option *options, uint32_t option_count,
                                      const struct tenure_caller *caller,
                                      struct tenure_reply *reply) {
    struct tenure_command command = call_of(TENURE_VERB_POOL_CREATE, caller);
    command.pool = pool;
    command.options = options;
    command.option_count = option_count;
    return tenure_execute(tenure, &command, reply);
}

enum tenure_result tenure_pool_alter(struct tenure *tenure, const char *pool,
                                     const struct tenure_option *options, uint32_t option_count,
                                     const struct tenure_caller *caller,
                                     struct tenure_reply *reply) {
    struct tenure_command command = call_of(TENURE_VERB_POOL_ALTER, caller);
    command.pool = pool;
    command.options = options;
    command.option_count = option_count;
    return tenure_execute(tenure, &command, reply);
}

enum tenure_result tenure_pool_drop(struct tenure *tenure, const char *pool,
                                    const struct tenure_caller *caller,
                                    struct tenure_reply *reply) {
    struct tenure_command command = call_of(TENURE_VERB_POOL_DROP, caller);
    command.pool = pool;
    return tenure_execute(tenure, &command, reply);
}

static enum tenure_result call_resources(struct tenure *tenure, enum tenure_verb verb,
                                         const char *pool, const char *const *names, uint32_t count,
                                         const struct tenure_caller *caller,
                                         struct tenure_reply *reply) {
    struct tenure_command command = call_of(verb, caller);
    struct tenure_requested *requested_values =
        calloc(count > 0 ? count : 1, sizeof *requested_values);
    if (requested_values == NULL) {
        if (reply != NULL) {
            reply->detail[0] = '\0';
            lib_reply_reject(reply, TENURE_OVERLOADED);
        }
        return TENURE_OVERLOADED;
    }
    for (uint32_t i = 0; i < count; i++) {
        requested_values[i].text = names[i] != NULL ? names[i] : "";
    }
    command.pool = pool;
    command.values = requested_values;
    command.value_count = count;
    enum tenure_result code = tenure_execute(tenure, &command, reply);
    free(requested_values);
    return code;
}

enum tenure_result tenure_pool_add(struct tenure *tenure, const char *pool,
                                   const char *const *names, uint32_t count,
                                   const struct tenure_caller *caller, struct tenure_reply *reply) {
    return call_resources(tenure, TENURE_VERB_POOL_ADD, pool, names, count, caller, reply);
}

enum tenure_result tenure_pool_remove(struct tenure *tenure, const char *pool,
                                      const char *const *names, uint32_t count,
                                      const struct tenure_caller *caller,
                                      struct tenure_reply *reply) {
    return call_resources(tenure, TENURE_VERB_POOL_REMOVE, pool, names, count, caller, reply);
}

/* ---- Leases ---- */

static enum tenure_result call_ask(struct tenure *tenure, enum tenure_verb verb,
                                   const struct tenure_ask *ask, const struct tenure_caller *caller,
                                   struct tenure_reply *reply) {
    struct tenure_command command = call_of(verb, caller);
    command.holder = ask->holder;
    command.claims = ask->claims;
    command.claim_count = ask->claim_count;
    command.has_ttl = ask->has_ttl;
    command.ttl_s = ask->ttl_s;
    command.meta = ask->meta;
    command.meta_len = ask->meta_len;
    command.deadline_ms = ask->deadline_ms;
    return tenure_execute(tenure, &command, reply);
}

enum tenure_result tenure_alloc(struct tenure *tenure, const struct tenure_ask *ask,
                                const struct tenure_caller *caller, struct tenure_reply *reply) {
    return call_ask(tenure, TENURE_VERB_ALLOC, ask, caller, reply);
}

enum tenure_result tenure_alloc_any(struct tenure *tenure, const char *pool, const char *holder,
                                    uint32_t count, const struct tenure_caller *caller,
                                    struct tenure_reply *reply) {
    const struct tenure_claim claim = {.pool = pool, .count = count};
    const struct tenure_ask ask = {.holder = holder, .claims = &claim, .claim_count = 1};
    return call_ask(tenure, TENURE_VERB_ALLOC, &ask, caller, reply);
}

enum tenure_result tenure_reserve(struct tenure *tenure, const struct tenure_ask *ask,
                                  const struct tenure_caller *caller, struct tenure_reply *reply) {
    return call_ask(tenure, TENURE_VERB_RESERVE, ask, caller, reply);
}

enum tenure_result tenure_activate(struct tenure *tenure, struct tenure_lease_id lease,
                                   const char *holder, uint64_t epoch,
                                   const struct tenure_caller *caller, struct tenure_reply *reply) {
    struct tenure_command command = call_of(TENURE_VERB_ACTIVATE, caller);
    command.lease = lease;
    command.holder = holder;
    command.epoch = epoch;
    return tenure_execute(tenure, &command, reply);
}

enum tenure_result tenure_touch(struct tenure *tenure, struct tenure_lease_id lease, uint64_t epoch,
                                const struct tenure_renewal *renewal,
                                const struct tenure_caller *caller, struct tenure_reply *reply) {
    struct tenure_command command = call_of(TENURE_VERB_TOUCH, caller);
    command.lease = lease;
    command.epoch = epoch;
    if (renewal != NULL) {
        command.has_ttl = renewal->has_ttl;
        command.ttl_s = renewal->ttl_s;
        command.meta = renewal->meta;
        command.meta_len = renewal->meta_len;
    }
    return tenure_execute(tenure, &command, reply);
}

enum tenure_result tenure_release(struct tenure *tenure, struct tenure_lease_id lease,
                                  const char *holder, uint64_t epoch, bool immediate,
                                  const struct tenure_caller *caller, struct tenure_reply *reply) {
    struct tenure_command command = call_of(TENURE_VERB_RELEASE, caller);
    command.lease = lease;
    command.holder = holder;
    command.epoch = epoch;
    command.immediate = immediate;
    return tenure_execute(tenure, &command, reply);
}

enum tenure_result tenure_revoke(struct tenure *tenure, struct tenure_lease_id lease,
                                 const uint32_t *after_s, const struct tenure_caller *caller,
                                 struct tenure_reply *reply) {
    struct tenure_command command = call_of(TENURE_VERB_REVOKE, caller);
    command.lease = lease;
    command.has_after = after_s != NULL;
    command.after_s = after_s != NULL ? *after_s : 0;
    return tenure_execute(tenure, &command, reply);
}

enum tenure_result tenure_ack(struct tenure *tenure, struct tenure_lease_id lease,
                              const char *holder, uint64_t epoch,
                              const struct tenure_caller *caller, struct tenure_reply *reply) {
    struct tenure_command command = call_of(TENURE_VERB_ACK, caller);
    command.lease = lease;
    command.holder = holder;
    command.epoch = epoch;
    return tenure_execute(tenure, &command, reply);
}

enum tenure_result tenure_reclaim(struct tenure *tenure, struct tenure_lease_id lease,
                                  const struct tenure_caller *caller, struct tenure_reply *reply) {
    struct tenure_command command = call_of(TENURE_VERB_RECLAIM, caller);
    command.lease = lease;
    return tenure_execute(tenure, &command, reply);
}

enum tenure_result tenure_rekey(struct tenure *tenure, struct tenure_lease_id lease, uint64_t epoch,
                                const char *new_holder, const struct tenure_caller *caller,
                                struct tenure_reply *reply) {
    struct tenure_command command = call_of(TENURE_VERB_REKEY, caller);
    command.lease = lease;
    command.epoch = epoch;
    command.holder = new_holder;
    return tenure_execute(tenure, &command, reply);
}

enum tenure_result tenure_disown(struct tenure *tenure, const char *holder, const char *pool,
                                 const struct tenure_caller *caller, struct tenure_reply *reply) {
    struct tenure_command command = call_of(TENURE_VERB_DISOWN, caller);
    command.holder = holder;
    command.pool = pool;
    return tenure_execute(tenure, &command, reply);
}

enum tenure_result tenure_sweep(struct tenure *tenure, const char *pool,
                                const struct tenure_caller *caller, struct tenure_reply *reply) {
    struct tenure_command command = call_of(TENURE_VERB_SWEEP, caller);
    command.pool = pool;
    return tenure_execute(tenure, &command, reply);
}

enum tenure_result tenure_tick(struct tenure *tenure) {
    return (enum tenure_result)engine_tick(tenure->engine);
}

/* ---- Rules and sensors ---- */

enum tenure_result tenure_rule_set(struct tenure *tenure, const char *id, const char *trigger,
                                   bool enabled, const struct tenure_caller *caller,
                                   struct tenure_reply *reply) {
    struct tenure_command command = call_of(TENURE_VERB_RULE_SET, caller);
    command.name = id;
    command.trigger = trigger;
    command.enabled = enabled;
    return tenure_execute(tenure, &command, reply);
}

enum tenure_result tenure_rule_enable(struct tenure *tenure, const char *id, bool enabled,
                                      const struct tenure_caller *caller,
                                      struct tenure_reply *reply) {
    struct tenure_command command = call_of(TENURE_VERB_RULE_ENABLE, caller);
    command.name = id;
    command.enabled = enabled;
    return tenure_execute(tenure, &command, reply);
}

enum tenure_result tenure_rule_delete(struct tenure *tenure, const char *id,
                                      const struct tenure_caller *caller,
                                      struct tenure_reply *reply) {
    struct tenure_command command = call_of(TENURE_VERB_RULE_DELETE, caller);
    command.name = id;
    return tenure_execute(tenure, &command, reply);
}

enum tenure_result tenure_sensor_set(struct tenure *tenure, const char *ref, const char *trigger,
                                     bool enabled, const void *spec, size_t spec_len,
                                     const struct tenure_caller *caller,
                                     struct tenure_reply *reply) {
    struct tenure_command command = call_of(TENURE_VERB_SENSOR_SET, caller);
    command.name = ref;
    command.trigger = trigger;
    command.enabled = enabled;
    command.spec = spec != NULL ? spec : "";
    command.spec_len = spec != NULL ? spec_len : 0;
    return tenure_execute(tenure, &command, reply);
}

enum tenure_result tenure_sensor_enable(struct tenure *tenure, const char *ref, bool enabled,
                                        const struct tenure_caller *caller,
                                        struct tenure_reply *reply) {
    struct tenure_command command = call_of(TENURE_VERB_SENSOR_ENABLE, caller);
    command.name = ref;
    command.enabled = enabled;
    return tenure_execute(tenure, &command, reply);
}

enum tenure_result tenure_sensor_delete(struct tenure *tenure, const char *ref,
                                        const struct tenure_caller *caller,
                                        struct tenure_reply *reply) {
    struct tenure_command command = call_of(TENURE_VERB_SENSOR_DELETE, caller);
    command.name = ref;
    return tenure_execute(tenure, &command, reply);
}
