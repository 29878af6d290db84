/* The log and its environment: files that disappear, descriptors that run out, signals, pipes.
 *
 * The first part is about the proofs that a file existed; the rest about failures that must be
 * reported correctly. Fake disk, but for the last three tests. */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/logbench.h"
#include "log/segment.h"

#define NAMES_MAX 64

struct names {
    char at[NAMES_MAX][64];
    unsigned count;
};

static void names_add(void *ctx, const char *name) {
    struct names *names = ctx;
    assert_true(names->count < NAMES_MAX);
    snprintf(names->at[names->count], sizeof names->at[0], "/data/%.50s", name);
    names->count += 1;
}

/* -- files that go missing ---------------------------------------------------------------------- */

/* With one file less the directory is refused, or has everything. Returns how many were refused. */
static unsigned remove_each(struct logbench *b) {
    const struct os *os = b->options.os;
    struct names names = {.count = 0};
    unsigned refused = 0;
    assert_int_equal(os->list(os->ctx, "/data", names_add, &names), TN_OK);
    for (unsigned i = 0; i < names.count; i++) {
        for (unsigned read_only = 0; read_only < 2; read_only++) {
            struct logbench copy = logbench_copy(b, i);
            fakeos_file_remove(copy.fake, names.at[i]);
            copy.options.read_only = read_only == 1;
            size_t loaded = 0;
            struct log_error error;
            enum tn_status status = logmodel_check(&copy.model, &copy.options, &loaded, &error);
            if (status == TN_OK && loaded != b->model.acked) {
                fail_msg("without %s there are %zu of %zu batches", names.at[i], loaded,
                         b->model.acked);
            }
            assert_true(status == TN_OK || status == TN_CORRUPT);
            refused += status == TN_CORRUPT && read_only == 0;
            logbench_scrap(&copy);
        }
    }
    return refused;
}

static void the_only_segment_is_missed(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 3, 100);
    logbench_stop(b);
    assert_int_equal(remove_each(b), 1);
    fakeos_file_remove(b->fake, LOGBENCH_FIRST);
    logbench_assert_refused(b, TN_CORRUPT, LOGBENCH_FIRST, "remove the file lock too");
    fakeos_file_remove(b->fake, "/data/lock");
    b->model.acked = b->model.lsn_high = 0;
    logbench_start(b);
}

static void every_segment_is_missed(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 300, 300);
    logbench_stop(b);
    unsigned segments = fakeos_file_count(b->fake, "/data", "/000");
    assert_int_equal(remove_each(b), segments);
    assert_true(segments >= 3);
    fakeos_file_remove(b->fake, "/data/0000000000000003.log");
    logbench_assert_refused(b, TN_CORRUPT, "/data/0000000000000003.log", "missing");
}

static void every_file_besides_snapshots_is_missed_or_not_needed(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    for (unsigned i = 0; i < 5; i++) {
        logbench_append(b, 4, 30000);
        logbench_snapshot(b);
        struct logbench copy = logbench_copy(b, i);
        fakeos_restart(copy.fake);
        logbench_start(&copy);
        logbench_stop(&copy);
        assert_true(remove_each(&copy) >= 1);
        logbench_scrap(&copy);
    }
    logbench_append(b, 1, 100);
    logbench_stop(b);
    assert_true(remove_each(b) >= 1);
}

static void a_segment_that_recovery_began_is_missed(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 2, 100);
    logbench_die(b);
    logbench_start(b); /* writes the last batch again, cuts the first segment */
    logbench_stop(b);
    assert_int_equal(remove_each(b), 2);
    fakeos_file_remove(b->fake, LOGBENCH_SECOND);
    logbench_assert_refused(b, TN_CORRUPT, LOGBENCH_FIRST, "the segment after it is missing");
}

static void a_segment_of_a_new_generation_is_missed(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 2, 100);
    logbench_snapshot(b);
    logbench_stop(b);
    b->options.restored = true;
    logbench_start(b);
    logbench_stop(b);
    b->options.restored = false;
    assert_int_equal(remove_each(b), 1); /* the snapshot does without the first segment */
    /* And a snapshot that was restored alone, over the traces of the log before. */
    fakeos_file_remove(b->fake, LOGBENCH_FIRST);
    fakeos_file_remove(b->fake, LOGBENCH_SECOND);
    b->options.restored = true;
    logbench_start(b);
    logbench_append(b, 2, 100);
    logbench_stop(b);
    b->options.restored = false;
    assert_int_equal(remove_each(b), 2);
}

