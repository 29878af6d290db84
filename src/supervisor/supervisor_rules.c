/* The file of rules of each run: the enabled rules of its sensor's trigger, as JSON.
 *
 *     {"sensor":"timer","trigger":"core.timer","rules":[
 *     {"id":"7","trigger":"core.timer","enabled":true,"meta":{"seconds":30}}
 *     ],"complete":true}
 *
 * The file is there before the process begins. A notice about a trigger puts the sensors that run for it
 * into a queue; the sensor at its head has its file made again, a few pages of rules in each turn of the
 * loop, and replaced if the content differs, followed by the signal that the sensor asked for. A rule
 * that changes while a file is being made puts the sensor into the queue again, so the last file always
 * shows the last rules. Two files of one sensor are SPACING_MS apart, however often its rules change.
 *
 * A file is bounded: with more rules than fit, or at a start before all of them were looked at, it says
 * "complete":false, and SENSOR RULES has the rest. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "engine/read.h"
#include "protocol/json.h"
#include "protocol/render.h"
#include "supervisor/supervisor_parts.h"

#define RULES_PAGE 8u
#define FILE_MAX (1024u * 1024u)
#define TAIL_MAX 32u
#define TURN_NS 1000000ull
#define SPACING_MS 100u
#define RETRY_MS 1000u

struct supervisor_rules_build {
    uint64_t cursor;
    uint32_t count; /* rules in the text */
    bool cut;       /* there are more */
    struct tn_writer text;
    struct engine_rule page[RULES_PAGE];
    uint8_t bytes[FILE_MAX];
};

enum build_state { BUILD_MORE, BUILD_DONE, BUILD_FAILED };

/* ---- The text ---- */

static void text_put(struct tn_writer *w, const char *text) {
    tn_write_raw(w, text, strlen(text));
}

static void string_put(struct tn_writer *w, const char *text) {
    char room[8 * KERNEL_RULE_MAX];
    struct protocol_writer json = {.out = tn_writer_of(room, sizeof room),
                                   .encoding = PROTOCOL_JSON};
    protocol_json_string(&json, text, strlen(text));
    tn_write_raw(w, room, json.out.len);
}

static struct supervisor_rules_build *build_begin(const struct supervisor_sensor *sensor) {
    struct supervisor_rules_build *build = malloc(sizeof *build);
    if (build == NULL) {
        return NULL;
    }
    build->cursor = 0;
    build->count = 0;
    build->cut = false;
    build->text = tn_writer_of(build->bytes, FILE_MAX - TAIL_MAX);
    text_put(&build->text, "{\"sensor\":");
    string_put(&build->text, sensor->ref);
    text_put(&build->text, ",\"trigger\":");
    string_put(&build->text, sensor->trigger);
    text_put(&build->text, ",\"rules\":[");
    return build;
}

/* False: the rule does not fit. */
static bool rule_put(struct supervisor_rules_build *build, const struct engine_rule *rule) {
    struct tn_writer *text = &build->text;
    const char *before = build->count > 0 ? ",\n" : "\n";
    size_t skip = strlen(before);
    if (text->capacity - text->len < skip) {
        return false;
    }
    struct protocol_writer json = {
        .out = tn_writer_of(text->at + text->len + skip, text->capacity - text->len - skip),
        .encoding = PROTOCOL_JSON};
    protocol_render_rule(&json, &rule->view, rule->meta, 0);
    if (json.out.overflow) {
        return false;
    }
    text_put(text, before);
    text->len += json.out.len;
    build->count++;
    return true;
}

static enum build_state build_step(const struct supervisor_sensor *sensor,
                                   struct supervisor_rules_build *build) {
    uint32_t count = 0;
    uint64_t lsn;
    enum tn_result code =
        engine_sensor_rules(sensor->supervisor->options.engine, SUPERVISOR_READ,
                            tn_bytes_of(sensor->ref, strlen(sensor->ref)), &build->cursor,
                            build->page, RULES_PAGE, &count, &lsn);
    if (code != TN_R_OK) {
        return BUILD_FAILED; /* the sensor was deleted or the engine has halted, so the run ends */
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!rule_put(build, &build->page[i])) {
            build->cut = true;
            return BUILD_DONE;
        }
    }
    return build->cursor == 0 ? BUILD_DONE : BUILD_MORE;
}

static enum build_state build_turn(const struct supervisor_sensor *sensor,
                                   struct supervisor_rules_build *build) {
    enum build_state state;
    uint64_t end_ns = uv_hrtime() + TURN_NS;
    do {
        state = build_step(sensor, build);
    } while (state == BUILD_MORE && uv_hrtime() < end_ns);
    return state;
}

static struct tn_bytes build_end(struct supervisor_rules_build *build) {
    build->text.capacity = FILE_MAX;
    text_put(&build->text, build->count > 0 ? "\n]" : "]");
    text_put(&build->text, build->cut ? ",\"complete\":false}\n" : ",\"complete\":true}\n");
    return tn_bytes_of(build->bytes, build->text.len);
}

static uint64_t hash_of(struct tn_bytes text) {
    return tn_hash64(text.at, text.len, 1);
}

/* ---- The queue ---- */

static void queue_put(struct supervisor_sensor *sensor) {
    struct supervisor_rules *rules = &sensor->supervisor->rules;
    if (sensor->rules_queued) {
        return;
    }
    sensor->rules_queued = true;
    sensor->rules_next = NULL;
    if (rules->last != NULL) {
        rules->last->rules_next = sensor;
    } else {
        rules->first = sensor;
    }
    rules->last = sensor;
}

