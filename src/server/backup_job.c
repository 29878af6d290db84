/* What backup_job.h promises. */
#include "server/backup_job.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "engine/engine.h"
#include "protocol/parse.h"
#include "protocol/render.h"
#include "server/answer.h"
#include "server/count.h"
#include "server/handler.h"
#include "server/log_line.h"
#include "server/owners.h"
#include "server/server.h"

#define BACKUP_FILE_TEXT 256u /* maximum text of a file in the reply to BEGIN */
#define BACKUP_HEAD_TEXT 512u
#define BACKUP_BULK_TEXT 32u /* bytes of a bulk string besides its content */

static bool is_open(const struct server_backup *backup) {
    return backup->copy.files != NULL;
}

static void backup_end(struct server_backup *backup, const char *reason) {
    server_log("backup_ended", "backup=%llu reason=%s", (unsigned long long)backup->number, reason);
    engine_backup_end(&backup->copy);
}

void server_backup_check(struct server_backup *backup, uint64_t now_ms) {
    if (is_open(backup) && backup->slot == NULL &&
        now_ms - backup->used_ms > SERVER_BACKUP_IDLE_MS) {
        backup_end(backup, "idle");
    }
}

void server_backup_free(struct server_backup *backup) {
    TN_ASSERT(backup->slot == NULL);
    if (is_open(backup)) {
        backup_end(backup, "stopping");
    }
}

/* Allocates a long reply for the slot. False: out of memory; the slot has been refused. */
static bool reply_begin(struct server_slot *slot, size_t room, struct protocol_writer *ret_w) {
    slot->heap = malloc(room);
    if (slot->heap == NULL) {
        server_slot_refuse(slot, TN_R_OVERLOADED, "no memory for the reply");
        return false;
    }
    *ret_w =
        (struct protocol_writer){.out = tn_writer_of(slot->heap, room), .encoding = slot->encoding};
    return true;
}

/* Sets the reply while the client is being served. */
static void reply_now(struct server_owners *owners, struct server_slot *slot,
                      const struct protocol_writer *w) {
    TN_ASSERT(!w->out.overflow);
    slot->answer.http_status = (uint16_t)tn_result_http(TN_R_OK);
    slot->len = (uint32_t)w->out.len;
    slot->done = true;
    server_count_served(owners->counters, slot->row->id, slot->begun_ns);
}

/* ---- BEGIN ---- */

static void begin_reply(const struct server_backup *backup, struct protocol_writer *w) {
    const struct engine_backup *copy = &backup->copy;
    protocol_write_map(w, 5);
    protocol_pair_number(w, "backup", backup->number);
    protocol_pair_number(w, "lsn", copy->position.lsn);
    protocol_pair_number(w, "now_ms", copy->position.now_ms);
    protocol_pair_number(w, "generation", copy->position.shard >> 32);
    protocol_write_text(w, "files");
    protocol_write_array(w, copy->count);
    for (uint32_t i = 0; i < copy->count; i++) {
        const struct engine_backup_file *file = &copy->files[i];
        protocol_write_map(w, 4);
        protocol_pair_text(w, "name", file->file.name);
        protocol_pair_text(w, "kind", engine_backup_kind_name(file->kind));
        protocol_pair_number(w, "bytes", file->file.bytes);
        protocol_pair_number(w, "size", file->file.size);
    }
}

/* Signing keys are only for users that may define programs, and so never for anonymous clients. */
static const char *keys_file(const struct server_request *request) {
    const struct server_options *options = request->owners->options;
    return options->tokens != NULL && access_programs(request->user) ? TOKEN_KEYS_FILE : NULL;
}

static void begin_refuse(struct server_slot *slot, enum tn_status status) {
    server_slot_refuse(slot, status == TN_DENIED ? TN_R_READONLY : TN_R_OVERLOADED,
                       status == TN_DENIED    ? "this node does not write its log yet"
                       : status == TN_INVALID ? "this server keeps nothing in files"
                                              : tn_status_text(status));
}

