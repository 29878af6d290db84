/* The client of etcd against three real members: calls, watches, and members that die or hang. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/etcdkit.h"

static struct etcdkit kit;

static struct etcd *client_open(const struct etcd_options *options) {
    struct etcd *etcd = NULL;
    char error[ETCD_MESSAGE_MAX];
    if (etcd_open(options, &etcd, error) != TN_OK) {
        fail_msg("%s", error);
    }
    return etcd;
}

static struct etcd *client(void) {
    struct etcd_options options = etcdkit_client(&kit);
    return client_open(&options);
}

static int group_setup(void **state) {
    struct etcdkit_options options = {.members = 3};
    struct etcdkit_reply reply = {0};
    (void)state;
    (void)signal(SIGPIPE, SIG_DFL); /* the client must not raise it */
    etcdkit_open(&kit, &options);
    struct etcd *etcd = client();
    etcdkit_put(etcd, "/ready", "yes", &reply);
    etcd_close(etcd);
    return 0;
}

static int group_teardown(void **state) {
    (void)state;
    etcdkit_close(&kit);
    return 0;
}

/* ---- Calls ---- */

static void a_swap_is_done_once_and_then_fails_its_compare(void **state) {
    struct etcdkit_reply reply = {0};
    struct etcd *etcd = client();
    (void)state;
    etcdkit_swap(etcd, "/swap", NULL, "one", 30000, &reply);
    assert_int_equal(reply.outcome, ETCD_DONE);
    assert_int_equal(reply.reason, ETCD_NONE);
    assert_int_equal(reply.grpc_status, 0);
    assert_true(reply.header.revision > 1 && reply.header.cluster_id != 0);
    etcdkit_swap(etcd, "/swap", NULL, "two", 30000, &reply);
    assert_int_equal(reply.outcome, ETCD_COMPARE_FAILED);
    assert_int_equal(reply.count, 1); /* the otherwise-branch read it */
    assert_string_equal(reply.kvs[0].value, "one");
    etcdkit_swap(etcd, "/swap", "one", "two", 30000, &reply);
    assert_int_equal(reply.outcome, ETCD_DONE);
    etcdkit_swap(etcd, "/swap", "one", "two", 30000, &reply);
    assert_int_equal(reply.outcome, ETCD_COMPARE_FAILED);
    assert_string_equal(reply.kvs[0].value, "two");
    assert_int_equal(reply.kvs[0].version, 2);
    /* A key that does not exist has no value, not even an empty one. */
    etcdkit_swap(etcd, "/swap-absent", "", "x", 30000, &reply);
    assert_int_equal(reply.outcome, ETCD_COMPARE_FAILED);
    assert_int_equal(reply.count, 0);
    etcd_close(etcd);
}

static void ranges_have_limits_revisions_and_deletions(void **state) {
    struct etcdkit_reply reply = {0};
    struct etcd *etcd = client();
    uint8_t end[16];
    struct tn_bytes prefix = etcdkit_text("/range/");
    (void)state;
    for (char key[] = "/range/a"; key[7] <= 'e'; key[7]++) {
        etcdkit_put(etcd, key, "v", &reply);
    }
    int64_t revision = reply.header.revision;
    struct etcd_request request = {
        .verb = ETCD_RANGE,
        .range = {.keys = {.key = prefix, .end = etcd_prefix_end(prefix, end)}, .limit = 2}};
    etcdkit_call(etcd, &request, 30000, &reply);
    assert_int_equal(reply.outcome, ETCD_DONE);
    assert_int_equal(reply.count, 2);
    assert_int_equal(reply.total, 5);
    assert_true(reply.more);
    assert_string_equal(reply.kvs[1].key, "/range/b");
    struct etcd_op ops[] = {
        {.kind = ETCD_DELETE, .keys = {etcdkit_text("/range/a"), etcdkit_text("/range/d")}},
        {.kind = ETCD_GET, .keys = {prefix, etcd_prefix_end(prefix, end)}},
        {.kind = ETCD_PUT, .keys = {.key = etcdkit_text("/range/z")}, .value = etcdkit_text("z")}};
    struct etcd_request txn = {.verb = ETCD_TXN, .txn = {.then = ops, .then_count = 3}};
    etcdkit_call(etcd, &txn, 30000, &reply);
    assert_int_equal(reply.outcome, ETCD_DONE);
    assert_int_equal(reply.deleted, 3);
    assert_int_equal(reply.count, 2); /* as the deletion left the key */
    request.range =
        (struct etcd_range){.keys = request.range.keys, .revision = revision, .serializable = true};
    etcdkit_call(etcd, &request, 30000, &reply);
    assert_int_equal(reply.outcome, ETCD_DONE);
    assert_int_equal(reply.count, 5);
    request.range.revision = revision + 1000000;
    etcdkit_call(etcd, &request, 30000, &reply);
    assert_int_equal(reply.outcome, ETCD_SURELY_NOT);
    assert_int_equal(reply.reason, ETCD_FUTURE);
    etcd_close(etcd);
}

