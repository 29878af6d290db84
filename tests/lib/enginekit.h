/* Helpers for tests of the engine: commands, answers with room for values, directories. */
#ifndef TESTS_LIB_ENGINEKIT_H
#define TESTS_LIB_ENGINEKIT_H

#include "engine/engine.h"
#include "engine/read.h"
#include "log/local.h"

#define EKIT_VALUES 300u

/* A command that owns its bytes. Must not be copied. */
struct ekit_command {
    uint8_t at[8192];
    struct kernel_command decoded; /* borrows from `at` */
};

struct ekit_answer {
    struct kernel_result result;
    struct kernel_value values[EKIT_VALUES];
};

/* Small tables, so that many engines can be opened quickly. */
void ekit_limits_small(struct engine_options *options);

/* Copies a command together with all bytes that it borrows. */
void ekit_command_copy(struct ekit_command *out, const struct kernel_command *command);

/* Commands. `opid` may be NULL. All have operator rights. */
const struct ekit_command *ekit_pool(struct ekit_command *out, const char *name, uint64_t lo,
                                     uint64_t hi, uint64_t lease_s);
const struct ekit_command *ekit_pool_sticky(struct ekit_command *out, const char *name, uint64_t lo,
                                            uint64_t hi, uint64_t lease_s);
const struct ekit_command *ekit_alloc(struct ekit_command *out, const char *name,
                                      const char *holder, uint32_t count, const char *opid);
/* An allocation with `meta_len` bytes of metadata. */
const struct ekit_command *ekit_alloc_large(struct ekit_command *out, const char *name,
                                            const char *holder, uint32_t count, const char *opid,
                                            uint32_t meta_len);
const struct ekit_command *ekit_release(struct ekit_command *out, const struct kernel_result *lease,
                                        const char *holder);
const struct ekit_command *ekit_touch(struct ekit_command *out, const struct kernel_result *lease,
                                      const char *meta);

/* Executes a command; the answer has room for values. */
enum tn_result ekit_run(struct engine *engine, const struct ekit_command *command,
                        struct ekit_answer *answer);
/* As ekit_run; the answer must be OK. */
void ekit_run_ok(struct engine *engine, const struct ekit_command *command,
                 struct ekit_answer *answer);

uint64_t ekit_hash(struct engine *engine);
/* Digest of an event without its id. */
uint64_t ekit_event_digest(const struct engine_event *event);
/* Checks every invariant of the kernel. */
void ekit_check(struct engine *engine);

/* Makes a new directory under TMPDIR; ekit_dir_remove removes it with everything in it. */
void ekit_dir_make(char out[128]);
void ekit_dir_remove(const char *dir);

/* Opens and leads. */
enum tn_status ekit_try(const struct engine_options *options, struct engine **ret_engine,
                        struct log_error *error);
/* As ekit_try; a failure fails the test with the error. */
struct engine *ekit_open(const struct engine_options *options);
/* As ekit_open, over a log in a directory. The log's os, and whether it has a thread, follow the
 * options; events, if they are kept, are kept next to the log. */
struct engine *ekit_open_local(const struct engine_options *options,
                               const struct log_local_options *local);
enum tn_status ekit_try_local(const struct engine_options *options,
                              const struct log_local_options *local, struct engine **ret_engine,
                              struct log_error *error);

/* Waits until `met` returns true; fails the test if that takes longer than EKIT_PATIENCE_MS. */
#define EKIT_PATIENCE_MS 20000u
void ekit_wait(bool (*met)(void *ctx), void *ctx);

#endif
