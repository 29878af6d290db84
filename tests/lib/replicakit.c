#include "lib/replicakit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "log/local.h"

#define DIR "/data"

/* ---- Clocks ---- */

uint64_t group_boot_ms(const struct group_node *node) {
    int64_t now_ms = (int64_t)node->group->now_ms;
    return (uint64_t)(now_ms + now_ms * node->ppm / 1000000) + 1000000 * (node->n + 1);
}

/* The tables of the disks have one context; the node is found by it. */
static struct group_node *group_nodes_running[GROUP_NODES];

static struct group_node *node_of(void *ctx) {
    for (unsigned i = 0; i < GROUP_NODES; i++) {
        if (group_nodes_running[i] != NULL && group_nodes_running[i]->os.ctx == ctx) {
            return group_nodes_running[i];
        }
    }
    return NULL;
}

/* A node that waits for its snapshot runs alone. */
static uint64_t clock_boot_ms(void *ctx) {
    const struct group_node *node = node_of(ctx);
    if (node->seeding) {
        fakeetcd_advance(node->group->fake, ++node->group->now_ms);
    }
    return group_boot_ms(node);
}

static uint64_t clock_boot_ns(void *ctx) {
    return clock_boot_ms(ctx) * 1000000;
}

static uint64_t clock_wall_ms(void *ctx) {
    const struct group_node *node = node_of(ctx);
    return (uint64_t)((int64_t)(node->group->now_ms + GROUP_WALL_MS) + node->wall_off_ms);
}

/* ---- The recorder ---- */

static enum tn_status record_batch(void *ctx, const struct log_batch *batch) {
    struct group_node *node = ctx;
    if (node->refuses != TN_OK) {
        return node->refuses;
    }
    assert_true(batch->first_lsn > node->lsn);
    assert_true(batch->now_ms >= node->now_ms);
    assert_int_equal(batch->count, 1);
    assert_int_equal(batch->len, sizeof node->payload);
    assert_true(batch->first_lsn < GROUP_IDS);
    node->ids[batch->first_lsn] = tn_load32(batch->payload + 4);
    node->lsn = batch->first_lsn;
    node->now_ms = batch->now_ms;
    node->shard = batch->shard;
    return TN_OK;
}

static enum tn_status record_snapshot_begin(void *ctx, const struct log_position *at) {
    struct group_node *node = ctx;
    node->lsn = at->lsn;
    node->now_ms = at->now_ms;
    node->shard = at->shard;
    return TN_OK;
}

static enum tn_status record_snapshot_section(void *ctx, const struct log_section *section) {
    struct group_node *node = ctx;
    assert_true(section->bytes.len <= GROUP_IDS * sizeof node->ids[0]);
    memcpy(node->ids, section->bytes.at, section->bytes.len);
    return TN_OK;
}

static enum tn_status record_snapshot_end(void *ctx) {
    (void)ctx;
    return TN_OK;
}

void group_snapshot(struct group_node *node) {
    struct log_error error = {.text = ""};
    struct log_position at = {.lsn = node->lsn, .now_ms = node->now_ms, .shard = node->shard};
    struct log_section section = {
        .kind = 1, .bytes = tn_bytes_of(node->ids, (node->lsn + 1) * sizeof node->ids[0])};
    assert_int_equal(node->store->verbs->begin(node->store, &at, &error), TN_OK);
    assert_int_equal(node->store->verbs->section(node->store, &section), TN_OK);
    assert_int_equal(node->store->verbs->end(node->store, &error), TN_OK);
}

/* ---- The engine's part ---- */

static void on_owner(void *ctx, bool owned, const char *leader) {
    struct group_node *node = ctx;
    node->owned = owned;
    node->leads = node->leads && owned;
    (void)snprintf(node->leader, sizeof node->leader, "%s", leader);
}

static uint64_t node_now(void *ctx) {
    const struct group_node *node = ctx;
    return node->leads ? node->base_ms + (group_boot_ms(node) - node->base_boot_ms) : 0;
}

