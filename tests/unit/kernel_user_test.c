/* Users that are added at run time, and the quotas of users. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "lib/kit.h"

#define HASH "$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA"

static struct kernel_command user_command(enum kernel_verb verb, const char *name) {
    struct kernel_command c = kit_command(verb);
    c.name = kit_text(name);
    c.role = 2;
    c.spec = kit_text(HASH);
    return c;
}

static enum tn_result add(struct kit *kit, const char *name) {
    struct kernel_command c = user_command(KERNEL_VERB_USER_ADD, name);
    return kit_run(kit, &c);
}

static enum tn_result delete_user(struct kit *kit, const char *name) {
    struct kernel_command c = user_command(KERNEL_VERB_USER_DELETE, name);
    return kit_run(kit, &c);
}

/* True if there is such a user. */
static bool find(const struct kit *kit, const char *name, struct kernel_user_view *ret_view) {
    uint64_t cursor = 0;
    do {
        bool found = false;
        cursor = kernel_users_scan(kit->kernel, cursor, ret_view, &found);
        if (found && strcmp(ret_view->name, name) == 0) {
            return true;
        }
    } while (cursor != 0);
    return false;
}

static void a_user_is_added_changed_and_deleted(void **state) {
    (void)state;
    struct kit kit;
    struct kernel_user_view view;
    kit_open(&kit, NULL);
    assert_int_equal(kernel_users_lsn(kit.kernel), 0);
    assert_int_equal(add(&kit, "ci"), TN_R_OK);
    assert_int_equal(kernel_users_lsn(kit.kernel), kit.result.lsn);
    assert_int_equal(add(&kit, "ci"), TN_R_EXISTS);
    assert_true(find(&kit, "ci", &view));
    assert_int_equal(view.role, 2);
    assert_string_equal(view.secret, HASH);
    assert_string_equal(view.pools, "");
    struct kernel_command c = user_command(KERNEL_VERB_USER_SET, "ci");
    c.fields |= KERNEL_F_POOL | KERNEL_F_QUOTA;
    c.pool = kit_text("ports gpu-*");
    c.quota = 7;
    assert_int_equal(kit_run(&kit, &c), TN_R_OK);
    assert_int_equal(kit_run(&kit, &c), TN_R_NOOP);
    assert_true(find(&kit, "ci", &view));
    assert_string_equal(view.pools, "ports gpu-*");
    assert_int_equal(view.max_values, 7);
    assert_int_equal(view.role, 2); /* as it was */
    assert_string_equal(view.secret, HASH);
    c.pool = kit_text("");
    c.quota = 0;
    assert_int_equal(kit_run(&kit, &c), TN_R_OK);
    assert_true(find(&kit, "ci", &view));
    assert_string_equal(view.pools, "");
    kit_check(&kit);
    assert_int_equal(delete_user(&kit, "ci"), TN_R_OK);
    assert_int_equal(kernel_users_lsn(kit.kernel), kit.result.lsn);
    assert_int_equal(delete_user(&kit, "ci"), TN_R_NOTFOUND);
    assert_int_equal(kit_run(&kit, &c), TN_R_NOTFOUND);
    assert_false(find(&kit, "ci", &view));
    kit_close(&kit);
}

static void users_need_operator_rights_good_names_and_known_roles(void **state) {
    (void)state;
    struct kit kit;
    char long_name[KERNEL_USER_MAX + 2];
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    kit_open(&kit, NULL);
    struct kernel_command c = user_command(KERNEL_VERB_USER_ADD, "ci");
    c.rights = 0;
    assert_int_equal(kit_run(&kit, &c), TN_R_DENIED);
    const char *bad[] = {"", "a b", "a:b", "unix:0", "\x7f", long_name};
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(add(&kit, bad[i]), TN_R_BAD_NAME);
    }
    for (unsigned role = 0; role <= KERNEL_ROLES + 1; role += KERNEL_ROLES + 1) {
        c = user_command(KERNEL_VERB_USER_ADD, "ci");
        c.role = (uint8_t)role;
        assert_int_equal(kit_run(&kit, &c), TN_R_BAD_REQUEST);
    }
    c = user_command(KERNEL_VERB_USER_ADD, "ci");
    c.spec = kit_text("");
    assert_int_equal(kit_run(&kit, &c), TN_R_BAD_REQUEST);
    kit_close(&kit);
}

static void the_table_of_users_is_bounded(void **state) {
    (void)state;
    struct kernel_limits limits = kit_limits();
    struct kit kit;
    limits.of[KERNEL_LIMIT_USERS] = 2;
    kit_open(&kit, &limits);
    assert_int_equal(add(&kit, "a"), TN_R_OK);
    assert_int_equal(add(&kit, "b"), TN_R_OK);
    assert_int_equal(add(&kit, "c"), TN_R_USERS_FULL);
    assert_int_equal(kit.result.number, 2);
    assert_int_equal(delete_user(&kit, "a"), TN_R_OK);
    assert_int_equal(add(&kit, "c"), TN_R_OK);
    kit_check(&kit);
    kit_close(&kit);
}

