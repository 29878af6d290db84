/* Several real servers in one process, each over an engine with a made-up log, whose roles a test switches:
 *
 *     fakecluster COUNT DIRECTORY [GUARDIAN]
 *
 * prints "node N RESP_PORT HTTP_PORT UDP_PORT" for each node, then obeys lines on its standard input and answers each
 * with "ok". At first node 0 owns the log. With a guardian, it runs sensors.
 *
 *     lead N          the owner loses the log; the others get what they do not have; N takes the lead
 *     lost            the owner loses the log, and no node owns it
 *     sync            the others get what the owner has committed
 *     expire          the owner's time is over and it has not noticed
 *     lapse           the same, and it was over long ago
 *     renew           after those two: its time goes on
 *     doubt           the next append of the owner is stored, and the owner does not know
 *     refuse          the append of the owner that is not answered, or its next one, is refused: the log is lost
 *     shut, open      appends of the owner are not answered; they are
 *     waiting         waits until an append of the owner is not answered
 *     early           then: the others get that batch before the owner is answered
 *     stale N MS      the state of N is that old
 *
 * At the end of its input it stops all servers. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/fakelog.h"
#include "server/server.h"
#include "token/token_issuer.h"

#define NODES_MAX 8u

struct node {
    struct fakelog *log;
    struct engine *engine;
    struct server_feed feed;
    struct token_issuer tokens;
    pthread_t thread;
    char dir[4000];
    char port_file[4096];
    char unix_path[4096], sensor_dir[4096];
    struct supervisor_feed sensor_feed;
    struct supervisor_options sensors; /* without a directory: there are none */
    struct log_node self;
    bool doubted; /* the last batch is stored and not applied */
};

static struct node nodes[NODES_MAX];
static unsigned node_count;
static int owner = -1;
static _Atomic uint64_t epoch; /* of the ownership */

static enum tn_status node_step_down(void *ctx, const char *name, struct log_error *error) {
    struct node *node = ctx;
    (void)name;
    (void)error;
    return engine_follow(node->engine);
}

static enum tn_status node_forget(void *ctx, const char *name, struct log_error *error) {
    (void)ctx;
    (void)snprintf(error->text, sizeof error->text, "there is no node '%s'", name);
    return strcmp(name, "node9") == 0 ? TN_OK : TN_NOTFOUND;
}

/* As the program does: the terms of this ownership before the answer. */
static bool node_owns(void *ctx, struct server_options *options) {
    struct node *node = ctx;
    struct engine_standing standing;
    (void)options;
    node->sensors.cluster.epoch = atomic_load(&epoch);
    engine_standing_read(node->engine, &standing);
    return standing.role == ENGINE_LEADING;
}

static void *node_main(void *arg) {
    struct node *node = arg;
    struct server_options options = {
        .engine = node->engine,
        .feed = &node->feed,
        .tokens = &node->tokens,
        .os = os_posix(),
        .version = "test",
        .data = node->dir,
        .listen = "127.0.0.1:0",
        .http = "127.0.0.1:0",
        .udp = "127.0.0.1:0",
        .udp_pool = "ids",
        .udp_allow = "",
        .port_file = node->port_file,
        .unix_path = node->sensors.dir != NULL ? node->unix_path : NULL,
        .sensors = node->sensors.dir != NULL ? &node->sensors : NULL,
        .hooks = {.ctx = node, .owns = node->sensors.dir != NULL ? node_owns : NULL},
        .connections_max = 1000,
        .slow_seconds = 60,
        .client_memory = 64u << 20,
        .cluster = {
            .ctx = node, .step_down = node_step_down, .close = node_forget, .forget = node_forget}};
    assert_int_equal(server_run(&options), 0);
    return NULL;
}

static void sensors_set(struct node *node, const char *dir, const char *guardian) {
    (void)snprintf(node->unix_path, sizeof node->unix_path, "%s/unix", dir);
    (void)snprintf(node->sensor_dir, sizeof node->sensor_dir, "%s/sensors", dir);
    node->sensors = (struct supervisor_options){.feed = &node->sensor_feed,
                                                .dir = node->sensor_dir,
                                                .guardian = guardian,
                                                .cluster = {.node = "node0"},
                                                .defaults = sensor_defaults_make()};
    node->sensors.defaults.containment = SENSOR_CONTAINMENT_NONE;
    node->sensors.defaults.settle_ms = 0;
}

