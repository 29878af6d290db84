/* The server, as a process, against redis-server in the same run: the same generator, the same number
 * of connections, the same file system, every write synced before its reply. The two take turns
 * (lib/turns.h).
 *
 * A cycle is an allocation and its release, two requests: the release needs the reply to the allocation.
 * lib/script_redis.c has what Redis does for it. */
#include "bench.h"

#include <stdbool.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/disk.h"
#include "lib/load.h"
#include "lib/process.h"
#include "lib/script_redis.h"
#include "lib/script_tenure.h"
#include "lib/turns.h"

#define WIDE_VALUES 262144u /* 99 % leaves more than the 2048 of 64 x 32 */
#define IDLE_CONNECTIONS 10000u
#define CONTENDERS 32u
#define NAME_BYTES 96u

enum { POOL_CYCLES, POOL_RENEWALS, POOL_LOCK }; /* databases of Redis */

static enum bench_length length;
static uint32_t narrow_values = 65536;
static struct process tenure, redis, redis_plain; /* Redis: id 0 if it does not run */

static _Noreturn void die(const char *what, const char *why) {
    fprintf(stderr, "bench: %s: %s\n", what, why);
    exit(1);
}

static size_t ping_request(const void *ctx, struct load_lane *lane, char *out) {
    static const char ping[] = "*1\r\n$4\r\nPING\r\n";
    (void)ctx;
    (void)lane;
    memcpy(out, ping, sizeof ping - 1);
    return sizeof ping - 1;
}

static bool ping_reply(const void *ctx, struct load_lane *lane, const struct load_reply *reply) {
    (void)ctx;
    (void)lane;
    return reply->type == '+';
}

static const struct load_script ping_script = {.request = ping_request, .reply = ping_reply};

/* Of the same script against two servers; `other` may not run. */
static void sides_open(struct side *side, const struct load_script *script, struct side *other,
                       const struct process *server, const struct load_script *other_script,
                       uint32_t connections, uint32_t depth) {
    *side = side_of(load_open(tenure.port, connections, depth, script));
    *other = (struct side){0};
    if (server->id != 0) {
        *other = side_of(load_open(server->port, connections, depth, other_script));
    }
}

static void sides_close(struct side *side, struct side *other) {
    side_close(side);
    side_close(other);
}

/* ---- Against Redis ---- */

static const char *layout_name(bool lean) {
    return lean ? ", lean layout" : "";
}

static void measure_cycles(uint32_t connections, uint32_t depth, bool lean) {
    static struct side side, other;
    struct tenure_job job = {.pool = "bench", .work = WORK_CYCLE};
    struct redis_job other_job = {.work = WORK_CYCLE, .pool = POOL_CYCLES, .lean = lean};
    struct load_script script = tenure_script(&job), other_script = redis_script(&other_job);
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "server cycles, %u x %u%s", connections, depth, layout_name(lean));
    sides_open(&side, &script, &other, &redis, &other_script, connections, depth);
    turns_take(&side, &other);
    turns_report(name, 2, &side, &other);
    sides_close(&side, &other);
}

static void measure_renewals(uint32_t depth, bool lean) {
    static struct side side, other;
    struct tenure_job job = {.pool = "renew", .work = WORK_RENEW};
    struct redis_job other_job = {.work = WORK_RENEW, .pool = POOL_RENEWALS, .lean = lean};
    struct load_script script = tenure_script(&job), other_script = redis_script(&other_job);
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "server renewals, 64 x %u%s", depth, layout_name(lean));
    sides_open(&side, &script, &other, &redis, &other_script, 64, depth);
    turns_take(&side, &other);
    turns_report(name, 1, &side, &other);
    sides_close(&side, &other);
}

