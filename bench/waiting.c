/* Handovers of one value: how fast it goes from each client to the next, while many want it.
 *
 * With Tenure the clients wait in line (WAIT). One command, the release, gives the value back and grants
 * it to the next, and every client is granted it once, in the order in which they came, which is checked.
 * With Redis 32 clients poll: SET NX until it succeeds, then a script that deletes the lock if it is
 * theirs. Some poll as client libraries do, with a pause (lib/pollers.h), others without one, which is the
 * best for the time of a handover and takes all processors. All sync every change before its reply.
 *
 * The floor is one sync of the disk and one round trip over loopback: a client releases the value after
 * it has heard of its grant, and hears of its grant after the sync.
 *
 * The sides take turns. Turns of the others are taken while a client that was granted the value has not
 * given it back yet, so Tenure's clients stay in line. */
#include "bench.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/disk.h"
#include "lib/load.h"
#include "lib/loopback.h"
#include "lib/pollers.h"
#include "lib/process.h"
#include "lib/words.h"

#define TURNS 10u
#define LINE 9990u /* the server takes 10,000 connections */
#define CONTENDERS 32u

static _Noreturn void die(const char *what, const char *why) {
    fprintf(stderr, "bench: %s: %s\n", what, why);
    exit(1);
}

/* ---- Sides ---- */

struct side {
    double rate[TURNS]; /* handovers a second */
    uint64_t grants, commands;
    double cpu_us; /* of the server, during the turns */
};

static struct {
    unsigned turns, taken;
    uint64_t turn_ns;
    struct process tenure, redis;
    bool with_redis;
    struct load *ping;       /* the floor: round trips to Tenure */
    int disk;                /* and syncs */
    struct load *busy;       /* clients of Redis that poll without a pause */
    struct pollers *pausing; /* and with one */
    struct side in_line, floor, polls_busy, polls_pausing;
} bench = {.turns = TURNS, .turn_ns = 500000000u};

/* ---- The floor ---- */

static size_t ping_request(const void *ctx, struct load_lane *lane, char *out) {
    (void)ctx;
    (void)lane;
    return words_split("PING", out);
}

static bool ping_reply(const void *ctx, struct load_lane *lane, const struct load_reply *reply) {
    (void)ctx;
    (void)lane;
    return reply->type == '+';
}

static double floor_turn(void) {
    double seconds;
    uint64_t syncs = disk_turn(bench.disk, bench.turn_ns / 2, &seconds);
    double trips = load_turn(bench.ping, bench.turn_ns / 2, NULL);
    return 1 / (seconds / (double)syncs + 1 / trips);
}

/* ---- Redis ---- */

static char redis_delete_sha[41];
static uint64_t redis_taken, redis_commands;

static size_t redis_request(const void *ctx, struct load_lane *lane, char *out) {
    char words[96];
    (void)ctx;
    redis_commands++;
    if (lane->step == 0) {
        snprintf(words, sizeof words, "SET lock c/%u NX PX 3600000", lane->index);
    } else {
        snprintf(words, sizeof words, "EVALSHA %s 1 lock c/%u", redis_delete_sha, lane->index);
    }
    return words_split(words, out);
}

static bool redis_reply(const void *ctx, struct load_lane *lane, const struct load_reply *reply) {
    (void)ctx;
    if (lane->step == 1) {
        lane->step = 0;
        return reply->type == ':' && reply->of[0].at[0] == '1';
    }
    lane->step = reply->type == '+';
    redis_taken += lane->step;
    return reply->type == '+' || reply->type == '$'; /* $-1: another has it */
}

static void redis_prepare(const struct process *redis) {
    load_ask(redis->port,
             "SCRIPT LOAD \"if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end "
             "return redis.call('DEL', KEYS[1])\"\r\n",
             redis_delete_sha, sizeof redis_delete_sha);
    if (strlen(redis_delete_sha) != 40) {
        die("redis-server", redis_delete_sha);
    }
}

