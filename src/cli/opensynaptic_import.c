/* `tenure opensynaptic import`: imports id_allocation.json into a sticky pool.
 *
 * Entries are pipelined and answered in order. A refused entry is reported with its line and reason
 * and changes nothing; a repeated import leaves existing leases unchanged. At the end, the pool's
 * counters are set from next_candidate and the number of reclaimed leases. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/import.h"
#include "cli/opensynaptic.h"
#include "cli/options.h"
#include "cli/show_json.h"
#include "protocol/walk.h"

#define WINDOW 1024u
#define BACKLOG_BYTES (1024u * 1024u)
#define ID_SHOWN 40u

/* An entry from when it was read until it is answered. */
struct item {
    uint64_t line, other_line;
    uint32_t id_len, holder_len;
    char id[ID_SHOWN];
    char holder[KERNEL_HOLDER_MAX];
    enum tn_result result; /* OK: it was sent */
    char reason[OPENSYNAPTIC_REASON_MAX];
};

struct run {
    const struct cli_settings *settings;
    struct cli_client client;
    struct opensynaptic_pool pool;
    bool dry_run, derive, keep_keys;
    struct tn_bytes text; /* the file */
    const uint8_t *counted;
    uint64_t line; /* of `counted` */
    struct protocol_walk walk;
    bool ended;
    struct opensynaptic_entry entry;
    uint64_t entries_below, nameless, next;
    struct item *items;
    uint64_t head, tail;
    struct item *later; /* refused because of another lease, which is looked for at the end */
    uint64_t later_count, later_capacity;
    struct cli_text out;
    uint32_t sent;
    struct import_seen seen; /* of a dry run: holders */
    struct import_report report;
};

/* ---- Telling ---- */

static void tell(struct run *run, const struct item *item, enum tn_result result,
                 const char *reason, struct tn_bytes held_by) {
    import_report_row(&run->report, &(struct import_said){
                                        .line = item->line,
                                        .rows = 1,
                                        .pool = tn_bytes_of(run->pool.name, strlen(run->pool.name)),
                                        .value = tn_bytes_of(item->id, item->id_len),
                                        .holder = tn_bytes_of(item->holder, item->holder_len),
                                        .result = result,
                                        .reason = tn_bytes_of(reason, strlen(reason)),
                                        .held_by = held_by,
                                        .other_line = item->other_line});
}

/* ---- Sending ---- */

static void word(struct run *run, const void *at, size_t len) {
    cli_text_printf(&run->out, "$%zu\r\n", len);
    cli_text_add(&run->out, at, len);
    cli_text_put(&run->out, "\r\n");
}

static void word_time(struct run *run, const char *name, uint64_t ms) {
    char digits[24];
    if (ms != 0) {
        int len = snprintf(digits, sizeof digits, "%" PRIu64, ms);
        word(run, name, strlen(name));
        word(run, digits, (size_t)len);
    }
}

static void send_import(struct run *run) {
    const struct opensynaptic_entry *e = &run->entry;
    unsigned options = 0u + (e->deadline_ms != 0) + (e->created_ms != 0) + (e->seen_ms != 0) +
                       (e->offline_ms != 0) + (e->meta.len > 0);
    cli_text_printf(&run->out, "*%u\r\n", 6 + 2 * options);
    word(run, "IMPORT", 6);
    word(run, run->pool.name, strlen(run->pool.name));
    word(run, e->holder, e->holder_len);
    word(run, "VALUES", 6);
    word(run, "1", 1);
    word(run, e->id.at, e->id.len);
    word_time(run, "DEADLINE", e->deadline_ms);
    word_time(run, "CREATED", e->created_ms);
    word_time(run, "SEEN", e->seen_ms);
    word_time(run, "OFFLINE", e->offline_ms);
    if (e->meta.len > 0) {
        word(run, "META", 4);
        word(run, e->meta.at, e->meta.len);
    }
}

static void send_look(struct run *run) {
    char name[KERNEL_POOL_MAX + ID_SHOWN + 2];
    int len = snprintf(name, sizeof name, "%s/%.*s", run->pool.name, (int)run->entry.id.len,
                       (const char *)run->entry.id.at);
    cli_text_put(&run->out, "*2\r\n");
    word(run, "LEASE", 5);
    word(run, name, (size_t)len);
}

