/* MariaDB, by its C library: each client sends a statement and reads the answer when it has come, so that
 * one thread drives all of them. InnoDB syncs its log for every transaction; there is no binary log.
 *
 * SKIP LOCKED: a row for each value, an index of the free ones, and a procedure, since UPDATE returns no
 * rows; a client begins at a random value. Conditional insert: a row for each held value; the client picks
 * the value. Bundles are inserted by one statement, which fails as a whole if a value is taken. A returning
 * holder has a row of its own. The protocol has no pipelines. */
#include "peer.h"

#include <mysql.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "../bench.h"
#include "process.h"

#define USER "mysql"
#define SQL_BYTES 768u
#define DUPLICATE 1062u /* numbers of errors */
#define DEADLOCK 1213u

static const char *const tables[] = {
    "CREATE DATABASE bench",
    "USE bench",
    "CREATE TABLE leases (pool INT, value INT, free INT NOT NULL, holder VARCHAR(64), "
    "token BIGINT NOT NULL, due BIGINT, PRIMARY KEY (pool, value), KEY vacant (pool, free, value))",
    "CREATE TABLE held (pool INT, value INT, holder VARCHAR(64), token BIGINT, due BIGINT, "
    "PRIMARY KEY (pool, value))",
    "CREATE TABLE sticky (holder VARCHAR(64) PRIMARY KEY, value INT, token BIGINT, active INT, "
    "due BIGINT)",
    "CREATE SEQUENCE token",
    "INSERT INTO sticky SELECT CONCAT('client/', seq), seq, 0, 0, 0 FROM seq_0_to_4095",
    "CREATE PROCEDURE take(p INT, s INT, h VARCHAR(64), d BIGINT) BEGIN "
    "DECLARE v INT DEFAULT NULL; DECLARE t BIGINT; "
    "START TRANSACTION; "
    "SELECT value, token + 1 INTO v, t FROM leases FORCE INDEX (vacant) "
    "WHERE pool = p AND free = 1 AND value >= s "
    "ORDER BY value LIMIT 1 FOR UPDATE SKIP LOCKED; "
    "IF v IS NOT NULL THEN "
    "UPDATE leases SET free = 0, holder = h, token = t, due = d WHERE pool = p AND value = v; "
    "END IF; COMMIT; SELECT v, t; END",
};

static struct process server;

static bool connect_to(MYSQL *connection, const char *database) {
    unsigned tcp = MYSQL_PROTOCOL_TCP;
    if (mysql_init(connection) == NULL) {
        peer_die("MariaDB", "no memory");
    }
    (void)mysql_options(connection, MYSQL_OPT_PROTOCOL, &tcp);
    return mysql_real_connect(connection, "127.0.0.1", "root", "", database, server.port, NULL,
                              CLIENT_MULTI_RESULTS) != NULL;
}

static void run(MYSQL *connection, const char *sql) {
    if (mysql_query(connection, sql) != 0) {
        peer_die("MariaDB", mysql_error(connection));
    }
}

/* ---- The server ---- */

static bool start(void) {
    char program[128], data[512], option[3][544];
    if (!process_find("/usr/bin/mariadb-install-db", program, sizeof program)) {
        return false;
    }
    process_path("mariadb", data, sizeof data);
    process_directory_give("mariadb", USER);
    server.port = process_port_free();
    snprintf(option[0], sizeof option[0], "--datadir=%s", data);
    snprintf(option[1], sizeof option[1], "--port=%u", server.port);
    snprintf(option[2], sizeof option[2], "--socket=%s/socket", data);
    char *init[] = {program,          "--no-defaults",
                    option[0],        "--auth-root-authentication-method=normal",
                    "--skip-test-db", NULL};
    process_run("mariadb-init", USER, init);
    char *argv[] = {"/usr/sbin/mariadbd",
                    "--no-defaults",
                    option[0],
                    option[1],
                    option[2],
                    "--bind-address=127.0.0.1",
                    "--skip-log-bin",
                    "--innodb-flush-log-at-trx-commit=1",
                    "--innodb-buffer-pool-size=512M",
                    "--innodb-log-file-size=512M",
                    "--transaction-isolation=READ-COMMITTED",
                    NULL};
    server.id = process_begin("mariadb", USER, argv);
    MYSQL connection;
    while (!connect_to(&connection, NULL)) {
        mysql_close(&connection);
        process_check(&server, "mariadbd");
    }
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        run(&connection, tables[i]);
    }
    mysql_close(&connection);
    return true;
}

static void stop(void) {
    process_stop(&server);
}