static void node_open(struct node *node, unsigned n, const char *dir) {
    struct log_error error;
    char reason[TOKEN_REASON_MAX];
    const struct os *os = os_posix();
    (void)snprintf(node->dir, sizeof node->dir, "%s/%u", dir, n);
    (void)snprintf(node->port_file, sizeof node->port_file, "%s/%u/ports", dir, n);
    assert_int_equal(os->make_dir(os->ctx, node->dir), TN_OK);
    node->log = fakelog_new();
    fakelog_owner(node->log, false, "");
    server_feed_init(&node->feed);
    supervisor_feed_init(&node->sensor_feed);
    struct engine_options options = {.log = fakelog_base(node->log),
                                     .store = fakelog_store(node->log),
                                     .events_max = 100000,
                                     .events_ready = server_feed_events,
                                     .events_ready_ctx = &node->feed,
                                     .metrics = server_feed_metrics,
                                     .metrics_ctx = &node->feed,
                                     .role = server_feed_role,
                                     .role_ctx = &node->feed};
    assert_int_equal(engine_open(&options, &node->engine, &error), TN_OK);
    supervisor_feed_attach(&node->sensor_feed, node->engine);
    node->tokens =
        (struct token_issuer){.engine = node->engine, .name = "fakecluster", .ttl_max_s = 3600};
    assert_int_equal(
        token_keys_open(&node->tokens.keys, os, node->dir, 3600, token_now(&node->tokens), reason),
        TN_OK);
    assert_int_equal(pthread_create(&node->thread, NULL, node_main, node), 0);
}

static void node_ports(struct node *node, unsigned n) {
    struct timespec pause = {.tv_nsec = 10000000};
    char text[64] = "";
    char *end;
    FILE *file;
    while ((file = fopen(node->port_file, "r")) == NULL) {
        (void)nanosleep(&pause, NULL);
    }
    assert_true(fread(text, 1, sizeof text - 1, file) > 0);
    (void)fclose(file);
    unsigned long resp = strtoul(text, &end, 10);
    unsigned long http = strtoul(end, &end, 10);
    (void)snprintf(node->self.name, sizeof node->self.name, "node%u", n);
    (void)snprintf(node->self.address, sizeof node->self.address, "127.0.0.1:%lu", resp);
    (void)snprintf(node->self.http, sizeof node->self.http, "127.0.0.1:%lu", http);
    (void)printf("node %u %lu %lu %lu\n", n, resp, http, strtoul(end, NULL, 10));
}

/* Tells every node about all nodes, with the LSN that each has applied. */
static void nodes_tell(void) {
    struct log_node all[NODES_MAX];
    for (unsigned i = 0; i < node_count; i++) {
        struct engine_stats stats;
        engine_stats_read(nodes[i].engine, &stats);
        all[i] = nodes[i].self;
        all[i].applied_lsn = stats.lsn;
    }
    for (unsigned i = 0; i < node_count; i++) {
        all[i].self = true;
        fakelog_set_nodes(nodes[i].log, all, node_count);
        all[i].self = false;
    }
}

static void sync_from(unsigned from) {
    struct node *source = &nodes[from];
    unsigned count = fakelog_batches(source->log);
    if (source->doubted) {
        source->doubted = false;
        assert_int_equal(fakelog_hand(source->log, count - 1), TN_OK);
    }
    for (unsigned i = 0; i < node_count; i++) {
        for (unsigned n = fakelog_batches(nodes[i].log); i != from && n < count; n++) {
            struct log_batch batch = fakelog_batch(source->log, n);
            assert_int_equal(fakelog_feed(nodes[i].log, &batch), TN_OK);
        }
    }
    nodes_tell();
}

/* As etcd does: a batch that is committed can reach the others first. */
static void early(unsigned from) {
    struct log_batch batch = fakelog_gate_wait(nodes[from].log);
    for (unsigned i = 0; i < node_count; i++) {
        if (i != from) {
            assert_int_equal(fakelog_feed(nodes[i].log, &batch), TN_OK);
        }
    }
}

