/* The engine, durable, in one process, against the disk's own rate in the same run.
 *
 * The reference is a plain loop of 4 KiB overwrite + fdatasync of a file that was written before. It
 * and the engine take turns of a quarter of a second, since the machine's disk is shared and its rate
 * changes from one second to the next. Commands alternate alloc and release, so nothing is cheaper than it
 * would be for a client. */
#include "bench.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "engine/engine.h"
#include "lib/disk.h"
#include "lib/process.h"
#include "log/local.h"

static const char *dir;
static unsigned rounds = 12;
static uint64_t slice_ns = 250000000u;
static uint64_t recovered = 1000000;
static uint64_t leases_max = 1u << 21;

static void die(const char *what) {
    fprintf(stderr, "bench: %s\n", what);
    exit(1);
}

#define EVENTS 1000000u

/* What one side got done in its turns. */
struct tally {
    double count, seconds;
};

static double tally_rate(const struct tally *tally) {
    return tally->count / tally->seconds;
}

static void disk_count(int file, struct tally *tally) {
    double seconds;
    tally->count += (double)disk_turn(file, slice_ns, &seconds);
    tally->seconds += seconds;
}

/* ---- an engine ---- */

static struct engine *engine_make(const char *sub, uint64_t snapshot_bytes, uint64_t events_max) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, sub);
    struct log_local_options local = {.os = os_posix(), .dir = path, .segment_bytes = 64u << 20};
    struct engine_options options = {.events_dir = path,
                                     .limits = kernel_limits_default(),
                                     .limits_mask =
                                         1u << KERNEL_LIMIT_LEASES | 1u << KERNEL_LIMIT_MEMBERS,
                                     .snapshot_bytes = snapshot_bytes,
                                     .events_max = events_max,
                                     .no_snapshot_at_close = true};
    options.limits.of[KERNEL_LIMIT_LEASES] = leases_max;
    options.limits.of[KERNEL_LIMIT_MEMBERS] = leases_max;
    struct engine *engine;
    struct log_error error;
    if (log_local_open(&local, NULL, NULL, &options.log, &error) != TN_OK) {
        die(error.text);
    }
    options.store = log_local_store(options.log);
    if (engine_open(&options, &engine, &error) != TN_OK || engine_lead(engine, &error) != TN_OK) {
        die(error.text);
    }
    return engine;
}

#define CLAIM_BYTES 32u

static struct kernel_command command_alloc(uint8_t claim[CLAIM_BYTES]) {
    struct tn_writer w = tn_writer_of(claim, CLAIM_BYTES);
    kernel_claim_write(&w, tn_bytes_of("pool", 4), true, 1);
    return (struct kernel_command){.verb = KERNEL_VERB_ALLOC,
                                   .fields = KERNEL_F_HOLDER | KERNEL_F_CLAIMS,
                                   .holder = tn_bytes_of("instance/00000001", 17),
                                   .claims = tn_bytes_of(claim, w.len),
                                   .claim_count = 1};
}

static struct kernel_command command_release(uint64_t lsn) {
    return (struct kernel_command){.verb = KERNEL_VERB_RELEASE,
                                   .fields = KERNEL_F_LEASE | KERNEL_F_EPOCH | KERNEL_F_HOLDER,
                                   .lease = {.lsn = lsn},
                                   .epoch = 1,
                                   .holder = tn_bytes_of("instance/00000001", 17)};
}

static uint64_t run_one(struct engine *engine, uint64_t lease) {
    uint8_t claim[CLAIM_BYTES];
    struct kernel_value value;
    struct kernel_result result = {.values = &value, .value_capacity = 1};
    struct kernel_command command = lease == 0 ? command_alloc(claim) : command_release(lease);
    engine_execute(engine, &command, &result);
    if (result.code != TN_R_OK) {
        die(tn_result_name(result.code));
    }
    return lease == 0 ? result.lease.lsn : 0;
}

static void pool_make(struct engine *engine) {
    struct kernel_policy_patch patch = {.mask = 1u << KERNEL_OPTION_HI};
    patch.values.of[KERNEL_OPTION_HI] = 100000000;
    struct kernel_command command = {.verb = KERNEL_VERB_POOL_CREATE,
                                     .rights = KERNEL_RIGHT_OPERATOR,
                                     .fields = KERNEL_F_POOL | KERNEL_F_POLICY,
                                     .pool = tn_bytes_of("pool", 4),
                                     .policy = &patch};
    struct kernel_result result = {0};
    engine_execute(engine, &command, &result);
    if (result.code != TN_R_OK && result.code != TN_R_NOOP) {
        die(tn_result_name(result.code));
    }
}

/* ---- blocking callers ---- */