static void users_are_in_images(void **state) {
    (void)state;
    struct kit kit, clone;
    struct kernel_user_view view;
    kit_open(&kit, NULL);
    add(&kit, "a");
    add(&kit, "b");
    delete_user(&kit, "a");
    kit_clone(&kit, &clone);
    assert_true(find(&clone, "b", &view));
    assert_false(find(&clone, "a", &view));
    assert_int_equal(kernel_users_lsn(clone.kernel), kernel_users_lsn(kit.kernel));
    kit_check(&clone);
    kit_close(&clone);
    kit_close(&kit);
}

/* ---- quotas ---- */

/* Requests `count` values of p for the user, whose quota is `quota`; with wait_s > 0 the request
 * waits. */
static enum tn_result take(struct kit *kit, const char *user, uint32_t count, uint32_t quota,
                           uint32_t wait_s) {
    uint8_t claims[64];
    struct tn_writer w = tn_writer_of(claims, sizeof claims);
    struct kernel_command c = kit_command(KERNEL_VERB_ALLOC);
    kernel_claim_write(&w, kit_text("p"), true, count);
    c.claims = tn_bytes_of(claims, w.len);
    c.claim_count = 1;
    c.holder = kit_text("h");
    c.user = kit_text(user);
    c.fields |= KERNEL_F_QUOTA | (wait_s > 0 ? KERNEL_F_WAIT : 0);
    c.quota = quota;
    c.wait_s = wait_s;
    return kit_run(kit, &c);
}

static uint64_t values_of(const struct kit *kit, const char *user) {
    return kernel_user_values(kit->kernel, kit_text(user));
}

static void the_leases_of_a_user_hold_no_more_than_its_quota(void **state) {
    (void)state;
    struct kit kit, clone;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=20");
    assert_int_equal(take(&kit, "ci", 2, 3, 0), TN_R_OK);
    struct kit_token first = kit_token(&kit);
    assert_int_equal(take(&kit, "ci", 2, 3, 0), TN_R_QUOTA);
    assert_int_equal(kit.result.number, 3);
    assert_int_equal(take(&kit, "ci", 1, 3, 0), TN_R_OK);
    assert_int_equal(take(&kit, "ci", 1, 3, 0), TN_R_QUOTA);
    assert_int_equal(take(&kit, "other", 3, 3, 0), TN_R_OK); /* each has its own */
    assert_int_equal(values_of(&kit, "ci"), 3);
    /* A revoked lease holds its values until it has ended. */
    kit_revoke(&kit, first, -1);
    assert_int_equal(take(&kit, "ci", 1, 3, 0), TN_R_QUOTA);
    kit_clone(&kit, &clone);
    assert_int_equal(values_of(&clone, "ci"), 3);
    kit_check(&clone);
    kit_close(&clone);
    kit_reclaim(&kit, first);
    assert_int_equal(values_of(&kit, "ci"), 1);
    assert_int_equal(take(&kit, "ci", 2, 3, 0), TN_R_OK);
    /* A higher quota, or none, counts from the next request on. */
    assert_int_equal(take(&kit, "ci", 1, 4, 0), TN_R_OK);
    assert_int_equal(take(&kit, "ci", 5, 0, 0), TN_R_OK);
    assert_int_equal(values_of(&kit, "ci"), 9);
    kit_check(&kit);
    kit_close(&kit);
}

static void a_waiting_lease_is_judged_by_its_quota_when_its_turn_comes(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=2");
    assert_int_equal(take(&kit, "other", 2, 0, 0), TN_R_OK);
    struct kit_token held = kit_token(&kit);
    assert_int_equal(take(&kit, "ci", 1, 1, 60), TN_R_WAITING);
    struct kit_token first = kit_token(&kit);
    assert_int_equal(values_of(&kit, "ci"), 0); /* the user holds none yet */
    assert_int_equal(take(&kit, "ci", 1, 1, 60), TN_R_WAITING);
    struct kit_token second = kit_token(&kit);
    kit_release(&kit, held, "h", true);
    assert_int_equal(kit_state(&kit, first), KERNEL_ACTIVE);
    assert_int_equal(kit_state(&kit, second), KERNEL_EXPIRED);
    assert_int_equal(values_of(&kit, "ci"), 1);
    kit_check(&kit);
    kit_close(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_user_is_added_changed_and_deleted),
        cmocka_unit_test(users_need_operator_rights_good_names_and_known_roles),
        cmocka_unit_test(the_table_of_users_is_bounded),
        cmocka_unit_test(users_are_in_images),
        cmocka_unit_test(the_leases_of_a_user_hold_no_more_than_its_quota),
        cmocka_unit_test(a_waiting_lease_is_judged_by_its_quota_when_its_turn_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
