/* Handovers of one value: how fast it goes from each client to the next, while many want it.
 *
 * With Tenure the clients wait in line (WAIT). One command, the release, gives the value back and grants
 * it to the next, and every client is granted it once, in the order in which they came, which is checked.
 * With Redis the clients poll: SET NX until it succeeds, then a script that deletes the lock if it is
 * theirs. They poll without a pause, which is the best for the time of a handover; there are few of them,
 * since every one takes processor time. Both sync every change before its reply.
 */
#include "bench.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/load.h"
#include "lib/process.h"
#include "lib/words.h"

#define ROUNDS 5u
#define LINE 9990u /* the server takes 10,000 connections */
#define CONTENDERS 32u
#define TURN_NS 1000000000u

static _Noreturn void die(const char *what, const char *why) {
    fprintf(stderr, "bench: %s: %s\n", what, why);
    exit(1);
}

/* ---- Tenure ---- */

/* One round: every lane is granted the value once. */
struct line {
    int releases; /* the connection that releases the value for all lanes */
    uint64_t last_lsn;
    uint64_t first_ns, last_ns; /* of the grants */
    uint64_t grants;
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

/* result OK lease 0-LSN ... */
static bool line_reply(const void *ctx, struct load_lane *lane, const struct load_reply *reply) {
    (void)ctx;
    if (reply->type != '*' || reply->count < 7 || reply->of[4].len < 3 ||
        memcmp(reply->of[4].at, "0-", 2) != 0) {
        return false;
    }
    uint64_t lsn = strtoull(reply->of[4].at + 2, NULL, 10);
    if (lsn <= line.last_lsn) {
        die("waiting", "a later client was granted the value before an earlier one");
    }
    line.last_lsn = lsn;
    line.last_ns = bench_now_ns();
    line.first_ns = line.grants++ == 0 ? line.last_ns : line.first_ns;
    release(reply->of[4].at, reply->of[4].len, lane->index);
    return true;
}

/* Handovers a second. The first grant is none. */
static double line_round(struct load *load) {
    line.grants = 0;
    load_round(load);
    return (double)(line.grants - 1) * 1e9 / (double)(line.last_ns - line.first_ns);
}

static int connect_to(uint16_t port) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (made < 0 || connect(made, (const struct sockaddr *)&address, sizeof address) != 0) {
        die("cannot connect", strerror(errno));
    }
    return made;
}

/* ---- Redis ---- */

static char redis_delete_sha[41];
static uint64_t redis_taken;

static size_t redis_request(const void *ctx, struct load_lane *lane, char *out) {
    char words[96];
    (void)ctx;
    if (lane->step == 0) {
        snprintf(words, sizeof words, "SET lock c/%u NX PX 3600000", lane->index);
    } else {
        snprintf(words, sizeof words, "EVALSHA %s 0 c/%u", redis_delete_sha, lane->index);
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
             "SCRIPT LOAD \"if redis.call('GET', 'lock') ~= ARGV[1] then return 0 end "
             "return redis.call('DEL', 'lock')\"\r\n",
             redis_delete_sha, sizeof redis_delete_sha);
    if (strlen(redis_delete_sha) != 40) {
        die("redis-server", redis_delete_sha);
    }
}

static double redis_turn(struct load *load) {
    uint64_t start = bench_now_ns();
    redis_taken = 0;
    (void)load_turn(load, TURN_NS, NULL);
    return (double)redis_taken * 1e9 / (double)(bench_now_ns() - start);
}

/* ---- Both ---- */

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double of[ROUNDS]) {
    double sorted[ROUNDS];
    memcpy(sorted, of, sizeof sorted);
    qsort(sorted, ROUNDS, sizeof *sorted, compare);
    return sorted[ROUNDS / 2];
}

static void measure(struct load *waiting, struct load *polling) {
    static const char name[] = "server handovers of a value, 9,990 in line";
    double rate[ROUNDS], other[ROUNDS], ratio[ROUNDS];
    for (unsigned i = 0; i < ROUNDS; i++) {
        rate[i] = line_round(waiting);
        other[i] = polling != NULL ? redis_turn(polling) : 0;
        ratio[i] = polling != NULL ? rate[i] / other[i] : 0;
    }
    if (polling == NULL) {
        bench_row(name, median(rate));
        return;
    }
    bench_row_peer(name, median(rate), median(ratio), median(other));
}

int main(int argc, char **argv) {
    static const struct load_script in_line = {.request = line_request, .reply = line_reply};
    static const struct load_script polls = {.request = redis_request, .reply = redis_reply};
    bool smoke = bench_length_of(argc, argv) == BENCH_SMOKE;
    bool with_redis = !smoke && !bench_without(argc, argv, "redis");
    unsigned count = smoke ? 100 : LINE;
    struct process redis = {0};
    struct rlimit limit;
    char reply[64], request[LOAD_REQUEST_MAX];
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    process_directory_make();
    struct process tenure = process_tenure("tenure");
    (void)words_split("POOL CREATE one RANGE 1 1", request);
    load_ask(tenure.port, request, reply, sizeof reply);
    line.releases = connect_to(tenure.port);
    struct load *waiting = load_open(tenure.port, count, 1, &in_line);
    struct load *polling = NULL;
    if (with_redis) {
        if (!process_redis("redis", true, &redis)) {
            die("redis-server", "not installed: tools/deps.sh bench");
        }
        redis_prepare(&redis);
        polling = load_open(redis.port, CONTENDERS, 1, &polls);
    }
    measure(waiting, polling);
    load_close(waiting);
    (void)close(line.releases);
    process_stop(&tenure);
    if (with_redis) {
        load_close(polling);
        process_stop(&redis);
    }
    process_directory_remove();
    return 0;
}
