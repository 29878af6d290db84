/* New events, from the engine's threads to the loop and there to subscribers.
 *
 * The engine calls the feed on a thread of its own, once for each request. The loop requests a call
 * when the tail or a follower has read to the end. So a server without subscribers has no cost. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "os/os.h"
#include "server/event_fields.h"
#include "server/fanout.h"
#include "server/owners.h"
#include "server/server.h"
#include "server/stream.h"
#include "server/users.h"

/* Metrics on their way to the loop; more are dropped, because newer ones follow. */
#define FEED_METRICS_MAX 1024u
#define CHANNEL_BUCKETS 65536u

/* ---- The feed: on the engine's threads ---- */

/* A pool's metrics on their way to the loop. */
struct server_feed_item {
    struct server_feed_item *next;
    struct engine_metrics metrics;
};

void server_feed_events(void *feed_ctx) {
    struct server_feed *feed = feed_ctx;
    pthread_mutex_lock(&feed->lock);
    if (feed->streams != NULL) {
        (void)uv_async_send(&feed->streams->news);
    }
    pthread_mutex_unlock(&feed->lock);
}

void server_feed_metrics(void *feed_ctx, const struct engine_metrics *metrics) {
    struct server_feed *feed = feed_ctx;
    pthread_mutex_lock(&feed->lock);
    if (feed->streams != NULL && feed->metrics_wanted && feed->count < FEED_METRICS_MAX) {
        struct server_feed_item *item = malloc(sizeof *item);
        if (item != NULL) {
            *item = (struct server_feed_item){.metrics = *metrics};
            *feed->end = item;
            feed->end = &item->next;
            feed->count++;
            (void)uv_async_send(&feed->streams->news);
        }
    }
    pthread_mutex_unlock(&feed->lock);
}

void server_feed_init(struct server_feed *feed) {
    *feed = (struct server_feed){.streams = NULL};
    feed->end = &feed->first;
    (void)pthread_mutex_init(&feed->lock, NULL);
}

static struct server_feed_item *feed_take(struct server_feed *feed) {
    pthread_mutex_lock(&feed->lock);
    struct server_feed_item *first = feed->first;
    feed->first = NULL;
    feed->end = &feed->first;
    feed->count = 0;
    pthread_mutex_unlock(&feed->lock);
    return first;
}

static void feed_connect(struct server_feed *feed, struct server_streams *streams) {
    pthread_mutex_lock(&feed->lock);
    feed->streams = streams;
    pthread_mutex_unlock(&feed->lock);
}

void server_feed_want_metrics(struct server_feed *feed, bool wanted) {
    pthread_mutex_lock(&feed->lock);
    feed->metrics_wanted = wanted;
    pthread_mutex_unlock(&feed->lock);
}

/* ---- Followers ---- */

void server_follow(struct server_streams *streams, struct server_follower *follower,
                   struct engine_event_id after) {
    if (!follower->waiting) {
        follower->waiting = true;
        follower->previous = NULL;
        follower->next = streams->followers;
        if (follower->next != NULL) {
            follower->next->previous = follower;
        }
        streams->followers = follower;
    }
    if (!engine_events_arm(streams->engine, after) && streams->open) {
        (void)uv_async_send(&streams->news);
    }
}

void server_follow_end(struct server_streams *streams, struct server_follower *follower) {
    if (!follower->waiting) {
        return;
    }
    follower->waiting = false;
    if (follower->previous != NULL) {
        follower->previous->next = follower->next;
    } else if (streams->followers == follower) {
        streams->followers = follower->next;
    } else {
        streams->woken = follower->next;
    }
    if (follower->next != NULL) {
        follower->next->previous = follower->previous;
    }
}

/* A woken follower may ask to be woken again, and may end other followers, so those still to be
 * woken are on a list. */
static void followers_wake(struct server_streams *streams) {
    TN_ASSERT(streams->woken == NULL);
    streams->woken = streams->followers;
    streams->followers = NULL;
    while (streams->woken != NULL) {
        struct server_follower *follower = streams->woken;
        server_follow_end(streams, follower);
        follower->wake(follower);
    }
}

