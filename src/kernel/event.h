/* Events: the effects of a command, which the kernel reports while it applies the command. */
#ifndef TN_KERNEL_EVENT_H
#define TN_KERNEL_EVENT_H

#include "kernel/types.h"

/* Events: name of the kind. */
#define KERNEL_EVENT_TABLE(X)                                                               \
    X(LEASE_RESERVED, "lease.reserved")                                                     \
    X(LEASE_ACTIVE, "lease.active")                                                         \
    X(LEASE_RETURNED, "lease.returned")                                                     \
    X(LEASE_OFFLINE, "lease.offline")                                                       \
    X(LEASE_REKEYED, "lease.rekeyed")                                                       \
    X(LEASE_REVOKING, "lease.revoking")                                                     \
    X(LEASE_RELEASED, "lease.released")                                                     \
    X(LEASE_EXPIRED, "lease.expired")                                                       \
    X(LEASE_REVOKED, "lease.revoked")                                                       \
    X(VALUE_COOLED, "value.cooled")                                                         \
    X(POOL_CREATED, "pool.created")                                                         \
    X(POOL_ALTERED, "pool.altered")                                                         \
    X(POOL_DROPPED, "pool.dropped")                                                         \
    X(POOL_ADDED, "pool.added")                                                             \
    X(POOL_REMOVED, "pool.removed")                                                         \
    X(HOLDER_DISOWNED, "holder.disowned")                                                   \
    X(RULE_SET, "rule.set")                                                                 \
    X(RULE_DELETED, "rule.deleted")                                                         \
    X(SENSOR_SET, "sensor.set")                                                             \
    X(SENSOR_DELETED, "sensor.deleted")                                                     \
    X(DEMAND_CHANGED, "demand.changed") /* a trigger's enabled rules became or left zero */ \
    X(SENSOR_EMITTED, "sensor.emitted") /* by a run of a sensor, with its token */          \
    X(SENSOR_STARTED, "sensor.started") /* from here on: reports of the supervisor */       \
    X(SENSOR_STOPPED, "sensor.stopped")                                                     \
    X(SENSOR_CRASHED, "sensor.crashed")                                                     \
    X(SENSOR_ERROR, "sensor.error")                                                         \
    X(SENSOR_START_FAILED, "sensor.start_failed")                                           \
    X(LEASE_WAITING, "lease.waiting")                                                       \
    X(USER_ADDED, "user.added") /* users: the name, and the role as the number */           \
    X(USER_CHANGED, "user.changed")                                                         \
    X(USER_DELETED, "user.deleted")

enum kernel_event_kind {
#define KERNEL_EVENT_ENUM(id, name) KERNEL_EVENT_##id,
    KERNEL_EVENT_TABLE(KERNEL_EVENT_ENUM)
#undef KERNEL_EVENT_ENUM
        KERNEL_EVENT_COUNT
};

const char *kernel_event_name(enum kernel_event_kind kind);

/* Valid during the sink's call only. */
struct kernel_event {
    uint64_t lsn;
    uint32_t index; /* within the command: the event's id is lsn.index */
    uint64_t now_ms;
    enum kernel_event_kind kind;
    enum kernel_reason reason;
    struct kernel_lease_id lease; /* lsn 0: not about a lease */
    uint64_t epoch;
    uint64_t deadline_ms; /* 0: none */
    struct tn_bytes holder;
    struct tn_bytes previous; /* the previous holder of a rekeyed lease; otherwise empty */
    struct tn_bytes user;
    struct tn_bytes actor; /* the user whose command did it; empty: the anonymous user, or time */
    struct tn_bytes note;  /* the REASON that the actor gave; or empty */
    struct tn_bytes name;  /* pool, rule, sensor, trigger or user, if it is about one; else empty */
    const struct kernel_value *values;
    uint32_t value_count;
    uint64_t number;         /* demand: enabled rules now; disowned: leases released */
    struct tn_bytes trigger; /* for an event emitted by a sensor; otherwise empty */
    /* Of a rule's event, for watchers only: its trigger and, if another one, its trigger before. They are
     * no part of the recorded event. */
    struct tn_bytes demand, demand_before;
    struct tn_bytes
        payload; /* JSON of a sensor's event, which the kernel does not parse; or empty */
};

#endif
