/* Calling the embedding program, and being called by it.
 *
 * A thread that runs a callback of an engine must not wait for that engine: it would wait for itself.
 * Callbacks nest when one of them makes a blocking call to another engine, which then calls back on
 * the same thread; so each thread has a chain of those that it is in, on its own stack. */
#include <stdarg.h>
#include <stdio.h>

#include "base/assert.h"
#include "engine/internal.h"

/* The innermost callback that this thread is running. */
static _Thread_local struct engine_delivery *innermost;

bool engine_delivering(const struct engine *engine) {
    const struct engine_delivery *at = innermost;
    while (at != NULL && at->engine != engine) {
        at = at->outer;
    }
    return at != NULL;
}

void engine_deliver_begin(const struct engine *engine, struct engine_delivery *delivery) {
    *delivery = (struct engine_delivery){.engine = engine, .outer = innermost};
    innermost = delivery;
}

void engine_deliver_end(const struct engine_delivery *delivery) {
    TN_ASSERT(innermost == delivery);
    innermost = delivery->outer;
}

/* ---- Notices ---- */

/* Notices come from all threads of the engine and of the log, one at a time. The lock is recursive,
 * because the receiver of a notice may cause another one. */
void engine_notice_init(struct engine *engine) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&engine->notice_lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

void engine_notice_line(void *ctx, const char *line) {
    struct engine *engine = ctx;
    struct engine_delivery delivery;
    if (engine->options.notice == NULL) {
        return;
    }
    pthread_mutex_lock(&engine->notice_lock);
    engine_deliver_begin(engine, &delivery);
    engine->options.notice(engine->options.notice_ctx, line);
    engine_deliver_end(&delivery);
    pthread_mutex_unlock(&engine->notice_lock);
}

void engine_notice(struct engine *engine, const char *format, ...) {
    char line[640];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    engine_notice_line(engine, line);
}

/* ---- Cancellation ---- */

/* A thread that was cancelled while it leads would keep the lead, or a lock, forever. */
int engine_cancel_hold(void) {
    int before = PTHREAD_CANCEL_ENABLE;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

void engine_cancel_allow(int before) {
    (void)pthread_setcancelstate(before, NULL);
}
