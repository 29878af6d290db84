/* Every system call fails once, under the real table of the operating system and the real engine.
 *
 * The calls are taken over in this program: it defines them itself, counts them, and lets the n-th one
 * fail, be interrupted, or do half of what it was asked. What is interrupted or half done is gone on
 * with by the table, and nobody above may notice. What fails is an error that is told; an OK
 * is an OK for the next life as well. Nothing is synced for real: no power goes here. */
#undef _FORTIFY_SOURCE /* which has inline versions of the functions defined here */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the headers above first */
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/enginekit.h"

#define WRITES 16u
#define SHORT (-1) /* instead of an errno: half of the call is done */

/* ---- The calls ---- */

static struct {
    bool armed;
    int error;
    uint64_t calls;
    uint64_t fail_call;
    bool failed;
    const char *name; /* of what failed */
} plan;

/* Of either kind of sync, how many there were. */
static struct { _Atomic unsigned directories, files; } data_syncs, whole_syncs;

enum nature { PLAIN, INTERRUPTIBLE, DIVISIBLE };

/* Counts the call. True: the call fails, with errno set, or, if divisible, only half of it is done
 * (*len is smaller then). */
static bool planned(const char *name, enum nature nature, size_t *len) {
    if (!plan.armed) {
        return false;
    }
    plan.calls += 1;
    bool fits = plan.error == SHORT   ? nature == DIVISIBLE && *len > 1
                : plan.error == EINTR ? nature != PLAIN
                                      : true;
    if (plan.calls != plan.fail_call || !fits) {
        return false;
    }
    plan.failed = true;
    plan.name = name;
    if (plan.error == SHORT) {
        *len /= 2;
        return false;
    }
    errno = plan.error;
    return true;
}

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): the library's names are reserved
int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    unsigned mode = (flags & O_CREAT) != 0 ? va_arg(arguments, unsigned) : 0;
    va_end(arguments);
    if (planned("open", INTERRUPTIBLE, NULL)) {
        return -1;
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

ssize_t pread(int fd, void *out, size_t len, off_t offset) {
    return planned("pread", DIVISIBLE, &len) ? -1 : syscall(SYS_pread64, fd, out, len, offset);
}

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t offset) {
    return planned("pwrite", DIVISIBLE, &len) ? -1 : syscall(SYS_pwrite64, fd, bytes, len, offset);
}

static bool is_directory(int fd) {
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
}

int fdatasync(int fd) {
    *(is_directory(fd) ? &data_syncs.directories : &data_syncs.files) += 1;
    return planned("fdatasync", PLAIN, NULL) ? -1 : 0;
}

int fsync(int fd) {
    *(is_directory(fd) ? &whole_syncs.directories : &whole_syncs.files) += 1;
    return planned("fsync", PLAIN, NULL) ? -1 : 0;
}

int ftruncate(int fd, off_t bytes) {
    return planned("ftruncate", INTERRUPTIBLE, NULL) ? -1 : (int)syscall(SYS_ftruncate, fd, bytes);
}

int rename(const char *from, const char *to) {
    return planned("rename", PLAIN, NULL) ? -1 : (int)syscall(SYS_rename, from, to);
}

int unlink(const char *path) {
    return planned("unlink", PLAIN, NULL) ? -1 : (int)syscall(SYS_unlink, path);
}

int mkdir(const char *path, mode_t mode) {
    return planned("mkdir", PLAIN, NULL) ? -1 : (int)syscall(SYS_mkdir, path, mode);
}

int flock(int fd, int operation) {
    /* Releasing a lock cannot fail, and no caller checks. */
    bool fails = operation != LOCK_UN && planned("flock", INTERRUPTIBLE, NULL);
    return fails ? -1 : (int)syscall(SYS_flock, fd, operation);
}

ssize_t getrandom(void *out, size_t len, unsigned flags) {
    return planned("getrandom", DIVISIBLE, &len) ? -1 : syscall(SYS_getrandom, out, len, flags);
}

