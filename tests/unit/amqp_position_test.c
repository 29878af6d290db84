/* The position of what was published: what was saved is found again, whatever cut it off; and what is
 * not known for sure is published once more. */
#include "unit/unit.h"

#include "lib/fakeos.h"
#include "supervisor/amqp_position.h"

#define PATH "/d/" AMQP_POSITION_FILE

static struct fakeos *machine_make(uint64_t seed) {
    struct fakeos *machine = fakeos_new(seed);
    const struct os *os = fakeos_table(machine);
    assert_int_equal(os->make_dir(os->ctx, "/d"), TN_OK);
    assert_int_equal(os->sync_dir(os->ctx, "/"), TN_OK);
    return machine;
}

static struct engine_event_id id(uint64_t lsn, uint32_t index) {
    return (struct engine_event_id){.lsn = lsn, .index = index};
}

/* Opened, while the newest event is number 1000; where to go on after. */
static struct engine_event_id opened(struct fakeos *machine, struct amqp_position *position,
                                     bool damaged) {
    struct engine_event_id after;
    bool is_damaged;
    assert_int_equal(
        amqp_position_open(position, fakeos_table(machine), "/d", id(1000, 0), &after, &is_damaged),
        TN_OK);
    assert_int_equal(is_damaged, damaged);
    return after;
}

static struct engine_event_id looked_at(struct fakeos *machine, bool damaged) {
    struct amqp_position position;
    struct engine_event_id after = opened(machine, &position, damaged);
    amqp_position_close(&position);
    return after;
}

static void is(struct engine_event_id got, struct engine_event_id want) {
    assert_int_equal(got.lsn, want.lsn);
    assert_int_equal(got.index, want.index);
}

static void save(struct amqp_position *position, struct engine_event_id settled) {
    assert_int_equal(amqp_position_save(position, settled), TN_OK);
}

static void a_new_one_begins_with_what_comes(void **state) {
    struct fakeos *machine = machine_make(1);
    (void)state;
    is(looked_at(machine, false), id(1000, 0));
    is(looked_at(machine, false), id(1000, 0)); /* the file is there, but nothing in it */
    fakeos_free(machine);
}

static void what_was_saved_last_is_found_again(void **state) {
    struct fakeos *machine = machine_make(1);
    struct amqp_position position;
    (void)state;
    (void)opened(machine, &position, false);
    for (uint32_t i = 0; i < 10; i++) {
        save(&position, id(7, i));
        save(&position, id(7, i)); /* is not written twice */
        is(looked_at(machine, false), id(7, i));
    }
    assert_int_equal(position.number, 10);
    amqp_position_close(&position);
    amqp_position_close(&position);
    /* Backwards too, as after a restore. */
    is(opened(machine, &position, false), id(7, 9));
    save(&position, id(3, 1));
    is(looked_at(machine, false), id(3, 1));
    amqp_position_close(&position);
    fakeos_free(machine);
}

static void one_that_is_ahead_of_all_events_is_none(void **state) {
    struct fakeos *machine = machine_make(1);
    struct amqp_position position;
    (void)state;
    (void)opened(machine, &position, false);
    save(&position, id(1000, 1));
    amqp_position_close(&position);
    is(opened(machine, &position, false), id(1000, 0));
    save(&position, id(1000, 0));
    is(looked_at(machine, false), id(1000, 0));
    amqp_position_close(&position);
    fakeos_free(machine);
}

static void anchor(struct amqp_position *position, struct engine_event_id settled) {
    assert_int_equal(amqp_position_anchor(position, settled), TN_OK);
}

static void a_damaged_slot_leaves_the_one_before(void **state) {
    (void)state;
    for (unsigned byte = 0; byte < 32; byte++) {
        struct fakeos *machine = machine_make(1);
        struct amqp_position position;
        (void)opened(machine, &position, false);
        save(&position, id(5, 0)); /* the second slot */
        save(&position, id(6, 0)); /* the third */
        anchor(&position, id(7, 0));
        amqp_position_close(&position);
        fakeos_file_flip(machine, PATH, byte, byte % 8);
        is(looked_at(machine, false), id(6, 0));
        fakeos_file_flip(machine, PATH, 1024 + byte, byte % 8);
        is(opened(machine, &position, false), id(5, 0));
        anchor(&position, id(5, 0));
        amqp_position_close(&position);
        is(looked_at(machine, false), id(5, 0));
        fakeos_file_flip(machine, PATH, byte, 0);
        fakeos_file_flip(machine, PATH, 512 + byte, 0);
        is(opened(machine, &position, true), ENGINE_EVENTS_OLDEST);
        save(&position, id(1, 0));
        amqp_position_close(&position);
        is(looked_at(machine, false), id(1, 0));
        fakeos_free(machine);
    }
}

/* A life with the calls that a server makes: the last position that is surely kept. Those after it, up to
 * *ret_last, may be. */
static uint64_t life(struct fakeos *machine, uint64_t from, uint64_t *ret_last) {
    struct amqp_position position;
    struct engine_event_id after;
    bool damaged;
    uint64_t sure = 0;
    if (amqp_position_open(&position, fakeos_table(machine), "/d", id(1000, 0), &after, &damaged) !=
        TN_OK) {
        return 0;
    }
    assert_false(damaged);
    *ret_last = from;
    sure = amqp_position_anchor(&position, id(from, 0)) == TN_OK ? from : 0;
    for (uint64_t lsn = from + 1; lsn < from + 6; lsn++) {
        *ret_last = lsn;
        (void)amqp_position_save(&position, id(lsn, 0));
    }
    sure = amqp_position_anchor(&position, id(*ret_last, 0)) == TN_OK ? *ret_last : sure;
    amqp_position_close(&position);
    return sure;
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
            assert_in_range(looked_at(machine, false).lsn, sure, last);
            fakeos_free(machine);
        }
    }
}

static void a_failed_call_spoils_nothing(void **state) {
    (void)state;
    bool failed = true;
    for (uint64_t call = 1; failed; call++) {
        struct fakeos *machine = machine_make(1);
        uint64_t last = 0;
        assert_int_equal(life(machine, 10, &last), 15);
        fakeos_fail_call(machine, fakeos_calls(machine) + call, TN_IO);
        (void)life(machine, 20, &last);
        failed = fakeos_fault_name(machine)[0] != '\0';
        fakeos_fail_call(machine, 0, TN_IO);
        assert_int_equal(looked_at(machine, false).lsn, last);
        assert_true(last == 15 || last == 25);
        fakeos_free(machine);
    }
}

static void a_directory_of_too_long_a_name_is_refused(void **state) {
    struct fakeos *machine = machine_make(1);
    static char dir[AMQP_POSITION_PATH + 1];
    struct amqp_position position;
    struct engine_event_id after;
    bool damaged;
    (void)state;
    memset(dir, 'd', sizeof dir - 1);
    assert_int_equal(
        amqp_position_open(&position, fakeos_table(machine), dir, id(1, 0), &after, &damaged),
        TN_INVALID);
    fakeos_free(machine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_one_begins_with_what_comes),
        cmocka_unit_test(what_was_saved_last_is_found_again),
        cmocka_unit_test(one_that_is_ahead_of_all_events_is_none),
        cmocka_unit_test(a_damaged_slot_leaves_the_one_before),
        cmocka_unit_test(a_power_cut_takes_back_no_more_than_this_life),
        cmocka_unit_test(a_failed_call_spoils_nothing),
        cmocka_unit_test(a_directory_of_too_long_a_name_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
