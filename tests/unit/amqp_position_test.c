/* The position of what was published: what was saved is found again, whatever cut it off; and what is
 * not known for sure is published once more. */
#include "unit/unit.h"

#include "broker/broker_position.h"
#include "lib/fakeos.h"

#define PATH "/d/" BROKER_POSITION_FILE

static struct fakeos *machine_make(uint64_t seed) {
    struct fakeos *machine = fakeos_new(seed);
    const struct os *os = fakeos_table(machine);
    assert_int_equal(os->make_dir(os->ctx, "/d"), TN_OK);
    assert_int_equal(os->sync_dir(os->ctx, "/"), TN_OK);
    return machine;
}

static struct broker_place at(uint64_t lsn, uint32_t index) {
    return (struct broker_place){.id = {.lsn = lsn, .index = index}, .time_ms = lsn * 10 + index};
}

static void is(struct broker_place got, struct broker_place want) {
    assert_int_equal(got.id.lsn, want.id.lsn);
    assert_int_equal(got.id.index, want.id.index);
    assert_int_equal(got.time_ms, want.time_ms);
}

static void anchor(struct broker_position *position, struct broker_place settled) {
    assert_int_equal(broker_position_anchor(position, settled), TN_OK);
}

/* For the first time. */
static void made(struct fakeos *machine, struct broker_position *position,
                 struct broker_place first) {
    struct broker_place after;
    assert_int_equal(broker_position_open(position, fakeos_table(machine), "/d", &after),
                     TN_NOTFOUND);
    anchor(position, first);
}

static struct broker_place opened(struct fakeos *machine, struct broker_position *position) {
    struct broker_place after;
    assert_int_equal(broker_position_open(position, fakeos_table(machine), "/d", &after), TN_OK);
    return after;
}

static struct broker_place looked_at(struct fakeos *machine) {
    struct broker_position position;
    struct broker_place after = opened(machine, &position);
    broker_position_close(&position);
    return after;
}

static void is_damaged(struct fakeos *machine) {
    struct broker_position position;
    struct broker_place after;
    assert_int_equal(broker_position_open(&position, fakeos_table(machine), "/d", &after),
                     TN_CORRUPT);
    broker_position_close(&position);
}

static void save(struct broker_position *position, struct broker_place settled) {
    assert_int_equal(broker_position_save(position, settled), TN_OK);
}

static void a_new_one_is_kept_from_the_start(void **state) {
    struct fakeos *machine = machine_make(1);
    struct broker_position position;
    (void)state;
    made(machine, &position, at(1000, 3));
    is(looked_at(machine), at(1000, 3));
    broker_position_close(&position);
    assert_int_equal(fakeos_file_count(machine, "/d", NULL), 1);
    fakeos_free(machine);
}

static void what_was_saved_last_is_found_again(void **state) {
    struct fakeos *machine = machine_make(1);
    struct broker_position position;
    (void)state;
    made(machine, &position, at(6, 0));
    for (uint32_t i = 0; i < 10; i++) {
        save(&position, at(7, i));
        save(&position, at(7, i)); /* is not written twice */
        is(looked_at(machine), at(7, i));
    }
    assert_int_equal(position.number, 11);
    broker_position_close(&position);
    broker_position_close(&position);
    /* Backwards too, as after a restore. */
    is(opened(machine, &position), at(7, 9));
    save(&position, at(3, 1));
    is(looked_at(machine), at(3, 1));
    anchor(&position, at(2, 1));
    is(looked_at(machine), at(2, 1));
    save(&position, at(2, 5));
    is(looked_at(machine), at(2, 5));
    broker_position_close(&position);
    fakeos_free(machine);
}

static void a_damaged_slot_leaves_the_one_before(void **state) {
    (void)state;
    for (unsigned byte = 0; byte < 40; byte++) {
        struct fakeos *machine = machine_make(1);
        struct broker_position position;
        struct broker_place after;
        made(machine, &position, at(5, 0));
        save(&position, at(6, 0)); /* the third slot */
        save(&position, at(7, 0)); /* the second */
        assert_int_equal(position.os->sync(position.os->ctx, position.file), TN_OK);
        broker_position_close(&position);
        fakeos_file_flip(machine, PATH, 512 + byte, byte % 8);
        is(looked_at(machine), at(6, 0));
        fakeos_file_flip(machine, PATH, 1024 + byte, byte % 8);
        is(looked_at(machine), at(5, 0));
        fakeos_file_flip(machine, PATH, byte, 0);
        assert_int_equal(broker_position_open(&position, fakeos_table(machine), "/d", &after),
                         TN_CORRUPT);
        save(&position, at(1, 0)); /* if a new file could not be made */
        is(looked_at(machine), at(1, 0));
        anchor(&position, at(2, 0));
        is(looked_at(machine), at(2, 0));
        broker_position_close(&position);
        fakeos_free(machine);
    }
}

static void a_file_with_nothing_in_it_is_damaged(void **state) {
    struct fakeos *machine = machine_make(1);
    struct broker_position position;
    (void)state;
    made(machine, &position, at(5, 0));
    broker_position_close(&position);
    fakeos_file_resize(machine, PATH, 39);
    is_damaged(machine);
    fakeos_file_resize(machine, PATH, 0);
    is_damaged(machine);
    fakeos_free(machine);
}

/* A life with the calls that a server makes: the last position that is surely kept, 0 if that is not
 * of this one. Those after it, up to *ret_last, may be. */
