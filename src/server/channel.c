/* Names of channels.
 *
 *     events              everything
 *     pool:NAME           what concerns a pool or its values
 *     holder:NAME         what concerns a holder, the loss of a lease above all
 *     metrics:POOL        the metrics of a sticky pool
 *     +switch-master      another node owns the log now, as Redis Sentinel says it; so does +slave
 *
 * each but the last with ?after=ID to hear first what happened after that event. The id is part of the name that the
 * client sees, so every client library can ask for it; the last "?after=" that has a valid id behind
 * it counts, the rest belongs to the name. Other names belong to nothing:
 * clients subscribe to some when they connect, so they are accepted, and nothing is ever said there. */
#include <string.h>

#include "protocol/parse.h"
#include "protocol/text.h"
#include "server/channel.h"

#define AFTER "?after="
#define AFTER_LEN (sizeof(AFTER) - 1)

/* Splits off ?after=ID, if the name has it. */
static void after_take(struct server_channel *channel) {
    struct tn_bytes text = channel->name;
    for (uint32_t at = text.len; at-- > 0;) {
        uint32_t rest = text.len - at;
        struct protocol_event_id id;
        if (rest > AFTER_LEN && memcmp(text.at + at, AFTER, AFTER_LEN) == 0) {
            struct tn_bytes digits = tn_bytes_of(text.at + at + AFTER_LEN, rest - AFTER_LEN);
            if (protocol_event_id_parse(digits, &id)) {
                channel->resumes = true;
                channel->after = (struct engine_event_id){.lsn = id.lsn, .index = id.index};
                channel->name = tn_bytes_of(text.at, at);
            }
            return;
        }
    }
}

static bool begins(struct tn_bytes text, const char *prefix, struct tn_bytes *ret_rest) {
    uint32_t len = (uint32_t)strlen(prefix);
    if (text.len < len || memcmp(text.at, prefix, len) != 0) {
        return false;
    }
    *ret_rest = tn_bytes_of(text.at + len, text.len - len);
    return true;
}

static const char *name_take(struct tn_bytes text, struct server_channel *channel) {
    *channel = (struct server_channel){.kind = SERVER_CHANNEL_SILENT, .name = text};
    if (text.len == 0) {
        return "a name is empty";
    }
    if (text.len > SERVER_CHANNEL_MAX) {
        return "a name is longer than 256 bytes";
    }
    after_take(channel);
    return NULL;
}

static const char *pool_take(struct server_channel *channel, enum server_channel_kind kind) {
    channel->kind = kind;
    return kernel_name_pool_valid(channel->subject, true) ? NULL : "this is not a valid pool name";
}

const char *server_channel_parse(struct tn_bytes text, struct server_channel *ret_channel) {
    const char *why = name_take(text, ret_channel);
    if (why != NULL) {
        return why;
    }
    struct tn_bytes *subject = &ret_channel->subject;
    if (begins(ret_channel->name, "pool:", subject)) {
        return pool_take(ret_channel, SERVER_CHANNEL_POOL);
    }
    if (begins(ret_channel->name, "metrics:", subject)) {
        return pool_take(ret_channel, SERVER_CHANNEL_METRICS);
    }
    if (begins(ret_channel->name, "holder:", subject)) {
        ret_channel->kind = SERVER_CHANNEL_HOLDER;
        return subject->len == 0 ? "a holder is missing"
                                 : protocol_name_fault(*subject, KERNEL_HOLDER_MAX);
    }
    if (begins(ret_channel->name, "events", subject)) {
        if (subject->len == 0) {
            ret_channel->kind = SERVER_CHANNEL_EVENTS;
        } else if (subject->at[0] == '?') {
            return "?after= needs an event id such as 1042.0";
        }
    }
    return NULL;
}

const char *server_pattern_parse(struct tn_bytes text, struct server_channel *ret_channel) {
    return name_take(text, ret_channel);
}