/* A table that hides the second segment from listings, as if it had come after them. */
static const struct os *hiding_from;
static os_list_entry *hiding_entry;

static void hiding_each(void *ctx, const char *name) {
    if (strcmp(name, "0000000000000002.log") != 0) {
        hiding_entry(ctx, name);
    }
}

static enum tn_status hiding_list(void *ctx, const char *path, os_list_entry *entry,
                                  void *entry_ctx) {
    hiding_entry = entry;
    return hiding_from->list(ctx, path, hiding_each, entry_ctx);
}

static void a_reader_may_be_overtaken_by_the_writer(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 1, 40000);
    logbench_append(b, 1, 40000);
    hiding_from = b->options.os;
    struct os hiding = *hiding_from;
    hiding.list = hiding_list;
    struct logbench reader = {.options = b->options, .model = b->model};
    reader.options.os = &hiding;
    reader.options.read_only = true;
    size_t loaded = 0;
    struct log_error error;
    assert_int_equal(logmodel_check(&reader.model, &reader.options, &loaded, &error), TN_OK);
    assert_int_equal(loaded, 1);
}

/* A segment that nothing vouches for is replaced, once. */
static void a_name_that_may_not_be_on_disk_is_made_anew(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 1, 40000);
    struct logbench copy = logbench_copy(b, 1);
    /* Fails where the directory is synced for the second segment. */
    enum tn_status status = TN_OK;
    for (uint64_t call = 1; strcmp(fakeos_fault_name(copy.fake), "sync_dir") != 0; call++) {
        logbench_scrap(&copy);
        copy = logbench_copy(b, 1);
        logbench_start(&copy);
        fakeos_fail_call(copy.fake, fakeos_calls(copy.fake) + call, TN_IO);
        status = logmodel_append(&copy.model, copy.log, 40000);
    }
    assert_int_equal(status, TN_IO);
    assert_int_equal(copy.log->verbs->idle(copy.log), TN_IO);
    assert_false(copy.log->verbs->close(copy.log));
    copy.log = NULL;
    fakeos_restart(copy.fake);
    logbench_start(&copy);
    size_t served = copy.model.acked;
    logbench_stop(&copy);
    uint64_t calls = fakeos_calls(copy.fake);
    logbench_start(&copy);
    logbench_stop(&copy);
    assert_true(fakeos_calls(copy.fake) - calls < 60); /* 64 KiB are not written again */
    fakeos_reboot(copy.fake);
    logbench_start(&copy);
    assert_int_equal(copy.model.acked, served);
    logbench_scrap(&copy);
}

/* Should the disk forget the renaming after all, the old file must not pass for the segment. */
static void a_segment_that_was_replaced_is_spoilt(void **state) {
    struct logbench *b = *state;
    const struct os *os = fakeos_table(b->fake);
    uint8_t bytes[LOG_SEGMENT_HEADER];
    static const uint8_t zeros[LOG_SEGMENT_HEADER];
    size_t got = 0;
    int file;
    logbench_start(b);
    logbench_append(b, 30, 3000); /* the newest segment has more than its first batch */
    logbench_die(b);
    logbench_start(b); /* now the newest segment has only its first batch */
    logbench_die(b);
    char path[64];
    unsigned seq = 2;
    do {
        snprintf(path, sizeof path, "/data/%016x.log", ++seq);
    } while (fakeos_file_exists(b->fake, path));
    snprintf(path, sizeof path, "/data/%016x.log", seq - 1);
    uint64_t salt = logbench_header(b, path).salt;
    assert_int_equal(os->open(os->ctx, path, OS_READ, &file), TN_OK);
    logbench_start(b);
    assert_true(logbench_header(b, path).salt != salt);
    assert_int_equal(os->read_at(os->ctx, file, bytes, sizeof bytes, 0, &got), TN_OK);
    assert_int_equal(got, sizeof bytes);
    assert_memory_equal(bytes, zeros, sizeof bytes);
    assert_int_equal(os->close(os->ctx, file), TN_OK);
}

