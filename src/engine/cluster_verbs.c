/* What a replicated log knows beside its batches: notes, nodes, the terms of this ownership. */
#include "base/assert.h"
#include "engine/internal.h"

bool engine_has_notes(const struct engine *engine) {
    return engine->log->verbs->note_get != NULL;
}

enum tn_status engine_note_get(struct engine *engine, const char *name, uint8_t *out, uint32_t room,
                               uint32_t *ret_len) {
    if (!engine_has_notes(engine)) {
        return TN_INVALID;
    }
    return engine->log->verbs->note_get(engine->log, name, out, room, ret_len);
}

enum tn_status engine_note_put(struct engine *engine, const char *name, struct tn_bytes value) {
    if (!engine_has_notes(engine)) {
        return TN_INVALID;
    }
    TN_ASSERT(value.len <= LOG_NOTE_MAX);
    return engine->log->verbs->note_put(engine->log, name, value);
}

uint32_t engine_nodes(const struct engine *engine, struct log_node *ret_nodes, uint32_t room) {
    const struct log_verbs *verbs = engine->log->verbs;
    return verbs->nodes != NULL ? verbs->nodes(engine->log, ret_nodes, room) : 0;
}

uint64_t engine_owned_until(const struct engine *engine) {
    const struct log_verbs *verbs = engine->log->verbs;
    return verbs->owned_until != NULL ? verbs->owned_until(engine->log) : UINT64_MAX;
}

void engine_succession(struct engine *engine, struct log_succession *ret_succession) {
    pthread_mutex_lock(&engine->submit_lock);
    *ret_succession = engine->succession;
    pthread_mutex_unlock(&engine->submit_lock);
}

void engine_clean(struct engine *engine, uint64_t epoch) {
    if (engine->log->verbs->clean != NULL) {
        engine->log->verbs->clean(engine->log, epoch);
    }
}
