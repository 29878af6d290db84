/* A cluster against bare etcd: three members of etcd, three nodes, and one program that writes to the same
 * etcd by itself, all on this machine.
 *
 * - Sustained: cycles through the owner, with batches that are trimmed, against a bare writer of transactions of
 *   the same size (compare the head, put a batch, put the head, delete old batches). They take turns. The
 *   ratio is transactions a second. First the owner alone, with one watcher on either side; then with two
 *   standbys, which share the processors with everything else, and two watchers of the bare writer. The
 *   processor time of each part tells how far more processors would help.
 * - A lone commit: one client, one request at a time, against one bare transaction of the same size.
 * - Cycles against the same in etcd itself: a transaction that puts a key if it is absent, and one that deletes
 *   it if it has the holder's value; 64 under way.
 * - Lag of a standby at half load: from the owner's log position until the standby has it.
 * - Fail-over: the owner is killed with SIGKILL; until another node acknowledges an allocation.
 *
 * `--long`: fifty kills and longer turns, as `make bench-cluster` does; else it fits into `make bench`.
 * `--sustained`: only the first of them, for profiles. */
#include "bench.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "etcd/etcd_client.h"
#include "etcd/wait.h"
#include "lib/load.h"
#include "lib/loopback.h"
#include "lib/process.h"
#include "lib/script_tenure.h"
#include "lib/words.h"
#include "os/os.h"

#define NODES 3u
#define TURNS_MAX 8u
#define KILLS_MAX 50u
#define SAMPLES_MAX 4096u
#define BARE_CLIENTS 4u
#define BARE_WATCHERS 2u
#define BARE_KEPT 64u /* batches that the bare writer leaves in etcd */
#define BARE_COMPACT_BYTES (64u << 20)
#define DEADLINE_MS 10000u

static unsigned turns = 4, kills = 5;
static bool sustained_only;
static uint64_t turn_ns = 1000000000u;
static const char *const names[NODES] = {"a", "b", "c"};
static struct process_etcd members;
static struct process nodes[NODES];
static const struct os *os;

static _Noreturn void die(const char *what) {
    fprintf(stderr, "bench: %s\n", what);
    exit(1);
}

static int double_ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double part_of(double *values, unsigned count, double part) {
    qsort(values, count, sizeof *values, double_ascending);
    unsigned at = (unsigned)(part * count);
    return values[at < count ? at : count - 1];
}

/* ---- The nodes ---- */

/* One request; false: no connection, or it ended before the reply. */
static bool ask(uint16_t port, const char *line, char *reply, size_t capacity) {
    char request[256];
    size_t request_len = words_split(line, request);
    struct timeval patience = {.tv_usec = 500000};
    ssize_t len = -1;
    int s = loopback_connect(port);
    if (s < 0) {
        return false;
    }
    (void)setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (send(s, request, request_len, MSG_NOSIGNAL) == (ssize_t)request_len) {
        len = recv(s, reply, capacity - 1, 0);
    }
    close(s);
    reply[len > 0 ? len : 0] = '\0';
    return len > 0;
}

static bool allocates(uint16_t port) {
    char reply[512];
    return ask(port, "ALLOC failover kill", reply, sizeof reply) && reply[0] == '*';
}

/* The node that owns the log. */
static unsigned owner_find(void) {
    for (;;) {
        for (unsigned i = 0; i < NODES; i++) {
            char reply[512];
            if (nodes[i].id != 0 && ask(nodes[i].port, "ROLE", reply, sizeof reply) &&
                strstr(reply, "master") != NULL) {
                return i;
            }
        }
        usleep(5000);
    }
}

static uint64_t lsn_of(uint16_t port) {
    char reply[8192];
    const char *at = ask(port, "INFO tenure", reply, sizeof reply) ? strstr(reply, "\nlsn:") : NULL;
    return at != NULL ? strtoull(at + 5, NULL, 10) : 0;
}

static uint64_t batches_of(uint16_t port) {
    char reply[8192];
    const char *at =
        ask(port, "INFO tenure", reply, sizeof reply) ? strstr(reply, "\nbatches:") : NULL;
    return at != NULL ? strtoull(at + 9, NULL, 10) : 0;
}