void *mmap(void *at, size_t len, int protection, int flags, int fd, off_t offset) {
    if (planned("mmap", PLAIN, NULL)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    long memory = syscall(SYS_mmap, at, len, protection, flags, fd, offset);
    return (
        void *)(uintptr_t)memory; /* NOLINT(performance-no-int-to-ptr): the call gives a number */
}

/* ---- Lives ---- */

struct life {
    char dir[128];
    char data[160];
    bool opened;
    bool closed_well;
    enum tn_result codes[WRITES];
    bool asked[WRITES];
    uint64_t lsns[WRITES];
    struct ekit_command command;
    struct ekit_answer answer;
};

// NOLINTEND(readability-inconsistent-declaration-parameter-name)

static struct engine *life_open(struct life *life) {
    struct engine_options options = {
        .no_threads = true,
        .snapshot_bytes = UINT64_MAX,
        .events_max = 64,
    };
    struct engine *engine = NULL;
    struct log_error error = {{0}};
    ekit_limits_small(&options);
    const struct log_local_options local = {
        .dir = life->data, .segment_bytes = 64 << 10, .no_background = true};
    enum tn_status status = ekit_try_local(&options, &local, &engine, &error);
    assert_true((status == TN_OK) == (error.text[0] == '\0'));
    return status == TN_OK ? engine : NULL;
}

static const struct ekit_command *life_write(struct life *life, unsigned n) {
    char name[32];
    snprintf(name, sizeof name, "write-%u", n);
    return ekit_alloc_large(&life->command, "p", name, 2, name, 4000);
}

static void life_live(struct life *life) {
    struct log_error error;
    struct engine *engine = life_open(life);
    life->opened = engine != NULL;
    if (!life->opened) {
        return;
    }
    (void)ekit_run(engine, ekit_pool(&life->command, "p", 1, 1000, 3600), &life->answer);
    for (unsigned n = 0; n < WRITES; n++) {
        if (n == WRITES / 2) {
            (void)engine_snapshot(engine, &error);
        }
        life->codes[n] = ekit_run(engine, life_write(life, n), &life->answer);
        life->asked[n] = true;
        life->lsns[n] = life->answer.result.lsn;
    }
    life->closed_well = engine_close(engine);
}

/* Operations that were answered OK are present, and the others can be done. */
static void life_check_next(struct life *life) {
    struct engine *engine = life_open(life);
    assert_non_null(engine);
    ekit_check(engine);
    (void)ekit_run(engine, ekit_pool(&life->command, "p", 1, 1000, 3600), &life->answer);
    for (unsigned n = 0; n < WRITES; n++) {
        ekit_run_ok(engine, life_write(life, n), &life->answer);
        if (life->asked[n] && life->codes[n] == TN_R_OK) {
            assert_true(life->answer.result.replayed);
            assert_int_equal(life->answer.result.lsn, life->lsns[n]);
        }
    }
    ekit_check(engine);
    assert_true(engine_close(engine));
}

/* One life with this fault, and one without. */
static void life_with(uint64_t call, int error, struct life *life) {
    *life = (struct life){0};
    ekit_dir_make(life->dir);
    snprintf(life->data, sizeof life->data, "%s/data", life->dir);
    plan.calls = 0;
    plan.fail_call = call;
    plan.error = error;
    plan.failed = false;
    plan.armed = true;
    life_live(life);
    plan.armed = false;
    life_check_next(life);
    ekit_dir_remove(life->data);
    assert_int_equal(rmdir(life->dir), 0);
}

static bool all_ok(const struct life *life) {
    bool ok = life->opened && life->closed_well;
    for (unsigned n = 0; n < WRITES; n++) {
        ok = ok && life->codes[n] == TN_R_OK;
    }
    return ok;
}

static uint64_t calls_of_a_life(void) {
    static struct life life;
    life_with(0, EIO, &life);
    assert_true(all_ok(&life));
    return plan.calls;
}

static void every_call(int error, bool unnoticed) {
    static struct life life;
    uint64_t calls = calls_of_a_life();
    uint64_t failures = 0;
    for (uint64_t call = 1; call <= calls; call++) {
        life_with(call, error, &life);
        failures += plan.failed;
        if (unnoticed && !all_ok(&life)) {
            fail_msg("%s, call %llu, was noticed", plan.name, (unsigned long long)call);
        }
    }
    assert_true(failures > 20);
}

static void what_is_interrupted_goes_on(void **state) {
    (void)state;
    every_call(EINTR, true);
}

static void what_is_half_done_is_finished(void **state) {
    (void)state;
    every_call(SHORT, true);
}

static void an_error_is_told_and_harms_nothing(void **state) {
    (void)state;
    every_call(EIO, false);
}

static void a_full_disk_is_told_and_harms_nothing(void **state) {
    (void)state;
    every_call(ENOSPC, false);
}

static void no_free_descriptor_is_told_and_harms_nothing(void **state) {
    (void)state;
    every_call(EMFILE, false);
}

/* A sync that fails, in whatever way, is the end of this life: none after it is believed. */
static void after_a_sync_that_failed_nothing_is_ok(void **state) {
    static struct life life;
    static const int errors[] = {EIO, ENOSPC, EDQUOT};
    (void)state;
    uint64_t calls = calls_of_a_life();
    unsigned syncs = 0;
    for (uint64_t call = 1; call <= calls; call++) {
        life_with(call, errors[call % 3], &life);
        if (!plan.failed || strcmp(plan.name, "fdatasync") != 0) {
            continue;
        }
        bool halted = false;
        for (unsigned n = 0; n < WRITES && life.opened; n++) {
            assert_true(!halted || life.codes[n] == TN_R_HALTED);
            halted = halted || life.codes[n] == TN_R_HALTED;
        }
        syncs += 1;
    }
    assert_true(syncs > 5);
}

/* fdatasync leaves out what it takes for unimportant, and of a directory that may be a name. */
static void directories_are_synced_whole(void **state) {
    (void)state;
    (void)calls_of_a_life();
    assert_int_equal(data_syncs.directories, 0);
    assert_true(whole_syncs.directories > 0 && data_syncs.files > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_interrupted_goes_on),
        cmocka_unit_test(what_is_half_done_is_finished),
        cmocka_unit_test(an_error_is_told_and_harms_nothing),
        cmocka_unit_test(a_full_disk_is_told_and_harms_nothing),
        cmocka_unit_test(no_free_descriptor_is_told_and_harms_nothing),
        cmocka_unit_test(after_a_sync_that_failed_nothing_is_ok),
        cmocka_unit_test(directories_are_synced_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
