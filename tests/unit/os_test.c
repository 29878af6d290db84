/* The operating system's table: the real one and the fake one behave the same where callers care.
 *
 * Each test of the first part runs against both. The second part is about the real one only, the
 * third about what the fake adds: forgetting. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/fakeos.h"

#define PATH_MAX_HERE 512

struct place {
    const struct os *os;
    struct fakeos *fake; /* NULL: the real one */
    char dir[64];
    char path[PATH_MAX_HERE]; /* the last one made by at() */
};

static const char *at(struct place *p, const char *name) {
    snprintf(p->path, sizeof p->path, "%s/%s", p->dir, name);
    return p->path;
}

static int setup_real(void **state) {
    struct place *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->os = os_posix();
    snprintf(p->dir, sizeof p->dir, "/tmp/tenure-os-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    *state = p;
    return 0;
}

static int setup_fake(void **state) {
    struct place *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->fake = fakeos_new(1);
    p->os = fakeos_table(p->fake);
    snprintf(p->dir, sizeof p->dir, "/place");
    assert_int_equal(p->os->make_dir(p->os->ctx, p->dir), TN_OK);
    assert_int_equal(p->os->sync_dir(p->os->ctx, "/"), TN_OK);
    *state = p;
    return 0;
}

static int teardown(void **state) {
    struct place *p = *state;
    if (p->fake != NULL) {
        fakeos_free(p->fake);
    } else {
        char command[128];
        snprintf(command, sizeof command, "rm -rf '%s'", p->dir);
        assert_int_equal(system(command), 0);
    }
    free(p);
    return 0;
}

static int must_open(struct place *p, const char *name, unsigned flags) {
    int file = -1;
    assert_int_equal(p->os->open(p->os->ctx, at(p, name), flags, &file), TN_OK);
    assert_true(file >= 0);
    return file;
}

static void must_write(struct place *p, int file, const char *text, uint64_t offset) {
    assert_int_equal(p->os->write_at(p->os->ctx, file, text, strlen(text), offset), TN_OK);
}

static void assert_reads(struct place *p, int file, uint64_t offset, const char *text, size_t len) {
    char got[64] = {0};
    size_t n = 99;
    assert_int_equal(p->os->read_at(p->os->ctx, file, got, sizeof got - 1, offset, &n), TN_OK);
    assert_int_equal(n, len);
    assert_memory_equal(got, text, len);
}

/* -- both --------------------------------------------------------------------------------------- */

static void what_is_written_is_read(void **state) {
    struct place *p = *state;
    const struct os *os = p->os;
    uint64_t size = 0;
    int file = must_open(p, "a", OS_WRITE | OS_CREATE);
    must_write(p, file, "hello", 0);
    must_write(p, file, "world", 8);
    assert_reads(p, file, 0, "hello\0\0\0world", 13);
    assert_reads(p, file, 10, "rld", 3);
    assert_reads(p, file, 13, "", 0);
    assert_reads(p, file, 500, "", 0);
    assert_int_equal(os->size(os->ctx, file, &size), TN_OK);
    assert_int_equal(size, 13);
    assert_int_equal(os->truncate(os->ctx, file, 3), TN_OK);
    assert_int_equal(os->truncate(os->ctx, file, 6), TN_OK);
    assert_reads(p, file, 0, "hel\0\0\0", 6);
    assert_int_equal(os->sync(os->ctx, file), TN_OK);
    assert_int_equal(os->close(os->ctx, file), TN_OK);
    file = must_open(p, "a", OS_READ);
    assert_reads(p, file, 0, "hel\0\0\0", 6);
    assert_int_equal(os->close(os->ctx, file), TN_OK);
    file = must_open(p, "a", OS_WRITE | OS_TRUNCATE);
    assert_reads(p, file, 0, "", 0);
    assert_int_equal(os->close(os->ctx, file), TN_OK);
}

static void opening_says_what_is_wrong(void **state) {
    struct place *p = *state;
    const struct os *os = p->os;
    int file = 77;
    assert_int_equal(os->open(os->ctx, at(p, "none"), OS_READ, &file), TN_NOTFOUND);
    assert_int_equal(os->open(os->ctx, at(p, "none"), OS_WRITE, &file), TN_NOTFOUND);
    assert_int_equal(os->open(os->ctx, at(p, "no/dir"), OS_WRITE | OS_CREATE, &file), TN_NOTFOUND);
    assert_int_equal(file, 77);
    file = must_open(p, "a", OS_WRITE | OS_CREATE | OS_EXCLUSIVE);
    assert_int_equal(os->close(os->ctx, file), TN_OK);
    assert_int_equal(os->open(os->ctx, at(p, "a"), OS_WRITE | OS_CREATE | OS_EXCLUSIVE, &file),
                     TN_INVALID);
}

static void names_hit(void *ctx, const char *name) {
    char *all = ctx;
    assert_true(strlen(all) + strlen(name) + 2 < 256);
    strcat(all, name);
    strcat(all, " ");
}

static void directories_list_rename_and_remove(void **state) {
    struct place *p = *state;
    const struct os *os = p->os;
    char from[PATH_MAX_HERE];
    char all[256] = "";
    assert_int_equal(os->close(os->ctx, must_open(p, "a", OS_WRITE | OS_CREATE)), TN_OK);
    assert_int_equal(os->close(os->ctx, must_open(p, "b", OS_WRITE | OS_CREATE)), TN_OK);
    snprintf(from, sizeof from, "%s/a", p->dir);
    assert_int_equal(os->rename(os->ctx, from, at(p, "b")), TN_OK);
    assert_int_equal(os->rename(os->ctx, from, at(p, "b")), TN_NOTFOUND);
    assert_int_equal(os->sync_dir(os->ctx, p->dir), TN_OK);
    assert_int_equal(os->list(os->ctx, p->dir, names_hit, all), TN_OK);
    assert_string_equal(all, "b ");
    assert_int_equal(os->remove(os->ctx, at(p, "b")), TN_OK);
    assert_int_equal(os->remove(os->ctx, at(p, "b")), TN_NOTFOUND);
    assert_int_equal(os->make_dir(os->ctx, at(p, "sub")), TN_OK);
    assert_int_equal(os->make_dir(os->ctx, at(p, "sub")), TN_OK);
    assert_int_equal(os->make_dir(os->ctx, at(p, "no/sub")), TN_NOTFOUND);
    assert_int_equal(os->list(os->ctx, at(p, "none"), names_hit, all), TN_NOTFOUND);
    assert_int_equal(os->sync_dir(os->ctx, at(p, "none")), TN_NOTFOUND);
    uint64_t space = 0;
    assert_int_equal(os->space_free(os->ctx, p->dir, &space), TN_OK);
    uint64_t sector = 0;
    enum tn_status told = os->sector_bytes(os->ctx, p->dir, &sector);
    assert_true(told == TN_NOTFOUND || (told == TN_OK && sector >= 512));
    assert_int_equal(os->sector_bytes(os->ctx, "/nowhere/at/all", &sector), TN_NOTFOUND);
    assert_true(space > 0);
}

static void a_lock_is_had_once_and_ends_with_its_handle(void **state) {
    struct place *p = *state;
    const struct os *os = p->os;
    int first = -1;
    int second = -1;
    assert_int_equal(os->lock(os->ctx, at(p, "lock"), &first), TN_OK);
    assert_int_equal(os->lock(os->ctx, at(p, "lock"), &second), TN_LOCKED);
    assert_int_equal(second, -1);
    assert_int_equal(os->close(os->ctx, first), TN_OK);
    assert_int_equal(os->lock(os->ctx, at(p, "lock"), &second), TN_OK);
    assert_int_equal(os->close(os->ctx, second), TN_OK);
}

/* With a handle of the directory, the caller needs no new descriptor for the sync. */
static void a_directory_is_synced_by_its_handle_too(void **state) {
    struct place *p = *state;
    const struct os *os = p->os;
    int dir = -1;
    assert_int_equal(os->open(os->ctx, p->dir, OS_READ | OS_DIRECTORY, &dir), TN_OK);
    int file = must_open(p, "a", OS_WRITE | OS_CREATE);
    assert_int_equal(os->close(os->ctx, file), TN_OK);
    assert_int_equal(os->sync(os->ctx, dir), TN_OK);
    assert_int_equal(os->close(os->ctx, dir), TN_OK);
    assert_int_equal(os->open(os->ctx, p->dir, OS_READ, &dir), TN_INVALID);
    assert_int_equal(os->open(os->ctx, at(p, "a"), OS_READ | OS_DIRECTORY, &dir), TN_INVALID);
    if (p->fake != NULL) {
        fakeos_reboot(p->fake);
        assert_true(fakeos_file_exists(p->fake, at(p, "a")));
    }
}

static void a_pipe_is_refused_and_not_waited_for(void **state) {
    struct place *p = *state;
    const struct os *os = p->os;
    int file = 77;
    assert_int_equal(mkfifo(at(p, "pipe"), 0600), 0);
    assert_int_equal(os->open(os->ctx, p->path, OS_READ, &file), TN_INVALID);
    assert_int_equal(os->open(os->ctx, p->path, OS_WRITE, &file), TN_INVALID);
    assert_int_equal(os->lock(os->ctx, p->path, &file), TN_INVALID);
    assert_int_equal(file, 77);
}

static void a_file_that_is_not_private_is_refused_to_who_wants_one(void **state) {
    struct place *p = *state;
    const struct os *os = p->os;
    int file = -1;
    assert_int_equal(
        os->open(os->ctx, at(p, "key"), OS_WRITE | OS_CREATE | OS_EXCLUSIVE | OS_PRIVATE, &file),
        TN_OK);
    assert_int_equal(os->close(os->ctx, file), TN_OK);
    assert_int_equal(os->open(os->ctx, p->path, OS_READ | OS_PRIVATE, &file), TN_OK);
    assert_int_equal(os->close(os->ctx, file), TN_OK);
    file = 77;
    assert_int_equal(chmod(p->path, 0640), 0);
    assert_int_equal(os->open(os->ctx, p->path, OS_READ | OS_PRIVATE, &file), TN_DENIED);
    assert_int_equal(file, 77);
    assert_int_equal(os->open(os->ctx, p->path, OS_READ, &file), TN_OK);
    assert_int_equal(os->close(os->ctx, file), TN_OK);
}

/* The child has inherited the handle; the lock is still the parent's. */
static void a_forked_child_does_not_keep_the_lock(void **state) {
    struct place *p = *state;
    const struct os *os = p->os;
    int first = -1;
    int second = -1;
    assert_int_equal(os->lock(os->ctx, at(p, "lock"), &first), TN_OK);
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    assert_true(child > 0);
    assert_int_equal(os->close(os->ctx, first), TN_OK);
    enum tn_status status = os->lock(os->ctx, p->path, &second);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(status, TN_OK);
    assert_int_equal(os->close(os->ctx, second), TN_OK);
}

static void memory_is_zero_and_aligned(void **state) {
    struct place *p = *state;
    const struct os *os = p->os;
    static const size_t sizes[] = {4096, (size_t)8 << 20};
    for (size_t i = 0; i < 4; i++) {
        void *memory = NULL;
        size_t bytes = sizes[i / 2];
        assert_int_equal(os->mem_reserve(os->ctx, bytes, i % 2 == 1, &memory), TN_OK);
        assert_int_equal((uintptr_t)memory % 4096, 0);
        uint8_t *byte = memory;
        assert_int_equal(byte[0] | byte[bytes - 1], 0);
        byte[bytes - 1] = 1;
        os->mem_release(os->ctx, memory, bytes);
    }
}

static void clocks_and_randomness_are_there(void **state) {
    struct place *p = *state;
    const struct os *os = p->os;
    uint64_t before = os->clock_boot_ms(os->ctx);
    uint64_t ns = os->clock_boot_ns(os->ctx);
    assert_true(ns / 1000000 >= before);
    assert_true(os->clock_boot_ms(os->ctx) >= ns / 1000000);
    assert_true(os->clock_wall_ms(os->ctx) > 1600000000000);
    uint8_t a[300];
    uint8_t b[300];
    assert_int_equal(os->random(os->ctx, a, sizeof a), TN_OK);
    assert_int_equal(os->random(os->ctx, b, sizeof b), TN_OK);
    assert_memory_not_equal(a, b, sizeof a);
}

/* -- the real one ------------------------------------------------------------------------------- */

static void a_full_device_is_told_apart(void **state) {
    (void)state;
    const struct os *os = os_posix();
    int file = open("/dev/full", O_RDWR | O_CLOEXEC); /* no regular file: the table would refuse */
    if (file < 0) {
        skip();
    }
    assert_int_equal(os->write_at(os->ctx, file, "x", 1, 0), TN_NOSPACE);
    assert_int_equal(os->close(os->ctx, file), TN_OK);
}

/* Not even root makes directories in /sys, whether it is mounted read-only or not. */
static void what_is_not_allowed_is_denied(void **state) {
    struct place *p = *state;
    const struct os *os = p->os;
    assert_int_equal(os->make_dir(os->ctx, "/sys/tenure-os-test"), TN_DENIED);
}

static void a_closed_handle_is_an_input_output_error(void **state) {
    struct place *p = *state;
    const struct os *os = p->os;
    int file = must_open(p, "a", OS_WRITE | OS_CREATE);
    assert_int_equal(os->close(os->ctx, file), TN_OK);
    assert_int_equal(os->sync(os->ctx, file), TN_IO);
    assert_int_equal(os->write_at(os->ctx, file, "x", 1, 0), TN_IO);
}

/* -- the fake one ------------------------------------------------------------------------------- */

static void what_was_synced_survives_and_the_rest_may_not(void **state) {
    (void)state;
    bool data_lost = false;
    bool data_kept = false;
    bool name_lost = false;
    bool name_kept = false;
    for (uint64_t seed = 0; seed < 64; seed++) {
        struct place p = {.fake = fakeos_new(seed), .dir = "/place"};
        p.os = fakeos_table(p.fake);
        assert_int_equal(p.os->make_dir(p.os->ctx, p.dir), TN_OK);
        assert_int_equal(p.os->sync_dir(p.os->ctx, "/"), TN_OK);
        int file = must_open(&p, "a", OS_WRITE | OS_CREATE);
        must_write(&p, file, "old", 0);
        assert_int_equal(p.os->sync(p.os->ctx, file), TN_OK);
        assert_int_equal(p.os->sync_dir(p.os->ctx, p.dir), TN_OK);
        must_write(&p, file, "new", 0);
        (void)must_open(&p, "b", OS_WRITE | OS_CREATE);
        fakeos_reboot(p.fake);
        assert_true(fakeos_file_exists(p.fake, "/place/a"));
        assert_int_equal(fakeos_file_size(p.fake, "/place/a"), 3);
        char got[4] = {0};
        fakeos_file_read(p.fake, "/place/a", 0, got, 3);
        data_lost = data_lost || strcmp(got, "old") == 0;
        data_kept = data_kept || strcmp(got, "new") == 0;
        name_kept = name_kept || fakeos_file_exists(p.fake, "/place/b");
        name_lost = name_lost || !fakeos_file_exists(p.fake, "/place/b");
        fakeos_free(p.fake);
    }
    assert_true(data_lost && data_kept && name_lost && name_kept);
}

static void a_failed_sync_loses_what_reads_still_show(void **state) {
    (void)state;
    bool lost = false;
    for (uint64_t seed = 0; seed < 64; seed++) {
        struct place p = {.fake = fakeos_new(seed), .dir = "/place"};
        p.os = fakeos_table(p.fake);
        assert_int_equal(p.os->make_dir(p.os->ctx, p.dir), TN_OK);
        assert_int_equal(p.os->sync_dir(p.os->ctx, "/"), TN_OK);
        int file = must_open(&p, "a", OS_WRITE | OS_CREATE);
        assert_int_equal(p.os->sync_dir(p.os->ctx, p.dir), TN_OK);
        must_write(&p, file, "new", 0);
        fakeos_fail_call(p.fake, fakeos_calls(p.fake) + 1, TN_IO);
        assert_int_equal(p.os->sync(p.os->ctx, file), TN_IO);
        assert_string_equal(fakeos_fault_name(p.fake), "sync");
        /* The false success that no caller may trust. */
        assert_int_equal(p.os->sync(p.os->ctx, file), TN_OK);
        assert_reads(&p, file, 0, "new", 3);
        fakeos_reboot(p.fake);
        char got[4] = {0};
        if (fakeos_file_size(p.fake, "/place/a") == 3) {
            fakeos_file_read(p.fake, "/place/a", 0, got, 3);
        }
        lost = lost || strcmp(got, "new") != 0;
        fakeos_free(p.fake);
    }
    assert_true(lost);
}

static void a_failed_sync_dir_loses_what_listings_still_show(void **state) {
    (void)state;
    bool lost = false;
    for (uint64_t seed = 0; seed < 16; seed++) {
        struct place p = {.fake = fakeos_new(seed), .dir = "/place"};
        p.os = fakeos_table(p.fake);
        assert_int_equal(p.os->make_dir(p.os->ctx, p.dir), TN_OK);
        assert_int_equal(p.os->sync_dir(p.os->ctx, "/"), TN_OK);
        int file = must_open(&p, "a", OS_WRITE | OS_CREATE);
        fakeos_fail_call(p.fake, fakeos_calls(p.fake) + 1, TN_IO);
        assert_int_equal(p.os->sync_dir(p.os->ctx, p.dir), TN_IO);
        assert_int_equal(p.os->sync_dir(p.os->ctx, p.dir), TN_OK);
        assert_int_equal(p.os->close(p.os->ctx, file), TN_OK);
        assert_true(fakeos_file_exists(p.fake, at(&p, "a")));
        fakeos_reboot(p.fake);
        lost = lost || !fakeos_file_exists(p.fake, at(&p, "a"));
        fakeos_free(p.fake);
    }
    assert_true(lost);
}

static void after_a_power_cut_every_call_fails_until_the_reboot(void **state) {
    struct place *p = *state;
    const struct os *os = p->os;
    int file = must_open(p, "a", OS_WRITE | OS_CREATE);
    fakeos_cut_call(p->fake, fakeos_calls(p->fake) + 2);
    must_write(p, file, "x", 0);
    assert_int_equal(os->sync(os->ctx, file), TN_IO);
    assert_true(fakeos_is_cut(p->fake));
    assert_int_equal(os->sync(os->ctx, file), TN_IO);
    assert_int_equal(os->sync_dir(os->ctx, p->dir), TN_IO);
    fakeos_restart(p->fake);
    file = must_open(p, "a", OS_WRITE);
    assert_reads(p, file, 0, "x", 1);
    assert_int_equal(os->close(os->ctx, file), TN_OK);
}

static void a_fake_disk_can_be_full(void **state) {
    struct place *p = *state;
    const struct os *os = p->os;
    uint64_t space = 0;
    int file = must_open(p, "a", OS_WRITE | OS_CREATE);
    fakeos_space_set(p->fake, 6);
    must_write(p, file, "12345", 0);
    assert_int_equal(os->space_free(os->ctx, p->dir, &space), TN_OK);
    assert_int_equal(space, 1);
    assert_int_equal(os->write_at(os->ctx, file, "67", 2, 5), TN_NOSPACE);
    must_write(p, file, "54321", 0); /* existing bytes can be overwritten */
    assert_int_equal(os->close(os->ctx, file), TN_OK);
}

static void fake_clocks_move_when_told(void **state) {
    struct place *p = *state;
    const struct os *os = p->os;
    uint64_t boot = os->clock_boot_ms(os->ctx);
    uint64_t wall = os->clock_wall_ms(os->ctx);
    fakeos_clock_advance(p->fake, 10);
    assert_true(os->clock_boot_ms(os->ctx) == boot + 10);
    assert_true(os->clock_wall_ms(os->ctx) == wall + 10);
    fakeos_clock_wall_set(p->fake, 5);
    assert_true(os->clock_wall_ms(os->ctx) == 5);
    assert_true(os->clock_boot_ms(os->ctx) == boot + 10);
}

#define REAL(test) \
    { "real: " #test, test, setup_real, teardown, NULL }
#define FAKE(test) \
    { "fake: " #test, test, setup_fake, teardown, NULL }

int main(void) {
    const struct CMUnitTest tests[] = {
        REAL(what_is_written_is_read),
        FAKE(what_is_written_is_read),
        REAL(opening_says_what_is_wrong),
        FAKE(opening_says_what_is_wrong),
        REAL(directories_list_rename_and_remove),
        FAKE(directories_list_rename_and_remove),
        REAL(a_lock_is_had_once_and_ends_with_its_handle),
        FAKE(a_lock_is_had_once_and_ends_with_its_handle),
        REAL(a_directory_is_synced_by_its_handle_too),
        FAKE(a_directory_is_synced_by_its_handle_too),
        REAL(a_pipe_is_refused_and_not_waited_for),
        REAL(a_file_that_is_not_private_is_refused_to_who_wants_one),
        REAL(a_forked_child_does_not_keep_the_lock),
        REAL(memory_is_zero_and_aligned),
        FAKE(memory_is_zero_and_aligned),
        REAL(clocks_and_randomness_are_there),
        FAKE(clocks_and_randomness_are_there),
        REAL(a_full_device_is_told_apart),
        REAL(what_is_not_allowed_is_denied),
        REAL(a_closed_handle_is_an_input_output_error),
        cmocka_unit_test(what_was_synced_survives_and_the_rest_may_not),
        cmocka_unit_test(a_failed_sync_loses_what_reads_still_show),
        cmocka_unit_test(a_failed_sync_dir_loses_what_listings_still_show),
        FAKE(after_a_power_cut_every_call_fails_until_the_reboot),
        FAKE(a_fake_disk_can_be_full),
        FAKE(fake_clocks_move_when_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
