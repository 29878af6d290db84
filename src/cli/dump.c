/* `tenure dump DIR [--json]`: every command in the log, a line each, with its fields by name.
 *
 * It starts at the oldest available position: the older of two snapshots, or the beginning. It
 * changes nothing and needs no lock. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/check_dir.h"
#include "cli/cli.h"
#include "cli/dump_write.h"
#include "engine/payload.h"
#include "kernel/command.h"
#include "kernel/option.h"
#include "log/local.h"

struct dump {
    struct dump_line line;
    uint64_t commands;
};

/* ---- Fields ---- */

static void dump_time(struct dump_line *line, uint64_t ms) {
    char text[40];
    time_t seconds = (time_t)(ms / 1000);
    struct tm utc;
    size_t len = 0;
    if (gmtime_r(&seconds, &utc) != NULL) {
        len = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
    }
    (void)snprintf(text + len, sizeof text - len, ".%03uZ", (unsigned)(ms % 1000));
    dump_string(line, text);
}

static void dump_lease(struct dump_line *line, struct kernel_lease_id id) {
    char text[48];
    (void)snprintf(text, sizeof text, "%" PRIu64 "-%" PRIu64, id.shard, id.lsn);
    dump_string(line, text);
}

static void dump_requested(struct dump_line *line, struct tn_reader *r, uint32_t count) {
    (void)fputc('[', line->out);
    for (uint32_t i = 0; i < count; i++) {
        struct kernel_requested requested = kernel_requested_read(r);
        if (i > 0) {
            (void)fputc(',', line->out);
        }
        if (requested.is_text) {
            dump_text(line, requested.text);
        } else {
            dump_number(line, requested.number);
        }
    }
    (void)fputc(']', line->out);
}

/* As text: pool:2 for any two values, pool:[a,b] for requested ones. */
static void dump_claims(struct dump_line *line, const struct kernel_command *command) {
    struct tn_reader r = tn_reader_of(command->claims.at, command->claims.len);
    (void)fputs(line->json ? "[" : "", line->out);
    for (uint32_t i = 0; i < command->claim_count; i++) {
        struct kernel_claim claim = kernel_claim_read(&r);
        struct tn_reader values = tn_reader_of(claim.values.at, claim.values.len);
        (void)fputs(i > 0 ? "," : "", line->out);
        (void)fputs(line->json ? "{\"pool\":" : "", line->out);
        dump_text(line, claim.pool);
        if (claim.any) {
            (void)fprintf(line->out, line->json ? ",\"count\":%" PRIu32 : ":%" PRIu32, claim.count);
        } else {
            (void)fputs(line->json ? ",\"values\":" : ":", line->out);
            dump_requested(line, &values, claim.count);
        }
        (void)fputs(line->json ? "}" : "", line->out);
    }
    (void)fputs(line->json ? "]" : "", line->out);
}

/* Options and limits are shown under their own names. */
static void dump_policy(struct dump_line *line, const struct kernel_command *command) {
    struct kernel_policy_patch patch = kernel_policy_read(command->policy_bytes);
    char text[KERNEL_OPTION_TEXT_MAX];
    for (unsigned i = 0; i < KERNEL_OPTION_COUNT; i++) {
        if ((patch.mask >> i & 1) != 0) {
            const char *name = kernel_option_rows[i].name;
            kernel_option_show(&patch.values, i, text, sizeof text);
            dump_name(line, name);
            dump_string(line, text);
        }
    }
    if (patch.has_spans) {
        kernel_option_show(&patch.values, KERNEL_OPTION_SPANS, text, sizeof text);
        dump_name(line, "range");
        dump_string(line, text);
    }
    if (patch.has_exclude) {
        kernel_option_show(&patch.values, KERNEL_OPTION_EXCLUDE, text, sizeof text);
        dump_name(line, "exclude");
        dump_string(line, text);
    }
}

static void dump_limits(struct dump_line *line, const struct kernel_command *command) {
    for (unsigned i = 0; i < KERNEL_LIMIT_COUNT; i++) {
        dump_name(line, kernel_limit_rows[i].name);
        dump_number(line, command->limits.of[i]);
    }
}

static void dump_named_text(struct dump_line *line, const char *name, struct tn_bytes text) {
    dump_name(line, name);
    dump_text(line, text);
}

static void dump_named_number(struct dump_line *line, const char *name, uint64_t number) {
    dump_name(line, name);
    dump_number(line, number);
}

