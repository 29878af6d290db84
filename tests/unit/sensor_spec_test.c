/* Descriptions of sensors: what is taken, what is filled in, what is refused and with which words. */
#include "unit/unit.h"

#include <signal.h>

#include "process/sensor_spec.h"

static struct sensor_spec *parse(const char *json) {
    struct sensor_defaults defaults = sensor_defaults_make();
    struct sensor_spec *spec = NULL;
    char reason[SENSOR_REASON_MAX] = "";
    if (!sensor_spec_parse(tn_bytes_of(json, strlen(json)), &defaults, &spec, reason)) {
        fail_msg("%s: %s", json, reason);
    }
    return spec;
}

static void the_least_is_a_command(void **state) {
    (void)state;
    struct sensor_spec *spec = parse("{\"command\":[\"true\"]}");
    assert_int_equal(spec->argc, 1);
    assert_string_equal(spec->argv[0], "true");
    assert_null(spec->argv[1]);
    assert_int_equal(spec->envc, 0);
    assert_null(spec->env[0]);
    assert_string_equal(spec->cwd, "/");
    assert_null(spec->user);
    assert_null(spec->group);
    for (int i = 0; i < SENSOR_LIMITS; i++) {
        assert_true(spec->limits[i] == SENSOR_UNLIMITED);
    }
    assert_int_equal(spec->stop_ms, 30000);
    assert_int_equal(spec->settle_ms, 5000);
    assert_int_equal(spec->max_restarts, 10);
    assert_int_equal(spec->backoff_ms, 1000);
    assert_int_equal(spec->backoff_max_ms, 60000);
    assert_int_equal(spec->stable_ms, 60000);
    assert_int_equal(spec->token_ttl_s, 90 * 86400);
    assert_string_equal(spec->token_env, "TENURE_TOKEN");
    assert_string_equal(spec->scope, "sensor");
    assert_int_equal(spec->log_bytes, 1048576);
    assert_int_equal(spec->log_files, 5);
    assert_int_equal(spec->health, SENSOR_HEALTH_NONE);
    sensor_spec_free(spec);
}

static void everything_can_be_said(void **state) {
    (void)state;
    struct sensor_spec *spec = parse(
        "{\"command\":[\"/usr/bin/env\",\"\",\"caf\\u00e9\"],\"env\":{\"A\":\"1\",\"B\":\"\"},"
        "\"cwd\":\"/srv\",\"user\":\"u\",\"group\":\"g\",\"limits\":{\"nofile\":1,"
        "\"memory_bytes\":2,\"cpu_seconds\":3,\"processes\":4,\"file_bytes\":0,\"core_bytes\":0},"
        "\"stop_seconds\":0.1,\"settle_seconds\":0,\"max_restarts\":0,\"backoff_seconds\":0.25,"
        "\"backoff_max_seconds\":2,\"stable_seconds\":1.5,\"token_env\":\"ATTUNE_API_TOKEN\","
        "\"token_ttl_seconds\":60,\"scope\":\"sensor read\",\"health\":{\"command\":[\"/bin/true\"],"
        "\"interval_seconds\":0.5,\"timeout_seconds\":0.2,\"threshold\":7,\"start_seconds\":3},"
        "\"log_bytes\":4096,\"log_files\":1,\"containment\":\"cgroup\",\"stop_order\":\"exit_first\"}");
    assert_true(spec->exit_first);
    assert_int_equal(spec->containment, SENSOR_CONTAINMENT_CGROUP);
    assert_int_equal(spec->argc, 3);
    assert_string_equal(spec->argv[1], "");
    assert_string_equal(spec->argv[2], "caf\303\251");
    assert_int_equal(spec->envc, 2);
    assert_string_equal(spec->env[0], "A=1");
    assert_string_equal(spec->env[1], "B=");
    assert_null(spec->env[2]);
    assert_string_equal(spec->cwd, "/srv");
    assert_string_equal(spec->user, "u");
    assert_string_equal(spec->group, "g");
    static const uint64_t limits[SENSOR_LIMITS] = {1, 2, 3, 4, 0, 0};
    assert_memory_equal(spec->limits, limits, sizeof limits);
    assert_int_equal(spec->stop_ms, 100);
    assert_int_equal(spec->settle_ms, 0);
    assert_int_equal(spec->max_restarts, 0);
    assert_int_equal(spec->backoff_ms, 250);
    assert_int_equal(spec->backoff_max_ms, 2000);
    assert_int_equal(spec->stable_ms, 1500);
    assert_string_equal(spec->token_env, "ATTUNE_API_TOKEN");
    assert_int_equal(spec->token_ttl_s, 60);
    assert_string_equal(spec->scope, "sensor read");
    assert_int_equal(spec->health, SENSOR_HEALTH_COMMAND);
    assert_string_equal(spec->health_argv[0], "/bin/true");
    assert_null(spec->health_argv[1]);
    assert_int_equal(spec->health_interval_ms, 500);
    assert_int_equal(spec->health_timeout_ms, 200);
    assert_int_equal(spec->health_threshold, 7);
    assert_int_equal(spec->health_start_ms, 3000);
    assert_int_equal(spec->log_bytes, 4096);
    assert_int_equal(spec->log_files, 1);
    sensor_spec_free(spec);
}

