/* See nm_cluster.h. */
#include "nemesis/nm_cluster.h"

#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "log/local.h"
#include "nemesis/mishap.h"

#define REST_NS 30000000u     /* before a client tries another node */
#define SILENT_NS 1000000000u /* after which a client gives up a connection */
/* The same for every third client, which waits for an owner that was stopped. */
#define PATIENT_NS 8000000000u
#define PATIENCE_NS 60000000000u

static void pause_ms(long ms) {
    struct timespec pause = {.tv_nsec = ms * 1000000};
    nanosleep(&pause, NULL);
}

int64_t nm_cluster_wall(void) {
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    return (int64_t)wall.tv_sec * 1000000000 + wall.tv_nsec - (int64_t)nm_now_ns();
}

/* ---- Clients ---- */

bool nm_cluster_connect(struct nm_cluster *cluster, struct nm_client *client) {
    return nm_client_open_soon(client, cluster->nodes[client->node].process.listen_port);
}

static uint32_t node_next(const struct nm_cluster *cluster, const struct nm_client *client) {
    for (uint32_t i = 0; i < NM_NODES; i++) {
        if (client->leader_port != 0 &&
            cluster->nodes[i].process.listen_port == client->leader_port) {
            return i;
        }
    }
    return (client->node + 1) % NM_NODES;
}

/* Leaves its node for another one. */
static void client_go(struct nm_load *load, struct nm_client *client) {
    client->node = node_next(load->cluster, client);
    nm_load_disconnect(load, client, false);
    client->rests_until_ns = nm_now_ns() + REST_NS;
}

void nm_cluster_clients(struct nm_load *load) {
    for (uint32_t i = 0; i < load->options.clients; i++) {
        struct nm_client *client = &load->clients[i];
        uint64_t now = nm_now_ns();
        bool waits = client->count > 0 || client->greets;
        uint64_t silent_ns = i % 3 == 0 ? PATIENT_NS : SILENT_NS;
        client->progress_ns = waits ? client->progress_ns : now;
        if (client->socket < 0) {
            if (now >= client->rests_until_ns) {
                client->progress_ns = now;
                if (!nm_load_connect(load, client)) {
                    client_go(load, client);
                }
            }
        } else if (client->refused ? client->count == 0 : now > client->progress_ns + silent_ns) {
            client_go(load, client);
        }
    }
}

/* ---- Starting ---- */

/* The lock belongs to the descriptor, so it is free when the run and all its children are dead. */
static bool sensor_write(struct nm_cluster *cluster) {
    const char *dir = cluster->nodes[0].process.dir;
    snprintf(cluster->sensor, sizeof cluster->sensor, "%.200s/sensor", dir);
    snprintf(cluster->told, sizeof cluster->told, "%.200s/told", dir);
    FILE *file = fopen(cluster->sensor, "we");
    if (file == NULL) {
        return false;
    }
    fprintf(file,
            "exec 9>>'%s.lock'\n"
            "if ! flock -n 9; then echo VIOLATION >>'%s'; exit 1; fi\n"
            "echo run >>'%s'\n"
            "exec sleep 100000\n",
            cluster->told, cluster->told, cluster->told);
    return fclose(file) == 0;
}

