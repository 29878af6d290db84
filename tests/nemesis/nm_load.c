/* See nm_load.h. The loop and the lives of the server; mishap.c has what happens to connections. */
#include "nemesis/nm_load.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "base/assert.h"
#include "nemesis/mishap.h"
#include "nemesis/nm_cluster.h"

bool nm_load_fail(struct nm_load *load, const char *format, ...) {
    va_list arguments;
    if (load->why[0] == '\0') {
        va_start(arguments, format);
        vsnprintf(load->why, sizeof load->why, format, arguments);
        va_end(arguments);
    }
    return false;
}

static uint32_t life_now(const struct nm_load *load) {
    return load->history.life_count - 1;
}

/* ---- Unknown outcomes ---- */

static uint32_t retry_left(const struct nm_load *load) {
    return load->retry_end - load->retry_first;
}

static void retry_add(struct nm_load *load, uint32_t index) {
    if (load->retry_first == load->retry_end) {
        load->retry_first = load->retry_end = 0;
    }
    if (load->retry_end == load->retry_capacity) {
        load->retry_capacity = load->retry_capacity * 2 + 64;
        load->retry = realloc(load->retry, load->retry_capacity * sizeof load->retry[0]);
        TN_ASSERT(load->retry != NULL);
    }
    load->retry[load->retry_end++] = index;
}

/* Forgets an answer that settles nothing. */
static void answer_clear(struct nm_op *op) {
    op->outcome = NM_UNKNOWN;
    op->end_ns = op->lsn = 0;
    op->code = 0;
}

/* No answer will come: what has an operation id is asked again. */
static void op_lost(struct nm_load *load, uint32_t index) {
    struct nm_op *op = &load->history.ops[index];
    answer_clear(op);
    load->done.unknown++;
    if (op->opid > 0) {
        retry_add(load, index);
    }
}

void nm_load_disconnect(struct nm_load *load, struct nm_client *client, bool abruptly) {
    for (uint32_t i = 0; i < client->count; i++) {
        op_lost(load, client->under_way[(client->first + i) % NM_DEPTH]);
    }
    nm_client_close(client, abruptly);
}

bool nm_load_connect(struct nm_load *load, struct nm_client *client) {
    client->connection = ++load->connections;
    if (load->cluster != NULL) {
        return nm_cluster_connect(load->cluster, client);
    }
    if (!nm_client_open(client, load->process.port)) {
        return nm_load_fail(load, "cannot connect");
    }
    return true;
}

/* ---- Asking ---- */

#define NEW_NS 1000000u /* between two new operations, with a cluster: the judges must keep up */

static bool may_generate(struct nm_load *load) {
    if (!load->generating || load->cluster == NULL) {
        return load->generating;
    }
    uint64_t now = nm_now_ns();
    bool may = load->new_ns <= now;
    if (may) {
        load->new_ns = (load->new_ns + 50 * NEW_NS < now ? now : load->new_ns) + NEW_NS;
    }
    return may;
}

static uint32_t op_next(struct nm_load *load, uint32_t client) {
    struct nm_history *h = &load->history;
    if (retry_left(load) > 0) {
        return load->retry[load->retry_first++];
    }
    struct nm_op *op = nm_history_op(h);
    op->client = client;
    nm_generate(&load->generator, h, h->op_count - 1);
    return h->op_count - 1;
}

void nm_load_ask(struct nm_load *load, uint32_t client_index) {
    struct nm_client *client = &load->clients[client_index];
    bool away = client->refused || client->socket < 0;
    while (!away && client->count < client->depth && (retry_left(load) > 0 || may_generate(load))) {
        uint32_t index = op_next(load, client_index);
        struct nm_op *op = &load->history.ops[index];
        op->connection = client->connection;
        op->life = life_now(load);
        op->sends++;
        nm_client_ask(client, op, index);
        op->start_ns = op->start_ns > 0 ? op->start_ns : nm_now_ns();
    }
}

/* ---- Answers ---- */

static void answered(struct nm_load *load, uint32_t index) {
    struct nm_op *op = &load->history.ops[index];
    bool open = op->outcome == NM_UNKNOWN || (op->outcome == NM_REJECTED && op->sends > 1);
    if (open) { /* a rejection says nothing of the times before */
        op_lost(load, index);
        return;
    }
    if (op->lsn > load->acknowledged_lsn && op->outcome == NM_COMMITTED) {
        load->acknowledged_lsn = op->lsn;
    }
    nm_generate_learn(&load->generator, op);
}

/* False: the connection is lost, and with it the requests in flight. */
static bool client_read(struct nm_load *load, struct nm_client *client) {
    char why[1024] = "";
    uint32_t index;
    enum nm_receive got;
    while ((got = nm_client_receive(client, &load->history, &index, why, sizeof why)) == NM_REPLY) {
        if (load->cluster != NULL && load->history.ops[index].outcome == NM_COMMITTED) {
            load->cluster->owner = client->node;
        }
        answered(load, index);
    }
    if (why[0] != '\0') {
        (void)nm_load_fail(load, "%s", why);
    }
    if (got == NM_GONE) {
        nm_load_disconnect(load, client, false);
    }
    return got != NM_GONE;
}

