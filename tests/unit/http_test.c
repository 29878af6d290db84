/* Requests of HTTP as words: tables of method, path, query and body, and what comes of them; every
 * command that has a route is in one. What the words are is then parsed as any others. */
#include "unit/unit.h"

#include "protocol/http.h"
#include "protocol/parse.h"
#include "protocol/walk.h"

#define ARGS 64u
#define QUERY 8u

/* ---- Routes ---- */

static const struct {
    const char *method, *path;
    enum protocol_route_code code;
    const char *want; /* the command and its parameters, or the methods */
} routes[] = {
    {"POST", "/v1/pools/ports/leases", PROTOCOL_ROUTE_OK, "ALLOC pool=ports"},
    {"POST", "/v1/pools/console-ports@node7/leases", PROTOCOL_ROUTE_OK,
     "ALLOC pool=console-ports@node7"},
    {"POST", "/v1/pools/a%3Ab%40c/leases", PROTOCOL_ROUTE_OK, "ALLOC pool=a:b@c"},
    {"POST", "/v1/leases", PROTOCOL_ROUTE_OK, "ALLOC other"},
    {"GET", "/v1/leases", PROTOCOL_ROUTE_OK, "LEASES"},
    {"HEAD", "/v1/leases", PROTOCOL_ROUTE_OK, "LEASES"},
    {"GET", "/v1/leases/0-7", PROTOCOL_ROUTE_OK, "LEASE lease=0-7"},
    {"DELETE", "/v1/leases/0-7", PROTOCOL_ROUTE_OK, "RELEASE lease=0-7"},
    {"GET", "/v1/pools/ports/values/30000/lease", PROTOCOL_ROUTE_OK,
     "LEASE pool=ports value=30000"},
    {"POST", "/v1/holders/job%2f42/disown", PROTOCOL_ROUTE_OK, "DISOWN holder=job/42"},
    {"GET", "/%76%31/pools", PROTOCOL_ROUTE_OK, "POOL LIST"},
    {"PUT", "/v1/leases", PROTOCOL_ROUTE_NO_METHOD, "POST, GET, HEAD"},
    {"POST", "/v1/pools/p", PROTOCOL_ROUTE_NO_METHOD, "PATCH, PUT, DELETE, GET, HEAD"},
    {"get", "/v1/leases", PROTOCOL_ROUTE_NO_METHOD, "POST, GET, HEAD"},
    {"", "/v1/sweep", PROTOCOL_ROUTE_NO_METHOD, "POST"},
    {"GET", "/", PROTOCOL_ROUTE_NO_PATH, ""},
    {"GET", "", PROTOCOL_ROUTE_NO_PATH, ""},
    {"GET", "/v1", PROTOCOL_ROUTE_NO_PATH, ""},
    {"GET", "v1/leases", PROTOCOL_ROUTE_NO_PATH, ""},
    {"GET", "/v1/leases/", PROTOCOL_ROUTE_NO_PATH, ""},
    {"GET", "/v1//leases", PROTOCOL_ROUTE_NO_PATH, ""},
    {"GET", "/v1/leases/0-7/x", PROTOCOL_ROUTE_NO_PATH, ""},
    {"GET", "/v1/pools/job/42/disown", PROTOCOL_ROUTE_NO_PATH, ""},
    {"GET", "/V1/leases", PROTOCOL_ROUTE_NO_PATH, ""},
    {"GET", "/a/a/a/a/a/a/a/a/a/a", PROTOCOL_ROUTE_NO_PATH, ""},
    {"GET", "/v1/pools/%", PROTOCOL_ROUTE_BAD_PATH, ""},
    {"GET", "/v1/pools/a%4", PROTOCOL_ROUTE_BAD_PATH, ""},
    {"GET", "/v1/pools/a%zz", PROTOCOL_ROUTE_BAD_PATH, ""},
};

static struct tn_bytes bytes(const char *text) {
    return tn_bytes_of(text, strlen(text));
}

static void each_path_finds_what_the_table_says(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        struct protocol_route route;
        char allow[PROTOCOL_ALLOW_MAX];
        char name[PROTOCOL_NAME_MAX];
        char seen[256];
        size_t len = strlen(routes[i].path);
        uint8_t *scratch = malloc(len + 1);
        assert_non_null(scratch);
        enum protocol_route_code code = protocol_route_find(
            bytes(routes[i].method), bytes(routes[i].path), scratch, len, &route, allow);
        assert_int_equal(code, routes[i].code);
        if (code == PROTOCOL_ROUTE_OK) {
            protocol_command_name(route.row, name);
            int at = snprintf(seen, sizeof seen, "%s%s", name,
                              route.form == &route.row->other ? " other" : "");
            for (uint32_t p = 0; p < route.param_count; p++) {
                at += snprintf(seen + at, sizeof seen - (size_t)at, " %.*s=%.*s",
                               (int)route.params[p].name.len, route.params[p].name.at,
                               (int)route.params[p].value.len, route.params[p].value.at);
            }
            assert_string_equal(seen, routes[i].want);
            if (len > 0) { /* one byte less than the path may not do, and is not written past */
                (void)protocol_route_find(bytes(routes[i].method), bytes(routes[i].path), scratch,
                                          0, &route, allow);
            }
        } else if (code == PROTOCOL_ROUTE_NO_METHOD) {
            assert_string_equal(allow, routes[i].want);
        }
        free(scratch);
    }
}