static void lose(const char *leader) {
    if (owner >= 0) {
        fakelog_owner_soon(nodes[owner].log, false, leader);
    }
}

static void lead(unsigned to) {
    struct log_error error;
    static int last = -1;
    last = owner >= 0 ? owner : last;
    lose(nodes[to].self.address);
    if (last >= 0) {
        sync_from((unsigned)last);
    }
    for (unsigned i = 0; i < node_count; i++) {
        if (i != to) {
            fakelog_owner(nodes[i].log, false, nodes[to].self.address);
        }
    }
    atomic_fetch_add(&epoch, 1);
    fakelog_owner(nodes[to].log, true, "");
    assert_int_equal(engine_lead(nodes[to].engine, &error), TN_OK);
    owner = last = (int)to;
    nodes_tell();
}

static void nobody(void) {
    lose("");
    for (unsigned i = 0; i < node_count; i++) {
        fakelog_owner(nodes[i].log, false, "");
    }
}

/* The number of a node after the word; node_count: the line does not begin with the word. */
static unsigned node_of(const char *line, const char *word, char **ret_rest) {
    size_t len = strlen(word);
    unsigned long n =
        strncmp(line, word, len) == 0 ? strtoul(line + len, ret_rest, 10) : node_count;
    return n < node_count ? (unsigned)n : node_count;
}

static bool obey(const char *line) {
    char *rest = NULL;
    struct fakelog *log = nodes[owner].log;
    unsigned leader = node_of(line, "lead ", &rest);
    unsigned stale = node_of(line, "stale ", &rest);
    if (leader < node_count) {
        lead(leader);
    } else if (stale < node_count) {
        fakelog_set_stale(nodes[stale].log, strtoull(rest, NULL, 10));
    } else if (strcmp(line, "lost\n") == 0) {
        nobody();
    } else if (strcmp(line, "sync\n") == 0) {
        sync_from((unsigned)owner);
    } else if (strcmp(line, "expire\n") == 0) {
        fakelog_expire(log);
    } else if (strcmp(line, "lapse\n") == 0) {
        fakelog_lapse(log);
    } else if (strcmp(line, "renew\n") == 0) {
        fakelog_renew(log);
    } else if (strcmp(line, "doubt\n") == 0) {
        nodes[owner].doubted = true;
        fakelog_fail(log, TN_DOUBT, 1, true);
    } else if (strcmp(line, "refuse\n") == 0) {
        fakelog_fail(log, TN_LOST, 1, false);
    } else if (strcmp(line, "shut\n") == 0) {
        fakelog_gate_shut(log);
    } else if (strcmp(line, "open\n") == 0) {
        fakelog_gate_open(log);
    } else if (strcmp(line, "waiting\n") == 0) {
        (void)fakelog_gate_wait(log);
    } else if (strcmp(line, "early\n") == 0) {
        early((unsigned)owner);
    } else {
        return false;
    }
    return true;
}

static void stop(void) {
    (void)kill(getpid(), SIGTERM);
    for (unsigned i = 0; i < node_count; i++) {
        (void)pthread_join(nodes[i].thread, NULL);
        (void)engine_close(nodes[i].engine);
        token_keys_close(&nodes[i].tokens.keys);
        supervisor_feed_free(&nodes[i].sensor_feed);
        fakelog_free(nodes[i].log);
    }
}

int main(int argc, char **argv) {
    char line[256];
    assert_in_range(argc, 3, 4);
    node_count = (unsigned)strtoul(argv[1], NULL, 10);
    assert_true(node_count > 0 && node_count <= NODES_MAX);
    (void)signal(SIGPIPE, SIG_IGN);
    if (argc > 3) {
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
        sensors_set(&nodes[0], argv[2], argv[3]);
    }
    for (unsigned i = 0; i < node_count; i++) {
        node_open(&nodes[i], i, argv[2]);
    }
    for (unsigned i = 0; i < node_count; i++) {
        node_ports(&nodes[i], i);
    }
    nodes_tell();
    lead(0);
    (void)printf("ok\n");
    (void)fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL) {
        (void)printf("%s\n", obey(line) ? "ok" : "not understood");
        (void)fflush(stdout);
    }
    stop();
    return 0;
}
