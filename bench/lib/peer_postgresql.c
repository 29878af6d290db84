/* PostgreSQL, by libpq without blocking: prepared statements, one statement a step, which is a transaction
 * of its own; fsync and synchronous_commit are on. In a pipeline the requests of one connection are one
 * implicit transaction with one sync, which is the most that PostgreSQL gains from it.
 *
 * SKIP LOCKED: a row for each value, an index of the free ones; a client begins at a random value, so that
 * clients do not step over each other's locks. Conditional insert: a row for each held value; the client
 * picks the value. A returning holder has a row of its own. */
#include "peer.h"

#include <libpq-fe.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "../bench.h"
#include "process.h"

enum { TAKE, FREE, RENEW, INSERT, DELETE, BUNDLE, UNBUNDLE, RETURN, LEAVE };

#define PART(letter, pool, count)                                                            \
#letter " AS (SELECT pool, value FROM leases WHERE pool = " #pool " AND holder IS NULL " \
            "AND value >= $1 ORDER BY value LIMIT " #count " FOR UPDATE SKIP LOCKED), "

static const struct {
    const char *name, *sql;
} statements[] = {
    /* The pool, the value to begin at, the holder, the deadline. */
    [TAKE] = {"take", "WITH x AS (SELECT value FROM leases WHERE pool = $1 AND holder IS NULL "
                      "AND value >= $2 ORDER BY value LIMIT 1 FOR UPDATE SKIP LOCKED) "
                      "UPDATE leases SET holder = $3, token = leases.token + 1, due = $4 FROM x "
                      "WHERE leases.pool = $1 AND leases.value = x.value "
                      "RETURNING leases.value, leases.token"},
    /* The pool, the value, the token, the holder. */
    [FREE] = {"free", "UPDATE leases SET holder = NULL "
                      "WHERE pool = $1 AND value = $2 AND token = $3 AND holder = $4"},
    /* The same and the deadline. */
    [RENEW] = {"renew", "UPDATE leases SET due = $5 "
                        "WHERE pool = $1 AND value = $2 AND token = $3 AND holder = $4"},
    /* The pool, the value, the holder, the deadline. */
    [INSERT] = {"insert", "INSERT INTO held VALUES ($1, $2, $3, nextval('token'), $4) "
                          "ON CONFLICT DO NOTHING RETURNING value, token"},
    [DELETE] = {"delete", "DELETE FROM held "
                          "WHERE pool = $1 AND value = $2 AND token = $3 AND holder = $4"},
    /* The value to begin at, the holder, the deadline. All values or none. */
    [BUNDLE] = {"bundle",
                "WITH " PART(a, 5, 3) PART(b, 6, 3) PART(
                    c, 7, 2) "x AS MATERIALIZED (SELECT * FROM a UNION ALL SELECT * FROM b UNION "
                             "ALL SELECT * FROM c), "
                             "t AS MATERIALIZED (SELECT nextval('token') AS token) "
                             "UPDATE leases SET holder = $2, token = t.token, due = $3 FROM x, t "
                             "WHERE (SELECT count(*) FROM x) = 8 "
                             "AND leases.pool = x.pool AND leases.value = x.value "
                             "RETURNING leases.value, leases.token, leases.pool"},
    /* The pools, the values, the token, the holder. */
    [UNBUNDLE] = {"unbundle",
                  "UPDATE leases SET holder = NULL FROM unnest($1::int[], $2::int[]) "
                  "AS u (pool, value) WHERE leases.pool = u.pool AND leases.value = u.value "
                  "AND token = $3 AND holder = $4"},
    /* The holder, the deadline. */
    [RETURN] = {"back", "UPDATE sticky SET active = true, token = token + 1, due = $2 "
                        "WHERE holder = $1 RETURNING value, token"},
    /* The holder, the token, the deadline. */
    [LEAVE] = {"leave", "UPDATE sticky SET active = false, due = $3 "
                        "WHERE holder = $1 AND token = $2"},
};
_Static_assert(PEER_PART == 5, "the statement of bundles names the pools");