/* As the engine does: the last owner's clock, or the wall clock. */
static void node_lead(struct group_node *node) {
    struct log_position at;
    struct log_error error = {.text = ""};
    if (node->log->verbs->lead(node->log, &at, &error) != TN_OK) {
        return;
    }
    assert_int_equal(at.lsn, node->lsn);
    uint64_t wall_ms = clock_wall_ms(node->os.ctx);
    struct log_succession succession;
    node->log->verbs->succession(node->log, &succession);
    uint64_t from_ms = succession.heard_ms != 0 ? succession.heard_ms : wall_ms;
    node->base_ms = from_ms > at.now_ms ? from_ms : at.now_ms;
    node->base_boot_ms = group_boot_ms(node);
    node->next_lsn = at.next_lsn;
    node->shard = at.shard;
    node->leads = true;
    node->group->leads++;
}

static void on_appended(void *ctx, enum tn_status status) {
    struct group_node *node = ctx;
    struct group *group = node->group;
    enum group_fate fate = status == TN_OK      ? GROUP_OK
                           : status == TN_DOUBT ? GROUP_UNKNOWN
                                                : GROUP_NEVER;
    assert_true(node->appending);
    assert_true(status == TN_OK || status == TN_DOUBT || status == TN_LOST || status == TN_NOSPACE);
    node->appending = false;
    group->fates[node->append_id] = (uint8_t)fate;
    group->done += fate == GROUP_OK;
    group->never += fate == GROUP_NEVER;
    group->unknown += fate == GROUP_UNKNOWN;
    if (fate == GROUP_OK) {
        node->ids[node->append_lsn] = node->append_id;
        node->lsn = node->append_lsn;
        node->now_ms = node->append_ms;
        node->next_lsn = node->append_lsn + 1;
    } else if (status != TN_NOSPACE) {
        node->leads = false;
    }
}

uint32_t group_append(struct group_node *node) {
    struct group *group = node->group;
    if (node->log == NULL || !node->leads || node->appending || group->id_last + 1 >= GROUP_IDS ||
        node->next_lsn + 1 >= GROUP_IDS) {
        return 0;
    }
    uint32_t id = ++group->id_last;
    uint64_t now_ms = node_now(node);
    uint64_t true_ms = group->now_ms + GROUP_WALL_MS;
    memset(node->payload, 0, sizeof node->payload);
    tn_store32(node->payload, sizeof node->payload - 4);
    tn_store32(node->payload + 4, id);
    node->append_id = id;
    node->append_lsn = node->next_lsn;
    node->append_ms = now_ms > node->now_ms ? now_ms : node->now_ms;
    node->appending = true;
    if (node->append_ms > true_ms && node->append_ms - true_ms > group->early_ms) {
        group->early_ms = node->append_ms - true_ms;
    }
    group->fates[id] = GROUP_PENDING;
    struct log_batch batch = {.first_lsn = node->append_lsn,
                              .now_ms = node->append_ms,
                              .payload = node->payload,
                              .len = sizeof node->payload,
                              .count = 1};
    node->log->verbs->append(node->log, &batch, on_appended, node);
    return id;
}

enum group_fate group_append_wait(struct group_node *node) {
    uint32_t id = group_append(node);
    assert_int_not_equal(id, 0);
    for (unsigned i = 0; i < 60000 && node->group->fates[id] == GROUP_PENDING; i++) {
        group_run(node->group, 1);
    }
    return (enum group_fate)node->group->fates[id];
}

/* ---- Nodes ---- */

static void on_notice(void *ctx, const char *line) {
    struct group_node *node = ctx;
    char before[sizeof node->notice];
    memcpy(before, node->notice, sizeof before);
    (void)snprintf(node->notice, sizeof node->notice, "%.400s\n%.600s", line, before);
}

static bool node_follow(struct group_node *node) {
    struct log_position at;
    struct log_error error = {.text = ""};
    struct log_loader loader = {
        .ctx = node,
        .snapshot_begin = record_snapshot_begin,
        .snapshot_section = record_snapshot_section,
        .snapshot_end = record_snapshot_end,
        .batch = record_batch,
    };
    memset(node->ids, 0, GROUP_IDS * sizeof node->ids[0]);
    node->lsn = node->now_ms = 0;
    node->owned = node->leads = node->appending = false;
    if (log_load(node->store, node->log, &loader, &at, &error) != TN_OK) {
        (void)snprintf(node->notice, sizeof node->notice, "%s", error.text);
        (void)log_close(node->store, node->log);
        node->log = NULL;
        return false;
    }
    node->follower = (struct log_follower){
        .ctx = node, .owner = on_owner, .batch = record_batch, .now = node_now};
    assert_int_equal(node->log->verbs->start(node->log, &node->follower), TN_OK);
    return true;
}

