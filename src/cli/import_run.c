/* Sends rows to the server and receives the answers.
 *
 * Up to `window` requests are in flight; each stays in the ring, with its bytes, until it is
 * answered. After a lost connection, the requests in the ring are sent again on the next one: an
 * import that was already committed gets NOOP. So no other state and no operation ids are needed.
 *
 * A dry run reads the lease of each value instead and changes nothing. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/import_item.h"
#include "cli/resp_client.h"
#include "cli/show_json.h"
#include "kernel/option.h"

#define TRIES 6u
#define BACKLOG_BYTES (1024u * 1024u)
#define NOBODY tn_bytes_of("", 0)

struct run {
    struct import *import;
    struct cli_client client;
    struct import_item *items;
    uint64_t head, tail; /* of the ring; `tail` is the next item to fill */
    struct cli_text out;
    uint32_t sent;
    struct import_seen seen;
    struct import_row row;
    struct cli_text lease; /* the lease of the open item */
    bool ended;            /* no more rows */
    bool pending;          /* the first row has no column names and is still to be processed */
    uint64_t troubles;
    char stopped[400]; /* why the import ended early */
    int code;
};

/* ---- The ring ---- */

static struct import_item *item_at(const struct run *run, uint64_t position) {
    return &run->items[position % run->import->window];
}

static void item_send(struct run *run, const struct import_item *item) {
    if (run->sent == run->out.len) {
        run->out.len = run->sent = 0;
    }
    cli_text_add(&run->out, item->request.at, item->request.len);
}

static void tell(struct run *run, const struct import_item *item, enum tn_result result,
                 const char *reason, struct tn_bytes held_by) {
    struct import_said said = import_item_said(item);
    said.result = result;
    said.reason = tn_bytes_of(reason, strlen(reason));
    said.held_by = held_by;
    said.other_line = result == TN_R_OK ? 0 : item->other_line;
    import_report_row(&run->import->report, &said);
}

/* ---- Rows to items ---- */

/* Sends the open item: no more rows of its lease follow. */
static void item_close(struct run *run) {
    struct import_item *item = run->tail > run->head ? item_at(run, run->tail - 1) : NULL;
    if (item != NULL && item->kind == IMPORT_ITEM_OPEN) {
        import_item_import(item);
        item_send(run, item);
    }
}

/* Whether this row is another value of the open lease. */
static bool row_joins(const struct run *run) {
    const struct import_row *row = &run->row;
    const struct import_item *item = item_at(run, run->tail - 1);
    return run->tail > run->head && item->kind == IMPORT_ITEM_OPEN && row->lease.len > 0 &&
           item->count < KERNEL_BUNDLE_MAX &&
           tn_bytes_equal(row->lease, tn_bytes_of(run->lease.at, run->lease.len)) &&
           tn_bytes_equal(tn_bytes_of(row->pool.at, row->pool.len),
                          tn_bytes_of(item->names.at, item->pool)) &&
           import_item_holder_is(item, tn_bytes_of(row->holder.at, row->holder.len));
}

static struct import_item *item_next(struct run *run) {
    item_close(run);
    struct import_item *item = item_at(run, run->tail++);
    item->line = run->import->rows.line;
    item->other_line = 0;
    item->again = false;
    return item;
}

/* Sends a valid row to the server, alone or with following rows of the same lease. */
static void row_ask(struct run *run) {
    const struct import *import = run->import;
    const struct import_row *row = &run->row;
    struct tn_bytes owner = NOBODY;
    uint64_t other = import_seen_line(&run->seen, row, &owner);
    if (!import->dry_run && row_joins(run)) {
        import_item_join(item_at(run, run->tail - 1), row->value);
        return;
    }
    struct import_item *item = item_next(run);
    import_item_names(item, tn_bytes_of(row->pool.at, row->pool.len), row->value,
                      tn_bytes_of(row->holder.at, row->holder.len), owner);
    item->other_line = other;
    if (import->dry_run) {
        item->kind = IMPORT_ITEM_LOOK;
        import_item_look(item);
        if (import->pool.sticky && other == 0 && row->lease.len == 0) {
            item->other_line = import_seen_holder(&run->seen, row);
        }
        item_send(run, item);
        return;
    }
    item->kind = IMPORT_ITEM_OPEN;
    item->deadline_ms = row->deadline_ms;
    item->created_ms = row->created_ms;
    item->seen_ms = row->seen_ms;
    item->offline_ms = row->offline_ms;
    run->lease.len = 0;
    cli_text_add(&run->lease, row->lease.at, row->lease.len);
    if (row->lease.len == 0) {
        item_close(run);
    }
}

