/* The ledger: everything that was committed, and what it must have led to; see world.h. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "base/hash.h"
#include "sim/world.h"

#define COMPARE_EVERY 24u
#define CHECK_EVERY 96u

static void *must(void *memory) {
    assert_non_null(memory);
    return memory;
}

static enum tn_status memory_reserve(void *ctx, size_t bytes, bool big, void **ret_memory) {
    const struct os *os = ctx;
    return os->mem_reserve(os->ctx, bytes, big, ret_memory);
}

static void memory_release(void *ctx, void *memory, size_t bytes) {
    const struct os *os = ctx;
    os->mem_release(os->ctx, memory, bytes);
}

/* ---- events ---- */

static uint64_t digest_bytes(uint64_t digest, const char *at, size_t len) {
    return tn_hash64(at, len, digest ^ len);
}

static uint64_t digest_text(uint64_t digest, const char *text) {
    return digest_bytes(digest, text, strlen(text));
}

static uint64_t digest_head(uint64_t now_ms, unsigned kind, unsigned reason,
                            struct kernel_lease_id lease, uint64_t epoch, uint64_t deadline_ms,
                            uint64_t number, uint32_t count) {
    uint64_t numbers[] = {now_ms, kind,        reason, lease.shard, lease.lsn,
                          epoch,  deadline_ms, number, count};
    return tn_hash64(numbers, sizeof numbers, 1);
}

static uint64_t digest_number(uint64_t digest, uint64_t number, uint64_t format) {
    uint64_t numbers[] = {number, format};
    return tn_hash64(numbers, sizeof numbers, digest);
}

uint64_t world_event_digest(const struct engine_event *event) {
    const struct kernel_event *e = &event->fact;
    uint64_t digest = digest_head(e->now_ms, e->kind, e->reason, e->lease, e->epoch, e->deadline_ms,
                                  e->number, e->value_count);
    const struct tn_bytes *texts[] = {&e->holder,  &e->previous, &e->user, &e->name,
                                      &e->trigger, &e->actor,    &e->note};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        digest = digest_bytes(digest, (const char *)texts[i]->at, texts[i]->len);
    }
    digest ^= e->payload.len > 0 ? tn_hash64(e->payload.at, e->payload.len, 0) : 0;
    for (uint32_t i = 0; i < e->value_count; i++) {
        const struct engine_event_value *v = &event->values[i];
        digest = digest_number(digest, v->name.len > 0 ? 0 : v->number, v->format);
        digest = digest_bytes(digest, (const char *)v->name.at, v->name.len);
        digest = digest_bytes(digest, (const char *)v->pool.at, v->pool.len);
    }
    return digest;
}

static uint64_t model_event_digest(const struct model_event *e) {
    uint64_t digest = digest_head(e->now_ms, e->kind, e->reason, e->lease, e->epoch, e->deadline_ms,
                                  e->number, e->value_count);
    const char *texts[] = {e->holder, e->previous, e->user, e->name, e->trigger, e->actor, e->note};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        digest = digest_text(digest, texts[i]);
    }
    digest ^= e->payload_hash;
    for (uint32_t i = 0; i < e->value_count; i++) {
        digest = digest_number(digest, e->values[i].number, e->values[i].format);
        digest = digest_text(digest, e->values[i].name);
        digest = digest_text(digest, e->values[i].pool);
    }
    return digest;
}

static void ledger_sink(void *ctx, const struct kernel *kernel, const struct kernel_event *e) {
    struct world *w = ctx;
    struct world_ledger *ledger = &w->ledger;
    assert_true(ledger->event_count < MODEL_EVENTS);
    struct model_event *event = &ledger->events[ledger->event_count++];
    model_take_event(kernel, e, event);
    if (ledger->fact_count == ledger->fact_capacity) {
        ledger->fact_capacity = ledger->fact_capacity == 0 ? 1024 : ledger->fact_capacity * 2;
        ledger->facts = must(realloc(ledger->facts, ledger->fact_capacity * sizeof *ledger->facts));
    }
    ledger->facts[ledger->fact_count++] = (struct world_fact){
        .id = {.lsn = e->lsn, .index = e->index}, .digest = model_event_digest(event)};
    w->counts.events++;
}