static void health_is_one_of_three(void **state) {
    (void)state;
    struct sensor_spec *spec =
        parse("{\"command\":[\"a\"],\"health\":{\"http\":\"http://127.0.0.1:9000/healthz\"}}");
    assert_int_equal(spec->health, SENSOR_HEALTH_HTTP);
    assert_string_equal(spec->health_url, "http://127.0.0.1:9000/healthz");
    assert_int_equal(spec->health_interval_ms, 10000);
    assert_int_equal(spec->health_timeout_ms, 5000);
    assert_int_equal(spec->health_threshold, 3);
    sensor_spec_free(spec);
    spec = parse("{\"command\":[\"a\"],\"health\":{\"heartbeat\":true}}");
    assert_int_equal(spec->health, SENSOR_HEALTH_HEARTBEAT);
    sensor_spec_free(spec);
}

static void settings_fill_in_what_is_not_said(void **state) {
    struct sensor_defaults defaults = sensor_defaults_make();
    static const char json[] = "{\"command\":[\"a\"],\"stop_seconds\":1}";
    struct sensor_spec *spec = NULL;
    char reason[SENSOR_REASON_MAX];
    (void)state;
    defaults.stop_ms = 7;
    defaults.settle_ms = 8;
    defaults.token_env = "ATTUNE_API_TOKEN";
    defaults.scope = "a b";
    defaults.log_files = 9;
    defaults.containment = SENSOR_CONTAINMENT_NONE;
    assert_true(sensor_spec_parse(tn_bytes_of(json, strlen(json)), &defaults, &spec, reason));
    assert_int_equal(spec->stop_ms, 1000);
    assert_int_equal(spec->settle_ms, 8);
    assert_string_equal(spec->token_env, "ATTUNE_API_TOKEN");
    assert_string_equal(spec->scope, "a b");
    assert_int_equal(spec->log_files, 9);
    assert_int_equal(spec->containment, SENSOR_CONTAINMENT_NONE);
    sensor_spec_free(spec);
}

static void another_stop_order_is_refused(void **state) {
    static const char *const others[] = {"\"kill_first\"", "\"\"", "true", "null"};
    struct sensor_defaults defaults = sensor_defaults_make();
    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct sensor_spec *spec = NULL;
        char json[128];
        char reason[SENSOR_REASON_MAX];
        (void)snprintf(json, sizeof json, "{\"command\":[\"/a\"],\"stop_order\":%s}", others[i]);
        assert_false(sensor_spec_parse(tn_bytes_of(json, strlen(json)), &defaults, &spec, reason));
        assert_string_equal(reason, "stop_order must be revoke_first or exit_first");
    }
}

static void rules_can_be_followed_by_a_signal(void **state) {
    static const struct {
        const char *word;
        int number;
    } cases[] = {{"none", 0},  {"HUP", SIGHUP}, {"USR1", SIGUSR1}, {"USR2", SIGUSR2},
                 {"KILL", -1}, {"SIGHUP", -1},  {"", -1}};
    struct sensor_defaults defaults = sensor_defaults_make();
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sensor_spec *spec = NULL;
        char json[128];
        char reason[SENSOR_REASON_MAX];
        (void)snprintf(json, sizeof json, "{\"command\":[\"/a\"],\"rules_signal\":\"%s\"}",
                       cases[i].word);
        bool good = sensor_spec_parse(tn_bytes_of(json, strlen(json)), &defaults, &spec, reason);
        assert_int_equal(good, cases[i].number >= 0);
        if (good) {
            assert_int_equal(spec->rules_signal, cases[i].number);
        } else {
            assert_string_equal(reason, "rules_signal must be none, HUP, USR1 or USR2");
        }
        sensor_spec_free(spec);
    }
}

