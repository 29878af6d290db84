/* An event as bytes: one encoding for the buffer it waits in, for memory, for the files, all read in
 * place.
 *
 *   u32 size      of the whole record
 *   u32 index     with lsn: the event's id
 *   u64 lsn
 *   u64 now_ms
 *   u8  kind      RECORD_LOST: no event, but one that there was no memory for
 *   u8  reason
 *   u16 present   a bit for each of the following, in this order
 *   u32 values    how many
 *   u64           lease shard, lease lsn, epoch, deadline_ms, number: those that are present
 *   run           holder, previous, user, name, trigger: those that are present
 *   long run      payload, if it is present: a run whose length has two bytes
 *   run           actor, if it is present
 *   long run      note, if it is present: the REASON that the actor gave
 *   values, each:
 *     u8  tag     RECORD_FORMAT_MASK, RECORD_NAMED, RECORD_POOL, RECORD_POOL_NAME
 *     run pool    with RECORD_POOL; with RECORD_POOL_NAME it is the event's name, else the pool of
 *                 the value before
 *     run name    with RECORD_NAMED; else
 *     u64 number
 *
 * A run is a length of one byte, the bytes and a NUL. Absent fields are zero or empty. A record with
 * a kind or a field that is not known here was written by a newer version; it is passed over. */
#ifndef TN_ENGINE_RECORD_H
#define TN_ENGINE_RECORD_H

#include "engine/engine.h"

#define RECORD_HEAD 32u
#define RECORD_LOST 0xffu

#define RECORD_FORMAT_MASK 0x03u
#define RECORD_NAMED 0x04u
#define RECORD_POOL 0x08u
#define RECORD_POOL_NAME 0x10u

/* At least what engine_record_write will write. */
size_t engine_record_size_max(const struct kernel_event *fact);
size_t engine_record_write(uint8_t *out, const struct kernel *kernel,
                           const struct kernel_event *fact);
/* A record of RECORD_HEAD bytes that says that this event is lost. */
void engine_record_write_lost(uint8_t *out, struct engine_event_id id);

static inline uint32_t engine_record_size(const uint8_t *record) {
    return tn_load32(record);
}

static inline struct engine_event_id engine_record_id(const uint8_t *record) {
    return (struct engine_event_id){.lsn = tn_load64(record + 8), .index = tn_load32(record + 4)};
}

static inline bool engine_record_is_lost(const uint8_t *record) {
    return record[24] == RECORD_LOST;
}

static inline uint32_t engine_record_values(const uint8_t *record) {
    return tn_load32(record + 28);
}

/* The record that `bytes` begins with; empty if that is none, or cut short. */
struct tn_bytes engine_record_first(struct tn_bytes bytes);

/* What a record says; `values` has room for as many as engine_record_values says. The event refers
 * to both. False: it is damaged. */
bool engine_record_read(struct tn_bytes record, struct engine_event_value *values,
                        struct engine_event *ret_event);

#endif
