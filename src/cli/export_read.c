/* Reads all leases of a pool at one log position.
 *
 * Pages of LEASES show different moments. So the events between the first page and the last are
 * applied to the pages, each to leases that were read before it: an event contains all changes of a
 * transition. The result is the state at the last page. The exception is a deadline that a touch
 * has renewed meanwhile, which has no event: it is the deadline that was read.
 *
 * If the server no longer retains the events in between, everything is read again. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "cli/export.h"
#include "cli/scan.h"

#define ATTEMPTS 3u

void export_free(struct export *export) {
    cli_client_close(&export->client);
    free(export->leases);
    free(export->index);
    cli_text_free(&export->strings);
}

/* ---- The table ---- */

static uint32_t home(const struct export *export, uint64_t shard, uint64_t lsn) {
    return (uint32_t)tn_mix64(lsn + shard * 31) & (export->index_capacity - 1);
}

static void index_put(struct export *export, uint32_t position) {
    const struct export_lease *lease = &export->leases[position];
    uint32_t slot = home(export, lease->shard, lease->lsn);
    while (export->index[slot] != 0) {
        slot = (slot + 1) & (export->index_capacity - 1);
    }
    export->index[slot] = position + 1;
}

static bool grow(struct export *export) {
    uint32_t capacity = export->capacity == 0 ? 1024 : 2 * export->capacity;
    struct export_lease *leases = realloc(export->leases, capacity * sizeof *leases);
    if (leases == NULL) {
        return false;
    }
    export->leases = leases;
    export->capacity = capacity;
    uint32_t *slots = calloc((size_t)2 * capacity, sizeof *slots);
    if (slots == NULL) {
        return false;
    }
    free(export->index);
    export->index = slots;
    export->index_capacity = 2 * capacity;
    for (uint32_t i = 0; i < export->count; i++) {
        index_put(export, i);
    }
    return true;
}

static struct export_lease *lease_find(const struct export *export, uint64_t shard, uint64_t lsn) {
    uint32_t slot = export->index_capacity > 0 ? home(export, shard, lsn) : 0;
    while (export->index_capacity > 0 && export->index[slot] != 0) {
        struct export_lease *lease = &export->leases[export->index[slot] - 1];
        if (lease->lsn == lsn && lease->shard == shard) {
            return lease;
        }
        slot = (slot + 1) & (export->index_capacity - 1);
    }
    return NULL;
}

/* The lease with this id, or a new one. NULL: out of memory. */
static struct export_lease *lease_take(struct export *export, uint64_t shard, uint64_t lsn) {
    struct export_lease *lease = lease_find(export, shard, lsn);
    if (lease == NULL && (export->count < export->capacity || grow(export))) {
        lease = &export->leases[export->count];
        *lease = (struct export_lease){.shard = shard, .lsn = lsn};
        index_put(export, export->count++);
    }
    return lease;
}

static uint64_t string_put(struct export *export, struct tn_bytes text) {
    uint64_t at = export->strings.len;
    cli_text_add(&export->strings, text.at, text.len);
    cli_text_add(&export->strings, "", 1);
    return at;
}

/* ---- From replies ---- */

static bool id_parse(struct tn_bytes text, uint64_t *ret_shard, uint64_t *ret_lsn) {
    const uint8_t *dash = text.len > 0 ? memchr(text.at, '-', text.len) : NULL;
    size_t len = dash != NULL ? (size_t)(dash - text.at) : 0;
    return dash != NULL && cli_number_parse(tn_bytes_of(text.at, len), ret_shard) &&
           cli_number_parse(tn_bytes_of(dash + 1, text.len - len - 1), ret_lsn);
}

/* Whether it is the pool itself or one of its scopes. */
static bool is_inside(const struct export *export, struct tn_bytes pool) {
    size_t len = strlen(export->pool);
    return pool.len >= len && memcmp(pool.at, export->pool, len) == 0 &&
           (pool.len == len || (export->scoped && pool.at[len] == '@'));
}