static const char tables[] =
    "CREATE TABLE leases (pool int, value int, holder text, token bigint NOT NULL, due bigint, "
    "PRIMARY KEY (pool, value)) WITH (fillfactor = 50);"
    "CREATE INDEX leases_free ON leases (pool, value) WHERE holder IS NULL;"
    "CREATE TABLE held (pool int, value int, holder text, token bigint, due bigint, "
    "PRIMARY KEY (pool, value)) WITH (fillfactor = 50);"
    "CREATE TABLE sticky (holder text PRIMARY KEY, value int, token bigint, active boolean, "
    "due bigint) WITH (fillfactor = 50);"
    "CREATE SEQUENCE token;"
    "INSERT INTO sticky SELECT 'client/' || i, i, 0, false, 0 FROM generate_series(0, 4095) i;"
    "ANALYZE;";

#define USER "postgres"
static struct process server;

static PGconn *connect_once(void) {
    char where[128];
    snprintf(where, sizeof where, "host=127.0.0.1 port=%u user=" USER " dbname=postgres",
             server.port);
    return PQconnectdb(where);
}

static void run(PGconn *connection, const char *sql) {
    PGresult *result = PQexec(connection, sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK) {
        peer_die("PostgreSQL", PQerrorMessage(connection));
    }
    PQclear(result);
}

static PGconn *connection_open(void) {
    PGconn *connection = connect_once();
    if (PQstatus(connection) != CONNECTION_OK) {
        peer_die("PostgreSQL", PQerrorMessage(connection));
    }
    run(connection, "SET plan_cache_mode = force_generic_plan");
    return connection;
}

/* ---- The server ---- */

static bool start(void) {
    char program[128], data[512], port[16];
    if (!process_find("/usr/lib/postgresql/*/bin/initdb", program, sizeof program)) {
        return false;
    }
    process_path("postgresql", data, sizeof data);
    process_directory_give("postgresql", USER);
    char *init[] = {program,      "-D",        data,       "-A", "trust",     "-U", USER,
                    "--encoding", "SQL_ASCII", "--locale", "C",  "--no-sync", NULL};
    process_run("postgresql-init", USER, init);
    (void)process_find("/usr/lib/postgresql/*/bin/postgres", program, sizeof program);
    server.port = process_port_free();
    snprintf(port, sizeof port, "%u", server.port);
    char *argv[] = {program,
                    "-D",
                    data,
                    "-p",
                    port,
                    "-c",
                    "listen_addresses=127.0.0.1",
                    "-c",
                    "unix_socket_directories=",
                    "-c",
                    "fsync=on",
                    "-c",
                    "synchronous_commit=on",
                    "-c",
                    "shared_buffers=512MB",
                    "-c",
                    "max_wal_size=8GB",
                    "-c",
                    "wal_level=minimal",
                    "-c",
                    "max_wal_senders=0",
                    "-c",
                    "jit=off",
                    NULL};
    server.id = process_begin("postgresql", USER, argv);
    PGconn *connection = connect_once();
    for (; PQstatus(connection) != CONNECTION_OK; connection = connect_once()) {
        PQfinish(connection);
        process_check(&server, "postgres");
    }
    run(connection, tables);
    PQfinish(connection);
    return true;
}

static void stop(void) {
    process_stop(&server);
}

static void fill(enum peer_pool pool) {
    char sql[512];
    PGconn *connection = connection_open();
    snprintf(
        sql, sizeof sql,
        "INSERT INTO leases SELECT %d, i, CASE WHEN i %% %u > 0 THEN 'other/' || i %% 1000 END, "
        "0, 0 FROM generate_series(0, %u) i; ANALYZE leases;",
        (int)pool, peer_pools[pool].stride, peer_pools[pool].values - 1);
    run(connection, sql);
    PQfinish(connection);
}

/* ---- Clients ---- */

struct link {
    PGconn *connection;
    struct peer_lane *lanes;
    uint32_t asked, answered; /* of `depth` lanes */
};

struct clients {
    int epoll;
    uint32_t count, depth;
    struct link *links;
};

/* Parameters of a statement, as text. */
struct parameters {
    char text[5][64];
    const char *at[5];
    int count;
};

static void put(struct parameters *p, uint64_t number) {
    snprintf(p->text[p->count], sizeof p->text[0], "%llu", (unsigned long long)number);
    p->at[p->count] = p->text[p->count];
    p->count++;
}

static void put_text(struct parameters *p, const char *text) {
    p->at[p->count++] = text;
}

static void put_lease(struct parameters *p, const struct peer_lane *lane) {
    put(p, lane->session->work.pool);
    put(p, lane->value);
    put(p, lane->token);
    put_text(p, lane->holder);
}