static void a_route_that_does_not_fit_is_a_bad_path(void **state) {
    struct protocol_route route;
    char allow[PROTOCOL_ALLOW_MAX];
    uint8_t scratch[8];
    (void)state;
    assert_int_equal(protocol_route_find(bytes("GET"), bytes("/v1/pools/ports"), scratch,
                                         sizeof scratch, &route, allow),
                     PROTOCOL_ROUTE_BAD_PATH);
}

/* The path of each row, with its parameters as written there, leads back to the row. */
static void every_route_of_the_table_leads_to_its_row(void **state) {
    (void)state;
    for (unsigned i = 0; i < 2 * PROTOCOL_COMMANDS; i++) {
        const struct protocol_command *row = &protocol_table[i / 2];
        const char *method = i % 2 == 0 ? row->method : row->also_method;
        const char *path = i % 2 == 0 ? row->path : row->also_path;
        struct protocol_route route;
        char allow[PROTOCOL_ALLOW_MAX];
        uint8_t scratch[256];
        if (method == NULL) {
            continue;
        }
        assert_int_equal(
            protocol_route_find(bytes(method), bytes(path), scratch, sizeof scratch, &route, allow),
            PROTOCOL_ROUTE_OK);
        assert_ptr_equal(route.row, row);
        assert_ptr_equal(route.form, protocol_command_form(row, i % 2 == 1));
        assert_true(route.param_count <= PROTOCOL_PARAMS_MAX);
    }
}

/* ---- Words ---- */

struct request {
    const char *method, *target, *body;
    enum tn_result code;
    const char *want; /* words with bars between them, or the detail */
    const char *opid;
};

/* name=value&name=value, without any encoding. */
static uint32_t query_split(const char *text, struct protocol_query query[QUERY]) {
    uint32_t count = 0;
    while (text != NULL && *text != '\0') {
        size_t len = strcspn(text, "&");
        size_t name = strcspn(text, "=&");
        assert_true(count < QUERY);
        query[count].name = tn_bytes_of(text, name);
        query[count++].value =
            name < len ? tn_bytes_of(text + name + 1, len - name - 1) : tn_bytes_of(text, 0);
        text += len + (text[len] == '&');
    }
    return count;
}

static enum tn_result ask(const struct request *request, char seen[512],
                          const struct protocol_command **ret_row) {
    static uint8_t decoded[256];
    static uint8_t nested[4096];
    static struct protocol_call call;
    struct protocol_query query[QUERY];
    struct protocol_route route;
    struct tn_bytes argv[ARGS];
    char allow[PROTOCOL_ALLOW_MAX];
    char detail[PROTOCOL_DETAIL];
    uint32_t argc = 0;
    size_t path = strcspn(request->target, "?");
    const char *rest = request->target[path] == '?' ? request->target + path + 1 : "";
    struct protocol_http http = {.query = query,
                                 .query_count = query_split(rest, query),
                                 .body = bytes(request->body != NULL ? request->body : ""),
                                 .opid = bytes(request->opid != NULL ? request->opid : "")};
    size_t room = http.body.len + strlen(rest) + 256;
    uint8_t *scratch = malloc(room);
    assert_non_null(scratch);
    assert_int_equal(protocol_route_find(bytes(request->method), tn_bytes_of(request->target, path),
                                         decoded, sizeof decoded, &route, allow),
                     PROTOCOL_ROUTE_OK);
    *ret_row = route.row;
    enum tn_result code =
        protocol_http_words(&route, &http, scratch, room, argv, ARGS, &argc, detail);
    (void)snprintf(seen, 512, "%s", detail);
    if (code == TN_R_OK) {
        int at = 0;
        for (uint32_t i = 0; i < argc; i++) {
            at += snprintf(seen + at, 512 - (size_t)at, "%s%.*s", i > 0 ? "|" : "",
                           (int)argv[i].len, argv[i].at);
        }
        int32_t arity = protocol_command_arity(route.row);
        assert_true(arity > 0 ? argc == (uint32_t)arity : argc >= (uint32_t)-arity);
        if (route.row->kind != PROTOCOL_CONNECTION) {
            enum tn_result parsed =
                protocol_call_parse(route.row, argv, argc, nested, sizeof nested, &call);
            if (parsed != TN_R_OK) {
                (void)snprintf(seen, 512, "%s", call.detail);
            }
            code = parsed;
        }
    }
    free(scratch);
    return code;
}

