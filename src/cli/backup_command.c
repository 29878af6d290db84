/* `tenure backup DIR`: a backup of a running server, over its RESP port, into a directory of this machine.
 *
 * The server names the files of a copy that is consistent at one log position and sends their bytes. What
 * the backup before has already is not asked for again: a file that did not change is linked, a segment
 * that has grown is continued. The server ends a backup that nobody reads from for a minute, so what can take
 * long on this machine's disk is done before BACKUP BEGIN (verifying the backup before) or after BACKUP END
 * (copying from it, and syncing). The backup is complete, durable and verified before it gets its name; an
 * interruption at any point leaves those before it as they were. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "cli/backup_files.h"
#include "cli/check_dir.h"
#include "cli/options.h"
#include "cli/scan.h"
#include "os/os.h"

/* Bytes of a file that are compared: a segment's header contains a random salt. */
#define HEAD_BYTES 4096u

struct backup {
    const struct cli_settings *settings;
    struct cli_client client;
    const char *dir;
    char partial[BACKUP_PATH];
    char before_dir[BACKUP_PATH];  /* directory of the previous backup; empty: none */
    struct backup_manifest before; /* its files */
    struct backup_manifest now;
    char number[24];         /* number of the backup at the server */
    uint64_t copied, linked; /* bytes */
    bool keys;
};

/* ---- The server's side ---- */

#define PIECE_WORDS 7u

struct piece_words {
    struct tn_bytes at[PIECE_WORDS];
    char offset[24];
};

static void piece_words(const struct backup *backup, const char *name, uint64_t offset,
                        struct piece_words *ret_words) {
    (void)snprintf(ret_words->offset, sizeof ret_words->offset, "%" PRIu64, offset);
    const char *const texts[PIECE_WORDS] = {"BACKUP",          "READ",  backup->number, name,
                                            ret_words->offset, "COUNT", "65536"};
    for (uint32_t i = 0; i < PIECE_WORDS; i++) {
        ret_words->at[i] = tn_bytes_of(texts[i], (uint32_t)strlen(texts[i]));
    }
}

/* The server may have removed an old file of events since it listed it. */
#define PIECE_GONE (-1)

static bool reply_is_gone(const struct cli_reader *reader, const struct backup_file *file) {
    struct tn_bytes text = cli_node_text(reader, 0);
    return strcmp(file->kind, "events") == 0 && reader->nodes[0].type == CLI_ERROR &&
           text.len >= 8 && memcmp(text.at, "NOTFOUND", 8) == 0;
}

/* Reads bytes of a file from `offset` on. They are in client.reader until the next call. CLI_OK,
 * PIECE_GONE, or the exit code, after the error was printed. */
static int piece_ask(struct backup *backup, const struct backup_file *file, uint64_t offset,
                     struct tn_bytes *ret_piece) {
    struct cli_client *client = &backup->client;
    struct piece_words words;
    piece_words(backup, file->name, offset, &words);
    enum cli_link link =
        cli_client_call(client, words.at, PIECE_WORDS, backup->settings->timeout_ms);
    if (link != CLI_LINK_OK) {
        return cli_client_unreachable(client);
    }
    if (reply_is_gone(&client->reader, file)) {
        return PIECE_GONE;
    }
    int code = cli_reply_told(client);
    *ret_piece = code == CLI_OK ? cli_node_text(&client->reader, 0) : tn_bytes_of("", 0);
    return code;
}

/* Copies the rest of a file, from `at` on, from the server. */
static int rest_fetch(struct backup *backup, struct backup_file *file, const char *to, int out,
                      uint64_t at) {
    while (at < file->bytes) {
        struct tn_bytes piece = tn_bytes_of("", 0);
        int code = piece_ask(backup, file, at, &piece);
        if (code != CLI_OK) {
            return code;
        }
        if (piece.len == 0 || piece.len > file->bytes - at) {
            (void)backup_fail("%s: the server sent %u bytes at %" PRIu64, file->name, piece.len,
                              at);
            return CLI_FAILED;
        }
        if (!backup_put(out, to, piece.at, piece.len, at)) {
            return CLI_FAILED;
        }
        file->crc = tn_crc32c(file->crc, piece.at, piece.len);
        at += piece.len;
        backup->copied += piece.len;
    }
    return CLI_OK;
}

/* ---- What the backup before has ---- */

