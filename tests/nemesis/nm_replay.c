/* See nm_replay.h.
 *
 * The model remembers few operations, since it searches them one by one; a history has thousands. So
 * they are kept here, by their ids, and the model is given the one that it would find, if any. */
#include "nemesis/nm_replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/assert.h"
#include "nemesis/nm_world.h"

struct kept {
    uint64_t until_ms;
    uint32_t len;
    uint64_t hash;
    struct kernel_result head;
    struct model_shown values[]; /* head.value_count of them */
};

struct nm_replay {
    const struct nm_history *h;
    uint64_t lsn;
    struct kernel *kernel;
    struct model model;
    struct model_event events[MODEL_EVENTS];
    uint32_t event_count;
    bool overflow; /* more events or values than the model has room for */
    struct model_result result;
    struct kernel_value values[KERNEL_BUNDLE_MAX];
    struct kept **kept; /* by operation id */
};

/* ---- The kernel's side ---- */

static enum tn_status memory_reserve(void *ctx, size_t bytes, bool big, void **ret_memory) {
    (void)ctx;
    (void)big;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    *ret_memory = memory;
    return memory == MAP_FAILED ? TN_NOMEM : TN_OK;
}

static void memory_release(void *ctx, void *memory, size_t bytes) {
    (void)ctx;
    (void)munmap(memory, bytes);
}

static void sink(void *ctx, const struct kernel *kernel, const struct kernel_event *e) {
    struct nm_replay *replay = ctx;
    if (replay->event_count == MODEL_EVENTS || e->value_count > MODEL_BUNDLE) {
        replay->overflow = true;
        return;
    }
    model_take_event(kernel, e, &replay->events[replay->event_count++]);
}

struct nm_replay *nm_replay_open(const struct nm_history *h) {
    struct nm_replay *replay = calloc(1, sizeof *replay);
    TN_ASSERT(replay != NULL);
    replay->h = h;
    replay->kept = calloc(h->op_count + 1u, sizeof(struct kept *));
    TN_ASSERT(replay->kept != NULL);
    return replay;
}

void nm_replay_close(struct nm_replay *replay) {
    for (uint32_t i = 0; i <= replay->h->op_count; i++) {
        free(replay->kept[i]);
    }
    if (replay->kernel != NULL) {
        kernel_destroy(replay->kernel);
    }
    free(replay->kept);
    free(replay);
}

/* The first record has the limits; a later one changes them. */
static bool limits_take(struct nm_replay *replay, const struct kernel_command *command) {
    if (command->verb != KERNEL_VERB_LIMITS) {
        return replay->kernel != NULL;
    }
    if (replay->kernel != NULL) {
        return kernel_limits_prepare(replay->kernel, &command->limits) == TN_OK;
    }
    struct kernel_env env = {.mem_reserve = memory_reserve,
                             .mem_release = memory_release,
                             .hash_seed = replay->h->seed,
                             .sink = sink,
                             .sink_ctx = replay};
    model_open(&replay->model, &command->limits, replay->h->shard);
    return command->limits.of[KERNEL_LIMIT_LEASES] <= MODEL_LEASES &&
           command->limits.of[KERNEL_LIMIT_HISTORY] <= MODEL_HISTORY &&
           kernel_create(&env, &command->limits, replay->h->shard, &replay->kernel) == TN_OK;
}

/* ---- Operations ---- */

static void op_give(struct nm_replay *replay, uint32_t opid, struct tn_bytes user) {
    const struct kept *kept = replay->kept[opid];
    struct model_op *op = &replay->model.ops[0];
    replay->model.op_count = 0;
    if (opid == 0 || kept == NULL) {
        return;
    }
    memset(op, 0, sizeof *op);
    op->until_ms = kept->until_ms;
    op->len = kept->len;
    op->hash = kept->hash;
    snprintf(op->id, sizeof op->id, "o%u", (unsigned)opid);
    model_text(op->user, sizeof op->user, user);
    op->result.head = kept->head;
    memcpy(op->result.values, kept->values, kept->head.value_count * sizeof kept->values[0]);
    replay->model.op_count = 1;
}

