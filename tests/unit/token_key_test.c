/* The file of keys: made once, rotated, damaged, and cut off by every failure that a disk can have. */
#include "unit/unit.h"

#include <sys/stat.h>

#include "lib/enginekit.h"
#include "lib/fakeos.h"
#include "token/token.h"

#define NOW 1700000000u
#define DAY 86400u
#define PATH "/d/" TOKEN_KEYS_FILE

static struct fakeos *machine_make(void) {
    struct fakeos *machine = fakeos_new(1);
    const struct os *os = fakeos_table(machine);
    assert_int_equal(os->make_dir(os->ctx, "/d"), TN_OK);
    assert_int_equal(os->sync_dir(os->ctx, "/"), TN_OK);
    return machine;
}

static enum tn_status open_at(struct token_keys *keys, struct fakeos *machine, uint64_t ttl_s,
                              uint64_t now_s) {
    char reason[TOKEN_REASON_MAX] = "";
    enum tn_status status =
        token_keys_open(keys, fakeos_table(machine), "/d", ttl_s, now_s, reason);
    assert_true((status == TN_OK) == (reason[0] == '\0') || status == TN_OK);
    return status;
}

static void rotate_at(struct token_keys *keys, uint64_t now_s, bool drop) {
    struct token_keys next;
    char reason[TOKEN_REASON_MAX];
    assert_int_equal(token_keys_rotate(keys, now_s, drop, &next, reason), TN_OK);
    token_keys_close(keys);
    *keys = next;
}

/* A token of a minute. */
static void sign_at(const struct token_keys *keys, uint64_t now_s, char out[TOKEN_MAX + 1]) {
    struct token_claims claims = {.lease = {.lsn = 1}, .epoch = 1, .issued_s = now_s};
    claims.expires_s = claims.max_exp_s = now_s + DAY;
    snprintf(claims.issuer, sizeof claims.issuer, "t");
    snprintf(claims.subject, sizeof claims.subject, "s");
    snprintf(claims.scope, sizeof claims.scope, "x");
    assert_true(token_sign(keys, &claims, out) > 0);
}

static enum token_verdict judge_at(const struct token_keys *keys, const char *token,
                                   uint64_t now_s) {
    struct token_claims claims;
    return token_judge(keys, tn_bytes_of(token, strlen(token)), now_s, &claims);
}

static void keys_stay_the_same_over_restarts(void **state) {
    struct fakeos *machine = machine_make();
    struct token_keys keys;
    char token[TOKEN_MAX + 1];
    (void)state;
    assert_int_equal(open_at(&keys, machine, DAY, NOW), TN_OK);
    assert_int_equal(keys.count, 1);
    sign_at(&keys, NOW, token);
    token_keys_close(&keys);
    fakeos_reboot(machine);
    assert_int_equal(open_at(&keys, machine, DAY, NOW + 5), TN_OK);
    assert_int_equal(keys.of[0].made_s, NOW);
    assert_int_equal(judge_at(&keys, token, NOW + 5), TOKEN_LIVE);
    assert_int_equal(fakeos_file_count(machine, "/d", NULL), 1);
    token_keys_close(&keys);
    fakeos_free(machine);
}

static void an_old_key_verifies_until_its_longest_token_has_ended(void **state) {
    struct fakeos *machine = machine_make();
    struct token_keys keys;
    char old[TOKEN_MAX + 1];
    char new[TOKEN_MAX + 1];
    (void)state;
    /* Tokens of ten days were allowed once, before the setting was made shorter. */
    assert_int_equal(open_at(&keys, machine, 10 * DAY, NOW), TN_OK);
    token_keys_close(&keys);
    assert_int_equal(open_at(&keys, machine, DAY, NOW), TN_OK);
    sign_at(&keys, NOW, old);
    rotate_at(&keys, NOW, false);
    assert_int_equal(keys.count, 2);
    assert_true(keys.of[1].until_s >= NOW + 10 * DAY);
    sign_at(&keys, NOW, new);
    assert_int_equal(judge_at(&keys, old, NOW), TOKEN_LIVE);
    assert_int_equal(judge_at(&keys, new, NOW), TOKEN_LIVE);
    token_keys_close(&keys);
    fakeos_reboot(machine);
    assert_int_equal(open_at(&keys, machine, DAY, NOW), TN_OK);
    assert_int_equal(judge_at(&keys, old, NOW), TOKEN_LIVE);
    assert_int_equal(judge_at(&keys, new, NOW), TOKEN_LIVE);
    uint64_t over = keys.of[1].until_s;
    assert_int_equal(judge_at(&keys, old, over), TOKEN_KEY);
    assert_int_equal(judge_at(&keys, new, over), TOKEN_EXPIRED);
    rotate_at(&keys, over, false);
    assert_int_equal(keys.count, 2); /* the first one is forgotten */
    token_keys_close(&keys);
    fakeos_free(machine);
}

