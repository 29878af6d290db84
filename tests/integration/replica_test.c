/* tsan */
/* The replicated log with its threads: three engines over three real members of etcd. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernel/kernel.h"
#include "lib/enginekit.h"
#include "lib/etcdkit.h"
#include "replica/replica.h"

#define NODES 3u

struct rnode {
    char name[8], address[16], dir[128];
    struct engine *engine;
    struct log *log;
};

static struct etcdkit etcd;
static struct rnode nodes[NODES];

static void tell(void *ctx, const char *line) {
    printf("%s: %s\n", ((struct rnode *)ctx)->name, line);
}

static void node_open(unsigned n, bool init) {
    struct rnode *node = &nodes[n];
    struct log_error error = {.text = ""};
    struct log *local;
    struct log_local_options local_options = {
        .os = os_posix(), .dir = node->dir, .copy = true, .copy_begins = init};
    assert_int_equal(log_local_open(&local_options, tell, node, &local, &error), TN_OK);
    struct replica_options options = {.local = local,
                                      .local_store = log_local_store(local),
                                      .dir = node->dir,
                                      .endpoints = etcd.urls,
                                      .endpoint_count = etcd.options.members,
                                      .node = node->name,
                                      .advertise = node->address,
                                      .state_version = KERNEL_STATE_VERSION,
                                      .confirm_reads = true,
                                      .init = init,
                                      .notice = tell,
                                      .notice_ctx = node};
    if (replica_open(&options, &node->log, &error) != TN_OK) {
        fail_msg("%s", error.text);
    }
    struct engine_options engine_options = {.log = node->log,
                                            .store = replica_store(node->log),
                                            .early_commands_min = 1,
                                            .notice = tell,
                                            .notice_ctx = node};
    ekit_limits_small(&engine_options);
    if (engine_open(&engine_options, &node->engine, &error) != TN_OK) {
        fail_msg("%s", error.text);
    }
}

static void node_close(struct rnode *node) {
    assert_true(engine_close(node->engine));
    node->engine = NULL;
}

static int group_setup(void **state) {
    struct etcdkit_options options = {.members = 3};
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    etcdkit_open(&etcd, &options);
    for (unsigned n = 0; n < NODES; n++) {
        (void)snprintf(nodes[n].name, sizeof nodes[n].name, "n%u", n);
        (void)snprintf(nodes[n].address, sizeof nodes[n].address, "h%u:7411", n);
        ekit_dir_make(nodes[n].dir);
        node_open(n, n == 0);
    }
    return 0;
}

static int group_teardown(void **state) {
    (void)state;
    for (unsigned n = 0; n < NODES; n++) {
        if (nodes[n].engine != NULL) {
            (void)engine_close(nodes[n].engine);
        }
        ekit_dir_remove(nodes[n].dir);
    }
    etcdkit_close(&etcd);
    return 0;
}

/* ---- Waiting ---- */

/* Lets the node that owns the log lead; *ctx becomes the node that leads. */
static bool somebody_leads(void *ctx) {
    struct rnode **ret_leader = ctx;
    for (unsigned n = 0; n < NODES; n++) {
        struct engine_standing standing;
        struct log_error error;
        if (nodes[n].engine == NULL) {
            continue;
        }
        engine_standing_read(nodes[n].engine, &standing);
        if (standing.owned && standing.role == ENGINE_FOLLOWING) {
            enum tn_status status = engine_lead(nodes[n].engine, &error);
            assert_true(status == TN_OK || status == TN_LOST);
        } else if (standing.role == ENGINE_LEADING && nodes[n].log->verbs->owned(nodes[n].log)) {
            *ret_leader = &nodes[n];
            return true;
        }
    }
    return false;
}

static struct rnode *leader_wait(void) {
    struct rnode *leader = NULL;
    ekit_wait(somebody_leads, (void *)&leader);
    return leader;
}

static bool all_are_equal(void *ctx) {
    uint64_t lsn = UINT64_MAX;
    (void)ctx;
    for (unsigned n = 0; n < NODES; n++) {
        struct engine_stats stats;
        if (nodes[n].engine == NULL) {
            continue;
        }
        engine_stats_read(nodes[n].engine, &stats);
        if (lsn != UINT64_MAX && stats.lsn != lsn) {
            return false;
        }
        lsn = stats.lsn;
    }
    return true;
}

/* ---- Work ---- */

