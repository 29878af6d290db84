/* The kernel against a naive one: a million random commands, every answer and every event predicted.
 *
 * TENURE_SEEDS=a..b plays those seeds; else TENURE_SEED is the first of the run, and TENURE_COMMANDS
 * says how many commands there are in all. A failure prints the seed, the number of the command and
 * what led to it. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

#include "lib/kit.h"
#include "sim/generate.h"
#include "sim/model.h"
#include "sim/seeds.h"

#define RUN_COMMANDS 4000u
#define TRACE 20u
#define LIMIT_CHANGES 4u
#define COMPARE_EVERY 16u
#define CHECK_EVERY 64u
/* A run of this many commands has at least one of each verb. */
#define EVERY_VERB 100000u

struct run {
    uint64_t seed;
    struct kit kit;
    struct model model;
    struct generate generate;
    struct model_event events[MODEL_EVENTS];
    uint32_t event_count;
    struct model_result waited[MODEL_LEASES];
    uint32_t waited_count;
    struct model_result result;
    /* For the failure's trace. */
    struct {
        uint64_t lsn, now_ms;
        char command[300];
        char result[100];
    } trace[TRACE];
    uint32_t trace_count;
};

static struct {
    uint64_t commands, events, compares, clones, limits;
    uint64_t judged[TN_R_COUNT], unjudged; /* refusals that kernel_judge foresaw, or did not */
    uint64_t verbs[KERNEL_VERB_COUNT];
    uint64_t codes[TN_R_COUNT], kinds[KERNEL_EVENT_COUNT], reasons[KERNEL_REASON_COUNT];
} total;

/* ---- the kernel's side ---- */

static enum tn_status memory_reserve(void *ctx, size_t bytes, bool big, void **ret_memory) {
    (void)ctx;
    (void)big;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return TN_NOMEM;
    }
    *ret_memory = memory;
    return TN_OK;
}

static void memory_release(void *ctx, void *memory, size_t bytes) {
    (void)ctx;
    munmap(memory, bytes);
}

static void sink(void *ctx, const struct kernel *kernel, const struct kernel_event *e) {
    struct run *run = ctx;
    assert_int_equal(e->index, run->event_count);
    assert_true(run->event_count < MODEL_EVENTS);
    model_take_event(kernel, e, &run->events[run->event_count++]);
}

static void told(void *ctx, const struct kernel *kernel, const struct kernel_result *result) {
    struct run *run = ctx;
    assert_true(run->waited_count < MODEL_LEASES);
    model_take_result(kernel, result, &run->waited[run->waited_count++]);
}

/* The kit's kernel with another sink and another hash seed, which must not show anywhere. */
static void run_open(struct run *run, uint64_t seed) {
    run->seed = seed;
    run->trace_count = 0;
    generate_open(&run->generate, seed);
    kit_open(&run->kit, &run->generate.limits);
    kernel_destroy(run->kit.kernel);
    struct kernel_env env = {.mem_reserve = memory_reserve,
                             .mem_release = memory_release,
                             .hash_seed = seed * 0x9e3779b97f4a7c15,
                             .sink = sink,
                             .sink_ctx = run,
                             .waited = told,
                             .waited_ctx = run};
    assert_int_equal(kernel_create(&env, &run->generate.limits, 0, &run->kit.kernel), TN_OK);
    run->kit.check_every = 0;
    model_open(&run->model, &run->generate.limits, 0);
}

static void run_fail(struct run *run, const char *why) {
    fprintf(stderr, "\nseed %" PRIu64 " command %" PRIu64 ": %s\n", run->seed, run->model.lsn, why);
    uint32_t first = run->trace_count > TRACE ? run->trace_count - TRACE : 0;
    for (uint32_t i = first; i < run->trace_count; i++) {
        fprintf(stderr, "  %5" PRIu64 " @%" PRIu64 " %s -> %s\n", run->trace[i % TRACE].lsn,
                run->trace[i % TRACE].now_ms, run->trace[i % TRACE].command,
                run->trace[i % TRACE].result);
    }
    fail_msg("TENURE_SEED=%" PRIu64 " repeats it", run->seed);
}

static void trace(struct run *run, struct tn_bytes bytes) {
    uint32_t at = run->trace_count++ % TRACE;
    const struct kernel_result *r = &run->kit.result;
    run->trace[at].lsn = kernel_lsn(run->kit.kernel);
    run->trace[at].now_ms = run->kit.now_ms;
    generate_describe(bytes, run->trace[at].command, sizeof run->trace[at].command);
    int n = snprintf(run->trace[at].result, sizeof run->trace[at].result, "%s%s",
                     tn_result_name(r->code), r->replayed ? " (replay)" : "");
    if (r->has_lease) {
        snprintf(run->trace[at].result + n, sizeof run->trace[at].result - (size_t)n,
                 " %" PRIu64 " epoch %" PRIu64 " %s until %" PRIu64, r->lease.lsn, r->epoch,
                 kernel_state_name(r->state), r->deadline_ms);
    }
}