static double busy_turn(struct side *side) {
    uint64_t start = bench_now_ns();
    redis_taken = redis_commands = 0;
    (void)load_turn(bench.busy, bench.turn_ns, NULL);
    side->grants += redis_taken;
    side->commands += redis_commands;
    return (double)redis_taken * 1e9 / (double)(bench_now_ns() - start);
}

static double pausing_turn(struct side *side) {
    struct pollers_count count = pollers_turn(bench.pausing, bench.turn_ns);
    side->grants += count.grants;
    side->commands += count.commands;
    return (double)count.grants * 1e9 / (double)bench.turn_ns;
}

static void redis_turn(struct side *side, double (*turn)(struct side *)) {
    double before = process_cpu_us(&bench.redis);
    side->rate[bench.taken] = turn(side);
    side->cpu_us += process_cpu_us(&bench.redis) - before;
}

/* ---- Tenure ---- */

/* One round: every lane is granted the value once. */
struct line {
    int releases; /* the connection that releases the value for all lanes */
    uint64_t last_lsn;
    /* Of this turn; it begins with a client that is about to release the value. */
    uint64_t begun_ns, grants;
    double begun_cpu_us;
};

static struct line line;

static size_t line_request(const void *ctx, struct load_lane *lane, char *out) {
    char words[64];
    (void)ctx;
    snprintf(words, sizeof words, "ALLOC one c/%u WAIT 3600", lane->index);
    return words_split(words, out);
}

/* What comes back is of no interest, but must not fill the connection. */
static void release(const char *lease, uint32_t len, uint32_t index) {
    char words[64], request[LOAD_REQUEST_MAX], drop[4096];
    snprintf(words, sizeof words, "RELEASE %.*s c/%u 1", (int)len, lease, index);
    size_t size = words_split(words, request);
    if (send(line.releases, request, size, MSG_NOSIGNAL) != (ssize_t)size) {
        die("cannot release", strerror(errno));
    }
    while (recv(line.releases, drop, sizeof drop, MSG_DONTWAIT) > 0) {
    }
}

static void turn_begin(void) {
    line.begun_cpu_us = process_cpu_us(&bench.tenure);
    line.begun_ns = bench_now_ns();
    line.grants = 0;
}

/* The other sides have theirs now. */
static void turn_end(uint64_t now_ns) {
    struct side *side = &bench.in_line;
    side->rate[bench.taken] = (double)line.grants * 1e9 / (double)(now_ns - line.begun_ns);
    side->cpu_us += process_cpu_us(&bench.tenure) - line.begun_cpu_us;
    side->grants += line.grants;
    side->commands += 2 * line.grants; /* the ALLOC with WAIT, and the RELEASE */
    bench.floor.rate[bench.taken] = floor_turn();
    if (bench.with_redis) {
        redis_turn(&bench.polls_busy, busy_turn);
        redis_turn(&bench.polls_pausing, pausing_turn);
    }
    bench.taken++;
    turn_begin();
}

/* result OK lease 0-LSN ... */
static bool line_reply(const void *ctx, struct load_lane *lane, const struct load_reply *reply) {
    (void)ctx;
    if (reply->type != '*' || reply->count < 7 || reply->of[4].len < 3 ||
        memcmp(reply->of[4].at, "0-", 2) != 0) {
        return false;
    }
    uint64_t now_ns = bench_now_ns(), lsn = strtoull(reply->of[4].at + 2, NULL, 10);
    if (lsn <= line.last_lsn) {
        die("waiting", "a later client was granted the value before an earlier one");
    }
    line.last_lsn = lsn;
    line.grants++;
    if (line.begun_ns == 0) {
        turn_begin(); /* the first grant of a round is no handover */
    } else if (bench.taken < bench.turns && now_ns - line.begun_ns >= bench.turn_ns) {
        turn_end(now_ns);
    }
    release(reply->of[4].at, reply->of[4].len, lane->index);
    return true;
}

static int connect_to(uint16_t port) {
    int made = loopback_connect(port);
    if (made < 0) {
        die("cannot connect", strerror(errno));
    }
    return made;
}

