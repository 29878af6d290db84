/* Replays a history's log: through a kernel, and each of its answers through the model that was
 * written to be obviously right (sim/model.h). A comparison of a client's answer with the result of
 * a step is thus a comparison with the model's answer, too: kernel and model agree, or the step
 * fails. */
#ifndef TESTS_NEMESIS_NM_REPLAY_H
#define TESTS_NEMESIS_NM_REPLAY_H

#include "nemesis/nm_history.h"
#include "sim/model.h"

struct nm_replay;

struct nm_replay *nm_replay_open(const struct nm_history *h);
void nm_replay_close(struct nm_replay *replay);

/* Applies the next command. False and `why`: the kernel and the model disagree, or it is no command. */
bool nm_replay_step(struct nm_replay *replay, char *why, size_t capacity);
/* Hash of the kernel's state at that position; 0: no state yet. */
uint64_t nm_replay_hash(const struct nm_replay *replay);
uint64_t nm_replay_lsn(const struct nm_replay *replay);
/* Of the last step. */
const struct model_result *nm_replay_result(const struct nm_replay *replay);
/* What the state after the last step answers to a write that it refuses, at `now_ms` or the state's time,
 * if that is later. False: it does not surely refuse it. */
bool nm_replay_refuses(struct nm_replay *replay, const struct nm_op *op, uint64_t now_ms,
                       struct kernel_result *ret_result);
/* As it is after the last step. */
struct model *nm_replay_model(struct nm_replay *replay);

#endif