/* ---- Entries ---- */

static uint64_t line_of(struct run *run, const uint8_t *at) {
    for (; run->counted < at; run->counted++) {
        run->line += *run->counted == '\n';
    }
    return run->line;
}

/* A dry run sees here that two entries have the same holder; the server would at the second one. */
static uint64_t holder_line(struct run *run, const struct item *item) {
    struct import_row row = {.line = item->line};
    cli_text_put(&row.pool, run->pool.name);
    cli_text_add(&row.holder, item->holder, item->holder_len);
    uint64_t line = import_seen_holder(&run->seen, &row);
    import_row_free(&row);
    return line;
}

static void entry_take(struct run *run, struct tn_bytes key, struct tn_bytes value) {
    struct opensynaptic_entry *e = &run->entry;
    struct item *item = &run->items[run->tail++ % WINDOW];
    uint64_t number;
    bool good = opensynaptic_entry_read(e, &run->pool, run->derive, key, value);
    item->line = line_of(run, key.at);
    item->other_line = 0;
    item->id_len = e->id.len < ID_SHOWN ? e->id.len : ID_SHOWN;
    memcpy(item->id, e->id.at, item->id_len);
    item->holder_len = e->holder_len;
    memcpy(item->holder, e->holder, e->holder_len);
    item->result = good ? TN_R_OK : e->result;
    (void)snprintf(item->reason, sizeof item->reason, "%s", good ? "" : e->reason);
    run->entries_below += cli_number_parse(e->id, &number) && number < run->next;
    if (good && run->dry_run) {
        item->other_line = holder_line(run, item);
    }
    if (item->other_line != 0) {
        item->result = TN_R_CONFLICT;
        (void)snprintf(item->reason, sizeof item->reason,
                       "the device already has another id; this one stays free");
        return;
    }
    if (good) {
        run->nameless += e->nameless;
        if (run->dry_run) {
            send_look(run);
        } else {
            send_import(run);
        }
    }
}

static void entries_take(struct run *run) {
    struct tn_bytes key;
    struct tn_bytes value;
    if (run->sent == run->out.len) {
        run->out.len = run->sent = 0;
    }
    while (!run->ended && run->tail - run->head < WINDOW &&
           run->out.len - run->sent < BACKLOG_BYTES) {
        run->ended = !protocol_walk_next(&run->walk, &key, &value);
        if (!run->ended) {
            entry_take(run, key, value);
        }
    }
}

/* ---- Answers ---- */

static struct tn_bytes found(const struct cli_reader *reader, uint32_t map, const char *key) {
    uint32_t node = map < reader->node_count ? cli_node_find(reader, map, key) : 0;
    return node != 0 ? cli_node_text(reader, node) : tn_bytes_of("", 0);
}

/* Of a dry run: the lease on the value, or that there is none. */
static void answer_look(struct run *run, const struct item *item,
                        const struct cli_refusal *refused) {
    struct tn_bytes nobody = tn_bytes_of("", 0);
    if (refused != NULL) {
        bool free = refused->known && refused->code == TN_R_NOTFOUND;
        tell(run, item, free ? TN_R_OK : TN_R_MALFORMED,
             free ? "would be imported" : "the server does not show its holder", nobody);
        return;
    }
    struct tn_bytes holder = found(&run->client.reader, 0, "holder");
    if (tn_bytes_equal(holder, tn_bytes_of(item->holder, item->holder_len))) {
        tell(run, item, TN_R_NOOP, "already exists", nobody);
    } else {
        tell(run, item, TN_R_BUSY, "held", holder);
    }
}

static bool later_add(struct run *run, const struct item *item, enum tn_result result) {
    if (run->later_count == run->later_capacity) {
        uint64_t capacity = run->later_capacity == 0 ? 64 : 2 * run->later_capacity;
        struct item *more = realloc(run->later, capacity * sizeof *more);
        if (more == NULL) {
            return false;
        }
        run->later = more;
        run->later_capacity = capacity;
    }
    run->later[run->later_count] = *item;
    run->later[run->later_count++].result = result;
    return true;
}