static void what_is_wrong_is_refused_with_its_name(void **state) {
    static const struct {
        const char *json, *reason;
    } cases[] = {
        {"", "it is not JSON"},
        {"[]", "it must be a JSON object"},
        {"{\"command\":[\"a\"]} x", "it is not JSON"},
        {"{\"command\":[\"a\"],\"command\":[\"b\"]}", "it is not JSON: duplicate"},
        {"{}", "command is missing"},
        {"{\"command\":[]}", "command must be an array of 1 to 64 strings"},
        {"{\"command\":\"a\"}", "command must be an array"},
        {"{\"command\":[1]}", "command must be an array of strings"},
        {"{\"command\":[\"\"]}", "command must begin with an absolute path"},
        {"{\"command\":[\"./a\"]}", "command must begin with an absolute path"},
        {"{\"command\":[\"a\\u0000b\"]}", "it is not JSON"},
        {"{\"command\":[\"a\"],\"comand\":1}", "unknown member: comand"},
        {"{\"command\":[\"a\"],\"env\":[]}", "env must be an object"},
        {"{\"command\":[\"a\"],\"env\":{\"A\":1}}", "env must be an object of strings"},
        {"{\"command\":[\"a\"],\"env\":{\"A=B\":\"\"}}", "env has a name"},
        {"{\"command\":[\"a\"],\"env\":{\"\":\"\"}}", "env has a name"},
        {"{\"command\":[\"a\"],\"cwd\":\"tmp\"}", "cwd must be an absolute path"},
        {"{\"command\":[\"a\"],\"cwd\":\"\"}", "cwd must have 1 to"},
        {"{\"command\":[\"a\"],\"user\":7}", "user must be a string"},
        {"{\"command\":[\"a\"],\"limits\":7}", "limits must be an object"},
        {"{\"command\":[\"a\"],\"limits\":{\"memory\":7}}", "limits has an unknown member: memory"},
        {"{\"command\":[\"a\"],\"limits\":{\"nofile\":0}}", "nofile must be a whole number from 1"},
        {"{\"command\":[\"a\"],\"limits\":{\"nofile\":-1}}", "nofile must be a whole number"},
        {"{\"command\":[\"a\"],\"limits\":{\"nofile\":1.5}}", "nofile must be a whole number"},
        {"{\"command\":[\"a\"],\"stop_seconds\":-1}", "stop_seconds must be seconds"},
        {"{\"command\":[\"a\"],\"stop_seconds\":\"1.5h\"}", "stop_seconds must be seconds"},
        {"{\"command\":[\"a\"],\"stop_seconds\":\"\"}", "stop_seconds must be seconds"},
        {"{\"command\":[\"a\"],\"stop_seconds\":\"9999d\"}", "stop_seconds must be seconds"},
        {"{\"command\":[\"a\"],\"stop_seconds\":1e300}", "stop_seconds must be seconds"},
        {"{\"command\":[\"a\"],\"backoff_seconds\":0}",
         "backoff_seconds must be seconds, or a string such as 15m or 12h, from 0.01"},
        {"{\"command\":[\"a\"],\"backoff_seconds\":9,\"backoff_max_seconds\":8}",
         "backoff_max_seconds is less than backoff_seconds"},
        {"{\"command\":[\"a\"],\"max_restarts\":0.5}", "max_restarts must be a whole number"},
        {"{\"command\":[\"a\"],\"token_env\":\"1A\"}", "token_env must be a name"},
        {"{\"command\":[\"a\"],\"token_env\":\"A B\"}", "token_env must be a name"},
        {"{\"command\":[\"a\"],\"token_ttl_seconds\":0}", "token_ttl_seconds must be seconds"},
        {"{\"command\":[\"a\"],\"log_bytes\":1}", "log_bytes must be a whole number from 4096"},
        {"{\"command\":[\"a\"],\"containment\":\"jail\"}", "containment must be auto, pidns"},
        {"{\"command\":[\"a\"],\"containment\":1}", "containment must be auto, pidns"},
        {"{\"command\":[\"a\"],\"log_files\":0}", "log_files must be a whole number from 1"},
        {"{\"command\":[\"a\"],\"health\":{}}", "health must have one of"},
        {"{\"command\":[\"a\"],\"health\":{\"interval_seconds\":1}}", "health must have one of"},
        {"{\"command\":[\"a\"],\"health\":{\"heartbeat\":false}}", "health heartbeat can only be"},
        {"{\"command\":[\"a\"],\"health\":{\"heartbeat\":true,\"command\":[\"b\"]}}",
         "health can be one of"},
        {"{\"command\":[\"a\"],\"health\":{\"http\":\"https://a/\"}}", "health http must be"},
        {"{\"command\":[\"a\"],\"health\":{\"http\":\"http://\"}}", "health http must be"},
        {"{\"command\":[\"a\"],\"health\":{\"http\":\"http://a/\\r\\n\"}}", "health http has a"},
        {"{\"command\":[\"a\"],\"health\":{\"heartbeat\":true,\"threshold\":0}}",
         "threshold must be"},
        {"{\"command\":[\"a\"],\"health\":{\"ping\":true}}", "health has an unknown member: ping"},
    };
    struct sensor_defaults defaults = sensor_defaults_make();
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sensor_spec *spec = NULL;
        char reason[SENSOR_REASON_MAX] = "";
        bool good = sensor_spec_parse(tn_bytes_of(cases[i].json, strlen(cases[i].json)), &defaults,
                                      &spec, reason);
        if (good || spec != NULL ||
            strncmp(reason, cases[i].reason, strlen(cases[i].reason)) != 0) {
            fail_msg("%s: \"%s\" instead of \"%s\"", cases[i].json, reason, cases[i].reason);
        }
    }
}

