/* What a user whose pools and holders are patterns can see: leases and events are judged by
 * everything that they name, not only by the first name. */
#include "server/access.h"

#include "unit/engine_world.h"

static struct tn_bytes text(const char *s) {
    return tn_bytes_of(s, strlen(s));
}

struct guest {
    struct access access;
    const struct access_user *user;
};

static void guest_make(struct guest *guest, const char *pools, const char *holders) {
    struct access_option option = {
        .name = "guest", .hash = "x", .role = PROTOCOL_READER, .pools = pools, .holders = holders};
    *guest = (struct guest){.user = NULL};
    assert_true(access_configure(&guest->access, &option, 1));
    guest->user = access_find(&guest->access, text("guest"));
    assert_non_null(guest->user);
}

static void a_rekeyed_lease_is_told_to_those_who_may_see_both_holders(void **state) {
    static const struct {
        const char *holders;
        bool sees;
    } rows[] = {{NULL, true},     {"*", true},    {"new/*", false},
                {"old/*", false}, {"x/*", false}, {"new/* old/*", true}};
    struct engine_event_value value = {.pool = text("p")};
    struct engine_event event = {.fact = {.kind = KERNEL_EVENT_LEASE_REKEYED,
                                          .holder = text("new/1"),
                                          .previous = text("old/1"),
                                          .value_count = 1},
                                 .values = &value};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct guest guest;
        guest_make(&guest, NULL, rows[i].holders);
        assert_int_equal(access_sees_event(guest.user, &event), rows[i].sees);
        access_free(&guest.access);
    }
}

#define BUNDLE 200u

/* A lease with one value of `secret` at `place` among those of p. */
static void bundle_make(struct world *world, uint32_t place, struct engine_lease *ret_lease) {
    uint8_t claims[256];
    struct tn_writer w = tn_writer_of(claims, sizeof claims);
    uint32_t count = 1;
    if (place > 0) {
        kernel_claim_write(&w, text("p"), true, place);
        count++;
    }
    kernel_claim_write(&w, text("secret"), true, 1);
    if (place < BUNDLE - 1) {
        kernel_claim_write(&w, text("p"), true, BUNDLE - 1 - place);
        count++;
    }
    struct kernel_command command = {.verb = KERNEL_VERB_ALLOC,
                                     .rights = KERNEL_RIGHT_OPERATOR,
                                     .fields = KERNEL_F_HOLDER | KERNEL_F_CLAIMS,
                                     .holder = text("h"),
                                     .claims = tn_bytes_of(claims, w.len),
                                     .claim_count = count};
    ekit_command_copy(&world->command, &command);
    ekit_run_ok(world->engine, &world->command, &world->answer);
    assert_int_equal(
        engine_lease_read(world->engine, ENGINE_READ_AS_IS, world->answer.result.lease, ret_lease),
        TN_R_OK);
    assert_int_equal(ret_lease->view.value_count, BUNDLE);
}

static void a_bundle_is_judged_by_every_one_of_its_values(void **state) {
    static const uint32_t places[] = {0, 3, 4, 63, 64, 127, 128, 198, 199};
    struct world *world = *state;
    struct guest narrow;
    struct guest wide;
    world_open(world);
    ekit_run_ok(world->engine, ekit_pool(&world->command, "secret", 1, 100, 60), &world->answer);
    guest_make(&narrow, "p", NULL);
    guest_make(&wide, "p secret", NULL);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct engine_lease lease;
        bundle_make(world, places[i], &lease);
        assert_false(access_sees_lease(narrow.user, world->engine, &lease));
        assert_true(access_sees_lease(wide.user, world->engine, &lease));
        ekit_run_ok(world->engine, ekit_release(&world->command, &world->answer.result, "h"),
                    &world->answer);
    }
    access_free(&narrow.access);
    access_free(&wide.access);
}

/* A lease of guest's with a value of p and one of secret, or one that waits for them. */
static void both_claim(struct world *world, struct engine_lease *ret_lease) {
    uint8_t claims[64];
    struct tn_writer w = tn_writer_of(claims, sizeof claims);
    kernel_claim_write(&w, text("p"), true, 1);
    kernel_claim_write(&w, text("secret"), true, 1);
    struct kernel_command command = {.verb = KERNEL_VERB_ALLOC,
                                     .fields = KERNEL_F_HOLDER | KERNEL_F_CLAIMS | KERNEL_F_WAIT,
                                     .holder = text("h"),
                                     .user = text("guest"),
                                     .claims = tn_bytes_of(claims, w.len),
                                     .claim_count = 2,
                                     .wait_s = 60};
    ekit_command_copy(&world->command, &command);
    (void)ekit_run(world->engine, &world->command, &world->answer);
    assert_int_equal(
        engine_lease_read(world->engine, ENGINE_READ_AS_IS, world->answer.result.lease, ret_lease),
        TN_R_OK);
}