/* The answer to the item at the head. False: there is no memory for it. */
static bool answer(struct run *run) {
    const struct cli_reader *reader = &run->client.reader;
    struct item *item = &run->items[run->head++ % WINDOW];
    struct tn_bytes nobody = tn_bytes_of("", 0);
    char words[OPENSYNAPTIC_REASON_MAX];
    bool error = reader->nodes[0].type == CLI_ERROR;
    struct cli_refusal refusal = {.known = false};
    if (error) {
        refusal = cli_refusal_of(cli_node_text(reader, 0));
    }
    if (run->dry_run) {
        answer_look(run, item, error ? &refusal : NULL);
        return true;
    }
    if (!error) {
        bool there = tn_bytes_equal(found(reader, 0, "result"), tn_bytes_of("NOOP", 4));
        tell(run, item, there ? TN_R_NOOP : TN_R_OK, "", nobody);
        return true;
    }
    if (refusal.known && (refusal.code == TN_R_BUSY || refusal.code == TN_R_CONFLICT)) {
        return later_add(run, item, refusal.code);
    }
    (void)snprintf(words, sizeof words, "%.*s", (int)refusal.words.len,
                   (const char *)refusal.words.at);
    tell(run, item, refusal.known ? refusal.code : TN_R_MALFORMED, words, nobody);
    return true;
}

/* The holder of the id, or the id of the device. */
static bool later_tell(struct run *run, const struct item *item) {
    char name[KERNEL_POOL_MAX + ID_SHOWN + 2];
    char words[OPENSYNAPTIC_REASON_MAX] = "the device already has another id; this one stays free";
    const struct cli_reader *reader = &run->client.reader;
    bool busy = item->result == TN_R_BUSY;
    int len = snprintf(name, sizeof name, "%s/%.*s", run->pool.name, (int)item->id_len, item->id);
    struct tn_bytes look[] = {tn_bytes_of("LEASE", 5), tn_bytes_of(name, (size_t)len)};
    struct tn_bytes list[] = {tn_bytes_of("LEASES", 6), tn_bytes_of("POOL", 4),
                              tn_bytes_of(run->pool.name, strlen(run->pool.name)),
                              tn_bytes_of("HOLDER", 6),
                              tn_bytes_of(item->holder, item->holder_len)};
    if (cli_client_call(&run->client, busy ? look : list, busy ? 2 : 5,
                        run->settings->timeout_ms) != CLI_LINK_OK) {
        return false;
    }
    if (busy) {
        tell(run, item, item->result, "held", found(reader, 0, "holder"));
        return true;
    }
    uint32_t leases = cli_node_find(reader, 0, "leases");
    uint32_t values = leases != 0 && reader->nodes[leases].count > 0
                          ? cli_node_find(reader, leases + 1, "values")
                          : 0;
    if (values != 0 && reader->nodes[values].count > 0) {
        struct tn_bytes value = cli_node_text(reader, values + 1);
        (void)snprintf(words, sizeof words, "the device already has id %.*s; this one stays free",
                       (int)value.len, (const char *)value.at);
    }
    tell(run, item, item->result, words, tn_bytes_of("", 0));
    return true;
}

/* True: all entries have been told. */
static bool entries_run(struct run *run) {
    while (!run->ended || run->head < run->tail) {
        entries_take(run);
        while (run->head < run->tail && run->items[run->head % WINDOW].result != TN_R_OK) {
            const struct item *item = &run->items[run->head++ % WINDOW];
            tell(run, item, item->result, item->reason, tn_bytes_of("", 0));
        }
        if (run->head == run->tail) {
            continue;
        }
        if (run->out.failed ||
            cli_client_exchange(&run->client, tn_bytes_of(run->out.at, run->out.len), &run->sent,
                                run->settings->timeout_ms) != CLI_LINK_OK) {
            return false;
        }
        if (run->client.reader.nodes[0].type != CLI_PUSH && !answer(run)) {
            return false;
        }
        import_report_progress(&run->report, (uint64_t)(run->counted - run->text.at));
    }
    for (uint64_t i = 0; i < run->later_count; i++) {
        if (!later_tell(run, &run->later[i])) {
            return false;
        }
    }
    return true;
}