/* All clients want one value: SET NX in Redis, and a script that deletes the client's own lock. */
static void measure_contention(uint32_t depth) {
    static struct side side, other;
    uint64_t grants = 0, other_grants = 0;
    struct tenure_job job = {.pool = "one", .work = WORK_CONTEND, .grants = &grants};
    struct redis_job other_job = {.work = WORK_CONTEND, .pool = POOL_LOCK, .grants = &other_grants};
    struct load_script script = tenure_script(&job), other_script = redis_script(&other_job);
    char attempts[NAME_BYTES], granted[NAME_BYTES];
    snprintf(attempts, sizeof attempts, "server contention, %u x %u, attempts", CONTENDERS, depth);
    snprintf(granted, sizeof granted, "server contention, %u x %u, grants", CONTENDERS, depth);
    sides_open(&side, &script, &other, &redis, &other_script, CONTENDERS, depth);
    side.grants = &grants;
    other.grants = &other_grants;
    turns_take(&side, &other);
    turns_report_contention(attempts, granted, &side, &other);
    sides_close(&side, &other);
}

static void measure_ping(void) {
    static struct side side, other;
    sides_open(&side, &ping_script, &other, &redis_plain, &ping_script, 64, 32);
    turns_take(&side, &other);
    turns_report("server PING, 64 x 32", 1, &side, &other);
    sides_close(&side, &other);
}

/* Both at the same rate: half of what the slower one can do. */
static double equal_rate(struct load *load[2]) {
    double rate = load_turn(load[0], turns_plan.ns, NULL);
    if (load[1] != NULL) {
        double its = load_turn(load[1], turns_plan.ns, NULL);
        rate = its < rate ? its : rate;
    }
    return rate / 2;
}

static void latency_row(const char *name, const char *which, const double *of,
                        const double *other) {
    char row[NAME_BYTES];
    snprintf(row, sizeof row, "server %s at equal load, %s", name, which);
    if (redis.id == 0) {
        bench_row(row, turns_median(of));
        return;
    }
    bench_row_peer(row, turns_median(of), turns_median_ratio(of, other), turns_median(other));
}

static void measure_latency(const char *name, enum work what) {
    bool lean = what == WORK_RENEW;
    struct tenure_job job = {.pool = lean ? "renew" : "bench", .work = what};
    struct redis_job other_job = {
        .work = what, .pool = lean ? POOL_RENEWALS : POOL_CYCLES, .lean = lean};
    struct load_script script = tenure_script(&job), other_script = redis_script(&other_job);
    struct load *load[2] = {load_open(tenure.port, 64, 1, &script), NULL};
    double p50[2][TURNS_MAX] = {{0}}, p99[2][TURNS_MAX] = {{0}};
    unsigned sides = redis.id != 0 ? 2 : 1;
    if (sides == 2) {
        load[1] = load_open(redis.port, 64, 1, &other_script);
    }
    double rate = equal_rate(load);
    for (unsigned i = 0; i < turns_plan.count; i++) {
        for (unsigned k = 0; k < sides; k++) {
            struct load_histogram one = {0};
            load_turn_at_rate(load[k], turns_plan.ns, rate, &one);
            p50[k][i] = load_percentile_us(&one, 0.5);
            p99[k][i] = load_percentile_us(&one, 0.99);
        }
    }
    fprintf(stderr, "   %s at equal load: %.0f requests/s\n", name, rate);
    latency_row(name, "p50", p50[0], p50[1]);
    latency_row(name, "p99", p99[0], p99[1]);
    for (unsigned k = 0; k < sides; k++) {
        load_close(load[k]);
    }
}

/* ---- Against the floor of the machine ---- */

/* A packet each way, by a server that does nothing else: PING, in requests a second. */
static void measure_floor(const char *name, const char *pool, enum work what) {
    static struct side side, other;
    struct tenure_job job = {.pool = pool, .work = what};
    struct load_script script = tenure_script(&job);
    sides_open(&side, &script, &other, &redis_plain, &ping_script, 64, 1);
    turns_take(&side, &other);
    turns_report(name, 1, &side, &other);
    sides_close(&side, &other);
}