static void a_waiting_lease_is_judged_by_every_pool_that_it_waits_for(void **state) {
    struct world *world = *state;
    struct guest narrow;
    struct guest wide;
    struct access_user other;
    struct engine_lease held;
    struct engine_lease lease;
    world_open(world);
    ekit_run_ok(world->engine, ekit_pool(&world->command, "secret", 1, 1, 60), &world->answer);
    guest_make(&narrow, "p", NULL);
    guest_make(&wide, "p secret", NULL);
    other = *wide.user;
    other.name[0] = 'q';
    both_claim(world, &held);
    struct kernel_result holds = world->answer.result;
    both_claim(world, &lease);
    assert_int_equal(lease.view.state, KERNEL_WAITING);
    assert_false(access_sees_lease(narrow.user, world->engine, &lease));
    assert_true(access_sees_lease(wide.user, world->engine, &lease));
    assert_true(access_sees_lease(&other, world->engine, &lease));
    struct kernel_result waits = world->answer.result;
    ekit_run_ok(world->engine, ekit_release(&world->command, &holds, "h"), &world->answer);
    assert_false(access_sees_lease(narrow.user, world->engine, &lease)); /* as it was read before */
    assert_true(access_sees_lease(wide.user, world->engine, &lease));
    both_claim(world, &held);
    holds = world->answer.result;
    assert_int_equal(held.view.state, KERNEL_WAITING);
    ekit_run_ok(world->engine, ekit_release(&world->command, &holds, "h"), &world->answer);
    assert_int_equal(engine_lease_read(world->engine, ENGINE_READ_AS_IS, holds.lease, &held),
                     TN_R_OK);
    /* The pools of the lease are no longer known. */
    assert_int_equal(held.view.state, KERNEL_RELEASED);
    assert_false(access_sees_lease(&other, world->engine, &held));
    assert_true(access_sees_lease(wide.user, world->engine, &held));
    ekit_run_ok(world->engine, ekit_release(&world->command, &waits, "h"), &world->answer);
    access_free(&narrow.access);
    access_free(&wide.access);
}

static void an_event_of_a_waiting_lease_is_judged_by_its_pool(void **state) {
    struct engine_event event = {.fact = {.kind = KERNEL_EVENT_LEASE_WAITING,
                                          .lease = {.lsn = 7},
                                          .name = text("secret"),
                                          .user = text("owner")}};
    struct guest guest;
    (void)state;
    guest_make(&guest, "p", NULL);
    assert_false(access_sees_event(guest.user, &event));
    event.fact.name = text("p");
    assert_true(access_sees_event(guest.user, &event));
    event.fact.name = text(""); /* a bundle of several pools */
    assert_false(access_sees_event(guest.user, &event));
    event.fact.user = text("guest");
    assert_true(access_sees_event(guest.user, &event));
    access_free(&guest.access);
}

static void an_event_of_a_bundle_is_judged_by_every_one_of_its_values(void **state) {
    struct engine_event_value values[BUNDLE];
    struct engine_event event = {
        .fact = {.kind = KERNEL_EVENT_LEASE_ACTIVE, .holder = text("h"), .value_count = BUNDLE},
        .values = values};
    struct guest guest;
    (void)state;
    guest_make(&guest, "p", NULL);
    for (uint32_t place = 0; place < BUNDLE; place++) {
        for (uint32_t i = 0; i < BUNDLE; i++) {
            values[i] = (struct engine_event_value){.pool = text(i == place ? "secret" : "p")};
        }
        assert_false(access_sees_event(guest.user, &event));
        values[place].pool = text("p");
        assert_true(access_sees_event(guest.user, &event));
    }
    access_free(&guest.access);
}

/* ---- Commands, by their subjects ---- */

static enum tn_result judge(const struct access_user *user, struct engine *engine,
                            const struct protocol_command *row,
                            const struct kernel_command *named) {
    struct protocol_call call = {.row = row, .command = *named};
    char detail[ACCESS_DETAIL] = "";
    return access_judge(user, engine, row, &call, detail);
}

/* Its id can be predicted, but not its pool: the lease may be created before the command is
 * logged. */
static void a_lease_that_does_not_exist_yet_is_refused(void **state) {
    struct world *world = *state;
    struct guest narrow;
    struct protocol_command row = {.word = "REVOKE",
                                   .sub = "",
                                   .kind = PROTOCOL_WRITE,
                                   .role = PROTOCOL_OPERATOR,
                                   .id = PROTOCOL_REVOKE,
                                   .subject = PROTOCOL_OF_LEASE};
    world_open(world);
    guest_make(&narrow, "p", NULL);
    uint64_t lsn = engine_lsn(world->engine);
    struct kernel_command named = {.lease = {.lsn = lsn + 1}};
    assert_int_equal(judge(narrow.user, world->engine, &row, &named), TN_R_NOTFOUND);
    named.lease.lsn = lsn; /* the kernel knows why the lease does not exist */
    assert_int_equal(judge(narrow.user, world->engine, &row, &named), TN_R_OK);
    access_free(&narrow.access);
}