static void a_log_cannot_be_restored_for_ever(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 1, 10);
    logbench_stop(b);
    b->options.restored = true;
    for (unsigned i = 0; i < LOG_GENERATIONS_MAX; i++) {
        logbench_start(b);
        logbench_append(b, 1, 10);
        logbench_stop(b);
    }
    assert_int_equal(b->model.shard >> 32, LOG_GENERATIONS_MAX);
    unsigned files = fakeos_file_count(b->fake, "/data", NULL);
    logbench_assert_refused(b, TN_INVALID, "/data", "without --restored");
    assert_int_equal(fakeos_file_count(b->fake, "/data", NULL), files);
    b->options.restored = false;
    logbench_start(b);
    assert_int_equal(b->model.shard >> 32, LOG_GENERATIONS_MAX);
}

/* -- failures told as what they are ------------------------------------------------------------- */

static void a_failure_before_anything_is_written_is_a_refusal(void **state) {
    struct logbench *b = *state;
    unsigned refused = 0;
    bool more = true;
    logbench_start(b);
    logbench_append(b, 1, 40000);
    logbench_stop(b);
    for (uint64_t call = 1; more; call++) {
        struct logbench copy = logbench_copy(b, call);
        logbench_start(&copy);
        fakeos_fail_call(copy.fake, fakeos_calls(copy.fake) + call, TN_NOMEM);
        enum tn_status status = logmodel_append(&copy.model, copy.log, 40000);
        const char *fault = fakeos_fault_name(copy.fake);
        more = fault[0] != '\0';
        if (strcmp(fault, "open") == 0 || strcmp(fault, "random") == 0) {
            assert_int_equal(status, TN_NOSPACE);
            assert_non_null(strstr(copy.model.notice_last, "event=log_append_refused"));
            assert_non_null(strstr(copy.model.notice_last, "NOMEM"));
            assert_int_equal(copy.log->verbs->idle(copy.log), TN_OK);
            logbench_append(&copy, 2, 40000);
            logbench_stop(&copy);
            logbench_start(&copy);
            refused += 1;
        }
        logbench_scrap(&copy);
    }
    assert_int_equal(refused, 2);
}

static void a_mark_that_cannot_be_written_is_told(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    assert_int_equal(b->log->verbs->idle(b->log), TN_OK);
    logbench_append(b, 2, 100);
    fakeos_fail_call(b->fake, fakeos_calls(b->fake) + 1, TN_IO);
    assert_int_equal(b->log->verbs->idle(b->log), TN_IO);
    assert_int_equal(b->log->verbs->idle(b->log), TN_IO);
    assert_int_equal(logmodel_append(&b->model, b->log, 10), TN_IO);
}

/* -- on a real disk ----------------------------------------------------------------------------- */

static void real_start(struct logbench *b, char *dir) {
    assert_non_null(mkdtemp(dir));
    *b = (struct logbench){
        .options = {.os = os_posix(), .dir = dir, .segment_bytes = LOGBENCH_SEGMENT_BYTES}};
    logmodel_init(&b->model, 1);
    logbench_start(b);
}

static void real_end(struct logbench *b) {
    if (b->log != NULL) {
        logbench_stop(b);
    }
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", b->options.dir);
    assert_int_equal(system(command), 0);
    logmodel_free(&b->model);
}