static bool bytes_same(const char *path, uint64_t offset, struct tn_bytes bytes) {
    static uint8_t ours[HEAD_BYTES];
    const struct os *os = os_posix();
    size_t len = bytes.len < HEAD_BYTES ? bytes.len : HEAD_BYTES, got = 0;
    int file;
    if (os->open(os->ctx, path, OS_READ, &file) != TN_OK) {
        return false;
    }
    enum tn_status status = os->read_at(os->ctx, file, ours, len, offset, &got);
    (void)os->close(os->ctx, file);
    return status == TN_OK && got == len && memcmp(ours, bytes.at, len) == 0;
}

static const struct backup_file *newest_events(const struct backup_manifest *manifest) {
    const struct backup_file *newest = NULL;
    for (uint32_t i = 0; i < manifest->count; i++) {
        newest = strcmp(manifest->files[i].kind, "events") == 0 ? &manifest->files[i] : newest;
    }
    return newest;
}

/* All files of events except the newest are final. */
static bool is_useful(const struct backup *backup, const struct backup_file *before) {
    return before->bytes >= HEAD_BYTES && strcmp(before->kind, "other") != 0 &&
           (strcmp(before->kind, "events") != 0 || before != newest_events(&backup->before));
}

/* Finds out which files of the previous backup are as they were. All later backups would link to a
 * damaged one. */
static void before_verify(struct backup *backup) {
    for (uint32_t i = 0; i < backup->before.count; i++) {
        struct backup_file *before = &backup->before.files[i];
        if (!is_useful(backup, before)) {
            continue;
        }
        before->is_verified = backup_verify(backup->before_dir, before);
        if (!before->is_verified) {
            (void)backup_fail("%s/%s is not used; it is copied again if the server still has it",
                              backup->before_dir, before->name);
        }
    }
}

/* The bytes of a file that the previous backup has and that are unchanged. A segment begins with a
 * header that no other segment has, and its frames are never rewritten. A snapshot is also compared
 * at its end, where its checksum is. */
static int known_bytes(struct backup *backup, const struct backup_file *file, const char *path,
                       uint64_t *ret_bytes) {
    const struct backup_file *before = backup_manifest_find(&backup->before, file->name);
    bool log = strcmp(file->kind, "log") == 0;
    struct tn_bytes piece = tn_bytes_of("", 0);
    *ret_bytes = 0;
    if (before == NULL || !before->is_verified ||
        backup->before.generation != backup->now.generation ||
        strcmp(before->kind, file->kind) != 0 ||
        (log ? before->bytes > file->bytes : before->bytes != file->bytes)) {
        return CLI_OK;
    }
    int code = piece_ask(backup, file, 0, &piece);
    if (code != CLI_OK || !bytes_same(path, 0, piece)) {
        return code;
    }
    if (!log) {
        uint64_t tail = before->bytes - HEAD_BYTES;
        code = piece_ask(backup, file, tail, &piece);
        if (code != CLI_OK || !bytes_same(path, tail, piece)) {
            return code;
        }
    }
    *ret_bytes = before->bytes;
    return CLI_OK;
}

/* ---- One file ---- */

/* True: the file exists as a hard link. */
static bool file_link(struct backup *backup, struct backup_file *file, const char *from,
                      const char *to) {
    const struct backup_file *before = backup_manifest_find(&backup->before, file->name);
    if (before->bytes != file->bytes || before->size != file->size || link(from, to) != 0) {
        return false; /* the file system may have no links, so the file is copied */
    }
    file->crc = before->crc;
    file->is_verified = true;
    backup->linked += file->bytes;
    return true;
}

/* Fetches what follows the first `known` bytes, which file_finish copies. */
static int file_fetch(struct backup *backup, struct backup_file *file, uint64_t known,
                      const char *to) {
    int out = backup_create(to);
    if (out < 0) {
        return CLI_FAILED;
    }
    if (known > 0) {
        file->known = known;
        file->crc = backup_manifest_find(&backup->before, file->name)->crc;
        backup->linked += known;
    }
    int code = rest_fetch(backup, file, to, out, known);
    backup_close(out);
    return code;
}