static unsigned holders;

/* Repeats an allocation with the same operation id until a node answers OK. */
static void alloc(void) {
    struct ekit_command command;
    struct ekit_answer answer;
    char holder[32];
    (void)snprintf(holder, sizeof holder, "holder-%u", ++holders);
    for (;;) {
        struct rnode *leader = leader_wait();
        enum tn_result result =
            ekit_run(leader->engine, ekit_alloc(&command, "p", holder, 1, holder), &answer);
        if (result == TN_R_OK) {
            return;
        }
        assert_true(result == TN_R_LOST || result == TN_R_READONLY || result == TN_R_MASTERDOWN);
    }
}

static bool hash_read(void *ctx, const struct kernel *kernel, uint64_t clock_ms) {
    (void)clock_ms;
    *(uint64_t *)ctx = kernel_hash(kernel);
    return false;
}

static void states_check(void) {
    ekit_wait(all_are_equal, NULL);
    uint64_t hash = 0;
    for (unsigned n = 0; n < NODES; n++) {
        if (nodes[n].engine != NULL) {
            uint64_t own = 0;
            assert_int_equal(engine_read(nodes[n].engine, ENGINE_READ_STALE, hash_read, &own),
                             TN_R_OK);
            assert_true(hash == 0 || own == hash);
            hash = own;
        }
    }
}

static void what_one_node_grants_all_nodes_know(void **state) {
    struct ekit_command command;
    struct ekit_answer answer;
    (void)state;
    struct rnode *leader = leader_wait();
    ekit_run_ok(leader->engine, ekit_pool(&command, "p", 1, 100000, 3600), &answer);
    for (unsigned i = 0; i < 50; i++) {
        alloc();
    }
    states_check();
    struct engine_stats stats;
    uint64_t calls = 0;
    engine_stats_read(leader->engine, &stats);
    for (unsigned i = 0; i <= LOG_CALL_BUCKETS; i++) {
        calls += stats.log.call_histogram[i];
    }
    assert_true(calls >= 50 && stats.log.call_ns_sum > 0);
    assert_int_equal(stats.log.stale_ms, 0);
    assert_int_equal(stats.log.takeovers, 1);
}

static bool three_are_registered(void *ctx) {
    struct log_node found[LOG_NODES_MAX];
    uint32_t count = engine_nodes(ctx, found, LOG_NODES_MAX);
    return count == NODES && strcmp(found[2].address, "h2:7411") == 0;
}

static void notes_and_nodes_are_known_to_all(void **state) {
    uint8_t value[16];
    uint32_t len = 0;
    (void)state;
    struct rnode *leader = leader_wait();
    ekit_wait(three_are_registered, leader->engine);
    assert_int_equal(engine_note_get(nodes[1].engine, "none", value, sizeof value, &len),
                     TN_NOTFOUND);
    assert_int_equal(engine_note_put(leader->engine, "token.keys", etcdkit_text("secret")), TN_OK);
    for (unsigned n = 0; n < NODES; n++) {
        assert_int_equal(engine_note_get(nodes[n].engine, "token.keys", value, sizeof value, &len),
                         TN_OK);
        assert_int_equal(len, 6);
        assert_memory_equal(value, "secret", 6);
        if (&nodes[n] != leader) {
            assert_int_equal(engine_note_put(nodes[n].engine, "token.keys", etcdkit_text("other")),
                             TN_LOST);
        }
    }
}

static void a_leader_gives_the_log_up_and_another_takes_it(void **state) {
    (void)state;
    struct rnode *leader = leader_wait();
    assert_true(leader->log->verbs->confirm(leader->log));
    assert_int_equal(engine_follow(leader->engine), TN_OK);
    struct rnode *next = leader_wait();
    assert_ptr_not_equal(next, leader);
    assert_false(leader->log->verbs->confirm(leader->log));
    assert_true(next->log->verbs->confirm(next->log));
    alloc();
    states_check();
}

static void a_node_that_ends_is_replaced_and_comes_back(void **state) {
    (void)state;
    struct rnode *leader = leader_wait();
    unsigned n = (unsigned)(leader - nodes);
    struct log_error error;
    assert_int_equal(engine_snapshot(leader->engine, &error), TN_OK);
    alloc();
    node_close(leader);
    alloc();
    assert_ptr_not_equal(leader_wait(), leader);
    for (unsigned i = 0; i < 20; i++) {
        alloc();
    }
    node_open(n, false);
    states_check();
}

