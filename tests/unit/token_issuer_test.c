/* Tokens and the engine, on a machine whose clock the test moves. */
#include "unit/engine_world.h"

#include "token/token_issuer.h"

struct desk {
    struct world *world;
    struct token_issuer issuer;
    struct token_issued issued;
    struct token_state state;
    char detail[PROTOCOL_DETAIL];
};

static void desk_open(struct desk *desk, struct world *world) {
    char reason[TOKEN_REASON_MAX];
    const struct os *os = fakeos_table(world->machine);
    world_open(world);
    *desk = (struct desk){.world = world,
                          .issuer = {.engine = world->engine, .name = "t", .ttl_max_s = 100}};
    assert_int_equal(os->make_dir(os->ctx, "/d"), TN_OK);
    assert_int_equal(
        token_keys_open(&desk->issuer.keys, os, "/d", 100, token_now(&desk->issuer), reason),
        TN_OK);
}

static struct token_order lease_make(struct desk *desk, const char *holder) {
    struct world *world = desk->world;
    ekit_run_ok(world->engine, ekit_alloc(&world->command, "p", holder, 1, NULL), &world->answer);
    return (struct token_order){.lease = world->answer.result.lease,
                                .epoch = world->answer.result.epoch};
}

static enum tn_result issue(struct desk *desk, const struct token_order *order) {
    return token_issue(&desk->issuer, 0, order, &desk->issued, desk->detail);
}

/* ttl_s 0: as long as the pool says. */
static void touch(struct desk *desk, const struct token_order *order, uint32_t ttl_s) {
    struct world *world = desk->world;
    struct kernel_command command = {.verb = KERNEL_VERB_TOUCH,
                                     .fields = KERNEL_F_LEASE | KERNEL_F_EPOCH |
                                               (ttl_s > 0 ? KERNEL_F_TTL : 0),
                                     .lease = order->lease,
                                     .epoch = order->epoch,
                                     .ttl_s = ttl_s,
                                     .rights = KERNEL_RIGHT_OPERATOR};
    ekit_command_copy(&world->command, &command);
    ekit_run_ok(world->engine, &world->command, &world->answer);
}

static enum token_verdict verdict(struct desk *desk, const char *token) {
    assert_int_equal(
        token_introspect(&desk->issuer, 0, tn_bytes_of(token, strlen(token)), &desk->state),
        TN_R_OK);
    return desk->state.verdict;
}

static void a_token_ends_when_it_says_and_stays_dead(void **state) {
    struct desk desk;
    struct world *world = *state;
    desk_open(&desk, world);
    struct token_order order = lease_make(&desk, "h");
    order.ttl_s = 10;
    order.has_ttl = true;
    assert_int_equal(issue(&desk, &order), TN_R_OK);
    assert_int_equal(desk.issued.claims.expires_s - desk.issued.claims.issued_s, 10);
    uint64_t begun_ms = engine_now(world->engine);
    uint64_t left_ms = desk.issued.claims.expires_s * 1000 - begun_ms;
    fakeos_clock_advance(world->machine, left_ms - 1);
    assert_int_equal(verdict(&desk, desk.issued.text), TOKEN_LIVE);
    fakeos_clock_advance(world->machine, 1);
    assert_int_equal(verdict(&desk, desk.issued.text), TOKEN_EXPIRED);
    assert_true(desk.state.has_claims);
    fakeos_clock_wall_set(world->machine, begun_ms);
    assert_int_equal(verdict(&desk, desk.issued.text), TOKEN_EXPIRED);
    token_keys_close(&desk.issuer.keys);
}

static void a_token_ends_with_the_time_of_its_lease(void **state) {
    struct desk desk;
    struct world *world = *state;
    desk_open(&desk, world);
    struct token_order order = lease_make(&desk, "h");
    assert_int_equal(issue(&desk, &order), TN_R_OK);
    assert_string_equal(desk.issued.claims.subject, "holder:h");
    assert_string_equal(desk.issued.claims.scope, "lease");
    assert_int_equal(desk.issued.claims.expires_s - desk.issued.claims.issued_s, 60);
    /* The lease is cut short: the token is dead although its own time is not over. */
    touch(&desk, &order, 10);
    fakeos_clock_advance(world->machine, 9999);
    assert_int_equal(verdict(&desk, desk.issued.text), TOKEN_LIVE);
    fakeos_clock_advance(world->machine, 1);
    /* The read first commits what is due: there is no moment at which both are true. */
    assert_int_equal(verdict(&desk, desk.issued.text), TOKEN_STALE);
    assert_true(desk.state.lsn > desk.issued.lsn);
    assert_int_equal(issue(&desk, &order), TN_R_STALE);
    token_keys_close(&desk.issuer.keys);
}

