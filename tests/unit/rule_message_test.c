/* Messages about rules: what is understood, as what, and what is not. */
#include "unit/unit.h"

#include "broker/broker.h"
#include "broker/rule_message.h"

static struct tn_bytes text(const char *s) {
    return tn_bytes_of(s, strlen(s));
}

static const char *parse(const char *key, const char *body, struct rule_message *message) {
    return rule_message_parse(text(body), text(key), message);
}

static void assert_bytes(struct tn_bytes bytes, const char *expected) {
    assert_int_equal(bytes.len, strlen(expected));
    assert_memory_equal(bytes.at, expected, bytes.len);
}

/* The verb, then name, trigger and whether it is enabled; NULL and -1: not in the command. */
static void messages_become_commands(void **state) {
    static const struct {
        const char *key, *body;
        enum kernel_verb verb;
        const char *name, *trigger;
        int enabled;
    } rows[] = {
        {"", "{\"event_type\":\"RuleCreated\",\"rule_id\":1,\"trigger_ref\":\"t\"}",
         KERNEL_VERB_RULE_SET, "1", "t", 1},
        {"rule.created", "{\"rule_id\":1,\"trigger_type\":\"t\",\"enabled\":false}",
         KERNEL_VERB_RULE_SET, "1", "t", 0},
        {"rule.created", "{\"rule_id\":1,\"trigger_id\":7,\"enabled\":null}", KERNEL_VERB_RULE_SET,
         "1", "7", 1},
        /* The id goes before the ref, the trigger's ref before its type before its id. */
        {"rule.created",
         "{\"rule_ref\":\"r\",\"rule_id\":\"18446744073709551615\",\"trigger_id\":1,"
         "\"trigger_type\":\"y\",\"trigger_ref\":\"x\"}",
         KERNEL_VERB_RULE_SET, "18446744073709551615", "x", 1},
        {"rule.created",
         "{\"rule_id\":null,\"rule_ref\":\"r\",\"trigger_ref\":null,"
         "\"trigger_type\":\"y\",\"trigger_id\":2}",
         KERNEL_VERB_RULE_SET, "r", "y", 1},
        /* What is enabled and names its trigger is set as a whole. */
        {"rule.enabled", "{\"rule_id\":1,\"trigger_ref\":\"t\",\"enabled\":false}",
         KERNEL_VERB_RULE_SET, "1", "t", 1},
        {"rule.disabled", "{\"rule_id\":1,\"trigger_ref\":\"t\"}", KERNEL_VERB_RULE_SET, "1", "t",
         0},
        {"rule.enabled", "{\"rule_id\":1}", KERNEL_VERB_RULE_ENABLE, "1", NULL, 1},
        {"rule.disabled", "{\"rule_id\":1}", KERNEL_VERB_RULE_ENABLE, "1", NULL, 0},
        {"rule.deleted", "{\"rule_id\":1,\"trigger_ref\":\"t\"}", KERNEL_VERB_RULE_DELETE, "1",
         NULL, -1},
        /* The body's word goes before the key's; keys may have more in front. */
        {"rule.created", "{\"event_type\":\"RuleDeleted\",\"rule_id\":1}", KERNEL_VERB_RULE_DELETE,
         "1", NULL, -1},
        {"attune.eu.rule.deleted", "{\"rule_id\":1}", KERNEL_VERB_RULE_DELETE, "1", NULL, -1},
        /* Envelopes. */
        {"x",
         "{\"message_type\":\"RuleEnabled\",\"version\":\"1.0\",\"rule_id\":9,"
         "\"payload\":{\"rule_id\":1}}",
         KERNEL_VERB_RULE_ENABLE, "1", NULL, 1},
        {"rule.enabled",
         "{\"payload\":{\"event_type\":\"RuleDisabled\",\"rule_id\":1,"
         "\"trigger_params\":{\"rule_id\":[{}]}}}",
         KERNEL_VERB_RULE_ENABLE, "1", NULL, 0},
        {"rule.enabled", "{\"payload\":null,\"rule_id\":1}", KERNEL_VERB_RULE_ENABLE, "1", NULL, 1},
        {"rule.enabled", "{\"rule_ref\":\"caf\\u00e9 \\\"1\\\"\"}", KERNEL_VERB_RULE_ENABLE,
         "caf\303\251 \"1\"", NULL, 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct rule_message message;
        assert_null(parse(rows[i].key, rows[i].body, &message));
        struct kernel_command command = rule_message_command(&message);
        assert_int_equal(command.verb, rows[i].verb);
        assert_bytes(command.name, rows[i].name);
        assert_int_equal((command.fields & KERNEL_F_TRIGGER) != 0, rows[i].trigger != NULL);
        assert_int_equal((command.fields & KERNEL_F_ENABLED) != 0, rows[i].enabled >= 0);
        if (rows[i].trigger != NULL) {
            assert_bytes(command.trigger, rows[i].trigger);
        }
        if (rows[i].enabled >= 0) {
            assert_int_equal(command.enabled, rows[i].enabled);
        }
        uint8_t encoded[1024];
        assert_true(kernel_command_encode(&command, encoded, sizeof encoded) > 0);
    }
}

static void parameters_become_metadata(void **state) {
    static const struct {
        const char *key, *body, *meta;
    } rows[] = {
        {"rule.created", "{\"rule_id\":1,\"trigger_ref\":\"t\",\"trigger_params\":{\"a\": [1]}}",
         "{\"a\": [1]}"},
        {"rule.created",
         "{\"payload\":{\"rule_id\":1,\"trigger_ref\":\"t\",\"trigger_params\":{}}}", "{}"},
        {"rule.enabled", "{\"rule_id\":1,\"trigger_ref\":\"t\",\"trigger_params\":{\"b\":2}}",
         "{\"b\":2}"},
        {"rule.created", "{\"rule_id\":1,\"trigger_ref\":\"t\",\"trigger_params\":null}", NULL},
        {"rule.created", "{\"rule_id\":1,\"trigger_ref\":\"t\"}", NULL},
        /* Without a trigger the rule is only enabled; a deleted one has no use for them. */
        {"rule.enabled", "{\"rule_id\":1,\"trigger_params\":{\"b\":2}}", NULL},
        {"rule.deleted", "{\"rule_id\":1,\"trigger_ref\":\"t\",\"trigger_params\":{}}", NULL},
    };
    struct rule_message message;
    char body[KERNEL_META_MAX + 128];
    uint8_t encoded[2 * KERNEL_META_MAX];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_null(parse(rows[i].key, rows[i].body, &message));
        struct kernel_command command = rule_message_command(&message);
        assert_int_equal((command.fields & KERNEL_F_META) != 0, rows[i].meta != NULL);
        if (rows[i].meta != NULL) {
            assert_bytes(command.meta, rows[i].meta);
        }
    }
    for (unsigned more = 0; more < 2; more++) { /* the longest metadata, and one byte longer */
        (void)snprintf(body, sizeof body,
                       "{\"rule_id\":1,\"trigger_ref\":\"t\",\"trigger_params\":{\"x\":%*s}}",
                       (int)(KERNEL_META_MAX - 6 + more), "1");
        const char *fault = parse("rule.created", body, &message);
        assert_int_equal(fault == NULL, more == 0);
        if (fault == NULL) {
            struct kernel_command command = rule_message_command(&message);
            assert_int_equal(command.meta.len, KERNEL_META_MAX);
            assert_true(kernel_command_encode(&command, encoded, sizeof encoded) > 0);
        }
    }
}