static void as_many_as_are_allowed_fit(void **state) {
    static char json[16384];
    struct sensor_defaults defaults = sensor_defaults_make();
    struct sensor_spec *spec = NULL;
    char reason[SENSOR_REASON_MAX];
    (void)state;
    for (int over = 0; over < 2; over++) {
        size_t len = (size_t)snprintf(json, sizeof json, "{\"env\":{");
        for (int i = 0; i < (int)SENSOR_ENV_MAX + over; i++) {
            len += (size_t)snprintf(json + len, sizeof json - len, "%s\"V%d\":\"%d\"",
                                    i == 0 ? "" : ",", i, i);
        }
        len += (size_t)snprintf(json + len, sizeof json - len, "},\"command\":[\"a\"");
        for (int i = 1; i < (int)SENSOR_ARGS_MAX; i++) {
            len += (size_t)snprintf(json + len, sizeof json - len, ",\"%d\"", i);
        }
        len += (size_t)snprintf(json + len, sizeof json - len, "]}");
        assert_int_equal(sensor_spec_parse(tn_bytes_of(json, len), &defaults, &spec, reason),
                         over == 0);
        if (over == 0) {
            assert_string_equal(spec->env[SENSOR_ENV_MAX - 1], "V255=255");
            assert_string_equal(spec->argv[SENSOR_ARGS_MAX - 1], "63");
            sensor_spec_free(spec);
        }
    }
    sensor_spec_free(NULL);
}

static void the_token_replaces_no_variable_that_is_needed(void **state) {
    static const char *const taken[] = {"PATH",
                                        "HOME",
                                        "USER",
                                        "LOGNAME",
                                        "LANG",
                                        "TZ",
                                        "LC_ALL",
                                        "LD_PRELOAD",
                                        "TENURE_RUN_ID",
                                        "TENURE_TOKEN_FILE",
                                        "TENURE_TOKEN_ENV",
                                        "TENURE_API_URL"};
    static const char *const good[] = {"TENURE_TOKEN", "ATTUNE_API_TOKEN", "PATHS", "_", "LDX"};
    (void)state;
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        assert_non_null(sensor_variable_fault(taken[i]));
    }
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_null(sensor_variable_fault(good[i]));
    }
    struct sensor_defaults defaults = sensor_defaults_make();
    struct sensor_spec *spec = NULL;
    char reason[SENSOR_REASON_MAX];
    static const char json[] = "{\"command\":[\"a\"],\"token_env\":\"PATH\"}";
    assert_false(sensor_spec_parse(tn_bytes_of(json, strlen(json)), &defaults, &spec, reason));
    assert_non_null(strstr(reason, "token_env must not be a variable that the server sets"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_token_replaces_no_variable_that_is_needed),
        cmocka_unit_test(the_least_is_a_command),
        cmocka_unit_test(everything_can_be_said),
        cmocka_unit_test(health_is_one_of_three),
        cmocka_unit_test(settings_fill_in_what_is_not_said),
        cmocka_unit_test(another_stop_order_is_refused),
        cmocka_unit_test(rules_can_be_followed_by_a_signal),
        cmocka_unit_test(what_is_wrong_is_refused_with_its_name),
        cmocka_unit_test(as_many_as_are_allowed_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