static enum tn_result refresh(struct desk *desk, const char *token, uint64_t ttl_s) {
    struct token_order terms = {.ttl_s = ttl_s, .has_ttl = ttl_s > 0};
    return token_refresh(&desk->issuer, 0, tn_bytes_of(token, strlen(token)), &terms, &desk->issued,
                         desk->detail);
}

static uint64_t life(const struct desk *desk) {
    return desk->issued.claims.expires_s - desk->issued.claims.issued_s;
}

static void a_refresh_never_outlives_what_the_issuer_allowed(void **state) {
    struct desk desk;
    struct world *world = *state;
    static char token[TOKEN_MAX + 1];
    desk_open(&desk, world);
    desk.issuer.ttl_max_s = 7776000;
    struct token_order order = lease_make(&desk, "h");
    order.ttl_s = 5;
    order.has_ttl = true;
    assert_int_equal(issue(&desk, &order), TN_R_OK);
    uint64_t end_s = desk.issued.claims.expires_s;
    for (uint32_t i = 0; i < 4; i++) {
        memcpy(token, desk.issued.text, sizeof token);
        fakeos_clock_advance(world->machine, 1000);
        assert_int_equal(refresh(&desk, token, i % 2 == 0 ? 0 : 7776000), TN_R_OK);
        assert_int_equal(desk.issued.claims.expires_s, end_s);
    }
    fakeos_clock_advance(world->machine, 1000);
    assert_int_equal(refresh(&desk, desk.issued.text, 0), TN_R_BAD_TOKEN);
    token_keys_close(&desk.issuer.keys);
}

static void the_issuer_may_allow_refreshes_for_longer_than_one_token_lives(void **state) {
    struct desk desk;
    struct world *world = *state;
    static char token[TOKEN_MAX + 1];
    desk_open(&desk, world);
    struct token_order order = lease_make(&desk, "h");
    order.ttl_s = 5;
    order.has_ttl = order.has_refresh = true;
    order.refresh_s = 12;
    assert_int_equal(issue(&desk, &order), TN_R_OK);
    uint64_t begun_s = desk.issued.claims.issued_s;
    assert_int_equal(life(&desk), 5);
    memcpy(token, desk.issued.text, sizeof token);
    fakeos_clock_advance(world->machine, 4000);
    assert_int_equal(refresh(&desk, token, 100), TN_R_OK);
    assert_int_equal(life(&desk), 5); /* at a time */
    memcpy(token, desk.issued.text, sizeof token);
    assert_int_equal(refresh(&desk, token, 2), TN_R_OK);
    assert_int_equal(life(&desk), 2);
    assert_int_equal(refresh(&desk, desk.issued.text, 0), TN_R_OK);
    assert_int_equal(life(&desk), 5); /* a short one does not bind those after it */
    memcpy(token, desk.issued.text, sizeof token);
    fakeos_clock_advance(world->machine, 4000);
    assert_int_equal(refresh(&desk, token, 0), TN_R_OK);
    assert_int_equal(desk.issued.claims.expires_s, begun_s + 12); /* in all */
    order.refresh_s = 3; /* less than the token itself has */
    assert_int_equal(issue(&desk, &order), TN_R_OK);
    assert_int_equal(desk.issued.claims.max_exp_s, desk.issued.claims.expires_s);
    assert_int_equal(life(&desk), 5);
    token_keys_close(&desk.issuer.keys);
}

static void a_refresh_follows_the_deadline_of_the_lease(void **state) {
    struct desk desk;
    struct world *world = *state;
    static char token[TOKEN_MAX + 1];
    desk_open(&desk, world);
    struct token_order order = lease_make(&desk, "h");
    assert_int_equal(issue(&desk, &order), TN_R_OK);
    assert_int_equal(life(&desk), 60);
    assert_true(desk.issued.claims.max_exp_s == TOKEN_OPEN_END);
    memcpy(token, desk.issued.text, sizeof token);
    fakeos_clock_advance(world->machine, 50000);
    assert_int_equal(refresh(&desk, token, 0), TN_R_OK);
    assert_int_equal(life(&desk), 10);
    touch(&desk, &order, 0);
    assert_int_equal(refresh(&desk, token, 0), TN_R_OK);
    assert_int_equal(life(&desk), 60);
    order.has_ttl = true; /* a ttl that is asked for does not outlive the lease either */
    order.ttl_s = 100;
    assert_int_equal(issue(&desk, &order), TN_R_OK);
    assert_int_equal(life(&desk), 60);
    token_keys_close(&desk.issuer.keys);
}