static const struct request good[] = {
    {"POST", "/v1/leases/0-7/ack", "{\"holder\":\"h\",\"epoch\":1}", .want = "ACK|0-7|h|1"},
    {"POST", "/v1/leases/0-7/activate", " { \"epoch\" : \"1\" , \"holder\" : \"h\" } ",
     .want = "ACTIVATE|0-7|h|1"},
    {"POST", "/v1/pools/ports/leases", "{\"holder\":\"job/42\"}", .want = "ALLOC|ports|job/42"},
    {"POST", "/v1/pools/ports/leases",
     "{\"ttl\":60,\"count\":2,\"holder\":\"job/42\",\"meta\":{\"a\":[1.10,{}]}}",
     .want = "ALLOC|ports|job/42|COUNT|2|TTL|60|META|{\"a\":[1.10,{}]}"},
    {"POST", "/v1/pools/ports/leases",
     "{\"holder\":\"h\",\"values\":[30000,\"30001\"],\"meta\":\"{}\",\"ttl\":null}",
     .want = "ALLOC|ports|h|VALUES|2|30000|30001|META|{}"},
    {"POST", "/v1/pools/ports/leases?values=1&values=2&ttl=5", "{\"holder\":\"h\"}",
     .want = "ALLOC|ports|h|VALUES|2|1|2|TTL|5"},
    {"POST", "/v1/pools/p/leases", "{\"holder\":\"\\u00e9\\ud83d\\ude00\\n\\/\"}",
     .code = TN_R_BAD_NAME, .want = "the holder: it contains control characters"},
    {"POST", "/v1/pools/p/leases", "{\"hold\\u0065r\":\"\\u00e9\\ud83d\\ude00\\/\"}",
     .want = "ALLOC|p|\xc3\xa9\xf0\x9f\x98\x80/"},
    {"POST", "/v1/leases",
     "{\"holder\":\"job/42\",\"from\":[{\"pool\":\"ports\",\"count\":2},{\"values\":[\"gpu-7\"],"
     "\"pool\":\"gpus\"}],\"ttl\":\"60\"}",
     .want = "ALLOC|job/42|FROM|ports|COUNT|2|FROM|gpus|VALUES|1|gpu-7|TTL|60"},
    {"POST", "/v1/leases", "{\"holder\":\"from\",\"from\":[{\"pool\":\"p\",\"count\":1}]}",
     .want = "ALLOC|from|FROM|p|COUNT|1"},
    {"POST", "/v1/reservations",
     "{\"holder\":\"h\",\"ttl\":30,\"from\":[{\"pool\":\"p\",\"count\":1}]}",
     .want = "RESERVE|h|TTL|30|FROM|p|COUNT|1"},
    {"POST", "/v1/leases/0-7/touch", "{\"epoch\":18446744073709551615,\"meta\":{}}",
     .want = "TOUCH|0-7|18446744073709551615|META|{}"},
    {"POST", "/v1/leases/0-7/release", "{\"holder\":\"h\",\"epoch\":1,\"now\":true}",
     .want = "RELEASE|0-7|h|1|NOW"},
    {"DELETE", "/v1/leases/0-7?holder=h&epoch=1&now", .want = "RELEASE|0-7|h|1|NOW"},
    {"DELETE", "/v1/leases/0-7?holder=h&epoch=1&now=false", .want = "RELEASE|0-7|h|1"},
    {"POST", "/v1/leases/0-7/revoke", "", .want = "REVOKE|0-7"},
    {"POST", "/v1/leases/0-7/revoke", "{\"after\":30}", .want = "REVOKE|0-7|AFTER|30",
     .opid = NULL},
    {"POST", "/v1/leases/0-7/revoke", "{}", .want = "REVOKE|0-7|OPID|op-1", .opid = "op-1"},
    {"POST", "/v1/leases/0-7/reclaim", "{\"opid\":\"op-1\"}", .want = "RECLAIM|0-7|OPID|op-1"},
    {"POST", "/v1/leases/0-7/rekey", "{\"epoch\":1,\"holder\":\"new\"}", .want = "REKEY|0-7|1|new"},
    {"POST", "/v1/holders/job%2F42/disown", "{\"pool\":\"ports\"}",
     .want = "DISOWN|job/42|POOL|ports"},
    {"POST", "/v1/sweep", "{\"pool\":\"p\"}", .want = "SWEEP|POOL|p"},
    {"POST", "/v1/tick", "", .want = "TICK"},
    {"POST", "/v1/snapshot", "{}", .want = "SNAPSHOT"},
    {"GET", "/v1/cluster/nodes", "", .want = "NODE|LIST"},
    {"POST", "/v1/cluster/step-down", "{}", .want = "NODE|STEP-DOWN"},
    {"POST", "/v1/cluster/close", "", .want = "NODE|CLOSE"},
    {"DELETE", "/v1/cluster/nodes/n3", "", .want = "NODE|FORGET|n3"},
    {"POST", "/v1/leases/0-7/token", "{\"epoch\":1,\"ttl\":60,\"scope\":\"a b\",\"fence\":9}",
     .want = "TOKEN|ISSUE|0-7|1|TTL|60|SCOPE|a b|FENCE|9"},
    {"POST", "/auth/sensor-token", "{\"ref\":\"s1\"}", .want = "TOKEN|SENSOR|s1"},
    {"POST", "/auth/refresh", "{\"token\":\"a.b.c\"}", .want = "TOKEN|REFRESH|a.b.c"},
    {"POST", "/v1/events/emit",
     "{\"token\":\"a.b.c\",\"trigger_type\":\"core.timer\",\"payload\":{\"n\":1}}", .opid = "o",
     .want = "EMIT|a.b.c|core.timer|PAYLOAD|{\"n\":1}|OPID|o"},
    {"POST", "/v1/events/emit?token=a.b.c", "{\"trigger_type\":\"core.timer\"}",
     .want = "EMIT|a.b.c|core.timer"},
    {"POST", "/api/v1/events?token=a.b.c",
     "{\"trigger_ref\":\"core.timer\",\"payload\":{\"n\":1},\"trigger_instance_id\":\"rule_7\"}",
     .want = "EMIT|a.b.c|core.timer|PAYLOAD|{\"n\":1}"},
    {"POST", "/api/v1/auth/refresh", "{\"token\":\"a.b.c\"}", .want = "TOKEN|REFRESH|a.b.c"},
    {"POST", "/auth/introspect", "{\"token\":\"a.b.c\",\"fence\":3}",
     .want = "TOKEN|INTROSPECT|a.b.c|FENCE|3"},
    {"POST", "/auth/revoke/0-7.1", "", .opid = "o", .want = "TOKEN|REVOKE|0-7.1|OPID|o"},
    {"DELETE", "/auth/token/0-7.1?after=9", .want = "TOKEN|REVOKE|0-7.1|AFTER|9"},
    {"POST", "/auth/rotate", "{\"now\":true}", .want = "TOKEN|ROTATE|NOW"},
    {"GET", "/.well-known/jwks.json", .want = "TOKEN|KEYS"},
    {"GET", "/v1/leases/0-7/verify?epoch=1&fence=9", .want = "VERIFY|0-7|1|FENCE|9"},
    {"GET", "/v1/leases/0-7", .want = "LEASE|0-7", .opid = "reads ignore it"},
    {"GET", "/v1/leases/ports%2F30000?fence=3", .want = "LEASE|ports/30000|FENCE|3"},
    {"GET", "/v1/pools/mac/values/52:54:00:00:00:01/lease", .want = "LEASE|mac/52:54:00:00:00:01"},
    {"GET", "/v1/pools/gpus/values/a%2Fb/lease", .want = "LEASE|gpus/a/b"},
    {"GET", "/v1/pools/gpus/values?state=cooling&count=5",
     .want = "POOL|VALUES|gpus|STATE|cooling|COUNT|5"},
    {"GET", "/v1/pools/gpus/values/a%2Fb", .want = "VALUE|gpus/a/b"},
    {"GET", "/v1/leases?pool=p&holder=job/42&state=active&cursor=7&count=10&fence=1",
     .want = "LEASES|POOL|p|HOLDER|job/42|STATE|active|CURSOR|7|COUNT|10|FENCE|1"},
    {"PUT", "/v1/pools/ports",
     "{\"range\":[30000,\"30009\"],\"lease\":60,\"sticky\":false,\"strategy\":\"random\"}",
     .want = "POOL|CREATE|ports|RANGE|30000|30009|lease|60|sticky|no|strategy|random"},
    {"PUT", "/v1/pools/ids",
     "{\"range\":{\"hi\":\"9\",\"lo\":1},\"exclude\":[[2,3],[\"5\",\"6\"]],\"sticky\":true,"
     "\"lease\":5,\"high_rate_min_factor\":0.2}",
     .want = "POOL|CREATE|ids|RANGE|1|9|exclude|2-3,5-6|sticky|yes|lease|5|"
             "high_rate_min_factor|0.2"},
    {"PUT", "/v1/pools/gpus", "{\"set\":true,\"opid\":\"o\"}",
     .want = "POOL|CREATE|gpus|SET|OPID|o"},
    {"PUT", "/v1/pools/p?lease=60&lo=1&hi=5", "{\"exclude\":\"2-3\"}",
     .want = "POOL|CREATE|p|lease|60|lo|1|hi|5|exclude|2-3"},
    {"PATCH", "/v1/pools/ports", "{\"lease\":120,\"grace\":null,\"exclude\":[]}",
     .want = "POOL|ALTER|ports|lease|120|exclude|"},
    {"DELETE", "/v1/pools/ports", .want = "POOL|DROP|ports"},
    {"GET", "/v1/pools/ports", .want = "POOL|INFO|ports"},
    {"GET", "/v1/pools?count=5", .want = "POOL|LIST|COUNT|5"},
    {"GET", "/v1/pools/devices/metrics", .want = "POOL|METRICS|devices"},
    {"GET", "/v1/pools/ports/history?step=hour&count=24",
     .want = "POOL|HISTORY|ports|STEP|hour|COUNT|24"},
    {"POST", "/v1/pools/ports/imports",
     "{\"holder\":\"h\",\"values\":[30007],\"created\":1700000000000,\"deadline\":\"1800000000000\"}",
     .want = "IMPORT|ports|h|VALUES|1|30007|DEADLINE|1800000000000|CREATED|1700000000000"},
    {"POST", "/v1/pools/ports/seed", "{\"given\":8}", .want = "POOL|SEED|ports|GIVEN|8"},
    {"POST", "/v1/pools/gpus/resources", "{\"names\":[\"gpu-1\",\"gpu-2\"]}",
     .want = "POOL|ADD|gpus|gpu-1|gpu-2"},
    {"POST", "/v1/pools/gpus/resources", "{\"name\":\"gpu-1\"}",
     .want = "POOL|ADD|gpus|gpu-1|OPID|x", .opid = "x"},
    {"DELETE", "/v1/pools/gpus/resources?name=a&name=b", .want = "POOL|REMOVE|gpus|a|b"},
    {"PUT", "/v1/rules/r1", "{\"trigger\":\"core.timer\",\"disabled\":true}",
     .want = "RULE|SET|r1|core.timer|DISABLED"},
    {"DELETE", "/v1/rules/r1", .want = "RULE|DELETE|r1"},
    {"POST", "/v1/rules/r1/enable", "", .want = "RULE|ENABLE|r1"},
    {"POST", "/v1/rules/r1/disable", "", .want = "RULE|DISABLE|r1"},
    {"GET", "/v1/rules?cursor=3", .want = "RULE|LIST|CURSOR|3"},
    {"PUT", "/v1/sensors/s1", "{\"trigger\":\"t\",\"spec\":{\"command\":[\"/bin/true\"]}}",
     .want = "SENSOR|SET|s1|t|{\"command\":[\"/bin/true\"]}"},
    {"DELETE", "/v1/sensors/s1", .want = "SENSOR|DELETE|s1"},
    {"POST", "/v1/sensors/s1/enable", "", .want = "SENSOR|ENABLE|s1"},
    {"POST", "/v1/sensors/s1/disable", "", .want = "SENSOR|DISABLE|s1"},
    {"GET", "/v1/sensors/s1", .want = "SENSOR|INFO|s1"},
    {"GET", "/v1/sensors", .want = "SENSOR|LIST"},
    {"GET", "/v1/sensors/s1/status", .want = "SENSOR|STATUS|s1"},
    {"GET", "/api/v1/sensors/s1/status?fence=7", .want = "SENSOR|STATUS|s1|FENCE|7"},
    {"GET", "/v1/sensors/s1/logs?after=3.4096&count=100",
     .want = "SENSOR|LOGS|s1|AFTER|3.4096|COUNT|100"},
    {"POST", "/v1/sensors/s1/reset", "", .want = "SENSOR|RESET|s1"},
    {"POST", "/v1/sensors/s1/restart", "{}", .want = "SENSOR|RESTART|s1"},
    {"GET", "/v1/rules/r1?fence=3", .want = "RULE|INFO|r1|FENCE|3"},
    {"GET", "/v1/sensors/s1/rules?token=a.b.c&cursor=5&count=9",
     .want = "SENSOR|RULES|s1|a.b.c|CURSOR|5|COUNT|9"},
    {"POST", "/v1/sensors/heartbeat?token=a.b.c", "", .want = "SENSOR|HEARTBEAT|a.b.c"},
    {"GET", "/v1/sensors/heartbeat", .want = "SENSOR|INFO|heartbeat"},
    {"PUT", "/v1/users/ci",
     "{\"role\":\"holder\",\"secret\":\"s\",\"pools\":\"a b-*\",\"max_values\":7}",
     .want = "USER|ADD|ci|ROLE|holder|SECRET|s|POOLS|a b-*|MAX_VALUES|7"},
    {"PATCH", "/v1/users/ci", "{\"holders\":\"*\"}", .want = "USER|SET|ci|HOLDERS|*"},
    {"DELETE", "/v1/users/ci", .want = "USER|DELETE|ci"},
    {"GET", "/v1/users?count=5", .want = "USER|LIST|COUNT|5"},
    {"GET", "/v1/whoami", .want = "WHOAMI"},
    {"GET", "/v1/events?after=7.0&count=5&pool=p&holder=job/1&fence=3",
     .want = "EVENTS|AFTER|7.0|COUNT|5|POOL|p|HOLDER|job/1|FENCE|3"},
};