struct crew {
    struct engine *engine;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stop, resting; /* under the lock */
    unsigned asleep;
    unsigned threads;
    atomic_bool look; /* stop or resting may have changed */
    atomic_ullong done;
};

/* Sleeps while the crew rests; returns true when the crew must stop. */
static bool crew_rest(struct crew *crew) {
    pthread_mutex_lock(&crew->lock);
    crew->asleep++;
    pthread_cond_broadcast(&crew->changed);
    while (crew->resting && !crew->stop) {
        pthread_cond_wait(&crew->changed, &crew->lock);
    }
    crew->asleep--;
    bool stop = crew->stop;
    pthread_mutex_unlock(&crew->lock);
    return stop;
}

static void *crew_member(void *arg) {
    struct crew *crew = arg;
    uint64_t lease = 0;
    for (;;) {
        if (lease == 0 && atomic_load(&crew->look) && crew_rest(crew)) {
            return NULL;
        }
        lease = run_one(crew->engine, lease);
        atomic_fetch_add_explicit(&crew->done, 1, memory_order_relaxed);
    }
}

static void crew_set(struct crew *crew, bool resting, bool stop) {
    pthread_mutex_lock(&crew->lock);
    crew->resting = resting;
    crew->stop = stop;
    atomic_store(&crew->look, resting || stop);
    pthread_cond_broadcast(&crew->changed);
    while (resting && crew->asleep < crew->threads) {
        pthread_cond_wait(&crew->changed, &crew->lock);
    }
    pthread_mutex_unlock(&crew->lock);
}

static void crew_start(struct crew *crew, unsigned threads, pthread_t *ids) {
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->changed, NULL);
    crew->threads = threads;
    for (unsigned i = 0; i < threads; i++) {
        if (pthread_create(&ids[i], NULL, crew_member, crew) != 0) {
            die("no thread");
        }
    }
}

static void crew_stop(struct crew *crew, const pthread_t *ids) {
    crew_set(crew, false, true);
    for (unsigned i = 0; i < crew->threads; i++) {
        pthread_join(ids[i], NULL);
    }
}

static void crew_turn(struct crew *crew, struct tally *tally) {
    uint64_t start = bench_now_ns(), before = atomic_load(&crew->done);
    struct timespec slice = {.tv_nsec = (long)slice_ns};
    crew_set(crew, false, false);
    nanosleep(&slice, NULL);
    crew_set(crew, true, false);
    tally->count += (double)(atomic_load(&crew->done) - before);
    tally->seconds += (double)(bench_now_ns() - start) / 1e9;
}

/* ---- asynchronous: thousands in flight, each answer submits the next command ---- */

#define FLIGHT 8192u

struct flyer {
    struct engine_request request;
    struct flight *flight;
    uint64_t lease;
};

struct flight {
    struct engine *engine;
    uint64_t end_ns;
    uint64_t count;
    bool keep; /* only allocate: fill the tables */
    uint64_t goal;
    atomic_uint aloft;
    struct flyer flyers[FLIGHT];
};

static void flyer_submit(struct flyer *flyer) {
    uint8_t claim[CLAIM_BYTES];
    struct kernel_command command =
        flyer->lease == 0 ? command_alloc(claim) : command_release(flyer->lease);
    enum tn_result code = engine_submit(flyer->flight->engine, &flyer->request, &command);
    if (code != TN_R_OK) {
        die(tn_result_name(code));
    }
}

static void flyer_done(struct engine_request *request, struct tn_bytes command) {
    struct flyer *flyer = request->ctx;
    struct flight *flight = flyer->flight;
    (void)command;
    if (request->result.code != TN_R_OK) {
        die(tn_result_name(request->result.code));
    }
    flight->count++;
    flyer->lease = flyer->lease == 0 && !flight->keep ? request->result.lease.lsn : 0;
    bool more = flight->goal != 0 ? flight->count + FLIGHT <= flight->goal
                                  : bench_now_ns() < flight->end_ns;
    if (more || flyer->lease != 0) {
        flyer_submit(flyer);
    } else {
        atomic_fetch_sub(&flight->aloft, 1);
    }
}

static void flight_turn(struct flight *flight, struct tally *tally) {
    uint64_t start = bench_now_ns();
    flight->end_ns = start + slice_ns;
    flight->count = 0;
    atomic_store(&flight->aloft, FLIGHT);
    for (unsigned i = 0; i < FLIGHT; i++) {
        flight->flyers[i] = (struct flyer){
            .request = {.done = flyer_done, .ctx = &flight->flyers[i]}, .flight = flight};
        flyer_submit(&flight->flyers[i]);
    }
    struct timespec pause = {.tv_nsec = 1000000};
    while (atomic_load(&flight->aloft) > 0) {
        nanosleep(&pause, NULL);
    }
    tally->count += (double)flight->count;
    tally->seconds += (double)(bench_now_ns() - start) / 1e9;
}

