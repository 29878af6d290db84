/* The description of a sensor: one JSON object, judged whole and turned into a structure.
 *
 *     {"command": ["/usr/bin/program", "argument"],       required; the first is an absolute path, or
 *                                                         a name that PATH of the run finds
 *      "env": {"NAME": "value"}, "cwd": "/",
 *      "user": "name", "group": "name",                   only for a server that runs as root
 *      "limits": {"nofile": n, "memory_bytes": n, "cpu_seconds": n, "processes": n,
 *                 "file_bytes": n, "core_bytes": n},
 *      "stop_seconds": 30, "stop_order": "revoke_first", "settle_seconds": 5, "max_restarts": 10, "backoff_seconds": 1,
 *      "backoff_max_seconds": 60, "stable_seconds": 60,
 *      "token_env": "TENURE_TOKEN", "token_ttl_seconds": 7776000, "scope": "sensor",
 *      "rules_signal": "none",                            or HUP, USR1, USR2: see run.h
 *      "health": {"command": [...]} or {"http": "http://..."} or {"heartbeat": true}, with
 *                "interval_seconds": 10, "timeout_seconds": 5, "threshold": 3, "start_seconds": 0,
 *      "log_bytes": 1048576, "log_files": 5}
 *
 * Seconds may have fractions and are kept as milliseconds. Absent members have their defaults.
 * An unknown member is refused by name: a misspelled limit would be no limit. */
#ifndef TN_PROCESS_SENSOR_SPEC_H
#define TN_PROCESS_SENSOR_SPEC_H

#include "base/bytes.h"

#define SENSOR_REASON_MAX 160u
#define SENSOR_ARGS_MAX 64u
#define SENSOR_ENV_MAX 256u
#define SENSOR_ENV_NAME_MAX 64u /* of token_env */
#define SENSOR_TIME_MAX_MS (86400000ull * 365u)
#define SENSOR_LOG_FILES_MAX 1000u
#define SENSOR_LOG_BYTES_MIN 4096u
#define SENSOR_RESTARTS_MAX 1000000u

/* In the order of the frame that carries them; name in the description. */
#define SENSOR_LIMIT_TABLE(X) \
    X(NOFILE, "nofile")       \
    X(MEMORY, "memory_bytes") \
    X(CPU, "cpu_seconds")     \
    X(PROCESSES, "processes") \
    X(FILE, "file_bytes")     \
    X(CORE, "core_bytes")

enum sensor_limit {
#define SENSOR_LIMIT_ENUM(id, name) SENSOR_LIMIT_##id,
    SENSOR_LIMIT_TABLE(SENSOR_LIMIT_ENUM)
#undef SENSOR_LIMIT_ENUM
        SENSOR_LIMITS
};

#define SENSOR_UNLIMITED UINT64_MAX /* as the server itself is */

enum sensor_health {
    SENSOR_HEALTH_NONE,
    SENSOR_HEALTH_COMMAND,
    SENSOR_HEALTH_HTTP,
    SENSOR_HEALTH_HEARTBEAT,
};

/* How a run is kept together, so that its death can be proven; by the word that says it. */
#define SENSOR_CONTAINMENT_TABLE(X)                                                        \
    X(AUTO, "auto")     /* a cgroup, or a pid namespace, or nothing: the first there is */ \
    X(PIDNS, "pidns")   /* a pid namespace of its own */                                   \
    X(CGROUP, "cgroup") /* a cgroup of its own */                                          \
    X(NONE, "none")     /* its guardian alone */

enum sensor_containment {
#define SENSOR_CONTAINMENT_ENUM(id, name) SENSOR_CONTAINMENT_##id,
    SENSOR_CONTAINMENT_TABLE(SENSOR_CONTAINMENT_ENUM)
#undef SENSOR_CONTAINMENT_ENUM
        SENSOR_CONTAINMENTS
};

/* False: there is no such word. */
bool sensor_containment_parse(const char *word, enum sensor_containment *ret_containment);

/* The defaults for descriptions, from the server's settings. */
struct sensor_defaults {
    uint64_t stop_ms, settle_ms;
    uint64_t backoff_ms, backoff_max_ms, stable_ms;
    uint64_t token_ttl_s;
    uint64_t log_bytes;
    uint32_t log_files;
    uint32_t max_restarts;
    enum sensor_containment containment;
    const char *token_env, *scope; /* the caller's, copied */
};

/* Why `name` cannot be the variable that a run finds its token in; NULL: it can. */
const char *sensor_variable_fault(const char *name);

/* One block of the heap; every pointer is into it. */
struct sensor_spec {
    uint32_t argc, envc;
    const char **argv; /* ends with NULL */
    const char **env;  /* NAME=value, ends with NULL */
    const char *cwd;
    const char *user, *group; /* NULL: the server's */
    uint64_t limits[SENSOR_LIMITS];
    enum sensor_containment containment;
    bool exit_first; /* stop_order: the token is revoked after the process has ended */
    uint64_t stop_ms, settle_ms;
    uint64_t backoff_ms, backoff_max_ms, stable_ms;
    uint32_t max_restarts;
    uint32_t log_files; /* with the one that is being written */
    uint64_t log_bytes; /* of each */
    const char *token_env, *scope;
    uint64_t token_ttl_s;
    int rules_signal; /* sent to the main process after its file of rules has changed; 0: none */
    enum sensor_health health;
    uint32_t health_argc;
    const char **health_argv; /* ends with NULL; COMMAND */
    const char *health_url;   /* HTTP */
    uint64_t health_interval_ms, health_timeout_ms, health_start_ms;
    uint32_t health_threshold;
};

/* The defaults of those settings. */
struct sensor_defaults sensor_defaults_make(void);

/* False: it is no description, `reason` says why, in words, and nothing is allocated. The same text
 * and the same defaults give the same structure; no I/O. sensor_spec_free(NULL) does nothing. */
bool sensor_spec_parse(struct tn_bytes json, const struct sensor_defaults *defaults,
                       struct sensor_spec **ret_spec, char reason[SENSOR_REASON_MAX]);
void sensor_spec_free(struct sensor_spec *spec);

#endif