/* One client that waits for each reply can do no more than one sync and one round trip allow. */
struct lone {
    int file;
    struct load *ping;
};

static double lone_turn(void *ctx, uint64_t ns, struct load_histogram *histogram) {
    const struct lone *lone = ctx;
    double seconds;
    uint64_t syncs = disk_turn(lone->file, ns / 2, &seconds);
    double trips = load_turn(lone->ping, ns / 2, histogram);
    return 1 / (seconds / (double)syncs + 1 / trips);
}

static void lone_close(void *ctx) {
    const struct lone *lone = ctx;
    load_close(lone->ping);
    (void)close(lone->file);
}

static void measure_lone(void) {
    static struct side side, other;
    const struct process *server = redis_plain.id != 0 ? &redis_plain : &tenure;
    struct tenure_job job = {.pool = "bench", .work = WORK_CYCLE};
    struct load_script script = tenure_script(&job);
    struct lone lone = {.file = disk_open(process_directory()),
                        .ping = load_open(server->port, 1, 1, &ping_script)};
    side = side_of(load_open(tenure.port, 1, 1, &script));
    other = (struct side){.turn = lone_turn, .close = lone_close, .ctx = &lone};
    turns_take(&side, &other);
    turns_report("server requests, 1 x 1, to a sync and a round trip", 1, &side, &other);
    sides_close(&side, &other);
}

static void measure_cpu(const char *name, const char *pool, enum work what) {
    struct tenure_job job = {.pool = pool, .work = what};
    struct load_script script = tenure_script(&job);
    struct load *load = load_open(tenure.port, 64, 32, &script);
    (void)load_turn(load, turns_plan.ns, NULL);
    uint64_t start = bench_now_ns();
    double before = process_cpu_us(&tenure);
    double rate = load_turn(load, 8 * turns_plan.ns, NULL);
    double requests = rate * (double)(bench_now_ns() - start) / 1e9;
    bench_row(name, (process_cpu_us(&tenure) - before) / requests);
    load_close(load);
}

/* ---- Against itself ---- */

/* The same from a pool of which 99 % is held. */
static void measure_full(const char *name, const char *pool, const char *full, uint32_t depth) {
    static struct side side, other;
    struct tenure_job job = {.pool = pool, .work = WORK_CYCLE};
    struct tenure_job full_job = {.pool = full, .work = WORK_CYCLE};
    struct load_script script = tenure_script(&job), full_script = tenure_script(&full_job);
    sides_open(&side, &full_script, &other, &tenure, &script, 64, depth);
    turns_take(&side, &other);
    turns_report(name, 2, &side, &other);
    sides_close(&side, &other);
}

static void measure_tls(void) {
    static struct side side, other;
    struct tenure_job job = {.pool = "renew", .work = WORK_RENEW};
    struct load_script script = tenure_script(&job);
    side = side_of(load_open_tls(tenure.tls_port, 64, 32, &script));
    other = side_of(load_open(tenure.port, 64, 32, &script));
    turns_take(&side, &other);
    turns_report("server renewals with TLS, 64 x 32", 1, &side, &other);
    sides_close(&side, &other);
}

static void measure_resp3(void) {
    static struct side side, other;
    struct tenure_job job = {.pool = "renew", .work = WORK_RENEW}, job3 = job;
    job3.resp3 = true;
    struct load_script script = tenure_script(&job), script3 = tenure_script(&job3);
    sides_open(&side, &script3, &other, &tenure, &script, 64, 32);
    turns_take(&side, &other);
    turns_report("server renewals with RESP3, 64 x 32", 1, &side, &other);
    sides_close(&side, &other);
}