static void each_request_becomes_the_words_that_the_table_says(void **state) {
    bool covered[PROTOCOL_COMMANDS] = {false};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        const struct protocol_command *row;
        char seen[512];
        enum tn_result code = ask(&good[i], seen, &row);
        assert_string_equal(seen, good[i].want);
        assert_int_equal(code, good[i].code);
        covered[row->id] = true;
    }
    for (unsigned i = 0; i < PROTOCOL_COMMANDS; i++) {
        if (protocol_table[i].method != NULL && !covered[i]) {
            fail_msg("nothing asks for %s %s", protocol_table[i].word, protocol_table[i].sub);
        }
    }
}

#define HOLDER "{\"holder\":\"h\","

static const struct request bad[] = {
    {"POST", "/v1/events/emit", "{\"trigger_type\":\"t\"}", .code = TN_R_BAD_TOKEN,
     .want = "no token: the header Authorization: Bearer is missing"},
    {"POST", "/v1/events/emit", "{\"token\":\"a.b.c\"}", .want = "trigger_type is missing"},
    {"POST", "/api/v1/events", "{\"token\":\"a.b.c\",\"trigger_type\":\"t\"}",
     .want = "unknown field 'trigger_type'"},
    {"POST", "/v1/events/emit", "{\"token\":\"a.b.c\",\"trigger_ref\":\"t\"}",
     .want = "unknown field 'trigger_ref'"},
    {"POST", "/v1/pools/p/leases", "", .want = "holder is missing"},
    {"PUT", "/v1/users/u?secret=s", "{\"role\":\"reader\"}",
     .want = "secret: send it in the body, not in the URL"},
    {"PUT", "/v1/users/u", "{\"role\":\"reader\",\"secret\":\"s\",\"pools\":\" ,\"}",
     .want = "POOLS: it contains no pattern; use * for all"},
    {"POST", "/v1/pools/p/leases", "{\"holder\":null}", .want = "holder is missing"},
    {"POST", "/v1/pools/p/leases", "[]", .want = "the body: it is not a JSON object"},
    {"POST", "/v1/pools/p/leases", "{} x", .want = "the body: it is not valid JSON"},
    {"POST", "/v1/pools/p/leases", "{\"holder\":\"\xff\"}",
     .want = "the body: it is not valid UTF-8"},
    {"POST", "/v1/pools/p/leases", HOLDER "\"meta\":{\"a\":[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]}}",
     .want = "the body: it is nested more than 16 levels deep"},
    {"POST", "/v1/pools/p/leases", "{\"holder\":\"h\",\"what\":1}", .want = "unknown field 'what'"},
    {"POST", "/v1/pools/p/leases?what=1", "{\"holder\":\"h\"}", .want = "unknown field 'what'"},
    {"POST", "/v1/pools/p/leases", HOLDER "\"from\":[]}", .want = "unknown field 'from'"},
    {"POST", "/v1/pools/p/leases", HOLDER "\"Holder\":\"x\"}", .want = "unknown field 'Holder'"},
    {"POST", "/v1/pools/p/leases", HOLDER "\"holder\":\"x\"}", .want = "holder is repeated"},
    {"POST", "/v1/pools/p/leases?holder=x", HOLDER "\"ttl\":1}", .want = "holder is repeated"},
    {"POST", "/v1/pools/p/leases?holder=x&holder=y", "", .want = "holder is repeated"},
    {"POST", "/v1/pools/p/leases", HOLDER "\"pool\":\"q\"}", .want = "pool is repeated"},
    {"POST", "/v1/pools/p/leases", HOLDER "\"opid\":\"a\"}", .want = "opid is repeated",
     .opid = "b"},
    {"POST", "/v1/pools/p/leases", HOLDER "\"count\":1,\"values\":[1]}",
     .want = "count and values exclude each other"},
    {"POST", "/v1/pools/p/leases", HOLDER "\"count\":0}", .want = "COUNT must be at least 1"},
    {"POST", "/v1/pools/p/leases", HOLDER "\"count\":[1]}",
     .want = "count: a number or a string is needed"},
    {"POST", "/v1/pools/p/leases", HOLDER "\"values\":7}", .want = "values: an array is needed"},
    {"POST", "/v1/pools/p/leases", HOLDER "\"values\":[]}", .want = "VALUES must be at least 1"},
    {"POST", "/v1/pools/p/leases", HOLDER "\"values\":[[1]]}",
     .want = "values: a number or a string is needed"},
    {"POST", "/v1/pools/p/leases", HOLDER "\"ttl\":-1}",
     .want = "TTL: '-1' is not a whole number of seconds, or one with a unit: 90s, 15m, 12h, 30d"},
    {"POST", "/v1/pools/p/leases", HOLDER "\"ttl\":1.5}",
     .want = "TTL: '1.5' is not a whole number of seconds, or one with a unit: 90s, 15m, 12h, 30d"},
    {"POST", "/v1/pools/p/leases", HOLDER "\"ttl\":true}",
     .want = "ttl: a number or a string is needed"},
    {"POST", "/v1/pools/p/leases", "{\"holder\":42}", .want = "holder: a string is needed"},
    {"POST", "/v1/pools/p/leases", "{\"holder\":\"a\\u0000\"}",
     .want = "holder: it contains a NUL or an incomplete character"},
    {"POST", "/v1/pools/p/leases", "{\"holder\":\"\\ud800\"}",
     .want = "holder: it contains a NUL or an incomplete character"},
    {"POST", "/v1/pools/p/leases", "{\"holder\":\"\\udc00\\ud800\"}",
     .want = "holder: it contains a NUL or an incomplete character"},
    {"POST", "/v1/pools/p/leases", "{\"holder\":\"From\"}",
     .want = "holder: it cannot be FROM here"},
    {"POST", "/v1/pools/p/leases", HOLDER "\"meta\":[1]}", .want = "meta: a string is needed"},
    {"POST", "/v1/pools/p/leases", HOLDER "\"meta\":\"[1]\"}",
     .want = "META: it is not a JSON object"},
    {"POST", "/v1/pools/p/imports", "{\"holder\":\"h\"}", .want = "values is missing"},
    {"POST", "/v1/pools/p/imports", HOLDER "\"count\":1}", .want = "unknown field 'count'"},
    {"POST", "/v1/leases", "{\"holder\":\"h\"}", .want = "from is missing"},
    {"POST", "/v1/leases?from=p", "{\"holder\":\"h\"}", .want = "from: it must be in the body"},
    {"POST", "/v1/leases", HOLDER "\"from\":{}}", .want = "from: an array is needed"},
    {"POST", "/v1/leases", HOLDER "\"from\":[]}", .want = "from: at least 1 item is needed"},
    {"POST", "/v1/leases", HOLDER "\"from\":[1]}", .want = "from: an array of objects is needed"},
    {"POST", "/v1/leases", HOLDER "\"from\":[{\"count\":1}]}", .want = "from: pool is missing"},
    {"POST", "/v1/leases", HOLDER "\"from\":[{\"pool\":\"p\"}]}",
     .want = "from: each item needs either count or values"},
    {"POST", "/v1/leases", HOLDER "\"from\":[{\"pool\":\"p\",\"n\":1}]}",
     .want = "from: unknown field 'n'"},
    {"POST", "/v1/leases", HOLDER "\"from\":[{\"pool\":\"p\",\"pool\":\"q\"}]}",
     .want = "from: pool is repeated"},
    {"POST", "/v1/leases", HOLDER "\"from\":[{\"pool\":1,\"count\":1}]}",
     .want = "from: pool: a string is needed"},
    {"DELETE", "/v1/leases/0-7?holder=h", .want = "epoch is missing"},
    {"DELETE", "/v1/leases/0-7?holder=h&epoch=1&now=maybe", .want = "now: true or false is needed"},
    {"POST", "/v1/leases/0-7/release", "{\"holder\":\"h\",\"epoch\":1,\"now\":1}",
     .want = "now: true or false is needed"},
    {"GET", "/v1/leases/x", .want = "'x' is not a lease id such as 0-1042"},
    {"GET", "/v1/pools/a%2Fb/values/1/lease", .want = "pool: it contains a slash"},
    {"GET", "/v1/leases?count=0", .want = "COUNT must be at least 1"},
    {"GET", "/v1/leases?opid=x", .want = "unknown field 'opid'"},
    {"PUT", "/v1/pools/p", "{\"range\":5}", .want = "range: [lo, hi] is needed"},
    {"PUT", "/v1/pools/p", "{\"range\":[1]}", .want = "range: [lo, hi] is needed"},
    {"PUT", "/v1/pools/p", "{\"range\":[1,2,3]}", .want = "range: [lo, hi] is needed"},
    {"PUT", "/v1/pools/p", "{\"range\":{\"lo\":1,\"lo\":2}}", .want = "range: [lo, hi] is needed"},
    {"PUT", "/v1/pools/p?range=1", "", .want = "range: LO-HI or ADDRESS/BITS is needed"},
    {"PUT", "/v1/pools/p", "{\"exclude\":[5]}", .want = "exclude: [lo, hi] is needed"},
    {"PUT", "/v1/pools/p", "{\"exclude\":[[true,2]]}",
     .want = "exclude: a number or a string is needed"},
    {"PUT", "/v1/pools/p", "{\"set\":1}", .want = "set: true or false is needed"},
    {"PUT", "/v1/pools/p", "{\"RANGE\":\"1\"}", .want = "unknown option 'RANGE'"},
    {"PUT", "/v1/pools/p", "{\"OPID\":\"1\"}", .want = "unknown option 'OPID'"},
    {"PUT", "/v1/pools/p", "{\"lease\":5,\"lease\":6}", .want = "lease is repeated"},
    {"PUT", "/v1/pools/p?lease=5", "{\"lease\":6}", .want = "lease is repeated"},
    {"PUT", "/v1/pools/p?lease=5&lease=6", "", .want = "lease is repeated"},
    {"PUT", "/v1/pools/p", "{\"lease\":{}}",
     .want = "lease: a string, a number, true or false is needed"},
    {"PUT", "/v1/pools/p", "{\"colour\":\"red\"}", .code = TN_R_BAD_POLICY,
     .want = "unknown option 'colour'"},
    {"POST", "/v1/pools/g/resources", "{}", .want = "names is missing"},
    {"POST", "/v1/pools/g/resources", "{\"names\":[]}", .want = "names: at least 1 name is needed"},
    {"POST", "/v1/pools/g/resources", "{\"names\":[\"a\",\"opid\",\"b\"]}",
     .want = "names: a name cannot be OPID"},
    {"POST", "/v1/pools/g/resources", "{\"names\":7}", .want = "names: a string is needed"},
    {"POST", "/v1/pools/g/resources?name=a", "{\"names\":[\"b\"]}", .want = "names is repeated"},
    {"PUT", "/v1/sensors/s", "{\"trigger\":\"t\",\"spec\":[]}", .want = "spec: a string is needed"},
    {"POST", "/v1/snapshot", "{\"x\":1}", .want = "unknown field 'x'"},
};

