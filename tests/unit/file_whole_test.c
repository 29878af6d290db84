/* Small files that are read and replaced whole. Crashes in between are in crash/states. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/file_whole.h"

static char dir[64];

static int setup(void **state) {
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/tenure-whole-XXXXXX");
    return mkdtemp(dir) == NULL;
}

static int teardown(void **state) {
    char command[100];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command); // NOLINT(cert-env33-c): a directory of this test
}

static char *path(const char *name) {
    static char out[128];
    snprintf(out, sizeof out, "%s/%s", dir, name);
    return out;
}

static void replace(const char *name, const char *text) {
    assert_int_equal(os_file_replace(os_posix(), dir, name, text, strlen(text)), TN_OK);
}

static void holds(const char *name, const char *text) {
    char bytes[32];
    size_t len = 0;
    assert_int_equal(os_file_read(os_posix(), path(name), OS_PRIVATE, bytes, sizeof bytes, &len),
                     TN_OK);
    assert_int_equal(len, strlen(text));
    assert_memory_equal(bytes, text, len);
}

static void a_file_is_replaced_whole_and_is_private(void **state) {
    (void)state;
    replace("a", "a longer text");
    replace("a", "short");
    holds("a", "short");
    assert_int_not_equal(access(path("a.new"), F_OK), 0);
}

static void remains_of_an_interrupted_attempt_are_removed(void **state) {
    (void)state;
    assert_int_equal(symlink("/dev/null", path("b.new")), 0);
    replace("b", "text");
    holds("b", "text");
}

static void a_read_is_bounded_and_leaves_its_output_alone_when_it_fails(void **state) {
    char bytes[4];
    size_t len = 77;
    (void)state;
    replace("c", "0123456789");
    assert_int_equal(os_file_read(os_posix(), path("none"), 0, bytes, sizeof bytes, &len),
                     TN_NOTFOUND);
    assert_int_equal(len, 77);
    assert_int_equal(os_file_read(os_posix(), path("c"), 0, bytes, sizeof bytes, &len), TN_OK);
    assert_int_equal(len, sizeof bytes);
    assert_int_equal(chmod(path("c"), 0644), 0);
    assert_int_equal(os_file_read(os_posix(), path("c"), OS_PRIVATE, bytes, sizeof bytes, &len),
                     TN_DENIED);
}

static void a_path_that_is_too_long_is_refused(void **state) {
    char name[OS_FILE_PATH_MAX];
    (void)state;
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(os_file_replace(os_posix(), dir, name, "", 0), TN_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_replaced_whole_and_is_private),
        cmocka_unit_test(remains_of_an_interrupted_attempt_are_removed),
        cmocka_unit_test(a_read_is_bounded_and_leaves_its_output_alone_when_it_fails),
        cmocka_unit_test(a_path_that_is_too_long_is_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
