/* `tenure check DIR`: verifies a data directory or a backup offline and changes nothing in it.
 *
 * It reads every frame of every segment, and every snapshot. If possible, it builds the state
 * twice, from the newest snapshot and from the previous one (or from the beginning); both must
 * agree, with every invariant intact. It can run while a server uses the directory; the last batch
 * may then be incomplete. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/backup_files.h"
#include "cli/check_dir.h"
#include "cli/check_pass.h"
#include "cli/cli.h"

static void check_note(void *ctx, const char *line) {
    (void)ctx;
    (void)printf("note        %s\n", line);
}

static int check_failed(const char *what, enum tn_status status, const struct log_error *error) {
    (void)fflush(stdout);
    (void)fprintf(stderr, "tenure check: %s: %s: %s\n", what, tn_status_text(status), error->text);
    return CLI_FAILED;
}

static void check_print_path(const char *name, const struct engine_report *report) {
    if (report->snapshot_lsn > 0) {
        (void)printf("%-11s snapshot of lsn %" PRIu64, name, report->snapshot_lsn);
    } else {
        (void)printf("%-11s no snapshot", name);
    }
    (void)printf(", %" PRIu64 " commands replayed in %" PRIu64 " ms\n", report->commands,
                 report->ns / 1000000u);
}

static void check_print(const char *dir, const struct engine_report *report) {
    const struct log_stats *log = &report->log;
    const struct kernel_usage *usage = &report->usage;
    (void)printf("directory   %s\n", dir);
    (void)printf("log         %" PRIu64 " segments, %" PRIu64 " bytes, last lsn %" PRIu64 "\n",
                 log->segments, log->log_bytes, report->position.lsn);
    if (log->torn_tail_bytes > 0) {
        (void)printf("torn tail   %" PRIu64 " bytes of a batch that was never acknowledged\n",
                     log->torn_tail_bytes);
    }
    check_print_path("newest path", report);
    (void)printf("shard       %" PRIu64 ", generation %" PRIu64 "\n",
                 report->position.shard & UINT32_MAX, report->position.shard >> 32);
    (void)printf("state       %" PRIu64 " leases, %" PRIu64 " pools, %" PRIu64 " names, %" PRIu64
                 " operations, %" PRIu64 " rules, %" PRIu64 " sensors\n",
                 usage->leases, usage->pools, usage->names, usage->ops, usage->rules,
                 usage->sensors);
    (void)printf("state hash  %016" PRIx64 "\n", report->hash);
}

/* Whether the older snapshot leads to the same state. After a start from it, and after a restore,
 * there may be only one snapshot. */
static bool check_has_older(const struct check_dir *datadir, const struct engine_report *newest) {
    return newest->log.snapshots >= 2 || (newest->log.snapshots == 1 && datadir->begins == 1);
}

/* Verifies the way from the older snapshot. */
static int check_older(const char *dir, const struct engine_report *newest) {
    struct engine_report older;
    struct log_error error;
    enum tn_status status =
        check_pass(dir, (struct check_way){.older = true}, NULL, &older, &error);
    if (status != TN_OK) {
        return check_failed("from the older snapshot", status, &error);
    }
    if (older.position.lsn != newest->position.lsn || older.hash != newest->hash) {
        (void)fflush(stdout);
        (void)fprintf(stderr,
                      "tenure check: the previous snapshot leads to another state (lsn %" PRIu64
                      ", hash %016" PRIx64 "): the newest snapshot or the log has changed since it "
                      "was written; keep the directory and start with --use-older-snapshot\n",
                      older.position.lsn, older.hash);
        return CLI_FAILED;
    }
    check_print_path("older path", &older);
    return CLI_OK;
}

static int check_found(const char *dir, const struct check_dir *datadir,
                       const struct engine_report *report) {
    check_print(dir, report);
    if (!report->sound) {
        (void)fflush(stdout);
        (void)fprintf(stderr,
                      "tenure check: the state breaks an invariant: %s; this is a bug: keep "
                      "the directory and report it\n",
                      report->why);
        return CLI_FAILED;
    }
    if (datadir->kind == CHECK_DIR_BACKUP) {
        (void)printf("backup      %zu snapshot%s, no log; restore the newest with "
                     "`tenured --restored`\n",
                     datadir->snapshots, datadir->snapshots == 1 ? "" : "s");
    } else if (!check_has_older(datadir, report)) {
        (void)printf("older path  there is none: %s\n", report->snapshot_lsn > 0
                                                            ? "one snapshot, and the log since then"
                                                            : "no snapshot, and the whole log");
    } else if (check_older(dir, report) != CLI_OK) {
        return CLI_FAILED;
    }
    (void)printf("ok\n");
    return CLI_OK;
}

/* Verifies the checksums that `tenure backup` has listed with the files. Without its list, no backup can be
 * restored. */
static bool check_listed(const char *dir) {
    struct backup_manifest manifest;
    if (!backup_manifest_expected(dir)) {
        return true;
    }
    if (!backup_manifest_read(dir, &manifest)) {
        return false;
    }
    bool good = true;
    for (uint32_t i = 0; i < manifest.count; i++) {
        good = backup_verify(dir, &manifest.files[i]) && good;
    }
    backup_manifest_free(&manifest);
    return good;
}

static int check_one(const char *dir, const struct check_dir *datadir) {
    struct engine_report report;
    struct log_error error;
    struct check_way way = {.backup = datadir->kind == CHECK_DIR_BACKUP};
    enum tn_status status = check_pass(dir, way, check_note, &report, &error);
    if (status != TN_OK) {
        return check_failed(dir, status, &error);
    }
    if (report.empty) {
        (void)printf("directory   %s\nan empty data directory: nothing was written to it\n", dir);
        return CLI_OK;
    }
    return check_found(dir, datadir, &report);
}

int cli_check(int argc, char **argv) {
    if (argc != 1 || argv[0][0] == '-') {
        (void)fprintf(stderr, "usage: tenure check DIR\n");
        return CLI_USAGE;
    }
    const char *advice = NULL;
    const char *restored = check_dir_restored(argv[0], &advice);
    if (restored != NULL) {
        (void)fprintf(stderr, "tenure check: %s: %s; %s\n", argv[0], restored, advice);
        return CLI_FAILED;
    }
    return cli_check_content(argv[0]);
}

int cli_check_content(const char *dir) {
    struct check_dir datadir;
    char newest[BACKUP_PATH];
    const char *checked = dir;
    check_dir_look(checked, &datadir);
    if (datadir.kind == CHECK_DIR_OTHER && backup_newest(dir, newest)) {
        checked = newest; /* the newest one in a directory of backups */
        check_dir_look(checked, &datadir);
    }
    if (datadir.kind == CHECK_DIR_OTHER || datadir.kind == CHECK_DIR_UNREADABLE) {
        check_dir_refuse("check", dir, &datadir);
        return CLI_FAILED;
    }
    return check_listed(checked) ? check_one(checked, &datadir) : CLI_FAILED;
}