static int grant(struct peer_lane *lane, struct parameters *p) {
    const struct peer_case *work = &lane->session->work;
    if (work->work == WORK_STICKY) {
        put_text(p, lane->holder);
        put(p, peer_due_ms());
        return RETURN;
    }
    if (work->work != WORK_BUNDLE) {
        put(p, work->pool);
    }
    put(p, lane->whole ? 0 : peer_candidate(lane, work->pool));
    put_text(p, lane->holder);
    put(p, peer_due_ms());
    return work->work == WORK_BUNDLE ? BUNDLE : work->insert ? INSERT : TAKE;
}

static int give_back(struct peer_lane *lane, struct parameters *p) {
    const struct peer_case *work = &lane->session->work;
    if (work->work == WORK_STICKY) {
        put_text(p, lane->holder);
        put(p, lane->token);
        put(p, peer_due_ms());
        return LEAVE;
    }
    if (work->work == WORK_BUNDLE) {
        const uint32_t *v = lane->values;
        put_text(p, "{5,5,5,6,6,6,7,7}");
        snprintf(p->text[1], sizeof p->text[1], "{%u,%u,%u,%u,%u,%u,%u,%u}", v[0], v[1], v[2], v[3],
                 v[4], v[5], v[6], v[7]);
        put_text(p, p->text[1]);
        put(p, lane->token);
        put_text(p, lane->holder);
        return UNBUNDLE;
    }
    put_lease(p, lane);
    if (work->work == WORK_RENEW) {
        put(p, peer_due_ms());
        return RENEW;
    }
    return work->insert ? DELETE : FREE;
}

static void submit(void *ctx, struct peer_lane *lane) {
    const struct clients *clients = ctx;
    struct link *link = &clients->links[lane->index / clients->depth];
    struct parameters p = {.count = 0};
    int statement = lane->step == 0 ? grant(lane, &p) : give_back(lane, &p);
    bool sent = PQsendQueryPrepared(link->connection, statements[statement].name, p.count, p.at,
                                    NULL, NULL, 0) == 1;
    if (sent && clients->depth > 1 && link->asked + 1 == clients->depth) {
        sent = PQpipelineSync(link->connection) == 1;
    }
    if (!sent || (link->asked + 1 == clients->depth && PQflush(link->connection) < 0)) {
        peer_die("PostgreSQL", PQerrorMessage(link->connection));
    }
    link->asked++;
}

static void remember(struct peer_lane *lane, const PGresult *result) {
    lane->value = strtoull(PQgetvalue(result, 0, 0), NULL, 10);
    lane->token = strtoull(PQgetvalue(result, 0, 1), NULL, 10);
    if (lane->session->work.work != WORK_BUNDLE) {
        return;
    }
    uint32_t next[WORK_BUNDLE_POOLS] = {0, 3, 6}; /* rows come in any order */
    for (int i = 0; i < (int)WORK_BUNDLE_VALUES; i++) {
        uint32_t pool = (uint32_t)strtoul(PQgetvalue(result, i, 2), NULL, 10) - PEER_PART;
        lane->values[next[pool]++] = (uint32_t)strtoul(PQgetvalue(result, i, 0), NULL, 10);
    }
}

static enum peer_outcome take(const struct link *link, struct peer_lane *lane, PGresult *result) {
    const struct peer_case *work = &lane->session->work;
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
        peer_die("PostgreSQL", PQerrorMessage(link->connection));
    }
    if (lane->step == 1) {
        unsigned long changed = strtoul(PQcmdTuples(result), NULL, 10);
        if (changed != (work->work == WORK_BUNDLE ? WORK_BUNDLE_VALUES : 1)) {
            peer_die("PostgreSQL", "a release or renewal found another token");
        }
        return PEER_DONE;
    }
    if (PQntuples(result) > 0) {
        remember(lane, result);
        lane->whole = false;
        return PEER_DONE;
    }
    lane->whole = !lane->whole; /* from the beginning, and then from anywhere again */
    return work->work == WORK_CONTEND ? PEER_REFUSED : PEER_AGAIN;
}

/* All lanes of the connection have their answers and continue together. */
static void link_go_on(const struct clients *clients, struct link *link) {
    link->asked = link->answered = 0;
    for (uint32_t i = 0; i < clients->depth; i++) {
        peer_answered(&link->lanes[i], link->lanes[i].outcome);
    }
}

