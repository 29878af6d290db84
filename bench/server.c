/* The server, as a process, against redis-server in the same run: the same generator, the same number
 * of connections, the same file system, every write synced before its reply. The two take turns of a
 * quarter of a second, since the machine is shared and its disk changes from one second to the next;
 * a ratio is the median of the ratios of neighbouring turns.
 *
 * A cycle is an allocation and its release, two requests: the release needs what the reply to the
 * allocation said. Redis does it with the scripts below, which keep what a lease needs at least: a free
 * list, a fencing token, who has the value, and when that ends. They do not look for expired leases,
 * remember no operations and tell nobody what happened, which Tenure does, and the client tells them
 * the time.
 *
 * --quick: one short turn each and no Redis; shows that the program works, not how fast anything is. */
#include "bench.h"

#include <stdbool.h>
#include <sys/resource.h>

#include "lib/load.h"
#include "lib/process.h"

#define ROUNDS_MAX 24u
#define WIDE_VALUES 262144u /* 99 % leaves more than the 2048 of 64 x 32 */
#define LEASE_SECONDS 3600u
#define IDLE_CONNECTIONS 10000u

static unsigned rounds = 16;
static uint64_t turn_ns = 250000000u;
static bool quick;
static unsigned narrow_values = 65536;
static struct process tenure, redis, redis_plain;

static _Noreturn void die(const char *what, const char *why) {
    fprintf(stderr, "bench: %s: %s\n", what, why);
    exit(1);
}

/* ---- Requests ---- */

struct words {
    char *at;
    size_t len;
};

static struct words words_of(char *out) {
    return (struct words){.at = out, .len = 0};
}

static void put_raw(struct words *w, const char *bytes, size_t len) {
    memcpy(w->at + w->len, bytes, len);
    w->len += len;
}

#define PUT(w, literal) put_raw(w, literal, sizeof(literal) - 1)