/* ---- one command ---- */

static bool admitted(struct run *run, const struct kernel_command *c) {
    uint64_t chunks = 0;
    enum tn_result code = kernel_op_admit(run->kit.kernel, c, 0, 0, 0, &chunks);
    bool want = model_admits(&run->model, c);
    if (want != (code == TN_R_OK)) {
        run_fail(run, want ? "the operation was not admitted" : "the operation was admitted");
    }
    return code == TN_R_OK;
}

/* ---- judging: the refusal that is answered without the log ---- */

#define JUDGE_HASH_EVERY 256u

/* What kernel_judge says of the command; `changed` is its own mistake. */
struct verdict {
    bool refused, changed;
    struct kernel_result result;
};

static struct verdict judge(struct run *run, struct tn_bytes bytes) {
    struct verdict verdict = {0};
    struct kernel *kernel = run->kit.kernel;
    struct kernel_command c;
    bool whole = kernel_command_decode(bytes, &c);
    assert_true(whole);
    total.verbs[c.verb]++;
    bool hashes = total.commands % JUDGE_HASH_EVERY == 0;
    uint64_t hash = hashes ? kernel_hash(kernel) : 0;
    verdict.refused = kernel_judge(kernel, &c, run->kit.now_ms, &verdict.result);
    verdict.changed = hashes && kernel_hash(kernel) != hash;
    return verdict;
}

static bool same_answer(const struct kernel_result *a, const struct kernel_result *b) {
    bool same_lease = a->has_lease == b->has_lease &&
                      (!a->has_lease || (a->lease.shard == b->lease.shard &&
                                         a->lease.lsn == b->lease.lsn && a->epoch == b->epoch &&
                                         a->state == b->state && a->deadline_ms == b->deadline_ms));
    return a->code == b->code && same_lease && a->now_ms == b->now_ms &&
           a->retry_at_ms == b->retry_at_ms && a->number == b->number && a->waiting == b->waiting &&
           a->waited_ms == b->waited_ms && a->replayed == b->replayed &&
           a->value_count == b->value_count;
}

/* The command has been applied. */
static void judge_check(struct run *run, const struct verdict *verdict, uint64_t lsn,
                        struct tn_bytes bytes) {
    const struct kernel_result *result = &run->kit.result;
    struct kernel_command c;
    if (verdict->changed) {
        run_fail(run, "judging the command changed the state");
    }
    if (verdict->refused && verdict->result.code <= TN_R_NOOP) {
        run_fail(run, "judged to be refused, and not a refusal");
    }
    if (verdict->refused &&
        (!same_answer(&verdict->result, result) || verdict->result.lsn != lsn)) {
        fprintf(stderr, "judged: %s\n", tn_result_name(verdict->result.code));
        run_fail(run, "the command was judged otherwise than it is answered");
    }
    total.judged[verdict->result.code] += verdict->refused;
    total.unjudged += !verdict->refused && result->code > TN_R_NOOP &&
                      result->code != TN_R_WAITING && kernel_command_decode(bytes, &c) &&
                      kernel_judged(&c);
}

static void run_command(struct run *run, struct tn_bytes bytes) {
    run->event_count = run->waited_count = 0;
    run->kit.now_ms = run->generate.now_ms;
    uint64_t lsn = kernel_lsn(run->kit.kernel);
    struct verdict verdict = judge(run, bytes);
    kit_run_bytes(&run->kit, bytes);
    model_take_result(run->kit.kernel, &run->kit.result, &run->result);
    trace(run, bytes);
    judge_check(run, &verdict, lsn, bytes);
    total.commands++;
    total.events += run->event_count;
    for (uint32_t i = 0; i < run->event_count; i++) {
        total.kinds[run->events[i].kind]++;
        total.reasons[run->events[i].reason]++;
    }
    total.codes[run->kit.result.code]++;
    model_waited(&run->model, run->waited, run->waited_count);
    if (!model_run(&run->model, run->kit.now_ms, bytes, run->events, run->event_count,
                   &run->result) ||
        !model_watch(&run->model, run->kit.kernel)) {
        run_fail(run, run->model.why);
    }
    generate_learn(&run->generate, bytes, &run->result);
}

static bool quiet(const struct run *run) {
    return model_quiet(&run->model) && model_draining(&run->model) == 0;
}

static bool asks_for_tick(const struct run *run) {
    return kernel_next_due(run->kit.kernel) <= run->kit.now_ms;
}

