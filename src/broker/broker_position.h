/* The position up to which events have been published, kept across restarts.
 *
 * In a file of its own in the data directory: three slots, each in a sector of its own, at 0, 512 and
 * 1024. Of those that are whole, the one with the largest number counts.
 *
 *     0   8   "TNAMQP1\n"
 *     8   8   number: one more with each that is written
 *     16  8   LSN of an event: it and all before it were confirmed by the broker
 *     24  4   its index there
 *     28  8   its time, which distinguishes this log from another one; 0: there was none
 *     36  4   CRC32C of the bytes before
 *
 * At the start and at the end of a server a new file takes the place of the old one, when its first
 * slot is durable; the other slots are written in turn as the broker confirms, without a sync, because
 * the log needs the disk more. So a file without a whole slot is damaged, and where there is none, nothing
 * was ever published. A server that is killed loses nothing. A power cut may spoil the slots that were
 * not synced; then events confirmed since the start are published again, with the same ids. */
#ifndef TN_BROKER_BROKER_POSITION_H
#define TN_BROKER_BROKER_POSITION_H

#include "broker/broker_place.h"
#include "os/os.h"

#define BROKER_POSITION_FILE "amqp.position"
#define BROKER_POSITION_PATH 4096u

struct broker_position {
    const struct os *os;
    char dir[BROKER_POSITION_PATH];
    bool is_open;
    int file;
    uint64_t number; /* of the last slot written; 0: none */
    struct broker_place saved;
};

/* OK: *ret_after is the saved position. NOTFOUND: there is no file; broker_position_anchor creates
 * it. CORRUPT: no slot is valid. Otherwise it cannot be opened or read. */
enum tn_status broker_position_open(struct broker_position *position, const struct os *os,
                                    const char *dir, struct broker_place *ret_after);

/* OK: this position is durable. On failure, either the earlier position or this one is. */
enum tn_status broker_position_anchor(struct broker_position *position,
                                      struct broker_place confirmed);

/* Called after an anchor, or with an existing file. Writes nothing if the position has not
 * changed. */
enum tn_status broker_position_save(struct broker_position *position,
                                    struct broker_place confirmed);

/* Allowed if it is not open. */
void broker_position_close(struct broker_position *position);

#endif