static size_t digits(uint64_t number, char out[20]) {
    char turned[20];
    size_t len = 0;
    do {
        turned[len++] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    for (size_t i = 0; i < len; i++) {
        out[i] = turned[len - 1 - i];
    }
    return len;
}

static void put_word(struct words *w, const char *bytes, size_t len) {
    char text[20];
    w->at[w->len++] = '$';
    put_raw(w, text, digits(len, text));
    put_raw(w, "\r\n", 2);
    put_raw(w, bytes, len);
    put_raw(w, "\r\n", 2);
}

static void put_number(struct words *w, uint64_t number) {
    char text[20];
    put_word(w, text, digits(number, text));
}

/* Every lane has a holder of its own. */
static void put_holder(struct words *w, const struct load_lane *lane, const char *prefix,
                       size_t len) {
    char text[64];
    struct words name = words_of(text);
    put_raw(&name, prefix, len);
    PUT(&name, "client/");
    name.len += digits(lane->index, text + name.len);
    put_word(w, text, name.len);
}

static void remember(struct load_lane *lane, const char *text, uint32_t len) {
    if (len > sizeof lane->text) {
        die("too long", "what a lane is to remember");
    }
    memcpy(lane->text, text, len);
    lane->text_len = len;
}

static size_t ping_request(const void *ctx, struct load_lane *lane, char *out) {
    (void)ctx;
    (void)lane;
    struct words w = words_of(out);
    PUT(&w, "*1\r\n$4\r\nPING\r\n");
    return w.len;
}

static bool ping_reply(const void *ctx, struct load_lane *lane, const struct load_reply *reply) {
    (void)ctx;
    (void)lane;
    return reply->type == '+';
}

static const struct load_script ping_script = {.request = ping_request, .reply = ping_reply};

/* ---- Tenure ---- */

enum job {
    JOB_CYCLE,
    JOB_RENEW, /* one allocation, then renewals of it */
    JOB_KEEP,  /* allocations only */
};

struct tenure_job {
    const char *pool;
    enum job job;
};

static size_t tenure_request(const void *ctx, struct load_lane *lane, char *out) {
    const struct tenure_job *job = ctx;
    struct words w = words_of(out);
    if (lane->step == 0) {
        PUT(&w, "*3\r\n$5\r\nALLOC\r\n");
        put_word(&w, job->pool, strlen(job->pool));
        put_holder(&w, lane, "", 0);
    } else if (job->job == JOB_CYCLE) {
        PUT(&w, "*4\r\n$7\r\nRELEASE\r\n");
        put_word(&w, lane->text, lane->text_len);
        put_holder(&w, lane, "", 0);
        put_number(&w, lane->number);
    } else {
        PUT(&w, "*3\r\n$5\r\nTOUCH\r\n");
        put_word(&w, lane->text, lane->text_len);
        put_number(&w, lane->number);
    }
    return w.len;
}

/* result OK lease L epoch E ... */
static bool tenure_reply(const void *ctx, struct load_lane *lane, const struct load_reply *reply) {
    const struct tenure_job *job = ctx;
    if (reply->type != '*' || reply->count < 7 || reply->of[2].len != 2 ||
        memcmp(reply->of[2].at, "OK", 2) != 0) {
        return false;
    }
    if (lane->step == 1) {
        lane->step = job->job == JOB_CYCLE ? 0 : 1;
        return true;
    }
    remember(lane, reply->of[4].at, reply->of[4].len);
    lane->number = strtoull(reply->of[6].at, NULL, 10);
    lane->step = job->job == JOB_KEEP ? 0 : 1;
    return true;
}

static struct load_script tenure_script(const struct tenure_job *job) {
    return (struct load_script){.request = tenure_request, .reply = tenure_reply, .ctx = job};
}

static void tenure_pool(const char *name, unsigned values) {
    char request[192], reply[64];
    struct words w = words_of(request);
    PUT(&w, "*8\r\n$4\r\nPOOL\r\n$6\r\nCREATE\r\n");
    put_word(&w, name, strlen(name));
    PUT(&w, "$5\r\nRANGE\r\n$1\r\n0\r\n");
    put_number(&w, values - 1);
    PUT(&w, "$5\r\nLEASE\r\n");
    put_number(&w, LEASE_SECONDS);
    request[w.len] = '\0';
    load_ask(tenure.port, request, reply, sizeof reply);
    if (strncmp(reply, "6", 1) != 0) {
        die(name, reply);
    }
}

/* ---- Redis ---- */

/* Two layouts. The full one can say who has a value: a free list, `owner` (value to TOKEN:HOLDER),
 * `due` (value to its end). The lean one cannot, and has less to write: a free list, and `leases`
 * (VALUE:TOKEN:HOLDER to its end). Either way an allocation replies VALUE:TOKEN: or nothing, and who
 * comes with a token that is not the present one gets 0. */
struct redis_layout {
    const char *alloc;   /* ARGV: the holder, the end in milliseconds */
    const char *release; /* ARGV: the value, TOKEN:HOLDER (full) or VALUE:TOKEN:HOLDER (lean) */
    char alloc_sha[41], release_sha[41];
};

static struct redis_layout redis_full = {
    .alloc = "local value = redis.call('LPOP', 'free') "
             "if not value then return false end "
             "local token = redis.call('INCR', 'token') "
             "redis.call('HSET', 'owner', value, token .. ':' .. ARGV[1]) "
             "redis.call('ZADD', 'due', ARGV[2], value) "
             "return value .. ':' .. token .. ':'",
    .release = "if redis.call('HGET', 'owner', ARGV[1]) ~= ARGV[2] then return 0 end "
               "redis.call('HDEL', 'owner', ARGV[1]) "
               "redis.call('ZREM', 'due', ARGV[1]) "
               "redis.call('RPUSH', 'free', ARGV[1]) "
               "return 1",
};

static struct redis_layout redis_lean = {
    .alloc = "local value = redis.call('LPOP', 'free') "
             "if not value then return false end "
             "local lease = value .. ':' .. redis.call('INCR', 'token') .. ':' "
             "redis.call('ZADD', 'leases', ARGV[2], lease .. ARGV[1]) "
             "return lease",
    .release = "if redis.call('ZREM', 'leases', ARGV[2]) == 0 then return 0 end "
               "redis.call('RPUSH', 'free', ARGV[1]) "
               "return 1",
};

/* Renewals. Full: a script, since the token is checked in one place and the end changed in another.
 * Lean: no script at all, ZADD XX does both. ARGV: the value, TOKEN:HOLDER, the end. */
static const char redis_renew_lua[] =
    "if redis.call('HGET', 'owner', ARGV[1]) ~= ARGV[2] then return 0 end "
    "redis.call('ZADD', 'due', ARGV[3], ARGV[1]) "
    "return 1";

struct redis_job {
    const struct redis_layout *layout;
    enum job job;
};

static char redis_renew_sha[41];
static uint64_t redis_end_ms = 1893456000000u; /* always later: an end that stays is not logged */

static void put_script(struct words *w, char count, const char *sha) {
    const char head[4] = {'*', count, '\r', '\n'};
    put_raw(w, head, sizeof head);
    PUT(w, "$7\r\nEVALSHA\r\n$40\r\n");
    put_raw(w, sha, 40);
    PUT(w, "\r\n$1\r\n0\r\n");
}

/* The lane remembers VALUE:TOKEN: and the length of the value. */
static void put_lease(struct words *w, const struct load_lane *lane, bool lean) {
    size_t skip = lean ? 0 : (size_t)lane->number + 1;
    put_holder(w, lane, lane->text + skip, lane->text_len - skip);
}

static size_t redis_request(const void *ctx, struct load_lane *lane, char *out) {
    const struct redis_job *job = ctx;
    bool lean = job->layout == &redis_lean;
    struct words w = words_of(out);
    if (lane->step == 0) {
        put_script(&w, '5', job->layout->alloc_sha);
        put_holder(&w, lane, "", 0);
        put_number(&w, redis_end_ms++);
    } else if (job->job == JOB_CYCLE) {
        put_script(&w, '5', job->layout->release_sha);
        put_word(&w, lane->text, (size_t)lane->number);
        put_lease(&w, lane, lean);
    } else if (lean) {
        PUT(&w, "*6\r\n$4\r\nZADD\r\n$6\r\nleases\r\n$2\r\nXX\r\n$2\r\nCH\r\n");
        put_number(&w, redis_end_ms++);
        put_lease(&w, lane, lean);
    } else {
        put_script(&w, '6', redis_renew_sha);
        put_word(&w, lane->text, (size_t)lane->number);
        put_lease(&w, lane, lean);
        put_number(&w, redis_end_ms++);
    }
    return w.len;
}

static bool redis_reply(const void *ctx, struct load_lane *lane, const struct load_reply *reply) {
    const struct redis_job *job = ctx;
    if (lane->step == 1) {
        lane->step = job->job == JOB_CYCLE ? 0 : 1;
        return reply->type == ':' && reply->of[0].at[0] == '1';
    }
    if (reply->type != '$' || reply->of[0].len < 3) {
        return false;
    }
    remember(lane, reply->of[0].at, reply->of[0].len);
    lane->number = (uint64_t)((const char *)memchr(lane->text, ':', lane->text_len) - lane->text);
    lane->step = 1;
    return true;
}

static struct load_script redis_script(const struct redis_job *job) {
    return (struct load_script){.request = redis_request, .reply = redis_reply, .ctx = job};
}

static void redis_load(const char *lua, char sha[41]) {
    char request[1024];
    snprintf(request, sizeof request, "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%zu\r\n%s\r\n",
             strlen(lua), lua);
    load_ask(redis.port, request, sha, 41);
    if (strlen(sha) != 40) {
        die("redis-server", sha);
    }
}

static void redis_prepare(void) {
    char reply[64];
    redis_load(redis_full.alloc, redis_full.alloc_sha);
    redis_load(redis_full.release, redis_full.release_sha);
    redis_load(redis_lean.alloc, redis_lean.alloc_sha);
    redis_load(redis_lean.release, redis_lean.release_sha);
    redis_load(redis_renew_lua, redis_renew_sha);
    load_ask(redis.port,
             "EVAL \"for i = 0, 65535 do redis.call('RPUSH', 'free', i) end return 1\" 0\r\n",
             reply, sizeof reply);
}

/* ---- Taking turns ---- */

struct side {
    struct load *load;
    double rate[ROUNDS_MAX];
    struct load_histogram histogram;
};

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *of) {
    double sorted[ROUNDS_MAX];
    memcpy(sorted, of, rounds * sizeof *of);
    qsort(sorted, rounds, sizeof *sorted, compare);
    return (sorted[(rounds - 1) / 2] + sorted[rounds / 2]) / 2;
}