/* ---- The rest of the file ---- */

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)fputs("note: ", stderr);
    (void)vfprintf(stderr, format, arguments);
    (void)fputc('\n', stderr);
    va_end(arguments);
}

/* `released` has nothing that the pool would not know from next_candidate, unless it contradicts.
 * */
static void released_look(const struct run *run) {
    struct tn_bytes released = opensynaptic_member(run->text, "released");
    uint64_t below = 0, above = 0, wrong = 0, number;
    struct tn_bytes key;
    struct tn_bytes value;
    if (released.len == 0 || protocol_json_kind(released) != PROTOCOL_JSON_ARRAY) {
        note("released is not a list and is ignored");
        return;
    }
    struct protocol_walk walk = protocol_walk_of(released);
    while (protocol_walk_next(&walk, &key, &value)) {
        bool good = opensynaptic_number(value, &number) && number >= run->pool.lo;
        wrong += !good;
        below += good && number < run->next;
        above += good && number >= run->next;
    }
    if (wrong > 0) {
        note("released: %" PRIu64 " items are not ids of this pool", wrong);
    }
    if (above > 0) {
        note("released: %" PRIu64 " ids are not below next_candidate (%" PRIu64
             "); they are imported as free",
             above, run->next);
    }
    uint64_t given = run->next - run->pool.lo;
    if (below + run->entries_below < given) {
        note("%" PRIu64 " ids below next_candidate are neither allocated nor released; they are "
             "imported as free",
             given - below - run->entries_below);
    }
}

static int pool_seed(struct run *run) {
    char given[24];
    char reclaimed[24];
    uint64_t total = 0;
    struct tn_bytes metrics = opensynaptic_member(run->text, "lease_metrics");
    (void)opensynaptic_number(opensynaptic_member(metrics, "total_reclaimed"), &total);
    int given_len = snprintf(given, sizeof given, "%" PRIu64, run->next - run->pool.lo);
    int reclaimed_len = snprintf(reclaimed, sizeof reclaimed, "%" PRIu64, total);
    const struct tn_bytes words[] = {tn_bytes_of("POOL", 4),
                                     tn_bytes_of("SEED", 4),
                                     tn_bytes_of(run->pool.name, strlen(run->pool.name)),
                                     tn_bytes_of("GIVEN", 5),
                                     tn_bytes_of(given, (size_t)given_len),
                                     tn_bytes_of("RECLAIMED", 9),
                                     tn_bytes_of(reclaimed, (size_t)reclaimed_len)};
    return run->dry_run ? CLI_OK : opensynaptic_call(&run->client, run->settings, words, 7);
}

/* What is told of the file as a whole, before anything is sent. The exit code. */
static int file_look(struct run *run, const char *path) {
    struct tn_bytes allocated = opensynaptic_member(run->text, "allocated");
    struct tn_bytes next = opensynaptic_member(run->text, "next_candidate");
    if (allocated.len == 0 || protocol_json_kind(allocated) != PROTOCOL_JSON_OBJECT) {
        (void)fprintf(stderr, "tenure opensynaptic: %s: the object \"allocated\" is missing\n",
                      path);
        return CLI_FAILED;
    }
    run->next = run->pool.lo;
    if (next.len > 0 && (!opensynaptic_number(next, &run->next) || run->next < run->pool.lo ||
                         run->next - 1 > run->pool.hi)) {
        (void)fprintf(stderr,
                      "tenure opensynaptic: %s: next_candidate %.*s is not an id of the pool %s, "
                      "%" PRIu64 " to %" PRIu64 "\n",
                      path, (int)(next.len < 40 ? next.len : 40), (const char *)next.at,
                      run->pool.name, run->pool.lo, run->pool.hi);
        return CLI_FAILED;
    }
    run->walk = protocol_walk_of(allocated);
    return CLI_OK;
}

/* How many devices would be known by another key than the one their metadata gives. They would come
 * back under that one and get another id, so the operator chooses before anything is imported. */
static uint64_t keys_differ(struct run *run) {
    struct protocol_walk walk = run->walk;
    struct tn_bytes key;
    struct tn_bytes value;
    uint64_t differ = 0;
    while (protocol_walk_next(&walk, &key, &value)) {
        differ += opensynaptic_entry_read(&run->entry, &run->pool, false, key, value) &&
                  run->entry.other_key;
    }
    return differ;
}

