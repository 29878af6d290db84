/* The small parts around processes: frames, the contents of /proc, the path of a cgroup, names,
 * positions. */
#include "unit/unit.h"

#include "base/bytes.h"
#include "process/cgroup.h"
#include "process/proc.h"
#include "process/run.h"
#include "process/run_frame.h"
#include "process/run_output.h"

/* ---- Frames ---- */

static struct run_frame_start start_make(void) {
    struct run_frame_start start = {.user = "nobody",
                                    .group = "",
                                    .token_file = "/run/token",
                                    .rules_file = "/r/rules",
                                    .limits = {1, 2, 3, 4, 5, SENSOR_UNLIMITED},
                                    .log_bytes = 4096,
                                    .log_files = 3,
                                    .log_number = 17,
                                    .live = {.term_at_ms = 5000000000, .kill_at_ms = 5000000001},
                                    .cwd = "/",
                                    .log_dir = "/var/log",
                                    .cgroup = "",
                                    .argc = 2,
                                    .argv = {"/bin/true", "", NULL},
                                    .envc = 1,
                                    .env = {"A=b", NULL}};
    return start;
}

static void a_start_comes_back_whole_or_not_at_all(void **state) {
    struct run_frame_start start = start_make();
    struct run_frame_start back;
    static uint8_t bytes[RUN_FRAME_MAX];
    (void)state;
    size_t len = run_frame_start_encode(&start, bytes, sizeof bytes);
    assert_true(len > 0);
    assert_true(run_frame_start_decode(bytes, len, &back));
    assert_string_equal(back.user, "nobody");
    assert_string_equal(back.group, "");
    assert_string_equal(back.token_file, "/run/token");
    assert_string_equal(back.rules_file, "/r/rules");
    assert_memory_equal(back.limits, start.limits, sizeof start.limits);
    assert_int_equal(back.log_number, 17);
    assert_int_equal(back.live.term_at_ms, 5000000000);
    assert_int_equal(back.live.kill_at_ms, 5000000001);
    assert_string_equal(back.log_dir, "/var/log");
    assert_string_equal(back.argv[0], "/bin/true");
    assert_string_equal(back.argv[1], "");
    assert_null(back.argv[2]);
    assert_string_equal(back.env[0], "A=b");
    assert_null(back.env[1]);
    for (size_t cut = 0; cut < len; cut++) {
        /* A buffer of its own, so that a read beyond its end is detected. */
        uint8_t *part = malloc(cut + 1);
        assert_non_null(part);
        memcpy(part, bytes, cut);
        assert_false(run_frame_start_decode(part, cut, &back));
        free(part);
        assert_int_equal(run_frame_start_encode(&start, bytes, cut), 0);
        (void)run_frame_start_encode(&start, bytes, sizeof bytes);
    }
    bytes[len] = 0;
    assert_false(run_frame_start_decode(bytes, len + 1, &back));
}

static void only_a_job_has_no_arguments(void **state) {
    struct run_frame_start start = start_make();
    struct run_frame_start back;
    static uint8_t bytes[RUN_FRAME_MAX];
    (void)state;
    start.is_job = true;
    assert_false(
        run_frame_start_decode(bytes, run_frame_start_encode(&start, bytes, sizeof bytes), &back));
    start.argc = start.envc = 0;
    start.foreground = true;
    start.ignored = 1ull << 63 | 1;
    assert_true(
        run_frame_start_decode(bytes, run_frame_start_encode(&start, bytes, sizeof bytes), &back));
    assert_true(back.is_job && back.foreground);
    assert_int_equal(back.ignored, start.ignored);
    start.is_job = false;
    assert_false(
        run_frame_start_decode(bytes, run_frame_start_encode(&start, bytes, sizeof bytes), &back));
}

static void orders_come_back(void **state) {
    static const struct run_frame_order all[] = {
        {.kind = RUN_FRAME_TERM},
        {.kind = RUN_FRAME_KILL},
        {.kind = RUN_FRAME_PASS, .signal = 28},
        {.kind = RUN_FRAME_LIVE, .live = {.term_at_ms = UINT64_MAX, .kill_at_ms = 7}},
        {.kind = RUN_FRAME_SIGNAL, .signal = 10},
    };
    struct run_frame_order back;
    uint8_t bytes[RUN_FRAME_SMALL_MAX + 1];
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        size_t len = run_frame_order_encode(&all[i], bytes);
        assert_true(run_frame_order_decode(bytes, len, &back));
        assert_int_equal(back.kind, all[i].kind);
        assert_int_equal(back.live.term_at_ms, all[i].live.term_at_ms);
        assert_int_equal(back.live.kill_at_ms, all[i].live.kill_at_ms);
        assert_int_equal(back.signal, all[i].signal);
        assert_false(run_frame_order_decode(bytes, len - 1, &back));
        bytes[len] = 0;
        assert_false(run_frame_order_decode(bytes, len + 1, &back));
    }
    bytes[0] = RUN_FRAME_START;
    assert_false(run_frame_order_decode(bytes, 1, &back));
}

