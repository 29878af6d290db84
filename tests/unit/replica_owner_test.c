/* Who owns a replicated log: single decisions. replica_walk_test.c goes through whole runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "replica/replica_owner.h"

#define TTL_MS 1000u
#define DOUBT_MS 1500u
#define STATE_VERSION 7u

struct bench {
    struct replica_owner owner;
    struct replica_effects effects;
    uint64_t now_ms;
};

static void bench_step(struct bench *b, const struct replica_fact *fact) {
    static uint64_t nonces;
    struct replica_nonce nonce = {{++nonces, 77}};
    replica_owner_step(&b->owner, fact, b->now_ms, b->now_ms, &nonce, &b->effects);
}

static void bench_tick(struct bench *b, uint64_t ms) {
    struct replica_fact fact = {.kind = REPLICA_FACT_TICK};
    b->now_ms += ms;
    bench_step(b, &fact);
}

static void bench_tell(struct bench *b, enum replica_fact_kind kind,
                       const struct replica_head *head) {
    struct replica_fact fact = {.kind = kind, .number = b->owner.numbers, .has_head = head != NULL};
    if (head != NULL) {
        fact.head = *head;
    }
    bench_step(b, &fact);
}

static struct replica_head head_of(uint64_t epoch, uint64_t seq, uint64_t lsn) {
    struct replica_head head;
    memset(&head, 0, sizeof head);
    head.state_version = STATE_VERSION;
    head.epoch = epoch;
    head.nonce.words[0] = epoch;
    head.seq = seq;
    head.lsn = lsn;
    head.chain = lsn * 11;
    head.now_ms = 900;
    head.stamp_ms = 5000;
    return head;
}

/* A follower that has read this head and applied everything. */
static void bench_begin(struct bench *b, const struct replica_head *head) {
    struct replica_owner_options options = {
        .ttl_ms = TTL_MS, .doubt_ms = DOUBT_MS, .state_version = STATE_VERSION};
    struct replica_fact applied = {
        .kind = REPLICA_FACT_APPLIED, .lsn = head->lsn, .chain = head->chain};
    memset(b, 0, sizeof *b);
    b->now_ms = 100000;
    replica_owner_begin(&b->owner, &options, b->now_ms);
    bench_tick(b, 0);
    assert_int_equal(b->effects.count, 1); /* the node knows nothing: it reads */
    assert_int_equal(b->effects.at[0].kind, REPLICA_DO_READ);
    bench_step(b, &applied);
    bench_tell(b, REPLICA_FACT_READ, head);
    assert_int_equal(b->effects.count, 0);
}

static bool has_effect(const struct bench *b, enum replica_effect_kind kind) {
    for (unsigned i = 0; i < b->effects.count; i++) {
        if (b->effects.at[i].kind == kind) {
            return true;
        }
    }
    return false;
}

static void bench_own(struct bench *b, const struct replica_head *head) {
    bench_begin(b, head);
    bench_tick(b, 1150);
    assert_true(has_effect(b, REPLICA_DO_SWAP));
    bench_tell(b, REPLICA_FACT_DONE, NULL);
    assert_true(has_effect(b, REPLICA_DO_LEAD));
}

static void a_follower_takes_over_after_silence_and_not_before(void **state) {
    struct replica_head head = head_of(3, 9, 20);
    struct bench b;
    (void)state;
    bench_begin(&b, &head);
    bench_tick(&b, 1149);
    assert_false(has_effect(&b, REPLICA_DO_SWAP));
    bench_tick(&b, 1);
    assert_int_equal(b.effects.at[0].kind, REPLICA_DO_SWAP);
    assert_int_equal(b.effects.at[0].swap_kind, REPLICA_SWAP_TAKE);
    assert_int_equal(b.effects.at[0].to.epoch, 4);
    assert_int_equal(b.effects.at[0].to.seq, 10);
    assert_int_equal(b.effects.at[0].to.lsn, 20);
    assert_int_equal(b.effects.at[0].to.now_ms, 900 + 1150);
    bench_tell(&b, REPLICA_FACT_DONE, NULL);
    assert_int_equal(b.effects.at[0].kind, REPLICA_DO_LEAD);
    assert_false(b.effects.at[0].heard); /* the head may have been old when it was read */
    assert_true(replica_owner_owns(&b.owner, b.now_ms + 999));
    assert_false(replica_owner_owns(&b.owner, b.now_ms + 1000));
}