static void row_take(struct run *run, bool good) {
    struct import *import = run->import;
    const struct os *os = import->settings->os;
    struct import_row *row = &run->row;
    if (!good) {
        struct import_item *item = item_next(run);
        import_item_names(item, NOBODY, NOBODY, NOBODY, NOBODY);
        import_item_decide(item, TN_R_MALFORMED, import->rows.error);
    } else if (import_row_read(row, &import->columns, &import->pool, &import->rows,
                               os->clock_wall_ms(os->ctx))) {
        row_ask(run);
    } else {
        struct import_item *item = item_next(run);
        import_item_names(item, tn_bytes_of(row->pool.at, row->pool.len), row->value,
                          tn_bytes_of(row->holder.at, row->holder.len), NOBODY);
        import_item_decide(item, row->result, row->reason.at);
    }
}

static void stop(struct run *run, int code, const char *words) {
    (void)snprintf(run->stopped, sizeof run->stopped, "%s", words);
    run->code = code;
}

static void rows_take(struct run *run) {
    struct import *import = run->import;
    while (!run->ended && run->code == CLI_OK && run->tail - run->head < import->window &&
           run->out.len - run->sent < BACKLOG_BYTES) {
        enum cli_rows_next next = run->pending ? CLI_ROW_READY : cli_rows_read(&import->rows);
        run->pending = false;
        if (next == CLI_ROW_FAILED) {
            stop(run, CLI_FAILED, import->rows.error);
        } else if (next == CLI_ROW_END) {
            run->ended = true;
        } else {
            row_take(run, next == CLI_ROW_READY);
        }
    }
    if (run->ended) {
        item_close(run);
    }
}

/* ---- Answers ---- */

static bool is_transient(enum tn_result code) {
    return code == TN_R_OVERLOADED || code == TN_R_CLOSED || code == TN_R_HALTED ||
           code == TN_R_LOST || code == TN_R_NOT_YET;
}

/* Whether all later rows would get the same refusal. */
static bool is_final(enum tn_result code) {
    return code == TN_R_LEASES_FULL || code == TN_R_MEMBERS_FULL || code == TN_R_NAMES_FULL ||
           code == TN_R_POOLS_FULL || code == TN_R_NOSPACE || code == TN_R_DENIED;
}

/* The item has been answered. A second request asks for the holder of its value. */
static void ask_who(struct run *run) {
    struct import_item *from = item_at(run, run->head++);
    struct import_item *item = item_at(run, run->tail++);
    if (item != from) { /* each slot keeps its buffers, so they are swapped */
        struct import_item other = *item;
        *item = *from;
        *from = other;
    }
    item->kind = IMPORT_ITEM_WHO;
    item->again = false;
    import_item_look(item);
    item_send(run, item);
}

/* Whether the lease in this answer was created after the import began: then this import did it, on
 * an earlier connection. */
static bool is_ours(const struct run *run) {
    const struct cli_reader *reader = &run->client.reader;
    uint32_t node = cli_node_find(reader, 0, "lease");
    struct tn_bytes id = node != 0 ? cli_node_text(reader, node) : NOBODY;
    const uint8_t *dash = id.len > 0 ? memchr(id.at, '-', id.len) : NULL;
    uint64_t lsn = 0;
    return dash != NULL &&
           cli_number_parse(tn_bytes_of(dash + 1, (size_t)(id.at + id.len - dash) - 1), &lsn) &&
           lsn > run->import->pool.lsn;
}

static void taken(struct run *run) {
    const struct cli_reader *reader = &run->client.reader;
    struct import_item *item = item_at(run, run->head);
    uint32_t node = cli_node_find(reader, 0, "result");
    bool noop = node != 0 && cli_node_is(reader, node, "NOOP");
    tell(run, item, noop && !(item->again && is_ours(run)) ? TN_R_NOOP : TN_R_OK, "", NOBODY);
    run->head++;
}