static int file_make(struct backup *backup, struct backup_file *file) {
    char from[BACKUP_PATH] = "", to[BACKUP_PATH];
    uint64_t known = 0;
    int code = CLI_OK;
    if (!backup_path(to, backup->partial, file->name)) {
        return CLI_FAILED;
    }
    if (backup->before_dir[0] != '\0') {
        code = backup_path(from, backup->before_dir, file->name)
                   ? known_bytes(backup, file, from, &known)
                   : CLI_FAILED;
    }
    if (code != CLI_OK || (known > 0 && file_link(backup, file, from, to))) {
        return code;
    }
    return file_fetch(backup, file, known, to);
}

/* Copies what the file has in common with the one before, and makes the whole durable. */
static bool file_finish(const struct backup *backup, const struct backup_file *file) {
    char from[BACKUP_PATH], to[BACKUP_PATH];
    uint32_t crc = 0; /* all is verified later */
    if (!backup_path(from, backup->before_dir, file->name) ||
        !backup_path(to, backup->partial, file->name)) {
        return false;
    }
    int out = backup_open(to);
    if (out < 0) {
        return false;
    }
    bool good = file->known == 0 || backup_copy(from, file->known, out, &crc);
    return backup_finish(out, to, file->size) && good;
}

static bool files_finish(const struct backup *backup) {
    for (uint32_t i = 0; i < backup->now.count; i++) {
        const struct backup_file *file = &backup->now.files[i];
        if (!file->is_verified && !file_finish(backup, file)) {
            return false;
        }
    }
    return true;
}

/* Removes the copied part of a file that no longer exists. */
static bool file_drop(const struct backup *backup, const struct backup_file *file) {
    char path[BACKUP_PATH];
    return backup_path(path, backup->partial, file->name) && backup_remove_file(path);
}

static int files_make(struct backup *backup) {
    struct backup_manifest *now = &backup->now;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < now->count; i++) {
        struct backup_file file = now->files[i];
        if (strcmp(file.kind, "other") == 0 && !backup->keys) {
            continue;
        }
        int code = file_make(backup, &file);
        if (code == CLI_OK) {
            now->files[kept++] = file;
        } else if (code != PIECE_GONE || !file_drop(backup, &file)) {
            return code == PIECE_GONE ? CLI_FAILED : code;
        }
    }
    now->count = kept;
    return CLI_OK;
}

/* ---- The whole ---- */

static bool file_read(const struct cli_reader *reader, uint32_t node, struct backup_file *file) {
    struct tn_bytes name = cli_field(reader, node, "name");
    struct tn_bytes kind = cli_field(reader, node, "kind");
    if (name.len >= sizeof file->name || kind.len >= sizeof file->kind) {
        return false;
    }
    memcpy(file->name, name.at, name.len);
    memcpy(file->kind, kind.at, kind.len);
    file->bytes = cli_field_number(reader, node, "bytes");
    file->size = cli_field_number(reader, node, "size");
    return backup_name_fits(file->name) && file->bytes <= file->size &&
           (strcmp(file->kind, "snapshot") == 0 || strcmp(file->kind, "log") == 0 ||
            strcmp(file->kind, "events") == 0 || strcmp(file->kind, "other") == 0);
}

static int begin(struct backup *backup) {
    const struct tn_bytes words[] = {tn_bytes_of("BACKUP", 6), tn_bytes_of("BEGIN", 5)};
    const struct cli_reader *reader = &backup->client.reader;
    struct backup_manifest *now = &backup->now;
    int code = cli_ask(backup->settings, &backup->client, words, 2);
    if (code != CLI_OK) {
        return code;
    }
    uint32_t files = cli_node_find(reader, 0, "files");
    uint32_t count = files != 0 ? reader->nodes[files].count : 0;
    (void)snprintf(backup->number, sizeof backup->number, "%" PRIu64,
                   cli_field_number(reader, 0, "backup"));
    now->lsn = cli_field_number(reader, 0, "lsn");
    now->now_ms = cli_field_number(reader, 0, "now_ms");
    now->generation = cli_field_number(reader, 0, "generation");
    now->files = count <= BACKUP_FILES_MAX ? calloc(count + 1, sizeof *now->files) : NULL;
    bool good = now->files != NULL && count > 0;
    for (uint32_t at = files + 1; good && at < reader->nodes[files].end;
         at = reader->nodes[at].end) {
        good = file_read(reader, at, &now->files[now->count++]);
    }
    if (!good) {
        (void)backup_fail("the server's list of files is invalid");
        return CLI_FAILED;
    }
    return CLI_OK;
}