void job_backup_begin(struct server_request *request) {
    struct server_owners *owners = request->owners;
    struct server_backup *backup = owners->backup;
    struct server_slot *slot = request->slot;
    struct protocol_writer w;
    if (is_open(backup)) {
        server_slot_refuse(slot, TN_R_OVERLOADED, "a backup is being made; try again later");
        return;
    }
    enum tn_status status = engine_backup_begin(owners->engine, keys_file(request), &backup->copy);
    if (status != TN_OK) {
        begin_refuse(slot, status);
        return;
    }
    backup->number += 1;
    memcpy(backup->user, request->user->name, sizeof backup->user);
    backup->used_ms = uv_now(owners->loop);
    if (!reply_begin(slot, BACKUP_HEAD_TEXT + backup->copy.count * (size_t)BACKUP_FILE_TEXT, &w)) {
        backup_end(backup, "no_memory");
        return;
    }
    begin_reply(backup, &w);
    server_log("backup_begun", "backup=%llu lsn=%llu files=%u", (unsigned long long)backup->number,
               (unsigned long long)backup->copy.position.lsn, backup->copy.count);
    reply_now(owners, slot, &w);
}

/* ---- READ ---- */

static void piece_read(uv_work_t *work) {
    const struct server_owners *owners = work->data;
    struct server_backup *backup = owners->backup;
    backup->status = engine_backup_read(&backup->copy, backup->name, backup->offset, backup->bytes,
                                        backup->room, &backup->len);
}

static void piece_done(uv_work_t *work, int status) {
    struct server_owners *owners = work->data;
    struct server_backup *backup = owners->backup;
    struct server_slot *slot = backup->slot;
    struct protocol_writer w;
    TN_ASSERT(status == 0 && slot != NULL); /* libuv never cancels it */
    backup->slot = NULL;
    backup->used_ms = uv_now(owners->loop);
    slot->heap = backup->status == TN_OK ? malloc(backup->len + BACKUP_BULK_TEXT) : NULL;
    w = server_slot_writer(slot);
    if (slot->heap != NULL) {
        w.out = tn_writer_of(slot->heap, backup->len + BACKUP_BULK_TEXT);
        protocol_write_bulk(&w, backup->bytes, backup->len);
    } else {
        slot->answer.code = backup->status == TN_NOTFOUND ? TN_R_NOTFOUND : TN_R_OVERLOADED;
        protocol_render_refusal(&w, slot->answer.code, tn_status_text(backup->status));
    }
    TN_ASSERT(!w.out.overflow);
    free(backup->bytes);
    backup->bytes = NULL;
    slot->answer.http_status = (uint16_t)tn_result_http(slot->answer.code);
    server_answer_job(owners, slot, &w);
}

/* Whether the request is for the open backup, by the user that began it. If not, the slot has been
 * refused. Numbers can be guessed, so the user decides. */
static bool is_current(const struct server_backup *backup, const struct server_request *request) {
    if (!is_open(backup) || request->call.cursor != backup->number ||
        strcmp(backup->user, request->user->name) != 0) {
        server_slot_refuse(request->slot, TN_R_CLOSED,
                           "no such backup; it ended, or a minute passed without a read");
        return false;
    }
    if (backup->slot != NULL) {
        server_slot_refuse(request->slot, TN_R_OVERLOADED, "the backup is being read; try again");
        return false;
    }
    return true;
}

void job_backup_read(struct server_request *request) {
    struct server_owners *owners = request->owners;
    struct server_backup *backup = owners->backup;
    const struct protocol_call *call = &request->call;
    struct tn_bytes name = call->file;
    if (!is_current(backup, request)) {
        return;
    }
    if (name.len >= sizeof backup->name_bytes) {
        server_slot_refuse(request->slot, TN_R_NOTFOUND, "the backup has no such file");
        return;
    }
    backup->offset = call->offset;
    backup->room = call->bytes;
    backup->bytes = malloc(backup->room);
    if (backup->bytes == NULL) {
        server_slot_refuse(request->slot, TN_R_OVERLOADED, "no memory for the reply");
        return;
    }
    memcpy(backup->name_bytes, name.at, name.len);
    backup->name = tn_bytes_of(backup->name_bytes, name.len);
    backup->slot = request->slot;
    backup->work.data = owners;
    (void)uv_queue_work(owners->loop, &backup->work, piece_read, piece_done);
}

/* ---- END ---- */

void job_backup_end(struct server_request *request) {
    struct server_owners *owners = request->owners;
    struct protocol_writer w = server_slot_writer(request->slot);
    if (!is_current(owners->backup, request)) {
        return;
    }
    backup_end(owners->backup, "client");
    protocol_write_simple(&w, "OK");
    reply_now(owners, request->slot, &w);
}
