/* The replicated log: opening and closing, the verbs of log/log.h, the thread that does the work, and
 * what other threads may look at. See replica_state.h for who owns what. */
#include "replica/replica.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/hash.h"
#include "etcd/etcd_client.h"
#include "etcd/wait.h"
#include "log/dir.h"
#include "replica/replica_state.h"

#define TTL_MS_DEFAULT 2000u
#define LOG_BYTES_DEFAULT ((uint64_t)256 << 20)
#define ASK_AGAIN_MS 50u
#define STALE_UNKNOWN_MS ((uint64_t)1 << 32) /* 49 days: longer than any configuration allows */
#define FULL_RETRY_MS 200u                   /* a full disk may have room again */
#define LEAVE_MS 1000u                       /* for giving the log up when it is closed */

/* ---- Small things ---- */

void replica_lock(struct replica *r) {
    int rc = pthread_mutex_lock(&r->lock);
    TN_ASSERT(rc == 0);
}

void replica_unlock(struct replica *r) {
    int rc = pthread_mutex_unlock(&r->lock);
    TN_ASSERT(rc == 0);
}

void replica_wake(struct replica *r) {
    if (r->wake >= 0) {
        (void)eventfd_write(r->wake, 1);
    }
}

void replica_clock(struct replica *r) {
    if (!r->manual) {
        r->now_ms = r->os->clock_boot_ms(r->os->ctx);
    }
}

/* The instance has a random half; the count makes them differ. */
void replica_nonce_next(struct replica *r, struct replica_nonce *ret_nonce) {
    ret_nonce->words[0] = r->instance.words[0];
    ret_nonce->words[1] = r->instance.words[1] + ++r->nonces;
}

struct replica_key replica_key_of(const struct replica *r, const char *name) {
    struct replica_key key;
    int len = snprintf(key.at, sizeof key.at, "%s%s", r->options.prefix, name);
    TN_ASSERT(len > 0 && (size_t)len < sizeof key.at);
    key.len = (uint32_t)len;
    return key;
}

struct replica_key replica_key_log(const struct replica *r, uint64_t first_lsn) {
    struct replica_key key = replica_key_of(r, "log/");
    replica_key_write(first_lsn, key.at + key.len);
    key.len += REPLICA_KEY_DIGITS;
    return key;
}

/* ---- The turn ---- */