static double median_ratio(const double *over, const double *under) {
    double ratio[ROUNDS_MAX] = {0};
    for (unsigned i = 0; i < rounds; i++) {
        ratio[i] = over[i] / under[i];
    }
    return median(ratio);
}

/* What the first turn pays for (connections, pages, scripts) is nobody's rate. */
static void turns(struct side *side, struct side *other) {
    (void)load_turn(side->load, turn_ns / 2, NULL);
    if (other->load != NULL) {
        (void)load_turn(other->load, turn_ns / 2, NULL);
    }
    for (unsigned i = 0; i < rounds; i++) {
        side->rate[i] = load_turn(side->load, turn_ns, &side->histogram);
        if (other->load != NULL) {
            other->rate[i] = load_turn(other->load, turn_ns, &other->histogram);
        }
    }
}

static void remark(const char *who, const struct side *side) {
    fprintf(stderr, "   %-8s %10.0f requests/s   p50 %8.0f us   p99 %8.0f us\n", who,
            median(side->rate), load_percentile_us(&side->histogram, 0.5),
            load_percentile_us(&side->histogram, 0.99));
}

/* `other` may have no load: then there is only a figure. `a_unit` requests make one of the unit. */
static void report(const char *name, const char *unit, double a_unit, const struct side *side,
                   const char *whose, const struct side *other, double goal) {
    double rate = median(side->rate) / a_unit;
    char reference[96];
    remark("tenure", side);
    if (other->load == NULL) {
        bench_report(name, rate, unit);
        return;
    }
    remark(whose, other);
    int len = snprintf(reference, sizeof reference, "times %s at %.4g", whose,
                       median(other->rate) / a_unit);
    if (goal > 0) {
        snprintf(reference + len, sizeof reference - (size_t)len, " (goal %g)", goal);
    }
    bench_report_ratio(name, rate, unit, median_ratio(side->rate, other->rate), reference);
}