static void answers_of_many_megabytes_come_whole(void **state) {
    struct etcdkit_reply reply = {0};
    struct etcd *etcd = client();
    uint32_t len = 1 << 20;
    char *value = malloc(len);
    (void)state;
    assert_non_null(value);
    memset(value, 'x', len);
    for (char key[] = "/large/a"; key[7] <= 'h'; key[7]++) {
        struct etcd_op put = {
            .kind = ETCD_PUT, .keys = {.key = etcdkit_text(key)}, .value = tn_bytes_of(value, len)};
        struct etcd_request request = {.verb = ETCD_TXN, .txn = {.then = &put, .then_count = 1}};
        etcdkit_call_surely(etcd, &request, &reply);
    }
    etcdkit_range(etcd, "/large/", &reply);
    assert_int_equal(reply.count, 8);
    assert_int_equal(reply.kvs[7].len, len);
    etcd_close(etcd);
    /* A client with less room says so, and a smaller question is answered. */
    struct etcd_options options = etcdkit_client(&kit);
    options.answer_bytes_max = 2 << 20;
    etcd = client_open(&options);
    uint8_t end[16];
    struct tn_bytes prefix = etcdkit_text("/large/");
    struct etcd_request request = {.verb = ETCD_RANGE,
                                   .range = {.keys = {prefix, etcd_prefix_end(prefix, end)}}};
    etcdkit_call(etcd, &request, 30000, &reply);
    assert_int_equal(reply.outcome, ETCD_DOUBT);
    assert_int_equal(reply.reason, ETCD_TOO_LARGE);
    request.range.limit = 1;
    etcdkit_call_surely(etcd, &request, &reply);
    assert_int_equal(reply.kvs[0].len, len);
    etcd_close(etcd);
    free(value);
}

static void a_request_that_is_too_large_surely_does_nothing(void **state) {
    struct etcdkit_reply reply = {0};
    struct etcd_options options = etcdkit_client(&kit);
    options.request_bytes_max = 8 << 20;
    struct etcd *etcd = client_open(&options);
    uint32_t lens[] = {1800000, 3000000, 8 << 20};
    char *value = calloc(1, lens[2]);
    (void)state;
    assert_non_null(value);
    for (unsigned i = 0; i < 3; i++) {
        struct etcd_op put = {.kind = ETCD_PUT,
                              .keys = {.key = etcdkit_text("/too-large")},
                              .value = tn_bytes_of(value, lens[i])};
        struct etcd_request request = {.verb = ETCD_TXN, .txn = {.then = &put, .then_count = 1}};
        if (i == 2) { /* larger than our own limit: not even sent */
            assert_int_equal(etcd_submit(etcd, &request, etcdkit_now(), etcdkit_done, &reply),
                             TN_INVALID);
            continue;
        }
        etcdkit_call(etcd, &request, 30000, &reply); /* etcd's limit, then that of its gRPC */
        assert_int_equal(reply.outcome, ETCD_SURELY_NOT);
        assert_int_equal(reply.reason, ETCD_TOO_LARGE);
    }
    etcdkit_range(etcd, "/too-large", &reply);
    assert_int_equal(reply.count, 0);
    etcd_close(etcd);
    free(value);
}