static void news_come_back(void **state) {
    static const struct run_frame_news all[] = {
        {.kind = RUN_FRAME_STARTED, .pid = 4194304, .start = UINT64_MAX},
        {.kind = RUN_FRAME_FAILED, .error = 2, .step = RUN_FRAME_STEP_EXEC},
        {.kind = RUN_FRAME_EXITED, .status = 139},
        {.kind = RUN_FRAME_GONE},
    };
    uint8_t bytes[RUN_FRAME_SMALL_MAX];
    struct run_frame_news back;
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        size_t len = run_frame_news_encode(&all[i], bytes);
        assert_true(run_frame_news_decode(bytes, len, &back));
        assert_int_equal(back.kind, all[i].kind);
        assert_int_equal(back.pid, all[i].pid);
        assert_true(back.start == all[i].start);
        assert_int_equal(back.error, all[i].error);
        assert_int_equal(back.step, all[i].step);
        assert_int_equal(back.status, all[i].status);
        assert_false(run_frame_news_decode(bytes, len - 1, &back));
        assert_false(run_frame_news_decode(bytes, len + 1, &back));
    }
    bytes[0] = RUN_FRAME_START;
    assert_false(run_frame_news_decode(bytes, 1, &back));
    assert_string_equal(run_frame_step_name(RUN_FRAME_STEP_EXEC), "exec");
    assert_string_equal(run_frame_step_name((enum run_frame_step)99), "unknown");
}

/* ---- /proc ---- */

static void a_name_in_proc_can_be_anything(void **state) {
    static const char text[] =
        "42 (a) R 1 2 (b\n) S 7 8 9 34816 9 4194304 1 0 0 0 3 4 0 0 20 0 1 0 "
        "987654 1 2 3";
    struct process_stat stat;
    (void)state;
    assert_true(process_stat_parse(text, strlen(text), &stat));
    assert_int_equal(stat.state, 'S');
    assert_int_equal(stat.parent, 7);
    assert_int_equal(stat.group, 8);
    assert_int_equal(stat.session, 9);
    assert_int_equal(stat.start, 987654);
    assert_false(process_stat_parse(text, 20, &stat));
    assert_false(process_stat_parse("", 0, &stat));
    assert_false(process_stat_parse("1 (a)", 5, &stat));
}

static void this_process_is_there(void **state) {
    struct process_stat stat;
    struct process_stat child_stat;
    int descriptor = -1;
    (void)state;
    assert_int_equal(process_stat_read(getpid(), &stat), PROCESS_YES);
    assert_int_equal(stat.parent, getppid());
    assert_int_equal(stat.session, getsid(0));
    assert_int_equal(process_open(getpid(), stat.start + 1, &descriptor), PROCESS_NO);
    assert_int_equal(process_open(getpid(), stat.start, &descriptor), PROCESS_YES);
    assert_false(process_ended(descriptor));
    close(descriptor);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        for (;;) {
            pause();
        }
    }
    assert_int_equal(process_stat_read(child, &child_stat), PROCESS_YES);
    assert_int_equal(process_open(child, child_stat.start, &descriptor), PROCESS_YES);
    process_signal(descriptor, SIGKILL);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WTERMSIG(status), SIGKILL);
    assert_true(process_ended(descriptor));
    process_signal(descriptor, SIGKILL); /* nobody */
    close(descriptor);
    assert_int_equal(process_open(child, child_stat.start, &descriptor), PROCESS_NO);
    assert_int_equal(process_stat_read(child, &stat), PROCESS_NO);
}

struct seen {
    pid_t wanted;
    unsigned count, wanted_count;
};

static void pid_seen(void *ctx, pid_t pid) {
    struct seen *seen = ctx;
    seen->count++;
    seen->wanted_count += pid == seen->wanted;
}

static void children_are_listed_until_they_are_waited_for(void **state) {
    struct seen seen = {.wanted = 0};
    (void)state;
    assert_true(process_children(pid_seen, &seen));
    assert_int_equal(seen.count, 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(0);
    }
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    seen = (struct seen){.wanted = child};
    assert_true(process_children(pid_seen, &seen));
    assert_true(process_children_of_thread(pid_seen, &seen));
    assert_int_equal(seen.count, 2);
    assert_int_equal(seen.wanted_count, 2);
    assert_int_equal(waitpid(child, NULL, 0), child);
    seen = (struct seen){.wanted = getpid()};
    assert_true(process_children(pid_seen, &seen));
    assert_int_equal(seen.count, 0);
    assert_true(process_all(pid_seen, &seen));
    assert_int_equal(seen.wanted_count, 1);
}

