/* A backup that no client reads from ends after a minute, by a clock of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/enginekit.h"
#include "server/backup_job.h"

#define BEGUN_MS 5000u

static char dir[128];
static struct engine *engine;
static struct server_backup backup;

static int setup(void **state) {
    (void)state;
    ekit_dir_make(dir);
    struct engine_options options = {.events_max = 100};
    ekit_limits_small(&options);
    struct log_local_options local = {.dir = dir};
    engine = ekit_open_local(&options, &local);
    backup = (struct server_backup){.number = 1, .used_ms = BEGUN_MS};
    return engine_backup_begin(engine, NULL, &backup.copy) != TN_OK;
}

static int teardown(void **state) {
    (void)state;
    server_backup_free(&backup);
    assert_null(backup.copy.files);
    (void)engine_close(engine);
    ekit_dir_remove(dir);
    return 0;
}

static void a_backup_stays_open_for_a_minute(void **state) {
    (void)state;
    server_backup_check(&backup, BEGUN_MS);
    assert_non_null(backup.copy.files);
    server_backup_check(&backup, BEGUN_MS + SERVER_BACKUP_IDLE_MS);
    assert_non_null(backup.copy.files);
}

static void an_idle_backup_ends_after_a_minute_and_lets_go_of_the_files(void **state) {
    (void)state;
    server_backup_check(&backup, BEGUN_MS + SERVER_BACKUP_IDLE_MS + 1);
    assert_null(backup.copy.files);
    server_backup_check(&backup, BEGUN_MS + 10 * SERVER_BACKUP_IDLE_MS); /* no backup to end */
    assert_int_equal(engine_backup_begin(engine, NULL, &backup.copy), TN_OK);
}

static void a_read_begins_the_minute_anew(void **state) {
    (void)state;
    backup.used_ms = BEGUN_MS + SERVER_BACKUP_IDLE_MS;
    server_backup_check(&backup, BEGUN_MS + 2 * SERVER_BACKUP_IDLE_MS);
    assert_non_null(backup.copy.files);
    server_backup_check(&backup, BEGUN_MS + 2 * SERVER_BACKUP_IDLE_MS + 1);
    assert_null(backup.copy.files);
}

static void a_backup_that_is_being_read_does_not_end(void **state) {
    struct server_slot slot;
    (void)state;
    backup.slot = &slot;
    server_backup_check(&backup, BEGUN_MS + 10 * SERVER_BACKUP_IDLE_MS);
    assert_non_null(backup.copy.files);
    backup.slot = NULL;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_backup_stays_open_for_a_minute, setup, teardown),
        cmocka_unit_test_setup_teardown(an_idle_backup_ends_after_a_minute_and_lets_go_of_the_files,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_read_begins_the_minute_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(a_backup_that_is_being_read_does_not_end, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
