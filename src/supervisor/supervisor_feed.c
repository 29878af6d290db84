/* From the engine's threads to the loop: what has changed, and answers.
 *
 * The watch is called for every lease that is being revoked, in every pool: those of sensors are told
 * by their user, which costs a comparison. A notice says only where to look, so one that waits in the
 * ring already is not put there again: however often a rule is toggled, its sensors are looked at once.
 * The ring is bounded; if it overflows, the loop reads everything again. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "supervisor/supervisor_parts.h"

#define NOTICES_MAX 4096u

void supervisor_feed_init(struct supervisor_feed *feed) {
    *feed = (struct supervisor_feed){.supervisor = NULL};
    (void)pthread_mutex_init(&feed->lock, NULL);
    /* NULL: every notice counts as missed. */
    feed->notices = calloc(NOTICES_MAX, sizeof *feed->notices);
    /* NULL: no notice is suppressed as a repetition. */
    feed->waiting = calloc(NOTICES_MAX, sizeof *feed->waiting);
}

void supervisor_feed_free(struct supervisor_feed *feed) {
    free(feed->notices);
    free(feed->waiting);
    (void)pthread_mutex_destroy(&feed->lock);
}

static uint64_t feed_kinds(void) {
    return (uint64_t)1 << KERNEL_EVENT_LEASE_REVOKING | (uint64_t)1 << KERNEL_EVENT_RULE_SET |
           (uint64_t)1 << KERNEL_EVENT_RULE_DELETED | (uint64_t)1 << KERNEL_EVENT_SENSOR_SET |
           (uint64_t)1 << KERNEL_EVENT_SENSOR_DELETED | (uint64_t)1 << KERNEL_EVENT_DEMAND_CHANGED;
}

static bool text_is(struct tn_bytes bytes, const char *text) {
    return tn_bytes_equal(bytes, tn_bytes_of(text, strlen(text)));
}

/* False: the event does not concern sensors. */
static bool notice_make(const struct kernel_event *fact, struct supervisor_notice *notice) {
    struct tn_bytes name = fact->name;
    size_t prefix = strlen(SUPERVISOR_HOLDER);
    notice->lease = (struct kernel_lease_id){0};
    switch (fact->kind) {
    case KERNEL_EVENT_SENSOR_SET:
    case KERNEL_EVENT_SENSOR_DELETED:
        notice->kind = SUPERVISOR_SENSOR_CHANGED;
        break;
    case KERNEL_EVENT_DEMAND_CHANGED:
        notice->kind = SUPERVISOR_DEMAND_CHANGED;
        break;
    case KERNEL_EVENT_RULE_SET:
        notice->kind = SUPERVISOR_RULE_SET;
        if (fact->number == 0) {
            return false;
        }
        break;
    case KERNEL_EVENT_RULE_DELETED:
        return false; /* only its trigger is of interest */
    default:
        if (!text_is(fact->user, SUPERVISOR_USER) || fact->holder.len <= prefix) {
            return false;
        }
        notice->kind = SUPERVISOR_LEASE_REVOKED;
        notice->lease = fact->lease;
        name = tn_bytes_of(fact->holder.at + prefix, fact->holder.len - prefix);
        break;
    }
    if (name.len > sizeof notice->name) {
        return false;
    }
    notice->len = (uint32_t)name.len;
    memcpy(notice->name, name.at, name.len);
    return true;
}

/* ---- The ring ---- */

static bool notice_equal(const struct supervisor_notice *a, const struct supervisor_notice *b) {
    return a->kind == b->kind && kernel_lease_id_compare(a->lease, b->lease) == 0 &&
           tn_bytes_equal(tn_bytes_of(a->name, a->len), tn_bytes_of(b->name, b->len));
}

static void notice_miss(struct supervisor_feed *feed, const struct supervisor_notice *notice) {
    uint32_t missed =
        notice->kind == SUPERVISOR_RULE_SET ? SUPERVISOR_MISSED_RULES : SUPERVISOR_MISSED_SOME;
    feed->missed = missed > feed->missed ? missed : feed->missed;
}

