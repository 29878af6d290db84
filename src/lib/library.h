/* Internal: shared by the files of the library, which translates between tenure.h and the engine
 * and has no lease logic. */
#ifndef TN_LIB_LIBRARY_H
#define TN_LIB_LIBRARY_H

#include <stdatomic.h>
#include <string.h>

#include "engine/engine.h"
#include "kernel/option.h"
#include "tenure.h"

#define LIB_INFLIGHT_MAX 16384u /* as many as two batches of the engine can hold */
#define LIB_NO_SLOT UINT32_MAX
#define LIB_DETAIL KERNEL_OPTION_DETAIL
#define LIB_VERBS (TENURE_VERB_UNATTEND + 1u)

/* An asynchronous command in flight. Slots are taken and returned without a lock. */
struct lib_slot {
    struct engine_request request;
    struct tenure *tenure;
    tenure_done_fn *done;
    void *ctx;
    _Atomic uint32_t next_free;
};

struct tenure {
    struct engine *engine;
    struct os os; /* the system's, with the caller's clock if there is one */
    struct tenure_options options;
    struct lib_slot *slots;
    _Alignas(64) _Atomic uint64_t free_slots; /* (a counter against ABA) << 32 | first free slot */
    _Atomic uint32_t under_way;               /* asynchronous commands that are not applied yet */
    uint32_t bundle_max;                      /* values in one answer, by the limits in force */
    struct tenure_value *values; /* KERNEL_BUNDLE_MAX, used by the thread that delivers callbacks */
};

/* A command for the engine. It borrows from the caller's command and from itself: never copy it. */
struct lib_command {
    struct kernel_command command;
    struct kernel_policy_patch patch;
    uint32_t values; /* the most values that its answer can have; UINT32_MAX: a whole bundle */
    uint8_t *heap;   /* freed later; NULL: nothing to free */
    uint8_t stack[1024];
};

/* encode.c. On failure `detail` (128 bytes) has the reason and there is nothing to free. */
enum tenure_result lib_command_build(const struct tenure_command *command,
                                     struct lib_command *built, char *detail);
static inline struct tn_bytes lib_text(const char *text) {
    return text != NULL ? tn_bytes_of(text, strlen(text)) : tn_bytes_of(NULL, 0);
}

/* results.c */
void lib_value_fill(struct tenure_value *out, const struct kernel_value *value);
/* `command` may be NULL if the result has no values. */
void lib_reply_fill(struct tenure_reply *reply, const struct kernel_result *result,
                    const struct kernel_command *command, struct tenure_value *values);
void lib_reply_reject(struct tenure_reply *reply, enum tenure_result code);

/* watch.c. `values` has room for all of them, and belongs to *out from then on. */
void lib_event_of(const struct engine_event *event, struct tenure_value *values,
                  struct tenure_event *out);

/* views.c */
void lib_metrics_of(const struct engine_metrics *metrics, struct tenure_metrics *out);

/* execute.c */
enum tn_status lib_slots_make(struct tenure *tenure);
void lib_slots_free(struct tenure *tenure);

static inline void lib_copy(char *out, size_t capacity, const char *text, size_t len) {
    if (len >= capacity) {
        len = capacity - 1;
    }
    memcpy(out, text, len);
    out[len] = '\0';
}

#endif