static void turn(struct replica *r) {
    if (r->manual) {
        replica_copy_drain(r);
    }
    replica_begin_turn(r);
    replica_follow_turn(r);
    replica_swap_turn(r);
    replica_keep_turn(r);
    replica_ask_turn(r);
    replica_leader_tell(r);
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t turn_next_ms(struct replica *r) {
    uint64_t next_ms = least(replica_begin_next_ms(r), replica_follow_next_ms(r));
    next_ms = least(next_ms, replica_swap_next_ms(r));
    next_ms = least(next_ms, replica_keep_next_ms(r));
    /* The owner may fall silent. */
    if (r->begun && r->owner.has_head && r->leader_told[0] != '\0') {
        next_ms = least(next_ms, r->now_ms + r->options.leader_ttl_ms / 4);
    }
    if (replica_copy_disk(r) >= REPLICA_DISK_FULL) {
        next_ms = least(next_ms, r->now_ms + FULL_RETRY_MS);
    }
    replica_lock(r);
    if (r->asks != NULL) {
        next_ms = least(next_ms, r->now_ms + ASK_AGAIN_MS);
    }
    replica_unlock(r);
    return next_ms;
}

void replica_turn(struct log *log, uint64_t boot_ms) {
    struct replica *r = replica_of(log);
    TN_ASSERT(r->manual);
    r->now_ms = boot_ms;
    etcd_step(r->writer, boot_ms);
    etcd_step(r->watcher, boot_ms);
    turn(r);
}

uint64_t replica_turn_next_ms(struct log *log) {
    struct replica *r = replica_of(log);
    uint64_t next_ms = least(etcd_next_ms(r->writer), etcd_next_ms(r->watcher));
    return least(next_ms, turn_next_ms(r));
}

static bool stop_is_asked(struct replica *r) {
    replica_lock(r);
    bool stop = r->stop;
    replica_unlock(r);
    return stop;
}

static void wait_once(struct replica *r, uint64_t until_ms) {
    struct etcd *clients[] = {r->writer, r->watcher};
    eventfd_t count;
    etcd_wait(clients, 2, r->os, r->wake, until_ms);
    (void)eventfd_read(r->wake, &count);
    replica_clock(r);
}

/* Others need not wait for silence when the owner ends in good order. */
static void leave(struct replica *r) {
    uint64_t until_ms = r->now_ms + LEAVE_MS;
    if (!r->begun || r->owner.role != REPLICA_OWNING) {
        return;
    }
    r->closing = true;
    replica_tell_kind(r, REPLICA_FACT_RESIGN);
    while (r->owner.role == REPLICA_OWNING && r->now_ms < until_ms) {
        wait_once(r, least(until_ms, replica_swap_next_ms(r)));
        replica_swap_turn(r);
    }
}

static void *run(void *arg) {
    struct replica *r = arg;
    replica_clock(r);
    while (!stop_is_asked(r)) {
        turn(r);
        wait_once(r, turn_next_ms(r));
    }
    leave(r);
    return NULL;
}

/* ---- Verbs ---- */

static uint64_t replica_batch_max(const struct log *base) {
    const struct replica *r = (const struct replica *)base;
    return least(REPLICA_BATCH_MAX, r->local->verbs->batch_max(r->local));
}

/* The chain at the end of the local log follows from the file and the batches after it. */
static enum tn_status load_batch(void *ctx, const struct log_batch *batch) {
    struct replica *r = ctx;
    if (r->has_file && batch->first_lsn > r->file.lsn) {
        r->load_chain = replica_chain(r->load_chain, batch);
    }
    return r->loader->batch(r->loader->ctx, batch);
}

static enum tn_status replica_load(struct log *base, const struct log_position *from,
                                   const struct log_loader *loader,
                                   struct log_position *ret_position, struct log_error *error) {
    struct replica *r = replica_of(base);
    struct log_loader mine = {.ctx = r, .batch = load_batch};
    r->loader = loader;
    r->load_chain = r->file.chain;
    enum tn_status status = r->local->verbs->load(r->local, from, &mine, ret_position, error);
    r->loader = NULL;
    if (status != TN_OK) {
        return status;
    }
    r->position = *ret_position;
    r->chain = r->load_chain;
    r->chain_known = r->has_file && (r->file.flags & REPLICA_FILE_CHAIN) != 0 &&
                     r->file.lsn >= from->lsn && r->file.lsn <= replica_applied(r);
    return TN_OK;
}

/* Signals are for the threads of the host. */
static enum tn_status threads_start(struct replica *r) {
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    enum tn_status status = replica_copy_start(r);
    if (status == TN_OK && pthread_create(&r->thread, NULL, run, r) != 0) {
        status = TN_NOMEM;
    }
    r->has_thread = status == TN_OK;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

static enum tn_status replica_start(struct log *base, const struct log_follower *follower) {
    struct replica *r = replica_of(base);
    r->follower = follower;
    return r->manual ? TN_OK : threads_start(r);
}

static enum tn_status replica_lead(struct log *base, struct log_position *ret_position,
                                   struct log_error *error) {
    struct replica *r = replica_of(base);
    replica_lock(r);
    enum tn_status status = r->takes ? TN_OK : TN_LOST;
    struct log_position at = r->position;
    replica_unlock(r);
    if (status != TN_OK) {
        return log_fail(error, status, "%s", tn_status_text(status));
    }
    *ret_position = at;
    return TN_OK;
}

static bool replica_owned(const struct log *base) {
    const struct replica *r = (const struct replica *)base;
    uint64_t now_ms = r->manual ? r->now_ms : r->os->clock_boot_ms(r->os->ctx);
    return now_ms < atomic_load(&r->valid_until_ms);
}

static uint64_t replica_owned_until(const struct log *base) {
    return atomic_load(&((const struct replica *)base)->valid_until_ms);
}

/* A node takes over after the former owner's time, or after that owner has resigned. */
static void replica_succession(struct log *base, struct log_succession *ret_succession) {
    struct replica *r = replica_of(base);
    uint64_t now_ms = r->manual ? r->now_ms : r->os->clock_boot_ms(r->os->ctx);
    replica_lock(r);
    *ret_succession = (struct log_succession){
        .epoch = r->lead_epoch,
        .heard_ms = r->lead_heard ? r->lead_now_ms + (now_ms - r->lead_stamp_ms) : 0,
        .least_ms = r->lead_now_ms,
        .fenced_at_boot_ms = r->lead_fenced_ms,
    };
    replica_unlock(r);
}

static enum tn_status resign(struct replica *r, bool closes) {
    replica_lock(r);
    if (!r->takes) {
        replica_unlock(r);
        return closes ? TN_LOST : TN_OK;
    }
    r->resign_asked = true;
    r->resign_over = false;
    r->resign_closes = closes;
    replica_unlock(r);
    if (r->manual) {
        return TN_OK;
    }
    replica_wake(r);
    replica_lock(r);
    while (!r->resign_over && !r->stop) {
        pthread_cond_wait(&r->changed, &r->lock);
    }
    enum tn_status status = r->resign_over ? r->resign_status : TN_CLOSED;
    r->resign_asked = r->resign_closes = false;
    replica_unlock(r);
    return status;
}

/* A log that another node has taken counts as given up. */
static enum tn_status replica_resign(struct log *base) {
    struct replica *r = replica_of(base);
    bool closes = atomic_exchange(&r->closes_next, false);
    enum tn_status status = resign(r, closes);
    return status == TN_LOST && !closes ? TN_OK : status;
}

void replica_close_with_resign(struct log *log) {
    atomic_store(&replica_of(log)->closes_next, true);
}

bool replica_close_withdraw(struct log *log) {
    return atomic_exchange(&replica_of(log)->closes_next, false);
}

enum tn_status replica_close_cluster(struct log *log) {
    return resign(replica_of(log), true);
}

static void replica_append(struct log *base, const struct log_batch *batch, log_committed *done,
                           void *ctx) {
    struct replica *r = replica_of(base);
    replica_lock(r);
    bool takes = r->takes;
    if (takes) {
        TN_ASSERT(!r->asked.pending && batch->len <= REPLICA_BATCH_MAX && batch->count > 0);
        TN_ASSERT(batch->first_lsn == r->position.next_lsn);
        r->asked.pending = true;
        r->asked.batch = *batch;
        r->asked.done = done;
        r->asked.ctx = ctx;
    }
    replica_unlock(r);
    if (takes) {
        replica_wake(r);
    } else {
        done(ctx, TN_LOST);
    }
}

static enum tn_status replica_idle(struct log *base) {
    (void)base; /* the copier sees to the marks of the local log */
    return TN_OK;
}

static void replica_stats(struct log *base, struct log_stats *ret_stats) {
    struct replica *r = replica_of(base);
    uint64_t now_ms = r->manual ? r->now_ms : r->os->clock_boot_ms(r->os->ctx);
    r->local->verbs->stats(r->local, ret_stats);
    replica_lock(r);
    bool owning = now_ms < r->standing.valid_until_ms;
    uint64_t stale_ms = now_ms < r->fresh_ms ? 0 : now_ms - r->fresh_ms;
    stale_ms = r->was_fresh ? stale_ms : STALE_UNKNOWN_MS;
    ret_stats->stale_ms = owning ? 0 : stale_ms;
    ret_stats->takeovers = r->standing.takeovers;
    ret_stats->doubts = r->standing.doubts;
    ret_stats->store_bytes = r->standing.etcd_bytes;
    ret_stats->call_ns_sum = r->call_ns_sum;
    memcpy(ret_stats->call_histogram, r->call_histogram, sizeof r->call_histogram);
    replica_unlock(r);
}

static uint32_t replica_log_nodes(const struct log *base, struct log_node *ret_nodes,
                                  uint32_t room) {
    struct replica *r = (struct replica *)(uintptr_t)base;
    uint64_t now_ms = r->manual ? r->now_ms : r->os->clock_boot_ms(r->os->ctx);
    replica_lock(r);
    uint32_t count = r->node_count < room ? r->node_count : room;
    for (uint32_t i = 0; i < count; i++) {
        const struct replica_node *node = &r->nodes[i];
        struct log_node *out = &ret_nodes[i];
        memset(out, 0, sizeof *out);
        memcpy(out->name, node->name, sizeof node->name);
        memcpy(out->address, node->address, sizeof node->address);
        memcpy(out->http, node->http, sizeof node->http);
        memcpy(out->boot_id, node->boot_id, sizeof out->boot_id);
        out->clean_epoch = node->clean_epoch;
        out->applied_lsn = node->applied_lsn;
        out->age_ms = now_ms > node->seen_ms ? now_ms - node->seen_ms : 0;
        out->self = strcmp(node->name, r->options.node) == 0;
    }
    replica_unlock(r);
    return count;
}

/* Other nodes learn of it from the next record, which is due at once. */
static void replica_clean(struct log *base, uint64_t epoch) {
    struct replica *r = replica_of(base);
    if (epoch == 0) {
        replica_lock(r);
        epoch = r->standing.part == REPLICA_PART_OWNING ? 0 : r->standing.epoch;
        replica_unlock(r);
    }
    if (epoch > atomic_load(&r->clean_epoch)) { /* called often, by one thread */
        atomic_store(&r->clean_epoch, epoch);
        atomic_store(&r->beat_now, true);
        replica_wake(r);
    }
}

void replica_config_set(struct log *log, uint64_t digest) {
    struct replica *r = replica_of(log);
    if (atomic_exchange(&r->config_digest, digest) != digest) {
        atomic_store(&r->beat_now, true);
        replica_wake(r);
    }
}

static void replica_free(struct replica *r) {
    if (r->writer != NULL) {
        etcd_close(r->writer);
    }
    if (r->watcher != NULL) {
        etcd_close(r->watcher);
    }
    replica_ask_end(r);
    if (r->wake >= 0) {
        (void)close(r->wake);
    }
    free(r->appending);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
    free(r->texts);
    free(r);
}

static bool replica_close(struct log *base) {
    struct replica *r = replica_of(base);
    replica_lock(r);
    r->stop = true;
    pthread_cond_broadcast(&r->changed);
    replica_unlock(r);
    replica_wake(r);
    if (r->has_thread) {
        pthread_join(r->thread, NULL);
    }
    bool good = replica_copy_close(r);
    replica_free(r);
    return good;
}

static const struct log_verbs replica_verbs = {
    .batch_max = replica_batch_max,
    .load = replica_load,
    .start = replica_start,
    .lead = replica_lead,
    .owned = replica_owned,
    .owned_until = replica_owned_until,
    .succession = replica_succession,
    .note_get = replica_note_get,
    .note_put = replica_note_put,
    .nodes = replica_log_nodes,
    .clean = replica_clean,
    .resign = replica_resign,
    .append = replica_append,
    .answers_later = true,
    .idle = replica_idle,
    .hold = replica_hold,
    .release = replica_release,
    .stats = replica_stats,
    .close = replica_close,
};

/* ---- Looking ---- */

void replica_standing_read(struct log *log, struct replica_standing *ret_standing) {
    struct replica *r = replica_of(log);
    replica_lock(r);
    *ret_standing = r->standing;
    ret_standing->applied_lsn = r->position.lsn;
    replica_unlock(r);
    replica_copy_figures(r, &ret_standing->copied_lsn, &ret_standing->queue_bytes);
}

unsigned replica_nodes(struct log *log, struct replica_node out[REPLICA_NODES_MAX]) {
    struct replica *r = replica_of(log);
    uint64_t now_ms = r->manual ? r->now_ms : r->os->clock_boot_ms(r->os->ctx);
    replica_lock(r);
    unsigned count = r->node_count;
    memcpy(out, r->nodes, count * sizeof *out);
    replica_unlock(r);
    for (unsigned i = 0; i < count; i++) {
        out[i].age_ms = now_ms > out[i].seen_ms ? now_ms - out[i].seen_ms : 0;
    }
    return count;
}

struct log_store *replica_store(struct log *log) {
    return &replica_of(log)->store;
}

/* ---- Opening ---- */

static bool text_fits(const char *text, size_t least_len, size_t max) {
    size_t len = text != NULL ? strlen(text) : 0;
    return len >= least_len && len <= max;
}

static enum tn_status options_check(const struct replica_options *o, struct log_error *error) {
    const char *prefix = o->prefix != NULL ? o->prefix : REPLICA_PREFIX_DEFAULT;
    size_t len = strlen(prefix);
    if (len < 2 || len > REPLICA_PREFIX_MAX || prefix[len - 1] != '/') {
        return log_fail(error, TN_INVALID, "etcd_prefix must end in '/' and have 2 to %u bytes",
                        REPLICA_PREFIX_MAX);
    }
    if (!text_fits(o->node, 1, REPLICA_NODE_MAX) || strchr(o->node, '/') != NULL) {
        return log_fail(error, TN_INVALID, "node must have 1 to %u bytes and no '/'",
                        REPLICA_NODE_MAX);
    }
    if (!text_fits(o->advertise, 1, REPLICA_ADDRESS_MAX) ||
        !text_fits(o->advertise_http, 0, REPLICA_ADDRESS_MAX)) {
        return log_fail(error, TN_INVALID, "advertise must be an address of 1 to %u bytes",
                        REPLICA_ADDRESS_MAX);
    }
    if (o->leader_ttl_ms != 0 && o->leader_ttl_ms < REPLICA_TTL_MS_MIN) {
        return log_fail(error, TN_INVALID, "leader_ttl must be at least %u ms", REPLICA_TTL_MS_MIN);
    }
    return TN_OK;
}

/* All texts into one piece of memory. */
static bool texts_copy(struct replica *r) {
    struct replica_options *o = &r->options;
    const char **texts[] = {&o->dir,       &o->prefix,         &o->node,
                            &o->advertise, &o->advertise_http, &o->version};
    size_t count = sizeof texts / sizeof texts[0];
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        *texts[i] = *texts[i] != NULL ? *texts[i] : "";
        bytes += strlen(*texts[i]) + 1;
    }
    char *at = r->texts = malloc(bytes);
    for (size_t i = 0; at != NULL && i < count; i++) {
        size_t len = strlen(*texts[i]) + 1;
        memcpy(at, *texts[i], len);
        *texts[i] = at;
        at += len;
    }
    return r->texts != NULL;
}

static enum tn_status clients_open(struct replica *r, const struct replica_options *o,
                                   struct log_error *error) {
    char why[ETCD_MESSAGE_MAX];
    struct etcd_options options = {.endpoints = o->endpoints,
                                   .endpoint_count = o->endpoint_count,
                                   .ca_file = o->ca_file,
                                   .certificate_file = o->certificate_file,
                                   .key_file = o->key_file,
                                   .user = o->user,
                                   .password = o->password,
                                   .prefer_leader = true};
    enum tn_status status = etcd_open(&options, &r->writer, why);
    if (status == TN_OK) {
        options.prefer_leader = false;
        options.endpoint_first =
            (unsigned)(tn_hash64(o->node, strlen(o->node), 0) % o->endpoint_count);
        status = etcd_open(&options, &r->watcher, why);
    }
    if (status != TN_OK) {
        return log_fail(error, status, "etcd: %s",
                        status == TN_INVALID ? why : tn_status_text(status));
    }
    r->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return r->wake >= 0 ? TN_OK : log_fail(error, TN_NOMEM, "no descriptor for the cluster's log");
}

static enum tn_status file_load(struct replica *r, struct log_error *error) {
    enum tn_status status = replica_file_read(r->os, r->options.dir, &r->file);
    r->has_file = status == TN_OK;
    if (r->has_file && (r->file.flags & REPLICA_FILE_SEEDING) != 0) {
        return log_fail(error, TN_INVALID,
                        "%.300s: it is being replaced by a snapshot of another node",
                        r->options.dir);
    }
    if (status == TN_NOTFOUND || status == TN_OK) {
        return TN_OK;
    }
    return log_fail(error, status, "%.300s/" REPLICA_FILE ": %s", r->options.dir,
                    tn_status_text(status));
}

static void options_complete(struct replica *r) {
    struct replica_options *o = &r->options;
    o->prefix = o->prefix != NULL ? o->prefix : REPLICA_PREFIX_DEFAULT;
    o->leader_ttl_ms = o->leader_ttl_ms != 0 ? o->leader_ttl_ms : TTL_MS_DEFAULT;
    o->etcd_log_bytes = o->etcd_log_bytes != 0 ? o->etcd_log_bytes : LOG_BYTES_DEFAULT;
    r->os = o->os != NULL ? o->os : os_posix();
    r->local = o->local;
    r->local_store = o->local_store;
    r->manual = o->writer != NULL;
    r->writer = o->writer;
    r->watcher = o->watcher;
    r->wake = -1;
    atomic_store(&r->config_digest, o->config_digest);
    r->begin.state = o->init ? BEGIN_LOOKING : BEGIN_CONTACT;
    r->verbs = replica_verbs;
    r->verbs.confirm = o->confirm_reads ? replica_confirm : NULL;
    r->log = (struct log){.verbs = &r->verbs, .notice = o->notice, .notice_ctx = o->notice_ctx};
    r->store.verbs = &replica_store_verbs;
    if (o->boot_id != NULL) {
        memcpy(r->boot_id, o->boot_id, sizeof r->boot_id);
    }
}

static uint64_t place_of(const struct replica_options *o,
                         const uint8_t boot_id[LOG_BOOT_ID_BYTES]) {
    uint64_t directory = o->place != 0 ? o->place : tn_hash64(o->dir, strlen(o->dir), 0);
    return tn_hash64(boot_id, LOG_BOOT_ID_BYTES, directory);
}

static enum tn_status open_rest(struct replica *r, const struct replica_options *options,
                                struct log_error *error) {
    if (!texts_copy(r)) {
        return log_fail(error, TN_NOMEM, "no memory for the cluster's log");
    }
    enum tn_status status = r->os->random(r->os->ctx, &r->instance, sizeof r->instance);
    if (status != TN_OK) {
        return log_fail(error, status, "no random numbers: %s", tn_status_text(status));
    }
    r->instance.words[0] = place_of(&r->options, r->boot_id);
    status = file_load(r, error);
    return status == TN_OK && !r->manual ? clients_open(r, options, error) : status;
}

enum tn_status replica_open(const struct replica_options *options, struct log **ret_log,
                            struct log_error *error) {
    enum tn_status status = options_check(options, error);
    struct replica *r = status == TN_OK ? calloc(1, sizeof *r) : NULL;
    if (r == NULL) {
        (void)options->local->verbs->close(options->local);
        return status != TN_OK ? status : log_fail(error, TN_NOMEM, "no memory for the log");
    }
    r->options = *options;
    options_complete(r);
    int rc = pthread_mutex_init(&r->lock, NULL);
    TN_ASSERT(rc == 0);
    rc = pthread_cond_init(&r->changed, NULL);
    TN_ASSERT(rc == 0);
    replica_copy_init(r);
    status = open_rest(r, options, error);
    if (status != TN_OK) {
        (void)replica_close(&r->log);
        return status;
    }
    *ret_log = &r->log;
    return TN_OK;
}