static void sides_close(struct side *side, struct side *other) {
    load_close(side->load);
    if (other->load != NULL) {
        load_close(other->load);
    }
}

/* ---- Measurements ---- */

static const char *redis_name(const struct redis_layout *layout) {
    return layout == &redis_full ? "redis" : "lean redis";
}

static void measure_cycles(uint32_t connections, uint32_t depth, const struct redis_layout *layout,
                           double goal) {
    struct tenure_job job = {.pool = "bench", .job = JOB_CYCLE};
    struct redis_job other_job = {.job = JOB_CYCLE, .layout = layout};
    char name[64];
    struct load_script script = tenure_script(&job), other_script = redis_script(&other_job);
    static struct side side, other;
    side = other = (struct side){0};
    side.load = load_open(tenure.port, connections, depth, &script);
    if (redis.id != 0) {
        other.load = load_open(redis.port, connections, depth, &other_script);
    }
    turns(&side, &other);
    snprintf(name, sizeof name, "server cycles, %u x %u", connections, depth);
    report(name, "cycles/s", 2, &side, redis_name(layout), &other, goal);
    sides_close(&side, &other);
}

/* Tenure against itself: the same cycles from a pool of which 99 % is held. */
static void measure_full(const char *name, const char *pool, const char *full, uint32_t depth) {
    struct tenure_job job = {.pool = pool, .job = JOB_CYCLE};
    struct tenure_job full_job = {.pool = full, .job = JOB_CYCLE};
    struct load_script script = tenure_script(&job), full_script = tenure_script(&full_job);
    static struct side side, other;
    side = other = (struct side){0};
    side.load = load_open(tenure.port, 64, depth, &full_script);
    other.load = load_open(tenure.port, 64, depth, &script);
    turns(&side, &other);
    report(name, "cycles/s", 2, &side, "empty", &other, 0.9);
    sides_close(&side, &other);
}