/* Adds the values of this pool and returns their number. */
static uint32_t values_take(struct export *export, struct export_lease *lease,
                            const struct cli_reader *reader, uint32_t map) {
    uint32_t values = cli_node_find(reader, map, "values");
    uint32_t pools = cli_node_find(reader, map, "pools");
    uint64_t begin = export->strings.len;
    uint32_t count = 0;
    if (values == 0 || pools == 0) {
        return 0;
    }
    for (uint32_t value = values + 1, pool = pools + 1;
         value < reader->nodes[values].end && pool < reader->nodes[pools].end;
         value = reader->nodes[value].end, pool = reader->nodes[pool].end) {
        if (is_inside(export, cli_node_text(reader, pool))) {
            (void)string_put(export, cli_node_text(reader, pool));
            (void)string_put(export, cli_node_text(reader, value));
            count++;
        }
    }
    lease->values = begin;
    lease->value_count = count;
    return count;
}

static enum kernel_state state_of(struct tn_bytes name) {
    for (unsigned i = KERNEL_RESERVED; i < KERNEL_SHOWN_COUNT; i++) {
        const char *known = kernel_state_name((enum kernel_state)i);
        if (tn_bytes_equal(name, tn_bytes_of(known, strlen(known)))) {
            return (enum kernel_state)i;
        }
    }
    return KERNEL_NO_STATE;
}

static void times_take(struct export_lease *lease, const struct cli_reader *reader, uint32_t map) {
    lease->created_ms = cli_field_number(reader, map, "created");
    lease->seen_ms = cli_field_number(reader, map, "last_seen");
    lease->offline_ms = cli_field_number(reader, map, "offline_since");
}

static bool lease_read(void *ctx, const struct cli_reader *reader, uint32_t map) {
    struct export *export = ctx;
    uint64_t shard, id;
    struct export_lease *lease = id_parse(cli_field(reader, map, "lease"), &shard, &id)
                                     ? lease_take(export, shard, id)
                                     : NULL;
    if (lease == NULL) {
        export->strings.failed = true;
        return false;
    }
    uint32_t values = cli_node_find(reader, map, "values");
    lease->read_lsn = cli_field_number(reader, 0, "lsn");
    lease->epoch = cli_field_number(reader, map, "epoch");
    lease->state = (uint8_t)state_of(cli_field(reader, map, "state"));
    lease->deadline_ms = cli_field_number(reader, map, "deadline");
    lease->holder = string_put(export, cli_field(reader, map, "holder"));
    lease->partial =
        values != 0 && cli_field_number(reader, map, "value_count") > reader->nodes[values].count;
    times_take(lease, reader, map);
    (void)values_take(export, lease, reader, map);
    return !export->strings.failed;
}

/* ---- Events ---- */

static bool kind_state(struct tn_bytes kind, enum kernel_state before, enum kernel_state *ret) {
    static const struct {
        const char *kind;
        enum kernel_state state;
    } kinds[] = {
        {"lease.reserved", KERNEL_RESERVED}, {"lease.active", KERNEL_ACTIVE},
        {"lease.returned", KERNEL_ACTIVE},   {"lease.offline", KERNEL_OFFLINE},
        {"lease.revoking", KERNEL_REVOKING}, {"lease.released", KERNEL_NO_STATE},
        {"lease.expired", KERNEL_NO_STATE},  {"lease.revoked", KERNEL_NO_STATE},
    };
    for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (tn_bytes_equal(kind, tn_bytes_of(kinds[i].kind, strlen(kinds[i].kind)))) {
            *ret = kinds[i].state;
            return true;
        }
    }
    *ret = before; /* a rekeyed lease is still the same lease */
    return tn_bytes_equal(kind, tn_bytes_of("lease.rekeyed", 13));
}

static bool event_apply(void *ctx, const struct cli_reader *reader, uint32_t event) {
    struct export *export = ctx;
    struct cli_event_id id;
    uint64_t shard, lsn;
    enum kernel_state state;
    if (!id_parse(cli_field(reader, event, "lease"), &shard, &lsn) ||
        !cli_event_id_parse(cli_field(reader, event, "id"), &id)) {
        return true; /* the event is not about a lease */
    }
    struct export_lease *known = lease_find(export, shard, lsn);
    enum kernel_state before = known != NULL ? (enum kernel_state)known->state : KERNEL_ACTIVE;
    if (!kind_state(cli_field(reader, event, "kind"), before, &state) ||
        (known != NULL && id.lsn <= known->read_lsn)) {
        return true;
    }
    struct export_lease fresh = {.shard = shard, .lsn = lsn};
    struct export_lease *lease = known != NULL ? known : &fresh;
    if (values_take(export, lease, reader, event) == 0) {
        return true; /* another pool's */
    }
    if (known == NULL) {
        lease = lease_take(export, shard, lsn);
        if (lease == NULL) {
            export->strings.failed = true;
            return false;
        }
        *lease = fresh;
        lease->created_ms = cli_field_number(reader, event, "time");
    }
    lease->state = (uint8_t)state;
    lease->epoch = cli_field_number(reader, event, "epoch");
    lease->deadline_ms = cli_field_number(reader, event, "deadline");
    lease->holder = string_put(export, cli_field(reader, event, "holder"));
    lease->offline_ms = state == KERNEL_OFFLINE ? cli_field_number(reader, event, "time") : 0;
    lease->partial = false;
    return !export->strings.failed;
}