/* From disk to disk. */
static enum tn_status fetch(void *ctx, const struct replica_node *peer, uint64_t from_lsn,
                            const char *path, struct log_error *error) {
    struct group_node *node = ctx;
    struct group_node *from = &node->group->nodes[peer->http[0] - '1'];
    char name[128];
    int file;
    if (from->log == NULL || node->fetch_fails) {
        (void)snprintf(error->text, sizeof error->text, "it does not answer");
        return TN_IO;
    }
    /* The snapshot in its record may be older. */
    uint64_t newest = from->store->verbs->newest(from->store);
    if (newest < from_lsn || newest == 0) {
        (void)snprintf(error->text, sizeof error->text, "it has no snapshot yet");
        return TN_NOTFOUND;
    }
    (void)snprintf(name, sizeof name, DIR "/snapshot-%016llx.snap", (unsigned long long)newest);
    uint64_t bytes = fakeos_file_size(from->disk, name);
    uint8_t *content = malloc(bytes);
    assert_non_null(content);
    fakeos_file_read(from->disk, name, 0, content, bytes);
    content[bytes / 2] ^= node->fetch_damages;
    enum tn_status status =
        node->os.open(node->os.ctx, path, OS_WRITE | OS_CREATE | OS_TRUNCATE, &file);
    if (status == TN_OK) {
        status = node->os.write_at(node->os.ctx, file, content, bytes, 0);
        (void)node->os.close(node->os.ctx, file);
    }
    free(content);
    return status;
}

static bool start_failed(struct group_node *node, const struct log_error *error) {
    if (node->writer != NULL) {
        etcd_close(node->writer);
        etcd_close(node->watcher);
    }
    (void)snprintf(node->notice, sizeof node->notice, "%s", error->text);
    return false;
}

bool group_try_start(struct group *group, unsigned n, const struct group_start *start) {
    static const char *const names[] = {"n1", "n2", "n3"};
    static const char *const addresses[] = {"h1:1", "h2:2", "h3:3"};
    static const char *const https[] = {"1:80", "2:80", "3:80"};
    struct group_node *node = &group->nodes[n];
    struct log_error error = {.text = ""};
    struct log *local;
    struct group_start none = {.init = false};
    start = start != NULL ? start : &none;
    assert_null(node->log);
    node->writer = fakeetcd_client(group->fake, n);
    node->watcher = fakeetcd_client(group->fake, n);
    struct replica_options options = {
        .os = &node->os,
        .dir = DIR,
        .prefix = start->prefix != NULL ? start->prefix : GROUP_PREFIX,
        .node = start->name != NULL ? start->name : names[n],
        .place = start->place != 0 ? start->place : n + 1,
        .advertise = addresses[n],
        .advertise_http = https[n],
        .state_version = start->state_version != 0 ? start->state_version : GROUP_STATE_VERSION,
        .leader_ttl_ms = GROUP_TTL_MS,
        .etcd_log_bytes = start->log_bytes,
        .etcd_quota_bytes = start->quota_bytes,
        .init = start->init,
        .restored = start->restored,
        .notice = on_notice,
        .notice_ctx = node,
        .writer = node->writer,
        .watcher = node->watcher,
        .fetch = fetch,
        .fetch_ctx = node,
    };
    node->seeding = start->seed;
    enum tn_status status = start->seed ? replica_seed(&options, &node->seeded_lsn, &error) : TN_OK;
    node->seeding = false;
    if (status != TN_OK) {
        return start_failed(node, &error);
    }
    struct log_local_options local_options = {.os = &node->os,
                                              .dir = DIR,
                                              .segment_bytes = 1 << 16,
                                              .no_background = true,
                                              .copy = true,
                                              .copy_begins = start->init,
                                              .restored = start->init && start->restored};
    if (log_local_open(&local_options, on_notice, node, &local, &error) != TN_OK) {
        return start_failed(node, &error);
    }
    options.local = local;
    options.local_store = log_local_store(local);
    if (replica_open(&options, &node->log, &error) != TN_OK) {
        node->writer = node->watcher = NULL; /* closed */
        return start_failed(node, &error);
    }
    node->store = replica_store(node->log);
    if (group->part != NULL && !group->part->open(node)) {
        node->log = NULL;
    }
    return group->part != NULL ? node->log != NULL : node_follow(node);
}

