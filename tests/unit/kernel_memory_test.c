/* The memory of a kernel with the default limits follows the number of leases, not the limits. Resident
 * pages are counted in the kernel's own stretches of address space, so a sanitizer changes nothing. */
#include "unit.h"

#include <sys/mman.h>

#include "kernel/kernel.h"
#include "os/os.h"

#define STRETCHES_MAX 128u
#define PAGE_BYTES ((size_t)4096)

struct world {
    struct {
        void *at;
        size_t bytes;
    } stretch[STRETCHES_MAX];
    unsigned count;
    struct kernel *kernel;
    struct kernel_result result;
    struct kernel_value values[KERNEL_BUNDLE_MAX];
    uint64_t now_ms;
};

static enum tn_status world_reserve(void *ctx, size_t bytes, bool big, void **ret_memory) {
    struct world *world = ctx;
    enum tn_status status = os_posix()->mem_reserve(os_posix()->ctx, bytes, big, ret_memory);
    assert_int_equal(status, TN_OK);
    assert_true(world->count < STRETCHES_MAX);
    world->stretch[world->count].at = *ret_memory;
    world->stretch[world->count++].bytes = bytes;
    return status;
}

static void world_release(void *ctx, void *memory, size_t bytes) {
    (void)ctx;
    os_posix()->mem_release(os_posix()->ctx, memory, bytes);
}

static size_t resident(const struct world *world) {
    size_t pages = 0;
    for (unsigned i = 0; i < world->count; i++) {
        size_t n = (world->stretch[i].bytes + PAGE_BYTES - 1) / PAGE_BYTES;
        unsigned char *in = malloc(n);
        assert_non_null(in);
        assert_int_equal(mincore(world->stretch[i].at, world->stretch[i].bytes, in), 0);
        for (size_t page = 0; page < n; page++) {
            pages += in[page] & 1;
        }
        free(in);
    }
    return pages * PAGE_BYTES;
}

static void apply(struct world *world, const struct kernel_command *command) {
    uint8_t bytes[512];
    struct kernel_command decoded;
    uint32_t len = kernel_command_encode(command, bytes, sizeof bytes);
    assert_true(kernel_command_decode(tn_bytes_of(bytes, len), &decoded));
    struct kernel_entry entry = {.lsn = kernel_lsn(world->kernel) + 1,
                                 .now_ms = ++world->now_ms,
                                 .encoded = tn_bytes_of(bytes, len),
                                 .command = &decoded};
    kernel_apply(world->kernel, &entry, &world->result);
    assert_int_equal(world->result.code, TN_R_OK);
}

static void world_open(struct world *world) {
    struct kernel_env env = {
        .ctx = world, .mem_reserve = world_reserve, .mem_release = world_release, .hash_seed = 42};
    struct kernel_limits limits = kernel_limits_default();
    struct kernel_policy_patch patch = {.mask = 1u << KERNEL_OPTION_LO | 1u << KERNEL_OPTION_HI |
                                                1u << KERNEL_OPTION_STRATEGY |
                                                1u << KERNEL_OPTION_LEASE};
    patch.values.of[KERNEL_OPTION_HI] = UINT32_MAX;
    patch.values.of[KERNEL_OPTION_STRATEGY] =
        KERNEL_RANDOM; /* a word of the bitmap for each value */
    patch.values.of[KERNEL_OPTION_LEASE] = 3600;
    struct kernel_command create = {.verb = KERNEL_VERB_POOL_CREATE,
                                    .rights = KERNEL_RIGHT_OPERATOR,
                                    .fields = KERNEL_F_POOL | KERNEL_F_POLICY,
                                    .pool = tn_bytes_of("pool", 4),
                                    .policy = &patch};
    world->result.values = world->values;
    world->result.value_capacity = KERNEL_BUNDLE_MAX;
    assert_int_equal(kernel_create(&env, &limits, 0, &world->kernel), TN_OK);
    apply(world, &create);
}

/* Allocates values, each for a holder of its own. */
static void allocate(struct world *world, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        uint8_t claim[64];
        char name[32];
        int len = snprintf(name, sizeof name, "instance/%08u", i);
        struct tn_writer w = tn_writer_of(claim, sizeof claim);
        kernel_claim_write(&w, tn_bytes_of("pool", 4), true, 1);
        struct kernel_command alloc = {.verb = KERNEL_VERB_ALLOC,
                                       .fields = KERNEL_F_HOLDER | KERNEL_F_CLAIMS,
                                       .holder = tn_bytes_of(name, (size_t)len),
                                       .claims = tn_bytes_of(claim, w.len),
                                       .claim_count = 1};
        apply(world, &alloc);
    }
}

static void a_thousand_leases_take_little_of_the_memory_for_a_million(void **state) {
    (void)state;
    static struct world world;
    world_open(&world);
    assert_true(resident(&world) < (size_t)512 << 10);
    allocate(&world, 1000);
    assert_true(resident(&world) < (size_t)2 << 20);
    kernel_destroy(world.kernel);
}

static void memory_grows_with_the_leases(void **state) {
    (void)state;
    static struct world world;
    world_open(&world);
    allocate(&world, 20000);
    /* Names and indices included, and a started huge page or two for each large table. */
    assert_true(resident(&world) < (size_t)40 << 20);
    kernel_destroy(world.kernel);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_leases_take_little_of_the_memory_for_a_million),
        cmocka_unit_test(memory_grows_with_the_leases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
