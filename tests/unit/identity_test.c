/* Holders derived from metadata. The vectors were computed by Python: json.dumps(sort_keys=True,
 * ensure_ascii=True) and hashlib.blake2b(digest_size=32), never by the code under test. */
#include "unit/unit.h"

#include "kernel/option.h"
#include "protocol/detail.h"
#include "protocol/identity.h"
#include "protocol/text.h"

static const struct {
    const char *meta;
    const char *holder;
} golden[] = {
    {"{\"device_key\": \"  mac:AA:BB:CC:DD:EE:01 \"}", "mac:AA:BB:CC:DD:EE:01"},
    {"{\"device_key\": 77, \"serial\": \"x\"}", "77"},
    {"{\"serial\": \"S1\", \"device_id\": \"D1\"}", "device_id:D1"},
    {"{\"device_id\": \"\", \"serial\": 0, \"mac\": \"aa:bb\", \"uuid\": \"u\"}", "mac:aa:bb"},
    {"{\"serial\": \"top\", \"device_meta\": {\"device_id\": \"inner\"}}", "device_id:inner"},
    {"{\"device_meta\": {\"uuid\": \"6f1c\"}}", "uuid:6f1c"},
    {"{\"device_meta\": \"text\", \"mac\": \"m\"}", "mac:m"},
    {"{\"serial\": \"sssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssss"
     "ssssssssssssssssssssssssssssssssssssssssssssssssssssssssss\"}",
     "serial:sssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssss"
     "ssssssssssssssssssssssssssssssssssssssssssssssssss"},
    {"{\"serial\": \"sssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssss"
     "sssssssssssssssssssssssssssssssssssssssssssssssssssssssssss\"}",
     "serial:b32f7663542da151da152eb61facb43de1b43ebd8cdec14580bd57b305113392"},
    {"{\"device_key\": \"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
     "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk\"}",
     "device_key:776d92f093f7e4810c504976de44505c7591dba8d38b255b81282be40c9004a0"},
    {"{\"serial\": \"Ger\303\244t\"}", "serial:Ger\303\244t"},
    {"{\"device_meta\": {\"b\": 1, \"a\": [true, false, null, {}, []], \"\303\251\":"
     " \"\360\237\230\200 \\\"q\\\" \\\\ / \\n\\u0007\\u007f\"}}",
     "meta:{\"a\": [true, false, null, {}, []], \"b\": 1, \"\\u00e9\": \"\\ud83d\\ud"
     "e00 \\\"q\\\" \\\\ / \\n\\u0007\\u007f\"}"},
    {"{\"b\": {\"y\": 1.5, \"x\": -0.25, \"z\": 1e22}, \"a\": 100000.0, \"c\": 1e-7,"
     " \"e\": 0.1, \"f\": -0.0, \"g\": 1E5}",
     "request:{\"a\": 100000.0, \"b\": {\"x\": -0.25, \"y\": 1.5, \"z\": 1e+22}, \"c"
     "\": 1e-07, \"e\": 0.1, \"f\": -0.0, \"g\": 100000.0}"},
    {"{\"d\": 123456789012345680.0, \"h\": [12.5, 1234.5678, 1e15, 1e16, 3.0e-5]}",
     "request:{\"d\": 1.2345678901234568e+17, \"h\": [12.5, 1234.5678, 1000000000000"
     "000.0, 1e+16, 3e-05]}"},
    {"{\"model\": \"x\", \"n\": -9223372036854775808}",
     "request:{\"model\": \"x\", \"n\": -9223372036854775808}"},
    {"{\"a\":{\"b\":{\"c\":[1,2,[3,{\"d\":\"zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"
     "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz\"}]]}}}",
     "request:9782a8c094666ad594c99e2ddbea6b1eafc8599a85254e3eeb98f2b7b8e93fb0"},
    {"{\"v\": 5e-324, \"w\": 1.7976931348623157e308, \"x\": 9007199254740993.0, \"y\""
     ": 0.0001, \"z\": 0.00001}",
     "request:{\"v\": 5e-324, \"w\": 1.7976931348623157e+308, \"x\": 900719925474099"
     "2.0, \"y\": 0.0001, \"z\": 1e-05}"},
};

