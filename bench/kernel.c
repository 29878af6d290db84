/* The kernel in memory, on one core: commands a second, and bytes a lease.
 *
 * Commands are encoded before the clock starts and applied in batches, with the same look-ahead
 * hints to the caches that the engine gives; results are read, no sink is attached. */
#include "bench.h"

#include "base/prng.h"
#include "kernel/kernel.h"
#include "os/os.h"

#define BATCH 4096u
#define AHEAD 4u /* commands between two stages of hints, and between the last one and the apply */
#define RING 16u /* decoded commands: as many as the first stage is ahead, and more */
#define SLOT_BYTES 96u

struct rig {
    struct kernel *kernel;
    struct kernel_result result;
    struct tn_prng random;
    uint64_t now_ms;
    uint8_t bytes[BATCH * SLOT_BYTES];
    struct tn_bytes batch[BATCH];
    uint32_t filled;
    uint32_t decoded;
    struct kernel_command ahead[RING];
    uint64_t spent_ns;
    uint64_t commands;
};

static enum tn_status rig_reserve(void *ctx, size_t bytes, bool big, void **ret_memory) {
    (void)ctx;
    return os_posix()->mem_reserve(os_posix()->ctx, bytes, big, ret_memory);
}

static void rig_release(void *ctx, void *memory, size_t bytes) {
    (void)ctx;
    os_posix()->mem_release(os_posix()->ctx, memory, bytes);
}

static void die(const char *what) {
    fprintf(stderr, "bench: %s\n", what);
    exit(1);
}

static struct rig *rig_new(uint64_t leases, uint64_t names) {
    struct rig *rig = calloc(1, sizeof *rig);
    struct kernel_limits limits = kernel_limits_default();
    limits.of[KERNEL_LIMIT_LEASES] = leases;
    limits.of[KERNEL_LIMIT_MEMBERS] = leases;
    limits.of[KERNEL_LIMIT_NAMES] = names;
    limits.of[KERNEL_LIMIT_HISTORY] = 8192;
    limits.of[KERNEL_LIMIT_COLD] = 1; /* no pool here is `coldest` */
    struct kernel_env env = {
        .mem_reserve = rig_reserve, .mem_release = rig_release, .hash_seed = 42};
    if (rig == NULL || kernel_create(&env, &limits, 0, &rig->kernel) != TN_OK) {
        die("no memory");
    }
    rig->result.values = calloc(256, sizeof *rig->result.values);
    rig->result.value_capacity = 256;
    rig->now_ms = 1000000;
    tn_prng_seed(&rig->random, 7);
    return rig;
}

static void rig_free(struct rig *rig) {
    kernel_destroy(rig->kernel);
    free(rig->result.values);
    free(rig);
}

static void rig_put(struct rig *rig, const struct kernel_command *c) {
    uint8_t *at = rig->bytes + (size_t)rig->filled * SLOT_BYTES;
    uint32_t len = kernel_command_encode(c, at, SLOT_BYTES);
    if (len == 0) {
        die("a command does not fit its slot");
    }
    rig->batch[rig->filled++] = tn_bytes_of(at, len);
}

static struct kernel_command *rig_command(struct rig *rig, uint32_t at) {
    return &rig->ahead[at % RING];
}

/* Decodes what the first stage of hints sees next. */
static void rig_decode(struct rig *rig, uint32_t at) {
    uint32_t end = at + AHEAD * KERNEL_PREFETCH_STAGES + 1;
    for (; rig->decoded < end && rig->decoded < rig->filled; rig->decoded++) {
        if (!kernel_command_decode(rig->batch[rig->decoded], rig_command(rig, rig->decoded))) {
            die("a command is malformed");
        }
    }
}

