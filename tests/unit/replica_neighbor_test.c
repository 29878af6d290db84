/* The replicated log over a fake etcd: another client writes under the cluster's prefix, by mistake
 * or on purpose. Whatever it writes, no node crashes, no two nodes own the log, acknowledged
 * commands stay on the nodes, and a node that cannot continue reports why. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lib/replicakit.h"
#include "replica/replica_head.h"

static struct group group;

/* ---- The neighbor ---- */

static void change(enum etcd_op_kind kind, const char *name, const void *value, size_t len) {
    char key[128];
    (void)snprintf(key, sizeof key, GROUP_PREFIX "%s", name);
    struct etcd_op op = {.kind = kind,
                         .keys = {.key = tn_bytes_of(key, strlen(key))},
                         .value = tn_bytes_of(value, len)};
    fakeetcd_put(group.fake, &op);
}

static void garbage_put(const char *name) {
    change(ETCD_PUT, name, "garbage", 7);
}

static struct replica_head head_now(void) {
    static const char key[] = GROUP_PREFIX "head";
    struct replica_head head;
    struct tn_bytes found;
    assert_true(fakeetcd_value(group.fake, tn_bytes_of(key, sizeof key - 1), &found));
    assert_int_equal(replica_head_decode(found, &head), TN_OK);
    return head;
}

static void head_put(const struct replica_head *head) {
    uint8_t bytes[REPLICA_HEAD_BYTES];
    replica_head_encode(head, bytes);
    change(ETCD_PUT, "head", bytes, sizeof bytes);
}

/* A name after "log/". */
static const char *log_name(uint64_t lsn) {
    static char name[64];
    (void)snprintf(name, sizeof name, "log/%016llx", (unsigned long long)lsn);
    return name;
}

/* ---- What comes of it ---- */

static void all_end_in(enum replica_trouble trouble) {
    group_run(&group, 60000);
    for (unsigned n = 0; n < GROUP_NODES; n++) {
        if (group_trouble(&group.nodes[n]) != trouble) {
            fail_msg("wanted %s, node %u says:\n%s", replica_trouble_name(trouble), n,
                     group.nodes[n].notice);
        }
    }
    assert_null(group_owner(&group));
    group_check(&group);
    group_close(&group);
}

/* The service continues, also after the owner has died. */
static void goes_on(void) {
    group_run(&group, 20000);
    struct group_node *owner = group_await_owner(&group, 10000);
    group_appends(owner, 5);
    assert_true(group_settle(&group, 5000));
    group_kill(&group, owner->n);
    owner = group_await_owner(&group, 20000);
    group_appends(owner, 5);
    assert_true(group_settle(&group, 5000));
    group_check(&group);
    group_close(&group);
}

static struct group_node *begin(void) {
    struct group_node *owner = group_begin(&group, 3);
    group_appends(owner, 10);
    assert_true(group_settle(&group, 5000));
    return owner;
}

static void a_head_that_is_none_ends_all(void **state) {
    (void)state;
    (void)begin();
    garbage_put("head");
    all_end_in(REPLICA_TROUBLE_DAMAGED);
}

static void a_head_that_is_gone_ends_all(void **state) {
    (void)state;
    (void)begin();
    change(ETCD_DELETE, "head", "", 0);
    all_end_in(REPLICA_TROUBLE_GONE);
}

static void an_older_head_ends_all(void **state) {
    (void)state;
    struct group_node *owner = begin();
    struct replica_head before = head_now();
    group_appends(owner, 10);
    assert_true(group_settle(&group, 5000));
    head_put(&before);
    all_end_in(REPLICA_TROUBLE_PUT_BACK);
}

/* No node renews the head, and it has everything: the next owner continues from it. */
static void the_head_of_an_owner_that_is_none_is_taken_over(void **state) {
    (void)state;
    (void)begin();
    struct replica_head head = head_now();
    head.epoch += 5;
    head.nonce.words[1]++;
    memcpy(head.node, "evil", 5);
    head_put(&head);
    goes_on();
}

static void a_head_beyond_the_log_ends_all(void **state) {
    (void)state;
    (void)begin();
    struct replica_head head = head_now();
    head.epoch++;
    head.lsn += 100;
    head_put(&head);
    all_end_in(REPLICA_TROUBLE_BEHIND);
}