/* A new owner refuses for a moment. */
static void pool_make(const char *name) {
    char request[128], reply[512];
    snprintf(request, sizeof request, "POOL CREATE %s RANGE 1 1000000 LEASE 3600", name);
    for (;;) {
        if (ask(nodes[owner_find()].port, request, reply, sizeof reply) && reply[0] != '-') {
            return;
        }
        if (strncmp(reply, "-MASTERDOWN", 11) != 0 && strncmp(reply, "-READONLY", 9) != 0) {
            die(reply);
        }
        usleep(5000);
    }
}

/* ---- What clients of the owner ask ---- */

static const struct tenure_job cycle_job = {.pool = "bench", .work = WORK_CYCLE};
static const struct tenure_job renew_job = {.pool = "bench", .work = WORK_RENEW};
static struct load_script cycle_script, renew_script;

/* ---- The bare writer ---- */

struct bare {
    struct etcd *clients[1 + BARE_WATCHERS]; /* the first one writes */
    unsigned count;                          /* of them */
    uint8_t *payload;
    size_t size;
    uint64_t n;
    uint64_t bytes, compacted;
    int64_t revision;
    bool under_way;
};

static void on_wrote(void *ctx, const struct etcd_answer *answer) {
    struct bare *bare = ctx;
    if (answer->outcome != ETCD_DONE) {
        fprintf(stderr, "bench: a bare transaction: %s\n", etcd_reason_text(answer->reason));
        exit(1);
    }
    bare->revision = answer->header.revision;
    bare->under_way = false;
}

/* The owner may have compacted etcd further than that already. */
static void on_compacted(void *ctx, const struct etcd_answer *answer) {
    struct bare *bare = ctx;
    (void)answer;
    bare->under_way = false;
}

static void on_watched(void *ctx, const struct etcd_news *news) {
    (void)ctx;
    if (news->kind == ETCD_WATCH_ENDED) {
        die("the bare watch ended");
    }
}

static struct etcd *client_open(bool writes, unsigned first) {
    char error[ETCD_MESSAGE_MAX];
    const char *endpoints[3] = {members.endpoint[0], members.endpoint[1], members.endpoint[2]};
    struct etcd_options options = {.endpoints = endpoints,
                                   .endpoint_count = 3,
                                   .endpoint_first = first,
                                   .prefer_leader = writes};
    struct etcd *etcd = NULL;
    if (etcd_open(&options, &etcd, error) != TN_OK) {
        die(error);
    }
    return etcd;
}

static struct tn_bytes text_bytes(const char *text) {
    return tn_bytes_of((const uint8_t *)text, strlen(text));
}

/* One transaction, to its end. */
static void bare_write(struct bare *bare) {
    char before[160], after[160], key[64], trimmed[64];
    uint64_t n = bare->n++;
    snprintf(before, sizeof before, "%0128llu", (unsigned long long)n);
    snprintf(after, sizeof after, "%0128llu", (unsigned long long)n + 1);
    snprintf(key, sizeof key, "/bare/log/%016llx", (unsigned long long)n);
    snprintf(trimmed, sizeof trimmed, "/bare/log/%016llx",
             (unsigned long long)(n > BARE_KEPT ? n - BARE_KEPT : 0));
    struct etcd_compare compare = {.kind = n == 0 ? ETCD_ABSENT : ETCD_VALUE_IS,
                                   .key = text_bytes("/bare/head"),
                                   .value = text_bytes(before)};
    struct etcd_op then[3] = {
        {.kind = ETCD_PUT,
         .keys = {.key = text_bytes(key)},
         .value = tn_bytes_of(bare->payload, bare->size)},
        {.kind = ETCD_PUT, .keys = {.key = text_bytes("/bare/head")}, .value = text_bytes(after)},
        {.kind = ETCD_DELETE, .keys = {text_bytes("/bare/log/"), text_bytes(trimmed)}},
    };
    struct etcd_request request = {.verb = ETCD_TXN,
                                   .txn = {.compares = &compare,
                                           .compare_count = 1,
                                           .then = then,
                                           .then_count = n % BARE_KEPT == BARE_KEPT - 1 ? 3 : 2}};
    uint64_t deadline = os->clock_boot_ms(os->ctx) + DEADLINE_MS;
    bare->under_way = true;
    if (etcd_submit(bare->clients[0], &request, deadline, on_wrote, bare) != TN_OK) {
        die("a bare transaction was not taken");
    }
    while (bare->under_way) {
        etcd_wait(bare->clients, bare->count, os, -1, deadline);
    }
    bare->bytes += bare->size;
    if (bare->bytes - bare->compacted > BARE_COMPACT_BYTES) {
        struct etcd_request compact = {.verb = ETCD_COMPACT, .revision = bare->revision - 100};
        bare->compacted = bare->bytes;
        bare->under_way = true;
        (void)etcd_submit(bare->clients[0], &compact, deadline + DEADLINE_MS, on_compacted, bare);
        while (bare->under_way) {
            etcd_wait(bare->clients, bare->count, os, -1, deadline);
        }
    }
}