static void what_is_not_understood_is_said(void **state) {
    static const struct {
        const char *key, *body;
    } rows[] = {
        {"rule.created", ""},
        {"rule.created", "[1]"},
        {"rule.created", "{\"rule_id\":1,\"trigger_ref\":\"t\"} x"},
        {"rule.created", "{\"rule_id\":1}"},                     /* of which trigger? */
        {"rule.created", "{\"trigger_ref\":\"t\"}"},             /* which rule? */
        {"rule.eaten", "{\"rule_id\":1,\"trigger_ref\":\"t\"}"}, /* what happened? */
        {"overrule.created", "{\"rule_id\":1,\"trigger_ref\":\"t\"}"},
        {"rule.created", "{\"event_type\":\"rule.created\",\"rule_id\":1,\"trigger_ref\":\"t\"}"},
        {"rule.created", "{\"event_type\":7,\"rule_id\":1,\"trigger_ref\":\"t\"}"},
        {"rule.created", "{\"rule_id\":-1,\"trigger_ref\":\"t\"}"},
        {"rule.created", "{\"rule_id\":1.0,\"trigger_ref\":\"t\"}"},
        {"rule.created", "{\"rule_id\":1e3,\"trigger_ref\":\"t\"}"},
        {"rule.created", "{\"rule_id\":18446744073709551616,\"trigger_ref\":\"t\"}"},
        {"rule.created", "{\"rule_id\":true,\"trigger_ref\":\"t\"}"},
        {"rule.created", "{\"rule_id\":\"\",\"trigger_ref\":\"t\"}"},
        {"rule.created", "{\"rule_id\":\"a\\u0000b\",\"trigger_ref\":\"t\"}"},
        {"rule.created", "{\"rule_id\":\"a\\nb\",\"trigger_ref\":\"t\"}"},
        {"rule.created", "{\"rule_id\":1,\"trigger_ref\":[]}"},
        {"rule.created", "{\"rule_id\":1,\"trigger_ref\":\"t\",\"enabled\":1}"},
        {"rule.created", "{\"rule_id\":1,\"rule_id\":2,\"trigger_ref\":\"t\"}"},
        {"rule.created", "{\"payload\":{\"rule_id\":1,\"rule_id\":1,\"trigger_ref\":\"t\"}}"},
        {"rule.created", "{\"rule_id\":1,\"payload\":{\"trigger_ref\":\"t\"}}"},
        {"rule.created", "{\"rule_id\":1,\"trigger_ref\":\"t\",\"trigger_params\":[1]}"},
        {"rule.created", "{\"rule_id\":1,\"trigger_ref\":\"t\",\"trigger_params\":\"{}\"}"},
    };
    struct rule_message message;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_non_null(parse(rows[i].key, rows[i].body, &message));
    }
    char name[2 * KERNEL_RULE_MAX];
    for (int more = 0; more < 2; more++) {
        snprintf(name, sizeof name, "{\"rule_id\":\"%0*d\"}", (int)KERNEL_RULE_MAX + more, 1);
        assert_int_equal(parse("rule.deleted", name, &message) == NULL, more == 0);
    }
    static uint8_t long_one[RULE_MESSAGE_MAX + 1];
    memset(long_one, ' ', sizeof long_one);
    long_one[0] = '{';
    long_one[sizeof long_one - 1] = '}';
    assert_string_equal(
        rule_message_parse(tn_bytes_of(long_one, sizeof long_one), text(""), &message),
        "it is too long");
}