/* ---- Where to begin ---- */

static bool nothing_read(void *ctx, const struct kernel *kernel, uint64_t clock_ms) {
    (void)ctx;
    (void)kernel;
    (void)clock_ms;
    return false;
}

bool server_event_is_foreign(const struct server_owners *owners, struct engine_event_id id) {
    struct engine_events_span span = {.more = false};
    struct engine_stats stats;
    if (id.lsn <= engine_lsn(owners->engine)) {
        return false;
    }
    /* Before the position: a batch that is being committed is in one of the two. */
    engine_stats_read(owners->engine, &stats);
    if (engine_read(owners->engine, ENGINE_READ_NOWAIT, nothing_read, NULL) != TN_R_OK) {
        return false; /* another node may be ahead */
    }
    if (id.lsn <= engine_lsn(owners->engine) + stats.queue_commands) {
        return false;
    }
    (void)engine_events_read(owners->engine, ENGINE_EVENTS_NEWEST, 0, NULL, NULL, &span);
    return id.lsn > span.newest.lsn;
}

/* ---- News, and work that is left ---- */

static void work_run(uv_idle_t *work) {
    struct server_streams *streams = work->data;
    if (streams->tail_more) {
        server_fanout_tail(streams);
    }
    if (streams->run != NULL) {
        server_fanout_behind(streams);
    }
    if (!streams->tail_more && streams->run == NULL) {
        (void)uv_idle_stop(work);
    }
}

void server_streams_wake(struct server_streams *streams) {
    if (streams->open && (streams->tail_more || streams->run != NULL)) {
        (void)uv_idle_start(&streams->work, work_run);
    }
}

static void news_run(uv_async_t *news) {
    struct server_streams *streams = news->data;
    server_users_look(streams->owners); /* metrics are for users as they are now */
    struct server_feed_item *item = feed_take(streams->feed);
    while (item != NULL) {
        struct server_feed_item *next = item->next;
        server_fanout_metrics(streams, &item->metrics);
        free(item);
        item = next;
    }
    if (streams->keeping_up > 0) {
        server_fanout_tail(streams);
    }
    followers_wake(streams);
    server_streams_wake(streams);
}

/* ---- Beginning and end ---- */

bool server_streams_init(struct server_streams *streams, struct server_owners *owners,
                         uv_loop_t *loop, struct engine *engine, struct server_feed *feed,
                         const struct access *access, const struct os *os) {
    streams->owners = owners;
    streams->engine = engine;
    streams->feed = feed;
    streams->access = access;
    streams->run_end = &streams->run;
    streams->channels = calloc(CHANNEL_BUCKETS, sizeof *streams->channels);
    streams->payload = malloc(SERVER_EVENT_BYTES);
    if (streams->channels == NULL || streams->payload == NULL ||
        os->random(os->ctx, &streams->seed, sizeof streams->seed) != TN_OK) {
        return false;
    }
    (void)uv_async_init(loop, &streams->news, news_run);
    (void)uv_idle_init(loop, &streams->work);
    streams->news.data = streams->work.data = streams;
    streams->open = true;
    feed_connect(feed, streams);
    return true;
}

struct server_subscriptions *server_streams_bucket(struct server_streams *streams, uint64_t hash) {
    return &streams->channels[hash & (CHANNEL_BUCKETS - 1)];
}

void server_streams_stop(struct server_streams *streams) {
    if (streams->open) {
        streams->open = false;
        feed_connect(streams->feed, NULL);
    }
}

void server_streams_free(struct server_streams *streams) {
    /* The feed is missing if the server could not start. */
    struct server_feed_item *item = streams->feed != NULL ? feed_take(streams->feed) : NULL;
    TN_ASSERT(!streams->open && LIST_EMPTY(&streams->subscribers));
    while (item != NULL) {
        struct server_feed_item *next = item->next;
        free(item);
        item = next;
    }
    free(streams->channels);
    free(streams->payload);
}