static void dropped_keys_verify_nothing_any_more(void **state) {
    struct fakeos *machine = machine_make();
    struct token_keys keys;
    char old[TOKEN_MAX + 1];
    (void)state;
    assert_int_equal(open_at(&keys, machine, DAY, NOW), TN_OK);
    sign_at(&keys, NOW, old);
    rotate_at(&keys, NOW, false);
    rotate_at(&keys, NOW, true);
    assert_int_equal(keys.count, 1);
    assert_int_equal(judge_at(&keys, old, NOW), TOKEN_KEY);
    token_keys_close(&keys);
    fakeos_free(machine);
}

static void there_are_at_most_so_many_keys(void **state) {
    struct fakeos *machine = machine_make();
    struct token_keys keys;
    struct token_keys next;
    char reason[TOKEN_REASON_MAX] = "";
    (void)state;
    assert_int_equal(open_at(&keys, machine, DAY, NOW), TN_OK);
    while (keys.count < TOKEN_KEYS_MAX) {
        rotate_at(&keys, NOW, false);
    }
    assert_int_equal(token_keys_rotate(&keys, NOW, false, &next, reason), TN_OVERLOAD);
    assert_non_null(strstr(reason, "32 keys"));
    token_keys_close(&keys);
    assert_int_equal(open_at(&keys, machine, DAY, NOW), TN_OK);
    assert_int_equal(keys.count, TOKEN_KEYS_MAX);
    rotate_at(&keys, NOW, true);
    token_keys_close(&keys);
    fakeos_free(machine);
}

static void a_file_with_any_bit_changed_is_refused(void **state) {
    struct fakeos *machine = machine_make();
    struct token_keys keys;
    (void)state;
    assert_int_equal(open_at(&keys, machine, DAY, NOW), TN_OK);
    rotate_at(&keys, NOW, false);
    token_keys_close(&keys);
    uint64_t size = fakeos_file_size(machine, PATH);
    for (uint64_t i = 0; i < size * 8; i++) {
        fakeos_file_flip(machine, PATH, i / 8, (unsigned)(i % 8));
        assert_int_equal(open_at(&keys, machine, DAY, NOW), TN_CORRUPT);
        fakeos_file_flip(machine, PATH, i / 8, (unsigned)(i % 8));
    }
    for (uint64_t len = 0; len < size; len++) {
        struct fakeos *copy = fakeos_copy(machine, 7);
        fakeos_file_resize(copy, PATH, len);
        assert_int_equal(open_at(&keys, copy, DAY, NOW), TN_CORRUPT);
        fakeos_free(copy);
    }
    fakeos_file_resize(machine, PATH, size + 1);
    assert_int_equal(open_at(&keys, machine, DAY, NOW), TN_CORRUPT);
    fakeos_file_resize(machine, PATH, (uint64_t)10 << 20);
    assert_int_equal(open_at(&keys, machine, DAY, NOW), TN_CORRUPT);
    fakeos_free(machine);
}