/* Holds 99 % of the pool, with as many leases. */
static void pool_fill(const char *name, unsigned values) {
    struct tenure_job job = {.pool = name, .job = JOB_KEEP};
    struct load_script script = tenure_script(&job);
    unsigned lanes = 64 * 8;
    struct load *load = load_open(tenure.port, 64, 8, &script);
    for (unsigned held = 0; held + lanes <= values / 100 * 99; held += lanes) {
        load_round(load);
    }
    load_close(load);
}

static void measure_renewals(uint32_t depth, const struct redis_layout *layout, double goal) {
    struct tenure_job job = {.pool = "renew", .job = JOB_RENEW};
    struct redis_job other_job = {.job = JOB_RENEW, .layout = layout};
    char name[64];
    struct load_script script = tenure_script(&job), other_script = redis_script(&other_job);
    static struct side side, other;
    side = other = (struct side){0};
    side.load = load_open(tenure.port, 64, depth, &script);
    if (redis.id != 0) {
        other.load = load_open(redis.port, 64, depth, &other_script);
    }
    turns(&side, &other);
    snprintf(name, sizeof name, "server renewals, 64 x %u", depth);
    report(name, "renewals/s", 1, &side, redis_name(layout), &other, goal);
    sides_close(&side, &other);
}

/* Tenure against itself: the same renewals with TLS. */
static void measure_tls(void) {
    struct tenure_job job = {.pool = "renew", .job = JOB_RENEW};
    struct load_script script = tenure_script(&job);
    static struct side side, other;
    side = other = (struct side){0};
    side.load = load_open_tls(tenure.tls_port, 64, 32, &script);
    other.load = load_open(tenure.port, 64, 32, &script);
    turns(&side, &other);
    report("server renewals with TLS, 64 x 32", "renewals/s", 1, &side, "plain", &other, 0.5);
    sides_close(&side, &other);
}

static void measure_ping(void) {
    static struct side side, other;
    side.load = load_open(tenure.port, 64, 32, &ping_script);
    if (redis_plain.id != 0) {
        other.load = load_open(redis_plain.port, 64, 32, &ping_script);
    }
    turns(&side, &other);
    report("server PING, 64 x 32", "replies/s", 1, &side, "redis, nothing on disk", &other, 0.8);
    sides_close(&side, &other);
}