static void a_message_has_the_id_of_its_envelope(void **state) {
    struct rule_message message;
    (void)state;
    assert_null(
        parse("rule.enabled", "{\"message_id\":\"m-1\",\"payload\":{\"rule_id\":1}}", &message));
    assert_bytes(tn_bytes_of(message.id, message.id_len), "m-1");
    assert_null(parse("rule.enabled", "{\"message_id\":12,\"rule_id\":1}", &message));
    assert_bytes(tn_bytes_of(message.id, message.id_len), "12");
    assert_null(parse("rule.enabled", "{\"message_id\":null,\"rule_id\":1}", &message));
    assert_int_equal(message.id_len, 0);
    assert_null(parse("rule.enabled", "{\"message_id\":{},\"rule_id\":1}", &message));
    assert_int_equal(message.id_len, 0);
}

static void a_long_id_is_hashed(void **state) {
    char out[KERNEL_OPID_MAX];
    char other[KERNEL_OPID_MAX];
    char id[200];
    (void)state;
    memset(id, 'x', sizeof id);
    assert_int_equal(rule_message_opid(tn_bytes_of(id, KERNEL_OPID_MAX), out), KERNEL_OPID_MAX);
    assert_memory_equal(out, id, KERNEL_OPID_MAX);
    assert_int_equal(rule_message_opid(tn_bytes_of(id, sizeof id), out), KERNEL_OPID_MAX);
    assert_memory_not_equal(out, id, KERNEL_OPID_MAX);
    id[sizeof id - 1] = 'y';
    assert_int_equal(rule_message_opid(tn_bytes_of(id, sizeof id), other), KERNEL_OPID_MAX);
    assert_memory_not_equal(out, other, KERNEL_OPID_MAX);
}