static void heads_that_arrive_late_do_not_delay_a_takeover(void **state) {
    struct replica_head head = head_of(3, 9, 20);
    struct bench b;
    (void)state;
    bench_begin(&b, &head); /* stamped at 5000, arrived at 100000 */
    head.seq++;
    head.stamp_ms += 300;
    b.now_ms += 1000; /* 700 ms late, as when etcd was electing a leader */
    bench_tell(&b, REPLICA_FACT_SEEN, &head);
    bench_tick(&b, 449);
    assert_false(has_effect(&b, REPLICA_DO_SWAP));
    bench_tick(&b, 1); /* 100000 + 300 + 1150 */
    assert_true(has_effect(&b, REPLICA_DO_SWAP));
    bench_tell(&b, REPLICA_FACT_DONE, NULL);
    assert_true(b.effects.at[0].heard);
}

/* Nodes with different leader_ttl: an owner counts on its own, so a follower waits for the longer one. */
static void a_follower_waits_for_the_owners_time_if_that_is_longer(void **state) {
    struct replica_head head = head_of(3, 9, 20);
    struct bench b;
    (void)state;
    head.ttl_ms = 5000;
    bench_begin(&b, &head);
    bench_tick(&b, 5549);
    assert_false(has_effect(&b, REPLICA_DO_SWAP));
    bench_tick(&b, 1);
    assert_true(has_effect(&b, REPLICA_DO_SWAP));
    assert_int_equal(b.effects.at[0].to.ttl_ms, TTL_MS);
    head.ttl_ms = 10; /* no node takes over sooner than after its own ttl */
    bench_begin(&b, &head);
    bench_tick(&b, 1149);
    assert_false(has_effect(&b, REPLICA_DO_SWAP));
}

/* Deadlines that the next owner has set are in its own time, which may be behind. */
static void the_time_of_an_earlier_owner_counts_only_while_nothing_is_appended(void **state) {
    static const struct {
        uint64_t lsn, take_ms;
    } cases[] = {{20, 900 + 60000 + 1150}, {25, 1000 + 1150}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct replica_head head = head_of(3, 9, 20);
        struct replica_head next = head_of(4, 30, cases[i].lsn);
        struct replica_fact applied = {
            .kind = REPLICA_FACT_APPLIED, .lsn = next.lsn, .chain = next.chain};
        struct bench b;
        next.now_ms = 1000;
        bench_begin(&b, &head);
        b.now_ms += 60000;
        bench_step(&b, &applied);
        bench_tell(&b, REPLICA_FACT_SEEN, &next);
        bench_tick(&b, 1150);
        assert_true(has_effect(&b, REPLICA_DO_SWAP));
        assert_int_equal(b.effects.at[0].to.now_ms, cases[i].take_ms);
    }
}

/* The head of an append has the time at its stamp, not that of a batch that has waited. */
static void a_head_tells_the_time_at_its_stamp(void **state) {
    struct replica_head head = head_of(3, 9, 20);
    struct replica_fact append = {.kind = REPLICA_FACT_APPEND,
                                  .append = {.first_lsn = 21, .last_lsn = 21, .now_ms = 5000}};
    struct bench b;
    (void)state;
    bench_own(&b, &head);
    for (unsigned i = 0; i < 3; i++) { /* renewals alone: the time advances */
        bench_tick(&b, 400);
        assert_int_equal(b.effects.at[0].swap_kind, REPLICA_SWAP_RENEW);
        assert_int_equal(b.effects.at[0].to.now_ms, b.now_ms);
        bench_tell(&b, REPLICA_FACT_DONE, NULL);
    }
    b.now_ms += 100;
    bench_step(&b, &append);
    assert_int_equal(b.effects.at[0].swap_kind, REPLICA_SWAP_APPEND);
    assert_int_equal(b.effects.at[0].to.stamp_ms, b.now_ms);
    assert_int_equal(b.effects.at[0].to.now_ms, b.now_ms);
}