void group_start(struct group *group, unsigned n, const struct group_start *start) {
    if (!group_try_start(group, n, start) && (start == NULL || !start->seed)) {
        fail_msg("%s", group->nodes[n].notice);
    }
}

static void node_end(struct group_node *node) {
    if (node->log == NULL) {
        return;
    }
    if (node->group->part != NULL) {
        node->group->part->close(node);
    } else {
        (void)log_close(node->store, node->log);
    }
    node->log = NULL;
    node->owned = node->leads = false;
    if (node->appending) { /* nobody was told */
        node->appending = false;
        node->group->fates[node->append_id] = GROUP_UNKNOWN;
        node->group->unknown++;
    }
}

void group_stop(struct group *group, unsigned n) {
    node_end(&group->nodes[n]);
}

static void node_die(struct group_node *node) {
    fakeos_cut_call(node->disk, fakeos_calls(node->disk) + 1);
    node_end(node);
}

void group_cut(struct group *group, unsigned n) {
    node_die(&group->nodes[n]);
    fakeos_reboot(group->nodes[n].disk);
}

void group_kill(struct group *group, unsigned n) {
    node_die(&group->nodes[n]);
    fakeos_restart(group->nodes[n].disk);
}

static void disk_new(struct group_node *node) {
    node->disk = fakeos_new(tn_prng_next(&node->group->prng));
    node->os = *fakeos_table(node->disk);
    node->os.clock_boot_ms = clock_boot_ms;
    node->os.clock_boot_ns = clock_boot_ns;
    node->os.clock_wall_ms = clock_wall_ms;
    group_nodes_running[node->n] = node;
}

void group_wipe(struct group *group, unsigned n) {
    struct group_node *node = &group->nodes[n];
    assert_null(node->log);
    fakeos_free(node->disk);
    disk_new(node);
}

/* ---- The world ---- */

void group_open(struct group *group, uint64_t seed) {
    static const int64_t ppm[GROUP_NODES] = {-500, 0, 500};
    memset(group, 0, sizeof *group);
    tn_prng_seed(&group->prng, seed);
    group->fake = fakeetcd_new(seed, 3);
    group->fates = calloc(GROUP_IDS, 1);
    assert_non_null(group->fates);
    for (unsigned n = 0; n < GROUP_NODES; n++) {
        struct group_node *node = &group->nodes[n];
        node->group = group;
        node->n = n;
        node->ppm = ppm[n];
        node->ids = calloc(GROUP_IDS, sizeof node->ids[0]);
        assert_non_null(node->ids);
        disk_new(node);
    }
}

void group_close(struct group *group) {
    for (unsigned n = 0; n < GROUP_NODES; n++) {
        node_end(&group->nodes[n]);
        fakeos_free(group->nodes[n].disk);
        free(group->nodes[n].ids);
        group_nodes_running[n] = NULL;
    }
    fakeetcd_free(group->fake);
    free(group->fates);
}

struct group_node *group_owner(struct group *group) {
    struct group_node *owner = NULL;
    for (unsigned n = 0; n < GROUP_NODES; n++) {
        struct group_node *node = &group->nodes[n];
        struct replica_standing standing;
        if (node->log == NULL) {
            continue;
        }
        replica_standing_read(node->log, &standing); /* whether it would say so now, hung or not */
        if (group_boot_ms(node) < standing.valid_until_ms) {
            assert_null(owner);
            owner = node;
        }
    }
    return owner;
}

static void node_turn(struct group_node *node) {
    const struct group_part *part = node->group->part;
    if (part != NULL) {
        part->before(node);
    }
    replica_turn(node->log, group_boot_ms(node));
    if (part != NULL) {
        part->after(node);
    } else if (node->owned && !node->leads) {
        node_lead(node);
    }
}

