/* libtenure in this process. One client calls and waits; many submit, and their answers come from threads
 * of the library. */
#include "peer.h"

#include <pthread.h>
#include <tenure.h>

#include "../bench.h"
#include "process.h"

static struct tenure *tenure;

/* ---- The library ---- */

void peer_library_start(void) {
    char path[512];
    struct tenure_options options;
    struct tenure_error error;
    static const struct tenure_limit limits[] = {{"leases_max", 2097152}, {"members_max", 2097152}};
    static const struct tenure_option sticky[] = {
        {"lo", "0"}, {"hi", "65535"}, {"lease", "3600"}, {"sticky", "yes"}};
    process_path("library", path, sizeof path);
    tenure_options_init(&options, path);
    options.limits = limits;
    options.limit_count = 2;
    options.no_snapshot_on_close = true;
    if (tenure_open(&options, &tenure, &error) != TENURE_STATUS_OK) {
        peer_die("libtenure", error.text);
    }
    if (tenure_pool_create(tenure, "sticky", sticky, 4, NULL, NULL) != TENURE_OK) {
        peer_die("libtenure", "no pool");
    }
}

void peer_library_stop(void) {
    if (tenure_close(tenure) != TENURE_STATUS_OK) {
        peer_die("libtenure", "cannot be closed");
    }
}

static void on_kept(void *ctx, const struct tenure_reply *reply) {
    (void)ctx;
    if (reply->code != TENURE_OK) {
        peer_die("libtenure", tenure_result_name(reply->code));
    }
}

void peer_library_fill(enum peer_pool pool) {
    const struct work_pool *p = &peer_pools[pool];
    char hi[16], holder[24];
    snprintf(hi, sizeof hi, "%u", p->values - 1);
    struct tenure_option options[] = {{"lo", "0"}, {"hi", hi}, {"lease", "3600"}};
    if (tenure_pool_create(tenure, p->name, options, 3, NULL, NULL) != TENURE_OK) {
        peer_die("libtenure", "no pool");
    }
    struct tenure_claim claim = {.pool = p->name, .count = 1};
    struct tenure_command command = {.verb = TENURE_VERB_ALLOC, .claims = &claim, .claim_count = 1};
    for (uint32_t i = 0; i < work_pool_held_count(p);) {
        snprintf(holder, sizeof holder, "other/%u", i % 1000);
        command.holder = holder;
        enum tenure_result code = tenure_submit(tenure, &command, on_kept, NULL);
        if (code == TENURE_OVERLOADED) {
            (void)tenure_tick(tenure); /* waits behind them */
        } else if (code == TENURE_OK) {
            i++;
        } else {
            peer_die("libtenure", tenure_result_name(code));
        }
    }
    (void)tenure_tick(tenure);
}

/* ---- Callers ---- */

struct callers {
    pthread_mutex_t lock;
    pthread_cond_t answered;
    uint32_t count; /* number of lanes with answers, under the lock */
    struct peer_lane *lanes[64];
    struct peer_lane *waiting; /* the only caller, which has a step to do */
};

struct step {
    struct tenure_claim claims[WORK_BUNDLE_POOLS];
    struct tenure_command command;
};

static void step_make(struct peer_lane *lane, struct step *step) {
    static const char *const parts[WORK_BUNDLE_POOLS] = {"part-0", "part-1", "part-2"};
    const struct peer_case *work = &lane->session->work;
    bool bundle = work->work == WORK_BUNDLE;
    *step = (struct step){.command = {.holder = lane->holder}};
    if (lane->step == 1) {
        step->command.verb = work->work == WORK_RENEW ? TENURE_VERB_TOUCH : TENURE_VERB_RELEASE;
        step->command.holder = work->work == WORK_RENEW ? NULL : lane->holder;
        step->command.lease = (struct tenure_lease_id){.lsn = lane->value};
        step->command.epoch = lane->token;
        return;
    }
    for (unsigned i = 0; i < WORK_BUNDLE_POOLS; i++) {
        step->claims[i] = (struct tenure_claim){.pool = parts[i], .count = work_bundle_counts[i]};
    }
    if (!bundle) {
        step->claims[0] = (struct tenure_claim){
            .pool = work->work == WORK_STICKY ? "sticky" : peer_pools[work->pool].name, .count = 1};
    }
    step->command.verb = TENURE_VERB_ALLOC;
    step->command.claims = step->claims;
    step->command.claim_count = bundle ? WORK_BUNDLE_POOLS : 1;
}

static void take(struct peer_lane *lane, const struct tenure_reply *reply) {
    if (reply->code != TENURE_OK) {
        peer_die("libtenure", tenure_result_name(reply->code));
    }
    if (lane->step == 0) {
        lane->value = reply->lease.lsn;
        lane->token = reply->epoch;
    }
}

static void on_answer(void *ctx, const struct tenure_reply *reply) {
    struct peer_lane *lane = ctx;
    struct callers *callers = lane->session->ctx;
    take(lane, reply);
    pthread_mutex_lock(&callers->lock);
    callers->lanes[callers->count++] = lane;
    pthread_cond_signal(&callers->answered);
    pthread_mutex_unlock(&callers->lock);
}

static void submit(void *ctx, struct peer_lane *lane) {
    struct callers *callers = ctx;
    struct step step;
    if (lane->session->lane_count == 1) {
        callers->waiting = lane;
        return;
    }
    step_make(lane, &step);
    enum tenure_result code = tenure_submit(tenure, &step.command, on_answer, lane);
    if (code != TENURE_OK) {
        peer_die("libtenure", tenure_result_name(code));
    }
}

static void call_and_wait(struct peer_lane *lane) {
    struct tenure_reply reply = {0};
    struct step step;
    step_make(lane, &step);
    (void)tenure_execute(tenure, &step.command, &reply);
    take(lane, &reply);
    tenure_reply_free(&reply);
    peer_answered(lane, PEER_DONE);
}

static void poll_answers(void *ctx) {
    struct callers *callers = ctx;
    struct peer_lane *lanes[64];
    if (callers->waiting != NULL) {
        struct peer_lane *lane = callers->waiting;
        callers->waiting = NULL;
        call_and_wait(lane);
        return;
    }
    pthread_mutex_lock(&callers->lock);
    while (callers->count == 0) {
        pthread_cond_wait(&callers->answered, &callers->lock);
    }
    uint32_t count = callers->count;
    memcpy(lanes, callers->lanes, count * sizeof(struct peer_lane *));
    callers->count = 0;
    pthread_mutex_unlock(&callers->lock);
    for (uint32_t i = 0; i < count; i++) {
        peer_answered(lanes[i], PEER_DONE);
    }
}

static void close_callers(void *ctx) {
    struct callers *callers = ctx;
    pthread_mutex_destroy(&callers->lock);
    pthread_cond_destroy(&callers->answered);
    free(callers);
}

struct side peer_library_open(const struct peer_case *c, uint64_t *grants) {
    static const struct peer_verbs verbs = {submit, poll_answers, close_callers};
    struct callers *callers = peer_memory(1, sizeof *callers);
    pthread_mutex_init(&callers->lock, NULL);
    pthread_cond_init(&callers->answered, NULL);
    return peer_side(peer_session_make(&verbs, callers, c, grants));
}