static void dump_lease_fields(struct dump_line *line, const struct kernel_command *command) {
    uint32_t fields = command->fields;
    if ((fields & KERNEL_F_LEASE) != 0) {
        dump_name(line, "lease");
        dump_lease(line, command->lease);
    }
    if ((fields & KERNEL_F_EPOCH) != 0) {
        dump_named_number(line, command->verb == KERNEL_VERB_LIMITS ? "seed" : "epoch",
                          command->epoch);
    }
    if ((fields & KERNEL_F_HOLDER) != 0) {
        dump_named_text(line, "holder", command->holder);
    }
    if ((fields & KERNEL_F_CLAIMS) != 0) {
        dump_name(line, "claims");
        dump_claims(line, command);
    }
    if ((fields & KERNEL_F_TTL) != 0) {
        dump_named_number(line, "ttl_s", command->ttl_s);
    }
    if ((fields & KERNEL_F_AFTER) != 0) {
        dump_named_number(line, "after_s", command->after_s);
    }
    if ((fields & KERNEL_F_DEADLINE) != 0) {
        dump_name(line, "deadline");
        dump_time(line, command->deadline_ms);
    }
    if ((fields & KERNEL_F_TIMES) != 0) {
        dump_name(line, "created");
        dump_time(line, command->created_ms);
        dump_name(line, "seen");
        dump_time(line, command->seen_ms);
        dump_name(line, "offline");
        dump_time(line, command->offline_ms);
    }
    if ((fields & KERNEL_F_IMMEDIATE) != 0) {
        dump_name(line, "immediate");
        dump_flag(line, true);
    }
    if ((fields & KERNEL_F_META) != 0) {
        dump_named_text(line, "meta", command->meta);
    }
}

static void dump_other_fields(struct dump_line *line, const struct kernel_command *command) {
    uint32_t fields = command->fields;
    if ((fields & KERNEL_F_POOL) != 0) {
        dump_named_text(line, "pool", command->pool);
    }
    if ((fields & KERNEL_F_FIGURES) != 0) {
        dump_named_number(line, "given", command->given_values);
        dump_named_number(line, "reclaimed", command->reclaimed);
    }
    if ((fields & KERNEL_F_VALUES) != 0) {
        struct tn_reader r = tn_reader_of(command->values.at, command->values.len);
        dump_name(line, "values");
        dump_requested(line, &r, command->value_count);
    }
    if ((fields & KERNEL_F_POLICY) != 0) {
        dump_policy(line, command);
    }
    if ((fields & KERNEL_F_EDITION) != 0) {
        dump_named_number(line, "edition", command->edition);
    }
    if ((fields & KERNEL_F_LIMITS) != 0) {
        dump_limits(line, command);
    }
    if ((fields & KERNEL_F_NAME) != 0) {
        dump_named_text(line, "name", command->name);
    }
    if ((fields & KERNEL_F_TRIGGER) != 0) {
        dump_named_text(line, "trigger", command->trigger);
    }
    if ((fields & KERNEL_F_ENABLED) != 0) {
        dump_name(line, "enabled");
        dump_flag(line, command->enabled);
    }
    if ((fields & KERNEL_F_SPEC) != 0) {
        bool secret =
            command->verb == KERNEL_VERB_USER_ADD || command->verb == KERNEL_VERB_USER_SET;
        dump_named_text(line, secret ? "secret" : "spec",
                        secret ? tn_bytes_of("(hashed)", 8) : command->spec);
    }
    if ((fields & KERNEL_F_ROLE) != 0) {
        dump_named_number(line, "role", command->role);
    }
    if ((fields & KERNEL_F_QUOTA) != 0) {
        dump_named_number(line, "max_values", command->quota);
    }
    if ((fields & KERNEL_F_NOTE) != 0) {
        dump_named_text(line, "reason", command->note);
    }
}

/* ---- Commands ---- */

static void dump_rights(struct dump_line *line, uint8_t rights) {
    if (rights != 0) {
        dump_name(line, "rights");
        dump_string(line, (rights & KERNEL_RIGHT_SUPERVISOR) != 0
                              ? (rights & KERNEL_RIGHT_OPERATOR) != 0 ? "operator,supervisor"
                                                                      : "supervisor"
                              : "operator");
    }
}