static void members_of_etcd_die_and_come_back(void **state) {
    (void)state;
    for (unsigned member = 0; member < etcd.options.members; member++) {
        alloc();
        etcdkit_kill(&etcd, member);
        for (unsigned i = 0; i < 5; i++) {
            alloc();
        }
        etcdkit_start(&etcd, member);
        alloc();
    }
    states_check();
}

/* Requests that are sent again when they are answered: there is always a batch to go to the log before
 * the last one is applied. */
#define LANES 64u

struct flood {
    struct engine *engine;
    struct ekit_command command;
    struct engine_request lanes[LANES];
    uint64_t last_lsn; /* answered; of the engine's thread */
    _Atomic uint32_t answered, running, disordered;
};

static void flood_send(struct flood *flood, struct engine_request *lane) {
    if (engine_submit(flood->engine, lane, &flood->command.decoded) != TN_R_OK) {
        atomic_fetch_sub(&flood->running, 1);
    }
}

static void flood_done(struct engine_request *request, struct tn_bytes command) {
    struct flood *flood = request->ctx;
    uint64_t lsn = request->result.lsn;
    (void)command;
    if (request->result.code == TN_R_OK) {
        atomic_fetch_add(&flood->disordered, lsn <= flood->last_lsn);
        flood->last_lsn = lsn;
        atomic_fetch_add(&flood->answered, 1);
    }
    flood_send(flood, request);
}

static bool flood_has(void *ctx) {
    return atomic_load(&((struct flood *)ctx)->answered) >= 2000;
}

static bool flood_is_over(void *ctx) {
    return atomic_load(&((struct flood *)ctx)->running) == 0;
}

static void a_leader_under_load_gives_the_log_up_and_acknowledges_nothing_that_is_lost(
    void **state) {
    static struct flood flood;
    struct ekit_command command;
    struct ekit_answer answer;
    (void)state;
    struct rnode *leader = leader_wait();
    alloc();
    ekit_run_ok(leader->engine, ekit_alloc(&command, "p", "flood", 1, NULL), &answer);
    flood.engine = leader->engine;
    ekit_touch(&flood.command, &answer.result, NULL);
    atomic_store(&flood.running, LANES);
    for (unsigned i = 0; i < LANES; i++) {
        flood.lanes[i] = (struct engine_request){.done = flood_done, .ctx = &flood};
        flood_send(&flood, &flood.lanes[i]);
    }
    ekit_wait(flood_has, &flood);
    assert_int_equal(engine_follow(leader->engine), TN_OK);
    ekit_wait(flood_is_over, &flood);
    assert_int_equal(atomic_load(&flood.disordered), 0);
    alloc();
    states_check();
    struct engine_stats stats;
    engine_stats_read(leader->engine, &stats);
    assert_true(stats.lsn > flood.last_lsn);
}

static void all_nodes_end_and_start_again(void **state) {
    (void)state;
    alloc();
    states_check();
    for (unsigned n = 0; n < NODES; n++) {
        node_close(&nodes[n]);
    }
    for (unsigned n = 0; n < NODES; n++) {
        node_open(n, false);
    }
    alloc();
    states_check();
    struct engine_report report;
    struct log_error error = {.text = ""};
    for (unsigned n = 0; n < NODES; n++) { /* each directory by itself is whole */
        struct log *local;
        node_close(&nodes[n]);
        struct log_local_options options = {
            .os = os_posix(), .dir = nodes[n].dir, .read_only = true};
        assert_int_equal(log_local_open(&options, NULL, NULL, &local, &error), TN_OK);
        assert_int_equal(engine_replay(os_posix(), log_local_store(local), local, &report, &error),
                         TN_OK);
        assert_true(report.sound);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_one_node_grants_all_nodes_know),
        cmocka_unit_test(notes_and_nodes_are_known_to_all),
        cmocka_unit_test(a_leader_gives_the_log_up_and_another_takes_it),
        cmocka_unit_test(a_node_that_ends_is_replaced_and_comes_back),
        cmocka_unit_test(members_of_etcd_die_and_come_back),
        cmocka_unit_test(
            a_leader_under_load_gives_the_log_up_and_acknowledges_nothing_that_is_lost),
        cmocka_unit_test(all_nodes_end_and_start_again),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
