/* What amqp_position.h promises. */
#include "supervisor/amqp_position.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/hash.h"

#define SLOT_APART 512u
#define SLOT_COUNT 3u
#define SLOT_BYTES 32u
#define CRC_AT 28u

static const char magic[8] = {'T', 'N', 'A', 'M', 'Q', 'P', '1', '\n'};

struct slot {
    uint64_t number;
    struct engine_event_id id;
};

static bool slot_decode(const uint8_t bytes[SLOT_BYTES], struct slot *ret_slot) {
    if (memcmp(bytes, magic, sizeof magic) != 0 ||
        tn_load32(bytes + CRC_AT) != tn_crc32c(0, bytes, CRC_AT)) {
        return false;
    }
    ret_slot->number = tn_load64(bytes + 8);
    ret_slot->id.lsn = tn_load64(bytes + 16);
    ret_slot->id.index = tn_load32(bytes + 24);
    return true;
}

/* NOTFOUND: nothing was ever written; CORRUPT: no slot is whole. */
static enum tn_status slots_read(struct amqp_position *position) {
    const struct os *os = position->os;
    bool any = false;
    for (uint32_t i = 0; i < SLOT_COUNT; i++) {
        uint8_t bytes[SLOT_BYTES];
        struct slot slot;
        size_t len = 0;
        enum tn_status status = os->read_at(os->ctx, position->file, bytes, sizeof bytes,
                                            (uint64_t)i * SLOT_APART, &len);
        if (status != TN_OK) {
            return status;
        }
        any = any || len > 0;
        if (len == SLOT_BYTES && slot_decode(bytes, &slot) && slot.number > position->number) {
            position->number = slot.number;
            position->saved = slot.id;
        }
    }
    if (position->number > 0) {
        return TN_OK;
    }
    return any ? TN_CORRUPT : TN_NOTFOUND;
}

static enum tn_status file_open(struct amqp_position *position, const char *dir) {
    const struct os *os = position->os;
    char path[AMQP_POSITION_PATH + sizeof AMQP_POSITION_FILE];
    if (snprintf(position->dir, sizeof position->dir, "%s", dir) >= (int)sizeof position->dir) {
        return TN_INVALID;
    }
    (void)snprintf(path, sizeof path, "%s/%s", dir, AMQP_POSITION_FILE);
    enum tn_status status = os->open(os->ctx, path, OS_WRITE | OS_CREATE, &position->file);
    position->is_open = status == TN_OK;
    return status;
}

enum tn_status amqp_position_open(struct amqp_position *position, const struct os *os,
                                  const char *dir, struct engine_event_id newest,
                                  struct engine_event_id *ret_after, bool *ret_damaged) {
    memset(position, 0, sizeof *position);
    position->os = os;
    enum tn_status status = file_open(position, dir);
    if (status == TN_OK) {
        status = slots_read(position);
    }
    if (status != TN_OK && status != TN_NOTFOUND && status != TN_CORRUPT) {
        amqp_position_close(position);
        return status;
    }
    *ret_damaged = status == TN_CORRUPT;
    *ret_after = status == TN_OK        ? position->saved
                 : status == TN_CORRUPT ? ENGINE_EVENTS_OLDEST
                                        : newest;
    if (engine_event_id_compare(*ret_after, newest) > 0) {
        *ret_after = newest;
    }
    return TN_OK;
}

static enum tn_status slot_write(struct amqp_position *position, uint32_t slot,
                                 struct engine_event_id settled) {
    const struct os *os = position->os;
    uint8_t bytes[SLOT_BYTES];
    struct tn_writer w = tn_writer_of(bytes, sizeof bytes);
    TN_ASSERT(position->is_open && slot < SLOT_COUNT);
    tn_write_raw(&w, magic, sizeof magic);
    tn_write64(&w, position->number + 1);
    tn_write64(&w, settled.lsn);
    tn_write32(&w, settled.index);
    tn_write32(&w, tn_crc32c(0, bytes, CRC_AT));
    TN_ASSERT(!w.overflow && w.len == SLOT_BYTES);
    enum tn_status status =
        os->write_at(os->ctx, position->file, bytes, sizeof bytes, (uint64_t)slot * SLOT_APART);
    if (status == TN_OK) {
        position->number++;
        position->saved = settled;
    }
    return status;
}

enum tn_status amqp_position_save(struct amqp_position *position, struct engine_event_id settled) {
    if (position->number > 0 && engine_event_id_compare(settled, position->saved) == 0) {
        return TN_OK;
    }
    return slot_write(position, 1 + position->number % 2, settled);
}

/* The slots that were written without a sync are safe before the one that was not is touched. */
enum tn_status amqp_position_anchor(struct amqp_position *position,
                                    struct engine_event_id settled) {
    const struct os *os = position->os;
    enum tn_status status = os->sync(os->ctx, position->file);
    if (status == TN_OK) {
        status = slot_write(position, 0, settled);
    }
    if (status == TN_OK) {
        status = os->sync(os->ctx, position->file);
    }
    return status == TN_OK ? os->sync_dir(os->ctx, position->dir) : status;
}

void amqp_position_close(struct amqp_position *position) {
    if (position->is_open) {
        (void)position->os->close(position->os->ctx, position->file);
        position->is_open = false;
    }
}