/* False: the server has ended the backup before, so listed files may be missing. */
static bool end(struct backup *backup) {
    const struct tn_bytes words[] = {tn_bytes_of("BACKUP", 6), tn_bytes_of("END", 3),
                                     tn_bytes_of(backup->number, (uint32_t)strlen(backup->number))};
    /* If the server does not receive it, it ends the backup by itself within a minute. */
    return cli_client_call(&backup->client, words, 3, backup->settings->timeout_ms) ==
               CLI_LINK_OK &&
           backup->client.reader.nodes[0].type != CLI_ERROR;
}

/* Whether this backup is of the same server as the others in the directory. */
static bool is_next(const struct backup *backup) {
    const struct backup_manifest *before = &backup->before;
    const struct backup_manifest *now = &backup->now;
    if (backup->before_dir[0] == '\0' || before->generation < now->generation ||
        (before->generation == now->generation && before->lsn <= now->lsn)) {
        return true;
    }
    return backup_fail("%s is newer than this server's state (generation %" PRIu64 ", lsn %" PRIu64
                       "): it is of another server, or this one was restored from an older backup; "
                       "use another directory",
                       backup->before_dir, now->generation, now->lsn);
}

static bool verify(const struct backup *backup) {
    char *argv[] = {(char *)(uintptr_t)backup->partial};
    for (uint32_t i = 0; i < backup->now.count; i++) {
        const struct backup_file *file = &backup->now.files[i];
        if (!file->is_verified && !backup_verify(backup->partial, file)) {
            return false;
        }
    }
    return cli_check(1, argv) == CLI_OK;
}

/* Gives the verified backup its name, replacing one of the same position. */
static bool publish(const struct backup *backup, char final[BACKUP_PATH]) {
    char name[BACKUP_NAME];
    (void)snprintf(name, sizeof name, BACKUP_PREFIX "%08" PRIx64 "-%016" PRIx64,
                   backup->now.generation, backup->now.lsn);
    if (!backup_path(final, backup->dir, name) ||
        !backup_manifest_write(backup->partial, &backup->now) ||
        !backup_sync_dir(backup->partial)) {
        return false;
    }
    bool there = access(final, F_OK) == 0;
    if (renameat2(AT_FDCWD, backup->partial, AT_FDCWD, final, there ? RENAME_EXCHANGE : 0) != 0) {
        return backup_fail("%s: %s", final, strerror(errno));
    }
    return backup_sync_dir(backup->dir) && (!there || backup_remove(backup->partial));
}

static void tell(const struct backup *backup, const char *final, uint32_t removed) {
    uint64_t total = 0;
    bool keys = false;
    for (uint32_t i = 0; i < backup->now.count; i++) {
        total += backup->now.files[i].bytes;
        keys |= strcmp(backup->now.files[i].kind, "other") == 0;
    }
    (void)printf("backup      %s\n", final);
    (void)printf("holds       state and log up to lsn %" PRIu64 ", events, %s\n", backup->now.lsn,
                 keys           ? "token keys"
                 : backup->keys ? "no token keys (connect by --socket or as a user with the role "
                                  "admin to include them)"
                                : "no token keys (--no-keys)");
    (void)printf("size        %" PRIu64 " bytes in %u files: %" PRIu64 " copied, %" PRIu64
                 " as in the backup before\n",
                 total, backup->now.count, backup->copied, backup->linked);
    if (removed > 0) {
        (void)printf("removed     %u older backup%s (--keep)\n", removed, removed > 1 ? "s" : "");
    }
}

/* If the list of the backup before is damaged, nothing of that backup is used; its name says its
 * position. */
static void before_read(struct backup *backup) {
    if (!backup_manifest_read(backup->before_dir, &backup->before)) {
        backup_position(backup->before_dir, &backup->before);
        (void)backup_fail("all files are copied again from the server");
    }
}

/* Whether backups may be made in the directory. An interrupted backup leaves `partial`, which is removed, beside the
 * lock file; without that, it is another program's. */
static bool dir_is_ours(const char *dir) {
    struct check_dir kind;
    struct stat st;
    char lock[BACKUP_PATH], partial[BACKUP_PATH];
    check_dir_look(dir, &kind);
    if (kind.kind == CHECK_DIR_UNREADABLE) {
        return backup_fail("%s: %s", dir, strerror(kind.error));
    }
    if (kind.kind != CHECK_DIR_OTHER && !backup_manifest_expected(dir)) {
        return backup_fail("%s is a data directory; use another one, best on another disk", dir);
    }
    if (!backup_path(lock, dir, ".lock") || !backup_path(partial, dir, BACKUP_PARTIAL)) {
        return false;
    }
    return access(lock, F_OK) == 0 || lstat(partial, &st) != 0 ||
           backup_fail("%s is not of tenure backup; use another directory", partial);
}

