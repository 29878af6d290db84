/* The command line tool on real directories: `tenure check` and `tenure dump`, healthy and damaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/hash.h"
#include "kernel/state.h"
#include "lib/enginekit.h"

/* A directory with two snapshots and something after them. */
struct world {
    char dir[128];
    char output[65536];
    int code;
};

static int world_make(void **state) {
    struct world *world = calloc(1, sizeof *world);
    struct ekit_command command;
    struct ekit_answer answer;
    struct log_error error;
    assert_non_null(world);
    ekit_dir_make(world->dir);
    struct log_local_options local = {.dir = world->dir, .segment_bytes = 1 << 16};
    struct engine_options options = {.no_snapshot_at_close = true};
    ekit_limits_small(&options);
    struct engine *engine = ekit_open_local(&options, &local);
    ekit_run_ok(engine, ekit_pool(&command, "ports", 30000, 30099, 3600), &answer);
    for (unsigned i = 0; i < 2; i++) {
        ekit_run_ok(engine, ekit_alloc(&command, "ports", "a \"quoted\" holder", 2, "op/1\x01"),
                    &answer);
        assert_int_equal(engine_snapshot(engine, &error), TN_OK);
        ekit_run_ok(engine, ekit_alloc(&command, "ports", "job/1", 1, NULL), &answer);
    }
    assert_true(engine_close(engine));
    *state = world;
    return 0;
}

static int world_free(void **state) {
    struct world *world = *state;
    ekit_dir_remove(world->dir);
    free(world);
    return 0;
}

/* Runs the tool; output and errors together. */
static void tenure(struct world *world, const char *arguments) {
    const char *build = getenv("TENURE_BUILD_DIR");
    char line[512];
    if (build == NULL) {
        skip();
    }
    (void)snprintf(line, sizeof line, "'%s/tenure' %s 2>&1", build, arguments);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    size_t len = fread(world->output, 1, sizeof world->output - 1, pipe);
    world->output[len] = '\0';
    int status = pclose(pipe);
    assert_true(WIFEXITED(status));
    world->code = WEXITSTATUS(status);
}

static void tenure_on_dir(struct world *world, const char *subcommand, const char *more) {
    char arguments[256];
    (void)snprintf(arguments, sizeof arguments, "%s '%s' %s", subcommand, world->dir, more);
    tenure(world, arguments);
}

static void expect(const struct world *world, const char *words) {
    if (strstr(world->output, words) == NULL) {
        fail_msg("'%s' is not in: %s", words, world->output);
    }
}