static void receive(const struct clients *clients, struct link *link) {
    bool whole = false;
    if (PQflush(link->connection) < 0 || PQconsumeInput(link->connection) != 1) {
        peer_die("PostgreSQL", PQerrorMessage(link->connection));
    }
    while (!whole && PQisBusy(link->connection) == 0) {
        PGresult *result = PQgetResult(link->connection);
        if (result == NULL) { /* the end of one statement's results */
            whole = clients->depth == 1 && link->answered == 1;
        } else if (PQresultStatus(result) == PGRES_PIPELINE_SYNC) {
            whole = true;
        } else {
            struct peer_lane *lane = &link->lanes[link->answered++];
            lane->outcome = take(link, lane, result);
        }
        PQclear(result);
    }
    if (whole) {
        link_go_on(clients, link);
    }
}

static void poll_answers(void *ctx) {
    const struct clients *clients = ctx;
    struct epoll_event events[64];
    int count = epoll_wait(clients->epoll, events, 64, 1000);
    for (int i = 0; i < count; i++) {
        receive(clients, events[i].data.ptr);
    }
}

static void close_clients(void *ctx) {
    struct clients *clients = ctx;
    for (uint32_t i = 0; i < clients->count; i++) {
        PQfinish(clients->links[i].connection);
    }
    (void)close(clients->epoll);
    free(clients->links);
    free(clients);
}

static void link_open(const struct clients *clients, struct link *link) {
    struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = link}};
    link->connection = connection_open();
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++) {
        PGresult *result =
            PQprepare(link->connection, statements[i].name, statements[i].sql, 0, NULL);
        if (PQresultStatus(result) != PGRES_COMMAND_OK) {
            peer_die("PostgreSQL", PQerrorMessage(link->connection));
        }
        PQclear(result);
    }
    if (PQsetnonblocking(link->connection, 1) != 0 ||
        (clients->depth > 1 && PQenterPipelineMode(link->connection) != 1) ||
        epoll_ctl(clients->epoll, EPOLL_CTL_ADD, PQsocket(link->connection), &event) != 0) {
        peer_die("PostgreSQL", "cannot watch a connection");
    }
}

static struct side open_clients(const struct peer_case *c, uint64_t *grants) {
    static const struct peer_verbs verbs = {submit, poll_answers, close_clients};
    struct clients *clients = peer_memory(1, sizeof *clients);
    struct link *links = peer_memory(c->clients, sizeof *links);
    struct peer_session *session = peer_session_make(&verbs, clients, c, grants);
    *clients = (struct clients){.epoll = epoll_create1(EPOLL_CLOEXEC),
                                .count = c->clients,
                                .depth = c->depth,
                                .links = links};
    for (uint32_t i = 0; i < c->clients; i++) {
        links[i].lanes = session->lanes + (size_t)i * c->depth;
        link_open(clients, &links[i]);
    }
    return peer_side(session);
}

static const struct peer_case cases[] = {
    {"cycles, 64 x 1, conditional insert", WORK_CYCLE, PEER_EMPTY, 64, 1, true},
    {"cycles, 64 x 1", WORK_CYCLE, PEER_EMPTY, 64, 1, false},
    {"cycles, 64 x 32", WORK_CYCLE, PEER_EMPTY, 64, 32, false},
    {"cycles at 99 %, 64 x 1", WORK_CYCLE, PEER_FULL, 64, 1, false},
    {"contention, 32 x 1", WORK_CONTEND, PEER_ONE, 32, 1, false},
    {"renewals, 64 x 1", WORK_RENEW, PEER_EMPTY, 64, 1, false},
    {"renewals, 64 x 32", WORK_RENEW, PEER_EMPTY, 64, 32, false},
    {"bundles, 64 x 1", WORK_BUNDLE, PEER_PART, 64, 1, false},
    {"sticky returns, 64 x 1", WORK_STICKY, PEER_EMPTY, 64, 1, false},
    {"cycles among 10 thousand leases, 64 x 1", WORK_CYCLE, PEER_SMALL, 64, 1, false},
    {"cycles among 1 million leases, 64 x 1", WORK_CYCLE, PEER_LARGE, 64, 1, false},
    {.name = NULL},
};

const struct peer peer_postgresql = {.name = "PostgreSQL",
                                     .package = "postgresql",
                                     .start = start,
                                     .stop = stop,
                                     .fill = fill,
                                     .open = open_clients,
                                     .cases = cases};