static uint64_t life(struct fakeos *machine, uint64_t from, uint64_t *ret_last) {
    struct broker_position position;
    struct broker_place after;
    uint64_t sure = 0;
    enum tn_status status = broker_position_open(&position, fakeos_table(machine), "/d", &after);
    assert_int_not_equal(status, TN_CORRUPT);
    if (status != TN_OK && status != TN_NOTFOUND) {
        return 0;
    }
    *ret_last = from;
    enum tn_status anchored = broker_position_anchor(&position, at(from, 0));
    sure = anchored == TN_OK ? from : 0;
    if (status == TN_NOTFOUND && anchored != TN_OK) {
        broker_position_close(&position);
        return 0; /* such a server does not start */
    }
    for (uint64_t lsn = from + 1; lsn < from + 6; lsn++) {
        *ret_last = lsn;
        (void)broker_position_save(&position, at(lsn, 0));
    }
    sure = broker_position_anchor(&position, at(*ret_last, 0)) == TN_OK ? *ret_last : sure;
    broker_position_close(&position);
    return sure;
}

/* The power fails during each call of a server's first life: every position that it had confirmed
 * is intact, and without a file it had confirmed none. */
static void a_power_cut_in_the_first_life_damages_nothing(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        bool cut = true;
        for (uint64_t call = 1; cut; call++) {
            struct fakeos *machine = machine_make(seed);
            struct broker_position position;
            struct broker_place after = {0};
            uint64_t last = 0;
            fakeos_cut_call(machine, fakeos_calls(machine) + call);
            uint64_t sure = life(machine, 10, &last);
            cut = fakeos_is_cut(machine);
            assert_true(cut || sure == 15);
            fakeos_reboot(machine);
            enum tn_status status =
                broker_position_open(&position, fakeos_table(machine), "/d", &after);
            if (status == TN_OK) {
                assert_in_range(after.id.lsn, sure > 0 ? sure : 10, last);
            } else {
                assert_int_equal(status, TN_NOTFOUND);
                assert_int_equal(sure, 0);
            }
            broker_position_close(&position);
            fakeos_free(machine);
        }
    }
}

/* The power goes during each call of a server's second life. */
static void a_power_cut_takes_back_no_more_than_this_life(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        bool cut = true;
        for (uint64_t call = 1; cut; call++) {
            struct fakeos *machine = machine_make(seed);
            uint64_t last = 0;
            uint64_t sure = life(machine, 10, &last);
            assert_int_equal(sure, 15);
            fakeos_cut_call(machine, fakeos_calls(machine) + call);
            uint64_t later = life(machine, 20, &last);
            cut = fakeos_is_cut(machine);
            sure = later > sure ? later : sure;
            assert_true(cut || sure == 25);
            fakeos_reboot(machine);
            assert_in_range(looked_at(machine).id.lsn, sure, last);
            fakeos_free(machine);
        }
    }
}

/* Also if the power goes later: what a failed sync left unwritten is not relied on. */
static void a_failed_call_spoils_nothing(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        bool failed = true;
        for (uint64_t call = 1; failed; call++) {
            struct fakeos *machine = machine_make(seed);
            uint64_t last = 0;
            assert_int_equal(life(machine, 10, &last), 15);
            fakeos_fail_call(machine, fakeos_calls(machine) + call, TN_IO);
            uint64_t sure = life(machine, 20, &last);
            failed = fakeos_fault_name(machine)[0] != '\0';
            fakeos_fail_call(machine, 0, TN_IO);
            assert_int_equal(looked_at(machine).id.lsn, last);
            assert_true(last == 15 || last == 25);
            assert_int_equal(life(machine, 30, &last), 35);
            assert_true(failed || sure == 25);
            fakeos_reboot(machine);
            assert_int_equal(looked_at(machine).id.lsn, 35);
            fakeos_free(machine);
        }
    }
}

/* The new file has its name, but the name may not be durable: the next position that is saved is
 * newer anyway. */
static void a_new_file_that_is_not_surely_kept_is_written_on(void **state) {
    (void)state;
    bool failed = true;
    for (uint64_t call = 1; failed; call++) {
        struct fakeos *machine = machine_make(1);
        struct broker_position position;
        made(machine, &position, at(10, 0));
        fakeos_fail_call(machine, fakeos_calls(machine) + call, TN_IO);
        (void)broker_position_anchor(&position, at(20, 0));
        failed = fakeos_fault_name(machine)[0] != '\0';
        fakeos_fail_call(machine, 0, TN_IO);
        save(&position, at(21, 0));
        is(looked_at(machine), at(21, 0));
        broker_position_close(&position);
        fakeos_free(machine);
    }
}

static void a_directory_of_too_long_a_name_is_refused(void **state) {
    struct fakeos *machine = machine_make(1);
    static char dir[BROKER_POSITION_PATH + 1];
    struct broker_position position;
    struct broker_place after;
    (void)state;
    memset(dir, 'd', sizeof dir - 1);
    assert_int_equal(broker_position_open(&position, fakeos_table(machine), dir, &after),
                     TN_INVALID);
    fakeos_free(machine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_one_is_kept_from_the_start),
        cmocka_unit_test(what_was_saved_last_is_found_again),
        cmocka_unit_test(a_damaged_slot_leaves_the_one_before),
        cmocka_unit_test(a_file_with_nothing_in_it_is_damaged),
        cmocka_unit_test(a_power_cut_in_the_first_life_damages_nothing),
        cmocka_unit_test(a_power_cut_takes_back_no_more_than_this_life),
        cmocka_unit_test(a_failed_call_spoils_nothing),
        cmocka_unit_test(a_new_file_that_is_not_surely_kept_is_written_on),
        cmocka_unit_test(a_directory_of_too_long_a_name_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
