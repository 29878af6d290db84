/* SQLite in this process: a write-ahead log that is synced for each transaction (synchronous = FULL), the
 * lock of the file kept, compiled statements. It has one writer at a time, so its clients take turns.
 *
 * Cycles insert the key of a value, which the client picks, and delete it; in pools that are nearly full the
 * free values are rows of a table of their own. */
#include "peer.h"

#include <sqlite3.h>

#include "../bench.h"
#include "process.h"

enum { INSERT, DELETE, RENEW, TAKE, FREE, BUNDLE, UNBUNDLE, RETURN, LEAVE, STATEMENTS };

static const char *const texts[STATEMENTS] = {
    /* ?1 the pool, ?2 the value, or that to begin at, ?3 the holder, ?4 the deadline, ?5 the token. The
     * token of a conditional insert is the client's own count. */
    [INSERT] = "INSERT INTO held VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING",
    [DELETE] = "DELETE FROM held WHERE pool = ?1 AND value = ?2 AND token = ?5 AND holder = ?3",
    [RENEW] = "UPDATE held SET due = ?4 "
              "WHERE pool = ?1 AND value = ?2 AND token = ?5 AND holder = ?3",
    [TAKE] = "UPDATE leases SET free = 0, holder = ?3, token = token + 1, due = ?4 "
             "WHERE pool = ?1 AND value = (SELECT value FROM leases WHERE pool = ?1 AND free = 1 "
             "AND value >= ?2 ORDER BY value LIMIT 1) RETURNING value, token",
    [FREE] = "UPDATE leases SET free = 1, holder = NULL "
             "WHERE pool = ?1 AND value = ?2 AND token = ?5 AND holder = ?3",
    [BUNDLE] = "INSERT INTO held VALUES (5, ?2, ?3, ?4, ?5), (5, ?2 + 1, ?3, ?4, ?5), "
               "(5, ?2 + 2, ?3, ?4, ?5), (6, ?2, ?3, ?4, ?5), (6, ?2 + 1, ?3, ?4, ?5), "
               "(6, ?2 + 2, ?3, ?4, ?5), (7, ?2, ?3, ?4, ?5), (7, ?2 + 1, ?3, ?4, ?5)",
    [UNBUNDLE] = "DELETE FROM held WHERE pool IN (5, 6, 7) "
                 "AND value BETWEEN ?2 AND ?2 + 2 AND token = ?5 AND holder = ?3",
    [RETURN] = "UPDATE sticky SET active = 1, token = token + 1, due = ?4 "
               "WHERE holder = ?3 RETURNING value, token",
    [LEAVE] = "UPDATE sticky SET active = 0, due = ?4 WHERE holder = ?3 AND token = ?5",
};
_Static_assert(PEER_PART == 5, "the statements of bundles name the pools");

static const char tables[] =
    "PRAGMA locking_mode = EXCLUSIVE;"
    "PRAGMA journal_mode = WAL;"
    "PRAGMA synchronous = FULL;"
    "CREATE TABLE leases (pool INT, value INT, free INT, holder TEXT, token INT, due INT, "
    "PRIMARY KEY (pool, value)) WITHOUT ROWID;"
    "CREATE INDEX leases_free ON leases (pool, value) WHERE free = 1;"
    "CREATE TABLE held (pool INT, value INT, holder TEXT, due INT, token INT, "
    "PRIMARY KEY (pool, value)) WITHOUT ROWID;"
    "CREATE TABLE sticky (holder TEXT PRIMARY KEY, value INT, token INT, active INT, due INT) "
    "WITHOUT ROWID;"
    "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 4095) "
    "INSERT INTO sticky SELECT 'client/' || i, i, 0, 0, 0 FROM n;";

static sqlite3 *database;
static sqlite3_stmt *statements[STATEMENTS];

static void run(const char *sql) {
    char *error = NULL;
    if (sqlite3_exec(database, sql, NULL, NULL, &error) != SQLITE_OK) {
        peer_die("SQLite", error);
    }
}

static bool start(void) {
    char path[512];
    process_path("sqlite.db", path, sizeof path);
    if (sqlite3_open(path, &database) != SQLITE_OK) {
        peer_die("SQLite", sqlite3_errmsg(database));
    }
    run(tables);
    for (unsigned i = 0; i < STATEMENTS; i++) {
        if (sqlite3_prepare_v3(database, texts[i], -1, SQLITE_PREPARE_PERSISTENT, &statements[i],
                               NULL) != SQLITE_OK) {
            peer_die("SQLite", sqlite3_errmsg(database));
        }
    }
    return true;
}

static void stop(void) {
    for (unsigned i = 0; i < STATEMENTS; i++) {
        (void)sqlite3_finalize(statements[i]);
    }
    (void)sqlite3_close(database);
}