static void too_many_calls_are_refused_and_all_taken_ones_end(void **state) {
    struct etcdkit_reply *replies = calloc(ETCD_CALLS_MAX + 1, sizeof *replies);
    struct etcd *etcd = client();
    struct etcd_request request = {.verb = ETCD_STATUS};
    (void)state;
    assert_non_null(replies);
    for (unsigned i = 0; i <= ETCD_CALLS_MAX; i++) {
        enum tn_status status =
            etcd_submit(etcd, &request, etcdkit_now() + 30000, etcdkit_done, &replies[i]);
        assert_int_equal(status, i < ETCD_CALLS_MAX ? TN_OK : TN_OVERLOAD);
    }
    for (unsigned i = 0; i < ETCD_CALLS_MAX; i++) {
        etcdkit_wait(etcd, &replies[i]);
        assert_int_equal(replies[i].outcome, ETCD_DONE);
        assert_memory_equal(replies[i].version, "3.", 2);
        assert_true(replies[i].status.db_bytes > 0 && replies[i].status.leader != 0);
    }
    etcd_close(etcd);
    free(replies);
}

/* ---- Watches ---- */

/* What a watch reported, as one text: "created", "put K=V", "delete K", "progress", "ended
 * REASON". */
struct seen {
    char text[4096];
    bool ended;
    bool created;
    unsigned changes;
    unsigned progress;
    int64_t revision; /* revision of the last change */
    int64_t compact_revision;
};

static void watched(void *ctx, const struct etcd_news *news) {
    struct seen *seen = ctx;
    assert_false(seen->ended);
    seen->created |= news->kind == ETCD_WATCH_CREATED;
    seen->progress += news->kind == ETCD_WATCH_PROGRESS;
    seen->ended = news->kind == ETCD_WATCH_ENDED;
    seen->compact_revision = news->compact_revision;
    size_t len = strlen(seen->text);
    if (seen->ended) {
        snprintf(seen->text + len, sizeof seen->text - len, "ended %s\n",
                 etcd_reason_name(news->reason));
    }
    for (uint32_t i = 0; i < news->change_count; i++) {
        const struct etcd_change *change = &news->changes[i];
        assert_true(change->kv.mod_revision >= seen->revision);
        seen->revision = change->kv.mod_revision;
        seen->changes++;
        len = strlen(seen->text);
        snprintf(seen->text + len, sizeof seen->text - len, "%s %.*s=%.*s\n",
                 change->deleted ? "delete" : "put", (int)change->kv.key.len, change->kv.key.at,
                 change->kv.value.len > 20 ? 1 : (int)change->kv.value.len, change->kv.value.at);
    }
}

static bool is_ended(void *ctx) {
    return ((struct seen *)ctx)->ended;
}

static bool is_created(void *ctx) {
    return ((struct seen *)ctx)->created;
}

static bool has_progress(void *ctx) {
    return ((struct seen *)ctx)->progress > 0;
}

static bool has_three(void *ctx) {
    return ((struct seen *)ctx)->changes >= 3;
}

static uint64_t watch_begin(struct etcd *etcd, const char *key, int64_t start, uint64_t connection,
                            struct seen *seen) {
    static uint8_t end[64];
    uint64_t id = 0;
    struct etcd_watch_options options = {
        .keys = {etcdkit_text(key), etcd_prefix_end(etcdkit_text(key), end)},
        .start_revision = start,
        .connection = connection,
        .deadline_ms = etcdkit_now() + 30000,
    };
    assert_int_equal(etcd_watch(etcd, &options, watched, seen, &id), TN_OK);
    return id;
}