/* If two notices have the same hash, one of them may be repeated, which is harmless. */
static void notice_put(struct supervisor_feed *feed, const struct supervisor_notice *notice) {
    uint64_t end = feed->first + feed->count;
    uint64_t *waiting = NULL;
    if (feed->waiting != NULL) {
        uint64_t hash = tn_hash64(notice->name, notice->len, notice->kind);
        waiting = &feed->waiting[hash % NOTICES_MAX];
        if (*waiting >= feed->first && *waiting < end &&
            notice_equal(&feed->notices[*waiting % NOTICES_MAX], notice)) {
            return;
        }
    }
    if (feed->count == NOTICES_MAX) {
        notice_miss(feed, notice);
        return;
    }
    feed->notices[end % NOTICES_MAX] = *notice;
    feed->count++;
    if (waiting != NULL) {
        *waiting = end;
    }
}

static void notice_tell(struct supervisor_feed *feed, const struct supervisor_notice *notice) {
    pthread_mutex_lock(&feed->lock);
    if (feed->supervisor != NULL) {
        if (feed->notices == NULL) {
            notice_miss(feed, notice);
        } else {
            notice_put(feed, notice);
        }
        (void)uv_async_send(&feed->supervisor->news);
    }
    pthread_mutex_unlock(&feed->lock);
}

/* Empty: the event is not about a rule, or has only one trigger. */
static void rules_tell(struct supervisor_feed *feed, struct tn_bytes trigger) {
    struct supervisor_notice notice = {.kind = SUPERVISOR_RULES_CHANGED, .len = trigger.len};
    if (trigger.len > 0 && trigger.len <= sizeof notice.name) {
        memcpy(notice.name, trigger.at, trigger.len);
        notice_tell(feed, &notice);
    }
}

void supervisor_feed_watch(void *ctx, const struct kernel_event *fact) {
    struct supervisor_feed *feed = ctx;
    struct supervisor_notice notice;
    if (notice_make(fact, &notice)) {
        notice_tell(feed, &notice);
    }
    rules_tell(feed, fact->demand);
    if (!tn_bytes_equal(fact->demand, fact->demand_before)) {
        rules_tell(feed, fact->demand_before);
    }
}

void supervisor_feed_attach(struct supervisor_feed *feed, struct engine *engine) {
    feed->watcher =
        (struct engine_watcher){.call = supervisor_feed_watch, .ctx = feed, .kinds = feed_kinds()};
    engine_watch_add(engine, &feed->watcher);
}

void supervisor_feed_connect(struct supervisor_feed *feed, struct supervisor *supervisor) {
    pthread_mutex_lock(&feed->lock);
    feed->supervisor = supervisor;
    pthread_mutex_unlock(&feed->lock);
}

bool supervisor_feed_take(struct supervisor_feed *feed, struct supervisor_notice *ret_notice) {
    pthread_mutex_lock(&feed->lock);
    bool found = feed->count > 0;
    if (found) {
        *ret_notice = feed->notices[feed->first % NOTICES_MAX];
        feed->first++;
        feed->count--;
    }
    pthread_mutex_unlock(&feed->lock);
    return found;
}

enum supervisor_missed supervisor_feed_overflowed(struct supervisor_feed *feed) {
    pthread_mutex_lock(&feed->lock);
    enum supervisor_missed missed = (enum supervisor_missed)feed->missed;
    feed->missed = SUPERVISOR_MISSED_NONE;
    pthread_mutex_unlock(&feed->lock);
    return missed;
}

/* In the order of arrival. */
struct supervisor_ask *supervisor_feed_answers(struct supervisor_feed *feed) {
    pthread_mutex_lock(&feed->lock);
    struct supervisor_ask *last = feed->done;
    feed->done = NULL;
    pthread_mutex_unlock(&feed->lock);
    struct supervisor_ask *first = NULL;
    while (last != NULL) {
        struct supervisor_ask *next = last->next;
        last->next = first;
        first = last;
        last = next;
    }
    return first;
}
