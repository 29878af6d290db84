/* Changes of rules that say which revision they make: late ones do not undo what is newer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants the headers above first */
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "lib/kit.h"

/* Revision 0: none is named. */
static enum tn_result change(struct kit *kit, enum kernel_verb verb, const char *name, bool enabled,
                             uint64_t revision) {
    struct kernel_command c = kit_command(verb);
    c.name = kit_text(name);
    c.trigger = kit_text("t");
    c.enabled = enabled;
    if (revision > 0) {
        c.fields |= KERNEL_F_EPOCH;
        c.epoch = revision;
    }
    return kit_run(kit, &c);
}

static enum tn_result set(struct kit *kit, const char *name, bool enabled, uint64_t revision) {
    return change(kit, KERNEL_VERB_RULE_SET, name, enabled, revision);
}

static enum tn_result turn(struct kit *kit, const char *name, bool enabled, uint64_t revision) {
    return change(kit, KERNEL_VERB_RULE_ENABLE, name, enabled, revision);
}

static enum tn_result end(struct kit *kit, const char *name, uint64_t revision) {
    return change(kit, KERNEL_VERB_RULE_DELETE, name, false, revision);
}

/* 1 or 0: enabled or not; -1: there is no such rule. */
static int look(const struct kit *kit, const char *name) {
    struct kernel_rule_view view;
    return kernel_rule_read(kit->kernel, kit_text(name), &view) == TN_R_OK ? view.enabled : -1;
}

static void what_is_older_is_refused(void **state) {
    struct kit kit;
    (void)state;
    kit_open(&kit, NULL);
    assert_int_equal(set(&kit, "r", true, 10), TN_R_OK);
    assert_int_equal(set(&kit, "r", false, 9), TN_R_STALE);
    assert_int_equal(turn(&kit, "r", false, 9), TN_R_STALE);
    assert_int_equal(end(&kit, "r", 9), TN_R_STALE);
    assert_int_equal(look(&kit, "r"), 1);
    assert_int_equal(turn(&kit, "r", false, 10), TN_R_OK); /* as new is not older */
    /* What changes nothing counts as news all the same. */
    assert_int_equal(turn(&kit, "r", false, 20), TN_R_NOOP);
    assert_int_equal(turn(&kit, "r", true, 19), TN_R_STALE);
    assert_int_equal(set(&kit, "r", false, 30), TN_R_NOOP);
    assert_int_equal(set(&kit, "r", true, 29), TN_R_STALE);
    assert_int_equal(look(&kit, "r"), 0);
    kit_check(&kit);
    kit_close(&kit);
}

static void a_change_that_names_none_is_done_and_hides_nothing(void **state) {
    struct kit kit;
    (void)state;
    kit_open(&kit, NULL);
    assert_int_equal(set(&kit, "r", true, 10), TN_R_OK);
    assert_int_equal(turn(&kit, "r", false, 0), TN_R_OK);
    assert_int_equal(turn(&kit, "r", true, 9), TN_R_STALE);
    assert_int_equal(end(&kit, "r", 0), TN_R_OK);
    assert_int_equal(set(&kit, "r", true, 9), TN_R_STALE);
    assert_int_equal(set(&kit, "r", true, 0), TN_R_OK);
    assert_int_equal(turn(&kit, "r", false, 9), TN_R_STALE);
    assert_int_equal(look(&kit, "r"), 1);
    kit_check(&kit);
    kit_close(&kit);
}

static void a_deleted_rule_does_not_come_back_by_an_older_word(void **state) {
    struct kit kit;
    (void)state;
    kit_open(&kit, NULL);
    assert_int_equal(set(&kit, "r", true, 10), TN_R_OK);
    assert_int_equal(end(&kit, "r", 20), TN_R_OK);
    assert_int_equal(set(&kit, "r", true, 15), TN_R_STALE);
    assert_int_equal(turn(&kit, "r", true, 15), TN_R_NOTFOUND);
    assert_int_equal(look(&kit, "r"), -1);
    assert_int_equal(set(&kit, "r", true, 30), TN_R_OK);
    assert_int_equal(end(&kit, "r", 20), TN_R_STALE); /* the first end, once more */
    assert_int_equal(look(&kit, "r"), 1);
    /* An end that is heard of before the beginning. */
    assert_int_equal(end(&kit, "early", 40), TN_R_NOTFOUND);
    assert_int_equal(end(&kit, "early", 35), TN_R_NOTFOUND);
    assert_int_equal(set(&kit, "early", true, 39), TN_R_STALE);
    assert_int_equal(end(&kit, "", 40), TN_R_NOTFOUND);
    kit_check(&kit);
    kit_close(&kit);
}

static void the_last_rules_that_are_gone_are_remembered(void **state) {
    struct kit kit;
    char name[16];
    (void)state;
    kit_open(&kit, NULL);
    for (unsigned i = 0; i <= KERNEL_GRAVES_MAX; i++) {
        snprintf(name, sizeof name, "r%u", i);
        assert_int_equal(end(&kit, name, 10 + i), TN_R_NOTFOUND);
    }
    kit_check(&kit);
    assert_int_equal(set(&kit, "r0", true, 1), TN_R_OK); /* forgotten */
    assert_int_equal(set(&kit, "r1", true, 1), TN_R_STALE);
    assert_int_equal(set(&kit, name, true, 1), TN_R_STALE);
    assert_int_equal(end(&kit, "next", 5), TN_R_NOTFOUND);
    assert_int_equal(set(&kit, "r1", true, 1), TN_R_OK);
    assert_int_equal(set(&kit, "r2", true, 1), TN_R_STALE);
    kit_check(&kit);
    kit_close(&kit);
}

static void a_snapshot_remembers_them(void **state) {
    struct kit kit;
    struct kit clone;
    (void)state;
    kit_open(&kit, NULL);
    assert_int_equal(set(&kit, "r", true, 10), TN_R_OK);
    assert_int_equal(end(&kit, "gone", 10), TN_R_NOTFOUND);
    kit_clone(&kit, &clone);
    assert_int_equal(kernel_hash(clone.kernel), kernel_hash(kit.kernel));
    assert_int_equal(turn(&clone, "r", false, 9), TN_R_STALE);
    assert_int_equal(set(&clone, "gone", true, 9), TN_R_STALE);
    assert_int_equal(set(&clone, "gone", true, 11), TN_R_OK);
    kit_check(&clone);
    kit_close(&clone);
    kit_close(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_older_is_refused),
        cmocka_unit_test(a_change_that_names_none_is_done_and_hides_nothing),
        cmocka_unit_test(a_deleted_rule_does_not_come_back_by_an_older_word),
        cmocka_unit_test(the_last_rules_that_are_gone_are_remembered),
        cmocka_unit_test(a_snapshot_remembers_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