/* A command that the code does not know by its id: it can only judge by the command's row. */
static struct protocol_command new_command(uint8_t subject) {
    return (struct protocol_command){.word = "NEW",
                                     .sub = "",
                                     .word_len = 3,
                                     .kind = PROTOCOL_READ,
                                     .role = PROTOCOL_READER,
                                     .id = PROTOCOL_COMMANDS,
                                     .subject = subject};
}

static void a_command_whose_subject_is_unknown_is_refused(void **state) {
    static const uint8_t unknown[] = {PROTOCOL_OF_UNKNOWN, PROTOCOL_OF_LIST + 1, UINT8_MAX};
    struct kernel_command named = {.pool = text("p"), .name = text("s1")};
    struct guest narrow;
    struct guest wide;
    (void)state;
    guest_make(&narrow, "p", NULL);
    guest_make(&wide, NULL, NULL);
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        struct protocol_command row = new_command(unknown[i]);
        assert_int_equal(judge(narrow.user, NULL, &row, &named), TN_R_NOPERM);
        assert_int_equal(judge(wide.user, NULL, &row, &named), TN_R_NOPERM);
        assert_int_equal(judge(&access_system, NULL, &row, &named), TN_R_NOPERM);
    }
    access_free(&narrow.access);
    access_free(&wide.access);
}

static void a_new_command_is_judged_by_its_subject_alone(void **state) {
    static const struct {
        uint8_t subject;
        const char *pools, *holders;
        enum tn_result unnamed, named;
    } rows[] = {
        {PROTOCOL_OF_NONE, "p", NULL, TN_R_OK, TN_R_OK},
        {PROTOCOL_OF_LIST, "p", NULL, TN_R_OK, TN_R_OK},
        {PROTOCOL_OF_POOL, "p", NULL, TN_R_NOPERM, TN_R_OK},
        {PROTOCOL_OF_POOL, "q", NULL, TN_R_NOPERM, TN_R_NOPERM},
        {PROTOCOL_OF_LEASE, "p", NULL, TN_R_NOTFOUND, TN_R_OK},
        {PROTOCOL_OF_LEASE, "q", NULL, TN_R_NOTFOUND, TN_R_NOPERM},
        {PROTOCOL_OF_RULE, "p", NULL, TN_R_NOPERM, TN_R_NOPERM},
        {PROTOCOL_OF_RULE, "p sensors", "x", TN_R_OK, TN_R_OK},
        {PROTOCOL_OF_SENSOR, "p", NULL, TN_R_NOPERM, TN_R_NOPERM},
        {PROTOCOL_OF_SENSOR, "p sensors", "x", TN_R_NOPERM, TN_R_NOPERM},
        {PROTOCOL_OF_SENSOR, "p sensors", "sensor/s1", TN_R_NOPERM, TN_R_OK},
        {PROTOCOL_OF_MANY, "p", NULL, TN_R_NOPERM, TN_R_NOPERM},
        {PROTOCOL_OF_MANY, NULL, "h", TN_R_OK, TN_R_OK},
        {PROTOCOL_OF_ALL, "p", NULL, TN_R_NOPERM, TN_R_NOPERM},
        {PROTOCOL_OF_ALL, NULL, "h", TN_R_NOPERM, TN_R_NOPERM},
        {PROTOCOL_OF_ALL, NULL, NULL, TN_R_OK, TN_R_OK},
    };
    struct kernel_command unnamed = {.fields = 0};
    struct kernel_command named = {.pool = text("p"), .name = text("s1")};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct protocol_command row = new_command(rows[i].subject);
        struct guest guest;
        guest_make(&guest, rows[i].pools, rows[i].holders);
        assert_int_equal(judge(guest.user, NULL, &row, &unnamed), rows[i].unnamed);
        assert_int_equal(judge(guest.user, NULL, &row, &named), rows[i].named);
        access_free(&guest.access);
    }
}

static void a_list_of_blanks_matches_nothing(void **state) {
    static const char *const lists[] = {" ", ",", ", \t,"};
    (void)state;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        struct guest guest;
        guest_make(&guest, lists[i], NULL);
        assert_true(access_is_narrow(guest.user));
        assert_false(access_pool(guest.user, text("p")));
        assert_true(access_holder(guest.user, text("h")));
        access_free(&guest.access);
        guest_make(&guest, NULL, lists[i]);
        assert_true(access_is_narrow(guest.user));
        assert_false(access_holder(guest.user, text("h")));
        access_free(&guest.access);
    }
}

