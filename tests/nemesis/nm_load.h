/* Clients that contend on a real server over real sockets, and what is done to them meanwhile.
 *
 * One thread asks for all clients, so that the history needs no locks and one clock orders it; the
 * server sees independent connections with pipelines of different depth. A write that gets no answer
 * is repeated with its operation id, by any client, until one comes. A write without an id stays
 * unknown.
 *
 * What happens on the way, at random points: kill -9 and a restart; SIGTERM and a restart; the server
 * stopped for a moment; connections cut, also in the middle of a request; clients that do not read;
 * snapshots. After each death the log is read from the directory, before the server has a chance to
 * touch it. */
#ifndef TESTS_NEMESIS_NM_LOAD_H
#define TESTS_NEMESIS_NM_LOAD_H

#include "nemesis/nm_client.h"
#include "nemesis/nm_generate.h"
#include "nemesis/nm_process.h"

#define NM_CLIENTS 16u

struct nm_cluster;

struct nm_options {
    uint64_t seed;
    uint32_t clients;
    bool cells_only, opids_always;
    bool calm;        /* nothing happens but what the caller does */
    bool kill_starts; /* some starts are killed before they serve */
};

struct nm_load {
    struct nm_options options;
    struct nm_history history;
    struct nm_process process;
    struct nm_cluster *cluster; /* replaces the process; NULL: no cluster */
    uint64_t new_ns;            /* in a cluster: when the next new operation may be sent */
    struct nm_generator generator;
    struct tn_prng random;
    struct nm_client clients[NM_CLIENTS];
    struct nm_client operator; /* asks for snapshots */
    uint32_t connections;      /* so far */
    /* Writes to be repeated, and what the caller added: the first one first, so that requests of a
     * connection stand in the history in the order in which they were sent, but for repeated ones. */
    uint32_t *retry;
    uint32_t retry_first, retry_end, retry_capacity;
    uint64_t next_mishap;      /* number of an operation */
    uint64_t continue_at_ns;   /* when a stopped server resumes; 0: it is not stopped */
    uint64_t acknowledged_lsn; /* the largest LSN in any answer */
    bool snapshot_taken;       /* in this life */
    bool snapshot_wanted;
    bool generating;
    struct {
        uint32_t kills, starts, terms, stops, cuts, deaf, snapshots, unknown;
    } done;
    char why[2048]; /* not empty: it has failed */
};

/* Starts the server, makes the pools, connects. False: see why. */
bool nm_load_open(struct nm_load *load, const struct nm_options *options);
/* The same with a cluster that runs: nm_cluster.h. It ends with nm_load_close. */
bool nm_load_open_cluster(struct nm_load *load, const struct nm_options *options,
                          struct nm_cluster *cluster);
/* Asks, sends, waits a moment for answers. */
bool nm_load_turn(struct nm_load *load);
/* Adds flags for small tables, like the model's, and for files so small that many are created and
 * dropped. */
void nm_load_flags(struct nm_process *process, struct tn_prng *random);
/* Until the history has so many operations, or it failed. */
bool nm_load_run(struct nm_load *load, uint32_t ops);
/* Adds an operation that the caller fills in; it is asked as soon as there is room for it. */
uint32_t nm_load_add(struct nm_load *load);
/* Whether nothing is in flight and no request must be repeated. */
bool nm_load_is_quiet(const struct nm_load *load);
/* Asks nothing new until everything is answered that can be. */
bool nm_load_settle(struct nm_load *load);
/* Goes on for so long, then ends the server with this signal, and starts the next life. */
bool nm_load_death(struct nm_load *load, uint64_t after_ns, int signal);
/* Settles, ends the server and reads its log. The history remains; everything else is freed. */
bool nm_load_finish(struct nm_load *load);
/* Frees everything; the directory stays if it failed. */
void nm_load_close(struct nm_load *load);

#endif