static void times_are_read(void **state) {
    static const struct {
        const char *text;
        uint64_t us; /* 0: not a time */
    } rows[] = {
        {"1970-01-01T00:00:01Z", 1000000},
        {"2000-02-29T12:34:56.5Z", 951827696500000},
        {"2026-03-01T00:00:00.123456789+00:00", 1772323200123456},
        {"2026-03-01T02:30:00+02:30", 1772323200000000},
        {"2026-02-28 19:00:00-0500", 1772323200000000},
        {"2026-12-31T23:59:60Z", 1798761600000000},
        {"2026-03-01T00:00:00", 0},
        {"2026-03-01", 0},
        {"2026-13-01T00:00:00Z", 0},
        {"2026-03-01T24:00:00Z", 0},
        {"2026-03-01T00:00:00.Z", 0},
        {"2026-03-01T00:00:00Zz", 0},
        {"1969-12-31T23:59:59Z", 0},
        {"1970-01-01T00:00:00+01:00", 0},
        {"", 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t us = 0;
        bool read = rule_message_time(text(rows[i].text), &us);
        assert_int_equal(read, rows[i].us > 0);
        if (read) {
            assert_int_equal(us, rows[i].us);
        }
    }
}

static void a_timestamp_may_be_a_number_and_is_never_a_mistake(void **state) {
    static const struct {
        const char *written;
        uint64_t us;
    } rows[] = {
        {"1772323200", 1772323200000000},
        {"1772323200123", 1772323200123000},
        {"1772323200123456", 1772323200123456},
        {"\"2026-03-01T00:00:00Z\"", 1772323200000000},
        {"\"yesterday\"", 0},
        {"18446744073709551615", 0},
        {"null", 0},
        {"{}", 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct rule_message message;
        char body[128];
        snprintf(body, sizeof body, "{\"timestamp\":%s,\"rule_id\":1}", rows[i].written);
        assert_null(parse("rule.enabled", body, &message));
        assert_int_equal(message.time_us, rows[i].us);
        struct kernel_command command = rule_message_command(&message);
        assert_int_equal((command.fields & KERNEL_F_EPOCH) != 0, rows[i].us > 0);
        assert_int_equal(command.epoch, rows[i].us);
    }
}

static void an_address_has_no_password(void **state) {
    struct broker_address address;
    char reason[BROKER_REASON_MAX];
    (void)state;
    assert_true(broker_address_parse("amqp://host", &address, reason));
    assert_false(address.tls);
    assert_int_equal(address.port, 5672);
    assert_string_equal(address.host, "host");
    assert_string_equal(address.vhost, "/");
    assert_string_equal(address.user, "guest");
    assert_true(broker_address_parse("amqp://me@host:5673/", &address, reason));
    assert_string_equal(address.vhost, "/");
    assert_true(broker_address_parse("amqps://me@[::1]:7000/a%2Fb", &address, reason));
    assert_true(address.tls);
    assert_int_equal(address.port, 7000);
    assert_string_equal(address.host, "::1");
    assert_string_equal(address.vhost, "a/b");
    assert_string_equal(address.user, "me");
    assert_false(broker_address_parse("amqp://me:secret@host", &address, reason));
    assert_null(strstr(reason, "secret"));
    assert_false(broker_address_parse("http://host", &address, reason));
    assert_false(broker_address_parse("amqp://host:70000", &address, reason));
    assert_false(broker_address_parse("", &address, reason));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_become_commands),
        cmocka_unit_test(parameters_become_metadata),
        cmocka_unit_test(what_is_not_understood_is_said),
        cmocka_unit_test(a_message_has_the_id_of_its_envelope),
        cmocka_unit_test(a_long_id_is_hashed),
        cmocka_unit_test(times_are_read),
        cmocka_unit_test(a_timestamp_may_be_a_number_and_is_never_a_mistake),
        cmocka_unit_test(an_address_has_no_password),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