/* ---- All of them ---- */

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *of) {
    double sorted[TURNS];
    memcpy(sorted, of, bench.turns * sizeof *of);
    qsort(sorted, bench.turns, sizeof *sorted, compare);
    return sorted[bench.turns / 2];
}

/* `peer` is NULL without Redis. */
static void report_rate(const char *name, const struct side *peer) {
    double ratio[TURNS];
    if (peer == NULL) {
        bench_row(name, median(bench.in_line.rate));
        return;
    }
    for (unsigned i = 0; i < bench.turns; i++) {
        ratio[i] = bench.in_line.rate[i] / peer->rate[i];
    }
    bench_row_peer(name, median(bench.in_line.rate), median(ratio), median(peer->rate));
}

static void report_each(const char *name, double own, double peer) {
    bench_row_peer(name, own, own / peer, peer);
}

static double commands_each(const struct side *side) {
    return (double)side->commands / (double)side->grants;
}

static double cpu_each(const struct side *side) {
    return side->cpu_us / (double)side->grants;
}

static void report(void) {
    const struct side *own = &bench.in_line, *busy = &bench.polls_busy,
                      *pausing = &bench.polls_pausing;
    report_rate("server handovers of a value, 9,990 in line", bench.with_redis ? pausing : NULL);
    report_rate("server handovers of a value, to a sync and a round trip", &bench.floor);
    if (bench.with_redis) {
        report_rate("server handovers of a value, to busy polling", busy);
        report_each("server handovers, commands for each", commands_each(own),
                    commands_each(pausing));
        report_each("server handovers, commands for each, to busy polling", commands_each(own),
                    commands_each(busy));
        report_each("server handovers, CPU for each", cpu_each(own), cpu_each(pausing));
        report_each("server handovers, CPU for each, to busy polling", cpu_each(own),
                    cpu_each(busy));
    }
}

static const struct load_script in_line = {.request = line_request, .reply = line_reply};
static const struct load_script pings = {.request = ping_request, .reply = ping_reply};
static const struct load_script polls = {.request = redis_request, .reply = redis_reply};

static void others_open(void) {
    bench.disk = disk_open(process_directory());
    bench.ping = load_open(bench.tenure.port, 1, 1, &pings);
    if (bench.with_redis) {
        if (!process_redis("redis", true, &bench.redis)) {
            die("redis-server", "not installed: tools/deps.sh bench");
        }
        redis_prepare(&bench.redis);
        bench.busy = load_open(bench.redis.port, CONTENDERS, 1, &polls);
        bench.pausing = pollers_open(bench.redis.port, CONTENDERS, redis_delete_sha);
    }
}

static void others_close(void) {
    (void)close(bench.disk);
    load_close(bench.ping);
    if (bench.with_redis) {
        load_close(bench.busy);
        pollers_close(bench.pausing);
        process_stop(&bench.redis);
    }
}

int main(int argc, char **argv) {
    bool smoke = bench_length_of(argc, argv) == BENCH_SMOKE;
    struct rlimit limit;
    char reply[64], request[LOAD_REQUEST_MAX];
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (smoke) {
        bench.turns = 1;
        bench.turn_ns = 1000000u;
    }
    bench.with_redis = !smoke && !bench_without(argc, argv, "redis");
    process_directory_make();
    bench.tenure = process_tenure("tenure");
    (void)words_split("POOL CREATE one RANGE 1 1", request);
    load_ask(bench.tenure.port, request, reply, sizeof reply);
    line.releases = connect_to(bench.tenure.port);
    others_open();
    struct load *waiting = load_open(bench.tenure.port, smoke ? 100 : LINE, 1, &in_line);
    while (bench.taken < bench.turns) {
        line.begun_ns = 0;
        load_round(waiting);
    }
    report();
    load_close(waiting);
    others_close();
    (void)close(line.releases);
    process_stop(&bench.tenure);
    process_directory_remove();
    return 0;
}
