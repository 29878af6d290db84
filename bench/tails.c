/* Long replies: beside the disk's long syncs in the same run, and while snapshots are taken.
 *
 * At half load: half of the rate that was reached a moment before, sent on schedule, whether or not the server
 * keeps up; a reply's time counts from the moment at which its request was due. The disk gets the same: half of
 * the syncs that it did a moment before, each due at its time. A time that no request waits through is
 * seen by neither, and a stall counts for every request that falls into it.
 *
 * Snapshots: a server that holds a million leases takes one in each turn of one side and none in
 * those of the other side. Its own snapshots are off. The two sides take turns under full load. */
#include "bench.h"

#include <pthread.h>
#include <unistd.h>

#include "lib/disk.h"
#include "lib/load.h"
#include "lib/process.h"
#include "lib/script_tenure.h"
#include "lib/turns.h"

#define VALUES 65536u
#define NAME_BYTES 96u

static uint32_t held = 1000000;
static uint64_t snapshot_turn_ns = 1000000000u;

static const char *row_name(char out[NAME_BYTES], const char *format, uint32_t connections) {
    snprintf(out, NAME_BYTES, format, connections);
    return out;
}

/* ---- At half load ---- */

static void measure_half(const struct process *server, int file, uint32_t connections) {
    struct tenure_job job = {.pool = "bench", .work = WORK_CYCLE};
    struct load_script script = tenure_script(&job);
    struct load *load = load_open(server->port, connections, 1, &script);
    static struct load_histogram replies, syncs;
    char name[NAME_BYTES];
    replies = syncs = (struct load_histogram){0};
    (void)load_turn(load, turns_plan.ns, NULL);
    for (unsigned i = 0; i < turns_plan.count; i++) {
        double seconds, rate = load_turn(load, turns_plan.ns / 4, NULL);
        load_turn_at_rate(load, turns_plan.ns, rate / 2, &replies);
        uint64_t count = disk_turn(file, turns_plan.ns / 4, &seconds);
        disk_turn_at_rate(file, turns_plan.ns, (double)count / seconds / 2, &syncs);
    }
    double ours = load_percentile_us(&replies, 0.999), disk = load_percentile_us(&syncs, 0.999);
    bench_row_peer(row_name(name, "tails half load, %u x 1, p99.9", connections), ours, ours / disk,
                   disk);
    double longest = (double)replies.longest_ns / 1e6, disks = (double)syncs.longest_ns / 1e6;
    bench_row_peer(row_name(name, "tails half load, %u x 1, longest", connections), longest,
                   longest / disks, disks);
    load_close(load);
}

/* ---- Snapshots ---- */

static void *snapshot_take(void *ctx) {
    const struct process *server = ctx;
    char answer[64];
    load_ask(server->port, "*1\r\n$8\r\nSNAPSHOT\r\n", answer, sizeof answer);
    return NULL;
}

/* One turn, with a snapshot that begins with it. It ends when the snapshot is complete, if that is later. */
static double turn_with(struct process *server, struct load *load,
                        struct load_histogram *histogram) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, snapshot_take, server) != 0) {
        fprintf(stderr, "bench: no thread\n");
        exit(1);
    }
    double rate = load_turn(load, snapshot_turn_ns, histogram);
    pthread_join(thread, NULL);
    return rate;
}

static void measure_snapshots(struct process *server, uint32_t depth, double with[TURNS_MAX],
                              double without[TURNS_MAX], struct load_histogram *long_with,
                              struct load_histogram *long_without) {
    struct tenure_job job = {.pool = "bench", .work = WORK_CYCLE};
    struct load_script script = tenure_script(&job);
    struct load *load = load_open(server->port, 64, depth, &script);
    (void)load_turn(load, turns_plan.ns, NULL);
    for (unsigned i = 0; i < turns_plan.count; i++) {
        with[i] = turn_with(server, load, long_with);
        without[i] = load_turn(load, snapshot_turn_ns, long_without);
    }
    load_close(load);
}

static void measure_snapshot_cost(struct process *server) {
    static double with[TURNS_MAX], without[TURNS_MAX];
    static struct load_histogram long_with, long_without;
    measure_snapshots(server, 32, with, without, &long_with, &long_without);
    bench_row_peer("tails a snapshot of 1M leases each second, cycles, 64 x 32",
                   turns_median(with) / 2, turns_median_ratio(with, without),
                   turns_median(without) / 2);
    long_with = long_without = (struct load_histogram){0};
    measure_snapshots(server, 1, with, without, &long_with, &long_without);
    double longest = (double)long_with.longest_ns / 1e6;
    double other = (double)long_without.longest_ns / 1e6;
    fprintf(stderr, "   the longest reply at 64 x 1: %.1f ms with snapshots, %.1f ms without\n",
            longest, other);
    bench_row("tails a snapshot of 1M leases each second, added to the longest reply, 64 x 1",
              longest - other);
}

int main(int argc, char **argv) {
    enum bench_length length = bench_length_of(argc, argv);
    if (length == BENCH_SMOKE) {
        turns_plan = (struct turns_plan){.count = 1, .ns = 10000000u};
        held = 8192;
        snapshot_turn_ns = 10000000u;
    }
    process_directory_make();
    struct process server = process_tenure("tenure");
    int file = disk_open(process_directory());
    tenure_pool_make(server.port, "bench", VALUES, "");
    measure_half(&server, file, 64);
    measure_half(&server, file, 1);
    (void)close(file);
    process_stop(&server);
    turns_plan.count = length == BENCH_SMOKE ? 1 : 8;
    server = process_tenure_set("snapshots", "--snapshot-bytes", "1000G");
    tenure_pool_make(server.port, "bench", VALUES, "");
    tenure_pool_make(server.port, "held", 2 * held, "");
    tenure_pool_fill(server.port, "held", held);
    measure_snapshot_cost(&server);
    process_stop(&server);
    process_directory_remove();
    return 0;
}