static enum tn_result derive_by(const char *meta, const struct kernel_identity *identity,
                                char out[KERNEL_HOLDER_MAX + 1], char raw[KERNEL_HOLDER_MAX + 1]) {
    char detail[PROTOCOL_DETAIL];
    struct protocol_identity_key key = {.len = 0};
    struct tn_bytes bytes = tn_bytes_of(meta, strlen(meta));
    assert_null(protocol_json_fault(bytes));
    enum tn_result code = protocol_identity_derive(bytes, identity, &key, detail);
    memcpy(out, key.text, key.len);
    out[key.len] = '\0';
    memcpy(raw, key.raw, key.raw_len);
    raw[key.raw_len] = '\0';
    return code;
}

static enum tn_result derive(const char *meta, bool fallback, char out[KERNEL_HOLDER_MAX + 1]) {
    char raw[KERNEL_HOLDER_MAX + 1];
    return derive_by(meta, &(struct kernel_identity){.fallback_json = fallback}, out, raw);
}

static uint64_t fields_of(const char *text) {
    struct kernel_policy_patch patch = {0};
    char detail[KERNEL_OPTION_DETAIL];
    assert_true(kernel_option_set("identity_fields", text, &patch, detail));
    return patch.values.of[KERNEL_OPTION_IDENTITY];
}

static void an_address_is_one_key_however_it_is_written(void **state) {
    static const struct {
        const char *mac, *holder, *raw;
    } rows[] = {
        {"52:54:00:aB:cD:01", "mac:52:54:00:ab:cd:01", "mac:52:54:00:aB:cD:01"},
        {"52-54-00-AB-CD-01", "mac:52:54:00:ab:cd:01", "mac:52-54-00-AB-CD-01"},
        {"5254.00ab.cd01", "mac:52:54:00:ab:cd:01", "mac:5254.00ab.cd01"},
        {"525400ABCD01", "mac:52:54:00:ab:cd:01", "mac:525400ABCD01"},
        {"52:54:00:ab:cd:01", "mac:52:54:00:ab:cd:01", ""},
        {"00124B0001020304", "mac:00:12:4b:00:01:02:03:04", "mac:00124B0001020304"},
        {"52:54:00:AB:CD", "mac:52:54:00:AB:CD", ""},             /* 40 bits */
        {"52:54:00:AB:CD:0G", "mac:52:54:00:AB:CD:0G", ""},       /* no digit */
        {"52:54:00:AB:CD:01:02", "mac:52:54:00:AB:CD:01:02", ""}, /* 56 bits */
        {"52 54 00 AB CD 01", "mac:52 54 00 AB CD 01", ""},
        {"00124B000102030405", "mac:00124B000102030405", ""},
    };
    char meta[64], out[KERNEL_HOLDER_MAX + 1], raw[KERNEL_HOLDER_MAX + 1];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        (void)snprintf(meta, sizeof meta, "{\"mac\": \"%s\"}", rows[i].mac);
        assert_int_equal(derive_by(meta, &(struct kernel_identity){0}, out, raw), TN_R_OK);
        assert_string_equal(out, rows[i].holder);
        assert_string_equal(raw, rows[i].raw);
    }
    /* A number is no address, and a serial is none either. */
    assert_int_equal(derive("{\"mac\": 525400123456}", false, out), TN_R_OK);
    assert_string_equal(out, "mac:525400123456");
    assert_int_equal(derive("{\"serial\": \"52-54-00-AB-CD-01\"}", false, out), TN_R_OK);
    assert_string_equal(out, "serial:52-54-00-AB-CD-01");
}

static void a_pool_says_which_fields_count_and_in_which_order(void **state) {
    static const struct {
        const char *fields, *holder;
    } rows[] = {
        {"device_key,device_id,serial,mac,uuid", "k"},
        {"uuid,mac", "uuid:u"},
        {"mac,uuid", "mac:m"},
        {"serial,device_key", "serial:inner"},
        {"device_key", "k"},
        {"device_id", ""},
    };
    const char *meta = "{\"device_key\":\"k\",\"mac\":\"m\",\"uuid\":\"u\","
                       "\"device_meta\":{\"serial\":\"inner\",\"device_key\":\"no\"}}";
    char out[KERNEL_HOLDER_MAX + 1], raw[KERNEL_HOLDER_MAX + 1];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kernel_identity identity = {.fields = fields_of(rows[i].fields)};
        enum tn_result code = derive_by(meta, &identity, out, raw);
        assert_int_equal(code, rows[i].holder[0] != '\0' ? TN_R_OK : TN_R_BAD_REQUEST);
        assert_string_equal(out, rows[i].holder);
    }
}