/* In a dry run: the value has a holder. */
static void looked_held(struct run *run, struct import_item *item) {
    const struct cli_reader *reader = &run->client.reader;
    uint32_t node = cli_node_find(reader, 0, "holder");
    uint32_t values = cli_node_find(reader, 0, "values");
    struct tn_bytes holder = node != 0 ? cli_node_text(reader, node) : NOBODY;
    if (holder.len == 0) {
        tell(run, item, TN_R_BUSY, "it is cooling", NOBODY);
    } else if (!import_item_holder_is(item, holder)) {
        tell(run, item, TN_R_BUSY, "held", holder);
    } else if (values != 0 && reader->nodes[values].count > 1 &&
               run->import->columns.at[IMPORT_LEASE] == 0) {
        tell(run, item, TN_R_BUSY, "held in a lease with other values", holder);
    } else {
        tell(run, item, TN_R_NOOP, "already present", NOBODY);
    }
}

/* In a dry run: the value is free on the server. */
static void looked_free(struct run *run, struct import_item *item) {
    struct tn_bytes owner = import_item_owner(item);
    if (item->other_line == 0) {
        tell(run, item, TN_R_OK, "would be imported", NOBODY);
    } else if (owner.len == 0) {
        tell(run, item, TN_R_CONFLICT, "the holder can have only one lease in this pool", NOBODY);
    } else if (import_item_holder_is(item, owner)) {
        tell(run, item, TN_R_NOOP, "already exists", NOBODY);
    } else {
        tell(run, item, TN_R_BUSY, "assigned twice in the file, first", owner);
    }
}

static void refused(struct run *run, struct import_item *item, const struct cli_refusal *refusal) {
    struct cli_text words = {.at = NULL};
    if (item->kind == IMPORT_ITEM_WHO) {
        tell(run, item, TN_R_BUSY, "cooling, or its holder is being disowned", NOBODY);
    } else if (item->kind == IMPORT_ITEM_LOOK &&
               (refusal->code == TN_R_NOTFOUND || refusal->code == TN_R_POOL_NOTFOUND)) {
        looked_free(run, item);
    } else if (refusal->code == TN_R_BUSY) {
        ask_who(run);
        return;
    } else {
        cli_text_clean(&words, refusal->words);
        tell(run, item, refusal->code, words.failed || words.at == NULL ? "" : words.at, NOBODY);
    }
    cli_text_free(&words);
    run->head++;
}

/* Processes the reply for the item at the head. False: continuing is pointless. */
static bool answer(struct run *run) {
    const struct cli_reader *reader = &run->client.reader;
    struct import_item *item = item_at(run, run->head);
    if (reader->nodes[0].type == CLI_ERROR) {
        struct tn_bytes text = cli_node_text(reader, 0);
        struct cli_refusal refusal = cli_refusal_of(text);
        bool hopeless = !refusal.known || is_final(refusal.code);
        if (hopeless || is_transient(refusal.code)) {
            struct cli_text words = {.at = NULL};
            cli_text_clean(&words, text);
            (void)snprintf(run->client.error, sizeof run->client.error, "%s",
                           words.failed ? "" : words.at);
            cli_text_free(&words);
            if (hopeless) {
                stop(run, refusal.known ? tn_result_exit(refusal.code) : CLI_FAILED,
                     run->client.error);
            }
            return hopeless;
        }
        refused(run, item, &refusal);
    } else if (item->kind == IMPORT_ITEM_IMPORT) {
        taken(run);
    } else if (item->kind == IMPORT_ITEM_LOOK) {
        looked_held(run, item);
        run->head++;
    } else {
        uint32_t node = cli_node_find(reader, 0, "holder");
        tell(run, item, TN_R_BUSY, "held", node != 0 ? cli_node_text(reader, node) : NOBODY);
        run->head++;
    }
    run->troubles = 0;
    return true;
}

/* ---- The connection ---- */

/* Sends the items in the ring again on another connection. */
static void reconnect(struct run *run) {
    const struct cli_settings *settings = run->import->settings;
    uint64_t tries = settings->retries > TRIES ? settings->retries : TRIES;
    char why[sizeof run->client.error];
    memcpy(why, run->client.error, sizeof why);
    cli_client_close(&run->client);
    while (run->troubles++ < tries) {
        cli_wait_ms(run->troubles < 6 ? (uint64_t)100 << (run->troubles - 1) : 3000);
        if (cli_client_open(&run->client, settings) == CLI_LINK_OK) {
            run->out.len = run->sent = 0;
            for (uint64_t at = run->head; at < run->tail; at++) {
                struct import_item *item = item_at(run, at);
                if (item->kind != IMPORT_ITEM_SAID && item->kind != IMPORT_ITEM_OPEN) {
                    item->again = true;
                    item_send(run, item);
                }
            }
            return;
        }
        memcpy(why, run->client.error, sizeof why);
    }
    stop(run, CLI_UNREACHABLE, why);
}