static void fill(enum peer_pool pool) {
    char sql[512];
    snprintf(sql, sizeof sql,
             "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < %u) "
             "INSERT INTO leases SELECT %d, i, i %% %u = 0, "
             "CASE WHEN i %% %u > 0 THEN 'other/' || i %% 1000 END, 0, 0 FROM n;",
             peer_pools[pool].values - 1, (int)pool, peer_pools[pool].stride,
             peer_pools[pool].stride);
    run(sql);
}

/* ---- Clients ---- */

struct clients {
    uint32_t waiting; /* lanes that have asked, in the order of `lanes` */
    struct peer_lane *lanes[64];
};

static unsigned statement_of(const struct peer_lane *lane) {
    const struct peer_case *work = &lane->session->work;
    bool first = lane->step == 0;
    if (work->work == WORK_BUNDLE) {
        return first ? BUNDLE : UNBUNDLE;
    }
    if (work->work == WORK_STICKY) {
        return first ? RETURN : LEAVE;
    }
    if (!work->insert) {
        return first ? TAKE : FREE;
    }
    return first ? INSERT : work->work == WORK_RENEW ? RENEW : DELETE;
}

static enum peer_outcome step(struct peer_lane *lane) {
    const struct peer_case *work = &lane->session->work;
    unsigned which = statement_of(lane);
    sqlite3_stmt *statement = statements[which];
    static uint64_t token;
    if (lane->step == 0) {
        lane->value = lane->whole ? 0 : peer_candidate(lane, work->pool);
        lane->token = ++token;
    }
    (void)sqlite3_bind_int64(statement, 1, (sqlite3_int64)work->pool);
    (void)sqlite3_bind_int64(statement, 2, (sqlite3_int64)lane->value);
    (void)sqlite3_bind_text(statement, 3, lane->holder, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int64(statement, 4, (sqlite3_int64)peer_due_ms());
    (void)sqlite3_bind_int64(statement, 5, (sqlite3_int64)lane->token);
    int result = sqlite3_step(statement);
    if (result == SQLITE_ROW) {
        lane->value = (uint64_t)sqlite3_column_int64(statement, 0);
        lane->token = (uint64_t)sqlite3_column_int64(statement, 1);
        result = sqlite3_step(statement);
    }
    bool changed = sqlite3_changes(database) > 0;
    (void)sqlite3_reset(statement);
    if (result == SQLITE_CONSTRAINT) { /* a value of a bundle is taken */
        return PEER_AGAIN;
    }
    if (result != SQLITE_DONE || (lane->step == 1 && !changed)) {
        peer_die("SQLite", sqlite3_errmsg(database));
    }
    lane->whole = lane->step == 0 && !changed && !lane->whole && which == TAKE;
    return changed ? PEER_DONE : PEER_AGAIN;
}

static void submit(void *ctx, struct peer_lane *lane) {
    struct clients *clients = ctx;
    clients->lanes[clients->waiting++] = lane;
}

static void poll_answers(void *ctx) {
    struct clients *clients = ctx;
    uint32_t count = clients->waiting;
    struct peer_lane *lanes[64];
    memcpy(lanes, clients->lanes, sizeof lanes);
    clients->waiting = 0;
    for (uint32_t i = 0; i < count; i++) {
        peer_answered(lanes[i], step(lanes[i]));
    }
}

static struct side open_clients(const struct peer_case *c, uint64_t *grants) {
    static const struct peer_verbs verbs = {submit, poll_answers, free};
    struct clients *clients = peer_memory(1, sizeof *clients);
    return peer_side(peer_session_make(&verbs, clients, c, grants));
}

static const struct peer_case cases[] = {
    {"cycles, 1 caller", WORK_CYCLE, PEER_EMPTY, 1, 1, true},
    {"cycles, 64 callers", WORK_CYCLE, PEER_EMPTY, 64, 1, true},
    {"cycles at 99 %, 1 caller", WORK_CYCLE, PEER_FULL, 1, 1, false},
    {"renewals, 1 caller", WORK_RENEW, PEER_EMPTY, 1, 1, true},
    {"bundles, 1 caller", WORK_BUNDLE, PEER_PART, 1, 1, true},
    {"sticky returns, 1 caller", WORK_STICKY, PEER_EMPTY, 1, 1, true},
    {"cycles among 10 thousand leases, 1 caller", WORK_CYCLE, PEER_SMALL, 1, 1, false},
    {"cycles among 1 million leases, 1 caller", WORK_CYCLE, PEER_LARGE, 1, 1, false},
    {.name = NULL},
};

const struct peer peer_sqlite = {.name = "SQLite",
                                 .package = "libsqlite3-0",
                                 .start = start,
                                 .stop = stop,
                                 .fill = fill,
                                 .open = open_clients,
                                 .cases = cases};