static void a_watch_goes_on_from_a_revision(void **state) {
    struct etcdkit_reply reply = {0};
    struct seen seen = {0};
    struct etcd *etcd = client();
    (void)state;
    etcdkit_put(etcd, "/watch/a", "1", &reply);
    etcdkit_put(etcd, "/watch/b", "2", &reply);
    etcdkit_range(etcd, "/watch/", &reply);
    int64_t start = reply.header.revision;
    uint64_t id = watch_begin(etcd, "/watch/", start, reply.connection, &seen);
    etcdkit_wait_until(etcd, is_created, &seen);
    etcdkit_put(etcd, "/watch/a", "3", &reply);
    struct etcd_op op = {.kind = ETCD_DELETE, .keys = {.key = etcdkit_text("/watch/b")}};
    struct etcd_request request = {.verb = ETCD_TXN, .txn = {.then = &op, .then_count = 1}};
    etcdkit_call(etcd, &request, 30000, &reply);
    etcdkit_wait_until(etcd, has_three, &seen);
    assert_string_equal(seen.text, "put /watch/b=2\nput /watch/a=3\ndelete /watch/b=\n");
    etcd_watch_progress(etcd, id);
    etcdkit_wait_until(etcd, has_progress, &seen);
    etcd_watch_cancel(etcd, id);
    etcd_watch_cancel(etcd, id);
    etcdkit_put(etcd, "/watch/a", "4", &reply);
    assert_int_equal(seen.changes, 3);
    etcd_close(etcd);
}

static void a_large_change_comes_in_parts(void **state) {
    struct etcdkit_reply reply = {0};
    struct seen seen = {0};
    struct etcd *etcd = client();
    struct etcd *watcher = client();
    char *value = malloc(1 << 20);
    (void)state;
    assert_non_null(value);
    memset(value, 'y', 1 << 20);
    (void)watch_begin(watcher, "/parts/", 0, 0, &seen);
    etcdkit_wait_until(watcher, is_created, &seen);
    for (char key[] = "/parts/a"; key[7] <= 'c'; key[7]++) {
        struct etcd_op put = {.kind = ETCD_PUT,
                              .keys = {.key = etcdkit_text(key)},
                              .value = tn_bytes_of(value, 1 << 20)};
        struct etcd_request request = {.verb = ETCD_TXN, .txn = {.then = &put, .then_count = 1}};
        etcdkit_call_surely(etcd, &request, &reply);
    }
    etcdkit_wait_until(watcher, has_three, &seen);
    assert_string_equal(seen.text, "put /parts/a=y\nput /parts/b=y\nput /parts/c=y\n");
    etcd_close(etcd);
    etcd_close(watcher);
    free(value);
}

static void a_compacted_revision_ends_a_watch_and_refuses_a_range(void **state) {
    struct etcdkit_reply reply = {0};
    struct seen seen = {0};
    struct etcd *etcd = client();
    (void)state;
    etcdkit_put(etcd, "/compact/a", "1", &reply);
    int64_t old = reply.header.revision;
    etcdkit_put(etcd, "/compact/a", "2", &reply);
    struct etcd_request compact = {.verb = ETCD_COMPACT, .revision = reply.header.revision};
    etcdkit_call_surely(etcd, &compact, &reply);
    etcdkit_call(etcd, &compact, 30000, &reply);
    assert_int_equal(reply.outcome, ETCD_SURELY_NOT); /* it has been */
    assert_int_equal(reply.reason, ETCD_COMPACTED);
    struct etcd_request request = {
        .verb = ETCD_RANGE,
        .range = {.keys = {.key = etcdkit_text("/compact/a")}, .revision = old}};
    etcdkit_call(etcd, &request, 30000, &reply);
    assert_int_equal(reply.outcome, ETCD_SURELY_NOT);
    assert_int_equal(reply.reason, ETCD_COMPACTED);
    (void)watch_begin(etcd, "/compact/", old, 0, &seen);
    etcdkit_wait_until(etcd, is_ended, &seen);
    assert_string_equal(seen.text, "ended COMPACTED\n");
    assert_int_equal(seen.compact_revision, compact.revision);
    etcd_close(etcd);
}

static void a_watch_that_belongs_to_another_connection_ends(void **state) {
    struct etcdkit_reply reply = {0};
    struct seen seen = {0};
    struct etcd *etcd = client();
    struct etcd_info before, after;
    (void)state;
    etcdkit_range(etcd, "/none", &reply);
    etcd_info(etcd, &before);
    assert_int_equal(before.connection, reply.connection);
    etcd_leave(etcd);
    (void)watch_begin(etcd, "/none", 0, reply.connection, &seen);
    etcdkit_wait_until(etcd, is_ended, &seen);
    assert_string_equal(seen.text, "ended LOST\n");
    etcd_info(etcd, &after);
    assert_string_not_equal(before.endpoint, after.endpoint);
    etcd_close(etcd);
}