static void turn(struct run *run) {
    struct import *import = run->import;
    rows_take(run);
    while (run->head < run->tail && item_at(run, run->head)->kind == IMPORT_ITEM_SAID) {
        struct import_item *item = item_at(run, run->head);
        tell(run, item, item->result, item->request.at, NOBODY);
        run->head++;
    }
    if (run->head == run->tail || run->code != CLI_OK ||
        item_at(run, run->head)->kind == IMPORT_ITEM_OPEN) {
        return; /* more rows first */
    }
    if (run->out.failed) {
        stop(run, CLI_FAILED, "out of memory");
        return;
    }
    if (cli_client_exchange(&run->client, tn_bytes_of(run->out.at, run->out.len), &run->sent,
                            import->settings->timeout_ms) != CLI_LINK_OK ||
        (run->client.reader.nodes[0].type != CLI_PUSH && !answer(run))) {
        reconnect(run);
    }
    import_report_progress(&import->report, import->rows.used);
}

/* ---- Beginning ---- */

static struct tn_bytes option(const struct cli_reader *reader, const char *name) {
    uint32_t options = cli_node_find(reader, 0, "options");
    uint32_t node = options != 0 ? cli_node_find(reader, options, name) : 0;
    return node != 0 ? cli_node_text(reader, node) : NOBODY;
}

static bool option_is(const struct cli_reader *reader, const char *name, const char *value) {
    return tn_bytes_equal(option(reader, name), tn_bytes_of(value, strlen(value)));
}

/* Spans that cannot be parsed are left to the server, which judges each row anyway. */
static void spans_take(struct import_pool *pool, struct tn_bytes text) {
    struct kernel_policy_patch patch = {.mask = 0};
    char detail[KERNEL_OPTION_DETAIL];
    char spans[KERNEL_OPTION_TEXT_MAX];
    (void)snprintf(spans, sizeof spans, "%.*s", (int)text.len, (const char *)text.at);
    pool->range.span_count = 0;
    if (text.len > 0 && kernel_range_add(spans, &patch, detail)) {
        pool->range = kernel_policy_new(&patch);
        (void)kernel_policy_fault(&pool->range, UINT64_MAX); /* puts the spans into order */
    }
}

static void pool_take(struct import_pool *pool, const struct cli_reader *reader) {
    pool->set = option_is(reader, "kind", "set");
    pool->scoped = option_is(reader, "scoped", "yes");
    pool->sticky = option_is(reader, "sticky", "yes");
    pool->format = option_is(reader, "format", "mac")    ? KERNEL_MAC
                   : option_is(reader, "format", "hex")  ? KERNEL_HEX
                   : option_is(reader, "format", "ipv4") ? KERNEL_IPV4
                                                         : KERNEL_DEC;
    pool->hi = UINT64_MAX;
    (void)kernel_value_parse(pool->format, option(reader, "lo"), &pool->lo);
    (void)kernel_value_parse(pool->format, option(reader, "hi"), &pool->hi);
    spans_take(pool, option(reader, "range"));
    (void)cli_number_parse(option(reader, "max_lease"), &pool->max_lease_s);
    (void)cli_number_parse(option(reader, "max_hold"), &pool->max_hold_s);
    (void)cli_node_number(reader, cli_node_find(reader, 0, "lsn"), &pool->lsn);
}

static int pool_info(struct run *run, struct tn_bytes name) {
    const struct tn_bytes words[] = {tn_bytes_of("POOL", 4), tn_bytes_of("INFO", 4), name};
    return cli_client_call(&run->client, words, 3, run->import->settings->timeout_ms) == CLI_LINK_OK
               ? CLI_OK
               : cli_client_unreachable(&run->client);
}

static bool is_missing(const struct cli_reader *reader) {
    return reader->nodes[0].type == CLI_ERROR &&
           cli_refusal_of(cli_node_text(reader, 0)).code == TN_R_POOL_NOTFOUND;
}

static int pool_refused(const char *name, const struct cli_reader *reader) {
    struct cli_refusal refusal = cli_refusal_of(cli_node_text(reader, 0));
    struct cli_text line = {.at = NULL};
    cli_text_clean(&line, refusal.words);
    (void)fprintf(stderr, "tenure import: %s: %s\n", name, line.failed ? "" : line.at);
    cli_text_free(&line);
    return refusal.known ? tn_result_exit(refusal.code) : CLI_FAILED;
}