/* ---- users that were added at run time ---- */

static bool put(struct access *access, const char *name, const char *hash, uint64_t lsn) {
    struct access_option option = {.name = name, .hash = hash, .role = PROTOCOL_HOLDER};
    return access_user_put(access, &option, lsn);
}

static enum protocol_role role_now(const struct access *access, const struct access_login *login) {
    return access_user_of(access, login)->role;
}

static void a_login_lives_as_long_as_the_user_and_its_secret(void **state) {
    struct access access = {.users = NULL};
    (void)state;
    access_users_begin(&access);
    assert_true(put(&access, "a", "x", 1) && put(&access, "b", "y", 2));
    access_users_end(&access);
    struct access_login a = access_login_of(&access, text("a"));
    struct access_login b = access_login_of(&access, text("b"));
    assert_int_equal(role_now(&access, &a), PROTOCOL_HOLDER);
    access_users_begin(&access); /* b is deleted, a has not changed */
    assert_true(put(&access, "a", "x", 1));
    access_users_end(&access);
    assert_int_equal(role_now(&access, &a), PROTOCOL_HOLDER);
    assert_int_equal(role_now(&access, &b), PROTOCOL_NOBODY);
    access_users_begin(&access); /* c gets the struct that was b's, and not its logins */
    assert_true(put(&access, "a", "other", 3) && put(&access, "c", "z", 4));
    access_users_end(&access);
    assert_ptr_equal(access_find(&access, text("c")), b.user);
    assert_int_equal(role_now(&access, &b), PROTOCOL_NOBODY);
    assert_int_equal(role_now(&access, &a), PROTOCOL_NOBODY); /* another secret */
    assert_null(access_find(&access, text("b")));
    access_free(&access);
}

static void the_file_wins_and_anonymous_clients_do_not_come_back(void **state) {
    struct access access = {.users = NULL};
    struct access_login nobody = {.user = NULL};
    struct access_option file = {.name = "a", .hash = "f", .role = PROTOCOL_READER};
    (void)state;
    assert_int_equal(role_now(&access, &nobody), PROTOCOL_ADMIN);
    assert_true(access_configure(&access, &file, 1));
    access_users_begin(&access);
    assert_true(put(&access, "a", "x", 1));
    access_users_end(&access);
    assert_int_equal(access_find(&access, text("a"))->role, PROTOCOL_READER);
    assert_true(access_configure(&access, NULL, 0));
    assert_null(access_find(&access, text("a")));
    assert_int_equal(role_now(&access, &nobody), PROTOCOL_NOBODY);
    access_users_begin(&access);
    assert_true(put(&access, "a", "x", 1));
    access_users_end(&access);
    assert_int_equal(access_find(&access, text("a"))->role, PROTOCOL_HOLDER);
    access_users_begin(&access);
    access_users_end(&access);
    assert_int_equal(role_now(&access, &nobody), PROTOCOL_NOBODY);
    access_free(&access);
}

static void events_about_users_are_for_administrators_without_limits(void **state) {
    struct engine_event event = {.fact = {.kind = KERNEL_EVENT_USER_ADDED, .name = text("x")}};
    struct access_user user = {.role = PROTOCOL_ADMIN};
    (void)state;
    assert_true(access_sees_event(&user, &event));
    user.role = PROTOCOL_OPERATOR;
    assert_false(access_sees_event(&user, &event));
    char pools[] = "a";
    user = (struct access_user){.role = PROTOCOL_ADMIN, .pools = {.patterns = pools}};
    assert_false(access_sees_event(&user, &event));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_login_lives_as_long_as_the_user_and_its_secret),
        cmocka_unit_test(the_file_wins_and_anonymous_clients_do_not_come_back),
        cmocka_unit_test(events_about_users_are_for_administrators_without_limits),
        cmocka_unit_test(a_rekeyed_lease_is_told_to_those_who_may_see_both_holders),
        cmocka_unit_test_setup_teardown(a_bundle_is_judged_by_every_one_of_its_values, world_make,
                                        world_free),
        cmocka_unit_test_setup_teardown(a_waiting_lease_is_judged_by_every_pool_that_it_waits_for,
                                        world_make, world_free),
        cmocka_unit_test(an_event_of_a_waiting_lease_is_judged_by_its_pool),
        cmocka_unit_test(an_event_of_a_bundle_is_judged_by_every_one_of_its_values),
        cmocka_unit_test_setup_teardown(a_lease_that_does_not_exist_yet_is_refused, world_make,
                                        world_free),
        cmocka_unit_test(a_command_whose_subject_is_unknown_is_refused),
        cmocka_unit_test(a_list_of_blanks_matches_nothing),
        cmocka_unit_test(a_new_command_is_judged_by_its_subject_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