static void queue_remove(struct supervisor_sensor *sensor) {
    struct supervisor_rules *rules = &sensor->supervisor->rules;
    struct supervisor_sensor *before = NULL;
    if (!sensor->rules_queued) {
        return;
    }
    if (rules->first == sensor) {
        free(rules->build);
        rules->build = NULL;
    }
    for (struct supervisor_sensor *s = rules->first; s != sensor; s = s->rules_next) {
        before = s;
    }
    *(before != NULL ? &before->rules_next : &rules->first) = sensor->rules_next;
    if (rules->last == sensor) {
        rules->last = before;
    }
    sensor->rules_queued = false;
}

static void on_timer(uv_timer_t *timer);

static void timer_set(struct supervisor *supervisor) {
    const struct supervisor_sensor *first = supervisor->rules.first;
    uint64_t now = uv_now(supervisor->options.loop);
    if (first != NULL && !supervisor->closed) {
        (void)uv_timer_start(&supervisor->rules.timer, on_timer,
                             first->rules_due_ms > now ? first->rules_due_ms - now : 0, 0);
    }
}

static void file_replace(struct supervisor_sensor *sensor, struct tn_bytes text) {
    struct supervisor *supervisor = sensor->supervisor;
    sensor->rules_due_ms = uv_now(supervisor->options.loop) + SPACING_MS;
    if (hash_of(text) == sensor->rules_hash) {
        return;
    }
    enum tn_status status = run_rules_write(sensor->run, text);
    if (status != TN_OK) {
        if (!sensor->rules_failed) {
            supervisor_log(supervisor, "event=sensor_rules_unwritten sensor=%s reason=\"%s\"",
                           sensor->ref, tn_status_text(status));
        }
        sensor->rules_failed = true;
        sensor->rules_due_ms += RETRY_MS;
        queue_put(sensor);
        return;
    }
    sensor->rules_failed = false;
    sensor->rules_hash = hash_of(text);
    if (sensor->run_spec->rules_signal != 0) {
        run_signal(sensor->run, sensor->run_spec->rules_signal);
    }
}

/* Makes the file of the first sensor in the queue. Only a running sensor has one. */
static void serve(struct supervisor *supervisor) {
    struct supervisor_rules *rules = &supervisor->rules;
    struct supervisor_sensor *sensor = rules->first;
    if (sensor->run == NULL || sensor->plan.phase != PLAN_RUNNING) {
        queue_remove(sensor);
        return;
    }
    if (rules->build == NULL) {
        rules->build = build_begin(sensor);
        sensor->rules_again = false;
    }
    enum build_state state = rules->build != NULL ? build_turn(sensor, rules->build) : BUILD_FAILED;
    if (state == BUILD_MORE) {
        return;
    }
    struct supervisor_rules_build *build = rules->build;
    bool again = sensor->rules_again || build == NULL;
    rules->build = NULL;
    queue_remove(sensor);
    if (state == BUILD_DONE) {
        file_replace(sensor, build_end(build));
    } else {
        sensor->rules_due_ms = uv_now(supervisor->options.loop) + RETRY_MS;
    }
    free(build);
    if (again) {
        queue_put(sensor);
    }
}

static void on_timer(uv_timer_t *timer) {
    struct supervisor *supervisor = timer->data;
    if (supervisor->rules.first != NULL) {
        serve(supervisor);
    }
    timer_set(supervisor);
}

/* ---- What the other files call ---- */

void supervisor_rules_mark(struct supervisor_sensor *sensor) {
    struct supervisor *supervisor = sensor->supervisor;
    if (sensor->run == NULL || supervisor->closing) {
        return;
    }
    sensor->rules_again = true; /* if its file is being made now */
    queue_put(sensor);
    if (!uv_is_active((uv_handle_t *)&supervisor->rules.timer)) {
        timer_set(supervisor);
    }
}

void supervisor_rules_changed(struct supervisor *supervisor, struct tn_bytes trigger) {
    for (struct supervisor_sensor *s = supervisor_find_trigger(supervisor, trigger); s != NULL;
         s = s->next_of_trigger) {
        if (tn_bytes_equal(trigger, tn_bytes_of(s->trigger, s->trigger_len))) {
            supervisor_rules_mark(s);
        }
    }
}

struct supervisor_rules_build *supervisor_rules_first(struct supervisor_sensor *sensor,
                                                      struct tn_bytes *ret_text) {
    struct supervisor_rules_build *build = build_begin(sensor);
    *ret_text = tn_bytes_of(NULL, 0);
    sensor->rules_hash = 0;
    sensor->rules_failed = false;
    if (build == NULL) {
        return NULL;
    }
    enum build_state state = build_turn(sensor, build);
    build->cut |= state != BUILD_DONE;
    *ret_text = build_end(build);
    sensor->rules_hash = hash_of(*ret_text);
    return build;
}

void supervisor_rules_drop(struct supervisor_sensor *sensor) {
    queue_remove(sensor);
    sensor->rules_due_ms = 0;
}

void supervisor_rules_open(struct supervisor *supervisor) {
    (void)uv_timer_init(supervisor->options.loop, &supervisor->rules.timer);
    supervisor->rules.timer.data = supervisor;
}