/* ---- Members that die or hang ---- */

static bool knows_leader(void *ctx) {
    struct etcd_info info;
    etcd_info(ctx, &info);
    return info.leader != 0 && info.member_id == info.leader;
}

/* Which member of the kit a client is connected to. */
static unsigned member_of(const struct etcd *etcd) {
    struct etcd_info info;
    etcd_info(etcd, &info);
    for (unsigned i = 0; i < kit.options.members; i++) {
        if (strstr(kit.members[i].url, info.endpoint) != NULL) {
            return i;
        }
    }
    fail_msg("not one of ours: %s", info.endpoint);
    return 0;
}

static struct etcd *client_of_leader(void) {
    struct etcd_options options = etcdkit_client(&kit);
    options.prefer_leader = true;
    options.probe_ms = 50;
    struct etcd *etcd = client_open(&options);
    etcdkit_wait_until(etcd, knows_leader, etcd);
    return etcd;
}

static void a_writer_finds_the_leader_and_follows_it(void **state) {
    struct etcdkit_reply reply = {0};
    struct etcd *etcd = client_of_leader();
    unsigned leader = member_of(etcd);
    char words[128];
    (void)state;
    etcdkit_put(etcd, "/leader", "first", &reply);
    struct etcd_info info;
    etcd_info(etcd, &info);
    /* Leadership moves to a member that did not have it. */
    unsigned other = (leader + 1) % 3;
    struct etcd_options options = etcdkit_client(&kit);
    options.endpoints = &kit.urls[other];
    options.endpoint_count = 1;
    struct etcd *probe = client_open(&options);
    struct etcd_request status = {.verb = ETCD_STATUS};
    etcdkit_call_surely(probe, &status, &reply);
    etcd_close(probe);
    snprintf(words, sizeof words, "--endpoints %s move-leader %llx", kit.urls[leader],
             (unsigned long long)reply.header.member_id);
    etcdkit_ctl(&kit, words);
    while (member_of(etcd) != other) {
        etcdkit_put(etcd, "/leader", "again", &reply); /* no call is lost in between */
    }
    etcd_close(etcd);
}

static void a_watch_survives_the_leader_by_reading_again(void **state) {
    struct etcdkit_reply reply = {0};
    struct seen seen = {0};
    struct etcd *writer = client_of_leader();
    unsigned leader = member_of(writer);
    struct etcd_options options = etcdkit_client(&kit);
    options.endpoint_first = leader;
    struct etcd *watcher = client_open(&options);
    (void)state;
    etcdkit_put(writer, "/kill/a", "1", &reply);
    etcdkit_range(watcher, "/kill/", &reply);
    assert_int_equal(member_of(watcher), leader);
    (void)watch_begin(watcher, "/kill/", reply.header.revision + 1, reply.connection, &seen);
    etcdkit_wait_until(watcher, is_created, &seen);
    etcdkit_kill(&kit, leader);
    etcdkit_wait_until(watcher, is_ended, &seen);
    assert_string_equal(seen.text, "ended LOST\n");
    struct etcdkit_reply again = {0};
    seen = (struct seen){0};
    etcdkit_range(watcher, "/kill/", &again);
    assert_string_equal(again.kvs[0].value, "1");
    (void)watch_begin(watcher, "/kill/", again.header.revision + 1, again.connection, &seen);
    etcdkit_put(writer, "/kill/a", "2", &reply);
    etcdkit_put(writer, "/kill/a", "3", &reply);
    etcdkit_put(writer, "/kill/a", "4", &reply);
    etcdkit_wait_until(watcher, has_three, &seen);
    assert_string_equal(seen.text, "put /kill/a=2\nput /kill/a=3\nput /kill/a=4\n");
    etcdkit_start(&kit, leader);
    etcd_close(writer);
    etcd_close(watcher);
}