/* ---- measurements ---- */

static void report(const char *name, const struct tally *engine, const struct tally *disk) {
    double rate = tally_rate(engine), syncs = tally_rate(disk);
    bench_row_peer(name, rate, rate / syncs, syncs);
}

static void measure_blocking(const char *name, unsigned threads, uint64_t events_max) {
    struct crew crew = {.engine = engine_make("blocking", UINT64_MAX, events_max), .resting = true};
    struct tally engine = {0}, disk = {0};
    pthread_t ids[64];
    int file = disk_open(dir);
    pool_make(crew.engine);
    atomic_store(&crew.look, true);
    crew_start(&crew, threads, ids);
    for (unsigned round = 0; round < rounds; round++) {
        disk_count(file, &disk);
        crew_turn(&crew, &engine);
    }
    crew_stop(&crew, ids);
    engine_close(crew.engine);
    close(file);
    report(name, &engine, &disk);
}

static void measure_async(const char *name, uint64_t events_max) {
    static struct flight flight;
    struct tally engine = {0}, disk = {0};
    int file = disk_open(dir);
    flight.engine = engine_make("async", UINT64_MAX, events_max);
    pool_make(flight.engine);
    for (unsigned round = 0; round < rounds; round++) {
        disk_count(file, &disk);
        flight_turn(&flight, &engine);
    }
    engine_close(flight.engine);
    close(file);
    report(name, &engine, &disk);
}

/* So many leases, by the log alone. */
static struct engine *engine_filled(const char *sub, uint64_t leases) {
    static struct flight flight;
    struct tally unused = {0};
    flight.engine = engine_make(sub, UINT64_MAX, 0);
    flight.keep = true;
    flight.goal = leases + FLIGHT;
    pool_make(flight.engine);
    flight_turn(&flight, &unused);
    return flight.engine;
}

static void snapshot_take(struct engine *engine) {
    struct log_error error;
    if (engine_snapshot(engine, &error) != TN_OK) {
        die(error.text);
    }
}

static void measure_start(const char *name, const char *sub) {
    uint64_t start = bench_now_ns();
    struct engine *engine = engine_make(sub, UINT64_MAX, 0);
    bench_row(name, (double)(bench_now_ns() - start) / 1e6);
    engine_close(engine);
}

/* A million leases by log alone; then how fast it is read again, and what a snapshot holds up. */
static void measure_recovery_and_snapshot(void) {
    engine_close(engine_filled("recover", recovered));
    struct engine *engine = engine_make("recover", UINT64_MAX, 0);
    struct engine_stats stats;
    engine_stats_read(engine, &stats);
    double rate = (double)stats.recovery_commands * 1e9 / (double)stats.recovery_ns;
    bench_row("recovery from the log", rate / 1e6);

    /* Writers continue while the snapshot is taken. */
    struct crew crew = {.engine = engine};
    pthread_t writer;
    crew_start(&crew, 1, &writer);
    snapshot_take(engine);
    crew_stop(&crew, &writer);
    engine_stats_read(engine, &stats);
    bench_row("snapshot of 1M leases, duration", (double)stats.snapshot_ns_last / 1e6);
    bench_row("snapshot of 1M leases, size", (double)stats.log.snapshot_bytes / 1e6);
    bench_row("snapshot of 1M leases, longest hold", (double)stats.snapshot_hold_ns_max / 1e6);
    engine_close(engine);
    measure_start("start from a snapshot of 1M leases", "recover");
}

static void measure_large_start(void) {
    leases_max = 10 * recovered + 2 * FLIGHT;
    struct engine *engine = engine_filled("large", 10 * recovered);
    snapshot_take(engine);
    engine_close(engine);
    measure_start("start from a snapshot of 10M leases", "large");
}

int main(int argc, char **argv) {
    enum bench_length length = bench_length_of(argc, argv);
    if (length == BENCH_SMOKE) {
        rounds = 1;
        slice_ns = 20000000u;
        recovered = 2 * FLIGHT;
    } else if (length == BENCH_QUICK) {
        rounds = 4;
    }
    process_directory_make();
    dir = process_directory();
    measure_blocking("engine durable, 1 thread", 1, 0);
    measure_blocking("engine durable, 64 blocking threads", 64, 0);
    measure_async("engine durable, 8192 in flight", 0);
    if (length != BENCH_QUICK) {
        measure_blocking("engine durable, 64 blocking threads, a million events", 64, EVENTS);
        measure_async("engine durable, 8192 in flight, a million events", EVENTS);
        measure_recovery_and_snapshot();
        measure_large_start();
    }
    process_directory_remove();
    return 0;
}