static void the_option_is_read_and_written(void **state) {
    struct kernel_policy_patch patch = {0};
    char detail[KERNEL_OPTION_DETAIL], text[64];
    (void)state;
    assert_int_equal(fields_of("device_key,device_id,serial,mac,uuid"), 0);
    assert_int_equal(fields_of("mac"), KERNEL_IDENTITY_MAC);
    const char *good[] = {"mac", "uuid,mac,serial,device_id,device_key", "serial,mac"};
    for (size_t i = 0; i < 3; i++) {
        assert_true(kernel_option_set("identity_fields", good[i], &patch, detail));
        assert_true(kernel_option_format(&patch.values, "identity_fields", text, sizeof text));
        assert_string_equal(text, good[i]);
    }
    const char *bad[] = {"",
                         "imei",
                         "mac,",
                         ",mac",
                         "mac,mac",
                         "mac serial",
                         "mac,serial,uuid,device_id,device_key,mac"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(kernel_option_set("identity_fields", bad[i], &patch, detail));
    }
}

static void the_golden_vectors_hold(void **state) {
    char out[KERNEL_HOLDER_MAX + 1];
    (void)state;
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        assert_int_equal(derive(golden[i].meta, true, out), TN_R_OK);
        assert_string_equal(out, golden[i].holder);
    }
}

static void fields_come_before_content_and_content_needs_the_fallback(void **state) {
    char out[KERNEL_HOLDER_MAX + 1];
    (void)state;
    assert_int_equal(derive("{\"mac\":\"m\"}", false, out), TN_R_OK);
    assert_int_equal(derive("{\"model\":\"m\"}", false, out), TN_R_BAD_REQUEST);
    assert_int_equal(derive("{\"model\":\"m\"}", true, out), TN_R_OK);
    assert_int_equal(derive("{}", true, out), TN_R_BAD_REQUEST);
    assert_int_equal(derive("{\"serial\":true,\"mac\":1.5}", false, out), TN_R_BAD_REQUEST);
}

static void what_cannot_be_a_holder_is_refused(void **state) {
    char out[KERNEL_HOLDER_MAX + 1];
    (void)state;
    assert_int_equal(derive("{\"serial\":\"a\\nb\"}", false, out), TN_R_BAD_NAME);
    assert_int_equal(derive("{\"serial\":\"a\\u0000b\"}", false, out), TN_R_MALFORMED);
    assert_int_equal(derive("{\"n\":99999999999999999999}", true, out), TN_R_MALFORMED);
    assert_int_equal(derive("{\"s\":\"\\ud800\"}", true, out), TN_R_MALFORMED);
}

/* As wide and as deep as metadata can be: the buffers are counted for it. */
static void the_largest_metadata_fits(void **state) {
    static char meta[KERNEL_META_MAX + 1];
    char out[KERNEL_HOLDER_MAX + 1];
    (void)state;
    size_t at = (size_t)sprintf(meta, "{\"a\":[");
    while (at + 4 <= KERNEL_META_MAX) {
        at += (size_t)sprintf(meta + at, "1,");
    }
    strcpy(meta + at - 1, "]}");
    assert_int_equal(derive(meta, true, out), TN_R_OK);
    at = (size_t)sprintf(meta, "{\"a\":[");
    while (at + 8 <= KERNEL_META_MAX) {
        at += (size_t)sprintf(meta + at, "1e15,");
    }
    strcpy(meta + at - 1, "]}");
    assert_int_equal(derive(meta, true, out), TN_R_OK);
    at = (size_t)sprintf(meta, "{\"a\":\"");
    while (at + 4 <= KERNEL_META_MAX) {
        at += (size_t)sprintf(meta + at, "\303\251");
    }
    strcpy(meta + at, "\"}");
    assert_int_equal(derive(meta, true, out), TN_R_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_golden_vectors_hold),
        cmocka_unit_test(an_address_is_one_key_however_it_is_written),
        cmocka_unit_test(a_pool_says_which_fields_count_and_in_which_order),
        cmocka_unit_test(the_option_is_read_and_written),
        cmocka_unit_test(fields_come_before_content_and_content_needs_the_fallback),
        cmocka_unit_test(what_cannot_be_a_holder_is_refused),
        cmocka_unit_test(the_largest_metadata_fits),
    };
    return cmocka_run_group_tests_name("identity", tests, NULL, NULL);
}
