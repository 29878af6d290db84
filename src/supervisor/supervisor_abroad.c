/* Runs in a cluster: those of other nodes, and how long ours live by themselves.
 *
 * Sensors run on the owner of the log. The metadata of a run's lease says on which node it runs, in which
 * boot of that machine and in which ownership of the log:
 *
 *     {"node": "a", "boot": "…", "epoch": "7"}
 *
 * A new owner finds the leases of the runs of earlier ones. A run on another node is abroad: what processes
 * there are on this machine proves nothing about it. It is gone when
 *   - that node says so (its clean epoch), or its machine has booted since;
 *   - or enough time has passed (supervisor_cluster.abroad_gone_at_ms): every earlier owner has lost the
 *     log, by its own clock, and its guardians, which were told until when they may let their runs live,
 *     have had time to kill them.
 * Only then its lease is reclaimed, and the sensor started here. */
#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "engine/read.h"
#include "supervisor/supervisor_parts.h"

#define PULSE_MS 200u
#define LOOK_PULSES 5u

struct tn_bytes supervisor_abroad_meta(const struct supervisor *supervisor,
                                       char out[SUPERVISOR_META_MAX]) {
    const struct supervisor_cluster *cluster = &supervisor->options.cluster;
    if (cluster->node == NULL) {
        return tn_bytes_of("", 0);
    }
    char boot[2 * LOG_BOOT_ID_BYTES + 1];
    (void)sodium_bin2hex(boot, sizeof boot, cluster->boot_id, sizeof cluster->boot_id);
    int len =
        snprintf(out, SUPERVISOR_META_MAX, "{\"node\":\"%s\",\"boot\":\"%s\",\"epoch\":\"%llu\"}",
                 cluster->node, boot, (unsigned long long)cluster->epoch);
    TN_ASSERT(len > 0 && (size_t)len < SUPERVISOR_META_MAX);
    return tn_bytes_of(out, (size_t)len);
}

static bool text_take(const json_t *meta, const char *key, char *out, size_t room) {
    const char *text = json_string_value(json_object_get(meta, key));
    return text != NULL && snprintf(out, room, "%s", text) < (int)room;
}

/* A lease without a node was taken before there was a cluster, by the node that has begun it. */
bool supervisor_abroad_is(struct supervisor_sensor *sensor, struct kernel_lease_id lease) {
    const struct supervisor *supervisor = sensor->supervisor;
    char bytes[SUPERVISOR_META_MAX];
    char epoch[24];
    char boot[2 * LOG_BOOT_ID_BYTES + 1];
    size_t boot_len = 0;
    uint32_t len = 0;
    if (supervisor->options.cluster.node == NULL ||
        engine_lease_meta(supervisor->options.engine, SUPERVISOR_READ, lease, bytes, sizeof bytes,
                          &len) != TN_R_OK ||
        len == 0 || len > sizeof bytes) {
        return false;
    }
    json_t *meta = json_loadb(bytes, len, 0, NULL);
    bool whole = text_take(meta, "node", sensor->abroad.node, sizeof sensor->abroad.node) &&
                 text_take(meta, "boot", boot, sizeof boot) &&
                 sodium_hex2bin(sensor->abroad.boot_id, sizeof sensor->abroad.boot_id, boot,
                                strlen(boot), NULL, &boot_len, NULL) == 0 &&
                 boot_len == LOG_BOOT_ID_BYTES && text_take(meta, "epoch", epoch, sizeof epoch);
    json_decref(meta);
    if (!whole) {
        return false;
    }
    sensor->abroad.epoch = strtoull(epoch, NULL, 10);
    return strcmp(sensor->abroad.node, supervisor->options.cluster.node) != 0;
}

/* ---- Runs of other nodes ---- */

/* Why the run is gone; NULL: it may be alive. */
static const char *gone_why(const struct supervisor_sensor *sensor, const struct log_node *nodes,
                            uint32_t count) {
    const struct supervisor *supervisor = sensor->supervisor;
    const struct os *os = supervisor->options.os;
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(nodes[i].name, sensor->abroad.node) != 0) {
            continue;
        }
        if (nodes[i].clean_epoch >= sensor->abroad.epoch) {
            return "its node says that it is dead";
        }
        if (!sodium_is_zero(nodes[i].boot_id, LOG_BOOT_ID_BYTES) &&
            memcmp(nodes[i].boot_id, sensor->abroad.boot_id, LOG_BOOT_ID_BYTES) != 0) {
            return "its machine has booted since";
        }
    }
    if (os->clock_boot_ms(os->ctx) >= supervisor->options.cluster.abroad_gone_at_ms) {
        return "its node lost the log, and its guardian had time to kill it";
    }
    return NULL;
}

static void abroad_look(struct supervisor *supervisor) {
    struct log_node *nodes = supervisor->nodes;
    uint32_t count = 0;
    bool asked = false;
    for (struct supervisor_sensor *s = supervisor->sensors; s != NULL; s = s->next) {
        if (s->plan.run_is != PLAN_RUN_ABROAD) {
            continue;
        }
        if (!asked) {
            count = engine_nodes(supervisor->options.engine, nodes, LOG_NODES_MAX);
            asked = true;
        }
        const char *why = gone_why(s, nodes, count);
        if (why != NULL) {
            supervisor_log(supervisor, "event=sensor_abroad_gone sensor=%s node=%s reason=\"%s\"",
                           s->ref, s->abroad.node, why);
            supervisor_tell(s, &(struct plan_fact){.kind = PLAN_FACT_GONE});
        }
    }
}

/* ---- Our own ---- */

/* To a guardian 0 means "never", so if the log is not owned, the run must end at once. */
struct run_frame_times supervisor_abroad_live(const struct supervisor *supervisor) {
    struct run_frame_times live = {0};
    if (supervisor->options.cluster.node != NULL) {
        uint64_t until_ms = engine_owned_until(supervisor->options.engine);
        live.kill_at_ms = until_ms == UINT64_MAX ? 0 : until_ms > 0 ? until_ms : 1;
    }
    return live;
}

static void live_tell(struct supervisor *supervisor) {
    struct run_frame_times live = supervisor_abroad_live(supervisor);
    if (live.kill_at_ms == supervisor->live_until_ms || supervisor->halted) {
        return; /* a node that has lost the log keeps the last time */
    }
    supervisor->live_until_ms = live.kill_at_ms;
    for (struct supervisor_sensor *s = supervisor->sensors; s != NULL; s = s->next) {
        if (s->run != NULL) {
            (void)run_live(s->run, &live);
        }
    }
}

static void on_pulse(uv_timer_t *timer) {
    struct supervisor *supervisor = timer->data;
    live_tell(supervisor);
    if (supervisor->pulses++ % LOOK_PULSES == 0 && !supervisor->halted && !supervisor->off) {
        abroad_look(supervisor);
    }
}

void supervisor_abroad_begin(struct supervisor *supervisor) {
    if (supervisor->options.cluster.node == NULL) {
        return;
    }
    (void)uv_timer_init(supervisor->options.loop, &supervisor->pulse);
    supervisor->pulse.data = supervisor;
    supervisor->handles++;
    (void)uv_timer_start(&supervisor->pulse, on_pulse, 0, PULSE_MS);
}