/* Reads what neither pages nor events tell: all values of a large lease, and the times of one known
 * from an event. These do not change while a lease lives. */
static int details_read(struct export *export, struct export_lease *lease) {
    char id[64];
    struct tn_bytes words[2] = {tn_bytes_of("LEASE", 5)};
    int len = snprintf(id, sizeof id, "%" PRIu64 "-%" PRIu64, lease->shard, lease->lsn);
    words[1] = tn_bytes_of(id, (size_t)len);
    if (cli_client_call(&export->client, words, 2, export->settings->timeout_ms) != CLI_LINK_OK) {
        return cli_client_unreachable(&export->client);
    }
    const struct cli_reader *reader = &export->client.reader;
    if (reader->nodes[0].type == CLI_ERROR) {
        return CLI_OK; /* the lease has ended and left history: the events' facts are used */
    }
    if (lease->partial) {
        (void)values_take(export, lease, reader, 0);
    }
    if (lease->read_lsn == 0) {
        lease->created_ms = cli_field_number(reader, 0, "created");
        lease->seen_ms = cli_field_number(reader, 0, "last_seen");
        if (lease->offline_ms != 0 && lease->seen_ms > lease->offline_ms) {
            lease->seen_ms = 0; /* that was later */
        }
    }
    return CLI_OK;
}

static int details_all(struct export *export) {
    int code = CLI_OK;
    for (uint32_t i = 0; i < export->count && code == CLI_OK; i++) {
        struct export_lease *lease = &export->leases[i];
        if (lease->state != KERNEL_NO_STATE && (lease->partial || lease->read_lsn == 0)) {
            code = details_read(export, lease);
        }
    }
    return code;
}

/* ---- All of it ---- */

static int by_id(const void *a, const void *b) {
    const struct export_lease *x = a;
    const struct export_lease *y = b;
    if (x->shard != y->shard) {
        return x->shard < y->shard ? -1 : 1;
    }
    return x->lsn < y->lsn ? -1 : x->lsn > y->lsn;
}

static void leases_sort(struct export *export) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < export->count; i++) {
        if (export->leases[i].state != KERNEL_NO_STATE) {
            export->leases[kept++] = export->leases[i];
        }
    }
    export->count = kept;
    if (kept > 0) {
        qsort(export->leases, kept, sizeof *export->leases, by_id);
    }
}

static void forget(struct export *export) {
    export->count = 0;
    export->strings.len = 0;
    if (export->index != NULL) {
        memset(export->index, 0, export->index_capacity * sizeof *export->index);
    }
}

int export_read(struct export *export) {
    for (unsigned attempt = 0; attempt < ATTEMPTS; attempt++) {
        struct cli_scan pages = {
            .settings = export->settings, .client = &export->client, .pool = export->pool};
        forget(export);
        int code = cli_scan_leases(&pages, lease_read, export);
        export->lsn = pages.lsn;
        struct cli_scan between = {.settings = export->settings,
                                   .client = &export->client,
                                   .pool = export->scoped ? NULL : export->pool,
                                   .after_lsn = pages.lsn_first,
                                   .until_lsn = pages.lsn};
        if (code == CLI_OK && pages.lsn_first < pages.lsn) {
            code = cli_scan_events(&between, event_apply, export);
        }
        code = code == CLI_OK && !between.lost ? details_all(export) : code;
        if (code == CLI_OK && export->strings.failed) {
            (void)fprintf(stderr, "tenure export: out of memory\n");
            code = CLI_FAILED;
        }
        if (code != CLI_OK) {
            return code;
        }
        if (!between.lost) {
            leases_sort(export);
            return CLI_OK;
        }
    }
    (void)fprintf(
        stderr,
        "tenure export: the server drops events faster than they can be read; raise events_max, "
        "or try again at a quieter time\n");
    return CLI_FAILED;
}