/* Both at the same rate, half of what the slower one can do, whatever they would like. */
static void measure_latency(const char *name, enum job what) {
    struct tenure_job job = {.pool = what == JOB_CYCLE ? "bench" : "renew", .job = what};
    struct redis_job other_job = {.job = what,
                                  .layout = what == JOB_CYCLE ? &redis_full : &redis_lean};
    struct load_script script = tenure_script(&job), other_script = redis_script(&other_job);
    struct load *load[2] = {load_open(tenure.port, 64, 1, &script)};
    struct load_histogram one;
    double p50[2][ROUNDS_MAX] = {{0}}, p99[2][ROUNDS_MAX] = {{0}},
           rate = load_turn(load[0], turn_ns, NULL);
    unsigned sides = redis.id != 0 ? 2 : 1;
    char row[96], reference[96];
    if (sides == 2) {
        load[1] = load_open(redis.port, 64, 1, &other_script);
        double its = load_turn(load[1], turn_ns, NULL);
        rate = its < rate ? its : rate;
    }
    for (unsigned i = 0; i < rounds; i++) {
        for (unsigned k = 0; k < sides; k++) {
            memset(&one, 0, sizeof one);
            load_turn_at_rate(load[k], 2 * turn_ns, rate / 2, &one);
            p50[k][i] = load_percentile_us(&one, 0.5);
            p99[k][i] = load_percentile_us(&one, 0.99);
        }
    }
    for (unsigned k = 0; k < 2; k++) {
        double(*figures)[ROUNDS_MAX] = k == 0 ? p50 : p99;
        snprintf(row, sizeof row, "server %s at %.0f requests/s, %s", name, rate / 2,
                 k == 0 ? "p50" : "p99");
        if (sides == 1) {
            bench_report(row, median(figures[0]), "us");
            continue;
        }
        snprintf(reference, sizeof reference, "times redis at %.4g%s", median(figures[1]),
                 k == 0 ? "" : " (goal 1)");
        bench_report_ratio(row, median(figures[0]), "us", median_ratio(figures[0], figures[1]),
                           reference);
    }
    for (unsigned k = 0; k < sides; k++) {
        load_close(load[k]);
    }
}

/* A fresh server, so that nothing that was needed before hides what a connection needs. */
static void measure_idle(void) {
    uint32_t count = quick ? 100 : IDLE_CONNECTIONS - 100; /* its limit is 10,000 */
    struct process server = process_tenure("idle");
    struct load *few = load_open(server.port, 100, 1, &ping_script);
    load_round(few);
    uint64_t before = process_resident_bytes(&server);
    struct load *many = load_open(server.port, count, 1, &ping_script);
    load_round(many);
    double each = (double)(process_resident_bytes(&server) - before) / count;
    bench_report_ratio("server memory of an idle connection", each, "bytes", each / 4096,
                       "of 4 KiB");
    double rate = load_turn(many, turn_ns, NULL);
    bench_report("server PING, 10,000 connections", rate, "replies/s");
    load_close(many);
    load_close(few);
    process_stop(&server);
}

static void measure_all(void) {
    measure_cycles(64, 1, &redis_full, 1.6);
    measure_cycles(64, 32, &redis_full, 8);
    measure_cycles(1, 1, &redis_full, 1.1);
    measure_renewals(1, &redis_lean, 0.9);
    measure_renewals(32, &redis_lean, 2);
    measure_tls();
    pool_fill("full", narrow_values);
    measure_full("server cycles at 99 %, 64 x 1", "bench", "full", 1);
    if (!quick) {
        measure_cycles(64, 1, &redis_lean, 0);
        measure_cycles(64, 32, &redis_lean, 0);
        measure_renewals(32, &redis_full, 0);
        pool_fill("wide-full", WIDE_VALUES);
        measure_full("server cycles at 99 %, 64 x 32", "wide", "wide-full", 32);
    }
    measure_ping();
    measure_latency("cycles", JOB_CYCLE);
    measure_latency("renewals", JOB_RENEW);
    measure_idle();
}

static void descriptors_raise(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int main(int argc, char **argv) {
    quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    if (quick) {
        rounds = 1;
        turn_ns = 10000000u;
        narrow_values = 8192;
    }
    descriptors_raise();
    process_directory_make();
    tenure = process_tenure("tenure");
    tenure_pool("bench", narrow_values);
    tenure_pool("full", narrow_values);
    tenure_pool("wide", WIDE_VALUES);
    tenure_pool("wide-full", WIDE_VALUES);
    tenure_pool("renew", narrow_values);
    if (!quick) {
        if (!process_redis("redis", true, &redis) ||
            !process_redis("redis-plain", false, &redis_plain)) {
            die("redis-server", "not installed: tools/deps.sh bench");
        }
        redis_prepare();
    }
    measure_all();
    process_stop(&tenure);
    if (!quick) {
        process_stop(&redis);
        process_stop(&redis_plain);
    }
    process_directory_remove();
    return 0;
}
