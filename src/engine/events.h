/* Reading past events: the newest ones, in memory and on disk, in order.
 *
 * The engine keeps at least the last `events_max` of them (engine.h). An event becomes readable after
 * its command is committed and before that command is answered. The next start regenerates from the
 * log the events that a crash took, with the same ids and contents. Where events are missing (dropped
 * for their age, or lost to a disk error), a reader that comes from before the gap learns of it. */
#ifndef TN_ENGINE_EVENTS_H
#define TN_ENGINE_EVENTS_H

#include "engine/engine.h"

static inline int engine_event_id_compare(struct engine_event_id a, struct engine_event_id b) {
    if (a.lsn != b.lsn) {
        return a.lsn < b.lsn ? -1 : 1;
    }
    return a.index < b.index ? -1 : a.index > b.index;
}

/* False: stop here; this event is not consumed. The event is valid during the call. No lock is held,
 * but it runs inside engine_events_read: it must not wait for anything. `replayed` is false. */
typedef bool engine_event_visit(void *ctx, const struct engine_event *event);

struct engine_events_span {
    /* The oldest retained event when the first one was found; or now; lsn 0: none. */
    struct engine_event_id oldest;
    struct engine_event_id newest; /* the newest retained event; lsn 0: none */
    struct engine_event_id next; /* the last event visited, otherwise `after`: continue after it */
    /* Events between `after` and the first one visited are missing; set before the first visit. */
    bool lost;
    bool more; /* there are events later than `next` */
};

#define ENGINE_EVENTS_OLDEST ((struct engine_event_id){0, 0})
#define ENGINE_EVENTS_NEWEST ((struct engine_event_id){UINT64_MAX, UINT32_MAX})

/* Events after `after`, oldest first, at most `max` of them: fewer only at the end or where some are
 * missing, so that a call never steps over a hole. ENGINE_EVENTS_OLDEST begins with the oldest kept,
 * and nothing is lost then; ENGINE_EVENTS_NEWEST (or any id of LSN UINT64_MAX) visits none and sets
 * `next` to the newest, to follow from there. Never waits for a write or a sync; old ones are read from their files.
 *
 * OK; OVERLOADED if there is no memory (what was visited counts, in `next`); NOTFOUND if the engine
 * keeps no events. */
enum tn_result engine_events_read(struct engine *engine, struct engine_event_id after, uint32_t max,
                                  engine_event_visit *visit, void *ctx,
                                  struct engine_events_span *ret_span);

/* Requests one call of events_ready (engine.h) when there is an event later than `after`. False:
 * there is one already, and no call will come. */
bool engine_events_arm(struct engine *engine, struct engine_event_id after);

#endif