/* Waits until something can be read, at most so long, and reads it. `expected`: connections may go. */
static bool step(struct nm_load *load, int wait_ms, bool expected) {
    struct pollfd polls[NM_CLIENTS];
    uint64_t now = nm_now_ns();
    for (uint32_t i = 0; i < load->options.clients; i++) {
        struct nm_client *client = &load->clients[i];
        bool deaf = client->deaf_until_ns > now;
        polls[i] = (struct pollfd){.fd = deaf ? -1 : client->socket, .events = POLLIN};
    }
    (void)poll(polls, load->options.clients, wait_ms);
    for (uint32_t i = 0; i < load->options.clients; i++) {
        if (polls[i].fd < 0 || polls[i].revents == 0) {
            continue;
        }
        if (!client_read(load, &load->clients[i]) && !expected && load->cluster == NULL) {
            int status = 0;
            return nm_process_ended(&load->process, &status)
                       ? nm_load_fail(load, "the server ended by itself, with status %d", status)
                       : nm_load_fail(load, "the server closed a connection");
        }
    }
    return load->why[0] == '\0';
}

bool nm_load_turn(struct nm_load *load) {
    if (load->cluster != NULL) {
        nm_cluster_clients(load);
    }
    for (uint32_t i = 0; i < load->options.clients; i++) {
        struct nm_client *client = &load->clients[i];
        nm_load_ask(load, i);
        if (client->out_len > 0 && !nm_client_send(client, client->out_len)) {
            if (load->cluster == NULL) {
                return nm_load_fail(load, "cannot send");
            }
            nm_load_disconnect(load, client, false);
        }
    }
    return nm_mishap(load) && step(load, 1, false);
}

bool nm_load_run(struct nm_load *load, uint32_t ops) {
    load->generating = true;
    while (load->history.op_count < ops) {
        if (!nm_load_turn(load)) {
            return false;
        }
    }
    return true;
}

uint32_t nm_load_add(struct nm_load *load) {
    uint32_t index = load->history.op_count;
    (void)nm_history_op(&load->history);
    retry_add(load, index);
    return index;
}

/* Requests without an answer, and those that must be asked again. */
static uint32_t under_way(const struct nm_load *load) {
    uint32_t count = retry_left(load);
    for (uint32_t i = 0; i < load->options.clients; i++) {
        count += load->clients[i].count;
    }
    return count;
}

bool nm_load_is_quiet(const struct nm_load *load) {
    return under_way(load) == 0;
}

bool nm_load_settle(struct nm_load *load) {
    load->generating = false;
    while (under_way(load) > 0) {
        if (!nm_load_turn(load)) {
            return false;
        }
    }
    return true;
}

/* ---- Lives ---- */

static bool log_read(struct nm_load *load) {
    char why[1024];
    if (!nm_history_read_log(&load->history, load->process.data, life_now(load), why, sizeof why)) {
        return nm_load_fail(load, "after death %" PRIu32 ": %s", load->history.life_count, why);
    }
    return true;
}

#define START_NS 40000000u

/* Kills some starts before they finish, so that recovery is killed, too. The log must not change by
 * that. */
static bool starts_kill(struct nm_load *load) {
    while (load->options.kill_starts && load->history.entry_count > 0 &&
           tn_prng_below(&load->random, 4) == 0) {
        struct timespec pause = {.tv_nsec = (long)tn_prng_below(&load->random, START_NS)};
        if (!nm_process_spawn(&load->process)) {
            return nm_load_fail(load, "cannot start");
        }
        nanosleep(&pause, NULL);
        (void)nm_process_end(&load->process, SIGKILL);
        load->done.starts++;
        if (!log_read(load)) {
            return false;
        }
    }
    return true;
}

static bool life_begin(struct nm_load *load) {
    if (!starts_kill(load)) {
        return false;
    }
    struct nm_life *life = nm_history_life(&load->history);
    life->start_ns = nm_now_ns();
    life->first_lsn = load->history.entry_count;
    load->snapshot_taken = false;
    load->snapshot_wanted = tn_prng_below(&load->random, 2) == 0;
    if (!nm_process_start(&load->process)) {
        return nm_load_fail(load, "the server did not start: see stderr in %s", load->process.dir);
    }
    for (uint32_t i = 0; i < load->options.clients; i++) {
        if (!nm_load_connect(load, &load->clients[i])) {
            return false;
        }
    }
    return nm_load_connect(load, &load->operator);
}

/* Answers that arrived before the end are answers. */
static void clients_drain(struct nm_load *load) {
    for (uint32_t i = 0; i < load->options.clients; i++) {
        struct nm_client *client = &load->clients[i];
        if (client->socket >= 0 && client_read(load, client)) {
            nm_load_disconnect(load, client, false);
        }
    }
    nm_client_close(&load->operator, false);
}