/* Applies what was put, timed. `lsns` gets each command's lease, for commands that make one. */
static void rig_apply(struct rig *rig, uint64_t *lsns) {
    uint64_t lsn = kernel_lsn(rig->kernel);
    uint64_t start = bench_cpu_ns();
    for (uint32_t i = 0; i < rig->filled; i++) {
        rig_decode(rig, i);
        for (unsigned stage = 0; stage < KERNEL_PREFETCH_STAGES; stage++) {
            uint32_t at = i + AHEAD * (KERNEL_PREFETCH_STAGES - stage);
            if (at < rig->filled) {
                kernel_prefetch(rig->kernel, rig_command(rig, at), lsn + 1 + at - i, stage);
            }
        }
        struct kernel_entry entry = {.lsn = ++lsn,
                                     .now_ms = rig->now_ms,
                                     .encoded = rig->batch[i],
                                     .command = rig_command(rig, i)};
        kernel_apply(rig->kernel, &entry, &rig->result);
        if (rig->result.code != TN_R_OK) {
            die(tn_result_name(rig->result.code));
        }
        if (lsns != NULL) {
            lsns[i] = rig->result.lease.lsn;
        }
    }
    rig->spent_ns += bench_cpu_ns() - start;
    rig->commands += rig->filled;
    rig->filled = rig->decoded = 0;
    rig->now_ms += 1;
}

static double rig_rate(struct rig *rig) {
    double rate = (double)rig->commands * 1e9 / (double)rig->spent_ns;
    rig->spent_ns = 0;
    rig->commands = 0;
    return rate;
}

/* ---- commands ---- */

static void put_pool(struct rig *rig, const char *name, uint64_t lo, uint64_t hi,
                     enum kernel_strategy strategy, uint64_t lease_s) {
    struct kernel_policy_patch patch = {.mask = 1u << KERNEL_OPTION_LO | 1u << KERNEL_OPTION_HI |
                                                1u << KERNEL_OPTION_STRATEGY |
                                                1u << KERNEL_OPTION_LEASE};
    patch.values.of[KERNEL_OPTION_LO] = lo;
    patch.values.of[KERNEL_OPTION_HI] = hi;
    patch.values.of[KERNEL_OPTION_STRATEGY] = strategy;
    patch.values.of[KERNEL_OPTION_LEASE] = lease_s;
    struct kernel_command c = {.verb = KERNEL_VERB_POOL_CREATE,
                               .rights = KERNEL_RIGHT_OPERATOR,
                               .fields = KERNEL_F_POOL | KERNEL_F_POLICY,
                               .pool = tn_bytes_of(name, strlen(name)),
                               .policy = &patch};
    rig_put(rig, &c);
    rig_apply(rig, NULL);
}

static uint32_t holder_text(char out[32], uint64_t number) {
    return (uint32_t)snprintf(out, 32, "instance/%08llu", (unsigned long long)number);
}

static void put_grant(struct rig *rig, enum kernel_verb verb, uint64_t holder) {
    uint8_t claim[64];
    char name[32];
    struct tn_writer w = tn_writer_of(claim, sizeof claim);
    kernel_claim_write(&w, tn_bytes_of("pool", 4), true, 1);
    struct kernel_command c = {.verb = verb,
                               .fields = KERNEL_F_HOLDER | KERNEL_F_CLAIMS |
                                         (verb == KERNEL_VERB_RESERVE ? KERNEL_F_TTL : 0),
                               .ttl_s = 600,
                               .holder = tn_bytes_of(name, holder_text(name, holder)),
                               .claims = tn_bytes_of(claim, w.len),
                               .claim_count = 1};
    rig_put(rig, &c);
}

static void put_token(struct rig *rig, enum kernel_verb verb, uint64_t lsn, uint64_t holder) {
    char name[32];
    struct kernel_command c = {.verb = verb,
                               .fields = kernel_verb_rows[verb].required,
                               .lease = {.shard = 0, .lsn = lsn},
                               .epoch = 1,
                               .holder = tn_bytes_of(name, holder_text(name, holder))};
    rig_put(rig, &c);
}

/* `count` active leases, spread over `holders` holders; their lsns in `lsns`. */
static void fill(struct rig *rig, uint64_t count, uint64_t holders, uint64_t *lsns) {
    for (uint64_t done = 0; done < count;) {
        uint64_t n = count - done < BATCH ? count - done : BATCH;
        for (uint64_t i = 0; i < n; i++) {
            put_grant(rig, KERNEL_VERB_ALLOC, (done + i) % holders);
        }
        rig_apply(rig, lsns + done);
        done += n;
    }
    rig_rate(rig);
}