static void a_variable_is_found_whatever_the_parts(void **state) {
    static const char texts[] = "X=1\0ID\0IDX=2\0XID=3\0ID=abc=d\0ID=other";
    (void)state;
    for (size_t part = 1; part < sizeof texts; part++) {
        struct process_variable_scan scan;
        char out[PROCESS_VALUE_MAX];
        bool found = false;
        process_variable_begin(&scan, "ID", out);
        for (size_t at = 0; at < sizeof texts && !found; at += part) {
            size_t left = sizeof texts - at;
            found = process_variable_feed(&scan, texts + at, left < part ? left : part);
        }
        assert_true(found);
        assert_string_equal(out, "abc=d");
    }
    struct process_variable_scan scan;
    char out[PROCESS_VALUE_MAX];
    char large[200];
    memset(large, 'v', sizeof large);
    large[0] = 'I';
    large[1] = 'D';
    large[2] = '=';
    process_variable_begin(&scan, "ID", out);
    assert_true(process_variable_feed(&scan, large, sizeof large));
    assert_int_equal(strlen(out), PROCESS_VALUE_MAX - 1);
    process_variable_begin(&scan, "NONE", out);
    assert_false(process_variable_feed(&scan, texts, sizeof texts));
}

/* ---- Cgroups ---- */

static void the_cgroup_is_where_the_mounts_say(void **state) {
    static const char mounts[] = "22 1 0:21 / /proc rw - proc proc rw\n"
                                 "30 22 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
                                 "31 22 0:27 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 c rw\n";
    char out[128];
    (void)state;
    assert_true(
        process_cgroup_find_in(mounts, "4:cpu:/x\n0::/system.slice/tenured.service\n", out, 128));
    assert_string_equal(out, "/sys/fs/cgroup/system.slice/tenured.service");
    assert_true(process_cgroup_find_in(mounts, "0::/\n", out, 128));
    assert_string_equal(out, "/sys/fs/cgroup");
    assert_false(process_cgroup_find_in(mounts, "4:cpu:/x\n", out, 128));
    assert_false(process_cgroup_find_in("", "0::/\n", out, 128));
    assert_false(process_cgroup_find_in(mounts, "0::/system.slice/tenured.service\n", out, 20));
    assert_true(process_cgroup_empty("/does/not/exist"));
    assert_false(process_cgroup_kill("/does/not/exist"));
    assert_int_equal(process_cgroup_make("/does/not/exist"), 2 /* ENOENT */);
}

/* ---- Names and positions ---- */

static void names_of_directories_are_harmless_and_different(void **state) {
    static const struct {
        const char *ref, *name;
    } cases[] = {
        {"core.timer-1_A", "core.timer-1_A"},
        {".", "%2E"},
        {"..", "%2E."},
        {"a/b", "a%2Fb"},
        {"a%2Fb", "a%252Fb"},
        {"caf\303\251 x", "caf%C3%A9%20x"},
        {".hidden", "%2Ehidden"},
        {"a..b", "a..b"},
    };
    char out[64];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_true(run_dir_name(cases[i].ref, out, sizeof out));
        assert_string_equal(out, cases[i].name);
    }
    assert_false(run_dir_name("", out, sizeof out));
    assert_false(run_dir_name("abc", out, 3));
    assert_true(run_dir_name("abc", out, 4));
}

static void positions_are_texts(void **state) {
    struct run_output_position position = {.file = 3, .offset = UINT64_MAX};
    struct run_output_position back;
    char out[RUN_OUTPUT_POSITION_TEXT];
    static const char *const bad[] = {"", ".", "3", "3.", ".4", "3.4.5", "-1.2", "a.b", "3. 4"};
    (void)state;
    run_output_position_format(position, out);
    assert_string_equal(out, "3.18446744073709551615");
    assert_true(run_output_position_parse(tn_bytes_of(out, strlen(out)), &back));
    assert_true(back.file == 3 && back.offset == UINT64_MAX);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(run_output_position_parse(tn_bytes_of(bad[i], strlen(bad[i])), &back));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_start_comes_back_whole_or_not_at_all),
        cmocka_unit_test(only_a_job_has_no_arguments),
        cmocka_unit_test(orders_come_back),
        cmocka_unit_test(news_come_back),
        cmocka_unit_test(a_name_in_proc_can_be_anything),
        cmocka_unit_test(this_process_is_there),
        cmocka_unit_test(children_are_listed_until_they_are_waited_for),
        cmocka_unit_test(a_variable_is_found_whatever_the_parts),
        cmocka_unit_test(the_cgroup_is_where_the_mounts_say),
        cmocka_unit_test(names_of_directories_are_harmless_and_different),
        cmocka_unit_test(positions_are_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