static void watch_open(struct etcd *client, const char *prefix) {
    uint64_t watch;
    uint8_t end[64];
    struct etcd_watch_options options = {
        .keys = {text_bytes(prefix), etcd_prefix_end(text_bytes(prefix), end)},
        .deadline_ms = os->clock_boot_ms(os->ctx) + DEADLINE_MS};
    if (etcd_watch(client, &options, on_watched, NULL, &watch) != TN_OK) {
        die("no watch");
    }
}

static void bare_open(struct bare *bare) {
    *bare =
        (struct bare){.clients = {client_open(true, 0)}, .count = 1, .payload = malloc(2u << 20)};
    if (bare->payload == NULL || os->random(os->ctx, bare->payload, 2u << 20) != TN_OK) {
        die("no memory");
    }
    bare->size = 200;
    bare_write(bare);
}

static void bare_watch(struct bare *bare) {
    bare->clients[bare->count] = client_open(false, bare->count);
    watch_open(bare->clients[bare->count], "/bare/");
    bare->count++;
}

/* ---- A watcher of the owner's log, on a thread of its own ---- */

struct witness {
    pthread_t thread;
    struct etcd *client;
    atomic_bool stop;
};

static void *witness_main(void *arg) {
    struct witness *witness = arg;
    while (!atomic_load(&witness->stop)) {
        etcd_wait(&witness->client, 1, os, -1, os->clock_boot_ms(os->ctx) + 100);
    }
    return NULL;
}

static void witness_begin(struct witness *witness) {
    witness->client = client_open(false, 1);
    watch_open(witness->client, "/tenure/");
    atomic_store(&witness->stop, false);
    (void)pthread_create(&witness->thread, NULL, witness_main, witness);
}

static void witness_end(struct witness *witness) {
    atomic_store(&witness->stop, true);
    (void)pthread_join(witness->thread, NULL);
    etcd_close(witness->client);
}

/* ---- The size of Tenure's transactions ---- */

struct sized {
    uint64_t bytes, count;
    bool done;
};

static void on_ranged(void *ctx, const struct etcd_answer *answer) {
    struct sized *sized = ctx;
    for (uint32_t i = 0; answer->outcome == ETCD_DONE && i < answer->found.count; i++) {
        sized->bytes += answer->found.kvs[i].value.len;
        sized->count++;
    }
    sized->done = true;
}

/* The mean of the batches from this log position on. */
static size_t batch_bytes(struct bare *bare, uint64_t lsn) {
    char first[64];
    struct sized sized = {0};
    snprintf(first, sizeof first, "/tenure/default/log/%016llx", (unsigned long long)lsn);
    struct etcd_request request = {
        .verb = ETCD_RANGE,
        .range = {.keys = {text_bytes(first), text_bytes("/tenure/default/log0")}, .limit = 200}};
    uint64_t deadline = os->clock_boot_ms(os->ctx) + DEADLINE_MS;
    if (etcd_submit(bare->clients[0], &request, deadline, on_ranged, &sized) != TN_OK) {
        die("a range was not taken");
    }
    while (!sized.done) {
        etcd_wait(bare->clients, bare->count, os, -1, deadline);
    }
    return sized.count > 0 ? (size_t)(sized.bytes / sized.count) : 200;
}

/* ---- Sustained ---- */

enum part { PART_OWNER, PART_STANDBYS, PART_ETCD, PART_GENERATOR, PART_COUNT };
static const char *const part_names[PART_COUNT] = {"the owner", "standbys", "three members of etcd",
                                                   "the load generator"};