static void each_fault_is_named(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const struct protocol_command *row;
        char seen[512];
        enum tn_result code = ask(&bad[i], seen, &row);
        assert_string_equal(seen, bad[i].want);
        assert_int_equal(code, bad[i].code != 0 ? bad[i].code : TN_R_MALFORMED);
    }
}

static void what_does_not_fit_is_too_large(void **state) {
    static const char body[] = "{\"names\":[\"a\",\"b\",\"c\",\"d\"]}";
    struct protocol_query many[PROTOCOL_QUERY_MAX + 1];
    struct protocol_route route;
    struct tn_bytes argv[16];
    char allow[PROTOCOL_ALLOW_MAX];
    char detail[PROTOCOL_DETAIL];
    uint8_t decoded[64];
    uint8_t scratch[64];
    uint32_t argc = 99;
    (void)state;
    assert_int_equal(protocol_route_find(bytes("POST"), bytes("/v1/pools/g/resources"), decoded,
                                         sizeof decoded, &route, allow),
                     PROTOCOL_ROUTE_OK);
    struct protocol_http http = {.body = bytes(body)};
    assert_int_equal(
        protocol_http_words(&route, &http, scratch, sizeof scratch, argv, 6, &argc, detail),
        TN_R_TOO_LARGE);
    assert_int_equal(protocol_http_words(&route, &http, scratch, 3, argv, 16, &argc, detail),
                     TN_R_TOO_LARGE);
    assert_int_equal(argc, 99);
    for (uint32_t i = 0; i < PROTOCOL_QUERY_MAX + 1; i++) {
        many[i] = (struct protocol_query){.name = bytes("name"), .value = bytes("x")};
    }
    http = (struct protocol_http){.query = many, .query_count = PROTOCOL_QUERY_MAX + 1};
    assert_int_equal(
        protocol_http_words(&route, &http, scratch, sizeof scratch, argv, 16, &argc, detail),
        TN_R_TOO_LARGE);
}