static void nobody_takes_over_a_closed_or_newer_log_or_one_not_applied(void **state) {
    struct replica_head head = head_of(3, 9, 20);
    struct bench b;
    (void)state;
    head.flags = REPLICA_CLOSED;
    bench_begin(&b, &head);
    bench_tick(&b, 100000);
    assert_false(has_effect(&b, REPLICA_DO_SWAP));
    head.flags = 0;
    head.state_version++;
    bench_begin(&b, &head);
    bench_tick(&b, 100000);
    assert_false(has_effect(&b, REPLICA_DO_SWAP));
    head.state_version = STATE_VERSION - 1; /* an older one is taken over, and becomes ours */
    bench_begin(&b, &head);
    bench_tick(&b, 100000);
    assert_int_equal(b.effects.at[0].swap_kind, REPLICA_SWAP_TAKE);
    assert_int_equal(b.effects.at[0].from.state_version, STATE_VERSION - 1);
    assert_int_equal(b.effects.at[0].to.state_version, STATE_VERSION);
    head = head_of(3, 9, 20);
    bench_begin(&b, &head);
    head.seq++;
    head.lsn++;
    bench_tell(&b, REPLICA_FACT_SEEN, &head);
    bench_tick(&b, 100000);
    assert_false(has_effect(&b, REPLICA_DO_SWAP));
}

static void a_register_that_went_back_is_refused(void **state) {
    static const struct {
        uint64_t epoch, seq, lsn;
    } olds[] = {{3, 8, 20}, {2, 9, 20}, {3, 9, 19}, {4, 10, 19}};
    struct replica_head head = head_of(3, 9, 20);
    struct bench b;
    (void)state;
    for (size_t i = 0; i < sizeof olds / sizeof olds[0]; i++) {
        struct replica_head old = head_of(olds[i].epoch, olds[i].seq, olds[i].lsn);
        bench_begin(&b, &head);
        bench_tick(&b, 500);
        assert_true(has_effect(&b, REPLICA_DO_READ));
        bench_tell(&b, REPLICA_FACT_READ, &old);
        assert_int_equal(b.effects.at[0].kind, REPLICA_DO_REFUSE);
        assert_int_equal(b.effects.at[0].refusal, REPLICA_PUT_BACK);
        assert_int_equal(b.owner.role, REPLICA_HALTED);
        bench_own(&b, &head); /* the owner sees it at its next swap */
        bench_tick(&b, 400);
        bench_tell(&b, REPLICA_FACT_FAILED, &old);
        assert_true(has_effect(&b, REPLICA_DO_REFUSE) && has_effect(&b, REPLICA_DO_FOLLOW));
        assert_int_equal(b.owner.role, REPLICA_HALTED);
    }
    struct replica_head fork = head_of(3, 10, 20); /* newer, but another log */
    fork.chain++;
    bench_begin(&b, &head);
    bench_tick(&b, 500);
    bench_tell(&b, REPLICA_FACT_READ, &fork);
    assert_int_equal(b.effects.at[0].refusal, REPLICA_PUT_BACK);
    bench_begin(&b, &head);
    bench_tick(&b, 500);
    bench_tell(&b, REPLICA_FACT_READ, NULL);
    assert_int_equal(b.effects.at[0].refusal, REPLICA_GONE);
    /* A watch may report old heads: they do not show that the owner lives. */
    struct replica_head old = head_of(3, 8, 19);
    bench_begin(&b, &head);
    bench_tell(&b, REPLICA_FACT_SEEN, &old);
    assert_int_equal(b.effects.count, 0);
    assert_int_equal(b.owner.head.seq, 9);
}

