/* Commands as bytes: complete commands are decoded; commands cut anywhere, or with a byte too many,
 * are not; and whether the results and events of a command have a listener changes nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>
#include <sys/mman.h>

#include "lib/kit.h"

#define TEXT(word) tn_bytes_of(word, sizeof word - 1)

static uint8_t claims[256], values[256], encoded[KERNEL_COMMAND_MAX], again[KERNEL_COMMAND_MAX];

/* Of each field something, whatever the verb takes. */
static struct kernel_command full(enum kernel_verb verb) {
    static struct kernel_policy_patch policy;
    const struct kernel_verb_row *row = &kernel_verb_rows[verb];
    struct tn_writer of_claims = tn_writer_of(claims, sizeof claims);
    struct tn_writer of_values = tn_writer_of(values, sizeof values);
    policy = (struct kernel_policy_patch){.mask = 3, .has_exclude = true};
    policy.values.exclude_count = 1;
    policy.values.exclude[0].lo = policy.values.exclude[0].hi = 7;
    kernel_claim_write(&of_claims, TEXT("ports"), false, 2);
    kernel_requested_write_number(&of_claims, 5);
    kernel_requested_write_text(&of_claims, TEXT("gpu-1"));
    kernel_requested_write_number(&of_values, 5);
    kernel_requested_write_text(&of_values, TEXT("gpu-1"));
    return (struct kernel_command){.verb = verb,
                                   .fields = row->required | row->optional,
                                   .user = TEXT("user"),
                                   .opid = TEXT("opid"),
                                   .lease = {.lsn = 5},
                                   .epoch = 1,
                                   .holder = TEXT("holder"),
                                   .ttl_s = 5,
                                   .after_s = 5,
                                   .deadline_ms = 5,
                                   .meta = TEXT("{}"),
                                   .pool = TEXT("ports"),
                                   .claims = tn_bytes_of(claims, of_claims.len),
                                   .claim_count = 1,
                                   .values = tn_bytes_of(values, of_values.len),
                                   .value_count = 2,
                                   .name = TEXT("name"),
                                   .trigger = TEXT("trigger"),
                                   .spec = TEXT("{}"),
                                   .policy = &policy,
                                   .limits = kernel_limits_default()};
}

static void what_is_cut_or_too_long_is_no_command(void **state) {
    (void)state;
    for (unsigned verb = 0; verb < KERNEL_VERB_COUNT; verb++) {
        struct kernel_command command = full((enum kernel_verb)verb);
        struct kernel_command decoded;
        uint32_t len = kernel_command_encode(&command, encoded, sizeof encoded - 1);
        assert_true(len > 0);
        assert_true(kernel_command_whole(&command));
        assert_int_equal(kernel_command_size(&command), len);
        assert_true(kernel_command_decode(tn_bytes_of(encoded, len), &decoded));
        assert_int_equal(decoded.verb, verb);
        assert_true(kernel_command_whole(&decoded));
        assert_int_equal(kernel_command_size(&decoded), len);
        assert_int_equal(kernel_command_encode(&decoded, again, sizeof again), len);
        assert_memory_equal(again, encoded, len);
        assert_int_equal(decoded.fields, command.fields);
        for (uint32_t cut = 0; cut < len; cut++) {
            uint8_t *exact = malloc(cut + 1); /* so that a read beyond it is seen */
            memcpy(exact, encoded, cut);
            assert_false(kernel_command_decode(tn_bytes_of(exact, cut), &decoded));
            free(exact);
        }
        encoded[len] = 0;
        assert_false(kernel_command_decode(tn_bytes_of(encoded, len + 1), &decoded));
        assert_int_equal(kernel_command_encode(&command, encoded, len - 1), 0);
    }
}

