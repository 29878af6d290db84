/* What broker_position.h promises. */
#include "broker/broker_position.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/hash.h"

#define SLOT_APART 512u
#define SLOT_COUNT 3u
#define SLOT_BYTES 40u
#define CRC_AT 36u

static const char magic[8] = {'T', 'N', 'A', 'M', 'Q', 'P', '1', '\n'};

struct slot {
    uint64_t number;
    struct broker_place place;
};

static bool slot_decode(const uint8_t bytes[SLOT_BYTES], struct slot *ret_slot) {
    if (memcmp(bytes, magic, sizeof magic) != 0 ||
        tn_load32(bytes + CRC_AT) != tn_crc32c(0, bytes, CRC_AT)) {
        return false;
    }
    ret_slot->number = tn_load64(bytes + 8);
    ret_slot->place.id.lsn = tn_load64(bytes + 16);
    ret_slot->place.id.index = tn_load32(bytes + 24);
    ret_slot->place.time_ms = tn_load64(bytes + 28);
    return true;
}

/* CORRUPT: no slot is valid. */
static enum tn_status slots_read(struct broker_position *position) {
    const struct os *os = position->os;
    for (uint32_t i = 0; i < SLOT_COUNT; i++) {
        uint8_t bytes[SLOT_BYTES];
        struct slot slot;
        size_t len = 0;
        enum tn_status status = os->read_at(os->ctx, position->file, bytes, sizeof bytes,
                                            (uint64_t)i * SLOT_APART, &len);
        if (status != TN_OK) {
            return status;
        }
        if (len == SLOT_BYTES && slot_decode(bytes, &slot) && slot.number > position->number) {
            position->number = slot.number;
            position->saved = slot.place;
        }
    }
    return position->number > 0 ? TN_OK : TN_CORRUPT;
}

static void path_of(const struct broker_position *position, const char *suffix,
                    char out[BROKER_POSITION_PATH + 32]) {
    (void)snprintf(out, BROKER_POSITION_PATH + 32, "%s/%s%s", position->dir, BROKER_POSITION_FILE,
                   suffix);
}

enum tn_status broker_position_open(struct broker_position *position, const struct os *os,
                                    const char *dir, struct broker_place *ret_after) {
    char path[BROKER_POSITION_PATH + 32];
    memset(position, 0, sizeof *position);
    position->os = os;
    if (snprintf(position->dir, sizeof position->dir, "%s", dir) >= (int)sizeof position->dir) {
        return TN_INVALID;
    }
    path_of(position, "", path);
    enum tn_status status = os->open(os->ctx, path, OS_WRITE, &position->file);
    if (status != TN_OK) {
        return status;
    }
    position->is_open = true;
    status = slots_read(position);
    if (status == TN_OK) {
        *ret_after = position->saved;
    } else if (status != TN_CORRUPT) {
        broker_position_close(position);
    }
    return status;
}

/* Writes a slot with the next number. */
static enum tn_status slot_write(const struct broker_position *position, int file, uint32_t slot,
                                 struct broker_place confirmed) {
    const struct os *os = position->os;
    uint8_t bytes[SLOT_BYTES];
    struct tn_writer w = tn_writer_of(bytes, sizeof bytes);
    TN_ASSERT(slot < SLOT_COUNT);
    tn_write_raw(&w, magic, sizeof magic);
    tn_write64(&w, position->number + 1);
    tn_write64(&w, confirmed.id.lsn);
    tn_write32(&w, confirmed.id.index);
    tn_write64(&w, confirmed.time_ms);
    tn_write32(&w, tn_crc32c(0, bytes, CRC_AT));
    TN_ASSERT(!w.overflow && w.len == SLOT_BYTES);
    return os->write_at(os->ctx, file, bytes, sizeof bytes, (uint64_t)slot * SLOT_APART);
}

static void saved(struct broker_position *position, struct broker_place confirmed) {
    position->number++;
    position->saved = confirmed;
}

enum tn_status broker_position_save(struct broker_position *position,
                                    struct broker_place confirmed) {
    TN_ASSERT(position->is_open);
    if (position->number > 0 && engine_event_id_compare(confirmed.id, position->saved.id) == 0) {
        return TN_OK;
    }
    enum tn_status status =
        slot_write(position, position->file, 1 + position->number % 2, confirmed);
    if (status == TN_OK) {
        saved(position, confirmed);
    }
    return status;
}

/* Gives the file its name after it is durable. */
static enum tn_status file_name(const struct broker_position *position, int file,
                                const char *temporary) {
    const struct os *os = position->os;
    char path[BROKER_POSITION_PATH + 32];
    path_of(position, "", path);
    enum tn_status status = os->sync(os->ctx, file);
    if (status == TN_OK) {
        status = os->rename(os->ctx, temporary, path);
    }
    return status;
}

enum tn_status broker_position_anchor(struct broker_position *position,
                                      struct broker_place confirmed) {
    const struct os *os = position->os;
    char temporary[BROKER_POSITION_PATH + 32];
    int file;
    path_of(position, ".new", temporary);
    enum tn_status status = os->open(os->ctx, temporary, OS_WRITE | OS_CREATE | OS_TRUNCATE, &file);
    if (status != TN_OK) {
        return status;
    }
    status = slot_write(position, file, 0, confirmed);
    if (status == TN_OK) {
        status = file_name(position, file, temporary);
    }
    if (status != TN_OK) {
        (void)os->close(os->ctx, file);
        return status;
    }
    broker_position_close(position);
    position->file = file;
    position->is_open = true;
    saved(position, confirmed); /* even if the renaming is not durable: later writes are newer */
    return os->sync_dir(os->ctx, position->dir);
}

void broker_position_close(struct broker_position *position) {
    if (position->is_open) {
        (void)position->os->close(position->os->ctx, position->file);
        position->is_open = false;
    }
}
