/* `tenure opensynaptic export`: writes a sticky pool as id_allocation.json.
 *
 * Leases are read in pages and one by one, so the pool may change in between. The export compares
 * the pool's counters before and after: if they differ, it reads everything again, and after a few
 * attempts it fails rather than write an inconsistent file. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/opensynaptic.h"
#include "cli/options.h"
#include "cli/scan.h"

#define TRIES 5u
#define WINDOW 512u
#define RELEASED_MAX (16u * 1024u * 1024u) /* ids in the list of released ones */
#define COUNTERS 10u
#define COOLING 4u /* of these */

struct held {
    uint64_t id;
    bool kept; /* held, but nothing that the file can say */
};

struct run {
    const struct cli_settings *settings;
    struct cli_client client;
    struct opensynaptic_pool pool;
    struct held *held;
    uint64_t count, capacity;
    uint64_t bundles, others; /* what the file cannot say */
    bool failed;              /* no memory */
    struct cli_text out;
};

/* ---- The pool ---- */

static int counters_read(struct run *run, uint64_t ret_counters[COUNTERS]) {
    static const char *const names[COUNTERS] = {
        "reserved",        "active",         "offline",        "revoking",      "cooling",
        "allocated_total", "returned_total", "released_total", "expired_total", "revoked_total"};
    const struct tn_bytes words[] = {tn_bytes_of("POOL", 4), tn_bytes_of("INFO", 4),
                                     tn_bytes_of(run->pool.name, strlen(run->pool.name))};
    int code = cli_ask(run->settings, &run->client, words, 3);
    for (unsigned i = 0; code == CLI_OK && i < COUNTERS; i++) {
        ret_counters[i] = 0;
        (void)cli_node_number(&run->client.reader, cli_node_find(&run->client.reader, 0, names[i]),
                              &ret_counters[i]);
    }
    return code;
}

/* ---- Which ids are held ---- */

static bool held_add(struct run *run, uint64_t id, bool kept) {
    if (run->count == run->capacity) {
        uint64_t capacity = run->capacity == 0 ? 1024 : 2 * run->capacity;
        struct held *more = realloc(run->held, capacity * sizeof *more);
        if (more == NULL) {
            return false;
        }
        run->held = more;
        run->capacity = capacity;
    }
    run->held[run->count++] = (struct held){.id = id, .kept = kept};
    return true;
}

static bool lease_take(void *ctx, const struct cli_reader *reader, uint32_t lease) {
    struct run *run = ctx;
    uint32_t state = cli_node_find(reader, lease, "state");
    uint32_t values = cli_node_find(reader, lease, "values");
    bool said = cli_node_is(reader, state, "active") || cli_node_is(reader, state, "offline");
    run->others += !said;
    if (values == 0) {
        return true;
    }
    run->bundles += reader->nodes[values].count > 1;
    for (uint32_t node = values + 1; node < reader->nodes[values].end; node++) {
        uint64_t id = 0;
        if (cli_node_number(reader, node, &id) && !held_add(run, id, !said)) {
            run->failed = true;
            return false;
        }
    }
    return true;
}