/* Locks the directory, and finds the previous backup. */
static bool dir_take(struct backup *backup) {
    if (mkdir(backup->dir, 0700) != 0 && errno != EEXIST) {
        return backup_fail("%s: %s", backup->dir, strerror(errno));
    }
    if (!dir_is_ours(backup->dir)) {
        return false;
    }
    if (!backup_lock(backup->dir) || !backup_path(backup->partial, backup->dir, BACKUP_PARTIAL) ||
        !backup_remove(backup->partial)) {
        return false;
    }
    if (!backup_newest(backup->dir, backup->before_dir)) {
        backup->before_dir[0] = '\0';
    } else if (strcmp(backup->before_dir, backup->dir) == 0) {
        return backup_fail("%s is a backup; name the directory above it", backup->dir);
    } else {
        before_read(backup);
    }
    return true;
}

/* Connects, and verifies the previous backup. The server may disconnect a client that says nothing
 * meanwhile, so that is done between two connections; the first one finds mistakes early. */
static int connect_verified(struct backup *backup) {
    struct cli_client *client = &backup->client;
    enum cli_link link = cli_client_open(client, backup->settings);
    if (link == CLI_LINK_OK && backup->before.count > 0) {
        cli_client_close(client);
        before_verify(backup);
        link = cli_client_open(client, backup->settings);
    }
    return link == CLI_LINK_OK ? CLI_OK : cli_client_unreachable(client);
}

/* What is done while the server has the backup open. */
static int fetch(struct backup *backup) {
    int code = begin(backup);
    if (code != CLI_OK) {
        return code;
    }
    if (!is_next(backup)) {
        code = CLI_FAILED;
    } else if (mkdir(backup->partial, 0700) != 0) {
        (void)backup_fail("%s: %s", backup->partial, strerror(errno));
        code = CLI_FAILED;
    } else {
        code = files_make(backup);
    }
    if (!end(backup) && code == CLI_OK) {
        (void)backup_fail("the server has ended the backup before it was complete; try again");
        code = CLI_FAILED;
    }
    return code;
}

static int run(struct backup *backup, uint64_t keep) {
    char final[BACKUP_PATH];
    if (!dir_take(backup)) {
        return CLI_FAILED;
    }
    int code = connect_verified(backup);
    if (code == CLI_OK) {
        code = fetch(backup);
    }
    if (code == CLI_OK && !(files_finish(backup) && verify(backup) && publish(backup, final))) {
        code = CLI_FAILED;
    }
    if (code == CLI_OK) {
        tell(backup, final, backup_prune(backup->dir, keep));
    } else {
        (void)backup_remove(backup->partial);
    }
    return code;
}

int cli_backup(const struct cli_settings *settings, int argc, char **argv) {
    struct backup *backup = calloc(1, sizeof *backup);
    const char *keep_text = "1";
    bool no_keys = false;
    const struct cli_option rows[] = {{"--keep", &keep_text, NULL}, {"--no-keys", NULL, &no_keys}};
    if (backup == NULL) {
        return CLI_FAILED;
    }
    *backup = (struct backup){.settings = settings, .client = {.socket = -1}};
    const struct cli_options options = {
        "backup", "DIR [--keep N] [--no-keys]", rows, 2, &backup->dir, 1};
    int code = CLI_USAGE;
    if (cli_options_parse(&options, argc, argv)) {
        char *rest;
        unsigned long keep = strtoul(keep_text, &rest, 10);
        if (backup->dir == NULL || backup->dir[0] == '\0') {
            (void)cli_options_wrong(&options, "missing argument ", "DIR");
        } else if (*rest != '\0' || keep < 1 || keep > 1000000) {
            (void)cli_options_wrong(&options, "not a number from 1 to 1000000: ", keep_text);
        } else {
            backup->keys = !no_keys;
            code = run(backup, keep);
        }
    }
    cli_client_close(&backup->client);
    backup_manifest_free(&backup->before);
    backup_manifest_free(&backup->now);
    free(backup);
    return code;
}
