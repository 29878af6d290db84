/* BACKUP: a copy of the engine's files for a client that asks for them piece by piece. One backup at a
 * time; it ends with BACKUP END, or after a minute without a read. Reading runs on a worker thread of
 * libuv, one piece at a time.
 *
 *     none --BEGIN--> open --END, or a minute--> none
 *                     open <--READ--> reading (the slot is set)
 *
 * A backup belongs to the user that began it: it may contain the signing keys, which not every user that
 * may begin a backup may have. */
#ifndef TN_SERVER_BACKUP_JOB_H
#define TN_SERVER_BACKUP_JOB_H

#include <uv.h>

#include "engine/backup.h"
#include "server/slots.h"

#define SERVER_BACKUP_IDLE_MS 60000u

struct server_backup {
    struct engine_backup copy;      /* files is NULL: there is none */
    uint64_t number;                /* of the last one that was begun */
    uint64_t used_ms;               /* in the loop's time: when it was last asked for */
    char user[KERNEL_USER_MAX + 1]; /* that began it; empty: an anonymous client */

    uv_work_t work;
    struct server_slot *slot; /* NULL: none of the following is in use */
    struct tn_bytes name;     /* in name_bytes */
    uint64_t offset;
    uint8_t *bytes; /* `room` bytes; the first `len` have been read */
    size_t room, len;
    enum tn_status status;
    char name_bytes[LOG_FILE_NAME_MAX];
};

/* Ends a backup that no client has read from for SERVER_BACKUP_IDLE_MS. Called every second with the
 * loop's time. */
void server_backup_check(struct server_backup *backup, uint64_t now_ms);
/* Nothing runs any more; before the engine is closed. */
void server_backup_free(struct server_backup *backup);

#endif
