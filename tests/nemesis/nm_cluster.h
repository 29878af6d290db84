/* A real cluster on this machine: three members of etcd, three nodes, and the links between them
 * (relay.h), each of which can be taken away for a while. What is due comes back in nm_cluster_tend.
 *
 * Clients follow the owner: a refusal names it, and a client that gets no answer for a second (every third
 * client: for eight), or loses its connection, tries the next node. The log of a node is read after
 * each of its deaths.
 *
 * The cluster has one sensor, which runs on the owner. Each run holds a lock that all nodes share for as long
 * as it lives; if it finds the lock taken, another run is alive, and the round has failed. */
#ifndef TESTS_NEMESIS_NM_CLUSTER_H
#define TESTS_NEMESIS_NM_CLUSTER_H

#include "lib/etcdkit.h"
#include "nemesis/nm_load.h"
#include "nemesis/relay.h"

struct nm_node {
    struct nm_process process;
    bool stopped;        /* by SIGSTOP */
    bool snapshot_taken; /* a snapshot was requested in this life */
    uint64_t back_at_ns; /* 0: it is not away */
};

struct nm_cluster {
    struct etcdkit etcd;
    bool member_stopped[NM_MEMBERS];
    uint64_t member_back_ns[NM_MEMBERS];
    struct nm_relay *relay;
    uint64_t link_back_ns[NM_NODES][NM_MEMBERS];
    struct nm_node nodes[NM_NODES];
    uint32_t owner; /* the node that has answered last */
    char secret[NM_PATH];
    char sensor[NM_PATH], told[NM_PATH]; /* the program of the sensor; what its runs have written */
    uint64_t runs;                       /* of the sensor */
    struct nm_client operator;
};

/* Starts everything; the first node begins the cluster. False: see load->why. */
bool nm_cluster_open(struct nm_cluster *cluster, struct nm_load *load);
/* Ends everything. The files stay if the load has failed. */
void nm_cluster_close(struct nm_cluster *cluster, const struct nm_load *load);

/* ---- Clients, for nm_load.c ---- */

bool nm_cluster_connect(struct nm_cluster *cluster, struct nm_client *client);
/* Connects clients that have no connection, to the owner if it is known. */
void nm_cluster_clients(struct nm_load *load);
/* The wall clock minus the clock of histories. */
int64_t nm_cluster_wall(void);

/* ---- Mishaps ---- */

/* Until then it is away. */
bool nm_cluster_node_end(struct nm_load *load, uint32_t node, int signal, uint64_t back_at_ns);
void nm_cluster_node_stop(struct nm_cluster *cluster, uint32_t node, uint64_t back_at_ns);
void nm_cluster_member_kill(struct nm_cluster *cluster, uint32_t member, uint64_t back_at_ns);
void nm_cluster_member_stop(struct nm_cluster *cluster, uint32_t member, uint64_t back_at_ns);
void nm_cluster_link(struct nm_cluster *cluster, uint32_t node, uint32_t member, enum nm_link link,
                     uint64_t back_at_ns);
/* Sends a command to a node without waiting for the answer. */
void nm_cluster_command(struct nm_cluster *cluster, uint32_t node, const char *line);

/* Brings back everything that is due by `now_ns`. UINT64_MAX: everything. False: a process has
 * ended unexpectedly. */
bool nm_cluster_tend(struct nm_load *load, uint64_t now_ns);

/* To be called when every operation is answered and every node runs: waits until all nodes have
 * applied the whole log, ends them and reads their logs and states. */
bool nm_cluster_finish(struct nm_load *load);

#endif