static bool sensor_judge(struct nm_load *load) {
    char line[64];
    bool good = true;
    FILE *file = fopen(load->cluster->told, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        load->cluster->runs += strcmp(line, "run\n") == 0;
        good = good && strcmp(line, "VIOLATION\n") != 0;
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return good || nm_load_fail(load, "two runs of the sensor were alive at once");
}

static bool config_write(const struct nm_cluster *cluster, uint32_t n) {
    const struct nm_process *process = &cluster->nodes[n].process;
    FILE *file = fopen(process->config, "we");
    if (file == NULL) {
        return false;
    }
    fprintf(file, "[cluster]\nnode = n%" PRIu32 "\ncluster_secret_file = %s\netcd_endpoints =", n,
            cluster->secret);
    for (uint32_t i = 0; i < NM_MEMBERS; i++) {
        fprintf(file, " http://127.0.0.1:%u", nm_relay_port(cluster->relay, n, i));
    }
    fprintf(
        file,
        "\nsensor_fence_seconds = 2\n[sensors]\nsensor_settle_seconds = 0\nsensor_stop_seconds = 1\n"
        "sensor_containment = none\n[sensor once]\ntrigger = t\ncommand = /bin/sh %s\n"
        "[rule once]\ntrigger = t\n",
        cluster->sensor);
    return fclose(file) == 0;
}

static bool secret_write(struct nm_cluster *cluster) {
    snprintf(cluster->secret, sizeof cluster->secret, "%.200s/secret",
             cluster->nodes[0].process.dir);
    FILE *file = fopen(cluster->secret, "we");
    if (file == NULL) {
        return false;
    }
    bool good = fchmod(fileno(file), 0600) == 0 && fputs("a secret of all nodes\n", file) >= 0;
    return fclose(file) == 0 && good;
}

static bool node_make(struct nm_cluster *cluster, struct nm_load *load, uint32_t n) {
    struct nm_process *process = &cluster->nodes[n].process;
    unsigned ports[2];
    if (!nm_process_make(process) ||
        (n == 0 && !(secret_write(cluster) && sensor_write(cluster)))) {
        return false;
    }
    int held[2] = {etcdkit_port(&ports[0]), etcdkit_port(&ports[1])};
    (void)close(held[0]);
    (void)close(held[1]);
    process->listen_port = (uint16_t)ports[0];
    process->http_port = (uint16_t)ports[1];
    process->init = n == 0;
    snprintf(process->config, sizeof process->config, "%.200s/tenured.conf", process->dir);
    nm_load_flags(process, &load->random);
    return config_write(cluster, n);
}

/* Tries until the first owner has made the pools. */
static bool pools_make(struct nm_cluster *cluster, struct nm_load *load) {
    struct nm_client *client = &cluster->operator;
    uint64_t end_ns = nm_now_ns() + PATIENCE_NS;
    bool made = false;
    while (!made && nm_now_ns() < end_ns) {
        load->why[0] = '\0';
        nm_client_close(client, false);
        made = nm_client_open(client, cluster->nodes[0].process.listen_port) &&
               nm_load_pools(load, client);
        if (!made) {
            pause_ms(20);
        }
    }
    return made || nm_load_fail(load, "nobody owns the log at the start");
}

bool nm_cluster_open(struct nm_cluster *cluster, struct nm_load *load) {
    struct etcdkit_options options = {.members = NM_MEMBERS, .arguments = "--pre-vote"};
    unsigned targets[NM_MEMBERS];
    memset(cluster, 0, sizeof *cluster);
    cluster->operator.socket = - 1;
    etcdkit_open(&cluster->etcd, &options);
    for (uint32_t i = 0; i < NM_MEMBERS; i++) {
        targets[i] = cluster->etcd.members[i].client_port;
    }
    cluster->relay = nm_relay_open(targets);
    if (cluster->relay == NULL) {
        return nm_load_fail(load, "no relay");
    }
    for (uint32_t i = 0; i < NM_NODES; i++) {
        if (!node_make(cluster, load, i) || !nm_process_spawn(&cluster->nodes[i].process)) {
            return nm_load_fail(load, "cannot start node %" PRIu32, i);
        }
        if (i == 0 && !pools_make(cluster, load)) {
            return false;
        }
        cluster->nodes[i].process.init = false;
    }
    return true;
}

void nm_cluster_close(struct nm_cluster *cluster, const struct nm_load *load) {
    nm_client_close(&cluster->operator, false);
    for (uint32_t i = 0; i < NM_NODES; i++) {
        struct nm_process *process = &cluster->nodes[i].process;
        if (process->id > 0) {
            (void)nm_process_end(process, SIGKILL);
        }
        if (process->dir[0] != '\0' && load->why[0] == '\0') {
            nm_process_remove(process);
        } else {
            fprintf(stderr, "the files of node %" PRIu32 " are in %s\n", i, process->dir);
        }
    }
    if (cluster->relay != NULL) {
        nm_relay_close(cluster->relay);
    }
    etcdkit_close(&cluster->etcd);
}

/* ---- Mishaps ---- */

static bool copy_read(struct nm_load *load, uint32_t n, bool *ret_gap) {
    char why[1024];
    const struct nm_process *process = &load->cluster->nodes[n].process;
    return nm_history_read_copy(&load->history, process->data, ret_gap, why, sizeof why) ||
           nm_load_fail(load, "node %" PRIu32 ": %s", n, why);
}

bool nm_cluster_node_end(struct nm_load *load, uint32_t n, int signal, uint64_t back_at_ns) {
    struct nm_node *node = &load->cluster->nodes[n];
    bool gap;
    if (node->stopped) {
        node->stopped = false;
        (void)kill(node->process.id, SIGCONT);
    }
    int status = nm_process_end(&node->process, signal);
    /* By the signal itself, if it has not got as far as to listen to it. */
    bool good = (WIFSIGNALED(status) && WTERMSIG(status) == signal) ||
                (signal == SIGTERM && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    node->back_at_ns = back_at_ns;
    node->snapshot_taken = false;
    if (!good) {
        return nm_load_fail(load, "node %" PRIu32 " ended with status %d, not by signal %d", n,
                            status, signal);
    }
    return copy_read(load, n, &gap);
}

void nm_cluster_node_stop(struct nm_cluster *cluster, uint32_t n, uint64_t back_at_ns) {
    struct nm_node *node = &cluster->nodes[n];
    (void)kill(node->process.id, SIGSTOP);
    node->stopped = true;
    node->back_at_ns = back_at_ns;
}

void nm_cluster_member_kill(struct nm_cluster *cluster, uint32_t member, uint64_t back_at_ns) {
    etcdkit_kill(&cluster->etcd, member);
    cluster->member_stopped[member] = false;
    cluster->member_back_ns[member] = back_at_ns;
}

void nm_cluster_member_stop(struct nm_cluster *cluster, uint32_t member, uint64_t back_at_ns) {
    etcdkit_pause(&cluster->etcd, member);
    cluster->member_stopped[member] = true;
    cluster->member_back_ns[member] = back_at_ns;
}

void nm_cluster_link(struct nm_cluster *cluster, uint32_t node, uint32_t member, enum nm_link link,
                     uint64_t back_at_ns) {
    nm_relay_set(cluster->relay, node, member, link);
    cluster->link_back_ns[node][member] = back_at_ns;
}

void nm_cluster_command(struct nm_cluster *cluster, uint32_t node, const char *line) {
    struct nm_client *client = &cluster->operator;
    nm_client_close(client, false);
    if (nm_client_open_soon(client, cluster->nodes[node].process.listen_port)) {
        client->out_len = nm_line_write(line, client->out);
        (void)nm_client_send(client, client->out_len);
    }
}

/* ---- Coming back ---- */

static bool is_due(uint64_t *back_at_ns, uint64_t now_ns) {
    bool due = *back_at_ns != 0 && *back_at_ns <= now_ns;
    if (due) {
        *back_at_ns = 0;
    }
    return due;
}

static bool node_tend(struct nm_load *load, uint32_t n, uint64_t now_ns) {
    struct nm_node *node = &load->cluster->nodes[n];
    int status = 0;
    if (node->process.id > 0 && nm_process_ended(&node->process, &status)) {
        return nm_load_fail(load, "node %" PRIu32 " ended by itself, with status %d", n, status);
    }
    if (!is_due(&node->back_at_ns, now_ns)) {
        return true;
    }
    if (node->stopped) {
        node->stopped = false;
        (void)kill(node->process.id, SIGCONT);
        return true;
    }
    return nm_process_spawn(&node->process) || nm_load_fail(load, "cannot start");
}

/* Another program may have had its port when it began: it is started again. */
static void member_tend(struct nm_cluster *cluster, uint32_t i, uint64_t now_ns) {
    struct etcdkit_member *member = &cluster->etcd.members[i];
    int status = 0;
    if (member->pid != 0 && !cluster->member_stopped[i] &&
        waitpid(member->pid, &status, WNOHANG) == member->pid) {
        member->pid = 0;
        cluster->member_back_ns[i] = nm_now_ns() + 300000000u;
    }
    if (!is_due(&cluster->member_back_ns[i], now_ns)) {
        return;
    }
    if (cluster->member_stopped[i]) {
        cluster->member_stopped[i] = false;
        etcdkit_resume(&cluster->etcd, i);
    } else {
        etcdkit_start(&cluster->etcd, i);
    }
}

bool nm_cluster_tend(struct nm_load *load, uint64_t now_ns) {
    struct nm_cluster *cluster = load->cluster;
    bool good = true;
    for (uint32_t i = 0; i < NM_MEMBERS; i++) {
        member_tend(cluster, i, now_ns);
    }
    for (uint32_t n = 0; n < NM_NODES; n++) {
        good = node_tend(load, n, now_ns) && good;
        for (uint32_t i = 0; i < NM_MEMBERS; i++) {
            if (is_due(&cluster->link_back_ns[n][i], now_ns)) {
                nm_relay_set(cluster->relay, n, i, NM_LINK_OPEN);
            }
        }
    }
    return good;
}

/* ---- The end ---- */

/* Whether the node has this position: reads the node's own state with this position as a fence. */
static bool node_has(const struct nm_cluster *cluster, uint32_t n, uint64_t lsn) {
    struct nm_client client = {.socket = -1};
    char line[64];
    snprintf(line, sizeof line, "LEASE a0/1 FENCE %" PRIu64, lsn);
    bool has = nm_client_open(&client, cluster->nodes[n].process.listen_port) &&
               nm_client_call(&client, "READONLY") && nm_client_call(&client, line);
    if (has && client.reader.nodes[0].type == CLI_ERROR) {
        struct tn_bytes text = cli_node_text(&client.reader, 0);
        has = text.len >= 8 && memcmp(text.at, "NOTFOUND", 8) == 0;
    }
    nm_client_close(&client, false);
    return has;
}

static bool nodes_catch_up(struct nm_load *load) {
    uint64_t end_ns = nm_now_ns() + PATIENCE_NS;
    for (uint32_t n = 0; n < NM_NODES; n++) {
        while (!node_has(load->cluster, n, load->acknowledged_lsn)) {
            if (nm_now_ns() > end_ns) {
                return nm_load_fail(load, "node %" PRIu32 " does not get lsn %" PRIu64, n,
                                    load->acknowledged_lsn);
            }
            pause_ms(20);
        }
    }
    return true;
}

/* The state that a start of this node would find. */
static bool digest_take(struct nm_load *load, uint32_t n) {
    const struct nm_process *process = &load->cluster->nodes[n].process;
    struct log_local_options options = {.os = os_posix(), .dir = process->data, .read_only = true};
    struct log_error error = {.text = ""};
    struct engine_report report = {.sound = false};
    struct log *log;
    enum tn_status status = log_local_open(&options, NULL, NULL, &log, &error);
    if (status == TN_OK) {
        status = engine_replay(os_posix(), log_local_store(log), log, &report, &error);
    }
    if (status != TN_OK || !report.sound) {
        return nm_load_fail(load, "the state of node %" PRIu32 ": %s", n,
                            status != TN_OK ? error.text : report.why);
    }
    load->history.digests[load->history.digest_count++] =
        (struct nm_digest){.lsn = report.position.lsn, .hash = report.hash, .node = n};
    return true;
}

/* Repeats the reading for copies that begin after the known entries: another copy may close the
 * gap. */
static bool copies_read(struct nm_load *load) {
    bool gap = true;
    for (uint32_t tries = 0; tries < NM_NODES && gap; tries++) {
        gap = false;
        for (uint32_t n = 0; n < NM_NODES; n++) {
            bool here = false;
            if (!copy_read(load, n, &here)) {
                return false;
            }
            gap = gap || here;
        }
    }
    return !gap || nm_load_fail(load, "no node has all of the log");
}

bool nm_cluster_finish(struct nm_load *load) {
    bool good = nodes_catch_up(load) && sensor_judge(load);
    for (uint32_t n = 0; n < NM_NODES && good; n++) {
        good = nm_cluster_node_end(load, n, SIGTERM, 0);
    }
    good = good && copies_read(load);
    for (uint32_t n = 0; n < NM_NODES && good; n++) {
        good = digest_take(load, n);
    }
    struct nm_life *life = &load->history.lives[0];
    life->end_ns = nm_now_ns();
    life->last_lsn = load->history.entry_count;
    if (good && load->acknowledged_lsn > life->last_lsn) {
        return nm_load_fail(load, "lsn %" PRIu64 " was acknowledged, the log ends at %" PRIu64,
                            load->acknowledged_lsn, life->last_lsn);
    }
    return good;
}