static void fill(enum peer_pool pool) {
    char sql[SQL_BYTES];
    MYSQL connection;
    if (!connect_to(&connection, "bench")) {
        peer_die("MariaDB", mysql_error(&connection));
    }
    const struct work_pool *p = &peer_pools[pool];
    snprintf(sql, sizeof sql,
             "INSERT INTO leases SELECT %d, seq, seq MOD %u = 0, "
             "IF(seq MOD %u > 0, CONCAT('other/', seq MOD 1000), NULL), 0, 0 FROM seq_0_to_%u",
             (int)pool, p->stride, p->stride, p->values - 1);
    run(&connection, sql);
    mysql_close(&connection);
}

/* ---- Statements ---- */

typedef unsigned long long number; /* for printf */

/* Candidates in the order of the keys, so that no two clients wait for each other. */
static int bundle_sql(struct peer_lane *lane, char *sql) {
    uint32_t from = peer_candidate(lane, PEER_PART), value = 0;
    int len = snprintf(sql, SQL_BYTES, "INSERT INTO held VALUES ");
    from = from < peer_pools[PEER_PART].values - WORK_BUNDLE_VALUES ? from : 0;
    for (unsigned pool = 0; pool < WORK_BUNDLE_POOLS; pool++) {
        for (unsigned i = 0; i < work_bundle_counts[pool]; i++, value++) {
            lane->values[value] = from + i;
            len +=
                snprintf(sql + len, SQL_BYTES - (size_t)len, "%s(%u, %u, '%s', %s(token), %llu)",
                         value > 0 ? ", " : "", PEER_PART + pool, lane->values[value], lane->holder,
                         value == 0 ? "NEXTVAL" : "LASTVAL", (number)peer_due_ms());
        }
    }
    return len + snprintf(sql + len, SQL_BYTES - (size_t)len, " RETURNING value, token");
}

static int grant_sql(struct peer_lane *lane, char *sql) {
    const struct peer_case *work = &lane->session->work;
    if (work->work == WORK_STICKY) {
        return snprintf(sql, SQL_BYTES,
                        "INSERT INTO sticky VALUES ('%s', 0, 0, 1, 0) ON DUPLICATE KEY UPDATE "
                        "active = 1, token = token + 1, due = %llu RETURNING value, token",
                        lane->holder, (number)peer_due_ms());
    }
    uint32_t candidate = lane->whole ? 0 : peer_candidate(lane, work->pool);
    if (work->insert) {
        return snprintf(sql, SQL_BYTES,
                        "INSERT IGNORE INTO held VALUES (%d, %u, '%s', NEXTVAL(token), %llu) "
                        "RETURNING value, token",
                        (int)work->pool, candidate, lane->holder, (number)peer_due_ms());
    }
    return snprintf(sql, SQL_BYTES, "CALL take(%d, %u, '%s', %llu)", (int)work->pool, candidate,
                    lane->holder, (number)peer_due_ms());
}

static int unbundle_sql(const struct peer_lane *lane, char *sql) {
    const uint32_t *v = lane->values;
    const unsigned part = PEER_PART;
    return snprintf(sql, SQL_BYTES,
                    "DELETE FROM held WHERE token = %llu AND holder = '%s' AND ("
                    "pool = %u AND value IN (%u, %u, %u) OR pool = %u AND value IN (%u, %u, %u) "
                    "OR pool = %u AND value IN (%u, %u))",
                    (number)lane->token, lane->holder, part, v[0], v[1], v[2], part + 1, v[3], v[4],
                    v[5], part + 2, v[6], v[7]);
}

static int give_back_sql(const struct peer_lane *lane, char *sql) {
    const struct peer_case *work = &lane->session->work;
    if (work->work == WORK_BUNDLE) {
        return unbundle_sql(lane, sql);
    }
    if (work->work == WORK_STICKY) {
        return snprintf(sql, SQL_BYTES,
                        "UPDATE sticky SET active = 0, due = %llu "
                        "WHERE holder = '%s' AND token = %llu",
                        (number)peer_due_ms(), lane->holder, (number)lane->token);
    }
    int len = work->insert ? snprintf(sql, SQL_BYTES, "DELETE FROM held")
              : work->work == WORK_RENEW
                  ? snprintf(sql, SQL_BYTES, "UPDATE leases SET due = %llu", (number)peer_due_ms())
                  : snprintf(sql, SQL_BYTES, "UPDATE leases SET free = 1, holder = NULL");
    return len + snprintf(sql + len, SQL_BYTES - (size_t)len,
                          " WHERE pool = %d AND value = %llu AND token = %llu AND holder = '%s'",
                          (int)work->pool, (number)lane->value, (number)lane->token, lane->holder);
}

/* ---- Clients ---- */

struct link {
    MYSQL connection;
    struct peer_lane *lane;
};

struct clients {
    int epoll;
    uint32_t count;
    struct link *links;
};

