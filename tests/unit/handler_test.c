/* The row owns the command: what the server does for a command follows from its row, and every row has
 * its handler. */
#include "server/handler.h"

#include "unit/unit.h"

#include "protocol/table.h"

static void every_row_has_exactly_one_handler_and_it_is_of_the_rows_kind(void **state) {
    (void)state;
    for (uint32_t i = 0; i < PROTOCOL_COMMANDS; i++) {
        const struct protocol_command *row = &protocol_table[i];
        const struct server_handler *handler = &server_handlers[i];
        int handlers = (handler->session != NULL) + (handler->read != NULL) +
                       (handler->write != NULL) + (handler->job != NULL);
        bool fits = (row->kind == PROTOCOL_CONNECTION && handler->session != NULL) ||
                    (row->kind == PROTOCOL_READ && handler->read != NULL) ||
                    (row->kind == PROTOCOL_WRITE && handler->write != NULL) ||
                    (row->kind == PROTOCOL_JOB && handler->job != NULL);
        if (handlers != 1 || !fits) {
            fail_msg("%s %s: %d handlers, of its kind: %d", row->word, row->sub, handlers, fits);
        }
        assert_true(handler->committed == NULL || row->kind == PROTOCOL_WRITE);
    }
}

static bool form_binds(const struct protocol_form *form, enum protocol_bind bind) {
    for (uint32_t i = 0; i < form->count; i++) {
        if (form->arguments[i].bind == bind) {
            return true;
        }
    }
    return false;
}

static bool binds(const struct protocol_command *row, enum protocol_bind bind) {
    return form_binds(&row->form, bind);
}

/* Access judges what the subject names, so the arguments must name it. */
static bool subject_fits(const struct protocol_command *row) {
    switch (row->subject) {
    case PROTOCOL_OF_NONE:
        return !binds(row, PROTOCOL_B_POOL) && !binds(row, PROTOCOL_B_FROM) &&
               !binds(row, PROTOCOL_B_CLAIM) && !binds(row, PROTOCOL_B_LEASE) &&
               !binds(row, PROTOCOL_B_TARGET) && !binds(row, PROTOCOL_B_HOLDER) &&
               !binds(row, PROTOCOL_B_VALUE) && !binds(row, PROTOCOL_B_TOKEN_ID) &&
               (!binds(row, PROTOCOL_B_NAME) || binds(row, PROTOCOL_B_BEARER));
    case PROTOCOL_OF_POOL:
        return binds(row, PROTOCOL_B_POOL) || binds(row, PROTOCOL_B_FROM) ||
               binds(row, PROTOCOL_B_CLAIM) || binds(row, PROTOCOL_B_VALUE);
    case PROTOCOL_OF_LEASE:
        return binds(row, PROTOCOL_B_LEASE) || binds(row, PROTOCOL_B_TARGET) ||
               binds(row, PROTOCOL_B_TOKEN_ID);
    case PROTOCOL_OF_RULE:
    case PROTOCOL_OF_SENSOR:
        return binds(row, PROTOCOL_B_NAME);
    case PROTOCOL_OF_MANY:
        return binds(row, PROTOCOL_B_HOLDER);
    case PROTOCOL_OF_ALL:
        return row->role == PROTOCOL_ADMIN;
    case PROTOCOL_OF_LIST:
        return row->kind == PROTOCOL_READ;
    default:
        return false;
    }
}

static void every_row_has_a_subject_and_its_arguments_name_it(void **state) {
    (void)state;
    for (uint32_t i = 0; i < PROTOCOL_COMMANDS; i++) {
        if (!subject_fits(&protocol_table[i])) {
            fail_msg("%s %s: subject %u", protocol_table[i].word, protocol_table[i].sub,
                     protocol_table[i].subject);
        }
    }
}

/* What only an administrator may do is about everything, or about what it names: unless it is one of these, an
 * administrator that is limited to some pools may not do it (PROTOCOL_OF_ALL). */
static bool limited_administrators_may(const struct protocol_command *row) {
    return row->id == PROTOCOL_CLIENT_KILL || row->id == PROTOCOL_CLIENT_LIST ||
           row->id == PROTOCOL_SNAPSHOT || row->id == PROTOCOL_TICK;
}

static void no_row_for_administrators_is_open_to_limited_ones_by_mistake(void **state) {
    (void)state;
    for (uint32_t i = 0; i < PROTOCOL_COMMANDS; i++) {
        const struct protocol_command *row = &protocol_table[i];
        if (row->role == PROTOCOL_ADMIN && row->subject == PROTOCOL_OF_NONE &&
            !limited_administrators_may(row)) {
            fail_msg("%s %s: its subject should be ALL", row->word, row->sub);
        }
    }
}

static bool has(const struct protocol_command *row, enum protocol_trait trait) {
    return protocol_command_has(row, trait);
}

/* "a implies b". */
static bool implies(bool a, bool b) {
    return !a || b;
}