/* Processor time in microseconds since each process began. */
static void cpu_read(unsigned owner, double cpu[PART_COUNT]) {
    struct process self = {.id = getpid()};
    cpu[PART_OWNER] = process_cpu_us(&nodes[owner]);
    cpu[PART_STANDBYS] = cpu[PART_ETCD] = 0;
    cpu[PART_GENERATOR] = process_cpu_us(&self);
    for (unsigned i = 0; i < NODES; i++) {
        cpu[PART_STANDBYS] += i != owner && nodes[i].id != 0 ? process_cpu_us(&nodes[i]) : 0;
        cpu[PART_ETCD] += process_cpu_us(&(struct process){.id = members.id[i]});
    }
}

/* Of one turn, added to the sums. */
static void cpu_add(unsigned owner, const double before[PART_COUNT], double sums[PART_COUNT]) {
    double now[PART_COUNT];
    cpu_read(owner, now);
    for (unsigned part = 0; part < PART_COUNT; part++) {
        sums[part] += now[part] - before[part];
    }
}

static void cpu_report(const double ours[PART_COUNT], double commands, double bare_etcd,
                       double bare_commands) {
    fprintf(stderr, "   processor time for a command:");
    for (unsigned part = 0; part < PART_COUNT; part++) {
        fprintf(stderr, " %s %.2f us,", part_names[part], ours[part] / commands);
    }
    fprintf(stderr, " and with the bare writer etcd %.2f us\n", bare_etcd / bare_commands);
}

static double measure_sustained(struct bare *bare, const char *who, unsigned depth) {
    char name[80];
    double commands[TURNS_MAX], ratios[TURNS_MAX], sizes[TURNS_MAX];
    double cpu[PART_COUNT], ours_cpu[PART_COUNT] = {0}, bare_cpu[PART_COUNT] = {0};
    double ours_commands = 0, bare_commands = 0;
    unsigned owner = owner_find();
    uint16_t port = nodes[owner].port;
    struct load *load = load_open(port, 64, depth, &cycle_script);
    (void)load_turn(load, turn_ns / 2, NULL);
    for (unsigned i = 0; i < turns; i++) {
        uint64_t lsn = lsn_of(port), batches = batches_of(port), begun = bench_now_ns();
        cpu_read(owner, cpu);
        commands[i] = load_turn(load, turn_ns, NULL);
        double seconds = (double)(bench_now_ns() - begun) / 1e9;
        cpu_add(owner, cpu, ours_cpu);
        ours_commands += commands[i] * seconds;
        uint64_t made = batches_of(port) - batches;
        bare->size = batch_bytes(bare, lsn + 1);
        uint64_t n = bare->n;
        cpu_read(owner, cpu);
        for (begun = bench_now_ns(); bench_now_ns() - begun < turn_ns;) {
            bare_write(bare);
        }
        cpu_add(owner, cpu, bare_cpu);
        bare_commands += (double)(bare->n - n) * commands[i] * seconds / (double)made;
        double ours = (double)made / seconds;
        seconds = (double)(bench_now_ns() - begun) / 1e9;
        ratios[i] = ours / ((double)(bare->n - n) / seconds);
        sizes[i] = (double)bare->size;
    }
    load_close(load);
    double rate = part_of(commands, turns, 0.5);
    snprintf(name, sizeof name, "cluster durable commands, %s, 64 x %u", who, depth);
    bench_row_ratio(name, rate, part_of(ratios, turns, 0.5));
    fprintf(stderr, "   %s: batches of %.0f bytes\n", name, part_of(sizes, turns, 0.5));
    cpu_report(ours_cpu, ours_commands, bare_cpu[PART_ETCD], bare_commands);
    return rate;
}

/* ---- A lone commit ---- */

static void measure_lone(struct bare *bare) {
    static struct load_histogram histogram;
    static double took[SAMPLES_MAX];
    unsigned count = 0;
    uint16_t port = nodes[owner_find()].port;
    struct load *load = load_open(port, 1, 1, &renew_script);
    load_round(load);
    for (unsigned i = 0; i < turns; i++) {
        uint64_t lsn = lsn_of(port);
        (void)load_turn(load, turn_ns / 2, &histogram);
        bare->size = batch_bytes(bare, lsn + 1);
        for (uint64_t begun = bench_now_ns();
             bench_now_ns() - begun < turn_ns / 2 && count < SAMPLES_MAX;) {
            uint64_t at = bench_now_ns();
            bare_write(bare);
            took[count++] = (double)(bench_now_ns() - at) / 1e3;
        }
    }
    load_close(load);
    double ours = load_percentile_us(&histogram, 0.5);
    double bare_us = part_of(took, count, 0.5);
    bench_row_peer("cluster, a lone commit, p50", ours / 1e3, ours / bare_us, bare_us / 1e3);
}