static void what_no_verb_is_is_no_command(void **state) {
    (void)state;
    struct kernel_command command = full(KERNEL_VERB_TOUCH);
    struct kernel_command decoded;
    uint32_t len = kernel_command_encode(&command, encoded, sizeof encoded);
    encoded[0] = KERNEL_VERB_COUNT;
    assert_false(kernel_command_decode(tn_bytes_of(encoded, len), &decoded));
    encoded[0] = KERNEL_VERB_TICK; /* a verb that takes none of these fields */
    assert_false(kernel_command_decode(tn_bytes_of(encoded, len), &decoded));
}

/* ---- A kernel that nobody listens to ---- */

static enum tn_status memory_reserve(void *ctx, size_t bytes, bool big, void **ret_memory) {
    (void)ctx;
    (void)big;
    *ret_memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return *ret_memory == MAP_FAILED ? TN_NOMEM : TN_OK;
}

static void memory_release(void *ctx, void *memory, size_t bytes) {
    (void)ctx;
    (void)munmap(memory, bytes);
}

struct deaf {
    struct kernel *kernel;
    struct kit heard; /* the same commands, with events */
    uint64_t lsn;
};

static enum tn_result both_run(struct deaf *deaf, const struct kernel_command *command) {
    struct kernel_value got[KERNEL_BUNDLE_MAX];
    struct kernel_result result = {.values = got, .value_capacity = KERNEL_BUNDLE_MAX};
    uint32_t len = kernel_command_encode(command, encoded, sizeof encoded);
    struct kernel_command decoded;
    struct kernel_entry entry = {.lsn = ++deaf->lsn,
                                 .now_ms = deaf->heard.now_ms,
                                 .encoded = tn_bytes_of(encoded, len),
                                 .command = &decoded};
    assert_true(kernel_command_decode(entry.encoded, &decoded));
    kernel_apply(deaf->kernel, &entry, &result);
    assert_int_equal(kit_run_bytes(&deaf->heard, entry.encoded), result.code);
    return result.code;
}

static void events_are_no_part_of_the_state(void **state) {
    (void)state;
    struct deaf deaf = {.lsn = 0};
    struct kernel_env env = {
        .mem_reserve = memory_reserve, .mem_release = memory_release, .hash_seed = 0x1234567};
    struct kernel_limits limits = kit_limits();
    kit_open(&deaf.heard, &limits);
    assert_int_equal(kernel_create(&env, &limits, 0, &deaf.kernel), TN_OK);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned verb = 0; verb < KERNEL_VERB_COUNT; verb++) {
            struct kernel_command command = full((enum kernel_verb)verb);
            if (command.fields & KERNEL_F_LIMITS) {
                continue;
            }
            command.rights = KERNEL_RIGHT_OPERATOR | KERNEL_RIGHT_SUPERVISOR;
            command.opid = tn_bytes_of("", 0);
            (void)both_run(&deaf, &command);
            command.fields = kernel_verb_rows[verb].required;
            (void)both_run(&deaf, &command);
        }
    }
    assert_int_equal(kernel_hash(deaf.kernel), kernel_hash(deaf.heard.kernel));
    kernel_destroy(deaf.kernel);
    kit_close(&deaf.heard);
}

static void names_of_users_and_operations_have_a_length(void **state) {
    (void)state;
    static const char longer[KERNEL_USER_MAX + KERNEL_OPID_MAX + 2];
    struct kit kit;
    kit_open(&kit, NULL);
    struct kernel_command command = kit_command(KERNEL_VERB_TICK);
    command.user = tn_bytes_of(longer, KERNEL_USER_MAX + 1);
    assert_int_equal(kit_run(&kit, &command), TN_R_BAD_NAME);
    command.opid = TEXT("opid");
    assert_int_equal(kit_run(&kit, &command), TN_R_BAD_NAME);
    command.user = TEXT("user");
    command.opid = tn_bytes_of(longer, KERNEL_OPID_MAX + 1);
    assert_int_equal(kit_run(&kit, &command), TN_R_BAD_NAME);
    kit_close(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_cut_or_too_long_is_no_command),
        cmocka_unit_test(what_no_verb_is_is_no_command),
        cmocka_unit_test(events_are_no_part_of_the_state),
        cmocka_unit_test(names_of_users_and_operations_have_a_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