static void a_lease_in_its_last_second_gets_no_token(void **state) {
    struct desk desk;
    struct world *world = *state;
    desk_open(&desk, world);
    struct token_order order = lease_make(&desk, "h");
    assert_int_equal(issue(&desk, &order), TN_R_OK);
    uint64_t end_ms = desk.issued.claims.expires_s * 1000;
    fakeos_clock_advance(world->machine, end_ms - engine_now(world->engine));
    enum tn_result code = issue(&desk, &order);
    /* Whether the lease ends with the second depends on when it began. */
    assert_true(code == TN_R_BAD_TTL || code == TN_R_STALE);
    token_keys_close(&desk.issuer.keys);
}

static void an_order_says_what_the_token_says(void **state) {
    static const struct tn_bytes triggers[TOKEN_TRIGGERS_MAX + 1] = {
        {(const uint8_t *)"a", 1}, {(const uint8_t *)"b", 1}, {(const uint8_t *)"c", 1},
        {(const uint8_t *)"d", 1}, {(const uint8_t *)"e", 1}, {(const uint8_t *)"f", 1},
        {(const uint8_t *)"g", 1}, {(const uint8_t *)"h", 1}, {(const uint8_t *)"i", 1}};
    struct desk desk;
    desk_open(&desk, *state);
    struct token_order order = lease_make(&desk, "h");
    order.subject = "sensor:s";
    order.scope = tn_bytes_of("x y", 3);
    order.triggers = triggers;
    order.trigger_count = TOKEN_TRIGGERS_MAX;
    assert_int_equal(issue(&desk, &order), TN_R_OK);
    assert_int_equal(verdict(&desk, desk.issued.text), TOKEN_LIVE);
    assert_string_equal(desk.state.claims.subject, "sensor:s");
    assert_string_equal(desk.state.claims.scope, "x y");
    assert_int_equal(desk.state.claims.trigger_count, TOKEN_TRIGGERS_MAX);
    assert_string_equal(desk.state.claims.triggers[7], "h");
    order.trigger_count++;
    assert_int_equal(issue(&desk, &order), TN_R_TOO_LARGE);
    order.trigger_count = 0;
    order.has_ttl = true;
    order.ttl_s = 101;
    assert_int_equal(issue(&desk, &order), TN_R_BAD_TTL);
    order.ttl_s = 0;
    assert_int_equal(issue(&desk, &order), TN_R_BAD_TTL);
    token_keys_close(&desk.issuer.keys);
}

static void a_refresh_keeps_to_the_setting_that_holds_now(void **state) {
    struct desk desk;
    struct world *world = *state;
    static char old[TOKEN_MAX + 1];
    desk_open(&desk, world);
    struct token_order order = lease_make(&desk, "h");
    assert_int_equal(issue(&desk, &order), TN_R_OK);
    memcpy(old, desk.issued.text, sizeof old);
    desk.issuer.ttl_max_s = 40;
    assert_int_equal(refresh(&desk, old, 0), TN_R_OK);
    assert_int_equal(life(&desk), 40);
    assert_int_equal(refresh(&desk, old, 41), TN_R_BAD_TTL);
    assert_int_equal(refresh(&desk, old, 40), TN_R_OK);
    assert_int_equal(verdict(&desk, old), TOKEN_LIVE);
    assert_int_equal(verdict(&desk, desk.issued.text), TOKEN_LIVE);
    token_keys_close(&desk.issuer.keys);
}

#define DESK_TEST(test) cmocka_unit_test_setup_teardown(test, world_make, world_free)

int main(void) {
    const struct CMUnitTest tests[] = {
        DESK_TEST(a_token_ends_when_it_says_and_stays_dead),
        DESK_TEST(a_token_ends_with_the_time_of_its_lease),
        DESK_TEST(an_order_says_what_the_token_says),
        DESK_TEST(a_refresh_keeps_to_the_setting_that_holds_now),
        DESK_TEST(a_refresh_never_outlives_what_the_issuer_allowed),
        DESK_TEST(the_issuer_may_allow_refreshes_for_longer_than_one_token_lives),
        DESK_TEST(a_refresh_follows_the_deadline_of_the_lease),
        DESK_TEST(a_lease_in_its_last_second_gets_no_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