static void a_hung_member_leaves_a_doubt_and_the_next_one_answers(void **state) {
    struct etcdkit_reply reply = {0};
    struct etcd *etcd = client_of_leader();
    unsigned leader = member_of(etcd);
    (void)state;
    etcdkit_put(etcd, "/hang", "1", &reply);
    etcdkit_pause(&kit, leader);
    etcdkit_swap(etcd, "/hang", "1", "2", 500, &reply);
    assert_int_equal(reply.outcome, ETCD_DOUBT);
    assert_int_equal(reply.reason, ETCD_TIMEOUT);
    assert_int_not_equal(member_of(etcd), leader);
    /* The doubt is resolved by the same transaction at another member. */
    do {
        etcdkit_swap(etcd, "/hang", "1", "2", 500, &reply);
    } while (reply.outcome == ETCD_DOUBT || reply.outcome == ETCD_SURELY_NOT);
    if (reply.outcome == ETCD_COMPARE_FAILED) { /* one of the doubtful calls was carried out */
        assert_string_equal(reply.kvs[0].value, "2");
    }
    etcdkit_resume(&kit, leader);
    etcd_close(etcd);
}

static void a_watch_on_a_hung_member_ends(void **state) {
    struct seen seen = {0};
    struct etcd_options options = etcdkit_client(&kit);
    options.silence_ms = 1000;
    struct etcd *etcd = client_open(&options);
    (void)state;
    (void)watch_begin(etcd, "/hang", 0, 0, &seen);
    etcdkit_wait_until(etcd, is_created, &seen);
    unsigned member = member_of(etcd);
    etcdkit_pause(&kit, member);
    etcdkit_wait_until(etcd, is_ended, &seen);
    assert_string_equal(seen.text, "ended LOST\n");
    etcdkit_resume(&kit, member);
    etcd_close(etcd);
}

static void without_a_quorum_writes_are_in_doubt_and_recover(void **state) {
    struct etcdkit_reply reply = {0};
    struct etcd *etcd = client();
    (void)state;
    etcdkit_put(etcd, "/quorum", "1", &reply);
    etcdkit_kill(&kit, 1);
    etcdkit_kill(&kit, 2);
    etcdkit_swap(etcd, "/quorum", "1", "2", 500, &reply);
    assert_true(reply.outcome == ETCD_DOUBT || reply.outcome == ETCD_SURELY_NOT);
    /* What this member has can still be read. */
    struct etcd_request request = {
        .verb = ETCD_RANGE,
        .range = {.keys = {.key = etcdkit_text("/quorum")}, .serializable = true}};
    etcdkit_call_surely(etcd, &request, &reply);
    assert_string_equal(reply.kvs[0].value, "1");
    etcdkit_start(&kit, 1);
    etcdkit_start(&kit, 2);
    etcdkit_put(etcd, "/quorum", "3", &reply);
    etcd_close(etcd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_swap_is_done_once_and_then_fails_its_compare),
        cmocka_unit_test(ranges_have_limits_revisions_and_deletions),
        cmocka_unit_test(answers_of_many_megabytes_come_whole),
        cmocka_unit_test(a_request_that_is_too_large_surely_does_nothing),
        cmocka_unit_test(too_many_calls_are_refused_and_all_taken_ones_end),
        cmocka_unit_test(a_watch_goes_on_from_a_revision),
        cmocka_unit_test(a_large_change_comes_in_parts),
        cmocka_unit_test(a_compacted_revision_ends_a_watch_and_refuses_a_range),
        cmocka_unit_test(a_watch_that_belongs_to_another_connection_ends),
        cmocka_unit_test(a_writer_finds_the_leader_and_follows_it),
        cmocka_unit_test(a_watch_survives_the_leader_by_reading_again),
        cmocka_unit_test(a_hung_member_leaves_a_doubt_and_the_next_one_answers),
        cmocka_unit_test(a_watch_on_a_hung_member_ends),
        cmocka_unit_test(without_a_quorum_writes_are_in_doubt_and_recover),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