static void an_answer_may_be_older_than_what_was_heard_since_it_was_asked(void **state) {
    struct replica_head head = head_of(3, 9, 20);
    struct replica_head newer = head_of(3, 11, 22);
    struct bench b;
    (void)state;
    bench_begin(&b, &head);
    bench_tick(&b, 500);
    assert_true(has_effect(&b, REPLICA_DO_READ));
    bench_tell(&b, REPLICA_FACT_SEEN, &newer); /* overtakes the answer */
    struct replica_fact applied = {.kind = REPLICA_FACT_APPLIED, .lsn = 22, .chain = newer.chain};
    bench_step(&b, &applied);
    head.seq++;
    bench_tell(&b, REPLICA_FACT_READ, &head);
    assert_int_equal(b.effects.count, 0);
    assert_int_equal(b.owner.head.seq, 11);
    assert_int_equal(b.owner.role, REPLICA_FOLLOWING);
}

static void an_owner_renews_and_follows_when_it_is_deposed(void **state) {
    struct replica_head head = head_of(3, 9, 20);
    struct replica_head other = head_of(5, 30, 20);
    struct bench b;
    (void)state;
    bench_own(&b, &head);
    bench_tick(&b, 332);
    assert_int_equal(b.effects.count, 0);
    bench_tick(&b, 1);
    assert_int_equal(b.effects.at[0].swap_kind, REPLICA_SWAP_RENEW);
    bench_tell(&b, REPLICA_FACT_DONE, NULL);
    assert_true(replica_owner_owns(&b.owner, b.now_ms + 999));
    bench_tell(&b, REPLICA_FACT_SEEN, &other);
    assert_int_equal(b.effects.at[0].kind, REPLICA_DO_FOLLOW);
    assert_false(replica_owner_owns(&b.owner, b.now_ms));
}

static void a_denied_owner_follows_and_says_why(void **state) {
    struct replica_head head = head_of(3, 9, 20);
    struct bench b;
    (void)state;
    bench_own(&b, &head);
    struct replica_fact append = {.kind = REPLICA_FACT_APPEND,
                                  .append = {.first_lsn = 21, .last_lsn = 23, .now_ms = 5000}};
    bench_step(&b, &append);
    assert_int_equal(b.effects.at[0].swap_kind, REPLICA_SWAP_APPEND);
    assert_int_equal(b.effects.at[0].to.lsn, 23);
    bench_tell(&b, REPLICA_FACT_DENIED, NULL);
    assert_int_equal(b.effects.at[0].kind, REPLICA_DO_APPENDED);
    assert_int_equal(b.effects.at[0].status, TN_LOST);
    assert_true(has_effect(&b, REPLICA_DO_REFUSE) && has_effect(&b, REPLICA_DO_FOLLOW));
    assert_int_equal(b.owner.role, REPLICA_FOLLOWING);
    bench_step(&b, &append);
    assert_int_equal(b.effects.at[0].status, TN_LOST);
}

static void a_full_store_refuses_an_append_and_leaves_the_owner(void **state) {
    struct replica_head head = head_of(3, 9, 20);
    struct bench b;
    (void)state;
    bench_own(&b, &head);
    struct replica_fact append = {.kind = REPLICA_FACT_APPEND,
                                  .append = {.first_lsn = 21, .last_lsn = 21, .now_ms = 5000}};
    bench_step(&b, &append);
    struct replica_head to = b.effects.at[0].to;
    bench_tell(&b, REPLICA_FACT_NOSPACE, NULL);
    assert_int_equal(b.effects.at[0].kind, REPLICA_DO_READ);
    bench_tell(&b, REPLICA_FACT_READ, &b.owner.head);
    assert_int_equal(b.effects.at[0].status, TN_NOSPACE);
    assert_true(replica_owner_owns(&b.owner, b.now_ms));
    bench_step(&b, &append);
    assert_int_not_equal(b.effects.at[0].to.seq, to.seq); /* no two heads are equal */
    bench_tell(&b, REPLICA_FACT_NOSPACE, NULL);
    to.seq = b.owner.swap.to.seq;
    bench_tell(&b, REPLICA_FACT_READ, &to); /* this one it has carried out */
    assert_int_equal(b.effects.at[0].status, TN_OK);
    assert_int_equal(b.owner.head.lsn, 21);
}