/* A fresh server, so that memory that was needed before does not hide what a connection needs. */
static void measure_idle(void) {
    /* The server's limit is 10,000. */
    uint32_t count = length == BENCH_SMOKE ? 100 : IDLE_CONNECTIONS - 100;
    struct process server = process_tenure("idle");
    struct load *few = load_open(server.port, 100, 1, &ping_script);
    load_round(few);
    uint64_t before = process_resident_bytes(&server);
    struct load *many = load_open(server.port, count, 1, &ping_script);
    load_round(many);
    double each = (double)(process_resident_bytes(&server) - before) / count;
    bench_row("server memory of an idle connection", each);
    bench_row("server PING, 10,000 connections", load_turn(many, turns_plan.ns, NULL));
    load_close(many);
    load_close(few);
    process_stop(&server);
}

/* ---- All of them ---- */

static void measure_always(void) {
    measure_cycles(64, 1, false);
    measure_cycles(64, 32, false);
    measure_cycles(1, 1, false);
    measure_renewals(1, true);
    measure_renewals(32, true);
    measure_contention(1);
    measure_contention(32);
    measure_floor("server cycles, 64 x 1, requests to PING", "bench", WORK_CYCLE);
    measure_floor("server renewals, 64 x 1, to PING", "renew", WORK_RENEW);
    measure_lone();
    measure_cpu("server CPU a request, cycles, 64 x 32", "bench", WORK_CYCLE);
    measure_cpu("server CPU a request, renewals, 64 x 32", "renew", WORK_RENEW);
}

static void measure_more(void) {
    measure_tls();
    measure_resp3();
    tenure_pool_fill(tenure.port, "full", narrow_values / 100 * 99);
    measure_full("server cycles at 99 %, 64 x 1", "bench", "full", 1);
    measure_ping();
    measure_latency("cycles", WORK_CYCLE);
    measure_latency("renewals", WORK_RENEW);
    measure_idle();
}

static void measure_full_run_only(void) {
    measure_cycles(64, 1, true);
    measure_cycles(64, 32, true);
    measure_renewals(32, false);
    tenure_pool_fill(tenure.port, "wide-full", WIDE_VALUES / 100 * 99);
    measure_full("server cycles at 99 %, 64 x 32", "wide", "wide-full", 32);
}

static void descriptors_raise(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static void servers_start(bool with_redis) {
    tenure = process_tenure("tenure");
    tenure_pool_make(tenure.port, "bench", narrow_values, "");
    tenure_pool_make(tenure.port, "full", narrow_values, "");
    tenure_pool_make(tenure.port, "wide", WIDE_VALUES, "");
    tenure_pool_make(tenure.port, "wide-full", WIDE_VALUES, "");
    tenure_pool_make(tenure.port, "renew", WIDE_VALUES, "");
    tenure_pool_make(tenure.port, "one", 1, "");
    if (!with_redis) {
        return;
    }
    if (!process_redis("redis", true, &redis) ||
        !process_redis("redis-plain", false, &redis_plain)) {
        die("redis-server", "not installed: tools/deps.sh bench");
    }
    redis_prepare(redis.port);
    redis_pool_make(redis.port, POOL_CYCLES, narrow_values, 0);
    redis_pool_make(redis.port, POOL_RENEWALS, WIDE_VALUES, 0);
}

int main(int argc, char **argv) {
    length = bench_length_of(argc, argv);
    if (length == BENCH_SMOKE) {
        turns_plan = (struct turns_plan){.count = 1, .ns = 10000000u};
        narrow_values = 8192;
    } else if (length == BENCH_QUICK) {
        turns_plan.count = 4;
    }
    descriptors_raise();
    process_directory_make();
    servers_start(length != BENCH_SMOKE && !bench_without(argc, argv, "redis"));
    measure_always();
    if (length != BENCH_QUICK) {
        measure_more();
    }
    if (length == BENCH_FULL) {
        measure_full_run_only();
    }
    process_stop(&tenure);
    if (redis.id != 0) {
        process_stop(&redis);
        process_stop(&redis_plain);
    }
    process_directory_remove();
    return 0;
}
