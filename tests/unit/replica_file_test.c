/* A node's record about itself, and the file next to its local copy: bytes that may be damaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lib/fakeos.h"
#include "replica/replica.h"
#include "replica/replica_file.h"

static struct replica_node node_full(void) {
    struct replica_node node;
    memset(&node, 0, sizeof node);
    memset(node.name, 'n', REPLICA_NODE_MAX);
    memset(node.address, 'a', REPLICA_ADDRESS_MAX);
    memset(node.http, 'h', REPLICA_ADDRESS_MAX);
    memset(node.version, 'v', REPLICA_LABEL_MAX);
    memset(node.boot_id, 7, sizeof node.boot_id);
    node.instance.words[0] = 1;
    node.instance.words[1] = 2;
    node.state_version = 3;
    node.beat = 4;
    node.wall_ms = 5;
    node.epoch = 6;
    node.applied_lsn = 7;
    node.copied_lsn = 8;
    node.snapshot_lsn = 9;
    node.clean_epoch = 10;
    node.config_digest = 11;
    return node;
}

static void a_record_is_read_back_as_it_was_written(void **state) {
    uint8_t bytes[REPLICA_NODE_BYTES_MAX];
    struct replica_node node = node_full();
    struct replica_node found;
    (void)state;
    uint32_t len = replica_node_encode(&node, bytes);
    assert_int_equal(len, REPLICA_NODE_BYTES_MAX);
    assert_int_equal(replica_node_decode(tn_bytes_of(bytes, len), &found), TN_OK);
    assert_memory_equal(&found, &node, sizeof node);
}

static void a_damaged_record_is_refused(void **state) {
    uint8_t bytes[REPLICA_NODE_BYTES_MAX];
    struct replica_node node = node_full();
    struct replica_node found;
    (void)state;
    uint32_t len = replica_node_encode(&node, bytes);
    for (uint32_t i = 0; i < len; i++) {
        assert_int_equal(replica_node_decode(tn_bytes_of(bytes, i), &found), TN_CORRUPT);
        bytes[i] ^= 0x10;
        assert_int_not_equal(replica_node_decode(tn_bytes_of(bytes, len), &found), TN_OK);
        bytes[i] ^= 0x10;
    }
}

static void the_file_is_whole_or_the_one_before(void **state) {
    struct replica_file one = {.flags = REPLICA_FILE_CHAIN, .lsn = 1, .chain = 2, .epoch = 3};
    struct replica_file two = {.flags = REPLICA_FILE_CLOSED, .lsn = 4, .chain = 5, .epoch = 6};
    (void)state;
    for (uint64_t call = 1;; call++) {
        struct fakeos *disk = fakeos_new(call);
        const struct os *os = fakeos_table(disk);
        struct replica_file found;
        assert_int_equal(os->make_dir(os->ctx, "/d"), TN_OK);
        assert_int_equal(os->sync_dir(os->ctx, "/"), TN_OK);
        assert_int_equal(replica_file_read(os, "/d", &found), TN_NOTFOUND);
        assert_int_equal(replica_file_write(os, "/d", &one), TN_OK);
        fakeos_cut_call(disk, fakeos_calls(disk) + call);
        bool written = replica_file_write(os, "/d", &two) == TN_OK;
        fakeos_reboot(disk);
        assert_int_equal(replica_file_read(os, "/d", &found), TN_OK);
        assert_true(found.lsn == 4 || (!written && found.lsn == 1));
        assert_int_equal(found.flags, found.lsn == 4 ? two.flags : one.flags);
        fakeos_free(disk);
        if (written) {
            break;
        }
    }
}

static void a_damaged_file_is_refused(void **state) {
    struct replica_file one = {.flags = REPLICA_FILE_CHAIN, .lsn = 1, .chain = 2, .epoch = 3};
    struct fakeos *disk = fakeos_new(1);
    const struct os *os = fakeos_table(disk);
    struct replica_file found;
    bool is_member = false;
    (void)state;
    assert_int_equal(os->make_dir(os->ctx, "/d"), TN_OK);
    assert_int_equal(replica_dir_is_member(os, "/d", &is_member), TN_OK);
    assert_false(is_member);
    assert_int_equal(replica_file_write(os, "/d", &one), TN_OK);
    assert_int_equal(replica_dir_is_member(os, "/d", &is_member), TN_OK);
    assert_true(is_member);
    for (uint64_t i = 0; i < fakeos_file_size(disk, "/d/" REPLICA_FILE); i++) {
        fakeos_file_flip(disk, "/d/" REPLICA_FILE, i, 3);
        assert_int_not_equal(replica_file_read(os, "/d", &found), TN_OK);
        assert_int_not_equal(replica_dir_is_member(os, "/d", &is_member), TN_OK);
        fakeos_file_flip(disk, "/d/" REPLICA_FILE, i, 3);
    }
    fakeos_file_resize(disk, "/d/" REPLICA_FILE, 20);
    assert_int_equal(replica_file_read(os, "/d", &found), TN_CORRUPT);
    fakeos_free(disk);
}

static void every_trouble_has_a_name_and_a_text(void **state) {
    (void)state;
    for (unsigned i = 0; i < REPLICA_TROUBLE_COUNT; i++) {
        enum replica_trouble trouble = (enum replica_trouble)i;
        assert_true(strlen(replica_trouble_name(trouble)) > 0);
        assert_true(strlen(replica_trouble_text(trouble)) > 0);
    }
    assert_false(replica_trouble_is_final(REPLICA_TROUBLE_NONE));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_is_read_back_as_it_was_written),
        cmocka_unit_test(a_damaged_record_is_refused),
        cmocka_unit_test(the_file_is_whole_or_the_one_before),
        cmocka_unit_test(a_damaged_file_is_refused),
        cmocka_unit_test(every_trouble_has_a_name_and_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