static void doubt_ends_after_its_time_as_unknown(void **state) {
    struct replica_head head = head_of(3, 9, 20);
    struct bench b;
    (void)state;
    bench_own(&b, &head);
    struct replica_fact append = {.kind = REPLICA_FACT_APPEND,
                                  .append = {.first_lsn = 21, .last_lsn = 21, .now_ms = 5000}};
    bench_step(&b, &append);
    struct replica_head to = b.effects.at[0].to;
    for (unsigned i = 0; i < 2; i++) {
        b.now_ms += 500;
        bench_tell(&b, REPLICA_FACT_DOUBT, NULL);
        assert_int_equal(b.effects.at[0].kind, REPLICA_DO_SWAP); /* the same again */
        assert_memory_equal(&b.effects.at[0].to, &to, sizeof to);
    }
    b.now_ms += 500;
    bench_tell(&b, REPLICA_FACT_DOUBT, NULL);
    assert_int_equal(b.effects.at[0].kind, REPLICA_DO_APPENDED);
    assert_int_equal(b.effects.at[0].status, TN_DOUBT);
    assert_int_equal(b.effects.at[1].kind, REPLICA_DO_FOLLOW);
}

/* It leaves no batch in doubt: when another node may own the log, this one need not hope any more. A
 * batch that waits for it was never sent. */
static void a_renewal_is_given_up_when_another_node_may_own_the_log(void **state) {
    struct replica_head head = head_of(3, 9, 20);
    struct bench b;
    (void)state;
    bench_own(&b, &head);
    uint64_t lapse_ms = b.now_ms + TTL_MS + TTL_MS / 10 + 50;
    b.owner.options.doubt_ms = 10 * TTL_MS;
    bench_tick(&b, TTL_MS / 3);
    assert_int_equal(b.effects.at[0].swap_kind, REPLICA_SWAP_RENEW);
    struct replica_fact append = {.kind = REPLICA_FACT_APPEND,
                                  .append = {.first_lsn = 21, .last_lsn = 21, .now_ms = 5000}};
    bench_step(&b, &append);
    assert_int_equal(b.effects.count, 0);
    b.now_ms = lapse_ms - 1;
    bench_tell(&b, REPLICA_FACT_DOUBT, NULL);
    assert_int_equal(b.effects.at[0].kind, REPLICA_DO_SWAP);
    assert_int_equal(b.owner.role, REPLICA_OWNING);
    b.now_ms = lapse_ms;
    bench_tell(&b, REPLICA_FACT_DOUBT, NULL);
    assert_int_equal(b.effects.count, 2);
    assert_int_equal(b.effects.at[0].kind, REPLICA_DO_APPENDED);
    assert_int_equal(b.effects.at[0].status, TN_LOST);
    assert_int_equal(b.effects.at[1].kind, REPLICA_DO_FOLLOW);
}

/* The store had no space for it, and the READ that could say so gets no answer either. */
static void a_renewal_without_space_is_given_up_then_as_well(void **state) {
    struct replica_head head = head_of(3, 9, 20);
    struct bench b;
    (void)state;
    bench_own(&b, &head);
    uint64_t lapse_ms = b.now_ms + TTL_MS + TTL_MS / 10 + 50;
    b.owner.options.doubt_ms = 10 * TTL_MS;
    bench_tick(&b, TTL_MS / 3);
    bench_tell(&b, REPLICA_FACT_NOSPACE, NULL);
    assert_int_equal(b.effects.at[0].kind, REPLICA_DO_READ);
    b.now_ms = lapse_ms - 1;
    bench_tell(&b, REPLICA_FACT_UNREAD, NULL);
    assert_int_equal(b.effects.at[0].kind, REPLICA_DO_READ);
    b.now_ms = lapse_ms;
    bench_tell(&b, REPLICA_FACT_UNREAD, NULL);
    assert_int_equal(b.effects.count, 1);
    assert_int_equal(b.effects.at[0].kind, REPLICA_DO_FOLLOW);
}