/* ---- Cycles of a script of etcd ---- */

struct script {
    struct etcd *clients[BARE_CLIENTS];
    uint64_t done;
    bool stopping;
};
struct script_lane {
    struct script *script;
    unsigned index;
    bool held, under_way;
};

static void script_ask(struct script_lane *lane);

static void on_script(void *ctx, const struct etcd_answer *answer) {
    struct script_lane *lane = ctx;
    if (answer->outcome != ETCD_DONE) {
        fprintf(stderr, "bench: a transaction of the script: %s\n",
                etcd_reason_text(answer->reason));
        exit(1);
    }
    lane->held = !lane->held;
    lane->under_way = false;
    lane->script->done++;
    if (!lane->script->stopping) {
        script_ask(lane);
    }
}

static void script_ask(struct script_lane *lane) {
    char key[64], holder[64];
    snprintf(key, sizeof key, "/script/ports/%u", 30000 + lane->index);
    snprintf(holder, sizeof holder, "client/%u", lane->index);
    struct etcd_compare compare = {.kind = lane->held ? ETCD_VALUE_IS : ETCD_ABSENT,
                                   .key = text_bytes(key),
                                   .value = text_bytes(holder)};
    struct etcd_op op = {.kind = lane->held ? ETCD_DELETE : ETCD_PUT,
                         .keys = {.key = text_bytes(key)},
                         .value = text_bytes(lane->held ? "" : holder)};
    struct etcd_request request = {
        .verb = ETCD_TXN,
        .txn = {.compares = &compare, .compare_count = 1, .then = &op, .then_count = 1}};
    lane->under_way = true;
    if (etcd_submit(lane->script->clients[lane->index % BARE_CLIENTS], &request,
                    os->clock_boot_ms(os->ctx) + DEADLINE_MS, on_script, lane) != TN_OK) {
        die("a transaction of the script was not taken");
    }
}

static void script_run(struct script *script, struct script_lane lanes[64], uint64_t ns) {
    uint64_t end = bench_now_ns() + ns;
    script->stopping = false;
    for (unsigned i = 0; i < 64; i++) {
        script_ask(&lanes[i]);
    }
    for (bool busy = true; busy;) {
        etcd_wait(script->clients, BARE_CLIENTS, os, -1, os->clock_boot_ms(os->ctx) + 10);
        script->stopping = bench_now_ns() >= end;
        busy = !script->stopping;
        for (unsigned i = 0; i < 64; i++) {
            busy = busy || lanes[i].under_way;
        }
    }
}

static void measure_cycles(void) {
    static struct script script;
    static struct script_lane lanes[64];
    double single[TURNS_MAX], piped[TURNS_MAX], bare[TURNS_MAX], ratios[TURNS_MAX],
        ratios_piped[TURNS_MAX];
    uint16_t port = nodes[owner_find()].port;
    struct load *one = load_open(port, 64, 1, &cycle_script);
    struct load *many = load_open(port, 64, 32, &cycle_script);
    for (unsigned i = 0; i < BARE_CLIENTS; i++) {
        script.clients[i] = client_open(true, 0);
    }
    for (unsigned i = 0; i < 64; i++) {
        lanes[i] = (struct script_lane){.script = &script, .index = i};
    }
    for (unsigned i = 0; i < turns; i++) {
        single[i] = load_turn(one, turn_ns / 2, NULL) / 2;
        piped[i] = load_turn(many, turn_ns / 2, NULL) / 2;
        uint64_t done = script.done, begun = bench_now_ns();
        script_run(&script, lanes, turn_ns / 2);
        bare[i] = (double)(script.done - done) / 2 / ((double)(bench_now_ns() - begun) / 1e9);
        ratios[i] = single[i] / bare[i];
        ratios_piped[i] = piped[i] / bare[i];
    }
    load_close(one);
    load_close(many);
    double alone = part_of(bare, turns, 0.5);
    bench_row_peer("cluster cycles, 64 x 1", part_of(single, turns, 0.5),
                   part_of(ratios, turns, 0.5), alone);
    bench_row_peer("cluster cycles, 64 x 32", part_of(piped, turns, 0.5),
                   part_of(ratios_piped, turns, 0.5), alone);
}