static void flip(const struct world *world, const char *name, long offset) {
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", world->dir, name);
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    assert_int_equal(fseek(file, offset, SEEK_SET), 0);
    int byte = fgetc(file);
    assert_true(byte >= 0);
    assert_int_equal(fseek(file, offset, SEEK_SET), 0);
    assert_true(fputc(byte ^ 1, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void a_healthy_directory_checks_out(void **state) {
    struct world *world = *state;
    tenure_on_dir(world, "check", "");
    assert_int_equal(world->code, 0);
    expect(world, "last lsn 6");
    expect(world, "newest path snapshot of lsn 5, 1 commands");
    expect(world, "older path  snapshot of lsn 3, 3 commands");
    expect(world, "3 leases, 1 pools");
    expect(world, "\nok\n");
}

/* After a start from the older snapshot that one is the only one, and the log begins after it. */
static void one_way_to_the_state_is_enough(void **state) {
    struct world *world = *state;
    struct ekit_command command;
    struct ekit_answer answer;
    struct log_error error;
    struct log_local_options local = {.dir = world->dir, .segment_bytes = 1 << 16};
    struct engine_options options = {.no_snapshot_at_close = true};
    struct engine *engine = ekit_open_local(&options, &local);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 30; i++) {
            ekit_alloc_large(&command, "ports", "job/2", 1, NULL, KERNEL_META_MAX);
            (void)ekit_run(engine, &command, &answer);
        }
        assert_int_equal(engine_snapshot(engine, &error), TN_OK);
    }
    assert_true(engine_close(engine));
    tenure_on_dir(world, "check", "");
    assert_int_equal(world->code, 0);
    expect(world, "older path  snapshot of lsn");
    local.use_older_snapshot = true;
    assert_true(engine_close(ekit_open_local(&options, &local)));
    tenure_on_dir(world, "check", "");
    assert_int_equal(world->code, 0);
    expect(world, "older path  there is none");
    expect(world, "ok");
}

static void damage_is_named(void **state) {
    struct world *world = *state;
    flip(world, "0000000000000001.log", 4096 + 4096 + 70);
    tenure_on_dir(world, "check", "");
    assert_int_equal(world->code, 1);
    expect(world, "0000000000000001.log");
    expect(world, "offset 8192");
    tenure_on_dir(world, "dump", "");
    assert_int_equal(world->code, 1);
    expect(world, "0000000000000001.log");
}

static void a_damaged_snapshot_is_named_with_its_remedy(void **state) {
    struct world *world = *state;
    flip(world, "snapshot-0000000000000005.snap", 300);
    tenure_on_dir(world, "check", "");
    assert_int_equal(world->code, 1);
    expect(world, "snapshot-0000000000000005.snap");
    expect(world, "--use-older-snapshot");
}

#define FIRST_SECTION UINT32_MAX

/* Writes four bytes into the first record of a table, and makes all checksums right again. */
static void forge(const struct world *world, const char *name, uint32_t table, size_t offset,
                  uint32_t value) {
    static uint8_t bytes[1 << 20];
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", world->dir, name);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    uint8_t *footer = bytes + size - 32;
    uint32_t chain = 0;
    bool meta = true;
    for (uint8_t *section = bytes + 64; section < footer;) {
        uint32_t len = tn_load32(section + 4);
        if (meta && table == FIRST_SECTION) {
            tn_store32(section + 12 + offset, value);
        } else if (!meta && tn_load32(section + 12) == table) {
            tn_store32(section + 24 + offset, value);
        }
        meta = false;
        tn_store32(section + 8, tn_crc32c(tn_crc32c(0, section, 8), section + 12, len));
        chain = tn_crc32c(chain, section + 8, 4);
        section += 12 + len;
    }
    tn_store32(footer + 24, chain);
    tn_store32(footer + 28, tn_crc32c(0, footer, 28));
    rewind(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void a_snapshot_that_contradicts_itself_is_named(void **state) {
    struct world *world = *state;
    forge(world, "snapshot-0000000000000005.snap", TABLE_LEASE, offsetof(struct lease, holder),
          1000);
    tenure_on_dir(world, "check", "");
    assert_int_equal(world->code, 1);
    expect(world, "snapshot-0000000000000005.snap");
    expect(world, "the snapshot's records do not agree");
    expect(world, "--use-older-snapshot");
}

static void a_snapshot_of_another_version_is_not_called_damaged(void **state) {
    struct world *world = *state;
    for (uint32_t version = KERNEL_STATE_OLDEST - 1; version <= KERNEL_STATE_VERSION + 1;
         version += KERNEL_STATE_VERSION - KERNEL_STATE_OLDEST + 2) {
        char said[100];
        forge(world, "snapshot-0000000000000005.snap", FIRST_SECTION, 0, version);
        tenure_on_dir(world, "check", "");
        assert_int_equal(world->code, 1);
        (void)snprintf(said, sizeof said, "the snapshot's state is of version %u", version);
        expect(world, said);
        expect(world, "start the version of tenured that wrote it");
    }
}

static void a_snapshot_whose_numbers_are_wrong_is_not_sound(void **state) {
    struct world *world = *state;
    forge(world, "snapshot-0000000000000005.snap", TABLE_LEASE, offsetof(struct lease, epoch), 0);
    tenure_on_dir(world, "check", "");
    assert_int_equal(world->code, 1);
    expect(world, "a lease is from the future [0]");
}

static void a_dump_has_a_line_for_each_command(void **state) {
    struct world *world = *state;
    tenure_on_dir(world, "dump", "");
    assert_int_equal(world->code, 0);
    expect(world, "lsn=3 ");
    expect(world, "snapshot=yes\n");
    expect(world, "verb=alloc rights=operator holder=job/1 claims=ports:1\n");
    expect(world, "opid=\"op/1\\u0001\" holder=\"a \\\"quoted\\\" holder\" claims=ports:2\n");
    tenure_on_dir(world, "dump", "--json");
    assert_int_equal(world->code, 0);
    expect(world, "{\"lsn\":\"6\",\"time\":\"");
    expect(world, "\"verb\":\"alloc\",\"rights\":\"operator\",\"holder\":\"job/1\","
                  "\"claims\":[{\"pool\":\"ports\",\"count\":1}]}\n");
}

static void checking_changes_nothing(void **state) {
    struct world *world = *state;
    char before[8192];
    char arguments[256];
    (void)snprintf(arguments, sizeof arguments, "help >/dev/null; cd '%s' && cksum *", world->dir);
    tenure(world, arguments);
    (void)snprintf(before, sizeof before, "%.8000s", world->output);
    tenure_on_dir(world, "check", "");
    tenure_on_dir(world, "dump", "");
    tenure(world, arguments);
    assert_string_equal(world->output, before);
}

/* Runs a shell command on the world's directory, in place of the tool. */
static void shell(struct world *world, const char *command) {
    char arguments[448];
    (void)snprintf(arguments, sizeof arguments, "help >/dev/null; cd '%s' && %s", world->dir,
                   command);
    tenure(world, arguments);
}

/* The documented backup: a snapshot, copied alone into an empty directory. */
static void a_backup_of_one_snapshot_checks_out(void **state) {
    struct world *world = *state;
    shell(world, "rm -f *.log lock spare-*");
    tenure_on_dir(world, "check", "");
    assert_int_equal(world->code, 0);
    expect(world, "last lsn 5");
    expect(world, "backup      2 snapshots, no log");
    expect(world, "\nok\n");
    tenure_on_dir(world, "dump", "");
    assert_int_equal(world->code, 0);
    expect(world, "lsn=5");
    shell(world, "rm -f snapshot-0000000000000003.snap");
    tenure_on_dir(world, "check", "");
    assert_int_equal(world->code, 0);
    expect(world, "backup      1 snapshot, no log");
    flip(world, "snapshot-0000000000000005.snap", 200);
    tenure_on_dir(world, "check", "");
    assert_int_equal(world->code, 1);
}

/* The lock file says that there was a log: this is no backup but a directory that lost its log. */
static void a_directory_that_lost_its_log_is_no_backup(void **state) {
    struct world *world = *state;
    shell(world, "rm -f *.log");
    tenure_on_dir(world, "check", "");
    assert_int_equal(world->code, 1);
    expect(world, "no log segment");
}

static void a_directory_of_something_else_is_refused(void **state) {
    struct world *world = *state;
    for (unsigned i = 0; i < 2; i++) {
        tenure(world, i == 0 ? "check /etc" : "dump /etc");
        assert_int_equal(world->code, 1);
        expect(world, "neither a data directory nor a backup");
    }
    shell(world, "rm -f *");
    tenure_on_dir(world, "check", "");
    assert_int_equal(world->code, 1);
}

static void a_wrong_command_line_is_told_how_it_goes(void **state) {
    struct world *world = *state;
    tenure(world, "");
    assert_int_equal(world->code, 2);
    expect(world, "usage: tenure");
    tenure(world, "levitate");
    assert_int_equal(world->code, 2);
    expect(world, "levitate");
    tenure(world, "check");
    assert_int_equal(world->code, 2);
    expect(world, "usage: tenure check DIR");
    tenure(world, "dump --json");
    assert_int_equal(world->code, 2);
    tenure(world, "help");
    assert_int_equal(world->code, 0);
    expect(world, "dump");
    tenure(world, "--version");
    assert_int_equal(world->code, 0);
    tenure(world, "check /nowhere/at/all");
    assert_int_equal(world->code, 1);
}

#define WORLD_TEST(name) cmocka_unit_test_setup_teardown(name, world_make, world_free)

int main(void) {
    const struct CMUnitTest tests[] = {
        WORLD_TEST(a_healthy_directory_checks_out),
        WORLD_TEST(one_way_to_the_state_is_enough),
        WORLD_TEST(damage_is_named),
        WORLD_TEST(a_damaged_snapshot_is_named_with_its_remedy),
        WORLD_TEST(a_snapshot_that_contradicts_itself_is_named),
        WORLD_TEST(a_snapshot_of_another_version_is_not_called_damaged),
        WORLD_TEST(a_snapshot_whose_numbers_are_wrong_is_not_sound),
        WORLD_TEST(a_dump_has_a_line_for_each_command),
        WORLD_TEST(checking_changes_nothing),
        WORLD_TEST(a_backup_of_one_snapshot_checks_out),
        WORLD_TEST(a_directory_that_lost_its_log_is_no_backup),
        WORLD_TEST(a_directory_of_something_else_is_refused),
        WORLD_TEST(a_wrong_command_line_is_told_how_it_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