static void descriptors_may_run_out_and_come_back(void **state) {
    (void)state;
    char dir[] = "/tmp/tenure-log-XXXXXX";
    struct logbench b;
    real_start(&b, dir);
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    /* The change from one segment to the next needs no descriptor if a spare exists; without one it
     * is refused. */
    enum tn_status status = TN_OK;
    for (unsigned i = 0; i < 6 && status == TN_OK; i++) {
        status = logmodel_append(&b.model, b.log, 40000);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(status, TN_NOSPACE);
    assert_non_null(strstr(b.model.notice_last, "open files"));
    logbench_append(&b, 3, 40000);
    logbench_stop(&b);
    logbench_start(&b);
    real_end(&b);
}

static volatile sig_atomic_t signals;

static void signal_count(int number) {
    (void)number;
    signals += 1;
}

/* Waits until the log's thread runs: it makes a spare. Before that it blocks all signals, as every thread
 * does while it starts. */
static void spare_await(const char *dir) {
    for (bool found = false; !found;) {
        (void)sched_yield();
        DIR *entries = opendir(dir);
        assert_non_null(entries);
        for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
            found |= strncmp(entry->d_name, "spare-", strlen("spare-")) == 0;
        }
        (void)closedir(entries);
    }
}

/* The number of threads of this process that block SIGUSR1; *ret_threads: of all. */
static unsigned blockers_count(unsigned *ret_threads) {
    unsigned blockers = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    *ret_threads = 0;
    for (struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
        char path[300];
        char line[256];
        unsigned long long blocked = 0;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        FILE *status = entry->d_name[0] != '.' ? fopen(path, "r") : NULL;
        while (status != NULL && fgets(line, sizeof line, status) != NULL) {
            if (strncmp(line, "SigBlk:", strlen("SigBlk:")) == 0) {
                blocked = strtoull(line + strlen("SigBlk:"), NULL, 16);
            }
        }
        if (status != NULL) {
            (void)fclose(status);
            *ret_threads += 1;
            blockers += (blocked >> (SIGUSR1 - 1) & 1) != 0;
        }
    }
    (void)closedir(tasks);
    return blockers;
}

static void signals_of_the_host_stay_with_its_threads(void **state) {
    (void)state;
    char dir[] = "/tmp/tenure-log-XXXXXX";
    struct sigaction action = {.sa_handler = signal_count};
    struct sigaction old;
    sigset_t mine;
    sigset_t before;
    assert_int_equal(sigaction(SIGUSR1, &action, &old), 0);
    struct logbench b;
    real_start(&b, dir); /* with its thread */
    spare_await(dir);
    sigemptyset(&mine);
    sigaddset(&mine, SIGUSR1);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &mine, &before), 0);
    unsigned threads = 0;
    unsigned blockers = blockers_count(&threads);
    assert_true(threads >= 2);
    assert_int_equal(blockers, threads);
    assert_int_equal(kill(getpid(), SIGUSR1), 0);
    assert_int_equal(signals, 0);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    assert_int_equal(signals, 1);
    assert_int_equal(sigaction(SIGUSR1, &old, NULL), 0);
    real_end(&b);
}

static void a_pipe_named_like_a_segment_is_refused(void **state) {
    (void)state;
    char dir[] = "/tmp/tenure-log-XXXXXX";
    char pipe[64];
    struct logbench b;
    real_start(&b, dir);
    logbench_stop(&b);
    snprintf(pipe, sizeof pipe, "%s/0000000000000002.log", dir);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    logbench_assert_refused(&b, TN_INVALID, pipe, "cannot be opened");
    real_end(&b);
}

#define BENCH_TEST(test) cmocka_unit_test_setup_teardown(test, logbench_setup, logbench_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        BENCH_TEST(the_only_segment_is_missed),
        BENCH_TEST(every_segment_is_missed),
        BENCH_TEST(every_file_besides_snapshots_is_missed_or_not_needed),
        BENCH_TEST(a_segment_that_recovery_began_is_missed),
        BENCH_TEST(a_segment_of_a_new_generation_is_missed),
        BENCH_TEST(a_reader_may_be_overtaken_by_the_writer),
        BENCH_TEST(a_name_that_may_not_be_on_disk_is_made_anew),
        BENCH_TEST(a_segment_that_was_replaced_is_spoilt),
        BENCH_TEST(a_log_cannot_be_restored_for_ever),
        BENCH_TEST(a_failure_before_anything_is_written_is_a_refusal),
        BENCH_TEST(a_mark_that_cannot_be_written_is_told),
        cmocka_unit_test(descriptors_may_run_out_and_come_back),
        cmocka_unit_test(signals_of_the_host_stay_with_its_threads),
        cmocka_unit_test(a_pipe_named_like_a_segment_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