/* A scope may have its own range. A scope that does not exist yet will have its template's. */
static int pool_ask(struct run *run) {
    struct import *import = run->import;
    const struct cli_reader *reader = &run->client.reader;
    const char *name = import->pool_name;
    size_t base = strcspn(name, "@");
    int code = pool_info(run, tn_bytes_of(name, strlen(name)));
    bool fresh = code == CLI_OK && name[base] == '@' && is_missing(reader);
    if (fresh) {
        code = pool_info(run, tn_bytes_of(name, base));
    }
    if (code != CLI_OK) {
        return code;
    }
    if (reader->nodes[0].type == CLI_ERROR) {
        return pool_refused(name, reader);
    }
    pool_take(&import->pool, reader);
    import->pool.name = name;
    if (fresh && !import->pool.scoped) {
        (void)fprintf(stderr, "tenure import: the pool %.*s has no scopes\n", (int)base, name);
        return CLI_USAGE;
    }
    import->pool.scoped = import->pool.scoped && name[base] != '@';
    return CLI_OK;
}

/* A column with an expiry under an unusual name must not be lost silently. */
static void ignored_tell(const struct import_columns *columns, const struct cli_rows *first) {
    struct cli_text text = {.at = NULL};
    if (import_columns_ignored(columns, first, &text)) {
        (void)fprintf(stderr, "tenure import: columns not used: %.*s\n", (int)text.len, text.at);
    }
    cli_text_free(&text);
}

/* Takes the first row as column names or as data. */
static int columns_find(struct run *run) {
    struct import *import = run->import;
    struct import_columns *columns = &import->columns;
    enum cli_rows_next next = cli_rows_read(&import->rows);
    if (next == CLI_ROW_END) {
        run->ended = true;
        return CLI_OK;
    }
    if (next != CLI_ROW_READY) {
        (void)fprintf(stderr, "tenure import: the first line: %s\n", import->rows.error);
        return CLI_FAILED;
    }
    bool named =
        import->header || (!import->no_header && import_columns_named(columns, &import->rows));
    if (!import_columns_place(columns, &import->rows, named)) {
        (void)fprintf(stderr, "tenure import: %s\n", columns->error);
        return CLI_USAGE;
    }
    bool scope_known = columns->at[IMPORT_SCOPE] != 0 || columns->at[IMPORT_POOL] != 0;
    if (import->pool.scoped && !scope_known) {
        (void)fprintf(
            stderr,
            "tenure import: %s has scopes; name their column (--scope-column), or import into "
            "%s@SCOPE\n",
            import->pool.name, import->pool.name);
        return CLI_USAGE;
    }
    if (!import->pool.scoped && columns->at[IMPORT_SCOPE] != 0) {
        (void)fprintf(stderr, "tenure import: %s has no scopes\n", import->pool.name);
        return CLI_USAGE;
    }
    if (named) {
        ignored_tell(columns, &import->rows);
    }
    run->pending = !named;
    return CLI_OK;
}

static int begin(struct run *run) {
    const struct cli_settings *settings = run->import->settings;
    run->items = calloc(run->import->window, sizeof *run->items);
    run->seen.keep_owners = run->import->dry_run;
    if (run->items == NULL) {
        (void)fprintf(stderr, "tenure import: out of memory\n");
        return CLI_FAILED;
    }
    if (cli_client_open(&run->client, settings) != CLI_LINK_OK) {
        return cli_client_unreachable(&run->client);
    }
    int code = pool_ask(run);
    return code == CLI_OK ? columns_find(run) : code;
}

static void end(struct run *run) {
    cli_client_close(&run->client);
    for (uint64_t i = 0; run->items != NULL && i < run->import->window; i++) {
        import_item_free(&run->items[i]);
    }
    free(run->items);
    cli_text_free(&run->out);
    cli_text_free(&run->lease);
    import_row_free(&run->row);
    import_seen_free(&run->seen);
}

int import_run(struct import *import) {
    struct run run = {.import = import, .client = {.socket = -1}};
    struct import_report *report = &import->report;
    int code = begin(&run);
    if (code == CLI_OK) {
        do {
            turn(&run);
        } while (run.code == CLI_OK && (!run.ended || run.head < run.tail));
        code = run.code;
        bool written = import_report_end(report, code == CLI_OK ? NULL : run.stopped);
        bool all = report->taken + report->there == report->rows;
        if (code == CLI_OK && !(written && all)) {
            code = CLI_FAILED;
        }
    }
    end(&run);
    return code;
}