/* Ticks until all that was due is done; each must make headway. */
static void run_settle(struct run *run) {
    struct kernel_command tick = kit_command(KERNEL_VERB_TICK);
    run->kit.now_ms = run->generate.now_ms;
    uint8_t bytes[64];
    uint32_t len = kernel_command_encode(&tick, bytes, sizeof bytes);
    for (uint32_t i = 0; i < 1000 && (!quiet(run) || asks_for_tick(run)); i++) {
        if (!asks_for_tick(run)) {
            run_fail(run, "something is due, but the kernel would sleep");
        }
        run_command(run, tn_bytes_of(bytes, len));
    }
    if (!quiet(run)) {
        run_fail(run, "a thousand ticks did not settle what is due");
    }
    if (asks_for_tick(run)) {
        run_fail(run, "nothing is due, but the kernel asks for ticks");
    }
}

static void run_one(struct run *run) {
    struct tn_bytes bytes = generate_next(&run->generate, &run->model);
    struct kernel_command c;
    if (!kernel_command_decode(bytes, &c)) {
        return; /* only what can be decoded is ever logged */
    }
    if (admitted(run, &c)) {
        for (unsigned stage = 0; stage < KERNEL_PREFETCH_STAGES; stage++) {
            kernel_prefetch(run->kit.kernel, &c, kernel_lsn(run->kit.kernel) + 1, stage);
        }
        run_command(run, bytes);
    }
    uint64_t lsn = kernel_lsn(run->kit.kernel);
    bool drains = model_draining(&run->model) > 0 && !run->generate.slow_drain;
    if (lsn % 200 == 0 || drains) {
        run_settle(run);
    }
    if (lsn % COMPARE_EVERY == 0) {
        total.compares++;
        if (!model_compare(&run->model, run->kit.kernel)) {
            run_fail(run, run->model.why);
        }
    }
    if (lsn % CHECK_EVERY == 0) {
        char why[256] = "";
        if (!kernel_check(run->kit.kernel, why, sizeof why)) {
            run_fail(run, why);
        }
    }
}

/* ---- the same again ---- */

static void same_hash(struct run *run, uint64_t hash, const char *what) {
    if (kernel_hash(run->kit.kernel) != hash) {
        run_fail(run, what);
    }
}

static void same_state(struct run *run, const struct kit *other, const char *what) {
    same_hash(run, kernel_hash(other->kernel), what);
}

/* Replays the whole log; in the middle, copies the kernel by its image, and the copy must end in
 * the same state. */
static void run_replay(struct run *run, uint32_t cut) {
    struct kit again;
    struct kit copy;
    kit_open(&again, &run->generate.limits);
    again.check_every = 0;
    kit_replay(&run->kit, &again, 0, cut);
    kit_clone(&again, &copy);
    copy.check_every = 0;
    kit_check(&copy);
    kit_replay(&run->kit, &again, cut, run->kit.entry_count);
    kit_replay(&run->kit, &copy, cut, run->kit.entry_count);
    same_state(run, &again, "the replay ends in another state");
    same_state(run, &copy, "image and rest of the log end in another state");
    if (again.event_hash != copy.event_hash) {
        run_fail(run, "image and rest of the log tell other events");
    }
    kit_check(&copy);
    kit_close(&again);
    kit_close(&copy);
    total.clones++;
}

/* An image that is saved piece by piece while commands continue: it must show the moment at which
 * it began. */
struct photo {
    struct kit kit;
    struct tn_table_header headers[KERNEL_TABLES_MAX];
    bool good;
};

static void photo_chunk(void *ctx, const struct tn_table_chunk *chunk) {
    struct photo *photo = ctx;
    size_t len = (size_t)chunk->count * photo->headers[chunk->table_id].record_bytes;
    photo->good = photo->good && kernel_load_chunk(photo->kit.kernel, chunk, len);
}

static void run_photo(struct run *run, uint32_t cut, size_t bytes_each) {
    struct kit again;
    struct photo photo = {.good = true};
    kit_open(&again, &run->generate.limits);
    kit_open(&photo.kit, &run->generate.limits);
    again.check_every = photo.kit.check_every = 0;
    kit_replay(&run->kit, &again, 0, cut);
    uint32_t count;
    kernel_image_begin(again.kernel, photo_chunk, &photo, photo.headers, &count);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(kernel_load_header(photo.kit.kernel, &photo.headers[i]));
    }
    uint32_t at = cut;
    while (kernel_image_step(again.kernel, bytes_each)) {
        if (at < run->kit.entry_count) {
            kit_replay(&run->kit, &again, at, at + 1);
            at++;
        }
    }
    assert_true(photo.good && kernel_load_end(photo.kit.kernel));
    kit_check(&photo.kit);
    kit_replay(&run->kit, &photo.kit, cut, run->kit.entry_count);
    same_state(run, &photo.kit, "an image taken on the way ends in another state");
    kit_close(&again);
    kit_close(&photo.kit);
}