/* No head covers it: it is not in the log, and the next append replaces it. */
static void a_batch_beyond_the_head_is_not_in_the_log(void **state) {
    (void)state;
    (void)begin();
    garbage_put(log_name(head_now().lsn + 1));
    garbage_put(log_name(head_now().lsn + 7));
    goes_on();
}

static void a_node_that_starts_beside_such_a_batch_follows(void **state) {
    (void)state;
    struct group_node *owner = group_begin(&group, 2);
    group_appends(owner, 10);
    garbage_put(log_name(head_now().lsn + 1));
    group_start(&group, 2, NULL);
    goes_on();
}

/* What the nodes have applied they have in their copies. */
static void batches_that_are_gone_are_not_missed(void **state) {
    (void)state;
    (void)begin();
    for (uint64_t lsn = 1; lsn <= 10; lsn++) {
        change(ETCD_DELETE, log_name(lsn), "", 0);
    }
    goes_on();
}

static void keys_of_no_meaning_are_passed_over(void **state) {
    static const char *const names[] = {"log/x", "log/00000000000000zz", "log/",  "heads",
                                        "node/", "note/token-keys",      "note/", "zzz"};
    (void)state;
    (void)begin();
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        garbage_put(names[i]);
    }
    for (unsigned i = 0; i < 100; i++) { /* more nodes than there can be, before the real ones */
        char name[32];
        (void)snprintf(name, sizeof name, "node/!%u", i);
        garbage_put(name);
    }
    goes_on();
}

/* More keys than one read returns, right after the next log position. */
static void keys_after_the_log_put(void) {
    for (unsigned i = 0; i < 40; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "%s-%u", log_name(head_now().lsn + 1), i);
        garbage_put(name);
    }
}

static void many_keys_after_the_log_are_passed_over(void **state) {
    (void)state;
    struct group_node *owner = group_begin(&group, 2);
    group_appends(owner, 10);
    keys_after_the_log_put();
    group_start(&group, 2, NULL);
    goes_on();
}

static void many_keys_in_place_of_the_next_batch_end_all(void **state) {
    (void)state;
    (void)begin();
    keys_after_the_log_put();
    struct replica_head head = head_now();
    head.epoch++;
    head.lsn += 100;
    head_put(&head);
    all_end_in(REPLICA_TROUBLE_BEHIND);
}

static void keys_before_the_log_put(void) {
    garbage_put("log/");
    garbage_put(log_name(0));
    garbage_put("log/0000000000000000-");
    garbage_put("log/000000000000000z");
    garbage_put(log_name(1));
}

/* The log is trimmed, and a node begins with a snapshot. */
static void a_node_is_seeded_beside_keys_of_no_meaning(void **state) {
    static const struct group_start seeds = {.seed = true};
    (void)state;
    struct group_node *owner = begin();
    struct group_node *other = &group.nodes[(owner->n + 1) % 3];
    struct group_node *third = &group.nodes[(owner->n + 2) % 3];
    for (unsigned i = 0; i < 100; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "node/!%u", i);
        garbage_put(name);
    }
    group_run(&group, 20000);
    group_snapshot(owner);
    group_snapshot(other);
    group_run(&group, 20000);
    group_appends(owner, 2);
    group_run(&group, 20000);
    keys_before_the_log_put();
    group_stop(&group, third->n);
    group_wipe(&group, third->n);
    group_start(&group, third->n, &seeds);
    assert_int_equal(third->seeded_lsn, 10);
    goes_on();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_that_is_none_ends_all),
        cmocka_unit_test(a_head_that_is_gone_ends_all),
        cmocka_unit_test(an_older_head_ends_all),
        cmocka_unit_test(the_head_of_an_owner_that_is_none_is_taken_over),
        cmocka_unit_test(a_head_beyond_the_log_ends_all),
        cmocka_unit_test(a_batch_beyond_the_head_is_not_in_the_log),
        cmocka_unit_test(a_node_that_starts_beside_such_a_batch_follows),
        cmocka_unit_test(batches_that_are_gone_are_not_missed),
        cmocka_unit_test(keys_of_no_meaning_are_passed_over),
        cmocka_unit_test(many_keys_after_the_log_are_passed_over),
        cmocka_unit_test(many_keys_in_place_of_the_next_batch_end_all),
        cmocka_unit_test(a_node_is_seeded_beside_keys_of_no_meaning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
