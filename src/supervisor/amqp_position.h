/* Up to where events have been published, kept across restarts.
 *
 * In a file of its own in the data directory: three slots, each in a sector of its own, at 0, 512 and
 * 1024. Of those that are whole, the one with the largest number counts.
 *
 *     0   8   "TNAMQP1\n"
 *     8   8   number: one more with each that is written
 *     16  8   LSN of an event: it and all before it were confirmed by the broker
 *     24  4   its index there
 *     28  4   CRC32C of what stands before
 *
 * The first is written at the start and at the end, between two syncs; the others in turn as the broker
 * confirms, without any, for the log needs the disk more. A server that is killed loses nothing. A power
 * cut may spoil both of the latter; then what was confirmed since the start is published again, which
 * the ids of events tell. */
#ifndef TN_SUPERVISOR_AMQP_POSITION_H
#define TN_SUPERVISOR_AMQP_POSITION_H

#include "engine/event.h"
#include "os/os.h"

#define AMQP_POSITION_FILE "amqp.position"
#define AMQP_POSITION_PATH 4096u

struct amqp_position {
    const struct os *os;
    char dir[AMQP_POSITION_PATH];
    bool is_open;
    int file;
    uint64_t number; /* of what was written last; 0: nothing was */
    struct engine_event_id saved;
};

/* Makes the file if it is not there, but writes nothing yet. `newest` is the newest event there is; after
 * *ret_after events are to be published:
 *
 *     what was saved
 *     newest   if nothing ever was, or if there are no such events, as after a restore from a backup:
 *              what there is had been published
 *     oldest   if it is damaged, which *ret_damaged says: once too often is better than never
 *
 * Else than TN_OK: it cannot be opened or read. */
enum tn_status amqp_position_open(struct amqp_position *position, const struct os *os,
                                  const char *dir, struct engine_event_id newest,
                                  struct engine_event_id *ret_after, bool *ret_damaged);

/* Writes nothing if that was saved last. */
enum tn_status amqp_position_save(struct amqp_position *position, struct engine_event_id settled);

/* What is saved stays, whatever happens. */
enum tn_status amqp_position_anchor(struct amqp_position *position, struct engine_event_id settled);

/* Harmless if it is not open. */
void amqp_position_close(struct amqp_position *position);

#endif