/* Other limits, if the state fits them; else nothing may have happened. A copy must come through it
 * in the same way. */
static void run_limits(struct run *run) {
    struct kernel_limits limits = generate_other_limits(&run->generate, &run->model.limits);
    uint64_t hash = kernel_hash(run->kit.kernel);
    struct kit copy;
    run->kit.limits = *kernel_limits_of(run->kit.kernel);
    kit_clone(&run->kit, &copy);
    copy.check_every = 0;
    enum tn_status status = kernel_limits_prepare(run->kit.kernel, &limits);
    assert_int_equal(kernel_limits_prepare(copy.kernel, &limits), status);
    if (status == TN_OK) {
        uint8_t bytes[512];
        struct kernel_command c = kit_command(KERNEL_VERB_LIMITS);
        c.limits = limits;
        uint32_t len = kernel_command_encode(&c, bytes, sizeof bytes);
        run_command(run, tn_bytes_of(bytes, len));
        copy.now_ms = run->kit.now_ms;
        kit_run_bytes(&copy, tn_bytes_of(bytes, len));
        same_state(run, &copy, "a copy came through a change of limits in another way");
        total.limits++;
    } else {
        assert_int_equal(status, TN_INVALID);
        same_hash(run, hash, "limits that do not fit changed the state");
    }
    kit_close(&copy);
}

static void run_seed(struct run *run, uint64_t seed, uint64_t commands) {
    run_open(run, seed);
    while (kernel_lsn(run->kit.kernel) < commands) {
        run_one(run);
    }
    struct tn_prng random;
    tn_prng_seed(&random, ~seed);
    run_replay(run, (uint32_t)tn_prng_below(&random, run->kit.entry_count));
    run_photo(run, (uint32_t)tn_prng_below(&random, run->kit.entry_count),
              1 + tn_prng_below(&random, 600));
    for (uint32_t i = 0; i < LIMIT_CHANGES; i++) {
        run_limits(run);
        for (uint32_t n = 0; n < commands / 20; n++) {
            run_one(run);
        }
    }
    kit_close(&run->kit);
}

/* Prints how often each thing happened, which shows whether the generator still reaches
 * everything. */
static void tell_totals(void) {
    fprintf(stderr, "  judged:");
    for (uint32_t i = 0; i < TN_R_COUNT; i++) {
        if (total.judged[i] > 0) {
            fprintf(stderr, "  %s %" PRIu64, tn_result_name((enum tn_result)i), total.judged[i]);
        }
    }
    fprintf(stderr, "; not foreseen %" PRIu64 "\n", total.unjudged);
    for (uint32_t i = 0; i < TN_R_COUNT; i++) {
        if (total.codes[i] > 0) {
            fprintf(stderr, "  %s %" PRIu64, tn_result_name((enum tn_result)i), total.codes[i]);
        }
    }
    fprintf(stderr, "\n");
    for (uint32_t i = 0; i < KERNEL_EVENT_COUNT; i++) {
        fprintf(stderr, "  %s %" PRIu64, kernel_event_name((enum kernel_event_kind)i),
                total.kinds[i]);
    }
    fprintf(stderr, "\n");
    for (uint32_t i = 1; i < KERNEL_REASON_COUNT; i++) {
        fprintf(stderr, "  %s %" PRIu64, kernel_reason_name((enum kernel_reason)i),
                total.reasons[i]);
    }
    fprintf(stderr, "\n");
}

static void kernel_agrees_with_the_model(void **state) {
    (void)state;
    struct run *run = malloc(sizeof *run);
    assert_non_null(run);
    struct seeds seeds = seeds_given(20250101);
    uint64_t commands = seeds_number("TENURE_COMMANDS", 1000000);
    clock_t start = clock();
    uint64_t seed = seeds.first;
    while (seeds.last != 0 ? seed <= seeds.last && !seeds_time_is_up(&seeds)
                           : total.commands < commands) {
        uint64_t left = commands - total.commands;
        bool whole = seeds.last != 0 || left > RUN_COMMANDS;
        run_seed(run, seed++, whole ? RUN_COMMANDS : left);
    }
    free(run);
    fprintf(stderr,
            "seeds %" PRIu64 "..%" PRIu64 ": %" PRIu64 " commands, %" PRIu64 " events, %" PRIu64
            " comparisons, %" PRIu64 " replays, %" PRIu64 " changes of limits, %.1f s\n",
            seeds.first, seed - 1, total.commands, total.events, total.compares, total.clones,
            total.limits, (double)(clock() - start) / CLOCKS_PER_SEC);
    tell_totals();
    for (uint32_t i = 0; i < KERNEL_VERB_COUNT && total.commands >= EVERY_VERB; i++) {
        if (total.verbs[i] == 0) {
            fail_msg("the generator made no command `%s`", kernel_verb_rows[i].name);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(kernel_agrees_with_the_model)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