static void touch_random(struct rig *rig, const uint64_t *lsns, uint64_t live, uint64_t count) {
    for (uint64_t done = 0; done < count; done += BATCH) {
        for (uint32_t i = 0; i < BATCH; i++) {
            put_token(rig, KERNEL_VERB_TOUCH, lsns[tn_prng_below(&rig->random, live)], 0);
        }
        rig_apply(rig, NULL);
    }
}

/* Rounds of grants and of releases of random live leases, whose places the new ones take. */
static void churn_random(struct rig *rig, uint64_t *lsns, uint64_t live, uint64_t holders,
                         uint64_t count, bool reserve) {
    uint64_t fresh[BATCH];
    uint64_t at[BATCH];
    for (uint64_t done = 0; done < count; done += BATCH) {
        uint64_t first = tn_prng_below(&rig->random, live);
        uint64_t stride = 1 + tn_prng_below(&rig->random, 1000) * 2;
        for (uint32_t i = 0; i < BATCH; i++) {
            at[i] = (first + i * stride * 7919) % live;
        }
        for (uint32_t i = 0; i < BATCH; i++) {
            put_grant(rig, reserve ? KERNEL_VERB_RESERVE : KERNEL_VERB_ALLOC, at[i] % holders);
        }
        rig_apply(rig, fresh);
        for (uint32_t i = 0; reserve && i < BATCH; i++) {
            put_token(rig, KERNEL_VERB_ACTIVATE, fresh[i], at[i] % holders);
        }
        rig_apply(rig, NULL);
        for (uint32_t i = 0; i < BATCH; i++) {
            /* The same place twice in a round: the lease that came with the first one goes. */
            put_token(rig, KERNEL_VERB_RELEASE, lsns[at[i]], at[i] % holders);
            lsns[at[i]] = fresh[i];
        }
        rig_apply(rig, NULL);
    }
}

/* ---- measurements ---- */

static bool smoke;
#define MILLION (smoke ? 20000u : 1000000u)

/* Each lease lives its whole life among a million others; FLIGHT leases do so at a time. */
#define FLIGHT 1024u

static void measure_lifecycle(void) {
    struct rig *rig = rig_new(MILLION + 2 * BATCH, MILLION);
    uint64_t *lsns = calloc(MILLION, sizeof *lsns);
    uint64_t fresh[BATCH];
    put_pool(rig, "pool", 1, 2 * MILLION, KERNEL_LOWEST, 0);
    fill(rig, MILLION, 1000, lsns);
    for (uint64_t done = 0; done < MILLION; done += FLIGHT) {
        for (uint32_t i = 0; i < FLIGHT; i++) {
            put_grant(rig, KERNEL_VERB_RESERVE, i % 1000);
        }
        rig_apply(rig, fresh);
        for (uint32_t i = 0; i < FLIGHT; i++) {
            put_token(rig, KERNEL_VERB_ACTIVATE, fresh[i], i % 1000);
        }
        rig_apply(rig, NULL);
        for (uint32_t i = 0; i < FLIGHT; i++) {
            put_token(rig, KERNEL_VERB_RELEASE, fresh[i], i % 1000);
        }
        rig_apply(rig, NULL);
    }
    double rate = rig_rate(rig);
    bench_row("kernel reserve+activate+release among 1M leases, half full", rate / 1e6);
    churn_random(rig, lsns, MILLION, 1000, MILLION, true);
    rate = rig_rate(rig);
    bench_row("kernel reserve+activate+release of random old leases", rate / 1e6);
    free(lsns);
    rig_free(rig);
}

static void measure_touch(void) {
    struct rig *rig = rig_new(MILLION + 2 * BATCH, MILLION);
    uint64_t *lsns = calloc(MILLION, sizeof *lsns);
    put_pool(rig, "pool", 1, 2 * MILLION, KERNEL_LOWEST, 3600);
    fill(rig, MILLION, 1000, lsns);
    touch_random(rig, lsns, MILLION, 4 * MILLION);
    double rate = rig_rate(rig);
    bench_row("kernel touch of random leases among 1M", rate / 1e6);
    free(lsns);
    rig_free(rig);
}