static bool keys_chosen(struct run *run) {
    uint64_t differ = run->derive || run->keep_keys ? 0 : keys_differ(run);
    if (differ > 0) {
        (void)fprintf(stderr,
                      "tenure opensynaptic: %" PRIu64 " device%s a device_key that does not follow "
                      "from the metadata; nothing was imported. Choose:\n"
                      "  --derive     take the key from the metadata: right if devices send only "
                      "metadata\n"
                      "  --keep-keys  keep device_key: right if devices send device_key too\n",
                      differ, differ == 1 ? " has" : "s have");
    }
    return differ == 0;
}

static int file_import(struct run *run) {
    bool all = entries_run(run);
    int code = all ? pool_seed(run) : CLI_UNREACHABLE;
    bool written =
        import_report_end(&run->report, all                            ? NULL
                                        : run->client.error[0] != '\0' ? run->client.error
                                                                       : "out of memory");
    if (!all) {
        return code;
    }
    released_look(run);
    if (run->nameless > 0) {
        note("%" PRIu64 " devices have neither a device_key nor metadata that names them: their "
             "ids are held as " OPENSYNAPTIC_NAMELESS "ID until their leases end",
             run->nameless);
    }
    bool whole = run->report.taken + run->report.there == run->report.rows;
    return code == CLI_OK && !(written && whole) ? CLI_FAILED : code;
}

/* ---- The command line ---- */

static int run_all(struct run *run, const char *path, const char *pool, const char *report) {
    int code = opensynaptic_connect(&run->client, run->settings, pool, &run->pool);
    if (code != CLI_OK || !opensynaptic_pool_serves(&run->pool, &code)) {
        return code;
    }
    run->items = calloc(WINDOW, sizeof *run->items);
    if (run->items == NULL) {
        (void)fprintf(stderr, "tenure opensynaptic: out of memory\n");
        return CLI_FAILED;
    }
    run->report = (struct import_report){
        .settings = run->settings, .dry_run = run->dry_run, .size = run->text.len};
    code = file_look(run, path);
    if (code == CLI_OK && !keys_chosen(run)) {
        code = CLI_FAILED;
    }
    if (code != CLI_OK || !import_report_open(&run->report, report)) {
        return code != CLI_OK ? code : CLI_FAILED;
    }
    return file_import(run);
}

int opensynaptic_import(const struct cli_settings *settings, int argc, char **argv) {
    const char *pool = NULL;
    const char *path = NULL;
    const char *report = NULL;
    struct run run = {.settings = settings, .client = {.socket = -1}, .line = 1};
    uint8_t *bytes = NULL;
    const struct cli_option rows[] = {{"--pool", &pool, NULL},
                                      {"--dry-run", NULL, &run.dry_run},
                                      {"--derive", NULL, &run.derive},
                                      {"--keep-keys", NULL, &run.keep_keys},
                                      {"--report", &report, NULL}};
    const struct cli_options options = {"opensynaptic import",
                                        "FILE --pool POOL [--dry-run] [--derive | --keep-keys] "
                                        "[--report FILE]",
                                        rows,
                                        sizeof rows / sizeof rows[0],
                                        &path,
                                        1};
    if (!cli_options_parse(&options, argc, argv)) {
        return CLI_USAGE;
    }
    if (run.derive && run.keep_keys) {
        (void)cli_options_wrong(&options, "--derive and --keep-keys exclude each other", "");
        return CLI_USAGE;
    }
    if (path == NULL || pool == NULL || strlen(pool) > KERNEL_POOL_MAX) {
        (void)cli_options_wrong(&options, path == NULL ? "which file?" : "specify a pool", "");
        return CLI_USAGE;
    }
    if (!opensynaptic_read(path, &bytes, &run.text)) {
        return CLI_FAILED;
    }
    run.counted = run.text.at;
    int code = run_all(&run, path, pool, report);
    cli_client_close(&run.client);
    cli_text_free(&run.out);
    cli_text_free(&run.entry.meta);
    import_seen_free(&run.seen);
    free(run.items);
    free(run.later);
    free(bytes);
    return code;
}