/* The next owner has trimmed the log: whether it contained the batch can no longer be known. */
static void a_trimmed_batch_stays_in_doubt(void **state) {
    struct replica_head head = head_of(3, 9, 20);
    struct bench b;
    (void)state;
    for (unsigned has_batch = 0; has_batch < 2; has_batch++) {
        bench_own(&b, &head);
        struct replica_fact append = {.kind = REPLICA_FACT_APPEND,
                                      .append = {.first_lsn = 21, .last_lsn = 21, .now_ms = 5000}};
        bench_step(&b, &append);
        bench_tell(&b, REPLICA_FACT_DOUBT, NULL);
        struct replica_fact fact = {.kind = REPLICA_FACT_FAILED,
                                    .number = b.owner.numbers,
                                    .has_head = true,
                                    .has_batch = has_batch == 1,
                                    .head = head_of(5, 20, 40)};
        bench_step(&b, &fact);
        assert_int_equal(b.effects.at[0].kind, REPLICA_DO_APPENDED);
        assert_int_equal(b.effects.at[0].status, has_batch == 1 ? TN_LOST : TN_DOUBT);
    }
}

/* A log that ends before the batch's key never had it. */
static void a_batch_beyond_the_end_is_surely_not_there(void **state) {
    struct replica_head head = head_of(3, 9, 20);
    struct bench b;
    (void)state;
    bench_own(&b, &head);
    struct replica_fact append = {.kind = REPLICA_FACT_APPEND,
                                  .append = {.first_lsn = 21, .last_lsn = 21, .now_ms = 5000}};
    bench_step(&b, &append);
    bench_tell(&b, REPLICA_FACT_DOUBT, NULL);
    struct replica_head other = head_of(5, 20, 20);
    bench_tell(&b, REPLICA_FACT_FAILED, &other);
    assert_int_equal(b.effects.at[0].status, TN_LOST);
}

static void an_owner_can_close_the_log_for_good(void **state) {
    struct replica_head head = head_of(3, 9, 20);
    struct replica_fact fact = {.kind = REPLICA_FACT_RESIGN, .closes = true};
    struct bench b;
    (void)state;
    bench_own(&b, &head);
    bench_step(&b, &fact);
    assert_int_equal(b.effects.at[0].kind, REPLICA_DO_SWAP);
    assert_int_equal(b.effects.at[0].to.flags, REPLICA_RESIGNED | REPLICA_CLOSED);
    bench_tell(&b, REPLICA_FACT_DONE, NULL);
    bench_tick(&b, 100000);
    assert_false(has_effect(&b, REPLICA_DO_SWAP));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trimmed_batch_stays_in_doubt),
        cmocka_unit_test(a_batch_beyond_the_end_is_surely_not_there),
        cmocka_unit_test(an_owner_can_close_the_log_for_good),
        cmocka_unit_test(a_follower_takes_over_after_silence_and_not_before),
        cmocka_unit_test(a_follower_waits_for_the_owners_time_if_that_is_longer),
        cmocka_unit_test(the_time_of_an_earlier_owner_counts_only_while_nothing_is_appended),
        cmocka_unit_test(a_head_tells_the_time_at_its_stamp),
        cmocka_unit_test(heads_that_arrive_late_do_not_delay_a_takeover),
        cmocka_unit_test(nobody_takes_over_a_closed_or_newer_log_or_one_not_applied),
        cmocka_unit_test(a_register_that_went_back_is_refused),
        cmocka_unit_test(an_answer_may_be_older_than_what_was_heard_since_it_was_asked),
        cmocka_unit_test(an_owner_renews_and_follows_when_it_is_deposed),
        cmocka_unit_test(a_denied_owner_follows_and_says_why),
        cmocka_unit_test(a_full_store_refuses_an_append_and_leaves_the_owner),
        cmocka_unit_test(doubt_ends_after_its_time_as_unknown),
        cmocka_unit_test(a_renewal_is_given_up_when_another_node_may_own_the_log),
        cmocka_unit_test(a_renewal_without_space_is_given_up_then_as_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
