/* Jobs: commands that the engine does not serve and that take long. They run on a worker thread
 * of libuv, one at a time of each kind. The answer of a job goes into the slot that it was begun
 * with. */
#ifndef TN_SERVER_JOBS_H
#define TN_SERVER_JOBS_H

#include <uv.h>

#include "server/handler.h"
#include "token/token_key.h"

struct server_jobs {
    struct {
        uv_work_t work;
        struct server_slot *slot; /* NULL: no such job runs; the same below */
        struct log_error error;
        enum tn_status status;
    } snapshot;
    struct {
        uv_work_t work;
        struct server_slot *slot;
        struct token_keys keys;
        bool drop;
        enum tn_status status;
        char reason[TOKEN_REASON_MAX];
    } rotation;
    struct {
        uv_work_t work;
        struct server_slot *slot;
        enum tn_status (*call)(void *ctx, const char *node, struct log_error *error);
        char node[LOG_NODE_MAX + 1];
        struct log_error error;
        enum tn_status status;
    } node;
};

/* DONE: a slot at the end of the client's queue has the answer or will receive it. */
enum server_step server_job_begin(struct server_request *request);

#endif