/* The model adds what it has to remember behind what it was given. */
static void op_take(struct nm_replay *replay, uint32_t opid) {
    const struct model *m = &replay->model;
    if (opid == 0 || m->op_count == 0) {
        return;
    }
    const struct model_op *op = &m->ops[m->op_count - 1];
    uint32_t count = op->result.head.value_count;
    struct kept *kept = malloc(sizeof *kept + count * sizeof kept->values[0]);
    TN_ASSERT(kept != NULL && count <= MODEL_BUNDLE);
    *kept = (struct kept){
        .until_ms = op->until_ms, .len = op->len, .hash = op->hash, .head = op->result.head};
    memcpy(kept->values, op->result.values, count * sizeof kept->values[0]);
    free(replay->kept[opid]);
    replay->kept[opid] = kept;
}

/* ---- One command ---- */

static void apply(struct nm_replay *replay, uint64_t now_ms, struct tn_bytes bytes,
                  const struct kernel_command *command) {
    struct kernel_entry entry = {
        .lsn = replay->lsn, .now_ms = now_ms, .encoded = bytes, .command = command};
    struct kernel_result head = {.values = replay->values, .value_capacity = KERNEL_BUNDLE_MAX};
    replay->event_count = 0;
    kernel_apply(replay->kernel, &entry, &head);
    replay->overflow = replay->overflow || head.value_count > MODEL_BUNDLE;
    if (!replay->overflow) {
        model_take_result(replay->kernel, &head, &replay->result);
    }
}

bool nm_replay_step(struct nm_replay *replay, char *why, size_t capacity) {
    struct kernel_command command;
    uint64_t lsn = ++replay->lsn;
    const struct nm_entry *entry = &replay->h->entries[lsn - 1];
    struct tn_bytes bytes = nm_history_bytes(replay->h, lsn);
    if (bytes.len == 0) {
        return true; /* no command has this position */
    }
    model_skip(&replay->model, lsn);
    if (!kernel_command_decode(bytes, &command) || !limits_take(replay, &command)) {
        snprintf(why, capacity, "lsn %llu of the log is no command that could be replayed",
                 (unsigned long long)lsn);
        return false;
    }
    uint32_t opid = nm_opid_parse(command.opid);
    if (opid > replay->h->op_count) {
        snprintf(why, capacity, "lsn %llu: nobody used operation id o%u", (unsigned long long)lsn,
                 (unsigned)opid);
        return false;
    }
    apply(replay, entry->now_ms, bytes, &command);
    op_give(replay, opid, command.user);
    bool agree = !replay->overflow &&
                 model_run(&replay->model, entry->now_ms, bytes, replay->events,
                           replay->event_count, &replay->result) &&
                 model_watch(&replay->model, replay->kernel);
    if (!agree) {
        snprintf(why, capacity, "lsn %llu: %s", (unsigned long long)lsn,
                 replay->overflow ? "more than the model has room for" : replay->model.why);
        return false;
    }
    op_take(replay, opid);
    return true;
}

uint64_t nm_replay_hash(const struct nm_replay *replay) {
    return replay->kernel != NULL ? kernel_hash(replay->kernel) : 0;
}

uint64_t nm_replay_lsn(const struct nm_replay *replay) {
    return replay->lsn;
}

const struct model_result *nm_replay_result(const struct nm_replay *replay) {
    return &replay->result;
}

struct model *nm_replay_model(struct nm_replay *replay) {
    return &replay->model;
}

/* Clients of a server without users are anonymous operators. */
bool nm_replay_refuses(struct nm_replay *replay, const struct nm_op *op, uint64_t now_ms,
                       struct kernel_result *ret_result) {
    uint8_t bytes[512];
    struct kernel_command command;
    uint64_t state_ms = kernel_now(replay->kernel);
    uint32_t len =
        nm_command_encode(op, KERNEL_RIGHT_OPERATOR, tn_bytes_of(NULL, 0), bytes, sizeof bytes);
    *ret_result = (struct kernel_result){.code = TN_R_OK};
    return kernel_command_decode(tn_bytes_of(bytes, len), &command) &&
           kernel_judge(replay->kernel, &command, now_ms > state_ms ? now_ms : state_ms,
                        ret_result);
}