static bool traits_fit(const struct protocol_command *row) {
    bool session = row->kind == PROTOCOL_CONNECTION;
    bool read = row->kind == PROTOCOL_READ;
    bool write = row->kind == PROTOCOL_WRITE;
    return implies(has(row, PROTOCOL_LONG), session || read) &&
           implies(has(row, PROTOCOL_SLICED), read && has(row, PROTOCOL_LONG)) &&
           implies(has(row, PROTOCOL_QUICK), session) &&
           implies(has(row, PROTOCOL_SUBSCRIBER), session) &&
           implies(has(row, PROTOCOL_PUBSUB), has(row, PROTOCOL_SUBSCRIBER)) &&
           implies(has(row, PROTOCOL_AFTER_MULTI), session) &&
           implies(has(row, PROTOCOL_DERIVES),
                   write && binds(row, PROTOCOL_B_HOLDER) && binds(row, PROTOCOL_B_META)) &&
           implies(has(row, PROTOCOL_DISABLES), write) &&
           implies(has(row, PROTOCOL_PROGRAMS), write && row->role == PROTOCOL_ADMIN) &&
           implies(has(row, PROTOCOL_OWN_LEASE), row->subject == PROTOCOL_OF_LEASE) &&
           implies(has(row, PROTOCOL_STATE_ONLY), read && row->subject == PROTOCOL_OF_SENSOR) &&
           implies(has(row, PROTOCOL_CLI), session) &&
           implies(binds(row, PROTOCOL_B_SECRET), has(row, PROTOCOL_SECRETS)) &&
           implies(has(row, PROTOCOL_WATCH), has(row, PROTOCOL_CLI));
}

static bool claims(const struct protocol_command *row) {
    return binds(row, PROTOCOL_B_AMOUNT) || binds(row, PROTOCOL_B_CLAIM);
}

/* What the reply of a write has beside the lease. */
static bool reply_fits(const struct protocol_command *row) {
    bool write = row->kind == PROTOCOL_WRITE;
    return (write && claims(row)) == has(row, PROTOCOL_GRANTS) &&
           (write && binds(row, PROTOCOL_B_BEARER)) == has(row, PROTOCOL_EMITS) &&
           implies(row->number != NULL,
                   write && !has(row, PROTOCOL_GRANTS) && !has(row, PROTOCOL_EMITS));
}

static void the_reply_of_every_row_agrees_with_what_it_asks_for(void **state) {
    unsigned numbers = 0;
    (void)state;
    for (uint32_t i = 0; i < PROTOCOL_COMMANDS; i++) {
        const struct protocol_command *row = &protocol_table[i];
        numbers += row->number != NULL;
        if (!reply_fits(row)) {
            fail_msg("%s %s: number %s, traits %x", row->word, row->sub,
                     row->number != NULL ? row->number : "none", row->traits);
        }
    }
    assert_int_equal(numbers, 4); /* DISOWN, POOL ADD, POOL REMOVE, SWEEP */
}

static void a_family_is_searched_for_a_trait(void **state) {
    (void)state;
    assert_true(protocol_family_has(tn_bytes_of("user", 4), PROTOCOL_SECRETS));
    assert_true(protocol_family_has(tn_bytes_of("AUTH", 4), PROTOCOL_SECRETS));
    assert_false(protocol_family_has(tn_bytes_of("UNSUBSCRIBE", 11), PROTOCOL_SECRETS));
    assert_false(protocol_family_has(tn_bytes_of("USERS", 5), PROTOCOL_SECRETS));
    assert_false(protocol_family_has(tn_bytes_of("", 0), PROTOCOL_SECRETS));
    assert_false(protocol_family_has(tn_bytes_of("\xff", 1), PROTOCOL_SECRETS));
}

static bool has_argument(const struct protocol_command *row, const char *name) {
    for (uint32_t i = 0; i < row->form.count; i++) {
        if (strcmp(row->form.arguments[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Commands about the connection bind nothing, so those with a password are known by its name. */
static void every_row_with_a_secret_says_so(void **state) {
    unsigned secrets = 0;
    (void)state;
    for (uint32_t i = 0; i < PROTOCOL_COMMANDS; i++) {
        const struct protocol_command *row = &protocol_table[i];
        if (has_argument(row, "password") || has_argument(row, "secret")) {
            secrets += has(row, PROTOCOL_SECRETS);
            assert_true(has(row, PROTOCOL_SECRETS));
        }
    }
    assert_int_equal(secrets, 3); /* AUTH, USER ADD and USER SET; HELLO takes any words */
}

/* A row has settings for HTTP only where there is a route to which they apply. */
static bool routes_fit(const struct protocol_command *row) {
    bool routed = row->method != NULL;
    return implies(has(row, PROTOCOL_CREATES), routed && strcmp(row->method, "PUT") == 0) &&
           implies(has(row, PROTOCOL_STREAM), routed && strcmp(row->method, "GET") == 0) &&
           implies(has(row, PROTOCOL_BEARER), routed && binds(row, PROTOCOL_B_TOKEN)) &&
           implies(has(row, PROTOCOL_ENVELOPE),
                   row->also_method != NULL && row->also_form.count > 0) &&
           implies(row->also_method != NULL, routed) &&
           implies(row->also_form.count > 0, row->also_method != NULL) &&
           implies(row->kind == PROTOCOL_CONNECTION, !routed);
}

static void the_traits_of_every_row_agree_with_its_kind_forms_and_routes(void **state) {
    (void)state;
    for (uint32_t i = 0; i < PROTOCOL_COMMANDS; i++) {
        const struct protocol_command *row = &protocol_table[i];
        if (!traits_fit(row) || !routes_fit(row)) {
            fail_msg("%s %s: traits %x", row->word, row->sub, row->traits);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_has_exactly_one_handler_and_it_is_of_the_rows_kind),
        cmocka_unit_test(every_row_has_a_subject_and_its_arguments_name_it),
        cmocka_unit_test(no_row_for_administrators_is_open_to_limited_ones_by_mistake),
        cmocka_unit_test(every_row_with_a_secret_says_so),
        cmocka_unit_test(the_reply_of_every_row_agrees_with_what_it_asks_for),
        cmocka_unit_test(a_family_is_searched_for_a_trait),
        cmocka_unit_test(the_traits_of_every_row_agree_with_its_kind_forms_and_routes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