static bool status_good(int status, int signal) {
    return signal == SIGKILL ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                             : WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool life_end(struct nm_load *load, int signal) {
    struct nm_life *life = &load->history.lives[life_now(load)];
    nm_mishap_continue(load);
    if (signal == SIGTERM) { /* the server answers all requests that it has before it exits */
        (void)kill(load->process.id, SIGTERM);
        for (uint32_t i = 0; i < load->options.clients; i++) {
            while (load->clients[i].socket >= 0) {
                load->clients[i].deaf_until_ns = 0;
                (void)step(load, 10, true);
            }
        }
    }
    int status = nm_process_end(&load->process, signal == SIGTERM ? 0 : signal);
    life->end_ns = nm_now_ns();
    clients_drain(load);
    if (!status_good(status, signal)) {
        return nm_load_fail(load, "the server ended with status %d, not by signal %d", status,
                            signal);
    }
    if (!log_read(load)) {
        return false;
    }
    life->last_lsn = load->history.entry_count;
    if (load->acknowledged_lsn > life->last_lsn) {
        return nm_load_fail(load, "lsn %" PRIu64 " was acknowledged, the log ends at %" PRIu64,
                            load->acknowledged_lsn, life->last_lsn);
    }
    return load->why[0] == '\0';
}

bool nm_load_death(struct nm_load *load, uint64_t after_ns, int signal) {
    uint64_t until = nm_now_ns() + after_ns;
    do {
        if (!nm_load_turn(load)) {
            return false;
        }
    } while (nm_now_ns() < until);
    load->done.kills += signal == SIGKILL;
    load->done.terms += signal == SIGTERM;
    return life_end(load, signal) && life_begin(load);
}

/* ---- Opening and closing ---- */

bool nm_load_pools(struct nm_load *load, struct nm_client *client) {
    for (uint32_t i = 0; nm_setup(i) != NULL; i++) {
        if (!nm_client_call(client, nm_setup(i)) || client->reader.nodes[0].type == CLI_ERROR) {
            struct tn_bytes text = client->reader.node_count > 0 ? cli_node_text(&client->reader, 0)
                                                                 : tn_bytes_of("", 0);
            return nm_load_fail(load, "%s: %.*s", nm_setup(i), (int)text.len, text.at);
        }
    }
    return true;
}

void nm_load_flags(struct nm_process *process, struct tn_prng *random) {
    nm_process_flag(process, "--leases-max", 100);
    nm_process_flag(process, "--members-max", 200);
    nm_process_flag(process, "--history-max", 40);
    nm_process_flag(process, "--pools-max", 50);
    nm_process_flag(process, "--resources-max", 50);
    nm_process_flag(process, "--rate-window-max", 60);
    nm_process_flag(process, "--cold-max", 40);
    nm_process_flag(process, "--cold-per-pool-max", 20);
    nm_process_flag(process, "--segment-bytes", (uint64_t)65536 << tn_prng_below(random, 4));
    nm_process_flag(process, "--events-max", 10000);
}

static void load_init(struct nm_load *load, const struct nm_options *options) {
    static const uint32_t depths[] = {1, 1, 2, 4, 1, 8, 2, NM_DEPTH};
    memset(load, 0, sizeof *load);
    load->options = *options;
    load->history.seed = options->seed;
    tn_prng_seed(&load->random, options->seed);
    tn_prng_seed(&load->generator.random, ~options->seed);
    load->generator.cells_only = options->cells_only;
    load->generator.opids_always = options->opids_always;
    TN_ASSERT(options->clients >= 1 && options->clients <= NM_CLIENTS);
    for (uint32_t i = 0; i < NM_CLIENTS; i++) {
        load->clients[i].socket = -1;
        load->clients[i].depth = depths[i % (sizeof depths / sizeof depths[0])];
    }
    load->operator.socket = - 1;
}

bool nm_load_open_cluster(struct nm_load *load, const struct nm_options *options,
                          struct nm_cluster *cluster) {
    load_init(load, options);
    load->cluster = cluster;
    load->history.wall_ns = nm_cluster_wall();
    nm_history_life(&load->history)->start_ns = nm_now_ns();
    return true;
}

bool nm_load_open(struct nm_load *load, const struct nm_options *options) {
    load_init(load, options);
    if (!nm_process_make(&load->process)) {
        return nm_load_fail(load, "no directory");
    }
    nm_load_flags(&load->process, &load->random);
    return life_begin(load) && nm_load_pools(load, &load->clients[0]);
}

bool nm_load_finish(struct nm_load *load) {
    return nm_load_settle(load) && life_end(load, load->snapshot_taken ? SIGKILL : SIGTERM);
}

void nm_load_close(struct nm_load *load) {
    for (uint32_t i = 0; i < load->options.clients; i++) {
        nm_client_close(&load->clients[i], false);
    }
    nm_client_close(&load->operator, false);
    if (load->process.id > 0) {
        nm_mishap_continue(load);
        (void)nm_process_end(&load->process, SIGKILL);
    }
    if (load->why[0] == '\0' && load->process.dir[0] != '\0') {
        nm_process_remove(&load->process);
    }
    free(load->retry);
    nm_history_free(&load->history);
}
