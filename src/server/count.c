/* Histograms and sums. */
#include "server/count.h"

#include <uv.h>

#define US UINT64_C(1000)
#define MS (1000 * US)

/* From a read in memory to a hanging disk, with the time of a sync in the middle. */
const uint64_t server_bucket_ns[SERVER_BUCKETS] = {
    25 * US, 50 * US, 100 * US, 250 * US, 500 * US, 1 * MS,   2500 * US, 5 * MS,
    10 * MS, 25 * MS, 50 * MS,  100 * MS, 250 * MS, 500 * MS, 1000 * MS, 5000 * MS,
};

void server_histogram_add(struct server_histogram *histogram, uint64_t ns, uint64_t count) {
    uint32_t bucket = 0;
    while (bucket < SERVER_BUCKETS && ns > server_bucket_ns[bucket]) {
        bucket++;
    }
    histogram->counts[bucket] += count;
    histogram->sum_ns += ns * count;
}

uint64_t server_histogram_count(const struct server_histogram *histogram) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i <= SERVER_BUCKETS; i++) {
        sum += histogram->counts[i];
    }
    return sum;
}

void server_count_ended(struct server_counters *counters) {
    if (counters->run_count == 0) {
        return;
    }
    uint64_t now_ns = uv_hrtime();
    for (uint32_t i = 0; i < counters->run_count; i++) {
        const struct server_run *run = &counters->runs[i];
        server_histogram_add(&counters->latency[run->command], now_ns - run->begun_ns, run->count);
    }
    counters->run_count = 0;
}

uint64_t server_count_commands(const struct server_counters *counters) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < PROTOCOL_COMMANDS; i++) {
        sum += counters->calls[i];
    }
    return sum;
}

/* The names of one of the tables. */
#define NAME(id, name) name,

const char *server_reject_name(enum server_reject reject) {
    static const char *const names[SERVER_REJECT_COUNT] = {SERVER_REJECT_TABLE(NAME)};
    return names[reject];
}

const char *server_drop_name(enum server_drop drop) {
    static const char *const names[SERVER_DROP_COUNT] = {SERVER_DROP_TABLE(NAME)};
    return names[drop];
}

const char *server_login_outcome_name(enum server_login_outcome outcome) {
    static const char *const names[SERVER_LOGIN_COUNT] = {SERVER_LOGIN_TABLE(NAME)};
    return names[outcome];
}

const char *server_udp_outcome_name(enum server_udp_outcome outcome) {
    static const char *const names[SERVER_UDP_COUNT] = {SERVER_UDP_TABLE(NAME)};
    return names[outcome];
}