static void ledger_waited(void *ctx, const struct kernel *kernel,
                          const struct kernel_result *result) {
    struct world_ledger *ledger = &((struct world *)ctx)->ledger;
    assert_true(ledger->waited_count < MODEL_LEASES);
    model_take_result(kernel, result, &ledger->waited[ledger->waited_count++]);
}

size_t world_fact_find(const struct world *w, struct engine_event_id id) {
    const struct world_ledger *ledger = &w->ledger;
    size_t low = 0;
    size_t high = ledger->fact_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (engine_event_id_compare(ledger->facts[middle].id, id) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool found =
        low < ledger->fact_count && engine_event_id_compare(ledger->facts[low].id, id) == 0;
    return found ? low : ledger->fact_count;
}

/* ---- commands ---- */

void world_ledger_open(struct world *w) {
    struct world_ledger *ledger = &w->ledger;
    struct kernel_env env = {.ctx = (void *)(uintptr_t)os_posix(),
                             .mem_reserve = memory_reserve,
                             .mem_release = memory_release,
                             .hash_seed = w->seed,
                             .sink = ledger_sink,
                             .sink_ctx = w,
                             .waited = ledger_waited,
                             .waited_ctx = w};
    assert_int_equal(kernel_create(&env, &w->limits, 0, &ledger->kernel), TN_OK);
    model_open(&ledger->model, &w->limits, 0);
    ledger->next_lsn = 1;
    ledger->values = must(calloc(KERNEL_BUNDLE_MAX, sizeof *ledger->values));
    ledger->result.values = ledger->values;
    ledger->result.value_capacity = KERNEL_BUNDLE_MAX;
}

void world_ledger_close(struct world *w) {
    struct world_ledger *ledger = &w->ledger;
    for (uint64_t i = 0; i < ledger->count; i++) {
        free(ledger->entries[i].bytes);
    }
    free(ledger->entries);
    free(ledger->facts);
    free(ledger->values);
    kernel_destroy(ledger->kernel);
}

static void ledger_remember(struct world_ledger *ledger, uint64_t now_ms, struct tn_bytes bytes) {
    if (ledger->count == ledger->capacity) {
        ledger->capacity = ledger->capacity == 0 ? 1024 : ledger->capacity * 2;
        ledger->entries =
            must(realloc(ledger->entries, ledger->capacity * sizeof *ledger->entries));
    }
    struct world_entry *entry = &ledger->entries[ledger->count++];
    *entry = (struct world_entry){.lsn = ledger->next_lsn, .now_ms = now_ms, .len = bytes.len};
    ledger->lsn = ledger->next_lsn++;
    entry->bytes = must(malloc(bytes.len + 1u));
    memcpy(entry->bytes, bytes.at, bytes.len);
}

static void ledger_trace(struct world *w, uint64_t now_ms, struct tn_bytes bytes) {
    const struct kernel_result *r = &w->ledger.result;
    char command[240];
    char lease[80] = "";
    generate_describe(bytes, command, sizeof command);
    if (r->has_lease) {
        snprintf(lease, sizeof lease, " lease %" PRIu64 " epoch %" PRIu64 " until %" PRIu64,
                 r->lease.lsn, r->epoch, r->deadline_ms);
    }
    world_trace(w, "%" PRIu64 " @%" PRIu64 " %s -> %s%s%s", w->ledger.lsn, now_ms, command,
                tn_result_name(r->code), r->replayed ? " (replay)" : "", lease);
    world_note(w, tn_hash64(bytes.at, bytes.len, now_ms));
    world_note(w, r->code + r->deadline_ms + r->lease.lsn);
}

struct tn_bytes world_tick_bytes(void) {
    static uint8_t bytes[KERNEL_COMMAND_MIN];
    return tn_bytes_of(bytes, kernel_command_encode(engine_tick_command(), bytes, sizeof bytes));
}

void world_ledger_commit(struct world *w, uint64_t now_ms, struct tn_bytes bytes) {
    struct world_ledger *ledger = &w->ledger;
    struct kernel_command c;
    assert_true(kernel_command_decode(bytes, &c));
    if (c.verb == KERNEL_VERB_LIMITS &&
        memcmp(&c.limits, kernel_limits_of(ledger->kernel), sizeof c.limits) != 0) {
        assert_int_equal(kernel_limits_prepare(ledger->kernel, &c.limits), TN_OK);
    }
    ledger_remember(ledger, now_ms, bytes);
    model_skip(&ledger->model, ledger->lsn);
    struct kernel_entry entry = {
        .lsn = ledger->lsn, .now_ms = now_ms, .encoded = bytes, .command = &c};
    if (now_ms < kernel_now(ledger->kernel)) {
        world_fail(w, "the log's time goes back from %" PRIu64 " to %" PRIu64,
                   kernel_now(ledger->kernel), now_ms);
    }
    ledger->event_count = ledger->waited_count = 0;
    kernel_apply(ledger->kernel, &entry, &ledger->result);
    model_take_result(ledger->kernel, &ledger->result, &ledger->shown);
    ledger_trace(w, now_ms, bytes);
    w->counts.commands++;
    w->counts.replays += ledger->result.replayed;
    model_waited(&ledger->model, ledger->waited, ledger->waited_count);
    if (!model_run(&ledger->model, now_ms, bytes, ledger->events, ledger->event_count,
                   &ledger->shown) ||
        !model_watch(&ledger->model, ledger->kernel)) {
        world_fail(w, "the model disagrees: %s", ledger->model.why);
    }
    if (ledger->count % COMPARE_EVERY == 0) {
        world_ledger_compare(w);
    }
}

void world_ledger_compare(struct world *w) {
    char why[256] = "";
    if (!model_compare(&w->ledger.model, w->ledger.kernel)) {
        world_fail(w, "the model disagrees: %s", w->ledger.model.why);
    }
    if (w->ledger.count % CHECK_EVERY == 0 && !kernel_check(w->ledger.kernel, why, sizeof why)) {
        world_fail(w, "an invariant is broken: %s", why);
    }
}

static bool same_value(const struct kernel_value *a, const struct kernel_value *b) {
    return a->claim == b->claim && a->format == b->format && a->name_len == b->name_len &&
           (a->name_len > 0 ? memcmp(a->name, b->name, a->name_len) == 0 : a->number == b->number);
}

void world_ledger_answer(struct world *w, const struct kernel_result *got) {
    const struct kernel_result *want = &w->ledger.result;
    bool same = got->code == want->code && got->replayed == want->replayed &&
                got->lsn == want->lsn && got->now_ms == want->now_ms &&
                got->has_lease == want->has_lease && got->lease.shard == want->lease.shard &&
                got->lease.lsn == want->lease.lsn && got->epoch == want->epoch &&
                got->state == want->state && got->deadline_ms == want->deadline_ms &&
                got->retry_at_ms == want->retry_at_ms && got->number == want->number &&
                got->value_count == want->value_count;
    for (uint32_t i = 0; same && i < got->value_count; i++) {
        same = same_value(&got->values[i], &want->values[i]);
    }
    if (!same) {
        world_fail(w,
                   "the engine answered %s lsn %" PRIu64 " time %" PRIu64 " epoch %" PRIu64
                   " until %" PRIu64 ", the ledger says %s lsn %" PRIu64 " time %" PRIu64
                   " epoch %" PRIu64 " until %" PRIu64,
                   tn_result_name(got->code), got->lsn, got->now_ms, got->epoch, got->deadline_ms,
                   tn_result_name(want->code), want->lsn, want->now_ms, want->epoch,
                   want->deadline_ms);
    }
}

void world_ledger_doubt(struct world *w, uint64_t now_ms, struct tn_bytes bytes) {
    struct world_doubt *doubt = &w->ledger.doubt;
    assert_true(doubt->count < WORLD_GROUP && bytes.len <= GENERATE_BYTES);
    doubt->now_ms = now_ms;
    doubt->commands[doubt->count].len = bytes.len;
    memcpy(doubt->commands[doubt->count].bytes, bytes.at, bytes.len);
    doubt->count++;
}
