/* The record of a run, for a server that starts after another one was killed.
 *
 *     0   8   "TNRUN02\n"
 *     8   4   CRC32C of everything behind it
 *     12  8   shard of the lease
 *     20  8   its number
 *     28  8   epoch
 *     36  4   pid of the guardian
 *     40  8   its start time, clock ticks since boot
 *     48  4   pid of the main process; 0: not started yet, or not known
 *     52  8   its start time
 *     60  4   pid of the server, in its own namespace
 *     64  8   number of the pid namespace of the server; 0: not known
 *     72  1   how the run is contained: enum run_record_proof
 *     73      boot, id of the run, cgroup, ref: a 16-bit length and a text each
 *
 * Little-endian. A record of version 01 has no bytes 60 to 72; it is read as one of a run that only
 * its guardian could prove dead.
 *
 * The record exists from before the start of anything until the run is proven dead. It is
 * removed with the proof: by the guardian when it has no child left, otherwise by the server. So a record whose
 * guardian has ended is the record of a run that its guardian did not prove dead.
 *
 * It is written under another name and renamed; the pid of the main process is written into the file
 * that is there, so that a record that the guardian has removed does not come back. It is not synced:
 * a crash of the machine that loses a record has ended the processes too. So a torn record counts as none. */
#ifndef TN_PROCESS_RUN_RECORD_H
#define TN_PROCESS_RUN_RECORD_H

#include "kernel/types.h"
#include "os/os.h"
#include "process/proc.h"

#define RUN_RECORD_ID_TEXT 33u /* with its NUL */
#define RUN_RECORD_PATH_MAX 4096u
#define RUN_RECORD_VARIABLE "TENURE_RUN_ID"
#define RUN_RECORD_CHECK "-check" /* at the end of the name of a check's cgroup */

/* The proofs that all of a run is dead, with their names. */
#define RUN_RECORD_PROOF_TABLE(X)                                                       \
    X(REAPED, "reaped") /* its guardian, to which all its orphans come, has no child */ \
    X(CGROUP, "cgroup") /* its cgroup is empty */                                       \
    X(PIDNS, "pidns")   /* the first process of its pid namespace, the guardian, ended */

enum run_record_proof {
#define RUN_RECORD_PROOF_ENUM(id, name) RUN_RECORD_##id,
    RUN_RECORD_PROOF_TABLE(RUN_RECORD_PROOF_ENUM)
#undef RUN_RECORD_PROOF_ENUM
        RUN_RECORD_PROOFS
};

const char *run_record_proof_name(enum run_record_proof proof);

struct run_record {
    struct kernel_lease_id lease;
    uint64_t epoch;
    pid_t guardian, main;
    uint64_t guardian_start, main_start;
    pid_t server;
    uint64_t server_namespace;
    enum run_record_proof proof;
    char boot[PROCESS_BOOT_TEXT];
    char id[RUN_RECORD_ID_TEXT]; /* random, in the environment of all its processes */
    char cgroup[RUN_RECORD_PATH_MAX];
    char ref[KERNEL_RULE_MAX + 1];
};

/* Of the sensor whose directory this is. */
enum tn_status run_record_write(const struct os *os, const char *dir,
                                const struct run_record *record);
/* The same into the record that is there. NOTFOUND: there is none any more. */
enum tn_status run_record_update(const struct os *os, const char *dir,
                                 const struct run_record *record);
/* NOTFOUND: there is none. CORRUPT: it is torn. */
enum tn_status run_record_read(const struct os *os, const char *dir, struct run_record *ret_record);
/* With the token that lies next to it. */
void run_record_remove(const struct os *os, const char *dir);

/* Replaces a small file of mode 0600 through a temporary name. `uid` and `gid` become its owner; -1: the
 * server's own user. */
enum tn_status run_record_file_replace(const struct os *os, const char *dir, const char *name,
                                       const void *bytes, size_t len, uid_t uid, gid_t gid);

#endif
