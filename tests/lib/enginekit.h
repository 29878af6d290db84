/* What tests of the engine share: commands as bytes, answers with room for values, directories. */
#ifndef TESTS_LIB_ENGINEKIT_H
#define TESTS_LIB_ENGINEKIT_H

#include "engine/engine.h"
#include "engine/read.h"

#define KIT_VALUES 300u

struct kit_command {
    uint8_t at[8192];
    struct tn_bytes bytes;
};

struct kit_answer {
    struct kernel_result result;
    struct kernel_value values[KIT_VALUES];
};

/* Small tables, so that many engines can be opened quickly. */
void kit_limits_small(struct engine_options *options);

/* Commands. `opid` may be NULL. All have operator rights. */
const struct kit_command *kit_pool(struct kit_command *out, const char *name, uint64_t lo,
                                   uint64_t hi, uint64_t lease_s);
const struct kit_command *kit_pool_sticky(struct kit_command *out, const char *name, uint64_t lo,
                                          uint64_t hi, uint64_t lease_s);
const struct kit_command *kit_alloc(struct kit_command *out, const char *name, const char *holder,
                                    uint32_t count, const char *opid);
/* With `meta_len` bytes of metadata. */
const struct kit_command *kit_alloc_large(struct kit_command *out, const char *name,
                                          const char *holder, uint32_t count, const char *opid,
                                          uint32_t meta_len);
const struct kit_command *kit_release(struct kit_command *out, const struct kernel_result *lease,
                                      const char *holder);
const struct kit_command *kit_touch(struct kit_command *out, const struct kernel_result *lease,
                                    const char *meta);

/* Executes, and gives the answer room for values. */
enum tn_result kit_run(struct engine *engine, const struct kit_command *command,
                       struct kit_answer *answer);
/* The same, and the answer must be OK. */
void kit_run_ok(struct engine *engine, const struct kit_command *command,
                struct kit_answer *answer);

uint64_t kit_hash(struct engine *engine);
/* Every invariant of the kernel holds. */
void kit_check(struct engine *engine);

/* A directory of its own under TMPDIR, removed with everything in it by kit_dir_remove. */
void kit_dir_make(char out[128]);
void kit_dir_remove(const char *dir);

/* Opens; fails the test with the error if it cannot. */
struct engine *kit_open(const struct engine_options *options);

/* Waits until `met` says yes; the test's own time limit ends it otherwise. */
void kit_wait(bool (*met)(void *ctx), void *ctx);

#endif
