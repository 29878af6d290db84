/* A place in the stream of events, and whether this log has it. */
#ifndef TN_BROKER_BROKER_PLACE_H
#define TN_BROKER_BROKER_PLACE_H

#include "engine/events.h"

/* A place between events: after this event and all earlier ones. */
struct broker_place {
    struct engine_event_id id;
    /* The time of that event; 0: there is no such event, as before the first one. */
    uint64_t time_ms;
};

/* The place after the newest event; the place before the oldest retained event. A reader that starts there
 * learns of events that are dropped before it has read them. TN_NOMEM; TN_NOTFOUND if no events are
 * retained at all. */
enum tn_status broker_place_newest(struct engine *engine, struct broker_place *ret_place);
enum tn_status broker_place_oldest(struct engine *engine, struct broker_place *ret_place);

/* Whether it is a place in this log: not after its end, and the event there, if it is still kept, of
 * that time. Else the log was put back to an earlier state, or is another one. (If the event is no
 * longer kept, a client that reads on from there is told that some are missing.) */
enum tn_status broker_place_known(struct engine *engine, struct broker_place place,
                                  bool *ret_known);

#endif