static void dump_command(struct dump_line *line, uint64_t lsn, uint64_t now_ms,
                         struct tn_bytes bytes) {
    struct kernel_command command;
    dump_line_begin(line);
    dump_named_number(line, "lsn", lsn);
    dump_name(line, "time");
    dump_time(line, now_ms);
    dump_name(line, "verb");
    if (!kernel_command_decode(bytes, &command)) {
        dump_string(line, "unreadable");
    } else {
        dump_string(line, kernel_verb_rows[command.verb].name);
        dump_rights(line, command.rights);
        if (command.user.len > 0) {
            dump_named_text(line, "user", command.user);
        }
        if (command.opid.len > 0) {
            dump_named_text(line, "opid", command.opid);
        }
        dump_lease_fields(line, &command);
        dump_other_fields(line, &command);
    }
    dump_line_end(line);
}

/* ---- The log ---- */

static enum tn_status dump_batch(void *ctx, const struct log_batch *batch) {
    struct dump *dump = ctx;
    struct engine_payload payload = engine_payload_of(batch->payload, batch->len);
    for (uint32_t i = 0; i < batch->count; i++) {
        struct tn_bytes command;
        if (!engine_payload_read(&payload, &command)) {
            return TN_CORRUPT;
        }
        dump_command(&dump->line, batch->first_lsn + i, batch->now_ms, command);
        dump->commands++;
    }
    return ferror(dump->line.out) ? TN_IO : TN_OK;
}

static enum tn_status dump_snapshot_begin(void *ctx, const struct log_position *at) {
    struct dump *dump = ctx;
    struct dump_line *line = &dump->line;
    dump_line_begin(line);
    dump_named_number(line, "lsn", at->lsn);
    dump_name(line, "time");
    dump_time(line, at->now_ms);
    dump_name(line, "snapshot");
    dump_flag(line, true);
    dump_line_end(line);
    return TN_OK;
}

static enum tn_status dump_snapshot_section(void *ctx, const struct log_section *section) {
    (void)ctx;
    (void)section;
    return TN_OK;
}

static enum tn_status dump_snapshot_end(void *ctx) {
    (void)ctx;
    return TN_OK;
}

static enum tn_status dump_pass(const char *dir, bool older, bool backup, struct dump *dump,
                                struct log_error *error) {
    struct log *log;
    struct log_position position;
    struct log_local_options options = {.os = os_posix(),
                                        .dir = dir,
                                        .read_only = true,
                                        .use_older_snapshot = older,
                                        .restored = backup};
    const struct log_loader loader = {.ctx = dump,
                                      .snapshot_begin = dump_snapshot_begin,
                                      .snapshot_section = dump_snapshot_section,
                                      .snapshot_end = dump_snapshot_end,
                                      .batch = dump_batch};
    error->text[0] = '\0';
    enum tn_status status = log_local_open(&options, NULL, NULL, &log, error);
    if (status == TN_OK) {
        status = log_load(log_local_store(log), log, &loader, &position, error);
        (void)log_close(log_local_store(log), log);
    }
    return status;
}

int cli_dump(bool json, int argc, char **argv) {
    struct dump dump = {.line = {.out = stdout, .json = json}};
    const char *dir = NULL;
    struct log_error error;
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            dump.line.json = true;
        } else if (dir == NULL && argv[i][0] != '-') {
            dir = argv[i];
        } else {
            dir = NULL;
            break;
        }
    }
    if (dir == NULL) {
        (void)fprintf(stderr, "usage: tenure dump DIR [--json]\n");
        return CLI_USAGE;
    }
    struct check_dir datadir;
    check_dir_look(dir, &datadir);
    if (datadir.kind == CHECK_DIR_OTHER || datadir.kind == CHECK_DIR_UNREADABLE) {
        check_dir_refuse("dump", dir, &datadir);
        return CLI_FAILED;
    }
    bool backup = datadir.kind == CHECK_DIR_BACKUP;
    enum tn_status status = dump_pass(dir, !backup, backup, &dump, &error);
    if (status != TN_OK && dump.commands == 0 && !backup) {
        /* The older snapshot may be damaged. */
        status = dump_pass(dir, false, false, &dump, &error);
    }
    (void)fflush(stdout); /* before the error; the caller looks whether it was written */
    if (status != TN_OK) {
        (void)fprintf(stderr, "tenure dump: %s: %s\n", tn_status_text(status), error.text);
        return CLI_FAILED;
    }
    return CLI_OK;
}
