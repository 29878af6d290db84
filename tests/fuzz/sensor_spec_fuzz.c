/* Any bytes as the description of a sensor: it is refused with words, or everything in it is within its
 * bounds and ends where it should. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "process/sensor_spec.h"

/* Touches every byte, so that one too many is seen. */
static size_t texts_check(const char **texts, uint32_t count) {
    size_t len = 0;
    for (uint32_t i = 0; i < count; i++) {
        len += strlen(texts[i]);
    }
    TN_ASSERT(texts[count] == NULL);
    return len;
}

static void spec_check(const struct sensor_spec *spec, size_t size) {
    TN_ASSERT(spec->argc >= 1 && spec->argc <= SENSOR_ARGS_MAX && spec->envc <= SENSOR_ENV_MAX);
    TN_ASSERT(texts_check(spec->argv, spec->argc) + texts_check(spec->env, spec->envc) <= size);
    for (uint32_t i = 0; i < spec->envc; i++) {
        const char *is = strchr(spec->env[i], '=');
        TN_ASSERT(is != NULL && is != spec->env[i]);
    }
    TN_ASSERT(spec->argv[0][0] == '/' || strchr(spec->argv[0], '/') == NULL);
    TN_ASSERT(spec->cwd[0] == '/' && strlen(spec->token_env) <= SENSOR_ENV_NAME_MAX);
    TN_ASSERT(spec->stop_ms <= SENSOR_TIME_MAX_MS && spec->settle_ms <= SENSOR_TIME_MAX_MS);
    TN_ASSERT(spec->backoff_ms > 0 && spec->backoff_ms <= spec->backoff_max_ms);
    TN_ASSERT(spec->log_files >= 1 && spec->log_bytes >= SENSOR_LOG_BYTES_MIN);
    TN_ASSERT(spec->token_ttl_s >= 1);
    if (spec->health == SENSOR_HEALTH_COMMAND) {
        TN_ASSERT(texts_check(spec->health_argv, spec->health_argc) <= size);
    }
    if (spec->health == SENSOR_HEALTH_HTTP) {
        TN_ASSERT(strncmp(spec->health_url, "http://", 7) == 0);
    }
    TN_ASSERT(spec->health == SENSOR_HEALTH_NONE ||
              (spec->health_threshold >= 1 && spec->health_interval_ms > 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sensor_defaults defaults = sensor_defaults_make();
    struct sensor_spec *spec = NULL;
    char reason[SENSOR_REASON_MAX];
    memset(reason, 'x', sizeof reason);
    if (sensor_spec_parse(tn_bytes_of(data, size), &defaults, &spec, reason)) {
        spec_check(spec, size);
        sensor_spec_free(spec);
    } else {
        TN_ASSERT(spec == NULL && memchr(reason, 0, sizeof reason) != NULL && reason[0] != '\0');
    }
    return 0;
}