/* ---- Walking ---- */

static void a_walk_sees_every_value_whole(void **state) {
    static const char text[] =
        " { \"a\" : [ 1 , { } , \"]\\\"\" ] , \"b\":-1.5e3,\"c\":null,\"\":{\"d\":[[]]} } ";
    static const char *const want[] = {
        "\"a\"",       "[ 1 , { } , \"]\\\"\" ]", "\"b\"", "-1.5e3", "\"c\"", "null", "\"\"",
        "{\"d\":[[]]}"};
    struct protocol_walk walk = protocol_walk_of(bytes(text));
    struct tn_bytes key;
    struct tn_bytes value;
    unsigned i = 0;
    (void)state;
    while (protocol_walk_next(&walk, &key, &value)) {
        assert_true(i + 1 < sizeof want / sizeof want[0]);
        assert_true(tn_bytes_equal(key, bytes(want[i])));
        assert_true(tn_bytes_equal(value, bytes(want[i + 1])));
        i += 2;
    }
    assert_int_equal(i, sizeof want / sizeof want[0]);
    assert_false(protocol_walk_next(&walk, &key, &value));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_path_finds_what_the_table_says),
        cmocka_unit_test(a_route_that_does_not_fit_is_a_bad_path),
        cmocka_unit_test(every_route_of_the_table_leads_to_its_row),
        cmocka_unit_test(each_request_becomes_the_words_that_the_table_says),
        cmocka_unit_test(each_fault_is_named),
        cmocka_unit_test(what_does_not_fit_is_too_large),
        cmocka_unit_test(a_walk_sees_every_value_whole),
    };
    return cmocka_run_group_tests_name("http", tests, NULL, NULL);
}
