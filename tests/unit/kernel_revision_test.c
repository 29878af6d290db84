/* Changes of rules that name their revision: late ones do not undo newer ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants the headers above first */
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "lib/kit.h"

/* Revision 0: none is named. */
static enum tn_result place(struct kit *kit, enum kernel_verb verb, const char *name,
                            const char *trigger, bool enabled, uint64_t revision) {
    struct kernel_command c = kit_command(verb);
    c.name = kit_text(name);
    c.trigger = kit_text(trigger);
    c.enabled = enabled;
    if (revision > 0) {
        c.fields |= KERNEL_F_EPOCH;
        c.epoch = revision;
    }
    return kit_run(kit, &c);
}

static enum tn_result change(struct kit *kit, enum kernel_verb verb, const char *name, bool enabled,
                             uint64_t revision) {
    return place(kit, verb, name, "t", enabled, revision);
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
    /* A revision that is equal is not older. */
    assert_int_equal(turn(&kit, "r", false, 10), TN_R_OK);
    /* A message that changes nothing still counts as news. */
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
    assert_int_equal(turn(&kit, "r", true, 15), TN_R_STALE);
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

static void a_word_that_overtakes_its_rule_counts_when_the_rule_comes(void **state) {
    struct kit kit;
    (void)state;
    kit_open(&kit, NULL);
    assert_int_equal(turn(&kit, "on", true, 20), TN_R_NOTFOUND);
    assert_int_equal(look(&kit, "on"), -1); /* there is no demand before it is known for what */
    assert_int_equal(set(&kit, "on", false, 10), TN_R_OK);
    assert_int_equal(look(&kit, "on"), 1);
    assert_int_equal(kernel_trigger_rules(kit.kernel, kit_text("t")), 1);
    assert_int_equal(turn(&kit, "on", false, 19), TN_R_STALE);
    assert_int_equal(turn(&kit, "off", true, 15), TN_R_NOTFOUND);
    assert_int_equal(turn(&kit, "off", false, 20), TN_R_NOTFOUND);
    assert_int_equal(turn(&kit, "off", true, 19), TN_R_STALE);
    assert_int_equal(set(&kit, "off", true, 10), TN_R_OK);
    assert_int_equal(look(&kit, "off"), 0);
    /* A rule set with a later revision overrides the earlier report; so does one without a
     * revision. */
    assert_int_equal(turn(&kit, "newer", false, 20), TN_R_NOTFOUND);
    assert_int_equal(set(&kit, "newer", true, 30), TN_R_OK);
    assert_int_equal(look(&kit, "newer"), 1);
    assert_int_equal(turn(&kit, "plain", false, 20), TN_R_NOTFOUND);
    assert_int_equal(set(&kit, "plain", true, 0), TN_R_OK);
    assert_int_equal(look(&kit, "plain"), 1);
    assert_int_equal(turn(&kit, "plain", false, 19), TN_R_STALE);
    /* A report without a revision is only about an existing rule. */
    assert_int_equal(turn(&kit, "now", true, 0), TN_R_NOTFOUND);
    assert_int_equal(set(&kit, "now", false, 10), TN_R_OK);
    assert_int_equal(look(&kit, "now"), 0);
    assert_int_equal(turn(&kit, "", true, 20), TN_R_NOTFOUND);
    kit_check(&kit);
    kit_close(&kit);
}

/* Reports about one rule, in time; the id is used for a second rule. */
static const struct {
    enum kernel_verb verb;
    const char *trigger;
    bool enabled;
} tale[] = {
    {KERNEL_VERB_RULE_SET, "first", false}, {KERNEL_VERB_RULE_ENABLE, "", true},
    {KERNEL_VERB_RULE_DELETE, "", false},   {KERNEL_VERB_RULE_SET, "second", true},
    {KERNEL_VERB_RULE_SET, "third", true},  {KERNEL_VERB_RULE_ENABLE, "", false},
    {KERNEL_VERB_RULE_DELETE, "", false},
};

#define TALE_LEN (sizeof tale / sizeof tale[0])

/* Tells the first `count` words in the order that `number` stands for; true: there is one. */
static bool tale_tell(struct kit *kit, const char *name, unsigned count, unsigned number) {
    unsigned left[TALE_LEN];
    for (unsigned i = 0; i < count; i++) {
        left[i] = i;
    }
    for (unsigned n = count; n > 0; n--) {
        unsigned at = number % n;
        unsigned word = left[at];
        number /= n;
        left[at] = left[n - 1];
        (void)place(kit, tale[word].verb, name, tale[word].trigger, tale[word].enabled, 10 + word);
    }
    return number == 0;
}

static void the_order_of_words_does_not_matter(void **state) {
    (void)state;
    for (unsigned count = 1; count <= TALE_LEN; count++) {
        static const int ends[TALE_LEN + 1] = {-1, 0, 1, -1, 1, 1, 0, -1};
        static const char *const triggers[TALE_LEN + 1] = {"",       "first", "first", "",
                                                           "second", "third", "third", ""};
        struct kit kit;
        char name[16];
        kit_open(&kit, NULL);
        kit.record = false;
        for (unsigned order = 0;; order++) {
            struct kernel_rule_view view;
            snprintf(name, sizeof name, "r%u", order);
            if (!tale_tell(&kit, name, count, order)) {
                break;
            }
            assert_int_equal(look(&kit, name), ends[count]);
            if (ends[count] >= 0) {
                assert_int_equal(kernel_rule_read(kit.kernel, kit_text(name), &view), TN_R_OK);
                assert_string_equal(view.trigger, triggers[count]);
                assert_int_equal(end(&kit, name, 0), TN_R_OK);
            }
        }
        kit_check(&kit);
        kit_close(&kit);
    }
}

static void the_last_rules_that_are_gone_are_remembered(void **state) {
    struct kit kit;
    char name[16];
    (void)state;
    kit_open(&kit, NULL);
    for (unsigned i = 0; i <= KERNEL_TOMBSTONES_MAX; i++) {
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

static void what_was_said_last_is_forgotten_last(void **state) {
    struct kit kit;
    char name[16];
    (void)state;
    kit_open(&kit, NULL);
    for (unsigned i = 0; i < KERNEL_TOMBSTONES_MAX; i++) {
        snprintf(name, sizeof name, "r%u", i);
        assert_int_equal(end(&kit, name, 10), TN_R_NOTFOUND);
    }
    /* The oldest ones are heard of again: an end, an early word, a rule that comes and goes. */
    assert_int_equal(end(&kit, "r0", 20), TN_R_NOTFOUND);
    assert_int_equal(turn(&kit, "r1", true, 20), TN_R_NOTFOUND);
    assert_int_equal(set(&kit, "r2", true, 20), TN_R_OK);
    assert_int_equal(end(&kit, "r2", 30), TN_R_OK);
    /* A report that is older than the known revision changes nothing. */
    assert_int_equal(end(&kit, "r3", 5), TN_R_NOTFOUND);
    assert_int_equal(end(&kit, "another", 10), TN_R_NOTFOUND);
    assert_int_equal(set(&kit, "r0", true, 15), TN_R_STALE);
    assert_int_equal(turn(&kit, "r1", true, 15), TN_R_STALE);
    assert_int_equal(set(&kit, "r2", true, 25), TN_R_STALE);
    assert_int_equal(set(&kit, "r3", true, 5), TN_R_OK); /* forgotten */
    assert_int_equal(set(&kit, "r4", true, 5), TN_R_STALE);
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
    assert_int_equal(turn(&kit, "early", true, 20), TN_R_NOTFOUND);
    kit_clone(&kit, &clone);
    assert_int_equal(kernel_hash(clone.kernel), kernel_hash(kit.kernel));
    assert_int_equal(turn(&clone, "r", false, 9), TN_R_STALE);
    assert_int_equal(set(&clone, "gone", true, 9), TN_R_STALE);
    assert_int_equal(set(&clone, "gone", true, 11), TN_R_OK);
    assert_int_equal(set(&clone, "early", false, 10), TN_R_OK);
    assert_int_equal(look(&clone, "early"), 1);
    kit_check(&clone);
    kit_close(&clone);
    kit_close(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_older_is_refused),
        cmocka_unit_test(a_change_that_names_none_is_done_and_hides_nothing),
        cmocka_unit_test(a_deleted_rule_does_not_come_back_by_an_older_word),
        cmocka_unit_test(a_word_that_overtakes_its_rule_counts_when_the_rule_comes),
        cmocka_unit_test(the_order_of_words_does_not_matter),
        cmocka_unit_test(the_last_rules_that_are_gone_are_remembered),
        cmocka_unit_test(what_was_said_last_is_forgotten_last),
        cmocka_unit_test(a_snapshot_remembers_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