void group_run(struct group *group, uint64_t ms) {
    for (uint64_t end_ms = group->now_ms + ms; group->now_ms < end_ms;) {
        fakeetcd_advance(group->fake, ++group->now_ms);
        for (unsigned n = 0; n < GROUP_NODES; n++) {
            struct group_node *node = &group->nodes[n];
            if (node->log == NULL || group->now_ms < node->hangs_until_ms) {
                continue;
            }
            node_turn(node);
        }
        (void)group_owner(group);
    }
}

bool group_run_until(struct group *group, uint64_t ms, group_condition *met) {
    for (uint64_t i = 0; i < ms && !met(group); i++) {
        group_run(group, 1);
    }
    return met(group);
}

static bool is_led(struct group *group) {
    const struct group_node *owner = group_owner(group);
    return owner != NULL && owner->leads;
}

struct group_node *group_await_owner(struct group *group, uint64_t ms) {
    if (!group_run_until(group, ms, is_led)) {
        fail_msg("nobody owns the log; the nodes say:\n%s%s%s", group->nodes[0].notice,
                 group->nodes[1].notice, group->nodes[2].notice);
    }
    return group_owner(group);
}

static bool is_settled(struct group *group) {
    uint64_t lsn = UINT64_MAX;
    for (unsigned n = 0; n < GROUP_NODES; n++) {
        const struct group_node *node = &group->nodes[n];
        if (node->log == NULL) {
            continue;
        }
        if (node->appending || (lsn != UINT64_MAX && node->lsn != lsn)) {
            return false;
        }
        lsn = node->lsn;
    }
    return true;
}

bool group_settle(struct group *group, uint64_t ms) {
    return group_run_until(group, ms, is_settled);
}

static void ids_check(struct group *group, const struct group_node *node, bool complete) {
    uint8_t *found = calloc(GROUP_IDS, 1);
    assert_non_null(found);
    for (uint64_t lsn = 1; lsn <= node->lsn; lsn++) {
        uint32_t id = node->ids[lsn];
        assert_true(id <= group->id_last);
        assert_true(id == 0 || found[id] == 0);
        found[id] = 1;
    }
    for (uint32_t id = 1; id <= group->id_last; id++) {
        if (group->fates[id] == GROUP_OK && complete && !found[id]) {
            fail_msg("node %u lacks id %u, which was acknowledged", node->n, id);
        }
        if (group->fates[id] == GROUP_NEVER && found[id]) {
            fail_msg("node %u has id %u, which was refused", node->n, id);
        }
    }
    free(found);
}

void group_check(struct group *group) {
    const struct group_node *longest = NULL;
    for (unsigned n = 0; n < GROUP_NODES; n++) {
        const struct group_node *node = &group->nodes[n];
        if (node->log != NULL && (longest == NULL || node->lsn > longest->lsn)) {
            longest = node;
        }
    }
    assert_non_null(longest);
    for (unsigned n = 0; n < GROUP_NODES; n++) {
        const struct group_node *node = &group->nodes[n];
        if (node->log != NULL) {
            ids_check(group, node, node->lsn == longest->lsn);
            assert_memory_equal(node->ids, longest->ids, (node->lsn + 1) * sizeof node->ids[0]);
        }
    }
    /* 500 ppm of the whole run, and rounding. */
    assert_true(group->early_ms <= group->now_ms / 1000 + 10);
}

void group_appends(struct group_node *owner, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(group_append_wait(owner), GROUP_OK);
    }
}

struct group_node *group_begin(struct group *group, unsigned nodes) {
    group_open(group, 1);
    group_start(group, 0, &(struct group_start){.init = true});
    for (unsigned n = 1; n < nodes; n++) {
        group_start(group, n, NULL);
    }
    struct group_node *owner = group_await_owner(group, 5000);
    assert_true(group_run_until(group, 5000, group_takes_part));
    return owner;
}

bool group_takes_part(struct group *group) {
    for (unsigned n = 0; n < GROUP_NODES; n++) {
        struct replica_standing standing;
        if (group->nodes[n].log != NULL) {
            replica_standing_read(group->nodes[n].log, &standing);
            if (standing.part == REPLICA_PART_WAITING || !standing.caught_up) {
                return false;
            }
        }
    }
    return true;
}

enum replica_trouble group_trouble(const struct group_node *node) {
    struct replica_standing standing;
    replica_standing_read(node->log, &standing);
    return standing.trouble;
}
