/* Why a node does not take part: noted, logged once, and over again. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "etcd/server_version.h"
#include "replica/replica_state.h"

#define UNREACHABLE_MS 5000u /* time without an answer before it is reported */

static const struct {
    const char *name, *text;
    bool final;
} trouble_rows[] = {
#define TROUBLE_ROW(name, text, final) {#name, text, final},
    REPLICA_TROUBLE_TABLE(TROUBLE_ROW)
#undef TROUBLE_ROW
};

const char *replica_trouble_name(enum replica_trouble trouble) {
    return trouble_rows[trouble].name;
}

const char *replica_trouble_text(enum replica_trouble trouble) {
    return trouble_rows[trouble].text;
}

bool replica_trouble_is_final(enum replica_trouble trouble) {
    return trouble_rows[trouble].final;
}

void replica_notice(struct replica *r, const char *format, ...) {
    char line[1024];
    va_list arguments;
    if (r->log.notice == NULL) {
        return;
    }
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    r->log.notice(r->log.notice_ctx, line);
}

void replica_in_trouble(struct replica *r, enum replica_trouble trouble, const char *format, ...) {
    char text[sizeof r->standing.trouble_text];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    replica_lock(r);
    struct replica_standing *standing = &r->standing;
    bool stopped = replica_trouble_is_final(standing->trouble);
    bool news = !stopped && standing->trouble != trouble;
    if (news) {
        standing->trouble = trouble;
        memcpy(standing->trouble_text, text, sizeof text);
    }
    replica_unlock(r);
    if (replica_trouble_is_final(trouble)) {
        r->follow.stopped = true;
    }
    if (news) {
        replica_notice(r, "event=replica_trouble reason=%s details=\"%s\" text=\"%s\"",
                       replica_trouble_name(trouble), text, replica_trouble_text(trouble));
    }
}

bool replica_trouble_anew(struct replica *r, enum replica_trouble trouble) {
    replica_lock(r);
    bool was = r->standing.trouble == trouble && trouble != REPLICA_TROUBLE_NONE;
    if (was) {
        r->standing.trouble = REPLICA_TROUBLE_NONE;
        r->standing.trouble_text[0] = '\0';
    }
    replica_unlock(r);
    return was;
}

void replica_trouble_over(struct replica *r, enum replica_trouble trouble) {
    if (replica_trouble_anew(r, trouble)) {
        replica_notice(r, "event=replica_trouble_over reason=%s", replica_trouble_name(trouble));
    }
}

bool replica_is_stopped(struct replica *r) {
    return r->follow.stopped;
}

void replica_answered(struct replica *r) {
    r->unreachable_ms = 0;
    replica_trouble_over(r, REPLICA_TROUBLE_UNREACHABLE);
    if (!r->keep.denied) {
        replica_trouble_over(r, REPLICA_TROUBLE_DENIED);
    }
}

void replica_unanswered(struct replica *r, const struct etcd_answer *answer) {
    if (r->unreachable_ms == 0) {
        r->unreachable_ms = r->now_ms;
    } else if (r->now_ms - r->unreachable_ms >= UNREACHABLE_MS) {
        bool says = answer->message != NULL && answer->message[0] != '\0';
        replica_in_trouble(r, REPLICA_TROUBLE_UNREACHABLE, "%s",
                           says ? answer->message : etcd_reason_text(answer->reason));
    }
}

/* Once for each version, for each of the two clients: members are upgraded one after the other. */
static void etcd_warn(struct replica *r, unsigned client, const struct etcd_info *info,
                      enum etcd_fitness fitness) {
    if (strcmp(r->etcd_told[0], info->version) == 0 ||
        strcmp(r->etcd_told[1], info->version) == 0) {
        return;
    }
    memcpy(r->etcd_told[client], info->version, sizeof r->etcd_told[client]);
    replica_notice(r, "event=etcd_version version=%s endpoint=%s text=\"%s\"", info->version,
                   info->endpoint,
                   fitness == ETCD_FAULTY
                       ? "etcd 3.5.0 to 3.5.2 can lose data when a member crashes: upgrade it"
                       : "this program was made for etcd 3.4 to 3.6");
}

bool replica_etcd_suits(struct replica *r) {
    const struct etcd *const clients[] = {r->writer, r->watcher};
    for (unsigned i = 0; i < 2; i++) {
        struct etcd_info info;
        etcd_info(clients[i], &info);
        enum etcd_fitness fitness =
            info.version[0] != '\0' ? etcd_version_judge(info.version) : ETCD_FIT;
        if (fitness == ETCD_TOO_OLD) {
            replica_in_trouble(r, REPLICA_TROUBLE_ETCD_VERSION, "%s has version %s", info.endpoint,
                               info.version);
            return false;
        }
        if (fitness != ETCD_FIT) {
            etcd_warn(r, i, &info, fitness);
        }
    }
    replica_trouble_over(r, REPLICA_TROUBLE_ETCD_VERSION);
    return true;
}

void replica_version_refuse(struct replica *r, const struct replica_head *head) {
    replica_in_trouble(r, REPLICA_TROUBLE_VERSION,
                       "the log has state version %" PRIu32 ", this node knows %" PRIu32,
                       head->state_version, r->options.state_version);
}
