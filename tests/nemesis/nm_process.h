/* The real server as a process, with a directory of its own and a free port on loopback. */
#ifndef TESTS_NEMESIS_NM_PROCESS_H
#define TESTS_NEMESIS_NM_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define NM_PATH 256u
#define NM_FLAGS 24u

struct nm_process {
    pid_t id; /* 0: not running */
    uint16_t port;
    char dir[NM_PATH];  /* data, port, stderr */
    char data[NM_PATH]; /* the server's own */
    char flags[NM_FLAGS][32];
    uint32_t flag_count;
    /* Of a node of a cluster. */
    char config[NM_PATH];            /* the configuration file; "": none */
    uint16_t listen_port, http_port; /* 0: a free port; no HTTP */
    bool init;                       /* the next start begins the cluster */
};

/* Makes a new directory under TMPDIR. False: the directory cannot be made. */
bool nm_process_make(struct nm_process *process);
void nm_process_flag(struct nm_process *process, const char *name, uint64_t value);
/* Removes the directory; the server must have ended. */
void nm_process_remove(const struct nm_process *process);

/* Starts tenured of the build that the tests belong to. */
bool nm_process_spawn(struct nm_process *process);
/* And waits until it serves. False: it ended instead; its last words are in dir/stderr. */
bool nm_process_start(struct nm_process *process);
/* Sends the signal (0: none) and waits for the end; returns the status as waitpid has it. */
int nm_process_end(struct nm_process *process, int signal);
/* Whether it has ended by itself. */
bool nm_process_ended(struct nm_process *process, int *ret_status);

uint64_t nm_now_ns(void);

#endif