static int held_order(const void *a, const void *b) {
    const struct held *x = a;
    const struct held *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int held_read(struct run *run) {
    struct cli_scan leases = {
        .settings = run->settings, .client = &run->client, .pool = run->pool.name};
    run->count = run->bundles = run->others = 0;
    int code = cli_scan_leases(&leases, lease_take, run);
    if (code == CLI_OK && run->failed) {
        (void)fprintf(stderr, "tenure opensynaptic: out of memory\n");
        code = CLI_FAILED;
    }
    if (run->count > 0) {
        qsort(run->held, run->count, sizeof *run->held, held_order);
    }
    return code;
}

/* ---- Entries ---- */

static uint64_t seconds_of(const struct cli_reader *reader, const char *name) {
    uint64_t ms = 0;
    (void)cli_node_number(reader, cli_node_find(reader, 0, name), &ms);
    return ms / 1000;
}

/* A device that was imported without a name has none in the file either. */
static struct tn_bytes device_key(const struct cli_reader *reader, uint64_t id) {
    char nameless[sizeof OPENSYNAPTIC_NAMELESS + 20];
    struct tn_bytes holder = cli_node_text(reader, cli_node_find(reader, 0, "holder"));
    int len = snprintf(nameless, sizeof nameless, OPENSYNAPTIC_NAMELESS "%" PRIu64, id);
    bool is_nameless = tn_bytes_equal(holder, tn_bytes_of(nameless, (size_t)len));
    return is_nameless ? tn_bytes_of("", 0) : holder;
}

/* Metadata is JSON already; a lease may have none. */
static void entry_write(struct run *run, uint64_t id, bool first) {
    const struct cli_reader *reader = &run->client.reader;
    uint32_t meta = cli_node_find(reader, 0, "meta");
    struct tn_bytes text = meta != 0 ? cli_node_text(reader, meta) : tn_bytes_of("", 0);
    cli_text_printf(&run->out, "%s\n    \"%" PRIu64 "\": {\"meta\": ", first ? "" : ",", id);
    cli_text_add(&run->out, text.len > 0 ? text.at : (const uint8_t *)"{}",
                 text.len > 0 ? text.len : 2);
    cli_text_printf(&run->out,
                    ", \"ts\": %" PRIu64 ", \"last_seen\": %" PRIu64
                    ", \"lease_expires_at\": %" PRIu64 ", \"device_key\": ",
                    seconds_of(reader, "created"), seconds_of(reader, "last_seen"),
                    seconds_of(reader, "deadline"));
    cli_text_json(&run->out, device_key(reader, id));
    cli_text_put(&run->out, ", \"state\": ");
    cli_text_json(&run->out, cli_node_text(reader, cli_node_find(reader, 0, "state")));
    cli_text_printf(&run->out, ", \"offline_since\": %" PRIu64 "}",
                    seconds_of(reader, "offline_since"));
}

static void look_send(struct run *run, struct cli_text *out, uint64_t id) {
    char name[KERNEL_POOL_MAX + 32];
    int len = snprintf(name, sizeof name, "%s/%" PRIu64, run->pool.name, id);
    cli_text_printf(out, "*2\r\n$5\r\nLEASE\r\n$%d\r\n%s\r\n", len, name);
}

/* Many questions at a time; the answers come in their order. */
static enum cli_link entries_write(struct run *run) {
    struct cli_text out = {.at = NULL};
    uint32_t sent = 0;
    uint64_t asked = 0;
    bool first = true;
    enum cli_link link = CLI_LINK_OK;
    for (uint64_t i = 0; link == CLI_LINK_OK && i < run->count; i++) {
        if (run->held[i].kept) {
            continue;
        }
        if (asked <= i) { /* all that were asked for have been answered */
            out.len = sent = 0;
            for (asked = i; asked < run->count && asked - i < WINDOW; asked++) {
                if (!run->held[asked].kept) {
                    look_send(run, &out, run->held[asked].id);
                }
            }
        }
        do {
            link = out.failed ? CLI_LINK_UNREACHABLE
                              : cli_client_exchange(&run->client, tn_bytes_of(out.at, out.len),
                                                    &sent, run->settings->timeout_ms);
        } while (link == CLI_LINK_OK && run->client.reader.nodes[0].type == CLI_PUSH);
        if (link == CLI_LINK_OK && run->client.reader.nodes[0].type != CLI_ERROR) {
            entry_write(run, run->held[i].id, first);
            first = false;
        }
    }
    cli_text_free(&out);
    return link;
}

/* ---- The rest ---- */

/* Every free id below `next`. False: there are too many. */
static bool released_write(struct run *run, uint64_t next) {
    uint64_t at = 0;
    uint64_t count = 0;
    if (next - run->pool.lo > run->count + RELEASED_MAX) {
        (void)fprintf(
            stderr,
            "tenure opensynaptic: more than %u released ids; the pool is too large for this "
            "format\n",
            RELEASED_MAX);
        return false;
    }
    for (uint64_t id = run->pool.lo; id < next; id++) {
        while (at < run->count && run->held[at].id < id) {
            at++;
        }
        if (at == run->count || run->held[at].id != id) {
            cli_text_printf(&run->out, "%s%" PRIu64, count++ > 0 ? ", " : "", id);
        }
    }
    return true;
}

/* As JSON writes it: a rate is a real number even if it is whole. */
static void metric_write(struct run *run, const char *name) {
    const struct cli_reader *reader = &run->client.reader;
    uint32_t node = cli_node_find(reader, 0, name);
    struct tn_bytes text = cli_node_text(reader, node);
    uint8_t type = node != 0 ? reader->nodes[node].type : CLI_NULL;
    cli_text_printf(&run->out, "\"%s\": ", name);
    if (type == CLI_BOOLEAN) {
        cli_text_put(&run->out, text.at[0] == 't' ? "true" : "false");
    } else if (type == CLI_NULL) {
        cli_text_put(&run->out, "null");
    } else {
        cli_text_add(&run->out, text.at, text.len);
        bool whole = type == CLI_DOUBLE && memchr(text.at, '.', text.len) == NULL;
        cli_text_put(&run->out, whole ? ".0" : "");
    }
}

static void metrics_write(struct run *run) {
    static const char *const names[] = {
        "base_lease_seconds", "effective_lease_seconds", "new_device_rate_per_hour",
        "ultra_rate_active",  "force_zero_lease_active", "total_reclaimed",
        "updated_at"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        cli_text_put(&run->out, i > 0 ? ", " : "");
        metric_write(run, names[i]);
    }
}

/* The whole file, in memory. */
static int file_make(struct run *run) {
    const struct tn_bytes words[] = {tn_bytes_of("POOL", 4), tn_bytes_of("METRICS", 7),
                                     tn_bytes_of(run->pool.name, strlen(run->pool.name))};
    uint64_t next = run->pool.lo;
    run->out.len = 0;
    cli_text_put(&run->out, "{\n  \"allocated\": {");
    if (entries_write(run) != CLI_LINK_OK) {
        return cli_client_unreachable(&run->client);
    }
    int code = cli_ask(run->settings, &run->client, words, 3);
    if (code != CLI_OK) {
        return code;
    }
    uint64_t allocated = 0;
    uint64_t released = 0;
    const struct cli_reader *reader = &run->client.reader;
    (void)cli_node_number(reader, cli_node_find(reader, 0, "allocated_count"), &allocated);
    (void)cli_node_number(reader, cli_node_find(reader, 0, "released_count"), &released);
    next += allocated + released + run->pool.cooling;
    if (run->count > 0 && run->held[run->count - 1].id >= next) {
        next = run->held[run->count - 1].id + 1;
    }
    cli_text_put(&run->out, "\n  },\n  \"released\": [");
    if (!released_write(run, next)) {
        return CLI_FAILED;
    }
    cli_text_printf(&run->out, "],\n  \"next_candidate\": %" PRIu64 ",\n  \"lease_metrics\": {",
                    next);
    metrics_write(run);
    cli_text_put(&run->out, "}\n}\n");
    return run->out.failed ? CLI_FAILED : CLI_OK;
}

/* Until nothing has changed meanwhile. */
static int file_make_unchanged(struct run *run) {
    uint64_t before[COUNTERS];
    uint64_t after[COUNTERS];
    for (unsigned tries = 0; tries < TRIES; tries++) {
        int code = counters_read(run, before);
        if (code != CLI_OK) {
            return code;
        }
        run->pool.cooling = before[COOLING];
        code = held_read(run);
        code = code == CLI_OK ? file_make(run) : code;
        code = code == CLI_OK ? counters_read(run, after) : code;
        if (code != CLI_OK || memcmp(before, after, sizeof before) == 0) {
            return code;
        }
    }
    (void)fprintf(
        stderr,
        "tenure opensynaptic: the pool %s changed while it was read, %u times; export it while no "
        "device requests ids\n",
        run->pool.name, TRIES);
    return CLI_FAILED;
}

/* A file gets its name when it is whole: the one that is there may be the only one. */
static bool named_write(const struct run *run, const char *path) {
    char temporary[4096];
    const struct os *os = run->settings->os;
    if (snprintf(temporary, sizeof temporary, "%s.tmp", path) >= (int)sizeof temporary) {
        return false;
    }
    FILE *out = fopen(temporary, "w");
    bool good = out != NULL && fwrite(run->out.at, 1, run->out.len, out) == run->out.len;
    good = out != NULL && fclose(out) == 0 && good;
    return good && os->rename(os->ctx, temporary, path) == TN_OK;
}

static int file_write(const struct run *run, const char *path) {
    bool good = path != NULL ? named_write(run, path)
                             : fwrite(run->out.at, 1, run->out.len, stdout) == run->out.len &&
                                   fflush(stdout) == 0;
    if (!good) {
        (void)fprintf(stderr, "tenure opensynaptic: cannot write %s\n",
                      path != NULL ? path : "standard output");
        return CLI_FAILED;
    }
    if (run->bundles > 0) {
        (void)fprintf(stderr,
                      "note: %" PRIu64 " leases have several ids; each id has its own entry\n",
                      run->bundles);
    }
    if (run->others > 0) {
        (void)fprintf(stderr,
                      "note: %" PRIu64 " leases are reserved or revoking, which the format "
                      "cannot express; their ids are in neither list\n",
                      run->others);
    }
    return CLI_OK;
}

int opensynaptic_export(const struct cli_settings *settings, int argc, char **argv) {
    const char *pool = NULL;
    const char *path = NULL;
    struct run run = {.settings = settings, .client = {.socket = -1}};
    const struct cli_option rows[] = {{"--pool", &pool, NULL}};
    const struct cli_options options = {
        "opensynaptic export", "[FILE] --pool POOL", rows, 1, &path, 1};
    if (!cli_options_parse(&options, argc, argv)) {
        return CLI_USAGE;
    }
    if (pool == NULL || strlen(pool) > KERNEL_POOL_MAX) {
        (void)cli_options_wrong(&options, "which pool?", "");
        return CLI_USAGE;
    }
    int code = opensynaptic_connect(&run.client, settings, pool, &run.pool);
    if (code == CLI_OK && opensynaptic_pool_serves(&run.pool, &code)) {
        code = file_make_unchanged(&run);
        if (code == CLI_OK) {
            code = file_write(&run, path);
        }
    }
    cli_client_close(&run.client);
    cli_text_free(&run.out);
    free(run.held);
    return code;
}