/* ---- Lag ---- */

struct lag {
    uint16_t owner, standby;
    atomic_bool stop;
    double ms[SAMPLES_MAX];
    unsigned count;
};

static void *lag_main(void *arg) {
    struct lag *lag = arg;
    while (!atomic_load(&lag->stop) && lag->count < SAMPLES_MAX) {
        uint64_t lsn = lsn_of(lag->owner), begun = bench_now_ns();
        while (lsn_of(lag->standby) < lsn && !atomic_load(&lag->stop)) {
        }
        lag->ms[lag->count++] = (double)(bench_now_ns() - begun) / 1e6;
        usleep(5000);
    }
    return NULL;
}

static void measure_lag(double rate) {
    static struct lag lag;
    pthread_t thread;
    unsigned owner = owner_find();
    lag.owner = nodes[owner].port;
    lag.standby = nodes[(owner + 1) % NODES].port;
    struct load *load = load_open(lag.owner, 64, 32, &cycle_script);
    (void)pthread_create(&thread, NULL, lag_main, &lag);
    static struct load_histogram histogram;
    load_turn_at_rate(load, 2 * turn_ns, rate / 2, &histogram);
    atomic_store(&lag.stop, true);
    (void)pthread_join(thread, NULL);
    load_close(load);
    bench_row("cluster, lag of a standby at half load, p50", part_of(lag.ms, lag.count, 0.5));
    bench_row("cluster, lag of a standby at half load, p99", part_of(lag.ms, lag.count, 0.99));
}

/* ---- Fail-over ---- */

static void measure_failover(void) {
    double seconds[KILLS_MAX];
    pool_make("failover");
    for (unsigned i = 0; i < kills; i++) {
        unsigned owner = owner_find(), next = owner;
        uint64_t begun = bench_now_ns();
        process_kill(&nodes[owner]);
        do {
            next = (next + 1) % NODES;
        } while (next == owner || !allocates(nodes[next].port));
        seconds[i] = (double)(bench_now_ns() - begun) / 1e9;
        nodes[owner] = process_node(names[owner], &members, false);
    }
    fprintf(stderr, "   fail-over: %u kills\n", kills);
    bench_row("cluster fail-over, p50", part_of(seconds, kills, 0.5));
    bench_row("cluster fail-over, p99", part_of(seconds, kills, 0.99));
}

int main(int argc, char **argv) {
    static struct bare bare;
    static struct witness witness;
    os = os_posix();
    cycle_script = tenure_script(&cycle_job);
    renew_script = tenure_script(&renew_job);
    sustained_only = argc > 1 && strcmp(argv[1], "--sustained") == 0;
    if (argc > 1 && (sustained_only || strcmp(argv[1], "--long") == 0)) {
        turns = 6;
        kills = KILLS_MAX;
        turn_ns = 2000000000u;
    } else if (bench_length_of(argc, argv) == BENCH_SMOKE) {
        turns = 1;
        kills = 1;
        turn_ns = 200000000u;
    }
    process_directory_make();
    if (!process_etcd(NODES, &members)) {
        fprintf(stderr, "bench: etcd is not installed: tools/deps.sh bench\n");
        process_directory_remove();
        return 1;
    }
    nodes[0] = process_node(names[0], &members, true);
    pool_make("bench");
    bare_open(&bare);
    bare_watch(&bare);
    witness_begin(&witness);
    (void)measure_sustained(&bare, "the owner", 32);
    (void)measure_sustained(&bare, "the owner", 128);
    witness_end(&witness);
    for (unsigned i = 1; i < NODES; i++) {
        nodes[i] = process_node(names[i], &members, false);
    }
    bare_watch(&bare); /* as many watches as there are standbys */
    double rate = measure_sustained(&bare, "three nodes", 32);
    (void)measure_sustained(&bare, "three nodes", 128);
    if (!sustained_only) {
        measure_lone(&bare);
        measure_cycles();
        measure_lag(rate);
        measure_failover();
    }
    for (unsigned i = 0; i < NODES; i++) {
        process_kill(&nodes[i]);
    }
    process_etcd_stop(&members);
    process_directory_remove();
    return 0;
}