/* Each call of opening and rotating fails once, or the power goes: what was handed out stays good. */
static void no_failure_loses_a_key_that_has_signed(void **state) {
    bool reached = true;
    (void)state;
    for (uint64_t call = 1; reached; call++) {
        for (unsigned power = 0; power < 2; power++) {
            struct fakeos *machine = machine_make();
            struct token_keys keys;
            struct token_keys next;
            char reason[TOKEN_REASON_MAX];
            char old[TOKEN_MAX + 1] = "";
            char new[TOKEN_MAX + 1] = "";
            uint64_t at = fakeos_calls(machine) + call;
            if (power == 1) {
                fakeos_cut_call(machine, at);
            } else {
                fakeos_fail_call(machine, at, TN_IO);
            }
            if (open_at(&keys, machine, DAY, NOW) == TN_OK) {
                sign_at(&keys, NOW, old);
                if (token_keys_rotate(&keys, NOW, false, &next, reason) == TN_OK) {
                    sign_at(&next, NOW, new);
                    token_keys_close(&next);
                }
                token_keys_close(&keys);
            }
            reached = fakeos_calls(machine) >= at;
            fakeos_fail_call(machine, 0, TN_OK);
            fakeos_reboot(machine);
            assert_int_equal(open_at(&keys, machine, DAY, NOW), TN_OK);
            assert_true(old[0] == '\0' || judge_at(&keys, old, NOW) == TOKEN_LIVE);
            assert_true(new[0] == '\0' || judge_at(&keys, new, NOW) == TOKEN_LIVE);
            rotate_at(&keys, NOW, false);
            token_keys_close(&keys);
            fakeos_free(machine);
        }
    }
}

/* A file that a failed sync of the directory left in memory only must be durable before it signs. */
static void a_key_that_was_read_and_has_signed_survives_a_power_cut(void **state) {
    (void)state;
    bool reached = true;
    for (uint64_t call = 1; reached; call++) {
        for (uint64_t seed = 0; seed < 8; seed++) {
            struct fakeos *first = machine_make();
            struct fakeos *machine = fakeos_copy(first, seed);
            struct token_keys keys;
            char token[TOKEN_MAX + 1];
            fakeos_free(first);
            fakeos_fail_call(machine, call, TN_IO);
            if (open_at(&keys, machine, DAY, NOW) == TN_OK) {
                token_keys_close(&keys);
            }
            reached = fakeos_calls(machine) >= call;
            fakeos_restart(machine); /* another process, the same memory */
            assert_int_equal(open_at(&keys, machine, DAY, NOW), TN_OK);
            sign_at(&keys, NOW, token);
            token_keys_close(&keys);
            fakeos_reboot(machine);
            assert_int_equal(open_at(&keys, machine, DAY, NOW), TN_OK);
            assert_int_equal(judge_at(&keys, token, NOW), TOKEN_LIVE);
            token_keys_close(&keys);
            fakeos_free(machine);
        }
    }
}

static void a_file_that_others_may_read_is_refused(void **state) {
    struct token_keys keys;
    struct stat st;
    char dir[128];
    char path[256];
    char reason[TOKEN_REASON_MAX];
    (void)state;
    ekit_dir_make(dir);
    snprintf(path, sizeof path, "%s/%s", dir, TOKEN_KEYS_FILE);
    mode_t before = umask(0);
    assert_int_equal(token_keys_open(&keys, os_posix(), dir, DAY, NOW, reason), TN_OK);
    umask(before);
    token_keys_close(&keys);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    static const mode_t open_modes[] = {0640, 0604, 0620, 0666, 0601};
    for (size_t i = 0; i < sizeof open_modes / sizeof open_modes[0]; i++) {
        assert_int_equal(chmod(path, open_modes[i]), 0);
        assert_int_equal(token_keys_open(&keys, os_posix(), dir, DAY, NOW, reason), TN_DENIED);
        assert_non_null(strstr(reason, "chmod 600"));
    }
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(token_keys_open(&keys, os_posix(), dir, DAY, NOW, reason), TN_OK);
    token_keys_close(&keys);
    ekit_dir_remove(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_stay_the_same_over_restarts),
        cmocka_unit_test(an_old_key_verifies_until_its_longest_token_has_ended),
        cmocka_unit_test(dropped_keys_verify_nothing_any_more),
        cmocka_unit_test(there_are_at_most_so_many_keys),
        cmocka_unit_test(a_file_with_any_bit_changed_is_refused),
        cmocka_unit_test(no_failure_loses_a_key_that_has_signed),
        cmocka_unit_test(a_key_that_was_read_and_has_signed_survives_a_power_cut),
        cmocka_unit_test(a_file_that_others_may_read_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