static double random_rate(uint64_t size, uint64_t live) {
    struct rig *rig = rig_new(MILLION + 2 * BATCH, MILLION);
    uint64_t *lsns = calloc(size, sizeof *lsns);
    uint64_t fresh[BATCH];
    put_pool(rig, "pool", 1, size, KERNEL_RANDOM, 0);
    fill(rig, live, 1000, lsns);
    uint32_t batch = size - live < BATCH ? (uint32_t)(size - live) : BATCH;
    for (uint64_t done = 0; done < MILLION; done += batch) {
        for (uint32_t i = 0; i < batch; i++) {
            put_grant(rig, KERNEL_VERB_ALLOC, i % 1000);
        }
        rig_apply(rig, fresh);
        for (uint32_t i = 0; i < batch; i++) {
            put_token(rig, KERNEL_VERB_RELEASE, fresh[i], i % 1000);
        }
        rig_apply(rig, NULL);
    }
    double rate = rig_rate(rig);
    free(lsns);
    rig_free(rig);
    return rate;
}

static void measure_occupancy(void) {
    double sparse = random_rate(MILLION, MILLION / 100);
    double full = random_rate(MILLION, MILLION - MILLION / 10000);
    bench_row_peer("kernel random alloc+release at 99.99 %", full / 1e6, full / sparse,
                   sparse / 1e6);
}

/* One mix at different sizes: what grows is caches missed, not steps taken. */
static double mix_rate(uint64_t live, uint64_t *ret_bytes) {
    struct rig *rig = rig_new(live + 2 * BATCH, live + 1);
    uint64_t *lsns = calloc(live, sizeof *lsns);
    uint64_t before = bench_resident_bytes();
    memset(lsns, 1, live * sizeof *lsns);
    uint64_t lsns_bytes = bench_resident_bytes() - before;
    put_pool(rig, "pool", 1, 2 * live, KERNEL_LOWEST, 3600);
    fill(rig, live, 1000, lsns);
    *ret_bytes = bench_resident_bytes() - before - lsns_bytes;
    churn_random(rig, lsns, live, 1000, MILLION / 2, false);
    touch_random(rig, lsns, live, MILLION / 2);
    double rate = rig_rate(rig);
    free(lsns);
    rig_free(rig);
    return rate;
}

static void measure_scale(void) {
    uint64_t bytes;
    double small = mix_rate(10000, &bytes);
    double large = mix_rate(10 * MILLION, &bytes);
    bench_row_peer("kernel alloc+release+touch, 10 million leases", large / 1e6, large / small,
                   small / 1e6);
    bench_row("kernel memory of 10 million leases", (double)bytes / (1 << 30));
}

/* Bytes a live lease with one value, in a pool of 2^bits values that gives scattered ones. */
static double lease_bytes(unsigned bits, uint64_t lease_s) {
    struct rig *rig = rig_new(MILLION, MILLION);
    uint64_t *lsns = calloc(MILLION, sizeof *lsns);
    memset(lsns, 1, MILLION * sizeof *lsns);
    uint64_t before = bench_resident_bytes();
    uint64_t hi = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    put_pool(rig, "pool", 0, hi, KERNEL_RANDOM, lease_s);
    fill(rig, MILLION, 1, lsns);
    double bytes = (double)(bench_resident_bytes() - before) / MILLION;
    free(lsns);
    rig_free(rig);
    return bytes;
}

static void measure_memory(void) {
    static const struct {
        const char *name;
        unsigned bits;
        uint64_t lease_s;
    } rows[] = {
        {"kernel memory a lease, 2^20 values", 20, 0},
        {"kernel memory a lease, 2^32 values", 32, 0},
        {"kernel memory a timed lease, 2^32 values", 32, 3600},
        {"kernel memory a timed lease, 2^64 values", 64, 3600},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bench_row(rows[i].name, lease_bytes(rows[i].bits, rows[i].lease_s));
    }
}

int main(int argc, char **argv) {
    enum bench_length length = bench_length_of(argc, argv);
    smoke = length == BENCH_SMOKE;
    measure_lifecycle();
    measure_touch();
    if (length != BENCH_QUICK) {
        measure_occupancy();
        measure_memory();
        measure_scale();
    }
    return 0;
}