static void submit(void *ctx, struct peer_lane *lane) {
    const struct clients *clients = ctx;
    MYSQL *connection = &clients->links[lane->index].connection;
    char sql[SQL_BYTES];
    int len = lane->step == 1                           ? give_back_sql(lane, sql)
              : lane->session->work.work == WORK_BUNDLE ? bundle_sql(lane, sql)
                                                        : grant_sql(lane, sql);
    if (mysql_send_query(connection, sql, (unsigned long)len) != 0) {
        peer_die("MariaDB", mysql_error(connection));
    }
}

/* Takes the value and the token of the first row, if there is a row that is not NULL. */
static bool row_take(MYSQL *connection, struct peer_lane *lane) {
    MYSQL_RES *result = mysql_store_result(connection);
    MYSQL_ROW row = result != NULL ? mysql_fetch_row(result) : NULL;
    bool found = row != NULL && row[0] != NULL;
    if (found) {
        lane->value = strtoull(row[0], NULL, 10);
        lane->token = strtoull(row[1], NULL, 10);
    }
    mysql_free_result(result);
    while (mysql_next_result(connection) == 0) { /* the status of a procedure */
        mysql_free_result(mysql_store_result(connection));
    }
    return found;
}

static enum peer_outcome take(MYSQL *connection, struct peer_lane *lane) {
    const struct peer_case *work = &lane->session->work;
    if (mysql_read_query_result(connection) != 0) {
        unsigned error = mysql_errno(connection);
        if (error != DUPLICATE && error != DEADLOCK) {
            peer_die("MariaDB", mysql_error(connection));
        }
        return PEER_AGAIN;
    }
    if (lane->step == 1) {
        if (mysql_affected_rows(connection) !=
            (work->work == WORK_BUNDLE ? WORK_BUNDLE_VALUES : 1)) {
            peer_die("MariaDB", "a release or renewal found another token");
        }
        return PEER_DONE;
    }
    if (row_take(connection, lane)) {
        lane->whole = false;
        return PEER_DONE;
    }
    lane->whole = !lane->whole && !work->insert;
    return work->work == WORK_CONTEND ? PEER_REFUSED : PEER_AGAIN;
}

static void poll_answers(void *ctx) {
    const struct clients *clients = ctx;
    struct epoll_event events[64];
    int count = epoll_wait(clients->epoll, events, 64, 1000);
    for (int i = 0; i < count; i++) {
        struct link *link = events[i].data.ptr;
        peer_answered(link->lane, take(&link->connection, link->lane));
    }
}

static void close_clients(void *ctx) {
    struct clients *clients = ctx;
    for (uint32_t i = 0; i < clients->count; i++) {
        mysql_close(&clients->links[i].connection);
    }
    (void)close(clients->epoll);
    free(clients->links);
    free(clients);
}

static struct side open_clients(const struct peer_case *c, uint64_t *grants) {
    static const struct peer_verbs verbs = {submit, poll_answers, close_clients};
    struct clients *clients = peer_memory(1, sizeof *clients);
    struct link *links = peer_memory(c->clients, sizeof *links);
    struct peer_session *session = peer_session_make(&verbs, clients, c, grants);
    *clients = (struct clients){
        .epoll = epoll_create1(EPOLL_CLOEXEC), .count = c->clients, .links = links};
    for (uint32_t i = 0; i < c->clients; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = &links[i]}};
        links[i].lane = &session->lanes[i];
        if (!connect_to(&links[i].connection, "bench") ||
            epoll_ctl(clients->epoll, EPOLL_CTL_ADD, mysql_get_socket(&links[i].connection),
                      &event) != 0) {
            peer_die("MariaDB", mysql_error(&links[i].connection));
        }
    }
    return peer_side(session);
}

static const struct peer_case cases[] = {
    {"cycles, 64 x 1, conditional insert", WORK_CYCLE, PEER_EMPTY, 64, 1, true},
    {"cycles, 64 x 1", WORK_CYCLE, PEER_EMPTY, 64, 1, false},
    {"cycles at 99 %, 64 x 1", WORK_CYCLE, PEER_FULL, 64, 1, false},
    {"contention, 32 x 1", WORK_CONTEND, PEER_ONE, 32, 1, false},
    {"renewals, 64 x 1", WORK_RENEW, PEER_EMPTY, 64, 1, false},
    {"bundles, 64 x 1", WORK_BUNDLE, PEER_PART, 64, 1, false},
    {"sticky returns, 64 x 1", WORK_STICKY, PEER_EMPTY, 64, 1, false},
    {"cycles among 10 thousand leases, 64 x 1", WORK_CYCLE, PEER_SMALL, 64, 1, false},
    {"cycles among 1 million leases, 64 x 1", WORK_CYCLE, PEER_LARGE, 64, 1, false},
    {.name = NULL},
};

const struct peer peer_mariadb = {.name = "MariaDB",
                                  .package = "mariadb-server",
                                  .start = start,
                                  .stop = stop,
                                  .fill = fill,
                                  .open = open_clients,
                                  .cases = cases};
